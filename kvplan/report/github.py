"""Findings as workflow commands of GitHub Actions: annotations on the lines of a pull request.

Source: https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kvplan.report.findings import Finding

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def commands(findings: Iterable[Finding], path: Callable[[str], str]) -> str:
    """One command per finding, each on a line. path: from a file's name to its path in the repository."""
    return "".join(_line(finding, path(finding.at.file)) for finding in findings)


def _line(finding: Finding, file: str) -> str:
    title = f"kvplan: {finding.subject}"
    properties = f"file={_property(file)},line={finding.at.line},title={_property(title)}"
    return f"::{_COMMANDS[finding.severity]} {properties}::{_data(finding.message)}\n"


def _data(text: str) -> str:
    """Text escaped so that a runner can't read it as another command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """The same for a property, in which colons and commas are special too."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")
