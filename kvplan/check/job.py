"""A whole check as a command line asks for it: planned, judged, and written in every output format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvplan.check.plans.lookup import Lookup
from kvplan.check.plans.planner import CachingPlanner
from kvplan.check.results.formats import Output
from kvplan.check.results.outputs import check_targets, rendered
from kvplan.check.results.verdict import FailOn, exit_code, forgiving
from kvplan.check.run import Run, run
from kvplan.manifests.tree import WorkingTree
from kvplan.report.canvas import Canvas


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is asked. run: what to check. outputs: where it goes. offline: whether models come from this machine alone.

    fail_on: what makes exit code 1. forgive: whether broken limits fail nobody all the same.
    """

    run: Run
    outputs: tuple[Output, ...]
    offline: bool = False
    fail_on: FailOn = "error"
    forgive: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """What came of it. files: texts to write by their paths, locks among them. screen: what is printed."""

    files: Mapping[str, str]
    screen: str
    exit_code: int


def checked(job: Job, page: Canvas) -> Done:
    """The check, drawn; `page` is what is printed on. Nothing is written yet.

    Raises: BadFile, UsageError for what can't be opened at all, and for files that would be written over what is read.
    """
    tree = WorkingTree()
    found = run(job.run, CachingPlanner(Lookup(offline=job.offline)), tree)
    files = {to.path: to.format for to in job.outputs if to.path is not None}
    check_targets(files, tree)
    texts = {path: rendered(found.report, form, Canvas()) for path, form in files.items()}
    screen = [rendered(found.report, to.format, page) for to in job.outputs if to.path is None]
    code = exit_code(found.report, job.fail_on, allow_nothing=job.run.allow_nothing)
    return Done(
        files={**texts, **found.locks},
        screen="\n".join(part for part in screen if part),
        exit_code=forgiving(found.report, code) if job.forgive else code,
    )
