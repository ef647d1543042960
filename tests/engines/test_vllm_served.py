"""Which classes and flags a release knows: what vLLM's own code did with them, and its registries release by release."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvplan import api
from kvplan.arch.extras import with_draft
from kvplan.arch.model import Origin
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Options, Setup
from kvplan.engines.vllm.memory import adapters
from kvplan.engines.vllm.policy import Vllm
from kvplan.engines.vllm.starts import nameless, quantizers, served
from kvplan.engines.vllm.tables.changes import rules
from kvplan.engines.vllm.tables.spans import holds, last
from kvplan.engines.vllm.tables.unregistered import RUNS_IN
from kvplan.engines.vllm.tables.versions import parse
from kvplan.errors import NotServed, NotSplit, Unsupported, UsageError
from kvplan.families import read
from kvplan.sources.gpus import load_gpu
from kvplan.sources.models import load_model

LLAMA = load_model("llama-3-8b")
H100 = load_gpu("h100")


def named(*names):
    return replace(LLAMA, architectures=names)


def served_by(version, *names):
    try:
        served.check(named(*names), parse(version))
    except Unsupported:
        return False
    return True


@pytest.mark.parametrize(
    "name",
    [
        "XGLMForCausalLM", "GPTNeoForCausalLM", "CodeGenForCausalLM", "OpenAIGPTLMHeadModel",
        "PegasusForConditionalGeneration", "BlenderbotForConditionalGeneration", "M2M100ForConditionalGeneration",
        "T5ForConditionalGeneration", "RecurrentGemmaForCausalLM", "BertLMHeadModel", "Rwkv6ForCausalLM", "InventedForCausalLM",
    ],
)  # fmt: skip
def test_what_vllm_033_fails_to_build_is_refused_by_name(name):
    with pytest.raises(Unsupported, match=name) as refused:
        served.check(named(name), parse("0.33.0"))
    assert refused.value.problem.hint


@pytest.mark.parametrize("name", ["BioGptForCausalLM", "CTRLLMHeadModel", "HeliumForCausalLM", "PersimmonForCausalLM"])
def test_what_the_transformers_backend_was_seen_to_build_is_served(name):
    served.check(named(name), RUNS_IN)
    assert "runs it through its Transformers backend" in served.doubt(named(name), RUNS_IN)
    assert "unverified" in served.doubt(named(name), (0, 32, 0))


@pytest.mark.parametrize(
    ("name", "without", "having"),
    [
        ("LlamaForCausalLM", None, "0.6.0"), ("Qwen2VLForConditionalGeneration", "0.6.1", "0.6.2"),
        ("CohereForCausalLM", "0.6.2", "0.6.3"), ("FunASRForConditionalGeneration", "0.33.0", None),
    ],
)  # fmt: skip
def test_a_class_is_cut_into_stages_from_a_release_on(name, without, having):
    """Source: _PP_SUPPORTED_MODELS of config.py to 0.6.2, SupportsPP among a class's bases since."""
    for version, refused in ((without, True), (having, False)):
        if version is not None:
            own = Vllm(parse(version))
            setup = Setup(named(name), H100, Parallel(pp=2), own.kv_format(LLAMA, None, H100), Options(), 8192)
            try:
                own.start(setup)
            except NotSplit:
                assert refused
            else:
                assert not refused


@pytest.mark.parametrize(
    ("name", "without", "having"),
    [
        ("Qwen3ForCausalLM", "0.8.3", "0.8.4"), ("Gemma3ForCausalLM", "0.7.3", "0.8.0"),
        ("GptOssForCausalLM", "0.10.0", "0.10.1"), ("DeepseekV32ForCausalLM", "0.10.2", "0.11.0"),
        ("QWenLMHeadModel", "0.24.0", "0.23.0"), ("Phi4FlashForCausalLM", "0.11.0", "0.10.2"),
    ],
)  # fmt: skip
def test_a_class_is_served_from_its_first_release_to_its_last(name, without, having):
    assert served_by(having, name)
    with pytest.raises(Unsupported) as refused:
        served.check(named(name), parse(without))
    assert having in refused.value.problem.hint


