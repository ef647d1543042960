"""From a merged layer to a Deployment: every value is checked once, and every error names its line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kvplan.arch.parallel import Parallel
from kvplan.check.budgets.budget import Deployment, Limit, Question, Starts
from kvplan.check.budgets.flags import ADAPTERS, OF_ADAPTERS, RESIDENT, read_flag, takes_commands
from kvplan.check.budgets.messages import fault
from kvplan.check.results.metrics import METRICS
from kvplan.engines.base import Options
from kvplan.engines.registry import Spec
from kvplan.errors import KvplanError, UnknownName
from kvplan.manifests.flags.values import switch
from kvplan.manifests.keys import (
    CONNECTORS,
    DEVICES,
    DRAFTING,
    DTYPE,
    EVENTS,
    EVERY_RANK,
    OVERRIDDEN,
    QUANTIZATION,
    STRETCHED,
    Drafting,
)
from kvplan.manifests.places import Given, Hidden, Inside, Key, Outside, Place, Placed, Remark, as_written
from kvplan.manifests.tree import Tree, beside, nameable
from kvplan.plan.request import DEFAULT_ENGINE

if TYPE_CHECKING:
    from kvplan.check.budgets.fields import Bound
    from kvplan.engines.vllm.tables.versions import Version

T = TypeVar("T")

TOKENS = "num_speculative_tokens"
MANAGER = "disable_hybrid_kv_cache_manager"

_PATHS = (".json", ".yaml", ".yml", ".gguf")


def deployment(
    name: str, place: Place, layer: Mapping[Key, Placed], tree: Tree, remarks: tuple[Remark, ...] = ()
) -> Deployment:
    """The deployment that a merged layer says.

    Raises: BudgetFault on the line of the value, or of the deployment where one is missing.
    """
    for key, hint in (("model", "model: llama-3-70b"), ("gpu", "gpu: h100")):
        if (key,) not in layer:
            raise fault(place, f"{name} names no {key}", hint=f"add `{hint}` to it or to defaults")
    for said, placed in layer.items():
        if isinstance(placed, Hidden):
            raise fault(placed.place, placed.why, hint=f"say it in the budget: {_written_out(said)}")
    engine = _value(layer, "engine") or DEFAULT_ENGINE
    flags = _adapters({key[1]: placed for key, placed in layer.items() if key[0] == "flags"})
    connected = CONNECTORS in flags
    flags = _managed(flags, engine)
    stretched = flags.pop(STRETCHED, None)
    stated = {name: str(flags.pop(name).value) for name in (QUANTIZATION, DTYPE) if name in flags}
    options = dict(_on(placed.place, partial(read_flag, engine, flag, placed.value)) for flag, placed in flags.items())
    question = Question(
        model=_model(layer[("model",)], tree),
        gpu=_gpu(layer[("gpu",)], tree),
        engine=engine,
        revision=_value(layer, "revision"),
        gpu_memory=_value(layer, "gpu_memory"),
        parallel=_parallel(layer, place),
        experts=_experts(layer),
        context=_value(layer, "context"),
        kv_dtype=_value(layer, "kv_dtype") or "auto",
        options=_on(place, lambda: Options(**options, connected=connected)),
        concurrency=_value(layer, "concurrency") or 1,
        draft=_model(layer[("draft",)], tree) if ("draft",) in layer else None,
        drafting=_drafting(layer),
        quantization=stated.get(QUANTIZATION),
        dtype=stated.get(DTYPE),
        stretched=stretched is not None and _on(stretched.place, partial(switch, stretched.value)),
        overridden=(OVERRIDDEN,) in layer,
        devices=_value(layer, DEVICES) or (),
    )
    return Deployment(
        name=name,
        question=question,
        place=place,
        limits=_limits(layer),
        starts=_starts(layer),
        places={".".join(key): placed.place for key, placed in layer.items() if key[0] != "limits"},
        written={
            ".".join(key): _text(placed.value) for key, placed in layer.items() if key[0] not in {"limits", "from"}
        },
        remarks=remarks,
    )


def _written_out(key: Key) -> str:
    """How a budget gives a value: `parallel: {tp: ...}`."""
    return f"`{key[0]}: {{{key[1]}: ...}}`" if len(key) > 1 else f"`{key[0]}: ...`"


def _adapters(flags: Mapping[str, Placed]) -> dict[str, Placed]:
    """The flags as vLLM takes those of adapters: one is resident where nobody says, none where they aren't switched on.

    Raises: BudgetFault for a budget's own word about adapters that aren't there; of a serve command vLLM passes over it.
    """
    found = dict(flags)
    on = found.pop(ADAPTERS, None)
    if on is not None and _on(on.place, partial(switch, on.value)):
        return {RESIDENT: Placed(1, on.place), **found}
    for name in OF_ADAPTERS:
        idle = found.pop(name, None)
        if idle is not None and not isinstance(idle, Given):
            raise fault(
                idle.place, f"flags.{name}: there are no adapters", hint="add `enable_lora: true`, or leave it out"
            )
    return found


def _managed(flags: Mapping[str, Placed], engine: str) -> dict[str, Placed]:
    """The flags with what connectors and events make of the hybrid KV cache manager in this release."""
    from kvplan.engines.vllm.tables.connectors import turns_off

    found = dict(flags)
    connectors, events = found.pop(CONNECTORS, None), found.pop(EVENTS, None)
    cause = connectors or events
    if cause is None or not takes_commands(engine):
        return found
    names = str(connectors.value).split() if connectors is not None else ()
    said = found.get(MANAGER)
    asked = said is not None and not _on(said.place, partial(switch, said.value))
    published = events is not None and _on(events.place, partial(switch, events.value))
    if turns_off(_release(engine), names, events=published, asked=asked):
        found[MANAGER] = Placed("true", cause.place)
    return found


def _release(engine: str) -> Version:
    """The release that is asked for; the newest where it can't be read, which is complained about elsewhere."""
    from kvplan.engines.vllm.tables.versions import NEWEST, parse

    written = Spec.parse(engine).version
    try:
        return parse(written) if written else NEWEST
    except UnknownName:
        return NEWEST


