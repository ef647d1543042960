"""Which accelerator a pod's node has, by the labels that select the node.

Source: https://github.com/NVIDIA/gpu-feature-discovery, and each cloud's own lists, named at their tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from kvplan.errors import KvplanError
from kvplan.manifests.devices.accelerators import Device
from kvplan.manifests.devices.vague_names import SIZES, candidates, of_size
from kvplan.manifests.places import Given, Place, Placed
from kvplan.text import any_of

NAMING = frozenset({
    "nvidia.com/gpu.product", "cloud.google.com/gke-accelerator", "eks.amazonaws.com/instance-gpu-name",
    "karpenter.k8s.aws/instance-gpu-name", "karpenter.azure.com/sku-gpu-name", "amd.com/gpu.product-name",
    "beta.amd.com/gpu.product-name", "gpu.nvidia.com/model", "gpu.nvidia.com/class",
})  # fmt: skip
"""Labels whose value names the accelerator."""

_SLURMS = frozenset({"--gres", "--gpus", "--gpus-per-node", "--gpus-per-task", "--gpus-per-socket"})
"""What stands for a label where Slurm chooses the node."""

MAY_NAME = _SLURMS | frozenset({
    "accelerator", "k8s.amazonaws.com/accelerator", "gpu", "gpu-type", "gpu_type", "gputype", "gpu-model", "gpu-name", "gpu-product",
})  # fmt: skip
"""Labels that people give nodes themselves, by an accelerator's name or by whatever else."""

_ANY = frozenset(
    {"", "true", "false", "yes", "no", "on", "enabled", "1", "nvidia", "amd", "gpu", "nvidia-gpu", "present"}
)
"""Values of these that name no kind."""

_KINDS = SIZES | {"nvidia.com/gpu.family"}
"""Labels that several kinds may have."""

_INSTANCES = frozenset({
    "node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type", "karpenter.k8s.aws/instance-family",
    "eks.amazonaws.com/instance-family", "karpenter.azure.com/sku-name", "cloud.google.com/machine-type",
})  # fmt: skip

_AWS: Mapping[str, str] = {
    "p3": "v100-sxm-16", "p3dn": "v100-sxm-32", "p4d": "a100-sxm-40", "p4de": "a100-sxm-80", "p5": "h100-sxm", "p5e": "h200-sxm",
    "p5en": "h200-sxm", "p6-b200": "b200-sxm", "p6-b300": "b300-sxm", "p6e-gb200": "gb200", "g4dn": "t4", "g5": "a10g", "g6": "l4",
    "gr6": "l4", "g6e": "l40s", "g7e": "rtx-pro-6000-server",
}  # fmt: skip
"""EC2's families; not those that give parts of a GPU (g6f). Source: https://docs.aws.amazon.com/ec2/latest/instancetypes/ac.html"""

_GOOGLE: Mapping[str, str] = {
    "a2-highgpu": "a100-sxm-40", "a2-megagpu": "a100-sxm-40", "a2-ultragpu": "a100-sxm-80", "a3-highgpu": "h100-sxm",
    "a3-megagpu": "h100-sxm", "a3-edgegpu": "h100-sxm", "a3-ultragpu": "h200-sxm", "a4-highgpu": "b200-sxm", "a4x-highgpu": "gb200",
    "g2-standard": "l4",
}  # fmt: skip
"""Machine types of Google Cloud. Source: https://cloud.google.com/compute/docs/gpus"""

