"""The folder that each command of a script runs in, as far as `cd` and `pushd` say so.

Source: POSIX sh cd, bash pushd and popd. A script is taken to be started in its own folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from posixpath import join, normpath

from kvplan.manifests.shell.options import program
from kvplan.manifests.shell.parser import Script, Word

OWN = "."
"""The folder of the file itself; others are relative to it, or absolute."""
_CHANGING = frozenset({"cd", "pushd", "popd"})
_DIRNAME = r"\$\(dirname (?:-- )?\"?(?:\$0|\$\{0\}|\$BASH_SOURCE|\$\{BASH_SOURCE(?:\[0\])?\})\"?\)"
_SCRIPTS = re.compile(rf"(?:{_DIRNAME}|\$\(cd (?:-- )?\"?{_DIRNAME}\"? *(?:&&|;) *pwd(?: -P)?\))(/[^$`]*)?", re.ASCII)
"""How a script names its own folder, and what lies below."""


def joined(folder: str | None, path: str) -> str | None:
    """A path seen from the file's own folder, where it stands in a command that runs in `folder`; None where that isn't known."""
    if folder is None:
        return None
    whole = normpath(join(folder, path))
    return whole if whole.startswith(("/", ".")) else f"./{whole}"


def of_commands(script: Script, start: str | None) -> Iterator[str | None]:
    """The folder of each command; None where that isn't known. start: that of the first.

    A `cd` that may not run leaves it unknown, and so does one further down for what a function or a loop may run after it.
    """
    moves = [number for number, (words, _, _) in enumerate(script.commands) if program(words[0]) in _CHANGING]
    last = moves[-1] if moves else -1
    folder = start
    for number, (words, _, _) in enumerate(script.commands):
        sure = number in script.sure
        yield folder if sure or number > last else None
        if program(words[0]) in _CHANGING:
            folder = _after(words, folder) if sure else None


def _after(words: Sequence[Word], folder: str | None) -> str | None:
    """The folder after a `cd` in one."""
    places = [word for word in words[1:] if not word.text.startswith("-")]
    if len(places) != 1 or words[0].text == "popd":
        return None
    (place,) = places
    if place.unknown is not None:
        own = _SCRIPTS.fullmatch(place.text)
        return joined(OWN, f"./{own[1] or ''}") if own is not None else None
    return None if place.text.startswith(("~", "+")) else joined(folder, place.text)
