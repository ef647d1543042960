"""Manifests, values, compose files and scripts: the serve commands in them, flag by flag with its line."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from kvplan import manifests
from kvplan.check.results.outputs import RULES
from kvplan.engines.vllm.tables.versions import NEWEST, text
from kvplan.errors import BadFile
from kvplan.manifests import Served
from kvplan.manifests.keys import DEVICES
from kvplan.manifests.tree import WorkingTree
from kvplan.report.findings import Finding
from kvplan.report.sarif import sarif
from kvplan.report.schema.check import At


def read(text: str, name: str = "f.yaml") -> Served:
    served = manifests.parse(dedent(text), name, WorkingTree())
    for remark in (remark for command in served.commands for remark in command.remarks):
        found = Finding(remark.rule, "warning", name, remark.text, At(name, remark.place.line), name)
        sarif([found], RULES, "0.1.0", str, complete=True)  # any remark can be drawn
    return served


def layers(served: Served) -> dict[str, dict[str, Any]]:
    """What each command says, and on which line; not of whose devices, which tests/check/test_devices.py looks at."""
    return {
        command.name: {
            ".".join(key): (placed.value, placed.place.line)
            for key, placed in command.layer.items()
            if key != (DEVICES,)
        }
        for command in served.commands
    }


def values(served: Served) -> dict[str, dict[str, Any]]:
    return {name: {key: value for key, (value, _) in layer.items()} for name, layer in layers(served).items()}


POD = """\
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: chat}
    spec:
      template:
        spec:
          nodeSelector:
            nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3
          containers:
            - name: vllm
              image: vllm/vllm-openai:v0.19.0
              args:
                - --model=meta-llama/Llama-3.1-70B-Instruct
                - --max-model-len
                - "32768"
                - --tensor-parallel-size=$(TP)
                - --kv-cache-dtype=fp8
              env:
                - {name: TP, value: "8"}
              resources:
                limits: {nvidia.com/gpu: "8"}
