"""What vLLM's flags mean to a plan: those it counts, by the keys of a budget, and those that it doesn't, as remarks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kvplan.check.build import EVERY_RANK, STRETCHED
from kvplan.check.flags import VLLM, human, switch, whole
from kvplan.check.merge import Key, Placed
from kvplan.check.serving.command import ENDLESS, Arguments, CantRead, Given, Value, tree_of
from kvplan.errors import KvplanError


def layer_of(found: Arguments) -> dict[Key, Placed]:
    """What the arguments say, by the keys of a budget. A value that vLLM would refuse is left out, and remarked as an error.

    Raises: CantRead for what can't be understood.
    """
    layer: dict[Key, Placed] = {}
    for name, value in found.flags.items():
        if name in _MEANT:
            key, read = _MEANT[name]
            text = value.text if value.text is not None else value.on
            try:
                layer[key] = Given(read(text), value.place)
            except KvplanError as error:
                text = f"vLLM refuses --{name}: {error.problem.what}"
                found.remark("bad-argument", text, value.place, "error")
        elif name in _SPECIAL:
            _SPECIAL[name](value, found, layer)
        elif name in _UNCOUNTED and _counts(name, value):
            found.remark("not-counted", f"--{name}: {_UNCOUNTED[name]}", value.place)
            if name in _STRETCHING:
                layer[("flags", STRETCHED)] = Given("true", value.place)
    _check_tokens(found, layer)
    return layer


def _check_tokens(found: Arguments, layer: Mapping[Key, Placed]) -> None:
    """Batches that vLLM refuses. Source: vLLM 0.33 config/scheduler.py verify_max_model_len."""
    batched = layer.get(("flags", "max_num_batched_tokens"))
    if batched is None:
        return
    tokens = human(batched.value)
    sequences, context = layer.get(("flags", "max_num_seqs")), layer.get(("context",))
    chunked = found.flags.get("enable-chunked-prefill")
    if sequences is not None and tokens < whole(sequences.value):
        text = f"vLLM refuses --max-num-batched-tokens {tokens:,}, which is less than --max-num-seqs {sequences.value}"
        found.remark("bad-argument", text, batched.place, "error")
    if chunked is not None and not chunked.on and context is not None and tokens < int(context.value):
        text = f"vLLM refuses --max-num-batched-tokens {tokens:,} without chunked prefill, as a prompt may have {context.value:,}"
        found.remark("bad-argument", text, batched.place, "error")


def _text(value: object) -> str:
    return str(value)


def _length(value: object) -> int:
    return ENDLESS if str(value).strip().lower() in {"auto", "-1"} else human(value)


def _checked(read: Callable[[object], object]) -> Callable[[object], object]:
    """The value as it stands, once it could be read."""

    def same(value: object) -> object:
        read(value)
        return value

    return same


def _every_rank(value: object) -> int:
    return EVERY_RANK if switch(value) else 1


_MEANT: Mapping[str, tuple[Key, Callable[[object], Any]]] = {
    "model": (("model",), _text),
    "revision": (("revision",), _text),
    "max-model-len": (("context",), _length),
    "kv-cache-dtype": (("kv_dtype",), _text),
    "tensor-parallel-size": (("parallel", "tp"), whole),
    "pipeline-parallel-size": (("parallel", "pp"), whole),
    "data-parallel-size": (("parallel", "dp"), whole),
    "decode-context-parallel-size": (("parallel", "dcp"), whole),
    "enable-expert-parallel": (("parallel", "ep"), _every_rank),
    **{
        name.replace("_", "-"): (("flags", name), _checked(flag.read))
        for name, flag in VLLM.items()
        if name != "num_speculative_tokens"
    },
}
"""Flags that a plan counts: the budget's key, and how the value is read (and thereby checked)."""


def _speculative(value: Value, found: Arguments, layer: dict[Key, Placed]) -> None:
    """The model's own MTP layers are counted; a draft model beside it isn't."""
    tree = tree_of(value)
    if not isinstance(tree, dict):
        raise CantRead("its --speculative-config is not JSON", value.place)
    method, drafter = str(tree.get("method", "")), tree.get("model")
    tokens = tree.get("num_speculative_tokens", 1)
    if drafter is None and method.endswith("mtp") and isinstance(tokens, int):
        layer[("flags", "num_speculative_tokens")] = Given(tokens, value.place)
    elif method not in {"ngram", "suffix", "[ngram]"}:
        found.remark(
            "not-counted", "--speculative-config: the draft model's weights and cache are not counted", value.place
        )


def _compilation(value: Value, _found: Arguments, layer: dict[Key, Placed]) -> None:
    """Without CUDA graphs where the configuration says so."""
    tree = tree_of(value)
    mode = str(tree.get("cudagraph_mode", "")).upper() if isinstance(tree, dict) else ""
    if mode == "NONE":
        layer[("flags", "enforce_eager")] = Given("true", value.place)


def _optimization(value: Value, _found: Arguments, layer: dict[Key, Placed]) -> None:
    if value.text == "0":
        layer[("flags", "enforce_eager")] = Given("true", value.place)


_SPECIAL: Mapping[str, Callable[[Value, Arguments, dict[Key, Placed]], None]] = {
    "speculative-config": _speculative,
    "compilation-config": _compilation,
    "optimization-level": _optimization,
}

_UNCOUNTED: Mapping[str, str] = {
    "enable-lora": "memory of adapters is not counted",
    "cpu-offload-gb": "weights moved to the host are still counted on the GPU",
    "num-gpu-blocks-override": "the number of blocks is planned from memory, not taken from here",
    "quantization": "weights are counted as the checkpoint stores them",
    "dtype": "weights and cache are counted in the checkpoint's type",
    "hf-overrides": "the model is planned by its own config",
    "rope-scaling": "the model is planned by its own config",
    "hf-config-path": "the model is planned by its own config",
    "disable-sliding-window": "windows are planned as windows",
    "kv-cache-dtype-skip-layers": "all layers are counted in one cache format",
    "mamba-cache-dtype": "recurrent state is counted in the model's own type",
    "mamba-ssm-cache-dtype": "recurrent state is counted in the model's own type",
    "mamba-block-size": "recurrent state is planned with vLLM's own block size",
    "prefill-context-parallel-size": "prefill context parallelism is not planned",
    "speculative-model": "the draft model's weights and cache are not counted",
    "spec-model": "the draft model's weights and cache are not counted",
    "language-model-only": "towers are still counted",
    "mm-encoder-only": "the whole model is counted",
    "offload-group-size": "weights moved to the host are still counted on the GPU",
    "additional-config": "its effect on memory is not known",
}
"""Flags that move memory and that a plan doesn't count, and what it does instead."""

_STRETCHING = frozenset({"hf-overrides", "rope-scaling", "hf-config-path"})
"""Flags that may give a model a longer context than its config does."""

_HARMLESS = {
    "dtype": {"auto", "bfloat16", "half", "float16"},
    "cpu-offload-gb": {"0", "0.0"},
    "quantization": {"None", "gptq", "gptq_marlin", "awq", "awq_marlin", "compressed-tensors", "modelopt",
                     "modelopt_fp4", "mxfp4", "torchao"},
    "prefill-context-parallel-size": {"1"},
}  # fmt: skip
"""Values that change nothing: defaults, and formats that a checkpoint states itself."""


def _counts(name: str, value: Value) -> bool:
    return value.on and (value.text or "") not in _HARMLESS.get(name, frozenset())


COUNTED = frozenset({*_MEANT, *_UNCOUNTED, *_SPECIAL})
"""Flags whose value matters: one that only the shell knows leaves the command unread."""
