"""Every number of the textbook through the command line: cache size by attention kind, budget and batch, decode time.

GB is 10^9, GiB 2^30, KiB 2^10; bytes per token are the whole model's.
"""

from __future__ import annotations

import pytest
from cli.running import run, run_json

KIB, GIB, GB = 2**10, 2**30, 10**9


def cache(*words: str) -> dict:
    return run_json("size", *words)["cache"]


def at(model: str, tokens: int, *words: str) -> int:
    return run_json("size", model, "--ctx", str(tokens), *words)["sequences"][0]["bytes"]


# 1. cache size by attention kind


@pytest.mark.parametrize(
    ("model", "bytes_per_token"),
    [
        ("llama-3-8b", 32 * 8 * (128 + 128) * 2),
        ("llama-3.1-8b", 131_072),
        ("llama-3-70b", 80 * 8 * (128 + 128) * 2),
        ("llama-3.1-405b", 126 * 8 * (128 + 128) * 2),
        ("llama-2-13b", 40 * 40 * (128 + 128) * 2),
        ("gpt-3-175b", 96 * 96 * (128 + 128) * 2),
        ("deepseek-v3", 61 * (512 + 64) * 2),
    ],
)
def test_bytes_per_token(model: str, bytes_per_token: int):
    found = cache(model)
    assert found["bytes_per_token"] == found["bytes_per_token_full"] == bytes_per_token
    assert found["fixed_bytes_per_sequence"] == 0


def test_in_the_textbooks_own_words():
    assert cache("llama-3-8b")["bytes_per_token"] == 131_072 == 128 * KIB
    assert cache("llama-3-70b")["bytes_per_token"] == 327_680 == 320 * KIB
    assert cache("llama-3.1-405b")["bytes_per_token"] == 516_096
    assert cache("llama-2-13b")["bytes_per_token"] == 819_200 == 800 * KIB
    assert cache("gpt-3-175b")["bytes_per_token"] == 4_718_592 == 36 * 131_072
    assert cache("deepseek-v3")["bytes_per_token"] == 70_272


def test_a_sequence_is_as_large_as_published():
    assert at("llama-3-8b", 8192) == pytest.approx(1.0737 * GB, rel=1e-4)
    assert at("llama-3-8b", 131_072) == pytest.approx(17.18 * GB, rel=1e-3)
    assert at("llama-3-70b", 8192) == 2.5 * GIB
    assert at("llama-3-70b", 131_072) == 40 * GIB
    assert at("llama-2-13b", 4096) == 3.125 * GIB
    assert at("deepseek-v3", 131_072) == pytest.approx(8.6 * GIB, rel=5e-3)


