"""Why vLLM would not start, in its own terms.

Source: vLLM 0.33 v1/core/kv_cache_planning.py, config/model.py verify_with_parallel_config, models/registry.py.
"""

from __future__ import annotations

from kvplan.arch.formats import FORMATS, PAIRS, KvFormat, parse_kv_format
from kvplan.arch.layers import Attention, Latent
from kvplan.arch.model import DESCRIBED, Model
from kvplan.arch.traits import FP8_SCALES, GPTQ_ORDER, NOT_IN_16_BIT
from kvplan.engines.base import Refusal
from kvplan.engines.vllm.blocks.backends import capability
from kvplan.engines.vllm.blocks.built import INTERLEAVED
from kvplan.engines.vllm.blocks.cells import cache_name, flag, run_in, spelled
from kvplan.engines.vllm.memory import weight_shares
from kvplan.engines.vllm.settings import Settings
from kvplan.engines.vllm.starts import (
    activations,
    blind,
    demands,
    encoders,
    fp8_kernels,
    glm,
    hybrids,
    latents,
    lengths,
    loaders,
    negative,
    padding,
    quantized_groups,
    quantizers,
    ratios,
    rotations,
    runners,
    splits,
    unlaid,
    unread,
    words,
)
from kvplan.engines.vllm.tables.architectures import (
    BFLOAT16,
    IN_BFLOAT16,
    PACKS_FP8,
    classes,
    draft_longest,
    in_float16,
    named,
    named_in,
    sparse_latents,
)
from kvplan.engines.vllm.tables.flags import CACHE_FORMATS
from kvplan.engines.vllm.tables.language import divides, uniform
from kvplan.engines.vllm.tables.latents import expands
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.engines.vllm.tables.spans import first, holds
from kvplan.engines.vllm.tables.versions import Version, text
from kvplan.errors import NotServed, Unsupported, UsageError
from kvplan.hardware.gpu import Gpu


def no_memory(per_block: int, rules: Rules) -> Refusal:
    """Nothing is left for the cache, not even a block."""
    return Refusal("pool", words.wording(rules.version).cramped, per_block, 0)


def too_long(
    needed: int, available: int, length: int, rules: Rules, *, longest: int, accepted: int, stored: int
) -> Refusal:
    """One request of max_model_len doesn't fit.

    longest: what vLLM states, of the rank that refuses. accepted: what all ranks take. stored: tokens of the pool.
    """
    said = words.too_long(rules.version, length, needed, available, longest, stored)
    return Refusal("longest_request", said, needed, accepted)


def check(model: Model, settings: Settings, rules: Rules, gpu: Gpu | None) -> None:
    """What refuses a model whatever the memory.

    Raises: Unsupported for weights this version can't load; CannotSplit for parallel sizes it can't be split by.
    """
    device = capability(gpu)
    _precision(model, device, rules)
    _prefill(model, rules)
    _length(model, settings, rules)
    _order(model, rules)
    quantizers.check(model, rules)
    loaders.check(model, rules, gpu)
    fp8_kernels.check(model, rules, gpu)
    ratios.check(model, settings, rules)
    hybrids.check(model, rules)
    rotations.check(model, rules)
    negative.check(model, rules)
    lengths.check(model, rules)
    glm.check(model, rules)
    blind.check(model, rules)
    latents.check(model, rules)
    activations.check(model, rules)
    demands.check(model, rules)
    padding.check(model, rules)
    unread.check(model, rules)
    unlaid.check(model, rules)
    encoders.check(model, settings, rules)
    runners.check(model, settings, rules)
    splits.check(model, settings, rules)
    for each in (model, *((model.drafter,) if model.drafter is not None and settings.drafted else ())):
        _windows(each, rules)
        _divided(each, rules)
    weight_shares.check(model, settings, rules, device)
    quantized_groups.check(model, settings, rules, device)


def check_format(model: Model, kv: KvFormat, rules: Rules, device: tuple[int, int]) -> None:
    """Cache formats that the release doesn't have, or not for this model; one that a description asks for is named as its.

    Raises: UsageError.
    """
    try:
        _check_format(model, kv, rules, device)
    except UsageError as error:
        if model.family != DESCRIBED or kv != model.kv_hint:
            raise
        said, own = error.problem, run_in(model.dtype, device).name
        raise UsageError(
            said.what,
            cause=f"kv_dtype in {model.origin.source} asks for it" + (f"; {said.cause}" if said.cause else ""),
            hint=f"--kv-dtype {own}, another kv_dtype there, or --engine ideal",
        ) from None


