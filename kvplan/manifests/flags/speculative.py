"""Speculative decoding as a serve command asks for it: who drafts, and how many tokens.

Source: vLLM 0.33 config/speculative.py __post_init__, engine/arg_utils.py create_speculative_config.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvplan.manifests.flags.command import Arguments, CantRead, Value, tree_of
from kvplan.manifests.keys import DRAFTING, Drafting
from kvplan.manifests.places import Given, Key, Place, Placed

CONFIG = "speculative-config"
APART = {
    "spec-method": "method",
    "spec-model": "model",
    "spec-tokens": "num_speculative_tokens",
    "speculative-model": "model",
    "num-speculative-tokens": "num_speculative_tokens",
}
"""Flags that say one key of the configuration each: since 0.22, and before 0.9."""

FLAGS = frozenset({CONFIG, *APART})

SUFFIX = "suffix"
FROM_TEXT = frozenset({"ngram", "[ngram]", SUFFIX})
"""Methods, and models, that stand for no model at all: tokens are guessed from the text, on the host."""

SUFFIX_DEPTH = 24
"""Tokens that suffix decoding guesses at most unless somebody says. Source: suffix_decoding_max_tree_depth."""

DRAFTS = frozenset({"", "draft_model", "eagle", "eagle3"})
"""Methods whose model is loaded whole beside the other; one that isn't named is found by the model."""

HEADS: Mapping[str, Drafting] = {"eagle": "eagle", "eagle3": "eagle3"}
"""Methods whose model is a head on the other's positions."""

ALONE = ("draft_tensor_parallel_size", "quantization", "revision")
"""Keys that load the draft model otherwise than the model that it drafts for."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for: the configuration's keys, and where it stands."""

    keys: dict[str, Any]
    place: Place

    @property
    def method(self) -> str:
        """How tokens are drafted; empty where nobody says."""
        return str(self.keys.get("method") or "").lower()

    @property
    def counts(self) -> bool:
        """Whether it says how many tokens are drafted."""
        return self.keys.get("num_speculative_tokens") is not None

    @property
    def model(self) -> str | None:
        """Who drafts."""
        named = self.keys.get("model")
        return None if named is None else str(named)


def read(found: Arguments, layer: dict[Key, Placed]) -> None:
    """The draft model and the tokens of a step, into the layer; a remark for what isn't counted or would be refused.

    Raises: CantRead for a configuration that isn't an object, and for a number of tokens that only the model's files say.
    """
    asked = _asked(found)
    if asked is None:
        return
    own = asked.model is None or asked.model == _text(layer.get(("model",)))
    if asked.model is None and not asked.counts and asked.method != SUFFIX:
        # It would be the draft's own number, and without it nobody drafts. Source: __post_init__, _verify_args.
        text = f"vLLM refuses {f'method {asked.method}' if asked.method else 'a draft'} without num_speculative_tokens"
        found.remark("bad-argument", text, asked.place, "error")
        return
    if (why := _untold(asked, own=own)) is not None:
        raise CantRead(why, asked.place)
    if asked.method.endswith("mtp") and own:
        _by("itself", asked, layer)
        _tokens(asked, found, layer)
    elif asked.method in FROM_TEXT or asked.model in FROM_TEXT:
        _guesses(asked, found, layer)
    elif asked.model is not None and asked.method in DRAFTS:
        _drafts(asked, asked.model, found, layer)
    elif asked.keys:
        text = f"what drafts by method {asked.method or 'unnamed'} is not counted: neither its weights nor its cache"
        found.remark("not-counted", text, asked.place)
        if asked.counts:
            _guesses(asked, found, layer)


