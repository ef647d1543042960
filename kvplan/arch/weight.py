"""One tensor of a model: its shape, its storage, and the share of it that one rank holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

from kvplan.arch.parallel import Parallel
from kvplan.arch.storage import BF16, Storage

Component = Literal[
    "embedding", "attention", "indexer", "recurrent", "mlp", "router", "experts", "shared_experts", "norm", "head",
    "encoder", "vision", "audio", "projector", "draft",
]  # fmt: skip

HEAD = "lm_head"
"""Name of the output projection. A tied model uses its embedding for it."""

CLOCKED = "rotary_emb.mrope.cos_sin_cache"
"""Name of a table of rotary positions that follow a video's clock. They never exceed the number of tokens, but engines
may make the table longer.
"""

TOWERS: frozenset[Component] = frozenset(("encoder", "vision", "audio", "projector"))
"""Components that process a request's input once, before decoding. No decode step reads them."""


@dataclass(frozen=True, slots=True)
class View:
    """How an engine lays out a checkpoint's tensors.

    vocabulary_multiple: rows that embeddings and heads are padded to a multiple of. towers: whether it builds the
    vision, audio and encoder towers. whole_towers: whether each rank holds a whole tower if the ranks can't share its
    heads evenly. everywhere: ends of the model that every pipeline stage holds. ties: whether a tied head takes no
    memory of its own. tables: which position tables it keeps; None for none. store: the format in which it keeps one
    rank's share of a weight. shape: the shape that it gives one rank's share of a weight, padding included. wasted:
    bytes of one rank that no tensor uses after its kernels have rearranged a stage's layers.
    """

    vocabulary_multiple: int = 1
    towers: bool = True
    whole_towers: bool = False
    everywhere: frozenset[Component] = frozenset()
    ties: bool = True
    tables: Callable[[Weight], bool] | None = None
    store: Callable[[Weight, tuple[int, ...]], Storage] | None = None
    shape: Callable[[Weight, tuple[int, ...]], tuple[int, ...]] | None = None
    wasted: Callable[[Sequence[Block], Parallel], int] | None = None


PLAIN = View()


@dataclass(frozen=True, slots=True)
class Weight:
    """One tensor, or `copies` equal ones (experts).

    name: its name in the checkpoint within the layer: "self_attn.q_proj". shape: of one copy, outputs first. split: the
    dimension that tensor parallelism splits, None if every rank holds the whole. units: indivisible units (heads) of
    that dimension, 0 if it is split by elements. picked: copies that one token uses, None if it isn't routed. linear:
    whether it is the matrix of a linear layer, which quantization can pack.
    """

    name: str
    shape: tuple[int, ...]
    component: Component
    stored: Storage = BF16
    split: int | None = None
    units: int = 0
    copies: int = 1
    picked: int | None = None
    linear: bool = False

    @property
    def last(self) -> str:
        """Last part of its name: `q_proj`."""
        return self.name.rpartition(".")[2]

    @property
    def parameters(self) -> int:
        """Elements of all copies."""
        return prod(self.shape) * self.copies

    @property
    def active(self) -> int:
        """Elements that one token's forward pass uses."""
        return prod(self.shape) * (self.copies if self.picked is None else self.picked)

    @property
    def bytes(self) -> int:
        """Bytes of all copies, scales included."""
        return self.copies * self.stored.bytes(*matrix(self.shape))

    @property
    def routed(self) -> bool:
        """Whether tokens choose among the copies."""
        return self.picked is not None

    @property
    def quantizable(self) -> bool:
        """Whether quantization packs it when it leaves embeddings, head, routers and towers alone."""
        return self.linear and self.component not in ("embedding", "head", "router", *TOWERS)

    def on_rank(self, parallel: Parallel, view: View = PLAIN) -> tuple[tuple[int, ...], int]:
        """Shape of one copy and number of copies on the fullest rank.

        Under expert parallelism routed experts are dealt out whole; otherwise they are split over all tensor and data
        ranks (vLLM 0.33 fused_moe/config.py). Everything else is split over the tensor ranks.
        """
        shape, copies, ranks = self.shape, self.copies, parallel.tp
        if self.routed:
            ranks = parallel.tp * parallel.dp
            if parallel.ep > 1:
                copies, ranks = -(-copies // parallel.ep), 1
        if self.split is not None:
            size = whole = shape[self.split]
            if self.component in ("embedding", "head"):
                size = -(-size // view.vocabulary_multiple) * view.vocabulary_multiple
            if ranks > 1:
                size = _share(size, self.units or size, ranks)
            if size != whole:
                shape = (*shape[: self.split], size, *shape[self.split + 1 :])
        if view.shape is not None:
            shape = view.shape(self, shape)
        return shape, copies

    def bytes_on_rank(self, parallel: Parallel, view: View = PLAIN) -> int:
        """Bytes on the fullest rank, scales included."""
        shape, copies = self.on_rank(parallel, view)
        stored = self.stored if view.store is None else view.store(self, shape)
        return copies * stored.bytes(*matrix(shape))


def matrix(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows (outputs) and columns (inputs) of a tensor; a vector is one row."""
    if len(shape) == 2:
        return shape[0], shape[1]
    return (1, shape[0]) if len(shape) == 1 else (shape[0], prod(shape[1:]))


def _share(size: int, units: int, ranks: int) -> int:
    """Elements of a dimension on the fullest rank, in whole units."""
    return -(-units // ranks) * (size // units) if units else 0


Block = tuple[Weight, ...]
