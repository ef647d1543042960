"""One more engine is a file and a line of the register: nothing else asks which engine it is."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from kvplan import api
from kvplan.arch.formats import KvFormat
from kvplan.arch.model import Context, Model
from kvplan.check.budgets.budget import Question
from kvplan.check.plans.planner import CachingPlanner
from kvplan.check.plans.planning import Planned
from kvplan.engines import registry
from kvplan.engines.base import Budget, Capacity, Excess, Refusal, Served, Setup, Stated, Words
from kvplan.engines.ideal import Formula, Ideal
from kvplan.engines.protocol import Engine, Started
from kvplan.engines.vllm.policy import Vllm
from kvplan.errors import UnknownName, UsageError
from kvplan.report.canvas import Canvas
from kvplan.report.render import render
from kvplan.sources.gpus import load_gpu

PACKAGE = Path(__file__).parents[2] / "kvplan"


@dataclass(frozen=True)
class Doubling:
    """Takes twice what a sequence holds."""

    setup: Setup
    kv: KvFormat
    forms: tuple[str, ...] = ("doubling",)

    @property
    def plain(self) -> Formula:
        return Ideal().start(self.setup)

    def budget(self) -> Budget:
        return self.plain.budget()

    def budget_at(self, tokens: int) -> Budget:
        return self.plain.budget_at(tokens)

    def capacity(self, kv_bytes: int) -> Capacity | Refusal:
        return self.plain.capacity(kv_bytes // 2)

    def reserved(self) -> int:
        return 2 * self.plain.reserved()

    def utilization(self, concurrency: int, *, likely: bool) -> float | None:
        return 0.5 if likely else 0.625

    def cautions(self) -> tuple[str, ...]:
        return ("It takes everything twice.",)

    @property
    def excess(self) -> Excess | None:
        return Excess.of(self.setup, 4096, "DOUBLING_ALLOW_LONG")

    @property
    def launcher(self) -> Doubling:
        return self

    def written(self, form: str, served: Served) -> str:
        return f"{form} {served.name} -c {self.setup.context}"


@dataclass(frozen=True)
class Doubler:
    name: str = "doubling"
    version: str | None = "1.0"
    verified: bool = True
    allocates: bool = True
    words: Words = Words("Doubling", length="ctx_size", longest="twice the longest", unnamed_gpu="any")  # noqa: RUF009

    def default_context(self, model: Model) -> Context:
        return Context(2048, "as ever")

    def longest_context(self, model: Model) -> int | None:
        return 4096

    def kv_format(self, model: Model, asked: KvFormat | None, gpu: object) -> KvFormat:
        return asked or model.kv_auto

    def unstated(self, model: Model) -> tuple[str, ...]:
        return ()

    def lacks_experts(self, model: Model) -> bool:
        return False

    def contradicts(self, model: Model, stated: Stated) -> str | None:
        return "nothing is kept in awq twice" if stated.quantization == "awq" else None

    def start(self, setup: Setup) -> Doubling:
        return Doubling(setup, self.kv_format(setup.model, setup.kv, setup.gpu))


@pytest.fixture
def doubling(monkeypatch):
    about = registry.About("doubling", "1.0", "1.0", ())
    entry = registry._Entry(lambda _: registry.Found(Doubler()), lambda: about, ("doubling",))
    monkeypatch.setitem(registry._ENGINES, "doubling", entry)
    registry.find.cache_clear()
    yield
    registry.find.cache_clear()


def test_one_more_engine_is_planned_for(doubling):
    question = api.FitQuestion(engine="doubling", options=api.Options(kv_memory=40 * 2**30))
    own = api.fit("llama-3-8b", "h100", replace(question, emit="doubling", called="a/model", concurrency=None))
    plain = api.fit("llama-3-8b", "h100", replace(question, engine="ideal", context=2048))
    assert own.context == 2048
    assert own.reserved is not None
    assert plain.ideal.max_sequences == own.ideal.max_sequences == 40 * 2**30 // (2048 * 131_072)
    assert own.reserved.max_sequences == own.ideal.max_sequences // 2
    assert own.launch is not None
    assert own.launch.startswith("doubling ")
    assert "It takes everything twice." in own.warnings
    assert own.per_gpu.assumed["ctx_size"] == "2048"
    page = render(own, "table", Canvas())
    assert "longest sequence  163,840 tokens" in page
    assert "doubling 1.0" in page


def test_what_it_refuses_and_the_share_it_needs_are_its_own(doubling):
    long = api.fit("llama-3-8b", "h100", api.FitQuestion(engine="doubling", context=8192, concurrency=2))
    said = "8,192 tokens are more than the model's own maximum of 4,096: Doubling refuses such a ctx_size without DOUBLING_ALLOW_LONG=1."
    assert said in long.warnings
    assert long.exceeded == 4096
    assert long.utilization_needed == 0.625


def test_its_sizes_are_its_own(doubling):
    report = api.size("llama-3-8b", contexts=(1000,), engine="doubling")
    assert report.sequences[0].engine_bytes_per_gpu == 2 * 1000 * 131_072
    assert report.assumed == {"gpu": "any"}
    assert "doubling 1.0 takes per GPU" in render(report, "table", Canvas())


def test_what_contradicts_a_config_is_its_own_to_say(doubling):
    planner = CachingPlanner()
    gemma = Question("gemma-2-9b", "h200", engine="doubling", dtype="half")
    plain, awq = planner.plan(gemma), planner.plan(replace(gemma, quantization="awq"))
    assert isinstance(plain, Planned)
    assert isinstance(awq, Planned)
    assert plain.reasons == {}
    assert set(awq.reasons.values()) == {"nothing is kept in awq twice"}


def test_forms_are_those_of_who_writes_them(doubling):
    setup = Setup(api.load_model("llama-3-8b"), load_gpu("h100"), api.Parallel(), None, api.Options(), 2048)
    engines: tuple[Engine, ...] = (Ideal(), Vllm(), Doubler())
    started: list[Started] = [engine.start(setup) for engine in engines]
    for engine, one in zip(engines, started, strict=True):
        own = one.launcher.forms if one.launcher is not None else ()
        assert own == tuple(form for form, name in registry.forms().items() if name == engine.name)
    with pytest.raises(UsageError, match="--emit doubling needs a plan by Doubling's rules"):
        api.fit("llama-3-8b", "h100", api.FitQuestion(context=2048, emit="doubling"))
    with pytest.raises(UnknownName, match="'compose' isn't something that --emit prints"):
        api.fit("llama-3-8b", "h100", api.FitQuestion(context=2048, emit="compose"))


NAMES = frozenset({"vllm", "ideal"})
CONSTANTS = frozenset({"ENGINE", "DEFAULT_ENGINE"})
CLASSES = frozenset({"Vllm", "Ideal", "Started", "Formula"})


OTHER_WORDS = frozenset({
    "first == 'vllm'", "program(word) == 'vllm'",  # the program of a command line
    "key in {'container', 'deployment', 'vllm'}",  # a key of Helm values
    "end == 'ideal'",  # an end of a range
})  # fmt: skip
"""Comparisons with the same words that are no engines' names."""


