"""The place of each tensor of a checkpoint in a model: a layer, outside the layers, a tower, a draft, or none.

Names decide; if several models have layers, the config's shapes decide which are the language model's.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kvplan.arch.weights import HEAD, Weights
from kvplan.sources.checkpoints.modules import Key, Module, key_of, module
from kvplan.sources.checkpoints.pieces import Piece, piece
from kvplan.sources.checkpoints.stems import TOWER, language_stem
from kvplan.sources.checkpoints.tensors import Headers, Tensor, numbered

_DRAFT = re.compile(r"(?:^|\.)(?:mtp\w*|nextn)\b")
_PREDICTS = re.compile(r"\.(?:eh_proj|enorm|hnorm|shared_head)\b")
"""Modules that only prediction layers have. Source: DeepSeek-V3's README_WEIGHTS.md."""
_BUFFER = re.compile(r"(?:\.masked_bias|rotary_emb\.inv_freq|\.position_ids)$")
MASK_DIMENSIONS = 4
"""Dimensions of the mask that old files of GPT-2 and its kin keep with each layer, as attn.bias."""


@dataclass(frozen=True, slots=True)
class Places:
    """Tensors of a checkpoint by the part of the model that they belong to.

    ends: before and after the layers. layers: by number. beyond: layers that the config doesn't describe and that
    aren't prediction layers. aside: not parameters (buffers, and a head beside the embedding that it equals).
    """

    weights: Weights
    headers: Headers
    ends: Sequence[Piece]
    layers: Mapping[int, Sequence[Piece]]
    towers: Sequence[Piece]
    drafts: Sequence[Piece]
    beyond: Mapping[int, Sequence[Piece]]
    aside: Sequence[Piece]

    @property
    def main_bytes(self) -> int:
        """Bytes of the layers that the config describes and of the ends."""
        return sum(map(pieces_bytes, (self.ends, *self.layers.values())))


def pieces_bytes(pieces: Iterable[Piece]) -> int:
    """Bytes of all pieces."""
    return sum(piece.tensor.bytes for piece in pieces)


def places(weights: Weights, headers: Headers) -> Places:
    """The place of each tensor, in one pass over their names."""
    layered: dict[str, list[tuple[int, Piece]]] = defaultdict(list)
    outside: list[Piece] = []
    drafts: list[Piece] = []
    aside: list[Piece] = []
    for tensor in headers.tensors:
        stem, number, inner = numbered(tensor.name)
        found = piece(tensor, inner)
        if _is_buffer(tensor):
            aside.append(found)
        elif is_draft(tensor.name):
            drafts.append(found)
        elif number is None:
            outside.append(found)
        else:
            layered[stem].append((number, found))
    main = language_stem(layered, weights)
    layers, later = _by_number(layered.pop(main, ()) if main is not None else (), len(weights.layers))
    beyond = {}
    for number, pieces in later.items():
        if weights.draft or any(map(_predicts, pieces)):
            drafts += pieces
        else:
            beyond[number] = pieces
    towers = [one for pieces in layered.values() for _, one in pieces]
    tell = _Outside(main or "", tuple(layered))
    ends: list[Piece] = []
    for one in outside:
        tower = tell.is_tower(one.tensor.name)
        (towers if tower else aside if _is_tied_head(one.module, weights) else ends).append(one)
    lent = _lent(weights, ends, towers)
    towers = [one for one in towers if one not in lent] if lent else towers
    return Places(weights, headers, [*ends, *lent], layers, towers, drafts, beyond, aside)


def _lent(weights: Weights, ends: Iterable[Piece], towers: Iterable[Piece]) -> list[Piece]:
    """Embeddings that files keep with a tower that shares them: an encoder's, if the decoder's isn't there."""
    held = {key for one in ends for key in one.module.keys}
    tables = {key_of(weight.name): weight.shape for weight in weights.first if weight.component == "embedding"}
    missing = {key: shape for key, shape in tables.items() if key not in held and len(shape) > 1}
    lent: dict[Key, Piece] = {}
    for one in towers if missing else ():
        key = one.module.keys[0]
        if missing.get(key) == one.tensor.shape:
            lent.setdefault(key, one)
    return list(lent.values())


def _by_number(
    pieces: Iterable[tuple[int, Piece]], count: int
) -> tuple[dict[int, list[Piece]], dict[int, list[Piece]]]:
    """Tensors of the first `count` layers, and of later ones."""
    first: dict[int, list[Piece]] = defaultdict(list)
    later: dict[int, list[Piece]] = defaultdict(list)
    for number, one in pieces:
        (first if number < count else later)[number].append(one)
    return first, later


class _Outside:
    """Sorts tensors outside all layers by whose layers are nearest in the tree of names."""

    def __init__(self, main: str, others: Iterable[str]) -> None:
        self.main = main.split(".")
        self.others = [stem.split(".") for stem in others]

    def is_tower(self, name: str) -> bool:
        """Whether a tensor belongs to a tower: its name says so, or a tower's layers are nearer than the model's."""
        if TOWER.search(name):
            return True
        steps = name.split(".")
        own = _shared_steps(steps, self.main)
        return any(_shared_steps(steps, other) > own for other in self.others)


def _shared_steps(one: Sequence[str], other: Sequence[str]) -> int:
    """Number of leading parts that two names have in common."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _predicts(one: Piece) -> bool:
    return _PREDICTS.search(one.tensor.name) is not None


def is_draft(name: str) -> bool:
    """Whether a tensor belongs to the layers that only speculative decoding uses, by its name."""
    return ("mtp" in name or "nextn" in name) and _DRAFT.search(name) is not None


def may_lack(name: str, weights: Weights) -> bool:
    """Whether files may lack a tensor of this name: a draft's, a tied head's, a buffer."""
    return is_draft(name) or _is_tied_head(module(name), weights) or _BUFFER.search(name) is not None


def _is_tied_head(found: Module, weights: Weights) -> bool:
    return weights.tied and found.keys[0][1] == HEAD


def _is_buffer(tensor: Tensor) -> bool:
    name = tensor.name
    return name.endswith(("bias", "inv_freq", "position_ids")) and (
        _BUFFER.search(name) is not None or (len(tensor.shape) == MASK_DIMENSIONS and name.endswith(".bias"))
    )
