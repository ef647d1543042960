"""Lists of module names as checkpoints write them, and the names that a module goes by."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase, translate

LAYERS = "layers"
"""What stands before a layer's number, once wrappers are taken off."""


@dataclass(frozen=True, slots=True)
class Names:
    """A list of module names as checkpoints write them: literal, with `*`, or `re:` and a regular expression.

    A literal names a module, everything inside it, or a step of the path that occurs anywhere. Entries that name one
    layer are kept by its number, so that layers with the same exceptions are told apart once. contained: entries that a
    name needs only to contain.
    """

    literal: frozenset[str]
    patterns: tuple[re.Pattern[str], ...]
    layered: Mapping[int, tuple[str, ...]]
    contained: tuple[str, ...] = ()

    @classmethod
    def of(cls, entries: Iterable[object]) -> Names:
        """From the entries of a config; what can't be a regular expression is ignored."""
        literal: set[str] = set()
        patterns: list[re.Pattern[str]] = []
        layered: dict[int, list[str]] = {}
        for entry in entries:
            if not isinstance(entry, str):
                continue
            try:
                if entry.startswith("re:"):
                    patterns.append(re.compile(entry[3:]))
                    continue
                name = bare(entry)
                one = _ONE_LAYER.fullmatch(name)
                if one is not None:
                    layered.setdefault(int(one[1]), []).append(one[2] or "")
                elif "*" in name:
                    patterns.append(re.compile(translate(name)))
                else:
                    literal.add(name)
            except re.error:
                continue
        return cls(frozenset(literal), tuple(patterns), {layer: tuple(names) for layer, names in layered.items()})

    @classmethod
    def containing(cls, entries: Iterable[object]) -> Names:
        """The same from entries that also name every module whose name contains them, as AWQ's do: "gate" is in "gate_proj".

        Source: AutoAWQ quantize/quantizer.py exclude_layers_to_not_quantize; vLLM 0.33 quantization/auto_awq.py, whose
        experts have the name of them all together.
        """
        listed = tuple(entry for entry in entries if isinstance(entry, str) and entry)
        return replace(cls.of(listed), contained=listed)

    def match(self, spellings: tuple[str, ...], layer: int | None, stem: str = LAYERS) -> bool:
        """Whether any spelling of a module's name is on the list.

        layer: the module's, None outside the layers. stem: what this family writes before a layer's number.
        """
        own = self.layered.get(layer, ()) if layer is not None else ()
        stems = (LAYERS, stem) if stem != LAYERS else (LAYERS,)
        starts = ("",) if layer is None else tuple(f"{each}.{layer}." for each in stems)
        for name in spellings:
            if self.literal and any(part in self.literal for part in _paths(name)):
                return True
            if any(_inside(name, entry) for entry in own):
                return True
            if any(self._on_list(start + name) for start in starts):
                return True
        return False

    def _on_list(self, full: str) -> bool:
        """Whether a whole name contains an entry, or is what a pattern describes."""
        if self.contained and any(entry in f"model.{_together(full)}" for entry in self.contained):
            return True
        return any(pattern.match(full) or pattern.match(f"model.{full}") for pattern in self.patterns)

    def names(self, spellings: tuple[str, ...]) -> bool:
        """Whether a literal entry, and no mere pattern, is the module's name."""
        return any(name in self.literal for name in spellings)

    def of_layer(self, layer: int) -> object:
        """What sets a layer apart on this list; equal for layers that it treats alike."""
        numbered = any(
            re.search(r"\d", each) for each in (*self.contained, *(pattern.pattern for pattern in self.patterns))
        )
        return self.layered.get(layer, ()), layer if numbered else None


def _together(name: str) -> str:
    """The name of all experts for one of them."""
    return _EXPERT.sub("experts", name)


_EXPERT = re.compile(r"\bexperts\.\d+\..*")


def _inside(name: str, entry: str) -> bool:
    """Whether a module within a layer is what the entry names, or stands inside it."""
    if "*" in entry:
        return fnmatchcase(name, entry)
    return not entry or name == entry or name.startswith(f"{entry}.")


_ONE_LAYER = re.compile(r"(?:layers|h|blocks)\.(\d+)(?:\.(.*)|)")
_PREFIX = re.compile(
    r"^(?:(?:model|language_model|text_model|backbone|transformer\.encoder|transformer|gpt_neox|llm|decoder)\.)+(?=.)"
)


def bare(name: str) -> str:
    """A module's name without the wrappers it stands in: `model.language_model.layers.3.mlp` is `layers.3.mlp`."""
    return _PREFIX.sub("", name)


def _paths(name: str) -> list[str]:
    """Every run of steps of a dotted name."""
    steps = name.split(".")
    return [".".join(steps[i:j]) for i in range(len(steps)) for j in range(i + 1, len(steps) + 1)]


GATED = "gate_up_proj"
ALIASES: dict[str, tuple[str, ...]] = {
    "q_proj": ("qkv_proj",), "k_proj": ("qkv_proj",), "v_proj": ("qkv_proj",),
    "gate_proj": ("gate_up_proj", "w1"), "up_proj": ("gate_up_proj", "w3"), "down_proj": ("w2",),
}  # fmt: skip
"""Other names of a projection: joined with its neighbours, or by number."""
