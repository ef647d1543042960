"""What about a request deserves a word, whatever the answer."""

from __future__ import annotations

from kvplan.plan.request import Request
from kvplan.units import format_bytes

ALL_OF_IT = 0.99
"""gpu_memory_utilization that leaves less than contexts take. Source: vLLM 0.33 v1/worker/utils.py request_memory."""


def warnings(request: Request, engine: str | None) -> tuple[str, ...]:
    """What about a request deserves a word, whatever the answer. engine: as it was asked for."""
    found, kv = [], request.kv_format
    note = _note(engine)
    if note is not None:
        found.append(f"{note}.")
    found += _cautions(request)
    found += _too_long(request)
    if request.engine.name == "vllm" and (request.options.utilization or 0) >= ALL_OF_IT:
        found.append(
            f"gpu_memory_utilization {request.options.utilization:g}: vLLM doesn't start when less is free than it asks "
            "for, and a process's own context takes some first."
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


def _too_long(request: Request) -> tuple[str, ...]:
    """What a length beyond the model's own maximum means."""
    own = request.exceeded
    if own is None:
        return ()
    refused = ""
    if request.past_table:
        refused = ": its positions are looked up in a table that ends there, so nothing serves them"
    elif request.engine.name == "vllm":
        refused = ": vLLM refuses such a max_model_len without VLLM_ALLOW_LONG_MAX_MODEL_LEN=1"
    return (f"{request.context:,} tokens are more than the model's own maximum of {own:,}{refused}.",)


def length(request: Request) -> tuple[str, ...]:
    """What the engine's own default length is, where it isn't the model's maximum."""
    own, used = request.model.context.tokens, request.engine.default_context(request.model)
    if used.tokens == own:
        return ()
    beside = "" if own is None else f", not the model's own maximum of {own:,}"
    return (f"Without --ctx {request.engine.name} serves {request.context:,} tokens{beside} ({used.reason}).",)


def _cautions(request: Request) -> tuple[str, ...]:
    """Whether the engine serves the plan in a roundabout way, or perhaps not at all."""
    if request.engine.name != "vllm":
        return ()
    from kvplan.engines.vllm.policy import Vllm

    if not isinstance(request.engine, Vllm):
        return ()
    return request.engine.cautions(request.model, request.gpu, request.parallel, request.options, request.context)


def _note(engine: str | None) -> str | None:
    """What the register says about the version asked for."""
    if engine is None or "@" not in engine:
        return None
    from kvplan.engines.registry import find

    return find(engine).note
