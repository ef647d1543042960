"""Sizes: GB is 10^9, GiB is 2^30, contexts are powers of two, and what is ambiguous is refused."""

from __future__ import annotations

import pytest

from kvplan import units
from kvplan.errors import BadSize


@pytest.mark.parametrize(
    ("text", "count"),
    [("80GB", 80 * 10**9), ("24GiB", 24 * 2**30), ("81559 MiB", 81559 * 2**20), ("1.5TB", 1_500_000_000_000), ("512B", 512), ("1,234.5kB", 1_234_500), ("80_000MB", 80 * 10**9)],
)  # fmt: skip
def test_a_size_with_a_unit_is_so_many_bytes(text: str, count: int) -> None:
    assert units.parse_bytes(text) == count


@pytest.mark.parametrize(
    "text",
    [
        "24",
        "24G",
        "-1GB",
        "GB",
        "1e3GB",
        "",
        "24 gigs",
        "79,5GB",
        "1,23,456B",
        "1,0000B",
        ",500GB",
        "1,500,GB",
        "1__0B",
        "1_,500B",
        "0,5.5GB",
    ],
)
def test_a_size_without_a_clear_unit_is_refused(text: str) -> None:
    with pytest.raises(BadSize):
        units.parse_bytes(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [("8192", 8192), ("8k", 8192), ("128K", 131072), ("1m", 2**20), ("1.5k", 1536), ("131,072", 131072)],
)
def test_k_and_m_are_powers_of_two_tokens(text: str, count: int) -> None:
    assert units.parse_tokens(text) == count


@pytest.mark.parametrize("text", ["0", "-5", "1.3", "8kb", "x", "999999999999999999999m", "1,5k", "8,19"])
def test_what_is_no_whole_number_of_tokens_is_refused(text: str) -> None:
    with pytest.raises(BadSize):
        units.parse_tokens(text)


def test_lists_and_doubling_ranges() -> None:
    assert units.parse_token_list("8k..64k,100") == (8192, 16384, 32768, 65536, 100)
    assert units.parse_token_list("8k..20k") == (8192, 16384, 20480)


def test_a_comma_for_a_point_is_refused_with_what_was_meant() -> None:
    with pytest.raises(BadSize) as refused:
        units.parse_bytes("79,5 GB")
    assert refused.value.problem.hint == "79.5 GB?"
    with pytest.raises(BadSize):
        units.parse_bandwidth("3,35TB/s")


@pytest.mark.parametrize("text", ["8,192", "8k,131,072", "128,256", "1,048,576", "8,192k"])
def test_a_list_that_may_be_a_number_is_refused(text: str) -> None:
    with pytest.raises(BadSize):
        units.parse_token_list(text)


@pytest.mark.parametrize(
    ("text", "lengths"),
    [("128, 256", (128, 256)), ("8192,100", (8192, 100)), ("8k,128", (8192, 128)), ("64,1000", (64, 1000))],
)
def test_lists_that_can_only_be_lists(text: str, lengths: tuple[int, ...]) -> None:
    assert units.parse_token_list(text) == lengths


def test_bandwidth_is_decimal() -> None:
    assert units.parse_bandwidth("3.35TB/s") == 3_350_000_000_000


def test_bytes_in_words() -> None:
    assert units.format_bytes(327_680) == "320.0 KiB"
    assert units.format_bytes(40 * 2**30) == "40.00 GiB"
    assert units.format_bytes(12) == "12 B"
