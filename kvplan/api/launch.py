"""What to paste where a plan by vLLM's rules fits, and the share of memory that would do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kvplan.errors import KvplanError, UnknownName, UsageError

if TYPE_CHECKING:
    from kvplan.api.question import FitQuestion
    from kvplan.plan.fit import Plan

EMITTED = ("vllm", "k8s")
"""What FitQuestion.emit may ask for."""


def launch(plan: Plan, question: FitQuestion, said: tuple[str, ...]) -> str | None:
    """What to paste; None when it doesn't fit.

    Raises: UnknownName, UsageError for a plan that vLLM can't be told.
    """
    from kvplan.engines.vllm import emit
    from kvplan.engines.vllm.policy import Vllm

    request, form = plan.request, question.emit
    if form not in EMITTED:
        raise UnknownName(f"nothing called {form!r} can be emitted", hint=f"known: {', '.join(EMITTED)}")
    if not isinstance(request.engine, Vllm):
        raise UsageError(f"--emit {form} needs a plan by vLLM's rules", hint="--engine vllm")
    if not plan.fits:
        return None
    if question.weight_dtype is not None or question.weights is not None:
        raise UsageError(
            "the plan's weights are a what-if: the checkpoint that vLLM would load has its own",
            cause="--weight-dtype and --weights change the arithmetic, not the files",
            hint="give the quantized checkpoint itself as the model, or leave them out",
        )
    from kvplan.sources.served import served_name

    asked = (request.model, request.gpu, request.parallel, request.kv, request.options, request.context)
    name = served_name(request.model, question.called)
    if form == "vllm":
        return emit.serve(emit.launch(request.engine, *asked, name, remarks=said))
    return emit.pod(emit.launch(request.engine, *asked, name, remarks=(*said, *_to_mount(name))))


def _to_mount(name: str) -> tuple[str, ...]:
    """What a pod needs beside the plan where the model is a folder."""
    return (f"{name} is a folder of this machine: mount it into the pod.",) if Path(name).is_dir() else ()


def share(plan: Plan) -> tuple[float | None, str | None]:
    """The least gpu_memory_utilization that holds the concurrency asked for; None, and why, when none does."""
    request = plan.request
    if request.concurrency is None or request.options.kv_memory is not None or request.engine.name != "vllm":
        return None, None
    from kvplan.engines.vllm.inverse import utilization
    from kvplan.engines.vllm.policy import Vllm

    if not isinstance(request.engine, Vllm):
        return None, None
    asked = (request.model, request.gpu, request.parallel, plan.kv, request.options, request.context)
    try:
        return utilization(request.engine, *asked, request.concurrency, likely=request.end == "likely"), None
    except KvplanError as no:
        cause = f": {no.problem.cause}" if no.problem.cause else ""
        return None, f"{no.problem.what}{cause}"
