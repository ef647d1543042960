"""What vLLM can't build of a config that says enough to be sized: as its own loader and planner refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from engines.vllm_rows import GPUS

from kvplan.arch.formats import parse_kv_format
from kvplan.arch.layers import Latent
from kvplan.arch.model import Model, Origin
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Options, Setup
from kvplan.engines.vllm.blocks.built import as_served
from kvplan.engines.vllm.policy import Vllm
from kvplan.engines.vllm.tables.changes import rules
from kvplan.errors import KvplanError, NotServed, Unsupported, UsageError
from kvplan.families import read
from kvplan.sources.models import load_document, load_model

LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "hidden_size": 512, "num_attention_heads": 4,
    "vocab_size": 100, "intermediate_size": 128, "max_position_embeddings": 32768,
}  # fmt: skip
ORIGINAL = {"factor": 2.0, "original_max_position_embeddings": 8192}
FACTORS = {"short_factor": [1.0], "long_factor": [2.0]}


def refusal(
    model: Model, gpu: str = "h100", kv: str = "bf16", release: tuple[int, int, int] = (0, 33, 0)
) -> KvplanError | None:
    try:
        Vllm(release).start(Setup(model, GPUS[gpu], Parallel(), parse_kv_format(kv), Options(), 256))
    except KvplanError as error:
        return error
    return None


def rotated(**rope: Any) -> Model:
    return read({**LLAMA, "rope_scaling": rope}, Origin("test", "test"))


@pytest.mark.parametrize("kind", ["foo", "gptj", "llama4"])
def test_rope_types_that_nobody_builds(kind):
    error = refusal(rotated(rope_type=kind, **ORIGINAL))
    assert isinstance(error, Unsupported)
    assert error.problem.cause == f"Unknown RoPE scaling type {kind}"


def test_a_factor_that_is_a_text_is_called_one():
    error = refusal(rotated(type="linear", factor="2.0"))
    assert isinstance(error, Unsupported)
    assert (
        error.problem.cause == 'its rope type linear states the factor "2.0", a text, where a number above 0 is needed'
    )


@pytest.mark.parametrize(("release", "taken"), [((0, 11, 2), True), ((0, 12, 0), False)])
def test_rope_types_are_judged_since_every_class_hands_them_on(release, taken):
    """models/gpt_j.py, falcon.py, gemma2.py and others of 0.11 give get_rope no scaling; since 0.12 they do."""
    assert (refusal(rotated(rope_type="foo", **ORIGINAL), release=release) is None) is taken


def test_models_without_rotary_positions_are_not_judged_by_their_type():
    opt = {
        **LLAMA,
        "model_type": "opt",
        "architectures": ["OPTForCausalLM"],
        "ffn_dim": 128,
        "word_embed_proj_dim": 512,
    }
    assert refusal(read({**opt, "rope_scaling": {"rope_type": "foo"}}, Origin("test", "test"))) is None


def test_hunyuan_s_rotation_is_a_dynamic_one():
    """HunyuanOCR's, which 0.33's planner gives 27,306 blocks; transformers' class makes it dynamic with mrope_section."""
    xdrope = {"type": "xdrope", "alpha": 1000.0, "factor": 1.0, "xdrope_section": [16, 16, 16, 16]}
    assert refusal(replace(rotated(**xdrope), whole="hunyuan_vl")) is None
    assert refusal(rotated(**{**xdrope, "alpha": 1.0, "type": "xdropes"})) is not None


@pytest.mark.parametrize(("release", "taken"), [((0, 29, 0), True), ((0, 30, 0), False), ((0, 33, 0), False)])
def test_nobody_else_has_hunyuan_s_rotation(release, taken):
    """vLLM 0.33 of Qwen3-4B with it: Unknown RoPE scaling type xdrope; before 0.30 get_rope builds it for any class."""
    error = refusal(rotated(type="xdrope", alpha=1000.0, xdrope_section=[16, 16, 16, 16]), release=release)
    assert (error is None) is taken
    assert taken or error.problem.cause == "Unknown RoPE scaling type xdrope"


@pytest.mark.parametrize(
    ("rope", "said"),
    [
        # asked of vLLM 0.33 with Qwen3-4B
        ({"type": None, "factor": 2.0}, "Unknown RoPE scaling type None"),
        ({"type": "linear", "rope_type": "yarn", "factor": 2.0}, "you should only specify one of them"),
        ({"type": "linear", "rope_type": "linear", "factor": 2.0}, None),
        # transformers_utils/config.py patch_legacy_rope_type takes these pairs
        ({"type": "mrope", "rope_type": "default", "mrope_section": [8, 12, 12]}, None),
    ],
)
def test_a_rotation_has_one_type(rope, said):
    error = refusal(rotated(**rope))
    assert (error is None) == (said is None)
    assert said is None or said in error.problem.cause


@pytest.mark.parametrize(("release", "taken"), [((0, 29, 0), False), ((0, 30, 0), True), ((0, 33, 0), True)])
def test_telechat_s_yarn_is_yarn_since_0_30(release, taken):
    """transformers_utils/config.py patch_legacy_rope_type; 0.33's planner: length 32,768 of 8,192 x 4."""
    model = rotated(type="telechat3-yarn", factor=4.0, original_max_position_embeddings=8192)
    assert (refusal(model, release=release) is None) is taken
    assert not taken or Vllm(release).default_context(model).tokens == 32_768


