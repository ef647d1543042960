"""What vLLM's start-up profile holds: images before text, kernels that are being compiled, and which model runner it is.

Sizes are worked out by hand from the sources and logs named; V x H are words and width of the embedding.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kvplan.arch.extras import with_draft
from kvplan.arch.model import Origin
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Options, Setup
from kvplan.engines.vllm.layout.gaps import ends
from kvplan.engines.vllm.layout.merged import ends_of
from kvplan.engines.vllm.memory.doubt import WIDTH
from kvplan.engines.vllm.memory.graphs import captured, least, most
from kvplan.engines.vllm.memory.overhead import COSTS, amounts, peak
from kvplan.engines.vllm.memory.runner import estimates_graphs, is_second, least_sampler, sampler
from kvplan.engines.vllm.memory.step import steps
from kvplan.engines.vllm.policy import Vllm
from kvplan.engines.vllm.settings import settings
from kvplan.engines.vllm.tables.changes import rules
from kvplan.engines.vllm.tables.items import longest
from kvplan.engines.vllm.tables.versions import parse
from kvplan.families import read
from kvplan.families.quantization.mixes import kept_named
from kvplan.sources.gpus import load_gpu
from kvplan.sources.models import load_model
from kvplan.units import GIB, MIB

KNOWN = json.loads((Path(__file__).parents[2] / "bench" / "accuracy" / "models.json").read_text())["models"]
ONE = Parallel()


def described(name):
    return read(KNOWN[name], Origin(name, "bench/accuracy/models.json"))


QWEN25_VL, QWEN3_VL = described("Qwen/Qwen2.5-VL-7B-Instruct"), described("Qwen/Qwen3-VL-30B-A3B-Instruct")


def profiled(model, gpu, version, length, parallel=ONE, **options):
    held, chosen, device = rules(parse(version)), Options(**options), load_gpu(gpu)
    return steps(model, device, settings(Setup(model, device, parallel, None, chosen, length), held), held, chosen)


def kv(model, gpu, version, length, parallel=ONE, **options):
    return (
        Vllm(parse(version)).start(Setup(model, load_gpu(gpu), parallel, None, Options(**options), length)).budget().kv
    )


def test_an_encoder_takes_what_a_log_shows():
    """One video of 7 x 16,384 tokens, 4 patches each: a log of 0.23 on an A100 leaves 15.26 GiB for it."""
    found = profiled(QWEN25_VL, "a100", "0.23.0", 128_000).likely
    assert found.encoder == 2 * 4 * 114_688 * (3 * 2 * 14 * 14 + 5 * 1280 + 3 * 3420)
    assert found.encoder / GIB == pytest.approx(15.26, abs=0.05)
    assert found.towers == 2 * 114_688 * 3584 + 2 * 4 * 114_688 * 1176


@pytest.mark.parametrize(("length", "pieces"), [(8_192, 1), (32_768, 2), (100_000, 6), (114_688, 7), (1_000_000, 7)])
def test_a_video_is_as_long_as_fits_the_length(length, pieces):
    assert profiled(QWEN25_VL, "a100", "0.23.0", length).likely.encoder == pieces * 2 * 4 * 16_384 * 17_836


@pytest.mark.parametrize(("version", "tokens"), [("0.8.5", 98_304), ("0.10.2", 114_688), ("0.23.0", 114_688)])
def test_a_video_left_room_for_an_image_at_first(version, tokens):
    """At a length of 128,000, 16,384 tokens a piece: 6 where an image is left room for, 7 where none is, as logs print."""
    assert longest(QWEN25_VL, parse(version)).fitting(128_000) == tokens


@pytest.mark.parametrize(
    ("version", "rows"),
    [
        ("0.10.2", 63 * 256),
        ("0.11.0", 63 * 16_384),
        ("0.11.2", 63 * 16_384),
        ("0.12.0", 63 * 260),
        ("0.13.0", 63 * 256),
    ],
)
def test_embeddings_are_blown_up_by_some_releases(version, rows):
    """63 images of 64 x 64 patches of 588 values; the encoder's own output stays beside what it is blown up to."""
    found = profiled(load_model("gemma-3-27b"), "b200", version, 32_768, max_num_batched_tokens=16_384).likely
    own = 2 * 5376 * 63 * 256
    pixels = 2 * 63 * 4096 * 588
    assert found.towers == 2 * 5376 * rows + (own if rows > 63 * 256 else 0) + pixels


@pytest.mark.parametrize(
    ("version", "rows", "tokens"),
    [("0.11.0", 153_600, 12_288), ("0.12.0", 153_600, 12_288), ("0.13.0", 16_384, 16_384)],
)
def test_deeper_layers_are_given_embeddings_of_their_own(version, rows, tokens):
    found = profiled(QWEN3_VL, "a100", version, 65_536).likely
    wide = 2 * 4 * 2048
    pixels = 2 * 4 * tokens * 3 * 2 * 16 * 16
    assert found.towers == wide * rows + (wide * tokens if rows > tokens else 0) + pixels


