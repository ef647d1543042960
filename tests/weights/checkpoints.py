"""Small checkpoints, written by hand: a config.json and safetensors files of zeros.

The shapes of LLAMA, all in 16 bit:

    a table                     256 x 64                                              16,384
    a layer                     q 64 x 64, k and v 32 x 64, o 64 x 64, three of 192 x 64, two norms
                                4,096 + 2 x 2,048 + 4,096 + 3 x 12,288 + 2 x 64       49,280
    all                         2 tables, 4 layers, a norm                           229,952

and of MOE: tables of 512 x 128; a layer with q and o of 128 x 128, k and v of 64 x 128, two norms of 32 and two of 128,
a router of 8 x 128 and 8 experts of 3 x 128 x 128 each; 4 layers.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path

Shape = tuple[int, ...]
LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 192, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256, "tie_word_embeddings": False, "torch_dtype": "float16",
    "max_position_embeddings": 512,
}  # fmt: skip
MOE = {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 128, "intermediate_size": 384,
    "moe_intermediate_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
    "vocab_size": 512, "num_experts": 8, "num_experts_per_tok": 2, "decoder_sparse_step": 1, "mlp_only_layers": [],
    "tie_word_embeddings": False, "torch_dtype": "bfloat16", "max_position_embeddings": 512,
}  # fmt: skip
TABLE, LAYER, ALL = 16_384, 49_280, 229_952
MOE_EXPERT = 3 * 128 * 128
MOE_ALL = 2 * 512 * 128 + 128 + 4 * (2 * 128 * 128 + 2 * 64 * 128 + 2 * 32 + 2 * 128 + 8 * 128 + 8 * MOE_EXPERT)


def llama(layers: int = 4, inner: int = 192, vocabulary: int = 256) -> dict[str, Shape]:
    """Names and shapes of LLAMA's tensors, or of one with other sizes."""
    found: dict[str, Shape] = {
        "model.embed_tokens.weight": (vocabulary, 64),
        "model.norm.weight": (64,),
        "lm_head.weight": (vocabulary, 64),
    }
    each = {"q_proj": (64, 64), "k_proj": (32, 64), "v_proj": (32, 64), "o_proj": (64, 64)}
    wide = {"gate_proj": (inner, 64), "up_proj": (inner, 64), "down_proj": (64, inner)}
    for number in range(layers):
        inside = f"model.layers.{number}."
        found |= {f"{inside}self_attn.{name}.weight": shape for name, shape in each.items()}
        found |= {f"{inside}mlp.{name}.weight": shape for name, shape in wide.items()}
        found |= {f"{inside}{name}.weight": (64,) for name in ("input_layernorm", "post_attention_layernorm")}
    return found


def moe(experts: Iterable[int] = range(8)) -> dict[str, Shape]:
    """Names and shapes of MOE's tensors, of these experts only."""
    found: dict[str, Shape] = {
        "model.embed_tokens.weight": (512, 128),
        "model.norm.weight": (128,),
        "lm_head.weight": (512, 128),
    }
    each = {"q_proj": (128, 128), "k_proj": (64, 128), "v_proj": (64, 128), "o_proj": (128, 128)}
    listed = tuple(experts)
    for number in range(4):
        inside = f"model.layers.{number}."
        found |= {f"{inside}self_attn.{name}.weight": shape for name, shape in each.items()}
        found |= {f"{inside}self_attn.{name}.weight": (32,) for name in ("q_norm", "k_norm")}
        found |= {f"{inside}{name}.weight": (128,) for name in ("input_layernorm", "post_attention_layernorm")}
        found[f"{inside}mlp.gate.weight"] = (8, 128)
        for expert in listed:
            for name in ("gate_proj", "up_proj", "down_proj"):
                found[f"{inside}mlp.experts.{expert}.{name}.weight"] = (128, 128)
    return found


def without(shapes: Mapping[str, Shape], *parts: str) -> dict[str, Shape]:
    """Those whose names have none of `parts` in them."""
    return {name: shape for name, shape in shapes.items() if not any(part in name for part in parts)}


def filed(shapes: Mapping[str, Shape], dtype: str = "F16", width: int = 2) -> bytes:
    """A safetensors file of zeros. width: bytes of an element."""
    entries, end = {}, 0
    for name, shape in shapes.items():
        size = prod(shape) * width
        entries[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    header = json.dumps(entries).encode()
    return struct.pack("<Q", len(header)) + header + bytes(end)


def checkpoint(folder: Path, config: Mapping[str, object], files: Mapping[str, Mapping[str, Shape]]) -> Path:
    """A folder with a config.json and these safetensors files."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    for name, shapes in files.items():
        (folder / name).write_bytes(filed(shapes))
    return folder


def typed(folder: Path, config: Mapping[str, object], parts: Mapping[tuple[str, int], Mapping[str, Shape]]) -> Path:
    """A folder with a config.json and a file for the tensors of each dtype, of elements of so many bytes."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    for (dtype, width), shapes in parts.items():
        (folder / f"{dtype.lower()}.safetensors").write_bytes(filed(shapes, dtype, width))
    return folder


def single(folder: Path, config: Mapping[str, object], shapes: Mapping[str, Shape]) -> Path:
    """A folder with a config.json and one model.safetensors."""
    return checkpoint(folder, config, {"model.safetensors": shapes})


def shards(shapes: Mapping[str, Shape], count: int, named: str = "model-{:05d}-of-{:05d}.safetensors") -> dict[str, dict[str, Shape]]:  # fmt: skip
    """The tensors dealt over `count` files in turn, numbered from one."""
    names = list(shapes)
    return {named.format(at + 1, count): {name: shapes[name] for name in names[at::count]} for at in range(count)}


def index(folder: Path, files: Mapping[str, Mapping[str, Shape]]) -> None:
    """An index of these files beside the config."""
    listed = {name: file for file, shapes in files.items() for name in shapes}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": listed}))
