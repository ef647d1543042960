"""An inventory whose bytes are those of the checkpoint's own headers, tensor by tensor.

The config gives shapes, and who splits what; the headers give bytes. Tensors are laid beside weights by name; what has no
counterpart by name is spread over its layer, so that every layer, and so every GPU, has exactly the files' bytes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from kvplan.arch.storage import HEADERS_SOURCE, Storage
from kvplan.arch.weights import HEAD, ONE_GPU, Block, Weight, Weights, matrix
from kvplan.families.quantization.names import bare
from kvplan.sources.tensors import Headers, Tensor, layer_of

Key = tuple[str, str]
"""What a module is: ("expert", "shared" or "", last step of its name)."""

_TOWER = re.compile(
    r"(?:^|\.)(?:vision\w*|visual|audio\w*|vit|vpm|resampler|aligner|connector|multi_modal_projector|mm_projector|mlp1|embed_vision"
    r"|embed_audio|patch_merge_mlp|encoder|v|mm)\."
)
_DRAFT = re.compile(r"(?:^|\.)(?:mtp\w*|nextn)\b")
_SUFFIXES = frozenset((
    "weight", "qweight", "qzeros", "scales", "g_idx", "weight_scale", "weight_scale_inv", "weight_scale_2", "input_scale", "scale",
    "weight_packed", "weight_shape", "weight_zero_point", "weight_global_scale", "input_global_scale", "weight_g_idx", "biases",
    "weight_scale_second", "blocks", "quant_state", "absmax", "quant_map", "nested_absmax", "nested_quant_map", "output_scale", "weight_offset",
))  # fmt: skip
_LAST = {
    "w1": "gate_proj", "w3": "up_proj", "w2": "down_proj", "attn_q": "q_proj", "attn_k": "k_proj", "attn_v": "v_proj",
    "attn_output": "o_proj", "ffn_gate": "gate_proj", "ffn_up": "up_proj", "ffn_down": "down_proj", "ffn_gate_exps": "gate_proj",
    "ffn_up_exps": "up_proj", "ffn_down_exps": "down_proj", "ffn_gate_shexp": "gate_proj", "ffn_up_shexp": "up_proj",
    "ffn_down_shexp": "down_proj", "ffn_gate_inp": "gate", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "token_embd": "embed_tokens", "output": "lm_head", "output_norm": "norm", "router": "gate", "word_embeddings": "embed_tokens",
    "wte": "embed_tokens", "embed_in": "embed_tokens", "embed_out": "lm_head", "ln_f": "norm", "final_layer_norm": "norm",
}  # fmt: skip
_JOINED: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("qkv_proj", "query_key_value", "c_attn", "Wqkv", "qkv", "attn_qkv"), ("q_proj", "k_proj", "v_proj")),
    **dict.fromkeys(("gate_up_proj", "w13", "gate_up"), ("gate_proj", "up_proj")),
}  # fmt: skip


def measured(weights: Weights, headers: Headers) -> Weights:
    """The same weights with the bytes that `headers` state; `formula_bytes` keeps what the config's formula gave."""
    layers: dict[int, list[Tensor]] = defaultdict(list)
    ends, towers, drafts = [], [], []
    for tensor in headers.tensors:
        if _is_aside(tensor, weights):
            continue
        number = layer_of(tensor.name)
        if _DRAFT.search(tensor.name) or (
            number is not None and number >= len(weights.layers) and not _TOWER.search(tensor.name)
        ):
            drafts.append(tensor)
        elif _TOWER.search(tensor.name):
            towers.append(tensor)
        elif number is None:
            ends.append(tensor)
        else:
            layers[number].append(tensor)
    source = replace(
        weights, files=headers.files, formula_bytes=weights.bytes,
        towers=_fitted(weights.towers, towers), draft=_fitted(weights.draft, drafts),
    )  # fmt: skip
    main = sum(map(_bytes, (ends, *layers.values())))
    if main == weights.bytes - _held(weights.towers):
        return source  # whatever the tensors are called, and wherever layers that share some have them
    first, last = _ends(weights, ends)
    same: dict[tuple[int, tuple[tuple[str, int], ...]], Block] = {}
    blocks = []
    for number, block in enumerate(weights.layers):
        kind = (id(block), tuple(sorted((_module(tensor.name)[1], tensor.bytes) for tensor in layers[number])))
        if kind not in same:
            same[kind] = _fitted(block, layers[number])
        blocks.append(same[kind])
    return replace(source, first=first, layers=tuple(blocks), last=last)


