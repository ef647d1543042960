"""llama.cpp's named mixes: which type each matrix of a model gets in a file called Q4_K_M or Q8_0.

A mix has a base type for every matrix. Some matrices get another one, by what they do and by where their layer lies:

    value       attention's values, and latents' kv_b_proj; another rule where at least 4 query heads share one
    down        the last matrix of an MLP, of experts and of shared experts
    out         attention's output projection; another rule with 8 experts
    ends        the head q6_k, or the base type where that is q8_0, and the embedding the base type; an embedding that is the
                head is kept as the head is

Files with the name of a type (Q8_0, Q6_K, Q5_1, Q5_0, Q4_1, Q4_0) are mixes with rules for the head alone. Made with an importance
matrix, Q4_0 and Q5_0 keep the last matrix of the first eighth of MLPs in q4_1 and q5_1, 0.3 % more, which isn't counted.

With 8 experts keys and values are q8_0. With 80 layers and shared values (70B) those in 3 or 4 bits get q5_k. A row that no
block of 256 divides takes an older type in blocks of 32. Vectors, routers and convolutions are fp32; towers are files of
their own and stay as they are.

Source: ggml-org/llama.cpp, src/llama-quant.cpp of 2026: llama_tensor_get_type_impl, tensor_type_fallback,
tensor_allows_quantization. Files of 2024 and 2025 are the same but for latents. Until 2026 the rule for values was for attn_v alone:
kv_b_proj had the base type. Converters split it since April 2025 (pull request 12801) into attn_k_b and attn_v_b, which no rule is about:
both have the base type, attn_k_b, whose rows are as long as a key without its rotary part, mostly in blocks of 32. Counted is the rule
of 2026 for one matrix, the most that any of them takes: 0.04 % more than a Q3_K_M of DeepSeek-V3 from before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from kvplan.arch.formats import spelled
from kvplan.arch.model import Model
from kvplan.arch.storage import ALIASES, FP16, FP32, GGML, NAMED, Storage
from kvplan.arch.weights import TOWERS, Block, Kept, Weight, Weights, matrix
from kvplan.errors import Unsupported

Role = Literal["embedding", "head", "value", "key", "down", "out", "other"]
Rule = tuple[tuple[str, str], ...]
"""Where, by the names of PLACES, and the type that the matrix gets there; the first that holds counts."""


def more_bits(layer: int, layers: int) -> bool:
    """Whether a layer is in the first eighth, in the last, or every third between."""
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2


PLACES: Mapping[str, Callable[[int, int], bool]] = {
    "every": lambda at, of: at < of,
    "more": more_bits,
    "first 2": lambda at, of: at < min(2, of),
    "first 4": lambda at, of: at < min(4, of),
    "first eighth": lambda at, of: at < of // 8,
    "first sixteenth": lambda at, of: at < of // 16,
}
"""Whether a layer is there, by its number and how many there are."""

OLDER = {"q2_k": "q4_0", "q3_k": "q4_0", "q4_k": "q5_0", "q5_k": "q5_1", "q6_k": "q8_0"}
"""Type of blocks of 32 for each in blocks of 256."""
SHARED = 4
"""Query heads that share a value, from which it is worth more bits."""
EIGHT = 8
"""Experts of the models that some rules are for."""
SEVENTY = 80
"""Layers of the 70B models that one rule is for."""
PLAIN = {"q2_k": "q3_k", "q3_k": "q3_k", "q4_k": "q4_k", "q5_k": "q5_k"}
"""The type to ask for instead of a mix of that base: of no file, but known for any linear layer."""
RAISED = {"q3_k": "q5_k", "q4_k": "q5_k"}
"""Types of values that 70B models keep in more bits."""


@dataclass(frozen=True, slots=True)
class Mix:
    """A named mix of types.

    base: of what no rule is about. head: of the head. value, down, out: rules of these matrices. value_shared: instead of `value` where at
    least 4 query heads share one. out_of_eight: instead of `out` in models of 8 experts.
    """

    name: str
    base: str
    head: str = "q6_k"
    value: Rule = ()
    value_shared: Rule | None = None
    down: Rule = ()
    out: Rule = ()
    out_of_eight: Rule = ()

    @property
    def one_type(self) -> bool:
        """Whether it is a file with the name of a type: no rule but the head's asks what a matrix does."""
        return self.name == self.base

    def chooser(self, weights: Weights) -> Callable[[Weight, int | None], Storage]:
        """The type of each weight, by the layer it is in."""
        seen = _seen(weights)

        def choose(weight: Weight, layer: int | None) -> Storage:
            if weight.component in TOWERS:
                return weight.stored
            if not weight.linear or weight.component == "router":
                return FP32
            return _fitting(self._type(_role(weight, seen), layer, seen), matrix(weight.shape)[1])

        return choose

    def _type(self, role: Role, layer: int | None, seen: _Seen) -> str:
        if role == "head":
            return self.head
        if role in ("key", "value") and seen.experts == EIGHT:
            return "q8_0"
        shared = self.value if self.value_shared is None or not seen.shared else self.value_shared
        rules: dict[Role, Rule] = {
            "value": shared, "down": self.down, "out": self.out_of_eight if seen.experts == EIGHT else self.out
        }  # fmt: skip
        place = seen.places.get((role, layer))
        found = self.base if place is None else _first(rules.get(role, ()), *place, self.base)
        return RAISED.get(found, found) if role == "value" and seen.seventy else found


