"""The time of a decode step: by hand, and what must hold whatever the numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan.standins import GPU, GQA, LLAMA_70B, MLA, WINDOW, dense, experts, model, textbook

from kvplan.arch.formats import parse_kv_format
from kvplan.arch.layers import Compressed, Latent
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Options
from kvplan.engines.ideal import Ideal
from kvplan.plan.achieved import CLASSES, COLLECTIVE_US, class_of, collective_s
from kvplan.plan.fit import fit
from kvplan.plan.request import Request
from kvplan.plan.roofline import Decode, decode


def step(request: Request, batch: int) -> Decode:
    found = decode(request, request.kv_format, batch)
    assert found is not None
    return found


def test_the_textbook_step_reads_weights_and_cache_at_the_datasheets_rate():
    # 140 GB and 162 x 2.684 GB over 8 x 3.35 TB/s
    found = fit(textbook(8192)).decode
    assert found is not None
    assert found.batch == 162
    assert found.weight_read_s == pytest.approx(140e9 / 26.8e12)
    assert found.kv_read_s == pytest.approx(162 * 2_684_354_560 / 26.8e12)
    assert found.step_s_low == pytest.approx(found.weight_read_s + found.kv_read_s)
    assert found.tokens_per_s == pytest.approx(162 / found.step_s_likely)


def test_crossover_by_hand():
    found = step(textbook(8192), 162)
    assert found.crossover_batch == 53  # 140 GB / 2.684 GB = 52.15
    assert found.crossover_context == 2638  # 140 GB / 162 / 327,680 B = 2,637.3


def test_twice_the_batch_reads_the_weights_once_and_the_cache_twice():
    one, two = step(textbook(8192), 81), step(textbook(8192), 162)
    assert two.weight_read_s == one.weight_read_s
    assert two.kv_read_s == pytest.approx(2 * one.kv_read_s)


def test_fp8_halves_the_cache_read():
    half = step(textbook(8192, kv=parse_kv_format("fp8")), 162)
    assert half.kv_read_s == pytest.approx(step(textbook(8192), 162).kv_read_s / 2)


def test_a_window_is_read_no_further_than_it_reaches():
    request = textbook(8192, model=model(*(WINDOW,) * 80))
    assert step(request, 1).kv_bytes == 1024 * 512 * 80
    assert step(request, 1).crossover_context is None


def test_sparse_attention_reads_its_top_k():
    sparse = replace(MLA, topk=2048)
    assert step(textbook(8192, model=model(*(sparse,) * 61)), 1).kv_bytes == 2048 * 1152 * 61


def test_experts_are_a_range():
    routed = replace(model(*(GQA,) * 4), weights=experts(64, 8, 4))
    request = Request(routed, GPU, Ideal(), 8192)
    one, many = step(request, 1), step(request, 64)
    expert = 2**20 * 2 * 4
    assert one.weight_bytes.low == one.weight_bytes.likely == 8 * expert
    assert many.weight_bytes.low == 8 * expert
    assert many.weight_bytes.likely == round(64 * (1 - (1 - 8 / 64) ** 64) * expert)
    assert many.step_s_low < many.step_s_likely


def test_experts_given_by_hand_are_read_in_the_same_part_as_the_known_ones():
    known = experts(64, 8, 4)  # 64 x 4 of 2 MiB: 512 MiB, and half of them by hand
    request = Request(
        replace(model(*(GQA,) * 4), weights=known), GPU, Ideal(), 8192, options=Options(weights_per_gpu=2**28)
    )
    assert step(request, 1).weight_bytes == (8 * 4 * 2**20,) * 3


def test_experts_beside_weights_that_nobody_knows_may_be_read_whole():
    unsure = replace(experts(64, 8, 4), missing=("vision encoder",))
    request = Request(
        replace(model(*(GQA,) * 4), weights=unsure), GPU, Ideal(), 8192, options=Options(weights_per_gpu=2**28)
    )
    assert step(request, 1).weight_bytes == (8 * 4 * 2**21, 2**28, 2**28)


def test_stages_are_passed_in_turn():
    request = textbook(8192, parallel=Parallel(tp=8, pp=2), options=Options(weights_per_gpu=140 * 10**9 // 16))
    found = step(request, 162)
    assert found.weight_read_s == pytest.approx(140e9 / 8 / 3.35e12)  # both stages, one after the other
    assert found.kv_read_s == pytest.approx(81 * 2_684_354_560 / 8 / 3.35e12)  # half of the sequences at a time


def test_replicas_share_the_batch():
    assert step(textbook(8192, parallel=Parallel(tp=8, dp=2)), 162).kv_read_s == step(textbook(8192), 81).kv_read_s


def test_compute_by_hand():
    request = textbook(8192, model=replace(LLAMA_70B, weights=dense(80 * 2**20, 80)))
    scores = 80 * 2 * 64 * (128 + 128) * 8192
    assert step(request, 100).compute_s == pytest.approx(100 * (2 * 80 * 2**20 + scores) / 8 / 989e12)


@pytest.mark.parametrize(
    ("cache", "seen", "of_each"),
    [
        (Compressed(64, 512, 128), 128, 2 * 64 * (512 + 512)),  # the window alone
        (Compressed(64, 512, 128, 4, None, 512), 128 + 512, 2 * 64 * (512 + 512)),  # of 2,048 entries those chosen
        (Compressed(64, 512, 128, 128), 128 + 8192 // 128, 2 * 64 * (512 + 512)),  # and every entry
        (Latent(16, 512, 64, window=1024), 1024, 2 * 16 * (512 + 64 + 512)),
    ],
)
def test_compute_of_what_a_token_attends_to(cache, seen, of_each):
    """Scores are a product with each key, sums one with each value; a latent is both."""
    request = textbook(8192, model=replace(model(cache), weights=dense(2**20, 1)))
    assert step(request, 1).compute_s == pytest.approx((2 * 2**20 + seen * of_each) / 8 / 989e12)


def test_one_gpu_talks_to_nobody():
    assert step(textbook(8192, parallel=Parallel()), 1).communication_s == 0
    assert step(textbook(8192), 1).communication_s >= 160 * 5.3e-6


def test_all_reduces_and_a_hand_over_by_hand():
    """Hopper: 5.3 us among eight, 4.5 us among two. A message of 8,192 x 2 B, 2 x 7/8 of it through half of 900 GB/s."""
    reduces = 160 * (5.3e-6 + 2 * 7 / 8 * 16384 / 450e9)
    assert step(textbook(8192), 1).communication_s == pytest.approx(reduces)
    staged = step(textbook(8192, parallel=Parallel(tp=8, pp=2)), 1).communication_s
    assert staged == pytest.approx(reduces + 4.5e-6 + 16384 / 450e9)


def test_launches_and_gaps_by_hand():
    row = CLASSES["hopper"]
    assert step(textbook(8192), 1).overhead_s == pytest.approx(
        (row.step_us + 80 * (row.layer_us + 2 * row.slot_us)) * 1e-6
    )
    alone = replace(textbook(8192), parallel=Parallel(), model=replace(model(*(GQA,) * 4), weights=experts(64, 8, 4)))
    assert step(alone, 1).overhead_s == pytest.approx((row.step_us + 4 * (row.layer_us + row.expert_us)) * 1e-6)


def test_unknown_weights_have_no_time():
    assert decode(textbook(8192, options=Options()), textbook(8192).kv_format, 1) is None


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(
        [textbook(8192), textbook(8192, model=model(*(MLA,) * 61)), textbook(8192, parallel=Parallel(tp=8, dp=2))]
    ),
    st.booleans(),
    st.integers(1, 4096),
    st.integers(1, 2**20),
)
def test_crossover_is_the_first(request: Request, routed: bool, batch: int, context: int):
    weights = experts(128, 8, 61) if routed else dense(61 * 2**24, 61)
    asked = replace(
        request, model=replace(request.model, weights=weights), context=context, options=Options(overhead=0)
    )
    found = step(asked, batch)
    assert 0 < found.step_s_low <= found.step_s_likely
    assert 0 <= found.kv_share <= 1
    if found.crossover_batch is not None:
        at = step(asked, found.crossover_batch)
        assert at.kv_bytes >= at.weight_bytes.likely
        if found.crossover_batch > 1:
            before = step(asked, found.crossover_batch - 1)
            assert before.kv_bytes < before.weight_bytes.likely
    if found.crossover_context is not None:
        at = step(replace(asked, context=found.crossover_context), batch)
        assert at.kv_bytes >= at.weight_bytes.likely
        if found.crossover_context > 1:
            before = step(replace(asked, context=found.crossover_context - 1), batch)
            assert before.kv_bytes < before.weight_bytes.likely


def test_every_row_of_the_tables_has_a_source_and_sense():
    for row in CLASSES.values():
        assert row.source
        assert all(0 < part < 1 for part in (row.weights16, row.weights8, row.weights4, row.cache, row.compute))
    assert set(COLLECTIVE_US) <= {*CLASSES, "other"}
    assert class_of(GPU) == "hopper"
    times = [collective_s(GPU, ranks) for ranks in (1, 2, 4, 8, 16, 32)]
    assert times == sorted(times)
    assert times[0] == 0
