"""How tokens are drafted, as vLLM finds it out where a start doesn't say: by the draft model's name, then by its class.

Source: vLLM 0.22 to 0.33 config/speculative.py SpeculativeConfig.__post_init__.
"""

from __future__ import annotations

from kvplan.arch.model import Model
from kvplan.arch.traits import DRAFTS_ALONE
from kvplan.engines.vllm.blocks.drafts import own_layers
from kvplan.engines.vllm.tables.rules import Drafting

AT_ONCE = "peagle"
"""What names of classes hold that draft all tokens in one pass."""

NAMED: tuple[tuple[str, Drafting], ...] = (("eagle-", "eagle"), ("eagle3", "eagle3"), ("dflash", "dflash"))
"""What the name that a server finds the draft by holds, in the order that it is looked through, whatever method is stated."""

BUILT: tuple[tuple[str, Drafting], ...] = (
    ("eagle3", "eagle3"), ("eagle", "eagle"), ("dflash", "dflash"), ("mtp", "mtp"), ("gemma4assistant", "mtp"), ("gemma4unifiedassistant", "mtp"),
)  # fmt: skip
"""The same for the draft's class: of heads whose method is stated, or that are no models of their own."""


def drafting(model: Model) -> Drafting:
    """Who drafts for it, if tokens are drafted."""
    drafter = model.drafter
    if drafter is None:
        return "mtp" if own_layers(model) else "guessed"
    classes = [name.lower() for name in drafter.architectures]
    if any(AT_ONCE in name for name in classes):
        return "at once"
    called = model.weights.drafter if model.weights is not None else None
    named = _first(NAMED, [(called or drafter.origin.id).lower()])
    if named is None and DRAFTS_ALONE not in drafter.traits:
        named = _first(BUILT, classes)
    return named or "model"


def _first(table: tuple[tuple[str, Drafting], ...], names: list[str]) -> Drafting | None:
    return next((method for part, method in table if any(part in name for name in names)), None)
