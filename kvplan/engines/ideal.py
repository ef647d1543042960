"""The formula as an engine: no blocks, no pools, nothing reserved that a sequence doesn't hold.

    KV budget     = memory x utilization - weights - activations - runtime        on the fullest GPU
    max sequences = floor(KV budget / bytes of one sequence)                      on the stage where that is least

It is what every other engine is compared with. What it can't know exactly (activations, runtime) is a stated range,
wide enough to hold what public start-up logs print; `overhead` replaces it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kvplan.arch.curve import LONGEST, Curve
from kvplan.arch.extras import without_towers
from kvplan.arch.formats import KvFormat
from kvplan.arch.model import Context, Model
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Budget, Capacity, Excess, Options, Range, Refusal, Setup, Stated, Term, Words
from kvplan.engines.extras import beside, held
from kvplan.engines.unstated import HIDDEN, VOCABULARIES, unstated
from kvplan.errors import UsageError
from kvplan.units import GIB, MIB, format_bytes

if TYPE_CHECKING:
    from kvplan.hardware.gpu import Gpu

UTILIZATION = 0.9
"""Share of the memory a process sees that the formula spends; a tenth stays for contexts and other processes."""

LARGE_GPU = 70 * GIB
LARGE_STEP, SMALL_STEP = (1024, 8192), (256, 2048)
"""Sequences and tokens of the step that is reserved for, on GPUs of LARGE_GPU or more and on smaller ones: the formula's own
assumption, after vLLM's defaults from 0.8 on, which later ones left (0.9: an A100 has the small step; 0.28: 16,384 tokens from
160 GiB)."""

UNKNOWN_PARTS = 10
"""Per cent added to the high end when parts of a model (a vision tower) can't be counted from its config."""

_LOGITS = Range(4, 12, 39)
_STEP = Range(3, 6, 8)
_RUNTIME = Range(256 * MIB, 768 * MIB, 1536 * MIB)
_COLLECTIVES = Range(128 * MIB, 358 * MIB, 614 * MIB)

_ACTIVATION = (
    f"the sampler's copies of the logits ({_LOGITS.low} to {_LOGITS.high} B per row and word: vLLM 0.33 v1/sample and older "
    f"start-up logs) and the step's hidden states ({_STEP.low} to {_STEP.high} copies); range checked against public vLLM logs from 0.11 to 0.33"
)
_RUNTIME_SOURCE = (
    "CUDA graphs, library workspaces, and collectives when there are several ranks: public vLLM start-up logs print "
    "0.13 to 2.1 GiB outside the allocator and 0.1 to 2.5 GiB of graphs"
)
_COUNTED = "tensor shapes that follow from the config, in the checkpoint's own formats"
_GIVEN = "given on the command line"


WORDS = Words("the formula")


@dataclass(frozen=True, slots=True)
class Ideal:
    """The textbook's formula; it has no version because nobody can change it."""

    name: str = "ideal"
    version: str | None = None
    verified: bool = True
    words: Words = WORDS
    allocates: bool = False

    def default_context(self, model: Model) -> Context:
        """The model's own maximum."""
        return model.context

    def longest_context(self, model: Model) -> int | None:
        """The model's own maximum: more is arithmetic, but no model's word."""
        return model.context.tokens

    def kv_format(self, model: Model, asked: KvFormat | None, gpu: Gpu | None) -> KvFormat:
        """What was asked, or the checkpoint's own format, or the model's 16 bit."""
        return asked or model.kv_auto

    def unstated(self, model: Model) -> tuple[str, ...]:
        """What logits and hidden states are counted with."""
        return unstated(model, matrices=False)

    def lacks_experts(self, model: Model) -> bool:
        """Never: arithmetic deals out what there is."""
        return False

    def contradicts(self, model: Model, stated: Stated) -> str | None:
        """Never: arithmetic takes the config's word."""
        return None

    def start(self, setup: Setup) -> Formula:
        """Always: arithmetic serves everything, for text alone without towers."""
        if setup.options.language_model_only:
            setup = replace(setup, model=without_towers(setup.model))
        return Formula(setup, self.kv_format(setup.model, setup.kv, setup.gpu))


