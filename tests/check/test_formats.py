"""SARIF and JUnit against their published schemas, annotations against what a runner reads, and the budget's own schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args
from xml.etree import ElementTree as ET

import jsonschema
import pytest
import xmlschema
from check.checking import annotations, check, unescaped
from hypothesis import given
from hypothesis import strategies as st

from kvplan.check.budgets.fields import json_schema
from kvplan.check.results.outputs import RULES
from kvplan.manifests.places import Rule
from kvplan.report import findings, github, junit, sarif
from kvplan.report.schema.check import (
    SCHEMA,
    At,
    CheckReport,
    CheckRow,
    NotRead,
    Result,
    Summary,
    Trouble,
)

SCHEMAS = Path(__file__).parent / "schemas"
ROOT = Path(__file__).parents[2]
WHEN = "2026-01-31T12:00:00"

NASTY = "a%b,c:d\n::error::x<y>&\"'\x1b[0m\x00|`*é\U0001f680"


def report(*, name: str = "chat", message: str = "too much", file: str = "b.yaml") -> CheckReport:
    """A report with one of everything that can be wrong, and one thing that isn't."""

    def row(rule: str, status: str, line: int) -> CheckRow:
        level = "warn" if status == "warn" else "error"
        return CheckRow(rule, status, level, "safe", "most", 1, 2, "bytes", 8192, At(file, line), message, "try less")

    rows = (row("starts", "pass", 3), row("weights", "fail", 4), row("headroom", "warn", 5))
    broken = Result(name, "fail", At(file, 2), None, None, rows, None, None, (), ())
    lost = Result(name + "2", "error", At(file, 9), None, None, (), Trouble(message, "why", "hint", 2), None, (), ())
    unread = (NotRead("pod", message, At("deploy/pod.yaml", 1)),)
    return CheckReport(SCHEMA, "0.1.0", False, Summary(2, 0, 0, 1, 1, 1, 3), (broken, lost), unread, (), ())


def as_sarif(document: CheckReport) -> dict[str, Any]:
    text = sarif.sarif(findings.findings(document), RULES, "0.1.0", lambda file: file, complete=False)
    found: dict[str, Any] = json.loads(text)
    return found


def valid_sarif(document: dict[str, Any]) -> None:
    schema = json.loads((SCHEMAS / "sarif-schema-2.1.0.json").read_text())
    jsonschema.Draft4Validator(schema, format_checker=jsonschema.FormatChecker()).validate(document)


@pytest.fixture(scope="module")
def xsds() -> tuple[xmlschema.XMLSchema, ...]:
    return tuple(xmlschema.XMLSchema(str(SCHEMAS / f"junit-{name}.xsd")) for name in ("ant", "jenkins"))


RUN = "docker run --gpus 1 vllm/vllm-openai:v0.11.0 --model llama-3-8b --max-model-len 4096"
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  nodeSelector: {node.kubernetes.io/instance-type: p99.48xlarge}
  containers: [{name: v, image: "vllm/vllm-openai:v0.11.0", args: [--model, llama-3-8b, --max-model-len, "4096"]}]
