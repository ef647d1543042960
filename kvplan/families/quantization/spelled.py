"""How checkpoints of a family call the modules of a layer, where it isn't as here, for their lists of quantized modules.

Source: the state dicts of transformers 5.23 models/*, and of the modeling files beside checkpoints with code of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Spelling:
    """stem: what stands before a layer's number. pairs: (beginning of a name here, as it is written there)."""

    stem: str = "layers"
    pairs: Pairs = ()


def _joined(name: str) -> Pairs:
    """Queries, keys and values in one matrix."""
    return tuple((f"self_attn.{each}_proj", name) for each in "qkv")


def _renamed(inside: str, **names: str) -> Pairs:
    """Modules of one parent that have other names: up_proj="fc1" within "mlp." is ("mlp.up_proj", "fc1")."""
    return tuple((f"{inside}{ours}", theirs) for ours, theirs in names.items())


_SPARSE: Pairs = (("mlp.", "block_sparse_moe."),)
_FORWARD: Pairs = (("mlp.", "feed_forward."),)
_MIXER: Pairs = (("self_attn.", "mixer."), ("mamba.", "mixer."), ("mlp.", "mixer."))
_FOUR_H: Pairs = (("mlp.up_proj", "mlp.dense_h_to_4h"), ("mlp.down_proj", "mlp.dense_4h_to_h"))
_SELF: Pairs = (
    *_joined("self_attention.query_key_value"),
    ("self_attn.o_proj", "self_attention.dense"),
    *_FOUR_H,
)
_CONV: Pairs = (("mlp.up_proj", "mlp.c_fc"), ("mlp.down_proj", "mlp.c_proj"))
_GPT2: Pairs = (*_joined("attn.c_attn"), ("self_attn.o_proj", "attn.c_proj"), *_CONV)
_FC: Pairs = (("mlp.up_proj", "mlp.fc_in"), ("mlp.down_proj", "mlp.fc_out"))
_NEOX: Pairs = (*_joined("attention.query_key_value"), ("self_attn.o_proj", "attention.dense"), *_FOUR_H)
_OUT: Pairs = (("self_attn.o_proj", "self_attn.out_proj"),)
_BART: Pairs = (*_OUT, *_renamed("mlp.", up_proj="fc1", down_proj="fc2"))
_T5: Pairs = (
    *((f"self_attn.{each}_proj", f"layer.0.SelfAttention.{each}") for each in "qkvo"),
    *((f"encoder_attn.{each}_proj", f"layer.1.EncDecAttention.{each}") for each in ("q", "k", "v")),
    ("encoder_attn.out_proj", "layer.1.EncDecAttention.o"), ("mlp.wi_0", "mlp.wi"),
    ("mlp.", "layer.2.DenseReluDense."), ("mlp.", "layer.1.DenseReluDense."),
)  # fmt: skip
_GRANITE: Pairs = (
    *_SPARSE,
    *_renamed("mlp.experts.0.", gate_proj="block_sparse_moe.input_linear", up_proj="block_sparse_moe.input_linear",
              down_proj="block_sparse_moe.output_linear"),
    *_renamed("shared_mlp.", gate_proj="shared_mlp.input_linear", up_proj="shared_mlp.input_linear",
              down_proj="shared_mlp.output_linear"),
    ("mlp.gate", "block_sparse_moe.router.layer"),
)  # fmt: skip
_INKLING: Pairs = (
    *_renamed("self_attn.", q_proj="attn.wq_du", k_proj="attn.wk_dv", v_proj="attn.wv_dv", o_proj="attn.wo_ud",
              r_proj="attn.wr_du", gate_proj="attn.gate_attn", sink_proj="attn.attn_sink_proj"),
    *_renamed("mlp.experts.0.", gate_proj="mlp.experts.w13_weight", up_proj="mlp.experts.w13_weight",
              down_proj="mlp.experts.w2_weight"),
    *_renamed("mlp.shared_experts.", gate_proj="mlp.shared_experts.shared_w13_weight",
              up_proj="mlp.shared_experts.shared_w13_weight", down_proj="mlp.shared_experts.shared_w2_weight"),
)  # fmt: skip
_DELTA: Pairs = _renamed(
    "linear_attn.", in_proj_qkv="linear_attn.in_proj_qkvz", in_proj_z="linear_attn.in_proj_qkvz",
    in_proj_b="linear_attn.in_proj_ba", in_proj_a="linear_attn.in_proj_ba",
)  # fmt: skip


