"""Bisection finds where a threshold lies, wherever it lies, and asks a number's length of questions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kvplan.arch.search import largest, smallest

MOST = st.integers(0, 2**40)


@given(MOST, st.integers(0, 2**41))
def test_the_largest_is_the_threshold_within_the_range(most: int, threshold: int) -> None:
    assert largest(lambda number: number <= threshold, most) == min(threshold, most)


@given(MOST, st.integers(1, 2**41))
def test_the_smallest_is_the_threshold_or_none(most: int, threshold: int) -> None:
    assert smallest(lambda number: number >= threshold, most) == (threshold if threshold <= most else None)


@given(MOST, st.integers(0, 2**41))
def test_questions_are_few(most: int, threshold: int) -> None:
    asked: list[int] = []

    def holds(number: int) -> bool:
        asked.append(number)
        return number <= threshold

    largest(holds, most)
    assert len(asked) <= most.bit_length() + 1
    assert all(1 <= number <= most for number in asked)


@given(MOST, st.integers(0, 2**41), st.integers(-(2**41), 2**41))
def test_a_guess_changes_no_answer(most: int, threshold: int, near: int) -> None:
    assert largest(lambda number: number <= threshold, most, near) == min(threshold, most)
    expected = threshold + 1 if threshold < most else None
    assert smallest(lambda number: number > threshold, most, near) == expected


@given(st.integers(0, 2**40 - 1), st.integers(-2, 2))
def test_a_good_guess_saves_questions(threshold: int, off: int) -> None:
    asked: list[int] = []

    def holds(number: int) -> bool:
        asked.append(number)
        return number <= threshold

    largest(holds, 2**40, max(threshold + off, 1))
    assert len(asked) <= 7
