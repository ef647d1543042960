"""Whole runs on the command line: exit codes, levels, what is listed, what is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from check.checking import annotations, check, edited

BUDGET = """\
kvplan-budget: 1
defaults:
  engine: vllm@0.33
  gpu: h100
deployments:
  chat:
    model: llama-3-8b
    context: 8k
    limits:
      kv_per_token: 128KiB
      min_sequences: 32
"""


@pytest.fixture
def budget(folder: Path) -> Path:
    path = folder / "kvplan-budget.yaml"
    path.write_text(BUDGET)
    return path


def test_a_limit_below_what_is_planned_fails_and_is_named_with_its_line(budget: Path):
    assert check().code == 0
    edited(budget, lambda text: text.replace("kv_per_token: 128KiB", "kv_per_token: 127KiB"))
    ran = check()
    assert ran.code == 1
    assert "kvplan-budget.yaml:10  chat: cache per token: 128.0 KiB, above the limit of 127.0 KiB" in ran.out


def test_json_is_one_document_also_when_the_answer_is_no(budget: Path):
    edited(budget, lambda text: text.replace("32", "3200"))
    ran = check("--json")
    document = ran.document
    assert (ran.code, ran.err) == (1, "")
    assert (document["schema"], document["passed"]) == ("kvplan.check/1", False)
    (result,) = document["results"]
    assert result["subject"]["gpu"] == "h100-sxm"
    # 32 layers x (8 x 128 + 8 x 128) elements x 2 bytes
    assert result["numbers"]["kv_per_token"] == {"safe": 131072, "likely": 131072, "ideal": 131072}
    assert result["numbers"]["kv_per_sequence"]["ideal"] == 131072 * 8192
    row = result["checks"][-1]
    assert (row["rule"], row["status"], row["limit"], row["unit"]) == ("min-sequences", "fail", 3200, "sequences")
    assert row["shown"] == {"file": "kvplan-budget.yaml", "line": 11}


def test_levels_and_what_fails_on_them(budget: Path):
    edited(budget, lambda text: text.replace("32\n", "{min: 3200, level: warn}\n"))
    assert check().code == 0
    assert check("--fail-on", "error").code == 0
    assert check("--fail-on", "warn").code == 1
    assert check("--fail-on", "warn", "--exit-zero").code == 0
    assert check("--fail-on", "never").code == 2


def test_no_answer_is_2_and_no_outweighs_it(budget: Path):
    edited(budget, lambda text: text + "  other:\n    model: no-such-model\n    context: 8k\n")
    ran = check()
    assert ran.code == 2
    assert "other can't be planned: no model is called 'no-such-model'" in " ".join(ran.out.split())
    assert check("--exit-zero").code == 2
    edited(budget, lambda text: text.replace("128KiB", "1KiB"))
    assert check().code == 1
    assert check("--exit-zero").code == 2


def test_a_limit_on_sequences_that_are_never_served_has_no_answer(budget: Path):
    edited(budget, lambda text: text.replace("min_sequences: 32", "min_sequences: {min: 1, at: 16k}"))
    ran = check()
    assert ran.code == 2
    assert "sequences of 16,384 tokens, and the longest that is served has 8,192" in " ".join(ran.out.split())


def test_a_model_that_only_the_network_has_is_3(budget: Path, monkeypatch: pytest.MonkeyPatch, folder: Path):
    monkeypatch.setenv("HF_HUB_CACHE", str(folder / "cache"))
    edited(budget, lambda text: text.replace("llama-3-8b", "nobody/nothing"))
    assert check().code == 3


@pytest.mark.parametrize(
    "text",
    [
        "", "kvplan-budget: 1\n", "kvplan-budget: 1\ndeployments: {}\n", BUDGET.replace("context", "ctx"),
        BUDGET + "  chat: {}\n",
    ],
)  # fmt: skip
def test_a_broken_budget_is_2_in_every_output(budget: Path, folder: Path, text: str):
    budget.write_text(text)
    ran = check("--format", "github", "-o", "c.json", "-o", "c.sarif", "-o", "c.xml")
    assert (ran.code, ran.err) == (2, "")
    found = annotations(ran.out)
    assert {(command, file) for command, file, _, _ in found} == {("error", "kvplan-budget.yaml")}
    document = json.loads((folder / "c.json").read_text())
    assert document["passed"] is False
    assert [result["at"]["line"] for result in document["results"]] == [line for _, _, line, _ in found]
    assert len(json.loads((folder / "c.sarif").read_text())["runs"][0]["results"]) == len(found)
    assert "<error" in (folder / "c.xml").read_text()
    if "ctx" in text:
        assert [line for _, _, line, _ in found] == [8]


@pytest.mark.parametrize(
    ("key", "value"), [("gpu", "h1000"), ("kv_dtype", "fp7"), ("engine", "vlm"), ("parallel", "{tp: 3}"), ("model", "lama-3")]
)  # fmt: skip
def test_what_can_not_be_planned_stands_on_its_line(folder: Path, key: str, value: str):
    lines = {
        "model": "llama-3-8b",
        "gpu": "h100",
        "engine": "vllm",
        "kv_dtype": "auto",
        "parallel": "{tp: 1}",
        key: value,
    }
    text = "kvplan-budget: 1\ndeployments:\n  a:\n" + "".join(f"    {name}: {said}\n" for name, said in lines.items())
    (folder / "kvplan-budget.yaml").write_text(text)
    ran = check("--format", "github")
    assert ran.code == (1 if key == "parallel" else 2)  # 32 heads by 3 ranks: vLLM's own no
    assert [line for _, _, line, _ in annotations(ran.out)] == [4 + list(lines).index(key)]


@pytest.mark.parametrize(("before", "after"), [("32\n", "[]\n"), ("context: 8k", "matrix: {context: [8k, 8k]}")])
def test_what_would_check_nothing_is_refused(budget: Path, before: str, after: str):
    edited(budget, lambda text: text.replace(f"{before}", after))
    assert check().code == 2


def test_a_broken_file_hides_no_other(budget: Path, folder: Path):
    (folder / "b.yaml").write_text("kvplan-budget: 1\ndeployments:\n  web:\n    from: nowhere.yaml\n    gpu: h100\n")
    (folder / "pod.yaml").write_text(POD.replace("[llama-3-8b, --max-model-len=8192]", "[--config, bad.cfg]"))
    (folder / "run.sh").write_text("vllm serve --config bad.cfg\n")
    (folder / "bad.cfg").write_text("a: [")
    edited(budget, lambda text: text.replace("kv_per_token: 128KiB", "kv_per_token: 127KiB"))
    ran = check("kvplan-budget.yaml", "b.yaml", "run.sh", "pod.yaml", "--json")
    assert ran.code == 1
    assert [(result["status"], result["at"]["file"], result["at"]["line"]) for result in ran.document["results"]] == [
        ("fail", "kvplan-budget.yaml", 6), ("error", "b.yaml", 4),
    ]  # fmt: skip
    assert {entry["at"]["file"] for entry in ran.document["unread"]} == {"run.sh", "pod.yaml"}


def test_nothing_to_check_is_2(folder: Path):
    assert check().code == 2
    (folder / "service.yaml").write_text("apiVersion: v1\nkind: Service\nmetadata: {name: s}\n")
    ran = check("service.yaml", "--json")
    assert ran.code == 2
    assert ran.document["passed"] is False
    assert ran.document["unread"][0]["why"] == "it has no serve command of vLLM"
    (folder / "empty").mkdir()
    assert check("empty").code == 2
    assert check("nowhere.yaml").code == 2


POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
    - name: vllm
      image: vllm/vllm-openai:v0.33.0
      args: [llama-3-8b, --max-model-len=8192]
"""


