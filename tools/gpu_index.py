"""Writes configs/gpus/index.json, which holds what all YAML files beside it say.

python tools/gpu_index.py            write it
python tools/gpu_index.py --check    exit 1 if it is out of date
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from kvplan.errors import ConfigError  # noqa: E402
from kvplan.hardware.names import build_catalogue  # noqa: E402
from kvplan.hardware.record import Tree, read_record  # noqa: E402
from kvplan.sources.gpus import read_yaml  # noqa: E402

FOLDER = ROOT / "configs" / "gpus"
VENDORS = ("nvidia", "amd", "intel", "google", "aws", "huawei", "apple")
"""The order of the table; whoever adds a vendor adds it here."""
SEGMENTS = ("datacenter", "workstation", "consumer", "edge")


def index_text() -> str:
    """What index.json should hold: one line a record, so that a change reads as a change.

    Raises: ConfigError for a record that doesn't load or a name that two devices claim.
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
        '"records": {\n' + ",\n".join(f"{_json(name)}: {_json(trees[name])}" for name in ordered) + "\n}",
    ]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _rank(tree: Tree) -> tuple[int, int]:
    return VENDORS.index(str(tree.get("vendor"))), SEGMENTS.index(str(tree.get("segment")))


def _withheld(node: object) -> tuple[tuple[str, ...], str]:
    if not isinstance(node, dict) or not isinstance(node.get("reason"), str):
        raise ConfigError("withheld.yaml: every device names its reason")
    return tuple(str(alias) for alias in node.get("aliases", [])), node["reason"]


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def main(arguments: list[str]) -> int:
    """Write the index, or compare it."""
    path = FOLDER / "index.json"
    wanted = index_text()
    if "--check" in arguments:
        same = path.is_file() and path.read_text(encoding="utf-8") == wanted
        sys.stderr.write("" if same else f"{path} is out of date: run python tools/gpu_index.py\n")
        return 0 if same else 1
    path.write_text(wanted, encoding="utf-8")
    sys.stdout.write(f"{path}: {len(wanted):,} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
