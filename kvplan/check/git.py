"""Another revision's files, read from git's object store: no checkout, no shell, no hook, no filter, nothing written.

Only plumbing is run (rev-parse, ls-tree, cat-file), with a resolved commit, never with a name that somebody typed.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kvplan.errors import BadFile, UsageError
from kvplan.units import MIB

TIMEOUT_S = 60
MAX_BYTES = 16 * MIB
_DESCRIPTIONS = (".json", ".yaml", ".yml")
_QUIET = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}


@dataclass(frozen=True, slots=True)
class GitTree:
    """The files of one commit, copied to a temporary folder as they are asked for.

    root: of the repository. commit: its full hash. copies: where copies go. folder: what names are relative to. asked:
    what git was asked for, which is not asked twice: most names of models are no files.
    """

    root: Path
    commit: str
    copies: Path
    folder: Path
    asked: set[Path] = field(default_factory=set, compare=False)

    def path(self, name: str) -> Path:
        """Where the copy of a file or folder is; what is outside of the repository is itself."""
        absolute = Path(os.path.normpath(self.folder / name))
        if not absolute.is_relative_to(self.root):
            return absolute
        inside = absolute.relative_to(self.root)
        copy = self.copies / inside
        if inside not in self.asked and inside.parts:
            self.asked.add(inside)
            self._copy(inside, copy)
        return copy

    def _copy(self, inside: Path, copy: Path) -> None:
        kind, size = self._entry(inside)
        if kind == "blob":
            self._blob(inside, copy, size)
        elif kind == "tree":
            copy.mkdir(parents=True, exist_ok=True)
            for child, size in self._children(inside):
                if child.suffix.lower() in _DESCRIPTIONS:
                    self._blob(child, self.copies / child, size)

    def _blob(self, inside: Path, copy: Path, size: int) -> None:
        if size > MAX_BYTES:
            raise BadFile(
                f"{inside.as_posix()} at {self.commit[:12]} is too large", cause=f"it has {size / MIB:.0f} MiB"
            )
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(_git(self.root, "cat-file", "blob", f"{self.commit}:{inside.as_posix()}"))

    def _entry(self, inside: Path) -> tuple[str, int]:
        """Kind and size of one path; links count as nothing, as they may lead anywhere."""
        for mode, kind, size, path in self._list(f":(literal){inside.as_posix()}"):
            if path == inside.as_posix() and mode != "120000":
                return kind, size
        return "", 0

    def _children(self, inside: Path) -> Iterator[tuple[Path, int]]:
        for mode, kind, size, path in self._list(f":(literal){inside.as_posix()}/"):
            if kind == "blob" and mode != "120000":
                yield Path(path), size

    def _list(self, pathspec: str) -> Iterator[tuple[str, str, int, str]]:
        listed = _git(
            self.root, "ls-tree", "-z", "-l", "--full-tree", self.commit, "--", pathspec.removeprefix(":(literal)")
        )
        for record in listed.decode("utf-8", "surrogateescape").split("\0"):
            if record:
                head, _, path = record.partition("\t")
                mode, kind, _, size = head.split()
                yield mode, kind, int(size) if size.isdigit() else 0, path


@contextmanager
def revision(ref: str) -> Iterator[GitTree]:
    """The tree of a branch, tag or commit of the repository around the current folder.

    Raises: UsageError if there is no repository, or no such revision in it.
    """
    import tempfile

    here = Path.cwd()
    root = Path(os.fsdecode(_git(here, "rev-parse", "--show-toplevel").rstrip(b"\n")))
    commit = _commit(root, ref)
    with tempfile.TemporaryDirectory(prefix="kvplan-") as copies:
        yield GitTree(root, commit, Path(copies).resolve(), here.resolve())


def _commit(root: Path, ref: str) -> str:
    try:
        found = _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    except UsageError:
        raise UsageError(
            f"git has no revision {ref!r}",
            cause="it isn't a branch, tag or commit of this clone; clones of CI are often shallow",
            hint="fetch it first: git fetch origin main (actions/checkout: fetch-depth: 0)",
        ) from None
    return found.decode("ascii", "replace").strip()


def _git(folder: Path, *words: str) -> bytes:
    """Output of a read-only git command.

    Raises: UsageError.
    """
    command = [
        "git",
        "--no-pager",
        "-c",
        "core.fsmonitor=false",
        "-c",
        "core.hooksPath=/dev/null",
        "-C",
        str(folder),
        *words,
    ]
    try:
        done = subprocess.run(  # noqa: S603 - a fixed program, no shell, arguments are data
            command, check=False, capture_output=True, timeout=TIMEOUT_S, env={**os.environ, **_QUIET}
        )
    except FileNotFoundError:
        raise UsageError(
            "git isn't installed", cause="--base reads another revision from it", hint="install it, or leave --base out"
        ) from None
    except subprocess.TimeoutExpired:
        raise UsageError(
            "git doesn't answer", cause=f"nothing for {TIMEOUT_S} s", hint="run it again, or leave --base out"
        ) from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise UsageError(
            "git can't read this repository",
            cause=said[0] if said else f"git {words[0]} failed",
            hint="git status here says more; without --base nothing is read from git",
        )
    return done.stdout