def _check_format(model: Model, kv: KvFormat, rules: Rules, device: tuple[int, int]) -> None:
    """Cache formats that the release doesn't have, or not for this model.

    A plain dtype passes where `auto` gives it: 16 bit, and 32 bit of a model that is run in it (--dtype float32). Since 0.33
    the other 16-bit one doesn't; a GPU without bfloat16 runs models in float16.
    Source: CacheDType of config/cache.py, in no release with float32; config/vllm.py _reject_mismatched_float_kv_cache.

    Raises: UsageError.
    """
    cache_name(kv)
    name = flag(kv)
    written = CACHE_FORMATS.get(name, "")
    own = {"bfloat16", "float16", *(("float32",) if model.dtype.name == "fp32" else ())}
    if name not in own and not holds(written, rules.version):
        since = f"it came with {text(first(written))}" if written else "no release has it"
        newer = f"--engine vllm@{text(first(written))}, or " if written else ""
        raise UsageError(
            f"vLLM {text(rules.version)} has no cache format {name}",
            cause=since,
            hint=f"{newer}--kv-dtype auto; it has {', '.join(_formats(rules))}",
        )
    runs = spelled(run_in(model.dtype, device))
    if {name, runs} == {"bfloat16", "float16"} and not rules.either_float:
        raise UsageError(
            f"vLLM keeps no {name} cache for {model.origin.id}",
            cause=f"kv_cache_dtype={name} is incompatible with dtype={runs}",
            hint="--kv-dtype auto",
        )
    encoders.check_format(model, name, rules, device)
    if (
        name == "fp8"
        and rules.version < FP8_PACKED
        and sparse_latents(model)
        and not named_in(model, PACKS_FP8, rules.version)
    ):
        raise UsageError(
            f"vLLM {text(rules.version)} takes no fp8 cache for {model.origin.id}",
            cause=f"kernels for sparse latents make a packed format of fp8 since {text(FP8_PACKED)}",
            hint="--kv-dtype fp8_ds_mla",
        )
    if name == "fp8_e5m2" and FP8_SCALES in model.traits:
        raise UsageError(
            f"vLLM takes no fp8_e5m2 cache for {model.origin.id}",
            cause="fp8_e5m2 kv-cache is not supported with fp8 checkpoints",
            hint="--kv-dtype fp8",
        )
    if name.startswith("turboquant") and named(model, UNNAMED_ATTENTION):
        raise UsageError(
            f"vLLM takes no {name} cache for {model.origin.id}",
            cause="TurboQuant KV cache requires identifiable full-attention layers",
            hint="--kv-dtype fp8",
        )


FP8_PACKED: Version = (0, 18, 0)
"""Source: vLLM 0.17.1 and 0.18.0 v1/attention/backends/mla/flashmla_sparse.py, layers/attention/mla_attention.py."""


def _formats(rules: Rules) -> tuple[str, ...]:
    """Formats that the release has and --kv-dtype knows, as that is spelled."""
    known = {flag(parse_kv_format(name)): name for name in (*FORMATS, *PAIRS)}
    return tuple(
        known[name] for name, written in CACHE_FORMATS.items() if name in known and holds(written, rules.version)
    )


UNNAMED_ATTENTION = ("FalconH1ForCausalLM", "Zamba2ForCausalLM")
"""Hybrids whose config lists no attention layers by name, which TurboQuant looks for. Source: vLLM 0.33
layers/quantization/turboquant/config.py, asked of it with Falcon-H1 and Zamba2."""


def _order(model: Model, rules: Rules) -> None:
    """Source: layers/quantization/utils/gptq_utils.py; the checks of 0.29 and 0.30 were read."""
    if GPTQ_ORDER in model.traits and not rules.gptq_order and model.what_if is None:
        raise NotServed(
            f"vLLM {text(rules.version)} doesn't load {model.origin.id}",
            cause="GPTQ group activation ordering (desc_act=True) is no longer supported",
            hint="a checkpoint with desc_act=false, or --engine vllm@0.29.0",
        )


def _precision(model: Model, device: tuple[int, int], rules: Rules) -> None:
    """What a checkpoint is run in where the GPU has no bfloat16: float16, 32 bit, or nothing.

    Source: config/model.py _resolve_auto_dtype, _FLOAT16_NOT_SUPPORTED_MODELS; before 0.9.1 worker/worker.py, and
    config.py _get_and_verify_dtype for what isn't stated in 16 bit.
    """
    if device >= BFLOAT16:
        return
    if rules.version < FALLS_BACK:
        _own_precision(model, device, rules)
    elif not in_float16(model.whole, rules.version):
        raise Unsupported(
            f"vLLM runs {model.origin.id} in 32 bit on this GPU, which kvplan doesn't plan",
            cause=f"{model.whole} is not run in float16, and bfloat16 needs compute capability 8.0",
            hint="a GPU of compute capability 8.0 or later, or --engine ideal",
        )


