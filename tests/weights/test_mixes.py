"""llama.cpp's named mixes of types: files that were published, and counts of tensors that llama.cpp printed.

Sizes are of tensors; a file's metadata, a few MB of vocabulary, is within the tolerance.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from cli.running import run, run_json
from weights.conftest import bundled, described

from kvplan.arch.parallel import Parallel
from kvplan.errors import UnknownName
from kvplan.families.quantization.mixes import MIXES, kept_named

LLAMA_BITS = {
    "q2_k_s": 2.9697, "q2_k": 3.1593, "q3_k_s": 3.6429, "q3_k_l": 4.2979, "q4_k_s": 4.6672, "q4_k_m": 4.8944, "q5_k_s": 5.5704,
    "q5_k_m": 5.7036,
}  # fmt: skip
"""Bits a weight of Llama 3.1 8B's 8,030,261,312. Source: github.com/ggml-org/llama.cpp tools/quantize/README.md."""

PUBLISHED = {
    # huggingface.co/bartowski/Meta-Llama-3.1-70B-Instruct-GGUF, 2024: 80 layers whose values 8 queries share
    "llama-3.1-70b": {
        "q5_k_m": 49.95, "q5_k_s": 48.66, "q4_k_m": 42.52, "q4_k_s": 40.35, "q3_k_l": 37.14, "q3_k_m": 34.27, "q3_k_s": 30.91,
    },
    # huggingface.co/bartowski/Mixtral-8x22B-v0.1-GGUF, b2636 of 2024: 8 experts
    "mixtral-8x22b": {
        "q5_k_m": 99.96, "q5_k_s": 96.97, "q4_k_m": 85.58, "q4_k_s": 80.47, "q3_k_l": 72.57, "q3_k_m": 67.78, "q3_k_s": 61.49,
        "q2_k": 52.10,
    },
    # huggingface.co/bartowski/deepseek-ai_DeepSeek-V3-0324-GGUF, b4944 of 2025: latents, 256 experts
    "deepseek-v3": {"q5_k_m": 475.40, "q5_k_s": 461.81, "q4_k_m": 404.43},
    # huggingface.co/bartowski/gemma-2-9b-it-GGUF, b3278 of 2024: the head is the embedding
    "gemma-2-9b": {"q5_k_m": 6.65, "q4_k_m": 5.76, "q4_k_s": 5.48, "q3_k_l": 5.13, "q3_k_m": 4.76, "q3_k_s": 4.34, "q2_k": 3.81},
    # huggingface.co/bartowski/Qwen2.5-7B-Instruct-GGUF and Qwen2-7B-Instruct-GGUF, 2024: 28 layers
    "qwen2.5-7b": {
        "q5_k_m": 5.44, "q5_k_s": 5.32, "q4_k_m": 4.68, "q4_k_s": 4.46, "q3_k_l": 4.09, "q3_k_m": 3.81, "q3_k_s": 3.49, "q2_k": 3.02,
    },
}  # fmt: skip
"""GB as the pages say them, to two digits."""
METADATA = 0.001
"""Share of a file that is no tensors, at most."""
ROUNDED = 0.015
"""GB that rounding and the vocabulary of small models make."""


@pytest.mark.parametrize("mix", LLAMA_BITS)
def test_bits_of_a_weight_that_llama_cpp_states(mix):
    weights = bundled("llama-3.1-8b").weights.stored_as(MIXES[mix])
    assert weights.bytes * 8 / 8_030_261_312 == pytest.approx(LLAMA_BITS[mix], abs=2e-4)


@pytest.mark.parametrize(("model", "mix"), [(model, mix) for model, mixes in PUBLISHED.items() for mix in mixes])
def test_files_that_were_published(model, mix):
    size = bundled(model).weights.stored_as(MIXES[mix]).bytes / 10**9
    assert size == pytest.approx(PUBLISHED[model][mix], rel=METADATA, abs=ROUNDED)


