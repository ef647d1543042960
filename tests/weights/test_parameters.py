"""Parameters against transformers' own models, and by hand."""

from __future__ import annotations

import csv

import pytest
from weights.conftest import DATA, bundled, described, lines

from kvplan.errors import KvplanError
from kvplan.sources.bundled import model_names

# Where transformers' own count is not the model's, and why.
OFF = {
    "zamba2-7b": "from_config builds each use of the shared blocks anew: 11.4 billion; the checkpoint has 7.36",
    "step-3.7-flash": "transformers reads the vocabulary of its class, 81 rows smaller, where the config is flat",
}
OFF_TYPES = {
    "longcat_flash": "transformers 5.23 makes room for the 256 experts that compute nothing; the checkpoint has none",
}


def counted() -> dict[str, int]:
    with (DATA / "weights-parameters.tsv").open() as file:
        rows = {row["model"]: int(row["parameters"]) for row in csv.DictReader(file, delimiter="\t")}
    return {name: rows[name] for name in model_names() if name in rows}


def test_every_bundled_model_that_transformers_builds_is_exact(count_cases):
    expected = counted()
    wrong = {}
    for name, parameters in expected.items():
        weights = bundled(name).weights
        if (weights.total != parameters or not weights.exact) and name not in OFF:
            wrong[name] = weights.total - parameters, weights.missing
    count_cases("bundled models against transformers' parameters", len(expected))
    assert wrong == {}
    assert len(expected) > 0.8 * len(model_names())


def by_transformers() -> dict[str, tuple[int, int, bool, bool]]:
    """Model type, and what was set otherwise, to kvplan's parameters and transformers', and whether each is sure and right.

    transformers' class for language models leaves some multimodal configs' towers out.
    """
    found = {}
    for row in lines("hf-class-defaults.jsonl"):
        name = " ".join((row["type"], *(f"{field}={value}" for field, value in row.get("set", {}).items())))
        if not row.get("parameters") or name in found:  # later rows leave out nulls that matter
            continue
        try:
            weights = described(row["config"]).weights
        except KvplanError:
            continue
        if weights is None:
            continue
        parts = weights.by_component()
        towers = sum(weight.parameters for weight in weights.towers)
        head = parts.get("head", 0) if row["built_with"] == "AutoModel" else 0
        right = row["parameters"] in (weights.total - head, weights.total - towers)
        found[name] = weights.total, row["parameters"], weights.exact, right
    return found


def test_class_defaults_are_exact_for_most_types_and_never_silently_wrong(count_cases):
    found = by_transformers()
    right = [name for name, row in found.items() if row[3]]
    silent = {name: row for name, row in found.items() if not row[3] and row[2] and abs(row[0] / row[1] - 1) > 0.005}
    types = {name for name in right if " " not in name}
    count_cases("model types with transformers' parameters, exact", len(types))
    count_cases("the same with other fields set, exact", len(right) - len(types))
    assert {name.split(" ")[0] for name in silent} <= OFF_TYPES.keys()
    assert len(types) >= 120
    assert len(right) >= 0.8 * len(found)


LLAMA_8B = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip


def test_llama_3_8b_by_hand():
    attention = 2 * 4096 * 4096 + 2 * 4096 * 1024
    layer = attention + 3 * 4096 * 14336 + 2 * 4096
    weights = described(LLAMA_8B).weights
    assert weights.total == 32 * layer + 2 * 128256 * 4096 + 4096 == 8_030_261_248
    assert weights.by_component() == {
        "norm": 32 * 2 * 4096 + 4096, "attention": 32 * attention, "mlp": 32 * 3 * 4096 * 14336, "embedding": 128256 * 4096,
        "head": 128256 * 4096,
    }  # fmt: skip
    assert weights.active == weights.total


def test_a_tied_head_counts_once():
    tied = described({**LLAMA_8B, "tie_word_embeddings": True}).weights
    assert tied.total == 8_030_261_248 - 128256 * 4096
    assert tied.tied


def test_biases_come_from_the_fields_that_name_them():
    biased = described({**LLAMA_8B, "attention_bias": True, "mlp_bias": True}).weights
    assert biased.total - 8_030_261_248 == 32 * ((4096 + 2 * 1024 + 4096) + (2 * 14336 + 4096))
    qwen = described({**LLAMA_8B, "model_type": "qwen2"}).weights
    assert qwen.total - 8_030_261_248 == 32 * (4096 + 2 * 1024)  # always on q, k and v, never on o


def test_a_type_nobody_knows_is_counted_as_llama_and_says_so():
    weights = described({**LLAMA_8B, "model_type": "wombat"}).weights
    assert weights.total == 8_030_261_248
    assert not weights.exact
    assert "wombat" in weights.missing[0]


def test_without_a_dimension_of_its_layers_a_model_is_not_counted_and_the_note_names_it():
    config = {key: value for key, value in LLAMA_8B.items() if key != "intermediate_size"}
    model = described({**config, "model_type": "wombat"})
    assert model.weights is None
    assert any("layers (intermediate_size)" in note for note in model.notes)


def test_an_unknown_tower_is_named():
    config = {
        "model_type": "wombat_vl",
        "vision_config": {"model_type": "wombat_vision", "hidden_size": 8},
        "text_config": LLAMA_8B,
    }
    assert "vision tower (wombat_vision)" in described(config).weights.missing


def test_draft_layers_are_kept_apart():
    weights = bundled("deepseek-v3").weights
    assert weights.total == 671_026_404_352
    hidden, latent = 7168, 1536 * 7168 + 1536 + 24576 * 1536 + 576 * 7168 + 512 + 32768 * 512 + 7168 * 16384
    layer = latent + 257 * 3 * 2048 * hidden + 256 * hidden + 2 * hidden
    assert weights.draft_total == layer + 2 * hidden * hidden + 3 * hidden  # and what joins hidden state and embedding
    assert weights.by_component()["draft"] == weights.draft_total


@pytest.mark.parametrize(
    ("name", "total"),
    [  # published, or counted from the published checkpoints
        ("mixtral-8x7b", 46_702_792_704), ("gpt-oss-120b", 116_829_156_672), ("qwen3-30b-a3b", 30_532_122_624),
        ("llama-3.1-405b", 405_853_388_800), ("phi-2", 2_779_683_840), ("glm-4-9b", 9_399_951_360),
    ],
)  # fmt: skip
def test_published_counts(name, total):
    assert bundled(name).weights.total == total


@pytest.mark.parametrize("row", lines("weights-own-code.jsonl"), ids=lambda row: row["id"])
def test_models_whose_code_lies_beside_the_checkpoint(row):
    weights = described(row["config"], row["id"]).weights
    assert (weights.total, weights.exact) == (row["parameters"], True)
