"""What every source delivers: a parsed description, its side files, and where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kvplan.arch.model import Origin
from kvplan.sources.strict import Lines

COMPANIONS = ("hf_quant_config.json", "quantize_config.json", "quant_config.json")
"""Files that say how weights are quantised when config.json doesn't: ModelOpt's, and AutoGPTQ's and AutoAWQ's of 2023."""


@dataclass(frozen=True, slots=True)
class Document:
    """A model's description as found, not yet understood.

    config: of transformers, or a kvplan description (it has a `kvplan` key). companions: parsed side files by name.
    origin: where it came from; `revision` is the Hub's commit. lines: of a YAML file's keys, for messages.
    notes: what the reader should know about the source (a cached copy was used).
    """

    config: Mapping[str, object]
    origin: Origin
    companions: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    lines: Lines = field(default_factory=dict)
    notes: tuple[str, ...] = ()
