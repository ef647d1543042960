"""Which layer is of which kind: one word a layer, whatever field says it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kvplan.errors import BadField, MissingField, Unsupported
from kvplan.families.counts import draft_count, override
from kvplan.families.fields import Fields
from kvplan.families.latent import rotating_layers
from kvplan.families.window_length import window, windows_off

FULL, SLIDING, CHUNKED, STATE, NONE = "full", "sliding", "chunked", "state", "none"
BOTH, BOTH_SLIDING = "full and state", "sliding and state"

MLP_WORDS, MLP_LETTERS = {"mlp": "dense", "dense": "dense", "moe": "moe"}, {"-": "dense", "E": "moe"}
"""Layers that cache nothing, and what they are: an MLP or experts."""

WORDS = {
    "full_attention": FULL, "attention": FULL, "full": FULL, "global": FULL, "global_attention": FULL,
    "indexed_attention": FULL, "deepseek_sparse_attention": FULL, "minimax_m3_sparse": FULL, "sparse": FULL,
    "sliding_attention": SLIDING, "sliding_window": SLIDING, "swa": SLIDING, "local": SLIDING, "local_attention": SLIDING,
    "chunked_attention": CHUNKED,
    "linear_attention": STATE, "mamba": STATE, "mamba2": STATE, "conv": STATE, "recurrent": STATE, "gated_delta_net": STATE,
    "hybrid": BOTH, "parallel_hybrid": BOTH, "hybrid_sliding": BOTH_SLIDING,
    "qwen_sparse_attention": FULL,
    **dict.fromkeys(MLP_WORDS, NONE),
}  # fmt: skip
"""Entries of layer_types, layers_block_type and their like. A word that isn't here is refused."""

LETTERS = {"M": STATE, "*": FULL, **dict.fromkeys(MLP_LETTERS, NONE)}
"""hybrid_override_pattern: Mamba, attention, MLP, experts. Source: transformers 5.23 models/nemotron_h."""

LOCAL_GLOBAL = {"L": SLIDING, "G": FULL}
"""sliding_window_pattern as a string. Source: EXAONE-4.0 configuration."""


SAYS_WHICH = (
    "layer_types", "layers_block_type", "hybrid_override_pattern", "attn_type_list", "attn_layer_indices", "full_attn_idxs",
    "linear_attn_config.full_attn_layers", "attn_layer_period", "full_attention_interval",
)  # fmt: skip
"""Fields by which a config with recurrent layers says which those are: none, where every layer is attention by them."""


def kinds(fields: Fields, count: int) -> tuple[str, ...]:
    """The kind of each of `count` layers, by the first rule whose field is there.

    Raises: BadField, Unsupported, MissingField.
    """
    for rule in RULES:
        found = rule(fields, count)
        if found is not None:
            found = tuple(WITHOUT_WINDOW.get(kind, kind) for kind in found) if windows_off(fields) else found
            whole = fields.stated_null("attention_chunk_size")
            return tuple(FULL if whole and kind == CHUNKED else kind for kind in found)
    return (FULL,) * count


WITHOUT_WINDOW = {SLIDING: FULL, BOTH_SLIDING: BOTH}


def _listed(fields: Fields, count: int) -> tuple[str, ...] | None:
    for name in ("layer_types", "layers_block_type", "block_types", "_block_types"):
        entries = fields.items(name)
        if entries is None:
            continue
        if not entries:
            raise BadField(fields.path + name, [], "a list of layer types")
        if name.endswith("block_types"):  # a cycle, not one entry a layer
            entries = tuple(entries[layer % len(entries)] for layer in range(count))
        listed = as_kept(fields, name, _one_each(fields, name, entries, count))
        return tuple(_word(fields, name, entry) for entry in listed)
    return None


