"""Pieces that the families' templates are made of, named as most checkpoints name them."""

from __future__ import annotations


def attention(
    qkv: str = "+attention_bias", o: str = "+attention_bias", norm: str = "", more: str = "", query: str = "A*d"
) -> str:
    """Softmax attention.

    qkv, o: biases of the projections. norm: of queries and keys. query: width of the query projection, twice where it
    makes a gate too. more: further tensors.
    """
    return (
        f"attention: self_attn.q_proj[~{query},H]{qkv} self_attn.k_proj[~G*d,H]{qkv}?keeps?own_v self_attn.k_proj.also_v[~G*d,H]{qkv}?keeps?!own_v"
        f" self_attn.v_proj[~G*dv,H]{qkv}?keeps?own_v self_attn.o_proj[H,~A*dv]{o} {more} {norm}"
    )


HEAD_NORM = "norm: self_attn.q_norm[d] self_attn.k_norm[d]?keeps"
"""A norm over each head's query and key."""
FULL_NORM = "norm: self_attn.q_norm[A*d] self_attn.k_norm[G*d]"
"""A norm over all heads' queries and keys together."""
SINKS = "self_attn.sinks[~A]"


def gated(bias: str = "+mlp_bias", width: str = "I", prefix: str = "mlp") -> str:
    """Gate, up and down projections."""
    return (
        f"mlp: {prefix}.gate_proj[~{width},H]{bias} {prefix}.up_proj[~{width},H]{bias}"
        f" {prefix}.down_proj[H,~{width}]{bias}"
    )


def plain(bias: str = "", width: str = "I", prefix: str = "mlp") -> str:
    """Up and down projections with an activation between them."""
    return f"mlp: {prefix}.up_proj[~{width},H]{bias} {prefix}.down_proj[H,~{width}]{bias}"


def experts(router: str = "", bias: str = "", prefix: str = "mlp") -> str:
    """Router and gated experts. router, bias: biases of the router and of the experts."""
    return (
        f"router: {prefix}.gate[E,H]{router} experts: E@{prefix}.experts.0.gate_proj[~M,H]{bias}"
        f" E@{prefix}.experts.0.up_proj[~M,H]{bias} E@{prefix}.experts.0.down_proj[H,~M]{bias}"
    )


def shared(prefix: str = "mlp.shared_experts", bias: str = "", more: str = "") -> str:
    """Experts that every token passes, as one MLP of their joint width; none where the config has none."""
    return (
        f"shared_experts: {prefix}.gate_proj[~S,H]{bias}?S {prefix}.up_proj[~S,H]{bias}?S {prefix}.down_proj[H,~S]{bias}?S"
        f" {more}"
    )


SHARED_GATE = "router: mlp.shared_expert_gate[1,H]?S"


def latent(more: str = "") -> str:
    """Multi-head latent attention, with or without compressed queries, and its sparse indexer where there is one."""
    return (
        f"attention: self_attn.q_a_proj[q_lora_rank,H]+attention_bias?q_lora_rank"
        f" self_attn.q_b_proj[~A*qk,q_lora_rank]?q_lora_rank self_attn.q_proj[~A*qk,H]?!q_lora_rank"
        f" self_attn.kv_a_proj_with_mqa[latent,H]+attention_bias self_attn.kv_b_proj[~A*expanded,R] self_attn.o_proj[H,~A*dv]+attention_bias {more}"
        f" norm: self_attn.q_a_layernorm[q_lora_rank]?q_lora_rank self_attn.kv_a_layernorm[R]"
        f" {INDEXER}"
    )


INDEXER = (
    "indexer: self_attn.indexer.wq_b[index_n_heads*index_head_dim,q_lora_rank]?indexer"
    " self_attn.indexer.wk[index_head_dim,H]?indexer self_attn.indexer.k_norm[index_head_dim]+?indexer"
    " self_attn.indexer.weights_proj(index_n_heads,H)?indexer"
)

