"""The device check of readers, stores and states notices what it is there for. Plain torch plays the kernel."""

# ruff: noqa: E402 - nothing of this can be imported without torch

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="needs torch, the verify extra")

from verify.mutants import both, concerning

from kvplan.arch.layers import FP8_INDEX
from kvplan.verify.live.checks import kernels
from kvplan.verify.live.kernels import fused
from kvplan.verify.live.kernels.attend import by_spans
from kvplan.verify.live.rows import Layout
from kvplan.verify.parts import AttentionPart, DeltaPart, IndexerPart, LatentPart

pytestmark = pytest.mark.torch
CPU = torch.device("cpu")
PARTS = {
    "llama-3.1-8b": AttentionPart(32, 8, 128, 128),
    "llama-3-70b rank": AttentionPart(8, 1, 128, 128),
    "gpt-oss": AttentionPart(16, 2, 64, 64, sink_logits=True),
    "deepseek-v3 rank": LatentPart(16, 512, 64, 128, 128),
    "deepseek-v3.2 rank": LatentPart(16, 512, 64, 128, 128, indexer=IndexerPart(64, 128, FP8_INDEX), topk=2048),
}


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
@pytest.mark.parametrize("name", ["bf16", "fp8", "int8", "int8_per_token_head", "fp8_per_token_head"])
def test_every_fault_of_a_reader_is_noticed(part, name, count_cases):
    queries = tuple(kernels.questions(part, both(name), Layout(16 if name == "fp8" else None), CPU, torch.bfloat16))
    plain = [by_spans(query) for query in queries]
    right = kernels.compared("right", plain, lambda: [by_spans(query) for query in queries])
    assert (right.verdict, right.measured) == ("confirmed", 0.0)
    for fault, change in concerning(queries[0]).items():
        row = kernels.compared(fault, plain, lambda: [by_spans(change(query)) for query in queries])  # noqa: B023
        assert row.verdict == "refuted", (fault, row.measured)
        count_cases("faults of readers noticed", 1)


def test_numbers_made_up_have_both_signs_and_scales_of_their_own():
    query = next(kernels.questions(PARTS["llama-3.1-8b"], both("fp8_per_token_head"), Layout(), CPU, torch.bfloat16))
    numbers, scales = query.keys.elements.float(), query.keys.scales
    assert bool(torch.isfinite(numbers).all())
    assert 0.45 < float((numbers < 0).float().mean()) < 0.55
    assert float(numbers.abs().max()) == 448  # the most that e4m3 holds, as in rows that were scaled to it
    assert scales is not None
    plain = next(kernels.questions(PARTS["llama-3.1-8b"], both("fp8"), Layout(), CPU, torch.bfloat16))
    assert float(plain.keys.elements.float().abs().max()) == 1.875
    assert 2.0**-8 <= float(scales.min()) < float(scales.max()) <= 2.0**-6


class CompilationError(Exception):
    """As Triton's own."""


def broken(*_args: object, **_more: object) -> None:
    raise CompilationError("type fp8e4nv not supported in this architecture\nThe supported fp8 dtypes are ...")


def test_a_kernel_that_does_not_compile_is_a_row_and_left_out(monkeypatch):
    """Triton isn't even there on a CPU; on a GPU it may not know a dtype. Either way plain torch does the work."""
    import sys
    from types import SimpleNamespace

    fake = SimpleNamespace(store=broken, advance=broken, gated=broken)
    monkeypatch.setitem(sys.modules, "kvplan.verify.live.kernels.triton_fused", fake)
    fused.use_triton(on=True)
    try:
        for row in (
            kernels.stores(PARTS["llama-3.1-8b"], both("int8"), Layout(), CPU),
            kernels.advances(DeltaPart(2, 4, 16, 16, 4), CPU),
        ):
            assert row.verdict == "not run"
            assert row.rule == "CompilationError: type fp8e4nv not supported in this architecture"
        # The second time they aren't tried.
        again = kernels.stores(PARTS["llama-3.1-8b"], both("int8"), Layout(), CPU)
        assert (again.verdict, again.measured) == ("confirmed", 0.0)
    finally:
        fused.use_triton(on=False)


@pytest.mark.parametrize(
    ("name", "capability", "able"),
    [
        ("fp8", (7, 5), False), ("fp8", (8, 0), False), ("fp8", (8, 6), False), ("fp8", (8, 9), True), ("fp8", (9, 0), True),
        ("int8", (7, 5), True), ("bf16", (8, 0), True), ("fp8_e5m2", (9, 0), False), ("q8_0", (9, 0), False),
    ],
)  # fmt: skip
def test_what_the_kernel_stores(name, capability, able, monkeypatch):
    """Ada is the first that converts to e4m3; Triton 3.6 refuses it for 7.5, 8.0 and 8.6."""
    monkeypatch.setattr(fused, "_capability", lambda _: capability)
    query = next(kernels.questions(PARTS["llama-3.1-8b"], both(name), Layout(), CPU, torch.bfloat16))
    assert fused.kernel_stores(query.keys, query.values) is able
    if not able:
        row = kernels.stores(PARTS["llama-3.1-8b"], both(name), Layout(), CPU)
        assert row.verdict == "not run"
        assert "plain torch stores" in row.rule


def test_a_wrong_store_is_noticed(monkeypatch):
    """Written one slot too far, or half as large."""
    import sys
    from types import SimpleNamespace

    def shifted(projected, heads, turn, norms, keys, values, slot):
        with fused.plain():
            return fused.store(projected, heads, turn, norms, keys, values, slot - 1)

    def halved(projected, heads, turn, norms, keys, values, slot):
        with fused.plain():
            return fused.store(projected / 2, heads, turn, norms, keys, values, slot)

    fused.use_triton(on=True)
    try:
        for wrong in (shifted, halved):
            monkeypatch.setitem(sys.modules, "kvplan.verify.live.kernels.triton_fused", SimpleNamespace(store=wrong))
            for name in ("bf16", "fp8", "int8_per_token_head"):
                row = kernels.stores(PARTS["llama-3.1-8b"], both(name), Layout(16), CPU)
                assert row.verdict == "refuted", (wrong, name)
    finally:
        fused.use_triton(on=False)


def test_a_row_for_every_reader_and_none_compiled_out_of_time(monkeypatch):
    """On a CPU torch's own attention is the only reader besides the plain one, and a good one; on a GPU so are Triton's."""
    import math

    bf16, part = both("bf16"), PARTS["llama-3.1-8b"]
    found = list(kernels._readers(part, bf16, Layout(), CPU, math.inf, triton=False))
    assert [(row.what, row.verdict) for row in found] == [("GQA, full, torch sdpa against plain torch", "confirmed")]
    monkeypatch.setattr(kernels, "by_spans", lambda query: 2 * by_spans(query))
    assert [row.verdict for row in kernels._readers(part, bf16, Layout(), CPU, math.inf, triton=False)] == ["refuted"]
    late = list(kernels._readers(part, bf16, Layout(), CPU, 0.0, triton=False))
    assert [row.what for row in late] == [row.what for row in found]
    assert late[0].verdict == "not run"
    assert "--budget-s" in late[0].rule
