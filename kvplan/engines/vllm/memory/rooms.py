"""Rooms that a mixture's layer gathers a step's tokens in, once for each expert that a token picks, by the kernels that run experts.

    most kernels            max(width, inputs) + max(2 x width, inputs), in a room that stays and that sparse attention shares
    others                  the same without the outputs, while they run
    FlashInfer's, NVFP4     inputs or outputs once more, while they run; scales of what goes in, a sixteenth of it
    vLLM's own, NVFP4       copies of inputs and outputs beside that

Data-parallel ranks gather each other's tokens first, so that each has all of them, unless a backend of vLLM's gives each only those
that pick its experts. Where experts exchange tokens in batches instead, each
expert has room for every token of every rank.

Source: vLLM 0.12 to 0.33 fused_moe/modular_kernel.py, experts/*: workspace_shapes, oracle/*; prepare_finalize/naive_dp_ep.py;
all2all_utils.py; v1/worker/workspace.py. FlashInfer 0.6.6 to
0.6.16 csrc/fused_moe/cutlass_backend/cutlass_fused_moe_kernels.cuh getWorkspaceDeviceBufferSizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from kvplan.arch.model import Model
from kvplan.arch.traits import OTHER_ACTIVATION
from kvplan.engines.vllm.layout.experts import BLACKWELL, HOPPER, TRITON_ACTIVATION, UNROUNDED
from kvplan.engines.vllm.memory.dimensions import Dimensions, Experts
from kvplan.engines.vllm.settings import Settings
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.engines.vllm.tables.versions import Version
from kvplan.hardware.gpu import Gpu

HALF = 2
"""Bytes of an activation."""
NVFP4, MXFP4 = "nvfp4", "mxfp4"
PACKED, BYTE = 4, 8
"""Bits of such an element, and of one in 8 bits."""
SCALED = 16
"""Inputs that share a scale of a byte in NVFP4."""

Runs = Literal["never", "possibly", "likely"]
"""Whether a kernel does."""
FP4_KERNELS = (10, 11, 12)
"""GPUs that vLLM's own kernel for NVFP4 experts runs on, by compute capability. Source: CutlassExpertsFp4._supports_current_device."""
CONSUMER = 12
"""The GPUs among them that FlashInfer's kernel for tokens in order is the first on; data centers' have TensorRT-LLM's."""
COPIES, STATES = 3, 5
"""What vLLM's own has beside its rooms, for each expert that a token picks: inputs in the experts' order, outputs in the tokens', and
those weighted. And hidden states: the residual, the layer's input and output, the shared experts' and the sum. Its rooms are twice
what its first half puts out, or its inputs, and once that again.
Source: vLLM 0.20 and 0.33 fused_moe/experts/cutlass_moe.py run_cutlass_moe_fp4 and CutlassExpertsFp4.workspace_shapes; logs of
Gemma-4-26B (8,192 and 16,384 tokens on an RTX 5090), which leave 1.9 and 3.9 GiB for what is counted as 1.97 and 3.94."""

FORCED: Version = (0, 12, 0)
"""Release since which the profile makes room for a whole chunk. Source: fused_moe/modular_kernel.py _allocate_buffers."""

FLOATS: Mapping[str, Version] = {NVFP4: (0, 14, 0), MXFP4: (0, 17, 0)}
INTEGERS: Mapping[str, Version] = {"gptq": (0, 20, 0), "awq": (0, 22, 0)}
OTHER_INTEGERS: Version = (0, 23, 0)
"""Releases since which Marlin's kernels have rooms that stay, by the format of 4 bits; for integers by the method.

Source: fused_moe/oracle: nvfp4.py of 0.14, int_wna16.py of 0.20 to 0.23; quantization/mxfp4.py of 0.16 and 0.17.
"""


class Rooms(NamedTuple):
    """Bytes. running: what a layer has while it runs. staying: what stays afterwards, instead.

    copied: of running, what a kernel copies that may or may not be the one that runs.
    """

    running: int
    staying: int
    copied: int


