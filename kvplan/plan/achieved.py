"""Fractions of the datasheet that decoding really reaches, by class of GPU. Every row has a source.

    step = weights / (f_weights x bandwidth) + cache / (f_cache x bandwidth) + compute / f_compute
           + collectives + per step + per layer

They make `step_s_likely`, an estimate. `step_s_low` uses only the datasheet.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.hardware.gpu import Gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Achieved:
    """Fractions of the datasheet's peak, and fixed times.

    weights16, weights8, weights4: bandwidth when reading weights of that many bits. cache: bandwidth when reading the
    KV cache. compute: of the dense FLOP/s. step_us: per step. layer_us: per layer (launches, norms, small kernels).
    slot_us: added to each all-reduce when tensors are split. expert_us: added per layer that routes tokens to experts.
    """

    weights16: float
    weights8: float
    weights4: float
    cache: float
    compute: float
    step_us: float
    layer_us: float
    slot_us: float
    expert_us: float
    source: str

    def weights(self, bits: int) -> float:
        """Fraction of the bandwidth for weights of `bits` bits per element."""
        return next(
            fraction
            for most, fraction in ((4, self.weights4), (8, self.weights8), (bits, self.weights16))
            if bits <= most
        )


_KERNELS = "kernel tables of NVIDIA aiconfigurator 0.12 (working sets above 300 MB)"
_LLAMA_CPP = "llama.cpp tables by XiongjieDai and ggml-org"
_MOE = "InferenceMAX and SGLang cookbook results"

CLASSES: dict[str, Achieved] = {
    "a100": Achieved(
        weights16=0.77, weights8=0.65, weights4=0.55, cache=0.6, compute=0.5,
        step_us=500, layer_us=90, slot_us=20, expert_us=40,
        source=f"{_KERNELS}; vLLM 0.6.3 and Qwen2.5 speed tables; gpt-fast README",
    ),
    "hopper": Achieved(
        weights16=0.72, weights8=0.55, weights4=0.5, cache=0.87, compute=0.5,
        step_us=300, layer_us=55, slot_us=18, expert_us=50,
        source=f"{_KERNELS}; vLLM 0.19.1 on H100; {_MOE}",
    ),
    "blackwell": Achieved(
        weights16=0.62, weights8=0.62, weights4=0.5, cache=0.87, compute=0.5,
        step_us=300, layer_us=45, slot_us=18, expert_us=50,
        source=f"{_KERNELS}; vLLM 0.19.1 on B200; {_MOE}",
    ),
    "gddr": Achieved(
        weights16=0.84, weights8=0.82, weights4=0.8, cache=0.85, compute=0.5,
        step_us=300, layer_us=50, slot_us=45, expert_us=50,
        source=f"{_KERNELS}; {_LLAMA_CPP}; ExLlamaV2, MLC-LLM",
    ),
    "instinct": Achieved(
        weights16=0.6, weights8=0.65, weights4=0.4, cache=0.6, compute=0.4,
        step_us=500, layer_us=50, slot_us=25, expert_us=60,
        source=f"ROCm vLLM tables; {_MOE}",
    ),
    "unified": Achieved(
        weights16=0.78, weights8=0.82, weights4=0.7, cache=0.72, compute=0.5,
        step_us=500, layer_us=60, slot_us=60, expert_us=40,
        source=f"{_LLAMA_CPP} on GB10, Strix Halo and Macs; kubis.ai",
    ),
    "other": Achieved(
        weights16=0.6, weights8=0.55, weights4=0.45, cache=0.6, compute=0.4,
        step_us=500, layer_us=90, slot_us=50, expert_us=80,
        source="no public measurement: the low side of the others",
    ),
}  # fmt: skip
"""Measured on kernels first, then adjusted as little as possible to fit public runs of engines
(tests/plan/test_decode_points.py: three in four lie within a factor of 1.5 of the estimate, and no whole engine beats
the lower bound).
"""

COLLECTIVE_US: dict[str, dict[int, float]] = {
    "a100": {2: 5.3, 4: 6.0, 8: 6.5},
    "hopper": {2: 4.5, 4: 4.8, 8: 5.3},
    "blackwell": {2: 7.1, 4: 7.4, 8: 8.1},
    "gddr": {2: 6.2, 4: 17.5, 8: 27.4},
    "other": {2: 12.8, 4: 16.3, 8: 22.6},
}
"""Microseconds of one all-reduce of 16 KB, by class of GPU and number of ranks."""

COLLECTIVE_SOURCE = (
    "vLLM's own all-reduce of 16 KB under CUDA graphs, by aiconfigurator 0.12's collector (A100, H100, B200, and L40S "
    "over PCIe); NCCL on A100 for other GPUs"
)


def class_of(gpu: Gpu) -> str:
    """The class of a GPU in the tables above."""
    architecture, memory = gpu.architecture.lower(), (gpu.memory_type or "").lower()
    if gpu.unified:
        return "unified"
    if gpu.vendor == "amd":
        return "instinct" if "hbm" in memory else "other"
    if gpu.vendor != "nvidia":
        return "other"
    if "gddr" in memory:
        return "gddr"
    for name in ("hopper", "blackwell"):
        if name in architecture:
            return name
    return "a100"


def achieved(gpu: Gpu) -> Achieved:
    """The fractions for the class of a GPU."""
    return CLASSES[class_of(gpu)]


def collective_s(gpu: Gpu, ranks: int) -> float:
    """Latency of one small all-reduce, in seconds. Beyond eight ranks, that of eight for each doubling more."""
    if ranks == 1:
        return 0.0
    table = COLLECTIVE_US.get(class_of(gpu), COLLECTIVE_US["other"])
    known = next((size for size in sorted(table) if size >= ranks), None)
    if known is not None:
        return table[known] * 1e-6
    doublings = (ranks - 1).bit_length() - 3
    return table[8] * 1e-6 * (1 + doublings)
