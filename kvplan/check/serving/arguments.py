"""A vLLM command line as vLLM's own parser would read it: the model, the flags that decide memory, and the remarks.

Underscores are dashes, `--flag=value` and `--flag value` are alike, `--config file.yaml` stands before everything else,
JSON may be given as text or as `--flag.key value`. Flags that don't touch memory are skipped; those that do and that
kvplan doesn't count become remarks, so that nobody takes the plan for more than it is.

Source: vLLM 0.33 utils/argparse_utils.py and engine/arg_utils.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kvplan.check.budget import Level, Place, Remark
from kvplan.check.build import EVERY_RANK, STRETCHED
from kvplan.check.flags import VLLM, human, switch, whole
from kvplan.check.merge import Key, Placed
from kvplan.check.serving import names
from kvplan.check.serving.nodes import Node, plain
from kvplan.check.serving.words import Word
from kvplan.errors import KvplanError

ENDLESS = -1
"""A context that vLLM is asked to choose itself: the longest that fits."""


class Given(Placed):
    """A value from a serve command."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Command:
    """A serve command that was read. name: of its container, service or line. layer: what it says, by a budget's keys."""

    name: str
    place: Place
    layer: Mapping[Key, Placed]
    remarks: tuple[Remark, ...] = ()


class CantRead(Exception):
    """Why a serve command can't be checked; `place` is where it stops making sense."""

    def __init__(self, why: str, place: Place) -> None:
        super().__init__(why)
        self.place = place


@dataclass(frozen=True, slots=True)
class Configured:
    """A `--config` file: its name in reports, its text, and the line of the file where that text starts."""

    name: str
    text: str
    first: int = 1


FindConfig = Callable[[str], Configured | None]
"""From the path in a command to the file's text, where that can be known."""


@dataclass(slots=True)
class _Value:
    """A flag as given: its text (None for a bare switch), whether it is on, and where."""

    text: str | None
    place: Place
    on: bool = True
    tree: Any = None


@dataclass(slots=True)
class Arguments:
    """What the words say. subcommand: whether they follow `vllm serve`. model: as positional or flag."""

    file: str
    subcommand: bool = True
    model: Word | None = None
    flags: dict[str, _Value] = field(default_factory=dict)
    remarks: list[Remark] = field(default_factory=list)

    def remark(self, rule: str, text: str, place: Place, level: Level = "warn") -> None:
        """Note something once."""
        entry = Remark(rule, text, place, level)
        if entry not in self.remarks:
            self.remarks.append(entry)


def read_arguments(words: Sequence[Word], file: str, find: FindConfig, *, positional: bool) -> Arguments:
    """Model and flags from the words after `vllm serve` (or of the API server module, whose model is a flag).

    positional: whether a first word that isn't a flag is the model.

    Raises: CantRead where an unknown word hides what matters.
    """
    found = Arguments(file, subcommand=positional)
    rest = _split_fused(words, found)
    config = _take_config(rest, found)
    if config is not None:
        _read_config(config, find, found)
    _Reader(found, rest, positional=positional).run()
    return found


def _split_fused(words: Sequence[Word], found: Arguments) -> list[Word]:
    """Words as they are; `--max-model-len 8192` in one word, which vLLM refuses, as the two that were meant."""
    out: list[Word] = []
    for word in words:
        match = _FUSED.fullmatch(word.text)
        if match is None or word.unknown is not None:
            out.append(word)
            continue
        out += [Word(match[1], word.line), Word(match[2].strip(), word.line)]
        found.remark(
            "bad-argument",
            f"{word.text!r} is one argument, which vLLM doesn't recognise: write {match[1]}={match[2].strip()} or two items",
            Place(found.file, word.line),
            "error",
        )
    return out


_FUSED = re.compile(r"(--[A-Za-z][A-Za-z0-9_-]*)[ \t]+(\S.*)", re.DOTALL)


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
    from kvplan.check.serving.nodes import documents

    place = Place(found.file, word.line)
    if word.unknown is not None:
        raise CantRead(f"its --config is {word.unknown}, which only the shell knows", place)
    config = find(word.text)
    if config is None:
        raise CantRead(f"its --config {word.text} is not here", place)
    for document in documents(config.text, config.name)[:1]:
        read_config(document, config.name, config.first, found)