MIXES = {
    mix.name: mix
    for mix in (
        Mix(
            "q2_k", "q2_k", value=(("every", "q3_k"),), value_shared=(("every", "q4_k"),), down=(("every", "q3_k"),),
            out=(("every", "q3_k"),), out_of_eight=(("every", "q5_k"),),
        ),
        Mix("q2_k_s", "q2_k", value_shared=(("every", "q4_k"),), down=(("first eighth", "q4_k"),)),
        Mix("q3_k_s", "q3_k", out_of_eight=(("every", "q5_k"),)),
        Mix(
            "q3_k_m", "q3_k", value=(("first 2", "q5_k"), ("every", "q4_k")),
            down=(("first sixteenth", "q5_k"), ("every", "q4_k")), out=(("every", "q4_k"),), out_of_eight=(("every", "q5_k"),),
        ),
        Mix("q3_k_l", "q3_k", value=(("every", "q5_k"),), down=(("every", "q5_k"),), out=(("every", "q5_k"),)),
        Mix(
            "q4_k_s", "q4_k", value=(("first 4", "q5_k"),), down=(("first eighth", "q5_k"),), out_of_eight=(("every", "q5_k"),),
        ),
        Mix("q4_k_m", "q4_k", value=(("more", "q6_k"),), down=(("more", "q6_k"),), out_of_eight=(("every", "q5_k"),)),
        Mix("q5_k_s", "q5_k"),
        Mix("q5_k_m", "q5_k", value=(("more", "q6_k"),), down=(("more", "q6_k"),)),
        Mix("q8_0", "q8_0", head="q8_0"),
        Mix("q6_k", "q6_k"),
        Mix("q5_1", "q5_1"),
        Mix("q5_0", "q5_0"),
        Mix("q4_1", "q4_1"),
        Mix("q4_0", "q4_0"),
    )
}  # fmt: skip
"""Files that --weight-dtype knows by name, beside formats of linear layers."""


def kept_named(name: str) -> Kept:
    """The format or the mix of that name, other spellings included.

    Raises: UnknownName.
    """
    known: dict[str, Kept] = {**NAMED, **MIXES}
    return spelled(name, known, ALIASES, "a format for weights")


FUSED = frozenset((
    "RefinedWeb", "RefinedWebModel", "bloom", "chatglm", "codeshell", "dbrx", "falcon", "gpt2", "gpt_bigcode", "gpt_neox", "gptj",
    "jais", "mpt", "phi", "phi-msft", "phi3", "qwen",
))  # fmt: skip
"""Families whose queries, keys and values are one matrix in a GGUF file, whose rules changed from year to year."""
HEAD_OF_ITS_OWN = frozenset(("falcon", "RefinedWeb", "RefinedWebModel"))
"""Those whose head has a rule of its own."""
OWN = frozenset(("gpt_oss",))
"""Families that GGUF keeps in the checkpoint's own format whatever mix is asked for."""
KNOWN = {
    "attention": frozenset(("q_proj", "k_proj", "v_proj", "o_proj", "q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj")),
    "mlp": frozenset(("gate_proj", "up_proj", "down_proj")),
    "experts": frozenset(("gate_proj", "up_proj", "down_proj")),
    "shared_experts": frozenset(("gate_proj", "up_proj", "down_proj")),
    "router": frozenset(("gate", "shared_expert_gate")),
    "embedding": frozenset(("embed_tokens",)),
    "head": frozenset(("lm_head",)),
}  # fmt: skip
"""Matrices that the rules are about, or that they leave alone."""


