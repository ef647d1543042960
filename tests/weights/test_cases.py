"""Public fault reports about weights, quantization and what is served beside a model, each asked of kvplan."""

from __future__ import annotations

import shutil

import pytest
from weights.conftest import DATA, bundled, described
from weights.test_parameters import LLAMA_8B

from kvplan.arch.curve import Curve
from kvplan.arch.extras import adapters, with_draft
from kvplan.arch.formats import FORMATS, KvFormat, parse_kv_format
from kvplan.arch.model import Model, Origin
from kvplan.arch.parallel import Parallel
from kvplan.errors import UsageError
from kvplan.families import read
from kvplan.sources.bundled import bundled_document
from kvplan.sources.checkpoints.headers import folder_headers
from kvplan.units import GIB

BF16 = KvFormat(FORMATS["bf16"], FORMATS["bf16"])


def config(name: str, **changes: object) -> dict:
    """A bundled model's config with fields changed; a field set to ... is left out."""
    found = {**bundled_document(name).config, **changes}
    return {key: value for key, value in found.items() if value is not ...}


def test_k016_four_bit_weights_leave_the_cache_in_16_bit():
    model = described(config("gpt-oss-120b", torch_dtype=..., dtype=...))
    assert model.weights.method == "mxfp4"
    assert (model.dtype.name, model.kv_hint) == ("bf16", None)
    assert model.curve(BF16).bytes_at(1) == 36 * 8 * 64 * 2 * 2


@pytest.mark.parametrize("stated", [None, ...])
def test_k017_a_null_dtype_is_16_bit_and_said_to_be_assumed(stated):
    model = described(config("gpt2", torch_dtype=stated, dtype=...))
    assert model.dtype.name == "bf16"
    assert model.weights.bytes == 2 * model.weights.total
    assert "dtype" in {default.field for default in model.defaulted}


def test_k018_the_companion_file_asks_for_an_fp8_cache():
    beside = {"hf_quant_config.json": {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}}
    model = read(config("llama-3.1-8b"), Origin("fp8", "fp8"), beside)
    assert model.kv_hint is not None
    assert model.kv_hint.k.name == "fp8"
    assert model.weights.bytes < 0.6 * bundled("llama-3.1-8b").weights.bytes


def test_k106_a_block_s_bytes_are_no_element_s():
    q8 = parse_kv_format("q8_0").k
    assert q8.row_bytes(32) / 32 == 34 / 32 == 1.0625


def test_k107_a_quantized_cache_is_counted_quantized():
    curve = bundled("qwen2.5-7b").curve(parse_kv_format("q8_0"))
    assert curve.bytes_at(262_144) == 7.4375 * GIB == 28 * 2 * 4 * 128 * 34 // 32 * 262_144


def test_k109_weights_in_four_bits_promise_nothing_about_the_cache():
    model = described(config("gemma-4-31b", quantization_config={"bits": 4, "group_size": 64}))
    assert (model.weights.method, model.kv_hint) == ("mlx", None)


def test_k111_compressed_tensors_without_a_scheme_for_the_cache():
    model = bundled("kimi-k2.5")
    assert model.weights.method == "compressed-tensors"
    assert (model.dtype.name, model.kv_hint) == ("bf16", None)
    assert model.curve(BF16).bytes_at(1000) == 61 * 576 * 2 * 1000


def _drafted(model: Model) -> Curve:
    return model.curve(BF16, Parallel().shard, model.draft_layers)


def test_k096_a_draft_s_cache_has_the_draft_s_layers():
    model = bundled("deepseek-v3")
    assert _drafted(model).bytes_at(1000) * 61 == model.curve(BF16).bytes_at(1000)


def test_k097_prediction_layers_cache_only_themselves():
    model = bundled("glm-4.5")
    assert _drafted(model).bytes_at(1000) * 92 == model.curve(BF16).bytes_at(1000)


def test_k099_a_draft_model_brings_its_own_embedding_and_head():
    table = 248_320 * 5120 * 2
    assert table == 2_542_796_800  # 2.54 GB, 2.37 GiB
    one_layer = config("qwen3.6-27b")
    text = dict(one_layer["text_config"])
    text |= {"num_hidden_layers": 1, "layer_types": ["full_attention"], "mtp_num_hidden_layers": 0}
    draft = described({**one_layer, "text_config": text})
    served = with_draft(bundled("qwen3.6-27b"), draft)
    layer = sum(weight.parameters for weight in draft.weights.layers[0]) * 2
    towers = sum(weight.parameters for weight in draft.weights.towers) * 2
    assert served.weights.draft_bytes_on_rank(Parallel()) == 2 * table + layer + towers + 5120 * 2


def test_k100_slots_of_adapters():
    slots = adapters(described(LLAMA_8B).weights, rank=64, resident=4, targets=("q_proj", "v_proj"))
    assert slots.bytes == 4 * 32 * 64 * ((4096 + 4096) + (4096 + 1024)) * 2


def test_k102_a_projector_is_held_beside_the_language_model():
    weights = bundled("gemma-3-4b").weights
    parts = weights.by_component()
    assert parts["projector"] == 1152 * 2560 + 1152
    assert parts["vision"] > 400_000_000
    assert weights.bytes == 2 * weights.total == 2 * sum(parts.values())


def test_k104_cross_attention_keeps_the_encoder_s_1500_positions_apart():
    curve = bundled("whisper-tiny").curve(BF16)
    assert curve.fixed_bytes == 4 * 2 * 384 * 2 * 1500
    assert curve.slope_at(10) == 4 * 2 * 384 * 2


def test_k105_a_projector_s_file_is_not_the_model_s(tmp_path):
    shutil.copy(DATA / "headers" / "q4.gguf", tmp_path / "model.gguf")
    alone = folder_headers(tmp_path).bytes
    shutil.copy(DATA / "headers" / "q4.gguf", tmp_path / "mmproj-model.gguf")
    assert folder_headers(tmp_path).bytes == alone
    shutil.copy(DATA / "headers" / "q4.gguf", tmp_path / "draft.gguf")
    with pytest.raises(UsageError, match="2 GGUF models"):
        folder_headers(tmp_path)


def test_k112_llama_70b_takes_two_bytes_a_parameter():
    weights = bundled("llama-3.1-70b").weights
    assert weights.total == 70_553_706_496
    assert weights.bytes == 141_107_412_992


def test_k113_eight_experts_and_a_head_of_its_own():
    weights = bundled("mixtral-8x7b").weights
    assert not weights.tied
    assert weights.total == 46_702_792_704
    assert weights.by_component()["head"] == 32_000 * 4096


def test_k114_tables_stay_in_16_bit():
    fp8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
    weights = described(config("qwen3.6-27b", quantization_config=fp8)).weights
    tables = [weight for weight in (*weights.first, *weights.last) if weight.component in ("embedding", "head")]
    assert [weight.bytes_on_rank(Parallel()) for weight in tables] == [2 * 248_320 * 5120] * 2
