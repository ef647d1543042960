"""What each vLLM version does differently, as data: one row a change, with the version it starts at and who says so."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from kvplan.errors import UnknownName

Version = tuple[int, int, int]

NEWEST: Version = (0, 33, 0)
OLDEST: Version = (0, 6, 0)


@dataclass(frozen=True, slots=True)
class Batches:
    """Default limits of one step: tokens and sequences."""

    tokens: int
    sequences: int


TokenLine = Literal["blocks", "smallest_group", "concurrency"]


@dataclass(frozen=True, slots=True)
class Rules:
    """What one version does; the defaults are those of vLLM 0.6.

    utilization: gpu_memory_utilization. groups: whether windows and states have block tables of their own, instead of
    blocks for every token. token_line: what "GPU KV cache size" counts. async_batches: whether two steps may be in
    flight. window_in_flight: whether windows are charged what is in flight. null_block: whether one block is withheld
    when the longest request is checked. checkpoint: pages of state that a prefill may export. graphs_counted: whether
    CUDA graphs are taken off the cache's memory. batches: defaults for GPUs from 160 GiB, from 70 GiB, and others.
    """

    version: Version = OLDEST
    utilization: float = 0.9
    groups: bool = False
    token_line: TokenLine = "blocks"  # noqa: S105 - a line of the log
    async_batches: bool = False
    null_block: bool = False
    checkpoint: bool = False
    pipelined: bool = False
    hybrid_prefix_caching: bool = False
    pooling_by_mean: bool = False
    graphs_counted: bool = False
    batches: tuple[Batches, Batches, Batches] = (Batches(2048, 256), Batches(2048, 256), Batches(2048, 256))

    def batches_in_flight(self, pp: int, overlapped: bool) -> int:  # noqa: FBT001 - a flag's value
        """Steps that may be scheduled before the oldest has settled."""
        if not self.pipelined:
            return 1
        return pp + 1 if overlapped else pp


@dataclass(frozen=True, slots=True)
class Change:
    """From `since` on, `values` hold. sure: whether the release is known, not only a version seen on each side."""

    since: Version
    values: tuple[tuple[str, object], ...]
    source: str
    sure: bool = True


CHANGES: tuple[Change, ...] = (
    Change((0, 33, 0), (
        ("groups", True), ("token_line", "concurrency"), ("async_batches", True), ("null_block", True),
        ("checkpoint", True), ("pipelined", True), ("hybrid_prefix_caching", True), ("graphs_counted", True),
        ("utilization", 0.92), ("batches", (Batches(16384, 1024), Batches(8192, 1024), Batches(2048, 256))),
    ), "vLLM 0.33.0 sources"),
)  # fmt: skip


def parse(name: str) -> Version:
    """`0.19.0` or `0.19` as numbers.

    Raises: UnknownName.
    """
    parts = name.removeprefix("v").split(".")
    if not 2 <= len(parts) <= 3 or not all(part.isdigit() for part in parts):  # noqa: PLR2004 - major.minor[.patch]
        raise UnknownName(f"{name!r} is not a vLLM version", hint="write it like vllm@0.33.0")
    major, minor, patch = (*map(int, parts), 0)[:3]
    return major, minor, patch


def text(version: Version) -> str:
    """`0.19.0`."""
    return ".".join(map(str, version))


def rules(version: Version = NEWEST) -> Rules:
    """The rules of a version: every change up to it, in order."""
    found = Rules(version=version)
    for change in sorted(CHANGES, key=lambda entry: entry.since):
        if change.since <= version:
            found = replace(found, **dict(change.values))  # type: ignore[arg-type] # the table's values are of the fields' types
    return found
