"""Servers without a KV cache on a GPU: encoders alone, and those that their environment puts on other devices.

Source: vLLM 0.33 v1/worker/gpu_model_runner.py get_kv_cache_spec, distributed/ec_transfer/ec_transfer_state.py, docs of the
CPU, XPU, Ascend and Gaudi backends; CUDA's and ROCm's manuals on *_VISIBLE_DEVICES.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from check.checking import check
from check.test_serving import read

SENDS = '\'{"ec_connector": "ECExampleConnector", "ec_role": "ec_producer"}\''
POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: p}}
spec: {{containers: [{{name: v, image: {image}, args: [--model, m], resources: {{limits: {{{limits}}}}}, env: [{{name: {name}, value: "{value}"}}]}}]}}
"""


@pytest.mark.parametrize(
    "flags",
    [
        f"--ec-transfer-config {SENDS}",
        "--ec-transfer-config.ec_connector ECExampleConnector --ec-transfer-config.ec_role ec_producer",
    ],
)
def test_an_encoder_alone_is_not_planned(flags: str):
    found = read(f"vllm serve m {flags}\n", "run.sh")
    assert not found.commands
    assert "an encoder alone has no KV cache" in found.unread[0].why


@pytest.mark.parametrize(
    "said", [SENDS.replace("producer", "consumer"), SENDS.replace("producer", "both"), '\'{"ec_role": "ec_producer"}\'']
)
def test_a_server_that_takes_from_an_encoder_is_planned(said: str):
    (command,) = read(f"vllm serve m --ec-transfer-config {said}\n", "run.sh").commands
    assert [remark.rule for remark in command.remarks] == ["not-counted"]


