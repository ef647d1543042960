"""The planner that `kvplan check` uses: names looked up once, plans made once, whatever goes wrong kept as an answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kvplan.arch.formats import parse_kv_format
from kvplan.check.budgets.budget import ENDS, Question
from kvplan.check.budgets.flags import changed_options, takes_commands
from kvplan.check.plans import devices
from kvplan.check.plans.lookup import Known, Lookup
from kvplan.check.plans.planning import Outcome, Planned, Refused, Unanswered
from kvplan.check.plans.reasons import no_experts, too_long
from kvplan.check.plans.stated import cast
from kvplan.check.plans.work import Work
from kvplan.errors import REFUSALS, CannotSplit, KvplanError, NotServed, NotSplit, Problem, UsageError
from kvplan.manifests import ENDLESS
from kvplan.plan.fit import Plan
from kvplan.plan.request import Request
from kvplan.report.schema.check import Subject

if TYPE_CHECKING:
    from kvplan.api.question import FitQuestion
    from kvplan.arch.formats import KvFormat
    from kvplan.arch.model import Model
    from kvplan.engines.registry import Found

MOST_SUGGESTIONS = 3
"""Plans for which a change that would help is looked for; each look plans a dozen times."""


class _AboutKeys(Exception):
    """An error, and the keys of a budget that it is about."""

    def __init__(self, error: KvplanError, keys: tuple[str, ...]) -> None:
        super().__init__(str(error))
        self.error, self.keys = error, keys


@contextmanager
def _about(*keys: str) -> Iterator[None]:
    try:
        yield
    except KvplanError as error:
        raise _AboutKeys(error, keys) from None


@dataclass(slots=True)
class CachingPlanner:
    """Plans with kvplan's own engines, and what they are given by name."""

    lookup: Lookup = field(default_factory=Lookup)
    answers: dict[Question, Outcome] = field(default_factory=dict)
    suggested: int = 0

    def plan(self, question: Question) -> Outcome:
        """The answer; never an exception for input that can't be planned."""
        if question not in self.answers:
            try:
                self.answers[question] = self._planned(question)
            except _AboutKeys as about:
                self.answers[question] = _failed(about.error, about.keys, question)
            except KvplanError as error:
                self.answers[question] = _failed(error, (), question)
        return self.answers[question]

    def _planned(self, question: Question) -> Planned:
        from kvplan.api.question import asked

        with _about("revision", "model"):
            known = self.lookup.model(question.model, question.revision)
        with _about("gpu", "gpu_memory"):
            gpu = self.lookup.gpu(devices.named(question.gpu, question.devices), question.gpu_memory)
            devices.check(gpu, question.gpu, question.devices, sized=question.gpu_memory is not None)
        with _about("engine"):
            found = self.lookup.engine(question.engine)
        with _about("kv_dtype"):
            kv = None if question.kv_dtype == "auto" else parse_kv_format(question.kv_dtype)
        with _about("parallel"):
            _check_split(known.model, question)
        with _about("draft", "parallel"):
            request = asked(_as_served(known.model, question), gpu, self._as_of_fit(question, kv))
        work = Work(_endless(request) if question.context == ENDLESS else request, question)
        if question.context == ENDLESS:
            work = work.at_its_longest()
        longest = work.request.context
        if question.tokens is not None and question.tokens > longest:
            raise UsageError(
                f"a limit asks for sequences of {question.tokens:,} tokens, and the longest that is served has {longest:,}",
                hint="raise the context, or lower the limit's `at`",
            )
        return self._answer(work, known, found)

    def _answer(self, work: Work, known: Known, found: Found) -> Planned:
        from kvplan.api.remarks import warnings

        request = work.request
        never = (
            too_long(work.plans["safe"], stretched=work.question.stretched)
            or no_experts(request, work.question)
            or request.engine.contradicts(request.model, work.question.stated)
        )
        noted = (found.note,) if found.note else ()
        reasons = {end: never or work.reason(end) for end in ENDS}
        refused = {end: reason for end, reason in reasons.items() if reason is not None}
        return Planned(
            subject=_subject(work, known),
            numbers=work.numbers(),
            reasons=refused,
            suggestion=self._suggestion(work.plans["safe"]) if "safe" in refused and not never else None,
            short=not never and "safe" in refused,
            # Of what never starts nothing else is worth a word.
            warnings=() if never else warnings(work.plans["safe"], None, unlocked=work.question.stretched) + noted,
        )

    def _as_of_fit(self, question: Question, kv: KvFormat | None) -> FitQuestion:
        """The same question as `kvplan fit` asks it."""
        from kvplan.api.question import FitQuestion

        return FitQuestion(
            context=None if question.context == ENDLESS else question.context,
            parallel=question.parallel,
            kv_dtype=kv,
            engine=question.engine,
            options=question.options,
            draft=None if question.draft is None else self._draft(question.draft, question),
        )

    def _draft(self, name: str, question: Question) -> Model:
        """The model that drafts, as the class that it is loaded as."""
        draft = self.lookup.model(name, None).model
        if question.drafting is None or not takes_commands(question.engine):
            return draft
        from kvplan.engines.vllm.blocks.drafts import as_drafter

        return as_drafter(draft, question.drafting)

    def _suggestion(self, plan: Plan) -> str | None:
        """A single change that would make it start; not a shorter context, which the reason already names."""
        from kvplan.plan.suggest import suggest

        if self.suggested >= MOST_SUGGESTIONS:
            return None
        self.suggested += 1
        changes = (found.change for found in suggest(plan, ()))
        return next((change for change in changes if not change.startswith("--ctx")), None)


