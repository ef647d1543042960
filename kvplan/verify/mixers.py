"""From a layer's cache and weights to the mixer that one tensor rank runs. Pure."""

from __future__ import annotations

from collections.abc import Callable

from kvplan.arch.layers import Attention, Cache, Latent, Recurrent, StateTensor
from kvplan.arch.weights import Block, Weight
from kvplan.errors import CannotSplit, Unsupported
from kvplan.verify.names import Names
from kvplan.verify.parts import (
    INDEX_KEYS,
    AttentionPart,
    ConvPart,
    DeltaPart,
    IndexerPart,
    Kept,
    LatentPart,
    MambaPart,
    Mixer,
)


def cannot_build(cache: Cache) -> str | None:
    """Why no module computes a layer with that cache; None if one does."""
    unstated = [words for field, words in _STATED.items() if getattr(cache, field, 0) is None]
    if unstated:
        return f"it doesn't state {' nor '.join(unstated)}"
    if isinstance(cache, Attention):
        return None if cache.topk is None and cache.indexer is None else "no module for block-sparse attention"
    if isinstance(cache, Latent):
        return "no module for pooled indexers" if cache.indexer is not None and cache.indexer.pool > 1 else None
    if isinstance(cache, Recurrent):
        return None if cache.law in LAWS else f"no module for {cache.law}"
    return f"no module for {cache.kind} caches"


_STATED = {
    "heads": "its query heads (num_attention_heads; heads in a description)",
    "nope_dim": "the size of its key heads without their rotary part (qk_nope_head_dim; nope_dim)",
    "v_dim": "the size of its value heads (v_head_dim; v_dim)",
}
"""Fields that no cache depends on and that every module needs."""

_NEEDED: tuple[tuple[type, str, tuple[str, ...]], ...] = (
    (Attention, "attention", ("o_proj",)),
    (Latent, "attention", ("kv_b_proj",)),
    (Recurrent, "recurrent", ("out_proj",)),
)


def lacks_weights(cache: Cache, block: Block) -> str | None:
    """Why a layer's weights are unknown: the inventory lists none for its mixer, as if layers share one block."""
    for kind, component, names in _NEEDED:
        if isinstance(cache, kind) and not any(Names(block).has(component, name) for name in names):
            return f"no weights listed for its {cache.kind} layers"
    return None


def mixer(cache: Cache, names: Names, tp: int, shares: int | None, dtype: str) -> Mixer:
    """The mixer of a layer of a model that runs in `dtype`. Its weights are taken from `names`.

    Raises: Unsupported if no module computes it; CannotSplit.
    """
    reason = cannot_build(cache)
    if isinstance(cache, Attention) and reason is None:
        return _attention(cache, names, tp, shares)
    if isinstance(cache, Latent) and reason is None:
        return _latent(cache, names, tp)
    if isinstance(cache, Recurrent) and reason is None:
        return LAWS[cache.law](cache, names, tp, dtype)
    raise Unsupported(f"verify can't build a {cache.kind} layer", cause=reason)


def _whole(count: int, tp: int) -> int:
    if count % tp:
        raise CannotSplit(f"--tp {tp} can't split {count} query heads", hint=f"a divisor of {count}")
    return count // tp


