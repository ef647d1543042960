"""What a process finds in its environment that decides memory, or the GPUs it sees.

Source: vLLM 0.8.5, 0.10.2 and 0.33 envs.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kvplan.engines.vllm.tables.variables import LONGER
from kvplan.manifests.values import special_kernels

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
}
"""Variables that move memory, and what a plan does instead."""

_OFF = frozenset({"", "0", "false"})
_HARMLESS: Mapping[str, frozenset[str]] = {
    "VLLM_USE_V1": frozenset({"", "1", "true"}),
    "VLLM_MLA_DISABLE": _OFF,
    "VLLM_MXFP4_EMULATION_DEQUANT_AT_LOAD": _OFF,
    "VLLM_MXFP8_EMULATION_DEQUANT_AT_LOAD": _OFF,
}

VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
_ALL = frozenset({"", "all", "none", "void"})

WATCHED = frozenset({LONGER, *UNCOUNTED, *VISIBLE})


def uncounted(variables: Mapping[str, str], version: str | None) -> Iterator[str]:
    """A sentence for each variable that a plan of a release, where that is known, doesn't count."""
    for name, instead in UNCOUNTED.items():
        if name == "VLLM_USE_V1" and version is not None and _only_v1(version):
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


def visible(variables: Mapping[str, str]) -> tuple[str, int] | None:
    """The variable that leaves a process the fewest GPUs, and how many; None where none says so."""
    found = []
    for name in VISIBLE:
        value = variables.get(name, "").strip()
        if value.lower() not in _ALL and "$" not in value:
            found.append((name, len([each for each in value.split(",") if each.strip()])))
    return min(found, key=lambda entry: entry[1], default=None)
