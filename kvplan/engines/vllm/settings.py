"""The flags that decide how vLLM plans, each given or defaulted as vLLM would.

Source: vLLM 0.33 engine/arg_utils.py get_batch_defaults, config/vllm.py max_concurrent_batches, config/model.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.arch.layers import CrossAttention, Recurrent
from kvplan.arch.model import Model
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Options, Setup
from kvplan.engines.vllm.blocks.specs import Demand
from kvplan.engines.vllm.memory.runner import serves
from kvplan.engines.vllm.tables.architectures import (
    FEW_SEQUENCES,
    PAGED_STREAMS,
    classes,
    is_pooling,
    named,
)
from kvplan.engines.vllm.tables.interfaces import ATTENTION_FREE
from kvplan.engines.vllm.tables.items import longest_whole
from kvplan.engines.vllm.tables.rules import Batches, Rules
from kvplan.engines.vllm.tables.steps import too_few_tokens
from kvplan.engines.vllm.tables.taken import has, taken
from kvplan.engines.vllm.tables.versions import text
from kvplan.errors import Unsupported, UsageError, WontStart
from kvplan.hardware.gpu import Gpu
from kvplan.units import GIB

HUGE, LARGE = 160 * GIB, 70 * GIB
LONG = 32768
"""Tokens of a prompt above which the oldest versions cut it into steps."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Every flag resolved.

    length: max_model_len. tokens, sequences: max_num_batched_tokens, max_num_seqs. running: of the latter, those that are
    admitted at once. batches: steps in flight. aligned:
    whether recurrent state is kept at block boundaries too, for prefix caching. block: --block-size, None for vLLM's
    own. drafted: speculative tokens. second_runner: whether the second model runner is asked for, None where vLLM chooses.
    aiter: whether AITER's kernels are. connected: whether a KV connector moves the cache. attention_backend: None where
    vLLM chooses. all2all_backend: where experts of several ranks exchange tokens through it, else empty. exchanged: tokens
    of a rank that they exchange in batches of a fixed size; 0 where they don't. met: ranks whose tokens a rank's experts meet.
    """

    length: int
    tokens: int
    sequences: int
    running: int
    batches: int
    aligned: bool
    hybrid_manager: bool
    block: int | None
    drafted: int
    second_runner: bool | None
    aiter: bool
    connected: bool
    attention_backend: str | None
    all2all_backend: str
    exchanged: int
    met: int
    parallel: Parallel
    assumed: tuple[tuple[str, str], ...]

    @property
    def demand(self) -> Demand:
        """What one request of the longest length may ask for."""
        return Demand(self.length, self.batches * self.tokens, self.tokens, self.parallel.dcp)


def settings(setup: Setup, rules: Rules) -> Settings:
    """Flags as given, and vLLM's defaults for the rest.

    Raises: WontStart for batch sizes that vLLM refuses; UsageError for prefix caching where it does; Unsupported where states
    would be kept at every block.
    """
    model, parallel, options, context = setup.model, setup.parallel, setup.options, setup.context
    batches = _asked_for(default_batches(setup.gpu, rules), parallel, options, rules)
    stateful = has_state(model)
    aligned = stateful and _caches_prefixes(model, options, rules) and keeps_ends(model, rules)
    pooling = is_pooling(model)
    whole = rules.unchunked and not options.chunked_prefill
    sequences = options.max_num_seqs or _few(model) or batches.sequences
    tokens = options.max_num_batched_tokens or _default_tokens(model, batches, sequences, context, rules, whole=whole)
    if options.max_num_seqs is None:
        sequences = min(sequences, tokens)
    elif too_few_tokens(tokens, sequences):
        raise WontStart(
            f"max_num_batched_tokens ({tokens}) must be greater than or equal to max_num_seqs ({sequences})",
            cause="vLLM refuses to start: each running sequence takes at least one token of a step",
            hint=f"--max-num-batched-tokens {sequences}, or --max-num-seqs {tokens}",
        )
    running = options.max_num_active_seqs or sequences
    if running > sequences:
        raise WontStart(
            f"max_num_active_seqs ({running}) cannot be greater than max_num_seqs ({sequences})",
            cause="vLLM refuses to start: the one picks from the other",
            hint=f"vLLM's --max-num-active-seqs {sequences} or less",
        )
    if whole:
        _check_whole(model, tokens, context, aligned=aligned)
    return Settings(
        length=context,
        tokens=tokens,
        sequences=sequences,
        running=running,
        batches=rules.steps_in_flight(
            parallel.pp,
            options.async_scheduling and not pooling,
            lambda: serves(model, setup.gpu, options.speculative_tokens, parallel.pp, options.second_runner, rules),
        ),
        aligned=aligned,
        hybrid_manager=options.hybrid_manager,
        block=options.block_size,
        drafted=options.speculative_tokens,
        second_runner=options.second_runner,
        aiter=options.aiter,
        connected=options.connected,
        attention_backend=options.attention_backend,
        all2all_backend=_backend(parallel, options),
        exchanged=_exchanged(tokens, parallel, options, rules),
        met=parallel.dp if parallel.ep == 1 or _backend(parallel, options) in GATHERS else 1,
        parallel=parallel,
        assumed=_assumed(options, tokens, sequences, aligned=aligned if stateful else None),
    )


def _check_whole(model: Model, tokens: int, context: int, *, aligned: bool) -> None:
    """What vLLM doesn't start where prompts may not be cut into steps.

    Source: vLLM 0.33 config/scheduler.py verify_max_model_len, model_executor/models/config.py MambaModelConfig.

    Raises: WontStart.
    """
    if tokens < context:
        raise WontStart(
            f"max_num_batched_tokens ({tokens}) is smaller than max_model_len ({context})",
            cause="vLLM refuses to start without chunked prefill: a step must hold the longest prompt whole",
            hint=f"--max-num-batched-tokens {context}, or leave vLLM's --no-enable-chunked-prefill out",
        )
    if aligned:
        raise WontStart(
            f"vLLM doesn't start {model.origin.id} with prefix caching and without chunked prefill",
            cause="Chunked prefill is required for Mamba prefix caching.",
            hint="--no-prefix-caching too, or leave vLLM's --no-enable-chunked-prefill out",
        )


BATCHED = 256
"""Tokens of a step where experts exchange them in batches; before 0.20 of what they exchange at once.

