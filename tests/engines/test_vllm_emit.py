"""What kvplan emits, read back as vLLM's own parser would, and inverses that meet their question."""

from __future__ import annotations

import shlex
from dataclasses import fields

import pytest
import yaml

from kvplan.arch.formats import parse_kv_format
from kvplan.arch.model import Origin
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Capacity, Options, Served, Setup
from kvplan.engines.registry import engine
from kvplan.engines.vllm import emit
from kvplan.engines.vllm.inverse import utilization
from kvplan.engines.vllm.policy import Vllm
from kvplan.errors import UsageError
from kvplan.families import read
from kvplan.manifests import parse
from kvplan.manifests.tree import WorkingTree
from kvplan.sources.gpus import load_gpu
from kvplan.sources.models import load_model

H100 = load_gpu("h100")
LLAMA = load_model("llama-3-70b")
HUB = "meta-llama/Meta-Llama-3-70B"
ONE, PLAIN = Parallel(), Options()


def told(parallel=ONE, kv=None, options=PLAIN, gpu=H100, version="0.33.0", context=8192, model=LLAMA) -> emit.Launch:
    asked = None if kv is None else parse_kv_format(kv)
    return emit.launch(
        engine(f"vllm@{version}").start(Setup(model, gpu, parallel, asked, options, context)), Served(HUB)
    )


def test_serve_line():
    assert emit.serve(told(Parallel(tp=8), "fp8")) == (
        "vllm serve meta-llama/Meta-Llama-3-70B \\\n"
        "  --max-model-len 8192 \\\n"
        "  --tensor-parallel-size 8 \\\n"
        "  --gpu-memory-utilization 0.92 \\\n"
        "  --kv-cache-dtype fp8 \\\n"
        "  --max-num-batched-tokens 8192 \\\n"
        "  --max-num-seqs 1024\n"
    )


def test_requests_that_are_never_admitted_together_need_no_share():
    started = told(Parallel(tp=8), options=Options(max_num_active_seqs=2)).started
    assert 0 < utilization(started, 2) < 1
    with pytest.raises(UsageError, match="3 requests at once are more than max_num_active_seqs, 2 a replica"):
        utilization(started, 3)


COUNTED_INSTEAD = {"weights_per_gpu", "overhead"}
"""Bytes that replace what kvplan would compute: they say nothing that vLLM is told."""

UNTOLD = {"connected"}
"""What more than one value of a flag may mean."""

CHANGED = {
    "utilization": {"utilization": 0.5}, "kv_memory": {"kv_memory": 2**36}, "block_size": {"block_size": 32},
    "max_num_batched_tokens": {"max_num_batched_tokens": 4096}, "max_num_seqs": {"max_num_seqs": 64},
    "prefix_caching": {"prefix_caching": False}, "graphs": {"graphs": False}, "async_scheduling": {"async_scheduling": False},
    "hybrid_manager": {"hybrid_manager": False}, "speculative_tokens": {"speculative_tokens": 2}, "max_loras": {"max_loras": 1},
    "max_lora_rank": {"max_loras": 1, "max_lora_rank": 64}, "lora_targets": {"max_loras": 1, "lora_targets": ("q_proj",)},
    "max_num_active_seqs": {"max_num_active_seqs": 16}, "chunked_prefill": {"chunked_prefill": False},
    "throughput": {"throughput": True}, "all2all_backend": {"all2all_backend": "nixl_ep"}, "second_runner": {"second_runner": False}, "aiter": {"aiter": True},
    "attention_backend": {"attention_backend": "TRITON_ATTN"}, "language_model_only": {"language_model_only": True}, "no_media": {"no_media": ("image", "video")},
}  # fmt: skip
"""Each field of Options with another value than its default, and what that needs beside it."""


