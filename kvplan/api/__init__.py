"""The public functions, which `import kvplan` offers and every command calls.

    load_model, load_gpu           descriptions, from wherever they are
    weigh                          a model with the bytes of its checkpoint's own headers
    size, fit, fit_all, compare    answers, as the documents that --json prints (kvplan.report.schema)
    models, gpus, engines, env     what kvplan knows and where it runs
    to_json                        a document as the command line prints it

Models and GPUs can be given as objects or by name, as on the command line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kvplan.api import given
from kvplan.api.given import load_gpu, load_model, weigh
from kvplan.api.question import FitQuestion
from kvplan.arch.model import Model
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Options
from kvplan.errors import KvplanError, UsageError
from kvplan.plan.request import NO_FLAGS, ONE_GPU
from kvplan.report import schema
from kvplan.units import LARGEST

if TYPE_CHECKING:
    from kvplan.arch.formats import KvFormat
    from kvplan.arch.weights import Kept
    from kvplan.hardware.gpu import Gpu
    from kvplan.report.schema.common import Setting

__all__ = [
    "FitQuestion", "KvplanError", "Model", "Options", "Parallel", "compare", "engines", "env", "fit", "fit_all", "gpus",
    "load_gpu", "load_model", "models", "size", "to_json", "weigh",
]  # fmt: skip

PACKAGES = ("pydantic", "huggingface_hub", "pyyaml", "nvidia-ml-py", "torch", "transformers", "vllm", "sglang")
"""Packages whose versions `env` reports."""

PLAINLY = FitQuestion()


def size(  # noqa: PLR0913 - all but the model by name, each of them an option of the command
    model: Model | str,
    *,
    contexts: Sequence[int] = (),
    kv_dtype: KvFormat | str | None = None,
    parallel: Parallel = ONE_GPU,
    engine: str = "ideal",
    gpu: Gpu | str | None = None,
    options: Options = NO_FLAGS,
    prompt: int | None = None,
    weight_dtype: Kept | str | None = None,
    batch: int = 1,
) -> schema.SizeReport:
    """What sequences of `contexts` tokens keep; by default one sequence of the model's own maximum.

    gpu: for engines whose rules depend on it. prompt: tokens of the longest context that are the prompt, for the
    arithmetic of what the cache saves. weight_dtype: a format to convert the weights to. batch: sequences of the decode
    step whose reads of weights are reported.

    Raises: CannotSplit, UnknownName; ConfigError and SourceError if the model has to be loaded.
    """
    from kvplan.api.size_remarks import remarks
    from kvplan.plan.size import SizeRequest, default_length, unstated_length
    from kvplan.plan.size import size as plan
    from kvplan.report.assemble.size import size_report

    _check_common(parallel, options)
    lengths = given.several("contexts", contexts, "8192")
    for tokens in lengths:
        given.check_whole("contexts", tokens, most=LARGEST)
    given.check_whole("prompt", prompt, most=LARGEST)
    given.check_whole("batch", batch)
    known = given.stored(given.model(model), weight_dtype)
    request = SizeRequest(
        known,
        given.engine(engine),
        lengths or (default_length(known),),
        parallel,
        given.kv_format(kv_dtype),
        options,
        None if gpu is None else given.gpu(gpu),
    )
    sizing = plan(request)
    return size_report(sizing, prompt, batch, None if lengths else unstated_length(known), remarks(request))


def fit(model: Model | str, gpu: Gpu | str, question: FitQuestion = PLAINLY) -> schema.FitReport:
    """Whether it fits, how many sequences at once, how long, how fast, and what would help.

    Raises: CannotSplit, UsageError, UnknownName; ConfigError and SourceError if the model has to be loaded.
    """
    from kvplan.api import remarks
    from kvplan.api.launch import launch, share
    from kvplan.api.question import planned
    from kvplan.plan.suggest import suggest
    from kvplan.report.assemble.fit import fit_report
    from kvplan.sources.gpus import all_gpus

    given.check_is("question", question, FitQuestion, example="kvplan.FitQuestion(context=8192)")
    _check_common(question.parallel, question.options)
    found, said = planned(given.model(model), given.gpu(gpu), question)
    said = (*said, *remarks.likely(found))
    pasted = launch(found, question, said)
    changes = suggest(found, () if found.fits else all_gpus())
    return fit_report(found, changes, said, share=share(found), launch=pasted)


def fit_all(gpu: Gpu | str, question: FitQuestion = PLAINLY, names: Iterable[str] | None = None) -> schema.FitTable:
    """`fit` for every bundled model (or for `names`), without trees and suggestions.

    Models that can't be planned are listed with the reason.

    Raises: UnknownName for a GPU, an engine, a format or a bundled model; BadFile for a file that isn't a calibration;
    and what loading a draft raises.
    """
    from kvplan.api.question import looked_up, planned
    from kvplan.report.assemble.fit import fit_report
    from kvplan.report.schema.fit import Skipped

    given.check_is("question", question, FitQuestion, example="kvplan.FitQuestion(context=8192)")
    _check_common(question.parallel, question.options)
    named = None if names is None else given.several("names", names, "'llama-3-8b'")
    device, rows, skipped = given.gpu(gpu), [], []
    question = looked_up(question, device)
    for name, model in given.bundled(named):
        try:
            found, said = planned(model, device, question)
        except KvplanError as error:
            skipped.append(Skipped(name, error.problem.what))
        else:
            rows.append(fit_report(found, (), said, explain=False))
    return schema.FitTable(schema.schema_id("fit_table"), tuple(rows), tuple(skipped))


def compare(
    compared: Iterable[Model | str],
    *,
    context: int | None = None,
    kv_dtypes: Sequence[KvFormat | str] = (),
    attentions: Sequence[str] = (),
    parallel: Parallel = ONE_GPU,
) -> schema.CompareReport:
    """Models, cache formats and kinds of attention side by side, at one length.

    context: by default the shortest maximum that the models state.

    Raises: CannotSplit, UnknownName, UsageError; ConfigError and SourceError if a model has to be loaded.
    """
    from kvplan.plan.compare import compare as plan
    from kvplan.plan.size import default_length, unstated_length
    from kvplan.report.assemble.compare import compare_report

    given.check_whole("context", context, most=LARGEST)
    _check_common(parallel)
    known = [given.model(model) for model in given.several("compared", compared, "'llama-3-8b', 'deepseek-v3'")]
    if not known:
        raise UsageError("nothing to compare", hint="kvplan compare llama-3-8b deepseek-v3")
    tokens = context or default_length(*known)
    formats = tuple(given.kv_format(kv) for kv in given.several("kv_dtypes", kv_dtypes, "'bf16', 'fp8'")) or (None,)
    kinds = given.several("attentions", attentions, "'mha', 'mla'")
    chosen = unstated_length(*known) if context is None else None
    return compare_report(plan(known, tokens, formats, kinds, parallel), parallel, chosen)


def _check_common(parallel: Parallel, options: Options = NO_FLAGS) -> None:
    """Raises: UsageError for arguments of another type."""
    given.check_is("parallel", parallel, Parallel, example="kvplan.Parallel(tp=8)")
    given.check_is("options", options, Options, example="kvplan.Options(utilization=0.9)")


def models(names: Sequence[str] = (), *, offline: bool = False) -> schema.ModelsReport:
    """The bundled models; or the named ones, bundled or not, each with its description.

    Raises: UnknownName, and what loading a model raises.
    """
    from kvplan.report.assemble.lists import listed_model
    from kvplan.sources.bundled import bundled_models

    names = given.several("names", names, "'llama-3-8b'")
    known = {record.name: record for record in bundled_models()}
    if not names:
        listed = [listed_model(model, known[name].aliases, known[name].source) for name, model in given.bundled()]
        return schema.ModelsReport(schema.schema_id("models"), tuple(listed))
    from kvplan.sources.dump import dump

    described = []
    for model in (given.load_model(name, offline=offline) for name in names):
        record = known.get(model.origin.id) if model.origin.bundled else None
        aliases, source = (record.aliases, record.source) if record is not None else ((), model.origin.source)
        described.append(listed_model(model, aliases, source, dump(model)))
    return schema.ModelsReport(schema.schema_id("models"), tuple(described))


def gpus(names: Sequence[str] = ()) -> schema.GpusReport:
    """All known accelerators, or those named.

    Raises: UnknownName.
    """
    from kvplan.report.assemble.lists import listed_gpu
    from kvplan.sources.gpus import all_gpus, all_slices

    names = given.several("names", names, "'h100'")
    slices: dict[str | None, list[str]] = {}
    for part in all_slices():
        slices.setdefault(part.mig_of, []).append(part.id)
    found = tuple(_explained(name) for name in names) or all_gpus()
    listed = tuple(listed_gpu(gpu, tuple(slices.get(gpu.id, ()))) for gpu in found)
    return schema.GpusReport(schema.schema_id("gpus"), listed)


def _explained(name: str) -> Gpu:
    """The GPU of that name. Its first note says why a name that could mean several devices means this one."""
    from kvplan.sources.gpus import meaning

    gpu, why = load_gpu(name), meaning(name)
    return gpu if why is None else replace(gpu, notes=(f"{why}.", *gpu.notes))


def engines() -> schema.EnginesReport:
    """The engines whose rules are known."""
    from kvplan.engines.registry import engines as registered
    from kvplan.report.assemble.lists import listed_engine

    return schema.EnginesReport(schema.schema_id("engines"), tuple(listed_engine(about) for about in registered()))


def env(settings: Iterable[Setting] = ()) -> schema.EnvReport:
    """Versions, platform and GPUs of this machine, for a bug report. settings: those in force, with their origin."""
    import platform

    from kvplan import __version__
    from kvplan.sources.gpus import all_gpus
    from kvplan.sources.models import model_names

    driver, here = _machine()
    return schema.EnvReport(
        schema=schema.schema_id("env"),
        kvplan=__version__,
        python=f"{platform.python_version()} ({platform.python_implementation()})",
        platform=platform.platform(),
        packages={name: _installed(name) for name in PACKAGES},
        bundled_models=len(model_names()),
        bundled_gpus=len(all_gpus()),
        driver=driver,
        gpus_here=here,
        settings=tuple(settings),
    )


def _machine() -> tuple[str, tuple[str, ...]]:
    """The driver and the GPUs that it shows, or why there is no driver."""
    from kvplan.sources.nvml import read_machine

    try:
        machine = read_machine()
    except KvplanError as error:
        return error.problem.what, ()
    return f"{machine.driver}, CUDA {machine.cuda or 'unknown'}", tuple(local.name for local in machine.gpus)


def _installed(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def to_json(document: schema.Document) -> str:
    """The document as `--json` prints it."""
    from kvplan.report.data import as_json

    return as_json(document)
