"""A command's flags by the keys of a budget, as far as a plan counts them; remarks for those that it doesn't."""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.errors import KvplanError
from kvplan.manifests.flags import speculative, transfer
from kvplan.manifests.flags.command import Arguments, Value
from kvplan.manifests.flags.counted import MEANINGS
from kvplan.manifests.flags.meaning import FlagMeaning
from kvplan.manifests.keys import ENDLESS, OVERRIDDEN, STRETCHED
from kvplan.manifests.places import Given, Hidden, Key, Placed
from kvplan.text import any_of, nearest

LONG_PREFILL = "long-prefill-token-threshold"


def layer_of(found: Arguments) -> dict[Key, Placed]:
    """What the arguments say, by the keys of a budget. A value that vLLM would refuse is left out, and remarked as an error.

    Raises: CantRead for what can't be understood.
    """
    layer: dict[Key, Placed] = {}
    for name, value in found.flags.items():
        meaning = MEANINGS.get(name)
        if meaning is not None:
            _say(name, value, meaning, found, layer)
    speculative.read(found, layer)
    transfer.read(found, layer)
    _check_threshold(found, layer)
    return layer


def _say(name: str, value: Value, meaning: FlagMeaning, found: Arguments, layer: dict[Key, Placed]) -> None:
    """What one flag says, into the layer and the remarks."""
    said = _said(value)
    if value.unknown and meaning.key is not None and not meaning.careful:
        layer[meaning.key] = Hidden(said, value.place, why=value.why)
        return
    if not value.unknown and not _listed(name, value):
        text = f"vLLM refuses --{name} {value.text}: no release has it"
        found.remark("bad-argument", text + _near(name, value), value.place, "error", about=name)
        return
    if meaning.uncounted is not None and (value.unknown or meaning.remarked(said)):
        found.remark("not-counted", f"--{name}: {meaning.uncounted}", value.place, about=name, frees=meaning.frees)
        if meaning.overrides:
            layer[("flags", STRETCHED)] = layer[(OVERRIDDEN,)] = Given("true", value.place)
        if value.unknown or not meaning.partly:
            return
    if meaning.key is not None and (read := _read(name, value, meaning, found)) is not None:
        layer[meaning.key] = Given(read, value.place)


def _read(name: str, value: Value, meaning: FlagMeaning, found: Arguments) -> object:
    """What a flag sets its key to; None for nothing, and for what vLLM would refuse, with a remark."""
    try:
        return meaning.value(_said(value))
    except KvplanError as error:
        text = f"vLLM refuses --{name}: {error.problem.what}"
        found.remark("bad-argument", text, value.place, "error", about=name)
        return None


def _said(value: Value) -> object:
    """A value as text; a list of a --config file's with blanks between; a switch as true or false; nested keys as they are."""
    if isinstance(value.tree, list):
        return " ".join(map(str, value.tree))
    if value.text is not None:
        return value.text
    return value.tree if value.tree is not None else value.on


def _listed(name: str, value: Value) -> bool:
    """Whether some release takes the value, where values are words of a list."""
    from kvplan.engines.vllm.tables.choices import ever_taken

    return value.text is None or value.text.lower() == "none" or ever_taken(name, value.text.lower())


def _near(name: str, value: Value) -> str:
    """The words of the list that may be meant."""
    from kvplan.engines.vllm.tables.choices import CHOICES

    words = list(CHOICES[name])
    near = nearest(str(value.text).lower(), words, most=3)
    if near:
        return f"; did you mean {any_of(near)}?"
    shown = sorted(words, key=_order)[:MOST_SHOWN]
    more = len(words) - len(shown)
    return f"; it takes {', '.join(shown)}" + (f" and {more} more" if more else "")


MOST_SHOWN = 8


def _order(word: str) -> tuple[int, str]:
    """Numbers by size, words by letters."""
    return (int(word), "") if word.isdigit() else (0, word)


def _check_threshold(found: Arguments, layer: Mapping[Key, Placed]) -> None:
    """A threshold that vLLM refuses. Source: vLLM 0.33 config/scheduler.py verify_max_model_len."""
    longer, context = found.flags.get(LONG_PREFILL), layer.get(("context",))
    threshold = longer.text if longer is not None else None
    if longer is None or threshold is None or not threshold.isdigit() or context is None or context.value == ENDLESS:
        return
    if isinstance(context, Hidden):
        return
    if int(threshold) > int(context.value):
        text = f"vLLM refuses --{LONG_PREFILL} {int(threshold):,}, which is more than --max-model-len {context.value:,}"
        found.remark("bad-argument", text, longer.place, "error", about=LONG_PREFILL)