@pytest.mark.parametrize("field", sorted({field.name for field in fields(Options)} - COUNTED_INSTEAD - UNTOLD))
def test_no_option_is_dropped_without_a_word(field):
    changed = CHANGED[field]
    without = {name: value for name, value in changed.items() if name != field}
    plain = emit.serve(told(Parallel(tp=8), options=Options(**without)))
    assert emit.serve(told(Parallel(tp=8), options=Options(**changed))) != plain


@pytest.mark.parametrize("field", sorted(UNTOLD))
def test_what_vllm_can_t_be_told_is_refused(field):
    with pytest.raises(UsageError, match=field):
        told(Parallel(tp=8), options=Options(**{field: True}))


@pytest.mark.parametrize(
    ("version", "flag"),
    [
        # argparse.BooleanOptionalAction since 0.8.5; before it StoreBoolean, which takes `true` and `false`
        ("0.33.0", ("--no-enable-chunked-prefill",)),
        ("0.8.5", ("--no-enable-chunked-prefill",)),
        ("0.7.3", ("--enable-chunked-prefill", "false")),
    ],
)
def test_prompts_kept_whole_are_told_as_the_release_takes_it(version, flag):
    words = emit.arguments(told(Parallel(tp=8), options=Options(chunked_prefill=False), version=version))
    assert any(words[at : at + len(flag)] == flag for at in range(len(words)))


@pytest.mark.parametrize(("type_", "said"), [("minicpm_of_ours", True), ("llama", False)])
def test_code_of_a_checkpoint_is_mentioned_where_no_library_has_it(type_, said):
    config = {
        "model_type": type_, "architectures": ["LlamaForCausalLM"], "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 2,
        "num_attention_heads": 16, "num_key_value_heads": 8, "vocab_size": 32000, "max_position_embeddings": 8192,
        "auto_map": {"AutoConfig": "configuration_ours.OurConfig"},
    }  # fmt: skip
    model = read(config, Origin("us/ours", "a test"))
    made = emit.launch(engine("vllm").start(Setup(model, H100, ONE, None, Options(), 8192)), Served("us/ours"))
    assert ("--trust-remote-code" in emit.serve(made)) is said


def test_every_flag_has_its_place():
    options = Options(
        utilization=0.85, block_size=32, max_num_batched_tokens=4096, max_num_seqs=64, prefix_caching=False, graphs=False,
        async_scheduling=False, hybrid_manager=False, speculative_tokens=2,
    )  # fmt: skip
    split = Parallel(tp=8, pp=2, dp=2, ep=16, dcp=2)
    words = emit.arguments(told(split, "fp8", options, model=load_model("qwen3-30b-a3b")))
    line = " ".join(map(shlex.quote, words))
    for part in (
        "--enforce-eager", "--tensor-parallel-size 8", "--pipeline-parallel-size 2", "--data-parallel-size 2",
        "--decode-context-parallel-size 2", "--enable-expert-parallel", "--gpu-memory-utilization 0.85",
        "--kv-cache-dtype fp8", "--block-size 32", "--no-enable-prefix-caching",
        "--disable-hybrid-kv-cache-manager", "--max-num-batched-tokens 4096", "--max-num-seqs 64", "--no-async-scheduling",
        """--speculative-config '{"method": "ngram", "num_speculative_tokens": 2}'""",
    ):  # fmt: skip
        assert part in line
    assert words[0] == HUB


def test_memory_by_hand_replaces_the_share():
    line = emit.serve(told(options=Options(kv_memory=40 * 2**30)))
    assert "--kv-cache-memory-bytes 42949672960" in line
    assert "utilization" not in line


def test_the_share_is_the_versions():
    assert "--gpu-memory-utilization 0.9 " in emit.serve(told(version="0.19.0"))


@pytest.mark.parametrize(
    ("kv", "word"),
    [
        ("bf16", "bfloat16"),
        ("fp8", "fp8"),
        ("nvfp4", "nvfp4"),
        ("fp8_e5m2", "fp8_e5m2"),
        ("fp8_e4m3", "fp8"),
        ("turboquant_3bit_nc", "turboquant_3bit_nc"),
    ],
)
def test_formats_are_spelled_as_vllm_does(kv, word):
    assert emit.spelled(parse_kv_format(kv)) == word


