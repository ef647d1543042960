"""What a step reads is counted in the step itself, and equals what was worked out by hand and what is predicted."""

# ruff: noqa: E402 - nothing of this can be imported without torch

from __future__ import annotations

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="needs torch, the verify extra")

from verify import tiny

from kvplan.arch.formats import FORMATS, KvFormat
from kvplan.arch.weights import Weights
from kvplan.verify import Options, verify
from kvplan.verify.blueprint import blueprint
from kvplan.verify.live.checks import reads
from kvplan.verify.live.layers.decoder import Decoder
from kvplan.verify.live.layers.mixer import Alone, Build, Caching
from kvplan.verify.live.ledger import Ledger
from kvplan.verify.live.rows import Layout
from kvplan.verify.predict import Predicted
from kvplan.verify.reduce import read_by, reduced
from kvplan.verify.verdict import Row

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("quick")]
QUICK = Options(device="cpu", batches=(1, 2), contexts=(64, 128))
H, FF, V = 64, 96, 256
"""Of every tiny model: hidden size, feed-forward, vocabulary."""


def step(
    kind: str, tokens: int, kv: str = "bf16", page: int | None = None, *, tp: int = 1, rank: int = 0, batch: int = 1
) -> tuple[Row, Row]:
    """The two rows of one step of a rank of a tiny model."""
    model = tiny.model(kind)
    model = reduced(model, tuple(range(len(model.layers))))
    plan, both = blueprint(model, tp), KvFormat(FORMATS[kv], FORMATS[kv])
    assert model.weights is not None
    predicted = Predicted(model, tp, both, page, read_by(model.weights, plan, rank))
    decoder = Decoder(plan, Build(Ledger(torch.device("cpu"), None), plan.hidden, torch.bfloat16, Alone(rank)))
    decoder.allocate(Caching(batch, tokens, both, Layout(page)))
    decoder.fill()
    counted = reads.count(decoder, torch.arange(3, 3 + batch), tokens)
    cache, weights = reads.step(predicted, counted, tokens)
    return cache, weights


LATENT_LAYER = 48 * 2
"""A latent of 32 and a rotary key of 16, in bf16."""


@pytest.mark.parametrize(
    ("kind", "tokens", "kv", "page", "expected"),
    [
        ("gqa", 37, "bf16", None, 3 * 37 * 2 * (16 + 16) * 2),
        ("gqa", 37, "int8_per_token_head", 16, 3 * 37 * 2 * 2 * (16 + 4)),  # a page is stored whole and not read whole
        ("sliding", 100, "bf16", None, (3 * 32 + 100) * 2 * 32 * 2),  # three of four layers see 32 tokens
        ("mla", 37, "fp8", None, 3 * 37 * 48),
        # Sixteen latents of 100, and the index keys of all: 128 in fp8 with a scale of four bytes.
        ("sparse mla", 100, "bf16", None, 3 * (16 * LATENT_LAYER + 100 * 132)),
        ("sparse mla", 10, "bf16", None, 3 * (10 * LATENT_LAYER + 10 * 132)),
        # Two layers that keep two columns of 64 channels, and one of attention.
        ("short convolution", 37, "bf16", None, 2 * 2 * 64 * 2 + 37 * 2 * 32 * 2),
    ],
)
def test_cache_read_by_a_step(kind, tokens, kv, page, expected):
    cache, _ = step(kind, tokens, kv, page)
    assert (cache.verdict, cache.measured, cache.predicted) == ("confirmed", expected, expected)


def test_weights_used_by_a_step():
    """q, k, v, o, gate, up, down and two norms a layer; a final norm, the head, one row of the embedding."""
    _, weights = step("gqa", 37)
    layer = H * (4 * 16 + 2 * 2 * 16) + 4 * 16 * H + 3 * H * FF + 2 * H
    assert weights.measured == weights.predicted == 2 * (3 * layer + H + V * H + H)


