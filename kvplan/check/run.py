"""A whole run: read, plan, judge, compare, and say how it ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from kvplan.check import diff, lock
from kvplan.check.budget import Deployment, Unread
from kvplan.check.inputs import Asked, Input, default_files, read_inputs
from kvplan.check.judge import at, judge
from kvplan.check.planning import Planner
from kvplan.check.tree import Tree, WorkingTree, read_text
from kvplan.errors import BadFile, UsageError
from kvplan.report.schema.check import SCHEMA, CheckReport, Compared, NotRead, Result, Summary, Trouble

FailOn = Literal["error", "warn"]


@dataclass(frozen=True, slots=True)
class Run:
    """What to do. files: none for the budget of the current folder. lock: one for all files, instead of one a budget.

    update: write the locks. base: a git revision to compare with, instead of the locks.
    """

    files: tuple[str, ...] = ()
    asked: Asked = field(default_factory=Asked)
    lock: str | None = None
    update: bool = False
    base: str | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """The document, and locks to be written with the other files: their paths and texts."""

    report: CheckReport
    locks: Mapping[str, str] = field(default_factory=dict)


def run(wanted: Run, planner: Planner, tree: Tree | None = None) -> Done:
    """Check everything that was asked for.

    Raises: BadFile, BudgetFault, UsageError for what can't be read at all.
    """
    if wanted.update and wanted.base is not None:
        raise UsageError("--update and --base don't go together", hint="update the lock, or compare with a revision")
    tree = tree or WorkingTree()
    inputs = read_inputs(wanted.files or default_files(), tree, wanted.asked)
    named = _named(inputs)
    judged = {name: judge(deployment, planner) for name, (deployment, _) in named.items()}
    if wanted.base is not None:
        judged, comparisons = _since_base(wanted, inputs, named, judged, planner)
    else:
        judged, comparisons = _since_locks(wanted, inputs, named, judged, tree)
    unread = [entry for given in inputs for entry in given.reading.unread]
    results = (*judged.values(), *(_unplanned(entry) for entry in unread if entry.found))
    rest = tuple(NotRead(entry.what, entry.why, at(entry.place)) for entry in unread if not entry.found)
    locks = _locks_to_write(wanted, inputs, named, judged, results) if wanted.update else {}
    return Done(_report(tuple(results), rest, comparisons, tuple(locks)), locks)


def exit_code(report: CheckReport, fail_on: FailOn) -> int:
    """0 all kept, 1 a limit is broken (or, failing on warnings, anything warned), 2 or 3 when there is no answer.

    A definite no outweighs a missing answer. Nothing checked is 2.
    """
    answered = [result for result in report.results if result.error is None]
    codes = {result.error.exit_code for result in report.results if result.error is not None}
    if not answered:
        return 3 if 3 in codes else 2
    summary = report.summary
    removed = any(compared.removed for compared in report.compared if compared.kind == "lock")
    warned = summary.warned or summary.unread or removed
    if summary.failed or (fail_on == "warn" and warned):
        return 1
    return max(codes, default=0)


def forgiving(code: int) -> int:
    """The exit code of a report that fails nobody: broken limits are told and pass; a missing answer stays one."""
    return 0 if code == 1 else code


Named = Mapping[str, tuple[Deployment, Input]]


def _named(inputs: Iterable[Input]) -> dict[str, tuple[Deployment, Input]]:
    """Deployments by name; the second of a name is told apart by its file."""
    found: dict[str, tuple[Deployment, Input]] = {}
    for given in inputs:
        for deployment in given.reading.deployments:
            name, number = deployment.name, 2
            if name in found:
                name = f"{deployment.name} ({given.name})"
            while name in found:
                name, number = f"{deployment.name} ({given.name}, {number})", number + 1
            found[name] = (replace(deployment, name=name), given)
    return found


def _unplanned(entry: Unread) -> Result:
    return Result(
        name=entry.what, status="error", at=at(entry.place), subject=None, numbers=None, checks=(),
        error=Trouble(entry.why, None, None, 2), change=None, moved=(), warnings=(),
    )  # fmt: skip


def lock_path(budget: str) -> str:
    """The lock beside a budget: kvplan-budget.yaml has kvplan-budget.lock.json."""
    return Path(budget).with_suffix(".lock.json").as_posix()


def _lock_of(wanted: Run, given: Input) -> str | None:
    if wanted.lock is not None:
        return wanted.lock
    return lock_path(given.name) if given.budget else None


def _by_lock(wanted: Run, inputs: Iterable[Input], named: Named) -> dict[str, list[str]]:
    """Names of deployments by the lock that remembers them."""
    locks: dict[str, list[str]] = {path: [] for given in inputs if (path := _lock_of(wanted, given)) is not None}
    for name, (_, given) in named.items():
        path = _lock_of(wanted, given)
        if path is not None:
            locks[path].append(name)
    return locks


def _since_locks(
    wanted: Run, inputs: Iterable[Input], named: Named, judged: dict[str, Result], tree: Tree
) -> tuple[dict[str, Result], tuple[Compared, ...]]:
    comparisons: list[Compared] = []
    for path, names in _by_lock(wanted, inputs, named).items():
        if not tree.path(path).is_file():
            continue
        try:
            before = lock.parse_lock(read_text(tree, path), path)
        except BadFile:
            if not wanted.update:
                raise
            continue
        for name in names:
            result = diff.compared(judged[name], named[name][0], before)
            judged[name] = result if wanted.update else diff.drift(result, path)
        gone = () if wanted.update else tuple(sorted(before.keys() - set(names)))
        comparisons.append(Compared("lock", path, None, gone))
    return judged, tuple(comparisons)


def _since_base(
    wanted: Run, inputs: tuple[Input, ...], named: Named, judged: dict[str, Result], planner: Planner
) -> tuple[dict[str, Result], tuple[Compared, ...]]:
    from kvplan.check.git import revision

    base = str(wanted.base)
    with revision(base) as tree:
        before, note = _at_base(tuple(given.name for given in inputs), tree, wanted.asked, planner)
        commit = tree.commit
    judged = {name: diff.compared(result, named[name][0], before) for name, result in judged.items()}
    gone = tuple(sorted(before.keys() - judged.keys()))
    return judged, (Compared("git", base, commit, gone, note),)


def _at_base(names: tuple[str, ...], tree: Tree, asked: Asked, planner: Planner) -> tuple[lock.Snapshot, str | None]:
    """The other revision's deployments, planned by today's kvplan; and what of it can't be read."""
    found: list[Input] = []
    notes: list[str] = []
    for name in names:
        if not tree.path(name).is_file():
            notes.append(f"{name} isn't there")
            continue
        try:
            found += read_inputs((name,), tree, asked)
        except BadFile as error:
            notes.append(f"{name} can't be read there: {error.problem.what}")
    results = [judge(deployment, planner) for deployment, _ in _named(found).values()]
    return lock.snapshot(results), "; ".join(notes) or None


