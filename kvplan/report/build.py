"""From plans to documents: nothing is worked out here that a plan doesn't already hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kvplan.arch.curve import LONGEST
from kvplan.arch.formats import KvFormat
from kvplan.arch.model import LayerCount, Model
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Budget, Capacity, Engine, Range
from kvplan.engines.registry import About
from kvplan.hardware.gpu import Fact, Gpu
from kvplan.plan.compare import Row
from kvplan.plan.explain import Node, explain_plan, explain_sequence, explain_work
from kvplan.plan.fit import NoFit, Plan
from kvplan.plan.roofline import Decode
from kvplan.plan.shapes import attention_label
from kvplan.plan.size import Sizing
from kvplan.plan.suggest import Suggestion
from kvplan.report import schema

RULE_OF_THUMB = "a GQA model of about 8B costs 100-150 KiB/token at 16 bit; add 15 % overhead"


def size_report(sizing: Sizing, prompt: int | None) -> schema.SizeReport:
    """The document of a sizing. prompt: tokens of the longest length that are the prompt, half when not said."""
    request = sizing.request
    longest = max(request.lengths)
    given = min(prompt, longest - 1) if prompt is not None else longest // 2
    work, tree = explain_work(given, longest - given), explain_sequence(request.model, sizing.kv, longest)
    return schema.SizeReport(
        schema=schema.schema_id("size"),
        model=model_info(request.model),
        kv_dtype=kv_dtype(sizing.kv),
        parallel=layout(request.parallel),
        engine=engine_info(request.engine),
        cache=_cache(sizing),
        sequences=tuple(
            schema.Sequence(
                length.tokens,
                length.whole,
                length.on_gpu,
                length.engine_whole,
                length.engine_on_gpu,
                length.slope,
            )
            for length in sizing.lengths
        ),
        ladder=tuple(schema.Rung(tokens, size) for tokens, size in sizing.ladder),
        same_shape=_same_shape(sizing, longest),
        work=_work(work, given, longest - given),
        rule_of_thumb=RULE_OF_THUMB,
        explain=explained(
            Node("size", tree.value, "bytes", tree.formula, source=tree.source, children=(tree, work)),
        ),
    )


def fit_report(
    plan: Plan, suggestions: Iterable[Suggestion], warnings: Iterable[str], *, explain: bool = True
) -> schema.FitReport:
    """The document of a plan. explain: whether to carry the tree (tables of many models leave it out)."""
    request, outcome = plan.request, plan.outcome
    no = outcome if isinstance(outcome, NoFit) else None
    return schema.FitReport(
        schema=schema.schema_id("fit"),
        model=model_info(request.model),
        kv_dtype=kv_dtype(plan.kv),
        parallel=layout(request.parallel),
        engine=engine_info(request.engine),
        gpu=gpu_info(request.gpu, request.parallel.gpus),
        verdict="fits" if no is None else "does_not_fit",
        binding=outcome.binding,
        reason=None if no is None else no.reason,
        short_by_bytes=None if no is None else no.short_by_bytes,
        per_gpu=_per_gpu(plan),
        ideal=_ideal(plan),
        reserved=None if plan.reserved is None else _reserved(plan.reserved),
        context=request.context,
        max_context=plan.max_context,
        concurrency=request.concurrency,
        decode=None if plan.decode is None else _decode(plan.decode),
        suggestions=tuple(schema.Change(found.change, found.effect) for found in suggestions),
        explain=explained(explain_plan(plan)) if explain else None,
        warnings=tuple(warnings),
    )


def model_info(model: Model) -> schema.ModelInfo:
    """Which model, and what about it was a default."""
    weights = model.weights
    return schema.ModelInfo(
        id=model.origin.id,
        family=model.family,
        source=model.origin.source,
        revision=model.origin.revision,
        max_context=model.context.tokens,
        max_context_reason=model.context.reason,
        parameters=parameters(model),
        defaulted=tuple(
            schema.Defaulted(default.field, _scalar(default.value), default.source) for default in model.defaulted
        ),
        notes=model.notes + (() if weights is None or weights.exact else (_missing(weights.missing),)),
    )


def parameters(model: Model) -> schema.Parameters:
    """Counts as far as they are known."""
    weights = model.weights
    if weights is None:
        return schema.Parameters(None, None, exact=False)
    return schema.Parameters(weights.total, weights.active, exact=weights.exact)


def kv_dtype(kv: KvFormat) -> schema.KvDtype:
    """Formats by name."""
    return schema.KvDtype(kv.k.name, kv.v.name)


def layout(parallel: Parallel) -> schema.Layout:
    """Parallel sizes."""
    return schema.Layout(parallel.tp, parallel.pp, parallel.dp, parallel.ep, parallel.dcp)


def engine_info(engine: Engine) -> schema.EngineInfo:
    """Engine and version."""
    return schema.EngineInfo(engine.name, engine.version)


def gpu_info(gpu: Gpu, count: int) -> schema.GpuInfo:
    """The two facts a plan stands on, and who says so."""
    sources = dict.fromkeys((*gpu.memory.sources, *gpu.bandwidth.sources))
    return schema.GpuInfo(gpu.id, count, gpu.memory.value, gpu.bandwidth.value, tuple(sources))


def listed_gpu(gpu: Gpu) -> schema.ListedGpu:
    """All facts of one GPU."""
    capability = gpu.compute_capability
    return schema.ListedGpu(
        id=gpu.id,
        name=gpu.name,
        vendor=gpu.vendor,
        architecture=gpu.architecture,
        aliases=gpu.aliases,
        memory=_known(gpu.memory),
        memory_marketed=_fact(gpu.memory_marketed),
        bandwidth=_known(gpu.bandwidth),
        bandwidth_measured=_fact(gpu.bandwidth_measured),
        flops={name: _known(fact) for name, fact in gpu.flops},
        link=_fact(gpu.link),
        memory_type=gpu.memory_type,
        compute_capability=None if capability is None else f"{capability[0]}.{capability[1]}",
        unified=gpu.unified,
        fp8_kv_native=gpu.fp8_kv_native,
        segment=gpu.segment,
        mig_of=gpu.mig_of,
        notes=gpu.notes,
    )


def listed_model(model: Model, aliases: tuple[str, ...], source: str) -> schema.ListedModel:
    """One bundled model."""
    curve = model.curve(model.kv_auto)
    return schema.ListedModel(
        id=model.origin.id,
        aliases=aliases,
        family=model.family,
        max_context=model.context.tokens,
        attention=attention_label(model),
        bytes_per_token=curve.bytes_at(1) - curve.bytes_at(0),
        fixed_bytes_per_sequence=curve.bytes_at(0),
        parameters=parameters(model),
        source=source,
    )


def listed_engine(about: About) -> schema.ListedEngine:
    """One engine, the versions its rules hold for, and the rules."""
    rules = tuple(schema.ListedRule(rule.since, rule.says, rule.source, rule.certain) for rule in about.rules)
    return schema.ListedEngine(about.name, about.newest, about.oldest, rules)


def compare_report(rows: Sequence[Row], parallel: Parallel) -> schema.CompareReport:
    """The document of a comparison; ratios are against the first row."""
    first = rows[0].bytes
    return schema.CompareReport(
        schema=schema.schema_id("compare"),
        parallel=layout(parallel),
        rows=tuple(
            schema.Compared(
                model=row.model.origin.id,
                attention=row.attention,
                kv_dtype=kv_dtype(row.kv),
                tokens=row.tokens,
                bytes_per_token=row.bytes_per_token,
                bytes_per_token_full=row.bytes_per_token_full,
                fixed_bytes_per_sequence=row.fixed,
                bytes=row.bytes,
                bytes_per_gpu=row.on_gpu,
                ratio=row.bytes / first if first else 0.0,
                notes=row.notes,
            )
            for row in rows
        ),
    )


def explained(node: Node) -> schema.Explained:
    """A tree of terms."""
    children = tuple(explained(child) for child in node.children)
    return schema.Explained(node.name, node.value, node.unit, node.formula, dict(node.inputs), node.source, children)


def _cache(sizing: Sizing) -> schema.CacheInfo:
    curve = sizing.curve
    return schema.CacheInfo(
        attention=sizing.attention,
        bytes_per_token=sizing.bytes_per_token,
        bytes_per_token_full=sizing.bytes_per_token_full,
        full_after=curve.full_after,
        fixed_bytes_per_sequence=curve.bytes_at(0),
        groups=tuple(_group(count) for count in sizing.parts),
    )


def _group(count: LayerCount) -> schema.Group:
    group = count.part.group
    return schema.Group(
        kind=count.part.kind,
        layers=count.layers,
        bytes_per_token=round(group.per_state / group.stride),
        cap_tokens=group.cap,
        stride=group.stride,
        fixed_bytes=group.fixed,
        bytes_per_entry=group.per_state,
        formula=count.part.formula,
        source=count.part.source,
    )


def _same_shape(sizing: Sizing, longest: int) -> tuple[schema.SameShape, ...]:
    own = sizing.curve.bytes_at(longest)
    return tuple(
        schema.SameShape(other.attention, other.bytes_per_token, other.bytes, other.bytes / own if own else 0.0)
        for other in sizing.alternatives
    )


def _work(node: Node, prompt: int, output: int) -> schema.Work:
    without, cached = int(node.value or 0), prompt + output
    return schema.Work(prompt, output, without, cached, without / cached, without / output)


def _per_gpu(plan: Plan) -> schema.PerGpu:
    budget = plan.budget
    likely = _memory(plan, budget, "likely")
    return schema.PerGpu(
        memory_bytes=likely.memory_bytes,
        usable_bytes=likely.usable_bytes,
        weights_bytes=likely.weights_bytes,
        activation_bytes=likely.activation_bytes,
        runtime_bytes=likely.runtime_bytes,
        kv_bytes=likely.kv_bytes,
        low=_memory(plan, budget, "low"),
        high=_memory(plan, budget, "high"),
        decides="low" if plan.request.end == "safe" else "likely",
        assumed=dict(budget.assumed),
    )


def _memory(plan: Plan, budget: Budget, end: str) -> schema.Memory:
    def at(size: Range) -> int:
        return {"low": size.low, "likely": size.likely, "high": size.high}[end]

    unknown = plan.request.model.weights is None and plan.request.options.weights is None
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


def _reserved(capacity: Capacity) -> schema.Reserved:
    return schema.Reserved(
        kv_bytes=capacity.kv_bytes,
        blocks=capacity.blocks,
        block_tokens=capacity.block_tokens,
        kv_tokens=capacity.kv_tokens,
        max_concurrency=capacity.max_concurrency,
        max_sequences=capacity.max_sequences,
        gap=tuple(schema.Reason(name, size) for name, size in capacity.notes),
    )


def _decode(step: Decode) -> schema.DecodeInfo:
    reached = step.achieved
    return schema.DecodeInfo(
        batch=step.batch,
        context=step.context,
        weight_read_s=step.weight_read_s,
        weight_read_s_low=step.weight_read_s_low,
        kv_read_s=step.kv_read_s,
        compute_s=step.compute_s,
        communication_s=step.communication_s,
        overhead_s=step.overhead_s,
        step_s_low=step.step_s_low,
        step_s_likely=step.step_s_likely,
        kv_share=step.kv_share,
        crossover_batch=step.crossover_batch,
        crossover_context=step.crossover_context,
        tokens_per_s=step.tokens_per_s,
        fractions=reached.source,
    )


def _missing(parts: tuple[str, ...]) -> str:
    return f"weights are a lower bound: {', '.join(parts)} can't be counted from the config"


def _known(fact: Fact) -> schema.KnownFact:
    return schema.KnownFact(fact.value, fact.kind, fact.sources)


def _fact(fact: Fact | None) -> schema.KnownFact | None:
    return None if fact is None else _known(fact)


def _scalar(value: object) -> schema.Scalar:
    return value if isinstance(value, int | float | str | bool) or value is None else str(value)
