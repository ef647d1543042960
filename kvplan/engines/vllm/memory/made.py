"""Buffers that a model runner makes before the start-up profile: counted since vLLM adds up what it has taken from the device.

    second runner   for each of max_num_seqs and word 4 B and a bit, of tokens counted for penalties; a bit of each logit for grammars
    prompts         tokens x hidden size, where they come as embeddings: of what sees or hears, and always in the first runner; once more
                    where a model of the second one embeds words itself
    drafts          tokens x their hidden states, in the first runner their embeddings too

Before, neither weights nor the step's peak had them. Source: vLLM 0.27 and 0.33 utils/mem_utils.py memory_profiling (total_consumed);
v1/worker/gpu: sample/penalties.py, structured_outputs.py, mm/encoder_runner.py, spec_decode/*/speculator.py; of the first runner
v1/worker/gpu_model_runner.py and v1/spec_decode/llm_base_proposer.py; model_executor/models: longcat_flash_ngram.py and
diffusion_gemma.py _inputs_embeds_buf. Logs of Qwen3-32B (0.27.1, 1,024 sequences) and
Qwen3-14B (0.29, 512) leave 0.57 and 0.34 GiB for what comes to 0.60 and 0.30.
"""

from __future__ import annotations

from typing import NamedTuple

from kvplan.arch.layers import Compressed
from kvplan.arch.model import Model
from kvplan.engines.vllm.memory.dimensions import Dimensions
from kvplan.engines.vllm.memory.drafting import drafting
from kvplan.engines.vllm.settings import Settings
from kvplan.engines.vllm.tables.architectures import classes, is_pooling
from kvplan.engines.vllm.tables.rules import Drafting, Rules

HALF, COUNT = 2, 4
"""Bytes of an activation, and of a word that is counted."""
MASKED = 32
"""Words of a vocabulary that one number of a mask has bits for; it takes as many bytes as a count."""
EMBEDS = {"LongcatFlashNgramForCausalLM", "DiffusionGemmaForBlockDiffusion"}
"""Classes that embed words themselves, in the second runner."""
STATELESS: frozenset[Drafting] = frozenset({"guessed", "model"})
"""Ways of drafting that go on from no hidden states."""


class Made(NamedTuple):
    """Bytes. everywhere: on each rank. sampling: on ranks that sample, too, which are those of the last pipeline stage."""

    everywhere: int
    sampling: int


NONE_MADE = Made(0, 0)


def made(model: Model, sizes: Dimensions, settings: Settings, rules: Rules, *, second: bool) -> Made:
    """Buffers of one rank. second: whether the second model runner serves the model."""
    if not rules.made_counted:
        return NONE_MADE
    embedded = int(sizes.towers or not second) + int(second and bool(EMBEDS.intersection(classes(model))))
    prompts = HALF * settings.tokens * sizes.hidden * embedded
    drafts = _drafts(model, sizes, settings, second=second)
    return Made(prompts, drafts + (_samplers(model, sizes, settings) if second else 0))


def _samplers(model: Model, sizes: Dimensions, settings: Settings) -> int:
    """None of a model that only embeds or classifies."""
    if classes(model) and is_pooling(model):
        return 0
    mask = COUNT * -(-sizes.vocabulary // MASKED)
    return settings.sequences * (COUNT * sizes.vocabulary + mask + mask * (1 + settings.drafted))


def _drafts(model: Model, sizes: Dimensions, settings: Settings, *, second: bool) -> int:
    """What a draft goes on from; the second runner makes its embeddings as it loads the draft, so that they count as weights."""
    method = drafting(model)
    if not settings.drafted or method == "guessed" or (second and method in STATELESS):
        return 0
    hidden = (model.drafter.hidden_size if model.drafter is not None else None) or sizes.hidden
    streams = sizes.streams if model.has(Compressed) else 1
    return HALF * settings.tokens * hidden * (streams if second else streams + 1)
