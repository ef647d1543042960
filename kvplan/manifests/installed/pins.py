"""Which vLLM a requirement asks for: names with versions, wheels, repositories.

Source: PEP 440 and PEP 508 (versions, requirements), PEP 427 (names of wheels), pip's VCS support, conda's match specifications.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from kvplan.manifests.shell.word import Word

Kind = Literal["exact", "any", "newest", "touched", "listed", "doubted", "unclear"]


@dataclass(frozen=True, slots=True)
class Pin:
    """What is said of the vLLM that is installed, on a line of the file.

    said: in which words. kind: `exact` is one release, `any` what is there already or else the newest, `newest` that in any
    case, `unclear` one that nobody can tell from the words, `touched` the one before if nothing was done to it, `listed` that too, but
    for what a file says that isn't read, `doubted` probably one release. why: what makes it uncertain, as the beginning of a
    sentence; "" for the words themselves.
    """

    said: str
    line: int
    kind: Kind
    release: str | None = None
    why: str = ""

    @property
    def reason(self) -> str:
        """What makes it uncertain, as the beginning of a sentence."""
        return self.why or f"`{self.said[:100]}` doesn't settle which vLLM it runs"

    def doubting(self, release: str) -> Pin:
        """That these words may have changed a release that was there."""
        return replace(
            self, kind="doubted", release=release, why=f"vLLM {release} may have been changed by `{self.said[:100]}`"
        )

    def lost(self, why: str, line: int | None = None) -> Pin:
        """The same where something makes uncertain whether it is what runs, unless that was so before."""
        after = self.unclear
        return after if after.why or after == self else replace(after, why=why, line=line or self.line)

    @property
    def unclear(self) -> Pin:
        """The same where it isn't certain that it is what runs; no release was named by the others."""
        return (
            self if self.kind in {"any", "newest", "touched", "listed"} else replace(self, kind="unclear", release=None)
        )


_NAMED = re.compile(r"vllm\s*(?:\[[^\]]*\])?\s*(?P<rest>(?:[=<>!~@;].*)?)", re.ASCII | re.IGNORECASE | re.DOTALL)
"""A requirement of vLLM's by its name."""
_EXACT = re.compile(r"={2,3}\s*v?(\d[\w.]*)(?:\+\S*)?", re.ASCII)
_CONDA = re.compile(r"=v?(\d+\.\d+\.\d[\w.]*)(?:=\S*)?", re.ASCII)
"""`vllm=0.8.5`, with a build behind it or without."""
_AT_LEAST = re.compile(r">=?\s*v?\d[\w.]*", re.ASCII)
_WHEEL = re.compile(r"(?:^|/)vllm-(?P<rest>[^/]*)\.whl(?:[#?].*)?$", re.IGNORECASE)
_WHEELS_RELEASE = re.compile(r"(\d+\.\d+[\w.]*)(?:(?:\+|%2B)[^-]*)?-", re.ASCII | re.IGNORECASE)
_REPOSITORY = re.compile(
    r"(?:git\+)?(?:(?:https?|ssh|git)://|git@).*?/vllm(?:\.git)?(?:@(?P<ref>[^#]+))?(?:#.*)?", re.ASCII
)
_RELEASED = re.compile(r"(?:refs/tags/|tags/|releases/)?v?(\d+\.\d+(?:\.\d+)*(?:\.?(?:post|rc)\d+)?)", re.ASCII)
_MAIN = frozenset({"main", "master", "HEAD", "origin/main"})
NIGHTLY = "wheels.vllm.ai/nightly"
_BUILDS = "wheels.vllm.ai/"
"""Where builds of single commits are, and wheels of single releases."""


def requirement(word: Word) -> Pin | None:
    """What one word after `pip install` asks for; None for another package."""
    text = word.text.strip()
    if (named := _NAMED.fullmatch(text)) is not None:
        return _of_name(word, named["rest"].strip())
    if (wheel := _WHEEL.search(text)) is not None:
        return _of_wheel(word, wheel["rest"])
    if text.startswith("git+") and (repository := _REPOSITORY.fullmatch(text)) is not None:
        return reference(word, repository["ref"])
    return None


def _of_name(word: Word, rest: str) -> Pin:
    """`vllm`, and what follows the name."""
    match = _EXACT.fullmatch(rest) or _CONDA.fullmatch(rest)
    if word.unknown is not None:
        return Pin(word.text, word.line, "unclear")
    if match is not None and not match[1].endswith("."):
        return Pin(word.text, word.line, "exact", match[1])
    if rest.startswith("@"):
        address = Word(rest[1:].strip(), word.line)
        return requirement(address) or Pin(word.text, word.line, "unclear")
    free = not rest or _AT_LEAST.fullmatch(rest) is not None
    return Pin(word.text, word.line, "any" if free else "unclear")


def _of_wheel(word: Word, rest: str) -> Pin:
    """A wheel by its name; builds of the day count up to a release that isn't out."""
    match = _WHEELS_RELEASE.match(rest)
    if NIGHTLY in word.text:
        return Pin(word.text, word.line, "newest")
    if match is None or word.unknown is not None or "dev" in match[1]:
        return Pin(word.text, word.line, "unclear")
    return Pin(word.text, word.line, "exact", match[1])


def repository(word: Word) -> bool:
    """Whether a word is the address of a repository called vllm."""
    return _REPOSITORY.fullmatch(word.text) is not None


def reference(word: Word, ref: str | None) -> Pin:
    """What a repository of vLLM's holds at a branch, tag or commit; the newest where none is named."""
    match = _RELEASED.fullmatch(ref or "")
    if match is not None and word.unknown is None:
        return Pin(word.text, word.line, "exact", match[1])
    return Pin(word.text, word.line, "newest" if ref is None or ref in _MAIN else "unclear")


def index(word: Word) -> Pin | None:
    """What an option's value says that names vLLM's own wheels: those of the day, of a commit or of a release."""
    if _BUILDS not in word.text:
        return None
    return Pin(word.text.partition("=")[2] or word.text, word.line, "newest" if NIGHTLY in word.text else "unclear")
