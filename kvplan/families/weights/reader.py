"""From a config and its layers to Weights: pick the family, fix each layer's symbols, evaluate its templates."""

from __future__ import annotations

from collections.abc import Mapping
from math import isqrt
from typing import Any

from kvplan.arch.layers import Attention, Cache, Compressed, CrossAttention, Latent, Layer, Recurrent
from kvplan.arch.storage import Storage
from kvplan.arch.weights import BEYOND_LLAMA, UNSURE_HEAD, Block, Weight, Weights
from kvplan.errors import MissingField
from kvplan.families import typed
from kvplan.families.defaults import class_defaults
from kvplan.families.fields import Fields
from kvplan.families.locate import flat_type
from kvplan.families.quantization import Companions, quantization
from kvplan.families.quantization.spelled import ORDINARY, SPELLED
from kvplan.families.weights import ends, heads, rope
from kvplan.families.weights.family import Family
from kvplan.families.weights.pattern import feed_forwards
from kvplan.families.weights.storing import store
from kvplan.families.weights.symbols import ConfigSymbols
from kvplan.families.weights.table import FAMILIES, LLAMA
from kvplan.families.weights.template import build
from kvplan.families.weights.tower_reader import read_towers
from kvplan.families.weights.unread import unread_parts

Local = dict[str, int | bool | str]


def read(
    fields: Fields,
    layers: tuple[Layer, ...],
    companions: Companions | None = None,
    drafts: tuple[Layer, ...] = (),
) -> Weights | None:
    """Every tensor of the model that `fields` describes, whose layers cache what `layers` says.

    companions: parsed files beside the config, by name, which may say how the weights are quantized. drafts: layers that
    predict further tokens, counted apart; they use the model's own embedding and head.

    What can't be derived is named in `missing`; nothing is guessed silently. None if that is the layers themselves, the
    embedding or the head (the model's notes say which): a count would be a lower bound not worth having.

    Raises: BadField.
    """
    family = heads.drafting(fields) or FAMILIES.get(fields.model_type) or FAMILIES.get(flat_type(fields) or "")
    found = quantization(fields, companions or {})
    reader = _Reader(fields, layers, family or LLAMA, found.dtype, family is not None)
    weights = reader.read(drafts)
    if reader.hollow:
        fields.note(f"its parameters can't be counted: {', '.join(weights.missing)} can't be derived")
        return None
    return store(weights, found, SPELLED.get(fields.model_type, ORDINARY))