@pytest.mark.parametrize(
    ("whole", "without", "having"),
    [("gemma4", "0.18.1", "0.19.0"), ("gpt_oss", "0.10.0", "0.10.1"), ("qwen3", "0.8.3", "0.8.4")],
)
def test_a_config_that_names_no_class_is_served_as_its_type_s(whole, without, having):
    """models/registry.py of each; transformers_utils/config.py takes the class of MODEL_MAPPING_NAMES."""
    model = replace(LLAMA, architectures=(), whole=whole)
    for version in (having, "0.33.0"):
        served.check(model, parse(version))
    with pytest.raises(Unsupported, match=f"vLLM {without} doesn't serve") as refused:
        served.check(model, parse(without))
    assert having in refused.value.problem.hint
    assert f"names no class, and this is its model_type's ({whole})" in refused.value.problem.cause


def test_a_type_that_the_transformers_backend_runs_is_served_without_a_name():
    model = replace(LLAMA, architectures=(), whole="dots1")
    served.check(model, RUNS_IN)
    assert "runs it through its Transformers backend" in served.doubt(model, RUNS_IN)


def test_a_model_that_is_described_is_not_judged_by_its_class():
    served.check(replace(LLAMA, architectures=(), whole="invented"), parse("0.8.5"))


SMALL = {
    "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4,
    "vocab_size": 2048, "max_position_embeddings": 8192,
}  # fmt: skip


@pytest.mark.parametrize(
    ("model_type", "version", "said"),
    [
        # asked of vLLM 0.33, which runs TransformersEmbeddingModel for these, or refuses
        ("llama4_text", "0.33.0", "Llama4ForCausalLM"), ("qwen3_5_text", "0.33.0", "Qwen3_5ForCausalLM"),
        ("gemma4_text", "0.33.0", "Gemma4ForCausalLM"), ("qwen3_vl_text", "0.33.0", "names no class"),
        # "No model architectures are specified": the library has no class for the type, or the release doesn't ask it
        ("kimi_k2", "0.33.0", "No model architectures are specified"),
        ("llama", "0.11.0", "0.11.1"), ("llama", "0.8.5", "No model architectures are specified"),
        ("llama", "0.33.0", None), ("qwen3", "0.11.1", None),
    ],
)  # fmt: skip
def test_a_config_without_a_class_is_served_only_where_its_type_s_is(model_type, version, said):
    """transformers_utils/config.py get_config of 0.8.5, 0.11.0, 0.11.2 and 0.33; models/registry.py."""
    model = replace(read({**SMALL, "model_type": "llama"}, Origin("a checkpoint", "a test")), whole=model_type)
    if said is None:
        served.check(model, parse(version))
        return
    with pytest.raises(Unsupported) as refused:
        served.check(model, parse(version))
    problem = refused.value.problem
    assert said in f"{problem.what} {problem.cause} {problem.hint}"
    assert "architectures" in problem.hint or "--engine vllm" in problem.hint


@pytest.mark.parametrize(("whole", "taken"), [("gemma3", False), ("gemma3_text", True)])
def test_a_class_for_text_alone_is_not_made_of_a_config_in_parts(whole, taken):
    """vLLM 0.33: Gemma3Model stands for Gemma3ForCausalLM, and 'Gemma3Config' object has no attribute 'vocab_size'."""
    text = {"model_type": "gemma3_text", "head_dim": 256, "sliding_window": 1024, **SMALL}
    config = text if taken else {"model_type": "gemma3", "text_config": text, "vision_config": None}
    model = read({key: value for key, value in config.items() if value is not None}, Origin("a checkpoint", "a test"))
    assert model.whole == whole
    if taken:
        served.check(model, parse("0.33.0"))
    else:
        with pytest.raises(Unsupported) as refused:
            served.check(model, parse("0.33.0"))
        assert "Gemma3ForCausalLM" in refused.value.problem.cause
        assert "Gemma3ForConditionalGeneration" in refused.value.problem.hint


