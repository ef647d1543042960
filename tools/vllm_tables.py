"""Remakes most of kvplan/engines/vllm/tables: what each release of vLLM accepts.

    python tools/vllm_tables.py FOLDER

FOLDER has one folder per release, named by its version, with the release's `vllm` package in it (unpack a wheel). Only
config*, engine/arg_utils.py, entrypoints/common/cli_args.py, model_executor/models, models and layers/quantization are
read. Nothing is imported: names are taken from the syntax trees. Names of classes, flags and formats are facts; no
other text is kept.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from releases import flags, quantization
from releases.adapters import ending, unadapted_of
from releases.attention import attention
from releases.drafts import itself_of
from releases.registry import by_library_of, classes_of, drafting_of, unpipelined_of
from releases.trees import Version

HERE = Path(__file__).parents[1] / "kvplan" / "engines" / "vllm" / "tables"
HEAD = '''\
"""{about}.

Made by tools/vllm_tables.py from the releases' own files; not written by hand. A value is the first release that has the
name, or `first-last` where a later one lost it, several where it came back. What the oldest has may be older.
"""

from __future__ import annotations

'''

Releases = list[tuple[Version, Path]]
"""Each release with its `vllm` package, oldest first."""
Rows = Mapping[str, object] | set[str]
"""Names with what they stand for, or names alone."""


@dataclass(frozen=True)
class Table:
    """One constant of a module: its name, its docstring, and its content from the releases."""

    name: str
    says: str
    rows: Callable[[Releases], Rows]


@dataclass(frozen=True)
class Module:
    """One file below HERE. about: the first lines of its docstring, including the source."""

    file: str
    about: str
    tables: tuple[Table, ...]


def main(folder: Path) -> None:
    """Write every module."""
    releases = sorted((parsed(path.name), path / "vllm") for path in folder.iterdir() if (path / "vllm").is_dir())
    check_whole(releases)
    write_releases(releases)
    for module in MODULES:
        text = "".join(written(table.name, table.says, table.rows(releases)) for table in module.tables)
        (HERE / module.file).write_text(HEAD.format(about=module.about) + text.rstrip("\n") + "\n", encoding="utf-8")


NEEDED = ("engine/arg_utils.py", "model_executor/models", "model_executor/layers/quantization/__init__.py")
"""Files and folders of every release. If one were missing, the release would seem to have lost its content."""


def check_whole(releases: Releases) -> None:
    """Check that every release has the files that tables are made from.

    Raises: SystemExit, naming what is missing.
    """
    missing = [
        f"{dotted(version)}: {name}" for version, path in releases for name in NEEDED if not (path / name).exists()
    ]
    if missing:
        sys.exit("releases that are only partly unpacked: " + ", ".join(missing))


def write_releases(releases: Releases) -> None:
    """Write the module that lists the releases."""
    known = ", ".join(f'"{dotted(version)}"' for version, _ in releases)
    (HERE / "releases.py").write_text(
        '"""Releases of vLLM whose files the tables beside this one were made from.\n\n'
        'Made by tools/vllm_tables.py; not written by hand.\n"""\n\nfrom __future__ import annotations\n\n'
        f"RELEASES = ({known})  # fmt: skip\n",
        encoding="utf-8",
    )


def parsed(name: str) -> Version:
    """`0.6.4.post1` as a release."""
    major, minor, patch = (int(part) for part in re.findall(r"\d+", name)[:3])
    return major, minor, patch


def dotted(version: Version) -> str:
    """`0.6.4`."""
    return ".".join(map(str, version))


def spans(names: Callable[[Path], set[str]]) -> Callable[[Releases], dict[str, str]]:
    """Each name with the releases that have it."""

    def rows(releases: Releases) -> dict[str, str]:
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
        return {name: " ".join("-".join(map(dotted, span)) for span in each) for name, each in sorted(found.items())}

    return rows


def nested(names: Callable[[Path], set[str]]) -> Callable[[Releases], dict[str, dict[str, str]]]:
    """The same for names in two words: the first word, with all second ones."""

    def rows(releases: Releases) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = {}
        for key, value in spans(names)(releases).items():
            name, _, second = key.rpartition(" ")
            found.setdefault(name, {})[second] = value
        return found

    return rows


def numbered(names: Callable[[Path], set[str]]) -> Callable[[Releases], dict[str, dict[int, str]]]:
    """The same if the second word is a number."""

    def rows(releases: Releases) -> dict[str, dict[int, str]]:
        return {
            name: {int(number): value for number, value in each.items()}
            for name, each in nested(names)(releases).items()
        }

    return rows


