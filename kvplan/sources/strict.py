"""Strict JSON and YAML: whatever two readers could read differently is refused, with its place.

Refused are: more bytes or deeper nesting than any model needs, a key given twice with two values, numbers that aren't
finite, text that isn't UTF-8, and in YAML everything beyond plain mappings, lists and scalars (tags, anchors, several
documents).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kvplan.errors import BadFile
from kvplan.units import MIB

MAX_JSON_BYTES = 16 * MIB
"""Five times the largest published config.json (3.1 MB, mostly names of unquantized tensors)."""
MAX_YAML_BYTES = MIB
"""A model description is a page of text."""
MAX_DEPTH = 64
MAX_DIGITS = 40
"""Digits of a whole number. Tokenizers write "no limit" as the 31-digit 10^30."""

MAY_BE_INFINITE = frozenset({"time_step_limit"})
"""Fields that reference implementations leave unbounded: Mamba-2 clamps its time step to (0, Infinity). They have no
effect on sizes.
"""

Path = tuple[str | int, ...]
Lines = Mapping[Path, int]
"""Line of each key or list item, from 1; empty for text without useful lines."""


def path_text(path: Path) -> str:
    """A path as messages write it: `layers[3].window`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".") or "the document"


def decoded(raw: bytes, name: str) -> str:
    """The text of UTF-8 bytes without a byte order mark.

    Raises: BadFile.
    """
    if not raw.strip():
        raise BadFile(f"{name} is empty", hint="it should hold the model's config.json or a kvplan YAML")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadFile(
            f"{name} is not UTF-8 text",
            cause=f"byte {error.start} can't be decoded",
            hint="give a config.json or a kvplan YAML, saved as UTF-8; weight files hold no description",
        ) from None


def parse_json_object(text: str, name: str) -> dict[str, object]:
    """The JSON object in `text`.

    Raises: BadFile, naming line and column of broken text, or the JSON path of a refused value.
    """
    tree = parse_json(text, name)
    if not isinstance(tree, dict):
        raise BadFile(f"{name} holds {_kind(tree)}, not a JSON object", hint="a config.json starts with {")
    return tree


def parse_json(text: str, name: str) -> object:
    """The JSON value in `text`.

    Raises: BadFile.
    """
    try:
        tree: object = json.loads(
            text,
            parse_int=_whole,
            parse_float=_real,
            parse_constant=lambda token: _Refused(f"is {token}, which is not a JSON number", infinite=token),
            object_pairs_hook=_pairs,
        )
    except json.JSONDecodeError as error:
        cut = "it ends early: " if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated") else ""
        raise BadFile(
            f"{name} is not JSON",
            cause=f"{cut}{error.msg.lower()} at line {error.lineno}, column {error.colno}",
            hint="download it again, or check that place in an editor",
        ) from None
    except RecursionError:
        raise _too_deep(name) from None
    _check_depth(tree, name)
    for path, parent, refused in _refusals(tree):
        if not (refused.infinite and MAY_BE_INFINITE.intersection(path)):
            raise BadFile(f"{path_text(path)} {refused.why}", cause=f"in {name}", hint="correct the file")
        parent[path[-1]] = -math.inf if refused.infinite.startswith("-") else math.inf
    _check_characters(text, tree, name)
    return tree


@dataclass(frozen=True, slots=True)
class _Refused:
    """Placeholder for a refused value, until its path is known."""

    why: str
    infinite: str = ""


def _whole(text: str) -> int | _Refused:
    return int(text) if len(text) <= MAX_DIGITS else _Refused(f"has {len(text)} digits")


def _real(text: str) -> float | _Refused:
    number = float(text)
    return number if math.isfinite(number) else _Refused("is too large a number")


def _pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    tree: dict[str, object] = {}
    for key, value in pairs:
        told_apart = key in tree and tree[key] != value
        tree[key] = _Refused("is given twice") if told_apart else value
    return tree


def _check_depth(tree: object, name: str) -> None:
    level = [tree]
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in _children(node) if isinstance(child, dict | list)]
        if not level:
            return
    raise _too_deep(name)


def _children(node: object) -> Iterator[object]:
    if isinstance(node, dict):
        yield from node.values()
    elif isinstance(node, list):
        yield from node


def _too_deep(name: str) -> BadFile:
    return BadFile(f"{name} is nested too deep", cause=f"more than {MAX_DEPTH} levels; configs have about 5")


def _refusals(tree: object) -> Iterator[tuple[Path, Any, _Refused]]:
    """Every refused value: its path, its container, and itself."""
    if isinstance(tree, _Refused):
        yield (), None, tree
    stack: list[tuple[Path, Any]] = [((), tree)]
    while stack:
        path, node = stack.pop()
        items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for step, child in list(items):
            if isinstance(child, _Refused):
                yield (*path, step), node, child
            elif isinstance(child, dict | list):
                stack.append(((*path, step), child))


