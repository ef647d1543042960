"""Types that keep a recurrent state and shape it in fields of their own."""

from __future__ import annotations

from kvplan.arch.layers import FP32, Attention, Layer, Recurrent, StateTensor
from kvplan.errors import BadField, MissingField, Unsupported
from kvplan.families import attention, counts, patterns, recurrent
from kvplan.families.fields import Fields, class_names
from kvplan.families.latent import latent_layer


def zamba(fields: Fields) -> tuple[Layer, ...]:
    """Zamba 2: Mamba-2 in every layer, shared attention over twice the width on "hybrid" ones.

    head size = 2 x hidden_size / heads unless attention_head_dim says it. Source: transformers 5.23 models/zamba2.

    Raises: MissingField, BadField, Unsupported.
    """
    count = counts.layer_count(fields)
    heads = fields.need("num_attention_heads")
    size = fields.whole("attention_head_dim")
    if size is None:
        size = attention.exact_share(fields, 2 * fields.need("hidden_size"), heads)
    kv = fields.whole("num_key_value_heads") or heads
    state = recurrent.mamba2(fields) if fields.has("mamba_ngroups", "mamba_headdim") else _zamba_state(fields)
    both = Layer((Attention(heads, kv, size, size), state))
    attends = tuple(kind in (patterns.BOTH, patterns.FULL) for kind in _zamba_kinds(fields, count))
    _refuse_other_hybrids(fields, attends)
    return tuple(both if attention else Layer((state,)) for attention in attends)


def _refuse_other_hybrids(fields: Fields, attends: tuple[bool, ...]) -> None:
    """The class keeps a list of its hybrids that a config states, whatever its layers are called: servers look at both."""
    stated, listed = fields.wholes("hybrid_layer_ids"), tuple(index for index, each in enumerate(attends) if each)
    if stated is not None and stated != listed:
        raise BadField(
            f"{fields.path}hybrid_layer_ids", list(stated), f"the layers that layers_block_type calls hybrid: {list(listed)}",
            hint="leave it out: it follows from layers_block_type",
        )  # fmt: skip


def _zamba_kinds(fields: Fields, count: int) -> tuple[str, ...]:
    """Listed, or Zamba's own: two states and a hybrid first, then a hybrid where i % attn_layer_period == offset."""
    if fields.has("layers_block_type", "layer_types") or fields.defaults.value("attn_layer_period") is None:
        return patterns.kinds(fields, count)
    period = fields.need("attn_layer_period")
    offset = fields.whole("attn_layer_offset", least=0)
    start = int(fields.default("attn_layer_offset") or 0) if offset is None else offset  # type: ignore[call-overload]
    rest = (patterns.BOTH if index % period == start else patterns.STATE for index in range(count - 3))
    return (patterns.STATE, patterns.STATE, patterns.BOTH, *rest)[:count]


def _zamba_state(fields: Fields) -> Recurrent:
    """Mamba-2 where the class has groups, Mamba-1 where it has none."""
    return recurrent.mamba2(fields) if fields.defaults.value("mamba_ngroups") else recurrent.mamba(fields)


def bailing(fields: Fields) -> tuple[Layer, ...]:
    """Ling 3 and Ring 2.5: latents on the last layer of each layer_group_size, a state on the others.

    Ling 3 keeps Kimi delta attention, and latents on layers that fill no group; Ring 2.5 lightning attention, there too.
    Neither's code looks at a list of layers; transformers' does. Source: vLLM 0.33 models/bailing_moe_v3.py _is_kda_layer,
    models/bailing_moe_linear.py is_linear_layer; transformers 5.23 models/bailing_hybrid.

    Raises: MissingField, BadField, Unsupported.
    """
    count, every = counts.layer_count(fields), fields.need("layer_group_size")
    ling, ring = _is_named(fields, "BailingMoeV3"), _is_named(fields, "BailingMoeV2_5")
    listed = fields.has("layer_types") and not (ling or ring)
    grouped = count // every * every if ling else count
    kinds = (
        patterns.FULL if (index + 1) % every == 0 or index >= grouped else patterns.STATE for index in range(count)
    )
    full = Layer((latent_layer(fields, owns_indexer=False),))
    state = Layer((_bailing_state(fields, lightning=ring),))
    return tuple(
        full if kind == patterns.FULL else state for kind in (patterns.kinds(fields, count) if listed else kinds)
    )


