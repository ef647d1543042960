"""Asks vLLM's own parser what it makes of command lines, and keeps the answers as facts for tests/check.

Run where vLLM is installed (no GPU needed), from the project's root:

    python tests/oracles/vllm_arguments.py > tests/data/vllm-arguments.json
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
from pathlib import Path

CONFIG = """\
model: Qwen/Qwen3-8B
max-model-len: 16K
tensor_parallel_size: 2
enforce-eager: true
enable-prefix-caching: false
kv-cache-dtype: fp8
"""

LINES: list[tuple[str, ...]] = [
    ("Qwen/Qwen3-8B",),
    ("Qwen/Qwen3-8B", "--max-model-len", "8192"),
    ("Qwen/Qwen3-8B", "--max_model_len=8k"),
    ("Qwen/Qwen3-8B", "--max-model-len", "8K"),
    ("Qwen/Qwen3-8B", "--max-model-len", "25.6k"),
    ("Qwen/Qwen3-8B", "--max-model-len", "1M"),
    ("Qwen/Qwen3-8B", "--max-model-len", "auto"),
    ("Qwen/Qwen3-8B", "--max-model-len", "-1"),
    ("Qwen/Qwen3-8B", "--max-model-len", "1.5K"),
    ("Qwen/Qwen3-8B", "-tp", "4", "-pp", "2", "-dp", "2", "-dcp", "2", "-ep"),
    ("Qwen/Qwen3-8B", "-tp=4"),
    ("--model", "Qwen/Qwen3-8B", "--tensor-parallel-size", "8"),
    ("Qwen/Qwen3-8B", "--gpu_memory_utilization", "0.85", "--block-size", "32"),
    ("Qwen/Qwen3-8B", "--device-memory-utilization", "0.8"),
    ("Qwen/Qwen3-8B", "--kv-cache-memory-bytes", "20G"),
    ("Qwen/Qwen3-8B", "--max-num-batched-tokens", "16k", "--max-num-seqs", "64"),
    ("Qwen/Qwen3-8B", "--no-enable-prefix-caching", "--no-async-scheduling", "--enforce-eager"),
    ("Qwen/Qwen3-8B", "--enable-prefix-caching", "--disable-hybrid-kv-cache-manager"),
    ("Qwen/Qwen3-8B", "--kv-cache-dtype", "fp8_e4m3"),
    ("Qwen/Qwen3-8B", "--served-model-name", "a", "b", "--max-num-seqs", "8"),
    ("Qwen/Qwen3-8B", "--speculative-config", '{"method": "mtp", "num_speculative_tokens": 3}'),
    ("Qwen/Qwen3-8B", "--speculative-config.method", "mtp", "--speculative-config.num_speculative_tokens", "2"),
    ("Qwen/Qwen3-8B", "--trust-remote-code", "--revision", "abc123", "--dtype", "bfloat16"),
    ("Qwen/Qwen3-8B", "--max-model-len", "4096", "--max-model-len", "8192"),
    ("Qwen/Qwen3-8B", "--enforce-eager", "--no-enforce-eager"),
    ("Qwen/Qwen3-8B", "--max-model-len 8192"),
    ("Qwen/Qwen3-8B", "--max-modl-len", "8192"),
    ("Qwen/Qwen3-8B", "--max-num-seqs", "many"),
    ("Qwen/Qwen3-8B", "--max-num-seq", "8"),
    ("Qwen/Qwen3-8B", "--tensor-parallel", "4", "--enforce"),
    ("Qwen/Qwen3-8B", "--max-num", "8"),
    ("Qwen/Qwen3-8B", "--max_model=4096"),
    ("Qwen/Qwen3-8B", "-tp4"),
    ("--config", "CONFIG"),
    ("Qwen/Qwen3-32B", "--config", "CONFIG"),
    ("--config", "CONFIG", "--max-model-len", "4096", "-tp", "1"),
    ("--config", "CONFIG", "--no-enforce-eager", "--enable-prefix-caching"),
]

KEPT = (
    "max_model_len", "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "enable_expert_parallel",
    "decode_context_parallel_size", "gpu_memory_utilization", "block_size", "kv_cache_memory_bytes", "revision",
    "max_num_batched_tokens", "max_num_seqs", "enable_prefix_caching", "async_scheduling", "enforce_eager",
    "disable_hybrid_kv_cache_manager", "kv_cache_dtype",
)  # fmt: skip


def main() -> None:
    """Print the facts: for each line what differs from no flags at all, or that it is refused."""
    import vllm

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.yaml"
        path.write_text(CONFIG)
        plain = ask(("Qwen/Qwen3-8B",))
        assert plain is not None
        rows = []
        for words in LINES:
            found = ask(tuple(str(path) if word == "CONFIG" else word for word in words))
            said = None if found is None else {k: v for k, v in found.items() if k == "model" or v != plain[k]}
            rows.append({"words": list(words), "said": said})
    json.dump({"vllm": vllm.__version__, "config": CONFIG, "lines": rows}, sys.stdout, indent=1)
    print()


def ask(words: tuple[str, ...]) -> dict[str, object] | None:
    """What `vllm serve WORDS` would be started with; None where its parser refuses."""
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = FlexibleArgumentParser(prog="vllm")
    serve = parser.add_subparsers(dest="command").add_parser("serve")
    serve.add_argument("model_tag", nargs="?")
    serve.add_argument("--config")
    AsyncEngineArgs.add_cli_args(serve)
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            found = parser.parse_args(["serve", *words])
    except (SystemExit, ValueError):
        return None
    values = {name: getattr(found, name) for name in KEPT}
    spec = found.speculative_config
    return {"model": found.model_tag or found.model, **values, "speculative_config": spec}


if __name__ == "__main__":
    main()
