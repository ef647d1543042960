"""Starts that fail whatever the memory, and stages that settle alone: asked of vLLM 0.33's own planner, one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kvplan import api
from kvplan.arch.extras import with_draft
from kvplan.arch.formats import FORMATS, KvFormat, parse_kv_format
from kvplan.arch.model import Model, Origin
from kvplan.arch.parallel import Parallel
from kvplan.arch.traits import NULLED
from kvplan.engines.base import Options, Setup
from kvplan.engines.vllm.blocks import allocate
from kvplan.engines.vllm.blocks.drafts import draft_layers
from kvplan.engines.vllm.policy import Vllm
from kvplan.engines.vllm.starts import unread
from kvplan.engines.vllm.tables.architectures import draft_longest, is_pooling
from kvplan.engines.vllm.tables.changes import rules
from kvplan.engines.vllm.tables.items import longest_whole
from kvplan.engines.vllm.tables.registered import DRAFTS
from kvplan.engines.vllm.tables.versions import NEWEST
from kvplan.errors import CannotSplit, NotServed, Unsupported, UsageError
from kvplan.families import read
from kvplan.sources.bundled import bundled_document
from kvplan.sources.gpus import load_gpu
from kvplan.sources.models import load_model
from kvplan.units import GIB

LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048, "intermediate_size": 8192,
    "num_hidden_layers": 4, "num_attention_heads": 16, "num_key_value_heads": 8, "vocab_size": 32000,
    "max_position_embeddings": 8192, "torch_dtype": "bfloat16",
}  # fmt: skip
FP8 = KvFormat(FORMATS["fp8"], FORMATS["fp8"])


def started(model: Model, gpu: str, *, kv=None, tp=1, pp=1, version=NEWEST) -> allocate.Plan:
    own, card = Vllm(version), load_gpu(gpu)
    chosen = own.kv_format(model, None if kv is None else parse_kv_format(kv), card)
    return own.start(Setup(model, card, Parallel(tp=tp, pp=pp), chosen, Options(), 1024)).made


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
    [
        ({"is_causal": False}, False),
        ({"use_bidirectional_attention": True}, True),
        ({"use_bidirectional_attention": True, "model_type": "gemma3_text"}, False),
        ({"is_causal": True}, True),
    ],
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


@pytest.mark.parametrize(
    ("name", "gpu", "taken"), [("gemma-3-4b", "t4", False), ("gemma-3-4b", "l4", True), ("llama-3-8b", "t4", True)]
)
def test_types_that_are_not_run_in_float16_are_run_in_32_bit_before_bfloat16(name, gpu, taken):
    if taken:
        assert started(load_model(name), gpu).request
    else:
        with pytest.raises(Unsupported, match="32 bit"):
            started(load_model(name), gpu)


GEMMA2 = {**LLAMA, "model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"]}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", None])
def test_32_bit_is_all_that_is_left_whatever_the_checkpoint_is_in(dtype):
    """vLLM 0.33's planner on a T4 keeps a float16 Gemma 2 in float32: config/model.py _resolve_auto_dtype."""
    model = read({**GEMMA2, "torch_dtype": dtype}, Origin("a checkpoint", "a test"))
    for version in (NEWEST, (0, 9, 1)):
        with pytest.raises(Unsupported, match="32 bit"):
            started(model, "t4", version=version)
    assert started(model, "l4").request


@pytest.mark.parametrize(
    ("config", "dtype", "version", "taken"),
    [
        (LLAMA, None, (0, 8, 5), True), (LLAMA, "float32", (0, 8, 5), True), (LLAMA, "float16", (0, 8, 5), True),
        (GEMMA2, "float32", (0, 8, 5), True), (GEMMA2, "float16", (0, 8, 5), True), (GEMMA2, "bfloat16", (0, 8, 5), False),
        (GEMMA2, "float32", (0, 7, 3), False), (GEMMA2, "float16", (0, 7, 3), True),
        ({**LLAMA, "vision_config": {"torch_dtype": "bfloat16"}}, None, (0, 8, 5), False),
        ({**LLAMA, "vision_config": {"torch_dtype": "bfloat16"}}, "float32", (0, 8, 5), True),
    ],
)  # fmt: skip
def test_before_0_9_1_32_bit_and_nothing_mean_float16(config, dtype, version, taken):
    """config.py _get_and_verify_dtype of 0.8.5 and, with Gemma 2's exception, 0.7.3."""
    model = read({**config, "torch_dtype": dtype}, Origin("a checkpoint", "a test"))
    if taken:
        assert started(model, "t4", version=version).request
    else:
        with pytest.raises(Unsupported, match="doesn't run"):
            started(model, "t4", version=version)


