"""Where in a model each tensor of a checkpoint belongs, by its name: a layer, the ends, a tower, a draft, or nowhere."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kvplan.arch.weights import HEAD, Weights
from kvplan.sources.modules import key_of, module_of
from kvplan.sources.tensors import Headers, Tensor, layer_of

_TOWER = re.compile(
    r"(?:^|\.)(?:vision\w*|visual|audio\w*|vit|vpm|resampler|aligner|connector|multi_modal_projector|mm_projector|mlp1|embed_vision"
    r"|embed_audio|patch_merge_mlp|encoder|v|mm)\."
)
_DRAFT = re.compile(r"(?:^|\.)(?:mtp\w*|nextn)\b")
_PREDICTS = re.compile(r"\.(?:eh_proj|enorm|hnorm|shared_head)\b")
"""Modules that only prediction layers have. Source: DeepSeek-V3's README_WEIGHTS.md."""
_BUFFER = re.compile(r"(?:\.masked_bias|rotary_emb\.inv_freq|\.position_ids)$")
MASK_DIMENSIONS = 4
"""Of the mask that old files of GPT-2 and its kin keep beside each layer, as attn.bias."""


@dataclass(frozen=True, slots=True)
class Places:
    """Tensors of a checkpoint by what they are part of.

    ends: before and after the layers. layers: by number. beyond: of layers that the config doesn't describe, which aren't
    prediction layers. aside: no parameters (`is_aside`).
    """

    ends: Sequence[Tensor]
    layers: Mapping[int, Sequence[Tensor]]
    towers: Sequence[Tensor]
    drafts: Sequence[Tensor]
    beyond: Sequence[Tensor]
    aside: Sequence[Tensor]

    @property
    def main_bytes(self) -> int:
        """Bytes of the layers that the config describes, and of the ends."""
        return sum(map(tensor_bytes, (self.ends, *self.layers.values())))


def tensor_bytes(tensors: Iterable[Tensor]) -> int:
    """Bytes of all of them."""
    return sum(tensor.bytes for tensor in tensors)


def places(weights: Weights, headers: Headers) -> Places:
    """Each tensor's place in a model of those weights."""
    layers: dict[int, list[Tensor]] = defaultdict(list)
    ends: list[Tensor] = []
    towers: list[Tensor] = []
    drafts: list[Tensor] = []
    beyond: list[Tensor] = []
    aside: list[Tensor] = []
    predicting = {layer_of(tensor.name) for tensor in headers.tensors if _predicts(tensor.name)}
    for tensor in headers.tensors:
        number = layer_of(tensor.name)
        if is_aside(tensor.name, tensor.shape, weights):
            aside.append(tensor)
        elif _DRAFT.search(tensor.name):
            drafts.append(tensor)
        elif _TOWER.search(tensor.name):
            towers.append(tensor)
        elif number is None:
            ends.append(tensor)
        elif number < len(weights.layers):
            layers[number].append(tensor)
        else:
            (drafts if weights.draft or number in predicting else beyond).append(tensor)
    return Places(ends, layers, towers, drafts, beyond, aside)


def _predicts(name: str) -> bool:
    return _DRAFT.search(name) is not None or _PREDICTS.search(name) is not None


def is_draft(name: str) -> bool:
    """Whether a tensor is of the layers that only speculative decoding uses, by its name."""
    return _DRAFT.search(name) is not None


def is_aside(name: str, shape: tuple[int, ...], weights: Weights) -> bool:
    """Whether a tensor is no parameter: a head beside the embedding that it is, or a buffer that some files have."""
    if weights.tied and key_of(module_of(name)[0])[1] == HEAD:
        return True
    return _BUFFER.search(name) is not None or (len(shape) == MASK_DIMENSIONS and name.endswith(".bias"))