def _is_named(fields: Fields, begins: str) -> bool:
    """Whether the config names a class that begins so: no field tells Ring 2.5 from Ling 3."""
    nodes = (fields.node, *fields.parents)
    return any(name.startswith(begins) for node in nodes for name in class_names(node))


def _bailing_state(fields: Fields, *, lightning: bool) -> Recurrent:
    heads = fields.whole("linear_num_heads") or fields.need("num_attention_heads")
    size = fields.whole("linear_head_dim", "head_dim") or int(fields.defaults.values["head_dim"])
    if lightning:
        return recurrent.lightning_state(heads, size)
    return recurrent.kimi_state(heads, size, fields.need("short_conv_kernel_size"))


def griffin(fields: Fields) -> tuple[Layer, ...]:
    """RecurrentGemma: a cycle of gated linear recurrences and local attention.

    lru_width in fp32, and a convolution. Source: arXiv:2402.19427; transformers 5.23 models/recurrent_gemma.

    Raises: MissingField, BadField, Unsupported.
    """
    count = counts.layer_count(fields)
    inner = fields.whole("lru_width") or fields.need("hidden_size")
    tensors = (
        StateTensor("shift", fields.need("conv1d_width") - 1, ((inner, 1),)),
        StateTensor("recurrent", 1, ((inner, 1),), usual=FP32),
    )
    state = Layer((Recurrent("gated linear recurrence", tensors, "Griffin, arXiv:2402.19427"),))
    local = Layer((attention.heads(fields).attention(window=fields.need("attention_window_size")),))
    return tuple(local if kind == patterns.FULL else state for kind in _cycle(fields, count))


def _cycle(fields: Fields, count: int) -> tuple[str, ...]:
    if fields.has("block_types", "_block_types", "layers_block_type", "layer_types"):
        return patterns.kinds(fields, count)
    cycle = fields.default("block_types")
    if not isinstance(cycle, list):
        raise MissingField(f"{fields.path}block_types")
    return tuple(patterns.WORDS[cycle[layer % len(cycle)]] for layer in range(count))


def rwkv(fields: Fields) -> tuple[Layer, ...]:
    """RWKV 5, 6, 7: a matrix of head_size^2 per head in fp32, and the last token's vector for each of two mixers.

    RWKV 4 keeps three vectors of attention_hidden_size instead. Source: arXiv:2404.05892; transformers 5.23 models/rwkv.

    Raises: MissingField, BadField.
    """
    count = counts.layer_count(fields)
    hidden = fields.need("hidden_size")
    inner = fields.whole("attention_hidden_size", "dim_att") or hidden
    size = fields.whole("head_size", "head_dim")
    shift = StateTensor("shift", 2, ((hidden, 1),))
    if size is None:
        state = StateTensor("recurrent", 3, ((inner, 1),), usual=FP32)
    else:
        state = StateTensor("recurrent", 1, ((attention.exact_share(fields, inner, size), size * size),), usual=FP32)
    return (Layer((Recurrent("rwkv", (shift, state), "Eagle and Finch, arXiv:2404.05892"),)),) * count


_FLA = "flash-linear-attention: fla/layers, recurrent state in fp32"


