"""Live caches hold exactly the bytes worked out by hand, and decoding through them equals recomputation."""

# ruff: noqa: E402 - nothing of this can be imported without torch

from __future__ import annotations

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="needs torch, the verify extra")

from kvplan.arch.formats import FORMATS, Format, KvFormat
from kvplan.arch.layers import FP8_INDEX
from kvplan.errors import Unsupported
from kvplan.verify.live.checks import recompute
from kvplan.verify.live.layers.decoder import mixer
from kvplan.verify.live.layers.mixer import Alone, Build, Caching
from kvplan.verify.live.ledger import Ledger, NoRoom, bytes_of
from kvplan.verify.live.rows import Layout
from kvplan.verify.parts import (
    AttentionPart,
    Blueprint,
    ConvPart,
    DeltaPart,
    DensePart,
    ExpertsPart,
    IndexerPart,
    Kept,
    LatentPart,
    LayerPlan,
    MambaPart,
    Mixer,
)

pytestmark = pytest.mark.torch
CPU = torch.device("cpu")
WIDE = Kept("fp32", "for this test")
CONTIGUOUS, PAGED = Layout(), Layout(16)

GQA = AttentionPart(heads=4, kv_heads=2, k_dim=16, v_dim=16)
SPARSE = LatentPart(2, 32, 16, 16, 16, q_rank=24, indexer=IndexerPart(8, 128, FP8_INDEX), topk=8)

# Of 3 sequences of 20 tokens.
BYTES: list[tuple[Mixer, str, Layout, dict[str, int]]] = [
    (GQA, "bf16", CONTIGUOUS, {"full": 3 * 20 * 2 * (16 + 16) * 2}),
    (GQA, "fp16", CONTIGUOUS, {"full": 7_680}),
    (GQA, "fp32", CONTIGUOUS, {"full": 15_360}),
    (GQA, "fp8", CONTIGUOUS, {"full": 3_840}),
    (GQA, "fp8_e5m2", CONTIGUOUS, {"full": 3_840}),
    (GQA, "int8", CONTIGUOUS, {"full": 3_840}),
    (GQA, "int8_per_token_head", CONTIGUOUS, {"full": 3 * 20 * 2 * 2 * (16 + 4)}),
    (GQA, "fp8_per_token_head", CONTIGUOUS, {"full": 4_800}),
    (GQA, "bf16", PAGED, {"full": 3 * 32 * 128}),  # 20 tokens are two pages of 16
    (GQA, "int8_per_token_head", PAGED, {"full": 3 * 32 * 80}),
    (AttentionPart(4, 4, 32, 32), "q8_0", CONTIGUOUS, {"full": 3 * 20 * 4 * 2 * 34}),  # 32 elements in 34 B
    (AttentionPart(4, 4, 32, 32), "mxfp8", CONTIGUOUS, {"full": 3 * 20 * 4 * 2 * 33}),
    (AttentionPart(4, 1, 16, 8), "bf16", CONTIGUOUS, {"full": 3 * 20 * (16 + 8) * 2}),  # MQA, values narrower
    (AttentionPart(4, 2, 16, 16, window=8), "bf16", CONTIGUOUS, {"sliding": 3 * 8 * 128}),
    (AttentionPart(4, 2, 16, 16, window=8), "bf16", PAGED, {"sliding": 3 * 16 * 128}),
    (AttentionPart(4, 2, 16, 16, window=8, sinks=4), "bf16", CONTIGUOUS, {"sliding": 3 * 12 * 128}),
    (AttentionPart(4, 2, 16, 16, chunk=16), "bf16", CONTIGUOUS, {"chunked": 3 * 16 * 128}),
    (AttentionPart(4, 2, 16, 16, window=64), "bf16", CONTIGUOUS, {"sliding": 7_680}),  # not full yet
    (LatentPart(2, 32, 16, 16, 16), "bf16", CONTIGUOUS, {"latent": 3 * 20 * 48 * 2}),
    (LatentPart(2, 32, 16, 16, 16), "fp8", CONTIGUOUS, {"latent": 2_880}),
    (LatentPart(2, 32, 16, 16, 16, window=8), "fp8", CONTIGUOUS, {"sliding latent": 3 * 8 * 48}),
    (SPARSE, "bf16", CONTIGUOUS, {"latent": 5_760, "indexer": 3 * 20 * (128 + 4)}),
    (SPARSE, "fp8", PAGED, {"latent": 3 * 32 * 48, "indexer": 3 * 32 * 132}),
    # three columns of 2 x 2 x 16 + 4 x 16 channels in bf16, and four heads of 16 x 16 in fp32
    (DeltaPart(2, 4, 16, 16, 4, WIDE), "fp8", CONTIGUOUS, {"gated delta net": 3 * (3 * 128 * 2 + 4 * 256 * 4)}),
    # three columns of 128 + 2 x 2 x 16 channels, and eight heads of 16 x 16, all in bf16
    (MambaPart(8, 16, 2, 16, 4), "fp8", CONTIGUOUS, {"mamba2": 3 * (3 * 192 * 2 + 8 * 256 * 2)}),
    (ConvPart(64, 3), "bf16", CONTIGUOUS, {"short convolution": 3 * 2 * 64 * 2}),
]  # fmt: skip


