"""Everything about verify that needs no torch: what to build, what to predict, what to time, what a receipt says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from verify import tiny

from kvplan.arch.formats import FORMATS, KvFormat, parse_kv_format
from kvplan.arch.layers import Attention, Latent, Layer, Recurrent, StateTensor
from kvplan.arch.model import Context, Model, Origin
from kvplan.errors import CannotSplit, Unsupported
from kvplan.units import MIB
from kvplan.verify import ladder, line, mixers
from kvplan.verify.blueprint import blueprint
from kvplan.verify.parts import (
    OWN,
    AttentionPart,
    Blueprint,
    DeltaPart,
    DensePart,
    ExpertsPart,
    LatentPart,
    LayerPlan,
    MambaPart,
)
from kvplan.verify.predict import Predicted, workspace_bytes
from kvplan.verify.reduce import reduced
from kvplan.verify.sizing import bytes_of_each, choose, layer_bytes
from kvplan.verify.verdict import Row, at_least, exact, not_run, outcome, reported, within, worst

BF16 = KvFormat(FORMATS["bf16"], FORMATS["bf16"])


def plain(*layers: Layer, hidden: int | None = 64) -> Model:
    """A model without an inventory of weights."""
    return Model(Origin("hand", "made"), "hand", layers, FORMATS["bf16"], Context(4096, ""), hidden, 256)


def test_a_llama_rank():
    plan = blueprint(tiny.model("gqa"), 2)
    assert plan.layers[0].mixers == (AttentionPart(2, 1, 16, 16),)
    assert plan.layers[0].feed_forwards == (DensePart(48),)
    assert plan.layers[0].norms == 2
    assert (plan.vocab, plan.head, plan.tied, plan.held) == (128, 128, False, ())


def test_more_ranks_than_kv_heads_keep_a_whole_one():
    assert blueprint(tiny.model("gqa"), 4).layers[0].mixers == (AttentionPart(1, 1, 16, 16),)
    with pytest.raises(CannotSplit):
        blueprint(tiny.model("gqa"), 3)


def test_what_weights_say_beside_the_cache():
    biased = blueprint(tiny.model("mha with biases"), 1).layers[0].mixers[0]
    assert isinstance(biased, AttentionPart)
    assert (biased.bias, biased.out_bias, biased.norms) == (True, False, False)
    normed = blueprint(tiny.model("sliding"), 1).layers[0]
    assert isinstance(normed.mixers[0], AttentionPart)
    assert normed.mixers[0].norms
    assert {idle.name for idle in normed.idle} == {"pre_feedforward_layernorm", "post_feedforward_layernorm"}
    assert normed.held == ()
    sinks = blueprint(tiny.model("sink logits and experts"), 2).layers[0]
    assert isinstance(sinks.mixers[0], AttentionPart)
    assert sinks.mixers[0].sink_logits
    assert sinks.feed_forwards == (ExpertsPart(8, 2, 48),)


def test_latents_experts_and_states():
    dense, expert = (blueprint(tiny.model("mla"), 2).layers[at] for at in (0, 1))
    assert dense.mixers == (LatentPart(2, 32, 16, 16, 16, q_rank=24),)
    assert dense.feed_forwards == (DensePart(48),)
    assert expert.feed_forwards == (ExpertsPart(8, 2, 16, shared=16),)
    delta = blueprint(tiny.model("gated delta net"), 2).layers
    assert delta[0].mixers == (DeltaPart(1, 2, 16, 16, 4, mixers._KEPT["gated delta net"]),)
    assert isinstance(delta[2].mixers[0], AttentionPart)
    assert delta[2].mixers[0].gate
    beside = blueprint(tiny.model("attention beside mamba2"), 1).layers[0].mixers
    assert isinstance(beside[0], AttentionPart)
    assert isinstance(beside[1], MambaPart)
    assert replace(beside[1], kept=OWN) == MambaPart(8, 16, 2, 16, 4, norm=True, conv_bias=True)


@pytest.mark.parametrize(
    ("count", "tp", "share"),
    [(8, 1, 8), (8, 2, 4), (8, 8, 1), (8, 32, 1), (6, 3, 2), (1, 5, 1), (8, 3, None), (8, 12, None), (6, 4, None)],
)
def test_what_a_rank_has_of_heads_groups_and_channels(count, tp, share):
    """An equal share, or one that several ranks hold alike. Source: vLLM 0.33 config/model.py get_num_kv_heads."""
    if share is not None:
        assert mixers._share(count, tp, "KV heads") == share
        return
    with pytest.raises(CannotSplit, match=f"--tp {tp} can't split {count} KV heads"):
        mixers._share(count, tp, "KV heads")


def test_a_shared_cache_names_the_layer_it_reads():
    layers = blueprint(tiny.model("shared"), 1).layers
    assert [mixer.shares for layer in layers for mixer in layer.mixers if isinstance(mixer, AttentionPart)] == [
        None, None, None, None, 3, 2,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (Layer((Attention(None, 2, 16, 16),)), "query heads"),
        (Layer((Attention(4, 2, 16, 16, topk=8),)), "block-sparse"),
        (Layer((Latent(None, 32, 16),)), "heads"),
        (Layer((Latent(40, 256, 32, nope_dim=64),)), "the size of its value heads (v_head_dim"),
        (Layer((Recurrent("rwkv", (StateTensor("shift", 1, ((4, 8),)),), ""),)), "rwkv"),
    ],
)
def test_what_has_no_module_is_refused_by_name(layer, reason):
    with pytest.raises(Unsupported) as refused:
        blueprint(plain(layer), 1)
    assert reason in str(refused.value.problem.cause)
    with pytest.raises(Unsupported):
        choose(plain(layer), 1, None)
    able = Layer((Attention(4, 2, 16, 16),))
    assert choose(plain(able, layer, able), 1, None).keep == (0, 2)


def test_a_description_is_told_to_say_more_and_not_to_be_compared_with_transformers():
    described = replace(plain(Layer((Attention(None, 2, 16, 16),))), family="kvplan")
    for model, hint in ((described, "complete the description"), (replace(described, family="llama"), "--meta")):
        with pytest.raises(Unsupported) as refused:
            choose(model, 1, None)
        assert hint in str(refused.value.problem.hint)


def test_a_cache_that_is_shared_is_read_by_each_of_its_layers():
    """Two layers of 2 x (16 + 16) elements, one of which a third and a fourth read as well."""
    own = Layer((Attention(4, 2, 16, 16),))
    model = plain(own, own, Layer((), 1), Layer((), 2))
    assert Predicted(model, 1, BF16).cache_bytes(10) == 2 * 10 * 128
    assert Predicted(model, 1, BF16).reads(10) == 4 * 10 * 128


def test_a_model_that_keeps_its_hidden_size_to_itself():
    with pytest.raises(Unsupported, match="hidden size"):
        blueprint(plain(Layer((Attention(4, 2, 16, 16),)), hidden=None), 1)


def test_layers_that_fit_begin_with_one_of_each_kind():
    model = tiny.model("sliding", num_hidden_layers=8)  # sliding, sliding, full, sliding, ...
    each = layer_bytes(model.weights, 0, 1, "bf16")
    # q, k, v, o, gate, up and down projections, four norms of 64 and two of 16, at two bytes
    assert each == 2 * (64 * (64 + 32 + 32 + 64) + 3 * 64 * 96 + 4 * 64 + 2 * 16)
    assert choose(model, 1, 2 * each).keep == (0, 2)
    assert choose(model, 1, 4 * each + 1).keep == (0, 1, 2, 3)
    assert choose(model, 1, None, limit=3).keep == (0, 1, 2)
    assert choose(model, 1, 4 * each).skipped == (("for want of memory", 4),)
    assert choose(model, 1, 2 * each, limit=5).skipped == (("for want of memory", 3), ("as asked", 3))
    with pytest.raises(Unsupported, match="no layer") as refused:
        choose(model, 1, each - 1, beside=2**30)
    assert "--memory 1025MiB" in str(refused.value.problem.hint)


def test_kinds_of_layers_that_do_not_fit_are_named():
    """Sliding, sliding, full, ... and one dense layer before those of experts."""
    model = tiny.model("sliding", num_hidden_layers=8)
    each = layer_bytes(model.weights, 0, 1, "bf16")
    assert bytes_of_each(model, 1) == 2 * each
    assert bytes_of_each(model, 1, 1) == each
    assert choose(model, 1, each).unseen == choose(model, 1, None, limit=1).unseen == ("full, as layer 2",)
    assert choose(model, 1, 2 * each).unseen == ()
    experts = tiny.model("mla")
    assert choose(experts, 1, layer_bytes(experts.weights, 0, 1, "bf16")).unseen == ("latent with experts, as layer 1",)
    shared = tiny.model("shared")
    assert choose(shared, 1, None, limit=2).unseen[-1] == "shared cache, as layer 5"
    # What has no module is said elsewhere.
    able, unable = Layer((Attention(4, 2, 16, 16),)), Layer((Attention(4, 2, 16, 16, topk=8),))
    assert choose(plain(able, unable), 1, None).unseen == ()


def test_a_sharing_layer_brings_the_layer_it_shares_with():
    model = tiny.model("shared")
    keep = choose(model, 1, None, limit=5).keep
    assert all(model.layers[at].shares_with in (None, *keep) for at in keep)
    cut = reduced(model, (0, 2, 5))
    assert [layer.shares_with for layer in cut.layers] == [None, None, 1]
    assert cut.weights is not None
    assert len(cut.weights.layers) == 3


def test_a_cut_model_keeps_its_shapes_and_loses_rows():
    cut = reduced(tiny.model("gqa"), (0,), 100)
    assert cut.weights is not None
    # one layer, 100 rows of embedding and head, the final norm
    assert cut.weights.bytes == 2 * (64 * (64 + 32 + 32 + 64) + 3 * 64 * 96 + 2 * 64 + 2 * 100 * 64 + 64)


def test_pages_round_every_law_up():
    sliding, full = Layer((Attention(4, 2, 16, 16, window=40),)), Layer((Attention(4, 2, 16, 16),))
    predicted = Predicted(plain(sliding, full), 1, BF16, page=16)
    assert predicted.by_kind(100) == {"sliding": 48 * 128, "full": 112 * 128}
    assert predicted.cache_bytes(100) == 160 * 128
    assert replace(predicted, page=None).cache_bytes(100) == 140 * 128
    assert predicted.reads(100) == 140 * 128


@given(pool=st.integers(0, 10**6), batch=st.integers(1, 9), page=st.sampled_from([None, 1, 16, 24]))
def test_the_longest_context_fits_and_the_next_does_not(pool, batch, page):
    predicted = Predicted(
        plain(Layer((Attention(4, 2, 16, 16),)), Layer((Attention(4, 2, 16, 16, window=40),))), 1, BF16, page
    )
    tokens = predicted.longest(pool, batch)
    assert batch * predicted.cache_bytes(tokens) <= pool or tokens == 0
    assert batch * predicted.cache_bytes(tokens + (page or 1)) > pool


def test_the_crossover_is_where_cache_and_weights_are_equal():
    predicted = Predicted(reduced(tiny.model("gqa"), (0, 1, 2)), 1, BF16)
    weights, tokens = predicted.weights_read(4), predicted.crossover(4)
    assert weights is not None
    assert tokens is not None
    assert 4 * predicted.reads(tokens) >= weights > 4 * predicted.reads(tokens - 1)
    fixed = Predicted(reduced(tiny.model("short convolution"), (0, 2)), 1, BF16)
    assert fixed.crossover(1) is None


def test_a_limit_leaves_no_room_for_one_more():
    model = reduced(tiny.model("gqa"), (0, 1, 2))
    plan, predicted = blueprint(model, 1), Predicted(model, 1, BF16)
    room = workspace_bytes(plan, 8) + 10**6
    found = ladder.limit(predicted, plan, room, 8)
    assert found is not None
    each = predicted.cache_bytes(found.tokens)
    assert found.batch * each <= found.pool < (found.batch + 1) * each
    assert ladder.limit(predicted, plan, MIB, 8) is None
    fixed = reduced(tiny.model("short convolution"), (0, 2))
    kept = ladder.limit(Predicted(fixed, 1, BF16), blueprint(fixed, 1), room, 8)
    assert kept is not None
    assert (kept.batch, kept.tokens) == (256, 4096)


def test_each_mixer_has_a_page_table_of_its_own_length():
    """Of 100 tokens in pages of 16: 7 of all tokens, 3 of a window of 40, 4 of chunks of 64; none of a state, none of another's."""
    full, latent = AttentionPart(4, 2, 16, 16), LatentPart(2, 32, 16, 16, 16)
    window, chunk = replace(full, window=40), replace(full, chunk=64)
    layers = (
        LayerPlan((full, MambaPart(8, 16, 2, 16, 4))), LayerPlan((window,)), LayerPlan((chunk,)), LayerPlan((latent,)),
        LayerPlan((DeltaPart(2, 4, 16, 16, 4),)), LayerPlan((replace(full, shares=0),)), LayerPlan((replace(latent, window=40),)),
    )  # fmt: skip
    plan = Blueprint(64, 0, tied=False, dtype=FORMATS["bf16"], layers=layers)
    assert ladder.table_bytes(plan, 100, 3, 16) == 3 * 4 * (7 + 3 + 4 + 7 + 3)
    assert ladder.table_bytes(plan, 100, 3, 1) == 3 * 4 * (100 + 40 + 64 + 100 + 40)
    assert ladder.table_bytes(plan, 100, 3, None) == 0


