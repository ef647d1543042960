"""Trees whose sums are right, and suggestions that do what they say."""

from __future__ import annotations

from dataclasses import replace

from plan.standins import GPU, GQA, WINDOW, dense, fact, model, textbook

from kvplan.arch.curve import StateGroup
from kvplan.arch.layers import Part
from kvplan.arch.model import LayerCount
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Options
from kvplan.plan.explain import explain_group, explain_sequence, explain_work
from kvplan.plan.explain_plan import explain_plan
from kvplan.plan.fit import Fit, fit
from kvplan.plan.suggest import suggest


def test_groups_add_up_to_the_sequence():
    mixed = model(*(GQA,) * 3, *(WINDOW,) * 5)
    tree = explain_sequence(mixed, mixed.kv_auto, 8192)
    assert tree.value == 3 * 4096 * 8192 + 5 * 4096 * 1024
    assert [child.value for child in tree.children] == [3 * 4096 * 8192, 5 * 4096 * 1024]
    assert tree.children[1].formula == "5 layers x 4,096 B x min(8,192, 1,024)"


def test_a_formula_names_strides_and_the_ranks_that_tokens_are_dealt_to():
    law = StateGroup(1024, stride=4, spread=8)
    tree = explain_group(LayerCount(Part("compressed", law, "", ""), 3), 8192)
    assert tree.value == 3 * 1024 * 8192 // 4 // 8
    assert tree.formula == "3 layers x 1,024 B x 8,192 / 4 / 8 ranks"
    assert dict(tree.inputs) == {"layers": 3, "tokens": 8192, "stride": 4}


def test_the_budget_adds_up_at_the_end_that_decides():
    plan = fit(textbook(8192, options=Options(weights_per_gpu=17_500_000_000)))
    tree = explain_plan(plan)
    budget = tree.children[0]
    numbers = [int(part.replace(",", "")) for part in budget.formula.split(" - ")]
    assert numbers[0] - sum(numbers[1:]) == budget.value == plan.budget.kv.low
    assert tree.value == plan.max_sequences
    assert [child.name for child in budget.children] == ["usable", "weights", "activation", "runtime"]


def test_token_passes():
    # a cache turns N L + N^2 / 2 passes into L + N
    tree = explain_work(1000, 1000)
    assert tree.value == 1_500_000
    assert dict(tree.inputs)["with a cache"] == 2000
    assert dict(tree.inputs)["times fewer"] == 750
    assert explain_work(1000, 500).value == 1250 * 500


def test_suggestions_are_planned_again():
    plan = fit(textbook(8192))
    found = {suggestion.change: suggestion.effect for suggestion in suggest(plan)}
    assert found["--kv-dtype fp8"] == "324 sequences of 8,192 tokens instead of 162"
    assert "--ctx" not in " ".join(found)


def test_the_suggestion_is_the_change_that_makes_it_fit():
    big = model(*(GQA,) * 80, weights=dense(70 * 10**9, 80))
    plan = fit(textbook(8192, model=big, options=Options(overhead=0), parallel=Parallel()))
    assert not plan.fits
    larger = replace(GPU, id="test-200", memory=fact(200 * 10**9))
    slower = replace(larger, id="slow-200", bandwidth=fact(10**12))
    changes = {found.change: found.effect for found in suggest(plan, (slower, larger))}
    # 140 GB on 72 GB usable: half of it leaves 2 GB, and one sequence of 2.68 GB split in two fits; fp8 alone leaves 2 GB
    assert set(changes) == {"--tp 2", "--pp 2", "--gpu test-200"}
    after = fit(replace(plan.request, parallel=Parallel(tp=2)))
    assert isinstance(after.outcome, Fit)
    assert changes["--tp 2"].startswith(f"fits: {after.max_sequences} sequence")


def test_a_shorter_context_that_fits():
    plan = fit(textbook(2**21))
    changes = {found.change: found.effect for found in suggest(plan)}
    assert changes["--ctx 1330176"] == "fits: 1 sequence of 1,330,176 tokens"  # 54.5 GB / 40,960 B, down to 1,024s


def test_a_shorter_context_for_so_many():
    changes = {found.change: found.effect for found in suggest(fit(textbook(8192, concurrency=200)))}
    assert changes["--ctx 6144"] == "fits: 216 sequences of 6,144 tokens"  # 54.5 GB / (6,144 x 40,960 B) = 216.6