def accounts_for(weights: Weights, headers: Headers) -> bool:
    """Whether the weights have the bytes of the files, up to 1 %: not so where tensors have names that say no layer."""
    found = (
        weights.bytes
        + _held(weights.draft)
        + _bytes(tensor for tensor in headers.tensors if _is_aside(tensor, weights))
    )
    return abs(found - headers.bytes) * 100 <= headers.bytes


def _is_aside(tensor: Tensor, weights: Weights) -> bool:
    """Whether a tensor is no parameter: a head beside the embedding that it is, or a buffer that some files have."""
    if weights.tied and _key(_module(tensor.name)[0])[1] == HEAD:
        return True
    return _BUFFER.search(tensor.name) is not None or (
        len(tensor.shape) == MASK_DIMENSIONS and tensor.name.endswith(".bias")
    )


_BUFFER = re.compile(r"(?:\.masked_bias|rotary_emb\.inv_freq|\.position_ids)$")
MASK_DIMENSIONS = 4
"""Of the mask that old files of GPT-2 and its kin keep beside each layer, as attn.bias."""


def _ends(weights: Weights, tensors: list[Tensor]) -> tuple[Block, Block]:
    """Embeddings before the layers, norm and head after them, told apart by names, else by shapes.

    A head that isn't in the files is a copy of the embedding where the model is tied, and else what the config says.
    """
    head = tuple(weight for weight in weights.last if weight.name == HEAD)
    stored = tuple(weight for weight in weights.last if weight.name != HEAD)
    before, after = ({_key(weight.name) for weight in block} for block in (weights.first, weights.last))
    shapes = {weight.shape for weight in weights.first}
    mine: list[Tensor] = []
    rest: list[Tensor] = []
    for tensor in tensors:
        key = _keys(tensor.name)[0]
        early = key in before or (key not in after and tensor.shape in shapes)
        (mine if early else rest).append(tensor)
    first = _fitted(weights.first, mine)
    if weights.tied:
        return first, (*_fitted(stored, rest), *(_like_embedding(weight, first) for weight in head))
    if head and not any(_keys(tensor.name)[0][1] == HEAD or tensor.shape == head[0].shape for tensor in rest):
        return first, (*_fitted(stored, rest), *head)
    return first, _fitted(weights.last, rest)


def _like_embedding(weight: Weight, first: Block) -> Weight:
    same = next((other for other in first if other.shape == weight.shape), None)
    return weight if same is None else replace(weight, stored=same.stored)


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.bytes for tensor in tensors)


def _held(block: Block) -> int:
    return sum(weight.bytes_on_rank(ONE_GPU) for weight in block)


def _module(name: str) -> tuple[str, str]:
    """A tensor's module without layer and wrappers, and with its own last step: ("self_attn.q_proj", "…q_proj.weight")."""
    inner = re.sub(r"^(?:.*?\.)?(?:layers|h|blocks|blk|layer)\.\d+\.", "", bare(name))
    inner = re.sub(r"experts\.\d+\.", "experts.0.", inner)
    inner = re.sub(r"(?<=proj)_(?=(?:blocks|scales|bias)$)", ".", inner)  # of experts in one tensor (gpt-oss)
    module = inner
    while True:
        outer, dot, last = module.rpartition(".")
        if not (dot and (last in _SUFFIXES or last.startswith("bitsandbytes__"))):
            return module, inner
        module = outer


def _key(module: str) -> Key:
    name = bare(module)
    last = name.rpartition(".")[2]
    if last == "bias":
        kind, module = _key(name.removesuffix(".bias"))
        return kind, f"{module}.bias"
    shared = "shared" in name or last.endswith("_shexp")
    routed = not shared and ("experts" in name or last.endswith("_exps"))
    return "shared" if shared else "expert" if routed else "", _LAST.get(last, last)


def _keys(name: str) -> tuple[Key, ...]:
    """The modules that a tensor belongs to: several when projections are joined."""
    kind, last = _key(_module(name)[0])
    module, bias, _ = last.partition(".bias")
    return tuple((kind, part + bias) for part in _JOINED.get(module, (module,)))


