"""How long a sliding window is, and whether there is one: whatever field says it. Which layers have it: patterns.py."""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.families.fields import Fields

WINDOWS = ("sliding_window", "sliding_window_size", "window_size")
"""Fields that say how long a window is."""

OWN_WINDOWS: Mapping[str, str] = {"transformer": "window_size"}
"""Types that no class knows, and what they call their window. Source: flash-linear-attention models/transformer."""


def window_names(fields: Fields) -> tuple[str, ...]:
    """Those of WINDOWS that say so in this type.

    Without a class to tell, only sliding_window: another name may be of summaries that outlast the window (EvaByte, arXiv:2302.04542).
    """
    if fields.defaults.known:
        return WINDOWS
    return (WINDOWS[0], *filter(None, (OWN_WINDOWS.get(fields.model_type),)))


def window(fields: Fields) -> int | None:
    """Tokens of a sliding window; None when the config says null, or when neither it nor its class has one.

    Types whose class doesn't know the field ignore it, as the reference implementation does.

    Raises: BadField.
    """
    if fields.stated_null("sliding_window"):
        return None
    stated = fields.whole(*window_names(fields), least=-1)
    knows = not fields.defaults.known or fields.defaults.own_name("sliding_window") in fields.defaults.values
    if stated is not None:
        return stated if stated > 0 and (knows or fields.has("use_sliding_window")) else None
    default = fields.defaults.value("sliding_window")
    if not isinstance(default, int) or isinstance(default, bool) or default <= 0:
        return None
    fields.note_default("sliding_window", default)
    return default


def windows_off(fields: Fields) -> bool:
    """Whether the config has no window whatever it calls its layers: by a null, a 0, or the switch of a class that has one.

    Nor has a class of latents that doesn't know the field. Source: transformers 5.23 models/qwen2, sliding_window if
    use_sliding_window else None; vLLM 0.33 models/exaone4.py, models/deepseek_v2.py, and config/model.py, which takes 0 for null.
    """
    if "kv_lora_rank" in fields.defaults.values and not fields.defaults.reads(WINDOWS[0]):
        return True
    if fields.whole(*window_names(fields), least=-1) is None and fields.stated_null(WINDOWS[0]):
        return True
    if fields.whole(WINDOWS[0], least=-1) == 0:
        return True
    return switched(fields) and fields.flag("use_sliding_window") is False


def switched(fields: Fields) -> bool:
    """Whether the type's class has no window unless use_sliding_window says so."""
    return "use_sliding_window" in fields.defaults.values.get("derived", {}).get("sliding_window", ())