def written(name: str, says: str, rows: Rows) -> str:
    """A constant as Python code."""
    if isinstance(rows, set):
        lines = "\n".join(f'    "{key}",' for key in sorted(rows))
        return f'{name} = frozenset((\n{lines}\n))  # fmt: skip\n"""{says}"""\n\n'
    lines = "\n".join(f'    "{key}": {valued(value)},' for key, value in rows.items())
    return f'{name} = {{\n{lines}\n}}\n"""{says}"""\n\n'


def valued(value: object) -> str:
    """A value as Python code, strings in double quotes."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{valued(key)}: {valued(each)}' for key, each in sorted(value.items()))}}}"
    return f'"{value}"' if isinstance(value, str) else repr(value)


def of_attention(kind: str) -> Callable[[Releases], dict[str, str]]:
    """Classes with such attention layers, with the releases in which they have them."""
    return spans(lambda folder: getattr(attention(folder), kind))


def having(interface: str) -> Callable[[Releases], dict[str, str]]:
    """Classes with an interface, with the releases in which they have it."""
    end = f" {interface}"
    return spans(lambda folder: {each.removesuffix(end) for each in attention(folder).interfaces if each.endswith(end)})


MODULES = (
    Module(
        "registered.py",
        "Model classes that vLLM registers, and the releases that do.\n\nSource: model_executor/models/registry.py of each",
        (
            Table("CLASSES", "Class that a config names: releases.", spans(classes_of)),
            Table(
                "DRAFTS",
                "Classes among them that draft for another model, and aren't served alone.",
                lambda releases: {name for _, each in releases for name in drafting_of(each)},
            ),
        ),
    ),
    Module(
        "unadapted.py",
        "Model classes that vLLM registers without room for LoRA adapters, and the releases that do.\n\n"
        "Source: model_executor/models/registry.py and the modules it names, of each",
        (Table("WITHOUT_ADAPTERS", "Class that a config names: releases.", spans(unadapted_of)),),
    ),
    Module(
        "adapted_ends.py",
        "Model classes whose embedding or head vLLM makes room for adapters of, and the releases that do.\n\n"
        "Source: embedding_modules of the classes of model_executor/models, and of those that they build, of each",
        (
            Table("EMBEDDING", "Class whose embedding is adapted: releases.", spans(partial(ending, end="embedding"))),
            Table("HEAD", "Class whose head is adapted: releases.", spans(partial(ending, end="head"))),
            Table(
                "OPEN",
                "Class that builds a language model which a config names, not itself: releases.",
                spans(partial(ending, end="open")),
            ),
        ),
    ),
    Module(
        "attention.py",
        "How the model classes that vLLM registers build their attention layers, and the releases that do so.\n\n"
        "Source: model_executor/models/registry.py and the classes that those it names are made of, of each",
        (
            Table(
                "OWN_WINDOWS",
                "Class that gives some of its layers a window of their own: releases. Other classes leave it to the cache's.",
                of_attention("own_windows"),
            ),
            Table(
                "DIVIDES",
                "Class whose heads are the hidden size over their number, whatever head_dim a config states: releases.",
                of_attention("divides"),
            ),
            Table(
                "UNIFORM",
                "Class that refuses windows on some of its layers alone: releases.",
                of_attention("uniform"),
            ),
            Table(
                "UNSET",
                "Class that takes the cache's window away from layers without one of their own: releases.",
                of_attention("unset"),
            ),
        ),
    ),
    Module(
        "parts.py",
        "How the model classes that vLLM registers read a config with parts, and the releases that do so.\n\n"
        "Source: model_executor/models/registry.py and the classes that those it names are made of, of each",
        (
            Table(
                "ONE_ROTATION",
                "Class that takes what rope_parameters says for all of its layers alike: releases.",
                of_attention("one_rotation"),
            ),
            Table(
                "WHOLE",
                "Class that reads the config as it stands, not the part about text in it: releases.",
                of_attention("whole"),
            ),
            Table(
                "OPENS",
                "Class whose language model is of the class that the config of that part names: releases.",
                of_attention("opens"),
            ),
        ),
    ),
    Module(
        "interfaces.py",
        "What the model classes that vLLM registers are said to be able to do, and the releases that say so.\n\n"
        "Source: model_executor/models/registry.py and the bases of the classes it names, of each",
        (
            Table("HYBRID", "Class with recurrent states beside a cache: releases.", having("IsHybrid")),
            Table("ATTENTION_FREE", "Class without attention: releases.", having("IsAttentionFree")),
            Table(
                "UNPIPELINED",
                "Class that several pipeline stages are refused for: releases.",
                spans(unpipelined_of),
            ),
            Table(
                "BY_LIBRARY",
                "Class that is run by the Transformers library's code: releases. All others by vLLM's own.",
                spans(by_library_of),
            ),
        ),
    ),
    Module(
        "media.py",
        "What the model classes that vLLM registers read beside text, and the releases that do so.\n\n"
        "Source: model_executor/models/registry.py and the classes that those it names are made of, of each",
        (
            Table(
                "MEDIA",
                "Class that has limits for media: each of them: releases.",
                nested(lambda folder: attention(folder).media),
            ),
            Table(
                "SKIPS",
                "Class that builds no towers for media whose limits are zero: releases.",
                of_attention("skips"),
            ),
        ),
    ),
    Module(
        "flags.py",
        "Flags of vLLM's engine and their values, and the releases that take them.\n\n"
        "Source: engine/arg_utils.py, entrypoints/common/cli_args.py, config/cache.py, config/lora.py and layers/quantization/__init__.py of each",
        (
            Table("FLAGS", "Flag without its dashes: releases.", spans(flags.flags_of)),
            Table("NEGATED", "Switch that may be turned off with --no-: releases.", spans(flags.negated_of)),
            Table("SWITCHES", "Flag without a value: releases.", spans(partial(flags.taken_by, takes="switch"))),
            Table(
                "SEVERAL",
                "Flag that takes every word up to the next flag: releases.",
                spans(partial(flags.taken_by, takes="several")),
            ),
            Table(
                "OPTIONAL",
                "Flag that stands alone or before one value: releases.",
                spans(partial(flags.taken_by, takes="optional")),
            ),
            Table("SHORT", "Short name without its dash: the flag.", partial(flags.other_names, dashes="-")),
            Table("ALIASES", "Second long name: the flag.", partial(flags.other_names, dashes="--")),
            Table(
                "SERVER",
                "Flag of the newest release's HTTP server: what it takes. Earlier ones are not read.",
                lambda releases: flags.server_of(releases[-1][1]),
            ),
            Table("CACHE_FORMATS", "Value of --kv-cache-dtype: releases.", spans(flags.formats_of)),
            Table("LORA_RANKS", "Value of --max-lora-rank: releases.", spans(flags.ranks_of)),
            Table("BLOCKS", "Value of --block-size, where a release lists them: releases.", spans(flags.blocks_of)),
            Table("DRAFT_METHODS", "Method of --speculative-config: releases.", spans(flags.methods_of)),
            Table(
                "QUANTIZATIONS",
                "Method that a checkpoint is quantized by: releases.",
                spans(quantization.quantizations_of),
            ),
        ),
    ),
    Module(
        "activations.py",
        "The activations that vLLM's model classes take where they refuse all others, and the releases that do so.\n\n"
        "Source: model_executor/models/registry.py and the classes that those it names are made of, of each",
        (
            Table(
                "ACTIVATIONS",
                "Class: a field of the language model's config, and a value of it that is taken: releases.",
                nested(lambda folder: attention(folder).activations),
            ),
        ),
    ),
    Module(
        "own_drafts.py",
        "Models that vLLM drafts for with prediction layers of their own, and the releases that do.\n\n"
        "Source: hf_config_override of config.py, later config/speculative.py, of each",
        (Table("DRAFTED", "Type, or class, of a whole config: releases.", spans(itself_of)),),
    ),
    Module(
        "capabilities.py",
        "The least compute capability that vLLM's methods of quantization take, as 10 x major + minor, and the releases that say so.\n\n"
        "Source: get_min_capability of the classes of layers/quantization of each",
        (
            Table(
                "METHODS",
                "Method: least compute capability: releases.",
                numbered(quantization.least_of_methods),
            ),
            Table(
                "SCHEMES",
                "Class of a linear layer's scheme: least compute capability: releases.",
                numbered(quantization.least_of_schemes),
            ),
        ),
    ),
)
"""All modules to write, besides the one that lists the releases."""


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.exit("python tools/vllm_tables.py FOLDER, which holds VERSION/vllm of every release that the tables know")
    main(Path(sys.argv[1]))
