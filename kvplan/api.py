"""The public functions: what `import kvplan` offers and every command calls.

    load_model, load_gpu           descriptions from wherever they are
    weigh                          a model with the bytes of its checkpoint's own headers
    size, fit, fit_all, compare    answers, as the documents that --json prints (kvplan.report.schema)
    models, gpus, engines, env     what kvplan knows and where it runs
    to_json                        a document as the command line prints it

Models and GPUs may be given as objects or as whatever names them on the command line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kvplan.arch.formats import KvFormat, parse_kv_format
from kvplan.arch.model import Model
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Engine, Options
from kvplan.errors import CannotSplit, KvplanError, UnknownName, Unsupported, UsageError
from kvplan.plan.request import NO_FLAGS, ONE_GPU, End, Request
from kvplan.report import schema
from kvplan.units import format_bytes

if TYPE_CHECKING:
    from kvplan.arch.storage import Storage
    from kvplan.hardware.gpu import Gpu
    from kvplan.plan.calibration import Calibration
    from kvplan.plan.fit import Plan
    from kvplan.sources.headers import Progress

__all__ = [
    "FitQuestion", "KvplanError", "Model", "Options", "Parallel", "compare", "engines", "env", "fit", "fit_all", "gpus",
    "load_gpu", "load_model", "models", "size", "to_json", "weigh",
]  # fmt: skip

PACKAGES = ("pydantic", "huggingface_hub", "pyyaml", "nvidia-ml-py", "torch", "transformers", "vllm", "sglang")
"""Whose versions `env` reports."""

DEFAULT_ENGINE = "vllm"
"""Whose rules decide a fit unless another is asked for."""


@dataclass(frozen=True, slots=True)
class FitQuestion:
    """What `fit` and `fit_all` ask besides model and GPU.

    context: tokens of one sequence, None for the model's own maximum. kv_dtype: None for auto. engine: a name, or
    `vllm@0.33`; None for vLLM. weights: bytes of the whole model instead of the computed ones. weight_dtype: the format
    they would be kept in, None for the checkpoint's own. concurrency: sequences that must be admitted. batch: sequences of the decode step that is timed. end: what decides when it is uncertain.
    calibration: a receipt of `kvplan verify` on such a GPU, or its file: its measurements make the likely time of a step.
    emit: "vllm" or "k8s" for what to paste when it fits. called: what the model was called, which says which of its
    repositories is served; None for the first. draft: a model that drafts for it; adapters are among the options.
    """

    context: int | None = None
    parallel: Parallel = ONE_GPU
    kv_dtype: KvFormat | str | None = None
    engine: str | None = None
    options: Options = NO_FLAGS
    weights: int | None = None
    weight_dtype: Storage | str | None = None
    concurrency: int | None = None
    batch: int | None = None
    end: End = "safe"
    calibration: Calibration | str | None = None
    emit: str | None = None
    called: str | None = None
    draft: Model | str | None = None


PLAINLY = FitQuestion()


def load_model(name: str, *, revision: str | None = None, offline: bool = False) -> Model:
    """The model that a bundled name, Hub id, path, folder, YAML or `-` stands for.

    Raises: UnknownName, ConfigError, SourceError.
    """
    from kvplan.sources.compiled import at_once

    known = at_once(name, revision)
    if known is not None:
        return known
    from kvplan.sources.models import load_model as load

    return load(name, revision=revision, offline=offline)


def has_headers(model: Model) -> bool:
    """Whether a checkpoint may lie where the model's description came from; a bundled model has none."""
    return not model.origin.source.startswith("bundled: ")


def weigh(model: Model, *, offline: bool = False, progress: Progress | None = None) -> Model:
    """The model with the bytes of its checkpoint's own headers, and as it was, with a note, where they can't be had.

    They are those of the files beside its config.json, or of its Hub repository, by range requests.
    progress: called with the number of files done and of files in all.

    Raises: ConfigError for a local file that contradicts itself.
    """
    if not has_headers(model):
        return model
    from kvplan.sources.weighing import weigh as by_headers

    return by_headers(model, offline=offline, progress=progress)