def test_tensor_ranks_share_an_encoder_or_hold_it_whole():
    """16 heads and MLPs of 4,304: two ranks share them, three don't."""
    two, three = (profiled(QWEN3_VL, "a100", "0.20.0", 65_536, Parallel(tp=tp)).likely for tp in (2, 3))
    assert two.encoder == 2 * 4 * 16_384 * (1536 + 5 * 1152 + 2 * 2152)
    assert three.encoder == 2 * 4 * 16_384 * (1536 + 5 * 1152 + 2 * 4304)


@pytest.mark.parametrize(("gpu", "frames"), [("l4", 11), ("h200", 72)])
def test_frames_of_a_piece_take_a_tenth_of_the_memory(gpu, frames):
    """At 630 x 4 x 10,240 x 8 B each: what the next test is written for."""
    assert load_gpu(gpu).memory.value // 10 // (630 * 4 * 10_240 * 8) == frames


@pytest.mark.parametrize(
    ("version", "gpu", "frames"), [("0.20.1", "rtx-pro-6000-server", 1), ("0.23.0", "l4", 11), ("0.23.0", "h200", 72)]
)
def test_frames_are_encoded_in_pieces(version, gpu, frames):
    """Three of Gemma 4's videos, each 32 frames of 630 patches: one frame at a time, and since 0.23 as many as take a tenth of the
    memory."""
    found = profiled(load_model("gemma-4-31b"), gpu, version, 32_768, max_num_batched_tokens=8192).likely
    every, wide = 3 * 32 * 630, 1152
    at_once = frames * 630
    assert found.encoder == 2 * (every * 768 + at_once * (5 * wide + 3 * 4304) + (every - at_once) * wide)
    assert found.towers == 2 * 3 * 32 * 70 * 5376 + 2 * every * 768


def test_the_high_end_allows_for_items_that_nobody_states():
    kimi = load_model("kimi-k2.5")
    low, likely, high = profiled(kimi, "h200", "0.20.0", 65_536, Parallel(tp=8))
    assert low.towers == likely.towers == 2 * 8192 * 7168
    assert likely.encoder == 0
    assert high.towers >= 2 * 16_384 * 7168
    assert high.encoder > 0
    term = (
        Vllm(parse("0.20.0"))
        .start(Setup(kimi, load_gpu("h200"), Parallel(tp=8), None, Options(), 65_536))
        .budget()
        .activation
    )
    assert "the high end allows for images of 16,384 tokens" in term.formula


def test_an_encoder_that_no_config_describes_still_sees():
    """InternVL2's config names its tower by another project's class: its tensors are unknown, its images aren't."""
    weights = load_model("llama-3.1-8b").weights
    blind = replace(load_model("llama-3.1-8b"), architectures=("InternVLChatModel",))
    seeing = replace(blind, weights=replace(weights, missing=("vision tower (intern_vit_6b)",)))
    low, likely, high = profiled(seeing, "h200", "0.31.0", 8192)
    assert low.towers == likely.towers == 2 * 8192 * 4096  # as many embeddings as tokens of a step
    assert likely.table == 0  # given embeddings, not words
    assert likely.encoder == 0
    assert high.towers == 2 * 16_384 * 4096
    assert high.encoder == 2 * 4 * 16_384 * (588 + 5 * 1152 + 2 * 4304)
    assert profiled(blind, "h200", "0.31.0", 8192).high.towers == 0
    hearing = replace(blind, weights=replace(weights, missing=("audio tower (beats)",)))
    assert profiled(hearing, "h200", "0.31.0", 8192).likely.table == 0


def test_the_high_end_of_a_peak_is_the_largest_high_end():
    """At 32,768 tokens a GB10's second runner has 256 x 128,256 logits of 14 B, of which half a cost is unsure: more than the
    embedding's copy, which is larger by what is likely but surer."""
    compiled, eager = (
        Vllm(parse("0.33.0"))
        .start(Setup(load_model("llama-3.1-8b"), load_gpu("dgx-spark"), ONE, None, Options(graphs=graphs), 32_768))
        .budget()
        .activation.bytes
        for graphs in (True, False)
    )
    assert compiled.likely > eager.likely
    assert compiled.high >= eager.high


def in_nvfp4(name):
    model = load_model(name)
    return replace(model, weights=model.weights.stored_as(kept_named("nvfp4")))


