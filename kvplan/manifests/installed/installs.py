"""Which vLLM the commands of a script have installed, in which environment, as far as that is certain."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kvplan.manifests.installed import checkouts, pins, requirements, touching
from kvplan.manifests.installed.images import said_release
from kvplan.manifests.installed.pins import Kind, Pin
from kvplan.manifests.shell.options import operands, option, program
from kvplan.manifests.shell.word import Word

_BEFORE = frozenset({"sudo", "env", "nice", "time", "nohup", "exec", "command"})
"""Commands whose words begin another one."""
_CONDAS = frozenset({"conda", "mamba", "micromamba"})
_SYSTEM = frozenset({"", "/usr", "/usr/local", "~/.local", "/root/.local", "$HOME/.local", "${HOME}/.local"})
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
_FILES = ("-r", "--requirement", "--requirements", "--file")
"""Options that name a file of what is to be installed."""
MOST_BEFORE = 8
_PACKAGES = re.compile(r"/lib/python[^/]*/(?:site|dist)-packages$", re.ASCII)
Find = Callable[[str, str], str | None]
"""From a file's name and the folder it is named in to its text; None for a file that isn't here."""


def nothing(_path: str, _folder: str) -> None:
    """A file that isn't here."""


@dataclass(frozen=True, slots=True)
class Installed:
    """What was installed so far.

    active: the environment that is active, "" for none. held: the vLLM of each. folder: the one that commands run in, by its last name.
    checkouts: what repositories of vLLM's hold, by their folders. find: files of requirements.
    """

    active: str = ""
    held: Mapping[str, Pin] = field(default_factory=dict)
    folder: str = ""
    checkouts: Mapping[str, Pin] = field(default_factory=dict)
    find: Find = field(default=nothing, compare=False)

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
        if first in {"cd", "pushd", "popd"}:
            return replace(self, folder=checkouts.last(second))
        if first == "git":
            return self._checked_out(checkouts.after(words, self.folder, self.checkouts), words)
        return self._installed(words, env)

    def _checked_out(self, after: Mapping[str, Pin], words: Sequence[Word]) -> Installed:
        """The same with other files in repositories, which may be what runs where they were installed from: `pip install -e .`."""
        gone = {pin for name, pin in self.checkouts.items() if after[name] != pin}
        why = f"`{_text(words)}` may have changed what was installed from there"
        held = {name: pin.lost(why, words[0].line) if pin in gone else pin for name, pin in self.held.items()}
        return replace(self, held=held, checkouts=after)

    def on_path(self, setting: Word) -> Installed:
        """The same after PATH or PYTHONPATH was set: a folder that comes first in PATH is an environment that is activated."""
        if setting.text.startswith("PYTHONPATH"):
            return self.doubted(_said([setting], "touched")) if touching.shadows(setting.text) else self
        found = touching.environments(setting.text.partition("=")[2])
        return self if found in _SYSTEM else replace(self, active=_environment(found))

    def in_image(self, setting: Word) -> Installed:
        """The same after PATH or PYTHONPATH was set for an image, whose programs all find what was installed first there."""
        found = self.on_path(setting)
        known = any(found.active.endswith(place) for place in found.held if place)
        return found if found.active == self.active or known else self.doubted(_said([setting], "touched"))

    def doubted(self, pin: Pin) -> Installed:
        """The same after something that isn't read, as a pin says it."""
        return replace(self, held={name: _over(self.held.get(name), pin) for name in (*self.held, self.active)})

    def _installed(self, words: Sequence[Word], env: str | None) -> Installed:
        command = _installer(words)
        if command is None:
            return self._touched(words)
        if any(word.text == "--dry-run" for word in words):
            return self
        tool, verb, rest = command
        own = option(rest, "--python", "-p", "-n", "--name", "--prefix", "-t", "--target")
        into = _environment(own.text) if own is not None else env or _folder(words[0].text) or self.active
        if tool == "uv":
            own_one = verb in {"add", "sync"}
            into = "" if any(word.text == "--system" for word in rest) else _UVS_OWN if own_one else into
        # Where none is active uv takes its own, or the system's where a variable says so.
        places = (into, _UVS_OWN) if tool == "uv" and into == "" else (into,)
        if verb == "uninstall":
            gone = [word for word in rest if pins.requirement(word) is not None]
            why = f"`{_text(words)}` takes vLLM away, and nothing says what runs then"
            lost = {place: self.held[place].lost(why, words[0].line) for place in places if gone and place in self.held}
            return replace(self, held={**self.held, **lost})
        pin = self._asked(rest)
        if pin is None or pin.kind == "touched":
            pin = self._from_file(tool, verb, words, rest) or pin
        if pin is None:
            return self
        found = {place: _over(self.held.get(place), pin) for place in places}
        return replace(self, held={**self.held, **found})

    def _touched(self, words: Sequence[Word]) -> Installed:
        """The same after a command that is no installer."""
        if touching.installs(words) or touching.modules(words):
            return replace(self, held={**self.held, self.active: _said(words, "unclear")})
        if not touching.touches(words):
            return self
        # A script beside a checkout of a release is there to install it.
        certain = any(pin.kind in {"exact", "unclear"} for pin in self.checkouts.values())
        return self.doubted(_said(words, "unclear" if certain else "touched"))

    def _asked(self, words: Sequence[Word]) -> Pin | None:
        """The vLLM among what is to be installed; None for other packages."""
        found: Pin | None = None
        upgrading = any(word.text in _UPGRADING for word in words)
        source = next((pin for word in words if (pin := pins.index(word)) is not None), None)
        for at in operands(words, _VALUED):
            editable = at > 0 and words[at - 1].text in {"-e", "--editable"}
            folder = checkouts.installed(words[at], self.folder, self.checkouts, editable=editable)
            asked = folder or pins.requirement(words[at])
            found = asked if asked is not None and (found is None or asked.kind != "touched") else found
        if found is None or found.kind != "any":
            return found
        given = option(words, "-c", "--constraint", "-r", "--requirement")
        if given is not None and given.text.endswith(".txt"):  # conda's -c names a channel
            return replace(found, said=f"{found.said} with {given.text}", kind="unclear")
        return source or (replace(found, kind="newest") if upgrading else found)

    def _from_file(self, tool: str, verb: str, words: Sequence[Word], rest: Sequence[Word]) -> Pin | None:
        """What an installation from files leaves: what those say that are here; None for one that says nothing of vLLM."""
        if verb == "sync":
            return _said(words, "unclear")
        bare = tool in {"poetry", "pixi"} and next(operands(rest, _VALUED), None) is None
        if bare or verb == "env":
            return _said(words, "listed")
        said = _said(words, "listed")
        read = (requirements.said(path, said, lambda name: self.find(name, self.folder)) for path in _files(rest))
        found = [pin for pin in read if pin is not None]
        return found[0] if len(found) == 1 else said if found else None

    def running(self, words: Sequence[Word]) -> Pin | None:
        """The vLLM that a command runs; None where nothing is said of it."""
        own = [pin for word in _beside(words) if (pin := pins.requirement(word)) is not None]
        if own:
            return own[-1]
        words, env = _own(words)
        if not touching.stays(words):
            return _unsure([_moved(pin, words) for pin in self.held.values()]) if self.held else None
        used = next((word for word in words[:MOST_BEFORE] if touching.runs_python(word)), None)
        env = env or (_folder(used.text) if used is not None else "") or self.active
        if [program(word) for word in words[:1]] == ["uv"] and [word.text for word in words[1:2]] == ["run"]:
            env = _UVS_OWN
        held = self.held.get(env)
        if held is not None and held.kind not in {"touched", "listed"}:
            return held
        if (release := said_release(env)) is not None:
            why = f"nothing but the name of {env[:100]} says which vLLM it runs"
            return Pin(env, words[0].line, "doubted", release, why)
        if held is not None:
            return held
        # Installed into another environment: it may be the same one by another name.
        return (
            _unsure([_missed(pin, place, env, words) for place, pin in self.held.items()][::-1]) if self.held else None
        )

    def within(self, folder: str, path: str) -> Mapping[str, Pin]:
        """What environments of an image hold that lie in a folder; one of packages is its environment's. path: the image's PATH."""
        place, own = _PACKAGES.sub("", folder), touching.environments(path)
        own = own if own not in _SYSTEM else place if place in _SYSTEM else ""
        held = {env or own: pin for env, pin in self.held.items()}
        found = {env: pin for env, pin in held.items() if env and (env == place or env.startswith(f"{place}/"))}
        return {"" if env in _SYSTEM else env: pin for env, pin in found.items()}

    def seen(self, words: Sequence[Word], *, quoted: bool = False) -> Installed:
        """What a shell finds that a command starts. quoted: whether its script is one of the words."""
        return self if touching.stays(_own(words)[0], quoted=quoted) else self.moved(words)

    def moved(self, words: Sequence[Word]) -> Installed:
        """The same for what a command runs on another machine, which may have the same disk."""
        return Installed(held={env: _moved(pin, words) for env, pin in self.held.items()})

    @property
    def image(self) -> Installed:
        """The same as an image has it, whose one vLLM runs whichever environment it is in."""
        found = list(self.held.values())
        if not found:
            return Installed()
        return Installed(held={"": _agreed(found) or _unsure(found)})


