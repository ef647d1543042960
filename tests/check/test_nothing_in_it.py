"""YAML with nothing in it, alone and among what serves."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from check.checking import check

EMPTY = [
    "",
    "\n\n",
    "# nothing yet\n",
    "---\n",
    "---\n---\n",
    "null\n",
    "~\n",
    "# vllm serve m\n# image: vllm/vllm-openai\n",
]
SERVES = "vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 8192\n"


@pytest.mark.parametrize("text", EMPTY)
def test_a_file(folder: Path, text: str):
    (folder / "e.yaml").write_text(text)
    done = check("e.yaml", "--gpu", "h100")
    assert done.code == 2
    assert "it has no serve command of vLLM" in done.err + done.out


@pytest.mark.parametrize("text", EMPTY)
def test_it_costs_others_nothing(folder: Path, text: str):
    (folder / "k8s").mkdir()
    (folder / "k8s" / "e.yaml").write_text(text)
    (folder / "k8s" / "run.sh").write_text(SERVES)
    done = check("k8s", "--gpu", "h100", "--json")
    assert (done.code, [result["status"] for result in done.document["results"]]) == (0, ["pass"])


BUDGET = "kvplan-budget: 1\ndeployments: {a: {model: llama-3-8b, gpu: h100}}\n"
MAP = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
data:
"""
LONG = """\
  run.sh: |
    set -e
    exec vllm serve llama-3-8b
"""


def told(name: str) -> str:
    done = check(name, "--gpu", "h100", "--json")
    assert done.code == 2
    (entry,) = done.document["unread"]
    return f"{entry['what']}: {entry['why']}"


@pytest.mark.usefixtures("folder")
def test_a_budget_by_another_name():
    Path("budget.txt").write_text(BUDGET)
    assert "call it kvplan-budget.yaml" in told("budget.txt")


@pytest.mark.usefixtures("folder")
def test_a_budget_in_a_pipe(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(BUDGET.encode())))
    said = told("-")
    assert said.startswith("standard input: it is a budget")
    assert said.endswith("kvplan check kvplan-budget.yaml")


@pytest.mark.parametrize("data", ["  run.sh: vllm serve m\n", "  config.yaml: |\n    model: m\n", LONG])
@pytest.mark.usefixtures("folder")
def test_a_config_map_alone(data: str):
    Path("c.yaml").write_text(MAP + data)
    assert "a ConfigMap starts nothing itself: check it in one stream with what mounts it" in told("c.yaml")


@pytest.mark.usefixtures("folder")
def test_a_config_map_of_something_else():
    Path("c.yaml").write_text(f"{MAP}  panel: sum(vllm:num_requests_running)\n")
    assert "it has no serve command of vLLM" in told("c.yaml")


@pytest.mark.usefixtures("folder")
def test_a_config_map_beside_what_serves():
    Path("c.yaml").write_text(f"{MAP}{LONG}---\napiVersion: v1\nkind: Service\nmetadata: {{name: s}}\n")
    assert "a ConfigMap starts nothing itself" in told("c.yaml")


def test_standard_input(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    done = check("-", "--gpu", "h100")
    assert (done.code, "it has no serve command of vLLM" in done.err + done.out) == (2, True)
