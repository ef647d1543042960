"""Layers that keep a state of constant size, told apart by the fields that shape them.

Convolutions keep kernel - 1 columns: what the next step needs. (transformers keeps kernel columns.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kvplan.arch.formats import Format, find_format
from kvplan.arch.layers import FP32, Recurrent, StateTensor
from kvplan.errors import BadField, MissingField, Unsupported
from kvplan.families.attention import Heads, head_dim, query_heads, width
from kvplan.families.fields import Fields
from kvplan.text import any_of

_MAMBA = "Mamba, arXiv:2312.00752; shapes of transformers 5.23 models/mamba"
_MAMBA2 = "Mamba-2, arXiv:2405.21060; shapes of transformers 5.23 models/mamba2"
_DELTA = "gated delta net, arXiv:2412.06464; state in fp32 as in transformers 5.23 models/qwen3_next"
_KDA = "Kimi delta attention, arXiv:2510.26692; state in fp32"
_LIGHTNING = "lightning attention, arXiv:2401.04658; state in fp32 as in MiniMax-Text-01"
_CONV = "gated short convolution, transformers 5.23 models/lfm2"


def state_format(fields: Fields) -> Format | None:
    """Format of a recurrent state that the config states (mamba_ssm_dtype and its spellings); None when it doesn't.

    Raises: Unsupported.
    """
    stated = fields.text("mamba_ssm_cache_dtype", "mamba_ssm_dtype", "ssm_dtype")
    if stated is None:
        default = fields.defaults.value("mamba_ssm_cache_dtype")
        if not isinstance(default, str):
            return None
        fields.note_default("mamba_ssm_cache_dtype", default)
        stated = default
    if stated == "auto":
        return None
    found = find_format(stated)
    if found is None:
        raise Unsupported(f"{fields.path}mamba_ssm_dtype {stated!r} is not a known number format")
    return found


def _state(fields: Fields, width: tuple[int, int]) -> StateTensor:
    """A Mamba state: in the stated format, else in the model's, as vLLM 0.33 keeps it (transformers 5.23 keeps fp32)."""
    return StateTensor("recurrent", 1, (width,), state_format(fields))


def _conv(columns: int, *widths: tuple[int, int]) -> StateTensor:
    return StateTensor("conv", columns - 1, widths)


def mamba(fields: Fields) -> Recurrent:
    """Mamba-1: d_inner x d_state, and a convolution over d_inner.

    d_inner is intermediate_size in pure Mamba models (falcon_mamba's `expand` doesn't describe it), expand x hidden_size
    where attention or MLP layers stand beside it.

    Raises: MissingField, BadField.
    """
    hidden = _hidden(fields)
    expand = fields.whole("mamba_expand")
    inner = fields.whole("mamba_intermediate_size", "mamba_d_inner")
    if inner is None and expand is None and not fields.has("num_attention_heads", "attn", "num_heads"):
        inner = fields.whole("intermediate_size")
    if inner is None:
        inner = hidden * (expand or fields.need("expand", "mamba_expand"))
    state = fields.need("mamba_d_state", "state_size")
    kernel = fields.need("mamba_d_conv", "conv_kernel")
    return Recurrent("mamba", (_conv(kernel, (inner, 1)), _state(fields, (inner, state))), _MAMBA)


def mamba2(fields: Fields) -> Recurrent:
    """Mamba-2: heads x head_dim x d_state, and a convolution over d_inner + 2 x groups x d_state.

    Raises: MissingField, BadField.
    """
    hidden = _hidden(fields)
    count = _mamba_heads(fields, hidden)
    head = _mamba_head(fields, hidden, count)
    state = fields.need("mamba_d_state", "ssm_state_size", "state_size")
    groups = fields.need("mamba_n_groups", "mamba_ngroups", "n_groups")
    kernel = fields.need("mamba_d_conv", "conv_kernel")
    stated_inner = fields.whole("mamba_d_ssm")
    if stated_inner is not None and stated_inner != count * head:
        raise BadField(f"{fields.path}mamba_d_ssm", stated_inner, f"mamba heads x head size = {count * head}")
    conv = _conv(kernel, (count, head), (groups, 2 * state))
    return Recurrent("mamba2", (conv, _state(fields, (count, head * state))), _MAMBA2)


