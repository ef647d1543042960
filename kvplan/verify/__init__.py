"""A real decode on this machine, beside what was predicted. Needs torch, which is imported when a run starts.

verify              a model's decoder with random weights, decoded for real: kvplan.verify.run
kvplan.verify.meta  the same model in transformers on the meta device, without a GPU

What a plan takes from the document is in kvplan.plan.calibration.
"""

from __future__ import annotations

from kvplan.verify.options import Options
from kvplan.verify.run import default_model, exit_code, prints, verify

__all__ = ["Options", "default_model", "exit_code", "prints", "verify"]
