"""Small models and a GPU described by hand, so that the arithmetic of a plan can be followed in the test."""

from __future__ import annotations

from kvplan.arch.formats import FORMATS
from kvplan.arch.layers import Attention, Cache, Latent, Layer
from kvplan.arch.model import Context, Model, Origin
from kvplan.arch.weights import Weight, Weights
from kvplan.engines.base import Options
from kvplan.engines.ideal import Ideal
from kvplan.engines.protocol import Engine
from kvplan.hardware.gpu import Fact, Gpu
from kvplan.plan.request import Request

BF16 = FORMATS["bf16"]
GQA = Attention(heads=64, kv_heads=8, k_dim=128, v_dim=128)
"""One layer of Llama-3-70B: 8 x (128 + 128) x 2 B = 4,096 B a token."""
WINDOW = Attention(heads=64, kv_heads=8, k_dim=128, v_dim=128, window=1024)
MLA = Latent(heads=128, rank=512, rope_dim=64, nope_dim=128, v_dim=128)
"""One layer of DeepSeek-V3: (512 + 64) x 2 B = 1,152 B a token."""


def fact(value: int) -> Fact:
    return Fact(value, "given", ("a test",))


GPU = Gpu(
    id="test-80",
    name="Test 80",
    vendor="nvidia",
    architecture="Hopper",
    memory=fact(80 * 10**9),
    bandwidth=fact(3_350 * 10**9),
    flops=(("bf16", fact(989 * 10**12)),),
    link=fact(900 * 10**9),
    memory_type="HBM3",
)


def model(*caches: Cache, weights: Weights | None = None, maximum: int | None = 8192) -> Model:
    """A model with one layer for each cache."""
    return Model(
        origin=Origin("stand-in", "tests"),
        family="test",
        layers=tuple(Layer((cache,)) for cache in caches),
        dtype=BF16,
        context=Context(maximum, "stated"),
        hidden_size=8192,
        vocab_size=128_256,
        weights=weights,
    )


LLAMA_70B = model(*(GQA,) * 80)
DEEPSEEK_V3 = model(*(MLA,) * 61)


def dense(parameters: int, layers: int) -> Weights:
    """Weights of one matrix a layer."""
    block = (Weight("w", (parameters // layers // 1024, 1024), "mlp", split=0, linear=True),)
    return Weights((), (block,) * layers, ())


def experts(number: int, picked: int, layers: int) -> Weights:
    """Weights of `number` experts of 2^20 parameters a layer, of which a token uses `picked`."""
    block = (Weight("experts", (1024, 1024), "experts", split=0, copies=number, picked=picked, linear=True),)
    return Weights((), (block,) * layers, ())


def textbook(context: int, **changes: object) -> Request:
    """Llama-3-70B on eight GPUs of 80 GB with the figures of the textbook: 10 % reserved, 140 GB of weights."""
    from kvplan.arch.parallel import Parallel

    options = Options(utilization=0.9, weights_per_gpu=140 * 10**9 // 8, overhead=0)
    given: dict[str, object] = {"model": LLAMA_70B, "gpu": GPU, "engine": Ideal(), "parallel": Parallel(tp=8)}
    return Request(**{**given, "options": options, "context": context, **changes})  # type: ignore[arg-type]


__all__ = ["DEEPSEEK_V3", "GPU", "GQA", "LLAMA_70B", "MLA", "WINDOW", "Engine", "dense", "experts", "model", "textbook"]
