"""The example repository: its CI's own commands, their outputs compared as data, and one flag that breaks it."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import pytest
import xmlschema
import yaml
from check.checking import annotations, check, edited
from cli.running import Result

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "platform"
SCHEMAS = Path(__file__).parent / "schemas"


@pytest.fixture
def example(folder: Path) -> Path:
    shutil.copytree(EXAMPLE, folder, dirs_exist_ok=True)
    return folder


def loaded(name: str) -> Any:
    return yaml.safe_load((EXAMPLE / name).read_text())


WORKFLOW = loaded(".github/workflows/kvplan.yml")["jobs"]["kvplan"]["steps"]
COMMANDS = {
    "github": [step["run"] for step in WORKFLOW if "run" in step],
    "gitlab": loaded(".gitlab-ci.yml")["kvplan"]["script"],
    "readme": re.findall(r"^    (kvplan .*)$", (EXAMPLE / "README.md").read_text(), re.MULTILINE),
}


def ran(line: str) -> Result:
    first, second, *words = shlex.split(line)
    assert (first, second) == ("kvplan", "check")
    return check(*[word for word in words if word != "--offline"])


@pytest.mark.parametrize("line", [line for lines in COMMANDS.values() for line in lines])
def test_every_command_of_it_runs(example: Path, line: str):
    found = ran(line)
    assert (found.code, found.err) == (0, "")


def test_it_is_as_its_lock_has_it(example: Path):
    """A lock that nobody updates shows warnings to whoever copies it: `python tools/remake.py` updates it."""
    found = json.loads(check("--json").out)
    assert [result["status"] for result in found["results"]] == ["pass"] * len(found["results"])


def test_gitlabs_outputs_agree_with_each_other(example: Path):
    (line,) = COMMANDS["gitlab"]
    assert ran(line).code == 0
    document = json.loads((example / "kvplan.json").read_text())
    names = [result["name"] for result in document["results"]]
    assert names == [
        "chat", "assistant", "long-context[context=64k,kv_dtype=auto]", "long-context[context=64k,kv_dtype=fp8]",
        "long-context[context=128k,kv_dtype=auto]", "long-context[context=128k,kv_dtype=fp8]",
    ]  # fmt: skip
    junit = (example / "kvplan.xml").read_text()
    for name in ("ant", "jenkins"):
        xmlschema.XMLSchema(str(SCHEMAS / f"junit-{name}.xsd")).validate(junit)
    (suite,) = ET.fromstring(junit)  # noqa: S314 - our own
    assert int(suite.get("tests", "0")) == document["summary"]["checks"]
    assert (suite.get("failures"), suite.get("errors")) == ("0", "0")
    assert {case.get("classname") for case in suite.findall("testcase")} == set(names)
    markdown = (example / "kvplan.md").read_text()
    for name in names:
        escaped = re.sub(r"([_\[\]])", r"\\\1", name)
        assert f"| {escaped} |" in markdown


def test_the_workflow_uses_the_action_and_hooks_as_they_are(example: Path):
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    (step,) = [step for step in WORKFLOW if step.get("uses", "").startswith("kvplan/")]
    assert set(step["with"]) <= set(action["inputs"])
    for other in WORKFLOW:
        if "uses" in other and other is not step:
            assert re.search(r"@[0-9a-f]{40}$", other["uses"])
    known = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
    for hook in loaded(".pre-commit-config.yaml")["repos"][0]["hooks"]:
        pattern = hook.get("files", known[hook["id"]]["files"])
        assert any(re.search(pattern, path.name) for path in EXAMPLE.iterdir()), hook["id"]


def test_the_lock_is_current_where_numbers_are_exact(example: Path):
    """Cache bytes are arithmetic; budgets of memory may be refined, and then `kvplan check --update` is due there."""
    before = json.loads((example / "kvplan-budget.lock.json").read_text())["deployments"]
    assert check("--update").code == 0
    after = json.loads((example / "kvplan-budget.lock.json").read_text())["deployments"]
    exact = ("kv_per_token", "kv_per_sequence", "gpus")
    for name, entry in after.items():
        assert {key: entry["numbers"][key] for key in exact} == {key: before[name]["numbers"][key] for key in exact}
        assert {key: entry[key] for key in entry if key not in {"numbers", "options"}} == {
            key: before[name][key] for key in before[name] if key not in {"numbers", "options"}
        }
    assert after.keys() == before.keys()
    # 80 layers x 2 x 8 heads x 128 x 2 bytes; the assistant's 36 layers with one byte
    assert after["chat"]["numbers"]["kv_per_token"]["ideal"] == 327_680
    assert after["assistant"]["numbers"]["kv_per_token"]["ideal"] == 73_728


@pytest.mark.parametrize(
    ("file", "before", "after", "rule"),
    [
        ("deploy/chat.yaml", '"32768"', '"131072"', "min-sequences"),
        ("deploy/chat.yaml", '- "4"\n            - --gpu', '- "2"\n            - --gpu', "starts"),
        ("deploy/values.yaml", "--kv-cache-dtype=fp8", "--kv-cache-dtype=bfloat16", None),
        ("kvplan-budget.yaml", "tp: 8", "tp: 2", "starts"),
        ("models/assistant.yaml", "layers: 36", "layers: 360", "min-sequences"),
    ],
)
def test_one_flag_breaks_it_where_it_stands(example: Path, file: str, before: str, after: str, rule: str | None):
    line = (EXAMPLE / file).read_text().partition(before)[0].count("\n") + 1
    edited(example / file, lambda text: text.replace(before, after))
    found = ran("kvplan check --format github -o kvplan.sarif")
    sarif = json.loads((example / "kvplan.sarif").read_text())
    schema = json.loads((SCHEMAS / "sarif-schema-2.1.0.json").read_text())
    jsonschema.Draft4Validator(schema).validate(sarif)
    places = {
        (result["ruleId"], result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].partition("/platform/")[2]
         or result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"],
         result["locations"][0]["physicalLocation"]["region"]["startLine"])
        for result in sarif["runs"][0]["results"] if result["level"] == "error"
    }  # fmt: skip
    if rule is None:
        assert found.code == 0
        return
    assert found.code == 1
    assert rule in {place[0] for place in places}
    stands = {(path, number) for command, path, number, _ in annotations(found.out) if command == "error"}
    assert stands == {place[1:] for place in places}
    if not file.startswith("models/"):
        flag = 1 if file.endswith("chat.yaml") else 0  # the value of a flag stands on the line after it
        assert (file, line - flag) in stands
