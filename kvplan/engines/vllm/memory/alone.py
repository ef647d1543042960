"""What a start takes of the memory that gpu_memory_utilization leaves alone, in releases that don't count it.

Until 0.19 the cache is allocated first. Contexts and links between ranks, which stood before vLLM began to count, and CUDA graphs
then share total x (1 - utilization). When they have taken all of it, the sampler's warm-up, whose logits need the room of the
profile's peak again, finds less than that: "CUDA out of memory occurred when warming up sampler".

    rest = total - ceil(total x utilization) - contexts - links - graphs

Source: vLLM 0.19 v1/worker/gpu_worker.py compile_or_warm_up_model; amounts by some 60 start-up logs of one source, vLLM 0.19.0 on H100:
contexts 0.51 GiB, links 1.0 (1.5 with experts), graphs 0.51 to 1.85 GiB. Of those with utilization 0.95 the two failed here whose
rest is below zero, both gpt-oss's.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from kvplan.arch.model import Model
from kvplan.engines.base import Options
from kvplan.engines.vllm.settings import Settings
from kvplan.engines.vllm.tables.architectures import LONG_GRAPHS, named
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.engines.vllm.tables.versions import Version
from kvplan.hardware.gpu import Gpu
from kvplan.units import GIB, MIB

SINCE: Version = (0, 8, 0)
"""The first release whose graphs and warm-up are these (V1)."""
CONTEXT = round(0.5 * GIB)
LINKS, LINKS_OF_EXPERTS = GIB, round(0.5 * GIB)
"""Of ranks joined by NVLink, more where experts are among them; of others, a fifth."""
UNLINKED = 5
GRAPHS, LAYER_GRAPHS, EXPERT_GRAPHS = round(0.45 * GIB), 16 * MIB, round(0.5 * GIB)
"""Of 51 sizes up to 512: once, for each layer, and where there are experts."""
USUAL_SIZES, MORE_GRAPHS = 512, round(2.5 * GIB)
"""Of 32 further sizes up to 1,024, with what PyTorch's allocator then has reserved and can't use: seen with 1,024 sequences."""


@dataclass(frozen=True, slots=True)
class Alone:
    """Bytes on one GPU. left: what utilization leaves alone. before: contexts and links. graphs: CUDA graphs."""

    left: int
    before: int
    graphs: int

    @property
    def rest(self) -> int:
        """What is left of it; below zero the start may fail."""
        return self.left - self.before - self.graphs


def alone(model: Model, gpu: Gpu, settings: Settings, rules: Rules, options: Options) -> Alone | None:
    """What a start takes of it; None where the release counts it, where nothing is known of it, or without graphs."""
    counted = rules.graphs_counted or rules.version < SINCE
    if counted or not options.graphs or options.kv_memory is not None or gpu.vendor != "nvidia" or gpu.unified:
        return None
    share = rules.utilization if options.utilization is None else options.utilization
    layers = -(-len(model.layers) // settings.parallel.pp)
    experts = model.weights is not None and model.weights.routes
    links = LINKS + LINKS_OF_EXPERTS * experts if settings.parallel.gpus > 1 else 0
    if "nvlink" not in (gpu.link_name or "").lower():
        links //= UNLINKED
    longer = named(model, LONG_GRAPHS) and settings.sequences > USUAL_SIZES
    graphs = GRAPHS + LAYER_GRAPHS * layers + EXPERT_GRAPHS * experts + MORE_GRAPHS * longer
    return Alone(gpu.memory.value - ceil(gpu.memory.value * share), CONTEXT + links, graphs)