def test_names_are_quoted():
    plain = told()
    odd = emit.launch(plain.started, Served("./my model"))
    assert emit.serve(odd).startswith("vllm serve './my model'")


def test_pod_is_yaml_with_the_same_words():
    made = told(Parallel(tp=8), "fp8", Options(speculative_tokens=1))
    pod = yaml.safe_load(emit.pod(made))
    container = pod["spec"]["containers"][0]
    assert tuple(container["args"]) == emit.arguments(made)
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 8}
    assert container["image"] == "vllm/vllm-openai:v0.33.0"


def test_pod_of_amd_and_of_a_slice():
    assert "amd.com/gpu: 1" in emit.pod(told(gpu=load_gpu("mi300x")))
    assert "nvidia.com/mig-3g.40gb: 1" in emit.pod(told(gpu=load_gpu("h100:3g.40gb")))


def test_a_pod_is_one_node():
    with pytest.raises(UsageError, match="16 GPUs"):
        emit.pod(told(Parallel(tp=8, pp=2)))


@pytest.mark.parametrize(
    "made",
    [told(Parallel(tp=8), "fp8"), told(Parallel(tp=4, dp=2), options=Options(max_num_seqs=77, prefix_caching=False))],
)
def test_check_reads_what_was_emitted(made):
    for text, name in ((emit.serve(made), "run.sh"), (emit.pod(made), "pod.yaml")):
        (command,) = parse(text, name, WorkingTree()).commands
        assert command.remarks == ()
        read = {key[-1]: placed.value for key, placed in command.layer.items()}
        assert read["model"] == HUB
        assert read["context"] == made.chosen.length
        assert read["tp"] == made.setup.parallel.tp
        assert read.get("dp", 1) == made.setup.parallel.dp
        assert float(read["gpu_memory_utilization"]) == made.utilization
        assert int(read["max_num_seqs"]) == made.chosen.sequences


def test_check_reads_that_a_longer_length_is_allowed():
    for text, name in ((emit.serve(told(context=16384)), "run.sh"), (emit.pod(told(context=16384)), "pod.yaml")):
        (command,) = parse(text, name, WorkingTree()).commands
        assert {key[-1]: placed.value for key, placed in command.layer.items()}["allow_long_max_model_len"] == "true"


@pytest.mark.parametrize("name", ["llama-3-8b", "gemma-3-27b", "qwen3.5-35b-a3b", "deepseek-v2-lite"])
@pytest.mark.parametrize("likely", [False, True])
def test_utilization_is_the_least_that_holds_so_many(name, likely):
    model, own = load_model(name), Vllm()
    kv = own.kv_format(model, None, H100)

    def holds(share: float) -> bool:
        options = Options(utilization=share)
        memory = own.start(Setup(model, H100, ONE, None, options, 4096)).budget().kv
        found = own.start(Setup(model, H100, ONE, kv, options, 4096)).capacity(memory.likely if likely else memory.low)
        return isinstance(found, Capacity) and found.max_sequences >= 3

    share = utilization(own.start(Setup(model, H100, ONE, kv, Options(), 4096)), 3, likely=likely)
    assert holds(share)
    assert not holds(share - 0.002)


def test_what_no_share_holds_is_said():
    own = Vllm()
    kv = own.kv_format(LLAMA, None, H100)
    with pytest.raises(UsageError, match="on each GPU"):
        utilization(own.start(Setup(LLAMA, H100, ONE, kv, Options(), 8192)), 1)
    with pytest.raises(UsageError, match="max_num_seqs"):
        utilization(own.start(Setup(LLAMA, H100, ONE, kv, Options(max_num_seqs=4), 8192)), 5)


