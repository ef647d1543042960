"""Growth curves: monotone, exactly invertible, many lengths at once as one by one, and never less in shards than whole."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kvplan.arch.curve import LONGEST, Curve, StateGroup

GROUPS = st.builds(
    StateGroup,
    per_state=st.integers(0, 2**20),
    stride=st.sampled_from([1, 1, 1, 4, 128]),
    cap=st.one_of(st.none(), st.integers(0, 2**20)),
    fixed=st.integers(0, 2**30),
    spread=st.sampled_from([1, 1, 2, 8]),
)
CURVES = st.lists(st.tuples(GROUPS, st.integers(1, 200)), min_size=1, max_size=5).map(lambda terms: Curve(tuple(terms)))
TOKENS = st.integers(0, 2**24)


@given(CURVES, TOKENS, st.integers(0, 2**20))
def test_more_tokens_never_cost_less(curve: Curve, tokens: int, more: int) -> None:
    assert curve.bytes_at(tokens + more) >= curve.bytes_at(tokens)


@given(CURVES, st.integers(0, 2**50))
def test_the_inverse_is_exact(curve: Curve, budget: int) -> None:
    tokens = curve.tokens_that_fit(budget)
    assert tokens == 0 or curve.bytes_at(tokens) <= budget
    assert tokens == LONGEST or curve.bytes_at(tokens + 1) > budget


@given(CURVES, st.lists(TOKENS, max_size=20))
def test_many_lengths_at_once_are_the_same(curve: Curve, lengths: list[int]) -> None:
    assert curve.bytes_over(lengths) == [curve.bytes_at(tokens) for tokens in lengths]


@given(st.integers(1, 2**20), st.integers(1, 16), st.integers(0, 2**20))
def test_the_fullest_of_the_ranks_times_the_ranks_holds_everything(size: int, ranks: int, tokens: int) -> None:
    whole, share = StateGroup(size), StateGroup(size, spread=ranks)
    assert share.bytes_at(tokens) * ranks >= whole.bytes_at(tokens)


def test_a_window_a_stride_and_a_state_by_hand() -> None:
    curve = Curve(((StateGroup(10, cap=4), 2), (StateGroup(6, stride=4), 3), (StateGroup(fixed=100), 1)))
    # 9 tokens: 2 x 10 x 4 + 3 x 6 x (9 // 4) + 100 = 80 + 36 + 100
    assert curve.bytes_at(9) == 216
    assert curve.fixed_bytes == 100
    assert curve.full_after == 4
    # once the window is full an entry of 3 x 6 comes every 4 tokens: 4.5 B a token, rounded to 5
    assert curve.slope_at(0) == 25  # 20 + 4.5, rounded
    assert curve.slope_at(4) == 5


def test_a_curve_that_stops_growing_fits_for_ever() -> None:
    assert Curve(((StateGroup(10, cap=4), 1),)).tokens_that_fit(40) == LONGEST
    assert Curve(((StateGroup(10, cap=4), 1),)).tokens_that_fit(39) == 3