@pytest.mark.parametrize("kind", ["gqa", "sliding", "mla", "gated delta net"])
@pytest.mark.parametrize("page", [1, 16])
def test_page_tables_come_out_of_the_room(kind, page):
    """Caches in pages, their tables and what a step makes are no more than there is, and nearly that."""
    model = tiny.model(kind, num_key_value_heads=1)
    plan, predicted = blueprint(model, 1), Predicted(model, 1, parse_kv_format("fp8"), page)
    room = workspace_bytes(plan, 8) + 10**7
    found = ladder.limit(predicted, plan, room, 8)
    assert found is not None
    taken = found.pool + ladder.table_bytes(plan, found.tokens, found.batch, page)
    assert 0.95 * 10**7 < taken <= 10**7
    for rung in ladder.rungs(predicted, plan, room, (4,)):
        tables = ladder.table_bytes(plan, rung.contexts[-1], rung.batch, page)
        assert rung.batch * predicted.cache_bytes(rung.contexts[-1]) + tables <= room - workspace_bytes(
            plan, rung.batch
        )


def test_rungs_fit_and_are_whole_chunks():
    model = reduced(tiny.model("chunked"), (0, 1, 2))
    plan, predicted = blueprint(model, 1), Predicted(model, 1, BF16)
    room = workspace_bytes(plan, 64) + 10**6
    for rung in ladder.rungs(predicted, plan, room):
        assert rung.contexts == tuple(sorted(rung.contexts))
        assert all(context % 64 == 0 for context in rung.contexts)
        assert rung.batch * predicted.cache_bytes(rung.contexts[-1]) <= room - workspace_bytes(plan, rung.batch)
    asked = ladder.rungs(predicted, plan, workspace_bytes(plan, 2) + 10**6, (2,), (128, 64, 10**9))
    assert asked == (ladder.Rung(2, (64, 128)),)


