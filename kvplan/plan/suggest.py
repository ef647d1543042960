"""Which single change would make it fit, or fit more: each is planned again, so its effect is a number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from kvplan.arch.formats import KvFormat, format_named
from kvplan.arch.weights import Storage
from kvplan.errors import KvplanError
from kvplan.hardware.gpu import Gpu
from kvplan.plan.fit import Fit, Plan, fit
from kvplan.plan.request import Request

SIXTEEN_BIT = 16
ROUND_CONTEXT = 1024
MORE_MEMORY = 0.95


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A change as one would type it, and what it does."""

    change: str
    effect: str


def suggest(plan: Plan, gpus: Iterable[Gpu] = ()) -> tuple[Suggestion, ...]:
    """Changes that help, best known first. gpus: what else could be used; only asked when the answer is no."""
    found = [_effect(plan, change, request) for change, request in _changes(plan)]
    if not plan.fits:
        found.append(_bigger_gpu(plan, gpus))
    return tuple(suggestion for suggestion in found if suggestion is not None)


def _changes(plan: Plan) -> Iterator[tuple[str, Request]]:
    request = plan.request
    makers: tuple[Callable[[Plan], tuple[str, Request] | None], ...] = (
        _smaller_cache,
        _shorter,
        _more_tensor_ranks,
        _more_stages,
        _more_utilization,
        _smaller_weights,
    )
    for make in makers:
        changed = make(plan)
        if changed is not None and changed[1] != request:
            yield changed


def _effect(plan: Plan, change: str, request: Request) -> Suggestion | None:
    """What the change does, or None if it does nothing good or can't be done."""
    try:
        changed = fit(request)
    except KvplanError:
        return None
    if not isinstance(changed.outcome, Fit):
        return None
    after, context = changed.outcome.max_sequences, request.context
    if not isinstance(plan.outcome, Fit):
        return Suggestion(change, f"fits: {after:,} sequence{'s' * (after > 1)} of {context:,} tokens")
    if after <= plan.outcome.max_sequences:
        return None
    return Suggestion(change, f"{after:,} sequences of {context:,} tokens instead of {plan.outcome.max_sequences:,}")


def _smaller_cache(plan: Plan) -> tuple[str, Request] | None:
    if plan.kv.k.bits < SIXTEEN_BIT:
        return None
    eight = format_named("fp8")
    return "--kv-dtype fp8", replace(plan.request, kv=KvFormat(eight, eight))


def _shorter(plan: Plan) -> tuple[str, Request] | None:
    longest = plan.max_context
    if plan.fits or not longest or longest >= plan.request.context:
        return None
    rounded = longest // ROUND_CONTEXT * ROUND_CONTEXT or longest
    return f"--ctx {rounded}", replace(plan.request, context=rounded)


def _more_tensor_ranks(plan: Plan) -> tuple[str, Request] | None:
    """The next larger tensor size that the model can be split by."""
    request = plan.request
    heads = max(request.model.query_heads, default=1)
    for tp in range(request.parallel.tp + 1, heads + 1):
        if tp % request.parallel.dcp or tp % request.parallel.tp:
            continue
        wider = replace(request.parallel, tp=tp, ep=tp * request.parallel.dp if request.parallel.ep > 1 else 1)
        try:
            request.model.check_split(wider)
        except KvplanError:
            continue
        return f"--tp {tp}", replace(request, parallel=wider)
    return None


def _more_stages(plan: Plan) -> tuple[str, Request] | None:
    request = plan.request
    pp = request.parallel.pp * 2
    if plan.fits or pp > len(request.model.layers):
        return None
    return f"--pp {pp}", replace(request, parallel=replace(request.parallel, pp=pp))


def _more_utilization(plan: Plan) -> tuple[str, Request] | None:
    request = plan.request
    usable, memory = plan.budget.usable.bytes.likely, plan.budget.memory.bytes.likely
    if plan.fits or request.options.kv_memory is not None or usable >= int(memory * MORE_MEMORY):
        return None
    options = replace(request.options, utilization=MORE_MEMORY)
    return f"--utilization {MORE_MEMORY}", replace(request, options=options)


def _smaller_weights(plan: Plan) -> tuple[str, Request] | None:
    """An fp8 checkpoint, for a model whose matrices still have 16 bits."""
    request = plan.request
    weights = request.model.weights
    if plan.fits or weights is None or request.options.weights is not None:
        return None
    half = weights.stored_as(Storage("fp8", 8))
    if half.bytes >= weights.bytes:
        return None
    return "an fp8 checkpoint", replace(request, model=replace(request.model, weights=half))


def _bigger_gpu(plan: Plan, gpus: Iterable[Gpu]) -> Suggestion | None:
    """The GPU of the same vendor and kind with the least memory that makes it fit."""
    here = plan.request.gpu
    alike = [gpu for gpu in gpus if (gpu.vendor, gpu.segment, gpu.mig_of) == (here.vendor, here.segment, None)]
    larger = [gpu for gpu in alike if gpu.memory.value > here.memory.value]
    for gpu in sorted(larger, key=lambda gpu: gpu.memory.value):
        found = _effect(plan, f"--gpu {gpu.id}", replace(plan.request, gpu=gpu))
        if found is not None:
            return found
    return None
