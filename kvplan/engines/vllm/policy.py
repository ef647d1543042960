"""vLLM as an engine: the policy that plans are made with."""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.arch.formats import KvFormat
from kvplan.arch.model import Context, Model
from kvplan.engines.base import Setup, Stated, Words
from kvplan.engines.unstated import unstated
from kvplan.engines.vllm.blocks import allocate
from kvplan.engines.vllm.formats import used_format
from kvplan.engines.vllm.memory import adapters
from kvplan.engines.vllm.settings import settings
from kvplan.engines.vllm.started import Started
from kvplan.engines.vllm.starts import lengths, library, own_drafts, served, shares, text_alone
from kvplan.engines.vllm.starts.devices import platform_of
from kvplan.engines.vllm.starts.splits import lacks_experts
from kvplan.engines.vllm.starts.stated import contradicted
from kvplan.engines.vllm.tables.changes import rules
from kvplan.engines.vllm.tables.versions import NEWEST, Version, text
from kvplan.hardware.gpu import Gpu

WORDS = Words(
    title="vLLM",
    length="max_model_len",
    longest="vLLM's estimated maximum model length",
    unnamed_gpu="of the H100's class, with its kernels and defaults; on others a sequence may take more: --gpu names one",
)
"""Source: vLLM 0.33 v1/core/kv_cache_utils.py; engine/arg_utils.py get_batch_defaults, v1/attention/backends."""


@dataclass(frozen=True, slots=True)
class Vllm:
    """VLLM at one version. verified: whether its rules were read, and not those of the newest known one are used instead."""

    release: Version = NEWEST
    verified: bool = True

    @property
    def name(self) -> str:
        """As typed after --engine."""
        return "vllm"

    @property
    def version(self) -> str | None:
        """The version whose rules are used."""
        return text(self.release)

    @property
    def words(self) -> Words:
        """What it and its own things are called."""
        return WORDS

    @property
    def allocates(self) -> bool:
        """In blocks."""
        return True

    def default_context(self, model: Model) -> Context:
        """The max_model_len of a server that isn't given one."""
        return lengths.default(model, rules(self.release))

    def longest_context(self, model: Model) -> int | None:
        """The longest max_model_len that vLLM takes without being told to (tables/variables.py); None for any."""
        return lengths.accepted(model, rules(self.release))

    def kv_format(self, model: Model, asked: KvFormat | None, gpu: Gpu | None) -> KvFormat:
        """What was asked; else the checkpoint's own format, or what vLLM chooses for the model on this GPU.

        Raises: UsageError where vLLM would choose a format that no kernel of the GPU takes.
        """
        return used_format(model, asked, gpu, rules(self.release))

    def unstated(self, model: Model) -> tuple[str, ...]:
        """What its profile's step is counted with."""
        return unstated(model)

    def lacks_experts(self, model: Model) -> bool:
        """Whether the model is known to have no experts that tokens are routed to."""
        return lacks_experts(model)

    def contradicts(self, model: Model, stated: Stated) -> str | None:
        """What --quantization or --dtype say against the config."""
        return contradicted(model, stated, self.release)

    def start(self, setup: Setup) -> Started:
        """VLLM with the cache laid out, before any memory is known.

        Raises: UsageError, CannotSplit, Unsupported where vLLM would not start whatever the memory.
        """
        served.check(setup.model, self.release, verified=self.verified)
        setup = library.served(text_alone.served(setup, self.release), self.release)
        model, gpu, held = setup.model, setup.gpu, rules(self.release)
        kv = used_format(model, setup.kv, gpu, held)
        if gpu is not None:
            platform_of(gpu, self.release)
        adapters.check(model, setup.options, self.release)
        shares.check(setup.options, self.release)
        own_drafts.check(model, setup.options, self.release, verified=self.verified)
        made = allocate.plan(model, gpu, kv, settings(setup, held), held)
        return Started(self.release, self.verified, setup, kv, made)
