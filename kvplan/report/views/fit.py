"""The page of `kvplan fit`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kvplan.engines.base import Binding
from kvplan.report.blocks import Bar, Block, Column, Facts, Heading, Note, Table, Verdict
from kvplan.report.schema import fit as schema
from kvplan.report.views import words
from kvplan.report.views.size import notes
from kvplan.text import plural
from kvplan.units import format_bytes

BINDING: dict[Binding, str] = {
    "weights": "the weights are too large",
    "longest_request": "one request of that length doesn't fit",
    "concurrency": "that many sequences don't fit",
    "pool": "limited by KV cache memory",
    "rank": "limited by the fullest pipeline stage",
    "max_num_seqs": "limited by max_num_seqs, the engine's own limit on sequences",
}


def view(report: schema.FitReport) -> tuple[Block, ...]:
    """Verdict, memory of one GPU, both capacities, a decode step, and what would help."""
    return tuple(_blocks(report))


def _blocks(report: schema.FitReport) -> Iterator[Block]:
    yield Heading(_question(report))
    yield Verdict(_answer(report), good=report.verdict == "fits")
    yield Heading(f"Memory of one GPU, {format_bytes(report.per_gpu.memory_bytes)} visible")
    yield _bar(report.per_gpu)
    yield _memory(report.per_gpu)
    beside = tuple(_weights(report))
    if beside:
        yield Facts(beside)
    yield Heading("Capacity")
    yield Facts(tuple(_capacity(report)))
    if report.decode is not None:
        yield Heading(f"A decode step of {plural(report.decode.batch, 'sequence')}")
        yield Facts(tuple(_decode(report.decode)))
    if report.suggestions:
        yield Heading("What a single change would do")
        columns = (Column("change", right=False), Column("effect", right=False, shrink=True))
        yield Table(columns, tuple((found.change, found.effect) for found in report.suggestions))
    yield from (Note(text) for text in _notes(report))
    yield from words.set_elsewhere(report.settings)


def _question(report: schema.FitReport) -> str:
    layout = words.layout_text(report.parallel)
    where = f"{report.gpu.count} x {report.gpu.id}" + (f" ({layout})" if layout else "")
    return f"{words.model_line(report.model)} on {where}, {words.kv_text(report.kv_dtype)} cache"


def _answer(report: schema.FitReport) -> str:
    holder = words.engine_text(report.engine) + ("" if report.verified else " (unverified)")
    if report.verdict == "fits":
        sequences = plural(report.max_sequences, "sequence")
        own = "" if report.exceeded is None else f" Beyond the model's own maximum of {report.exceeded:,} tokens."
        return f"Fits: {sequences} of {report.context:,} tokens by {holder}; {BINDING[report.binding]}.{own}"
    short = f" by {format_bytes(report.short_by_bytes)} per GPU" if report.short_by_bytes else ""
    return f"Does not fit{short}, by {holder}: {(report.reason or BINDING[report.binding]).rstrip('.')}."


def _bar(memory: schema.PerGpu) -> Bar:
    """What the plan counts on, and what is left unused."""
    scenario = _scenarios(memory)[0 if memory.decides == "low" else 1]
    weights = scenario.weights_bytes
    spent = [
        *(() if weights is None else (("weights", weights),)),
        ("activations", scenario.activation_bytes),
        ("runtime", scenario.runtime_bytes),
        ("KV cache", max(scenario.kv_bytes, 0)),
    ]
    spent.append(("not used", max(memory.memory_bytes - sum(size for _, size in spent), 0)))
    parts = tuple((name, size, format_bytes(size)) for name, size in spent)
    return Bar(parts, max(memory.memory_bytes, sum(size for _, size in spent)))


def _scenarios(memory: schema.PerGpu) -> tuple[schema.Memory, ...]:
    """The terms of the worst, likely and best case; each adds up to its own KV cache."""
    low, high = memory.low, memory.high
    worst = replace(high, memory_bytes=low.memory_bytes, usable_bytes=low.usable_bytes, kv_bytes=low.kv_bytes)
    best = replace(low, memory_bytes=high.memory_bytes, usable_bytes=high.usable_bytes, kv_bytes=high.kv_bytes)
    return worst, memory, best


def _memory(memory: schema.PerGpu) -> Table:
    columns, given = _scenarios(memory), "kv" in memory.given
    names = (
        ("memory", "memory_bytes") if given else ("usable", "usable_bytes"),
        ("- weights", "weights_bytes"),
        ("- activations", "activation_bytes"),
        ("- runtime", "runtime_bytes"),
        ("- KV cache, as given" if given else "= KV cache", "kv_bytes"),
    )
    rows = [(label, *(_counted(getattr(column, name)) for column in columns)) for label, name in names]
    if given:
        rows.append(("= left over", *(format_bytes(_left(column)) for column in columns)))
    safe, likely = ("safe (decides)", "likely") if memory.decides == "low" else ("safe", "likely (decides)")
    if memory.low == memory.high:
        return Table((Column("", right=False), Column("per GPU")), tuple(row[:2] for row in rows))
    return Table((Column("", right=False), Column(safe), Column(likely), Column("best case")), tuple(rows))


def _left(memory: schema.Memory) -> int:
    """What a cache whose size was given leaves of the whole GPU; below zero where it doesn't hold all of it."""
    spent = (memory.weights_bytes or 0) + memory.activation_bytes + memory.runtime_bytes
    return memory.memory_bytes - spent - memory.kv_bytes


def _counted(size: int | None) -> str:
    """Bytes; "not counted" for unknown weights, which are allowed only if the cache's memory is given."""
    return "not counted" if size is None else format_bytes(size)