def test_no_release_before_0_9_1_runs_bfloat16_where_there_is_none():
    """worker/worker.py of 0.8.5; config.py _resolve_auto_dtype since 0.9.1."""
    with pytest.raises(Unsupported) as refused:
        started(load_model("llama-3-8b"), "t4", version=(0, 8, 5))
    assert str(refused.value.problem.cause).startswith(
        "Bfloat16 is only supported on GPUs with compute capability of at least 8.0"
    )
    assert started(load_model("llama-3-8b"), "t4", version=(0, 9, 1)).request


def test_the_whole_config_s_type_is_run_in_float16():
    """PaliGemma 2, whose text part is of a type that isn't."""
    inside = {**LLAMA, "model_type": "gemma2"}
    whole = {"model_type": "paligemma", "architectures": ["PaliGemmaForConditionalGeneration"], "text_config": inside}
    assert started(read(whole, Origin("a checkpoint", "a test")), "t4").request


@pytest.mark.parametrize(("engine", "verdict"), [(None, "ideal"), ("vllm", None)])
def test_what_the_usual_engine_can_t_run_on_a_gpu_is_planned_by_the_formula(engine, verdict):
    question = api.FitQuestion(context=512, engine=engine)
    if verdict is None:
        with pytest.raises(Unsupported, match="32 bit"):
            api.fit("gemma-2-2b", "t4", question)
    else:
        assert api.fit("gemma-2-2b", "t4", question).engine.name == verdict


@pytest.mark.parametrize(
    ("kv", "gpu", "version", "taken"),
    [
        (None, "t4", NEWEST, "fp16"), ("fp16", "t4", NEWEST, "fp16"), ("bf16", "t4", NEWEST, None),
        (None, "l4", NEWEST, "bf16"), ("fp16", "l4", NEWEST, None),
    ],
)  # fmt: skip
def test_a_cache_in_sixteen_bit_is_in_the_model_s_which_is_float16_before_bfloat16(kv, gpu, version, taken):
    """vLLM 0.33 config/vllm.py _reject_mismatched_float_kv_cache; config/model.py _resolve_auto_dtype."""
    own, model, card = Vllm(version), load_model("llama-3-8b"), load_gpu(gpu)
    chosen = own.kv_format(model, None if kv is None else parse_kv_format(kv), card)
    asked = (model, card, Parallel(), chosen, Options(), 1024)
    if taken is None:
        with pytest.raises(UsageError, match="cache for llama-3-8b"):
            own.start(Setup(*asked))
    else:
        assert own.start(Setup(*asked)).made.request
        assert chosen.k.name == taken


def test_less_than_a_block_is_short_of_a_block():
    model, own = load_model("llama-3-8b"), Vllm()
    found = own.start(
        Setup(model, load_gpu("h100"), Parallel(), own.kv_format(model, None, None), Options(), 1024)
    ).capacity(1 << 20)
    assert found.needed_bytes == 16 * 131_072


def latents(**changes) -> Model:
    sizes = {
        "model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"], "num_hidden_layers": 2, "hidden_size": 2048,
        "intermediate_size": 4096, "moe_intermediate_size": 512, "n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1,
        "first_k_dense_replace": 1, "num_attention_heads": 16, "num_key_value_heads": 16, "q_lora_rank": 512, "kv_lora_rank": 512,
        "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 32000, "max_position_embeddings": 8192,
        "torch_dtype": "bfloat16",
    }  # fmt: skip
    return read({**sizes, **changes}, Origin("a checkpoint", "a test"))


@pytest.mark.parametrize(
    ("sizes", "version", "taken"),
    [((64, 32, 64), NEWEST, False), ((64, 32, 64), (0, 25, 1), True), ((192, 64, 256), NEWEST, True), ((64, 64, 128), NEWEST, True)],
)  # fmt: skip
def test_prompts_of_latents_need_a_kernel(sizes, version, taken):
    nope, rope, value = sizes
    model = latents(qk_nope_head_dim=nope, qk_rope_head_dim=rope, v_head_dim=value)
    if taken:
        assert started(model, "h100", version=version).request
    else:
        with pytest.raises(Unsupported, match="no kernel for prompts"):
            started(model, "h100", version=version)


