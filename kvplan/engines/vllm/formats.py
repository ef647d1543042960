"""The cache format that vLLM makes of `auto` or of what was asked."""

from __future__ import annotations

from kvplan.arch.formats import FORMATS, KvFormat
from kvplan.arch.layers import Latent
from kvplan.arch.model import DESCRIBED, Model
from kvplan.engines.vllm.blocks.backends import BLACKWELL, HOPPER, capability
from kvplan.engines.vllm.blocks.cells import run_in
from kvplan.engines.vllm.starts import quantizers
from kvplan.engines.vllm.tables.architectures import (
    FP8_ON_BLACKWELL,
    FP8_UNASKED,
    SCHEMELESS,
    compresses,
    named,
    named_in,
    sparse_latents,
)
from kvplan.engines.vllm.tables.latents import expands
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.errors import UsageError
from kvplan.hardware.gpu import Gpu


def used_format(model: Model, asked: KvFormat | None, gpu: Gpu | None, rules: Rules) -> KvFormat:
    """What was asked; else the checkpoint's own format, or what vLLM chooses for the model on this GPU.

    Raises: UsageError where vLLM would choose a format that no kernel of the GPU takes.
    """
    found = asked or chosen_format(model, gpu, rules)
    if found is None:
        raise UsageError(
            f"vLLM has no kernel for the cache of {model.origin.id} in its own format here",
            cause="the checkpoint asks for fp8_e4m3, and sparse latents on Hopper take fp8 only when it is asked for",
            hint="--kv-dtype fp8, or --kv-dtype bf16",
        )
    return found


def chosen_format(model: Model, gpu: Gpu | None, rules: Rules) -> KvFormat | None:
    """What vLLM chooses when no format is asked for; None where it then finds no kernel.

    Source: vLLM 0.33 platforms/cuda.py, supported_kv_cache_dtypes of v1/attention/backends/mla.
    """
    if model.family == DESCRIBED and model.kv_hint is not None:
        return model.kv_hint
    major = None if gpu is None or gpu.compute_capability is None else gpu.compute_capability[0]
    if compresses(model) or (model.kv_hint is None and _unasked(model, major, rules)):
        return KvFormat(FORMATS["fp8"], FORMATS["fp8"])
    if model.kv_hint is not None and _is_read(model, rules):
        return None if major == HOPPER[0] and sparse_latents(model) else model.kv_hint
    own = run_in(model.dtype, None if gpu is None else capability(gpu))
    return KvFormat(own, own)


def _unasked(model: Model, major: int | None, rules: Rules) -> bool:
    """Whether the release takes a class's cache for one in fp8 where nobody asks for another."""
    on_blackwell = major == BLACKWELL and named_in(model, FP8_ON_BLACKWELL, rules.version)
    return on_blackwell or named_in(model, FP8_UNASKED, rules.version)


def _is_read(model: Model, rules: Rules) -> bool:
    """Whether the release takes the checkpoint's word for `auto`.

    ModelOpt's is looked up once for the whole cache. Compressed-tensors' scheme is read by each attention layer that is given
    the quantization's settings, and by none that caches latents.

    Source: vLLM 0.33 utils/torch_utils.py resolve_kv_cache_dtype_string, layers/attention/attention.py, mla_attention.py.
    """
    method = "" if model.quantized is None else model.quantized.method
    if not quantizers.caches(model):
        return False
    if method != "compressed-tensors":
        return rules.algorithm_read
    latent = model.has(Latent) and not expands(model, rules.version)
    return rules.scheme_read and not latent and not named(model, SCHEMELESS)
