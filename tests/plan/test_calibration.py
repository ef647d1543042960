"""A step's likely time from what was measured on this machine: by hand, and receipts that are none."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from plan.standins import GPU, LLAMA_70B, dense, textbook

from kvplan import FitQuestion
from kvplan import fit as ask
from kvplan.arch.formats import FORMATS, KvFormat
from kvplan.arch.parallel import Parallel
from kvplan.arch.storage import Storage
from kvplan.cli import main
from kvplan.engines.base import Options
from kvplan.errors import BadFile, UsageError
from kvplan.plan.achieved import CLASSES
from kvplan.plan.calibration import SCHEMA, calibration
from kvplan.plan.roofline import Decode, decode
from kvplan.report.schema import schema_id

RECEIPT: dict[str, Any] = {
    "schema": SCHEMA, "verdict": "confirmed", "date": "2026-01-02T03:04:05+00:00",
    "machine": {"name": "NVIDIA Test 80", "gpu": "test-80", "driver": "570.86.15"},
    "built": {"layers": 40}, "kv_dtype": {"k": "bf16", "v": "bf16"},
    "measured": {
        "copy_bytes_per_s": 2.01e12, "kv_bytes_per_s": 1.8e12, "weight_bytes_per_s": 1.6e12, "overhead_s": 0.0004,
        "graphs": True,
    },
    "steps": [{"distinct_experts": None}],
}  # fmt: skip
"""A copy at 60 % of the stand-in's 3.35 TB/s; ten microseconds of launches a layer."""


def changed(path: str, value: object) -> dict[str, Any]:
    """The receipt with one value changed."""
    part, _, key = path.partition(".")
    return {**RECEIPT, part: {**RECEIPT[part], key: value} if key else value}


def step(receipt: dict[str, Any] | None, kv: KvFormat | None = None, **changes: Any) -> Decode:
    """A step of Llama-3-70B's 80 layers on one GPU, 2^30 parameters in 16 bit, ten sequences of 8,192 tokens."""
    given = {"model": replace(LLAMA_70B, weights=dense(80 * 2**24, 80)), "parallel": Parallel(), **changes}
    request = textbook(8192, options=Options(overhead=0), **given)
    if receipt is not None:
        request = replace(request, calibration=calibration(receipt, "r.json"))
    found = decode(request, kv or request.kv_format, 10)
    assert found is not None
    return found


BF16 = KvFormat(FORMATS["bf16"], FORMATS["bf16"])
WEIGHTS, CACHE = 2 * 80 * 2**24, 10 * 8192 * 4096 * 80


def test_measured_speeds_make_the_likely_time():
    found = step(RECEIPT)
    assert found.step_s_likely == pytest.approx(WEIGHTS / 1.6e12 + CACHE / 1.8e12 + 80 * 10e-6)
    assert found.step_s_likely != pytest.approx(step(None).step_s_likely, rel=0.01)


def test_the_lower_bound_stays_the_datasheets():
    for receipt in (RECEIPT, changed("measured.kv_bytes_per_s", 9e12)):
        assert step(receipt).step_s_low == step(None).step_s_low == pytest.approx((WEIGHTS + CACHE) / 3.35e12)
        assert step(receipt).step_s_likely >= step(None).step_s_low


def test_speeds_that_no_line_gave_are_the_tables_but_no_faster_than_the_copy():
    # The table's 0.72 and 0.87 of 3.35 TB/s are more than the copy's 2.01 TB/s.
    lineless = changed("measured", {"copy_bytes_per_s": 2.01e12, "overhead_s": 0.0, "graphs": True})
    assert step(lineless).step_s_likely == pytest.approx((WEIGHTS + CACHE) / 2.01e12)
    fast = changed("measured", {"copy_bytes_per_s": 3.2e12, "overhead_s": 0.0, "graphs": True})
    assert step(fast).step_s_likely == pytest.approx(WEIGHTS / (0.72 * 3.35e12) + CACHE / (0.87 * 3.35e12))


def test_weights_of_eight_bits_keep_the_tables_fraction():
    eight = replace(LLAMA_70B, weights=dense(80 * 2**24, 80).stored_as(Storage("fp8", 8)))
    found = step(RECEIPT, model=eight)
    assert found.weight_fraction == CLASSES["hopper"].weights8 == 0.55
    assert found.step_s_likely == pytest.approx(WEIGHTS / 2 / (0.55 * 3.35e12) + CACHE / 1.8e12 + 80 * 10e-6)


def test_launches_of_experts_are_counted_once():
    terms = calibration({**RECEIPT, "steps": [{"distinct_experts": 7.5}]}, "r.json").achieved(
        CLASSES["hopper"], 1, BF16
    )
    assert terms.expert_us == 0
    assert calibration(RECEIPT, "r.json").achieved(CLASSES["hopper"], 1, BF16).expert_us == CLASSES["hopper"].expert_us


LAUNCHES = (300 + 80 * 55) * 1e-6
"""The table's for Hopper: 300 us a step, 55 us for each of 80 layers."""


@pytest.mark.parametrize(
    "receipt",
    [changed("measured.overhead_s", None), changed("measured.graphs", False)],
    ids=["not counted", "no graph"],
)
def test_launches_that_nobody_counted_stay_the_tables(receipt: dict[str, Any]):
    """And so does the weights' speed, which is an intercept without them: 0.72 of the datasheet, but at most the copy."""
    found = step(receipt)
    assert found.step_s_likely == pytest.approx(WEIGHTS / 2.01e12 + CACHE / 1.8e12 + LAUNCHES)
    assert "nor launches" in found.achieved.source


