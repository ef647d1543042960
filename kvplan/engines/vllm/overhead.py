"""What vLLM spends beside weights and cache: the peak of its start-up profile, and memory outside its allocator.

    activation  the larger of logits and the widest layer, hidden states, rooms of experts, embeddings of images
    runtime     libraries, what joins ranks, CUDA graphs from the version on that takes them off

The amounts are counted (step.py); what one unit of each costs was fitted on public start-up logs by bench/accuracy.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.arch.model import Model
from kvplan.engines.base import Options, Range, Term
from kvplan.engines.vllm.architectures import compresses
from kvplan.engines.vllm.settings import Settings
from kvplan.engines.vllm.step import Step, step
from kvplan.engines.vllm.versions import Rules
from kvplan.hardware.gpu import Gpu
from kvplan.units import GIB, MIB

LOGS = "fitted on public start-up logs: docs/accuracy.md"
COUNTED = "vLLM 0.33 v1/worker/gpu_model_runner.py profile_run, counted; rates fitted on public start-up logs: docs/accuracy.md"
JOINED = (2, 4, 8)
"""Ranks that vLLM's fused sums exist for. Source: config/compilation.py flashinfer_max_size."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Bytes of one unit."""

    low: float
    likely: float
    high: float


COSTS: dict[str, Cost] = {
    "logits sorted in PyTorch": Cost(37, 38.3, 40),
    "logits sorted in Triton": Cost(14.5, 15, 16),
    "logits second runner": Cost(9, 14, 18),
    "libraries": Cost(0.1 * GIB, 0.14 * GIB, 0.4 * GIB),
    "libraries, larger": Cost(0.2 * GIB, 0.25 * GIB, 0.5 * GIB),
    "libraries, AMD": Cost(1.0 * GIB, 1.2 * GIB, 1.5 * GIB),
    "ranks": Cost(0.05 * GIB, 0.5 * GIB, 1.2 * GIB),
    "ranks without NVLink": Cost(0.0 * GIB, 0.1 * GIB, 0.7 * GIB),
    "ranks, AMD": Cost(0.3 * GIB, 0.4 * GIB, 1.0 * GIB),
    "ranks of a whole node, AMD": Cost(1.5 * GIB, 1.9 * GIB, 2.6 * GIB),
    "fused sums": Cost(0.0 * GIB, 1.5 * GIB, 2.0 * GIB),
    "graphs": Cost(4 * MIB, 11 * MIB, 26 * MIB),
    "compressed caches": Cost(0, 3.9 * GIB, 7 * GIB),
    "shared memory": Cost(0, 3 * GIB, 8 * GIB),
    "towers": Cost(0, 0.15 * GIB, 1.5 * GIB),
}
"""Rates: bytes of each of S x V logits, GiB a GPU, MiB of graphs a layer."""


def amounts(model: Model, gpu: Gpu, settings: Settings, rules: Rules, options: Options) -> dict[str, int]:
    """Units of everything outside the step's own tensors; each is multiplied by its cost."""
    amd, parallel = gpu.vendor == "amd", settings.parallel
    capability = (gpu.compute_capability or (0, 0))[0]
    joined = parallel.tp in JOINED and parallel.pp == parallel.dp == 1
    linked = "ranks" if "nvlink" in (gpu.link_name or "").lower() else "ranks without NVLink"
    own = "libraries, AMD" if amd else "libraries, larger" if rules.libraries else "libraries"
    return {
        own: 1,
        "ranks, AMD" if amd else linked: int(parallel.tp > 1),
        "ranks of a whole node, AMD": int(amd and parallel.tp > JOINED[1]),
        "fused sums": int(joined and not amd and capability in rules.fused_sums),
        "graphs": len(model.layers) if rules.graphs_counted and options.graphs else 0,
        "compressed caches": int(compresses(model)),
        "shared memory": int(gpu.unified),
        "towers": int(model.weights is not None and bool(model.weights.towers)),
    }


def activation(model: Model, gpu: Gpu, settings: Settings, rules: Rules) -> Term:
    """The peak of the profiled step above what stays."""
    found = step(model, settings)
    kept = kept_rooms(found, gpu, rules)
    cost = COSTS[f"logits {rules.sampler}"]
    widest = max(found.layer, 0 if kept else found.gathered)
    stays = found.hidden + found.towers + kept
    low, likely, high = (round(max(found.words * rate, widest)) + stays for rate in (cost.low, cost.likely, cost.high))
    formula = (
        f"max({found.words:,} logits x {cost.likely:g} B, {widest:,} B of the widest layer) + {found.hidden:,} B of hidden "
        f"states + {kept:,} B of experts' rooms + {found.towers:,} B of embeddings"
    )
    return Term("activation", Range(low, likely, high), formula, COUNTED)


def kept_rooms(found: Step, gpu: Gpu, rules: Rules) -> int:
    """Rooms of experts that stay allocated; AMD's own kernels for 8 bit have none."""
    native = gpu.vendor == "amd" and found.expert_bits == min(rules.rooms, default=0)
    return found.experts if found.expert_bits in rules.rooms and not native else 0


def runtime(model: Model, gpu: Gpu, settings: Settings, rules: Rules, options: Options) -> Term:
    """Libraries, what joins ranks, and CUDA graphs where the version takes them off."""
    found = {name: units for name, units in amounts(model, gpu, settings, rules, options).items() if units}
    costs = [(COSTS[name], units) for name, units in found.items()]
    formula = " + ".join(f"{units} x {COSTS[name].likely / MIB:,.0f} MiB {name}" for name, units in found.items())
    return Term(
        "runtime",
        Range(
            round(sum(cost.low * units for cost, units in costs)),
            round(sum(cost.likely * units for cost, units in costs)),
            round(sum(cost.high * units for cost, units in costs)),
        ),
        formula,
        LOGS,
    )
