"""The document of a sizing."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.arch.model import LayerCount
from kvplan.errors import UsageError
from kvplan.plan.explain import Node, explain_sequence, explain_weights, explain_work
from kvplan.plan.shapes import one_row
from kvplan.plan.size import Sizing
from kvplan.report.assemble.common import engine_info, explained, kv_dtype, layout, model_info
from kvplan.report.schema import schema_id
from kvplan.report.schema import size as schema
from kvplan.report.schema.common import WeightReads

RULE_OF_THUMB = "a GQA model of about 8B costs 100-150 KiB/token at 16 bit; add 15 % overhead"


def size_report(
    sizing: Sizing, prompt: int | None, batch: int = 1, chosen: str | None = None, warnings: tuple[str, ...] = ()
) -> schema.SizeReport:
    """The document of a sizing. prompt: tokens of the longest length that are the prompt, None for half.

    batch: sequences of the step whose reads of weights are reported. chosen: the origin of a default length.

    Raises: UsageError for a prompt that leaves nothing to generate.
    """
    request, weights = sizing.request, sizing.request.model.weights
    longest = max(request.lengths)
    given = longest // 2 if prompt is None else prompt
    if given >= longest and prompt is not None:
        raise UsageError(
            f"--prompt: {prompt:,} tokens leave nothing to generate in a sequence of {longest:,}",
            cause="--ctx counts prompt and output together",
            hint="give a longer --ctx, or a shorter prompt",
        )
    work, tree = explain_work(given, longest - given), explain_sequence(request.model, sizing.kv, longest)
    more = () if weights is None else (explain_weights(weights, batch),)
    return schema.SizeReport(
        schema=schema_id("size"),
        model=model_info(request.model),
        kv_dtype=kv_dtype(request.model.in_use(sizing.kv)),
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
        rule_of_thumb=RULE_OF_THUMB if _is_plain_gqa(sizing) else None,
        weight_reads=None if weights is None else WeightReads(batch, *weights.read_bytes(batch)),
        explain=explained(Node("size", tree.value, "bytes", "", children=(tree, work, *more))),
        verified=request.engine.verified,
        assumed=dict(_assumed(sizing, chosen)),
        warnings=warnings,
    )


def _assumed(sizing: Sizing, chosen: str | None) -> Iterator[tuple[str, str]]:
    request = sizing.request
    if request.gpu is None and request.engine.words.unnamed_gpu is not None:
        yield "gpu", request.engine.words.unnamed_gpu
    if chosen is not None:
        yield "context", chosen
    for said in one_row(request.model, sizing.kv):
        yield "kv_dtype", said.rstrip(".")


ABOUT_8B = range(6 * 10**9, 11 * 10**9)
"""Parameters of the models that the rule of thumb is about."""


def _is_plain_gqa(sizing: Sizing) -> bool:
    """Whether the rule of thumb is about this model: its size, 16 bits, and layers that keep every token."""
    weights, bits = sizing.request.model.weights, (sizing.kv.k.bits, sizing.kv.v.bits)
    if weights is None or weights.total not in ABOUT_8B or bits != (16, 16):
        return False
    return sizing.attention == "gqa" and sizing.curve.bytes_per_token == sizing.curve.bytes_per_token_full


def _cache(sizing: Sizing) -> schema.CacheInfo:
    curve = sizing.curve
    return schema.CacheInfo(
        attention=sizing.attention,
        bytes_per_token=curve.bytes_per_token,
        bytes_per_token_full=curve.bytes_per_token_full,
        full_after=curve.full_after,
        fixed_bytes_per_sequence=curve.fixed_bytes,
        caching_layers=sum(bool(layer.caches) for layer in sizing.request.model.layers),
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
