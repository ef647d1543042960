"""Where a path of a model lies: below the narrowest mount, on the machine whose daemon runs it, in the folder that it is relative to.

Source: docker run (-v, --mount, --tmpfs, --volumes-from, -w), pyxis --container-mounts, docker(1) -H, --context and DOCKER_HOST, podman(1) --remote, Compose's
volumes, tmpfs and working_dir; POSIX sh cd, bash pushd; systemd.exec WorkingDirectory=; Apptainer's --bind, --pwd and the home folder that it
mounts itself.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from check.checking import check

IMAGE = "vllm/vllm-openai:v0.33.0"
LOOKED = "num_hidden_layers"
ARGS = f"{IMAGE} --model /x/m"
SIF = f"apptainer exec {{}} docker://{IMAGE} vllm serve {{}}"


@pytest.fixture
def model(folder: Path) -> Path:
    """A folder with a config whose refusal shows that it was looked at."""
    found = folder / "models" / "m"
    found.mkdir(parents=True)
    (found / "config.json").write_text('{"model_type": "llama"}')
    return found


def told(text: str, name: str = "run.sh") -> str:
    Path(name).write_text(f"{text}\n")
    return str(check(name, "--gpu", "h100", "--json").document)


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


@pytest.mark.parametrize(
    "options",
    [
        "-v $PWD/other:/x/m", "-v $(pwd)/other:/x/m", "-v ${MINE:-/a}:/x/m:ro", "-v other:/x/m", "-v /x/m", "-v $MINE",
        "--mount type=bind,source=$(pwd)/o,target=/x/m", "--mount type=volume,source=o,target=/x/m", "--mount type=tmpfs,dst=/x/m",
        "--tmpfs /x/m", "--tmpfs /x/m:size=1g", "--volumes-from other", "$EXTRA", "--rm $EXTRA", "--gpus=all ${EXTRA[@]}",
    ],
)  # fmt: skip
def test_a_narrower_mount_hides_the_broader_one(model: Path, options: str):
    said = told(f"docker run -v {model.parent}:/x {options} {ARGS}")
    assert LOOKED not in said
    assert "/x/m, a path in its container" in said


@pytest.mark.parametrize(
    "options",
    ["-v $PWD/other:/x/other", "--tmpfs /tmp", "--name $NAME -p ${PORT:-8000}:8000", "-v $PWD/a:/xx", "-e A=$B"],
)
def test_what_is_mounted_beside_it_does_not(model: Path, options: str):
    assert LOOKED in told(f"docker run -v {model.parent}:/x {options} {ARGS}")


@pytest.mark.parametrize("more", ["--bind $MINE:/x/m", "--bind $MINE", "--mount type=bind,src=$A,dst=/x/m"])
def test_a_narrower_mount_of_apptainers(model: Path, more: str):
    said = told(f"apptainer exec --bind {model.parent}:/x {more} docker://{IMAGE} vllm serve /x/m")
    assert "/x/m, a path in its container" in said


@pytest.mark.parametrize(
    ("setting", "before"),
    [
        ("", "docker -H ssh://gpu1"), ("", "docker --host=tcp://gpu1:2376"), ("", "docker --context gpu1"), ("", "docker -c gpu1"),
        ("", "podman --remote"), ("", "podman --url ssh://gpu1/run/podman.sock"), ("", "podman --connection gpu1"),
        ("export DOCKER_HOST=ssh://gpu1", "docker"), ("", "DOCKER_HOST=ssh://gpu1 docker"), ("export DOCKER_CONTEXT=gpu1", "docker"),
        ("export DOCKER_HOST=ssh://gpu1", "sudo -E docker"), ("", "ssh gpu1 docker"), ("", "ssh gpu1 sudo docker"),
    ],
)  # fmt: skip
def test_a_daemon_of_another_machine_has_its_own_files(model: Path, setting: str, before: str):
    said = told(f"{setting}\n{before} run -v {model.parent}:/x {ARGS}")
    assert LOOKED not in said
    assert "/x/m, a path where it runs, which isn't here" in said


@pytest.mark.parametrize(
    "before", ["docker -H unix:///var/run/docker.sock", "docker --context default", "DOCKER_HOST=unix:///a docker"]
)
def test_a_daemon_of_this_machine(model: Path, before: str):
    assert LOOKED in told(f"{before} run -c 2 -h gpu1 -v {model.parent}:/x {ARGS}")


def test_a_container_that_is_started_over_ssh_in_one_word(model: Path):
    assert "a path where it runs" in told(f'ssh gpu1 "docker run -v {model.parent}:/x {ARGS}"')


@pytest.mark.parametrize(
    "script",
    [
        "vllm serve ./models/m", "vllm serve models/m", "cd models\nvllm serve ./m", "cd models; vllm serve m", "cd models && vllm serve ./m",
        "cd models/m\nvllm serve .", "cd models\ncd ..\nvllm serve ./models/m", 'cd "$(dirname "$0")"\nvllm serve ./models/m',
        'cd "$(dirname "${BASH_SOURCE[0]}")/models"\nvllm serve ./m', 'cd "$(cd "$(dirname "$0")" && pwd)"\nvllm serve models/m',
        'HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"\ncd "$HERE"\nvllm serve ./models/m',
        'export D=$(dirname "$0")\ncd "${D}/models"\nvllm serve ./m',
        "pushd models >/dev/null\nvllm serve ./m", "bash -c 'cd models && exec vllm serve ./m'", "cd {0}\nvllm serve m",
        "cd models || exit 1\nvllm serve ./m", f"cd models\ndocker run -v ./m:/x {IMAGE} --model /x",
        f"docker run -v {{0}}:/srv -w /srv {IMAGE} --model ./m", f"apptainer exec docker://{IMAGE} vllm serve ./models/m",
    ],
)  # fmt: skip
def test_a_relative_path_follows_cd(model: Path, script: str):
    assert LOOKED in told(script.replace("{0}", str(model.parent)))


@pytest.mark.parametrize(
    "script",
    [
        "cd /opt/app\nvllm serve ./models/m", "cd /opt/app && vllm serve models/m", "pushd /srv >/dev/null\nvllm serve models/m",
        'D=$(dirname "$0")\nD=/opt\ncd $D\nvllm serve ./models/m',
        "cd $APP\nvllm serve ./models/m", "cd\nvllm serve ./models/m", "if x; then cd y; fi\nvllm serve ./models/m",
        "serve() { vllm serve ./models/m; }\ncd /opt\nserve", "bash -c 'cd /opt && vllm serve ./models/m'", "cd -\nvllm serve ./models/m",
        "tmux new -d 'cd /opt && vllm serve ./models/m'", "ssh gpu1 vllm serve models/m", "su - me -c 'vllm serve ./models/m'",
        f"docker run -w /srv {IMAGE} --model ./models/m", f"docker run {IMAGE} --model models/m", f"docker run {IMAGE} --model ./models/m",
        f"cd $APP\ndocker run -v ./models:/x {ARGS}", f"apptainer exec --pwd /srv docker://{IMAGE} vllm serve ./models/m",
        f"kubectl run v --image={IMAGE} -- --model ./models/m",
    ],
)  # fmt: skip
def test_a_relative_path_of_another_folder_is_not_looked_for_beside_the_script(model: Path, script: str):
    assert model
    said = told(script)
    assert LOOKED not in said
    assert ", a path " in said


@pytest.mark.parametrize("model_name", ["llama-3-8b", "Qwen/Qwen3-8B"])
def test_a_name_stays_a_name_in_any_folder(folder: Path, model_name: str):
    assert folder
    for script in ("cd $APP\nvllm serve {}", f"docker run -w /srv {IMAGE} --model {{}}", "ssh gpu1 vllm serve {}"):
        assert ", a path " not in told(script.format(model_name))


COMPOSE = "services: {{a: {{image: '" + IMAGE + "', command: --model {}, {}}}}}"


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("/x/m", "volumes: [./models:/x, '${MINE}:/x/m']"), ("/x/m", "volumes: [./models:/x, vol:/x/m]"), ("/x/m", "volumes: [./models:/x, /x/m]"),
        ("/x/m", "volumes: [./models:/x], tmpfs: /x/m"), ("/x/m", "volumes: [./models:/x], tmpfs: ['/x/m:size=1g']"),
        ("/x/m", "volumes: [./models:/x], volumes_from: [b]"), ("/x/m", "volumes: [./models:/x, {type: volume, source: v, target: /x/m}]"),
        ("./models/m", "ipc: host"), ("models/m", "ipc: host"), ("./m", "working_dir: /y, volumes: [./models:/x]"),
    ],
)  # fmt: skip
def test_a_path_of_a_service_that_is_not_here(model: Path, name: str, more: str):
    assert model
    said = told(COMPOSE.format(name, more), "compose.yaml")
    assert LOOKED not in said
    assert f"{name}, a path in its container" in said


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("/x/m", "volumes: ['${MODELS:-./models}:/x', vol:/x/n]"), ("./m", "working_dir: /x, volumes: [./models:/x]"),
        ("/x/m", "volumes: [{type: bind, source: ./models, target: /x}]"),
    ],
)  # fmt: skip
def test_a_path_of_a_service_that_is_here(model: Path, name: str, more: str):
    assert model
    assert LOOKED in told(COMPOSE.format(name, more), "compose.yaml")


def test_a_unit_runs_in_its_own_working_directory(model: Path):
    unit = "[Service]\n{}ExecStart=/usr/bin/vllm serve ./m\n"
    assert LOOKED in told(unit.format(f"WorkingDirectory={model.parent}\n"), "v.service")
    assert "a path in /, where it runs" in told(unit.format(""), "v.service")


@pytest.mark.usefixtures("folder")
def test_a_model_that_is_mounted_from_elsewhere_is_told_by_what_the_command_calls_it():
    said = told(COMPOSE.format("/x/m", "volumes: [./models:/x]"), "compose.yaml")
    assert "its model is /x/m, and ./models/m isn't here" in said
    assert "`models: {/x/m: llama-3-70b}`" in said
    for name in ("/x/m", "./models/m"):
        budget = (
            f"kvplan-budget: 1\nmodels: {{{name}: llama-3-8b}}\ndeployments: {{a: {{from: compose.yaml, gpu: h100}}}}\n"
        )
        Path("kvplan-budget.yaml").write_text(budget)
        assert check().code == 0


@pytest.mark.usefixtures("folder")
def test_a_path_that_is_not_here_is_told():
    assert "its model is /srv/m, which isn't here: say which model that is" in told("vllm serve /srv/m")
