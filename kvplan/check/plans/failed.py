"""A deployment on which kvplan itself fails: it has no answer, and the others keep theirs."""

from __future__ import annotations

from kvplan.check.budgets.budget import Deployment
from kvplan.check.plans.planning import Planner
from kvplan.check.results.judge import judge, unanswered
from kvplan.errors import Problem
from kvplan.report.schema.check import Result

FAILED = 2
"""Exit code of what can't be answered."""


def judged_safely(deployment: Deployment, planner: Planner, *, debug: bool) -> Result:
    """The deployment held against its limits. debug: whether to print a traceback where that fails."""
    try:
        return judge(deployment, planner)
    except Exception as error:
        if debug:
            import traceback

            traceback.print_exception(error)
        why = f"kvplan failed: {type(error).__name__}"
        hint = "this is a bug: run it again with --debug and report what it prints, with `kvplan env`"
        return unanswered(deployment.name, deployment.place, Problem(why, str(error) or None, hint), FAILED)
