"""Remake `tests/data/weights-parameters.tsv`: parameters of each bundled model, as transformers itself builds it.

    python3.11 -m venv hf
    hf/bin/pip install torch==2.13.0 transformers==5.23.0        # the CPU build of torch is enough
    hf/bin/python tests/oracles/hf_parameters.py configs/models/*.json > tests/data/weights-parameters.tsv

Each model is built from its config on the meta device: no weights, no GPU. A tied tensor counts once. A multimodal
config is built with its towers. Models that transformers has no class for, or rejects, are left out and named on stderr.
"""

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
warnings.filterwarnings("ignore")

import torch
import transformers
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoModelForSeq2SeqLM,
    AutoModelForSpeechSeq2Seq,
)

transformers.logging.set_verbosity_error()
torch.nn.init.trunc_normal_ = lambda tensor, *_args, **_kwargs: tensor
KINDS = (AutoModelForImageTextToText, AutoModelForSeq2SeqLM, AutoModelForSpeechSeq2Seq, AutoModelForCausalLM, AutoModel)


def parameters(raw: dict[str, Any]) -> int:
    """Unique parameters of the whole model that a config.json describes."""
    fields = {key: value for key, value in raw.items() if key not in ("auto_map", "quantization_config", "model_type")}
    config = AutoConfig.for_model(raw["model_type"], **fields)
    errors = []
    for kind in KINDS:
        try:
            with torch.device("meta"):
                model = kind.from_config(config, dtype=torch.bfloat16)
        except Exception as error:
            errors.append(f"{type(error).__name__}: {str(error)[:100]}")
            continue
        return sum(tensor.numel() for tensor in {id(tensor): tensor for tensor in model.parameters()}.values())
    raise RuntimeError(" | ".join(errors))


def main(paths: list[str]) -> None:
    """Print a line for each bundled model."""
    print("model\tparameters")
    for path in sorted(paths):
        try:
            print(f"{Path(path).stem}\t{parameters(json.loads(Path(path).read_text())['config'])}", flush=True)
        except Exception as error:
            print(f"{Path(path).stem}: {type(error).__name__}: {str(error)[:120]}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
