"""docs/check.md: its budgets can be read, its flags and limits are all of them, its pins are the example's."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import indent

import yaml

from kvplan.check.budgets.fields import Limits, Plannable
from kvplan.check.budgets.flags import COMMON, VLLM
from kvplan.check.budgets.reader import parse_budget
from kvplan.manifests.tree import WorkingTree

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "check.md").read_text()
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def test_budgets_of_the_page_can_be_read(folder: Path):
    (folder / "deploy").mkdir()
    (folder / "deploy" / "chat.yaml").write_text((ROOT / "docs/examples/platform/deploy/chat.yaml").read_text())
    read = {}
    for block in BLOCKS:
        if block.startswith("limits:"):
            head = "kvplan-budget: 1\ndeployments:\n  a:\n    model: m\n    gpu: h100\n"
            read["limits"] = parse_budget(head + indent(block, "    "), "b.yaml", WorkingTree()).deployments
        elif "deployments:" in block:
            text = block if "kvplan-budget:" in block else "kvplan-budget: 1\n" + block
            found = parse_budget(text, "b.yaml", WorkingTree()).deployments
            read[next(key for key in ("matrix", "from", "min_sequences") if key in block)] = found
    assert {name: len(found) for name, found in read.items()} == {
        "min_sequences": 1,
        "limits": 1,
        "matrix": 6,
        "from": 1,
    }
    assert len(read["limits"][0].limits) == 6


def test_keys_limits_and_flags_are_all_told():
    for name, field in Plannable.model_fields.items():
        assert f"| {field.alias or name} |" in PAGE, name
    for name in Limits.model_fields:
        assert f"| {name} |" in PAGE, name
    for name in (*VLLM, *COMMON):
        assert name in PAGE, name


def test_other_snippets_are_yaml_and_those_of_the_example():
    example = ROOT / "docs" / "examples" / "platform"
    assert all(yaml.safe_load(block) for block in BLOCKS)
    gitlab = next(yaml.safe_load(block) for block in BLOCKS if "before_script" in block)["kvplan"]
    theirs = yaml.safe_load((example / ".gitlab-ci.yml").read_text())["kvplan"]
    assert gitlab == {key: theirs[key] for key in gitlab}
    pin = re.search(r"actions/checkout@[0-9a-f]{40}", PAGE)
    assert pin is not None
    assert pin[0] in (example / ".github" / "workflows" / "kvplan.yml").read_text()
    hooks = {hook["id"] for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
    assert hooks == set(re.findall(r"- id: (kvplan-\w+)", PAGE))