@pytest.mark.parametrize(
    ("gpu", "version", "block"),
    [
        ("h200", (0, 7, 3), 16), ("h200", (0, 8, 0), 64), ("h200", (0, 17, 1), 64), ("h200", (0, 18, 0), 16), ("a100-80", (0, 11, 0), 16),
        ("b200", (0, 11, 0), 128), ("b200", (0, 15, 0), 64),
    ],
)  # fmt: skip
def test_blocks_of_latents_by_release(gpu, version, block):
    """What platforms/cuda.py of each release forces; public logs of 0.11.2 on H200 print multiples of 64."""
    assert started(latents(), gpu, version=version).block == block


def test_layers_of_sparse_latents_that_a_list_alone_excuses_have_an_indexer_here():
    sizes = {
        "model_type": "glm_moe_dsa", "architectures": ["GlmMoeDsaForCausalLM"], "num_hidden_layers": 4, "qk_nope_head_dim": 192,
        "v_head_dim": 256, "index_head_dim": 128, "index_n_heads": 32, "index_topk": 2048,
    }  # fmt: skip
    listed = started(latents(**sizes, indexer_types=["full", "shared", "shared", "shared"]), "h100")
    rated = started(latents(**sizes, index_topk_freq=4, index_skip_topk_offset=1), "h100")
    indexer = 132 * 64  # 128 bytes and a scale of 4 for each token
    assert listed.stages[0] - rated.stages[0] == 3 * indexer


HY_V4 = {
    "model_type": "hy_v4", "architectures": ["HYV4ForCausalLM"], "hidden_size": 2816, "num_hidden_layers": 34,
    "num_attention_heads": 32, "num_key_value_heads": 32, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 192,
    "qk_rope_head_dim": 64, "v_head_dim": 256, "index_head_dim": 128, "index_n_heads": 16, "index_topk": 2048,
    "vocab_size": 120832, "max_position_embeddings": 262144, "torch_dtype": "bfloat16", "n_routed_experts": 256,
    "moe_intermediate_size": 768, "num_experts_per_tok": 8, "n_shared_experts": 1, "intermediate_size": 6912,
    "indexer_types": ["full", "full", "shared", "shared", *(["shared", "full", "shared", "shared"] * 7), "shared", "full"],
}  # fmt: skip


def in_blocks(config: dict[str, Any], tp: int = 1) -> tuple[int, int]:
    """Blocks and tokens of 40 GiB on each of `tp` H100, at the longest length."""
    model = read(config, Origin("a checkpoint", "a test"))
    setup = Setup(model, load_gpu("h100"), Parallel(tp), parse_kv_format("bf16"), Options(), model.context.tokens or 0)
    found = allocate.pool(Vllm().start(setup).made, 40 * GIB)
    assert isinstance(found, allocate.Pool)
    return found.blocks, found.tokens


def test_hy_v4_reads_the_list():
    """vLLM 0.33 of the type's default sizes, 34 layers: an indexer where the list says full, in 40 GiB."""
    assert in_blocks({**HY_V4, "layer_types": ["deepseek_sparse_attention"] * 34}) == (16_575, 1_060_800)


@pytest.mark.parametrize("said", [{}, {"layer_types": None}, {"layer_types": None, "indexer_types": None}])
def test_hy_v4_without_a_list_is_dense(said):
    """models/hy_v4/nvidia/attention.py: requested_sparse asks for layer_types, which vLLM's own config doesn't fill in."""
    assert in_blocks({**HY_V4, **said}) == (68_534, 1_096_544)


