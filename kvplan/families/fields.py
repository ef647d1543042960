"""Reading a config without guessing: null is absent, every miss names the path tried, every default is written down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from kvplan.arch.model import Default
from kvplan.errors import BadField, MissingField
from kvplan.families import typed
from kvplan.families.defaults import ClassDefaults
from kvplan.text import any_of


def class_names(node: Mapping[str, Any]) -> tuple[str, ...]:
    """The model's classes that an object of a config names."""
    names = node.get("architectures")
    return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list | tuple) else ()


@dataclass(slots=True)
class Ledger:
    """What reading a config left behind: the defaults used and the names looked at."""

    defaulted: dict[str, Default] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    read: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Fields:
    """One object of a config.

    node: its keys. path: where it stands, for messages ("" at the top, "text_config."). parents: enclosing objects,
    nearest first. defaults: of its model type's class.
    """

    node: Mapping[str, Any]
    path: str
    defaults: ClassDefaults
    ledger: Ledger
    parents: tuple[Mapping[str, Any], ...] = ()

    @property
    def model_type(self) -> str:
        """The model type, "" when the config has none."""
        return self.defaults.model_type

    def find(self, *names: str) -> tuple[str, Any] | None:
        """The first of `names` that is there and not null, with its value. A dot descends: `attn_config.kv_n_heads`.

        The class's own spellings of those names count too.
        """
        spelled, read = self.defaults.spellings, self.ledger.read
        for name in names:
            for alias in (name, spelled[name]) if name in spelled else (name,):
                read.add(alias)
                value = self._at(alias)
                if value is not None:
                    return alias, value
        return None

    def _at(self, name: str) -> Any:
        """The value of a key, or along a dotted path; None when there is none."""
        value = self.node.get(name)
        if value is not None or "." not in name:
            return value
        first, _, rest = name.partition(".")
        self.ledger.read.add(first)
        value = self.node.get(first)
        for step in rest.split("."):
            value = value.get(step) if isinstance(value, dict) else None
        return value

    def has(self, *names: str) -> bool:
        """Whether any of `names` is there and not null."""
        return self.find(*names) is not None

    def stated_null(self, name: str) -> bool:
        """Whether the config says null on purpose, which switches some class defaults off."""
        self.ledger.read.add(name)
        return name in self.node and self.node[name] is None

    def whole(self, *names: str, least: int = 1) -> int | None:
        """A whole number of at least `least`; None when none of `names` is there.

        Raises: BadField.
        """
        found = self.find(*names)
        return None if found is None else self.as_whole(*found, least=least)

    def of_class(self, standard: str, *others: str) -> int | None:
        """A positive whole number under its standard name, or under one of the others that the type's class reads.

        Raises: BadField.
        """
        return self.whole(standard, *filter(self.defaults.reads, others))

    def core(self, standard: str, *others: str) -> int | None:
        """Layers, heads or width: as of_class, else from the class itself.

        Raises: BadField; MissingField if only a spelling stands at the top that the type's class doesn't read.
        """
        found, unread = self.of_class(standard, *others), self.unread(*others)
        if found is None and (self.parents or unread is None):
            found = self.whole_or_default(standard, *filter(self.defaults.reads, others))
        if found is not None:
            self.ignored(standard, *others, used=found)
            return found
        if unread is not None:
            raise MissingField(
                self.path + standard,
                cause=f"{unread} stands there, which the class of {self.model_type} doesn't read: it would build its own default",
            )
        return None

    def unread(self, *names: str) -> str | None:
        """The first of `names` that is there and that the type's class doesn't read."""
        return next((name for name in names if not self.defaults.reads(name) and self.has(name)), None)

    def ignored(self, standard: str, *others: str, used: int) -> None:
        """Note the spellings that the type's class doesn't read, where they say something else than what is used."""
        for name in others:
            found = None if self.defaults.reads(name) else self.find(name)
            if found is not None and found[1] != used:
                self.note(
                    f"{self.path}{name} = {found[1]} is ignored: the class of {self.model_type} doesn't read it, "
                    f"and its {standard} is {used}."
                )

    def as_whole(self, name: str, value: object, *, least: int = 1) -> int:
        """A value as a whole number.

        A whole number with a decimal point is one where no class is known, which would refuse it.
        Source: transformers 5.23, whose configuration classes are strict about int.

        Raises: BadField for text, booleans, fractions, NaN, and what is below `least` or absurdly large.
        """
        found = typed.whole(self.path + name, value, least=least)
        if isinstance(value, float) and self.defaults.own_name(name) in self.defaults.values:
            raise BadField(
                self.path + name, value, "a positive whole number" if least == 1 else f"a whole number of at least {least}",
                cause=f"the class of {self.model_type} takes no decimal point for it, so that engines don't start",
                hint=f"write {found}",
            )  # fmt: skip
        return found

    def need(self, *names: str) -> int:
        """A positive whole number that must be there, or that the class documents a default for.

        Raises: MissingField, BadField.
        """
        value = self.whole_or_default(*names)
        if value is None:
            raise MissingField(any_of(self.path + name for name in names[:4]))
        return value

    def whole_or_default(self, *names: str) -> int | None:
        """A positive whole number from the config, else from the class; None when neither says."""
        stated = self.whole(*names)
        if stated is not None:
            return stated
        for name in names:
            value = self.default(name)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
        return None

    def default(self, name: str) -> object:
        """The class default of `name`, written into the ledger when there is one."""
        value = self.defaults.value(name)
        if value is not None:
            self.note_default(name, value)
        return value

    def note_default(self, name: str, value: object, source: str | None = None) -> None:
        """Write down that `value` was used for a field the config leaves out."""
        self.ledger.defaulted.setdefault(name, Default(self.path + name, value, source or self.defaults.source))

    def ratio(self, *names: str) -> Fraction | None:
        """A positive number, exactly; None when none of `names` is there.

        Raises: BadField.
        """
        found = self.find(*names)
        if found is None:
            return None
        return Fraction(typed.positive(self.path + found[0], found[1]))

    def flag(self, *names: str) -> bool | None:
        """A switch from the config, else from the class; None when neither says.

        Raises: BadField for anything but true, false, 0 and 1.
        """
        stated = self.stated_flag(*names)
        if stated is not None:
            return stated
        for name in names:
            value = self.defaults.value(name)
            if isinstance(value, bool):
                self.note_default(name, value)
                return value
        return None

    def stated_flag(self, *names: str) -> bool | None:
        """A switch from the config alone; None when it doesn't say.

        Raises: BadField for anything but true, false, 0 and 1.
        """
        found = self.find(*names)
        return None if found is None else typed.switch(self.path + found[0], found[1])

    def text(self, *names: str) -> str | None:
        """A string; None when none of `names` is there.

        Raises: BadField.
        """
        found = self.find(*names)
        return None if found is None else typed.text(self.path + found[0], found[1])

    def items(self, *names: str) -> tuple[Any, ...] | None:
        """A list; None when none of `names` is there.

        Raises: BadField.
        """
        found = self.find(*names)
        return None if found is None else typed.items(self.path + found[0], found[1])

    def wholes(self, *names: str, least: int = 0) -> tuple[int, ...] | None:
        """A list of whole numbers; None when none of `names` is there.

        Raises: BadField.
        """
        found = self.find(*names)
        values = self.items(*names)
        if found is None or values is None:
            return None
        return tuple(self.as_whole(f"{found[0]}[{index}]", value, least=least) for index, value in enumerate(values))

    def child(self, name: str) -> Fields | None:
        """A nested object; None when it isn't there.

        Raises: BadField if it is something else.
        """
        found = self.find(name)
        if found is None:
            return None
        inner = typed.table(self.path + name, found[1])
        return Fields(inner, f"{self.path}{name}.", self.defaults, self.ledger, (self.node, *self.parents))

    def of_layer(self, layer: int) -> Fields:
        """The same object with what per_layer_config says of one layer laid over it.

        Source: transformers 5.23 configuration_utils.py, heterogeneous configs.
        """
        overrides = self.node.get("per_layer_config")
        if not isinstance(overrides, Mapping):
            return self
        self.ledger.read.add("per_layer_config")
        own = next((value for key, value in overrides.items() if str(key).isdigit() and int(key) == layer), None)
        return self if not isinstance(own, Mapping) else replace(self, node={**self.node, **own})

    def around(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """This object and those around it, nearest first, each with its path."""
        steps = self.path.split(".")[:-1]
        for depth, node in enumerate((self.node, *self.parents)):
            yield "".join(f"{step}." for step in steps[: len(steps) - depth]), node

    def shared(self, *names: str) -> tuple[str, Any] | None:
        """As find, looking outwards through the enclosing objects too (dtype, quantization_config)."""
        found = self.find(*names)
        outer = ((name, parent[name]) for parent in self.parents for name in names if parent.get(name) is not None)
        return found if found is not None else next(outer, None)

    def shared_table(self, *names: str) -> tuple[str, Mapping[str, Any]] | None:
        """As shared, of a nested object, with its path.

        Raises: BadField if it is something else.
        """
        self.find(*names)
        stated = ((f"{path}{name}", node.get(name)) for path, node in self.around() for name in names)
        return next(((path, typed.table(path, value)) for path, value in stated if value is not None), None)

    def note(self, text: str) -> None:
        """Something the reader of the answer should know."""
        if text not in self.ledger.notes:
            self.ledger.notes.append(text)
