"""The parameters of a model: how many there are, which of them a step reads, and how ranks share them.

    Weight     one tensor (arch/weight.py)
    Weights    all of them by layer: parameters, bytes on a rank, bytes that a step reads

Layers with equal tensors share one tuple, so that everything is computed once per distinct layer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from typing import Literal, NamedTuple, Protocol

from kvplan.arch.parallel import Parallel, stage_layers
from kvplan.arch.storage import BF16, DTYPES, FP16, FP32, Storage
from kvplan.arch.weight import HEAD, PLAIN, TOWERS, Block, Component, View, Weight, matrix
from kvplan.text import ending

__all__ = [
    "BEYOND_LLAMA", "BF16", "DTYPES", "FP16", "FP32", "HEAD", "PLAIN", "TOWERS", "Basis", "Block", "Component", "Kept", "Reads", "Storage", "View", "Weight", "Weights", "matrix",
]  # fmt: skip

Basis = Literal["config", "headers", "what_if"]
"""What bytes are computed from: the config, the checkpoint's own headers, or a format asked about."""

WHAT_IF = "what if "
"""Prefix of `method` for weights in a format other than their own."""


class Reads(NamedTuple):
    """Bytes of weights that a step reads: at least, expected, at most."""

    low: int
    likely: int
    high: int


UNSURE_HEAD = "head of its own, if the checkpoint has one"
"""What is missing if only the checkpoint can say whether the head is the embedding."""

OWN_EMBEDDING = "embedding of its own, if the checkpoint has one"
OWN_ENDS = "embedding and head of its own, if the checkpoint has them"
"""What is missing from a draft that uses its target's embedding and head."""

BEYOND_LLAMA = "beyond Llama's tensors"
"""Suffix of what is missing if only sizes are known and the tensors are assumed to be Llama's."""

UNLISTED = "modules that quantization_config names and kvplan doesn't know"
"""What is missing if a list of exceptions has names that match no tensor."""


class Kept(Protocol):
    """The format of a whole model's weights: one storage, or a mix of several."""

    @property
    def name(self) -> str:
        """Its name for --weight-dtype."""

    def chooser(self, weights: Weights) -> Callable[[Weight, int | None], Storage]:
        """The storage of each weight by the number of its layer, which is None outside the layers."""


ONE_GPU = Parallel()


POSITION_TABLES = ("embed_positions", "position_embeddings", "wpe")
"""Names of a decoder's position tables, learned or fixed."""

CAUSAL_MASK = "causal_mask"
"""Name of a causal mask that some of Transformers' modules keep as a table."""