Source: DEFAULT_MAX_NUM_BATCHED_TOKENS_FOR_BATCHED_DP; envs.py VLLM_MOE_DP_CHUNK_SIZE.
"""


def _asked_for(usual: Batches, parallel: Parallel, options: Options, rules: Rules) -> Batches:
    """The defaults with what other flags make of them. Source: config/parallel.py use_batched_dp_moe; get_batch_defaults."""
    batched = rules.batched_experts and _backend(parallel, options) in BATCHES
    tokens = BATCHED if batched else usual.tokens
    return Batches(2 * tokens, 2 * usual.sequences) if options.throughput else Batches(tokens, usual.sequences)


BATCHES = frozenset({"deepep_low_latency", "nixl_ep"})
"""Backends that experts exchange tokens through in batches. Source: config/parallel.py use_batched_dp_moe."""
GATHERS = frozenset({"", "allgather_reducescatter", "naive", "pplx"})
"""Backends that give each rank the tokens of all; releases without the last two gather instead. Others give it those that pick its
experts. Source: fused_moe/all2all_utils.py, config/parallel.py."""


def _exchanged(tokens: int, parallel: Parallel, options: Options, rules: Rules) -> int:
    """Tokens of a rank in a batch that experts exchange; 0 where they don't exchange in batches."""
    if _backend(parallel, options) not in BATCHES:
        return 0
    return tokens if rules.batched_experts else BATCHED


def _backend(parallel: Parallel, options: Options) -> str:
    return (options.all2all_backend or "") if parallel.dp > 1 and parallel.ep > 1 else ""


