"""Settings from files: ./kvplan.toml, [tool.kvplan] in ./pyproject.toml, and the user's own.

gpu = "h100"            # for every command that takes it
tp = 8

[fit]                   # for one command
engine = "vllm"
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvplan.cli.command import MODULES, load
from kvplan.errors import BadFile, UsageError
from kvplan.text import meant

if TYPE_CHECKING:
    from kvplan.cli.command import Command

Table = Mapping[str, Any]


def project_file() -> Path | None:
    """./kvplan.toml, or a ./pyproject.toml that mentions tool.kvplan.

    Raises: BadFile for one that can't be read.
    """
    own, python = Path("kvplan.toml"), Path("pyproject.toml")
    if _is_there(own):
        return own
    return python if _is_there(python) and b"tool.kvplan" in _content(python) else None


def user_file(variables: Mapping[str, str]) -> Path | None:
    """$XDG_CONFIG_HOME/kvplan/config.toml, or the same under ~/.config."""
    base = variables.get("XDG_CONFIG_HOME") or variables.get("APPDATA") or "~/.config"
    try:
        path = Path(base).expanduser() / "kvplan" / "config.toml"
    except RuntimeError:  # no home directory
        return None
    return path if _is_there(path) else None


def _is_there(path: Path) -> bool:
    """Whether it is a file. One in a home that this user can't read doesn't count."""
    try:
        return path.is_file()
    except OSError:
        return False


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadFile(
            f"{path} can't be read",
            cause=error.strerror,
            hint="make it readable, or ignore settings files with --no-config",
        ) from None


def read(command: Command, config: Path | None) -> dict[str, tuple[Any, str]]:
    """The settings for a command, each with its file. config: the only file to read, in place of the usual ones.

    Raises: BadFile; UsageError for a setting that no command has.
    """
    paths = (config,) if config is not None else (user_file(os.environ), project_file())
    found: dict[str, tuple[Any, str]] = {}
    for path in paths:
        if path is not None:
            found |= {name: (value, str(path)) for name, value in _of_file(path, command).items()}
    return found


def _of_file(path: Path, command: Command) -> dict[str, Any]:
    """The settings of one file. A command's own section overrides the top level."""
    table = _load(path)
    section = table.get(command.name, {})
    if not isinstance(section, Mapping):
        raise BadFile(
            f"{path}: [{command.name}] is not a section",
            hint=f"write [{command.name}] on a line of its own, its settings below",
        )
    _check_names(table, path)
    known = _check_section(section, command, path)
    return {_name(key): value for key, value in (*table.items(), *section.items()) if _name(key) in known}


def _check_section(section: Table, command: Command, path: Path) -> set[str]:
    """The names of a command's settings.

    Raises: UsageError for any other name in the section.
    """
    known = {option.name for option in command.options if option.settable}
    for key in section:
        if _name(key) not in known:
            raise UsageError(f"{path}: kvplan {command.name} has no setting {key!r}", hint=_meant(_name(key), known))
    return known


def listed(path: Path) -> list[tuple[str, Any]]:
    """Every setting of a file; one of a section as `[fit] engine`.

    Raises: BadFile, UsageError.
    """
    table = _load(path)
    _check_names(table, path)
    found: list[tuple[str, Any]] = []
    for key, value in table.items():
        if not isinstance(value, Mapping):
            found.append((_name(key), value))
            continue
        _check_section(value, load(key), path)
        found += [(f"[{key}] {_name(name)}", inner) for name, inner in value.items()]
    return found


def _load(path: Path) -> Table:
    import tomllib

    try:
        table: Table = tomllib.loads(_content(path).decode())
    except (ValueError, RecursionError) as error:
        raise BadFile(f"{path} is not TOML", cause=str(error) or None) from None
    if path.name == "pyproject.toml":
        table = table.get("tool", {}).get("kvplan", {})
    return table


def _check_names(table: Table, path: Path) -> None:
    """Refuse misspelt settings. Settings of other commands are allowed."""
    known: set[str] | None = None
    for key, value in table.items():
        if isinstance(value, Mapping):
            if key not in MODULES:
                raise UsageError(f"{path}: there is no command {key!r}", hint=_meant(key, set(MODULES)))
            continue
        if known is None:
            known = _every_setting()
        if _name(key) not in known:
            raise UsageError(f"{path}: there is no setting {key!r}", hint=_meant(_name(key), known))


def _every_setting() -> set[str]:
    return {option.name for name in MODULES for option in load(name).options if option.settable}


def unknown_variables(variables: Mapping[str, str]) -> list[tuple[str, str]]:
    """KVPLAN_ variables that are no settings, each with a suggestion."""
    known = {f"KVPLAN_{name.upper()}" for name in _every_setting()}
    return [
        (name, _meant(name, known)) for name in sorted(variables) if name.startswith("KVPLAN_") and name not in known
    ]


def _meant(name: str, known: set[str]) -> str:
    return meant(name, sorted(known)) or "kvplan COMMAND --help lists them, without the dashes"


def _name(key: str) -> str:
    return key.replace("-", "_")