@pytest.mark.parametrize(
    ("rope", "lacking"),
    [
        ({"rope_type": "llama3", "factor": 2.0}, "high_freq_factor and no low_freq_factor"),
        ({"rope_type": "longrope", **ORIGINAL}, "long_factor and no short_factor"),
        ({"type": "su", **ORIGINAL}, "long_factor and no short_factor"),
        ({"rope_type": "yarn", "original_max_position_embeddings": 8192}, "factor"),
        ({"rope_type": "linear"}, "factor"),
        ({"rope_type": "mrope", **ORIGINAL}, "mrope_section"),
        ({"rope_type": "dynamic"}, "factor"),
        ({"type": "dynamic", "alpha": 1000.0}, "factor"),
    ],
)
def test_rope_types_that_miss_what_they_need(rope, lacking):
    error = refusal(rotated(**rope))
    assert isinstance(error, Unsupported)
    assert lacking in str(error.problem.cause)


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_type": "default", **ORIGINAL},
        {"rope_type": "dynamic", **ORIGINAL},
        {"type": "dynamic", "alpha": 1000.0, "factor": 1.0},
        {"rope_type": "ntk", **ORIGINAL},
        {"rope_type": "proportional", **ORIGINAL},
        {"rope_type": "linear", "factor": 2.0},
        {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192},
        {"type": "su", **FACTORS},
        {"type": "yarn", "factor": 2.0},
        {"type": "mrope", "mrope_section": [16, 24, 24]},
    ],
)  # fmt: skip
def test_rope_types_that_it_builds(rope):
    assert refusal(rotated(**rope)) is None


@pytest.mark.parametrize(("release", "taken"), [((0, 23, 0), True), ((0, 24, 0), False)])
def test_alpha_alone_is_no_dynamic_rotation_in_transformers_5(release, taken):
    """0.24's wheel is the first to require it; vLLM 0.33: Missing required keys in `rope_parameters`: {'factor'}."""
    assert (refusal(rotated(type="dynamic", alpha=1000.0), release=release) is None) is taken


SCALED = {"max_position_embeddings": 131072, "original_max_position_embeddings": 4096}
SU, MSCALES = {"type": "su", **FACTORS}, {"short_mscale": 1.0, "long_mscale": 1.0}
MUST = "must be one of ['longrope']"
LACKS = "for 'rope_type'='longrope': {'original_max_position_embeddings'}"


@pytest.mark.parametrize(
    ("family", "rope", "release", "said"),
    [
        # each but the earlier releases asked of vLLM 0.33 with the type's default sizes
        ("phi3", SU, (0, 33, 0), LACKS),
        ("phi3", SU, (0, 23, 0), None),
        ("phi3", {**SU, "original_max_position_embeddings": 4096}, (0, 33, 0), None),
        ("phi3", {**SU, "type": "longrope"}, (0, 33, 0), None),
        ("phi3", {"rope_type": "yarn", "factor": 4.0}, (0, 33, 0), "long_factor and no short_factor"),
        ("phi3", {"rope_type": "yarn", "factor": 4.0}, (0, 23, 0), None),
        ("phi3", {"type": "linear", "factor": 4.0}, (0, 33, 0), MUST),
        ("phi3", {"type": "dynamic", "factor": 4.0}, (0, 24, 0), MUST),
        ("phi3", {"rope_type": "default"}, (0, 33, 0), None),
        ("phi4_multimodal", SU, (0, 33, 0), LACKS),
        ("phi4_multimodal", {"type": "linear", "factor": 4.0}, (0, 33, 0), MUST),
        ("phimoe", {**SU, "type": "longrope"}, (0, 33, 0), "long_mscale and no short_mscale"),
        ("phimoe", {**SU, **MSCALES, "type": "longrope"}, (0, 33, 0), None),
        ("phimoe", {"rope_type": "default"}, (0, 33, 0), None),
        ("llama", SU, (0, 33, 0), None),
    ],
)  # fmt: skip
def test_phi_s_rotations_by_the_class_that_reads_them(family, rope, release, said):
    model = read({**LLAMA, **SCALED, "rope_scaling": rope}, Origin("test", "test"))
    error = refusal(replace(model, family=family), release=release)
    assert (error is None) == (said is None)
    assert said is None or said in error.problem.cause


def test_an_old_name_of_longrope_is_to_be_replaced():
    model = read({**LLAMA, **SCALED, "rope_scaling": SU}, Origin("test", "test"))
    assert '"type": "longrope"' in refusal(replace(model, family="phi3")).problem.hint


@pytest.mark.parametrize(
    ("name", "rope", "release", "taken"),
    [
        # vLLM 0.33: 'int' object is not iterable; linear_scaling_rope.py has the line in all releases that are judged
        ("LlamaForCausalLM", {"type": "linear", "factor": 4}, (0, 33, 0), False),
        ("LlamaForCausalLM", {"type": "linear", "factor": 4}, (0, 12, 0), False),
        ("LlamaForCausalLM", {"type": "linear", "factor": 4}, (0, 11, 2), True),
        ("LlamaForCausalLM", {"type": "linear", "factor": 4.0}, (0, 33, 0), True),
        ("LlamaForCausalLM", {"type": "yarn", "factor": 4}, (0, 33, 0), True),
        ("LlamaForCausalLM", {"type": "dynamic", "factor": 4}, (0, 33, 0), True),
        # by the Transformers library's code, which takes any number: registered so, and not registered
        ("Olmo2ForCausalLM", {"type": "linear", "factor": 4}, (0, 33, 0), True),
        ("Olmo2ForCausalLM", {"type": "linear", "factor": 4}, (0, 25, 0), False),
        ("HeliumForCausalLM", {"type": "linear", "factor": 4}, (0, 33, 0), True),
    ],
)
def test_a_linear_factor_has_a_point(name, rope, release, taken):
    model = read({**LLAMA, "architectures": [name], "rope_scaling": rope}, Origin("test", "test"))
    error = refusal(model, release=release)
    assert (error is None) is taken
    assert taken or error.problem.hint.startswith('"factor": 4.0 in')


