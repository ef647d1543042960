"""Quantized checkpoints: what vLLM loads, refuses and builds.

tests/data/vllm-quantized.jsonl has what vLLM 0.33's own planner said of two shapes in some fifty quantization blocks each, on an
H100 and an A100, and of a third with schemes for its cache, with 8 GiB for the cache and 4,096 tokens: refused (its words), or blocks and bytes of parameters on a rank.
Rows that need a package which wasn't installed (humming, for elements of 2 and 3 bits) were left out.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from fullest import fullest

from kvplan.arch.formats import parse_kv_format
from kvplan.arch.model import Origin
from kvplan.arch.parallel import Parallel
from kvplan.arch.storage import NAMED
from kvplan.engines.base import Capacity, Options, Served, Setup
from kvplan.engines.vllm import emit
from kvplan.engines.vllm.layout.views import view_of
from kvplan.engines.vllm.policy import Vllm
from kvplan.engines.vllm.tables.versions import parse
from kvplan.errors import CannotSplit, Unsupported, UsageError
from kvplan.families import read
from kvplan.sources.gpus import load_gpu

ROWS = [
    json.loads(line) for line in (Path(__file__).parents[1] / "data" / "vllm-quantized.jsonl").read_text().splitlines()
]
DENSE = {
    "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "num_hidden_layers": 2, "hidden_size": 8192,
    "intermediate_size": 29568, "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 152064,
    "max_position_embeddings": 32768, "tie_word_embeddings": False,
}  # fmt: skip
MOE = {
    "model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "hidden_size": 2048, "intermediate_size": 6144,
    "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 2, "head_dim": 128,
    "num_attention_heads": 32, "num_key_value_heads": 4, "vocab_size": 151936, "decoder_sparse_step": 1,
    "max_position_embeddings": 32768, "tie_word_embeddings": False, "mlp_only_layers": [],
}  # fmt: skip
SMALLEST = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048, "intermediate_size": 8192,
    "num_hidden_layers": 4, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 32000,
    "max_position_embeddings": 8192, "tie_word_embeddings": False,
}  # fmt: skip
SHAPES = {"qwen2": DENSE, "qwen3_moe": MOE, "llama": SMALLEST}


def model(shape: str, block: dict, dtype: str = "bfloat16"):
    return read({**SHAPES[shape], "torch_dtype": dtype, "quantization_config": block}, Origin("a checkpoint", "a test"))


def asked(loaded, engine: Vllm, gpu: str, tp: int) -> Capacity:
    card, parallel = load_gpu(gpu), Parallel(tp=tp)
    found = engine.start(Setup(loaded, card, parallel, engine.kv_format(loaded, None, card), Options(), 4096)).capacity(
        8 << 30
    )
    assert isinstance(found, Capacity)
    return found


def test_what_vllm_loads_and_builds(count_cases):
    count_cases("quantized checkpoints, vllm", len(ROWS))
    wrong = []
    for row in ROWS:
        loaded = model(row["shape"], row["quantization_config"], row["dtype"])
        try:
            blocks = asked(loaded, Vllm(), row["gpu"], row["tp"]).blocks
        except (Unsupported, CannotSplit):
            blocks = None
        view = view_of(loaded, load_gpu(row["gpu"]))
        built = fullest(loaded.weights, Parallel(tp=row["tp"]), view)
        near = row["said"] is not None or abs(built / row["weight_bytes"] - 1) < 0.01
        if blocks != row["blocks"] or not near:
            wrong.append((row, blocks, built))
    assert wrong == []


GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}


@pytest.mark.parametrize(
    ("block", "version", "said"),
    [
        # read in the releases' own quantization/__init__.py, gptq.py, auto_gptq.py, awq_marlin.py, modelopt.py
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "0.27.0", None),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "0.28.0", "Unknown quantization method: bitsandbytes"),
        ({"quant_method": "hqq"}, "0.14.1", None),
        ({"quant_method": "hqq"}, "0.15.0", "Unknown quantization method: hqq"),
        ({**GPTQ, "bits": 3}, "0.21.0", None),
        ({**GPTQ, "bits": 3}, "0.22.0", "Unsupported quantization config: bits=3, sym=True"),
        ({**GPTQ, "sym": False}, "0.21.0", None),
        ({**GPTQ, "sym": False}, "0.22.0", "Unsupported quantization config: bits=4, sym=False"),
        ({**AWQ, "bits": 8}, "0.11.2", None),
        ({**AWQ, "bits": 8}, "0.12.0", "Unsupported num_bits = 8. Supported: 4."),
        ({"quant_method": "modelopt", "quant_algo": "W4A16_NVFP4"}, "0.21.0", None),
        (
            {"quant_method": "modelopt", "quant_algo": "W4A16_NVFP4"},
            "0.20.2",
            "ModelOpt currently only supports: ['FP8', 'NVFP4'",
        ),
    ],
)
def test_checkpoints_by_release(block, version, said):
    engine = Vllm(parse(version))
    if said is None:
        assert asked(model("qwen2", block), engine, "h100", 1).blocks
        return
    with pytest.raises(Unsupported) as refused:
        asked(model("qwen2", block), engine, "h100", 1)
    assert said in str(refused.value.problem.cause)


@pytest.mark.parametrize(("version", "needed"), [("0.13.0", False), ("0.14.0", True), ("0.33.0", True)])
def test_deprecated_methods_need_a_flag(version, needed):
    """From DEPRECATED_QUANTIZATION_METHODS, which 0.14 came with; Llama-3.1-405B-FP8 is stored so."""
    loaded, engine, card = model("qwen2", {"quant_method": "fbgemm_fp8"}), Vllm(parse(version)), load_gpu("h100")
    plan = (loaded, card, Parallel(), None, Options(), 4096)
    said = engine.start(Setup(loaded, card, Parallel(), None, Options(), 4096)).cautions()
    assert bool(said) == needed
    assert (
        "--allow-deprecated-quantization" in emit.serve(emit.launch(engine.start(Setup(*plan)), Served("a/checkpoint")))
    ) == needed


def test_a_format_that_is_asked_about_isnt_the_checkpoints():
    loaded = model("qwen2", {**GPTQ, "bits": 3})
    assert loaded.weights is not None
    other = replace(loaded, weights=loaded.weights.stored_as(NAMED["fp8"]))
    assert asked(other, Vllm(), "h100", 1).blocks


SMALL = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048, "intermediate_size": 8192,
    "num_hidden_layers": 2, "num_attention_heads": 32, "head_dim": 64, "vocab_size": 128256, "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}  # fmt: skip
BLOCKS = {
    "compressed-tensors": {
        "quant_method": "compressed-tensors", "format": "float-quantized", "ignore": ["lm_head"],
        "config_groups": {"group_0": {
            "targets": ["Linear"],
            "weights": {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128], "symmetric": True},
            "input_activations": {"num_bits": 8, "type": "float", "strategy": "group", "group_size": 128, "dynamic": True},
        }},
    },
    "fp8": {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"},
    "modelopt": {"quant_method": "modelopt", "quant_algo": "FP8_PB_WO", "ignore": ["lm_head"]},
}  # fmt: skip


@pytest.mark.parametrize(
    ("method", "kv_heads", "tp", "taken"),
    [
        ("compressed-tensors", 8, 4, True), ("compressed-tensors", 8, 8, False), ("compressed-tensors", 1, 1, False),
        ("fp8", 8, 8, True), ("fp8", 1, 1, True), ("modelopt", 8, 8, True), ("modelopt", 1, 1, True),
    ],
)  # fmt: skip
def test_blocks_of_merged_matrices(method, kv_heads, tp, taken):
    """Asked of vLLM 0.33's own planner: keys of 64 outputs a rank in blocks of 128."""
    config = {**SMALL, "num_key_value_heads": kv_heads, "quantization_config": BLOCKS[method]}
    loaded = read(config, Origin("a checkpoint", "a test"))
    if taken:
        assert asked(loaded, Vllm(), "h100", tp).blocks
        return
    with pytest.raises(CannotSplit) as refused:
        asked(loaded, Vllm(), "h100", tp)
    assert "output_partition_size = 64 is not divisible" in str(refused.value.problem.cause)


