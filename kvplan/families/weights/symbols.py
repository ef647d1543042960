"""What the symbols of the templates mean in a config: short names, spellings, and the classes' own defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kvplan.errors import BadField, MissingField
from kvplan.families import typed
from kvplan.families.fields import Fields
from kvplan.families.spellings import HEADS, LAYERS, POSITIONS, WIDTH
from kvplan.families.weights.template import dimension

SPELLINGS: dict[str, tuple[str, ...]] = {
    "H": (*WIDTH, "hidden_dim", "vt_hidden_size"),
    "I": ("intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "d_ff", "decoder_ffn_dim", "inner_hidden_size", "vt_intermediate_size"),
    "V": ("padded_vocab_size", "vocab_size", "n_vocab"),
    "P": (*POSITIONS, "n_ctx"),
    "E": (
        "num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts", "num_routed_experts",
        "ffn_config.moe_num_experts",
    ),
    "topk": (
        "num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k", "moe_k", "top_k_experts",
        "ffn_config.moe_top_k", "num_selected_experts", "num_experts_per_topk", "top_k",
    ),
    "M": ("moe_intermediate_size", "moe_ffn_hidden_size", "expert_ffn_hidden_size", "expert_intermediate_size"),
    "shared_count": ("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts"),
    "shared_width": (
        "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "share_expert_dim",
        "shared_intermediate_size", "shared_expert_ffn_hidden_size",
    ),
    "layers": (*LAYERS, "vt_num_hidden_layers", "layers"),
    "pos_rows": ("init_pos_emb_height", "pos_emb_height"),
    "pos_columns": ("init_pos_emb_width", "pos_emb_width"),
    "frames": ("img_token_compression_config.temporal_patch_size", "temporal_patch_size"),
    "channels": ("in_channels", "in_chans", "num_channels"),
    "conv_bias": ("use_conv_bias", "mamba_conv_bias", "conv_bias"),
    "in_bias": ("use_bias", "mamba_proj_bias"),
    "rank": ("time_step_rank", "mamba_dt_rank"),
    "ple": ("hidden_size_per_layer_input",),
    "N": ("linear_attn_config.num_heads", "kda_num_heads", "linear_num_heads"),
    "n": ("linear_attn_config.head_dim", "kda_head_dim", "linear_head_dim"),
    "kda_kernel": ("linear_attn_config.short_conv_kernel_size", "linear_conv_kernel_dim", "short_conv_kernel_size"),
    "index_heads": ("sparse_attention_config.sparse_num_index_heads", "index_n_heads"),
    "index_dim": ("sparse_attention_config.sparse_index_dim", "index_head_dim"),
    "A": (*HEADS, "vt_num_attention_heads", "encoder_attention_heads", "attention_heads"),
}  # fmt: skip
"""Symbol to field names, in the order they are tried. Any other symbol is a field of that very name."""

CORE = ("H", "I", "A", "layers")
"""Symbols whose fields every class has, under the names that it reads and no others."""

Value = int | bool | str
"""A number, a switch, or a text: an expression in other symbols, a field's name."""


