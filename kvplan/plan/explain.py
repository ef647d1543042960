"""Nodes of the explain tree: a term, its formula with numbers filled in, its inputs, its source and its parts."""

from __future__ import annotations

from typing import NamedTuple

from kvplan.arch.curve import StateGroup
from kvplan.arch.formats import KvFormat
from kvplan.arch.model import LayerCount, Model
from kvplan.arch.weights import Weights

Scalar = int | float | str | None


class Node(NamedTuple):
    """One number of the answer. unit: "bytes", "tokens", "sequences", "s", "B/s" or "" for a ratio."""

    name: str
    value: int | float | None
    unit: str
    formula: str
    inputs: tuple[tuple[str, Scalar], ...] = ()
    source: str = ""
    children: tuple[Node, ...] = ()


def explain_sequence(model: Model, kv: KvFormat, tokens: int) -> Node:
    """Bytes of one sequence (whole model, one copy) as the sum over groups of layers."""
    groups = tuple(explain_group(count, tokens) for count in model.parts(kv))
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
    """Token passes to generate `output` tokens after `prompt`, without and with a cache.

    Without: every new token runs the whole sequence again, N L + N^2 / 2. With: every token runs once, L + N.
    """
    without, cached = prompt * output + output * output // 2, prompt + output
    return Node(
        "token passes without a cache",
        without,
        "token passes",
        f"{output:,} x {prompt:,} + {output:,}^2 / 2",
        (
            ("prompt", prompt),
            ("output", output),
            ("per new token", without / output),
            ("with a cache", cached),
            ("times fewer", without / cached),
        ),
        "prefill writes the cache, decode reads it: with one, every token is run once",
    )


ROUTING = "experts: E x (1 - (1 - k/E)^batch) distinct ones of E if each token chooses k uniformly and independently"


def explain_weights(weights: Weights, batch: int) -> Node:
    """Bytes of one copy of the weights by component, and what a step of `batch` sequences reads of them."""
    counts, reads = weights.by_component(), weights.read_bytes(batch)
    known: tuple[tuple[str, Scalar], ...] = (
        ("parameters", weights.total),
        ("active per token", weights.active),
        ("by the config's formula", weights.formula_bytes),
        ("missing", ", ".join(weights.missing) or None),
    )
    parts = tuple(
        Node(name, count, "parameters", "", source="counted from the config") for name, count in counts.items()
    )
    read = Node(
        f"weights that a step of {batch:,} reads", reads.likely, "bytes", "dense weights once, a row of the embedding a sequence, experts",
        (("at least", reads.low), ("at most", reads.high)), ROUTING,
    )  # fmt: skip
    return Node("weights", weights.bytes, "bytes", stored_text(weights), known, _BASES[weights.basis], (*parts, read))


def stored_text(weights: Weights) -> str:
    """Where the bytes come from: `fp8, from the config`, `headers of 4 files`."""
    return f"{weights.method or 'dtype as stated'}, from the config" if weights.basis == "config" else weights.found_by


_BASES = {
    "config": "tensor shapes that follow from the config, in the checkpoint's own formats",
    "headers": "the checkpoint's own headers, every tensor's bytes",
    "what_if": "tensor shapes that follow from the config, in the format asked about",
}


def explain_group(count: LayerCount, tokens: int) -> Node:
    """Bytes of all layers with one growth law, at one length."""
    group = count.part.group
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
    grown = f"{count.layers} layers x {group.per_state:,} B x {_entries(group, tokens)}" if group.per_state else ""
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


def _entries(group: StateGroup, tokens: int) -> str:
    """`8,192`, `min(8,192, 1,024)`, `8,192 / 4`."""
    text = f"{tokens:,}" if group.cap is None else f"min({tokens:,}, {group.cap:,})"
    text += f" / {group.stride}" if group.stride > 1 else ""
    return text + (f" / {group.spread} ranks" if group.spread > 1 else "")
