"""From the words of a command line, the environment and files to Values.

Written against the table of options rather than with a library: no abbreviations, did-you-mean for everything, one
precedence for flags, environment and files, and nothing to import.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kvplan.cli.command import Command
from kvplan.cli.option import Given, Option, Values, nearest
from kvplan.errors import UsageError


def parse(command: Command, words: Sequence[str]) -> Values:
    """Flags and arguments as they stand on the command line.

    Raises: UsageError.
    """
    flags = _flags(command)
    given: dict[str, tuple[Given, ...]] = {}
    arguments: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            arguments += rest
        elif word.startswith("-") and word != "-":
            option, text = _flag(word, flags, rest, command)
            before = given.get(option.name, ()) if option.repeats else ()
            given[option.name] = (*before, Given(text, option.flag))
        else:
            arguments.append(word)
    if "help" not in given:
        _check_count(command, arguments)
    return Values(tuple(arguments), given)


def with_settings(command: Command, values: Values, *layers: Mapping[str, Given]) -> Values:
    """The values, and under them what the environment and files say, nearest first."""
    merged = dict(values.given)
    for option in command.options:
        for layer in layers:
            if option.settable and option.name in layer and option.name not in merged:
                merged[option.name] = (layer[option.name],)
    return Values(values.arguments, merged)


def environment(command: Command, variables: Mapping[str, str]) -> dict[str, Given]:
    """What KVPLAN_* variables give."""
    return {
        option.name: Given(variables[option.variable], option.variable)
        for option in command.options
        if option.settable and variables.get(option.variable)
    }


def _flags(command: Command) -> dict[str, Option[Any]]:
    flags = {option.flag: option for option in command.options}
    return flags | {"-" + option.short: option for option in command.options if option.short}


def _flag(
    word: str, flags: Mapping[str, Option[Any]], rest: Iterator[str], command: Command
) -> tuple[Option[Any], str]:
    """The option that a word names, and its value: after `=`, glued to a short flag, or the next word."""
    name, equals, text = word.partition("=")
    if not name.startswith("--") and name[:2] in flags and len(word) > 2:
        name, equals, text = word[:2], "=", word[2:].removeprefix("=")
    if name not in flags:
        raise _unknown_flag(name, flags, command)
    option = flags[name]
    if option.metavar is None:
        if equals:
            raise UsageError(f"{name} takes no value", hint=f"write {name} alone")
        return option, "1"
    if equals:
        return option, text
    following = next(rest, None)
    if following is None or (following.startswith("--") and following.partition("=")[0] in flags):
        raise UsageError(f"{name} needs a value", hint=f"write it like {name} {option.metavar}")
    return option, following


def _unknown_flag(name: str, flags: Mapping[str, Option[Any]], command: Command) -> UsageError:
    close = nearest(name, [flag for flag in flags if flag.startswith("--")])
    hint = f"did you mean {close}?" if close else f"kvplan {command.name} --help lists its flags"
    return UsageError(f"kvplan {command.name} has no flag {name}", hint=hint)


def _check_count(command: Command, arguments: Sequence[str]) -> None:
    least = sum(argument.least for argument in command.arguments)
    most = None if any(a.most is None for a in command.arguments) else sum(a.most or 0 for a in command.arguments)
    example = f"kvplan {command.name} --help" if not command.examples else command.examples[0]
    if len(arguments) < least:
        missing = next(a for at, a in enumerate(command.arguments) if at >= len(arguments) or a.least)
        raise UsageError(f"kvplan {command.name} needs {missing.name}", cause=missing.help, hint=example)
    if most is not None and len(arguments) > most:
        raise UsageError(f"kvplan {command.name} doesn't know what to do with {arguments[most]!r}", hint=example)