def _mamba_heads(fields: Fields, hidden: int) -> int:
    """Mamba heads: as stated, else expand x hidden_size / head size, else the class's.

    Pure Mamba-2 spells them num_heads, and there the three must agree (transformers 5.23 models/mamba2).
    """
    stated = fields.whole("mamba_n_heads", "mamba_num_heads", "n_mamba_heads")
    sized = fields.whole("mamba_headdim")
    if (
        stated is None and sized and fields.defaults.value("mamba_expand") is not None
    ):  # the class's count is of another size
        inner = hidden * fields.need("mamba_expand")
        if inner % sized:
            raise BadField(f"{fields.path}mamba_headdim", sized, f"a part of mamba_expand x hidden_size = {inner}")
        return inner // sized
    if stated is not None or not fields.has("expand", "head_dim") or fields.has("num_attention_heads"):
        return stated or fields.need("mamba_n_heads", "mamba_num_heads", "n_mamba_heads", "num_heads")
    inner, size = hidden * fields.need("expand"), fields.need("head_dim")
    count = fields.whole("num_heads") or inner // size
    if count * size != inner:
        raise BadField(
            f"{fields.path}num_heads", count, f"expand x hidden_size / head_dim = {inner} / {size}",
            hint=f"write {inner // size}, or the expand and head_dim that it goes with",
        )  # fmt: skip
    return count


def _mamba_head(fields: Fields, hidden: int, count: int) -> int:
    names = ("mamba_d_head", "mamba_head_dim", "mamba_headdim")
    found = fields.find(*names)
    if found is not None and found[1] != "auto":
        return fields.as_whole(*found)
    if found is None and fields.has("num_heads", "head_dim") and not fields.has("num_attention_heads"):
        return fields.need("head_dim")
    if found is None:
        default = next((value for name in names if isinstance(value := fields.defaults.value(name), int)), None)
        if default is not None and not fields.has("mamba_expand", "expand"):
            fields.note_default(names[0], default)
            return default
    inner = fields.whole("mamba_d_ssm") or hidden * fields.need("mamba_expand", "expand")
    if inner % count:
        raise BadField(fields.path + names[0], "auto", f"expand x hidden_size = {inner} shared by {count} heads")
    return inner // count


def gated_delta_net(fields: Fields) -> Recurrent:
    """Gated delta net: value heads x key size x value size, and a convolution over queries, keys and values.

    Raises: MissingField, BadField.
    """
    k_heads, v_heads = fields.need("linear_num_key_heads"), fields.need("linear_num_value_heads")
    k_dim, v_dim = fields.need("linear_key_head_dim"), fields.need("linear_value_head_dim")
    conv = _conv(fields.need("linear_conv_kernel_dim"), (k_heads, 2 * k_dim), (v_heads, v_dim))
    state = StateTensor("recurrent", 1, ((v_heads, k_dim * v_dim),), state_format(fields), FP32)
    return Recurrent("gated delta net", (conv, state), _DELTA)


def kimi_delta(fields: Fields) -> Recurrent:
    """Kimi delta attention: heads x size^2, and three convolutions over heads x size.

    Raises: MissingField, BadField.
    """
    linear = fields.child("linear_attn_config")
    if linear:
        count, size = linear.need("num_heads"), linear.need("head_dim")
        kernel = linear.need("short_conv_kernel_size")
    else:
        count, size = fields.need("linear_num_heads"), fields.need("linear_head_dim")
        kernel = fields.need("linear_conv_kernel_dim")
    return kimi_state(count, size, kernel)


def kimi_state(count: int, size: int, kernel: int) -> Recurrent:
    """The state of so many heads, each of so many elements a side."""
    conv = _conv(kernel, (count, 3 * size))
    return Recurrent("kimi delta", (conv, StateTensor("recurrent", 1, ((count, size * size),), usual=FP32)), _KDA)


def lightning(fields: Fields) -> Recurrent:
    """Lightning attention: heads x size^2, no convolution.

    Raises: MissingField, BadField.
    """
    count = query_heads(fields)
    if count is None:
        raise MissingField(f"{fields.path}num_attention_heads")
    return lightning_state(count, head_dim(fields, count))


def lightning_state(count: int, size: int) -> Recurrent:
    """The state of so many heads, each of so many elements a side."""
    return Recurrent(
        "lightning attention", (StateTensor("recurrent", 1, ((count, size * size),), usual=FP32),), _LIGHTNING
    )


def short_convolution(fields: Fields) -> Recurrent:
    """A convolution over hidden_size channels.

    Raises: MissingField, BadField.
    """
    return Recurrent("short convolution", (_conv(fields.need("conv_L_cache"), (_hidden(fields), 1)),), _CONV)


