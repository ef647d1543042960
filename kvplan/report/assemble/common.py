"""Parts that several documents have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, TypeVar

from kvplan.arch.formats import KvFormat
from kvplan.arch.model import Model
from kvplan.arch.parallel import Parallel
from kvplan.arch.weights import Weights
from kvplan.plan.explain import Node
from kvplan.report.schema import common as schema

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from kvplan.engines.protocol import Engine

T = TypeVar("T", bound="DataclassInstance")


def by_field(kind: type[T], source: object, **others: object) -> T:
    """A part of a document from the fields of `source` with the same names, except for `others`."""
    named = (field.name for field in fields(kind) if field.name not in others)
    return kind(**{name: getattr(source, name) for name in named}, **others)


def model_info(model: Model) -> schema.ModelInfo:
    """The model, and which of its numbers are defaults."""
    weights = model.weights
    return schema.ModelInfo(
        id=model.origin.id,
        family=model.family,
        source=model.origin.source,
        revision=model.origin.revision,
        max_context=model.context.tokens,
        max_context_reason=model.context.reason,
        parameters=parameters(model),
        weights=None if weights is None else weights_info(weights),
        defaulted=tuple(
            schema.Defaulted(default.field, _scalar(default.value), default.source) for default in model.defaulted
        ),
        notes=model.notes + (() if weights is None else tuple(_doubts(weights))),
    )


def parameters(model: Model) -> schema.Parameters:
    """Parameter counts, as far as they are known."""
    weights = model.weights
    if weights is None:
        return schema.Parameters(None, None, exact=False)
    return schema.Parameters(weights.total, weights.active, exact=weights.exact)


def weights_info(weights: Weights) -> schema.WeightsInfo:
    """Bytes of the weights, and what they were computed from."""
    return schema.WeightsInfo(
        weights.bytes, weights.basis, weights.found_by, weights.formula_bytes, weights.missing, weights.draft_total
    )


def kv_dtype(kv: KvFormat) -> schema.KvDtype:
    """Cache formats by name."""
    return schema.KvDtype(kv.k.name, kv.v.name)


def layout(parallel: Parallel) -> schema.Layout:
    """Parallel sizes."""
    return schema.Layout(parallel.tp, parallel.pp, parallel.dp, parallel.ep, parallel.dcp)


def engine_info(engine: Engine) -> schema.EngineInfo:
    """The engine and its version."""
    return schema.EngineInfo(engine.name, engine.version)


def explained(node: Node) -> schema.Explained:
    """A tree of terms."""
    children = tuple(explained(child) for child in node.children)
    return schema.Explained(node.name, node.value, node.unit, node.formula, dict(node.inputs), node.source, children)


def _doubts(weights: Weights) -> Iterator[str]:
    """What is uncertain about the counts."""
    if weights.missing:
        what = "parameters" if weights.whole else "weights"
        bound = "are what Llama's would be, which may be too many" if weights.supposed else "are a lower bound"
        yield f"{what} {bound}: {', '.join(weights.missing)} can't be counted from the config"
    if weights.rounding:
        yield f"parameters are rounded: {weights.rounding:,} more or less of {weights.total:,}"


def _scalar(value: object) -> schema.Scalar:
    return value if isinstance(value, int | float | str | bool) or value is None else str(value)
