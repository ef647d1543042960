"""Properties of a model that only engines use. Each is a name in `Model.traits`."""

from __future__ import annotations

IMAGE_PREFIX = "image_prefix"
"""Image tokens attend to each other both ways: use_bidirectional_attention "vision". Source: Gemma 4's config."""

BOTH_WAYS = "both_ways"
"""Every token sees every other, as in embedders: is_causal false, or use_bidirectional_attention true.

Source: EmbeddingGemma's config; vLLM 0.33 models/config.py Gemma3TextModelConfig.
"""

DRAFTS_ALONE = "drafts_alone"
"""A model that drafts for another was asked for by itself, whatever its class."""

OWN_CODE = "own_code"
"""The checkpoint brings the code that reads its config (auto_map); Transformers has none for its type."""

CODE_BESIDE = "code_beside"
"""The checkpoint brings code that reads its config, and Transformers has a class for its type too, which is used unless
the checkpoint's code is asked for.
"""

UNKNOWN_TYPE = "unknown_type"
"""Transformers has no class for the type of the whole config, and the checkpoint brings no code for it."""

UNTYPED = "untyped"
"""The config as a whole states no model_type."""

TEXT_FOR_WHOLE = "text_for_whole"
"""The config describes a text model but names the class of a whole with towers, which expects more fields."""

PART_FOR_WHOLE = "part"
"""Before `=`: the type of the text model whose class the config of a whole names, which has its text model inside."""

NAMELESS = "nameless"
"""The whole config names no class. A part of it may, but engines don't look there."""

PART_NAMELESS = "part_nameless"
"""The language model is a part of the config, and that part names no class."""

LISTED_INDEXERS = "listed_indexers"
"""Only indexer_types says which layers have an indexer, and few of vLLM's classes read it. Source: vLLM 0.33
models/deepseek_v2.py.
"""

DENSE_UNLISTED = "dense_unlisted"
"""No list says which layers an indexer chooses for. Engines assume none where the type's class assumes all: layer_types
of HY-4.
"""

GGUF_FILES = "gguf_files"
"""The files beside the config are GGUF files."""

GPTQ_ORDER = "gptq_order"
"""GPTQ weights with groups in the order of activations: desc_act with groups shorter than a row."""

FP8_SCALES = "fp8_scales"
"""The checkpoint may bring scales for an e4m3 cache, so that vLLM refuses an e5m2 one."""

OTHER_ACTIVATION = "other_activation"
"""The stated activation is neither SiLU nor a squared ReLU, the two that kernels for experts support."""

ACTIVATIONS = ("hidden_act", "hidden_activation", "activation_function")
"""Fields that name an activation."""

PAD = "pad_token_id"
"""The field that names the padding token."""

NULLED = "null"
"""Followed by `=` and the path of the first null field that Transformers 5's class of the type rejects."""

MISTYPED = "mistyped"
"""Before `=`: the first field with a value of a type that Transformers 5's class doesn't take, by its path, and what it takes."""

SWITCHES = (
    "add_cross_attention", "no_kda_lora", "reorder_and_upcast_attn", "rotary", "scale_attn_by_inverse_layer_idx", "tie_word_embeddings",
)  # fmt: skip
"""Fields for which engines support only one value."""

SEES = "sees"
"""Before `=`: a field of the whole config that describes what sees, one of SEEN."""

SEEN = ("vision_config", "visual")
"""Fields by which classes for text alone know a model that sees, also where their value is null."""

OF_WHOLES = ("tie_word_embeddings",)
"""Fields that the outermost object of a config says. Source: vLLM 0.33 config/vllm.py with_hf_config, Transformers 5."""

VALUES = (*ACTIVATIONS, PAD, *SWITCHES)
"""Fields whose values engines check. Each one that a config states, even as null, gives a trait like `hidden_act=gelu`."""


def stated(traits: tuple[str, ...], field: str) -> str | None:
    """The value of a config's field as text; None if the field isn't there."""
    return next((trait.partition("=")[2] for trait in traits if trait.partition("=")[0] == field), None)


NOT_IN_16_BIT = "not_in_16_bit"
"""The config states float32 or no dtype: the 16-bit format is the engine's choice, not the checkpoint's."""

TWO_ROPE_TYPES = "two_rope_types"
"""A scaling of rotary positions states both type and rope_type, and they differ."""

NO_ROPE_TYPE = "no_rope_type"
"""A scaling of rotary positions states null as its type."""

ROPES_BY_LAYER = "ropes_by_layer"
"""Rotary positions are stated for each type of layer."""

INDEXES_HEADS = "indexes_heads"
"""Indexers choose which keys ordinary attention heads read, by groups of tokens."""

ROPE_PARAMETERS = "rope_parameters"
"""Only rope_parameters states the scaling or the base of the language model's rotary positions."""

UNROTATED = "unrotated"
"""The model has no rotary positions, whatever the config says about their scaling."""

FIRST_CHATGLM = "first_chatglm"
"""The first ChatGLM, which has code of its own: its config lacks original_rope, which all later ones have."""

NEGATIVE_WINDOW = "negative_window"
"""sliding_window is -1 where a positive value would give layers a window; Transformers then masks nothing."""

NO_DRAFTS = "no_drafts"
"""The config states that there are no prediction layers, where the type has one by default."""

ZERO_WINDOW = "zero_window"
"""sliding_window is 0 where a positive value would give layers a window; some engines take that as none."""

UNDRAFTED = "undrafted"
"""No layers draft its tokens, neither another model's nor its own. Set by kvplan.arch.extras, never by a config."""

OTHER_STATE = "other_state"
"""The sizes of a state's heads don't match its inner width, as stated or by the type's class: heads x size isn't expand
x hidden_size.
"""

UNLISTED = "unlisted"
"""The list of layers that the type's class requires is missing, or its replacement can't be computed."""

TEXT_ALONE = "text_alone"
"""Towers are left out because only text is served. Set by kvplan.arch.extras, never by a config."""
