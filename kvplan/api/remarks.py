"""Remarks about a request that are printed whatever the answer."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.arch.model import DESCRIBED
from kvplan.plan.fit import Plan, by_end
from kvplan.plan.request import Request
from kvplan.plan.shapes import one_row
from kvplan.text import all_of, plural
from kvplan.units import format_bytes


def warnings(plan: Plan, engine: str | None, *, unlocked: bool = False) -> tuple[str, ...]:
    """What about a request deserves a word, whatever the answer.

    engine: as it was asked for. unlocked: whether the engine was told to serve more than the model's own maximum.
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
        found.append(
            "Drafting and checking what was drafted isn't timed: a step's time is that of one token a sequence."
        )
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
    """What a length beyond the model's own maximum means."""
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
    """What ranks on MIG slices are up against. Source: NVIDIA/nccl#1716, NVIDIA's MIG guide."""
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
    """Which fields would narrow what is wide, or stands on a guess, because nobody states them."""
    model, options = request.model, request.options
    where = "its description" if model.family == DESCRIBED else "a description of it (docs/model-files.md)"
    names = request.engine.unstated(model)
    if names and options.overhead is None and options.kv_memory is None:
        yield (
            f"{model.origin.id} states no {all_of(names)}: activations may be anything that published models take. "
            f"Add what is missing to {where}, or give --overhead."
        )
    if model.hidden_size is None and request.parallel.tp > 1:
        yield f"{model.origin.id} states no hidden_size: what ranks tell each other is a guess. Add it to {where}."


def timed(plan: Plan) -> tuple[str, ...]:
    """That the step timed is of more sequences than are admitted at once."""
    batch = plan.request.batch
    if batch is None or plan.decode is None or batch <= plan.max_sequences:
        return ()
    return (f"The step timed has {batch:,} sequences, of which {plan.max_sequences:,} are admitted at once.",)


def likely(plan: Plan) -> tuple[str, ...]:
    """That it fits by what is likely, where only the safe end of what isn't known says no."""
    if plan.fits or plan.request.end != "safe":
        return ()
    found = by_end(plan, "likely")
    if not found.fits:
        return ()
    held = f"{plural(found.max_sequences, 'sequence')} at once"
    return (f"By what is likely it fits, with {held} (--likely): what isn't known is counted here at its most.",)


def length(request: Request) -> tuple[str, ...]:
    """What the engine's own default length is, where it isn't the model's maximum."""
    own, used = request.model.context.tokens, request.engine.default_context(request.model)
    if used.tokens == own:
        return ()
    beside = "" if own is None else f", not the model's own maximum of {own:,}"
    return (f"Without --ctx {request.engine.name} serves {request.context:,} tokens{beside} ({used.reason}).",)


def _note(engine: str | None) -> str | None:
    """What the register says about the version asked for."""
    if engine is None or "@" not in engine:
        return None
    from kvplan.engines.registry import find

    return find(engine).note
