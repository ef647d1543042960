"""Properties of a model besides its layers and weights, which only engines branch on. Each is a name in `Model.traits`."""

from __future__ import annotations

IMAGE_PREFIX = "image_prefix"
"""Image tokens attend to each other both ways: use_bidirectional_attention "vision". Source: Gemma 4's config."""

BOTH_WAYS = "both_ways"
"""Every token sees every other, as in embedders: is_causal false, or use_bidirectional_attention true.

Source: EmbeddingGemma's config; vLLM 0.33 models/config.py Gemma3TextModelConfig.
"""

DRAFTS_ALONE = "drafts_alone"
"""Of a model that drafts for another: that it was asked for as a model of its own, whatever its class."""

OWN_CODE = "own_code"
"""The checkpoint brings the code that reads its config (auto_map), and the Transformers library has none for its type."""

CODE_BESIDE = "code_beside"
"""The checkpoint brings code that reads its config, and the Transformers library has a class for its type too, which is read
unless that code is asked for."""

UNKNOWN_TYPE = "unknown_type"
"""The Transformers library has no class for the type of the whole config, and the checkpoint brings no code for it."""

UNTYPED = "untyped"
"""The config as a whole states no model_type."""

TEXT_FOR_WHOLE = "text_for_whole"
"""The config is of a text model alone, and names a class of a whole with towers, which looks for more in it."""

PART_FOR_WHOLE = "part"
"""Before `=`: the type of the text model whose class the config of a whole names, which has its text model inside."""

NAMELESS = "nameless"
"""The config as a whole names no class; a part of it may, which engines don't ask."""

LISTED_INDEXERS = "listed_indexers"
"""Which layers have an indexer is said by indexer_types alone, which few of vLLM's classes read. Source: vLLM 0.33 models/deepseek_v2.py."""

DENSE_UNLISTED = "dense_unlisted"
"""No list says which layers an indexer chooses for, and engines take none where the type's class takes all: layer_types of HY-4."""

GGUF_FILES = "gguf_files"
"""The files beside the config are llama.cpp's."""

GPTQ_ORDER = "gptq_order"
"""GPTQ weights whose groups are in the order of activations: desc_act with groups shorter than a row."""

FP8_SCALES = "fp8_scales"
"""The checkpoint may bring scales of an e4m3 cache, so that vLLM takes no e5m2 one."""

OTHER_ACTIVATION = "other_activation"
"""The activation is stated, and is neither SiLU nor a squared ReLU, which kernels for experts are written for."""

ACTIVATIONS = ("hidden_act", "hidden_activation", "activation_function")
"""Fields that name an activation."""

PAD = "pad_token_id"
"""The field with the token that fills up."""

NULLED = "null"
"""Before `=`: the first field with a null that Transformers 5's class of the type doesn't take, by its path in the config."""

MISTYPED = "mistyped"
"""Before `=`: the first field with a value of a type that Transformers 5's class doesn't take, by its path, and what it takes."""

SWITCHES = (
    "add_cross_attention", "no_kda_lora", "reorder_and_upcast_attn", "rotary", "scale_attn_by_inverse_layer_idx", "tie_word_embeddings",
)  # fmt: skip
"""Fields that classes of engines are written for one value of."""

OF_WHOLES = ("tie_word_embeddings",)
"""Fields that the outermost object of a config says. Source: vLLM 0.33 config/vllm.py with_hf_config, Transformers 5."""

VALUES = (*ACTIVATIONS, PAD, *SWITCHES)
"""Fields whose values engines check: a trait each, `hidden_act=gelu`, where a config states one, also null."""


def stated(traits: tuple[str, ...], field: str) -> str | None:
    """What a config's field says, as text; None where it isn't there."""
    return next((trait.partition("=")[2] for trait in traits if trait.partition("=")[0] == field), None)


NOT_IN_16_BIT = "not_in_16_bit"
"""The config states float32 or no dtype at all: the model's 16-bit format is an engine's choice, not the checkpoint's."""

TWO_ROPE_TYPES = "two_rope_types"
"""A scaling of rotary positions states a type and a rope_type, and they aren't one."""

NO_ROPE_TYPE = "no_rope_type"
"""A scaling of rotary positions states null for its type."""

ROPES_BY_LAYER = "ropes_by_layer"
"""Rotary positions are stated for each type of layer."""

INDEXES_HEADS = "indexes_heads"
"""Indexers choose which keys ordinary attention heads read, by groups of tokens."""

ROPE_PARAMETERS = "rope_parameters"
"""Only rope_parameters says how the language model's rotary positions are scaled, or what their base is."""

UNROTATED = "unrotated"
"""The model has no rotary positions, whatever the config says of their scaling."""

FIRST_CHATGLM = "first_chatglm"
"""The first ChatGLM, whose code is another one's: its config says nothing of original_rope, as all later ones do."""

NEGATIVE_WINDOW = "negative_window"
"""sliding_window is -1 where a positive one would give layers a window: the Transformers library masks nothing then."""

NO_DRAFTS = "no_drafts"
"""The config states that there are no prediction layers, where others of its type that say nothing have one."""

ZERO_WINDOW = "zero_window"
"""sliding_window is 0 where a positive one would give layers a window: there is none, for engines that say so."""

UNDRAFTED = "undrafted"
"""Its tokens are drafted by no layers: not by another model's, nor by its own. Nobody's config says so: kvplan.arch.extras."""

OTHER_STATE = "other_state"
"""Heads of a state whose sizes, as stated or by the type's class, aren't those of its inner width: heads x their size isn't
expand x hidden_size."""

UNLISTED = "unlisted"
"""The list of its layers that the type's class asks for isn't there, or what would stand for it can't be computed with."""

TEXT_ALONE = "text_alone"
"""Its towers are left out, as nothing but text is served. Nobody's config says so: kvplan.arch.extras."""