@dataclass(frozen=True, slots=True)
class ConfigSymbols:
    """Symbols of one config object.

    fields: the object. given: values that a layer or the family fixes; a text is an expression in other symbols,
    a field name or a switch. fallback: the same, used when neither the config nor its class says.
    scopes: other parts of the model, by name. memo: answers that hold for every layer.
    """

    fields: Fields
    given: Mapping[str, Value]
    fallback: Mapping[str, Value] = field(default_factory=dict)
    scopes: Mapping[str, ConfigSymbols] = field(default_factory=dict)
    memo: dict[tuple[str, str], object] = field(default_factory=dict)

    def also(self, more: Mapping[str, Value]) -> ConfigSymbols:
        """The same with further symbols fixed."""
        return ConfigSymbols(self.fields, {**self.given, **more}, self.fallback, self.scopes, self.memo)

    def number(self, name: str) -> int:
        """Value of a dimension: where the config states it, at least one.

        Raises: MissingField if neither the config nor its class says, BadField.
        """
        value = self.maybe(name)
        if value is None:
            raise MissingField(self.fields.path + SPELLINGS.get(name, (name,))[0])
        if not value and name not in self.given and (stated := self.fields.find(*self._spellings(name))) is not None:
            raise BadField(self.fields.path + stated[0], stated[1], "a positive whole number")
        return value

    def maybe(self, name: str) -> int | None:
        """Value of a dimension, None when nothing says.

        Raises: BadField.
        """
        if name in self.given:
            return self._worked_out(self.given[name])
        key = ("number", name)
        if key not in self.memo:
            stated = self.fields.find(*self._spellings(name)) if name[0] != "#" else None
            if stated is not None and isinstance(stated[1], list | tuple):
                return self._entry(*stated)
            self.memo[key] = self._entry(*stated) if stated is not None else self._unstated(name)
        known = self.memo[key]
        return known if isinstance(known, int) else None

    def _spellings(self, name: str) -> tuple[str, ...]:
        """What a symbol may be called here: of its stack's depth and widths, only what the type's class reads."""
        standard, *others = SPELLINGS.get(name, (name,))
        return (standard, *(filter(self.fields.defaults.reads, others) if name in CORE else others))

    def _unstated(self, name: str) -> int | None:
        """What another part of the model, the class or the family says of a symbol that isn't a field here."""
        found = self._elsewhere(name)
        if found is not None:
            return found[0]
        for spelled in SPELLINGS.get(name, (name,)):
            value = None if self.fields.stated_null(spelled) else self.fields.defaults.value(spelled)
            if isinstance(value, int | float) and not isinstance(value, bool):
                if value:
                    self.fields.note_default(spelled, value)
                return int(value)
        return self._worked_out(self.fallback[name]) if name in self.fallback else None

    def _elsewhere(self, name: str) -> tuple[int | None] | None:
        """The symbol of another part of the model, the length of a list, or one of its entries; None for plain names."""
        scope, dot, inner = name.partition(".")
        if dot and scope in self.scopes:
            return (self.scopes[scope].maybe(inner),)
        if name.startswith("#"):
            return (len(self._list(name[1:])),)
        if inner.isdigit():
            entries, index = self._list(scope), int(inner)
            return (self._entry(scope, entries[index]) if index < len(entries) else None,)
        return None

    def _worked_out(self, value: Value) -> int:
        return dimension(value).value(self) if isinstance(value, str) else int(value)

    def _list(self, name: str) -> Sequence[object]:
        found = self.fields.find(name)
        if found is not None:
            return typed.items(self.fields.path + name, found[1])
        value = self.fields.defaults.value(name)
        return value if isinstance(value, list | tuple) else ()

    def _entry(self, name: str, value: object) -> int:
        """A number, or this layer's entry of a list with one number for each layer."""
        if isinstance(value, list | tuple):
            layer = int(self.given.get("layer", 0))
            if layer >= len(value):
                raise BadField(self.fields.path + name, value, f"a number, or a list with one for layer {layer} too")
            value = value[layer]
        return self.fields.as_whole(name, value, least=0)

    def on(self, name: str) -> bool:
        """Whether a flag is on: a switch that is true, or a number that isn't zero. What nothing mentions is off."""
        if name in self.given:
            value = self.given[name]
            if isinstance(value, str):
                return bool(self._worked_out(value)) if set(value) & set("*+-/") else self.on(value)
            return bool(value)
        key = ("flag", name)
        if key not in self.memo:
            self.memo[key] = self._flag(name)
        return bool(self.memo[key])

    def _is_on(self, name: str, value: object) -> bool:
        """Whether a stated value switches something on.

        Raises: BadField for text, lists and objects: all but the empty ones would count as true.
        """
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value != 0 and typed.positive(self.fields.path + name, value) > 0
        return typed.switch(self.fields.path + name, value)

    def _flag(self, name: str) -> bool:
        scope, dot, inner = name.partition(".")
        if dot and scope in self.scopes:
            return self.scopes[scope].on(inner)
        if name.startswith("#"):
            return bool(self._list(name[1:]))
        names = SPELLINGS.get(name, (name,))
        found = self.fields.find(*names)
        if found is not None:
            return self._is_on(*found)
        return any(self.fields.defaults.value(spelled) for spelled in names if not self.fields.stated_null(spelled))
