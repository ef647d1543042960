"""--quantization and --dtype beside what the checkpoint's config says: vLLM 0.33 raises for these and takes those."""

from __future__ import annotations

import pytest
from check.checking import check


@pytest.mark.parametrize(
    ("served", "said"),
    [
        # config/model.py _verify_quantization; model_loader/weight_utils.py get_quant_config
        ("mistralai/Mixtral-8x7B-v0.1 -tp 2 --quantization awq", "Cannot find the config file for awq"),
        ("deepseek-ai/DeepSeek-V3 -tp 8 --quantization awq", "the config says fp8"),
        ("openai/gpt-oss-20b --quantization mxfp4 --dtype bfloat16", None),
        # config/model.py _FLOAT16_NOT_SUPPORTED_MODELS; layers/quantization/mxfp4.py
        ("google/gemma-2-9b-it --dtype half", "no gemma2 in float16"),
        ("openai/gpt-oss-20b --dtype float16", "mxfp4 in"),
        ("meta-llama/Llama-3.1-8B --dtype half", None),
    ],
)
def test_what_a_command_says_of_a_checkpoint(folder, served, said):
    (folder / "run.sh").write_text(f"vllm serve {served} --max-model-len 4096\n")
    found = check("run.sh", "--gpu", "h200", "--offline")
    assert found.code == (0 if said is None else 1)
    if said is not None:
        assert said in " ".join(found.out.split())
