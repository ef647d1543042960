"""Base units, and the only parser and formatter of sizes.

Inside kvplan every quantity is an integer in its base unit: bytes, tokens, bytes per second. `GB` is 10^9 bytes, `GiB`
2^30. Token counts use powers of two, as model cards do: `8k` = 8,192, `1m` = 1,048,576.
"""

from __future__ import annotations

import re
from decimal import Decimal

from kvplan.errors import BadSize

KIB, MIB, GIB, TIB = 2**10, 2**20, 2**30, 2**40
KB, MB, GB, TB = 10**3, 10**6, 10**9, 10**12

_BYTE_UNITS = {
    "b": 1, "kb": KB, "mb": MB, "gb": GB, "tb": TB, "kib": KIB, "mib": MIB, "gib": GIB, "tib": TIB,
}  # fmt: skip
_SPELT = ("B", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB")
_SHORT = re.compile(r"(?:[kmgt]i?)?", re.ASCII)
"""Units without the byte, or nothing at all: they could mean 10^3 or 2^10."""
_TOKEN_UNITS = {"": 1, "k": 2**10, "m": 2**20}
NUMBER = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+(?:_[0-9]+)*)(?:\.[0-9]+)?"
"""How a number is written, everywhere. Commas may separate only groups of three digits."""
_NUMBER = re.compile(rf"\s*({NUMBER})\s*([A-Za-z/]*)\s*", re.ASCII)
_DECIMAL_COMMA = re.compile(r"(\s*[0-9]+),([0-9]+\s*[A-Za-z/]*\s*)", re.ASCII)
_THOUSANDS = re.compile(r"(?<![0-9])[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])", re.ASCII)
"""In a list, ambiguous: one length with thousands separators, or several lengths of three digits."""
LARGEST = 2**63 - 1
"""Most bytes or tokens."""
MOST = 2**31 - 1
"""Largest of all other counts: sequences, ranks, tokens of a block."""


def _split(text: str, what: str, example: str) -> tuple[Decimal, str]:
    match = _NUMBER.fullmatch(text)
    if match is None:
        comma = _DECIMAL_COMMA.fullmatch(text)
        if comma is not None:
            meant = f"{comma[1]}.{comma[2]}".strip()
            raise BadSize(
                f"{text!r} is not {what}",
                cause="a comma stands before three digits of a whole number, as in 1,024, and for nothing else",
                hint=f"{meant}?",
            )
        raise BadSize(f"{text!r} is not {what}", hint=f"write it like {example}")
    return Decimal(match[1].replace("_", "").replace(",", "")), match[2].lower()


def _whole(number: Decimal, text: str, what: str) -> int:
    if number != int(number) or number > LARGEST:
        raise BadSize(f"{text!r} is not {what}", cause="it is not a whole number below 2^63")
    return int(number)


def whole(value: object, *, least: int = 1, most: int = MOST) -> int:
    """The value, if it is a whole number within bounds.

    Raises: BadSize.
    """
    if type(value) is not int or not least <= value <= most:
        hint = None if isinstance(value, int) else "write it like 8"
        raise BadSize(f"{value!r} is not a whole number from {least:,} to {most:,}", hint=hint)
    return value


def parse_whole(text: str, *, least: int = 1) -> int:
    """A whole number from its digits.

    Raises: BadSize.
    """
    bare = text.strip()
    return whole(int(bare) if bare.isascii() and bare.isdigit() and len(bare) < 20 else text, least=least)