LING = {
    "model_type": "bailing_hybrid", "architectures": ["BailingMoeV3ForCausalLM"], "hidden_size": 1536, "intermediate_size": 4608,
    "num_hidden_layers": 24, "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 128, "vocab_size": 157184,
    "max_position_embeddings": 131072, "layer_group_size": 4, "short_conv_kernel_size": 4, "no_kda_lora": True,
    "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "q_lora_rank": 256, "kv_lora_rank": 512,
    "first_k_dense_replace": 1, "num_experts": 128, "num_experts_per_tok": 8, "num_shared_experts": 1, "moe_intermediate_size": 512,
    "torch_dtype": "bfloat16", "auto_map": {"AutoConfig": "configuration_bailing_moe_v3.BailingMoeV3Config"},
}  # fmt: skip
RING = {
    **LING, "architectures": ["BailingMoeV2_5ForCausalLM"], "hidden_size": 8192, "intermediate_size": 18432, "num_hidden_layers": 80,
    "num_attention_heads": 64, "num_key_value_heads": 64, "num_experts": 256, "moe_intermediate_size": 2048, "layer_group_size": 8,
    "q_lora_rank": 1536,
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "tp", "pool"),
    [
        (LING, 1, (6_068, 5_935_409)), (LING, 4, (24_272, 6_141_659)),
        ({**LING, "num_hidden_layers": 26}, 1, (4_551, 4_451_557)),  # two layers beyond six groups keep latents
        (RING, 1, (1_941, 3_065_189)), (RING, 4, (7_281, 3_534_574)),
        ({**RING, "num_hidden_layers": 22, "layer_group_size": 5, "num_attention_heads": 16}, 1, (18_204, 8_970_055)),
    ],
)  # fmt: skip
def test_states_between_latents(config, tp, pool):
    """Blocks and tokens of vLLM 0.33's own planner: 6 of 24 layers keep latents, 18 a state of 16 heads of 128 x 128."""
    assert in_blocks(config, tp) == pool


