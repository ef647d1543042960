"""Softmax attention: heads and head sizes, however a config spells them."""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.arch.formats import FORMATS
from kvplan.arch.layers import Attention, CrossAttention, Indexer
from kvplan.errors import BadField, MissingField
from kvplan.families.fields import Fields
from kvplan.families.spellings import HEAD_DIM, HEADS, KV_HEADS, WIDTH
from kvplan.text import any_of


@dataclass(frozen=True, slots=True)
class Heads:
    """Query heads, KV heads, and elements of one head's key and value."""

    heads: int | None
    kv_heads: int
    k_dim: int
    v_dim: int

    def attention(self, *, window: int | None = None, chunk: int | None = None) -> Attention:
        """An attention layer with these heads."""
        return Attention(self.heads, self.kv_heads, self.k_dim, self.v_dim, window=window, chunk=chunk)

    def cross(self, tokens: int) -> CrossAttention:
        """A cross-attention layer with these heads."""
        return CrossAttention(self.heads or self.kv_heads, self.kv_heads, self.k_dim, self.v_dim, tokens)


def query_heads(fields: Fields) -> int | None:
    """Query heads; None where a config states key and value heads alone.

    Raises: BadField, MissingField.
    """
    return fields.core(*HEADS)


def width(fields: Fields) -> int | None:
    """hidden_size; None when the config doesn't say.

    Raises: BadField, MissingField.
    """
    return fields.core(*WIDTH)


def heads(fields: Fields) -> Heads:
    """The heads of ordinary layers.

    Raises: MissingField, BadField.
    """
    queries = query_heads(fields)
    kv = kv_heads(fields, queries)
    k_dim = head_dim(fields, queries)
    v_dim = value_dim(fields, k_dim)
    fields.ignored(*KV_HEADS, used=kv)
    fields.ignored("value size", "v_head_dim", used=v_dim)
    return Heads(queries, kv, k_dim, v_dim)


def kv_heads(fields: Fields, queries: int | None) -> int:
    """KV heads. A class that documents none, and a config that states none, mean multi-head attention.

    Raises: MissingField, BadField.
    """
    stated = fields.of_class(*KV_HEADS)
    if stated is None and not fields.stated_null(KV_HEADS[0]):
        default = fields.defaults.value(KV_HEADS[0])
        if isinstance(default, int) and default > 0:
            stated = default
            fields.note_default(KV_HEADS[0], default)
    if stated is None:
        if queries is None:
            raise MissingField(any_of(fields.path + name for name in (HEADS[0], KV_HEADS[0])))
        fields.note_default(KV_HEADS[0], queries, "no key or value head count stated: one per query head (MHA)")
        return queries
    return grouped(fields, queries, stated, KV_HEADS[0])


def grouped(fields: Fields, queries: int | None, kv: int, name: str) -> int:
    """KV heads that divide the query heads, as grouped-query attention needs.

    Raises: BadField.
    """
    if queries is not None and queries % kv:
        raise BadField(fields.path + name, kv, f"a divisor of the {queries} query heads")
    return kv


def head_dim(fields: Fields, queries: int | None) -> int:
    """Elements of a key: as declared, else the class's, else hidden_size / heads exactly.

    Raises: MissingField, BadField.
    """
    size = _head_dim(fields, queries)
    fields.ignored(*HEAD_DIM, used=size)
    return size


def _head_dim(fields: Fields, queries: int | None) -> int:
    stated = fields.of_class(*HEAD_DIM)
    if stated is not None:
        return stated
    default = fields.defaults.value("head_dim")
    if isinstance(default, int) and default > 0 and not fields.stated_null("head_dim"):
        fields.note_default("head_dim", default)
        return default
    size = width(fields)
    if size is None or queries is None:
        missing = WIDTH[0] if size is None else HEADS[0]
        raise MissingField(f"{fields.path}head_dim or {fields.path}{missing}", cause="a key's size can't be derived")
    return exact_share(fields, size, queries)


def exact_share(fields: Fields, size: int, queries: int) -> int:
    """hidden_size / heads, refused when it isn't whole.

    Raises: BadField.
    """
    if size % queries:
        raise BadField(
            fields.path + "hidden_size", size, f"a multiple of the {queries} heads",
            hint="state head_dim: it isn't hidden_size / heads in this model"
            if fields.of_class(*HEADS)
            else f"state {HEADS[0]}: {queries} is what the class of {fields.model_type} has by default",
        )  # fmt: skip
    return size // queries


def value_dim(fields: Fields, k_dim: int) -> int:
    """Elements of a value: v_head_dim where it is stated, else as many as a key."""
    stated = fields.whole("v_head_dim", least=0) if fields.defaults.reads("v_head_dim") else None
    if not stated:
        default = fields.defaults.value("v_head_dim")
        if isinstance(default, int) and default > 0 and not fields.has("kv_lora_rank"):
            stated = default
            fields.note_default("v_head_dim", default)
    return stated or k_dim


