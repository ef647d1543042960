"""Remakes most of kvplan/engines/vllm/tables: what each release of vLLM takes.

    python tools/vllm_tables.py FOLDER

The modules are releases, registered, unadapted, adapted_ends, attention, flags and capabilities.
FOLDER holds one folder a release, named by its version, with the release's `vllm` package in it (a wheel unpacks; of it
only config*, engine/arg_utils.py, entrypoints/common/cli_args.py, model_executor/models, models and layers/quantization are read). Nothing is imported:
names are taken from the syntax trees. Names of classes, flags and formats are facts; no other text is kept.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

from vllm_attention import attention, placed

HERE = Path(__file__).parents[1] / "kvplan" / "engines" / "vllm" / "tables"
Version = tuple[int, int, int]

HEAD = '''\
"""{about}

Made by tools/vllm_tables.py from the releases' own files; not written by hand. A value is the first release that has the
name, or `first-last` where a later one lost it, several where it came back. What the oldest has may be older.
"""

from __future__ import annotations

'''


def main(folder: Path) -> None:
    """Write every module."""
    releases = sorted((parsed(path.name), path / "vllm") for path in folder.iterdir() if (path / "vllm").is_dir())
    check_whole(releases)
    write_releases(releases)
    classes = spans(releases, classes_of)
    write(
        "registered.py",
        "Model classes that vLLM registers, and the releases that do.\n\nSource: model_executor/models/registry.py of each",
        (
            ("CLASSES", "Class that a config names: releases.", classes),
            (
                "DRAFTS",
                "Classes among them that draft for another model, and aren't served alone.",
                {name for _, each in releases for name in drafting_of(each)},
            ),
        ),
    )
    write(
        "unadapted.py",
        "Model classes that vLLM registers without room for LoRA adapters, and the releases that do.\n\n"
        "Source: model_executor/models/registry.py and the modules it names, of each",
        (("WITHOUT_ADAPTERS", "Class that a config names: releases.", spans(releases, unadapted_of)),),
    )
    write(
        "adapted_ends.py",
        "Model classes whose embedding or head vLLM makes room for adapters of, and the releases that do.\n\n"
        "Source: embedding_modules of the classes of model_executor/models, and of those that they build, of each",
        (
            (
                "EMBEDDING",
                "Class whose embedding is adapted: releases.",
                spans(releases, partial(ending, end="embedding")),
            ),
            ("HEAD", "Class whose head is adapted: releases.", spans(releases, partial(ending, end="head"))),
            (
                "OPEN",
                "Class that builds a language model which a config names, not itself: releases.",
                spans(releases, partial(ending, end="open")),
            ),
        ),
    )
    write(
        "attention.py",
        "How the model classes that vLLM registers build their attention layers, and the releases that do so.\n\n"
        "Source: model_executor/models/registry.py and the classes that those it names are made of, of each",
        (
            (
                "OWN_WINDOWS",
                "Class that gives some of its layers a window of their own: releases. Other classes leave it to the cache's.",
                spans(releases, lambda folder: attention(folder).own_windows),
            ),
            (
                "DIVIDES",
                "Class whose heads are the hidden size over their number, whatever head_dim a config states: releases.",
                spans(releases, lambda folder: attention(folder).divides),
            ),
            (
                "UNIFORM",
                "Class that refuses windows on some of its layers alone: releases.",
                spans(releases, lambda folder: attention(folder).uniform),
            ),
            (
                "UNSET",
                "Class that takes the cache's window away from layers without one of their own: releases.",
                spans(releases, lambda folder: attention(folder).unset),
            ),
            (
                "OPENS",
                "Class whose language model is of the class that the config of that part names: releases.",
                spans(releases, lambda folder: attention(folder).opens),
            ),
        ),
    )
    write(
        "flags.py",
        "Flags of vLLM's engine and their values, and the releases that take them.\n\n"
        "Source: engine/arg_utils.py, entrypoints/common/cli_args.py, config/cache.py, config/lora.py and layers/quantization/__init__.py of each",
        (
            ("FLAGS", "Flag without its dashes: releases.", spans(releases, flags_of)),
            ("NEGATED", "Switch that may be turned off with --no-: releases.", spans(releases, negated_of)),
            ("SWITCHES", "Flag without a value: releases.", spans(releases, partial(taken_by, takes="switch"))),
            (
                "SEVERAL",
                "Flag that takes every word up to the next flag: releases.",
                spans(releases, partial(taken_by, takes="several")),
            ),
            (
                "OPTIONAL",
                "Flag that stands alone or before one value: releases.",
                spans(releases, partial(taken_by, takes="optional")),
            ),
            ("SHORT", "Short name without its dash: the flag.", other_names(releases, "-")),
            ("ALIASES", "Second long name: the flag.", other_names(releases, "--")),
            (
                "SERVER",
                "Flag of the newest release's HTTP server: what it takes. Earlier ones are not read.",
                server_of(releases[-1][1]),
            ),
            ("CACHE_FORMATS", "Value of --kv-cache-dtype: releases.", spans(releases, formats_of)),
            ("LORA_RANKS", "Value of --max-lora-rank: releases.", spans(releases, ranks_of)),
            ("BLOCKS", "Value of --block-size, where a release lists them: releases.", spans(releases, blocks_of)),
            ("DRAFT_METHODS", "Method of --speculative-config: releases.", spans(releases, methods_of)),
            ("QUANTIZATIONS", "Method that a checkpoint is quantized by: releases.", spans(releases, quantizations_of)),
        ),
    )
    write(
        "capabilities.py",
        "The least compute capability that vLLM's methods of quantization take, as 10 x major + minor, and the releases that say so.\n\n"
        "Source: get_min_capability of the classes of layers/quantization of each",
        (
            ("METHODS", "Method: least compute capability: releases.", numbered(spans(releases, least_of_methods))),
            (
                "SCHEMES",
                "Class of a linear layer's scheme: least compute capability: releases.",
                numbered(spans(releases, least_of_schemes)),
            ),
        ),
    )


NEEDED = ("engine/arg_utils.py", "model_executor/models", "model_executor/layers/quantization/__init__.py")
"""Files and folders of every release: where one is missing the release would seem to have lost what it holds."""


def check_whole(releases: Iterable[tuple[Version, Path]]) -> None:
    """Nothing, if every release has the files that tables are made from.

    Raises: SystemExit, naming what is missing.
    """
    missing = [
        f"{text(version)}: {name}" for version, path in releases for name in NEEDED if not (path / name).exists()
    ]
    if missing:
        sys.exit("releases that are only partly unpacked: " + ", ".join(missing))


def parsed(name: str) -> Version:
    """`0.6.4.post1` as a release."""
    major, minor, patch = (int(part) for part in re.findall(r"\d+", name)[:3])
    return major, minor, patch


def text(version: Version) -> str:
    """`0.6.4`."""
    return ".".join(map(str, version))


def spans(releases: list[tuple[Version, Path]], names: Callable[[Path], set[str]]) -> dict[str, str]:
    """Each name with the releases that have it."""
    found: dict[str, list[list[Version]]] = {}
    before: set[str] = set()
    last = releases[0][0]
    for version, folder in releases:
        here = names(folder)
        for name in here - before:
            found.setdefault(name, []).append([version])
        for name in before - here:
            found[name][-1].append(last)
        before, last = here, version
    return {name: " ".join("-".join(map(text, span)) for span in each) for name, each in sorted(found.items())}


def write_releases(releases: Iterable[tuple[Version, Path]]) -> None:
    """The module that names the releases."""
    known = ", ".join(f'"{text(version)}"' for version, _ in releases)
    (HERE / "releases.py").write_text(
        '"""Releases of vLLM whose files the tables beside this one were made from.\n\n'
        'Made by tools/vllm_tables.py; not written by hand.\n"""\n\nfrom __future__ import annotations\n\n'
        f"RELEASES = ({known})  # fmt: skip\n",
        encoding="utf-8",
    )


