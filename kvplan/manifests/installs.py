"""Which vLLM the commands of a script have installed, in which environment, as far as that is certain."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kvplan.manifests import pins
from kvplan.manifests.options import operands, option, program
from kvplan.manifests.pins import Pin
from kvplan.manifests.word import Word

_BEFORE = frozenset({"sudo", "env", "nice", "time", "nohup", "exec", "command"})
"""Commands whose words begin another one."""
_CONDAS = frozenset({"conda", "mamba", "micromamba"})
_PROJECT = "vllm"
"""The folder that a repository of vLLM's is cloned into."""
_SYSTEM = frozenset({"", "/usr", "/usr/local", "~/.local", "/root/.local", "$HOME/.local"})
"""Folders whose programs are on everybody's path."""
_UVS_OWN = ".venv"
"""The environment that uv makes, and uses where none is active."""
_VALUED = frozenset({
    "-r", "--requirement", "-c", "--constraint", "-i", "--index-url", "--extra-index-url", "--index", "-f", "--find-links", "-t",
    "--target", "--prefix", "--root", "-p", "--python", "-n", "--name", "--channel", "--torch-backend", "--prerelease", "--cache-dir",
    "--index-strategy", "--timeout", "--proxy", "--trusted-host", "--no-build-isolation-package", "--platform", "--only-binary", "--no-binary",
})  # fmt: skip
"""Options of an installer that take a value. `-c` is conda's channel."""
_UPGRADING = frozenset({"-U", "--upgrade", "--pre", "--force-reinstall", "--reinstall", "--prerelease", "--prerelease=allow"})  # fmt: skip
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash", "eval"})
_NESTED = re.compile(r"\binstall\b[^;&|]*\bvllm\b")
"""What a script within a script says where it installs vLLM: which, isn't followed."""
MOST_BEFORE = 8


