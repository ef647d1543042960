"""What the class that a config names makes of a model's ends: no head, another one, or none of its towers."""

from __future__ import annotations

from kvplan.arch.storage import FP32
from kvplan.arch.weights import Block
from kvplan.families.fields import Fields
from kvplan.families.weights.heads import class_of
from kvplan.families.weights.symbols import ConfigSymbols
from kvplan.families.weights.template import build

LABELS = {"Qwen2ForRewardModel": 1, "Qwen2ForProcessRewardModel": 2}
"""Classes that judge by two layers in 32 bit, and how many numbers they give. Source: vLLM 0.33 models/qwen2_rm.py."""

KEEPS_HEAD = frozenset(("JambaForSequenceClassification",))
"""Classes that classify and are built on the class that generates, with its head. Source: vLLM 0.33 models/jamba.py."""

TEXT_ALONE = frozenset(("Qwen3_5ForCausalLM", "Qwen3_5MoeForCausalLM"))
"""Classes of a language model that read it out of a whole, and build no tower. Source: vLLM 0.33 models/qwen3_5.py."""


def is_bare(fields: Fields) -> bool:
    """Whether the class is a model without a head, which engines embed with, or generate with and then build one.

    Source: vLLM 0.33 config/model.py, _get_default_runner_type: it embeds where the checkpoint's modules.json says so.
    """
    name = class_of(fields)
    others = ("LMHeadModel", "RewardModel")
    return name.endswith("Model") and not name.endswith(others) and fields.defaults.known


def is_headless(fields: Fields) -> bool:
    """Whether the class has no output projection onto the vocabulary: a reward, a classifier, a bare model."""
    name = class_of(fields)
    judges = name.endswith(("ForSequenceClassification", "ForTokenClassification", "RewardModel"))
    return is_bare(fields) or (judges and name not in KEEPS_HEAD)


def scores(fields: Fields, symbols: ConfigSymbols) -> Block:
    """The head of a class that judges by two layers; empty for all others."""
    labels = LABELS.get(class_of(fields))
    if labels is None:
        return ()
    return build("head: score.0[~H,H]+ score.2[labels,~H]+", symbols.also({"labels": labels}), FP32)


def builds_text_alone(fields: Fields) -> bool:
    """Whether the class leaves the towers out that the whole describes."""
    return bool(fields.parents) and class_of(fields) in TEXT_ALONE
