"""Engines' own flags, by their own names, and which option of a plan each one sets.

Values come from YAML (true, 8192, 0.9) or as words of a command line ("8192", "0.9"); both are read here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from kvplan import units
from kvplan.engines.base import Options
from kvplan.errors import BadSize, KvplanError, UnknownName, UsageError
from kvplan.units import parse_bytes, parse_some_bytes, parse_whole

_DECIMAL = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def human(value: object) -> int:
    """Integers as vLLM reads them: `8192`, `8k` = 8,000, `8K` = 8,192, `25.6k` = 25,600 (capitals are binary, without fractions).

    Source: vLLM 0.33 utils/argparse_utils.py human_readable_int.

    Raises: BadSize.
    """
    text = str(value).strip()
    suffix = text[-1:]
    try:
        if suffix in _DECIMAL:
            number = int(float(text[:-1]) * _DECIMAL[suffix])
        elif suffix in _BINARY:
            number = int(text[:-1]) * _BINARY[suffix]
        else:
            number = int(text)
    except (ValueError, OverflowError):
        raise BadSize(f"{text!r} is not a whole number", hint="vLLM reads 8192, 8k (8,000) and 8K (8,192)") from None
    if not 0 < number < 2**63:
        raise BadSize(f"{text!r} is not a whole number from 1")
    return number


def natural(value: object) -> int:
    """A whole number from 0.

    Raises: BadSize.
    """
    return parse_whole(str(value), least=0)


def whole(value: object) -> int:
    """A whole number from 1.

    Raises: BadSize.
    """
    return parse_whole(str(value))


def share(value: object) -> float:
    """A share of the memory; vLLM reads no per cent.

    Raises: BadSize.
    """
    try:
        return units.share(float(value) if isinstance(value, str) else value)
    except ValueError:
        return units.share(value)


def switch(value: object) -> bool:
    """True or false.

    Raises: UsageError.
    """
    known = {"true": True, "false": False, "1": True, "0": False}
    word = str(value).strip().lower()
    if word not in known:
        raise UsageError(f"{value!r} is neither true nor false", hint="write true or false")
    return known[word]


def _not(value: object) -> bool:
    return not switch(value)


def _rank(value: object) -> int:
    """A rank of adapters that some release of vLLM takes.

    Raises: BadSize.
    """
    from kvplan.engines.vllm.tables.flags import LORA_RANKS

    if str(value).strip() not in LORA_RANKS:
        raise BadSize(f"{value!r} is no rank that vLLM takes", hint=f"one of {', '.join(sorted(LORA_RANKS, key=int))}")
    return whole(value)


def _modules(value: object) -> tuple[str, ...]:
    """Names of modules, apart by commas or blanks."""
    return tuple(str(value).replace(",", " ").split())


def _size(value: object) -> int:
    return parse_some_bytes(str(value))


def _size_or_none(value: object) -> int:
    return parse_bytes(str(value))


@dataclass(frozen=True, slots=True)
class Flag:
    """Which field of Options a flag sets, and how its value is read."""

    option: str
    read: Callable[[object], Any]


COMMON: Mapping[str, Flag] = {
    "utilization": Flag("utilization", share),
    "kv_memory": Flag("kv_memory", _size),
    "weights": Flag("weights_per_gpu", _size),
    "overhead": Flag("overhead", _size_or_none),
}
"""kvplan's own names, for every engine."""

VLLM: Mapping[str, Flag] = {
    "gpu_memory_utilization": Flag("utilization", share),
    "kv_cache_memory_bytes": Flag("kv_memory", human),
    "block_size": Flag("block_size", whole),
    "max_num_batched_tokens": Flag("max_num_batched_tokens", human),
    "max_num_seqs": Flag("max_num_seqs", whole),
    "enable_prefix_caching": Flag("prefix_caching", switch),
    "enforce_eager": Flag("graphs", _not),
    "async_scheduling": Flag("async_scheduling", switch),
    "disable_hybrid_kv_cache_manager": Flag("hybrid_manager", _not),
    "num_speculative_tokens": Flag("speculative_tokens", natural),
    "enable_lora": Flag("max_loras", switch),
    "max_loras": Flag("max_loras", whole),
    "max_lora_rank": Flag("max_lora_rank", _rank),
    "lora_target_modules": Flag("lora_targets", _modules),
}

ADAPTERS, RESIDENT = "enable_lora", "max_loras"
"""The switch without which vLLM has no adapters, whatever else is said of them, and how many there then are, one by default."""
OF_ADAPTERS = (RESIDENT, "max_lora_rank", "lora_target_modules")

ENGINES: Mapping[str, Mapping[str, Flag]] = {"vllm": VLLM, "ideal": {}}
"""Engines whose flags are known; another engine takes the common names."""

ELSEWHERE = {
    "max_model_len": "context", "tensor_parallel_size": "parallel: {tp: N}", "pipeline_parallel_size": "parallel: {pp: N}",
    "data_parallel_size": "parallel: {dp: N}", "enable_expert_parallel": "parallel: {ep: N}", "model": "model",
    "decode_context_parallel_size": "parallel: {dcp: N}", "kv_cache_dtype": "kv_dtype", "revision": "revision",
}  # fmt: skip
"""Flags that a budget says in another place, so that there is one."""


def engine_name(engine: str) -> str:
    """`vllm` of `vllm@0.19`."""
    return engine.partition("@")[0].strip().lower()


def read_flag(engine: str, name: str, value: object) -> tuple[str, Any]:
    """The field of Options that a flag of an engine sets, and what it sets it to.

    Raises: UnknownName for a flag the engine doesn't have; BadSize or UsageError naming the flag.
    """
    known = known_flags(engine)
    flag = known.get(name.replace("-", "_"))
    if flag is None:
        raise _unknown(name, engine, known)
    try:
        return flag.option, flag.read(value)
    except KvplanError as error:
        raise error.about(f"flags.{name}") from None


def known_flags(engine: str) -> Mapping[str, Flag]:
    """Flags of an engine, kvplan's own included."""
    return {**COMMON, **ENGINES.get(engine_name(engine), {})}


def _unknown(name: str, engine: str, known: Mapping[str, Flag]) -> UnknownName:
    from difflib import get_close_matches

    plain = name.replace("-", "_")
    if plain in ELSEWHERE:
        return UnknownName(f"flags.{name} has a key of its own", hint=f"write {ELSEWHERE[plain]}")
    near = get_close_matches(plain, known, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}? " if near else ""
    return UnknownName(
        f"{engine_name(engine)} has no flag {name} that kvplan counts", hint=hint + "known: " + ", ".join(known)
    )


def changed_options(options: Options) -> dict[str, str]:
    """Options that differ from their defaults, as text."""
    plain = Options()
    return {
        field.name: str(getattr(options, field.name))
        for field in fields(options)
        if getattr(options, field.name) != getattr(plain, field.name)
    }
