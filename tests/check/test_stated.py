"""--quantization and --dtype beside what the checkpoint's config says: vLLM 0.33 raises for these and takes those."""

from __future__ import annotations

import json

import pytest
from check.checking import check

from kvplan.arch.model import Origin
from kvplan.engines.base import Stated
from kvplan.engines.registry import find
from kvplan.families import read


@pytest.mark.parametrize(
    ("served", "said"),
    [
        # config/model.py _verify_quantization; model_loader/weight_utils.py get_quant_config
        ("mistralai/Mixtral-8x7B-v0.1 -tp 2 --quantization awq", "Cannot find the config file for awq"),
        ("deepseek-ai/DeepSeek-V3 -tp 8 --quantization awq", "the config says fp8"),
        ("openai/gpt-oss-20b --quantization mxfp4 --dtype bfloat16", None),
        # config/model.py _FLOAT16_NOT_SUPPORTED_MODELS; layers/quantization/mxfp4.py
        ("google/gemma-2-9b-it --dtype half", "no gemma2 in float16"),
        ("openai/gpt-oss-20b --dtype float16", "mxfp4 in"),
        ("meta-llama/Llama-3.1-8B --dtype half", None),
    ],
)
def test_what_a_command_says_of_a_checkpoint(folder, served, said):
    (folder / "run.sh").write_text(f"vllm serve {served} --max-model-len 4096\n")
    found = check("run.sh", "--gpu", "h200", "--offline")
    assert found.code == (0 if said is None else 1)
    if said is not None:
        assert said in " ".join(found.out.split())


MTP = '--speculative-config \'{"method": "mtp", "num_speculative_tokens": 1}\''


@pytest.mark.parametrize(
    ("served", "code"),
    [
        ("meta-llama/Llama-3.1-8B --quantization awq", 1),
        (f"meta-llama/Llama-3.1-8B {MTP}", 1),
        # ModelConfig applies hf_overrides before _verify_quantization reads the config
        ("meta-llama/Llama-3.1-8B --quantization awq --hf-overrides '{}'", 1),
        ("meta-llama/Llama-3.1-8B --quantization awq --hf-overrides '{\"rope_theta\": 1}'", 0),
        ("meta-llama/Llama-3.1-8B --quantization awq --hf-config-path other", 0),
        (f"meta-llama/Llama-3.1-8B {MTP} --hf-overrides '{{\"num_nextn_predict_layers\": 1}}'", 0),
    ],
)
@pytest.mark.parametrize("before", ["", "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 "])
def test_leave_for_a_longer_context_replaces_nothing_of_the_config(folder, served, code, before):
    (folder / "run.sh").write_text(f"{before}vllm serve {served} --max-model-len 4096\n")
    assert check("run.sh", "--gpu", "h200", "--offline").code == code


SEES = {
    "model_type": "chatglm", "architectures": ["ChatGLMModel"], "hidden_size": 4096, "num_layers": 40, "num_attention_heads": 32,
    "kv_channels": 128, "multi_query_attention": True, "multi_query_group_num": 2, "ffn_hidden_size": 13696, "seq_length": 8192,
    "padded_vocab_size": 151552, "original_rope": True, "torch_dtype": "bfloat16", "vision_config": {"hidden_size": 1792},
}  # fmt: skip


@pytest.mark.parametrize(
    ("flag", "code", "said"),
    [
        ("", 1, "does not start"),
        # models/chatglm.py, whose own words end with: Please use the vision model by setting `--hf-overrides ...`
        ("""--hf-overrides '{"architectures": ["GLM4VForCausalLM"]}'""", 2, "nobody can tell whether it starts"),
    ],
)
def test_what_vllm_loads_by_another_class_alone(folder, flag, code, said):
    (folder / "m").mkdir()
    (folder / "m" / "config.json").write_text(json.dumps(SEES))
    (folder / "run.sh").write_text(f"vllm serve ./m --max-model-len 4096 {flag}\n")
    found = check("run.sh", "--gpu", "h200", "--offline")
    assert found.code == code
    assert said in " ".join(found.out.split())


