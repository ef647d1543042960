"""Lists of module names as checkpoints write them, and the names that a module goes by."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase, translate

LAYERS = "layers"
"""What stands before a layer's number, once wrappers are taken off."""


@dataclass(frozen=True, slots=True)
class Names:
    """A list of module names as checkpoints write them: literal, with `*`, or `re:` and a regular expression.

    A literal names a module, everything inside it, or a step of the path that occurs anywhere. Entries that name one
    layer are kept by its number, so that layers with the same exceptions are told apart once. contained: entries that a
    name needs only to contain. written: all of them as they stand in the config.
    """

    literal: frozenset[str]
    patterns: tuple[re.Pattern[str], ...]
    layered: Mapping[int, Within]
    contained: tuple[str, ...] = ()
    written: tuple[str, ...] = ()

    @classmethod
    def of(cls, entries: Iterable[object]) -> Names:
        """From the entries of a config; what can't be a regular expression is ignored."""
        literal: set[str] = set()
        patterns: list[re.Pattern[str]] = []
        layered: dict[int, list[str]] = {}
        written = tuple(entry for entry in entries if isinstance(entry, str))
        for entry in written:
            try:
                if entry.startswith("re:"):
                    patterns.append(re.compile(_unwrapped(entry[3:])))
                    continue
                name = bare(entry)
                one = _ONE_LAYER.fullmatch(name)
                if one is not None:
                    layered.setdefault(int(one[1]), []).append(one[2] or "")
                elif "*" in name:
                    patterns += (re.compile(translate(name)), re.compile(translate(f"{name}.*")))
                else:
                    literal.add(name)
            except re.error:
                continue
        by_layer = {layer: Within.of(names) for layer, names in layered.items()}
        return cls(frozenset(literal), tuple(patterns), by_layer, written=written)

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
        own = (self.layered.get(layer, NOTHING),) if layer is not None else self._shared
        stems = (LAYERS, stem) if stem != LAYERS else (LAYERS,)
        starts = ("",) if layer is None else tuple(f"{each}.{layer}." for each in stems)
        for name in spellings:
            if self.literal and any(part in self.literal for part in _paths(name)):
                return True
            if any(entries.has(name) for entries in own):
                return True
            if any(self._on_list(start + name) for start in starts):
                return True
        return False

    @property
    def _shared(self) -> tuple[Within, ...]:
        """Entries of any layer, which also name what layers share and one of them is written to hold."""
        return tuple(replace(entries, whole=False) for entries in self.layered.values())

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
        return self.layered.get(layer, NOTHING), layer if numbered else None

    def tells_experts_apart(self, layer: int) -> bool:
        """Whether an entry that may be about the layer has the number of an expert."""
        entries = self.layered.get(layer, NOTHING)
        return any(
            _NUMBERED.search(each)
            for each in (*self.literal, *(pattern.pattern for pattern in self.patterns), *entries.plain, *entries.wild)
        )


@dataclass(frozen=True, slots=True)
class Within:
    """Entries about one layer, without its number. plain: names of modules. wild: those with `*`. whole: the layer itself."""

    plain: frozenset[str] = frozenset()
    wild: tuple[str, ...] = ()
    whole: bool = False

    @classmethod
    def of(cls, entries: Iterable[str]) -> Within:
        """From names within the layer, "" for the layer itself."""
        listed = tuple(entries)
        plain = frozenset(entry for entry in listed if entry and "*" not in entry)
        return cls(plain, tuple(entry for entry in listed if "*" in entry), "" in listed)

    def has(self, name: str) -> bool:
        """Whether a module is what an entry names, or stands inside it."""
        if self.whole:
            return True
        return any(
            outer in self.plain or any(fnmatchcase(outer, entry) for entry in self.wild) for outer in _outer(name)
        )


NOTHING = Within()


def _outer(name: str) -> Iterator[str]:
    """A module's name and those of the modules that it stands in."""
    while name:
        yield name
        name = name.rpartition(".")[0]


_NUMBERED = re.compile(r"experts\W*\.[^a-z*]*\d")
"""A number after `experts.`, in a name or in an expression."""


EXPERT = re.compile(r"\bexperts\.\d+\.")
"""What stands before the name of a module of one expert."""


def _together(name: str) -> str:
    """The name of all experts for one of them."""
    return _EXPERT.sub("experts", name)


_EXPERT = re.compile(r"\bexperts\..*")


_ONE_LAYER = re.compile(r"(?:layers|h|blocks?)\.(\d+)(?:\.(.*)|)")
_WRAPPERS = (
    r"model|language_model|text_model|backbone|transformer{dot}encoder|transformer|gpt_neox|gpt_neox_japanese|biogpt|rwkv|llm|thinker"
    r"|decoder"
)
_PREFIX = re.compile(rf"^(?:(?:{_WRAPPERS.format(dot=chr(92) + '.')})\.)+(?=.)")
_IN_PATTERN = re.compile(rf"^\^?(?:(?:{_WRAPPERS.format(dot='[.]')})\\?\.)+(?![*+?{{])(?=.)")
"""The same at the beginning of an expression, where a point may be escaped; what repeats the point is left alone."""


def bare(name: str) -> str:
    """A module's name without the wrappers it stands in: `model.language_model.layers.3.mlp` is `layers.3.mlp`."""
    return _PREFIX.sub("", name)


def _unwrapped(pattern: str) -> str:
    """An expression for names without wrappers, of one for names with them."""
    return _IN_PATTERN.sub("", pattern)


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
