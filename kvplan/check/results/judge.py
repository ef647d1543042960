"""A deployment's plan compared with its limits: one row for each limit, with the numbers in a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from kvplan.check.budgets.budget import Deployment, Limit
from kvplan.check.plans.planning import Planned, Planner, Refused, Unanswered
from kvplan.check.results.metrics import METRICS, STARTS, Metric
from kvplan.errors import Problem
from kvplan.manifests.places import UNSEEN, Place, Remark
from kvplan.report.schema.check import RANKS, At, CheckRow, End, Level, Result, Status, Subject, Three, Trouble
from kvplan.report.views.check_words import amount, name

_ENDS = {"safe": "", "likely": " (likely)", "ideal": " (by the formula)"}


def judge(deployment: Deployment, planner: Planner) -> Result:
    """Plan it, and check every limit."""
    outcome = planner.plan(deployment.question)
    if isinstance(outcome, Unanswered):
        return _unanswered(deployment, outcome)
    if isinstance(outcome, Refused):
        return _refused(deployment, outcome)
    if outcome.short and (doubt := next(_doubts(deployment), None)) is not None:
        return _undecided(deployment, outcome, doubt)
    rows = [_starts(deployment, outcome)]
    for limit in deployment.limits:
        found = _limited(deployment, limit, outcome, planner)
        if isinstance(found, Unanswered):
            return _unanswered(deployment, found)
        if isinstance(found, Refused):
            return _refused(deployment, found)
        rows.append(found)
    rows += [_remark(remark) for remark in deployment.remarks]
    return Result(
        name=deployment.name,
        status=min((row.status for row in rows), key=RANKS.__getitem__),
        at=at(deployment.place),
        subject=_subject(deployment, outcome),
        numbers=outcome.numbers,
        checks=tuple(rows),
        error=None,
        change=None,
        moved=(),
        warnings=outcome.warnings,
    )


def at(place: Place) -> At:
    """The place as documents have it."""
    return At(place.file, place.line)


def _unanswered(deployment: Deployment, outcome: Unanswered) -> Result:
    blamed = _blamed(deployment, outcome.keys)
    return unanswered(deployment.name, deployment.place, outcome.problem, outcome.exit_code, blamed)


def _doubts(deployment: Deployment) -> Iterator[Remark]:
    """What is said of words that may be any flags, and of flags that may leave more memory free than is planned, unless a budget says what weights take."""
    told = deployment.question.options.weights_per_gpu is not None
    return (remark for remark in deployment.remarks if remark.rule == UNSEEN or (remark.frees and not told))


def _undecided(deployment: Deployment, outcome: Planned, doubt: Remark) -> Result:
    """No answer: too little memory by what is counted, beside flags that may ask for more GPUs, or for less of each."""
    context = outcome.subject.context
    hint = "write every flag out, or say what it runs with in a budget: `from: FILE`, and its own parallel, context and flags"
    if doubt.frees:
        hint = "say what the weights take on one GPU in a budget: `from: FILE` and `flags: {weights: 40GiB}`"
    problem = Problem(
        f"nobody can tell whether it starts: {doubt.text}",
        cause=f"by what is counted it doesn't, with {context:,} tokens: {outcome.reasons['safe']}",
        hint=hint,
    )
    return unanswered(deployment.name, deployment.place, problem, 2, at(doubt.place))


def _refused(deployment: Deployment, outcome: Refused) -> Result:
    """A no of the engine's own: there are no numbers to hold against the limits, and none of them is kept."""
    rule, problem = deployment.starts, outcome.problem
    row = unbounded(
        rule=STARTS,
        status=_status(rule.level, holds=False),
        level=rule.level,
        shown=_blamed(deployment, outcome.keys) or at(_where(deployment, ("context", "model"))),
        message=". ".join(part for part in (f"does not start: {problem.what}", problem.cause) if part),
        end=rule.end,
    )
    limits = (
        _row(
            deployment,
            limit,
            None,
            holds=False,
            tokens=limit.at,
            message=f"{name(METRICS[limit.metric].number)}: not reached, as it doesn't start",
        )
        for limit in deployment.limits
    )
    rows = (replace(row, hint=problem.hint), *limits, *(_remark(remark) for remark in deployment.remarks))
    return Result(
        name=deployment.name, status=min((row.status for row in rows), key=RANKS.__getitem__), at=at(deployment.place),
        subject=None, numbers=None, checks=rows, error=None, change=None, moved=(), warnings=(),
    )  # fmt: skip


def unanswered(name: str, place: Place, problem: Problem, exit_code: int, shown: At | None = None) -> Result:
    """A result without an answer. shown: where the value stands that it is about."""
    return Result(
        name=name, status="error", at=at(place), subject=None, numbers=None, checks=(),
        error=Trouble(problem.what, problem.cause, problem.hint, exit_code, shown), change=None, moved=(), warnings=(),
    )  # fmt: skip


def _blamed(deployment: Deployment, keys: tuple[str, ...]) -> At | None:
    """Where the value stands that nobody can plan, in whichever file."""
    found = (
        place for key in keys for name, place in deployment.places.items() if name == key or name.startswith(f"{key}.")
    )
    place = next(found, None)
    return at(place) if place is not None and not place.file.startswith("--") else None


