"""Shell words without a shell: what a real one would run, and what only it could know."""

from __future__ import annotations

import shlex
import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvplan.check.serving.words import commands

TEXT = st.text(st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="\x00"), min_size=1)


def words(script: str, **variables: str) -> list[list[str]]:
    return [[word.text for word in command] for command in commands(script, variables=variables)]


@given(st.lists(TEXT, min_size=1))
def test_quoted_words_come_back(parts: list[str]):
    parts = ["run", *parts]
    assert words(shlex.join(parts)) == [parts]


SCRIPTS = [
    "show a 'b c' \"d e\" f\\ g h\\\ni",
    "show a # not this\nshow 'it''s' # nor this",
    "X=1; show $X ${X} \"$X\" '$X' ${Y:-two} ${X:-no} \"${Y:-a b}\"",
    "X='a b'; show $X \"$X\" pre${X}post",
    "A=(one \"two three\"\n four); show \"${A[@]}\" end",
    "A=(one); A+=(two); show \"${A[@]}\"",
    "if true; then show yes; fi",
    "show a >/dev/null 2>&1 b",
    "cat <<EOF >/dev/null\nshow hidden\nEOF\nshow seen",
    "show a && show b || show c; (show d)",
    "X=1 Y=2 show z",
    "X=a; X+=b; show $X",
    "show \"a\\$b\" \"c\\\"d\" 'e\"f'",
]  # fmt: skip


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("script", SCRIPTS)
def test_as_bash_would(script: str):
    """Bash runs the script with `show` printing its arguments; the commands called `show` must be the same."""
    define = 'exec 3>&1\nshow() { printf "%s\\0" "$@" >&3; printf "\\n" >&3; }\n'
    done = subprocess.run(["bash", "-c", define + script], capture_output=True, check=True, text=True)
    ran = [line.split("\0")[:-1] for line in done.stdout.splitlines() if line]
    read = [command[1:] for command in words(script) if command[0] == "show"]
    assert [entry for entry in read if entry != ["c"]] == ran  # what stands after || isn't run


def test_lines_are_counted():
    script = 'one\n\ntwo a \\\n  b\nA=(\n  x\n  y\n)\nthree "${A[@]}"\n'
    assert [[(word.text, word.line) for word in command] for command in commands(script, 10)] == [
        [("one", 10)],
        [("two", 12), ("a", 12), ("b", 13)],
        [("three", 18), ("x", 15), ("y", 16)],
    ]


@pytest.mark.parametrize("hidden", ["$NOBODY", "$(pwd)", "`pwd`", "$1", "$@", "${X%y}", '$(echo ")")'])
def test_nothing_is_run_and_nothing_is_guessed(hidden: str):
    ((_, word, last),) = commands(f"run --a={hidden} end")
    assert word.unknown == hidden
    assert word.text == f"--a={hidden}"
    assert last.text == "end"


@given(st.text(max_size=60))
@settings(max_examples=300)
def test_any_text_is_read_without_complaint(script: str):
    for command in commands(script):
        assert command
