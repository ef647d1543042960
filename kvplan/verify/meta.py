"""The same model in transformers on the meta device: parameters and cache counted without a GPU or weights."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Any

from kvplan.arch.formats import FORMATS, KvFormat
from kvplan.arch.layers import Attention, Compressed, CrossAttention
from kvplan.arch.model import Model
from kvplan.arch.parallel import Parallel
from kvplan.errors import Unsupported, UsageError
from kvplan.report.assemble.common import kv_dtype, layout, model_info
from kvplan.report.schema import schema_id
from kvplan.report.schema import verify as schema
from kvplan.text import all_of
from kvplan.verify.elsewhere import SAID, WAITING, as_transformers, unlike
from kvplan.verify.run import checked, need_torch, versions
from kvplan.verify.verdict import Row, exact, not_run, outcome, within

LENGTHS = (64, 1000)
"""Tokens of the prefills. One more is added, beyond the longest window."""

_NOT_SIZES = ("auto_map", "quantization_config", "transformers_version", "architectures", "torch_dtype", "dtype")


def against_transformers(name: str, *, revision: str | None = None, offline: bool = False) -> schema.VerifyReport:
    """Compare a model's parameters and cache with those that transformers makes from its config.

    Raises: UsageError without torch or transformers; Unsupported for a model that transformers can't build; ConfigError
    and SourceError if the model can't be read.
    """
    need_torch()
    if find_spec("transformers") is None:
        raise UsageError("verify --meta needs transformers", hint="pip install 'kvplan[meta]', or transformers")
    from kvplan.sources.models import load_document, model_of

    began = time.monotonic()
    document = load_document(name, revision=revision, offline=offline)
    config = document.config
    if "kvplan" in config:
        raise UsageError(f"{name} is a kvplan description", hint="--meta needs a config.json that transformers reads")
    model = model_of(document)
    rows = tuple(rows_against(model, config))
    verdict = outcome(rows)
    if verdict is None:
        reasons = dict.fromkeys(row.rule for row in rows if row.verdict == "not run")
        raise Unsupported(
            f"transformers has no cache of {model.origin.id} to compare", cause="; ".join(reasons) or None
        )
    return schema.VerifyReport(
        schema=schema_id("verify"), verdict=verdict, model=model_info(model), kv_dtype=kv_dtype(_plain(model)),
        parallel=layout(Parallel()), rank=None, built=None, machine=None, versions=versions(),
        date=datetime.now(UTC).isoformat(timespec="seconds"), seconds=round(time.monotonic() - began, 1),
        rows=tuple(checked(rows)), steps=(), measured=schema.Measured(), readers={}, notes=(SAID,),
    )  # fmt: skip


def rows_against(model: Model, config: Mapping[str, object]) -> Iterator[Row]:
    """Parameters, then bytes of the cache after prefills of several lengths."""
    apart = unlike(config)
    if apart is not None:
        yield not_run("meta", "transformers", "parameters", apart)
        return
    try:
        built = _built(config, model)
    except Exception as error:
        yield not_run("meta", "transformers", "parameters", _told(error))
        return
    yield _parameters(model, built, config)
    if model.weights is not None and model.weights.towers and not _encoder_tokens(model):
        built = _text_alone(config, built)  # with a tower, prefills look for pictures among the tokens
    curve = as_transformers(model, config, encoder=bool(_encoder_tokens(model))).curve(_plain(model))
    windows = [cache.cap or 0 for cache, _ in model.distinct if isinstance(cache, Attention)]
    windows += [cache.window for cache, _ in model.distinct if isinstance(cache, Compressed)]
    lengths = (*LENGTHS, *((max(windows) + 100,) if any(windows) else ()))
    if curve.bytes_at(max(lengths)) == curve.bytes_at(1):
        lengths = LENGTHS[:1]  # nothing grows, and a scan goes token by token
    for tokens in lengths:
        what = f"cache after a prefill of {tokens:,} tokens"
        try:
            measured = _cache_bytes(built, model, tokens)
        except Exception as error:
            yield not_run("meta", what, "B", _told(error), curve.bytes_at(tokens), core=True)
            continue
        yield exact("meta", what, "B", curve.bytes_at(tokens), measured, core=True)


_UNTIED = {"zamba": "num_mem_blocks", "zamba2": "num_mem_blocks"}
"""Model types whose layers share blocks that transformers makes anew for each layer unless embeddings are tied."""


def _told(error: Exception) -> str:
    """The first sentence of what transformers says, which may go on for pages."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text.split('. ')[0][:200]}".removesuffix(": ")


def _plain(model: Model) -> KvFormat:
    del model
    return KvFormat(FORMATS["bf16"], FORMATS["bf16"])


