"""The bundled models: complete, sourced, found by every name, and worth what their publishers say."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable

import pytest

from kvplan.sources.bundled import bundled_document, bundled_models, index, index_text, model_names, name_of
from kvplan.sources.models import load_model
from kvplan.sources.paths import configs_dir
from kvplan.sources.strict import parse_json_object

FOLDER = configs_dir() / "models"

EXPECTED = """
gpt-3 gpt2 llama-2-7b llama-2-13b llama-2-70b llama-3-8b llama-3-70b llama-3.1-8b llama-3.1-70b llama-3.1-405b llama-3.2-1b
llama-3.2-3b llama-4-scout llama-4-maverick mistral-7b-v0.1 mistral-7b-v0.3 mixtral-8x7b mixtral-8x22b mistral-large mistral-nemo
deepseek-v2 deepseek-v2-lite deepseek-v3 deepseek-r1 deepseek-v3.2 deepseek-v4-flash deepseek-v4-pro qwen2.5-7b qwen2.5-72b
qwen3-0.6b qwen3-4b qwen3-8b qwen3-14b qwen3-32b qwen3-30b-a3b qwen3-235b-a22b qwen3-coder-480b qwen3-next-80b qwen3.5-27b
qwen3.5-35b-a3b qwen3.5-122b-a10b qwen3.5-397b-a17b gemma-2-2b gemma-2-9b gemma-2-27b gemma-3-1b gemma-3-4b gemma-3-12b
gemma-3-27b gemma-4-e2b gemma-4-e4b gemma-4-26b-a4b gemma-4-31b gpt-oss-20b gpt-oss-120b kimi-k2 kimi-linear glm-4.5
glm-4.5-air glm-5 minimax-m2 minimax-text-01 nemotron-h-8b nemotron-3-nano granite-4.0-h-small jamba falcon-h1-7b mamba-2.8b
phi-3-mini phi-4 olmo-2-7b olmo-3-7b command-r command-a dbrx exaone-4.0-32b hunyuan-a13b ernie-4.5-300b seed-oss-36b
smollm3-3b yi-34b falcon-40b
""".split()  # noqa: SIM905 - a list of words reads better

PUBLISHED = {
    # bytes per token in 16 bit at the first token, worked out by hand from the published shape
    "gpt-3": 96 * 2 * 96 * 128 * 2,
    "gpt2": 12 * 2 * 12 * 64 * 2,
    "llama-2-13b": 40 * 2 * 40 * 128 * 2,
    "llama-3-8b": 32 * 2 * 8 * 128 * 2,
    "llama-3-70b": 80 * 2 * 8 * 128 * 2,
    "llama-3.1-405b": 126 * 2 * 8 * 128 * 2,
    "mistral-7b-v0.1": 32 * 2 * 8 * 128 * 2,
    "mixtral-8x22b": 56 * 2 * 8 * 128 * 2,
    "deepseek-v3": 61 * (512 + 64) * 2,
    "deepseek-v2-lite": 27 * (512 + 64) * 2,
    "deepseek-v3.2": 61 * (512 + 64) * 2 + 61 * 132,
    "qwen2.5-7b": 28 * 2 * 4 * 128 * 2,
    "qwen3-235b": 94 * 2 * 4 * 128 * 2,
    "qwen3-next-80b": 12 * 2 * 2 * 256 * 2,
    "gemma-2-27b": 46 * 2 * 16 * 128 * 2,
    "gemma-3-27b": 62 * 2 * 16 * 128 * 2,
    "gpt-oss-120b": 36 * 2 * 8 * 64 * 2,
    "falcon-40b": 60 * 2 * 8 * 64 * 2,
    "glm-4.5": 92 * 2 * 8 * 128 * 2,
    "minimax-text-01": 10 * 2 * 8 * 128 * 2,
    "jamba": 4 * 2 * 8 * 128 * 2,
    "command-r": 40 * 2 * 64 * 128 * 2,
    "mamba-2.8b": 0,
    "kimi-linear": 7 * (512 + 64) * 2,
    "dbrx": 40 * 2 * 8 * 128 * 2,
}


def test_every_model_people_ask_for_is_there() -> None:
    assert len(model_names()) >= 70
    assert [name for name in EXPECTED if name_of(name) is None] == []


def test_index_is_up_to_date() -> None:
    assert (FOLDER / "index.json").read_text() == index_text(), "python tools/remake.py"
    assert set(index().aliases.values()) == set(model_names())


@pytest.mark.parametrize("name", model_names())
def test_a_bundled_file_has_its_name_its_keys_and_a_source(name: str) -> None:
    text = (FOLDER / f"{name}.json").read_text()
    record = parse_json_object(text, name)
    assert record["name"] == name == name.lower()
    assert set(record) in ({"name", "aliases", "source", "config"}, {"name", "aliases", "source", "kvplan"})
    assert str(record["source"]).startswith("https://")
    assert "/work" not in text


def test_all_load_with_their_dimensions(count_cases: Callable[[str, int], None]) -> None:
    for name in model_names():
        model = load_model(name)
        assert model.origin.id == name
        assert model.layers
        assert model.curve(model.kv_auto).bytes_at(1024) > 0
    count_cases("bundled models loaded", len(model_names()))


@pytest.mark.parametrize(("name", "expected"), PUBLISHED.items())
def test_bytes_per_token_as_published(name: str, expected: int) -> None:
    model = load_model(name)
    curve = model.curve(model.kv_auto)
    assert curve.bytes_at(1) - curve.bytes_at(0) == expected


def test_reading_all_files_is_fast() -> None:
    start = time.process_time()
    for name in model_names():
        json.loads((FOLDER / f"{name}.json").read_bytes())
    assert time.process_time() - start < 0.06


def test_a_bundled_model_knows_its_hub_id_if_it_has_one() -> None:
    listed = {model.name: model for model in bundled_models()}
    assert listed["llama-3-70b"].hub_id == "meta-llama/Meta-Llama-3-70B"
    assert listed["gpt-3-175b"].hub_id is None
    assert bundled_document("gpt-3-175b").config["kvplan"] == 1


STATED = re.compile(r"-(\d+(?:\.\d+)?)(b|m)(?=-|$)")
NOT_ONLY_COUNTED = {
    # name: why the size in it isn't the sum of its tensors
    "olmoe-1b-7b", "granite-3.1-1b-a400m",  # per expert, or active
    "gemma-3n-e2b", "gemma-3n-e4b", "gemma-4-e2b", "gemma-4-e4b",  # effective
    "llama-3.3-nemotron-super-49b", "rwkv-5-3b",  # weights not derived yet
}  # fmt: skip


def test_parameters_are_about_what_the_name_says() -> None:
    """Small models round generously (gemma-2-2b has 2.6 B); large ones are within 6 %."""
    checked = 0
    for name in model_names():
        stated = STATED.search(name)
        if stated is None or name in NOT_ONLY_COUNTED:
            continue
        size = float(stated[1]) * (10**9 if stated[2] == "b" else 10**6)
        weights = load_model(name).weights
        assert weights is not None
        assert weights.total == pytest.approx(size, rel=0.35 if size < 10**10 else 0.06), name
        checked += 1
    assert checked > 80


PARAMETERS = {
    # as their publishers state them, in billions: total, active for one token
    "llama-3-70b": (70.6, 70.6), "deepseek-v3": (671.0, 37.6), "mixtral-8x7b": (46.7, 12.9), "dbrx": (131.6, 36.5),
    "qwen3-235b": (235.1, 22.2), "gpt-oss-120b": (116.8, 5.7), "kimi-k2": (1026.4, 32.9), "jamba-1.5-large": (398.6, 94.2),
    "granite-4.0-h-small": (32.2, 8.8), "mamba-2.8b": (2.77, 2.77), "ernie-4.5": (298.6, 47.1), "minimax-text-01": (456.1, 45.9),
}  # fmt: skip


@pytest.mark.parametrize(("name", "published"), PARAMETERS.items())
def test_parameters_as_published(name: str, published: tuple[float, float]) -> None:
    weights = load_model(name).weights
    assert weights is not None
    assert weights.total / 10**9 == pytest.approx(published[0], rel=0.005)
    assert weights.active / 10**9 == pytest.approx(published[1], rel=0.06)
