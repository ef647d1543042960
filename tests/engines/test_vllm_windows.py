"""Windows, as each class of vLLM gives them to its layers: blocks and tokens are what vLLM 0.33's own planner answers on an H100."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kvplan.arch.extras import with_draft
from kvplan.arch.layers import Attention
from kvplan.arch.model import Model, Origin
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Options, Setup
from kvplan.engines.vllm.blocks import allocate, built
from kvplan.engines.vllm.policy import Vllm
from kvplan.engines.vllm.starts import negative
from kvplan.engines.vllm.tables.changes import rules
from kvplan.engines.vllm.tables.versions import NEWEST, Version
from kvplan.errors import Unsupported
from kvplan.families import read
from kvplan.sources.bundled import bundled_document
from kvplan.sources.gpus import load_gpu
from kvplan.sources.models import load_model
from kvplan.units import GIB

FULL, SLIDING = "full_attention", "sliding_attention"

GEMMA_2B = {
    "architectures": ["GemmaForCausalLM"], "model_type": "gemma", "hidden_size": 2048, "intermediate_size": 16384, "head_dim": 256,
    "num_attention_heads": 8, "num_hidden_layers": 18, "num_key_value_heads": 1, "max_position_embeddings": 8192,
    "torch_dtype": "bfloat16", "vocab_size": 256000,
}  # fmt: skip
STABLELM = {
    "architectures": ["StableLmForCausalLM"], "model_type": "stablelm", "hidden_size": 2560, "intermediate_size": 6912,
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32, "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16", "vocab_size": 50304,
}  # fmt: skip
MISTRAL = {
    "architectures": ["MistralForCausalLM"], "model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336,
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "max_position_embeddings": 32768,
    "sliding_window": 4096, "torch_dtype": "bfloat16", "vocab_size": 32000,
}  # fmt: skip
LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "head_dim": 64,
    "num_attention_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8, "max_position_embeddings": 131072,
    "tie_word_embeddings": True, "torch_dtype": "bfloat16", "vocab_size": 32000,
}  # fmt: skip
MIXED = {"sliding_window": 1024, "layer_types": "mixed"}


def config(name: str | dict[str, Any], **fields: object) -> dict[str, Any]:
    """A config with other fields: layer_types "mixed" has three windows to each full layer."""
    own = {**(dict(bundled_document(name).config) if isinstance(name, str) else name), **fields}
    if own.get("layer_types") == "mixed":
        own["layer_types"] = [FULL if index % 4 == 3 else SLIDING for index in range(own["num_hidden_layers"])]
    elif own.get("layer_types") in (FULL, SLIDING):
        own["layer_types"] = [own["layer_types"]] * own["num_hidden_layers"]
    return own


def checkpoint(name: str | dict[str, Any], **fields: object) -> Model:
    return read(config(name, **fields), Origin("a checkpoint", "a test"))


def planned(
    model: Model, context: int, *, drafted: int = 0, gib: int = 40, version: Version = NEWEST
) -> tuple[int, int]:
    own, card, options = Vllm(version), load_gpu("h100"), Options(speculative_tokens=drafted)
    made = own.start(Setup(model, card, Parallel(), own.kv_format(model, None, card), options, context)).made
    found = allocate.pool(made, gib * GIB)
    assert isinstance(found, allocate.Pool)
    return found.blocks, found.tokens


@pytest.mark.parametrize(
    ("name", "fields", "pool"),
    [
        # a list with full layers in it takes the window of all layers away from classes that look at no single layer
        ("phi-3.5-moe", MIXED, (20_480, 327_680)),
        ("olmoe-1b-7b", MIXED, (20_480, 327_680)),
        (GEMMA_2B, MIXED, (145_635, 2_330_160)),
        (STABLELM, MIXED, (8_192, 131_072)),
        ("phi-3-mini-4k", MIXED, (27_306, 108_587)),  # a Llama, which looks
        # without a list every layer has it, though Transformers' own classes have no such field
        ("olmoe-1b-7b", {"sliding_window": 1024}, (20_480, 325_139)),
        (GEMMA_2B, {"sliding_window": 1024}, (145_635, 2_312_096)),
        (STABLELM, {"sliding_window": 1024}, (8_192, 130_055)),
    ],
)
def test_a_window_by_class_and_by_list(name, fields, pool):
    assert planned(checkpoint(name, **fields), 2048) == pool


@pytest.mark.parametrize(
    ("kinds", "version", "kind"),
    [
        # engine/arg_utils.py: the window always; unless is_interleaved; only if all(lt == "sliding_attention")
        ("mixed", (0, 10, 0), "sliding"), ("mixed", (0, 10, 1), "full"), (FULL, (0, 26, 0), "sliding"), (FULL, (0, 27, 0), "full"),
        (SLIDING, (0, 33, 0), "sliding"),
    ],
)  # fmt: skip
def test_when_a_release_gives_all_layers_the_config_s_window(kinds, version, kind):
    model, own = checkpoint("olmoe-1b-7b", layer_types=kinds, sliding_window=1024), Vllm(version)
    made = own.start(Setup(model, None, Parallel(), own.kv_format(model, None, None), Options(), 2048)).made
    assert {group.layers[0].spec.kind for group in made.layout.groups} == {kind}


@pytest.mark.parametrize(
    ("target", "draft", "gib", "context", "pool"),
    [
        ("gemma-7b", "gemma-2-2b", 20, 2048, (6_301, 28_740)),
        ("gemma-2-27b", "gemma-2-2b", 20, 4096, (12_603, 40_235)),
        ("gemma-3-27b", "gemma-3-4b", 20, 32768, (32_768, 52_714)),
        ("command-a-111b", "command-r7b", 20, 32768, (13_653, 75_943)),
    ],
)
def test_drafts_whose_class_fills_in_the_kinds_of_their_layers(target, draft, gib, context, pool):
    assert planned(with_draft(load_model(target), load_model(draft)), context, drafted=3, gib=gib) == pool


NARROW = {"vocab_size": 32000}


@pytest.mark.parametrize(
    ("window", "draft", "fields", "pool"),
    [
        (4096, "qwen3-4b", {**NARROW, "layer_types": FULL}, (9_637, 153_592)),
        (4096, LLAMA, {"layer_types": FULL}, (16_384, 261_123)),
        (4096, LLAMA, {"sliding_window": 1024}, (16_384, 261_123)),
        (4096, "gemma-2-2b", NARROW, (11_299, 180_080)),
        (None, "gemma-2-2b", NARROW, (50_412, 161_192)),
        (None, "mixtral-8x7b", {"num_hidden_layers": 8, **MIXED}, (16_384, 262_144)),
        (None, "qwen3-4b", {**NARROW, "layer_types": SLIDING, "use_sliding_window": True, "sliding_window": 1024}, (9_637, 154_192)),
    ],
)  # fmt: skip
def test_a_draft_s_layers_without_a_window_of_their_own_have_the_target_s(window, draft, fields, pool):
    target = checkpoint(MISTRAL, sliding_window=window)
    assert planned(with_draft(target, checkpoint(draft, **fields)), 4096, drafted=3) == pool


KINDS = {"layer_types": "mixed", "sliding_window": 4096, "use_sliding_window": True}


def test_qwen3_with_a_mixed_list_keeps_every_token_where_no_layer_is_to_have_a_window():
    assert planned(checkpoint("qwen3-4b", **KINDS, max_window_layers=36), 16384) == (18_204, 291_264)


def qwen3_vl() -> dict[str, Any]:
    """Qwen3-VL-8B, whose class has no max_window_layers."""
    whole = dict(bundled_document("qwen3-vl-8b").config)
    return {**whole, "text_config": config(whole["text_config"], layer_types="mixed", sliding_window=4096)}


SOME = "Sliding window for some but all layers is not supported"


@pytest.mark.parametrize(
    ("model", "version", "starts"),
    [
        (config("qwen3-4b", **KINDS, max_window_layers=28), NEWEST, False),
        (config("qwen3-4b", **KINDS, max_window_layers=36), NEWEST, True),
        (qwen3_vl(), NEWEST, False),
        # models/qwen2.py of 0.8.5, 0.9.2, 0.10.0, 0.10.1: asked of the cache's window, then of the list
        *(
            (config("qwen3-4b", layer_types="mixed", use_sliding_window=False, max_window_layers=28), version, starts)
            for version, starts in (((0, 8, 5), True), ((0, 9, 2), True), ((0, 10, 0), True), ((0, 10, 1), False))
        ),
        *(
            (config("qwen2.5-7b", use_sliding_window=True, sliding_window=4096, max_window_layers=28), version, starts)
            for version, starts in (((0, 8, 5), False), ((0, 9, 0), True), ((0, 33, 0), True))
        ),
    ],
)
def test_windows_on_some_layers_alone(model, version, starts):
    found = read(model, Origin("a checkpoint", "a test"))
    if starts:
        assert planned(found, 2048, version=version)
        return
    with pytest.raises(Unsupported) as refused:
        planned(found, 2048, version=version)
    assert refused.value.problem.cause == SOME


QWEN2_AUDIO = {
    "architectures": ["Qwen2AudioForConditionalGeneration"], "model_type": "qwen2_audio",
    "text_config": {"model_type": "qwen2", "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 32,
                    "num_hidden_layers": 8, "head_dim": 64, "intermediate_size": 11008, "vocab_size": 156032,
                    "max_position_embeddings": 8192, "torch_dtype": "bfloat16"},
}  # fmt: skip
INTERNVL = {
    "architectures": ["InternVLChatModel"], "model_type": "internvl_chat", "auto_map": {"AutoConfig": "own.Config"},
    "llm_config": {**QWEN2_AUDIO["text_config"], "architectures": ["InternLM2ForCausalLM"], "model_type": "internlm2"},
}  # fmt: skip


@pytest.mark.parametrize(
    "model",
    [
        *(
            config("qwen2.5-7b", head_dim=80, architectures=[name])
            for name in ("Qwen2ForCausalLM", "Qwen2ForRewardModel", "Qwen2ForProcessRewardModel", "Qwen2ForSequenceClassification", "Qwen2Model")
        ),
        config("granite-4.0-h-tiny", head_dim=64),
        {key: value for key, value in config("granite-4.0-h-tiny", head_dim=64).items() if key != "architectures"},
        QWEN2_AUDIO,
        INTERNVL,
    ],
)  # fmt: skip
def test_classes_whose_heads_are_the_hidden_size_over_their_number(model):
    """vLLM's planner has 748,976 tokens for Qwen2.5-7B with heads of 80, and 6,553 blocks for Granite: heads of 128."""
    found = read(model, Origin("a checkpoint", "a test"))
    with pytest.raises(Unsupported, match="doesn't load"):
        planned(found, 2048)
    drafted = with_draft(checkpoint(LLAMA), replace(found, vocab_size=32000))
    with pytest.raises(Unsupported, match="doesn't load"):
        planned(drafted, 2048, drafted=3)


