"""Weights by the checkpoint's own headers, where the checkpoint can be reached; else as the config's formula has them.

A folder's config.json has safetensors or GGUF files beside it; a Hub repository gives ranges of its files, or has a whole
copy of them in the cache.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kvplan.errors import BadFile, KvplanError, UsageError
from kvplan.sources.files import CONFIG_NAMES
from kvplan.sources.headers import INDEX, Incomplete, Progress, folder_headers, hub_headers
from kvplan.sources.measured import accounts_for, lacks_head, measured
from kvplan.units import format_bytes

if TYPE_CHECKING:
    from kvplan.arch.model import Model
    from kvplan.sources.tensors import Headers

HUB = "https://huggingface.co/"
FROM_CACHE = "the cached copy of "
"""Beginning of the note on a model whose Hub couldn't be reached: it isn't asked a second time."""
WHOLE = (INDEX, "model.safetensors")
"""A cached snapshot with one of these can be told to be whole."""


def weigh(model: Model, *, offline: bool = False, progress: Progress | None = None) -> Model:
    """The model with bytes from its checkpoint's headers; itself, with a note where it matters, when they can't be had.

    Raises: BadFile, Unsupported for a local file that isn't what its name says or contradicts itself.
    """
    if model.weights is None:
        return model
    if model.origin.source.startswith(HUB):
        found = _of_hub(model, progress, offline=offline)
    else:
        found = _beside(model.origin.source, progress)
    if found is None:
        return model
    if not isinstance(found, str):
        weights = measured(model.weights, found)
        if accounts_for(weights, found):
            return replace(model, weights=weights)
        found = (
            "the files have no lm_head, and the config doesn't say that it is the embedding (tie_word_embeddings)"
            if lacks_head(model.weights, found)
            else f"the files' tensors, {format_bytes(found.bytes)}, can't be told apart by their names"
        )
    return replace(model, notes=(*model.notes, f"weights are those of the config's formula: {found}"))


def _beside(source: str, progress: Progress | None) -> Headers | str | None:
    """Headers of the files beside a config.json; None where there are none, words where they can't be used."""
    path = Path(source).expanduser()
    if path.name not in CONFIG_NAMES or not path.is_file():
        return None
    try:
        return folder_headers(path.parent, progress)
    except (Incomplete, UsageError) as error:
        return error.problem.what


def _of_hub(model: Model, progress: Progress | None, *, offline: bool) -> Headers | str | None:
    """Headers of a repository at the model's own commit; words where the Hub doesn't give them."""
    origin = model.origin
    cached = _cached(origin.id, origin.revision)
    if cached is not None:
        return cached
    if offline or any(note.startswith(FROM_CACHE) for note in model.notes):
        return None
    try:
        return hub_headers(origin.id, origin.revision, progress)
    except KvplanError as error:
        return f"its headers can't be read ({error.problem.what})"


def _cached(repo: str, commit: str | None) -> Headers | None:
    """Headers of a whole copy in the Hub's cache."""
    from huggingface_hub import constants
    from huggingface_hub.file_download import try_to_load_from_cache

    if constants.HF_HUB_OFFLINE and commit is None:
        return None
    for name in WHOLE:
        path = try_to_load_from_cache(repo, name, revision=commit)
        if isinstance(path, str):
            try:
                return folder_headers(Path(path).parent)
            except (BadFile, UsageError):
                return None
    return None