def test_manifests_need_a_gpu_from_somewhere(folder: Path):
    (folder / "pod.yaml").write_text(POD)
    ran = check("pod.yaml")
    assert ran.code == 2
    assert "give --gpu" in ran.out
    assert check("pod.yaml", "--gpu", "h100").code == 0
    assert check(".", "--gpu", "h100").code == 0
    assert check("pod.yaml", "--gpu", "t4").code == 1


def test_the_manifest_knows_better_than_the_command_line(folder: Path):
    named = POD.replace("spec:\n", "spec:\n  nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}\n")
    (folder / "pod.yaml").write_text(named)
    document = check("pod.yaml", "--gpu", "t4", "--engine", "ideal", "--json").document
    subject = document["results"][0]["subject"]
    assert (subject["gpu"], subject["engine"], subject["version"]) == ("h100-sxm", "vllm", "0.33.0")


def test_unread_commands_are_listed_and_warn(folder: Path):
    (folder / "pod.yaml").write_text(POD)
    (folder / "other.sh").write_text('vllm serve "$MODEL"\n')
    ran = check("pod.yaml", "other.sh", "--gpu", "h100", "--json")
    assert ran.code == 0
    assert ran.document["unread"] == [
        {
            "what": "line 1",
            "why": "its model is $MODEL, which only the shell knows: a budget can say it (`from: other.sh`)",
            "at": {"file": "other.sh", "line": 1},
        }
    ]
    assert check("pod.yaml", "other.sh", "--gpu", "h100", "--fail-on", "warn").code == 1


