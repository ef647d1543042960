"""Packed integers whose scales stand for groups of inputs: which tensor ranks vLLM has a kernel for.

A matrix cut by its inputs must give each rank whole groups, or run in a kernel that doesn't ask. Source: vLLM 0.33
layers/quantization/{auto_awq,auto_gptq,moe_wna16}.py, compressed_tensors/schemes/compressed_tensors_wNa16.py,
kernels/linear/mixed_precision/{marlin,machete,exllama}.py, and the same of releases from 0.7.3 on.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.arch.model import Model
from kvplan.arch.storage import AWQ_SOURCE, CHANNEL_SOURCE, GPTQ_SOURCE, INT4, QUARK_SOURCE
from kvplan.arch.traits import GPTQ_ORDER
from kvplan.arch.weights import Weight, Weights
from kvplan.engines.vllm.layout.views import MAMBA_1
from kvplan.engines.vllm.settings import Settings
from kvplan.engines.vllm.tables.rules import Rules
from kvplan.engines.vllm.tables.versions import text
from kvplan.errors import CannotSplit, Unsupported
from kvplan.text import any_of

METHODS = {
    ("awq", AWQ_SOURCE): "awq",
    ("gptq", GPTQ_SOURCE): "gptq",
    ("compressed-tensors", CHANNEL_SOURCE): "compressed-tensors",
    ("auto-round", AWQ_SOURCE): "awq",
    ("auto-round", GPTQ_SOURCE): "gptq",
    ("quark", QUARK_SOURCE): "quark",
}
"""Quantization methods that are known here, by a model's method and where its formats were described."""

WITH_ZEROS = "awq with zero points"
WHAT_IF_METHODS = ("awq", "gptq")
"""What may load packed integers in groups of 128 that are only asked about."""
PACKED_BITS = (4, 8)
MARLIN_INPUTS = 128
"""What Marlin cuts inputs into; releases without padding refuse other sizes."""
MACHETE = 9
MACHETE_INPUTS, MACHETE_OUTPUTS, MACHETE_GROUPS = 64, 128, (64, 128)
"""Machete runs on Hopper alone, and doesn't ask whether groups are whole."""
LEAST_GROUP = 32
"""Down to which the kernels for any experts halve groups until they are whole."""
SIZES = (1, 2, 4, 8, 16, 32)


def check(model: Model, settings: Settings, rules: Rules, device: tuple[int, int]) -> None:
    """Refuse groups that vLLM has no kernel for, as they are or as tensor ranks cut them. device: compute capability.

    Raises: CannotSplit; Unsupported where one GPU has none either.
    """
    for weight, methods in _packed(model):
        share = weight.on_rank(settings.parallel)[0][1]
        why = _refused(weight, methods, share, model, rules, device)
        if why is None:
            continue
        cause = f"{why} ({weight.name}, {weight.stored.name})"
        if share == weight.shape[1]:
            raise Unsupported(
                f"vLLM {text(rules.version)} doesn't load {model.origin.id}",
                cause=cause,
                hint="a checkpoint whose groups divide its inputs",
            )
        tp, dp = settings.parallel.tp, settings.parallel.dp
        working = [str(size) for size in SIZES if size < tp and _works(size, dp, weight, model, rules, device)]
        sizes = f"--tp {any_of(working)}" if working else "a checkpoint with smaller groups"
        raise CannotSplit(
            f"vLLM can't split {model.origin.id} by --tp {tp}",
            cause=cause,
            hint=f"{sizes}{f', or --ep {tp * dp} to keep experts whole' if weight.routed else ''}",
        )


def _works(size: int, dp: int, weight: Weight, model: Model, rules: Rules, device: tuple[int, int]) -> bool:
    """Whether every matrix runs when `size` tensor ranks share it, `weight` evenly."""
    return not weight.shape[1] % (size * (dp if weight.routed else 1)) and all(
        _refused(each, how, _inputs(each, size, dp), model, rules, device) is None for each, how in _packed(model)
    )


def _inputs(weight: Weight, tp: int, dp: int) -> int:
    """Inputs of one rank's share."""
    return weight.shape[1] // (tp * (dp if weight.routed else 1)) if weight.split == 1 else weight.shape[1]


