"""The budget file as pydantic models: what is allowed where, and the JSON Schema that editors complete from.

Every key is optional in a deployment, since it may be inherited; what is missing in the end is found when deployments
are put together (kvplan.check.budgets.reader). Import this only where a budget is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    WithJsonSchema,
    create_model,
)
from pydantic_core import PydanticCustomError, core_schema

from kvplan.check.budgets.budget import Unit
from kvplan.check.results.metrics import METRICS, Metric, Side
from kvplan.errors import KvplanError
from kvplan.units import NUMBER, parse_bytes, parse_tokens

KEY = "kvplan-budget"
"""The key that makes a YAML file a budget; its value is the version of this layout."""

_DECIMAL = r"[0-9]+(\.[0-9]+)?"
_SCALES = {"ms": 1e-3, "s": 1.0, "us": 1e-6}
_TIMES = f"({'|'.join(_SCALES)})"
_SECONDS = re.compile(f"({_DECIMAL}) ?{_TIMES}")
_SHARE = re.compile(f"({_DECIMAL}) ?%")
_BYTES_PATTERN = rf"^{NUMBER} ?([kKmMgGtT][iI]?)?[bB]$"


def _refused(error: KvplanError) -> PydanticCustomError:
    problem = error.problem
    said = problem.what if problem.hint is None else f"{problem.what}; {problem.hint}"
    return PydanticCustomError("size", "{said}", {"said": said})


def _bytes(value: object) -> int:
    try:
        return parse_bytes(value if isinstance(value, str) else str(value))
    except KvplanError as error:
        raise _refused(error) from None


def _tokens(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise PydanticCustomError("size", "write tokens like 8192, 8k or 1m")
    try:
        return parse_tokens(str(value))
    except KvplanError as error:
        raise _refused(error) from None


def _seconds(value: object) -> float:
    match = _SECONDS.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise PydanticCustomError("size", "write a time like 30ms or 0.05s")
    return float(match[1]) * _SCALES[match[3]]


def _room(value: object) -> int | str:
    """Bytes, or a share kept as text."""
    match = _SHARE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return _bytes(value)
    if float(match[1]) > 100:
        raise PydanticCustomError("size", "a share of the cache memory is at most 100%")
    return match[0]


@dataclass(frozen=True, slots=True)
class Shorthand:
    """A bound may be written alone (the value of `key`), as an object, or as a list of both. alone: its JSON Schema."""

    key: str
    alone: Mapping[str, Any]

    def several(self, value: object) -> object:
        """The list of objects that is meant."""
        if value is None:
            return None
        if value == []:
            raise PydanticCustomError("size", "an empty list limits nothing; null drops an inherited limit")
        items = value if isinstance(value, list) else [value]
        return [item if isinstance(item, dict) else {self.key: item} for item in items]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_before_validator_function(self.several, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        several, null = handler(schema)["anyOf"]
        one = {"anyOf": [dict(self.alone), several["items"]]}
        return {"anyOf": [*one["anyOf"], {"type": "array", "items": one, "minItems": 1}, null]}


_SIZE = {"type": "string", "pattern": _BYTES_PATTERN, "examples": ["24GiB", "160KiB"]}
_LENGTH = {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": rf"^{NUMBER} ?[kKmM]?$"}]}

_TIME = {"type": "string", "pattern": f"^{_DECIMAL} ?{_TIMES}$", "examples": ["30ms"]}
_ROOM = {"type": "string", "pattern": f"{_BYTES_PATTERN}|^{_DECIMAL} ?%$", "examples": ["10%", "4GiB"]}
_COUNT = {"type": "integer", "minimum": 1}

Bytes = Annotated[int, BeforeValidator(_bytes), WithJsonSchema(_SIZE)]
Tokens = Annotated[int, BeforeValidator(_tokens), WithJsonSchema(_LENGTH)]
Seconds = Annotated[float, BeforeValidator(_seconds), WithJsonSchema(_TIME)]
Room = Annotated[int | str, BeforeValidator(_room), WithJsonSchema(_ROOM)]
GpuName = Annotated[
    str,
    BeforeValidator(lambda value: str(value) if isinstance(value, int) and not isinstance(value, bool) else value),
    Field(min_length=1),
    WithJsonSchema({"type": ["string", "integer"], "examples": ["h100", 4090]}),
]
"""A name; 4090 is one too."""
Whole = Annotated[int, Field(ge=1, le=2**31)]
Text = Annotated[str, Field(min_length=1)]
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9._/ -]*$")]
Scalar = bool | int | float | str


class Strict(BaseModel):
    """No key that isn't here, no number for a word or the other way round."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=False)


class Bound(Strict):
    """What every limit may say besides its bound."""

    end: Literal["safe", "likely", "ideal"] = Field(
        "safe", description="Which end of an uncertain number is compared; ideal is the textbook formula."
    )
    level: Literal["error", "warn"] = Field("error", description="What breaking it is.")


class AtLength(Bound):
    """A bound on sequences of a length."""

    at: Tokens | None = Field(None, description="Tokens of the sequences; the deployment's context if left out.")


class MostBytes(Bound):
    """At most so many bytes."""

    max: Bytes


class MostBytesAt(AtLength):
    """At most so many bytes, for sequences of a length."""

    max: Bytes


class LeastSequences(AtLength):
    """At least so many sequences at once."""

    min: Whole


class LeastTokens(Bound):
    """At least so many tokens."""

    min: Tokens


