"""What every source delivers: a parsed description, its companion files, and its origin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kvplan.arch.model import Origin
from kvplan.sources.strict import Lines

COMPANIONS = ("hf_quant_config.json", "quantize_config.json", "quant_config.json")
"""Files that describe quantization if config.json doesn't: ModelOpt's, and AutoGPTQ's and AutoAWQ's of 2023."""


@dataclass(frozen=True, slots=True)
class Document:
    """A model's description as found, not yet interpreted.

    config: transformers' config, or a kvplan description (it has the key `kvplan`). companions: parsed files, by name.
    origin: where it came from; its `revision` is the Hub's commit. lines: of a YAML file's keys, for messages. notes:
    what the reader should know about the source, such as the use of a cached copy.
    """

    config: Mapping[str, object]
    origin: Origin
    companions: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    lines: Lines = field(default_factory=dict)
    notes: tuple[str, ...] = ()
