"""vLLM with a setup: its cache laid out, and what follows once there is memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from kvplan.arch.curve import LONGEST
from kvplan.arch.formats import KvFormat
from kvplan.engines.base import Binding, Budget, Capacity, Excess, Options, Refusal, Setup, Term
from kvplan.engines.vllm.blocks import allocate, states
from kvplan.engines.vllm.blocks.reserve import difference, fullest, reasons, stage_bytes
from kvplan.engines.vllm.memory import adapters
from kvplan.engines.vllm.memory import budget as budgets
from kvplan.engines.vllm.settings import Settings, settings
from kvplan.engines.vllm.starts import lengths
from kvplan.engines.vllm.starts.cautions import cautions
from kvplan.engines.vllm.tables.variables import LONGER
from kvplan.engines.vllm.tables.versions import Version

if TYPE_CHECKING:
    from kvplan.engines.vllm.emit import Launcher


@dataclass(frozen=True)
class Started:
    """The engine that starts with a setup if there is memory enough.

    release, verified: the rules it started by, and whether they are those of the version that was asked for. kv: the cache
    format in use. made: how the cache is laid out.
    """

    release: Version
    verified: bool
    setup: Setup
    kv: KvFormat
    made: allocate.Plan

    def budget(self) -> Budget:
        """Memory left for the cache on the fullest GPU, term by term.

        Raises: UsageError if the weights are needed and neither known nor given, or no GPU is named.
        """
        return self._budget(self.made.settings)

    def budget_at(self, tokens: int) -> Budget:
        """The same with another max_model_len.

        Raises: UsageError as budget.
        """
        return self._budget(settings(replace(self.setup, context=tokens), self.made.rules))

    def capacity(self, kv_bytes: int) -> Capacity | Refusal:
        """The pool that `kv_bytes` on each GPU become, as vLLM prints it for one replica; or its refusal.

        max_sequences counts all data-parallel replicas, each of which prints its own pool.
        """
        made = self.made
        found = allocate.pool(made, kv_bytes)
        if isinstance(found, Refusal):
            return found
        together = int(found.concurrency)
        allowed = min(together, made.settings.running)
        notes = self._difference()
        return Capacity(
            kv_bytes=kv_bytes,
            blocks=found.blocks,
            block_tokens=made.block,
            kv_tokens=found.tokens,
            max_concurrency=found.concurrency,
            max_sequences=self.setup.parallel.dp * allowed,
            max_context=self._longest(kv_bytes),
            binding=self._binding(capped=allowed < together),
            notes=notes,
            reasons=reasons(made, notes),
        )

    def reserved(self) -> int:
        """Bytes that one sequence of the setup's length takes on the fullest GPU."""
        return stage_bytes(self.made, self.setup.context, fullest(self.made))

    def utilization(self, concurrency: int, *, likely: bool) -> float | None:
        """The least gpu_memory_utilization with which so many requests of the setup's length fit.

        Raises: UsageError if all the memory isn't enough or max_num_seqs stands in the way.
        """
        from kvplan.engines.vllm.inverse import utilization

        return utilization(self, concurrency, likely=likely)

    def cautions(self) -> tuple[str, ...]:
        """What to say of a plan that this version may not start, or only in a roundabout way."""
        return cautions(self.setup, self.made.settings, self.made.rules)

    @cached_property
    def excess(self) -> Excess | None:
        """By what max_model_len is more than what vLLM derives, which it refuses unless it is told to."""
        return Excess.of(self.setup, self._accepted, LONGER)

    @cached_property
    def _accepted(self) -> int | None:
        return lengths.accepted(self.setup.model, self.made.rules)

    @property
    def launcher(self) -> Launcher:
        """The command line, or a pod."""
        from kvplan.engines.vllm.emit import Launcher

        return Launcher(self)

    def _budget(self, own: Settings) -> Budget:
        rules = self.made.rules if self.verified else replace(self.made.rules, read=False)
        setup, settled = self.setup, replace(own, block=self.made.block)
        return budgets.budget(setup.model, setup.named_gpu, settled, rules, self._allocated, self._loaded)

    @cached_property
    def _allocated(self) -> Options:
        return adapters.allocated(self.setup.options, self.setup.model, self.release)

    @cached_property
    def _loaded(self) -> Term:
        """The weights: the same at every length."""
        setup, made = self.setup, self.made
        return budgets.loaded(setup.model, setup.named_gpu, made.settings.parallel, self._allocated, made.rules)

    def _difference(self) -> tuple[tuple[str, int], ...]:
        """Why the longest request takes more than the formula says, and where vLLM keeps less."""
        model, parallel, made = self.setup.model, self.setup.parallel, self.made
        length, stage, drafts = made.settings.length, fullest(made), self.setup.drafting
        ideal = self.setup.curves(self.kv)[stage].bytes_at(length)
        other = states.other_format(model, made.rules)
        if other is None:
            return difference(made, length, ideal, ideal)
        held = (*model.stages(parallel)[stage], *(drafts if stage == parallel.pp - 1 else ()))
        same = model.curve(self.kv, parallel.shard, states.in_kept_formats(model, held, made.rules))
        return difference(made, length, ideal, same.bytes_at(length), other.name)

    def _longest(self, kv_bytes: int) -> int:
        """The longest max_model_len that would pass the check, up to the model's own maximum."""
        made = self.made
        limit = max(self._accepted or LONGEST, made.settings.length)
        wider = replace(made, settings=replace(made.settings, length=limit))
        return allocate.longest_everywhere(wider, kv_bytes)

    def _binding(self, *, capped: bool) -> Binding:
        if capped:
            return "max_num_seqs"
        return "rank" if len(set(self.made.stages)) > 1 else "pool"
