"""Reading a budget: what it means, and for everything that it can't mean the line and a way out."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from check.checking import check

from kvplan.arch.parallel import Parallel
from kvplan.check.budgets.budget import Deployment
from kvplan.check.budgets.messages import BudgetFault
from kvplan.check.budgets.reader import parse_budget
from kvplan.errors import BadFile
from kvplan.manifests.places import Place
from kvplan.manifests.tree import WorkingTree

MIB, GIB = 2**20, 2**30


def read(text: str) -> list[Deployment]:
    return list(parse_budget(dedent(text), "b.yaml", WorkingTree()).deployments)


def only(text: str) -> Deployment:
    (found,) = read(text)
    return found


def complaint(text: str) -> BadFile:
    """What is wrong with a budget, or with deployments of it."""
    try:
        return BudgetFault(list(parse_budget(dedent(text), "b.yaml", WorkingTree()).faults))
    except BadFile as error:
        return error


def test_everything_a_deployment_can_say(folder: Path):
    found = only("""\
        kvplan-budget: 1
        deployments:
          chat:
            description: the chat backend
            model: llama-3-70b
            revision: abc
            gpu: h100
            gpu_memory: 80GB
            parallel: {tp: 8, pp: 2}
            engine: vllm@0.19
            context: 32k
            concurrency: 16
            kv_dtype: fp8
            flags:
              gpu_memory_utilization: 0.9
              max_num_seqs: 128
              max_num_batched_tokens: 8K
              enforce_eager: true
              enable_prefix_caching: false
            limits:
              kv_per_token: 320KiB
              kv_per_sequence: {max: 10GiB, at: 128k, end: likely}
              weights: 20GiB
              min_sequences: {min: 64, at: 8k, level: warn}
              min_context: 128k
              max_tpot: {max: 30ms, batch: 32}
              max_gpus: 16
              headroom: 10%
    """)
    asked = found.question
    assert (asked.model, asked.revision, asked.gpu, asked.gpu_memory) == ("llama-3-70b", "abc", "h100", 80 * 10**9)
    assert asked.parallel == Parallel(tp=8, pp=2)
    assert (asked.engine, asked.context, asked.concurrency, asked.kv_dtype) == ("vllm@0.19", 32 * 1024, 16, "fp8")
    options = asked.options
    assert (options.utilization, options.max_num_seqs, options.max_num_batched_tokens) == (0.9, 128, 8192)
    assert (options.graphs, options.prefix_caching) == (False, False)
    limits = {limit.metric: limit for limit in found.limits}
    assert [(name, limit.bound, limit.unit, limit.end, limit.level) for name, limit in limits.items()] == [
        ("kv_per_token", 320 * 1024, "bytes", "safe", "error"),
        ("kv_per_sequence", 10 * GIB, "bytes", "likely", "error"),
        ("weights", 20 * GIB, "bytes", "safe", "error"),
        ("min_sequences", 64, "sequences", "safe", "warn"),
        ("min_context", 128 * 1024, "tokens", "safe", "error"),
        ("max_tpot", 0.03, "seconds", "safe", "error"),
        ("max_gpus", 16, "gpus", "safe", "error"),
        ("headroom", 0.1, "share", "safe", "error"),
    ]
    assert (limits["kv_per_sequence"].at, limits["min_sequences"].at, limits["max_tpot"].batch) == (131072, 8192, 32)
    assert limits["headroom"].place == Place("b.yaml", 28)
    assert found.places["parallel.tp"] == Place("b.yaml", 9)


@pytest.mark.parametrize("engine", ["vllm@0.9.1", " vLLM @ 0.9.1 "])
def test_an_engine_however_it_is_spaced(folder: Path, engine: str):
    """vLLM before 0.20 turns the hybrid manager off where KV events are published, and 0.33 doesn't."""
    found = only(f"""\
        kvplan-budget: 1
        deployments: {{a: {{model: m, gpu: h100, engine: "{engine}", flags: {{kv_events: true}}}}}}
    """)
    assert found.question.options.hybrid_manager is False


def test_a_limit_may_be_given_several_times(folder: Path):
    found = only("""\
        kvplan-budget: 1
        deployments:
          a:
            model: m
            gpu: h100
            limits:
              min_sequences:
                - 4
                - {min: 8, at: 2k, end: likely, level: warn}
    """)
    assert [(limit.bound, limit.at, limit.place.line) for limit in found.limits] == [(4, None, 8), (8, 2048, 9)]