def test_what_vllm_would_refuse_does_not_start(folder: Path):
    (folder / "pod.yaml").write_text(POD.replace("8192", "131072"))
    ran = check("pod.yaml", "--gpu", "h200")
    assert ran.code == 1
    assert "the model's own maximum is 8,192, and vLLM refuses more" in " ".join(ran.out.split())
    (folder / "pod.yaml").write_text(
        POD.replace("8192", "131072") + "      env: [{name: VLLM_ALLOW_LONG_MAX_MODEL_LEN, value: '1'}]\n"
    )
    assert check("pod.yaml", "--gpu", "h200").code == 0


def test_leave_to_serve_more_ends_where_a_table_of_positions_does(folder: Path):
    text = "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 vllm serve gpt2 --max-model-len 2048\n"
    (folder / "run.sh").write_text(text)
    ran = check("run.sh", "--gpu", "h200")
    assert ran.code == 1
    assert "looked up in a table of 1,024" in " ".join(ran.out.split())


@pytest.mark.parametrize("engine", ["vllm", "ideal"])
def test_a_table_of_positions_ends_for_every_engine(folder: Path, engine: str):
    plan = f"{{model: gpt2, gpu: h100, context: 8k, engine: {engine}}}"
    (folder / "b.yaml").write_text(f"kvplan-budget: 1\ndeployments:\n  a: {plan}\n")
    ran = check("b.yaml")
    assert ran.code == 1
    page = " ".join(ran.out.split())
    assert "looked up in a table of 1,024" in page
    assert "a sequence takes" not in page


@pytest.mark.parametrize(("model", "code"), [("llama-3-8b", 1), ("qwen3-30b-a3b", 0)])
def test_expert_parallelism_needs_experts(folder: Path, model: str, code: int):
    (folder / "run.sh").write_text(f"vllm serve {model} --max-model-len 4096 --enable-expert-parallel\n")
    ran = check("run.sh", "--gpu", "h200")
    assert ran.code == code
    assert ("has no experts" in " ".join(ran.out.split())) is (code == 1)


def test_a_length_that_vllm_chooses_starts_wherever_one_fits(folder: Path):
    (folder / "pod.yaml").write_text(POD.replace("8192", "auto").replace("llama-3-8b", "llama-3.1-8b"))
    document = check("pod.yaml", "--gpu", "l40s", "--json").document
    (result,) = document["results"]
    assert result["status"] == "pass"
    assert result["subject"]["context"] <= 131072
    fixed = POD.replace("8192", str(result["subject"]["context"])).replace("llama-3-8b", "llama-3.1-8b")
    (folder / "pod.yaml").write_text(fixed)
    assert check("pod.yaml", "--gpu", "l40s").code == 0


