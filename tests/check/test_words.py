"""Shell words without a shell: what a real one would run, and what only it could know."""

from __future__ import annotations

import shlex
import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvplan.manifests.shell.parser import commands

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
    'A=(); show x "${A[@]}" "" y', 'A=(); show x ${A[@]+"${A[@]}"} y', 'A=(a "b c"); show x ${A[@]+"${A[@]}"} y',
    'A=(); show "x${A[@]}"', 'A=(); show "${A[*]}"',
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


CERTAIN = {
    "T=2; run $T": "2", "cd x && T=8 && run $T": "8", "{ T=3; }; run $T": "3", "export T=3 U=4; run $T": "3",
    "if a; then T=4; run $T; fi": "4", "a && {\n T=3\n run $T\n}": "3", "T=1\nsource .env\nT=3\nrun $T": "3",
    "set -euo pipefail\nT=3\nrun $T": "3", "T=3\nmain() { run $T; }\nmain": "3", "f() { T=3; run $T; }; f": "3",
    ". /opt/venv/bin/activate; run ${T:-2}": "2", "A=(if x\n3); run \"${A[2]}\" \"${A[@]}\"": "${A[2]} if x 3",
    "T=2; foo \\\n bar; run $T": "2",
}  # fmt: skip
CERTAIN |= {
    "echo $((8*1024)); run $((8 * 1024))": "8192", 'N=3; run "$((N * (2+1) - -1))$(( $N % 2 ))"': "101", "run $((7 / 2))": "3",
    ": ${T:=3}; run $T": "3", "T=; run \"${T-x}\"": "", "T=1; unset T; run ${T:-5}": "5", "T=1; wait; run $T": "1",
    "T=1; eval 'printf %s T'; run $T": "1", "T=1; for i in a; do run $T; wait $!; done": "1", "T=1; : ${T:=3}; run $T": "1",
    "((X*=2)); T=3; run $T": "3", "for ((i=0; i<3; i++)); do run 3; done": "3", "if ((3 > 2)); then run 1; fi": "1",
    "declare -i T=3; run $T": "3", "T=${T:=3}; for i in a; do run $T; done": "3", 'T="${T:=3}"; f() { run $T; }; f': "3", "T=3; let X=5; run $T": "3", "T=4; ((X == T)); run $T": "4", "((a); (b)); T=2; run $T": "2",
}  # fmt: skip
CERTAIN |= {
    "T=3\nf () {\n exit 1\n}\nrun $T": "3", "function f () { exit; }; T=3; run $T": "3",
    "function f { exit; }; T=3; run $T": "3", "T=3; { X=4; } | cat; run $T": "3", "f ( ) {\n case $1 in\n a) x;; esac\n}\nT=3\nrun $T": "3",
}  # fmt: skip
"""A function's body is not run where it stands."""
DOUBTFUL = [
    # functions, however they are written
    "T=3\nf () { T=4; }\nf\nrun $T", "function f () { T=4; }; f; run $T", "function f { T=4; }; f; run $T",
    "function f\n{\n T=4\n}\nf\nrun $T", "T=3\nf ()\n{\n T=4\n}\nf\nrun $T",
    # what runs in a shell of its own
    "T=3; T=4 &\nrun $T", "T=3; T=4 | cat; run $T", "T=3; { T=4; } | cat; run $T", "T=3; { T=4; } & wait; run $T",
    # what sets a variable without being NAME=
    "T=1; ((T*=16)); run $T", "T=1; let T=5; run $T", "T=1; let 'T += 5'; run $T", "T=1; ((T++)); run $T",
    "T=1; ((--T)); run $T", "T=1; x=$((T=65536)); run $T", "T=1; echo \"$((T*=16))\"; run $T", "T=1; x=$[T=5]; run $T",
    'case "${P:-a}" in a) : "${T:=6}" ;; b) : "${T:=3}" ;; esac; T="${T:-4}"; run $T', "T=1; : ${X:-$((T=2))}; run $T",
    'T=(a b); T[0]=c; run "${T[0]}"', 'declare -A T=(x); T["a b"]=c; run "${T[@]}"', "T=1; declare -n R=T; R=5; run $T",
    "T=1; f() { local -n r=$1; r=5; }; T=2; f T; run $T", "T=1; declare -n R=$x; R=5; run $T", "typeset -i T=X; run $T",
    "declare -i T; T=X+1; run $T", "declare -u T=abc; run $T", "T=3; while :; do run $T; ((T*=2)); done",
    "T=3; while :; do run $T; read T; done", "f() { ((T*=2)); }; T=4; f; run $T", "f() { read T; }; T=4; f; run $T",
    "f() { source x; }; T=4; f; run $T", "if a; then unset T; fi; run ${T:-3}", "f() { unset T; }; T=3; f; run $T",
    "T=1; cat <<EOF\n${X:-$((T=3))} $((T*=2))\nEOF\nrun $T", "a && : ${T:=5}; run ${T:-3}", "for ((T=0; T<3; T++)); do :; done; run $T",
    "run $((X*2))", "run $((08))", "run $((2**3))", "T=1; f() { eval $1; }; T=3; f T=5; run $T", "unset $x; run ${T:-4}",
    'T=1; eval "printf -v T %s 5"; run $T', "T=1; eval 'printf -vT 5'; run $T", "T=1; eval 'wait -n -p T'; run $T", "T=1; eval ' ((T *= 2))'; run $T",
    "T=1; printf -vT 5; run $T", "T=1; wait -p T; run $T", "T=1; wait -np T; run $T", "T=1; wait -npT; run $T", "T=1; read -raT; run $T",
    "T=3; while :; do run $T; printf -vT 5; done", "T=3; while :; do run $T; wait -n -p T; done", "T=1; builtin read T; run $T",
    "f() { printf -v T 5; }; T=4; f; run $T", "f() { wait -pT; }; T=4; f; run $T",
    "T=1; printf -v T 5; run $T", "T=1; getopts a: T; run $T", "T=1; [ x ] && ((T=5)); run $T",

    "if a; then T=8; fi\nrun $T", "T=2\n[ x ] && T=8\nrun $T", "a || T=1\nrun $T", "a && T=1 || T=2\nrun $T",
    "T=2; case $x in a) T=3;; esac; run $T", "case $x in a) T=3;; *) run $T;; esac", "T=2; (T=4); run $T",
    "T=2\nf() { T=8; }\nrun $T", "function f {\n T=3\n}\nT=1\nf\nrun $T", "M=x\nT=x\nf() {\n run $T\n}\nT=y\nf",
    "for T in 1 2; do :; done; run ${T:-4}", "while read T; do :; done; run $T", "T=1; read -r T; run $T", "unset T; run $T",
    "T=1\nsource .env\nrun $T", "source ./x.sh; run ${T:-1}", "T=1; eval $x; run $T", "T=1; if a; then T=4; else run $T; fi",
    "T=$(x); run ${T:-3}", "export $(cat .env); run ${T:-3}", "T=3\nwhile :; do run $T; T=4; done", "T=1 foo; run $T",
    "x && \\\n T=3\nrun $T", "x &&\n T=3\nrun $T", "[ x ] && A=(1); run $A",
]  # fmt: skip


