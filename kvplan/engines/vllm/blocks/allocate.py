"""From cache bytes per GPU to blocks, tokens and concurrency, or to vLLM's refusal.

    blocks      = floor(cache bytes / bytes of one block)           on the pipeline stage where that is least
    concurrency = blocks / blocks one request of max_model_len may hold
    tokens      = floor(concurrency x max_model_len)                since 0.20.1; earlier ones are in TOKEN_LINES

The check that one request fits leaves out one block, which the pool keeps as its null block; the printed figures don't.
Source: vLLM 0.33 v1/core/kv_cache_planning.py, v1/core/kv_cache_utils.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from kvplan.arch.formats import KvFormat
from kvplan.arch.model import Model
from kvplan.arch.search import largest
from kvplan.arch.traits import UNDRAFTED
from kvplan.engines.base import Refusal
from kvplan.engines.vllm.blocks.backends import capability, platform
from kvplan.engines.vllm.blocks.groups import Cached, Layout, layout
from kvplan.engines.vllm.blocks.layers import layer_specs
from kvplan.engines.vllm.blocks.place import Place, stages
from kvplan.engines.vllm.blocks.specs import Spec
from kvplan.engines.vllm.settings import Settings
from kvplan.engines.vllm.starts import refusals
from kvplan.engines.vllm.tables.architectures import draft_longest, packs
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.hardware.gpu import Gpu


@dataclass(frozen=True, slots=True)
class Plan:
    """How one model's cache is laid out, before any memory is known.

    layout: groups and pages. stages: bytes of one block on each pipeline stage. checked: the same, as the check of the
    longest request takes them. request: blocks that the longest request
    may hold. settings, rules: what it was made for. block: tokens of a block of full-length layers. unpadded: each layer
    with its stage, for versions that check layer by layer.
    """

    layout: Layout
    stages: tuple[int, ...]
    checked: tuple[int, ...]
    request: int
    block: int
    settings: Settings
    rules: Rules
    unpadded: tuple[tuple[Spec, int], ...] = ()

    def needed(self, stage: int, length: int) -> int:
        """Bytes that the check asks of a stage for one request of `length` tokens."""
        demand = replace(self.settings.demand, length=length)
        if self.rules.by_layer:
            return sum(spec.page * spec.pages(demand) for spec, holder in self.unpadded if holder == stage)
        return self.checked[stage] * self.layout.blocks(demand)


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
    refusals.check(model, settings, rules, gpu)
    refusals.check_format(model, kv, rules, capability(gpu))
    place = Place(settings, rules, kv, capability(gpu), platform(gpu))
    specs = layer_specs(model, place)
    stage_of = stages(model, settings)
    cached = [Cached(spec, stage_of(index)) for index, layer in enumerate(specs) for spec in layer]
    grouped = not _chunks(cached) or (rules.chunk_groups and not _drafts_by_a_head(model, settings))
    manager = settings.hybrid_manager and rules.groups and grouped
    found = layout(cached, rules, hybrid_manager=manager, packed=packs(model, rules))
    ranks = range(settings.parallel.pp)
    return Plan(
        found,
        stages=tuple(map(found.bytes_per_block, ranks)),
        checked=tuple(map(found.checked_bytes, ranks)),
        request=found.blocks(settings.demand),
        block=_block(found),
        settings=settings,
        rules=rules,
        unpadded=_unpadded(cached, rules),
    )


def pool(made: Plan, available: int) -> Pool | Refusal:
    """What `available` bytes of cache memory on each GPU become."""
    for stage, per_block in enumerate(made.stages):
        refused = _check(made, stage, per_block, available)
        if refused is not None:
            return refused
    blocks = min((available // per_block for per_block in made.stages if per_block), default=1)
    concurrency = blocks / request_blocks(made)
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


def request_blocks(made: Plan) -> int:
    """Blocks of the longest request, as concurrency divides by them; at least one."""
    groups = made.layout.groups
    if not made.rules.first_page or not made.layout.tuples:
        return max(made.request, 1)
    demand, first = made.settings.demand, sum(layer.spec.page for layer in groups[0].layers)
    held = sum(group.pages(demand) * sum(layer.spec.page for layer in group.layers) for group in groups)
    return -(-held // first)


def _check(made: Plan, stage: int, per_block: int, available: int) -> Refusal | None:
    """The startup check of one stage."""
    if not per_block:
        return None
    usable = available - (per_block if made.rules.null_block else 0)
    if usable <= 0:
        return refusals.no_memory(per_block, made.rules)
    needed = made.needed(stage, made.settings.length)
    if needed <= usable:
        return None
    stored = available // per_block * made.block
    return refusals.too_long(
        needed,
        usable,
        made.settings.length,
        made.rules,
        longest=longest(made, stage, usable),
        accepted=longest_everywhere(made, available),
        stored=stored,
    )


def longest_everywhere(made: Plan, available: int) -> int:
    """The longest request that every stage takes and holds with `available` bytes, up to max_model_len; 0 if there is none.

    vLLM's text states the refusing rank's own, which the next rank may refuse.
    """
    withheld = 1 if made.rules.null_block else 0
    return min(
        (
            min(longest(made, stage, available - withheld * per_block), _longest_held(made, available // per_block))
            for stage, per_block in enumerate(made.stages)
            if per_block
        ),
        default=made.settings.length,
    )


def _longest_held(made: Plan, blocks: int) -> int:
    """The longest request that so many blocks hold: a check that adds up layers may take more than they do."""
    if not made.rules.by_layer:
        return made.settings.length
    demand = made.settings.demand
    return largest(lambda length: made.layout.blocks(replace(demand, length=length)) <= blocks, made.settings.length)


def longest(made: Plan, stage: int, usable: int) -> int:
    """The longest request that `usable` bytes of one stage hold, up to max_model_len; 0 if none does."""
    return largest(lambda length: made.needed(stage, length) <= usable, made.settings.length)


def _unpadded(cached: list[Cached], rules: Rules) -> tuple[tuple[Spec, int], ...]:
    """Layers and their stages, for versions whose check adds them up."""
    if not rules.by_layer:
        return ()
    return tuple((layer.spec if rules.chunks_checked else layer.spec.whole, layer.stage) for layer in cached)


def _chunks(cached: list[Cached]) -> bool:
    return any(layer.spec.kind == "chunked" for layer in cached)


def _drafts_by_a_head(model: Model, settings: Settings) -> bool:
    """Whether tokens are drafted from the model's own positions, beside which chunks are kept whole.

    Source: vLLM 0.33 config/vllm.py, need_disable_hybrid_kv_cache_manager.
    """
    return settings.drafted > 0 and draft_longest(model) is None and UNDRAFTED not in model.traits


def _block(found: Layout) -> int:
    """Tokens of a block, as the engine would report it: of the layers that keep every token, else of any."""
    full = [group.block for group in found.groups if any(spec.kind in _KEEPS_ALL for spec in group.specs)]
    return next(iter(full or [group.block for group in found.groups]), 1)


_KEEPS_ALL = ("full", "latent", "indexer")
