"""What an answer says beside its numbers, and what it must not say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cli.running import run, run_json

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


@pytest.mark.parametrize("name", ["mamba-2.8b", "deepseek-v3", "gemma-3-27b", "qwen3-next-80b-a3b"])
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
    assert header("llama-3-8b", "--gpu", "h100", "--emit", "vllm") == fits


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
    assert "1 x 322 MiB libraries, larger + 32 x 13.6 MiB graphs, second runner" in page
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
    assert "By what is likely it fits" in warned(*asked, "--utilization", share)
    assert "By what is likely" not in warned(*asked, "--utilization", share, "--likely")
    assert "By what is likely" not in warned(*asked, "--utilization", "0.3")
