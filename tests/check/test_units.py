"""systemd units: the environment of what they start. Source: systemd.exec(5), Environment= and EnvironmentFile=."""

from __future__ import annotations

from pathlib import Path

import pytest
from check.test_serving import read

from kvplan.manifests import Served, parse
from kvplan.manifests.tree import WorkingTree

UNIT = "[Unit]\n[Service]\n{}\nExecStart=/opt/vllm serve m --max-model-len {}\n"


def served(environment: str, value: str = "${LEN}") -> Served:
    return parse(UNIT.format(environment, value), "v.service", WorkingTree())


@pytest.mark.parametrize("file", ["-/etc/vllm/env", "/etc/vllm/env"])
@pytest.mark.parametrize("value", ["${LEN}", "$LEN"])
@pytest.mark.usefixtures("folder")
def test_a_file_that_is_not_here_may_set_anything(file: str, value: str):
    """Settings from these files override settings made with Environment=, wherever either stands."""
    for setting in (f"Environment=LEN=8192\nEnvironmentFile={file}", f"EnvironmentFile={file}\nEnvironment=LEN=8192"):
        found = served(setting, value)
        assert not found.commands
        assert [(entry.why, entry.place.line) for entry in found.unread] == [
            (f"its --max-model-len is {value}, which only the shell knows", 5)
        ]


@pytest.mark.usefixtures("folder")
def test_what_names_nothing_of_it_is_read():
    (command,) = served("EnvironmentFile=/etc/vllm/env", "8192").commands
    assert command.layer["context",].value == 8192
    assert command.place.line == 4


@pytest.mark.parametrize(
    ("text", "context"),
    [
        ("# x\n; y\n\nLEN=4096\n", 4096),
        ('LEN="4096"\n', 4096),
        ("LEN='4096'\nOTHER=a b\n", 4096),
        ("OTHER=1\n", 8192),
        ("LEN=4\\\n096\n", None),
        ("export it\n", None),
    ],
)
def test_a_file_beside_the_unit_counts(folder: Path, text: str, context: int | None):
    (folder / "env").write_text(text)
    found = served("EnvironmentFile=-/etc/vllm/env\nEnvironment=LEN=8192")
    assert [command.layer["context",].value for command in found.commands] == ([context] if context else [])


@pytest.mark.usefixtures("folder")
def test_an_empty_setting_drops_those_before_it():
    assert served("Environment=LEN=8192\nEnvironmentFile=/a\nEnvironmentFile=").commands


LINES = {
    "ExecStart=vllm serve m \\\n  # --max-model-len 1 \\\n  --max-model-len 8192\n": 8192,
    "ExecStart=vllm serve m \\\n; --max-model-len 1\n  --max-model-len 8192\n": 8192,
    'Environment="A=--max-model-len 8192"\nExecStart=vllm serve m $A\n': 8192,
    "Environment=A=1\nEnvironment=\nEnvironment=L=8192\nExecStart=vllm serve m --max-model-len ${A}${L}\n": None,
    "Environment=L=1\nEnvironment=\nExecStart=vllm serve m --max-model-len $L\n": None,
    "Environment=L=8192\nExecStart=/bin/bash -c 'vllm serve m --max-model-len ${L}'\n": 8192,
    'Environment=L=8192\nExecStart=/bin/bash -c "vllm serve m --max-model-len ${L}"\n': 8192,
    "Environment=L=8192\nExecStart=/bin/bash -c 'vllm serve m --max-model-len $$L'\n": 8192,
}


@pytest.mark.parametrize(("unit", "context"), LINES.items())
def test_lines_as_systemd_reads_them(unit: str, context: int | None):
    found = [command.layer["context",].value for command in read(f"[Service]\n{unit}", "v.service").commands]
    assert found == ([] if context is None else [context])


def test_a_variable_in_braces_is_one_argument():
    (command,) = read(
        '[Service]\nEnvironment="A=--max-model-len 8192"\nExecStart=vllm serve m ${A}\n', "v.service"
    ).commands
    assert ("context",) not in command.layer or [each for each in command.remarks if "is one argument" in each.text]


def test_a_specifier_is_systemd_s():
    found = read("[Service]\nExecStart=vllm serve %i --max-model-len 8192\n", "vllm@.service")
    assert not found.commands
    assert "%{i}" in found.unread[0].why
