"""Rows of plans that vLLM's own allocator made, asked of kvplan the same way."""

from __future__ import annotations

import re
from typing import Any

from kvplan.arch.formats import parse_kv_format
from kvplan.arch.model import Model
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Options, Refusal, Setup
from kvplan.engines.vllm.blocks import allocate
from kvplan.engines.vllm.policy import Vllm
from kvplan.errors import KvplanError
from kvplan.hardware.gpu import Fact, Gpu
from kvplan.sources.gpus import load_gpu


def gpu(name: str, memory: int, capability: tuple[int, int]) -> Gpu:
    """A GPU with what vLLM's plans depend on."""
    unknown = Fact(1, "given", ("test",))
    return Gpu(
        name,
        f"NVIDIA {name}",
        "nvidia",
        "",
        Fact(memory, "measured", ("test",)),
        unknown,
        compute_capability=capability,
    )


GPUS = {
    "h100": gpu("h100", 85_029_158_912, (9, 0)),
    "h200": gpu("h200", 150_109_880_320, (9, 0)),
    "a100": gpu("a100", 85_095_874_560, (8, 0)),
    "a100-40": gpu("a100-40", 42_298_834_944, (8, 0)),
    "b200": gpu("b200", 191_503_335_424, (10, 0)),
    "b300": gpu("b300", 287_000_000_000, (10, 3)),
    "l40s": gpu("l40s", 47_697_362_944, (8, 9)),
    "l4": gpu("l4", 23_574_806_528, (8, 9)),
    "4090": gpu("4090", 25_249_054_720, (8, 9)),
    "5090": gpu("5090", 33_661_911_040, (12, 0)),
    "t4": gpu("t4", 15_828_320_256, (7, 5)),
    **{name: load_gpu(name) for name in ("mi250x", "mi300x", "mi355x", "rx-7900-xtx")},
}


def options(flags: dict[str, Any]) -> Options:
    """vLLM's flags as a row spells them."""
    return Options(
        prefix_caching=False if flags.get("no_prefix_caching") else None,
        async_scheduling=not flags.get("no_async"),
        hybrid_manager=not flags.get("disable_hybrid"),
        max_num_batched_tokens=flags.get("max_num_batched_tokens"),
        max_num_seqs=flags.get("max_num_seqs"),
        block_size=flags.get("block_size"),
        speculative_tokens=(flags.get("spec") or {}).get("num_speculative_tokens", 0),
        aiter=flags.get("aiter", False),
    )


def answer(model: Model, row: dict[str, Any]) -> allocate.Pool | Refusal | KvplanError:
    """What kvplan says of a row's question."""
    error = row.get("error", "")
    stated = re.search(r"max seq len \((\d+)\)", error)
    length = row.get("max_model_len") or (int(stated[1]) if stated else model.context.tokens or 2048)
    card = GPUS[row["gpu"]]
    asked = None if row["kv_cache_dtype"] == "auto" else parse_kv_format(row["kv_cache_dtype"])
    engine = Vllm()
    try:
        kv = engine.kv_format(model, asked, card)
        parallel = Parallel(tp=row["tp"], pp=row["pp"], dcp=row["flags"].get("dcp", 1))
        made = engine.start(Setup(model, card, parallel, kv, options(row["flags"]), length)).made
    except KvplanError as refused:
        return refused
    return allocate.pool(made, row["available_bytes"])


def difference(model: Model, row: dict[str, Any]) -> str | None:
    """How kvplan's answer differs from vLLM's; None when it doesn't."""
    got, error = answer(model, row), row.get("error", "")
    if error and "KV cache is needed" not in error:
        return None if isinstance(got, KvplanError) else f"vLLM refuses: {error}"
    if isinstance(got, KvplanError):
        return f"refused: {got} {got.problem.cause}"
    if isinstance(got, Refusal):
        return _refusal_differs(got, error)
    if error:
        return f"vLLM refuses: {error}"
    ours = (got.blocks, got.tokens, round(got.concurrency, 9))
    theirs = (row["num_blocks"], row["kv_tokens"], round(row["max_concurrency"], 9))
    return None if ours == theirs else f"{ours} is not {theirs}"


def _refusal_differs(got: Refusal, error: str) -> str | None:
    if not error:
        return f"refused: {got.message}"
    said = error.removeprefix("ValueError: ")  # some rows keep only how it begins
    return None if got.message.startswith(said) else f"{got.message} is not {said}"
