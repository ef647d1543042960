"""One sequence, as the formula and as an engine keeps it, on one GPU and on all of a replica."""

from __future__ import annotations

from kvplan.arch.parallel import Parallel
from kvplan.engines.vllm.policy import Vllm
from kvplan.plan.size import Length, SizeRequest, size
from kvplan.sources.gpus import load_gpu
from kvplan.sources.models import load_model


def test_what_an_engine_takes_on_one_gpu_and_on_all():
    """Llama 3 8B: 32 layers x 8 heads x (128 + 128) x 2 B a token; 8,200 tokens are 513 blocks of 16, cut among 4 x 2 GPUs."""
    asked = SizeRequest(load_model("llama-3-8b"), Vllm(), (8200,), Parallel(tp=4, pp=2), gpu=load_gpu("h100"))
    token = 32 * 8 * 256 * 2
    whole, blocks = token * 8200, token * 513 * 16
    assert size(asked).lengths == (Length(8200, whole, token, whole // 8, blocks // 8, blocks),)
