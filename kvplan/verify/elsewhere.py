"""How transformers 5.23 lays caches out, where that isn't as the formula counts them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from kvplan.arch.formats import FORMATS
from kvplan.arch.layers import Attention, Cache, Compressed, CrossAttention, Latent, Recurrent, StateTensor
from kvplan.arch.model import Model, map_caches

SAID = (
    "transformers lays caches out its own way, and is compared with kvplan's formula in that layout: a window or chunk holds "
    "one token less after a prefill, a convolution all its columns, a Mamba state 32 bits, an indexer 16-bit keys, and tokens "
    "that wait to be compressed aren't counted"
)
WAITING = frozenset({"buffer_kv", "buffer_gate", "overlap_kv", "overlap_gate"})
"""What its caches call tokens that wait to be compressed. It holds as many as there are; engines have a fixed room for them."""

_SCANNED = ("mamba", "mamba2")
"""Laws whose state transformers keeps as its scan leaves it, in 32 bit."""


def as_transformers(model: Model, config: Mapping[str, object], *, encoder: bool) -> Model:
    """The same model with its caches laid out as transformers does.

    encoder: whether an encoder's output is given; without one, cross-attention to pictures keeps nothing.
    """
    laid = map_caches(model, lambda cache: _usual(_of_its_type(cache, config)))
    if encoder:
        return laid
    kept = (tuple(one for one in layer.caches if not isinstance(one, CrossAttention)) for layer in laid.layers)
    layers = tuple(replace(layer, caches=caches) for layer, caches in zip(laid.layers, kept, strict=True))
    return replace(laid, layers=layers)


def unlike(config: Mapping[str, object]) -> str | None:
    """Why neither parameters nor cache of its class can be compared, where they can't."""
    return next((said for of, said in _UNLIKE.items() if _is(config, of)), None)


def _usual(cache: Cache) -> Cache:
    if isinstance(cache, Attention) and cache.window is not None:
        cache = replace(cache, window=cache.window - 1)
    if isinstance(cache, Attention) and cache.chunk is not None:
        cache = replace(cache, chunk=cache.chunk - 1)
    if isinstance(cache, Compressed):
        vectors = 1 if cache.ratio else 2  # the window alone is kept as keys and as values, which are the same
        cache = replace(cache, window=cache.window - 1, dim=cache.dim * vectors, state_elements=0)
    if isinstance(cache, Attention | Latent | Compressed) and cache.indexer is not None:
        cache = replace(cache, indexer=replace(cache.indexer, stored=FORMATS["bf16"]))
    if isinstance(cache, Recurrent):
        return replace(cache, tensors=tuple(_state(cache, tensor) for tensor in cache.tensors))
    return cache


def _state(cache: Recurrent, tensor: StateTensor) -> StateTensor:
    if tensor.role == "conv":
        return replace(tensor, rows=tensor.rows + 1)
    return replace(tensor, stored=FORMATS["fp32"]) if cache.law in _SCANNED else tensor


def _of_its_type(cache: Cache, config: Mapping[str, object]) -> Cache:
    for of, change in _OTHERWISE.items():
        if _is(config, of):
            cache = change(cache)
    return cache


def _is(config: Mapping[str, object], of: tuple[str, str]) -> bool:
    model_type, field = of
    return config.get("model_type") == model_type and bool(config.get(field))


def _repeated(cache: Cache) -> Cache:
    """Key and value heads repeated for all query heads before they are stored."""
    if isinstance(cache, Attention) and cache.heads is not None:
        return replace(cache, kv_heads=cache.heads)
    return cache


def _before_the_query(cache: Cache) -> Cache:
    """A window that counts the tokens before the query, without it."""
    if isinstance(cache, Attention) and cache.window is not None:
        return replace(cache, window=cache.window + 1)
    return cache


_OTHERWISE: dict[tuple[str, str], Callable[[Cache], Cache]] = {
    ("falcon", "new_decoder_architecture"): _repeated,
    ("mimo_v2_flash", "sliding_window_size"): _before_the_query,
}
"""By model type, and the field that makes it so. Source: transformers 5.23 models/TYPE."""
_UNLIKE = {
    (
        "hunyuan_v1_moe",
        "use_cla",
    ): "transformers doesn't read use_cla: there every layer has keys and values of its own",
    ("cpmant", "prompt_length"): "transformers puts learned prompt tokens before every sequence",
    ("minimax", "model_type"): "transformers keeps a lightning state in 16 bit, MiniMax's own code in 32",
}
"""The same, and what is different about the class."""
