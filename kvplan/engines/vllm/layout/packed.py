"""What vLLM makes of quantized matrices that isn't what the checkpoint has: groups, zero points, scales, biases.

Source: vLLM 0.33 quantization/{auto_gptq,auto_awq,moe_wna16,quark/quark_moe}.py create_weights, compressed_tensors/schemes.
"""

from __future__ import annotations

from dataclasses import replace

from kvplan.arch.storage import AWQ_SOURCE, CHANNEL_SOURCE, GPTQ_SOURCE, QUARK_SOURCE, Storage
from kvplan.arch.weights import Weight

HALVED = (AWQ_SOURCE, GPTQ_SOURCE, QUARK_SOURCE)
SMALLEST_GROUP = 32
"""Inputs of the smallest group that vLLM makes; a share that needs a smaller one is refused."""
SCALE_BITS, BIAS_BITS, CHANNEL_SCALE_BITS = 16, 16, 32
MARLIN_GROUPS = (32, 64, 128)
"""Inputs of the groups that Marlin has, beside whole rows."""
MARLIN_OUTPUTS = 128


def kept(weight: Weight, shard: tuple[int, ...], *, ordered: bool, marlin: bool) -> Storage:
    """The format of one rank's share of a weight.

    ordered: whether GPTQ's inputs were reordered; the index of their groups is kept only then. marlin: whether the GPU
    has Marlin's kernels.
    """
    stored = weight.stored
    if stored.source == CHANNEL_SOURCE and stored.row_bits:  # files may have scales in 16 bit
        return replace(stored, row_bits=max(stored.row_bits, CHANNEL_SCALE_BITS))
    if stored.source not in HALVED:
        return stored
    if weight.routed and weight.split is not None:
        stored = _expert(stored, shard, weight.split, marlin=marlin)
    return stored if ordered or stored.source != GPTQ_SOURCE else replace(stored, column_bits=0)


def _expert(stored: Storage, shard: tuple[int, ...], split: int, *, marlin: bool) -> Storage:
    """Groups are halved until they divide a share. GPTQ's have room for biases under Marlin, and no zero points elsewhere."""
    width, hidden = shard[split], shard[1 - split]
    if stored.source == GPTQ_SOURCE and marlin and stored.group in (0, *MARLIN_GROUPS):
        whole = not stored.group or not width % stored.group
        if whole and not hidden % MARLIN_OUTPUTS:
            return replace(stored, row_bits=stored.row_bits + BIAS_BITS)
    if not stored.group_bits:
        return stored
    group = stored.group
    while group > SMALLEST_GROUP and width % group:
        group //= 2
    return replace(stored, group=group, group_bits=SCALE_BITS if stored.source == GPTQ_SOURCE else stored.group_bits)
