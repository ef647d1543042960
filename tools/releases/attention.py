"""How the classes of one release of vLLM build their attention layers, from the syntax trees of its model files.

Nothing is imported. A registered class is followed to the classes that it inherits from and those that it names: an
argument that a caller gives replaces the class that a parameter has as its default, and a method that a class has itself
replaces an inherited one, unless it calls it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

ROOTS = ("model_executor/models", "models")
WINDOW = "per_layer_sliding_window"
SETTINGS = "CacheConfig"
"""What a class makes of its own where some of its layers have another window than the cache's settings say."""
HEAD = ("head_dim", "head_size")
ATTENTION = re.compile("attn|attention", re.IGNORECASE)
"""What layers that keep keys and values are called."""
REFUSAL = "Sliding window for some but all layers"
"""What a class says that refuses windows on some layers alone."""
UNSET = "cache_config.sliding_window = None"
"""How a class takes the cache's window away."""
SKIPS = re.compile(r"\b_mark_(tower_model|composite_model|model_components)\(|\bif\b[^:]*\bget_limit_per_prompt\(")
"""How a class's constructor leaves towers out that have nothing to read: as it does since 0.15, or as it did before."""
LIMITS, PROCESSOR = "get_supported_mm_limits", "register_processor"
"""The method that says what is read beside text, and how a class is given the one who has it."""

INTERFACES = {"IsHybrid": "is_hybrid", "IsAttentionFree": "is_attention_free", "SupportsPP": "supports_pp"}
"""Bases that say what a class can do, and the attribute that says so without the base."""

ROTATION = "rope_parameters"
"""The field of a config that says how rotary positions are scaled."""

ACTIVATION = ("hidden_act", "hidden_activation", "activation_function")
"""Fields of configs, and parameters, that name an activation."""

