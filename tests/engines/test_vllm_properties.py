"""What must hold for any model, GPU memory and length."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvplan.arch.curve import Curve
from kvplan.arch.formats import FORMATS, KvFormat, parse_kv_format
from kvplan.arch.layers import Attention, Cache, Compressed, CrossAttention, Latent, Layer, Recurrent, StateTensor
from kvplan.arch.model import Context, Model, Origin
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Capacity, Options, Refusal, Setup
from kvplan.engines.registry import engine
from kvplan.engines.vllm.blocks.reserve import NAMES, STATES, stage_bytes
from kvplan.engines.vllm.blocks.states import in_kept_formats
from kvplan.engines.vllm.policy import Vllm
from kvplan.engines.vllm.tables.changes import rules
from kvplan.engines.vllm.tables.versions import NEWEST
from kvplan.errors import KvplanError
from kvplan.families import read
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
            Vllm().start(
                Setup(model_of(name), H100, ONE, Vllm().kv_format(model_of(name), None, H100), Options(), 4096)
            )
        except KvplanError:
            continue
        found.append(name)
    return found


SERVED = served()


def kv_of(name: str):
    return Vllm().kv_format(model_of(name), None, H100)


def ask(name: str, context: int, memory: int) -> Capacity | Refusal:
    return Vllm().start(Setup(model_of(name), H100, ONE, kv_of(name), Options(), context)).capacity(memory)


NOT_SERVED = {
    "baichuan2-7b", "falcon-40b", "minimax-text-01", "qwen-14b", "qwen-72b",  # by earlier releases
    "llama-3.2-11b-vision", "recurrentgemma-2b", "rwkv-5-3b",  # the Transformers backend can't run their layers
    "step-3.7-flash",  # no release has a class of the name in their config
}  # fmt: skip
"""Bundled models that vLLM 0.33 has no class for. Source: its models/registry.py."""


def test_all_other_bundled_models_are_served():
    assert set(model_names()) - set(SERVED) == NOT_SERVED


def formula_in_its_formats(model: Model, kv: KvFormat, parallel: Parallel = ONE) -> Curve:
    """The formula with recurrent states in the formats that vLLM keeps them in."""
    held = rules(NEWEST)
    return replace(model, layers=in_kept_formats(model, model.layers, held)).rank_curves(parallel, kv)[0]


@pytest.mark.parametrize("name", SERVED)
def test_a_request_never_reserves_less_than_the_formula_in_its_formats(name):
    """Compressors keep sums of the tokens that are there, the formula all of them from the first token on."""
    model, kv = model_of(name), kv_of(name)
    curve = formula_in_its_formats(model, kv)
    for tokens in LENGTHS[2:] if has(model, CrossAttention) else LENGTHS:  # steps must hold an encoder's input whole
        made = Vllm().start(Setup(model, H100, ONE, kv, Options(), tokens)).made
        if not has(model, Compressed) or tokens >= 128:
            assert stage_bytes(made, tokens, 0) >= curve.bytes_at(tokens), tokens


@pytest.mark.parametrize("name", SERVED)
def test_what_is_less_than_the_formulas_has_a_name(name):
    notes = ask(name, 33_000, 2000 * GIB).notes
    less = {what for what, amount in notes if amount < 0}
    assert less <= set(STATES.values())
    assert not less or has(model_of(name), Recurrent)


def test_qwen3_nexts_states_are_kept_in_16_bit():
    """36 layers of 32 heads x 128 x 128: two bytes an element in vLLM, four in the formula, which stays as it is."""
    states = 36 * 32 * 128 * 128
    model = model_of("qwen3-next-80b-a3b")
    assert model.rank_curves(ONE, kv_of("qwen3-next-80b-a3b"))[0].bytes_at(0) == 77_266_944
    notes = ask("qwen3-next-80b-a3b", 33_000, 2000 * GIB).notes
    assert notes[0] == ("state kept in bf16 by the engine", -2 * states)
    assert all(amount > 0 for _, amount in notes[1:])


@pytest.mark.parametrize(
    ("name", "version", "named"),
    [
        # configs that say float32 are followed from 0.17 (Qwen3.5) and 0.13 (Nemotron-H) on, and Kimi's is always 32 bit
        ("qwen3.5-35b-a3b", (0, 33, 0), None),
        ("nemotron-h-8b", (0, 33, 0), None),
        ("nemotron-h-8b", (0, 12, 0), "state kept in bf16 by the engine"),
        ("kimi-linear-48b-a3b", (0, 33, 0), None),
        ("granite-4.0-h-small", (0, 33, 0), None),
        ("qwen3-next-80b-a3b", (0, 11, 0), "state kept in bf16 by the engine"),
    ],
)
def test_whose_states_follow_the_config(name, version, named):
    model, engine_ = model_of(name), Vllm(version)
    kv = engine_.kv_format(model, None, H100)
    found = engine_.start(Setup(model, H100, Parallel(), kv, Options(), 4096)).capacity(2000 * GIB)
    assert isinstance(found, Capacity)
    assert {what for what, _ in found.notes if what in STATES.values()} == ({named} if named else set())


def has(model: Model, *kinds: type) -> bool:
    return any(isinstance(cache, kinds) for cache, _ in model.distinct)


@pytest.mark.parametrize("name", SERVED)
def test_the_difference_is_named_to_the_byte(name):
    model, kv = model_of(name), kv_of(name)
    found = ask(name, 33_000, 2000 * GIB)
    assert isinstance(found, Capacity)
    ideal = model.rank_curves(ONE, kv)[0].bytes_at(33_000)
    reserved = Vllm().start(Setup(model, H100, ONE, kv, Options(), 33_000)).reserved()
    assert sum(amount for _, amount in found.notes) == reserved - ideal
    assert {what for what, _ in found.notes} <= {*NAMES, *STATES.values()}
    assert len(found.reasons) == len(found.notes)


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
    assert found.needed_bytes > GIB // 2
    assert "GiB KV cache is needed" in found.message
    assert 0 <= found.max_context < 131_072
    if found.max_context:
        assert f"estimated maximum model length is {found.max_context}" in found.message


# Random shapes

HEADS = st.sampled_from([(8, 8), (16, 4), (32, 8), (24, 2)])


def attentions(window: int | None) -> st.SearchStrategy[Cache]:
    dims = st.sampled_from([64, 128, 256])
    return st.builds(lambda heads, dim: Attention(*heads, dim, dim, window=window), HEADS, dims)


def states(stored: str | None) -> st.SearchStrategy[Cache]:
    """Gated delta nets and Mamba-2: a convolution and a recurrence, in 32 bit by the reference or in the model's format."""
    return st.builds(
        lambda law, heads, dim, rows: Recurrent(
            law,
            (
                StateTensor("conv", rows, ((heads, 3 * dim),)),
                StateTensor("recurrent", dim, ((heads, dim),), usual=FORMATS[stored] if stored else None),
            ),
            "test",
        ),
        st.sampled_from(["gated delta net", "mamba2"]),
        st.sampled_from([8, 32]),
        st.sampled_from([64, 128]),
        st.sampled_from([3, 7]),
    )


