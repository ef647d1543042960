"""Remarks on sizes: lengths and layouts that the formula accepts and engines don't."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engines.base import Excess
from kvplan.errors import CannotSplit, KvplanError
from kvplan.plan.request import DEFAULT_ENGINE, ONE_GPU
from kvplan.plan.size import SizeRequest


def remarks(request: SizeRequest) -> tuple[str, ...]:
    """Remarks on lengths that nothing serves, and on a layout that the default engine refuses."""
    found, engine, longest = [], request.engine, max(request.lengths)
    excess = Excess.of(request.setup(longest), engine.longest_context(request.model))
    if excess is not None and excess.said is not None:
        found.append(f"{longest:,} tokens are more than the model's own maximum of {excess.longest:,}: {excess.said}.")
    if not engine.allocates and request.parallel != ONE_GPU:
        found += _unlike_plans(request)
    return tuple(found)


def _unlike_plans(request: SizeRequest) -> Iterator[str]:
    """The remark on a layout that the default engine refuses."""
    from kvplan.engines.registry import engine

    try:
        engine(DEFAULT_ENGINE).start(request.setup(max(request.lengths)))
    except CannotSplit as error:
        said = error.problem
        cause = f" ({said.cause})" if said.cause else ""
        yield f"Split by arithmetic, not by an engine's rules: `kvplan fit` refuses this layout, {said.what}{cause}."
    except KvplanError:
        return  # not about the layout
