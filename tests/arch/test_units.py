"""Sizes: GB is 10^9, GiB is 2^30, contexts are powers of two, and what is ambiguous is refused."""

from __future__ import annotations

import pytest

from kvplan import units
from kvplan.errors import BadSize


@pytest.mark.parametrize(
    ("text", "count"),
    [("80GB", 80 * 10**9), ("24GiB", 24 * 2**30), ("81559 MiB", 81559 * 2**20), ("1.5TB", 1_500_000_000_000), ("512B", 512)],
)  # fmt: skip
def test_bytes(text: str, count: int) -> None:
    assert units.parse_bytes(text) == count


@pytest.mark.parametrize("text", ["24", "24G", "-1GB", "GB", "1e3GB", "", "24 gigs"])
def test_bytes_that_are_not(text: str) -> None:
    with pytest.raises(BadSize):
        units.parse_bytes(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [("8192", 8192), ("8k", 8192), ("128K", 131072), ("1m", 2**20), ("1.5k", 1536), ("131,072", 131072)],
)
def test_tokens(text: str, count: int) -> None:
    assert units.parse_tokens(text) == count


@pytest.mark.parametrize("text", ["0", "-5", "1.3", "8kb", "x", "999999999999999999999m"])
def test_tokens_that_are_not(text: str) -> None:
    with pytest.raises(BadSize):
        units.parse_tokens(text)


def test_lists_and_doubling_ranges() -> None:
    assert units.parse_token_list("8k..64k,100") == (8192, 16384, 32768, 65536, 100)
    assert units.parse_token_list("8k..20k") == (8192, 16384, 20480)


def test_bandwidth() -> None:
    assert units.parse_bandwidth("3.35TB/s") == 3_350_000_000_000


def test_bytes_in_words() -> None:
    assert units.format_bytes(327_680) == "320.0 KiB"
    assert units.format_bytes(40 * 2**30) == "40.00 GiB"
    assert units.format_bytes(12) == "12 B"