def window_sizes(model: Model, version: Version) -> set[int | None]:
    found = built.as_served(model, rules(version), built.cache_window(model, rules(version)))
    return {cache.window for cache, _ in found.distinct if isinstance(cache, Attention)}


@pytest.mark.parametrize("version", [(0, 9, 2), (0, 11, 0), (0, 23, 0)])
def test_a_window_that_only_the_class_states_takes_nothing_from_full_layers(version):
    """dots.llm1: its class has 4,096, its list is full, and the bundled config, a part of what was published, says nothing."""
    assert window_sizes(checkpoint("dots.llm1"), version) == {None}
    assert window_sizes(checkpoint("dots.llm1", sliding_window=4096), version) == {4096}
    silent = {key: value for key, value in MISTRAL.items() if key != "sliding_window"}
    assert window_sizes(checkpoint(silent), version) == {4096}


@pytest.mark.parametrize(
    ("name", "refused"), [("kimi-k2", False), ("deepseek-v3", False), ("gemma-2-2b", True), (MISTRAL, True)]
)
def test_a_window_of_minus_one_where_a_layer_asks_for_it(name, refused):
    """0.33's planner keeps every token of Kimi K2.6's latents: 38,199 blocks, 611,184 tokens, as with no window."""
    model = checkpoint(name, sliding_window=-1)
    if refused:
        with pytest.raises(Unsupported, match="takes the sliding_window of"):
            negative.check(model, rules(NEWEST))
    else:
        negative.check(model, rules(NEWEST))


