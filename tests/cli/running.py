"""The command line, in this process for speed and in one of its own where streams and exit codes matter."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from kvplan.cli import main

ROOT = Path(__file__).parents[2]


class Result(NamedTuple):
    """What a command line did."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """Its one JSON document."""
        found: dict[str, Any] = json.loads(self.out)
        return found


def run(*words: str) -> Result:
    """Run `kvplan WORDS` here."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    return Result(code, out.getvalue(), err.getvalue())


def run_json(*words: str) -> dict[str, Any]:
    """The document of a command line that answers."""
    result = run(*words, "--json", "--no-config")
    assert result.code in {0, 1}, result.err
    return result.document


def process(*words: str, folder: Path | None = None, stdin: str | None = None, **variables: str) -> Result:
    """Run `python -m kvplan WORDS` in a process with a clean environment."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "SYSTEMROOT") if name in os.environ}
    environment = {**kept, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", **variables}
    done = subprocess.run(
        [sys.executable, "-m", "kvplan", *words],
        capture_output=True,
        check=False,
        cwd=folder,
        encoding="utf-8",
        env=environment,
        input=stdin,
        timeout=60,
    )
    return Result(done.returncode, done.stdout, done.stderr)
