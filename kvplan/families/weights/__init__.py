"""Parameters from a config: families as tables of tensors (table.py), evaluated layer by layer."""

from __future__ import annotations

from kvplan.families.weights.reader import read

__all__ = ["read"]