_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE | re.ASCII), gpu)
    for pattern, gpu in (
        # https://learn.microsoft.com/azure/virtual-machines/sizes/overview; the A10s of smaller sizes are parts of one
        (r"standard_nc\d+ads_a100_v4", "a100-pcie-80"),
        (r"standard_nd\d+asr_v4", "a100-sxm-40"),
        (r"standard_nd\d+amsr_a100_v4", "a100-sxm-80"),
        (r"standard_ncc?\d+ads_h100_v5", "h100-nvl"),
        (r"standard_nd\d+isr_h100_v5", "h100-sxm"),
        (r"standard_nd\d+isr_h200_v5", "h200-sxm"),
        (r"standard_nd\d+isr_mi300x_v5", "mi300x"),
        (r"standard_nv(?:36|72)ad(?:m)?s_a10_v5", "a10"),
        (r"standard_nc\d+as_t4_v3", "t4"),
        (r"standard_nd40rs_v2", "v100-sxm-32"),
        # https://cloud.google.com/compute/docs/accelerator-optimized-machines; smaller ones have parts of a GPU
        (r"g4-standard-(?:48|96|192|384)", "rtx-pro-6000-server"),
        # https://docs.oracle.com/en-us/iaas/Content/Compute/References/computeshapes.htm
        (r"bm\.gpu4\.8", "a100-sxm-40"),
        (r"bm\.gpu\.a100-v2\.8", "a100-sxm-80"),
        (r"bm\.gpu\.h100\.8", "h100-sxm"),
        (r"bm\.gpu\.h200\.8", "h200-sxm"),
        (r"bm\.gpu\.l40s\.4", "l40s"),
        (r"bm\.gpu\.mi300x\.8", "mi300x"),
        (r"(?:bm|vm)\.gpu\.a10\.\d", "a10"),
    )
)
"""Azure's sizes, Oracle's shapes, and machine types of Google Cloud that have whole GPUs only in some sizes."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """What labels say of the node's accelerator.

    gpu: its name. unclear: sentences about what else they say of it. devices: names that several answer to.
    """

    gpu: Placed | None = None
    unclear: tuple[Placed, ...] = ()
    devices: tuple[Device, ...] = ()


def chosen(labels: Iterable[tuple[str, str, Place]]) -> Chosen:
    """The accelerator of a node with these labels; the type of its machine tells sizes of one name apart."""
    labels = tuple(labels)
    sizes = [(key, value) for key, value, _ in labels if key in SIZES]
    machines = {gpu for key, value, _ in labels if key in _INSTANCES and (gpu := instance_gpu(value)) is not None}
    said = [_said(key, value, place, sizes, machines) for key, value, place in labels]
    unclear = tuple(one for each in said for one in each.unclear)
    devices = tuple(one for each in said for one in each.devices)
    named: dict[str, Placed] = {}
    for given in (each.gpu for each in said if each.gpu is not None):
        named.setdefault(_id(given.value) or given.value, given)
    if len(named) == 1:
        return Chosen(next(iter(named.values())), devices=devices)
    if named:
        several = sorted(named.values(), key=lambda each: each.place)
        may = f"its node may have {any_of([str(each.value) for each in several])}"
        return Chosen(unclear=(Given(may, several[0].place),))
    return Chosen(unclear=() if devices else unclear, devices=devices)


def _said(key: str, value: str, place: Place, sizes: Sequence[tuple[str, str]], machines: AbstractSet[str]) -> Chosen:
    """What one label says. sizes: labels about the memory of the same node's GPUs. machines: what its machine has."""
    may = candidates(key, value, own=key in MAY_NAME)
    if machines & set(may):
        return Chosen()
    name = _name(key, value) if not may else None
    of_these = of_size(may or ((name,) if name is not None else ()), (size for _, size in sizes))
    if len(of_these) == 1:
        return Chosen(Given(of_these[0], place))
    if may:
        return Chosen(devices=(Device(f"{key}: {value}", among=of_these or may),))
    if name is not None:
        why = f"its node is chosen by {key}: {value} and {': '.join(sizes[0])}, and kvplan knows no such GPU"
        return Chosen(unclear=(Given(why, place),))
    if _says_something(key, value):
        return Chosen(unclear=(Given(f"its node is chosen by {key}: {value}, which kvplan knows no GPU by", place),))
    return Chosen()


def _name(key: str, value: str) -> str | None:
    """The accelerator that a label names; None for none, or for none that is known."""
    if key in NAMING:
        return value.removesuffix("_OAM")  # the shape of AMD's modules
    if key in _INSTANCES:
        return instance_gpu(value)
    return value if key in MAY_NAME and _id(value) is not None else None


def _says_something(key: str, value: str) -> bool:
    return key in _INSTANCES or key in _KINDS or (key in MAY_NAME and value.lower() not in _ANY)


def instance_gpu(value: str) -> str | None:
    """The accelerator of a cloud's machines; None for those without, with a part of one, and others."""
    family = value.partition(".")[0]
    google = "-".join(value.split("-")[:2])
    pattern = next((gpu for pattern, gpu in _PATTERNS if pattern.fullmatch(value)), None)
    return _AWS.get(family) or _GOOGLE.get(google) or pattern


def _id(name: str) -> str | None:
    """What kvplan calls an accelerator; None for one that it doesn't know, or not for one."""
    from kvplan.sources.gpus import load_gpu

    if name.endswith((".yaml", ".yml")) or name == "auto":
        return None
    try:
        return load_gpu(name).id
    except KvplanError:
        return None
