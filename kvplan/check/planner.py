"""The planner that `kvplan check` uses: names looked up once, plans made once, whatever goes wrong kept as an answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from kvplan.arch.formats import parse_kv_format
from kvplan.check.budget import ENDS, End, Question
from kvplan.check.flags import changed_options
from kvplan.check.planning import Outcome, Planned, Unanswered
from kvplan.check.serving import ENDLESS
from kvplan.check.stated import contradicted
from kvplan.engines.base import Capacity, Refusal
from kvplan.engines.ideal import Ideal, drafting
from kvplan.errors import KvplanError, UsageError
from kvplan.plan.fit import NoFit, Plan, fit
from kvplan.plan.request import Request
from kvplan.report.schema.check import Subject, Three
from kvplan.units import format_bytes

if TYPE_CHECKING:
    from kvplan.api.question import FitQuestion
    from kvplan.arch.formats import KvFormat
    from kvplan.arch.model import Model
    from kvplan.arch.parallel import Parallel
    from kvplan.engines.base import Options
    from kvplan.engines.registry import Found
    from kvplan.hardware.gpu import Gpu

T = TypeVar("T")

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
    """Plans with kvplan's own engines. offline: models come from files, the bundled ones and the Hub's cache only."""

    offline: bool = False
    answers: dict[Question, Outcome] = field(default_factory=dict)
    models: dict[tuple[str, str | None], _Known | KvplanError] = field(default_factory=dict)
    gpus: dict[tuple[str, int | None], Gpu | KvplanError] = field(default_factory=dict)
    engines: dict[str, Found | KvplanError] = field(default_factory=dict)
    suggested: int = 0

    def plan(self, question: Question) -> Outcome:
        """The answer; never an exception for input that can't be planned."""
        if question not in self.answers:
            try:
                self.answers[question] = self._planned(question)
            except _AboutKeys as about:
                self.answers[question] = Unanswered(about.error.problem, about.error.exit_code, about.keys)
            except KvplanError as error:
                self.answers[question] = Unanswered(error.problem, error.exit_code)
        return self.answers[question]

    def _planned(self, question: Question) -> Planned:
        from kvplan.api.question import asked

        with _about("revision", "model"):
            known = self._model(question)
        with _about("gpu", "gpu_memory"):
            gpu = self._gpu(question)
        with _about("engine"):
            found = self._engine(question.engine)
        with _about("kv_dtype"):
            kv = None if question.kv_dtype == "auto" else parse_kv_format(question.kv_dtype)
        with _about("parallel"):
            known.model.check_split(question.parallel)
        with _about("draft", "parallel"):
            request = asked(known.model, gpu, self._as_of_fit(question, kv))
        work = _Work(_endless(request) if question.context == ENDLESS else request, question)
        if question.context == ENDLESS:
            work = work.at_its_longest()
        longest = work.request.context
        if question.tokens is not None and question.tokens > longest:
            raise UsageError(
                f"a limit asks for sequences of {question.tokens:,} tokens, and the longest that is served has {longest:,}",
                hint="raise the context, or lower the limit's `at`",
            )
        return self._answer(work, known, found)

    def _answer(self, work: _Work, known: _Known, found: Found) -> Planned:
        from kvplan.api.remarks import warnings

        request = work.request
        never = (
            _too_long(request, stretched=work.question.stretched)
            or _no_experts(request, work.question)
            or contradicted(request.model, work.question)
        )
        reasons = {end: never or work.reason(end) for end in ENDS}
        refused = {end: reason for end, reason in reasons.items() if reason is not None}
        return Planned(
            subject=_subject(work, known),
            numbers=work.numbers(),
            reasons=refused,
            suggestion=self._suggestion(work.plans["safe"]) if "safe" in refused and not never else None,
            warnings=warnings(request, None) + ((found.note,) if found.note else ()),
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
            draft=None if question.draft is None else self._named(question.draft, None).model,
        )

    def _suggestion(self, plan: Plan) -> str | None:
        """A single change that would make it start; not a shorter context, which the reason already names."""
        from kvplan.plan.suggest import suggest

        if self.suggested >= MOST_SUGGESTIONS:
            return None
        self.suggested += 1
        changes = (found.change for found in suggest(plan, ()))
        return next((change for change in changes if not change.startswith("--ctx")), None)

    # names, each looked up once; a failure is kept as well

    def _model(self, question: Question) -> _Known:
        return self._named(question.model, question.revision)

    def _named(self, model: str, revision: str | None) -> _Known:
        key = (model, revision)
        if key not in self.models:
            try:
                self.models[key] = _load(model, revision, offline=self.offline)
            except KvplanError as error:
                self.models[key] = error
        return _given(self.models[key])

    def _gpu(self, question: Question) -> Gpu:
        from kvplan.api import load_gpu

        key = (question.gpu, question.gpu_memory)
        if key not in self.gpus:
            try:
                self.gpus[key] = load_gpu(question.gpu, memory=question.gpu_memory)
            except KvplanError as error:
                self.gpus[key] = error
        return _given(self.gpus[key])

    def _engine(self, spec: str) -> Found:
        from kvplan.engines.registry import find

        if spec not in self.engines:
            try:
                self.engines[spec] = find(spec)
            except KvplanError as error:
                self.engines[spec] = error
        return _given(self.engines[spec])


