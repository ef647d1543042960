"""What an answer says beside its numbers, and what it must not say."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from cli.running import run, run_json

from kvplan.units import GIB, format_bytes

FIVE_LINES = "kvplan: 1\nname: m1\nlayers: 32\nkv_heads: 8\nhead_dim: 128\n"


def warned(*words: str) -> str:
    return " ".join(run_json("fit", *words)["warnings"])


def test_a_step_of_more_sequences_than_fit():
    fits = run_json("fit", "llama-3-8b", "--gpu", "h100", "--ctx", "8k")["reserved"]["max_sequences"]
    asked = ("llama-3-8b", "--gpu", "h100", "--ctx", "8k", "--batch")
    assert f"5,000 sequences, of which {fits:,} are admitted" in warned(*asked, "5000")
    assert "admitted" not in warned(*asked, str(fits))


def test_drafting_is_not_timed():
    words = ("deepseek-v3", "--gpu", "h200x8", "--ctx", "8k", "--batch", "64")
    assert "isn't timed" in warned(*words, "--speculative-tokens", "3")
    assert "isn't timed" not in warned(*words)


@pytest.mark.parametrize(
    ("gpu", "sizes", "said"),
    [
        ("h100", ("--tp", "16"), True),  # NVLink joins 8
        ("h100", ("--tp", "8", "--pp", "2"), False),
        ("gb200", ("--tp", "16"), False),  # 72
    ],
)
def test_tensor_ranks_beyond_the_link_are_said_to_take_longer(gpu, sizes, said):
    assert ("counted as if the link did" in warned("llama-3.1-405b", "--gpu", gpu, *sizes, "--ctx", "8k")) == said


def test_weights_that_nobody_knows_are_not_counted(tmp_path: Path):
    (tmp_path / "m1.yaml").write_text(FIVE_LINES)
    words = ("fit", str(tmp_path / "m1.yaml"), "--gpu", "h100", "--ctx", "8k", "--kv-memory", "20GiB")
    page = run(*words).out
    assert "not counted" in page
    assert "weights 0 B" not in page
    assert run_json(*words)["per_gpu"]["weights_bytes"] is None


def test_numbers_too_large_say_how_large_they_may_be():
    said = run("fit", "llama-3-8b", "--gpu", "h100", "--concurrency", "100000000000").err
    assert "--concurrency: 100000000000 is not a whole number from 1 to 2,147,483,647" in said
    assert run("fit", "llama-3-8b", "--gpu", "h100", "--tp", "9" * 5000).code == 2


def test_no_adapters_have_no_rank():
    said = run("fit", "llama-3-8b", "--gpu", "h100", "--max-loras", "0", "--max-lora-rank", "32").err
    assert "max_loras: 0 adapters" in said


@pytest.mark.parametrize(
    "name", ["llama-3-70b", "qwen2.5-0.5b", "mamba-2.8b", "deepseek-v3", "gemma-3-27b", "qwen3-next-80b-a3b"]
)
def test_the_rule_of_thumb_is_about_gqa(name: str):
    assert run_json("size", name, "--ctx", "8k")["rule_of_thumb"] is None
    assert "Rule of thumb" not in run("size", name, "--ctx", "8k").out


def test_a_gpu_that_nobody_named_is_said():
    words = ("size", "gemma-3-27b", "--ctx", "128k", "--engine", "vllm")
    assert "H100" in run_json(*words)["assumed"]["gpu"]
    assert "Assumed: gpu of the H100's class" in run(*words).out
    assert run_json(*words, "--gpu", "l4")["assumed"] == {}
    assert run_json(*words[:4])["assumed"] == {}


def test_the_columns_of_a_table_are_the_same_whatever_the_answer():
    def header(*words: str) -> str:
        return run("fit", *words, "--ctx", "8k", "--format", "csv").out.splitlines()[0]

    fits = header("llama-3-8b", "--gpu", "h100")
    assert "reserved.blocks" in fits
    assert "decode.step_s_likely" in fits
    assert header("llama-3-70b", "--gpu", "h100") == fits
    assert header("llama-3-8b", "--gpu", "h100", "--engine", "ideal") == fits


def test_env_tells_of_settings_that_are_broken(tmp_path: Path):
    (tmp_path / "kvplan.toml").write_text("tp = [")
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        told, refused = run("env"), run("gpus")
    finally:
        os.chdir(before)
    assert told.code == 0
    assert "kvplan.toml is not TOML" in " ".join(told.out.split())
    assert refused.code == 2


def test_terms_of_a_plan_are_made_of_numbers():
    page = " ".join(run("fit", "llama-3-8b", "--gpu", "h100", "--ctx", "8k", "--batch", "8", "--explain").out.split())
    assert "1 x 322 MiB libraries, larger + 32 x 9.4 MiB graphs, second runner" in page
    assert "300 us a step + 32 layers x 55 us" in page
    assert "8 sequences x " in page


def test_a_no_of_the_safe_end_says_what_the_likely_one_says():
    """At the smallest share that the likely end starts with, the safe end doesn't, and its page says so."""
    asked = ("llama-3-8b", "--gpu", "rtx-4090", "--ctx", "8k")
    share = next(
        each
        for each in (f"0.{number}" for number in range(70, 99))
        if run("fit", *asked, "--utilization", each, "--likely").code == 0
    )
    assert run("fit", *asked, "--utilization", share).code == 1
    assert "By the likely values it fits" in warned(*asked, "--utilization", share)
    assert "By the likely values" not in warned(*asked, "--utilization", share, "--likely")
    assert "By the likely values" not in warned(*asked, "--utilization", "0.3")


