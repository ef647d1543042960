"""What vLLM spends beside weights and cache: the peak of its start-up profile, and memory outside its allocator.

    activation  the larger of logits, the widest layer and what compiling takes, hidden states, rooms of experts, embeddings of
                images; or the encoder of images before all that
    runtime     libraries, what joins ranks, CUDA graphs from the version on that takes them off

The amounts are counted (step.py); what one unit of each costs was fitted on public start-up logs by bench/accuracy. How
far low and high lie from likely follows from how many independent logs show each part (doubt.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.arch.model import Model
from kvplan.engines.base import Options, Range, Term
from kvplan.engines.unstated import unstated
from kvplan.engines.vllm.memory import doubt, graphs, runner
from kvplan.engines.vllm.memory.dimensions import dimensions
from kvplan.engines.vllm.memory.exchange import exchanged
from kvplan.engines.vllm.memory.step import Step, steps
from kvplan.engines.vllm.settings import Settings
from kvplan.engines.vllm.tables.architectures import compresses
from kvplan.engines.vllm.tables.items import UNKNOWN
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.hardware.gpu import Gpu
from kvplan.text import all_of
from kvplan.units import GIB, MIB

LOGS = "fitted on public start-up logs: docs/accuracy-method.md"
COUNTED = "vLLM 0.33 v1/worker/gpu_model_runner.py profile_run, counted; rates fitted on public start-up logs: docs/accuracy-method.md"
JOINED = (2, 4)
"""Ranks whose fused sums take room; eight fuse sums of 1 MiB at most. Source: config/compilation.py FI_ALLREDUCE_FUSION_MAX_SIZE_MB."""
WHOLE_NODE = 8
"""Ranks of a whole node of AMD's."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Bytes of one unit, and how many independent sources of logs show it."""

    likely: float
    sources: int


MANY = 3
"""Sources from which on nothing is added to a cost for how few show it; what a tensor's type says is as sure."""

SHARED = "shared memory"
"""What the host's processes take between two readings of MemAvailable, of NVIDIA's GPUs that share the host's memory. Others' free
memory is read from the driver. Source: vLLM 0.28 utils/mem_utils.py MemorySnapshot.measure, platforms/cuda.py is_integrated_gpu."""
MOST_SHARED = round(10.2 * GIB)
"""The most that a start leaves so, of Qwen3.5-122B on a Jetson Thor; others on Thor leave 1.7 to 2.9 GiB, one on a GB10 5.3."""

COSTS: dict[str, Cost] = {
    "logits sorted in PyTorch": Cost(38.4, 13),
    "logits sorted in Triton": Cost(14.4, 8),
    "logits picked by FlashInfer": Cost(14, MANY),
    "logits copied to fp32": Cost(6, MANY),
    "logits as they are": Cost(2, MANY),
    "logits second runner": Cost(14, 1),
    "libraries": Cost(130 * MIB, 15),
    "libraries, larger": Cost(322 * MIB, 18),
    "libraries, AMD": Cost(1260 * MIB, 2),
    "ranks": Cost(550 * MIB, 7),
    "ranks without NVLink": Cost(100 * MIB, 3),
    "ranks, AMD": Cost(318 * MIB, 1),
    "ranks of a whole node, AMD": Cost(1840 * MIB, 1),
    "fused sums": Cost(1455 * MIB, 1),
    graphs.PLAIN: Cost(13.9 * MIB, 6),
    graphs.PLAIN + graphs.SECOND: Cost(9.4 * MIB, 4),
    graphs.COMPRESSED: Cost(1.1 * MIB, 2),
    graphs.COMPRESSED + graphs.SECOND: Cost(20 * MIB, 1),
    SHARED: Cost(3000 * MIB, 2),
}
"""Rates: bytes of each of S x V logits, of graphs a layer, with compressed caches and the first runner of each graph and layer, and
else of a GPU."""


