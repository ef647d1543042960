"""The GPU kernels, as far as they can be tested without one: interpreted on the CPU, and compiled for a Hopper GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch, the verify extra")
triton = pytest.importorskip("triton", reason="needs triton, which comes with CUDA builds of torch")

pytestmark = pytest.mark.torch
HERE = Path(__file__).parent


def test_interpreted_kernels_agree_with_plain_torch():
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1])}
    done = subprocess.run(
        [sys.executable, str(HERE / "interpreted.py")],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=120,
    )
    if "only 0-dimensional arrays" in done.stderr:
        pytest.skip("this triton's interpreter and this numpy don't go together")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert {sort: count for sort, (count, _) in found.items()} == {
        "attention": 12,
        "stored": 4,
        "states": 2,
        "gates": 1,
    }
    assert all(difference < 1e-5 for _, difference in found.values()), found


SPANS: dict[str, Any] = {
    "KV_HEADS": 8, "GROUP": 4, "K_DIM": 128, "V_DIM": 128, "MAIN": 128, "TAIL": 0, "V_PAD": 128, "HEADS": 16, "BLOCK": 64,
    "PAGE": 16, "CHOSEN": False, "LATENT": False, "KEY_SCALED": False, "VALUE_SCALED": False, "PRECISION": "tf32",
}  # fmt: skip
LATENT: dict[str, Any] = {
    "KV_HEADS": 1, "GROUP": 16, "K_DIM": 576, "V_DIM": 512, "MAIN": 512, "TAIL": 64, "V_PAD": 512, "BLOCK": 32, "LATENT": True,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("kept", "changes"), [("bf16", {}), ("fp8e4nv", LATENT)])
def test_attention_compiles_for_hopper_without_spilling(kept, changes):
    """Through ptxas: shared memory within a core's 227 KiB, a binary at the end."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from kvplan.verify.live import triton_attend

    constants = {**SPANS, **changes, "ks": changes.get("K_DIM", 128), "vs": 128, "kss": 1, "vss": 1}
    pointers = {
        "query": "*bf16", "key": f"*{kept}", "value": f"*{kept}", "table": "*i32", "chosen": "*i64",
        **dict.fromkeys(("key_scale", "value_scale", "partial", "logsum"), "*fp32"),
        **dict.fromkeys(("scale", "key_fixed", "value_fixed"), "fp32"),
    }  # fmt: skip
    kernel = triton_attend._spans
    signature = {name: "constexpr" if name in constants else pointers.get(name, "i32") for name in kernel.arg_names}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
    try:
        built = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 8, "num_stages": 3})
    except RuntimeError as error:
        pytest.skip(f"this triton can't compile without a GPU: {error}")
    assert built.metadata.shared <= 227 * 1024
    assert built.asm["cubin"]