def _packed(model: Model) -> Iterator[tuple[Weight, tuple[str, ...]]]:
    """Matrices of packed integers in groups of inputs, and how they were quantized, or may have been where that is asked."""
    if model.weights is None:
        return
    for weight in (weight for layer, _ in model.weights.distinct for weight in layer):
        methods = _methods(model, model.weights, weight)
        grouped = weight.stored.group > 0 and weight.stored.group_rows == 1 and weight.stored.bits in PACKED_BITS
        mixer = model.family in MAMBA_1 and weight.component == "recurrent"  # not quantized
        if methods and grouped and weight.linear and not mixer:
            yield weight, methods


def _methods(model: Model, weights: Weights, weight: Weight) -> tuple[str, ...]:
    if model.what_if is not None:
        return WHAT_IF_METHODS if weight.stored == INT4 else ()
    method = METHODS.get((weights.method, weight.stored.source))
    if method == "awq" and _by_kernels(model):
        method = WITH_ZEROS
    return () if method is None else (method,)


def _by_kernels(model: Model) -> bool:
    """Whether auto-round's AWQ has zero points, which other kernels than AWQ's own take."""
    block = model.quantized
    asked = block is not None and block.method == "auto-round"
    return asked and any(scheme.symmetric is False for scheme in (block.schemes if block else ()))


def _refused(
    weight: Weight, methods: tuple[str, ...], share: int, model: Model, rules: Rules, device: tuple[int, int]
) -> str | None:
    """VLLM's words for a share of `share` inputs, by the first of the methods; None where any runs it."""
    said = [_refused_by(method, weight, share, model, rules, device) for method in methods]
    return None if None in said else said[0]


def _refused_by(
    method: str, weight: Weight, share: int, model: Model, rules: Rules, device: tuple[int, int]
) -> str | None:
    if share == weight.shape[1] and not share % weight.stored.group:
        return None
    if weight.routed:
        return _experts(weight, method, share, rules)
    whole = not share % weight.stored.group
    if method in ("awq", "quark"):
        return None if whole else NOT_ALIGNED
    if not _has_kernel(weight, method, share, model, rules, device):
        reason = f"{share} inputs are not divisible by group_size = {weight.stored.group}"
        if whole:
            reason = f"Weight input_size_per_partition = {share} is not divisible by min_thread_k = {MARLIN_INPUTS}"
        return f"Failed to find a kernel that can implement the WNA16 linear layer: {reason}"
    return None if whole or method in ("gptq", WITH_ZEROS) else _said(share, weight.stored.group, rules)


def _said(share: int, group: int, rules: Rules) -> str:
    """What compressed-tensors' layers say of groups that ranks would cut."""
    if rules.groups_named:
        return f"Weight input_size_per_partition={share} is not divisible by group_size={group}"
    return f"assert input_size_per_partition % group_size == 0, which {share} % {group} isn't"


NOT_ALIGNED = "The input size is not aligned with the quantized weight shape. This can be caused by too large tensor parallel size."


def _has_kernel(weight: Weight, method: str, share: int, model: Model, rules: Rules, device: tuple[int, int]) -> bool:
    """Whether Marlin, Machete or Exllama takes the matrix."""
    group = weight.stored.group
    if not share % group and (rules.padded_tiles or not share % MARLIN_INPUTS):
        return True
    if _ordered(weight, method, model):  # Marlin's alone
        return False
    symmetric = method == "gptq" or weight.stored.group_bits == SCALE_BITS
    if symmetric and model.dtype.name == "fp16":
        return True
    whole_tiles = not share % MACHETE_INPUTS and not weight.shape[0] % MACHETE_OUTPUTS
    return device[0] == MACHETE and group in MACHETE_GROUPS and whole_tiles


def _ordered(weight: Weight, method: str, model: Model) -> bool:
    """Whether groups follow the order of activations."""
    return GPTQ_ORDER in model.traits if method == "gptq" else weight.stored.column_bits > 0


SCALE_BITS = 16
"""Bits that a group has beside its elements where there are no zero points."""


def _experts(weight: Weight, method: str, share: int, rules: Rules) -> str | None:
    group = weight.stored.group
    if method == "compressed-tensors":
        if not share % group or weight.stored.column_bits or not rules.expert_groups_checked:
            return None
        return (
            "CompressedTensors WNA16 MoE with static group scales requires the MoE intermediate size per tensor-parallel "
            f"partition ({share}) to be divisible by group_size ({group})"
        )
    halved = group
    while halved and (share % halved or weight.shape[0] % halved):
        halved //= 2
    if halved == group or halved >= LEAST_GROUP:
        return None
    return f"assert group_size >= {LEAST_GROUP}: no group that large is whole in {share}"
