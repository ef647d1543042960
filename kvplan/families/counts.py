"""How many layers a config has, and how many of them are there to predict more tokens."""

from __future__ import annotations

from kvplan.arch.layers import MOST_LAYERS
from kvplan.errors import BadField, MissingField
from kvplan.families.fields import Fields
from kvplan.families.spellings import LAYERS
from kvplan.text import any_of


def layer_count(fields: Fields) -> int:
    """Layers of the decoder stack, MTP layers not included.

    Raises: MissingField, BadField.
    """
    stated = None
    if _counts_its_list(fields) or (fields.of_class(*LAYERS) is None and fields.unread(*LAYERS) is None):
        listed = fields.items("layers_block_type", "layer_types", "block_configs")
        stated = len(listed or override(fields) or ()) or None
    _note_uncounted(fields, stated)
    stated = stated or fields.core(*LAYERS)
    if stated is None:
        raise MissingField(any_of(fields.path + name for name in LAYERS[:3]))
    if stated > MOST_LAYERS:
        raise BadField(fields.path + LAYERS[0], stated, f"a number of layers up to {MOST_LAYERS}")
    return stated


def _counts_its_list(fields: Fields) -> bool:
    """Whether the class has as many layers as its list has entries, whatever num_hidden_layers says.

    Source: transformers 5.23 models/nemotron_h, whose num_hidden_layers is the length of layers_block_type.
    """
    return "hybrid_override_pattern" in fields.defaults.values.get("kwargs", {})


def _note_uncounted(fields: Fields, listed: int | None) -> None:
    """Say so where num_hidden_layers is another number than the list's, which counts."""
    stated = fields.whole("num_hidden_layers")
    if listed is not None and stated not in {None, listed}:
        fields.note(
            f"{fields.path}num_hidden_layers = {stated} is ignored: the class of {fields.model_type} has as many layers as "
            f"its list, {listed}."
        )


def draft_count(fields: Fields) -> int:
    """Multi-token-prediction layers that come with the model.

    Raises: BadField.
    """
    count = fields.whole(*DRAFT_COUNTS, least=0) or 0
    if count > MOST_DRAFTS:
        raise BadField(fields.path + DRAFT_COUNTS[0], count, f"a number of prediction layers up to {MOST_DRAFTS}")
    return count


DRAFT_COUNTS = (
    "num_nextn_predict_layers",
    "mtp_num_hidden_layers",
    "num_mtp_modules",
    "_num_mtp_layers",
    "mtp_num_layers",
)
MOST_DRAFTS = 64


def override(fields: Fields) -> tuple[object, ...] | None:
    """The letters of hybrid_override_pattern: a string's, or a list's entries, which its class goes through alike.

    Source: transformers 5.23 models/nemotron_h, _pattern_to_list.

    Raises: BadField for anything else.
    """
    found = fields.find("hybrid_override_pattern")
    if found is not None and not isinstance(found[1], str | list | tuple):
        raise BadField(fields.path + found[0], found[1], "a string of letters, one a layer")
    return None if found is None else tuple(found[1])
