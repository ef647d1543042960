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
from kvplan.cli.option import Given, nearest
from kvplan.errors import BadFile, UsageError

if TYPE_CHECKING:
    from kvplan.cli.command import Command

Table = Mapping[str, Any]


def project_file() -> Path | None:
    """./kvplan.toml, or a ./pyproject.toml that speaks of kvplan."""
    own, python = Path("kvplan.toml"), Path("pyproject.toml")
    if own.is_file():
        return own
    if python.is_file() and b"tool.kvplan" in python.read_bytes():
        return python
    return None


def user_file(variables: Mapping[str, str]) -> Path | None:
    """$XDG_CONFIG_HOME/kvplan/config.toml, or under ~/.config."""
    base = variables.get("XDG_CONFIG_HOME") or variables.get("APPDATA") or "~/.config"
    try:
        path = Path(base).expanduser() / "kvplan" / "config.toml"
    except RuntimeError:  # no home directory
        return None
    return path if path.is_file() else None


def layers(command: Command, config: str | None, *, files: bool) -> tuple[dict[str, Given], ...]:
    """What files give to a command, the nearest first. config: one file instead of the usual ones.

    Raises: BadFile; UsageError for a setting that no command has.
    """
    if not files:
        return ()
    if config is not None:
        return (read(Path(config), command),)
    return tuple(read(path, command) for path in (project_file(), user_file(os.environ)) if path is not None)


def read(path: Path, command: Command) -> dict[str, Given]:
    """What one file gives to a command; its own section wins over what stands above.

    Raises: BadFile, UsageError.
    """
    table = _load(path)
    section = table.get(command.name, {})
    if not isinstance(section, Mapping):
        raise BadFile(
            f"{path}: [{command.name}] is not a section",
            hint=f"write [{command.name}] on a line of its own, its settings below",
        )
    common = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    _check_names(table, path)
    known = {option.name for option in command.options if option.settable}
    found: dict[str, Given] = {}
    for key, value in (*common.items(), *section.items()):
        name = _name(key)
        if name in known:
            found[name] = Given(_text(value), str(path))
        elif key in section:
            raise UsageError(f"{path}: kvplan {command.name} has no setting {key!r}", hint=_meant(name, known))
    return found


def _load(path: Path) -> Table:
    import tomllib

    try:
        table: Table = tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        raise BadFile(f"{path} can't be read", cause=error.strerror) from None
    except (ValueError, RecursionError) as error:
        raise BadFile(f"{path} is not TOML", cause=str(error) or None) from None
    if path.name == "pyproject.toml":
        table = table.get("tool", {}).get("kvplan", {})
    return table


def _check_names(table: Table, path: Path) -> None:
    """A misspelt setting is an error, not a silence; settings of other commands are fine."""
    known: set[str] | None = None
    for key, value in table.items():
        if isinstance(value, Mapping):
            if key not in MODULES:
                raise UsageError(f"{path}: there is no command {key!r}", hint=_meant(key, set(MODULES)))
            continue
        if known is None:
            known = {option.name for name in MODULES for option in load(name).options if option.settable}
        if _name(key) not in known:
            raise UsageError(f"{path}: there is no setting {key!r}", hint=_meant(_name(key), known))


def _meant(name: str, known: set[str]) -> str:
    close = nearest(name, sorted(known))
    return f"did you mean {close}?" if close else "kvplan COMMAND --help lists them, without the dashes"


def _name(key: str) -> str:
    return key.replace("-", "_")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