@pytest.mark.parametrize(("version", "refused"), [((0, 18, 1), True), ((0, 19, 0), False), (NEWEST, False)])
def test_a_window_of_zero_is_none_from_0_19(version, refused):
    """0.19's config/model.py is the first that takes it for null."""
    model = checkpoint("gemma-2-2b", sliding_window=0)
    if refused:
        with pytest.raises(Unsupported, match="takes the sliding_window of"):
            negative.check(model, rules(version))
    else:
        negative.check(model, rules(version))


MUSE = {
    "architectures": ["MuseGlimmerForConditionalGeneration"], "model_type": "muse_glimmer",
    "text_config": {
        "model_type": "muse_glimmer_text", "hidden_size": 6656, "num_hidden_layers": 52, "num_attention_heads": 32,
        "num_key_value_heads": 2, "head_dim": 128, "intermediate_size": 19968, "sliding_window": 2048, "vocab_size": 202048,
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "fields", "context", "pool"),
    [
        (MUSE, {}, 131_072, (100_824, 1_134_254)),  # full layers counted from the last, by its class
        ("gpt-oss-20b", {"sliding_window": 0}, 131_072, (27_306, 436_896)),
    ],
)
def test_windows_that_a_config_leaves_to_its_class(name, fields, context, pool):
    """0.33's planner with 20 GiB on an H100."""
    assert planned(checkpoint(name, **fields), context, gib=20) == pool


@pytest.mark.parametrize(("release", "window"), [((0, 28, 0), 4096), ((0, 29, 0), 4097)])
def test_windows_of_cohere_see_a_token_more_since_0_29(release, window):
    """Source: models/commandr.py of 0.28.0 and 0.29.0."""
    model = load_model("command-r7b")
    setup = Setup(model, load_gpu("h100"), Parallel(), None, Options(), 8192)
    made = Vllm(release).start(setup).made
    assert {spec.span for group in made.layout.groups for spec in group.specs} == {None, window}