def check(mix: Mix, model: Model) -> None:
    """Refuse a model whose matrices the rules aren't known for.

    Raises: Unsupported.
    """
    weights = model.weights
    blocks = () if weights is None else (weights.first, weights.last, *(block for block, _ in weights.distinct))
    unknown = next((name for name in _unknown(blocks, one_type=mix.one_type)), None)
    if unknown is None and model.family not in OWN | (HEAD_OF_ITS_OWN if mix.one_type else FUSED):
        return
    raise Unsupported(
        f"what {mix.name} makes of {model.origin.id} isn't known",
        cause=f"llama.cpp has rules of its own for its {unknown}"
        if unknown
        else f"llama.cpp has rules of its own for {model.family}",
        hint=f"{_instead(mix)}--weights with the file's size",
    )


def _instead(mix: Mix) -> str:
    """What else to ask for."""
    plain = PLAIN.get(mix.base)
    return "" if plain is None else f"one type for every linear layer: --weight-dtype {plain}, or "


def _unknown(blocks: tuple[Block, ...], *, one_type: bool) -> Iterator[str]:
    """Names of matrices that no rule is about; in files of one type, of tables beside the embedding alone."""
    for weight in (weight for block in blocks for weight in block):
        if one_type and not (weight.linear and weight.component in ("embedding", "head")):
            continue
        named = weight.last in KNOWN.get(weight.component, frozenset())
        if (weight.linear and not named) or (len(weight.shape) > 1 and not weight.linear):
            yield weight.name


@dataclass(frozen=True, slots=True)
class _Seen:
    """What rules look at in a model.

    experts: routed ones of a layer, 1 without any. shared: whether at least 4 query heads share a value. seventy: whether
    it has the shape of Llama 2 70B. tied: whether the embedding is the head. places: of a role in a layer, its number and of how many.
    """

    experts: int
    shared: bool
    seventy: bool
    tied: bool
    places: dict[tuple[Role, int | None], tuple[int, int]] = field(default_factory=dict)


def _seen(weights: Weights) -> _Seen:
    every = [weight for block, _ in weights.distinct for weight in block]
    experts = max((weight.copies for weight in every if weight.routed), default=1)
    heads = {weight.last: weight.units for weight in reversed(every) if weight.component == "attention"}
    queries, values = heads.get("q_proj", 0), heads.get("v_proj", 0)
    layers = len(weights.layers)
    seen = _Seen(
        experts, bool(values) and queries >= SHARED * values, layers == SEVENTY and queries > values > 0, weights.tied
    )
    roles = [{_role(weight, seen) for weight in layer} for layer in weights.layers]
    with_value = [number for number, found in enumerate(roles) if "value" in found]
    with_down = [number for number, found in enumerate(roles) if "down" in found]
    seen.places.update({("value", layer): (at, len(with_value)) for at, layer in enumerate(with_value)})
    seen.places.update({("down", layer): (layer if experts > 1 else at, layers) for at, layer in enumerate(with_down)})
    seen.places.update({("out", layer): (layer, layers) for layer in range(layers)})
    return seen


def _role(weight: Weight, seen: _Seen) -> Role:
    """What a matrix does."""
    if weight.component in ("embedding", "head"):
        return "head" if weight.component == "head" or seen.tied else "embedding"
    roles: dict[str, Role] = {
        "v_proj": "value",
        "kv_b_proj": "value",
        "k_proj": "key",
        "o_proj": "out",
        "down_proj": "down",
    }
    return roles.get(weight.last, "other")


def _first(rule: Rule, layer: int, layers: int, base: str) -> str:
    """The type of the first place that a layer is in."""
    return next((found for place, found in rule if PLACES[place](layer, layers)), base)


def _fitting(found: str, columns: int) -> Storage:
    """The type, an older one where its blocks don't divide a row, and fp16 where those of the older one don't either."""
    stored = GGML[found]
    if columns % stored.group:
        stored = GGML[OLDER[found]] if found in OLDER else FP16
    return FP16 if stored.group and columns % stored.group else stored
