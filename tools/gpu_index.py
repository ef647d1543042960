"""The content of configs/gpus/index.json: all YAML files beside it. tools/remake.py writes it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from kvplan.errors import ConfigError  # noqa: E402
from kvplan.hardware.names import build_catalogue  # noqa: E402
from kvplan.hardware.record import Tree, read_record  # noqa: E402
from kvplan.sources.digests import digest  # noqa: E402
from kvplan.sources.gpus import read_yaml  # noqa: E402

FOLDER = ROOT / "configs" / "gpus"
VENDORS = ("nvidia", "amd", "intel", "google", "aws", "huawei", "apple")
SEGMENTS = ("datacenter", "workstation", "consumer", "edge")
"""The order in which `kvplan gpus` lists devices. Add new vendors here."""


def index_text() -> str:
    """The content of index.json, one record per line to make changes readable.

    "made_from" has the digest of each record's file, by which kvplan notices a later edit.

    Raises: ConfigError for a record that doesn't load, or a name that two devices claim.
    """
    trees: dict[str, Tree] = {}
    for path in sorted(FOLDER.glob("*.yaml")):
        if path.name == "withheld.yaml":
            continue
        trees[path.stem] = tree = read_yaml(path)
        if tree.get("id") != path.stem:
            raise ConfigError(f"{path.name} describes {tree.get('id')!r}", hint="name the file after its id")
        try:
            read_record(tree)
        except ConfigError as error:
            raise ConfigError(f"{path.name}: {error}", cause=error.problem.cause, hint=error.problem.hint) from None
    ordered = sorted(trees, key=lambda name: (_rank(trees[name]), name))
    held = {name: _withheld(node) for name, node in read_yaml(FOLDER / "withheld.yaml").items()}
    catalogue = build_catalogue([read_record(trees[name]) for name in ordered], held)
    shared = {key: {"ids": list(found.ids), "reason": found.reason} for key, found in catalogue.shared.items()}
    parts = [
        f'"names": {_json(catalogue.names)}',
        f'"shared": {_json(shared)}',
        f'"withheld": {_json(catalogue.withheld)}',
        f'"made_from": {_json({name: digest(FOLDER / f"{name}.yaml") for name in sorted(trees)})}',
        '"records": {\n' + ",\n".join(f"{_json(name)}: {_json(trees[name])}" for name in ordered) + "\n}",
    ]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _rank(tree: Tree) -> tuple[int, int]:
    return _place(tree, "vendor", VENDORS), _place(tree, "segment", SEGMENTS)


def _place(tree: Tree, field: str, order: tuple[str, ...]) -> int:
    said = tree.get(field)
    if said not in order:
        raise ConfigError(
            f"{tree['id']}.yaml: {field} {said!r} has no place in the table"
            if said
            else f"{tree['id']}.yaml has no {field}",
            cause=f"known are {', '.join(order)}",
            hint=f"write one of them, or add a new one to {field.upper()}S in tools/gpu_index.py",
        )
    return order.index(str(said))


def _withheld(node: object) -> tuple[tuple[str, ...], str]:
    if not isinstance(node, dict) or not isinstance(node.get("reason"), str):
        raise ConfigError("withheld.yaml: every device names its reason")
    return tuple(str(alias) for alias in node.get("aliases", [])), node["reason"]


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