class _Reader:
    """One reading of one config. hollow: whether it couldn't derive the layers or the ends."""

    def __init__(self, fields: Fields, layers: tuple[Layer, ...], family: Family, dtype: Storage, known: bool) -> None:  # noqa: FBT001
        self.fields, self.layers, self.family, self.dtype = fields, layers, family, dtype
        self.missing: list[str] = []
        self.hollow = False
        if not known:
            self.missing.append(f"what {fields.model_type or 'this model'} has {BEYOND_LLAMA}")
        if heads.unknown(fields):
            self.missing.append(f"what {heads.class_of(fields)} has beyond its layers")
        if family.unsure is not None:
            self.missing.append(family.unsure)
        base = ConfigSymbols(fields, dict(family.given), dict(family.fallback))
        if family.more is not None:
            base = base.also(family.more(base))
        self.symbols = base.also(_experts(base))

    def read(self, drafts: tuple[Layer, ...]) -> Weights:
        """Ends, layers, towers, drafts and tables."""
        count = len(self.layers)
        ffn = (
            self.family.ffn(self.symbols, count) if self.family.ffn else feed_forwards(self.fields, self.symbols, count)
        )
        cache: dict[object, Block] = {}
        locals_: dict[object, Local] = {}
        blocks = []
        lists = [value for name in PER_LAYER if isinstance(value := self.fields.node.get(name), list)]
        for index, layer in enumerate(self.layers):
            kind = (*map(id, layer.caches), None, *map(id, self._source(layer)))
            if kind not in locals_:
                locals_[kind] = self._local(layer)
            own = self._own(index, locals_[kind])
            key = (
                kind,
                ffn[index],
                tuple(own.items()),
                tuple(str(entries[index]) for entries in lists if index < len(entries)),
            )
            if key not in cache:
                cache[key] = self._layer(layer, ffn[index], {**locals_[kind], "layer": index, **own})
            blocks.append(cache[key])
        first, last = self._part("embedding", self.family.first), self._part("head", self.family.last)
        tied, doubt = self._tied()
        if ends.is_bare(self.fields) and not tied:
            tied, doubt = True, (UNSURE_HEAD,)
        elif ends.is_headless(self.fields) and not self.family.borrowed:
            last = tuple(weight for weight in last if weight.component != "head")
        last += ends.scores(self.fields, self.symbols)
        towers, gaps = ((), ()) if ends.builds_text_alone(self.fields) else self._towers()
        missing = tuple(dict.fromkeys((*self.missing, *gaps, *doubt, *unread_parts(self.fields))))
        positions = rope.tables(self.fields, self.layers, self.dtype)
        draft = self._drafts(drafts)
        borrowed = self._part("borrowed ends", self.family.borrowed)
        return Weights(first, tuple(blocks), last, towers, draft, borrowed, positions, tied, missing)

    def _drafts(self, drafts: tuple[Layer, ...]) -> Block:
        """Prediction layers: each an ordinary layer after a projection of the last hidden state and the next embedding.

        Source: DeepSeek-V3, arXiv:2412.19437 section 2.2; vLLM 0.33 models/deepseek_mtp.py, qwen3_next_mtp.py.
        """
        found: list[Weight] = []
        ffn = self.family.moe if self.symbols.maybe("E") else self.family.dense
        for layer in drafts:
            mixers = " ".join(self._mixer(cache) for cache in layer.caches)
            text = f"norm: {self.family.norms} enorm[H] hnorm[H] shared_head.norm[H] mlp: eh_proj(H,2*H) {mixers} {ffn}"
            found += self._part("draft layers", text, {**self._local(layer), "layer": 0})
        return tuple(found)

    def _towers(self) -> tuple[Block, tuple[str, ...]]:
        return read_towers(self.fields, self.family, self.symbols, self.dtype)

    def _tied(self) -> tuple[bool, tuple[str, ...]]:
        """Whether the head is the embedding, and what is in doubt about it.

        The whole that has a head says so, for itself and for its text model: as stated, else as its class has it. A whole that
        says yes by its class alone may not mean a text model that says no: transformers then goes by the checkpoint, and with
        both tensors in the files it ties nothing. Source: transformers 5.23 modeling_utils.py, tie_weights; vLLM 0.33
        config/vllm.py with_hf_config.
        """
        if self.family.tied is not None:
            return self.family.tied, ()
        outermost = (self.fields.node, *self.fields.parents)[-1]
        if str(outermost.get("model_type")) in TEXT_TIES:
            return bool(self._own_tie()), ()
        for path, node in reversed(tuple(self.fields.around())[1:]):
            stated = _stated_tie(path, node)
            if stated is not None:
                return stated, ()
            by_class = class_defaults(str(node.get("model_type") or "")).value("tie_word_embeddings")
            if by_class is not None:
                doubt = (UNSURE_HEAD,) if by_class and self._own_tie() is False else ()
                return bool(by_class), doubt
        own = self._own_tie()
        return self.family.usually_tied if own is None else own, ()

    def _own_tie(self) -> bool | None:
        """What the text model says, or its class; None where neither does."""
        stated, default = (
            _stated_tie(self.fields.path, self.fields.node),
            self.fields.defaults.value("tie_word_embeddings"),
        )
        return stated if stated is not None or default is None else bool(default)

    def _source(self, layer: Layer) -> tuple[Cache, ...]:
        return () if layer.shares_with is None else self.layers[layer.shares_with].caches

    def _local(self, layer: Layer) -> Local:
        """Symbols of a layer, from what it caches."""
        local: Local = {"keeps": layer.shares_with is None, "own_v": True, "indexer": False}
        for cache in layer.caches or self._source(layer):
            local |= _dims(cache)
        return local

    def _own(self, index: int, local: Local) -> Mapping[str, int | bool | str]:
        """Symbols of a layer, from the family's own rules."""
        if self.family.locals is None:
            return {}
        return self.family.locals(self.symbols.also(local), index, len(self.layers))

    def _layer(self, layer: Layer, ffn: str, local: Local) -> Block:
        caches = layer.caches or self._source(layer)
        text = " ".join((f"norm: {self.family.norms}", *(self._mixer(cache) for cache in caches)))
        if ffn and not (self.family.single and caches):
            text += " " + (self.family.moe if ffn == "moe" else self.family.dense)
        return self._part("layers", text, local)

    def _mixer(self, cache: Cache) -> str:
        if isinstance(cache, Attention):
            return self.family.attention
        if isinstance(cache, Latent):
            return self.family.latent
        if isinstance(cache, Compressed):
            return self.family.compressed
        if isinstance(cache, CrossAttention):
            return self.family.cross
        found = self.family.recurrent.get(cache.law) or self.family.recurrent.get("")
        if found is None:
            self.missing.append(f"{cache.law} layers")
            self.hollow = True
        return found or ""

    def _part(self, what: str, text: str, local: Mapping[str, int | bool | str] | None = None) -> Block:
        try:
            return build(text, self.symbols.also(local or {}), self.dtype)
        except MissingField as gap:
            self.missing.append(f"{what} ({gap.field})")
            self.hollow |= what in CORE
            return ()


