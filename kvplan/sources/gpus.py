"""The GPUs that come with kvplan: configs/gpus, one YAML file each, found by any of their names.

index.json holds the content of all those files; tools/remake.py writes it. One file opens in two milliseconds, a
hundred YAML files take a tenth of a second. A file that was edited since is read itself. The path of a YAML file works
in place of a name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from kvplan.errors import BadFile, UnknownName, UsageError
from kvplan.hardware.gpu import Gpu
from kvplan.hardware.names import (
    Catalogue,
    Shared,
    check_count,
    is_known,
    key,
    likely_name,
    readings,
    resolve,
    split_profile,
)
from kvplan.hardware.record import Record, Tree, read_record
from kvplan.sources.digests import digest
from kvplan.sources.paths import configs_dir, gpu_path
from kvplan.text import all_of

AUTO = "auto"
"""The name for the GPUs of this machine."""


def load_gpu(text: str) -> Gpu:
    """The GPU of that name, in any spelling (`h100`, `H100 80GB`, `4090`, `h100:3g.40gb`), a YAML file, or `auto`.

    Raises: UnknownName with the nearest names or the choices; BadFile, BadField or MissingField for a file; UsageError
    if `auto` finds no GPU.
    """
    gpu, count = parse_gpu(text)
    if count is not None and text.strip().lower() != AUTO:
        raise UsageError(f"{text!r} is a number of GPUs where one is needed", hint=f"write {gpu.id}")
    return gpu


def parse_gpu(text: str) -> tuple[Gpu, int | None]:
    """The GPU and its number: `h100x8`, `8xh100` or `h100:8`; None if no number is stated.

    `auto` counts the GPUs of this machine.

    Raises: as load_gpu, and UsageError for an impossible number or several kinds of GPU.
    """
    for name, count in readings(text):
        if name.lower() == AUTO:
            from kvplan.sources.nvml import auto_gpu

            gpu, present = auto_gpu()
            return gpu, check_count(count, text) or present
        if _is_file(name):
            return _from_file(Path(name)), check_count(count, text)
        if is_known(split_profile(name)[0], _catalogue()):
            return _named(name), check_count(count, text)
    return _named(likely_name(text)), None  # raises, with the nearest names


def meaning(text: str) -> str | None:
    """Why an ambiguous short name stands for this device, to print beside the answer.

    None for an unambiguous name, a file, `auto` or an unknown name.
    """
    for name, _ in readings(text):
        short = split_profile(name)[0]
        found = _catalogue().names.get(key(short))
        if found is not None:
            means = _record(_home(found)).means
            return next((f"{known} means {why}" for known, why in means.items() if key(known) == key(short)), None)
    return None


@cache
def all_gpus() -> tuple[Gpu, ...]:
    """Every whole device, by vendor and name."""
    return tuple(gpu for name in _index()["records"] for gpu in _record(name).gpus)


@cache
def all_slices() -> tuple[Gpu, ...]:
    """Every MIG slice of every GPU."""
    return tuple(gpu for name in _index()["records"] for gpu in _record(name).slices.values())


def gpus_of_driver_name(name: str) -> tuple[Gpu, ...]:
    """The devices whose driver reports `name`: several where a card was sold with two sizes of memory."""
    wanted = name.strip().lower()
    return tuple(gpu for gpu in all_gpus() if wanted in (known.lower() for known in gpu.driver_names))


def _named(text: str) -> Gpu:
    parent, profile = split_profile(text)
    found = resolve(parent, _catalogue())
    record = _record(_home(found))
    gpu = next(gpu for gpu in record.gpus if gpu.id == found)
    return gpu if profile is None else _slice(record, gpu, profile)


def _slice(record: Record, gpu: Gpu, profile: str) -> Gpu:
    if profile in record.slices:
        return record.slices[profile]
    others = [found.id for found in all_slices() if found.id.endswith(f":{profile}")]
    known = ", ".join(record.slices)
    raise UnknownName(
        f"{gpu.id} has no MIG profile {profile}",
        cause=f"its profiles: {known}" if known else "kvplan knows no MIG profiles of it",
        hint=f"{all_of(others)} have it" if others else "`kvplan gpus` lists MIG profiles",
    )


def _is_file(name: str) -> bool:
    return name.lower().endswith((".yaml", ".yml"))


def _from_file(path: Path) -> Gpu:
    """A GPU described by the user.

    Raises: BadFile, BadField, MissingField.
    """
    record = read_record(read_yaml(path))
    if len(record.gpus) != 1:
        raise BadFile(f"{path} describes several devices", hint="keep one size of memory in it")
    return record.gpus[0]


def read_yaml(path: Path) -> dict[str, object]:
    """The mapping in a YAML file, read as strictly as a model's.

    Raises: BadFile.
    """
    from kvplan.sources.strict import decoded, parse_yaml_mapping

    try:
        raw = path.read_bytes()
    except OSError as error:
        raise BadFile(f"{path} can't be read", cause=error.strerror, hint=_SHOWN) from None
    try:
        tree, _ = parse_yaml_mapping(decoded(raw, str(path)), str(path))
    except BadFile as error:  # which speaks of models
        error.problem = replace(error.problem, hint=_SHOWN)
        raise
    return tree


_SHOWN = "docs/adding-a-gpu.md shows a file"


@cache
def _index() -> dict[str, dict[str, Tree]]:
    path = configs_dir() / "gpus" / "index.json"
    try:
        found: dict[str, dict[str, Tree]] = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise BadFile(f"{path} can't be read", cause=str(error), hint="install kvplan again") from None
    return found


@cache
def _record(name: str) -> Record:
    path = gpu_path(name)
    made_from: Mapping[str, object] = _index()["made_from"]
    current = digest(path) == made_from.get(name)
    return read_record(_index()["records"][name] if current else read_yaml(path))


@cache
def _catalogue() -> Catalogue:
    index = _index()
    names: Mapping[str, object] = index["names"]
    withheld: Mapping[str, object] = index["withheld"]
    return Catalogue(
        {name: str(found) for name, found in names.items()},
        {name: Shared(tuple(_strings(node["ids"])), str(node["reason"])) for name, node in index["shared"].items()},
        {name: str(reason) for name, reason in withheld.items()},
    )


def _strings(found: object) -> list[str]:
    return [str(item) for item in found] if isinstance(found, list) else []


def _home(found: str) -> str:
    """The record with the device: `m3-max-64gb` is in m3-max."""
    return found if found in _index()["records"] else found.rpartition("-")[0]