def test_a_class_that_a_part_names_is_not_the_whole_s():
    """vLLM 0.33 of Kimi-K2.5 without its outermost `architectures`: Model architectures ['Kimi_K25Model'] are not supported."""
    text = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], **SMALL}
    model = read({"model_type": "kimi_k25", "text_config": text}, Origin("a checkpoint", "a test"))
    with pytest.raises(Unsupported, match="Kimi_K25Model"):
        served.check(model, parse("0.33.0"))


@pytest.mark.parametrize(("version", "taken"), [("0.20.0", False), ("0.21.0", True), ("0.33.0", True)])
def test_a_config_class_of_vllm_s_own_may_name_one(version, taken):
    """transformers_utils/configs/deepseek_vl2.py of 0.20.0 and 0.21.0."""
    text = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], **SMALL}
    model = read({"model_type": "deepseek_vl_v2", "language_config": text}, Origin("a checkpoint", "a test"))
    if taken:
        served.check(model, parse(version))
    else:
        with pytest.raises(Unsupported):
            served.check(model, parse(version))


def test_any_class_of_the_config_will_do():
    assert served_by("0.33.0", "InventedForCausalLM", "LlamaForCausalLM")


def test_embedders_are_made_of_the_class_that_generates():
    assert served_by("0.33.0", "MistralForSequenceClassification")


def test_a_build_on_its_way_to_a_release_may_have_its_classes():
    assert served_by("0.18.2", "Gemma4ForConditionalGeneration")


def test_a_release_that_was_not_read_is_not_held_to_the_newest_registry():
    served.check(named("InventedForCausalLM"), parse("0.33.0"), verified=False)


def test_by_default_what_vllm_refuses_is_planned_by_the_formula():
    report = api.fit(named("XGLMForCausalLM"), "h100", api.FitQuestion(context=2048))
    assert report.engine.name == "ideal"
    assert any("XGLMForCausalLM" in said for said in report.warnings)


def test_a_class_that_drafts_is_not_served_alone():
    """vLLM 0.33 models/llama_eagle3.py and qwen3_dflash.py assert that there is a speculative config."""
    for name in ("LlamaForCausalLMEagle3", "DFlashDraftModel", "DeepSeekMTPModel"):
        with pytest.raises(Unsupported, match="alone"):
            served.check(named(name), parse("0.33.0"))


def test_a_draft_s_class_is_asked_too():
    drafted = replace(named("LlamaForCausalLM"), drafter=named("DominoDraftModel"))
    with pytest.raises(Unsupported, match="DominoDraftModel, which is to draft"):
        served.check(drafted, parse("0.33.0"))
    served.check(replace(drafted, drafter=named("LlamaForCausalLMEagle3")), parse("0.33.0"))


@pytest.mark.parametrize(
    ("version", "taken"), [("0.9.2", True), ("0.10.0", False), ("0.14.1", False), ("0.15.0", True)]
)
def test_releases_between_two_engines_let_no_model_draft(version, taken):
    """config/speculative.py of 0.11 to 0.14.1: `Speculative decoding with draft model is not supported yet`."""
    model = with_draft(LLAMA, load_model("llama-3.2-1b"))
    if taken:
        served.check(model, parse(version))
    else:
        with pytest.raises(Unsupported, match="lets no other model draft"):
            served.check(model, parse(version))


def test_a_type_that_nobody_has_code_for():
    """transformers_utils/config.py get_config; with auto_map the checkpoint's own code is asked."""
    strange = {"model_type": "never_heard_of", **SMALL}
    own = {**strange, "auto_map": {"AutoConfig": "configuration.Own"}, "architectures": ["LlamaForCausalLM"]}
    for config, read_by in ((strange, False), (own, True)):
        model = read(config, Origin("a checkpoint", "a test"))
        if read_by:
            served.check(model, parse("0.33.0"))
        else:
            with pytest.raises(Unsupported, match="can't read the config"):
                served.check(model, parse("0.33.0"))


