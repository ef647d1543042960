"""Which registered classes support LoRA adapters, and for which of their ends (embedding and head)."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from releases.registry import registered_as
from releases.trees import alias, bases_of, constants, trees

ENDS = {"input_embeddings": "embedding", "output_embeddings": "head"}
"""Names of those ends in embedding_modules."""

INTERFACE = "SupportsLoRA"
"""The class whose embedding_modules is the default: no ends."""


@dataclass
class Built:
    """A class by its syntax: its bases, its own embedding_modules (None where it has none), and the classes it builds.

    borrowed: the class whose embedding_modules it takes. built: also by the name that the registry has. opened: whether
    it builds a registered class that its source doesn't name.
    """

    bases: list[str]
    ends: frozenset[str] | None = None
    borrowed: str = ""
    built: set[str] = field(default_factory=set)
    opened: bool = False


def unadapted_of(folder: Path) -> set[str]:
    """Names whose class is defined where the registry says and doesn't inherit from SupportsLoRA."""
    bases: dict[str, set[str]] = {}
    for node in trees(folder, "model_executor/models/**/*.py", "models/**/*.py"):
        if isinstance(node, ast.ClassDef):
            own = set(bases_of(node))
            flagged = any(
                "supports_lora" in ast.unparse(each)
                for each in node.body
                if isinstance(each, ast.Assign | ast.AnnAssign)
            )
            bases.setdefault(node.name, set()).update(own | ({"SupportsLoRA"} if flagged else set()))
        elif (named := alias(node)) is not None:
            bases.setdefault(named[0], set()).update(named[1])
    registered = dict(registered_as(folder))
    return {
        name
        for name, defined in registered.items()
        if defined in bases and not inherits(defined, "SupportsLoRA", bases)
    }


def ending(folder: Path, end: str) -> set[str]:
    """Names of registered classes with an adapted end, or `open`."""
    return {name for name, found in adapted_ends(folder).items() if end in found}


@cache
def adapted_ends(folder: Path) -> dict[str, frozenset[str]]:
    """Ends of each registered class. LoRAModelManager looks at all modules of a model."""
    registered = dict(registered_as(folder))
    classes: dict[str, Built] = {}
    others: dict[str, Built] = {}
    for node in trees(folder, "model_executor/models/**/*.py", "models/**/*.py"):
        if isinstance(node, ast.ClassDef):
            classes.setdefault(node.name, built(node))
        elif (named := alias(node)) is not None:
            others.setdefault(named[0], Built(named[1]))
    classes = {**others, **classes}
    return {name: ends_of(defined, classes, registered) for name, defined in registered.items() if defined in classes}


def built(node: ast.ClassDef) -> Built:
    """What a class itself states."""
    found = Built(bases_of(node))
    for each in node.body:
        targets = getattr(each, "targets", [getattr(each, "target", None)])
        if any(getattr(target, "id", "") == "embedding_modules" for target in targets):
            value = each.value
            if isinstance(value, ast.Dict):
                found.ends = frozenset(ENDS[item.value] for item in value.values)
            elif isinstance(value, ast.Attribute):
                found.borrowed = value.value.id
    for call in (each for each in ast.walk(node) if isinstance(each, ast.Call)):
        called = getattr(call.func, "id", getattr(call.func, "attr", ""))
        found.built |= {called, *(getattr(each.value, "id", "") for each in call.keywords if each.arg == "model_class")}
        if called == "init_vllm_registered_model":
            named = {name for each in ast.walk(call) if isinstance(each, ast.List) for name in constants(each)}
            found.built |= named
            found.opened |= not named
    return found


def ends_of(name: str, classes: dict[str, Built], registered: dict[str, str]) -> frozenset[str]:
    """Ends of a class and of all classes that it builds; `open` if it builds one that it doesn't name."""
    ends: set[str] = set()
    seen, waiting = set(), [name]
    while waiting:
        one = waiting.pop()
        one = one if one in classes else registered.get(one, one)
        if one in seen or one not in classes:
            continue
        seen.add(one)
        ends |= declared(one, classes) or set()
        for each in (one, *ancestors(one, classes)):
            ends |= {"open"} if classes[each].opened else set()
            waiting += classes[each].built
    return frozenset(ends if not {"embedding", "head"} <= ends else ends - {"open"})


def ancestors(name: str, classes: dict[str, Built]) -> list[str]:
    """Base classes, near ones first."""
    found: list[str] = []
    for base in classes[name].bases:
        if base in classes and base not in found and base != name:
            found += [base, *ancestors(base, classes)]
    return found


def declared(name: str, classes: dict[str, Built]) -> frozenset[str] | None:
    """The embedding_modules of a class, its own or inherited."""
    for each in (name, *ancestors(name, classes)):
        known = classes[each]
        if known.borrowed:
            return declared(known.borrowed, classes)
        if known.ends is not None and each != INTERFACE:
            return known.ends
    return None


def inherits(name: str, wanted: str, bases: dict[str, set[str]]) -> bool:
    """Whether a class inherits from another one."""
    seen, waiting = set(), [name]
    while waiting:
        one = waiting.pop()
        if one == wanted:
            return True
        if one not in seen:
            seen.add(one)
            waiting += bases.get(one, ())
    return False
