"""Rooms that follow from how ranks share work: expanded latents, experts that meet other ranks' tokens, buffers they exchange them through.

Worked out by hand from the sources named in the modules.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Options, Setup
from kvplan.engines.vllm.memory.contexts import contexts
from kvplan.engines.vllm.memory.dimensions import dimensions
from kvplan.engines.vllm.memory.exchange import exchanged
from kvplan.engines.vllm.memory.rooms import rooms
from kvplan.engines.vllm.policy import Vllm
from kvplan.engines.vllm.settings import settings
from kvplan.engines.vllm.tables.changes import rules
from kvplan.engines.vllm.tables.versions import parse
from kvplan.sources.gpus import load_gpu
from kvplan.sources.models import load_model
from kvplan.units import GIB

ONE, DEALT = Parallel(), Parallel(dp=8, ep=8)
R1, V32 = "deepseek-r1", "deepseek-v3.2"


def flags(name, version, parallel, length=32_768, gpu="h200", **options):
    held = rules(parse(version))
    model, device = load_model(name), load_gpu(gpu)
    return model, device, settings(Setup(model, device, parallel, None, Options(**options), length), held), held


def room(name, version, parallel, *, most=False, **options):
    model, device, own, held = flags(name, version, parallel, **options)
    return rooms(model, dimensions(model, parallel).likely, device, own, held, most=most)


@pytest.mark.parametrize(
    ("name", "version", "tp", "asked", "rows"),
    [
        (R1, "0.33.0", 1, {}, 65_536), (R1, "0.33.0", 8, {}, 65_536),
        (R1, "0.33.0", 8, {"length": 2048, "max_num_seqs": 16}, 16_384),  # 8 lengths
        (R1, "0.33.0", 8, {"length": 1000, "max_num_seqs": 200, "block_size": 64}, 51_200),  # 4 blocks of each sequence
        (R1, "0.27.0", 8, {"max_num_seqs": 1024, "block_size": 128}, 131_072),  # a block of each, however many
        (R1, "0.28.0", 8, {"max_num_seqs": 1024, "block_size": 128}, 65_536),
        (R1, "0.28.0", 8, {"length": 1001, "max_num_seqs": 8, "block_size": 64}, 8064),  # whole blocks
        (V32, "0.33.0", 8, {}, 65_536), (V32, "0.15.0", 8, {}, None), (R1, "0.15.0", 8, {}, 65_536), (R1, "0.10.2", 8, {}, None),
        ("deepseek-v4-flash", "0.33.0", 8, {}, None), ("qwen3-30b-a3b", "0.33.0", 1, {}, None),
    ],
)  # fmt: skip
def test_latents_of_earlier_tokens_are_expanded(name, version, tp, asked, rows):
    """To 128 + 128 elements of each head, beside queries of 192, outputs of 128, and two hidden states of each token."""
    model, _, own, held = flags(name, version, Parallel(tp=tp), **asked)
    hidden = dimensions(model, own.parallel).likely.hidden
    heads = 128 // tp
    room = 0 if rows is None else 2 * (rows * heads * 256 + own.tokens * (heads * 320 + 2 * hidden))
    assert contexts(model, hidden, own, held) == room


def test_a_plan_has_that_room_in_blocks_that_it_settled():
    """Data-parallel attention has all heads on each rank: 4 GiB, which no other layer of DeepSeek-R1 hides."""
    own = Setup(load_model(R1), load_gpu("h200"), DEALT, None, Options(max_num_batched_tokens=1024), 32_768)
    found = Vllm(parse("0.33.0")).start(own).budget().activation
    assert found.bytes.likely > 4 * GIB
    assert f"{2 * (65_536 * 128 * 256 + 1024 * (128 * 320 + 2 * 7168)):,} B of the widest layer" in found.formula


@pytest.mark.parametrize(
    ("version", "gpu", "most", "parallel", "tokens"),
    [
        ("0.33.0", "h200", False, Parallel(tp=8, ep=8), 8192), ("0.33.0", "h200", False, DEALT, 8 * 8192),
        ("0.33.0", "h200", False, Parallel(tp=2, dp=4, ep=8), 4 * 8192),
        ("0.33.0", "b200", False, DEALT, 8192), ("0.33.0", "b200", True, DEALT, 8 * 8192),  # TensorRT-LLM's kernels may have none
        ("0.17.0", "h200", False, DEALT, 16_384), ("0.17.0", "h200", False, Parallel(tp=8), 8192),
        ("0.11.0", "h200", False, DEALT, 65_536),
    ],
)  # fmt: skip
def test_experts_meet_the_tokens_of_all_data_parallel_ranks(version, gpu, most, parallel, tokens):
    """8 experts of 7,168 inputs each, which is more than 2 x 2,048, so that both rooms are as wide."""
    found = room(R1, version, parallel, gpu=gpu, most=most, max_num_batched_tokens=8192)
    assert found.staying == 2 * tokens * 8 * 2 * 7168
    met = 8192 * (1 if gpu == "b200" and not most else parallel.dp)
    assert found.running == (2 * 2 * met * 7168 if parallel.dp > 1 else 0)  # gathered, and what experts put out


@pytest.mark.parametrize(("version", "tokens"), [("0.17.0", 16_384), ("0.18.0", 40_000), ("0.11.0", 40_000)])
def test_long_steps_were_run_in_chunks(version, tokens):
    found = room(R1, version, Parallel(tp=8, ep=8), max_num_batched_tokens=40_000, length=65_536)
    assert found.staying == 2 * tokens * 8 * 2 * 7168


@pytest.mark.parametrize(("tokens", "stated"), [(2048, 35.55), (1840, 31.94), (1536, 26.66)])
def test_buffers_of_experts_that_exchange_in_batches(tokens, stated):
    """Hidden states of 5,120 and 448 experts on 16 ranks: vllm-project/vllm#57894."""
    model, _, own, _ = flags(R1, "0.33.0", Parallel(dp=16, ep=16))
    sizes = dimensions(model, own.parallel).likely
    sizes = replace(sizes, experts=replace(sizes.experts, count=448, inputs=5120))
    batches = exchanged(sizes, replace(own, all2all_backend="nixl_ep", exchanged=tokens))
    assert batches.low == batches.high
    assert batches.likely / GIB == pytest.approx(stated, abs=0.005)
    assert (
        exchanged(sizes, replace(own, all2all_backend="deepep_low_latency", exchanged=tokens)).low == batches.low + GIB
    )


