"""The name by which a server finds a model: its id on the Hub, or its folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from kvplan.arch.model import Model
from kvplan.errors import UsageError
from kvplan.sources.bundled import bundled_models, name_of

CONFIG = "config.json"
"""Name of the file that a server looks for."""


def served_name(model: Model, typed: str | None = None) -> str:
    """The name to serve `model` by. typed: the name it was asked for by, which decides between its repositories.

    Raises: UsageError for a description without a repository or folder of weights.
    """
    origin = model.origin
    if origin.revision is not None:
        return origin.id
    if origin.bundled:
        return _repository(origin.id, typed)
    path = Path(origin.source)
    if path.suffix.lower() == ".json" and path.name != CONFIG and not path.is_dir():
        raise UsageError(
            f"no server finds {path.name}: what is served is a folder with the weights and a {CONFIG}",
            cause=f"{origin.id} was read from a file of another name",
            hint=f"save it as {CONFIG} in the folder of the checkpoint, or give the model's Hub id",
        )
    if path.is_dir() or path.suffix.lower() in {".json", ".gguf"}:
        folder = path.parent if path.suffix.lower() == ".json" else path
        return str(folder)
    if typed is not None and "/" in typed and not path.exists():
        return typed.strip().partition("@")[0]
    raise UsageError(
        f"no weights are known to belong to {origin.id}",
        cause="it was described, not found on the Hub or in a folder",
        hint="give the model's Hub id, or the folder of its checkpoint",
    )


def _repository(name: str, typed: str | None) -> str:
    """The alias that was typed, as the Hub spells it; else the first of the model's repositories."""
    known = next(record for record in bundled_models() if record.name == name)
    if typed is not None and "/" in typed and name_of(typed) == name:
        return next(alias for alias in known.aliases if alias.lower() == typed.strip().lower())
    if known.hub_id is None:
        raise UsageError(f"{name} has no repository on the Hub", hint="give the folder of its checkpoint")
    return next(_meant(typed or name, known.aliases), known.hub_id)


def _meant(typed: str, aliases: Iterable[str]) -> Iterator[str]:
    """Repositories that a short name may stand for: first those of that name, then those whose names continue it."""
    short = typed.strip().lower()
    called = {alias: alias.rpartition("/")[2].lower().removeprefix(MAKER) for alias in aliases if "/" in alias}
    yield from (alias for alias, name in called.items() if name == short)
    yield from (alias for alias, name in called.items() if name.startswith(f"{short}-"))


MAKER = "meta-"
"""Prefix of repository names that short names leave out."""
