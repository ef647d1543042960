"""Engines by name, versions as data, defaults by GPU, refusals and layouts worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvplan.arch.formats import FORMATS, parse_kv_format
from kvplan.arch.model import Origin
from kvplan.arch.parallel import Parallel
from kvplan.engines import registry
from kvplan.engines.base import Capacity, Options, Refusal, Setup
from kvplan.engines.vllm.blocks.allocate import request_blocks
from kvplan.engines.vllm.blocks.backends import Need, pick
from kvplan.engines.vllm.blocks.groups import Cached, layout
from kvplan.engines.vllm.blocks.specs import Demand, Spec
from kvplan.engines.vllm.inverse import cache_bytes
from kvplan.engines.vllm.policy import Vllm
from kvplan.engines.vllm.settings import default_batches
from kvplan.engines.vllm.settings import settings as steps
from kvplan.engines.vllm.tables.changes import CHANGES, rules
from kvplan.engines.vllm.tables.rules import Batches
from kvplan.engines.vllm.tables.versions import NEWEST, OLDEST, parse, text
from kvplan.errors import CannotSplit, KvplanError, UnknownName, Unsupported, UsageError, WontStart
from kvplan.families import read
from kvplan.sources.gpus import load_gpu
from kvplan.sources.models import load_model
from kvplan.units import GIB

H100, H200, B200 = load_gpu("h100"), load_gpu("h200"), load_gpu("b200")
ONE = Parallel()


def plan(name, parallel=ONE, kv=None, options=Options(), gpu=H100, version=NEWEST, context=4096):  # noqa: B008
    own, model = Vllm(version), load_model(name)
    chosen = own.kv_format(model, None if kv is None else parse_kv_format(kv), gpu)
    return own.start(Setup(model, gpu, parallel, chosen, options, context)).made


# Engines by name


def test_a_name_alone_is_the_newest():
    found = registry.find("vllm")
    assert (found.engine.name, found.engine.version, found.verified) == ("vllm", text(NEWEST), True)


def test_a_version_is_planned_as_itself():
    assert registry.engine("vllm@0.19.0").version == "0.19.0"
    assert registry.engine("vllm@0.19").version == "0.19.0"


def test_a_release_that_nobody_made_is_marked():
    found = registry.find("vllm@0.20.9")
    assert (found.engine.version, found.verified) == ("0.20.2", False)
    assert "0.20.9" in found.note


def test_a_newer_version_is_marked():
    found = registry.find("vllm@0.99.0")
    assert not found.verified
    assert "0.99.0" in found.note
    assert found.engine.version == text(NEWEST)
    assert not found.engine.verified


@pytest.mark.parametrize(
    ("spec", "version", "verified"),
    [
        ("vllm@0.6.4.post1", "0.6.4", True), ("vllm@0.10.1.1", "0.10.1", True), ("VLLM @ v0.19", "0.19.0", True), ("vllm@0.20.1+cu129", "0.20.1", True),
        ("vllm@0.19.0rc1", "0.19.0", False), ("vllm@0.20.2.dev5+g0a1b2c", "0.20.2", False),
    ],
)  # fmt: skip
def test_versions_as_vllm_prints_them(spec, version, verified):
    found = registry.find(spec)
    assert (found.engine.version, found.verified, found.note is None) == (version, verified, verified)


@pytest.mark.parametrize(
    ("written", "spec"),
    [
        ("vllm", ("vllm", None)), ("vllm@0.19", ("vllm", "0.19")), (" vLLM @ 0.11.1RC1 ", ("vllm", "0.11.1rc1")),
        ("vllm==0.19.0", ("vllm", "0.19.0")), ("vllm@", ("vllm", "")), ("vllm@0.19.0@3", ("vllm", "0.19.0@3")), ("", ("", None)),
    ],
)  # fmt: skip
def test_an_engine_taken_apart(written, spec):
    assert registry.Spec.parse(written) == spec


@pytest.mark.parametrize(("spec", "near"), [("vlm", "vllm"), ("idael", "ideal")])
def test_a_misspelt_engine_names_the_nearest(spec, near):
    with pytest.raises(UnknownName) as caught:
        registry.engine(spec)
    assert near in str(caught.value.problem.hint)


@pytest.mark.parametrize(
    "spec",
    ["vllm@", "vllm@latest", "vllm@1", "vllm@0.19.0@3", "vllm@-1.2", "vllm@٣.٤", "@0.3", "ideal@2"],
)
def test_what_is_no_version_is_refused(spec):
    with pytest.raises(KvplanError):
        registry.engine(spec)


def test_known_engines_say_where_their_rules_come_from():
    known = {about.name: about for about in registry.engines()}
    assert {"ideal", "vllm"} <= set(known)
    assert known["vllm"].newest == text(NEWEST)
    assert all(rule.source for rule in known["vllm"].rules)


# Versions


def test_changes_are_in_order_and_name_real_fields():
    assert [change.since for change in CHANGES] == sorted(change.since for change in CHANGES)
    for change in CHANGES:
        assert change.says
        assert change.source
        assert rules(change.since) == replace(rules(change.since), **dict(change.values))


def test_a_change_holds_from_its_release_on():
    for change in CHANGES:
        major, minor, patch = change.since
        before = (major, minor, patch - 1) if patch else (major, minor - 1, 99)
        if before >= OLDEST:
            assert replace(rules(before), version=change.since) != rules(change.since)


@pytest.mark.parametrize(
    ("version", "utilization", "line"),
    [("0.6.4", 0.9, "blocks"), ("0.9.1", 0.9, "smallest_group"), ("0.20.0", 0.92, "smallest_group"), ("0.20.1", 0.92, "concurrency"), ("0.33.0", 0.92, "concurrency")],
)  # fmt: skip
def test_defaults_that_people_compare(version, utilization, line):
    held = rules(parse(version))
    assert (held.utilization, held.token_line) == (utilization, line)


@pytest.mark.parametrize(
    ("gpu", "version", "batches"),
    [
        ("h100", "0.33.0", Batches(8192, 1024)), ("h200", "0.33.0", Batches(8192, 1024)), ("b200", "0.33.0", Batches(16384, 1024)),
        ("b200", "0.27.0", Batches(8192, 1024)), ("mi300x", "0.33.0", Batches(16384, 1024)), ("a100-80", "0.33.0", Batches(2048, 256)),
        ("a100-80", "0.8.5", Batches(8192, 1024)), ("l40s", "0.33.0", Batches(2048, 256)), ("dgx-spark", "0.33.0", Batches(2048, 256)),
        ("dgx-spark", "0.32.0", Batches(2048, 256)), ("h100", "0.6.4", Batches(2048, 256)),
    ],
)  # fmt: skip
def test_steps_by_gpu(gpu, version, batches):
    assert default_batches(load_gpu(gpu), rules(parse(version))) == batches


@pytest.mark.parametrize(
    ("version", "gpu", "tokens"),
    [("0.19.0", "l40s", 2048), ("0.20.0", "l40s", 2048), ("0.22.0", "l40s", 2496), ("0.33.0", "h100", 8192)],
)
def test_steps_hold_the_longest_item_since_they_must(version, gpu, tokens):
    """2,496 tokens of 32 frames. Source: engine/arg_utils.py of 0.21 and 0.22; a public log of 0.19 with steps of 2,048."""
    model = load_model("gemma-4-31b")
    chosen = steps(Setup(model, load_gpu(gpu), Parallel(), None, Options(), 32_768), rules(parse(version)))
    assert chosen.tokens == tokens


@pytest.mark.parametrize(
    ("version", "options", "tokens", "sequences"),
    [  # read in each release's engine/arg_utils.py and config/parallel.py by hand
        ("0.33.0", Options(chunked_prefill=False), 65_536, 1024), ("0.11.1", Options(chunked_prefill=False), 65_536, 1024),
        ("0.11.0", Options(chunked_prefill=False), 8192, 1024), ("0.8.5", Options(chunked_prefill=False), 8192, 1024),
        ("0.7.3", Options(chunked_prefill=False), 65_536, 256), ("0.7.3", Options(), 2048, 256),
        ("0.33.0", Options(throughput=True), 16_384, 2048), ("0.33.0", Options(throughput=True, max_num_seqs=8), 16_384, 8),
        ("0.33.0", Options(all2all_backend="nixl_ep"), 256, 256), ("0.19.1", Options(all2all_backend="nixl_ep"), 8192, 1024),
        ("0.33.0", Options(all2all_backend="nixl_ep", throughput=True), 512, 512),
    ],
)  # fmt: skip
def test_steps_by_flags(version, options, tokens, sequences):
    model = load_model("qwen3-30b-a3b")
    chosen = steps(Setup(model, H100, Parallel(dp=4, ep=4), None, options, 65_536), rules(parse(version)))
    assert (chosen.tokens, chosen.sequences) == (tokens, sequences)


@pytest.mark.parametrize(
    ("version", "name", "tokens"),
    [("0.11.0", "llama-3-8b", 8192), ("0.11.1", "llama-3-8b", 4 * 448), ("0.33.0", "whisper-tiny", 4 * 448)],
)
def test_default_steps_hold_no_more_than_all_requests_since_0_11_1(version, name, tokens):
    """Source: engine/arg_utils.py of 0.11.0 and 0.11.1; whisper asked of vLLM 0.33's planner."""
    setup = Setup(load_model(name), H100, Parallel(), None, Options(max_num_seqs=4), 448)
    assert steps(setup, rules(parse(version))).tokens == tokens