def numbered(table: dict[str, str]) -> dict[str, dict[int, str]]:
    """Names that end in a number, taken apart."""
    found: dict[str, dict[int, str]] = {}
    for key, value in table.items():
        name, _, number = key.rpartition(" ")
        found.setdefault(name, {})[int(number)] = value
    return found


def written(value: str | dict[int, str]) -> str:
    """A value as Python has it, strings in double quotes."""
    if isinstance(value, str):
        return f'"{value}"'
    return f"{{{', '.join(f'{number}: {written(spans)}' for number, spans in sorted(value.items()))}}}"


def write(file: str, about: str, tables: Iterable[tuple]) -> None:
    """One module of tables."""
    lines = [HEAD.format(about=about + ".")]
    for name, says, table in tables:
        if isinstance(table, set):
            rows = "\n".join(f'    "{key}",' for key in sorted(table))
            lines.append(f'{name} = frozenset((\n{rows}\n))  # fmt: skip\n"""{says}"""\n\n')
            continue
        rows = "\n".join(f'    "{key}": {written(value)},' for key, value in table.items())
        lines.append(f'{name} = {{\n{rows}\n}}\n"""{says}"""\n\n')
    (HERE / file).write_text("".join(lines).rstrip("\n") + "\n", encoding="utf-8")


