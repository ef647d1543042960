"""Phrases that several pages share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kvplan.arch.weights import BEYOND_LLAMA
from kvplan.report.blocks import Note
from kvplan.report.schema import common as schema
from kvplan.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from kvplan.report.schema.common import Explained


def model_line(model: schema.ModelInfo) -> str:
    """`llama-3-70b (llama, 70.6B parameters)`."""
    total, active = model.parameters.total, model.parameters.active
    if total is None:
        return f"{model.id} ({model.family})"
    least = model.weights is not None and bounded(model.weights)
    about = "" if model.parameters.exact else "at least " if least else "about "
    text = f"{about}{parameter_text(total)} parameters"
    if active is not None and active != total:
        text += f", {parameter_text(active)} active"
    return f"{model.id} ({model.family}, {text})"


def bounded(weights: schema.WeightsInfo) -> bool:
    """Whether the count is a lower bound: parts are missing, and the rest isn't assumed to be Llama's."""
    return bool(weights.missing) and not any(part.endswith(BEYOND_LLAMA) for part in weights.missing)


def parameter_text(count: int) -> str:
    """`70.6B`, `361M`."""
    return f"{count / 1e9:.1f}B" if count >= 10**9 else f"{count / 1e6:.0f}M"


def weights_text(weights: schema.WeightsInfo) -> str:
    """`14.96 GiB (16,060,522,496 B) by its headers, the config's formula 0.02 % less`."""
    text = exact(weights.bytes)
    if weights.basis == "what_if":
        return f"{text} if kept in {weights.method.removeprefix('what if ')}"
    if weights.formula_bytes is None:
        kept = f" ({weights.method})" if weights.method else ""
        return f"{text} by the config{kept}" + (
            ", at least" if bounded(weights) else ", about" if weights.missing else ""
        )
    return f"{text} by {weights.method}; the config's formula {apart(weights.formula_bytes, weights.bytes)}"


def apart(size: int, other: int) -> str:
    """The difference of `size` from `other`: `agrees to the byte`, `gives 0.02 % less`."""
    if size == other:
        return "agrees to the byte"
    share_apart = abs(size - other) / other * 100 if other else 100.0
    figures = f"{share_apart:.0f}" if share_apart >= 10 else f"{share_apart:.2g}"
    return f"gives {figures} % {'less' if size < other else 'more'}"


def reads_text(reads: schema.WeightReads) -> str:
    """`25.51 GB`, or `at least 12.80 GiB, likely 80.10 GiB, at most 87.00 GiB`."""
    if reads.low == reads.high:
        return format_bytes(reads.likely)
    low, likely, high = (format_bytes(size) for size in (reads.low, reads.likely, reads.high))
    return f"at least {low}, likely {likely}, at most {high}"


def layout_text(parallel: schema.Layout) -> str:
    """`TP 8 x PP 2`; empty for one GPU."""
    sizes = (("TP", parallel.tp), ("PP", parallel.pp), ("DP", parallel.dp), ("EP", parallel.ep), ("DCP", parallel.dcp))
    return " x ".join(f"{name} {size}" for name, size in sizes if size > 1)


def kv_text(kv: schema.KvDtype) -> str:
    """`bf16`, or `q8_0 keys, q4_0 values`."""
    return kv.k if kv.k == kv.v else f"{kv.k} keys, {kv.v} values"


def engine_text(engine: schema.EngineInfo) -> str:
    """`vllm 0.33`, `the formula`."""
    return "the formula" if engine.version is None else f"{engine.name} {engine.version}"


def exact(size: int) -> str:
    """`320.00 KiB (327,680 B)`."""
    return format_bytes(size) if abs(size) < 1024 else f"{format_bytes(size)} ({size:,} B)"


def size(count: int | None) -> str:
    """Bytes; `unknown` for None."""
    return "unknown" if count is None else format_bytes(count)


def seconds(value: float | None) -> str:
    """`16.23 ms`; `unknown` for None."""
    return "unknown" if value is None else format_seconds(value)


def settings_text(settings: Iterable[schema.Setting]) -> str:
    """`set elsewhere: tp 8 (kvplan.toml), kv_dtype fp8 (KVPLAN_KV_DTYPE)`."""
    return "set elsewhere: " + ", ".join(f"{each.name} {each.value} ({each.source})" for each in settings)


def set_elsewhere(settings: Sequence[schema.Setting]) -> tuple[Note, ...]:
    """The same as a note; empty without settings."""
    return (Note(f"S{settings_text(settings)[1:]}."),) if settings else ()


def share(value: float) -> str:
    """`76 %`."""
    return f"{value * 100:.0f} %"


def times(ratio: float) -> str:
    """`1,093x`, `71.1x`, or `1/1.87x` for what is smaller."""
    if ratio == 0:
        return "0x"
    if ratio < 1:
        return f"1/{times(1 / ratio)}"
    return f"{ratio:,.0f}x" if ratio >= 100 else f"{ratio:.3g}x"


def amount(value: float | None, unit: str) -> str:
    """A number of the explain tree: `40.00 GiB (42,949,672,960 B)`, `16.23 ms`, `162 sequences`."""
    if value is None:
        return "unknown"
    if unit == "bytes":
        return f"{format_bytes(int(value))} ({int(value):,} B)"
    if unit == "s":
        return format_seconds(float(value))
    return f"{value:,} {unit}".strip()


def inputs(node: Explained) -> str:
    """The inputs of a term: `layers 80, batch 162`."""
    return ", ".join(f"{name} {_said(value)}" for name, value in node.inputs.items() if value is not None)


def _said(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
