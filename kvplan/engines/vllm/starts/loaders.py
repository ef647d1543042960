"""Whether a release has a method that loads the weights, and whether the GPU is new enough for it.

A method states the least compute capability that it takes. compressed-tensors and Quark choose a class for each linear layer
by its format, which states one too; experts have classes of their own, which state none. A format that is asked about
(--weight-dtype) counts as loaded where any method of the release loads it.

Source: config/vllm.py _get_quantization_config, compressed_tensors/compressed_tensors.py and quark/quark.py
_check_scheme_supported, override_quantization_method of modelopt.py and mxfp4.py; releases from 0.6 to 0.33.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kvplan.arch.model import Model
from kvplan.arch.quantized import Quantized
from kvplan.arch.storage import (
    DTYPES,
    FP8_BLOCK,
    FP8_ROW,
    FP8_TENSOR,
    HEADERS_SOURCE,
    INT4,
    INT8_ROW,
    MXFP4,
    MXFP8,
    NF4,
    NVFP4,
)
from kvplan.arch.traits import GGUF_FILES
from kvplan.arch.weights import Weights
from kvplan.engines.vllm.tables.capabilities import METHODS, SCHEMES
from kvplan.engines.vllm.tables.platform_methods import LISTED, METHODS_OF, NAMES, STANDS_FOR
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.engines.vllm.tables.spans import holds, spans
from kvplan.engines.vllm.tables.versions import Version, text
from kvplan.errors import NotServed
from kvplan.hardware.gpu import Gpu
from kvplan.text import any_of

Classes = tuple[str, ...]
FP8 = ("CompressedTensorsW8A8Fp8", "CompressedTensorsW8A16Fp8")
FP4 = ("CompressedTensorsW4A16Fp4", "CompressedTensorsW4A4Fp4")
MX4 = ("CompressedTensorsW4A16Mxfp4", "CompressedTensorsW4A4Mxfp4")
MX8 = ("CompressedTensorsW8A8Mxfp8",)
INT8 = ("CompressedTensorsW8A8Int8", "CompressedTensorsWNA16")
INTS = ("CompressedTensorsWNA16",)

BY_FORMAT: Mapping[str, tuple[tuple[str, Classes], ...]] = {
    "compressed-tensors": (
        ("mxfp4", MX4), ("mxfp8", MX8), ("nvfp4", FP4), ("fp8", FP8), (INT8_ROW.name, INT8), ("int", INTS),
    ),
    "quark": (("fp8", ("QuarkW8A8Fp8",)), (INT8_ROW.name, ("QuarkW8A8Int8",))),
}  # fmt: skip
"""Methods that choose a class by layer: how the names of formats begin, and the classes any of which runs it."""

MODELOPT = {
    "NVFP4": ("modelopt_fp4", "nvfp4"), "W4A16_NVFP4": ("modelopt_fp4",), "MXFP8": ("modelopt_mxfp8",),
    "MIXED_PRECISION": ("modelopt_mixed",),
}  # fmt: skip
"""Methods that ModelOpt's quant_algo stands for, where it isn't modelopt itself."""

RENAMED = {"auto-round": ("auto-round", "inc"), "finegrained_fp8": ("fp8",)}
GPT_OSS = ("gpt_oss_mxfp4", "mxfp4")


@dataclass(frozen=True, slots=True)
class Loader:
    """A way to load weights: a method, and the classes any of which runs its linear layers; none where it asks no class."""

    method: str
    classes: Classes = ()

    def least(self, release: Version) -> int | None:
        """The least compute capability, as 10 x major + minor; None where the release has no such method or class."""
        own, scheme = _least(METHODS, (self.method,), release), _least(SCHEMES, self.classes, release)
        if own is None or (self.classes and scheme is None):
            return None
        return max(own, scheme or 0)

    def said(self, release: Version, capability: int) -> str:
        """VLLM's words where `capability` is below the least."""
        own = _least(METHODS, (self.method,), release) or 0
        if own > capability:
            return (
                f"The quantization method {self.method} is not supported for the current GPU. Minimum capability: {own}. "
                f"Current capability: {capability}."
            )
        return (
            f"Quantization scheme is not supported for the current GPU. Min capability: {self.least(release)}. "
            f"Current capability: {capability}."
        )

    def releases(self) -> tuple[Version, Version | None]:
        """The first release that has the method and a class for its layers, and the last; no last where the newest has."""
        tables = [SCHEMES[name] for name in self.classes if name in SCHEMES] or [METHODS[self.method]]
        found = [span for table in tables for written in table.values() for span in spans(written)]
        ends = [end for _, end in found]
        return min(start for start, _ in found), None if None in ends else max(end for end in ends if end)