BENCH = {
    # 128 experts; github.com logs of builds b31b71f3a and 305a43 of 2026
    "qwen3-30b-a3b": {"q2_k": 10.48, "q4_k_m": 17.28, "q5_k_m": 20.23},
    "qwen3-8b": {"q4_k_m": 4.68},
    "llama-2-7b": {"q4_k_m": 3.80},
    "mistral-7b-v0.1": {"q4_k_m": 4.07},
    # 8 experts
    "mixtral-8x7b": {"q4_k_m": 26.49},
    # 64 experts beside a shared one
    "hunyuan-a13b": {"q4_k_m": 45.43},
    # printed by llama-bench and by the loader, some in MiB
    "llama-3.2-1b": {"q5_k_m": 861.81 / 1024},
    "tinyllama-1.1b": {"q4_k_m": 636.18 / 1024},
    "llama-3.2-3b": {"q4_k_m": 1.87, "q5_k_m": 2.16},
    "llama-3.1-70b": {"q2_k": 24.56, "q4_k_m": 39.59},
    "qwen2.5-7b": {"q4_k_m": 4.36},
    "qwen2.5-14b": {"q4_k_s": 7.98, "q5_k_m": 9.78},
    "qwen3-14b": {"q4_k_m": 8.38},
    "qwen3-32b": {"q2_k": 11.49, "q4_k_m": 18.40},
    "qwen3-235b-a22b": {"q2_k": 79.80},
    "mistral-small-24b": {"q4_k_m": 13.34},
    "mistral-nemo-12b": {"q4_k_m": 6.96},
    "devstral-2-123b": {"q4_k_m": 69.75},
    # their towers are files of their own
    "gemma-3-27b": {"q4_k_m": 15.40},
    "llama-4-scout": {"q4_k_m": 60.86},
}
ONE_TYPE = {
    # 8,030,261,248 numbers: 34 B for 32 of all matrices in q8_0; the others' head, 128,256 x 4,096, in q6_k
    "llama-3.1-8b": {"q8_0": 7.95, "q4_0": 4.33, "q4_1": 4.77, "q5_1": 5.64},
    "llama-2-7b": {"q8_0": 6.67, "q4_0": 3.56, "q4_1": 3.95, "q5_1": 4.72},
    "llama-3.2-3b": {"q4_0": 1.78},
    "qwen3-8b": {"q8_0": 8.11, "q6_k": 6.26},
    "qwen2.5-7b": {"q8_0": 7.54},
    # queries, keys and values in one matrix
    "phi-4": {"q8_0": 14.51},
    "qwen3-30b-a3b": {"q8_0": 30.25, "q4_1": 17.87},
    # latents
    "deepseek-v3": {"q8_0": 664.29},
    # gated delta nets; the head is the embedding, in q6_k
    "qwen3.5-35b-a3b": {"q8_0": 34.36},
    "gemma-3-27b": {"q4_0": 14.49},
}
"""The same of files with a type's name, from public logs of 2024 to 2026; those made with an importance matrix left out."""
"""GiB of tensors that llama-bench prints as `size`, to two digits."""


@pytest.mark.parametrize(("model", "mix"), [(model, mix) for model, mixes in BENCH.items() for mix in mixes])
def test_sizes_that_llama_bench_prints(model, mix):
    weights = bundled(model).weights.stored_as(MIXES[mix])
    towers = sum(weight.bytes_on_rank(Parallel()) for weight in weights.towers)
    assert (weights.bytes - towers) / 2**30 == pytest.approx(BENCH[model][mix], abs=0.006)


@pytest.mark.parametrize(("model", "name"), [(model, name) for model, names in ONE_TYPE.items() for name in names])
def test_files_of_one_type(model, name):
    """Towers are files of their own."""
    weights = bundled(model).weights.stored_as(MIXES[name])
    towers = sum(weight.bytes_on_rank(Parallel()) for weight in weights.towers)
    assert (weights.bytes - towers) / 2**30 == pytest.approx(ONE_TYPE[model][name], abs=0.006)


def test_a_file_that_was_published_to_the_byte():
    """Qwen/Qwen3-8B-GGUF, Qwen3-8B-Q6_K.gguf: 6,725,899,040 B, of which some 6 MB are the vocabulary."""
    assert 0 < 6_725_899_040 - bundled("qwen3-8b").weights.stored_as(MIXES["q6_k"]).bytes < 7_000_000


@pytest.mark.parametrize("model", ["qwen3-next-80b", "falcon-h1-7b"])
def test_a_file_of_one_type_needs_no_rules_for_a_models_matrices(model):
    assert run("size", model, "--weight-dtype", "q8_0").code == 0


