"""What vLLM 0.33 does for some model classes and not for others, as tables by the class that a config names.

Source: vLLM 0.33 model_executor/models/registry.py, models/config.py and the model files named beside each table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from kvplan.arch.layers import Compressed, Latent, Layer
from kvplan.arch.model import Model
from kvplan.arch.traits import IMAGE_PREFIX, NAMELESS, TEXT_ALONE
from kvplan.engines.vllm.tables.registered import CLASSES, DRAFTS
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.engines.vllm.tables.spans import holds
from kvplan.engines.vllm.tables.versions import Version

POOLING_SUFFIXES = (
    "ForTextEncoding", "EmbeddingModel", "ForSequenceClassification", "ForTokenClassification",
    "ForAudioClassification", "ForImageClassification", "ForVideoClassification", "ClassificationModel",
    "ForRewardModeling", "RewardModel", "Model",
)  # fmt: skip
"""Class names that vLLM serves as embedders or classifiers: no batches overlap. Source: config/model.py."""

GENERATING = (
    "ChatGLMModel", "Qwen2_5OmniModel", "UltravoxModel", "MossAudioModel", "InternVLChatModel", "SkyworkR1VChatModel",
    "NVLM_D_Model", "H2OVLChatModel", "DeepseekV3BidirectionalModel", "Gemma2Model", "LlamaModel", "MistralModel",
    "Qwen2Model",
)  # fmt: skip
"""Classes that generate although their names end like an embedder's: those registered as a class for text generation.

Source: config/model.py _get_default_runner_type, models/registry.py."""

WIDER_WINDOW: Mapping[str, str] = dict.fromkeys(
    ("Cohere2ForCausalLM", "Cohere2MoeForCausalLM", "Cohere2VisionForConditionalGeneration"), "0.29.0"
)
"""Classes whose windows hold a token more than the config's number, and the releases. Source: models/commandr.py, cohere2_moe.py of
0.28.0 and 0.29.0."""

SCHEMELESS = (
    "BailingMoeForCausalLM", "BailingMoeV2ForCausalLM", "JambaForCausalLM", "JambaForSequenceClassification",
    "Lfm2MoeForCausalLM", "Plamo3ForCausalLM", "Step3TextForCausalLM", "Step3VLForConditionalGeneration", "Zamba2ForCausalLM",
)  # fmt: skip
"""Attention built without the quantization's settings: a compressed-tensors kv_cache_scheme doesn't reach it.

Source: models/bailing_moe.py, jamba.py, lfm2_moe.py, plamo3.py, step3_text.py, zamba2.py; layers/attention/attention.py.
"""

OWN_FORMAT = ("FalconForCausalLM", "RWForCausalLM")
"""Attention built without the cache's settings: --kv-cache-dtype doesn't reach it. Source: models/falcon.py."""

ALTERNATES = ("GptOssForCausalLM",)
"""Windows on even layers, full length on odd ones. Source: models/gpt_oss.py."""

FP8_ON_BLACKWELL: Mapping[str, str] = {
    "GlmMoeDsaForCausalLM": "0.32.0", "Glm5NextForCausalLM": "0.33.0", "Glm5NextForConditionalGeneration": "0.33.0",
}  # fmt: skip
"""Where `auto` means fp8 on compute capability 10, and the releases that do so. Source: models/config.py of 0.16 to 0.33."""

FP8_UNASKED: Mapping[str, str] = {"DeepseekV32ForCausalLM": "0.11.0-0.11.0"}
"""Where it does so everywhere. Source: models/config.py of 0.11.0 and 0.11.1."""

PACKS_FP8: Mapping[str, str] = {"DeepseekV32ForCausalLM": "0.11.0-0.17.1"}
"""Classes whose sparse latents fp8 is made a packed format for; since 0.18 kernels do that for any. Source: as above."""

SHARES_CACHE = ("Gemma3n", "Gemma4", "DiffusionGemma", "Flint", "MuseSpark", "Step5", "HYV4", "Qwen4Exp")
"""How classes begin whose layers may read an earlier layer's cache; the others give every layer its own."""

LEARNED_SINKS = ("GptOssForCausalLM",)
"""Classes whose heads have sinks of their own. Source: models/gpt_oss.py."""

