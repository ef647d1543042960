"""The GPU kernels, as far as they can be tested without one: interpreted on the CPU, and compiled for a Hopper GPU."""

from __future__ import annotations

import json
import os
import re
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
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(
            [str(HERE.parents[1]), str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        ),
    }
    done = subprocess.run(
        [sys.executable, str(HERE / "interpreted.py")],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=300,
    )
    if "only 0-dimensional arrays" in done.stderr:
        pytest.skip("this triton's interpreter and this numpy don't go together")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert {sort: count for sort, (count, _) in found.items()} == {
        "attention": 12,
        "joined": 15,
        "stored": 4,
        "states": 2,
        "gates": 1,
        # Two formats of heads with sinks, of which one has scales; two of latents; each with no fault first.
        "noticed": (1 + 10) + (1 + 13) + 2 * (1 + 6),
    }
    assert all(difference < 1e-5 for _, difference in found.values()), found


SPANS: dict[str, Any] = {
    "KV_HEADS": 8, "GROUP": 4, "K_DIM": 128, "V_DIM": 128, "EACH": 1, "MAIN": 128, "TAIL": 0, "V_PAD": 128, "HEADS": 16,
    "BLOCK": 64, "PAGE": 16, "CHOSEN": False, "LATENT": False, "KEY_SCALED": False, "VALUE_SCALED": False, "FLOAT8": False,
    "PTX": True, "PRECISION": "tf32",
}  # fmt: skip
LATENT: dict[str, Any] = {
    "KV_HEADS": 1, "GROUP": 16, "K_DIM": 576, "V_DIM": 512, "MAIN": 512, "TAIL": 64, "V_PAD": 512, "BLOCK": 32,
    "LATENT": True, "PAGE": 0,
}  # fmt: skip
PAIRS: dict[str, Any] = {"EACH": 2, "MAIN": 64, "V_PAD": 64, "BLOCK": 128, "PAGE": 0}
LATENT_PAIRS = LATENT | {"EACH": 2, "MAIN": 256, "TAIL": 32, "V_PAD": 256, "FLOAT8": True}
SCALED: dict[str, Any] = {"KEY_SCALED": True, "VALUE_SCALED": True, "PAGE": 16}