def test_batches_that_vllm_refuses_are_refused() -> None:
    from kvplan import api
    from kvplan.errors import UsageError

    options = api.Options(max_num_batched_tokens=100, max_num_seqs=256)
    with pytest.raises(
        UsageError, match=r"max_num_batched_tokens \(100\) must be greater than or equal to max_num_seqs \(256\)"
    ):
        api.fit("llama-3-8b", "h100", api.FitQuestion(context=8192, options=options))


def test_a_model_without_prediction_layers_drafts_from_its_text() -> None:
    from kvplan import api

    options = api.Options(speculative_tokens=3)
    question = api.FitQuestion(context=8192, options=options, emit="vllm")
    assert '"method": "ngram"' in (api.fit("llama-3-8b", "h100", question).launch or "")


@pytest.mark.parametrize(
    ("version", "kv", "options", "since"),
    [
        ("0.10.1", None, Options(kv_memory=2**34), "0.10.2"), ("0.8.1", None, Options(speculative_tokens=2), "0.8.2"),
        ("0.19.0", "nvfp4", Options(), "0.20.0"), ("0.10.2", None, Options(max_loras=1, max_lora_rank=1), None),
        ("0.6.3", None, Options(block_size=128), "0.6.4"), ("0.33.0", "fp32", Options(), None),
    ],
)  # fmt: skip
def test_a_release_is_told_only_what_it_knows(version, kv, options, since):
    """From the releases' own arg_utils.py and config."""
    if since is None and kv is None:
        assert "--max-lora-rank 8" in emit.serve(told(kv=kv, options=options, version=version))
        return
    with pytest.raises(UsageError, match=version) as refused:
        emit.serve(told(kv=kv, options=options, version=version))
    assert since is None or since in refused.value.problem.hint


def test_what_a_release_has_not_need_not_be_switched_off():
    off = Options(async_scheduling=False, hybrid_manager=False, prefix_caching=False)
    line = emit.serve(told(options=off, version="0.6.4"))
    assert "async" not in line
    assert "hybrid" not in line
    assert "prefix" not in line
    assert "--no-async-scheduling" in emit.serve(told(options=off, version="0.10.0"))


def test_sixteen_bits_are_auto_before_they_had_a_name():
    assert "kv-cache-dtype" not in emit.serve(told(kv="bf16", version="0.10.2"))
    assert "--kv-cache-dtype bfloat16" in emit.serve(told(kv="bf16", version="0.11.0"))


def drafting(name: str, version: str) -> emit.Launch:
    started = engine(f"vllm@{version}").start(
        Setup(load_model(name), H100, Parallel(tp=8), None, Options(speculative_tokens=1), 4096)
    )
    return emit.launch(started, Served(name))


@pytest.mark.parametrize(
    ("name", "version", "method"),
    [
        ("deepseek-v3", "0.11.0", "mtp"), ("deepseek-v3", "0.10.2", "deepseek_mtp"), ("mimo-7b", "0.10.2", "deepseek_mtp"),
        ("mimo-7b", "0.11.0", "mtp"),
        ("qwen3-next-80b-a3b", "0.10.2", "qwen3_next_mtp"),
    ],
)  # fmt: skip
def test_drafts_are_called_as_the_release_does(name, version, method):
    """Source: SpeculativeConfig.__post_init__ of 0.10.2 and 0.11.0."""
    assert f'"method": "{method}"' in emit.serve(drafting(name, version))


@pytest.mark.parametrize(("name", "version"), [("glm-4.5", "0.10.2"), ("mimo-7b", "0.9.2")])
def test_drafts_that_a_release_has_only_by_a_models_name_are_not_told(name, version):
    """0.10 knows GLM-4.5's layers, but raises "num_speculative_tokens was provided without speculative model"."""
    with pytest.raises(UsageError, match="doesn't draft by method mtp"):
        emit.serve(drafting(name, version))