def load_gpu(name: str, *, memory: int | None = None, bandwidth: int | None = None) -> Gpu:
    """The GPU of that name, its visible memory (bytes) and bandwidth (bytes/s) replaced if given.

    Raises: UnknownName.
    """
    from kvplan.hardware.gpu import overrides
    from kvplan.sources.gpus import load_gpu as load

    return overrides(load(name), memory=memory, bandwidth=bandwidth)


def size(
    model: Model | str,
    *,
    contexts: Sequence[int] = (),
    kv_dtype: KvFormat | str | None = None,
    parallel: Parallel = ONE_GPU,
    engine: str = "ideal",
    gpu: Gpu | str | None = None,
    options: Options = NO_FLAGS,
    prompt: int | None = None,
    weight_dtype: Storage | str | None = None,
    batch: int = 1,
) -> schema.SizeReport:
    """What sequences of `contexts` tokens keep; by default one of the model's own maximum.

    gpu: for engines whose rules depend on it. prompt: how many of the longest context's tokens are the prompt, for the
    arithmetic of what the cache saves. weight_dtype: a format that the weights would be kept in. batch: sequences of the
    step whose reading of weights is told.

    Raises: CannotSplit, UnknownName; ConfigError and SourceError when the model has to be loaded.
    """
    from kvplan.plan.size import SizeRequest, default_length
    from kvplan.plan.size import size as plan
    from kvplan.report.assemble.size import size_report

    known = _stored(_model(model), weight_dtype)
    lengths = tuple(contexts) or (default_length(known),)
    request = SizeRequest(
        known, _engine(engine), lengths, parallel, _format(kv_dtype), options, None if gpu is None else _gpu(gpu)
    )
    return size_report(plan(request), prompt, batch)


def fit(model: Model | str, gpu: Gpu | str, question: FitQuestion = PLAINLY) -> schema.FitReport:
    """Whether it fits, how many at once, how long, how fast, and what would help.

    Raises: CannotSplit, UsageError, UnknownName; ConfigError and SourceError when the model has to be loaded.
    """
    from kvplan.plan.suggest import suggest
    from kvplan.report.assemble.fit import fit_report

    found, said = _plan(_model(model), _gpu(gpu), question)
    launch = _launch(found, question, said) if question.emit is not None else None
    return fit_report(
        found, suggest(found, () if found.fits else _all_gpus()), said, share=_share(found), launch=launch
    )


def fit_all(gpu: Gpu | str, question: FitQuestion = PLAINLY, names: Iterable[str] | None = None) -> schema.FitTable:
    """The same for every bundled model (or `names`), without trees and suggestions; what can't be planned is listed.

    Raises: UnknownName for a GPU, an engine or a bundled model.
    """
    from kvplan.report.assemble.fit import fit_report

    device, rows, skipped = _gpu(gpu), [], []
    question = replace(question, calibration=_calibration(question.calibration, device))
    for name, model in _bundled(names):
        try:
            found, said = _plan(model, device, question)
        except KvplanError as error:
            skipped.append(schema.Skipped(name, error.problem.what))
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
    """Models, cache formats and attention kinds side by side, at one length: the shortest of the models' own maxima.

    Raises: CannotSplit, UnknownName, UsageError; ConfigError and SourceError when a model has to be loaded.
    """
    from kvplan.plan.compare import compare as plan
    from kvplan.plan.size import default_length
    from kvplan.report.assemble.compare import compare_report

    known = [_model(model) for model in compared]
    if not known:
        raise UsageError("nothing to compare", hint="kvplan compare llama-3-8b deepseek-v3")
    tokens = context or min(default_length(model) for model in known)
    formats = tuple(_format(kv) for kv in kv_dtypes) or (None,)
    return compare_report(plan(known, tokens, formats, tuple(attentions), parallel), parallel)


