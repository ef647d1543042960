"""A backend: attention kernels, what they run, and the cache blocks that they take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvplan.engines.vllm.tables.versions import NEVER, OLDEST, Version
from kvplan.hardware.gpu import Capability

WHOLE = frozenset({"16 bit"})
FP8 = WHOLE | {"fp8"}
EITHER_FP8 = FP8 | {"fp8_e5m2"}
FP4 = frozenset({"nvfp4", "nvfp4_4over6"})
TURBO = frozenset({"turboquant"})
PACKED = frozenset({"fp8_ds_mla", "nvfp4_ds_mla"})


@dataclass(frozen=True, slots=True)
class Backend:
    """Kernels and the cache blocks they take."""

    name: str
    """As vLLM's --attention-backend has it."""
    sizes: tuple[int, ...]
    """Block sizes, of which any multiple is taken too, split into kernel blocks."""
    formats: frozenset[str] = WHOLE
    """Cache formats."""
    majors: tuple[int, ...] = ()
    """Compute capabilities, none for all."""
    dims: tuple[int, ...] = ()
    """Head sizes, none for all."""
    largest_dim: int = 1 << 20
    """Its largest head."""
    image_prefix: bool = False
    """Whether image tokens may attend to each other both ways."""
    only_image_prefix: bool = False
    """Whether it is for nothing else."""
    nope_dims: tuple[int, ...] = ()
    """Sizes of the part of a latent layer's key that isn't rotated, none for all."""
    dcp: bool = True
    """Whether it deals a sequence over ranks."""
    exact: bool = False
    """Whether the kernels run only these sizes, not their multiples."""
    grouped: bool = False
    """Whether it needs several query heads for each KV head."""
    plain: bool = False
    """Whether it needs a decoder's own layers that keep every token."""
    even: bool = False
    """Whether it needs keys as wide as values."""
    since: Version = OLDEST
    """The release that it came with."""
    until: Version = NEVER
    """The release that lost it, or what this says of it."""
    bare: bool = False
    """Whether it needs heads without learned sinks."""
    fp8_from: Capability = (0, 0)
    """The compute capability its fp8 needs."""
    dcp_formats: frozenset[str] = frozenset()
    """Cache formats that it deals over ranks, none for all."""
    least_dim: int = 0
    """Its smallest head."""
    step: int = 1
    """What all heads are multiples of."""
    preferred: int = 0
    """The block size that it asks for where it is a model's only one; 0 for none."""
    most_heads: int = 0
    """The most query heads of a rank that it is picked for; 0 for any."""
    by_request: bool = False
    """Whether it runs blocks of its sizes only where they are asked for."""
    own_layout: bool = False
    """Whether the cache lies in an order that other backends don't share."""
    unconnected: bool = False
    """Whether it isn't tried where a KV connector moves the cache."""
    aiter: bool = False
    """Whether it is tried only where AITER's kernels are asked for."""
    one_dim: bool = False
    """Whether it isn't picked for a model whose heads differ in size."""

    def takes(self, block: int) -> bool:
        """Whether a block of that many tokens can be cut into kernel blocks."""
        return any(block % size == 0 for size in self.sizes)

    def runs(self, asked: int | None) -> bool:
        """Whether it runs the blocks that are asked for; None for any."""
        if self.by_request:
            return asked in self.sizes
        return asked is None or self.takes(asked)


@dataclass(frozen=True, slots=True, eq=False)
class Platform:
    """What vLLM runs on.

    backends: in the order that they are tried in, by what a layer caches.
    """

    name: str
    backends: Mapping[str, tuple[Backend, ...]]