@pytest.mark.parametrize(
    ("name", "gpu", "since"),
    [
        ("qwen3-30b-a3b", "h200", "0.14.0"),  # 16 bit: any kernel
        ("nvfp4", "h100", "0.14.0"),  # Marlin's, fused_moe/oracle/nvfp4.py
        ("nvfp4", "rtx-3090", "0.14.0"),
        ("gpt-oss-20b", "rtx-3090", "0.17.0"),  # quantization/mxfp4.py of 0.16 and 0.17
        ("deepseek-v4-flash", "h200", "0.20.0"),  # from when it is served
        ("gptq", "h100", "0.20.0"),  # fused_moe/oracle/int_wna16.py, and what asks it
        ("awq", "a100", "0.22.0"),
        ("compressed-tensors", "l40s", "0.23.0"),
        ("nvfp4", "rtx-5090", None),  # FlashInfer's
        ("nvfp4", "b200", None),
        ("gpt-oss-20b", "h100", None),  # Triton's: logs of 0.19 print 2.87 GiB, 2.80 of them logits and hidden states
        ("gpt-oss-20b", "b200", None),
        ("awq", "mi300x", None),
    ],
)  # fmt: skip
def test_rooms_of_experts_stay_where_they_come_from_one_place(name, gpu, since):
    """Between releases with and without v1/worker/workspace.py behind the kernel: 8 or 4 of the widest inputs and outputs a token."""
    model = (
        in_nvfp4("qwen3-30b-a3b") if name == "nvfp4" else in_four_bits(name) if name in METHODS else load_model(name)
    )
    options = {"max_num_batched_tokens": 4096, "max_num_seqs": 8}
    for version in ("0.13.0", "0.14.0", "0.16.0", "0.17.0", "0.19.0", "0.20.0", "0.21.0", "0.22.0", "0.23.0", "0.33.0"):
        if name == "deepseek-v4-flash" and parse(version) < parse("0.20.0"):
            continue
        found = profiled(model, gpu, version, 8192, **options).likely.experts
        assert bool(found.staying) == (since is not None and parse(version) >= parse(since)), version
        assert bool(found.staying) != bool(found.running)


METHODS = {"gptq", "awq", "compressed-tensors"}


def in_four_bits(method):
    model = load_model("qwen3-30b-a3b")
    return replace(model, weights=replace(model.weights.stored_as(kept_named("int4")), method=method))


def test_rooms_of_marlin_s_kernels_by_hand():
    """experts/marlin_moe.py workspace_shapes: tokens x experts x max(width, hidden) and x max(2 x width, hidden), 768 and 2,048 wide."""
    found = profiled(in_four_bits("awq"), "a100", "0.33.0", 8192, max_num_batched_tokens=4096, max_num_seqs=8).likely
    assert found.experts.staying == 2 * 4096 * 8 * (2048 + 2048)


