"""Fills the documents with real output. tools/remake.py writes them.

A block is a fence marked `console` whose first line is a command:

    ```console
    $ kvplan size llama-3-8b
    ...what it printed...
    ```

A region between `<!-- table: NAME -->` and `<!-- /table -->` has a table made by a function of this file.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = "docs/examples/platform/kvplan-budget.yaml"
"""A budget with its lock, whose numbers are generated too."""
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"```console\n\$ kvplan (?P<words>.*)\n(?P<output>(?:(?!```).*\n)*)```")
REGION = re.compile(r"<!-- table: (?P<name>[\w-]+) -->\n(?P<body>(?:(?!<!-- /table -->).*\n)*)<!-- /table -->")


def printed(words: str) -> str:
    """What `kvplan words` prints on both streams, 100 columns wide and without colour.

    Raises: SystemExit if kvplan itself fails.
    """
    from kvplan.cli import main

    os.environ.update(COLUMNS="100", NO_COLOR="1", HF_HUB_OFFLINE="1")
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream), contextlib.chdir(ROOT):
        code = main(shlex.split(words))
    if "kvplan failed" in stream.getvalue():
        raise SystemExit(f"kvplan {words}\n{stream.getvalue()}")
    text = "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"
    return text if code == 0 else f"{text}$ echo $?\n{code}\n"


def cases_table() -> str:
    """Public fault reports with kvplan's answers."""
    rows = ["| report | question | answer |", "| --- | --- | --- |"]
    for line in (ROOT / "tests" / "data" / "cases.jsonl").read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        rows.append(f"| [{case['id']}]({case['url']}) {case['kind']} | {case['question']} | {case['answer']} |")
    return "\n".join(rows) + "\n"


def seven_models_table() -> str:
    """Bytes of the seven models at three lengths, and per GPU under tensor parallelism."""
    from kvplan import api

    rows = [
        "| model | token 1 adds | a token adds when windows are full | fixed | 8,192 | 32,768 | 131,072 |",
        "| --- |" + " ---: |" * 6,
    ]
    for name in SEVEN:
        report = api.size(name, contexts=(8192, 32768, 131072), kv_dtype="bf16")
        cache, lengths = report.cache, [f"{entry.bytes:,}" for entry in report.sequences]
        numbers = (cache.bytes_per_token, cache.bytes_per_token_full, cache.fixed_bytes_per_sequence)
        rows.append(f"| {name} | " + " | ".join([*(f"{number:,}" for number in numbers), *lengths]) + " |")
    return "\n".join(rows) + "\n"


SEVEN = ("llama-3-8b", "llama-3-70b", "deepseek-v3", "mixtral-8x7b", "gemma-3-27b", "gpt-oss-120b", "qwen3-next-80b")

TABLES: dict[str, Callable[[], str]] = {"cases": cases_table, "seven-models": seven_models_table}


def refreshed(text: str) -> str:
    """A document with its blocks and regions updated."""
    text = BLOCK.sub(lambda match: f"```console\n$ kvplan {match['words']}\n{printed(match['words'])}```", text)
    return REGION.sub(lambda match: f"<!-- table: {match['name']} -->\n{TABLES[match['name']]()}<!-- /table -->", text)