def _parameters(model: Model, built: Any, config: Mapping[str, object]) -> Row:
    count = sum(parameter.numel() for parameter in {id(one): one for one in built.parameters()}.values())
    if model.weights is None:
        return not_run("meta", "parameters", "parameters", "the model has no inventory of weights")
    if model.weights.missing:
        because = f"the inventory lacks {', '.join(model.weights.missing)}"
        return not_run("meta", "parameters", "parameters", because, model.weights.total)
    another = _another_head(built, config)
    if another is not None:
        because = f"transformers was asked for a {type(built).__name__}, and the config is of a {another}"
        return not_run("meta", "parameters", "parameters", because, model.weights.total)
    if _UNTIED.get(str(config.get("model_type"))) in config:
        because = "transformers makes the blocks that layers share anew for each of them"
        return not_run("meta", "parameters", "parameters", because, model.weights.total)
    return within("meta", "parameters", "parameters", model.weights.total, count, 0, "exactly equal")


_GENERATES = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel")


def _another_head(built: Any, config: Mapping[str, object]) -> str | None:
    """The class that the config names, where that has no head for words but one for rewards or labels."""
    import transformers

    named = config.get("architectures")
    first = named[0] if isinstance(named, list) and named else None
    if not isinstance(first, str) or first == type(built).__name__ or first.endswith(_GENERATES):
        return None
    return first if hasattr(transformers, first) else None


def _built(config: Mapping[str, object], model: Model) -> Any:
    """The whole model, with its towers or its encoder if it has any."""
    if _encoder_tokens(model):
        return _made(config, _WITH_ENCODERS)
    towers = model.weights is not None and bool(model.weights.towers)
    whole = ("AutoModelForImageTextToText",) if towers else ()
    return _made(config, dict.fromkeys((*whole, *_CLASSES)))


_WITH_ENCODERS = ("AutoModelForSeq2SeqLM", "AutoModelForSpeechSeq2Seq")
_CLASSES = ("AutoModelForCausalLM", "AutoModelForImageTextToText", "AutoModelForSeq2SeqLM")


def _text_alone(config: Mapping[str, object], whole: Any) -> Any:
    try:
        return _made(config, ("AutoModelForCausalLM",))
    except Exception:
        return whole


def _encoder_tokens(model: Model) -> int:
    """Tokens of an encoder's output; 0 without one, and if its layers are between those of a decoder."""
    held = [[cache for cache in layer.caches if isinstance(cache, CrossAttention)] for layer in model.layers]
    return held[0][0].tokens if all(held) else 0


def _made(config: Mapping[str, object], classes: Iterable[str]) -> Any:
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    sizes = {key: value for key, value in config.items() if key not in (*_NOT_SIZES, "model_type")}
    described = transformers.AutoConfig.for_model(config["model_type"], **sizes)
    parts = getattr(type(described), "sub_configs", {})
    stated = [name for name, value in sizes.items() if name.endswith("_config") and isinstance(value, Mapping)]
    if parts and stated and parts.keys().isdisjoint(config):  # it would be built from its class's defaults
        raise LookupError(f"transformers reads {all_of(parts)} of this type, and the config has {all_of(stated)}")
    errors: list[Exception] = []
    for name in classes:
        try:
            with torch.device("meta"):
                return getattr(transformers, name).from_config(described, dtype=torch.bfloat16).eval()
        except Exception as error:
            errors.append(error)
    raise next((error for error in errors if not str(error).startswith(_OTHER_CLASS)), errors[0])


_OTHER_CLASS = "Unrecognized configuration class"
"""How transformers says that a kind of model has no such class, which another kind may have."""


def _cache_bytes(built: Any, model: Model, tokens: int) -> int:
    import torch

    from kvplan.verify.live.unpadded import Unpadded

    encoded = _encoder_tokens(model)
    with torch.device("meta"), torch.no_grad(), Unpadded():
        ids = torch.zeros((1, tokens), dtype=torch.long)
        if encoded:  # what an encoder hands over is enough, whether it reads or hears
            output = torch.zeros((1, encoded, built.config.hidden_size), dtype=torch.bfloat16)
            given = built(encoder_outputs=(output,), decoder_input_ids=ids, use_cache=True)
        else:
            given = built(input_ids=ids, use_cache=True)
    held = next(
        (
            getattr(given, name)
            for name in ("past_key_values", "cache_params", "state")
            if getattr(given, name, None) is not None
        ),
        None,
    )
    if held is None:
        raise LookupError("the model returns no cache")
    found = {id(tensor): tensor for tensor in _tensors(held)}
    return sum(tensor.numel() * tensor.element_size() for tensor in found.values() if tensor.is_floating_point())


def _tensors(held: object, depth: int = 0) -> Iterable[Any]:
    """All tensors inside a cache object."""
    import torch

    if isinstance(held, torch.Tensor):
        yield held
        return
    inside: Iterable[object] = ()
    if isinstance(held, Mapping):
        inside = held.values()
    elif isinstance(held, list | tuple):
        inside = held
    elif hasattr(held, "__dict__") and depth < 7:
        inside = (value for name, value in vars(held).items() if name not in WAITING)
    for one in inside:
        yield from _tensors(one, depth + 1)
