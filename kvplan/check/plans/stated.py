"""What a serve command states about a checkpoint, applied to the model that is planned."""

from __future__ import annotations

from dataclasses import replace

from kvplan.arch.formats import FORMATS
from kvplan.arch.model import Model
from kvplan.engines.base import Stated


def cast(model: Model, stated: Stated) -> Model:
    """The model in the dtype that is asked for, which its cache is kept in too; the weights' files are as they were."""
    return replace(model, dtype=FORMATS["fp16"]) if stated.half and model.dtype.name == "bf16" else model