def test_a_linear_factor_has_a_point_in_each_type_of_layer():
    text = {**LLAMA, "model_type": "gemma3_text", "architectures": ["Gemma3ForCausalLM"]}
    error = refusal(
        read(
            {**text, "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8}}},
            Origin("test", "test"),
        )
    )
    assert error.problem.hint.startswith('"factor": 8.0 in')


BY_LAYER = {
    "full_attention": {"rope_type": "default", "rope_theta": 1e6},
    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
}


@pytest.mark.parametrize(
    ("model_type", "name", "said"),
    [
        # asked of vLLM 0.33 with published configs changed so
        ("llama", "LlamaForCausalLM", "unhashable type: 'dict'"),
        ("qwen3", "Qwen3ForCausalLM", "unhashable type: 'dict'"),
        ("exaone4", "Exaone4ForCausalLM", "unhashable type: 'dict'"),
        ("gemma3_text", "Gemma3ForCausalLM", None),
        # by the Transformers library's code, which reads it by type of layer, lays the usual rotation beside it, or neither
        ("olmo3", "Olmo3ForCausalLM", None),
        ("olmo2", "Olmo2ForCausalLM", None),
        ("starcoder2", "Starcoder2ForCausalLM", None),
        ("smollm3", "SmolLM3ForCausalLM", "KeyError: 'rope_type'"),
    ],
)
@pytest.mark.parametrize("field", ["rope_parameters", "rope_scaling"])
def test_rotations_by_type_of_layer(model_type, name, said, field):
    config = {**LLAMA, "num_key_value_heads": 4, "model_type": model_type, "architectures": [name], field: BY_LAYER}
    error = refusal(read(config, Origin("test", "test")))
    assert (error is None) == (said is None)
    assert said is None or (
        isinstance(error, NotServed) and said in str(error.problem.cause) and field in str(error.problem.cause)
    )


def test_granite_without_positions_turns_nothing():
    """vLLM 0.33 models/granitemoehybrid.py: position_embedding_type "rope" alone makes it turn."""
    granite = {
        **LLAMA, "num_key_value_heads": 4, "model_type": "granitemoehybrid", "architectures": ["GraniteMoeHybridForCausalLM"],
        "layer_types": ["attention", "attention"], "rope_parameters": BY_LAYER, "num_local_experts": 0, "shared_intermediate_size": 128,
    }  # fmt: skip
    for kind, refused in (("nope", False), ("rope", True)):
        error = refusal(read({**granite, "position_embedding_type": kind}, Origin("test", "test")))
        assert (error is not None) is refused


def whole(model_type: str, name: str, **more: Any) -> Model:
    text = {**LLAMA, "num_key_value_heads": 4, "model_type": more.pop("text_type")}
    return read(
        {"model_type": model_type, "architectures": [name], "text_config": text, **more}, Origin("test", "test")
    )


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        # vLLM 0.33: 'Gemma3Config' object has no attribute 'vocab_size', and so of the next ones
        (whole("gemma3", "Gemma3ForCausalLM", text_type="gemma3_text"), NotServed),
        (whole("qwen3_vl", "Qwen3ForCausalLM", text_type="qwen3_vl_text"), NotServed),
        (whole("voxtral", "LlamaForCausalLM", text_type="llama"), NotServed),
        # 'Qwen2VLTextConfig' object has no attribute 'tie_word_embeddings': the class finds the part, and not all in it
        (
            read(
                {**LLAMA, "num_key_value_heads": 4, "model_type": "qwen2_vl", "architectures": ["Qwen2ForCausalLM"]},
                Origin("x", "x"),
            ),
            Unsupported,
        ),
        # started
        (whole("gemma4", "Gemma4ForCausalLM", text_type="gemma4_text"), None),
        (whole("qwen2_audio", "Qwen2ForCausalLM", text_type="qwen2"), None),
        (whole("gemma3", "Gemma3ForConditionalGeneration", text_type="gemma3_text"), None),
    ],
    ids=lambda each: f"{each.whole} {each.architectures[0]}" if isinstance(each, Model) else "",
)
def test_a_whole_that_names_the_class_of_a_text_model(model, kind):
    error = refusal(model)
    assert type(error) is kind if kind else error is None
    assert kind is None or model.architectures[0] in str(error.problem.cause)


