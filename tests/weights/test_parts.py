"""A module is there when its matrix is, and when its matrix is in few bits only with its scales; packed shapes are compared too.

All on LLAMA and MOE of checkpoints.py, whose projections are quantized as tools write them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from weights.checkpoints import ALL, LLAMA, MOE, Shape, llama, moe, typed, without

from kvplan.arch.model import Model
from kvplan.sources.checkpoints.weighing import weigh
from kvplan.sources.models import load_model

Typed = dict[tuple[str, int], dict[str, Shape]]
LINEAR = 4 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 192 * 64)
"""Elements of LLAMA's projections."""


def fp8(name: str, rows: int, columns: int) -> Typed:
    return {
        ("F8_E4M3", 1): {name: (rows, columns)},
        ("F32", 4): {f"{name}_scale_inv": (-(-rows // 32), -(-columns // 32))},
    }


def nvfp4(name: str, rows: int, columns: int) -> Typed:
    return {
        ("U8", 1): {name: (rows, columns // 2)}, ("F8_E4M3", 1): {f"{name}_scale": (rows, columns // 16)},
        ("F32", 4): {f"{name}_scale_2": (), name.replace("weight", "input_scale"): ()},
    }  # fmt: skip


def gptq(name: str, rows: int, columns: int) -> Typed:
    module = name.removesuffix("weight")
    words = {"qweight": (columns // 8, rows), "qzeros": (columns // 32, rows // 8), "g_idx": (columns,)}
    return {
        ("I32", 4): {module + part: shape for part, shape in words.items()},
        ("F16", 2): {f"{module}scales": (columns // 32, rows)},
    }


def awq(name: str, rows: int, columns: int) -> Typed:
    module = name.removesuffix("weight")
    return {
        ("I32", 4): {f"{module}qweight": (columns, rows // 8), f"{module}qzeros": (columns // 32, rows // 8)},
        ("F16", 2): {f"{module}scales": (columns // 32, rows)},
    }


def packed(name: str, rows: int, columns: int) -> Typed:
    return {
        ("I32", 4): {f"{name}_packed": (rows, columns // 8)}, ("F16", 2): {f"{name}_scale": (rows, columns // 32)},
        ("I64", 8): {f"{name}_shape": (2,)},
    }  # fmt: skip


def mlx(name: str, rows: int, columns: int) -> Typed:
    module = name.removesuffix("weight")
    return {
        ("U32", 4): {name: (rows, columns // 8)},
        ("F16", 2): {f"{module}{part}": (rows, columns // 32) for part in ("scales", "biases")},
    }


def bnb(name: str, rows: int, columns: int) -> Typed:
    return {
        ("U8", 1): {name: (rows * columns // 2, 1), f"{name}.quant_state.bitsandbytes__nf4": (83,)},
        ("F32", 4): {f"{name}.absmax": (rows * columns // 64,), f"{name}.quant_map": (16,)},
    }


SCHEME = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": True}
TOOLS: dict[str, tuple[Callable[[str, int, int], Typed], dict[str, object]]] = {
    "fp8": (fp8, {"quant_method": "fp8", "weight_block_size": [32, 32]}),
    "nvfp4": (nvfp4, {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}),
    "gptq": (gptq, {"quant_method": "gptq", "bits": 4, "group_size": 32}),
    "awq": (awq, {"quant_method": "awq", "bits": 4, "group_size": 32}),
    "compressed-tensors": (packed, {
        "quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["lm_head"],
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": SCHEME}},
    }),
    "bitsandbytes": (bnb, {"quant_method": "bitsandbytes", "load_in_4bit": True}),
}  # fmt: skip
ELEMENTS = ("_proj.weight", "qweight", "weight_packed")
SCALES = ("weight_scale_inv", "weight_scale", "scales", "absmax")


def quantized(tool: str, shapes: Mapping[str, Shape]) -> Typed:
    """The same tensors, projections in the parts that a tool writes."""
    found: Typed = {("F16", 2): {}}
    for name, shape in shapes.items():
        parts = TOOLS[tool][0](name, *shape) if "_proj" in name else {("F16", 2): {name: shape}}
        for dtype, some in parts.items():
            found.setdefault(dtype, {}).update(some)
    return found


def damaged(found: Typed, *endings: str, inside: str = "") -> Typed:
    """Without the tensors whose names end so and have `inside` in them."""
    return {
        dtype: {name: shape for name, shape in some.items() if not (name.endswith(endings) and inside in name)}
        for dtype, some in found.items()
    }


def weighed(folder: Path, tool: str, found: Typed, config: Mapping[str, object] = LLAMA) -> Model:
    filled = {dtype: some for dtype, some in found.items() if some}
    return weigh(load_model(str(typed(folder, {**config, "quantization_config": TOOLS[tool][1]}, filled))))


def note(model: Model) -> str:
    assert model.weights is not None
    assert model.weights.basis == "config"
    (said,) = (note for note in model.notes if note.startswith("weights are those of the config's formula: "))
    return said


def believed(model: Model) -> None:
    assert model.weights is not None
    assert model.weights.basis == "headers"
    assert model.weights.exact
    assert not any("weights are" in note or "contradict" in note for note in model.notes)


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(("config", "shapes"), [(LLAMA, llama()), (MOE, moe())], ids=["dense", "experts"])
def test_whole_checkpoints_are_believed(tmp_path, tool, config, shapes):
    believed(weighed(tmp_path, tool, quantized(tool, shapes), config))


@pytest.mark.parametrize("tool", TOOLS)
def test_scales_without_elements_are_no_module(tmp_path, tool):
    found = quantized(tool, llama())
    assert "layers 0 to 3" in note(weighed(tmp_path, tool, damaged(found, *ELEMENTS)))
    some = weighed(tmp_path, tool, damaged(found, *ELEMENTS, inside="layers.2.self_attn.k_proj"))
    assert "no file has self_attn.k_proj in layer 2;" in note(some)


@pytest.mark.parametrize("tool", TOOLS)
def test_elements_in_few_bits_without_scales_are_no_module(tmp_path, tool):
    found = quantized(tool, llama())
    said = note(weighed(tmp_path, tool, damaged(found, *SCALES)))
    assert "the scales of self_attn.q_proj in all 4 layers" in said
    one = note(weighed(tmp_path, tool, damaged(found, *SCALES, inside="layers.1.mlp.down_proj")))
    assert "no file has the scales of mlp.down_proj in layer 1;" in one


@pytest.mark.parametrize("tool", TOOLS)
def test_experts_are_there_when_their_elements_are(tmp_path, tool):
    found = quantized(tool, moe())
    lost = damaged(damaged(found, *ELEMENTS, inside="experts.5."), *ELEMENTS, inside="experts.6.")
    assert "2 of 8 experts in all 4 layers" in note(weighed(tmp_path, tool, lost, MOE))
    one = damaged(found, *ELEMENTS, inside="layers.3.mlp.experts.5.down_proj")
    assert "down_proj of 1 of 8 experts in layer 3" in note(weighed(tmp_path, tool, one, MOE))
    scales = damaged(found, *SCALES, inside="layers.3.mlp.experts.5.up_proj")
    assert "the scales of up_proj of 1 of 8 experts in layer 3" in note(weighed(tmp_path, tool, scales, MOE))


@pytest.mark.parametrize("tool", [tool for tool in TOOLS if tool != "bitsandbytes"])
@pytest.mark.parametrize("inner", [64, 96, 384])
def test_packed_matrices_of_another_shape_contradict_the_config(tmp_path, tool, inner):
    model = weighed(tmp_path, tool, quantized(tool, llama(inner=inner)))
    assert (model.weights.basis, model.weights.exact) == ("headers", False)
    (said,) = (note for note in model.notes if "contradict" in note)
    by_inputs = f"mlp.down_proj of 64 x {inner} where the config has 64 x 192"  # outputs of AWQ's may have other bits
    outputs = f"mlp.gate_proj of {inner} x 64 where the config has 192 x 64 and others"
    assert (by_inputs if tool == "awq" and inner != 64 else outputs) in said


def test_packed_matrices_without_a_shape_are_compared_by_their_elements(tmp_path):
    """bitsandbytes writes a column of bytes: two elements in each."""
    model = weighed(tmp_path, "bitsandbytes", quantized("bitsandbytes", llama(inner=96)))
    assert any("mlp.gate_proj of 6,144 elements where the config has 192 x 64" in note for note in model.notes)


def test_more_experts_than_the_config_has_contradict_it(tmp_path):
    model = weighed(tmp_path, "gptq", quantized("gptq", moe(range(16))), MOE)
    assert any("16 experts where the config has 8" in note for note in model.notes)


def test_a_packed_vocabulary_is_compared(tmp_path):
    """MLX packs embeddings and head as well."""
    shapes = llama(vocabulary=320)
    found: Typed = {("F16", 2): {}}
    for name, shape in shapes.items():
        for dtype, some in (mlx(name, *shape) if len(shape) > 1 else {("F16", 2): {name: shape}}).items():
            found.setdefault(dtype, {}).update(some)
    folder = typed(tmp_path, {**LLAMA, "quantization": {"bits": 4, "group_size": 32}}, found)
    model = weigh(load_model(str(folder)))
    assert any("model.embed_tokens of 320 x 64 where the config has 256 x 64" in note for note in model.notes)


def test_modules_in_16_bit_need_no_scales(tmp_path):
    """The config says fp8, and the files were written back in 16 bit."""
    folder = typed(tmp_path, {**LLAMA, "quantization_config": TOOLS["fp8"][1]}, {("F16", 2): llama()})
    model = weigh(load_model(str(folder)))
    believed(model)
    assert model.weights.bytes == 2 * ALL


@pytest.mark.parametrize("name", ["W_q", "codes"])
def test_elements_by_hqq_and_aqlm_belong_to_their_matrix(tmp_path, name):
    """Half a byte each, as bytes of two or as words of four: two ranks have half of them each."""
    from kvplan.arch.parallel import Parallel

    plain = without(llama(), "_proj")
    matrices = {one: shape for one, shape in llama().items() if "_proj" in one}
    elements = {one.replace("weight", name): (shape[0] * shape[1] // 2, 1) for one, shape in matrices.items()}
    model = weigh(load_model(str(typed(tmp_path, LLAMA, {("F16", 2): plain, ("U8", 1): elements}))))
    norms, tables = 2 * 9 * 64, 2 * 2 * 256 * 64
    assert model.weights.bytes == norms + tables + LINEAR // 2
    assert model.weights.bytes_on_rank(Parallel(tp=2)) == norms + (tables + LINEAR // 2) // 2


def test_an_adapter_beside_a_matrix_is_no_matrix(tmp_path):
    """As Phi-4-multimodal's files have them: base_layer, and matrices of low rank for sound and images."""
    held = {name.replace("_proj.weight", "_proj.base_layer.weight"): shape for name, shape in llama().items()}
    for name, (rows, columns) in [(name, shape) for name, shape in llama().items() if "_proj" in name]:
        module = name.removesuffix("weight")
        held |= {f"{module}lora_A.speech.weight": (64, columns), f"{module}lora_B.speech.weight": (rows, 64)}
    believed(weigh(load_model(str(typed(tmp_path, LLAMA, {("F16", 2): held})))))
    lost = {("F16", 2): without(held, "3.mlp.down_proj.base_layer")}
    assert "no file has mlp.down_proj in layer 3;" in note(weigh(load_model(str(typed(tmp_path, LLAMA, lost)))))


@pytest.mark.parametrize("tool", TOOLS)
def test_matrices_of_other_names_need_scales_too(tmp_path, tool):
    """GPT-NeoX's names of an MLP's matrices."""
    named = {"up_proj": "dense_h_to_4h", "down_proj": "dense_4h_to_h", "gate_proj": "dense_gate"}
    found: Typed = {}
    for dtype, some in quantized(tool, llama()).items():
        found[dtype] = {}
        for name, shape in some.items():
            own = next((each for each in named if each in name), None)
            found[dtype][name if own is None else name.replace(own, named[own])] = shape
    believed(weighed(tmp_path, tool, found))
    one = note(weighed(tmp_path, tool, damaged(found, *SCALES, inside="layers.1.mlp.dense_h_to_4h")))
    assert "no file has the scales of mlp.dense_h_to_4h in layer 1;" in one


def test_a_table_of_integers_needs_no_scales(tmp_path):
    """DeepSeek-V4's first layers look experts up by token."""
    found = quantized("fp8", without(moe(), "self_attn.v_proj"))
    for number in range(4):
        found["F8_E4M3", 1][f"model.layers.{number}.self_attn.other.weight"] = (64, 128)
        found["F32", 4][f"model.layers.{number}.self_attn.other.weight_scale_inv"] = (2, 4)
    found["I32", 4] = {"model.layers.0.mlp.gate.tid2eid": (512, 2)}
    believed(weighed(tmp_path, "fp8", found, MOE))
