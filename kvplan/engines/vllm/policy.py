"""vLLM as an engine: the policy that plans are made with."""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.arch.formats import FORMATS, KvFormat
from kvplan.arch.model import Model
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Options
from kvplan.engines.vllm import allocate
from kvplan.engines.vllm.architectures import FP8_ON_BLACKWELL, named
from kvplan.engines.vllm.backends import BLACKWELL, major
from kvplan.engines.vllm.settings import settings
from kvplan.engines.vllm.versions import NEWEST, Version, rules, text
from kvplan.hardware.gpu import Gpu


@dataclass(frozen=True, slots=True)
class Vllm:
    """vLLM at one version."""

    release: Version = NEWEST
    name: str = "vllm"

    @property
    def version(self) -> str | None:
        """The version whose rules are used."""
        return text(self.release)

    def kv_format(self, model: Model, asked: KvFormat | None, gpu: Gpu | None) -> KvFormat:
        """What was asked; else the checkpoint's own format, or what vLLM chooses for the model on this GPU."""
        if asked is not None:
            return asked
        if model.kv_hint is None and named(model, FP8_ON_BLACKWELL) and gpu is not None and major(gpu) == BLACKWELL:
            return KvFormat(FORMATS["fp8"], FORMATS["fp8"])
        return model.kv_auto

    def plan(
        self, model: Model, gpu: Gpu | None, parallel: Parallel, kv: KvFormat, options: Options, context: int
    ) -> allocate.Plan:
        """How the cache is laid out, before any memory is known.

        Raises: UsageError, CannotSplit, Unsupported where vLLM would not start whatever the memory.
        """
        held = rules(self.release)
        return allocate.plan(model, gpu, kv, settings(model, gpu, parallel, options, context, held), held)