def amounts(model: Model, gpu: Gpu, settings: Settings, rules: Rules, options: Options) -> dict[str, int]:
    """Units of everything outside the step's own tensors; each is multiplied by its cost."""
    amd, parallel = gpu.vendor == "amd", settings.parallel
    capability = (gpu.compute_capability or (0, 0))[0]
    joined = parallel.tp in JOINED and parallel.pp == parallel.dp == 1 and options.graphs  # by a pass of the compiler
    linked = "ranks" if "nvlink" in (gpu.link_name or "").lower() else "ranks without NVLink"
    layers = len(model.layers) if options.graphs and runner.estimates_graphs(model, gpu, settings, rules) else 0
    estimated = graphs.COMPRESSED if compresses(model) else graphs.PLAIN
    if runner.is_second(model, gpu, settings, rules):
        estimated += graphs.SECOND
    each = graphs.of(settings) if estimated == graphs.COMPRESSED else 1
    own = "libraries, AMD" if amd else "libraries, larger" if rules.libraries else "libraries"
    return {
        own: 1,
        "ranks, AMD" if amd else linked: int(parallel.tp > 1),
        "ranks of a whole node, AMD": int(amd and parallel.tp >= WHOLE_NODE),
        "fused sums": int(joined and not amd and capability in rules.fused_sums),
        estimated: layers * each,
        SHARED: int(gpu.unified and gpu.vendor == "nvidia"),
    }


def most(name: str, units: int, settings: Settings) -> float:
    """Bytes that a cost was seen to take at most, where that follows from the machine more than from how many show it; else 0."""
    return units * MOST_SHARED if name == SHARED else graphs.most(name, units, settings)


@dataclass(frozen=True, slots=True)
class Peak:
    """The most that the profile has at once. words: logits that are part of it. counted: bytes of everything else.

    copied: of these, what a kernel takes that one log shows to take more.
    """

    words: int
    counted: int
    copied: int = 0


def activation(model: Model, gpu: Gpu, settings: Settings, rules: Rules, options: Options) -> Term:
    """The peak of the profiled step above what stays."""
    low, found, high = steps(model, gpu, settings, rules, options)
    cost = COSTS[f"logits {runner.sampler(model, gpu, settings, rules)}"]
    cheapest = COSTS[f"logits {runner.least_sampler(model, gpu, settings, rules)}"]
    formula = (
        f"max({found.words:,} logits x {cost.likely:g} B, {widest_layer(found):,} B of the widest layer, "
        f"{found.table:,} B of the embedding's copy that compiling takes) + "
        f"{found.hidden:,} B of hidden states + {kept_rooms(found):,} B of experts' and sparse attention's "
        f"rooms + {found.towers:,} B of images' embeddings and pixels"
    )
    if found.held:
        formula += f" + {found.held:,} B of that copy's room, which the allocator holds"
    if found.encoder:
        formula = f"max({formula}, {found.encoder:,} B of the encoder before)"
    if any(found.made):
        formula += f" + {sum(found.made):,} B of the runner's own buffers"
    if (low.towers, low.encoder) != (high.towers, high.encoder):
        formula += (
            f"; the high end allows for images of {UNKNOWN.tokens:,} tokens, as nobody states how long they may be"
        )
    missing = unstated(model)
    if missing and low != high:
        formula += f"; a guess, as nobody states {all_of(missing)}"
    if cheapest != cost:
        formula += f"; at best FlashInfer is installed and takes {cheapest.likely:g} B a logit"
    least = _around_peak(low, cheapest, gpu)
    likely, most = (_around_peak(each, cost, gpu) for each in (found, high))
    return Term("activation", Range(least.low, likely.likely, most.high), formula, COUNTED)


def peak(found: Step, cost: Cost) -> Peak:
    """The largest of a step's moments."""
    return max(_moments(found), key=lambda each: each.words * cost.likely + each.counted)


