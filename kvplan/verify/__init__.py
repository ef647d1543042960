"""A real decode on this machine, compared with its prediction. Needs torch, imported when a run starts.

    verify              a model's decoder with random weights, really decoded: kvplan.verify.run
    kvplan.verify.meta  the same model in transformers on the meta device, without a GPU

kvplan.plan.calibration uses the resulting document in plans.
"""

from __future__ import annotations

from kvplan.verify.options import Options
from kvplan.verify.run import default_model, exit_code, prints, verify

__all__ = ["Options", "default_model", "exit_code", "prints", "verify"]
