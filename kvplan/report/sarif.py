"""Findings as SARIF 2.1.0, for code scanning.

Rules have stable ids, paths are relative to the repository, and each result has a fingerprint that doesn't move with
its line. Sources: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html and GitHub's SARIF support page.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote

from kvplan.report.findings import Finding

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
ROOT = "%SRCROOT%"


def sarif(
    findings: Iterable[Finding], rules: Mapping[str, str], version: str, path: Callable[[str], str], *, complete: bool
) -> str:
    """The document, ending with a newline.

    rules: ids, each with a sentence. path: from a file's name to its path in the repository. complete: whether every
    deployment was answered.
    """
    known = list(rules)
    document = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "kvplan",
                        "semanticVersion": version,
                        "rules": [_rule(rule, about) for rule, about in rules.items()],
                    }
                },
                "automationDetails": {"id": "kvplan-check/"},
                "columnKind": "unicodeCodePoints",
                "originalUriBaseIds": {ROOT: {"description": {"text": "The root of the repository."}}},
                "invocations": [{"executionSuccessful": complete}],
                "results": [_result(finding, known, path(finding.at.file)) for finding in findings],
            }
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _rule(rule: str, about: str) -> dict[str, Any]:
    return {
        "id": rule,
        "name": "".join(word.capitalize() for word in rule.split("-")),
        "shortDescription": {"text": about},
        "help": {"text": about},
        "defaultConfiguration": {"level": "error"},
    }


def _result(finding: Finding, known: list[str], file: str) -> dict[str, Any]:
    location = {
        "physicalLocation": {
            "artifactLocation": {"uri": quote(file, safe="/"), "uriBaseId": ROOT},
            "region": {"startLine": max(1, finding.at.line)},
        },
        "logicalLocations": [{"name": finding.subject, "kind": "resource"}],
    }
    return {
        "ruleId": finding.rule,
        "ruleIndex": known.index(finding.rule),
        "level": finding.severity,
        "message": {"text": finding.message},
        "locations": [location],
        "partialFingerprints": {"kvplanCheck/v1": _fingerprint(finding, file)},
    }


def _fingerprint(finding: Finding, file: str) -> str:
    """Identifies the same limit of the same deployment, whatever its line and its numbers."""
    return hashlib.sha256(f"{file}\0{finding.rule}\0{finding.key}".encode()).hexdigest()[:32]
