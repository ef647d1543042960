"""What the fullest GPU holds of a model's weights, by the way that plans go."""

from __future__ import annotations

from kvplan.arch.parallel import Parallel
from kvplan.arch.weights import PLAIN, View, Weights
from kvplan.engines.base import Options
from kvplan.engines.extras import held


def fullest(weights: Weights, parallel: Parallel, view: View = PLAIN) -> int:
    """Bytes of the model's own weights alone: nothing is served beside it.

    Raises: CannotSplit if there are more stages than layers.
    """
    return held(weights, parallel, Options(), view).bytes
