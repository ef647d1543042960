"""Numbers and limits in words, the same in every output."""

from __future__ import annotations

from kvplan.report.schema.check import Moved, Scalar
from kvplan.units import format_bytes, format_seconds

_NAMES = {
    "kv_per_token": "cache per token", "kv_per_sequence": "cache of one sequence", "weights": "weights on a GPU",
    "max_sequences": "sequences at once", "max_context": "longest sequence", "tpot": "time per output token",
    "gpus": "GPUs", "headroom": "headroom", "kv_memory": "cache memory of a GPU",
}  # fmt: skip


def name(number: str) -> str:
    """The name of a number in words."""
    return _NAMES.get(number, number)


def amount(value: float | None, unit: str | None) -> str:
    """`40.00 GiB`, `32,768 tokens`, `16.23 ms`, `8.0 %`; `unknown` for None."""
    if value is None:
        return "unknown"
    if unit == "bytes":
        return format_bytes(int(value))
    if unit == "seconds":
        return format_seconds(value)
    if unit == "share":
        return f"{100 * value:,.1f} %"
    return f"{value:,.0f} tokens" if unit == "tokens" else f"{value:,.0f}"


def plain(value: Scalar, unit: str | None) -> str:
    """One side of a change."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "none" if value is None else str(value)
    return amount(value, unit) if unit else f"{value:,}" if isinstance(value, int) else f"{value:g}"


def change_text(before: Scalar, after: Scalar, unit: str | None) -> str:
    """`48 sequences -> 52 sequences (+8.3 %)`."""
    text = f"{plain(before, unit)} -> {plain(after, unit)}"
    numbers = [value for value in (before, after) if isinstance(value, int | float) and not isinstance(value, bool)]
    if unit is None or len(numbers) != len((before, after)) or not numbers[0]:
        return text
    share = 100 * (numbers[1] - numbers[0]) / abs(numbers[0])
    return f"{text} ({share:+,.0f} %)" if abs(share) >= 10 else f"{text} ({share:+.2g} %)"


def change(moved: Moved) -> str:
    """`change_text` for a recorded change."""
    return change_text(moved.before, moved.after, moved.unit)