def test_a_block_without_a_method_is_not_seen():
    """transformers_utils/model_arch_config_convertor.py reads ModelOpt's algorithm from a nested block alone."""
    block = {"quant_algo": "FP8", "ignore": ["lm_head"], "producer": {"name": "modelopt", "version": "0.31.0"}}
    for extra, seen in (({}, False), ({"quant_method": "modelopt"}, True)):
        config = {key: value for key, value in GPTQ.items() if key != "quantization_config"}
        model = read({**config, "quantization_config": {**block, **extra}}, Origin("a checkpoint", "a test"))
        if seen:
            quantizers.check(model, rules(parse("0.33.0")))
        else:
            with pytest.raises(Unsupported, match="doesn't see"):
                quantizers.check(model, rules(parse("0.33.0")))


def test_a_span_ends_with_the_last_of_several():
    assert last("0.6.0-0.7.2 0.9.0-0.10.1") == parse("0.10.1")
    assert last("0.6.0-0.7.2 0.9.0") is None


def test_a_span_holds_its_ends_and_all_between():
    assert holds("0.6.0-0.7.2 0.9.0", parse("0.9.1"))
    assert not holds("0.6.0-0.7.2 0.9.0", parse("0.8.0"))


GPTQ = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 11008,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "max_position_embeddings": 2048,
    "vocab_size": 32000, "torch_dtype": "float16",
}  # fmt: skip


@pytest.mark.parametrize(
    ("version", "order", "group", "taken"),
    [
        ("0.33.0", True, 128, False), ("0.30.0", True, 128, False), ("0.29.0", True, 128, True),
        ("0.33.0", True, -1, True), ("0.33.0", False, 128, True),
    ],
)  # fmt: skip
def test_weights_in_the_order_of_activations(version, order, group, taken):
    stored = {"quant_method": "gptq", "bits": 4, "group_size": group, "desc_act": order, "sym": True}
    model = read({**GPTQ, "quantization_config": stored}, Origin("wizard", "a test"))
    question = api.FitQuestion(context=2048, engine=f"vllm@{version}")
    if taken:
        assert api.fit(model, "h100", question).engine.name == "vllm"
    else:
        with pytest.raises(Unsupported, match="wizard"):
            api.fit(model, "h100", question)


@pytest.mark.parametrize(
    ("name", "blocks"),
    [("llama-3.1-8b", 145635), ("gemma-2-27b", 101311), ("mistral-7b-v0.1", 145635), ("granite-4.0-h-tiny", 26479), ("gpt-oss-20b", None)],
)  # fmt: skip
def test_nvfp4_caches_on_hopper(name, blocks):
    """vLLM 0.33's own planner on an H100 with FlashInfer: TP 2, 40 GiB, 4,096 tokens."""
    question = api.FitQuestion(
        context=4096, engine="vllm@0.33.0", kv_dtype="nvfp4", parallel=api.Parallel(tp=2), options=api.Options(kv_memory=40 << 30)
    )  # fmt: skip
    if blocks is None:
        with pytest.raises(UsageError, match="nvfp4"):
            api.fit(load_model(name), "h100", question)
    else:
        assert api.fit(load_model(name), "h100", question).reserved.blocks == blocks
    with pytest.raises(UsageError, match="nvfp4"):
        api.fit(load_model(name), "h100", replace(question, engine="vllm@0.31.0"))


@pytest.mark.parametrize(("method", "taken"), [("fp8", False), ("awq", True)])
def test_e5m2_beside_fp8_checkpoints(method, taken):
    stored = {"quant_method": method, "bits": 4, "group_size": 128, "zero_point": True, "activation_scheme": "dynamic"}
    model = read({**GPTQ, "quantization_config": stored}, Origin("stored", "a test"))
    question = api.FitQuestion(context=2048, engine="vllm", kv_dtype="fp8_e5m2")
    if taken:
        assert api.fit(model, "l40s", question).kv_dtype.k == "fp8_e5m2"
    else:
        with pytest.raises(UsageError, match="e5m2"):
            api.fit(model, "l40s", question)


