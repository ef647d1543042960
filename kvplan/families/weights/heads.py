"""Drafts that head a target: an ordinary type's layers between ends of their own, told by the class that the config names.

Source: vLLM 0.33 models/llama_eagle3.py, models/qwen3_dflash.py, models/registry.py; v1/spec_decode/llm_base_proposer.py
shares the target's embedding and head with a draft whose checkpoint has none.
"""

from __future__ import annotations

import re
from dataclasses import replace

from kvplan.arch.weights import OWN_EMBEDDING, OWN_ENDS
from kvplan.families import typed
from kvplan.families.fields import Fields
from kvplan.families.weights.family import Family, Given
from kvplan.families.weights.parts import EMBEDDING, HEAD, NORM2, attention
from kvplan.families.weights.symbols import ConfigSymbols
from kvplan.families.weights.table import FAMILIES

AUX_STATES = 3
"""Hidden states of the target that EAGLE-3 reads where its config doesn't count them."""


def _eagle3(symbols: ConfigSymbols) -> Given:
    """What it reads of the target, and the tokens that it drafts: all of them where draft_vocab_size is absent."""
    listed = symbols.fields.find("eagle_config.eagle_aux_hidden_state_layer_ids")
    counted = len(listed[1]) if listed is not None and isinstance(listed[1], list) else 0
    return {
        "aux": symbols.maybe("num_aux_hidden_states") or counted or AUX_STATES,
        "target": symbols.maybe("target_hidden_size") or symbols.number("H"),
        "drafted": symbols.maybe("draft_vocab_size") or symbols.number("V"),
        "norm_before": symbols.on("norm_before_fc") or symbols.on("eagle_config.norm_before_fc"),
    }


def _eagle3_layer(symbols: ConfigSymbols, layer: int, count: int) -> Given:
    """The first layer reads the embedding and the hidden state side by side."""
    del symbols, count
    return {"into": "2*H" if layer == 0 else "H"}


def _dflash(symbols: ConfigSymbols) -> Given:
    """What it reads of the target: a state of each layer listed, else of as many as it has layers of its own."""
    listed = symbols.fields.find("dflash_config.target_layer_ids")
    counted = len(listed[1]) if listed is not None and isinstance(listed[1], list) else 0
    return {
        "aux": counted or symbols.number("layers"),
        "target": symbols.maybe("target_hidden_size") or symbols.number("H"),
    }


def _reading(template: str) -> str:
    """The same attention whose queries, keys and values are read from `into` elements."""
    return re.sub(r"(self_attn\.[qkv]_proj[\w.]*\[~[^,]+),H\]", r"\1,into]", template)


EAGLE3 = Family(
    attention=_reading(attention()), norms=f"{NORM2} hidden_norm[H]", first="", borrowed=EMBEDDING, more=_eagle3,
    locals=_eagle3_layer, tied=False, unsure=OWN_EMBEDDING,
    last="mlp: fc[H,aux*target] norm: model.norm[H] input_norm[aux*target]?norm_before fc_norm(aux,target)?fc_norm head: lm_head[~drafted,H]",
)  # fmt: skip

DFLASH = replace(
    FAMILIES["qwen3"], first="", borrowed=f"{EMBEDDING} head: lm_head[~V,H]", more=_dflash, tied=False, unsure=OWN_ENDS,
    last="mlp: fc[H,aux*target] norm: model.norm[H] hidden_norm[H] mlp: mask_embedding[H]",
)  # fmt: skip


def _assistant(symbols: ConfigSymbols) -> Given:
    """Widths of the whole: the target's, and the centroids that stand for groups of tokens."""
    whole = symbols.fields.parents[0] if symbols.fields.parents else {}
    return {
        "target": typed.whole("backbone_hidden_size", whole.get("backbone_hidden_size") or 1536),
        "ordered": typed.switch("use_ordered_embeddings", whole.get("use_ordered_embeddings") or False),
        "centroids": typed.whole("num_centroids", whole.get("num_centroids") or 2048),
    }


def _assistant_layer(symbols: ConfigSymbols, layer: int, count: int) -> Given:
    """Keys and values are the target's: a layer has queries alone."""
    del symbols, layer, count
    return {"keeps": False, "own_v": True, "W": "I"}


GEMMA4_ASSISTANT = replace(
    FAMILIES["gemma4_text"], more=_assistant, locals=_assistant_layer,
    last=f"{HEAD} mlp: pre_projection[H,2*target] post_projection[target,H] head: masked_embedding.centroids[centroids,H]?ordered"
    " masked_embedding.token_ordering(V,4)?ordered",  # a number of 8 B for each token, as four of 2 B
)  # fmt: skip
"""Source: transformers 5.23 models/gemma4_assistant, whose numbers a config may leave out; vLLM 0.33 models/gemma4_mtp.py."""

CLASSES = {
    "Gemma4AssistantForCausalLM": ("gemma4_text", GEMMA4_ASSISTANT),
    "Gemma4UnifiedAssistantForCausalLM": ("gemma4_unified_text", GEMMA4_ASSISTANT),
    **dict.fromkeys(
        (
            "Eagle3LlamaForCausalLM", "LlamaForCausalLMEagle3", "PEagleDraftModel", "PeagleLlamaForCausalLM", "Eagle3MiniMaxM2ForCausalLM",
            "Eagle3Qwen2_5vlForCausalLM", "Eagle3Qwen3vlForCausalLM",
        ),
        ("llama", EAGLE3),
    ),
    **dict.fromkeys(("DFlashDraftModel", "QwenDFlashDraftModel"), ("qwen3", DFLASH)),
}  # fmt: skip
"""By the class that the config names: the model type that it must have, and the family."""

OTHERS = re.compile(r"Eagle|EAGLE|MTP|DFl|DSpark|Medusa|Draft|Speculator")
"""What the names of further classes hold that draft: they have ends and inputs that no table knows."""


def class_of(fields: Fields) -> str:
    """The first class that the config names; "" when it names none."""
    found = fields.shared("architectures")
    return str(found[1][0]) if found is not None and isinstance(found[1], list) and found[1] else ""


def drafting(fields: Fields) -> Family | None:
    """The family of a draft that heads a target, None for whatever else."""
    model_type, family = CLASSES.get(class_of(fields), ("", None))
    return family if model_type == fields.model_type else None


def unknown(fields: Fields) -> bool:
    """Whether the config's class drafts in a way that no table knows."""
    return drafting(fields) is None and bool(OTHERS.search(class_of(fields)))
