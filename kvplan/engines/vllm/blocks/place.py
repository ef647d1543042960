"""Where a model's layers are to live: everything that decides about blocks but the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kvplan.arch.formats import KvFormat
from kvplan.arch.model import Model
from kvplan.engines.vllm.blocks.backend import Platform
from kvplan.engines.vllm.blocks.cuda import CUDA
from kvplan.engines.vllm.settings import Settings
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.hardware.gpu import Capability


@dataclass(frozen=True, slots=True)
class Place:
    """Where the layers are to live: everything but the model.

    gpu: compute capability, Hopper's for a GPU without one. platform: that it is of.
    """

    settings: Settings
    rules: Rules
    kv: KvFormat
    gpu: Capability
    platform: Platform = CUDA

    @property
    def on_cuda(self) -> bool:
        """Whether CUDA's kernels run."""
        return self.platform is CUDA


@dataclass(frozen=True, slots=True)
class Blocks:
    """Tokens of a block of attention layers; of state layers; the page that state is padded to, if any."""

    attention: int
    state: int
    state_page: int | None


def stages(model: Model, settings: Settings) -> Callable[[int], int]:
    """Which stage holds a layer; draft layers are on the last."""
    sizes = [len(stage) for stage in model.stages(settings.parallel)]
    held = [stage for stage, size in enumerate(sizes) for _ in range(size)]
    return lambda layer: held[layer] if layer < len(held) else len(sizes) - 1
