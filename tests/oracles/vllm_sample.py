"""Cut a small, varied fixture out of a corpus of vLLM plans: one row of each kind, with the configs they are about.

    python tests/oracles/vllm_sample.py CORPUS tests/data/vllm-plans-sample.json

CORPUS holds vllm-plans.jsonl, vllm-shapes.csv, configs/ and shapes/. What an answer can't depend on is left out of the
configs (token ids, labels, generation defaults).
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

IDLE = (
    "auto_map", "bos_token_id", "eos_token_id", "pad_token_id", "id2label", "label2id", "task_specific_params",
    "transformers_version", "torchscript", "use_cache", "initializer_range", "temperature", "top_k", "top_p",
    "repetition_penalty", "num_beams", "max_length", "min_length", "do_sample", "_name_or_path", "early_stopping",
    "length_penalty", "no_repeat_ngram_size", "return_dict", "output_attentions", "output_hidden_states",
    "suppress_tokens", "begin_suppress_tokens", "bad_words_ids", "chat_template", "ignore", "ignored_layers",
    "modules_to_not_convert", "exclude_modules", "prefix", "problem_type", "remove_invalid_values", "finetuning_task",
    "quantized_layers", "config_groups", "layer_quant_config", "vision_config", "audio_config", "talker_config",
    "token2wav_config", "global_quant_config", "decoder_start_token_id", "forced_bos_token_id", "forced_eos_token_id", "tokenizer_class", "sep_token_id",
)  # fmt: skip


def trimmed(value: Any) -> Any:
    """The config without what no plan depends on."""
    if isinstance(value, dict):
        return {key: trimmed(entry) for key, entry in value.items() if key not in IDLE}
    return value


def plans(corpus: Path) -> list[dict[str, Any]]:
    """Rows of both tables in one spelling; `config` names the file."""
    rows = [json.loads(line) for line in (corpus / "vllm-plans.jsonl").read_text().splitlines()]
    for row in rows:
        row["config"] = f"configs/{row.pop('file')}"
    with (corpus / "vllm-shapes.csv").open() as table:
        rows += map(_shape, csv.DictReader(table))
    return rows


def _shape(row: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "config": f"shapes/{row['model']}.json", "gpu": "h100", "tp": int(row["tp"]), "pp": 1,
        "kv_cache_dtype": row["kv_dtype"], "flags": {},
    }  # fmt: skip
    if row["error"]:
        return {**found, "error": row["error"], "available_bytes": 0}
    numbers = ("available_bytes", "max_model_len", "num_blocks", "kv_tokens", "bytes_per_block", "block_size")
    return {
        **found,
        **{name: int(row[name]) for name in numbers},
        "max_concurrency": float(row["max_concurrency"]),
        "backends": row["backends"].split("+"),
        "groups": [],
    }


def kind(row: dict[str, Any]) -> str:
    """Rows of one kind go through the same rules."""
    error = row.get("error", "")
    if error:
        reason = "longest" if "estimated maximum" in error else "heads"
        return json.dumps([reason, row["config"] if reason != "heads" else "", row["flags"]])
    kinds = sorted({group["kind"] for group in row["groups"]})
    layers = len({group["layers"] for group in row["groups"]})
    if not kinds:
        return json.dumps([row["backends"], row["kv_cache_dtype"]])
    return json.dumps(
        [row["backends"], row["kv_cache_dtype_used"], row["mamba_cache_mode"], kinds, layers, row["pp"], row["flags"]]
    )


KEPT = (
    "config", "gpu", "tp", "pp", "kv_cache_dtype", "flags", "available_bytes", "max_model_len", "max_num_batched_tokens",
    "max_in_flight_tokens", "block_size", "num_blocks", "kv_tokens", "max_concurrency", "bytes_per_block", "error",
)  # fmt: skip


def main(corpus: Path, out: Path) -> None:
    """Write the fixture."""
    chosen: dict[str, dict[str, Any]] = {}
    for row in plans(corpus):
        chosen.setdefault(kind(row), row)
    heads = [key for key, row in chosen.items() if "must be divisible" in row.get("error", "")]
    longest = [key for key, row in chosen.items() if "estimated maximum" in row.get("error", "")]
    for key in heads[3:] + longest[8:]:
        del chosen[key]
    rows = [{name: row[name] for name in KEPT if name in row} for row in chosen.values()]
    for row in rows:
        row["error"] = row.get("error", "").split(" [type=")[0]
    names = sorted({row["config"] for row in rows})
    configs = {name: trimmed(json.loads((corpus / name).read_text())) for name in names}
    out.write_text(
        '{"configs": {\n'
        + ",\n".join(f"{json.dumps(name)}: {json.dumps(config)}" for name, config in configs.items())
        + '\n},\n"rows": [\n'
        + ",\n".join(json.dumps(row) for row in rows)
        + "\n]}\n"
    )
    sys.stderr.write(f"{len(rows)} rows, {len(configs)} configs, {out.stat().st_size:,} B\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
