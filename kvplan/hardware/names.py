"""GPU names as people type them: spellings, counts, MIG profiles, and names that are refused.

A short name is either an alias that its record explains, or it is refused with the choices. kvplan never guesses,
because a "v100" has 16 or 32 GB.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kvplan.errors import ConfigError, UnknownName, UsageError
from kvplan.hardware.record import Record
from kvplan.text import any_of, nearest

MAX_COUNT = 100_000
"""More devices than this are a mistake in any plan."""
_BRANDS = frozenset(
    ("nvidia", "geforce", "amd", "instinct", "radeon", "intel", "apple", "google", "aws", "huawei", "graphics", "gpu")
)
_PROFILE = re.compile(r"(.+?)[\s:_/.-]*(?:mig[\s:_-]*)?(?:\d+c\.)?(\d+g\.\d+gb)(?:\+\S+)?", re.ASCII)
_COUNT_AFTER = re.compile(r"(.+?)\s*[xX*\u00d7:]\s*(\d+)", re.ASCII)
_COUNT_BEFORE = re.compile(r"(\d+)\s*[xX*\u00d7]\s*(.+)", re.ASCII)
_LIKELY_COUNT = 1024
"""`h10x8` is 8 of a misspelt name, but the 1080 of `gtx1080` is no count."""


@dataclass(frozen=True, slots=True)
class Shared:
    """A name that several devices answer to. It is refused."""

    ids: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Every known name by its `key`.

    names: to the id that it stands for. shared: to the choices. withheld: to the reason why kvplan can't plan for it.
    """

    names: Mapping[str, str]
    shared: Mapping[str, Shared]
    withheld: Mapping[str, str]


def key(text: str) -> str:
    """The common form of all spellings of a name: `NVIDIA H100-80GB` and `h100_80gb` are both `h10080gb`."""
    words = re.split(r"[\s_/:,()-]+", text.lower().replace("(r)", " ").replace("(tm)", " "))
    return "".join(re.sub(r"[^a-z0-9]", "", word) for word in words if word not in _BRANDS)


def split_profile(text: str) -> tuple[str, str | None]:
    """GPU and MIG profile of `h100:3g.40gb`, `h100-mig-3g.40gb` or `NVIDIA H200 MIG 1g.35gb`."""
    match = _PROFILE.fullmatch(text.strip().lower())
    return (match[1], match[2]) if match else (text, None)


def readings(text: str) -> list[tuple[str, int | None]]:
    """The possible meanings of `text`, likeliest first: a name alone, `NAMExN` (also `NAME:N`), `NxNAME`."""
    name = text.strip()
    found: list[tuple[str, int | None]] = [(name, None)]
    if match := _COUNT_AFTER.fullmatch(name):
        found.append((match[1], int(match[2])))
    if match := _COUNT_BEFORE.fullmatch(name):
        found.append((match[2], int(match[1])))
    return found


def check_count(count: int | None, text: str) -> int | None:
    """The count, if it can be planned for.

    Raises: UsageError.
    """
    if count is not None and not 1 <= count <= MAX_COUNT:
        raise UsageError(f"{text!r} asks for {count:,} devices", hint="write NAMExN with N of 1 or more: --gpu h100x8")
    return count


def is_known(text: str, catalogue: Catalogue) -> bool:
    """Whether the name stands for one device, for several, or for one that is withheld."""
    spelt = key(text)
    return spelt in catalogue.names or spelt in catalogue.shared or spelt in catalogue.withheld


