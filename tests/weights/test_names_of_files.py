"""Tensors that are called otherwise than the config's weights, or that are no weights, on hand-made checkpoints."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvplan.arch.model import Origin
from kvplan.arch.parallel import Parallel
from kvplan.arch.weights import ONE_GPU, Weights
from kvplan.engines.vllm.layout.views import vllm
from kvplan.families import read
from kvplan.sources.checkpoints.measured import accounts_for, lacks_head, measured
from kvplan.sources.checkpoints.places import places
from kvplan.sources.checkpoints.tensors import Headers, Tensor

HIDDEN, INNER, VOCABULARY, LAYERS = 256, 512, 1024, 2
LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": HIDDEN, "intermediate_size": INNER,
    "num_hidden_layers": LAYERS, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": VOCABULARY,
    "max_position_embeddings": 128, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
TABLE, NORM, MATRIX, WIDE = 2 * VOCABULARY * HIDDEN, 2 * HIDDEN, 2 * HIDDEN * HIDDEN, 2 * HIDDEN * INNER


def weights(**fields: object) -> Weights:
    found = read({**LLAMA, **fields}, Origin("a model", "a test")).weights
    assert found is not None
    return found


def bf16(name: str, *shape: int) -> Tensor:
    size = 2
    for each in shape:
        size *= each
    return Tensor(name, "BF16", shape, size)


def layer(number: int) -> list[Tensor]:
    inside = f"model.layers.{number}."
    found = [bf16(f"{inside}self_attn.{name}_proj.weight", HIDDEN, HIDDEN) for name in "qkvo"]
    found += [bf16(f"{inside}mlp.{name}_proj.weight", INNER, HIDDEN) for name in ("gate", "up")]
    found += [bf16(f"{inside}mlp.down_proj.weight", HIDDEN, INNER)]
    return found + [bf16(f"{inside}{name}.weight", HIDDEN) for name in ("input_layernorm", "post_attention_layernorm")]


BODY = [tensor for number in range(LAYERS) for tensor in layer(number)]
ENDS = [
    bf16("model.embed_tokens.weight", VOCABULARY, HIDDEN),
    bf16("model.norm.weight", HIDDEN),
    bf16("lm_head.weight", VOCABULARY, HIDDEN),
]


def headers(*tensors: Tensor) -> Headers:
    return Headers(tensors, 1, 0, "a test")


def test_embeddings_and_norms_are_found_by_shape():
    """backbone.embeddings and norm_f, as Mamba-2 and Nemotron-H call them; a scale beside, so that bytes differ."""
    renamed = [
        bf16("backbone.embeddings.weight", VOCABULARY, HIDDEN), bf16("backbone.norm_f.weight", HIDDEN),
        bf16("lm_head.weight", VOCABULARY, HIDDEN), bf16("model.layers.0.self_attn.q_proj.scale", 2),
    ]  # fmt: skip
    found = measured(places(weights(), headers(*BODY, *renamed)))
    ends = {weight.name: weight.bytes_on_rank(ONE_GPU) for weight in (*found.first, *found.last)}
    assert ends == {"model.embed_tokens": TABLE, "model.norm": NORM, "lm_head": TABLE}


def test_buffers_are_no_weights():
    """The mask that old files of GPT-2 keep, rotary frequencies: in the file, in no engine."""
    mask = Tensor("h.0.attn.bias", "F32", (1, 1, 1024, 1024), 4 << 20)
    frequencies = Tensor("model.layers.1.self_attn.rotary_emb.inv_freq", "F32", (32,), 128)
    files = headers(*BODY, *ENDS, mask, frequencies)
    found = measured(places(weights(), files))
    assert found.bytes == files.bytes - (4 << 20) - 128 == weights().bytes
    assert accounts_for(found, places(weights(), files))


def test_a_head_beside_the_embedding_that_it_is_isnt_counted():
    tied = weights(tie_word_embeddings=True)
    files = headers(*BODY, *ENDS)
    found = measured(places(tied, files))
    assert found.bytes == files.bytes - TABLE == tied.bytes
    assert accounts_for(found, places(tied, files))


def test_a_head_that_the_config_says_and_the_files_lack_is_doubted():
    """vLLM builds it all the same, so the config's formula is used."""
    files = headers(*BODY, *ENDS[:2])
    found = measured(places(weights(), files))
    assert found.bytes == files.bytes + TABLE
    assert not accounts_for(found, places(weights(), files))