def test_defaults_templates_and_what_takes_them_away(folder: Path):
    base, long, plain = read("""\
        kvplan-budget: 1
        defaults:
          gpu: h100
          engine: ideal
          limits: {headroom: 10%, max_gpus: 8}
        templates:
          wide:
            parallel: {tp: 4}
            limits: {max_gpus: 4}
          wider:
            extends: wide
            parallel: {pp: 2}
        deployments:
          base: {model: a, extends: wide}
          long:
            model: a
            extends: [wide, wider]
            context: 64k
            limits:
              max_gpus: 16
          plain:
            model: b
            limits: {headroom: null}
    """)
    assert base.question.parallel == Parallel(tp=4)
    assert long.question.parallel == Parallel(tp=4, pp=2)
    assert {limit.metric: (limit.bound, limit.place.line, limit.own) for limit in base.limits} == {
        "max_gpus": (4, 9, False), "headroom": (0.1, 5, False),
    }  # fmt: skip
    assert {limit.metric: (limit.bound, limit.own) for limit in long.limits} == {
        "max_gpus": (16, True),
        "headroom": (0.1, False),
    }
    assert [limit.metric for limit in plain.limits] == ["max_gpus"]
    assert {deployment.question.engine for deployment in (base, long, plain)} == {"ideal"}


def test_a_matrix_is_every_combination_that_is_not_excluded(folder: Path):
    found = read("""\
        kvplan-budget: 1
        deployments:
          chat:
            model: m
            matrix:
              gpu: [h100, 4090]
              parallel.tp: [1, 2]
              flags.enforce_eager: [true]
            exclude:
              - {gpu: 4090, parallel.tp: 1}
            limits: {max_gpus: 2}
    """)
    assert [deployment.name for deployment in found] == [
        "chat[gpu=h100,tp=1,enforce_eager=true]",
        "chat[gpu=h100,tp=2,enforce_eager=true]",
        "chat[gpu=4090,tp=2,enforce_eager=true]",
    ]
    assert [deployment.question.parallel.tp for deployment in found] == [1, 2, 2]
    assert found[0].places["parallel.tp"] == Place("b.yaml", 7)
    assert not found[0].question.options.graphs


def test_paths_are_relative_to_the_budget(folder: Path):
    (folder / "sub").mkdir()
    (folder / "sub" / "model.json").write_text("{}")
    text = "kvplan-budget: 1\ndeployments:\n  a: {model: model.json, gpu: h100}\n  b: {model: org/name, gpu: h100}\n"
    a, b = parse_budget(text, "sub/budget.yaml", WorkingTree()).deployments
    assert a.question.model == str(folder / "sub" / "model.json")
    assert b.question.model == "org/name"


HEAD = "kvplan-budget: 1\ndeployments:\n  a:\n    model: m\n    gpu: h100\n"


@pytest.mark.parametrize(
    ("text", "line", "what", "hint"),
    [
        (HEAD + "    ctx: 8k\n", 6, "unknown key deployments.a.ctx", "did you mean context?"),
        (HEAD + "    limits: {min_sequence: 1}\n", 6, "unknown key deployments.a.limits.min_sequence", "min_sequences"),
        (HEAD + "    limits:\n      max_tpot: {max: 1s, batches: 3}\n", 7, "max_tpot[0].batches", "did you mean batch?"),
        ("kvplan-budget: 1\ndeployment: {}\n", 1, "deployments is missing", None),
        ("kvplan-budget: 2\ndeployments: {a: {model: m, gpu: g}}\n", 1, "kvplan-budget is 2, not 1", None),
        (HEAD + "    parallel: {tp: two}\n", 6, "parallel.tp is 'two', not a whole number", None),
        (HEAD + "    parallel: {tp: true}\n", 6, "parallel.tp is True, not a whole number", None),
        (HEAD + "    parallel: {tp: 2, dcp: 3}\n", 6, "--dcp 3 doesn't divide --tp 2", "sizes that work"),
        (HEAD + "    context: 8q\n", 6, "'8q' is not a number of tokens", None),
        (HEAD + "    limits: {kv_per_token: 100}\n", 6, "no byte unit", None),
        (HEAD + "    limits: {max_tpot: 30}\n", 6, "write a time like 30ms or 0.05s", None),
        (HEAD + "    limits: {headroom: 120%}\n", 6, "at most 100%", None),
        (HEAD + "    limits: {weights: {max: 1GiB, end: high}}\n", 6, "not 'safe', 'likely' or 'ideal'", None),
        (HEAD + "    flags: {max_model_len: 8192}\n", 6, "flags.max_model_len has a key of its own", "write context"),
        (HEAD + "    flags: {max_num_seq: 8}\n", 6, "no flag max_num_seq", "did you mean max_num_seqs?"),
        (HEAD + "    flags: {guessed: false}\n", 6, "no flag guessed", None),
        (HEAD + "    flags: {itself: nonsense}\n", 6, "no flag itself", None),
        (HEAD + "    flags: {draft_method: eagle}\n", 6, "no flag draft_method", None),
        (HEAD + "    flags: {drafting: itself}\n", 6, "no flag drafting", None),
        (HEAD + "    flags: {overridden: true}\n", 6, "no flag overridden", None),
        (HEAD + "    drafting: itself\n", 6, "unknown key deployments.a.drafting", None),
        (HEAD + "    flags: {max_num_seqs: many}\n", 6, "flags.max_num_seqs: 'many' is not a whole number", None),
        (HEAD + "    extends: big\n", 6, "there is no template 'big'", "templates of this file: none"),
        (HEAD + "    matrix: {limits: [1]}\n", 6, "the matrix can't vary 'limits'", None),
        (HEAD + "    matrix: {parallel.tp: [x]}\n", 6, "not a whole number", None),
        (HEAD + "    matrix: {gpu: [a]}\n    exclude: [{gpu: b}]\n", 7, "this exclusion matches no combination", None),
        ("kvplan-budget: 1\ndeployments: {}\n", 2, "deployments is empty", "name at least one deployment"),
        (HEAD + "    tp: 4\n", 6, "unknown key deployments.a.tp", "did you mean parallel: {tp: 4}?"),
        (HEAD + "    max_num_seqs: 64\n", 6, "unknown key deployments.a.max_num_seqs", "mean flags: {max_num_seqs: 64}?"),
        ("kvplan-budget: 1\ndeployments:\n  a: {gpu: h100}\n", 3, "a names no model", "model: llama-3-70b"),
        ("kvplan-budget: 1\ndeployments:\n  a: {model: m}\n", 3, "a names no gpu", "gpu: h100"),
        ("kvplan-budget: 1\ndeployments:\n  '!': {model: m}\n", 3, "can't be a name", None),
    ],
)  # fmt: skip
def test_faults_name_their_line(folder: Path, text: str, line: int, what: str, hint: str | None):
    problem = complaint(text).problem
    assert problem.what.startswith(f"b.yaml:{line}: ")
    assert what in problem.what
    assert hint is None or (problem.hint is not None and hint in problem.hint)