def models(names: Iterable[str] | None = None) -> schema.ModelsReport:
    """The bundled models, or those named.

    Raises: UnknownName.
    """
    from kvplan.report.assemble.lists import listed_model
    from kvplan.sources.bundled import bundled_models

    known = {record.name: record for record in bundled_models()}
    listed = (listed_model(model, known[name].aliases, known[name].source) for name, model in _bundled(names))
    return schema.ModelsReport(schema.schema_id("models"), tuple(listed))


def gpus(names: Sequence[str] = ()) -> schema.GpusReport:
    """All known accelerators, or those named.

    Raises: UnknownName.
    """
    from kvplan.report.assemble.lists import listed_gpu
    from kvplan.sources.gpus import all_gpus, all_slices

    slices: dict[str | None, list[str]] = {}
    for part in all_slices():
        slices.setdefault(part.mig_of, []).append(part.id)
    found = tuple(_gpu(name) for name in names) or all_gpus()
    listed = tuple(listed_gpu(gpu, tuple(slices.get(gpu.id, ()))) for gpu in found)
    return schema.GpusReport(schema.schema_id("gpus"), listed)


def engines() -> schema.EnginesReport:
    """The engines whose rules are known."""
    from kvplan.engines.registry import engines as registered
    from kvplan.report.assemble.lists import listed_engine

    return schema.EnginesReport(schema.schema_id("engines"), tuple(listed_engine(about) for about in registered()))


def env(settings: Iterable[schema.Setting] = ()) -> schema.EnvReport:
    """Versions, platform and GPUs of this machine, for a bug report. settings: what else is in force, and from where."""
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
    """The driver, or why there is none, and the GPUs it shows."""
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


