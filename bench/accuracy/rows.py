"""Start-up logs as questions for kvplan: a row of engine-logs.jsonl with its model, GPU, version and flags."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from kvplan.arch.extras import with_draft, without_towers
from kvplan.arch.formats import FORMATS, KvFormat, parse_kv_format
from kvplan.arch.model import Model, Origin
from kvplan.arch.parallel import Parallel
from kvplan.arch.storage import FP32
from kvplan.engines.base import Options
from kvplan.engines.vllm.tables.versions import NEWEST, Version
from kvplan.errors import KvplanError
from kvplan.families import read
from kvplan.families.quantization.mixes import kept_named
from kvplan.hardware.gpu import Fact, Gpu
from kvplan.sources.gpus import load_gpu
from kvplan.sources.models import load_model
from kvplan.units import GIB

KNOWN: dict[str, Any] = json.loads(Path(__file__).with_name("models.json").read_text())
GPU_NOISE = re.compile(r"\s*\(.*\)|-class|\s[\d,]+ MiB.*| card$|\s\d+ ?GB$")
GPU_SIZE = re.compile(r"(\d+) ?GB")
QUANTIZED = (("fp8", "fp8"), ("mxfp4", "mxfp4"), ("fp4", "nvfp4"), ("int4", "int4"), ("awq", "int4"), ("4bit", "int4"))
HALF = 16
WIDE = ("float32", "torch.float32")
NARROW = ("float16", "torch.float16", "half")
V0: Version = (0, 6, 4)


@dataclass(frozen=True)
class Row:
    """One log.

    config_here: whether the corpus has the model's own config. version: None if nothing states it. unknown: a cache
    format that only a fork has.
    """

    id: str
    source: str
    model: Model | None
    config_here: bool
    gpu: Gpu | None
    version: Version | None
    parallel: Parallel
    options: Options
    length: int | None
    kv: KvFormat | None
    unknown: str | None
    reported: dict[str, float]
    raw: dict[str, Any]


def read_rows(files: Path | Sequence[Path], configs: Path, engine: str = "vllm") -> list[Row]:
    """Rows of one engine in order, each start once. configs: the folder of the rows' configs."""
    texts = [file.read_text() for file in ([files] if isinstance(files, Path) else files)]
    raws: dict[str, dict[str, Any]] = {}
    for raw in (json.loads(line) for text in texts for line in text.splitlines() if line.strip()):
        raws.setdefault(raw["id"], raw)
    return [_row(_whole(raw), configs) for raw in raws.values() if raw["engine"] == engine]


def _whole(raw: dict[str, Any]) -> dict[str, Any]:
    """A row completed by what its log shows elsewhere."""
    shown = KNOWN["stated"].get(raw["id"], {}).get("row", {})
    return {**raw, **shown, "flags": {**(raw.get("flags") or {}), **shown.get("flags", {})}}


def _row(raw: dict[str, Any], configs: Path) -> Row:
    config = configs / (raw.get("config") or "-")
    kv, unknown = _kv(raw)
    return Row(
        id=raw["id"],
        source=_source(raw["source_url"]),
        model=_model(raw, config),
        config_here=config.is_file(),
        gpu=_gpu(raw),
        version=_version(raw),
        parallel=_parallel(raw),
        options=_options(raw),
        length=raw.get("max_model_len") or raw["reported"].get("max_concurrency_for_tokens"),
        kv=kv,
        unknown=unknown,
        reported=raw["reported"],
        raw=raw,
    )


def _source(url: str) -> str:
    """The repository or thread of a row."""
    parts = url.split("/")
    if "github.com" not in url:
        return url
    return "/".join(parts[3:7] if parts[5:6] == ["issues"] else parts[3:5])


def _model(raw: dict[str, Any], config: Path) -> Model | None:
    name = raw.get("model_id") or raw.get("model_hint") or ""
    known = KNOWN["models"].get(name)
    if isinstance(known, str) and known.startswith("="):
        known = KNOWN["models"][known[1:]]
    if known is None and not config.is_file():
        return None
    model = _described(name) if known is not None else _configured(config)
    if raw.get("model_dtype") in WIDE:
        wide = model.weights and model.weights.stored_as(FP32)
        model = replace(model, dtype=FORMATS["fp32"], weights=wide)
    elif raw.get("model_dtype") in NARROW:
        model = replace(model, dtype=FORMATS["fp16"])
    if raw["flags"].get("language_model_only"):
        model = without_towers(model)
    draft = KNOWN["stated"].get(raw["id"], {}).get("draft")
    if draft is not None:
        model = with_draft(model, read(draft, Origin(f"{name}'s draft", "bench/accuracy/models.json")))
    return _stored(model, raw.get("quantization") or "")