"""

REMARKED = {
    "gpu-name": POD,
    "gpu-count": f"{RUN} -tp 2",
    "bad-argument": f"{RUN} --max-num-seqs many",
    "unknown-flag": f"{RUN} --no-such-flag",
    "unread-arguments": f"{RUN} $MORE",
    "not-counted": f"{RUN} --cpu-offload-gb 4",
    "engine-version": RUN.replace("vllm/vllm-openai:v0.11.0", "registry.corp.example/ml/vllm:2025-11-prod"),
}
"""What each rule of serve commands remarks: a script, or a pod."""


@pytest.mark.parametrize("rule", get_args(Rule))
def test_a_remark_of_each_rule_is_sarif(folder: Path, rule: str):
    name = "pod.yaml" if REMARKED[rule].startswith("apiVersion") else "run.sh"
    (folder / name).write_text(REMARKED[rule])
    found = check(name, "--gpu", "h100", "--format", "sarif")
    valid_sarif(found.document)
    (run,) = found.document["runs"]
    places = {result["ruleId"]: result["ruleIndex"] for result in run["results"]}
    assert run["tool"]["driver"]["rules"][places[rule]]["id"] == rule


@pytest.mark.parametrize("text", ["too much", NASTY])
def test_sarif_is_as_published(text: str):
    document = as_sarif(
        report(name=f"chat {text}", message=text, file=f"dir with space/{'b' if text == NASTY else 'c'}.yaml")
    )
    valid_sarif(document)
    (run,) = document["runs"]
    assert [(result["ruleId"], result["level"]) for result in run["results"]] == [
        ("weights", "error"), ("unanswered", "error"), ("headroom", "warning"), ("not-read", "note"),
    ]  # fmt: skip
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        place = result["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uriBaseId"] == "%SRCROOT%"
        assert " " not in place["artifactLocation"]["uri"]
    first = run["results"][0]
    assert first["locations"][0]["physicalLocation"]["region"] == {"startLine": 4}
    assert text in first["message"]["text"]


def test_fingerprints_stay_when_lines_and_numbers_move():
    def prints(document: CheckReport) -> list[str]:
        return [result["partialFingerprints"]["kvplanCheck/v1"] for result in as_sarif(document)["runs"][0]["results"]]

    same = prints(report())
    assert prints(report(message="another number")) == same
    assert len(set(same)) == len(same)
    assert not set(prints(report(name="other"))[:3]) & set(same[:3])


@pytest.mark.parametrize("text", ["too much", NASTY])
def test_junit_is_as_published(text: str, xsds: tuple[xmlschema.XMLSchema, ...]):
    document = junit.junit(report(name=f"chat {text}", message=text), WHEN, lambda file: file)
    for xsd in xsds:
        xsd.validate(document)
    suite = ET.fromstring(document).find("testsuite")  # noqa: S314 - our own
    assert suite is not None
    assert {key: suite.get(key) for key in ("name", "tests", "failures", "errors", "timestamp")} == {
        "name": "b.yaml", "tests": "4", "failures": "1", "errors": "1", "timestamp": WHEN,
    }  # fmt: skip
    cases = suite.findall("testcase")
    assert [case.get("name") for case in cases] == [
        "starts at 8,192 tokens", "weights at 8,192 tokens", "headroom at 8,192 tokens", "planned",
    ]  # fmt: skip
    assert [[child.tag for child in case] for case in cases] == [[], ["failure"], [], ["error"]]
    assert "headroom" not in (suite.findtext("system-err") or "")
    assert suite.findtext("system-out")


@pytest.mark.parametrize("text", ["too much", NASTY])
def test_annotations_can_not_be_broken_out_of(text: str):
    drawn = github.commands(findings.findings(report(name=text, message=text)), lambda file: file)
    found = annotations(drawn)
    assert [(command, file, line) for command, file, line, _ in found] == [
        ("error", "b.yaml", 4), ("error", "b.yaml", 9), ("warning", "b.yaml", 5), ("notice", "deploy/pod.yaml", 1),
    ]  # fmt: skip
    assert found[0][3] == f"{text}: {text}. try less"


@given(st.text())
def test_escapes_come_back(text: str):
    line = github.commands([findings.Finding("r", "error", text, text, At("f", 1), "k")], lambda file: file)
    assert line.count("\n") == 1
    assert "\r" not in line
    head, _, message = line[2:-1].partition("::")
    assert unescaped(message) == text
    title = head.partition("title=")[2]
    assert unescaped(title) == f"kvplan: {text}"


def test_real_reports_are_valid_too(folder: Path, xsds: tuple[xmlschema.XMLSchema, ...]):
    (folder / "kvplan-budget.yaml").write_text("""\
