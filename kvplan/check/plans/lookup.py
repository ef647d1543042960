"""Models, GPUs and engines by the names that budgets give them, each looked up once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kvplan.errors import KvplanError

if TYPE_CHECKING:
    from kvplan.arch.model import Model
    from kvplan.engines.registry import Found
    from kvplan.hardware.gpu import Gpu

K = TypeVar("K")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Known:
    """A model, and what pins it: the Hub's commit, or a digest of a local description."""

    model: Model
    revision: str | None


@dataclass(slots=True)
class Lookup:
    """What was found by each name; a failure is kept as well.

    offline: models come from files, the bundled ones and the Hub's cache.
    """

    offline: bool = False
    models: dict[tuple[str, str | None], Known | KvplanError] = field(default_factory=dict)
    gpus: dict[tuple[str, int | None], Gpu | KvplanError] = field(default_factory=dict)
    engines: dict[str, Found | KvplanError] = field(default_factory=dict)

    def model(self, name: str, revision: str | None) -> Known:
        """A model, its weights by the checkpoint's own headers where they can be reached. Raises: KvplanError."""
        return _once(self.models, (name, revision), lambda: _load(name, revision, offline=self.offline))

    def gpu(self, name: str, memory_bytes: int | None) -> Gpu:
        """A GPU, with as much memory as is said. Raises: KvplanError."""
        from kvplan.api import load_gpu

        return _once(self.gpus, (name, memory_bytes), lambda: load_gpu(name, memory=memory_bytes))

    def engine(self, spec: str) -> Found:
        """An engine by its name and release. Raises: KvplanError."""
        from kvplan.engines.registry import find

        return _once(self.engines, spec, lambda: find(spec))


def _once(kept: dict[K, T | KvplanError], key: K, look: Callable[[], T]) -> T:
    if key not in kept:
        try:
            kept[key] = look()
        except KvplanError as error:
            kept[key] = error
    found = kept[key]
    if isinstance(found, KvplanError):
        raise found
    return found


def _load(name: str, revision: str | None, *, offline: bool) -> Known:
    from kvplan.api.given import weigh
    from kvplan.sources.models import load_document, model_of

    document = load_document(name, revision=revision, offline=offline)
    model = model_of(document)
    pinned = model.origin.revision
    if pinned is None and Path(name).is_absolute():
        pinned = _digest(document.config)
    return Known(weigh(model, offline=offline), pinned)


def _digest(config: Mapping[str, object]) -> str:
    """`sha256:` and twelve digits of the description's content, however it is laid out."""
    import hashlib
    import json

    text = json.dumps(config, sort_keys=True, default=str)
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