def _fitted(block: Block, tensors: Iterable[Tensor]) -> Block:
    """The block with exactly the bytes of its tensors; as it is where it has those, whatever the tensors are called."""
    tensors = tuple(tensors)
    if _bytes(tensors) == _held(block):
        return block
    places: dict[Key, list[int]] = defaultdict(list)
    for index, weight in enumerate(block):
        places[_key(weight.name)].append(index)
    sizes: dict[tuple[int, ...], int] = defaultdict(int)
    unnamed = []
    for tensor in tensors:
        found = tuple(dict.fromkeys(index for key in _keys(tensor.name) for index in places.get(key, ())))
        if found:
            sizes[found] += tensor.bytes
        else:
            unnamed.append(tensor)
    left = _of_same_shape(block, unnamed, sizes)
    result = list(block)
    taken = {index for group in sizes for index in group}
    free = tuple(index for index in range(len(block)) if index not in taken)
    if free and (left or taken):  # what has no counterpart by name shares what is left; when nothing is, it isn't there
        sizes[free] += left
        left = 0
    for group, size in _disjoint(sizes).items():
        _store(result, group, size)
    if left:
        result.append(Weight("unlisted", (left,), "norm", Storage("as stored", 8)))
    return tuple(result)


def _of_same_shape(block: Block, tensors: Iterable[Tensor], sizes: dict[tuple[int, ...], int]) -> int:
    """Give tensors without a counterpart by name to weights of their shape, or of its transpose; bytes of the others."""
    taken = {index for group in sizes for index in group}
    free = {
        index: sorted(weight.shape) for index, weight in enumerate(block) if index not in taken and weight.copies == 1
    }
    left = 0
    for tensor in tensors:
        index = next((index for index, shape in free.items() if shape == sorted(tensor.shape)), None)
        if index is None:
            left += tensor.bytes
        else:
            sizes[(index,)] += tensor.bytes
            del free[index]
    return left


def _disjoint(sizes: Mapping[tuple[int, ...], int]) -> dict[tuple[int, ...], int]:
    """Groups that share a weight, merged."""
    merged: list[tuple[set[int], int]] = []
    for group, size in sizes.items():
        members, total = set(group), size
        apart = []
        for others, other in merged:
            if members & others:
                members, total = members | others, total + other
            else:
                apart.append((others, other))
        merged = [*apart, (members, total)]
    return {tuple(sorted(members)): total for members, total in merged}


def _store(block: list[Weight], group: tuple[int, ...], size: int) -> None:
    """Give the weights of `group` formats that add up to `size` bytes: their own, where those explain the bytes."""
    elements = sum(block[index].parameters for index in group)
    bits = size * 8 // elements if elements else 0
    largest = max(group, key=lambda index: block[index].parameters)
    surplus = size - sum(block[index].bytes_on_rank(ONE_GPU) for index in group)
    if surplus >= 0 and all(block[index].stored.bits == bits for index in group):
        if surplus:
            block[largest] = replace(block[largest], stored=_with(block[largest], block[largest].stored, surplus * 8))
        return
    scales = {index: _scales(block[index], bits) for index in group}
    each, more = divmod(size * 8 - bits * elements, sum(scales.values()) or 1)
    if not any(scales.values()):
        each, more = 0, each
    for index in group:
        weight = block[index]
        form = _as_filed(weight.stored, bits, each)
        block[index] = replace(weight, stored=_with(weight, form, more) if index == largest else form)


def _scales(weight: Weight, bits: int) -> int:
    """Scales of all copies of a weight, of groups or of rows, in the format that the config states for elements of `bits`."""
    known, (rows, columns) = weight.stored, matrix(weight.shape)
    if known.bits != bits:
        return 0
    if known.group:
        return weight.copies * -(-rows // known.group_rows) * -(-columns // known.group)
    return weight.copies * rows if known.row_bits else 0


def _as_filed(known: Storage, bits: int, scale: int) -> Storage:
    """Elements of `bits`, with scales of `scale` bits where the config states a format of such elements that has any."""
    if known.bits != bits:
        return Storage("as stored", bits, source=HEADERS_SOURCE)
    grouped, by_row = scale if known.group else 0, scale if known.row_bits and not known.group else 0
    return replace(known, group_bits=grouped, row_bits=by_row, column_bits=0, tensor_bits=0)


def _with(weight: Weight, form: Storage, more: int) -> Storage:
    """The same format with `more` bits in all copies together, shared out along the dimension that ranks split."""
    per_copy, odd = divmod(more, weight.copies)
    by_columns = weight.split == 1 or len(weight.shape) == 1
    each, once = divmod(per_copy, matrix(weight.shape)[by_columns])
    return replace(
        form,
        row_bits=form.row_bits + (0 if by_columns else each),
        column_bits=form.column_bits + (each if by_columns else 0),
        tensor_bits=form.tensor_bits + once + -(-odd // weight.copies),
    )