@pytest.mark.parametrize(
    ("setting", "device"),
    [
        ("VLLM_CPU_KVCACHE_SPACE=40", "a CPU"), ("VLLM_CPU_OMP_THREADS_BIND=0-31", "a CPU"), ("VLLM_TARGET_DEVICE=cpu", "a CPU"),
        ("VLLM_TARGET_DEVICE=tpu", "a TPU"), ("ZE_AFFINITY_MASK=0", "an Intel XPU"), ("ONEAPI_DEVICE_SELECTOR=level_zero:gpu", "an Intel XPU"),
        ("ASCEND_RT_VISIBLE_DEVICES=0,1", "Ascend"), ("HABANA_VISIBLE_DEVICES=all", "Gaudi"), ("NEURON_RT_VISIBLE_CORES=0-3", "Neuron"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", ["{} vllm serve m", "export {}\nvllm serve m", "bash -c '{} vllm serve m'"])
def test_a_device_by_its_variable(setting: str, device: str, form: str):
    found = read(form.format(setting) + "\n", "run.sh")
    assert not found.commands
    assert f"it runs on {device}" in found.unread[0].why


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("VLLM_TARGET_DEVICE=cpu pip install -v -e .\nvllm serve m\n", "run.sh"),
        ("export VLLM_TARGET_DEVICE=cpu\nuv pip install vllm/\nunset VLLM_TARGET_DEVICE\nvllm serve m\n", "run.sh"),
        ("VLLM_TARGET_DEVICE=cpu python setup.py develop\nvllm serve m\n", "run.sh"),
        ("export VLLM_TARGET_DEVICE=cpu\nCUDA_VISIBLE_DEVICES=0 vllm serve m\n", "run.sh"),
        ("export VLLM_CPU_KVCACHE_SPACE=40\nCUDA_VISIBLE_DEVICES= vllm serve m\n", "run.sh"),
        ("docker run --gpus 1 -e VLLM_TARGET_DEVICE=cpu vllm/vllm-openai:v0.28.0 --model m\n", "run.sh"),
        ('FROM python:3.12\nRUN VLLM_TARGET_DEVICE=cpu pip install .\nCMD ["vllm", "serve", "m"]\n', "Dockerfile"),
        (
            "FROM python:3.12 AS a\nARG VLLM_TARGET_DEVICE=cpu\nRUN pip wheel .\nFROM python:3.12\nCMD vllm serve m\n",
            "Dockerfile",
        ),
    ],
)
def test_a_build_for_the_cpu(text: str, name: str):
    found = read(text, name)
    assert not found.commands
    assert "it runs on a CPU" in found.unread[0].why


@pytest.mark.parametrize("image", ["x/vllm:1", "x/server:1"])
def test_a_device_by_a_pods_environment(image: str):
    text = POD.format(image=image, limits="", name="VLLM_CPU_KVCACHE_SPACE", value="4")
    found = read(text if "vllm" in image else text.replace("[--model", "[vllm, serve, --model"))
    assert [unread.why.partition(",")[0] for unread in found.unread] == ["it runs on a CPU"]


@pytest.mark.parametrize(
    "text",
    [
        "VLLM_TARGET_DEVICE=cuda vllm serve m\n",
        "VLLM_CPU_KVCACHE_SPACE= vllm serve m\n",
        "docker run --gpus 1 -e VLLM_CPU_KVCACHE_SPACE=4 x/vllm:1 --model m\n",
        "docker run -e VLLM_CPU_KVCACHE_SPACE=4 vllm/vllm-openai:v0.10.1 --model m\n",
        "srun --gpus=1 bash -c 'ZE_AFFINITY_MASK=0 vllm serve m'\n",
        "export VLLM_CPU_KVCACHE_SPACE=40\nCUDA_VISIBLE_DEVICES=0 vllm serve m\n",
        "export VLLM_CPU_KVCACHE_SPACE=40\nHIP_VISIBLE_DEVICES=0,1 vllm serve m\n",
        "VLLM_TARGET_DEVICE=cuda pip install -e .\nvllm serve m\n",
        "VLLM_TARGET_DEVICE=cpu pip install -e .\ndocker run x/vllm:1 --model m\n",
        "VLLM_TARGET_DEVICE=cpu pip install -e .\napptainer exec vllm.sif vllm serve m\n",
        "VLLM_TARGET_DEVICE=cpu pip install -e .\nssh host vllm serve m\n",
        "VLLM_TARGET_DEVICE=cpu apt-get install gcc\nvllm serve m\n",
        "VLLM_TARGET_DEVICE=cpu make docs\nvllm serve m\n",
        "VLLM_TARGET_DEVICE=cpu pip install -e . || pip install vllm\nvllm serve m\n",
        "VLLM_TARGET_DEVICE=cpu pip install -e .\nCUDA_VISIBLE_DEVICES=0 vllm serve m\n",
        "docker run --gpus 1 -e VLLM_TARGET_DEVICE=cpu vllm/vllm-openai:v0.11.0 --model m\n",
    ],
)
def test_a_variable_that_nobody_looks_at_there(text: str):
    assert read(text, "run.sh").commands


def messages(text: str, gpu: str, name: str = "run.sh") -> tuple[str, int | None]:
    Path(name).write_text(text)
    done = check(name, "--gpu", gpu, "--json")
    return str(done.document["results"]), done.code


@pytest.mark.parametrize(
    ("setting", "gpu", "refused"),
    [
        ("HIP_VISIBLE_DEVICES=0", "h100", True),
        ("ROCR_VISIBLE_DEVICES=0", "h100", True),
        ("HIP_VISIBLE_DEVICES=0", "mi300x", False),
        ("HIP_VISIBLE_DEVICES=0 CUDA_VISIBLE_DEVICES=0", "h100", False),
        ("HIP_VISIBLE_DEVICES=", "h100", False),
    ],
)
@pytest.mark.usefixtures("folder")
def test_rocms_variables_are_of_amds_gpus(setting: str, gpu: str, refused: bool):
    said, _ = messages(f"{setting} vllm serve llama-3-8b --max-model-len 8192\n", gpu)
    assert ("h100 is not a GPU of AMD's" in said) == refused


@pytest.mark.parametrize("value", ["''", "-1", '"-1"', "-1,0", "NoDevFiles"])
@pytest.mark.usefixtures("folder")
def test_no_gpu_at_all(value: str):
    said, code = messages(f"CUDA_VISIBLE_DEVICES={value} vllm serve llama-3-8b --max-model-len 8192\n", "h100")
    assert code == 1
    assert "tensor parallel size 1 needs 1 GPU, and CUDA_VISIBLE_DEVICES shows it none" in said


@pytest.mark.parametrize(
    "line", ["export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-}", 'CUDA_VISIBLE_DEVICES="${CUDA_VISIBLE_DEVICES-}"']
)
@pytest.mark.usefixtures("folder")
def test_a_variable_that_is_left_as_it_is(line: str):
    assert messages(f"{line}\nvllm serve llama-3-8b --max-model-len 8192\n", "h100")[1] == 0


@pytest.mark.parametrize("value", ["", "-1"])
@pytest.mark.usefixtures("folder")
def test_no_gpu_for_a_pod(value: str):
    text = POD.format(
        image="vllm/vllm-openai:v0.33.0", limits="nvidia.com/gpu: 1", name="CUDA_VISIBLE_DEVICES", value=value
    )
    said, code = messages(text.replace("--model, m]", "--model, llama-3-8b]"), "h100", "p.yaml")
    assert (code, "shows it none" in said) == (1, True)


@pytest.mark.parametrize("setting", ["CUDA_VISIBLE_DEVICES=0,-1,1", "CUDA_VISIBLE_DEVICES=0"])
@pytest.mark.usefixtures("folder")
def test_gpus_behind_one_that_there_is_not_are_hidden(setting: str):
    said, _ = messages(f"{setting} vllm serve llama-3-8b -tp 2\n", "h100")
    assert "CUDA_VISIBLE_DEVICES shows it 1" in said