@cache
def _described(name: str) -> Model:
    known = KNOWN["models"][name]
    if isinstance(known, str):
        return _described(known[1:]) if known.startswith("=") else load_model(known, offline=True)
    return read(known, Origin(name, "bench/accuracy/models.json"))


@cache
def _configured(config: Path) -> Model:
    return read(json.loads(config.read_text()), Origin(config.stem, str(config)))


def _stored(model: Model, quantization: str) -> Model:
    """The model in the log's format, if its config is the 16-bit checkpoint's."""
    named = next((storage for part, storage in QUANTIZED if part in quantization.lower()), None)
    if (
        named is None
        or model.weights is None
        or any(weight.stored.bits < HALF for block in model.weights.layers for weight in block)
    ):
        return model
    return replace(model, weights=model.weights.stored_as(kept_named(named)))


def _gpu(raw: dict[str, Any]) -> Gpu | None:
    """The log's GPU with the memory that it prints. Windows shows more of a card than Linux, and systems may keep some."""
    name, total = raw.get("gpu_name") or "", raw["reported"].get("total_gpu_mem_gib")
    size = None if total is None else Fact(round(total * GIB), "given", ("the log",))
    for spelling in (name, GPU_NOISE.sub("", name)):
        try:
            found = load_gpu(spelling) if spelling else None
        except KvplanError:
            continue
        sold = GPU_SIZE.search(name)
        fits = found is not None and (sold is None or found.memory.value > 0.8e9 * int(sold[1]))
        return found if found is None or size is None or not fits else replace(found, memory=size)
    if size is None:
        return None
    return Gpu(name, name, "nvidia", "", size, Fact(1, "given", ("nobody",)), compute_capability=(8, 0))


def _version(raw: dict[str, Any]) -> Version | None:
    stated = raw.get("engine_version") or KNOWN["versions"].get(raw["source_url"]) or ""
    if stated.startswith("V0"):
        return V0
    found = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", stated)
    if found is None:
        return None
    major, minor, patch = (int(part or 0) for part in found.groups())
    return min((major, minor, patch), NEWEST)


def _parallel(raw: dict[str, Any]) -> Parallel:
    flags, pp = raw["flags"], raw.get("pp") or 1
    tp = raw.get("tp") or (1 if pp > 1 else raw.get("gpu_count") or 1)
    spread = flags.get("enable_expert_parallel") or raw.get("ep")
    return Parallel(tp=tp, pp=pp, ep=tp if spread else 1, dcp=flags.get("dcp", 1))


def _options(raw: dict[str, Any]) -> Options:
    flags, reported = raw["flags"], raw["reported"]
    drafted = re.search(r"(?:mtp|draft)(?: n=(\d+))?", str(flags.get("speculative") or ""))
    weights = reported.get("weights_gib")
    return Options(
        utilization=raw.get("gpu_memory_utilization"),
        weights_per_gpu=None if weights is None else round(weights * GIB),
        block_size=raw.get("block_size") or flags.get("block_size"),
        max_num_batched_tokens=flags.get("max_num_batched_tokens"),
        max_num_seqs=flags.get("max_num_seqs"),
        prefix_caching=flags.get("enable_prefix_caching", flags.get("prefix_caching")),
        graphs=not flags.get("enforce_eager", False),
        async_scheduling=flags.get("async_scheduling", True) is not False,
        speculative_tokens=int(drafted[1] or 1) if drafted else 0,
    )


def _kv(raw: dict[str, Any]) -> tuple[KvFormat | None, str | None]:
    name = raw.get("kv_cache_dtype")
    if name in (None, "auto") and raw.get("model_dtype") in WIDE:
        name = "fp32"
    try:
        return None if name in (None, "auto") else parse_kv_format(name), None
    except KvplanError:
        return None, name
