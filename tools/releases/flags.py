"""Flags of a release's engine and server, and the values that they take."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from releases.trees import Version, constants, literals, trees

ENGINE = "engine/arg_utils.py"

SERVER = "entrypoints/common/cli_args.py"

SWITCHED = ("store_true", "store_false", "BooleanOptionalAction")

LISTS = {"list", "List", "tuple", "Tuple", "set", "Set"}


@dataclass(frozen=True)
class Argument:
    """A parser's flag: its names with dashes, and what follows it (`switch`, `value`, `several`, `optional`).

    negated: whether --no- turns it off.
    """

    names: tuple[str, ...]
    takes: str
    negated: bool = False

    @property
    def name(self) -> str:
        """The first long name, without dashes."""
        return next(each[2:].replace("_", "-") for each in self.names if each.startswith("--"))


@cache
def arguments_of(folder: Path, file: str = ENGINE) -> tuple[Argument, ...]:
    """Flags that a file's parser defines one by one."""
    annotated = annotations_of(folder)
    classes = {
        node.targets[0].id: getattr(node.value.args[0], "id", "")
        for node in trees(folder, file)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Call)
        and getattr(node.value.func, "id", "").endswith("get_kwargs")
    }
    return tuple(
        argument_of(names, node, classes, annotated)
        for node in trees(folder, file)
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument"
        if (names := tuple(each.value for each in node.args if isinstance(each, ast.Constant)))
        and any(name.startswith("--") for name in names)
    )


def argument_of(
    names: tuple[str, ...], call: ast.Call, classes: dict[str, str], annotated: dict[tuple[str, str], ast.expr]
) -> Argument:
    """A flag by the arguments of add_argument, and by the type of the field whose kwargs it gets."""
    told = {each.arg: each.value for each in call.keywords if each.arg is not None}
    action, nargs = (
        ast.unparse(told[key]).strip("'\"").rpartition(".")[2] if key in told else "" for key in ("action", "nargs")
    )
    if action in SWITCHED:
        return Argument(names, "switch", action == "BooleanOptionalAction")
    if nargs:
        return Argument(names, {"?": "optional", "+": "several", "*": "several"}.get(nargs, "value"))
    for read in (each.value for each in call.keywords if each.arg is None):
        match = re.search(r"(\w+)\[['\"](\w+)['\"]\]", ast.unparse(read))
        field_type = annotated.get((classes.get(match[1], ""), match[2])) if match else None
        if field_type is not None:
            takes = taking(field_type)
            return Argument(names, takes, takes == "switch")
    return Argument(names, "value")


@cache
def annotations_of(folder: Path) -> dict[tuple[str, str], ast.expr]:
    """From (class, field) to the field's type."""
    return {
        (node.name, each.target.id): each.annotation
        for node in trees(folder, "config.py", "config/*.py", ENGINE, SERVER)
        if isinstance(node, ast.ClassDef)
        for each in node.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }


def taking(annotation: ast.expr) -> str:
    """What get_kwargs derives from a field's type. Source: engine/arg_utils.py _compute_kwargs."""
    kinds = set(kinds_of(annotation))
    if kinds >= {"bool", "str"}:
        return "optional"
    if "bool" in kinds:
        return "switch"
    return "several" if kinds & LISTS and "Literal" not in kinds else "value"


def kinds_of(annotation: ast.expr) -> Iterator[str]:
    """Names of the types in a union: `list` and `None` of `list[int] | None`."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    if isinstance(annotation, ast.BinOp):
        yield from (*kinds_of(annotation.left), *kinds_of(annotation.right))
        return
    head = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    name = ast.unparse(head).rpartition(".")[2]
    if isinstance(annotation, ast.Subscript) and name in (
        "Optional",
        "Union",
        "Annotated",
        "InitVar",
        "SkipValidation",
    ):
        inner = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
        for each in inner[:1] if name == "Annotated" else inner:
            yield from kinds_of(each)
    else:
        yield name


def flags_of(folder: Path) -> set[str]:
    """Flags of the engine, by all of their long names."""
    return {name[2:].replace("_", "-") for each in arguments_of(folder) for name in each.names if name.startswith("--")}


def taken_by(folder: Path, takes: str) -> set[str]:
    """Flags of the engine that take such values."""
    return {each.name for each in arguments_of(folder) if each.takes == takes}


def negated_of(folder: Path) -> set[str]:
    """Flags made with BooleanOptionalAction, by themselves or, from a field's type, by get_kwargs."""
    return {each.name for each in arguments_of(folder) if each.negated}


def other_names(releases: list[tuple[Version, Path]], dashes: str) -> dict[str, str]:
    """Short names (`tp` of -tp) and second long names (with two dashes) of all releases, with their flags."""
    found = {
        name.lstrip("-").replace("_", "-"): each.name
        for _, folder in releases
        for each in (*arguments_of(folder), *arguments_of(folder, SERVER))
        for name in each.names
        if name.startswith(dashes)
        and name.lstrip("-") == name[len(dashes) :]
        and name[2:].replace("_", "-") != each.name
    }
    return dict(sorted(found.items()))


def server_of(folder: Path) -> dict[str, str]:
    """Flags of the HTTP server with their kinds of value: fields of FrontendArgs, and its parser's other flags.

    Raises: SystemExit if the folder doesn't have them.
    """
    if not (folder / SERVER).exists():
        raise SystemExit(f"{folder / SERVER} is missing: the newest release's is read")
    single = {
        node.targets[0].value.slice.value
        for node in trees(folder, SERVER)
        if isinstance(node, ast.Delete) and ast.unparse(node.targets[0]).endswith("['nargs']")
    }
    fields = {
        name.replace("_", "-"): "value" if name in single else taking(annotation)
        for (owner, name), annotation in annotations_of(folder).items()
        if owner.endswith("FrontendArgs")
    }
    return dict(sorted({**fields, **{each.name: each.takes for each in arguments_of(folder, SERVER)}}.items()))


def choices(folder: Path, flag: str) -> set[str]:
    """The `choices=` of a flag."""
    for call in trees(folder, ENGINE):
        if isinstance(call, ast.Call) and any(getattr(each, "value", "") == f"--{flag}" for each in call.args):
            for given in call.keywords:
                if given.arg == "choices":
                    return {str(each) for each in constants(given.value)}
    return set()


def formats_of(folder: Path) -> set[str]:
    """Cache formats."""
    return literals(folder, "CacheDType") or choices(folder, "kv-cache-dtype")


def blocks_of(folder: Path) -> set[str]:
    """Block sizes."""
    return literals(folder, "BlockSize") or choices(folder, "block-size")


def ranks_of(folder: Path) -> set[str]:
    """Ranks of adapters."""
    for node in trees(folder, "config.py", "config/*.py"):
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "possible_max_ranks":
            return {str(each) for each in constants(node.value)}
    return literals(folder, "MaxLoRARanks")


def methods_of(folder: Path) -> set[str]:
    """Methods of speculative decoding, from the type's literal or from the list that unknown ones are checked against."""
    found = literals(folder, "SpeculativeMethod") | literals(folder, "MTPModelTypes")
    return {
        name
        for name in found | literals(folder, "EagleModelTypes") | literals(folder, "NgramGPUTypes")
        if name.isidentifier()
    }
