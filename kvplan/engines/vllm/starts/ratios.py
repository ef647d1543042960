"""Ratios of compression that vLLM's compressor is built for, and its planner.

Source: vLLM 0.33 models/deepseek_v4/compressor.py, `assert compress_ratio in [4, 128]`; a ratio of 0 or 1 has no compressor.
"""

from __future__ import annotations

from dataclasses import replace

from kvplan.arch.layers import Compressed
from kvplan.arch.model import Model
from kvplan.arch.parallel import Parallel
from kvplan.engines.vllm.settings import Settings
from kvplan.engines.vllm.tables.architectures import indexes_entries
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.engines.vllm.tables.versions import text
from kvplan.errors import NotServed, NotSplit

BUILT = (4, 128)
INDEXED = 4
"""The one whose entries an indexer chooses among."""


def check(model: Model, settings: Settings, rules: Rules) -> None:
    """Nothing, if every compressed layer has a ratio that vLLM's compressor is built for, and together a layout.

    Raises: NotServed, NotSplit.
    """
    for cache, _ in model.distinct:
        if isinstance(cache, Compressed) and cache.ratio is not None and cache.ratio not in BUILT:
            raise NotServed(
                f"vLLM {text(rules.version)} has no compressor for {model.origin.id}",
                cause=f"its config's compress_ratios (or compress_rates) have {cache.ratio}, and vLLM builds 4 and 128 alone",
                hint="ratios of 0, 4 and 128 in the config, or --engine ideal",
            )
    if (
        any(isinstance(cache, Compressed) and cache.ratio is not None for cache, _ in model.distinct)
        and not rules.tuples
    ):
        _check_layout(model, settings, rules)


def _check_layout(model: Model, settings: Settings, rules: Rules) -> None:
    """Only the backend of an indexer asks for pages of several sizes side by side, and every stage must ask for the same.

    Source: vLLM 0.29 to 0.33 v1/attention/backends/utils.py resolve_kv_cache_layout, _get_packed_kv_cache_groups,
    unify_kv_cache_spec_page_size.

    Raises: NotServed, NotSplit.
    """
    asking = _stages_that_index(model, settings.parallel)
    if any(asking) and not all(asking):
        pp = settings.parallel.pp
        raise NotSplit(
            f"vLLM {text(rules.version)} can't split {model.origin.id} by --pp {pp}",
            cause=f"Workers disagree on supported KV cache layouts: stage {asking.index(False)} has no layer whose ratio "
            f"(compress_ratios) is {INDEXED}, and others have",
            hint=f"--pp {next(size for size in range(pp - 1, 0, -1) if _all_index(model, settings.parallel, size))}",
        )
    if settings.hybrid_manager and not any(asking):
        raise NotServed(
            f"vLLM {text(rules.version)} can't lay out what {model.origin.id} caches",
            cause="page size is not divisible by the maximum page size and cannot be padded: pages of several sizes lie side "
            f"by side only where a layer has an indexer, and none of its compress_ratios is {INDEXED}",
            hint=f"a ratio of {INDEXED} in the config, or --engine ideal",
        )


def _all_index(model: Model, parallel: Parallel, pp: int) -> bool:
    return all(_stages_that_index(model, replace(parallel, pp=pp)))


def _stages_that_index(model: Model, parallel: Parallel) -> tuple[bool, ...]:
    return tuple(map(indexes_entries, model.stages(parallel)))
