"""vLLM as an engine: the policy that plans are made with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from kvplan.arch.curve import LONGEST
from kvplan.arch.formats import FORMATS, KvFormat
from kvplan.arch.model import DESCRIBED, Context, Model
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Budget, Capacity, Options, Refusal
from kvplan.engines.ideal import drafting
from kvplan.engines.vllm.blocks import allocate, states
from kvplan.engines.vllm.blocks.backends import BLACKWELL, HOPPER, capability
from kvplan.engines.vllm.blocks.cells import run_in
from kvplan.engines.vllm.blocks.reserve import difference, fullest, reasons, stage_bytes
from kvplan.engines.vllm.itself import Itself
from kvplan.engines.vllm.memory import adapters
from kvplan.engines.vllm.memory import budget as budgets
from kvplan.engines.vllm.settings import settings
from kvplan.engines.vllm.starts import lengths, quantizers, served, shares
from kvplan.engines.vllm.starts.cautions import cautions
from kvplan.engines.vllm.starts.devices import platform_of
from kvplan.engines.vllm.tables.architectures import FP8_ON_BLACKWELL, compresses, named, sparse_latents
from kvplan.engines.vllm.tables.versions import NEWEST, Version, rules, text
from kvplan.errors import UsageError
from kvplan.hardware.gpu import Gpu


@dataclass(frozen=True, slots=True)
class Vllm:
    """VLLM at one version. verified: whether its rules were read, and not those of the newest known one are used instead."""

    release: Version = NEWEST
    verified: bool = True

    @property
    def name(self) -> str:
        """As typed after --engine."""
        return "vllm"

    @property
    def version(self) -> str | None:
        """The version whose rules are used."""
        return text(self.release)

    def default_context(self, model: Model) -> Context:
        """The max_model_len of a server that isn't given one."""
        return lengths.default(model, rules(self.release))

    def longest_context(self, model: Model) -> int | None:
        """The longest max_model_len that vLLM takes without VLLM_ALLOW_LONG_MAX_MODEL_LEN; None for any."""
        return lengths.accepted(model, rules(self.release))

    def kv_format(self, model: Model, asked: KvFormat | None, gpu: Gpu | None) -> KvFormat:
        """What was asked; else the checkpoint's own format, or what vLLM chooses for the model on this GPU.

        Raises: UsageError where vLLM would choose a format that no kernel of the GPU takes.
        """
        found = asked or self.chosen_format(model, gpu)
        if found is None:
            raise UsageError(
                f"vLLM has no kernel for the cache of {model.origin.id} in its own format here",
                cause="the checkpoint asks for fp8_e4m3, and sparse latents on Hopper take fp8 only when it is asked for",
                hint="--kv-dtype fp8, or --kv-dtype bf16",
            )
        return found

    def chosen_format(self, model: Model, gpu: Gpu | None) -> KvFormat | None:
        """What vLLM chooses when no format is asked for; None where it then finds no kernel.

        Source: vLLM 0.33 platforms/cuda.py, supported_kv_cache_dtypes of v1/attention/backends/mla.
        """
        if model.family == DESCRIBED and model.kv_hint is not None:
            return model.kv_hint
        major = None if gpu is None else capability(gpu)[0]
        if compresses(model) or (model.kv_hint is None and named(model, FP8_ON_BLACKWELL) and major == BLACKWELL):
            return KvFormat(FORMATS["fp8"], FORMATS["fp8"])
        if quantizers.caches(model) and model.kv_hint is not None:
            return None if major == HOPPER[0] and sparse_latents(model) else model.kv_hint
        own = run_in(model.dtype, None if gpu is None else capability(gpu))
        return KvFormat(own, own)

    def plan(
        self, model: Model, gpu: Gpu | None, parallel: Parallel, kv: KvFormat, options: Options, context: int
    ) -> allocate.Plan:
        """How the cache is laid out, before any memory is known.

        Raises: UsageError, CannotSplit, Unsupported where vLLM would not start whatever the memory.
        """
        return _planned(self, Itself(model), Itself(gpu), parallel, kv, options, context)

    def check(self, model: Model, gpu: Gpu, parallel: Parallel, kv: KvFormat, options: Options, context: int) -> None:
        """Nothing, if vLLM serves the model on this GPU and has memory enough.

        Raises: UsageError, CannotSplit, Unsupported.
        """
        self.plan(model, gpu, parallel, kv, options, context)

    def cautions(
        self, model: Model, gpu: Gpu | None, parallel: Parallel, options: Options, context: int
    ) -> tuple[str, ...]:
        """What to say of a plan that this version may not start, or only in a roundabout way.

        Raises: UsageError for batch sizes that vLLM refuses.
        """
        held = rules(self.release)
        return cautions(model, gpu, settings(model, gpu, parallel, options, context, held), held, options)

    def budget(self, model: Model, gpu: Gpu, parallel: Parallel, options: Options, context: int) -> Budget:
        """Memory left for the cache on the fullest GPU, term by term.

        Raises: UsageError if the weights are needed and neither known nor given.
        """
        held = rules(self.release) if self.verified else replace(rules(self.release), read=False)
        chosen = settings(model, gpu, parallel, options, context, held)
        return budgets.budget(model, gpu, chosen, held, adapters.allocated(options, model, self.release))

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
        """The pool that `kv_bytes` on each GPU become, as vLLM prints it for one replica; or its refusal.

        max_sequences counts all data-parallel replicas, each of which prints its own pool.

        Raises: UsageError, CannotSplit, Unsupported where vLLM would not start whatever the memory.
        """
        made = self.plan(model, gpu, parallel, kv, options, context)
        found = allocate.pool(made, kv_bytes)
        if isinstance(found, Refusal):
            return found
        together = int(found.concurrency)
        allowed = min(together, made.settings.running)
        notes = self._difference(model, parallel, kv, options, made)
        return Capacity(
            kv_bytes=kv_bytes,
            blocks=found.blocks,
            block_tokens=made.block,
            kv_tokens=found.tokens,
            max_concurrency=found.concurrency,
            max_sequences=parallel.dp * allowed,
            max_context=self._longest(made, model, kv_bytes),
            binding=_binding(made, allowed < together),
            notes=notes,
            reasons=reasons(made, notes),
        )

    def reserved(
        self, model: Model, gpu: Gpu | None, parallel: Parallel, kv: KvFormat, options: Options, tokens: int
    ) -> int:
        """Bytes that one sequence of `tokens` takes on the fullest GPU.

        Raises: UsageError, CannotSplit, Unsupported where vLLM would not start whatever the memory.
        """
        made = self.plan(model, gpu, parallel, kv, options, tokens)
        return stage_bytes(made, tokens, fullest(made))

    @staticmethod
    def _difference(
        model: Model, parallel: Parallel, kv: KvFormat, options: Options, made: allocate.Plan
    ) -> tuple[tuple[str, int], ...]:
        """Why the longest request takes more than the formula says, and where vLLM keeps less."""
        length, stage, drafts = made.settings.length, fullest(made), drafting(model, options)
        ideal = model.rank_curves(parallel, kv, drafts)[stage].bytes_at(length)
        other = states.other_format(model, made.rules)
        if other is None:
            return difference(made, length, ideal, ideal)
        held = (*model.stages(parallel)[stage], *(drafts if stage == parallel.pp - 1 else ()))
        same = model.curve(kv, parallel.shard, states.in_kept_formats(model, held, made.rules))
        return difference(made, length, ideal, same.bytes_at(length), other.name)

    @staticmethod
    def _longest(made: allocate.Plan, model: Model, kv_bytes: int) -> int:
        """The longest max_model_len that would pass the check, up to the model's own maximum."""
        limit = max(lengths.accepted(model, made.rules) or LONGEST, made.settings.length)
        wider = replace(made, settings=replace(made.settings, length=limit))
        return allocate.longest_everywhere(wider, kv_bytes)


@lru_cache(maxsize=1)
def _planned(
    engine: Vllm, one: Itself[Model], card: Itself[Gpu | None], parallel: Parallel, kv: KvFormat, options: Options, context: int
) -> allocate.Plan:  # fmt: skip
    """`Vllm.plan`, kept for the question that is asked next of the same: whether a model starts, then what it holds."""
    model, gpu = one.value, card.value
    if gpu is not None:
        platform_of(gpu, engine.release)
    served.check(model, engine.release, verified=engine.verified)
    adapters.check(model, options, engine.release)
    shares.check(options, engine.release)
    held = rules(engine.release)
    return allocate.plan(model, gpu, kv, settings(model, gpu, parallel, options, context, held), held)


def _binding(made: allocate.Plan, capped: bool) -> str:  # noqa: FBT001 - what was found, not a mode
    if capped:
        return "max_num_seqs"
    return "rank" if len(set(made.stages)) > 1 else "pool"
