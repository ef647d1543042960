"""Single changes that would make a model fit, or fit more sequences. Each is planned again to measure its effect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from kvplan.arch.extras import without_towers
from kvplan.arch.formats import KvFormat, format_named
from kvplan.arch.layers import CrossAttention
from kvplan.arch.weights import Storage
from kvplan.errors import KvplanError
from kvplan.hardware.gpu import Gpu
from kvplan.plan.fit import Fit, NoFit, Plan, fit
from kvplan.plan.longest import longest_together
from kvplan.plan.request import Request
from kvplan.text import plural
from kvplan.units import MIB

Attempt = tuple[str, Request]
"""A change as it is typed, and the request with it."""

SIXTEEN_BIT = 16
ROUND_CONTEXT = 1024
MORE_MEMORY = 0.95


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A change as it is typed, and its effect."""

    change: str
    effect: str


def suggest(plan: Plan, gpus: Iterable[Gpu] = ()) -> tuple[Suggestion, ...]:
    """Changes that help, the smallest of each kind. gpus: other GPUs to consider if it doesn't fit."""
    kinds: tuple[Iterable[Attempt], ...] = (
        _smaller_cache(plan),
        _text_alone(plan),
        _shorter(plan),
        _more_tensor_ranks(plan),
        _more_stages(plan),
        _shorter_steps(plan),
        _more_utilization(plan),
        _smaller_pool(plan),
        _smaller_weights(plan),
        _bigger_gpu(plan, gpus),
    )
    found = (_first(plan, attempts) for attempts in kinds)
    return tuple(suggestion for suggestion in found if suggestion is not None)


def _first(plan: Plan, attempts: Iterable[Attempt]) -> Suggestion | None:
    """The first attempt that helps. If the plan fits already, only the first is tried."""
    for change, request in attempts:
        suggestion = _effect(plan, change, request)
        if suggestion is not None or plan.fits:
            return suggestion
    return None


def _effect(plan: Plan, change: str, request: Request) -> Suggestion | None:
    """The effect of a change; None if it doesn't help or can't be made."""
    try:
        changed = fit(request)
    except KvplanError:
        return None
    if not isinstance(changed.outcome, Fit):
        return None
    after, context = changed.outcome.max_sequences, request.context
    if not isinstance(plan.outcome, Fit):
        return Suggestion(change, f"fits: {plural(after, 'sequence')} of {context:,} tokens")
    if after <= plan.outcome.max_sequences:
        return None
    return Suggestion(change, f"{after:,} sequences of {context:,} tokens instead of {plan.outcome.max_sequences:,}")


def _smaller_cache(plan: Plan) -> Iterator[Attempt]:
    if plan.kv.k.bits >= SIXTEEN_BIT:
        eight = format_named("fp8")
        yield "--kv-dtype fp8", replace(plan.request, kv=KvFormat(eight, eight))


def _text_alone(plan: Plan) -> Iterator[Attempt]:
    """Without the vision and audio encoders."""
    request = plan.request
    if without_towers(request.model) is not request.model and not request.options.language_model_only:
        yield "--language-model-only", replace(request, options=replace(request.options, language_model_only=True))


def _shorter(plan: Plan) -> Iterator[Attempt]:
    """The longest context that fits, rounded down to a multiple of 1,024."""
    longest = plan.max_context
    if isinstance(plan.outcome, NoFit) and plan.outcome.binding == "concurrency":
        longest = longest_together(plan.request)
    if not plan.fits and longest and longest < plan.request.context:
        rounded = longest // ROUND_CONTEXT * ROUND_CONTEXT or longest
        yield f"--ctx {rounded}", replace(plan.request, context=rounded)


def _more_tensor_ranks(plan: Plan) -> Iterator[Attempt]:
    """Larger tensor parallel sizes that the model can be split by. Not on MIG slices, which collectives can't join."""
    request = plan.request
    if request.gpu.mig_of is not None:
        return
    now = request.parallel
    for tp in range(2 * now.tp, max(request.model.query_heads, default=1) + 1, now.tp):
        wider = replace(now, tp=tp, ep=tp * now.dp if now.ep > 1 else 1)
        try:
            request.model.check_split(wider)
        except KvplanError:
            continue
        yield f"--tp {tp}", replace(request, parallel=wider)


def _more_stages(plan: Plan) -> Iterator[Attempt]:
    """Two, four, ... times the pipeline stages; not on MIG slices either."""
    request = plan.request
    pp = request.parallel.pp * 2
    while request.gpu.mig_of is None and not plan.fits and pp <= len(request.model.layers):
        yield f"--pp {pp}", replace(request, parallel=replace(request.parallel, pp=pp))
        pp *= 2


def _shorter_steps(plan: Plan) -> Iterator[Attempt]:
    """Steps as long as an encoder input or the prompt, if an engine reserves a step's tokens for each input."""
    request = plan.request
    crossed = [cache.tokens for cache, _ in request.model.distinct if isinstance(cache, CrossAttention)]
    most = max((*crossed, request.context)) if crossed and request.engine.allocates else None
    if most is not None and request.options.max_num_batched_tokens is None:
        yield (
            f"--max-num-batched-tokens {most}",
            replace(request, options=replace(request.options, max_num_batched_tokens=most)),
        )


def _more_utilization(plan: Plan) -> Iterator[Attempt]:
    request = plan.request
    usable, memory = plan.budget.usable.bytes.likely, plan.budget.memory.bytes.likely
    if not plan.fits and request.options.kv_memory is None and usable < int(memory * MORE_MEMORY):
        yield (
            f"--utilization {MORE_MEMORY}",
            replace(request, options=replace(request.options, utilization=MORE_MEMORY)),
        )


def _smaller_pool(plan: Plan) -> Iterator[Attempt]:
    """The largest cache that the GPU has room for, in whole MiB, where a larger one was given."""
    request, outcome = plan.request, plan.outcome
    given = request.options.kv_memory
    if given is None or not isinstance(outcome, NoFit) or outcome.binding != "pool":
        return
    whole = (given - outcome.short_by_bytes) // MIB
    if whole > 0:
        yield f"--kv-memory {whole}MiB", replace(request, options=replace(request.options, kv_memory=whole * MIB))


def _smaller_weights(plan: Plan) -> Iterator[Attempt]:
    """An fp8 checkpoint, if the matrices have 16 bits."""
    request = plan.request
    weights = request.model.weights
    if plan.fits or weights is None or request.options.weights_per_gpu is not None:
        return
    half = weights.stored_as(Storage("fp8", 8))
    if half.bytes < weights.bytes:
        yield "an fp8 checkpoint", replace(request, model=replace(request.model, weights=half))


def _bigger_gpu(plan: Plan, gpus: Iterable[Gpu]) -> Iterator[Attempt]:
    """GPUs of the same vendor and segment with more memory and no less bandwidth, the smallest first."""
    here = plan.request.gpu
    for gpu in sorted(() if plan.fits else gpus, key=lambda gpu: gpu.memory.value):
        alike = (gpu.vendor, gpu.segment, gpu.mig_of) == (here.vendor, here.segment, None)
        if alike and gpu.memory.value > here.memory.value and gpu.bandwidth.value >= here.bandwidth.value:
            yield f"--gpu {gpu.id}", replace(plan.request, gpu=gpu)
