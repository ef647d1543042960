"""Whoever raises NEWEST is told what else was read of the newest release: each of these is a table or an example of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kvplan.engines.vllm.tables import architectures
from kvplan.engines.vllm.tables.changes import CHANGES
from kvplan.engines.vllm.tables.registered import CLASSES
from kvplan.engines.vllm.tables.releases import RELEASES
from kvplan.engines.vllm.tables.unregistered import RUNS_IN
from kvplan.engines.vllm.tables.versions import NEWEST, parse

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "platform"
CLASS = re.compile(r"[A-Z]\w+For[A-Z]\w+")
TAG = re.compile(r"\bv(0\.\d+\.\d+)\b|vllm@(0\.\d+)")


@pytest.mark.parametrize(
    ("place", "version"),
    [
        ("RELEASES, by tools/vllm_tables.py", RELEASES[-1]),
        ("RUNS_IN and the classes in kvplan/engines/vllm/tables/unregistered.py", ".".join(map(str, RUNS_IN))),
        *(
            (f"{path.relative_to(EXAMPLE.parents[2])}", next(filter(None, found.groups())))
            for path in sorted(EXAMPLE.rglob("[!.]*.yaml"))
            for found in TAG.finditer(path.read_text(encoding="utf-8"))
        ),
    ],
)
def test_what_was_read_of_the_newest_release_is_of_it(place, version):
    assert parse(version) == NEWEST, f"{place} is of {version}"


def test_classes_of_tables_made_by_hand_are_registered():
    """A name that no release has is a slip, or belongs to a class that was renamed."""
    told = [
        value for name, value in vars(architectures).items() if name.isupper() and name not in ("CLASSES", "DRAFTS")
    ]
    names = {name for value in told if isinstance(value, tuple | dict) for name in value if CLASS.fullmatch(str(name))}
    assert "GptOssForCausalLM" in names
    assert names <= CLASSES.keys()


def test_no_rule_is_of_a_release_after_the_newest():
    assert max(change.since for change in CHANGES) <= NEWEST