def _locks_to_write(
    wanted: Run, inputs: tuple[Input, ...], named: Named, judged: Mapping[str, Result], results: Iterable[Result]
) -> dict[str, str]:
    from kvplan import __version__

    missing = [result.name for result in results if result.error is not None]
    if missing:
        raise UsageError(
            f"the lock was not written: {', '.join(missing[:5])} can't be planned",
            cause=next(result.error.what for result in results if result.error is not None),
            hint="kvplan check says why; a lock holds every deployment or none",
        )
    locks = _by_lock(wanted, inputs, named)
    if not locks:
        raise UsageError("--update needs a budget, or --lock FILE for manifests")
    return {path: lock.lock_text([judged[name] for name in names], __version__) for path, names in locks.items()}


def _report(
    results: tuple[Result, ...], unread: tuple[NotRead, ...], compared: tuple[Compared, ...], locks: tuple[str, ...]
) -> CheckReport:
    from kvplan import __version__

    count = {status: sum(result.status == status for result in results) for status in ("pass", "warn", "fail", "error")}
    summary = Summary(
        deployments=len(results),
        passed=count["pass"],
        warned=count["warn"],
        failed=count["fail"],
        unanswered=count["error"],
        unread=len(unread),
        checks=sum(len(result.checks) for result in results),
    )
    passed = bool(results) and not count["fail"] and not count["error"]
    return CheckReport(SCHEMA, __version__, passed, summary, results, unread, compared, locks)