def test_the_line_tells_weights_from_cache():
    """Made of 3 ms of weights at batch 1, 4 ms at batch 8, and cache at 2 TB/s, the fit finds just these."""
    points = [
        line.Point(batch, 0, 10**9, size, size, first + size / 2e12)
        for batch, first in ((1, 3e-3), (8, 4e-3))
        for size in (10**8, 10**9, 4 * 10**9, 8 * 10**9)
    ]
    found = line.fit(points)
    assert found is not None
    assert found.kv_bytes_per_s == pytest.approx(2e12)
    assert found.intercept(1) == pytest.approx(3e-3)
    assert found.intercept(8) == pytest.approx(4e-3)
    # The line through the three others of its batch puts 8 GB where they lie: 3 ms and 4 ms later.
    others = line.held_out(points, points[3])
    assert others is not None
    assert others.intercepts == ((1, pytest.approx(3e-3)),)
    assert others.intercept(1) + 8e9 / others.kv_bytes_per_s == pytest.approx(7e-3)
    assert line.held_out(points[1:], points[3]) is None
    assert line.fit(points[:1]) is None
    assert line.fit([]) is None


def test_a_verdict_follows_from_the_error_and_its_bound():
    assert exact("bytes", "x", "B", 4, 4).verdict == "confirmed"
    assert exact("bytes", "x", "B", 4, 5).verdict == "refuted"
    assert within("time", "x", "s", 1.0, 1.09, 0.1, "").verdict == "confirmed"
    assert within("time", "x", "s", 1.0, 0.89, 0.1, "").verdict == "refuted"
    assert at_least("time", "x", "share", 0.85, 0.9, "").verdict == "confirmed"
    assert at_least("time", "x", "share", 0.85, 0.8, "").verdict == "refuted"
    assert within("time", "x", "s", 2.0, 1.5, 1, "").error == -0.25
    assert reported("time", "x", "s", None, 1.5, "").error is None
    rows = (exact("bytes", "x", "B", 1, 1, core=True), not_run("time", "x", "s", ""))
    assert outcome(rows) == "confirmed"
    assert outcome((*rows, exact("bytes", "x", "B", 1, 2))) == "refuted"
    assert outcome(rows[1:]) is None
    # Without a cache that was compared nothing is confirmed, whatever else is.
    weights = exact("bytes", "weights", "B", 1, 1)
    assert outcome((weights, not_run("bytes", "cache", "B", "", core=True))) is None
    assert outcome((exact("bytes", "weights", "B", 1, 2),)) == "refuted"


def test_what_one_rank_could_not_compare_another_does_not_confirm():
    missed = replace(not_run("bytes", "x", "B", "no room"), rank=1)
    assert worst(((exact("bytes", "x", "B", 4, 4),), (missed,)))[0].verdict == "not run"
    assert worst(((exact("bytes", "x", "B", 4, 5),), (missed,)))[0].verdict == "refuted"


def test_ranks_may_have_made_other_checks():
    """Two mixers of one name are two checks, and a check that only one rank made stays."""
    one, two = exact("bytes", "x", "B", 4, 4), exact("bytes", "x", "B", 8, 8)
    more = exact("bytes", "y", "B", 1, 1)
    assert worst(((one, two), (one, two, more))) == (one, two, more)


def test_the_worst_rank_is_reported():
    def row(measured: float, rank: int) -> Row:
        return replace(within("time", "x", "s", 1.0, measured, 0.1, ""), rank=rank)

    assert worst(((row(1.0, 0),), (row(1.05, 1),), (row(0.99, 2),)))[0].rank == 1
    assert worst(((row(1.3, 0),), (row(0.2, 1),)))[0].measured == 0.2
