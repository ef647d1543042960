"""Apptainer, Singularity, Shifter, Enroot and Slurm's pyxis, and containers that a script entered after it started them.

Source: Apptainer's user guide (pull names NAME_TAG.sif; exec, run, --env, --nv, --rocm, --cleanenv), NERSC's Shifter, enroot's doc/cmd
(import writes ORG+NAME+TAG.sqsh), moby's `docker exec`, Slurm's sbatch and srun.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from check.checking import check
from check.test_installs import said
from check.test_serving import read

IMAGE = "docker://vllm/vllm-openai:v0.10.1"


@pytest.mark.parametrize(
    "script",
    [
        f"apptainer exec --nv {IMAGE} vllm serve m",
        f"apptainer run --nv {IMAGE} --model m",
        f"apptainer -q exec --nv -B /a:/b --pwd /x --env A=B,C=D {IMAGE} bash -c 'vllm serve m'",
        f"pip install vllm==0.8.5; apptainer exec {IMAGE} vllm serve m",
        f"srun --gpus 1 singularity exec --nv {IMAGE} python3 -m vllm.entrypoints.openai.api_server --model m",
        "singularity run --nv vllm-openai_v0.10.1.sif --model m",
        "singularity exec /x/vllm-openai_v0.10.1.sif vllm serve m",
        f"apptainer instance run --nv {IMAGE} name --model m",
        f"apptainer pull vllm.sif {IMAGE}\napptainer exec --nv vllm.sif vllm serve m",
        f"[ -f vllm.sif ] || apptainer build --force vllm.sif {IMAGE}\nsrun apptainer exec --nv ./vllm.sif vllm serve m",
        "shifter --image=docker:vllm/vllm-openai:v0.10.1 vllm serve m",
        "shifter --module=gpu --image vllm/vllm-openai:v0.10.1 bash -c 'vllm serve m'",
        "#SBATCH --image=docker:vllm/vllm-openai:v0.10.1\nsrun shifter vllm serve m",
        "enroot import -o v.sqsh docker://vllm/vllm-openai:v0.10.1\nenroot create -n v v.sqsh\nenroot start --rw -e A=B v vllm serve m",
        "enroot import docker://vllm/vllm-openai:v0.10.1\nenroot start vllm+vllm-openai+v0.10.1.sqsh vllm serve m",
        "srun --container-image=/x/vllm-openai-v0.10.1.sqsh vllm serve m",
        "pip install vllm==0.8.5; srun --container-image=vllm/vllm-openai:v0.10.1 bash -c 'vllm serve m'",
        "docker run -d --entrypoint sleep --name v vllm/vllm-openai:v0.10.1 infinity; docker exec v vllm serve m",
        "docker run -d --entrypoint sleep --name=v vllm/vllm-openai:v0.10.1 infinity; docker exec -it -e A=B v bash -c 'vllm serve m'",
        "pip install vllm==0.8.5; podman create --name v --entrypoint sleep vllm/vllm-openai:v0.10.1 1; podman exec v vllm serve m",
    ],
)  # fmt: skip
def test_the_image_says_the_version(script: str):
    assert said(read(f"{script}\n", "run.sh").commands) == [("0.10.1", False)]


@pytest.mark.parametrize(
    "script",
    [
        "apptainer exec --nv vllm.sif vllm serve m",
        "apptainer run --nv /x/vllm.sif --model m",
        'apptainer exec --nv "$SIF" vllm serve m',
        "enroot start v vllm serve m",
        "srun --container-image=/x/llm.sqsh vllm serve m",
        "srun --container-image=nvcr.io/nvidia/pytorch:25.04-py3 vllm serve m",
        f"apptainer pull v.sif {IMAGE}; apptainer pull -F v.sif docker://vllm/vllm-openai:v0.9.2; apptainer exec v.sif vllm serve m",
    ],
)
def test_a_file_of_unknown_content_is_warned_about(script: str):
    assert said(read(f"{script}\n", "run.sh").commands) == [(None, True)]


def test_what_is_installed_in_a_box_of_unknown_content():
    script = "apptainer exec vllm.sif bash -c 'pip install vllm==0.10.0; vllm serve m'\n"
    assert said(read(script, "run.sh").commands) == [("0.10.0", False)]


def test_a_whole_command_after_an_entry_point():
    (command,) = read(f"apptainer run {IMAGE} vllm serve m\n", "run.sh").commands
    assert "starts vLLM's server itself" in str(command.remarks)


@pytest.mark.parametrize(
    "command",
    [
        "apptainer pull v.sif docker://vllm/vllm-openai:v0.10.1",
        "apptainer build vllm.sif vllm.def",
        "enroot create v.sqsh",
        "docker exec v bash",
    ],
)
def test_commands_about_boxes_run_nothing(command: str):
    found = read(f"{command}\n", "run.sh")
    assert not found.commands
    assert not found.unread


def messages(script: str, gpu: str = "h100") -> str:
    Path("run.sh").write_text(f"{script}\n")
    return str(check("run.sh", "--gpu", gpu, "--json").document["results"])


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (f"apptainer exec --nv --env CUDA_VISIBLE_DEVICES=0 {IMAGE} vllm serve llama-3-8b -tp 2", "CUDA_VISIBLE_DEVICES shows it 1"),
        (f"CUDA_VISIBLE_DEVICES=0 apptainer exec --nv {IMAGE} vllm serve llama-3-8b -tp 2", "CUDA_VISIBLE_DEVICES shows it 1"),
        ("docker run -d --gpus 1 --entrypoint sleep --name v vllm/vllm-openai:v0.10.1 1; docker exec v vllm serve llama-3-8b -tp 2", "the container asks for 1"),
        ("#SBATCH --gres=gpu:4\nvllm serve llama-3-8b -tp 8", "its job asks for 4"),
        ("#!/bin/bash\n#SBATCH -N 1\n#SBATCH --gpus=4\nsrun vllm serve llama-3-8b -tp 8", "its job asks for 4"),
        ("#SBATCH --gpus-per-node 4 --nodes 1\nsrun bash -c 'vllm serve llama-3-8b -tp 8'", "its job asks for 4"),
        ("#SBATCH --gres=gpu:4\nsrun --gpus=1 vllm serve llama-3-8b -tp 2", "its job asks for 1"),
        (f"#SBATCH --gres=gpu:4\nsrun apptainer exec {IMAGE} vllm serve llama-3-8b -tp 8", "asks for 4"),
        ("#SBATCH --gres=gpu:a100:4\nvllm serve llama-3-8b", "it asks for --gres: a100, which may be a100-pcie-40"),
        ("srun --gres=gpu:a100:4 vllm serve llama-3-8b", "it asks for --gres: a100, which may be a100-pcie-40"),
        ("srun --gpus=l40s:1 vllm serve llama-3-8b", "'gpu': 'l40s'"),
        (f"apptainer exec --rocm {IMAGE} vllm serve llama-3-8b", "h100 is not a GPU of AMD's"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("folder")
def test_what_a_job_or_a_box_has(script: str, said: str):
    assert said in messages(script)


@pytest.mark.parametrize(
    "script",
    [
        f"CUDA_VISIBLE_DEVICES=0 apptainer exec --cleanenv --nv {IMAGE} vllm serve llama-3-8b -tp 2",
        "CUDA_VISIBLE_DEVICES=0 docker run --gpus all vllm/vllm-openai:v0.10.1 --model llama-3-8b -tp 2",
        "#SBATCH --gres=gpu:4 --nodes=2\nsrun vllm serve llama-3-8b -tp 8",
        "##SBATCH --gres=gpu:4\nvllm serve llama-3-8b -tp 8",
        "#SBATCH --gres=gpu:4\n#SBATCH hetjob\n#SBATCH --gres=gpu:8\nvllm serve llama-3-8b -tp 8",
        "#SBATCH --gpus-per-task=1 --ntasks=8\nvllm serve llama-3-8b -tp 8",
        "vllm serve llama-3-8b -tp 8\n#SBATCH --gres=gpu:4",
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_bounds_nothing(script: str):
    assert "gpu-count" not in messages(script)


def test_a_process_in_a_container_is_called_by_its_own_line():
    found = read(
        "docker run -d --entrypoint sleep --name v vllm/vllm-openai:v0.10.1 1\ndocker exec v vllm serve m\n", "run.sh"
    )
    assert [(command.name, command.place.line) for command in found.commands] == [("line 2", 2)]


@pytest.mark.parametrize("command", ["bash -c 'ls /models'", "nvidia-smi", "python3 bench.py", "ollama list"])
def test_other_processes_in_a_container_are_nothing_to_list(command: str):
    script = f"docker run -d --name v vllm/vllm-openai:v0.10.1 --model m\ndocker exec v {command}\n"
    found = read(script, "run.sh")
    assert [command.name for command in found.commands] == ["line 1"]
    assert not found.unread
