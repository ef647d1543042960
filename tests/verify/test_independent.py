"""The two sides share as little as can be: a table, an inventory or a kernel that errs is refuted, not repeated."""

# ruff: noqa: E402 - nothing of this can be imported without torch

from __future__ import annotations

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="needs torch, the verify extra")

from verify import tiny

from kvplan.api import load_model
from kvplan.arch.formats import FORMATS, KvFormat
from kvplan.arch.layers import FP8_INDEX, Recurrent
from kvplan.arch.model import Model, map_caches
from kvplan.arch.parallel import Shard
from kvplan.errors import UsageError
from kvplan.report.schema import VerifyReport
from kvplan.verify import Options, verify
from kvplan.verify.live.checks import reads, recompute
from kvplan.verify.live.kernels import attend, readers
from kvplan.verify.live.layers import feed_forward
from kvplan.verify.live.stored import Stored

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("quick")]
QUICK = Options(device="cpu", batches=(1, 2), contexts=(64, 128))


def refuted(report: VerifyReport) -> list[str]:
    return [row.what for row in report.rows if row.verdict == "refuted"]


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("int8_per_token_head", {"row_bits": 16}),
        ("fp8_per_token_head", {"row_bits": 0}),
        ("q8_0", {"scale_bits": 32}),
        ("q8_0", {"block": 16}),
        ("mxfp8", {"block": 16}),
        ("fp8", {"row_bits": 32}),
        ("bf16", {"bits": 32}),
    ],
)
def test_a_format_whose_table_is_wrong(name, wrong, monkeypatch):
    erring = replace(FORMATS[name], **wrong)
    monkeypatch.setitem(FORMATS, name, erring)
    model = tiny.model("gqa", head_dim=32)
    report = verify(model, replace(QUICK, kv=KvFormat(erring, erring)))
    assert any(what.startswith("cache, full") for what in refuted(report)), name


def states(model: Model, **changes: object) -> Model:
    """The model with its recurrent states (not its convolutions) said to be kept otherwise."""

    def changed(cache):
        if not isinstance(cache, Recurrent):
            return cache
        tensors = (replace(one, **changes) if one.role == "recurrent" else one for one in cache.tensors)
        return replace(cache, tensors=tuple(tensors))

    return map_caches(model, changed)


@pytest.mark.parametrize("kind", ["gated delta net", "attention beside mamba2"])
def test_a_state_in_another_format_than_is_kept(kind):
    """A gated delta net's is fp32 by its reference, a Mamba-2's the model's bf16 by vLLM."""
    right, wrong = ("fp32", "bf16") if kind == "gated delta net" else ("bf16", "fp32")
    law = "gated delta net" if kind == "gated delta net" else "mamba2"
    what = f"cache, {law}, 2 x 37 tokens"
    model = tiny.model(kind)
    assert what in refuted(verify(states(model, stored=None, usual=FORMATS[wrong]), QUICK))
    row = next(row for row in verify(model, QUICK).rows if row.what == what)
    assert row.verdict == "confirmed"
    assert ("reference" if right == "fp32" else "vLLM's choice") in row.rule


@pytest.mark.parametrize("kind", ["gated delta net", "attention beside mamba2"])
def test_a_state_by_the_configs_word_is_not_confirmed(kind):
    """Both sides have it from the same reading; the row says so and claims nothing."""
    report = verify(states(tiny.model(kind), stored=FORMATS["fp16"]), QUICK)
    rows = {row.what: row for row in report.rows}
    law = "gated delta net" if kind == "gated delta net" else "mamba2"
    assert rows[f"cache, {law}, 2 x 37 tokens"].verdict == rows["cache, 2 x 37 tokens"].verdict == "reported"
    assert "fp16 by the config's word alone" in rows[f"cache, {law}, 2 x 37 tokens"].rule
    assert rows["cache, full, 2 x 37 tokens"].verdict == "confirmed"


DESCRIBED = """\
kvplan: 1
name: mine
layers: 6
heads: 16
kv_heads: 8
head_dim: 32
hidden_size: 512
"""


