"""A model: its layers, its limits, and the numbers that were filled in from defaults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

from kvplan.arch.curve import Curve, StateGroup
from kvplan.arch.formats import Format, KvFormat
from kvplan.arch.layers import Attention, Cache, Compressed, CrossAttention, Latent, Layer, Part, Recurrent
from kvplan.arch.parallel import WHOLE, Parallel, Shard, divisors, stage_layers
from kvplan.arch.quantized import Quantized
from kvplan.arch.weights import Weights
from kvplan.errors import CannotSplit


@dataclass(frozen=True, slots=True)
class Default:
    """A field that the config leaves out, the value used instead, and the source that documents it."""

    field: str
    value: object
    source: str


FEED_FORWARD = ("mlp", "shared_experts", "experts")
"""Components whose matrices tensor ranks share by elements, not by heads."""
ROWS = 64
"""Engines pad vocabularies to a multiple of this many rows before ranks share them."""

DESCRIBED = "kvplan"
"""Family of models described in kvplan's own terms."""

BUNDLED = "bundled: "
"""Prefix of the source of a model that comes with kvplan."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a model's description came from."""

    id: str
    source: str
    revision: str | None = None

    @property
    def bundled(self) -> bool:
        """Whether the model comes with kvplan."""
        return self.source.startswith(BUNDLED)


@dataclass(frozen=True, slots=True)
class Rope:
    """One scaling of rotary positions as the config states it: type, factor, and length of training.

    kind: its type. factor: an int where the config writes one; None where it is absent or unreadable. original: the
    length that the model was trained for. keys: all names that the scaling states, which engines look up by type;
    `factor` only where it can be read. unread: an unreadable factor as it is written, with its type where that isn't
    obvious.
    """

    kind: str
    factor: float | None = None
    original: int | None = None
    keys: tuple[str, ...] = ()
    unread: str | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """Longest sequence that the config justifies, in tokens; None if it justifies none. reason: why.

    Engines derive lengths of their own from the rest. ropes: every scaling of rotary positions. original:
    original_max_position_embeddings where the model's class has one of its own. lengths: every length that the config or
    its class states, by field; None if no config was read.
    """

    tokens: int | None
    reason: str
    ropes: tuple[Rope, ...] = ()
    original: int | None = None
    lengths: tuple[tuple[str, int], ...] | None = None


@dataclass(frozen=True, slots=True)
class Windows:
    """What a config says about sliding windows, whatever its model type.

    tokens: of sliding_window, even where the type's own class has no such field; None for none. kinds: distinct entries
    of layer_types in order; the type's own list where the config has none, empty without either. first:
    max_window_layers. silent: whether only the type's class states the tokens, and the config doesn't.
    """

    tokens: int | None
    kinds: tuple[str, ...] = ()
    first: int | None = None
    silent: bool = False

    @property
    def mixed(self) -> bool:
        """Whether the layers are of several kinds."""
        return len(self.kinds) > 1


@dataclass(frozen=True, slots=True)
class LayerCount:
    """A part that several layers have alike on one rank, and how many."""

    part: Part
    layers: int