CERTAIN |= {
    "run ${1:-3}": "3", 'run "${2:-${T:-3}}"': "3", "T=5; run ${1:-a$T}": "a5", "shift; run ${1:-3}": "3", "set -- 7; run ${1:-3}": "7",
    "set -- 7; run ${2:-3}": "3", "set --; run ${1:-3}": "3", 'T=${1:-"x/y"}; run $T': "x/y", "run ${T:-${U:-3}}": "3",
    "U=4; run ${T:-$U}": "4",
}  # fmt: skip
"""A script is started without arguments, as its variables are unset: both have a default for that."""
DOUBTFUL += [
    "f() { run ${1:-3}; }; f 4", "if a; then set -- 4; fi; run ${1:-3}", "set -- 4; shift; run ${1:-3}", "run ${1:-$(x)}",
    "source .env; run ${1:-${T:-3}}", "set -- $X 4; run ${1:-3}", "set -- $X 4; run ${2:-3}", "run ${T:-$U}", "run ${T:-${1}}",
]  # fmt: skip


CERTAIN |= {
    "set -- --a 3; run \"$@\"": "--a 3", "set -- a b 3; run $3": "3", "set -e; set -o pipefail; T=3; run $T": "3", "T=3; set -- T=4; run $T": "3",
    "F=1; run ${F:+--a 3} 4": "--a 3 4", "F=; run ${F:+--a 3} 4": "4", "A=(a b); run \"${A[*]}\"": "a b", "run $'a b'": "a b", 'run $"a"': "a",
    "run a \\": "a", "T=1; T=\"$T 2\"; run $T": "1 2", "T=(a); T+=(b c); run ${T[@]}": "a b c",
}  # fmt: skip
SOME = {
    'set -euo pipefail; run "$@"': "?", 'set -o pipefail -e; run "$@"': "?", 'set -eo pipefail -- b; run "$@"': "b", 'set -e b; run "$@"': "b",
    'T=(a)\nif x; then T+=(b); fi\nrun "${T[@]}"': "a ?", 'T=(a)\nif x; then T+=(b); else T+=(c); fi\nrun "${T[@]}"': "a ?",
    'T=(a); [ x ] && T+=(b); T+=(c)\nrun "${T[@]}"': "a ? c", 'T=()\nif x; then T+=(b); fi\nrun "${T[@]}" c': "? c",
    'T="a b"; if x; then T="$T c"; fi; run $T': "a b ?", 'T=a; if x; then T+=" c"; fi; T="$T d"; run $T e': "a ? d e",
    'T=a; if x; then T="${T} c"; fi; if y; then T="${T} d"; fi; T+=" e"; run $T': "a ? e", 'T=a; T="$T $X"; run $T': "a ?",
    'T=a; T+=" $X"; T+=" b"; run $T': "a ? b", 'T=(a); if x; then if y; then T+=(b); else T+=(c); fi; fi; run "${T[@]}"': "a ?",
    'T=(a); for i in 1 2; do T+=($i); done; run "${T[@]}"': "a ?", 'T=(a); if x; then { T+=(b); }; fi; run "${T[@]}"': "a ?",
    'T=(a); if x; then T=(b); T+=(c); fi; run "${T[@]}"': "?", 'T=(a); if x; then T+=(b); T=(c); fi; run "${T[@]}"': "?",
    'T=(a); if x; then T+=(b); else T=(c); fi; run "${T[@]}"': "?", 'T=4; if x; then T+=0; fi; run $T': "?",
    'T=4; if x; then T=40; fi; run $T': "?", 'T=(a); f() { T+=(b); }; f; run "${T[@]}"': "?", 'set -- "$@" b; run "$@"': "? b",
    'T=a; if x; then T="$T c"; fi; run "$T"': "?", 'set -- a; if x; then set -- b; fi; run "$@"': "?", 'set -- $X b; run $2': "?",
    'T=(a); (T+=(b)); run "${T[@]}"': "a ?", 'T=(a); for i in 1; do T=(b); T+=(c); done; run "${T[@]}"': "?", "run $'a\\n'": "?",
    'f() { if x; then T=4; else :; fi; }; T=3; f; run $T': "?", "declare -i T=4; T+=1; run $T": "?", "run $((16#10))": "?",
    'T=(a b); run "${T[@]:0:1}"': "?", 'T=(a $X b); run "${T[*]}"': "?", 'T=4; for i in 1; do run $T; T="$T x"; done': "?",
}  # fmt: skip
"""Scripts, and the words of their command `run`; `?` is one that may stand for any."""