@pytest.mark.parametrize("engine", ["vllm", "ideal"])
@pytest.mark.parametrize(("name", "end"), [("gpt2", 1024), ("whisper-tiny", 448)])
def test_no_memory_helps_past_a_table_of_positions(name: str, end: int, engine: str):
    """max_position_embeddings of their configs: `wpe` and `embed_positions` have no row beyond it."""
    words = ("fit", name, "--gpu", "h100", "--engine", engine)
    result = run(*words, "--ctx", "8k", "--json")
    report = result.document
    assert (result.code, report["verdict"], report["reserved"], report["decode"]) == (1, "does_not_fit", None, None)
    assert f"a table of {end:,}" in report["reason"]
    assert (report["max_context"], report["engine_error"], report["short_by_bytes"]) == (end, None, 0)
    assert run(*words, "--ctx", str(end)).code == 0
    page = " ".join(run(*words, "--ctx", str(end + 1)).out.split())
    assert f"table of {end:,}" in page
    assert f"longest sequence {end:,} tokens; the model's own maximum is {end:,}" in page


def test_the_length_asked_for_is_no_finding():
    def longest(*words: str) -> str:
        page = " ".join(run("fit", *words, "--no-config").out.split())
        return page.partition("longest sequence ")[2]

    assert longest("llama-3-70b", "--gpu", "h100", "--tp", "8", "--ctx", "128k").startswith(
        "at least 131,072 tokens, the length planned for; the model's own maximum is 8,192"
    )
    assert longest("llama-3.1-8b", "--gpu", "h100", "--ctx", "8k").startswith(
        "at least 131,072 tokens, the model's own maximum "
    )
    refused = longest("llama-3.1-8b", "--gpu", "l4", "--ctx", "128k")
    assert "tokens (vLLM's estimated maximum model length); the model's own maximum is 131,072" in refused


def test_no_ranks_over_slices_are_advised_and_those_asked_for_are_warned_of():
    """An H100 has seven such slices at most, and NCCL refuses two ranks on one GPU (NVIDIA/nccl#1716)."""
    advised = [found["change"] for found in run_json("fit", "llama-3-8b", "--gpu", "h100:1g.10gb")["suggestions"]]
    assert advised
    assert not [change for change in advised if change.startswith(("--tp", "--pp"))]
    assert "NCCL_MULTI_RANK_GPU_ENABLE" in warned("llama-3-8b", "--gpu", "h100:1g.20gbx2", "--ctx", "8k")
    assert "NCCL" not in warned("llama-3.2-1b", "--gpu", "h100:1g.20gb", "--ctx", "8k")
    assert "NCCL" not in warned("llama-3-8b", "--gpu", "h100x2", "--ctx", "8k")