def named(node: ast.AST) -> str | None:
    """What a name or the last step of a dotted one is."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None


def is_engine(node: ast.AST) -> bool:
    """Whether an operand is an engine's name: written out, by a constant, or among several."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return any(map(is_engine, node.elts))
    return named(node) in CONSTANTS or (isinstance(node, ast.Constant) and node.value in NAMES)


def asks(node: ast.AST) -> bool:
    """Whether something compares an engine's name, or asks an engine's class. `"vllm" in text` asks about the text."""
    if isinstance(node, ast.Compare):
        looked_for = isinstance(node.ops[0], ast.In | ast.NotIn) and isinstance(node.left, ast.Constant)
        return any(map(is_engine, node.comparators if looked_for else (node.left, *node.comparators)))
    if isinstance(node, ast.MatchValue):
        return is_engine(node.value)
    if isinstance(node, ast.Call) and named(node.func) == "isinstance":
        return any(named(each) in CLASSES for each in ast.walk(node.args[1]))
    return False


def test_no_other_layer_asks_an_engine_s_name():
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}: {ast.unparse(node)}"
        for path in PACKAGE.rglob("*.py")
        if "engines" not in path.relative_to(PACKAGE).parts
        for node in ast.walk(ast.parse(path.read_text()))
        if asks(node) and ast.unparse(node) not in OTHER_WORDS
    ]
    assert not found


@pytest.mark.parametrize(
    "code",
    [
        'spec.lower() == "vllm"', "name != DEFAULT_ENGINE", "releases.ENGINE == name", 'engine in ("ideal", "vllm")',
        "engine in (None, DEFAULT_ENGINE)", "isinstance(engine, Vllm | Ideal)", 'match engine:\n    case "vllm": pass',
    ],
)  # fmt: skip
def test_the_guard_sees(code):
    assert any(map(asks, ast.walk(ast.parse(code))))
