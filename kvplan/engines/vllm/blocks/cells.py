"""Bytes of one token in one layer, by vLLM's cache format.

Source: vLLM 0.33 v1/kv_cache_interface.py and the customize_spec of each backend; DeepSeek's packed rows:
v1/attention/backends/mla/flashmla_sparse.py, models/deepseek_v4/attention.py.
"""

from __future__ import annotations

from kvplan.arch.formats import FORMATS, PAIRS, Format, KvFormat
from kvplan.engines.vllm.tables.architectures import BFLOAT16
from kvplan.errors import UsageError

BF16, FP16 = FORMATS["bf16"], FORMATS["fp16"]

NAMES = {
    "bf16": "16 bit", "fp16": "16 bit", "fp32": "16 bit", "fp8": "fp8", "fp8_e5m2": "fp8_e5m2", "nvfp4": "nvfp4",
    "nvfp4_4over6": "nvfp4_4over6",
    "fp8_per_token_head": "fp8_per_token_head", "int8_per_token_head": "int8_per_token_head",
    "int4_per_token_head": "int4_per_token_head", "turboquant_k8": "turboquant", "turboquant_k4": "turboquant",
    "turboquant_k3": "turboquant", "fp8_ds_mla": "fp8_ds_mla", "nvfp4_ds_mla": "nvfp4_ds_mla",
}  # fmt: skip
"""What backends call the formats that vLLM has."""

PER_HEAD = frozenset({"fp8_per_token_head", "int8_per_token_head", "int4_per_token_head"})
"""Formats with a scale for every head and token."""

COMPRESSED_ROW, COMPRESSED_ALIGNMENT = 584, 576
"""A compressed latent's packed row of 448 + 64, and what its pages are multiples of."""


def cache_name(kv: KvFormat) -> str:
    """The backends' name of a cache format.

    Raises: UsageError when vLLM has no such format.
    """
    name = NAMES.get(kv.k.name)
    paired = name == "turboquant" and kv.v.name.startswith("turboquant_v")
    if name is None or not (paired or kv.k == kv.v):
        raise UsageError(
            f"vLLM has no cache format {kv.name}",
            hint="it has bf16, fp8, fp8_e5m2, nvfp4, nvfp4_4over6, fp8_ds_mla, nvfp4_ds_mla, {fp8,int8,int4}_per_token_head and turboquant_{k8v4,4bit_nc,k3v4_nc,3bit_nc}",
        )
    return name


SPELLED = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
"""Formats that vLLM spells otherwise."""


def spelled(format_: Format) -> str:
    """A format as vLLM calls it."""
    return SPELLED.get(format_.name, format_.name)


def flag(kv: KvFormat) -> str:
    """The value of --kv-cache-dtype."""
    pair = next((name for name, formats in PAIRS.items() if formats == (kv.k.name, kv.v.name)), None)
    return pair or spelled(kv.k)


def sixteen_bit(format_: Format) -> Format:
    """The 16-bit format that vLLM runs a 32-bit checkpoint in. Source: config/model.py _resolve_auto_dtype."""
    return BF16 if format_.bits > BF16.bits else format_


def run_in(format_: Format, device: tuple[int, int] | None) -> Format:
    """The format that vLLM runs a checkpoint in on a GPU of this compute capability: float16 where there is no bfloat16."""
    own = sixteen_bit(format_)
    return FP16 if own.name == BF16.name and device is not None and device < BFLOAT16 else own


def pair(kv: KvFormat, k_dim: int, v_dim: int) -> int:
    """Bytes of one head's key and value of one token, an even number.

    Kernels for keys and values of different sizes keep a byte an element and no scales. Source: vLLM 0.33
    v1/attention/backends/flash_attn_diffkv.py.
    """
    if k_dim != v_dim and kv.k.name in PER_HEAD:
        return k_dim + v_dim
    size = kv.k.row_bytes(k_dim) + kv.v.row_bytes(v_dim)
    return size + size % 2


def latent_row(kv: KvFormat, elements: int) -> int:
    """Bytes of a latent and its rotary key."""
    return kv.k.row_bytes(elements)


PACKED = {
    ("FLASHMLA_SPARSE", "fp8"): FORMATS["fp8_ds_mla"],
    ("FLASHINFER_MLA_SPARSE_SM120", "16 bit"): FORMATS["fp8_ds_mla"],
    ("FLASHINFER_MLA_SPARSE_SM120", "fp8"): FORMATS["fp8_ds_mla"],
}
"""Formats that a backend keeps when asked for another."""