@pytest.mark.parametrize("kind", tiny.CONFIGS)
def test_every_kind_uses_what_is_predicted(kind):
    """One sequence picks just as many experts as a token picks; what is held is neither used nor predicted."""
    cache, weights = step(kind, 64)
    assert (cache.verdict, weights.verdict) == ("confirmed", "confirmed"), (cache, weights)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_bias_of_a_sum_is_read_by_rank_0_alone(rank):
    """Source: vLLM 0.33 layers/linear.py, RowParallelLinear: `bias_ = None if (self.tp_rank > 0 ...) else self.bias`.

    A half of starcoder2: q, k, v, o, up and down, the biases of q, k, v and up, two norms; those of o and down once.
    """
    _, weights = step("output biases", 37, tp=2, rank=rank)
    matrices = H * (2 * 16 + 2 * 16) + 2 * 16 * H + 2 * H * FF // 2
    biases = 2 * 16 + 2 * 16 + FF // 2 + (2 * H if rank == 0 else 0)
    layers = 3 * (matrices + biases + 2 * H)
    assert weights.measured == weights.predicted == 2 * (layers + H + V // 2 * H + H)


@pytest.mark.parametrize("kind", tiny.CONFIGS)
@pytest.mark.parametrize("batch", [1, 2, 5])
def test_every_rank_uses_what_is_predicted(kind, batch):
    cache, weights = step(kind, 64, tp=2, rank=1, batch=batch)
    assert (cache.verdict, weights.verdict) == ("confirmed", "confirmed"), (cache, weights)


def test_weights_used_by_several_sequences():
    """A row of the embedding more for each; of experts as many as were touched, 2 to 6 of 8 by three sequences."""
    _, one = step("gqa", 37)
    _, five = step("gqa", 37, batch=5)
    assert (five.measured or 0) - (one.measured or 0) == 4 * H * 2
    _, one = step("mla", 37)
    _, three = step("mla", 37, batch=3)
    expert = 3 * 32 * H * 2
    assert ((three.measured or 0) - (one.measured or 0) - 2 * H * 2) % expert == 0
    assert three.measured == three.predicted
    assert "of the experts that it touched" in three.rule


def test_what_is_held_is_not_read():
    """The tiny gemma-4 holds projections of per-layer embeddings that no module here reads."""
    model = reduced(tiny.model("shared"), tuple(range(6)))
    plan = blueprint(model, 1)
    assert model.weights is not None
    held = 2 * sum(one.copies * torch.Size(one.shape).numel() for layer in plan.layers for one in layer.held)
    assert held > 0
    less = model.weights.read_bytes(1).likely - read_by(model.weights, plan).read_bytes(1).likely
    ends = model.weights.read_bytes(1).likely - replace(model.weights, first=(), last=()).read_bytes(1).likely
    assert held <= less <= held + ends


@pytest.mark.parametrize("factor", [2, 0.5])
@pytest.mark.parametrize("kind", ["gqa", "mla", "sink logits and experts"])
def test_a_wrong_prediction_of_what_more_sequences_read_is_refuted(kind, factor, monkeypatch):
    right = Weights.reader

    def wrong(self, *given):
        reads = right(self, *given)
        return lambda batch: (
            reads(batch) if batch == 1 else reads(batch)._replace(likely=int(factor * reads(batch).likely))
        )

    monkeypatch.setattr(Weights, "reader", wrong)
    report = verify(tiny.model(kind), QUICK)
    assert [row.what for row in report.rows if row.verdict == "refuted"] == ["weights used by a step of 2 sequences"]


@pytest.mark.parametrize("factor", [2, 0.5])
@pytest.mark.parametrize(("name", "what"), [("reads", "cache asked for"), ("weights_read", "weights used")])
def test_a_wrong_prediction_of_what_is_read_is_refuted(name, what, factor, monkeypatch):
    """A constant factor cancels in the line through the times; it doesn't here."""
    right = getattr(Predicted, name)
    monkeypatch.setattr(Predicted, name, lambda self, count: int(factor * right(self, count)))
    report = verify(tiny.model("gqa"), QUICK)
    refuted = [row for row in report.rows if row.verdict == "refuted"]
    assert report.verdict == "refuted"
    assert refuted
    assert all(row.what.startswith(what) for row in refuted)
    assert {row.error for row in refuted} == {1 / factor - 1}


def test_steps_that_are_timed_are_counted():
    report = verify(tiny.model("gqa"), QUICK)
    row = next(row for row in report.rows if row.what == "cache asked for by 4 steps that were timed")
    assert row.measured == row.predicted == (1 + 2) * (64 + 128) * 384
    # 100 tokens are a chunk of 64 and a part of one, and a prediction is of a whole one.
    chunked = verify(tiny.model("chunked"), replace(QUICK, contexts=(64, 100)))
    assert (
        next(row for row in chunked.rows if row.what == "cache asked for by 2 steps that were timed").verdict
        == "confirmed"
    )