@dataclass(frozen=True, slots=True)
class Installed:
    """What was installed so far.

    active: the environment that is active, "" for none. held: the vLLM of each. folder: the one that commands run in, by its last name.
    checkouts: what repositories of vLLM's hold, by their folders.
    """

    active: str = ""
    held: Mapping[str, Pin] = field(default_factory=dict)
    folder: str = ""
    checkouts: Mapping[str, Pin] = field(default_factory=dict)

    def after(self, words: Sequence[Word]) -> Installed:
        """The same after a command."""
        words, env = _own(words)
        first, second = (program(words[0]), words[1].text if len(words) > 1 else "") if words else ("", "")
        if first in {"source", "."} and second.endswith("bin/activate"):
            return replace(self, active=_folder(second))
        if first == "deactivate" or (first in _CONDAS and second == "deactivate"):
            return replace(self, active="")
        if second == "activate" and (first in _CONDAS or first == "source"):
            return replace(self, active=_environment(words[2].text) if len(words) > 2 else "")
        if first in {"cd", "pushd"}:
            return replace(self, folder=second.rstrip("/").rpartition("/")[2])
        if first == "git":
            return self._cloned(words)
        return self._installed(words, env)

    def _cloned(self, words: Sequence[Word]) -> Installed:
        """`git clone --branch REF ADDRESS FOLDER`, and `git checkout REF` in such a folder."""
        texts = [word.text for word in words]
        if "clone" in texts:
            at = next((at for at, word in enumerate(words) if pins.repository(word)), None)
            if at is None:
                return self
            ref = option(words, "-b", "--branch")
            name = texts[at + 1] if at + 1 < len(words) and not texts[at + 1].startswith("-") else _PROJECT
            said = Word(f"git clone --branch {ref.text}", ref.line, ref.unknown) if ref is not None else words[at]
            pin = pins.reference(said, ref.text if ref is not None else None)
            return replace(self, checkouts={**self.checkouts, _last(name): pin})
        if len(words) > 2 and texts[-2] in {"checkout", "switch"}:
            where = _last(texts[texts.index("-C") + 1]) if "-C" in texts else self.folder
            if where in self.checkouts:
                said = replace(words[-1], text=f"git checkout {texts[-1]}")
                return replace(self, checkouts={**self.checkouts, where: pins.reference(said, texts[-1])})
        return self

    def _installed(self, words: Sequence[Word], env: str | None) -> Installed:
        command = _installer(words)
        if command is None and (nested := _one_shell_down(words)) is not None:
            return replace(self, held={**self.held, self.active: Pin(nested.text, nested.line, "unclear")})
        if command is None or any(word.text == "--dry-run" for word in words):
            return self
        tool, verb, rest = command
        own = option(rest, "--python", "-p", "-n", "--name", "--prefix", "-t", "--target")
        into = _environment(own.text) if own is not None else env or _folder(words[0].text) or self.active
        if tool == "uv":
            into = "" if any(word.text == "--system" for word in rest) else _UVS_OWN if verb == "add" else into
        # Where none is active uv takes its own, or the system's where a variable says so.
        places = (into, _UVS_OWN) if tool == "uv" and into == "" else (into,)
        if verb == "uninstall":
            gone = [word for word in rest if pins.requirement(word) is not None]
            lost = {place: self.held[place].unclear for place in places if gone and place in self.held}
            return replace(self, held={**self.held, **lost})
        pin = self._asked(rest)
        if pin is None:
            return self
        found = {place: _over(self.held.get(place), pin) for place in places}
        return replace(self, held={**self.held, **found})

    def _asked(self, words: Sequence[Word]) -> Pin | None:
        """The vLLM among what is to be installed; None for other packages."""
        found: Pin | None = None
        upgrading = any(word.text in _UPGRADING for word in words)
        source = next((pin for word in words if (pin := pins.index(word)) is not None), None)
        for at in operands(words, _VALUED):
            editable = at > 0 and words[at - 1].text in {"-e", "--editable"}
            found = self._checkout(words[at], editable=editable) or pins.requirement(words[at]) or found
        if found is None or found.kind != "any":
            return found
        return source or (replace(found, kind="newest") if upgrading else found)

    def _checkout(self, word: Word, *, editable: bool) -> Pin | None:
        """A folder that is installed: `.`, `-e vllm`, `/src/vllm[audio]`; None for no such folder, and for another project's."""
        text = word.text.partition("[")[0]
        if "://" in text or text.endswith(".whl") or not (editable or text == "." or "/" in text):
            return None
        folder = self.folder if text in {".", "./"} else _last(text)
        if folder in self.checkouts:
            return self.checkouts[folder]
        return Pin(f"pip install {word.text}", word.line, "unclear") if folder == _PROJECT else None

    def running(self, words: Sequence[Word]) -> Pin | None:
        """The vLLM that a command runs; None where nothing is said of it."""
        own = [pin for word in _beside(words) if (pin := pins.requirement(word)) is not None]
        if own:
            return own[-1]
        words, env = _own(words)
        used = next((word for word in words[:MOST_BEFORE] if _is_python(word)), None)
        env = env or (_folder(used.text) if used is not None else "") or self.active
        if [program(word) for word in words[:1]] == ["uv"] and [word.text for word in words[1:2]] == ["run"]:
            env = _UVS_OWN
        if env in self.held:
            return self.held[env]
        # Installed into another environment: it may be the same one by another name.
        return next(
            (pin.unclear for pin in reversed(list(self.held.values())) if pin.kind not in {"any", "newest"}), None
        )

    @property
    def elsewhere(self) -> Installed:
        """The same for a command on another machine, which may have the same disk."""
        return Installed(held={env: pin.unclear for env, pin in self.held.items()})

    @property
    def image(self) -> Installed:
        """The same as an image has it, whose one vLLM runs whichever environment it is in."""
        found = dict.fromkeys(self.held.values())
        only = next(iter(found), None)
        if only is None:
            return Installed()
        return Installed(held={"": only if len({pin.release for pin in found}) == 1 else only.unclear})


def _over(before: Pin | None, pin: Pin) -> Pin:
    """What an environment holds after another installation: `vllm` alone leaves what is there."""
    if before is None or pin.kind != "any":
        return pin
    return before if pin.said.strip().isalnum() or before.kind != "exact" else before.unclear


def merged(states: Iterable[Installed]) -> Installed:
    """What is certain after one of several ways through a script."""
    first, *others = states
    if all(state == first for state in others):
        return first
    every = (first, *others)
    active = list(dict.fromkeys(state.active for state in every))
    return Installed(
        active=active[0] if len(active) == 1 else "|".join(sorted(active)),
        held=_merged([state.held for state in every]),
        folder=first.folder if all(state.folder == first.folder for state in others) else "",
        checkouts=_merged([state.checkouts for state in every]),
    )


