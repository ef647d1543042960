"""The command `kvplan size`."""

from __future__ import annotations

from kvplan.cli import asked
from kvplan.cli import options as o
from kvplan.cli.command import MODULES, Answer, Command
from kvplan.cli.option import Argument, Values
from kvplan.errors import UsageError
from kvplan.plan.shapes import keep_recent


def run(values: Values) -> Answer:
    """Size one model."""
    from kvplan import api

    model, window, sinks = asked.weighed(values.arguments[0], values), values.get(o.WINDOW), values.get(o.SINKS)
    if window is None and sinks:
        raise UsageError("--sinks needs --window", hint="--sinks 4 --window 1020 keeps 1,024 tokens")
    hardware = asked.hardware(values) if values.was_given(o.GPU) else None
    report = api.size(
        model if window is None else keep_recent(model, window, sinks or 0),
        contexts=values.get(o.CTX) or (),
        kv_dtype=values.get(o.KV_DTYPE),
        parallel=asked.parallel(values) if hardware is None else hardware.parallel,
        engine=values.get(o.ENGINE) or "ideal",
        gpu=None if hardware is None else hardware.gpu,
        options=asked.engine_options(values),
        prompt=values.get(o.PROMPT),
        weight_dtype=values.get(o.WEIGHT_DTYPE),
        batch=values.get(o.BATCH) or 1,
    )
    return Answer(report)


COMMAND = Command(
    name="size",
    about=MODULES["size"],
    run=run,
    examples=(
        "kvplan size llama-3.1-70b --ctx 8k,128k",
        "kvplan size llama-3.1-70b --ctx 8k..128k --kv-dtype fp8 --tp 8",
        "kvplan size ./config.json --json",
        "kvplan size meta-llama/Llama-3.1-8B --engine vllm --explain",
        "kvplan size llama-3-8b --window 1020 --sinks 4",
    ),
    arguments=(Argument("MODEL", "a bundled name, Hub id, path, folder, YAML or -", least=1, completes="models"),),
    options=(
        o.CTX, o.KV_DTYPE, o.WEIGHT_DTYPE, *o.PARALLEL, o.ENGINE, o.GPU, o.BATCH_READ, o.WINDOW, o.SINKS, o.PROMPT, *o.ENGINE_FLAGS, *o.FROM_HUB,
        o.EXPLAIN, *o.PRINTING,
    ),
)  # fmt: skip
