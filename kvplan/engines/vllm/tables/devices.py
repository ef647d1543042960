"""What vLLM runs on, as far as its rules were read: vendors, their images, and the least that is built for.

Source: vllm/platforms of 0.6.4 to 0.33; docs.vllm.ai, using Docker; of the least compute capability docker/Dockerfile's
torch_cuda_arch_list (vllm-project/vllm#39878), and the PyTorch that 0.20.0 asks for, 2.11, whose builds begin at 7.5.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.engines.vllm.tables.versions import OLDEST, Version
from kvplan.hardware.gpu import Capability


@dataclass(frozen=True, slots=True)
class Platform:
    """GPUs of a vendor that the rules are of. image: vLLM's own container, None without one. resource: what a pod asks for.

    least: the compute capability that published builds begin at, from each release on; none where they tell by name.
    architectures: how the names of those that it runs on begin; empty for all of the vendor's.
    """

    image: str | None
    resource: str
    least: tuple[tuple[Version, Capability], ...] = ()
    architectures: tuple[str, ...] = ()


PLATFORMS = {
    "nvidia": Platform("vllm/vllm-openai", "nvidia.com/gpu", ((OLDEST, (7, 0)), ((0, 20, 0), (7, 5)))),
    "amd": Platform("vllm/vllm-openai-rocm", "amd.com/gpu"),
    "intel": Platform(None, "gpu.intel.com/xe", architectures=("Battlemage", "Alchemist", "Ponte Vecchio")),
}
"""By vendor: those whose platform was read."""

ELSEWHERE = {
    "apple": "vLLM runs on Apple silicon by the plugin vllm-metal",
    "aws": "vLLM runs on Neuron devices by the plugin vllm-neuron",
    "google": "vLLM runs on TPUs by the plugin tpu-inference",
    "huawei": "vLLM runs on Ascend devices by the plugin vllm-ascend",
    "intel": "vLLM runs on Gaudi by the plugin vllm-gaudi",
}
"""By vendor: what serves its devices instead, which sizes caches by rules of its own that weren't read."""
