"""Which layers share a block table, and what one block of the pool costs.

Every group of layers draws blocks from one pool, so all groups' blocks are equally large: pages are made equal and
groups are cut to nearly equal numbers of layers. Source: vLLM 0.33 v1/core/kv_cache_planning.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

from kvplan.engines.vllm.blocks.specs import FULL_LENGTH, WINDOWS, Demand, Kind, Spec
from kvplan.engines.vllm.tables.rules import Rules, Stride
from kvplan.errors import UsageError, WontStart


@dataclass(frozen=True, slots=True)
class Cached:
    """One layer's spec and the pipeline stage that holds it."""

    spec: Spec
    stage: int = 0


@dataclass(frozen=True, slots=True)
class Group:
    """Layers with one block table. specs: the distinct ones, found once because lengths are searched with them."""

    layers: tuple[Cached, ...]
    specs: frozenset[Spec] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        distinct = {
            id(layer.spec): layer.spec for layer in self.layers
        }  # most are one object; hashing them takes longer
        object.__setattr__(self, "specs", frozenset(distinct.values()))

    @property
    def block(self) -> int:
        """Tokens of a block."""
        return self.layers[0].spec.block

    def pages(self, demand: Demand) -> int:
        """Blocks that the longest request may hold in this group."""
        return max(spec.pages(demand) for spec in self.specs)


@dataclass(frozen=True, slots=True)
class Layout:
    """Groups, and how their pages lie: side by side within a block where they may differ in size.

    tuples: whether the check of the longest request counts whole tuples, whatever a block has.
    """

    groups: tuple[Group, ...]
    tuples: bool = False
    stride: Stride = "overlaid"

    def bytes_per_block(self, stage: int) -> int:
        """Bytes of one block of the pool on one stage."""
        return STRIDES[self.stride](self._pages(stage))

    def checked_bytes(self, stage: int) -> int:
        """The same, as the check of the longest request takes it.

        Source: vLLM 0.23 to 0.28 v1/core/kv_cache_utils.py _max_memory_usage_bytes_from_groups.
        """
        return _tuple_bytes(self._pages(stage)) if self.tuples else self.bytes_per_block(stage)

    def blocks(self, demand: Demand) -> int:
        """Blocks of the pool that the longest request may hold."""
        return sum(group.pages(demand) for group in self.groups)

    def _pages(self, stage: int) -> list[Counter[int]]:
        """How many pages of each size a block of each group has on one stage."""
        return [Counter(layer.spec.page for layer in group.layers if layer.stage == stage) for group in self.groups]


def _tuple_bytes(groups: Sequence[Counter[int]]) -> int:
    """One page of each size that full-length layers have, as often as any group has pages of one size."""
    return sum(groups[0]) * max((count for pages in groups for count in pages.values()), default=0)


def _slot_bytes(groups: Sequence[Counter[int]]) -> int:
    """Of each size as many pages as any group has."""
    return _page_bytes(reduce(or_, groups))  # the larger count of both


def _page_bytes(pages: Counter[int]) -> int:
    return sum(page * count for page, count in pages.items())


STRIDES: Mapping[Stride, Callable[[Sequence[Counter[int]]], int]] = {
    "tuples": _tuple_bytes,
    "slots": _slot_bytes,
    "overlaid": lambda groups: max(map(_page_bytes, groups), default=0),
}
"""Bytes of one block, from the pages of each group."""


def layout(layers: Sequence[Cached], rules: Rules, *, hybrid_manager: bool, packed: bool) -> Layout:
    """Group the layers as vLLM would.

    Raises: UsageError when pages can't be made equal, or layers be dealt out; WontStart where vLLM asserts what they aren't.
    """
    if not hybrid_manager:
        layers = promoted(layers)
    if not layers:
        return Layout(())
    if len({layer.spec.family for layer in layers}) == 1:
        return Layout((Group(tuple(layers)),))
    if packed and len({layer.spec.page for layer in layers}) > 1:
        if rules.tuples:
            padded = rules.stride != "overlaid"
            return Layout(tuple(_tuples(layers, padded=padded)), tuples=True, stride=rules.stride)
        return Layout(tuple(_packed(layers)))
    return Layout(tuple(_cut(_equal_pages(layers), rules.unbalanced)))