def _subject(deployment: Deployment, outcome: Planned) -> Subject:
    """What was planned; a local description by the path that was written, which is the same on every machine."""
    planned = outcome.subject
    if not Path(deployment.question.model).is_absolute():
        return planned
    written = deployment.written.get("model", planned.model)
    return replace(planned, model=written, source=written)


def _starts(deployment: Deployment, outcome: Planned) -> CheckRow:
    rule = deployment.starts
    reason = outcome.reasons.get(rule.end)
    context, kv = outcome.subject.context, outcome.numbers["kv_memory"].at(rule.end)
    if reason is None:
        message = f"starts: {amount(kv, 'bytes')} of cache on each GPU hold a sequence of {context:,} tokens"
    else:
        message = f"does not start with {context:,} tokens: {reason}"
    row = unbounded(
        rule=STARTS,
        status=_status(rule.level, holds=reason is None),
        level=rule.level,
        shown=at(_where(deployment, ("context", "model"))),
        message=message,
        end=rule.end,
        tokens=context,
    )
    helps = reason is not None and outcome.suggestion is not None
    return replace(row, hint=f"would start: {outcome.suggestion}") if helps else row


def _where(deployment: Deployment, keys: tuple[str, ...]) -> Place:
    """Where one of these values stands in the deployment's own file, else its name."""
    found = (deployment.places[key] for key in keys if key in deployment.places)
    return next((place for place in found if place.file == deployment.place.file), deployment.place)


def _limited(
    deployment: Deployment, limit: Limit, outcome: Planned, planner: Planner
) -> CheckRow | Refused | Unanswered:
    metric = METRICS[limit.metric]
    answer = outcome
    if limit.at is not None or limit.batch is not None:
        asked = planner.plan(replace(deployment.question, tokens=limit.at, batch=limit.batch))
        if not isinstance(asked, Planned):
            return asked
        answer = asked
    actual = _share(answer) if limit.unit == "share" else answer.numbers[metric.number]
    value = actual.at(limit.end)
    if value is None and not metric.endless and limit.end not in answer.reasons:
        return _unknown(metric)
    holds = metric.endless if value is None else metric.keeps(value, limit.bound)
    tokens, message = limit.at or answer.subject.context, _sentence_of(metric, limit, value, holds=holds)
    return _row(deployment, limit, value, holds=holds, tokens=tokens, message=message)


def _row(
    deployment: Deployment, limit: Limit, actual: float | None, *, holds: bool, tokens: int | None, message: str
) -> CheckRow:
    """A limit, and what was held against it."""
    metric = METRICS[limit.metric]
    return CheckRow(
        rule=metric.rule,
        status=_status(limit.level, holds=holds),
        level=limit.level,
        end=limit.end,
        side=metric.side,
        limit=limit.bound,
        actual=actual,
        unit=limit.unit,
        tokens=tokens,
        shown=at(limit.place if limit.own else deployment.place),
        message=message,
    )


def _sentence_of(metric: Metric, limit: Limit, value: float | None, *, holds: bool) -> str:
    """`cache per token: 320.00 KiB (likely), above the limit of 160.00 KiB`."""
    unlimited = value is None and metric.unit == "tokens"
    shown = (
        "unlimited" if unlimited else "not reached, as it doesn't start" if value is None else amount(value, limit.unit)
    )
    at = f" at {limit.at:,} tokens" if limit.at is not None else ""
    at += f" and batch {limit.batch:,}" if limit.batch is not None else ""
    side = "within" if holds else "above" if metric.side == "most" else "below"
    kind = "limit" if metric.side == "most" else "minimum"
    return (
        f"{name(metric.number)}{at}: {shown}{_ENDS[limit.end]}, {side} the {kind} of {amount(limit.bound, limit.unit)}"
    )


def _share(outcome: Planned) -> Three:
    """Headroom as a share of the cache memory; nothing where there is none."""
    left, whole = outcome.numbers["headroom"], outcome.numbers["kv_memory"]

    def part(a: float | None, b: float | None) -> float | None:
        return None if a is None or b is None else a / b if b > 0 else 0.0

    return Three(part(left.safe, whole.safe), part(left.likely, whole.likely), part(left.ideal, whole.ideal))


def _unknown(metric: Metric) -> Unanswered:
    what = f"{metric.limit} can't be checked: {metric.number} isn't known for this model"
    return Unanswered(Problem(what, hint="give what is missing in the model's description, or drop the limit"), 2)


def _remark(remark: Remark) -> CheckRow:
    status = _status(remark.level, holds=False)
    return unbounded(rule=remark.rule, status=status, level=remark.level, shown=at(remark.place), message=remark.text)


def unbounded(
    *, rule: str, status: Status, level: Level, shown: At, message: str, end: End = "safe", tokens: int | None = None
) -> CheckRow:
    """A row of a rule without a bound: there is no number to compare."""
    return CheckRow(
        rule, status, level, end, side=None, limit=None, actual=None, unit=None, tokens=tokens, shown=shown, message=message
    )  # fmt: skip


def _status(level: Level, *, holds: bool) -> Status:
    return "pass" if holds else "fail" if level == "error" else "warn"