LONG_GRAPHS = ("GptOssForCausalLM",)
"""Classes whose CUDA graphs are captured for up to 1,024 tokens, not 512. Source: models/config.py of 0.10.1 to 0.33."""

PAGED_STREAMS = ("InklingForConditionalGeneration", "InklingForCausalLM")
"""Classes whose convolutions keep their last inputs in pages, as windows do. Source: vllm/models/inkling/nvidia/sconv_swa_attn.py."""

NO_CHECKPOINTS = ("OlmoHybridForCausalLM",)
"""Classes whose gated delta net hands out no state of its own. Source: layers/mamba/gdn/olmo_gdn_linear_attn.py."""

SEE_BOTH_WAYS = (
    "BagelForConditionalGeneration", "Gemma3ForConditionalGeneration", "Molmo2ForConditionalGeneration",
    "Moondream3ForCausalLM", "HfMoondream", "PaliGemmaForConditionalGeneration",
)  # fmt: skip
"""Classes whose image tokens attend to each other both ways whatever the config says; others have the trait.

Source: transformers_utils/model_arch_config_convertor.py is_mm_prefix_lm."""

LISTS_INDEXERS = ("HYV4ForCausalLM",)
"""Classes that read indexer_types: a layer listed as "shared" has no indexer. Source: models/hy_v4/nvidia/attention.py of 0.29 to 0.33."""

ONE_RANK = ("DoryForCausalLM",)
"""Classes without tensor parallelism. Source: models/dory.py."""

DENSE_BY_SILENCE = ("HYV4ForCausalLM", "HYV4Model")
"""Classes without indexers where the config doesn't list its layers. Source: models/hy_v4/nvidia/attention.py, requested_sparse."""

DRAFT_LIKE_FIRST = (
    "Exaone4_5_ForConditionalGeneration", "ExaoneMoeForCausalLM", "ExaoneMoEForCausalLM",
)  # fmt: skip
"""Classes whose draft layers are built like the model's first layer. Source: models/exaone4_5_mtp.py, exaone_moe.py."""

TEXT_OF_A_WHOLE = ("Gemma3ForCausalLM", "Gemma3nForCausalLM")
"""Classes that generate text from a text model's config alone, and that vLLM takes for a config with a text model in it which
names no class: it dies of a field that is in the part. Those of Gemma 4 and Qwen3.5 look into the part.

Source: models/gemma3.py, gemma3n.py, gemma4.py, qwen3_5.py; asked of vLLM 0.33."""

DRAFT_BY_ONE = ("Exaone4_5_ForConditionalGeneration",)
"""Classes with one draft layer, however many the part with the language model states. Source: models/exaone4_5_mtp.py, which asks
the whole config; asked of vLLM 0.33."""

NAMED_BY_VLLM: dict[str, tuple[str, Version]] = {"deepseek_vl_v2": ("DeepseekVLV2ForCausalLM", (0, 21, 0))}
"""Types whose config class is vLLM's own and names a class where the config doesn't, and since when.

Source: transformers_utils/configs/deepseek_vl2.py of 0.20 to 0.33."""

FEW_SEQUENCES = {"DiffusionGemmaForBlockDiffusion": 8}
"""Classes with a max_num_seqs of their own. Source: models/config.py."""

NO_FLOAT16 = {
    "gemma2": "0.9.1", "gemma3": "0.9.1", "gemma3_text": "0.10.2", "glm4": "0.9.1", "plamo2": "0.9.1-0.26.0",
}  # fmt: skip
"""Types of whole configs that are not run in float16, and the releases that say so. Source: _FLOAT16_NOT_SUPPORTED_MODELS of
config.py, later config/model.py."""

IN_BFLOAT16 = {
    "gemma2": "0.6.0-0.8.4", "gemma3": "0.6.0-0.8.4", "gemma3_text": "0.6.0-0.8.4", "plamo2": "0.6.0-0.9.0",
}  # fmt: skip
"""Types of whole configs that releases before 0.9.1 run in bfloat16, and no other in float16, where 32 bit or nothing is stated.

Source: _get_and_verify_dtype of config.py of 0.6.4 and 0.7.3 (gemma2), 0.8.5 and 0.9.0 (plamo2); those between were not read."""

BFLOAT16: tuple[int, int] = (8, 0)
"""The first compute capability with bfloat16."""

