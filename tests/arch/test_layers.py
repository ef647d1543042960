"""What each kind of layer keeps, worked by hand."""

from __future__ import annotations

import pytest

from kvplan.arch.formats import FORMATS, KvFormat, parse_kv_format
from kvplan.arch.layers import (
    FP8_INDEX,
    FP32,
    Attention,
    Compressed,
    CrossAttention,
    Indexer,
    Latent,
    Recurrent,
    StateTensor,
)
from kvplan.arch.parallel import WHOLE, Shard, stage_layers
from kvplan.errors import CannotSplit, UsageError

BF16 = FORMATS["bf16"]
SAME = KvFormat(BF16, BF16)


def bytes_at(cache, tokens: int, kv: KvFormat = SAME, shard: Shard = WHOLE) -> int:
    return sum(part.group.bytes_at(tokens) for part in cache.parts(shard, kv, BF16))


def test_grouped_query_attention() -> None:
    layer = Attention(heads=64, kv_heads=8, k_dim=128, v_dim=128)
    assert bytes_at(layer, 1) == 8 * (128 + 128) * 2 == 4096
    assert bytes_at(layer, 1, shard=Shard(4)) == 1024
    assert bytes_at(layer, 1, shard=Shard(16)) == 512  # a whole head on every rank: 16 x 512 = 2 x 4096


def test_keys_and_values_may_differ_in_size_and_format() -> None:
    layer = Attention(heads=64, kv_heads=4, k_dim=192, v_dim=128)
    assert bytes_at(layer, 1) == 4 * (192 + 128) * 2 == 2560
    # q8_0: 34 B per 32 elements; q4_0: 18 B per 32. 4 x (6 x 34 + 4 x 18)
    assert bytes_at(layer, 1, parse_kv_format("q8_0:q4_0")) == 4 * (204 + 72)


@pytest.mark.parametrize(
    ("window", "chunk", "sinks", "cap"), [(4096, None, 0, 4096), (1020, None, 4, 1024), (None, 8192, 0, 8192)]
)
def test_windows_chunks_and_sinks_stop_growing(window, chunk, sinks, cap) -> None:
    layer = Attention(8, 1, 64, 64, window=window, chunk=chunk, sinks=sinks)
    assert bytes_at(layer, cap) == bytes_at(layer, 10 * cap) == cap * 256
    assert bytes_at(layer, cap - 1) == (cap - 1) * 256


def test_latent_is_whole_on_every_rank_and_dealt_by_context() -> None:
    layer = Latent(heads=128, rank=512, rope_dim=64, indexer=Indexer(128, FP8_INDEX), topk=2048)
    assert bytes_at(layer, 1) == (512 + 64) * 2 + 132 == 1284
    assert bytes_at(layer, 1, shard=Shard(8)) == 1284
    assert bytes_at(layer, 9, shard=Shard(8, dcp=8)) == 2 * 1284  # 9 tokens on 8 ranks: the fullest has 2
    read = sum(group.bytes_at(100_000) for group in layer.reads(WHOLE, SAME, BF16))
    assert read == 2048 * 1152 + 100_000 * 132


def test_compressed_attention() -> None:
    layer = Compressed(64, 512, window=128, ratio=4, indexer=Indexer(128, FP8_INDEX), state_elements=10)
    # 1,000 tokens: 128 raw latents, 250 compressed ones of 1,024 B and 250 index keys of 132 B, and 10 fp32
    assert bytes_at(layer, 1000) == 128 * 1024 + 250 * (1024 + 132) + 40


def test_a_step_of_compressed_attention_reads_its_window_what_is_chosen_and_every_index_key() -> None:
    layer = Compressed(64, 512, window=128, ratio=4, indexer=Indexer(128, FP8_INDEX), topk=512, state_elements=10)
    # 10,000 tokens: 128 raw latents and 512 of the 2,500 compressed ones, 2,500 index keys of 132 B, and 10 fp32
    read = sum(group.bytes_at(10_000) for group in layer.reads(WHOLE, SAME, BF16))
    assert read == (128 + 512) * 1024 + 2500 * 132 + 40


def test_pooled_index_keys_are_fewer_and_the_pool_that_is_filled_is_kept_raw() -> None:
    layer = Latent(heads=128, rank=512, rope_dim=64, indexer=Indexer(128, FP8_INDEX, pool=8))
    # 79 tokens: 9 pooled keys; keys and gates of a pool of 8, 128 elements of 2 B each
    assert bytes_at(layer, 79) == 79 * 1152 + 9 * 132 + 8 * 2 * 128 * 2


def test_pools_without_gates_keep_raw_keys_alone() -> None:
    layer = Attention(16, 2, 256, 256, indexer=Indexer(256, BF16, pool=16, gated=False), topk=2048)
    # 50 tokens: 2 heads' keys and values, 3 keys of a group, and the raw keys of one
    assert bytes_at(layer, 50) == 50 * 2 * 512 * 2 + 3 * 512 + 16 * 512


def test_state_is_constant_and_splits_by_heads() -> None:
    # Qwen3-Next: conv 3 x (16 x 2 x 128 + 32 x 128) in bf16, state 32 x 128 x 128 in fp32
    conv = StateTensor("conv", 3, ((16, 256), (32, 128)))
    state = StateTensor("recurrent", 1, ((32, 128 * 128),), FP32)
    layer = Recurrent("gated delta net", (conv, state), "by hand")
    assert bytes_at(layer, 1) == bytes_at(layer, 10**6) == 3 * 8192 * 2 + 524_288 * 4 == 2_146_304
    assert bytes_at(layer, 1, shard=Shard(4)) * 4 == 2_146_304
    assert bytes_at(layer, 1, parse_kv_format("fp8")) == 2_146_304


def test_cross_attention_is_fixed_by_the_encoder() -> None:
    assert bytes_at(CrossAttention(6, 6, 64, 64, tokens=1500), 0) == 1500 * 6 * 128 * 2


@pytest.mark.parametrize(
    ("name", "bytes_of_128"),
    [("bf16", 256), ("fp8", 128), ("q8_0", 136), ("q4_0", 72), ("q5_1", 96), ("nvfp4", 72), ("mxfp4", 68), ("fp8_per_token_head", 132)],
)  # fmt: skip
def test_rows_carry_their_scales(name: str, bytes_of_128: int) -> None:
    assert FORMATS[name].row_bytes(128) == bytes_of_128


def test_blocks_must_divide_the_row() -> None:
    with pytest.raises(UsageError, match="rows of 80"):
        FORMATS["q8_0"].row_bytes(80)


def test_heads_that_do_not_split_are_refused_by_name() -> None:
    with pytest.raises(CannotSplit, match="can't split 10 KV heads") as caught:
        Attention(40, 10, 128, 128).parts(Shard(4), SAME, BF16)
    assert "1, 2, 5, 10" in (caught.value.problem.hint or "")


@pytest.mark.parametrize(
    ("layers", "stages", "counts"), [(32, 3, (11, 11, 10)), (61, 2, (31, 30)), (80, 8, (10,) * 8), (7, 4, (2, 2, 2, 1))]
)
def test_layers_of_pipeline_stages(layers: int, stages: int, counts: tuple[int, ...]) -> None:
    assert stage_layers(layers, stages) == counts
