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

SPELLED: dict[str, Spelling] = {
    **dict.fromkeys(("mixtral", "phimoe", "minimax_m2", "granitemoe", "granitemoeshared"), Spelling(pairs=_SPARSE)),
    **dict.fromkeys(
        ("minimax_m3_vl_text", "minimax_m3"),
        Spelling(pairs=(*_SPARSE, ("self_attn.indexer.", "self_attn.index_"))),
    ),
    "deepseek_v4": Spelling(pairs=(("self_attn.", "attn."), ("mlp.", "ffn."))),
    "nemotron_h": Spelling(pairs=_MIXER),
    **dict.fromkeys(("jamba", "bamba", "falcon_h1", "llama4_text", "lfm2", "lfm2_moe"), Spelling(pairs=_FORWARD)),
    "internlm2": Spelling(
        pairs=(*_joined("attention.wqkv"), ("self_attn.o_proj", "attention.wo"), ("self_attn.", "attention."), *_FORWARD)
    ),
    "baichuan": Spelling(pairs=_joined("self_attn.W_pack")),
    "starcoder2": Spelling(pairs=_CONV),
    "phi": Spelling(pairs=(("self_attn.o_proj", "self_attn.dense"), ("mlp.up_proj", "mlp.fc1"), ("mlp.down_proj", "mlp.fc2"))),
    "persimmon": Spelling(
        pairs=(*_joined("self_attn.query_key_value"), ("self_attn.o_proj", "self_attn.dense"), *_FOUR_H)
    ),
    "opt": Spelling(pairs=(("self_attn.o_proj", "self_attn.out_proj"), ("mlp.up_proj", "fc1"), ("mlp.down_proj", "fc2"))),
    "gpt_neox": Spelling("gpt_neox.layers", _NEOX),
    **dict.fromkeys(("gpt2", "gpt-sw3", "gpt_bigcode"), Spelling("transformer.h", _GPT2)),
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
