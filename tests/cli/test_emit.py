"""What `kvplan fit --emit` prints, and what a plan says about flags that nobody gave."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from cli.running import run, run_json

from kvplan import api
from kvplan.engines.vllm.tables.versions import NEWEST, text
from kvplan.errors import UsageError
from kvplan.report.views import fit_table

FITS = ("fit", "llama-3-70b", "--gpu", "h100", "--tp", "8", "--no-config")


def test_the_serve_command():
    result = run(*FITS, "--emit", "vllm", "--ctx", "8k", "--kv-dtype", "fp8", "--max-num-seqs", "64")
    assert (result.code, result.err) == (0, "")
    assert result.out == (
        "vllm serve meta-llama/Meta-Llama-3-70B \\\n"
        "  --max-model-len 8192 \\\n"
        "  --tensor-parallel-size 8 \\\n"
        "  --gpu-memory-utilization 0.92 \\\n"
        "  --kv-cache-dtype fp8 \\\n"
        "  --max-num-batched-tokens 8192 \\\n"
        "  --max-num-seqs 64\n"
    )


def test_a_pod_goes_into_a_file(tmp_path):
    assert run(*FITS, "--emit", "k8s", "-o", str(tmp_path / "pod.yaml")).out == ""
    pod = yaml.safe_load((tmp_path / "pod.yaml").read_text())
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": 8}


def test_the_document_carries_it():
    assert run_json(*FITS, "--emit", "vllm")["launch"].startswith("vllm serve meta-llama/Meta-Llama-3-70B ")
    assert run_json(*FITS)["launch"] is None


def test_what_vllm_must_be_told_to_allow_is_said():
    first, second, *_ = run(*FITS, "--ctx", "16k", "--emit", "vllm").out.splitlines()
    assert first.startswith("# 16,384 tokens are more than the model's own maximum of 8,192: vLLM refuses")
    assert second.startswith("VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 vllm serve ")
    pod = yaml.safe_load(run(*FITS, "--ctx", "16k", "--emit", "k8s").out)
    assert pod["spec"]["containers"][0]["env"] == [{"name": "VLLM_ALLOW_LONG_MAX_MODEL_LEN", "value": "1"}]


def test_a_length_beyond_the_models_own_is_marked():
    words = ("fit", "llama-3-8b", "--gpu", "h100", "--ctx")
    assert run_json(*words, "8k")["exceeded"] is None
    assert run_json(*words, "16k")["exceeded"] == 8192
    assert "Beyond the model's own maximum of 8,192 tokens." in " ".join(run(*words, "16k", "--no-config").out.split())
    table = api.fit_all("h100", api.FitQuestion(context=16384), ["llama-3-8b", "llama-3.1-8b"])
    shown = str(fit_table.view(table))
    assert "16,384*" in shown
    assert shown.count("16,384*") == 1
    assert "* more than the model's own maximum" in shown


@pytest.mark.parametrize(("model", "own"), [("gpt2", 1024), ("opt-1.3b", 2048)])
def test_nothing_is_emitted_past_the_end_of_a_table_of_positions(model, own, tmp_path):
    if model == "opt-1.3b":
        config = {
            "model_type": "opt", "architectures": ["OPTForCausalLM"], "hidden_size": 2048, "ffn_dim": 8192,
            "num_hidden_layers": 24, "num_attention_heads": 32, "max_position_embeddings": 2048, "vocab_size": 50272,
            "word_embed_proj_dim": 2048, "do_layer_norm_before": True, "torch_dtype": "float16",
        }  # fmt: skip
        model = str(tmp_path / "config.json")
        Path(model).write_text(json.dumps(config))
    words = ("fit", model, "--gpu", "h100", "--ctx")
    said = run(*words, "8192", "--no-config")
    assert said.code == 1
    assert f"looked up in a table of {own:,}, and more would be read past its end" in " ".join(said.out.split())
    refused = run(*words, "8192", "--emit", "vllm", "--no-config")
    assert (refused.code, refused.out) == (1, "")
    assert f"--ctx {own}" in refused.err
    assert run(*words, str(own), "--emit", "vllm", "--no-config").code == 0


def test_what_does_not_fit_is_not_emitted():
    result = run("fit", "llama-3-70b", "--gpu", "h100", "--emit", "vllm", "--no-config")
    assert (result.code, result.out) == (1, "")
    assert "error: llama-3-70b does not fit" in result.err
    assert "cause: its weights take" in result.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("fit", "llama-3-8b", "--gpu", "h100", "--emit", "slurm"), "known: vllm, k8s"),
        (("fit", "llama-3-8b", "--gpu", "h100", "--emit", "vllm", "--engine", "ideal"), "--engine vllm"),
        (("fit", "--gpu", "h100", "--emit", "vllm"), "needs a MODEL"),
        (("fit", "llama-3-8b", "--gpu", "h100", "--dp", "16", "--emit", "k8s"), "a node has 8"),
    ],
)
def test_what_cannot_be_emitted(words, said):
    result = run(*words, "--no-config")
    assert (result.code, result.out) == (2, "")
    assert said in result.err


def test_a_local_checkpoint_is_served_from_its_folder(tmp_path):
    (tmp_path / "config.json").write_text(
        '{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "hidden_size": 256, '
        '"num_attention_heads": 4, "vocab_size": 1000, "intermediate_size": 512, "max_position_embeddings": 2048}'
    )
    for name in (tmp_path, tmp_path / "config.json"):
        out = run("fit", str(name), "--gpu", "l4", "--emit", "vllm", "--no-config").out
        assert f"vllm serve {tmp_path} " in out


def test_the_repository_that_was_named_is_served():
    question = api.FitQuestion(emit="vllm", called="Meta-Llama/meta-llama-3-70b-instruct", parallel=api.Parallel(tp=8))
    launch = api.fit("llama-3-70b", "h100", question).launch
    assert launch is not None
    assert launch.startswith("vllm serve meta-llama/Meta-Llama-3-70B-Instruct ")


def test_prefix_caching_is_left_to_the_engine_unless_somebody_says(monkeypatch):
    asked = []

    def fit(_model, _gpu, question):
        asked.append(question.options.prefix_caching)
        raise UsageError("seen enough")

    monkeypatch.setattr(api, "fit", fit)
    run(*FITS)
    run(*FITS, "--no-prefix-caching")
    run(*FITS, "--enable-prefix-caching")
    monkeypatch.setenv("KVPLAN_NO_PREFIX_CACHING", "1")
    run(*FITS, "--enable-prefix-caching")
    assert asked == [None, False, True, True]
    assert "can't be combined" in run(*FITS, "--enable-prefix-caching", "--no-prefix-caching").err


def test_prefix_caching_that_was_asked_for_is_told_to_the_server():
    words = ("fit", "qwen3.5-35b-a3b", "--gpu", "h100", "--tp", "2", "--ctx", "32k", "--engine", "vllm@0.17.1")
    assert " --enable-prefix-caching" in run(*words, "--enable-prefix-caching", "--emit", "vllm").out
    on, default = (run_json(*words, *more) for more in (("--enable-prefix-caching",), ()))
    assert on["reserved"]["max_concurrency"] < default["reserved"]["max_concurrency"]
    assert default["per_gpu"]["assumed"]["enable_prefix_caching"] == "false"


def test_recurrent_state_is_copied_for_prefixes_only_where_the_version_does():
    words = ("fit", "qwen3-next-80b-a3b", "--gpu", "h100", "--tp", "4", "--ctx", "32k")
    new, old = (run_json(*words, "--engine", f"vllm@{version}") for version in ("0.33.0", "0.19.0"))
    names = [[reason["name"] for reason in report["reserved"]["gap"]] for report in (new, old)]
    assert ["copies of recurrent state" in each for each in names] == [True, False]


def test_the_least_utilization_for_a_concurrency():
    report = run_json("fit", "llama-3-70b", "--gpu", "h100", "--tp", "4", "--concurrency", "40")
    share = report["utilization_needed"]
    again = ("fit", "llama-3-70b", "--gpu", "h100", "--tp", "4", "--utilization")
    assert run_json(*again, f"{share}")["reserved"]["max_sequences"] >= 40
    assert run_json(*again, f"{share - 0.002}")["reserved"]["max_sequences"] < 40
    assert "--utilization 0.8" in run(*again[:-1], "--concurrency", "40", "--no-config").out


def test_no_utilization_is_enough():
    report = run_json("fit", "llama-3-70b", "--gpu", "h100", "--tp", "4", "--concurrency", "400")
    assert report["utilization_needed"] is None
    assert "400 requests of 8,192 tokens need" in report["utilization_reason"]
    assert report["engine_error"] is None


def test_what_vllm_would_print_instead_of_starting():
    long = run_json("fit", "gemma-3-27b", "--gpu", "h100", "--ctx", "128k")
    assert long["engine_error"].startswith(
        "To serve at least one request with the model's max seq len (131072), (17.98 GiB"
    )
    assert f"estimated maximum model length is {long['max_context']}." in long["engine_error"]
    none = run_json("fit", "llama-3-70b", "--gpu", "h100", "--tp", "2")
    assert none["engine_error"].startswith("No available memory for the cache blocks")
    assert "out of memory" in run_json("fit", "llama-3-70b", "--gpu", "4090")["engine_error"]


def test_the_length_that_vllm_takes_itself():
    report = run_json("fit", "phi-4-mini", "--gpu", "l4")
    assert report["context"] == 4096
    assert report["per_gpu"]["assumed"]["max_model_len"] == "4096"
    assert any(
        "serves 4,096 tokens, not the model's own maximum of 131,072" in warning for warning in report["warnings"]
    )
    assert (
        run_json("fit", "phi-4-mini", "--gpu", "l4", "--engine", "ideal", "--kv-memory", "400GiB")["context"] == 131_072
    )
    assert "max_model_len" not in run_json("fit", "phi-4-mini", "--gpu", "l4", "--ctx", "8k")["per_gpu"]["assumed"]


def test_rules_of_another_version_are_marked():
    newest, later = text(NEWEST), text((NEWEST[0], NEWEST[1] + 7, 0))
    words = ("fit", "llama-3-8b", "--gpu", "h100", "--engine", f"vllm@{later}")
    report = run_json(*words)
    assert (report["verified"], report["engine"]["version"]) == (False, newest)
    assert (
        report["warnings"][0] == f"vLLM {later} is newer than the rules kvplan knows: planned as {newest}, unverified."
    )
    assert f"by vllm {newest} (unverified)" in run(*words, "--no-config").out
    assert run_json(*words[:-1], f"vllm@{newest}")["verified"] is True


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        (("gemma-3-27b", "--tp", "2", "--ctx", "128k"), {"window reserve for steps in flight", "rounding to whole blocks", "padding of layer groups"}),
        (("gpt-oss-120b", "--tp", "2", "--ctx", "32k"), {"window reserve for steps in flight", "rounding to whole blocks"}),
        (("qwen3-next-80b-a3b", "--tp", "4", "--ctx", "32k"), {"copies of recurrent state", "padding of pages", "rounding to whole blocks", "replication over tensor ranks"}),
        (("llama-3-70b", "--tp", "16"), {"replication over tensor ranks"}),
        (("deepseek-v3", "--tp", "16", "--ctx", "32k"), {"replication over tensor ranks"}),
    ],
)  # fmt: skip
def test_the_gap_is_named_and_adds_up(asked, names):
    tree = run_json("fit", *asked, "--gpu", "h100")["explain"]
    formula = next(node for node in tree["children"] if node["name"].startswith("one sequence on the fullest GPU"))
    engine = next(node for node in tree["children"] if node["name"] == "vllm reserves")["children"][0]
    assert names <= {child["name"] for node in (formula, engine) for child in node["children"]}
    assert engine["children"][0]["value"] == formula["value"]
    assert sum(child["value"] for child in engine["children"]) == engine["value"]
    assert all(child["formula"] for child in engine["children"])


def test_latents_are_copied_to_every_rank():
    """DeepSeek-V3 on 16 ranks: each holds all 61 x 1,152 B a token, 15/16 of which are others' too."""
    tree = run_json("fit", "deepseek-v3", "--gpu", "h100", "--tp", "16", "--ctx", "32k")["explain"]
    formula = next(node for node in tree["children"] if node["name"].startswith("one sequence on the fullest GPU"))
    copies = next(child for child in formula["children"] if child["name"] == "replication over tensor ranks")
    assert copies["value"] == 32_768 * 61 * 1_152 * 15 // 16