def four_convolutions(fields: Fields, heads: Heads) -> Recurrent:
    """Convolutions over keys, values, attention's output and the MLP's.

    Source: transformers 5.23 models/inkling: k_sconv, v_sconv, attn_sconv, mlp_sconv.

    Raises: MissingField, BadField.
    """
    kernel = fields.need("conv_kernel_size") - 1
    inner = fields.need("sconv_kernel_size", "conv_kernel_size") - 1
    per_head = StateTensor("conv", inner, ((heads.kv_heads, heads.k_dim + heads.v_dim),), usual=FP32)
    whole = StateTensor("conv", kernel, ((1, 2 * _hidden(fields)),), usual=FP32)
    return Recurrent("short convolution", (per_head, whole), _CONV)


def mixed_heads(fields: Fields, heads: Heads) -> Recurrent:
    """Compressed convolutional attention: a convolution over queries and keys, and half of the last token's values.

    Source: arXiv:2510.04476; transformers 5.23 models/zaya.

    Raises: MissingField, BadField.
    """
    columns = fields.need("cca_time0") - 1 + fields.need("cca_time1") - 1
    queries = heads.heads or heads.kv_heads
    conv = StateTensor("shift", columns, ((queries, heads.k_dim), (heads.kv_heads, heads.k_dim)))
    delayed = StateTensor("shift", 1, ((heads.kv_heads, heads.v_dim // 2),))
    return Recurrent("convolutional attention", (conv, delayed), "arXiv:2510.04476; transformers 5.23 models/zaya")


def _hidden(fields: Fields) -> int:
    found = width(fields)
    if found is None:
        raise MissingField(f"{fields.path}hidden_size")
    return found


class Law(NamedTuple):
    """One recurrence and the fields that only it has.

    fields: in a config or in the class of its type. of_class: in the class alone, as a config has it for something else.
    """

    shape: Callable[[Fields], Recurrent]
    fields: tuple[str, ...]
    of_class: tuple[str, ...] = ()

    def is_class_of(self, fields: Fields) -> bool:
        """Whether the class of the config's type has one of them."""
        return any(fields.defaults.value(name) is not None for name in (*self.fields, *self.of_class))


LAWS = (
    Law(gated_delta_net, ("linear_num_value_heads",)),
    Law(kimi_delta, ("linear_attn_config", "linear_num_heads")),
    Law(short_convolution, ("conv_L_cache",)),
    Law(mamba2, ("mamba_n_heads", "mamba_num_heads", "n_mamba_heads", "mamba_ngroups", "mamba_headdim", "n_groups")),
    Law(mamba, ("mamba_d_state", "state_size")),
    Law(lightning, ("attn_type_list",), of_class=("block_size",)),
)
"""Most telling first."""


def dilated_convolution(fields: Fields) -> StateTensor:
    """Columns that a per-layer embedding's dilated convolution keeps: (kernel - 1) x ngram_size of every stream.

    Source: transformers 5.23 models/qwen4_exp, short_conv_state_len.

    Raises: MissingField, BadField.
    """
    columns = (fields.need("ple_conv_kernel_size") - 1) * fields.need("ngram_size")
    return StateTensor("shift", columns, ((1, _hidden(fields) * fields.need("hc_count")),))


BESIDE_ATTENTION: tuple[tuple[str, Callable[[Fields, Heads], Recurrent]], ...] = (
    ("cca_time0", mixed_heads),
    ("conv_kernel_size", four_convolutions),
)
"""States whose shape follows from the attention they stand beside."""


def beside(fields: Fields, heads: Heads) -> Recurrent:
    """The recurrence of a layer that also attends with `heads`.

    Raises: MissingField, BadField.
    """
    for name, law in BESIDE_ATTENTION:
        if fields.has(name) or fields.defaults.value(name) is not None:
            return law(fields, heads)
    return by_fields(fields)


def by_fields(fields: Fields) -> Recurrent:
    """The recurrence that the fields describe: of the type's class, which knows best where there is one, else of the config.

    Raises: MissingField if none does; BadField.
    """
    found = next((law for law in LAWS if law.is_class_of(fields)), None)
    found = found or next((law for law in LAWS if fields.has(*law.fields)), None)
    if found is not None:
        return found.shape(fields)
    raise MissingField(
        any_of(fields.path + name for name in ("linear_num_value_heads", "mamba_n_heads", "mamba_d_state")),
        cause="some layers keep a recurrent state whose shape the config doesn't give",
    )