def trees(folder: Path, *files: str) -> Iterator[ast.AST]:
    """Nodes of those of the files that the release has."""
    for file in files:
        for path in sorted(folder.glob(file)):
            yield from running(ast.parse(path.read_text(encoding="utf-8")))


def running(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes in the order of ast.walk, without what only type checkers see."""
    waiting = deque((tree,))
    while waiting:
        node = waiting.popleft()
        yield node
        checked = isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        waiting.extend(node.orelse if checked else ast.iter_child_nodes(node))


def bases_of(node: ast.ClassDef) -> list[str]:
    """Names of a class's bases; of what a function makes of another class, that one's."""
    return [name for base in node.bases for name in named_in(base)]


def named_in(base: ast.expr) -> list[str]:
    """The name of a class, or of those that a call is given."""
    each = base.args if isinstance(base, ast.Call) else [base]
    return [name for one in each if (name := getattr(one, "id", getattr(one, "attr", "")))]


def alias(node: ast.AST) -> tuple[str, list[str]] | None:
    """The name of a base that an assignment gives to a class, or to what a function makes of one, and that class's own."""
    if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
        return None
    names = named_in(node.value)
    return (node.targets[0].id, names) if names and re.fullmatch(r"_\w+Base", node.targets[0].id) else None


def constants(node: ast.AST) -> list:
    """The literals of a tuple or list."""
    return [each.value for each in getattr(node, "elts", ()) if isinstance(each, ast.Constant)]


def classes_of(folder: Path) -> set[str]:
    """Keys of the registry's tables: each has a module and a class."""
    return {name for name, _ in registered_as(folder)}


def drafting_of(folder: Path) -> set[str]:
    """Keys of the registry's table of speculative decoding."""
    for node in trees(folder, "model_executor/models/registry.py"):
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id == "_SPECULATIVE_DECODING_MODELS":
            table = next(each for each in ast.walk(node) if isinstance(each, ast.Dict))
            return {key.value for key in table.keys if isinstance(key, ast.Constant)}
    return set()


def registered_as(folder: Path) -> Iterator[tuple[str, str]]:
    """Names that the registry has, and the classes they stand for."""
    return ((name, defined) for name, (_, defined) in placed(folder).items())


def unadapted_of(folder: Path) -> set[str]:
    """Names whose class is defined where the registry says and neither is nor inherits from SupportsLoRA."""
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


ENDS = {"input_embeddings": "embedding", "output_embeddings": "head"}
"""What embedding_modules calls the tables that it names."""

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


def ending(folder: Path, end: str) -> set[str]:
    """Names of registered classes with an end that is adapted, or `open`."""
    return {name for name, found in adapted_ends(folder).items() if end in found}


@cache
def adapted_ends(folder: Path) -> dict[str, frozenset[str]]:
    """Ends of each registered class: LoRAModelManager looks at all modules that a model is made of."""
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
    """What a class says of itself."""
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
    """Ends of a class and of all that it builds; `open` where it builds one that it doesn't name."""
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
    """Classes that one inherits from, near ones first."""
    found: list[str] = []
    for base in classes[name].bases:
        if base in classes and base not in found and base != name:
            found += [base, *ancestors(base, classes)]
    return found


def declared(name: str, classes: dict[str, Built]) -> frozenset[str] | None:
    """The embedding_modules that a class has, its own or inherited."""
    for each in (name, *ancestors(name, classes)):
        known = classes[each]
        if known.borrowed:
            return declared(known.borrowed, classes)
        if known.ends is not None and each != INTERFACE:
            return known.ends
    return None


def inherits(name: str, wanted: str, bases: dict[str, set[str]]) -> bool:
    """Whether a class has another among its bases, near or far."""
    seen, waiting = set(), [name]
    while waiting:
        one = waiting.pop()
        if one == wanted:
            return True
        if one not in seen:
            seen.add(one)
            waiting += bases.get(one, ())
    return False


@dataclass(frozen=True)
class Argument:
    """A flag that a parser is given: its names with their dashes, and what follows it (`switch`, `value`, `several`, `optional`).

    negated: whether --no- turns it off.
    """

    names: tuple[str, ...]
    takes: str
    negated: bool = False

    @property
    def name(self) -> str:
        """The first long name, without its dashes."""
        return next(each[2:].replace("_", "-") for each in self.names if each.startswith("--"))


ENGINE = "engine/arg_utils.py"
SERVER = "entrypoints/common/cli_args.py"
SWITCHED = ("store_true", "store_false", "BooleanOptionalAction")
LISTS = {"list", "List", "tuple", "Tuple", "set", "Set"}


@cache
def arguments_of(folder: Path, file: str = ENGINE) -> tuple[Argument, ...]:
    """Flags that the parser of a file is given, one by one."""
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
    """A flag by what add_argument is told, and by the type of the field whose kwargs it is given."""
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
    """Class and field: the field's type."""
    return {
        (node.name, each.target.id): each.annotation
        for node in trees(folder, "config.py", "config/*.py", ENGINE, SERVER)
        if isinstance(node, ast.ClassDef)
        for each in node.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }


def taking(annotation: ast.expr) -> str:
    """What get_kwargs makes of a field's type. Source: engine/arg_utils.py _compute_kwargs."""
    kinds = set(kinds_of(annotation))
    if kinds >= {"bool", "str"}:
        return "optional"
    if "bool" in kinds:
        return "switch"
    return "several" if kinds & LISTS and "Literal" not in kinds else "value"


def kinds_of(annotation: ast.expr) -> Iterator[str]:
    """Names of the types that a union is made of: `list` and `None` of `list[int] | None`."""
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
    """The engine's, by all of their long names."""
    return {name[2:].replace("_", "-") for each in arguments_of(folder) for name in each.names if name.startswith("--")}


def taken_by(folder: Path, takes: str) -> set[str]:
    """Those of the engine's after which so much stands."""
    return {each.name for each in arguments_of(folder) if each.takes == takes}


def negated_of(folder: Path) -> set[str]:
    """Those that are made with BooleanOptionalAction, by themselves or, from a field's type, by get_kwargs."""
    return {each.name for each in arguments_of(folder) if each.negated}


def other_names(releases: list[tuple[Version, Path]], dashes: str) -> dict[str, str]:
    """`tp` of -tp: the flag that it stands for, of whichever release; with two dashes, second long names."""
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
    """Flags of the HTTP server, each with what it takes: fields of FrontendArgs, and what its parser is given besides.

    Raises: SystemExit where the folder doesn't have them.
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


def literals(folder: Path, name: str) -> set[str]:
    """Members of `NAME = Literal[...]` in the configuration."""
    found: set[str] = set()
    for node in trees(folder, "config.py", "config/*.py"):
        if isinstance(node, ast.Assign) and name in {getattr(target, "id", "") for target in node.targets}:
            found |= {str(each.value) for each in ast.walk(node.value) if isinstance(each, ast.Constant)}
    return found


def choices(folder: Path, flag: str) -> set[str]:
    """`choices=` of a flag."""
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
    """Methods of drafting: of the type's literal, or of the list that an unknown one is checked against."""
    found = literals(folder, "SpeculativeMethod") | literals(folder, "MTPModelTypes")
    return {
        name
        for name in found | literals(folder, "EagleModelTypes") | literals(folder, "NgramGPUTypes")
        if name.isidentifier()
    }


def quantizations_of(folder: Path) -> set[str]:
    """Methods of quantization: of the type's literal, or of the oldest releases' table."""
    names = ("QuantizationMethods", "QUANTIZATION_METHODS")
    for node in trees(folder, "model_executor/layers/quantization/__init__.py"):
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        if not any(getattr(target, "id", "") in names for target in targets):
            continue
        value = getattr(node, "value", None)
        if isinstance(value, ast.Dict):
            return {key.value for key in value.keys if isinstance(key, ast.Constant)}
        if isinstance(value, ast.Subscript):
            return {str(each) for each in constants(value.slice) if str(each).replace("-", "_").isidentifier()}
        if isinstance(value, ast.List):
            return {str(each) for each in constants(value)}
    return set()


def least_of_methods(folder: Path) -> set[str]:
    """`fp8 75`: each method of the table that gives methods their classes, and the least its class takes."""
    least, found = least_capabilities(folder), set()
    for node in trees(folder, "model_executor/layers/quantization/__init__.py"):
        for key, value in zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ():
            if isinstance(key, ast.Constant) and getattr(value, "id", None) in least:
                found.add(f"{key.value} {least[value.id]}")
    return found


def least_of_schemes(folder: Path) -> set[str]:
    """The same of the classes that compressed-tensors and Quark choose among for a linear layer."""
    least = least_capabilities(folder)
    schemes = {
        node.name
        for node in trees(folder, "model_executor/layers/quantization/*/schemes/*.py")
        if isinstance(node, ast.ClassDef)
    }
    return {f"{name} {least[name]}" for name in schemes & set(least)}


@cache
def least_capabilities(folder: Path) -> dict[str, int]:
    """What get_min_capability returns, of each class that has it or inherits it; the least of several."""
    said: dict[str, ast.AST] = {}
    bases: dict[str, list[str]] = {}
    for node in trees(folder, "model_executor/layers/quantization/**/*.py"):
        if isinstance(node, ast.ClassDef):
            bases[node.name] = [getattr(base, "id", "") for base in node.bases]
            for each in (each for each in node.body if getattr(each, "name", "") == "get_min_capability"):
                said[node.name] = each

    def of(name: str) -> int | None:
        if name in said:
            returned = [each.value for each in ast.walk(said[name]) if isinstance(each, ast.Return)]
            known = [each.value if isinstance(each, ast.Constant) else of(called_on(each)) for each in returned]
            return min((each for each in known if each is not None), default=None)
        return next((least for base in bases.get(name, ()) if (least := of(base)) is not None), None)

    return {name: least for name in bases if (least := of(name)) is not None}


def called_on(node: ast.AST | None) -> str:
    """`Name` of `Name.method()`."""
    return getattr(getattr(getattr(node, "func", None), "value", None), "id", "")


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.exit("python tools/vllm_tables.py FOLDER, which holds VERSION/vllm of every release that the tables know")
    main(Path(sys.argv[1]))
