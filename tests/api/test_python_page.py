"""The page about the API: its code runs and gives what it says, and it names everything that is offered."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import kvplan
from kvplan.report import schema

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python.md"


def test_its_code_gives_what_it_says(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert (failed, tried > 10) == (0, True)


def test_it_names_what_is_offered():
    page = PAGE.read_text(encoding="utf-8")
    offered = set(kvplan.__all__) - {"Gpu", "Model"}  # what load_gpu and load_model give
    assert offered <= set(re.findall(r"\w+", page))
    answers = [kind for name, (_, kind) in schema.DOCUMENTS.items() if name not in {"verify", "check"}]
    assert all(f"`{kind}`" in page for kind in answers)
