"""A vLLM command line as vLLM's own parser would read it: the model, the flags that decide memory, and the remarks.

Underscores are dashes, `--flag=value` and `--flag value` are alike, `--config file.yaml` stands before everything else,
JSON may be given as text or as `--flag.key value`. Flags that don't touch memory are skipped; those that do and that
kvplan doesn't count become remarks, so that nobody takes the plan for more than it is.

Source: vLLM 0.33 utils/argparse_utils.py and engine/arg_utils.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kvplan.errors import BadFile
from kvplan.manifests.flags import names, speculative
from kvplan.manifests.flags.command import Arguments, CantRead, FindConfig, Value, tree_of
from kvplan.manifests.flags.repairs import meant
from kvplan.manifests.placeholders import marked
from kvplan.manifests.places import UNSEEN, Level, Place
from kvplan.manifests.shell.parser import Word
from kvplan.manifests.yaml_nodes import Node, plain

if TYPE_CHECKING:
    from kvplan.engines.vllm.tables.versions import Version


def read_arguments(
    words: Sequence[Word], file: str, find: FindConfig, *, positional: bool, release: Version | None = None
) -> Arguments:
    """Model and flags from the words after `vllm serve` (or of the API server module, whose model is a flag).

    positional: whether a first word that isn't a flag is the model. release: whose parser it is; None for the newest's.

    Raises: CantRead where an unknown word hides what matters.
    """
    found = Arguments(file, positional, release)
    rest = list(meant(map(marked, words), found))
    config = _take_config(rest, found)
    if config is not None:
        _read_config(config, find, found)
    _Reader(found, rest, positional=positional).run()
    return found


def _take_config(rest: list[Word], found: Arguments) -> Word | None:
    for index, word in enumerate(rest):
        if word.text == "--config" and index + 1 < len(rest):
            taken = rest[index + 1]
            del rest[index : index + 2]
            return taken
        if word.text.startswith("--config="):
            found.remark(
                "bad-argument",
                "vLLM reads `--config FILE`, and passes over --config=FILE",
                Place(found.file, word.line),
            )
            del rest[index]
            return None
    return None


def _read_config(word: Word, find: FindConfig, found: Arguments) -> None:
    from kvplan.manifests.yaml_nodes import documents

    place = Place(found.file, word.line)
    if word.unknown is not None:
        raise CantRead(f"its --config is {word.unknown}, {word.whose}", place)
    config = find(word.text)
    if config is None:
        raise CantRead(f"its --config {word.text} is not here", place)
    try:
        for document in documents(config.text, config.name)[:1]:
            read_config(document, config.name, config.first, found)
    except BadFile as error:
        raise CantRead(f"its --config can't be read: {error.problem.what}", place) from None


def read_config(document: Node, file: str, first: int, found: Arguments) -> None:
    """The flags of a --config file whose text starts on line `first` of `file`."""
    for name, node in document.keys.items():
        _configured(name.replace("_", "-"), node, Place(file, node.key_line + first - 1), found)


def _configured(key: str, node: Node, place: Place, found: Arguments) -> None:
    """One entry of a --config file.

    True is a switch; false is passed over by `vllm serve`, whatever one may think; nothing is the word None.

    Source: vLLM 0.33 utils/argparse_utils.py load_config_file, where the `--no-` names are looked for among the flags
    of the parser above the subcommand; asked of vLLM itself by tests/oracles/vllm_arguments.py.
    """
    name, on = names.switched(names.ALIASES.get(key, key))
    if node.kind == "bool":
        _configured_switch(name, place, found, on=on, value=bool(plain(node)))
    elif isinstance(node.value, str):
        word = marked(Word(node.value, place.line))
        _check_known(name, word, place)
        if name == "model":
            found.model = word
        if name == "model" or node.kind != "null":
            found.flags[name] = _given(f"--{name}", word, node.value, place)
        elif name in names.NEVER_NONE or names.takes(name, found.release) == "switch":
            text = f"vLLM refuses `{key}:` without a value in a --config file: it reads --{key} None"
            found.remark("bad-argument", text, place, "error", about=name)
    else:
        found.flags[name] = Value(None, place, tree=plain(node))


def _configured_switch(name: str, place: Place, found: Arguments, *, on: bool, value: bool) -> None:
    """`NAME: value`, or `no-NAME: value` where it isn't on."""
    if value:
        found.flags[name] = Value(None, place, on=on)
    elif names.takes(name, found.release) == "switch" and found.subcommand:
        given, other = (name, f"no-{name}") if on else (f"no-{name}", name)
        text = f"`vllm serve` passes over `{given}: false` in a --config file: give --{other} on the command line"
        found.remark("bad-argument", text, place)
    elif names.takes(name, found.release) == "switch" and on:
        found.flags[name] = Value(None, place, on=False)


