"""The cost of a model's cache, in all and per GPU, by the formula and by an engine. It needs no GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kvplan.arch.curve import Curve
from kvplan.arch.formats import KvFormat
from kvplan.arch.model import LayerCount, Model
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Options, Setup
from kvplan.errors import UsageError
from kvplan.plan.request import NO_FLAGS, ONE_GPU
from kvplan.plan.shapes import as_attention, attention_label, shown_kinds
from kvplan.text import all_of

if TYPE_CHECKING:
    from kvplan.engines.protocol import Engine
    from kvplan.hardware.gpu import Gpu

LADDER = tuple(2**power for power in (11, 13, 15, 17, 19, 20))
UNSTATED_CONTEXT = 8192
"""Length shown for a model whose config justifies none, in tokens. It says nothing about the model."""


class SizeRequest(NamedTuple):
    """What to size. lengths: tokens of a sequence. kv: None for auto. gpu: for engines whose rules depend on it."""

    model: Model
    engine: Engine
    lengths: tuple[int, ...]
    parallel: Parallel = ONE_GPU
    kv: KvFormat | None = None
    options: Options = NO_FLAGS
    gpu: Gpu | None = None

    def setup(self, tokens: int) -> Setup:
        """The engine's side of the request, for sequences of `tokens`."""
        return Setup(self.model, self.gpu, self.parallel, self.kv, self.options, tokens)


class Length(NamedTuple):
    """Bytes of one sequence of `tokens`.

    whole: of the model, one copy. slope: of one more token. on_gpu: on the fullest GPU. engine_on_gpu: taken by the
    engine on the fullest GPU. engine_whole: taken by the engine on all GPUs of one replica, copies included.
    """

    tokens: int
    whole: int
    slope: int
    on_gpu: int
    engine_on_gpu: int
    engine_whole: int


class Alternative(NamedTuple):
    """The same shape under another kind of attention: bytes that token 1 adds, and bytes at the longest length."""

    attention: str
    bytes_per_token: int
    bytes: int


class Sizing(NamedTuple):
    """The answer: growth laws, bytes at each length, and the same shape under other kinds of attention."""

    request: SizeRequest
    kv: KvFormat
    attention: str
    curve: Curve
    parts: tuple[LayerCount, ...]
    lengths: tuple[Length, ...]
    ladder: tuple[tuple[int, int], ...]
    alternatives: tuple[Alternative, ...]


def size(request: SizeRequest) -> Sizing:
    """Size sequences of the lengths asked for.

    Raises: CannotSplit for a layout that the model can't be split into.
    """
    model, parallel = request.model, request.parallel
    kv = request.engine.kv_format(model, request.kv, request.gpu)
    curve, ranks = model.curve(kv), model.rank_curves(parallel, kv)
    longest = max(request.lengths)
    alternatives = (_alternative(model, kv, kind, longest) for kind in shown_kinds(model))
    return Sizing(
        request=request,
        kv=kv,
        attention=attention_label(model),
        curve=curve,
        parts=model.parts(kv),
        lengths=tuple(_length(tokens, curve, ranks, request) for tokens in request.lengths),
        ladder=_ladder(model, curve, longest),
        alternatives=tuple(found for found in alternatives if found is not None),
    )


def default_length(*models: Model) -> int:
    """The shortest maximum that the models state; UNSTATED_CONTEXT if none states any."""
    return min((model.context.tokens for model in models if model.context.tokens), default=UNSTATED_CONTEXT)


def unstated_length(*models: Model) -> str | None:
    """A remark on the default length if no model states a maximum."""
    if any(model.context.tokens for model in models):
        return None
    names = all_of(dict.fromkeys(model.origin.id for model in models))
    return f"{UNSTATED_CONTEXT:,} tokens: no maximum is stated for {names}, and --ctx gives none"


def _length(tokens: int, curve: Curve, ranks: tuple[Curve, ...], request: SizeRequest) -> Length:
    on_gpu = [rank.bytes_at(tokens) for rank in ranks]
    engine, parallel = request.engine, request.parallel
    if not engine.allocates:
        reserved, everywhere = max(on_gpu), sum(on_gpu) * parallel.tp
    else:
        reserved = engine.start(request.setup(tokens)).reserved()
        everywhere = reserved * parallel.tp * parallel.pp
    return Length(tokens, curve.bytes_at(tokens), curve.slope_at(tokens), max(on_gpu), reserved, everywhere)


def _ladder(model: Model, curve: Curve, longest: int) -> tuple[tuple[int, int], ...]:
    top = max(longest, model.context.tokens or 0)
    lengths = sorted({tokens for tokens in LADDER if tokens < top} | {top})
    return tuple(zip(lengths, curve.bytes_over(lengths), strict=True))


def _alternative(model: Model, kv: KvFormat, kind: str, tokens: int) -> Alternative | None:
    """None if the cache format can't store heads of that width."""
    try:
        curve = as_attention(model, kind).curve(kv)
    except UsageError:
        return None
    return Alternative(kind, curve.bytes_per_token, curve.bytes_at(tokens))
