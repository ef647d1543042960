"""What tests of `kvplan check` share: a planner with made-up numbers, and the command line with what it printed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cli.running import Result, run

from kvplan.check.budgets.budget import Question
from kvplan.check.plans.planning import Outcome, Planned, Unanswered
from kvplan.errors import Problem
from kvplan.report.schema.check import Subject, Three

GIB = 2**30
KIB = 2**10


@dataclass
class StandIn:
    """Answers every question with the same numbers, or with what `answers` has for its model."""

    answers: dict[str, Outcome] = field(default_factory=dict)
    asked: list[Question] = field(default_factory=list)

    def plan(self, question: Question) -> Outcome:
        self.asked.append(question)
        return self.answers.get(question.model) or planned(model=question.model, context=question.context or 8192)


def planned(
    *, model: str = "m", context: int = 8192, reasons: Mapping[Any, str] | None = None, **numbers: Three
) -> Planned:
    """A plan of 4 sequences of 2 GiB in 10 GiB of cache, on one GPU; numbers by name replace these."""
    subject = Subject(
        model=model, source=model, revision=None, engine="vllm", version="0.33.0", gpu="h100-sxm", gpus=1,
        gpu_memory=80 * GIB, parallel={"tp": 1, "pp": 1, "dp": 1, "ep": 1, "dcp": 1}, context=context, kv_dtype="bf16",
        options={},
    )  # fmt: skip
    usual = {
        "kv_per_token": Three(160 * KIB, 160 * KIB, 128 * KIB),
        "kv_per_sequence": Three(2 * GIB, 2 * GIB, 1 * GIB),
        "weights": Three(16 * GIB, 15 * GIB, 15 * GIB),
        "max_sequences": Three(4, 5, 10),
        "max_context": Three(32768, 40960, None),
        "tpot": Three(0.030, 0.030, 0.020),
        "gpus": Three(1, 1, 1),
        "headroom": Three(8 * GIB, 9 * GIB, 9 * GIB),
        "kv_memory": Three(10 * GIB, 12 * GIB, 12 * GIB),
    }
    return Planned(subject, {**usual, **numbers}, reasons or {})


def unanswered(what: str = "no", code: int = 2) -> Unanswered:
    return Unanswered(Problem(what, "why", "what next"), code)


def check(*words: str) -> Result:
    """Run `kvplan check WORDS` in this process, offline."""
    return run("check", *words, "--offline")


def annotations(text: str) -> list[tuple[str, str, int, str]]:
    """(command, file, line, message) of every workflow command, read as a runner reads them."""

    def parsed() -> Iterator[tuple[str, str, int, str]]:
        for line in text.splitlines():
            assert line.startswith("::")
            head, _, message = line[2:].partition("::")
            command, _, rest = head.partition(" ")
            properties = dict(pair.split("=", 1) for pair in rest.split(","))
            plain = {key: unescaped(value) for key, value in properties.items()}
            yield command, plain["file"], int(plain["line"]), unescaped(message)

    return list(parsed())


def unescaped(text: str) -> str:
    """What a runner makes of escaped text: it replaces these in this order."""
    for code, sign in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(code, sign)
    return text


def edited(path: Path, change: Callable[[str], str]) -> None:
    """Write a file again, changed; the change must change something."""
    before = path.read_text()
    after = change(before)
    assert after != before
    path.write_text(after)
