"""Names of `vllm serve` flags: what is needed to read a command line of a release without vLLM."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from kvplan.engines.vllm.tables.flags import ALIASES, FLAGS, OPTIONAL, SERVER, SEVERAL, SHORT, SWITCHES
from kvplan.engines.vllm.tables.releases import RELEASES
from kvplan.engines.vllm.tables.spans import first, holds, last
from kvplan.engines.vllm.tables.versions import NEWEST, Version, text

__all__ = [
    "ALIASES", "EARLIER", "KNOWN", "NEVER_NONE", "SHORT", "dashed", "has", "having", "lacks", "newest", "of_release", "read",
    "refuses", "short", "switched", "takes", "takes_nothing", "varies",
]  # fmt: skip

EARLIER: Mapping[str, str] = {
    "block-manager-cls": "value", "disable-frontend-multiprocessing": "switch", "full-cuda-graph": "switch",
    "image-feature-size": "value", "image-input-type": "value", "image-token-id": "value", "prompt-adapters": "several",
    "expand-tools-even-if-tool-choice-none": "switch",
}  # fmt: skip
"""Flags that were documented of a server that isn't read (those before the newest), or of releases before the first that is."""

KNOWN = frozenset({*FLAGS, *SERVER, *EARLIER})
"""Flags of any release."""


def takes(name: str, release: Version | None) -> str:
    """What follows a flag: nothing (`switch`), one `value`, `several`, or an `optional` one.

    release: None for the newest. A flag that it lacks is read as the release does that is nearest.
    """
    if name not in FLAGS:
        return SERVER.get(name) or EARLIER.get(name, "value")
    asked = release or NEWEST
    if not holds(FLAGS[name], asked):
        end = last(FLAGS[name])
        asked = end if end is not None and end < asked else first(FLAGS[name])
    kinds = {"switch": SWITCHES, "several": SEVERAL, "optional": OPTIONAL}
    return next((kind for kind, table in kinds.items() if holds(table.get(name, ""), asked)), "value")


def short(name: str, release: Version | None) -> str:
    """The flag that a short name stands for, without dashes. -O was the compilation's level before it was a flag's own."""
    levelled = name == "O" and holds(FLAGS["optimization-level"], release or NEWEST)
    return "optimization-level" if levelled else SHORT.get(name, f"-{name}")


def switched(name: str) -> tuple[str, bool]:
    """The switch that `no-NAME` turns off, or the flag itself; and whether it is on."""
    off = name.startswith("no-") and name[3:] in KNOWN
    return (name[3:], False) if off else (name, True)


def dashed(name: str) -> str:
    """A flag as it is written; a short name that no flag has brings its dash."""
    return name if name.startswith("-") else f"--{name}"


NEVER_NONE = frozenset({
    "max-model-len", "tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size", "decode-context-parallel-size",
    "gpu-memory-utilization", "block-size", "max-num-batched-tokens", "max-num-seqs", "max-loras", "max-lora-rank", "dtype",
    "kv-cache-dtype",
})  # fmt: skip
"""Flags of which every release refuses the word None: asked of vLLM 0.33's parser, and by the types of earlier ones."""


def varies(name: str) -> bool:
    """Whether releases differ in what follows a flag on a command line."""
    return name in OPTIONAL or any(table.get(name) not in {None, FLAGS.get(name)} for table in (SWITCHES, SEVERAL))


def takes_nothing(name: str, release: Version) -> bool:
    """Whether a release refuses `--name=value`, as the flag is a switch there."""
    return has(name) and takes(name, release) == "switch"


@cache
def of_release(release: Version | None) -> frozenset[str]:
    """Flags that a release has; of earlier ones' servers, which aren't read, what the newest has."""
    asked = release or NEWEST
    return frozenset({*SERVER, *(name for name, spans in FLAGS.items() if holds(spans, asked))})


def has(name: str) -> bool:
    """Whether some release has a flag."""
    return name in KNOWN


def newest(release: Version) -> bool:
    """Whether a release is the newest that was read, or a patch of it."""
    return release[:2] == NEWEST[:2]


def lacks(release: Version, name: str) -> bool:
    """Whether a release that was read certainly hasn't a flag that another one has."""
    if name not in FLAGS:
        return name in EARLIER and newest(release)
    return read(release) and not holds(FLAGS[name], release)


def read(release: Version) -> bool:
    """Whether a release's flags were read, or those of one that it is a patch of."""
    return text(release) in RELEASES or newest(release)


def refuses(release: Version, name: str, value: str) -> bool:
    """Whether a release that was read doesn't take a value that another one does."""
    from kvplan.engines.vllm.tables.choices import ever_taken, taken

    word = value.lower()
    return text(release) in RELEASES and word != "none" and ever_taken(name, word) and not taken(name, word, release)


def having(release: Version, name: str) -> str:
    """Which release has a flag that this one lacks, as the end of a sentence."""
    spans = FLAGS.get(name)
    if spans is None:
        return ""
    end = last(spans)
    return (
        f", which {text(end)} had last"
        if end is not None and end < release
        else f", which came with {text(first(spans))}"
    )