def test_8k_means_8192():
    assert run_json("size", "llama-3-70b", "--ctx", "8k,128k")["sequences"] == [
        {
            "tokens": tokens,
            "bytes": size,
            "bytes_per_gpu": size,
            "engine_bytes": size,
            "engine_bytes_per_gpu": size,
            "slope_bytes": 327_680,
        }
        for tokens, size in ((8192, 5 * GIB // 2), (131_072, 40 * GIB))
    ]


def test_fp8_halves():
    assert cache("llama-3-8b", "--kv-dtype", "fp8")["bytes_per_token"] == 64 * KIB
    assert cache("llama-3-8b", "--kv-dtype", "int8")["bytes_per_token"] == 64 * KIB


def test_block_formats_carry_scales():
    # 34 B and 18 B for 32 elements, 8 KV heads x 32 layers x 128 elements of K and of V
    elements = 32 * 8 * 128
    assert cache("llama-3-8b", "--kv-dtype", "q8_0")["bytes_per_token"] == 2 * elements // 32 * 34
    assert cache("llama-3-8b", "--kv-dtype", "q4_0")["bytes_per_token"] == 2 * elements // 32 * 18
    assert cache("llama-3-8b", "--kv-dtype", "q8_0:q4_0")["bytes_per_token"] == elements // 32 * (34 + 18)


def test_the_same_shape_as_mha_and_mqa():
    shapes = {row["attention"]: row for row in run_json("size", "llama-3-70b", "--ctx", "128k")["same_shape"]}
    assert shapes["mha"]["bytes_per_token"] == 2.5 * 2**20
    assert shapes["mha"]["bytes"] == 320 * GIB
    assert shapes["gqa"]["bytes"] == 40 * GIB
    assert shapes["mqa"]["bytes_per_token"] == 40 * KIB
    assert shapes["mqa"]["bytes"] == 5 * GIB


def test_deepseek_against_others():
    rows = run_json("compare", "deepseek-v3", "llama-3-8b", "gpt-3-175b", "--ctx", "128k")["rows"]
    assert rows[1]["ratio"] == pytest.approx(1.865, abs=5e-4)
    assert rows[2]["bytes"] == 36 * rows[1]["bytes"]
    plain = run_json("compare", "deepseek-v3", "--attention", "mla,mha", "--ctx", "8k")["rows"]
    assert plain[1]["bytes_per_token"] == 61 * 128 * (128 + 64 + 128) * 2 == 4_997_120
    assert plain[1]["ratio"] == pytest.approx(71.1, abs=0.05)
    assert "4.77 MiB" in run("compare", "deepseek-v3", "--attention", "mha").out


def test_streaming_llm_stops_growing():
    words = ("llama-3-8b", "--window", "1020", "--sinks", "4", "--ctx", "1024,2048,131072")
    lengths = [row["bytes"] for row in run_json("size", *words)["sequences"]]
    assert lengths == [1024 * 131_072] * 3


def test_a_window_stops_growing():
    report = run_json("size", "mistral-7b-v0.1", "--ctx", "4096,8192,32768")
    assert [row["bytes"] for row in report["sequences"]] == [4096 * 131_072] * 3
    assert report["cache"]["bytes_per_token_full"] == 0
    assert report["cache"]["full_after"] == 4096


# 2. budget and batch

LLAMA_70B = (
    "fit", "llama-3-70b", "--gpu", "h100", "--tp", "8", "--gpu-memory", "80GB", "--utilization", "0.9",
    "--weights", "140GB", "--overhead", "0B", "--engine", "ideal",
)  # fmt: skip


def test_llama_70b_on_eight_gpus():
    report = run_json(*LLAMA_70B, "--ctx", "8k")
    assert report["gpu"]["count"] == 8
    assert report["per_gpu"]["usable_bytes"] * 8 == 576 * GB
    assert report["ideal"]["kv_bytes"] == report["per_gpu"]["kv_bytes"] * 8 == 436 * GB
    assert report["ideal"]["kv_bytes"] / GIB == pytest.approx(406, abs=0.1)
    assert report["ideal"]["max_sequences"] == 162
    assert run_json(*LLAMA_70B, "--ctx", "128k")["ideal"]["max_sequences"] == 10


def test_llama_8b_on_one():
    report = run_json(
        "fit", "llama-3-8b", "--gpu", "h100", "--gpu-memory", "80GB", "--utilization", "0.9", "--weights", "16.1GB",
        "--overhead", "0B", "--ctx", "8k", "--engine", "ideal",
    )  # fmt: skip
    assert report["ideal"]["max_sequences"] == 52


def test_the_default_is_what_the_driver_shows():
    seen = run_json("fit", "llama-3-8b", "--gpu", "h100", "--ctx", "8k")["per_gpu"]["memory_bytes"]
    assert seen == 81_089 * 2**20  # CUDA's total; nvidia-smi's 81,559 MiB before the driver's own share
    assert seen != 80 * GB


def test_tp_splits_heads_and_copies_them_when_it_must():
    whole, split, copied = (
        run_json("size", "llama-3-70b", "--ctx", "8k", "--tp", tp)["sequences"][0] for tp in ("1", "8", "16")
    )
    assert whole["bytes"] == split["bytes"] == copied["bytes"]
    assert split["bytes_per_gpu"] * 8 == split["engine_bytes"] == whole["bytes"]
    assert copied["bytes_per_gpu"] == split["bytes_per_gpu"]
    assert copied["engine_bytes"] == 2 * whole["bytes"]


def test_every_rank_keeps_a_whole_latent():
    row = run_json("size", "deepseek-v3", "--ctx", "8k", "--tp", "8")["sequences"][0]
    assert row["bytes_per_gpu"] == row["bytes"]
    assert row["engine_bytes"] == 8 * row["bytes"]


def test_the_rule_of_thumb_stands_beside_the_answer():
    assert "100-150 KiB/token" in run("size", "llama-3-8b").out
    assert "15 %" in run_json("size", "llama-3-8b")["rule_of_thumb"]


# 3. decode time


def test_a_step_takes_what_reading_weights_and_cache_takes():
    step = run_json(*LLAMA_70B, "--ctx", "8k")["decode"]
    assert step["batch"] == 162
    assert step["weight_read_s"] == pytest.approx(140 * GB / 26.8e12)
    assert step["weight_read_s"] == pytest.approx(5.2e-3, abs=5e-5)
    assert step["kv_read_s"] == pytest.approx(16e-3, abs=3e-4)
    assert step["step_s_low"] == pytest.approx(step["weight_read_s"] + step["kv_read_s"])


def test_fp8_halves_the_cache_read():
    plain, half = (
        run_json(*LLAMA_70B, "--ctx", "8k", "--batch", "162", "--kv-dtype", kv)["decode"] for kv in ("bf16", "fp8")
    )
    assert half["kv_read_s"] == pytest.approx(plain["kv_read_s"] / 2)
    assert half["weight_read_s"] == plain["weight_read_s"]


def test_twice_the_batch():
    one, two = (run_json(*LLAMA_70B, "--ctx", "8k", "--batch", batch)["decode"] for batch in ("80", "160"))
    assert two["weight_read_s"] == one["weight_read_s"]
    assert two["kv_read_s"] == pytest.approx(2 * one["kv_read_s"])


def test_the_cache_outweighs_the_weights_from_53_sequences():
    step = run_json(*LLAMA_70B, "--ctx", "8k")["decode"]
    assert step["crossover_batch"] == 53  # 140 GB / 2.684 GB = 52.15
    assert step["crossover_context"] == 2638  # 140 GB / 162 / 327,680 B = 2,637.3
    text = run(*LLAMA_70B, "--ctx", "8k", "--no-config").out
    assert "53 sequences" in text
    assert "2,638 tokens" in text


def test_experts_make_weights_read_depend_on_the_batch():
    words = ("fit", "deepseek-v3", "--gpu", "h200", "--tp", "8", "--ctx", "8k", "--engine", "ideal")
    one, many = (run_json(*words, "--batch", batch)["decode"] for batch in ("1", "64"))
    assert one["weight_read_s"] == one["weight_read_s_low"]
    assert many["weight_read_s"] > 5 * many["weight_read_s_low"]


def test_token_passes_without_a_cache():
    work = run_json("size", "llama-3-8b", "--ctx", "2000", "--prompt", "1000")["work"]
    assert work["token_passes_without_cache"] == 1_500_000
    assert work["token_passes_with_cache"] == 2000
    assert work["ratio"] == 750
    later = run_json("size", "llama-3-8b", "--ctx", "1500", "--prompt", "1000")["work"]
    assert later["per_new_token_without_cache"] == 1250
    assert "times fewer 750" in run("size", "llama-3-8b", "--ctx", "2000", "--prompt", "1000", "--explain").out
