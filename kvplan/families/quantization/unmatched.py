"""Entries of a checkpoint's lists that name nothing an inventory has: modules that may be kept in more bits than counted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from kvplan.families.quantization.names import EXPERT, Names
from kvplan.families.quantization.rules import Quantization

Modules = Mapping[int | None, Iterable[tuple[str, ...]]]
"""The names that each module of a layer goes by; None for what stands outside the layers."""

ELSEWHERE = re.compile(
    r"vision|visual|image|img|video|audio|speech|tower|encoder|projector|projection|connector|aligner|resampler|qformer|merger"
    r"|mm_|mlp1|patch|norm|(?:^|[._])ln_|emb|wte|wpe|head|embed_out|score|classifier|router|gate(?![_a-z])|rotary|conv|mtp|nextn|eagle"
    r"|draft|eh_proj|talker|token2wav|code2wav|bias"
)
"""Words in names of what is in 16 bit whether or not it is listed: towers, ends, norms, routers and drafts."""

_CLASS = re.compile(r"[A-Z]\w*")
"""The name of a class, which engines don't look up here."""


def unmatched(found: Quantization, modules: Callable[[], Modules], stem: str) -> tuple[str, ...]:
    """Entries that except modules to more bits than the others have, and match none; each once.

    modules: asked for only where an entry is in doubt.
    """
    if found.linear is None:
        return ()
    lists = ((found.ignored, None), *found.named)
    doubtful = [
        (entry, names)
        for names, storage in lists
        if storage is None or storage.bits > found.linear.bits
        for entry in names.written
        if not _is_elsewhere(entry)
    ]
    if not doubtful:
        return ()
    known = modules()
    return tuple(dict.fromkeys(entry for entry, names in doubtful if not _matches(entry, names, known, stem)))


def _is_elsewhere(entry: str) -> bool:
    plain = entry.replace("\\", "").lower()
    return not plain or _CLASS.fullmatch(entry) is not None or ELSEWHERE.search(plain) is not None


def _matches(entry: str, names: Names, modules: Modules, stem: str) -> bool:
    listed = entry if entry.startswith("re:") else EXPERT.sub("experts.0.", entry)
    one = replace(Names.of((listed,)), contained=(listed,) if names.contained else ())
    if one.layered:  # of another layer than those that have it, or of a prediction layer behind the last
        within = next(iter(one.layered.values()))
        return within.whole or any(
            within.has(name) for layer in modules.values() for spelled in layer for name in spelled
        )
    numbered = one.tells_experts_apart(0)
    return any(
        one.match(each, layer, stem)
        for layer, spelled in modules.items()
        for spellings in spelled
        for each in (_numbered(spellings) if numbered else (spellings,))
    )


MOST_EXPERTS = 1024
"""More than any model has."""


def _numbered(spellings: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Names of experts with every number that one may have."""
    if not any("experts.0." in name for name in spellings):
        yield spellings
        return
    for number in range(MOST_EXPERTS):
        yield tuple(name.replace("experts.0.", f"experts.{number}.") for name in spellings)