@dataclass(frozen=True, slots=True)
class Formula:
    """The formula with a setup. kv: the format in use."""

    setup: Setup
    kv: KvFormat

    def budget_at(self, tokens: int) -> Budget:
        """The same for every length.

        Raises: UsageError as budget.
        """
        del tokens
        return self.budget()

    def budget(self) -> Budget:
        """Memory left for the cache on the fullest GPU, term by term.

        Raises: UsageError if the weights are needed and neither known nor given, or no GPU is named.
        """
        model, gpu, parallel, options = self.setup.model, self.setup.named_gpu, self.setup.parallel, self.setup.options
        memory = Term("memory", Range.exactly(gpu.memory.value), gpu.memory.kind, ", ".join(gpu.memory.sources))
        usable = _usable(gpu, options)
        weights = weights_term(model, parallel, options)
        activation, runtime = _overhead(model, gpu, parallel, options)
        left = _difference(usable, weights, activation, runtime)
        return Budget(
            memory=memory,
            usable=usable,
            weights=weights,
            activation=activation,
            runtime=runtime,
            kv=left if options.kv_memory is None else Range.exactly(options.kv_memory),
            assumed=() if options.utilization is not None else (("utilization", str(UTILIZATION)),),
        )

    def capacity(self, kv_bytes: int) -> Capacity | Refusal:
        """Whole sequences of the setup's length in `kv_bytes` on each GPU: the least of all stages, times the replicas."""
        context, replicas, most = self.setup.context, self.setup.parallel.dp, self.setup.options.most_running
        found = formula(self.setup.curves(self.kv), replicas, context, kv_bytes)
        found = replace(found, max_context=min(found.max_context, self._positions))
        if found.max_sequences == 0:
            need = self.reserved()
            said = f"one sequence of {context:,} tokens needs {format_bytes(need)} on the fullest GPU"
            return Refusal("longest_request", said, need, found.max_context)
        if most is None or found.max_sequences <= most * replicas:
            return found
        return replace(found, max_sequences=most * replicas, binding="max_num_seqs")

    @property
    def _positions(self) -> int:
        """Tokens that a table has positions for; without one, memory alone limits a sequence."""
        weights, own = self.setup.model.weights, self.setup.model.context.tokens
        return LONGEST if own is None or weights is None or weights.positions is None else own

    def reserved(self) -> int:
        """Exactly what the sequence holds on the fullest GPU."""
        return max(curve.bytes_at(self.setup.context) for curve in self.setup.curves(self.kv))

    def utilization(self, concurrency: int, *, likely: bool) -> float | None:
        """None: nothing is started."""
        return None

    def cautions(self) -> tuple[str, ...]:
        """None: nothing is started."""
        return ()

    @property
    def excess(self) -> Excess | None:
        """What is beyond the model's own maximum is counted all the same."""
        return Excess.of(self.setup, self.setup.model.context.tokens)

    @property
    def launcher(self) -> None:
        """None: nothing is started."""


