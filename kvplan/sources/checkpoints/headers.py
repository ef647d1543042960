"""Every tensor of a checkpoint by its headers: of a folder's safetensors or GGUF files, or of a Hub repository.

The weights themselves are never read. A terabyte on the Hub costs one index and a few hundred kilobytes per file.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from kvplan.errors import BadFile, KvplanError, Unreachable, UsageError
from kvplan.sources.checkpoints import gguf, safetensors
from kvplan.sources.checkpoints.ranges import hub_file
from kvplan.sources.checkpoints.shards import INDEX, Incomplete, Listing, indexed, there, unindexed
from kvplan.sources.checkpoints.tensors import Headers, joined
from kvplan.units import MIB

if TYPE_CHECKING:
    from huggingface_hub import HfApi

Progress = Callable[[int, int], None]
"""Called with the number of files done and the number of all files."""

MOST_INDEX_BYTES = 64 * MIB
WORKERS = 8
PATIENCE_S = 30.0
"""Seconds without an answer after which the Hub is given up on."""
VARIABLE = "HF_HUB_ETAG_TIMEOUT"
_SPLIT = re.compile(r"(?P<stem>.+)-(?P<part>\d{5})-of-(?P<parts>\d{5})\.gguf", re.ASCII)


def folder_headers(folder: Path, progress: Progress | None = None) -> Headers | None:
    """Tensors of the checkpoint in a folder; None if it has neither safetensors nor GGUF files.

    An index names the files. Without one, all safetensors files count, except those whose name says that they are a
    second copy. The GGUF file of a projector isn't part of the language model.

    Raises: Incomplete if files are missing, or are only Git LFS pointers; BadFile, Unsupported; UsageError for several
    GGUF models.
    """
    names = sorted(entry.name for entry in folder.iterdir() if entry.is_file())
    listing = _listing(folder, names)
    if listing.files:
        _no_pointers(folder, listing.files)
        parts = _each(listing.files, lambda name: safetensors.read_file(folder / name), progress)
        return _together(parts, str(folder), listing)
    ggufs = [name for name in names if name.lower().endswith(".gguf") and not name.lower().startswith("mmproj")]
    models = sorted({gguf_parts(name)[0] for name in ggufs})
    if len(models) > 1:
        raise UsageError(f"{folder} holds {len(models)} GGUF models", hint=f"name one of them: {folder / models[0]}")
    return gguf_headers(folder / models[0], progress) if models else None


def _no_pointers(folder: Path, names: Iterable[str]) -> None:
    """Raises: Incomplete for Git LFS pointers, which `git clone` leaves without Git LFS."""
    for name in names:
        path = folder / name
        if path.stat().st_size < LFS_BYTES and path.read_bytes().startswith(LFS):
            raise Incomplete(f"{name} is Git LFS's pointer to a file, not the file", hint="git lfs pull")


LFS, LFS_BYTES = b"version https://git-lfs", 1024


def _listing(folder: Path, names: list[str]) -> Listing:
    """The safetensors files of the checkpoint in a folder with files of these names."""
    if INDEX not in names:
        return unindexed(names, str(folder))
    path = folder / INDEX
    if path.stat().st_size > MOST_INDEX_BYTES:
        raise BadFile(f"{path} is too large", cause=f"an index has at most {MOST_INDEX_BYTES // MIB} MiB")
    text = path.read_text(encoding="utf-8", errors="replace")
    return there(indexed(text, str(path)), names, str(folder))


def _together(parts: Iterable[Headers], source: str, listing: Listing) -> Headers:
    """Headers of a checkpoint's files as one, and the tensors that its index names and no file has."""
    found = joined(parts, source, listing.read)
    return replace(found, absent=tuple(sorted(listing.names - {tensor.name for tensor in found.tensors})))