@dataclass(frozen=True)
class Weights:
    """Every tensor of a model."""

    first: Block
    """Before the first layer: embeddings."""
    layers: tuple[Block, ...]
    """One block for each layer; equal layers are the same tuple."""
    last: Block
    """After the last layer: final norm, head."""
    towers: Block = ()
    """Vision, audio and encoder towers, and their projectors."""
    draft: Block = ()
    """Layers used only by speculative decoding. They are kept apart from everything else."""
    borrowed: Block = ()
    """What a draft uses of its target (embedding, head) unless its checkpoint has its own; counted nowhere."""
    tables: Block = ()
    """Tables of rotary positions and masks: no parameters, but some engines keep them on every rank."""
    tied: bool = False
    """Whether the head is the embedding."""
    missing: tuple[str, ...] = ()
    """Components that couldn't be derived from the config, by name. Every count is then a lower bound."""
    method: str = ""
    """The quantization method, or the format asked about."""
    files: int = 0
    """Number of checkpoint files whose headers gave the bytes."""
    formula_bytes: int | None = None
    """Bytes by the config's formula, if headers gave the bytes."""
    contradicted: bool = False
    """Whether the headers have shapes other than the config's, so that counts from it aren't the files'."""
    rounding: int = 0
    """Parameters by which a rounded count may be off, either way."""
    drafter: str | None = None
    """The model that `draft` belongs to, by the name that a server finds it by; None for the model's own prediction
    layers.
    """

    @property
    def positions(self) -> int | None:
        """Rows of the position table, which limit the length; None if there is no table."""
        found = (weight for weight in self.first if weight.component == "embedding")
        return next((weight.shape[0] for weight in found if weight.last in POSITION_TABLES), None)

    @property
    def exact(self) -> bool:
        """Whether nothing is missing or rounded, and no file contradicts the config."""
        return not self.missing and not self.contradicted and not self.rounding

    @property
    def supposed(self) -> bool:
        """Whether only sizes are known for this family, and the tensors are assumed to be Llama's."""
        return any(name.endswith(BEYOND_LLAMA) for name in self.missing)

    @property
    def basis(self) -> Basis:
        """What the bytes were computed from."""
        if self.files:
            return "headers"
        return "config" if self.asked is None else "what_if"

    @property
    def asked(self) -> str | None:
        """The format asked about; None if the weights are as published."""
        return self.method.removeprefix(WHAT_IF) if self.method.startswith(WHAT_IF) else None

    @property
    def found_by(self) -> str:
        """How the bytes were found: "headers of 2 files", or the method."""
        return f"headers of {self.files} file{ending(self.files)}" if self.files else self.method

    @property
    def whole(self) -> bool:
        """Whether the bytes are complete: headers include parts that the config doesn't describe."""
        return self.exact or self.basis == "headers"

    @property
    def unsure_head(self) -> bool:
        """Whether the files are needed to know if the head is the embedding."""
        return UNSURE_HEAD in self.missing and self.basis != "headers"

    @cached_property
    def distinct(self) -> tuple[tuple[Block, int], ...]:
        """Distinct layers and how many there are of each."""
        return _counted(self.layers)

    @property
    def routes(self) -> bool:
        """Whether a layer routes tokens to some of its experts."""
        return any(weight.routed for layer, _ in self.distinct for weight in layer)

    @cached_property
    def total(self) -> int:
        """Parameters. A tied head counts once; draft layers don't count."""
        return sum(weight.parameters * count for weight, count in self._once())

    @cached_property
    def active(self) -> int:
        """Parameters that one text token uses: all but towers and the experts that it isn't routed to."""
        return sum(weight.active * count for weight, count in self._once() if weight.component not in TOWERS)

    @property
    def draft_total(self) -> int:
        """Parameters of the draft layers."""
        return sum(weight.parameters for weight in self.draft)

    def by_component(self) -> dict[Component, int]:
        """Parameters of each component; draft layers separately, under "draft"."""
        counts: dict[Component, int] = {}
        for weight, count in self._once():
            counts[weight.component] = counts.get(weight.component, 0) + weight.parameters * count
        if self.draft:
            counts["draft"] = self.draft_total
        return counts

    @cached_property
    def bytes(self) -> int:
        """Bytes of one copy of the model in its own format, without draft layers."""
        return sum(weight.bytes * count for weight, count in self._once())

    def bytes_on_rank(self, parallel: Parallel, stage: int = 0, view: View = PLAIN) -> int:
        """Bytes on one tensor rank of a pipeline stage.

        Towers and the embedding sit on the first stage, the head on the last; a tied head is a second copy there when
        the stages differ (vLLM 0.33 model_executor/models/llama.py).

        Raises: CannotSplit if there are more stages than layers.
        """
        blocks = [*self._stage_counts(parallel, stage), (self._ends(parallel, stage, view), 1)]
        held = sum(count * sum(weight.bytes_on_rank(parallel, view) for weight in block) for block, count in blocks)
        return held if view.wasted is None else held + view.wasted(self._stage_layers(parallel, stage), parallel)

    def borrowed_bytes_on_rank(self, parallel: Parallel, view: View = PLAIN) -> int:
        """Bytes that a draft adds beside its own layers if it borrows nothing, on one tensor rank of the last stage."""
        return sum(weight.bytes_on_rank(parallel, view) for weight in self.borrowed)

    def draft_bytes_on_rank(self, parallel: Parallel, view: View = PLAIN) -> int:
        """Bytes of the draft layers on one tensor rank of the last stage."""
        return sum(weight.bytes_on_rank(parallel, view) for weight in self.draft)

    def read_bytes(
        self, batch: int, parallel: Parallel = ONE_GPU, stage: int | None = None, view: View = PLAIN
    ) -> Reads:
        """Bytes that one tensor rank reads to decode one token of each of `batch` sequences.

        Dense weights are read once, embeddings one row a token, towers not at all. Of E experts with k chosen:
        at least those of one token (k); expected E * (1 - (1 - k/E)^batch), if routing is uniform and independent;
        at most min(E, k * batch). Sequences of all data-parallel replicas meet the same experts.

        batch: sequences of one replica. stage: of one pipeline stage; None adds up all stages, which a token passes
        in turn.

        Raises: CannotSplit if there are more stages than layers.
        """
        return self.reader(parallel, stage, view)(batch)

    def reader(
        self, parallel: Parallel = ONE_GPU, stage: int | None = None, view: View = PLAIN
    ) -> Callable[[int], Reads]:
        """`read_bytes` as a function of the batch. What doesn't depend on the batch is added up once.

        Raises: CannotSplit if there are more stages than layers.
        """
        always = 0
        varying: list[tuple[int, Weight, int]] = []
        for at in range(parallel.pp) if stage is None else (stage,):
            blocks = [(self._ends(parallel, at, view, read=True), 1), *self._stage_counts(parallel, at)]
            for weight, count in ((weight, count) for block, count in blocks for weight in block):
                if weight.component in TOWERS:
                    continue
                size = weight.bytes_on_rank(parallel, view)
                if weight.picked is not None or (weight.component == "embedding" and weight.linear):
                    varying.append((count, weight, size))
                else:
                    always += count * size

        def reads(batch: int) -> Reads:
            low = likely = high = float(always)
            for count, weight, size in varying:
                part = _read(weight, size, batch, parallel, view)
                low, likely, high = low + count * part[0], likely + count * part[1], high + count * part[2]
            return Reads(round(low), round(likely), round(high))

        return reads

    def stored_as(self, kept: Kept) -> Weights:
        """The same model in another format: a storage for its linear layers, a plain dtype for all tensors, or a mix.

        Embeddings, head, norms, routers and towers stay in 16 bit unless a plain dtype or a mix covers them. Layers
        that come out equal stay one tuple.
        """
        choose = kept.chooser(self)
        made: dict[tuple[int, tuple[Storage, ...]], Block] = {}

        def block(weights: Block, layer: int | None = None) -> Block:
            stored = tuple(choose(weight, layer) for weight in weights)
            if (id(weights), stored) not in made:
                pairs = zip(weights, stored, strict=True)
                made[id(weights), stored] = tuple(replace(weight, stored=one) for weight, one in pairs)
            return made[id(weights), stored]

        changed = replace(
            self,
            first=block(self.first), layers=tuple(block(layer, number) for number, layer in enumerate(self.layers)),
            last=block(self.last), towers=block(self.towers), draft=block(self.draft), borrowed=block(self.borrowed),
        )  # fmt: skip
        return replace(changed, method=WHAT_IF + kept.name, files=0, formula_bytes=None, contradicted=False)

    def _once(self) -> Iterator[tuple[Weight, int]]:
        """Every weight and how often it occurs; a tied head is left out."""
        for block, count in self.distinct:
            for weight in block:
                yield weight, count
        for weight in (*self.first, *self.last, *self.towers):
            if not (self.tied and weight.name == HEAD):
                yield weight, 1

    def _stage_counts(self, parallel: Parallel, stage: int) -> tuple[tuple[Block, int], ...]:
        """Distinct layers of a stage and how many it has of each."""
        if parallel.pp == 1:
            return self.distinct
        return _counted(self._stage_layers(parallel, stage))

    def _stage_layers(self, parallel: Parallel, stage: int) -> tuple[Block, ...]:
        """Layers of a stage, in order."""
        counts = stage_layers(len(self.layers), parallel.pp)
        start = sum(counts[:stage])
        return self.layers[start : start + counts[stage]]

    def _towers(self, parallel: Parallel, view: View) -> Block:
        """What the first stage holds of the towers."""
        if view.whole_towers and any(weight.units % parallel.tp for weight in self.towers):
            return tuple(replace(weight, split=None) for weight in self.towers)
        return self.towers

    def _ends(self, parallel: Parallel, stage: int, view: View, *, read: bool = False) -> Block:
        """What a stage holds, or reads, beside its layers."""
        is_first, is_last = stage == 0, stage == parallel.pp - 1
        copies = () if read else view.everywhere
        embeds, heads = is_first or "embedding" in copies, is_last or "head" in copies
        beside = self._tied_as(view) if embeds and not read else frozenset()
        return (
            *(filter(view.tables, self.tables) if view.tables is not None and not read else ()),
            *(self.first if embeds else ()),
            *(self._towers(parallel, view) if is_first and view.towers else ()),
            *(
                weight
                for weight in self.last
                if (heads and weight.stored not in beside if weight.name == HEAD else is_last)
            ),
        )

    def _tied_as(self, view: View) -> frozenset[Storage]:
        """Formats of a head that takes no memory beside its embedding: those of the embedding it is tied to.

        A head takes memory if only the checkpoint can say that it is tied, because engines build it where the files
        have one. It also does in another format than its embedding's. Source: vLLM 0.33 quantized ParallelLMHead.
        """
        if not self.tied or self.unsure_head or not view.ties:
            return frozenset()
        return frozenset(weight.stored for weight in self.first if weight.component == "embedding")


