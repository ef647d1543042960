"""Rooms of recurrent layers in the profiled step, worked out by hand from their classes."""

from __future__ import annotations

import pytest

from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Options, Setup
from kvplan.engines.vllm.memory.mixers import mixing
from kvplan.engines.vllm.policy import Vllm
from kvplan.sources.gpus import load_gpu
from kvplan.sources.models import load_model


@pytest.mark.parametrize(
    ("name", "tp", "elements"),
    [
        # gate, inputs, B and C, steps; its output; twice what is convolved, inputs with B and C
        ("nemotron-3-nano-30b-a3b", 1, 2 * 4096 + 2 * 8 * 128 + 64 + 4096 + 2 * (4096 + 2 * 8 * 128)),
        ("nemotron-3-nano-30b-a3b", 2, (2 * 4096 + 2 * 8 * 128 + 64 + 4096 + 2 * (4096 + 2 * 8 * 128)) // 2),
        # queries, keys, values, gate, and the two of each head; the output, the gate and both normed
        ("qwen3-next-80b-a3b", 1, 2 * 16 * 128 + 2 * 32 * 128 + 2 * 32 + 3 * 32 * 128),
        ("llama-3.1-8b", 1, 0),
        ("kimi-linear-48b", 1, 0),  # not read
    ],
)
def test_what_a_token_has_in_a_recurrent_layer(name, tp, elements):
    """Source: layers/mamba/mamba_mixer2.py forward and conv_ssm_forward; gdn_linear_attn.py forward_cuda."""
    assert mixing(load_model(name), Parallel(tp=tp)) == elements


def test_long_steps_take_the_room():
    """At 65,536 tokens Mamba's layer is wider than experts' rooms, which stay: 2 B x 65,536 x (26,688 + 2 x 2,688)."""
    model, gpu = load_model("nemotron-3-nano-30b-a3b"), load_gpu("h200")
    options = Options(max_num_batched_tokens=65_536, max_num_seqs=16)
    found = Vllm().start(Setup(model, gpu, Parallel(), None, options, 65_536)).budget()
    assert f"{2 * 65_536 * (26_688 + 2 * 2688):,} B of the widest layer" in found.activation.formula
