"""Cache formats: the bits of an element, and the scales that a block or a row of elements shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from kvplan.errors import UnknownName, UsageError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Format:
    """How a row of numbers is stored.

    bits: of one element. block, scale_bits: every `block` elements share `scale_bits` of scale (and zero point).
    row_bits: scale bits once per row; a row is the vector of one head and token. latents: whether it packs a latent
    with its rotary key, and can't store the keys and values of heads.
    """

    name: str
    bits: int
    block: int = 1
    scale_bits: int = 0
    row_bits: int = 0
    source: str = "IEEE 754 and its 16-bit and 8-bit relatives: no scales stored beside the elements"
    latents: bool = False

    def row_bytes(self, elements: int) -> int:
        """Bytes of a row of `elements` numbers, scales included.

        Raises: UsageError if blocks don't divide the row (llama.cpp and the NVFP4 kernels refuse it too).
        """
        if elements % self.block:
            raise UsageError(
                f"{self.name} can't store rows of {elements} elements",
                cause=f"its blocks of {self.block} elements must divide the row",
                hint="pick a format without blocks: bf16, fp8 or int8",
            )
        bits = elements * self.bits + elements // self.block * self.scale_bits + self.row_bits
        return -(-bits // 8)


_GGML = "ggml-common.h: sizes of block_q8_0 ... block_iq4_nl"
_OCP = "OCP Microscaling Formats specification 1.0: 32 elements share one 8-bit scale"
_NVFP4 = "vLLM 0.33 v1/kv_cache_interface.py: two elements a byte, one fp8 scale per 16 elements"
_PACKED = "vLLM 0.33 v1/attention/backends/mla/flashmla_sparse.py: rows of 512 + 64, the rotary key wider than the latent, four scales: 656 and 352 B"
_TURBO = "vLLM 0.33 quantization/turboquant/config.py: packed keys with an fp16 norm (fp8 keys have none), values with fp16 scale and zero"
_PER_HEAD = "vLLM 0.33 --kv-cache-dtype *_per_token_head: one fp32 scale per head and token"

FORMATS: dict[str, Format] = {
    format_.name: format_
    for format_ in (
        Format("fp32", 32),
        Format("bf16", 16),
        Format("fp16", 16),
        Format("fp8", 8, source="vLLM 0.33 --kv-cache-dtype fp8: one scale per tensor, none stored in the cache"),
        Format("fp8_e5m2", 8, source="vLLM 0.33 --kv-cache-dtype fp8_e5m2: no scales at all"),
        Format("int8", 8, source="one scale per tensor, none stored in the cache"),
        Format("fp8_per_token_head", 8, row_bits=32, source=_PER_HEAD),
        Format("int8_per_token_head", 8, row_bits=32, source=_PER_HEAD),
        Format("int4_per_token_head", 4, row_bits=32, source=_PER_HEAD),
        Format("nvfp4", 4, block=16, scale_bits=8, source=_NVFP4),
        Format("nvfp4_4over6", 4, block=16, scale_bits=8, source=f"{_NVFP4}; the same rows, whose scales are chosen otherwise (config/cache.py)"),
        Format("fp8_ds_mla", 8, row_bits=640, source=_PACKED, latents=True),
        Format("nvfp4_ds_mla", 4, block=16, scale_bits=8, row_bits=224, source=_PACKED, latents=True),
        Format("turboquant_k8", 8, source=_TURBO),
        Format("turboquant_k4", 4, row_bits=16, source=_TURBO),
        Format("turboquant_k3", 3, row_bits=16, source=_TURBO),
        Format("turboquant_v4", 4, row_bits=32, source=_TURBO),
        Format("turboquant_v3", 3, row_bits=32, source=_TURBO),
        Format("mxfp8", 8, block=32, scale_bits=8, source=_OCP),
        Format("mxfp4", 4, block=32, scale_bits=8, source=_OCP),
        Format("q8_0", 8, block=32, scale_bits=16, source=_GGML),
        Format("q5_1", 5, block=32, scale_bits=32, source=_GGML),
        Format("q5_0", 5, block=32, scale_bits=16, source=_GGML),
        Format("q4_1", 4, block=32, scale_bits=32, source=_GGML),
        Format("q4_0", 4, block=32, scale_bits=16, source=_GGML),
        Format("iq4_nl", 4, block=32, scale_bits=16, source=_GGML),
        Format("kivi2", 2, block=32, scale_bits=32, source="KIVI, arXiv:2402.02750: groups of 32 with fp16 scale and zero; keys per channel, values per token; the recent tokens it keeps in 16 bit are not counted"),
    )
}  # fmt: skip

DTYPE_ALIASES = {
    "float32": "fp32", "f32": "fp32", "float": "fp32", "bfloat16": "bf16", "float16": "fp16", "f16": "fp16", "half": "fp16",
    "fp8_e4m3": "fp8",
}  # fmt: skip
"""Other spellings of dtypes, of a cache and of weights alike."""

ALIASES = {
    **DTYPE_ALIASES, "float8_e4m3fn": "fp8", "float8_e5m2": "fp8_e5m2", "e4m3": "fp8", "e5m2": "fp8_e5m2",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class KvFormat:
    """Formats of the keys and of the values; llama.cpp lets them differ."""

    k: Format
    v: Format

    @property
    def name(self) -> str:
        """`bf16`, or `q8_0:q4_0` where keys and values differ."""
        return self.k.name if self.k == self.v else f"{self.k.name}:{self.v.name}"

    def of_heads(self) -> KvFormat:
        """This format, if it can store the keys and values of heads.

        Raises: UsageError for a format that stores only latents.
        """
        if self.k.latents or self.v.latents:
            raise UsageError(
                f"{(self.k if self.k.latents else self.v).name} stores latents only",
                cause="this model's layers keep keys and values, which the format can't store",
                hint="pick a format for keys and values: bf16, fp8 or int8",
            )
        return self


PAIRS: dict[str, tuple[str, str]] = {
    "turboquant_k8v4": ("turboquant_k8", "turboquant_v4"),
    "turboquant_4bit_nc": ("turboquant_k4", "turboquant_v4"),
    "turboquant_k3v4_nc": ("turboquant_k3", "turboquant_v4"),
    "turboquant_3bit_nc": ("turboquant_k3", "turboquant_v3"),
}
"""Cache formats with one name that store keys and values differently."""


def find_format(name: str) -> Format | None:
    """The format of that name, in any spelling (`torch.bfloat16`); None if there is none."""
    return _known(name, FORMATS, ALIASES)


def format_named(name: str) -> Format:
    """The format of that name, in any spelling.

    Raises: UnknownName.
    """
    found = find_format(name)
    if found is None:
        whole = [known for known in FORMATS if not any(known in pair for pair in PAIRS.values())]
        raise UnknownName(
            f"{name!r} is not a cache format",
            hint=f"known: {', '.join((*whole, *PAIRS))}; the formula takes all of them, an engine its own",
        )
    return found


def spelled(name: str, known: Mapping[str, T], aliases: Mapping[str, str], what: str) -> T:
    """The entry of that name, in any spelling. what: the kind of entry (`a cache format`), for the message.

    Raises: UnknownName.
    """
    found = _known(name, known, aliases)
    if found is None:
        raise UnknownName(f"{name!r} is not {what}", hint="known: " + ", ".join(known))
    return found


def _known(name: str, known: Mapping[str, T], aliases: Mapping[str, str]) -> T | None:
    key = name.strip().lower().removeprefix("torch.").replace("-", "_")
    return known.get(aliases.get(key, key))


def parse_kv_format(text: str) -> KvFormat:
    """The format of `fp8` (keys and values alike), `q8_0:f16` (keys:values) or `turboquant_k8v4` (a pair).

    Raises: UnknownName.
    """
    pair = PAIRS.get(text.strip().lower())
    k, colon, v = ":".join(pair).partition(":") if pair else text.partition(":")
    if colon and not (k.strip() and v.strip()):
        raise UnknownName(
            f"{text!r} is not a cache format",
            cause=f"it names no format for the {'values' if k.strip() else 'keys'}",
            hint="write one name for both keys and values, or K:V like q8_0:q4_0",
        )
    return KvFormat(format_named(k), format_named(v or k))
