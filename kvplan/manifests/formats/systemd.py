"""systemd units: what they execute, as a script, and the environment that it finds.

Source: https://www.freedesktop.org/software/systemd/man/latest/systemd.exec.html, Environment=, EnvironmentFile= and
WorkingDirectory=.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from kvplan.errors import BadFile
from kvplan.manifests.formats.scripts import served as script_served
from kvplan.manifests.processes.container import Served
from kvplan.manifests.shell.parser import listed, pairs
from kvplan.manifests.tree import Tree, beside, read_text

_STARTED = re.compile(r"\s*ExecStart(?:Pre|Post)?\s*=\s*[-@:+!|]*")
_ENVIRONMENT = re.compile(r"\s*Environment\s*=\s*(.*)")
_FOLDER = re.compile(r"\s*WorkingDirectory\s*=\s*-?(.*?)\s*")
_FILE = re.compile(r"\s*EnvironmentFile\s*=\s*-?(.*)")


def served(unit: str, file: str, tree: Tree) -> Served:
    """What a unit serves.

    A file of its environment counts where one of that name stands beside the unit; another one may set any variable, as a
    script's `source` does, whatever Environment= says: systemd reads the files after it.
    """
    known, hidden = environment(unit), []
    for name in _files(unit):
        found = _settings(name, file, tree)
        if found is None:
            hidden.append(name)
        else:
            known |= found
    sourced = "".join(f"source {shlex.quote(name)}; " for name in hidden)
    folder = next((match[1] for line in unit.split("\n") if (match := _FOLDER.fullmatch(line))), "/")
    return script_served(sourced + started(unit), file, tree, known, folder if folder.startswith("/") else None)


def started(unit: str) -> str:
    """A unit as a script: what it executes, on the same lines."""
    out: list[str] = []
    going = False
    for line in unit.split("\n"):
        match = _STARTED.match(line)
        if going and line.lstrip().startswith(("#", ";")):
            out.append("\\")
            continue
        kept = _as_shell(line[match.end() :] if match is not None else line if going else "")
        out.append(kept)
        going = bool(kept) and kept.rstrip().endswith("\\")
    return "\n".join(out)


_PIECES = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|(\$\{\w+\})|\$\$", re.DOTALL)
_SPECIFIER = re.compile(r"%([A-Za-z%])", re.ASCII)


def _as_shell(line: str) -> str:
    """A line of a command as a shell reads alike: `${NAME}` is one argument, `$$` a dollar, `%i` known to systemd alone."""

    def piece(match: re.Match[str]) -> str:
        if match[1]:
            return f'"{match[1]}"'
        return match[0].replace("$$", "$" if match[0].startswith("'") else "\\$")

    def specified(match: re.Match[str]) -> str:
        return "%" if match[1] == "%" else f"%{{{match[1]}}}"

    return _SPECIFIER.sub(specified, _PIECES.sub(piece, line))


def environment(unit: str) -> dict[str, str]:
    """What a unit itself puts into the environment of what it executes."""
    known: dict[str, str] = {}
    for line in unit.split("\n"):
        if match := _ENVIRONMENT.fullmatch(line):
            words = listed(match[1].replace("$", "\\$"))
            known = {**known, **dict(pairs(words))} if words else {}
    return known


def _files(unit: str) -> Iterator[str]:
    """Files of its environment, in order; an empty setting drops those before it."""
    found: list[str] = []
    for line in unit.split("\n"):
        if match := _FILE.fullmatch(line):
            found = [*found, match[1].strip()] if match[1].strip() else []
    yield from found


def _settings(name: str, file: str, tree: Tree) -> dict[str, str] | None:
    """The variables of the file of that name beside the unit; None where there is none, or more than plain settings in it."""
    try:
        text = read_text(tree, beside(file, name.rpartition("/")[2]))
    except BadFile:
        return None
    found: dict[str, str] = {}
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith(("#", ";")):
            continue
        name, equals, value = line.strip().partition("=")
        if not equals or "\\" in value:
            return None
        found[name.strip()] = _unquoted(value.strip())
    return found


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value
