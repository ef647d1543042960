"""Budgets, manifests and locks damaged at random: an answer or one clear error, never a traceback."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from check.checking import StandIn, check

from kvplan import manifests
from kvplan.check.budgets.reader import parse_budget
from kvplan.check.inputs import Asked, read_inputs
from kvplan.check.results.lock import parse_lock
from kvplan.check.results.verdict import exit_code
from kvplan.check.run import Run, run
from kvplan.errors import KvplanError
from kvplan.manifests.tree import WorkingTree

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "platform"
FILES = (
    "kvplan-budget.yaml",
    "deploy/chat.yaml",
    "deploy/values.yaml",
    "compose.yaml",
    "serve.sh",
    "kvplan-budget.lock.json",
)
SIGNS = ["{", "}", "[", "]", ":", "-", "'", '"', "\n", "  ", "#", "&a ", "*a", "!x ", "|", ">", "%", "$(x)", "${x}", "`", "\\",
         "null", "true", "1e9", "-1", "0", "\x00", "\x1b", "\ufeff", "é", "\U0001f680", "{{ x }}", "=", "@", "\t", "9" * 50]  # fmt: skip


def mutated(text: str, chance: random.Random) -> str:
    """The text with one to four things deleted, doubled, swapped or put in."""
    lines = text.split("\n")
    for _ in range(chance.randint(1, 4)):
        at, other = chance.randrange(len(lines)), chance.randrange(len(lines))
        column = chance.randint(0, len(lines[at]))
        match chance.randrange(5):
            case 0:
                lines[at] = ""
            case 1:
                lines.insert(at, lines[other])
            case 2:
                lines[at], lines[other] = lines[other], lines[at]
            case 3:
                lines[at] = lines[at][:column] + chance.choice(SIGNS) + lines[at][column:]
            case 4:
                lines[at] = lines[at][:column] + lines[at][column + chance.randint(1, 5) :]
    return "\n".join(lines)


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_answered_or_refused_by_name(name: str, folder: Path):
    chance = random.Random(name)  # noqa: S311 - repeatable
    text = (EXAMPLE / name).read_text()
    answered = 0
    for _ in range(300):
        damaged = mutated(text, chance)
        try:
            if name.endswith(".json"):
                parse_lock(damaged, name)
            elif "budget" in name:
                parse_budget(damaged, str(EXAMPLE / name), WorkingTree())
            else:
                served = manifests.parse(damaged, name, WorkingTree())
                assert all(command.place.line >= 1 for command in served.commands)
            answered += 1
        except KvplanError:
            continue
    assert 0 < answered < 300 or name == "serve.sh"


def test_whole_runs_of_damaged_repositories(folder: Path):
    chance = random.Random(1)  # noqa: S311
    for _ in range(60):
        for name in FILES[1:5]:
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(mutated((EXAMPLE / name).read_text(), chance), encoding="utf-8")
        try:
            done = run(Run(files=(".",), asked=Asked(gpu="h100")), StandIn())
        except KvplanError:
            continue
        assert exit_code(done.report, "error") in {0, 1, 2}
        assert done.report.results or done.report.unread or exit_code(done.report, "error") == 2


@pytest.mark.parametrize("raw", [b"\xff\xfe\x00", b"\x00" * 100, b"a: \xff", b"kvplan-budget: 1\n" * 300_000])
def test_files_that_are_no_text_or_too_much_of_it(folder: Path, raw: bytes):
    for name in ("kvplan-budget.yaml", "pod.yaml", "run.sh"):
        (folder / name).write_bytes(raw)
        assert check(name).code == 2
    try:
        (read,) = read_inputs(("kvplan-budget.yaml",), WorkingTree(), Asked())
    except KvplanError:
        return
    assert read.faults
