"""Remarks on a plan, printed whatever its answer."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.arch.model import DESCRIBED
from kvplan.plan.fit import Plan, by_end
from kvplan.plan.request import Request
from kvplan.plan.shapes import one_row
from kvplan.text import all_of, plural
from kvplan.units import format_bytes


def warnings(plan: Plan, engine: str | None, *, unlocked: bool = False) -> tuple[str, ...]:
    """What a reader should know about the request, whatever the answer.

    engine: as asked for. unlocked: whether the engine was told to serve more than the model's own maximum.
    """
    request, kv = plan.request, plan.kv
    found = []
    note = _note(engine)
    if note is not None:
        found.append(f"{note}.")
    found += plan.started.cautions()
    found += _too_long(plan, unlocked=unlocked)
    found += _unstated(request)
    found += _slices(request)
    found += _over_nodes(request)
    found += one_row(request.model, kv)
    if request.options.speculative_tokens:
        found.append("Speculative decoding isn't timed: a step's time is for one token per sequence.")
    if kv.k.bits <= 4:
        found.append(
            f"{kv.k.name} keys: below 8 bits long-context recall degrades, and keys, with their outlier channels, are "
            "in most measurements the more sensitive side."
        )
    if kv.k.name in {"fp8", "fp8_e5m2"} and request.gpu.fp8_kv_native is False:
        found.append(f"{request.gpu.id} converts fp8 in software: half the bytes, not twice the speed.")
    if request.gpu.unified and request.gpu.host_share is not None:
        kept = format_bytes(request.gpu.host_share.value)
        found.append(
            f"{request.gpu.id} shares its memory with the host, which was seen to keep {kept}: see --gpu-memory."
        )
    return tuple(found)


def _too_long(plan: Plan, *, unlocked: bool) -> tuple[str, ...]:
    """The remark on a length beyond the model's own maximum."""
    excess, words = plan.started.excess, plan.request.engine.words
    if excess is None:
        return ()
    refused = ""
    if excess.said is not None:
        refused = f": {excess.said}"
    elif excess.unlock is not None and not unlocked:
        refused = f": {words.title} refuses such a {words.length} without {excess.unlock}=1"
    return (f"{plan.request.context:,} tokens are more than the model's own maximum of {excess.longest:,}{refused}.",)


def _slices(request: Request) -> tuple[str, ...]:
    """The remark on several ranks on MIG slices. Source: NVIDIA/nccl#1716, NVIDIA's MIG guide."""
    gpu, parallel = request.gpu, request.parallel
    if gpu.mig_of is None or parallel.tp * parallel.pp * parallel.ep == 1:
        return ()
    told = "NCCL joins slices of one GPU only with NCCL_MULTI_RANK_GPU_ENABLE=1, which is experimental"
    far = "slices of different GPUs reach each other through the host"
    return (f"{parallel.gpus} ranks on slices of {gpu.mig_of}: a process sees one slice, {told}; {far}.",)


def _over_nodes(request: Request) -> tuple[str, ...]:
    """That tensor ranks reach further than the link whose speed is counted with."""
    gpu, ranks = request.gpu, request.parallel.tp
    if gpu.link_domain is None or ranks <= gpu.link_domain.value:
        return ()
    joined = f"the {gpu.link_domain.value:,} GPUs that {gpu.link_name or 'their link'} joins"
    counted = "a step's communication is counted as if the link did, and takes longer"
    return (f"{ranks:,} tensor ranks are more than {joined}. What joins the nodes isn't known: {counted}.",)


def _unstated(request: Request) -> Iterator[str]:
    """Remarks on fields that would narrow wide ranges, or replace guesses, if they were stated."""
    model, options = request.model, request.options
    where = "its description" if model.family == DESCRIBED else "a description of it (docs/model-files.md)"
    names = request.engine.unstated(model)
    if names and options.overhead is None and options.kv_memory is None:
        yield (
            f"{model.origin.id} states no {all_of(names)}: activations may be anything that published models take. "
            f"Add what is missing to {where}, or give --overhead."
        )
    if model.hidden_size is None and request.parallel.tp > 1:
        yield f"{model.origin.id} states no hidden_size: the size of messages between ranks is a guess. Add it to {where}."


def timed(plan: Plan) -> tuple[str, ...]:
    """The remark on a timed step with more sequences than are admitted at once."""
    batch = plan.request.batch
    if batch is None or plan.decode is None or batch <= plan.max_sequences:
        return ()
    return (f"The step timed has {batch:,} sequences, of which {plan.max_sequences:,} are admitted at once.",)


def likely(plan: Plan) -> tuple[str, ...]:
    """The remark on a plan that fits by the likely end and not by the safe one."""
    if plan.fits or plan.request.end != "safe":
        return ()
    found = by_end(plan, "likely")
    if not found.fits:
        return ()
    held = f"{plural(found.max_sequences, 'sequence')} at once"
    return (
        f"By the likely values it fits, with {held} (--likely); this answer counts uncertain amounts at their most.",
    )


def length(request: Request) -> tuple[str, ...]:
    """The remark on a default length that isn't the model's maximum."""
    own, used = request.model.context.tokens, request.engine.default_context(request.model)
    if used.tokens == own:
        return ()
    beside = "" if own is None else f", not the model's own maximum of {own:,}"
    return (f"Without --ctx {request.engine.name} serves {request.context:,} tokens{beside} ({used.reason}).",)


def _note(engine: str | None) -> str | None:
    """The registry's note on the version asked for."""
    if engine is None or "@" not in engine:
        return None
    from kvplan.engines.registry import find

    return find(engine).note
