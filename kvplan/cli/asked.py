"""From the values of a command's flags to the arguments of the API, the same for every command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.arch.model import Model
from kvplan.arch.parallel import Parallel
from kvplan.cli import options as o
from kvplan.cli.option import Values
from kvplan.engines.base import Options
from kvplan.errors import UsageError
from kvplan.plan.request import NO_FLAGS, End

if TYPE_CHECKING:
    from kvplan.hardware.gpu import Gpu


def model(name: str, values: Values) -> Model:
    """The model that was named.

    Raises: UnknownName, ConfigError, SourceError.
    """
    from kvplan import api

    return api.load_model(name, revision=values.get(o.REVISION), offline=values.on(o.OFFLINE))


def weighed(name: str, values: Values) -> Model:
    """The model that was named, its weights by the checkpoint's own headers where they can be reached and are wanted.

    Raises: UnknownName, ConfigError, SourceError.
    """
    found = model(name, values)
    if values.was_given(o.WEIGHT_DTYPE) or values.get(o.WEIGHTS) is not None:
        return found
    return _by_headers(found, values)


def _by_headers(found: Model, values: Values) -> Model:
    from kvplan.api.given import has_headers, weigh

    if not has_headers(found):
        return found
    from kvplan.cli.progress import Progress

    with Progress("headers of the checkpoint") as progress:
        return weigh(found, offline=values.on(o.OFFLINE), progress=progress)


def parallel(values: Values, count: int | None = None) -> Parallel:
    """The parallel sizes; on `count` GPUs the tensor size is what the others leave, unless it is given.

    Raises: UsageError, CannotSplit.
    """
    tp, pp, dp, ep, dcp = (values.get(option) or 1 for option in o.PARALLEL)
    if count is not None and not values.was_given(o.TP) and not count % (pp * dp):
        tp = count // (pp * dp)
    return Parallel(tp, pp, dp, ep, dcp)


def gpu(values: Values) -> tuple[Gpu, int | None]:
    """The GPU with its facts as given, and how many were asked for; None where nothing says.

    Raises: UsageError, UnknownName.
    """
    from kvplan.hardware.gpu import overrides
    from kvplan.sources.gpus import AUTO, parse_gpu

    name = values.get(o.GPU)
    if name is None:
        raise UsageError(
            "which GPU?",
            cause="a plan needs a GPU",
            hint="add --gpu h100, --gpu h100x8, or --gpu auto for this machine's",
        )
    known, count = parse_gpu(name)
    if name.strip().lower() == AUTO and values.was_given(o.TP):
        count = None
    return overrides(known, memory=values.get(o.GPU_MEMORY), bandwidth=values.get(o.GPU_BANDWIDTH)), count


def gpus_and_layout(values: Values) -> tuple[Gpu, Parallel, bool]:
    """The GPU, parallel sizes that use as many as were asked for, and whether any number of them was.

    Raises: UsageError, UnknownName, CannotSplit.
    """
    from kvplan.api.given import layout

    known, count = gpu(values)
    return known, layout(parallel(values, count), count, tp_given=values.was_given(o.TP)), count is not None


def end(values: Values) -> End:
    """Which end of an uncertain budget decides; a flag beats the environment and files.

    Raises: UsageError.
    """
    likely = values.on(o.LIKELY) and not values.beaten(o.LIKELY, o.SAFE)
    safe = values.on(o.SAFE) and not values.beaten(o.SAFE, o.LIKELY)
    if safe and likely:
        raise UsageError("--safe and --likely can't be combined", hint="leave one of them out")
    return "likely" if likely else "safe"


def engine_options(values: Values) -> Options:
    """The engine's own flags."""
    return Options(
        utilization=values.get(o.UTILIZATION),
        kv_memory=values.get(o.KV_MEMORY),
        overhead=values.get(o.OVERHEAD),
        block_size=values.get(o.BLOCK_SIZE),
        max_num_batched_tokens=values.get(o.MAX_NUM_BATCHED_TOKENS),
        max_num_seqs=values.get(o.MAX_NUM_SEQS),
        prefix_caching=_prefix_caching(values),
        graphs=not values.on(o.ENFORCE_EAGER),
        async_scheduling=not values.on(o.NO_ASYNC_SCHEDULING),
        hybrid_manager=not values.on(o.NO_HYBRID),
        speculative_tokens=values.get(o.SPECULATIVE_TOKENS) or 0,
        max_loras=_loras(values),
        max_lora_rank=values.get(o.MAX_LORA_RANK) or NO_FLAGS.max_lora_rank,
        lora_targets=values.get(o.LORA_TARGETS),
        language_model_only=values.on(o.LANGUAGE_MODEL_ONLY),
    )


def _prefix_caching(values: Values) -> bool | None:
    """As said; None for the engine's default. A flag beats the environment and files.

    Raises: UsageError.
    """
    on = values.on(o.ENABLE_PREFIX_CACHING) and not values.beaten(o.ENABLE_PREFIX_CACHING, o.NO_PREFIX_CACHING)
    off = values.on(o.NO_PREFIX_CACHING) and not values.beaten(o.NO_PREFIX_CACHING, o.ENABLE_PREFIX_CACHING)
    if on and off:
        raise UsageError(
            "--enable-prefix-caching and --no-prefix-caching can't be combined", hint="leave one of them out"
        )
    return True if on else False if off else None


def _loras(values: Values) -> int:
    """Adapters at once: as said; one where only their rank or their targets are."""
    given = values.get(o.MAX_LORAS)
    if given is not None:
        return given
    return 1 if values.get(o.MAX_LORA_RANK) is not None or values.get(o.LORA_TARGETS) is not None else 0


def draft(values: Values) -> Model | None:
    """The model that drafts, if one was named, its weights by its own headers too.

    Raises: UnknownName, ConfigError, SourceError.
    """
    name = values.get(o.DRAFT)
    if name is None:
        return None
    from kvplan import api

    return _by_headers(api.load_model(name, offline=values.on(o.OFFLINE)), values)