kvplan-budget: 1
defaults: {gpu: h100, context: 8k}
deployments:
  kept: {model: llama-3-8b}
  broken: {model: llama-3-8b, limits: {max_gpus: {max: 1, level: warn}, weights: 1GiB, min_sequences: {min: 1, at: 2k}}}
  lost: {model: no-such-model}
""")
    ran = check("-o", "c.sarif", "-o", "c.xml", "--format", "github")
    assert ran.code == 1
    document = json.loads((folder / "c.sarif").read_text())
    valid_sarif(document)
    assert [result["ruleId"] for result in document["runs"][0]["results"]] == ["weights", "unanswered"]
    assert document["runs"][0]["invocations"][0]["executionSuccessful"] is False
    for xsd in xsds:
        xsd.validate((folder / "c.xml").read_text())
    assert [(command, file, line) for command, file, line, _ in annotations(ran.out)] == [
        ("error", "kvplan-budget.yaml", 5), ("error", "kvplan-budget.yaml", 6),
    ]  # fmt: skip


def test_paths_are_those_of_the_repository():
    assert findings.relative("b.yaml", "/repo", "/repo/sub") == "sub/b.yaml"
    assert findings.relative("../b.yaml", "/repo", "/repo/sub") == "b.yaml"
    assert findings.relative("/repo/x/b.yaml", "/repo", "/anywhere") == "x/b.yaml"
    assert findings.relative("/else/b.yaml", "/repo", "/repo") == "/else/b.yaml"


def test_a_comment_stays_below_its_limit(folder: Path):
    lines = [
        "kvplan-budget: 1",
        "defaults: {gpu: h100, context: 8k, engine: ideal, limits: {weights: 1GiB}}",
        "deployments:",
    ]
    lines += [f"  deployment-with-a-rather-long-name-{number}: {{model: llama-3-8b}}" for number in range(400)]
    (folder / "kvplan-budget.yaml").write_text("\n".join(lines))
    ran = check("--format", "markdown")
    assert ran.code == 1
    assert len(ran.out) < 65_536
    assert "and 300 more" in ran.out


# the budget's own schema


def test_the_committed_schema_is_the_one_that_is_exported():
    committed = json.loads((ROOT / "configs" / "budgets" / "kvplan-budget.schema.json").read_text())
    assert committed == json_schema()
    assert json.loads(check("--schema").out) == committed
    jsonschema.Draft202012Validator.check_schema(committed)


BUDGETS = [
    ({"kvplan-budget": 1, "deployments": {"a": {"model": "m", "gpu": 4090, "context": "8k"}}}, True),
    ({"kvplan-budget": 1, "deployments": {"a": {"limits": {"weights": "1GiB", "starts": "likely"}}}}, True),
    ({"kvplan-budget": 1, "deployments": {"a": {"limits": {"weights": [{"max": "1GiB", "end": "ideal"}]}}}}, True),
    ({"kvplan-budget": 1, "deployments": {"a": {"limits": {"headroom": "5%", "max_tpot": None}}}}, True),
    ({"kvplan-budget": 1, "deployments": {"a": {"extends": "x", "from": "pod.yaml"}}}, True),
    ({"kvplan-budget": 1, "deployments": {"a": {"limits": {"weights": 1}}}}, False),
    ({"kvplan-budget": 1, "deployments": {"a": {"limits": {"weights": {"end": "likely"}}}}}, False),
    ({"kvplan-budget": 1, "deployments": {"a": {"ctx": 1}}}, False),
    ({"kvplan-budget": 1, "deployments": {}}, False),
    ({"deployments": {"a": {}}}, False),
]


@pytest.mark.parametrize(("budget", "right"), BUDGETS)
def test_the_schema_and_the_reader_agree(budget: dict[str, Any], right: bool):
    from pydantic import ValidationError

    from kvplan.check.budgets.fields import BudgetFile

    assert jsonschema.Draft202012Validator(json_schema()).is_valid(budget) is right
    try:
        BudgetFile.model_validate(budget)
    except ValidationError:
        assert not right
    else:
        assert right
