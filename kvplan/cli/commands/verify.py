"""The command `kvplan verify`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from kvplan.cli import asked
from kvplan.cli import options as o
from kvplan.cli.command import MODULES, Answer, Command
from kvplan.cli.option import Argument, Option, Values, natural, switch, words
from kvplan.cli.streams import destinations
from kvplan.errors import BadFile, UsageError
from kvplan.text import all_of
from kvplan.units import parse_some_bytes, parse_token_list, parse_whole

if TYPE_CHECKING:
    from kvplan.verify import Options


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(parse_whole(word) for word in words(text))


KV_DTYPE = o.KV_DTYPE._replace(
    help="cache format: bf16, fp16, fp32, fp8, fp8_e5m2, int8, fp8_per_token_head, int8_per_token_head, q8_0, mxfp8, or K:V",
    completes="held_dtypes",
)
DEVICE = Option("device", "device to run on: auto, cpu, cuda or cuda:1", str, "DEVICE", "a GPU where there is one")
RANK = Option(
    "rank", "tensor rank whose share of --tp one process builds", natural, "N", "0; torchrun's under torchrun"
)
LAYERS = Option("layers", "most layers to build", parse_whole, "N", "as many as fit")
MEMORY = Option(
    "memory",
    "most bytes to take on the device",
    parse_some_bytes,
    "40GiB",
    "90 % of a GPU's free memory; 1.5 GiB of a CPU's, or what a layer of each kind needs",
)
BATCHES = Option("batch", "batches to time", _numbers, "N,N", "a ladder that fits")
CONTEXTS = Option("ctx", "contexts to time: 8k, 8k,32k or 8k..128k", parse_token_list, "TOKENS", "a ladder that fits")
BUDGET_S = Option("budget_s", "seconds that the run may take, roughly", parse_whole, "S", "60")
PAGE = Option("block_size", "tokens of one cache page", parse_whole, "N", "contiguous caches")
BUILDING = (DEVICE, o.TP, RANK, KV_DTYPE, PAGE, LAYERS, BATCHES, CONTEXTS, MEMORY, BUDGET_S)
META = Option("meta", "compare with transformers on the meta device instead: no GPU, no weights", switch)


def run(values: Values) -> Answer:
    """Build the model, decode, and compare."""
    from kvplan import verify

    options = _options(values)
    _check_files(values)
    if values.on(META):
        _check_meta(values)
        from kvplan.verify.meta import against_transformers

        report = against_transformers(
            values.arguments[0], revision=values.get(o.REVISION), offline=values.on(o.OFFLINE)
        )
        return Answer(report, exit_code=verify.exit_code(report))
    named = values.arguments[0] if values.arguments else None
    model = verify.default_model(options) if named is None else asked.model(named, values)
    from kvplan.cli.progress import Progress

    with Progress() as progress:
        report = verify.verify(model, options, progress.draw)
    code = verify.exit_code(report)
    return Answer(report, exit_code=code) if verify.prints() else Answer(exit_code=code)


def _check_files(values: Values) -> None:
    """Refuse output files that can't be written before the run, not a minute later.

    Raises: UsageError, UnknownName, BadFile.
    """
    for path in (Path(file) for file, _ in destinations(values)[1]):
        if path.is_dir() or not os.access(path.parent, os.W_OK):
            because = "it is a folder" if path.is_dir() else "no file can be made in its folder"
            raise BadFile(f"{path} can't be written", cause=because)


def _check_meta(values: Values) -> None:
    """Raises: UsageError without a model, or for flags that don't apply to the meta device."""
    if not values.arguments:
        raise UsageError("--meta needs a MODEL", hint="kvplan verify llama-3.1-8b --meta")
    idle = [option.flag for option in BUILDING if values.flagged(option)]
    if idle:
        raise UsageError(
            f"--meta can't be combined with {all_of(idle)}", cause="--meta compares the whole model with transformers, without a device",
            hint="leave one or the other out",
        )  # fmt: skip


def _options(values: Values) -> Options:
    from kvplan.verify import Options

    return Options(
        device=values.get(DEVICE) or "auto",
        tp=values.get(o.TP) or 1,
        rank=values.get(RANK),
        kv=values.get(KV_DTYPE),
        page=values.get(PAGE),
        layers=values.get(LAYERS),
        batches=values.get(BATCHES) or (),
        contexts=values.get(CONTEXTS) or (),
        memory=values.get(MEMORY),
        budget_s=values.get(BUDGET_S) or 60,
    )


COMMAND = Command(
    name="verify",
    about=MODULES["verify"],
    run=run,
    examples=(
        "kvplan verify",
        "kvplan verify llama-3.1-8b --kv-dtype fp8 --block-size 16",
        "kvplan verify llama-3-70b --tp 8 --rank 0 --json > receipt.json",
        "torchrun --nproc-per-node 8 -m kvplan verify llama-3-70b --tp 8",
        "kvplan verify qwen3-next-80b-a3b --meta",
    ),
    arguments=(
        Argument(
            "MODEL", "a bundled name, Hub id, path, folder, YAML or -; none: llama-3.1-8b, or what fits", completes="models"
        ),
    ),
    options=(
        *BUILDING, META, *o.FROM_HUB, *o.PRINTING,
    ),
    more="Exit code 1 means that a prediction was refuted; 2 that nothing could be checked.",
)  # fmt: skip