def formula(curves: tuple[Curve, ...], replicas: int, context: int, kv_bytes: int) -> Capacity:
    """What the textbook says `kv_bytes` on each GPU hold, however little that is.

    curves: of one tensor rank of each pipeline stage. kv_tokens: in a cache full of sequences of `context` tokens, the
    last one cut short.
    """
    room, needs = max(kv_bytes, 0), [curve.bytes_at(context) for curve in curves]
    most = max(needs)
    return Capacity(
        kv_bytes=kv_bytes,
        blocks=None,
        block_tokens=None,
        kv_tokens=replicas * (room * context // most if most else LONGEST),
        max_concurrency=replicas * (room / most if most else float(LONGEST)),
        max_sequences=replicas * (room // most if most else LONGEST),
        max_context=min(curve.tokens_that_fit(room) for curve in curves),
        binding="rank" if len(set(needs)) > 1 else "pool",
    )


def weights_term(model: Model, parallel: Parallel, options: Options) -> Term:
    """Bytes of weights on the fullest GPU: given, or the model's own.

    Raises: UsageError if they are neither known nor given, unless the cache's memory is given and nobody needs them.
    """
    if options.weights_per_gpu is not None:
        more = beside(model, parallel, options)
        size = options.weights_per_gpu + sum(term.bytes.likely for term in more)
        return Term("weights", Range.exactly(size), f"{options.weights_per_gpu:,} B per GPU", _GIVEN, more)
    if model.weights is None:
        if options.kv_memory is not None:
            return Term("weights", Range.exactly(0), "not counted: the cache's memory is given", _GIVEN)
        raise UsageError(
            f"the weights of {model.origin.id} aren't known",
            cause="its description doesn't say enough to count its parameters",
            hint="--weights 140GB (all checkpoint files together), or --kv-memory 40GiB (the cache alone, per GPU)",
        )
    own, parts = found = held(model.weights, parallel, options)
    size = found.bytes
    if model.weights.whole:
        source = model.weights.found_by if model.weights.basis == "headers" else _COUNTED
        return Term("weights", Range.exactly(size), _layout(own, model, parallel), source, parts)
    if not model.weights.missing and model.weights.rounding:
        off = -(-size * model.weights.rounding * parallel.ep // model.weights.total)
        said = f"{_layout(own, model, parallel)}, a rounded count: {off:,} B less or more"
        return Term("weights", Range(size - off, size, size + off), said, _COUNTED, parts)
    missing = ", ".join(model.weights.missing)
    spare = Range(size, size, size + size * UNKNOWN_PARTS // 100)
    layout = f"{_layout(own, model, parallel)}, up to {UNKNOWN_PARTS} % more for {missing}"
    return Term("weights", spare, layout, _COUNTED, parts)


def _layout(size: int, model: Model, parallel: Parallel) -> str:
    if model.weights is None or parallel.gpus == 1:
        return f"{size:,} B"
    return f"{size:,} B on the fullest GPU, of {model.weights.bytes:,} B in all"


def _usable(gpu: Gpu, options: Options) -> Term:
    share = UTILIZATION if options.utilization is None else options.utilization
    source = "assumed: a tenth stays for contexts and other processes" if options.utilization is None else _GIVEN
    size = int(gpu.memory.value * share)
    return Term("usable", Range.exactly(size), f"{gpu.memory.value:,} B x {share:g}", source)


def _overhead(model: Model, gpu: Gpu, parallel: Parallel, options: Options) -> tuple[Term, Term]:
    """Activations and runtime; together they are what `overhead` replaces."""
    if options.overhead is not None:
        given = Term("runtime", Range.exactly(options.overhead), f"{options.overhead:,} B per GPU", _GIVEN)
        return Term("activation", Range.exactly(0), "part of the overhead given", _GIVEN), given
    rows, tokens = LARGE_STEP if gpu.memory.value >= LARGE_GPU else SMALL_STEP
    words = VOCABULARIES if model.vocab_size is None else Range.exactly(model.vocab_size)
    hidden = HIDDEN if model.hidden_size is None else Range.exactly(model.hidden_size)
    activation = _each(
        lambda logits, copies, size, wide: logits * rows * size + copies * tokens * wide * 2,
        _LOGITS, _STEP, words, hidden,
    )  # fmt: skip
    formula = (
        f"{_ends(_LOGITS)} B x {rows} rows x {words.likely:,} words"
        f" + {_ends(_STEP)} x {tokens:,} tokens x {hidden.likely:,} x 2 B"
    )
    runtime = _RUNTIME
    graphs = f"{_ends(_RUNTIME, GIB)} GiB"
    if parallel.tp * parallel.pp > 1:
        runtime = _each(lambda alone, more: alone + more, _RUNTIME, _COLLECTIVES)
        graphs += f" + {_ends(_COLLECTIVES, GIB)} GiB for collectives"
    return Term("activation", activation, formula, _ACTIVATION), Term("runtime", runtime, graphs, _RUNTIME_SOURCE)


def _ends(amount: Range, unit: int = 1) -> str:
    """`low..likely..high` in a unit, to three digits."""
    return "..".join(f"{each / unit:.3g}" for each in (amount.low, amount.likely, amount.high))


def _each(rule: Callable[..., int], *ranges: Range) -> Range:
    """The same arithmetic at each end; every rule here only adds and multiplies, so ends stay in order."""
    return Range(*(rule(*ends) for ends in zip(*((r.low, r.likely, r.high) for r in ranges), strict=True)))


def _difference(usable: Term, *spent: Term) -> Range:
    """What is left; its low end is after every term's high end."""
    return Range(
        usable.bytes.low - sum(term.bytes.high for term in spent),
        usable.bytes.likely - sum(term.bytes.likely for term in spent),
        usable.bytes.high - sum(term.bytes.low for term in spent),
    )
