"""What changes with one release and stands beside its one use: what was so in the last release before, and since.

Each was read in the files of both releases (or in all that a wheel could be fetched of); see the constants' own sources.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from kvplan.api import load_model
from kvplan.arch.extras import with_draft
from kvplan.arch.formats import parse_kv_format
from kvplan.arch.model import Model, Origin
from kvplan.arch.parallel import Parallel
from kvplan.arch.storage import MXFP4
from kvplan.arch.weights import Weight
from kvplan.engines.base import Options, Setup
from kvplan.engines.vllm import settings
from kvplan.engines.vllm.blocks.backends import Need, pick
from kvplan.engines.vllm.blocks.drafts import as_drafter
from kvplan.engines.vllm.layout import rocm
from kvplan.engines.vllm.layout.experts import Kernels, Multiples, multiples, swizzled
from kvplan.engines.vllm.layout.merged import ends_of
from kvplan.engines.vllm.memory.adapters import allocated
from kvplan.engines.vllm.memory.alone import alone
from kvplan.engines.vllm.memory.encoder import encoded
from kvplan.engines.vllm.policy import Vllm
from kvplan.engines.vllm.starts import served
from kvplan.engines.vllm.tables import connectors
from kvplan.engines.vllm.tables.changes import rules
from kvplan.engines.vllm.tables.versions import Version, parse
from kvplan.errors import KvplanError
from kvplan.families import read
from kvplan.sources.gpus import load_gpu

EXPERT = Weight("experts.up_proj", (1024, 4096), "experts", split=0, copies=8, picked=2, linear=True)
OF_GPT_OSS = Weight("experts.up_proj", (2880, 2880), "experts", MXFP4, split=0, copies=32, picked=4, linear=True)
LARGE = Weight("mlp.down_proj", (1, 10 * 2**20 + 2**18), "mlp", linear=True)
"""20.5 MiB in 16 bit: 1.5 short of its segment, which is too large to be split where large ones aren't."""
QWEN = {
    "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "num_hidden_layers": 2, "hidden_size": 256, "num_attention_heads": 2,
    "num_key_value_heads": 2, "intermediate_size": 512, "vocab_size": 1000, "max_position_embeddings": 32768, "torch_dtype": "bfloat16",
}  # fmt: skip
PHI3 = {**QWEN, "model_type": "phi3", "architectures": ["Phi3ForCausalLM"], "original_max_position_embeddings": 4096}
WHISPER = {
    "model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"], "d_model": 1280, "decoder_attention_heads": 20,
    "decoder_ffn_dim": 5120, "decoder_layers": 2, "encoder_attention_heads": 20, "encoder_ffn_dim": 5120, "encoder_layers": 2,
    "is_encoder_decoder": True, "max_source_positions": 1500, "max_target_positions": 448, "num_hidden_layers": 2, "num_mel_bins": 128,
    "torch_dtype": "float16", "vocab_size": 51866,
}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}


def model(config: dict[str, Any], **more: object) -> Model:
    return read({**config, **more}, Origin("test", "test"))


def refused(made: Model, gpu: str = "h100", kv: str = "auto", **options: Any) -> Callable[[Version], str | None]:
    """Why a release doesn't start; None where it does."""

    def start(release: Version) -> str | None:
        chosen = None if kv == "auto" else parse_kv_format(kv)
        try:
            Vllm(release).start(Setup(made, load_gpu(gpu), Parallel(), chosen, Options(**options), 448))
        except KvplanError as error:
            return f"{error.problem.what}: {error.problem.cause}"
        return None

    return start


def moved(release: Version) -> int:
    """Elements that a row of a 16-bit expert is longer on AMD."""
    return rocm.apart(EXPERT, EXPERT.shape, release)[1] - EXPERT.shape[1]


def rounded(gpu: str, family: str = "gpt_oss") -> Callable[[Version], Multiples]:
    return lambda release: multiples(MXFP4, Kernels(load_gpu(gpu), release, family))


def in_triton(release: Version) -> int | None:
    """Bits that a share of 720 x 2,880 takes beyond its values of 4 and scales of 8 for each 32."""
    found = swizzled(OF_GPT_OSS, (720, 2880), Kernels(load_gpu("h100"), release, "gpt_oss"))
    return None if found is None else found.tensor_bits


def longest(release: Version) -> int | None:
    return Vllm(release).default_context(model(QWEN, model_max_length=65_536)).tokens


def off(names: tuple[str, ...], *, events: bool = False, asked: bool = False) -> Callable[[Version], bool]:
    return lambda release: connectors.turns_off(release, names, events=events, asked=asked)