@pytest.mark.parametrize(
    ("units", "verdict"),
    [
        (lambda _, share: share, "confirmed"),
        (lambda _, share: share // 2, "refuted"),
        (lambda whole, _: whole, "refuted"),
    ],
    ids=["right", "half", "not split"],
)
def test_a_share_of_a_rank_that_is_wrong(units, verdict, monkeypatch, tmp_path):
    """2 sequences of 37 tokens, 6 layers, 8 / 2 heads of 32 + 32 elements of 2 B, with no inventory to be found out by."""
    (tmp_path / "mine.yaml").write_text(DESCRIBED)
    model, right = load_model(str(tmp_path / "mine.yaml")), Shard.units
    monkeypatch.setattr(Shard, "units", lambda shard, count, what: units(count, right(shard, count, what)))
    report = verify(model, replace(QUICK, tp=2))
    assert report.verdict == verdict
    row = next(row for row in report.rows if row.what == "cache, full, 2 x 37 tokens")
    assert (row.verdict, row.measured) == (verdict, 227_328)


@pytest.mark.parametrize("kind", ["gated delta net", "attention beside mamba2", "short convolution"])
def test_a_share_of_a_state_that_is_wrong(kind, monkeypatch):
    monkeypatch.setattr(Shard, "units", lambda _, count, __: count)
    assert any(what.startswith("cache, ") for what in refuted(verify(tiny.model(kind), replace(QUICK, tp=2))))


def indexed(model: Model, stored) -> Model:
    """The model with its index keys said to be kept otherwise."""
    return map_caches(
        model, lambda cache: replace(cache, indexer=replace(cache.indexer, stored=stored)) if cache.indexer else cache
    )


def test_index_keys_in_another_format_than_is_kept():
    """132 B a key in fp8 with a scale, as vLLM keeps it; another format is the config's word, and a wrong table is refuted."""
    model, what = tiny.model("sparse mla"), "cache, indexer, 2 x 37 tokens"
    rows = {row.what: row for row in verify(model, QUICK).rows}
    assert (rows[what].verdict, rows[what].measured) == ("confirmed", 3 * 2 * 37 * 132)
    assert "as vLLM keeps them" in rows[what].rule
    rows = {row.what: row for row in verify(indexed(model, FORMATS["bf16"]), QUICK).rows}
    assert rows[what].verdict == rows["cache, 2 x 37 tokens"].verdict == "reported"
    assert "bf16 by the config's word alone" in rows[what].rule
    assert rows["cache, latent, 2 x 37 tokens"].verdict == "confirmed"
    assert what in refuted(verify(indexed(model, replace(FP8_INDEX, scale_bits=16)), QUICK))


def test_norms_over_all_heads_are_held():
    """OLMo-2's: as wide as all query heads, and all KV heads, together."""
    model = listed(listed(tiny.model("sliding"), "q_norm", 4), "k_norm", 2)
    rows = {row.what: row for row in verify(model, QUICK).rows}
    assert rows["weights in bf16"].verdict == "confirmed"
    assert rows["weights that are only held"].measured == 4 * 2 * (4 + 2) * 16


@pytest.mark.parametrize("part", ["vision tower (vision_config isn't stated)", "audio tower (x)", "projector (y)"])
def test_a_tower_that_cannot_be_counted_is_not_built_either(part):
    model = tiny.model("gqa")
    assert model.weights is not None
    rows = {
        row.what: row for row in verify(replace(model, weights=replace(model.weights, missing=(part,))), QUICK).rows
    }
    assert rows["weights in bf16"].verdict == rows["weights used by a step of one sequence"].verdict == "confirmed"
    more = replace(model, weights=replace(model.weights, missing=(part, "mamba layers")))
    row = next(row for row in verify(more, QUICK).rows if row.what == "weights")
    assert (row.verdict, row.rule) == ("not run", "the inventory lacks mamba layers")


def test_a_model_of_nothing_but_states_by_the_configs_word():
    """Nothing is left that could be confirmed, and the message says why."""
    model = tiny.model("gated delta net", layer_types=["linear_attention"] * 3)
    with pytest.raises(UsageError, match="no cache was compared") as refused:
        verify(states(model, stored=FORMATS["fp16"]), QUICK)
    assert "fp16 by the config's word alone" in str(refused.value.problem.cause)


def test_a_state_that_is_stated_as_it_is_kept_is_confirmed():
    report = verify(states(tiny.model("attention beside mamba2"), stored=FORMATS["bf16"]), QUICK)
    row = next(row for row in report.rows if row.what == "cache, mamba2, 2 x 37 tokens")
    assert row.verdict == "confirmed"


def listed(model: Model, name: str, rows: float) -> Model:
    """The model whose inventory has `rows` times as many rows of the tensors of that last name."""
    assert model.weights is not None

    def block(weights):
        return tuple(
            replace(one, shape=(int(rows * one.shape[0]), *one.shape[1:])) if name in one.name else one
            for one in weights
        )

    weights = model.weights
    weights = replace(
        weights, first=block(weights.first), last=block(weights.last), layers=tuple(map(block, weights.layers))
    )
    return replace(model, weights=weights)


@pytest.mark.parametrize("rows", [2, 0.5])
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("gqa", "embed_tokens"), ("gqa", "lm_head"), ("gqa", "input_layernorm"), ("gqa", "post_attention_layernorm"),
        ("gqa", "model.norm"), ("sliding", "post_feedforward_layernorm"), ("sliding", "q_norm"), ("sliding", "k_norm"),
        ("sliding", "_norm"),
    ],
)  # fmt: skip
def test_an_inventory_that_lists_other_sizes(kind, name, rows):
    assert "weights in bf16" in refuted(verify(listed(tiny.model(kind), name, rows), QUICK))


