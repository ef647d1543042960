"""The command or manifest that starts a plan, and the smallest share of memory that is enough for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kvplan.engines.base import Served
from kvplan.errors import KvplanError, UnknownName, UsageError

if TYPE_CHECKING:
    from kvplan.api.question import FitQuestion
    from kvplan.engines.protocol import Launcher
    from kvplan.plan.fit import Plan


def launch(plan: Plan, question: FitQuestion, said: tuple[str, ...]) -> str | None:
    """The command or manifest asked for; None if none is, or the plan doesn't fit.

    Raises: UnknownName; UsageError for a plan that the engine's flags can't express.
    """
    form = question.emit
    if form is None:
        return None
    launcher = _launcher(plan, form)
    if not plan.fits:
        return None
    _check(plan, question)
    from kvplan.sources.served import served_name

    name = served_name(plan.request.model, question.called)
    return launcher.written(form, Served(name, Path(name).is_dir(), said))


def _launcher(plan: Plan, form: str) -> Launcher:
    """The launcher that writes `form`.

    Raises: UnknownName for an unknown form, UsageError for another engine's.
    """
    from kvplan.engines.registry import engine, forms

    known, own = forms(), plan.started.launcher
    if form not in known:
        raise UnknownName(f"{form!r} isn't something that --emit prints", hint=f"known: {', '.join(known)}")
    if own is None or form not in own.forms:
        whose = known[form]
        raise UsageError(f"--emit {form} needs a plan by {engine(whose).words.title}'s rules", hint=f"--engine {whose}")
    return own


def _check(plan: Plan, question: FitQuestion) -> None:
    """Refuse plans that can't be served.

    Raises: UsageError.
    """
    request, title = plan.request, plan.request.engine.words.title
    if question.weight_dtype is not None or request.options.weights_per_gpu is not None:
        raise UsageError(
            f"the plan's weights aren't those of the checkpoint that {title} would load",
            cause="--weight-dtype and --weights change the arithmetic, not the files",
            hint="leave --weight-dtype and --weights out, or give the quantized checkpoint itself as the model",
        )


def share(plan: Plan) -> tuple[float | None, str | None]:
    """The smallest share of memory at which the concurrency asked for fits; None with the reason if there is none."""
    request = plan.request
    if request.concurrency is None or request.options.kv_memory is not None:
        return None, None
    excess = plan.started.excess
    if excess is not None and excess.said is not None:
        return None, excess.said
    try:
        return plan.started.utilization(request.concurrency, likely=request.end == "likely"), None
    except KvplanError as no:
        cause = f": {no.problem.cause}" if no.problem.cause else ""
        return None, f"{no.problem.what}{cause}"
