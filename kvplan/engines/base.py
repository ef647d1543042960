"""What engines are asked and what they answer: flags, setups, budgets, capacities. Who answers is in protocol.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from kvplan import units
from kvplan.arch.curve import Curve
from kvplan.arch.formats import KvFormat
from kvplan.arch.layers import Layer
from kvplan.arch.model import Model
from kvplan.arch.parallel import Parallel
from kvplan.errors import BadSize, UsageError

if TYPE_CHECKING:
    from kvplan.hardware.gpu import Gpu


Binding = Literal["weights", "longest_request", "concurrency", "pool", "rank", "max_num_seqs"]
"""What limits how many sequences are admitted, or what is missing where not one is."""


@dataclass(frozen=True, slots=True)
class Range:
    """An uncertain number of bytes. low <= likely <= high; exact when they are equal."""

    low: int
    likely: int
    high: int

    @classmethod
    def exactly(cls, value: int) -> Range:
        """A number without doubt."""
        return cls(value, value, value)


@dataclass(frozen=True, slots=True)
class Term:
    """One named part of the budget of one GPU, in bytes, with the formula (numbers in) and the source.

    parts: what of it has a name of its own.
    """

    name: str
    bytes: Range
    formula: str
    source: str
    parts: tuple[Term, ...] = ()


LORA_RANK = 16
"""Of adapters, unless somebody says. Source: vLLM 0.33 config/lora.py."""
_COUNTED = (
    ("kv_memory", 1, units.LARGEST), ("weights_per_gpu", 1, units.LARGEST), ("overhead", 0, units.LARGEST),
    ("block_size", 1, units.MOST), ("max_num_batched_tokens", 1, units.LARGEST), ("max_num_seqs", 1, units.MOST),
    ("max_num_active_seqs", 1, units.MOST), ("speculative_tokens", 0, units.MOST), ("max_loras", 0, units.MOST), ("max_lora_rank", 1, units.MOST),
)  # fmt: skip
"""Fields of Options that are whole numbers, with their least and their most."""


@dataclass(frozen=True, slots=True)
class Options:
    """The engine's own flags; None means its default."""

    utilization: float | None = None
    """Share of memory that it may use: gpu_memory_utilization."""
    kv_memory: int | None = None
    """Cache bytes per GPU given by hand: kv_cache_memory_bytes."""
    weights_per_gpu: int | None = None
    """Bytes of weights per GPU instead of those that kvplan would compute."""
    overhead: int | None = None
    """Bytes per GPU of activations and runtime instead of those that kvplan would estimate."""
    block_size: int | None = None
    """Tokens of one cache block."""
    max_num_batched_tokens: int | None = None
    """Tokens of one step."""
    max_num_seqs: int | None = None
    """Sequences of one step."""
    prefix_caching: bool | None = None
    """Whether it is asked for, or switched off."""
    graphs: bool = True
    """Whether CUDA graphs are captured: not enforce_eager."""
    async_scheduling: bool = True
    """Whether a step is scheduled while one runs."""
    hybrid_manager: bool = True
    """Whether windows and states have block tables of their own: not disable_hybrid_kv_cache_manager."""
    speculative_tokens: int = 0
    """Drafted each step by the model's own multi-token-prediction layers, or by the model that drafts for it
    (kvplan.arch.extras.with_draft); 0 leaves those layers out."""
    max_loras: int = 0
    """LoRA adapters resident at once, 0 for none."""
    max_lora_rank: int = LORA_RANK
    """The rank that each of them may have."""
    lora_targets: tuple[str, ...] | None = None
    """Last steps of the modules that they adapt, None for every linear layer."""
    max_num_active_seqs: int | None = None
    """Of max_num_seqs, those that run at once."""
    chunked_prefill: bool = True
    """Whether a prompt may be cut into steps."""
    throughput: bool = False
    """Whether defaults of steps are doubled: performance_mode."""
    all2all_backend: str | None = None
    """What experts of several ranks exchange tokens through."""
    second_runner: bool | None = None
    """Whether vLLM's second model runner serves, or the first; None where it chooses: VLLM_USE_V2_MODEL_RUNNER."""
    attention_backend: str | None = None
    """Kernels of attention, by vLLM's name for them; None where it chooses."""
    connected: bool = False
    """Whether a KV connector moves the cache in or out: kv_transfer_config."""
    aiter: bool = False
    """Whether vLLM is to run AITER's kernels on AMD's GPUs: VLLM_ROCM_USE_AITER."""
    language_model_only: bool = False
    """Whether a model that sees or hears is served for text alone, without its towers."""
    no_media: tuple[str, ...] = ()
    """What requests may hold none of: image, video, audio. Limits of limit_mm_per_prompt that are zero."""

    @property
    def most_running(self) -> int | None:
        """Sequences that may run at once by what was asked for; None where nothing says so."""
        return min(filter(None, (self.max_num_seqs, self.max_num_active_seqs)), default=None)

    def __post_init__(self) -> None:
        """Raises: BadSize, naming the field."""
        name = "utilization"
        try:
            if self.utilization is not None:
                units.share(self.utilization)
            for name, least, most in _COUNTED:
                value = getattr(self, name)
                if value is not None:
                    units.whole(value, least=least, most=most)
        except BadSize as error:
            raise error.about(name) from None
        if not self.max_loras and (self.max_lora_rank != LORA_RANK or self.lora_targets is not None):
            raise UsageError(
                "max_loras: 0 adapters have neither a rank nor targets",
                hint="max_loras 1 or more, or leave max_lora_rank and lora_targets out",
            )


