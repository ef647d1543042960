"""Idioms of public deployments, each as the smallest file that has it: what is read, what is warned of, what is listed."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from check.checking import check
from check.test_serving import read, values

from kvplan.engines.vllm.tables.versions import NEWEST, text
from kvplan.manifests import Served, parse
from kvplan.manifests.installed.images import image_device, image_version, is_vllm_image
from kvplan.manifests.tree import WorkingTree

POD = """\
    apiVersion: v1
    kind: Pod
    metadata: {{name: p}}
    spec: {{containers: [{{name: v, image: "vllm/vllm-openai:v0.11.0", {}}}]}}
"""


def remarks(text: str, name: str = "f.yaml") -> list[tuple[str, str]]:
    """(level, text) of every remark."""
    return [(remark.level, remark.text) for command in read(text, name).commands for remark in command.remarks]


def unread(text: str, name: str = "f.yaml") -> list[tuple[int, str]]:
    """(line, why) of what is listed."""
    found = read(text, name)
    assert not found.commands
    return [(entry.place.line, entry.why) for entry in found.unread]


# versions and devices of images


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("vllm/vllm-openai:v0.8.5.post1", "0.8.5.post1"),
        ("vllm/vllm-openai:v0.9.0.1", "0.9.0.1"),
        ("vllm/vllm-openai:v0.10.1.1", "0.10.1.1"),
        ("docker.io/vllm/vllm-openai:v0.11.0-x86_64", "0.11.0"),
        ("mirror.example/vllm/vllm-openai:cu129-0.11.2", "0.11.2"),
        ("vllm/vllm-openai:v0.11.1rc1", "0.11.1rc1"),
        ("rocm/vllm:rocm6.4.1_vllm_0.9.1_20250715", "0.9.1"),
        ("public.ecr.aws/deep-learning-containers/vllm:0.11.2-gpu-py312-cu129", "0.11.2"),
        ("763104351884.dkr.ecr.us-east-1.amazonaws.com/vllm:0.9.2-gpu", "0.9.2"),
        ("vllm/vllm-openai:latest", None),
        ("vllm/vllm-openai@sha256:0.9.0", None),
        ("lmcache/vllm-openai:v0.3.9post2", None),
        ("ghcr.io/llm-d/llm-d-cuda:v0.2.2", None),
        ("nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.7.0", None),
        ("registry.example/team/vllm-server:0.2.0", None),
        ("nvcr.io/nvidia/vllm:25.09-py3", None),
    ],
)
def test_versions_of_images(image: str, version: str | None):
    assert image_version(image) == version


def test_names_of_images():
    assert is_vllm_image("localhost:5000/vllm")
    assert not is_vllm_image("vllm/router:0.1")
    assert image_device("vllm/vllm-tpu:nightly") == "a TPU"
    assert image_device("public.ecr.aws/q9t5s3a7/vllm-cpu-release-repo:v0.9.0") == "a CPU"
    assert image_device("vllm/vllm-openai:v0.11.0") is None


def test_four_parts_are_the_release_before_them(folder: Path):
    (folder / "run.sh").write_text("docker run vllm/vllm-openai:v0.10.1.1 --model llama-3-8b\n")
    (result,) = check("run.sh", "--gpu", "h100", "--json").document["results"]
    assert result["subject"]["version"] == "0.10.1"


def test_another_products_number_is_no_version(folder: Path):
    (folder / "run.sh").write_text("docker run lmcache/vllm-openai:v0.3.9 --model llama-3-8b\n")
    (result,) = check("run.sh", "--gpu", "h100", "--json").document["results"]
    assert (result["status"], result["subject"]["version"]) == ("warn", text(NEWEST))
    assert any("--engine" in row["message"] for row in result["checks"])
    (result,) = check("run.sh", "--gpu", "h100", "--engine", "vllm@0.11.0", "--json").document["results"]
    assert (result["status"], result["subject"]["version"]) == ("pass", "0.11.0")


@pytest.mark.parametrize(
    "container",
    [
        'args: [--model, m], resources: {limits: {google.com/tpu: "8"}}',
        'args: [--model, m], resources: {limits: {habana.ai/gaudi: "8"}}',
        'args: [--model, m], resources: {requests: {aws.amazon.com/neuron: "1"}}',
        'args: [--model, m], resources: {limits: {gpu.intel.com/i915: "1"}}',
        "args: [--model, m, --device, tpu]",
    ],
)
def test_devices_that_are_no_gpus(container: str):
    assert [why for _, why in unread(POD.format(container)) if "runs on" in why]


# what decides memory and isn't counted


@pytest.mark.parametrize(
    ("flags", "warned"),
    [
        ("--enable-eplb --eplb-config '{\"num_redundant_experts\":32}'", True),
        ("--enable-eplb --eplb-config.num_redundant_experts 32", True),
        ("--enable-eplb", True),  # eplb_state.py: a buffer of one layer's experts
        ("--eplb-config '{\"window_size\":1000}'", False),
        ("--enable-eplb --num-redundant-experts 32", True),
        ("--num-redundant-experts 0", False),
        ("--mm-encoder-tp-mode data", True),
        ("--mm-encoder-tp-mode weights", False),
        ("--attention-backend CUTLASS_MLA", True),
        ("--attention-backend FLASH_ATTN", False),
    ],
)
def test_experts_and_towers_that_are_not_counted(flags: str, warned: bool):
    (command,) = read(f"vllm serve m -tp 8 {flags}\n", "run.sh").commands
    assert any(remark.rule == "not-counted" for remark in command.remarks) is warned


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (POD.format("args: [--model, m], env: [{name: VLLM_PP_LAYER_PARTITION, value: '60,20'}]"), "f.yaml"),
        ("docker run -e VLLM_PP_LAYER_PARTITION=60,20 vllm/vllm-openai:v0.11.0 --model m\n", "run.sh"),
        ("docker run --env=VLLM_PP_LAYER_PARTITION=60,20 vllm/vllm-openai:v0.11.0 --model m\n", "run.sh"),
        ("docker run -eVLLM_PP_LAYER_PARTITION=60,20 vllm/vllm-openai:v0.11.0 --model m\n", "run.sh"),
        ("export VLLM_PP_LAYER_PARTITION=60,20\nvllm serve m\n", "run.sh"),
        ("FROM vllm/vllm-openai:v0.11.0\nENV VLLM_PP_LAYER_PARTITION=60,20\nCMD [\"--model\", \"m\"]\n", "Dockerfile"),
        ("[Service]\nEnvironment=\"VLLM_PP_LAYER_PARTITION=60,20\" A=b\nExecStart=vllm serve m\n", "v.service"),
        (POD.format("command: [sh, -c, 'VLLM_PP_LAYER_PARTITION=60,20 vllm serve m']"), "f.yaml"),
    ],
)  # fmt: skip
def test_environments_that_move_memory(text: str, name: str):
    assert [text.partition(":")[0] for _, text in remarks(text, name)] == ["VLLM_PP_LAYER_PARTITION=60,20"]


def test_environments_that_do_not():
    assert not remarks("VLLM_USE_V1=1 VLLM_ATTENTION_BACKEND=FLASH_ATTN VLLM_MLA_DISABLE=0 vllm serve m\n", "run.sh")
    assert len(remarks("VLLM_USE_V1=0 vllm serve m\n", "run.sh")) == 1
    assert len(remarks("VLLM_USE_V2_MODEL_RUNNER=1 vllm serve m\n", "run.sh")) == 0
    assert len(remarks("docker run -e VLLM_USE_V2_MODEL_RUNNER=1 vllm/vllm-openai:v0.20.0 --model m\n", "run.sh")) == 1
    assert len(remarks("VLLM_ROCM_USE_AITER=1 VLLM_ROCM_USE_AITER_MHA=0 vllm serve m\n", "run.sh")) == 2
    assert not remarks("docker run -e VLLM_USE_V1=0 vllm/vllm-openai:v0.12.0 --model m\n", "run.sh")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('FROM vllm/vllm-openai:v0.11.0\nENV VLLM_ALLOW_LONG_MAX_MODEL_LEN 1\nCMD ["--model", "m"]\n', "Dockerfile"),
        ("[Service]\nEnvironment=VLLM_ALLOW_LONG_MAX_MODEL_LEN=1\nExecStart=vllm serve m\n", "v.service"),
        ("docker run --env=VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 vllm/vllm-openai:v0.11.0 --model m\n", "run.sh"),
        ("docker run -eVLLM_ALLOW_LONG_MAX_MODEL_LEN=1 vllm/vllm-openai:v0.11.0 --model m\n", "run.sh"),
    ],
)
def test_leave_for_longer_contexts(text: str, name: str):
    (layer,) = values(read(text, name)).values()
    assert layer["flags.allow_long_max_model_len"] == "true"


# GPUs


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("CUDA_VISIBLE_DEVICES=0,1 vllm serve m -tp 4\n", "run.sh"),
        ("services: {a: {image: vllm/vllm-openai, command: --model m -tp 4, gpus: [{driver: nvidia, count: 2}]}}\n", "c.yaml"),
        ("services: {a: {image: vllm/vllm-openai, command: --model m -tp 4, environment: [NVIDIA_VISIBLE_DEVICES=0]}}\n", "c.yaml"),
    ],
)  # fmt: skip
def test_fewer_gpus_than_ranks(text: str, name: str):
    assert [level for level, _ in remarks(text, name)] == ["error"]


GROUP = """\
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {{name: l}}
spec:
  leaderWorkerTemplate:
    size: {}
    leaderTemplate: {{spec: {{containers: [{{name: v, image: "vllm/vllm-openai:v0.11.0", command: [vllm, serve, m, -tp, "16"],
      resources: {{limits: {{nvidia.com/gpu: 8}}}}}}]}}}}
