"""What a layer with recurrent states has at once in the profiled step, where nobody gives it states: activations of one token.

    Mamba-2            outputs of its projection + its own output + twice what its convolution reads, which is copied and laid in order
    gated delta nets   outputs of its projections + its own output + its gate, cut out of those + both normed

Source: vLLM 0.10 to 0.33 layers/mamba/mamba_mixer2.py conv_ssm_forward, "profile run"; gdn_linear_attn.py, later
gdn/qwen_gdn_linear_attn.py forward.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.arch.layers import Recurrent
from kvplan.arch.model import Model
from kvplan.arch.parallel import Parallel
from kvplan.arch.weights import Weight

OUTPUTS, INPUTS = 0, 1
"""Dimensions of a matrix."""
CONVOLUTION = ".conv1d"
COPIES = {"mamba2": (1, 2), "gated delta net": (3, 0)}
"""By recurrence, how often its inner width is there beside its projections' outputs, and what its convolution reads."""


def mixing(model: Model, parallel: Parallel) -> int:
    """Elements of one token on a rank that the widest of those layers has; 0 without any, or of a kind that wasn't read."""
    laws = {cache.law for cache, _ in model.distinct if isinstance(cache, Recurrent)}
    if model.weights is None or len(laws) != 1:
        return 0
    inner, read = COPIES.get(next(iter(laws)), (0, 0))
    if not inner:
        return 0
    blocks = ([each for each in block if each.component == "recurrent"] for block, _ in model.weights.distinct)
    return max((_of_layer(block, parallel, inner, read) for block in blocks), default=0)


def _of_layer(weights: Sequence[Weight], parallel: Parallel, inner: int, read: int) -> int:
    matrices = [each for each in weights if each.linear and len(each.shape) > INPUTS]
    projected = sum(each.on_rank(parallel)[0][OUTPUTS] for each in matrices if each.split != INPUTS)
    own = max((each.on_rank(parallel)[0][INPUTS] for each in matrices if each.split == INPUTS), default=0)
    convolved = sum(each.on_rank(parallel)[0][OUTPUTS] for each in weights if each.name.endswith(CONVOLUTION))
    return projected + inner * own + read * convolved