def resolve(text: str, catalogue: Catalogue) -> str:
    """The id of the device called `text`, which has no count and no MIG profile.

    Raises: UnknownName, with the choices or the nearest names; UsageError for several kinds of device.
    """
    spelt = key(text)
    if spelt in catalogue.names:
        return catalogue.names[spelt]
    if spelt in catalogue.shared:
        choices = catalogue.shared[spelt]
        raise UnknownName(
            f"{text!r} is more than one device", cause=choices.reason, hint=f"write {any_of(choices.ids)}"
        )
    if spelt in catalogue.withheld:
        raise UnknownName(
            f"kvplan doesn't plan for {text!r}",
            cause=catalogue.withheld[spelt],
            hint="give --gpu a YAML file that describes yours (docs/adding-a-gpu.md)",
        )
    if "+" in text:
        raise UsageError(
            f"{text!r} mixes devices",
            cause="a plan gives every device the same share, so the smallest would decide for all of them",
            hint="plan with the smallest and the number of all: --gpu NAMExN",
        )
    near = _nearest(spelt, catalogue)
    hint = f"did you mean {any_of(near)}? " if near else ""
    raise UnknownName(f"no GPU is called {text!r}", hint=f"{hint}`kvplan gpus` lists them all")


def likely_name(text: str) -> str:
    """The name in an unknown `text` without its count, for the message."""
    for name, count in readings(text)[1:]:
        if count is not None and count <= _LIKELY_COUNT and len(key(name)) > 1:
            return name
    return text.strip()


def _nearest(spelt: str, catalogue: Catalogue) -> tuple[str, ...]:
    known: dict[str, tuple[str, ...]] = {name: (found,) for name, found in catalogue.names.items()}
    known.update((name, shared.ids) for name, shared in catalogue.shared.items())
    near = nearest(spelt, known, most=6, cutoff=0.65)
    return tuple(dict.fromkeys(found for name in near for found in known[name]))[:3]


def build_catalogue(records: Iterable[Record], withheld: Mapping[str, tuple[tuple[str, ...], str]]) -> Catalogue:
    """The names of all records, and of `withheld` devices (name: its aliases, the reason).

    Raises: ConfigError if one name stands for two devices and no record says that it is shared.
    """
    records = tuple(records)
    names: dict[str, str] = {}
    shared = _shared_names(records)

    def claim(name: str, found: str) -> None:
        spelt = key(name)
        if spelt in shared or names.setdefault(spelt, found) == found:
            return
        raise ConfigError(
            f"{name!r} stands for {names[spelt]} and for {found}",
            hint="keep it in one record, or list it under `shared_names` in both",
        )

    for record in records:
        for gpu in record.gpus:
            spellings = (gpu.id, gpu.name, *gpu.aliases, *gpu.driver_names, *record.means)
            if len(record.gpus) > 1 or gpu.id != record.id:
                spellings = (gpu.id, gpu.id.removesuffix("gb"), gpu.name)
            for name in spellings:
                claim(name, gpu.id)
    reasons: dict[str, str] = {}
    for first, (aliases, reason) in withheld.items():
        for name in (first, *aliases):
            if key(name) in names or reasons.setdefault(key(name), reason) != reason:
                raise ConfigError(f"{name!r} is withheld and is the name of another device")
    return Catalogue(dict(sorted(names.items())), dict(sorted(shared.items())), dict(sorted(reasons.items())))


def _shared_names(records: tuple[Record, ...]) -> dict[str, Shared]:
    """Names that records share: as they state, chips without their RAM, and driver names of several devices."""
    ids: dict[str, list[str]] = {}
    reasons: dict[str, str] = {}

    def share(name: str, found: Iterable[str], reason: str | None) -> None:
        ids.setdefault(key(name), []).extend(found)
        if reason:
            reasons[key(name)] = reason

    drivers: dict[str, list[str]] = {}
    for record in records:
        for name, reason in record.shared.items():
            share(name, [gpu.id for gpu in record.gpus], reason)
        if record.gpus[0].id != record.id:
            for name in {record.id, *record.gpus[0].driver_names}:
                share(name, [gpu.id for gpu in record.gpus], "what its GPU may use depends on the machine's RAM")
        else:
            for name in record.gpus[0].driver_names:
                drivers.setdefault(key(name), []).append(record.id)
    for name, found in drivers.items():
        if len(found) > 1:
            share(name, found, reasons.get(name, "one driver gives several devices this name"))
    return {
        name: Shared(tuple(dict.fromkeys(found)), reasons.get(name, "several devices have this name"))
        for name, found in ids.items()
    }
