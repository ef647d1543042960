"""The rules of one checkpoint: which format each of its tensors is kept in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kvplan.arch.storage import BF16, Storage
from kvplan.arch.weights import TOWERS, Component, Weight
from kvplan.families.quantization.names import LAYERS, Names


@dataclass(frozen=True, slots=True)
class Quantization:
    """Formats of one checkpoint.

    dtype: of everything that isn't quantized. linear: of linear layers; None when the checkpoint isn't quantized.
    ignored: modules that stay in dtype. named: formats of modules that differ, None for dtype, the first match wins. only: when there,
    components that are quantized at all. embeddings, head: whether those are. unknown: the method's name when its
    format isn't known, and the bytes are then those of dtype.
    """

    method: str
    dtype: Storage = BF16
    linear: Storage | None = None
    ignored: Names = field(default_factory=lambda: Names.of(()))
    named: tuple[tuple[Names, Storage | None], ...] = ()
    by_component: Mapping[Component, Storage] = field(default_factory=dict)
    only: frozenset[Component] | None = None
    embeddings: bool = False
    head: bool = False
    unknown: str | None = None

    @property
    def plain(self) -> bool:
        """Whether everything is stored in one dtype."""
        return self.linear is None and not self.named and not self.by_component

    def of_layer(self, layer: int) -> object:
        """What sets a layer apart; equal for layers that are stored alike."""
        return self.ignored.of_layer(layer), tuple(names.of_layer(layer) for names, _ in self.named)

    def tells_experts_apart(self, layer: int) -> bool:
        """Whether some experts of a layer may be stored otherwise than others."""
        return any(names.tells_experts_apart(layer) for names in (self.ignored, *(names for names, _ in self.named)))

    def stored(
        self, weight: Weight, spellings: tuple[str, ...], layer: int | None = None, stem: str = LAYERS
    ) -> Storage:
        """Format of one tensor, whose module has these names within its layer, which `stem` and a number name."""
        if not weight.linear or weight.component in TOWERS or weight.name.endswith(".bias"):
            return self.dtype
        if self.only is not None and weight.component not in self.only:
            return self.dtype
        for names, storage in self.named:
            if names.match(spellings, layer, stem) and (self._covers_end(weight.component) or names.names(spellings)):
                return storage or self.dtype
        if self.ignored.match(spellings, layer, stem) or not self._covers(weight.component):
            return self.dtype
        return self.by_component.get(weight.component, self.linear or self.dtype)

    def _covers_end(self, component: Component) -> bool:
        """Whether an embedding or a head may be quantized without being named; anything else may."""
        return component not in ("embedding", "head") or self._covers(component)

    def _covers(self, component: Component) -> bool:
        if component == "embedding":
            return self.embeddings
        if component == "head":
            return self.head
        return component not in ("router", "norm")
