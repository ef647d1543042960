"""LoRA adapters as vLLM makes room for them."""

from __future__ import annotations

from dataclasses import replace

from kvplan.arch.extras import adaptable, adaptable_ends
from kvplan.arch.model import Model
from kvplan.arch.weights import Component, Weights
from kvplan.engines.base import Options
from kvplan.engines.vllm.tables.registered import CLASSES
from kvplan.engines.vllm.tables.spans import holds
from kvplan.engines.vllm.tables.versions import Version, text
from kvplan.errors import Unsupported, UsageError


def lora_rank(asked: int, release: Version) -> int:
    """The least --max-lora-rank of a release that holds adapters of rank `asked`: that much is allocated for each.

    Raises: UsageError where it has none. Source: vLLM 0.33 config/lora.py MaxLoRARanks, lora/layers.
    """
    from kvplan.engines.vllm.tables.flags import LORA_RANKS

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
    from kvplan.engines.vllm.tables.unadapted import WITHOUT_ADAPTERS

    name = _registered(model, release)
    if holds(WITHOUT_ADAPTERS.get(name, NEVER), release):
        raise Unsupported(
            f"vLLM {text(release)} has no LoRA adapters for {model.origin.id}",
            cause=f"{name} does not support LoRA yet.",
            hint="leave out --max-loras, --max-lora-rank and --lora-targets",
        )
    _check_head(model, options, release)


LARGEST_HEADS: tuple[tuple[Version, int, str], ...] = (
    ((0, 17, 0), 258_048, "When using LoRA, vocab size must be <= 258048"),
    ((0, 0, 0), 257_024, "When using LoRA, vocab size must be 32000 >= vocab_size <= 257024"),
)
"""The largest vocabulary whose head is adapted, newest releases first, and what they say of a larger one.

Source: vLLM 0.33 and 0.18.1 lora/layers/logits_processor.py; vllm-project/vllm pull requests 7146, 34773 and 35354.
"""


def _check_head(model: Model, options: Options, release: Version) -> None:
    """Refuse a vocabulary whose head is too large to be adapted, where it would be.

    Raises: Unsupported. Source: lora/layers/logits_processor.py create_lora_weights.
    """
    most, words = next((most, words) for first, most, words in LARGEST_HEADS if release >= first)
    if model.weights is None or model.vocabulary is None or model.vocabulary <= most:
        return
    heads = {name for name, end in adaptable_ends(model.weights).items() if end == "head"}
    named = options.lora_targets is not None and release >= TARGETED
    adapted = heads & set(options.lora_targets or ()) if named else heads
    if adapted and "head" in adapted_ends(model, release):
        others = ",".join(sorted(adaptable(model.weights)))
        raise Unsupported(
            f"vLLM {text(release)} has no LoRA adapters for the head of {model.origin.id}: {model.vocabulary:,} tokens",
            cause=words,
            hint=f"--lora-targets {others}" if release >= TARGETED else "leave out --max-loras and --max-lora-rank",
        )


NEVER = ""
TARGETED: Version = (0, 24, 0)
"""The first release whose --lora-target-modules knows the parts of projections that it joins; before it, and before the
flag, there is room for every linear layer."""

JOINED = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"), ("q_a_proj", "kv_a_proj_with_mqa"))
"""Projections that vLLM computes as one, and gives room to together."""


def allocated(options: Options, model: Model, release: Version) -> Options:
    """Options with the rank and the modules that a release makes room for, whatever the adapters need.

    Raises: UsageError where it takes no rank so large. Source: vLLM 0.33 lora/utils.py is_in_target_modules and
    get_supported_lora_modules.
    """
    if not options.max_loras:
        return options
    targets = options.lora_targets
    if model.weights is not None:
        named = targets is not None and release >= TARGETED
        targets = _beside(targets or (), model.weights) if named else _every(model, model.weights, release)
    return replace(options, max_lora_rank=lora_rank(options.max_lora_rank, release), lora_targets=targets)


def _beside(asked: tuple[str, ...], weights: Weights) -> tuple[str, ...]:
    """The modules named, and those computed as one with them."""
    joined = {other for group in JOINED if set(group) & set(asked) for other in group} & adaptable(weights)
    return tuple(dict.fromkeys((*asked, *sorted(joined))))


def _every(model: Model, weights: Weights, release: Version) -> tuple[str, ...] | None:
    """Every linear layer (None), or their names with the ends of the model that its class adapts."""
    ends = [name for name, end in adaptable_ends(weights).items() if end in adapted_ends(model, release)]
    return (*sorted(adaptable(weights)), *ends) if ends else None


def adapted_ends(model: Model, release: Version) -> tuple[Component, ...]:
    """Ends of the model that its class adapts, as far as the class says.

    Source: embedding_modules of vLLM's classes, release by release.
    """
    from kvplan.engines.vllm.tables.adapted_ends import EMBEDDING, HEAD

    name = _registered(model, release)
    tables: tuple[tuple[Component, dict[str, str]], ...] = (("embedding", EMBEDDING), ("head", HEAD))
    return tuple(end for end, table in tables if holds(table.get(name, NEVER), release))


def unsure_ends(model: Model, release: Version) -> bool:
    """Whether a class may adapt more ends than are known: one of no release, or whose language model a config names."""
    from kvplan.engines.vllm.tables.adapted_ends import OPEN

    name = _registered(model, release)
    return not name or holds(OPEN.get(name, NEVER), release)


def _registered(model: Model, release: Version) -> str:
    """The first class of the config that a release registers; none where there is none."""
    return next((name for name in model.architectures if holds(CLASSES.get(name, NEVER), release)), "")
