"""Reading from the Hub, against a server on 127.0.0.1 that speaks its API."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hub_stand_in import COMMIT, HubStandIn

LLAMA = {
    "model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4,
    "hidden_size": 512, "vocab_size": 1000, "max_position_embeddings": 4096, "torch_dtype": "bfloat16",
}  # fmt: skip
CONFIG = json.dumps(LLAMA).encode()
SECRET = "hf_" + "verysecret" * 3

CLIENT = """
import json, sys, time
from kvplan.errors import KvplanError
from kvplan.sources.models import load_document
answers = []
for name, options in json.load(sys.stdin):
    start = time.monotonic()
    try:
        found = load_document(name, **options)
        answer = {"config": found.config, "companions": found.companions, "id": found.origin.id,
                  "source": found.origin.source, "revision": found.origin.revision, "notes": found.notes}
    except KvplanError as error:
        answer = {"error": type(error).__name__, "exit": error.exit_code, "what": error.problem.what,
                  "cause": error.problem.cause or "", "hint": error.problem.hint or ""}
    answers.append({**answer, "seconds": time.monotonic() - start})
json.dump(answers, sys.stdout)
"""

Answer = dict[str, Any]
Call = tuple[str, dict[str, object]]


def start(environment: dict[str, str], calls: Sequence[Call]) -> subprocess.Popen[str]:
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "HUGGING"))}
    process = subprocess.Popen(
        [sys.executable, "-c", CLIENT],
        env=inherited | environment,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write(json.dumps(calls))
    process.stdin.close()
    process.stdin = None
    return process


def answers(process: subprocess.Popen[str]) -> list[Answer]:
    out, err = process.communicate(timeout=90)
    assert process.returncode == 0, err
    assert err == "", "huggingface_hub must not print"
    assert SECRET not in out
    return json.loads(out)


def ask(environment: dict[str, str], *calls: str | Call) -> list[Answer]:
    return answers(start(environment, [call if isinstance(call, tuple) else (call, {}) for call in calls]))


@pytest.fixture
def hub() -> Iterator[HubStandIn]:
    with HubStandIn() as stand_in:
        yield stand_in


REFUSALS = {
    # trouble: error, words of the message, words of the hint
    "gated": ("Gated", "org/gated is gated", "https://huggingface.co/org/gated"),
    "private": ("NotFound", "has no model org/private", "HF_TOKEN"),
    "log-in-first": ("Gated", "wants a valid token", "HF_TOKEN"),
    "bad-token": ("Gated", "wants a valid token", "HF_TOKEN"),
    "forbidden": ("Gated", "doesn't let this account", "https://huggingface.co/org/forbidden"),
    "rate-limited": ("Unreachable", "too many requests", "wait 7 s"),
    "broken": ("Unreachable", "internal error", "try again"),
    "bad-gateway": ("Unreachable", "internal error", "try again"),
    "unavailable": ("Unreachable", "internal error", "try again"),
    "loop": ("Unreachable", "in circles", "HF_ENDPOINT"),
    "web-page": ("Unreachable", "not the Hub's", "HTTPS_PROXY"),
    "hangs-up": ("Unreachable", "the Hub", ""),
    "huge": ("BadFile", "too large", ""),
}
RETRIED_BY_SOME = {"rate-limited", "loop", "silent"}
"""huggingface_hub before 2 asks again by itself, until kvplan gives up."""

SLOW = {
    "silent": ("Unreachable", "didn't answer in time", "HF_HUB_ETAG_TIMEOUT"),
    "drip": ("Unreachable", "took longer than", "HF_HUB_DOWNLOAD_TIMEOUT"),
    "truncated": ("Unreachable", "the Hub", "try again"),
}


def test_every_trouble_is_one_clear_error(hub: HubStandIn, tmp_path: Path) -> None:
    for trouble in REFUSALS | SLOW:
        hub.add(f"org/{trouble}", {"config.json": CONFIG}, trouble)
    slow = [
        start(hub.environment(tmp_path / trouble, HF_TOKEN=SECRET, HF_HUB_ETAG_TIMEOUT="2"), [(f"org/{trouble}", {})])
        for trouble in SLOW
    ]
    fast = ask(hub.environment(tmp_path / "fast", HF_TOKEN=SECRET), *(f"org/{trouble}" for trouble in REFUSALS))
    every = fast + [answer for process in slow for answer in answers(process)]
    for (trouble, (error, what, hint)), answer in zip((REFUSALS | SLOW).items(), every, strict=True):
        assert answer["error"] == error, (trouble, answer)
        if "took longer" in answer["what"] and trouble in RETRIED_BY_SOME:
            continue
        assert what in answer["what"], (trouble, answer)
        assert hint in answer["hint"], (trouble, answer)
        assert answer["exit"] == (2 if error == "BadFile" else 3)
        assert answer["seconds"] < 25, (trouble, answer)


def test_a_repository_without_a_config_says_what_it_lacks(hub: HubStandIn, tmp_path: Path) -> None:
    hub.add("org/gguf", {"README.md": b"", "model-q4_0.gguf": b"", "model-q8_0.gguf": b""})
    hub.add("org/weights", {"model.safetensors": b"", "tokenizer.json": b""})
    hub.add("org/adapter", {"adapter_config.json": b"", "adapter_model.safetensors": b""})
    hub.add("org/good", {"config.json": CONFIG})
    calls = ("org/missing", "org/good@v9", "org/gguf", "org/weights", "org/adapter")
    missing, revision, gguf, weights, adapter = ask(hub.environment(tmp_path), *calls)
    assert (missing["error"], revision["error"]) == ("NotFound", "NotFound")
    assert "org/missing" in missing["what"]
    assert revision["what"] == "org/good has no revision v9"
    assert (gguf["error"], gguf["exit"]) == ("Unsupported", 2)
    assert "model-q4_0.gguf, model-q8_0.gguf" in gguf["cause"]
    assert (weights["error"], weights["exit"]) == ("BadFile", 2)
    assert "model.safetensors, tokenizer.json" in weights["cause"]
    assert "base model" in adapter["hint"]


def test_config_and_commit(hub: HubStandIn, tmp_path: Path) -> None:
    hub.add("org/good", {"config.json": CONFIG}, revisions={"main": COMMIT, "v2": "b" * 40})
    main, tag, commit, url = ask(
        hub.environment(tmp_path),
        "org/good",
        "org/good@v2",
        ("org/good", {"revision": "b" * 40}),
        "https://huggingface.co/org/good/blob/v2/config.json",
    )
    assert main["config"] == LLAMA
    assert (main["id"], main["revision"]) == ("org/good", COMMIT)
    assert main["source"] == f"https://huggingface.co/org/good/blob/{COMMIT}/config.json"
    assert tag["revision"] == commit["revision"] == url["revision"] == "b" * 40
    assert main["companions"] == {}


def test_redirects_are_followed_without_the_token(hub: HubStandIn, tmp_path: Path) -> None:
    hub.add("org/new", {"config.json": CONFIG})
    hub.add("org/old", {"config.json": CONFIG}, "renamed:org/new")
    hub.add("org/large", {"config.json": CONFIG}, "elsewhere")
    renamed, elsewhere = ask(hub.environment(tmp_path, HF_TOKEN=SECRET), "org/old", "org/large")
    assert renamed["config"] == elsewhere["config"] == LLAMA
    assert [request.authorized for request in hub.requests if request.path.startswith("/cdn/")] == [False]


def test_companions_only_where_the_config_is_silent(hub: HubStandIn, tmp_path: Path) -> None:
    companion = json.dumps({"quantization": {"quant_algo": "FP8"}}).encode()
    quantized = json.dumps(LLAMA | {"quantization_config": {"quant_method": "fp8"}}).encode()
    hub.add("org/modelopt", {"config.json": CONFIG, "hf_quant_config.json": companion})
    hub.add("org/gptq", {"config.json": CONFIG, "quantize_config.json": b'{"bits": 4}'})
    hub.add("org/fp8", {"config.json": quantized, "hf_quant_config.json": companion})
    modelopt, gptq, fp8 = ask(hub.environment(tmp_path), "org/modelopt", "org/gptq", "org/fp8")
    assert modelopt["companions"] == {"hf_quant_config.json": {"quantization": {"quant_algo": "FP8"}}}
    assert gptq["companions"] == {"quantize_config.json": {"bits": 4}}
    assert fp8["companions"] == {}


def test_second_time_costs_one_request(hub: HubStandIn, tmp_path: Path) -> None:
    hub.add("org/good", {"config.json": CONFIG})
    ask(hub.environment(tmp_path), "org/good")
    before = len(hub.requests)
    (again,) = ask(hub.environment(tmp_path), "org/good")
    assert again["config"] == LLAMA
    assert [request.method for request in hub.requests[before:]] == ["HEAD"]


def test_cached_copy_when_the_hub_is_down(hub: HubStandIn, tmp_path: Path) -> None:
    hub.add("org/good", {"config.json": CONFIG})
    environment = hub.environment(tmp_path)
    ask(environment, "org/good")
    hub.repos["org/good"].trouble = "unavailable"
    (stale,) = ask(environment, "org/good")
    assert stale["config"] == LLAMA
    assert stale["revision"] == COMMIT
    assert stale["notes"] == ["the cached copy of config.json was used: the Hub has an internal error"]
    hub.repos["org/good"].trouble = "private"
    (gone,) = ask(environment, "org/good")
    assert gone["error"] == "NotFound"


def test_offline_the_cache_answers_and_then_the_bundled_model(hub: HubStandIn, tmp_path: Path) -> None:
    hub.add("org/good", {"config.json": CONFIG})
    environment = hub.environment(tmp_path)
    ask(environment, "org/good")
    before = len(hub.requests)
    cached, missing, bundled = ask(
        environment,
        ("org/good", {"offline": True}),
        ("org/other", {"offline": True}),
        ("meta-llama/Meta-Llama-3-8B", {"offline": True}),
    )
    assert cached["config"] == LLAMA
    assert (missing["error"], missing["exit"]) == ("Offline", 3)
    assert "--offline" in missing["cause"]
    assert bundled["id"] == "llama-3-8b"
    assert bundled["notes"] == ["offline and not in the Hub cache: the bundled llama-3-8b was used"]
    (variable,) = ask(environment | {"HF_HUB_OFFLINE": "1"}, "org/other")
    assert "HF_HUB_OFFLINE" in variable["cause"]
    assert len(hub.requests) == before


def test_gated_model_that_comes_along_says_so(hub: HubStandIn, tmp_path: Path) -> None:
    hub.add("meta-llama/Llama-3.1-8B", {"config.json": CONFIG}, "gated")
    (gated,) = ask(hub.environment(tmp_path), "meta-llama/Llama-3.1-8B")
    assert gated["error"] == "Gated"
    assert "HF_TOKEN" in gated["hint"]
    assert "llama-3.1-8b" in gated["hint"]


def test_a_config_that_is_none_is_refused_by_what_it_is(hub: HubStandIn, tmp_path: Path) -> None:
    hub.add("org/html", {"config.json": b"<html>log in</html>"})
    hub.add("org/cut", {"config.json": CONFIG[:40]})
    hub.add("org/list", {"config.json": b"[]"})
    hub.add("org/empty", {"config.json": b""})
    html, cut, listed, empty = ask(hub.environment(tmp_path), "org/html", "org/cut", "org/list", "org/empty")
    assert html["error"] == "Unreachable"
    assert "web page" in html["what"]
    assert [cut["error"], listed["error"], empty["error"]] == ["BadFile"] * 3
    assert "line 1, column" in cut["cause"]
    assert "a list, not a JSON object" in listed["what"]
    assert "org/empty/config.json is empty" in empty["what"]


def test_mistral_params(hub: HubStandIn, tmp_path: Path) -> None:
    hub.add("org/mistral", {"params.json": b'{"dim": 4096, "n_layers": 32}', "consolidated.safetensors": b""})
    (found,) = ask(hub.environment(tmp_path), "org/mistral")
    assert found["config"] == {"dim": 4096, "n_layers": 32}
    assert found["source"].endswith("/params.json")


def test_no_network_and_proxies(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{unused.getsockname()[1]}"
        base = {"HF_HOME": str(tmp_path), "HF_TOKEN": SECRET, "HF_HUB_ETAG_TIMEOUT": "2"}
        environments = [
            base | {"HF_ENDPOINT": f"http://user:{SECRET}@{nobody}", "NO_PROXY": "127.0.0.1"},
            base
            | {"HF_ENDPOINT": "http://hub.invalid", "HTTP_PROXY": f"http://user:{SECRET}@{nobody}", "NO_PROXY": ""},
            base | {"HF_ENDPOINT": "not an address", "NO_PROXY": "*"},
            base | {"HF_ENDPOINT": "http://hub.invalid", "HTTP_PROXY": "gopher://x", "NO_PROXY": ""},
            base | {"HF_ENDPOINT": f"http://{nobody}", "HF_TOKEN": "hf_\u00e9" + SECRET, "NO_PROXY": "127.0.0.1"},
        ]
        processes = [start(environment, [("org/name", {})]) for environment in environments]
        found = [answer for process in processes for answer in answers(process)]
    assert {answer["exit"] for answer in found} == {3}
    assert found[0]["error"] == "Unreachable"
    assert nobody in found[0]["cause"]


def test_cache_that_cannot_be_written(hub: HubStandIn, tmp_path: Path) -> None:
    hub.add("org/good", {"config.json": CONFIG})
    (tmp_path / "file").touch()
    (answer,) = ask(hub.environment(tmp_path / "file" / "cache"), "org/good")
    assert answer["what"] == "the Hub cache can't be used"
    assert "HF_HUB_CACHE" in answer["hint"]


def test_no_code_is_fetched_or_run(hub: HubStandIn, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    config = json.dumps(LLAMA | {"auto_map": {"AutoConfig": "configuration_x.XConfig"}}).encode()
    code = f"import pathlib; pathlib.Path({str(marker)!r}).touch()".encode()
    hub.add("org/code", {"config.json": config, "configuration_x.py": code})
    (found,) = ask(hub.environment(tmp_path), "org/code")
    assert found["config"]["auto_map"]
    assert not marker.exists()
    assert not [request for request in hub.requests if request.path.endswith(".py")]
