"""Remake `tests/data/headers/`: tiny checkpoints written by the real libraries.

python3.11 -m venv hf
hf/bin/pip install torch==2.13.0 transformers==5.23.0 safetensors==0.8.0 gguf==0.19.0     # CPU builds are enough
hf/bin/python tests/oracles/header_files.py tests/data/headers

sharded/    a Llama of two layers, saved by transformers in several files with an index
tied/       the same with tied embeddings, in one file
mixtral/    four experts
q4.gguf     tensors of several ggml types, a vocabulary and nested metadata, by gguf-py
split-0000N-of-00003.gguf     the same in three parts
"""

import shutil
import sys
from pathlib import Path

import gguf
import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM, MixtralConfig, MixtralForCausalLM

SIZES = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "vocab_size": 100, "max_position_embeddings": 64,
}  # fmt: skip


def save(model: torch.nn.Module, folder: Path, shard: str = "1GB") -> None:
    """Zeros, so that the repository can pack them."""
    for tensor in model.parameters():
        tensor.data.zero_()
    model.to(torch.bfloat16).save_pretrained(folder, max_shard_size=shard)
    (folder / "generation_config.json").unlink(missing_ok=True)


def write_gguf(path: Path, tensors_per_part: int = 0) -> None:
    """A Llama of one layer in mixed formats, its data zero."""
    writer = gguf.GGUFWriter(path, "llama", split_max_tensors=tensors_per_part)
    writer.add_block_count(1)
    writer.add_context_length(4096)
    writer.add_embedding_length(256)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_token_list([f"token {number}" for number in range(64)])
    writer.add_token_scores([float(number) for number in range(64)])
    types = gguf.GGMLQuantizationType
    for name, rows, columns, kind in (
        ("token_embd.weight", 64, 256, types.Q6_K), ("blk.0.attn_norm.weight", 1, 256, types.F32),
        ("blk.0.attn_q.weight", 256, 256, types.Q4_K), ("blk.0.attn_k.weight", 128, 256, types.Q4_K),
        ("blk.0.attn_v.weight", 128, 256, types.Q6_K), ("blk.0.attn_output.weight", 256, 256, types.Q4_K),
        ("blk.0.ffn_gate.weight", 256, 256, types.Q8_0), ("blk.0.ffn_up.weight", 256, 256, types.Q8_0),
        ("blk.0.ffn_down.weight", 256, 256, types.F16), ("blk.0.ffn_norm.weight", 1, 256, types.F32),
        ("output_norm.weight", 1, 256, types.F32), ("output.weight", 64, 256, types.Q8_0),
    ):  # fmt: skip
        block, size = gguf.GGML_QUANT_SIZES[kind]
        data = np.zeros((rows, columns // block * size), dtype=np.uint8)
        if kind == types.F32:
            writer.add_tensor(name, np.zeros(columns, dtype=np.float32))
        elif kind == types.F16:
            writer.add_tensor(name, np.zeros((rows, columns), dtype=np.float16))
        else:
            writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main(folder: Path) -> None:
    """Write all of them."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    save(LlamaForCausalLM(LlamaConfig(**SIZES, tie_word_embeddings=False)), folder / "sharded", "12KB")
    save(LlamaForCausalLM(LlamaConfig(**SIZES, tie_word_embeddings=True)), folder / "tied")
    save(MixtralForCausalLM(MixtralConfig(**SIZES, num_local_experts=4, sliding_window=None)), folder / "mixtral")
    write_gguf(folder / "q4.gguf")
    write_gguf(folder / "split.gguf", 5)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
