"""What a plan takes from a receipt: a receipt's JSON -> the terms that this machine's measurements replace. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kvplan.errors import BadField, MissingField
from kvplan.plan.achieved import Achieved
from kvplan.report.schema import schema_id

SCHEMA = schema_id("verify")


@dataclass(frozen=True, slots=True)
class Calibration:
    """Terms of a plan that a receipt replaces.

    gpu: kvplan's id of the GPU, or its driver's name. memory: bytes that a process sees. bandwidth: bytes/s of a copy.
    cache, weights: fractions of that bandwidth reached when reading them. step_s: per step, whatever is read.
    runtime: bytes of the process's context.
    """

    gpu: str
    memory: int
    bandwidth: int
    cache: float | None
    weights: float | None
    step_s: float
    runtime: int | None
    source: str

    def achieved(self, known: Achieved) -> Achieved:
        """The same table row with what was measured here in place of what others measured elsewhere."""
        changed = replace(known, step_us=self.step_s * 1e6, layer_us=0.0, source=self.source)
        if self.cache is not None:
            changed = replace(changed, cache=self.cache)
        return changed if self.weights is None else replace(changed, weights16=self.weights)


def calibration(raw: Mapping[str, object]) -> Calibration:
    """The terms in a receipt's JSON.

    Raises: MissingField, BadField for what isn't a receipt, was refuted, or timed nothing on a GPU.
    """
    if raw.get("schema") != SCHEMA:
        raise BadField("schema", raw.get("schema"), SCHEMA, hint="kvplan verify --json writes a receipt")
    if raw.get("verdict") != "confirmed":
        raise BadField("verdict", raw.get("verdict"), "confirmed", hint="a refuted prediction is no base for another")
    machine, measured = _mapping(raw, "machine"), _mapping(raw, "measured")
    copy = _number(measured, "measured.copy_bytes_per_s")
    name = machine.get("gpu") or machine.get("name")
    if not isinstance(name, str):
        raise MissingField("machine.name")
    kv, weights = (_share(measured, f"measured.{which}_bytes_per_s", copy) for which in ("kv", "weight"))
    runtime = measured.get("runtime_bytes")
    return Calibration(
        gpu=name, memory=int(_number(machine, "machine.memory_bytes")), bandwidth=int(copy), cache=kv, weights=weights,
        step_s=_number(measured, "measured.overhead_s", least=0.0),
        runtime=runtime if isinstance(runtime, int) else None, source=f"kvplan verify, {raw.get('date')}, {name}",
    )  # fmt: skip


def _mapping(raw: Mapping[str, object], key: str) -> Mapping[str, object]:
    found = raw.get(key)
    if not isinstance(found, Mapping):
        raise MissingField(key)
    return found


def _number(raw: Mapping[str, object], path: str, least: float = 1.0) -> float:
    found = raw.get(path.rpartition(".")[2])
    if found is None:
        raise MissingField(path, hint="the receipt must be of a run that timed steps: leave its --budget-s larger")
    if isinstance(found, bool) or not isinstance(found, int | float) or not least <= found < 2**63:
        raise BadField(path, found, f"a number from {least:g}")
    return float(found)


def _share(raw: Mapping[str, object], path: str, whole: float) -> float | None:
    if raw.get(path.rpartition(".")[2]) is None:
        return None
    return _number(raw, path) / whole
