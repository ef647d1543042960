"""Weights by the checkpoint's own headers if it can be reached, else by the config's formula.

A folder's config.json may have safetensors or GGUF files beside it. A Hub repository gives ranges of its files, or the
cache has a complete copy of them.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kvplan.arch.traits import GGUF_FILES
from kvplan.errors import BadFile, KvplanError, Unsupported, UsageError
from kvplan.sources.checkpoints.complete import HINT, lacking
from kvplan.sources.checkpoints.contradictions import contradictions
from kvplan.sources.checkpoints.headers import Progress, folder_headers, hub_headers
from kvplan.sources.checkpoints.measured import accounts_for, lacks_head, measured
from kvplan.sources.checkpoints.places import places
from kvplan.sources.checkpoints.shards import INDEX, WHOLE, Incomplete
from kvplan.sources.files import CONFIG_NAMES
from kvplan.text import all_of
from kvplan.units import format_bytes

if TYPE_CHECKING:
    from kvplan.arch.model import Model
    from kvplan.arch.weights import Weights
    from kvplan.sources.checkpoints.tensors import Headers

HUB = "https://huggingface.co/"
FROM_CACHE = "the cached copy of "
"""Prefix of the note on a model whose Hub couldn't be reached. The Hub isn't asked a second time."""
TOLD_WHOLE = (INDEX, WHOLE)
"""Files that tell whether a cached snapshot is complete."""


def weigh(model: Model, *, offline: bool = False, progress: Progress | None = None) -> Model:
    """The model with bytes from its checkpoint's headers; without any, unchanged or with a note if it matters.

    Raises: BadFile for a local file that isn't what its name says, or contradicts itself.
    """
    if model.weights is None:
        return model
    with _uncollected():
        return _weighed(model, model.weights, progress, offline=offline)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Disable the garbage collector, which would walk over hundreds of thousands of live tensors again and again."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _weighed(model: Model, weights: Weights, progress: Progress | None, *, offline: bool) -> Model:
    if model.origin.source.startswith(HUB):
        found = _of_hub(model, progress, offline=offline)
    else:
        found = _beside(model.origin.source, progress)
    if found is None:
        return model
    if not isinstance(found, str) and found.metadata:  # which GGUF files alone have
        model = replace(model, traits=(*model.traits, GGUF_FILES))
    weighed = found if isinstance(found, str) else judged(weights, found)
    if isinstance(weighed, str):
        return replace(model, notes=(*model.notes, f"weights are those of the config's formula: {weighed}"))
    return replace(model, weights=weighed.weights, notes=(*model.notes, *weighed.notes))


CONTRADICTED = "the files contradict the config"


class Judged(NamedTuple):
    """Weights as the files have them, and remarks about them."""

    weights: Weights
    notes: tuple[str, ...]


def judged(weights: Weights, headers: Headers) -> Judged | str:
    """Weights as the files have them; or the reason for using the config's formula, if the files lack some."""
    found = places(weights, headers)
    lacks = lacking(found)
    if lacks is not None:
        return lacks
    if lacks_head(found):
        return "the files have no lm_head, and the config doesn't say that it is the embedding (tie_word_embeddings)"
    weighed = measured(found)
    if not accounts_for(weighed, found):
        if weights.towers and not found.towers:
            return f"no file has the towers for images, sound or an encoder that the config describes; {HINT}"
        return f"the files' tensors, {format_bytes(headers.bytes)}, can't be told apart by their names"
    unlike = contradictions(found)
    if not unlike:
        return Judged(weighed, ())
    said = f"{CONTRADICTED}: they have {all_of(unlike)}; bytes are the files', give the checkpoint's own config.json for the rest"
    return Judged(replace(weighed, contradicted=True), (said,))


def _beside(source: str, progress: Progress | None) -> Headers | str | None:
    """Headers of the files beside a config.json; None if there are none, a reason if they can't be used."""
    path = Path(source).expanduser()
    if path.name not in CONFIG_NAMES or not path.is_file():
        return None
    try:
        return folder_headers(path.parent, progress)
    except (Incomplete, Unsupported, UsageError) as error:
        return _words(error)


def _words(error: KvplanError) -> str:
    """What, why and what to type, in one line."""
    problem = error.problem
    return (
        problem.what + (f" ({problem.cause})" if problem.cause else "") + (f"; {problem.hint}" if problem.hint else "")
    )


def _of_hub(model: Model, progress: Progress | None, *, offline: bool) -> Headers | str | None:
    """Headers of a repository at the model's own commit; a reason if the Hub doesn't give them."""
    origin = model.origin
    cached = _cached(origin.id, origin.revision)
    if cached is not None:
        return cached
    if offline or any(note.startswith(FROM_CACHE) for note in model.notes):
        return None
    try:
        return hub_headers(origin.id, origin.revision, progress)
    except KvplanError as error:
        return f"its headers can't be read: {_words(error)}"


def _cached(repo: str, commit: str | None) -> Headers | None:
    """Headers of a complete copy in the Hub's cache."""
    from huggingface_hub import constants
    from huggingface_hub.file_download import try_to_load_from_cache

    if constants.HF_HUB_OFFLINE and commit is None:
        return None
    for name in TOLD_WHOLE:
        path = try_to_load_from_cache(repo, name, revision=commit)
        if isinstance(path, str):
            try:
                return folder_headers(Path(path).parent)
            except (BadFile, UsageError):
                return None
    return None
