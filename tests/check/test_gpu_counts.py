"""Tensor, pipeline and data parallel ranks of one server, held against the GPUs that it is given."""

from __future__ import annotations

import pytest
from check.test_serving import read

POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: p}}
spec: {{containers: [{{name: v, image: "vllm/vllm-openai:v0.33.0", args: [m, {}], resources: {{limits: {{nvidia.com/gpu: "{}"}}}}}}]}}
"""


def counts(text: str, name: str) -> list[str]:
    return [each.text for command in read(text, name).commands for each in command.remarks if each.rule == "gpu-count"]


@pytest.mark.parametrize(
    ("flags", "gpus", "needed"),
    [
        ("--data-parallel-size=4", 1, "data parallel size 4 needs 4 GPUs"),
        ("-tp, '2', -dp, '4'", 4, "tensor parallel size 2 by data parallel size 4 needs 8 GPUs"),
        ("-pp, '2'", 1, "pipeline parallel size 2 needs 2 GPUs"),
        ("-tp, '2', -pp, '2'", 2, "tensor parallel size 2 by pipeline parallel size 2 needs 4 GPUs"),
        ("-tp, '2', -dp, '4'", 8, None),
        ("-pp, '2', --distributed-executor-backend, ray", 1, None),
        ("-pp, '2', --nnodes, '2'", 1, "nodes"),
        ("-dp, '4', --data-parallel-size-local, '1'", 1, None),
        ("-dp, '4', --data-parallel-backend, ray", 1, None),
        ("-dp, '4', --data-parallel-external-lb", 1, None),
        ("-tp, '1'", 1, None),
    ],
)
def test_ranks_of_a_pod(flags: str, gpus: int, needed: str | None):
    found = counts(POD.format(flags, gpus), "f.yaml")
    if needed == "nodes":  # two nodes of one GPU each
        assert not found
    else:
        assert [text.partition(", and")[0] for text in found] == ([] if needed is None else [needed])


@pytest.mark.parametrize(
    ("script", "refused"),
    [
        ("docker run --gpus 2 vllm/vllm-openai:v0.33.0 m -dp 4", True),
        ("CUDA_VISIBLE_DEVICES=0 vllm serve m -dp 2", True),
        ("CUDA_VISIBLE_DEVICES=0,1 vllm serve m -dp 2", False),
        ("ray start --head\nCUDA_VISIBLE_DEVICES=0 vllm serve m -pp 2", False),
        ("vllm serve m -dp 2", False),
        # Docker names the GPUs that --gpus hands over itself
        ("docker run --gpus all -e NVIDIA_VISIBLE_DEVICES=0 vllm/vllm-openai:v0.33.0 m -tp 2", False),
        ("docker run --runtime nvidia -e NVIDIA_VISIBLE_DEVICES=0 vllm/vllm-openai:v0.33.0 m -tp 2", True),
    ],
)
def test_ranks_of_a_script(script: str, refused: bool):
    assert bool(counts(f"{script}\n", "run.sh")) == refused


@pytest.mark.parametrize(
    ("handed", "refused"),
    [
        ("runtime: nvidia", True),
        ("gpus: all", False),
        ("deploy: {resources: {reservations: {devices: [{driver: nvidia, count: all, capabilities: [gpu]}]}}}", False),
        ("deploy: {resources: {reservations: {devices: [{driver: nvidia, count: 1, capabilities: [gpu]}]}}}", True),
    ],
)
def test_ranks_of_a_service(handed: str, refused: bool):
    service = (
        f"{{image: 'vllm/vllm-openai:v0.33.0', command: m -tp 2, environment: [NVIDIA_VISIBLE_DEVICES=1], {handed}}}"
    )
    assert bool(counts(f"services: {{v: {service}}}\n", "docker-compose.yaml")) == refused