def as_kept(fields: Fields, name: str, entries: Sequence[object]) -> Sequence[object]:
    """A list of layers as the type's class keeps it, which may have a word of its own for the last one."""
    last = fields.defaults.last(name)
    if last is None or not entries or entries[-1] == last:
        return entries
    fields.note(
        f"{fields.path}{name} ends in {entries[-1]}: the class of {fields.model_type} makes its last layer {last}."
    )
    return (*entries[:-1], last)


def _word(fields: Fields, name: str, entry: object) -> str:
    if not isinstance(entry, str) or entry not in WORDS:
        raise Unsupported(
            f"{fields.path}{name} has a layer type {entry!r} that kvplan doesn't know",
            cause="how such a layer's cache grows can't be guessed",
            hint="describe the model in a kvplan YAML, layer group by layer group",
        )
    return WORDS[entry]


def _one_each(fields: Fields, name: str, entries: Sequence[object], count: int) -> Sequence[object]:
    """The list cut to the stack: it may go on with the multi-token-prediction layers, and only with those."""
    drafts = draft_count(fields)
    if len(entries) not in (count, count + drafts):
        raise _other_length(fields, name, len(entries), count)
    return entries[:count]


def _other_length(fields: Fields, name: str, entries: int, count: int) -> BadField:
    return BadField(
        fields.path + name, f"a list of {entries}", f"a list of {count}, one entry a layer",
        hint=f"write {entries} as {fields.path}num_hidden_layers if the list is right, else a list of {count}",
    )  # fmt: skip


def _letters(fields: Fields, count: int) -> tuple[str, ...] | None:
    pattern = override(fields)
    if pattern is None:
        return None
    unknown = next((letter for letter in pattern if not isinstance(letter, str) or letter not in LETTERS), None)
    if unknown is not None:
        raise Unsupported(
            f"{fields.path}hybrid_override_pattern has a letter {unknown!r} that kvplan doesn't know",
            cause=f"it knows {', '.join(LETTERS)}: Mamba, attention, MLP, experts",
            hint="describe the model in a kvplan YAML, layer group by layer group",
        )
    return tuple(LETTERS[str(letter)] for letter in _one_each(fields, "hybrid_override_pattern", pattern, count))


def _switches(name: str, off: str, on: str) -> Callable[[Fields, int], tuple[str, ...] | None]:
    """A list of 0 and 1, one a layer."""

    def rule(fields: Fields, count: int) -> tuple[str, ...] | None:
        values = fields.wholes(name)
        if values is None:
            return None
        entries = _one_each(fields, name, values, count)
        return tuple(on if entry else off for entry in entries)

    return rule


def _indices(name: str, chosen: str, rest: str) -> Callable[[Fields, int], tuple[str, ...] | None]:
    """A list of layer numbers from 0; a class that knows the field and a config that leaves it out mean none."""

    def rule(fields: Fields, count: int) -> tuple[str, ...] | None:
        values = fields.wholes(name)
        if values is None:
            return (
                (rest,) * count if name in fields.defaults.values and not fields.defaults.values.get("lists") else None
            )
        beyond = [value for value in values if value >= count]
        if beyond:
            raise BadField(fields.path + name, beyond[0], f"a layer number below {count}")
        return tuple(chosen if layer in values else rest for layer in range(count))

    return rule


def _kimi(fields: Fields, count: int) -> tuple[str, ...] | None:
    """Kimi's lists of layer numbers, in linear_attn_config; an object of that name may be another's, or nobody's."""
    found = fields.node.get("linear_attn_config")
    its_own = isinstance(found, Mapping) and any(found.get(name) is not None for name in KIMI_LAYERS)
    if not found or not fields.defaults.reads("linear_attn_config") or not (its_own or fields.defaults.known):
        return None
    linear = fields.child("linear_attn_config")
    if linear is None:
        return None
    full, state = linear.wholes("full_attn_layers", least=1) or (), linear.wholes("kda_layers", least=1) or ()
    if sorted((*full, *state)) != list(range(1, count + 1)):  # counted from 1
        raise BadField(f"{linear.path}kda_layers", list(state), f"with full_attn_layers, each of 1 to {count} once")
    return tuple(FULL if layer + 1 in full else STATE for layer in range(count))


