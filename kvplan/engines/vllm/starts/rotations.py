"""Types of rotary positions that vLLM builds, and what each needs to be told.

Source: vLLM 0.33 model_executor/layers/rotary_embedding/__init__.py get_rope; transformers 5.23 modeling_rope_utils.py,
which vLLM reads configs by, and which fills original_max_position_embeddings in.
"""

from __future__ import annotations

from kvplan.arch.model import Model, Rope
from kvplan.engines.vllm.tables.versions import Rules, text
from kvplan.errors import Unsupported

FACTOR = frozenset({"factor"})
FACTORS = frozenset({"long_factor", "short_factor"})

NEEDED: dict[str, frozenset[str]] = {
    **dict.fromkeys(("default", "proportional", "mllama4", "openpangu"), frozenset[str]()),
    **dict.fromkeys(("linear", "ntk", "yarn", "deepseek_yarn", "deepseek_llama_scaling"), FACTOR),
    **dict.fromkeys(("longrope", "su"), FACTORS),
    **dict.fromkeys(("mrope", "bailing_mrope"), frozenset({"mrope_section"})),
    "llama3": FACTOR | {"low_freq_factor", "high_freq_factor"},
    "dynamic": frozenset(),
}
"""By type, the names that it must state. Older releases know fewer types, and none that isn't here."""

EITHER = {"dynamic": FACTOR | {"alpha"}}
"""By type, names of which one must be stated."""


def check(model: Model, rules: Rules) -> None:
    """Nothing, if vLLM builds every rotation that the config states.

    Raises: Unsupported.
    """
    for rope in model.context.ropes:
        missing = _missing(rope)
        if missing is not None:
            raise Unsupported(
                f"vLLM {text(rules.version)} can't build the rotary positions of {model.origin.id}",
                cause=missing,
                hint="its rope_scaling (or rope_parameters) as published, null where the model is used at its own length, "
                "or --engine ideal",
            )


def _missing(rope: Rope) -> str | None:
    if rope.kind not in NEEDED:
        return f"Unknown RoPE scaling type {rope.kind}"
    lacking = sorted(NEEDED[rope.kind].difference(rope.keys))
    if lacking:
        return f"its rope type {rope.kind} states no {' and no '.join(lacking)}"
    either = EITHER.get(rope.kind)
    return (
        f"its rope type {rope.kind} states neither {' nor '.join(sorted(either))}"
        if either and not either.intersection(rope.keys)
        else None
    )
