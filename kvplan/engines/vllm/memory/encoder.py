"""What images and videos take of vLLM's start-up profile: first the encoder runs, then its embeddings stay while text is read.

    items     of the longest kind, as many as fit the budget: the larger of max_num_batched_tokens and one item
    kept      tokens x (hidden size x (1 + layers that are given embeddings of their own)), and in the first runner the
              pixels they were made of
    running   patches x (pixels + 5 x width + what an MLP's first half puts out), all items at once, or a piece of their frames

Source: vLLM 0.8 to 0.33 v1/worker/gpu_model_runner.py and gpu/model_runner.py: profile_run; multimodal/encoder_budget.py. The
5 is what a log of Qwen2.5-VL on an A100 shows (15.3 GiB for 458,752 patches); those of Qwen3.5 on an L4 and of Qwen3.6 on
two kinds of Blackwell agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from kvplan.arch.model import Model
from kvplan.arch.parallel import Parallel
from kvplan.arch.weights import Block, Weight
from kvplan.engines.vllm.settings import Settings
from kvplan.engines.vllm.tables.items import UNKNOWN, Item, longest
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.engines.vllm.tables.versions import Version

SINCE: Version = (0, 8, 0)
"""The first release whose profile is this one (V1)."""
HALF = 2
"""Bytes of an activation, and of a pixel."""
MATRIX = 2
"""Dimensions of a matrix."""
STATES = 5
"""Copies of a patch's hidden state that a layer has at once."""


@dataclass(frozen=True, slots=True)
class Tower:
    """Elements of one patch on one rank.

    pixels: of its input. width: of its hidden state. layer: of what an MLP's first half puts out, before and after its activation.
    """

    pixels: int
    width: int
    layer: int


USUAL = Tower(588, 1152, 2 * 4304)
"""For towers whose shapes aren't known: SigLIP so400m's, which most published models have."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """Bytes. kept: beside text that is read afterwards. running: while the encoder runs."""

    kept: int
    running: int


NOTHING = Encoded(0, 0)


def encoded(
    model: Model, hidden: int, memory: int, settings: Settings, rules: Rules, *, second: bool, most: bool
) -> Encoded:
    """What is likely, or the most that may be.

    hidden: width of the text model. memory: of the GPU, in bytes. second: whether the second model runner serves it. most:
    the other end than the likely one, which differs where nobody says how long the longest item is.
    """
    if second and not rules.second_encodes:
        return NOTHING
    item = longest(model, rules.version) if rules.version >= SINCE else None
    if item is None and not (most and _sees(model)):
        return Encoded(HALF * settings.tokens * hidden, 0)  # as many as tokens of a step
    return _of(item or UNKNOWN, model, hidden, memory, settings, rules, second=second)


def _of(
    item: Item, model: Model, hidden: int, memory: int, settings: Settings, rules: Rules, *, second: bool
) -> Encoded:
    tokens = item.fitting(settings.length)
    counted = item.counted or tokens
    budget = max(settings.tokens, counted)
    prompts = settings.sequences * max(1, settings.length // counted)
    items = max(1, min(budget // counted, prompts))
    towers = model.weights.towers if model.weights is not None else ()
    tower = _tower(towers, settings.parallel) or USUAL
    patches = items * tokens * item.patches
    width = hidden * (1 + levels(towers))
    pixels = HALF * patches * tower.pixels
    own = HALF * width * items * tokens
    held = HALF * width * items * {"not": tokens, "to the budget": budget, "to the item": counted}[rules.items_expanded]
    at_once = item.at_once(patches, memory)
    done = patches - at_once  # of these the last hidden state waits for the others
    running = HALF * (patches * tower.pixels + at_once * (STATES * tower.width + tower.layer) + done * tower.width)
    expanding = own if held > own else 0  # the encoder's own output, while it is blown up and afterwards
    return Encoded(max(own, held) + expanding + (0 if second else pixels), running)


def _sees(model: Model) -> bool:
    """Whether it has an encoder for images, known or missing."""
    if model.weights is None:
        return False
    return any(each.component == "vision" for each in model.weights.towers) or any(
        part.startswith("vision") for part in model.weights.missing
    )


def _tower(towers: Block, parallel: Parallel) -> Tower | None:
    """Of the tensors that cut an image into patches and of one layer's MLP."""
    vision = [each for each in towers if each.component == "vision" and len(each.shape) > 1]
    cut = next((each for each in vision if each.name.startswith("patch") and "pos" not in each.name), None)
    if cut is None:
        return None
    whole = any(each.units % parallel.tp for each in towers)  # ranks that can't share its heads hold it whole
    halves = [_outputs(each, parallel, whole=whole) for each in vision if _widens(each, cut.shape[0])]
    return Tower(prod(cut.shape[1:]), cut.shape[0], sum(halves) + max(halves, default=0))


def _widens(weight: Weight, width: int) -> bool:
    """Whether it is a matrix of a layer's MLP, other than the one that leads back to the hidden state."""
    return weight.name.startswith("mlp.") and len(weight.shape) == MATRIX and weight.shape[1] == width


def _outputs(weight: Weight, parallel: Parallel, *, whole: bool) -> int:
    return weight.shape[0] if whole else weight.on_rank(parallel)[0][0]


def levels(towers: Block) -> int:
    """Layers of the text model that are given embeddings of their own."""
    return max((each.copies for each in towers if each.name.startswith("deepstack.")), default=0)