CORE = ("embedding", "layers", "head")
"""Parts without which there is no model to speak of."""

TIED = ("tie_word_embeddings", "tie_embedding", "share_input_output_layers")
"""Fields that say whether the head is the embedding."""

TEXT_TIES = frozenset(("diffusion_gemma", "qwen3_5", "qwen3_5_moe"))
"""Wholes whose text model alone says whether they are one.

Source: vLLM 0.33 models/qwen3_5.py and diffusion_gemma.py, which are built of hf_text_config, not through with_hf_config.
"""

PER_LAYER = (
    "intermediate_size",
    "moe_intermediate_size",
    "moe_topk",
    "num_shared_expert",
    "num_experts",
    "block_configs",
)
"""Fields that may hold one entry for each layer."""


def _stated_tie(path: str, node: Mapping[str, Any]) -> bool | None:
    """What an object of a config says of its head; None where it says nothing.

    Raises: BadField.
    """
    return next((typed.switch(path + name, node[name]) for name in TIED if node.get(name) is not None), None)


def _dims(cache: Cache) -> Local:
    """Symbols of what a layer caches."""
    if isinstance(cache, Attention | CrossAttention):
        found: Local = {"G": cache.kv_heads, "d": cache.k_dim, "dv": cache.v_dim}
        if cache.heads is not None:
            found["A"] = cache.heads
        if isinstance(cache, Attention):
            found["windowed"] = cache.window is not None
            found["indexer"] = cache.indexer is not None
        return found
    if isinstance(cache, Latent):
        found = {"R": cache.rank, "latent": cache.rank + cache.rope_dim, "rope": cache.rope_dim}
        stated = {"A": cache.heads, "nope": cache.nope_dim, "dv": cache.v_dim}
        found |= {name: value for name, value in stated.items() if value is not None}
        return found | {"qk": "nope+rope", "expanded": "nope+dv", "indexer": cache.indexer is not None}
    if isinstance(cache, Recurrent):
        return _state_dims(cache)
    indexed = cache.indexer is not None
    return {
        "A": cache.heads,
        "d": cache.dim,
        "indexer": indexed,
        "ratio": cache.ratio or 0,
        "over": 2 if indexed else 1,
    }


def _state_dims(cache: Recurrent) -> Local:
    """Inner width, heads and state size of Mamba layers, from the tensors that they keep."""
    roles = {tensor.role: tensor for tensor in cache.tensors}
    conv, state = roles.get("conv"), roles.get("recurrent")
    if cache.law == "lightning attention" and state is not None:
        heads, square = state.widths[0]
        return {"A": heads, "d": isqrt(square)}
    if conv is None or state is None or cache.law not in ("mamba", "mamba2"):
        return {}
    (count, per_unit), inner = state.widths[0], conv.widths[0][0] * conv.widths[0][1]
    found: Local = {"inner": inner, "kernel": conv.rows + 1}
    if cache.law == "mamba":
        return found | {"state": per_unit}
    groups, twice_state = conv.widths[1]
    return found | {"heads": count, "groups": groups, "state": twice_state // 2}


def _experts(symbols: ConfigSymbols) -> Local:
    """Widths of experts and of shared experts, and how many experts a token uses."""
    if not symbols.maybe("E"):
        return {"S": symbols.maybe("shared_width") or 0} if "S" not in symbols.given else {}
    found: Local = {"picked": "topk"}
    if "M" not in symbols.given and symbols.maybe("M") is None:
        found["M"] = "I"
    if "S" not in symbols.given:
        wide, count = symbols.maybe("shared_width"), symbols.maybe("shared_count")
        if wide:
            found["S"] = "shared_width"
        else:
            found["S"] = "shared_count*M" if count else 0
    return found
