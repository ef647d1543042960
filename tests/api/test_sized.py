"""What is said of sizes that arithmetic gives, and nothing serves."""

from __future__ import annotations

import pytest

from kvplan import api
from kvplan.arch.parallel import Parallel


def test_a_length_past_the_table_of_positions_is_said():
    said = api.size("gpt2", contexts=(512, 4096)).warnings
    assert len(said) == 1
    assert "4,096 tokens are more than the model's own maximum of 1,024" in said[0]
    assert api.size("gpt2", contexts=(1024,)).warnings == ()


@pytest.mark.parametrize("parallel", [Parallel(tp=2, ep=2), Parallel(tp=2, dcp=2)])
def test_a_layout_that_plans_refuse_is_said_to_be_arithmetic(parallel: Parallel):
    # 8 KV heads over 2 ranks repeat none, so there are no copies to deal tokens over; and it has no experts
    assert api.size("llama-3-8b", parallel=parallel).warnings[0].startswith("Split by arithmetic")


def test_a_layout_that_is_served_needs_no_word():
    assert api.size("llama-3-8b", parallel=Parallel(tp=2)).warnings == ()
    assert api.size("mixtral-8x7b", parallel=Parallel(tp=2, ep=2)).warnings == ()