def test_zamba2_as_first_published_names_a_size_of_heads_that_its_class_does_not_read():
    """vLLM 0.33 fails an assertion on Zyphra/Zamba2-7B's first config: 8 heads of 896 where the checkpoint has 112 of 64."""
    first = {
        "model_type": "zamba2", "architectures": ["Zamba2ForCausalLM"], "hidden_size": 3584, "num_hidden_layers": 2,
        "layers_block_type": ["mamba", "hybrid"], "mamba_headdim": 64, "mamba_ngroups": 2, "state_size": 64,
        "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32000, "ffn_hidden_size": 14336,
    }  # fmt: skip
    error = refusal(read(first, Origin("test", "test")))
    assert isinstance(error, NotServed)
    assert "mamba_headdim" in str(error.problem.cause)
    assert refusal(read({**first, "n_mamba_heads": 112}, Origin("test", "test"))) is None


GLM = {
    "model_type": "chatglm", "architectures": ["ChatGLMModel"], "hidden_size": 4096, "num_layers": 28, "num_attention_heads": 32,
    "max_sequence_length": 2048, "vocab_size": 130528, "inner_hidden_size": 16384,
}  # fmt: skip
LATER = {
    "original_rope": True,
    "multi_query_attention": True,
    "multi_query_group_num": 2,
    "ffn_hidden_size": 13696,
    "padded_vocab_size": 65024,
}


def test_the_first_chatglm():
    first, later = (read({**GLM, **more}, Origin("test", "test")) for more in ({}, LATER))
    error = refusal(first)
    assert isinstance(error, Unsupported)
    assert "has no attribute 'original_rope'" in str(error.problem.cause)
    assert refusal(later) is None


QWEN = {
    "model_type": "qwen", "architectures": ["QWenLMHeadModel"], "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "kv_channels": 128, "intermediate_size": 22016, "vocab_size": 151936, "seq_length": 2048,
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "release", "hinted"),
    [
        # RuntimeError: supports vision inputs, but you instantiated the text-only version of this model. 0.33 was asked; 0.8.0
        # and 0.23.0 were read.
        ({**GLM, **LATER, "vision_config": {"hidden_size": 1792}}, (0, 33, 0), "GLM4VForCausalLM"),
        ({**GLM, **LATER, "vision_config": {"hidden_size": 1792}}, (0, 8, 0), "GLM4VForCausalLM"),
        ({**GLM, **LATER, "vision_config": None}, (0, 33, 0), "GLM4VForCausalLM"),
        ({**GLM, **LATER, "visual": {"heads": 16}}, (0, 33, 0), None),
        (
            {**GLM, **LATER, "architectures": ["GLM4VForCausalLM"], "vision_config": {"hidden_size": 1792}},
            (0, 33, 0),
            None,
        ),
        ({**QWEN, "visual": {"heads": 16}}, (0, 23, 0), "QwenVLForConditionalGeneration"),
        ({**QWEN, "visual": {"heads": 16}}, (0, 8, 0), "QwenVLForConditionalGeneration"),
        ({**QWEN}, (0, 23, 0), None),
    ],
)
def test_a_class_for_text_alone_is_given_no_model_that_sees(config, release, hinted):
    error = refusal(read(config, Origin("test", "test")), release=release)
    assert (hinted is None) == (error is None)
    assert hinted is None or hinted in error.problem.hint


LATENT = {
    "hidden_size": 7168, "num_hidden_layers": 4, "num_attention_heads": 128, "num_key_value_heads": 128, "kv_lora_rank": 512,
    "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 1000, "intermediate_size": 128,
    "max_position_embeddings": 4096, "torch_dtype": "bfloat16",
}  # fmt: skip


@pytest.mark.parametrize(
    ("model_type", "name", "release", "latents"),
    [
        # models/deepseek_v2.py keeps latents where is_deepseek_mla knows the type, else heads as wide as keys. Asked of 0.33, it
        # gave such layers 682 blocks of 4 GiB: 4 x 16 x 128 x 2 x 192 x 2 B; the lists of 0.9.2 and 0.10.0 were read.
        ("deepseek_v3", "DeepseekV3ForCausalLM", (0, 33, 0), True),
        ("kimi_k2", "DeepseekV3ForCausalLM", (0, 10, 0), True),
        ("kimi_k2", "DeepseekV3ForCausalLM", (0, 9, 2), False),
        ("mistral4", "DeepseekV3ForCausalLM", (0, 33, 0), False),
        ("deepseek_v2", "MiniCPM3ForCausalLM", (0, 33, 0), False),
    ],
)
def test_latents_of_types_that_the_release_knows(model_type, name, release, latents):
    model = read({**LATENT, "model_type": model_type, "architectures": [name]}, Origin("test", "test"))
    built = as_served(model, rules(release), None)
    cache = built.layers[0].caches[0]
    assert isinstance(cache, Latent) is latents
    assert latents or (cache.kv_heads, cache.k_dim, cache.v_dim) == (128, 192, 192)


def test_a_class_that_builds_no_latents():
    """models/registry.py: TeleChat3ForCausalLM is Llama's class; 0.33 planned 128 heads for this, which its checkpoint hasn't."""
    error = refusal(
        read({**LATENT, "model_type": "deepseek_v3", "architectures": ["TeleChat3ForCausalLM"]}, Origin("test", "test"))
    )
    assert isinstance(error, NotServed)
    assert "kv_lora_rank" in error.problem.cause


def test_a_part_that_names_no_class_and_whose_type_has_none():
    """0.33: ValueError, "No model architectures are specified", of Mistral Small 4's config.json by itself."""
    part = {**LATENT, "model_type": "mistral4", "v_head_dim": 128, "qk_nope_head_dim": 64}
    whole = {"model_type": "mistral3", "architectures": ["Mistral3ForConditionalGeneration"], "text_config": part}
    error = refusal(read(whole, Origin("test", "test")))
    assert isinstance(error, NotServed)
    assert "No model architectures are specified" in error.problem.cause
    assert "params.json" in error.problem.hint