def promoted(layers: Sequence[Cached]) -> Sequence[Cached]:
    """Windows and chunks given blocks for every token, as without the hybrid manager.

    Raises: UsageError where recurrent layers stand beside them: they can't be.
    """
    families = {layer.spec.family for layer in layers}
    if len(families) <= 1:
        return layers
    full = {layer.spec.block for layer in layers if layer.spec.kind in FULL_LENGTH}
    block = full.pop() if len(full) == 1 else None
    changed = [Cached(_as_full(layer.spec, block), layer.stage) for layer in layers]
    if len({layer.spec.family for layer in changed}) > 1:
        raise UsageError(
            "vLLM can't run this model without its hybrid KV cache manager",
            cause="its layers keep caches of kinds that can't all be given blocks for every token",
            hint="leave out --disable-hybrid-kv-cache-manager, and KV connectors and events that turn it off",
        )
    return changed


def _as_full(spec: Spec, block: int | None) -> Spec:
    if spec.kind in (*WINDOWS, "chunked"):
        kind: Kind = "latent" if spec.kind == "sliding_latent" else "full"
        wide = spec.with_block(block or spec.block)
        return Spec(kind, wide.block, wide.state, wide.page, wide.identity, wide.span, alignment=wide.alignment)
    return spec


def _equal_pages(layers: Sequence[Cached]) -> list[Cached]:
    """Pages made equal to the largest: by longer blocks where that divides, else by padding.

    Raises: UsageError for latents, whose pages can't be padded.
    """
    largest = max(layer.spec.page for layer in layers)
    made: dict[int, Spec] = {}
    for layer in layers:
        if id(layer.spec) not in made:
            made[id(layer.spec)] = _grown(layer.spec, largest)
    return [Cached(made[id(layer.spec)], layer.stage) for layer in layers]


