"""What vLLM's flags mean to a plan: those it counts, by the keys of a budget, and those that it doesn't, as remarks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kvplan.check.build import DTYPE, EVERY_RANK, QUANTIZATION, STRETCHED
from kvplan.check.flags import VLLM, human, switch, whole
from kvplan.check.merge import Given, Key, Placed
from kvplan.check.serving import speculative, transfer
from kvplan.check.serving.command import ENDLESS, Arguments, Value, tree_of
from kvplan.check.serving.environment import special_kernels
from kvplan.engines.vllm.starts.steps import too_few_tokens
from kvplan.errors import KvplanError


def layer_of(found: Arguments) -> dict[Key, Placed]:
    """What the arguments say, by the keys of a budget. A value that vLLM would refuse is left out, and remarked as an error.

    Raises: CantRead for what can't be understood.
    """
    layer: dict[Key, Placed] = {}
    for name, value in found.flags.items():
        if not _listed(name, value):
            text = f"vLLM refuses --{name} {value.text}: no release has it"
            found.remark("bad-argument", text + _near(name, value), value.place, "error")
        elif name in _MEANT:
            key, read = _MEANT[name]
            try:
                layer[key] = Given(read(_said(value)), value.place)
            except KvplanError as error:
                text = f"vLLM refuses --{name}: {error.problem.what}"
                found.remark("bad-argument", text, value.place, "error")
        elif name in _SPECIAL:
            _SPECIAL[name](value, layer)
        elif name in _UNCOUNTED and _counts(name, value):
            found.remark("not-counted", f"--{name}: {_UNCOUNTED[name]}", value.place)
            if name in _STRETCHING:
                layer[("flags", STRETCHED)] = Given("true", value.place)
        elif name in (QUANTIZATION, DTYPE) and value.text is not None and value.text not in ("auto", "None"):
            layer[("flags", name)] = Given(value.text, value.place)
    speculative.read(found, layer)
    transfer.read(found, layer)
    _check_tokens(found, layer)
    return layer


def _listed(name: str, value: Value) -> bool:
    """Whether some release takes the value, where values are words of a list."""
    from kvplan.engines.vllm.tables.choices import ever_taken

    return value.text is None or value.text.lower() == "none" or ever_taken(name, value.text.lower())


def _near(name: str, value: Value) -> str:
    """The words of the list that may be meant."""
    from difflib import get_close_matches

    from kvplan.engines.vllm.tables.choices import CHOICES

    words = list(CHOICES[name])
    near = get_close_matches(str(value.text).lower(), words, n=3, cutoff=0.4)
    return f"; it takes {', '.join(near or sorted(words, key=_order)[:8])}{'' if near or len(words) <= 8 else ' ...'}"


def _order(word: str) -> tuple[int, str]:
    """Numbers by size, words by letters."""
    return (int(word), "") if word.isdigit() else (0, word)


def _check_tokens(found: Arguments, layer: Mapping[Key, Placed]) -> None:
    """Batches that vLLM refuses. Source: vLLM 0.33 config/scheduler.py verify_max_model_len."""
    batched = layer.get(("flags", "max_num_batched_tokens"))
    if batched is None:
        return
    tokens = human(batched.value)
    sequences, context = layer.get(("flags", "max_num_seqs")), layer.get(("context",))
    chunked = found.flags.get("enable-chunked-prefill")
    if sequences is not None and too_few_tokens(tokens, whole(sequences.value)):
        text = f"vLLM refuses --max-num-batched-tokens {tokens:,}, which is less than --max-num-seqs {sequences.value}"
        found.remark("bad-argument", text, batched.place, "error")
    if chunked is not None and not chunked.on and context is not None and tokens < int(context.value):
        text = f"vLLM refuses --max-num-batched-tokens {tokens:,} without chunked prefill, as a prompt may have {context.value:,}"
        found.remark("bad-argument", text, batched.place, "error")


def _said(value: Value) -> object:
    """A value as text; a list of a --config file's with blanks between; a switch as true or false."""
    if isinstance(value.tree, list):
        return " ".join(map(str, value.tree))
    return value.on if value.text is None else value.text


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


