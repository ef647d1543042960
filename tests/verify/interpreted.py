"""Triton's interpreter runs the GPU kernels on the CPU and compares them with plain torch; a program of its own,
because Triton decides when it is imported whether it interprets. Prints one line of JSON: comparisons and the largest
difference of each sort. Numbers in fp16 and fp32: the interpreter has no bf16 products, and rounds fp8 its own way.
"""

from __future__ import annotations

import json
import os

os.environ["TRITON_INTERPRET"] = "1"

import torch
from verify.mutants import both, concerning

from kvplan.arch.formats import FORMATS
from kvplan.verify.live.checks import kernels
from kvplan.verify.live.kernels import fused, triton_attend, triton_fused
from kvplan.verify.live.kernels.attend import Query, by_spans
from kvplan.verify.live.kernels.fused import Heads
from kvplan.verify.live.kernels.triton_attend import TUNINGS, by_triton, triton_can
from kvplan.verify.live.ledger import Ledger
from kvplan.verify.live.rows import Layout, Rows
from kvplan.verify.parts import AttentionPart, LatentPart

LEDGER = Ledger(torch.device("cpu"), None, seed=1)
SHAPES = (
    # query heads, KV heads, key, value, latent, sparse, sink
    (8, 2, 32, 32, False, False, True),
    (6, 1, 80, 48, False, False, False),
    (16, 1, 80, 64, True, True, False),
)


def random(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=LEDGER.random).to(dtype)


def made(
    heads: int, dim: int, name: str, layout: Layout, table: torch.Tensor | None, slots: int, dtype: torch.dtype
) -> Rows:
    rows = Rows(
        LEDGER,
        batch=2,
        heads=heads,
        slots=slots,
        dim=dim,
        format_=FORMATS[name],
        dtype=dtype,
        layout=layout,
        table=table,
    )
    rows.fill(LEDGER)
    return rows


def attention() -> list[float]:
    found = []
    for place, (name, dtype) in enumerate(
        (
            ("fp32", torch.float32),
            ("fp16", torch.float16),
            ("fp8", torch.float16),
            ("int8_per_token_head", torch.float16),
        )
    ):
        layout = Layout((None, 16)[place % 2])
        for heads, kv_heads, k_dim, v_dim, latent, sparse, sink in SHAPES:
            table = layout.table(LEDGER, 2, 300)
            keys = made(kv_heads, k_dim, name, layout, table, 300, dtype)
            values = None if latent else made(kv_heads, v_dim, name, layout, table, 300, dtype)
            chosen = (
                torch.stack([torch.randperm(250, generator=LEDGER.random)[:100] for _ in range(2)]) if sparse else None
            )
            query = Query(
                random(2, heads, k_dim, dtype=dtype), keys, values, 100 if sparse else 250, v_dim, k_dim**-0.5,
                random(heads) if sink else None, chosen,
            )  # fmt: skip
            assert triton_can(query)
            scale = 1.0 if dtype == torch.float32 else 0.01
            found.append(scale * float((by_spans(query) - by_triton(query, TUNINGS[place])).abs().max()))
    return found


def joined() -> list[float]:
    """As many spans as are joined at a time, fewer, more, and a number that it doesn't divide; with sinks and without."""
    found = []
    for step, slots in ((4, 250), (2, 250), (2, 150), (1, 250), (32, 250)):
        triton_attend._STEP = step
        for heads, kv_heads, k_dim, v_dim, latent, _, sink in SHAPES:
            layout = Layout()
            keys = made(kv_heads, k_dim, "fp32", layout, None, 300, torch.float32)
            values = None if latent else made(kv_heads, v_dim, "fp32", layout, None, 300, torch.float32)
            query = Query(
                random(2, heads, k_dim), keys, values, slots, v_dim, k_dim**-0.5, 6 + random(heads) if sink else None
            )
            found.append(float((by_spans(query) - by_triton(query, TUNINGS[1])).abs().max()))
    triton_attend._STEP = 32
    return found


def stored() -> list[float]:
    found = []
    for name, page, normed, v_dim in (
        ("fp32", None, True, 16), ("fp16", 4, False, 16), ("int8", 4, True, 16), ("int8_per_token_head", None, False, 0),
    ):  # fmt: skip
        heads, layout = Heads(4, 2, 24, v_dim), Layout(page)
        table = layout.table(LEDGER, 2, 12)
        norms = (random(24).abs(), random(24).abs()) if normed else None
        projected, turn = random(2, heads.width + 5)[:, : heads.width], fused.angles(7, 20, LEDGER.device)
        results = []
        for store in (fused.store, triton_fused.store):
            keys = made(2, 24, name, layout, table, 12, torch.float32)
            values = made(2, v_dim or 24, name, layout, table, 12, torch.float32)
            query = store(projected, heads, turn, norms, keys, values, 7)
            results.append(torch.cat([one.flatten() for one in (query, keys.read(7, 8), values.read(7, 8))]))
        found.append(float((results[0] - results[1]).abs().max()))
    return found


def states() -> list[float]:
    found = []
    for erase in (True, False):
        start = random(2, 3, 24, 40)
        given = (random(2, 3, 24), random(2, 3, 40), random(2, 3, 24), random(2, 3).abs(), random(2, 3).abs())
        results = []
        for advance in (fused.advance, triton_fused.advance):
            state = start.clone()
            read = advance(state, *given, erase=erase)
            results.append(torch.cat((state.flatten(), read.flatten())))
        found.append(float((results[0] - results[1]).abs().max()))
    return found


def gates() -> list[float]:
    both = random(3, 5, 2 * 1500)
    return [float((fused.gated(both) - triton_fused.gated(both)).abs().max())]


def noticed() -> list[float]:
    """The device's own check of the kernels: 0 for each that is confirmed when right, and refuted with a fault, else 1."""
    found = []
    heads, latent = AttentionPart(8, 2, 32, 32, sink_logits=True), LatentPart(16, 64, 16, 16, 16)
    for part, name in ((heads, "fp8"), (heads, "int8_per_token_head"), (latent, "fp16"), (latent, "fp8")):
        layout = Layout(16 if name == "fp8" else None)
        asked = list(kernels.questions(part, both(name), layout, LEDGER.device, torch.float16))
        plain = [by_spans(query) for query in asked]
        faults = {"none": lambda query: query} | concerning(asked[0])
        for fault, change in faults.items():
            row = kernels.compared(fault, plain, lambda: [by_triton(change(query)) for query in asked])  # noqa: B023
            found.append(float(row.verdict != ("confirmed" if fault == "none" else "refuted")))
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    sorts = {
        "attention": attention(),
        "joined": joined(),
        "stored": stored(),
        "states": states(),
        "gates": gates(),
        "noticed": noticed(),
    }
    print(json.dumps({sort: [len(found), max(found)] for sort, found in sorts.items()}))  # noqa: T201 - a program
