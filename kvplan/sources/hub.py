"""Descriptions from the Hugging Face Hub: only small files, through huggingface_hub's cache, and never any code.

huggingface_hub reads its HF_* variables when it is first imported, which happens inside the functions here that need
it. A call that exceeds its time-outs is abandoned, because huggingface_hub's own retries can take minutes.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kvplan.arch.model import Origin
from kvplan.errors import BadFile, KvplanError, NotFound, Offline, SourceError, Unreachable, Unsupported
from kvplan.families.quantization import says_quantization
from kvplan.sources.document import COMPANIONS, Document
from kvplan.sources.files import listed, read_bytes
from kvplan.sources.hub_errors import explained, is_temporary
from kvplan.sources.strict import MAX_JSON_BYTES, decoded, parse_json_object
from kvplan.text import any_of
from kvplan.units import MIB

if TYPE_CHECKING:
    from huggingface_hub.file_download import HfFileMetadata

HUB_ID = re.compile(
    r"(?P<repo>[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95})(?:@(?P<revision>[^\s@]{1,200}))?", re.ASCII
)
"""org/name, with an optional @revision: a branch, a tag or a commit."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class HubName:
    """A repository at a revision, which is None for its main branch."""

    repo: str
    revision: str | None

    def __str__(self) -> str:
        return self.repo if self.revision is None else f"{self.repo}@{self.revision}"


@dataclass(frozen=True, slots=True)
class _File:
    """A cached file, the commit that it belongs to, and the reason if the Hub wasn't asked."""

    path: Path
    commit: str | None
    note: str | None = None


def hub_document(name: HubName, *, offline: bool = False) -> Document:
    """The config.json of a repository (or Mistral's params.json), with its companion files on quantization.

    If the Hub can't be reached the cached copy is used, with a note; offline, it is used without asking.

    Raises: Offline, NotFound, Gated, Unreachable; BadFile and Unsupported for the content of a repository.
    """
    with _QUIET:
        file = _config_file(name, offline=offline)
        config = _parsed(file, f"{name.repo}/{file.path.name}")
        notes = [file.note] if file.note else []
        companions: dict[str, Mapping[str, object]] = {}
        if not says_quantization(config):
            asked = not (offline or file.note)
            companions, unsure = _companions(HubName(name.repo, file.commit or name.revision), asked=asked)
            notes += unsure
    origin = Origin(name.repo, _page(name.repo, file), file.commit)
    return Document(config, origin, companions, notes=tuple(notes))


def _config_file(name: HubName, *, offline: bool) -> _File:
    found = _fetched(name, "config.json", offline=offline)
    if found is not None:
        return found
    files = _listing(name)
    if "params.json" in files:
        found = _fetched(name, "params.json", offline=offline)
    if found is not None:
        return found
    raise _no_config(name, files)


def _fetched(name: HubName, filename: str, *, offline: bool) -> _File | None:
    """The file from the Hub or the cache; None if the repository doesn't have it."""
    from huggingface_hub import constants
    from huggingface_hub.file_download import get_hf_file_metadata, hf_hub_download, hf_hub_url

    cached = _cached(name, filename)
    if offline or constants.HF_HUB_OFFLINE:
        return cached or _raise(_offline_error(name, filename, "--offline" if offline else "HF_HUB_OFFLINE"))
    try:
        found = in_time(
            lambda: get_hf_file_metadata(
                hf_hub_url(name.repo, filename, revision=name.revision),
                timeout=constants.HF_HUB_ETAG_TIMEOUT,
                library_name="kvplan",
            ),
            2 * constants.HF_HUB_ETAG_TIMEOUT,
            "HF_HUB_ETAG_TIMEOUT",
        )
        _check(found, name, filename)
        if cached is not None and cached.commit == found.commit_hash:
            return cached
        path = in_time(
            lambda: hf_hub_download(name.repo, filename, revision=name.revision, library_name="kvplan"),
            _patience(),
            "HF_HUB_DOWNLOAD_TIMEOUT",
        )
    except Exception as error:  # every way to fail becomes one clear error, and none may show a token
        return _otherwise(error, cached, name, filename)
    return _File(Path(path), found.commit_hash)


