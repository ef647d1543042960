"""A shell's arithmetic: which variables it sets, and what it comes to where only known numbers stand in it."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping

from kvplan.manifests.shell.brackets import closing

_ASSIGNED = re.compile(
    r"(?<![\w$.])(?P<before>[A-Za-z_]\w*)(?:\[[^\]]*\])?\s*(?:(?:<<|>>|[-+*/%&^|])?=(?!=)|\+\+|--)"
    r"|(?:\+\+|--)\s*(?P<after>[A-Za-z_]\w*)",
    re.ASCII,
)
_REFERRED = re.compile(r"\$\{?([A-Za-z_]\w*)\}?|(?<![\w$])([A-Za-z_]\w*)", re.ASCII)
_NUMBER = re.compile(r"0|[1-9]\d*", re.ASCII)
_LARGEST = 2**63 - 1
_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    ast.Mod: lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1),
}  # fmt: skip
"""Those that bind alike in a shell and in Python; a shell's quotients lose their fraction, whatever the sign."""


def inside(text: str, at: int) -> str | None:
    """The expression of the `((...))` that begins at `at`; None for a subshell in a subshell."""
    if not text.startswith("((", at):
        return None
    end = closing(text, at, "(")
    return text[at + 2 : end - 2] if closing(text, at + 1, "(") == end - 1 and text[end - 2 : end] == "))" else None


def assigned(expression: str) -> frozenset[str]:
    """Variables that an expression sets."""
    return frozenset(match["before"] or match["after"] for match in _ASSIGNED.finditer(expression))


def value(expression: str, known: Callable[[str], object]) -> int | None:
    """What an expression comes to. known: what a variable certainly holds. None where that isn't a matter of known numbers."""
    unknown = ["#"] if "#" in expression else []  # BASE#NUMBER

    def number(match: re.Match[str]) -> str:
        held = known(match[1] or match[2])
        if isinstance(held, str) and _NUMBER.fullmatch(held):
            return held
        unknown.append(match[0])
        return "0"

    plain = " ".join(_REFERRED.sub(number, expression).split())
    if unknown or not plain or len(plain) > MOST_SIGNS:
        return None
    try:
        return _value(ast.parse(plain, mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError):
        return None


MOST_SIGNS = 200


def _value(node: ast.expr) -> int:
    """Raises: ValueError for what isn't read here; ZeroDivisionError."""
    found = None
    if isinstance(node, ast.Constant) and type(node.value) is int:
        found = node.value
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        found = -_value(node.operand)
    elif isinstance(node, ast.BinOp) and (apply := _OPERATORS.get(type(node.op))) is not None:
        found = apply(_value(node.left), _value(node.right))
    if found is None or abs(found) > _LARGEST:
        raise ValueError(ast.dump(node))
    return found
