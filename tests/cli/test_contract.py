"""The JSON that others build on: every key present, unknown null, bytes whole, and as the published schema says."""

from __future__ import annotations

import json

import jsonschema
import pytest
from cli.running import run, run_json

from kvplan.report.schema import DOCUMENTS

COMMON = {"id", "family", "source", "revision", "max_context", "parameters", "defaulted"}

SIZE = {"schema", "model", "kv_dtype", "parallel", "engine", "cache", "sequences"}
CACHE = {"attention", "bytes_per_token", "bytes_per_token_full", "fixed_bytes_per_sequence", "groups"}
GROUP = {"kind", "layers", "bytes_per_token", "cap_tokens", "stride", "fixed_bytes", "formula", "source"}
SEQUENCE = {"tokens", "bytes", "bytes_per_gpu", "engine_bytes", "engine_bytes_per_gpu"}

FIT = {
    "schema", "model", "kv_dtype", "parallel", "engine", "gpu", "verdict", "binding", "per_gpu", "ideal", "reserved",
    "context", "max_context", "decode", "suggestions", "explain",
}  # fmt: skip
MEMORY = {"memory_bytes", "usable_bytes", "weights_bytes", "activation_bytes", "runtime_bytes", "kv_bytes"}
IDEAL = {"kv_bytes", "kv_tokens", "max_sequences"}
RESERVED = {"kv_bytes", "blocks", "block_tokens", "kv_tokens", "max_concurrency", "max_sequences"}
DECODE = {
    "batch", "context", "weight_read_s", "kv_read_s", "compute_s", "communication_s", "step_s_low", "step_s_likely",
    "kv_share", "crossover_batch", "crossover_context", "tokens_per_s",
}  # fmt: skip
TREE = {"name", "value", "unit", "formula", "inputs", "source", "children"}

COMMANDS = {
    "size": ("size", "gemma-3-27b", "--ctx", "8k,32k"),
    "fit": ("fit", "llama-3-70b", "--gpu", "h100", "--tp", "8", "--ctx", "8k"),
    "fit_table": ("fit", "--gpu", "h100", "--ctx", "8k"),
    "compare": ("compare", "llama-3-8b", "deepseek-v3", "--kv-dtype", "bf16,fp8"),
    "models": ("models",),
    "gpus": ("gpus",),
    "engines": ("engines",),
    "env": ("env",),
}


def test_size_keys():
    report = run_json(*COMMANDS["size"])
    assert report.keys() >= SIZE
    assert report["schema"] == "kvplan.size/1"
    assert report["model"].keys() >= COMMON
    assert report["model"]["parameters"].keys() == {"total", "active", "exact"}
    assert report["kv_dtype"] == {"k": "bf16", "v": "bf16"}
    assert report["parallel"] == {"tp": 1, "pp": 1, "dp": 1, "ep": 1, "dcp": 1}
    assert report["engine"] == {"name": "ideal", "version": None}
    assert report["cache"].keys() >= CACHE
    assert all(group.keys() >= GROUP for group in report["cache"]["groups"])
    assert all(row.keys() >= SEQUENCE for row in report["sequences"])
    assert all(type(row[key]) is int for row in report["sequences"] for key in SEQUENCE)


