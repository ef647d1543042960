"""Every real config: its decoder, built on the meta device, has just the parameters and cache that were predicted."""

# ruff: noqa: E402 - nothing of this can be imported without torch

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs torch, the verify extra")

from kvplan import families
from kvplan.arch.formats import FORMATS, KvFormat
from kvplan.arch.model import Model, Origin
from kvplan.arch.parallel import Parallel
from kvplan.errors import CannotSplit, ConfigError, KvplanError
from kvplan.verify import ladder
from kvplan.verify.blueprint import blueprint
from kvplan.verify.live.checks import bytes_held, reads
from kvplan.verify.live.kernels.attend import Query
from kvplan.verify.live.layers import feed_forward
from kvplan.verify.live.layers.decoder import Decoder
from kvplan.verify.live.layers.mixer import Alone, Build, Caching
from kvplan.verify.live.ledger import Ledger
from kvplan.verify.live.rows import Layout
from kvplan.verify.predict import Predicted
from kvplan.verify.reduce import read_by, reduced
from kvplan.verify.sizing import choose
from kvplan.verify.verdict import Row

pytestmark = pytest.mark.torch
META = torch.device("meta")
FP8 = KvFormat(FORMATS["fp8"], FORMATS["fp8"])


def rows(model: Model, tp: int) -> list[Row]:
    """Weights and cache of one rank, at the model's real size, without memory."""
    model.check_split(Parallel(tp=tp))
    kept = reduced(model, choose(model, tp, None).keep)
    plan = blueprint(kept, tp)
    decoder = Decoder(plan, Build(Ledger(META, None), plan.hidden, torch.bfloat16, Alone()))
    predicted = Predicted(kept, tp, FP8)
    caching = Caching(3, 5000, FP8, Layout())
    decoder.allocate(caching)
    return [*bytes_held.weights(predicted, decoder), *bytes_held.caches(predicted, decoder, caching)]


def distinct(model: Model) -> tuple[int, ...]:
    """One layer of each kind that can be built, with every layer that shares a cache and the one it shares with."""
    kinds: dict[object, int] = {}
    for index in choose(model, 1, None).keep:
        layer, block = model.layers[index], None if model.weights is None else id(model.weights.layers[index])
        kinds.setdefault((layer.caches, layer.shares_with, block), index)
    sources = {model.layers[index].shares_with for index in kinds.values()}
    return tuple(sorted({*kinds.values(), *(source for source in sources if source is not None)}))


def rows_read(model: Model, tp: int, rank: int) -> list[Row]:
    """What a step of each kind of layer of a rank reads, cache and weights, at real sizes and without memory."""
    model.check_split(Parallel(tp=tp))
    kept = reduced(model, distinct(model))
    plan = blueprint(kept, tp)
    decoder = Decoder(plan, Build(Ledger(META, None), plan.hidden, torch.bfloat16, Alone(rank)))
    inventory = None if kept.weights is None else read_by(kept.weights, plan, rank)
    tokens = 5000 if ladder.whole(plan, 5000) else 64
    decoder.allocate(Caching(1, tokens, FP8, Layout()))
    ids = torch.zeros(1, dtype=torch.int64, device=META)
    ids = torch.zeros((1, plan.hidden), dtype=torch.bfloat16, device=META) if decoder.embedding is None else ids
    counted = reads.count(decoder, ids, tokens)
    predicted = Predicted(kept, tp, FP8, None, inventory)
    assert predicted.weights_read_touching(1, counted.touched) == predicted.weights_read(1)
    return list(reads.step(predicted, counted, tokens))


@pytest.mark.parametrize(("tp", "rank"), [(1, 0), (2, 1)])
def test_real_configs_read_what_was_predicted(corpus: Path, tp: int, rank: int, count_cases, monkeypatch):
    """Tensors of the meta device have no contents and no address: storages are told apart as objects, experts are as picked."""

    def touch(tokens: torch.Tensor, weights: torch.Tensor, _ends: torch.Tensor) -> torch.Tensor:
        return tokens.new_empty((tokens.shape[0], weights.shape[1])) + weights[: tokens.shape[0]].sum()

    def read(query: Query) -> torch.Tensor:
        found = query.queries.new_empty((*query.queries.shape[:2], query.v_dim))
        return found if query.sink is None else found + query.sink.sum()

    monkeypatch.setattr(reads, "by_spans", read)
    monkeypatch.setattr(reads, "_place", lambda tensor: tensor.untyped_storage()._cdata)
    monkeypatch.setattr(feed_forward, "_by_expert", touch)
    monkeypatch.setattr(feed_forward.Experts, "distinct", lambda experts: experts.part.picked)
    verdicts: Counter[str] = Counter()
    wrong = []
    for path in sorted((corpus / "configs").glob("*.json")):
        try:
            model = families.read(json.loads(path.read_text()), Origin(path.stem, "corpus"))
            found = rows_read(model, tp, rank)
        except (ConfigError, CannotSplit):
            continue
        verdicts.update(row.verdict for row in found)
        wrong += [(path.stem, row.what, row.predicted, row.measured) for row in found if row.verdict == "refuted"]
    count_cases(f"reads of real configs at TP {tp}", verdicts.total())
    assert not wrong
    assert verdicts["confirmed"] > 300


@pytest.mark.parametrize("tp", [1, 4])
def test_real_configs_hold_what_was_predicted(corpus: Path, tp: int, count_cases):
    verdicts: Counter[str] = Counter()
    wrong = []
    for path in sorted((corpus / "configs").glob("*.json")):
        try:
            found = rows(families.read(json.loads(path.read_text()), Origin(path.stem, "corpus")), tp)
        except (ConfigError, CannotSplit):
            continue
        except KvplanError as error:
            wrong.append((path.stem, str(error)))
            continue
        verdicts.update(row.verdict for row in found)
        wrong += [(path.stem, row.what, row.predicted, row.measured) for row in found if row.verdict == "refuted"]
    count_cases(f"rows of real configs at TP {tp}", verdicts.total())
    assert not wrong
    assert verdicts["confirmed"] > 500