def test_templates_can_not_extend_each_other_in_a_circle(folder: Path):
    text = """\
        kvplan-budget: 1
        templates:
          a: {extends: b}
          b: {extends: a}
        deployments:
          x: {model: m, gpu: h100, extends: a}
    """
    assert "circle: a -> b -> a" in complaint(text).problem.what.replace("a -> b -> a -> b", "a -> b -> a")


def test_a_key_given_twice_is_refused_with_both_lines(folder: Path):
    problem = complaint("kvplan-budget: 1\ndeployments:\n  a: {model: m}\n  b: {model: m}\n  a: {model: n}\n").problem
    assert problem.what == "line 5 of b.yaml gives deployments.a again; line 3 did already"


def test_all_faults_are_told_at_once(folder: Path):
    problem = complaint("kvplan-budget: 1\ndeployments:\n  a:\n    ctx: 1\n    parallel: {tp: x}\n").problem
    assert problem.what.startswith("b.yaml:4: unknown key")
    assert problem.cause is not None
    assert problem.cause.startswith("b.yaml:5: deployments.a.parallel.tp is 'x'")


@pytest.mark.parametrize("text", ["", "[1, 2]", "kvplan-budget: 1\ndeployments: {}\n", "a: &x 1\nb: *x\n", "a: [\n"])
def test_what_is_no_budget_at_all(folder: Path, text: str):
    assert "b.yaml" in str(complaint(text).problem.what)


BROKEN = """\
    kvplan-budget: 1
    defaults: {model: m, gpu: h100}
    deployments:
      a: {from: nowhere.yaml}
      b: {context: 8k}
      c: {extends: nobody}
      d: {extends: nobody}
"""


def test_what_is_wrong_with_one_costs_no_other():
    found = parse_budget(dedent(BROKEN), "b.yaml", WorkingTree())
    assert [deployment.name for deployment in found.deployments] == ["b"]
    assert [(fault.place.line, fault.deployment) for fault in found.faults] == [(4, "a"), (6, "c"), (7, "d")]


def test_it_is_told_beside_the_answers(folder: Path):
    (folder / "kvplan-budget.yaml").write_text(dedent(BROKEN).replace("model: m", "model: llama-3-8b"))
    found = check("--json")
    assert found.code == 2
    assert [result["status"] for result in found.document["results"]] == ["pass", "error", "error", "error"]
    assert check("--update").code == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "kvplan-budget: 1\ndeployments: {a: {model: m}}\n---\nkvplan-budget: 1\n",
            "a second document, and a file of kvplan's own holds one",
        ),
        ("- kvplan-budget: 1\n", "starts with `kvplan-budget: 1`"),
    ],
)
def test_what_is_no_budget_is_told_in_words_of_budgets(text: str, said: str):
    with pytest.raises(BadFile) as told:
        parse_budget(text, "b.yaml", WorkingTree())
    assert said in f"{told.value.problem.what} {told.value.problem.hint}"
