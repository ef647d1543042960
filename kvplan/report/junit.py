"""A check as JUnit XML: a suite for each file, a test case for each check of each deployment.

It keeps to what two published schemas agree on: Apache Ant's (github.com/windyroad/JUnit-Schema) and the one of
Jenkins' xUnit plugin (junit-10.xsd). A broken limit is a failure, a deployment without an answer an error. A warning
passes, and is printed in the suite's output.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from kvplan.report.schema.check import CheckReport, CheckRow, Result

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 can't represent."""


@dataclass(frozen=True, slots=True)
class _Case:
    name: str
    deployment: str
    kind: str = ""
    message: str = ""
    text: str = ""

    @property
    def failed(self) -> bool:
        return self.kind == "failure"


def junit(report: CheckReport, timestamp: str, path: Callable[[str], str]) -> str:
    """The document. timestamp: `2026-01-31T12:00:00`, UTC. path: from a file's name to its path in the repository."""
    files: dict[str, list[Result]] = {}
    for result in report.results:
        files.setdefault(path(result.at.file), []).append(result)
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<testsuites>"]
    for number, (file, results) in enumerate(files.items()):
        lines += _suite(number, file, results, timestamp)
    return "\n".join([*lines, "</testsuites>"]) + "\n"


def _suite(number: int, file: str, results: list[Result], timestamp: str) -> Iterator[str]:
    cases = [case for result in results for case in _cases(result)]
    failures, errors = sum(case.failed for case in cases), sum(case.kind == "error" for case in cases)
    yield (
        f'  <testsuite name={_attribute(file)} package={_attribute(file)} id="{number}" timestamp="{timestamp}"'
        f' hostname="localhost" tests="{len(cases)}" failures="{failures}" errors="{errors}" time="0">'
    )
    yield "    <properties/>"
    for case in cases:
        head = f'    <testcase name={_attribute(case.name)} classname={_attribute(case.deployment)} time="0"'
        if not case.kind:
            yield head + "/>"
            continue
        yield head + ">"
        yield f"      <{case.kind} type={_attribute(case.name)} message={_attribute(case.message)}>{_content(case.text)}</{case.kind}>"
        yield "    </testcase>"
    warnings = [f"{result.name}: {row.message}" for result in results for row in result.checks if row.status == "warn"]
    yield f"    <system-out>{_content(chr(10).join(warnings))}</system-out>"
    yield "    <system-err/>"
    yield "  </testsuite>"


def _cases(result: Result) -> Iterator[_Case]:
    if result.error is not None:
        error = result.error
        text = "\n".join(part for part in (error.what, error.cause, error.hint) if part)
        yield _Case("planned", result.name, "error", error.what, text)
    for row in result.checks:
        failed = row.status == "fail"
        where = f"{row.shown.file}:{row.shown.line}"
        text = "\n".join(part for part in (f"{where}: {row.message}", row.hint) if part)
        name = _case_name(row)
        yield _Case(name, result.name, "failure", row.message, text) if failed else _Case(name, result.name)


def _case_name(row: CheckRow) -> str:
    """`kv-per-token`, `min-sequences at 8,192 tokens (likely)`."""
    at = f" at {row.tokens:,} tokens" if row.tokens is not None and row.limit is not None else ""
    return row.rule + at + (f" ({row.end})" if row.end != "safe" else "")


def _attribute(text: str) -> str:
    """A quoted attribute on one line."""
    return quoteattr(_FORBIDDEN.sub("?", " ".join(text.split())))


def _content(text: str) -> str:
    return escape(_FORBIDDEN.sub("?", text))
