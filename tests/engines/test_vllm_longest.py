"""The longest request: what vLLM 0.33 makes of --max-model-len -1 and states as its estimated maximum, asked of its own planner."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from engines.vllm_rows import GPUS, options

from kvplan.arch.formats import parse_kv_format
from kvplan.arch.model import Model, Origin
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Refusal, Setup
from kvplan.engines.vllm.policy import Vllm
from kvplan.engines.vllm.started import Started
from kvplan.errors import KvplanError
from kvplan.families import read

DATA = Path(__file__).parents[1] / "data"


def started(model: Model, row: dict[str, Any], context: int) -> Started:
    parallel = Parallel(tp=row["tp"], pp=row["pp"], dcp=row["flags"].get("dcp", 1))
    kv = None if row["kv_cache_dtype"] == "auto" else parse_kv_format(row["kv_cache_dtype"])
    return Vllm().start(Setup(model, GPUS[row["gpu"]], parallel, kv, options(row["flags"]), context))


def answer(model: Model, row: dict[str, Any]) -> dict[str, object]:
    """What kvplan says of a row's question, by the row's names."""
    available, whole = row["available_bytes"], Vllm().longest_context(model) or 0
    try:
        found = started(model, row, whole).capacity(available)
    except KvplanError:
        return {"error": row.get("error")}
    if "estimated" in row:
        stated = re.search(r"estimated maximum model length is (\d+)", getattr(found, "message", ""))
        return {"estimated": stated and int(stated[1])}
    longest = found.max_context
    pool = started(model, row, longest).capacity(available) if longest else None
    if pool is None or isinstance(pool, Refusal):
        return {"longest": longest}
    return {"longest": longest, "num_blocks": pool.blocks, "kv_tokens": pool.kv_tokens}


def test_the_longest_request_is_vllms_own(corpus, count_cases):
    rows = [json.loads(line) for line in (DATA / "vllm-longest.jsonl").read_text().splitlines()]
    models = {
        name: read(json.loads((corpus / "configs" / name).read_text()), Origin(name, name))
        for name in {row["file"] for row in rows}
    }
    asked = ("longest", "num_blocks", "kv_tokens", "estimated", "error")
    differing = [
        (row, found)
        for row in rows
        if (found := answer(models[row["file"]], row)) != {name: row[name] for name in asked if name in row}
    ]
    assert differing == []
    count_cases("vllm longest requests", len(rows))
