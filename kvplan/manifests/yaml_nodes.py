"""Other people's YAML, read for what it says and where: several documents, anchors and merge keys included.

Unlike kvplan's own files nothing here is refused for style. What is bounded is size: aliases may not multiply a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kvplan.errors import BadFile

MOST_NODES = 200_000
MOST_DEPTH = 100


@dataclass(frozen=True, slots=True)
class Node:
    """One value of a document. value: text of a scalar, a list of Nodes, or a mapping of text to Nodes.

    line: from 1, of the value. key_line: of the key or list item it belongs to. kind: `str`, `int`, `bool`, `null` ...
    for scalars, as YAML 1.1 reads them. script: the text with its line breaks where they stand in the file, for a shell
    that counts lines; a break that YAML folds away is escaped. script_line: the line where that text starts.
    """

    value: str | list[Node] | dict[str, Node]
    line: int
    key_line: int
    kind: str
    script: str = ""
    script_line: int = 0

    @property
    def text(self) -> str | None:
        """The text of a scalar that isn't null."""
        return self.value if isinstance(self.value, str) and self.kind != "null" else None

    @property
    def items(self) -> list[Node]:
        """Items of a list; none of anything else."""
        return self.value if isinstance(self.value, list) else []

    @property
    def keys(self) -> dict[str, Node]:
        """Entries of a mapping; none of anything else."""
        return self.value if isinstance(self.value, dict) else {}

    def get(self, *path: str) -> Node | None:
        """What stands under these keys."""
        here: Node | None = self
        for key in path:
            here = here.keys.get(key) if here is not None else None
        return here

    def said(self, *path: str) -> str | None:
        """The text that stands under these keys."""
        found = self.get(*path)
        return found.text if found is not None else None

    def walk(self) -> Iterator[Node]:
        """This and everything inside."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack += reversed(node.items or list(node.keys.values()))


def documents(text: str, name: str) -> tuple[Node, ...]:
    """Every document that isn't empty.

    Raises: BadFile where the text isn't YAML, or grows beyond reason when its aliases are followed.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    lines = text.splitlines()
    try:
        return tuple(
            _Reader(name, lines).node(root, root.start_mark.line + 1, 0)
            for root in yaml.compose_all(text, Loader=loader)
            if root.tag != "tag:yaml.org,2002:null"
        )
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" at line {mark.line + 1}" if mark else ""
        raise BadFile(f"{name} is not YAML", cause=f"{error.problem or error.context}{where}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise BadFile(f"{name} is not YAML", cause=(str(error).splitlines() or ["nested too deep"])[0]) from None


class _Reader:
    def __init__(self, name: str, lines: list[str]) -> None:
        self.name = name
        self.lines = lines
        self.left = MOST_NODES

    def node(self, raw: Any, key_line: int, depth: int) -> Node:
        self.left -= 1
        if self.left < 0 or depth > MOST_DEPTH:
            raise BadFile(f"{self.name} is too large to be a manifest", cause="its aliases repeat it too often")
        line = raw.start_mark.line + 1
        kind = raw.tag.rpartition(":")[2]
        if raw.id == "scalar":
            return Node(str(raw.value), line, key_line, kind, *self.script(raw))
        if raw.id == "sequence":
            return Node(
                [self.node(item, item.start_mark.line + 1, depth + 1) for item in raw.value], line, key_line, kind
            )
        return Node(self.mapping(raw, depth), line, key_line, kind)

    def script(self, raw: Any) -> tuple[str, int]:
        """The text of a scalar, broken where the file breaks it, and the line where that starts."""
        text, first, last = str(raw.value), raw.start_mark.line, raw.end_mark.line
        if raw.style == "|":
            return text, first + 2
        if first == last:
            return text, first + 1
        block = raw.style == ">"
        written = self.lines[first + 1 : last] if block else self.lines[first : last + 1]
        if not block:
            written = [written[0][raw.start_mark.column :], *written[1:]]
            written[-1] = written[-1].rstrip("\"' ,]}")
            written[0] = written[0].lstrip("\"'")
        kept = [line.strip() for line in written]
        while kept and not kept[-1]:
            kept.pop()
        if " ".join(" ".join(kept).split()) == " ".join(text.split()) and "\n" not in text.strip():
            return " \\\n".join(kept), first + 2 if block else first + 1
        return text, first + 2 if block else first + 1

    def mapping(self, raw: Any, depth: int) -> dict[str, Node]:
        own: dict[str, Node] = {}
        merged: dict[str, Node] = {}
        for key, value in raw.value:
            if key.tag == "tag:yaml.org,2002:merge":
                for source in reversed(value.value if value.id == "sequence" else [value]):
                    if source.id == "mapping":
                        merged |= self.mapping(source, depth + 1)
            elif key.id == "scalar":
                own[str(key.value)] = self.node(value, key.start_mark.line + 1, depth + 1)
        return merged | own


def plain(node: Node) -> Any:
    """Dictionaries, lists and scalars of Python."""
    if isinstance(node.value, dict):
        return {key: plain(inner) for key, inner in node.value.items()}
    if isinstance(node.value, list):
        return [plain(inner) for inner in node.value]
    return _scalar(node.kind, node.value)


def _scalar(kind: str, text: str) -> Any:
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() in {"true", "yes", "on"}
    try:
        if kind == "int":
            return int(text.replace("_", ""), 0)
        if kind == "float":
            return float(text.replace("_", ""))
    except ValueError:
        return text
    return text
