"""A whole run: read, plan, judge, compare, and say how it ended."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from pathlib import Path

from kvplan.check.budgets.budget import Deployment
from kvplan.check.inputs import Asked, Input, default_files, read_inputs
from kvplan.check.plans.failed import judged_safely
from kvplan.check.plans.planning import Planner
from kvplan.check.results import diff, lock
from kvplan.check.results.judge import at, unanswered
from kvplan.errors import BadFile, Problem, UsageError
from kvplan.manifests import STDIN
from kvplan.manifests.places import Unread
from kvplan.manifests.tree import Tree, WorkingTree, read_text
from kvplan.report.schema.check import SCHEMA, CheckReport, Compared, NotRead, Result, Summary

UNREADABLE = 2
"""Exit code of what can't be read, as of a configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What to do. files: none for the budget of the current folder. lock: one for all files, instead of one a budget.

    update: write the locks. base: a git revision to compare with, instead of the locks. allow_nothing: files that have
    nothing to do with serving are no reason to complain. debug: print a traceback where kvplan itself fails.
    """

    files: tuple[str, ...] = ()
    asked: Asked = field(default_factory=Asked)
    lock: str | None = None
    update: bool = False
    base: str | None = None
    allow_nothing: bool = False
    debug: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """The document, and locks to be written with the other files: their paths and texts."""

    report: CheckReport
    locks: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Item:
    """One deployment of the run. own: its name in its file; the deployment's name is unique in the run.

    key: what it is in its file, whichever line it stands on.
    """

    deployment: Deployment
    own: str
    given: Input
    key: str


def run(wanted: Run, planner: Planner, tree: Tree | None = None) -> Done:
    """Check everything that was asked for.

    Raises: BadFile, UsageError for what can't be opened at all.
    """
    if wanted.update and wanted.base is not None:
        raise UsageError("--update and --base don't go together", hint="update the lock, or compare with a revision")
    tree = tree or WorkingTree()
    inputs = read_inputs(wanted.files or default_files(), tree, wanted.asked, allow_nothing=wanted.allow_nothing)
    _check_locks(wanted, inputs, tree)
    items = _items(inputs)
    judged = [judged_safely(item.deployment, planner, debug=wanted.debug) for item in items]
    if wanted.base is not None:
        judged, comparisons = _since_base(wanted, inputs, items, judged, planner)
    else:
        judged, comparisons = _since_locks(wanted, inputs, items, judged, tree)
    unread = [entry for given in inputs for entry in given.reading.unread]
    unplanned = list(_unplanned(inputs, {result.name for result in judged}))
    faults = list(_faults(inputs, {result.name for result in (*judged, *unplanned)}))
    results = (*judged, *unplanned, *faults)
    repeated = len(faults) - len({fault.name for fault in faults})
    rest = tuple(NotRead(entry.what, _why(entry), at(entry.place)) for entry in unread if not entry.found)
    locks = _locks_to_write(wanted, inputs, items, results) if wanted.update else {}
    return Done(_report(results, repeated, rest, comparisons, tuple(locks)), locks)


def _why(entry: Unread) -> str:
    """Why something isn't read, and how it may be all the same."""
    if entry.command is None or entry.place.file == STDIN:
        return entry.why
    return f"{entry.why}: a budget can say it (`from: {entry.place.file}`)"


def _unplanned(inputs: Iterable[Input], taken: set[str]) -> Iterator[Result]:
    """A result for each command that can't be made a deployment. taken: names of others, to which theirs are added."""
    for given in inputs:
        for entry in (entry for entry in given.reading.unread if entry.found):
            name = _unique(entry.what, given.name, taken)
            taken.add(name)
            yield unanswered(name, entry.place, Problem(entry.why), UNREADABLE)


def _unique(name: str, file: str, taken: Container[str]) -> str:
    """A name as it is, or told apart from those that are taken by its file, and then by a number."""
    found, number = (f"{name} ({file})" if name in taken else name), 2
    while found in taken:
        found, number = f"{name} ({file}, {number})", number + 1
    return found


