"""What moves a cache out of the engine - KV connectors, KV events - as far as it decides how the cache is laid out.

Source: vLLM 0.33 config/kv_transfer.py, distributed/kv_transfer/kv_connector/factory.py supports_hma_config.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvplan.check.build import CONNECTORS, EVENTS
from kvplan.check.merge import Given, Key, Placed
from kvplan.check.serving.command import Arguments, CantRead, tree_of

TRANSFER, PUBLISHED = "kv-transfer-config", "kv-events-config"
FLAGS = frozenset({TRANSFER, PUBLISHED})
MULTI = "MultiConnector"


def read(found: Arguments, layer: dict[Key, Placed]) -> None:
    """Connectors and events, into the layer; a remark for a connector that nobody knows.

    Raises: CantRead for a configuration that isn't an object.
    """
    from kvplan.engines.vllm.tables.connectors import KEEPING, TURNING_OFF

    events = found.flags.get(PUBLISHED)
    if events is not None and events.text != "None":
        layer[("flags", EVENTS)] = Given("true", events.place)
    given = found.flags.get(TRANSFER)
    if given is None or given.text == "None":
        return
    tree = tree_of(given)
    if not isinstance(tree, dict):
        raise CantRead("its --kv-transfer-config is not JSON", given.place)
    names = tuple(_named(tree))
    layer[("flags", CONNECTORS)] = Given(" ".join(names), given.place)
    unknown = [name for name in names if name not in KEEPING and name not in TURNING_OFF]
    if unknown:
        text = f"whether {', '.join(unknown)} keeps the hybrid KV cache manager isn't known: planned as if it is turned off"
        found.remark("not-counted", text, given.place)


def _named(tree: dict[str, Any]) -> Iterator[str]:
    """The connector, or all of several."""
    name = str(tree.get("kv_connector") or "a connector without a name")
    extra = tree.get("kv_connector_extra_config")
    inner = extra.get("connectors") if isinstance(extra, dict) else None
    if name == MULTI and isinstance(inner, list):
        for each in inner:
            yield from _named(each) if isinstance(each, dict) else ()
    else:
        yield name