Key = tuple[str, str]
"""Module and name of a class."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Module:
    """text: its source. classes: by name. imported: names from other modules. groups: names that stand for several classes.

    functions: by name, those that stand beside the classes.
    """

    name: str
    text: str
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    imported: dict[str, Key] = field(default_factory=dict)
    groups: dict[str, set[str]] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)


@dataclass
class Found:
    """What a class does itself.

    windows: gives layers windows of their own. needs: parameters that do so when a caller gives them. attends: builds
    layers that keep keys and values. divides: with heads of the hidden size over their number. uniform: refuses windows on
    some layers alone. unset: takes the cache's window away. opened: builds a class that a config names. activations:
    `hidden_act=silu`, a field of a config and a value of it that alone is taken. checked: the same of parameters. turns: reads
    how rotary positions are scaled. by_type: type of layer by type of layer.
    """

    windows: bool = False
    needs: set[str] = field(default_factory=set)
    attends: bool = False
    divides: bool = False
    uniform: bool = False
    unset: bool = False
    opened: bool = False
    activations: set[str] = field(default_factory=set)
    checked: set[tuple[str, str]] = field(default_factory=set)
    turns: bool = False
    by_type: bool = False


class Release:
    """The model files of one release."""

    def __init__(self, folder: Path, registered: dict[str, Key]) -> None:
        self.registered = registered
        self.modules: dict[str, Module] = {}
        for root in ROOTS:
            for path in sorted((folder / root).rglob("*.py")):
                module = _module(path, folder)
                self.modules[module.name] = module
        self.known: dict[Key, list[Key]] = {}
        self.inherited: dict[Key, list[Key]] = {}
        self.run: dict[Key, list[tuple[Key, Function, frozenset[str]]]] = {}
        self.found = {(module.name, name): Found() for module in self.modules.values() for name in module.classes}
        self._look()

    def resolve(self, module: str, name: str) -> list[Key]:
        """Classes that a name stands for in a module."""
        asked = module, name
        if asked not in self.known:
            seen: set[Key] = set()
            waiting, found = [asked], []
            while waiting:
                one = waiting.pop()
                here = self.modules.get(one[0])
                if one in seen or here is None:
                    continue
                seen.add(one)
                if one[1] in here.classes:
                    found.append(one)
                elif one[1] in here.imported:
                    waiting.append(here.imported[one[1]])
                waiting += [(one[0], each) for each in here.groups.get(one[1], ())]
            self.known[asked] = found
        return self.known[asked]

    def start(self, name: str) -> list[Key]:
        """The class that a registered name stands for; in a package that finds it late, any below of that name."""
        module, defined = self.registered[name]
        below = [(each, defined) for each in self.modules if each.startswith(f"{module}.")]
        return self.resolve(module, defined) or [key for key in below if key in self.found]

    def bases(self, key: Key) -> list[Key]:
        """Classes that one inherits from, near ones first."""
        if key not in self.inherited:
            found: list[Key] = []
            for base in self.modules[key[0]].classes[key[1]].bases:
                for name in _names(base):
                    for each in self.resolve(key[0], name):
                        if each != key and each not in found:
                            found += [each, *self.bases(each)]
            self.inherited[key] = found
        return self.inherited[key]

    def methods(self, key: Key) -> list[tuple[Key, Function, frozenset[str]]]:
        """Functions that run for a class, each with who has it and the arguments that nearer classes give by name.

        They are its own, and inherited ones that it doesn't replace, or calls nevertheless.
        """
        if key not in self.run:
            found: list[tuple[Key, Function, frozenset[str]]] = []
            replaced: set[str] = set()
            given: frozenset[str] = frozenset()
            for owner in (key, *self.bases(key)):
                own = [
                    each for each in _functions(self.modules[owner[0]].classes[owner[1]]) if each.name not in replaced
                ]
                found += [(owner, each, given) for each in own]
                given |= _keywords(own)
                replaced |= {each.name for each in own if not _calls_inherited(each)}
            self.run[key] = found
        return self.run[key]

    def attributes(self, key: Key) -> Iterator[tuple[Key, str]]:
        """Names that a class's own and inherited attributes stand for, with who has them."""
        replaced: set[str] = set()
        for owner in (key, *self.bases(key)):
            own = {
                name: value
                for name, value in _attributes(self.modules[owner[0]].classes[owner[1]])
                if name not in replaced
            }
            yield from ((owner, each) for value in own.values() for each in _whole_names([value]))
            replaced |= set(own)

    def reached(self, name: str) -> set[Key]:
        """Classes whose functions run for a registered one and for those that it is made of."""
        found: set[Key] = set()
        seen: set[tuple[Key, frozenset[str]]] = set()
        waiting = [(key, frozenset[str]()) for key in self.start(name)]
        while waiting:
            one = waiting.pop()
            if one in seen:
                continue
            seen.add(one)
            key, given = one
            waiting += [
                (each, frozenset[str]())
                for owner, used in self.attributes(key)
                for each in self.resolve(owner[0], used)
            ]
            for owner, method, nearer in self.methods(key):
                found.add(owner)
                told = _keywords([method]) & self._replaceable
                for used in _used(method) + [name for at, name in _default_names(method) if at not in given | nearer]:
                    waiting += [(each, told) for each in self.resolve(owner[0], used)]
                for asked in _asked(method):
                    waiting += [(each, told) for each in (self.start(asked) if asked in self.registered else ())]
        return found

    @cached_property
    def _replaceable(self) -> frozenset[str]:
        """Names of parameters that have a class as their default."""
        return frozenset(
            at
            for module in self.modules.values()
            for node in module.classes.values()
            for function in _functions(node)
            for at, name in _default_names(function)
            if self.resolve(module.name, name)
        )

    def interfaces(self, name: str) -> set[str]:
        """Which of INTERFACES a registered class has."""
        return {
            interface
            for key in self.start(name)
            for owner in (key, *self.bases(key))
            for interface, attribute in INTERFACES.items()
            if owner[1] == interface or attribute in dict(_attributes(self.modules[owner[0]].classes[owner[1]]))
        }

    def skips(self, name: str) -> bool:
        """Whether a registered class itself leaves towers out that have nothing to read."""
        return any(_skips(method) for key in self.start(name) for _, method, _ in self.methods(key))

    def reads_whole(self, name: str) -> bool:
        """Whether a registered class's own constructor takes the config as it is handed over, not the part about text in it."""
        return any(
            _is_whole(each)
            for key in self.start(name)
            for _, method, _ in self.methods(key)
            if method.name == "__init__"
            for each in _assignments(method)
        )

    def media(self, name: str) -> set[str]:
        """What a registered class reads beside text: the names in the method of who processes its prompts."""
        for key in self.start(name):
            for owner in (key, *self.bases(key)):
                for info in _informants(self.modules[owner[0]].classes[owner[1]]):
                    return {each for told in self.resolve(owner[0], info) for each in self._limited(told)}
        return set()

    def _limited(self, key: Key) -> set[str]:
        return {each for _, method, _ in self.methods(key) if method.name == LIMITS for each in _keys(method)}

    def _look(self) -> None:
        """What each class does; what callers hand on is known only once their callees are."""
        for key, found in self.found.items():
            text = self.modules[key[0]].text
            for node in _functions(self.modules[key[0]].classes[key[1]]):
                for each in (node, *self._named(key[0], node)):
                    found.turns |= any(map(_is_rotation, ast.walk(each)))
                    found.by_type |= _by_type(each)
                attends = self._attends(key[0], node)
                found.attends |= attends
                found.divides |= attends and _divides(node)
                found.uniform |= REFUSAL in text and REFUSAL in ast.unparse(node)
                found.unset |= UNSET in text and UNSET in ast.unparse(node)
                found.opened |= any(not names for names in _registered_calls(node))
                for asked, value in _refused_activations(node):
                    self._ask(found, node, asked, value)
        before = -1
        while before != (now := sum(one.windows + len(one.needs) for one in self.found.values())):
            before = now
            wanted = {WINDOW}.union(*(one.needs for one in self.found.values()))
            for key, found in self.found.items():
                for node in _functions(self.modules[key[0]].classes[key[1]]):
                    self._window(key, node, found, wanted)
        self._hand_on()

    def _named(self, module: str, function: Function) -> Iterator[Function]:
        """Functions beside the classes of a module that a function names."""
        beside = self.modules[module].functions
        return (beside[name] for name in _used(function) if name in beside)

    def _hand_on(self) -> None:
        """Activations that a class gives to those it builds, which check them; two callers above is as far as it goes."""
        for _ in range(3):
            for key, found in self.found.items():
                for node in _functions(self.modules[key[0]].classes[key[1]]):
                    for call in _calls(node):
                        given = {each.arg: each.value for each in call.keywords if each.arg in ACTIVATION}
                        for name in _names(call.func) if given else ():
                            for parameter, value in self._checked(key[0], name):
                                if parameter in given:
                                    self._ask(found, node, given[parameter], value)

    def _checked(self, module: str, name: str) -> set[tuple[str, str]]:
        """What the constructors that run for a class check of their parameters."""
        return {
            each
            for one in self.resolve(module, name)
            for owner, method, _ in self.methods(one)
            if method.name == "__init__"
            for each in self.found[owner].checked
        }

    @staticmethod
    def _ask(found: Found, function: Function, asked: ast.expr, value: str) -> None:
        """That a class takes one value of a config's field, or of what its constructor is given."""
        if isinstance(asked, ast.Attribute) and asked.attr in ACTIVATION:
            found.activations.add(f"{asked.attr}={value}")
        elif isinstance(asked, ast.Name) and function.name == "__init__":
            found.checked.add((asked.id, value))

    def _attends(self, module: str, function: Function) -> bool:
        """Whether a function hands the cache's settings to an attention layer that isn't a model's own class."""
        return any(
            any(given.arg == "cache_config" for given in call.keywords)
            and ATTENTION.search(ast.unparse(call.func)) is not None
            and not any(self.resolve(module, name) for name in _names(call.func))
            for call in _calls(function)
        )

    def _window(self, key: Key, function: Function, found: Found, wanted: set[str]) -> None:
        found.windows |= any(
            isinstance(target, ast.Subscript) and getattr(target.slice, "value", None) == WINDOW
            for assignment in _assignments(function)
            for target in assignment.targets
        ) or any(
            call.func.id == SETTINGS and any(given.arg == "sliding_window" for given in call.keywords)
            for call in _calls(function)
            if isinstance(call.func, ast.Name)
        )
        for call in _calls(function):
            if not any(given.arg in wanted for given in call.keywords):
                continue
            called = [one for name in _names(call.func) for one in self.resolve(key[0], name)]
            if isinstance(call.func, ast.Attribute) and "super()" in ast.unparse(call.func):
                called = self.bases(key)[:1]
            for given in call.keywords:
                asks = given.arg == WINDOW and not called
                if not asks and not any(given.arg in self.found[one].needs for one in called):
                    continue
                parameters = _origin(given.value, function)
                if parameters is None:
                    found.windows = True
                found.needs |= parameters or set()