@dataclass(slots=True)
class _Reader:
    """Words on their way to flags. named: whether the model was. doubtful: whether the last flag may take more than was read."""

    found: Arguments
    rest: list[Word]
    positional: bool
    at: int = 0
    named: bool = False
    doubtful: bool = False

    def run(self) -> None:
        while self.at < len(self.rest):
            word = self.rest[self.at]
            self.at += 1
            if word.text == "--":
                continue
            if word.text.startswith("-") and len(word.text) > 1 and not _NUMBER.fullmatch(word.text):
                self.flag(word)
            else:
                self.bare(word)

    def bare(self, word: Word) -> None:
        place = Place(self.found.file, word.line)
        if word.unknown is not None and (self.named or not self.positional or self.is_no_model(word)):
            self.unread(word, place)
        elif self.positional and not self.named:
            if "\n" in word.text.strip():
                why = "a script stands where its model should: a shell has to run it (`command: [bash, -c]`)"
                raise CantRead(why, place)
            self.model(word)
        else:
            # After a flag that nobody knows, or that some release reads otherwise, it may be that flag's.
            level: Level = "warn" if self.doubtful or not self.positional else "error"
            self.found.remark("bad-argument", f"vLLM doesn't expect {word.text!r} here", place, level)

    def is_no_model(self, word: Word) -> bool:
        """Whether an unknown word is none, as it could only be a flag, or as the model is named further on."""
        named = any(each.text.partition("=")[0] == "--model" for each in self.rest[self.at :])
        return named or _FLAG_OR_NOTHING.match(word.text) is not None

    def unread(self, word: Word, place: Place) -> None:
        """A word that may be any number of flags, or the beginning of one."""
        self.found.remark(UNSEEN, f"{word.unknown} may add flags that kvplan can't see", place)
        self.doubtful = True

    def model(self, word: Word, called: str = "model") -> None:
        """A model on the command line; it replaces one of the --config file."""
        self.named = True
        self.found.model = word
        self.found.flags["model"] = _given(called, word, word.text, Place(self.found.file, word.line))

    def flag(self, word: Word) -> None:
        name, equals, text = word.text.partition("=")
        place = Place(self.found.file, word.line)
        if word.unknown is not None and word.unknown in name:
            self.unread(word, place)
            return
        name, on = _name(name, self.found.release)
        if isinstance(on, str):  # -O3
            self.set(name, replace(word, text=on), place)
            return
        name, _, inner = name.partition(".")
        name, on = _full(name, self.found.release, on=on)
        if inner:
            self.nested(name, inner, text if equals else self.next_word().text, place)
            return
        takes = names.takes(name, self.found.release)
        self.doubtful = not names.has(name) or (self.found.release is None and names.varies(name))
        if equals:
            self.set(name, replace(word, text=text), place)
        elif not on or takes == "switch":
            self.found.flags[name] = Value(None, place, on=on)
        elif takes == "several":
            self.several(name, place)
        elif self.value_follows():
            self.set(name, self.next_word(), place)
        elif takes == "value" and names.has(name):
            self.found.remark("bad-argument", f"vLLM refuses --{name}: it has no value", place, "error")
        else:
            self.found.flags[name] = Value(None, place)

    def several(self, name: str, place: Place) -> None:
        """A flag with any number of values, kept apart by blanks."""
        values: list[Word] = []
        while self.at < len(self.rest) and not self.rest[self.at].text.startswith("-"):
            values.append(self.next_word())
            _check_known(name, values[-1], place)
        told = next((word for word in values if word.unknown is not None), Word("", place.line))
        self.found.flags[name] = _given(f"--{name}", told, " ".join(word.text for word in values), place)

    def value_follows(self) -> bool:
        """Whether the next word is no flag: words with blanks, a lone dash and negative numbers are none."""
        if self.at >= len(self.rest):
            return False
        text = self.rest[self.at].text
        return not text.startswith("-") or text == "-" or " " in text or _NUMBER.fullmatch(text) is not None

    def next_word(self) -> Word:
        if self.at >= len(self.rest):
            return Word("", self.rest[-1].line)
        self.at += 1
        return self.rest[self.at - 1]

    def set(self, name: str, word: Word, place: Place) -> None:
        _check_known(name, word, place)
        if name == "model":
            self.model(word, "--model")
        elif names.takes(name, self.found.release) == "optional" and word.text.lower() in _BOOLEANS:
            self.found.flags[name] = Value(None, place, on=_BOOLEANS[word.text.lower()])
        else:
            self.found.flags[name] = _given(f"--{name}", word, word.text, place)

    def nested(self, name: str, path: str, text: str, place: Place) -> None:
        """`--speculative-config.num_speculative_tokens 3`."""
        value = self.found.flags.get(name)
        if value is None or not isinstance(tree_of(value), dict):
            value = self.found.flags[name] = Value(None, place, tree={})
        else:
            value.tree = tree_of(value)
        *above, last = path.rstrip("+").split(".")
        here = value.tree
        for key in above:
            here = here.setdefault(key, {})
        try:
            here[last] = json.loads(text)
        except ValueError:
            here[last] = text


