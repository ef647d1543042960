"""From the MODEL that a person types to a description, and to a Model.

    -                       standard input
    a path that exists      a config.json, Mistral's params.json, a kvplan YAML or JSON, or a folder with one of them
    a bundled name          configs/models: llama-3-70b
    org/name[@revision]     the Hugging Face Hub, or its cache; offline, a bundled model published under that id
    https://huggingface.co/org/name[/tree/revision]     the same

The first that fits is taken. Anything else is an UnknownName with the nearest bundled names, or, if it looks like a
path, an error that it isn't there. Code from a repository is never run.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kvplan.errors import BadFile, ConfigError, Gated, Offline, SourceError, UnknownName, Unreachable, UsageError
from kvplan.sources.bundled import bundled_document, index, model_names, name_of
from kvplan.sources.document import Document
from kvplan.text import any_of, nearest

if TYPE_CHECKING:
    from kvplan.arch.model import Model

__all__ = ["Document", "load_document", "load_model", "model_names"]

_URL = re.compile(
    r"(?:https?://(?:www\.)?(?:huggingface\.co|hf\.co)/|hf://)(?P<repo>[^/\s]+/[^/\s@?#]+)"
    r"(?:@(?P<at>[^/\s]+)|/(?:tree|blob|resolve)/(?P<revision>[^/\s?#]+))?[^\s]*",
    re.ASCII,
)
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_FILE_ENDINGS = (".json", ".yaml", ".yml", ".gguf", ".safetensors")


def load_model(name: str, *, revision: str | None = None, offline: bool = False) -> Model:
    """The model of that name, in any of the module's spellings.

    Raises: UnknownName, UsageError; ConfigError for a description that isn't enough for an answer; SourceError for the
    Hub.
    """
    document = load_document(name, revision=revision, offline=offline)
    if document.origin.bundled and not document.notes:
        from kvplan.sources.compiled import compiled

        model = compiled(document.origin.id)
        if model is not None:
            return model
    return model_of(document)


def model_of(document: Document) -> Model:
    """The model that a document describes.

    Raises: ConfigError.
    """
    config = document.config
    if "kvplan" in config:
        from kvplan.sources.description import model_from_description

        model = model_from_description(config, document.origin, document.lines)
    else:
        from kvplan import families
        from kvplan.sources.mistral import is_params, transformers_config
        from kvplan.sources.wrapped import unwrapped

        config = transformers_config(config) if is_params(config) else unwrapped(config)
        model = families.read(config, document.origin, document.companions)
    return replace(model, notes=model.notes + document.notes) if document.notes else model


def load_document(name: str, *, revision: str | None = None, offline: bool = False) -> Document:
    """The description of that name, parsed but not interpreted.

    revision: of a Hub repository. offline: never ask the Hub.

    Raises: UnknownName, UsageError, BadFile, Unsupported, SourceError.
    """
    name = name.strip()
    if not name:
        raise UsageError("the model's name is empty", hint="kvplan models lists the bundled ones")
    if _ADDRESS.match(name) and not _URL.fullmatch(name):
        raise UsageError(
            f"{name} isn't the address of a model on the Hub",
            cause="kvplan reads only addresses like https://huggingface.co/org/name",
            hint="give org/name, or download the model's config.json and give its path",
        )
    local = _local(name)
    if local is not None:
        _no_revision(revision, "a file")
        return local
    bundled = name_of(name)
    if bundled is not None and "/" not in name:
        _no_revision(revision, f"the bundled {bundled}")
        return bundled_document(bundled)
    return _from_hub(name, revision, offline=offline)


def _local(name: str) -> Document | None:
    if name == "-":
        from kvplan.sources.files import read_stdin

        return read_stdin()
    path, trouble = _found(name)
    if trouble is None:
        from kvplan.sources.files import read_path

        try:
            return read_path(path, name)
        except BadFile as error:
            if name_of(name) is not None:
                hint = f"the bundled {name} is hidden by this; type ./{name} for the path, or rename it"
                error.problem = replace(error.problem, hint=hint)
            raise
    if trouble in _TROUBLES and (name_of(name) is None or _looks_like_path(name)):
        raise BadFile(f"{name} {_TROUBLES[trouble]}", cause=os.strerror(trouble))
    if trouble == errno.ENOENT and path.is_symlink() and name_of(name) is None:
        raise BadFile(f"{name} is a broken link", cause=f"it points to {path.readlink()}, which doesn't exist")
    if _looks_like_path(name):
        raise _not_there(name, path)
    return None


_TROUBLES = {errno.EACCES: "can't be read", errno.ELOOP: "is a link that leads back to itself"}
"""System errors about a path after which it can't be taken for another kind of name."""
NO_PATH = errno.EINVAL


