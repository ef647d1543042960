"""Multi-head latent attention and its sparse indexers, and compressed attention."""

from __future__ import annotations

from dataclasses import replace

from kvplan.arch.layers import FP8_INDEX, Compressed, Indexer, Latent, Layer
from kvplan.errors import BadField, MissingField
from kvplan.families.attention import query_heads
from kvplan.families.defaults import of_architecture
from kvplan.families.fields import Fields, class_names

FULL, SHARED = "full", "shared"


def is_latent(fields: Fields) -> bool:
    """Whether attention caches a latent: kv_lora_rank is stated (or the class's own) and use_mla doesn't deny it.

    Raises: MissingField where the rank alone is left out.
    """
    if fields.find("use_mla") is not None and fields.flag("use_mla") is False:
        return False
    if fields.stated_null("kv_lora_rank"):
        return False
    if fields.has("kv_lora_rank") or isinstance(fields.defaults.value("kv_lora_rank"), int):
        return True
    _refuse_rankless(fields)
    return False


def _refuse_rankless(fields: Fields) -> None:
    """An unknown type that names a class of latent attention, or shapes the halves of its keys, must state the rank.

    Raises: MissingField.
    """
    if fields.defaults.known:
        return
    named = next((name for name in class_names(fields.node) if _caches_latents(name)), None)
    shaping = next((found[0] for name in SHAPING if (found := fields.find(name)) is not None and found[1]), None)
    if named is not None or shaping is not None:
        raise MissingField(
            f"{fields.path}kv_lora_rank",
            cause=f"{named} caches a latent"
            if named
            else f"{fields.path}{shaping} speaks of attention that caches a latent",
        )


SHAPING = ("qk_nope_head_dim", "qk_rope_head_dim", "use_mla")
"""The parts of a key, with a position and without, that only latent attention tells apart; and what switches it on."""


def _caches_latents(name: str) -> bool:
    known = of_architecture(name)
    return known is not None and isinstance(known.value("kv_lora_rank"), int)


def latent_layer(fields: Fields, *, owns_indexer: bool, rotates: bool = True) -> Latent:
    """One latent layer. A layer that rotates nothing keeps no rotary key; its heads are that much wider instead.

    Raises: MissingField, BadField; also for a q_lora_rank of 0, of which classes build matrices without a row.
    """
    fields.whole("q_lora_rank")
    index_dim = fields.whole_or_default("index_head_dim") if owns_indexer else None
    pool = fields.whole_or_default("index_kpool") or 1
    rope, nope = _rope_dim(fields), fields.whole_or_default("qk_nope_head_dim")
    if not rotates:
        rope, nope = 0, None if nope is None else nope + rope
    return Latent(
        query_heads(fields),
        fields.need("kv_lora_rank"),
        rope,
        nope,
        fields.whole_or_default("v_head_dim"),
        None if index_dim is None else Indexer(index_dim, FP8_INDEX, pool),
        fields.whole_or_default("index_topk"),
    )


def rotating_layers(fields: Fields, count: int) -> tuple[bool, ...]:
    """Which of `count` latent layers have a rotary key: no_rope_layers (1 means it rotates), or all but every n-th.

    Source: transformers 5.23 models/mistral_large4/modeling_mistral_large4.py, qk_rope_head_dim 0 without rotation.

    Raises: BadField.
    """
    switches = fields.wholes("no_rope_layers")
    if switches:
        if len(switches) < count:
            raise BadField(f"{fields.path}no_rope_layers", list(switches), f"{count} switches, one a layer")
        return tuple(bool(switch) for switch in switches[:count])
    every = fields.whole_or_default("no_rope_layer_interval")
    return tuple(every is None or (layer + 1) % every != 0 for layer in range(count))


def _rope_dim(fields: Fields) -> int:
    """Elements of the rotary key; 0 in models that rotate nothing."""
    stated = fields.whole("qk_rope_head_dim", least=0)
    return fields.need("qk_rope_head_dim") if stated is None else stated


def sliding_latent(fields: Fields, window: int) -> Latent:
    """A latent layer that keeps a window, without an indexer.

    Raises: MissingField, BadField; also where windows have latents of their own sizes, whose weights aren't known.
    """
    for name in ("kv_lora_rank", "qk_rope_head_dim", "q_lora_rank", "qk_nope_head_dim", "v_head_dim"):
        own, all_layers = fields.whole(f"swa_{name}", least=0), fields.whole_or_default(name)
        if own is not None and own != all_layers:
            raise BadField(
                f"{fields.path}swa_{name}",
                own,
                f"{all_layers} as {name}",
                cause="kvplan doesn't know the weights of window layers whose latents have sizes of their own",
                hint="describe the model in a kvplan YAML, layer group by layer group",
            )
    return replace(latent_layer(fields, owns_indexer=False), topk=None, window=window)


