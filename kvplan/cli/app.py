"""The click application, built from tables: each option is a row, and each command a small file.

The nearest setting wins: flag, KVPLAN_NAME, ./kvplan.toml or [tool.kvplan] in ./pyproject.toml, the user's file.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvplan import __version__
from kvplan.cli import options as o
from kvplan.cli.command import MODULES, load
from kvplan.cli.option import Argument, Option, Values
from kvplan.cli.origin import PLACES, elsewhere, place
from kvplan.errors import KvplanError, UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from kvplan.cli.command import Answer, Command
    from kvplan.report.schema.common import Setting

NAME = "kvplan"
COMPLETE = "_KVPLAN_COMPLETE"
"""The variable that a shell's completion script sets."""

HEAD = "What a model's KV cache costs, what fits on these GPUs, how fast it can decode."

SIZES = (
    "Contexts are powers of two: 8k is 8,192 tokens, 128k 131,072, 1m 1,048,576. "
    "Bytes need a unit: GB is 10^9 bytes, GiB 2^30."
)

CODES = "Exit codes: 0 yes, 1 answered no, 2 can't answer (usage, config, model), 3 network or Hub, 130 interrupted."

MODEL = (
    "MODEL is a bundled name (kvplan models), a Hub id or address (org/name, org/name@revision), the path of a config.json, "
    "of Mistral's params.json, of a kvplan YAML or of a folder with one of them, or - for the description itself on stdin."
)

SETTINGS = (
    "Every flag can also be given as KVPLAN_NAME in the environment, in ./kvplan.toml, under [tool.kvplan] in "
    "./pyproject.toml, or in ~/.config/kvplan/config.toml; the nearest wins."
)

EXAMPLES = (
    "kvplan size llama-3.1-70b --ctx 8k,128k",
    "kvplan fit llama-3.1-70b --gpu h100 --tp 8 --ctx 128k",
    "kvplan fit --gpu h100 --ctx 8k",
    "kvplan compare llama-3-8b deepseek-v3 --ctx 128k",
    "kvplan size ./config.json --json",
)

CONTEXT: dict[str, Any] = {
    "help_option_names": ["-h", "--help"],
    "max_content_width": 100,
    "auto_envvar_prefix": "KVPLAN",
}


class WithExamples(click.Command):
    """A command whose help shows examples first."""

    examples: tuple[str, ...] = ()

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Its purpose, and examples."""
        super().format_help_text(ctx, formatter)
        with formatter.section("Examples"):
            formatter.write("".join(f"  {line}\n" for line in self.examples))


class Commands(WithExamples, click.Group):
    """The commands by name. A command's module is imported when it is used."""

    examples = EXAMPLES

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the table."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command asked for, loaded."""
        name, known, rest = super().resolve_command(ctx, args)
        return name, None if name is None or known is None else Runnable(load(name)), rest


class Runnable(WithExamples):
    """One command: parse, call, draw."""

    def __init__(self, command: Command):
        super().__init__(
            command.name,
            CONTEXT,
            params=[
                *map(argument, command.arguments),
                *(option(row) for row in command.options if row.name != o.HELP.name),
            ],
            help=f"{command.about[0].upper()}{command.about[1:]}.",
            epilog="\n\n".join(filter(None, (command.more, SIZES, CODES))),
        )
        self.command, self.examples = command, command.examples

    def invoke(self, ctx: click.Context) -> int:
        """Run it, print the answer, and return the exit code."""
        from kvplan.cli.streams import deliver

        _note_unknown_variables(self.command)
        values, given = Values(ctx), elsewhere(self.command.options, ctx)
        try:
            answer = self.command.run(values)
        except KvplanError:
            _note_settings(given)
            raise
        deliver(_with_settings(answer, given), values)
        return answer.exit_code


def _with_settings(answer: Answer, given: tuple[Setting, ...]) -> Answer:
    """The answer with settings from outside the command line; on stderr if the document has no key for them."""
    if not given:
        return answer
    from kvplan.report.schema import CompareReport, FitReport, FitTable, SizeReport

    if not isinstance(answer.document, SizeReport | FitReport | FitTable | CompareReport):
        _note_settings(given)
        return answer
    return answer._replace(document=replace(answer.document, settings=given))


