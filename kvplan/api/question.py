"""The question that `fit` answers. Names in it are looked up and missing values filled in before it is planned."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, get_args

from kvplan.api import given
from kvplan.arch.formats import KvFormat
from kvplan.arch.model import Model
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Options
from kvplan.errors import UnknownName, Unsupported, UsageError
from kvplan.plan.request import DEFAULT_ENGINE, NO_FLAGS, ONE_GPU, End, Request
from kvplan.units import LARGEST

if TYPE_CHECKING:
    from kvplan.arch.weights import Kept
    from kvplan.hardware.gpu import Gpu
    from kvplan.plan.calibration import Calibration
    from kvplan.plan.fit import Plan

ENDS = get_args(End)
DRAFTED = 3
"""Tokens that a draft model proposes per step by default. The memory hardly depends on it."""


@dataclass(frozen=True, slots=True)
class FitQuestion:
    """What to plan, besides model and GPU."""

    context: int | None = None
    """Tokens of one sequence, None for the model's own maximum."""
    parallel: Parallel = ONE_GPU
    """Parallel sizes."""
    kv_dtype: KvFormat | str | None = None
    """Format of the cache, None for auto."""
    engine: str | None = None
    """An engine's name, or `vllm@0.33` for a release; None for vLLM."""
    options: Options = NO_FLAGS
    """The engine's flags, adapters included."""
    weights: int | None = None
    """Bytes of the whole model in place of the computed ones."""
    weight_dtype: Kept | str | None = None
    """A format to convert the weights to, None for the checkpoint's own."""
    concurrency: int | None = None
    """Sequences that must be admitted at once, None to ask how many can be."""
    batch: int | None = None
    """Sequences of the decode step that is timed, None for as many as fit."""
    end: End = "safe"
    """The end of an uncertain budget that decides."""
    calibration: Calibration | str | None = None
    """A receipt of `kvplan verify` on such a GPU, or its file. Its measurements make the likely time of a step."""
    emit: str | None = None
    """What to print for a plan that fits: "vllm" for a command, "k8s" for a pod; None for neither."""
    called: str | None = None
    """The name that the model was asked for by. It decides which of its repositories is served; None for the first."""
    draft: Model | str | None = None
    """A model that drafts for it."""
    draft_called: str | None = None
    """The name that the draft was asked for by, if `draft` isn't a name."""

    def __post_init__(self) -> None:
        """Raises: BadSize, UnknownName, naming the field."""
        given.check_whole("context", self.context, most=LARGEST)
        given.check_whole("weights", self.weights, most=LARGEST)
        given.check_whole("concurrency", self.concurrency)
        given.check_whole("batch", self.batch)
        if self.end not in ENDS:
            raise UnknownName(f"end: {self.end!r} isn't an end of a range", hint=f"known: {', '.join(ENDS)}")


def looked_up(question: FitQuestion, gpu: Gpu) -> FitQuestion:
    """The question with its names looked up, once for all models.

    Raises: UnknownName, BadFile; UsageError for a calibration of another GPU; what loading a draft raises.
    """
    if question.engine is not None:
        given.engine(question.engine)
    return replace(
        question,
        draft=None if question.draft is None else given.model(question.draft),
        draft_called=_draft_called(question),
        kv_dtype=given.kv_format(question.kv_dtype),
        weight_dtype=given.kept(question.weight_dtype),
        calibration=given.calibration(question.calibration, gpu),
    )


def planned(model: Model, gpu: Gpu, question: FitQuestion) -> tuple[Plan, tuple[str, ...]]:
    """The plan, and remarks to print with it.

    If the default engine can't serve the model or the GPU, the formula plans it, unless that engine was asked for.
    """
    from kvplan.api import remarks
    from kvplan.engines.ideal import Ideal
    from kvplan.plan.fit import fit as plan

    request = asked(model, gpu, question)
    try:
        found = plan(request)
        said = (*remarks.warnings(found, question.engine), *remarks.timed(found))
    except Unsupported as refused:
        if question.engine is not None or question.emit is not None:
            raise
        found = plan(asked(model, gpu, replace(question, engine=Ideal().name)))
        said = (*remarks.warnings(found, None), *remarks.timed(found))
        return found, (f"{refused.problem.what}: planned by the formula.", *said)
    if question.context is None:
        return _with_length(found), (*remarks.length(found.request), *said)
    return found, said