def test_a_type_that_nobody_reads_is_told():
    """0.33 of internlm2 without auto_map: "Transformers does not recognize this architecture"; its registry has deepseek_vl_v2."""

    def said(model_type: str, release: tuple[int, int, int]) -> bool:
        config = {**LLAMA, "model_type": model_type, "architectures": ["InternLM2ForCausalLM"]}
        setup = Setup(
            read(config, Origin("test", "test")), GPUS["h100"], Parallel(), parse_kv_format("bf16"), Options(), 256
        )
        return any("no auto_map" in each for each in Vllm(release).start(setup).cautions())

    assert said("internlm2", (0, 33, 0))
    assert said("kimi_k2", (0, 17, 0))
    assert not said("kimi_k2", (0, 18, 0))
    assert not said("llama", (0, 33, 0))


@pytest.mark.parametrize(
    ("gpu", "kv", "refused"),
    [
        ("a100", "fp8", True),
        ("t4", "fp8", True),
        ("a100", "bf16", False),
        ("l4", "fp8", False),
        ("h100", "fp8", False),
    ],
)
def test_whisper_s_cross_attention_in_fp8(gpu, kv, refused):
    """vLLM 0.33 refused on an A100, 8.0; Triton has fp8 of its own from 8.9 on."""
    error = refusal(load_model("whisper-tiny"), gpu, kv)
    assert isinstance(error, UsageError) if refused else error is None


def test_releases_before_that_did_not_refuse_it():
    assert refusal(load_model("whisper-tiny"), "a100", "fp8", (0, 23, 0)) is None


@pytest.mark.parametrize(
    ("stated", "refused"),
    [
        ({"max_position_embeddings": -1}, True),
        ({"seq_length": 0}, True),
        ({"seq_length": 0, "model_max_length": 4096}, False),
        ({"model_max_length": 0}, True),
        ({"n_ctx": 0}, False),
    ],
)
def test_lengths_that_are_none(stated, refused):
    """vLLM 0.33: "max_model_len must be positive", and with a length given "is greater than the derived max_model_len"."""
    error = refusal(read({**LLAMA, **stated}, Origin("test", "test")))
    assert isinstance(error, Unsupported) if refused else error is None


GEMMA2 = {
    "model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"], "num_hidden_layers": 2, "hidden_size": 512, "num_attention_heads": 4,
    "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 100, "intermediate_size": 128, "max_position_embeddings": 8192,
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "window", "refused"),
    [
        (GEMMA2, -1, True),
        (GEMMA2, None, False),
        (GEMMA2, 4096, False),
        (
            {**LLAMA, "num_key_value_heads": 4, "model_type": "mistral", "architectures": ["MistralForCausalLM"]},
            -1,
            True,
        ),
        (LLAMA, -1, False),  # LlamaConfig has no window
    ],
)
def test_a_window_of_minus_one(config, window, refused):
    error = refusal(read({**config, "sliding_window": window}, Origin("test", "test")))
    assert isinstance(error, Unsupported) if refused else error is None


SCHEME = {
    "quant_method": "compressed-tensors", "format": "float-quantized", "ignore": ["lm_head"],
    "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}},
    "kv_cache_scheme": {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": False, "symmetric": True},
}  # fmt: skip


@pytest.mark.parametrize(("name", "kept"), [("jamba-1.5-mini", "bf16"), ("zamba2-7b", "bf16"), ("qwen3-8b", "fp8")])
def test_a_scheme_for_the_cache_reaches_attention_that_is_built_with_it(name, kept):
    """vLLM 0.33's planner: a small Jamba with this scheme has pages of 16-bit keys: 1,747,626 blocks in 40 GiB."""
    config = load_document(name).config
    model = read({**config, "quantization_config": SCHEME}, Origin(name, "test"))
    assert Vllm().kv_format(model, None, GPUS["h100"]).k.name == kept


@pytest.mark.parametrize(
    ("dim", "kv", "taken"),
    [(4, "fp8", False), (4, "bf16", True), (8, "fp8", True), (100, "fp8", True), (36, "fp8", True)],
)
def test_no_kernel_keeps_small_heads_in_fp8(dim, kv, taken):
    """vLLM 0.33 with heads of 4 and 6: `No valid attention backend`; FlashAttention takes multiples of 8, Triton 32 and more."""
    error = refusal(read({**LLAMA, "head_dim": dim}, Origin("test", "test")), kv=kv)
    assert (error is None) is taken


@pytest.mark.parametrize(
    ("config", "release", "said"),
    [
        ({"hidden_act": "gelu"}, (0, 33, 0), "Unsupported activation: gelu. Only silu"),
        ({"hidden_act": "gelu"}, (0, 6, 0), "Unsupported activation: gelu. Only silu"),
        ({"hidden_act": "silu"}, (0, 33, 0), None),
        ({}, (0, 33, 0), None),
        ({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "hidden_act": "relu"}, (0, 33, 0), "Only silu"),
        ({"model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"], "hidden_activation": "silu"}, (0, 33, 0), "Only gelu_pytorch_tanh"),
        # gemma2.py of 0.33 reads hidden_activation alone; gemma.py takes several; llama4.py gives its layers "silu"
        ({"model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"], "hidden_act": "gelu", "hidden_activation": "gelu_pytorch_tanh"}, (0, 33, 0), None),
        ({"model_type": "gemma", "architectures": ["GemmaForCausalLM"], "hidden_act": "gelu"}, (0, 33, 0), None),
        ({"model_type": "phi", "architectures": ["PhiForCausalLM"], "hidden_act": "gelu_new"}, (0, 33, 0), None),
    ],
)  # fmt: skip
def test_classes_take_the_activation_that_they_are_written_for(config, release, said):
    """models/llama.py and gemma2.py of each; asked of vLLM 0.33 with the first and the fifth."""
    error = refusal(read({**LLAMA, "num_key_value_heads": 4, **config}, Origin("test", "test")), release=release)
    assert (error is None) == (said is None)
    assert said is None or said in error.problem.cause


