"""The document of a plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from kvplan.arch.curve import LONGEST
from kvplan.engines.base import Budget, Capacity, Range, Refusal, Term
from kvplan.engines.extras import DRAFT
from kvplan.hardware.gpu import Gpu
from kvplan.plan.explain_plan import explain_plan
from kvplan.plan.fit import NoFit, Plan
from kvplan.plan.roofline import Decode
from kvplan.plan.suggest import Suggestion
from kvplan.report.assemble.common import by_field, engine_info, explained, kv_dtype, layout, model_info
from kvplan.report.schema import fit as schema
from kvplan.report.schema import schema_id


def fit_report(
    plan: Plan,
    suggestions: Iterable[Suggestion],
    warnings: Iterable[str],
    *,
    explain: bool = True,
    share: tuple[float | None, str | None] = (None, None),
    launch: str | None = None,
) -> schema.FitReport:
    """The document of a plan. explain: whether to include the tree of terms (tables of many models don't).

    share: the smallest utilization for the concurrency asked for, or why there is none. launch: what --emit prints.
    """
    request, outcome, excess = plan.request, plan.outcome, plan.started.excess
    no = outcome if isinstance(outcome, NoFit) else None
    return schema.FitReport(
        schema=schema_id("fit"),
        model=model_info(request.model),
        kv_dtype=kv_dtype(request.model.in_use(plan.kv)),
        parallel=layout(request.parallel),
        engine=engine_info(request.engine),
        gpu=gpu_info(request.gpu, request.parallel.gpus),
        verdict="fits" if no is None else "does_not_fit",
        binding=outcome.binding,
        reason=None if no is None else no.reason,
        short_by_bytes=None if no is None else no.short_by_bytes,
        per_gpu=_per_gpu(plan),
        ideal=_ideal(plan),
        reserved=None if plan.reserved is None else _reserved(plan.reserved, request.parallel.dp),
        context=request.context,
        max_sequences=plan.max_sequences,
        max_context=plan.max_context,
        concurrency=request.concurrency,
        decode=None if plan.decode is None else _decode(plan.decode),
        suggestions=tuple(schema.Change(found.change, found.effect) for found in suggestions),
        explain=explained(explain_plan(plan)) if explain else None,
        warnings=tuple(warnings),
        verified=request.engine.verified,
        engine_error=_engine_error(plan),
        utilization_needed=share[0],
        utilization_reason=share[1],
        launch=launch,
        extras=tuple(_extra(term, plan) for term in plan.budget.weights.parts),
        exceeded=None if excess is None else excess.longest,
        max_context_name=None if no is not None and _states_another(plan) else request.engine.words.longest,
    )


def _states_another(plan: Plan) -> bool:
    """Whether the engine, which counts with the budget of its one length, prints another longest sequence."""
    return isinstance(plan.own, Refusal) and plan.own.max_context != plan.max_context


def _engine_error(plan: Plan) -> str | None:
    """What the engine itself prints, or its allocator if memory runs out before the engine can check.

    None beyond a position table: there kvplan refuses, and what the engine says depends on what it is told to allow.
    """
    request, own = plan.request, plan.own
    excess = plan.started.excess
    past_table = excess is not None and excess.past_table
    if not request.engine.allocates or not isinstance(own, Refusal) or past_table:
        return None
    if own.binding != "weights":
        return own.message
    if plan.budget.weights.bytes.likely > plan.budget.memory.bytes.likely:
        return "torch.OutOfMemoryError: CUDA out of memory, while the weights are loaded"
    found = plan.started.capacity(plan.kv_bytes)
    return found.message if isinstance(found, Refusal) else None


def _extra(term: Term, plan: Plan) -> schema.Extra:
    """Adapters or a draft. The cache of a draft is already part of a sequence's bytes."""
    request = plan.request
    layers = request.setup.drafting if term.name == DRAFT else ()
    kept = request.model.curve(plan.kv, request.parallel.shard, layers).bytes_at(request.context) if layers else 0
    return schema.Extra(term.name, term.bytes.likely, term.formula, kept)


def gpu_info(gpu: Gpu, count: int) -> schema.GpuInfo:
    """The memory and bandwidth that a plan uses, with their sources."""
    sources = dict.fromkeys((*gpu.memory.sources, *gpu.bandwidth.sources))
    return schema.GpuInfo(gpu.id, count, gpu.memory.value, gpu.bandwidth.value, tuple(sources))


def _per_gpu(plan: Plan) -> schema.PerGpu:
    budget = plan.budget
    return by_field(
        schema.PerGpu,
        _memory(plan, budget, "likely"),
        low=_memory(plan, budget, "low"),
        high=_memory(plan, budget, "high"),
        decides="low" if plan.request.end == "safe" else "likely",
        assumed=dict(budget.assumed),
        given=tuple(_given(plan)),
    )


def _given(plan: Plan) -> Iterator[Literal["weights", "overhead", "kv"]]:
    options = plan.request.options
    if options.weights_per_gpu is not None:
        yield "weights"
    if options.overhead is not None:
        yield "overhead"
    if options.kv_memory is not None:
        yield "kv"


def _memory(plan: Plan, budget: Budget, end: str) -> schema.Memory:
    def at(size: Range) -> int:
        return {"low": size.low, "likely": size.likely, "high": size.high}[end]

    unknown = plan.request.model.weights is None and plan.request.options.weights_per_gpu is None
    return schema.Memory(
        memory_bytes=at(budget.memory.bytes),
        usable_bytes=at(budget.usable.bytes),
        weights_bytes=None if unknown else at(budget.weights.bytes),
        activation_bytes=at(budget.activation.bytes),
        runtime_bytes=at(budget.runtime.bytes),
        kv_bytes=at(budget.kv),
    )


def _ideal(plan: Plan) -> schema.IdealCapacity:
    tokens = None if plan.ideal.kv_tokens >= LONGEST else plan.ideal.kv_tokens
    room = max(plan.kv_bytes, 0) * plan.request.parallel.gpus
    return schema.IdealCapacity(room, tokens, plan.ideal.max_sequences)


def _reserved(capacity: Capacity, replicas: int) -> schema.Reserved:
    gap = tuple(schema.Reason(name, size) for name, size in capacity.notes)
    return by_field(schema.Reserved, capacity, gap=gap, replicas=replicas)


def _decode(step: Decode) -> schema.DecodeInfo:
    reached, weights = step.achieved, step.weight_bytes
    return by_field(
        schema.DecodeInfo,
        step,
        fractions=f"weights {step.weight_fraction:.4g}, cache {reached.cache:.4g} of the datasheet: {reached.source}",
        weight_bytes=weights.likely,
        weight_bytes_low=weights.low,
        weight_bytes_high=weights.high,
    )
