"""The second model runner, asked for by VLLM_USE_V2_MODEL_RUNNER=1 for what it doesn't have.

Source: vLLM 0.22 to 0.33 config/vllm.py _get_v2_model_runner_unsupported_features, _validate_v2_model_runner.
"""

from __future__ import annotations

from kvplan.arch.model import Model
from kvplan.engines.vllm.memory.drafting import drafting
from kvplan.engines.vllm.memory.runner import drafts
from kvplan.engines.vllm.settings import Settings, has_state
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.engines.vllm.tables.variables import CHOSEN, RUNNER
from kvplan.engines.vllm.tables.versions import Version, text
from kvplan.errors import WontStart

STATES: Version = (0, 24, 0)
"""The first release whose second runner serves recurrent states."""
ENDS: Version = (0, 26, 0)
"""The first whose second runner caches their prefixes."""


def check(model: Model, settings: Settings, rules: Rules) -> None:
    """Nothing, if the second runner isn't asked for, or has what the start needs.

    Raises: WontStart.
    """
    lacks = _lacks(model, settings, rules) if settings.second_runner and rules.version >= CHOSEN else None
    if lacks is not None:
        raise WontStart(
            f"vLLM {text(rules.version)} doesn't start {model.origin.id} with {RUNNER}=1",
            cause=f"Model Runner V2 does not yet support: {lacks}",
            hint=f"leave {RUNNER} out",
        )


def _lacks(model: Model, settings: Settings, rules: Rules) -> str | None:
    if has_state(model) and rules.version < STATES:
        return "hybrid/mamba models"
    if settings.aligned and rules.version < ENDS:
        return "hybrid/mamba models with align cache mode"
    method = drafting(model)
    unsure = method == "guessed"  # by n-grams or by what isn't planned
    if settings.drafted and not unsure and not drafts(model, settings.parallel.pp, rules):
        return f"drafts of this kind ({method})"
    return None
