"""Which attention backend vLLM picks, and what blocks its kernels take.

A backend is the first of its table that the GPU's compute capability, the head size and the cache format allow, and
that takes the block size, if one is asked for. Source: vLLM 0.33 platforms/cuda.py, v1/attention/backends/.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from math import lcm

from kvplan.engines.vllm.blocks.cells import PER_HEAD
from kvplan.engines.vllm.tables.versions import NEWEST, OLDEST, Version
from kvplan.errors import UsageError, WontStart
from kvplan.hardware.gpu import Capability, Gpu

DEFAULT_BLOCK = 16
HOPPER: Capability = (9, 0)
BLACKWELL = 10

WHOLE = frozenset({"16 bit"})
FP8 = WHOLE | {"fp8"}
EITHER_FP8 = FP8 | {"fp8_e5m2"}
FP4 = frozenset({"nvfp4", "nvfp4_4over6"})
EVERY_FP8, FP8_ALONE, CHECKED = frozenset({"fp8", "fp8_e5m2", "fp8_per_token_head"}), frozenset({"fp8"}), (0, 24, 0)
"""What Triton's kernels ask compute capability 8.9 for, by release. Source: v1/attention/backends/triton_attn.py."""
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

    def takes(self, block: int) -> bool:
        """Whether a block of that many tokens can be cut into kernel blocks."""
        return any(block % size == 0 for size in self.sizes)


SIZED: Version = (0, 33, 0)
"""The first release whose supports_head_size was read; nothing is refused for a small head before."""


@dataclass(frozen=True, slots=True)
class Need:
    """What one kind of layer asks of a backend."""

    dim: int
    format: str
    image_prefix: bool = False
    nope_dim: int | None = None
    dcp: bool = False
    grouped: bool = False
    plain: bool = True
    even: bool = True
    sinks: bool = False
    release: Version = NEWEST


_PAGES, _LARGE_PAGES = (16, 32, 64), (16, 32, 64, 128, 256, 512, 1024)
_FLASHINFER_DIMS = (64, 128, 256, 512)

_ATTENTION = (
    Backend(
        "TRITON_FLASHINFER",
        (64,),
        FP8,
        (10,),
        (256, 512),
        image_prefix=True,
        only_image_prefix=True,
        dcp=False,
        exact=True,
    ),
    Backend("FLASHINFER", _LARGE_PAGES, EITHER_FP8 | FP4, (10,), _FLASHINFER_DIMS, exact=True, grouped=True),
    Backend("FLASHINFER", _PAGES, EITHER_FP8 | FP4, (10,), _FLASHINFER_DIMS, exact=True),
    Backend("FLASH_ATTN", (64,), frozenset({"fp8"}), (9,), (512,), image_prefix=True, exact=True),
    Backend("FLASH_ATTN", (16,), FP8, (9,), largest_dim=512, image_prefix=True, step=8),
    Backend("FLASH_ATTN", (16,), WHOLE, (8, 10, 11, 12), largest_dim=256, step=8),
    Backend("FLASHINFER", _PAGES, EITHER_FP8, (8,), (64, 128, 256), exact=True, bare=True),
    Backend("FLASHINFER", _PAGES, EITHER_FP8, (9, 12), _FLASHINFER_DIMS, exact=True, bare=True),
    Backend(
        "FLASHINFER",
        _PAGES,
        frozenset({"nvfp4"}),
        (8, 9, 12),
        (128, 256, 512),
        dcp=False,
        exact=True,
        even=True,
        since=(0, 32, 0),
    ),
    Backend("TRITON_ATTN", (16,), EITHER_FP8 | PER_HEAD, image_prefix=True, fp8_from=(8, 9), least_dim=32),
    Backend("FLEX_ATTENTION", (16,), WHOLE, image_prefix=True),
    Backend("TURBOQUANT", (16, 32, 64, 128), TURBO, plain=True, even=True),
)

_LATENT_DIMS = (320, 512, 576)

_LATENT = (
    Backend("FLASHINFER_MLA", (32, 64), FP8, (10,), _LATENT_DIMS, nope_dims=(64, 128, 192)),
    Backend("CUTLASS_MLA", (128,), FP8, (10,), _LATENT_DIMS),
    Backend("FLASH_ATTN_MLA", (16,), WHOLE, (9,), _LATENT_DIMS),
    Backend("FLASHMLA", (64,), FP8, (9,), _LATENT_DIMS),
    Backend("TRITON_MLA", (16,), FP8, fp8_from=(8, 9)),
)

_SPARSE_LATENT = (
    Backend("FLASH_ATTN_MLA_SPARSE", (64,), WHOLE, (9,), dcp=False),
    Backend("FLASHMLA_SPARSE", (64,), FP8 | PACKED, (9,), (512, 576), dcp_formats=PACKED | {"fp8"}),
    Backend("FLASHINFER_MLA_SPARSE", (32,), frozenset({"fp8"}), (10,), (512, 576)),
    Backend("FLASHMLA_SPARSE", (64,), FP8 | PACKED, (10,), (512, 576), dcp_formats=PACKED | {"fp8"}),
    Backend("FLASHINFER_MLA_SPARSE", (32,), WHOLE, (10,), (512, 576)),
    Backend("FLASHINFER_MLA_SPARSE_SM120", (64,), FP8 | {"fp8_ds_mla"}, (12,)),
)