ZAYA = {
    "model_type": "zaya", "architectures": ["ZayaForCausalLM"], "hidden_size": 2048, "num_hidden_layers": 40, "num_attention_heads": 8,
    "num_key_value_heads": 2, "head_dim": 128, "moe_intermediate_size": 2048, "num_experts": 16, "num_experts_per_tok": 1,
    "router_hidden_size": 256, "cca_time0": 2, "cca_time1": 2, "vocab_size": 262272, "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}  # fmt: skip


@pytest.mark.parametrize(
    "kinds",
    [
        {"layer_types": ["hybrid"] * 40},
        {"layer_types": ["hybrid", "hybrid_sliding"] * 20, "sliding_window": 1024},
    ],
)
def test_the_transformers_backend_allocates_no_states(kinds):
    """vLLM 0.33, TransformersMoEForCausalLM: 40 full layers of 16,384 bytes a block, 8 requests in 40 GiB."""
    model = read({**ZAYA, **kinds}, Origin("a checkpoint", "a test"))
    kv, card = parse_kv_format("bf16"), load_gpu("h100")
    found = allocate.pool(Vllm().start(Setup(model, card, Parallel(), kv, Options(), 131072)).made, 40 * GIB)
    assert (found.blocks, found.tokens) == (65_536, 1_048_576)


ATTENTION_ALONE = {**LLAMA, "head_dim": 128, "layer_types": ["full_attention"] * 4}
QWEN = {
    "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "whole", "name", "version", "said"),
    [
        # of a config in parts vLLM sees no list: 0.33 gives blocks of 576 tokens and more where there are no states
        ("qwen3_5_text", "qwen3_5", "Qwen3_5ForCausalLM", (0, 33, 0), "aligns blocks"),
        ("qwen3_5_text", "qwen3_5", "Qwen3_5ForConditionalGeneration", (0, 17, 0), "aligns blocks"),
        ("qwen3_5_text", "qwen3_5_text", "Qwen3_5ForCausalLM", (0, 33, 0), None),
        ("qwen3_next", "qwen3_next", "Qwen3NextForCausalLM", (0, 33, 0), None),
        ("qwen3_next", "qwen3_next", "Qwen3NextForCausalLM", (0, 11, 1), None),
        ("qwen3_next", "qwen3_next", "Qwen3NextForCausalLM", (0, 11, 0), "aligns blocks"),
        ("olmo_hybrid", "olmo_hybrid", "OlmoHybridForCausalLM", (0, 33, 0), "at least one 'linear_attention' layer"),
    ],
)
def test_a_hybrid_class_without_a_state(kind, whole, name, version, said):
    part = {**ATTENTION_ALONE, **QWEN, "model_type": kind, "architectures": [name]}
    config = part if kind == whole else {"model_type": whole, "architectures": [name], "text_config": part}
    model = read(config, Origin("a checkpoint", "a test"))
    if said is None:
        assert started(model, "h100", version=version).block == 16
    else:
        with pytest.raises(Unsupported) as error:
            started(model, "h100", version=version)
        assert said in error.value.problem.cause


def test_a_hybrid_of_states_alone_is_still_a_hybrid():
    """Prefix caching is on: a request holds its state, the one before and what a prefill exports."""
    granite = load_model("granite-4.0-h-tiny")
    states = replace(granite, layers=tuple(layer for layer in granite.layers if layer.caches[0].kind != "full"))
    assert started(states, "h100").layout.groups[0].pages(started(states, "h100").settings.demand) == 3
    assert started(load_model("mamba2-2.7b"), "h100").request == 1


def test_a_draft_model_limits_the_length():
    draft = read({**LLAMA, "max_position_embeddings": 512}, Origin("a draft", "a test"))
    model = with_draft(read(LLAMA, Origin("a checkpoint", "a test")), draft)
    kv, card = parse_kv_format("bf16"), load_gpu("h100")
    asked = (model, card, Parallel(), kv, Options(speculative_tokens=2))
    with pytest.raises(UsageError, match="lowers max_model_len to 512"):
        Vllm().start(Setup(*asked, 1024))
    assert Vllm().start(Setup(*asked, 512)).made.request
    assert Vllm((0, 32, 0)).start(Setup(*asked, 1024)).made.request
    assert Vllm().default_context(model).tokens == 512


def eagle(hidden: int, inner: int, heads: int, kv_heads: int, **fields) -> Model:
    """A draft of one layer on the target's positions."""
    config = {
        "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "hidden_size": hidden, "intermediate_size": inner,
        "num_hidden_layers": 1, "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": 128,
        "tie_word_embeddings": False, "torch_dtype": "bfloat16", **fields,
    }  # fmt: skip
    return read(config, Origin("a draft", "a test"))


@pytest.mark.parametrize("name", sorted(DRAFTS))
def test_what_vllm_registers_to_draft_has_no_length_of_its_own(name):
    """By its name alone, of every release: heads serve whatever their target does."""
    head = replace(eagle(2048, 8192, 16, 8, max_position_embeddings=2048), architectures=(name,))
    model = with_draft(read(LLAMA, Origin("a checkpoint", "a test")), head)
    assert draft_longest(model) is None


@pytest.mark.parametrize(
    ("name", "pooling"),
    [("llama", False), ("gemma2", False), ("llama4", False), ("qwen3", True), ("bert", True), ("nowhere", True)],
)
def test_a_config_without_a_class_is_served_as_the_class_of_its_type(name, pooling):
    """Source: Transformers MODEL_MAPPING_NAMES; vLLM config/model.py _get_default_runner_type."""
    assert is_pooling(replace(read(LLAMA, Origin("a checkpoint", "a test")), architectures=(), whole=name)) is pooling


@pytest.mark.parametrize(
    ("name", "tokens"), [("gemma-4-31b", 2496), ("gemma-3-27b", 260), ("qwen3-vl-8b", 0), ("llama-3-70b", 0)]
)
def test_the_longest_item_of_a_step_is_the_profile_s(name, tokens):
    """models/gemma4_mm.py: 32 frames of 78 tokens. models/gemma3_mm.py: 256 and four of text. Others cut items up."""
    assert longest_whole(load_model(name), rules(NEWEST)) == tokens


@pytest.mark.parametrize(
    ("target", "draft", "tp", "context", "blocks", "tokens"),
    [
        (  # chunks are kept whole beside a draft
            "llama-4-scout", eagle(5120, 32768, 40, 8, vocab_size=202048, max_position_embeddings=131072), 8, 131072,
            106_997, 1_711_952,
        ),
        (  # latents beside a draft of heads
            "deepseek-v2-lite", eagle(2048, 10944, 16, 16, vocab_size=102400, max_position_embeddings=163840), 1, 4096, 68_311, 1_092_976,
        ),
    ],
    ids=["chunks", "latents"],
)  # fmt: skip
def test_drafts_by_a_head(target, draft, tp, context, blocks, tokens):
    """With 40 GiB on an H100 and three tokens drafted, from vLLM 0.33's planner."""
    model = with_draft(load_model(target), draft)
    engine, card, options = Vllm(), load_gpu("h100"), Options(speculative_tokens=3)
    made = engine.start(Setup(model, card, Parallel(tp=tp), engine.kv_format(model, None, card), options, context)).made
    found = allocate.pool(made, 40 * GIB)
    assert (found.blocks, found.tokens) == (blocks, tokens)


MISTRAL = {
    "model_type": "mistral", "architectures": ["MistralForCausalLM"], "hidden_size": 3584, "intermediate_size": 8192,
    "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 32000,
    "max_position_embeddings": 32768, "torch_dtype": "bfloat16",
}  # fmt: skip


@pytest.mark.parametrize(
    ("target", "own", "windows"),
    [
        ({"sliding_window": None}, {"sliding_window": 512}, {None}),
        ({"sliding_window": 4096}, {}, {4096}),
        ({"sliding_window": 4096}, {"sliding_window": 512}, {4096}),
        ({"sliding_window": None}, {"sliding_window": 512, "layer_types": ["sliding_attention"]}, {512}),
    ],
)
def test_a_draft_has_the_target_s_window_unless_it_lists_its_layers(target, own, windows):
    """Asked of vLLM 0.33's planner, of a Mistral and of a Qwen2.5 with a Llama that drafts."""
    config = {**MISTRAL, "num_hidden_layers": 1, **own}
    draft = read(config, Origin("a draft", "a test"))
    model = with_draft(read({**MISTRAL, **target}, Origin("a checkpoint", "a test")), draft)
    assert {cache.window for layer in draft_layers(model, rules()) for cache in layer.caches} == windows


@pytest.mark.parametrize("name", ["mixtral-8x7b", "qwen3-30b-a3b"])
def test_classes_that_don_t_look_at_single_layers(name):
    """Asked of vLLM 0.33's planner: with three windows to a full layer in the list, every layer keeps every token."""
    config = bundled_document(name).config
    kinds = (["sliding_attention"] * 3 + ["full_attention"]) * (config["num_hidden_layers"] // 4)
    fields = {"layer_types": kinds, "sliding_window": 4096, "use_sliding_window": True}
    model = read({**config, **fields}, Origin("a checkpoint", "a test"))
    assert {group.layers[0].spec.kind for group in started(model, "h100").layout.groups} == {"full"}


@pytest.mark.parametrize(
    ("fields", "starts"),
    [
        ({"use_sliding_window": False}, False),
        ({"sliding_window": None}, False),
        ({"use_sliding_window": False, "max_window_layers": 36}, True),
    ],
)
def test_a_list_of_two_kinds_needs_max_window_layers(fields, starts):
    """vLLM 0.33 models/qwen2.py looks at the list itself, whether there is a window or not; the default is 28."""
    kinds = ["sliding_attention", "full_attention"] * 18
    qwen = {key: value for key, value in bundled_document("qwen3-8b").config.items() if key != "max_window_layers"}
    model = read({**qwen, "sliding_window": 2048, "layer_types": kinds, **fields}, Origin("a checkpoint", "a test"))
    if starts:
        assert started(model, "h100").request
    else:
        with pytest.raises(Unsupported, match="doesn't load"):
            started(model, "h100")


INKLING = {
    "architectures": ["InklingForConditionalGeneration"], "model_type": "inkling_mm_model",
    "text_config": {
        "model_type": "inkling_text", "vocab_size": 201024, "hidden_size": 1024, "num_hidden_layers": 12, "num_attention_heads": 16,
        "num_key_value_heads": 8, "head_dim": 128, "swa_num_attention_heads": 16, "swa_num_key_value_heads": 16, "swa_head_dim": 128,
        "sliding_window_size": 512, "local_layer_ids": [0, 1, 2, 3, 4, 6, 7, 8, 9, 10], "max_position_embeddings": 131072,
        "layer_types": (["hybrid_sliding"] * 5 + ["hybrid"]) * 2, "conv_kernel_size": 4, "sconv_kernel_size": 4, "intermediate_size": 512,
        "dense_intermediate_size": 2048, "moe_intermediate_size": 512, "n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1,
        "torch_dtype": "bfloat16", "d_rel": 16, "rel_extent": 1024,
    },
}  # fmt: skip


def test_convolutions_in_pages_are_windows():
    """A row of 2 x 128 + 2 x 1024/16 = 384 is kept in 512 numbers of 16 bit, one for each of 16 heads; 512 in 512, for 8."""
    made = started(read(INKLING, Origin("a checkpoint", "a test")), "h100")
    streams = {spec for group in made.layout.groups for spec in group.specs if spec.span == 4}
    assert {spec.state / spec.block for spec in streams} == {16 * 512 * 2, 8 * 512 * 2}


QWEN_35_4B = {
    "model_type": "qwen3_5", "architectures": ["Qwen3_5ForConditionalGeneration"], "tie_word_embeddings": True,
    "text_config": {
        "hidden_size": 2560, "num_hidden_layers": 32, "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 256,
        "intermediate_size": 9216, "vocab_size": 248320, "linear_num_key_heads": 16, "linear_key_head_dim": 128,
        "linear_num_value_heads": 32, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "mamba_ssm_dtype": "float32",
        "max_position_embeddings": 262144, "layer_types": ["linear_attention"] * 3 + ["full_attention"], "attn_output_gate": True,
    },
}  # fmt: skip
QWEN_35_4B["text_config"]["layer_types"] *= 8


@pytest.mark.parametrize(
    ("gpu", "version", "context", "tokens", "concurrency"),
    [
        # two public logs of vLLM 0.20.1 on an Arc B580, with 500 MiB for the cache; 0.33's platforms/xpu.py says the same
        ("arc-b580", (0, 20, 1), 5120, 11520, 2.25),
        ("arc-b580", (0, 20, 1), 1024, 5529, 5.40),
    ],
)
def test_blocks_beside_gated_delta_nets_on_intel(gpu, version, context, tokens, concurrency):
    loaded, engine, card = read(QWEN_35_4B, Origin("qwen3.5-4b", "a test")), Vllm(version), load_gpu(gpu)
    kv = engine.kv_format(loaded, None, card)
    found = engine.start(Setup(loaded, card, Parallel(), kv, Options(), context)).capacity(500 * 2**20)
    assert found.kv_tokens == tokens
    assert round(found.max_concurrency, 2) == concurrency


@pytest.mark.parametrize(
    ("gpu", "version", "block"),
    [("arc-b580", (0, 20, 0), 576), ("h100", (0, 20, 0), 528)],
)
def test_only_intels_kernel_wants_multiples_of_64(gpu, version, block):
    """A state is 49,152 + 2,097,152 B, a token of attention 4,096 B: 524 tokens, in blocks of 16 on NVIDIA."""
    loaded, engine, card = read(QWEN_35_4B, Origin("qwen3.5-4b", "a test")), Vllm(version), load_gpu(gpu)
    assert (
        engine.start(Setup(loaded, card, Parallel(), engine.kv_format(loaded, None, card), Options(), 5120)).made.block
        == block
    )


@pytest.mark.parametrize(("kept", "taken"), [("fp8", True), ("q8_0:f16", False)])
def test_what_a_description_says_of_the_cache_is_meant(kept, taken, tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text(f'kvplan: 1\nname: own\nlayers: 32\nkv_heads: 8\nhead_dim: 128\nkv_dtype: "{kept}"\n')
    own, model = Vllm(), load_model(str(path))
    chosen = own.kv_format(model, None, load_gpu("h100"))
    asked = (model, load_gpu("h100"), Parallel(), chosen, Options(), 1024)
    if taken:
        assert own.start(Setup(*asked)).made.stages == (16 * 32 * 2 * 8 * 128,)
    else:
        with pytest.raises(UsageError, match="q8_0") as refused:
            own.start(Setup(*asked))
        said = refused.value.problem
        assert f"kv_dtype in {path}" in str(said.cause)
        assert said.hint == "--kv-dtype bf16, another kv_dtype there, or --engine ideal"


def test_a_description_s_other_sixteen_bit_cache_has_a_way_out(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text('kvplan: 1\nname: own\nlayers: 32\nkv_heads: 8\nhead_dim: 128\nkv_dtype: "bf16"\n')
    with pytest.raises(UsageError, match="keeps no bfloat16 cache") as refused:
        started(load_model(str(path)), "t4")
    assert str(refused.value.problem.hint).startswith("--kv-dtype fp16,")
    assert started(load_model(str(path)), "t4", kv="fp16").request


@pytest.mark.parametrize(("dim", "starts"), [(None, True), (128, True), (80, False)])
def test_classes_that_divide_the_hidden_size_take_no_other_head(dim, starts):
    """vLLM 0.33 models/qwen2.py: head_dim = hidden_size // total_num_heads, whatever the config says."""
    config = bundled_document("qwen2.5-7b").config
    model = read(config if dim is None else {**config, "head_dim": dim}, Origin("a checkpoint", "a test"))
    if starts:
        assert started(model, "h100").request
    else:
        with pytest.raises(Unsupported, match="doesn't load"):
            started(model, "h100")


LLAMA_8B = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192, "torch_dtype": "bfloat16",
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "said"),
    [
        # asked of vLLM 0.33: "Should have a `model_type` key in its config.json"
        ({**LLAMA_8B, "model_type": None}, "states no model_type"),
        # 'Llama4TextConfig' object has no attribute 'vision_config'
        ({**LLAMA_8B, "model_type": "llama4_text", "architectures": ["Llama4ForConditionalGeneration"]}, "text model and towers"),
        # TypeError: 'NoneType' object is not subscriptable
        ({"architectures": ["GraniteMoeHybridForCausalLM"], "model_type": "granitemoehybrid", "num_hidden_layers": 32, "layer_types": None}, "layer_types"),
        ({"architectures": ["Step5ForCausalLM"], **{k: v for k, v in LLAMA_8B.items() if k != "architectures"}, "model_type": "step5"}, "sparse_config"),
    ],
)  # fmt: skip
def test_configs_that_are_not_read(config, said):
    with pytest.raises(NotServed, match="read the config") as refused:
        started(read(config, Origin("a checkpoint", "a test")), "h100")
    assert said in (refused.value.problem.cause or "")


@pytest.mark.parametrize(
    ("scaling", "starts"),
    [
        ({"rope_type": "linear", "factor": 4.0}, False),
        ({"rope_type": "linear", "factor": 4.0, "original_max_position_embeddings": 4096}, True),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}, True), (None, True),
    ],
)  # fmt: skip
def test_every_rotation_is_taken_for_yarn(scaling, starts):
    """vLLM 0.33 models/deepseek_v2.py: KeyError: 'original_max_position_embeddings'."""
    model = latents(
        model_type="deepseek_v3", architectures=["DeepseekV3ForCausalLM"], num_hidden_layers=2, rope_scaling=scaling
    )
    if starts:
        assert started(model, "h100").stages
    else:
        with pytest.raises(NotServed, match="rotary positions"):
            started(model, "h100")