def indexer_owners(fields: Fields, count: int) -> tuple[bool, ...]:
    """Which of `count` layers own an indexer cache; the others reuse the choice of an earlier layer.

    indexer_types says it layer by layer; else layer i owns one when max(i - offset + 1, 0) is a multiple of
    index_topk_freq. Source: vLLM 0.33 models/deepseek_v2.py skip_topk; transformers 5.23 glm_moe_dsa.

    Raises: BadField.
    """
    if not fields.has("index_head_dim") and not isinstance(fields.defaults.value("index_head_dim"), int):
        return (False,) * count
    types = fields.items("indexer_types")
    if types is not None:
        unknown = next((entry for entry in types if entry not in (FULL, SHARED)), None)
        if unknown is not None or len(types) < count:
            raise BadField(
                f"{fields.path}indexer_types", unknown or list(types), f'{count} entries of "full" or "shared"'
            )
        return tuple(entry == FULL for entry in types[:count])
    pattern = fields.text("index_topk_pattern")
    if pattern is not None:
        if len(pattern) < count or set(pattern) - set("FS"):
            raise BadField(f"{fields.path}index_topk_pattern", pattern, f"{count} letters F or S")
        return tuple(letter == "F" for letter in pattern[:count])
    every = fields.whole_or_default("index_topk_freq") or 1
    offset = fields.whole("index_skip_topk_offset", least=0)
    if offset is None:
        offset = fields.whole_or_default("index_skip_topk_offset") or 0
    return tuple(max(layer - offset + 1, 0) % every == 0 for layer in range(count))


def latent_layers(fields: Fields, count: int) -> tuple[Layer, ...]:
    """A whole stack of latent layers.

    Raises: MissingField, BadField.
    """
    owners = indexer_owners(fields, count)
    kinds = {owns: Layer((latent_layer(fields, owns_indexer=owns),)) for owns in set(owners)}
    return tuple(kinds[owns] for owns in owners)


_SPARSE_RATIO = 4
"""The ratio whose compressor overlaps its neighbours and whose entries an indexer chooses among; others do neither."""


def compressed_layers(fields: Fields, count: int) -> tuple[Layer, ...]:
    """A stack of compressed attention: compress_ratios per layer, 0 for the window alone.

    The list may go on with layers that predict further tokens, however many: engines read it by a layer's number.

    Compressor state: kv and score, fp32, rows of ratio
    (twice ratio where neighbours overlap) by head_dim (twice). Source: DeepSeek-V4 reference inference code, Compressor.

    Raises: MissingField, BadField.
    """
    ratios = _ratios(fields, count)
    heads = query_heads(fields)
    if heads is None:
        raise MissingField(f"{fields.path}num_attention_heads")
    dim, window = fields.need("head_dim"), fields.need("sliding_window")
    if (fields.whole("num_key_value_heads") or 1) != 1:
        raise BadField(
            f"{fields.path}num_key_value_heads", fields.whole("num_key_value_heads"), "1: all heads share one latent"
        )
    kinds: dict[int, Layer] = {}
    for ratio in set(ratios):
        if ratio == 0:
            kinds[ratio] = Layer((Compressed(heads, dim, window),))
        elif ratio == _SPARSE_RATIO:
            index = fields.need("index_head_dim")
            state = 2 * (2 * ratio) * (2 * dim) + 2 * (2 * ratio) * (2 * index)
            cache = Compressed(
                heads, dim, window, ratio, Indexer(index, FP8_INDEX), fields.whole_or_default("index_topk"), state
            )
            kinds[ratio] = Layer((cache,))
        else:
            kinds[ratio] = Layer((Compressed(heads, dim, window, ratio, None, None, 2 * ratio * dim),))
    return tuple(kinds[ratio] for ratio in ratios)


def _ratios(fields: Fields, count: int) -> tuple[int, ...]:
    stated = fields.wholes("compress_ratios")
    if stated is not None:
        if len(stated) < count:
            raise BadField(f"{fields.path}compress_ratios", list(stated), f"{count} ratios, one a layer")
        return stated[:count]
    types = fields.items("layer_types") or fields.defaults.pattern("layer_types", count)
    rates = fields.child("compress_rates")
    if types is None or len(types) != count:
        raise MissingField(f"{fields.path}compress_ratios")
    by_class = fields.defaults.value("compress_rates")
    ratios = []
    for entry in types:
        if entry == "sliding_attention":
            ratios.append(0)
        elif rates is not None:
            ratios.append(rates.need(entry))
        elif isinstance(by_class, dict) and entry in by_class:
            fields.note_default("compress_rates", by_class)
            ratios.append(int(by_class[entry]))
        else:
            raise MissingField(f"{fields.path}compress_rates.{entry}")
    return tuple(ratios)
