"""Arguments of the public functions: checked, and looked up where they are names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from types import NoneType
from typing import TYPE_CHECKING, TypeVar

from kvplan.arch.formats import KvFormat, parse_kv_format
from kvplan.arch.model import Model
from kvplan.errors import BadSize, UsageError
from kvplan.text import any_of
from kvplan.units import LARGEST, MOST, format_bytes, whole

T = TypeVar("T")

if TYPE_CHECKING:
    from kvplan.arch.weights import Kept
    from kvplan.engines.protocol import Engine
    from kvplan.hardware.gpu import Gpu
    from kvplan.plan.calibration import Calibration
    from kvplan.sources.checkpoints.headers import Progress


def load_model(name: str, *, revision: str | None = None, offline: bool = False) -> Model:
    """The model of that name.

    name: a bundled name (`kvplan.models()` lists them), a Hub id or address (`org/name`, `org/name@revision`), the path
    of a config.json, of Mistral's params.json, of a kvplan YAML or of a folder with one of them, or `-` for a
    description on standard input. An existing path takes precedence over a name. revision: of the Hub repository.
    offline: never ask the Hub.

    Raises: UnknownName, ConfigError, SourceError.
    """
    check_is("model", name, str, example="'llama-3-8b'")
    from kvplan.sources.compiled import at_once

    known = at_once(name, revision)
    if known is not None:
        return known
    from kvplan.sources.models import load_model as load

    return load(name, revision=revision, offline=offline)


def weigh(model: Model, *, offline: bool = False, progress: Progress | None = None) -> Model:
    """The model with the bytes of its checkpoint's own headers; unchanged, with a note, if there are none to be had.

    The headers are those of the files beside its config.json, or of its Hub repository, read by range requests. A
    bundled model is returned as it is. progress: called with the number of files done and the number of all files.

    Raises: ConfigError for a local file that contradicts itself.
    """
    if model.origin.bundled:
        return model
    from kvplan.sources.checkpoints.weighing import weigh as by_headers

    return by_headers(model, offline=offline, progress=progress)


def load_gpu(name: str, *, memory: int | None = None, bandwidth: int | None = None) -> Gpu:
    """The GPU of that name. memory (bytes), bandwidth (bytes/s): in place of the known figures.

    Raises: UnknownName.
    """
    from kvplan.hardware.gpu import overrides
    from kvplan.sources.gpus import load_gpu as load

    check_is("gpu", name, str, example="'h100'")
    check_whole("memory", memory, most=LARGEST)
    check_whole("bandwidth", bandwidth, most=LARGEST)
    return overrides(load(name), memory=memory, bandwidth=bandwidth)


def check_is(name: str, value: object, *kinds: type, example: str) -> None:
    """Check that an argument has one of the types.

    Raises: UsageError, naming the argument.
    """
    if not isinstance(value, kinds):
        known = any_of("name" if kind is str else kind.__name__ for kind in kinds if kind is not NoneType)
        raise UsageError(f"{name}: expected {known}, not {value!r}", hint=f"write it like {example}")


def several(name: str, values: Iterable[T], example: str) -> tuple[T, ...]:
    """The values of an argument that takes a list.

    Raises: UsageError for a single value, naming the argument.
    """
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise UsageError(f"{name}: {values!r} isn't a list", hint=f"write {name}=[{example}]")
    return tuple(values)


def check_whole(name: str, value: int | None, *, most: int = MOST) -> None:
    """Check that an argument is None or a whole number from 1.

    Raises: BadSize, naming the argument.
    """
    try:
        if value is not None:
            whole(value, most=most)
    except BadSize as error:
        raise error.about(name) from None


def model(model: Model | str) -> Model:
    """The model, loaded if it is given by name."""
    check_is("model", model, Model, str, example="'llama-3-8b'")
    return load_model(model) if isinstance(model, str) else model


def bundled(names: Iterable[str] | None = None) -> Iterator[tuple[str, Model]]:
    """Bundled models by name: all of them, or the named ones.

    Raises: UnknownName.
    """
    from kvplan.sources.compiled import compiled_models
    from kvplan.sources.models import model_names

    known = compiled_models()
    for name in model_names() if names is None else names:
        yield name, known[name] if name in known else load_model(name, offline=True)


def gpu(gpu: Gpu | str) -> Gpu:
    """The GPU, loaded if it is given by name."""
    from kvplan.hardware.gpu import Gpu

    check_is("gpu", gpu, Gpu, str, example="'h100'")
    return load_gpu(gpu) if isinstance(gpu, str) else gpu


def engine(spec: str) -> Engine:
    """The engine of that name."""
    check_is("engine", spec, str, example="'vllm'")
    from kvplan.engines.registry import engine as named

    return named(spec)


def kv_format(kv: KvFormat | str | None) -> KvFormat | None:
    """The cache format; None for auto."""
    if isinstance(kv, str):
        return None if kv == "auto" else parse_kv_format(kv)
    check_is("kv_dtype", kv, KvFormat, str, NoneType, example="'fp8'")
    return kv


def calibration(known: Calibration | str | None, gpu: Gpu) -> Calibration | None:
    """The calibration, read from its file if a file is given.

    Raises: BadFile; UsageError for a receipt of another GPU.
    """
    if isinstance(known, str):
        from kvplan.plan.calibration import calibration
        from kvplan.sources.receipts import read_receipt

        known = calibration(read_receipt(known), known)
    if known is not None:
        known.check(gpu)
    return known


def kept(dtype: Kept | str | None) -> Kept | None:
    """The format to convert weights to; None for the checkpoint's own.

    Raises: UnknownName.
    """
    if not isinstance(dtype, str):
        if dtype is not None and not hasattr(dtype, "name"):
            raise UsageError(f"weight_dtype: {dtype!r} is not a format", hint="write it like 'fp8'")
        return dtype
    from kvplan.families.quantization.mixes import kept_named

    return kept_named(dtype)


def weight_formats() -> tuple[str, ...]:
    """Names that `kept` accepts."""
    from kvplan.arch.storage import NAMED
    from kvplan.families.quantization.mixes import MIXES

    return (*NAMED, *MIXES)


def stored(model: Model, dtype: Kept | str | None) -> Model:
    """The model with its weights in another format, and a note of what both take.

    Raises: UnknownName; UsageError if the weights aren't known; Unsupported for a mix that has no rules for the model.
    """
    asked = kept(dtype)
    if asked is None:
        return model
    from kvplan.families.quantization.mixes import Mix, check

    if model.weights is None:
        raise UsageError(f"the weights of {model.origin.id} aren't known", hint="--weights 140GB instead of a format")
    if isinstance(asked, Mix):
        check(asked, model)
    changed = model.weights.stored_as(asked)
    own = f"{format_bytes(model.weights.bytes)} as published"
    note = f"What if: weights in {asked.name} take {format_bytes(changed.bytes)}; {own}."
    return replace(model, weights=changed, notes=(*model.notes, note))