def share(value: object) -> float:
    """The value, if it is a share: more than 0, at most 1.

    Raises: BadSize.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise BadSize(f"{value!r} is not a share of the memory", hint="write it like 0.92")
    return value


def parse_share(text: str) -> float:
    """A share from `0.92` or `92%`.

    Raises: BadSize.
    """
    bare = text.strip()
    try:
        return share(float(bare.removesuffix("%")) / (100 if bare.endswith("%") else 1))
    except (ValueError, BadSize):
        raise BadSize(f"{text!r} is not a share of the memory", hint="write it like 0.92 or 92%") from None


def parse_bytes(text: str) -> int:
    """Bytes from `24GiB`, `80 GB`, `81559MiB`. A number without a unit is refused.

    Raises: BadSize.
    """
    number, unit = _split(text, "a number of bytes", "24GiB or 24GB")
    if unit not in _BYTE_UNITS and not _SHORT.fullmatch(unit):
        raise BadSize(f"{text!r} has a unit that isn't known", hint=f"known: {', '.join(_SPELT)}")
    if unit not in _BYTE_UNITS:
        raise BadSize(
            f"{text!r} has no byte unit",
            cause="GB is 10^9 bytes and GiB is 2^30 bytes, and kvplan won't guess which is meant",
            hint=f"write {number}GiB or {number}GB",
        )
    return int(number * _BYTE_UNITS[unit])


def parse_some_bytes(text: str) -> int:
    """Bytes, at least one, for sizes that can't be 0, like a GPU's memory or a model's weights.

    Raises: BadSize.
    """
    size = parse_bytes(text)
    if size < 1:
        raise BadSize(f"{text!r} is nothing", hint="give more than 0 bytes, or leave it out")
    return size


def parse_tokens(text: str) -> int:
    """Tokens from `8192`, `8k` (8,192), `128k` (131,072), `1m` (1,048,576).

    Raises: BadSize.
    """
    number, unit = _split(text, "a number of tokens", "8192, 8k or 1m")
    if unit not in _TOKEN_UNITS:
        raise BadSize(f"{text!r} is not a number of tokens", hint="write it like 8192, 8k or 1m")
    tokens = _whole(number * _TOKEN_UNITS[unit], text, "a number of tokens")
    if tokens < 1:
        raise BadSize(f"{text!r} is not a number of tokens", cause="a sequence has at least one token")
    return tokens


def parse_token_list(text: str) -> tuple[int, ...]:
    """Lengths from `8k`, a list `8k,32k` or a doubling range `8k..128k`.

    Raises: BadSize, also for `8,192`, which could be one length or two.
    """
    either = _THOUSANDS.search(text)
    if either is not None:
        one, several = either[0].replace(",", ""), either[0].replace(",", ", ")
        raise BadSize(
            f"{text!r} may be one length with thousands separators, or several",
            cause="a list has commas between lengths",
            hint=f"write {one} for one length, or '{several}' for {len(several.split())}",
        )
    lengths: list[int] = []
    for part in text.split(","):
        first, dots, last = part.partition("..")
        if not dots:
            lengths.append(parse_tokens(part))
            continue
        low, high = parse_tokens(first), parse_tokens(last)
        if low > high:
            raise BadSize(f"{part!r} runs backwards", hint=f"write {last}..{first}")
        while low < high:
            lengths.append(low)
            low *= 2
        lengths.append(high)
    return tuple(lengths)


def parse_bandwidth(text: str) -> int:
    """Bytes per second, at least one, from `3.35TB/s`, `936GB/s`.

    Raises: BadSize.
    """
    number, unit = _split(text, "a bandwidth", "3.35TB/s")
    base, slash, per = unit.partition("/")
    if base not in _BYTE_UNITS or (slash, per) != ("/", "s"):
        raise BadSize(f"{text!r} is not a bandwidth", hint="write it like 3.35TB/s or 936GB/s")
    speed = int(number * _BYTE_UNITS[base])
    if speed < 1:
        raise BadSize(f"{text!r} is nothing", hint="give more than 0 bytes a second, or leave it out")
    return speed


def format_bytes(count: int) -> str:
    """Bytes in the largest binary unit in which they are at least 1: `40.00 GiB`, `320.0 KiB`, `12 B`."""
    size = abs(count)
    for unit, name in ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            value = count / unit
            return f"{value:,.2f} {name}" if size < 100 * unit else f"{value:,.1f} {name}"
    return f"{count} B"


def format_seconds(seconds: float) -> str:
    """Seconds in the usual unit for their size: `16.30 ms`, `1.24 s`, `820 us`."""
    if seconds >= 1:
        return f"{seconds:,.2f} s"
    if seconds >= 1e-3:
        return f"{seconds * 1e3:.2f} ms"
    return f"{seconds * 1e6:.0f} us"
