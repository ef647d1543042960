"""The same shape under another attention, and what is kept of it."""

from __future__ import annotations

import pytest
from plan.standins import BF16, DEEPSEEK_V3, GQA, LLAMA_70B, MLA, WINDOW, model

from kvplan.arch.formats import KvFormat
from kvplan.arch.layers import Attention
from kvplan.errors import UnknownName, UsageError
from kvplan.plan.shapes import as_attention, attention_label, keep_recent, shown_kinds

KV = KvFormat(BF16, BF16)


@pytest.mark.parametrize(
    ("kind", "bytes_per_token"),
    [
        ("mha", 80 * 64 * 256 * 2),
        ("gqa", 327_680),
        ("mqa", 80 * 1 * 256 * 2),
        ("mla", 80 * 576 * 2),
    ],
)
def test_llama_70b_as(kind: str, bytes_per_token: int):
    assert as_attention(LLAMA_70B, kind).curve(KV).bytes_at(1) == bytes_per_token


def test_deepseek_v3_as_mha():
    # 61 layers x 128 heads x (K 128 + 64, V 128) x 2 B
    assert as_attention(DEEPSEEK_V3, "mha").curve(KV).bytes_at(1) == 4_997_120
    assert as_attention(DEEPSEEK_V3, "mla") == DEEPSEEK_V3


def test_a_model_without_groups_is_shown_with_the_usual_eight():
    mha = model(Attention(32, 32, 128, 128))
    assert as_attention(mha, "gqa").curve(KV).bytes_at(1) == 8 * 256 * 2
    odd = model(Attention(9, 9, 64, 64))
    assert as_attention(odd, "gqa").curve(KV).bytes_at(1) == 3 * 128 * 2  # 8 doesn't divide 9 heads


def test_a_models_attention_is_labelled_by_all_its_kinds():
    assert attention_label(LLAMA_70B) == "gqa"
    assert attention_label(DEEPSEEK_V3) == "mla"
    assert attention_label(model(GQA, Attention(64, 64, 128, 128), MLA)) == "gqa + mha + mla"
    assert shown_kinds(LLAMA_70B) == ("mha", "gqa", "mqa")
    assert shown_kinds(DEEPSEEK_V3) == ("mha", "gqa", "mqa", "mla")
    assert shown_kinds(model(Attention(None, 8, 128, 128))) == ()


def test_sinks_and_recent_tokens_end_the_growth():
    cut = keep_recent(LLAMA_70B, 1020, 4).curve(KV)
    assert cut.bytes_at(1024) == cut.bytes_at(1_000_000) == 1024 * 327_680
    assert cut.bytes_at(1023) == 1023 * 327_680


def test_a_shorter_window_of_its_own_stays():
    assert keep_recent(model(WINDOW), 4096, 4) == model(WINDOW)


def test_a_shape_that_a_model_cannot_take_is_refused():
    with pytest.raises(UsageError, match="latents"):
        keep_recent(DEEPSEEK_V3, 1020, 4)
    with pytest.raises(UnknownName):
        as_attention(LLAMA_70B, "mpa")
    with pytest.raises(UsageError, match="how many heads"):
        as_attention(model(Attention(None, 8, 128, 128)), "mha")
