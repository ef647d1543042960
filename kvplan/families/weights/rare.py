"""More families, as data: encoder-decoders, early decoders, and models that mix in something of their own.

Shapes were read from transformers 5.23, class by class.
"""

from __future__ import annotations

from dataclasses import replace

from kvplan.families.weights import special
from kvplan.families.weights.family import Family
from kvplan.families.weights.parts import (
    BIASED2,
    BIASED_HEAD,
    EMBEDDING,
    HEAD,
    HEAD_NORM,
    INDEXER,
    KDA,
    MAMBA,
    MAMBA2,
    NORM2,
    NORM4,
    attention,
    experts,
    gated,
    hyper,
    latent,
    plain,
    repeated,
    shared,
)
from kvplan.families.weights.towers import Tower, encoder_layer


def _cross(bias: str, k_bias: str | None = None) -> str:
    """Attention to the encoder's output, with its norm. k_bias: of its keys, as the others' unless given."""
    k = bias if k_bias is None else k_bias
    return (
        f"attention: encoder_attn.q_proj[~A*d,H]{bias} encoder_attn.k_proj[~G*d,H]{k} encoder_attn.v_proj[~G*dv,H]{bias}"
        f" encoder_attn.out_proj[H,~A*dv]{bias} norm: encoder_attn_layer_norm[H]+"
    )


def _seq2seq(
    positions: str = "P+2",
    bias: str = "+",
    embed_norm: str = "layernorm_embedding[H]+",
    last_norm: str = "",
) -> Family:
    """BART and its kin. positions: rows of the learned positions. embed_norm, last_norm: norms at the ends."""
    encoder = Tower(
        f"encoder.embed_positions({positions},H) {embed_norm} {last_norm}",
        encoder_layer(bias, "+")
        .replace("fc1[~I,H]", "fc1[~encoder_ffn_dim,H]")
        .replace("fc2[H,~I]", "fc2[H,~encoder_ffn_dim]"),
        "encoder_layers",
    )
    return Family(
        attention=attention(bias, bias), cross=_cross(bias), dense=plain("+"), norms=BIASED2,
        first=f"{EMBEDDING} embedding: embed_positions[{positions},H] norm: {embed_norm}",
        last=f"norm: {last_norm} head: lm_head[~V,H]", given={"I": "decoder_ffn_dim"}, towers=(encoder,),
    )  # fmt: skip


_FINAL = "layer_norm[H]+"
_WHISPER = Family(
    attention=attention("+", "+").replace("k_proj[~G*d,H]+", "k_proj[~G*d,H]"), cross=_cross("+", ""), dense=plain("+"),
    norms=BIASED2, first=f"{EMBEDDING} embedding: embed_positions[max_target_positions,H]",
    last=f"norm: {_FINAL} head: lm_head[~V,H]", given={"I": "decoder_ffn_dim"},
    towers=(
        Tower(
            "conv1(H,num_mel_bins,3)+ conv2(H,H,3)+ embed_positions(max_source_positions,H) layer_norm[H]+",
            encoder_layer(k_bias="").replace("fc1[~I,H]", "fc1[~encoder_ffn_dim,H]").replace("fc2[H,~I]", "fc2[H,~encoder_ffn_dim]"),
            "encoder_layers",
        ),
    ),
)  # fmt: skip
_T5 = Family(
    attention=attention("", ""),
    cross=_cross("", "").replace("[H]+", "[H]"),
    dense="mlp: mlp.wi_0[~I,H] mlp.wi_1[~I,H]?gated_ffn mlp.wo[H,~I]",
    norms="layer_norm_0[H] layer_norm_2[H]",
    first=f"{EMBEDDING} attention: relative_attention_bias(relative_attention_num_buckets,A)",
    last="norm: final_layer_norm[H] head: lm_head[~V,H]",
    more=special.t5,
    usually_tied=True,
    towers=(
        Tower(
            "relative_attention_bias(relative_attention_num_buckets,A) final_layer_norm[H]",
            "q[~A*d_kv,H] k[~A*d_kv,H] v[~A*d_kv,H] o[H,~A*d_kv] layer_norm_0[H] layer_norm_1[H]"
            " wi_0[~I,H] wi_1[~I,H]?gated_ffn wo[H,~I]",
        ),
    ),
)

