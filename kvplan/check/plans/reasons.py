"""Why an engine wouldn't start what a budget describes, in words."""

from __future__ import annotations

from kvplan.check.budgets.budget import Question
from kvplan.engines.base import Refusal
from kvplan.plan.fit import Plan
from kvplan.plan.request import Request
from kvplan.units import format_bytes


def too_long(plan: Plan, *, stretched: bool) -> str | None:
    """Why the context wouldn't be taken at all: nothing reads past a table, and an engine no more than it is told to allow."""
    excess = plan.started.excess
    if excess is None:
        return None
    if excess.said is not None or stretched or excess.unlock is None:
        return excess.said
    title = plan.request.engine.words.title
    return f"the model's own maximum is {excess.longest:,}, and {title} refuses more without {excess.unlock}"


def no_experts(request: Request, question: Question) -> str | None:
    """Why the engine wouldn't start with expert parallelism, switched on even where one rank has all experts."""
    if not question.experts or not request.engine.lacks_experts(request.model):
        return None
    return "expert parallelism is switched on, and the model has no experts"


def short(capacity: Refusal, kv_bytes: int, longest: int | None) -> str:
    """Why the engine would refuse. longest: tokens of the sequence that would fit; None for any."""
    short = format_bytes(capacity.needed_bytes - kv_bytes)
    if kv_bytes <= 0:
        return f"weights and the engine's own memory leave no room for the cache, {short} short on the fullest GPU"
    needed = format_bytes(capacity.needed_bytes)
    return f"a sequence takes {needed} of cache on the fullest GPU, which has {format_bytes(kv_bytes)} for it; {longest or 0:,} tokens would fit"
