"""Every causal model type that transformers 5.23 builds from its class defaults: kvplan and transformers agree to the byte.

tests/data/hf-class-defaults.jsonl holds what transformers kept on the meta device; tests/oracles/hf_cache.py remakes it.
transformers' layout differs from the formula in four known ways, worked in here: a window holds window - 1 tokens after
a prefill, a convolution keeps `kernel` columns, a Mamba state is always fp32, and indexer keys are left in 16 or 32 bits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvplan.arch.layers import FP32, Attention, Cache, CrossAttention, Latent, Recurrent, StateTensor
from kvplan.arch.model import Model, Origin
from kvplan.arch.parallel import WHOLE
from kvplan.errors import KvplanError
from kvplan.families import read

DATA = Path(__file__).parents[1] / "data"

OTHER_LAYOUTS = {
    "cpmant": "32 learned prompt tokens stand before every sequence",
    "minimax": "its lightning state in 16 bit; MiniMax's own code and the serving engines keep fp32",
    "deepseek_v4": "keys and values twice, and buffers that hold only the tokens seen so far",
}

REFUSED = {
    "bert", "bert-generation", "camembert", "data2vec-text", "electra", "encoder-decoder", "ernie", "roberta",
    "roberta-prelayernorm", "vision-encoder-decoder", "xlm-roberta", "xlm-roberta-xl", "megatron-bert",  # encoders
    "longt5", "mt5", "switch_transformers", "t5", "udop", "umt5", "pix2struct",  # the encoder's length isn't stated
    "glm4_moe", "glm4v_moe", "qwen3_omni_moe_thinker", "reformer",  # class defaults whose heads don't divide the width
    "big_bird", "rembert", "roc_bert", "roformer", "xmod",  # encoders that can be run as decoders
    "pop2piano", "canary", "cohere_asr", "xlstm", "xlnet",
    "unlimited_ocr",  # a window that depends on the prompt's length
}  # fmt: skip


def rows() -> Iterator[dict[str, Any]]:
    for line in (DATA / "hf-class-defaults.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row.get("bytes_at"):
            yield row


def load(row: dict[str, Any]) -> Model:
    return read({"model_type": row["type"], **row["config"]}, Origin(row["type"], "class defaults"))


def as_transformers_keeps(model: Model, cache: Cache, tokens: int, encoder_tokens: int) -> int:
    """Bytes of one layer after a prefill of `tokens`, in bf16 and transformers' layout; indexer keys not counted."""
    if isinstance(cache, Recurrent):
        return sum(state_bytes(model, cache.law, tensor) for tensor in cache.tensors)
    if isinstance(cache, CrossAttention):
        return encoder_tokens * cache.kv_heads * (cache.k_dim + cache.v_dim) * 2
    if isinstance(cache, Latent):
        kept = tokens if cache.window is None else min(tokens, cache.window - 1)
        return kept * (cache.rank + cache.rope_dim) * 2
    assert isinstance(cache, Attention)
    kept = tokens if cache.cap is None else min(tokens, cache.cap - 1)
    return kept * cache.kv_heads * (cache.k_dim + cache.v_dim) * 2


def state_bytes(model: Model, law: str, tensor: StateTensor) -> int:
    elements = tensor.elements(WHOLE)
    if tensor.role == "conv":
        elements = elements * (tensor.rows + 1) // tensor.rows
    always_fp32 = law in ("mamba", "mamba2") and tensor.role == "recurrent"
    return (FP32 if always_fp32 else tensor.format(model.dtype)).row_bytes(elements)


def encoder_tokens(row: dict[str, Any]) -> int:
    """Length of the encoder's output as run: the cross layers' own; 0 where text alone was run."""
    found = [tensors[0][1][-2] for _, kind, tensors in row["layers"] if "cross" in kind]
    return found[0] if found else row.get("encoder_tokens", 0)


def indexer_bytes(row: dict[str, Any], tokens: int) -> int:
    """What the row counts for indexer keys, by their own shapes and formats."""
    size = {"bfloat16": 2, "float16": 2, "float32": 4}
    total = 0
    for count, _, tensors in row["layers"]:
        for name, shape, dtype in tensors:
            if name in ("indexer_keys", "idx_keys"):
                total += count * tokens * shape[-1] * size[dtype]
    return total


def test_kvplan_and_transformers_agree(count_cases) -> None:
    wrong, agreed, refused = {}, 0, set()
    for row in rows():
        if row["type"] in OTHER_LAYOUTS or row["config"].get(
            "new_decoder_architecture"
        ):  # falcon: repeated to all heads
            continue
        try:
            model = load(row)
        except KvplanError:
            refused.add(row["type"])
            continue
        caches = [cache for layer in model.layers for cache in layer.caches]
        for tokens, expected in row["bytes_at"].items():
            got = sum(as_transformers_keeps(model, cache, int(tokens), encoder_tokens(row)) for cache in caches)
            if got != expected - indexer_bytes(row, int(tokens)):
                wrong[row["type"], tokens] = got, expected
        agreed += 1
    count_cases("model types against transformers' class defaults", agreed)
    assert wrong == {}
    assert refused <= REFUSED
    assert agreed >= 130


@pytest.mark.parametrize("name", sorted(OTHER_LAYOUTS))
def test_other_layouts_are_still_there(name: str) -> None:
    assert name in {row["type"] for row in rows()}
