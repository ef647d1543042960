"""How many GPUs share a model, and which heads, groups and tokens one rank holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kvplan.errors import BadSize, CannotSplit
from kvplan.units import whole


@dataclass(frozen=True, slots=True)
class Parallel:
    """Sizes of tensor, pipeline, data, expert and decode-context parallelism.

    dcp and ep need no further GPUs: decode context parallelism uses the tensor ranks, and experts are dealt out to all
    tp * dp ranks. Source: vLLM 0.33 config/parallel.py.
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1
    dcp: int = 1

    def __post_init__(self) -> None:
        for name, size in (("tp", self.tp), ("pp", self.pp), ("dp", self.dp), ("ep", self.ep), ("dcp", self.dcp)):
            try:
                whole(size)
            except BadSize as error:
                raise error.about(name) from None
        if self.tp % self.dcp:
            raise CannotSplit(
                f"--dcp {self.dcp} doesn't divide --tp {self.tp}",
                cause="decode context parallelism splits tokens over the tensor ranks",
                hint=f"sizes that work: {_listed(divisors(self.tp))}",
            )
        if self.ep not in (1, self.tp * self.dp):
            raise CannotSplit(
                f"--ep {self.ep} can't be used with --tp {self.tp} x --dp {self.dp}",
                cause="expert parallelism splits experts over all tensor and data ranks",
                hint=f"sizes that work: {_listed(tuple(dict.fromkeys((1, self.tp * self.dp))))}",
            )

    @property
    def gpus(self) -> int:
        """Number of GPUs."""
        return self.tp * self.pp * self.dp

    @property
    def shard(self) -> Shard:
        """The share of one tensor rank."""
        return Shard(self.tp, self.dcp)


@dataclass(frozen=True, slots=True)
class Shard:
    """The share of one of `tp` tensor ranks; tokens are dealt out to `dcp` of them."""

    tp: int = 1
    dcp: int = 1

    def units(self, count: int, what: str) -> int:
        """Units (heads, groups) on one rank: an equal share, or one whole unit if there are more ranks than units.

        Source: vLLM 0.33 config/model.py get_num_kv_heads, max(1, heads // tp).

        Raises: CannotSplit if neither number divides the other.
        """
        if count % self.tp == 0:
            return count // self.tp
        if self.tp % count == 0:
            return 1
        raise CannotSplit(
            f"--tp {self.tp} can't split {count} {what}",
            cause=f"neither divides the other, so some rank would hold part of a {what.removesuffix('s')}",
            hint=f"sizes that work for {count} {what}: {_listed(divisors(count))} and multiples of {count}",
        )


WHOLE = Shard()


def divisors(count: int) -> tuple[int, ...]:
    """All divisors of `count`, ascending."""
    return tuple(size for size in range(1, count + 1) if count % size == 0)


def _listed(sizes: Iterable[int]) -> str:
    return ", ".join(str(size) for size in sizes)


def stage_layers(layers: int, stages: int) -> tuple[int, ...]:
    """Layers of each pipeline stage. The remainder goes one each to the stages before the last, backwards.

    32 layers on 3 stages: 11, 11, 10. Source: vLLM 0.33 distributed/utils.py get_pp_indices.

    Raises: CannotSplit if there are more stages than layers.
    """
    if stages > layers:
        raise CannotSplit(
            f"--pp {stages} is more stages than the model has layers ({layers})", hint=f"use --pp {layers} or less"
        )
    even, left = divmod(layers, stages)
    counts = [even] * stages
    for stage in range(left):
        counts[(stages - 2 - stage) % stages] += 1
    return tuple(counts)
