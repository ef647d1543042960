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
from kvplan.verify.blueprint import blueprint
from kvplan.verify.live import check_bytes
from kvplan.verify.live.decoder import Decoder
from kvplan.verify.live.ledger import Ledger
from kvplan.verify.live.mixer import Alone, Build, Caching
from kvplan.verify.live.rows import Layout
from kvplan.verify.predict import Predicted
from kvplan.verify.reduce import reduced
from kvplan.verify.sizing import choose
from kvplan.verify.verdict import Row

pytestmark = pytest.mark.torch
FP8 = KvFormat(FORMATS["fp8"], FORMATS["fp8"])


def rows(model: Model, tp: int) -> list[Row]:
    """Weights and cache of one rank, at the model's real size, without memory."""
    model.check_split(Parallel(tp=tp))
    kept = reduced(model, choose(model, tp, None).keep)
    plan = blueprint(kept, tp)
    decoder = Decoder(plan, Build(Ledger(torch.device("meta"), None), plan.hidden, torch.bfloat16, Alone()))
    predicted = Predicted(kept, tp, FP8)
    caching = Caching(3, 5000, FP8, Layout())
    decoder.allocate(caching)
    return [check_bytes.weights(predicted, decoder), *check_bytes.caches(predicted, decoder, caching)]


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
