"""Which accelerator a manifest asks for, held against the one that is planned: slices, shares, vendors, and how many."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from check.checking import check

POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: p}}
spec:
{selector}  containers:
  - name: vllm
    image: {image}
    args: [--model, Qwen/Qwen3-8B, --max-model-len, "8192"]
    resources: {{limits: {limits}}}
{env}"""
STACK = """\
servingEngineSpec:
  modelSpec:
  - {{name: s, repository: vllm/vllm-openai, tag: v0.33.0, modelURL: Qwen/Qwen3-8B, requestGPU: 1, requestGPUType: {kind}}}
"""


def result(text: str, gpu: str, name: str = "f.yaml") -> dict[str, Any]:
    Path(name).write_text(text)
    (found,) = check(name, "--gpu", gpu, "--json").document["results"]
    return found


def pod(limits: str, *, image: str = "vllm/vllm-openai:v0.33.0", selector: str = "", env: str = "") -> str:
    selector = f"  nodeSelector: {selector}\n" if selector else ""
    env = f"    env: {env}\n" if env else ""
    return POD.format(limits=limits, image=image, selector=selector, env=env)


@pytest.mark.parametrize(
    ("text", "gpu", "planned"),
    [
        (pod("{nvidia.com/mig-1g.10gb: 1}"), "h100", "h100-sxm:1g.10gb"),
        (pod("{nvidia.com/mig-1g.10gb: 1}"), "h100:1g.10gb", "h100-sxm:1g.10gb"),
        (pod("{nvidia.com/gpu: 1, nvidia.com/mig-1g.10gb: 0}"), "h100", "h100-sxm"),
        (pod("{nvidia.com/gpu: 1, nvidia.com/gpumem: 0}"), "h100", "h100-sxm"),
        (pod("{nvidia.com/gpu: 1, amd.com/gpu: 0}"), "h100", "h100-sxm"),
        (pod("{nvidia.com/gpu: 1, google.com/tpu: 0}"), "h100", "h100-sxm"),
        (pod("{nvidia.com/mig-1g.10gb.me: 1}"), "h100", "h100-sxm:1g.10gb"),
        (pod("{nvidia.com/gpu: 1}", selector="{cloud.google.com/gke-gpu-partition-size: 3g.40gb}"), "h100", "h100-sxm:3g.40gb"),
        (pod("{nvidia.com/gpu: 1}", env="[{name: CUDA_VISIBLE_DEVICES, value: MIG-1}]"), "h100:3g.40gb", "h100-sxm:3g.40gb"),
        (STACK.format(kind="nvidia.com/mig-3g.71gb"), "h200", "h200-sxm:3g.71gb"),
        (STACK.format(kind="nvidia.com/gpu"), "h200", "h200-sxm"),
        (pod("{nvidia.com/gpu: 1, nvidia.com/gpumem-percentage: 100}"), "h100", "h100-sxm"),
        (pod("{amd.com/gpu: 1}", image="rocm/vllm:latest"), "mi300x", "mi300x"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("folder")
def test_the_gpu_is_the_slice_that_is_asked_for(text: str, gpu: str, planned: str):
    assert result(text, gpu)["subject"]["gpu"] == planned


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (pod("{nvidia.com/mig-4g.71gb: 1}"), "has no MIG profile 4g.71gb"),
        (STACK.format(kind="amd.com/gpu"), "amd.com/gpu, and h100 is not a GPU of AMD's"),
        (STACK.format(kind="google.com/tpu"), "it runs on a TPU"),
        (pod("{nvidia.com/gpu.shared: 1}"), "nvidia.com/gpu.shared: 1, which is a GPU that others use too"),
        (pod("{nvidia.com/gpu: 1, nvidia.com/gpumem: 20000}"), "nvidia.com/gpumem: 20000, which is a part"),
        (pod("{nvidia.com/gpu: 1, nvidia.com/gpumem-percentage: 50}"), "which is a part of a GPU's memory"),
        (pod("{nvidia.com/gpu: 1}", env="[{name: CUDA_VISIBLE_DEVICES, value: MIG-2e78}]"), "which is a MIG slice"),
        ("services: {a: {image: 'vllm/vllm-openai:v0.33.0', command: --model Qwen/Qwen3-8B --device-ids MIG-2e78}}", "which is a MIG slice"),
        (pod("{amd.com/gpu: 1}"), "amd.com/gpu, and h100 is not a GPU of AMD's"),
        (pod("{amd.com/cpx_nps4: 1}"), "is not a GPU of AMD's"),
        (pod("{amd.com/gpu: 1}", selector="{nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}"), "is not a GPU of AMD's"),
        (pod("{}", image="rocm/vllm:latest"), "rocm/vllm:latest, and h100 is not a GPU of AMD's"),
        (pod("{}", image="vllm/vllm-openai-rocm:v0.33.0"), "is not a GPU of AMD's"),
        (pod("{habana.ai/gaudi2: 1}"), "it runs on Gaudi"),
        (pod("{cloud-tpus.google.com/v5e: 1}"), "it runs on a TPU"),
        (pod("{gpu.intel.com/xe_monitoring: 1}"), "it runs on an Intel GPU"),
        (pod("{nvidia.com/gpu: 1}", selector="{cloud.google.com/gke-gpu-sharing-strategy: mps}"), "that others use too"),
        ("services: {a: {image: 'vllm/vllm-openai:v0.33.0', command: --model Qwen/Qwen3-8B, devices: [/dev/kfd, /dev/dri]}}", "/dev/kfd"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("folder")
def test_another_accelerator_than_the_one_that_is_named_is_refused(text: str, said: str):
    Path("f.yaml").write_text(text)
    found = check("f.yaml", "--gpu", "h100", "--json")
    assert said in str(found.document)
    assert not any(each["status"] in {"pass", "warn"} for each in found.document["results"])


@pytest.mark.usefixtures("folder")
def test_gpus_of_another_vendor_are_refused_the_other_way_round():
    assert "mi300x is not a GPU of NVIDIA's" in str(result(pod("{nvidia.com/gpu: 1}"), "mi300x"))


@pytest.mark.usefixtures("folder")
def test_a_share_is_planned_by_the_memory_that_a_budget_gives():
    Path("pod.yaml").write_text(pod("{nvidia.com/gpu: 1, nvidia.com/gpumem: 24000}"))
    Path("kvplan-budget.yaml").write_text(
        "kvplan-budget: 1\ndeployments:\n  a: {from: pod.yaml, gpu: h100, gpu_memory: 24GiB}\n"
    )
    (found,) = check("--json").document["results"]
    assert (found["status"], found["subject"]["gpu_memory"]) == ("pass", 24 * 2**30)


RAY = "ray start --head --num-gpus 1\n"


@pytest.mark.parametrize(
    ("line", "given"),
    [
        ("docker run --gpus 1 vllm/vllm-openai:v0.33.0 --model m -tp 2", "the container asks for 1"),
        ("docker run --gpus '\"device=0\"' vllm/vllm-openai:v0.33.0 --model m -tp 2", "the container asks for 1"),
        ("docker run --gpus all -e CUDA_VISIBLE_DEVICES=0 vllm/vllm-openai:v0.33.0 --model m -tp 2", "CUDA_VISIBLE_DEVICES shows it 1"),
        ("podman run --device nvidia.com/gpu=0 vllm/vllm-openai:v0.33.0 --model m -tp 2", "the container asks for 1"),
        ("srun --gpus=1 vllm serve m -tp 2", "its job asks for 1"),
        ("srun --gres=nvme:8,gpu:1 vllm serve m -tp 2", "its job asks for 1"),
        ("srun --gres=gpu:4 --gres=gpu:1 vllm serve m -tp 2", "its job asks for 1"),
        ("srun -G 4 --gpus=1 vllm serve m -tp 2", "its job asks for 1"),
        ("srun --gres=gpu:h100:1 -n 1 vllm serve m -tp 2", "its job asks for 1"),
        ("HIP_VISIBLE_DEVICES=0 vllm serve m -tp 2", "HIP_VISIBLE_DEVICES shows it 1"),
        ("vllm serve m -tp 2 --device-ids 0", "--device-ids picks 1"),
        ("vllm serve m -tp 4 --device-ids 0,1,2", "--device-ids picks 3"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("after", ["", RAY])
@pytest.mark.usefixtures("folder")
def test_too_few_gpus(line: str, given: str, after: str):
    found = result(f"{line.replace(' m ', ' llama-3-8b ')}\n{after}", "mi300x" if "HIP" in line else "h100", "run.sh")
    assert [row["message"].partition(", and ")[2] for row in found["checks"] if row["rule"] == "gpu-count"] == [given]


@pytest.mark.parametrize(
    "line",
    [
        "podman run --device nvidia.com/gpu=all vllm/vllm-openai:v0.33.0 --model llama-3-8b -tp 2",
        "podman run --device nvidia.com/gpu=0 --device nvidia.com/gpu=1 vllm/vllm-openai:v0.33.0 --model llama-3-8b -tp 2",
        "srun -N 2 --gpus-per-node=1 vllm serve llama-3-8b -tp 2",
        "srun --gpus=2 vllm serve llama-3-8b -tp 2",
        "srun --gres=gpu:2,nvme:1 vllm serve llama-3-8b -tp 2",
        "srun --gres=nvme:1 vllm serve llama-3-8b -tp 2",
        "srun --gres=gpu:1 --gres=gpu:h100:2 vllm serve llama-3-8b -tp 2",
        "srun --gpus=h100:1,a100:1 vllm serve llama-3-8b -tp 2",
        f"{RAY}vllm serve llama-3-8b -tp 2 --device-ids 0",
        "vllm serve llama-3-8b -tp 2 --device-ids 0,1",
    ],
)
@pytest.mark.usefixtures("folder")
def test_gpus_enough(line: str):
    assert not [row for row in result(f"{line}\n", "h100", "run.sh")["checks"] if row["rule"] == "gpu-count"]


@pytest.mark.parametrize(
    ("limits", "gpu"),
    [
        ("{nvidia.com/gpu: 1}", "h100"),
        ("{nvidia.com/mig-1g.10gb: 1}", "h100:1g.10gb"),
        ("{nvidia.com/mig-1g.10gb.me: 1}", "h100:1g.10gb"),
        ("{amd.com/gpu: 1}", "mi300x"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_each_resource_is_counted(limits: str, gpu: str):
    text = pod(limits).replace('"8192"]', '"8192", --tensor-parallel-size, "2"]')
    said = [row["message"] for row in result(text, gpu)["checks"] if row["rule"] == "gpu-count"]
    assert [each.partition(", and ")[2] for each in said] == ["the container asks for 1"]
