"""Starts that fail whatever the memory, and stages that settle alone: asked of vLLM 0.33's own planner, one by one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvplan.arch.formats import FORMATS, KvFormat, parse_kv_format
from kvplan.arch.model import Model, Origin
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Options
from kvplan.engines.vllm import allocate
from kvplan.engines.vllm.policy import Vllm
from kvplan.engines.vllm.versions import NEWEST
from kvplan.errors import CannotSplit, Unsupported, UsageError
from kvplan.families import read
from kvplan.sources.gpus import load_gpu
from kvplan.sources.models import load_model

LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048, "intermediate_size": 8192,
    "num_hidden_layers": 4, "num_attention_heads": 16, "num_key_value_heads": 8, "vocab_size": 32000,
    "max_position_embeddings": 8192, "torch_dtype": "bfloat16",
}  # fmt: skip
FP8 = KvFormat(FORMATS["fp8"], FORMATS["fp8"])


def started(model: Model, gpu: str, *, kv=None, tp=1, pp=1, version=NEWEST) -> allocate.Plan:
    own, card = Vllm(version), load_gpu(gpu)
    chosen = own.kv_format(model, None if kv is None else parse_kv_format(kv), card)
    return own.plan(model, card, Parallel(tp=tp, pp=pp), chosen, Options(), 1024)


@pytest.mark.parametrize(
    ("name", "kv", "gpu", "version", "taken"),
    [
        # heads with sinks leave FlashInfer out, and Triton's kernels read e4m3 from 8.9 on
        ("gpt-oss-20b", "fp8", "a100-80", NEWEST, False),
        ("gpt-oss-20b", "fp8", "l40s", NEWEST, True),
        ("llama-3-8b", "fp8", "a100-80", NEWEST, True),
        ("deepseek-v2-lite", "fp8", "a100-80", NEWEST, False),
        ("deepseek-v2-lite", "fp8", "l40s", NEWEST, True),
        ("deepseek-v2-lite", "fp8", "a100-80", (0, 23, 0), False),
        ("llama-3-8b", "int8_per_token_head", "a100-80", NEWEST, True),
        ("llama-3-8b", "fp8_per_token_head", "a100-80", NEWEST, False),
    ],
)
def test_eight_bit_caches_before_ada(name, kv, gpu, version, taken):
    if taken:
        assert started(load_model(name), gpu, kv=kv, version=version).request
    else:
        with pytest.raises(UsageError, match="can't keep a cache"):
            started(load_model(name), gpu, kv=kv, version=version)


def test_turboquant_on_blackwell_has_no_layout_for_its_whole_layers():
    assert started(load_model("qwen3-8b"), "h100", kv="turboquant_k8v4").request
    with pytest.raises(UsageError, match="no layout"):
        started(load_model("qwen3-8b"), "b200", kv="turboquant_k8v4")


OLMO = {
    "model_type": "olmo_hybrid", "architectures": ["OlmoHybridForCausalLM"], "hidden_size": 3840, "intermediate_size": 11008,
    "num_hidden_layers": 32, "num_attention_heads": 30, "num_key_value_heads": 30, "linear_num_key_heads": 30,
    "linear_num_value_heads": 30, "linear_key_head_dim": 96, "linear_value_head_dim": 192, "linear_conv_kernel_dim": 4,
    "max_position_embeddings": 65536, "vocab_size": 100352, "torch_dtype": "bfloat16",
    "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"] * 8,
}  # fmt: skip


def test_olmos_gated_delta_net_hands_out_no_states():
    """Blocks are multiples of 16 as the kernels want, not of 64, and a request holds two states, not three."""
    made = started(read(OLMO, Origin("a checkpoint", "a test")), "h100")
    found = allocate.pool(made, 20 << 30)
    assert isinstance(found, allocate.Pool)
    assert (made.block, found.blocks, found.tokens) == (80, 2_184, 117_706)


@pytest.mark.parametrize(
    ("name", "tp", "said"),
    [
        ("glm-4.5v", 8, "12 is not divisible by 8"),  # heads of the tower
        ("glm-4.5v", 4, None),
        ("qwen3.5-0.8b", 8, "12 is not divisible by 8"),
        ("gpt-oss-20b", 16, "8 KV heads"),
        ("gpt-oss-20b", 8, None),
        ("llama-3-8b", 16, None),
    ],
)
def test_matrices_are_shared_evenly(name, tp, said):
    if said is None:
        assert started(load_model(name), "h100", tp=tp).request
        return
    with pytest.raises(CannotSplit) as caught:
        started(load_model(name), "h100", tp=tp)
    assert said in str(caught.value.problem.cause)


@pytest.mark.parametrize(
    ("dtype", "kv", "taken"), [("float16", "bf16", False), ("bfloat16", "fp16", False), ("bfloat16", "bf16", True)]
)
def test_a_cache_of_sixteen_bits_is_the_models_own(dtype, kv, taken):
    model = read({**LLAMA, "torch_dtype": dtype}, Origin("a checkpoint", "a test"))
    if taken:
        assert started(model, "h100", kv=kv).request
    else:
        with pytest.raises(UsageError, match="keeps no"):
            started(model, "h100", kv=kv)


@pytest.mark.parametrize(
    ("change", "taken"),
    [({"is_causal": False}, False), ({"use_bidirectional_attention": True}, False), ({"is_causal": True}, True)],
)
def test_embedders_keep_no_cache(change, taken):
    model = read({**LLAMA, **change}, Origin("a checkpoint", "a test"))
    if taken:
        assert started(model, "h100").request
    else:
        with pytest.raises(Unsupported, match="keeps no cache"):
            started(model, "h100")


def test_sparse_latents_on_hopper_take_fp8_only_when_asked():
    """`auto` becomes fp8_e4m3 where the checkpoint says so, which FlashMLA's sparse kernels don't list; fp8 they do."""
    sparse = replace(load_model("deepseek-v3.2"), kv_hint=FP8, quantized=None)
    with pytest.raises(UsageError, match="own format"):
        started(sparse, "h100", tp=8)
    assert started(sparse, "h100", tp=8, kv="fp8").block == 64
    assert started(sparse, "b200", tp=8).request
    assert started(replace(load_model("deepseek-v3"), kv_hint=FP8, quantized=None), "h100", tp=8).request


def test_a_stage_without_attention_settles_no_blocks():
    """Of 24 layers every fourth has attention; in eighths, stages 0 and 4 hold three states each, in blocks of 16.

    Three states of 16 tokens are dealt over as many groups as they need, two to a group of stage 0: figures of vLLM 0.33.
    """
    made = started(load_model("qwen3.5-0.8b"), "h100", pp=8)
    page = 1_179_648
    assert made.stages == (3 * page, page, page, page, 3 * page, page, page, page)
    found = allocate.pool(made, 40 << 30)
    assert isinstance(found, allocate.Pool)
    assert (found.blocks, found.tokens, made.block) == (12_136, 1_129_751, 576)