@dataclass(frozen=True)
class Model:
    """A model in kvplan's own terms, as its config describes it.

    dtype: format of activations, and of the cache unless another is asked for. kv_hint: the cache format that the
    checkpoint has scales for. draft_layers: multi-token-prediction layers, cached only when they are used.
    architectures: the classes that the config names, in order; empty if it names none. traits: properties that only
    engines use (kvplan.arch.traits). attention_heads: query heads as stated, even where no layer has any, because some
    engines split by that number alone. quantized: what the checkpoint's quantization block states. drafter: another
    model that drafts for this one. intermediate_size: stated width of dense feed-forward layers, for a model whose
    matrices aren't known. windows: what the config says about them, None for a model without a config. whole: model
    type of the whole config; `family` is its language model's. inner_architectures: classes that the language model's
    part of the config names.
    """

    origin: Origin
    family: str
    layers: tuple[Layer, ...]
    dtype: Format
    context: Context
    hidden_size: int | None
    vocab_size: int | None
    kv_hint: KvFormat | None = None
    draft_layers: tuple[Layer, ...] = ()
    weights: Weights | None = None
    defaulted: tuple[Default, ...] = ()
    notes: tuple[str, ...] = field(default=())
    architectures: tuple[str, ...] = ()
    traits: tuple[str, ...] = ()
    attention_heads: int | None = None
    quantized: Quantized | None = None
    drafter: Model | None = None
    intermediate_size: int | None = None
    windows: Windows | None = None
    whole: str = ""
    inner_architectures: tuple[str, ...] = ()

    @property
    def kv_auto(self) -> KvFormat:
        """The cache format that `auto` means: the checkpoint's, or the model's own 16 bit."""
        return self.kv_hint or KvFormat(self.dtype, self.dtype)

    def in_use(self, kv: KvFormat) -> KvFormat:
        """The formats really used: a model of latents stores key and value as one, in the format of keys."""
        together = self.has(Latent, Compressed) and not self.has(Attention, CrossAttention)
        return KvFormat(kv.k, kv.k) if together else kv

    @property
    def vocabulary(self) -> int | None:
        """Rows of the embedding; None where the weights aren't known."""
        tables = (weight for weight in (self.weights.first if self.weights else ()) if weight.component == "embedding")
        return next((weight.shape[0] for weight in tables if weight.split == 0), None)

    @property
    def what_if(self) -> str | None:
        """The format asked about with --weight-dtype; None if the weights are the checkpoint's."""
        return None if self.weights is None else self.weights.asked

    @property
    def query_heads(self) -> tuple[int, ...]:
        """Distinct numbers of query heads. The tensor parallel size must divide each of them."""
        found = {cache.heads for cache, _ in self.distinct if not isinstance(cache, Recurrent)}
        return tuple(sorted(heads for heads in found if heads is not None))

    @cached_property
    def distinct(self) -> tuple[tuple[Cache, int], ...]:
        """Distinct caches and how many layers have each, in order of first appearance."""
        return _counted(self.layers)

    def has(self, *kinds: type[Cache]) -> bool:
        """Whether any layer keeps a cache of one of these kinds."""
        return any(isinstance(cache, kinds) for cache, _ in self.distinct)

    def holder(self, layer: Layer) -> Layer:
        """The layer itself, or the earlier one whose cache it reads."""
        while layer.shares_with is not None:
            layer = self.layers[layer.shares_with]
        return layer

    def stages(self, parallel: Parallel) -> tuple[tuple[Layer, ...], ...]:
        """Layers of each pipeline stage.

        Raises: CannotSplit.
        """
        stages, start = [], 0
        for count in stage_layers(len(self.layers), parallel.pp):
            stages.append(self.layers[start : start + count])
            start += count
        return tuple(stages)

    def rank_curves(self, parallel: Parallel, kv: KvFormat, drafting: tuple[Layer, ...] = ()) -> tuple[Curve, ...]:
        """Growth on one tensor rank of each pipeline stage. drafting: layers added to the last stage.

        Raises: CannotSplit.
        """
        self.check_split(parallel)
        *stages, last = self.stages(parallel)
        return tuple(
            self.curve(kv, parallel.shard, stage) for stage in (*stages, (*last, *drafting) if drafting else last)
        )

    def curve(self, kv: KvFormat, shard: Shard = WHOLE, layers: tuple[Layer, ...] | None = None) -> Curve:
        """Growth of a sequence's cache in `layers` (default: all) on one rank."""
        return Curve(tuple((count.part.group, count.layers) for count in self.parts(kv, shard, layers)))

    def reads(self, kv: KvFormat, shard: Shard = WHOLE, layers: tuple[Layer, ...] | None = None) -> Curve:
        """Cache that one decode step of a sequence reads in `layers` (default: all) on one rank.

        A shared cache counts once for every layer that reads it.
        """
        groups: list[tuple[StateGroup, int]] = []
        read = tuple(self.holder(layer) for layer in (self.layers if layers is None else layers))
        for cache, count in _counted(read):
            groups += [(group, count) for group in cache.reads(shard, kv, self.dtype)]
        return Curve(tuple(groups))

    def parts(
        self, kv: KvFormat, shard: Shard = WHOLE, layers: tuple[Layer, ...] | None = None
    ) -> tuple[LayerCount, ...]:
        """The growth laws of `layers` (default: all) on one rank, with formulas and layer counts."""
        counts: dict[Part, int] = {}
        for cache, count in self._counted(layers):
            for part in cache.parts(shard, kv, self.dtype):
                counts[part] = counts.get(part, 0) + count
        return tuple(LayerCount(part, count) for part, count in counts.items())

    def check_split(self, parallel: Parallel) -> None:
        """Raises: CannotSplit, naming the tensor parallel sizes that divide every layer."""
        if self._splits(parallel.tp):
            return
        heads = self.query_heads
        works = [size for size in divisors(max(heads, default=0) or 64) if self.splits_evenly(size)]
        raise CannotSplit(
            f"--tp {parallel.tp} can't split {self.origin.id}",
            cause=f"its heads are {self._heads_text()}",
            hint=f"tensor parallel sizes that work: {', '.join(map(str, works))}",
        )

    def splits_evenly(self, tp: int) -> bool:
        """Whether `tp` ranks get equal shares of the heads, the padded vocabulary and every feed-forward."""
        rows = self.vocabulary
        if not self._splits(tp) or (rows is not None and -(-rows // ROWS) * ROWS % tp):
            return False
        shared = (weight for layer, _ in (self.weights.distinct if self.weights else ()) for weight in layer)
        return not any(
            (weight.units or weight.shape[weight.split]) % tp
            for weight in shared
            if weight.component in FEED_FORWARD and weight.split is not None
        )

    def _counted(self, layers: tuple[Layer, ...] | None) -> tuple[tuple[Cache, int], ...]:
        return self.distinct if layers is None or layers is self.layers else _counted(layers)

    def _splits(self, tp: int) -> bool:
        if any(heads % tp for heads in self.query_heads):
            return False
        shard = Shard(tp)
        try:
            for cache, _ in self.distinct:
                cache.parts(shard, KvFormat(self.dtype, self.dtype), self.dtype)
        except CannotSplit:
            return False
        return True

    def _heads_text(self) -> str:
        caches = [cache for cache, _ in self.distinct]
        kv = {cache.kv_heads for cache in caches if isinstance(cache, Attention | CrossAttention)}
        state = {
            units for cache in caches if isinstance(cache, Recurrent) for t in cache.tensors for units, _ in t.widths
        }
        named = ((self.query_heads, "query"), (sorted(kv), "KV"), (sorted(state), "state"))
        return ", ".join(f"{_or(counts)} {what}" for counts, what in named if counts)


def _or(numbers: Iterable[int]) -> str:
    return " or ".join(str(number) for number in numbers)


def _counted(layers: tuple[Layer, ...]) -> tuple[tuple[Cache, int], ...]:
    """Distinct caches and how many layers have each, in order of first appearance."""
    same = Counter(map(id, layers))  # layers that are one object are counted without comparing them
    counts: dict[Cache, int] = {}
    for number, layer in dict(zip(map(id, layers), layers, strict=True)).items():
        for cache in layer.caches:
            counts[cache] = counts.get(cache, 0) + same[number]
    return tuple(counts.items())


def map_caches(model: Model, change: Callable[[Cache], Cache]) -> Model:
    """The same model with `change` applied to each cache. Engines and comparisons rewrite models with it.

    Equal layers stay one object. If nothing changes, the model itself is returned.
    """
    made = {number: _changed(layer, change) for number, layer in {id(layer): layer for layer in model.layers}.items()}
    layers = tuple(made[id(layer)] for layer in model.layers)
    same = all(new is old for new, old in zip(layers, model.layers, strict=True))
    return model if same else replace(model, layers=layers)


def _changed(layer: Layer, change: Callable[[Cache], Cache]) -> Layer:
    caches = tuple(change(cache) for cache in layer.caches)
    same = all(new is old for new, old in zip(caches, layer.caches, strict=True))
    return layer if same else Layer(caches, layer.shares_with)