@st.composite
def models(draw: st.DrawFn) -> Model:
    """Stacks of full and window attention beside states, or of latents, in any order and proportion."""
    kinds = [draw(attentions(None))]
    if draw(st.booleans()):
        kinds.append(draw(attentions(draw(st.sampled_from([128, 1000, 4096])))))
    if draw(st.booleans()):
        kinds.append(draw(states(draw(st.sampled_from([None, "fp32"])))))
    if draw(st.integers(0, 4)) == 0:
        kinds = [Latent(16, 512, 64, nope_dim=128)]
    layers = [Layer((kind,)) for kind in kinds]
    order = [0, *draw(st.lists(st.integers(0, len(layers) - 1), min_size=3, max_size=30))]
    stack = tuple(layers[index] for index in order)
    dtype = FORMATS[draw(st.sampled_from(["bf16", "fp16", "fp32"]))]
    return Model(
        Origin("test", "test"), "test", stack, dtype, Context(2_000_000, "test"), 2048, 32_000,
        architectures=("Qwen3NextForCausalLM",), attention_heads=32,
    )  # fmt: skip


OPTIONS = st.builds(
    Options,
    prefix_caching=st.booleans(),
    async_scheduling=st.booleans(),
    hybrid_manager=st.booleans(),
    max_num_batched_tokens=st.sampled_from([2048, 8192]),
    max_num_seqs=st.just(64),
)
SHAPES = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def asked(model: Model, kv: str | None, parallel: Parallel, options: Options) -> KvFormat | None:
    """The cache format, or None where vLLM would not start with the model, whatever the memory."""
    try:
        chosen = Vllm().kv_format(model, parse_kv_format(kv) if kv else None, H100)
        Vllm().start(Setup(model, H100, parallel, chosen, options, 4096))
    except KvplanError:
        return None
    return chosen