def _faults(inputs: Iterable[Input], taken: AbstractSet[str]) -> Iterator[Result]:
    """What can't be read: a result for each fault, called by the deployment that it is about, or by the file. taken: names of others."""
    files: dict[str, str] = {}
    for given in inputs:
        for place, problem, own in given.faults:
            name = own or given.name
            other = name in taken or files.setdefault(name, given.name) != given.name
            yield unanswered(f"{name} ({given.name})" if other else name, place, problem, UNREADABLE)


def _items(inputs: Iterable[Input]) -> list[Item]:
    """Every deployment; the second of a name is told apart by its file. Budgets come first: their names are agreed."""
    found: dict[str, Item] = {}
    for given in sorted(inputs, key=lambda given: not given.budget):
        keys: Counter[str] = Counter()
        for deployment in given.reading.deployments:
            key = deployment.question.model if _LINE.fullmatch(deployment.name) else deployment.name
            keys[key] += 1
            key = key if keys[key] == 1 else f"{key} ({keys[key]})"
            name = _unique(deployment.name, given.name, found)
            found[name] = Item(replace(deployment, name=name), deployment.name, given, key)
    return list(found.values())


_LINE = re.compile(r"line \d+")
"""The name of a command in a script, which moves with every line above it."""


def lock_path(budget: str) -> str:
    """The lock beside a budget: kvplan-budget.yaml has kvplan-budget.lock.json."""
    return Path(budget).with_suffix(".lock.json").as_posix()


def _lock_of(wanted: Run, given: Input) -> str | None:
    if wanted.lock is not None:
        return wanted.lock
    return lock_path(given.name) if given.budget else None


def _check_locks(wanted: Run, inputs: Iterable[Input], tree: Tree) -> None:
    """Refuse a lock that would be written over a file that is checked, and one that was named and isn't there.

    Raises: UsageError.
    """
    for path in _lock_paths(wanted, inputs):
        if wanted.update and any(os.path.realpath(given.name) == os.path.realpath(path) for given in inputs):
            raise UsageError(f"the lock {path} would overwrite a file that is checked", hint="name another with --lock")
    if wanted.lock is not None and not wanted.update and wanted.base is None and not tree.path(wanted.lock).is_file():
        raise UsageError(f"there is no lock {wanted.lock}", hint="kvplan check --update writes it")


def _key(wanted: Run, item: Item) -> str:
    """Its name in a lock: its own, and in one lock for several files with its file, as that may be found from the lock."""
    if wanted.lock is None:
        return item.key
    folder = Path(os.path.realpath(wanted.lock)).parent
    file = item.given.name if item.given.name == STDIN else os.path.relpath(os.path.realpath(item.given.name), folder)
    return f"{Path(file).as_posix()}#{item.key}"


def _lock_paths(wanted: Run, inputs: Iterable[Input]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(path for given in inputs if (path := _lock_of(wanted, given)) is not None))


def _since_locks(
    wanted: Run, inputs: Iterable[Input], items: list[Item], judged: list[Result], tree: Tree
) -> tuple[list[Result], tuple[Compared, ...]]:
    """Results compared with each lock that is there; when locks are written, what moved is told and doesn't warn."""
    comparisons: list[Compared] = []
    for path in _lock_paths(wanted, inputs):
        before = _old_lock(wanted, path, tree)
        if before is None:
            continue
        names = set()
        for index, item in enumerate(items):
            if _lock_of(wanted, item.given) == path:
                names.add(_key(wanted, item))
                result = diff.compared(judged[index], item.deployment, before.get(_key(wanted, item)))
                judged[index] = result if wanted.update else diff.drift(result, path)
        unknown = any(given.faults for given in inputs if _lock_of(wanted, given) == path)
        gone = () if wanted.update or unknown else tuple(sorted(before.keys() - names))
        comparisons.append(Compared("lock", path, None, gone))
    return judged, tuple(comparisons)