@pytest.mark.parametrize(("ranks", "rooms"), [(8, (1, 1, 2)), (16, (1, 2, 2))])
def test_rooms_of_deepep_for_many_tokens(ranks, rooms):
    """VLLM_DEEPEP_BUFFER_SIZE_MB for ranks of a node, and once more for nodes; experts meet only tokens that pick them."""
    parallel, backend = Parallel(dp=ranks, ep=ranks), "deepep_high_throughput"
    model, _, own, _ = flags(R1, "0.33.0", parallel, all2all_backend=backend)
    found = exchanged(dimensions(model, parallel).likely, own)
    assert (found.low, found.likely, found.high) == tuple(each * GIB for each in rooms)
    assert (
        room(R1, "0.33.0", parallel, all2all_backend=backend, max_num_batched_tokens=8192).staying
        == 2 * 8192 * 8 * 2 * 7168
    )
    none = flags("llama-3.1-8b", "0.33.0", Parallel(dp=2), all2all_backend=backend)[2]
    assert exchanged(dimensions(load_model("llama-3.1-8b"), ONE).likely, none).high == 0


def test_without_expert_parallelism_all_tokens_are_gathered():
    """all2all_utils.py: "Falling back to AllGather+ReduceScatter dispatch/combine"."""
    found = flags(R1, "0.33.0", Parallel(dp=8), all2all_backend="deepep_high_throughput")[2]
    assert (found.all2all_backend, found.met) == ("", 8)


@pytest.mark.parametrize(
    ("version", "parallel", "asked", "tokens"),
    [
        ("0.33.0", DEALT, {}, 256), ("0.33.0", DEALT, {"max_num_batched_tokens": 512}, 512),
        ("0.19.0", DEALT, {"max_num_batched_tokens": 8192}, 256), ("0.33.0", Parallel(tp=8, ep=8), {}, 0),
    ],
)  # fmt: skip
def test_each_expert_has_room_for_every_token_of_every_rank(version, parallel, asked, tokens):
    """256 experts. Tokens come in 8 bits; of the rooms one is 7,168 wide and one 2,048."""
    model, _, own, _ = flags(R1, version, parallel, all2all_backend="deepep_low_latency", **asked)
    assert own.exchanged == tokens
    room_of_node = GIB if tokens else 0
    assert (
        exchanged(dimensions(model, parallel).likely, own).low == 4 * 256 * tokens * (7168 * 2 + 56 * 4) + room_of_node
    )
    if tokens:
        found = room(R1, version, parallel, all2all_backend="deepep_low_latency", **asked)
        assert found == (256 * tokens * 7168, 2 * 256 * tokens * (7168 + 2048), 0)


def test_a_plan_counts_those_buffers():
    """3.55 GiB of messages and 1 GiB that a node's ranks share."""
    asked = Options(max_num_batched_tokens=256, max_num_seqs=256)
    own = Setup(load_model(R1), load_gpu("h200"), DEALT, None, asked, 32_768)
    found, plain = (
        Vllm(parse("0.33.0")).start(replace(own, options=options)).budget().runtime
        for options in (replace(asked, all2all_backend="deepep_low_latency"), asked)
    )
    buffers = 4 * 256 * 256 * (7168 * 2 + 56 * 4)
    for end in ("low", "likely", "high"):
        assert getattr(found.bytes, end) - getattr(plain.bytes, end) == buffers + GIB
    assert f"{buffers + GIB:,} B that experts exchange tokens through" in found.formula