def read_config(document: Node, file: str, first: int, found: Arguments) -> None:
    """The flags of a --config file whose text starts on line `first` of `file`."""
    for name, node in document.keys.items():
        _configured(name.replace("_", "-"), node, Place(file, node.key_line + first - 1), found)


def _configured(name: str, node: Node, place: Place, found: Arguments) -> None:
    """One entry of a --config file. True is a switch; false is passed over by `vllm serve`, whatever one may think.

    Source: vLLM 0.33 utils/argparse_utils.py load_config_file, where the `--no-` names are looked for among the flags
    of the parser above the subcommand; asked of vLLM itself by tests/oracles/vllm_arguments.py.
    """
    name = names.ALIASES.get(name, name)
    if node.kind == "bool":
        if plain(node):
            found.flags[name] = _Value(None, place)
        elif name in names.SWITCHES and found.subcommand:
            text = f"`vllm serve` passes over `{name}: false` in a --config file: give --no-{name} on the command line"
            found.remark("bad-argument", text, place)
        elif name in names.SWITCHES:
            found.flags[name] = _Value(None, place, on=False)
    elif isinstance(node.value, str):
        if name == "model":
            found.model = Word(node.value, place.line)
            found.flags["model"] = _Value(node.value, place)
        elif node.kind != "null":
            found.flags[name] = _Value(node.value, place)
    else:
        found.flags[name] = _Value(None, place, tree=plain(node))
    _check_known(name, place, found)


@dataclass(slots=True)
class _Reader:
    found: Arguments
    rest: list[Word]
    positional: bool
    at: int = 0
    named: bool = False

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
        if word.unknown is not None and (self.named or not self.positional):
            self.found.remark("unread-arguments", f"{word.unknown} may add flags that kvplan can't see", place)
        elif self.positional and not self.named:
            self.model(word)
        else:
            self.found.remark("bad-argument", f"vLLM doesn't expect {word.text!r} here", place)

    def model(self, word: Word) -> None:
        """A model on the command line; it replaces one of the --config file."""
        if word.unknown is not None:
            raise CantRead(
                f"its model is {word.unknown}, which only the shell knows", Place(self.found.file, word.line)
            )
        self.named = True
        self.found.model = word
        self.found.flags["model"] = _Value(word.text, Place(self.found.file, word.line))

    def flag(self, word: Word) -> None:
        name, equals, text = word.text.partition("=")
        place = Place(self.found.file, word.line)
        name, on = _name(name)
        if isinstance(on, str):  # -O3
            self.found.flags[name] = _Value(on, place)
            return
        name, _, inner = name.partition(".")
        name, on = _full(name, on=on)
        if inner:
            self.nested(name, inner, text if equals else self.next_word().text, place)
            return
        _check_known(name, place, self.found)
        if equals:
            self.set(name, Word(text, word.line, word.unknown), place)
        elif not on or name in names.SWITCHES or name in names.GONE_SWITCHES:
            self.found.flags[name] = _Value(None, place, on=on)
        elif name in names.SEVERAL:
            while self.at < len(self.rest) and not self.rest[self.at].text.startswith("-"):
                self.at += 1
            self.found.flags[name] = _Value("", place)
        elif name in names.KNOWN or self.value_follows():
            self.set(name, self.next_word(), place)
        else:
            self.found.flags[name] = _Value(None, place)

    def value_follows(self) -> bool:
        return self.at < len(self.rest) and not self.rest[self.at].text.startswith("-")

    def next_word(self) -> Word:
        if self.at >= len(self.rest):
            return Word("", self.rest[-1].line)
        self.at += 1
        return self.rest[self.at - 1]

    def set(self, name: str, word: Word, place: Place) -> None:
        if word.unknown is not None and name in (*_MEANT, *_UNCOUNTED):
            raise CantRead(f"its --{name} is {word.unknown}, which only the shell knows", place)
        if name == "model":
            self.model(word)
        else:
            self.found.flags[name] = _Value(word.text, place)

    def nested(self, name: str, path: str, text: str, place: Place) -> None:
        """`--speculative-config.num_speculative_tokens 3`."""
        value = self.found.flags.get(name)
        if value is None or not isinstance(_tree(value), dict):
            value = self.found.flags[name] = _Value(None, place, tree={})
        else:
            value.tree = _tree(value)
        *above, last = path.rstrip("+").split(".")
        here = value.tree
        for key in above:
            here = here.setdefault(key, {})
        try:
            here[last] = json.loads(text)
        except ValueError:
            here[last] = text


