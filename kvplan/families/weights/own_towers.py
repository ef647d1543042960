"""Towers of models whose own code builds them: the config calls them by the model's word, and no class stands behind it."""

from __future__ import annotations

from math import isfinite

from kvplan.arch.weights import Component
from kvplan.errors import BadField, MissingField
from kvplan.families.weights.symbols import ConfigSymbols
from kvplan.families.weights.towers import Given, Tower, encoder_layer, whole, whole_attention

QUERIES = 256
"""Tokens that Qwen-VL's resampler makes of an image, as its VisionTransformer builds it: n_queries."""


def _openclip_width(symbols: ConfigSymbols) -> Given:
    """The MLP's width, a whole part: int(width * mlp_ratio).

    Raises: MissingField, BadField.
    """
    ratio = symbols.fields.find("mlp_ratio")
    if ratio is None:
        raise MissingField(f"{symbols.fields.path}mlp_ratio")
    if isinstance(ratio[1], bool) or not isinstance(ratio[1], int | float) or not isfinite(ratio[1]) or ratio[1] <= 0:
        raise BadField(f"{symbols.fields.path}mlp_ratio", ratio[1], "a positive number")
    return {"I": int(symbols.number("width") * ratio[1])}


QWEN_VL = Tower(
    "conv1(H,3,patch_size,patch_size) positional_embedding(queries,H) ln_pre[H]+"
    " attn_pool.pos_embed(queries,output_dim) attn_pool.query(queries,output_dim) attn_pool.kv_proj[output_dim,H]"
    " attn_pool.attn.in_proj[3*output_dim,output_dim]+ attn_pool.attn.out_proj[output_dim,output_dim]+"
    " attn_pool.ln_q[output_dim]+ attn_pool.ln_kv[output_dim]+ ln_post[output_dim]+ proj(output_dim,output_dim)",
    whole_attention(encoder_layer()),
    given={"H": "width", "A": "heads", "queries": QUERIES}, more=_openclip_width,
)  # fmt: skip
"""Source: Qwen-VL visual.py VisionTransformer and Resampler; transformer layers are OpenCLIP's, their MLPs dealt out."""

QWEN_AUDIO = Tower(
    "conv1(H,n_mels,3)+ conv2(H,H,3)+ positional_embedding(n_ctx,H) ln_post[H]+ proj[output_dim,H]+"
    " audio_bos_eos_token(2,output_dim)?add_audio_bos_eos_token",
    whole(encoder_layer(k_bias="")), given={"H": "n_state", "I": "4*n_state"},
)  # fmt: skip
"""Source: Qwen-Audio audio.py AudioEncoder: Whisper's, its table of positions a buffer that the files hold."""

OWN: dict[str, tuple[str, Component, Tower]] = {
    "visual": ("qwen", "vision", QWEN_VL),
    "audio": ("qwen", "audio", QWEN_AUDIO),
}
"""Objects of a config that describe a tower: the model type that says so by that word, and what it is."""
