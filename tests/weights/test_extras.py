"""Adapters and drafts: what they add, by hand."""

from __future__ import annotations

import pytest
from weights.conftest import bundled, described
from weights.test_parameters import LLAMA_8B

from kvplan.arch.extras import adapters, with_draft
from kvplan.arch.formats import FORMATS, KvFormat
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Options
from kvplan.engines.extras import beside
from kvplan.errors import UnknownName, UsageError

BF16 = KvFormat(FORMATS["bf16"], FORMATS["bf16"])
SIDES = {
    "q_proj": 8192,
    "k_proj": 5120,
    "v_proj": 5120,
    "o_proj": 8192,
    "gate_proj": 18432,
    "up_proj": 18432,
    "down_proj": 18432,
}
"""Inputs and outputs together of Llama 3 8B's linear layers."""


def test_rank_times_inputs_and_outputs():
    weights = described(LLAMA_8B).weights
    one = adapters(weights, rank=16)
    assert one.bytes == 2 * one.total == 2 * 32 * 16 * sum(SIDES.values())
    assert adapters(weights, rank=16, resident=5, targets=("q_proj", "v_proj")).bytes == 5 * 2 * 32 * 16 * (8192 + 5120)


def test_adapters_split_as_their_layers_do():
    weights = described(LLAMA_8B).weights
    two = adapters(weights, rank=8, targets=("q_proj", "down_proj")).bytes_on_rank(Parallel(tp=4))
    assert two == 2 * 32 * 8 * ((4096 + 4096 // 4) + (14336 // 4 + 4096))
    halves = [adapters(weights, rank=8).bytes_on_rank(Parallel(pp=2), stage) for stage in (0, 1)]
    assert halves[0] == halves[1] == adapters(weights, rank=8).bytes // 2


def test_adapters_of_the_ends_are_whole_on_every_rank():
    """vLLM 0.33 lora/layers: rank x (100,015 + 3,584) for embed_tokens, and for lm_head, on each of four ranks."""
    model = {
        **LLAMA_8B,
        "vocab_size": 100_015,
        "hidden_size": 3_584,
        "num_attention_heads": 28,
        "num_key_value_heads": 4,
    }
    weights = described(model).weights
    ends = adapters(weights, rank=64, resident=4, targets=("embed_tokens", "lm_head"))
    assert ends.bytes_on_rank(Parallel(tp=4)) == 2 * 53_042_688
    assert [ends.bytes_on_rank(Parallel(pp=2), stage) for stage in (0, 1)] == [53_042_688, 53_042_688]
    assert ends.bytes == 2 * 4 * 64 * 2 * (100_015 + 3_584)


def test_adapters_of_experts():
    weights = bundled("mixtral-8x7b").weights
    one = adapters(weights, rank=4, targets=("gate_proj",))
    assert one.total == 32 * 8 * 4 * (4096 + 14336)
    assert one.active == 32 * 2 * 4 * (4096 + 14336)


def test_targets_that_are_not_there():
    with pytest.raises(UnknownName) as caught:
        adapters(described(LLAMA_8B).weights, rank=8, targets=("c_attn",))
    assert "q_proj" in caught.value.problem.hint
    with pytest.raises(UsageError):
        adapters(described(LLAMA_8B).weights, rank=0)


def test_a_draft_model_has_its_own_tables_and_its_own_layers():
    draft, half = bundled("qwen3-0.6b"), Parallel(tp=2)
    served = with_draft(bundled("qwen3-32b"), draft)
    assert served.weights.draft_total == draft.weights.total
    assert served.weights.draft_bytes_on_rank(half) == draft.weights.bytes_on_rank(half)
    curve = served.curve(BF16, half.shard, served.draft_layers)
    assert curve.bytes_at(1000) == 28 * 2 * 4 * 128 * 2 * 1000  # 28 layers of its own, half of 8 KV heads


def test_prediction_layers_use_the_model_s_tables():
    model = bundled("deepseek-v3")
    assert model.curve(BF16, Parallel().shard, model.draft_layers).bytes_at(100) == 576 * 2 * 100
    assert (
        model.weights.draft_bytes_on_rank(Parallel()) < model.weights.draft_total * 1.02
    )  # fp8, no embedding, no head


def test_weights_given_by_hand_have_the_prediction_layers_and_no_draft_model():
    drafted = Options(weights_per_gpu=1, speculative_tokens=1)
    assert beside(bundled("deepseek-v3"), Parallel(), drafted) == ()
    draft = bundled("qwen3-0.6b")
    (term,) = beside(with_draft(bundled("qwen3-32b"), draft), Parallel(), drafted)
    assert term.bytes.likely == draft.weights.bytes_on_rank(Parallel())


def test_a_model_without_prediction_layers_has_no_draft():
    model = described(LLAMA_8B)
    assert (model.draft_layers, model.weights.draft) == ((), ())


def test_adapters_need_matrices():
    with pytest.raises(UsageError, match="adapters can't be counted"):
        adapters(bundled("gpt-3-175b").weights, rank=8)
