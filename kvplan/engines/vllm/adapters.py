"""LoRA adapters as vLLM makes room for them."""

from __future__ import annotations

from dataclasses import replace

from kvplan.arch.extras import adaptable
from kvplan.arch.model import Model
from kvplan.engines.base import Options
from kvplan.engines.vllm.registered import CLASSES
from kvplan.engines.vllm.spans import holds
from kvplan.engines.vllm.versions import Version, text
from kvplan.errors import Unsupported, UsageError


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


def check(model: Model, options: Options, release: Version) -> None:
    """Refuse adapters of a class that a release has no room for.

    Raises: Unsupported. Source: v1/worker/lora_model_runner_mixin.py load_lora_model.
    """
    if not options.max_loras:
        return
    from kvplan.engines.vllm.unadapted import WITHOUT_ADAPTERS

    name = next((name for name in model.architectures if holds(CLASSES.get(name, NEVER), release)), "")
    if holds(WITHOUT_ADAPTERS.get(name, NEVER), release):
        raise Unsupported(
            f"vLLM {text(release)} has no LoRA adapters for {model.origin.id}",
            cause=f"{name} does not support LoRA yet.",
            hint="leave out --max-loras, --max-lora-rank and --lora-targets",
        )


NEVER = ""
TARGETED: Version = (0, 24, 0)
"""The first release whose --lora-target-modules knows the parts of projections that it joins; before it, and before the
flag, there is room for every linear layer."""

JOINED = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"), ("q_a_proj", "kv_a_proj_with_mqa"))
"""Projections that vLLM computes as one, and gives room to together."""


def allocated(options: Options, model: Model, release: Version) -> Options:
    """Options with the rank and the modules that a release makes room for, whatever the adapters need.

    Raises: UsageError where it takes no rank so large. Source: vLLM 0.33 lora/utils.py is_in_target_modules.
    """
    if not options.max_loras:
        return options
    asked, known = options.lora_targets, set() if model.weights is None else adaptable(model.weights)
    if asked is not None:
        beside = {other for group in JOINED if set(group) & set(asked) for other in group} & known
        asked = None if release < TARGETED else tuple(dict.fromkeys((*asked, *sorted(beside))))
    return replace(options, max_lora_rank=lora_rank(options.max_lora_rank, release), lora_targets=asked)