def gguf_headers(path: Path, progress: Progress | None = None) -> Headers:
    """Tensors of a GGUF file, and of its other parts if it is split.

    Raises: BadFile, Unsupported.
    """
    names = gguf_parts(path.name)
    missing = [name for name in names if not (path.parent / name).is_file()]
    if missing:
        raise Incomplete(
            f"{len(missing)} of {len(names)} parts of {path.name} are missing", cause=f"there is no {missing[0]}"
        )
    return joined(_each(names, lambda name: gguf.read_file(path.parent / name), progress), str(path))


def gguf_parts(name: str) -> list[str]:
    """Names of all parts of a split GGUF file; only its own if it isn't split."""
    match = _SPLIT.fullmatch(name)
    if match is None:
        return [name]
    return [f"{match['stem']}-{part:05d}-of-{match['parts']}.gguf" for part in range(1, int(match["parts"]) + 1)]


def _each(names: Sequence[str], read: Callable[[str], Headers], progress: Progress | None) -> list[Headers]:
    found = []
    for name in names:
        found.append(read(name))
        if progress is not None:
            progress(len(found), len(names))
    return found


def hub_headers(repo: str, revision: str | None = None, progress: Progress | None = None) -> Headers | None:
    """Tensors of a Hub repository's safetensors files, by range requests; None if it has none.

    Raises: NotFound, Gated, Unreachable, Offline; BadFile for headers that contradict themselves.
    """
    from huggingface_hub import HfApi

    from kvplan.sources.hub import in_time, quiet
    from kvplan.sources.hub_errors import explained

    api = HfApi(library_name="kvplan")
    try:
        with quiet():
            listing = in_time(lambda: _hub_listing(api, repo, revision), PATIENCE_S, VARIABLE)
            done = _at_once(listing.files, lambda name: hub_file(api, repo, revision, name), progress)
    except KvplanError:
        raise
    except Exception as error:  # every way to fail becomes one clear error
        raise explained(error, repo, revision) from None
    return _together(done, f"https://huggingface.co/{repo}", listing) if listing.files else None


def _at_once(names: Sequence[str], read: Callable[[str], Headers], progress: Progress | None) -> list[Headers]:
    """Headers of all files, several at a time, in threads that don't keep the process alive.

    Raises: what `read` raises; Unreachable if no file arrives for PATIENCE_S.
    """
    left, found = iter(names), SimpleQueue[tuple[str, Headers | Exception]]()
    given_up = threading.Event()

    def work() -> None:
        for name in left:  # each name to one thread: advancing a list's iterator is one step of the interpreter
            if given_up.is_set():
                return
            try:
                found.put((name, read(name)))
            except Exception as error:  # handed to the caller
                found.put((name, error))

    for _ in range(min(WORKERS, len(names))):
        threading.Thread(target=work, name="kvplan-hub", daemon=True).start()
    done: dict[str, Headers] = {}
    try:
        while len(done) < len(names):
            name, answer = found.get(timeout=PATIENCE_S)
            if isinstance(answer, Exception):
                raise answer
            done[name] = answer
            if progress is not None:
                progress(len(done), len(names))
    except Empty:
        raise Unreachable(
            f"the Hub took longer than {PATIENCE_S:g} s for a file's header",
            hint="run it again, or plan without it: --offline",
        ) from None
    finally:
        given_up.set()
    return [done[name] for name in names]


def _hub_listing(api: HfApi, repo: str, revision: str | None) -> Listing:
    """The safetensors files of a repository's checkpoint."""
    names = sorted(entry.rfilename for entry in api.model_info(repo, revision=revision).siblings or ())
    if INDEX not in names:
        return unindexed((name for name in names if "/" not in name), repo)
    path = Path(api.hf_hub_download(repo, INDEX, revision=revision))
    if path.stat().st_size > MOST_INDEX_BYTES:
        raise BadFile(f"{INDEX} of {repo} is too large", cause=f"an index has at most {MOST_INDEX_BYTES // MIB} MiB")
    text = path.read_text(encoding="utf-8", errors="replace")
    return there(indexed(text, f"{repo}/{INDEX}"), names, repo)