class MostTime(AtLength):
    """At most so long, for a batch of sequences of a length."""

    max: Seconds
    batch: Whole | None = Field(None, description="Sequences of the step; as many as fit if left out.")


class MostGpus(Bound):
    """At most so many GPUs."""

    max: Whole


class LeastRoom(Bound):
    """At least so much memory."""

    min: Room


class StartsAt(Bound):
    """Whether the engine would start at all, which is always checked."""


_BOUNDS: Mapping[tuple[Side, Unit, bool], tuple[type[Bound], Mapping[str, Any]]] = {
    ("most", "bytes", True): (MostBytesAt, _SIZE),
    ("most", "bytes", False): (MostBytes, _SIZE),
    ("least", "sequences", True): (LeastSequences, _COUNT),
    ("least", "tokens", False): (LeastTokens, _LENGTH),
    ("most", "seconds", True): (MostTime, _TIME),
    ("most", "gpus", False): (MostGpus, _COUNT),
    ("least", "bytes", False): (LeastRoom, _ROOM),
}
"""A metric's side, its unit, and whether a limit may name a length: what its bounds are, and what one is alone in a schema."""


def _bounds(metric: Metric) -> Any:
    """The type of a key of `limits`."""
    bound, alone = _BOUNDS[metric.side, metric.unit, metric.at]
    return Annotated[list[bound] | None, Shorthand(metric.key, alone)]  # type: ignore[valid-type]


if TYPE_CHECKING:
    Limits = Strict
else:
    Limits = create_model(
        "Limits",
        __base__=Strict,
        __doc__="Bounds to keep. Each is a value, an object with `end` and `level`, or a list; null drops an inherited one.",
        starts=(
            Annotated[list[StartsAt] | None, Shorthand("end", {"enum": ["safe", "likely", "ideal"]})],
            Field(
                None,
                description="Always checked: the engine starts with room for one sequence. Says which end decides.",
            ),
        ),
        **{metric.limit: (_bounds(metric), Field(None, description=metric.about)) for metric in METRICS.values()},
    )


class Sizes(Strict):
    """Parallel sizes."""

    tp: Whole | None = Field(None, description="Tensor parallel size.")
    pp: Whole | None = Field(None, description="Pipeline stages.")
    dp: Whole | None = Field(None, description="Replicas (data parallel size).")
    ep: Whole | None = Field(None, description="Ranks that experts are dealt over.")
    dcp: Whole | None = Field(None, description="Tensor ranks that tokens are dealt over.")


class Plannable(Strict):
    """What a deployment, a template and the defaults may all say."""

    description: str | None = None
    model: Text | None = Field(
        None, description="A bundled name, a Hub id (org/name[@revision]), or a path relative to this file."
    )
    revision: Text | None = Field(None, description="Branch, tag or commit on the Hub.")
    draft: Text | None = Field(
        None,
        description="A model that drafts for it, named like the model; flags.num_speculative_tokens says how many.",
    )
    gpu: GpuName | None = Field(None, description="An accelerator: h100, mi300x, h100:3g.40gb, or a YAML file.")
    gpu_memory: Bytes | None = Field(None, description="Memory of one GPU instead of the known one.")
    parallel: Sizes | None = None
    engine: Text | None = Field(None, description="Whose rules decide: vllm, vllm@0.19, ideal ...")
    context: Tokens | None = Field(
        None, description="Tokens of the longest sequence, prompt and output; vLLM's max_model_len."
    )
    concurrency: Whole | None = Field(None, description="Sequences that headroom is left beside; 1 if left out.")
    kv_dtype: Text | None = Field(None, description="Cache format: auto, bf16, fp8, q8_0:q4_0 ...")
    flags: dict[str, Scalar | None] | None = Field(
        None, description="The engine's own flags by the engine's own names: gpu_memory_utilization, max_num_seqs ..."
    )
    limits: Limits | None = None
    from_: Text | None = Field(
        None, alias="from", description="A file with the serve command, relative to this one; file#name picks one."
    )
    extends: Annotated[list[Name] | None, BeforeValidator(lambda v: [v] if isinstance(v, str) else v)] = Field(
        None, description="Templates to start from, the last one wins.",
        json_schema_extra={"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
    )  # fmt: skip


class DeploymentFields(Plannable):
    """One deployment, or with a matrix one for each combination."""

    matrix: dict[str, Annotated[list[Scalar], Field(min_length=1)]] | None = Field(
        None, description="Keys (gpu, context, parallel.tp, flags.max_num_seqs ...), each with the values to combine."
    )
    exclude: list[dict[str, Scalar]] | None = Field(None, description="Combinations of the matrix to leave out.")


class BudgetFile(Strict):
    """Memory budgets of a repository's deployments."""

    version: Literal[1] = Field(alias="kvplan-budget", description="Version of this layout.")
    defaults: Plannable | None = Field(None, description="What every deployment starts from.")
    templates: dict[Name, Plannable] | None = Field(None, description="Parts that deployments extend.")
    models: dict[Text, Text] | None = Field(
        None, description="What a name in a serve command stands for: /models/llama: llama-3-70b."
    )
    deployments: dict[Name, DeploymentFields] = Field(min_length=1)


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a budget file."""
    schema = BudgetFile.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "kvplan budget", **_untitled(schema)}


def _untitled(schema: dict[str, Any]) -> dict[str, Any]:
    """Without the titles that pydantic makes of names, and without defaults of null: both only lengthen tooltips."""
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "title" and isinstance(value, str):
            continue
        if key == "default" and value is None:
            continue
        kept[key] = _untitled(value) if isinstance(value, dict) else value
    return kept
