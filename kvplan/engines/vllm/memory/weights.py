"""Bytes of weights on the fullest GPU, as vLLM lays them out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kvplan.arch.model import Model
from kvplan.arch.parallel import Parallel
from kvplan.arch.traits import TEXT_ALONE
from kvplan.arch.weights import UNSURE_HEAD, Weights
from kvplan.engines.base import Options, Range, Term
from kvplan.engines.extras import beside, held
from kvplan.engines.vllm.layout.merged import counted_ends
from kvplan.engines.vllm.layout.views import view_of
from kvplan.engines.vllm.memory import adapters
from kvplan.engines.vllm.starts.quantizers import unseen
from kvplan.engines.vllm.tables.versions import NEWEST, Version
from kvplan.errors import UsageError
from kvplan.hardware.gpu import Gpu

PLAIN, EIGHT = 16, 8
"""Bits of an element."""
MORE = ((PLAIN, 0.006), (0, 0.03))
"""By how much a log may print more, for models whose smallest elements have at least so many bits: docs/accuracy.md."""
UNNAMED = 0.1
"""The same for NVFP4 known by a config alone, and for formats that a model isn't published in: layers stay in 16 bit unnamed."""
MORE_ON_AMD = ((PLAIN, 0.03), (0, 0.06))
"""On AMD a log prints what the device gave away, small segments included: docs/accuracy.md."""
UNCOUNTED = 0.3
"""Share allowed for parts that couldn't be counted."""
TOWERS, LARGEST_TOWER = ("vision", "audio", "projector"), 12_000_000_000
"""How the names of missing towers begin, and bytes allowed for each: of the largest published, InternViT-6B in 16 bit."""


def weights(model: Model, gpu: Gpu, parallel: Parallel, options: Options, version: Version = NEWEST) -> Term:
    """Weights as given, or counted tensor by tensor.

    Raises: UsageError when they are neither known nor given, unless the cache's memory is given and nobody needs them;
    Unsupported for a checkpoint in a format that isn't seen.
    """
    if options.weights_per_gpu is not None:
        more = beside(model, parallel, options)
        given = options.weights_per_gpu + sum(term.bytes.likely for term in more)
        most = given + sum(term.bytes.high - term.bytes.likely for term in more)
        formula = f"{options.weights_per_gpu:,} B per GPU"
        return Term("weights", Range(given, given, most), formula, "given on the command line", more)
    if model.weights is None:
        if options.kv_memory is not None:
            return Term(
                "weights", Range.exactly(0), "not counted: the cache's memory is given", "given on the command line"
            )
        raise UsageError(
            f"the weights of {model.origin.id} aren't known",
            cause="its description doesn't say enough to count its parameters",
            hint="--weights 140GB (all checkpoint files together), or --kv-memory 40GiB (the cache alone, per GPU)",
        )
    block = model.quantized
    if block is not None and block.unnamed and model.what_if is None and options.kv_memory is None:
        raise unseen(model, "--weights with the bytes that are loaded")
    view = view_of(model, gpu, version)
    found = held(model.weights, parallel, options, view)
    behind = 0 if gpu.vendor == "amd" else counted_ends(model.weights.layers, parallel, version)
    size = found.bytes + behind
    ranks = parallel.tp * parallel.pp
    formula = f"{model.weights.total:,} parameters, tensor by tensor, the fullest of {ranks} ranks"
    if model.weights.rounding:
        formula += f", rounded to {2 * model.weights.rounding:,}"
    if behind:
        formula += f", {behind:,} B behind them that the allocator counts"
    if TEXT_ALONE in model.traits:
        formula += ", without encoders of images and sound"
    if model.weights.missing and not model.weights.whole:
        formula += f"; without {', '.join(model.weights.missing)}, which the config doesn't describe"
    least = held(_headless(model.weights), parallel, options, view).bytes if model.weights.unsure_head else found.bytes
    low = round((least + behind) * (1 - rounded(model.weights, parallel)))
    high = (
        round(size * (1 + _more(model.weights, gpu, parallel))) + found.borrowed + _unsure_ends(model, options, version)
    )
    origin = model.weights.found_by if model.weights.basis == "headers" else "tensors of the config"
    return Term(
        "weights", Range(low, size, high), formula, f"{origin}, padded and copied as vLLM 0.33 does", found.extras
    )


def _unsure_ends(model: Model, options: Options, version: Version) -> int:
    """Bytes that adapters of the embedding and the head may take, whole on every rank, where the class doesn't say.

    Modules that were named are all there are. Source: vLLM 0.33 lora/utils.py get_supported_lora_modules.
    """
    known = options.lora_targets is not None or not adapters.unsure_ends(model, version)
    if not options.max_loras or known or model.vocabulary is None or model.hidden_size is None:
        return 0
    return options.max_loras * options.max_lora_rank * 2 * (model.vocabulary + model.hidden_size) * BYTES_OF_BF16


BYTES_OF_BF16 = 2


def _more(weights: Weights, gpu: Gpu, parallel: Parallel) -> float:
    """Share by which the weights may be more than counted: what couldn't be, and what kernels make of the rest."""
    return _uncounted(weights) + rounded(weights, parallel) + _kernels(weights, gpu)


def rounded(weights: Weights, parallel: Parallel) -> float:
    """Share that a rounded count may be off by, either way; ranks that share experts hold as much of the rest each."""
    return weights.rounding * parallel.ep / weights.total if weights.rounding else 0.0


def _headless(weights: Weights) -> Weights:
    """The same, sure that its head is the embedding: what is counted may have one of its own.

    Source: vLLM 0.33 config/model.py maybe_untie_word_embeddings; before it, models/llama.py and the text part's config.
    """
    return replace(weights, missing=tuple(part for part in weights.missing if part != UNSURE_HEAD))


def _tower(weights: Weights) -> float:
    return min(UNCOUNTED, LARGEST_TOWER / weights.bytes)


def _other(_: Weights) -> float:
    return UNCOUNTED


MISSING: tuple[tuple[tuple[str, ...], Callable[[Weights], float]], ...] = (
    (TOWERS, _tower),
    (("",), _other),
)
"""Parts that couldn't be counted, by how their names begin, and the share that each may add."""


def _uncounted(weights: Weights) -> float:
    """Share of parts that couldn't be counted, limited; a head that may be there is counted."""
    if weights.whole:
        return 0.0
    parts = _headless(weights).missing
    return min(
        UNCOUNTED, sum(next(share for begins, share in MISSING if part.startswith(begins))(weights) for part in parts)
    )


def _kernels(weights: Weights, gpu: Gpu) -> float:
    """Share that kernels may add by padding and repacking, and layers that stay in 16 bit unnamed."""
    found = [weight for block, _ in weights.distinct for weight in block]
    bits = min((weight.stored.bits for weight in found), default=PLAIN)
    repacked = bits < PLAIN or any(weight.routed for weight in found)
    guessed = weights.basis == "what_if" or (
        weights.basis != "headers" and any(w.stored.name == "nvfp4" for w in found)
    )
    if guessed and bits < EIGHT and gpu.vendor != "amd":
        return UNNAMED
    table = MORE_ON_AMD if gpu.vendor == "amd" and repacked else MORE
    return next(share for least, share in table if bits >= least)
