"""Documents as JSON and CSV, with every number in base units and nothing rounded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from kvplan.report.schema import DOCUMENTS, document_of, schema_id

if TYPE_CHECKING:
    from kvplan.report.schema import Document

ROWS = {
    "size": "sequences", "fit_table": "rows", "compare": "rows", "models": "models", "gpus": "gpus", "engines": "engines", "env": "settings", "verify": "rows",
}  # fmt: skip
"""The list of a document that makes the rows of its CSV. A fit is a single row."""

NOT_IN_CSV = (
    "schema",
    "explain",
    "suggestions",
    "defaulted",
    "notes",
    "warnings",
    "sources",
    "assumed",
    "launch",
    "settings",
)


def as_json(document: Document) -> str:
    """The document, indented, ending with a newline. Infinity and NaN can't occur."""
    return json.dumps(plain(document), indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def plain(value: object) -> Any:
    """The document as dictionaries, lists and scalars."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [plain(inner) for inner in value]
    return value


def as_csv(document: Document) -> str:
    """A header and one row per sequence, model, GPU or plan. Names of nested keys are joined by dots."""
    import csv
    import io

    rows = [dict(_flat(row, "")) for row in _rows(document)]
    names = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def json_schema(name: str) -> str:
    """JSON Schema of one document, given its name in the `schema` key: `size`, `fit`, `fit_table` ...

    Raises: UnknownName.
    """
    from kvplan.errors import UnknownName

    if name not in DOCUMENTS:
        raise UnknownName(f"{name!r} is not a document", hint="known: " + ", ".join(DOCUMENTS))
    from pydantic import TypeAdapter

    kind = document_of(name)
    parts = _parts(kind)
    for part in parts:
        part.__pydantic_config__ = {"use_attribute_docstrings": True}
    described = TypeAdapter(kind).json_schema(mode="serialization")
    for part in parts:
        for base in part.__bases__:
            _inherit(described["$defs"], part.__name__, base.__name__)
    described["$id"] = schema_id(name)
    described["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return json.dumps(described, indent=2) + "\n"


def _inherit(known: dict[str, Any], part: str, base: str) -> None:
    """Describe inherited keys as the base class does, because pydantic doesn't read its source for them."""
    for key, described in known.get(base, {}).get("properties", {}).items():
        known[part]["properties"][key] = described


def _parts(kind: Any) -> set[Any]:
    """The dataclasses that a type consists of."""
    seen: set[Any] = set()
    left = [kind]
    while left:
        found = left.pop()
        if is_dataclass(found) and found not in seen:
            seen.add(found)
            left += get_type_hints(found).values()
        left += get_args(found)
    return seen


def _rows(document: Document) -> Sequence[object]:
    name = document.schema.removeprefix("kvplan.").partition("/")[0]
    rows: Sequence[object] = getattr(document, ROWS[name]) if name in ROWS else (document,)
    return rows


def _flat(value: object, prefix: str) -> Iterator[tuple[str, object]]:
    if is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            if field.name not in NOT_IN_CSV:
                name, inner = f"{prefix}.{field.name}" if prefix else field.name, getattr(value, field.name)
                yield from _flat(inner, name) if inner is not None else _empty(type(value), field.name, name)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{prefix}.{key}")
    elif isinstance(value, tuple):
        yield prefix, " ".join(str(inner) for inner in value if not is_dataclass(inner))
    else:
        yield prefix, value


def _empty(owner: type, field: str, prefix: str) -> Iterator[tuple[str, object]]:
    """The columns of an absent part: the same as if it were there."""
    kind = get_type_hints(owner)[field]
    within = (kind,) if get_origin(kind) in {None, tuple} else get_args(kind)
    parts = [part for part in within if isinstance(part, type) and is_dataclass(part)]
    if not parts:
        yield prefix, None
    for part in parts:
        for inner in fields(part):
            if inner.name not in NOT_IN_CSV:
                yield from _empty(part, inner.name, f"{prefix}.{inner.name}")