def _merged(held: Sequence[Mapping[str, Pin]]) -> dict[str, Pin]:
    names = dict.fromkeys(name for each in held for name in each)
    found = {name: [each.get(name) for each in held] for name in names}
    return {
        name: said[0] if said[0] is not None and len(set(said)) == 1 else next(pin.unclear for pin in said if pin)
        for name, said in found.items()
    }


# what a command is


def _own(words: Sequence[Word]) -> tuple[Sequence[Word], str | None]:
    """A command without what only runs it, and the environment that this runs it in: `sudo`, `conda run -n a`."""
    env: str | None = None
    for _ in range(MOST_BEFORE):
        if not words:
            break
        first = program(words[0])
        if first in _BEFORE:
            words = _skipped(words[1:])
        elif first in _CONDAS and len(words) > 1 and words[1].text == "run":
            named = option(words[:MOST_BEFORE], "-n", "--name", "-p", "--prefix")
            env = _environment(named.text) if named is not None else env
            words = _skipped(words[2:])
        else:
            break
    return words, env


def _skipped(words: Sequence[Word]) -> Sequence[Word]:
    """The words after options and settings."""
    at = 0
    while at < len(words) and (words[at].text.startswith("-") or "=" in words[at].text.partition("/")[0]):
        at += 2 if words[at].text in {"-n", "-p", "-u", "--name", "--prefix", "-N", "--nodes"} else 1
    return words[at:]


def _installer(words: Sequence[Word]) -> tuple[str, str, Sequence[Word]] | None:
    """The installer that a command is, what it does, and the words after that; None for another command."""
    if not words:
        return None
    name, words = program(words[0]), words[1:]
    if name.startswith("python") and [word.text for word in words[:2]] in (["-m", "pip"], ["-m", "uv"]):
        name, words = words[1].text, words[2:]
    if name == "uv" and words and words[0].text in {"pip", "tool"}:
        words = words[1:]
    if not (name in _CONDAS or name in {"uv", "pipx", "poetry", "pixi"} or name.rstrip("0123456789.") == "pip"):
        return None
    at = next((at for at, word in enumerate(words) if not word.text.startswith("-")), None)
    if at is None or words[at].text not in {"install", "add", "uninstall", "remove", "create"}:
        return None
    verb = words[at].text
    return name, "uninstall" if verb == "remove" else verb, words[at + 1 :]


def _beside(words: Sequence[Word]) -> Iterator[Word]:
    """Requirements that a command brings itself: `uv run --with vllm==0.11.0 vllm serve`."""
    texts = [program(word) for word in words[:3]]
    if not {"uv", "uvx", "pipx"} & set(texts):
        return
    for index, word in enumerate(words):
        name, equals, value = word.text.partition("=")
        if name in {"--with", "--from", "--spec"}:
            yield replace(word, text=value) if equals else words[min(index + 1, len(words) - 1)]
        if word.text == "serve":
            return


def _is_python(word: Word) -> bool:
    """Whether a word is a program of a Python environment: Python, or vLLM's own."""
    return program(word) == "vllm" or program(word).startswith("python")


def _folder(path: str) -> str:
    """The environment that a program's path, or its activate script's, lies in; "" for what is on everybody's path."""
    folder, inside, _ = path.rpartition("/bin/")
    return "" if not inside or folder in _SYSTEM else _environment(folder)


def _environment(name: str) -> str:
    """An environment that is called by its name, its folder or its Python; "" for a Python that is called by its version."""
    if "/bin/" in name:
        return _folder(name)
    name = name.removeprefix("./").rstrip("/")
    return "" if name[:1].isdigit() else name.rpartition("/envs/")[2]


def _last(path: str) -> str:
    """The last name of a path."""
    return path.rstrip("/").rpartition("/")[2]


def within(words: Sequence[Word]) -> Pin | None:
    """That another place than this shell gets a vLLM by a command, which isn't followed there; None where none does."""
    said = " ".join(word.text for word in words)
    return Pin(said, words[0].line, "unclear") if _NESTED.search(said) else None


def _one_shell_down(words: Sequence[Word]) -> Word | None:
    """The script that `bash -c` or `eval` is given, if it installs vLLM."""
    if not words or program(words[0]) not in _SHELLS:
        return None
    return next((word for word in words[1:] if _NESTED.search(word.text)), None)
