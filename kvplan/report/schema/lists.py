"""`kvplan models`, `gpus`, `engines` and `env`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvplan.report.schema.common import Parameters


@dataclass
class ListedModel:
    """One model. description: its caches as a kvplan YAML, which loads to the same ones; null in the list of all."""

    id: str
    aliases: tuple[str, ...]
    family: str
    max_context: int | None
    attention: str
    bytes_per_token: int
    fixed_bytes_per_sequence: int
    parameters: Parameters
    source: str
    description: str | None = None


@dataclass
class ModelsReport:
    """`kvplan models`."""

    schema: str
    models: tuple[ListedModel, ...]


@dataclass
class KnownFact:
    """A number, its kind (vendor, measured, derived, given) and its sources."""

    value: int
    kind: str
    sources: tuple[str, ...]


@dataclass
class ListedGpu:
    """One accelerator. slices: ids of its MIG profiles.

    memory_os: the system that memory was read under. host_share: bytes of unified memory that the host was seen to keep.
    link_domain: GPUs that the link joins. bridge: the link's bytes/s over a bridge that is sold apart.
    devices_per_package: devices that software lists for one package.
    """

    id: str
    name: str
    vendor: str
    architecture: str
    aliases: tuple[str, ...]
    memory: KnownFact
    memory_os: str | None
    memory_smi: KnownFact | None
    memory_marketed: KnownFact | None
    host_share: KnownFact | None
    bandwidth: KnownFact
    bandwidth_measured: KnownFact | None
    flops: Mapping[str, KnownFact]
    link: KnownFact | None
    link_name: str | None
    link_domain: KnownFact | None
    bridge: KnownFact | None
    pcie: KnownFact | None
    memory_type: str | None
    compute_capability: str | None
    unified: bool
    devices_per_package: int
    fp8_kv_native: bool | None
    segment: str | None
    mig_of: str | None
    slices: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass
class GpusReport:
    """`kvplan gpus`."""

    schema: str
    gpus: tuple[ListedGpu, ...]


@dataclass
class ListedRule:
    """A rule of an engine: the version it starts at, what it says, who says so, whether that version is certain."""

    since: str
    says: str
    source: str
    certain: bool


@dataclass
class ListedEngine:
    """One engine policy. newest: the version used when none is named. oldest: the first its rules hold for."""

    name: str
    newest: str | None
    oldest: str | None
    rules: tuple[ListedRule, ...]


@dataclass
class EnginesReport:
    """`kvplan engines`."""

    schema: str
    engines: tuple[ListedEngine, ...]


@dataclass
class Setting:
    """One setting in force and where it comes from."""

    name: str
    value: str
    source: str


@dataclass
class EnvReport:
    """`kvplan env`: what a bug report needs, tokens never shown. driver: of NVIDIA's, or why none was found."""

    schema: str
    kvplan: str
    python: str
    platform: str
    packages: Mapping[str, str | None]
    bundled_models: int | None
    bundled_gpus: int | None
    driver: str
    gpus_here: tuple[str, ...]
    settings: tuple[Setting, ...]
