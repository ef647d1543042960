"""Variables in a compose file, and the `.env` beside it, as Compose puts their values in.

Source: https://docs.docker.com/reference/compose-file/interpolation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kvplan.errors import BadFile
from kvplan.manifests.shell.brackets import closing
from kvplan.manifests.tree import Tree, beside, read_text

_VARIABLE = re.compile(r"\$(?:(?P<escaped>\$)|(?P<name>[A-Za-z_]\w*)|(?P<open>\{))", re.ASCII)
_BRACED = re.compile(r"(?P<name>[A-Za-z_]\w*)(?:(?P<how>:?[-+?])(?P<other>.*))?", re.ASCII | re.DOTALL)
_COMMENT = re.compile(r"(?:^|\s)#.*")


def dot_env(file: str, tree: Tree) -> dict[str, str]:
    """Variables of the `.env` beside the file, which Compose reads by itself."""
    try:
        text = read_text(tree, beside(file, ".env"))
    except BadFile:
        return {}
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and not name.startswith("#"):
            found[name.strip().removeprefix("export ").strip()] = _plain_value(value.strip(), found)
    return found


def _plain_value(text: str, known: Mapping[str, str]) -> str:
    """The value of a line of `.env`: quotes end it, ` #` begins a comment, and variables of earlier lines are replaced."""
    quote = text[:1]
    if quote in {"'", '"'} and (end := text.find(quote, 1)) > 0:
        inner = text[1:end]
        return inner if quote == "'" else interpolated(inner, known)[0]
    return interpolated(_COMMENT.sub("", text, count=1).rstrip(), known)[0]


def interpolated(text: str, known: Mapping[str, str]) -> tuple[str, str | None]:
    """Text with `${NAME:-default}` replaced as Compose does, nested ones too, and the first reference that can't be."""
    out: list[str] = []
    unknown: list[str] = []
    at = 0
    while match := _VARIABLE.search(text, at):
        out.append(text[at : match.start()])
        at = match.end()
        if match["escaped"]:
            out.append("$")
            continue
        if match["open"]:
            at = closing(text, match.end() - 1, "{")
        source = text[match.start() : at]
        value, missing = _value(match["name"] or source[2:-1], source, known)
        out.append(value)
        unknown += [missing] if missing is not None else []
    return "".join([*out, text[at:]]), unknown[0] if unknown else None


def _value(inside: str, source: str, known: Mapping[str, str]) -> tuple[str, str | None]:
    """What one reference stands for, and the reference that isn't known in it."""
    match = _BRACED.fullmatch(inside)
    if match is None:
        return source, None
    held, how, other = known.get(match["name"]), match["how"] or "", match["other"] or ""
    empty = held is None or (how.startswith(":") and not held)
    if how.endswith("-") and empty:
        return interpolated(other, known)
    if how.endswith("+"):
        return ("", None) if empty else interpolated(other, known)
    return (source, source) if held is None else (held, None)