def test_a_step_holds_an_encoders_input_whole():
    """448 tokens of three sequences are fewer than the 1,500 of 30 seconds."""
    with pytest.raises(WontStart, match="smaller than the longest input of the encoder"):
        plan("whisper-tiny", options=Options(max_num_seqs=3), context=448)
    assert plan("whisper-tiny", options=Options(max_num_seqs=4), context=448)


@pytest.mark.parametrize(("version", "starts"), [("0.33.0", False), ("0.9.1", False), ("0.8.5", True)])
def test_all_of_the_memory_is_never_free(version, starts):
    if starts:
        assert plan("llama-3-8b", options=Options(utilization=1.0), version=parse(version))
    else:
        with pytest.raises(UsageError, match="doesn't start with gpu_memory_utilization 1"):
            plan("llama-3-8b", options=Options(utilization=1.0), version=parse(version))


@pytest.mark.parametrize(
    ("version", "asked", "said"),
    [("0.20.0", None, True), ("0.19.0", None, False), ("0.33.0", 2048, True), ("0.33.0", 2496, False)],
)
def test_steps_that_hold_no_item_deserve_a_word(version, asked, said):
    """vllm-project/vllm#42687: 0.20.0 on a GPU of less than 70 GB."""
    options = Options(max_num_batched_tokens=asked)
    found = (
        Vllm(parse(version))
        .start(Setup(load_model("gemma-4-31b"), load_gpu("l40s"), Parallel(), None, options, 32_768))
        .cautions()
    )
    assert [True for each in found if "max_tokens_per_mm_item (2496)" in each] == [True] * said