@pytest.mark.parametrize("method", ["bitsandbytes", "eetq", "hqq", "aqlm"])
def test_methods_of_quantization_that_no_list_has(method):
    """vLLM 0.33 asked of a Llama with such a config: `Unknown quantization method: bitsandbytes`."""
    config = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336,
        "num_hidden_layers": 2, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000,
        "max_position_embeddings": 8192, "torch_dtype": "bfloat16", "quantization_config": {"quant_method": method, "bits": 4},
    }  # fmt: skip
    model = read(config, Origin("a model", "a test"))
    with pytest.raises(Unsupported, match="doesn't load") as refused:
        Vllm().start(Setup(model, None, Parallel(), Vllm().kv_format(model, None, None), Options(), 8192))
    assert refused.value.problem.cause == f"Unknown quantization method: {method}"


LAYERS = {"num_attention_heads": 8, "num_key_value_heads": 4, "hidden_size": 1024, "head_dim": 128, "intermediate_size": 2048,
          "vocab_size": 32000, "max_position_embeddings": 32768, "torch_dtype": "bfloat16"}  # fmt: skip


def test_qwen2_with_windows_on_some_layers():
    """vLLM 0.33 asked of Qwen2-7B with max_window_layers 10: `Sliding window for some but all layers is not supported`."""
    model = read(
        {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], **LAYERS, "num_hidden_layers": 8,
         "use_sliding_window": True, "sliding_window": 4096, "max_window_layers": 3},
        Origin("a model", "a test"),
    )  # fmt: skip
    with pytest.raises(Unsupported) as refused:
        Vllm().start(Setup(model, None, Parallel(), Vllm().kv_format(model, None, None), Options(), 8192))
    assert refused.value.problem.cause == "Sliding window for some but all layers is not supported"


def test_gpt_oss_alternates_whatever_its_list_says():
    """Two windows to a full layer in the list; models/gpt_oss.py gives even layers windows: 3 of 6."""
    listed = ["sliding_attention", "sliding_attention", "full_attention"] * 2
    model = read(
        {"model_type": "gpt_oss", "architectures": ["GptOssForCausalLM"], **LAYERS, "num_hidden_layers": 6,
         "layer_types": listed, "sliding_window": 128, "num_local_experts": 4, "num_experts_per_tok": 2},
        Origin("a model", "a test"),
    )  # fmt: skip
    made = Vllm().start(Setup(model, None, Parallel(), Vllm().kv_format(model, None, None), Options(), 8192)).made
    kinds = {group.layers[0].spec.kind: len(group.layers) for group in made.layout.groups}
    assert kinds == {"full": 3, "sliding": 3}


@pytest.mark.parametrize(
    ("name", "version", "taken"),
    [
        ("llama-3-8b", "0.33.0", True), ("mamba2-2.7b", "0.33.0", False), ("kimi-linear-48b-a3b", "0.33.0", False),
        ("deepseek-v3", "0.10.1", False), ("deepseek-v3", "0.10.2", True),
    ],
)  # fmt: skip
def test_adapters_of_classes_that_have_room_for_them(name, version, taken):
    """From the classes of both releases: SupportsLoRA among their bases or not."""
    engine, model = Vllm(parse(version)), load_model(name)
    asked = (model, None, Parallel(), engine.kv_format(model, None, None), Options(max_loras=1), 2048)
    if taken:
        assert engine.start(Setup(*asked)).made.stages
        return
    with pytest.raises(Unsupported) as refused:
        engine.start(Setup(*asked))
    assert refused.value.problem.cause == f"{model.architectures[0]} does not support LoRA yet."


def adapted(vocabulary: int, version: str, **options: object) -> str | None:
    """What vLLM says of adapters of a Llama with so many tokens, None where it takes them."""
    model = read(
        {"model_type": "llama", "architectures": ["LlamaForCausalLM"], **LAYERS, "num_hidden_layers": 4, "vocab_size": vocabulary},
        Origin("a model", "a test"),
    )  # fmt: skip
    engine = Vllm(parse(version))
    try:
        engine.start(
            Setup(model, None, Parallel(), engine.kv_format(model, None, None), Options(max_loras=1, **options), 2048)
        )
    except Unsupported as refused:
        return f"{refused.problem.cause} {refused.problem.hint}"
    return None