def compiled(kernel: Any, constants: dict[str, Any], pointers: dict[str, str], divided: set[str]) -> Any:
    """A kernel for Hopper. divided: pointers and strides that sixteen divides, which the launcher finds out by itself."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature = {name: "constexpr" if name in constants else pointers.get(name, "i32") for name in kernel.arg_names}
    places = {(place,): [["tt.divisibility", 16]] for place, name in enumerate(kernel.arg_names) if name in divided}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=places)
    try:
        return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4, "num_stages": 3})
    except RuntimeError as error:
        pytest.skip(f"this triton can't compile without a GPU: {error}")


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("kept", "changes"),
    [
        ("bf16", {}), ("bf16", LATENT), ("i16", PAIRS | {"FLOAT8": True}), ("i16", PAIRS | SCALED), ("i16", LATENT_PAIRS),
    ],
    ids=["bf16 paged", "latent bf16", "fp8", "int8 paged with scales", "latent fp8"],
)  # fmt: skip
def test_attention_compiles_for_hopper(kept, changes):
    """Through ptxas: two programs to a core at least, nothing spilled, and every byte of the cache copied 8 or 16 at a time."""
    from kvplan.verify.live.kernels import triton_attend

    constants = SPANS | changes | {"kss": 1, "vss": 1}
    pointers = {
        "query": "*bf16", "key": f"*{kept}", "value": f"*{kept}", "table": "*i32", "chosen": "*i64",
        **dict.fromkeys(("key_scale", "value_scale", "partial", "logsum"), "*fp32"),
        **dict.fromkeys(("scale", "key_fixed", "value_fixed"), "fp32"),
    }  # fmt: skip
    strides = {"kb", "kh", "ks", "vb", "vh", "vs"}
    divided = {"query", "key", "value", "table", "chosen", "partial", "logsum"} | strides
    built = compiled(triton_attend._spans, constants, pointers, divided)
    assert built.metadata.shared <= 113 * 1024
    assert built.asm["cubin"]
    ptx = built.asm["ptx"]
    assert "st.local" not in ptx
    widths = set(re.findall(r"cp\.async\.c[ag]\.shared\.global \[.*?, (0x[0-9a-f]+|\d+)", ptx))
    assert widths & {"16", "0x10"}, widths
    assert ".v1.b8" not in ptx
    assert "ld.shared.u8" not in ptx
    assert "ld.shared.b8" not in ptx


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("v_dim", "sink"), [(128, False), (512, False), (64, True), (80, True)])
def test_the_join_compiles_for_hopper_once_for_any_number_of_spans(v_dim, sink):
    from kvplan.verify.live.kernels import triton_attend

    constants = {
        "V_DIM": v_dim,
        "WIDTH": min(128, triton_attend._power(v_dim)),
        "STEP": triton_attend._STEP,
        "SINK": sink,
    }
    pointers = {"partial": "*fp32", "logsum": "*fp32", "sink": "*bf16", "out": "*bf16"}
    built = compiled(triton_attend._join, constants, pointers, set(pointers))
    assert built.asm["cubin"]
    assert "st.local" not in built.asm["ptx"]


@pytest.mark.parametrize(
    ("shape", "name", "kernels"),
    [
        # 512 main columns of 2 B: 16 and 8 KiB are 16 and 8 slots, of which a step has 16 at least.
        ((1, 576, None), "bf16", 5),
        # 128 B a slot: 16, 32 and 64 KiB are 128 slots and more, of which a step has 128 at most; all differ otherwise.
        ((8, 128, 128), "fp8", 6),
        ((8, 128, 128), "bf16", 6),
        ((1, 256, 256), "bf16", 6),
    ],
)
def test_no_two_tunings_are_the_same_kernel(shape, name, kernels):
    from kvplan.arch.formats import FORMATS
    from kvplan.verify.live.kernels.attend import Query
    from kvplan.verify.live.kernels.triton_attend import TUNINGS, _block, tunings
    from kvplan.verify.live.ledger import Ledger
    from kvplan.verify.live.rows import Layout, Rows

    heads, k_dim, v_dim = shape
    keys, values = (
        None if dim is None else Rows(
            Ledger(torch.device("cpu"), None), batch=1, heads=heads, slots=64, dim=dim, format_=FORMATS[name],
            dtype=torch.bfloat16, layout=Layout(), table=None,
        )
        for dim in (k_dim, v_dim)
    )  # fmt: skip
    query = Query(torch.zeros((1, heads, k_dim)), keys, values, 64, v_dim or 512, 1.0)
    found = tunings(query)
    assert list(found) == [tuning for tuning in TUNINGS if tuning in found]
    cut = {(_block(keys, k_dim, one), one.warps, one.stages, one.programs) for one in found}
    assert len(cut) == len(found) == kernels


STORE: dict[str, Any] = {
    "HEADS": 32, "KV_HEADS": 8, "K_DIM": 128, "V_DIM": 128, "PAD": 128, "HALF": 64, "V_START": 40 * 128, "PAGE": 0,
    "NORM": False,
    **{f"{of}_{name}": value for of in ("KEY", "VALUE") for name, value in
       {"INT8": False, "FIXED": 1.0, "SCALED": False}.items()},
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("capability", [75, 80, 86, 89, 90])
@pytest.mark.parametrize("kept", ["bf16", "fp8e4nv", "i8"])
def test_the_store_compiles_where_it_is_used(kept, capability):
    """Turing and Ampere have no e4m3, and there plain torch stores: kvplan.verify.live.kernels.fused knows from where on."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, CompilationError

    from kvplan.verify.live.kernels import fused, triton_fused

    float8 = kept == "fp8e4nv"
    constants = STORE | {"KEY_FLOAT8": float8, "VALUE_FLOAT8": float8}
    pointers = {
        **dict.fromkeys(("projected", "query", "query_norm", "key_norm"), "*bf16"), "key": f"*{kept}", "value": f"*{kept}",
        **dict.fromkeys(("key_scale", "value_scale", "cos", "sin"), "*fp32"), "table": "*i32",
        **dict.fromkeys(("key_limit", "value_limit", "eps"), "fp32"),
    }  # fmt: skip
    kernel = triton_fused._store
    signature = {name: "constexpr" if name in constants else pointers.get(name, "i32") for name in kernel.arg_names}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
    dtype = {"bf16": torch.bfloat16, "fp8e4nv": torch.float8_e4m3fn, "i8": torch.int8}[kept]
    able = divmod(capability, 10) >= fused._NEEDS.get(dtype, (0, 0))
    try:
        triton.compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": 1})
    except CompilationError:
        assert not able
    except RuntimeError as error:
        pytest.skip(f"this triton can't compile without a GPU: {error}")
    else:
        assert able
