"""From a GPU's memory to what is left for the cache.

    cache = ceil(total x utilization) - weights - activation peak - everything else outside the allocator (- CUDA graphs)

Source: vLLM 0.33 v1/worker/gpu_worker.py determine_available_memory, v1/worker/utils.py request_memory.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from kvplan.arch.model import Model
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Budget, Options, Range, Term
from kvplan.engines.vllm.layout.indexers import with_unused
from kvplan.engines.vllm.memory import runner
from kvplan.engines.vllm.memory.buffers import with_buffers
from kvplan.engines.vllm.memory.overhead import activation, runtime
from kvplan.engines.vllm.memory.weights import weights
from kvplan.engines.vllm.settings import Settings
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.hardware.gpu import Gpu

GIVEN = "given on the command line"


def loaded(model: Model, gpu: Gpu, parallel: Parallel, options: Options, rules: Rules) -> Term:
    """Weights of the fullest GPU, with the modules that a release builds and doesn't use.

    Raises: UsageError if the weights are needed and neither known nor given.
    """
    built = model if rules.indexers_skipped else with_unused(model)
    return weights(built, gpu, parallel, options, rules.version)


def budget(model: Model, gpu: Gpu, settings: Settings, rules: Rules, options: Options, held: Term) -> Budget:
    """Memory of the fullest GPU, term by term. held: the weights that are loaded."""
    share = rules.utilization if options.utilization is None else options.utilization
    total = gpu.memory.value
    usable = Term(
        "usable",
        Range.exactly(ceil(total * share)),
        f"{total:,} B x {share:g}",
        GIVEN if options.utilization is not None else "gpu_memory_utilization's default: vLLM config/cache.py",
    )
    if options.weights_per_gpu is None:
        held = with_buffers(held, model, settings, rules)
    peak, rest = _overhead(model, gpu, settings, rules, options)
    left = Range(
        usable.bytes.low - held.bytes.high - peak.bytes.high - rest.bytes.high,
        usable.bytes.likely - held.bytes.likely - peak.bytes.likely - rest.bytes.likely,
        usable.bytes.high - held.bytes.low - peak.bytes.low - rest.bytes.low,
    )
    assumed = () if options.utilization is not None else (("gpu_memory_utilization", f"{rules.utilization:g}"),)
    return Budget(
        memory=Term("memory", Range.exactly(total), gpu.memory.kind, ", ".join(gpu.memory.sources)),
        usable=usable,
        weights=held,
        activation=peak,
        runtime=rest,
        kv=left if options.kv_memory is None else Range.exactly(options.kv_memory),
        assumed=(*assumed, *settings.assumed),
    )


def _overhead(model: Model, gpu: Gpu, settings: Settings, rules: Rules, options: Options) -> tuple[Term, Term]:
    if options.overhead is not None:
        given = Term("runtime", Range.exactly(options.overhead), f"{options.overhead:,} B per GPU", GIVEN)
        return Term("activation", Range.exactly(0), "part of the overhead given", GIVEN), given
    peak, rest = activation(model, gpu, settings, rules, options), runtime(model, gpu, settings, rules, options)
    if not runner.is_unsure(model, gpu, settings, rules):
        return peak, rest
    first = runner.first_alone(rules)
    return (
        _or_first(peak, activation(model, gpu, settings, first, options)),
        _or_first(rest, runtime(model, gpu, settings, first, options)),
    )


def _or_first(term: Term, first: Term) -> Term:
    """A term whose ends allow for the first model runner too."""
    ends, other = term.bytes, first.bytes
    around = Range(min(ends.low, other.low), ends.likely, max(ends.high, other.high))
    return replace(term, bytes=around, formula=f"{term.formula}; the ends allow for the first model runner's")