def _zamba(shared: str) -> Pairs:
    """Blocks that several layers share, which stand here before the first layer."""
    return (
        ("mamba.", "mamba_decoder.mamba."), ("shared.", f"{shared}.self_attn."), ("shared.", f"{shared}.feed_forward."),
    )  # fmt: skip


SPELLED: dict[str, Spelling] = {
    **dict.fromkeys(("mixtral", "phimoe", "minimax_m2", "minimax", "minimax_text_01", "kimi_linear"), Spelling(pairs=_SPARSE)),
    **dict.fromkeys(("granitemoe", "granitemoeshared", "granitemoehybrid", "granitemoe_swa"), Spelling(pairs=_GRANITE)),
    **dict.fromkeys(
        ("minimax_m3_vl_text", "minimax_m3"),
        Spelling(pairs=(*_SPARSE, ("self_attn.indexer.", "self_attn.index_"))),
    ),
    "deepseek_v4": Spelling(
        pairs=(
            *_renamed("self_attn.", q_a_proj="attn.wq_a", q_b_proj="attn.wq_b", kv_proj="attn.wkv", o_a_proj="attn.wo_a", o_b_proj="attn.wo_b"),
            ("indexer.q_b_proj", "attn.indexer.wq_b"), ("indexer.", "attn.indexer."), ("self_attn.", "attn."), ("mlp.", "ffn."),
        )
    ),
    "mistral_large4_text": Spelling(
        pairs=(
            *_renamed("self_attn.", q_proj="attention.wq", kv_a_proj_with_mqa="attention.wkv_a_with_mqa", kv_b_proj="attention.wkv_b",
                      o_proj="attention.wo"),
            ("self_attn.", "attention."), ("mlp.shared_experts.", "shared_experts."), ("mlp.experts.", "experts."), *_FORWARD,
        )
    ),
    "glm_moe_dsa": Spelling(pairs=(("self_attn.indexer.weights_proj", "self_attn.indexers_proj"),)),
    "nemotron_h": Spelling(pairs=_MIXER),
    **dict.fromkeys(("ernie4_5_vl_moe_text", "ernie4_5_moe_vl"), Spelling(pairs=(("mlp.text_moe.", "mlp."),))),
    "hy_v4": Spelling(
        pairs=tuple(
            (f"{inside}.gate_proj", f"{inside}.linear_gate") for inside in ("self_attn", "mlp", "mlp.shared_experts")
        )
    ),
    **dict.fromkeys(("mamba", "mamba2", "falcon_mamba"), Spelling("backbone.layers", _MIXER)),
    **dict.fromkeys(("jamba", "bamba", "falcon_h1", "llama4_text"), Spelling(pairs=_FORWARD)),
    **dict.fromkeys(("lfm2", "lfm2_moe"), Spelling(pairs=(*_OUT, *_FORWARD))),
    "lfm3": Spelling(pairs=(*_OUT, ("self_attn.g_proj", "self_attn.gate_proj"), *_FORWARD)),
    "qwen3_next": Spelling(pairs=_DELTA),
    "laguna": Spelling(pairs=(("mlp.shared_experts.", "mlp.shared_expert."),)),
    "hy_v3": Spelling(pairs=(("mlp.shared_experts.", "mlp.shared_mlp."),)),
    **dict.fromkeys(("step3p7", "step3p7_text", "step3p5"), Spelling(pairs=(("mlp.experts.0.", "moe."),))),
    "axk2": Spelling(pairs=(("self_attn.q_gate_proj", "self_attn.q_b_proj"),)),
    "aria_text": Spelling(
        pairs=_renamed("mlp.experts.0.", gate_proj="mlp.experts.fc1", up_proj="mlp.experts.fc1", down_proj="mlp.experts.fc2")
    ),
    "jetmoe": Spelling(
        pairs=(
            ("self_attn.experts.0.", "self_attention.experts."), ("self_attn.", "self_attention."),
            *_renamed("mlp.experts.0.", gate_proj="mlp.input_linear", up_proj="mlp.input_linear", down_proj="mlp.output_linear"),
        )
    ),
    "zaya": Spelling(
        pairs=tuple((f"self_attn.{each}_proj", f"self_attn.qkv_proj.{each}_proj") for each in "qkv"),
    ),
    "longcat_flash": Spelling(pairs=(("self_attn.", "self_attn.0."), ("self_attn.", "self_attn.1."))),
    **dict.fromkeys(("inkling_text", "inkling2_text"), Spelling(pairs=_INKLING)),
    "recurrent_gemma": Spelling(
        pairs=(
            ("mlp.", "mlp_block."), ("self_attn.", "temporal_block."), ("linear_", "temporal_block.linear_"),
            ("rg_lru.", "temporal_block.rg_lru."),
        )
    ),
    "olmo_hybrid": Spelling(
        pairs=_renamed("linear_attn.", in_proj_z="linear_attn.g_proj", in_proj_b="linear_attn.b_proj",
                       in_proj_a="linear_attn.a_proj", out_proj="linear_attn.o_proj"),
    ),
    **dict.fromkeys(("rwkv", "rwkv5"), Spelling("rwkv.blocks", (("att.", "attention."), ("ff.", "feed_forward.")))),
    "zamba": Spelling(pairs=_zamba("shared_transf")),
    "zamba2": Spelling(pairs=_zamba("shared_transformer")),
    "internlm2": Spelling(
        pairs=(*_joined("attention.wqkv"), ("self_attn.o_proj", "attention.wo"), ("self_attn.", "attention."), *_FORWARD)
    ),
    "baichuan": Spelling(pairs=_joined("self_attn.W_pack")),
    "starcoder2": Spelling(pairs=_CONV),
    "nanochat": Spelling(pairs=_renamed("mlp.", up_proj="mlp.fc1", down_proj="mlp.fc2")),
    "phi": Spelling(pairs=(("self_attn.o_proj", "self_attn.dense"), ("mlp.up_proj", "mlp.fc1"), ("mlp.down_proj", "mlp.fc2"))),
    "persimmon": Spelling(
        pairs=(*_joined("self_attn.query_key_value"), ("self_attn.o_proj", "self_attn.dense"), *_FOUR_H)
    ),
    **dict.fromkeys(
        (
            "opt", "bart", "plbart", "mvp", "mbart", "m2m_100", "marian", "blenderbot", "blenderbot-small", "pegasus", "bigbird_pegasus",
            "trocr", "whisper", "xglm", "biogpt",
        ),
        Spelling("decoder.layers", _BART),
    ),
    **dict.fromkeys(("t5", "mt5", "umt5"), Spelling("decoder.block", _T5)),
    "modernbert-decoder": Spelling(
        pairs=(
            ("self_attn.o_proj", "attn.Wo"), ("self_attn.", "attn."),
            *_renamed("mlp.", gate_proj="mlp.Wi", up_proj="mlp.Wi", down_proj="mlp.Wo"),
        )
    ),
    "ctrl": Spelling(
        "transformer.h",
        (
            *((f"self_attn.{each}_proj", f"multi_head_attention.W{each}") for each in "qkv"),
            ("self_attn.o_proj", "multi_head_attention.dense"), *_renamed("mlp.", up_proj="ffn.0", down_proj="ffn.2"),
        ),
    ),
    "gpt_neox": Spelling("gpt_neox.layers", _NEOX),
    "gpt_neox_japanese": Spelling("gpt_neox_japanese.layers", _NEOX),
    **dict.fromkeys(("gpt2", "gpt-sw3", "gpt_bigcode", "openai-gpt"), Spelling("transformer.h", _GPT2)),
    "gpt_neo": Spelling(
        "transformer.h", (("self_attn.o_proj", "attn.attention.out_proj"), ("self_attn.", "attn.attention."), *_CONV)
    ),
    "gptj": Spelling("transformer.h", (("self_attn.o_proj", "attn.out_proj"), ("self_attn.", "attn."), *_FC)),
    "codegen": Spelling("transformer.h", (*_joined("attn.qkv_proj"), ("self_attn.o_proj", "attn.out_proj"), *_FC)),
    **dict.fromkeys(("falcon", "RefinedWeb", "RefinedWebModel", "bloom"), Spelling("transformer.h", _SELF)),
    "chatglm": Spelling("transformer.encoder.layers", _SELF),
    "mpt": Spelling(
        "transformer.blocks", (*_joined("attn.Wqkv"), ("self_attn.o_proj", "attn.out_proj"), ("mlp.", "ffn."))
    ),
    "qwen": Spelling(
        "transformer.h",
        (
            *_joined("attn.c_attn"), ("self_attn.o_proj", "attn.c_proj"),
            ("mlp.up_proj", "mlp.w1"), ("mlp.gate_proj", "mlp.w2"), ("mlp.down_proj", "mlp.c_proj"),
        ),
    ),
    "exaone": Spelling(
        "transformer.h",
        (
            ("self_attn.o_proj", "attn.attention.out_proj"), ("self_attn.", "attn.attention."), ("mlp.gate_proj", "mlp.c_fc_0"),
            ("mlp.up_proj", "mlp.c_fc_1"), ("mlp.down_proj", "mlp.c_proj"),
        ),
    ),
}  # fmt: skip
"""By model type; the others are written as here."""

ORDINARY = Spelling()