def _moments(found: Step) -> tuple[Peak, ...]:
    """What may be the peak: logits, the widest layer or the embedding's copy beside what stays, or images' encoder before all text.

    With pipeline stages the embedding and images are on the first, and logits on the last.
    """
    sampling, embedding = found.made.sampling, found.held + found.towers
    stays = found.made.everywhere + found.hidden + kept_rooms(found)
    last = stays + sampling + (0 if found.staged else embedding)
    first = stays + embedding + (0 if found.staged else sampling)
    layer = Peak(0, widest_layer(found) + max(first, last), found.experts.copied)
    before = found.made.everywhere + found.held + (0 if found.staged else sampling)
    return Peak(found.words, last), layer, Peak(0, found.table + first), Peak(0, before + found.encoder)


def _around_peak(found: Step, cost: Cost, gpu: Gpu) -> Range:
    """Bytes of one step at once: each end is the largest of its moments' ends, as a smaller one may be less sure."""
    ends = [_around_moment(each, cost, gpu) for each in _moments(found)]
    return Range(max(each.low for each in ends), max(each.likely for each in ends), max(each.high for each in ends))


def _around_moment(found: Peak, cost: Cost, gpu: Gpu) -> Range:
    logits = found.words * cost.likely
    unsure = doubt.of_cost(logits, cost.sources, gpu) if found.words else 0.0
    return _around(logits + found.counted, unsure + doubt.of_counted(found.counted, found.copied))


def kept_rooms(found: Step) -> int:
    """The room that stays allocated: of experts where theirs does, or of sparse attention, whichever is larger."""
    return max(found.keys, found.experts.staying)


def widest_layer(found: Step) -> int:
    """What a layer has at once beside what stays."""
    return max(found.layer, found.experts.running)


def runtime(model: Model, gpu: Gpu, settings: Settings, rules: Rules, options: Options) -> Term:
    """Libraries, what joins ranks, and CUDA graphs where the version takes them off.

    Its low end may be below zero where memory is shared: what the system gives back between two readings was counted as taken. Logs of
    a GB10 leave 2.8 GiB less than nothing (Qwen3-30B-A3B, 0.20.0) and print graphs of -0.17 to -0.92 GiB (0.20).
    Source: vLLM 0.20 utils/mem_utils.py MemorySnapshot.measure, psutil.virtual_memory().available.
    """
    found = {name: units for name, units in amounts(model, gpu, settings, rules, options).items() if units}
    costs = {name: COSTS[name].likely * units for name, units in found.items()}
    formula = " + ".join(f"{units} x {COSTS[name].likely / MIB:,g} MiB {name}" for name, units in found.items())
    known = doubt.CLASSES.get(doubt.gpu_class(gpu), 0)
    unsure = {
        name: max(
            doubt.of_cost(cost, COSTS[name].sources, gpu),
            doubt.of_spread(cost, most(name, found[name], settings)),
        )
        for name, cost in costs.items()
    }
    machine = doubt.of_machine(gpu, known)
    if not (known and rules.read):
        machine += doubt.unseen(gpu)
    below = (max(doubt.WIDTH * unsure[name], cost - graphs.least(name, cost, settings)) for name, cost in costs.items())
    around = _around(sum(costs.values()), machine + sum(unsure.values()))
    least = round(around.likely - doubt.WIDTH * machine - sum(below))
    buffers = exchanged(dimensions(model, settings.parallel).likely, settings)
    if buffers.high:
        formula += f" + {buffers.likely:,} B that experts exchange tokens through"
    if SHARED in found:
        formula += "; at best the system gives back memory that was counted as taken"
    low = (least if SHARED in found else max(0, least)) + buffers.low
    return Term("runtime", Range(low, around.likely + buffers.likely, around.high + buffers.high), formula, LOGS)


def _around(likely: float, unsure: float) -> Range:
    """What it may be, if it is unsure by so many bytes."""
    return Range(max(0, round(likely - doubt.WIDTH * unsure)), round(likely), round(likely + doubt.WIDTH * unsure))