"""


def test_ranks_over_several_nodes():
    assert not remarks(GROUP.format(2))
    assert [level for level, _ in remarks(GROUP.format(1))] == ["error"]
    eight = "resources: {limits: {nvidia.com/gpu: 8}}"
    for size, levels in ((16, []), (32, ["error"])):
        text = POD.format(f'command: [vllm, serve, m, -tp, "{size}", --nnodes, "2"], {eight}').replace(
            "v0.11.0", "v0.33.0"
        )
        assert [level for level, _ in remarks(text)] == levels
    assert not remarks(POD.format(f'command: [sh, -c, "ray start --head; vllm serve m -tp 16"], {eight}'))
    assert not remarks(
        POD.format(f'command: [vllm, serve, m, -tp, "16", --distributed-executor-backend, ray], {eight}')
    )


# compose


def test_comments_in_dot_env(folder: Path):
    (folder / ".env").write_text("LEN=8192   # tokens\nNAME='a # b' # c\nexport MODEL=org/x#y\nSAME=${LEN}\n")
    (folder / "compose.yaml").write_text("""\
services:
  a:
    image: vllm/vllm-openai:v0.11.0
    command: --model ${MODEL} --max-model-len ${SAME} --kv-cache-dtype fp8
""")
    assert values(read((folder / "compose.yaml").read_text(), "compose.yaml")) == {
        "a": {"engine": "vllm@0.11.0", "model": "org/x#y", "context": 8192, "kv_dtype": "fp8"}
    }


def test_nested_defaults_and_services_that_extend_another():
    found = read("""\
        services:
          base:
            image: vllm/vllm-openai:v0.11.0
            command: --model ${MODEL:-${DEFAULT_MODEL:-Qwen/Qwen3-8B}}
          long:
            extends: {service: base}
            command: ["--model", "Qwen/Qwen3-8B", "--max-model-len", "${LEN:-${CTX:-8192}}"]
          other:
            extends: {file: common.yaml, service: vllm}
            command: [--model, m]
    """, "compose.yaml")  # fmt: skip
    assert values(found) == {
        "base": {"engine": "vllm@0.11.0", "model": "Qwen/Qwen3-8B"},
        "long": {"engine": "vllm@0.11.0", "model": "Qwen/Qwen3-8B", "context": 8192},
    }
    assert [entry.what for entry in found.unread] == ["other"]


# scripts, Dockerfiles, units


@pytest.mark.parametrize(
    "script",
    [
        'eval "vllm serve m --served-model-name "my model" --max-model-len 8192"\n',
        'CMD="vllm serve m"\neval "$CMD --max-model-len 8192"\n',
        'CMD="vllm serve m"\neval $CMD --help\nbash -c "$CMD --max-model-len 8192"\n',
        'CMD=(vllm serve m)\nexec "${CMD[@]}" --max-model-len 8192\n',
        'bash -lc -- "vllm serve m --max-model-len 8192"\n',
    ],
)
def test_commands_in_variables(script: str):
    assert {"model": "m", "context": 8192} in values(read(script, "run.sh")).values()


def test_kuberays_shell():
    found = read(POD.format('command: ["/bin/bash", "-lc", "--"], args: ["ulimit -n 65536; vllm serve m -tp 2"]'))
    assert values(found) == {"p": {"engine": "vllm@0.11.0", "model": "m", "parallel.tp": 2}}


@pytest.mark.parametrize(
    ("script", "line"),
    [
        ('source .env\ndocker run "$IMAGE" --model m --max-model-len 8192\n', 2),
        ("ssh gpu1 <<'EOF'\nvllm serve m --max-model-len 8192\nEOF\n", 2),
        ("cat > run.sh <<EOF\nvllm serve m -tp $TP\nEOF\n", 2),
        (
            "manifest() {\ncat <<EOF\napiVersion: v1\nkind: Pod\nspec: {image: vllm/vllm-openai, args: [--model, m]}\nEOF\n}\n",
            3,
        ),
        ("kubectl apply -f - <<EOF\nspec: {image: vllm/vllm-openai:v0.9.0, args: [--model, m]}\nEOF\n", 2),
    ],
)
def test_what_a_script_hides_is_listed(script: str, line: int):
    assert [at for at, _ in unread(script, "run.sh")] == [line]


def test_what_a_script_only_shows_is_not():
    assert not unread("cat <<EOF\nusage: vllm serve MODEL\nEOF\necho done\n", "run.sh")


def test_dockerfiles_with_arguments_and_stages():
    found = read("ARG V=v0.8.5\nFROM vllm/vllm-openai:${V} AS base\nENV LEN=4096 VLLM_USE_V1=1\nFROM base\nCMD [\"--model\", \"m\"]\n", "Dockerfile")  # fmt: skip
    assert values(found) == {"Dockerfile": {"engine": "vllm@0.8.5", "model": "m"}}
    found = read(
        "FROM vllm/vllm-openai:v0.9.0\nENV LEN=4096\nENTRYPOINT vllm serve m --max-model-len $LEN\n", "Dockerfile"
    )
    assert values(found) == {"Dockerfile": {"engine": "vllm@0.9.0", "model": "m", "context": 4096}}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("app.py", 'subprocess.run(["vllm", "serve", "m"])\n'),
        ("job.nomad", 'config { image = "vllm/vllm-openai:v0.9.0"\n args = ["--model", "m"] }\n'),
    ],
)
def test_languages_that_are_not_read(folder: Path, name: str, text: str):
    (folder / name).write_text(text)
    (entry,) = check(name, "--gpu", "h100", "--json").document["unread"]
    assert "seems to start vLLM" in entry["why"]


# Kubernetes and charts


def test_the_production_stacks_chart_writes_only_what_it_names():
    found = read("""\
        servingEngineSpec:
          modelSpec:
          - name: q
            repository: vllm/vllm-openai
            tag: v0.10.0
            modelURL: Qwen/Qwen3-8B
            modelRevision: abc
            enableLoRA: true
            lmcacheConfig: {enabled: true}
            vllmConfig: {maxModelLen: 32768, kvCacheDtype: fp8, maxLoras: 8, v0: "1", extraArgs: ["--block-size", "32"]}
    """)
    assert values(found) == {
        "q": {
            "engine": "vllm@0.10.0", "model": "Qwen/Qwen3-8B", "revision": "abc", "context": 32768, "flags.enable_lora": True,
            "flags.max_loras": "8", "flags.enable_prefix_caching": False, "flags.block_size": "32",
            "flags.kv_connector": "LMCacheConnector",
        }
    }  # fmt: skip
    texts = [remark.text for remark in found.commands[0].remarks]
    assert [text for text in texts if "vllmConfig.kvCacheDtype" in text and "extraArgs" in text]
    assert [text for text in texts if text.startswith("VLLM_USE_V1=0")]
    assert len(texts) == 2


def test_the_production_stacks_operator():
    found = read("""\
        apiVersion: production-stack.vllm.ai/v1alpha1
        kind: VLLMRuntime
        metadata: {name: r}
        spec:
          model: {modelURL: m, enableLoRA: true, maxModelLen: 4096}
          vllmConfig: {v1: true, maxLoras: 4, tensorParallelSize: 2}
          lmCacheConfig: {enabled: true}
          deploymentConfig:
            resources: {gpu: "1"}
            image: {registry: docker.io, name: "vllm/vllm-openai:v0.11.0"}
    """)
    assert values(found) == {
        "r": {
            "engine": "vllm@0.11.0", "model": "m", "context": 4096, "flags.enable_lora": True, "flags.max_loras": "4",
            "flags.enable_prefix_caching": False, "flags.kv_connector": "LMCacheConnectorV1", "parallel.tp": 2,
            "flags.enable_chunked_prefill": False,
        }
    }  # fmt: skip
    assert [remark.rule for remark in found.commands[0].remarks] == ["gpu-count"]


def test_arguments_in_one_text():
    found = read(
        'image: {repository: vllm/vllm-openai, tag: v0.11.0}\nmodel: m\nextraArgs: "--max-model-len 8192 -tp 2"\n'
    )
    assert values(found) == {"values": {"engine": "vllm@0.11.0", "model": "m", "context": 8192, "parallel.tp": 2}}


def test_an_inference_service_and_its_runtime():
    found = read("""\
        apiVersion: serving.kserve.io/v1alpha1
        kind: ServingRuntime
        metadata: {name: rt}
        spec:
          containers:
          - name: kserve-container
            image: vllm/vllm-openai:v0.9.0
            command: [python, -m, vllm.entrypoints.openai.api_server]
            args: [--port=8080, --model=/mnt/models]
        ---
        apiVersion: serving.kserve.io/v1beta1
        kind: InferenceService
        metadata: {name: mine}
        spec:
          predictor:
            model:
              runtime: rt
              storageUri: hf://Qwen/Qwen3-8B
              args: [--max-model-len=8192]
              resources: {limits: {nvidia.com/gpu: "2"}}
    """)
    assert not found.unread
    assert values(found) == {"mine": {"engine": "vllm@0.9.0", "model": "Qwen/Qwen3-8B", "context": 8192}}


def test_a_runtime_without_a_service():
    runtime = "apiVersion: serving.kserve.io/v1alpha1\nkind: ServingRuntime\nmetadata: {name: rt}\nspec: {containers: [{name: c, image: vllm/vllm-openai, args: [--model=/mnt/models]}]}\n"
    assert [at for at, why in unread(runtime) if "service" in why] == [4]


def test_containers_of_kinds_of_their_own():
    runner = "apiVersion: ome.io/v1\nkind: ServingRuntime\nmetadata: {name: r}\nspec: {engineConfig: {runner: {name: e, image: 'vllm/vllm-openai:v0.11.0', args: [--model, m]}}}\n"
    assert values(read(runner)) == {"r": {"engine": "vllm@0.11.0", "model": "m"}}
    release = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: s}\nspec: {values: {servingEngineSpec: {modelSpec: [{name: q, repository: vllm/vllm-openai, tag: v0.9.0, modelURL: m}]}}}\n"
    assert values(read(release)) == {"q": {"engine": "vllm@0.9.0", "model": "m"}}
    side = "apiVersion: v1\nkind: Pod\nmetadata: {name: s}\nspec: {containers: [{name: app, image: app}], initContainers: [{name: v, restartPolicy: Always, image: vllm/vllm-openai, args: [--model, m]}]}\n"
    assert values(read(side)) == {"s": {"model": "m"}}


def test_kubeais_models():
    found = read("""\
        apiVersion: kubeai.org/v1
        kind: Model
        metadata: {name: big}
        spec:
          url: hf://org/model?model=x
          engine: VLLM
          args: [--max-model-len=65536, --tensor-parallel-size=8]
          resourceProfile: nvidia-gpu-a100-80gb:4
    """)
    assert values(found) == {"big": {"model": "org/model", "context": 65536, "parallel.tp": 8, "gpu": "a100-80gb"}}
    assert [remark.rule for remark in found.commands[0].remarks] == ["gpu-count"]


def test_dynamos_workers_are_another_program():
    for words in (
        "args: [python3, -m, dynamo.vllm, --model, m]",
        "command: [python3, -m, dynamo.vllm], args: [--model, m]",
    ):
        assert [why for _, why in unread(POD.format(words)) if "Dynamo" in why]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("resources: {accelerators: H100:8}\nrun: vllm serve m -tp 8\n", 2),
        ("jobs:\n  t:\n    steps:\n    - run: vllm serve m\n", 4),
        ("applications:\n- args:\n    llm_configs:\n    - model_loading_config: {model_id: m}\n      engine_kwargs: {max_model_len: 8192}\n", 4),
    ],
)  # fmt: skip
def test_servers_in_other_yaml_are_listed(text: str, line: int):
    assert [at for at, _ in unread(text)] == [line]


def test_a_line_about_a_command_is_none():
    assert not unread("description: vllm serve starts a server\nentries: [{text: vllm serve m}]\n")


# names and sizes that nobody expects


@pytest.mark.parametrize("model", ['"a\\0b"', '"' + "x y" * 100 + '"', "org/" + "a" * 300])
def test_a_name_that_no_file_can_have_ends_no_run(folder: Path, model: str):
    (folder / "pod.yaml").write_text(
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{containers: [{{name: v, image: vllm/vllm-openai, args: [--model, {model}]}}]}}\n"
    )
    (folder / "ok.sh").write_text("vllm serve llama-3-8b --max-model-len 8192\n")
    ran = check("pod.yaml", "ok.sh", "--gpu", "h100", "--json")
    assert {result["status"] for result in ran.document["results"]} == {"pass", "error"}


def test_a_file_that_is_too_large_is_a_finding(folder: Path):
    (folder / "big.yaml").write_text("a: 1\n" * 1_000_000)
    (folder / "ok.sh").write_text("vllm serve llama-3-8b --max-model-len 8192\n")
    ran = check("big.yaml", "ok.sh", "--gpu", "h100", "--json")
    (broken,) = [result for result in ran.document["results"] if result["status"] == "error"]
    assert "too large to be checked" in broken["error"]["what"]
    assert ran.code == 2


def test_nonsense_is_not_quoted_whole():
    ((_, text),) = remarks(f"vllm serve m --max-model-len {'z' * 5000}\n", "run.sh")
    assert len(text) < 600
    assert "is not a whole number" in text


@pytest.mark.parametrize(
    "script",
    [
        "f() {\n" + "x=$y\n" * 20_000 + "}\n",
        "for i in a; do\n" + "".join(f"v{i}=$v{i}\n" for i in range(20_000)) + "done\n",
        "\n" * 400_000,
        "a=( $x \n" * 10_000,
        "$(\n" * 30_000,
    ],
    ids=["function", "loop", "lines", "arrays", "substitutions"],
)
def test_scripts_are_read_in_linear_time(script: str):
    start = time.process_time()
    read(script + "vllm serve m\n", "run.sh")
    assert time.process_time() - start < 5


def test_of_several_changes_the_one_that_broke_it_is_shown(folder: Path):
    budget = """\
