"""kvplan fit."""

from __future__ import annotations

from kvplan.cli import asked
from kvplan.cli import options as o
from kvplan.cli.command import MODULES, Answer, Command
from kvplan.cli.option import Argument, Values


def run(values: Values) -> Answer:
    """Plan one model, or every bundled one."""
    from kvplan import api

    gpu, parallel = asked.gpus_and_layout(values)
    question = api.FitQuestion(
        context=values.get(o.CTX_ONE),
        parallel=parallel,
        kv_dtype=values.get(o.KV_DTYPE),
        engine=values.get(o.ENGINE),
        options=asked.engine_options(values),
        weights=values.get(o.WEIGHTS),
        concurrency=values.get(o.CONCURRENCY),
        batch=values.get(o.BATCH),
        end=asked.end(values),
    )
    if not values.arguments:
        table = api.fit_all(gpu, question)
        return Answer(table, exit_code=0 if any(row.verdict == "fits" for row in table.rows) else 1)
    report = api.fit(asked.model(values.arguments[0], values), gpu, question)
    return Answer(report, exit_code=0 if report.verdict == "fits" else 1)


COMMAND = Command(
    name="fit",
    about=MODULES["fit"],
    run=run,
    examples=(
        "kvplan fit llama-3-70b --gpu h100 --tp 8 --ctx 128k",
        "kvplan fit llama-3-70b --gpu h100x8 --ctx 8k --concurrency 200 --kv-dtype fp8",
        "kvplan fit ./config.json --gpu auto --explain",
        "kvplan fit --gpu 4090 --ctx 8k",
        "kvplan fit llama-3-70b --gpu h100 --tp 8 --ctx 8k --format table,json -o plan.json",
    ),
    arguments=(
        Argument("MODEL", "a bundled name, Hub id, path, folder, YAML or -; none: every bundled model", completes="models"),
    ),
    options=(
        o.GPU, o.GPU_MEMORY, o.GPU_BANDWIDTH, *o.PARALLEL, o.CTX_ONE, o.CONCURRENCY, o.KV_DTYPE, o.ENGINE,
        o.UTILIZATION, o.KV_MEMORY, o.WEIGHTS, o.OVERHEAD, o.BATCH, o.SAFE, o.LIKELY, *o.ENGINE_FLAGS, *o.FROM_HUB,
        o.EXPLAIN, *o.PRINTING,
    ),
    more="Exit code 1 means that it doesn't fit; without MODEL, that no bundled model does.",
)  # fmt: skip