def _share(count: int, tp: int, what: str) -> int:
    """Heads, groups or channels on one of `tp` ranks: an equal share, or one that several ranks have copies of.

    Deliberately written again, although predictions use the same rule in kvplan.arch.parallel: an error in one of the
    two shows, with an inventory of weights or without. Source: vLLM 0.33 config/model.py get_num_kv_heads.

    Raises: CannotSplit.
    """
    if count % tp and tp % count:
        raise CannotSplit(f"--tp {tp} can't split {count} {what}", hint=f"a divisor or a multiple of {count}")
    return max(count // tp, 1)


def _attention(cache: Attention, names: Names, tp: int, shares: int | None) -> AttentionPart:
    heads = cache.heads or 0
    query, key, value = (names.take("attention", name) for name in ("q_proj", "k_proj", "v_proj"))
    both = names.take("attention", "also_v")  # self_attn.k_proj.also_v: one projection for keys and values
    names.drop("attention", "o_proj")
    biases = ("q_proj.bias", "k_proj.bias", "v_proj.bias")
    bias = all(names.has("attention", name) for name in biases) and names.drop("attention", *biases)
    return AttentionPart(
        _whole(heads, tp), _share(cache.kv_heads, tp, "KV heads"), cache.k_dim, cache.v_dim,
        cache.window, cache.chunk, cache.sinks,
        norms=shares is None and _head_norms(names, cache), bias=bias, out_bias=names.drop("attention", "o_proj.bias"),
        gate=_gate(names, query, heads, cache), sink_logits=names.drop("attention", "sinks"),
        v_from_k=both is not None or (key is not None and value is None), shares=shares,
    )  # fmt: skip


def _head_norms(names: Names, cache: Attention) -> bool:
    """Whether there are norms of each head's query and key. Norms over all heads at once are held, not applied.

    They are built as wide as a head, whatever size is listed, so that a wrong list shows.
    """
    over_all = {"q_norm": (cache.heads or 0) * cache.k_dim, "k_norm": cache.kv_heads * cache.k_dim}
    alike = {"q_norm": cache.k_dim, "k_norm": cache.k_dim}
    if over_all != alike and all(names.has("norm", name, (width,)) for name, width in over_all.items()):
        return False
    if not all(names.has("norm", name) for name in alike):
        return False
    return names.drop("norm", *alike)


def _gate(names: Names, query: Weight | None, heads: int, cache: Attention) -> bool:
    """Whether there is a gate of the output: the second half of the query projection, or a matrix of its own."""
    if query is not None and query.shape[0] == heads * (cache.k_dim + cache.v_dim):
        return True
    return names.take("attention", "q_gate", "gate_proj", rows=heads * cache.v_dim) is not None


def _latent(cache: Latent, names: Names, tp: int) -> LatentPart:
    compressed = names.take("attention", "q_a_proj")
    names.drop("attention", "q_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj")
    names.drop("norm", "q_a_layernorm", "kv_a_layernorm")
    return LatentPart(
        _whole(cache.heads or 0, tp), cache.rank, cache.rope_dim, cache.nope_dim or 0, cache.v_dim or 0,
        q_rank=None if compressed is None else compressed.shape[0], indexer=_indexer(cache, names), topk=cache.topk,
        window=cache.window,
    )  # fmt: skip


def _indexer(cache: Latent, names: Names) -> IndexerPart | None:
    if cache.indexer is None:
        return None
    weigh = names.take("indexer", "weights_proj")
    if weigh is None:
        raise Unsupported(
            "verify can't build a sparse indexer", cause="the model's weights don't say how many heads it has"
        )
    names.drop("indexer", "wq_b", "wk", "k_norm", "k_norm.bias")
    stored = cache.indexer.stored
    kept = INDEX_KEYS if stored.name == INDEX_KEYS.format else _by_the_configs_word("index keys", stored.name)
    return IndexerPart(weigh.shape[0], cache.indexer.dim, stored, kept)


def _conv_and_state(cache: Recurrent) -> tuple[StateTensor, StateTensor]:
    roles = {tensor.role: tensor for tensor in cache.tensors}
    if len(roles["conv"].widths) != 2:
        raise Unsupported(f"verify can't build {cache.law}", cause="its convolution isn't over keys and values")
    return roles["conv"], roles["recurrent"]


_KEPT = {
    DeltaPart.kind: Kept("fp32", "the state in fp32, as the reference's own recurrence keeps it"),
    MambaPart.kind: Kept(None, "the state in the model's format, which is vLLM's choice: transformers keeps fp32"),
}
"""Formats of a state if the config states none, independent of the prediction's.

Sources: transformers 5.23 models/qwen3_next (torch_recurrent_gated_delta_rule moves everything to float32 first) and
models/mamba2; vLLM 0.33 layers/mamba/mamba_utils.py _mamba_state_dtype: auto is the model's.
"""


def _kept(law: str, state: StateTensor, dtype: str) -> Kept:
    usual = _KEPT[law]
    if state.stored is None or state.stored.name == (usual.format or dtype):
        return usual
    return _by_the_configs_word("the state", state.stored.name)


def _by_the_configs_word(what: str, name: str) -> Kept:
    return Kept(name, f"{what} in {name} by the config's word alone, which nothing here reads again", checked=False)


def _delta(cache: Recurrent, names: Names, tp: int, dtype: str) -> DeltaPart:
    conv, state = _conv_and_state(cache)
    (k_heads, twice_k), (v_heads, v_dim) = conv.widths
    names.drop("recurrent", "dt_bias", "A_log", "conv1d", "norm", "out_proj")
    names.drop("recurrent", "in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a")
    k_share, v_share = _share(k_heads, tp, "key heads"), _share(v_heads, tp, "value heads")
    return DeltaPart(k_share, v_share, twice_k // 2, v_dim, conv.rows + 1, _kept(DeltaPart.kind, state, dtype))


def _mamba(cache: Recurrent, names: Names, tp: int, dtype: str) -> MambaPart:
    conv, state = _conv_and_state(cache)
    (heads, head_dim), (groups, twice_state) = conv.widths
    names.drop("recurrent", "dt_bias", "A_log", "D", "conv1d", "in_proj", "out_proj")
    return MambaPart(
        _share(heads, tp, "state heads"), head_dim, _share(groups, tp, "groups"), twice_state // 2, conv.rows + 1,
        norm=names.drop("recurrent", "norm"), conv_bias=names.drop("recurrent", "conv1d.bias"),
        kept=_kept(MambaPart.kind, state, dtype),
    )  # fmt: skip


def _convolution(cache: Recurrent, names: Names, tp: int, _dtype: str) -> ConvPart:
    conv = cache.tensors[0]
    names.drop("recurrent", "conv", "in_proj", "out_proj")
    return ConvPart(_share(conv.widths[0][0], tp, "channels"), conv.rows + 1)


LAWS: dict[str, Callable[[Recurrent, Names, int, str], Mixer]] = {
    "gated delta net": _delta,
    "mamba2": _mamba,
    "short convolution": _convolution,
}
"""Recurrences that a module computes."""