def _check(found: HfFileMetadata, name: HubName, filename: str) -> None:
    """Raises: Unreachable for an answer that isn't the Hub's, BadFile for a file too large to fetch."""
    if found.commit_hash is None or found.etag is None:
        raise Unreachable(
            "the answer is not the Hub's",
            cause="it names no commit; a proxy, a log-in page or another server answered",
            hint="check HF_ENDPOINT and HTTPS_PROXY",
        )
    if found.size is not None and found.size > MAX_JSON_BYTES:
        raise BadFile(
            f"{filename} of {name} is too large to describe a model",
            cause=f"it has {found.size / MIB:.0f} MiB; kvplan reads {MAX_JSON_BYTES // MIB} MiB at most",
        )


def _otherwise(error: Exception, cached: _File | None, name: HubName, filename: str) -> _File | None:
    """None if the repository lacks the file, the cached copy if the Hub is in trouble; otherwise raise."""
    if type(error).__name__ in {"EntryNotFoundError", "RemoteEntryNotFoundError"}:
        return None
    problem = error if isinstance(error, KvplanError) else explained(error, name.repo, name.revision)
    if cached is not None and is_temporary(problem):
        why = problem.problem.what
        return _File(cached.path, cached.commit, f"the cached copy of {filename} was used: {why}")
    raise problem from None


def _cached(name: HubName, filename: str) -> _File | None:
    from huggingface_hub.file_download import try_to_load_from_cache

    try:
        found = try_to_load_from_cache(name.repo, filename, revision=name.revision)
    except (OSError, ValueError) as error:
        raise explained(error, name.repo, name.revision) from None
    if not isinstance(found, str):
        return None
    path = Path(found)
    return _File(path, path.parent.name)  # .../snapshots/<commit>/<filename>


def _offline_error(name: HubName, filename: str, why: str) -> Offline:
    return Offline(
        f"{name} is not in the Hub cache",
        cause=f"{why} forbids asking the Hub for its {filename}",
        hint=f"load it once without {why}, or give the path of a config.json",
    )


def _patience() -> float:
    """Seconds after which a download is abandoned. A slow line may take a while, but not forever."""
    from huggingface_hub import constants

    return constants.HF_HUB_ETAG_TIMEOUT + 3 * constants.HF_HUB_DOWNLOAD_TIMEOUT


