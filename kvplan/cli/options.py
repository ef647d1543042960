"""Every flag of every command, defined once. They mean the same everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.arch.formats import KvFormat, parse_kv_format
from kvplan.cli.option import Option, natural, switch, words
from kvplan.report.render import FORMATS
from kvplan.text import any_of
from kvplan.units import (
    parse_bandwidth,
    parse_bytes,
    parse_share,
    parse_some_bytes,
    parse_token_list,
    parse_tokens,
    parse_whole,
)

if TYPE_CHECKING:
    from kvplan.arch.weights import Kept


def kv_dtype(text: str) -> KvFormat | None:
    """A cache format; None for `auto`.

    Raises: UnknownName.
    """
    return None if text.strip().lower() == "auto" else parse_kv_format(text)


def weight_dtype(text: str) -> Kept | None:
    """A format for weights, or a mix of several.

    Raises: UnknownName.
    """
    from kvplan.api.given import kept

    return kept(text)


# the model
REVISION = Option("revision", "branch, tag or commit on the Hub", str, "REV", "main")
OFFLINE = Option("offline", "never ask the network", switch)

# what is asked
CTX = Option(
    "ctx", "tokens of one sequence, prompt and output: 8k, 8k,32k or 8k..128k", parse_token_list, "TOKENS",
    "the model's own maximum",
)  # fmt: skip
CTX_ONE = Option(
    "ctx", "tokens of one sequence, prompt and output: 8192, 8k, 1m", parse_tokens, "TOKENS", "the model's own maximum"
)
PROMPT = Option(
    "prompt", "tokens of the longest sequence that are the prompt (for --explain)", parse_tokens, "TOKENS", "half"
)
CONCURRENCY = Option("concurrency", "sequences that must be admitted at once", parse_whole, "N", "as many as fit")
BATCH = Option("batch", "sequences of the decode step that is timed", parse_whole, "N", "as many as fit")
BATCH_READ = Option("batch", "sequences of the decode step whose reads of weights are shown", parse_whole, "N", "1")
KV_DTYPE = Option(
    "kv_dtype", "cache format: bf16, fp8, int8, nvfp4, q8_0, q4_0 ..., or K:V", kv_dtype, "T", "auto",
    completes="dtypes",
)  # fmt: skip
WEIGHT_DTYPE = Option(
    "weight_dtype", "plan as if the weights were in bf16, fp8, fp8-block, int4, nvfp4, mxfp4, q4_k_m ...", weight_dtype, "T",
    "the checkpoint's own", completes="weight_dtypes",
)  # fmt: skip
KV_DTYPES = Option("kv_dtype", "cache formats to compare: bf16,fp8,q8_0:q4_0", words, "T,T", "auto", completes="dtypes")
ATTENTION = Option(
    "attention",
    "kinds of attention for the same shape: mha,gqa,mqa,mla",
    words,
    "KIND,KIND",
    "its own",
    completes="attentions",
)
WINDOW = Option("window", "keep only the last TOKENS tokens (StreamingLLM; lossy)", parse_tokens, "TOKENS")
SINKS = Option("sinks", "with --window, also keep the first TOKENS tokens", natural, "TOKENS", "0")

# where it runs
GPU = Option("gpu", "accelerator: h100, h100x8, or auto for this machine's", str, "ID[xN]", completes="gpus")
GPU_MEMORY = Option("gpu_memory", "memory of one GPU, in place of the known one", parse_some_bytes, "80GB")
GPU_BANDWIDTH = Option(
    "gpu_bandwidth", "memory bandwidth of one GPU, in place of the known one", parse_bandwidth, "3.35TB/s"
)
TP = Option("tp", "tensor parallel size", parse_whole, "N", "1")
PP = Option("pp", "pipeline parallel size (stages)", parse_whole, "N", "1")
DP = Option("dp", "data parallel size (replicas)", parse_whole, "N", "1")
EP = Option("ep", "expert parallel size (ranks that share the experts)", parse_whole, "N", "1")
DCP = Option("dcp", "decode context parallel size (tensor ranks that share the tokens)", parse_whole, "N", "1")

# the engine and its memory
ENGINE = Option(
    "engine",
    "engine whose rules decide: ideal, vllm, or a release such as vllm@0.33",
    str,
    "NAME[@V]",
    completes="engines",
)
UTILIZATION = Option(
    "utilization", "share of a GPU's memory that the engine may use", parse_share, "F", "the engine's own"
)
KV_MEMORY = Option("kv_memory", "cache memory per GPU; skips the budget", parse_some_bytes, "40GiB")
WEIGHTS = Option("weights", "weights of the whole model, in place of the computed ones", parse_some_bytes, "140GB")
OVERHEAD = Option("overhead", "activations and runtime per GPU, in place of the estimate", parse_bytes, "2GiB")
BLOCK_SIZE = Option("block_size", "tokens of one cache block", parse_whole, "N", "the engine's own")
MAX_NUM_BATCHED_TOKENS = Option("max_num_batched_tokens", "tokens of one step", parse_whole, "N", "the engine's own")
MAX_NUM_SEQS = Option("max_num_seqs", "sequences of one step", parse_whole, "N", "the engine's own")
SPECULATIVE_TOKENS = Option(
    "speculative_tokens", "tokens drafted per step, by a draft model or the model's own MTP layers", natural, "N", "0"
)
DRAFT = Option(
    "draft", "draft model for speculative decoding: a name, Hub id or path", str, "MODEL", completes="models"
)
MAX_LORAS = Option("max_loras", "LoRA adapters resident at once", natural, "N", "0")
MAX_LORA_RANK = Option("max_lora_rank", "largest rank of an adapter", parse_whole, "R", "16")
LORA_TARGETS = Option(
    "lora_targets",
    "modules that adapters target: q_proj,v_proj",
    words,
    "M,M",
    "every linear layer, as vLLM makes room for",
)
ENABLE_PREFIX_CACHING = Option(
    "enable_prefix_caching",
    "prefix caching, even if it is off by default (recurrent state before vLLM 0.28)",
    switch,
)
NO_PREFIX_CACHING = Option("no_prefix_caching", "no prefix caching", switch)
LANGUAGE_MODEL_ONLY = Option(
    "language_model_only", "serve a multimodal model for text alone, without its vision and audio towers", switch
)
ENFORCE_EAGER = Option("enforce_eager", "no CUDA graphs", switch)
NO_ASYNC_SCHEDULING = Option("no_async_scheduling", "no asynchronous scheduling", switch)
NO_HYBRID = Option("disable_hybrid_kv_cache_manager", "layers with a window keep every token", switch)
SAFE = Option("safe", "the low end of an uncertain budget decides (the default)", switch)
CALIBRATION = Option(
    "calibration", "receipt of kvplan verify on such a GPU, whose speeds make the likely time of a step", str,
    "RECEIPT.json", "published speeds", completes="files",
)  # fmt: skip
LIKELY = Option("likely", "the likely value decides instead of the safe end", switch)

# what is printed
EMIT = Option(
    "emit", "print what starts a plan that fits: vllm, the serve command, or k8s, a pod", str, "FORM", completes="forms",
    settable=False,
)  # fmt: skip
EXPLAIN = Option("explain", "add the tree of terms, formulas, inputs and sources", switch)
JSON = Option("json", "one JSON document on stdout", switch)
FORMAT = Option(
    "format", f"{', '.join(FORMATS)}; several with commas", words, "F,F", "table", choices=FORMATS,
)  # fmt: skip
OUTPUT = Option(
    "output", "write to a file, in the format of its ending; may be repeated", str, "FILE", short="o",
    repeats=True, completes="files", settable=False,
)  # fmt: skip
COLOURS = ("auto", "always", "never")
COLOUR = Option("color", any_of(COLOURS), str, "WHEN", "auto", choices=COLOURS)
DEBUG = Option("debug", "print a traceback with every error", switch)
CONFIG = Option("config", "read settings from this file alone", str, "FILE", completes="files", settable=False)
NO_CONFIG = Option("no_config", "read no settings from files", switch, settable=False)
HELP = Option("help", "this text", switch, short="h", settable=False)

FROM_HUB = (REVISION, OFFLINE)
PARALLEL = (TP, PP, DP, EP, DCP)
ENGINE_FLAGS = (
    BLOCK_SIZE, MAX_NUM_BATCHED_TOKENS, MAX_NUM_SEQS, SPECULATIVE_TOKENS, ENABLE_PREFIX_CACHING, NO_PREFIX_CACHING,
    LANGUAGE_MODEL_ONLY, ENFORCE_EAGER, NO_ASYNC_SCHEDULING, NO_HYBRID,
)  # fmt: skip
BESIDE = (DRAFT, MAX_LORAS, MAX_LORA_RANK, LORA_TARGETS)
PRINTING = (JSON, FORMAT, OUTPUT, COLOUR, DEBUG, CONFIG, NO_CONFIG, HELP)
