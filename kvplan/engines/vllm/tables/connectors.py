"""KV connectors and KV events, and which of them turn the hybrid KV cache manager off: every layer is then cached at full length.

Source: config/vllm.py VllmConfig.__post_init__ of 0.9.2 to 0.33; the connectors' classes of 0.22, 0.24, 0.27, 0.30 and 0.33.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvplan.engines.vllm.tables.versions import Version

ASKED: Version = (0, 13, 0)
"""The first release in which --no-disable-hybrid-kv-cache-manager keeps the manager beside a connector."""

BY_CLASS: Version = (0, 22, 0)
"""The first release that looks whether the connector's class can do with the manager (SupportsHMA)."""

EVENTS_ALLOWED: Version = (0, 20, 0)
"""The first release in which KV events leave the manager on."""

KEEPING: Mapping[str, Version] = {
    "DecodeBenchConnector": BY_CLASS,
    "ExampleHiddenStatesConnector": BY_CLASS,
    "HiSparseConnector": (0, 30, 0),
    "MoRIIOConnector": (0, 30, 0),
    "MooncakeConnector": BY_CLASS,
    "MooncakeStoreConnector": BY_CLASS,
    "NixlConnector": BY_CLASS,
    "NixlPullConnector": BY_CLASS,
    "NixlPushConnector": BY_CLASS,
    "OffloadingConnector": BY_CLASS,
    "SimpleCPUOffloadConnector": BY_CLASS,
    "UMBPStoreConnector": (0, 33, 0),
}
"""Connectors that can do with it, and the first release that was read in which they can."""

TURNING_OFF = frozenset({
    "ExampleConnector", "FlexKVConnectorV1", "HF3FSKVConnector", "LMCacheConnector", "LMCacheConnectorV1", "LMCacheMPConnector",
    "P2pNcclConnector", "PyNcclConnector", "SharedStorageConnector",
})  # fmt: skip
"""Connectors that can't, or that no release from BY_CLASS on has."""

REGISTERED: Mapping[str, str] = {
    "DecodeBenchConnector": "0.11.1", "ExampleConnector": "0.13.0", "ExampleHiddenStatesConnector": "0.17.0", "FlexKVConnectorV1": "0.18.0",
    "HF3FSKVConnector": "0.20.0", "HiSparseConnector": "0.30.0", "LMCacheConnector": "0.6.0-0.10.0", "LMCacheConnectorV1": "0.8.5",
    "LMCacheMPConnector": "0.11.1", "MoRIIOConnector": "0.14.0", "MooncakeConnector": "0.6.0-0.10.0 0.13.0",
    "MooncakeStoreConnector": "0.8.3-0.10.0 0.21.0", "MultiConnector": "0.9.0", "NixlConnector": "0.9.0", "NixlPullConnector": "0.24.0",
    "NixlPushConnector": "0.24.0", "OffloadingConnector": "0.11.0", "P2pNcclConnector": "0.9.2-0.23.0", "PyNcclConnector": "0.6.0-0.10.0",
    "SharedStorageConnector": "0.8.5-0.12.0", "SimpleCPUOffloadConnector": "0.19.0",
}  # fmt: skip
"""Connectors that vLLM names itself, and the releases that do; none since 0.6.0 is told apart from one before 0.8.0.

Source: distributed/kv_transfer/kv_connector/factory.py of 0.8.0 to 0.33, each of which refuses a name that it hasn't, unless it comes
with a module of its own.
"""


def turns_off(version: Version, connectors: Sequence[str], *, events: bool, asked: bool) -> bool:
    """Whether a release turns the manager off. connectors: all of a MultiConnector's. asked: whether it was asked to stay."""
    if events and version < EVENTS_ALLOWED:
        return True
    if not connectors or (asked and version >= ASKED):
        return False
    return version < BY_CLASS or any(version < KEEPING.get(name, (version[0] + 1, 0, 0)) for name in connectors)
