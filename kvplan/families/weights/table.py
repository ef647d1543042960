"""The families, as data: what each model type's tensors are where they aren't those of Llama.

Shapes were read from transformers 5.23, class by class, and from the models' own repositories where transformers has
none. A type without a row has Llama's tensors with the biases that its fields name; then the answer says it is unsure.
"""

from __future__ import annotations

from dataclasses import replace

from kvplan.families.weights import special
from kvplan.families.weights.family import Family
from kvplan.families.weights.parts import (
    APART_QKV,
    BIASED2,
    BIASED_HEAD,
    DELTA,
    EMBEDDING,
    FULL_NORM,
    HEAD,
    HEAD_NORM,
    JOINED_QKV,
    MAMBA,
    MAMBA2,
    NORM1,
    NORM2,
    NORM4,
    POST_NORM2,
    SHARED_GATE,
    SHORT_CONV,
    SINKS,
    attention,
    experts,
    gated,
    hyper,
    latent,
    plain,
    shared,
)
from kvplan.families.weights.rare import RARE

LLAMA = Family()
NO_BIAS = attention("", "")
POSITIONS = "embedding: model.embed_positions[P,H]"

PER_LAYER_INPUT = (
    "mlp: per_layer_input_gate[ple,H]?ple per_layer_projection[H,ple]?ple norm: post_per_layer_input_norm[H]?ple"
)
PER_LAYER_EMBEDDING = (
    "embedding: embed_tokens_per_layer[~vocab_size_per_layer_input,layers*ple]?ple mlp: per_layer_model_projection[~layers*ple,H]?ple"
    " norm: per_layer_projection_norm[ple]?ple"
)


_QWEN2 = Family(attention=attention("+", ""), dense=gated(""))
_QWEN3 = Family(attention=attention(norm=HEAD_NORM), dense=gated(""), moe=experts())
_GEMMA = Family(dense=gated(""))
_GEMMA2 = replace(_GEMMA, norms=NORM4)
_GEMMA3 = replace(_GEMMA2, attention=attention(norm=HEAD_NORM))
_DEEPSEEK = Family(attention=attention(), latent=latent(), dense=gated(""), moe=f"{experts()} {shared()}")
_GEMMA4 = Family(
    attention=attention(norm=HEAD_NORM), dense=gated("", width="W"),
    moe=(
        f"{gated('', width='W')} router: router.proj[E,H] router.scale[H] router.per_expert_scale[E]"
        " experts: E@experts.0.gate_proj[~M,H] E@experts.0.up_proj[~M,H] E@experts.0.down_proj[H,~M]"
        " norm: post_feedforward_layernorm_1[H] post_feedforward_layernorm_2[H] pre_feedforward_layernorm_2[H]"
    ),
    norms=f"{NORM4} {PER_LAYER_INPUT}", first=f"{EMBEDDING} {PER_LAYER_EMBEDDING}", ffn=special.gemma4_ffn, locals=special.gemma4,
)  # fmt: skip
_GLM = Family(attention=attention("+attention_bias", ""), dense=gated(""))
_QWEN_SHARED = f"{experts()} {shared('mlp.shared_expert')} {SHARED_GATE}"
_QWEN_NEXT = Family(
    attention=attention(norm=HEAD_NORM, query="A*2*d"),
    recurrent={"": DELTA}, dense=gated(""), moe=_QWEN_SHARED,
)  # fmt: skip
_OLMO2 = Family(attention=attention(norm=FULL_NORM), norms=POST_NORM2)
_GPT2 = Family(
    attention=attention("+", "+"), dense=plain("+"), norms=BIASED2, first=f"{EMBEDDING} {POSITIONS}", last=BIASED_HEAD,
    fallback={"I": "4*H"},
)  # fmt: skip
_OPT = replace(
    _GPT2, attention=attention("+enable_bias", "+enable_bias"), dense=plain("+enable_bias"),
    first=(
        "embedding: model.embed_tokens[~V,word_embed_proj_dim] model.embed_positions[P+2,H]"
        " mlp: model.project_in[H,word_embed_proj_dim]?narrow model.project_out[word_embed_proj_dim,H]?narrow"
    ),
    last="norm: model.final_layer_norm[H]+?do_layer_norm_before head: lm_head[~V,word_embed_proj_dim]",
    given={"narrow": "H-word_embed_proj_dim"}, fallback={"word_embed_proj_dim": "H", "do_layer_norm_before": 1, **_GPT2.fallback},
)  # fmt: skip
_MAMBA_LAST = "norm: backbone.norm_f[H] head: lm_head[~V,H]"
_MAMBA = Family(norms="norm[H]", dense="", recurrent={"": MAMBA}, last=_MAMBA_LAST, single=True)
_GRANITE_MOE = Family(moe=f"{experts()} {shared('shared_mlp')}", dense=gated(width="S", prefix="shared_mlp"))
_ERNIE_VL = Family(
    attention=attention("+use_bias", "+use_bias"), dense=gated("+use_bias"),
    moe=(
        f"{experts(prefix='mlp.text_moe')} router: mlp.text_moe.gate.e_score_correction_bias(1,E) {shared()}"
        " vision: mlp.vision_moe.gate[E,H] mlp.vision_moe.gate.e_score_correction_bias(1,E) E@mlp.vision_moe.experts.0.gate_proj[~W,H]"
        " E@mlp.vision_moe.experts.0.up_proj[~W,H] E@mlp.vision_moe.experts.0.down_proj[H,~W]"
    ),
    given={"M": "moe_intermediate_size.0", "W": "moe_intermediate_size.1"},
)  # fmt: skip