@dataclass(frozen=True)
class Attention:
    """Registered classes by what they do.

    own_windows: give some layers a window of their own. divides: heads are the hidden size over their number, whatever
    head_dim a config states. uniform: refuse windows on some layers alone. unset: take the cache's window away. opens: build a
    language model that a config names. skips: leave towers out that have nothing to read. media: `Class image`, what each
    reads beside text. activations: `Class hidden_act=silu`, a field of the config and a value that it takes. interfaces:
    `Class IsHybrid`, each that it has. unpipelined: are found and lack SupportsPP. one_rotation: take what a config says of
    rotary positions for all layers alike. whole: read the config as it is handed over.
    """

    own_windows: set[str]
    divides: set[str]
    uniform: set[str]
    unset: set[str]
    opens: set[str]
    skips: set[str]
    media: set[str]
    activations: set[str]
    interfaces: set[str]
    unpipelined: set[str]
    one_rotation: set[str]
    whole: set[str]


@cache
def attention(folder: Path) -> Attention:
    """What the registered classes of a release do; its syntax trees are let go, as they take a gigabyte."""
    registered = placed(folder)
    release = Release(folder, registered)
    made = {name: [release.found[key] for key in release.reached(name)] for name in registered}
    for kept in (_calls, _assignments, _used, _default_names):
        kept.cache_clear()
    attending = {name: [one for one in each if one.attends] for name, each in made.items()}
    return Attention(
        {name for name, each in made.items() if any(one.windows for one in each)},
        {name for name, each in attending.items() if each and all(one.divides for one in each)},
        {name for name, each in made.items() if any(one.uniform for one in each)},
        {name for name, each in made.items() if any(one.unset for one in each)},
        {name for name, each in made.items() if any(one.opened for one in each)},
        {name for name in registered if release.skips(name)},
        {f"{name} {each}" for name in registered for each in release.media(name)},
        {f"{name} {each}" for name, found in made.items() for one in found for each in one.activations},
        {f"{name} {each}" for name in registered for each in release.interfaces(name)},
        {name for name in registered if release.start(name) and "SupportsPP" not in release.interfaces(name)},
        {
            name
            for name, each in made.items()
            if any(one.turns for one in each) and not any(one.by_type for one in each)
        },
        {name for name in registered if release.reads_whole(name)},
    )


