"""Three pages as they look at 100 columns without colour, from stand-ins: what a change of layout changes is seen here.

REMAKE_PAGES=1 pytest tests/cli/test_pages.py writes them again, to be read before they are committed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
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
def test_page(name: str, make: Callable):
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


def test_blocks(monkeypatch: pytest.MonkeyPatch):
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


def test_numbers_are_never_cut(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "40")
    columns = (Column("model", right=False, shrink=True), *(Column("bytes of it all"),) * 4)
    page = draw((Table(columns, (("a model with a long name", *("5,578,424,320",) * 4),)),), Canvas())
    assert page.count("5,578,424,320") == 4