def _compilation(value: Value, layer: dict[Key, Placed]) -> None:
    """Without CUDA graphs where the configuration says so."""
    tree = tree_of(value)
    mode = str(tree.get("cudagraph_mode", "")).upper() if isinstance(tree, dict) else ""
    if mode == "NONE":
        layer[("flags", "enforce_eager")] = Given("true", value.place)


def _optimization(value: Value, layer: dict[Key, Placed]) -> None:
    if value.text == "0":
        layer[("flags", "enforce_eager")] = Given("true", value.place)


_SPECIAL: Mapping[str, Callable[[Value, dict[Key, Placed]], None]] = {
    "compilation-config": _compilation,
    "optimization-level": _optimization,
}

_UNCOUNTED: Mapping[str, str] = {
    "fully-sharded-loras": "adapters are counted as they are split without it",
    "lora-dtype": "adapters are counted in 16 bit",
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
    "mamba-cache-mode": "states are planned at the ends of blocks (align)",
    "mamba-block-size": "recurrent state is planned with vLLM's own block size",
    "prefill-context-parallel-size": "prefill context parallelism is not planned",
    "language-model-only": "towers are still counted",
    "mm-encoder-only": "the whole model is counted",
    "offload-group-size": "weights moved to the host are still counted on the GPU",
    "mm-encoder-tp-mode": "towers are counted split over the tensor ranks, and `data` keeps them whole on each",
    "kv-offloading-backend": "whether it turns the hybrid KV cache manager off is not counted",
    "attention-backend": "blocks are counted in the size that the default kernels want",
    "enable-multimodal-encoder-data-parallel": "towers are counted split over the tensor ranks, and this keeps them whole on each",
    "num-redundant-experts": "redundant experts are not counted: each rank holds more weights than planned",
    "eplb-config": "redundant experts are not counted: each rank holds more weights than planned",
    "additional-config": "its effect on memory is not known",
}
"""Flags that move memory and that a plan doesn't count, and what it does instead."""

_STRETCHING = frozenset({"hf-overrides", "rope-scaling", "hf-config-path"})
"""Flags that may give a model a longer context than its config does."""

_HARMLESS = {
    "dtype": {"auto", "bfloat16", "half", "float16"},
    "lora-dtype": {"auto", "bfloat16", "half", "float16"},
    "cpu-offload-gb": {"0", "0.0"},
    "quantization": {"None", "gptq", "gptq_marlin", "awq", "awq_marlin", "compressed-tensors", "modelopt",
                     "modelopt_fp4", "mxfp4", "torchao"},
    "prefill-context-parallel-size": {"1"},
    "mm-encoder-tp-mode": {"weights"},
    "kv-offloading-backend": {"native"},
    "num-redundant-experts": {"0"},
    "mamba-cache-mode": {"align", "none"},
}  # fmt: skip
"""Values that change nothing: defaults, and formats that a checkpoint states itself."""


def _counts(name: str, value: Value) -> bool:
    matters = _MATTERING.get(name)
    if matters is not None:
        return matters(value)
    return value.on and (value.text or "") not in _HARMLESS.get(name, frozenset())


def _adds_experts(value: Value) -> bool:
    tree = tree_of(value)
    return not isinstance(tree, dict) or tree.get("num_redundant_experts", 0) != 0


_MATTERING: Mapping[str, Callable[[Value], bool]] = {
    "attention-backend": lambda value: special_kernels(value.text or ""),
    "eplb-config": _adds_experts,
}
"""Flags of which only some values move memory."""


COUNTED = frozenset({*_MEANT, *_UNCOUNTED, *_SPECIAL, *speculative.FLAGS})
"""Flags whose value matters: one that only the shell knows leaves the command unread."""
