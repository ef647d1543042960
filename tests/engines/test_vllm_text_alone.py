"""Models that see or hear, served for text alone: no towers, no images in the start-up profile, kernels chosen without them.

Bytes that are left out are those by which vLLM 0.33's own model on the meta device is smaller with language_model_only; its
position ids (32 KiB of SigLIP's, 512 KiB of Qwen's rotary tables) are no weights.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvplan.arch.extras import without_towers
from kvplan.arch.parallel import Parallel
from kvplan.arch.traits import TEXT_ALONE
from kvplan.engines.base import Options, Setup
from kvplan.engines.ideal import Ideal
from kvplan.engines.vllm.policy import Vllm
from kvplan.engines.vllm.tables.architectures import image_prefix
from kvplan.engines.vllm.tables.changes import rules
from kvplan.engines.vllm.tables.versions import parse
from kvplan.errors import KvplanError, NotServed, Unsupported, UsageError
from kvplan.sources.gpus import load_gpu
from kvplan.sources.models import load_model
from kvplan.units import MIB

ALONE = Options(language_model_only=True)
UNIFIED = replace(load_model("gemma-4-e2b"), architectures=("Gemma4UnifiedForConditionalGeneration",))


def started(name, version="0.33.0", gpu="h200", options=ALONE, length=8192, tp=1):
    setup = Setup(
        load_model(name) if isinstance(name, str) else name, load_gpu(gpu), Parallel(tp), None, options, length
    )
    return Vllm(parse(version)).start(setup)


def weights(*given, **named):
    return started(*given, **named).budget().weights.bytes.likely


@pytest.mark.parametrize(
    ("name", "left_out"),
    [
        ("gemma-3-27b", 846_153_440),
        ("gemma-4-e2b", 951_459_352),
        ("qwen3.5-35b-a3b", 893_732_320),
        ("qwen3-vl-8b", 1_153_366_496 + 3 * 8192 * 4096 * 2),  # and what deeper layers are handed
    ],
)
def test_towers_are_not_built(name, left_out):
    assert weights(name, options=Options()) - weights(name) == pytest.approx(left_out, abs=MIB)


def test_no_image_runs_in_the_profile():
    told = [started("gemma-3-27b", options=options).budget().activation.formula for options in (Options(), ALONE)]
    assert ["of the encoder" in each for each in told] == [True, False]
    assert " 0 B of images' embeddings and pixels" in told[1]


@pytest.mark.parametrize(("version", "sees"), [("0.26.0", True), ("0.27.0", False)])
def test_kernels_are_chosen_without_images(version, sees):
    """vLLM config/model.py _supports_multimodal_for_mm_prefix: 0.33's planner has TRITON_ATTN with images, FLASH_ATTN without."""
    model, held = load_model("gemma-3-27b"), rules(parse(version))
    assert image_prefix(model, held)
    assert image_prefix(without_towers(model), held) is sees


@pytest.mark.parametrize(("version", "tokens"), [("0.26.0", 2496), ("0.27.0", 2048)])
def test_steps_don_t_grow_to_a_video(version, tokens):
    """One of Gemma 4's counts 32 x 78 tokens; an L40S has steps of 2,048."""
    assert started("gemma-4-26b-a4b", version, "l40s").made.settings.tokens == tokens
    assert started("gemma-4-26b-a4b", version, "l40s", Options()).made.settings.tokens == 2496


@pytest.mark.parametrize(
    ("none_of", "alone"),
    [
        (("image",), False),
        (("image", "video"), True),
        (("audio", "image", "video"), True),
    ],
)
def test_limits_of_zero_for_all_that_a_class_reads_are_the_same(none_of, alone):
    """Qwen3.5 reads images and videos."""
    found = started("qwen3.5-35b-a3b", options=Options(no_media=none_of))
    assert (TEXT_ALONE in found.setup.model.traits) is alone


def test_gemma_reads_images_alone():
    assert weights("gemma-3-27b", options=Options(no_media=("image",))) == weights("gemma-3-27b")


def test_a_release_without_the_flag_is_named():
    with pytest.raises(UsageError) as error:
        started("gemma-3-27b", "0.16.0")
    assert "vLLM 0.16.0 has no --language-model-only" in str(error.value)
    assert error.value.problem.hint.startswith("--engine vllm@0.17.0")


def test_a_class_that_builds_its_embedder_nevertheless_is_refused_and_limits_leave_it_whole():
    """vLLM 0.33 models/gemma4_unified.py marks no towers: its model is as large with the flag."""
    with pytest.raises(Unsupported) as error:
        started(UNIFIED)
    assert "Gemma4UnifiedForConditionalGeneration" in error.value.problem.cause
    every = Options(no_media=("audio", "image", "video"))
    assert weights(UNIFIED, options=every) == weights(UNIFIED, options=Options())


def refused(name: str) -> KvplanError:
    with pytest.raises(Unsupported) as error:
        started(replace(load_model("gemma-3-27b"), architectures=(name,), traits=()))
    return error.value


def test_a_class_that_is_gone_is_not_asked_for_its_towers():
    """vLLM registers Grok1ForCausalLM from 0.14.0 to 0.24.0."""
    error = refused("Grok1ForCausalLM")
    assert isinstance(error, NotServed)
    assert error.problem.hint == "--engine vllm@0.24.0"


def test_a_class_that_the_backend_runs_now_left_them_out_until_then():
    error = refused("AyaVisionForConditionalGeneration")
    assert "doesn't know whether vLLM 0.33.0 leaves the towers" in error.problem.what
    assert "did until 0.24.0; 0.33.0 runs it through its Transformers backend" in error.problem.cause


def test_a_model_that_only_reads_has_nothing_to_leave_out():
    model = load_model("llama-3-8b")
    assert without_towers(model) is model
    assert weights("llama-3-8b") == weights("llama-3-8b", options=Options())


def test_the_formula_leaves_them_out_too():
    setup = [
        Setup(load_model("gemma-3-27b"), load_gpu("h200"), Parallel(), None, options, 8192)
        for options in (Options(), ALONE)
    ]
    whole, alone = (Ideal().start(each).budget().weights.bytes.likely for each in setup)
    assert whole - alone == pytest.approx(846_153_440, abs=MIB)


def test_an_encoder_that_every_token_reads_stays():
    model = load_model("whisper-tiny")
    assert without_towers(model).weights.towers == model.weights.towers


def test_towers_that_nobody_describes_are_left_out_and_nothing_else_is():
    model = load_model("gemma-3-27b")
    unsure = replace(model, weights=replace(model.weights, missing=("vision tower (depth)", "rwkv layers")))
    assert without_towers(unsure).weights.missing == ("rwkv layers",)