def _failed(error: KvplanError, keys: tuple[str, ...], question: Question) -> Outcome:
    """No answer, or a no where that is the engine's own.

    A config that the engine doesn't load may be one that it does with the parts that are replaced: its classes, above all.
    """
    if isinstance(error, NotServed) and question.overridden:
        said = error.problem
        problem = Problem(
            "nobody can tell whether it starts: parts of its config are replaced, and kvplan reads the config without",
            cause=". ".join(part for part in (said.what, said.cause) if part),
            hint=said.hint,
        )
        return Unanswered(problem, error.exit_code, keys)
    if isinstance(error, REFUSALS):
        return Refused(error.problem, keys)
    return Unanswered(error.problem, error.exit_code, keys)


def _check_split(model: Model, question: Question) -> None:
    """Nothing, if the model can be split so.

    Raises: NotSplit for heads that vLLM deals out to no such number of ranks, in any release (ModelConfig's
    verify_with_parallel_config); CannotSplit for what nobody plans.
    """
    try:
        model.check_split(question.parallel)
    except CannotSplit as error:
        if takes_commands(question.engine) and any(heads % question.parallel.tp for heads in model.query_heads):
            problem = error.problem
            raise NotSplit(problem.what, cause=problem.cause, hint=problem.hint) from None
        raise


def _as_served(model: Model, question: Question) -> Model:
    """The model in the dtype asked for, and without layers of its own to draft with where tokens are guessed."""
    from kvplan.arch.extras import without_draft

    served = cast(model, question.stated)
    return without_draft(served) if question.drafting == "guessed" else served


def _endless(request: Request) -> Request:
    """The request with the longest context that the engine takes.

    Raises: UsageError where the model states none.
    """
    own = request.engine.longest_context(request.model)
    if own is None:
        model = request.model
        raise UsageError(
            f"{model.origin.id} states no maximum context", cause=model.context.reason, hint="give one: `context: 8k`"
        )
    return replace(request, context=own)


def _drafter(request: Request) -> dict[str, str]:
    """The model that drafts, beside the options."""
    weights = request.model.weights
    return {} if weights is None or weights.drafter is None else {"draft": weights.drafter}


def _subject(work: Work, known: Known) -> Subject:
    request, parallel = work.request, work.request.parallel
    kv = work.kv
    sizes = {"tp": parallel.tp, "pp": parallel.pp, "dp": parallel.dp, "ep": parallel.ep, "dcp": parallel.dcp}
    return Subject(
        model=known.model.origin.id,
        source=known.model.origin.source,
        revision=known.revision,
        engine=request.engine.name,
        version=request.engine.version,
        gpu=request.gpu.id,
        gpus=parallel.gpus,
        gpu_memory=request.gpu.memory.value,
        parallel=sizes,
        context=request.context,
        kv_dtype=kv.name,
        options={**dict(work.budget.assumed), **changed_options(request.options), **_drafter(request)},
        weights_basis="config" if known.model.weights is None else known.model.weights.basis,
    )
