"""How many CUDA graphs vLLM captures, and what they have been seen to take.

    estimate = the first graph of a mode + the second x (the mode's graphs - 1)

How large one is follows from driver and GPU more than from the model: where the first model runner estimates all of them so, logs
of 0.18 to 0.26 print 2 to 67 MiB a layer, those of up to 20 graphs at most 11 and those of 86 and more from 5. The second runner
captures most of them to estimate, and its logs leave 12 to 22.

Source: vLLM 0.20 v1/worker/gpu_model_runner.py and 0.33 gpu/cudagraph_utils.py: profile_cudagraph_memory; config/vllm.py
_set_cudagraph_sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kvplan.engines.vllm.settings import Settings
from kvplan.units import MIB

LARGEST = 512
"""Tokens of the largest graph, where max_num_seqs allows for it: twice that number."""
SIZES: tuple[int, ...] = (1, 2, 4, *range(8, 256, 8), *range(256, LARGEST + 1, 16))
"""Tokens that graphs are captured for."""


class Seen(NamedTuple):
    """The most that a layer's graphs were seen to take, in bytes, and of how many graphs."""

    layer: float
    graphs: int


MOST: Mapping[str, Seen] = {
    "graphs": Seen(67 * MIB, 86),  # Qwen3-8B on an A100 with 256 sequences: 2.35 GiB; GLM-5.2 on GB200 has 64 MiB
    "graphs, second runner": Seen(22.3 * MIB, 102),  # Qwen3-14B-AWQ on an L40S with 512 sequences, by what is left
}
"""By the cost that they are fitted as."""


def captured(sequences: int) -> int:
    """Graphs of both modes: of mixed steps up to twice so many tokens, and of steps that only decode."""
    return sum(size <= 2 * sequences for size in SIZES) + sum(size <= sequences for size in SIZES)


def most(name: str, layers: int, settings: Settings) -> float:
    """Bytes that so many layers' graphs may take: as many as were seen, fewer where fewer are captured; none of other costs."""
    seen = MOST.get(name)
    if seen is None:
        return 0.0
    return layers * seen.layer * min(1.0, captured(settings.sequences * (1 + settings.drafted)) / seen.graphs)
