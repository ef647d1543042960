"""Headers of quantized checkpoints, tensor by tensor as their tools write them: ranks hold what vLLM builds from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest
from fullest import fullest

from kvplan.arch.formats import parse_kv_format
from kvplan.arch.model import Origin
from kvplan.arch.parallel import Parallel
from kvplan.arch.weights import Weight, Weights
from kvplan.engines.base import Options, Setup
from kvplan.engines.vllm.layout.views import view_of
from kvplan.engines.vllm.policy import Vllm
from kvplan.errors import CannotSplit
from kvplan.families import read
from kvplan.sources.checkpoints.measured import measured
from kvplan.sources.checkpoints.places import places
from kvplan.sources.checkpoints.tensors import Headers, Tensor
from kvplan.sources.gpus import load_gpu
from kvplan.sources.models import load_model

MOE = {
    "model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "hidden_size": 2048, "intermediate_size": 6144,
    "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 48, "head_dim": 128,
    "num_attention_heads": 32, "num_key_value_heads": 4, "vocab_size": 151936, "decoder_sparse_step": 1,
    "max_position_embeddings": 262144, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "mlp_only_layers": [],
}  # fmt: skip
UNQUANTIZED = ["lm_head", "re:.*mlp.gate$"]


def compressed(**weights: object) -> dict[str, object]:
    scheme = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": True, **weights}
    return {
        "quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": UNQUANTIZED,
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": scheme}},
    }  # fmt: skip


AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "modules_to_not_convert": ["mlp.gate"]}
GPTQ = {
    "quant_method": "gptq",
    "bits": 4,
    "group_size": 128,
    "sym": True,
    "desc_act": False,
    "dynamic": {"-:.*mlp.gate$": {}},
}
FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128], "modules_to_not_convert": ["lm_head", "mlp.gate"]}

Parts = dict[str, tuple[str, int]]


def awq(rows: int, columns: int) -> Parts:
    groups = columns // 128
    return {
        "qweight": ("I32", rows * columns // 2),
        "qzeros": ("I32", groups * rows // 2),
        "scales": ("F16", groups * rows * 2),
    }


def gptq(rows: int, columns: int) -> Parts:
    return {**awq(rows, columns), "g_idx": ("I32", columns * 4)}


def packed(rows: int, columns: int) -> Parts:
    scales = columns // 128 * rows * 2
    return {
        "weight_packed": ("I32", rows * columns // 2),
        "weight_scale": ("BF16", scales),
        "weight_shape": ("I64", 16),
    }


def fp8(rows: int, columns: int) -> Parts:
    return {
        "weight": ("F8_E4M3", rows * columns),
        "weight_scale_inv": ("F32", -(-rows // 128) * -(-columns // 128) * 4),
    }


KINDS = {"awq": (AWQ, awq), "gptq": (GPTQ, gptq), "compressed-tensors": (compressed(), packed), "fp8": (FP8, fp8)}


def tensors(weights: Weights, parts_of) -> Iterator[Tensor]:
    """What the tool would write: linear layers in parts, experts one by one, everything else in 16 bit."""
    placed = [("model.", weight) for weight in (*weights.first, *weights.last) if weight.name != "lm_head"]
    placed += [("", weight) for weight in weights.last if weight.name == "lm_head"]
    placed += [(f"model.layers.{number}.", weight) for number, block in enumerate(weights.layers) for weight in block]
    for prefix, weight in placed:
        for name in experts(weight):
            if weight.linear and weight.component in ("attention", "experts"):
                for part, (dtype, size) in parts_of(*weight.shape).items():
                    yield Tensor(f"{prefix}{name}.{part}", dtype, (size,), size)
            else:
                yield Tensor(f"{prefix}{name}.weight", "BF16", weight.shape, 2 * weight.parameters)


def experts(weight: Weight) -> Iterator[str]:
    name = weight.name.removesuffix(".weight")
    if weight.routed:
        yield from (name.replace("experts.", f"experts.{number}.") for number in range(weight.copies))
    else:
        yield name


@cache
def both(kind: str):
    quantization, parts_of = KINDS[kind]
    model = read({**MOE, "quantization_config": quantization}, Origin("a model", "a test"))
    found = tuple(tensors(model.weights, parts_of))
    return model, measured(places(model.weights, Headers(found, 3, 0, "a test")))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "parallel", [Parallel(), Parallel(tp=2), Parallel(tp=4), Parallel(tp=2, pp=2), Parallel(tp=4, ep=4)]
)
def test_ranks_hold_the_same_by_headers_as_by_the_config(kind, parallel):
    model, found = both(kind)
    view = view_of(model)
    assert found.basis == "headers"
    assert fullest(found, parallel, view) == pytest.approx(fullest(model.weights, parallel, view), rel=1e-4)


def test_groups_of_measured_experts_are_halved_until_they_divide_a_share():
    """768 / 8 = 96 inputs of a rank: vLLM 0.33 builds groups of 32, 2,408,706,816 B (its own planner, TP 8)."""
    model, found = both("awq")
    assert found.bytes_on_rank(Parallel(tp=8), 0, view_of(model)) == pytest.approx(2_408_706_816, rel=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_the_quantization_method_stays_known_beside_headers(kind):
    model, found = both(kind)
    assert (found.method, found.found_by) == (model.weights.method, "headers of 3 files")
    assert found.method == kind


@pytest.mark.parametrize(
    ("kind", "tp", "said"),
    [("awq", 16, "assert group_size >= 32"), ("compressed-tensors", 4, "to be divisible by group_size (128)")],
)
def test_groups_that_no_kernel_cuts_are_refused_beside_headers_too(kind, tp, said):
    """Both asked of vLLM 0.33's own planner."""
    model, found = both(kind)
    with pytest.raises(CannotSplit) as caught:
        Vllm().start(
            Setup(
                replace(model, weights=found),
                load_gpu("h100"),
                Parallel(tp=tp),
                parse_kv_format("bf16"),
                Options(),
                4096,
            )
        )
    assert said in str(caught.value.problem.cause)


