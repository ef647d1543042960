"""The command `kvplan fit`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.cli import asked
from kvplan.cli import options as o
from kvplan.cli.command import MODULES, Answer, Command
from kvplan.cli.option import Argument, Values
from kvplan.errors import DoesNotFit, UsageError

if TYPE_CHECKING:
    from kvplan.api import FitQuestion
    from kvplan.hardware.gpu import Gpu
    from kvplan.report.schema import FitReport, FitTable


def run(values: Values) -> Answer:
    """Plan one model, or every bundled one."""
    from kvplan import api

    gpu, question = _question(values)
    if not values.arguments:
        if question.emit is not None:
            raise UsageError("--emit needs a MODEL", hint="kvplan fit llama-3-70b --gpu h100x8 --emit vllm")
        table = api.fit_all(gpu, question)
        return Answer(table, exit_code=_verdict(table))
    as_document = question.emit is None or _carries_a_command(values)
    report = api.fit(asked.weighed(values.arguments[0], values), gpu, question)
    if not as_document:
        return _emitted(report, values)
    return Answer(report, exit_code=0 if report.verdict == "fits" else 1)


def _question(values: Values) -> tuple[Gpu, FitQuestion]:
    """Raises: UsageError, UnknownName, CannotSplit."""
    from kvplan import api

    gpu, parallel, counted = asked.hardware(values)
    return gpu, api.FitQuestion(
        context=values.get(o.CTX_ONE),
        parallel=parallel,
        kv_dtype=values.get(o.KV_DTYPE),
        engine=values.get(o.ENGINE),
        options=asked.engine_options(values),
        weights=values.get(o.WEIGHTS),
        weight_dtype=values.get(o.WEIGHT_DTYPE),
        concurrency=values.get(o.CONCURRENCY),
        batch=values.get(o.BATCH),
        end=asked.end(values),
        calibration=values.get(o.CALIBRATION),
        emit=values.get(o.EMIT),
        called=next(iter(values.arguments), None),
        counted=counted,
        draft=asked.draft(values),
    )


def _carries_a_command(values: Values) -> bool:
    """Whether --emit's command is a key of a JSON document, the one format that has it, or is printed alone.

    Raises: UsageError for a format on the command line that would drop it.
    """
    named = values.get(o.FORMAT) or ()
    if values.on(o.JSON) or "json" in named:
        return True
    if values.flagged(o.FORMAT):
        raise UsageError(
            f"--emit and --format {','.join(named)} can't be combined",
            cause="--emit prints only the command; the only format that also has it is JSON (`launch`)",
            hint="leave --format out, or write --format json",
        )
    return False


def _verdict(table: FitTable) -> int:
    """0 if a model fits, 1 if none does, 2 if none could be planned."""
    if not table.rows:
        return 2
    return 0 if any(row.verdict == "fits" for row in table.rows) else 1


def _emitted(report: FitReport, values: Values) -> Answer:
    """What --emit prints, on stdout or in the files asked for.

    Raises: DoesNotFit.
    """
    if report.launch is None:
        change = next(iter(report.suggestions), None)
        raise DoesNotFit(
            f"{report.model.id} does not fit, so --emit has nothing to print",
            cause=report.reason or report.binding,
            hint=None if change is None else f"{change.change}: {change.effect}",
        )
    files = values.all(o.OUTPUT)
    if files:
        from kvplan.cli.files import write_all

        write_all(dict.fromkeys(files, report.launch))
    return Answer(text="" if files else report.launch)


COMMAND = Command(
    name="fit",
    about=MODULES["fit"],
    run=run,
    examples=(
        "kvplan fit llama-3.1-70b --gpu h100 --tp 8 --ctx 128k",
        "kvplan fit llama-3-70b --gpu h100x8 --ctx 8k --concurrency 200 --kv-dtype fp8",
        "kvplan fit ./config.json --gpu auto --explain",
        "kvplan fit --gpu 4090 --ctx 8k",
        "kvplan fit llama-3-70b --gpu h100 --tp 8 --ctx 8k --emit vllm",
        "kvplan fit llama-3-70b --gpu h100 --tp 8 --max-loras 4 --max-lora-rank 64 --draft llama-3.2-1b",
        "kvplan fit llama-3-70b --gpu h100 --tp 8 --ctx 8k --format table,json -o plan.json",
    ),
    arguments=(
        Argument("MODEL", "a bundled name, Hub id, path, folder, YAML or -; none: every bundled model", completes="models"),
    ),
    options=(
        o.GPU, o.GPU_MEMORY, o.GPU_BANDWIDTH, *o.PARALLEL, o.CTX_ONE, o.CONCURRENCY, o.KV_DTYPE, o.WEIGHT_DTYPE, o.ENGINE,
        o.UTILIZATION, o.KV_MEMORY, o.WEIGHTS, o.OVERHEAD, o.BATCH, o.CALIBRATION, o.SAFE, o.LIKELY, *o.ENGINE_FLAGS, *o.BESIDE,
        *o.FROM_HUB, o.EXPLAIN, o.EMIT, *o.PRINTING,
    ),
    more="Exit code 1 means that it doesn't fit; without MODEL, that no bundled model does.",
)  # fmt: skip