def _over(before: Pin | None, pin: Pin) -> Pin:
    """What an environment holds after another installation: `vllm` alone leaves what is there."""
    if before is not None and pin.kind == "touched":
        return pin.doubting(before.release) if before.kind == "exact" and before.release is not None else before
    if pin.kind == "listed" and before is not None and before.kind in {"exact", "doubted", "unclear"}:
        return before if before.release is None else pin.doubting(before.release)
    if before is None or pin.kind != "any":
        return pin
    if pin.said.strip().isalnum() or before.kind not in {"exact", "doubted"}:
        return before
    return before.lost(f"`{pin.said[:100]}` may have replaced `{before.said[:100]}`", pin.line)


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
        find=first.find,
    )


def _unsure(several: Sequence[Pin]) -> Pin:
    """One of several: what nobody can tell, if any of them is more than the newest."""
    return next((pin.unclear for pin in several if pin.kind in {"exact", "doubted", "unclear"}), several[0])


def _agreed(several: Sequence[Pin | None]) -> Pin | None:
    """One of several that say the same, a doubtful one first; None where they differ."""
    said = [pin for pin in several if pin is not None]
    same = len(said) == len(several) and len({pin.release for pin in said}) == 1
    if not same or not (said[0].release is not None or len(set(said)) == 1):
        return None
    return next((pin for pin in said if pin.kind == "doubted"), said[0])


