"""KV connectors and KV events, which move a cache out of the engine, as far as they decide how the cache is laid out.

Source: vLLM 0.33 config/kv_transfer.py, distributed/kv_transfer/kv_connector/factory.py supports_hma_config.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kvplan.manifests.flags.command import Arguments, CantRead, tree_of
from kvplan.manifests.keys import CONNECTORS, EVENTS
from kvplan.manifests.places import Given, Key, Placed

if TYPE_CHECKING:
    from kvplan.engines.vllm.tables.versions import Version

TRANSFER, PUBLISHED = "kv-transfer-config", "kv-events-config"
OFFLOADED, BACKEND = "kv-offloading-size", "kv-offloading-backend"
NATIVE, BESIDE = "OffloadingConnector", "LMCacheMPConnector"
"""What --kv-offloading-size makes the connector, whatever else is said. Source: config/vllm.py _post_init_kv_transfer_config."""
MULTI, UNNAMED = "MultiConnector", "(unnamed)"


ENCODERS = "ec-transfer-config"
PRODUCER = "ec_producer"
"""What moves outputs of encoders, and the role of an encoder alone. Source: vLLM 0.33 config/ec_transfer.py."""

_NAME = re.compile(r"[\"']kv_connector[\"']\s*:\s*[\"']([A-Za-z0-9_]+)[\"']")


def read(found: Arguments, layer: dict[Key, Placed]) -> None:
    """Connectors and events, into the layer; a remark for a connector that nobody knows.

    Raises: CantRead for an encoder alone, to which vLLM gives no KV cache (v1/worker/gpu_model_runner.py get_kv_cache_spec).
    """
    from kvplan.engines.vllm.tables.connectors import KEEPING, TURNING_OFF

    encoded = found.flags.get(ENCODERS)
    sent = tree_of(encoded) if encoded is not None else None
    if encoded is not None and isinstance(sent, dict) and sent.get("ec_connector") and sent.get("ec_role") == PRODUCER:
        raise CantRead(f"it only encodes (ec_role: {PRODUCER}), and an encoder alone has no KV cache", encoded.place)
    events = found.flags.get(PUBLISHED)
    if events is not None and events.text != "None":
        layer[("flags", EVENTS)] = Given("true", events.place)
    offloaded = found.flags.get(OFFLOADED)
    if offloaded is not None and offloaded.text != "None":
        backend = found.flags.get(BACKEND)
        native = backend is None or backend.text in ("native", "None")
        layer[("flags", CONNECTORS)] = Given(NATIVE if native else BESIDE, offloaded.place)
        return
    given = found.flags.get(TRANSFER)
    if given is None or given.text == "None":
        return
    tree = tree_of(given)
    # Text in which only the shell knows some value isn't JSON, and may name its connectors all the same.
    names = tuple(_named(tree)) if isinstance(tree, dict) else tuple(_NAME.findall(given.text or ""))
    names = tuple(name for name in names if name != MULTI) or (UNNAMED,)
    layer[("flags", CONNECTORS)] = Given(" ".join(names), given.place)
    unknown = [name for name in names if name not in KEEPING and name not in TURNING_OFF]
    if unknown:
        text = f"whether the KV connector {', '.join(unknown)[:100]} keeps the hybrid KV cache manager isn't known: planned without it"
        found.remark("not-counted", text, given.place)


def gone(text: str, release: Version) -> str | None:
    """The connector in a configuration that other releases have, and this one refuses; None for none."""
    from kvplan.engines.vllm.tables.connectors import REGISTERED
    from kvplan.engines.vllm.tables.spans import holds

    if "kv_connector_module_path" in text:
        return None
    named = (name for name in _NAME.findall(text) if name in REGISTERED)
    return next((name for name in named if not holds(REGISTERED[name], release)), None)


def _named(tree: dict[str, Any]) -> Iterator[str]:
    """The connector, or all of several."""
    name = "".join(str(tree.get("kv_connector") or UNNAMED).split())
    extra = tree.get("kv_connector_extra_config")
    inner = extra.get("connectors") if isinstance(extra, dict) else None
    if name == MULTI and isinstance(inner, list):
        for each in inner:
            yield from _named(each) if isinstance(each, dict) else ()
    else:
        yield name