KIMI_LAYERS = ("kda_layers", "full_attn_layers")


def _period(fields: Fields, count: int) -> tuple[str, ...] | None:
    """Jamba: attention where layer % attn_layer_period == attn_layer_offset.

    Raises: BadField for an offset that no layer has. Source: transformers 5.23 models/jamba/configuration_jamba.py.
    """
    period = fields.whole_or_default("attn_layer_period")
    if period is None:
        return None
    offset = fields.whole("attn_layer_offset", least=0)
    if offset is None:
        default = fields.default("attn_layer_offset")
        offset = default if isinstance(default, int) else 0
    if offset >= period:
        raise BadField(f"{fields.path}attn_layer_offset", offset, f"a number below attn_layer_period = {period}")
    return tuple(FULL if layer % period == offset else STATE for layer in range(count))


def _interval(fields: Fields, count: int) -> tuple[str, ...] | None:
    """Qwen3-Next: full attention where layer + 1 is a multiple of full_attention_interval, a state elsewhere."""
    every = fields.whole("full_attention_interval")
    if every is None:
        if fields.defaults.value("linear_num_value_heads") is None:
            return None
        every = fields.whole_or_default("full_attention_interval")
    if every is None:
        return None
    return tuple(FULL if (layer + 1) % every == 0 else STATE for layer in range(count))


def _parallel(fields: Fields, count: int) -> tuple[str, ...] | None:
    """Falcon-H1: attention and a state of mamba_d_ssm channels side by side in every layer."""
    if fields.has("mamba_d_ssm") or fields.defaults.value("mamba_d_ssm") is not None:
        return (BOTH,) * count
    return None


def _chunks(fields: Fields, count: int) -> tuple[str, ...] | None:
    """Llama 4: layers with rotary position see their chunk, layers without see everything."""
    if fields.stated_null("attention_chunk_size"):
        return (FULL,) * count
    rotary = fields.wholes("no_rope_layers")
    interval = fields.whole("no_rope_layer_interval")
    size = fields.whole("attention_chunk_size")
    by_class = isinstance(fields.defaults.value("attention_chunk_size"), int)
    if not by_class and (size is None or (rotary is None and interval is None)):
        return None
    if rotary:
        return tuple(CHUNKED if entry else FULL for entry in _whole_list(fields, "no_rope_layers", rotary, count))
    every = interval or fields.need("no_rope_layer_interval")
    return tuple(FULL if (layer + 1) % every == 0 else CHUNKED for layer in range(count))


def _whole_list(fields: Fields, name: str, entries: tuple[int, ...], count: int) -> tuple[int, ...]:
    if len(entries) != count:
        raise _other_length(fields, name, len(entries), count)
    return entries


def _windows(fields: Fields, count: int) -> tuple[str, ...] | None:
    """Models with a sliding window: switched off, after max_window_layers, by a pattern, or everywhere."""
    if window(fields) is None:
        return (FULL,) * count
    gate = fields.flag("use_sliding_window") if fields.defaults.reads("use_sliding_window") else None
    if gate is False:
        return (FULL,) * count
    if gate is True and _class_counts_windows(fields):
        first = fields.whole("max_window_layers", least=0)
        if first is None:
            first = fields.whole_or_default("max_window_layers")
        if first is not None:
            return tuple(SLIDING if layer >= first else FULL for layer in range(count))
    found = _local_global(fields, count) or _by_class(fields, count) or (SLIDING,) * count
    _note_unread_period(fields, found)
    return found


def _unrotated(fields: Fields, count: int) -> tuple[str, ...] | None:
    """SmolLM3: with windows switched on, layers that rotate nothing have one.

    Source: transformers 5.23 models/smollm3/configuration_smollm3.py.
    """
    by_class = "no_rope_layers" in fields.defaults.values.get("lists", {}) and fields.defaults.reads(
        "use_sliding_window"
    )
    if not by_class or not fields.flag("use_sliding_window") or window(fields) is None:
        return None
    return tuple(FULL if rotates else SLIDING for rotates in rotating_layers(fields, count))