def _old_lock(wanted: Run, path: str, tree: Tree) -> lock.Snapshot | None:
    """What a lock says; None where there is none, or where a damaged one is about to be written again.

    Raises: BadFile.
    """
    if not tree.path(path).is_file():
        return None
    try:
        return lock.parse_lock(read_text(tree, path), path)
    except BadFile:
        if wanted.update:
            return None
        raise


def _since_base(
    wanted: Run, inputs: tuple[Input, ...], items: list[Item], judged: list[Result], planner: Planner
) -> tuple[list[Result], tuple[Compared, ...]]:
    from kvplan.check.git import revision

    base = wanted.base or ""
    with revision(base) as tree:
        old, note = _at_base(tuple(given.name for given in inputs), tree, wanted.asked)
        before = {
            (item.given.name, item.key): judged_safely(item.deployment, planner, debug=wanted.debug) for item in old
        }
        commit = tree.commit
    known = {key: snapshot for key, result in before.items() if (snapshot := lock.entry(result)) is not None}
    judged = [
        diff.compared(result, item.deployment, known.get((item.given.name, item.key)))
        for item, result in zip(items, judged, strict=True)
    ]
    unknown = {given.name for given in inputs if given.faults}
    gone = {key for key in known if key[0] not in unknown} - {(item.given.name, item.key) for item in items}
    return judged, (Compared("git", base, commit, tuple(sorted(own for _, own in gone)), note),)


def _at_base(names: tuple[str, ...], tree: Tree, asked: Asked) -> tuple[list[Item], str | None]:
    """The other revision's deployments, and what of it can't be read; a budget that is being mended is no reason to stop."""
    there = tuple(name for name in names if tree.path(name).is_file())
    notes = [f"{name} isn't there" for name in names if name not in there]
    readable: list[str] = []
    for name in there:
        try:
            read_text(tree, name)
            readable.append(name)
        except BadFile as error:
            notes.append(f"{name} can't be read there: {error.problem.what}")
    inputs = read_inputs(tuple(readable), tree, asked)
    notes += [f"{given.name} can't be read there: {place}: {problem.what}"
              for given in inputs for place, problem, _ in given.faults[:1]]  # fmt: skip
    return _items(inputs), "; ".join(notes) or None


def _locks_to_write(
    wanted: Run, inputs: tuple[Input, ...], items: list[Item], results: tuple[Result, ...]
) -> dict[str, str]:
    from kvplan import __version__

    missing = [result for result in results if lock.entry(result) is None]
    if missing:
        raise UsageError(
            f"the lock was not written: {', '.join(result.name for result in missing[:5])} can't be planned",
            cause=missing[0].checks[0].message if missing[0].error is None else missing[0].error.what,
            hint="kvplan check says why; a lock holds every deployment or none",
        )
    paths = _lock_paths(wanted, inputs)
    if not paths:
        raise UsageError("--update needs a budget, or --lock FILE for manifests")
    kept: dict[str, dict[str, Result]] = {path: {} for path in paths}
    for item, result in zip(items, results, strict=False):
        path = _lock_of(wanted, item.given)
        if path is not None:
            kept[path][_key(wanted, item)] = result
    return {path: lock.lock_text(found, __version__) for path, found in kept.items()}


def _report(
    results: tuple[Result, ...],
    repeated: int,
    unread: tuple[NotRead, ...],
    compared: tuple[Compared, ...],
    locks: tuple[str, ...],
) -> CheckReport:
    """The document. repeated: results that are further faults of a deployment that has one."""
    from kvplan import __version__

    count = {status: sum(result.status == status for result in results) for status in ("pass", "warn", "fail", "error")}
    summary = Summary(
        deployments=len(results) - repeated,
        passed=count["pass"],
        warned=count["warn"],
        failed=count["fail"],
        unanswered=count["error"] - repeated,
        unread=len(unread),
        checks=sum(len(result.checks) for result in results),
    )
    passed = bool(results) and not count["fail"] and not count["error"]
    return CheckReport(SCHEMA, __version__, passed, summary, results, unread, compared, locks)
