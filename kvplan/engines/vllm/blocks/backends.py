"""Which attention backend vLLM picks, and what blocks its kernels take.

A backend is the first of its table that the GPU's compute capability, the head size and the cache format allow, and
that takes the block size, if one is asked for. Source: vLLM 0.33 platforms/{cuda,rocm,xpu}.py, v1/attention/backends/.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import lcm

from kvplan.engines.vllm.blocks.backend import Backend, Platform
from kvplan.engines.vllm.blocks.cuda import CUDA
from kvplan.engines.vllm.blocks.rocm import OF_ARCHITECTURES, ROCM
from kvplan.engines.vllm.blocks.xpu import XPU
from kvplan.engines.vllm.tables.versions import NEWEST, Version
from kvplan.errors import Unsupported, UsageError, WontStart
from kvplan.hardware.gpu import Capability, Gpu

DEFAULT_BLOCK = 16
HOPPER: Capability = (9, 0)
BLACKWELL = 10

EVERY_FP8, FP8_ALONE, CHECKED = frozenset({"fp8", "fp8_e5m2", "fp8_per_token_head"}), frozenset({"fp8"}), (0, 24, 0)
"""What Triton's kernels ask compute capability 8.9 for, by release. Source: v1/attention/backends/triton_attn.py."""


SIZED: Version = (0, 33, 0)
"""The first release whose supports_head_size was read; nothing is refused for a small head before."""


@dataclass(frozen=True, slots=True)
class Need:
    """What one kind of layer asks of a backend.

    mixed_dims: whether the model's heads differ in size. heads: queries' on one rank, None where nobody states them. aiter: whether AITER's
    kernels are asked for. connected: whether a KV connector moves the cache. backend: what
    --attention-backend says.
    """

    dim: int
    format: str
    image_prefix: bool = False
    nope_dim: int | None = None
    dcp: bool = False
    grouped: bool = False
    plain: bool = True
    even: bool = True
    sinks: bool = False
    mixed_dims: bool = False
    heads: int | None = None
    aiter: bool = False
    connected: bool = False
    backend: str | None = None
    release: Version = NEWEST


BLOCKS_OF_V0 = (1, 8)
"""Those that are no multiples of 16, and that kernels of the engine before V1 took."""


def capability(gpu: Gpu | None) -> Capability:
    """Compute capability; a GPU without one (AMD's, Intel's, or none named) is treated as Hopper."""
    if gpu is None or gpu.compute_capability is None:
        return HOPPER
    return gpu.compute_capability


def platform(gpu: Gpu | None) -> Platform:
    """A GPU's; CUDA where none is named."""
    if gpu is not None and gpu.vendor == "intel":
        return XPU
    if gpu is None or gpu.vendor != "amd":
        return CUDA
    return next((found for start, found in OF_ARCHITECTURES.items() if gpu.architecture.startswith(start)), ROCM)


def pick(table: str, need: Need, gpu: Capability, block: int | None, runs_on: Platform = CUDA) -> Backend:
    """The backend vLLM would use.

    Raises: UsageError when none can; WontStart for blocks that no platform's kernels take; Unsupported for a kind of layer that
    wasn't read on the platform.
    """
    if table not in runs_on.backends:
        raise Unsupported(
            f"kvplan has no rules for {table} layers under {runs_on.name}",
            cause=f"what vLLM keeps of them there wasn't read, but {' and '.join(runs_on.backends)} layers",
            hint="--engine ideal",
        )
    if need.backend is not None:
        return _stated(table, need.backend, need, gpu, block, runs_on)
    for backend in runs_on.backends[table]:
        if _allows(backend, need, gpu) and backend.runs(block):
            return _runs(backend, need, gpu)
    allowed = (backend for backend in runs_on.backends[table] if backend.by_request and _allows(backend, need, gpu))
    only = next((min(backend.sizes) for backend in allowed), None)
    asked = f" and blocks of {block}" if block else ""
    surely = table == "attention" and block is not None and block % DEFAULT_BLOCK and block not in BLOCKS_OF_V0
    raise (WontStart if surely else UsageError)(
        f"vLLM has no {table} backend for a {need.format} cache of heads of {need.dim}{asked} here",
        cause="none of its backends takes both on "
        + (f"compute capability {gpu[0]}.{gpu[1]}" if runs_on is CUDA else f"this GPU under {runs_on.name}"),
        hint=_hint(block, only),
    )


def _hint(block: int | None, only: int | None) -> str:
    """What to ask for instead. only: a block that has to be asked for, where there is one."""
    if only is not None:
        return f"--block-size {only}"
    return "--kv-dtype auto" if not block else f"leave out --block-size, or --block-size {DEFAULT_BLOCK * 4}"


def _stated(table: str, name: str, need: Need, gpu: Capability, block: int | None, runs_on: Platform) -> Backend:
    """The kernels that were asked for, where they are known to run the layer; AITER's need no variable then.

    Raises: Unsupported where they aren't.
    """
    need = replace(need, aiter=True)
    for backend in runs_on.backends[table]:
        if backend.name == name and _allows(backend, need, gpu) and backend.runs(block):
            return _runs(backend, need, gpu)
    raise Unsupported(
        f"kvplan doesn't know whether {name} runs {table} layers with a {need.format} cache of heads of {need.dim} here",
        cause="what vLLM's kernels take was read of those that it chooses itself",
        hint="leave vLLM's --attention-backend out",
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
        backend.one_dim and need.mixed_dims,
        backend.aiter and not need.aiter,
        backend.unconnected and need.connected,
        backend.most_heads and (need.heads is None or need.heads > backend.most_heads),
        not backend.since <= need.release < backend.until,
        need.release >= SIZED and (need.dim < backend.least_dim or need.dim % backend.step),
    )
    return not any(refused)


def common_block(backends: Sequence[Backend]) -> int:
    """The smallest block that every backend takes, 16 where they all do; what a single one prefers.

    Raises: UsageError when there is none.
    """
    if len(backends) == 1 and backends[0].preferred:
        return backends[0].preferred
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
