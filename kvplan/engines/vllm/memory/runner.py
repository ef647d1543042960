"""Which of vLLM's two model runners serves a model: their start-up profiles take different room, and they overlap steps differently.

Source: vLLM 0.22 to 0.33 config/vllm.py use_v2_model_runner, _get_v2_model_runner_unsupported_features, v1/worker/gpu/model_runner.py.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvplan.arch.layers import Recurrent
from kvplan.arch.model import Model
from kvplan.engines.vllm.memory.drafting import drafting
from kvplan.engines.vllm.tables.architectures import classes, is_pooling
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.engines.vllm.tables.variables import CHOSEN
from kvplan.hardware.gpu import Gpu

if TYPE_CHECKING:
    from kvplan.engines.vllm.settings import Settings

UNQUANTIZED = 16
"""Bits of an element."""


def serves(model: Model, gpu: Gpu | None, drafted: int, pp: int, stated: bool | None, rules: Rules) -> bool:  # noqa: FBT001 - an option's value
    """Whether the second runner serves a model.

    gpu: None for NVIDIA's. drafted: tokens of a step that are guessed. stated: what VLLM_USE_V2_MODEL_RUNNER says.
    """
    if stated is not None and rules.version >= CHOSEN:
        return stated
    return _serves(model, gpu, rules) and (not drafted or _drafts(model, pp, rules))


def is_second(model: Model, gpu: Gpu, settings: Settings, rules: Rules) -> bool:
    """The same with everything settled."""
    return serves(model, gpu, settings.drafted, settings.parallel.pp, settings.second_runner, rules)


def is_unsure(model: Model, gpu: Gpu, settings: Settings, rules: Rules) -> bool:
    """Whether the first may serve it after all, as nobody says how tokens are guessed."""
    guessed = settings.drafted > 0 and settings.second_runner is None and drafting(model) == "guessed"
    return guessed and is_second(model, gpu, settings, rules)


def first_alone(rules: Rules) -> Rules:
    """The rules of a start that the first runner serves."""
    return replace(rules, second_named=frozenset(), second_others="none")


def _drafts(model: Model, pp: int, rules: Rules) -> bool:
    """Whether the second runner has the way that tokens are drafted."""
    method = drafting(model)
    staged = method == "eagle3" and pp > 1
    return method in rules.second_drafts and (rules.second_staged or not staged)


def _serves(model: Model, gpu: Gpu | None, rules: Rules) -> bool:
    """Whether the second runner serves the class."""
    names = frozenset(classes(model))
    if gpu is not None and gpu.vendor == "amd" and rules.second_not_amd & names:
        return False
    if rules.second_others == "all":
        return True
    if is_pooling(model):
        return False
    listed = bool(rules.second_named & names)
    if rules.second_plain:
        return listed and not _mixes(model) and not _quantized(model)
    return listed or (rules.second_others == "dense" and not _mixes(model) and not model.has(Recurrent))


def estimates_graphs(model: Model, gpu: Gpu, settings: Settings, rules: Rules) -> bool:
    """Whether CUDA graphs are taken off the cache's memory."""
    return rules.graphs_counted and (rules.second_graphs or not is_second(model, gpu, settings, rules))


def sampler(model: Model, gpu: Gpu, settings: Settings, rules: Rules) -> str:
    """What picks tokens from logits in the profile, by the room it takes: the name of a cost without `logits`."""
    return rules.second_logits if is_second(model, gpu, settings, rules) else rules.sampler


def least_sampler(model: Model, gpu: Gpu, settings: Settings, rules: Rules) -> str:
    """The one that takes the least room of those that may run, as nobody states what is installed.

    Source: vLLM 0.11.0 v1/sample/ops/topk_topp_sampler.py TopKTopPSampler.
    """
    if rules.flashinfer_picks and gpu.vendor == "nvidia":
        return "picked by FlashInfer"
    return sampler(model, gpu, settings, rules)


def _mixes(model: Model) -> bool:
    return model.weights is not None and model.weights.routes


def _quantized(model: Model) -> bool:
    return model.weights is not None and any(
        weight.stored.bits < UNQUANTIZED for block, _ in model.weights.distinct for weight in block
    )
