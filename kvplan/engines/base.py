"""What every engine policy answers: from a GPU to a KV budget, from a budget to what it will admit.

    Engine.default_context, longest_context
                       the length it takes when none is given, and the longest it takes at all
    Engine.kv_format   the cache format this engine makes of `auto` or of what was asked
    Engine.check       whether it serves the model there at all, before any memory is counted
    Engine.budget      memory -> what is left for the cache, term by term, each low / likely / high
    Engine.capacity    cache bytes of each stage -> blocks, tokens, concurrency, longest request; or its refusal
    Engine.reserved    bytes one GPU reserves for one sequence

A policy is a pure function of a Model and of flags; engines never see files or the clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kvplan import units
from kvplan.arch.formats import KvFormat
from kvplan.arch.model import Context, Model
from kvplan.arch.parallel import Parallel
from kvplan.errors import BadSize, UsageError

if TYPE_CHECKING:
    from kvplan.hardware.gpu import Gpu


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
    ("kv_memory", 1, units.LARGEST), ("weights", 1, units.LARGEST), ("overhead", 0, units.LARGEST),
    ("block_size", 1, units.MOST), ("max_num_batched_tokens", 1, units.LARGEST), ("max_num_seqs", 1, units.MOST),
    ("max_num_active_seqs", 1, units.MOST), ("speculative_tokens", 0, units.MOST), ("max_loras", 0, units.MOST), ("max_lora_rank", 1, units.MOST),
)  # fmt: skip
"""Fields of Options that are whole numbers, with their least and their most."""


@dataclass(frozen=True, slots=True)
class Options:
    """The engine's own flags by the engine's own names; None means its default.

    utilization: share of memory it may use. prefix_caching: asked for, or switched off. kv_memory: cache bytes per GPU given by hand. weights, overhead: bytes per
    GPU that replace what kvplan would compute. graphs: whether CUDA graphs are captured. speculative_tokens: drafted by
    the model's own multi-token-prediction layers, or by the model called `draft`, each step; 0 leaves those layers out.
    max_loras, max_lora_rank: LoRA adapters resident at once, 0 for none, and the rank that each may have. lora_targets:
    last steps of the modules they adapt, None for every linear layer. max_num_active_seqs: of max_num_seqs, those that run
    at once. chunked_prefill: whether a prompt may be cut into steps. throughput: whether defaults of steps are doubled.
    batched_experts: whether experts exchange tokens in batches of a fixed size.
    """

    utilization: float | None = None
    kv_memory: int | None = None
    weights: int | None = None
    overhead: int | None = None
    block_size: int | None = None
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    prefix_caching: bool | None = None
    graphs: bool = True
    async_scheduling: bool = True
    hybrid_manager: bool = True
    speculative_tokens: int = 0
    draft: str | None = None
    max_loras: int = 0
    max_lora_rank: int = LORA_RANK
    lora_targets: tuple[str, ...] | None = None
    max_num_active_seqs: int | None = None
    chunked_prefill: bool = True
    throughput: bool = False
    batched_experts: bool = False

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
    binding: str
    notes: tuple[tuple[str, int], ...] = ()
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """The engine would not start: in its own terms, with the longest request that it says would fit."""

    binding: str
    message: str
    needed_bytes: int
    available_bytes: int
    max_context: int


class Engine(Protocol):
    """One engine at one version."""

    @property
    def name(self) -> str:
        """As typed after --engine."""

    @property
    def version(self) -> str | None:
        """The version whose rules are used; None for the formula."""

    @property
    def verified(self) -> bool:
        """Whether the rules used are those of the version that was asked for."""

    def default_context(self, model: Model) -> Context:
        """Tokens of the longest request when nobody says, and why so many; None where they must be given."""

    def longest_context(self, model: Model) -> int | None:
        """The longest that it accepts without being told to ignore the model's own maximum; None for any."""

    def kv_format(self, model: Model, asked: KvFormat | None, gpu: Gpu | None) -> KvFormat:
        """The cache format in use when `asked` (None: auto) is asked for."""

    def check(self, model: Model, gpu: Gpu, parallel: Parallel, kv: KvFormat, options: Options, context: int) -> None:
        """Nothing, if it would start with memory enough.

        Raises: Unsupported for a model or a GPU that it doesn't serve; UsageError, CannotSplit for flags it doesn't take.
        """

    def budget(self, model: Model, gpu: Gpu, parallel: Parallel, options: Options, context: int) -> Budget:
        """Memory left for the cache on the fullest GPU."""

    def capacity(
        self,
        model: Model,
        gpu: Gpu | None,
        parallel: Parallel,
        kv: KvFormat,
        options: Options,
        context: int,
        kv_bytes: int,
    ) -> Capacity | Refusal:
        """What `kv_bytes` of cache memory on each GPU admit."""

    def reserved(
        self, model: Model, gpu: Gpu | None, parallel: Parallel, kv: KvFormat, options: Options, tokens: int
    ) -> int:
        """Bytes that one sequence of `tokens` takes on the fullest GPU."""
