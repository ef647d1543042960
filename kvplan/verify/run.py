"""From a model and options to a receipt. This is the only way in; torch is needed from here on."""

from __future__ import annotations

import platform
import time
import warnings
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING

import kvplan
from kvplan.arch.model import Model
from kvplan.arch.parallel import Parallel
from kvplan.errors import KvplanError, UsageError
from kvplan.report.assemble.common import kv_dtype, layout, model_info
from kvplan.report.schema import schema_id
from kvplan.report.schema import verify as schema
from kvplan.verify.options import Options, Progress, silent
from kvplan.verify.torchrun import rank
from kvplan.verify.verdict import Row, outcome

if TYPE_CHECKING:
    from kvplan.verify.live.checks.found import Found
    from kvplan.verify.live.checks.timing import Times

FIRST_CHOICE = "llama-3.1-8b"
PACKAGES = ("torch", "triton", "transformers")
PLAIN = Options()


def verify(model: Model, options: Options = PLAIN, progress: Progress = silent) -> schema.VerifyReport:
    """Build one rank's share of the model with random weights, decode, compare, and give everything back.

    Raises: UsageError without torch, for a device that can't be used or too little memory; Unsupported for a model that
    no module computes, or of which nothing could be checked; CannotSplit.
    """
    need_torch()
    from kvplan.verify.live.procedure import run

    began = time.monotonic()
    found = run(model, options, progress)
    verdict = outcome(found.rows)
    if verdict is None:
        reasons = dict.fromkeys(row.rule for row in found.rows if row.core)
        raise UsageError(
            "no cache was compared with its prediction", cause="; ".join(reasons) or None,
            hint="give more with --memory, build fewer --layers, or take a smaller --block-size",
        )  # fmt: skip
    kept = found.kv.kv
    return schema.VerifyReport(
        schema=schema_id("verify"), verdict=verdict, model=model_info(model), kv_dtype=kv_dtype(kept),
        parallel=layout(Parallel(tp=options.tp)), rank=found.rank, built=_built(found, model, options), machine=_place(found),
        versions=versions(), date=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - began, 1), rows=tuple(checked(found.rows)), steps=tuple(_steps(found.times)),
        measured=_measured(found), readers={} if found.times is None else found.times.readers, notes=tuple(found.notes),
    )  # fmt: skip


def need_torch() -> None:
    """Raises: UsageError if torch is missing or broken, saying how to install it."""
    if find_spec("torch") is None:
        raise UsageError(
            "verify needs torch", cause="it builds the model's layers and decodes for real",
            hint="pip install 'kvplan[verify]', or torch from pytorch.org for your GPU's driver",
        )  # fmt: skip
    with warnings.catch_warnings():
        # torch works without NumPy, and nothing here needs it.
        warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
        try:
            import torch  # noqa: F401 - the first import, so that whatever it complains of is complained of here
        except (ImportError, OSError) as error:
            raise UsageError(
                "torch is installed but can't be imported", cause=str(error).splitlines()[0],
                hint="pip install --force-reinstall torch, in the build for this system",
            ) from error  # fmt: skip