def _weights(report: schema.FitReport) -> Iterator[tuple[str, str]]:
    if report.model.weights is not None:
        instead = "given; they would be " if "weights" in report.per_gpu.given else ""
        yield "weights in all", instead + words.weights_text(report.model.weights)
    for extra in report.extras:
        cache = f", and {format_bytes(extra.cache_bytes)} of cache a sequence" if extra.cache_bytes else ""
        yield f"beside it {extra.name}", f"{format_bytes(extra.bytes)} on a GPU{cache}: {extra.formula}"


def _capacity(report: schema.FitReport) -> Iterator[tuple[str, str]]:
    ideal, reserved = report.ideal, report.reserved
    held = "" if ideal.kv_tokens is None else f", {ideal.kv_tokens:,} tokens"
    yield "by the formula", f"{plural(ideal.max_sequences, 'sequence')} in {format_bytes(ideal.kv_bytes)}{held}"
    if reserved is not None:
        yield f"by {words.engine_text(report.engine)}", _reserved(reserved, report.parallel.dcp)
        if reserved.gap:
            said = ", ".join(f"{reason.name} {format_bytes(reason.bytes)}" for reason in reserved.gap)
            yield "gap per sequence", said
    yield "longest sequence", _longest(report)
    if report.utilization_needed is not None:
        yield _for_so_many(report), f"--utilization {report.utilization_needed:g} is the least that holds them"
    elif report.utilization_reason is not None:
        yield _for_so_many(report), f"no --utilization holds them: {report.utilization_reason}"
    if report.engine_error is not None and report.engine_error != report.reason:
        yield f"{report.engine.name} would say", report.engine_error


def _longest(report: schema.FitReport) -> str:
    """The longest sequence, and what limits it: memory, or the length at which the search for it ends."""
    longest, own, name = report.max_context, report.model.max_context, report.max_context_name
    if longest is None:
        text = "no limit"
    elif name is not None and longest == own != report.exceeded:
        return f"at least {longest:,} tokens, the model's own maximum"
    elif name is not None and longest == report.context:
        text = f"at least {longest:,} tokens, the length planned for"
    elif name is not None and report.engine_error is not None and longest < report.context:
        text = f"{longest:,} tokens ({name})"
    else:
        text = f"{longest:,} tokens"
    return text if own is None else f"{text}; the model's own maximum is {own:,}"


def _for_so_many(report: schema.FitReport) -> str:
    return f"for {plural(report.concurrency or 0, 'sequence')}"


def _reserved(reserved: schema.Reserved, dcp: int) -> str:
    """Sequences of all replicas; the rest is what each of them prints. dcp: ranks that each have a part of a block's tokens."""
    text = plural(reserved.max_sequences, "sequence")
    each = f"; each of {reserved.replicas:,} replicas" if reserved.replicas > 1 else ","
    text += f"{each} {reserved.kv_tokens:,} tokens"
    if reserved.blocks is not None:
        shared = f" on each of {dcp:,} ranks" if dcp > 1 else ""
        text += f" in {reserved.blocks:,} blocks of {reserved.block_tokens}{shared}"
    return f"{text}, maximum concurrency {reserved.max_concurrency:.2f}x"


def _decode(step: schema.DecodeInfo) -> Iterator[tuple[str, str]]:
    low = f"at least {words.seconds(step.weight_read_s_low)}, " if step.weight_read_s_low < step.weight_read_s else ""
    expected = " with the experts that uniform routing touches" if low else ""
    yield "weights read", f"{_weight_bytes(step)} per GPU: {low}{words.seconds(step.weight_read_s)}{expected}"
    yield "cache read", f"{words.seconds(step.kv_read_s)}, {words.share(step.kv_share)} of the bytes read"
    yield (
        "a step takes",
        (
            f"at least {words.seconds(step.step_s_low)} (datasheet), likely about {words.seconds(step.step_s_likely)}: "
            f"{step.tokens_per_s:,.0f} tokens/s in all, {step.tokens_per_s / step.batch:,.1f} per sequence"
        ),
    )
    yield "made up of", _step_parts(step)
    batch = (
        "never at this length"
        if step.crossover_batch is None
        else f"from {plural(step.crossover_batch, 'sequence')} of this length"
    )
    context = "" if step.crossover_context is None else f", or this many from {step.crossover_context:,} tokens each"
    yield "cache over weights", batch + context


def _step_parts(step: schema.DecodeInfo) -> str:
    """The terms of the likely step. Reading and computing overlap, so that only the longer one counts."""
    parts = [("reading", step.read_s_likely), ("computing", step.compute_s_likely)]
    (longer, longest), (shorter, beside) = sorted(parts, key=lambda part: -(part[1] or 0.0))
    return (
        f"{longer} {words.seconds(longest)} ({shorter} beside it {words.seconds(beside)}), "
        f"communication {words.seconds(step.communication_s)}, launches and gaps {words.seconds(step.overhead_s)}"
    )


def _weight_bytes(step: schema.DecodeInfo) -> str:
    low, likely, high = map(format_bytes, (step.weight_bytes_low, step.weight_bytes, step.weight_bytes_high))
    return likely if low == high else f"{likely} ({low} to {high})"


def _notes(report: schema.FitReport) -> Iterator[str]:
    yield from report.warnings
    if report.per_gpu.assumed:
        yield "Assumed: " + ", ".join(f"{name} {value}" for name, value in report.per_gpu.assumed.items()) + "."
    yield from notes(report.model)
