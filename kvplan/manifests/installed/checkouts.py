"""What repositories hold that a script clones, after each command of git's: a release, or one that nobody can tell.

Source: https://git-scm.com/docs (git-clone, git-checkout, git-switch, git-reset).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from kvplan.manifests.installed import pins
from kvplan.manifests.installed.pins import Pin
from kvplan.manifests.shell.options import operands, option
from kvplan.manifests.shell.word import Word

PROJECT = "vllm"
"""The folder that a repository of vLLM's is cloned into."""
_BEFORE = frozenset({"-C", "-c", "--git-dir", "--work-tree"})
"""Options before the verb that take a value."""
_CLONING = frozenset({"-b", "--branch", "--depth", "-j", "--jobs", "-o", "--origin", "--filter", "-c", "--config"})
_NAMING = frozenset({"-b", "-B", "-c", "-C", "--orphan"})
"""Options of `checkout` and `switch` that name a branch which is made."""
_KEEPING = frozenset({
    "fetch", "status", "log", "show", "diff", "describe", "rev-parse", "config", "remote", "submodule", "branch", "tag", "lfs", "ls-files",
    "ls-remote", "init", "add", "clean", "--version", "version",
})  # fmt: skip
"""Verbs that leave the files of a repository as they are; any other one may change them."""


def after(words: Sequence[Word], folder: str, held: Mapping[str, Pin]) -> Mapping[str, Pin]:
    """What repositories hold, by their folders, after a command of git's in a folder. Those of other projects are `any`."""
    at = next(operands(words[1:], _BEFORE), None)
    if at is None:
        return held
    verb, rest = words[at + 1].text, words[at + 2 :]
    if verb == "clone":
        return {**held, **_cloned(rest, folder)}
    if verb in _KEEPING:
        return held
    named = option(words[: at + 1], *sorted(_BEFORE - {"-c"}))
    where = folder if named is None else last(named.text)
    # A folder that isn't known may lie in any of them.
    places = [where] if where in held else list(held)
    return {**held, **{place: _moved(words, verb, rest, held[place], known=where in held) for place in places}}


def _cloned(rest: Sequence[Word], folder: str) -> dict[str, Pin]:
    """`git clone --branch REF ADDRESS FOLDER`."""
    places = [rest[at] for at in operands(rest, _CLONING)]
    if not places:
        return {}
    address = places[0]
    name = last(places[1].text) if len(places) > 1 else last(address.text).removesuffix(".git")
    joined = (replace(word, text=word.text[2:]) for word in rest if re.fullmatch("-b.+", word.text))
    ref = option(rest, "-b", "--branch") or next(joined, None)
    said = address if ref is None else Word(f"git clone --branch {ref.text}", ref.line, ref.unknown)
    if pins.repository(address):
        pin = pins.reference(said, None if ref is None else ref.text)
    else:
        fork = PROJECT in address.text.lower() or address.unknown is not None
        pin = Pin(f"git clone {address.text}", address.line, "unclear" if fork else "any")
    return {folder if name == "." else name: pin}


def _moved(words: Sequence[Word], verb: str, rest: Sequence[Word], before: Pin, *, known: bool) -> Pin:
    """What a repository holds after a command that changes its files."""
    said = Word(" ".join(word.text for word in words)[:100], words[0].line)
    texts = {word.text for word in rest}
    refs = [rest[at] for at in operands(rest, _NAMING)]
    moves = verb in {"checkout", "switch"} or (verb == "reset" and "--hard" in texts)
    if before.kind == "any" or (known and moves and not refs):  # another project's; or a branch that is made here
        return before
    if known and moves and len(refs) == 1 and "--" not in texts:
        return pins.reference(replace(said, unknown=refs[0].unknown), refs[0].text)
    return before if before.kind == "newest" and not moves else Pin(said.text, said.line, "unclear")


def installed(word: Word, folder: str, held: Mapping[str, Pin], *, editable: bool) -> Pin | None:
    """The vLLM in a folder or file that is installed: `.`, `-e vllm`, `/src/vllm[audio]`; None for neither, and for another project's."""
    text = word.text.partition("[")[0]
    said = Pin(f"pip install {word.text}", word.line, "unclear")
    if text.endswith(".whl"):
        start, star, _ = last(text).partition("*")
        return said if star and PROJECT.startswith(start) else None
    if text.startswith("$"):
        return replace(said, kind="touched")
    if "://" in text and PROJECT in last(text.partition("#")[0]).lower() and pins.requirement(word) is None:
        return said  # a fork, an archive
    if "://" in text or not (editable or text in {".", ".."} or "/" in text):
        return None
    where = folder if text in {".", "./"} else last(text)
    if where in held:
        return held[where] if held[where].kind != "any" else None
    # A folder of unknown name, beside a checkout of a release, may be that one.
    sure = PROJECT in where or any(pin.kind in {"exact", "unclear"} for pin in held.values())
    return said if sure else replace(said, kind="touched")


def last(path: str) -> str:
    """The last name of a path."""
    return path.rstrip("/").rpartition("/")[2]