def test_a_length_that_no_model_states_is_said_to_be_assumed(tmp_path: Path):
    (tmp_path / "m1.yaml").write_text(FIVE_LINES)
    mine = str(tmp_path / "m1.yaml")
    for name in (mine, "mamba-2.8b"):
        assert "8,192 tokens: no maximum is stated" in run_json("size", name)["assumed"]["context"]
        assert "Assumed: context 8,192 tokens: no maximum is stated" in " ".join(run("size", name).out.split())
        assert "context" not in run_json("size", name, "--ctx", "8k")["assumed"]
        (row,) = run_json("compare", name)["rows"]
        assert (row["tokens"], "no maximum is stated" in " ".join(row["notes"])) == (8192, True)
    assert "Assumed" not in run("compare", mine, "--ctx", "8k").out


def test_a_model_without_a_maximum_shortens_no_other():
    rows = run_json("compare", "mamba-2.8b", "llama-3.1-8b")["rows"]
    assert [row["tokens"] for row in rows] == [131_072, 131_072]
    assert not [note for row in rows for note in row["notes"] if "maximum" in note]


def test_a_latent_is_stored_as_keys_are():
    """One row of 512 + 64 for both: 34 B for each 32 in q8_0, 61 layers."""
    (row,) = run_json("compare", "deepseek-v3", "--kv-dtype", "q8_0:q4_0")["rows"]
    assert row["bytes_per_token"] == 61 * (512 + 64) // 32 * 34
    assert row["kv_dtype"] == {"k": "q8_0", "v": "q8_0"}
    assert "nothing is q4_0" in " ".join(row["notes"])
    size = run_json("size", "deepseek-v3", "--kv-dtype", "q8_0:q4_0", "--ctx", "8k")
    assert (size["kv_dtype"]["v"], "nothing is q4_0" in size["assumed"]["kv_dtype"]) == ("q8_0", True)
    (heads,) = run_json("compare", "llama-3-8b", "--kv-dtype", "q8_0:q4_0")["rows"]
    assert (heads["kv_dtype"]["v"], heads["notes"]) == ("q4_0", [])


def test_a_command_to_paste_is_never_dropped(monkeypatch: pytest.MonkeyPatch):
    words = ("fit", "llama-3-8b", "--gpu", "h100", "--ctx", "8k", "--emit", "vllm")
    for named in ("csv", "table", "markdown,table"):
        refused = run(*words, "--format", named)
        assert (refused.code, refused.out) == (2, "")
        assert "leave --format out, or write --format json" in refused.err
    assert "vllm serve" in run(*words, "--format", "json").document["launch"]
    monkeypatch.setenv("KVPLAN_FORMAT", "csv")
    assert "vllm serve" in run(*words).out


WHISPER_LARGE = {
    "model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"], "d_model": 1280, "decoder_layers": 32,
    "decoder_attention_heads": 20, "decoder_ffn_dim": 5120, "encoder_layers": 32, "encoder_attention_heads": 20,
    "encoder_ffn_dim": 5120, "max_source_positions": 1500, "max_target_positions": 448, "num_mel_bins": 128,
    "vocab_size": 51866, "torch_dtype": "float16",
}  # fmt: skip


def test_what_cross_attention_reserves_has_a_name_and_a_remedy(tmp_path: Path):
    """vLLM's CrossAttentionSpec counts on max_num_encoder_input_tokens, which is max_num_batched_tokens: 8,192 on an H100.

    One token of one layer: 2 x 1,280 x 2 B; Whisper's encoder gives 1,500.
    """
    (tmp_path / "config.json").write_text(json.dumps(WHISPER_LARGE))
    words = ("fit", str(tmp_path), "--gpu", "l4", "--ctx", "448")
    report = run_json(*words, "--max-num-batched-tokens", "8192")
    gap = {reason["name"]: reason["bytes"] for reason in report["reserved"]["gap"]}
    assert gap["encoder tokens of a whole step"] == (8192 - 1500) * 32 * 2 * 1280 * 2
    assert "other layout than the formula's" not in gap
    advised = [change["change"] for change in run_json(*words)["suggestions"]]
    assert "--max-num-batched-tokens 1500" in advised
    told = run_json(*words, "--max-num-batched-tokens", "1500")
    assert "encoder tokens of a whole step" not in {reason["name"] for reason in told["reserved"]["gap"]}


