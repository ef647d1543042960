"""Bytes on each GPU: what is split, what is held whole, which stage is fullest; by hand, and against vLLM's own tensors."""

from __future__ import annotations

import pytest
from fullest import fullest
from hypothesis import given, settings
from hypothesis import strategies as st
from weights.conftest import bundled, described, lines
from weights.test_parameters import LLAMA_8B

from kvplan.arch.parallel import Parallel
from kvplan.arch.storage import BF16, MXFP4
from kvplan.arch.weights import PLAIN, Weight
from kvplan.engines.vllm.layout.experts import Kernels, multiples
from kvplan.engines.vllm.layout.gaps import Replaced, gaps
from kvplan.engines.vllm.layout.views import view_of, vllm
from kvplan.sources.gpus import load_gpu
from kvplan.units import GIB

LAYER = 2 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
"""Bytes of the matrices of a layer of Llama 3 8B."""
NORMS = 2 * 2 * 4096
TABLE = 2 * 128256 * 4096


def test_tensor_ranks_split_matrices_and_hold_norms_whole():
    weights = described(LLAMA_8B).weights
    assert weights.bytes_on_rank(Parallel(tp=8)) == 32 * (LAYER // 8 + NORMS) + 2 * TABLE // 8 + 2 * 4096


def test_more_ranks_than_kv_heads_copy_them():
    weights = described(LLAMA_8B).weights
    kv = 2 * 2 * 4096 * 1024
    whole = weights.bytes_on_rank(Parallel(tp=16))
    assert whole == 32 * ((LAYER - kv) // 16 + kv // 8 + NORMS) + 2 * TABLE // 16 + 2 * 4096


def test_stages_hold_their_layers_and_an_end():
    weights = described(LLAMA_8B).weights
    first, last = (weights.bytes_on_rank(Parallel(pp=2), stage) for stage in (0, 1))
    assert first == 16 * (LAYER + NORMS) + TABLE
    assert last == first + 2 * 4096  # the head instead of the embedding, and the last norm
    assert fullest(weights, Parallel(pp=2)) == last


def test_a_tied_table_is_copied_to_the_last_stage():
    weights = described({**LLAMA_8B, "tie_word_embeddings": True}).weights
    halves = [weights.bytes_on_rank(Parallel(pp=2), stage) for stage in (0, 1)]
    assert sum(halves) == weights.bytes + TABLE


def test_vocabularies_are_padded_by_the_engine_not_by_the_checkpoint():
    odd = described({**LLAMA_8B, "vocab_size": 32001}).weights
    assert (
        odd.bytes_on_rank(Parallel(), view=vllm("llama")) - odd.bytes == 2 * 2 * 63 * 4096 + 2 * 8192 * 128
    )  # and its table of positions
    assert odd.bytes_on_rank(Parallel(tp=2), view=PLAIN) == 32 * (LAYER // 2 + NORMS) + 2 * 2 * 16001 * 4096 + 2 * 4096


def test_experts_are_cut_or_dealt():
    weights = bundled("mixtral-8x7b").weights
    experts = 32 * 8 * 3 * 4096 * 14336 * 2
    cut, dealt = Parallel(tp=8), Parallel(tp=8, ep=8)
    assert weights.bytes_on_rank(cut) == weights.bytes_on_rank(dealt)  # eight experts on eight ranks: the same bytes
    over = Parallel(tp=2, dp=4, ep=8)
    dense = weights.bytes_on_rank(Parallel(tp=2)) - experts // 2
    assert weights.bytes_on_rank(over) == dense + experts // 8


def test_latent_down_projections_and_routers_are_whole():
    weights = bundled("deepseek-v2-lite").weights
    layer = weights.layers[5]
    whole = {w.name for w in layer if w.on_rank(Parallel(tp=8))[0] == w.shape}
    assert {"self_attn.kv_a_proj_with_mqa", "self_attn.kv_a_layernorm", "mlp.gate", "input_layernorm"} <= whole
    assert "self_attn.kv_b_proj" not in whole


def rows() -> list[tuple[str, dict, int, int, int]]:
    return [
        (row["id"], row["config"], *map(int, split.split("x")), size)
        for row in lines("weights-vllm.jsonl")
        for split, size in row["bytes"].items()
    ]


@pytest.mark.parametrize(
    ("name", "config", "tp", "pp", "expected"), rows(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_the_fullest_gpu_against_vllm_s_own_tensors(name, config, tp, pp, expected):
    model = described(config, name)
    found = fullest(model.weights, Parallel(tp=tp, pp=pp), view_of(model))
    assert found == pytest.approx(expected, rel=0.005)


@pytest.mark.parametrize(("gpu", "gib"), [("h100", 61.00), ("a100-80gb", 65.93), ("b200", 65.93)])
def test_four_bit_experts_are_padded_as_the_gpu_s_kernels_want(gpu, gib):
    """Marlin's kernels make 3072 x 2944 of gpt-oss's 2880 x 2880; a public log prints 65.97 GiB for them.

    Triton's round no size, so the checkpoint's 60.80 GiB, and 4,608 x 46,080 B of rounded scales and longer biases.
    """
    model = bundled("gpt-oss-120b")
    found = fullest(model.weights, Parallel(), vllm(model.family, load_gpu(gpu)))
    assert found / GIB == pytest.approx(gib, abs=0.01)


NAMES = st.sampled_from(
    [
        "llama-3.1-8b",
        "mixtral-8x7b",
        "deepseek-v3",
        "gemma-3-4b",
        "qwen3-next-80b-a3b",
        "gpt-oss-20b",
        "jamba-v0.1",
        "whisper-tiny",
    ]
)


@settings(max_examples=60, deadline=None)
@given(NAMES, st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 3]), st.integers(1, 300))
def test_no_rank_holds_less_than_its_share_or_reads_more_than_it_holds(name, tp, pp, batch):
    weights = bundled(name).weights
    parallel = Parallel(tp=tp, pp=pp)
    held = [weights.bytes_on_rank(parallel, stage) for stage in range(pp)]
    assert tp * sum(held) >= weights.bytes
    assert max(held) == fullest(weights, parallel)
    for stage in range(pp):
        reads = weights.read_bytes(batch, parallel, stage)
        assert reads.low <= reads.likely <= reads.high + 1
        assert (
            reads.low
            <= held[stage] + (weights.first[0].bytes_on_rank(parallel) if weights.tied else 0) + batch * 2 * 20_000
        )
    assert weights.read_bytes(batch + 1, parallel).likely >= weights.read_bytes(batch, parallel).likely


@settings(max_examples=30, deadline=None)
@given(NAMES)
def test_counts_agree_with_one_another(name):
    weights = bundled(name).weights
    parts = weights.by_component()
    assert sum(count for part, count in parts.items() if part != "draft") == weights.total
    assert 0 < weights.active <= weights.total


def test_tables_of_positions_are_kept_by_vllm_s_own_classes_alone():
    """Seed-OSS's 524,288 rows of 128 in 16 bit; the Transformers library, which runs it since 0.32, keeps none."""
    model = bundled("seed-oss-36b")
    own, library = (
        model.weights.bytes_on_rank(Parallel(tp=8), view=view_of(model, version=version))
        for version in ((0, 31, 0), (0, 32, 0))
    )
    assert own - library == 524_288 * 128 * 2


def test_what_has_no_plan_is_whole_where_the_library_runs_it():
    """An output matrix of StarCoder's MLPs, which its plan leaves out; vLLM's own class, to 0.24, cuts it."""
    matrix = Weight("mlp.down_proj", (6144, 24576), "mlp", split=1, linear=True)
    library, own = (matrix.bytes_on_rank(Parallel(tp=2), vllm("gpt_bigcode", library=by)) for by in (True, False))
    assert (library, own) == (6144 * 24576 * 2, 6144 * 24576)


def _on_amd(name: str, where: Parallel, version: tuple[int, int, int]) -> int:
    """Bytes more than on an H200."""
    model = bundled(name)
    plain, padded = (
        fullest(model.weights, where, vllm(model.family, load_gpu(gpu), version)) for gpu in ("h200", "mi300x")
    )
    return padded - plain


def test_rows_lie_further_apart_on_amd():
    """256 bytes after each row of a multiple of 512: experts of 4,096 in 16 bit, whose other side of 192 is left alone."""
    wide, tp8 = 94 * 128 * 2 * 192 * 256, Parallel(tp=8)
    assert _on_amd("qwen3-235b-a22b", tp8, (0, 11, 2)) == wide
    assert [_on_amd("qwen3-235b-a22b", tp8, (0, minor, 0)) for minor in (22, 28, 33)] == [0, wide, 0]


def test_copies_on_amd_leave_room_that_nobody_can_have():
    """A layer's gate and up take 768 MiB, 816 with wider rows; down 384, 448: the latter moves into the 768 that the first
    left, and 320 MiB of it stay empty. Logs of Qwen3-VL-30B, whose layers are these, print 79.29 GiB, kvplan says 78.2."""
    mib = 1 << 20
    assert _on_amd("qwen3-30b-a3b", Parallel(), (0, 18, 0)) == 48 * (48 + 64 + 320) * mib
    assert gaps([Replaced(768 * mib, 816 * mib), Replaced(384 * mib, 448 * mib)]) == 320 * mib
    assert gaps([Replaced(768 * mib, 816 * mib), Replaced(384 * mib, 767 * mib)]) == mib  # too little to be split off
    assert gaps([Replaced(768 * mib, 816 * mib)] * 2) == 0  # the second doesn't fit in what the first left


def test_tensors_too_small_for_a_segment_of_their_own_are_left_out():
    assert gaps([Replaced(9 << 20, 9 << 20)] * 5) == 0


def test_experts_in_mxfp4_are_rounded_as_the_kernels_of_the_day_want():
    """Widths of 2,880 and inputs of 2,880: 2,944 x 3,072 for Marlin's kernels, 3,072 x 3,072 for TensorRT-LLM's before 0.29."""
    cases = {
        ("h100-sxm", (0, 10, 1)): (128, 256), ("h100-sxm", (0, 12, 0)): (64, 1), ("h100-sxm", (0, 33, 0)): (64, 1),
        ("b200", (0, 25, 0)): (256, 256), ("b200", (0, 33, 0)): (128, 256), ("a100-80", (0, 33, 0)): (128, 256),
        ("mi300x", (0, 33, 0)): (256, 256),
    }  # fmt: skip
    found = {key: multiples(MXFP4, Kernels(load_gpu(key[0]), key[1], "gpt_oss")) for key in cases}
    assert found == cases


def test_sixteen_bit_experts_of_another_activation_are_not_rounded_on_blackwell():
    """TensorRT-LLM's kernels have SiLU and squared ReLU; gemma-4's experts of 704 have GELU. Source: experts/trtllm_bf16_moe.py."""
    card = load_gpu("b200")
    assert multiples(BF16, Kernels(card)) == (128, 1)
    assert multiples(BF16, Kernels(card, common=False)) == (1, 1)
    assert "other_activation" in bundled("gemma-4-26b-a4b").traits
    assert "other_activation" not in bundled("qwen3-30b-a3b").traits


def test_experts_in_the_order_of_triton_s_kernels():
    """Of one expert of gpt-oss, bytes of gate and up together, of down, and of biases in 32 bit.

    Values and scales are what the layouts of each release make of 5,760 x 2,880 and 2,880 x 2,880; 90 groups an output.
    """
    values, tiled = 5760 * 1440 + 2880 * 1440, 5760 * 1472 + 2880 * 1472
    scales, checkpoint, biases = 5888 * 90 + 3072 * 90, 5760 * 90 + 2880 * 90, 4 * (5760 + 2880)
    cases = {
        (0, 13, 0): values + scales + checkpoint + biases, (0, 19, 0): tiled + scales + checkpoint + biases,
        (0, 22, 0): values + scales + checkpoint + biases, (0, 33, 0): values + scales + biases,
    }  # fmt: skip
    experts = [weight for weight in bundled("gpt-oss-20b").weights.layers[0] if weight.routed]
    hopper = load_gpu("h100-sxm")
    for version, each in cases.items():
        view = vllm("gpt_oss", hopper, version)
        assert sum(weight.bytes_on_rank(Parallel(), view) for weight in experts) == 32 * each, version


@pytest.mark.parametrize(
    ("name", "tp", "version", "printed_gib"),
    [("gpt-oss-20b", 1, (0, 19, 0), 13.64), ("gpt-oss-20b", 2, (0, 19, 0), 7.01), ("gpt-oss-120b", 1, (0, 25, 1), 61.29)],
)  # fmt: skip
def test_what_starts_on_an_h100_printed_for_gpt_oss(name, tp, version, printed_gib):
    """github.com/llm-d-incubation/llm-d-planner accuracy/results/v0.19.0/logs; a public log of 0.25.1 without a link."""
    model = bundled(name)
    view = view_of(model, load_gpu("h100-sxm"), version)
    assert fullest(model.weights, Parallel(tp=tp), view) / GIB == pytest.approx(printed_gib, rel=0.006)


def test_experts_in_mxfp4_of_other_models_have_other_kernels():
    """Triton's kernels have gpt-oss's activation alone; compressed-tensors rounds nothing. Source: vLLM 0.33 oracle/mxfp4.py."""
    hopper = load_gpu("h100-sxm")
    assert multiples(MXFP4, Kernels(hopper, family="qwen3_moe", method="quark")) == (128, 128)
    assert multiples(MXFP4, Kernels(hopper, family="qwen3_moe", method="compressed-tensors")) == (1, 1)