@SHAPES
@given(
    model=models(), options=OPTIONS, tp=st.sampled_from([1, 2, 8]), kv=st.sampled_from([None, "fp8"]),
    tokens=st.integers(1, 300_000),
)  # fmt: skip
def test_no_shape_reserves_less_than_the_formula_in_its_formats(model, options, tp, kv, tokens):
    parallel = Parallel(tp=tp)
    chosen = asked(model, kv, parallel, options)
    if chosen is None:
        return
    reserved = Vllm().start(Setup(model, H100, parallel, chosen, options, tokens)).reserved()
    assert reserved >= formula_in_its_formats(model, chosen, parallel).bytes_at(tokens)
    found = Vllm().start(Setup(model, H100, parallel, chosen, options, tokens)).capacity(4000 * GIB)
    assert isinstance(found, Capacity)
    ideal = model.rank_curves(parallel, chosen)[0].bytes_at(tokens)
    assert sum(amount for _, amount in found.notes) == reserved - ideal
    assert {what for what, amount in found.notes if amount < 0} <= set(STATES.values())


def test_no_shape_of_the_corpus_reserves_less_either(corpus, count_cases):
    plain, plans = Options(max_num_seqs=64), 0
    for file in sorted((*corpus.glob("configs/*.json"), *corpus.glob("shapes/*.json"))):
        try:
            model = read(json.loads(file.read_text()), Origin(file.stem, str(file)))
        except KvplanError:
            continue
        for kv, tp in ((None, 1), ("fp8", 1), (None, 8)):
            parallel = Parallel(tp=tp)
            chosen = asked(model, kv, parallel, plain)
            if chosen is None:
                continue
            curve = formula_in_its_formats(model, chosen, parallel)
            for tokens in LENGTHS[2:] if has(model, Compressed, CrossAttention) else LENGTHS:
                reserved = Vllm().start(Setup(model, H100, parallel, chosen, plain, tokens)).reserved()
                assert reserved >= curve.bytes_at(tokens), (file.name, kv, tp, tokens)
                plans += 1
    count_cases("vllm reserves, formula in its formats", plans)
    assert plans >= 5000


@SHAPES
@given(
    model=models(), options=OPTIONS, kv=st.sampled_from([None, "fp8"]), context=st.integers(1, 200_000),
    memory=st.integers(0, 100 * GIB), more=st.integers(0, 20 * GIB), longer=st.integers(0, 200_000),
)  # fmt: skip
def test_more_memory_is_never_less_and_longer_requests_never_more(model, options, kv, context, memory, more, longer):
    chosen = asked(model, kv, ONE, options)
    if chosen is None:
        return
    own = Vllm()
    found, richer, long = (
        own.start(Setup(model, H100, ONE, chosen, options, length)).capacity(room)
        for length, room in ((context, memory), (context, memory + more), (context + longer, memory))
    )
    if isinstance(found, Refusal):
        assert isinstance(long, Refusal)
        return
    assert isinstance(richer, Capacity)
    assert (richer.blocks, richer.kv_tokens, richer.max_context) >= (found.blocks, found.kv_tokens, found.max_context)
    assert richer.max_concurrency >= found.max_concurrency
    if isinstance(long, Capacity):
        assert long.max_concurrency <= found.max_concurrency


def test_ranks_divide_and_stages_share():
    kv = kv_of("llama-3-70b")
    sizes = [
        Vllm().start(Setup(model_of("llama-3-70b"), H100, parallel, kv, Options(), 8192)).reserved()
        for parallel in (ONE, Parallel(tp=8), Parallel(pp=2), Parallel(tp=16))
    ]
    assert sizes[0] == 8 * sizes[1] == 2 * sizes[2]
    assert sizes[3] == sizes[1]


def test_planning_is_quick():
    names = ["llama-3-70b", "gemma-3-27b", "qwen3.5-35b-a3b", "deepseek-v3.2"]
    own, start = engine("vllm"), time.process_time()
    for name in names:
        model, kv = model_of(name), kv_of(name)
        memory = own.start(Setup(model, H100, ONE, None, Options(), 8192)).budget().kv
        own.start(Setup(model, H100, ONE, kv, Options(), 8192)).capacity(max(memory.low, 0))
    assert time.process_time() - start < 0.2