def test_groups_alone_are_enough_to_work_it_out_again():
    report = run_json(*COMMANDS["size"])
    for row in report["sequences"]:
        again = sum(
            group["layers"]
            * (
                group["fixed_bytes"]
                + group["bytes_per_entry"]
                * (min(row["tokens"], group["cap_tokens"] or row["tokens"]) // group["stride"])
            )
            for group in report["cache"]["groups"]
        )
        assert again == row["bytes"]


@pytest.mark.parametrize("engine", ["ideal", "vllm"])
def test_fit_keys(engine: str):
    report = run_json(*COMMANDS["fit"], "--engine", engine)
    assert report.keys() >= FIT
    assert report["schema"] == "kvplan.fit/1"
    assert report["verdict"] == "fits"
    assert report["gpu"].keys() >= {"id", "count", "memory_bytes", "bandwidth_bytes_per_s", "sources"}
    for memory in (report["per_gpu"], report["per_gpu"]["low"], report["per_gpu"]["high"]):
        assert memory.keys() >= MEMORY
        assert all(type(memory[key]) is int for key in MEMORY)
    assert (
        report["per_gpu"]["low"]["kv_bytes"] <= report["per_gpu"]["kv_bytes"] <= report["per_gpu"]["high"]["kv_bytes"]
    )
    assert report["ideal"].keys() >= IDEAL
    assert report["decode"].keys() >= DECODE
    assert report["explain"].keys() == TREE
    if engine == "ideal":
        assert report["reserved"] is None
    else:
        assert report["reserved"].keys() >= RESERVED
        assert report["reserved"]["max_sequences"] <= report["ideal"]["max_sequences"]


def test_no_is_an_answer_too():
    result = run("fit", "llama-3-70b", "--gpu", "4090", "--ctx", "8k", "--json")
    assert result.code == 1
    assert result.err == ""
    report = result.document
    assert report.keys() >= FIT
    assert (report["verdict"], report["binding"]) == ("does_not_fit", "weights")
    assert report["decode"] is None
    assert report["reserved"] is None
    assert report["ideal"]["max_sequences"] == 0
    assert report["short_by_bytes"] > 0
    assert report["max_context"] == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_documents_are_as_their_schema_says(name: str):
    published = json.loads(run("schema", name).out)
    assert published["$id"] == f"kvplan.{name}/1"
    document = run_json(*COMMANDS[name])
    assert document["schema"] == f"kvplan.{name}/1"
    jsonschema.validate(document, published)


def test_the_table_holds_every_model_once():
    report = run_json(*COMMANDS["fit_table"])
    listed = [row["model"]["id"] for row in report["rows"]] + [row["id"] for row in report["skipped"]]
    assert sorted(listed) == sorted(model["id"] for model in run_json("models")["models"])


def test_the_api_gives_what_the_command_prints():
    import kvplan

    report = kvplan.size("llama-3-70b", contexts=[8192])
    assert json.loads(kvplan.to_json(report)) == run_json("size", "llama-3-70b", "--ctx", "8192")
    question = kvplan.FitQuestion(context=8192, parallel=kvplan.Parallel(tp=8))
    plan = kvplan.fit("llama-3-70b", "h100", question)
    assert json.loads(kvplan.to_json(plan)) == run_json(*COMMANDS["fit"])


@pytest.mark.parametrize("name", ["gpt-oss-20b", "deepseek-v4-flash", "qwen3-next-80b", "mamba2-2.7b"])
def test_a_model_s_page_ends_with_a_description_of_the_same_caches(name, tmp_path):
    page = run("models", name)
    assert page.code == 0
    description = tmp_path / "relative.yaml"
    description.write_text(page.out[page.out.index("kvplan: 1") :])
    assert run_json("models", name)["models"][0]["description"] == description.read_text()
    own, relative = (run_json("size", model, "--ctx", "1,5000") for model in (name, str(description)))
    assert relative["sequences"] == own["sequences"]


def test_experts_are_laid_over_the_gpus_that_were_asked_for():
    """`--gpu h200x8` alone is TP 8: so it is beside --ep, and TP 4 beside two replicas."""
    for flags, layout in ((("--ep", "8"), (8, 1, 8)), (("--dp", "2", "--ep", "8"), (4, 2, 8))):
        parallel = run_json("fit", "deepseek-v3", "--gpu", "h200x8", "--ctx", "8k", *flags)["parallel"]
        assert (parallel["tp"], parallel["dp"], parallel["ep"]) == layout


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_schema_describes_every_key(name):
    published = json.loads(run("schema", name).out)
    parts = {name: published, **published.get("$defs", {})}
    bare = [
        (part, key)
        for part, described in parts.items()
        for key, value in described.get("properties", {}).items()
        if "description" not in value
    ]
    assert not bare


def test_the_schema_lists_the_words_of_a_verdict():
    verdict = json.loads(run("schema", "verify").out)["$defs"]["Checked"]["properties"]["verdict"]
    assert verdict["enum"] == ["confirmed", "refuted", "reported", "not run"]


def test_a_limit_on_sequences_is_in_what_is_admitted():
    """The formula's own number stays: 64 are run, whatever there is room for."""
    words = ("fit", "llama-3-8b", "--gpu", "h100", "--engine", "ideal", "--ctx", "1k", "--max-num-seqs", "64")
    report = run_json(*words)
    assert (report["binding"], report["max_sequences"]) == ("max_num_seqs", 64)
    assert report["ideal"]["max_sequences"] > 64
    assert "Fits: 64 sequences of 1,024 tokens by the formula" in " ".join(run(*words).out.split())