def _given(called: str, word: Word, text: str, place: Place) -> Value:
    """The value of a flag. word: where what is unknown of it stands."""
    why = "" if word.unknown is None else f"its {called} is {word.unknown}, {word.whose}"
    return Value(text, place, unknown=word.unknown is not None, why=why)


def _check_known(name: str, word: Word, place: Place) -> None:
    """Raises: CantRead where only the shell knows a flag that is one part of several of which a plan is made."""
    if word.unknown is not None and name in speculative.FLAGS:
        raise CantRead(f"its --{name} is {word.unknown}, {word.whose}", place)


_NUMBER = re.compile(r"-\d+(\.\d+)?")
_FLAG_OR_NOTHING = re.compile(r"\$\{\w+:?\+[\"']?-", re.ASCII)
"""`${EAGER:+--enforce-eager}`, which is no model."""
_BOOLEANS = {"true": True, "false": False}
"""Values of switches that took one, up to 0.8.4. Source: vLLM 0.6.0 engine/arg_utils.py StoreBoolean."""


def _name(word: str, release: Version | None) -> tuple[str, bool | str]:
    """A flag's full name, and whether it is switched on; for `-O3` and `-qawq` the value instead.

    A short name that no flag has keeps its dash.
    """
    if word.startswith("--"):
        name, dot, inner = word[2:].partition(".")
        name, on = names.switched(name.replace("_", "-"))
        return name + dot + inner, on
    short, dot, inner = word[1:].partition(".")
    if short[:1] in names.SHORT and short not in names.SHORT and short[1:]:
        return names.short(short[0], release), short[1:] + dot + inner
    return names.short(short, release) + dot + inner, True


def _full(name: str, release: Version | None, *, on: bool) -> tuple[str, bool]:
    """The flag that an alias or the beginning of a name stands for, as argparse takes it where only one is meant."""
    name = names.ALIASES.get(name, name)
    if name in names.KNOWN or name.startswith("-"):
        return name, on
    every = names.of_release(release)
    meant = {known: on for known in every if known.startswith(name)}
    if name.startswith("no-"):
        plain = name.removeprefix("no-")
        meant |= {
            known: False for known in every if known.startswith(plain) and names.takes(known, release) == "switch"
        }
    (found,) = meant.items() if len(meant) == 1 else ((name, on),)
    return found
