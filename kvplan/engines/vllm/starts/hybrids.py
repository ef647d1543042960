"""Classes with recurrent states, of which a config wants none.

vLLM makes their blocks as large as the state that the class computes, whether a layer keeps one or not, unless the whole config
lists its layers and all are attention.

Source: vLLM 0.33 config/model.py is_hybrid, in all releases since 0.11.1; platforms/interface.py _align_hybrid_block_size.
"""

from __future__ import annotations

from kvplan.arch.layers import Recurrent
from kvplan.arch.model import Model
from kvplan.engines.vllm.tables.interfaces import HYBRID
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.engines.vllm.tables.taken import has, taken
from kvplan.engines.vllm.tables.versions import Version, text
from kvplan.errors import NotServed, Unsupported

NEED_ONE = {"OlmoHybridForCausalLM": "OLMoHybrid expects at least one 'linear_attention' layer"}
"""Classes that aren't built without a layer of states, and what is said. Asked of vLLM 0.33."""

WITHOUT_LIST = ("KimiLinearForCausalLM",)
"""Classes whose config vLLM reads by a class of its own, which has no list of layers. Source: vLLM 0.33 transformers_utils/configs."""

EXCUSED: Version = (0, 11, 1)
"""The first release that looks at the list."""

ATTENTION = frozenset({"attention", "full_attention"})


def check(model: Model, rules: Rules) -> None:
    """Nothing, if a layer keeps a state, or vLLM sees that none does.

    Raises: NotServed for a class that isn't built so; Unsupported where blocks are aligned to a state that nothing says the size of.
    """
    name = taken(model, rules.version)
    if name is None or not has(name, HYBRID, rules.version) or model.has(Recurrent):
        return
    if name in NEED_ONE:
        raise NotServed(
            f"vLLM {text(rules.version)} doesn't build {model.origin.id} without a recurrent layer",
            cause=NEED_ONE[name],
            hint="layer_types as published, or --engine ideal",
        )
    if name in WITHOUT_LIST or not _excused(model, rules):
        raise Unsupported(
            f"kvplan doesn't know the blocks that vLLM {text(rules.version)} gives {model.origin.id}",
            cause=f"all its layers are attention, and {name} aligns blocks to the state of a recurrent layer nevertheless",
            hint=_hint(model, rules),
        )


def _excused(model: Model, rules: Rules) -> bool:
    listed = model.windows.kinds if model.windows is not None else ()
    return rules.version >= EXCUSED and model.family == model.whole and bool(listed) and ATTENTION.issuperset(listed)


def _hint(model: Model, rules: Rules) -> str:
    if rules.version < EXCUSED and model.family == model.whole:
        return f"--engine vllm@{text(EXCUSED)} or later, which doesn't where layer_types lists them; or --engine ideal"
    return "layer_types as published, or --engine ideal"
