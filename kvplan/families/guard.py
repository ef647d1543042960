"""Unknown model types are read by their fields, and refused when a field that nobody read speaks of the cache."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kvplan.arch.layers import Attention, Layer, Recurrent
from kvplan.errors import BadField, Unsupported
from kvplan.families.fields import Fields
from kvplan.families.telling import (
    BESIDE,
    HARMLESS,
    HEAD_COUNTS,
    KERNELS,
    OF_SOMETHING_ELSE,
    PASSES,
    SPEAKS_OF_THE_CACHE,
    SWITCHES,
    WIDTHS,
)
from kvplan.families.weights.symbols import SPELLINGS

YAML = "describe the model in a kvplan YAML, layer group by layer group"


def refuse_unread(fields: Fields, layers: tuple[Layer, ...], *, own_reader: bool) -> None:
    """Refuse a config that holds a field about the cache which nothing read.

    Types that the reference implementation knows are trusted with fields of their classes, which the readers were checked
    against; a head count that no class knows is refused there too. own_reader: the type has a reader of its own, which
    knows what its heads are, and which fields it needs.

    Raises: Unsupported.
    """
    known = fields.defaults.known
    if not known and not own_reader:
        _refuse_bare_heads(fields)
        _refuse_other_widths(fields, layers)
        _refuse_lists(fields, len(layers))
    speaks = HEAD_COUNTS if known else SPEAKS_OF_THE_CACHE
    for name, value in _unread(fields):
        passes = PASSES.search(name) is not None and (value != 1 or value is True)
        if (speaks.search(name) or passes) and not _of_the_class(fields, name):
            raise Unsupported(
                f"{fields.path}{name} isn't understood for model type {fields.model_type or '(none)'!r}",
                cause="its name says that it changes what a layer keeps, and kvplan won't guess how",
                hint=YAML,
            )


def _unread(fields: Fields) -> Iterator[tuple[str, object]]:
    """Fields that say something, that nothing read, and that may be about the cache."""
    for name, value in fields.node.items():
        if name in fields.ledger.read or name in HARMLESS or _says_nothing(value):
            continue
        if name in BESIDE and any(fields.node.get(other) is not None for other in BESIDE[name]):
            continue
        if not name.startswith(KERNELS) and "rope" not in name:
            yield name, value


def _refuse_bare_heads(fields: Fields) -> None:
    if fields.has("num_heads") and not fields.has("num_attention_heads", "n_head", "n_heads", "num_key_value_heads"):
        raise Unsupported(
            f"{fields.path}num_heads alone doesn't say what heads of {fields.model_type or 'this model'} keep",
            cause="linear attention and state space models name their heads so, and they keep no keys and values",
            hint=YAML,
        )


def _refuse_other_widths(fields: Fields, layers: tuple[Layer, ...]) -> None:
    """A width of heads under a name that nobody reads must be one that they were given."""
    plain = {cache for layer in layers for cache in layer.caches if isinstance(cache, Attention)}
    if not plain:
        return
    used = {
        size
        for cache in plain
        for dim in (cache.k_dim, cache.v_dim)
        for size in (dim, cache.kv_heads * dim, (cache.heads or cache.kv_heads) * dim)
    }
    for name, value in _unread(fields):
        if WIDTHS.search(name) and isinstance(value, int | float) and value not in used:
            dims = sorted({cache.k_dim for cache in plain})
            raise Unsupported(
                f"{fields.path}{name} = {value} isn't understood for model type {fields.model_type or '(none)'!r}",
                cause=f"its name says how wide heads are, and kvplan took {' and '.join(map(str, dims))} for each",
                hint='add "head_dim": the elements of one head\'s key',
            )


def _refuse_lists(fields: Fields, count: int) -> None:
    """A list with an entry for each layer tells layers apart, whatever it is called."""
    for name, value in _unread(fields):
        if isinstance(value, str) or not isinstance(value, Sequence) or OF_SOMETHING_ELSE.search(name):
            continue
        if len(value) == count > 1 and any(entry != value[0] for entry in value):
            raise Unsupported(
                f"{fields.path}{name} isn't understood for model type {fields.model_type or '(none)'!r}",
                cause=f"it has an entry for each of {count} layers, and kvplan won't guess what they keep",
                hint=YAML,
            )


def _says_nothing(value: object) -> bool:
    """Whether a value switches off what its name speaks of: nothing, or an object that says so itself."""
    off = isinstance(value, Mapping) and any(value.get(switch) is False for switch in SWITCHES)
    return off or value is None or value is False or value in (0, -1, "", [], {})


MLP_WIDTHS = SPELLINGS["I"]
EXPERTS = SPELLINGS["E"]


def refuse_no_mlp(fields: Fields, layers: tuple[Layer, ...]) -> None:
    """Refuse an MLP of width 0 where every layer has one: a dense model of attention layers alone.

    Blocks that say their own width, experts and recurrent layers may do without.

    Raises: BadField.
    """
    found = fields.find(*MLP_WIDTHS)
    if found is None or isinstance(found[1], bool) or found[1] != 0:
        return
    recurrent = any(isinstance(cache, Recurrent) for layer in layers for cache in layer.caches)
    if recurrent or fields.has("block_configs", "per_layer_config", *EXPERTS):
        return
    raise BadField(fields.path + found[0], found[1], "a positive whole number", cause="each layer's MLP has this width")


def _of_the_class(fields: Fields, name: str) -> bool:
    values = fields.defaults.values
    return name in values or name in values.get("kwargs", {}) or name in fields.defaults.spellings
