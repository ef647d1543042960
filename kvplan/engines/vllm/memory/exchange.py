"""Buffers of DeepEP and NIXL, through which experts of several ranks exchange tokens.

    in batches       two of what is sent and two of what comes, each with a message of every expert for every token, of hidden states in
                     16 bits and a scale of 4 B for each 128 of them
    DeepEP's rooms   1 GiB that a node's ranks share, and where nodes exchange many tokens as much again

Source: vLLM 0.15 to 0.33 distributed/device_communicators/all2all.py; DeepEP csrc/config.hpp LowLatencyLayout.
vllm-project/vllm#57894 states 35.55, 31.94 and 26.66 GiB for 2,048, 1,840 and 1,536 tokens of 5,120 and 448 experts.
"""

from __future__ import annotations

from kvplan.engines.base import Range
from kvplan.engines.vllm.memory.dimensions import Dimensions
from kvplan.engines.vllm.settings import Settings
from kvplan.units import MIB

BUFFERS, HALF = 4, 2
"""Of each message, and bytes of a hidden state in it."""
SCALE, SCALED = 4, 128
"""Bytes of a scale, and hidden states that share it."""
ROOM = 1024 * MIB
"""Source: envs.py VLLM_DEEPEP_BUFFER_SIZE_MB."""
NODE = 8
"""Ranks that may share a node; more are on several."""


def exchanged(sizes: Dimensions, settings: Settings) -> Range:
    """Bytes on each rank."""
    ranks, count = settings.parallel.ep, sizes.experts.count
    if not count:
        return Range.exactly(0)
    if settings.all2all_backend == "deepep_high_throughput":
        return Range(ROOM, ROOM if ranks <= NODE else 2 * ROOM, 2 * ROOM)
    message = sizes.experts.inputs * HALF + sizes.experts.inputs // SCALED * SCALE
    sent = BUFFERS * ranks * -(-count // ranks) * settings.exchanged * message
    return Range.exactly(sent + (ROOM if settings.all2all_backend == "deepep_low_latency" else 0))
