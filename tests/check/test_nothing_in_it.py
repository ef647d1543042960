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


def test_standard_input(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    done = check("-", "--gpu", "h100")
    assert (done.code, "it has no serve command of vLLM" in done.err + done.out) == (2, True)
