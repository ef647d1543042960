"""The processes of a run, by the environment that torchrun gives each of them. Needs no torch."""

from __future__ import annotations

import os

from kvplan.errors import UsageError

_START = "torchrun --nproc-per-node N -m kvplan verify MODEL --tp N starts N ranks; unset WORLD_SIZE to run one process"


def world_size() -> int:
    """Number of processes that torchrun started; 1 without it.

    Raises: UsageError for an environment that isn't torchrun's.
    """
    return _number("WORLD_SIZE", 1)


def rank() -> int:
    """The number of this process; 0 for a single one, even if something else has set RANK.

    Raises: UsageError.
    """
    return _place("RANK", world_size())


def local_size() -> int:
    """Number of processes on this machine.

    Raises: UsageError.
    """
    return min(world_size(), _number("LOCAL_WORLD_SIZE", world_size()))


def local_rank() -> int:
    """The number of this process on its machine, which is also its GPU's.

    Raises: UsageError.
    """
    return _place("LOCAL_RANK", world_size())


def _place(name: str, size: int) -> int:
    """A number below `size`. It must be set if there are several processes."""
    if size == 1:
        return 0
    if name not in os.environ:
        raise UsageError(f"WORLD_SIZE is {size}, and {name} isn't set", hint=_START)
    found = _number(name, 0, least=0)
    if found >= size:
        raise UsageError(f"{name} is {found} of WORLD_SIZE {size}", hint=_START)
    return found


def _number(name: str, missing: int, least: int = 1) -> int:
    said = os.environ.get(name)
    if said is None:
        return missing
    if not (said.isascii() and said.isdigit() and len(said) < 7 and int(said) >= least):
        raise UsageError(f"{name} is {said!r:.40}, not a number from {least}", hint=_START)
    return int(said)
