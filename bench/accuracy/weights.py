"""Weights that kvplan counts from a config, compared with those that a log prints."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from bench.accuracy.overheads import Case
from bench.accuracy.rows import Row
from kvplan.engines.vllm.memory.buffers import with_buffers
from kvplan.engines.vllm.memory.weights import weights
from kvplan.errors import KvplanError
from kvplan.units import GIB


@dataclass(frozen=True)
class Counted:
    """One model on one kind of GPU. printed, ours: GiB on the fullest GPU."""

    row: Row
    printed: float
    ours: float

    @property
    def error(self) -> float:
        """Relative error of kvplan's count."""
        return self.ours / self.printed - 1


def counted(rows: Iterable[Row]) -> list[Counted]:
    """Every distinct model, GPU vendor and printed size."""
    found: dict[tuple[str, str, int, float], Counted] = {}
    for row in rows:
        printed = row.reported.get("weights_gib")
        if printed is None or row.model is None or row.gpu is None:
            continue
        key = (str(row.raw.get("model_id")), row.gpu.vendor, row.parallel.tp, round(printed, 1))
        if key in found:
            continue
        try:
            own = replace(row.options, weights_per_gpu=None)
            case = Case(row, row.model, row.gpu)
            alone = weights(row.model, row.gpu, row.parallel, own, case.held.version)
            ours = with_buffers(alone, row.model, case.flags, case.held).bytes.likely
        except KvplanError:
            continue
        found[key] = Counted(row, float(printed), ours / GIB)
    return list(found.values())