@dataclass(frozen=True, slots=True)
class Setup:
    """What an engine is started with.

    gpu: None where none is named. kv: the cache format asked for, None for auto. context: tokens of the longest request.
    """

    model: Model
    gpu: Gpu | None
    parallel: Parallel
    kv: KvFormat | None
    options: Options
    context: int

    @property
    def named_gpu(self) -> Gpu:
        """The GPU, for what can't be said without one.

        Raises: UsageError.
        """
        if self.gpu is None:
            raise UsageError("which GPU?", cause="memory is counted on one", hint="--gpu h100")
        return self.gpu

    @property
    def drafting(self) -> tuple[Layer, ...]:
        """Layers that keep a cache to draft with; none unless drafts are asked for."""
        return self.model.draft_layers if self.options.speculative_tokens else ()

    def curves(self, kv: KvFormat) -> tuple[Curve, ...]:
        """What one tensor rank of each pipeline stage keeps for a sequence, in the format in use.

        Raises: CannotSplit.
        """
        return self.model.rank_curves(self.parallel, kv, self.drafting)


class Excess(NamedTuple):
    """A length beyond the model's own maximum.

    longest: tokens of that maximum, as the engine reads the config. past_table: whether positions are looked up in a table
    that ends there, so that nothing serves more. unlock: the environment variable without which the engine refuses it; None
    for an engine that refuses nothing.
    """

    longest: int
    past_table: bool
    unlock: str | None

    @property
    def said(self) -> str | None:
        """Why nothing serves such a length; None where something may."""
        if not self.past_table:
            return None
        return (
            f"the model's positions are looked up in a table of {self.longest:,}, and more would be read past its end"
        )

    @classmethod
    def of(cls, setup: Setup, longest: int | None, unlock: str | None = None) -> Excess | None:
        """That of a setup, where the model's own maximum is `longest` (None for any); None for a length within it."""
        if longest is None or setup.context <= longest:
            return None
        weights = setup.model.weights
        return cls(longest, weights is not None and weights.positions is not None, unlock)


HALF = ("half", "float16")
"""Words for 16 bit of IEEE 754."""


class Stated(NamedTuple):
    """What a serve command says of its checkpoint.

    quantization, dtype: in the engine's own words; None where it says nothing. overridden: whether it also replaces
    parts of the config, which may then say something else. itself: whether the model is to draft with prediction layers of
    its own.
    """

    quantization: str | None = None
    dtype: str | None = None
    overridden: bool = False
    itself: bool = False

    @property
    def half(self) -> bool:
        """Whether float16 is asked for."""
        return self.dtype in HALF


class Served(NamedTuple):
    """What a server is started for.

    name: as it finds the model, on the Hub or in a folder. folder: whether that is one of this machine. remarks: what should
    be known before it is started.
    """

    name: str
    folder: bool = False
    remarks: tuple[str, ...] = ()


class Words(NamedTuple):
    """What an engine and what is its own are called in sentences.

    title: the engine. length: its flag for the longest request, None where it takes none. longest: its name for the longest
    request that would fit. unnamed_gpu: what a GPU is taken for where none is named; None where that makes no difference.
    """

    title: str
    length: str | None = None
    longest: str | None = None
    unnamed_gpu: str | None = None


@dataclass(frozen=True, slots=True)
class Budget:
    """Memory of the fullest GPU, term by term.

    usable: bytes the engine lets itself use. weights, activation, runtime: what it spends them on before the cache.
    kv: what is left for the cache; its low end is the one to promise. It can be negative: then weights don't fit.
    assumed: flags nobody gave and the defaults used for them.
    """

    memory: Term
    usable: Term
    weights: Term
    activation: Term
    runtime: Term
    kv: Range
    assumed: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Capacity:
    """What an engine does with cache memory, for requests of `context` tokens.

    kv_bytes: of the pool of one GPU. block_tokens: tokens of one block. kv_tokens and max_concurrency: as the engine
    prints them. max_sequences: whole sequences at once, the engine's own limit on sequences included.
    max_context: longest single request it would state. binding: what limits max_sequences.
    notes: named reasons why the engine's number differs from the ideal's, as (name, bytes per sequence on one GPU).
    reasons: how each of them comes about, in the same order.
    """

    kv_bytes: int
    blocks: int | None
    block_tokens: int | None
    kv_tokens: int
    max_concurrency: float
    max_sequences: int
    max_context: int
    binding: Binding
    notes: tuple[tuple[str, int], ...] = ()
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """The engine would not start: in its own terms, with the longest request that it says would fit."""

    binding: Binding
    message: str
    needed_bytes: int
    max_context: int
