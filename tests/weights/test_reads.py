"""Active parameters, and what a step of a batch reads, worked out by hand.

Active: everything but the experts that a token isn't routed to. Read: dense weights once, embeddings one row a token, of
E experts with k chosen the expected E x (1 - (1 - k/E)^batch) distinct ones.
"""

from __future__ import annotations

import pytest
from weights.conftest import bundled, described
from weights.test_parameters import LLAMA_8B

from kvplan.arch.parallel import Parallel

# layers with experts, experts, chosen, one expert's parameters, all other parameters, vocabulary x width
MIXTRAL = (32, 8, 2, 3 * 4096 * 14336, 1_605_636_096, 32000 * 4096)
GPT_OSS = (36, 128, 4, 3 * 2880 * 2880 + 3 * 2880, 2_127_557_952, 201088 * 2880)
QWEN3 = (48, 128, 8, 3 * 2048 * 768, 1_541_093_376, 151936 * 2048)


def test_mixtral_8x7b():
    layer = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 8 * 4096 + 2 * 4096
    assert 32 * layer + 2 * 32000 * 4096 + 4096 == MIXTRAL[4]
    weights = bundled("mixtral-8x7b").weights
    assert weights.active == MIXTRAL[4] + 32 * 2 * 3 * 4096 * 14336 == 12_879_925_248  # published: 12.9 billion


def test_gpt_oss_120b():
    weights = bundled("gpt-oss-120b").weights
    attention = 2 * 4096 * 2880 + 2 * 512 * 2880 + 4096 + 2 * 512 + 2880 + 64
    router = 128 * 2880 + 128
    assert 36 * (attention + router + 2 * 2880) + 2 * 201088 * 2880 + 2880 == GPT_OSS[4]
    assert weights.active == GPT_OSS[4] + 36 * 4 * GPT_OSS[3] == 5_711_982_912
    assert weights.active - GPT_OSS[5] == 5_132_849_472  # published: 5.13 billion, the embedding not counted


def test_qwen3_30b_a3b():
    attention = 2 * 2048 * 4096 + 2 * 2048 * 512 + 2 * 128
    assert 48 * (attention + 128 * 2048 + 2 * 2048) + 2 * 151936 * 2048 + 2048 == QWEN3[4]
    weights = bundled("qwen3-30b-a3b").weights
    assert weights.active == QWEN3[4] + 48 * 8 * QWEN3[3] == 3_353_032_704  # published: 3.3 billion


def test_deepseek_v3():
    weights = bundled("deepseek-v3").weights
    latent = 1536 * 7168 + 1536 + 24576 * 1536 + 576 * 7168 + 512 + 32768 * 512 + 7168 * 16384
    expert = 3 * 2048 * 7168
    dense = 61 * (latent + 2 * 7168) + 3 * 3 * 18432 * 7168 + 58 * (256 * 7168 + expert) + 2 * 129280 * 7168 + 7168
    assert weights.active == dense + 58 * 8 * expert == 37_552_282_624  # published: 37 billion


@pytest.mark.parametrize("batch", [1, 16, 256])
@pytest.mark.parametrize(("name", "shape"), [("mixtral-8x7b", MIXTRAL), ("qwen3-30b-a3b", QWEN3)])
def test_read_at_a_batch_in_bf16(name, shape, batch):
    layers, experts, chosen, expert, dense, embedding = shape
    width = {"mixtral-8x7b": 4096, "qwen3-30b-a3b": 2048}[name]
    fixed = 2 * (dense - embedding + batch * width)
    distinct = experts * (1 - (1 - chosen / experts) ** batch)
    reads = bundled(name).weights.read_bytes(batch)
    assert reads.low == fixed + 2 * layers * chosen * expert
    assert reads.likely == pytest.approx(fixed + 2 * layers * distinct * expert, rel=1e-9)
    assert reads.high == fixed + 2 * layers * min(experts, chosen * batch) * expert


def test_gpt_oss_reads_its_experts_in_four_bits():
    reads = bundled("gpt-oss-120b").weights.read_bytes(1)
    dense = 2 * (GPT_OSS[4] - GPT_OSS[5] + 2880)
    experts = (
        36 * 4 * (3 * 2880 * (2880 // 2 + 2880 // 32) + 2 * 3 * 2880)
    )  # mxfp4 with one scale per 32, biases in bf16
    assert reads.low == reads.likely == dense + experts


def test_deepseek_v3_reads_fp8_with_a_scale_per_block():
    reads = bundled("deepseek-v3").weights.read_bytes(1)

    def fp8(rows: int, columns: int) -> int:
        return rows * columns + -(-rows // 128) * -(-columns // 128) * 4

    latent = fp8(1536, 7168) + fp8(24576, 1536) + fp8(576, 7168) + fp8(32768, 512) + fp8(7168, 16384) + 2 * (1536 + 512)
    expert = 2 * fp8(2048, 7168) + fp8(7168, 2048)
    dense = 2 * fp8(18432, 7168) + fp8(7168, 18432)
    sixteen_bit = 2 * (61 * 2 * 7168 + 58 * 256 * 7168 + 7168 + 129280 * 7168 + 7168)
    assert reads.low == 61 * latent + 3 * dense + 58 * 9 * expert + sixteen_bit


def test_expert_parallel_ranks_read_their_share():
    weights = bundled("qwen3-30b-a3b").weights
    whole, ranked = weights.read_bytes(64), weights.read_bytes(64, Parallel(tp=8, ep=8))
    experts = 48 * 128 * (1 - (1 - 8 / 128) ** 64) * 2 * QWEN3[3]
    assert whole.likely - experts == pytest.approx(2 * (QWEN3[4] - QWEN3[5]) + 64 * 4096, rel=1e-9)
    assert ranked.likely < whole.likely / 7
    assert ranked.low > ranked.likely / 64


def test_data_parallel_replicas_meet_the_same_experts():
    weights = bundled("qwen3-30b-a3b").weights
    one = weights.read_bytes(64, Parallel(tp=1, dp=8, ep=8))
    dense = 2 * (QWEN3[4] - QWEN3[5]) + 64 * 4096
    assert one.likely - dense == pytest.approx(48 * 16 * (1 - (1 - 8 / 128) ** 512) * 2 * QWEN3[3], rel=1e-6)


def test_a_dense_model_reads_all_but_its_embedding():
    weights = described(LLAMA_8B).weights
    expected = 2 * (weights.total - 128256 * 4096 + 5 * 4096)
    assert weights.read_bytes(5) == (expected, expected, expected)


def test_a_tied_head_is_read_whole():
    weights = described({**LLAMA_8B, "tie_word_embeddings": True}).weights
    assert weights.read_bytes(1).likely == 2 * (
        weights.total + 4096
    )  # the table as head, and one row of it as embedding


def test_towers_are_not_read():
    weights = bundled("gemma-3-4b").weights
    assert weights.towers
    language = sum(weight.parameters for weight in weights.towers)
    assert weights.read_bytes(1).likely == 2 * (weights.total - language + 2560)
    assert weights.active == weights.total - language


def test_stages_add_up():
    weights = bundled("mixtral-8x7b").weights
    whole, halves = weights.read_bytes(4), weights.read_bytes(4, Parallel(pp=2))
    assert halves == whole
    assert sum(weights.read_bytes(4, Parallel(pp=2), stage).likely for stage in (0, 1)) == pytest.approx(
        whole.likely, abs=2
    )
