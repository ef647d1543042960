"""Linear layers in fp8 on AMD's GPUs whose PyTorch can't multiply it: those before CDNA 3, and Radeons before RDNA 4.

Scales of blocks are multiplied by Triton's kernels, which run there.

Source: vLLM 0.29 to 0.33 model_executor/kernels/linear/scaled_mm/{pytorch,rocm}.py is_supported; asked of vLLM 0.33.
"""

from __future__ import annotations

from kvplan.arch.model import Model
from kvplan.arch.storage import FP8_ROW, FP8_TENSOR
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.engines.vllm.tables.versions import Version, text
from kvplan.errors import NotServed
from kvplan.hardware.gpu import Gpu

SINCE: Version = (0, 29, 0)
"""The first release that was read to ask PyTorch."""
MULTIPLYING = ("CDNA3", "CDNA4", "RDNA4")
"""How the names of architectures begin that can."""
KINDS = frozenset({FP8_TENSOR.name, FP8_ROW.name})


def check(model: Model, rules: Rules, gpu: Gpu | None) -> None:
    """Nothing, if there is a kernel for every linear layer.

    Raises: NotServed.
    """
    if gpu is None or gpu.vendor != "amd" or gpu.architecture.startswith(MULTIPLYING) or rules.version < SINCE:
        return
    weights = () if model.weights is None else (weight for layer, _ in model.weights.distinct for weight in layer)
    if any(weight.linear and not weight.routed and weight.stored.name in KINDS for weight in weights):
        raise NotServed(
            f"vLLM {text(rules.version)} doesn't load {model.origin.id} on {gpu.id}",
            cause="Failed to find a kernel that can implement the ScaledMM linear layer: fp8 with a scale for each tensor or row "
            "needs CDNA 3 or RDNA 4",
            hint="a checkpoint in 16 bit or with scales of blocks (--weight-dtype asks what if), or another GPU",
        )