@dataclass(frozen=True, slots=True)
class _Known:
    """A model, and what pins it: the Hub's commit, or a digest of a local description."""

    model: Model
    revision: str | None


def _given(found: T | KvplanError) -> T:
    if isinstance(found, KvplanError):
        raise found
    return found


def _load(name: str, revision: str | None, *, offline: bool) -> _Known:
    """A model, its weights by the checkpoint's own headers where they can be reached."""
    from kvplan.api.given import weigh
    from kvplan.sources.models import load_document, model_of

    document = load_document(name, revision=revision, offline=offline)
    model = model_of(document)
    pinned = model.origin.revision
    if pinned is None and Path(name).is_absolute():
        pinned = _digest(document.config)
    return _Known(weigh(model, offline=offline), pinned)


def _digest(config: Mapping[str, object]) -> str:
    """`sha256:` and twelve digits of the description's content, however it is laid out."""
    import hashlib
    import json

    text = json.dumps(config, sort_keys=True, default=str)
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


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


def _too_long(request: Request, *, stretched: bool) -> str | None:
    """Why vLLM wouldn't take the context at all: more than the model's own maximum, unless it is told to.

    Source: vLLM 0.33 config/model.py _get_and_verify_max_len.
    """
    own = request.exceeded
    if request.engine.name != "vllm" or own is None:
        return None
    if request.past_table:
        return f"the model's positions are looked up in a table of {own:,}, and more would be read past its end"
    if stretched:
        return None
    return f"the model's own maximum is {own:,}, and vLLM refuses more without VLLM_ALLOW_LONG_MAX_MODEL_LEN"


def _no_experts(request: Request, question: Question) -> str | None:
    """Why vLLM wouldn't start with expert parallelism, which is switched on even where one rank has all experts."""
    from kvplan.engines.vllm.starts.refusals import lacks_experts

    if request.engine.name != "vllm" or not question.experts or not lacks_experts(request.model):
        return None
    return "expert parallelism is switched on, and the model has no experts"


def _reason(capacity: Refusal, kv_bytes: int) -> str:
    """Why the engine would refuse."""
    short = format_bytes(capacity.needed_bytes - kv_bytes)
    if kv_bytes <= 0:
        return f"weights and the engine's own memory leave no room for the cache, {short} short on the fullest GPU"
    needed, longest = format_bytes(capacity.needed_bytes), f"{capacity.max_context:,} tokens would fit"
    return (
        f"a sequence takes {needed} of cache on the fullest GPU, which has {format_bytes(kv_bytes)} for it; {longest}"
    )


def _subject(work: _Work, known: _Known) -> Subject:
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
        kv_dtype=kv.k.name if kv.k == kv.v else f"{kv.k.name}:{kv.v.name}",
        options={**dict(work.budget.assumed), **changed_options(request.options)},
        weights_basis="config" if known.model.weights is None else known.model.weights.basis,
    )


def _plans(request: Request) -> dict[Literal["safe", "likely"], Plan]:
    """The plan of `kvplan fit` by both ends of its budget."""
    safe = fit(replace(request, end="safe"))
    same = safe.budget.kv.low == safe.budget.kv.likely
    return {"safe": safe, "likely": safe if same else fit(replace(request, end="likely"))}


