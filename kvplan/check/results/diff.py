"""What has changed: inputs first, then the numbers that they changed, and by how much."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from kvplan.check.budgets.budget import ENDS, Deployment
from kvplan.check.budgets.flags import own_flags
from kvplan.check.results.blame import blamed
from kvplan.check.results.judge import at, unbounded
from kvplan.check.results.lock import Entry, rounded
from kvplan.check.results.metrics import METRICS, NUMBERS, STARTS
from kvplan.manifests.keys import CONNECTORS, EVENTS
from kvplan.report.findings import DRIFT
from kvplan.report.schema.check import At, CheckRow, Moved, Result, Scalar, Subject, Three
from kvplan.report.views.check_words import change, name

MOST_TOLD = 6
"""Changes told in one sentence; the document has them all."""


def compared(result: Result, deployment: Deployment, old: Entry | None) -> Result:
    """The result with what changed since it was `old`, and annotations moved to the line that broke a limit."""
    if result.subject is None or result.numbers is None:
        return result
    if old is None:
        return replace(result, change="added")
    moved = (*_inputs(old[0], result.subject, deployment), *_numbers(old[1], result.numbers))
    checks = tuple(_blame(row, old[1], moved, deployment) for row in result.checks)
    return replace(result, change="changed" if moved else "same", moved=moved, checks=checks)


def drift(result: Result, lock: str) -> Result:
    """The result with a warning where it isn't what the lock says."""
    if result.change == "added":
        message = f"is not in {lock}; kvplan check --update adds it"
    elif result.change == "changed":
        message = f"is not as {lock} has it: {told(result.moved)}; kvplan check --update accepts it"
    else:
        return result
    first = next((entry.at for entry in result.moved if entry.at is not None), result.at)
    row = unbounded(rule=DRIFT, status="warn", level="warn", shown=first, message=message)
    status = "warn" if result.status == "pass" else result.status
    return replace(result, status=status, checks=(*result.checks, row))


def told(moved: tuple[Moved, ...]) -> str:
    """The changes in a sentence."""
    parts = [f"{_called(entry)} {change(entry)}" for entry in moved[:MOST_TOLD]]
    more = len(moved) - MOST_TOLD
    return ", ".join(parts) + (f" and {more} more" if more > 0 else "")


def _called(entry: Moved) -> str:
    return name(entry.name) if entry.kind == "number" else entry.name


def _inputs(old: Subject, new: Subject, deployment: Deployment) -> Iterator[Moved]:
    before, after = _flat(old), _flat(new)
    for key in dict.fromkeys((*after, *before)):
        if before.get(key) != after.get(key):
            yield Moved("input", key, before.get(key), after.get(key), at=_place(key, deployment))


def _flat(subject: Subject) -> dict[str, Scalar]:
    found: dict[str, Scalar] = {
        "model": subject.model, "revision": subject.revision, "engine": subject.engine, "engine version": subject.version,
        "gpu": subject.gpu, "gpu_memory": subject.gpu_memory, "context": subject.context, "kv_dtype": subject.kv_dtype,
        "weights_basis": subject.weights_basis,
    }  # fmt: skip
    found |= {f"parallel.{size}": value for size, value in subject.parallel.items()}
    return found | dict(subject.options)


_MANAGING = (f"flags.{CONNECTORS}", f"flags.{EVENTS}")


def _place(key: str, deployment: Deployment) -> At | None:
    """The line that says an input; None for one that nobody wrote."""
    names = [f"flags.{flag}" for flag, known in own_flags(deployment.question.engine).items() if known.option == key]
    elsewhere = {
        "engine version": ["engine"],
        "revision": ["revision", "model"],
        "hybrid_manager": [*names, *_MANAGING],
    }
    keys = elsewhere.get(key, [key, *names])
    found = next((deployment.places[known] for known in keys if known in deployment.places), None)
    return at(found) if found is not None else None


def _numbers(old: Mapping[str, Three], new: Mapping[str, Three]) -> Iterator[Moved]:
    """Numbers of which some end moved, told by the first that did."""
    for number in NUMBERS:
        before, after = old.get(number), new.get(number)
        if before is None or after is None:
            continue
        for end in ENDS:
            then, now = rounded(before.at(end)), rounded(after.at(end))
            if then != now:
                yield Moved("number", number, then, now, NUMBERS[number].unit, end)
                break


def _blame(row: CheckRow, before: Mapping[str, Three], moved: tuple[Moved, ...], deployment: Deployment) -> CheckRow:
    """A row that broke since then stands on the line that changed."""
    if row.status == "pass" or not _kept(row, before, deployment):
        return row
    at = blamed(row.rule, moved)
    return row if at is None else replace(row, shown=at)


def _kept(row: CheckRow, before: Mapping[str, Three], deployment: Deployment) -> bool:
    """Whether the old numbers kept what the row checks, where they can say so."""
    if row.rule == STARTS:
        return bool(before["max_sequences"].safe)
    metric = next((metric for metric in METRICS.values() if metric.rule == row.rule), None)
    if metric is None or row.limit is None or row.unit == "share":
        return False
    mine = [limit for limit in deployment.limits if limit.metric == metric.limit and limit.end == row.end]
    if not any(limit.bound == row.limit and limit.at is None and limit.batch is None for limit in mine):
        return False
    value = before[metric.number].at(row.end)
    return metric.endless if value is None else metric.keeps(value, row.limit)