MIMO = {
    "model_type": "mimo_v2_flash", "architectures": ["MiMoV2FlashForCausalLM"], "hidden_size": 512, "num_hidden_layers": 2,
    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 192, "v_head_dim": 128, "intermediate_size": 1024,
    "vocab_size": 32000, "max_position_embeddings": 8192, "torch_dtype": "bfloat16", "swa_num_attention_heads": 8,
    "swa_num_key_value_heads": 8, "swa_head_dim": 192, "swa_v_head_dim": 128, "sliding_window": 128,
    "hybrid_layer_pattern": [0, 1], "moe_layer_freq": [0, 0], "n_routed_experts": 8, "num_experts_per_tok": 2,
    "moe_intermediate_size": 512,
}  # fmt: skip


@pytest.mark.parametrize(
    ("gpu", "kv", "taken"),
    [
        ("h100", "fp8", True), ("b200", "bf16", True), ("b200", "fp8", False), ("a100-80", "fp8", False), ("l40s", "fp8", True),
        ("l40s", "fp8_per_token_head", False), ("h100", "fp8_per_token_head", True),
    ],
)  # fmt: skip
def test_caches_of_keys_wider_than_values(gpu, kv, taken):
    """Asked of vLLM 0.33's own planner with MiMo-V2-Flash, whose keys have 192 elements and values 128."""
    loaded = read(MIMO, Origin("a checkpoint", "a test"))
    plan = (loaded, load_gpu(gpu), Parallel(), parse_kv_format(kv), Options(), 4096)
    if taken:
        assert Vllm().start(Setup(*plan)).made.stages
        return
    with pytest.raises(UsageError):
        Vllm().start(Setup(*plan))


AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True}
FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic"}


@pytest.mark.parametrize(
    ("block", "said"),
    [
        # asked of vLLM 0.33, in its words
        ({**AWQ, "bits": 16}, "Unsupported num_bits = 16. Supported: 4."),
        ({**GPTQ, "sym": 0}, "Unsupported quantization config: bits=4, sym=False"),
        ({**FP8, "activation_scheme": None}, "Cannot find any of ['activation_scheme']"),
        ({**FP8, "activation_scheme": "fast"}, "Unsupported activation scheme fast"),
        (AWQ, None),
        (GPTQ, None),
        ({**FP8, "activation_scheme": "static"}, None),
    ],
)
def test_values_that_a_method_does_not_take(block, said):
    engine, loaded, card = Vllm(), model("qwen2", block), load_gpu("h100")
    setup = Setup(loaded, card, Parallel(), engine.kv_format(loaded, None, card), Options(), 4096)
    if said is None:
        assert engine.start(setup)
        return
    with pytest.raises(Unsupported) as refused:
        engine.start(setup)
    assert said in str(refused.value.problem.cause)


@pytest.mark.parametrize(
    ("field", "block"),
    [
        ("quantization_config", {"bits": 4, "group_size": 64}),
        ("quantization_config", {**AWQ, "quant_method": None}),
        ("quantization", {"bits": 4, "group_size": 64}),  # MLX's own name of the block
    ],
)
def test_packed_weights_that_nobody_names_are_not_counted_as_packed(field, block):
    """vLLM 0.33 builds Qwen3-4B in 16 bit with these: 8,055,422,528 B where the checkpoint has 2.3 GB, which don't fit into it."""
    loaded = read({**DENSE, "torch_dtype": "bfloat16", field: block}, Origin("a checkpoint", "a test"))
    engine, card = Vllm(), load_gpu("h100")

    def setup(**options: int) -> Setup:
        return Setup(loaded, card, Parallel(), engine.kv_format(loaded, None, card), Options(**options), 4096)

    with pytest.raises(Unsupported, match="doesn't see"):
        engine.start(setup()).budget()
    assert engine.start(setup(weights_per_gpu=8 << 30)).budget()
    assert engine.start(setup(kv_memory=8 << 30)).budget()
