"""Which GPU a file names: labels of nodes, types of machines in the clouds' own lists, KubeAI's profiles."""

from __future__ import annotations

from pathlib import Path

import pytest
from check.checking import check
from check.test_serving import read

from kvplan.manifests.devices import node_gpus
from kvplan.manifests.devices.node_gpus import instance_gpu
from kvplan.manifests.places import Given, Place
from kvplan.sources.gpus import load_gpu

POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: p}}
spec:
  nodeSelector: {{{}}}
  containers: [{{name: v, image: "vllm/vllm-openai:v0.11.0", args: [--model, llama-3-8b, --max-model-len, "8192"]}}]
"""

# each cloud's own list of machines
MACHINES = {
    "Standard_NC24ads_A100_v4": "a100-pcie-80", "Standard_ND96isr_H100_v5": "h100-sxm", "Standard_NC40ads_H100_v5": "h100-nvl",
    "Standard_NV36ads_A10_v5": "a10", "Standard_NV6ads_A10_v5": None, "Standard_NC4as_T4_v3": "t4", "Standard_D4s_v5": None,
    "Standard_ND96asr_v4": "a100-sxm-40", "Standard_ND96amsr_A100_v4": "a100-sxm-80", "Standard_NC6s_v3": None,
    "a2-highgpu-1g": "a100-sxm-40", "a2-ultragpu-8g": "a100-sxm-80", "a3-highgpu-8g": "h100-sxm", "a3-ultragpu-8g": "h200-sxm",
    "g2-standard-12": "l4", "n1-standard-8": None, "g6.xlarge": "l4", "g6e.12xlarge": "l40s", "p5.48xlarge": "h100-sxm", "g6f.xlarge": None,
    "g4-standard-48": "rtx-pro-6000-server", "g4-standard-384": "rtx-pro-6000-server", "g4-standard-6": None,
    "g4-standard-12": None, "g4-standard-24": None,
    "BM.GPU.H100.8": "h100-sxm", "VM.GPU.A10.2": "a10", "m5.large": None,
}  # fmt: skip


@pytest.mark.parametrize(("machine", "gpu"), MACHINES.items())
def test_machines(machine: str, gpu: str | None):
    assert instance_gpu(machine) == gpu


def test_every_gpu_of_the_tables_is_known():
    for name in {*node_gpus._AWS.values(), *node_gpus._GOOGLE.values(), *(gpu for _, gpu in node_gpus._PATTERNS)}:
        assert load_gpu(name).id == name


READ = {
    "node.kubernetes.io/instance-type: Standard_NC24ads_A100_v4": "a100-pcie-80",
    "beta.kubernetes.io/instance-type: a2-highgpu-1g": "a100-sxm-40",
    "karpenter.k8s.aws/instance-family: g6": "l4",
    "k8s.amazonaws.com/accelerator: nvidia-l4": "l4",
    "gpu-type: RTX-4090": "rtx-4090",
    "cloud.google.com/gke-accelerator: nvidia-rtx-pro-6000, node.kubernetes.io/instance-type: g4-standard-48": "rtx-pro-6000-server",
    "karpenter.k8s.aws/instance-gpu-name: a100, node.kubernetes.io/instance-type: p4d.24xlarge": "a100-sxm-40",
    "eks.amazonaws.com/instance-gpu-name: a100, eks.amazonaws.com/instance-family: p4de": "a100-sxm-80",
    "karpenter.k8s.aws/instance-gpu-name: a100, karpenter.k8s.aws/instance-gpu-memory: '40960'": "a100-sxm-40",
    "karpenter.k8s.aws/instance-gpu-name: v100, karpenter.k8s.aws/instance-gpu-memory: '32768'": "v100-sxm-32",
    "karpenter.k8s.aws/instance-gpu-name: t4, karpenter.k8s.aws/instance-gpu-memory: '16384'": "t4",
    "karpenter.k8s.aws/instance-gpu-name: a10g, karpenter.k8s.aws/instance-gpu-memory: '24576'": "a10g",
    "karpenter.azure.com/sku-gpu-name: A100, karpenter.azure.com/sku-name: Standard_NC24ads_A100_v4": "a100-pcie-80",
    "karpenter.azure.com/sku-gpu-name: H100, karpenter.azure.com/sku-name: Standard_ND96isr_H100_v5": "h100-sxm",
    "karpenter.k8s.aws/instance-gpu-name: rtx-pro-server-6000": "rtx-pro-6000-server",
    "nvidia.com/gpu.product: NVIDIA-A100-SXM4-40GB, nvidia.com/gpu.memory: '40960'": "a100-sxm-40",
    "karpenter.azure.com/sku-name: Standard_ND96isr_H100_v5": "h100-sxm",
    "node.kubernetes.io/instance-type: g6.xlarge, nvidia.com/gpu.product: NVIDIA-L4": "l4",
    "accelerator: nvidia, karpenter.k8s.aws/instance-gpu-name: l40s": "l40s",
}
NOT_KNOWN = [
    "accelerator: nvidia-tesla-v100", "nvidia.com/gpu.memory: '24576'", "gpu-type: gold", "node.kubernetes.io/instance-type: gd-8x.big",
    "karpenter.k8s.aws/instance-family: g6f", "karpenter.k8s.aws/instance-family: g6, gpu-type: h100",
]  # fmt: skip


@pytest.mark.parametrize(("labels", "gpu"), READ.items())
def test_labels_outweigh_the_command_line(folder: Path, labels: str, gpu: str):
    (folder / "f.yaml").write_text(POD.format(labels))
    (result,) = check("f.yaml", "--gpu", "h200", "--json").document["results"]
    assert result["subject"]["gpu"] == gpu
    assert not [row for row in result["checks"] if row["rule"] == "gpu-name"]


@pytest.mark.parametrize("labels", NOT_KNOWN)
def test_labels_that_are_not_understood_are_told(folder: Path, labels: str):
    (folder / "f.yaml").write_text(POD.format(labels))
    (result,) = check("f.yaml", "--gpu", "h200", "--json").document["results"]
    (row,) = [row for row in result["checks"] if row["rule"] == "gpu-name"]
    assert (result["subject"]["gpu"], row["status"], row["shown"]["line"]) == ("h200-sxm", "warn", 5)


@pytest.mark.parametrize("labels", ["accelerator: nvidia", "kubernetes.io/arch: amd64", "gpu: 'true'"])
def test_labels_that_name_no_kind(labels: str):
    (command,) = read(POD.format(labels)).commands
    assert not command.remarks


KUBEAI = """\
apiVersion: kubeai.org/v1
kind: Model
metadata: {{name: m}}
spec:
  url: hf://llama-3-8b
  engine: VLLM
  image: vllm/vllm-openai:v0.9.0
  args: [--max-model-len=8192]
  resourceProfile: {}