def _found(name: str) -> tuple[Path, int | None]:
    """The path that a name may be, and the system's error about it; None if it exists."""
    path = Path(name)
    try:
        path = path.expanduser()
        path.stat()
    except OSError as error:
        return path, error.errno
    except (RuntimeError, ValueError):  # no home directory, or a character that no path has
        return path, NO_PATH
    return path, None


def _looks_like_path(name: str) -> bool:
    if _URL.fullmatch(name):
        return False
    starts = name.startswith((".", "/", "~", "\\")) or "\\" in name
    return starts or name.lower().endswith(_FILE_ENDINGS) or name.partition("@")[0].count("/") > 1


def _not_there(name: str, path: Path) -> ConfigError:
    from kvplan.sources.files import gguf_refused, listed

    if name.lower().endswith(".gguf") and not name.startswith((".", "/", "~")):
        return gguf_refused(name)  # also org/name/file.gguf on the Hub
    try:
        names = sorted(entry.name for entry in path.parent.iterdir() if entry.suffix in _FILE_ENDINGS)
    except PermissionError as error:
        return BadFile(f"{name} can't be looked up", cause=f"the folder {path.parent}: {error.strerror}")
    except (OSError, ValueError):
        return BadFile(f"there is no file or folder {name}", cause=f"the folder {path.parent} doesn't exist either")
    near = _nearest(path.name, names)
    hint = f"did you mean {path.parent / near[0]}?" if near else f"it holds {listed(names)}" if names else None
    return BadFile(
        f"there is no file or folder {name}", cause=f"the folder {path.parent} has nothing by that name", hint=hint
    )


def _no_revision(revision: str | None, what: str) -> None:
    if revision is not None:
        raise UsageError(
            f"--revision {revision} needs a Hub id", cause=f"{what} has no revisions", hint="leave --revision out"
        )


def _from_hub(name: str, revision: str | None, *, offline: bool) -> Document:
    from kvplan.sources.hub import HUB_ID, HubName, hub_document

    url = _URL.fullmatch(name)
    if url is not None:
        at = url["at"] or url["revision"]
        name = url["repo"] + (f"@{at}" if at else "")
    match = HUB_ID.fullmatch(name)
    if match is None:
        raise _unknown(name)
    if revision is not None and match["revision"] not in {None, revision}:
        raise UsageError(f"{name} and --revision {revision} name different revisions", hint="leave one of them out")
    hub_name = HubName(match["repo"], revision or match["revision"])
    bundled = name_of(hub_name.repo)
    try:
        return hub_document(hub_name, offline=offline)
    except Offline:
        if bundled is None or hub_name.revision is not None:
            raise
        document = bundled_document(bundled)
        return replace(document, notes=(f"offline and not in the Hub cache: the bundled {bundled} was used",))
    except (Gated, Unreachable) as error:
        if bundled is not None:
            _also(error, _along(bundled, hub_name.revision))
        if Path(name).parent.is_dir():
            _also(error, f"if {name} is meant to be a folder: there is none")
        raise


def _along(bundled: str, revision: str | None) -> str:
    """What to type if the Hub doesn't answer. A revision exists only on the Hub."""
    brought = f"kvplan has this model bundled: {bundled}"
    return brought if revision is not None else f"{brought}, and --offline answers by its config"


def _also(error: SourceError, hint: str) -> None:
    before = error.problem.hint
    error.problem = replace(error.problem, hint=f"{before}; {hint}" if before else hint)


def _unknown(name: str) -> UnknownName:
    near = _suggestions(name.partition("@")[0])
    hint = "give a bundled name (kvplan models lists them), a Hub id like org/name, or the path of a config.json"
    if near:
        hint = f"did you mean {any_of(near)}? Or " + hint
    shown = name if len(name) <= _SHOWN else name[:_SHOWN] + "..."
    return UnknownName(
        f"no model is called {shown!r}", cause="it isn't a bundled name, a path or a Hub id (org/name)", hint=hint
    )


_SHOWN = 80


def _suggestions(name: str) -> list[str]:
    """Up to three bundled names that `name` may stand for, by its letters and digits or by an alias."""
    known = index()
    near = _nearest(name, known.aliases)
    return list(dict.fromkeys(known.aliases[spelling] for spelling in near))[:3]


def _nearest(name: str, known: Iterable[str]) -> list[str]:
    plain: dict[str, str] = {}
    for spelling in known:
        plain.setdefault(_plain(spelling), spelling)
    target = _plain(name)[:_SHOWN]
    starts = [spelling for bare, spelling in plain.items() if len(target) > 2 and bare.startswith(target)]
    close = [plain[bare] for bare in nearest(target, plain, most=6, cutoff=0.7)]
    return list(dict.fromkeys(close[:1] + starts + close))


def _plain(name: str) -> str:
    """Only letters and digits, without the organization: `Meta-Llama/Llama 3_70B` and `llama3-70b` are equal."""
    return re.sub(r"[^a-z0-9]", "", name.lower().rpartition("/")[2])