def fla_delta_net(fields: Fields) -> tuple[Layer, ...]:
    """flash-linear-attention's (gated) delta net: heads x head_dim x (expand_v x head_dim), three convolutions.

    Without a head_dim, heads share expand_k x hidden and expand_v x hidden, as in the delta net that has no gates.
    Source: fla/layers/gated_deltanet.py, delta_net.py.

    Raises: MissingField, BadField.
    """
    heads, size = fields.need("num_heads"), fields.whole("head_dim")
    v_heads = fields.whole("num_v_heads") or heads
    if size is None:
        k_dim, v_dim = (_expanded(fields, name, heads, usual=1) for name in ("expand_k", "expand_v"))
    else:
        k_dim, v_dim = size, int(size * (fields.ratio("expand_v") or 1))
    state = StateTensor("recurrent", 1, ((v_heads, k_dim * v_dim),), usual=FP32)
    conv = StateTensor("conv", fields.need("conv_size") - 1, ((heads, 2 * k_dim), (v_heads, v_dim)))
    short = fields.find("use_short_conv") is None or fields.flag("use_short_conv")
    tensors = (conv, state) if short else (state,)
    return _with_attention(fields, Layer((Recurrent("gated delta net", tensors, _FLA),)))


def fla_linear(fields: Fields) -> tuple[Layer, ...]:
    """flash-linear-attention's gated linear attention: heads x (expand_k x hidden / heads) x (expand_v x hidden / heads).

    Keys and values of grouped heads are repeated before they come to the state. Source: fla/layers/gla.py.

    Raises: MissingField, BadField.
    """
    heads = fields.need("num_heads")
    k_dim, v_dim = (_expanded(fields, name, heads) for name in ("expand_k", "expand_v"))
    state = StateTensor("recurrent", 1, ((heads, k_dim * v_dim),), usual=FP32)
    tensors = (*_fla_convolutions(fields, heads, k_dim, v_dim), state)
    return _with_attention(fields, Layer((Recurrent("gated linear attention", tensors, _FLA),)))


def fla_slots(fields: Fields) -> tuple[Layer, ...]:
    """flash-linear-attention's gated slot attention: heads x num_slots x (elements of a key and of a value).

    Source: arXiv:2409.07146; fla/layers/gsa.py, fla/ops/gsa/fused_recurrent.py.

    Raises: MissingField, BadField.
    """
    heads = fields.need("num_heads")
    k_dim, v_dim = (_expanded(fields, name, heads, usual=1) for name in ("expand_k", "expand_v"))
    slots = fields.need("num_slots")
    state = StateTensor("recurrent", 1, ((heads, slots * (k_dim + v_dim)),), usual=FP32)
    tensors = (*_fla_convolutions(fields, heads, k_dim, v_dim), state)
    return _with_attention(fields, Layer((Recurrent("gated slot attention", tensors, _FLA),)))


def _expanded(fields: Fields, name: str, heads: int, usual: int | None = None) -> int:
    """Elements of a head's key or value, which `name` widens beside its share of the hidden size."""
    ratio = fields.ratio(name)
    if ratio is None and usual is None:
        raise MissingField(f"{fields.path}{name}")
    return attention.exact_share(fields, int(fields.need("hidden_size") * (ratio or usual or 1)), heads)


OF_NO_SIZE = ("use_gk", "use_gv", "feature_map", "num_kv_heads", "conv_size", "share_conv_kernel")
"""Fields of flash-linear-attention's layers that change no size of theirs where short convolutions are off: gates and feature maps
change what is written, and grouped heads are repeated before."""


def _fla_convolutions(fields: Fields, heads: int, k_dim: int, v_dim: int) -> tuple[StateTensor, ...]:
    """Short convolutions of queries, keys and values, where the config switches them on.

    Raises: MissingField, BadField; Unsupported for one convolution for all, of which newer code knows nothing.
    """
    for name in OF_NO_SIZE:
        fields.find(name)
    if not fields.find("use_short_conv") or not fields.flag("use_short_conv"):
        return ()
    if fields.flag("share_conv_kernel"):
        raise Unsupported(f"{fields.path}share_conv_kernel: one convolution for queries, keys and values isn't read")
    kept = fields.whole("num_kv_heads") or heads
    return (StateTensor("conv", fields.need("conv_size") - 1, ((heads, k_dim), (kept, k_dim + v_dim))),)


