"""What a model's parameters are, which of them a step reads, and how ranks share them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Weights:
    """Placeholder until the inventory of tensors lands."""

    total: int
    active: int
    exact: bool