"""


def test_a_pods_command_is_read_with_its_lines():
    assert layers(read(POD)) == {
        "chat": {
            "engine": ("vllm@0.19.0", 10),
            "gpu": ("NVIDIA-H100-80GB-HBM3", 8),
            "model": ("meta-llama/Llama-3.1-70B-Instruct", 13),
            "context": (32768, 14),
            "parallel.tp": (8, 16),
            "kv_dtype": ("fp8", 17),
        }
    }


def test_too_few_gpus_for_tensor_parallelism():
    (command,) = read(POD.replace('"8"}\n', '"4"}\n').replace('value: "4"', 'value: "8"')).commands
    ((rule, level, line),) = [(remark.rule, remark.level, remark.place.line) for remark in command.remarks]
    assert (rule, level, line) == ("gpu-count", "error", 16)


def test_a_shell_in_a_container_and_a_config_map():
    found = read("""\
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: settings}
        data:
          LEN: "4096"
          vllm.yaml: |
            model: Qwen/Qwen3-32B
            max-model-len: 16K
            enforce-eager: true
        ---
        apiVersion: v1
        kind: Pod
        metadata: {name: two}
        spec:
          containers:
            - name: folded
              image: registry.example/ours:1
              command: [/bin/bash, -c]
              args:
                - >-
                  exec vllm serve Qwen/Qwen3-8B
                  --max-model-len $LEN
                  --gpu-memory-utilization=0.8 2>&1 |
                  tee /tmp/log
              envFrom: [{configMapRef: {name: settings}}]
            - name: literal
              image: registry.example/ours:1
              command:
                - sh
                - -ec
                - |
                  # start
                  vllm serve Qwen/Qwen3-8B \\
                    --max-num-seqs 8
            - name: configured
              image: vllm/vllm-openai@sha256:0123
              args: [--config, /etc/vllm/vllm.yaml]
              volumeMounts: [{name: v, mountPath: /etc/vllm}]
          volumes: [{name: v, configMap: {name: settings}}]
    """)
    assert not found.unread
    assert layers(found) == {
        "two/folded": {
            "model": ("Qwen/Qwen3-8B", 21), "context": (4096, 22), "flags.gpu_memory_utilization": ("0.8", 23),
        },
        "two/literal": {"model": ("Qwen/Qwen3-8B", 33), "flags.max_num_seqs": ("8", 34)},
        "two/configured": {
            "model": ("Qwen/Qwen3-32B", 7), "context": (16384, 8), "flags.enforce_eager": (True, 9),
        },
    }  # fmt: skip


def test_lists_affinity_mig_and_custom_resources():
    found = read("""\
        apiVersion: v1
        kind: List
        items:
          - apiVersion: leaderworkerset.x-k8s.io/v1
            kind: LeaderWorkerSet
            metadata: {name: lws}
            spec:
              leaderWorkerTemplate:
                leaderTemplate:
                  spec:
                    affinity:
                      nodeAffinity:
                        requiredDuringSchedulingIgnoredDuringExecution:
                          nodeSelectorTerms:
                            - matchExpressions:
                                - {key: nvidia.com/gpu.product, operator: In, values: [NVIDIA-H100-80GB-HBM3]}
                    containers:
                      - name: leader
                        image: vllm/vllm-openai:latest
                        command: [python3, -m, vllm.entrypoints.openai.api_server, --model, Qwen/Qwen3-8B]
                        resources: {limits: {nvidia.com/mig-3g.40gb: 1}}
    """)
    assert values(found) == {"lws": {"model": "Qwen/Qwen3-8B", "gpu": "NVIDIA-H100-80GB-HBM3:3g.40gb"}}


def test_what_can_not_be_read_is_listed():
    found = read("""\
        apiVersion: v1
        kind: Pod
        metadata: {name: p}
        spec:
          containers:
            - name: secret
              image: vllm/vllm-openai:v0.20.0
              args: [--model, $(MODEL)]
              env: [{name: MODEL, valueFrom: {secretKeyRef: {name: s, key: k}}}]
            - name: other
              image: lmsysorg/sglang:latest
              command: [python3, -m, sglang.launch_server, --model-path, x]
            - name: elsewhere
              image: vllm/vllm-openai:v0.20.0
              args: [--config, /mnt/x.yaml]
            - name: sidecar
              image: nginx
        ---
        apiVersion: serving.kserve.io/v1beta1
        kind: InferenceService
        metadata: {name: runtime}
        spec: {predictor: {model: {modelFormat: {name: huggingface}, args: [--model_name=x]}}}
    """)
    assert not found.commands
    assert [(unread.what, unread.place.line) for unread in found.unread] == [
        ("p/secret", 8), ("p/other", 10), ("p/elsewhere", 15), ("runtime", 19),
    ]  # fmt: skip
    reasons = " ".join(unread.why for unread in found.unread)
    for part in ("$(MODEL)", "SGLang", "/mnt/x.yaml is not here", "a runtime"):
        assert part in reasons


def test_a_compose_file_is_read_with_its_anchors_and_variables(folder: Path):
    (folder / ".env").write_text("LEN=16384\n")
    (folder / "vllm.yaml").write_text("model: Qwen/Qwen3-32B\nmax-model-len: 4096\n")
    found = read("""\
        x-vllm: &vllm
          image: vllm/vllm-openai:${TAG:-v0.20.1}
        services:
          text:
            <<: *vllm
            command: >
              --model Qwen/Qwen3-8B
              --max-model-len ${LEN}
              -tp 2
            deploy: {resources: {reservations: {devices: [{driver: nvidia, device_ids: ["0", "1"]}]}}}
          listed:
            image: vllm/vllm-openai:v0.20.1
            entrypoint: [vllm, serve]
            command: [Qwen/Qwen3-8B, --max-num-seqs, "4"]
          mounted:
            <<: *vllm
            command: ["--config", "/etc/vllm.yaml"]
            volumes: ["./vllm.yaml:/etc/vllm.yaml:ro"]
          hidden:
            <<: *vllm
            command: ["--model", "$MODEL"]
          proxy: {image: nginx, command: [nginx]}
    """)
    assert layers(found) == {
        "text": {
            "engine": ("vllm@0.20.1", 4), "model": ("Qwen/Qwen3-8B", 7), "context": (16384, 8), "parallel.tp": (2, 9),
        },
        "listed": {"engine": ("vllm@0.20.1", 11), "model": ("Qwen/Qwen3-8B", 14), "flags.max_num_seqs": ("4", 14)},
        "mounted": {"engine": ("vllm@0.20.1", 15), "model": ("Qwen/Qwen3-32B", 1), "context": (4096, 2)},
    }  # fmt: skip
    assert [unread.what for unread in found.unread] == ["hidden"]
    assert found.commands[2].layer["model",].place.file == "vllm.yaml"


def test_helm_values():
    found = read("""\
        servingEngineSpec:
          modelSpec:
            - name: llama
              repository: vllm/vllm-openai
              tag: v0.21.0
              modelURL: meta-llama/Llama-3.1-8B-Instruct
              vllmConfig:
                enablePrefixCaching: false
                maxModelLen: 16384
                extraArgs: ["--gpu-memory-utilization", "0.8"]
        replicaCount: 2
        nodeSelector: {nvidia.com/gpu.product: NVIDIA-L40S}
        chat:
          image: {repository: vllm/vllm-openai, tag: v0.33.0}
          resources: {limits: {nvidia.com/gpu: 1}}
          args:
            - --model
            - Qwen/Qwen3-8B
            - --max-model-len=auto
        model: {name: Qwen/Qwen3-4B}
        image: {repository: vllm/vllm-openai, tag: v0.30.1}
        extraArgs: [--max-num-seqs, "16"]
    """)
    assert not found.unread
    assert values(found) == {
        "values": {"engine": "vllm@0.30.1", "gpu": "NVIDIA-L40S", "model": "Qwen/Qwen3-4B", "flags.max_num_seqs": "16"},
        "llama": {
            "engine": "vllm@0.21.0", "gpu": "NVIDIA-L40S", "model": "meta-llama/Llama-3.1-8B-Instruct", "context": 16384,
            "flags.enable_prefix_caching": False, "flags.gpu_memory_utilization": "0.8",
        },
        "chat": {"engine": "vllm@0.33.0", "gpu": "NVIDIA-L40S", "model": "Qwen/Qwen3-8B", "context": -1},
    }  # fmt: skip


def test_values_without_a_model():
    found = read("image: vllm/vllm-openai:v0.20.0\nargs: [--max-model-len, '8192']\n")
    assert [unread.why for unread in found.unread] == [
        "its arguments name no model, and neither does anything beside them"
    ]


def test_a_script_is_read_with_its_variables_and_images(folder: Path):
    (folder / "serve.yaml").write_text("model: Qwen/Qwen3-32B\n")
    found = read(
        """\
        #!/bin/bash
        MODEL=Qwen/Qwen3-8B
        docker run --gpus all -e VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 -p 8000:8000 \\
          vllm/vllm-openai:v0.33.0 --model $MODEL \\
          --max-num-seqs 64
        CUDA_VISIBLE_DEVICES=0 vllm serve "$MODEL" --max-model-len 8192 &
        vllm serve --config serve.yaml
        ssh host "vllm serve other"
        vllm bench serve --model x
        """,
        "run.sh",
    )
    assert layers(found) == {
        "line 3": {
            "engine": ("vllm@0.33.0", 3), "model": ("Qwen/Qwen3-8B", 4), "flags.max_num_seqs": ("64", 5),
            "flags.allow_long_max_model_len": ("true", 3),
        },
        "line 6": {"model": ("Qwen/Qwen3-8B", 6), "context": (8192, 6)},
        "line 7": {"model": ("Qwen/Qwen3-32B", 1)},
        "line 8": {"model": ("other", 8)},
    }  # fmt: skip


def test_a_config_file_of_vllm_alone():
    assert values(read("model: Qwen/Qwen3-8B\nmax_model_len: 8k\n", "serve.yaml")) == {
        "serve": {"model": "Qwen/Qwen3-8B", "context": 8000}
    }


def test_a_chart_template_says_how_to_render_it():
    found = read("kind: Pod\n{{- if .Values.on }}\nspec: {}\n{{- end }}\n", "templates/pod.yaml")
    assert "helm template" in found.unread[0].why
    assert found.unread[0].place.line == 2
    chat = "data: {}\nkind: ConfigMap\napiVersion: v1\nchat.jinja: |\n  {{ bos_token }}\n  {% for m in messages %}{{ m }}{% endfor %}\n"
    assert read(chat) == Served()


def test_values_whose_arguments_stand_elsewhere():
    found = read("image: {repository: vllm/vllm-openai, tag: v0.19.1}\nmodel: {id: google/gemma-7b-it}\n")
    assert [unread.place.line for unread in found.unread] == [1]
    assert "helm template" in found.unread[0].why


def test_the_production_stacks_shortest_form_and_its_operator():
    assert values(
        read("""\
        servingEngineSpec:
          modelSpec:
            - {name: small, repository: vllm/vllm-openai, tag: latest, modelURL: Qwen/Qwen3-8B, requestGPU: 1}
    """)
    ) == {"small": {"model": "Qwen/Qwen3-8B"}}
    assert values(read("""\
        apiVersion: production-stack.vllm.ai/v1alpha1
        kind: VLLMRuntime
        metadata: {name: sample}
        spec:
          model: {modelURL: Qwen/Qwen3-8B, maxModelLen: 4096, maxNumSeqs: 32}
          vllmConfig: {tensorParallelSize: 1, gpuMemoryUtilization: "0.8", enablePrefixCaching: false}
    """)) == {
        "sample": {
            "model": "Qwen/Qwen3-8B", "context": 4096, "flags.max_num_seqs": "32", "parallel.tp": 1,
            "flags.gpu_memory_utilization": "0.8", "flags.enable_prefix_caching": False,
            "flags.enable_chunked_prefill": False,
        }
    }  # fmt: skip


@pytest.mark.parametrize("text", ["a: [", "a: &a [*a]\n", "a: b: c", "a: " + "[" * 200 + "]" * 200])
def test_broken_and_hostile_yaml(text: str):
    with pytest.raises(BadFile):
        read(text)


def test_aliases_can_not_multiply_a_file():
    bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
    for before, after in zip("abcdef", "bcdefg", strict=True):
        bomb += f"{after}: &{after} [{', '.join([f'*{before}'] * 10)}]\n"
    with pytest.raises(BadFile, match="too large"):
        read(bomb)


SURELY = [
    "docker run --gpus 1 --entrypoint vllm vllm/vllm-openai:v0.33.0 serve Qwen/Qwen3-8B -tp 2",
    "docker run --name vllm --gpus '\"device=0\"' vllm/vllm-openai:v0.33.0 Qwen/Qwen3-8B -tp 2",
    "kubectl run x --image=vllm/vllm-openai:v0.33.0 -- --model Qwen/Qwen3-8B -tp 2",
    "python3 -m vllm.entrypoints.cli.main serve Qwen/Qwen3-8B -tp 2",
    'ssh h "vllm serve Qwen/Qwen3-8B -tp 2"',
    "tmux new -d 'vllm serve Qwen/Qwen3-8B -tp 2'",
    "if true; then exec vllm serve Qwen/Qwen3-8B -tp 2; fi",
]


@pytest.mark.parametrize("line", SURELY)
def test_commands_in_other_commands(line: str):
    (command,) = read(line, "run.sh").commands
    assert (command.layer["model",].value, command.layer["parallel", "tp"].value) == ("Qwen/Qwen3-8B", 2)
    errors = [remark.rule for remark in command.remarks if remark.level == "error"]
    assert errors == (["gpu-count"] if "--gpus" in line else [])


def test_talk_about_commands_is_no_command():
    assert (
        read('echo usage: vllm serve MODEL\necho "usage: vllm serve MODEL"\npkill -f "vllm serve x"\n', "run.sh")
        == Served()
    )


def test_units_and_dockerfiles():
    unit = "[Service]\nEnvironment=A=b\nExecStart=/opt/bin/vllm serve Qwen/Qwen3-8B \\\n  --max-num-seqs 8\nRestart=always\n"
    assert layers(read(unit, "vllm.service")) == {
        "line 3": {"model": ("Qwen/Qwen3-8B", 3), "flags.max_num_seqs": ("8", 4)}
    }
    image = "FROM vllm/vllm-openai:v0.20.0\n"
    for source in (
        image + 'CMD ["--model", "Qwen/Qwen3-8B"]\n',
        image + 'ENTRYPOINT ["vllm", \\\n "serve"]\nCMD ["Qwen/Qwen3-8B"]\n',
        image + "RUN pip install x\nENTRYPOINT vllm serve Qwen/Qwen3-8B\n",
    ):
        assert values(read(source, "Dockerfile")) == {"Dockerfile": {"engine": "vllm@0.20.0", "model": "Qwen/Qwen3-8B"}}


HIDDEN = {
    "script": "kind: Pod\napiVersion: v1\nmetadata: {name: p}\nspec: {containers: [{name: v, image: 'vllm/vllm-openai:v1', "
    "command: [/bin/bash, /scripts/start.sh]}]}\n",
    "entry": "kind: Pod\napiVersion: v1\nmetadata: {name: p}\nspec: {containers: [{name: v, image: ours, "
    "command: [/entrypoint.sh], args: [--model=m, --max-model-len=8192]}]}\n",
    "argo": "kind: Application\napiVersion: argoproj.io/v1alpha1\nmetadata: {name: a}\nspec:\n  source:\n    helm:\n"
    "      values: |\n        image: vllm/vllm-openai\n        extraArgs: [--model, m]\n",
    "ray": "kind: RayService\napiVersion: ray.io/v1\nmetadata: {name: r}\nspec:\n  serveConfigV2: |\n    applications:\n"
    "      - import_path: ray.serve.llm:build_openai_app\n",
    "map": "kind: ConfigMap\napiVersion: v1\nmetadata: {name: c}\ndata:\n  start.sh: |\n    #!/bin/sh\n    vllm serve m\n",
}


@pytest.mark.parametrize("text", HIDDEN.values(), ids=HIDDEN)
def test_what_surely_serves_and_can_not_be_read_is_listed(text: str):
    found = read(text)
    assert not found.commands
    assert len(found.unread) == 1


def test_inline_values_of_argo():
    found = read("""\
        kind: Application
        apiVersion: argoproj.io/v1alpha1
        metadata: {name: a}
        spec: {source: {helm: {valuesObject: {image: vllm/vllm-openai, args: [--model, m, --max-num-seqs, "4"]}}}}
    """)
    ((_, layer),) = values(found).items()
    assert (layer["model"], layer["flags.max_num_seqs"]) == ("m", "4")


def test_names_keep_to_their_line():
    found = read('kind: Pod\napiVersion: v1\nmetadata: {name: "x\\n::error::y\\e[2J"}\nspec: {containers: '
                 "[{name: v, image: 'vllm/vllm-openai:v1', args: [--model, m]}]}\n")  # fmt: skip
    assert [command.name for command in found.commands] == ["x ::error::y?[2J"]


def test_flags_that_the_images_own_version_lacks_are_refused():
    pod = POD.replace("--kv-cache-dtype=fp8", "--swap-space=4").replace("v0.19.0", "v{}")
    for version, level in (("0.33.0", "error"), ("0.18.0", "error"), ("0.17.1", None)):
        (command,) = read(pod.replace("v{}", f"v{version}")).commands
        assert [remark.level for remark in command.remarks] == ([level] if level else [])
    young = POD.replace("--kv-cache-dtype=fp8", "--kv-cache-memory-bytes=4G")
    for version, level in (("0.10.1", "error"), ("0.10.2", None)):
        (command,) = read(young.replace("v0.19.0", f"v{version}")).commands
        assert [remark.level for remark in command.remarks if remark.rule == "unknown-flag"] == (
            [level] if level else []
        )
    typo = POD.replace("--kv-cache-dtype=fp8", "--max-num-sequences=4")
    for version, level in ((text(NEWEST), "error"), ("0.19.0", "error"), ("0.19.0rc1", "warn")):
        (command,) = read(typo.replace("v0.19.0", f"v{version}")).commands
        assert [(remark.rule, remark.level) for remark in command.remarks] == [("unknown-flag", level)]
