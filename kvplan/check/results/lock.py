"""The lock: what was planned, and every number, as it was when it was last accepted.

    {"schema": "kvplan.lock/1", "kvplan": "0.1.0", "deployments": {"chat": {"model": ..., "numbers": {...}}}}

Sorted, one number a line, so that a change of a number is a line of a pull request.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from kvplan.check.budgets.budget import ENDS
from kvplan.check.results.metrics import NUMBERS
from kvplan.errors import BadFile
from kvplan.report.schema.check import Result, Subject, Three

SCHEMA = "kvplan.lock/1"

Entry = tuple[Subject, Mapping[str, Three]]
"""What a deployment was: what was planned, and its numbers."""

Snapshot = Mapping[str, Entry]
"""Entries by the names of their deployments."""


def entry(result: Result) -> Entry | None:
    """What a result says of its deployment; None where there was no answer."""
    if result.subject is None or result.numbers is None:
        return None
    return result.subject, result.numbers


def lock_text(results: Mapping[str, Result], version: str) -> str:
    """The lock of these results by their names, ending with a newline; results without an answer aren't in it."""
    entries = {name: found for name, result in results.items() if (found := entry(result)) is not None}
    deployments = {
        name: {**asdict(subject), "numbers": {key: _ends(numbers[key]) for key in NUMBERS if key in numbers}}
        for name, (subject, numbers) in entries.items()
    }
    document = {"schema": SCHEMA, "kvplan": version, "deployments": deployments}
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _ends(three: Three) -> dict[str, float | None]:
    return {end: rounded(three.at(end)) for end in ENDS}


def rounded(value: float | None) -> float | None:
    """Whole numbers as they are, times to six digits: the rest is the arithmetic of one machine."""
    return float(f"{value:.6g}") if isinstance(value, float) else value


def parse_lock(text: str, name: str) -> Snapshot:
    """What a lock says.

    Raises: BadFile for anything that isn't one.
    """
    from kvplan.sources.strict import parse_json_object

    document = parse_json_object(text, name)
    deployments = document.get("deployments")
    if document.get("schema") != SCHEMA or not isinstance(deployments, dict):
        raise BadFile(f"{name} is not a lock of this version", hint="write it again: kvplan check --update")
    try:
        return {key: _entry(found) for key, found in deployments.items()}
    except (TypeError, KeyError, AttributeError) as error:
        cause = f"an entry can't be read: {error}"
        raise BadFile(f"{name} is damaged", cause=cause, hint="write it again: kvplan check --update") from None


def _entry(found: dict[str, Any]) -> Entry:
    numbers = {name: Three(**ends) for name, ends in found["numbers"].items()}
    return Subject(**{key: value for key, value in found.items() if key != "numbers"}), numbers