def test_layers_that_the_class_lists_for_any_number():
    """vLLM 0.33's planner of LFM2-1.2B without its lists: all 16 layers attend. Transformers 5.23 fills full_attn_idxs with all."""
    config = dict(bundled_document("lfm2-1.2b").config)
    silent = {name: value for name, value in config.items() if name not in ("layer_types", "full_attn_idxs")}
    assert in_blocks(silent) == (81_920, 1_310_720)


def test_an_old_name_that_phi_3_turns_into_another():
    """vLLM 0.33: its class calls yarn longrope, and finds the old name beside it; told by the new name it isn't."""
    config = dict(bundled_document("phi-4-mini").config)
    scaling = {name: value for name, value in config["rope_scaling"].items() if name.endswith("_factor")}
    with pytest.raises(NotServed) as caught:
        in_blocks({**config, "rope_scaling": {**scaling, "type": "yarn"}})
    assert "'type=yarn' (legacy field)" in (caught.value.problem.cause or "")
    assert in_blocks({**config, "rope_scaling": {**scaling, "rope_type": "longrope"}})


@pytest.mark.parametrize("lacking", ["beta_fast", "beta_slow"])
def test_a_rotation_whose_class_reads_more_than_others(lacking):
    """vLLM 0.33 models/gpt_oss.py: KeyError: 'beta_fast'."""
    config = dict(bundled_document("gpt-oss-20b").config)
    scaling = {name: value for name, value in config["rope_scaling"].items() if name != lacking}
    with pytest.raises(NotServed) as caught:
        in_blocks({**config, "rope_scaling": scaling})
    assert f"states no {lacking}" in (caught.value.problem.cause or "")


def test_a_null_that_vllm_s_own_class_takes():
    """vLLM 0.33 reads inkling_mm_model by a class of its own, which isn't strict; the library's is."""
    model = replace(read(dict(bundled_document("llama-3.1-8b").config), Origin("a", "b")), whole="inkling_mm_model")
    unread.check(replace(model, traits=(*model.traits, f"{NULLED}=image_token_id")), rules(NEWEST))