def _class_counts_windows(fields: Fields) -> bool:
    """Whether max_window_layers means anything: known classes without a per-layer list slide everywhere (qwen3_moe)."""
    return not fields.defaults.known or bool(fields.defaults.builds("layer_types"))


PERIODS = ("sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers", "layer_switch")
"""Fields that say how often a layer is full among those with a window."""


def _local_global(fields: Fields, count: int) -> tuple[str, ...] | None:
    """Every n-th layer is full, by those of PERIODS that the type's class reads. "LLLG": a cycle."""
    names = tuple(filter(fields.defaults.reads, PERIODS))
    found = fields.find(*names)
    if found is not None and isinstance(found[1], str):
        if not found[1] or set(found[1]) - set(LOCAL_GLOBAL):
            raise BadField(fields.path + found[0], found[1], "letters L (window) and G (full)")
        return tuple(LOCAL_GLOBAL[found[1][layer % len(found[1])]] for layer in range(count))
    period = fields.whole_or_default(*names)
    return None if period is None else _every(period, count, first=_first_is_full(fields))


def _every(period: int, count: int, *, first: bool) -> tuple[str, ...]:
    """Every n-th of `count` layers is full, beginning with the first one or with the n-th."""
    return tuple(FULL if (layer + (not first)) % period == 0 else SLIDING for layer in range(count))


def _first_is_full(fields: Fields) -> bool:
    """Whether the class counts from a full layer on, as modernbert-decoder's does, by the list that it builds."""
    both = len(fields.defaults.builds("layer_types")) > 1
    return both and fields.defaults.pattern("layer_types", 1) == ("full_attention",)


def _note_unread_period(fields: Fields, found: tuple[str, ...]) -> None:
    """Say so where a config has a period that its type's class doesn't read, and that would tell layers apart otherwise."""
    name = fields.unread(*PERIODS)
    period = fields.node.get(name) if name is not None else None
    if isinstance(period, int) and period > 0 and _every(period, len(found), first=False) != found:
        fields.note(f"{fields.path}{name} = {period} is ignored: the class of {fields.model_type} doesn't read it.")


LISTS = ("layer_types", "layers_block_type")
"""Per-layer lists that classes build when a config leaves them out."""


def _by_class(fields: Fields, count: int) -> tuple[str, ...] | None:
    """The per-layer list that the model type's class builds when the config leaves it out.

    Raises: MissingField where what it builds for so many layers isn't known; Unsupported for a kind that isn't.
    """
    name = next((name for name in LISTS if fields.defaults.builds(name)), None)
    if name is None:
        return None
    entries = fields.defaults.pattern(name, count)
    if entries is None:
        raise MissingField(
            fields.path + name,
            cause=f"the class of {fields.model_type} fills it for a model of its own, which hasn't {count} layers",
            hint=f"add {fields.path}{name} with one entry a layer",
        )
    found = tuple(_word(fields, name, entry) for entry in entries)
    fields.note_default(name, sorted(set(entries)))
    return found


def _class_kinds(fields: Fields, count: int) -> tuple[str, ...] | None:
    """A class whose default list is of more than windows, for a config that says nothing of its layers' kinds."""
    found = _by_class(fields, count)
    return found if found is not None and set(found) - {FULL, SLIDING} else None


RULES: tuple[Callable[[Fields, int], tuple[str, ...] | None], ...] = (
    _listed,
    _letters,
    _parallel,
    _switches("hybrid_layer_pattern", FULL, SLIDING),
    _switches("attn_type_list", STATE, FULL),
    _indices("attn_layer_indices", FULL, STATE),
    _indices("full_attn_idxs", FULL, STATE),
    _kimi,
    _period,
    _interval,
    _chunks,
    _class_kinds,
    _unrotated,
    _windows,
)
"""Rules in the order they are believed: lists first, then periods, then windows."""
