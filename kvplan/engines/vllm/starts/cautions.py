"""What a plan deserves a word about: starts that hang on flags which are not part of it."""

from __future__ import annotations

from math import floor

from kvplan.arch.model import Model
from kvplan.arch.traits import ROPE_PARAMETERS, TEXT_ALONE, UNDRAFTED, UNKNOWN_TYPE, UNROTATED
from kvplan.engines.base import Options, Setup
from kvplan.engines.vllm.blocks.drafts import has_drafts
from kvplan.engines.vllm.memory.alone import alone
from kvplan.engines.vllm.settings import Settings, has_state, keeps_ends
from kvplan.engines.vllm.starts import first_engine, nameless, quantizers, served
from kvplan.engines.vllm.tables.items import longest_whole
from kvplan.engines.vllm.tables.own_configs import CONFIGS
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.engines.vllm.tables.spans import holds
from kvplan.engines.vllm.tables.versions import text
from kvplan.units import format_bytes


def cautions(setup: Setup, settings: Settings, rules: Rules) -> tuple[str, ...]:
    """Whole sentences, none where nothing is in doubt."""
    model = setup.model
    said = (
        served.doubt(model, rules.version),
        nameless.caution(model, rules.version),
        _unread(model, rules),
        _short_steps(model, settings, rules),
        _deprecated(model, rules),
        _guesses(model, settings),
        _uncached(model, setup.options, rules),
        _crowded(setup, settings, rules),
        _absent(model, settings),
        _turned_otherwise(model, rules),
        _all_of_it(setup.options),
        first_engine.caution(setup, rules.version),
    )
    return tuple(f"{each}." for each in said if each is not None)


def _unread(model: Model, rules: Rules) -> str | None:
    """Source: vLLM 0.33 transformers_utils/config.py HFConfigParser, which asks the library for what its registry doesn't have."""
    if UNKNOWN_TYPE not in model.traits or model.origin.bundled or holds(CONFIGS.get(model.whole, ""), rules.version):
        return None
    return (
        f"vLLM {text(rules.version)} can't read this config as it is: the Transformers library has no class for its model_type "
        f"({model.whole}), and no auto_map names code that does; a checkpoint that brings such code starts with --trust-remote-code"
    )


def _turned_otherwise(model: Model, rules: Rules) -> str | None:
    """Source: vLLM 0.11.2 models, which ask configs for rope_scaling and rope_theta; 0.12 patch_rope_parameters."""
    if rules.rope_parameters_read or UNROTATED in model.traits or ROPE_PARAMETERS not in model.traits:
        return None
    return (
        f"vLLM {text(rules.version)} doesn't read rope_parameters, where alone {model.origin.id} states its rotary positions: it starts "
        "with its class's base, unscaled, and answers badly; write them as rope_theta and rope_scaling, or take vLLM 0.12 or later"
    )


ALL_OF_IT = 0.99
"""gpu_memory_utilization that leaves less than contexts take."""


def _all_of_it(options: Options) -> str | None:
    """Source: vLLM 0.33 v1/worker/utils.py request_memory."""
    if (options.utilization or 0) < ALL_OF_IT:
        return None
    return (
        f"gpu_memory_utilization {options.utilization:g}: vLLM doesn't start when less is free than it asks for, and a "
        "process's own context takes some first"
    )


def _crowded(setup: Setup, settings: Settings, rules: Rules) -> str | None:
    """CUDA graphs that take what the sampler's warm-up needs, in releases that count neither."""
    gpu = setup.gpu
    found = None if gpu is None else alone(setup.model, gpu, settings, rules, setup.options)
    if gpu is None or found is None or found.rest >= 0:
        return None
    share = 1 - (found.before + found.graphs) / gpu.memory.value
    return (
        f"vLLM {text(rules.version)} captures CUDA graphs after the cache is allocated and doesn't count them: with contexts about "
        f"{format_bytes(found.before + found.graphs)}, and this utilization leaves {format_bytes(found.left)} alone. It may end with "
        f'"CUDA out of memory occurred when warming up sampler with {settings.sequences} dummy requests"; '
        f"--utilization {floor(share * 100) / 100:g} leaves enough, and so do fewer graphs (--enforce-eager has none)"
    )


def _guesses(model: Model, settings: Settings) -> str | None:
    if not settings.drafted or has_drafts(model) or UNDRAFTED in model.traits:
        return None
    cost = "a state for each of them" if has_state(model) else "no memory of its own"
    return (
        f"{model.origin.id} has no prediction layers and no draft model was given: tokens are guessed by n-grams of the text, "
        f"which takes {cost}; a draft model guesses better"
    )


def _uncached(model: Model, options: Options, rules: Rules) -> str | None:
    """Source: model_executor/models/config.py of 0.10.2 to 0.14.1."""
    if not options.prefix_caching or not has_state(model) or keeps_ends(model, rules):
        return None
    return (
        f"vLLM {text(rules.version)} turns prefix caching off for {model.origin.id}, whose recurrent state it can't cache yet: "
        "planned without"
    )


def _absent(model: Model, settings: Settings) -> str | None:
    """Whoever trains a model further often saves it without its prediction layers, and with the config that has them."""
    weights = model.weights
    if not settings.drafted or weights is None or weights.basis != "headers" or weights.draft or not has_drafts(model):
        return None
    return (
        f"no file of {model.origin.id} has the prediction layers that its config announces: leave --speculative-tokens out, or "
        "name a model that drafts with --draft"
    )


def _short_steps(model: Model, settings: Settings, rules: Rules) -> str | None:
    """A step must hold an image, audio or video whole where image tokens attend to each other both ways.

    Source: vLLM v1/core/encoder_cache_manager.py compute_mm_encoder_budget, platforms/cuda.py; vllm-project/vllm#42687.
    """
    item = longest_whole(model, rules)
    if not rules.items_whole or settings.tokens >= item or TEXT_ALONE in model.traits:
        return None
    return (
        f"vLLM {text(rules.version)} starts with steps of {settings.tokens:,} tokens for text alone (--language-model-only), "
        f"and else says: Chunked MM input disabled but max_tokens_per_mm_item ({item}) is larger than max_num_batched_tokens "
        f"({settings.tokens}); --max-num-batched-tokens {item} is enough"
    )


def _deprecated(model: Model, rules: Rules) -> str | None:
    """Source: vLLM config/model.py _verify_quantization."""
    if model.quantized is None or not quantizers.deprecated(model, rules.version):
        return None
    return (
        f"vLLM {text(rules.version)} calls the quantization method {model.quantized.method} deprecated, and starts only with "
        "--allow-deprecated-quantization"
    )
