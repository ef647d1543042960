"""Flags of a budget: engines' own by their own names, and kvplan's, and which option of a plan each one sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from kvplan.engines.base import Options
from kvplan.engines.registry import Spec, flags_of
from kvplan.errors import KvplanError, UnknownName
from kvplan.manifests.flags.counted import MEANINGS
from kvplan.manifests.flags.meaning import FlagMeaning
from kvplan.manifests.flags.values import share, switch
from kvplan.manifests.keys import AITER, RUNNER
from kvplan.manifests.places import Key
from kvplan.text import meant
from kvplan.units import parse_bytes, parse_some_bytes


def _size(value: object) -> int:
    return parse_some_bytes(str(value))


def _size_or_none(value: object) -> int:
    return parse_bytes(str(value))


COMMON: Mapping[str, FlagMeaning] = {
    "utilization": FlagMeaning(read=share, option="utilization"),
    "kv_memory": FlagMeaning(read=_size, option="kv_memory"),
    "weights": FlagMeaning(read=_size, option="weights_per_gpu"),
    "overhead": FlagMeaning(read=_size_or_none, option="overhead"),
    "max_num_seqs": MEANINGS["max-num-seqs"],
}
"""Flags of every engine, the formula included: kvplan's own names, and sequences that run at once at most."""

VLLM: Mapping[str, FlagMeaning] = {
    **{name.replace("-", "_"): meaning for name, meaning in MEANINGS.items() if meaning.option is not None},
    RUNNER: FlagMeaning(read=switch, option="second_runner"),
    AITER: FlagMeaning(read=switch, option="aiter"),
}

_OWN: Mapping[str | None, Mapping[str, FlagMeaning]] = {"vllm": VLLM}
"""Tables of engines' own flags, by the keys that the register has for them."""

ADAPTERS, RESIDENT = "enable_lora", "max_loras"
"""The switch without which vLLM has no adapters, whatever else is said of them, and how many there then are, one by default."""
OF_ADAPTERS = (RESIDENT, "max_lora_rank", "lora_target_modules")

ELSEWHERE: Mapping[str, Key] = {
    name.replace("-", "_"): meaning.key
    for name, meaning in MEANINGS.items()
    if meaning.key is not None and meaning.key[0] != "flags"
}
"""Flags that a budget says by a key of its own, so that there is one place."""


def read_flag(engine: str, name: str, value: object) -> tuple[str, Any]:
    """The field of Options that a flag of an engine sets, and what it sets it to.

    Raises: UnknownName for a flag the engine doesn't have; BadSize or UsageError naming the flag.
    """
    known = known_flags(engine)
    flag = known.get(name.replace("-", "_"))
    if flag is None or flag.option is None:
        raise _unknown(name, engine, known)
    try:
        return flag.option, flag.read(value)
    except KvplanError as error:
        raise error.about(f"flags.{name}") from None


def own_flags(engine: str) -> Mapping[str, FlagMeaning]:
    """Flags of an engine by its own names; none where kvplan knows only its rules."""
    return _OWN.get(flags_of(engine), {})


def takes_commands(engine: str) -> bool:
    """Whether an engine is started by the serve commands that manifests hold, so that their flags are its own."""
    return own_flags(engine) is VLLM


def release_of(engine: str) -> str | None:
    """`0.19` of `vllm@0.19`; None where no release is named, and for an engine that serve commands don't start."""
    return Spec.parse(engine).version or None if takes_commands(engine) else None


def known_flags(engine: str) -> Mapping[str, FlagMeaning]:
    """Flags of an engine, kvplan's own included."""
    return {**COMMON, **own_flags(engine)}


def _unknown(name: str, engine: str, known: Mapping[str, FlagMeaning]) -> UnknownName:
    plain = name.replace("-", "_")
    if plain in ELSEWHERE:
        first, *inner = ELSEWHERE[plain]
        return UnknownName(
            f"flags.{name} has a key of its own", hint=f"write {first}" + (f": {{{inner[0]}: N}}" if inner else "")
        )
    return UnknownName(
        f"{Spec.parse(engine).name} has no flag {name} that kvplan counts",
        hint=meant(plain, known, after=" ") + "known: " + ", ".join(known),
    )


def changed_options(options: Options) -> dict[str, str]:
    """Options that differ from their defaults, as text."""
    plain = Options()
    return {
        field.name: str(getattr(options, field.name))
        for field in fields(options)
        if getattr(options, field.name) != getattr(plain, field.name)
    }