kvplan-budget: 1
deployments:
  chat:
    model: llama-3.1-70b
    gpu: h100
    parallel: {{tp: 4}}
    kv_dtype: {kv}
    context: {context}
    flags:
      max_num_seqs: {sequences}
      gpu_memory_utilization: {share}
    limits:
      kv_per_token: 160KiB
      min_sequences: 20
"""
    path = folder / "kvplan-budget.yaml"
    path.write_text(budget.format(kv="fp8", context="16k", sequences=64, share=0.9))
    assert check("--update").code == 0
    path.write_text(budget.format(kv="bf16", context="8k", sequences=10, share=0.92))
    (result,) = check("--json").document["results"]
    lines = {row["rule"]: row["shown"]["line"] for row in result["checks"] if row["status"] == "fail"}
    assert lines == {"kv-per-token": 7, "min-sequences": 10}
    assert json.dumps(result)


@pytest.mark.parametrize("taken", ["ENTRYPOINT []", "CMD []", "ENTRYPOINT []\nCMD []"])
def test_a_stage_whose_words_are_taken_away_serves_nothing(taken: str):
    assert read(f"FROM vllm/vllm-openai:v0.12.0\n{taken}\n", "Dockerfile") == Served()
    said = f'FROM vllm/vllm-openai:v0.12.0 AS base\n{taken}\nFROM base\nCMD ["vllm", "serve", "m"]\n'
    assert {name: entry["model"] for name, entry in values(read(said, "Dockerfile")).items()} == {"Dockerfile": "m"}


def test_a_folded_command_that_was_read_is_not_listed_as_unread():
    text = """\
        deployment:
          image: vllm/vllm-openai:v0.19.0
          command: >-
            vllm serve Qwen/Qwen3-8B
            --host ${deployment.host}
            --max-model-len 8192
    """
    assert not read(text).unread


@pytest.mark.parametrize("end", [" \\", "", "  \\"])
def test_arguments_of_helm_values_over_several_lines(end: str):
    text = f"""\
        a:
          image: vllm/vllm-openai:v0.19.0
          command: |
            vllm serve m{end}
              --max-model-len 8192{end}
              --tensor-parallel-size{end}
                2
    """
    (command,) = read(text).commands
    assert not command.noted
    placed = {".".join(key): (placed.value, placed.place.line) for key, placed in command.layer.items()}
    assert placed["parallel.tp"] == (2, 6)
    assert placed["context"] == (8192, 5)


@pytest.mark.parametrize(
    ("command", "rules"),
    [
        ("docker run aibrix/vllm-openai:v0.10.2-cu128 --model m --disable-log-requests --swap-space 4", ["engine-version"]),
        ("docker run aibrix/vllm-openai:v0.10.2-cu128 --model m --num-scheduler-steps 8", ["engine-version", "not-counted"]),
        ("docker run aibrix/vllm-openai:v0.10.2-cu128 --model m --max-num-sequences 4", ["engine-version", "unknown-flag"]),
        ("docker run lmcache/vllm-openai:2025-03-10 --model m --swap-space 4", ["engine-version"]),
        ("docker run vllm/vllm-openai:nightly-20250310abcdef --model m --swap-space 4", ["engine-version", "unknown-flag"]),
        ("docker run vllm/vllm-openai:latest --model m --swap-space 4", ["unknown-flag"]),
        ("vllm serve m --swap-space 4", ["unknown-flag"]),
        ("vllm serve m --num-scheduler-steps 8", ["unknown-flag"]),
        ("vllm serve m --task embed", ["unknown-flag"]),
        ("vllm serve m --quantization bitsandbytes", ["bad-argument"]),
        ("vllm serve m --kernel-config {}", []),
        ("vllm serve m --additional-config '{ }'", []),
        ("vllm serve m --mm-processor-kwargs {}", []),
        ("vllm serve m --mm-processor-kwargs '{\"a\": 1}'", ["not-counted"]),
    ],
)  # fmt: skip
def test_one_warning_a_flag(command: str, rules: list[str]):
    (found,) = read(f"{command}\n", "run.sh").commands
    assert sorted(remark.rule for remark in found.remarks) == rules


def test_another_products_image_is_held_against_the_release_that_is_asked_for():
    (found,) = read("docker run aibrix/vllm-openai:v0.10.2-cu128 --model m --swap-space 4\n", "run.sh").commands
    assert [remark.level for remark in found.remarks_on("0.33") if remark.rule == "unknown-flag"] == ["error"]


@pytest.mark.parametrize(
    ("container", "context"),
    [
        ("""command: [bash, -c, 'exec vllm serve "$@"', --], args: [m, --max-model-len, "8192"]""", 8192),
        ("""command: [bash, -c, 'exec vllm serve "$1" --max-model-len $2', x, m, "8192"]""", 8192),
        ("""command: [bash, -c, 'vllm serve m "$@" --max-model-len 8192']""", 8192),
        ("""command: [bash, -c, 'shift; vllm serve m --max-model-len $1', x, "1", "2"]""", None),
        ("""command: [bash, -c, 'set -- 5; vllm serve m --max-model-len $1', x, "1"]""", 5),
        ("""command: [bash, -c, 'f() { vllm serve m --max-model-len $1; }; f 2', x, "1"]""", None),
    ],
)
def test_what_a_shell_is_started_with(container: str, context: int | None):
    found = read(POD.format(container))
    assert [command.layer["context",].value for command in found.commands] == ([context] if context else [])
    assert not [remark for command in found.commands for remark in command.remarks]


@pytest.mark.parametrize(
    ("image", "told"),
    [
        ("vllm/vllm-openai:gptoss", True), ("vllm/vllm-openai:nightly-8f4a1b2", True), ("vllm/vllm-openai:nightly", True),
        ("vllm/vllm-openai@sha256:0a1b", True), ("vllm/vllm-openai:${TAG}", True), ("lmcache/vllm-openai:v0.3.9", True),
        ("vllm/vllm-openai:latest", False), ("vllm/vllm-openai", False), ("vllm/vllm-openai:v0.11.0@sha256:0a1b", False),
    ],
)  # fmt: skip
def test_an_image_whose_version_nobody_knows(image: str, told: bool):
    found = remarks(POD.format("args: [--model, m]").replace("vllm/vllm-openai:v0.11.0", image))
    assert [level for level, text in found if "doesn't say which vLLM it holds" in text] == (["warn"] if told else [])


@pytest.mark.parametrize(
    ("env", "length"),
    [
        ("env: [{name: LEN, value: '4096'}]", "4096"),
        ("env: [{name: OTHER, value: '4096'}]", "8192"),
        ("env: [{name: LEN, valueFrom: {secretKeyRef: {name: s, key: k}}}]", None),
        ("env: [{name: LEN, valueFrom: {configMapKeyRef: {name: not-here, key: k}}}]", None),
        ("env: [{name: LEN, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]", None),
        ("envFrom: [{configMapRef: {name: not-here}}]", None),
        ("envFrom: [{secretRef: {name: hf-token}}]", "8192"),
        ("envFrom: [{configMapRef: {name: not-here}}]\n    env: [{name: LEN, value: '4096'}]", "4096"),
    ],
)
def test_a_default_is_not_taken_for_a_variable_whose_value_stands_elsewhere(env: str, length: str | None) -> None:
    """bash: ${LEN:-8192} is LEN where that is set, and a Secret sets it."""
    text = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: c\n    image: vllm/vllm-openai:v0.20.0\n"
        f"    command: [sh, -c, 'vllm serve m --max-model-len ${{LEN:-8192}}']\n    {env}\n"
    )
    found = parse(text, "pod.yaml", WorkingTree())
    if length is None:
        assert not found.commands
        assert "--max-model-len" in str(found.unread)
    else:
        assert str(found.commands[0].layer["context",].value) == length