def test_a_budget_over_a_manifest(folder: Path):
    (folder / "deploy").mkdir()
    (folder / "deploy" / "pod.yaml").write_text(POD.replace("llama-3-8b", "/models/llama"))
    (folder / "kvplan-budget.yaml").write_text("""\
kvplan-budget: 1
models: {/models/llama: llama-3-8b}
deployments:
  web:
    from: deploy/pod.yaml#web
    gpu: h100
    limits: {min_sequences: 32}
""")
    document = check("--json").document
    subject = document["results"][0]["subject"]
    assert (subject["model"], subject["context"], subject["version"]) == ("llama-3-8b", 8192, "0.33.0")
    edited(folder / "kvplan-budget.yaml", lambda text: text.replace("#web", "#api"))
    ran = check()
    assert ran.code == 2
    assert "kvplan-budget.yaml:5" in ran.out
    assert "deploy/pod.yaml has no serve command called 'api'" in " ".join(ran.out.split())


def test_the_budgets_own_keys_win_over_the_manifest(folder: Path):
    (folder / "pod.yaml").write_text(POD)
    (folder / "kvplan-budget.yaml").write_text("""\
kvplan-budget: 1
defaults: {gpu: h100, context: 1k, engine: ideal}
deployments:
  given: {from: pod.yaml}
  own: {from: pod.yaml, context: 2k}
""")
    given, own = check("--json").document["results"]
    assert (given["subject"]["context"], given["subject"]["engine"]) == (8192, "vllm")
    assert own["subject"]["context"] == 2048


def test_several_outputs_in_one_run(budget: Path, folder: Path):
    ran = check(
        "--format", "table,github", "-o", "c.json", "-o", "c.sarif", "-o", "c.xml", "-o", "c.md", "-o", "markdown=summary"
    )  # fmt: skip
    assert ran.code == 0
    assert ran.out.startswith("1 deployment: 1 within budget")
    assert json.loads((folder / "c.json").read_text())["passed"] is True
    assert json.loads((folder / "c.sarif").read_text())["version"] == "2.1.0"
    assert (folder / "c.xml").read_text().startswith("<?xml")
    assert (folder / "c.md").read_text() == (folder / "summary").read_text()


@pytest.mark.parametrize(
    "words",
    [
        ("--format", "json,table"), ("--format", "sarif,junit"), ("--format", "csv"), ("-o", "what"),
        ("-o", "a.json", "-o", "./a.json"), ("--json", "--format", "table"), ("-o", "sarif="), ("--update", "--base", "x"),
    ],
)  # fmt: skip
def test_outputs_that_contradict_each_other(budget: Path, words: tuple[str, ...]):
    assert check(*words).code == 2


def test_files_are_written_all_or_none(budget: Path, folder: Path):
    (folder / "old.json").write_text("before")
    before = sorted(path.name for path in folder.iterdir())
    ran = check("-o", "old.json", "-o", "c.md", "-o", "nowhere/c.sarif")
    assert ran.code == 2
    assert "there is no folder" in ran.err
    assert (folder / "old.json").read_text() == "before"
    assert sorted(path.name for path in folder.iterdir()) == before


def test_a_written_file_keeps_its_mode_and_its_link(budget: Path, folder: Path):
    (folder / "real.json").write_text("x")
    (folder / "real.json").chmod(0o640)
    (folder / "link.json").symlink_to("real.json")
    assert check("-o", "link.json").code == 0
    assert (folder / "link.json").is_symlink()
    assert (folder / "real.json").stat().st_mode & 0o777 == 0o640
    assert json.loads((folder / "real.json").read_text())["passed"] is True


