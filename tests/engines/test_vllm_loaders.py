"""The least GPU that a method of quantization takes, and formats that no method of a release loads.

The numbers were read in get_min_capability of the releases' own classes, the words in config/vllm.py and
compressed_tensors.py, as each row says.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from cli.running import run

from kvplan.arch.model import Model, Origin
from kvplan.arch.parallel import Parallel
from kvplan.arch.storage import DTYPES, GGML, NAMED
from kvplan.engines.base import Options, Setup
from kvplan.engines.vllm.policy import Vllm
from kvplan.engines.vllm.starts.loaders import GGUF, ways
from kvplan.engines.vllm.tables.versions import parse
from kvplan.errors import CannotSplit, Unsupported
from kvplan.families import read
from kvplan.families.quantization.mixes import MIXES, kept_named
from kvplan.sources.checkpoints.weighing import weigh
from kvplan.sources.gpus import load_gpu
from kvplan.sources.models import load_document, load_model

HEADERS = Path(__file__).parents[1] / "data" / "headers"

LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048, "intermediate_size": 8192,
    "num_hidden_layers": 4, "num_attention_heads": 16, "num_key_value_heads": 8, "vocab_size": 32000,
    "max_position_embeddings": 8192, "torch_dtype": "float16",
}  # fmt: skip


def compressed(bits: int, kind: str, activations: int = 0, **weights) -> dict:
    acts = {"num_bits": activations, "type": kind, "dynamic": True, "strategy": "token", "symmetric": True}
    group = {"targets": ["Linear"], "weights": {"num_bits": bits, "type": kind, "symmetric": True, **weights}}
    return {
        "quant_method": "compressed-tensors", "format": "pack-quantized" if not activations else "float-quantized",
        "config_groups": {"group_0": {**group, **({"input_activations": acts} if activations else {})}}, "ignore": ["lm_head"],
    }  # fmt: skip


W4 = compressed(4, "int", strategy="group", group_size=128)
W8A8 = compressed(8, "int", 8, strategy="channel")
F8 = compressed(8, "float", 8, strategy="channel")
NVFP4 = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}
QUARK = {
    "quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp8_e4m3", "qscheme": "per_tensor"}}, "exclude": ["lm_head"],
}  # fmt: skip


def model(block: dict) -> Model:
    return read({**LLAMA, "quantization_config": block}, Origin("a checkpoint", "a test"))


def plan(loaded: Model, gpu: str | None, version: str = "0.33.0", tp: int = 1) -> object:
    engine, card = Vllm(parse(version)), None if gpu is None else load_gpu(gpu)
    return engine.start(
        Setup(loaded, card, Parallel(tp=tp), engine.kv_format(loaded, None, card), Options(), 4096)
    ).made


@pytest.mark.parametrize(
    ("block", "gpu", "version", "said"),
    [
        # quantization/fp8.py: 80 until 0.13, 75 since 0.14
        ({"quant_method": "fp8"}, "t4", "0.13.0", "The quantization method fp8 is not supported for the current GPU. Minimum capability: 80. Current capability: 75."),
        ({"quant_method": "fp8"}, "t4", "0.14.0", None),
        ({"quant_method": "fp8"}, "v100-sxm-32", "0.19.1", "Minimum capability: 75. Current capability: 70."),
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, "v100-sxm-32", "0.9.2", "quantization method awq"),
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, "t4", "0.9.2", None),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True, "desc_act": False}, "v100-sxm-32", "0.19.1", None),
        # quantization/modelopt.py: NVFP4 100 in 0.8, 80 in 0.9 to 0.13, 75 since 0.14; FP8 89 until 0.26, 80 since 0.27
        (NVFP4, "h100", "0.8.5", "Minimum capability: 100. Current capability: 90."),
        (NVFP4, "t4", "0.13.0", "The quantization method modelopt_fp4 is not supported for the current GPU. Minimum capability: 80."),
        (NVFP4, "t4", "0.33.0", None),
        (NVFP4, "v100-sxm-32", "0.19.1", "Minimum capability: 75. Current capability: 70."),
        ({**NVFP4, "quant_algo": "FP8"}, "a100-80", "0.26.0", "Minimum capability: 89. Current capability: 80."),
        ({**NVFP4, "quant_algo": "FP8"}, "a100-80", "0.27.0", None),
        ({**NVFP4, "quant_algo": "MXFP8"}, "h100", "0.19.0", "quantization method modelopt_mxfp8 is not supported"),
        ({**NVFP4, "quant_algo": "MXFP8"}, "h100", "0.20.0", None),
        # compressed_tensors/schemes: WNA16 80 until 0.11, 75 since 0.12; W8A16Fp8 80 until 0.15, 75 since 0.16; W8A8Int8 75
        (W4, "t4", "0.11.2", "Quantization scheme is not supported for the current GPU. Min capability: 80. Current capability: 75."),
        (W4, "t4", "0.12.0", None),
        (F8, "t4", "0.15.1", "Min capability: 80. Current capability: 75."),
        (F8, "t4", "0.16.0", None),
        (W8A8, "v100-sxm-32", "0.19.1", "Min capability: 75. Current capability: 70."),
        (W8A8, "t4", "0.8.5", None),
        # quark/schemes/quark_w8a8_fp8.py: 89, and no other class for fp8
        (QUARK, "a100-80", "0.33.0", "Min capability: 89. Current capability: 80."),
        (QUARK, "l40s", "0.33.0", None),
        # AMD's numbers are of another kind, and without a GPU nothing is known
        (QUARK, "mi300x", "0.33.0", None),
        ({"quant_method": "fp8"}, None, "0.13.0", None),
    ],
)  # fmt: skip
def test_the_least_gpu_by_method_and_release(block, gpu, version, said):
    if said is None:
        assert plan(model(block), gpu, version)
        return
    with pytest.raises(Unsupported) as refused:
        plan(model(block), gpu, version)
    assert said in (refused.value.problem.cause or "")
    assert "a GPU of compute capability" in (refused.value.problem.hint or "")


def test_experts_in_mxfp4_need_an_ampere():
    """quantization/mxfp4.py: 80; since 0.20 gpt-oss has a name of its own."""
    with pytest.raises(Unsupported) as refused:
        plan(load_model("gpt-oss-20b"), "t4", tp=2)
    assert refused.value.problem.cause == (
        "The quantization method gpt_oss_mxfp4 is not supported for the current GPU. Minimum capability: 80. "
        "Current capability: 75."
    )
    assert plan(load_model("gpt-oss-20b"), "a10")


def test_a_scheme_that_came_later():
    """CompressedTensorsW4A16Fp4 came with 0.9."""
    block = compressed(4, "float", strategy="tensor_group", group_size=16)
    assert plan(model(block), "h100", "0.9.0")
    with pytest.raises(Unsupported, match="doesn't load") as refused:
        plan(model(block), "h100", "0.8.5")
    assert "No compressed-tensors compatible scheme was found" in (refused.value.problem.cause or "")


def asked(name: str) -> Model:
    loaded = load_model("llama-3-8b")
    assert loaded.weights is not None
    return replace(loaded, weights=loaded.weights.stored_as(kept_named(name)))


@pytest.mark.parametrize(
    ("dtype", "gpu", "version", "said"),
    [
        # quantization/__init__.py: gguf until 0.23, bitsandbytes until 0.27
        ("q4_k_m", "h100", "0.23.0", None),
        ("q4_k_m", "h100", "0.24.0", "Unknown quantization method: gguf; vLLM had it until 0.23.0"),
        ("q8_0", "h100", "0.33.0", "Unknown quantization method: gguf"),
        ("nf4", "h100", "0.27.1", None),
        ("nf4", "h100", "0.28.0", "Unknown quantization method: bitsandbytes; vLLM had it until 0.27.1"),
        ("mxfp8", "h100", "0.15.1", "Unknown quantization method: modelopt_mxfp8; vLLM has had it since 0.16.0"),
        ("fp8", "v100-sxm-32", "0.19.1", "Minimum capability: 75. Current capability: 70."),
        ("fp8", "a100-80", "0.8.5", None),
        ("int4", "v100-sxm-32", "0.19.1", None),  # gptq's kernels
        ("bf16", "v100-sxm-32", "0.19.1", None),
    ],
)
def test_a_format_that_is_asked_about_is_loaded_by_some_method(dtype, gpu, version, said):
    if said is None:
        assert plan(asked(dtype), gpu, version)
        return
    with pytest.raises(Unsupported) as refused:
        plan(asked(dtype), gpu, version)
    assert said in (refused.value.problem.cause or "")


def test_every_format_has_a_method_or_needs_none():
    ggml = {*GGML, *MIXES}
    for kept in (*NAMED.values(), *MIXES.values()):
        assert (ways(kept.name) == GGUF) == (kept.name in ggml), kept.name
        assert bool(ways(kept.name)) == (kept.name not in DTYPES), kept.name


def test_groups_that_ranks_would_cut_are_refused_of_a_format_that_is_asked_about():
    """29,568 inputs in 8 shares of 3,696, which are 28.9 groups of 128: Qwen2-72B, as its AWQ and GPTQ files are."""
    config = {
        **LLAMA,
        "intermediate_size": 29568,
        "hidden_size": 8192,
        "num_attention_heads": 64,
        "torch_dtype": "bfloat16",
    }
    loaded = read(config, Origin("a model", "a test"))
    other = replace(loaded, weights=loaded.weights.stored_as(NAMED["int4"]))
    with pytest.raises(CannotSplit):
        plan(other, "a100-80", tp=8)
    assert plan(other, "a100-80", tp=1)


def test_the_formula_answers_for_what_vllm_refuses_unless_vllm_was_asked():
    said = run("fit", "llama-3-8b", "--gpu", "h100", "--ctx", "4k", "--weight-dtype", "q4_k_m")
    assert said.code == 0
    assert "by the formula" in said.out
    assert "doesn't load llama-3-8b in q4_k_m" in said.out
    refused = run("fit", "llama-3-8b", "--gpu", "h100", "--ctx", "4k", "--weight-dtype", "q4_k_m", "--engine", "vllm")
    assert refused.code == 2
    assert "--engine vllm@0.23.0" in refused.err


@pytest.mark.parametrize(("gpu", "suggested"), [("v100-sxm-32x4", False), ("l40sx2", True)])
def test_no_checkpoint_is_suggested_that_the_gpu_doesnt_load(gpu, suggested):
    """70 is below what fp8 takes in 0.33, 75."""
    said = run("fit", "llama-3-70b", "--gpu", gpu, "--ctx", "2k", "--engine", "vllm")
    assert ("an fp8 checkpoint" in said.out) == suggested


@pytest.mark.parametrize(("version", "loads"), [("0.23.0", True), ("0.24.0", False), ("0.33.0", False)])
def test_files_of_llama_cpp_are_loaded_until_0_23(tmp_path, version, loads):
    """Source: quantization/__init__.py of 0.23 and 0.24."""
    (tmp_path / "config.json").write_text(json.dumps(load_document("qwen3-0.6b").config))
    plain = weigh(load_model(str(tmp_path)))
    assert plan(plain, "h100", version) is not None
    shutil.copy(HEADERS / "q4.gguf", tmp_path / "model.gguf")
    filed = weigh(load_model(str(tmp_path)))
    if loads:
        plan(filed, "h100", version)
        return
    with pytest.raises(Unsupported) as error:
        plan(filed, "h100", version)
    assert "gguf; vLLM had it until 0.23.0" in str(error.value.problem.cause)
    assert "--engine vllm@0.23.0" in str(error.value.problem.hint)


@pytest.mark.parametrize(
    ("block", "gpu", "version", "method"),
    [  # platforms/rocm.py and xpu.py, supported_quantization
        (NVFP4, "mi300x", "0.19.1", None),  # petit_nvfp4 stands in
        (NVFP4, "mi300x", "0.10.1", "modelopt_fp4"),
        (NVFP4, "mi300x", "0.20.0", None),
        ({**NVFP4, "quant_algo": "FP8"}, "mi300x", "0.20.2", "modelopt"),
        ({**NVFP4, "quant_algo": "FP8"}, "mi300x", "0.21.0", None),
        ({**NVFP4, "quant_algo": "FP8"}, "h100", "0.20.2", None),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "mi300x", "0.16.0", "bitsandbytes"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "mi300x", "0.17.0", None),
        (QUARK, "arc-pro-b60", "0.26.0", None),
        (QUARK, "arc-pro-b60", "0.27.0", "quark"),
        (W4, "arc-pro-b60", "0.33.0", None),
    ],
)
def test_methods_that_platforms_list(block, gpu, version, method):
    if method is None:
        assert plan(model(block), gpu, version)
        return
    with pytest.raises(Unsupported) as refused:
        plan(model(block), gpu, version)
    assert (refused.value.problem.cause or "").startswith(f"{method} quantization is currently not supported in")