@pytest.mark.parametrize(
    ("vocabulary", "version", "words"),
    [
        (258_048, "0.33.0", ()), (258_049, "0.33.0", ("vocab size must be <= 258048", "--lora-targets down_proj,gate_proj,k_proj")),
        (257_025, "0.16.0", ("vocab size must be 32000 >= vocab_size <= 257024", "leave out --max-loras")), (257_024, "0.16.0", ()),
        (257_025, "0.18.1", ()), (262_144, "0.23.0", ("vocab size must be <= 258048", "leave out --max-loras")),
    ],
)  # fmt: skip
def test_heads_that_are_too_large_for_adapters(vocabulary, version, words):
    """LogitsProcessorWithLoRA.create_lora_weights of 0.18.1 and 0.33; before 0.17 pull request 34773 hadn't raised its limit."""
    said = adapted(vocabulary, version)
    assert (said is not None) is bool(words)
    assert all(word in said for word in words)


def test_a_large_head_that_is_no_target_is_left_alone():
    assert adapted(262_144, "0.33.0", lora_targets=("q_proj",)) is None
    assert "258048" in adapted(262_144, "0.33.0", lora_targets=("q_proj", "lm_head"))


@pytest.mark.parametrize(
    ("name", "version", "ends"),
    [
        ("LlamaBidirectionalModel", "0.33.0", ("embedding", "head")), ("LlamaBidirectionalModel", "0.20.0", ("embedding", "head")),
        ("LlamaBidirectionalForSequenceClassification", "0.33.0", ("embedding", "head")),
        ("Eagle3LlamaForCausalLM", "0.33.0", ("embedding", "head")), ("EagleMistralForCausalLM", "0.33.0", ()),
    ],
)  # fmt: skip
def test_ends_of_classes_whose_base_is_named_otherwise(name, version, ends):
    """models/llama.py: _LlamaBidirectionalModelBase = as_embedding_model(LlamaForCausalLM); Mistral's embedding_modules are empty."""
    model = read(
        {"model_type": "llama", "architectures": [name], **LAYERS, "num_hidden_layers": 4},
        Origin("a model", "a test"),
    )
    release = parse(version)
    adapters.check(model, Options(max_loras=1), release)
    assert adapters.adapted_ends(model, release) == ends
    assert not adapters.unsure_ends(model, release)


@pytest.mark.parametrize(
    ("whole", "written"),
    [
        # asked of vLLM 0.33, which runs these with --runner pooling --convert embed
        ("phi3", "Phi3ForCausalLM"), ("qwen3_vl", "Qwen3VLForConditionalGeneration"), ("mistral3", "Mistral3ForConditionalGeneration"),
        ("gemma4", "Gemma4ForConditionalGeneration"), ("qwen3", "Qwen3ForCausalLM"),
        # registered to generate text under the base class's name
        ("llama", None), ("mistral", None), ("qwen2", None), ("gemma2", None),
    ],
)  # fmt: skip
def test_a_config_without_a_class_is_an_embedder_s(whole, written):
    model = replace(read({**SMALL, "model_type": "llama"}, Origin("a checkpoint", "a test")), whole=whole)
    said = nameless.caution(model, RUNS_IN)
    assert (said is None) == (written is None)
    assert written is None or f'"architectures": ["{written}"]' in said
    assert nameless.caution(replace(model, traits=(), architectures=("LlamaForCausalLM",)), RUNS_IN) is None


def test_an_embedder_that_nothing_is_known_of_is_not_called_refused():
    model = replace(read({**SMALL, "model_type": "llama"}, Origin("a checkpoint", "a test")), whole="qwen3_vl_text")
    with pytest.raises(
        Unsupported, match=r"kvplan doesn't know whether vLLM 0\.33\.0 runs Qwen3VLTextModel"
    ) as refused:
        served.check(model, RUNS_IN)
    assert not isinstance(refused.value, NotServed)