def test_an_activation_of_a_language_model_with_a_class_of_its_own():
    """LLaVA's is the text part's class: vLLM 0.33 models/llava.py init_vllm_registered_model."""
    text = {**LLAMA, "hidden_act": "gelu"}
    whole = {"model_type": "llava", "architectures": ["LlavaForConditionalGeneration"], "text_config": text}
    error = refusal(read(whole, Origin("test", "test")))
    assert error is not None
    assert "Only silu" in (error.problem.cause or "")


@pytest.mark.parametrize(
    ("changed", "release", "taken"),
    [
        # vLLM 0.33 of SmolLM3 with 128,261 of 128,256 rows, and of GLM with 1,000 rows: Padding_idx must be within num_embeddings
        ({"model_type": "smollm3", "architectures": ["SmolLM3ForCausalLM"], "pad_token_id": 100}, (0, 33, 0), False),
        ({"model_type": "smollm3", "architectures": ["SmolLM3ForCausalLM"], "pad_token_id": 99}, (0, 33, 0), True),
        ({"model_type": "smollm3", "architectures": ["SmolLM3ForCausalLM"], "pad_token_id": None}, (0, 33, 0), True),
        ({"model_type": "smollm3", "architectures": ["SmolLM3ForCausalLM"]}, (0, 33, 0), False),
        ({"model_type": "glm", "architectures": ["GlmForCausalLM"]}, (0, 33, 0), False),
        # models/glm.py of 0.31 is vLLM's own, as is llama.py of any
        ({"model_type": "glm", "architectures": ["GlmForCausalLM"]}, (0, 31, 0), True),
        ({"pad_token_id": 100}, (0, 33, 0), True),
    ],
)
def test_a_token_that_fills_up_has_a_row(changed, release, taken):
    error = refusal(read({**LLAMA, "num_key_value_heads": 4, **changed}, Origin("test", "test")), release=release)
    assert (error is None) is taken
    assert taken or "Padding_idx must be within num_embeddings" in error.problem.cause


@pytest.mark.parametrize(("heads", "taken"), [({}, False), ({"num_heads": 16}, True)])
def test_heads_of_a_mamba_fill_its_width(heads, taken):
    """vLLM 0.33: `hidden_size * expand (8192) must equal num_heads * head_dim (16384)`; here 512 x 2 = 16 x 64."""
    mamba = {
        "model_type": "mamba2", "architectures": ["Mamba2ForCausalLM"], "hidden_size": 512, "num_hidden_layers": 2, "vocab_size": 128,
        "head_dim": 64, "state_size": 128, "n_groups": 8, "conv_kernel": 4,
    }  # fmt: skip
    error = refusal(read({**mamba, **heads}, Origin("test", "test")))
    assert (error is None) is taken
    assert taken or "must equal num_heads * head_dim" in error.problem.cause


def test_a_mamba_that_isn_t_filled_is_vllm_s_no():
    mamba = {
        "model_type": "mamba2",
        "architectures": ["Mamba2ForCausalLM"],
        "hidden_size": 512,
        "num_hidden_layers": 2,
        "vocab_size": 128,
    }
    assert isinstance(refusal(read({**mamba, "state_size": 128}, Origin("test", "test"))), NotServed)


GRANITE = {
    "model_type": "granitemoehybrid", "architectures": ["GraniteMoeHybridForCausalLM"], "num_hidden_layers": 2, "hidden_size": 512,
    "num_attention_heads": 4, "vocab_size": 100, "shared_intermediate_size": 128, "max_position_embeddings": 32768,
    "layer_types": ["mamba", "attention"], "mamba_n_heads": 16, "mamba_d_head": 64, "mamba_d_state": 128, "mamba_expand": 2,
    "mamba_n_groups": 1, "mamba_d_conv": 4, "num_local_experts": 0, "num_experts_per_tok": 0,
}  # fmt: skip
FALCON = {
    "model_type": "falcon_h1", "architectures": ["FalconH1ForCausalLM"], "num_hidden_layers": 2, "hidden_size": 512,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "intermediate_size": 128, "max_position_embeddings": 32768,
    "mamba_d_ssm": 768, "mamba_n_heads": 12, "mamba_d_head": 64, "mamba_d_state": 128, "mamba_expand": 2, "mamba_n_groups": 1,
    "mamba_d_conv": 4,
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "changed", "taken"),
    [
        # each kind asked of vLLM 0.33: The dimensions for the Mamba head state do not match the model intermediate_size
        (GRANITE, {}, True),
        (GRANITE, {"mamba_d_head": 32}, False),
        (GRANITE, {"mamba_d_head": "auto"}, True),
        (FALCON, {}, True),
        (FALCON, {"mamba_d_ssm": None}, False),
        (FALCON, {"mamba_d_ssm": None, "mamba_n_heads": 16}, True),
    ],
)
def test_heads_of_a_hybrid_s_state_fill_its_width(config, changed, taken):
    error = refusal(read({**config, **changed}, Origin("test", "test")))
    assert (error is None) is taken
    assert taken or (isinstance(error, NotServed) and "mamba_n_heads x mamba_d_head" in error.problem.cause)


