"""What may have changed the vLLM that a command runs, and isn't read: the release before is planned with a warning, or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import pytest
from check.test_installs import IMAGE, of, said
from check.test_serving import read

NEW = "0.10.0"
PIP = f"pip install vllm=={NEW}"
CLONE = "git clone https://github.com/vllm-project/vllm; cd vllm; git checkout v0.10.0"
UNCLEAR = (None, True)
DOUBTED = (NEW, True)
CERTAIN = (NEW, False)
Found: TypeAlias = tuple[str | None, bool]
"""The release that is planned, and whether there is a doubt about it."""


def each(table: Mapping[Found, Sequence[str]]) -> list[tuple[Found, str]]:
    """What is found, with each of the scripts it is found for."""
    return [(found, script) for found, scripts in table.items() for script in scripts]


def image(lines: str, base: str = "vllm/vllm-openai:v0.9.1") -> Found:
    (found,) = said(read(f'FROM {base}\n{lines}\nCMD ["vllm", "serve", "m"]\n', "Dockerfile").commands)
    return found


def pod(script: str) -> Found:
    body = "\n".join(f"          {line}" for line in script.splitlines())
    text = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n    - name: v\n"
        f"      image: vllm/vllm-openai:v0.9.1\n      command: [bash, -c]\n      args:\n        - |\n{body}\n"
    )
    (found,) = said(read(text, "pod.yaml").commands)
    return found


def compose(script: str) -> Found:
    text = (
        "services:\n  v:\n    image: vllm/vllm-openai:v0.9.1\n    entrypoint: [bash, -c]\n"
        f"    command: ['{script}; vllm serve m']\n"
    )
    (found,) = said(read(text, "compose.yaml").commands)
    return found


# Dockerfiles


LAYERS = {
    CERTAIN: [
        f"RUN <<EOF\nset -e\n# a comment\n{PIP}\nEOF",
        f"RUN --network=none <<-'END'\n\t{PIP}\n\tEND",
        f"RUN bash -euo pipefail <<EOF\n{PIP}\nEOF",
        "RUN <<EOF\npip install \\\n  vllm==0.10.0\nEOF",
        "WORKDIR /src\nRUN git clone -b v0.10.0 https://github.com/vllm-project/vllm\nWORKDIR /src/vllm\nRUN pip install .",
        f"COPY requirements.txt /\nRUN pip install -r requirements.txt\nRUN {PIP}",
        f"RUN if ! {PIP}; then exit 1; fi",
        f"ENV PATH=/opt/new/bin:$PATH\nRUN {PIP}",
        f"RUN uv venv && uv {PIP}\nENV PATH=/app/.venv/bin:/root/.local/bin:$PATH",
        f"RUN {PIP}\nENV PATH=/root/.local/bin:$PATH LD_LIBRARY_PATH=/x",
        f"RUN {PIP}\nENV PATH=/usr/local/cuda/bin:$PATH",
    ],
    UNCLEAR: [
        "RUN uv pip sync requirements.txt",
        "WORKDIR /opt/vllm\nCOPY . .\nRUN pip install -e .",
        "RUN pip install /tmp/*.whl",
        "RUN --mount=type=bind,from=build,src=/dist,target=/dist pip install /dist/vllm*.whl",
        f"RUN python3 - <<EOF\nrun('{PIP}')\nEOF",
        f'RUN retry 3 "{PIP}"',
        "COPY --from=vllm/vllm-openai:v0.8.5 /usr/local /usr/local",
    ],
    ("0.9.1", True): [
        "RUN pip install -r requirements.txt",
        "RUN uv pip install --system --requirement=requirements.txt",
        "RUN conda env update -f environment.yml",
        "COPY . /app\nWORKDIR /app\nRUN pip install .",
        "ARG SPEC\nRUN pip install $SPEC",
        "COPY install.sh /\nRUN /install.sh",
        "RUN bash /setup.sh",
        "ENV PATH=/opt/new/bin:$PATH",
        "ENV PYTHONPATH=/src/vllm",
        "COPY vllm /usr/local/lib/python3.12/dist-packages/vllm",
    ],
    ("0.9.1", False): [
        f"RUN cat > /start.txt <<'EOF'\n{PIP}\nEOF",
        f"COPY <<EOF /notes.txt\n{PIP}\nEOF",
        "RUN <<EOF\napt-get update\napt-get install -y curl\nEOF",
        "RUN pip install ray\nRUN echo $((1<<2))\nRUN bash wait_for.sh",
        "RUN git clone https://github.com/LMCache/LMCache && cd LMCache && pip install -e .",
        "COPY --from=busybox /bin/wget /bin/wget",
    ],
}  # fmt: skip
"""Layers over the release 0.9.1: those that surely install another, those that aren't read, those that may change it, and those that don't."""


@pytest.mark.parametrize(("found", "lines"), each(LAYERS))
def test_layers(found: Found, lines: str):
    assert image(lines) == found


def test_a_here_document_holds_no_instructions():
    assert image(f'RUN <<EOF\n{PIP}\nCMD ["vllm", "serve", "x"]\nRUN pip install vllm==0.8.5 || true\nEOF') == UNCLEAR


@pytest.mark.parametrize(
    ("made", "copied", "found"),
    [
        ("RUN python -m venv /opt/venv\nENV PATH=/opt/venv/bin:$PATH", "/opt/venv /opt/venv", CERTAIN),
        ("RUN python -m venv /opt/venv\nENV PATH=/opt/venv/bin:$PATH", "/opt /opt", CERTAIN),
        ("", "/usr/local /usr/local", CERTAIN),
        ("", "/usr/local/lib/python3.11/site-packages /usr/local/lib/python3.11/site-packages", CERTAIN),
        ("RUN python -m venv /opt/venv\nENV PATH=/opt/venv/bin:$PATH", "/opt/venv /app/venv", UNCLEAR),
        ("RUN python -m venv /opt/venv\nENV PATH=/opt/venv/bin:$PATH", "/opt/other /opt/other", UNCLEAR),
    ],
)
def test_an_environment_that_is_carried_over(made: str, copied: str, found: Found):
    text = f"FROM python:3.11 AS b\n{made}\nRUN {PIP}\nFROM python:3.11-slim\nCOPY --from=b {copied}\n"
    text += f'{made.rpartition(chr(10))[2]}\nCMD ["vllm", "serve", "m"]\n'
    assert said(read(text, "Dockerfile").commands) == [found]


@pytest.mark.parametrize(
    ("dockerfile", "build", "found"),
    [
        ("FROM python:3.12\nRUN pip3 install vllm==0.10.0\n", "./d", CERTAIN),
        ("FROM python:3.12\nRUN pip3 install vllm==0.10.0\n", "{context: d}", CERTAIN),
        ("FROM python:3.12\nRUN pip3 install vllm==0.10.0\n", "{context: d, args: {A: b}}", CERTAIN),
        ("FROM vllm/vllm-openai:v0.10.0\n", "d", CERTAIN),
        (
            "FROM vllm/vllm-openai:v0.10.0 AS a\nFROM a AS b\nRUN pip install vllm==0.9.2\n",
            "{context: d, target: a}",
            CERTAIN,
        ),
        ("FROM vllm/vllm-openai:v0.10.0\nCOPY x.sh /\nRUN /x.sh\n", "d", DOUBTED),
        (
            "FROM vllm/vllm-openai:v0.10.0\nCOPY requirements.txt /app/\nRUN pip install -r /app/requirements.txt\n",
            "d",
            CERTAIN,
        ),
        ("FROM vllm/vllm-openai:v0.10.0\nRUN pip install -r /app/requirements.txt\n", "d", DOUBTED),
        ("FROM x/base:1\n", "d", UNCLEAR),
        ("ARG BASE\nFROM $BASE\n", "d", UNCLEAR),
        ("", "d", UNCLEAR),
        ("FROM vllm/vllm-openai\n", "d", (None, False)),
        ("FROM vllm/vllm-openai:v0.10.0\n", "elsewhere", UNCLEAR),
        ("FROM vllm/vllm-openai:v0.10.0\n", "https://github.com/x/y.git", UNCLEAR),
    ],
)
def test_images_that_a_compose_file_builds(tmp_path: Path, dockerfile: str, build: str, found: Found):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "Dockerfile").write_text(dockerfile)
    (tmp_path / "d" / "requirements.txt").write_text("numpy\n")
    for image in ("", "    image: mine\n"):
        text = f"services:\n  v:\n{image}    build: {build}\n    command: vllm serve m\n"
        (command,) = read(text, str(tmp_path / "compose.yaml")).commands
        assert said([command]) == [found]
        # `vllm serve` over an image that starts the server itself is remarked where it stands
        assert {each.place.line for each in command.remarks if each.rule != "bad-argument"} <= {2, 3, 4}


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("my-vllm", UNCLEAR),
        ("my-vllm:latest", UNCLEAR),
        ("vllm/vllm-openai", (None, False)),
        ("ghcr.io/x/vllm-openai:v0.10.0-cu128-nixl-v0.4.1-lmcache-0.3.2", DOUBTED),
        ("ghcr.io/x/vllm-openai:v0.10.0", DOUBTED),
        ("lmcache/vllm-openai:v0.3.7", UNCLEAR),
        ("x/vllm:v0.10.0-a", UNCLEAR),
    ],
)
def test_images_that_leave_their_release_open(name: str, found: Found):
    assert of(f"docker build -t my-vllm .\ndocker run --gpus all {name} --model m") == found


def test_an_environment_of_another_stage():
    text = f"FROM python:3.12 AS b\nRUN {PIP}\nFROM {IMAGE}\nCOPY --from=b /usr/local /usr/local\nENTRYPOINT vllm serve m\n"
    assert said(read(text, "Dockerfile").commands) == [UNCLEAR]


@pytest.mark.parametrize(("path", "found"), [("/src/vllm", ("0.9.1", True)), ("/src/plugins", ("0.9.1", False))])
def test_a_path_of_pythons_in_an_environment(path: str, found: Found):
    service = (
        "services:\n  v:\n    image: vllm/vllm-openai:v0.9.1\n    command: [--model, m]\n"
        f"    environment: {{PYTHONPATH: {path}}}\n"
    )
    pod = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n    - name: v\n      image: vllm/vllm-openai:v0.9.1\n"
        f"      args: [--model, m]\n      env: [{{name: PYTHONPATH, value: {path}}}]\n"
    )
    assert said(read(service, "compose.yaml").commands) == [found]
    assert said(read(pod, "pod.yaml").commands) == [found]


def test_a_path_of_pythons_over_what_is_installed():
    assert image(f"RUN {PIP}\nENV PYTHONPATH=/src/vllm") == DOUBTED


@pytest.mark.parametrize(
    ("script", "found"),
    [
        (f"{PIP}; if [ $X ]; then echo; else ./x.sh; fi", DOUBTED),
        (f"if [ $X ]; then {PIP}; ./x.sh; else pip install vllm==0.9.2; fi", UNCLEAR),
        (f"if [ $X ]; then pip install vllm; else {PIP}; ./x.sh; fi", UNCLEAR),
        (f"{PIP}; ./x.sh; pip install 'vllm>=0.9'", UNCLEAR),
        (f"{PIP}; ./x.sh; pip install vllm==0.10.0", CERTAIN),
    ],
)
def test_a_doubt_on_one_of_several_ways(script: str, found: Found):
    assert of(f"{script}\nvllm serve m") == found


# scripts, and those of pods and compose files


BETWEEN = {
    UNCLEAR: [
        "retry pip install vllm==0.8.5", "bash <<EOF\npip install vllm==0.8.5\nEOF",
        "ls /x && pip install vllm==0.8.5", "sudo test -f /x && pip install vllm==0.8.5", "uv --version && pip install vllm==0.8.5",
        "module load vllm/0.11.0", "pip install git+https://github.com/x/vllm-fork", "pip install https://x/vllm_custom.tar.gz",
        "uv pip sync --system requirements.txt",
    ],
    DOUBTED: [
        "pip install -r requirements.txt", "pip install -rrequirements.txt", "pip install -e .", "conda env update -f environment.yml",
        "source ./env.sh", ". /opt/x/setup.sh", "./install.sh", "bash upgrade.sh", "bash -e ./upgrade.sh", "sudo ./install.sh",
        "pip install $SPEC", 'eval "$INSTALL"', "module load python/3.12", "pip install .",
        "spack load py-vllm", "workon other", "python setup.py install", "make install", "export PYTHONPATH=/src/vllm:$PYTHONPATH",
        "alias vllm=/x/vllm", "curl -sSf https://x/install | bash", "sudo bash -c './install.sh'", "bash install-server.sh", "f() { ./install.sh; }; f",
        "if [ -f x ]; then ./install.sh; fi", "bash prepare_database_update.sh", "poetry install",
    ],
    CERTAIN: [
        "export PATH=/usr/local/cuda/bin:$PATH", "export PATH=$HOME/.local/bin:$PATH", "source ~/.bashrc", "source .env",
        "module purge; module load gcc/12 cuda/12.4", "module use /opt/modulefiles", "bash download.sh", "export LD_LIBRARY_PATH=/x", "export PATH=$PATH:/x/bin",
        'eval "$(conda shell.bash hook)"', "bash -c 'nvidia-smi'", "cat > x.sh <<EOF\npip install vllm==0.8.5\nEOF",
        "git clone https://github.com/a/b; cd b; git checkout v0.8.5; pip install -e .", "echo pip install vllm==0.8.5",
        "pip install git+https://github.com/vllm-project/llm-compressor", "export PYTHONPATH=$PWD:$PYTHONPATH", "f() { ./install.sh; }", "python setup_data.py",
    ],
}  # fmt: skip
"""Commands after a release was installed: those that surely change it, those that may, and those that leave it as it is."""


@pytest.mark.parametrize(("found", "between"), each(BETWEEN))
def test_what_stands_between_an_installation_and_a_server(found: Found, between: str):
    assert of(f"{PIP}\n{between}\nvllm serve m") == found
    if found != CERTAIN and "module" not in between:
        assert pod(f"{between}\nvllm serve m") == (UNCLEAR if found == UNCLEAR else ("0.9.1", True))


@pytest.mark.parametrize("name", ["token", "hf_token", "secret", "api-key", "prepare_data", "monitor", "data"])
def test_scripts_that_do_other_things_than_install(name: str):
    assert of(f"{PIP}\nsource ./{name}.sh\nbash {name}.sh\nvllm serve m") == CERTAIN


def test_a_doubt_names_the_command_and_its_line():
    (command,) = read(f"{PIP}\npip install -r requirements.txt\nvllm serve m\n", "run.sh").commands
    (remark,) = command.remarks
    assert remark.text.startswith(
        "vLLM 0.10.0 may have been changed by `pip install -r requirements.txt`: planned as 0.10.0"
    )
    assert remark.place.line == 2


@pytest.mark.parametrize(
    ("script", "cause", "line"),
    [
        (f"{PIP}\nPATH=/opt/x/bin:$PATH vllm serve m", "it runs in /opt/x, and `vllm==0.10.0`", 2),
        (f"{PIP}\nPATH=/opt/x/bin:$PATH\nvllm serve m", "it runs in /opt/x, and `vllm==0.10.0`", 3),
        (
            f'source v/bin/activate\n{PIP}\nssh n "vllm serve m"',
            "`ssh` may run another vLLM than `vllm==0.10.0`",
            3,
        ),
        (f'{PIP}\nsbatch --wrap="vllm serve m" --gres=gpu:1', "`sbatch` may run another", 2),
        (f"{PIP}\npip uninstall -y vllm\nvllm serve m", "`pip uninstall -y vllm` takes", 2),
        (
            "conda create -n a vllm=0.8.5\nvllm serve m",
            "it runs in the default Python, and `vllm=0.8.5`",
            2,
        ),
    ],
)
def test_what_makes_a_release_uncertain_is_named(script: str, cause: str, line: int):
    (command,) = read(f"{script}\n", "run.sh").commands
    (remark,) = [each for each in command.remarks if each.rule == "engine-version"]
    assert remark.text.startswith(cause)
    assert remark.place.line == line


def test_an_environment_that_is_called_by_a_release():
    for script in ("source /opt/vllm-0.9.2/bin/activate\nvllm serve m", "/opt/vllm-0.9.2/bin/vllm serve m",
                   "conda activate vllm-0.9.2\nsource ./x.sh\nvllm serve m"):  # fmt: skip
        assert of(script) == ("0.9.2", True)
    assert of("source /opt/vllm-0.9.2/bin/activate\npip install vllm==0.10.0\nvllm serve m") == CERTAIN


@pytest.mark.parametrize(
    ("text", "before", "found"),
    [
        ("vllm==0.9.2\n", "", ("0.9.2", False)),
        ("vllm==0.9.2  # ours\n", PIP, ("0.9.2", False)),
        ("torch\nnumpy>=1 # for vllm\n--extra-index-url https://x/y\n", PIP, CERTAIN),
        ("torch\n", "", (None, False)),
        ("trl[vllm]\n", PIP, DOUBTED),
        ("trl[vllm]\n", "", UNCLEAR),
        ("-e .\n", PIP, DOUBTED),
        ("vllm\n", PIP, CERTAIN),
        ("vllm\n", "", (None, False)),
        ("-r base.txt\n", PIP, DOUBTED),
        ("vllm<0.12\n", PIP, UNCLEAR),
        ("vllm==0.9.2 \\\n    --hash=sha256:00\n", "", ("0.9.2", False)),
    ],
)
def test_requirements_beside_a_script(tmp_path: Path, text: str, before: str, found: Found):
    (tmp_path / "requirements.txt").write_text(text)
    (command,) = read(f"{before}\npip install -r requirements.txt\nvllm serve m\n", str(tmp_path / "run.sh")).commands
    assert said([command]) == [found]
    elsewhere = f"{before}\ncd sub\npip install -r requirements.txt\nvllm serve m\n"
    assert said(read(elsewhere, str(tmp_path / "run.sh")).commands) == [DOUBTED if before else UNCLEAR]


@pytest.mark.parametrize("between", ["pip install -r requirements.txt", "source /x/env.sh", "/scripts/install.sh"])
def test_what_may_have_changed_the_release_of_a_service(between: str):
    assert compose(between) == ("0.9.1", True)


@pytest.mark.parametrize(
    "script", ["source env.sh; vllm serve m", "module load python; vllm serve m", "./x.sh; vllm serve m"]
)
def test_where_nothing_is_known_there_is_nothing_to_doubt(script: str):
    assert of(script) == (None, False)


@pytest.mark.parametrize(
    "line", ["pip install -r requirements.txt", "uv sync", "poetry install", "module load vllm/0.11"]
)
def test_where_the_release_stands_elsewhere(line: str):
    assert of(f"{line}; vllm serve m") == UNCLEAR


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("export PATH=/opt/new/bin:$PATH\nvllm serve m", UNCLEAR),
        ("PATH=/opt/new/bin:$PATH\nvllm serve m", UNCLEAR),
        ("PATH=/opt/new/bin:$PATH vllm serve m", UNCLEAR),
        ("up() { export PATH=/opt/new/bin:$PATH; }\nup\nvllm serve m", UNCLEAR),
        (f"export PATH=/v/bin:$PATH\n{PIP}\nvllm serve m", CERTAIN),
        (f"/v/bin/{PIP}\nexport PATH=/v/bin:$PATH\nvllm serve m", CERTAIN),
    ],
)
def test_a_folder_in_front_of_the_path_is_an_environment(script: str, found: Found):
    before = "" if "pip" in script else f"{PIP}\n"
    assert of(before + script) == found


# checkouts


CHECKOUTS = {
    UNCLEAR: [
        "git pull origin main", "git pull", "git merge other", "git rebase main", "git cherry-pick 0a1b2c3",
        "git checkout -b mine 0a1b2c3", "git checkout -q 0a1b2c3", "git checkout 0a1b2c3 -- vllm", "git apply x.patch", "git commit -am x",
        "cd csrc; git checkout v0.9.0; cd ..", "popd",
    ],
    CERTAIN: [
        "git checkout -b mine", "git fetch --all", "git status", "git reset --hard v0.10.0", "git submodule update --init",
        "git checkout main; git checkout -q v0.10.0", "git checkout v0.9.0; git checkout -b x v0.10.0", "git switch --detach v0.10.0",
        "git -c advice.detachedHead=false checkout v0.10.0",
    ],
}  # fmt: skip
"""Commands in a checkout of a release that is then installed: those that change it, and those after which it is the release."""


@pytest.mark.parametrize(("found", "after"), each(CHECKOUTS))
def test_a_checkout(found: Found, after: str):
    before = f"{PIP}; " if found == UNCLEAR else ""
    assert of(f"{before}{CLONE}; {after}; pip install -e .; vllm serve m") == found


@pytest.mark.parametrize(
    "script",
    [
        f"{CLONE}; pip install -e .; git pull",
        f"{CLONE}; pip install -e .; git checkout v0.9.0",
        f"{CLONE}; python setup.py develop",
        f"{CLONE}; ./build.sh",
        f"{CLONE}; cd ..; git --git-dir=vllm/.git checkout v0.9.0; pip install -e vllm/",
    ],
)
def test_what_is_installed_from_a_checkout_moves_with_it(script: str):
    assert of(f"{script}; vllm serve m") == UNCLEAR


def test_a_branch_joined_to_its_option():
    script = "git clone -bv0.10.0 https://github.com/vllm-project/vllm; pip install -e vllm/; vllm serve m"
    assert of(script) == CERTAIN


# other places


PLACES = {
    UNCLEAR: [
        "poetry run vllm serve m", "pipenv run vllm serve m", "kubectl exec p -- vllm serve m", "docker compose exec v vllm serve m",
        "docker compose run v vllm serve m", "docker-compose exec v vllm serve m", "ch-run img -- vllm serve m", "sudo chroot /x vllm serve m",
        "ssh n1 vllm serve m", "ssh n1 python3 -m vllm.entrypoints.openai.api_server --model m", "kubectl exec p -- bash -c 'vllm serve m'",
        "ray job submit -- vllm serve m", "kubectl exec -it p -n a -c v --context x -- vllm serve m", "docker exec -it v vllm serve m", "pdsh -w n1 'vllm serve m'",
        "singularity exec instance://v vllm serve m",
    ],
    CERTAIN: [
        "srun --nodes=1 -n 1 vllm serve m", "nohup vllm serve m", "tmux new -d 'vllm serve m'", "numactl -N 0 vllm serve m",
        "timeout 60 vllm serve m", "bash -c 'vllm serve m'", "nohup bash -c 'vllm serve m' &", "env A=b python3 -m vllm.entrypoints.openai.api_server --model m",
        "sudo -E vllm serve m", "mpirun -n 1 vllm serve m", "CUDA_VISIBLE_DEVICES=0 vllm serve m > log 2>&1 &",
    ],
}  # fmt: skip
"""Commands that run somewhere else than what was installed before, and those that run there."""


@pytest.mark.parametrize(("found", "script"), each(PLACES))
def test_the_place_of_a_command(found: Found, script: str):
    assert of(f"{PIP}\n{script}") == found


@pytest.mark.parametrize(
    "script",
    [
        f"kubectl exec p -- {PIP}\nkubectl exec p -- vllm serve m",
        f"ssh n {PIP}\nssh n vllm serve m",
        f"docker exec v {PIP}\ndocker exec v vllm serve m",
        f"docker compose exec v {PIP}\ndocker compose exec v vllm serve m",
        f"apptainer exec --writable box {PIP}\napptainer exec box vllm serve m",
    ],
)
def test_what_is_installed_in_another_place(script: str):
    assert of(script) == UNCLEAR


def test_a_containers_instance_by_its_name():
    script = "singularity instance start --nv vllm_v0.9.1.sif v\nsingularity exec instance://v vllm serve m"
    assert of(script) == ("0.9.1", False)


# conditions


CONDITIONS = {
    CERTAIN: [
        f"if ! {PIP}; then exit 1; fi", f"until {PIP}; do sleep 5; done", f"while ! {PIP}; do sleep 5; done",
        f"if sudo {PIP}; then echo ok; else echo no; fi", f"up() {{ if ! {PIP}; then exit 1; fi; }}\nup",
    ],
    UNCLEAR: [
        f"if [ $X ]; then true; elif {PIP}; then true; fi",
        f"if [ $X ] && {PIP}; then true; fi",
        f"if ! {PIP}; then pip install vllm==0.9.0; fi",
        f"pip install vllm; [ $X ] && {PIP}",
    ],
}  # fmt: skip
"""Conditions that run whatever they say, and those that may not run."""


@pytest.mark.parametrize(("found", "script"), each(CONDITIONS))
def test_a_condition(found: Found, script: str):
    assert of(f"{script}\nvllm serve m") == found
