"""Variables of a server's environment that a plan counts: which model runner serves, and AITER's kernels.

Numbers are of gpt-oss-20b: 24 layers of 8 heads of 64 for keys and for values in 2 bytes, every other one with a window of 128 tokens.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from check.checking import check

LAYER = 2 * 8 * 64 * 2
"""Bytes of a token in one layer."""
NIXL = """--kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'"""


def per_sequence(folder: Path, command: str, gpu: str) -> int:
    (folder / "run.sh").write_text(command)
    (found,) = check("run.sh", "--gpu", gpu, "--json", "--offline").document["results"]
    size: int = found["numbers"]["kv_per_sequence"]["safe"]
    return size


@pytest.mark.parametrize(
    ("variable", "steps"), [("", 3), ("VLLM_USE_V2_MODEL_RUNNER=1", 3), ("VLLM_USE_V2_MODEL_RUNNER=0", 2)]
)
def test_the_first_runner_has_fewer_steps_in_flight(folder: Path, variable: str, steps: int):
    """12 layers of each kind, on both stages together; a window keeps 127 tokens and those in flight, in blocks of 16 and one more."""
    command = f"{variable} vllm serve openai/gpt-oss-20b --max-model-len 65536 -pp 2 --max-num-batched-tokens 8192\n"
    blocks = 65536 // 16 + (-(-(127 + steps * 8192) // 16) + 1)
    assert per_sequence(folder, command, "h200") == blocks * 12 * 16 * LAYER


@pytest.mark.parametrize(
    ("variable", "words", "block"),
    [
        ("", "", 64),
        ("VLLM_ROCM_USE_AITER=0", "", 64),
        ("VLLM_ROCM_USE_AITER=1", "", 16),
        ("VLLM_ROCM_USE_AITER=1", NIXL, 16),
    ],
)
def test_aiters_kernels_for_heads_with_sinks(folder: Path, variable: str, words: str, block: int):
    """Windows keep all 32,784 tokens, as two steps of 16,384 may be in flight."""
    command = f"{variable} vllm serve openai/gpt-oss-20b --max-model-len 32784 {words}\n"
    blocks = -(-32784 // block)
    assert per_sequence(folder, command, "mi300x") == (blocks + blocks + 1) * 12 * block * LAYER


@pytest.mark.parametrize(
    ("version", "words", "block"), [("0.33.0", "", 16), ("0.33.0", NIXL, 64), ("0.22.1", NIXL, 16)]
)
def test_connectors_leave_amds_first_kernels_out_since_0_23(folder: Path, version: str, words: str, block: int):
    """Llama-3-8B: 32 layers of 8 heads of 128."""
    command = (
        f"docker run vllm/vllm-openai-rocm:v{version} --model meta-llama/Meta-Llama-3-8B --max-model-len 4112 {words}\n"
    )
    assert per_sequence(folder, command, "mi300x") == -(-4112 // block) * block * 32 * 2 * 8 * 128 * 2