def build(hidden: int = 48, limit: int | None = None) -> Build:
    return Build(Ledger(CPU, limit), hidden, torch.bfloat16, Alone())


def both(name: str) -> KvFormat:
    return KvFormat(FORMATS[name], FORMATS[name])


@pytest.mark.parametrize(("part", "format_", "layout", "expected"), BYTES)
def test_bytes_of_live_caches(part, format_, layout, expected):
    made = mixer(part, build())
    made.allocate(Caching(3, 20, both(format_), layout))
    assert {kind: bytes_of(tensors) for kind, tensors in made.stored().items()} == expected
    made.release()
    assert made.stored() == {}


KINDS: tuple[Mixer, ...] = (
    AttentionPart(4, 4, 32, 32),
    AttentionPart(4, 2, 32, 32, norms=True, bias=True, gate=True),
    AttentionPart(4, 1, 32, 16, sink_logits=True, out_bias=True),
    AttentionPart(4, 2, 32, 32, v_from_k=True),
    AttentionPart(4, 2, 32, 32, window=4096),
    AttentionPart(4, 2, 32, 32, window=4096, sinks=4),
    AttentionPart(4, 2, 32, 32, chunk=8192),
    AttentionPart(4, 2, 32, 32, shares=0),
    AttentionPart(4, 2, 32, 32, window=512, shares=0),
    LatentPart(16, 512, 64, 128, 128),
    LatentPart(16, 512, 64, 128, 128, q_rank=1536),
    LatentPart(16, 512, 64, 128, 128, window=1024),
    LatentPart(16, 512, 64, 128, 128, q_rank=1536, indexer=IndexerPart(64, 128, FP8_INDEX), topk=2048),
    DeltaPart(16, 32, 128, 128, 4, WIDE),
    DeltaPart(8, 8, 64, 64, 3),
    MambaPart(64, 64, 8, 128, 4, norm=True, conv_bias=True, kept=WIDE),
    MambaPart(24, 64, 1, 128, 4),
    ConvPart(2048, 3),
)
CACHES = ("fp32", "bf16", "fp16", "fp8", "fp8_e5m2", "int8", "int8_per_token_head", "fp8_per_token_head", "q8_0")


@pytest.mark.parametrize("kind", KINDS, ids=lambda part: part.name)
def test_cached_decode_equals_recomputation(kind, count_cases):
    plan = Blueprint(48, 0, tied=False, dtype=FORMATS["bf16"], layers=(LayerPlan((kind,)),))
    for layout in (CONTIGUOUS, PAGED):
        for name in CACHES:
            rows = list(recompute.mixers(plan, both(name), layout, CPU))
            assert {row.verdict for row in rows} == {"confirmed"}, rows
            count_cases("kinds and cache formats recomputed", len(rows))


def test_a_wrong_slot_is_noticed(monkeypatch):
    """The check itself is worth something: a ring that is one slot too short is refuted."""
    from kvplan.verify.live.layers.attention import Attention

    monkeypatch.setattr(Attention, "slot", lambda self, position: position % (self.part.window - 1))
    plan = Blueprint(
        48, 0, tied=False, dtype=FORMATS["bf16"], layers=(LayerPlan((AttentionPart(4, 2, 32, 32, window=99),)),)
    )
    assert {row.verdict for row in recompute.mixers(plan, both("bf16"), CONTIGUOUS, CPU)} == {"refuted"}