def distinct(experts: int, picked: int, tokens: int) -> float:
    """Expected number of distinct experts that `tokens` use, if each picks `picked` of them uniformly."""
    return experts * (1 - (1 - picked / experts) ** tokens)


def _counted(layers: Sequence[Block]) -> tuple[tuple[Block, int], ...]:
    """Distinct layers and how many there are of each; equal layers are one tuple, so identity tells them apart."""
    counts = Counter(map(id, layers))
    return tuple((layer, counts[number]) for number, layer in dict(zip(map(id, layers), layers, strict=True)).items())


def _read(weight: Weight, size: int, batch: int, parallel: Parallel, view: View) -> tuple[float, float, float]:
    """Bytes of an embedding or of experts (`size` on the rank) that a step reads: at least, expected, at most."""
    if weight.picked is None:
        rows = min(batch, weight.shape[0]) * weight.stored.bytes(1, weight.shape[1])
        return rows, rows, rows
    experts, held = weight.copies, weight.on_rank(parallel, view)[1]
    tokens, one = batch * parallel.dp, size / held
    expected = distinct(experts, weight.picked, tokens)
    ranks = parallel.ep if parallel.ep > 1 else 1
    low, high = ceil(weight.picked / ranks), min(held, weight.picked * tokens)
    return one * low, one * expected / ranks, one * high
