"""The max_model_len that vLLM takes when none is given, and the longest it accepts."""

from __future__ import annotations

import json
import re

import pytest

from kvplan.arch.model import Context, Origin, Rope
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Options, Setup
from kvplan.engines.vllm.policy import Vllm
from kvplan.families import read
from kvplan.sources.gpus import load_gpu
from kvplan.sources.models import load_model

LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "hidden_size": 64,
    "num_attention_heads": 4, "vocab_size": 100, "intermediate_size": 128, "max_position_embeddings": 32768,
}  # fmt: skip
NEW, OLD = Vllm(), Vllm((0, 10, 0))


def model(**fields):
    return read({**LLAMA, **fields}, Origin("test", "test"))


@pytest.mark.parametrize(
    ("rope", "new", "old"),
    [
        ({"rope_type": "linear", "factor": 4.0}, 131_072, 131_072),
        ({"type": "dynamic", "factor": 2.0}, 65_536, 65_536),
        ({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}, 32_768, 32_768),
        # in the stated length already, or on top of the original one: 4 x 16,384
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16384}, 32_768, 65_536),
        ({"full_attention": {"rope_type": "linear", "factor": 8.0}, "sliding_attention": {"rope_type": "default"}}, 262_144, 262_144),
        ({"rope_type": "linear", "factor": None}, 32_768, 32_768),
    ],
)  # fmt: skip
def test_scaled_lengths(rope, new, old):
    found = model(rope_scaling=rope)
    assert found.context.tokens == 32_768
    assert NEW.default_context(found).tokens == NEW.longest_context(found) == new
    assert OLD.default_context(found).tokens == old


def test_the_releases_that_changed_it():
    yarn = model(rope_scaling={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16384})
    assert [Vllm((0, minor, 0)).default_context(yarn).tokens for minor in (29, 30)] == [65_536, 32_768]
    phi = load_model("phi-4-mini")
    assert [Vllm(release).default_context(phi).tokens for release in ((0, 11, 0), (0, 11, 1))] == [131_072, 4096]


