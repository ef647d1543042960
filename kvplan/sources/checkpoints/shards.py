"""The safetensors files of a folder or repository that make up its checkpoint, and whether all are there.

An index decides if there is one. Without one, engines read every *.safetensors; kvplan counts one of several copies,
and nothing that training leaves beside the weights. Sources: transformers 5.0 modeling_utils.py
_get_resolved_checkpoint_files; vLLM 0.33 model_loader/weight_utils.py filter_duplicate_safetensors_files,
filter_files_not_needed_for_inference.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from kvplan.errors import BadFile
from kvplan.sources.strict import parse_json_object

INDEX = "model.safetensors.index.json"
WHOLE = "model.safetensors"
_NO_WEIGHTS = ("adapter_", "optimizer", "scheduler", "scaler", "training_", "trainer_", "random_states", "rng_state")
"""Prefixes of the names of adapters, and of files that training leaves beside a checkpoint."""
_PART = re.compile(
    r"(?P<stem>.*)-(?P<part>\d{1,6})-of-(?P<parts>\d{1,6})(?P<ending>\.(?:[^/]+\.)?safetensors)", re.ASCII
)
_VARIANT = re.compile(r"model\.[^.]+\.safetensors|model-\d+-of-\d+\.[^.]+\.safetensors", re.ASCII)


class Incomplete(BadFile):
    """Some files of a checkpoint are missing. Those that are there may be right, but aren't all."""


@dataclass(frozen=True, slots=True)
class Listing:
    """files: of the checkpoint. names: of all its tensors, if an index lists them. read: bytes read so far."""

    files: tuple[str, ...]
    names: frozenset[str] = frozenset()
    read: int = 0


def indexed(text: str, name: str) -> Listing:
    """The files that an index names, each once.

    Raises: BadFile for an invalid index, or one that leads out of its folder.
    """
    weights = parse_json_object(text, name).get("weight_map")
    if not isinstance(weights, dict) or not weights or not all(isinstance(file, str) for file in weights.values()):
        raise BadFile(f"{name} is not an index of safetensors files", cause="its weight_map doesn't name files")
    files = sorted(set(weights.values()))
    outside = next((file for file in files if PurePosixPath(file).name != file or "\\" in file), None)
    if outside is not None:
        raise BadFile(f"{name} leads out of its folder", cause=f"it names {outside!r}")
    return Listing(tuple(files), frozenset(weights), len(text))


def there(listing: Listing, names: Iterable[str], where: str) -> Listing:
    """The listing, if all its files are among `names`.

    Raises: Incomplete.
    """
    present = set(names)
    missing = [name for name in listing.files if name not in present]
    if missing:
        raise Incomplete(
            f"{len(missing)} of {len(listing.files)} files of the checkpoint in {where} are missing",
            cause=f"{INDEX} names {missing[0]}",
            hint="download them, or remove the index",
        )
    return listing


def unindexed(names: Iterable[str], where: str) -> Listing:
    """Files of one copy of the weights, from all safetensors files of a place without an index.

    Raises: Incomplete if they are numbered (`-00001-of-00003`) and some are missing.
    """
    listed = [name for name in names if name.endswith(".safetensors") and not name.startswith(_NO_WEIGHTS)]
    plain = [name for name in listed if not name.startswith("consolidated")]  # Mistral's own copy beside the shards
    return Listing(tuple(_whole_sets(_one_variant(plain or listed), where)))


def _one_variant(names: list[str]) -> list[str]:
    """The files without second copies by their names: shards beside a whole file, variants beside either."""
    parts = {name: match["stem"] for name in names if (match := _PART.fullmatch(name))}
    if WHOLE in names:
        return [
            name for name in names if not _VARIANT.fullmatch(name) and parts.get(name, "").partition(".")[0] != "model"
        ]
    if "model" in parts.values():
        return [
            name
            for name in names
            if not _VARIANT.fullmatch(name) and not (name in parts and parts[name].startswith("model."))
        ]
    return names


def _whole_sets(names: list[str], where: str) -> list[str]:
    """The files without incomplete sets of numbered files that have a complete set of the same name beside them.

    Raises: Incomplete for an incomplete set without one.
    """
    sets: dict[tuple[str, str, str], set[str]] = {}
    for name in names:
        match = _PART.fullmatch(name)
        if match is not None:
            sets.setdefault((match["stem"], match["parts"], match["ending"]), set()).add(name)
    missing = {key: _missing(key, found) for key, found in sets.items()}
    whole = {stem for (stem, _, ending), gone in missing.items() if not gone}
    left_out: set[str] = set()
    for key, (gone) in missing.items():
        if gone and key[0] not in whole:
            raise Incomplete(
                f"{len(gone)} of {int(key[1])} files of the checkpoint in {where} are missing",
                cause=f"there is no {gone[0]}",
                hint="download them all",
            )
        left_out |= sets[key] if gone else set()
    return [name for name in names if name not in left_out]


def _missing(key: tuple[str, str, str], found: set[str]) -> list[str]:
    """Numbers missing from a set. It may be numbered from 0, up to one less than its total or up to the total."""
    stem, parts, ending = key
    count = int(parts)
    numbered = {int(name.removeprefix(f"{stem}-").partition("-")[0]): name for name in found}
    width = len(next(iter(found)).removeprefix(f"{stem}-").partition("-")[0])
    last = count if 0 not in numbered or count in numbered else count - 1
    numbers = range(0 if 0 in numbered else 1, last + 1)
    return [f"{stem}-{number:0{width}d}-of-{parts}{ending}" for number in numbers if number not in numbered]