def targets(release: Version) -> bool:
    """Whether adapters have room in the modules named and those beside them alone."""
    asked = Options(max_loras=1, max_lora_rank=16, lora_targets=("q_proj",))
    return set(allocated(asked, load_model("llama-3-8b"), release).lora_targets or ()) == {"q_proj", "k_proj", "v_proj"}


def on_its_own(release: Version) -> bool:
    """Whether what stays outside the share of the memory is judged."""
    asked = Setup(load_model("llama-3-8b"), load_gpu("h100"), Parallel(), None, Options(), 4096)
    found = settings.settings(asked, rules(release))
    return alone(asked.model, asked.gpu, found, rules(release), Options()) is not None


def encoding(release: Version) -> bool:
    """Whether images have room of their own in the profile, beyond as many hidden states as a step has tokens."""
    asked = Setup(load_model("gemma-3-4b"), load_gpu("h100"), Parallel(), None, Options(), 4096)
    found = settings.settings(asked, rules(release))
    taken = encoded(asked.model, 2560, asked.gpu.memory.value, found, rules(release), second=False, most=False)
    return taken.running > 0


def of_small_heads(release: Version) -> str:
    """The backend of heads of 16 on Turing, which FlashAttention doesn't run on: Triton's has 32 for the least."""
    return pick("attention", Need(16, "16 bit", release=release), (7, 5), None).name


PREDICTING = replace(model(QWEN), draft_layers=model(QWEN).layers[:1])
"""A type that no release knows to draft for itself."""
DRAFTED = with_draft(load_model("qwen3-8b"), as_drafter(load_model("qwen3-0.6b"), "draft_model"))


@dataclass(frozen=True)
class Gate:
    """before, since: the last release that does the one, the first that does the other; observe says which."""

    name: str
    before: str
    since: str
    observe: Callable[[Version], object]
    was: object
    becomes: object


SCALES = 720 * 90 * 8
"""Bits of the checkpoint's scales of that share."""
PADDED = (768 - 720) * 90 * 8
"""Of rows up to half of 256 outputs: gate and up are one matrix."""
TILES = (736 * 2944 - 720 * 2880) * 4
"""Of values up to half of 64 outputs, and 128 inputs."""

GATES = (
    Gate("experts are moved apart on AMD", "0.7.3", "0.8.0", moved, 0, 128),
    Gate("and contiguous again", "0.19.1", "0.20.0", moved, 128, 0),
    Gate("and apart once more", "0.24.0", "0.25.0", moved, 0, 128),
    Gate("and copied back", "0.29.0", "0.30.0", moved, 128, 0),
    Gate("Triton's kernels come with the wheel", "0.11.2", "0.12.0", rounded("h100"), Multiples(128, 256), Multiples(64)),
    Gate("of others CUTLASS's", "0.11.2", "0.12.0", rounded("h100", ""), Multiples(128, 256), Multiples(128, 128)),
    Gate("narrow tiles on Blackwell", "0.28.0", "0.29.0", rounded("b200"), Multiples(256, 256), Multiples(128, 256)),
    Gate("swizzled", "0.11.2", "0.12.0", in_triton, None, PADDED + SCALES),
    Gate("values in tiles", "0.16.0", "0.17.0", in_triton, PADDED + SCALES, PADDED + SCALES + TILES),
    Gate("values as they are", "0.21.0", "0.22.0", in_triton, PADDED + SCALES + TILES, PADDED + SCALES),
    Gate("scales are freed", "0.24.0", "0.25.0", in_triton, PADDED + SCALES, PADDED),
    Gate("segments aren't split", "0.20.2", "0.21.0", lambda release: ends_of([(LARGE,)], Parallel(), release), 0, 3 * 2**19),
    Gate("a named adapter's modules", "0.23.0", "0.24.0", targets, False, True),
    Gate("asked to keep the manager", "0.12.0", "0.13.0", off(("LMCacheConnector",), asked=True), True, False),
    Gate("connectors that can do with it", "0.21.0", "0.22.0", off(("NixlConnector",)), True, False),
    Gate("events", "0.19.1", "0.20.0", off((), events=True), True, False),
    Gate("what isn't vLLM's", "0.7.3", "0.8.0", on_its_own, False, True),
    Gate("images in the profile", "0.7.3", "0.8.0", encoding, False, True),
    Gate("sizes of heads", "0.32.0", "0.33.0", of_small_heads, "TRITON_ATTN", "FLEX_ATTENTION"),
    Gate("a length of its own", "0.8.2", "0.8.3", longest, 32_768, 65_536),
)  # fmt: skip