@pytest.mark.parametrize("model", ["falcon-40b", "gemma-3n-e4b", "gpt-oss-20b"])
def test_heads_and_tables_with_rules_of_their_own_are_refused(model):
    refused = run("size", model, "--weight-dtype", "q8_0")
    assert refused.code == 2
    assert "--weights" in refused.err


QWEN_SMALL = {
    "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_size": 896, "intermediate_size": 4864,
    "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 151936,
    "tie_word_embeddings": True, "torch_dtype": "bfloat16", "max_position_embeddings": 32768,
}  # fmt: skip
"""Qwen2.5-0.5B-Instruct's config.json."""


def test_rows_that_no_block_of_256_divides_take_older_types():
    """896 is 3.5 blocks. llama.cpp printed these numbers of tensors: github.com/ollama/ollama/issues/9031, in 2025."""
    weights = described(QWEN_SMALL).weights.stored_as(MIXES["q4_k_m"])
    tensors = (*weights.first, *(weight for layer in weights.layers for weight in layer), weights.last[0])
    assert Counter(weight.stored.name for weight in tensors) == {
        "fp32": 121, "q5_0": 132, "q8_0": 13, "q4_k": 12, "q6_k": 12,
    }  # fmt: skip


def test_more_bits_in_the_first_eighth_the_last_and_every_third_between():
    """32 layers: 0 to 3, 28 to 31, and 6, 9, ... 27."""
    weights = bundled("llama-3.1-8b").weights.stored_as(MIXES["q4_k_m"])
    stored = [{weight.name.rpartition(".")[2]: weight.stored.name for weight in layer} for layer in weights.layers]
    more = [number for number, layer in enumerate(stored) if layer["down_proj"] == "q6_k"]
    assert more == [0, 1, 2, 3, *range(6, 28, 3), 28, 29, 30, 31]
    assert {layer["v_proj"] for layer in stored} == {"q6_k", "q4_k"}
    assert {layer["q_proj"] for layer in stored} == {"q4_k"}
    assert len(weights.distinct) == 2


def test_a_tied_head_takes_no_room_of_its_own():
    weights = bundled("gemma-2-9b").weights.stored_as(MIXES["q4_k_m"])
    assert weights.bytes_on_rank(Parallel()) == weights.bytes
    assert {weight.stored.name for weight in (*weights.first, *weights.last) if weight.linear} == {"q6_k"}


def test_a_plain_type_is_every_linear_layer():
    plain = bundled("llama-3.1-8b").weights.stored_as(kept_named("q4_k"))
    assert {weight.stored.name for layer in plain.layers for weight in layer} == {"q4_k", "bf16"}
    assert {weight.stored.name for weight in plain.first} == {"bf16"}


def test_the_mix_is_named_in_the_answer():
    said = run_json("size", "llama-3.1-8b", "--weight-dtype", "Q4_K_M")
    assert said["model"]["weights"]["bytes"] == pytest.approx(4.92e9, rel=0.002)
    assert any("q4_k_m" in note for note in said["model"]["notes"])


@pytest.mark.parametrize("model", ["falcon-40b", "qwen3-next-80b", "deepseek-v4-flash", "gemma-3n-e4b"])
def test_a_model_whose_tensors_llama_cpp_names_otherwise_is_refused(model):
    refused = run("size", model, "--weight-dtype", "q4_k_m")
    assert refused.code == 2
    assert "q4_k_m" in refused.err
    assert "q4_k" in refused.err.partition("hint")[2]


def test_an_unknown_format_lists_types_and_mixes():
    with pytest.raises(UnknownName) as caught:
        kept_named("q7_k")
    assert "q4_k_m" in caught.value.problem.hint
    assert "nvfp4" in caught.value.problem.hint


def test_layers_without_an_mlp_are_not_counted_where_there_are_no_experts():
    """llama-quant.cpp layer_info: with experts a layer's number, else how many matrices of the kind came before.

    Q4_K_S keeps the first eighth of them in Q5_K: 4 of 32 layers, and of these the first 8 have none.
    """
    whole = bundled("llama-3-8b").weights
    bare = tuple(weight for weight in whole.layers[0] if weight.component != "mlp")
    found = replace(whole, layers=((bare,) * 8 + whole.layers[8:])).stored_as(MIXES["q4_k_s"])
    down = [weight.stored.name for block in found.layers for weight in block if weight.last == "down_proj"]
    assert down == ["q5_k"] * 4 + ["q4_k"] * 20
