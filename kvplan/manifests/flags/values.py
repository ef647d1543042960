"""Values of vLLM's flags. They come from YAML (true, 8192, 0.9) or as words of a command line ("8192", "0.9"); both are read here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kvplan import units
from kvplan.errors import BadSize, UsageError
from kvplan.manifests.keys import ENDLESS, EVERY_RANK
from kvplan.units import parse_whole

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


def off(value: object) -> bool:
    """The other way round, for a flag that turns something off.

    Raises: UsageError.
    """
    return not switch(value)


def rank(value: object) -> int:
    """A rank of adapters that some release of vLLM takes.

    Raises: BadSize.
    """
    from kvplan.engines.vllm.tables.flags import LORA_RANKS

    if str(value).strip() not in LORA_RANKS:
        raise BadSize(f"{value!r} is no rank that vLLM takes", hint=f"one of {', '.join(sorted(LORA_RANKS, key=int))}")
    return whole(value)


def modules(value: object) -> tuple[str, ...]:
    """Names of modules, apart by commas or blanks."""
    return tuple(str(value).replace(",", " ").split())


def text(value: object) -> str:
    """As it stands."""
    return str(value)


def stated(value: object) -> str | None:
    """A word about the checkpoint; None where vLLM is to see for itself."""
    return None if value is True or value in ("auto", "None") else str(value)


def length(value: object) -> int:
    """Tokens of a sequence; ENDLESS where vLLM is to choose.

    Raises: BadSize.
    """
    return ENDLESS if str(value).strip().lower() in {"auto", "-1"} else human(value)


def every_rank(value: object) -> int:
    """A switch that deals something over every rank, or over none.

    Raises: UsageError.
    """
    return EVERY_RANK if switch(value) else 1


def tree(value: object) -> Any:
    """What JSON says, given as text or already taken apart; None for anything else."""
    if not isinstance(value, str):
        return value if isinstance(value, dict) else None
    try:
        return json.loads(value)
    except ValueError:
        return None


def limits(value: object) -> Mapping[str, object]:
    """Limits of media by name: JSON, `image=1,video=0` as it once was written, or already taken apart.

    Raises: UsageError for JSON of anything but names.
    """
    said = tree(value)
    if isinstance(said, dict):
        return {name: each.get("count") if isinstance(each, dict) else each for name, each in said.items()}
    if said is not None:
        raise UsageError(f"{str(value)[:100]} limits nothing by name", hint='write it like {"image": 1}')
    pairs = (each.partition("=") for each in str(value).split(","))
    return {name.strip(): int(count) if count.strip().isdigit() else count for name, _, count in pairs}


def without_media(value: object) -> tuple[str, ...]:
    """Names of media that requests may hold none of.

    Raises: UsageError.
    """
    return tuple(sorted(name for name, count in limits(value).items() if _is_zero(count)))


def leaves_media(value: object) -> bool:
    """Whether a limit is of more than none; no for what is refused."""
    try:
        return not all(map(_is_zero, limits(value).values()))
    except UsageError:
        return False


def _is_zero(count: object) -> bool:
    return count == 0 and not isinstance(count, bool)


def without_graphs(value: object) -> str | None:
    """`true` for a compilation configuration without CUDA graphs, as level 0 once was; None for one that leaves them on."""
    if value == "0":
        return "true"
    said = tree(value)
    mode = str(said.get("cudagraph_mode", "")).upper() if isinstance(said, dict) else ""
    return "true" if mode == "NONE" else None


def unoptimized(value: object) -> str | None:
    """`true` for the level of optimization that has no CUDA graphs."""
    return "true" if value == "0" else None


def sizes_graphs(value: object) -> bool:
    """Whether a compilation configuration says itself for which batches CUDA graphs are captured."""
    said = tree(value)
    return isinstance(said, dict) and any("capture_size" in key and said[key] is not None for key in said)


def doubled(value: object) -> bool:
    """Whether a performance mode doubles the defaults of a step. Source: vLLM 0.33 engine/arg_utils.py."""
    return value == "throughput"


def adds_experts(value: object) -> bool:
    """Whether a configuration of expert load balancing copies experts."""
    said = tree(value)
    return not isinstance(said, dict) or said.get("num_redundant_experts", 0) != 0


def unknown_alone(value: object) -> bool:
    """Of a flag that is counted wherever its value is known: no known value goes uncounted."""
    del value
    return False


def kernels(value: object) -> str | None:
    """The name of attention kernels; None for `auto`, which says nothing.

    Source: vLLM 0.33 config/attention.py validate_backend_before.
    """
    name = str(value).strip().upper()
    return None if name in ("", "AUTO", "NONE") else name


def special_kernels(value: object) -> bool:
    """Whether an attention backend was picked among those that differ in the blocks they take: those of latents, and one of AITER's."""
    return any(part in str(value).upper() for part in ("MLA", "UNIFIED"))
