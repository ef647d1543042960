"""Public reports about vLLM's capacity and memory, each asked of kvplan. The numbers are the threads' own arithmetic."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvplan.arch.formats import parse_kv_format
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Capacity, Options, Refusal, Setup
from kvplan.engines.registry import engine
from kvplan.engines.vllm.blocks.groups import Cached, layout
from kvplan.engines.vllm.blocks.specs import Demand, Spec
from kvplan.engines.vllm.memory.step import steps
from kvplan.engines.vllm.policy import Vllm
from kvplan.engines.vllm.tables.changes import rules
from kvplan.engines.vllm.tables.versions import NEWEST
from kvplan.sources.gpus import load_gpu
from kvplan.sources.models import load_model
from kvplan.units import GIB, MIB

H100, H200, A100 = load_gpu("h100"), load_gpu("h200"), load_gpu("a100-80")
ONE = Parallel()


def window(span: int, block: int) -> Spec:
    return Spec("sliding", block, block, block, span=span)


def capacity(name, version, context, memory, options=Options(), gpu=H100, parallel=ONE, kv=None):  # noqa: B008
    model, own = load_model(name), engine(f"vllm@{version}")
    chosen = own.kv_format(model, None if kv is None else parse_kv_format(kv), gpu)
    return own.start(Setup(model, gpu, parallel, chosen, options, context)).capacity(round(memory * GIB))


def activation(name, version, context, gpu=H100):
    own = engine(f"vllm@{version}")
    return own.start(Setup(load_model(name), gpu, ONE, None, Options(), context)).budget().activation.bytes.likely


def test_k116_prompts_are_cut_only_above_32k_so_30000_takes_more_than_35000():
    peaks = {context: activation("llama-3.1-8b", "0.6.4", context) for context in (20_000, 29_000, 32_768, 35_000)}
    assert peaks[20_000] < peaks[29_000] < peaks[32_768]
    assert peaks[35_000] < peaks[20_000]
    assert activation("llama-3.1-8b", "0.19.0", 20_000) == activation("llama-3.1-8b", "0.19.0", 120_000)


def test_k120_the_memory_itself_moves_with_the_length():
    own, model = engine("vllm@0.6.4"), load_model("llama-3.1-8b")
    at = [
        own.start(Setup(model, H100, ONE, None, Options(), context)).budget().kv.likely for context in (8_192, 32_768)
    ]
    assert at[1] < at[0]


def test_k119_graphs_are_taken_off_once():
    own, model = engine("vllm"), load_model("llama-3.1-8b")
    found = own.start(Setup(model, H100, ONE, None, Options(), 8192)).budget()
    spent = (found.weights, found.activation, found.runtime)
    assert found.kv.likely == found.usable.bytes.likely - sum(term.bytes.likely for term in spent)
    eager = own.start(Setup(model, H100, ONE, None, Options(graphs=False), 8192)).budget()
    assert found.runtime.bytes.likely - eager.runtime.bytes.likely == pytest.approx(32 * 9.4 * 2**20, abs=1)


@pytest.mark.parametrize(
    ("span", "block", "in_flight", "length", "pages"),
    [
        (1024, 16, 2 * 32768, 262144, 4161),  # K121, 0.26
        (1024, 16, 32768, 262144, 2113),  # K121, 0.25.1
        (4, 4, 2 * 16384, 1048576, 8194),  # K122
        (512, 32, 2 * 16384, 1048576, 1041),  # K122
        (512, 32, 0, 1048576, 17),  # K122, what stays
        (4, 4, 0, 1048576, 2),  # K122, what stays
        (1024, 32, 32768, 65536, 1057),  # K124
        (1024, 32, 1024, 65536, 65),  # K124
        (2048, 16, 2, 262144, 130),  # K125
    ],
)
def test_blocks_of_a_window(span, block, in_flight, length, pages):
    assert window(span, block).pages(Demand(length, in_flight)) == pages


def test_k121_gemma_needs_more_since_0_26():
    flags = Options(max_num_batched_tokens=32768)
    before, after = (capacity("gemma-4-31b", version, 262144, 90, flags, H200) for version in ("0.25.1", "0.29.0"))
    assert after.max_concurrency < before.max_concurrency
    plain = [capacity("gemma-4-31b", version, 262144, 90, flags, H200) for version in ("0.22.0", "0.25.1")]
    assert plain[0].max_concurrency == plain[1].max_concurrency


def test_k123_the_same_change_can_stop_a_start():
    page = 2_289_536
    assert (5654 - 4950) * page == pytest.approx(1.50 * GIB, rel=1e-3)
    asked = ("deepseek-v4-pro", "0.25.1", 200_000), ("deepseek-v4-pro", "0.29.0", 200_000)
    flags = Options(max_num_batched_tokens=8192, utilization=0.9)
    needs = [capacity(*each, 100, flags, H200, Parallel(tp=8)) for each in asked]
    assert needs[1].max_concurrency < needs[0].max_concurrency


def test_k126_one_odd_layer_makes_every_group_one_layer():
    kinds = [Spec("state", 1, 64, 64, held=1)] * 30 + [Spec("full", 16, 64, 64)] * 10 + [window(512, 16).padded(64)] * 5
    even = layout([Cached(spec) for spec in kinds], rules(), hybrid_manager=True, packed=False)
    assert len(even.groups) == 30 // 5 + 10 // 5 + 1
    odd = [*kinds, Spec("full", 16, 64, 64, identity="draft")]
    cut = layout([Cached(spec) for spec in odd], rules(), hybrid_manager=True, packed=False)
    assert len(cut.groups) == 46


def test_k130_a_pool_is_not_a_batch_the_peak_comes_off_first():
    own, model = engine("vllm"), load_model("llama-2-70b")
    four = Parallel(tp=4)
    found = own.start(Setup(model, A100, four, None, Options(), 4096)).budget()
    assert found.kv.likely < found.usable.bytes.likely - found.weights.bytes.likely
    pool = own.start(Setup(model, A100, four, own.kv_format(model, None, A100), Options(), 4096)).capacity(found.kv.low)
    assert isinstance(pool, Capacity)
    assert pool.max_sequences == pool.kv_tokens // 4096


def test_k133_deepseek_r1_on_eight_h200_holds_about_half_a_million_tokens():
    own, model, eight = engine("vllm@0.19.0"), load_model("deepseek-r1"), Parallel(tp=8)
    found = own.start(Setup(model, H200, eight, None, Options(utilization=0.9), 8192)).budget()
    pool = own.start(Setup(model, H200, eight, own.kv_format(model, None, H200), Options(), 8192)).capacity(
        found.kv.likely
    )
    assert isinstance(pool, Capacity)
    assert 450_000 < pool.kv_tokens < 700_000


def test_k136_an_embedder_is_charged_for_what_it_holds():
    own, model = engine("vllm"), load_model("qwen3-0.6b")
    found = own.start(Setup(model, H100, ONE, None, Options(), 8192)).budget()
    assert found.weights.bytes.likely == pytest.approx(1.12 * GIB, rel=0.01)


def test_k137_a_pool_given_by_hand_is_the_pool():
    found = capacity("qwen3-1.7b", "0.33.0", 1024, 0.875, Options(max_num_seqs=8, kv_memory=round(0.875 * GIB)))
    assert found.max_concurrency == 8
    own, model = engine("vllm"), load_model("qwen3-1.7b")
    given = own.start(Setup(model, H100, ONE, None, Options(kv_memory=round(0.875 * GIB)), 1024)).budget().kv
    assert (given.low, given.high) == (round(0.875 * GIB),) * 2


def test_k138_bytes_over_tokens_is_the_rate_of_a_plain_model():
    found = capacity("llama-2-7b", "0.33.0", 4096, 69_524_783_104 / GIB)
    assert found.kv_bytes // found.kv_tokens == 524_288
    assert found.kv_tokens == 132_608


@pytest.mark.parametrize("version", ["0.20.0", "0.33.0"])
def test_k140_k144_only_concurrency_compares(version):
    """The tokens of a hybrid's log are concurrency x length since 0.20.1, and something else before."""
    found = capacity("qwen3.5-35b-a3b", version, 32768, 40)
    product = found.max_concurrency * 32768
    assert (int(product) == found.kv_tokens) == (version == "0.33.0")


