"""Where a command runs, and what it finds there: exported variables, quoted commands, other machines.

Source: POSIX sh export, bash `set -a` and `declare -x`; env(1), sudo(8); ssh(1) and sbatch(1), which start a command in
another environment, on GPUs of its own.
"""

from __future__ import annotations

import pytest
from check.test_serving import read

from kvplan.manifests.places import Inside
from kvplan.manifests.processes.container import Served

SHOWS = "CUDA_VISIBLE_DEVICES shows it 1"
SERVE = "vllm serve m -tp 2"


def counted(served: Served) -> list[str]:
    """What every remark on the number of GPUs says of those that there are."""
    remarks = [remark for command in served.commands for remark in command.remarks]
    return [remark.text.partition(", and ")[2] for remark in remarks if remark.rule == "gpu-count"]


@pytest.mark.parametrize(
    "script",
    [
        f"export CUDA_VISIBLE_DEVICES=0\n{SERVE}",
        f"CUDA_VISIBLE_DEVICES=0\nexport CUDA_VISIBLE_DEVICES\n{SERVE}",
        f"export CUDA_VISIBLE_DEVICES\nCUDA_VISIBLE_DEVICES=0\n{SERVE}",
        f"declare -x CUDA_VISIBLE_DEVICES=0\n{SERVE}",
        f"typeset -rx CUDA_VISIBLE_DEVICES=0\n{SERVE}",
        f"set -a\nCUDA_VISIBLE_DEVICES=0\nset +a\n{SERVE}",
        f"set -ea\nCUDA_VISIBLE_DEVICES=0\n{SERVE}",
        f"set -o allexport\nCUDA_VISIBLE_DEVICES=0\n{SERVE}",
        f"CUDA_VISIBLE_DEVICES=0 {SERVE}",
        f"env CUDA_VISIBLE_DEVICES=0 {SERVE}",
        f"nohup /usr/bin/env -u A CUDA_VISIBLE_DEVICES=0 {SERVE} &",
        f"timeout 60 env CUDA_VISIBLE_DEVICES=0 bash -c '{SERVE}'",
        f"sudo -u me CUDA_VISIBLE_DEVICES=0 {SERVE}",
        f"export CUDA_VISIBLE_DEVICES=0\nsudo -nE {SERVE}",
        f"export CUDA_VISIBLE_DEVICES=0\nbash -c '{SERVE}'",
        f"{{ export CUDA_VISIBLE_DEVICES=0; }}\n{SERVE}",
        f"( export CUDA_VISIBLE_DEVICES=0; {SERVE} )",
        f"export A=1 CUDA_VISIBLE_DEVICES=0\n{SERVE}",
        f"export CUDA_VISIBLE_DEVICES=0\nsu me -c '{SERVE}'",
        f"su - me -c 'CUDA_VISIBLE_DEVICES=0 {SERVE}'",
        f"kubectl exec p -- env CUDA_VISIBLE_DEVICES=0 {SERVE}",
        f"docker exec -e CUDA_VISIBLE_DEVICES=0 box {SERVE}",
        f"#!/bin/bash\n#SBATCH --gres=gpu:4\nCUDA_VISIBLE_DEVICES=0\n{SERVE}",  # which Slurm has exported
        f"serve() {{ {SERVE}; }}\nexport CUDA_VISIBLE_DEVICES=0\nserve",
        f"serve() {{ {SERVE}; }}\nCUDA_VISIBLE_DEVICES=0 serve",
        f"serve() {{ {SERVE}; }}\nmain() {{ export CUDA_VISIBLE_DEVICES=0; serve; }}\nmain",
        "export CUDA_VISIBLE_DEVICES=0\nsudo -E docker run -e CUDA_VISIBLE_DEVICES vllm/vllm-openai:v0.33.0 --model m -tp 2",
    ],
)
def test_what_a_command_finds_in_its_environment(script: str):
    assert counted(read(f"{script}\n", "run.sh")) == [SHOWS]


@pytest.mark.parametrize(
    "script",
    [
        f"CUDA_VISIBLE_DEVICES=0\n{SERVE}",
        f"CUDA_VISIBLE_DEVICES=0\nbash -c '{SERVE}'",
        f"readonly CUDA_VISIBLE_DEVICES=0\n{SERVE}",
        f"export CUDA_VISIBLE_DEVICES=0\nexport -n CUDA_VISIBLE_DEVICES\n{SERVE}",
        f"declare -x CUDA_VISIBLE_DEVICES=0\ndeclare +x CUDA_VISIBLE_DEVICES\n{SERVE}",
        f"set -a\nset +a\nCUDA_VISIBLE_DEVICES=0\n{SERVE}",
        f"set -- -a\nCUDA_VISIBLE_DEVICES=0\n{SERVE}",
        f"CUDA_VISIBLE_DEVICES=0\nif x; then export CUDA_VISIBLE_DEVICES; fi\n{SERVE}",
        f"export CUDA_VISIBLE_DEVICES=0\nunset CUDA_VISIBLE_DEVICES\nCUDA_VISIBLE_DEVICES=0\n{SERVE}",
        f"export CUDA_VISIBLE_DEVICES=0\nenv -u CUDA_VISIBLE_DEVICES {SERVE}",
        f"export CUDA_VISIBLE_DEVICES=0\nenv --unset=CUDA_VISIBLE_DEVICES {SERVE}",
        f"export CUDA_VISIBLE_DEVICES=0\nenv -i {SERVE}",
        f"export CUDA_VISIBLE_DEVICES=0\nsudo {SERVE}",
        f"echo CUDA_VISIBLE_DEVICES=0\n{SERVE}",
        f"(export CUDA_VISIBLE_DEVICES=0)\nCUDA_VISIBLE_DEVICES=1\n{SERVE}",
        f"export CUDA_VISIBLE_DEVICES=0\nsu - me -c '{SERVE}'",
        "export CUDA_VISIBLE_DEVICES=0\nsudo docker run -e CUDA_VISIBLE_DEVICES vllm/vllm-openai:v0.33.0 --model m -tp 2",
        f"sudo runuser -l me -c '{SERVE}'",
    ],
)
def test_what_it_does_not_find_there(script: str):
    assert counted(read(f"{script}\n", "run.sh")) == []