COMPRESSED = "compressed-tensors"
GGUF = (Loader("gguf"),)
EIGHT = (Loader("fp8"), Loader(COMPRESSED, FP8), Loader("fbgemm_fp8"))
ASKED: dict[str, tuple[Loader, ...]] = {
    "fp8": EIGHT,  # of any kind, as plan/suggest.py has it
    FP8_ROW.name: EIGHT,
    FP8_BLOCK.name: (Loader("fp8"),),
    FP8_TENSOR.name: (Loader("fp8"), Loader(COMPRESSED, FP8), Loader("modelopt")),
    INT8_ROW.name: (Loader(COMPRESSED, INT8), Loader("bitsandbytes")),
    INT4.name: (Loader("awq"), Loader("gptq"), Loader(COMPRESSED, INTS)),
    NVFP4.name: (Loader("modelopt_fp4"), Loader("nvfp4"), Loader(COMPRESSED, FP4)),
    MXFP4.name: (Loader(COMPRESSED, MX4), Loader("mxfp4")),
    MXFP8.name: (Loader("modelopt_mxfp8"), Loader(COMPRESSED, MX8)),
    NF4.name: (Loader("bitsandbytes"),),
}
"""Ways to load weights in a format that is asked about, the usual one first; llama.cpp's types and mixes aside."""


def ways(stored: str) -> tuple[Loader, ...]:
    """Ways to load weights in a format that is asked about; dtypes need none."""
    return () if stored in DTYPES else ASKED.get(stored, GGUF)


HINTED = {"int4": INT4.name, "fp8": FP8_ROW.name, "int8": INT8_ROW.name, "nvfp4": NVFP4.name, "nf4": NF4.name}
"""Formats to propose, as --weight-dtype has them."""

EXAMPLES = ((70, "V100"), (75, "T4"), (80, "A100"), (89, "L40S"), (90, "H100"), (100, "B200"))
"""GPUs by compute capability."""


def check(model: Model, rules: Rules, gpu: Gpu | None) -> None:
    """Refuse weights that the release has no method for, or none that takes the GPU or its platform.

    Only NVIDIA's GPUs have the numbers that methods state, and only platforms of other vendors list methods; without a GPU
    nothing is asked of it.

    Raises: NotServed.
    """
    release = rules.version
    capability = _capability(gpu)
    for ways in _needed(model, release):
        having = [way for way in ways if way.least(release) is not None]
        if not having:
            raise _missing(model, ways[0], release)
        if capability is not None and all((way.least(release) or 0) > capability for way in having):
            raise _too_old(model, having[0], release, capability)
        if gpu is not None and not any(_listed(way.method, gpu.vendor, release) for way in having):
            raise NotServed(
                f"vLLM {text(release)} doesn't load {_what(model)} on this GPU",
                cause=f"{having[0].method} quantization is currently not supported in {NAMES[gpu.vendor]}.",
                hint="other weights: it takes "
                + any_of(_formats_of(gpu.vendor, release))
                + " (--weight-dtype asks what if)",
            )


def _listed(method: str, vendor: str, release: Version) -> bool:
    """Whether a vendor's platform takes a method, or one that stands in for it there; a platform without a list takes any."""
    if vendor not in LISTED or release < LISTED[vendor]:
        return True
    names = (method, *STANDS_FOR.get(method, ()))
    return any(holds(METHODS_OF[vendor].get(name, ""), release) for name in names)