_BERT_ENDS = {
    "first": (
        f"{EMBEDDING} embedding: position_embeddings[P,H] token_type_embeddings[type_vocab_size,H]?type_vocab_size"
        " norm: embeddings.LayerNorm[H]+"
    ),
    "last": "head: transform.dense[H,H]+ norm: transform.LayerNorm[H]+ head: lm_head[~V,H]+",
}
_BERT = Family(attention=attention("+", "+"), dense=plain("+"), norms=BIASED2, **_BERT_ENDS)  # type: ignore[arg-type]

_INKLING = (
    "attention: self_attn.r_proj[A*d_rel,H] self_attn.k_sconv.conv1d(~G*d,1,conv_kernel_size)"
    " self_attn.v_sconv.conv1d(~G*d,1,conv_kernel_size) self_attn.rel_logits.proj(d_rel,reach)"
)

RARE: dict[str, Family] = {
    "bart": _seq2seq(),
    "plbart": _seq2seq(),
    "mvp": _seq2seq(),
    "mbart": _seq2seq(last_norm=_FINAL),
    "m2m_100": _seq2seq("0", embed_norm="", last_norm=_FINAL),
    "marian": _seq2seq("P", embed_norm=""),
    "blenderbot": _seq2seq("P", embed_norm="", last_norm=_FINAL),
    "blenderbot-small": _seq2seq("P"),
    "pegasus": _seq2seq("P", embed_norm="", last_norm=_FINAL),
    "bigbird_pegasus": _seq2seq("P", "+use_bias"),
    "trocr": replace(_seq2seq(), towers=()),
    "whisper": _WHISPER,
    **dict.fromkeys(("t5", "mt5", "umt5"), _T5),
    **dict.fromkeys(("bert", "ernie", "megatron-bert"), _BERT),
    "big_bird": replace(_BERT, last=f"head: pooler[H,H]+ {_BERT.last}"),
    "bert-generation": replace(_BERT, last="head: lm_head[~V,H]+"),
    "xglm": Family(
        attention=attention("+", "+"), dense=plain("+"), norms=BIASED2, last=BIASED_HEAD,
    ),
    "biogpt": Family(
        attention=attention("+", "+"), dense=plain("+"), norms=BIASED2, first=f"{EMBEDDING} embedding: embed_positions[P+2,H]",
        last=BIASED_HEAD,
    ),
    "ctrl": Family(
        attention=attention("+", "+"), dense=plain("+"), norms=BIASED2, last="norm: model.norm[H]+ head: lm_head[~V,H]+",
        given={"I": "dff"},
    ),
    "cpmant": Family(
        attention=attention("", ""), dense=gated(""), norms="ln_before_attention[H] ln_before_ffn[H]",
        first=(
            "embedding: segment_embedding[segment_types,H] input_embedding[V+prompt_length*prompt_types,H]"
            " attention: position_bias.relative_attention_bias(position_bias_num_buckets+segment_types*segment_types,A)"
        ),
        last="norm: encoder.output_layernorm[H] head: lm_head[~V,H]", given={"I": "dim_ff"}, tied=False,
    ),
    "xlnet": Family(
        attention=attention("", "", more=(
            "self_attn.r[H,A*d] self_attn.r_r_bias[A*d] self_attn.r_s_bias[A*d] self_attn.r_w_bias[A*d] self_attn.seg_embed(2,A*d)"
        )),
        dense=plain("+"), norms=BIASED2, first=f"{EMBEDDING} embedding: mask_emb[H]", last="head: lm_head[~V,H]+", given={"I": "d_inner"},
    ),
    "xlm": Family(
        attention=attention("+", "+"), dense=plain("+"), norms=BIASED2,
        first=f"{EMBEDDING} embedding: position_embeddings[P,H] norm: layer_norm_emb[H]+", last="head: lm_head[~V,H]+",
        given={"I": "4*H", "H": "emb_dim"},
    ),
    "gpt_neox_japanese": Family(
        attention=attention("", ""), dense=plain(""), norms=BIASED2,
        last=f"attention: attention.dense_bias[H] {BIASED_HEAD}", given={"I": "intermediate_multiple_size*H"},
    ),
    "modernbert-decoder": Family(
        attention=attention(), dense=gated("+mlp_bias"), norms="attn_norm[H]?inner mlp_norm[H]",
        first=f"{EMBEDDING} norm: embeddings.norm[H]",
        last="norm: final_norm[H] head: lm_head.dense[H,H] norm: lm_head.norm[H] head: lm_head[~V,H]+decoder_bias",
        locals=special.after_first,
    ),
    "moshi": Family(
        attention=attention("", ""), dense="mlp: mlp.fc1[~ffn_dim,H] mlp.fc2[H,~ffn_dim/2]", first="embedding: embed_tokens[~V+1,H]",
    ),
    "dbrx": Family(
        attention=attention("", ""), moe=experts(), norms="norm_1[H] norm_2[H]", last=HEAD,
        given={"M": "ffn_config.ffn_hidden_size", "E": "ffn_config.moe_num_experts", "picked": "ffn_config.moe_top_k"},
    ),
    "doge": Family(
        attention=attention(norm=HEAD_NORM, more="self_attn.A[G] self_attn.dt_proj[G,G*dv]+attention_bias"),
        dense=(
            f"{gated()} router: mlp.router_gate[2*keys,H]?is_moe"
            " experts: num_experts@mlp.down_embed.0(1,H)?is_moe num_experts@mlp.up_embed.0(1,H)?is_moe"
        ),
        norms=f"{NORM2} input_residual[H] post_attention_residual[H]",
        given={"no_experts": True, "picked": "num_experts_per_tok"},
        more=special.doge,
    ),
    "jetmoe": Family(
        attention=(
            "attention: self_attn.kv_proj[~2*G*d,H] self_attn.experts.bias[H] router: self_attn.router[E,H]"
            " experts: E@self_attn.experts.0.input_linear[~G*d,H] E@self_attn.experts.0.output_linear[H,~G*d]"
        ),
        moe=f"{experts()} mlp: mlp.bias[H]",
    ),
    "longcat_flash": Family(
        latent=latent(),
        moe=f"{gated('', width='ffn_hidden_size', prefix='mlps.0')} {gated('', width='ffn_hidden_size', prefix='mlps.1')} router: mlp.router.classifier[E+zero_expert_num,H]+router_bias {experts().partition('experts:')[1]}{experts().partition('experts:')[2]}",
        norms=f"{repeated(2, NORM2)}",
    ),
    "zamba": Family(
        attention="attention: linear[H,H]", recurrent={"": MAMBA}, dense="", norms=NORM2.split()[0],
        first=(
            f"{EMBEDDING} attention: shared.q_proj[~A*wide,2*H] shared.k_proj[~A*wide,2*H] shared.v_proj[~A*wide,2*H]"
            " shared.o_proj[H,~A*wide] mlp: shared.gate_proj[~I,H] shared.up_proj[~I,H] shared.down_proj[H,~I]"
            " norm: shared.input_layernorm[2*H] shared.pre_ff_layernorm[H]"
        ),
        given={"wide": "attention_head_dim"}, fallback={"attention_head_dim": "2*H/A"},
    ),
    "zamba2": Family(
        attention=(
            "attention: linear[H,H] mlp: gate_up_adapter.0[adapter_rank,H] gate_up_adapter.1[2*I,adapter_rank]"
            " attention: 3@adapter.0[adapter_rank,2*H]?use_shared_attention_adapter 3@adapter.1[2*H,adapter_rank]?use_shared_attention_adapter"
        ),
        recurrent={"": MAMBA2}, dense="", norms=NORM2.split()[0],
        first=EMBEDDING + " " + repeated("num_mem_blocks", (
            "attention: shared.q_proj[~A*wide,2*H] shared.k_proj[~A*wide,2*H] shared.v_proj[~A*wide,2*H]"
            " shared.o_proj[H,~A*wide] mlp: shared.gate_up_proj[~2*I,H] shared.down_proj[H,~I]"
            " norm: shared.input_layernorm[2*H] shared.pre_ff_layernorm[H]"
        )),
        given={"wide": "attention_head_dim", "mixer_norm": True, "conv_bias": True, "in_bias": "add_bias_linear"},
        fallback={"attention_head_dim": "2*H/A", "I": "4*H", "num_mem_blocks": 1},
    ),
    "rwkv": Family(
        recurrent={"": (
            "recurrent: att.time_decay[D] att.time_first[D] att.time_mix(3,H) att.key[~D,H] att.value[~D,H] att.receptance[~D,H] att.output[H,~D]"
            " mlp: ff.time_mix(2,H) ff.key[~I,H] ff.receptance[H,H] ff.value[H,~I]"
        )},
        dense="", norms="ln1[H]+ ln2[H]+", first=f"{EMBEDDING} norm: pre_ln[H]+", last=BIASED_HEAD,
        given={"D": "attention_hidden_size"}, fallback={"attention_hidden_size": "H", "I": "4*H"},
    ),
    # RWKV 5.2, Peng et al., arXiv:2404.05892; RWKV/rwkv-5-world-3b modeling_rwkv5.py; its head is never the embedding
    "rwkv5": Family(
        recurrent={"": (
            "recurrent: attention.time_decay[D] attention.time_faaaa[D] attention.time_mix(4,H) attention.key[~D,H] attention.value[~D,H]"
            " attention.receptance[~D,H] attention.gate[~D,H] attention.output[H,~D] attention.ln_x[D]+"
            " mlp: feed_forward.time_mix(2,H) feed_forward.key[~I,H] feed_forward.receptance[H,H] feed_forward.value[H,~I]"
        )},
        dense="", norms="ln1[H]+ ln2[H]+", first=f"{EMBEDDING} norm: pre_ln[H]+", last=BIASED_HEAD, tied=False,
        given={"D": "attention_hidden_size"}, fallback={"attention_hidden_size": "H", "I": "7*H/64*32"},
    ),
    "kimi_linear": Family(
        latent=latent("self_attn.g_proj[~A*dv,H]?mla_use_output_gate"), dense=gated(""),
        moe=(
            "router: mlp.gate[E,H] experts: E@mlp.experts.0.gate_proj[~M,L] E@mlp.experts.0.up_proj[~M,L] E@mlp.experts.0.down_proj[L,~M]"
            f" {shared()} mlp: mlp.routed_expert_down_proj(L,H)?compressed mlp.routed_expert_up_proj(H,L)?compressed"
            " norm: mlp.routed_expert_norm[L]?latent_norm"
        ),
        norms=(
            f"{NORM2} self_attention_res_norm[H]?residuals mlp_res_norm[H]?residuals attention: self_attention_res_proj(1,H)?residuals"
            " mlp_res_proj(1,H)?residuals"
        ),
        recurrent={"": (
            KDA.replace("g_a_proj[n,H]", "g_a_proj[n,H]?!full_gate").replace("g_b_proj[~N*n,n]", "g_b_proj[~N*n,n]?!full_gate")
            + " self_attn.g_proj[~N*n,H]?full_gate"
        )},
        more=special.kimi,
    ),
    "bailing_hybrid": Family(
        latent=latent("self_attn.g_proj[A,H]"), dense=gated(""), moe=f"{experts()} {shared()}",
        recurrent={"": (
            "recurrent: self_attn.q_proj[~N*n,H] self_attn.k_proj[~N*n,H] self_attn.v_proj[~N*n,H] self_attn.conv1d(~3*N*n,1,kda_kernel)"
            " self_attn.dt_bias[~N*n] self_attn.A_log[~N] self_attn.f_proj[~N*n,H] self_attn.b_proj[~N,H]"
            " self_attn.g_proj[~N*n,H] self_attn.o_norm[n] self_attn.o_proj[H,~N*n]"
        )},
        fallback={"linear_num_heads": "A"},
    ),
    "axk2": Family(
        latent=(
            "attention: self_attn.q_a_proj[q_lora_rank,H]+attention_bias self_attn.q_gate_proj[~A*qkv,2*q_lora_rank]"
            " self_attn.kv_a_proj_with_mqa[latent,H]+attention_bias self_attn.kv_b_proj[~A*expanded,R]"
            " self_attn.o_proj[H,~A*dv]+attention_bias norm: self_attn.q_a_layernorm[q_lora_rank] self_attn.kv_a_layernorm[R]"
            f" {INDEXER}"
        ),
        dense=gated(""), moe=f"{experts()} {shared()} norm: post_attention_layernorm.mlp.fc1(gated_norm_rank,H) post_attention_layernorm.mlp.fc2(H,gated_norm_rank)",
        norms=f"{NORM2} input_layernorm.mlp.fc1(gated_norm_rank,H) input_layernorm.mlp.fc2(H,gated_norm_rank)", given={"qkv": "qk+dv"},
    ),
    **dict.fromkeys(("dots3_note_text", "dots3_note"), Family(
        latent=latent("self_attn.g_proj[A,H] self_attn.k_rope_only_layernorm[rope]"), dense=gated(""), moe=f"{experts()} {shared()}",
    )),
    "hy_v4": Family(
        latent=latent("self_attn.sinks[~A] self_attn.gate_proj[~A*dv,H]"), dense=gated(""), moe=f"{experts()} {shared()}",
        norms=f"{NORM2} {hyper('attn_hc', '2*hc_mult', 2)} {hyper('ffn_hc', '2*hc_mult', 2)}",
        last=f"norm: hc_head.hc_fn(hc_mult,hc_mult*H) hc_head.hc_base[hc_mult] hc_head.hc_scale[1] {HEAD}",
    ),
    "glm5_next_text": Family(
        latent=latent("indexer: self_attn.indexer.index_kpool_compress_ape(index_kpool,index_head_dim)?indexer"
                      " self_attn.indexer.index_kpool_compress_gate[index_head_dim,H]?indexer"),
        recurrent={"": KDA}, dense=gated(""), moe=f"{experts()} {shared()}", norms=f"{NORM2} {hyper('attn_hc')} {hyper('ffn_hc')}",
    ),
    "mistral_large4_text": Family(
        latent=(
            "attention: self_attn.q_proj[~A*qk,H] self_attn.kv_a_proj_with_mqa[latent,H]?keeps self_attn.kv_b_proj[~A*expanded,R]"
            " self_attn.o_proj[H,~A*dv] self_attn.softmax_scaling.scale[A] self_attn.softmax_scaling.bias[A] norm: self_attn.kv_a_layernorm[R]?keeps"
            " indexer: self_attn.indexer.wq_b[index_n_heads*index_head_dim,H]?keeps self_attn.indexer.wk[index_head_dim,H]?keeps"
            " self_attn.indexer.k_norm[index_head_dim]+?keeps self_attn.indexer.weights_proj(index_n_heads,H)?keeps self_attn.indexer.q_input_norm[H]+?keeps"
            " self_attn.indexer.softmax_scaling.scale[index_n_heads]?keeps self_attn.indexer.softmax_scaling.bias[index_n_heads]?keeps"
        ),
        dense=gated(""), moe=f"{experts()} {shared()}", locals=special.mistral_large4,
    ),
    "muse_spark_text": Family(
        attention=attention(more="self_attn.gate_proj[~A*d,H]"),
        moe=(
            "router: mlp.gate[E,H] mlp: mlp.pre_expert_proj[moe_hidden_size,H] mlp.post_expert_proj[H,moe_hidden_size]"
            " norm: mlp.pre_expert_norm[moe_hidden_size] mlp.post_expert_norm[moe_hidden_size]"
            " experts: E@mlp.experts.0.gate_proj[~M,moe_hidden_size] E@mlp.experts.0.up_proj[~M,moe_hidden_size]"
            " E@mlp.experts.0.down_proj[moe_hidden_size,~M]"
        ),
        norms=(
            "input_layernorm[H] pre_feedforward_layernorm[H] post_feedforward_layernorm[H] post_attention_residual_gate[H]"
            " post_feedforward_residual_gate[H]"
        ),
    ),
    "muse_glimmer_text": Family(attention=attention(more="self_attn.gate_proj[~A*d,H]"), norms=NORM4),
    # gates, sinks and distances as projections; short convolutions over keys, values and both outputs
    "inkling2_text": Family(
        attention=(
            "attention: self_attn.q_proj[~A*d,H] self_attn.k_proj[~G*d,H] self_attn.v_proj[~G*dv,H] self_attn.o_proj[H,~A*dv]"
            " self_attn.r_proj[~A*d_rel,H] self_attn.gate_proj[~A*dv,H] self_attn.sink_proj[~A,H] self_attn.rel_logits_proj(d_rel,rel_extent)"
            " self_attn.q_l2_clip.scale(~A,d) self_attn.rel_l2_clip.scale(~A,d_rel) norm: input_layernorm[H]?windowed"
            " q_input_layernorm[H]?!windowed k_input_layernorm[H]?!windowed v_input_layernorm[H]?!windowed"
            " attention_input.query[H]?later attention_input.more_queries(2,H)?!windowed"
        ),
        recurrent={"": (
            "recurrent: self_attn.k_sconv.conv(~G*d,1,conv_kernel_size) self_attn.v_sconv.conv(~G*dv,1,conv_kernel_size)"
            " self_attn.k_sconv.weight_proj[G*conv_kernel_size,H]?!windowed self_attn.v_sconv.weight_proj[G*conv_kernel_size,H]?!windowed"
            " post_attention_convolution(H,1,conv_kernel_size) post_mlp_convolution(H,1,conv_kernel_size)"
        )},
        moe=experts(), norms="post_attention_layernorm[H] mlp_input.query[H]", locals=special.later,
        first=f"{EMBEDDING} norm: model.embed_tokens.embed_norm[H]", last=f"norm: model.final_input.query[H] {HEAD}",
    ),
    "beam": Family(
        attention=attention(norm=HEAD_NORM, more="self_attn.gate_bias[A] self_attn.gate_proj[~A*d,H]"), moe=experts(), norms=NORM4,
    ),
    "inkling_text": Family(
        attention=attention("", "", norm=HEAD_NORM, more=_INKLING.removeprefix("attention: ")), recurrent={"": "recurrent:"},
        moe=(
            f"router: mlp.gate[E+n_shared_experts,H] mlp.gate.global_scale[1] experts:{experts().partition('experts:')[2]}"
            f" {shared()}"
        ),
        norms=f"{NORM2} attn_sconv.conv1d(H,1,conv_kernel_size) mlp_sconv.conv1d(H,1,conv_kernel_size)",
        first=f"{EMBEDDING} norm: embed_norm[H]", locals=special.inkling,
    ),
}  # fmt: skip