NORM1 = "input_layernorm[H]"
NORM2 = "input_layernorm[H] post_attention_layernorm[H]"
NORM4 = f"{NORM2} pre_feedforward_layernorm[H] post_feedforward_layernorm[H]"
POST_NORM2 = "post_attention_layernorm[H] post_feedforward_layernorm[H]"
BIASED2 = "input_layernorm[H]+ post_attention_layernorm[H]+"

EMBEDDING = "embedding: model.embed_tokens[~V,H]"
HEAD = "norm: model.norm[H] head: lm_head[~V,H]"
BIASED_HEAD = "norm: model.norm[H]+ head: lm_head[~V,H]"

MAMBA = (
    "recurrent: mamba.A_log(~inner,state) mamba.D[~inner] mamba.conv1d(~inner,1,kernel)+conv_bias"
    " mamba.in_proj[~2*inner,H]+in_bias mamba.x_proj[rank+2*state,~inner] mamba.dt_proj[~inner,rank]+ mamba.out_proj[H,~inner]+in_bias"
)
MAMBA2 = (
    "recurrent: mamba.dt_bias[~heads] mamba.A_log[~heads] mamba.D[~heads] mamba.conv1d(~inner,1,kernel)+conv_bias"
    " mamba.conv1d(~groups*2*state,1,kernel)+conv_bias mamba.in_proj[~2*inner,H]+in_bias mamba.in_proj[~groups*2*state,H]+in_bias"
    " mamba.in_proj[~heads,H]+in_bias mamba.norm[~inner]?mixer_norm mamba.out_proj[H,~inner]+in_bias"
)
_QK, _V = "linear_num_key_heads*linear_key_head_dim", "linear_num_value_heads*linear_value_head_dim"
JOINED_QKV = f" linear_attn.in_proj_qkv[~2*{_QK}+{_V},H]"
APART_QKV = f" linear_attn.q_proj[~{_QK},H] linear_attn.k_proj[~{_QK},H] linear_attn.v_proj[~{_V},H]"
DELTA = (
    "recurrent: linear_attn.dt_bias[~linear_num_value_heads] linear_attn.A_log[~linear_num_value_heads]"
    " linear_attn.conv1d(~2*linear_num_key_heads*linear_key_head_dim+linear_num_value_heads*linear_value_head_dim,1,linear_conv_kernel_dim)"
    f"{JOINED_QKV}"
    " linear_attn.in_proj_z[~linear_num_value_heads*linear_value_head_dim,H]"
    " linear_attn.in_proj_b[~linear_num_value_heads,H] linear_attn.in_proj_a[~linear_num_value_heads,H]"
    " linear_attn.norm[linear_value_head_dim] linear_attn.out_proj[H,~linear_num_value_heads*linear_value_head_dim]"
)
SHORT_CONV = (
    "recurrent: conv.conv(~H,1,conv_L_cache)+conv_bias conv.in_proj[~3*H,H]+conv_bias conv.out_proj[H,~H]+conv_bias"
)
KDA = (
    "recurrent: self_attn.q_proj[~N*n,H] self_attn.k_proj[~N*n,H] self_attn.v_proj[~N*n,H] self_attn.conv1d(~3*N*n,1,kda_kernel)"
    " self_attn.dt_bias[~N*n] self_attn.A_log[~N] self_attn.f_a_proj[n,H] self_attn.f_b_proj[~N*n,n] self_attn.b_proj[~N,H]"
    " self_attn.g_a_proj[n,H] self_attn.g_b_proj[~N*n,n] self_attn.o_norm[n] self_attn.o_proj[H,~N*n]"
)


def hyper(name: str, rows: str = "hc_mult*hc_mult+2*hc_mult", scales: int = 3) -> str:
    """Hyper-connections: how a layer mixes the streams of the residual."""
    return f"attention: {name}.fn({rows},hc_mult*H) {name}.base[{rows}] {name}.scale[{scales}]"


def repeated(times: int | str, text: str) -> str:
    """The same tensors that many times."""
    return " ".join(word if word.endswith(":") else f"{times}@{word}" for word in text.split())
