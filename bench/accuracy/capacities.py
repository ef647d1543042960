"""Given the cache memory that a log prints: are its tokens, concurrency and blocks reproduced?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from bench.accuracy.rows import KNOWN, Row
from kvplan.arch.model import Model
from kvplan.engines.base import Setup
from kvplan.engines.vllm.blocks import allocate
from kvplan.engines.vllm.policy import Vllm
from kvplan.engines.vllm.tables.versions import NEWEST, Version, text
from kvplan.errors import KvplanError
from kvplan.units import GIB

CANDIDATES: tuple[Version, ...] = (
    NEWEST, (0, 31, 0), (0, 28, 0), (0, 25, 0), (0, 22, 0), (0, 20, 0), (0, 19, 0), (0, 16, 0), (0, 11, 2), (0, 8, 5), (0, 6, 4),
)  # fmt: skip
"""Versions to try for a log that doesn't print one."""
LENGTH = 2048
"""Context of models whose config states none. Source: vLLM config/model.py."""
RANKS_DIFFER = 0.5
"""GiB by which the rank that printed its memory may differ from the smallest one, which decides the blocks."""


@dataclass(frozen=True)
class Outcome:
    """The outcome for one row. version: the one that reproduces it, or the first tried. ours, theirs: the figures."""

    row: Row
    hit: bool
    version: Version
    ours: str
    theirs: str
    flags: dict[str, int | bool]


def outcomes(rows: Iterable[Row], *, resolved: bool) -> list[Outcome]:
    """An outcome for each row that prints cache memory and a figure derived from it.

    resolved: whether to fill in unstated flags.
    """
    return [_outcome(row, row.model, resolved) for row in rows if row.model is not None and is_asked(row)]


def is_asked(row: Row) -> bool:
    """Whether kvplan can be asked about a row."""
    printed = {"kv_tokens", "max_concurrency", "gpu_blocks"} & set(row.reported)
    return row.model is not None and row.unknown is None and "available_kv_gib" in row.reported and bool(printed)


def _outcome(row: Row, model: Model, resolved: bool) -> Outcome:  # noqa: FBT001 - passed on
    flags = KNOWN["unstated"].get(row.id, {}).get("flags", {}) if resolved else {}
    tried = list(_tried(_with(row, flags), model, flags))
    return next((outcome for outcome in tried if outcome.hit), tried[0])


def _with(row: Row, flags: dict[str, int | bool]) -> Row:
    own = {name: value for name, value in flags.items() if name != "tp"}
    parallel = replace(row.parallel, tp=int(flags["tp"])) if "tp" in flags else row.parallel
    return replace(row, options=replace(row.options, **own), parallel=parallel)  # type: ignore[arg-type] # JSON's values


def _tried(row: Row, model: Model, flags: dict[str, int | bool]) -> Iterator[Outcome]:
    for version in (row.version,) if row.version else CANDIDATES:
        theirs = ", ".join(f"{name} {row.reported[name]:,}" for name in _printed(row))
        try:
            made = _plan(row, model, version)
        except KvplanError as error:
            yield Outcome(row, hit=False, version=version, ours=str(error), theirs=theirs, flags=flags)
            continue
        low, high = (_ask(made, memory) for memory in _memory(row))
        hit = all(low[name] <= row.reported[name] <= high[name] for name in _printed(row))
        ours = ", ".join(f"{name} {low[name]:,}..{high[name]:,}" for name in _printed(row))
        yield Outcome(row, hit, version, ours, theirs, flags)


def _plan(row: Row, model: Model, version: Version) -> allocate.Plan:
    engine = Vllm(version)
    kv = engine.kv_format(model, row.kv, row.gpu)
    length = row.length or model.context.tokens or LENGTH
    return engine.start(Setup(model, row.gpu, row.parallel, kv, row.options, length)).made


def _printed(row: Row) -> list[str]:
    """The figures to compare; concurrency only if it is for the planned length."""
    same = row.reported.get("max_concurrency_for_tokens", row.length) == row.length
    names = ["kv_tokens", "gpu_blocks", *(["max_concurrency"] if same else [])]
    return [name for name in names if name in row.reported]


def _memory(row: Row) -> tuple[int, int]:
    """The bytes that the rounded figure may stand for."""
    printed = row.reported["available_kv_gib"]
    digits = len(str(printed).partition(".")[2])
    several = row.parallel.tp * row.parallel.pp > 1
    slack = RANKS_DIFFER if several else 0.5 * 10**-digits
    return max(0, int((printed - slack) * GIB)), int((printed + slack) * GIB) + 1


def _ask(made: allocate.Plan, memory: int) -> dict[str, float]:
    """Blocks, tokens and concurrency. vLLM prints them whether or not the longest request fits."""
    blocks = min(memory // size for size in made.stages if size)
    concurrency = blocks / allocate.request_blocks(made)
    return {
        "gpu_blocks": blocks,
        "kv_tokens": allocate.tokens_line(made, blocks, concurrency),
        "max_concurrency": round(concurrency, 2),
    }


def described(outcome: Outcome) -> str:
    """One row of a table."""
    row = outcome.row
    parallel = f"TP{row.parallel.tp}" + (f" PP{row.parallel.pp}" if row.parallel.pp > 1 else "")
    where = f"{row.gpu.id if row.gpu else '-'} {parallel}"
    name = row.raw.get("model_id") or row.raw.get("model_hint")
    return f"| {row.id} | {name} | {where} | {text(outcome.version)} | {outcome.theirs} | {outcome.ours} |"
