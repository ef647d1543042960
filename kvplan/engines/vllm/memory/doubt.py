"""How unsure a plan's overheads are, by how many independent sources of start-up logs show what it is made of.

    doubt  = a fixed part + a share of what is counted + a share of each rate's cost, larger the fewer sources show it;
             of CUDA graphs at least what they were seen to take above it / WIDTH
    margin = WIDTH x doubt

The shares are round numbers chosen once; WIDTH is the 99th percentile of (promised too much / doubt) over rows of logs
whose own source the rates never saw, found by bench/accuracy (docs/accuracy-method.md; how well it holds elsewhere: docs/accuracy.md).
"""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.hardware.gpu import Gpu
from kvplan.units import GIB

WIDTH = 2.15
"""What doubts are multiplied by. Fitted: docs/accuracy-method.md."""

ALWAYS = round(0.2 * GIB)
"""Of any start: contexts, libraries and fragments differ from one machine to the next."""
FEW = {1: 0.5, 2: 0.25}
"""Share of a cost that one source or two show."""
MANY = 0.1
"""Share of a cost that more sources show, and of what is counted."""
LEAST = {1: 0.005, 2: 0.0025}
"""Share of the GPU's memory that a rate or a class of GPU from so few sources is unsure by at least."""
UNSEEN = 0.03
"""Share of the GPU's memory, once, where something was never seen: a rate, a class of GPU, a version that wasn't read."""

CLASSES: Mapping[str, int] = {
    "nvidia 7": 1, "nvidia 8": 16, "nvidia 9": 6, "nvidia 10": 2, "nvidia 11": 1, "nvidia 12": 6, "amd": 2,
}  # fmt: skip
"""Sources that show a class of GPU."""


def gpu_class(gpu: Gpu) -> str:
    """Vendor and generation, by the first number of its compute capability where it has one."""
    return f"{gpu.vendor} {gpu.compute_capability[0]}" if gpu.compute_capability else gpu.vendor


def of_cost(cost: float, sources: int, gpu: Gpu) -> float:
    """Bytes that a cost in bytes, shown by so many sources, is unsure by; nothing where none does: `unseen` allows for it."""
    return max(cost * FEW.get(sources, MANY), gpu.memory.value * LEAST.get(sources, 0.0)) if sources else 0.0


def of_spread(cost: float, most: float) -> float:
    """Bytes that a cost is unsure by where logs show as much as `most`: that is what its high end has then."""
    return max(0.0, most - cost) / WIDTH


def of_counted(counted: float, few: float = 0.0) -> float:
    """Bytes that tensors counted from a config are unsure by. few: of these, what one source shows, and shows to be more."""
    return MANY * (counted - few) + FEW[1] * few


def of_machine(gpu: Gpu, sources: int) -> float:
    """Bytes that any start is unsure by, and one on a GPU whose class so few sources show."""
    return ALWAYS + gpu.memory.value * LEAST.get(sources, 0.0)


def unseen(gpu: Gpu) -> float:
    """Bytes that a plan is unsure by where something of it was never seen."""
    return UNSEEN * gpu.memory.value
