"""LoRA adapters as vLLM makes room for them."""

from __future__ import annotations

from kvplan.engines.vllm.spans import holds
from kvplan.engines.vllm.versions import Version, text
from kvplan.errors import UsageError


def lora_rank(asked: int, release: Version) -> int:
    """The least --max-lora-rank of a release that holds adapters of rank `asked`: that much is allocated for each.

    Raises: UsageError where it has none. Source: vLLM 0.33 config/lora.py MaxLoRARanks, lora/layers.
    """
    from kvplan.engines.vllm.flags import LORA_RANKS

    taken = sorted(int(rank) for rank, written in LORA_RANKS.items() if holds(written, release))
    found = next((rank for rank in taken if rank >= asked), None)
    if found is None:
        raise UsageError(
            f"vLLM {text(release)} takes adapters of rank {taken[-1]} at most, not {asked}",
            hint=f"--max-lora-rank {taken[-1]}",
        )
    return found
