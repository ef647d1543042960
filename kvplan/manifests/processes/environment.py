"""The environment variables of a process that decide memory, or the GPUs that it sees.

Source: vLLM 0.8.5, 0.10.2 and 0.33 envs.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import takewhile

from kvplan.engines.vllm.tables.variables import AITER, CHOSEN, LONGER, RUNNER
from kvplan.manifests import keys
from kvplan.manifests.flags.values import special_kernels
from kvplan.manifests.installed.images import DEVICES

_AITERS_BLOCKS = "blocks are counted in the size that the kernels want which run without this"

UNCOUNTED: Mapping[str, str] = {
    "VLLM_PP_LAYER_PARTITION": "layers are planned in vLLM's own parts for each stage",
    "VLLM_USE_V1": "it is planned by the rules of the engine V1",
    "VLLM_MLA_DISABLE": "latents are counted as latents",
    "VLLM_ATTENTION_BACKEND": "blocks are counted in the size that the default kernels want",
    "VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE": "chunked attention is planned as the release has it by default",
    "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": "CUDA graphs are counted as the release does by default",
    "VLLM_MXFP4_USE_MARLIN": "experts are counted as the default kernels keep them",
    "VLLM_MXFP4_EMULATION_DEQUANT_AT_LOAD": "weights are counted as the checkpoint stores them",
    "VLLM_MXFP8_EMULATION_DEQUANT_AT_LOAD": "weights are counted as the checkpoint stores them",
    "VLLM_FUSED_MOE_CHUNK_SIZE": "experts' activations are counted in the default chunks",
    "VLLM_MOE_DP_CHUNK_SIZE": "experts' activations are counted in the default chunks",
    "VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE": "its default is counted",
    "VLLM_DEEPEP_BUFFER_SIZE_MB": "its default is counted",
    RUNNER: "the release's own model runner is counted",
    AITER: "the room that AITER's kernels take is counted like that of the default ones",
    "VLLM_ROCM_USE_AITER_MLA": _AITERS_BLOCKS,
    "VLLM_ROCM_USE_AITER_MHA": _AITERS_BLOCKS,
    "VLLM_ROCM_USE_AITER_UNIFIED_ATTENTION": _AITERS_BLOCKS,
    "VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT": _AITERS_BLOCKS,
    "VLLM_ROCM_MOE_PADDING": "weights are counted with the rows that the release moves apart by default",
    "VLLM_ROCM_FP8_PADDING": "weights are counted with the rows that the release moves apart by default",
}
"""Variables that move memory, and what a plan does instead."""

_OFF, _ON = frozenset({"", "0", "false"}), frozenset({"", "1", "true"})
_HARMLESS: Mapping[str, frozenset[str]] = {
    "VLLM_USE_V1": _ON,
    RUNNER: _OFF,
    AITER: _OFF,
    "VLLM_ROCM_USE_AITER_MLA": _ON,
    "VLLM_ROCM_USE_AITER_MHA": _ON,
    "VLLM_ROCM_USE_AITER_UNIFIED_ATTENTION": _OFF,
    "VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT": _OFF,
    "VLLM_ROCM_MOE_PADDING": _ON,
    "VLLM_ROCM_FP8_PADDING": _ON,
    "VLLM_MLA_DISABLE": _OFF,
    "VLLM_MXFP4_EMULATION_DEQUANT_AT_LOAD": _OFF,
    "VLLM_MXFP8_EMULATION_DEQUANT_AT_LOAD": _OFF,
}

CUDA, NVIDIAS, AMDS = "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
VISIBLE = (CUDA, *AMDS, NVIDIAS)
_ALL = frozenset({"", "all", "none", "void"})
_ENDING = re.compile(r"|-\d+|NoDevFiles", re.ASCII)
"""What ends CUDA's list of GPUs: nothing, a number that no GPU has, and a word that people write for none."""

TARGET = "VLLM_TARGET_DEVICE"
_OTHERS: Mapping[str, str] = {
    "VLLM_CPU_KVCACHE_SPACE": "cpu", "VLLM_CPU_OMP_THREADS_BIND": "cpu", "VLLM_CPU_NUM_OF_RESERVED_CPU": "cpu", "ZE_AFFINITY_MASK": "xpu",
    "ONEAPI_DEVICE_SELECTOR": "xpu", "ASCEND_RT_VISIBLE_DEVICES": "ascend", "ASCEND_VISIBLE_DEVICES": "ascend",
    "HABANA_VISIBLE_DEVICES": "hpu", "NEURON_RT_VISIBLE_CORES": "neuron", "NEURON_RT_NUM_CORES": "neuron", "TPU_VISIBLE_CHIPS": "tpu",
}  # fmt: skip
"""Variables that only servers on other devices look at, and which these are."""

