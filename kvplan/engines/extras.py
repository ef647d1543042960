"""What is served beside a model takes room beside its weights: LoRA adapters, and the layers that draft.

An engine counts both as weights: they are loaded before the cache is measured.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from kvplan.arch.extras import adapters
from kvplan.arch.model import Model
from kvplan.arch.parallel import Parallel
from kvplan.arch.weights import PLAIN, View, Weights
from kvplan.engines.base import Options, Range, Term
from kvplan.errors import UsageError


class Held(NamedTuple):
    """Bytes on the fullest GPU: of the model's own weights, and of each of the extras, by name, on the same GPU."""

    model: int
    extras: tuple[Term, ...]

    @property
    def bytes(self) -> int:
        """All of them."""
        return self.model + sum(term.bytes.likely for term in self.extras)

    @property
    def borrowed(self) -> int:
        """Bytes that the extras may be more."""
        return sum(term.bytes.high - term.bytes.likely for term in self.extras)


def held(weights: Weights, parallel: Parallel, options: Options, view: View = PLAIN) -> Held:
    """What the fullest GPU holds: adapters go with their layers, drafting layers with the last pipeline stage.

    Raises: UsageError, UnknownName for adapters that the model has no layers for.
    """
    tuned = _adapters(weights, options)
    stages = []
    for stage in range(parallel.pp):
        extras = []
        if tuned is not None:
            extras.append(adapters_term(tuned.bytes_on_rank(parallel, stage), options))
        if options.speculative_tokens and weights.draft and stage == parallel.pp - 1:
            extras.append(_draft(weights, parallel, view, options))
        stages.append(Held(weights.bytes_on_rank(parallel, stage, view), tuple(extras)))
    return max(stages, key=lambda found: found.bytes)


def beside(model: Model, parallel: Parallel, options: Options) -> tuple[Term, ...]:
    """Extras beside weights that were given by hand: adapters, and a draft model, whose bytes were not in what was given.

    Raises: UsageError if the model's layers aren't known.
    """
    drafted = options.speculative_tokens and model.drafter is not None
    if not options.max_loras and not drafted:
        return ()
    if model.weights is None:
        raise UsageError(f"adapters and drafts of {model.origin.id} need its weights, which aren't known")
    found = held(model.weights, parallel, options).extras
    return tuple(term for term in found if term.name == ADAPTERS or drafted)


ADAPTERS, DRAFT = "adapters", "draft"


def adapters_term(size: int, options: Options) -> Term:
    """Room for the adapters that may be resident at once."""
    where = "every linear layer" if options.lora_targets is None else ", ".join(options.lora_targets)
    return Term(
        ADAPTERS,
        Range.exactly(size),
        f"{options.max_loras} x rank {options.max_lora_rank} x (inputs + outputs) of {where} x 2 B",
        "LoRA, arXiv:2106.09685; split as the layers are: vLLM 0.33 lora/layers",
    )


def _draft(weights: Weights, parallel: Parallel, view: View, options: Options) -> Term:
    """Weights of the layers that draft: at most with the ends that they borrow, which are built before they are shared.

    Stages share no embedding. Source: vLLM 0.33 v1/spec_decode/llm_base_proposer.py _maybe_share_embeddings.
    """
    least, ends = weights.draft_bytes_on_rank(parallel, view), weights.borrowed_bytes_on_rank(parallel, view)
    likely = least + (ends if parallel.pp > 1 else 0)
    term = draft_term(weights, likely, options)
    return replace(term, bytes=Range(least, likely, least + ends))


def draft_term(weights: Weights, size: int, options: Options) -> Term:
    """Weights of the layers that draft."""
    whose = weights.drafter or "the model's own prediction layers"
    formula = f"{whose}, {weights.draft_total:,} parameters, {options.speculative_tokens} tokens a step"
    return Term(DRAFT, Range.exactly(size), formula, "on the last pipeline stage")


def _adapters(weights: Weights, options: Options) -> Weights | None:
    if not options.max_loras:
        return None
    return adapters(weights, rank=options.max_lora_rank, resident=options.max_loras, targets=options.lora_targets)
