"""Three pages as they look at 100 columns without colour, from stand-ins: what a change of layout changes is seen here.

REMAKE_PAGES=1 pytest tests/cli/test_pages.py writes them again, to be read before they are committed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
from cli.running import run
from plan.standins import DEEPSEEK_V3, GQA, LLAMA_70B, WINDOW, model, textbook

from kvplan.arch.parallel import Parallel
from kvplan.engines.ideal import Ideal
from kvplan.plan.compare import compare
from kvplan.plan.fit import fit
from kvplan.plan.size import SizeRequest, size
from kvplan.plan.suggest import suggest
from kvplan.report.assemble.compare import compare_report
from kvplan.report.assemble.fit import fit_report
from kvplan.report.assemble.size import size_report
from kvplan.report.blocks import Bar, Column, Facts, Heading, Note, Table, Verdict
from kvplan.report.canvas import Canvas
from kvplan.report.render import render
from kvplan.report.text import draw
from kvplan.sources.models import model_names

PAGES = Path(__file__).parent / "pages"


def size_page():
    mixed = model(*(WINDOW,) * 50, *(GQA,) * 10, maximum=131_072)
    return size_report(size(SizeRequest(mixed, Ideal(), (8192, 131_072), Parallel(tp=8))), None)


def fit_page():
    plan = fit(textbook(8192))
    return fit_report(plan, suggest(plan), ())


def compare_page():
    rows = compare([LLAMA_70B, DEEPSEEK_V3], 8192, (None,), ("mha", "mla"), Parallel(tp=8))
    return compare_report(rows, Parallel(tp=8))


@pytest.mark.parametrize(("name", "make"), [("size", size_page), ("fit", fit_page), ("compare", compare_page)])
def test_a_page_is_drawn_as_committed(name: str, make: Callable):
    page, path = render(make(), "table", Canvas()), PAGES / f"{name}.txt"
    if os.environ.get("REMAKE_PAGES"):
        path.write_text(page, encoding="utf-8")
    assert page == path.read_text(encoding="utf-8")


@pytest.mark.parametrize(("make", "width"), [(size_page, 80), (fit_page, 60), (compare_page, 100)])
def test_pages_fit_their_width_in_ascii(make: Callable, width: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", str(width))
    page = render(make(), "table", Canvas(ascii_stream()), explain=True)
    assert page.isascii()
    assert max(map(len, page.splitlines())) <= width


def ascii_stream() -> TextIOWrapper:
    return TextIOWrapper(BytesIO(), encoding="ascii")


BLOCKS = (
    Heading("What"),
    Verdict("Fits.", good=True),
    Facts((("name", "a value"), ("longer name", "b"))),
    Table((Column("left", right=False), Column("right")), (("a", "1"), ("bb", "22"))),
    Bar((("half", 50, "5 B"), ("rest", 50, "5 B")), 100),
    Note("[bold]One[/bold] :smile:"),
    Note("Two."),
)


def test_blocks_are_drawn_forty_columns_wide(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "40")
    assert draw(BLOCKS, Canvas()) == (
        "What\nFits.\n"
        "name         a value\nlonger name  b\n"
        "\nleft  right\n───────────\na         1\nbb       22\n"
        "\n▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒\n▓ half 5 B   ▒ rest 5 B\n"
        "\n[bold]One[/bold] :smile:\nTwo.\n"
    )


def test_blocks_in_ascii(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "40")
    page = draw(BLOCKS[3:5], Canvas(ascii_stream()))
    assert page == (
        "left |right\n-----+-----\na    |    1\nbb   |   22\n\n####################++++++++++++++++++++\n# half 5 B   + rest 5 B\n"
    )


def test_blocks_in_colour():
    assert draw(BLOCKS[:2], Canvas(colour="always")) == "\x1b[1mWhat\x1b[0m\n\x1b[1;32mFits.\x1b[0m\n"


def test_numbers_are_never_cut_and_the_name_is_the_last_to_go(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "40")
    columns = (Column("model", right=False, shrink=True), *(Column(f"bytes {n}", stays=n == 3) for n in range(4)))
    row = ("a-model-with-a-long-name", "5,578,424,320", "5,578,424,321", "5,578,424,322", "5,578,424,323")
    assert draw((Table(columns, (row,)),), Canvas()).splitlines() == [
        "model                           bytes 3",
        "─" * 39,
        "a-model-with-a-long-name  5,578,424,323",
        "No room in 40 columns, the least that a",
        "page has, for: bytes 0, bytes 1, bytes",
        "2.",
    ]


@pytest.mark.parametrize("width", [40, 60, 80, 100])
@pytest.mark.parametrize(
    "words", ["compare llama-3-8b deepseek-v3 gemma-3-27b --ctx 32k", "fit --gpu h100 --ctx 8k", "models", "gpus"]
)
def test_every_width_keeps_the_names(words: str, width: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", str(width))
    page = run(*words.split(), "--no-config").out.splitlines()
    assert max(map(len, page)) <= width
    start = next(n for n, line in enumerate(page) if line.startswith("─"))
    first = {line.split(" ")[0] for line in page[start + 1 :]}
    assert first >= ({"h100-sxm", "l40s"} if words == "gpus" else {"llama-3-8b", "deepseek-v3", "gemma-3-27b"})
    names = set(re.split(r"[-\s]", " ".join(model_names())))
    broken = [word for word in first if word.endswith("-")]
    assert all({*word[:-1].split("-")} <= names for word in broken if words != "gpus")
