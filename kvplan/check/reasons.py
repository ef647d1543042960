"""Why an engine wouldn't start what a budget describes, in words."""

from __future__ import annotations

from kvplan.check.budget import Question
from kvplan.engines.base import Refusal
from kvplan.plan.request import Request
from kvplan.units import format_bytes


def too_long(request: Request, *, stretched: bool) -> str | None:
    """Why the context wouldn't be taken at all: nothing reads past a table, and vLLM no more than the model's own maximum.

    Source: vLLM 0.33 config/model.py _get_and_verify_max_len.
    """
    own = request.exceeded
    if own is None:
        return None
    if request.past_table:
        return f"the model's positions are looked up in a table of {own:,}, and more would be read past its end"
    if stretched or request.engine.name != "vllm":
        return None
    return f"the model's own maximum is {own:,}, and vLLM refuses more without VLLM_ALLOW_LONG_MAX_MODEL_LEN"


def no_experts(request: Request, question: Question) -> str | None:
    """Why vLLM wouldn't start with expert parallelism, which is switched on even where one rank has all experts."""
    from kvplan.engines.vllm.starts.refusals import lacks_experts

    if request.engine.name != "vllm" or not question.experts or not lacks_experts(request.model):
        return None
    return "expert parallelism is switched on, and the model has no experts"


def short(capacity: Refusal, kv_bytes: int) -> str:
    """Why the engine would refuse."""
    short = format_bytes(capacity.needed_bytes - kv_bytes)
    if kv_bytes <= 0:
        return f"weights and the engine's own memory leave no room for the cache, {short} short on the fullest GPU"
    needed, longest = format_bytes(capacity.needed_bytes), f"{capacity.max_context:,} tokens would fit"
    return (
        f"a sequence takes {needed} of cache on the fullest GPU, which has {format_bytes(kv_bytes)} for it; {longest}"
    )