def test_k141_k144_the_token_line_moves_with_the_length():
    found = [capacity("gemma-4-31b", "0.33.0", context, 60, gpu=H200) for context in (65_536, 131_072)]
    assert found[0].kv_tokens != found[1].kv_tokens
    assert all(
        int(each.max_concurrency * context) == each.kv_tokens
        for each, context in zip(found, (65_536, 131_072), strict=True)
    )


def test_k127_k143_a_short_prompt_takes_whole_blocks_in_every_group():
    own, model = Vllm(), load_model("qwen3.5-35b-a3b")
    kv = own.kv_format(model, None, H100)
    made = own.start(Setup(model, H100, ONE, kv, Options(), 262144)).made
    short = own.start(Setup(model, H100, ONE, kv, Options(), 12)).reserved()
    assert short >= len(made.layout.groups) * max(made.stages)
    assert (642 // 38) * 3584 == 57_344


def test_k145_ranks_print_their_own_share():
    model, own = load_model("qwen3-235b-a22b"), engine("vllm")
    kv = own.kv_format(model, None, H100)
    reserved = own.start(Setup(model, H100, Parallel(tp=4), kv, Options(), 367_404)).reserved()
    rows = -(-367_404 // 16) * 16
    assert reserved == rows * 94 * 1 * 128 * 2 * 2
    assert reserved / 2 == pytest.approx(8.23 * GIB, rel=1e-3)


def test_k146_the_longest_request_needs_the_full_group_whole():
    model, own = load_model("gemma-3-12b"), Vllm()
    made = own.start(Setup(model, H100, ONE, own.kv_format(model, None, H100), Options(), 131_072)).made
    assert len(made.layout.groups) == 6
    full = next(group for group in made.layout.groups if {spec.kind for spec in group.specs} == {"full"})
    assert full.pages(made.settings.demand) == 131_072 // full.block


def test_k148_replicas_change_how_many_not_how_large():
    model, own = load_model("llama-3-8b"), engine("vllm")
    kv = own.kv_format(model, None, H100)
    two, eight = Parallel(tp=2), Parallel(tp=2, dp=4)
    sizes = {own.start(Setup(model, H100, parallel, kv, Options(), 8192)).reserved() for parallel in (two, eight)}
    assert len(sizes) == 1
    pools = [
        own.start(Setup(model, H100, parallel, kv, Options(), 8192)).capacity(40 * GIB) for parallel in (two, eight)
    ]
    assert pools[1].max_sequences == 4 * pools[0].max_sequences


def test_k057_drafts_are_counted_apart():
    model, own = load_model("qwen3.5-27b"), engine("vllm")
    drafting = Options(speculative_tokens=1)
    plain, drafted = (
        own.start(Setup(model, H100, ONE, None, options, 8192)).budget() for options in (Options(), drafting)
    )
    assert drafted.weights.bytes.likely > plain.weights.bytes.likely
    kv = own.kv_format(model, None, H100)
    reserved = [own.start(Setup(model, H100, ONE, kv, options, 65_536)).reserved() for options in (Options(), drafting)]
    assert reserved[1] > reserved[0]


GATHERED = {"deepseek-v3.2": 40 * 65_536 * 132, "deepseek-v4-flash": 4 * (65_536 // 4 + 128 + 8192) * 2 * 512}
"""Keys of an indexer, of 40 requests at once, 128 B and a scale of four; entries of four prompts, their windows and steps."""


def test_what_sparse_attention_gathers_keys_in():
    for name, size in GATHERED.items():
        model = load_model(name)
        made = Vllm().start(Setup(model, H100, Parallel(tp=8), parse_kv_format("fp8"), Options(), 65_536)).made.settings
        assert steps(model, H100, made, rules(NEWEST), Options()).likely.keys == size


def test_compressed_attention_pads_its_outputs_and_keeps_four_streams():
    """8 of 64 query heads a rank, padded to 64 in the output, 512 wide; residual streams before and after; 512 MiB of scores."""
    model = load_model("deepseek-v4-flash")
    made = Vllm().start(Setup(model, H100, Parallel(tp=8), parse_kv_format("fp8"), Options(), 65_536)).made.settings
    attention = 512 * MIB + 2 * 8192 * (2 * 4 * 4096 + (8 + 64) * 512)
    assert made.tokens == 8192
    assert steps(model, H100, made, rules(NEWEST), Options()).likely.layer == attention


@pytest.mark.parametrize(("name", "gpu", "tp"), [("deepseek-v4-flash", "h200", 4), ("deepseek-v4-pro", "h200", 8)])
def test_the_safe_end_of_compressed_attention_is_of_use(name, gpu, tp):
    """8 ranks of H200 print 102.3 to 102.8 GiB of DeepSeek-V4-Pro's weights; 0.31 holds a gigabyte that isn't counted, and what
    0.33's sampler makes of logits no log shows apart."""
    kv = (
        Vllm()
        .start(Setup(load_model(name), load_gpu(gpu), Parallel(tp=tp, ep=tp), None, Options(), 131_072))
        .budget()
        .kv
    )
    assert 0.6 * kv.likely <= kv.low < kv.likely


def test_what_a_step_holds_does_not_depend_on_the_length():
    model = load_model("llama-3.1-8b")
    made = [
        Vllm().start(Setup(model, H100, ONE, Vllm().kv_format(model, None, H100), Options(), n)).made.settings
        for n in (8192, 65536)
    ]
    held = rules(NEWEST)
    one, other = (steps(model, H100, each, held, Options()) for each in (made[0], replace(made[1], length=8192)))
    assert one == other


def test_chunks_were_checked_as_full_layers_at_first():
    """vllm-project/vllm#19407: Scout on eight GPUs with 88.38 GiB each asks for 240.00 GiB: 48 layers x 2 x 128 x 2 B x 10,485,760."""
    found = capacity("llama-4-scout", "0.9.1", 10_485_760, 88.38, gpu=H200, parallel=Parallel(tp=8))
    assert isinstance(found, Refusal)
    assert found.needed_bytes == 240 * GIB == 48 * 2 * 128 * 2 * 10_485_760


@pytest.mark.parametrize(
    ("version", "sequences", "longest"),
    [("0.10.0", 0, 3_861_376), ("0.13.0", 0, 3_861_376), ("0.14.0", 1, 10_485_760)],
)
def test_a_request_that_starts_and_never_runs_is_no_fit(version, sequences, longest):
    """Until 0.14 the check counts chunks, and blocks are held for all tokens: 88.38 GiB hold 241,336 blocks of 16."""
    found = capacity("llama-4-scout", version, 10_485_760, 88.38, gpu=H200, parallel=Parallel(tp=8))
    assert isinstance(found, Capacity)
    assert (found.max_sequences, found.max_context) == (sequences, longest)
    if not sequences:
        assert longest == int(88.38 * GIB) // (48 * 16 * 2 * 128 * 2) * 16
