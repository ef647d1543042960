"""From cache bytes per GPU to blocks, tokens and concurrency, or to vLLM's refusal.

    blocks      = floor(cache bytes / bytes of one block)           on the pipeline stage where that is least
    concurrency = blocks / blocks one request of max_model_len may hold
    tokens      = floor(concurrency x max_model_len)                since 0.21; before, blocks / groups x block size

The check that one request fits leaves out one block, which the pool keeps as its null block; the printed figures don't.
Source: vLLM 0.33 v1/core/kv_cache_planning.py, v1/core/kv_cache_utils.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from kvplan.arch.formats import KvFormat
from kvplan.arch.layers import Compressed
from kvplan.arch.model import Model
from kvplan.engines.base import Refusal
from kvplan.engines.vllm import refusals
from kvplan.engines.vllm.backends import major
from kvplan.engines.vllm.groups import Cached, Layout, layout
from kvplan.engines.vllm.layers import Place, layer_specs
from kvplan.engines.vllm.settings import Settings
from kvplan.engines.vllm.specs import Spec
from kvplan.engines.vllm.versions import Rules
from kvplan.hardware.gpu import Gpu


@dataclass(frozen=True, slots=True)
class Plan:
    """How one model's cache is laid out, before any memory is known.

    layout: groups and pages. stages: bytes of one block on each pipeline stage. request: blocks that the longest request
    may hold. settings, rules: what it was made for. block: tokens of a block of full-length layers.
    """

    layout: Layout
    stages: tuple[int, ...]
    request: int
    block: int
    settings: Settings
    rules: Rules

    def blocks_for(self, length: int) -> int:
        """Blocks that a request of `length` tokens may hold."""
        return self.layout.blocks(replace(self.settings.demand, length=length))


@dataclass(frozen=True, slots=True)
class Pool:
    """The pool that vLLM would print.

    blocks: of the whole pool. tokens, concurrency: as printed. bytes_per_block: on the fullest stage.
    """

    blocks: int
    tokens: int
    concurrency: float
    bytes_per_block: int


def plan(model: Model, gpu: Gpu | None, kv: KvFormat, settings: Settings, rules: Rules) -> Plan:
    """Lay the cache out.

    Raises: UsageError, CannotSplit where vLLM would not start whatever the memory.
    """
    refusals.check(model, settings, rules)
    place = Place(settings, rules, kv, major(gpu))
    specs = layer_specs(model, place)
    stage_of = _stages(model, settings)
    cached = [Cached(spec, stage_of(index)) for index, layer in enumerate(specs) for spec in layer]
    found = layout(cached, hybrid_manager=settings.hybrid_manager and rules.groups, packed=_packs(model))
    stages = tuple(found.bytes_per_block(stage) for stage in range(settings.parallel.pp))
    return Plan(found, stages, found.blocks(settings.demand), _block(found), settings, rules)


def pool(made: Plan, available: int) -> Pool | Refusal:
    """What `available` bytes of cache memory on each GPU become."""
    for per_block in made.stages:
        refused = _check(made, per_block, available)
        if refused is not None:
            return refused
    blocks = min((available // per_block for per_block in made.stages if per_block), default=1)
    concurrency = blocks / made.request if made.request else float(blocks)
    return Pool(blocks, tokens_line(made, blocks, concurrency), concurrency, max(made.stages))


def tokens_line(made: Plan, blocks: int, concurrency: float) -> int:
    """Tokens of the "GPU KV cache size" line, as the version counts them."""
    return TOKEN_LINES[made.rules.token_line](made, blocks, concurrency)


def _over_groups(made: Plan, blocks: int, concurrency: float) -> int:
    del concurrency
    groups = made.layout.groups
    return (
        blocks // max(len(groups), 1) * min((group.block for group in groups), default=1) * made.settings.parallel.dcp
    )


TOKEN_LINES: dict[str, Callable[[Plan, int, float], int]] = {
    "blocks": lambda made, blocks, _: blocks * made.block,
    "smallest_group": _over_groups,
    "concurrency": lambda made, _, concurrency: int(concurrency * made.settings.length),
}


def _check(made: Plan, per_block: int, available: int) -> Refusal | None:
    """The startup check of one stage."""
    usable = available - (per_block if made.rules.null_block else 0)
    if usable <= 0 and per_block:
        return refusals.no_memory(usable)
    needed = per_block * made.request
    if needed <= usable:
        return None
    return refusals.too_long(needed, usable, made.settings.length, longest(made, per_block, usable))


def longest(made: Plan, per_block: int, usable: int) -> int:
    """The longest request that `usable` bytes of one stage hold, up to max_model_len; 0 if none does."""
    if not per_block:
        return made.settings.length
    limit = usable // per_block
    low, high = 0, made.settings.length
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if made.blocks_for(middle) <= limit else (low, middle - 1)
    return low


def _stages(model: Model, settings: Settings) -> Callable[[int], int]:
    """Which stage holds a layer; draft layers are on the last."""
    sizes = [len(stage) for stage in model.stages(settings.parallel)]
    ends = [sum(sizes[: index + 1]) for index in range(len(sizes))]
    return lambda layer: next((stage for stage, end in enumerate(ends) if layer < end), len(sizes) - 1)


def _packs(model: Model) -> bool:
    """Whether pages of different sizes lie side by side in a block."""
    return any(isinstance(cache, Compressed) for layer in model.layers for cache in layer.caches)


def _block(found: Layout) -> int:
    """Tokens of a block, as the engine would report it: of the layers that keep every token, else of any."""
    full = [group.block for group in found.groups if any(spec.kind in _KEEPS_ALL for spec in group.specs)]
    return next(iter(full or [group.block for group in found.groups]), 1)


_KEEPS_ALL = ("full", "latent", "indexer")


def specs_of(found: Layout) -> set[Spec]:
    """Distinct specs of a layout."""
    return {spec for group in found.groups for spec in group.specs}
