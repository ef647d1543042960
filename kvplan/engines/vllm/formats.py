"""The cache format that vLLM makes of `auto` or of what was asked."""

from __future__ import annotations

from kvplan.arch.formats import FORMATS, KvFormat
from kvplan.arch.model import DESCRIBED, Model
from kvplan.engines.vllm.blocks.backends import BLACKWELL, HOPPER, capability
from kvplan.engines.vllm.blocks.cells import run_in
from kvplan.engines.vllm.starts import quantizers
from kvplan.engines.vllm.tables.architectures import FP8_ON_BLACKWELL, SCHEMELESS, compresses, named, sparse_latents
from kvplan.errors import UsageError
from kvplan.hardware.gpu import Gpu


def used_format(model: Model, asked: KvFormat | None, gpu: Gpu | None) -> KvFormat:
    """What was asked; else the checkpoint's own format, or what vLLM chooses for the model on this GPU.

    Raises: UsageError where vLLM would choose a format that no kernel of the GPU takes.
    """
    found = asked or chosen_format(model, gpu)
    if found is None:
        raise UsageError(
            f"vLLM has no kernel for the cache of {model.origin.id} in its own format here",
            cause="the checkpoint asks for fp8_e4m3, and sparse latents on Hopper take fp8 only when it is asked for",
            hint="--kv-dtype fp8, or --kv-dtype bf16",
        )
    return found


def chosen_format(model: Model, gpu: Gpu | None) -> KvFormat | None:
    """What vLLM chooses when no format is asked for; None where it then finds no kernel.

    Source: vLLM 0.33 platforms/cuda.py, supported_kv_cache_dtypes of v1/attention/backends/mla.
    """
    if model.family == DESCRIBED and model.kv_hint is not None:
        return model.kv_hint
    major = None if gpu is None else capability(gpu)[0]
    if compresses(model) or (model.kv_hint is None and named(model, FP8_ON_BLACKWELL) and major == BLACKWELL):
        return KvFormat(FORMATS["fp8"], FORMATS["fp8"])
    if quantizers.caches(model) and model.kv_hint is not None and not _schemeless(model):
        return None if major == HOPPER[0] and sparse_latents(model) else model.kv_hint
    own = run_in(model.dtype, None if gpu is None else capability(gpu))
    return KvFormat(own, own)


def _schemeless(model: Model) -> bool:
    """Whether the checkpoint's scheme for the cache doesn't reach the class's attention."""
    method = "" if model.quantized is None else model.quantized.method
    return method == "compressed-tensors" and named(model, SCHEMELESS)
