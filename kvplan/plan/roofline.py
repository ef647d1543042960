"""The time of one decode step, from bytes and a datasheet.

    step_low    = max((weights of one token's experts + cache read) / peak bandwidth, FLOP / peak)
    step_likely = weights / (f x bandwidth) + cache / (f x bandwidth) + collectives + launches, compute if it is longer

No public measurement beats the first. The second is an estimate: kvplan.plan.achieved holds its fractions, and
kvplan.plan.calibration takes them from a measurement. With pipeline stages, a token passes through all of them in turn
while as many micro-batches are under way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kvplan.arch.curve import LONGEST, Curve
from kvplan.arch.formats import KvFormat
from kvplan.arch.layers import Attention, Cache, Compressed, CrossAttention, Latent
from kvplan.arch.model import Model
from kvplan.arch.search import smallest
from kvplan.arch.weights import Reads
from kvplan.engines.unstated import HIDDEN
from kvplan.plan.achieved import Achieved, achieved, collective_s
from kvplan.plan.request import Request

SIXTEEN_BIT = 16

MOST = 2**30
"""Largest batch considered when looking for the crossover."""


@dataclass(frozen=True, slots=True)
class Decode:
    """One decode step of `batch` sequences of `context` tokens.

    weight_read_s, kv_read_s: bytes of one rank over the datasheet's bandwidth, summed over the pipeline stages; with
    the expected number of distinct experts if routing is uniform (weight_read_s_low: with one token's). kv_share: the
    cache's part of both. crossover_batch, crossover_context: the smallest at which reading the cache takes longer than
    the weights, the other one unchanged. read_s_likely, compute_s_likely: at the speeds likely reached; step_s_likely
    has the longer one. weight_fraction: of the bandwidth when reading these weights. compute_how, communication_how,
    overhead_how: formulas with numbers filled in.
    """

    batch: int
    context: int
    weight_bytes: Reads
    kv_bytes: int
    weight_read_s: float
    weight_read_s_low: float
    kv_read_s: float
    compute_s: float | None
    communication_s: float
    overhead_s: float
    step_s_low: float
    read_s_likely: float
    compute_s_likely: float | None
    step_s_likely: float
    kv_share: float
    crossover_batch: int | None
    crossover_context: int | None
    tokens_per_s: float
    weight_fraction: float
    achieved: Achieved
    compute_how: str
    communication_how: str
    overhead_how: str


def decode(request: Request, kv: KvFormat, batch: int) -> Decode | None:
    """The time of a step of `batch` sequences over all replicas; None if the weights are unknown.

    Raises: CannotSplit.
    """
    parallel, gpu = request.parallel, request.gpu
    replicas = parallel.dp * parallel.pp
    micro = -(-batch // replicas)
    weights_read = _weights_reader(request)
    if weights_read is None:
        return None
    weights = weights_read(micro)
    reads = _cache_reads(request.model, request, kv)
    kv_bytes = micro * sum(curve.bytes_at(request.context) for curve in reads)
    peak = gpu.bandwidth.value
    bits = _weight_bits(request.model)
    compute, compute_how = _compute_s(request, micro, bits)
    talking, communication_how = _communication_s(request, micro)
    reached = _reached(request, kv)
    overhead, overhead_how = _overhead_s(request, reached)
    fraction = reached.weights(bits)
    reading = weights.likely / (peak * fraction) + kv_bytes / (peak * reached.cache)
    computing = None if compute is None else compute / reached.compute
    likely = max(reading, computing or 0.0) + talking + overhead
    low = max((weights.low + kv_bytes) / peak, compute or 0.0)
    at_peak, cache_s = weights.likely / peak, kv_bytes / peak
    return Decode(
        batch=batch,
        context=request.context,
        weight_bytes=weights,
        kv_bytes=kv_bytes,
        weight_read_s=at_peak,
        weight_read_s_low=weights.low / peak,
        kv_read_s=cache_s,
        compute_s=compute,
        communication_s=talking,
        overhead_s=overhead,
        step_s_low=low,
        read_s_likely=reading,
        compute_s_likely=computing,
        step_s_likely=max(low, likely),
        kv_share=cache_s / (cache_s + at_peak) if cache_s + at_peak else 0.0,
        crossover_batch=_crossover_batch(request.context, weights_read, reads, replicas),
        crossover_context=_crossover_context(weights.likely, reads, micro),
        tokens_per_s=batch / max(low, likely),
        weight_fraction=fraction,
        achieved=reached,
        compute_how=compute_how,
        communication_how=communication_how,
        overhead_how=overhead_how,
    )


def _reached(request: Request, kv: KvFormat) -> Achieved:
    """The fractions for the GPU's class, or measured on such a GPU."""
    known, measured = achieved(request.gpu), request.calibration
    if measured is None or not measured.is_of(request.gpu):
        return known
    return measured.achieved(known, request.gpu.bandwidth.value, kv)


def _weights_reader(request: Request) -> Callable[[int], Reads] | None:
    """Bytes of weights that one tensor rank reads over all stages, as a function of the micro-batch.

    Weights given by hand are read whole by a dense model; with experts, in the same proportion as the known ones.
    """
    weights, given, parallel = request.model.weights, request.options.weights_per_gpu, request.parallel
    whole = 0 if given is None else given * parallel.pp
    given_whole = Reads(whole, whole, whole)
    if weights is None:
        return None if given is None else lambda _: given_whole
    reads = weights.reader(parallel)
    if given is None:
        return reads
    if not weights.exact:
        return lambda micro: Reads(min(reads(micro).low, whole), whole, whole)
    if weights.active == weights.total:
        return lambda _: given_whole
    known = sum(weights.bytes_on_rank(parallel, stage) for stage in range(parallel.pp))
    return lambda micro: Reads(*(part * whole // known for part in reads(micro)))


def _cache_reads(model: Model, request: Request, kv: KvFormat) -> tuple[Curve, ...]:
    """What one rank of each stage reads of one sequence's cache."""
    return tuple(model.reads(kv, request.parallel.shard, stage) for stage in model.stages(request.parallel))


def _crossover_batch(
    context: int, weights_read: Callable[[int], Reads], reads: tuple[Curve, ...], replicas: int
) -> int | None:
    """Smallest batch whose cache takes at least as long to read as the weights.

    Exact: bytes of weights read never shrink as the batch grows, so if batch b is too small, every batch below
    weights(b) / each is too.
    """
    each, micro = sum(curve.bytes_at(context) for curve in reads), 1
    while each and micro <= MOST:
        weights = weights_read(micro).likely
        if micro * each >= weights:
            return (micro - 1) * replicas + 1
        micro = -(-weights // each)
    return None


def _crossover_context(weights: int, reads: tuple[Curve, ...], micro: int) -> int | None:
    """Smallest context at which this batch's cache takes at least as long to read as the weights."""
    together = Curve(tuple(term for curve in reads for term in curve.terms))
    near = together.about(-(-weights // micro))
    return smallest(lambda tokens: micro * together.bytes_at(tokens) >= weights, LONGEST, near)


def _weight_bits(model: Model) -> int:
    """Bits per element of the matrices that make up most of the model."""
    if model.weights is None:
        return model.dtype.bits
    sizes: dict[int, int] = {}
    for layer, _ in model.weights.distinct:
        for weight in layer:
            sizes[weight.stored.bits] = sizes.get(weight.stored.bits, 0) + weight.parameters
    return max(sizes, key=lambda bits: sizes[bits], default=model.dtype.bits)


def _compute_s(request: Request, micro: int, bits: int) -> tuple[float | None, str]:
    """Time of one micro-batch's multiplications at the datasheet's rate, and its formula; None if either is unknown."""
    weights, rate = request.model.weights, _flop_per_s(request, bits)
    if weights is None or rate is None:
        return None, f"unknown without the {'weights' if weights is None else 'datasheet'}'s FLOP"
    looked_up = 0 if weights.tied else sum(each.parameters for each in weights.first if each.component == "embedding")
    attention = sum(count * _attention_flop(cache, request.context) for cache, count in request.model.distinct)
    per_token = 2 * (weights.active - looked_up) + attention
    formula = f"{micro:,} sequences x {per_token:,} FLOP / ({request.parallel.tp} x {rate:,} FLOP/s)"
    return micro * per_token / (request.parallel.tp * rate), formula


def _flop_per_s(request: Request, bits: int) -> int | None:
    """The datasheet's dense rate for 16-bit numbers, or its best when the weights have fewer bits."""
    rates = {name: fact.value for name, fact in request.gpu.flops}
    if bits < SIXTEEN_BIT:
        return max(rates.values(), default=None)
    return rates.get("bf16", rates.get("fp16"))


def _attention_flop(cache: Cache, tokens: int) -> int:
    """FLOP of one token's attention scores and sums, over the tokens that it reads.

    If no query heads are stated, there are at least as many as key heads.
    """
    if isinstance(cache, Attention):
        seen = min(tokens, cache.topk or tokens, tokens if cache.cap is None else cache.cap)
        return 2 * (cache.heads or cache.kv_heads) * (cache.k_dim + cache.v_dim) * seen
    if isinstance(cache, Latent):
        seen = min(tokens, cache.topk or tokens, cache.window or tokens)
        return 2 * (cache.heads or 1) * (2 * cache.rank + cache.rope_dim) * seen
    if isinstance(cache, Compressed):
        entries = 0 if cache.ratio is None else tokens // cache.ratio
        return 4 * cache.heads * cache.dim * (min(tokens, cache.window) + min(entries, cache.topk or entries))
    if isinstance(cache, CrossAttention):
        return 2 * cache.heads * (cache.k_dim + cache.v_dim) * cache.tokens
    return 0


def _communication_s(request: Request, micro: int) -> tuple[float, str]:
    """Time of two all-reduces per layer and of the hand-overs between stages, and its formula.

    A ring sends 2 (n - 1) / n of the message over each link; one direction has half of a link's bandwidth.
    """
    parallel, gpu, model = request.parallel, request.gpu, request.model
    message = micro * (HIDDEN.likely if model.hidden_size is None else model.hidden_size) * 2
    one_way = gpu.link.value / 2 if gpu.link is not None else None
    total, terms, link = 0.0, [], f" / {one_way:,.0f} B/s" if one_way else ""
    if parallel.tp > 1:
        moved = 2 * (parallel.tp - 1) / parallel.tp * message
        latency, wire = collective_s(gpu, parallel.tp), moved / one_way if one_way else 0.0
        total += 2 * len(model.layers) * (latency + wire)
        sent = f" + {moved:,.0f} B{link}" if link else ""
        terms.append(f"2 x {len(model.layers)} all-reduces x ({latency * 1e6:g} us{sent})")
    if parallel.pp > 1:
        latency, wire = collective_s(gpu, 2), message / one_way if one_way else 0.0
        total += (parallel.pp - 1) * (latency + wire)
        sent = f" + {message:,} B{link}" if link else ""
        terms.append(f"{parallel.pp - 1} x a hand-over between stages ({latency * 1e6:g} us{sent})")
    return total, " + ".join(terms) or "one rank sends nothing"


def _overhead_s(request: Request, reached: Achieved) -> tuple[float, str]:
    """Time of launches and gaps, which no bandwidth explains, and its formula."""
    model, split = request.model, request.parallel.tp > 1
    layers, routed = len(model.layers), _routed_layers(model)
    each = reached.layer_us + (2 * reached.slot_us if split else 0.0)
    formula = f"{reached.step_us:g} us a step + {layers} layers x {each:g} us"
    formula += f" + {routed} layers of experts x {reached.expert_us:g} us" if routed else ""
    return (reached.step_us + layers * each + routed * reached.expert_us) * 1e-6, formula


def _routed_layers(model: Model) -> int:
    """Number of layers that route tokens to experts."""
    if model.weights is None:
        return 0
    return sum(count for layer, count in model.weights.distinct if any(weight.routed for weight in layer))