@pytest.mark.parametrize(("script", "seen"), SOME.items())
def test_what_is_certain_stays_beside_what_is_not(script: str, seen: str):
    (run,) = [command[1:] for command in commands(script) if command[0].text == "run"]
    assert " ".join("?" if word.unknown is not None else word.text for word in run) == seen


@pytest.mark.parametrize(("script", "value"), CERTAIN.items())
def test_a_value_that_is_certain(script: str, value: str):
    assert " ".join(words(script)[-1][1:] if words(script)[-1][0] == "run" else words(script)[-2][1:]) == value


ASSIGNING = [
    ": ${T:=65536}", "((T*=16))", "let T=T*16", "x=$((T=65536))", "echo $((T*=16))", "T[0]=9", "declare -n R=T; R=5",
    "declare -i T=2+2", "T=; : ${T=3}", "T=; : ${T:=3}", "unset T; : ${T=3}", "unset T", "typeset -u T=abc", "T+=5",
    "echo $((T<<=2)) $((T>>=1))", "((T=T==4096?1:2))", "((X=3,T=X))", "f() { ((T=7)); }; f", "((T)); let X=T", "x=$((T+1))",
    "x=$((-7/2)) && T=$((-7/2))", "T=$(( 7 % -3 ))", "T=$((-7 % 3))", "T=$((2-3-4))", "T=$(((1+2)*3))",
]  # fmt: skip


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("script", ASSIGNING)
def test_what_bash_would_hold_or_nothing(script: str):
    whole = f'T=4096; {script}\nshow "${{T-}}"'
    define = 'show() { printf "<%s>" "$1"; }\n'
    done = subprocess.run(["bash", "-c", define + whole], capture_output=True, check=True, text=True)
    word = [command[1] for command in commands(whole) if command[0].text == "show"][-1]
    assert word.unknown is not None or done.stdout.endswith(f"<{word.text}>")


@pytest.mark.parametrize("script", DOUBTFUL)
def test_a_value_that_is_not_certain_is_not_taken(script: str):
    (word,) = [command[1] for command in commands(script) if command[0].text == "run"]
    assert word.unknown is not None


@given(st.text(max_size=60))
@settings(max_examples=300)
def test_any_text_is_read_without_complaint(script: str):
    for command in commands(script):
        assert command