def _note_settings(given: tuple[Setting, ...]) -> None:
    if given:
        from kvplan.cli.streams import note
        from kvplan.report.views.words import settings_text

        note(settings_text(given))


def _note_unknown_variables(command: Command) -> None:
    """Print KVPLAN_ variables that nothing reads. They are no error, because other programs may set them."""
    known = {row.variable for row in command.options if row.settable}
    if all(name in known for name in os.environ if name.startswith("KVPLAN_")):
        return
    from kvplan.cli import settings
    from kvplan.cli.streams import note

    for name, meant in settings.unknown_variables(os.environ):
        note(f"{name} is no setting and is ignored; {meant}")


class Read(click.ParamType[Any]):
    """The type of a value that its row parses."""

    def __init__(self, row: Option[Any] | Argument):
        self.row = row
        self.name = row.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The parsed value of a text, or of a value in a TOML file.

        Raises: what the row's parser raises, naming the place.
        """
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        if isinstance(self.row, Argument):
            return text
        try:
            return self.row.parse(text)
        except KvplanError as error:
            raise error.about(place(self.row, ctx)) from None

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Completions of the value."""
        from kvplan.cli.completion import candidates

        choices = self.row.choices if isinstance(self.row, Option) else ()
        return candidates(self.row.completes, incomplete, choices)


class Switch(click.types.BoolParamType):
    """The type of a switch in the environment and in files."""

    def __init__(self, row: Option[Any]):
        self.row = row

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bool:
        """Whether it is on.

        Raises: UsageError, naming the place.
        """
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            wrong = UsageError(
                f"{value!r} is neither on nor off", hint="write 1 or 0; in a settings file, true or false"
            )
            raise wrong.about(place(self.row, ctx)) from None


def option(row: Option[Any]) -> click.Option:
    """A row as click's option."""
    flags = [row.flag, *(["-" + row.short] if row.short else [])]
    switch = row.metavar is None
    return click.Option(
        [row.name, *flags],
        help=f"{row.help} (default: {row.default})" if row.default else row.help,
        metavar=row.metavar,
        is_flag=True if switch else None,
        type=Switch(row) if switch else Read(row),
        multiple=row.repeats,
        allow_from_autoenv=row.settable,
        is_eager=row.name in FROM_FILES,
        callback=FROM_FILES.get(row.name),
    )


def argument(row: Argument) -> click.Argument:
    """A row as click's argument."""
    return click.Argument(
        [row.name], help=row.help, nargs=1 if row.most == 1 else -1, required=row.least > 0, type=Read(row)
    )


def _from_files(ctx: click.Context, _param: click.Parameter, config: str | None) -> str | None:
    """Read the settings files, as soon as it is known which."""
    if not ctx.resilient_parsing and not ctx.params.get(o.NO_CONFIG.name):
        from kvplan.cli import settings

        command = ctx.command
        assert isinstance(command, Runnable)  # noqa: S101 - only these have the option
        try:
            found = settings.read(command.command, None if config is None else Path(config))
        except KvplanError:
            if not command.command.reports_settings:
                raise
            found = {}
        ctx.default_map = {name: value for name, (value, _) in found.items()}
        ctx.meta[PLACES] = {name: file for name, (_, file) in found.items()}
    return config


def _no_files(ctx: click.Context, _param: click.Parameter, on: bool) -> bool:  # noqa: FBT001 - click calls it
    if on:
        ctx.default_map = {}
    return on


FROM_FILES = {o.CONFIG.name: _from_files, o.NO_CONFIG.name: _no_files}
"""Flags that decide which files are read. click calls these before it looks at other flags."""


def build() -> click.Group:
    """The whole command line."""
    commands = Commands(
        NAME,
        commands={name: click.Command(name, short_help=about) for name, about in MODULES.items()},
        context_settings=CONTEXT,
        no_args_is_help=False,
        help=HEAD,
        epilog="\n\n".join((SIZES, MODEL, SETTINGS, CODES)),
    )
    return click.version_option(__version__, message="%(prog)s %(version)s")(commands)