def _default_tokens(model: Model, batches: Batches, sequences: int, context: int, rules: Rules, *, whole: bool) -> int:
    """whole: whether prompts may not be cut into steps."""
    if _crosses(model) or not (rules.always_chunked or (context > LONG and not whole)):
        usual = max(batches.tokens, context)
    else:
        usual = batches.tokens if rules.always_chunked else rules.long_prompt_steps
        usual = max(usual, context) if whole else usual
        usual = max(usual, longest_whole(model, rules) if rules.items_raise_steps else 0)
    return min(usual, sequences * context) if rules.steps_capped else usual


def default_batches(gpu: Gpu | None, rules: Rules) -> Batches:
    """Default max_num_batched_tokens and max_num_seqs; a large data-centre GPU's when none is named.

    NVML has no answer for memory that is shared with the CPU, and vLLM took that for no memory at all.
    """
    if gpu is None:
        return rules.batches[1]
    if gpu.unified and gpu.vendor == "nvidia" and not rules.shared_memory_read:
        return rules.batches[2]
    if gpu.memory.value >= HUGE:
        return rules.batches[0]
    name = f"{gpu.id} {gpu.name}".lower()
    slow = gpu.compute_capability in rules.slow_capabilities or any(each in name for each in rules.slow_but_large)
    return rules.batches[1] if gpu.memory.value >= LARGE and not slow else rules.batches[2]


def _few(model: Model) -> int | None:
    return next((FEW_SEQUENCES[name] for name in classes(model) if name in FEW_SEQUENCES), None)


def has_state(model: Model) -> bool:
    """Whether it keeps a recurrent state, and not streams in pages."""
    return model.has(Recurrent) and not named(model, PAGED_STREAMS)


def _crosses(model: Model) -> bool:
    return model.has(CrossAttention)


def _caches_prefixes(model: Model, options: Options, rules: Rules) -> bool:
    """As asked; by default, embedders do, models without attention and encoder-decoders don't, and hybrids since 0.28."""
    if options.prefix_caching is not None:
        return options.prefix_caching
    if is_pooling(model):
        return rules.cached_states != "refused"
    free = has(taken(model, rules.version), ATTENTION_FREE, rules.version)
    return not free and not _crosses(model) and rules.hybrid_prefix_caching


MAMBA = ("mamba", "mamba2")
"""Recurrences whose classes had prefix caching first, with a state at every block. Source: vllm-project/vllm#26201."""


def keeps_ends(model: Model, rules: Rules) -> bool:
    """Whether prefix caching keeps a model's states, at the ends of blocks; not where the release turns it off.

    Raises: UsageError where vLLM wouldn't start; Unsupported where it keeps one at every block.
    """
    kept, release = rules.cached_states, text(rules.version)
    if kept == "refused":
        raise UsageError(
            f"vLLM {release} has no prefix caching for {model.origin.id}",
            cause="Prefix caching is not supported for Mamba yet.",
            hint="--no-prefix-caching",
        )
    if kept in ("off", "block ends"):
        return kept == "block ends"
    if any(isinstance(cache, Recurrent) and cache.law in MAMBA for cache, _ in model.distinct):
        raise Unsupported(
            f"kvplan has no rules for prefix caching of {model.origin.id} in vLLM {release}",
            cause="from 0.11.1 to 0.27 it keeps a Mamba state at every block (mamba_cache_mode all)",
            hint="--no-prefix-caching, or --engine vllm@0.28.0, which keeps them at the ends of blocks",
        )
    return kept == "block ends, every block of Mamba"


def _assumed(options: Options, tokens: int, sequences: int, *, aligned: bool | None) -> tuple[tuple[str, str], ...]:
    """Defaults in use. aligned: whether prefixes are cached where that keeps states; None without states."""
    defaults = (
        ("max_num_batched_tokens", options.max_num_batched_tokens, tokens),
        ("max_num_seqs", options.max_num_seqs, sequences),
    )
    found = tuple((name, str(used)) for name, given, used in defaults if given is None)
    if options.prefix_caching is not None or aligned is None:
        return found
    return (*found, ("enable_prefix_caching", str(aligned).lower()))
