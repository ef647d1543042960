"""`kvplan models`, `gpus`, `engines` and `env`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvplan.hardware.gpu import Kind
from kvplan.report.schema.common import Parameters, Setting


@dataclass
class ListedModel:
    """One model."""

    id: str
    """Its name."""
    aliases: tuple[str, ...]
    """What else it can be called."""
    family: str
    """The config's model type."""
    max_context: int | None
    """Tokens; null when the config justifies none."""
    attention: str
    """The kind of attention."""
    bytes_per_token: int
    """What the first token adds, in the model's own format."""
    fixed_bytes_per_sequence: int
    """Kept before the first token."""
    parameters: Parameters
    """How many it has."""
    source: str
    """Where the config came from."""
    description: str | None = None
    """Its caches as a kvplan YAML, which loads to the same ones; null in the list of all."""


@dataclass
class ModelsReport:
    """`kvplan models`."""

    schema: str
    """`kvplan.models/1`."""
    models: tuple[ListedModel, ...]
    """The bundled ones, or those named."""


@dataclass
class KnownFact:
    """A number and who says so."""

    value: int
    """In the unit of the key."""
    kind: Kind
    """How it is known."""
    sources: tuple[str, ...]
    """Who says so."""


@dataclass
class ListedGpu:
    """One accelerator. Memory is in bytes, speeds in bytes per second; null where nobody says."""

    id: str
    """kvplan's name."""
    name: str
    """The vendor's name."""
    vendor: str
    """Who makes it."""
    architecture: str
    """As the vendor calls it."""
    aliases: tuple[str, ...]
    """What else it can be called."""
    memory: KnownFact
    """What a process sees."""
    memory_os: str | None
    """The system that memory was read under."""
    memory_smi: KnownFact | None
    """What the vendor's tool prints."""
    memory_marketed: KnownFact | None
    """What the label says."""
    host_share: KnownFact | None
    """Of unified memory, what the host was seen to keep."""
    bandwidth: KnownFact
    """By the datasheet."""
    bandwidth_measured: KnownFact | None
    """Of a copy."""
    flops: Mapping[str, KnownFact]
    """Dense operations per second, by format."""
    link: KnownFact | None
    """To other GPUs, both directions together."""
    link_name: str | None
    """As the vendor calls it."""
    link_domain: KnownFact | None
    """GPUs that the link joins."""
    bridge: KnownFact | None
    """The link over a bridge that is sold apart."""
    pcie: KnownFact | None
    """To the host, one direction."""
    memory_type: str | None
    """Such as HBM3."""
    compute_capability: str | None
    """Of NVIDIA's GPUs."""
    unified: bool
    """Whether the host uses the same memory."""
    devices_per_package: int
    """Devices that software lists for one package."""
    fp8_kv_native: bool | None
    """Whether it multiplies fp8."""
    segment: str | None
    """Where it is used."""
    mig_of: str | None
    """The GPU that this is a slice of."""
    slices: tuple[str, ...]
    """Ids of its MIG profiles."""
    notes: tuple[str, ...]
    """What else to know."""


@dataclass
class GpusReport:
    """`kvplan gpus`."""

    schema: str
    """`kvplan.gpus/1`."""
    gpus: tuple[ListedGpu, ...]
    """Those known, or those named."""


@dataclass
class ListedRule:
    """A rule of an engine."""

    since: str
    """The release it starts at."""
    says: str
    """What changed."""
    source: str
    """Who says so."""
    certain: bool
    """Whether that release is certain."""


@dataclass
class ListedEngine:
    """One engine."""

    name: str
    """Its name."""
    newest: str | None
    """The release used when none is named; null for the formula."""
    oldest: str | None
    """The first that its rules hold for; null for the formula."""
    rules: tuple[ListedRule, ...]
    """What changed from release to release."""


@dataclass
class EnginesReport:
    """`kvplan engines`."""

    schema: str
    """`kvplan.engines/1`."""
    engines: tuple[ListedEngine, ...]
    """Those known."""


@dataclass
class EnvReport:
    """`kvplan env`: what a bug report needs. Tokens are never shown."""

    schema: str
    """`kvplan.env/1`."""
    kvplan: str
    """Its version."""
    python: str
    """Its version."""
    platform: str
    """System and machine."""
    packages: Mapping[str, str | None]
    """Versions; null for those not installed."""
    bundled_models: int | None
    """How many; null if they can't be read."""
    bundled_gpus: int | None
    """How many; null if they can't be read."""
    driver: str
    """NVIDIA's, or why none was found."""
    gpus_here: tuple[str, ...]
    """What the driver lists."""
    settings: tuple[Setting, ...]
    """In force."""