EXAONE = {
    **LLAMA, "model_type": "exaone4", "architectures": ["Exaone4ForCausalLM"], "num_hidden_layers": 4, "num_key_value_heads": 2,
    "sliding_window": 4096, "sliding_window_pattern": "LLLG",
}  # fmt: skip
LISTED = {"layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"]}


@pytest.mark.parametrize(
    ("changed", "taken"),
    [
        # asked of vLLM 0.33: unsupported operand type(s) for %: 'int' and 'str'; integer modulo by zero
        ({}, False),
        (LISTED, True),
        ({"sliding_window_pattern": 4}, True),
        ({"sliding_window": None}, False),
        ({"sliding_window": None, "layer_types": ["full_attention"] * 4}, True),
    ],
)
def test_exaone_s_pattern_in_letters_stands_for_no_list(changed, taken):
    error = refusal(read({**EXAONE, **changed}, Origin("test", "test")))
    assert (error is None) is taken
    assert taken or '"layer_types"' in error.problem.hint


KIMI = {
    "model_type": "kimi_linear", "architectures": ["KimiLinearForCausalLM"], "num_hidden_layers": 4, "hidden_size": 512,
    "num_attention_heads": 4, "vocab_size": 100, "intermediate_size": 128, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "v_head_dim": 128, "model_max_length": 32768, "num_experts": 0,
}  # fmt: skip
LINEAR = {
    "kda_layers": [1, 2, 3],
    "full_attn_layers": [4],
    "num_heads": 4,
    "head_dim": 128,
    "short_conv_kernel_size": 4,
}
LFM = {
    "model_type": "lfm2_moe", "architectures": ["Lfm2MoeForCausalLM"], "num_hidden_layers": 4, "hidden_size": 512,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "intermediate_size": 128, "moe_intermediate_size": 64,
    "num_experts": 8, "num_experts_per_tok": 2, "num_dense_layers": 1, "conv_L_cache": 3, "max_position_embeddings": 32768,
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "field"),
    [
        # asked of vLLM 0.33: 'NoneType' object is not subscriptable
        (KIMI, "linear_attn_config"),
        ({**KIMI, "linear_attn_config": LINEAR}, None),
        ({**LFM, "full_attn_idxs": [1, 3]}, "layer_types"),
        ({**LFM, "layer_types": ["conv", "full_attention", "conv", "full_attention"]}, None),
    ],
)
def test_hybrids_list_their_layers(config, field):
    error = refusal(read(config, Origin("test", "test")))
    assert (error is None) == (field is None)
    assert field is None or error.problem.hint.startswith(f'"{field}" as published')


def test_kimi_linear_without_a_state_has_blocks_that_nobody_states():
    """vLLM 0.33 asks its own config class for layer_types, which hasn't any: blocks of 1,920 tokens, a state's."""
    every = {**LINEAR, "kda_layers": [], "full_attn_layers": [1, 2, 3, 4]}
    error = refusal(read({**KIMI, "linear_attn_config": every}, Origin("test", "test")))
    assert "doesn't know the blocks" in str(error)


GPT2 = {
    "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 2, "n_embd": 512, "n_head": 4, "vocab_size": 100,
    "n_positions": 1024,
}  # fmt: skip


@pytest.mark.parametrize("said", ["add_cross_attention", "scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn"])
def test_switches_that_a_class_is_written_for_one_value_of(said):
    """models/gpt2.py GPT2Model asserts that none of them is on; Stanford CRFM's checkpoints have two of them on."""
    assert refusal(read(GPT2, Origin("test", "test"))) is None
    assert refusal(read({**GPT2, said: False}, Origin("test", "test"))) is None
    error = refusal(read({**GPT2, said: True}, Origin("test", "test")))
    assert isinstance(error, NotServed)
    assert error.problem.cause == f"its class is written for {said} false, and the config says true"


