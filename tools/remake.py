"""Remake every generated file that needs only this repository, in the order of their dependencies.

    python tools/remake.py            write changed files, and name them
    python tools/remake.py --check    write nothing; exit 1 and name outdated files

Files made from releases of other projects are remade by tools/vllm_tables.py (vLLM) and tests/oracles (transformers).
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import gpu_index  # noqa: E402

import docs  # noqa: E402
from kvplan.cli import manual  # noqa: E402
from kvplan.cli.streams import complain  # noqa: E402
from kvplan.errors import KvplanError  # noqa: E402
from kvplan.sources import bundled, compiled  # noqa: E402


@dataclass(frozen=True, slots=True)
class Made:
    """One generated file: its path in the repository, and its content."""

    path: str
    text: Callable[[], str]


def made() -> Iterator[Made]:
    """Every generated file, after those that it is made from."""
    yield Made("configs/models/index.json", bundled.index_text)
    yield Made("configs/gpus/index.json", gpu_index.index_text)
    yield Made("configs/models-compiled.jsonl", compiled.text)
    yield Made("docs/commands.md", manual.text)
    yield Made(str(Path(docs.EXAMPLE).with_suffix(".lock.json")), example_lock)
    for path in docs.DOCUMENTS:
        yield Made(str(path.relative_to(ROOT)), partial(document, path))


def example_lock() -> str:
    """The lock of the documents' example, made in a copy of its folder."""
    budget = Path(docs.EXAMPLE)
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(ROOT / budget.parent, Path(folder) / budget.parent.name)
        docs.printed(f"check {copy / budget.name} --offline --update")
        return (copy / budget.name).with_suffix(".lock.json").read_text(encoding="utf-8")


def document(path: Path) -> str:
    """A document with kvplan's current output."""
    return docs.refreshed(path.read_text(encoding="utf-8"))


def behind(*, write: bool) -> Iterator[str]:
    """Outdated files, written if asked.

    Raises: KvplanError for a model or GPU that can't be read.
    """
    for file in made():
        path, text = ROOT / file.path, file.text()
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        if write:
            path.write_text(text, encoding="utf-8")
        yield file.path


def main(words: list[str]) -> int:
    """Write, or check."""
    check = words == ["--check"]
    if words and not check:
        sys.stderr.write(f"python tools/remake.py takes --check or nothing, not {' '.join(words)}\n")
        return 2
    found = 0
    try:
        for path in behind(write=not check):
            found += 1
            sys.stdout.write(f"{path} is behind: run python tools/remake.py\n" if check else f"{path} written\n")
    except KvplanError as error:
        complain(error)
        return error.exit_code
    if not found:
        sys.stdout.write("every generated file is up to date\n")
    return 1 if check and found else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
