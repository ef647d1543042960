"""Real configs, broken at random: never a traceback, never a silent number.

A change to a dimension changes the answer or is refused. Where a field is known to describe nothing that is kept or
stored (a head_dim beside a latent, a window that is switched off), IDLE says why.
"""

from __future__ import annotations

import contextlib
import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvplan.arch.formats import parse_kv_format
from kvplan.arch.layers import CrossAttention, Latent, Recurrent
from kvplan.arch.model import Model, Origin
from kvplan.errors import KvplanError
from kvplan.families import read
from kvplan.families.locate import text_fields

BF16 = parse_kv_format("bf16")
BUNDLED = Path(__file__).parents[2] / "configs" / "models"

VALUES = (
    None, 0, -1, 1, 3, 2**31, 2**62, 1.5, 1e308, float("nan"), float("inf"), "", "32", "auto", True, False, [], [1], [None],
    {}, {"a": 1}, [[1]], "x" * 10_000,
)  # fmt: skip

DIMENSIONS = frozenset((
    "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "hidden_size", "sliding_window",
    "kv_lora_rank", "qk_rope_head_dim", "n_layer", "n_head", "n_embd", "num_kv_heads", "mamba_d_state", "state_size",
    "mamba_n_heads", "mamba_num_heads", "ssm_state_size", "linear_num_value_heads", "linear_key_head_dim",
    "linear_value_head_dim", "conv_L_cache", "attention_chunk_size", "num_kv_shared_layers", "v_head_dim", "kv_channels",
    "multi_query_group_num", "global_head_dim", "swa_num_key_value_heads", "swa_head_dim", "index_head_dim", "conv_kernel",
))  # fmt: skip


def configs(folder: Path) -> list[dict[str, Any]]:
    """config.json files, or those inside bundled models (index files and kvplan descriptions have none)."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    if folder == BUNDLED:
        found = [document["config"] for document in found if "config" in document]
    return [config for config in found if isinstance(config, dict) and len(json.dumps(config)) < 100_000]


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield (*path, key)
            yield from places(value, (*path, key))
    elif isinstance(node, list) and len(node) < 200:
        for index in range(len(node)):
            yield (*path, index)


def changed(config: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """The config with one value replaced (`...`: deleted). Only what leads there is copied."""
    copied = copy.copy(config)
    node: Any = copied
    for step in path[:-1]:
        node[step] = copy.copy(node[step])
        node = node[step]
    if value is Ellipsis:
        del node[path[-1]]
    else:
        node[path[-1]] = value
    return copied


def answer(config: dict[str, Any]) -> tuple[object, ...]:
    model = read(config, Origin("mutated", "mutated"))
    curve = model.curve(BF16)
    weights = model.weights
    return (
        [curve.bytes_at(n) for n in (0, 1, 100, 5_000, 300_000)],
        model.query_heads,
        weights and (weights.total, weights.exact),
        {(entry.field, str(entry.value)) for entry in model.defaulted},
    )


def idle(model: Model, name: str) -> bool:
    """Whether the field describes nothing that this model keeps or stores."""
    kinds = {type(cache) for layer in model.layers for cache in layer.caches}
    windows = model.curve(BF16).full_after
    return (
        (Latent in kinds and name in ("head_dim", "num_key_value_heads"))  # the latent has neither
        or (
            Latent not in kinds and name == "qk_rope_head_dim"
        )  # a part of head_dim, or of a latent that is switched off
        or (name == "kv_channels" and Recurrent in kinds)  # Zamba's attention is twice as wide
        or (
            name == "kv_channels" and model.family == "nemotron"
        )  # its class derives the width of heads; a note says so
        or (name == "num_hidden_layers" and model.family == "nemotron_h")  # it has as many as its list; a note says so
        or (CrossAttention in kinds and name == "num_hidden_layers")  # the encoder's
        or (name in ("sliding_window", "swa_head_dim", "swa_num_key_value_heads") and not windows)
        or (name == "attention_chunk_size" and "chunked" not in {c.kind for la in model.layers for c in la.caches})
        or (name == "hidden_size" and (model.weights is None or not model.weights.exact))  # no count rests on it
        or (
            name == "v_head_dim"
            and not {cache.v_dim for la in model.layers for cache in la.caches if isinstance(cache, Latent)}
        )
    )


def sweep(found: list[dict[str, Any]], mutations: int, seed: int) -> int:
    rng = random.Random(seed)  # noqa: S311 - reproducible, not secret
    sites = [list(places(config)) for config in found]
    for _ in range(mutations):
        index = rng.randrange(len(found))
        value = rng.choice((*VALUES, ..., ...))
        mutated = changed(found[index], rng.choice(sites[index]), value)
        with contextlib.suppress(KvplanError):
            answer(mutated)
    return mutations


def dimensions_matter(found: list[dict[str, Any]]) -> int:
    tried = 0
    silent = []
    for config in found:
        before = answer(config)
        model = read(config, Origin("real", "real"))
        where = text_fields(config).path
        for path in places(config):
            name, value = path[-1], get(config, path)
            elsewhere = ".".join(map(str, (*path[:-1], ""))) != where
            if name not in DIMENSIONS or elsewhere or isinstance(value, bool) or not isinstance(value, int):
                continue
            for other in (value + 1, value * 2, max(1, value // 2)):
                if other == value or idle(model, name):
                    continue
                tried += 1
                try:
                    after = answer(changed(config, path, other))
                except KvplanError:
                    continue
                if after == before:
                    silent.append((config.get("model_type"), path, value, other))
    assert silent == []
    return tried


def get(node: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        node = node[step]
    return node


def test_bundled_configs_survive_mutation(count_cases) -> None:
    found = configs(BUNDLED)
    if not found:
        pytest.fail("no bundled models")
    count_cases("mutations of bundled configs", sweep(found, 1_500, seed=1))
    count_cases("dimensions changed in bundled configs", dimensions_matter(found))


def test_real_configs_survive_mutation(corpus: Path, count_cases) -> None:
    found = configs(corpus / "configs")
    count_cases("mutations of real configs", sweep(found, 8_000, seed=2))
    count_cases("dimensions changed in real configs", dimensions_matter(found))
