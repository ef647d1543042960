"""What vLLM keeps for one layer on one rank: the page of one block, and how many pages one request may hold.

    page = tokens of a block / tokens of a state x bytes of a state      padded where the kernels or the pool need it

Source: vLLM 0.33 v1/kv_cache_interface.py.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Literal

Kind = Literal["full", "latent", "indexer", "sliding", "sliding_latent", "chunked", "state", "cross"]

FULL_LENGTH: tuple[Kind, ...] = ("full", "latent", "indexer")
"""Kinds that keep every token, and may stand side by side in one group whatever their page sizes."""

WINDOWS: tuple[Kind, ...] = ("sliding", "sliding_latent")


@dataclass(frozen=True, slots=True)
class Demand:
    """What decides how much one request may hold: its length, and what is scheduled but not settled.

    length: tokens of the longest request (max_model_len). in_flight: tokens scheduled and not yet freed. encoder: tokens
    of the longest encoder input. dcp: ranks that tokens of full-length layers are dealt to.
    """

    length: int
    in_flight: int
    encoder: int = 0
    dcp: int = 1


@dataclass(frozen=True, slots=True)
class Spec:
    """The cache of one layer.

    block: tokens of one block. state: bytes of one block before padding. page: bytes with it. span: a window's or a
    chunk's tokens, or the most that one encoder input has. held: pages of recurrent state that a request holds. extra: tokens kept below a window for drafts.
    identity: whatever else must be equal for two layers to share pages (heads, sizes, format).
    """

    kind: Kind
    block: int
    state: int
    page: int
    identity: Hashable = None
    span: int | None = None
    held: int = 0
    extra: int = 0
    alignment: int = 1

    def pages(self, demand: Demand) -> int:
        """Pages that the longest request may hold."""
        if self.kind == "state":
            return self.held
        return -(-self.tokens(demand) // self.block) + (self.kind in WINDOWS)

    def tokens(self, demand: Demand) -> int:
        """Tokens that the longest request may keep in this layer.

        A window keeps what it sees and all that is in flight, because blocks are freed only once a step has settled.
        """
        if self.kind in FULL_LENGTH:
            return -(-demand.length // demand.dcp)
        if self.kind == "cross":
            return demand.encoder
        kept = (self.span or 0) + demand.in_flight
        if self.kind in WINDOWS:
            kept += self.extra - 1
        return min(kept, demand.length)

    @property
    def whole(self) -> Spec:
        """The same layer, keeping every token if it had chunks."""
        return replace(self, kind="full", span=None) if self.kind == "chunked" else self

    @property
    def family(self) -> Hashable:
        """Layers of one family and one block size may share a group though their pages differ."""
        if self.kind in FULL_LENGTH:
            return "full", self.block
        if self.kind == "state":
            return "state", self.block, self.held, self.page
        return self.kind, self.block, self.span

    @property
    def bucket(self) -> Hashable:
        """Layers with equal buckets are the same to the block pool."""
        return self.kind, self.block, self.page, self.identity, None if self.kind in FULL_LENGTH else self.span

    def with_block(self, block: int) -> Spec:
        """The same layer in blocks of another size; state layers have none to change."""
        state = self.state * block // self.block
        return replace(self, block=block, state=state, page=aligned(state, self.alignment))

    def padded(self, page: int) -> Spec:
        """The same layer with its page padded to `page` bytes."""
        return replace(self, page=page)


def aligned(size: int, alignment: int) -> int:
    """`size` rounded up to a multiple of `alignment`."""
    return -(-size // alignment) * alignment
