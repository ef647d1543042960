"""The fields of a description, and where each may be."""

from __future__ import annotations

from collections.abc import Mapping

ATTENTION = frozenset({"heads", "kv_heads", "head_dim", "k_dim", "v_dim", "indexer", "topk"})
KINDS: Mapping[str, frozenset[str]] = {
    "full": ATTENTION,
    "sliding": ATTENTION | {"window", "sinks"},
    "chunked": ATTENTION | {"chunk"},
    "latent": frozenset({"heads", "rank", "rope_dim", "nope_dim", "v_dim", "indexer", "topk", "window"}),
    "compressed": frozenset({"heads", "head_dim", "window", "ratio", "indexer", "topk", "state_elements"}),
    "recurrent": frozenset({"law", "tensors", "source"}),
    "cross": (ATTENTION | {"tokens"}) - {"indexer", "topk"},
    "none": frozenset({"shares_with"}),
}
"""What a layer may keep, and the fields that size it."""

CACHE_FIELDS = frozenset().union(*KINDS.values()) - {"shares_with"}
TOP = frozenset({
    "kvplan", "name", "source", "layers", "pattern", "draft_layers", "kind", "hidden_size", "intermediate_size", "vocab_size",
    "parameters", "max_context", "dtype", "kv_dtype", "weight_dtype",
})  # fmt: skip
INDEXER = frozenset({"dim", "dtype", "pool", "gates"})
TENSOR = frozenset({"role", "rows", "widths", "dtype", "usual_dtype"})
DOCUMENTED = "docs/model-files.md"

MOST = 2**24
"""Largest number of heads, or of elements of a vector. The largest published one is a vocabulary of 262,400."""
MOST_TOKENS = 2**40