DAEMONS = ("DOCKER_HOST", "DOCKER_CONTEXT", "CONTAINER_HOST", "CONTAINER_CONNECTION")
"""Variables that choose the machine whose daemon starts a container."""

WATCHED = frozenset({LONGER, TARGET, *UNCOUNTED, *VISIBLE, *_OTHERS, *DAEMONS})


def uncounted(variables: Mapping[str, str], version: str | None) -> Iterator[str]:
    """A sentence for each variable that a plan of a release, where that is known, doesn't count."""
    for name, instead in UNCOUNTED.items():
        if name == "VLLM_USE_V1" and version is not None and _only_v1(version):
            continue
        if name == RUNNER and _chooses(version):
            continue
        value = variables.get(name, "").strip()
        if value.lower() in _HARMLESS.get(name, frozenset({""})):
            continue
        if name == "VLLM_ATTENTION_BACKEND" and not special_kernels(value):
            continue
        yield f"{name}={value[:60]}: {instead}"


def _only_v1(version: str) -> bool:
    """Whether a release doesn't look at VLLM_USE_V1 any more, which 0.11.0 was the last to do."""
    from kvplan.engines.vllm.tables.versions import parse

    return parse(version) > (0, 11, 0)


def _chooses(version: str | None) -> bool:
    """Whether a release has two model runners that are counted; the newest is meant where none is known."""
    from kvplan.engines.vllm.tables.versions import parse

    return version is None or parse(version) >= CHOSEN


def flags(variables: Mapping[str, str], version: str | None) -> Iterator[tuple[str, str]]:
    """Variables that a plan of a release counts, as flags of a budget."""
    if variables.get(LONGER, "").strip().lower() in _TRUE:
        yield keys.STRETCHED, "true"
    if variables.get(AITER, "").strip().lower() in _TRUE:
        yield keys.AITER, "true"
    runner = variables.get(RUNNER, "").strip().lower()
    if runner in _SAID and _chooses(version):
        yield keys.RUNNER, _SAID[runner]


_TRUE = frozenset({"1", "true"})
_SAID = {"1": "true", "0": "false"}
"""Values of the variable that vLLM takes, which are numbers. Source: vLLM 0.22 and 0.33 envs.py maybe_convert_bool."""


def device(variables: Mapping[str, str]) -> str | None:
    """The kind of device that a server without a GPU of NVIDIA's or AMD's runs on, as its environment says; None where it doesn't."""
    set_ = (kind for name, kind in _OTHERS.items() if variables.get(name, "").strip())
    return DEVICES.get(variables.get(TARGET, "").strip().lower()) or DEVICES.get(next(set_, ""))


def forced(variables: Mapping[str, str], version: str | None) -> bool:
    """Whether a release puts its server on the CPU wherever there are GPUs, as every one does since 0.28.0.

    Source: vLLM 0.28.0 platforms/__init__.py resolve_current_platform_cls_qualname; earlier ones look at it while they are built.
    """
    from kvplan.engines.vllm.tables.versions import parse

    said = variables.get(TARGET, "").strip().lower() == "cpu"
    return said and (version is None or parse(version) >= (0, 28, 0))


def shows(variables: Mapping[str, str]) -> bool:
    """Whether GPUs are picked for a process, as nobody does for a server on another device."""
    found = visible(variables)
    return found is not None and found[1] > 0


def handed(variables: Mapping[str, str]) -> dict[str, str]:
    """The environment of a container that Docker itself hands GPUs to, which it names in place of whatever was set.

    Source: moby daemon/nvidia_linux.go setNvidiaGPUs, which puts its own NVIDIA_VISIBLE_DEVICES last.
    """
    return {name: value for name, value in variables.items() if name != NVIDIAS}


def rocm(variables: Mapping[str, str]) -> str | None:
    """The setting by which a process picks among AMD's GPUs alone; None for one that says nothing, or as much of NVIDIA's."""
    if CUDA in variables or NVIDIAS in variables:
        return None
    return next((f"{name}={value[:60]}" for name in AMDS if (value := variables.get(name, "").strip())), None)


def visible(variables: Mapping[str, str]) -> tuple[str, int] | None:
    """The variable that leaves a process the fewest GPUs, and how many; None where none says so."""
    found = []
    for name in VISIBLE:
        value = variables.get(name, "").strip()
        if name == CUDA and CUDA in variables and value.lower() != "all" and "$" not in value:
            found.append((name, _leading(value)))
        elif value.lower() not in _ALL and "$" not in value:
            found.append((name, len([each for each in value.split(",") if each.strip()])))
    return min(found, key=lambda entry: entry[1], default=None)


def _leading(value: str) -> int:
    """How many GPUs CUDA takes of a list: those before the first that there can't be.

    Source: CUDA C++ Programming Guide, CUDA environment variables.
    """
    return len(list(takewhile(lambda each: not _ENDING.fullmatch(each.strip()), value.split(","))))
