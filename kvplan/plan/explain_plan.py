"""The explain tree of a plan: its budget, its sequences, the engine's figures and the decode step."""

from __future__ import annotations

from kvplan.arch.layers import Layer
from kvplan.engines.base import Capacity, Term
from kvplan.plan.achieved import COLLECTIVE_SOURCE
from kvplan.plan.explain import Node, Scalar, explain_group
from kvplan.plan.fit import Plan
from kvplan.plan.roofline import Decode
from kvplan.text import plural


def explain_plan(plan: Plan) -> Node:
    """The tree of a whole plan: how many sequences, from which budget, at which bytes each, and how fast."""
    request, parallel = plan.request, plan.request.parallel
    each = _sequence_on_gpu(plan)
    children = [_budget(plan), each]
    if plan.reserved is not None:
        children.append(_engine(plan.reserved, request.engine.name, each))
    if plan.decode is not None:
        children.append(_decode(plan.decode, plan))
    return Node(
        "sequences at once",
        plan.max_sequences,
        "sequences",
        f"floor({plan.kv_bytes:,} B / {each.value:,} B) x {plural(parallel.dp, 'replica')}"
        if plan.reserved is None
        else f"what {request.engine.name} admits with {plan.kv_bytes:,} B of cache on each GPU",
        (("context", request.context), ("gpus", parallel.gpus), ("decided by", f"the {request.end} end of the budget")),
        "KV budget / bytes of one sequence, on the GPU where that is least",
        tuple(children),
    )


def _sequence_on_gpu(plan: Plan) -> Node:
    request = plan.request
    stages = request.model.stages(request.parallel)
    extra = request.setup.drafting
    stages = (*stages[:-1], (*stages[-1], *extra))
    curves = request.model.rank_curves(request.parallel, plan.kv, extra)
    stage = max(range(len(curves)), key=lambda index: curves[index].bytes_at(request.context))
    parts = request.model.parts(plan.kv, request.parallel.shard, stages[stage])
    groups = tuple(explain_group(count, request.context) for count in parts)
    copies = _copies(plan, stages[stage], curves[stage].bytes_at(request.context))
    where = f", stage {stage + 1} of {len(curves)}" if len(curves) > 1 else ""
    return Node(
        f"one sequence on the fullest GPU{where}",
        curves[stage].bytes_at(request.context),
        "bytes",
        " + ".join(f"{node.value:,}" for node in groups) or "no layer keeps anything",
        (("tokens", request.context), ("tp", request.parallel.tp), ("dcp", request.parallel.dcp)),
        "the layers of that stage, their heads split over the tensor ranks",
        (*groups, *copies),
    )


def _copies(plan: Plan, stage: tuple[Layer, ...], held: int) -> tuple[Node, ...]:
    """Bytes that a rank holds beyond its share, because tensor ranks keep copies of heads or latents.

    They are already part of the bytes above.
    """
    request, tp = plan.request, plan.request.parallel.tp
    whole = request.model.curve(plan.kv, layers=stage).bytes_at(request.context)
    more = held - -(-whole // tp)
    if more <= 0:
        return ()
    said = "part of the bytes above: heads and latents that several tensor ranks each keep a copy of"
    return (Node("replication over tensor ranks", more, "bytes", f"{held:,} - {whole:,} / {tp}", source=said),)


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
        (
            _term(budget.usable, (_term(budget.memory),)),
            *(_term(term, tuple(map(_term, term.parts))) for term in terms[1:]),
        ),
    )


def _term(term: Term, children: tuple[Node, ...] = ()) -> Node:
    size = term.bytes
    inputs: tuple[tuple[str, Scalar], ...] = ()
    if size.low != size.high:
        inputs = (("low", size.low), ("likely", size.likely), ("high", size.high))
    return Node(term.name, size.likely, "bytes", term.formula, inputs, term.source, children)


def _engine(capacity: Capacity, name: str, formula: Node) -> Node:
    """What the engine prints, and what one sequence takes beyond the formula, term by term."""
    inputs: tuple[tuple[str, Scalar], ...] = (("blocks", capacity.blocks), ("block_tokens", capacity.block_tokens))
    known = capacity.reasons or ("above the formula",) * len(capacity.notes)
    why = tuple(
        Node(reason, size, "bytes", how, source=f"{name}'s own rules")
        for (reason, size), how in zip(capacity.notes, known, strict=True)
    )
    terms = (int(formula.value or 0), *(size for _, size in capacity.notes))
    each = Node(
        "one sequence takes on that GPU",
        sum(terms),
        "bytes",
        " + ".join(f"{size:,}" for size in terms),
        source="the formula's bytes, and why the engine's differ",
        children=(Node("by the formula", formula.value, "bytes", "as above"), *why),
    )
    return Node(
        f"{name} reserves",
        capacity.kv_tokens,
        "tokens",
        "as the engine prints it",
        (*inputs, ("max_concurrency", round(capacity.max_concurrency, 2))),
        f"{name}'s own rules",
        (each,),
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
        Node("compute", step.compute_s, "s", step.compute_how, (), "datasheet"),
        Node(
            "communication",
            step.communication_s,
            "s",
            step.communication_how,
            (),
            COLLECTIVE_SOURCE,
        ),
        Node("overhead", step.overhead_s, "s", step.overhead_how, (), reached.source),
    )
    return Node(
        "decode step, likely",
        step.step_s_likely,
        "s",
        f"weights / {step.weight_fraction:.4g} + cache / {reached.cache:.4g}, or compute if longer, + communication + overhead",
        (("batch", step.batch), ("context", step.context), ("lower bound", step.step_s_low)),
        reached.source,
        children,
    )


def _bounds(step: Decode) -> tuple[tuple[str, Scalar], ...]:
    read = step.weight_bytes
    if read.low == read.high:
        return ()
    return (("one token's experts", read.low), ("uniform routing", read.likely), ("at most", read.high))