# Layouts


def test_gemma_3_27b_by_hand():
    """52 windows and 10 full layers: runs of 10, so six groups of windows (9, 9, 9, 9, 8, 8) and one full."""
    made = plan("gemma-3-27b", context=131_072)
    sizes = [len(group.layers) for group in made.layout.groups]
    assert sizes == [9, 9, 9, 9, 8, 8, 10]
    page = 16 * 16 * (128 + 128) * 2
    assert made.stages == (10 * page,)
    window = -(-(1023 + 2 * 8192) // 16) + 1
    assert made.request == 6 * window + 131_072 // 16
    shorter = plan("gemma-3-27b", context=131_072, options=Options(max_num_batched_tokens=2048))
    assert shorter.request == 6 * (-(-(1023 + 2 * 2048) // 16) + 1) + 131_072 // 16


def test_qwen3_5_35b_by_hand():
    """Ten attention layers whose block grows until its page is a state's; three pages of state with prefixes cached."""
    made = plan("qwen3.5-35b-a3b", context=32_768)
    state = 32 * 128 * 128 * 2 + 3 * 8192 * 2
    token = 2 * (256 + 256) * 2
    block = -(-state // token)
    assert made.block >= block
    assert [len(group.layers) for group in made.layout.groups] == [10, 10, 10, 10]
    states = [group for group in made.layout.groups if {spec.kind for spec in group.specs} == {"state"}]
    assert len(states) == 3
    off = plan("qwen3.5-35b-a3b", context=32_768, options=Options(prefix_caching=False))
    assert made.request - off.request >= 3


@pytest.mark.parametrize(
    ("version", "kept"), [("0.25.1", False), ("0.26.0", False), ("0.27.1", False), ("0.28.0", True)]
)
def test_hybrids_cache_prefixes_by_default_since_0_28(version, kept):
    """engine/arg_utils.py of each: 0.26 and 0.27 leave hybrids out of the default ("not model_config.is_hybrid")."""
    started = registry.engine(f"vllm@{version}").start(
        Setup(load_model("qwen3.5-35b-a3b"), H100, ONE, None, Options(), 8192)
    )
    assert started.made.settings.aligned is kept


V4_PAGES = 37_440, 8_640, 1_728
"""Of DeepSeek-V4's entries of 4 tokens and windows, indexers' keys, and entries of 128 tokens: 64 x 584, 64 x 132 and 2 x 584 B, in
multiples of 576."""


@pytest.mark.parametrize(
    ("version", "flash", "pro"),
    [
        ("0.22.1", (22, 22, 22), (31, 31, 31)),  # whole tuples: half of 43 and of 61 windows
        ("0.23.0", (22, 21, 20), (31, 30, 31)),  # of each size as many as any group has
        ("0.26.0", (22, 21, 20), (31, 30, 31)),
        ("0.27.0", (21, 21, 20), (30, 30, 31)),  # the largest group: full-length layers
        ("0.28.0", (21, 21, 20), (30, 30, 31)),
        ("0.29.0", (21, 21, 20), (30, 30, 31)),
    ],
)
def test_what_a_block_of_compressed_entries_has_room_for(version, flash, pro):
    """Source: v1/core/kv_cache_utils.py of each: _get_kv_cache_config_deepseek_v4, _bucket_layers_by_page_size,
    _get_packed_kv_cache_layout. Flash has 21 layers of 4 tokens an entry and 20 of 128, Pro 30 and 31."""
    for name, counts in (("deepseek-v4-flash", flash), ("deepseek-v4-pro", pro)):
        setup = Setup(load_model(name), H200, Parallel(tp=8), parse_kv_format("fp8"), Options(), 65_536)
        made = registry.engine(f"vllm@{version}").start(setup).made
        assert made.stages == (sum(count * page for count, page in zip(counts, V4_PAGES, strict=True)),)


@pytest.mark.parametrize(
    ("version", "gpu", "tp", "options", "length", "memory", "tokens"),
    [
        ("0.25.0", "rtx-pro-6000-server", 2,
         Options(max_num_batched_tokens=4096, max_num_seqs=64, speculative_tokens=2), 1_048_576, 10.29, 1_993_100),
        ("0.27.1", "jetson-agx-orin-64", 4, Options(max_num_batched_tokens=2048), 393_216, 7.61, 993_278),
        ("0.27.1", "jetson-agx-orin-64", 4, Options(max_num_batched_tokens=2048), 262_144, 7.61, 787_108),
    ],
)  # fmt: skip
def test_blocks_of_compressed_entries_are_what_logs_print(version, gpu, tp, options, length, memory, tokens):
    """Tokens over the length, times blocks of a request, is a whole number of blocks: that many fill the memory."""
    setup = Setup(
        load_model("deepseek-v4-flash"), load_gpu(gpu), Parallel(tp=tp), parse_kv_format("fp8"), options, length
    )
    made = registry.engine(f"vllm@{version}").start(setup).made
    held = request_blocks(made)
    blocks = -(-tokens * held // length)
    assert blocks * length // held == tokens
    assert blocks * made.stages[0] / GIB == pytest.approx(memory, abs=0.006)


@pytest.mark.parametrize("version", ["0.23.0", "0.28.0"])
def test_the_check_counts_whole_tuples(version):
    """_max_memory_usage_bytes_from_groups multiplies by tuples, though blocks have less: 22 of 47,808 B."""
    setup = Setup(load_model("deepseek-v4-flash"), H200, Parallel(tp=8), parse_kv_format("fp8"), Options(), 65_536)
    started = registry.engine(f"vllm@{version}").start(setup)
    needed = started.made.request * 22 * sum(V4_PAGES)
    assert isinstance(started.capacity(needed), Capacity)
    refused = started.capacity(needed - 1)
    assert isinstance(refused, Refusal)
    assert refused.needed_bytes == needed
    assert cache_bytes(started.made, 1) == needed


@pytest.mark.parametrize("version", ["0.20.0", "0.23.0", "0.26.0"])
def test_blocks_too_small_for_windows_of_compressed_attention(version):
    """vLLM 0.23 kv_cache_utils.py: assert max(sm_page_sizes) <= max(all_page_sizes)."""
    own, setup = (
        registry.engine(f"vllm@{version}"),
        Setup(
            load_model("deepseek-v4-flash"), H100, Parallel(tp=8), parse_kv_format("fp8"), Options(block_size=128), 8192
        ),
    )
    with pytest.raises(WontStart, match="blocks of 128 tokens are too small"):
        own.start(setup)
    assert own.start(replace(setup, options=Options())).made.block == 256
    assert (
        registry.engine("vllm@0.27.0").start(setup).made.block == 128
    )  # groups lie over each other: nothing is asserted


def test_latents_and_indexers_share_a_group():
    made = plan("deepseek-v3.2", context=32_768)
    assert made.stages == (61 * 64 * (576 * 2 + 132),)
    packed = plan("deepseek-v3.2", context=32_768, kv="fp8")
    assert packed.stages == (61 * 64 * (656 + 132),)


def test_the_fullest_stage_decides():
    made = plan("llama-3-8b", Parallel(pp=3))
    assert sorted(size // (16 * 8 * 256 * 2) for size in made.stages) == [10, 11, 11]


def test_context_ranks_deal_tokens():
    one, four = (
        plan("deepseek-r1", Parallel(tp=8), context=32_768),
        plan("deepseek-r1", Parallel(tp=8, dcp=4), context=32_768),
    )
    assert one.request == 4 * four.request


@given(
    full=st.integers(1, 40),
    windows=st.integers(0, 60),
    states=st.integers(0, 40),
    version=st.sampled_from(["0.9.1", "0.12.0", "0.18.0", "0.33.0"]),
)
@settings(max_examples=60, deadline=None)
def test_groups_hold_every_layer_once_and_a_block_holds_any_group(full, windows, states, version):
    specs = [Spec("full", 16, 4096, 4096)] * full + [Spec("sliding", 16, 4096, 4096, span=512)] * windows
    specs += [Spec("state", 1, 3000, 4096, held=1)] * states
    made = layout([Cached(spec) for spec in specs], rules(parse(version)), hybrid_manager=True, packed=False)
    assert sum(len(group.layers) for group in made.groups) == len(specs)
    assert made.bytes_per_block(0) == max(sum(layer.spec.page for layer in group.layers) for group in made.groups)
    assert made.bytes_per_block(0) * len(made.groups) >= len(specs) * 4096
    assert made.blocks(Demand(8192, 4096)) >= made.blocks(Demand(4096, 4096))


@pytest.mark.parametrize(("version", "full"), [("0.33.0", 100), ("0.28.0", 200)])
def test_no_layer_is_left_out_of_the_groups_of_packed_pages(version, full):
    """Five windows of one page and one of another can't be cut in two with as many of each in both, and vLLM asserts that."""
    pages = [Spec("sliding", 64, 100, 100, span=128)] * 5 + [Spec("sliding", 64, 200, 200, span=128)]
    specs = [*pages, Spec("full", 256, 100, 100), Spec("full", 256, full, full)]
    with pytest.raises(UsageError, match="deal this model's layers into groups") as found:
        layout([Cached(spec) for spec in specs], rules(parse(version)), hybrid_manager=True, packed=True)
    assert "5 of 100 B, 1 of 200 B" in found.value.problem.cause


@given(length=st.integers(1, 200_000), more=st.integers(0, 50_000), in_flight=st.integers(0, 40_000))
@settings(max_examples=80, deadline=None)
def test_longer_and_busier_never_hold_fewer_pages(length, more, in_flight):
    for spec in (Spec("full", 16, 1, 1), Spec("sliding", 32, 1, 1, span=1024), Spec("chunked", 64, 1, 1, span=8192)):
        assert spec.pages(Demand(length, in_flight)) <= spec.pages(Demand(length + more, in_flight))
        assert spec.pages(Demand(length, in_flight)) <= spec.pages(Demand(length, in_flight + more))


# Refusals


@pytest.mark.parametrize(
    ("name", "parallel", "words"),
    [
        (
            "llama-3-8b",
            Parallel(tp=3),
            "Total number of attention heads (32) must be divisible by tensor parallel size (3)",
        ),
        ("nemotron-h-8b", Parallel(tp=16), "num_groups"),
    ],
)
def test_a_parallel_size_that_does_not_divide_is_refused_with_the_cause(name, parallel, words):
    with pytest.raises(CannotSplit) as caught:
        plan(name, parallel)
    assert words in str(caught.value.problem.cause)


BLOCKS = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}


@pytest.mark.parametrize(
    ("wide", "tp", "said"),
    [
        (2048, 16, None),
        # asked of vLLM's own planner: rows that a shared expert's ranks would cut inside a block
        (768, 2, None),
        (768, 4, "input_size_per_partition = 192 is not divisible by weight quantization block_k = 128"),
        (768, 8, "input_size_per_partition = 96 is not divisible by weight quantization block_k = 128"),
        (768, 16, "48 is not divisible by weight quantization"),
    ],
)
def test_scales_of_blocks_are_not_cut(wide, tp, said):
    config = {
        "model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"], "num_hidden_layers": 2,
        "first_k_dense_replace": 1, "hidden_size": 7168, "intermediate_size": 18432, "moe_intermediate_size": wide,
        "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "num_attention_heads": 128,
        "num_key_value_heads": 128, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
        "v_head_dim": 128, "vocab_size": 129280, "max_position_embeddings": 4096, "quantization_config": BLOCKS,
    }  # fmt: skip
    model, own = read(config, Origin("test", "test")), Vllm()
    kv = own.kv_format(model, None, H100)
    if said is None:
        own.start(Setup(model, H100, Parallel(tp=tp), kv, Options(), 4096))
        return
    with pytest.raises(CannotSplit) as caught:
        own.start(Setup(model, H100, Parallel(tp=tp), kv, Options(), 4096))
    assert said in str(caught.value.problem.cause)


def routed(wide, stored):
    """Qwen3-30B-A3B with experts of another width."""
    return read(
        {
            "model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "num_hidden_layers": 2, "hidden_size": 2048,
            "intermediate_size": 6144, "moe_intermediate_size": wide, "num_experts": 128, "num_experts_per_tok": 8,
            "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 151936,
            "max_position_embeddings": 40960, "torch_dtype": "bfloat16", "quantization_config": stored,
        },
        Origin("test", "test"),
    )  # fmt: skip


NO_SCALES = "The output_size of gate's and up's weight = {} is not divisible by weight quantization block_n = 128."


@pytest.mark.parametrize(
    ("wide", "parallel", "gpu", "version", "said"),
    [
        # 768 over 4 and 1,536 over 8 ranks are 192 each: 1.5 blocks
        (768, Parallel(tp=4), "h100", (0, 28, 0), NO_SCALES.format(192)),
        (1536, Parallel(tp=8), "h100", (0, 28, 0), NO_SCALES.format(192)),
        (1536, Parallel(tp=8), "h100", (0, 11, 0), NO_SCALES.format(192)),
        (1536, Parallel(tp=8), "h100", (0, 29, 0), None),
        (1536, Parallel(tp=8), "h100", (0, 33, 0), None),
        (1536, Parallel(tp=4), "h100", (0, 28, 0), None),
        (768, Parallel(tp=4, ep=4), "h100", (0, 28, 0), None),
        # asked of vLLM 0.33: an A100's kernels take whole blocks only, and 176 is cut into sixteenths at best
        (768, Parallel(tp=4), "a100", (0, 33, 0), "No FP8 MoE backend supports the deployment configuration"),
        (768, Parallel(tp=2), "a100", (0, 33, 0), None),
        (704, Parallel(tp=2), "h100", (0, 33, 0), None),
        (704, Parallel(tp=4), "h100", (0, 33, 0), NO_SCALES.format(176)),
    ],
)
def test_blocks_of_experts_are_refined_since_029(wide, parallel, gpu, version, said):
    model, own, card = routed(wide, BLOCKS), Vllm(version), load_gpu(gpu)
    kv = own.kv_format(model, None, card)
    if said is None:
        own.start(Setup(model, card, parallel, kv, Options(), 4096))
        return
    with pytest.raises(CannotSplit) as caught:
        own.start(Setup(model, card, parallel, kv, Options(), 4096))
    assert said in str(caught.value.problem.cause)


def test_a_hint_names_what_experts_can_be_cut_by():
    with pytest.raises(CannotSplit) as caught:
        Vllm((0, 28, 0)).start(
            Setup(routed(1536, BLOCKS), H100, Parallel(tp=8), parse_kv_format("bf16"), Options(), 4096)
        )
    assert "--tp 2 or 4, --engine vllm@0.29.0, --ep 8" in str(caught.value.problem.hint)


AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}
ORDERLESS = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True}


def compressed(group):
    weights = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": group}
    groups = {"group_0": {"targets": ["Linear"], "weights": weights}}
    return {
        "quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": groups, "ignore": ["lm_head"],
    }  # fmt: skip


def dense(stored, dtype):
    """Qwen2.5-72B, whose 29,568 inputs are 231 groups of 128: an odd number."""
    return read(
        {
            "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "num_hidden_layers": 2, "hidden_size": 8192,
            "intermediate_size": 29568, "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 152064,
            "max_position_embeddings": 32768, "torch_dtype": dtype, "quantization_config": stored,
        },
        Origin("test", "test"),
    )  # fmt: skip


NO_KERNEL = "Failed to find a kernel that can implement the WNA16"
GROUPS_OF_EXPERTS = "intermediate size per tensor-parallel partition (192) to be divisible by group_size (128)"


@pytest.mark.parametrize(
    ("model", "tp", "gpu", "version", "said"),
    [
        # asked of vLLM 0.33's own planner on both GPUs
        (dense(AWQ, "float16"), 2, "h100", (0, 33, 0), "The input size is not aligned with the quantized weight shape"),
        (dense(ORDERLESS, "float16"), 8, "h100", (0, 33, 0), None),
        (dense(ORDERLESS, "bfloat16"), 2, "h100", (0, 33, 0), None),
        (dense(ORDERLESS, "bfloat16"), 8, "h100", (0, 33, 0), NO_KERNEL),
        (dense(ORDERLESS, "bfloat16"), 2, "a100", (0, 33, 0), NO_KERNEL),
        (dense(ORDERLESS | {"group_size": -1}, "bfloat16"), 8, "a100", (0, 33, 0), None),
        (dense(compressed(128), "float16"), 8, "h100", (0, 33, 0), "=3696 is not divisible by group_size=128"),
        (dense(compressed(128), "bfloat16"), 2, "h100", (0, 33, 0), "=14784 is not divisible by group_size=128"),
        (dense(compressed(128), "bfloat16"), 2, "a100", (0, 33, 0), NO_KERNEL),
        (dense(compressed(32), "bfloat16"), 2, "a100", (0, 33, 0), None),
        (routed(768, AWQ), 4, "h100", (0, 33, 0), None),
        (routed(768, AWQ), 16, "h100", (0, 33, 0), "assert group_size >= 32"),
        (routed(768, ORDERLESS), 4, "h100", (0, 33, 0), None),
        (routed(768, compressed(128)), 4, "h100", (0, 33, 0), GROUPS_OF_EXPERTS),
        (routed(768, compressed(32)), 4, "h100", (0, 33, 0), None),
        # read in awq.py, compressed_tensors_wNa16.py, marlin.py and compressed_tensors_moe_wna16.py of these releases
        (dense(AWQ, "float16"), 2, "h100", (0, 9, 2), "The input size is not aligned with the quantized weight shape"),
        (dense(compressed(128), "float16"), 2, "h100", (0, 24, 0), "assert input_size_per_partition % group_size == 0"),
        (dense(compressed(32), "bfloat16"), 2, "a100", (0, 23, 0), "14784 is not divisible by min_thread_k = 128"),
        (routed(768, compressed(128)), 4, "h100", (0, 23, 0), None),
        (routed(768, compressed(128)), 4, "h100", (0, 24, 0), GROUPS_OF_EXPERTS),
    ],
)
def test_groups_of_packed_integers_are_cut_where_a_kernel_takes_it(model, tp, gpu, version, said):
    own, card = Vllm(version), load_gpu(gpu)
    kv = own.kv_format(model, None, card)
    if said is None:
        own.start(Setup(model, card, Parallel(tp=tp), kv, Options(), 4096))
        return
    with pytest.raises(CannotSplit) as caught:
        own.start(Setup(model, card, Parallel(tp=tp), kv, Options(), 4096))
    assert said in str(caught.value.problem.cause)


def test_a_hint_names_what_groups_can_be_cut_by():
    with pytest.raises(CannotSplit) as caught:
        Vllm().start(
            Setup(dense(compressed(32), "float16"), H100, Parallel(tp=8), parse_kv_format("bf16"), Options(), 4096)
        )
    assert caught.value.problem.hint == "--tp 1, 2 or 4"


def test_expert_parallelism_needs_experts():
    with pytest.raises(CannotSplit) as caught:
        plan("llama-3-8b", Parallel(tp=8, ep=8))
    assert "Number of experts in the model must be greater than 0" in str(caught.value.problem.cause)
    plan("qwen3-30b-a3b", Parallel(tp=4, ep=4))


@pytest.mark.parametrize(("version", "has"), [((0, 33, 0), "nvfp4"), ((0, 9, 0), "it has fp8, fp8_e5m2")])
def test_no_release_has_a_32_bit_cache(version, has):
    """From CacheDType of both releases."""
    with pytest.raises(UsageError) as caught:
        plan("llama-3-8b", kv="fp32", version=version)
    assert has in str(caught.value.problem.hint)


def test_a_model_that_is_run_in_32_bit_has_such_a_cache():
    wide = replace(load_model("llama-3-8b"), dtype=FORMATS["fp32"])
    Vllm().start(Setup(wide, H100, ONE, parse_kv_format("fp32"), Options(), 4096))


def test_a_class_that_is_not_served():
    with pytest.raises(Unsupported):
        plan("llama-3.2-11b-vision")


@pytest.mark.parametrize(
    ("name", "kv", "gpu"),
    [("gpt-oss-20b", "nvfp4", H100), ("llama-3-8b", "q8_0", H100), ("gemma-2-27b", "turboquant_k8v4", H100), ("falcon-h1-7b", "turboquant_k8v4", H100), ("deepseek-v3", "fp8_e5m2", H100), ("deepseek-v4-flash", "bf16", H100), ("llama-4-scout", "turboquant_k8v4", H100)],
)  # fmt: skip
def test_formats_that_no_backend_takes(name, kv, gpu):
    with pytest.raises(UsageError):
        plan(name, kv=kv, gpu=gpu)


def test_nvfp4_is_blackwells():
    assert plan("llama-3-8b", kv="nvfp4", gpu=B200).stages == (32 * 16 * 8 * 2 * (64 + 8),)


def test_packed_latents_alone_are_dealt_over_ranks():
    with pytest.raises(UsageError, match="deal tokens"):
        plan("deepseek-v3.2", Parallel(tp=8, dcp=2))
    assert plan("deepseek-v3.2", Parallel(tp=8, dcp=2), kv="fp8").request > 0


@pytest.mark.parametrize(
    ("need", "gpu", "name", "sizes"),
    [
        (Need(128, "16 bit"), (9, 0), "FLASH_ATTN", (16,)),
        (Need(128, "nvfp4"), (10, 0), "FLASHINFER", (16, 32, 64)),
        (Need(96, "fp8"), (7, 5), "TRITON_ATTN", None),
    ],
)
def test_a_backend_is_picked_by_head_format_and_gpu(need, gpu, name, sizes):
    if sizes is None:
        with pytest.raises(UsageError, match=name):
            pick("attention", need, gpu, None)
    else:
        found = pick("attention", need, gpu, None)
        assert (found.name, found.sizes) == (name, sizes)


def test_the_null_block_is_withheld_from_the_check_alone():
    """One block short of one request and its null block: refused since 0.29, started before."""
    own, older, model = Vllm(), Vllm((0, 28, 0)), load_model("llama-3-8b")
    kv, block = parse_kv_format("bf16"), 16 * 32 * 8 * 256 * 2
    exact = 4096 // 16 * block
    found = own.start(Setup(model, H100, ONE, kv, Options(), 4096)).capacity(exact)
    assert isinstance(found, Refusal)
    assert found.max_context == 4096 - 16
    assert found.needed_bytes == exact
    started = own.start(Setup(model, H100, ONE, kv, Options(), 4096)).capacity(exact + block)
    assert isinstance(started, Capacity)
    assert started.blocks == 257
    assert isinstance(older.start(Setup(model, H100, ONE, kv, Options(), 4096)).capacity(exact), Capacity)


def test_no_memory_left_is_vllms_own_refusal():
    found = (
        Vllm()
        .start(Setup(load_model("llama-3-8b"), H100, ONE, parse_kv_format("bf16"), Options(), 4096))
        .capacity(-GIB)
    )
    assert isinstance(found, Refusal)
    assert found.message.startswith("No available memory for the cache blocks")
    assert found.max_context == 0


# What it says when it would not start


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("0.6.4", ("The model's max seq len (8192) is larger than the maximum number of tokens that can be stored in KV cache (4096). Try "
                  "increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.")),
        ("0.8.5", ("To serve at least one request with the models's max seq len (8192), (1.00 GiB KV cache is needed, which is larger than "
                  "the available KV cache memory (0.50 GiB). Based on the available memory,  Try increasing `gpu_memory_utilization` or "
                  "decreasing `max_model_len` when initializing the engine.")),
        ("0.19.0", ("To serve at least one request with the models's max seq len (8192), (1.0 GiB KV cache is needed, which is larger than "
                   "the available KV cache memory (0.5 GiB). Based on the available memory, the estimated maximum model length is 4096. "
                   "Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine. See "
                   "https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details.")),
    ],
)  # fmt: skip
def test_refusals_are_worded_as_the_release_does(version, said):
    """Llama-3-8B keeps 131,072 B a token: 8,192 tokens are 1 GiB. Words: each release's kv_cache_utils.py, worker.py."""
    own, model = Vllm(parse(version)), load_model("llama-3-8b")
    found = own.start(Setup(model, H100, ONE, own.kv_format(model, None, H100), Options(), 8192)).capacity(GIB // 2)
    assert isinstance(found, Refusal)
    assert found.message == said


def test_the_longest_request_of_all_stages_is_stated():
    """Of 62 layers in two stages of 31 one has more full-length layers; vLLM's text is of the stage that refuses first."""
    own, model = Vllm(), load_model("gemma-3-27b")
    asked = (model, H100, Parallel(pp=2), own.kv_format(model, None, H100), Options(max_num_batched_tokens=2048))
    for memory in (3 * GIB, 4 * GIB, 5 * GIB):
        found = own.start(Setup(*asked, 131072)).capacity(memory)
        assert isinstance(found, Refusal)
        assert isinstance(own.start(Setup(*asked, found.max_context)).capacity(memory), Capacity)
        assert isinstance(own.start(Setup(*asked, found.max_context + 1)).capacity(memory), Refusal)


def test_longcat_drafts_with_one_latent_layer():
    """28 decoder layers of two latents each, and one dense layer that drafts. Source: vLLM 0.33 longcat_flash_mtp.py."""
    config = {
        "model_type": "longcat_flash", "architectures": ["LongcatFlashForCausalLM"], "num_layers": 28, "hidden_size": 6144,
        "num_attention_heads": 64, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
        "v_head_dim": 128, "max_position_embeddings": 131072, "vocab_size": 131072, "ffn_hidden_size": 12288,
        "expert_ffn_hidden_size": 2048, "n_routed_experts": 512, "zero_expert_num": 256, "moe_topk": 12, "torch_dtype": "bfloat16",
    }  # fmt: skip
    own, model = Vllm(), read(config, Origin("longcat", "a test"))
    kv = own.kv_format(model, None, H100)

    def block(drafted):
        options = Options(speculative_tokens=drafted)
        return own.start(Setup(model, H100, Parallel(tp=8), kv, options, 4096)).made.stages[0]

    assert block(0) == 56 * 16 * 1152
    assert block(1) == 57 * 16 * 1152
    thirds = own.start(Setup(model, H100, Parallel(pp=3), kv, Options(), 4096)).made
    assert thirds.stages == tuple(latents * 16 * 1152 for latents in (18, 20, 18))  # layers are dealt whole: 9, 10, 9


def test_replicas_have_a_pool_each():
    from kvplan import api

    def reserved(dp):
        question = api.FitQuestion(context=8192, parallel=Parallel(dp=dp), options=Options(kv_memory=20 * GIB))
        return api.fit("llama-3-8b", "h100", question).reserved

    one, four = reserved(1), reserved(4)
    assert (four.blocks, four.kv_tokens, four.max_concurrency) == (one.blocks, one.kv_tokens, one.max_concurrency)
    assert (one.replicas, four.replicas, four.max_sequences) == (1, 4, 4 * one.max_sequences)


@pytest.mark.parametrize(
    ("name", "version", "kept"),
    [
        # model_executor/models/config.py MambaModelConfig: off for every class; by class; `align` for those without `all`
        ("qwen3-next-80b-a3b", "0.11.0", False), ("qwen3-next-80b-a3b", "0.13.0", False), ("qwen3-next-80b-a3b", "0.14.1", False),
        ("qwen3-next-80b-a3b", "0.15.1", True), ("qwen3.5-35b-a3b", "0.17.1", True), ("qwen3.5-35b-a3b", "0.33.0", True),
        ("nemotron-h-8b", "0.11.0", False), ("nemotron-h-8b", "0.28.0", True),
    ],
)  # fmt: skip
def test_prefix_caching_of_states_is_honoured_by_class_and_release(name, version, kept):
    model, own, asked = load_model(name), registry.engine(f"vllm@{version}"), Options(prefix_caching=True)
    kv = own.kv_format(model, None, H100)
    on, off = (
        own.start(Setup(model, H100, Parallel(), kv, options, 32_768)).made
        for options in (asked, Options(prefix_caching=False))
    )
    assert (on.settings.aligned, off.settings.aligned) == (kept, False)
    assert (on.request != off.request) is kept
    said = " ".join(own.start(Setup(model, H100, Parallel(), None, asked, 32_768)).cautions())
    assert ("turns prefix caching off" in said) is not kept


@pytest.mark.parametrize("version", ["0.13.0", "0.17.1", "0.26.0", "0.27.0"])
def test_states_at_every_block_are_not_planned(version):
    model, own = load_model("nemotron-h-8b"), registry.engine(f"vllm@{version}")
    kv = own.kv_format(model, None, H100)
    with pytest.raises(Unsupported, match="no rules for prefix caching"):
        own.start(Setup(model, H100, Parallel(), kv, Options(prefix_caching=True), 8192))
    assert own.start(Setup(model, H100, Parallel(), kv, Options(prefix_caching=False), 8192)).made.request


def test_the_first_releases_dont_start_with_prefix_caching_of_states():
    model, own = load_model("jamba-v0.1"), registry.engine("vllm@0.9.2")
    kv = own.kv_format(model, None, H100)
    with pytest.raises(UsageError, match="has no prefix caching"):
        own.start(Setup(model, H100, Parallel(tp=8), kv, Options(prefix_caching=True), 8192))


@pytest.mark.parametrize(("version", "used"), [("0.17.1", "false"), ("0.27.1", "false"), ("0.28.0", "true")])
def test_the_default_for_states_is_among_what_was_assumed(version, used):
    own = registry.engine(f"vllm@{version}")
    told = own.start(Setup(load_model("qwen3.5-35b-a3b"), H100, Parallel(tp=2), None, Options(), 8192)).budget().assumed
    assert dict(told)["enable_prefix_caching"] == used
    assert "enable_prefix_caching" not in dict(
        own.start(Setup(load_model("llama-3-8b"), H100, Parallel(), None, Options(), 8192)).budget().assumed
    )


def test_a_log_of_states_with_prefixes_cached():
    """Qwen3.5-35B-A3B AWQ, vLLM 0.17.1: 5.69 GiB of fp8 cache, 32,768 tokens, steps of 8,192: 12.91x with the flag."""
    model, own = load_model("qwen3.5-35b-a3b"), registry.engine("vllm@0.17.1")
    options = Options(prefix_caching=True, max_num_batched_tokens=8192, max_num_seqs=3)
    kv, low, high = parse_kv_format("fp8"), int(5.685 * 2**30), int(5.695 * 2**30)
    found = [
        own.start(Setup(model, H100, Parallel(), kv, options, 32_768)).capacity(size).max_concurrency
        for size in (low, high)
    ]
    assert found[0] <= 12.915
    assert found[1] >= 12.905


@pytest.mark.parametrize(
    ("gib", "options", "tokens"), [(8.82, Options(), 141_036), (9.75, Options(max_num_seqs=16), 155_600)]
)
def test_logs_of_states_without_prefixes_cached(gib, options, tokens):
    """Qwen3.8-27B, of Qwen3.5-27B's layers, on an L40S by vLLM 0.26.0 at 131,072 tokens."""
    own = registry.engine("vllm@0.26.0").start(
        Setup(load_model("qwen3.5-27b"), load_gpu("l40s"), ONE, None, options, 131_072)
    )
    low, high = (own.capacity(int((gib + off) * 2**30)).kv_tokens for off in (-0.005, 0.005))
    assert low <= tokens <= high


@pytest.mark.parametrize("tp", [3, 5, 40])
def test_sizes_that_a_hint_names_pass_every_check(tp):
    """40 query heads, 8 of keys; a vocabulary of 151,936 rows and 17,408 of an MLP, which 8 divides and 5 doesn't."""
    asked = load_model("qwen3-14b")
    with pytest.raises(CannotSplit) as refused:
        plan("qwen3-14b", parallel=Parallel(tp=tp)) if tp > 8 else asked.check_split(Parallel(tp=tp))
    sizes = [int(size) for size in (refused.value.problem.hint or "").partition(": ")[2].split(", ")]
    assert sizes == [1, 2, 4, 8]
    for size in sizes:
        asked.check_split(Parallel(tp=size))
        plan("qwen3-14b", parallel=Parallel(tp=size))