def _grown(spec: Spec, page: int) -> Spec:
    if spec.page == page:
        return spec
    if spec.kind != "state" and page % spec.page == 0:
        return spec.with_block(spec.block * (page // spec.page))
    if spec.kind in ("latent", "indexer", "sliding_latent"):
        raise UsageError(
            "vLLM can't give these layers pages of one size",
            cause=f"a latent's page of {spec.page:,} B doesn't divide the largest, {page:,} B",
        )
    return spec.padded(page)


def _cut(layers: Sequence[Cached], unbalanced: float) -> Iterable[Group]:
    """Kinds of layers, each cut into groups of about the smallest kind's number of layers, dealt in turn."""
    buckets = _buckets(layers, lambda spec: spec.bucket)
    counts = [len(bucket) for bucket in buckets.values()]
    size = max(counts) if max(counts) < min(counts) * unbalanced else min(counts)
    for bucket in buckets.values():
        parts = -(-len(bucket) // size)
        for part in range(parts):
            yield Group(tuple(bucket[part::parts]))


def _buckets(layers: Iterable[Cached], key: Callable[[Spec], Hashable]) -> Mapping[Hashable, list[Cached]]:
    found: dict[Hashable, list[Cached]] = {}
    for layer in layers:
        found.setdefault(key(layer.spec), []).append(layer)
    return found


# Packed pages


def _tuples(layers: Sequence[Cached], *, padded: bool) -> Iterable[Group]:
    """The older way: windows are cut into as many layers as full-length layers have pages of one size.

    padded: whether windows are padded to the page sizes of full-length layers. Source: vLLM 0.20 to 0.28
    v1/core/kv_cache_utils.py _get_kv_cache_groups_uniform_groups.

    Raises: WontStart for windows that no page is large enough for.
    """
    full = [layer for layer in layers if layer.spec.kind in FULL_LENGTH]
    windows = [layer for layer in layers if layer.spec.kind in WINDOWS]
    if padded:
        windows = _padded(windows, full)
    packs = [_Pack(_by_page(bucket), bucket[0].spec) for bucket in _buckets(windows, lambda spec: spec.family).values()]
    whole = _Pack(_by_page(full), full[0].spec)
    run = least_padding([whole.repeats, *(pack.repeats for pack in packs)], whole.repeats)
    yield Group(tuple(full))
    for pack in packs:
        yield from pack.cut(-(-pack.repeats // run))


def _padded(windows: Sequence[Cached], full: Sequence[Cached]) -> list[Cached]:
    """Windows padded to the least page of full-length layers that holds theirs.

    Raises: WontStart.
    """
    pages = sorted({layer.spec.page for layer in full})
    widest = max((layer.spec.page for layer in windows), default=0)
    if widest > pages[-1]:
        raise WontStart(
            f"blocks of {full[0].spec.block} tokens are too small for the model's windows",
            cause=f"a window's page has {widest:,} bytes and the largest of compressed entries {pages[-1]:,}: vLLM asserts that "
            "windows have none larger",
            hint="leave --block-size out, or --engine vllm@0.27.0",
        )
    return [
        Cached(layer.spec.padded(min(page for page in pages if page >= layer.spec.page)), layer.stage)
        for layer in windows
    ]


@dataclass(frozen=True, slots=True)
class _Pack:
    """Layers that may share a group whatever their pages, by page size."""

    by_page: Mapping[int, list[Cached]]
    spec: Spec

    @property
    def layers(self) -> list[Cached]:
        return [layer for layers in self.by_page.values() for layer in layers]

    @property
    def repeats(self) -> int:
        return max(len(layers) for layers in self.by_page.values())

    @property
    def balanced(self) -> bool:
        return len({len(layers) for layers in self.by_page.values()}) == 1

    def widest(self, parts: int) -> int:
        return sum(-(-len(layers) // parts) * page for page, layers in self.by_page.items())

    def cut(self, parts: int) -> Iterable[Group]:
        """Groups with equally many layers of each page size, dealt in turn.

        Raises: UsageError for layers that can't be dealt so. vLLM 0.20 to 0.28 asserts that there are equally many
        (_get_kv_cache_groups_uniform_groups), 0.33 that each is in a group (_check_exact_partition).
        """
        if not self.balanced:
            counts = ", ".join(f"{len(layers)} of {page:,} B" for page, layers in self.by_page.items())
            raise UsageError(
                "vLLM can't deal this model's layers into groups",
                cause=f"those that may share one have pages of several sizes, and not equally many of each: {counts}",
                hint="--engine ideal",
            )
        rows = list(zip(*self.by_page.values(), strict=True))
        for part in range(parts):
            yield Group(tuple(layer for row in rows[part::parts] for layer in row))


def _packed(layers: Sequence[Cached]) -> Iterable[Group]:
    """Groups whose differing pages lie side by side; a repeating pattern of pages is cut into equal runs."""
    packs = [_Pack(_by_page(bucket), bucket[0].spec) for bucket in _buckets(layers, lambda spec: spec.family).values()]
    balanced = [pack for pack in packs if pack.balanced]
    floor = max((pack.repeats for pack in balanced if len(pack.by_page) > 1), default=0)
    run = least_padding([pack.repeats for pack in balanced], floor) if floor else None
    parts = [-(-pack.repeats // run) if pack.balanced and run else 1 for pack in packs]
    loose = [pack.spec.kind == "state" or (run is None and pack.spec.kind in WINDOWS) for pack in packs]
    anchor = max(
        pack.widest(len(pack.layers) if is_loose else count)
        for pack, count, is_loose in zip(packs, parts, loose, strict=True)
    )
    for pack, count, is_loose in zip(packs, parts, loose, strict=True):
        fitting = max(anchor // pack.spec.page, 1) if is_loose else len(pack.layers)
        cuts = max(count, -(-len(pack.layers) // fitting))
        yield from (Group(tuple(pack.layers)),) if cuts == 1 else pack.cut(cuts)


def _by_page(layers: Iterable[Cached]) -> Mapping[int, list[Cached]]:
    found: dict[int, list[Cached]] = {}
    for layer in layers:
        found.setdefault(layer.spec.page, []).append(layer)
    return found


def least_padding(counts: Sequence[int], least: int) -> int:
    """The run length from `least`, one of them, up that pads `counts` least when each is rounded up to it; the longest of equals."""
    return min(range(least, max(counts) + 1), key=lambda run: (sum(-count % run for count in counts), -run))