FAMILIES: dict[str, Family] = {
    **RARE,
    # Llama itself, and types that differ from it by fields alone
    **dict.fromkeys(
        (
            "llama", "mistral", "ministral3", "cwm", "internlm", "internlm3", "iquestcoder", "helium", "emu3", "emu3_text_model",
            "aria_text", "csm", "ministral", "yi", "Yi", "aquila", "xverse", "mimo_vl", "smollm3", "llava",
        ),
        LLAMA,
    ),
    "granite": LLAMA,
    "ernie4_5": Family(attention=attention("+use_bias", "+use_bias"), dense=gated("+use_bias")),
    "granite_swa": Family(attention=attention(more=SINKS)),
    "hyperclovax": Family(norms=f"{NORM2} post_norm1[H]?use_post_norm post_norm2[H]?use_post_norm"),
    "internlm2": Family(attention=attention("+bias", "+bias"), dense=gated("")),
    "baichuan": Family(attention=NO_BIAS, dense=gated("")),
    "minicpm": Family(attention=attention()),
    "minicpm3": replace(_DEEPSEEK, fallback={"dv": "H/A"}),
    "mimo": Family(attention=attention("+attention_bias", ""), dense=gated("")),
    "seed_oss": Family(attention=attention("+attention_bias", "+attention_out_bias")),
    "arcee": Family(dense=plain("+mlp_bias")),
    "nanochat": Family(attention=attention(), dense=plain(), norms="", last="head: lm_head[~V,H]"),
    "apertus": Family(
        attention=attention(norm=HEAD_NORM),
        dense=f"{plain('+mlp_bias')} mlp.act_fn.alpha_p[1] mlp.act_fn.alpha_n[1]",
    ),
    "bitnet": Family(attention=attention(more="self_attn.attn_sub_norm[H]"), dense=f"{gated('')} norm: mlp.ffn_sub_norm[I]"),
    "diffllama": Family(
        attention=attention(
            more="self_attn.lambda_q1[d] self_attn.lambda_k1[d] self_attn.lambda_q2[d] self_attn.lambda_k2[d]"
        )
    ),
    "nemotron": Family(dense=plain("+mlp_bias"), norms=BIASED2, last=BIASED_HEAD),
    "jais2": Family(dense=plain("+mlp_bias"), norms=BIASED2, last=BIASED_HEAD),
    "stablelm": Family(
        attention=attention(
            "+use_qkv_bias", "",
            more="norm: self_attn.q_layernorm(A,d)?qk_layernorm self_attn.k_layernorm(G,d)?qk_layernorm",
        ),
        dense=gated(""),
        norms="input_layernorm[H]+ post_attention_layernorm[H]+?!use_parallel_residual", last=BIASED_HEAD,
    ),
    "starcoder2": Family(
        attention=attention("+use_bias", "+use_bias"), dense=plain("+use_bias"), norms=BIASED2, last=BIASED_HEAD,
    ),
    "phi": Family(
        attention=attention(
            "+", "+", more="norm: self_attn.q_layernorm[d]+?qk_layernorm self_attn.k_layernorm[d]+?qk_layernorm"
        ),
        dense=plain("+"), norms="input_layernorm[H]+", last="norm: model.norm[H]+ head: lm_head[~V,H]+",
    ),
    **dict.fromkeys(
        ("phi-msft", "mixformer-sequential"),
        Family(
            attention=attention("+", "+"), dense=plain("+"), norms="ln[H]+",
            last="norm: model.norm[H]+ head: lm_head[~V,H]+", fallback={"I": "4*H"},
        ),
    ),
    **dict.fromkeys(("phi3", "phi3_v", "phi4_multimodal", "phi4mm"), Family(attention=NO_BIAS, dense=gated(""))),
    "phimoe": Family(
        attention=attention("+attention_bias", "+attention_bias"), moe=experts(), norms=BIASED2,
        last="norm: model.norm[H]+ head: lm_head[~V,H]+lm_head_bias",
    ),
    "olmo": Family(norms="", last="head: lm_head[~V,H]", dense=gated("")),
    "olmo2": _OLMO2,
    "olmo3": _OLMO2,
    "olmoe": Family(attention=attention(norm=FULL_NORM), moe=experts()),
    "flex_olmo": replace(_OLMO2, moe=experts()),
    "exaone4_5_text": Family(attention=attention("", "", HEAD_NORM), dense=gated(""), norms=POST_NORM2),
    "exaone4": Family(attention=attention("", "", HEAD_NORM), dense=gated(""), norms=POST_NORM2),
    "exaone": Family(attention=NO_BIAS, dense=gated("")),
    "exaone_moe": Family(attention=attention("", "", HEAD_NORM), dense=gated(""), moe=f"{experts()} {shared()}"),
    "cohere": Family(attention=attention(norm="norm: self_attn.q_norm(A,d)?use_qk_norm self_attn.k_norm(G,d)?use_qk_norm"), dense=gated(""), norms=NORM1),
    "cohere2": Family(dense=gated(""), norms=NORM1),
    "cohere2_moe": Family(dense=gated(""), norms=NORM1, moe=f"{experts()} {shared()}"),
    **dict.fromkeys(("nemotron-nas", "deci", "decilm"), Family(
        attention=attention(), locals=special.searched,
        dense=(
            "mlp: mlp.gate_proj[~I,H]+mlp_bias?ffn mlp.up_proj[~I,H]+mlp_bias?ffn mlp.down_proj[H,~I]+mlp_bias?ffn"
            " mlp.linear_mlp[H,H]?linear_ffn"
        ),
        norms=(
            "input_layernorm[H]?attends post_attention_layernorm[H]?feeds attention: self_attn.linear_attn[H,H]?linear_attention"
        ),
    )),
    # Qwen
    **dict.fromkeys(("qwen2", "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text", "qwen2_audio_text", "qwen2_5_omni_text", "dream"), _QWEN2),
    "qwen": Family(attention=attention("+", ""), dense=gated("", width="half"), given={"half": "I/2"}),
    "qwen2_moe": Family(attention=attention("+qkv_bias", ""), dense=gated(""), moe=_QWEN_SHARED),
    **dict.fromkeys(("qwen3", "qwen3_moe", "qwen3_vl_text", "qwen3_vl_moe_text", "qwen3_asr_text", "qwen3_omni_moe_text", "qwen3_omni_moe_thinker_text"), _QWEN3),
    **dict.fromkeys(("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"), _QWEN_NEXT),
    "mellum": replace(_QWEN3),
    # Gemma
    "gemma": _GEMMA,
    "gemma2": _GEMMA2,
    "vaultgemma": replace(_GEMMA, norms="input_layernorm[H] pre_feedforward_layernorm[H]"),
    **dict.fromkeys(("gemma3", "gemma3_text"), _GEMMA3),
    **dict.fromkeys(("gemma4_text", "gemma4_unified_text"), _GEMMA4),
    "diffusion_gemma_text": replace(
        _GEMMA4, norms=NORM4, first=EMBEDDING, ffn=special.all_experts,
        last=(
            f"{HEAD} norm: self_conditioning.pre_norm[H] mlp: self_conditioning.gate_proj[I,H] self_conditioning.up_proj[I,H]"
            " self_conditioning.down_proj[H,I]"
        ),
    ),
    "gemma3n_text": Family(
        attention=attention(norm=HEAD_NORM), dense=gated(""),
        norms=(
            f"{NORM4} {PER_LAYER_INPUT} mlp: altup.correct_output_scale[H] altup.correction_coefs(streams,streams)"
            " altup.prediction_coefs(streams*streams,streams) altup.modality_router[streams,H] altup.router_norm[H]"
            " laurel.linear_left[~laurel_rank,H] laurel.linear_right[H,~laurel_rank] laurel.post_laurel_norm[H]"
        ),
        first=f"{EMBEDDING} {PER_LAYER_EMBEDDING} mlp: streams-1@altup_projections[~H,H]",
        last=f"mlp: streams-1@altup_unembed_projections[~H,H] {HEAD}", given={"streams": "altup_num_inputs"},
    ),
    # GLM and ChatGLM
    "glm": _GLM,
    "glm4": replace(_GLM, norms=f"{NORM2} post_self_attn_layernorm[H] post_mlp_layernorm[H]"),
    "chatglm": Family(
        attention=attention("+add_qkv_bias", "+add_bias_linear"), more=special.chatglm,
        dense=(
            "mlp: mlp.gate_proj[~I,H]+add_bias_linear?!first mlp.up_proj[~I,H]+add_bias_linear mlp.down_proj[H,~I]+add_bias_linear"
        ),
        norms="input_layernorm[H]+first post_attention_layernorm[H]+first", last="norm: model.norm[H]+first head: lm_head[~V,H]",
    ),
    "glm4_moe": replace(_GLM, attention=attention("+attention_bias", "", "norm: self_attn.q_norm[d]?use_qk_norm self_attn.k_norm[d]?use_qk_norm"), moe=f"{experts()} {shared()}"),
    "glm4v_moe_text": replace(_GLM, attention=attention("+attention_bias", ""), moe=f"{experts()} {shared()}"),
    "glm_ocr_text": replace(_GLM, attention=attention("", ""), norms=f"{NORM2} post_self_attn_layernorm[H] post_mlp_layernorm[H]"),
    "glm4v_text": replace(_GLM, attention=attention("+", ""), norms=f"{NORM2} post_self_attn_layernorm[H] post_mlp_layernorm[H]"),
    # latent attention
    "deepseek_v4": Family(
        compressed=(
            "attention: self_attn.sinks[~A] self_attn.q_a_proj[q_lora_rank,H] self_attn.q_b_proj[~A*d,q_lora_rank]"
            " self_attn.kv_proj[d,H] self_attn.o_a_proj[~o_groups*o_lora_rank,A*d/o_groups] self_attn.o_b_proj[H,~o_groups*o_lora_rank]"
            " self_attn.compressor.position_bias(ratio,over*d)?ratio self_attn.compressor.kv_proj(over*d,H)?ratio"
            " self_attn.compressor.gate_proj(over*d,H)?ratio"
            " norm: self_attn.q_a_norm[q_lora_rank] self_attn.kv_norm[d] self_attn.compressor.kv_norm[d]?ratio"
            " indexer: indexer.position_bias(ratio,2*index_head_dim)?indexer indexer.kv_proj(2*index_head_dim,H)?indexer"
            " indexer.gate_proj(2*index_head_dim,H)?indexer indexer.kv_norm[index_head_dim]?indexer"
            " indexer.q_b_proj[index_n_heads*index_head_dim,q_lora_rank]?indexer indexer.weights_proj(index_n_heads,H)?indexer"
        ),
        dense=gated(""), norms=f"{NORM2} {hyper('attn_hc')} {hyper('ffn_hc')}",
        last=f"norm: hc_head.hc_fn(hc_mult,hc_mult*H) hc_head.hc_base[hc_mult] hc_head.hc_scale[1] {HEAD}",
    ),
    **dict.fromkeys(
        (
            "deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "kimi_k25_text", "glm4_moe_lite", "glm_moe_dsa", "deepseek_vl_v2",
            "deepseek", "youtu", "axk1",
        ),
        _DEEPSEEK,
    ),
    "axk1": replace(_DEEPSEEK, moe=f"{experts()} {shared()} norm: mlp.post_mlp_layernorm[H]"),
    # other experts
    "mixtral": Family(attention=NO_BIAS, moe=experts()),
    "gpt_oss": Family(attention=attention(more=SINKS), moe=experts("+", "+")),
    "minimax_m2": Family(
        attention=attention("", "", FULL_NORM), moe=experts(),
    ),
    "ernie4_5_moe": Family(
        attention=attention("+use_bias", "+use_bias"), dense=gated("+use_bias"),
        moe=f"{experts()} router: mlp.moe_statics.e_score_correction_bias(1,E) {shared()}",
    ),
    # text and images have experts of their own, of different widths
    "ernie4_5_vl_moe_text": _ERNIE_VL,
    "ernie4_5_moe_vl": replace(_ERNIE_VL, given={**_ERNIE_VL.given, "E": "moe_num_experts.0"}),  # as Baidu's own code writes it
    # compressed convolutional attention, arXiv:2510.04476; a router that is a network, one of whose choices computes nothing
    "zaya": Family(
        attention=(
            "attention: self_attn.q_proj[~A*d,H] self_attn.k_proj[~G*d,H] self_attn.v_proj_current[~G*d/2,H] self_attn.v_proj_delayed[~G*d/2,H]"
            " self_attn.o_proj[H,~A*d] norm: self_attn.qk_norm.temp[G]"
        ),
        recurrent={"": "recurrent: self_attn.conv_qk_depthwise(~A*d+G*d,1,cca_time0)+ self_attn.conv_qk_grouped(~A*d+G*d,d,cca_time1)+"},
        moe=(
            "router: mlp.gate.down_proj[router_hidden_size,H]+ mlp.gate.norm[router_hidden_size] mlp.gate.fc1[router_hidden_size,router_hidden_size]+"
            " mlp.gate.fc2[router_hidden_size,router_hidden_size]+ mlp.gate.out_proj[E+1,router_hidden_size]"
            " mlp.gate.router_states_scale[router_hidden_size]?later experts: E@mlp.experts.0.gate_proj[~M,H] E@mlp.experts.0.up_proj[~M,H]"
            " E@mlp.experts.0.down_proj[H,~M]"
        ),
        norms=f"{NORM2} post_attention_residual_scale(4,H) post_mlp_residual_scale(4,H)",
        first="embedding: model.embed_tokens[~V,H] norm: model.input_hidden_states_scale(2,H)", ffn=special.only_experts,
        locals=special.later,
    ),
    "dots1": Family(attention=attention(norm=HEAD_NORM), dense=gated(""), moe=f"{experts()} {shared()}"),
    "solar_open": Family(attention=attention(), moe=f"{experts()} {shared()}", ffn=special.only_experts),
    "hy_v3": Family(attention=attention(norm=HEAD_NORM), moe=f"{experts()} {shared()}"),
    "kolibri1": Family(
        attention=attention(norm=HEAD_NORM), moe=f"{experts()} {shared()}",
        norms=f"{NORM2} post_self_attn_layernorm[H] post_mlp_layernorm[H]",
    ),
    **dict.fromkeys(("hunyuan_v1_dense", "hunyuan_v1_moe", "hunyuan_vl_text"), Family(
        attention=attention(norm=HEAD_NORM), moe=f"{experts()} {shared('mlp.shared_mlp')}", fallback={"shared_count": 1},
    )),
    "hunyuan": Family(
        attention=attention(norm="norm: self_attn.query_layernorm[d]?use_qk_norm self_attn.key_layernorm[d]?use_qk_norm"),
        moe=f"{experts()} {shared('mlp.shared_mlp')}",
    ),
    "afmoe": Family(
        attention=attention(norm=HEAD_NORM, more="self_attn.gate_proj[~A*d,H]"), dense=gated(""),
        moe=f"{experts()} router: mlp.expert_bias[E] {shared()}",
        norms=f"{NORM2} pre_mlp_layernorm[H] post_mlp_layernorm[H]",
    ),
    "flint": Family(attention=attention(norm=HEAD_NORM, more=SINKS), moe=f"{experts()} {shared('mlp.shared_expert')}"),
    "laguna": Family(
        attention=attention(norm=HEAD_NORM, more="self_attn.g_proj[A,H]"),
        moe=f"{experts()} router: mlp.gate.e_score_correction_bias[E] {shared()}",
    ),
    **dict.fromkeys(("step3p7", "step3p7_text", "step3p5"), Family(
        attention=attention("", "", HEAD_NORM, more="self_attn.g_proj[A,H]"), dense=gated(""),
        moe=f"{experts()} {shared('share_expert')}",
    )),
    **dict.fromkeys(("minimax_m3_vl_text", "minimax_m3"), Family(
        attention=attention("", "", norm=(
            f"{HEAD_NORM} indexer: self_attn.indexer.q_proj[~index_heads*index_dim,H]?indexer"
            " self_attn.indexer.k_proj[index_dim,H]?indexer self_attn.indexer.q_norm[index_dim]?indexer"
            " self_attn.indexer.k_norm[index_dim]?indexer"
        )),
        dense=gated("", width="dense_intermediate_size"), moe=f"{experts()} {shared()}",
    )),
    "mllama_text_model": Family(
        attention=NO_BIAS, dense=gated(""),
        cross=(
            "attention: cross_attn_attn_gate[1] cross_attn_mlp_gate[1] cross_attn.q_proj[~A*d,H] cross_attn.k_proj[~G*d,H]"
            " cross_attn.v_proj[~G*dv,H] cross_attn.o_proj[H,~A*dv] norm: cross_attn.q_norm[d] cross_attn.k_norm[d]"
        ),
        first="embedding: model.embed_tokens[~V+8,H]",
    ),
    "mimo_v2_flash": Family(
        attention=attention("+attention_bias", "", more="self_attn.sinks[~A]?sinks"), dense=gated(""), moe=experts(), locals=special.mimo_sinks,
    ),
    "llama4_text": Family(
        dense=gated("", width="intermediate_size_mlp", prefix="feed_forward"),
        moe=f"{experts(prefix='feed_forward')} {shared('feed_forward.shared_expert')}",
        given={"S": "I"},
    ),
    "granitemoe": Family(moe=experts()),
    "granitemoe_swa": Family(attention=attention(more=SINKS), moe=experts()),
    "granitemoeshared": _GRANITE_MOE,
    "granitemoehybrid": replace(_GRANITE_MOE, recurrent={"": MAMBA2}, given={"mixer_norm": True}),
    # recurrent and hybrid
    **dict.fromkeys(("mamba", "falcon_mamba"), _MAMBA),
    "mamba2": replace(_MAMBA, recurrent={"": MAMBA2}, given={"mixer_norm": True}),
    "jamba": Family(
        attention=NO_BIAS, dense=gated("", prefix="feed_forward"), moe=experts(prefix="feed_forward"), ffn=special.jamba_ffn,
        recurrent={"": f"{MAMBA} norm: mamba.dt_layernorm[rank] mamba.b_layernorm[state] mamba.c_layernorm[state]"},
    ),
    "bamba": Family(recurrent={"": MAMBA2}, given={"mixer_norm": True}),
    "falcon_h1": Family(recurrent={"": MAMBA2}, given={"mixer_norm": "mamba_rms_norm"}),
    "nemotron_h": Family(
        dense=plain("+mlp_bias"),
        moe=(
            "router: mlp.gate[E,H] experts: E@mlp.experts.0.up_proj[~M,L] E@mlp.experts.0.down_proj[L,~M]"
            " shared_experts: mlp.shared_experts.up_proj[~S,H]?S mlp.shared_experts.down_proj[H,~S]?S"
            " mlp: mlp.fc1_latent_proj[L,H]?compressed mlp.fc2_latent_proj[H,L]?compressed"
        ),
        norms="norm[H]", recurrent={"": MAMBA2}, single=True, given={"mixer_norm": True}, more=special.nemotron,
        ffn=special.nemotron_ffn,
    ),
    "lfm2": Family(more=special.lfm2, last="norm: model.norm[H] head: lm_head[~V,H]", attention=attention("", "", HEAD_NORM), dense=gated("", prefix="feed_forward"), recurrent={"": SHORT_CONV}),
    "lfm2_moe": Family(
        attention=attention("", "", HEAD_NORM), dense=gated("", prefix="feed_forward"),
        moe=f"{experts(prefix='feed_forward')}", recurrent={"": SHORT_CONV},
    ),
    "lfm3": Family(
        attention=attention("", "", HEAD_NORM, more="self_attn.g_proj[A,H]"), dense=gated("", prefix="feed_forward"),
        recurrent={"": SHORT_CONV}, norms="operator_norm[H] ffn_norm[H] post_operator_norm[H] post_ffn_norm[H]",
    ),
    "olmo_hybrid": Family(
        attention=attention(norm=FULL_NORM), recurrent={"": DELTA.replace(JOINED_QKV, APART_QKV)},
        norms=POST_NORM2,
    ),
    # GPT-2 and its contemporaries
    "gpt2": _GPT2,
    **dict.fromkeys(("gpt-sw3", "gpt_bigcode"), _GPT2),
    "openai-gpt": replace(_GPT2, last="head: lm_head[~V,H]"),
    "gpt_neo": replace(_GPT2, attention=attention("", "+")),
    "gpt_neox": Family(
        attention=attention(), dense=plain("+"), norms=BIASED2, last=BIASED_HEAD,
    ),
    "gptj": Family(
        attention=NO_BIAS, dense=plain("+"), norms="ln_1[H]+", last="norm: model.norm[H]+ head: lm_head[~V,H]+",
        fallback={"I": "4*H"},
    ),
    "codegen": Family(
        attention=NO_BIAS, dense=plain("+"), norms="ln_1[H]+", last="norm: model.norm[H]+ head: lm_head[~V,H]+",
        fallback={"I": "4*H"},
    ),
    "bloom": Family(
        attention=attention("+", "+"), dense=plain("+"), norms=BIASED2,
        first=f"{EMBEDDING} norm: word_embeddings_layernorm[H]+", last=BIASED_HEAD, given={"I": "4*H"},
    ),
    **dict.fromkeys(("falcon", "RefinedWeb", "RefinedWebModel"), Family(
        attention=attention("+bias", "+bias"), dense=plain("+bias"),
        norms="input_layernorm[H]+ second_layernorm[H]+?two_norms", last=BIASED_HEAD, fallback={"I": "4*H"}, more=special.falcon,
            usually_tied=True,
    )),
    "mpt": Family(attention=NO_BIAS, dense=plain(""), norms="norm_1[H] norm_2[H]", given={"I": "expansion_ratio*H"}),
    "persimmon": Family(
        attention=attention("+", "+", more="norm: self_attn.q_layernorm[d]+?qk_layernorm self_attn.k_layernorm[d]+?qk_layernorm"),
        dense=plain("+"), norms=BIASED2, last=BIASED_HEAD,
    ),
    "opt": _OPT,
    "recurrent_gemma": Family(
        attention=attention("+attention_bias", "+"), dense=gated("+", width="half"), given={"half": "I/2", "inner": "lru_width"},
        norms="temporal_pre_norm[H] channel_pre_norm[H]",
        recurrent={"": (
            "recurrent: linear_y[~inner,H]+ linear_x[~inner,H]+ linear_out[H,~inner]+ conv_1d(~inner,1,conv1d_width)+"
            " rg_lru.recurrent_param[~inner] rg_lru.input_gate(inner,inner/A) rg_lru.input_gate_bias[~inner]"
            " rg_lru.recurrent_gate(inner,inner/A) rg_lru.recurrent_gate_bias[~inner]"
        )},
    ),
    **dict.fromkeys(("minimax", "minimax_text_01"), Family(
        attention=NO_BIAS, moe=experts(),
        recurrent={"": (
            "recurrent: self_attn.norm[A*d] self_attn.qkv_proj[~3*A*d,H] self_attn.out_proj[H,~A*d] self_attn.output_gate[~A*d,H]"
        )},
    )),
}  # fmt: skip