def _untold(asked: Asked, *, own: bool) -> str | None:
    """What only the models' files say, and what to write instead. own: whether the model drafts for itself."""
    if asked.method.endswith("mtp") and own and not asked.counts:
        return (
            "its --speculative-config says no num_speculative_tokens, which vLLM then takes from the model's own config: "
            "write the number out"
        )
    if asked.model is None or asked.model in FROM_TEXT or asked.method in {*DRAFTS, *FROM_TEXT} - {""}:
        return None
    if own and not asked.method:
        return (
            "its --speculative-config names the model itself and no method: vLLM drafts with its prediction layers if it has some, "
            'else with a second copy of it. Add "method": "mtp", or name another model'
        )
    if not asked.counts and not asked.method.endswith("mtp"):
        return (
            "its draft has no num_speculative_tokens: vLLM takes the draft's own number, and refuses one that has none. "
            "Write the number out"
        )
    return None


def _guesses(asked: Asked, found: Arguments, layer: dict[Key, Placed]) -> None:
    """Tokens that no planned layer drafts: a recurrent model keeps a state for each of them all the same."""
    if SUFFIX in (asked.method, asked.model) and not asked.counts:
        asked.keys["num_speculative_tokens"] = asked.keys.get("suffix_decoding_max_tree_depth", SUFFIX_DEPTH)
    if not asked.counts:
        text = f"vLLM refuses method {asked.method or asked.model} without num_speculative_tokens"
        found.remark("bad-argument", text, asked.place, "error")
        return
    _by("guessed", asked, layer)
    _tokens(asked, found, layer)


def _asked(found: Arguments) -> Asked | None:
    given = found.flags.get(CONFIG)
    keys: dict[str, Any] = {}
    if given is not None:
        tree = tree_of(given)
        if not isinstance(tree, dict):
            raise CantRead("its --speculative-config is not JSON", given.place)
        keys = {str(key).replace("-", "_"): value for key, value in tree.items()}
    place = None if given is None else given.place
    for name, key in APART.items():
        value = found.flags.get(name)
        if value is None:
            continue
        if key in keys:
            found.remark("bad-argument", f"vLLM refuses --{name} beside --{CONFIG}'s {key}", value.place, "error")
        keys.setdefault(key, _plain(value))
        place = place or value.place
    return None if place is None else Asked(keys, place)


def _drafts(asked: Asked, model: str, found: Arguments, layer: dict[Key, Placed]) -> None:
    if not asked.counts and asked.method:
        text = "vLLM refuses a draft model without num_speculative_tokens"
        found.remark("bad-argument", text, asked.place, "error")
    layer[("draft",)] = Given(model, asked.place)
    _by(_method(asked.method, model), asked, layer)
    _tokens(asked, found, layer)
    otherwise = [key for key in ALONE if asked.keys.get(key) is not None]
    if otherwise:
        text = f"the draft model is counted as it is published and split as the model is, whatever {', '.join(otherwise)} says"
        found.remark("not-counted", text, asked.place)


def _by(how: Drafting, asked: Asked, layer: dict[Key, Placed]) -> None:
    layer[(DRAFTING,)] = Given(how, asked.place)


def _method(said: str, model: str) -> Drafting:
    """How vLLM takes a draft model: as it is told of heads, else by the model's name."""
    if said in HEADS:
        return HEADS[said]
    named = model.lower()
    return "eagle" if "eagle-" in named else "eagle3" if "eagle3" in named else "draft_model"


def _tokens(asked: Asked, found: Arguments, layer: dict[Key, Placed]) -> None:
    tokens = asked.keys.get("num_speculative_tokens")
    if tokens is None:
        return
    if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 1:
        text = f"vLLM refuses num_speculative_tokens {tokens!r}: it is a whole number from 1"
        found.remark("bad-argument", text, asked.place, "error")
        return
    layer[("flags", "num_speculative_tokens")] = Given(tokens, asked.place)


def _plain(value: Value) -> Any:
    """A flag's text, a number where it is one."""
    text = value.text or ""
    return int(text) if text.isascii() and text.isdigit() else text


def _text(placed: Placed | None) -> str | None:
    return None if placed is None else str(placed.value)
