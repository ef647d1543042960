"""LoRA adapters and draft models, which are served beside a model. Both add weights; a draft also adds cache."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kvplan.arch.model import Model
from kvplan.arch.storage import BF16
from kvplan.arch.traits import TEXT_ALONE, UNDRAFTED
from kvplan.arch.weights import HEAD, TOWERS, Block, Component, Weight, Weights
from kvplan.errors import UnknownName, UsageError


def adapters(weights: Weights, *, rank: int, resident: int = 1, targets: tuple[str, ...] | None = None) -> Weights:
    """The tensors of `resident` LoRA adapters: for each target one of rank x inputs and one of outputs x rank.

        bytes = resident x sum over targets of rank x (inputs + outputs) x bytes of an element

    rank: the largest rank that a slot must hold. targets: last parts of module names (`q_proj`, `lm_head`), None for
    every linear layer except the embedding, the head and routers.

    The result has the model's layers, so it is split over ranks and stages as the model is. Where a layer is split by
    outputs, the second tensor is split; where it is split by inputs, the first. Those of the embedding and the head are
    whole on every rank of the first and last stage.

    Source: LoRA, arXiv:2106.09685; vLLM 0.33 lora/layers, without fully_sharded_loras; its vocab_parallel_embedding.py
    and logits_processor.py.

    Raises: UsageError for a rank or number below 1, or a model whose matrices are unknown; UnknownName for targets that
    the model doesn't have.
    """
    if rank < 1 or resident < 1:
        raise UsageError(f"{resident} adapters of rank {rank} can't be planned", cause="both numbers must be 1 or more")
    if any(len(weight.shape) == 1 for layer in weights.layers for weight in layer if _is_target(weight)):
        raise UsageError(
            "adapters can't be counted",
            cause="the model's description states a number of parameters, not the matrices that adapters belong to",
            hint="give the model's config.json instead",
        )
    known = adaptable(weights)
    wanted = known if targets is None else set(targets)
    unknown = sorted(wanted - known - set(adaptable_ends(weights)))
    if unknown:
        raise UnknownName(
            f"the model has no linear layers called {unknown[0]!r}", hint="it has " + ", ".join(sorted(known))
        )

    def pairs(chosen: Iterable[Weight]) -> Block:
        named = (weight for weight in chosen if weight.last in wanted)
        return tuple(each for weight in named for each in _pair(weight, rank, resident))

    def block(layer: Block) -> Block:
        return pairs(filter(_is_target, layer))

    def end(ends: Block) -> Block:
        return pairs(replace(weight, split=None) for weight in ends if _is_end(weight))

    made: dict[int, Block] = {}
    for layer in weights.layers:
        if id(layer) not in made:
            made[id(layer)] = block(layer)
    layers = tuple(made[id(layer)] for layer in weights.layers)
    return Weights(end(weights.first), layers, end(weights.last), method=f"{resident} adapters of rank {rank}")


def _is_end(weight: Weight) -> bool:
    return weight.linear and weight.component in ("embedding", "head")


def _is_target(weight: Weight) -> bool:
    return weight.linear and weight.component not in ("embedding", "head", "router", "indexer", *TOWERS)


def adaptable(weights: Weights) -> set[str]:
    """Names of the linear layers that adapters can target: the last parts of their names."""
    return {weight.last for block, _ in weights.distinct for weight in block if _is_target(weight)}


def adaptable_ends(weights: Weights) -> dict[str, Component]:
    """The same for the embedding and the head, each with its component."""
    return {weight.last: weight.component for weight in (*weights.first, *weights.last) if _is_end(weight)}


def _pair(weight: Weight, rank: int, resident: int) -> tuple[Weight, Weight]:
    outputs, inputs = weight.shape
    copies = weight.copies * resident
    picked = None if weight.picked is None else min(copies, weight.picked * resident)
    down = Weight(f"{weight.name}.lora_A", (rank, inputs), weight.component, BF16, 1 if weight.split == 1 else None,
                  weight.units if weight.split == 1 else 0, copies, picked, linear=True)  # fmt: skip
    up = Weight(f"{weight.name}.lora_B", (outputs, rank), weight.component, BF16, 0 if weight.split == 0 else None,
                weight.units if weight.split == 0 else 0, copies, picked, linear=True)  # fmt: skip
    return down, up


def without_draft(model: Model) -> Model:
    """The model without its own multi-token-prediction layers, for tokens drafted from the text."""
    weights = model.weights
    return replace(
        model,
        draft_layers=(),
        weights=None if weights is None else replace(weights, draft=()),
        traits=(*model.traits, UNDRAFTED),
        drafter=None,
    )


def without_towers(model: Model) -> Model:
    """The model without its vision and audio encoders, for text alone; the model itself if it has none.

    Unknown weights stay unknown.
    """
    weights = model.weights
    if weights is None:
        return model
    kept = tuple(weight for weight in weights.towers if weight.component not in MEDIA)
    missing = tuple(part for part in weights.missing if not part.startswith(MEDIA))
    if (kept, missing) == (weights.towers, weights.missing):
        return model
    bare = replace(weights, towers=kept, missing=missing, formula_bytes=None)
    return replace(model, weights=bare, traits=(*model.traits, TEXT_ALONE))


MEDIA: tuple[Component, ...] = ("vision", "audio", "projector")
"""Components that serve only images and sound. The names of missing parts begin with these words too."""


def with_draft(model: Model, draft: Model, called: str | None = None) -> Model:
    """The model with a draft model: the draft's layers keep a cache, and all its weights are added.

    called: the name by which a server finds the draft, None for the draft's own id.

    Raises: UsageError if the weights of either model aren't known.
    """
    for one in (model, draft):
        if one.weights is None:
            raise UsageError(
                f"the weights of {one.origin.id} aren't known", hint="give a model with a complete config.json"
            )
    own, small = model.weights, draft.weights
    assert own is not None and small is not None  # noqa: S101, PT018 - looked at above
    last = (weight for weight in small.last if not (small.tied and weight.name == HEAD))
    every = (*small.first, *(weight for layer in small.layers for weight in layer), *last, *small.towers)
    return replace(
        model,
        draft_layers=draft.layers,
        weights=replace(own, draft=every, drafter=called or draft.origin.id, borrowed=small.borrowed),
        drafter=draft,
    )
