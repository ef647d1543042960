"""Servers that a script or a compose file starts beside each other on one GPU.

Source: vLLM 0.33 v1/worker/utils.py request_memory: "Free memory on device ... is less than desired GPU memory utilization".
"""

from __future__ import annotations

import pytest
from check.test_serving import read

A = "CUDA_VISIBLE_DEVICES=0 vllm serve a"
B = "CUDA_VISIBLE_DEVICES=0 vllm serve b"


def told(script: str) -> list[str]:
    found = read(f"{script}\n", "run.sh")
    return [remark.text for command in found.commands for remark in command.remarks if "same time" in remark.text]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (
            f"{A} &\n{B} &\nwait",
            "line 1's server runs on GPU 0 at the same time, and 0.9 or more and 0.9 or more of its memory are more",
        ),
        (
            f"nohup {A.partition(' ')[2]} > a.log 2>&1 &\nsleep 60\nvllm serve b",
            "runs on the same GPU at the same time",
        ),
        ("vllm serve a & vllm serve b &", "runs on the same GPU"),
        (
            "CUDA_VISIBLE_DEVICES=0 nohup vllm serve a > a.log 2>&1 &\nCUDA_VISIBLE_DEVICES=0 nohup vllm serve b &",
            "runs on GPU 0",
        ),
        ("CUDA_VISIBLE_DEVICES=0 exec python -m vllm.entrypoints.openai.api_server --model a &\n" + B, "runs on GPU 0"),
        (f"export CUDA_VISIBLE_DEVICES=0\n{A} &\nuntil curl -s x; do sleep 1; done\n{B}", "runs on GPU 0"),
        (f"{A} --gpu-memory-utilization 0.6 &\n{B} --gpu-memory-utilization 0.5 &", "0.6 and 0.5 of its memory"),
        (f"{A} --gpu-memory-utilization 0.2 &\n{B} &", "0.2 and 0.9 or more of its memory"),
        ("CUDA_VISIBLE_DEVICES=0,1 vllm serve a -tp 2 &\nCUDA_VISIBLE_DEVICES=1,2 vllm serve b -tp 2 &", "on GPU 1"),
        (f"{A} &\nCUDA_VISIBLE_DEVICES=1 vllm serve c &\n{B} &", "line 1's server runs on GPU 0"),
    ],
)
def test_two_on_one_gpu(script: str, said: str):
    (found,) = told(script)
    assert said in found


@pytest.mark.parametrize(
    "script",
    [
        f"{A}\n{B}",
        f"{A} &\nCUDA_VISIBLE_DEVICES=1 vllm serve b &",
        f"{A} --gpu-memory-utilization 0.5 &\n{B} --gpu-memory-utilization 0.5 &",
        f"{A} --kv-cache-memory-bytes 1G &\n{B} &",
        f"{A} &\nkill $!\n{B} &",
        f"{A} &\nwait\n{B} &",
        f"{A} &\n./stop.sh\n{B} &",
        f"if x; then {A} & else {B} & fi",
        f"if x; then {A} & fi\n{B}",
        f"x && {A} &\n{B}",
        "srun vllm serve a &\nsrun vllm serve b &",
        "ssh x vllm serve a &\nssh y vllm serve b &",
        "docker run x/vllm:1 --model a &\ndocker run x/vllm:1 --model b &",
        "timeout 60 vllm serve a &\nsleep 90\nvllm serve b",
        "CUDA_VISIBLE_DEVICES=0 nohup timeout 60 vllm serve a &\nCUDA_VISIBLE_DEVICES=0 vllm serve b",
        "vllm serve a --device-ids 0 &\nvllm serve b --device-ids 1 &",
        "CUDA_VISIBLE_DEVICES=$1 vllm serve a &\nCUDA_VISIBLE_DEVICES=$2 vllm serve b &",
        "CUDA_VISIBLE_DEVICES=0,1 vllm serve a &\nCUDA_VISIBLE_DEVICES=1,2 vllm serve b &",
        f"env {A} &\nenv {B.replace('0', '1')} &",
        "vllm serve a --data-parallel-rank 0 &\nvllm serve a --data-parallel-rank 1 &",
        "vllm serve a | tee log\nvllm serve b",
    ],
)
def test_what_may_not_be_on_one(script: str):
    assert told(script) == []


SERVICE = "  {0}: {{image: 'vllm/vllm-openai:v0.33.0', command: {0} {1}, {2}}}\n"
COUNTED = "deploy: {{resources: {{reservations: {{devices: [{{driver: nvidia, count: {}, capabilities: [gpu]}}]}}}}}}"
PICKED = "deploy: {{resources: {{reservations: {{devices: [{{driver: nvidia, device_ids: ['{}'], capabilities: [gpu]}}]}}}}}}"


def composed(*services: tuple[str, str]) -> list[str]:
    text = "services:\n" + "".join(
        SERVICE.format(name, *service) for name, service in zip("abc", services, strict=False)
    )
    found = read(text, "compose.yaml")
    return [remark.text for command in found.commands for remark in command.remarks if "same time" in remark.text]


@pytest.mark.parametrize(
    ("services", "said"),
    [
        # Docker hands out the first GPUs: countToDevices
        ([("", COUNTED.format(1))] * 2, "a's server runs on GPU 0 at the same time, and 0.9 or more and 0.9 or more"),
        ([("", COUNTED.format("all"))] * 2, "give each its own GPUs (device_ids)"),
        ([("", "gpus: all"), ("", PICKED.format(0))], "runs on GPU 0"),
        ([("-tp 2", "gpus: all"), ("", PICKED.format(1))], "runs on GPU 1"),
        ([("", "runtime: nvidia, environment: [NVIDIA_VISIBLE_DEVICES=1]"), ("", PICKED.format(1))], "runs on GPU 1"),
        ([("", "gpus: all, environment: [CUDA_VISIBLE_DEVICES=2]"), ("", PICKED.format(2))], "runs on GPU 2"),
        (
            [("--gpu-memory-utilization 0.4", "gpus: all")] * 3,
            "the servers of a and b run on GPU 0 at the same time, and 0.4, 0.4 and 0.4 of its memory",
        ),
    ],
)
def test_services_on_one_gpu(services: list[tuple[str, str]], said: str):
    (found,) = composed(*services)
    assert said in found


@pytest.mark.parametrize(
    "services",
    [
        [("", PICKED.format(0)), ("", PICKED.format(1))],
        [("--gpu-memory-utilization 0.5", "gpus: all")] * 2,
        [("--gpu-memory-utilization 0.6", "gpus: all"), ("--gpu-memory-utilization 0.3", "gpus: all"), ("--gpu-memory-utilization 0.1", "gpus: all")],
        [("", "gpus: all"), ("", "gpus: all, profiles: [b]")],
        [("", "gpus: all"), ("", "gpus: all, scale: 0")],
        [("", "gpus: all"), ("", PICKED.format("${GPU}"))],
        [("", "gpus: all, environment: [CUDA_VISIBLE_DEVICES=1]"), ("", "gpus: all, environment: [CUDA_VISIBLE_DEVICES=0]")],
        [("", "ipc: host")] * 2,
    ],
)  # fmt: skip
def test_services_that_leave_each_other_room(services: list[tuple[str, str]]):
    assert composed(*services) == []