def test_text_alone_is_advised_where_a_model_has_towers():
    """What is left out of Qwen3-VL-8B, 1.07 GiB of weights and a video's run, is more than the 0.9 GiB that are missing."""
    words = ("fit", "qwen3-vl-8b", "--gpu", "rtx-4090", "--ctx", "16k")
    advised = {each["change"]: each["effect"] for each in run_json(*words)["suggestions"]}
    assert advised["--language-model-only"] == "fits: 1 sequence of 16,384 tokens"
    alone = run_json(*words, "--language-model-only")
    assert alone["verdict"] == "fits"
    assert "--language-model-only" not in {each["change"] for each in alone["suggestions"]}
    assert "--language-model-only" not in {
        each["change"] for each in run_json("fit", "qwen3-8b", *words[2:])["suggestions"]
    }


@pytest.mark.parametrize("release", ["0.8.5", "0.9.0", "0.10.0", "0.11.0", "0.13.0", "0.33.0"])
def test_a_pool_that_admits_not_one_sequence_is_a_no(release: str):
    """Before 0.14 a window's layers could pass the check and have no room for a whole request."""
    words = (
        "fit",
        "gemma-3-27b",
        "--gpu",
        "h100",
        "--ctx",
        "128k",
        "--utilization",
        "0.8",
        "--engine",
        f"vllm@{release}",
    )
    found = run_json(*words)
    assert found["verdict"] == "does_not_fit"
    assert found["decode"] is None


def test_a_pool_without_room_for_one_request_says_what_happens():
    words = ("fit", "llama-4-scout", "--gpu", "h200", "--tp", "8", "--engine", "vllm@0.13.0", "--ctx", "10485760")
    found = run(*words, "--kv-memory", "88.38GiB")
    assert found.code == 1
    assert "a request of 10,485,760 tokens" in " ".join(found.out.split())
    assert "3,861,376 tokens would run" in " ".join(found.out.split())


def test_a_cache_given_by_hand_stands_beside_what_else_is_taken():
    """57 GiB fit an H100 of 79.19 GiB beside all that an 8B model and its overhead may take; 60 GiB may not."""
    words = ("fit", "llama-3.1-8b", "--gpu", "h100", "--ctx", "8k", "--kv-memory")
    most = run_json(*words, "57GiB")["per_gpu"]["high"]
    beside = most["weights_bytes"] + most["activation_bytes"] + most["runtime_bytes"]
    page = run(*words, "57GiB").out
    assert "- KV cache, as given       57.00 GiB" in page
    assert f"= left over                 {format_bytes(most['memory_bytes'] - beside - 57 * GIB)}" in page
    too_much = run(*words, "60GiB")
    assert too_much.code == 1
    assert f"beside up to {format_bytes(beside)}" in " ".join(too_much.out.split())
    suggested = re.search(r"--kv-memory (\d+MiB)", too_much.out)
    assert suggested is not None
    assert run(*words, suggested[1]).code == 0
    assert run(*words, "60GiB", "--likely").code == 0


def test_weights_given_by_hand_are_not_said_to_be_the_configs():
    page = run("fit", "llama-3.1-8b", "--gpu", "h100", "--ctx", "8k", "--weights", "16GB").out
    assert "weights in all  given; they would be 14.96 GiB (16,060,522,496 B) by the config (bf16)" in page


def test_what_each_replica_and_each_rank_prints_is_not_said_of_all():
    """2 x 90 sequences; 36,565 blocks of 16 on each of 8 ranks are 4,680,320 tokens."""
    replicas = run("fit", "mixtral-8x7b", "--gpu", "h100", "--tp", "2", "--dp", "2", "--ctx", "8k").out
    assert "; each of 2 replicas" in " ".join(replicas.split())
    ranks = run_json("fit", "deepseek-v3", "--gpu", "h200", "--tp", "8", "--dcp", "8", "--ctx", "8k")["reserved"]
    assert ranks["kv_tokens"] == ranks["blocks"] * ranks["block_tokens"] * 8
    said = run("fit", "deepseek-v3", "--gpu", "h200", "--tp", "8", "--dcp", "8", "--ctx", "8k").out
    assert f"{ranks['blocks']:,} blocks of 16 on each of 8 ranks" in " ".join(said.split())