def test_the_high_end_allows_for_copies_of_nvfp4_experts_tokens():
    """vLLM's own kernel for NVFP4 (0.20 experts/cutlass_moe.py): rooms of max(2 x 1,024, 2,048) and 1,024 values for each of 8 experts
    a token, and their inputs, outputs and weighted outputs of 2,048 beside six hidden states."""
    model = in_nvfp4("qwen3.5-35b-a3b")
    found = profiled(model, "rtx-5090", "0.20.0", 65_536, max_num_batched_tokens=16_384, max_num_seqs=1)
    assert found.high.experts.running == 16_384 * (2 * 8 * (2048 + 1024 + 3 * 2048) + 2 * 6 * 2048)
    assert found.likely.experts.running == 16_384 * (2 * 8 * (2048 + 2048) + 8 * 2048 // 16 + 2 * 2048)  # FlashInfer's
    older = profiled(model, "h100", "0.20.0", 65_536, max_num_batched_tokens=16_384, max_num_seqs=1)
    spread = profiled(model, "b200", "0.20.0", 65_536, Parallel(tp=2, ep=2), max_num_batched_tokens=16_384)
    for none in (older, spread):
        assert none.high.experts.running == none.likely.experts.running
    """A log with --moe-backend cutlass leaves 4.8 GiB where 2.9 are counted: half of what is copied is unsure."""
    options = {"max_num_batched_tokens": 16_384, "max_num_seqs": 1, "utilization": 0.9}
    weights = round(21.86 * GIB)
    assert kv(model, "rtx-5090", "0.20.0", 65_536, weights_per_gpu=weights, **options).low / GIB <= 1.28 - 0.9 * 0.47


@pytest.mark.parametrize(("tokens", "left"), [(8192, 1.90), (16_384, 3.93)])
def test_gelu_experts_in_nvfp4_have_vllm_s_own_kernel(tokens, left):
    """FlashInfer's have SiLU alone up to 0.23, so the next in line runs: two logs of Gemma-4-26B on an RTX 5090 (0.19.1, 0.20.2) leave
    so many GiB beside weights, cache and libraries."""
    model, options = in_nvfp4("gemma-4-26b-a4b"), {"max_num_batched_tokens": tokens, "max_num_seqs": 2}
    for version in ("0.19.1", "0.23.0"):
        found = profiled(model, "rtx-5090", version, 98_304, **options).likely
        assert found.experts.running == tokens * (2 * 8 * (2816 + 1408 + 3 * 2816) + 2 * 6 * 2816)
    start = Setup(model, load_gpu("rtx-5090"), ONE, None, Options(**options), 98_304)
    assert Vllm(parse("0.20.2")).start(start).budget().activation.bytes.likely / GIB == pytest.approx(left, abs=0.08)
    later = profiled(model, "rtx-5090", "0.24.0", 98_304, **options).likely
    assert later.experts.running == tokens * (2 * 8 * (2816 + 2816) + 8 * 2816 // 16 + 2 * 2816)


@pytest.mark.parametrize(("sequences", "graphs"), [(1, 3), (2, 5), (20, 13), (256, 86), (512, 102), (1024, 102)])
def test_how_many_graphs_are_captured(sequences, graphs):
    """0.20.2 with 2 sequences prints PIECEWISE=3 and FULL=2; defaults print 51 and 35."""
    assert captured(sequences) == graphs


def test_the_high_end_has_as_much_of_graphs_as_was_printed():
    """Qwen3-8B's 36 layers on an A100 of 40 GB: 2.35 GiB of graphs, which 0.20 takes off; with 19.36 GiB in 0.19, 17.0 are left."""
    model, gpu = load_model("qwen3-8b"), load_gpu("a100-sxm-40")
    of = {
        (graphs, sequences): Vllm(parse("0.20.0"))
        .start(Setup(model, gpu, ONE, None, Options(graphs=graphs, utilization=0.9, max_num_seqs=sequences), 40_960))
        .budget()
        for graphs in (True, False)
        for sequences in (None, 8)
    }
    runtime = {key: each.runtime.bytes for key, each in of.items()}
    assert runtime[True, None].high - runtime[False, None].high == pytest.approx(2.35 * GIB, rel=0.01)
    assert of[True, None].kv.low / GIB <= 17.0
    few = runtime[True, 8].high - runtime[False, 8].high  # 6 sizes up to 16 and 4 up to 8 tokens
    assert few == pytest.approx(36 * 13.9 * MIB * (1 + WIDTH * 0.1), rel=0.01)


def served_by(model, version, parallel=ONE, gpu="h100", **options):
    """What decides which runner serves it."""
    held, device = rules(parse(version)), load_gpu(gpu)
    return model, device, settings(Setup(model, device, parallel, None, Options(**options), 8192), held), held


@pytest.mark.parametrize(
    ("version", "model", "second"),
    [
        ("0.21.0", "qwen3-14b", False),
        ("0.22.0", "qwen3-14b", True),
        ("0.22.0", "llama-3.1-8b", False),
        ("0.23.0", "llama-3.1-8b", True),
        ("0.24.0", "qwen2.5-7b", False),
        ("0.25.0", "qwen2.5-7b", True),
        ("0.25.0", "gemma-3-27b", True),
        ("0.28.0", "qwen3-30b-a3b", False),
        ("0.28.0", "qwen3.6-27b", False),
        ("0.29.0", "qwen3-30b-a3b", True),
        ("0.29.0", "qwen3.6-27b", True),
    ],
)
def test_which_runner_serves_a_class(version, model, second):
    """Source: vLLM config/vllm.py use_v2_model_runner of each release. Graphs are estimated by it from 0.29 on."""
    asked = served_by(load_model(model), version)
    assert is_second(*asked) == second
    assert estimates_graphs(*asked) == (not second or version == "0.29.0")


@pytest.mark.parametrize(
    ("version", "model", "stated", "second"),
    [
        ("0.21.0", "qwen3-14b", True, False),  # unfinished: what it takes wasn't read
        ("0.22.0", "llama-3.1-8b", True, True),
        ("0.22.0", "qwen3-14b", False, False),
        ("0.33.0", "qwen3-30b-a3b", False, False),
    ],
)
def test_the_runner_that_is_asked_for_serves(version, model, stated, second):
    assert is_second(*served_by(load_model(model), version, second_runner=stated)) == second


@pytest.mark.parametrize(
    ("version", "model", "stated", "steps"),
    [
        ("0.24.0", "gemma-3-27b", True, 1),  # windows aren't charged for steps in flight yet
        ("0.28.0", "gemma-3-27b", None, 3),
        ("0.28.0", "gpt-oss-20b", None, 2),
        ("0.28.0", "gpt-oss-20b", True, 3),
        ("0.28.0", "deepseek-v4-flash", None, 3),  # not dense, and served by the second all the same
        ("0.33.0", "gpt-oss-20b", None, 3),
        ("0.33.0", "gpt-oss-20b", False, 2),
    ],
)
def test_the_first_runner_overlaps_no_steps_of_pipeline_stages(version, model, stated, steps):
    """Source: config/vllm.py max_concurrent_batches, with two stages: pp + 1, or pp."""
    two = Parallel(pp=2)
    assert served_by(load_model(model), version, two, "h200", second_runner=stated)[2].batches == steps


def test_the_first_releases_serve_only_16_bit():
    narrow = replace(load_model("llama-3.1-8b"), weights=load_model("qwen3-30b-a3b").weights)
    assert not is_second(*served_by(narrow, "0.23.0"))
    assert is_second(*served_by(narrow, "0.24.0"))


def test_some_classes_keep_the_first_runner_on_amd():
    model = load_model("deepseek-v4-flash")
    on = [
        is_second(*served_by(model, v, gpu=gpu)) for gpu in ("h200", "mi300x") for v in ("0.28.0", "0.31.0", "0.32.0")
    ]
    assert on == [True, True, True, False, False, True]


@pytest.mark.parametrize(
    ("version", "logits"),
    [("0.24.0", "sorted in Triton"), ("0.25.0", "copied to fp32"), ("0.26.0", "as they are"), ("0.27.0", "copied to fp32"),
     ("0.28.0", "as they are"), ("0.32.0", "as they are"), ("0.33.0", "second runner")],
)  # fmt: skip
def test_what_the_profile_makes_of_logits(version, logits):
    """Source: v1/worker/gpu/sample/sampler.py apply_sampling_params, and _dummy_sampler_run of 0.33."""
    assert sampler(*served_by(load_model("qwen2.5-7b"), version)) == logits


def head(architecture, model_type, **fields):
    sizes = {
        "hidden_size": 4096, "intermediate_size": 12_288, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
        "vocab_size": 151_936, "num_hidden_layers": 1, "max_position_embeddings": 40_960, "tie_word_embeddings": False,
    }  # fmt: skip
    config = {"architectures": [architecture], "model_type": model_type, **sizes, **fields}
    return with_draft(load_model("qwen3-8b"), read(config, Origin("a head", "a test")))


DRAFTED = {
    "mtp": replace(load_model("qwen3-8b"), draft_layers=load_model("qwen3-8b").layers[:1]),
    "n-gram": load_model("qwen3-8b"),
    "model": with_draft(load_model("qwen3-8b"), load_model("qwen3-0.6b")),
    "eagle3": head("LlamaForCausalLMEagle3", "llama", draft_vocab_size=32_000),
    "at once": head("PEagleDraftModel", "llama", draft_vocab_size=32_000),
    "dflash": head("DFlashDraftModel", "qwen3", dflash_config={"target_layer_ids": [1, 9, 17]}),
    "dflash by name": with_draft(load_model("qwen3-8b"), load_model("qwen3-0.6b"), "a/Qwen3-DFlash"),
    "eagle by name": with_draft(load_model("qwen3-8b"), load_model("qwen3-0.6b"), "a/EAGLE-Qwen3"),
}


@pytest.mark.parametrize(
    ("draft", "stages", "since"),
    [
        ("mtp", 1, "0.22.0"), ("eagle3", 1, "0.22.0"), ("eagle by name", 1, "0.22.0"), ("eagle by name", 2, "0.22.0"), ("eagle3", 2, "0.30.0"),
        ("dflash", 1, "0.24.0"), ("dflash by name", 1, "0.24.0"), ("model", 1, "0.31.0"), ("n-gram", 1, "0.32.0"), ("at once", 1, None),
    ],
)  # fmt: skip
def test_which_runner_drafts(draft, stages, since):
    """Source: config/vllm.py _get_v2_model_runner_unsupported_features of each release. Qwen3 has the second one since 0.22."""
    parallel = Parallel(pp=stages)
    releases = ["0.22.0", "0.23.0", "0.24.0", "0.25.0", "0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0"]
    found = [is_second(*served_by(DRAFTED[draft], each, parallel, speculative_tokens=4)) for each in releases]
    assert found == [since is not None and parse(each) >= parse(since) for each in releases]
    assert is_second(*served_by(DRAFTED[draft], "0.22.0", parallel))  # nothing drafts unless it is asked for


def test_a_draft_that_the_second_runner_has_not_takes_the_first_one_s_room():
    """36 layers of graphs that 0.23 estimates, and 1,024 x 151,936 logits sorted at 14.4 B each. The second copies them to fp32 (6 B), which
    is less than the embedding's copy."""
    model, gpu = load_model("qwen3-8b"), load_gpu("h100")
    of = {
        tokens: Vllm(parse("0.23.0"))
        .start(Setup(model, gpu, ONE, None, Options(speculative_tokens=tokens), 8192))
        .budget()
        for tokens in (0, 4)
    }
    assert of[4].runtime.bytes.likely - of[0].runtime.bytes.likely == pytest.approx(36 * 13.9 * MIB, abs=1)
    words = 151_936
    more = 1024 * words * 14.4 - max(1024 * words * 6, 2 * words * 4096)
    assert of[4].activation.bytes.likely - of[0].activation.bytes.likely == pytest.approx(more, abs=1)


def test_guesses_may_take_the_first_runner_s_room():
    """0.32 guesses by n-grams with the second runner, and by suffixes with the first; nobody says by which."""
    model, gpu = load_model("qwen3-8b"), load_gpu("h100")
    own, options = Vllm(parse("0.32.0")), Options(speculative_tokens=4)
    started = own.start(Setup(model, gpu, ONE, None, options, 8192))
    found, made = started.budget(), started.made
    first = replace(made.rules, second_others="none", second_named=frozenset())
    fallen = replace(started, made=replace(made, rules=first)).budget()
    assert found.activation.bytes.likely < fallen.activation.bytes.likely
    assert found.kv.low <= fallen.kv.low
    assert found.activation.bytes.high == fallen.activation.bytes.high


def test_the_second_runner_ran_no_encoder_before_0_27():
    found = [profiled(load_model("gemma-3-27b"), "h100", version, 32_768).likely for version in ("0.26.0", "0.27.0")]
    assert (found[0].towers, found[0].encoder) == (0, 0)
    assert found[1].towers == 2 * 5376 * 31 * 256  # its pixels aren't kept
    assert found[1].encoder > 0


def test_kernels_are_measured_on_a_copy_of_the_embedding():
    """Four starts that compiled print peaks of V x H x 2 B and little more: 1.48, 1.04, 0.98 and 0.31 GiB."""
    for name, width, words in (
        ("qwen3-14b", 5120, 151_936),
        ("qwen2.5-7b", 3584, 152_064),
        ("llama-3.1-8b", 4096, 128_256),
    ):
        low, likely, high = profiled(load_model(name), "l40s", "0.29.0", 8192)
        assert likely.table == high.table == 2 * width * words
        assert low.table == 0  # a later start finds them compiled
    assert profiled(load_model("qwen3-14b"), "l40s", "0.29.0", 8192, graphs=False).high.table == 0
    assert profiled(load_model("qwen3-14b"), "l40s", "0.11.0", 8192).high.table == 0
    assert profiled(load_model("gemma-3-27b"), "h200", "0.29.0", 8192).high.table == 0  # given embeddings, not words
    two = profiled(load_model("qwen3-14b"), "l40s", "0.29.0", 8192, Parallel(tp=2)).likely
    assert two.table == 5120 * 151_936


MASK = 4 * 4_748
"""Bytes of a bit for each of Qwen3's 151,936 words."""


@pytest.mark.parametrize(
    ("name", "version", "options", "everywhere", "sampling"),
    [
        ("qwen3-14b", "0.26.0", {}, 0, 0),
        ("qwen3-14b", "0.27.0", {}, 0, 512 * (4 * 151_936 + 2 * MASK)),  # penalties.py: counts and bits; grammar_bitmask
        ("qwen3-14b", "0.33.0", {}, 0, 512 * (4 * 151_936 + 2 * MASK)),
        ("qwen3-30b-a3b", "0.28.0", {}, 2 * 4096 * 2048, 0),  # the first runner: inputs_embeds
        ("qwen3.5-27b", "0.33.0", {}, 2 * 4096 * 5120, 512 * (4 * 248_320 + 2 * 4 * 7_760)),
        ("qwen3.5-27b", "0.33.0", {"speculative_tokens": 2}, 2 * 4096 * 5120, 512 * (4 * 248_320 + 4 * 4 * 7_760) + 2 * 4096 * 5120),
    ],
)  # fmt: skip
def test_buffers_of_the_runner_by_hand(name, version, options, everywhere, sampling):
    """Made before the profile, of 4,096 tokens and 512 sequences; counted since 0.27, as total_consumed."""
    found = profiled(load_model(name), "h100", version, 8192, max_num_batched_tokens=4096, max_num_seqs=512, **options)
    assert tuple(found.likely.made) == (everywhere, sampling)


def test_buffers_of_the_runner_are_what_logs_leave():
    """Qwen3-32B of 0.27.1 on an RTX PRO 6000 prints -24.42 GiB beside 61.03 of weights, with vLLM's own 1,024 sequences."""
    given = {"utilization": 0.426, "weights_per_gpu": round(61.03 * GIB)}
    found = kv(load_model("qwen3-32b"), "rtx-pro-6000-server", "0.27.1", 32_768, **given)
    assert found.likely / GIB == pytest.approx(-24.42, abs=0.1)


def test_one_stage_embeds_and_another_samples():
    """Two stages of Qwen3-32B: the copy of the embedding beside no counts of words, and those beside no copy."""
    one, two = (
        profiled(load_model("qwen3-32b"), "h100", "0.28.0", 8192, Parallel(pp=pp), max_num_seqs=1024).likely
        for pp in (1, 2)
    )
    copy, counts = 2 * 151_936 * 5120, 1024 * (4 * 151_936 + 2 * MASK)
    both = peak(one, COSTS["logits as they are"])
    apart = peak(two, COSTS["logits as they are"])
    assert both.counted - one.hidden == 2 * copy + counts
    assert apart.counted - two.hidden == 2 * copy


def test_what_the_allocator_holds_of_the_copy_counts():
    """utils/mem_utils.py memory_profiling: up to 0.26 what torch has reserved is taken off what is used; since 0.27 all that is not free
    counts, and the peak above what is allocated once more. Three logs of 0.28 count the copy twice, five of 0.29 to 0.31 once."""
    copy = 2 * 5120 * 151_936
    held = {
        version: [each.held for each in profiled(load_model("qwen3-14b"), "l40s", version, 8192)]
        for version in ("0.26.0", "0.27.0", "0.28.0", "0.29.0", "0.33.0")
    }
    assert held == {
        "0.26.0": [0, 0, 0],
        "0.27.0": [0, copy, copy],
        "0.28.0": [0, copy, copy],
        "0.29.0": [0, 0, 0],
        "0.33.0": [0, 0, 0],
    }
    assert profiled(load_model("qwen3-14b"), "l40s", "0.28.0", 8192, graphs=False).high.held == 0
    """Qwen3-14B-AWQ on an RTX 5090 prints 9.27 GiB with 9.43 of weights, Qwen3-1.7B on 5.61 GiB 0.13 with 3.21."""
    given = {"utilization": 0.7, "weights_per_gpu": round(9.43 * GIB)}
    found = kv(load_model("qwen3-14b"), "rtx-5090", "0.28.0", 32_768, **given)
    assert found.low / GIB < 9.27
    assert found.likely / GIB == pytest.approx(9.27, abs=0.2)
    small = load_gpu("t4")
    small = replace(small, memory=replace(small.memory, value=round(5.61 * GIB)))
    options = Options(utilization=0.85, weights_per_gpu=round(3.21 * GIB))
    start = Setup(load_model("qwen3-1.7b"), small, ONE, None, options, 2048)
    assert Vllm(parse("0.28.0")).start(start).budget().kv.likely / GIB == pytest.approx(0.13, abs=0.25)


def test_graphs_of_compressed_caches_count_one_by_one():
    """43 layers, and 51 sizes of each mode by default: 8 ranks of RTX PRO 5000 print 37.93 GiB (0.22.1). With four sequences and two
    drafted tokens it is six sizes up to 24 and four up to 12. The second runner captures most to estimate."""
    model = load_model("deepseek-v4-flash")

    def found(version, gpu, tp, ep, **options):
        held, chosen, device = rules(parse(version)), Options(**options), load_gpu(gpu)
        made = settings(Setup(model, device, Parallel(tp=tp, ep=ep), None, chosen, 200_000), held)
        return amounts(model, device, made, held, chosen)

    name = "graphs, compressed caches"
    assert found("0.22.1", "rtx-pro-5000-72", 8, 8, max_num_seqs=1024)[name] == 43 * 102
    assert found("0.21.0", "dgx-spark", 2, 1, max_num_seqs=4, speculative_tokens=2)[name] == 43 * 10
    assert found("0.31.0", "h100", 8, 8, max_num_seqs=64)[f"{name}, second runner"] == 43
    assert name not in found("0.28.0", "h100", 8, 8)  # estimates none
    likely = kv(model, "rtx-pro-5000-72", "0.22.1", 256_000, Parallel(tp=8, ep=8)).likely
    assert likely / GIB == pytest.approx(37.93, rel=0.02)


def test_the_high_end_has_as_much_of_graphs_of_compressed_caches_as_was_printed():
    """DeepSeek-V4-Flash on GB10: 8 graphs of 43 layers in 0.55 GiB."""
    model = load_model("deepseek-v4-flash")
    made = settings(Setup(model, load_gpu("dgx-spark"), Parallel(tp=2), None, Options(), 8192), rules(parse("0.21.0")))
    assert most("graphs, compressed caches", 43 * 8, made) / GIB == pytest.approx(0.55, rel=0.03)


def test_an_eager_start_has_neither_graphs_nor_fused_sums():
    """Sums are joined by a pass of the compiler. Two ranks of H200 NVL print 32.08 GiB of DeepSeek-V4-Flash (0.23)."""
    model, options = load_model("deepseek-v4-flash"), {"utilization": 0.78, "weights_per_gpu": round(74.08 * GIB)}
    found = kv(model, "h200-nvl", "0.23.0", 262_144, Parallel(tp=2), graphs=False, **options)
    assert found.low / GIB <= 32.08 <= found.high / GIB
    assert found.likely / GIB == pytest.approx(32.08, rel=0.03)


def test_graphs_may_take_as_little_as_the_estimate_allows():
    """The second graph counts 1 MiB at least: 0.08 GiB printed for 86 graphs of Qwen3.6-35B's 40 layers (0.19.1)."""
    held, gpu, model = rules(parse("0.20.0")), load_gpu("rtx-5090"), load_model("qwen3.5-35b-a3b")
    made = settings(Setup(model, gpu, ONE, None, Options(max_num_seqs=256), 8192), held)
    assert least("graphs", 40 * 11.7 * MIB, made) == 86 * MIB
    assert least("graphs", 50 * MIB, made) == 50 * MIB
    assert least("libraries", 322 * MIB, made) == 322 * MIB


def test_shared_memory_may_be_given_back():
    """Pages of the system that vLLM finds taken and that are free when it looks again: Qwen3-30B-A3B on a GB10 (0.20.0) prints 4.85 GiB
    where 0.49 of the memory is 2.7 more than its weights."""
    found = kv(load_model("qwen3-30b-a3b"), "dgx-spark", "0.20.0", 16_384, utilization=0.49)
    assert found.high / GIB >= 4.85
    runtime = {
        gpu: Vllm(parse("0.20.0"))
        .start(Setup(load_model("qwen3-30b-a3b"), load_gpu(gpu), ONE, None, Options(), 16_384))
        .budget()
        .runtime.bytes
        for gpu in ("dgx-spark", "rtx-5090")
    }
    assert runtime["dgx-spark"].low < 0 <= runtime["rtx-5090"].low


@pytest.mark.parametrize(
    ("model", "gpu", "version", "length", "tp", "printed", "options"),
    [
        (load_model("gemma-3-27b"), "b200", "0.11.2", 32_768, 1, 88.51, {"max_num_batched_tokens": 16_384, "utilization": 0.9}),
        (QWEN3_VL, "a100", "0.11.0", 87_840, 1, 8.04, {"utilization": 0.9}),
        (QWEN3_VL, "rtx-3090", "0.11.0", 65_536, 4, 2.31, {"utilization": 0.9}),
        (load_model("qwen3-14b"), "l40s", "0.29.0", 40_960, 1, 11.06, {}),
        (load_model("llama-3.1-8b"), "a100", "0.31.0", 131_072, 1, 56.21, {}),
    ],
)  # fmt: skip
def test_the_safe_end_is_there(model, gpu, version, length, tp, printed, options):
    found = kv(model, gpu, version, length, Parallel(tp=tp), **options)
    assert found.low / GIB <= printed


@pytest.mark.parametrize(
    ("sizes", "split", "unsplit"),
    [
        ((52.5, 26.25, 6.0), 0.0, 1.5 + 1.75),  # Qwen2.5-1.5B: 2.89 GiB printed by 0.20, 2.98 by 0.30
        ((86.0, 43.0, 10.0, 8.0), 1.0, 1.0),  # Qwen2.5-3B: 5.79 GiB printed, 5.76 counted without
        ((224.0, 112.0, 48.0, 32.0), 0.0, 0.0),  # Llama-3.1-8B
        ((85.0, 42.5, 17.5, 12.5), 1.0 + 0.5, 1.0 + 1.5 + 0.5),  # Qwen3-14B-AWQ
    ],
)
def test_ends_of_segments_count_behind_tensors(sizes, split, unsplit):
    """MiB of the tensors of a layer; segments from 10 MiB on are multiples of 2 MiB, and rests of over 1 MiB are split off."""
    asked = [round(size * MIB) for size in sizes]
    assert ends(asked, unsplit=False) == split * MIB
    assert ends(asked, unsplit=True) == unsplit * MIB


def test_weights_count_them():
    """Qwen2.5-7B: gate and up 259 MiB, down 129.5, q, k and v 31.5, o 24.5; the log of 0.22 prints 14.29 GiB."""
    layers = load_model("qwen2.5-7b").weights.layers
    assert ends_of(layers, ONE, (0, 20, 0)) == 28 * (1 + 0.5 + 0.5) * MIB
    assert ends_of(layers, ONE, (0, 21, 0)) == 28 * (1 + 0.5 + 0.5 + 1.5) * MIB


def test_what_the_host_takes_meanwhile_may_be_as_much_as_was_seen():
    """Qwen3.5-122B on Thor: 0.85 x 122.80 GiB less 70.47 of weights leave 33.9, and 21.43 are printed; the encoder takes 1.94."""
    model, options = load_model("qwen3.5-122b-a10b"), {"utilization": 0.85, "max_num_batched_tokens": 8192}
    found = kv(model, "jetson-agx-thor", "0.19.0", 131_072, weights_per_gpu=round(70.47 * GIB), **options)
    assert found.low / GIB <= 21.43


def test_only_nvidia_s_shared_memory_is_read_from_the_host():
    """vLLM 0.18 utils/mem_utils.py asks the host for CUDA on 8.7, 11.0 and 12.1; ROCm has no is_integrated_gpu of its own up to 0.33."""
    model = load_model("qwen3-8b")
    for gpu, shared in (("strix-halo", 0), ("dgx-spark", 1)):
        _, device, made, held = served_by(model, "0.27.1", gpu=gpu)
        assert amounts(model, device, made, held, Options())["shared memory"] == shared


@pytest.mark.parametrize(
    ("model", "gpu", "version", "tp", "share", "weights", "printed"),
    [
        ("qwen2.5-7b", "a100-sxm-80", "0.10.1", 1, 0.25, 14.2488, 5.01),
        ("qwen2.5-7b", "a100-sxm-80", "0.10.1", 1, 0.5, 14.2488, 24.83),
        ("qwen2.5-7b", "a100-sxm-80", "0.10.1", 2, 0.5, 7.1217, 31.83),
        ("gpt-oss-120b", "a100-sxm-80", "0.10.1", 4, 0.8, 17.2217, 45.32),
    ],
)
def test_flashinfer_picks_tokens_in_less_room_where_it_is_installed(model, gpu, version, tp, share, weights, printed):
    """Logs of https://github.com/dennislee22/vLLM-benchmarking that say so; others of these releases have PyTorch sort."""
    left = kv(
        load_model(model, offline=True), gpu, version, 16_384, Parallel(tp=tp),
        utilization=share, weights_per_gpu=round(weights * GIB),
    )  # fmt: skip
    assert left.likely / GIB < 0.98 * printed
    assert printed <= left.high / GIB < 1.2 * printed


@pytest.mark.parametrize(
    ("gpu", "version", "less"),
    [
        ("a100-sxm-80", "0.8.0", True),
        ("a100-sxm-80", "0.11.0", True),
        ("a100-sxm-80", "0.11.1", False),
        ("mi300x", "0.11.0", False),
    ],
)
def test_flashinfer_picks_tokens_on_nvidia_until_it_must_be_asked_for(gpu, version, less):
    model, device, held = load_model("qwen2.5-7b", offline=True), load_gpu(gpu), rules(parse(version))
    flags = settings(Setup(model, device, ONE, None, Options(), 8192), held)
    usual = sampler(model, device, flags, held)
    assert (least_sampler(model, device, flags, held) == "picked by FlashInfer") is less
    assert usual == "sorted in PyTorch"