def _own_precision(model: Model, device: tuple[int, int], rules: Rules) -> None:
    """That a release without another dtype to fall back to would not run the model in bfloat16."""
    halved = NOT_IN_16_BIT in model.traits and not holds(IN_BFLOAT16.get(model.whole, ""), rules.version)
    if model.dtype.name == "bf16" and not halved:
        raise Unsupported(
            f"vLLM {text(rules.version)} doesn't run {model.origin.id} on this GPU",
            cause="Bfloat16 is only supported on GPUs with compute capability of at least 8.0. It has compute capability "
            f"{device[0]}.{device[1]}",
            hint=f"--engine vllm@{text(FALLS_BACK)} or later, which runs it in float16, or --engine ideal",
        )


FALLS_BACK: Version = (0, 9, 1)
"""The first release that runs a checkpoint in another dtype where the GPU hasn't its own."""


PREFILLED = frozenset({(128, 64, 128), (192, 64, 256), (64, 64, 128), (256, 0, 256)})
"""Parts of a head without and with rotation, and of values, that kernels for prompts of latents have.

Source: vLLM 0.26 to 0.33 v1/attention/backends/mla/prefill.
"""


def _prefill(model: Model, rules: Rules) -> None:
    for cache, _ in model.distinct:
        if not rules.prefill_sizes or not isinstance(cache, Latent) or cache.topk is not None:
            continue
        if expands(model, rules.version) or cache.nope_dim is None or cache.v_dim is None:
            continue
        sizes = (cache.nope_dim, cache.rope_dim, cache.v_dim)
        if sizes not in PREFILLED:
            raise Unsupported(
                f"vLLM {text(rules.version)} has no kernel for prompts of {model.origin.id}",
                cause="No valid MLA prefill backend found with MLAPrefillSelectorConfig: mla_dimensions=(qk_nope_head_dim="
                f"{sizes[0]}, qk_rope_head_dim={sizes[1]}, v_head_dim={sizes[2]})",
                hint="--engine ideal",
            )


def _length(model: Model, settings: Settings, rules: Rules) -> None:
    """Source: config/vllm.py _limit_max_model_len_to_draft."""
    longest = draft_longest(model)
    if rules.draft_limits and longest is not None and settings.drafted and settings.length > longest:
        raise UsageError(
            f"vLLM {text(rules.version)} lowers max_model_len to {longest:,}, which is all that the draft model serves",
            cause=f"{settings.length:,} tokens were asked for",
            hint=f"--ctx {longest}, or another draft model",
        )


def _divided(model: Model, rules: Rules) -> None:
    """Heads of another size than the class builds: the checkpoint's matrices don't fit into its layers."""
    if model.hidden_size is None or not divides(model, rules.version):
        return
    for cache, _ in model.distinct:
        if isinstance(cache, Attention) and cache.heads is not None and cache.k_dim != model.hidden_size // cache.heads:
            raise NotServed(
                f"vLLM {text(rules.version)} doesn't load {model.origin.id}",
                cause=f"{classes(model)[0]} builds heads of hidden_size / num_attention_heads = "
                f"{model.hidden_size // cache.heads}, and the config's head_dim is {cache.k_dim}",
                hint="--engine ideal",
            )


def _windows(model: Model, rules: Rules) -> None:
    """Windows on some layers alone, by max_window_layers or by a list of kinds. Source: models/qwen2.py Qwen2Model of each."""
    said = model.windows
    if said is None or not uniform(model, rules.version):
        return
    whole = said.first == len(model.layers)
    if rules.cache_window == "stated":
        refused = said.tokens is not None and said.first is not None and not (whole and rules.whole_windows)
    elif rules.cache_window == "unless interleaved":
        refused = {*said.kinds} >= INTERLEAVED and not whole
    else:
        refused = said.mixed and not whole
    if refused:
        raise NotServed(
            f"vLLM {text(rules.version)} doesn't load {model.origin.id}",
            cause="Sliding window for some but all layers is not supported",
            hint='"use_sliding_window": false and no layer_types in its config.json, which changes what it computes beyond the window',
        )