@cache
def placed(folder: Path) -> dict[str, Key]:
    """Names that the registry has, and the module and the class they stand for."""
    found = {}
    for file in ("registry", "__init__"):
        path = folder / "model_executor" / "models" / f"{file}.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if path.exists() else ():
            for key, value in zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ():
                pair = [each.value for each in getattr(value, "elts", ()) if isinstance(each, ast.Constant)]
                if isinstance(key, ast.Constant) and isinstance(value, ast.Tuple) and len(pair) == 2:
                    below = str(pair[0]).removeprefix("vllm.")
                    found[str(key.value)] = (
                        below if below != pair[0] else f"model_executor.models.{below}",
                        str(pair[1]),
                    )
    return found


def _functions(node: ast.ClassDef) -> list[Function]:
    return [each for each in node.body if isinstance(each, Function)]


def _attributes(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    for each in node.body:
        target = each.targets[0] if isinstance(each, ast.Assign) else getattr(each, "target", None)
        if isinstance(each, ast.Assign | ast.AnnAssign) and isinstance(target, ast.Name) and each.value is not None:
            yield target.id, each.value


@cache
def _calls(function: Function) -> list[ast.Call]:
    return [each for each in ast.walk(function) if isinstance(each, ast.Call)]


def _module(path: Path, folder: Path) -> Module:
    parts = path.relative_to(folder).with_suffix("").parts
    package = parts[:-1]
    text = path.read_text(encoding="utf-8")
    module = Module(".".join(parts[:-1] if parts[-1] == "__init__" else parts), text)
    for node in _running(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            module.classes.setdefault(node.name, node)
        elif isinstance(node, Function):
            module.functions.setdefault(node.name, node)
        elif isinstance(node, ast.ImportFrom):
            source = _source(node, package)
            for name in node.names:
                module.imported[name.asname or name.name] = (source, name.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    module.groups[target.id] = {each.id for each in ast.walk(node.value) if isinstance(each, ast.Name)}
    return module


def _source(node: ast.ImportFrom, package: tuple[str, ...]) -> str:
    """The module that names are imported from, below the package `vllm`."""
    named = (node.module or "").removeprefix("vllm.")
    if not node.level:
        return named
    above = package[: len(package) - node.level + 1]
    return ".".join((*above, *([node.module] if node.module else [])))


def _running(tree: ast.Module) -> Iterator[ast.stmt]:
    """Statements of a module and of its conditions and attempts, without what only type checkers see."""
    waiting = list(tree.body)
    while waiting:
        node = waiting.pop(0)
        yield node
        if isinstance(node, ast.If):
            waiting += [*([] if "TYPE_CHECKING" in ast.unparse(node.test) else node.body), *node.orelse]
        elif isinstance(node, ast.Try):
            waiting += [*node.body, *(each for handler in node.handlers for each in handler.body)]


def _names(node: ast.expr) -> list[str]:
    """The name of a class, or of those that a call is given."""
    if isinstance(node, ast.Subscript):
        return _names(node.value)
    each = node.args if isinstance(node, ast.Call) else [node]
    return [one.id for one in each if isinstance(one, ast.Name)]


def _calls_inherited(function: Function) -> bool:
    return any(
        isinstance(each, ast.Attribute) and each.attr == function.name and "super()" in ast.unparse(each.value)
        for each in ast.walk(function)
    )


@cache
def _assignments(function: Function) -> list[ast.Assign]:
    return [each for each in ast.walk(function) if isinstance(each, ast.Assign)]


def _keywords(functions: Iterable[Function]) -> frozenset[str]:
    """Names of all arguments that are given by name."""
    return frozenset(given.arg for one in functions for call in _calls(one) for given in call.keywords if given.arg)


@cache
def _used(function: Function) -> list[str]:
    """Names in a function."""
    return sorted(set(_whole_names(function.body)))


def _whole_names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Names in code, but for those in annotations and tests of types, and those whose attribute alone is meant."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name):
            yield node.id
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass", "cast"):
            continue
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            continue
        waiting += [
            child
            for name, value in ast.iter_fields(node)
            if name not in ("annotation", "returns")
            for child in (value if isinstance(value, list) else [value])
            if isinstance(child, ast.AST)
        ]


@cache
def _default_names(function: Function) -> list[tuple[str, str]]:
    """Parameters with a name as their default, and that name."""
    return [(at, default.id) for at, default in _defaults(function) if isinstance(default, ast.Name)]


def _defaults(function: Function) -> Iterator[tuple[str, ast.expr]]:
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    for argument, default in zip(positional[len(positional) - len(given.defaults) :], given.defaults, strict=True):
        yield argument.arg, default
    for argument, keyword_default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        if keyword_default is not None:
            yield argument.arg, keyword_default


def _registered_calls(function: Function) -> Iterator[set[str]]:
    """Names that each call for a registered class gives; none where the config names it."""
    for call in _calls(function):
        if getattr(call.func, "id", getattr(call.func, "attr", "")) == "init_vllm_registered_model":
            yield {
                str(each.value)
                for each_list in ast.walk(call)
                if isinstance(each_list, ast.List)
                for each in each_list.elts
                if isinstance(each, ast.Constant)
            }


def _asked(function: Function) -> set[str]:
    return {name for names in _registered_calls(function) for name in names}


def _origin(value: ast.expr, function: Function, seen: frozenset[str] = frozenset()) -> set[str] | None:
    """Parameters, None by default, that a value is no more than; empty for None itself; None for a value of its own."""
    if isinstance(value, ast.Constant) and value.value is None:
        return set()
    optional = {
        name for name, default in _defaults(function) if function.name == "__init__" and ast.unparse(default) == "None"
    }
    name = ast.unparse(value)
    assigned = [
        each.value for each in _assignments(function) if any(ast.unparse(target) == name for target in each.targets)
    ]
    if name in seen or (not assigned and name not in optional):
        return None
    found: set[str] = {name} & optional
    for each in assigned:
        origin = _origin(each, function, seen | {name}) if isinstance(each, ast.Constant | ast.Name) else None
        if origin is None:
            return None
        found |= origin
    return found


def _refused_activations(function: Function) -> Iterator[tuple[ast.expr, str]]:
    """What a function refuses unless it is a value: the expression, and the value."""
    for node in ast.walk(function):
        if not isinstance(node, ast.If) or not any(isinstance(each, ast.Raise) for each in node.body):
            continue
        test, wanted = node.test, ast.NotEq
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test, wanted = test.operand, ast.Eq
        if not isinstance(test, ast.Compare) or not all(isinstance(op, wanted) for op in test.ops):
            continue
        *asked, value = (test.left, *test.comparators)
        for each in asked:
            if isinstance(value, ast.Constant) and getattr(each, "attr", getattr(each, "id", "")) in ACTIVATION:
                yield each, str(value.value)


def _is_rotation(node: ast.AST) -> bool:
    """Whether an expression is what a config says of rotary positions: an attribute, or one that may not be there."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "getattr":
        return any(isinstance(each, ast.Constant) and each.value == ROTATION for each in node.args)
    return isinstance(node, ast.Attribute) and node.attr == ROTATION


def _by_type(function: Function) -> bool:
    """Whether it looks into what a config says of rotary positions by a word that isn't written there."""
    held = {
        target.id
        for each in _assignments(function)
        if any(map(_is_rotation, ast.walk(each.value)))
        for target in each.targets
        if isinstance(target, ast.Name)
    }
    return any(
        not isinstance(word, ast.Constant)
        and (_is_rotation(place) or (isinstance(place, ast.Name) and place.id in held))
        for node in ast.walk(function)
        for place, word in _looked_up(node)
    )


def _looked_up(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What an expression looks into, and for what."""
    if isinstance(node, ast.Subscript):
        yield node.value, node.slice
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args:
        yield node.func.value, node.args[0]


def _is_whole(assignment: ast.Assign) -> bool:
    """Whether it takes a config as it is handed over."""
    value = assignment.value
    return any(
        isinstance(each, ast.Attribute) and each.attr == "hf_config"
        for each in (value.values if isinstance(value, ast.BoolOp) else [value])
    )


def _skips(function: Function) -> bool:
    """Whether it leaves towers out that have nothing to read."""
    return function.name == "__init__" and SKIPS.search(ast.unparse(function)) is not None


def _informants(node: ast.ClassDef) -> list[str]:
    """Names of the classes that know what a class's prompts may hold."""
    return [
        each.value.id
        for call in node.decorator_list
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith(PROCESSOR)
        for each in call.keywords
        if each.arg == "info" and isinstance(each.value, ast.Name)
    ]


def _keys(function: Function) -> set[str]:
    """Literals that a function has as keys."""
    keys = [each for node in ast.walk(function) if isinstance(node, ast.Dict) for each in node.keys]
    keys += [node.slice for node in ast.walk(function) if isinstance(node, ast.Subscript)]
    return {each.value for each in keys if isinstance(each, ast.Constant) and isinstance(each.value, str)}


def _divides(function: Function) -> bool:
    """Whether it sets the size of a head, whatever is true, to a quotient of numbers."""
    return any(
        isinstance(each, ast.Assign)
        and any(getattr(target, "attr", getattr(target, "id", "")) in HEAD for target in each.targets)
        and isinstance(each.value, ast.BinOp)
        and isinstance(each.value.op, ast.FloorDiv)
        for each in function.body
    )