def test_a_stack_of_everything():
    """Embedding, all kinds of layers, dense and expert feed-forwards, shared caches and a tied head, in one."""
    forwards = (
        DensePart(40), DensePart(40, gated=False, bias=True, out_bias=True), ExpertsPart(64, 8, 40, shared=40, shared_gate=True),
        ExpertsPart(8, 1, 40, gated=False), ExpertsPart(16, 4, 40, latent=24),
    )  # fmt: skip
    layers = tuple(LayerPlan((part,), (forwards[place % 5],), norms=2) for place, part in enumerate(KINDS))
    plan = Blueprint(48, 64, tied=True, dtype=FORMATS["bf16"], layers=layers, head=64)
    row = recompute.stack(plan, CONTIGUOUS, CPU)
    assert row.verdict == "confirmed", row


def test_what_no_dtype_can_hold_is_refused():
    with pytest.raises(Unsupported, match="nvfp4"):
        mixer(GQA, build()).allocate(Caching(1, 4, both("nvfp4"), CONTIGUOUS))


def test_the_ledger_refuses_before_it_allocates():
    made = mixer(GQA, build(limit=40_000))
    taken = made.ledger.taken()
    with pytest.raises(NoRoom) as refused:
        made.allocate(Caching(1000, 100, both("bf16"), CONTIGUOUS))
    assert refused.value.asked == 1000 * 100 * 2 * 16 * 2
    assert refused.value.room == 40_000 - taken
    assert made.ledger.taken() == taken


@pytest.mark.parametrize("name", ["fp8", "int8_per_token_head", "fp8_per_token_head", "q8_0", "mxfp8"])
def test_stored_values_are_near(name):
    """A round trip is off by no more than half a step: 1/16 of a value in fp8, 1/127 of the row's or block's largest."""
    from kvplan.verify.live.stored import stored

    how = stored(FORMATS[name], 64)
    rows = torch.randn((5, 3, 64), generator=torch.Generator().manual_seed(1))
    back = how.decode(*how.encode(rows), torch.float32)
    assert float((back - rows).abs().max()) <= float(rows.abs().max()) / 16
    assert how.encode(rows)[0].dtype.itemsize == 1


def test_formats_without_a_dtype():
    from kvplan.verify.live.stored import stored

    assert stored(FORMATS["q4_0"], 64) is None
    assert stored(FORMATS["turboquant_k8"], 64) is None  # eight bits, and no fp8
    assert stored(FORMATS["fp8_ds_mla"], 576) is None
    kept = stored(FORMATS["fp8_e5m2"], 64)
    assert kept is not None
    assert (kept.dtype, kept.largest) == (torch.float8_e5m2, 57_344.0)
    assert stored(FORMATS["mxfp8"], 48) is None  # 32 doesn't divide 48
    assert stored(Format("odd", 8, block=16, scale_bits=24), 64) is None


@pytest.mark.parametrize(
    ("outputs", "inputs", "able"), [(256, 180, False), (360, 256, True), (256, 184, True), (180, 256, False)]
)
def test_experts_of_an_odd_width_are_multiplied_one_by_one(outputs, inputs, able, monkeypatch):
    """gpt-oss at TP 16 has 2880 / 16 = 180 columns of 2 B, no multiple of the 16 B that torch's grouped product wants of a row."""
    from torch.nn import functional

    from kvplan.verify.live.layers import feed_forward

    tokens, weights = torch.ones((4, inputs)).bfloat16(), torch.ones((2, outputs, inputs)).bfloat16()
    ends = torch.tensor([1, 4], dtype=torch.int32)
    if inputs % 8 and hasattr(functional, "grouped_mm"):
        with pytest.raises(RuntimeError, match="multiple of 16 bytes"):
            functional.grouped_mm(tokens, weights.transpose(1, 2), offs=ends)
    monkeypatch.setattr(feed_forward, "_groups", lambda _: True)
    on_a_gpu = SimpleNamespace(is_cuda=True, dtype=weights.dtype, shape=weights.shape, device=None)
    assert feed_forward.in_one_launch(on_a_gpu) is able
    assert feed_forward._by_expert(tokens, weights, ends).shape == (4, outputs)


def test_a_step_with_experts_of_an_odd_width_is_in_no_graph(monkeypatch):
    """Products into an expert may be one launch where those out of it are not: 2 x 12 rows of 16 B multiples, 12 columns of none."""
    from kvplan.verify.live.layers import feed_forward

    monkeypatch.setattr(feed_forward, "in_one_launch", lambda one: all(extent % 8 == 0 for extent in one.shape[-2:]))
    for width, able in ((12, False), (16, True)):
        build = Build(Ledger(torch.device("cpu"), None), 64, torch.bfloat16, Alone())
        assert feed_forward.Experts(ExpertsPart(4, 2, width), build).in_one_launch is able
