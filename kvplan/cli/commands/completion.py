"""The command `kvplan completion`."""

from __future__ import annotations

from kvplan.cli import options as o
from kvplan.cli.command import MODULES, Answer, Command
from kvplan.cli.completion import script
from kvplan.cli.option import Argument, Values


def run(values: Values) -> Answer:
    """Print the script for one shell."""
    return Answer(text=script(values.arguments[0]))


COMMAND = Command(
    name="completion",
    about=MODULES["completion"],
    run=run,
    examples=(
        'eval "$(kvplan completion bash)"        # in ~/.bashrc',
        'eval "$(kvplan completion zsh)"         # in ~/.zshrc, after compinit',
        "kvplan completion fish > ~/.config/fish/completions/kvplan.fish",
    ),
    arguments=(Argument("SHELL", "bash, zsh or fish", least=1, completes="shells"),),
    options=(o.DEBUG, o.HELP),
)