_NUMBER = re.compile(r"-\d+(\.\d+)?")


def _name(word: str) -> tuple[str, bool | str]:
    """A flag's full name, and whether it is switched on; for `-O3` the value instead."""
    if word.startswith("--"):
        name, dot, inner = word[2:].partition(".")
        name = name.replace("_", "-") + dot + inner
        if name.startswith("no-") and name[3:] in names.KNOWN:
            return name[3:], False
        return name, True
    short, dot, inner = word[1:].partition(".")
    if short.startswith("O") and short[1:]:
        return "optimization-level", short[1:]
    return names.SHORT.get(short, short) + dot + inner, True


def _full(name: str, *, on: bool) -> tuple[str, bool]:
    """The flag that an alias or the beginning of a name stands for, as argparse takes it where only one is meant."""
    name = names.ALIASES.get(name, name)
    if name in names.KNOWN:
        return name, on
    meant = {known: on for known in names.CURRENT if known.startswith(name)}
    if name.startswith("no-"):
        meant |= {known: False for known in names.SWITCHES if known.startswith(name.removeprefix("no-"))}
    (found,) = meant.items() if len(meant) == 1 else ((name, on),)
    return found


def _check_known(name: str, place: Place, found: Arguments) -> None:
    if name in names.KNOWN:
        return
    from difflib import get_close_matches

    near = get_close_matches(name, names.KNOWN, n=1, cutoff=0.8)
    hint = f"; did you mean --{near[0]}?" if near else ""
    found.remark("unknown-flag", f"vLLM {_NEWEST} has no flag --{name}{hint}", place)


_NEWEST = "0.33"


# What the flags mean to a plan ---------------------------------------------------------------------------------------


def layer_of(found: Arguments) -> dict[Key, Placed]:
    """What the arguments say, by the keys of a budget.

    Raises: CantRead for a value that vLLM would refuse.
    """
    layer: dict[Key, Placed] = {}
    for name, value in found.flags.items():
        if name in _MEANT:
            key, read = _MEANT[name]
            text = value.text if value.text is not None else value.on
            try:
                layer[key] = Given(read(text), value.place)
            except KvplanError as error:
                raise CantRead(f"--{name}: {error.problem.what}", value.place) from None
        elif name in _SPECIAL:
            _SPECIAL[name](value, found, layer)
        elif name in _UNCOUNTED and _counts(name, value):
            found.remark("not-counted", f"--{name}: {_UNCOUNTED[name]}", value.place)
            if name in _STRETCHING:
                layer[("flags", STRETCHED)] = Given("true", value.place)
    return layer


def _text(value: object) -> str:
    return str(value)


def _length(value: object) -> int:
    return ENDLESS if str(value).strip().lower() in {"auto", "-1"} else human(value)


def _checked(read: Callable[[object], object]) -> Callable[[object], object]:
    """The value as it stands, once it could be read."""

    def same(value: object) -> object:
        read(value)
        return value

    return same


def _every_rank(value: object) -> int:
    return EVERY_RANK if switch(value) else 1


_MEANT: Mapping[str, tuple[Key, Callable[[object], Any]]] = {
    "model": (("model",), _text),
    "revision": (("revision",), _text),
    "max-model-len": (("context",), _length),
    "kv-cache-dtype": (("kv_dtype",), _text),
    "tensor-parallel-size": (("parallel", "tp"), whole),
    "pipeline-parallel-size": (("parallel", "pp"), whole),
    "data-parallel-size": (("parallel", "dp"), whole),
    "decode-context-parallel-size": (("parallel", "dcp"), whole),
    "enable-expert-parallel": (("parallel", "ep"), _every_rank),
    **{
        name.replace("_", "-"): (("flags", name), _checked(flag.read))
        for name, flag in VLLM.items()
        if name != "num_speculative_tokens"
    },
}
"""Flags that a plan counts: the budget's key, and how the value is read (and thereby checked)."""