def asked(model: Model, gpu: Gpu, question: FitQuestion) -> Request:
    """The request that a plan is made of: names looked up, defaults filled in.

    Raises: UsageError, UnknownName, CannotSplit.
    """
    _check_weights(question)
    return _request(*_with_draft(given.stored(model, question.weight_dtype), question), gpu)


def _check_weights(question: FitQuestion) -> None:
    """Refuse weights that are given in more than one way.

    Raises: UsageError.
    """
    if question.weight_dtype is not None and question.weights is not None:
        raise UsageError("--weights and --weight-dtype can't be combined", hint="leave one of them out")
    if question.options.weights_per_gpu is not None and (question.weights or question.weight_dtype) is not None:
        other = "weight_dtype" if question.weights is None else "weights"
        raise UsageError(
            f"the weights of each GPU are given, and {other} of the whole model too",
            hint=f"leave FitQuestion.{other} or Options.weights_per_gpu out",
        )


def _with_length(plan: Plan) -> Plan:
    """The plan with its default length among the assumed flags."""
    flag = plan.request.engine.words.length
    if flag is None:
        return plan
    assumed = ((flag, str(plan.request.context)), *plan.budget.assumed)
    return replace(plan, budget=replace(plan.budget, assumed=assumed))


def _request(model: Model, question: FitQuestion, gpu: Gpu) -> Request:
    engine = given.engine(question.engine or DEFAULT_ENGINE)
    context = question.context or engine.default_context(model).tokens
    if context is None:
        raise UsageError(
            f"{model.origin.id} states no maximum context",
            cause=model.context.reason,
            hint="state the length: --ctx 8k, or `context: 8k` in a budget",
        )
    options, parallel = question.options, question.parallel
    if question.weights is not None:
        options = replace(options, weights_per_gpu=-(-question.weights // (parallel.tp * parallel.pp)))
    return Request(
        model=model,
        gpu=gpu,
        engine=engine,
        context=context,
        parallel=parallel,
        kv=given.kv_format(question.kv_dtype),
        options=options,
        concurrency=question.concurrency,
        batch=question.batch,
        end=question.end,
        calibration=given.calibration(question.calibration, gpu),
    )


def _with_draft(model: Model, question: FitQuestion) -> tuple[Model, FitQuestion]:
    """The model with its draft, and the question with the number of drafted tokens.

    Raises: CannotSplit; UsageError if the weights of either model aren't known.
    """
    if question.draft is None:
        return model, question
    from kvplan.arch.extras import with_draft

    draft, options, parallel = given.model(question.draft), question.options, question.parallel
    draft.check_split(Parallel(tp=parallel.tp, dcp=parallel.dcp))
    _check_vocabularies(model, draft)
    told = replace(options, speculative_tokens=options.speculative_tokens or DRAFTED)
    return with_draft(model, draft, _served(draft, _draft_called(question))), replace(question, options=told)


def _draft_called(question: FitQuestion) -> str | None:
    """The name that the draft was asked for by, if there is one."""
    return question.draft if isinstance(question.draft, str) else question.draft_called


def _served(draft: Model, called: str | None) -> str:
    """The name that a server finds the draft by: its repository, or its id if it has none."""
    from kvplan.sources.served import served_name

    try:
        return served_name(draft, called)
    except UsageError:
        return draft.origin.id


def _check_vocabularies(model: Model, draft: Model) -> None:
    """Refuse a draft whose vocabulary isn't the model's.

    Source: vLLM 0.33 config/speculative.py verify_equal_vocab_size_if_draft_model.

    Raises: UsageError.
    """
    own, drafted = model.vocabulary, draft.vocabulary
    if own is not None and drafted is not None and own != drafted:
        raise UsageError(
            f"{draft.origin.id} can't draft for {model.origin.id}",
            cause=f"its vocabulary has {drafted:,} entries, the model's has {own:,}; engines require that they are equal",
            hint="give a draft model of the same family with the same vocabulary",
        )
