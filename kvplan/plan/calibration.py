"""Calibration: replaces terms of a plan's `step_s_likely` by the measurements in a receipt of `kvplan verify`.

    weights of 16 bit   bytes / measured speed, from the intercept of the receipt's line less the launches
    cache               bytes / measured speed, from the line's slope
    overhead            layers x measured launches per layer, if they were counted and CUDA graphs captured
    everything else     the table's fractions of the datasheet, but no faster than the receipt's copy

`step_s_low` stays the datasheet's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kvplan.arch.formats import KvFormat
from kvplan.errors import BadFile, UsageError
from kvplan.hardware.gpu import Gpu
from kvplan.plan.achieved import Achieved

SCHEMA = "kvplan.verify/1"
_HINT = "kvplan verify MODEL -o receipt.json writes one, on the GPU that is planned for"
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Calibration:
    """The measurements of a receipt.

    gpu: kvplan's id of the GPU, None if kvplan has no record of it. driver_name: its name by the driver. copy, cache,
    weights: bytes/s of a copy, of reading the cache and of reading 16-bit weights; the last two are None if no line
    could be drawn. kv: formats of keys and values. layer_s: seconds of a layer's launches; None if they weren't counted
    or Python launched them. `weights` is then None too, because the launches can't be subtracted. routed: whether they
    include launches of experts. source: in words.
    """

    gpu: str | None
    driver_name: str
    copy: float
    cache: float | None
    weights: float | None
    kv: tuple[str, str]
    layer_s: float | None
    routed: bool
    source: str

    def is_of(self, gpu: Gpu) -> bool:
        """Whether it was measured on this kind of GPU."""
        names = {name.casefold() for name in (gpu.name, *gpu.driver_names)}
        return self.gpu == gpu.id if self.gpu is not None else self.driver_name.casefold() in names

    def check(self, gpu: Gpu) -> None:
        """Raises: UsageError if it was measured on another GPU than the one planned for."""
        if not self.is_of(gpu):
            raise UsageError(
                f"the receipt is of {self.gpu or self.driver_name}, and the plan is for {gpu.id}", cause=self.source,
                hint=f"measure on that GPU: {_HINT}" if self.gpu is None else f"--gpu {self.gpu}, or a receipt of {gpu.id}",
            )  # fmt: skip

    def achieved(self, known: Achieved, bandwidth: int, kv: KvFormat) -> Achieved:
        """The table's row with measurements in place of its values, as fractions of `bandwidth` (bytes/s).

        kv: formats of the planned cache. A cache in another format is read by another kernel, so the table's speed is
        kept.
        """
        most, said = self.copy / bandwidth, f"what it didn't measure: {known.source}"
        cache, launches = self.cache, self.layer_s
        if (kv.k.name, kv.v.name) != self.kv:
            cache = None
            said = f"its cache was in {_named(*self.kv)}, not in {_named(kv.k.name, kv.v.name)}, so not that; {said}"
        if launches is None:
            said = f"nor launches, which it didn't count in a graph; {said}"
        reached = replace(
            known,
            weights16=min(known.weights16, most) if self.weights is None else self.weights / bandwidth,
            weights8=min(known.weights8, most),
            weights4=min(known.weights4, most),
            cache=min(known.cache, most) if cache is None else cache / bandwidth,
            source=f"{self.source}; {said}",
        )
        if launches is None:
            return reached
        expert_us = 0.0 if self.routed else known.expert_us
        return replace(reached, step_us=0.0, layer_us=launches * 1e6, expert_us=expert_us)


def _named(keys: str, values: str) -> str:
    return keys if keys == values else f"{keys}:{values}"


def calibration(raw: Mapping[str, object], name: str) -> Calibration:
    """The measurements in a receipt's JSON. name: of its file, for messages.

    Raises: BadFile for JSON that isn't a receipt, or a receipt that was refuted or timed nothing.
    """
    if raw.get("schema") != SCHEMA:
        said = raw.get("schema")
        what = f"its schema is {said!r:.60}" if isinstance(said, str) else "it names no schema"
        raise BadFile(f"{name} is not a receipt of kvplan verify", cause=f"{what}, not {SCHEMA!r}", hint=_HINT)
    receipt = _Receipt(raw, name)
    if raw.get("verdict") != "confirmed":
        raise receipt.unusable(
            f"its verdict is {raw.get('verdict')!r:.60}: a refuted prediction is no base for another"
        )
    if raw.get("machine") is None:
        raise receipt.unusable("it compares with transformers on the meta device, where nothing can be timed")
    driver_name, gpu, driver = (
        receipt.text("machine.name"),
        receipt.maybe("machine.gpu"),
        receipt.maybe("machine.driver"),
    )
    if receipt.at("measured.copy_bytes_per_s") is None:
        raise receipt.unusable("it timed no step: a larger --budget-s or --memory does")
    layers = receipt.number("built.layers", least=1.0)
    launches = receipt.launches()
    parts = [driver_name, f"driver {driver}" if driver else "no driver named", receipt.text("date")]
    return Calibration(
        gpu=gpu, driver_name=driver_name, copy=receipt.number("measured.copy_bytes_per_s"),
        cache=receipt.speed("measured.kv_bytes_per_s"),
        weights=None if launches is None else receipt.speed("measured.weight_bytes_per_s"),
        kv=(receipt.text("kv_dtype.k"), receipt.text("kv_dtype.v")), layer_s=None if launches is None else launches / layers,
        routed=receipt.routed(), source=f"receipt of kvplan verify: {', '.join(parts)}",
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Receipt:
    """A receipt's JSON, read by path. Any unexpected value raises BadFile."""

    raw: Mapping[str, object]
    name: str

    def unusable(self, cause: str) -> BadFile:
        return BadFile(f"{self.name} can't calibrate a plan", cause=cause, hint=_HINT)

    def at(self, path: str) -> object:
        found: object = self.raw
        for step in path.split("."):
            if not isinstance(found, Mapping):
                raise self.unusable(f"{path} is missing")
            found = found.get(step)
        return found

    def text(self, path: str) -> str:
        found = self.maybe(path)
        if found is None:
            raise self.unusable(f"{path} is missing")
        return found

    def maybe(self, path: str) -> str | None:
        found = self.at(path)
        if found is None:
            return None
        if not isinstance(found, str) or not found.isprintable() or not 0 < len(found) <= _LONGEST:
            raise self.unusable(f"{path} is {found!r:.60}, not a line of text")
        return found

    def number(self, path: str, least: float = 1.0) -> float:
        found = self.at(path)
        if found is None:
            raise self.unusable(f"{path} is missing")
        if isinstance(found, bool) or not isinstance(found, int | float) or not least <= found < 2**63:
            raise self.unusable(f"{path} is {found!r:.60}, not a number from {least:g}")
        return float(found)

    def speed(self, path: str) -> float | None:
        return None if self.at(path) is None else self.number(path)

    def launches(self) -> float | None:
        """Seconds of a step's launches; None if they weren't counted, or no CUDA graph was captured."""
        graphs = self.at("measured.graphs")
        if not isinstance(graphs, bool):
            raise self.unusable(f"measured.graphs is {graphs!r:.60}, not true or false")
        if not graphs or self.at("measured.overhead_s") is None:
            return None
        return self.number("measured.overhead_s", least=0.0)

    def routed(self) -> bool:
        steps = self.raw.get("steps")
        return isinstance(steps, list) and any(
            isinstance(step, Mapping) and step.get("distinct_experts") is not None for step in steps
        )
