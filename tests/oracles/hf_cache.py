"""Remake `tests/data/hf-class-defaults.jsonl`: what transformers keeps in its cache and weights for each model type.

    python3.11 -m venv hf
    hf/bin/pip install torch==2.13.0 transformers==5.23.0 pillow timm torchvision    # CPU builds are enough
    hf/bin/python tests/oracles/hf_cache.py --out tests/data/hf-class-defaults.jsonl
    hf/bin/python tests/oracles/hf_cache.py --type llama         # one type, to the screen

Each model is built from the defaults of its configuration class on the meta device, in bfloat16, and runs one prefill:
batch 1, no weights, no GPU. hf_cases.jsonl beside this file holds settings without which a type's own defaults build or
run no model ("needed"), and further settings that turn on what defaults leave off. A line holds

type            model type
set             fields given to the configuration class, when not all are its defaults
built_with      the auto class that built it
config          what a config.json of this type would say; a model rebuilt from it has the same parameters
                (`config_differs` says so when it does not)
parameters      unique parameters: a tied tensor counts once
bytes_at        {tokens: bytes} of all floating-point tensors the cache holds after a prefill of that many tokens
encoder_tokens  length of the encoder input, for an encoder-decoder model: the same for every entry of bytes_at
layers          [count, kind, [[tensor, shape without batch, dtype], ...]], equal neighbours joined, after layers_at tokens
state_elements  elements of the tensors whose shape is the same at every length
answered        true where the code asked for the value of a tensor (is this mask all ones?) and was told what an
                unpadded prompt would say
stubbed         modules replaced by a stand-in of the right output shape, because their code needs real numbers;
                none of them writes to the cache
error           why there are no bytes, or not at every length

The layout is that of transformers: a sliding layer holds window - 1 tokens after a prefill, a convolution state holds as
many columns as its kernel, a latent is stored as one head, an indexer keeps its keys in bfloat16.
"""

import argparse
import contextlib
import json
import os
import re
import signal
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
import transformers
from class_defaults import config_class, generative_types, plain, raw_defaults, sizes, tidy
from torch.fx.experimental import _config as fx_config
from torch.overrides import TorchFunctionMode
from transformers import AutoConfig, AutoModel, DynamicCache, PreTrainedConfig, PreTrainedModel
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

AUTO = (
    ("CAUSAL_LM", "AutoModelForCausalLM"),
    ("IMAGE_TEXT_TO_TEXT", "AutoModelForImageTextToText"),
    ("SEQ_TO_SEQ_CAUSAL_LM", "AutoModelForSeq2SeqLM"),
    ("SPEECH_SEQ_2_SEQ", "AutoModelForSpeechSeq2Seq"),
    ("MULTIMODAL_LM", "AutoModelForMultimodalLM"),
)
CASES = Path(__file__).with_name("hf_cases.jsonl")
LENGTHS = (16, 64, 1000, 5000, 9000)
ENCODER_TOKENS = 32
FRAMES_FIRST = ("canary", "cohere_asr", "speech_to_text")
SECONDS_PER_LENGTH = 60
Json = dict[str, Any]
Tensors = list[tuple[str, torch.Tensor]]


class Answers(TorchFunctionMode):
    """Answer questions about values as a prompt of equal tokens without padding would."""

    asked = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.__bool__:
            self.asked = True
            return True
        if func is torch.Tensor.__contains__:
            self.asked = True
            return False
        if func in (torch.nonzero, torch.Tensor.nonzero):
            self.asked = True
        return func(*args, **(kwargs or {}))


class TooSlowError(Exception):
    """A prefill took longer than SECONDS_PER_LENGTH."""


