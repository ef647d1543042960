"""The text of `--help`: examples first, then arguments and flags, from the same tables that parse them."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.cli.command import MODULES, Command
from kvplan.report.text import WIDTH, wrap

HEAD = "kvplan: what a model's KV cache costs, what fits on these GPUs, how fast it can decode"

SIZES = (
    "Contexts are powers of two: 8k is 8,192 tokens, 128k 131,072, 1m 1,048,576. "
    "Bytes need a unit: GB is 10^9 bytes, GiB 2^30."
)

CODES = "Exit codes: 0 yes, 1 answered no, 2 can't answer (usage, config, model), 3 network or Hub, 130 interrupted."

EXAMPLES = (
    "kvplan size llama-3-70b --ctx 8k,128k",
    "kvplan fit llama-3-70b --gpu h100 --tp 8 --ctx 128k",
    "kvplan fit --gpu h100 --ctx 8k",
    "kvplan compare llama-3-8b deepseek-v3 --ctx 128k",
    "kvplan size ./config.json --json",
)


def overview() -> str:
    """`kvplan --help`."""
    lines = [HEAD, "", *_examples(EXAMPLES), "", "Commands"]
    lines += _table([(name, about) for name, about in MODULES.items()])
    lines += [
        "",
        "Flags",
        *_table([("--version", "the version"), ("-h, --help", "this text; after a command, its own")]),
    ]
    return "\n".join([*lines, "", *_paragraphs(SIZES, MODEL, SETTINGS, CODES)]) + "\n"


MODEL = (
    "MODEL is a bundled name (kvplan models), a Hub id (org/name, org/name@revision), the path of a config.json or of a "
    "folder with one, a kvplan YAML, or - for stdin."
)

SETTINGS = (
    "Every flag can also be given as KVPLAN_NAME in the environment, in ./kvplan.toml, under [tool.kvplan] in "
    "./pyproject.toml, or in ~/.config/kvplan/config.toml; the nearest wins."
)


def page(command: Command) -> str:
    """`kvplan COMMAND --help`."""
    lines = [f"kvplan {command.name}: {command.about}", "", *_examples(command.examples), ""]
    lines += ["Usage", f"  {_usage(command)}", ""]
    if command.arguments:
        lines += ["Arguments", *_table([(a.name, a.help) for a in command.arguments]), ""]
    lines += ["Flags", *_table(list(_flags(command))), ""]
    more = [command.more] if command.more else []
    return "\n".join([*lines, *_paragraphs(*more, SIZES, CODES)]) + "\n"


def _examples(examples: tuple[str, ...]) -> list[str]:
    return ["Examples", *(f"  {line}" for line in examples)]


def _usage(command: Command) -> str:
    words = [f"kvplan {command.name}"]
    for argument in command.arguments:
        name = argument.name + ("..." if argument.most is None else "")
        words.append(name if argument.least else f"[{name}]")
    return " ".join([*words, "[flags]"])


def _flags(command: Command) -> Iterator[tuple[str, str]]:
    for option in command.options:
        short = f"-{option.short}, " if option.short else ""
        value = f" {option.metavar}" if option.metavar else ""
        default = f" (default: {option.default})" if option.default else ""
        yield f"{short}{option.flag}{value}", option.help + default


def _table(rows: list[tuple[str, str]]) -> list[str]:
    left = min(max(len(name) for name, _ in rows), 34)
    lines: list[str] = []
    for name, text in rows:
        first, *rest = wrap(text, WIDTH - left - 4)
        if len(name) > left:
            lines.append(f"  {name}")
            lines.append(" " * (left + 4) + first)
        else:
            lines.append(f"  {name.ljust(left)}  {first}")
        lines += [" " * (left + 4) + line for line in rest]
    return lines


def _paragraphs(*texts: str) -> list[str]:
    lines: list[str] = []
    for text in texts:
        lines += [*wrap(text, WIDTH), ""]
    return lines[:-1]
