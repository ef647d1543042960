"""docs/commands.md, made from the tables behind `--help`. tools/remake.py writes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path

from click.exceptions import Exit

from kvplan.cli.app import CODES, MODEL, NAME, SIZES, build
from kvplan.cli.command import MODULES

PATH = Path(__file__).resolve().parents[2] / "docs" / "commands.md"

SETTINGS = """\
A flag can be set in five places. The first of these that sets it wins:

1. on the command line: `--kv-dtype fp8`
2. in the environment: `KVPLAN_KV_DTYPE=fp8`
3. in `./kvplan.toml`, or else under `[tool.kvplan]` in `./pyproject.toml`
4. in `$XDG_CONFIG_HOME/kvplan/config.toml` (`~/.config/kvplan/config.toml`)
5. kvplan's own default

```toml
gpu = "h100"        # for every command that takes it
tp = 8

[fit]               # for one command
engine = "vllm"
```

kvplan prints the settings that didn't come from the command line with the answer (JSON: `settings`), and before an error. A
misspelt setting in a file is an error. A `KVPLAN_` variable that is no setting is ignored with a note, because another program
may have set it. `--config FILE` reads only that file, and `--no-config` reads none. `kvplan env` shows what is set and where.
Switches are `1` or `0`. `-o` and `--config` can only be given as flags.
"""

OUTPUT = """\
The answer is on stdout, and everything else on stderr. After a failure stdout is empty. `--json` prints exactly one document,
also when the answer is no. `--format` takes several formats. `-o FILE` writes the format of its ending, which is then not
printed on stdout:

```sh
kvplan fit llama-3-70b --gpu h100x8 --format table,json -o plan.json
```

Files are written whole or not at all. JSON is the stable interface: within a schema number keys are added, and never renamed or
removed. Bytes and counts are integers, times are seconds, and unknown values are null. `kvplan schema NAME` prints the JSON
Schema. Colour follows `--color`, `NO_COLOR`, `FORCE_COLOR`, `TERM=dumb` and whether the stream is a terminal.
"""

COMPLETION = """\
```sh
eval "$(kvplan completion bash)"      # ~/.bashrc
eval "$(kvplan completion zsh)"       # ~/.zshrc, after compinit
kvplan completion fish > ~/.config/fish/completions/kvplan.fish
```
"""


def text() -> str:
    """The whole page."""
    return "\n".join(_parts())


def page(*words: str) -> str:
    """What `kvplan WORDS --help` prints, 100 columns wide."""
    commands = build()
    with redirect_stdout(StringIO()) as printed, suppress(Exit):
        commands.invoke(commands.make_context(NAME, [*words, "--help"], terminal_width=100))
    return printed.getvalue()


def _parts() -> Iterator[str]:
    yield "# Commands\n"
    yield "Made by `python -m kvplan.cli.manual` from what `--help` prints.\n"
    yield f"{MODEL}\n\n{SIZES}\n\n{CODES}\n"
    yield f"## Output\n\n{OUTPUT}"
    yield f"## Settings\n\n{SETTINGS}"
    yield f"## Completion\n\n{COMPLETION}"
    yield f"## kvplan\n\n```text\n{page()}```\n"
    for name in MODULES:
        yield f"## kvplan {name}\n\n```text\n{page(name)}```\n"