def _check_characters(text: str, tree: object, name: str) -> None:
    """Refuse half a surrogate pair (\ud83d alone), which can't be printed or written."""
    if _SURROGATE.search(text):
        try:
            json.dumps(tree, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise BadFile(f"{name} holds half a character", cause="an unpaired \\ud800-\\udfff escape") from None


_SURROGATE = re.compile(r"\\u[dD][89abAB]|\\u[dD][c-fC-F]")


def _kind(tree: object) -> str:
    names = {list: "a list", str: "a string", bool: "true or false", int: "a number", float: "a number"}
    return "null" if tree is None else names[type(tree)]


# YAML ----------------------------------------------------------------------------------------------------------------


def parse_yaml_mapping(text: str, name: str, first: str = "kvplan: 1") -> tuple[dict[str, object], Lines]:
    """The mapping in `text`, and the line of each key. first: a line that such a file begins with, for the hint.

    Scalars are read by YAML 1.2's core schema: `yes`, `on` and `1:30` are strings.

    Raises: BadFile, naming the line.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        tree, lines = _Builder(yaml.parse(text, Loader=loader), name).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise BadFile(f"{name} is not YAML", cause=f"{error.problem or error.context}{where}") from None
    except yaml.YAMLError as error:
        raise BadFile(f"{name} is not YAML", cause=str(error).splitlines()[0]) from None
    if not isinstance(tree, dict):
        raise BadFile(f"{name} holds {_kind(tree)}, not a mapping", hint=f"a kvplan YAML starts with `{first}`")
    return tree, lines


_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9_]*)", re.ASCII)
_DECIMAL = re.compile(r"[-+]?[0-9][0-9_]*(?=[.eE])(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|nan)", re.IGNORECASE)


class _Builder:
    """Builds plain values from the parser's events, with bounded depth and without constructing types.

    Events are read one by one, so that a bomb is refused where it starts.
    """

    def __init__(self, events: Iterator[object], name: str) -> None:
        self.events = events
        self.name = name
        self.lines: dict[Path, int] = {}

    def document(self) -> tuple[object, Lines]:
        self._next()  # the stream's start
        event = self._next()
        if type(event).__name__ == "StreamEndEvent":
            raise BadFile(f"{self.name} is empty", hint="a kvplan YAML starts with `kvplan: 1`")
        tree = self._node(self._next(), ())
        self._next()  # the document's end
        event = self._next()
        if type(event).__name__ != "StreamEndEvent":
            raise self._refuse(
                event, "starts a second document, and a file of kvplan's own holds one: put each into a file"
            )
        return tree, self.lines

    def _next(self) -> object:
        return next(self.events)

    def _refuse(self, event: object, why: str) -> BadFile:
        return BadFile(f"line {_line(event)} of {self.name} {why}")

    def _node(self, event: object, path: Path) -> object:
        if type(event).__name__ == "AliasEvent" or getattr(event, "anchor", None):
            raise self._refuse(event, "uses an anchor or alias; write the value out, or use `pattern`")
        if getattr(event, "tag", None):
            raise self._refuse(event, f"has the tag {getattr(event, 'tag', '')!r}; only plain values are read")
        if len(path) > MAX_DEPTH:
            raise _too_deep(self.name)
        self.lines.setdefault(path, _line(event))
        return self._BUILD[type(event).__name__](self, event, path)

    def _mapping(self, _start: object, path: Path) -> object:
        tree: dict[str, object] = {}
        while type(key_event := self._next()).__name__ != "MappingEndEvent":
            key = self._node(key_event, (*path, "?"))
            self.lines.pop((*path, "?"), None)
            if not isinstance(key, str):
                raise self._refuse(key_event, "has a key that is not a word")
            place = (*path, key)
            if key in tree:
                raise self._refuse(key_event, f"gives {path_text(place)} again; line {self.lines[place]} did already")
            self.lines[place] = _line(key_event)
            tree[key] = self._node(self._next(), place)
        return tree

    def _sequence(self, _start: object, path: Path) -> object:
        items: list[object] = []
        while type(item := self._next()).__name__ != "SequenceEndEvent":
            items.append(self._node(item, (*path, len(items))))
        return items

    def _scalar(self, event: object, path: Path) -> object:
        text = str(getattr(event, "value", ""))
        if getattr(event, "style", None):  # quoted or a block: always a string
            return text
        if text.lower() in _WORDS:
            return _WORDS[text.lower()]
        refused: object = None
        if _INTEGER.fullmatch(text):
            refused = _whole(text.replace("_", ""))
        elif _DECIMAL.fullmatch(text):
            refused = _real(text.replace("_", ""))
        elif _NOT_FINITE.fullmatch(text):
            refused = _Refused(f"is {text}, which no dimension can be")
        else:
            return text
        if isinstance(refused, _Refused):
            raise self._refuse(event, f"is not usable: {path_text(path)} {refused.why}")
        return refused

    _BUILD: Mapping[str, Callable[[_Builder, object, Path], object]] = {
        "MappingStartEvent": _mapping,
        "SequenceStartEvent": _sequence,
        "ScalarEvent": _scalar,
    }


def _line(event: object) -> int:
    return int(event.start_mark.line) + 1  # type: ignore[attr-defined]
