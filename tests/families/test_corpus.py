"""Real configs against what transformers 5.23 cached for them (configs-cache.tsv: elements, counted on the meta device)."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from kvplan.arch.formats import parse_kv_format
from kvplan.arch.layers import Recurrent
from kvplan.arch.model import Model, Origin
from kvplan.arch.parallel import WHOLE
from kvplan.errors import KvplanError
from kvplan.families import read

BF16 = parse_kv_format("bf16")


def rows(corpus: Path) -> list[dict[str, str]]:
    with (corpus / "configs-cache.tsv").open(encoding="utf-8") as table:
        return list(csv.DictReader(table, delimiter="\t"))


def load(corpus: Path, name: str) -> Model:
    return read(json.loads((corpus / "configs" / name).read_text(encoding="utf-8")), Origin(name, name))


def growth_without_indexers(model: Model) -> tuple[int, int]:
    """Bytes that token 1 adds, and that a token adds once every window is full; indexer keys apart."""
    parts = [(count.part, count.layers) for count in model.parts(BF16) if count.part.kind != "indexer"]
    first = sum(part.group.per_state * layers for part, layers in parts)
    full = sum(part.group.per_state * layers for part, layers in parts if part.group.cap is None)
    return first, full


def state_elements_with_whole_kernels(model: Model) -> int:
    """Elements of recurrent state, convolutions at `kernel` columns as transformers keeps them."""
    tensors = [
        t for layer in model.layers for cache in layer.caches if isinstance(cache, Recurrent) for t in cache.tensors
    ]
    return sum(t.elements(WHOLE) * (t.rows + 1) // t.rows if t.role == "conv" else t.elements(WHOLE) for t in tensors)


def test_measured_rows_are_exact_to_the_byte(corpus: Path, count_cases) -> None:
    wrong = {}
    measured = [
        row for row in rows(corpus) if row["status"] in ("measured",) or row["status"].startswith("measured at 16")
    ]
    for row in measured:
        model = load(corpus, row["file"])
        full, sliding = int(row["full_elems_per_token"]) * 2, int(row["sliding_elems_per_token"]) * 2
        got = (*growth_without_indexers(model), state_elements_with_whole_kernels(model))
        if got != (full + sliding, full, int(row["fixed_state_elems"])):
            wrong[row["file"]] = got, (full + sliding, full, int(row["fixed_state_elems"]))
    count_cases("configs against transformers", len(measured))
    assert len(measured) >= 150
    assert wrong == {}


def test_indexer_keys_stand_where_transformers_keeps_them(corpus: Path, count_cases) -> None:
    checked = 0
    for row in rows(corpus):
        elements = int(row["indexer_or_other_elems_per_token"] or 0)
        if not elements:
            continue
        owners = sum(count.layers for count in load(corpus, row["file"]).parts(BF16) if count.part.kind == "indexer")
        assert owners * 128 == elements, row["file"]
        checked += 1
    count_cases("indexers against transformers", checked)
    assert checked >= 2


def test_no_config_is_silently_wrong_and_few_are_refused(corpus: Path, count_cases) -> None:
    names = sorted(path.name for path in (corpus / "configs").glob("*.json"))
    refused = {}
    for name in names:
        try:
            load(corpus, name)
        except KvplanError as error:
            refused[name] = str(error)
    count_cases("configs read", len(names))
    assert len(refused) <= 0.03 * len(names), refused


@pytest.mark.parametrize("golden", ["size"])
def test_golden_bytes(corpus: Path, golden: str, count_cases) -> None:
    checked = 0
    for case in json.loads((corpus / "golden.json").read_text(encoding="utf-8")):
        config, query = case["config"], case["query"]
        if {"gguf", "latent_bytes"} & set(config) or query.get("engine", "ideal") != "ideal":
            continue
        if query.get("exclude"):  # those configs give no shape for their states: give them one
            config = {**config, **LINEAR}
        model = read(config, Origin("golden", case["name"]))
        kv = parse_kv_format(query.get("kv", "bf16"))
        assert answer(model, kv, query) == case["expect_bytes"], case["name"]
        checked += 1
    count_cases(f"golden {golden}", checked)
    assert checked >= 14


LINEAR = {
    "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
}  # fmt: skip


def answer(model: Model, kv, query: dict[str, object]) -> int:
    from kvplan.arch.parallel import Shard

    layers = model.layers
    if "pp_layers" in query:
        first = query["pp_layers"][query["stage"]]
        layers = layers[:first]
    parts = model.parts(kv, Shard(int(query.get("tp", 1))), layers)
    total = sum(
        count.part.group.bytes_at(query["tokens"]) * count.layers for count in parts if count.part.group.fixed == 0
    )
    if query.get("part") == "K only":
        total //= 2
    return total * int(query.get("seqs", 1))
