"""What a request takes of the pool beyond what it keeps, term by term.

blocks x bytes of a block = formula + states in another format + sums of tokens not there yet + own layout + encoder tokens
                            + in flight + rounding + copies + page padding + group padding

The first two may be below zero: there vLLM keeps less than the formula. All others add to it.
"""

from __future__ import annotations

from dataclasses import replace

from kvplan.engines.vllm.blocks.allocate import Plan
from kvplan.engines.vllm.blocks.specs import WINDOWS, Demand, Spec
from kvplan.text import any_of

STATES = {name: f"state kept in {name} by the engine" for name in ("bf16", "fp16", "fp32")}
"""What the difference between the engine's format of a state and the formula's is called."""

NAMES = (
    "sums of tokens not yet there", "other layout than the formula's", "encoder tokens of a whole step", "window reserve for steps in flight", "rounding to whole blocks",
    "copies of recurrent state", "padding of pages", "padding of layer groups",
)  # fmt: skip


def reasons(made: Plan, notes: tuple[tuple[str, int], ...]) -> tuple[str, ...]:
    """How each term of `difference` comes about, with this plan's numbers."""
    settings = made.settings
    states = sorted(
        {layer.spec.held for group in made.layout.groups for layer in group.layers if layer.spec.kind == "state"}
    )
    blocks = sorted({group.block for group in made.layout.groups})
    sizes = [len(group.layers) for group in made.layout.groups]
    how = dict(
        zip(
            NAMES,
            (
                "compressors keep their sums token by token, the formula whole from the start",
                "vLLM's own layout of the tokens that are read: packed rows, wider windows, side caches",
                f"cross-attention counts on max_num_batched_tokens of encoder output, {settings.demand.encoder:,}, however long one input is",
                f"{settings.batches} x {settings.tokens:,} tokens (steps in flight x max_num_batched_tokens), and the window's block not yet freed",
                f"whole blocks of {_or(blocks)} tokens in every group",
                f"{_or(states)} states a request and layer: the running one, and those that prefix caching and drafts keep",
                "pages of smaller layers are filled up to the largest page, for one pool serves all",
                f"groups of {_or(sorted(set(sizes)))} layers: each of their blocks takes as much as the largest group's",
            ),
            strict=True,
        )
    )
    for name, format_ in STATES.items():
        how[format_] = f"mamba_ssm_cache_dtype is {name} for this class; the formula keeps the reference's format"
    return tuple(how[name] for name, _ in notes)


def _or(numbers: list[int]) -> str:
    return any_of(f"{number:,}" for number in numbers)


def stage_bytes(made: Plan, tokens: int, stage: int) -> int:
    """Bytes that a request of `tokens` takes on a GPU of one stage."""
    return made.stages[stage] * made.layout.blocks(replace(made.settings.demand, length=tokens))


def fullest(made: Plan) -> int:
    """The stage with the largest blocks."""
    return max(range(len(made.stages)), key=made.stages.__getitem__)


def difference(
    made: Plan, tokens: int, ideal: int, kept_ideal: int, state: str | None = None
) -> tuple[tuple[str, int], ...]:
    """Why a request of `tokens` takes more on the fullest stage than `ideal`, the formula's bytes there.

    kept_ideal: the formula's bytes with recurrent states in the format called `state`, which vLLM keeps them in.
    """
    stage = fullest(made)
    demand = replace(made.settings.demand, length=tokens)
    kept = crossed = ahead = rounded = copies = padded = taken = 0
    for group in made.layout.groups:
        pages = group.pages(demand)
        for spec in (layer.spec for layer in group.layers if layer.stage == stage):
            content, reserved = _kept(spec, demand), _reserved(spec, demand)
            kept += content
            crossed += reserved - content if spec.kind == "cross" else 0
            ahead += reserved - content if spec.kind not in {"state", "cross"} else 0
            copies += reserved - content if spec.kind == "state" else 0
            rounded += pages * spec.state - reserved
            padded += pages * (spec.page - spec.state)
            taken += pages * spec.page
    grouped = stage_bytes(made, tokens, stage) - taken
    own = kept - kept_ideal
    amounts = (min(own, 0), max(own, 0), crossed, ahead, rounded, copies, padded, grouped)
    states = ((STATES[state], kept_ideal - ideal),) if state else ()
    return tuple((name, amount) for name, amount in (*states, *zip(NAMES, amounts, strict=True)) if amount)


def _kept(spec: Spec, demand: Demand) -> int:
    """Bytes of the tokens that attention will still read."""
    if spec.kind == "state":
        return spec.state
    tokens = spec.tokens(demand)
    if spec.kind in (*WINDOWS, "chunked"):
        tokens = min(demand.length, spec.span or 0)
    elif spec.kind == "cross":
        tokens = min(tokens, spec.span or 0)
    return tokens * spec.state // spec.block


def _reserved(spec: Spec, demand: Demand) -> int:
    """Bytes of all tokens that vLLM counts on, not yet in whole blocks."""
    if spec.kind == "state":
        return spec.held * spec.state
    return spec.tokens(demand) * spec.state // spec.block