def in_time(call: Callable[[], _T], seconds: float, variable: str) -> _T:
    """The call's result. Raises Unreachable if it takes longer; the abandoned thread ends with the process."""
    results: list[_T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(call())
        except BaseException as error:  # handed to the caller
            errors.append(error)

    thread = threading.Thread(target=work, name=_THREAD, daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise Unreachable(f"the Hub took longer than {seconds:g} s", hint=f"try again, or raise {variable} (seconds)")
    return results[0]


def _companions(name: HubName, *, asked: bool) -> tuple[dict[str, Mapping[str, object]], list[str]]:
    """Companion files at one commit, and which of them couldn't be looked up without asking.

    huggingface_hub remembers for each commit which of them don't exist.
    """
    from huggingface_hub import constants
    from huggingface_hub.file_download import hf_hub_download, try_to_load_from_cache

    found: dict[str, Mapping[str, object]] = {}
    unknown: list[str] = []
    for filename in COMPANIONS:
        path = try_to_load_from_cache(name.repo, filename, revision=name.revision)
        if path is None and (not asked or constants.HF_HUB_OFFLINE):
            unknown.append(filename)
            continue
        if path is None:
            try:
                path = in_time(
                    lambda filename=filename: hf_hub_download(  # type: ignore[misc]
                        name.repo, filename, revision=name.revision, library_name="kvplan"
                    ),
                    _patience(),
                    "HF_HUB_DOWNLOAD_TIMEOUT",
                )
            except Exception as error:  # as in _fetched
                _otherwise(error, None, name, filename)
                continue
        if isinstance(path, str):
            found[filename] = _parsed(_File(Path(path), name.revision), f"{name.repo}/{filename}")
    if not unknown:
        return found, []
    return found, [
        f"whether {name.repo} has {any_of(unknown)} could not be checked offline; weights are taken as unquantised"
    ]


def _parsed(file: _File, shown: str) -> dict[str, object]:
    raw = read_bytes(file.path, shown, MAX_JSON_BYTES)
    if raw.lstrip()[:1] == b"<":
        raise Unreachable(
            f"{shown} came as a web page, not as JSON",
            cause="a proxy or a log-in page answered instead of the Hub",
            hint=f"check HF_ENDPOINT and HTTPS_PROXY, then delete {file.path}",
        )
    return parse_json_object(decoded(raw, shown), shown)


def _listing(name: HubName) -> list[str]:
    """Names of the repository's files."""
    from huggingface_hub import constants
    from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status  # type: ignore[attr-defined]

    url = f"{constants.ENDPOINT}/api/models/{name.repo}"
    if name.revision is not None:
        from urllib.parse import quote

        url += f"/revision/{quote(name.revision, safe='')}"

    def ask() -> object:
        headers = build_hf_headers(library_name="kvplan")
        answer = get_session().get(url, headers=headers, timeout=constants.HF_HUB_ETAG_TIMEOUT)
        hf_raise_for_status(answer)
        return answer.json()

    try:
        answer = in_time(ask, 2 * constants.HF_HUB_ETAG_TIMEOUT, "HF_HUB_ETAG_TIMEOUT")
    except Exception as error:  # as in _fetched
        problem = error if isinstance(error, KvplanError) else explained(error, name.repo, name.revision)
        raise problem from None
    siblings = answer.get("siblings") if isinstance(answer, dict) else None
    entries = siblings if isinstance(siblings, list) else []
    return [str(entry["rfilename"]) for entry in entries if isinstance(entry, dict) and "rfilename" in entry]


def _no_config(name: HubName, files: list[str]) -> KvplanError:
    shown = [file for file in files if file not in {".gitattributes", "README.md"}] or files
    cause = f"it holds {listed(shown)}" if shown else "it is empty"
    if any(file.lower().endswith(".gguf") for file in files):
        return Unsupported(
            f"{name} holds GGUF files and no config.json",
            cause=cause,
            hint="give the Hub id of the model it was converted from (its model card names it)",
        )
    hint = "give a repository with a config.json, or describe the model in a kvplan YAML"
    if "adapter_config.json" in files:
        hint = "this is an adapter: give the Hub id of its base model"
    return BadFile(f"{name} has no config.json", cause=cause, hint=hint)


def _page(repo: str, file: _File) -> str:
    return f"https://huggingface.co/{repo}/blob/{file.commit or 'main'}/{file.path.name}"


def _raise(error: SourceError | NotFound) -> _File:
    raise error


class _Quiet:
    """While any thread is in it, huggingface_hub draws no progress bars, and kvplan's own threads never log.

    Anything important ends in an error or a note.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inside = 0
        self.bars = True

    def __enter__(self) -> None:
        from huggingface_hub import utils
        from huggingface_hub.utils import logging as hub_logging

        hub_logging.get_logger()  # it makes the handlers when it is first imported
        with self.lock:
            self.inside += 1
            if self.inside == 1:
                self.bars = not utils.are_progress_bars_disabled()  # type: ignore[attr-defined]
                _switch_bars(utils.disable_progress_bars)  # type: ignore[attr-defined]
                for handler in logging.getLogger("huggingface_hub").handlers:
                    handler.addFilter(_not_ours)  # once: adding it again does nothing

    def __exit__(self, *_: object) -> None:
        from huggingface_hub import utils

        with self.lock:
            self.inside -= 1
            if self.inside == 0 and self.bars:
                _switch_bars(utils.enable_progress_bars)  # type: ignore[attr-defined]


def _not_ours(record: logging.LogRecord) -> bool:
    return record.threadName != _THREAD


_THREAD = "kvplan-hub"


def _switch_bars(switch: Callable[[], object]) -> None:
    """Switch progress bars, unless HF_HUB_DISABLE_PROGRESS_BARS decides: switching them would only warn."""
    from huggingface_hub import constants

    if constants.HF_HUB_DISABLE_PROGRESS_BARS is None:
        switch()


_QUIET = _Quiet()


def quiet() -> AbstractContextManager[None]:
    """A context in which huggingface_hub draws no progress bars."""
    return _QUIET