DRAFT_UNSTATED = ("qwen3_next", "qwen3_5", "deepseek_v3", "longcat_flash")
"""How the types begin that have one draft layer when the config states none. Source: models/qwen3_next_mtp.py,
longcat_flash_mtp.py."""


def in_float16(whole: str, release: Version) -> bool:
    """Whether a release runs models of a config's type in float16."""
    return not holds(NO_FLOAT16.get(whole, ""), release)


def is_pooling(model: Model) -> bool:
    """Whether vLLM serves the model as an embedder or a classifier; one of no class that is known is taken for one."""
    name = next(iter(classes(model)), None)
    if name is None:
        return True
    return name.endswith(POOLING_SUFFIXES) and name not in GENERATING


def classes(model: Model) -> tuple[str, ...]:
    """Names of the classes that the config may mean: those it names, else the one that vLLM takes for its type.

    One that vLLM doesn't register stands for those that it tries in its place too.
    """
    return _classes(own_names(model), model.whole)


def own_names(model: Model) -> tuple[str, ...]:
    """The classes that the config as a whole names; vLLM doesn't ask its parts."""
    return () if NAMELESS in model.traits else model.architectures


@cache
def _classes(names: tuple[str, ...], whole: str) -> tuple[str, ...]:
    if not names:
        from kvplan.engines.vllm.tables.nameless import WHOLE

        own, _ = NAMED_BY_VLLM.get(whole, (WHOLE.get(whole), None))
        names = (own,) if own is not None else ()
    return tuple(each for name in names for each in (name, *stand_ins(name)))


def stand_ins(name: str) -> tuple[str, ...]:
    """Classes that an embedder or a classifier is made of, where a release doesn't register it itself.

    Source: models/registry.py _normalize_arch; config/model.py _SUFFIX_TO_DEFAULTS.
    """
    suffix = next((suffix for suffix in POOLING_SUFFIXES if name.endswith(suffix)), None)
    if suffix is None:
        return ()
    return tuple(made for end in MADE_OF if (made := name.removesuffix(suffix) + end) in CLASSES)


MADE_OF = ("ForCausalLM", "ForConditionalGeneration", "ChatModel", "LMHeadModel")
"""Ends of the names of classes that embedders and classifiers are made of."""


def named(model: Model, names: tuple[str, ...]) -> bool:
    """Whether the config means one of these classes."""
    return not set(classes(model)).isdisjoint(names)


def named_in(model: Model, names: Mapping[str, str], release: Version) -> bool:
    """Whether the config means a class that a table has for the release."""
    return any(holds(names.get(name, ""), release) for name in classes(model))


def compresses(model: Model) -> bool:
    """Whether layers keep compressed entries."""
    return model.has(Compressed)


def packs(model: Model, rules: Rules) -> bool:
    """Whether pages of all sizes lie side by side in a block: since 0.29 the backend of an indexer must ask for that.

    Source: vLLM 0.29 and 0.33 v1/attention/backends/mla/indexer.py DeepseekV4IndexerBackend, _get_packed_kv_cache_groups.
    """
    return compresses(model) and (rules.tuples or indexes_entries(model.layers))


def indexes_entries(layers: Iterable[Layer]) -> bool:
    """Whether an indexer chooses among compressed entries in one of the layers."""
    return any(
        isinstance(cache, Compressed) and cache.indexer is not None for layer in layers for cache in layer.caches
    )


def image_prefix(model: Model, rules: Rules) -> bool:
    """Whether image tokens are taken to attend to each other both ways."""
    if rules.prefix_cleared and TEXT_ALONE in model.traits:
        return False
    return IMAGE_PREFIX in model.traits or named(model, SEE_BOTH_WAYS)


def wider_window(model: Model, release: Version) -> int:
    """Tokens that every window holds beyond what the config says."""
    return int(named_in(model, WIDER_WINDOW, release))


def sparse_latents(model: Model) -> bool:
    """Whether an indexer chooses which latents a layer reads."""
    return any(isinstance(cache, Latent) and cache.topk is not None for cache, _ in model.distinct)


def draft_longest(model: Model) -> int | None:
    """Tokens that the model's draft model serves; None without one, without a limit, and for a head on its positions."""
    drafter = model.drafter
    if drafter is None or not DRAFTS.isdisjoint(drafter.architectures):
        return None
    return drafter.context.tokens
