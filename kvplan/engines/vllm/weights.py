"""Bytes of weights on the fullest GPU, as vLLM lays them out."""

from __future__ import annotations

from kvplan.arch.model import Model
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Options, Range, Term
from kvplan.engines.weight_views import view_of
from kvplan.errors import UsageError


def weights(model: Model, parallel: Parallel, options: Options) -> Term:
    """Weights as given, or counted tensor by tensor.

    Raises: UsageError when they are neither known nor given, unless the cache's memory is given and nobody needs them.
    """
    if options.weights is not None:
        return Term(
            "weights", Range.exactly(options.weights), f"{options.weights:,} B per GPU", "given on the command line"
        )
    if model.weights is None:
        if options.kv_memory is not None:
            return Term(
                "weights", Range.exactly(0), "not needed: the cache's memory is given", "given on the command line"
            )
        raise UsageError(
            f"the weights of {model.origin.id} aren't known",
            cause="its description doesn't say enough to count its parameters",
            hint="--weights 140GB (all checkpoint files together), or --kv-memory 40GiB (the cache alone, per GPU)",
        )
    view = view_of("vllm", model)
    size = model.weights.bytes_fullest(parallel, view)
    if options.speculative_tokens:
        size += model.weights.draft_bytes_on_rank(parallel, view)
    ranks = parallel.tp * parallel.pp
    formula = f"{model.weights.total:,} parameters, tensor by tensor, the fullest of {ranks} ranks"
    return Term("weights", Range.exactly(size), formula, "tensors of the config, padded and copied as vLLM 0.33 does")