def default_model(options: Options = PLAIN) -> Model:
    """The model without a MODEL: Llama-3.1-8B, or the largest bundled dense model whose share fits.

    On a CPU it is always Llama-3.1-8B, because fewer layers are built there anyway.

    Raises: UsageError for a device that can't be used, or if no model fits.
    """
    from kvplan.api import load_model

    need_torch()
    from kvplan.verify.live.machine import open_device

    first = load_model(FIRST_CHOICE, offline=True)
    _, machine = open_device(options.device)
    room = (options.memory or machine.free * 9 // 10) * 3 // 4
    if not machine.is_cuda or (bytes_on_rank(first, options.tp) or 0) <= room:
        return first
    fitting = [(size, model) for size, model in _dense_models(options.tp) if size <= room]
    if not fitting:
        raise UsageError("no bundled model fits beside a cache", hint="give more with --memory, or split it with --tp")
    return max(fitting, key=lambda pair: pair[0])[1]


def bytes_on_rank(model: Model, tp: int) -> int | None:
    """Bytes of weights of one rank in the model's own dtype; None if they are unknown."""
    from kvplan.verify.reduce import reduced

    whole = reduced(model, tuple(range(len(model.layers))))
    return None if whole.weights is None else whole.weights.bytes_on_rank(Parallel(tp=tp))


def _dense_models(tp: int) -> Iterable[tuple[int, Model]]:
    from kvplan.api import load_model
    from kvplan.sources.models import model_names

    for name in model_names():
        try:
            model = load_model(name, offline=True)
            size = bytes_on_rank(model, tp)
        except KvplanError:
            continue
        if size is not None and model.weights is not None and model.weights.active == model.weights.total:
            yield size, model


def versions() -> dict[str, str | None]:
    """Versions of everything that could make a difference."""
    found: dict[str, str | None] = {"python": platform.python_version(), "system": platform.platform()}
    found["kvplan"] = kvplan.__version__  # the one that runs, whatever else is installed
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    if found["torch"] is not None:
        import torch

        from kvplan.verify.live.machine import allocator_settings

        found["cuda"] = torch.version.cuda
        found |= allocator_settings()
    return found


def checked(rows: Iterable[Row]) -> Iterable[schema.Checked]:
    """The rows as parts of the document."""
    for row in rows:
        yield schema.Checked(
            row.check, row.what, row.unit, row.predicted, row.measured, row.error, row.verdict, row.rule, row.rank
        )


def _built(found: Found, model: Model, options: Options) -> schema.Built:
    left_out = [f"{count} of {len(model.layers)} layers: {reason}" for reason, count in found.sizing.skipped]
    if model.weights is not None:
        left_out += ["towers, which no decode step reads"] if model.weights.towers else []
        left_out += ["draft layers"] if model.weights.draft else []
    return schema.Built(
        layers=len(found.sizing.keep), of_layers=len(model.layers), indices=found.sizing.keep,
        vocabulary=found.plan.vocab, dtype=model.dtype.name, weights_bytes=found.weights_bytes,
        memory_limit_bytes=found.limit, page=options.page, left_out=tuple(left_out), held=found.plan.unread,
    )  # fmt: skip


def _place(found: Found) -> schema.Place:
    machine, gpu = found.machine, found.gpu
    return schema.Place(
        device=machine.device, name=machine.name, gpu=None if gpu is None else gpu.id, memory_bytes=machine.total,
        free_bytes=machine.free, cores=machine.cores,
        capability=None if machine.capability is None else ".".join(map(str, machine.capability)),
        driver=machine.driver, mig=machine.mig, datasheet_bytes_per_s=None if gpu is None else gpu.bandwidth.value,
    )  # fmt: skip


def _steps(times: Times | None) -> Iterable[schema.Timed]:
    for point in () if times is None else times.points:
        assert times is not None  # noqa: S101 - there are points
        yield schema.Timed(
            point.batch, point.context, point.weight_bytes, point.kv_bytes, times.predicted_s(point), point.seconds,
            point.experts,
        )  # fmt: skip


def _measured(found: Found) -> schema.Measured:
    times = found.times
    if times is None:
        return schema.Measured(runtime_bytes=found.runtime_bytes)
    return schema.Measured(
        copy_bytes_per_s=times.copy, kv_bytes_per_s=None if times.line is None else times.line.kv_bytes_per_s,
        weight_bytes_per_s=times.weight_bytes_per_s, launch_floor_s=times.floor_s, kernels=times.kernels,
        overhead_s=times.overhead_s, runtime_bytes=found.runtime_bytes, graphs=times.graphs,
    )  # fmt: skip


def exit_code(report: schema.VerifyReport) -> int:
    """The exit code of a verification: 1 if a prediction was refuted."""
    return 1 if report.verdict == "refuted" else 0


def prints() -> bool:
    """Whether this process prints: under torchrun, only rank 0 does.

    Raises: UsageError for an environment that isn't torchrun's.
    """
    return rank() == 0