def test_nor_does_a_budget_s(folder):
    (folder / "run.sh").write_text("vllm serve meta-llama/Llama-3.1-8B --quantization awq --max-model-len 4096\n")
    (folder / "kvplan-budget.yaml").write_text(
        "kvplan-budget: 1\ndeployments: {a: {from: run.sh, gpu: h200, flags: {allow_long_max_model_len: true}}}\n"
    )
    assert check("--offline").code == 1


@pytest.mark.parametrize(
    "served", ["deepseek-ai/DeepSeek-V3 -tp 8 --quantization awq", "google/gemma-2-9b-it --dtype half"]
)
def test_the_formula_takes_the_config_s_word(folder, served):
    (folder / "run.sh").write_text(f"vllm serve {served} --max-model-len 4096\n")
    assert check("run.sh", "--gpu", "h200", "--engine", "ideal", "--offline").code == 0


LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048, "intermediate_size": 8192,
    "num_hidden_layers": 4, "num_attention_heads": 16, "num_key_value_heads": 8, "vocab_size": 32000,
    "max_position_embeddings": 8192, "torch_dtype": "bfloat16",
}  # fmt: skip
GPT_OSS = {
    **LLAMA,
    "model_type": "gpt_oss",
    "architectures": ["GptOssForCausalLM"],
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
}
PALIGEMMA = {
    "model_type": "paligemma", "architectures": ["PaliGemmaForConditionalGeneration"],
    "text_config": {**LLAMA, "model_type": "gemma2"},
}  # fmt: skip
INT4 = {"bits": 4, "group_size": 128}


def contradiction(config, *, beside=None, engine="vllm@0.33.0", **said):
    model = read(config, Origin("a checkpoint", "a test"), beside)
    return find(engine).engine.contradicts(model, Stated(**said))


def blocked(**block):
    return {**LLAMA, "quantization_config": block}


@pytest.mark.parametrize(
    ("config", "beside", "asked", "said"),
    [
        # config/quantization.py _ONLINE_SHORTHANDS: quantized while it is loaded
        (LLAMA, None, "mxfp4", None),
        (LLAMA, None, "fp8", None),
        (LLAMA, None, "torchao", None),  # --hf-overrides may name its file
        (LLAMA, None, "gptq", "Cannot find the config file for gptq"),
        (LLAMA, {"quant_config.json": {"w_bit": 4, "q_group_size": 128, "zero_point": True, "version": "GEMM"}}, "awq", None),
        (LLAMA, {"quant_config.json": {"w_bit": 4, "q_group_size": 128}}, "gptq", "the config says awq"),
        ({**LLAMA, "compression_config": {"quant_method": "compressed-tensors", "config_groups": {}}}, None, "compressed-tensors", None),
        # override_quantization_method of inc.py, modelopt.py, mxfp4.py, auto_gptq.py, humming.py
        (blocked(quant_method="auto-round", **INT4), None, "gptq", None),
        (blocked(quant_method="modelopt", quant_algo="NVFP4"), None, "modelopt", None),
        (blocked(quant_method="modelopt_fp4", quant_algo="NVFP4"), None, "fp8", None),
        ({**GPT_OSS, "quantization_config": {"quant_method": "mxfp4"}}, None, "fp8", None),
        (blocked(quant_method="gptq", **INT4), None, "marlin", None),
        (blocked(quant_method="gptq", **INT4), None, "humming", None),
        (blocked(quant_method="gptq", **INT4), None, "awq", "the config says gptq"),
        (blocked(quant_method="fp8"), None, "awq", "the config says fp8"),
    ],
)  # fmt: skip
def test_a_method_beside_what_the_checkpoint_has(config, beside, asked, said):
    found = contradiction(config, beside=beside, quantization=asked)
    assert (found is None) if said is None else (said in found)


