"""Models by paths in a container, whose folders are mounted from this machine.

Source: docker run -v and --mount; Apptainer's --bind, and the home folder that it mounts itself; pyxis --container-mounts.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from check.checking import check

IMAGE = "vllm/vllm-openai:v0.33.0"
LOOKED = "num_hidden_layers"
SIF = f"apptainer exec {{}} docker://{IMAGE} vllm serve {{}}"


def told(command: str) -> str:
    Path("run.sh").write_text(f"{command}\n")
    return str(check("run.sh", "--gpu", "h100", "--json").document)


@pytest.fixture
def model(folder: Path) -> Path:
    """A folder with a config whose refusal shows that it was looked at."""
    found = folder / "models" / "m"
    found.mkdir(parents=True)
    (found / "config.json").write_text('{"model_type": "llama"}')
    return found


@pytest.mark.parametrize(
    "command",
    [
        f"docker run -v {{0}}:/x {IMAGE} --model /x/m",
        f"docker run -v {{0}}:{{0}}:ro {IMAGE} --model {{0}}/m",
        f"docker run --mount type=bind,source={{0}},target=/x,readonly {IMAGE} --model /x/m",
        f"docker run --mount type=bind,src={{0}},dst=/x {IMAGE} --model /x/m",
        f"docker run -v /nowhere:/ -v {{0}}:/x {IMAGE} --model /x/m",
        SIF.format("-B {0}:/x", "/x/m"),
        SIF.format("--bind /nowhere:/y,{0}", "{0}/m"),
        SIF.format("--mount type=bind,source={0},destination=/x", "/x/m"),
        f"srun --container-image={IMAGE} --container-mounts=/nowhere:/y,{{0}}:/x:ro vllm serve /x/m",
        f"shifter --image={IMAGE} --volume={{0}}:/x vllm serve /x/m",
    ],
)
def test_a_model_is_looked_at_where_it_is_mounted_from(model: Path, command: str):
    assert LOOKED in told(command.format(model.parent))


@pytest.mark.parametrize(
    "command",
    [
        f"docker run -v {{0}}:/y {IMAGE} --model /x/m",
        f"docker run -v {{0}} {IMAGE} --model {{0}}/m",  # a new volume
        f"docker run -v models:/x {IMAGE} --model /x/m",  # a volume by its name
        f"docker run --mount type=volume,source=models,target=/x {IMAGE} --model /x/m",
        f"docker run -v {{0}}:/x -v other:/x/m {IMAGE} --model /x/m",
        f"docker run -v /nowhere:/x {IMAGE} --model /x/m",
        SIF.format("-B /nowhere", "{0}/m"),
        SIF.format("", "{0}/m"),
    ],
)
def test_another_path_is_the_containers(model: Path, command: str):
    said = told(command.format(model.parent))
    assert LOOKED not in said
    assert "a path in its container" in said


def test_apptainer_shares_the_home_folder(model: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(model.parent))
    assert LOOKED in told(SIF.format("--nv", str(model)))
    for alone in ("--no-home", "--containall"):
        assert "a path in its container" in told(SIF.format(alone, str(model)))