def hgrn2(fields: Fields) -> tuple[Layer, ...]:
    """HGRN 2: heads x expand_ratio x value size.

    Source: arXiv:2404.07904; flash-linear-attention fla/layers/hgrn2.py.

    Raises: MissingField, BadField.
    """
    hidden, expand = fields.need("hidden_size"), fields.need("expand_ratio")
    heads = fields.whole("num_heads") or attention.exact_share(fields, hidden, expand)
    v_dim = attention.exact_share(fields, hidden, heads)
    tensors = [StateTensor("recurrent", 1, ((heads, expand * v_dim),), usual=FP32)]
    if fields.find("use_short_conv") and fields.flag("use_short_conv"):
        tensors.insert(0, StateTensor("conv", fields.need("conv_size") - 1, ((heads, 2 * expand + v_dim),)))
    return _with_attention(fields, Layer((Recurrent("hgrn2", tuple(tensors), _FLA),)))


def fla_mamba(fields: Fields) -> tuple[Layer, ...]:
    """flash-linear-attention's Samba: Mamba layers, and window attention on attn.layers.

    Raises: MissingField, BadField.
    """
    return _with_attention(fields, Layer((recurrent.mamba(fields),)))


def _with_attention(fields: Fields, state: Layer) -> tuple[Layer, ...]:
    """attn.layers name the layers that attend instead, in a window of attn.window_size when it is stated."""
    count = counts.layer_count(fields)
    attn = fields.child("attn")
    if attn is None:
        return (state,) * count
    chosen = attn.wholes("layers") or ()
    heads = attn.need("num_heads")
    kv = attn.whole("num_kv_heads") or heads
    size = attn.whole("head_dim") or attention.exact_share(fields, fields.need("hidden_size"), heads)
    own = Layer((Attention(heads, kv, size, size, window=attn.whole("window_size")),))
    return tuple(own if layer in chosen else state for layer in range(count))


def state_space_package(fields: Fields) -> tuple[Layer, ...]:
    """Configs of the mamba_ssm package: d_model, n_layer, and ssm_cfg for what differs from its defaults.

    Mamba: d_state 16, d_conv 4, expand 2. Mamba2: d_state 128, headdim 64, ngroups 1.
    Source: github.com/state-spaces/mamba mamba_ssm/modules/mamba_simple.py, mamba2.py.

    Raises: MissingField, BadField, Unsupported.
    """
    attending = fields.find("attn_layer_idx")
    if attending is not None and attending[1]:
        raise Unsupported(
            f"{fields.path}attn_layer_idx: attention between state space layers isn't read from this format"
        )
    ssm = fields.child("ssm_cfg")
    given = dict(ssm.node) if ssm else {}
    second = given.get("layer") == "Mamba2"
    usual = {"d_state": 128, "headdim": 64, "ngroups": 1} if second else {"d_state": 16}
    filled = {"d_conv": 4, "expand": 2, **usual, **given}
    for name in (name for name in filled if name not in given):
        fields.note_default(f"ssm_cfg.{name}", filled[name], "mamba_ssm's own default")
    size = {name: fields.as_whole(f"ssm_cfg.{name}", filled[name]) for name in ("d_state", "d_conv", "expand")}
    inner = size["expand"] * fields.need("d_model")
    if not second:
        tensors = (
            StateTensor("conv", size["d_conv"] - 1, ((inner, 1),)),
            StateTensor("recurrent", 1, ((inner, size["d_state"]),)),
        )
        law = Recurrent("mamba", tensors, "arXiv:2312.00752")
    else:
        head, groups = (
            fields.as_whole("ssm_cfg.headdim", filled["headdim"]),
            fields.as_whole("ssm_cfg.ngroups", filled["ngroups"]),
        )
        heads = attention.exact_share(fields, inner, head)
        conv = StateTensor("conv", size["d_conv"] - 1, ((heads, head), (groups, 2 * size["d_state"])))
        tensors = conv, StateTensor("recurrent", 1, ((heads, head * size["d_state"]),))
        law = Recurrent("mamba2", tensors, "arXiv:2405.21060")
    return (Layer((law,)),) * counts.layer_count(fields)