def gpt_oss(number: int, router_bytes: int) -> Iterator[Tensor]:
    """A layer of gpt-oss-120b as its own files name it: all experts in one tensor, blocks and scales apart."""
    prefix, hidden, heads, experts = f"model.layers.{number}.", 2880, {"q": 4096, "k": 512, "v": 512}, 128
    sizes = {
        "mlp.experts.gate_up_proj_blocks": experts * 2 * hidden * hidden // 2,
        "mlp.experts.gate_up_proj_scales": experts * 2 * hidden * hidden // 32,
        "mlp.experts.gate_up_proj_bias": experts * 2 * hidden * 2,
        "mlp.experts.down_proj_blocks": experts * hidden * hidden // 2,
        "mlp.experts.down_proj_scales": experts * hidden * hidden // 32,
        "mlp.experts.down_proj_bias": experts * hidden * 2,
        "mlp.router.weight": experts * hidden * router_bytes, "mlp.router.bias": experts * router_bytes,
        **{f"self_attn.{name}_proj.weight": rows * hidden * 2 for name, rows in heads.items()},
        **{f"self_attn.{name}_proj.bias": rows * 2 for name, rows in heads.items()},
        "self_attn.o_proj.weight": hidden * 4096 * 2, "self_attn.o_proj.bias": hidden * 2, "self_attn.sinks": 64 * 2,
        "input_layernorm.weight": hidden * 2, "post_attention_layernorm.weight": hidden * 2,
    }  # fmt: skip
    for name, size in sizes.items():
        yield Tensor(prefix + name, "as filed", (size,), size)


@pytest.mark.parametrize("router_bytes", [2, 4])
@pytest.mark.parametrize("gpu", ["h100", "b200"])
@pytest.mark.parametrize("parallel", [Parallel(), Parallel(tp=8), Parallel(tp=8, ep=8)])
def test_experts_in_mxfp4_are_padded_as_the_gpu_wants_beside_headers_too(router_bytes, gpu, parallel):
    """Routers in 32 bit make a layer differ from the config's by 128 x 2,881 x 2 B: everything else stays what it was."""
    model = load_model("gpt-oss-120b")
    table = 201088 * 2880 * 2
    ends = {"model.embed_tokens.weight": table, "lm_head.weight": table, "model.norm.weight": 2880 * 2}
    found = [Tensor(name, "BF16", (size,), size) for name, size in ends.items()]
    found += [tensor for number in range(36) for tensor in gpt_oss(number, router_bytes)]
    view = view_of(model, load_gpu(gpu))
    weights = measured(places(model.weights, Headers(tuple(found), 15, 0, "a test")))
    wider = 36 * 128 * 2881 * (router_bytes - 2)
    assert fullest(weights, parallel, view) == fullest(model.weights, parallel, view) + wider