def rooms(model: Model, sizes: Dimensions, gpu: Gpu, settings: Settings, rules: Rules, *, most: bool) -> Rooms:
    """Of the fullest rank. most: whether a kernel that possibly runs does."""
    experts = sizes.experts
    if settings.exchanged and experts.count:
        return _of_batches(experts, settings, stay=experts.bits in rules.rooms)
    tokens = _met(gpu, settings, most=most)
    hidden, joined = HALF * tokens * sizes.hidden, HALF * tokens * sizes.hidden * (settings.parallel.dp > 1)
    gathered = HALF * _at_once(tokens, experts, settings, rules) * experts.picked
    widest = max(2 * experts.width, experts.inputs)
    if _stay(model, experts, gpu, rules):
        return Rooms(2 * joined, gathered * (max(experts.width, experts.inputs) + widest), 0)
    own = _own_kernel(model, experts, gpu, settings, rules)
    if own == "likely" or (most and own == "possibly"):
        copies = COPIES * gathered * experts.inputs
        halves = max(2 * experts.outputs, experts.inputs) + experts.outputs
        return Rooms(
            gathered * halves + STATES * hidden + copies + hidden + joined, 0, copies if own == "possibly" else 0
        )
    if own == "possibly" and _major(gpu) == CONSUMER:
        scales = gathered // HALF * max(experts.inputs, experts.width) // SCALED
        rows = experts.inputs + max(experts.outputs, experts.inputs)
        return Rooms(gathered * rows + scales + hidden + joined, 0, 0)
    return Rooms(gathered * (widest + experts.width) + hidden + joined, 0, 0)


def _met(gpu: Gpu, settings: Settings, *, most: bool) -> int:
    """Tokens that a rank's experts meet; not sure where TensorRT-LLM's kernels make their own rooms."""
    return settings.tokens * (settings.met if most or _major(gpu) != BLACKWELL else 1)


def _at_once(tokens: int, experts: Experts, settings: Settings, rules: Rules) -> int:
    """Of these, what is run at once: since 0.12 a whole chunk in the profile, with expert and data parallelism."""
    if rules.chunk is None or experts.bits == PACKED:
        return tokens
    whole = rules.version >= FORCED and settings.parallel.dp > 1 and settings.parallel.ep > 1
    return rules.chunk if whole else min(tokens, rules.chunk)


def _of_batches(experts: Experts, settings: Settings, *, stay: bool) -> Rooms:
    """Where experts exchange tokens in batches: tokens as they come, in 8 bits if experts have those, and rooms of two matrices."""
    ranks = settings.parallel.ep
    rows = settings.exchanged * ranks * -(-experts.count // ranks)
    came = rows * experts.inputs * (1 if experts.bits == BYTE else HALF)
    room = HALF * rows * (max(experts.outputs, experts.inputs) + experts.width)
    return Rooms(came, room, 0) if stay else Rooms(came + room, 0, 0)


def _stay(model: Model, experts: Experts, gpu: Gpu, rules: Rules) -> bool:
    """Whether they stay: of 8 and 16 bits by the release, but for AMD's own kernels for 8 bits; of 4 where Marlin's kernels run."""
    if experts.bits != PACKED or model.weights is None:
        native = gpu.vendor == "amd" and experts.bits == min(rules.rooms, default=0)
        return experts.bits in rules.rooms and not native
    if gpu.vendor != "nvidia" or not _of_marlin(model, experts, gpu):
        return False
    return rules.version >= FLOATS.get(experts.format, INTEGERS.get(model.weights.method, OTHER_INTEGERS))


def _of_marlin(model: Model, experts: Experts, gpu: Gpu) -> bool:
    """Whether Marlin's kernels run experts of 4 bits, and neither Blackwell's own nor Triton's for gpt-oss on Hopper."""
    major = _major(gpu)
    if experts.format == NVFP4:
        return major not in FP4_KERNELS
    if experts.format == MXFP4:
        method = "" if model.weights is None else model.weights.method
        triton = major == HOPPER and model.family == TRITON_ACTIVATION and method != UNROUNDED
        return major != BLACKWELL and not triton
    return True


def _own_kernel(model: Model, experts: Experts, gpu: Gpu, settings: Settings, rules: Rules) -> Runs:
    """Whether vLLM's own kernel for NVFP4 experts runs them, which copies what they read and put out.

    --moe-backend cutlass asks for it, and where FlashInfer's don't run, as for GELU before 0.24, it is the next; it has no
    expert parallelism. Source: fused_moe/oracle/nvfp4.py select_nvfp4_moe_backend.
    """
    runs = gpu.vendor == "nvidia" and _major(gpu) in FP4_KERNELS and settings.parallel.ep == 1
    if experts.format != NVFP4 or not runs:
        return "never"
    return "likely" if OTHER_ACTIVATION in model.traits and not rules.gelu_rooms else "possibly"


def _major(gpu: Gpu) -> int:
    return (gpu.compute_capability or (0, 0))[0]
