"""How many CUDA graphs vLLM captures, and what they have been seen to take.

    estimate = the larger mode's first graph + each mode's second x (its graphs - 1), the second at least 1 MiB

How large one is follows from driver and GPU more than from the model, or from max_num_seqs: where the first model runner estimates all
of them so, logs of 0.18 to 0.26 print 1 to 67 MiB a layer, of 2 to 102 graphs. Of DeepSeek-V4 the second graph isn't small: four
sources leave 1.0 to 1.6 MiB a layer for each of 8 to 102 graphs. The second runner captures most of them to estimate, and its logs
leave 8 to 14 MiB a layer, 30 of DeepSeek-V4.

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


PLAIN, COMPRESSED = "graphs", "graphs, compressed caches"
"""What the first runner's are called as a cost: of most models, and of those with compressed caches, where each counts."""
SECOND = ", second runner"
"""What is added to the names of its."""

LEAST = MIB
"""Of each graph in the first runner's estimate. Logs of Qwen3.6-35B and Nemotron-Cascade-2 (86 and 70 graphs) print no more than that."""

MOST: Mapping[str, Seen] = {
    PLAIN: Seen(67 * MIB, 86),  # Qwen3-8B on an A100 with 256 sequences: 2.35 GiB; GLM-5.2 on GB200 has 64 MiB
    PLAIN + SECOND: Seen(14.4 * MIB, 102),  # Qwen3-14B-AWQ on an L40S with 512 sequences, by what is left
}
"""By the cost that they are fitted as."""
MOST_COMPRESSED = 1.6 * MIB
"""The same for each graph and layer of compressed caches: DeepSeek-V4-Flash on GB10, 8 graphs in 0.55 GiB."""


def captured(sequences: int) -> int:
    """Graphs of both modes: of mixed steps up to twice so many tokens, and of steps that only decode."""
    return sum(size <= 2 * sequences for size in SIZES) + sum(size <= sequences for size in SIZES)


def of(settings: Settings) -> int:
    """Graphs that a start captures, with the tokens that it drafts."""
    return captured(settings.sequences * (1 + settings.drafted))


def most(name: str, layers: int, settings: Settings) -> float:
    """Bytes that so many layers' graphs may take: as many as were seen, fewer where fewer are captured; none of other costs."""
    if name == COMPRESSED:
        return layers * MOST_COMPRESSED
    seen = MOST.get(name)
    if seen is None:
        return 0.0
    return layers * seen.layer * min(1.0, of(settings) / seen.graphs)


def least(name: str, likely: float, settings: Settings) -> float:
    """Bytes that the same graphs may take if each takes as little as the estimate allows; the likely ones of other costs."""
    return min(likely, of(settings) * LEAST) if name == PLAIN else likely
