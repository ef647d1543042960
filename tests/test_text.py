"""Wording that every message shares."""

from __future__ import annotations

import pytest

from kvplan.text import all_of, any_of, meant, nearest, on_one_line, plural


@pytest.mark.parametrize(("count", "said"), [(0, "0 layers"), (1, "1 layer"), (2, "2 layers"), (1024, "1,024 layers")])
def test_plurals(count: int, said: str):
    assert plural(count, "layer") == said


@pytest.mark.parametrize(
    ("words", "said"), [("", ""), ("a", "a"), ("ab", "a or b"), ("abc", "a, b or c"), ("abcd", "a, b, c or d")]
)
def test_lists(words: str, said: str):
    assert any_of(words) == said
    assert all_of(iter(words)) == said.replace(" or ", " and ")


def test_what_may_be_meant():
    known = ("max-num-seqs", "max-model-len", "port")
    assert meant("max-num-seq", known, dashes="--", after=" ") == "did you mean --max-num-seqs? "
    assert meant("watermark", known) == ""
    # 2 x 9 signs in common of 11 + 12, and of 11 + 13
    assert nearest("max-num-len", known, most=2, cutoff=0.5) == ["max-num-seqs", "max-model-len"]


def test_quoted_text_stays_on_its_line():
    assert on_one_line("a\nb\tc\x1b d", word=10, most=50) == "a b c? d"
    assert on_one_line("x" * 14 + " y", word=10, most=50) == "x" * 10 + "... y"
    assert on_one_line("x" * 13, word=10, most=50) == "x" * 13
    assert on_one_line("ab " * 10, word=10, most=5) == "ab ab..."
