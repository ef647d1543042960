"""Models that are to draft with their own prediction layers: vLLM 0.33 was asked for each with --speculative-config mtp."""

from __future__ import annotations

import pytest

from kvplan.arch.model import Origin
from kvplan.engines.base import Options
from kvplan.engines.vllm.blocks.drafts import draft_layers, has_drafts
from kvplan.engines.vllm.starts import own_drafts
from kvplan.engines.vllm.tables.changes import rules
from kvplan.engines.vllm.tables.versions import parse
from kvplan.errors import WontStart
from kvplan.families import read

LAYERS = {
    "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4,
    "head_dim": 64, "vocab_size": 2048, "max_position_embeddings": 8192, "torch_dtype": "bfloat16",
}  # fmt: skip
LATENT = {
    **LAYERS, "model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"], "kv_lora_rank": 512, "q_lora_rank": 256,
    "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "num_key_value_heads": 8, "n_routed_experts": 8,
    "num_experts_per_tok": 2, "moe_intermediate_size": 256, "first_k_dense_replace": 1, "n_shared_experts": 1, "n_group": 1, "topk_group": 1,
}  # fmt: skip
MINIMAX = {
    **LAYERS, "model_type": "minimax_m2", "architectures": ["MiniMaxM2ForCausalLM"], "num_local_experts": 8,
    "num_experts_per_tok": 2, "num_mtp_modules": 3, "rotary_dim": 32,
}  # fmt: skip
EXAONE = {
    "model_type": "exaone4_5", "architectures": ["Exaone4_5_ForConditionalGeneration"],
    "text_config": {**LAYERS, "model_type": "exaone4_5_text", "sliding_window": 4096,
                    "layer_types": ["sliding_attention"] * 3 + ["full_attention"]},
}  # fmt: skip


def model(config, **changed):
    return read({**config, **changed}, Origin("a checkpoint", "a test"))


@pytest.mark.parametrize(
    ("config", "tokens", "version", "said"),
    [
        (MINIMAX, 3, "0.33.0", "Unsupported speculative method: 'mtp'"),
        ({**LATENT, "model_type": "kimi_k2", "num_nextn_predict_layers": 1}, 1, "0.33.0", "Unsupported speculative method"),
        ({**LATENT, "num_nextn_predict_layers": 1}, 3, "0.33.0", None),
        ({**LATENT, "num_nextn_predict_layers": 2}, 1, "0.33.0", None),
        ({**LATENT, "num_nextn_predict_layers": 2}, 2, "0.33.0", None),
        ({**LATENT, "num_nextn_predict_layers": 2}, 3, "0.33.0", "must be divisible by n_predict=2"),
        ({**LATENT, "num_nextn_predict_layers": 2}, 4, "0.33.0", None),
        # hf_config_override of 0.16.0 is the first with glm_moe_dsa, that of 0.14.0 the first with exaone_moe
        ({**LATENT, "model_type": "glm_moe_dsa", "num_nextn_predict_layers": 1, "index_n_heads": 4, "index_head_dim": 64, "index_topk": 2048},
         1, "0.15.1", "Unsupported speculative method"),
        (EXAONE, 3, "0.33.0", None),
    ],
)  # fmt: skip
def test_types_that_draft_with_their_own_layers(config, tokens, version, said):
    asked = (model(config), Options(speculative_tokens=tokens), parse(version))
    if said is None:
        own_drafts.check(*asked)
        return
    with pytest.raises(WontStart) as refused:
        own_drafts.check(*asked)
    assert said in refused.value.problem.cause
    assert refused.value.problem.hint


@pytest.mark.parametrize(("stated", "has"), [({}, True), ({"num_nextn_predict_layers": 0}, False), ({"num_nextn_predict_layers": None}, False)])  # fmt: skip
def test_none_stated_is_not_nothing_stated(stated, has):
    """vLLM 0.33 divides by 0, refuses null, and reads DeepseekV3Config's 1 where nothing is stated."""
    assert has_drafts(model(LATENT, **stated)) is has


@pytest.mark.parametrize("count", [None, 1, 2])
def test_exaone_4_5_has_one_whatever_its_part_states(count):
    """models/exaone4_5_mtp.py asks the whole config, which states none: one layer, like the first."""
    stated = {} if count is None else {"num_nextn_predict_layers": count}
    found = model(EXAONE, text_config={**EXAONE["text_config"], **stated})
    assert len(draft_layers(found, rules(parse("0.33.0")))) == 1