def _moved(pin: Pin, words: Sequence[Word]) -> Pin:
    """The same for a command that another one may run elsewhere."""
    return pin.lost(f"`{program(words[0])}` may run another vLLM than `{pin.said[:100]}`", words[0].line)


def _missed(pin: Pin, place: str, env: str, words: Sequence[Word]) -> Pin:
    """The same for a command in another environment than the one that it was installed in."""
    return pin.lost(
        f"it runs in {_called(env)}, and `{pin.said[:100]}` was installed in {_called(place)}", words[0].line
    )


def _called(env: str) -> str:
    """An environment in a sentence."""
    return env.replace("|", " or ")[:100] or "the default Python"


def _merged(held: Sequence[Mapping[str, Pin]]) -> dict[str, Pin]:
    names = dict.fromkeys(name for each in held for name in each)
    found = {name: [each.get(name) for each in held] for name in names}
    return {name: _agreed(said) or _unsure([pin for pin in said if pin]) for name, said in found.items()}


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


def own(words: Sequence[Word]) -> Sequence[Word]:
    """A command without what only runs it."""
    return _own(words)[0]


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
    if at is None or words[at].text not in {"install", "add", "uninstall", "remove", "create", "sync", "env"}:
        return None
    verb = words[at].text
    if verb == "env" and not {"create", "update"} & {word.text for word in words}:  # of conda's
        return None
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


def _files(words: Sequence[Word]) -> Iterator[Word]:
    """Files of what is to be installed: `-r FILE`, `-rFILE`, `--requirement=FILE`."""
    for at, word in enumerate(words):
        name, equals, value = word.text.partition("=")
        if name in _FILES:
            yield replace(word, text=value) if equals else words[min(at + 1, len(words) - 1)]
        elif word.text.startswith("-r"):
            yield replace(word, text=word.text[2:])


def _said(words: Sequence[Word], kind: Kind) -> Pin:
    return Pin(_text(words), words[0].line, kind)


def _text(words: Sequence[Word]) -> str:
    return " ".join(word.text for word in words)[:100]


def within(words: Sequence[Word]) -> Pin | None:
    """That another place than this shell gets a vLLM by a command, which isn't followed there; None where none does."""
    return described(" ".join(word.text for word in words), words[0].line)


def described(script: str, line: int) -> Pin | None:
    """That a script which isn't followed installs vLLM; None for one that doesn't."""
    return Pin(script.strip()[:100], line, "unclear") if touching.mentions(script) else None