def _formats_of(vendor: str, release: Version) -> tuple[str, ...]:
    """Formats to propose that a method of the release loads on a vendor's platform."""
    return (
        *(
            name
            for name, stored in HINTED.items()
            if any(way.least(release) is not None and _listed(way.method, vendor, release) for way in ASKED[stored])
        ),
        "bf16",
    )


def _needed(model: Model, release: Version) -> Iterator[tuple[Loader, ...]]:
    """Ways to load each part of the weights: all parts are needed, and one way of each."""
    if model.what_if is not None:
        asked = ways(model.what_if)
        yield from (asked,) if asked else ()
        return
    if GGUF_FILES in model.traits:
        yield GGUF
    block = model.quantized
    method = None if block is None else _method(block, model, release)
    if method is None:
        return
    yield (Loader(method),)
    for classes in dict.fromkeys(_classes(method, model.weights)) if model.weights is not None else ():
        yield (Loader(method, classes),)


def _method(block: Quantized, model: Model, release: Version) -> str | None:
    """The method that the release makes of a block; None where it has none, which is refused elsewhere."""
    names = RENAMED.get(block.method, (block.method,))
    if block.method == "modelopt":
        names = MODELOPT.get(block.algorithm, names)
    if block.method == "mxfp4" and model.family == "gpt_oss":
        names = GPT_OSS
    return next((name for name in names if _least(METHODS, (name,), release) is not None), None)


def _classes(method: str, weights: Weights) -> Iterator[Classes]:
    """Classes of the formats of linear layers, experts aside."""
    formats = BY_FORMAT.get(method, ())
    for weight in (weight for layer, _ in weights.distinct for weight in layer):
        if weight.quantizable and not weight.routed and weight.stored.source != HEADERS_SOURCE:
            found = next((classes for begins, classes in formats if weight.stored.name.startswith(begins)), None)
            yield from () if found is None else (found,)


def _least(table: Mapping[str, Mapping[int, str]], names: tuple[str, ...], release: Version) -> int | None:
    """The least number of any of the names in a release."""
    found = (number for name in names for number, written in table.get(name, {}).items() if holds(written, release))
    return min(found, default=None)


def _capability(gpu: Gpu | None) -> int | None:
    if gpu is None or gpu.vendor != "nvidia" or gpu.compute_capability is None:
        return None
    return 10 * gpu.compute_capability[0] + gpu.compute_capability[1]


def _missing(model: Model, way: Loader, release: Version) -> NotServed:
    """No method of the release loads the weights."""
    since, until = way.releases()
    early = until is None or release < since
    there = text(since if until is None or early else until)
    when = f"vLLM has had it since {there}" if early else f"vLLM had it until {there}"
    cause = f"Unknown quantization method: {way.method}" if not way.classes else NO_SCHEME
    return NotServed(
        f"vLLM {text(release)} doesn't load {_what(model)}",
        cause=f"{cause}; {when}",
        hint=f"--engine vllm@{there}, --engine ideal, or --weight-dtype {any_of(_loaded(release, None))}",
    )


NO_SCHEME = "No compressed-tensors compatible scheme was found"


def _too_old(model: Model, way: Loader, release: Version, capability: int) -> NotServed:
    """The GPU is older than every method for the weights takes."""
    least = way.least(release) or 0
    example = next((name for number, name in EXAMPLES if number >= least), "")
    formats = ", ".join((*_loaded(release, capability), "bf16"))
    return NotServed(
        f"vLLM {text(release)} doesn't load {_what(model)} on this GPU",
        cause=way.said(release, capability),
        hint=f"a GPU of compute capability {least // 10}.{least % 10} or later ({example}), or other weights: this GPU loads "
        f"{formats} (--weight-dtype asks what if)",
    )


def _loaded(release: Version, capability: int | None) -> tuple[str, ...]:
    """Formats to propose that a method of the release loads, on a GPU of that compute capability."""
    return tuple(
        name
        for name, stored in HINTED.items()
        if any((least := way.least(release)) is not None and least <= (capability or least) for way in ASKED[stored])
    )


def _what(model: Model) -> str:
    return model.origin.id if model.what_if is None else f"{model.origin.id} in {model.what_if}"
