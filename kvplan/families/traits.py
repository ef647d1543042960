"""What a config says that only engines branch on."""

from __future__ import annotations

from kvplan.families.fields import Fields

IMAGE_PREFIX = "image_prefix"
"""Image tokens attend to each other both ways: use_bidirectional_attention "vision". Source: Gemma 4's config."""


def traits(fields: Fields) -> tuple[str, ...]:
    """Names of the traits that the config states.

    Raises: BadField.
    """
    found = fields.find("use_bidirectional_attention")
    return (IMAGE_PREFIX,) if found is not None and found[1] == "vision" else ()
