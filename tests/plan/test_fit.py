"""Budget, capacity, verdict: by hand on stand-ins, and properties that hold for any of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan.standins import DEEPSEEK_V3, GPU, GQA, LLAMA_70B, MLA, WINDOW, dense, experts, model, textbook

from kvplan.arch.parallel import Parallel
from kvplan.arch.weights import Weights
from kvplan.engines.base import Capacity, Options, Range
from kvplan.engines.ideal import Ideal
from kvplan.engines.vllm.policy import Vllm
from kvplan.errors import CannotSplit, UsageError
from kvplan.plan.fit import Fit, NoFit, fit
from kvplan.plan.longest import longest_together
from kvplan.plan.request import Request


def test_the_textbook_case_holds_162_sequences():
    # 8 x 80 GB x 0.9 - 140 GB = 436 GB; one sequence of 8,192 tokens is 327,680 x 8,192 = 2.684 GB: 162.4 of them
    plan = fit(textbook(8192))
    assert plan.outcome == Fit("pool", 162)
    assert plan.budget.kv.likely * 8 == 436 * 10**9
    assert plan.ideal.kv_tokens == 436 * 10**9 // 327_680
    assert fit(textbook(131_072)).max_sequences == 10


def test_longest_sequence_is_exact():
    plan = fit(textbook(8192))
    rank = LLAMA_70B.rank_curves(Parallel(tp=8), plan.kv)[0]
    assert plan.max_context is not None
    assert rank.bytes_at(plan.max_context) <= plan.kv_bytes < rank.bytes_at(plan.max_context + 1)


def test_nothing_stops_a_model_of_windows():
    assert fit(textbook(8192, model=model(*(WINDOW,) * 80))).max_context is None


def test_the_safe_end_decides_unless_likely_is_asked():
    safe = textbook(8192, options=Options(weights_per_gpu=17_500_000_000))
    plan, likely = fit(safe), fit(replace(safe, end="likely"))
    assert plan.kv_bytes == plan.budget.kv.low < plan.budget.kv.likely == likely.kv_bytes
    assert plan.max_sequences < likely.max_sequences


def test_overhead_estimate_by_hand():
    # 80 GB is a large GPU: 1,024 rows of logits, 8,192 tokens of 8,192 x 2 B hidden states; several ranks
    budget = fit(textbook(8192, options=Options(weights_per_gpu=1))).budget
    step = 8192 * 8192 * 2
    assert budget.activation.bytes.likely == 12 * 1024 * 128_256 + 6 * step
    assert budget.activation.bytes.high == 39 * 1024 * 128_256 + 8 * step
    assert budget.runtime.bytes.likely == (768 + 358) * 2**20
    assert budget.assumed == (("utilization", "0.9"),)


def test_memory_given_for_the_cache_skips_the_budget():
    plan = fit(textbook(8192, options=Options(kv_memory=10 * 2**30), parallel=Parallel()))
    assert plan.kv_bytes == 10 * 2**30
    assert plan.max_sequences == 4  # 10 GiB / 2.5 GiB
    assert plan.decode is None  # nobody said what the weights are


@pytest.mark.parametrize(
    ("parallel", "each"),
    [
        (Parallel(tp=8), 320 * 2**20),  # one KV head of eight: 2.5 GiB / 8
        (Parallel(tp=16), 320 * 2**20),  # 16 ranks, 8 heads: each still holds one whole head
        (Parallel(tp=8, pp=3), 108 * 2**20),  # 80 layers on three stages: 27, 27, 26; 27 x 512 B x 8,192
        (Parallel(tp=8, dcp=8), 40 * 2**20),  # tokens dealt over eight ranks
    ],
)
def test_what_the_fullest_gpu_holds(parallel: Parallel, each: int):
    plan = fit(textbook(8192, parallel=parallel, options=Options(kv_memory=10 * 2**30)))
    assert plan.max_sequences == 10 * 2**30 // each


def test_latents_are_whole_on_every_rank():
    one = fit(textbook(8192, model=DEEPSEEK_V3, parallel=Parallel(), options=Options(kv_memory=2**36)))
    eight = fit(textbook(8192, model=DEEPSEEK_V3, parallel=Parallel(tp=8), options=Options(kv_memory=2**36)))
    assert one.max_sequences == eight.max_sequences == 2**36 // (70_272 * 8192)


def test_replicas_multiply():
    alone = fit(textbook(8192))
    assert fit(textbook(8192, parallel=Parallel(tp=8, dp=3))).max_sequences == 3 * alone.max_sequences


def test_the_fullest_stage_binds():
    assert fit(textbook(8192, parallel=Parallel(tp=8, pp=3))).outcome.binding == "rank"


def test_a_limit_on_sequences_binds():
    options = replace(textbook(8192).options, max_num_seqs=100)
    assert fit(textbook(8192, options=options)).outcome == Fit("max_num_seqs", 100)
    assert fit(textbook(8192, options=options)).ideal.max_sequences == 162


def test_one_request_too_long():
    plan = fit(textbook(2**21))
    assert isinstance(plan.outcome, NoFit)
    assert plan.outcome.binding == "longest_request"
    assert plan.outcome.short_by_bytes == 2**21 * 40_960 - 54_500_000_000
    assert plan.max_context == 54_500_000_000 // 40_960


def test_weights_above_the_memory_say_by_how_much():
    options = Options(utilization=0.9, weights_per_gpu=100 * 10**9, overhead=0)
    plan = fit(textbook(8192, options=options))
    assert isinstance(plan.outcome, NoFit)
    assert plan.outcome.binding == "weights"
    assert plan.outcome.short_by_bytes == 28 * 10**9 + 320 * 2**20
    assert plan.max_context == 0


def test_too_many_at_once():
    plan = fit(textbook(8192, concurrency=200))
    assert isinstance(plan.outcome, NoFit)
    assert plan.outcome.binding == "concurrency"
    assert plan.outcome.short_by_bytes == 200 * 320 * 2**20 - 54_500_000_000
    assert fit(textbook(8192, concurrency=162)).fits


def test_longest_context_for_so_many():
    # 54.5 GB / 200 / 40,960 B = 6,652.8
    assert longest_together(textbook(8192, concurrency=200)) == 6652
    assert longest_together(textbook(8192, concurrency=162)) == 8192
    assert longest_together(textbook(8192, concurrency=10**9)) == 0


def test_weights_are_the_models_own_when_nobody_gives_them():
    plan = fit(textbook(8192, model=replace(LLAMA_70B, weights=dense(80 * 2**20, 80)), options=Options(overhead=0)))
    assert plan.budget.weights.bytes.likely == 80 * 2**20 * 2 // 8


def test_each_end_of_the_cache_is_what_the_opposite_ends_leave():
    budget = fit(textbook(8192, model=replace(LLAMA_70B, weights=dense(80 * 2**20, 80)), options=Options())).budget
    usable, spent = (
        budget.usable.bytes.likely,
        [term.bytes for term in (budget.weights, budget.activation, budget.runtime)],
    )
    assert budget.kv.low == usable - sum(each.high for each in spent)
    assert budget.kv.likely == usable - sum(each.likely for each in spent)
    assert budget.kv.high == usable - sum(each.low for each in spent)


def test_unknown_weights_are_an_error():
    with pytest.raises(UsageError, match="aren't known") as caught:
        fit(textbook(8192, options=Options()))
    assert caught.value.problem.hint is not None
    assert "--weights" in caught.value.problem.hint


def test_half_a_count_of_weights_is_an_error():
    part = Weights((), dense(2**30, 80).layers, (), missing=("rwkv layers",))
    with pytest.raises(UsageError, match="only be counted in part"):
        fit(textbook(8192, model=replace(LLAMA_70B, weights=part), options=Options()))
    small = replace(part, missing=("vision tower (depth)",))
    plan = fit(textbook(8192, model=replace(LLAMA_70B, weights=small), options=Options()))
    known = 80 * 1639 * 1024 * 2  # 13,107 rows a layer: 1,639 on the fullest of 8
    assert plan.budget.weights.bytes == Range(known, known, known * 11 // 10)  # a tenth more for what isn't described


def test_a_layout_without_pieces_names_those_that_work():
    with pytest.raises(CannotSplit) as caught:
        fit(textbook(8192, parallel=Parallel(tp=6)))
    assert caught.value.problem.hint is not None
    assert "1, 2, 4, 8, 16, 32, 64" in caught.value.problem.hint


CACHES = st.lists(st.sampled_from([GQA, WINDOW, MLA]), min_size=1, max_size=6)


@settings(max_examples=150, deadline=None)
@given(CACHES, st.integers(1, 2**36), st.integers(0, 2**34), st.integers(1, 2**20), st.sampled_from([1, 2, 8]))
def test_more_memory_never_means_less(caches, memory: int, more: int, context: int, tp: int):
    request = Request(model(*caches), GPU, Ideal(), context, Parallel(tp=tp))
    few, many = (fit(replace(request, options=Options(kv_memory=size))) for size in (memory, memory + more))
    assert few.own.max_context <= many.own.max_context
    rank = max(curve.bytes_at(context) for curve in request.model.rank_curves(request.parallel, few.kv))
    admitted = [plan.own.max_sequences if isinstance(plan.own, Capacity) else 0 for plan in (few, many)]
    assert admitted[0] <= admitted[1]
    assert admitted[0] * rank <= memory < (admitted[0] + 1) * rank


@pytest.mark.parametrize("engine", [Ideal(), Vllm()])
def test_a_pool_that_the_gpu_does_not_have_holds_nothing(engine):
    """1 TiB of cache on a GPU of 80 GB: no length is served in it, however short."""
    for context in (1024, 8192):
        plan = fit(Request(LLAMA_70B, GPU, engine, context, options=Options(kv_memory=2**40, weights_per_gpu=2**30)))
        assert isinstance(plan.outcome, NoFit)
        assert plan.outcome.binding == "pool"
        assert plan.max_context == plan.max_sequences == 0


@pytest.mark.parametrize("engine", [Ideal(), Vllm()])
@pytest.mark.parametrize("end", ["safe", "likely"])
def test_a_pool_given_by_hand_has_what_the_deciding_end_leaves_of_the_whole_gpu(engine, end):
    """It skips the share of the memory, and so has what that share leaves alone too; not what weights and overhead may take."""
    given = Options(weights_per_gpu=140 * 10**9 // 8)
    request = Request(LLAMA_70B, GPU, engine, 8192, Parallel(tp=8), options=given, end=end)
    budget = fit(request).budget
    most = request.decide(budget.kv) + budget.memory.bytes.likely - budget.usable.bytes.likely
    room, over = (fit(replace(request, options=replace(given, kv_memory=size))) for size in (most, most + 1))
    assert room.fits
    assert isinstance(over.outcome, NoFit)
    assert (over.outcome.binding, over.outcome.short_by_bytes) == ("pool", 1)


def test_experts_are_dealt_over_ep():
    routed = replace(model(*(GQA,) * 4), weights=experts(64, 8, 4))
    spread = fit(Request(routed, GPU, Ideal(), 8192, Parallel(tp=2, dp=4, ep=8), options=Options(overhead=0)))
    assert spread.budget.weights.bytes.likely == 64 // 8 * 2**20 * 2 * 4
