"""Reads a GPU's record (configs/gpus) into a Gpu. docs/adding-a-gpu.md defines the keys.

It is strict: an unknown key, a number without a source, or a unit that isn't in its key's name is an error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

from kvplan.errors import BadField, MissingField
from kvplan.hardware.gpu import Fact, Gpu, Kind
from kvplan.units import GB, GIB, MIB

Tree = Mapping[str, object]

_KINDS: Mapping[str, Kind] = {"vendor": "vendor", "measured": "measured", "derived": "derived"}
_TFLOPS = 10**12
_MIG_GUIDE = "https://docs.nvidia.com/datacenter/tesla/mig-user-guide/supported-mig-profiles.html"
_FACTS: Mapping[str, int] = {
    "memory_visible_mib": MIB,
    "memory_smi_mib": MIB,
    "memory_marketed_gb": GB,
    "host_share_mib": MIB,
    "bandwidth_gb_per_s": GB,
    "bandwidth_measured_gb_per_s": GB,
    "link_gb_per_s": GB,
    "bridge_gb_per_s": GB,
    "pcie_gb_per_s": GB,
    "link_gpus": 1,
    "devices_per_package": 1,
}
"""Keys that hold one number, with its unit in base units."""
_TEXTS = ("id", "name", "vendor", "segment", "architecture", "memory_type")
_LISTS = ("aliases", "driver_names", "notes")
_OTHERS = (
    "means", "shared_names", "unified_memory", "flops_tflops", "fp8_kv_native", "compute_capability", "mig_profiles",
    "visible_mib_by_ram_gib",
)  # fmt: skip
_FORMATS = ("bf16", "fp16", "fp8", "fp4", "int8")
_SLICE_KEYS = ("memory_gib", "memory_share", "compute_share", "alternates")
_DETAILS = ("api", "tool", "benchmark", "over")
"""Further keys of a fact: who printed it, with which tool, over which link."""


@dataclass(frozen=True, slots=True)
class Record:
    """One file of configs/gpus.

    gpus: the device, or one for each size of RAM if the machine's RAM decides (Apple). slices: MIG slices by profile.
    means: short names that several devices could answer to, and why they mean this one. shared: names that are refused
    because several devices answer to them, and why (the reason may be in only one of the files).
    """

    id: str
    gpus: tuple[Gpu, ...]
    slices: Mapping[str, Gpu]
    means: Mapping[str, str]
    shared: Mapping[str, str | None]


def read_record(tree: Tree) -> Record:
    """The devices that a record describes.

    Raises: MissingField for an absent key or source, BadField for an invalid key or value.
    """
    for key in tree:
        if key not in (*_FACTS, *_TEXTS, *_LISTS, *_OTHERS):
            raise BadField(key, tree[key], "a key of a GPU's record", hint="docs/adding-a-gpu.md lists them")
    means = {name: _text(reason, f"means.{name}") for name, reason in _mapping(tree, "means").items()}
    shared = {name: None if why is None else str(why) for name, why in _mapping(tree, "shared_names").items()}
    by_ram = _mapping(tree, "visible_mib_by_ram_gib")
    if by_ram:
        gpus = tuple(_with_ram(tree, int(ram), found, means) for ram, found in by_ram.items())
        return Record(_needed_text(tree, "id"), gpus, {}, means, shared)
    gpu = _gpu(tree, _needed(tree, "memory_visible_mib"), means)
    return Record(gpu.id, (gpu,), dict(_slices(gpu, _mapping(tree, "mig_profiles"))), means, shared)


def _gpu(tree: Tree, memory: Fact, means: Mapping[str, str]) -> Gpu:
    over = _mapping(tree, "link_gb_per_s") or _mapping(tree, "bridge_gb_per_s")
    package = _fact(tree, "devices_per_package")
    return Gpu(
        id=_needed_text(tree, "id"),
        name=_needed_text(tree, "name"),
        vendor=_needed_text(tree, "vendor"),
        architecture=_needed_text(tree, "architecture"),
        memory=memory,
        bandwidth=_needed(tree, "bandwidth_gb_per_s"),
        memory_marketed=_fact(tree, "memory_marketed_gb"),
        bandwidth_measured=_fact(tree, "bandwidth_measured_gb_per_s"),
        flops=tuple(_flops(_mapping(tree, "flops_tflops"))),
        link=_fact(tree, "link_gb_per_s"),
        memory_type=_optional_text(tree, "memory_type"),
        compute_capability=_capability(tree),
        unified=_flag(tree.get("unified_memory", False), "unified_memory"),
        fp8_kv_native=_sourced_flag(tree, "fp8_kv_native"),
        segment=_optional_text(tree, "segment"),
        aliases=_texts(tree, "aliases"),
        notes=_texts(tree, "notes"),
        memory_smi=_fact(tree, "memory_smi_mib"),
        memory_os=_optional_text(_mapping(tree, "memory_visible_mib"), "os"),
        host_share=_fact(tree, "host_share_mib"),
        devices_per_package=package.value if package else 1,
        link_name=_optional_text(over, "over"),
        link_domain=_fact(tree, "link_gpus"),
        bridge=_fact(tree, "bridge_gb_per_s"),
        pcie=_fact(tree, "pcie_gb_per_s"),
        driver_names=_texts(tree, "driver_names"),
        means=tuple(means.items()),
    )


def _with_ram(tree: Tree, ram: int, found: object, means: Mapping[str, str]) -> Gpu:
    """The chip in a machine of `ram` GiB, which decides how much of it the GPU may use."""
    place = f"visible_mib_by_ram_gib.{ram}"
    gpu = _gpu(tree, _read_fact(found, place, MIB), means)
    return replace(
        gpu,
        id=f"{gpu.id}-{ram}gb",
        name=f"{gpu.name}, {ram} GB",
        memory_marketed=Fact(ram * GB, "given", ("the size of RAM in the name",)),
        memory_os=_optional_text(_as_mapping(found, place), "os"),
    )


def _slices(gpu: Gpu, profiles: Tree) -> list[tuple[str, Gpu]]:
    """One Gpu for each MIG profile.

    A slice reads with its share of the memory, not of the multiprocessors: 1g.10gb of an A100 has 1/8 of its bandwidth
    and 1/7 of its multiprocessors (NVIDIA's MIG guide, tables of supported profiles).
    """
    return [(profile, _slice(gpu, profile, _as_mapping(found, profile))) for profile, found in profiles.items()]


def _slice(gpu: Gpu, profile: str, found: Tree) -> Gpu:
    place = f"mig_profiles.{profile}"
    share, compute = _share(found, place, "memory_share"), _share(found, place, "compute_share")
    size = {key: value for key, value in found.items() if key not in _SLICE_KEYS}
    alternates = [
        {"value": other.get("memory_gib"), "kind": "measured"} | {k: v for k, v in other.items() if k != "memory_gib"}
        for other in (_as_mapping(item, place) for item in _items(found, "alternates"))
    ]
    memory = _read_fact({"value": found.get("memory_gib"), **size, "alternates": alternates}, place, GIB)
    return replace(
        gpu,
        id=f"{gpu.id}:{profile}",
        name=f"{gpu.name} MIG {profile}",
        memory=memory,
        bandwidth=_part(gpu.bandwidth, share, f"{share} of {gpu.id}'s, as its share of the memory"),
        memory_marketed=None,
        memory_smi=None,
        bandwidth_measured=None,
        flops=tuple(
            (name, _part(fact, compute, f"{compute} of {gpu.id}'s multiprocessors")) for name, fact in gpu.flops
        ),
        # Slices of one GPU, and of its neighbours, reach each other through the host only.
        link=None, link_name=None, link_domain=None, bridge=None,
        aliases=(),
        mig_of=gpu.id,
    )  # fmt: skip


def _part(whole: Fact, share: Fraction, note: str) -> Fact:
    return Fact(int(whole.value * share), "derived", (_MIG_GUIDE, *whole.sources), note)


# One fact, one text, one list ----------------------------------------------------------------------------------------


def _fact(tree: Tree, key: str) -> Fact | None:
    return None if tree.get(key) is None else _read_fact(tree[key], key, _FACTS[key])


def _needed(tree: Tree, key: str) -> Fact:
    found = _fact(tree, key)
    if found is None:
        raise MissingField(key, cause="no plan can be made without it", hint=_WHERE)
    return found


def _needed_text(tree: Tree, key: str) -> str:
    if tree.get(key) is None:
        raise MissingField(key, cause="every record says it", hint=_WHERE)
    return _text(tree[key], key)


def _read_fact(found: object, place: str, unit: int) -> Fact:
    """A fact in base units from {value, kind, source, note, alternates} and details of how it was read."""
    node = _as_mapping(found, place)
    for key in node:
        if key not in ("value", "kind", "source", "note", "alternates", "os", *_DETAILS):
            raise BadField(f"{place}.{key}", node[key], "a key of a fact", hint=_WHERE)
    kind = _KINDS.get(str(node.get("kind")))
    if kind is None:
        raise BadField(f"{place}.kind", node.get("kind"), f"one of {', '.join(_KINDS)}", hint=_WHERE)
    details = [str(node[key]) for key in (*_DETAILS, "note") if node.get(key)]
    return Fact(
        _whole(node.get("value"), f"{place}.value", unit),
        kind,
        _sources(node, place),
        "; ".join(details) or None,
        tuple(_read_fact(other, f"{place}.alternates", unit) for other in _items(node, "alternates")),
    )


_WHERE = "docs/adding-a-gpu.md shows a whole record"


def _whole(value: object, place: str, unit: int) -> int:
    """The value in base units, exact: 4.8 is 48 tenths, not a neighbouring float."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise BadField(place, value, "a number above zero", hint=_WHERE)
    return int(Decimal(str(value)) * unit)


def _sources(node: Tree, place: str) -> tuple[str, ...]:
    sources = tuple(str(source) for source in _items(node, "source") if str(source).strip())
    if not sources:
        raise MissingField(f"{place}.source", cause="a number without a source is not planned on", hint=_WHERE)
    return sources


def _flops(tree: Tree) -> list[tuple[str, Fact]]:
    for name in tree:
        if name not in _FORMATS:
            raise BadField(f"flops_tflops.{name}", name, f"one of {', '.join(_FORMATS)}", hint=_WHERE)
    return [(name, _read_fact(found, f"flops_tflops.{name}", _TFLOPS)) for name, found in tree.items()]


def _share(node: Tree, place: str, key: str) -> Fraction:
    text = str(node.get(key))
    if not re.fullmatch(r"1|[1-9]/[1-9]", text) or Fraction(text) > 1:
        raise BadField(f"{place}.{key}", node.get(key), "a share like 1/8", hint=_WHERE)
    return Fraction(text)


def _capability(tree: Tree) -> tuple[int, int] | None:
    node = _mapping(tree, "compute_capability")
    if not node:
        return None
    _sources(node, "compute_capability")
    match = re.fullmatch(r"(\d+)\.(\d)", str(node.get("value")))
    if match is None:
        raise BadField("compute_capability.value", node.get("value"), "a version like '9.0'", hint=_WHERE)
    return int(match[1]), int(match[2])


def _sourced_flag(tree: Tree, key: str) -> bool | None:
    node = _mapping(tree, key)
    if not node:
        return None
    _sources(node, key)
    return _flag(node.get("value"), f"{key}.value")


def _flag(value: object, place: str) -> bool:
    if not isinstance(value, bool):
        raise BadField(place, value, "true or false", hint=_WHERE)
    return value


def _text(value: object, place: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise BadField(place, value, "a text", hint=_WHERE)
    return value


def _optional_text(tree: Tree, key: str) -> str | None:
    return None if tree.get(key) is None else _text(tree[key], key)


def _texts(tree: Tree, key: str) -> tuple[str, ...]:
    return tuple(_text(item, key) for item in _items(tree, key))


def _items(tree: Tree, key: str) -> list[object]:
    found = tree.get(key, [])
    if not isinstance(found, list):
        raise BadField(key, found, "a list", hint=_WHERE)
    return found


def _mapping(tree: Tree, key: str) -> Tree:
    return {} if tree.get(key) is None else _as_mapping(tree[key], key)


def _as_mapping(found: object, place: str) -> Tree:
    if not isinstance(found, Mapping):
        raise BadField(place, found, "keys and values", hint=_WHERE)
    return found