@pytest.mark.parametrize("rows", [2, 0.5])
def test_a_vocabulary_that_a_cpu_cuts_is_still_compared(rows):
    model = tiny.model("gqa", vocab_size=9000)
    assert refuted(verify(model, QUICK)) == []
    assert "weights in bf16" in refuted(verify(listed(model, "lm_head", rows), QUICK))


def test_what_is_only_held_is_not_confirmed():
    report = verify(tiny.model("shared"), QUICK)
    rows = {row.what: row for row in report.rows}
    assert rows["weights that are only held"].verdict == "reported"
    assert rows["weights in bf16"].verdict == "confirmed"
    both = (rows["weights in bf16"].measured or 0) + (rows["weights that are only held"].measured or 0)
    assert report.built is not None
    assert both == report.built.weights_bytes


def test_a_scale_that_is_decoded_wrongly(monkeypatch):
    """Decoding and recomputing both see it; what was to be stored does not."""
    right = Stored.decode
    monkeypatch.setattr(
        Stored, "decode", lambda self, elements, scale, dtype: right(self, elements, None if scale is None else scale * 0.5, dtype)
    )  # fmt: skip
    int8 = FORMATS["int8_per_token_head"]
    report = verify(tiny.model("gqa"), replace(QUICK, kv=KvFormat(int8, int8)))
    assert any("steps of the format" in what for what in refuted(report))


@pytest.mark.parametrize(
    "name", ["fp8", "fp8_e5m2", "int8", "int8_per_token_head", "fp8_per_token_head", "q8_0", "mxfp8"]
)
def test_every_format_is_within_its_own_steps(name):
    report = verify(tiny.model("gqa", head_dim=32), replace(QUICK, kv=KvFormat(FORMATS[name], FORMATS[name])))
    row = next(row for row in report.rows if "steps of the format" in row.what)
    assert row.verdict == "confirmed"
    assert 0.2 < (row.measured or 0) <= 1  # a bound far above what rounding does would notice nothing


def test_experts_that_nobody_picked_are_counted_when_they_are_read(monkeypatch):
    def every(tokens, weights, _ends):
        return torch.stack([tokens @ one.t() for one in weights]).mean(0)

    monkeypatch.setattr(feed_forward, "_by_expert", every)
    assert "weights used by a step of one sequence" in refuted(verify(tiny.model("mla"), QUICK))


@pytest.mark.parametrize("kind", ["gqa", "sink logits and experts", "mla", "sparse mla"])
def test_a_reader_that_loses_slots_of_long_caches(kind, monkeypatch):
    """Even the plain one, which small caches are compared with."""
    right = attend.by_spans

    def half(query):
        return right(replace(query, slots=query.slots // 2) if query.slots > 80 or query.chosen is not None else query)

    for module in (recompute, reads, readers, attend):
        monkeypatch.setattr(module, "by_spans", half)
    monkeypatch.setattr(readers, "sdpa_can", lambda _: False)
    assert refuted(verify(tiny.model(kind), QUICK)) != []


@pytest.mark.parametrize("kind", tiny.CONFIGS)
@pytest.mark.parametrize("page", [None, 16])
def test_readers_are_compared_at_the_longest_context(kind, page):
    report = verify(tiny.model(kind), replace(QUICK, page=page))
    rows = [row for row in report.rows if row.what.startswith("reading ") and row.unit == "difference"]
    assert rows
    assert all(row.verdict == "confirmed" for row in rows), rows
