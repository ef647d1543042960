"""Buffers through which experts of several ranks exchange tokens in batches: DeepEP's for low latency.

    two of what is sent and two of what comes, each with a message of every expert for every token, of hidden states in 16 bits
    and a scale of 4 B for each 128 of them; and a room that nodes share

Source: vLLM 0.15 to 0.33 distributed/device_communicators/all2all.py DeepEPLLAll2AllManager; DeepEP csrc/config.hpp LowLatencyLayout.
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
SHARED = 1024 * MIB
"""What ranks of a node share beside it, which NIXL has none of. Source: envs.py VLLM_DEEPEP_BUFFER_SIZE_MB."""


def exchanged(sizes: Dimensions, settings: Settings) -> Range:
    """Bytes on each rank."""
    ranks = settings.parallel.ep
    experts = ranks * -(-sizes.experts.count // ranks)
    message = sizes.experts.inputs * HALF + sizes.experts.inputs // SCALED * SCALE
    sent = BUFFERS * experts * settings.exchanged * message
    room = SHARED if sent else 0
    return Range(sent, sent + room, sent + room)