REFUSALS = (
    Gate(
        "fp8 beside an encoder",
        "0.23.0",
        "0.24.0",
        refused(model(WHISPER), "a100-80", "fp8"),
        None,
        "Triton",
    ),
    Gate(
        "all of the memory", "0.9.0", "0.9.1", refused(load_model("llama-3-8b"), utilization=1.0), None, "Free memory"
    ),
    Gate("phi3's yarn", "0.23.0", "0.24.0", refused(model(PHI3, rope_scaling=YARN)), None, "no long_factor"),
    Gate(
        "rotations",
        "0.11.2",
        "0.12.0",
        refused(model(QWEN, rope_scaling={"rope_type": "x", "factor": 2.0})),
        None,
        "rotary",
    ),
    Gate("drafts by itself", "0.9.2", "0.10.0", refused(PREDICTING, speculative_tokens=1), None, "prediction layers"),
    Gate("drafts by a model", "0.9.2", "0.10.0", refused(DRAFTED, speculative_tokens=2), None, "no other model"),
    Gate("the other 16-bit format", "0.32.0", "0.33.0", refused(load_model("llama-3-8b"), kv="fp16"), None, "float16"),
)
"""Those that refuse since."""

ALLOWED = (
    Gate("drafts by a model again", "0.14.1", "0.15.0", refused(DRAFTED, speculative_tokens=2), "no other model", None),
    Gate("bfloat16 on Volta", "0.9.0", "0.9.1", refused(load_model("llama-3-8b"), "v100-sxm-32"), "Bfloat16", None),
    Gate("no class named", "0.11.0", "0.11.1", refused(model({**QWEN, "architectures": None})), "names no class", None),
)
"""Those that refuse no longer."""


def name(gate: Gate) -> str:
    return gate.name


@pytest.mark.parametrize("gate", GATES, ids=name)
def test_what_a_release_does_otherwise(gate: Gate):
    assert (gate.observe(parse(gate.before)), gate.observe(parse(gate.since))) == (gate.was, gate.becomes)


@pytest.mark.parametrize("gate", [*REFUSALS, *ALLOWED], ids=name)
def test_what_a_release_refuses(gate: Gate):
    for release, said in ((gate.before, gate.was), (gate.since, gate.becomes)):
        found = gate.observe(parse(release))
        assert found is None if said is None else str(said) in str(found), release


def test_the_backend_of_the_library():
    """0.7.2 has TransformersModel in its registry, 0.7.1 hasn't."""
    made = replace(load_model("llama-3-8b"), architectures=("HeliumForCausalLM",))
    assert served.doubt(made, (0, 7, 1)) is None
    assert "Transformers library" in (served.doubt(made, (0, 7, 2)) or "")


@pytest.mark.parametrize(
    ("release", "drafted", "gib", "blocks"),
    [
        # 64 tokens x 78 layers x (656 + 132 B), a prediction layer more where tokens are drafted
        ((0, 23, 0), 0, 28.74, 7_844), ((0, 23, 0), 5, 24.257, 6_537),  # printed as 24.26
        # 57 of the layers have no indexer since
        ((0, 24, 0), 0, 28.74, 8_939),
    ],
)  # fmt: skip
def test_layers_that_take_an_earlier_choice_have_indexers_until_0_23(release, drafted, gib, blocks):
    """GLM-5.2-FP8, of the same layers, on 8 H20s with 0.23.0 printed 502,016 tokens (7,844 blocks) of 28.74 GiB, and 418,368 (6,537) of 24.26 with drafts."""
    glm = load_model("glm-5.3")
    setup = Setup(
        glm, load_gpu("h200"), Parallel(tp=8), parse_kv_format("fp8"), Options(speculative_tokens=drafted), 262_144
    )
    found = Vllm(release).start(setup).capacity(int(gib * 2**30))
    assert (found.blocks, found.block_tokens) == (blocks, 64)


def test_indexers_that_nobody_uses_are_loaded_until_0_23():
    """57 on every rank: 32 x 128 queries of 2,048 numbers, a key of 128 and 32 weights of 6,144, and the key's norm, in 16 bit."""
    glm = load_model("glm-5.3")
    setup = Setup(glm, load_gpu("h200"), Parallel(tp=8), parse_kv_format("fp8"), Options(), 8192)
    before, since = (Vllm(release).start(setup).budget().weights.bytes.likely for release in ((0, 23, 0), (0, 24, 0)))
    assert before - since == pytest.approx(57 * 2 * (4096 * 2048 + 160 * 6144 + 2 * 128), rel=1e-3)