"""


@pytest.mark.parametrize(
    ("profile", "gpu"),
    [("nvidia-gpu-l4:2", "l4"), ("amd-gpu-mi300x:1", "mi300x"), ("nvidia-gpu-a100-80gb:1", "a100-sxm-80"), ("mine:1", "h200-sxm")],
)  # fmt: skip
def test_kubeais_profiles(folder: Path, profile: str, gpu: str):
    (folder / "f.yaml").write_text(KUBEAI.format(profile))
    document = check("f.yaml", "--gpu", "h200", "--json").document
    (result,) = document["results"]
    assert (result["name"], result["subject"]["gpu"], result["subject"]["version"]) == ("m", gpu, "0.9.0")
    assert not document["unread"]


def test_kubeais_number_of_gpus():
    text = KUBEAI.replace("[--max-model-len=8192]", "[-tp=4]")
    for count, levels in (("2", ["error"]), ("4", [])):
        (command,) = read(text.format(f"nvidia-gpu-l4:{count}")).commands
        assert [remark.level for remark in command.remarks] == levels


@pytest.mark.parametrize("profile", ["cpu:8", "google-tpu-v5e-1x1:1"])
def test_kubeais_other_devices(profile: str):
    found = read(KUBEAI.format(profile))
    assert not found.commands
    assert ["runs on" in entry.why for entry in found.unread] == [True]


def test_the_chart_of_kubeais_models():
    text = "catalog:\n  a:\n    enabled: false\n    url: hf://org/m\n    engine: VLLM\n    resourceProfile: nvidia-gpu-l4:1\n"
    (command,) = read(text).commands
    assert (command.name, command.layer["model",].value, command.layer["gpu",].value) == ("a", "org/m", "l4")


VAGUE = {
    "cloud.google.com/gke-accelerator: nvidia-rtx-pro-6000": "rtx-pro-6000-server",
    "karpenter.k8s.aws/instance-gpu-name: a100": "a100-sxm-40", "eks.amazonaws.com/instance-gpu-name: a100": "a100-sxm-80",
    "karpenter.k8s.aws/instance-gpu-name: v100": "v100-sxm-16", "karpenter.azure.com/sku-gpu-name: A100": "a100-pcie-80",
    "karpenter.azure.com/sku-gpu-name: A10": "a10", "karpenter.azure.com/sku-gpu-name: H100": "h100-nvl",
    "accelerator: a100": "a100-pcie-40", "accelerator: nvidia-a100": "a100-sxm-80", "k8s.amazonaws.com/accelerator: nvidia-tesla-a100": "a100-sxm-40",
}  # fmt: skip
"""Labels that don't say which size, and one that it may be."""


@pytest.mark.parametrize(("labels", "gpu"), VAGUE.items())
def test_a_name_of_several_sizes_is_told_apart_by_whoever_asks(folder: Path, labels: str, gpu: str):
    (folder / "f.yaml").write_text(POD.format(labels))
    done = check("f.yaml", "--gpu", "h200", "--json")
    assert (done.code, gpu in done.document["results"][0]["error"]["what"]) == (2, True)
    (result,) = check("f.yaml", "--gpu", gpu, "--json").document["results"]
    assert result["subject"]["gpu"] == gpu


def test_a_size_that_a_name_does_not_have(folder: Path):
    (folder / "f.yaml").write_text(POD.format("gpu-type: h100, nvidia.com/gpu.memory: '40960'"))
    (result,) = check("f.yaml", "--gpu", "h200", "--json").document["results"]
    assert [row["rule"] for row in result["checks"] if row["status"] == "warn"] == ["gpu-name"] * 2


def test_amd_s_modules():
    labels = [("amd.com/gpu.product-name", "AMD_Instinct_MI300X_OAM", Place("f", 1))]
    assert node_gpus.chosen(labels).gpu == Given("AMD_Instinct_MI300X", Place("f", 1))
    assert load_gpu("AMD_Instinct_MI300X").id == "mi300x"