def _tree(value: _Value) -> Any:
    """JSON given as text, or built from nested flags."""
    if value.tree is not None or value.text is None:
        return value.tree
    try:
        return json.loads(value.text)
    except ValueError:
        return None


def _speculative(value: _Value, found: Arguments, layer: dict[Key, Placed]) -> None:
    """The model's own MTP layers are counted; a draft model beside it isn't."""
    tree = _tree(value)
    if not isinstance(tree, dict):
        raise CantRead("its --speculative-config is not JSON", value.place)
    method, drafter = str(tree.get("method", "")), tree.get("model")
    tokens = tree.get("num_speculative_tokens", 1)
    if drafter is None and method.endswith("mtp") and isinstance(tokens, int):
        layer[("flags", "num_speculative_tokens")] = Given(tokens, value.place)
    elif method not in {"ngram", "suffix", "[ngram]"}:
        found.remark(
            "not-counted", "--speculative-config: the draft model's weights and cache are not counted", value.place
        )


def _compilation(value: _Value, _found: Arguments, layer: dict[Key, Placed]) -> None:
    """Without CUDA graphs where the configuration says so."""
    tree = _tree(value)
    mode = str(tree.get("cudagraph_mode", "")).upper() if isinstance(tree, dict) else ""
    if mode == "NONE":
        layer[("flags", "enforce_eager")] = Given("true", value.place)


def _optimization(value: _Value, _found: Arguments, layer: dict[Key, Placed]) -> None:
    if value.text == "0":
        layer[("flags", "enforce_eager")] = Given("true", value.place)


_SPECIAL: Mapping[str, Callable[[_Value, Arguments, dict[Key, Placed]], None]] = {
    "speculative-config": _speculative,
    "compilation-config": _compilation,
    "optimization-level": _optimization,
}

_UNCOUNTED: Mapping[str, str] = {
    "enable-lora": "memory of adapters is not counted",
    "cpu-offload-gb": "weights moved to the host are still counted on the GPU",
    "num-gpu-blocks-override": "the number of blocks is planned from memory, not taken from here",
    "quantization": "weights are counted as the checkpoint stores them",
    "dtype": "weights and cache are counted in the checkpoint's type",
    "hf-overrides": "the model is planned by its own config",
    "rope-scaling": "the model is planned by its own config",
    "hf-config-path": "the model is planned by its own config",
    "disable-sliding-window": "windows are planned as windows",
    "kv-cache-dtype-skip-layers": "all layers are counted in one cache format",
    "mamba-cache-dtype": "recurrent state is counted in the model's own type",
    "mamba-ssm-cache-dtype": "recurrent state is counted in the model's own type",
    "mamba-block-size": "recurrent state is planned with vLLM's own block size",
    "prefill-context-parallel-size": "prefill context parallelism is not planned",
    "speculative-model": "the draft model's weights and cache are not counted",
    "spec-model": "the draft model's weights and cache are not counted",
    "language-model-only": "towers are still counted",
    "mm-encoder-only": "the whole model is counted",
    "offload-group-size": "weights moved to the host are still counted on the GPU",
    "kv-offloading-size": "cache on the host is not counted, nor needed",
    "additional-config": "its effect on memory is not known",
}
"""Flags that move memory and that a plan doesn't count, and what it does instead."""

_STRETCHING = frozenset({"hf-overrides", "rope-scaling", "hf-config-path"})
"""Flags that may give a model a longer context than its config does."""

_HARMLESS = {
    "dtype": {"auto", "bfloat16", "half", "float16"},
    "cpu-offload-gb": {"0", "0.0"},
    "quantization": {"None", "gptq", "gptq_marlin", "awq", "awq_marlin", "compressed-tensors", "modelopt",
                     "modelopt_fp4", "mxfp4", "torchao"},
    "prefill-context-parallel-size": {"1"},
}  # fmt: skip
"""Values that change nothing: defaults, and formats that a checkpoint states itself."""


def _counts(name: str, value: _Value) -> bool:
    return value.on and (value.text or "") not in _HARMLESS.get(name, frozenset())