def test_a_variable_that_is_not_exported_is_known_to_its_shell():
    (command,) = read("CUDA_VISIBLE_DEVICES=4\nvllm serve m -tp $CUDA_VISIBLE_DEVICES\n", "run.sh").commands
    assert command.layer[("parallel", "tp")].value == 4


@pytest.mark.parametrize(
    "script",
    [
        f'tmux new -d "CUDA_VISIBLE_DEVICES=0 {SERVE}"',
        f"screen -dmS x bash -c 'CUDA_VISIBLE_DEVICES=0 {SERVE}'",
        f"tmux new -d 'export CUDA_VISIBLE_DEVICES=0; {SERVE}'",
        f'ssh host "CUDA_VISIBLE_DEVICES=0 {SERVE}"',
        f"bash -c \"export CUDA_VISIBLE_DEVICES=0; tmux new -d '{SERVE}'\"",
        f'tmux send-keys "CUDA_VISIBLE_DEVICES=0 {SERVE}" Enter',
    ],
)
def test_what_a_quoted_command_sets(script: str):
    assert counted(read(f"{script}\n", "run.sh")) == [SHOWS]


ELSEWHERE = [
    f"ssh host {SERVE}",
    f'ssh -p 22 host "{SERVE}"',
    f"ssh host bash -c '{SERVE}'",
    f"sshpass -p x ssh host '{SERVE}'",
    f"sbatch --gres=gpu:2 --wrap '{SERVE}'",
    f'sbatch --gres=gpu:2 --wrap="{SERVE}"',
    f"kubectl exec -it p -- {SERVE}",
    f"kubectl exec p -- bash -lc '{SERVE}'",
    f"kubectl -n x exec p -- sh -c '{SERVE}'",
    "kubectl run p --image=vllm/vllm-openai:v0.11.0 -- --model m -tp 2",
    f"docker compose exec vllm {SERVE}",
    f"docker compose -f x.yml run vllm bash -c '{SERVE}'",
    f"docker-compose exec vllm {SERVE}",
    f"docker exec box {SERVE}",
    f"ray job submit -- {SERVE}",
]


@pytest.mark.parametrize("command", ELSEWHERE)
@pytest.mark.parametrize("before", ["#SBATCH --gres=gpu:1\n", "export CUDA_VISIBLE_DEVICES=0\n"])
def test_neither_the_jobs_gpus_nor_the_shells_variables_count_elsewhere(before: str, command: str):
    served = read(f"{before}{command}\n", "run.sh")
    assert len(served.commands) == 1
    assert counted(served) == []


@pytest.mark.parametrize("command", ELSEWHERE)
def test_nor_the_name_of_the_jobs_gpu(command: str):
    served = read(f"#SBATCH --gres=gpu:h100:1\n{command}\n", "run.sh")
    named = {each.layer[("gpu",)].value for each in served.commands if ("gpu",) in each.layer}
    assert named == ({"h100"} if "docker exec" in command else set())  # which runs on this machine


@pytest.mark.parametrize(
    "command",
    [
        "docker run --network ray --gpus 1 vllm/vllm-openai:v0.33.0 --model m -tp 2",
        "docker run --env=A=/x/ssh --gpus 1 vllm/vllm-openai:v0.33.0 --model m -tp 2",
    ],
)
def test_a_value_is_no_program(command: str):
    (found,) = read(f"#SBATCH --gres=gpu:h100:1\n{command}\n", "run.sh").commands
    assert found.layer[("gpu",)].value == "h100"


def test_the_jobs_gpus_count_where_srun_starts_it():
    assert counted(read(f"#SBATCH --gres=gpu:1\nsrun env A=b {SERVE}\n", "run.sh")) == ["its job asks for 1"]


@pytest.mark.parametrize("command", ["ssh host vllm serve /models/m", "docker exec box vllm serve /models/m"])
def test_a_path_elsewhere(command: str):
    (found,) = read(f"{command}\n", "run.sh").commands
    assert isinstance(found.layer[("model",)], Inside)


def test_calls_that_give_a_function_different_devices():
    """Its command is read once, so nobody knows how many it sees."""
    script = f"serve() {{ {SERVE}; }}\nCUDA_VISIBLE_DEVICES=0 serve\nCUDA_VISIBLE_DEVICES=1 serve\n"
    assert counted(read(script, "run.sh")) == []


@pytest.mark.parametrize(
    "ways",
    [
        'start() { local args=(-tp "$TP"); vllm serve m "${args[@]}"; }',
        'for i in 1 2; do args=(-tp "$TP"); vllm serve m "${args[@]}"; TP=4; done',
    ],
)
def test_an_array_in_what_runs_later_has_no_value_that_the_script_changes(ways):
    found = read(f"TP=1\n{ways}\nTP=4\nstart\n", "run.sh")
    assert [each.why for each in found.unread] == ["its --tensor-parallel-size is $TP, which only the shell knows"]