def test_another_cache_format_keeps_the_tables_cache_term():
    """Half the bytes, read by another kernel: at the copy's speed, which is below the table's 0.87."""
    fp8 = KvFormat(FORMATS["fp8"], FORMATS["fp8"])
    found = step(RECEIPT, kv=fp8)
    assert found.step_s_likely == pytest.approx(WEIGHTS / 1.6e12 + CACHE / 2 / 2.01e12 + 80 * 10e-6)
    assert "its cache was in bf16, not in fp8" in found.achieved.source
    own = step({**RECEIPT, "kv_dtype": {"k": "fp8", "v": "fp8"}}, kv=fp8)
    assert own.step_s_likely == pytest.approx(WEIGHTS / 1.6e12 + CACHE / 2 / 1.8e12 + 80 * 10e-6)
    mixed = step({**RECEIPT, "kv_dtype": {"k": "fp8", "v": "bf16"}})
    assert "its cache was in fp8:bf16, not in bf16" in mixed.achieved.source


def test_the_source_names_the_receipt():
    source = step(RECEIPT).achieved.source
    assert "NVIDIA Test 80, driver 570.86.15, 2026-01-02T03:04:05+00:00" in source
    assert CLASSES["hopper"].source in source


def test_another_gpu_uses_nothing_of_it():
    other = replace(GPU, id="other-80", name="Other 80")
    assert step(RECEIPT, gpu=other).step_s_likely == step(None, gpu=other).step_s_likely
    with pytest.raises(UsageError, match="test-80, and the plan is for other-80"):
        calibration(RECEIPT, "r.json").check(other)


def test_a_gpu_without_a_record_is_known_by_its_drivers_name():
    unknown = calibration(changed("machine.gpu", None), "r.json")
    assert unknown.is_of(replace(GPU, driver_names=("nvidia test 80",)))
    assert not unknown.is_of(GPU)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("schema", "kvplan.fit/1", "kvplan.fit/1"),
        ("schema", 7, "names no schema"),
        ("verdict", "refuted", "refuted"),
        ("machine", None, "meta device"),
        ("machine", [], "machine.name"),
        ("machine.name", "two\nlines", "machine.name"),
        ("built", None, "built.layers"),
        ("built.layers", 0, "built.layers"),
        ("date", None, "date"),
        ("measured", {}, "timed no step"),
        ("measured.copy_bytes_per_s", None, "timed no step"),
        ("measured.copy_bytes_per_s", "fast", "copy_bytes_per_s"),
        ("measured.kv_bytes_per_s", True, "kv_bytes_per_s"),
        ("measured.weight_bytes_per_s", 10**30, "weight_bytes_per_s"),
        ("measured.overhead_s", -1, "overhead_s"),
        ("measured.graphs", None, "measured.graphs"),
        ("measured.graphs", 1, "measured.graphs"),
        ("kv_dtype", None, "kv_dtype.k"),
        ("kv_dtype.v", 8, "kv_dtype.v"),
    ],
)
def test_what_is_no_receipt(path: str, value: object, said: str):
    with pytest.raises(BadFile) as refused:
        calibration(changed(path, value), "r.json")
    assert "r.json" in refused.value.problem.what
    assert said in (refused.value.problem.cause or "")


def test_the_schema_is_the_documents():
    assert schema_id("verify") == SCHEMA


H200 = {**RECEIPT, "machine": {"name": "NVIDIA H200", "gpu": "h200-sxm", "driver": "570.86.15"}}


def test_fit_reads_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "receipt.json"
    path.write_text(json.dumps(H200))
    plain = ask("llama-3.1-8b", "h200", FitQuestion(context=8192, batch=16))
    found = ask("llama-3.1-8b", "h200", FitQuestion(context=8192, batch=16, calibration=str(path)))
    assert plain.decode is not None
    assert found.decode is not None
    assert found.decode.step_s_low == plain.decode.step_s_low
    assert found.decode.weight_read_s == plain.decode.weight_read_s
    # 16 x 8,192 x 128 KiB of cache and 8,030,261,248 parameters less 525,336,576 of the embedding, in 16 bit
    by_hand = 2 * 7_504_924_672 / 1.6e12 + 16 * 8192 * 131_072 / 1.8e12 + 32 * 10e-6
    assert found.decode.step_s_likely == pytest.approx(by_hand, rel=1e-3)
    assert main(["fit", "llama-3.1-8b", "--gpu", "h200", "--ctx", "8k", "--calibration", str(path), "--explain"]) == 0
    assert "570.86.15" in capsys.readouterr().out


@pytest.mark.parametrize("names", [["llama-3.1-8b"], []])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (json.dumps(H200), "the receipt is of h200-sxm, and the plan is for h100-sxm"),
        (json.dumps(H200)[:40], "is not JSON"),
        ("[1]", "not a JSON object"),
        ("", "is empty"),
        (None, "can't be read"),
    ],
)
def test_one_clear_refusal(
    names: list[str], content: str | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "receipt.json"
    if content is not None:
        path.write_text(content)
    assert main(["fit", *names, "--gpu", "h100", "--ctx", "8k", "--calibration", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("error:") == 1
    assert said in err