@contextlib.contextmanager
def limit(seconds: int) -> Iterator[None]:
    """Stop the block with TooSlowError after some seconds."""

    def stop(*_: object) -> None:
        raise TooSlowError

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def text(error: BaseException) -> str:
    """Say in one line what went wrong."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}".removesuffix(": ")


def build(config: PreTrainedConfig) -> tuple[PreTrainedModel, str]:
    """Build the generative model of a configuration on the meta device."""
    errors = []
    for task, auto in sorted(AUTO, key=lambda pair: "SEQ" not in pair[0]) if config.is_encoder_decoder else AUTO:
        if config.model_type not in getattr(modeling_auto, f"MODEL_FOR_{task}_MAPPING_NAMES"):
            continue
        try:
            with torch.device("meta"):
                return getattr(transformers, auto).from_config(config, dtype=torch.bfloat16).eval(), auto
        except Exception as error:
            errors.append(f"{auto}: {text(error)}")
    if not errors:  # the text part of a multimodal model: it has no head of its own
        with torch.device("meta"):
            return AutoModel.from_config(config, dtype=torch.bfloat16).eval(), "AutoModel"
    raise RuntimeError(" | ".join(errors))


def parameters(model: PreTrainedModel) -> int:
    """Count parameters, a tied tensor once."""
    return sum(p.numel() for p in {id(p): p for p in model.parameters()}.values())


def trimmed(config: Json) -> Json:
    """Keep of a configuration what decides sizes; a null only where the class would put something else."""
    out: Json = {}
    model_type = config.get("model_type") or ""
    defaults = raw_defaults(config_class(model_type)) if model_type in CONFIG_MAPPING else {}
    for key, value in config.items():
        if isinstance(value, dict) and (key.endswith("_config") or "model_type" in value):
            out[key] = trimmed(value)
        elif key in ("model_type", "is_encoder_decoder", "layer_types", "mlp_layer_types", "rope_parameters"):
            if value and key != "rope_parameters":
                out[key] = tidy(value)
        elif value is None and key == "sliding_window":  # null switches a class's window off
            out[key] = None
        elif (sizes(key) or key in ACTIVATIONS) and (plain(value) or isinstance(value, list)):
            if value is None and defaults.get(key) is None:
                continue
            out[key] = tidy(value)
    return out


# An activation can decide whether a layer has a gate, so a config must name it.
ACTIVATIONS = ("hidden_act", "activation_function", "hidden_activation", "dense_act_fn", "mlp_hidden_act")


def find(held: object, name: str = "", depth: int = 0) -> Tensors:
    """List the floating-point tensors an object holds, with the path to each."""
    if isinstance(held, torch.Tensor):
        return [(name, held)] if held.is_floating_point() else []
    items: Iterable[tuple[object, object]]
    if isinstance(held, dict):
        items = held.items()
    elif isinstance(held, (list, tuple)):
        items = enumerate(held)
    elif hasattr(held, "__dict__") and not isinstance(held, (PreTrainedConfig, torch.nn.Module)) and depth < 6:
        items = vars(held).items()
    else:
        return []
    return [found for key, value in items for found in find(value, f"{name}.{key}".lstrip("."), depth + 1)]


def layers_of(held: Any) -> list[tuple[str, Tensors]]:
    """List what each layer of a cache holds, as (kind, tensors)."""
    parts = [("", held)]
    if hasattr(held, "self_attention_cache"):
        parts = [("self ", held.self_attention_cache), ("cross ", held.cross_attention_cache)]
    out = []
    for prefix, part in parts:
        if hasattr(part, "layers"):
            out += [(prefix + type(layer).__name__, find(layer)) for layer in part.layers]
            rest = [(k, v) for k, v in vars(part).items() if k != "layers"]
        else:
            rest = [("", part)]
        out += [(f"{prefix}{type(part).__name__}", [(f"{k}.{n}".rstrip("."), t)]) for k, v in rest for n, t in find(v)]
    return out


def identity(tensor: torch.Tensor) -> tuple[object, ...]:
    """Identify a tensor by the memory it names, so that K and V sharing one tensor count once."""
    return (tensor.untyped_storage()._cdata, tensor.storage_offset(), tuple(tensor.shape), tensor.stride())


def inputs(model: PreTrainedModel, tokens: int) -> Json:
    """Make the inputs of a text prefill; behind a sound encoder, with silence as long as it takes."""
    config = model.config
    ids = torch.zeros((1, tokens), dtype=torch.long, device="meta")
    if not config.is_encoder_decoder:
        return {"input_ids": ids}
    if model.main_input_name == "input_ids":
        return {"input_ids": ids[:, :1].expand(1, ENCODER_TOKENS), "decoder_input_ids": ids}
    bins = getattr(getattr(config, "encoder_config", config), "num_mel_bins", None) or 80
    frames = 2 * (getattr(config, "max_source_positions", None) or ENCODER_TOKENS)
    shape = (1, frames, bins) if config.model_type in FRAMES_FIRST else (1, bins, frames)
    sound = torch.zeros(shape, dtype=torch.bfloat16, device="meta")
    return {model.main_input_name: sound, "decoder_input_ids": ids}


def prefill(model: PreTrainedModel, tokens: int) -> list[tuple[str, Tensors]]:
    """Run one prefill and list what the cache then holds."""
    with torch.device("meta"), torch.no_grad(), limit(SECONDS_PER_LENGTH):
        out = model(**inputs(model, tokens), use_cache=True)
    for name in ("past_key_values", "cache_params", "state", "past_buckets_states", "mems"):
        held = getattr(out, name, None)
        if held is not None:
            return layers_of(held)
    return hidden_cache(model, tokens)


def hidden_cache(model: PreTrainedModel, tokens: int) -> list[tuple[str, Tensors]]:
    """Run a prefill of a model that returns no cache: it fills the one it is given, and its layers keep the rest."""
    cache = DynamicCache(config=model.config)
    with torch.device("meta"), torch.no_grad(), limit(SECONDS_PER_LENGTH):
        model(**inputs(model, tokens), use_cache=True, past_key_values=cache)
    held = [layer for layer in layers_of(cache) if layer[1]]
    for module in model.modules():
        own = find({k: v for k, v in vars(module).items() if not k.startswith("_")})
        if own:
            held.append((type(module).__name__, own))
    if not held:
        message = f"{type(model).__name__} keeps no cache"
        raise LookupError(message)
    return held


def runs(layers: list[tuple[str, Tensors]]) -> list[list[Any]]:
    """Join equal neighbours."""
    out: list[list[Any]] = []
    for kind, tensors in layers:
        shapes = [[n, list(t.shape[1:]), str(t.dtype).removeprefix("torch.")] for n, t in tensors]
        if out and out[-1][1:] == [kind, shapes]:
            out[-1][0] += 1
        else:
            out.append([1, kind, shapes])
    return out


def stub(model: PreTrainedModel, pattern: str) -> list[str]:
    """Replace expert layers and routers that need real numbers by a stand-in, and name their classes."""
    names = set()
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if re.search(pattern, type(child).__name__):
                names.add(type(child).__name__)
                setattr(parent, name, Passing())
    return sorted(names)


class Passing(torch.nn.Module):
    """Give back the first input."""

    def forward(self, hidden: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
        return hidden


def measure(model: PreTrainedModel, lengths: Iterable[int]) -> Json:
    """Prefill at several lengths."""
    line: Json = {"bytes_at": {}}
    shapes: list[dict[tuple[int, str], tuple[int, ...]]] = []
    for tokens in lengths:
        try:
            with Answers() as answers, fx_config.patch(meta_nonzero_assume_all_nonzero=True):
                layers = prefill(model, tokens)
        except Exception as error:
            line["error"] = f"at {tokens} tokens: {text(error)}"
            break
        if answers.asked:
            line["answered"] = True
        unique = {identity(t): t for _, tensors in layers for _, t in tensors}
        line["bytes_at"][tokens] = sum(t.numel() * t.element_size() for t in unique.values())
        line["layers_at"] = tokens
        line["layers"] = runs(layers)
        shapes.append({(i, n): tuple(t.shape) for i, (_, tensors) in enumerate(layers) for n, t in tensors})
    if len(shapes) > 1:
        fixed = {k: v for k, v in shapes[0].items() if all(s.get(k) == v for s in shapes)}
        line["state_elements"] = sum(torch.Size(v).numel() for v in fixed.values())
    return line


def configure(model_type: str, settings: Json) -> PreTrainedConfig:
    """Make a configuration; settings of a nested one are laid over its own defaults."""
    base = AutoConfig.for_model(model_type).to_dict() if any(k.endswith("_config") for k in settings) else {}
    flat = dict(settings)
    for key, value in settings.items():
        if isinstance(base.get(key), dict):
            flat[key] = {k: v for k, v in base[key].items() if k != "layer_types"} | value
    return AutoConfig.for_model(model_type, **flat)


def describe(model_type: str, settings: Json, lengths: Iterable[int]) -> Json:
    """Measure one model type."""
    line: Json = {"type": model_type, "transformers": transformers.__version__}
    if settings:
        line["set"] = settings
    try:
        config = configure(model_type, settings)
        line["config"] = trimmed(json.loads(json.dumps(config.to_dict(), default=str)))
        with limit(600):
            model, line["built_with"] = build(config)
        line["parameters"] = parameters(model)
    except Exception as error:
        line["error"] = f"build: {text(error)}"
        return line
    try:
        again = AutoConfig.for_model(**merge(json.loads(json.dumps(line["config"])), settings))
        count = parameters(build(again)[0])
        if count != line["parameters"]:
            line["config_differs"] = f"{count} parameters when rebuilt from config"
    except Exception as error:
        line["config_differs"] = text(error)
    if model.config.is_encoder_decoder and "ForCausalLM" not in type(model).__name__:
        line["encoder_tokens"] = ENCODER_TOKENS
    found = measure(model, lengths)
    if not found["bytes_at"]:
        # Experts route by value: without numbers they cannot. They keep nothing, so a stand-in will do.
        stubbed = stub(model, r"(Experts|MoE|Moe|SparseMoeBlock|SparseMLP|MoeBlock)$")
        if stubbed:
            second = measure(model, lengths)
            if second["bytes_at"]:
                found = {**second, "stubbed": stubbed}
    return line | {k: v for k, v in found.items() if v}


def merge(base: Json, over: Json) -> Json:
    """Lay settings over others, inside nested ones too."""
    both = base | over
    for key in base.keys() & over.keys():
        if isinstance(base[key], dict) and isinstance(over[key], dict):
            both[key] = merge(base[key], over[key])
    return both


def cases() -> list[tuple[str, Json]]:
    """List what to measure: each generative type with its defaults, then the further settings."""
    lines = [json.loads(row) for row in CASES.read_text(encoding="utf-8").splitlines()]
    needed = {line["type"]: line["set"] for line in lines if line.get("needed")}
    plain_cases = [(name, needed.get(name, {})) for name in sorted(generative_types())]
    more = [
        (line["type"], merge(needed.get(line["type"], {}), line["set"])) for line in lines if not line.get("needed")
    ]
    return plain_cases + more


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--type", action="append", help="a model type; repeat it; default all generative types")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--out", type=Path, help="append to this file, skipping what it already has")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    done = set()
    if args.out and args.out.exists():
        lines = [json.loads(row) for row in args.out.read_text().splitlines()]
        done = {(line["type"], json.dumps(line.get("set", {}), sort_keys=True)) for line in lines}
    for model_type, settings in cases():
        if (args.type and model_type not in args.type) or (model_type, json.dumps(settings, sort_keys=True)) in done:
            continue
        start = time.monotonic()
        row = json.dumps(describe(model_type, settings, args.lengths), sort_keys=True)
        print(f"{model_type}: {time.monotonic() - start:.1f} s", file=sys.stderr, flush=True)
        if args.out:
            with args.out.open("a") as file:
                file.write(row + "\n")
        else:
            print(row, flush=True)


if __name__ == "__main__":
    main()
