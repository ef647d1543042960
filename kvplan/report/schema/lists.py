"""The documents of `kvplan models`, `gpus`, `engines` and `env`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvplan.hardware.gpu import Kind
from kvplan.report.schema.common import Parameters, Setting


@dataclass
class ListedModel:
    """One model."""

    id: str
    """Name of the model."""
    aliases: tuple[str, ...]
    """Other names that it can be given by."""
    family: str
    """The config's model type."""
    max_context: int | None
    """Tokens of the longest sequence that the config justifies; null when it justifies none."""
    attention: str
    """Kind of attention."""
    bytes_per_token: int
    """Bytes that the first token adds, in the model's own format."""
    fixed_bytes_per_sequence: int
    """Bytes that a sequence keeps before its first token."""
    parameters: Parameters
    """Number of parameters."""
    source: str
    """Where the config came from."""
    description: str | None = None
    """The layers' caches as a kvplan YAML that loads to the same caches; null in the list of all models."""


@dataclass
class ModelsReport:
    """What `kvplan models` prints."""

    schema: str
    """Id of this document: `kvplan.models/1`."""
    models: tuple[ListedModel, ...]
    """The bundled models, or those named."""


@dataclass
class KnownFact:
    """A number and its sources."""

    value: int
    """The number, in the unit of its key."""
    kind: Kind
    """How it is known: vendor, measured, derived or given."""
    sources: tuple[str, ...]
    """Where it is published."""


@dataclass
class ListedGpu:
    """One accelerator. Memory is in bytes, speeds in bytes per second; null where no source says."""

    id: str
    """kvplan's id."""
    name: str
    """The vendor's name."""
    vendor: str
    """The vendor."""
    architecture: str
    """The vendor's name of the architecture."""
    aliases: tuple[str, ...]
    """Other names that it can be given by."""
    memory: KnownFact
    """Memory that a process sees."""
    memory_os: str | None
    """The operating system that `memory` was read under."""
    memory_smi: KnownFact | None
    """Memory that the vendor's tool prints."""
    memory_marketed: KnownFact | None
    """Memory as sold."""
    host_share: KnownFact | None
    """Part of a unified memory that the host was seen to keep."""
    bandwidth: KnownFact
    """Memory bandwidth by the datasheet."""
    bandwidth_measured: KnownFact | None
    """Best memory bandwidth that a streaming kernel reached."""
    flops: Mapping[str, KnownFact]
    """Dense operations per second, by format."""
    link: KnownFact | None
    """Bandwidth to the other GPUs of a node, both directions together."""
    link_name: str | None
    """The vendor's name of that link."""
    link_domain: KnownFact | None
    """Number of GPUs that the link joins."""
    bridge: KnownFact | None
    """Bandwidth over a bridge that is sold separately, both directions together."""
    pcie: KnownFact | None
    """Bandwidth to the host over PCIe, both directions together."""
    memory_type: str | None
    """Kind of memory, such as HBM3."""
    compute_capability: str | None
    """NVIDIA's compute capability."""
    unified: bool
    """Whether the host uses the same memory."""
    devices_per_package: int
    """Devices that software lists for one package."""
    fp8_kv_native: bool | None
    """Whether an fp8 cache needs no conversion in software."""
    segment: str | None
    """Market segment."""
    mig_of: str | None
    """Id of the GPU that this is a slice of."""
    slices: tuple[str, ...]
    """Ids of its MIG slices."""
    notes: tuple[str, ...]
    """What else to know."""


@dataclass
class GpusReport:
    """What `kvplan gpus` prints."""

    schema: str
    """Id of this document: `kvplan.gpus/1`."""
    gpus: tuple[ListedGpu, ...]
    """The known accelerators, or those named."""


@dataclass
class ListedRule:
    """A rule of an engine that changed with a release."""

    since: str
    """First release with the rule."""
    says: str
    """The rule, in words."""
    source: str
    """Where the rule was read."""
    certain: bool
    """Whether the release is certain."""


@dataclass
class ListedEngine:
    """One engine."""

    name: str
    """Name of the engine."""
    newest: str | None
    """Release used when none is named; null for the formula."""
    oldest: str | None
    """First release that the rules hold for; null for the formula."""
    rules: tuple[ListedRule, ...]
    """Rules that changed from release to release."""


@dataclass
class EnginesReport:
    """What `kvplan engines` prints."""

    schema: str
    """Id of this document: `kvplan.engines/1`."""
    engines: tuple[ListedEngine, ...]
    """The known engines."""


@dataclass
class EnvReport:
    """What `kvplan env` prints, for a bug report. Tokens are never shown."""

    schema: str
    """Id of this document: `kvplan.env/1`."""
    kvplan: str
    """Version of kvplan."""
    python: str
    """Version of Python."""
    platform: str
    """Operating system and machine."""
    packages: Mapping[str, str | None]
    """Versions of packages; null for those not installed."""
    bundled_models: int | None
    """Number of bundled models; null if they can't be read."""
    bundled_gpus: int | None
    """Number of bundled GPUs; null if they can't be read."""
    driver: str
    """NVIDIA's driver, or why none was found."""
    gpus_here: tuple[str, ...]
    """GPUs that the driver lists."""
    settings: tuple[Setting, ...]
    """Settings in force."""