def test_overrides_of_the_config_may_bring_a_block():
    assert contradiction(LLAMA, quantization="gptq", overridden=True) is None


@pytest.mark.parametrize(
    ("config", "engine", "taken"),
    [
        ({**LLAMA, "model_type": "gemma2"}, "vllm@0.33.0", False),
        ({**LLAMA, "model_type": "gemma2"}, "vllm@0.9.1", False),
        (
            {**LLAMA, "model_type": "gemma2"},
            "vllm@0.9.0",
            True,
        ),  # config.py of 0.9.0 has no _FLOAT16_NOT_SUPPORTED_MODELS
        ({**LLAMA, "model_type": "gemma3_text"}, "vllm@0.10.1", True),
        ({**LLAMA, "model_type": "gemma3_text"}, "vllm@0.10.2", False),
        (PALIGEMMA, "vllm@0.33.0", True),  # the whole config's type is asked
    ],
)
def test_types_that_a_release_runs_in_float16(config, engine, taken):
    found = contradiction(config, engine=engine, dtype="half")
    assert (found is None) == taken


def test_weights_by_autoawq_s_own_file_are_counted_in_four_bit():
    model = read(LLAMA, Origin("a checkpoint", "a test"), {"quant_config.json": {"w_bit": 4, "q_group_size": 128}})
    assert model.weights is not None
    assert model.weights.method == "awq"


@pytest.mark.parametrize(("said", "code"), [("--dtype half", 0), ("", 2)])
def test_half_is_what_a_release_without_a_fallback_needs_before_bfloat16(folder, said, code):
    """worker/worker.py of 0.8.5: Bfloat16 is only supported on GPUs with compute capability of at least 8.0."""
    (folder / "run.sh").write_text(f"vllm serve meta-llama/Llama-3.2-1B {said} --max-model-len 4096\n")
    assert check("run.sh", "--gpu", "t4", "--engine", "vllm@0.8.5", "--offline").code == code


def test_a_budget_that_takes_a_command_s_flags_away_takes_its_drafting_too(folder):
    (folder / "run.sh").write_text(f"vllm serve meta-llama/Llama-3.1-8B {MTP} --max-model-len 4096\n")
    text = "kvplan-budget: 1\ndeployments: {{a: {{from: run.sh, gpu: h200{}}}}}\n"
    for more, code in (("", 1), (", flags: null", 0), (", flags: {num_speculative_tokens: null}", 0)):
        (folder / "kvplan-budget.yaml").write_text(text.format(more))
        assert check("--offline").code == code


@pytest.mark.parametrize(
    ("asked", "method", "engine", "refused"),
    [
        # layers/quantization/inc.py takes its own block, whatever was asked for
        ("auto_round", "auto-round", "vllm@0.33.0", False),
        ("auto-round", "auto-round", "vllm@0.27.1", False),
        ("auto_round", "gptq", "vllm@0.33.0", True),
        ("auto_round", None, "vllm@0.33.0", True),
    ],
)
def test_a_word_that_is_no_method_is_taken_where_the_checkpoint_decides(asked, method, engine, refused):
    config = LLAMA if method is None else blocked(quant_method=method, sym=True, **INT4)
    assert bool(contradiction(config, engine=engine, quantization=asked)) == refused


@pytest.mark.parametrize(("tag", "code"), [("v0.16.0", 1), ("v0.17.0", 0)])
def test_the_parser_takes_such_a_word_since_0_17(folder, tag, code):
    """Source: engine/arg_utils.py, where the type is a list of words, and since 0.17.0 any text beside."""
    (folder / "m").mkdir()
    (folder / "m" / "config.json").write_text(json.dumps(blocked(quant_method="auto-round", sym=True, **INT4)))
    (folder / "run.sh").write_text(f"docker run -v ./m:/m vllm/vllm-openai:{tag} /m --quantization auto_round\n")
    assert check("run.sh", "--gpu", "h200", "--offline").code == code