def test_what_is_no_file_is_written_to_and_stays(budget: Path, folder: Path):
    """A pipe, as a device would be; never a device itself."""
    import os
    import stat
    import threading

    os.mkfifo(folder / "pipe.json")
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append((folder / "pipe.json").read_text()))
    reader.start()
    assert check("-o", "pipe.json").code == 0
    reader.join(10)
    assert json.loads(got[0])["passed"] is True
    assert stat.S_ISFIFO((folder / "pipe.json").stat().st_mode)
    assert check("pipe.json").code == 2


def test_a_node_is_written_to_and_stays(budget: Path, folder: Path):
    import os
    import stat

    try:
        os.mknod(folder / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        (folder / "null").write_text("")
    except OSError:
        pytest.skip("needs leave to make a node")
    assert check("-o", "json=null").code == 0
    assert stat.S_ISCHR((folder / "null").stat().st_mode)


def test_a_dash_is_standard_output(budget: Path, folder: Path):
    ran = check("-o", "json=-")
    assert ran.document["passed"] is True
    assert not (folder / "-").exists()
    assert check("--json", "-o", "sarif=-").code == 2


def test_nothing_that_is_read_is_overwritten(folder: Path):
    (folder / "pod.yaml").write_text(POD)
    (folder / "kvplan-budget.yaml").write_text(
        "kvplan-budget: 1\ndeployments:\n  web: {from: pod.yaml, gpu: h100, context: 4k}\n"
    )
    assert check("--update").code == 0
    before = {path.name: path.read_text() for path in folder.iterdir()}
    for words in (
        ("-o", "json=kvplan-budget.yaml"), ("-o", "json=./pod.yaml"), ("-o", "kvplan-budget.lock.json"),
        ("--update", "--lock", "kvplan-budget.yaml"), ("pod.yaml", "--gpu", "h100", "--lock", "pod.yaml", "--update"),
    ):  # fmt: skip
        ran = check(*words)
        assert (ran.code, "would overwrite" in ran.err) == (2, True), words
    assert {path.name: path.read_text() for path in folder.iterdir()} == before
    assert check("--lock", "nowhere.json").code == 2


def test_files_that_may_have_nothing_in_them(folder: Path):
    (folder / "service.yaml").write_text("apiVersion: v1\nkind: Service\nmetadata: {name: s}\n")
    assert check("service.yaml", "--allow-nothing", "--fail-on", "warn").code == 0
    (folder / "pod.yaml").write_text(POD)
    assert check("service.yaml", "pod.yaml", "--allow-nothing", "--gpu", "h100").code == 0
    assert check("pod.yaml", "--allow-nothing").code == 2
    assert check("pod.yaml", "--allow-nothing", "--gpu", "t4").code == 1


def test_names_mean_nothing_in_tables_and_comments(folder: Path):
    name = '"x\\n::error::y @team [a](http://e.org) `b` ![c](d)"'
    (folder / "pod.yaml").write_text(POD.replace("name: web", f"name: {name}"))
    table = check("pod.yaml", "--gpu", "h100").out
    assert not any(line.startswith("::") for line in table.splitlines())
    comment = check("pod.yaml", "--gpu", "h100", "--format", "markdown").out
    assert "@team" not in comment
    assert r"\[a\](http\://e.org) \`b\` !\[c\](d)" in comment


def test_entries_of_one_lock_do_not_move(folder: Path):
    (folder / "a").mkdir()
    for name in ("a.yaml", "b.yaml"):
        (folder / "a" / name).write_text(BUDGET)
    (folder / "a" / "run.sh").write_text("vllm serve llama-3-8b --max-model-len 8192\n")
    words = ("a/b.yaml", "a/run.sh", "--gpu", "h100", "--lock", "all.json")
    assert check("a/a.yaml", *words, "--update").code == 0
    edited(folder / "a" / "run.sh", lambda text: "# a line\n\n" + text)
    ran = check(*words, "a/a.yaml", "--json")
    assert {result["change"] for result in ran.document["results"]} == {"same"}
    removed = check(*words, "--format", "github", "--fail-on", "warn")
    assert removed.code == 1
    assert [(command, file) for command, file, _, _ in annotations(removed.out)] == [("warning", "all.json")]


def test_manifests_on_standard_input(folder: Path, monkeypatch: pytest.MonkeyPatch):
    import io
    import sys

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(POD.encode())))
    assert check("-", "--gpu", "h100").code == 0