class _Work:
    """One question on its way to numbers. kv_bytes: cache memory of the fullest GPU by each end."""

    def __init__(self, request: Request, question: Question) -> None:
        self.request = request
        self.question = question
        self.plans = _plans(request)
        self.budget = self.plans["safe"].budget
        self.kv = self.plans["safe"].kv
        kv = self.budget.kv
        self.kv_bytes: dict[End, int] = {"safe": kv.low, "likely": kv.likely, "ideal": kv.likely}
        ideal = Ideal().capacity(*self.asked(request.context), kv.likely)
        self.starting: dict[End, Capacity | Refusal] = {
            "safe": self.plans["safe"].own,
            "likely": self.plans["likely"].own,
            "ideal": ideal,
        }

    def reason(self, end: End) -> str | None:
        """Why it wouldn't start by an end; None where it would."""
        own = self.starting[end]
        if isinstance(own, Refusal):
            return _reason(own, self.kv_bytes[end])
        outcome = None if end == "ideal" else self.plans[end].outcome
        return outcome.reason if isinstance(outcome, NoFit) else None

    def asked(self, tokens: int) -> tuple[Model, Gpu, Parallel, KvFormat, Options, int]:
        """What an engine is asked about sequences of `tokens`."""
        request = self.request
        return request.model, request.gpu, request.parallel, self.kv, request.options, tokens

    def at_its_longest(self) -> _Work:
        """The same with the context that the engine would choose: the longest that fits."""
        safe = self.starting["safe"]
        if isinstance(safe, Capacity) or not safe.max_context:
            return self
        return _Work(replace(self.request, context=safe.max_context), self.question)

    def capacities(self, tokens: int) -> dict[End, Capacity | Refusal]:
        """What each end's memory admits of sequences of `tokens`."""
        request, kv_bytes, asked = self.request, self.kv_bytes, self.asked(tokens)
        safe = request.engine.capacity(*asked, kv_bytes["safe"])
        same = kv_bytes["likely"] == kv_bytes["safe"]
        likely = safe if same else request.engine.capacity(*asked, kv_bytes["likely"])
        return {"safe": safe, "likely": likely, "ideal": Ideal().capacity(*asked, kv_bytes["ideal"])}

    def numbers(self) -> dict[str, Three]:
        """Every number of kvplan.check.metrics."""
        request, budget = self.request, self.budget
        tokens = self.question.tokens or request.context
        counted = self.starting if tokens == request.context else self.capacities(tokens)
        weights = budget.weights.bytes
        engine_gpu, ideal_gpu = self.on_gpu(tokens)
        drafts = drafting(request.model, request.options)
        whole = request.model.curve(self.kv, layers=(*request.model.layers, *drafts)).bytes_at(tokens)
        replica = engine_gpu * request.parallel.tp * request.parallel.pp
        return {
            "kv_per_token": Three(-(-replica // tokens), -(-replica // tokens), -(-whole // tokens)),
            "kv_per_sequence": Three(replica, replica, whole),
            "weights": Three(weights.high, weights.likely, weights.likely),
            "max_sequences": Three(*(_sequences(counted[end]) for end in ENDS)),
            "max_context": self.longest(),
            "tpot": self.step(tokens, counted["safe"]),
            "gpus": Three.exactly(request.parallel.gpus),
            "headroom": self.headroom(engine_gpu, ideal_gpu, tokens),
            "kv_memory": Three(self.kv_bytes["safe"], self.kv_bytes["likely"], self.kv_bytes["ideal"]),
        }

    def on_gpu(self, tokens: int) -> tuple[int, int]:
        """Bytes of one sequence on the fullest GPU: the engine's, and the formula's."""
        request = self.request
        drafts = drafting(request.model, request.options)
        ranks = request.model.rank_curves(request.parallel, self.kv, drafts)
        ideal = max(curve.bytes_at(tokens) for curve in ranks)
        if request.engine.name == "ideal":
            return ideal, ideal
        engine = request.engine.reserved(request.model, request.gpu, request.parallel, self.kv, request.options, tokens)
        return engine, ideal

    def longest(self) -> Three:
        """Tokens of the longest sequence; None where nothing limits them."""
        from kvplan.arch.curve import LONGEST

        found = {end: capacity.max_context for end, capacity in self.starting.items()}
        return Three(*(None if found[end] >= LONGEST else found[end] for end in ENDS))

    def step(self, tokens: int, safe: Capacity | Refusal) -> Three:
        """Seconds of a decode step: the estimate, and the datasheet's bound as the ideal."""
        from kvplan.plan.roofline import decode

        batch = self.question.batch or (safe.max_sequences if isinstance(safe, Capacity) else 0)
        timed = decode(replace(self.request, context=tokens), self.kv, batch) if batch else None
        if timed is None:
            return Three.exactly(None)
        return Three(timed.step_s_likely, timed.step_s_likely, timed.step_s_low)

    def headroom(self, engine_gpu: int, ideal_gpu: int, tokens: int) -> Three:
        """Cache bytes of the fullest GPU that are left when `concurrency` sequences of the context are held."""
        if tokens != self.request.context:
            engine_gpu, ideal_gpu = self.on_gpu(self.request.context)
        held = -(-self.question.concurrency // self.request.parallel.dp)
        return Three(
            self.kv_bytes["safe"] - held * engine_gpu,
            self.kv_bytes["likely"] - held * engine_gpu,
            self.kv_bytes["ideal"] - held * ideal_gpu,
        )


def _sequences(found: Capacity | Refusal) -> int:
    return found.max_sequences if isinstance(found, Capacity) else 0
