"""Accelerator names in labels that don't say which memory size is meant, and the labels that may state the size.

Source: https://karpenter.sh/docs/concepts/scheduling (instance-gpu-name, instance-gpu-memory in MiB),
https://github.com/Azure/karpenter-provider-azure (sku-gpu-name), https://github.com/NVIDIA/gpu-feature-discovery.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kvplan.errors import KvplanError

SIZES = frozenset({
    "nvidia.com/gpu.memory", "karpenter.k8s.aws/instance-gpu-memory", "eks.amazonaws.com/instance-gpu-memory",
})  # fmt: skip
"""Labels that say how much memory each GPU has, in MiB."""

_AWS: Mapping[str, tuple[str, ...]] = {
    "a100": ("a100-sxm-40", "a100-sxm-80"), "v100": ("v100-sxm-16", "v100-sxm-32"), "rtx-pro-server-6000": ("rtx-pro-6000-server",),
}  # fmt: skip
_AZURE: Mapping[str, tuple[str, ...]] = {
    "a100": ("a100-pcie-80", "a100-sxm-40", "a100-sxm-80"), "h100": ("h100-nvl", "h100-sxm"), "a10": ("a10", "a part of one"),
}  # fmt: skip
_EVERY_A100 = ("a100-pcie-40", "a100-pcie-80", "a100-sxm-40", "a100-sxm-80")
_ANYONES: Mapping[str, tuple[str, ...]] = dict.fromkeys(
    ("a100", "nvidia-a100", "nvidia-tesla-a100", "tesla-a100"), _EVERY_A100
)

_NAMES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "karpenter.k8s.aws/instance-gpu-name": _AWS, "eks.amazonaws.com/instance-gpu-name": _AWS,
    "karpenter.azure.com/sku-gpu-name": _AZURE,
    "cloud.google.com/gke-accelerator": {"nvidia-rtx-pro-6000": ("rtx-pro-6000-server", "a part of one")},
}  # fmt: skip


def candidates(key: str, value: str, *, own: bool) -> tuple[str, ...]:
    """What a label may name, where its value doesn't say which; none where it does. own: whether people give nodes that label."""
    return (_ANYONES if own else _NAMES.get(key, {})).get(value.lower(), ())


def of_size(names: Iterable[str], sizes: Iterable[str]) -> tuple[str, ...]:
    """Those with one of these sizes; all where no size is a number."""
    wanted = [int(size) << 20 for size in sizes if size.isascii() and size.isdigit()]
    return tuple(name for name in names if not wanted or any(_near(_memory(name), size) for size in wanted))


def _near(memory: int | None, said: int) -> bool:
    """Whether a memory is what is said, give or take what a driver keeps of it."""
    return memory is None or abs(memory - said) * 100 <= said * SLACK


SLACK = 12
"""Percent by which what a GPU shows may differ from its nominal memory: a T4's 16 GiB are 14.6."""


def _memory(name: str) -> int | None:
    """Bytes of an accelerator; None for one that isn't known."""
    from kvplan.sources.gpus import load_gpu

    try:
        return load_gpu(name).memory.value
    except KvplanError:
        return None