SMALL = {"hidden_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100}
GPT_J = {
    "model_type": "gptj",
    "architectures": ["GPTJForCausalLM"],
    "n_embd": 512,
    "n_layer": 2,
    "n_head": 4,
    "vocab_size": 100,
    "rotary_dim": 64,
}
BIG_CODE = {**GPT2, "model_type": "gpt_bigcode", "architectures": ["GPTBigCodeForCausalLM"], "multi_query": True}
DBRX = {
    "model_type": "dbrx", "architectures": ["DbrxForCausalLM"], "d_model": 512, "n_heads": 4, "n_layers": 2, "max_seq_len": 4096,
    "vocab_size": 100, "attn_config": {"kv_n_heads": 4}, "ffn_config": {"ffn_hidden_size": 512, "moe_num_experts": 4, "moe_top_k": 2},
}  # fmt: skip
COMPASS = {
    "model_type": "cohere_compass", "architectures": ["CohereCompassForConditionalGeneration"], "tie_word_embeddings": True,
    "text_config": {**SMALL, "model_type": "cohere_compass_text", "head_dim": 128, "num_key_value_heads": 4},
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "said", "release", "taken"),
    [
        # models/gpt_j.py: assert getattr(config, "rotary", True); assert not config.tie_word_embeddings
        (GPT_J, {}, (0, 33, 0), True),
        (GPT_J, {"rotary": True, "tie_word_embeddings": False}, (0, 33, 0), True),
        (GPT_J, {"rotary": False}, (0, 33, 0), False),
        (GPT_J, {"rotary": None}, (0, 8, 0), False),
        (GPT_J, {"tie_word_embeddings": True}, (0, 33, 0), False),
        # models/gpt_bigcode.py up to 0.20: assert not config.add_cross_attention; the library's code: "not implemented for MQA"
        (BIG_CODE, {"scale_attn_by_inverse_layer_idx": True}, (0, 20, 0), True),
        (BIG_CODE, {"add_cross_attention": True}, (0, 20, 0), False),
        (BIG_CODE, {"add_cross_attention": True}, (0, 33, 0), False),
        # models/dbrx.py: "tie_word_embeddings is not supported for Dbrx models."
        (DBRX, {"tie_word_embeddings": False}, (0, 33, 0), True),
        (DBRX, {"tie_word_embeddings": True}, (0, 33, 0), False),
        # models/cohere_compass.py: assert config.tie_word_embeddings, which is the whole's, false by its class
        (COMPASS, {}, (0, 33, 0), True),
        (COMPASS, {"tie_word_embeddings": False}, (0, 33, 0), False),
        ({key: value for key, value in COMPASS.items() if key != "tie_word_embeddings"}, {}, (0, 33, 0), False),
        (COMPASS, {"text_config": {**COMPASS["text_config"], "tie_word_embeddings": False}}, (0, 33, 0), True),
    ],
)
def test_what_other_classes_are_written_for(config, said, release, taken):
    """Each was asked of vLLM 0.33's planner too where it is of that release."""
    error = refusal(read({**config, **said}, Origin("test", "test")), release=release)
    assert (error is None) is taken
    assert taken or isinstance(error, NotServed)


@pytest.mark.parametrize(
    ("said", "cause"), [({}, "the config doesn't state it"), ({"no_kda_lora": False}, "the config says false")]
)
def test_kimi_delta_attention_with_low_ranks_is_not_built(said, cause):
    """models/bailing_moe_v3.py BailingMoeV3KimiDeltaAttention: "currently expects no_kda_lora=True"."""
    config = {
        "model_type": "bailing_hybrid", "architectures": ["BailingMoeV3ForCausalLM"], "hidden_size": 1536, "intermediate_size": 4608,
        "num_hidden_layers": 8, "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 128, "vocab_size": 157184,
        "max_position_embeddings": 4096, "layer_group_size": 4, "short_conv_kernel_size": 4, "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64, "v_head_dim": 128, "q_lora_rank": 256, "kv_lora_rank": 512, "first_k_dense_replace": 1,
        "num_experts": 128, "num_experts_per_tok": 8, "num_shared_experts": 1, "moe_intermediate_size": 512,
    }  # fmt: skip
    error = refusal(read({**config, **said}, Origin("test", "test")))
    assert isinstance(error, NotServed)
    assert error.problem.cause == f"its class is written for no_kda_lora true, and {cause}"
    assert refusal(read({**config, "no_kda_lora": True}, Origin("test", "test"))) is None


@pytest.mark.parametrize(
    ("said", "release", "cause"),
    [
        # vLLM 0.33 of Qwen3-4B and Gemma 2: StrictDataclassFieldValidationError, in these fields
        ({"rms_norm_eps": 0}, (0, 33, 0), "rms_norm_eps is 0, not a number with a point"),
        ({"rms_norm_eps": "1e-06"}, (0, 33, 0), "rms_norm_eps is '1e-06', not a number with a point"),
        ({"initializer_range": True}, (0, 33, 0), "initializer_range is True, not a number with a point"),
        ({"use_cache": 1}, (0, 33, 0), "use_cache is 1, not true or false"),
        ({"use_cache": "true"}, (0, 33, 0), "use_cache is 'true', not true or false"),
        ({"attention_bias": 1}, (0, 33, 0), "attention_bias is 1, not true or false"),
        ({"attention_dropout": 0}, (0, 33, 0), None),
        ({"my_own": "0.0"}, (0, 33, 0), None),
        ({"use_cache": 1}, (0, 12, 0), None),  # with Transformers 4, whose classes take anything
    ],
)
def test_values_of_another_type_than_the_class_takes(said, release, cause):
    error = refusal(read({**LLAMA, **said}, Origin("test", "test")), release=release)
    assert (error is None) is (cause is None)
    assert cause is None or (isinstance(error, NotServed) and str(error.problem.cause).startswith(cause))


def test_a_whole_and_its_part_are_judged_by_their_own_classes():
    part = {**LLAMA, "num_key_value_heads": 4, "model_type": "gemma3_text", "rms_norm_eps": 1}
    error = refusal(
        read(
            {"model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"], "text_config": part},
            Origin("x", "x"),
        )
    )
    assert str(error.problem.cause).startswith("text_config.rms_norm_eps is 1")
