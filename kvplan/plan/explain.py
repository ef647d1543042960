"""Where a number comes from: the term, the formula with numbers in, its inputs, its source, and what it is made of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kvplan.arch.curve import Curve
from kvplan.arch.formats import KvFormat
from kvplan.arch.model import LayerCount, Model
from kvplan.engines.base import Capacity, Term
from kvplan.plan.fit import Plan
from kvplan.plan.roofline import Decode

Scalar = int | float | str | None


@dataclass(frozen=True, slots=True)
class Node:
    """One number of the answer. unit: "bytes", "tokens", "sequences", "s", "B/s" or "" for a ratio."""

    name: str
    value: int | float | None
    unit: str
    formula: str
    inputs: tuple[tuple[str, Scalar], ...] = ()
    source: str = ""
    children: tuple[Node, ...] = ()


def explain_sequence(model: Model, kv: KvFormat, tokens: int) -> Node:
    """Bytes of one sequence, whole model, one copy: the sum over groups of layers."""
    groups = tuple(_group(count, tokens) for count in model.parts(kv))
    return Node(
        "cache of one sequence",
        model.curve(kv).bytes_at(tokens),
        "bytes",
        " + ".join(f"{node.value:,}" for node in groups) or "no layer keeps anything",
        (("tokens", tokens), ("layers", len(model.layers)), ("k", kv.k.name), ("v", kv.v.name)),
        model.origin.source,
        groups,
    )


def explain_work(prompt: int, output: int) -> Node:
    """Token passes that generating `output` tokens after `prompt` takes without a cache and with one.

    Without, every new token runs the whole sequence again: N L + N^2 / 2. With, every token runs once: L + N.
    """
    without, cached = prompt * output + output * output // 2, prompt + output
    return Node(
        "token passes without a cache",
        without,
        "token passes",
        f"{output:,} x {prompt:,} + {output:,}^2 / 2, {without / output:,.0f} for each new token; "
        f"with a cache {prompt:,} + {output:,} = {cached:,}, {without / cached:,.0f} x fewer",
        (("prompt", prompt), ("output", output), ("with_cache", cached), ("ratio", without / cached)),
        "prefill writes the cache, decode reads it: every token is run once",
    )


def explain_plan(plan: Plan) -> Node:
    """The whole answer of a fit: how many sequences, from which budget, at which bytes each, and how fast."""
    request, parallel = plan.request, plan.request.parallel
    each = _sequence_on_gpu(plan)
    children = [_budget(plan), each]
    if plan.reserved is not None:
        children.append(_engine(plan.reserved, request.engine.name))
    if plan.decode is not None:
        children.append(_decode(plan.decode, plan))
    return Node(
        "sequences at once",
        plan.max_sequences,
        "sequences",
        f"floor({plan.kv_bytes:,} B / {each.value:,} B) x {parallel.dp} replica{'s' * (parallel.dp > 1)}"
        if plan.reserved is None
        else f"what {request.engine.name} admits with {plan.kv_bytes:,} B of cache on each GPU",
        (("context", request.context), ("gpus", parallel.gpus), ("decided by", f"the {request.end} end of the budget")),
        "KV budget / bytes of one sequence, on the GPU where that is least",
        tuple(children),
    )


def _group(count: LayerCount, tokens: int) -> Node:
    group = count.part.group
    entries = StateText(group.cap, group.stride, group.spread)
    one = Node(
        f"one layer, {'one entry' if group.per_state else 'whatever the length'}",
        group.per_state or group.fixed,
        "bytes",
        count.part.formula,
        source=count.part.source,
    )
    inputs: list[tuple[str, Scalar]] = [("layers", count.layers), ("tokens", tokens)]
    inputs += [("cap", group.cap)] if group.cap is not None else []
    inputs += [("stride", group.stride)] if group.stride > 1 else []
    grown = f"{count.layers} layers x {group.per_state:,} B x {entries.of(tokens)}" if group.per_state else ""
    fixed = f"{count.layers} layers x {group.fixed:,} B" if group.fixed else ""
    return Node(
        count.part.kind,
        count.layers * group.bytes_at(tokens),
        "bytes",
        " + ".join(part for part in (fixed, grown) if part) or "0",
        tuple(inputs),
        count.part.source,
        (one,),
    )


@dataclass(frozen=True, slots=True)
class StateText:
    """Entries of a growth law, in words."""

    cap: int | None
    stride: int
    spread: int

    def of(self, tokens: int) -> str:
        """`8,192`, `min(8,192, 1,024)`, `8,192 / 4`."""
        text = f"{tokens:,}" if self.cap is None else f"min({tokens:,}, {self.cap:,})"
        text += f" / {self.stride}" if self.stride > 1 else ""
        return text + (f" / {self.spread} ranks" if self.spread > 1 else "")


def _sequence_on_gpu(plan: Plan) -> Node:
    request = plan.request
    stages = request.model.stages(request.parallel)
    curves = request.model.rank_curves(request.parallel, plan.kv)
    stage = max(range(len(curves)), key=lambda index: curves[index].bytes_at(request.context))
    parts = request.model.parts(plan.kv, request.parallel.shard, stages[stage])
    groups = tuple(_group(count, request.context) for count in parts)
    where = f", stage {stage + 1} of {len(curves)}" if len(curves) > 1 else ""
    return Node(
        f"one sequence on the fullest GPU{where}",
        curves[stage].bytes_at(request.context),
        "bytes",
        " + ".join(f"{node.value:,}" for node in groups) or "no layer keeps anything",
        (("tokens", request.context), ("tp", request.parallel.tp), ("dcp", request.parallel.dcp)),
        "the layers of that stage, their heads split over the tensor ranks",
        groups,
    )


def _budget(plan: Plan) -> Node:
    budget, options = plan.budget, plan.request.options
    if options.kv_memory is not None:
        return Node(
            "KV budget",
            plan.kv_bytes,
            "bytes",
            f"{options.kv_memory:,} B per GPU",
            source="given: the budget is skipped",
        )
    terms = (budget.usable, budget.weights, budget.activation, budget.runtime)
    safe = plan.request.end == "safe"
    numbers = [
        term.bytes.low if term is budget.usable and safe else term.bytes.high if safe else term.bytes.likely
        for term in terms
    ]
    return Node(
        "KV budget",
        plan.kv_bytes,
        "bytes",
        " - ".join(f"{number:,}" for number in numbers),
        tuple(("assumed " + name, value) for name, value in budget.assumed),
        "usable - weights - activations - runtime, on the fullest GPU",
        (_term(budget.usable, (_term(budget.memory),)), *(_term(term) for term in terms[1:])),
    )


def _term(term: Term, children: tuple[Node, ...] = ()) -> Node:
    size = term.bytes
    inputs: tuple[tuple[str, Scalar], ...] = ()
    if size.low != size.high:
        inputs = (("low", size.low), ("likely", size.likely), ("high", size.high))
    return Node(term.name, size.likely, "bytes", term.formula, inputs, term.source, children)


def _engine(capacity: Capacity, name: str) -> Node:
    inputs: tuple[tuple[str, Scalar], ...] = (("blocks", capacity.blocks), ("block_tokens", capacity.block_tokens))
    why = tuple(
        Node(reason, size, "bytes", "per sequence on one GPU, above the formula") for reason, size in capacity.notes
    )
    return Node(
        f"{name} reserves", capacity.kv_tokens, "tokens", "as the engine prints it", inputs, f"{name}'s own rules", why
    )


def _decode(step: Decode, plan: Plan) -> Node:
    gpu, reached = plan.request.gpu, step.achieved
    bandwidth = gpu.bandwidth.value
    source = f"{gpu.id} {gpu.bandwidth.kind} bandwidth: {', '.join(gpu.bandwidth.sources)}"
    children = (
        Node(
            "weights read",
            step.weight_read_s,
            "s",
            f"{step.weight_bytes.likely:,} B / {bandwidth:,} B/s",
            _bounds(step),
            source,
        ),
        Node("cache read", step.kv_read_s, "s", f"{step.kv_bytes:,} B / {bandwidth:,} B/s", (), source),
        Node("compute", step.compute_s, "s", "FLOP of the batch / dense FLOP/s", (), "datasheet"),
        Node(
            "communication",
            step.communication_s,
            "s",
            "all-reduces: latency + bytes / link",
            (),
            "kvplan.plan.achieved",
        ),
        Node("overhead", step.overhead_s, "s", "per step + per layer", (), reached.source),
    )
    return Node(
        "decode step, likely",
        step.step_s_likely,
        "s",
        f"weights / {reached.weights16:g} + cache / {reached.cache:g}, or compute if longer, + communication + overhead",
        (("batch", step.batch), ("context", step.context), ("lower bound", step.step_s_low)),
        reached.source,
        children,
    )


def _bounds(step: Decode) -> tuple[tuple[str, Scalar], ...]:
    read = step.weight_bytes
    if read.low == read.high:
        return ()
    return (("one token's experts", read.low), ("uniform routing", read.likely), ("at most", read.high))


def total(curves: Iterable[Curve], tokens: int) -> int:
    """Bytes of one sequence over several ranks."""
    return sum(curve.bytes_at(tokens) for curve in curves)