def _value(layer: Mapping[Key, Placed], key: str) -> Any:
    placed = layer.get((key,))
    return None if placed is None else placed.value


def _on(place: Place, build: Callable[[], T]) -> T:
    """What `build` makes; its complaint gets the place."""
    try:
        return build()
    except KvplanError as error:
        problem = error.problem
        raise fault(place, problem.what, cause=problem.cause, hint=problem.hint) from None


def _parallel(layer: Mapping[Key, Placed], place: Place) -> Parallel:
    sizes = {key[1]: placed for key, placed in layer.items() if key[0] == "parallel"}
    first = min((placed.place for placed in sizes.values()), default=place)
    values = {name: placed.value for name, placed in sizes.items()}
    if values.get("ep") == EVERY_RANK:
        values["ep"] = values.get("tp", 1) * values.get("dp", 1)
    return _on(first, lambda: Parallel(**values))


def _experts(layer: Mapping[Key, Placed]) -> bool:
    placed = layer.get(("parallel", "ep"))
    return placed is not None and placed.value != 1


def _drafting(layer: Mapping[Key, Placed]) -> Drafting | None:
    """How tokens are drafted; None where a budget names another who drafts, or takes the tokens away."""
    how: Drafting | None = _value(layer, DRAFTING)
    alone = how in {"guessed", "itself"}
    if ("draft",) in layer:
        return None if alone else how
    return how if alone and ("flags", TOKENS) in layer else None


def _model(placed: Placed, tree: Tree) -> str:
    """A name or a Hub id as it is; a path so that it is found from any folder, in this tree."""
    name = str(placed.value)
    if name == "-":
        raise fault(placed.place, "a budget can't read its model from standard input", hint="name a file")
    told = f"say which model that is, in a budget beside it: `models: {{{as_written(placed)}: llama-3-70b}}`"
    there = _there(name, placed.place, tree)
    if isinstance(placed, Inside) and (placed.sure or there):
        raise fault(placed.place, f"its model is {name}, a path {placed.where}", cause=told)
    if isinstance(placed, Given) and not there and name.startswith((".", "/")):
        where = f", and {name} isn't here" if isinstance(placed, Outside) else ", which isn't here"
        raise fault(placed.place, f"its model is {as_written(placed)}{where}", cause=told)
    return _file(name, placed.place, tree)


def _gpu(placed: Placed, tree: Tree) -> str:
    name = str(placed.value)
    return _file(name, placed.place, tree) if name.endswith((".yaml", ".yml")) else name


def _file(name: str, place: Place, tree: Tree) -> str:
    if not nameable(name):
        raise fault(place, f"{name[:60]!r} can't be the name of anything", cause="it is too long, or has a zero byte")
    if _there(name, place, tree) or name.startswith((".", "/")) or name.endswith(_PATHS):
        return str(tree.path(beside(place.file, name)).absolute())
    return name


def _there(name: str, place: Place, tree: Tree) -> bool:
    """Whether something by that name is beside the file that names it."""
    return nameable(name) and tree.path(beside(place.file, name)).exists()


def _limits(layer: Mapping[Key, Placed]) -> tuple[Limit, ...]:
    return tuple(
        _limit(metric, bound, place, placed)
        for metric in METRICS
        if (placed := layer.get(("limits", metric))) is not None
        for bound, place in placed.value
    )


def _starts(layer: Mapping[Key, Placed]) -> Starts:
    placed = layer.get(("limits", "starts"))
    if placed is None:
        return Starts()
    ((bound, _),) = placed.value[-1:]
    return Starts(bound.end, bound.level)


def _limit(name: str, bound: Bound, place: Place, placed: Placed) -> Limit:
    metric, said = METRICS[name], bound.model_dump()
    value = said[metric.key]
    share = isinstance(value, str)
    return Limit(
        metric=name,
        bound=float(value.rstrip(" %")) / 100 if share else value,
        unit="share" if share else metric.unit,
        place=place,
        end=bound.end,
        level=bound.level,
        at=said["at"] if metric.at else None,
        batch=said["batch"] if metric.timed else None,
        own=placed.own,
    )


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