_UNEVEN = (
    Backend("FLASH_ATTN_DIFFKV", (16,), FP8 | PER_HEAD, (9,), image_prefix=True),
    Backend("FLASH_ATTN_DIFFKV", (16,), WHOLE, (10,), image_prefix=True),
    Backend("TRITON_ATTN_DIFFKV", (16,), FP8, (7, 8, 11, 12), image_prefix=True, fp8_from=(8, 9)),
)
"""Keys wider than values. Source: models/mimo_v2.py, v1/attention/backends/{flash,triton}_attn_diffkv.py."""

_INDEXER = (Backend("DEEPSEEK_V32_INDEXER", (64,), frozenset({"index"})),)
_BLOCK_SPARSE = (Backend("MINIMAX_M3_SPARSE", (128,), FP8),)
_COMPRESSED = (Backend("DEEPSEEK_V4", (256,), frozenset({"fp8", "fp8_ds_mla", "fp8_per_token_head"})),)

TABLES = {
    "attention": _ATTENTION,
    "uneven attention": _UNEVEN,
    "latent": _LATENT,
    "sparse latent": _SPARSE_LATENT,
    "indexer": _INDEXER,
    "block sparse": _BLOCK_SPARSE,
    "compressed": _COMPRESSED,
}


BLOCKS_OF_V0 = (1, 8)
"""Those that are no multiples of 16, and that kernels of the engine before V1 took."""


def capability(gpu: Gpu | None) -> Capability:
    """Compute capability; a GPU without one (AMD, or none named) is treated as Hopper."""
    if gpu is None or gpu.compute_capability is None:
        return HOPPER
    return gpu.compute_capability


def pick(table: str, need: Need, gpu: Capability, block: int | None) -> Backend:
    """The backend vLLM would use.

    Raises: UsageError when none can; WontStart for blocks that no platform's kernels take.
    """
    for backend in TABLES[table]:
        if _allows(backend, need, gpu) and (block is None or backend.takes(block)):
            return _runs(backend, need, gpu)
    asked = f" and blocks of {block}" if block else ""
    surely = table == "attention" and block is not None and block % DEFAULT_BLOCK and block not in BLOCKS_OF_V0
    raise (WontStart if surely else UsageError)(
        f"vLLM has no {table} backend for a {need.format} cache of heads of {need.dim}{asked} here",
        cause=f"none of its backends takes both on compute capability {gpu[0]}.{gpu[1]}",
        hint="--kv-dtype auto" if not block else f"leave out --block-size, or --block-size {DEFAULT_BLOCK * 4}",
    )


def _runs(backend: Backend, need: Need, gpu: Capability) -> Backend:
    """A backend is chosen by its format alone; that the GPU or the layout can't have it shows only when it starts."""
    if need.dcp and backend.dcp_formats and need.format not in backend.dcp_formats:
        raise UsageError(
            f"vLLM's {backend.name} can't deal tokens of a {need.format} cache over ranks",
            cause="decode context parallelism of sparse latents needs packed fp8",
            hint="--kv-dtype fp8, or --dcp 1",
        )
    if need.format in (EVERY_FP8 if need.release >= CHECKED else FP8_ALONE) and gpu < backend.fp8_from:
        raise UsageError(
            f"vLLM's {backend.name} can't keep a cache in {need.format} here",
            cause=f"it needs compute capability {backend.fp8_from[0]}.{backend.fp8_from[1]}",
            hint="--kv-dtype bf16",
        )
    return backend


def _allows(backend: Backend, need: Need, gpu: Capability) -> bool:
    refused = (
        backend.majors and gpu[0] not in backend.majors,
        backend.dims and need.dim not in backend.dims,
        need.dim > backend.largest_dim,
        need.format not in backend.formats,
        need.image_prefix and not backend.image_prefix,
        backend.only_image_prefix and not need.image_prefix,
        backend.nope_dims and need.nope_dim not in backend.nope_dims,
        need.dcp and not backend.dcp,
        backend.grouped and not need.grouped,
        backend.plain and not need.plain,
        backend.even and not need.even,
        backend.bare and need.sinks,
        need.release < backend.since,
        need.release >= SIZED and (need.dim < backend.least_dim or need.dim % backend.step),
    )
    return not any(refused)


def common_block(backends: Sequence[Backend]) -> int:
    """The smallest block that every backend takes, 16 where they all do.

    Raises: UsageError when there is none.
    """
    if all(backend.takes(DEFAULT_BLOCK) for backend in backends):
        return DEFAULT_BLOCK
    for size in sorted({lcm(*sizes) for sizes in product(*(backend.sizes for backend in backends))}):
        if all(backend.takes(size) for backend in backends):
            return size
    names = ", ".join(backend.name for backend in backends)
    raise UsageError(f"vLLM's backends {names} share no block size")


def kernel_block(backends: Iterable[Backend]) -> int:
    """A block that is whole kernel blocks of every backend."""
    return lcm(1, *(min(backend.sizes) for backend in backends))


def largest_within(backend: Backend, tokens: int) -> int:
    """The largest block of at most `tokens` that the backend's kernels run unsplit, or its smallest."""
    fitting = [size if backend.exact else tokens // size * size for size in backend.sizes if size <= tokens]
    return max(fitting, default=min(backend.sizes))