def layout(parallel: Parallel, count: int | None, *, tp_given: bool) -> Parallel:
    """The parallel sizes for `count` GPUs: the tensor size takes what the others leave, unless it is given.

    Raises: CannotSplit when the sizes don't make that number.
    """
    if count is None or parallel.gpus == count:
        return parallel
    others = parallel.pp * parallel.dp
    if tp_given or count % others:
        raise CannotSplit(
            f"tp {parallel.tp} x pp {parallel.pp} x dp {parallel.dp} is {parallel.gpus} GPUs, not {count}",
            hint="leave the number of GPUs out, or make the sizes multiply to it",
        )
    return replace(parallel, tp=count // others)


def warnings(request: Request, engine: str | None) -> tuple[str, ...]:
    """What about a request deserves a word, whatever the answer. engine: as it was asked for."""
    found, kv, own = [], request.kv_format, request.engine.longest_context(request.model)
    note = _note(engine)
    if note is not None:
        found.append(f"{note}.")
    if own is not None and request.context > own:
        refused = ""
        if request.engine.name == "vllm":
            refused = ": vLLM refuses such a max_model_len without VLLM_ALLOW_LONG_MAX_MODEL_LEN=1"
        found.append(f"{request.context:,} tokens are more than the model's own maximum of {own:,}{refused}.")
    if kv.k.bits <= 4:
        found.append(
            f"{kv.k.name} keys: below 8 bits long-context recall degrades, and keys, with their outlier channels, are "
            "in most measurements the more sensitive side."
        )
    if kv.k.name == "fp8" and request.gpu.fp8_kv_native is False:
        found.append(f"{request.gpu.id} converts fp8 in software: half the bytes, not twice the speed.")
    if request.gpu.unified and request.gpu.host_share is not None:
        kept = format_bytes(request.gpu.host_share.value)
        found.append(
            f"{request.gpu.id} shares its memory with the host, which was seen to keep {kept}: see --gpu-memory."
        )
    return tuple(found)


def _plan(model: Model, gpu: Gpu, question: FitQuestion) -> tuple[Plan, tuple[str, ...]]:
    """The plan and what to say with it. A model that the default engine can't serve is planned by the formula."""
    from kvplan.engines.ideal import Ideal
    from kvplan.plan.fit import fit as plan

    if question.weight_dtype is not None and question.weights is not None:
        raise UsageError(
            "the weights' bytes and their format are both given", hint="leave --weights or --weight-dtype out"
        )
    model, question = _with_draft(_stored(model, question.weight_dtype), question)
    request = _request(model, gpu, question)
    try:
        found, said = plan(request), warnings(request, question.engine)
    except Unsupported as refused:
        if question.engine is not None:
            raise
        simple = _request(model, gpu, replace(question, engine=Ideal().name))
        return plan(simple), (f"{refused.problem.what}: planned by the formula.", *warnings(simple, None))
    if question.context is None:
        return _with_length(found), (*_length_words(found.request), *said)
    return found, said


def _with_length(plan: Plan) -> Plan:
    """The length that nobody gave, among the flags that were assumed."""
    if plan.request.engine.name == "ideal":
        return plan
    assumed = (("max_model_len", str(plan.request.context)), *plan.budget.assumed)
    return replace(plan, budget=replace(plan.budget, assumed=assumed))


def _length_words(request: Request) -> tuple[str, ...]:
    """What the engine's own default length is, where it isn't the model's maximum."""
    own, used = request.model.context.tokens, request.engine.default_context(request.model)
    if used.tokens == own:
        return ()
    beside = "" if own is None else f", not the model's own maximum of {own:,}"
    return (f"Without --ctx {request.engine.name} serves {request.context:,} tokens{beside} ({used.reason}).",)


def _share(plan: Plan) -> tuple[float | None, str | None]:
    """The least gpu_memory_utilization that holds the concurrency asked for; None, and why, when none does."""
    request = plan.request
    if request.concurrency is None or request.options.kv_memory is not None or request.engine.name != "vllm":
        return None, None
    from kvplan.engines.vllm.inverse import utilization
    from kvplan.engines.vllm.policy import Vllm

    if not isinstance(request.engine, Vllm):
        return None, None
    asked = (request.model, request.gpu, request.parallel, plan.kv, request.options, request.context)
    try:
        return utilization(request.engine, *asked, request.concurrency, likely=request.end == "likely"), None
    except KvplanError as no:
        cause = f": {no.problem.cause}" if no.problem.cause else ""
        return None, f"{no.problem.what}{cause}"


EMITTED = ("vllm", "k8s")
"""What FitQuestion.emit may ask for."""


def _launch(plan: Plan, question: FitQuestion, said: tuple[str, ...]) -> str | None:
    """What to paste; None when it doesn't fit.

    Raises: UnknownName, UsageError for a plan that vLLM can't be told.
    """
    from kvplan.engines.vllm import emit
    from kvplan.engines.vllm.policy import Vllm

    request, form = plan.request, question.emit
    if form not in EMITTED:
        raise UnknownName(f"nothing called {form!r} can be emitted", hint=f"known: {', '.join(EMITTED)}")
    if not isinstance(request.engine, Vllm):
        raise UsageError(
            f"--emit {form} needs a plan by vLLM's rules", cause=" ".join(said[:1]) or None, hint="--engine vllm"
        )
    if not plan.fits:
        return None
    from kvplan.sources.served import served_name

    asked = (request.model, request.gpu, request.parallel, request.kv, request.options, request.context)
    told = emit.launch(request.engine, *asked, served_name(request.model, question.called), remarks=said)
    return emit.serve(told) if form == "vllm" else emit.pod(told)


def _note(engine: str | None) -> str | None:
    """What the register says about the version asked for."""
    if engine is None or "@" not in engine:
        return None
    from kvplan.engines.registry import find

    return find(engine).note


def _request(model: Model, gpu: Gpu, question: FitQuestion) -> Request:
    engine = _engine(question.engine or DEFAULT_ENGINE)
    context = question.context or engine.default_context(model).tokens
    if context is None:
        raise UsageError(
            f"{model.origin.id} states no maximum context", cause=model.context.reason, hint="give one: --ctx 8k"
        )
    options, parallel = question.options, question.parallel
    if question.weights is not None:
        options = replace(options, weights=-(-question.weights // (parallel.tp * parallel.pp)))
    return Request(
        model=model,
        gpu=gpu,
        engine=engine,
        context=context,
        parallel=parallel,
        kv=_format(question.kv_dtype),
        options=options,
        concurrency=question.concurrency,
        batch=question.batch,
        end=question.end,
        calibration=_calibration(question.calibration, gpu),
    )


def _calibration(known: Calibration | str | None, gpu: Gpu) -> Calibration | None:
    """What was measured, read from its file if that is what was given.

    Raises: BadFile; UsageError for a receipt of another GPU.
    """
    if isinstance(known, str):
        from kvplan.plan.calibration import calibration
        from kvplan.sources.receipts import read_receipt

        known = calibration(read_receipt(known), known)
    if known is not None:
        known.check(gpu)
    return known


def _engine(spec: str) -> Engine:
    """The engine by name; the formula without looking at the register of the others."""
    if spec == "ideal":
        from kvplan.engines.ideal import Ideal

        return Ideal()
    from kvplan.engines.registry import find

    return find(spec).engine


def _model(model: Model | str) -> Model:
    return load_model(model) if isinstance(model, str) else model


def _bundled(names: Iterable[str] | None) -> Iterator[tuple[str, Model]]:
    """Bundled models by name: all of them, or those named.

    Raises: UnknownName.
    """
    from kvplan.sources.compiled import compiled_models
    from kvplan.sources.models import model_names

    known = compiled_models() or {}
    for name in model_names() if names is None else names:
        yield name, known[name] if name in known else load_model(name, offline=True)


def _gpu(gpu: Gpu | str) -> Gpu:
    return load_gpu(gpu) if isinstance(gpu, str) else gpu


DRAFTED = 3
"""Tokens that a draft model guesses each step unless somebody says; what it takes hardly depends on it."""


def _with_draft(model: Model, question: FitQuestion) -> tuple[Model, FitQuestion]:
    """The model with the one that drafts for it.

    Raises: CannotSplit; UsageError where the weights of either aren't known.
    """
    if question.draft is None:
        return model, question
    from kvplan.arch.extras import with_draft

    draft, options, parallel = _model(question.draft), question.options, question.parallel
    draft.check_split(Parallel(tp=parallel.tp, dcp=parallel.dcp))
    told = replace(options, draft=draft.origin.id, speculative_tokens=options.speculative_tokens or DRAFTED)
    return with_draft(model, draft), replace(question, options=told)


def _stored(model: Model, dtype: Storage | str | None) -> Model:
    """The model with its weights kept otherwise, and a note of what they are.

    Raises: UnknownName; UsageError where the weights aren't known.
    """
    if dtype is None:
        return model
    from kvplan.arch.storage import storage_named

    if model.weights is None:
        raise UsageError(f"the weights of {model.origin.id} aren't known", hint="--weights 140GB instead of a format")
    storage = storage_named(dtype) if isinstance(dtype, str) else dtype
    changed = model.weights.stored_as(storage)
    own = f"{format_bytes(model.weights.bytes)} as published"
    note = f"What if: weights in {storage.name} take {format_bytes(changed.bytes)}; {own}."
    return replace(model, weights=changed, notes=(*model.notes, note))


def _format(kv: KvFormat | str | None) -> KvFormat | None:
    if isinstance(kv, str):
        return None if kv == "auto" else parse_kv_format(kv)
    return kv


def _all_gpus() -> tuple[Gpu, ...]:
    """What else could be used; only a plan that fails asks."""
    from kvplan.sources.gpus import all_gpus

    return all_gpus()
