"""Slurm's options as getopt reads them, tasks that share a node, and names of GPUs in what is asked for.

Source: Slurm's sbatch and srun (-N, -n, -G, --gres=name[[:type]:count], --gpus-per-task), getopt_long(3).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from check.checking import check
from check.test_serving import read

from kvplan.manifests.processes.slurm import header


def row(script: str, gpu: str = "h100") -> dict[str, Any]:
    Path("run.sh").write_text(f"{script}\n")
    (found,) = check("run.sh", "--gpu", gpu, "--json").document["results"]
    return found


def counted(script: str) -> list[str]:
    return [each["message"].partition(", and ")[2] for each in row(script)["checks"] if each["rule"] == "gpu-count"]


@pytest.mark.parametrize(
    ("script", "given"),
    [
        ("#SBATCH -G4\nvllm serve llama-3-8b -tp 8", "its job asks for 4"),
        ("#SBATCH -N1 -n1 -G4\nsrun vllm serve llama-3-8b -tp 8", "its job asks for 4"),
        ("srun -N1 -G4 vllm serve llama-3-8b -tp 8", "its job asks for 4"),
        ("srun -l -G4 --exclusive vllm serve llama-3-8b -tp 8", "its job asks for 4"),
        ("#SBATCH --gpus-per-task=1\n#SBATCH --ntasks-per-node=4\nvllm serve llama-3-8b -tp 8", "its job asks for 4"),
        ("#SBATCH --gpus-per-task=2 -n2\nvllm serve llama-3-8b -tp 8", "its job asks for 4"),
        ("#SBATCH --gpus-per-task=2 -n1\nvllm serve llama-3-8b -tp 8", "its job asks for 2"),
        ("srun --gres=gpu:3090:1 vllm serve llama-3-8b -tp 2", "its job asks for 1"),
        ("srun --gres=gpu:2080ti:1 vllm serve llama-3-8b -tp 2", "its job asks for 1"),
        ("srun -lG1 vllm serve llama-3-8b -tp 2", "its job asks for 1"),
        ("srun -luG 1 vllm serve llama-3-8b -tp 2", "its job asks for 1"),
        ("#SBATCH -HG1\nvllm serve llama-3-8b -tp 2", "its job asks for 1"),
        ("#SBATCH --gpus-per-socket=1 --sockets-per-node=2\nvllm serve llama-3-8b -tp 4", "its job asks for 2"),
        ("srun --gpus-per-socket h100:1 --sockets-per-node 2 vllm serve llama-3-8b -tp 4", "its job asks for 2"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_too_few_gpus(script: str, given: str):
    assert counted(script) == [given]


@pytest.mark.parametrize(
    "script",
    [
        "#SBATCH -N2\n#SBATCH --gpus-per-node=2\nsrun vllm serve llama-3-8b -tp 2 -pp 2",
        "#SBATCH --gres=gpu:2\nsrun -N2 --gres=gpu:2 vllm serve llama-3-8b -tp 4",
        "#SBATCH --gpus-per-task=1\n#SBATCH --ntasks-per-node=4\nvllm serve llama-3-8b -tp 4",
        "#SBATCH --gpus-per-task=1 -n8\nvllm serve llama-3-8b -tp 8",
        "srun -G8 wrapper -G4 vllm serve llama-3-8b -tp 8",
        "srun --gres=gpu:8 vllm serve llama-3-8b -tp 8",
        "#SBATCH --gres=gpu:2\nsrun -lN2 vllm serve llama-3-8b -tp 4",
        "#SBATCH --gres=gpu:2\nsrun -lN 2 vllm serve llama-3-8b -tp 4",
        "#SBATCH --gpus-per-socket=1\nvllm serve llama-3-8b -tp 4",
        "#SBATCH --gpus-per-socket=2 --sockets-per-node=2\nvllm serve llama-3-8b -tp 4",
    ],
)
@pytest.mark.usefixtures("folder")
def test_gpus_enough(script: str):
    assert counted(script) == []


@pytest.mark.parametrize(
    ("asked", "gpu", "planned"),
    [
        ("--gres=gpu:nvidia_h100_80gb_hbm3_1g.10gb:1", "a100", "h100-sxm:1g.10gb"),
        ("--gres=gpu:a100_3g.20gb:1", "a100-sxm-40", "a100-sxm-40:3g.20gb"),
        ("--gres=gpu:1g.10gb:1", "h100", "h100-sxm:1g.10gb"),
        ("--gres=gpu:3090:1", "h100", "rtx-3090"),
        ("--gpus=3090:1", "h100", "rtx-3090"),
        ("--gpus-per-socket=3090:1", "h100", "rtx-3090"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_the_gpu_by_its_name(asked: str, gpu: str, planned: str):
    assert row(f"srun {asked} vllm serve qwen3-0.6b --max-model-len 1024", gpu)["subject"]["gpu"] == planned


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("--gres=gpu:a100:1", "it asks for --gres: a100"),
        ("--gpus=a100:1", "it asks for --gpus: a100"),
        ("-Ga100:1", "it asks for --gpus: a100"),
        ("--gpus-per-node a100:1", "it asks for --gpus-per-node: a100"),
        ("--gres=gpu:2080ti:1", "its node is chosen by --gres: 2080ti, which kvplan knows no GPU by"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_is_said_of_it_names_the_option(asked: str, said: str):
    assert said in str(row(f"srun {asked} vllm serve llama-3-8b"))


def test_a_header_is_its_options_last_values():
    """However long it is: each command of the script looks at all of it."""
    script = "#SBATCH --comment=x\n#SBATCH -N1 --gres=gpu:1\n#SBATCH --nodes 2\n" * 1000
    assert [word.text for word in header(script)] == ["-N", "1", "--gres", "gpu:1", "--nodes", "2"]


@pytest.mark.parametrize(
    ("command", "given"),
    [
        ("sbatch -N 1 --gpus-per-node=2 --wrap='source a; {}'", "2"),
        ("sbatch --gres=gpu:h100:2 --wrap '{}'", "2"),
        ("sbatch -n2 --gpus-per-task=1 --wrap='srun {}'", "2"),
        ("salloc -N1 --gres=gpu:2 {}", "2"),
        ("salloc -G 3 bash -c '{}'", "3"),
        ("salloc -G 3 srun {}", "3"),
    ],
)
def test_what_a_launcher_asks_for_itself(command: str, given: str):
    found = read(command.format("vllm serve m -tp 4") + "\n", "run.sh")
    said = [remark.text for each in found.commands for remark in each.remarks if remark.rule == "gpu-count"]
    assert said == [f"tensor parallel size 4 needs 4 GPUs, and its job asks for {given}"]


@pytest.mark.parametrize(
    "command",
    [
        "sbatch --gres=gpu:4 --wrap='{}'",
        "sbatch -N 2 -G 2 --wrap='{}'",
        "salloc -G 4 {}",
        "sbatch --wrap='{}'",
        "ssh a {}",
    ],
)
def test_a_launcher_that_asks_for_enough_or_nothing(command: str):
    (found,) = read("#SBATCH --gpus=1\n" + command.format("vllm serve m -tp 4") + "\n", "run.sh").commands
    assert "gpu-count" not in [remark.rule for remark in found.remarks]
