"""Vision and audio towers and what projects their output into the text model, as data.

A tower is a stack of its own beside the text model, read from its own object of the config. Shapes were read from
transformers 5.23.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from kvplan.arch.weights import Component
from kvplan.families.weights.symbols import ConfigSymbols

Given = Mapping[str, int | bool | str]


@dataclass(frozen=True, slots=True)
class Tower:
    """One stack: ends once, layer `count` times. given, fallback, more: as in a Family."""

    ends: str
    layer: str = ""
    count: str = "layers"
    given: Given = field(default_factory=dict)
    fallback: Given = field(default_factory=dict)
    more: Callable[[ConfigSymbols], Given] | None = None
    also: tuple[tuple[str, str], ...] = ()
    """Further stacks, as (count, layer)."""


def encoder_layer(
    bias: str = "+",
    norm: str = "+",
    mlp: str = "plain",
    mlp_bias: str = "+",
    more: str = "",
    k_bias: str | None = None,
    o_bias: str | None = None,
) -> str:
    """A transformer layer of width H: four projections, an MLP, two norms."""
    ffn = (
        f"mlp.fc1[~I,H]{mlp_bias} mlp.fc2[H,~I]{mlp_bias}"
        if mlp == "plain"
        else f"mlp.gate_proj[~I,H]{mlp_bias} mlp.up_proj[~I,H]{mlp_bias} mlp.down_proj[H,~I]{mlp_bias}"
    )
    k, o = bias if k_bias is None else k_bias, bias if o_bias is None else o_bias
    return (
        f"attn.q_proj[~H,H]{bias} attn.k_proj[~H,H]{k} attn.v_proj[~H,H]{bias} attn.o_proj[H,~H]{o}"
        f" {ffn} norm1[H]{norm} norm2[H]{norm} {more}"
    )


def whole_attention(text: str) -> str:
    """The same with attention whole on every rank, and the rest shared. Source: vLLM 0.33 models/interns1_vit.py."""
    return " ".join(whole(word) if word.startswith("attn.") else word for word in text.split(" "))


def whole(text: str) -> str:
    """The same tensors, whole on every rank: towers that engines run as transformers wrote them."""
    return text.replace("~", "")


_SIDE = {"side": "image_size/patch_size"}
_QWEN_VISION = "patch_embed.proj(H,channels,temporal_patch_size,patch_size,patch_size)"
_MERGED = {"merged": "H*spatial_merge_size*spatial_merge_size"}

SIGLIP = Tower(
    "patch_embedding(H,num_channels,patch_size,patch_size)+ position_embedding(side*side,H) post_layernorm[H]+"
    " head.probe(1,1,H)?vision_use_head head.attention.in_proj[3*H,H]+?vision_use_head head.attention.out_proj[H,H]+?vision_use_head"
    " head.layernorm[H]+?vision_use_head head.mlp.fc1[I,H]+?vision_use_head head.mlp.fc2[H,I]+?vision_use_head",
    encoder_layer(), fallback=_SIDE,
)  # fmt: skip
SIGLIP2 = Tower(
    SIGLIP.ends.replace(
        "patch_embedding(H,num_channels,patch_size,patch_size)+ position_embedding(side*side,H)",
        "patch_embedding[H,num_channels*patch_size*patch_size]+ position_embedding(num_patches,H)",
    ),
    encoder_layer(),
)
CLIP = Tower(
    "class_embedding[H] patch_embedding(H,num_channels,patch_size,patch_size) position_embedding(side*side+1,H)"
    " pre_layrnorm[H]+ post_layernorm[H]+",
    encoder_layer(), fallback=_SIDE,
)  # fmt: skip
PIXTRAL = Tower("patch_conv(H,num_channels,patch_size,patch_size) ln_pre[H]", encoder_layer("", "", "gated", ""))
QWEN2_VL = Tower(
    f"{_QWEN_VISION} merger.ln_q[H]+ merger.mlp.0[~merged,merged]+ merger.mlp.2[out,~merged]+", encoder_layer(), "depth",
    given={"H": "embed_dim", "I": "embed_dim*mlp_ratio", "out": "hidden_size", **_MERGED},
)  # fmt: skip
QWEN2_5_VL = Tower(
    f"{_QWEN_VISION} merger.ln_q[H] merger.mlp.0[~merged,merged]+ merger.mlp.2[out_hidden_size,~merged]+",
    encoder_layer("+", "", "gated"), "depth", given={**_MERGED},
)  # fmt: skip
QWEN3_VL = Tower(
    f"{_QWEN_VISION}+ pos_embed(num_position_embeddings,H) merger.norm[H]+ merger.linear_fc1[~merged,merged]+"
    " merger.linear_fc2[out_hidden_size,~merged]+",
    encoder_layer(), "depth", given={**_MERGED},
    also=(
        ("#deepstack_visual_indexes", "deepstack.norm[merged]+ deepstack.linear_fc1[~merged,merged]+ deepstack.linear_fc2[out_hidden_size,~merged]+"),
    ),
)  # fmt: skip
QWEN3_5 = Tower(QWEN3_VL.ends, QWEN3_VL.layer, "depth", given=QWEN3_VL.given)
ERNIE4_5_VL = Tower("patch_embed.proj[H,channels*patch_size*patch_size] ln[H]+", encoder_layer(), "depth")
EXAONE4_5 = Tower(
    QWEN2_5_VL.ends,
    "norm1[H] norm2[H] attn.qkv[~H+2*num_key_value_heads*H/num_heads,H]+ attn.proj[H,~H]+"
    " mlp.gate_proj[~I,H]+ mlp.up_proj[~I,H]+ mlp.down_proj[H,~I]+",
    "depth", given=QWEN2_5_VL.given,
)  # fmt: skip
GLM4V = Tower(
    "position_embedding(side*side,H) patch_embed.proj(H,channels,temporal_patch_size,patch_size,patch_size)+"
    " merger.proj[out_hidden_size,out_hidden_size] merger.post_projection_norm[out_hidden_size]+"
    " merger.gate_proj[~I,out_hidden_size] merger.up_proj[~I,out_hidden_size] merger.down_proj[out_hidden_size,~I]"
    " post_conv_layernorm[H] downsample(out_hidden_size,H,spatial_merge_size,spatial_merge_size)+ post_layernorm[H]",
    "norm1[H] norm2[H] attn.qkv[~3*H,H]+attention_bias attn.proj[H,~H]"
    " mlp.gate_proj[~out_hidden_size,H] mlp.up_proj[~out_hidden_size,H] mlp.down_proj[H,~out_hidden_size]",
    "depth", fallback=_SIDE,
)  # fmt: skip
GLM_OCR = Tower(
    "patch_embed.proj(H,channels,temporal_patch_size,patch_size,patch_size)+ merger.proj[out_hidden_size,out_hidden_size]"
    " merger.post_projection_norm[out_hidden_size]+ merger.gate_proj[~wide,out_hidden_size] merger.up_proj[~wide,out_hidden_size]"
    " merger.down_proj[out_hidden_size,~wide] downsample(out_hidden_size,H,spatial_merge_size,spatial_merge_size)+ post_layernorm[H]",
    "norm1[H] norm2[H] attn.qkv[~3*H,H]+attention_bias attn.proj[H,~H]+attention_bias attn.q_norm[H/num_heads] attn.k_norm[H/num_heads]"
    " mlp.gate_proj[~I,H]+attention_bias mlp.up_proj[~I,H]+attention_bias mlp.down_proj[H,~I]+attention_bias",
    "depth", given={"wide": "out_hidden_size*channels"},
)  # fmt: skip
GLM5_NEXT = replace(GLM_OCR, given={"wide": "projection_intermediate_size"})
MUSE = Tower(
    "patch_embedding[H,3*patch_temporal*patch_size*patch_size] position_embedding_table(pos_rows*pos_columns,H) ln_pre[H]+ ln_post[H]+",
    encoder_layer(),
)
MUSE_GLIMMER = Tower(
    MUSE.ends, MUSE.layer.replace("mlp.fc1[~I,H]", "mlp.fc1[I,H]").replace("mlp.fc2[H,~I]", "mlp.fc2[H,I]")
)
_FFW = "{0}.pre_layer_norm[H] {0}.ffw_layer_1[4*H,H] {0}.ffw_layer_2[H,4*H] {0}.post_layer_norm[H]"
GEMMA3N_AUDIO = Tower(
    "conv_0(c,1,3,3) norm_0[c] conv_1(c2,c,3,3) norm_1[c2] input_proj_linear[H,c2*input_feat_size/4]",
    f"{_FFW.format('ffw_layer_start')} {_FFW.format('ffw_layer_end')} attention.pre_attn_norm[H] attention.post_norm[H]"
    " attn.per_dim_scale[H/conf_num_attention_heads] attn.pos_proj[H,H] attn.q_proj[H,H] attn.k_proj[H,H] attn.v_proj[H,H] attention.post[H,H]"
    " lconv1d.pre_layer_norm[H] lconv1d.linear_start[2*H,H] lconv1d.depthwise_conv1d(H,1,conf_conv_kernel_size) lconv1d.conv_norm[H]"
    " lconv1d.linear_end[H,H] norm[H]",
    "conf_num_hidden_layers", given={"c": "sscp_conv_channel_size.0", "c2": "sscp_conv_channel_size.1"},
)  # fmt: skip
MOBILENET = Tower("mobilenetv5_300m_enc(294126912)")
"""Its config says no more than its name."""
QWEN3_ASR = Tower(
    "conv2d1(f,1,3,3)+ conv2d2(f,f,3,3)+ conv2d3(f,f,3,3)+ conv_out[H,f*num_mel_bins/8] ln_post[H]+ proj1[H,H]+ proj2[output_dim,H]+",
    encoder_layer(), "encoder_layers", given={"H": "d_model", "I": "encoder_ffn_dim", "f": "downsample_hidden_size"},
)  # fmt: skip
KIMI = Tower(
    "patch_embed.proj(H,3,patch_size,patch_size)+ patch_embed.pos_emb(pos_rows*pos_columns,H) final_layernorm[H]+",
    encoder_layer(),
)  # fmt: skip
STEP3P7 = Tower(
    "patch_embedding(H,num_channels,patch_size,patch_size) position_embedding(side*side,H) pre_layernorm[H]+"
    " downsampler1(2*H,H,3,3)+ downsampler2(4*H,2*H,3,3)+",
    encoder_layer(more="lambda_1[H] lambda_2[H]"), fallback=_SIDE,
)  # fmt: skip
MINIMAX_M3 = Tower(
    "patch_embedding(H,num_channels,frames,patch_size,patch_size) pre_layrnorm[H]+",
    encoder_layer(),
)
GEMMA4_VISION = Tower(
    "patch_embedder.position_embedding_table(2,position_embedding_size,H) patch_embedder.input_proj[H,3*patch_size*patch_size]",
    whole(
        encoder_layer(
            "+attention_bias", "", "gated", "", "attn.q_norm[head_dim] attn.k_norm[head_dim] norm3[H] norm4[H]"
        )
    )
    .replace("attn.q_proj[H,H]", "attn.q_proj[A*head_dim,H]")
    .replace("attn.k_proj[H,H]", "attn.k_proj[num_key_value_heads*head_dim,H]")
    .replace("attn.v_proj[H,H]", "attn.v_proj[num_key_value_heads*head_dim,H]")
    .replace("attn.o_proj[H,H]", "attn.o_proj[H,A*head_dim]"),
)
GEMMA4_AUDIO = Tower(
    "layer0.conv(first,1,3,3) layer0.norm[first] layer1.conv(second,first,3,3) layer1.norm[second] input_proj_linear[H,first/4*second]"
    " output_proj[output_proj_dims,H]+",
    " ".join(
        f"feed_forward{n}.ffw_layer_1[4*H,H] feed_forward{n}.ffw_layer_2[H,4*H] feed_forward{n}.pre_layer_norm[H]"
        f" feed_forward{n}.post_layer_norm[H]"
        for n in (1, 2)
    )
    + " self_attn.per_dim_scale[H/A] self_attn.q_proj[H,H] self_attn.k_proj[H,H] self_attn.v_proj[H,H] self_attn.post[H,H]"
    " self_attn.relative_k_proj[H,H] lconv1d.linear_start[2*H,H] lconv1d.linear_end[H,H]"
    " lconv1d.depthwise_conv1d(H,1,conv_kernel_size) lconv1d.pre_layer_norm[H] lconv1d.conv_norm[H]"
    " norm_pre_attn[H] norm_post_attn[H] norm_out[H]",
    given={"first": "subsampling_conv_channels.0", "second": "subsampling_conv_channels.1"},
)
GEMMA4_UNIFIED_VISION = Tower(
    "pos_embedding(mm_posemb_size,2,mm_embed_dim) patch_ln1[patch]+ patch_dense[~mm_embed_dim,patch]+ patch_ln2[mm_embed_dim]+"
    " pos_norm[mm_embed_dim]+",
    given={"patch": "3*model_patch_size*model_patch_size"},
)
MLLAMA = Tower(
    "class_embedding[H] patch_embedding(H,num_channels,patch_size,patch_size) gated_positional_embedding.gate[1]"
    " gated_positional_embedding.embedding(cells,H) gated_positional_embedding.tile_embedding(ratios,max_num_tiles*cells*H)"
    " pre_tile.gate[1] pre_tile.embedding(ratios,max_num_tiles*H) post_tile.gate[1] post_tile.embedding(ratios,max_num_tiles*H)"
    " layernorm_pre[H]+ layernorm_post[H]+",
    encoder_layer("", "+"), given={"cells": "side*side+1", "ratios": "#supported_aspect_ratios+1"}, fallback=_SIDE,
    also=(("num_global_layers", encoder_layer("", "+", more="gate_attn[1] gate_ffn[1]")),),
)  # fmt: skip
LLAMA4 = Tower(
    "patch_embedding.linear[H,num_channels*patch_size*patch_size] class_embedding[H] positional_embedding_vlm(side*side+1,H)"
    " layernorm_pre[H]+ layernorm_post[H]+ vision_adapter.mlp.fc1[projector_input_dim,I]"
    " vision_adapter.mlp.fc2[projector_output_dim,projector_output_dim]",
    encoder_layer(), fallback=_SIDE,
)  # fmt: skip
WHISPER_ENCODER = Tower(
    "conv1(H,num_mel_bins,3)+ conv2(H,H,3)+ embed_positions(max_source_positions,H) layer_norm[H]+",
    whole(encoder_layer(k_bias="")), "encoder_layers", given={"H": "d_model", "I": "encoder_ffn_dim"},
)  # fmt: skip

INTERNVL = Tower(
    "cls_token(1,1,H) position_embeddings(side*side+1,H)?use_absolute_position_embeddings patch_embeddings(H,num_channels,p,p)+",
    whole_attention(encoder_layer("+attention_bias", "+", more="lambda_1[H] lambda_2[H]", o_bias="+")),
    given={"side": "image_size.0/patch_size.0", "p": "patch_size.0"},
)
OMNI_VISION = Tower(QWEN2_5_VL.ends, QWEN2_5_VL.layer, "depth", given=QWEN2_5_VL.given)
OMNI_AUDIO = Tower(
    "conv1(H,num_mel_bins,3)+ conv2(H,H,3)+ audio_bos_eos_token(2,output_dim) ln_post[H]+ proj[output_dim,H]+",
    whole(encoder_layer(k_bias="")), "encoder_layers", given={"H": "d_model", "I": "encoder_ffn_dim"},
)  # fmt: skip

TOWERS: dict[str, Tower] = {
    "internvl_vision": INTERNVL, "qwen2_5_omni_vision_encoder": OMNI_VISION, "qwen2_5_omni_audio_encoder": OMNI_AUDIO,
    "siglip_vision_model": SIGLIP, "idefics3_vision": SIGLIP, "smolvlm_vision": SIGLIP, "idefics2_vision": SIGLIP,
    "siglip2_vision_model": SIGLIP2, "paddleocr_vl_vision": SIGLIP, "glm_ocr_vision": GLM_OCR, "glm5_next_vision": GLM5_NEXT, "muse_spark_vision": MUSE, "muse_glimmer_vision": MUSE_GLIMMER, "gemma3n_vision": MOBILENET,
    "gemma3n_audio": GEMMA3N_AUDIO,
    **dict.fromkeys(("qwen3_asr_encoder", "qwen3_asr_audio_encoder", "qwen3_omni_moe_audio_encoder"), QWEN3_ASR),
    "clip_vision_model": CLIP, "pixtral": PIXTRAL,
    "qwen2_vl_vision": QWEN2_VL, "qwen2_5_vl_vision": QWEN2_5_VL, "qwen3_vl_vision": QWEN3_VL, "qwen3_vl_moe_vision": QWEN3_VL,
    "qwen3_5_vision": QWEN3_5, "qwen3_5_moe_vision": QWEN3_5, "exaone4_5_vision": EXAONE4_5,
    "glm4v_moe_vision": GLM4V, "glm4v_vision": GLM4V, "kimi_k25_vision": KIMI, "step3p7_vision": STEP3P7, "step3p5_vision": STEP3P7,
    "minimax_m3_vl_vision": MINIMAX_M3, "gemma4_vision": GEMMA4_VISION, "gemma4_audio": GEMMA4_AUDIO,
    "gemma4_unified_vision": GEMMA4_UNIFIED_VISION, "gemma4_unified_audio": Tower(""),
    "ernie4_5_vl_moe_vision": ERNIE4_5_VL, "mllama_vision_model": MLLAMA, "llama4_vision_model": LLAMA4,
    "qwen2_audio_encoder": WHISPER_ENCODER, "voxtral_encoder": WHISPER_ENCODER,
}  # fmt: skip
"""By the tower's model type, as the config's class names it."""

_SHARED = "linear_1[~text.H,vision.H]+multimodal_projector_bias linear_2[text.H,~text.H]+multimodal_projector_bias"
"""Two layers that tensor ranks share. Source: vLLM 0.33 models/llava.py, mistral3.py."""

_TWO_LAYERS = whole(_SHARED)

PROJECTORS: dict[str, str] = {
    "gemma3": "mm_input_projection[text.H,vision.H] mm_soft_emb_norm[vision.H]",
    "gemma4": "embed_vision.embedding_projection[text.H,vision.H]?vision embed_audio.embedding_projection[text.H,audio.output_proj_dims]?audio",
    "diffusion_gemma": "embed_vision.embedding_projection[text.H,vision.H]?vision",
    "gemma4_unified": "embed_vision.embedding_projection[text.H,vision.mm_embed_dim]?vision embed_audio.embedding_projection[text.H,audio.H]?audio",
    "llava": _SHARED,
    "gemma3n": (
        "embed_vision.embedding(vision.vocab_size,vision.H)?vision embed_vision.norms(2,vision.H)?vision embed_vision.projection[text.H,vision.H]?vision"
        " embed_audio.embedding(audio.vocab_size,audio.H)?audio embed_audio.norms(2,audio.H)?audio embed_audio.projection[text.H,audio.H]?audio"
    ),
    **dict.fromkeys(
        ("muse_spark", "muse_glimmer"),
        (
            "vision_adapter.fc1[projector_hidden_size,wide] vision_adapter.fc2[projector_hidden_size,projector_hidden_size]"
            " vision_projection[text.H,projector_hidden_size]"
        ),
    ),
    "deepseek_vl": "linear1[text.H,vision.H]+ linear2[text.H,text.H]+",
    "hyperclovax_vision_v2": "projector[text.H,vision.out_hidden_size]+",
    "lfm2_vl": (
        "layer_norm[wide]+?projector_use_layernorm linear_1[projector_hidden_size,wide]+projector_bias"
        " linear_2[text.H,projector_hidden_size]+projector_bias"
    ),
    "paddleocr_vl": "pre_norm[vision.H]+ linear_1[wide,wide]+ linear_2[text.H,wide]+",
    "ernie4_5_vl_moe": (
        "spatial.fc1[wide,wide]+ spatial.fc2[wide,wide]+ spatial.ln[wide]+ temporal.fc1[wide,wide*vision.temporal_merge_size]+"
        " temporal.fc2[wide,wide]+ temporal.ln[wide]+ mlp[text.H,wide]+ after_norm[text.H]"
    ),
    **dict.fromkeys(
        ("mistral3", "lighton_ocr", "mistral_large4"),
        (
            "norm[vision.H] patch_merger.merging_layer[vision.H,vision.H*spatial_merge_size*spatial_merge_size]"
            f" {_SHARED}"
        ),
    ),
    "idefics3": "modality_projection[text.H,vision.H*scale_factor*scale_factor]",
    "smolvlm": "modality_projection[text.H,vision.H*scale_factor*scale_factor]",
    "kimi_k25": "pre_norm[vision.H]+ in_proj[wide,wide]+ out_proj[text.H,wide]+",
    "step3p7": "projector[text.H,4*vision.H]+projector_bias",
    "minimax_m3_vl": (
        "linear_1[~projector_hidden_size,vision.H]+ linear_2[text.H,~projector_hidden_size]+"
        " merge_linear_1[~projector_hidden_size,4*text.H]+ merge_linear_2[text.H,~projector_hidden_size]+"
    ),
    "mllama": "multi_modal_projector[text.H,vision.vision_output_dim]+",
    "llama4": "multi_modal_projector[text.H,vision.vision_output_dim]",
    **dict.fromkeys(
        (
            "qwen2_vl",
            "qwen2_5_vl",
            "qwen3_vl",
            "qwen3_vl_moe",
            "qwen3_5",
            "qwen3_5_moe",
            "exaone4_5",
            "glm4v",
            "glm4v_moe",
            "glm_ocr",
            "glm5_next",
            "qwen3_asr",
            "qwen3_asr_thinker",
        ),
        "",
    ),
    "fuyu": "vision_embed_tokens[text.H,patch_size*patch_size*num_channels]+",
    "qwen2_audio": "linear[text.H,audio.d_model]+",
    "voxtral": "linear_1[text.H,audio.I] linear_2[text.H,text.H]",
    "llava_next": f"image_newline[text.H] {_SHARED}",
    **dict.fromkeys(("llava_next_video", "llava_onevision"), f"image_newline[text.H] {_TWO_LAYERS}"),
    "vipllava": ("projector_layernorm[5*vision.H]+ linear_1[text.H,5*vision.H]+ linear_2[text.H,text.H]+"),
    "paligemma": "linear[text.H,vision.H]+",
    "cohere2_vision": "linear_1[~alignment_intermediate_size,4*vision.H]+ linear_2[text.H,~alignment_intermediate_size/2]+",
    "aya_vision": "layernorm[4*vision.H]+ linear_1[alignment_intermediate_size,4*vision.H]+ linear_2[text.H,alignment_intermediate_size/2]+",
    "internvl": "layer_norm[4*vision.H]+ linear_1[text.H,4*vision.H]+ linear_2[text.H,text.H]+",
    "shieldgemma2": "mm_input_projection[text.H,vision.H] mm_soft_emb_norm[vision.H]",
    **dict.fromkeys(("qwen2_5_omni_thinker", "qwen2_5_omni"), ""),
}
"""By the model type of the whole config. Qwen's and GLM's towers end in their own merger."""

PROJECTOR_GIVEN: dict[str, Given] = {
    "kimi_k25": {"wide": "4*vision.H"},
    "muse_spark": {"wide": "vision.H*vision.merge_size*vision.merge_size"},
    "muse_glimmer": {"wide": "vision.H*vision.merge_size*vision.merge_size"},
    "paddleocr_vl": {"wide": "vision.H*vision.spatial_merge_size*vision.spatial_merge_size"},
    "lfm2_vl": {"wide": "vision.H*downsample_factor*downsample_factor"},
    "ernie4_5_vl_moe": {"wide": "vision.H*vision.spatial_merge_size*vision.spatial_merge_size"},
}

ALONE = frozenset(("fuyu",))
"""Types with a projector and no tower before it: patches of the image go straight in."""

KEYS: tuple[tuple[str, Component], ...] = (("vision_config", "vision"), ("audio_config", "audio"))
"""Objects of a config that describe a tower."""
