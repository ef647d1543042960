"""What must hold for any model, GPU memory and length."""

from __future__ import annotations

import time
from functools import cache
from itertools import pairwise

import pytest

from kvplan.arch.layers import Compressed, Recurrent
from kvplan.arch.model import Model
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Capacity, Options, Refusal
from kvplan.engines.registry import engine
from kvplan.engines.vllm.policy import Vllm
from kvplan.engines.vllm.reserve import NAMES, difference, stage_bytes
from kvplan.errors import KvplanError
from kvplan.sources.gpus import load_gpu
from kvplan.sources.models import load_model, model_names
from kvplan.units import GIB

H100 = load_gpu("h100")
ONE = Parallel()
LENGTHS = (1, 17, 1000, 4096, 33_000, 131_072)


@cache
def model_of(name: str) -> Model:
    return load_model(name)


def served() -> list[str]:
    """Bundled models that vLLM starts."""
    found = []
    for name in sorted(model_names()):
        try:
            Vllm().plan(model_of(name), H100, ONE, Vllm().kv_format(model_of(name), None, H100), Options(), 4096)
        except KvplanError:
            continue
        found.append(name)
    return found


SERVED = served()


def kv_of(name: str):
    return Vllm().kv_format(model_of(name), None, H100)


def ask(name: str, context: int, memory: int) -> Capacity | Refusal:
    return Vllm().capacity(model_of(name), H100, ONE, kv_of(name), Options(), context, memory)


def test_most_bundled_models_are_served():
    assert len(SERVED) > 0.8 * len(list(model_names()))


@pytest.mark.parametrize("name", SERVED)
def test_a_request_never_reserves_less_than_the_formula(name):
    """Except where vLLM itself keeps less: recurrent states in 16 bit where the formula's are in 32, and compressors."""
    model, kv = model_of(name), kv_of(name)
    curve = model.rank_curves(ONE, kv)[0]
    for tokens in LENGTHS:
        made = Vllm().plan(model, H100, ONE, kv, Options(), tokens)
        own = dict(difference(made, tokens, curve.bytes_at(tokens))).get(NAMES[0], 0)
        assert own >= 0 or keeps_less(model), tokens
        assert stage_bytes(made, tokens, 0) >= curve.bytes_at(tokens) + min(own, 0), tokens


def keeps_less(model: Model) -> bool:
    caches = {type(cache) for layer in model.layers for cache in layer.caches}
    return bool(caches & {Recurrent, Compressed})


@pytest.mark.parametrize("name", SERVED)
def test_the_difference_is_named_to_the_byte(name):
    model, kv = model_of(name), kv_of(name)
    found = ask(name, 33_000, 2000 * GIB)
    assert isinstance(found, Capacity)
    ideal = model.rank_curves(ONE, kv)[0].bytes_at(33_000)
    reserved = Vllm().reserved(model, H100, ONE, kv, Options(), 33_000)
    assert sum(amount for _, amount in found.notes) == reserved - ideal
    assert {what for what, _ in found.notes} <= set(NAMES)


@pytest.mark.parametrize("name", SERVED)
def test_more_memory_never_gives_less(name):
    found = [ask(name, 4096, memory * GIB // 4) for memory in (1, 2, 3, 5, 8, 40, 160, 161, 1000)]
    pools = [each for each in found if isinstance(each, Capacity)]
    assert found[len(found) - len(pools) :] == pools
    for less, more in pairwise(pools):
        assert less.blocks <= more.blocks
        assert less.kv_tokens <= more.kv_tokens
        assert less.max_concurrency <= more.max_concurrency
        assert less.max_sequences <= more.max_sequences
        assert less.max_context <= more.max_context


@pytest.mark.parametrize("name", SERVED)
def test_longer_requests_are_never_more(name):
    found = [ask(name, context, 60 * GIB) for context in (2048, 4096, 8192, 8193, 40_000, 131_072, 1_000_000)]
    pools = [each for each in found if isinstance(each, Capacity)]
    assert found[: len(pools)] == pools
    for shorter, longer in pairwise(pools):
        assert longer.max_concurrency <= shorter.max_concurrency


@pytest.mark.parametrize("name", SERVED)
def test_the_longest_request_is_the_longest(name):
    found = ask(name, 2048, 4 * GIB)
    longest = found.max_context
    if isinstance(found, Capacity) and longest < (model_of(name).context.tokens or 0):
        assert isinstance(ask(name, longest, 4 * GIB), Capacity)
        assert isinstance(ask(name, longest + 1, 4 * GIB), Refusal)


@pytest.mark.parametrize("name", ["llama-3-70b", "gemma-3-27b", "qwen3.5-35b-a3b", "deepseek-v3.2", "gpt-oss-120b"])
def test_a_refusal_says_what_vllm_would(name):
    found = ask(name, 131_072, GIB // 2)
    assert isinstance(found, Refusal)
    assert found.needed_bytes > found.available_bytes
    assert "GiB KV cache is needed" in found.message
    assert 0 <= found.max_context < 131_072
    if found.max_context:
        assert f"estimated maximum model length is {found.max_context}" in found.message


def test_ranks_divide_and_stages_share():
    kv = kv_of("llama-3-70b")
    sizes = [
        Vllm().reserved(model_of("llama-3-70b"), H100, parallel, kv, Options(), 8192)
        for parallel in (ONE, Parallel(tp=8), Parallel(pp=2), Parallel(tp=16))
    ]
    assert sizes[0] == 8 * sizes[1] == 2 * sizes[2]
    assert sizes[3] == sizes[1]


def test_planning_is_quick():
    names = ["llama-3-70b", "gemma-3-27b", "qwen3.5-35b-a3b", "deepseek-v3.2"]
    own, start = engine("vllm"), time.perf_counter()
    for name in names:
        model, kv = model_of(name), kv_of(name)
        memory = own.budget(model, H100, ONE, Options(), 8192).kv
        own.capacity(model, H100, ONE, kv, Options(), 8192, max(memory.low, 0))
    assert time.perf_counter() - start < 0.2
