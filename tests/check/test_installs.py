"""Which vLLM a command runs: what is installed before it, in its own environment, or what its image holds.

Versions follow what a shell would do: pip's requirements (PEP 440, PEP 508), wheels by their names (PEP 427), `git clone
--branch`, conda's `=`, virtual environments by their activate scripts.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from check.test_serving import read

from kvplan.manifests.flags.command import Command

IMAGE = "vllm/vllm-openai:v0.10.1"


def said(commands: Sequence[Command]) -> list[tuple[str | None, bool]]:
    """The version of each command, and whether it is warned that nobody knows it."""
    return [
        (
            str(engine.value).partition("@")[2] if (engine := command.layer.get(("engine",))) is not None else None,
            any(remark.rule == "engine-version" for remark in command.remarks),
        )
        for command in commands
    ]


def of(script: str) -> tuple[str | None, bool]:
    (found,) = said(read(f"{script}\n", "run.sh").commands)
    return found


@pytest.mark.parametrize(
    ("script", "release"),
    [
        ("pip install vllm==0.10.0\nvllm serve m", "0.10.0"),
        ("pip install vllm==0.10.0; pip install vllm==0.11.0; vllm serve m", "0.11.0"),
        ("pip install vllm==0.10.0; pip install vllm flash-attn; vllm serve m", "0.10.0"),
        ("sudo -H python3 -m pip install --upgrade 'vLLM[audio] == 0.10.0'; vllm serve m", "0.10.0"),
        ("pip install -q vllm==0.10.0 | tail -1\nvllm serve m", "0.10.0"),
        ("(cd /tmp && pip install vllm==0.10.0)\nvllm serve m", "0.10.0"),
        ("cd /x && source v/bin/activate && pip install vllm==0.10.0\nvllm serve m", "0.10.0"),
        ("pip install -U pip && pip install vllm==0.10.0 && exec vllm serve m", "0.10.0"),
        ("if [ $X ]; then pip install vllm==0.10.0; vllm serve m; fi", "0.10.0"),
        ("[ -n $X ] && pip install vllm==0.10.0 && vllm serve m", "0.10.0"),
        ("up() { pip install vllm==0.10.0; }\nmain() { up; vllm serve m; }\nmain", "0.10.0"),
        ("main() { vllm serve m; }\npip install vllm==0.10.0\nmain", "0.10.0"),
        ("up() { pip install vllm==0.10.0; vllm serve m; }", "0.10.0"),
        ("source a/bin/activate; pip install vllm==0.8.5; deactivate\nsource b/bin/activate; pip install vllm==0.10.0; vllm serve m", "0.10.0"),
        ("a/bin/pip install vllm==0.8.5; b/bin/pip install vllm==0.10.0; ./b/bin/vllm serve m", "0.10.0"),
        ("conda create -y -n a -c conda-forge vllm=0.8.5\nconda activate a\nvllm serve m", "0.8.5"),
        ("conda create -n a vllm=0.8.5; conda run -n a vllm serve m", "0.8.5"),
        ("uv venv; uv pip install vllm==0.10.0; source .venv/bin/activate; vllm serve m", "0.10.0"),
        ("uv pip install --system vllm==0.10.0; vllm serve m", "0.10.0"),
        ("uv add vllm==0.10.0; uv run vllm serve m", "0.10.0"),
        ("uv run --with vllm==0.11.0 vllm serve m", "0.11.0"),
        ("pip install vllm==0.8.5; uvx --from vllm==0.11.0 vllm serve m", "0.11.0"),
        ("pip install https://github.com/vllm-project/vllm/releases/download/v0.10.1/vllm-0.10.1-cp38-abi3-manylinux1_x86_64.whl; vllm serve m", "0.10.1"),
        ("pip install ./vllm-0.10.1+cu118-cp38-abi3-manylinux1_x86_64.whl; vllm serve m", "0.10.1"),
        ("pip install git+https://github.com/vllm-project/vllm.git@v0.10.1; vllm serve m", "0.10.1"),
        ("git clone -b v0.10.1 https://github.com/vllm-project/vllm.git\npip install -e vllm; vllm serve m", "0.10.1"),
        ("git clone https://github.com/vllm-project/vllm; cd vllm; git checkout v0.10.1; pip install -e .; vllm serve m", "0.10.1"),
        ("ssh h 'pip install vllm==0.10.0; vllm serve m'", "0.10.0"),
        ("bash -c 'pip install vllm==0.10.0; vllm serve m'", "0.10.0"),
        (f"docker run --entrypoint bash {IMAGE} -c 'pip install vllm==0.10.0; vllm serve m'", "0.10.0"),
        # whatever the host's pip says, and whatever isn't installed
        (f"pip install vllm==0.8.5; docker run {IMAGE} --model m", "0.10.1"),
        (f"pip install vllm==0.8.5; docker run --entrypoint bash {IMAGE} -c 'vllm serve m'", "0.10.1"),
        (f"pip install vllm==0.8.5; kubectl run v --image={IMAGE} -- --model m", "0.10.1"),
        (f"pip install vllm==0.8.5; srun --container-image={IMAGE} vllm serve m", "0.10.1"),
        (f"#SBATCH --container-image={IMAGE}\nexec vllm serve m", "0.10.1"),
        (f"#SBATCH --container-image {IMAGE}\npip install vllm==0.8.5; srun vllm serve m", "0.8.5"),
        (f"docker run {IMAGE} --model m; pip install vllm==0.8.5", "0.10.1"),
        (f"docker run --entrypoint bash {IMAGE} -c 'pip install vllm; vllm serve m'", "0.10.1"),
    ],
)  # fmt: skip
def test_a_release_that_is_certain(script: str, release: str):
    assert of(script) == (release, False)


@pytest.mark.parametrize(
    "script",
    [
        "echo vllm==0.8.5; vllm serve m",
        "pip uninstall -y vllm==0.8.5; vllm serve m",
        "pip download vllm==0.8.5; vllm serve m",
        "pip install --dry-run vllm==0.8.5; vllm serve m",
        "pip freeze | grep vllm==0.8.5; vllm serve m",
        "up() { pip install vllm==0.8.5; }\nvllm serve m",
        "vllm serve m & \npip install vllm==0.8.5",
        "pip install vllm; vllm serve m",
        "pip install -U vllm; vllm serve m",
        "pip install 'vllm>=0.8.5'; vllm serve m",
        "pip install vllm==0.8.5; uv pip install -U vllm; vllm serve m",
        "pip install git+https://github.com/vllm-project/vllm; vllm serve m",
        "if false; then pip install vllm==0.8.5; else vllm serve m; fi",
        f"docker run --entrypoint pip {IMAGE} install vllm==0.8.5; vllm serve m",
        "pip install -e .; vllm serve m",
    ],
)
def test_what_says_nothing_or_the_newest_is_no_reason_to_warn(script: str):
    assert of(script) == (None, False)


@pytest.mark.parametrize(
    "script",
    [
        "pip install 'vllm>=0.10,<0.11'; vllm serve m",
        "pip install vllm~=0.10.1; vllm serve m",
        "pip install 'vllm==0.10.*'; vllm serve m",
        "pip install 'vllm!=0.10.1'; vllm serve m",
        "conda install vllm=0.8; vllm serve m",
        'pip install "vllm==${VERSION}"; vllm serve m',
        "pip install https://wheels.vllm.ai/0a1b2c/vllm-*.whl; vllm serve m",
        "pip install vllm --extra-index-url https://wheels.vllm.ai/$COMMIT; vllm serve m",
        "pip install git+https://github.com/vllm-project/vllm@0a1b2c3; vllm serve m",
        "pip install -e /src/vllm; vllm serve m",
        "pip install --target /x vllm==0.8.5; vllm serve m",
        "git clone https://github.com/vllm-project/vllm; cd vllm; git checkout 0a1b2c3; pip install -e .; vllm serve m",
        # not for certain, or elsewhere
        'if [ "$X" ]; then pip install vllm==0.8.5; fi\nvllm serve m',
        "pip show vllm || pip install vllm==0.8.5\nvllm serve m",
        "[ -n $X ] && pip install vllm==0.8.5\nvllm serve m",
        "for p in a b; do pip install vllm==0.8.5; done\nvllm serve m",
        "case $X in a) pip install vllm==0.8.5;; b) pip install vllm==0.9.0;; esac\nvllm serve m",
        "source a/bin/activate; pip install vllm==0.8.5; deactivate; source b/bin/activate; vllm serve m",
        "a/bin/pip install vllm==0.8.5; vllm serve m",
        "a/bin/pip install vllm==0.8.5; b/bin/pip install vllm==0.9.0; if [ $X ]; then . a/bin/activate; else . b/bin/activate; fi; vllm serve m",
        "pip install vllm==0.8.5; ssh h 'vllm serve m'",
        "pip install vllm==0.8.5; pip uninstall -y vllm; vllm serve m",
        f"docker run --entrypoint bash {IMAGE} -c 'pip install -U vllm; vllm serve m'",
        f"docker run --entrypoint bash {IMAGE} -c '[ -f x ] && pip install vllm==0.10.0; vllm serve m'",
    ],
)
def test_a_release_that_is_not_certain_is_warned_about(script: str):
    assert of(script) == (None, True)


def test_the_warning_says_what_and_where():
    (command,) = read("true\npip install 'vllm>=0.10,<0.11'\nvllm serve m\n", "run.sh").commands
    (remark,) = command.remarks
    assert (remark.place.line, remark.level) == (2, "warn")
    assert "vllm>=0.10,<0.11" in remark.text
    assert "--engine" in remark.text


def test_flags_are_not_held_against_a_release_that_nobody_knows():
    lost = "--num-lookahead-slots 2"  # which the newest hasn't
    (command,) = read(f"pip install vllm~=0.8.0; vllm serve m {lost}\n", "run.sh").commands
    assert "unknown-flag" not in {remark.rule for remark in command.remarks}


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ("RUN pip install vllm==0.10.0", ("0.10.0", False)),
        ("RUN python -m venv /v && /v/bin/pip install vllm==0.10.0\nENV PATH=/v/bin:$PATH", ("0.10.0", False)),
        ("RUN if [ $X ]; then pip install vllm==0.8.5; else pip install vllm==0.9.0; fi", (None, True)),
        ("RUN pip install 'vllm<0.11'", (None, True)),
        ("RUN pip install vllm==0.8.5\nRUN pip install vllm==0.10.0", ("0.10.0", False)),
    ],
)
def test_what_an_image_is_built_with(lines: str, found: tuple[str | None, bool]):
    text = f'FROM python:3.12\n{lines}\nCMD ["vllm", "serve", "m"]\n'
    assert said(read(text, "Dockerfile").commands) == [found]


@pytest.mark.parametrize(
    "line",
    [
        "RUN --mount=type=cache,target=/root/.cache/uv uv pip install --system -U vllm==0.10.0",
        "RUN --mount=type=cache,target=/root/.cache \\\n    --network=host \\\n    pip install vllm==0.10.0",
        'RUN ["pip", "install", "vllm==0.10.0"]',
        "RUN pip install vllm==0.10.0",
    ],
)
def test_a_layer_that_installs_with_flags_of_its_own_or_in_brackets(line: str) -> None:
    text = f'FROM vllm/vllm-openai:v0.9.1\n{line}\nCMD ["--model", "m"]\n'
    assert said(read(text, "Dockerfile").commands) == [("0.10.0", False)]


@pytest.mark.parametrize(
    "shell",
    [
        "bash -c 'pip install vllm==0.10.0'",
        'sudo bash -c "pip install vllm==0.10.0"',
        "eval 'pip install vllm==0.10.0'",
    ],
)
def test_an_installation_one_shell_down_leaves_the_release_unclear(shell: str) -> None:
    assert of(f"{shell}\nvllm serve m")[1]
    text = f'FROM vllm/vllm-openai:v0.9.1\nRUN {shell}\nCMD ["--model", "m"]\n'
    ((release, warned),) = said(read(text, "Dockerfile").commands)
    assert warned or release == "0.10.0"


@pytest.mark.parametrize(
    ("between", "warned"), [("docker exec v pip install vllm==0.10.0", True), ("docker exec v pip install ray", False)]
)
def test_an_installation_in_a_running_container_leaves_its_release_unclear(between: str, warned: bool) -> None:
    begun = "docker run -d --name v --entrypoint sleep vllm/vllm-openai:v0.9.1 infinity"
    found = said(read(f"{begun}\n{between}\ndocker exec v vllm serve m\n", "run.sh").commands)
    assert found == [(None if warned else "0.9.1", warned)]