@pytest.mark.parametrize(
    ("config", "old", "lost"),
    [
        ({"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 10_000.0}}, 32_768, True),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}, 32_768, True),
        ({"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 4.0}}}, 32_768, True),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}, "rope_theta": 5e5}, 32_768, False),
        ({"rope_scaling": {"rope_type": "linear", "factor": 4.0}, "rope_parameters": {"rope_type": "default"}}, 131_072, False),
    ],
)  # fmt: skip
def test_rope_parameters_are_read_since_0_12(config, old, lost):
    """Source: config/model.py of 0.11.2, getattr(hf_config, "rope_scaling", None); patch_rope_parameters of 0.12."""
    found = model(**config)
    before, since = Vllm((0, 11, 2)), Vllm((0, 12, 0))
    scaled = "linear" in str(config)
    assert (before.default_context(found).tokens, before.longest_context(found)) == (old, old)
    assert since.default_context(found).tokens == (131_072 if scaled else 32_768)
    for engine, said in ((before, lost), (since, False)):
        setup = Setup(found, load_gpu("h100-sxm"), Parallel(), None, Options(), 1024)
        assert any("rope_parameters" in each for each in engine.start(setup).cautions()) is said


def test_longrope_starts_short_and_takes_more():
    factors = {"rope_type": "longrope", "short_factor": [1.0], "long_factor": [2.0]}
    found = model(rope_scaling=factors, original_max_position_embeddings=4096)
    assert NEW.default_context(found).tokens == 4096
    assert "longrope" in NEW.default_context(found).reason
    assert NEW.longest_context(found) == OLD.default_context(found).tokens == 32_768
    inside = model(rope_scaling={**factors, "original_max_position_embeddings": 4096})
    assert NEW.default_context(inside).tokens == 32_768


@pytest.mark.parametrize(
    ("model_type", "rope_type", "stated", "inside", "default"),
    [
        ("phi3", "longrope", None, 8192, 4096),  # its class has 4096 where the config says nothing beside the scaling
        ("phi3", "longrope", 8192, 2048, 8192),
        ("phi3", "yarn", None, 8192, 4096),  # longrope under an old name
        ("phimoe", "longrope", None, 2048, 2048),  # its class copies what the scaling says
        ("phimoe", "longrope", 8192, 2048, 8192),
        ("llama", "longrope", None, 4096, 32_768),
    ],
)
def test_the_original_length_of_longrope_is_the_models_own(model_type, rope_type, stated, inside, default):
    """Asked of vLLM 0.33, of each as it is here but for the sizes."""
    scaling = {
        "rope_type": rope_type,
        "short_factor": [1.0],
        "long_factor": [2.0],
        "original_max_position_embeddings": inside,
    }
    beside = {} if stated is None else {"original_max_position_embeddings": stated}
    found = model(model_type=model_type, num_key_value_heads=4, rope_scaling=scaling, **beside)
    assert NEW.default_context(found).tokens == default
    assert NEW.longest_context(found) == 32_768


def test_the_original_length_is_noted_as_a_default_where_it_counts():
    scaled = model(model_type="phi3", rope_scaling={"type": "longrope", "short_factor": [1.0], "long_factor": [2.0]})
    assert [scaled.context.original, model(model_type="phi3").context.original] == [4096, None]
    assert "original_max_position_embeddings" in {each.field for each in scaled.defaulted}


def test_default_lengths_of_bundled_models():
    assert NEW.default_context(load_model("phi-4-mini")).tokens == 4096
    assert NEW.default_context(load_model("gemma-3-27b")).tokens == 131_072
    assert (
        NEW.default_context(load_model("gpt-oss-120b")).tokens == OLD.default_context(load_model("gpt-oss-120b")).tokens
    )


def test_a_model_without_a_length_gets_2048_and_takes_any():
    found = read(
        {
            "model_type": "mamba", "architectures": ["MambaForCausalLM"], "hidden_size": 64, "num_hidden_layers": 2,
            "state_size": 16, "vocab_size": 100, "conv_kernel": 4, "expand": 2, "intermediate_size": 128, "time_step_rank": 4,
        },
        Origin("test", "test"),
    )  # fmt: skip
    assert found.context.tokens is None
    assert NEW.default_context(found).tokens == 2048
    assert NEW.longest_context(found) is None


def test_facts_are_the_configs_own():
    found = model(rope_scaling={"type": "yarn", "factor": 4, "original_max_position_embeddings": 8192}).context
    assert found == Context(
        32_768,
        "max_position_embeddings",
        (Rope("yarn", 4, 8192, ("factor", "original_max_position_embeddings", "type")),),
        lengths=(("max_position_embeddings", 32_768),),
    )


def test_every_row_of_the_corpus_without_a_length(corpus, count_cases):
    """vLLM 0.33's own planner, on 183 configs and the flags that leave the length alone."""
    found: dict[str, set[int]] = {}
    for row in map(json.loads, (corpus / "vllm-plans.jsonl").read_text().splitlines()):
        stated = re.search(r"max seq len \((\d+)\)", row.get("error", ""))
        length = row.get("max_model_len") or (int(stated[1]) if stated else None)
        if length is not None and "max_model_len" not in row["flags"]:
            found.setdefault(row["file"], set()).add(length)
    count_cases("vllm default lengths", len(found))
    assert len(found) >= 170
    ours = {}
    for name in found:
        config = json.loads((corpus / "configs" / name).read_text())
        ours[name] = {NEW.default_context(read(config, Origin(name, name))).tokens}
    assert ours == found


OLDEST = Vllm((0, 7, 3))
"""model_max_length doesn't replace the others yet."""


@pytest.mark.parametrize(
    ("stated", "new", "oldest"),
    [
        ({"max_seq_len": 4096}, 4096, 4096),
        ({"max_seq_length": 4096}, 4096, 4096),
        ({"n_positions": 4096}, 4096, 4096),
        ({"seq_len": 4096}, 4096, 4096),
        ({"max_target_positions": 4096}, 4096, 4096),
        ({"seq_length": 8192}, 8192, 8192),
        ({"max_sequence_length": 262144}, 32768, 32768),
        ({"max_sequence_length": 4096}, 4096, 4096),
        ({"model_max_length": 4096}, 4096, 4096),
        ({"model_max_length": 8192.0}, 8192, 8192),
        ({"model_max_length": 1000000}, 1000000, 32768),
        ({"model_max_length": 16384, "max_sequence_length": 4096}, 16384, 4096),
        ({"context_length": 4096, "n_ctx": 2048}, 32768, 32768),
    ],
)  # fmt: skip
def test_of_several_lengths_the_smallest_counts(stated, new, oldest):
    """As vLLM 0.33's planner answered for Qwen2.5-7B with each of them; 0.7.3 by its source."""
    found = model(**stated)
    assert NEW.default_context(found).tokens == NEW.longest_context(found) == new
    assert OLDEST.default_context(found).tokens == oldest


def test_a_class_s_own_length_counts_too():
    silent = {key: value for key, value in LLAMA.items() if key != "max_position_embeddings"}
    found = read({**silent, "max_sequence_length": 8192}, Origin("test", "test"))
    assert found.context.tokens == 8192
    assert NEW.default_context(found).tokens == 2048  # LlamaConfig's max_position_embeddings


def test_names_that_vllm_doesn_t_know_state_nothing():
    mamba = {
        "model_type": "mamba", "architectures": ["MambaForCausalLM"], "hidden_size": 64, "num_hidden_layers": 2, "state_size": 16,
        "vocab_size": 100, "conv_kernel": 4, "expand": 2, "intermediate_size": 128, "time_step_rank": 4, "context_length": 8192,
    }  # fmt: skip
    found = read(mamba, Origin("test", "test"))
    assert found.context.tokens == 8192
    assert NEW.default_context(found).tokens == 2048
    assert NEW.longest_context(found) is None


def test_kimi_k2_without_a_length_has_deepseek_v3_s():
    """vLLM 0.33 printed 4,096 for Kimi-K2.6 without max_position_embeddings."""
    kimi = {
        "model_type": "kimi_k2", "architectures": ["DeepseekV3ForCausalLM"], "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 100,
        "num_attention_heads": 4, "num_key_value_heads": 4, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
        "v_head_dim": 128, "intermediate_size": 128,
        "rope_scaling": {"type": "yarn", "factor": 64.0, "original_max_position_embeddings": 4096},
    }  # fmt: skip
    found = read(kimi, Origin("test", "test"))
    assert NEW.default_context(found).tokens == NEW.longest_context(found) == 4096
    assert found.context.tokens == 262_144
