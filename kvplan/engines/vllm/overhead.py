"""What vLLM spends beside weights and cache: the activation peak, and memory outside the allocator.

Placeholder coefficients until they are fitted.
"""

from __future__ import annotations

from kvplan.arch.model import Model
from kvplan.engines.base import Options, Range, Term
from kvplan.engines.vllm.settings import Settings
from kvplan.engines.vllm.versions import Rules
from kvplan.hardware.gpu import Gpu
from kvplan.units import MIB


def activation(model: Model, gpu: Gpu, settings: Settings, rules: Rules) -> Term:
    """The peak of the profiling run above what stays."""
    del gpu
    per_row = 12 if rules.version >= (0, 17, 0) else 39
    logits = per_row * settings.sequences * (model.vocab_size or 128_256)
    step = settings.tokens * (model.hidden_size or 4096) * 2 * 6
    size = logits + step
    formula = f"{per_row} B x {settings.sequences} rows x {model.vocab_size} words + 6 x {settings.tokens} x {model.hidden_size} x 2 B"
    return Term("activation", Range(size // 2, size, size * 2), formula, "public start-up logs")


def runtime(model: Model, gpu: Gpu, settings: Settings, rules: Rules, options: Options) -> Term:
    """Libraries, collectives, and CUDA graphs where the version takes them off."""
    del model, gpu, options
    ranks = settings.parallel.tp > 1
    graphs = 600 * MIB if rules.graphs_counted else 0
    likely = 256 * MIB + 512 * MIB * ranks + graphs
    return Term("runtime", Range(likely // 2, likely, likely * 2), "libraries and graphs", "public start-up logs")