def test_scales_of_rows_are_copied_to_ranks_that_share_the_inputs():
    """8 bit with a 16-bit scale a row: on 2 ranks o_proj has half its elements and all 256 scales; vLLM keeps them in 32 bit."""
    scheme = {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True}
    block = {
        "quant_method": "compressed-tensors", "format": "float-quantized", "ignore": ["lm_head"],
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": scheme}},
    }  # fmt: skip
    body = []
    for tensor in BODY:
        if tensor.name.endswith("_proj.weight"):
            body += [replace(tensor, bytes=tensor.bytes // 2), bf16(f"{tensor.name}_scale", tensor.shape[0], 1)]
        else:
            body.append(tensor)
    found = measured(places(weights(quantization_config=block), headers(*body, *ENDS)))
    output = next(weight for weight in found.layers[0] if weight.name.endswith("o_proj"))
    assert output.bytes_on_rank(Parallel(tp=2)) == HIDDEN * HIDDEN // 2 + 2 * HIDDEN
    assert output.bytes_on_rank(Parallel(tp=2), vllm("llama")) == HIDDEN * HIDDEN // 2 + 4 * HIDDEN


def test_bitsandbytes_names_its_scales_after_the_weight():
    """weight.absmax and its kin belong to the matrix: ranks share them."""
    block = {
        "quant_method": "bitsandbytes",
        "load_in_4bit": True,
        "bnb_4bit_quant_type": "nf4",
        "bnb_4bit_use_double_quant": False,
    }
    body = []
    for tensor in BODY:
        if tensor.name.endswith("_proj.weight"):
            elements = tensor.bytes // 2
            body += [
                Tensor(tensor.name, "U8", (elements // 2, 1), elements // 2),
                Tensor(f"{tensor.name}.absmax", "F32", (elements // 64,), elements // 16),
                Tensor(f"{tensor.name}.quant_map", "F32", (16,), 64),
                Tensor(f"{tensor.name}.quant_state.bitsandbytes__nf4", "U8", (83,), 83),
            ]
        else:
            body.append(tensor)
    found = measured(places(weights(quantization_config=block), headers(*body, *ENDS)))
    query = next(weight for weight in found.layers[0] if weight.name.endswith("q_proj"))
    assert query.bytes_on_rank(ONE_GPU) == HIDDEN * HIDDEN // 2 + HIDDEN * HIDDEN // 16 + 64 + 83
    assert query.bytes_on_rank(Parallel(tp=2)) == pytest.approx(query.bytes_on_rank(ONE_GPU) / 2, abs=150)


def test_a_head_by_another_name_is_no_second_embedding():
    """ChatGLM calls it output_layer; both tables have one shape."""
    renamed = [
        bf16("transformer.embedding.word_embeddings.weight", VOCABULARY, HIDDEN), bf16("transformer.final_norm.weight", HIDDEN),
        bf16("transformer.output_layer.weight", VOCABULARY, HIDDEN), bf16("model.layers.0.self_attn.q_proj.scale", 2),
    ]  # fmt: skip
    files = headers(*BODY, *renamed)
    found = measured(places(weights(), files))
    ends = {weight.name: weight.bytes_on_rank(ONE_GPU) for weight in (*found.first, *found.last)}
    assert ends == {"model.embed_tokens": TABLE, "model.norm": NORM, "lm_head": TABLE}
    assert not lacks_head(places(weights(), files))
    assert lacks_head(places(weights(), headers(*BODY, *renamed[:2])))


def test_experts_hold_exactly_the_bytes_of_their_files():
    """Eight of 384 elements and 5 bytes beside: no eighth of them is a whole byte, and none is added."""
    moe = {"model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "decoder_sparse_step": 1, "mlp_only_layers": [], "head_dim": 64}  # fmt: skip
    known = weights(**moe)
    ends = {weight.name for weight in (*known.first, *known.last)}
    tensors = [bf16(f"{weight.name}.weight", *weight.shape) for weight in (*known.first, *known.last)]
    for number, block in enumerate(known.layers):
        for weight in block:
            names = [weight.name.replace("experts.0", f"experts.{expert}") for expert in range(weight.copies)]
            tensors += [bf16(f"model.layers.{number}.{name}.weight", *weight.shape) for name in names]
    tensors.append(Tensor("model.layers.0.mlp.experts.3.up_proj.weight_scale", "U8", (5,), 5))
    assert ends == {"model.embed_tokens", "model.norm", "lm_head"}
    files = headers(*tensors)
    assert measured(places(known, files)).bytes == files.bytes == known.bytes + 5