def test_the_document_is_as_its_published_schema_says(budget: Path, folder: Path):
    import jsonschema

    from kvplan.report.data import json_schema

    edited(budget, lambda text: text + "  other:\n    model: no-such-model\n  served: {from: pod.yaml}\n")
    (folder / "pod.yaml").write_text(POD + "    - {name: hidden, image: 'vllm/vllm-openai:v0.33.0', args: ['$(M)']}\n")
    edited(budget, lambda text: text.replace("from: pod.yaml", "from: 'pod.yaml#web/vllm'"))
    (folder / "kvplan-budget.lock.json").write_text('{"schema": "kvplan.lock/1", "deployments": {}}')
    document = check("--json").document
    assert jsonschema.Draft202012Validator(json.loads(json_schema("check"))).is_valid(document)
    assert {"schema", "passed", "results"} <= document.keys()
    document = check("pod.yaml", "--json").document
    assert jsonschema.Draft202012Validator(json.loads(json_schema("check"))).is_valid(document)
    assert document["unread"]


@pytest.mark.parametrize(
    ("text", "names", "counted"),
    [
        ("a: {model: llama-3-8b, limits: {min_sequences: x, max_gpus: -1}}", ["a", "a"], 1),
        (
            "a: {from: nothing.yaml}, b: {model: llama-3-8b, flags: {block_size: x}}, c: {model: llama-3-8b}",
            ["a", "b", "c"],
            3,
        ),
        ("a: {model: llama-3-8b, contxt: 1}, b: {model: 5}", ["a", "b"], 2),
    ],
)
def test_what_is_wrong_with_a_deployment_is_called_by_its_name(folder: Path, text: str, names: list[str], counted: int):
    (folder / "b.yaml").write_text(f"kvplan-budget: 1\ndefaults: {{gpu: h100}}\ndeployments: {{{text}}}\n")
    found = check("b.yaml", "--json").document
    assert sorted(result["name"] for result in found["results"]) == names
    assert found["summary"]["deployments"] == counted
    assert found["summary"]["unanswered"] == len(set(names) - {"c"})


def test_two_budgets_with_faults_of_one_name(folder: Path):
    for name in ("a", "b"):
        (folder / f"{name}.yaml").write_text("kvplan-budget: 1\ndeployments: {chat: {from: nothing.yaml}}\n")
    found = check("a.yaml", "b.yaml", "--json").document
    assert [result["name"] for result in found["results"]] == ["chat", "chat (b.yaml)"]


def test_a_file_that_is_named_twice_is_read_once(folder: Path):
    (folder / "d").mkdir()
    (folder / "d/run.sh").write_text("vllm serve llama-3-8b --max-model-len 8192\n")
    found = check("d/run.sh", "./d/run.sh", "d", "d/../d/run.sh", "--gpu", "h100", "--json").document
    assert found["summary"]["deployments"] == 1


NAMELESS = """\
apiVersion: v1
kind: Pod
metadata: {name: a}
spec: {containers: [{name: v, image: "vllm/vllm-openai:v0.10.0", args: ["--model", "./not-here"]}]}
"""


def test_names_of_what_cant_be_planned_are_told_apart_too(folder: Path):
    for name in ("one.yaml", "two.yaml"):
        (folder / name).write_text(f"{NAMELESS}---\n{NAMELESS}")
    names = [result["name"] for result in check("one.yaml", "two.yaml", "--json").document["results"]]
    assert names == ["a", "a (one.yaml)", "a (two.yaml)", "a (two.yaml, 2)"]