def sliding_heads(fields: Fields, ordinary: Heads) -> Heads:
    """Heads of window layers, which some models shape apart: swa_num_key_value_heads, swa_head_dim, swa_v_head_dim.

    Step-3.5 says it in attention_other_setting.

    Raises: BadField.
    """
    other = fields.child("attention_other_setting") or fields
    apart = other is not fields
    queries = (other.whole(*HEADS) if apart else fields.whole("swa_num_attention_heads")) or ordinary.heads
    kv = other.whole(*KV_HEADS) if apart else fields.whole("swa_num_key_value_heads")
    kv = kv or _sliding_kv_heads(fields, ordinary)
    k_dim = (other.whole("head_dim") if apart else fields.whole("swa_head_dim")) or ordinary.k_dim
    v_dim = fields.whole("swa_v_head_dim") or (ordinary.v_dim if k_dim == ordinary.k_dim else k_dim)
    return Heads(queries, grouped(fields, queries, kv, "swa_num_key_value_heads"), k_dim, v_dim)


SLIDING_KV_FACTOR = {"mimo_v2_flash": 2}
"""KV heads of window layers per KV head of full ones, where a class says so and a config doesn't.

Source: transformers 5.23 models/mimo_v2_flash/modeling_mimo_v2_flash.py.
"""


def _sliding_kv_heads(fields: Fields, ordinary: Heads) -> int:
    factor = SLIDING_KV_FACTOR.get(fields.model_type, 1)
    if factor > 1:
        fields.note_default("swa_num_key_value_heads", factor * ordinary.kv_heads)
    return factor * ordinary.kv_heads


def global_heads(fields: Fields, ordinary: Heads) -> Heads:
    """Heads of full layers where window layers are the ordinary ones: global_head_dim, num_global_key_value_heads.

    A separate KV head count holds only where keys and values are one projection: see `values_are_keys`.
    Source: transformers 5.23 models/gemma4/modeling_gemma4.py.

    Raises: BadField.
    """
    k_dim = fields.whole_or_default("global_head_dim")
    if k_dim is None:
        return ordinary
    kv = fields.whole("num_global_key_value_heads") if values_are_keys(fields) else None
    count = grouped(fields, ordinary.heads, kv or ordinary.kv_heads, "num_global_key_value_heads")
    return Heads(ordinary.heads, count, k_dim, k_dim)


def values_are_keys(fields: Fields) -> bool:
    """Whether one projection makes keys and values of full layers (attention_k_eq_v): always, of a class without that field.

    Source: transformers 5.23 models/diffusion_gemma/configuration_diffusion_gemma.py, whose class drops it, `getattr(self,
    "attention_k_eq_v", True)`; vLLM 0.24 to 0.33 models/diffusion_gemma.py, which sets it.

    Raises: BadField.
    """
    stated = bool(fields.flag("attention_k_eq_v"))
    return stated or not fields.defaults.reads("attention_k_eq_v")


def block_sparse(fields: Fields, layer: int) -> tuple[Indexer, int] | None:
    """Index keys of block-sparse attention and the tokens it reads, for layers that have them.

    sparse_attention_freq of sparse_attention_config says which; without it none has, and use_sparse_attention isn't asked. Where
    the object isn't there, layer_types says it. Keys are kept in the model's own 16 bit.

    Source: vLLM 0.33 models/minimax_m3/nvidia/model.py _sparse_attention_layer_ids, whose indexer cache has 2 B an element;
    transformers 5.23 models/minimax_m3_vl/configuration_minimax_m3_vl.py.

    Raises: BadField; MissingField, also where nothing says which layers have them, and servers differ in what they take.
    """
    sparse = fields.child("sparse_attention_config")
    if sparse is None:
        return _listed_sparse(fields, layer)
    index = Indexer(sparse.need("sparse_index_dim"), FORMATS["bf16"])
    tokens = sparse.need("sparse_topk_blocks") * sparse.need("sparse_block_size")
    owners = sparse.wholes("sparse_attention_freq") or ()
    return (index, tokens) if layer < len(owners) and owners[layer] else None


BLOCK_SPARSE = "minimax_m3_sparse"
"""What a list of layers calls those with block-sparse attention."""


def _listed_sparse(fields: Fields, layer: int) -> tuple[Indexer, int] | None:
    types = fields.items("layer_types")
    if types is None and "index_topk_blocks" in fields.defaults.values:
        raise MissingField(
            f"{fields.path}sparse_attention_config",
            cause="nothing says which layers have indexers: the Transformers library takes none, and vLLM all but the first three",
        )
    if types is None or layer >= len(types) or types[layer] != BLOCK_SPARSE:
        return None
    index = Indexer(fields.need("index_head_dim"), FORMATS["bf16"])
    return index, fields.need("index_topk_blocks") * fields.need("index_block_size")


def grouped_indexer(fields: Fields) -> tuple[Indexer, int] | None:
    """Index keys of groups of tokens beside ordinary heads, and the tokens that are read; indexer_n_heads switches them on.

    A key for each indexer_compress_ratio tokens, and the raw ones of the group that isn't full, in the model's own 16 bit; the
    positions that images need beside these are left out, 24 B a token. The Transformers library keeps the raw keys of all tokens.
    Source: vLLM 0.33 models/qwen4_exp/common/qsa_cache.py, nvidia/indexer_qsa.py.

    Raises: BadField, MissingField.
    """
    if not fields.has("indexer_n_heads"):
        return None
    heads = fields.need("indexer_kv_heads")
    if heads != 1:
        raise BadField(f"{fields.path}indexer_kv_heads", heads, "1, as all that choose tokens so")
    group = fields.need("indexer_compress_ratio")
    return Indexer(fields.need("indexer_head_dim"), FORMATS["bf16"], group, gated=False), fields.need("indexer_budget")
