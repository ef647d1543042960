"""The folder that each command of a script runs in, as far as `cd` and `pushd` say so.

Source: POSIX sh cd, bash pushd and popd. A script is taken to be started in its own folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from posixpath import join, normpath

from kvplan.manifests.shell.options import program
from kvplan.manifests.shell.parser import Script, Word

OWN = "."
"""The folder of the file itself; others are relative to it, or absolute."""
_CHANGING = frozenset({"cd", "pushd", "popd"})
_DIRNAME = r"\$\(dirname (?:-- )?\"?(?:\$0|\$\{0\}|\$BASH_SOURCE|\$\{BASH_SOURCE(?:\[0\])?\})\"?\)"
_OWNS = rf"(?:{_DIRNAME}|\$\(cd (?:-- )?\"?{_DIRNAME}\"? *(?:&&|;) *pwd(?: -P)?\))"
"""How a script names its own folder."""
_HELD = re.compile(
    rf"^[ \t]*(?:(?:export|readonly|declare|local)[ \t]+)?(\w+)=\"?{_OWNS}\"?[ \t]*$", re.ASCII | re.MULTILINE
)
"""A variable that holds it."""
_BELOW = re.compile(rf"(?:{_OWNS}|\$\{{?(?P<name>\w+)\}}?)(?P<rest>/[^$`]*)?", re.ASCII)
"""The folder, and what lies below."""


def joined(folder: str | None, path: str) -> str | None:
    """A path seen from the file's own folder, where it stands in a command that runs in `folder`; None where that isn't known."""
    if folder is None:
        return None
    whole = normpath(join(folder, path))
    return whole if whole.startswith(("/", ".")) else f"./{whole}"


def of_commands(script: Script, start: str | None, text: str = "") -> Iterator[str | None]:
    """The folder of each command; None where that isn't known. start: that of the first. text: the script, for variables with its folder.

    A `cd` that may not run leaves it unknown, and so does one further down for what a function or a loop may run after it.
    """
    moves = [number for number, (words, _, _) in enumerate(script.commands) if program(words[0]) in _CHANGING]
    last = moves[-1] if moves else -1
    folder = start
    named = {name for name in _HELD.findall(text) if len(re.findall(rf"\b{name}=", text)) == 1}
    for number, (words, _, _) in enumerate(script.commands):
        sure = number in script.sure
        yield folder if sure or number > last else None
        if program(words[0]) in _CHANGING:
            folder = _after(words, folder, named) if sure else None


def _after(words: Sequence[Word], folder: str | None, named: AbstractSet[str]) -> str | None:
    """The folder after a `cd` in one. named: variables with the script's own."""
    places = [word for word in words[1:] if not word.text.startswith("-")]
    if len(places) != 1 or words[0].text == "popd":
        return None
    (place,) = places
    if place.unknown is not None:
        own = _BELOW.fullmatch(place.text)
        known = own is not None and (own["name"] is None or own["name"] in named)
        return joined(OWN, f"./{own['rest'] or ''}") if own is not None and known else None
    return None if place.text.startswith(("~", "+")) else joined(folder, place.text)
