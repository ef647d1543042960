"""Every module of every family that a list may name, one at a time, by the name that checkpoints have for it.

tests/data/published-names.jsonl has, for each model type, modules of the state dict of transformers 5.23's class defaults, in the
names that transformers saves them under (its conversion mappings undone), with the elements of their matrices.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import pytest
from weights.conftest import DATA, described, lines

from kvplan.arch.storage import Storage
from kvplan.arch.weights import Weights
from kvplan.families.quantization.names import Names
from kvplan.families.quantization.rules import Quantization
from kvplan.families.quantization.spelled import ORDINARY, SPELLED
from kvplan.families.weights.storing import store

PUBLISHED = {row["type"]: row for row in lines("published-names.jsonl")}
BYTE = Storage("a byte an element", 8)

TOGETHER = {"longcat_flash": ("self_attn.",), "zamba": ("shared_transf.",), "zamba2": ("shared_transformer.",)}
"""Modules that stand for others too here: two attentions of a layer; blocks that several layers share."""
COPIES = 2
"""As many at most."""
ROUNDED = 1024
"""Bytes by which experts of several formats may be off: less than one for each."""


@cache
def configs() -> dict[str, list[dict]]:
    """Class defaults by model type."""
    found: dict[str, list[dict]] = {}
    for line in (DATA / "hf-class-defaults.jsonl").read_text(encoding="utf-8").splitlines():
        config = json.loads(line).get("config", {})
        found.setdefault(str(config.get("model_type")), []).append(config)
    return found


def text_type(config: dict) -> str:
    """The model type of the language model."""
    inner = config.get("text_config")
    return str((inner if isinstance(inner, dict) and inner.get("model_type") else config)["model_type"])


def in_bytes(weights: Weights, type_: str, *entries: str) -> Weights:
    """The weights with linear layers in a byte an element, but for those that the entries name."""
    found = Quantization("test", linear=BYTE, ignored=Names.of(entries))
    return store(replace(weights, missing=()), found, SPELLED.get(type_, ORDINARY))


@pytest.mark.parametrize("type_", PUBLISHED)
def test_each_module_of_each_family(type_):
    row = PUBLISHED[type_]
    config = configs()[type_][row["config"]]
    weights = described({**config, "torch_dtype": "bfloat16"}).weights
    type_of_text = text_type(config)
    packed = in_bytes(weights, type_of_text).bytes
    wrong = {}
    for name, elements in row["modules"].items():
        found = in_bytes(weights, type_of_text, name)
        more = found.bytes - packed
        joined = any(word in name for word in TOGETHER.get(type_, ()))
        if found.missing or not elements <= more <= elements * (COPIES if joined else 1) + ROUNDED * (
            "experts" in name
        ):
            wrong[name] = (more, elements, found.missing)
    assert not wrong


def test_every_family_with_names_of_its_own_is_there():
    """But those that transformers has no class for, or whose class builds nothing by default."""
    tried = {text_type(configs()[type_][row["config"]]) for type_, row in PUBLISHED.items()}
    assert set(SPELLED) - tried <= UNTRIED


UNTRIED = {
    "RefinedWeb", "RefinedWebModel", "baichuan", "chatglm", "ernie4_5_moe_vl", "exaone", "gpt-sw3", "internlm2", "lfm2_moe", "minimax_m3",
    "minimax_text_01", "mt5", "qwen", "qwen3_next", "rwkv5", "step3p7", "step3p7_text", "t5", "umt5",
}  # fmt: skip
