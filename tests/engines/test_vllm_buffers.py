"""What counts as weights beside a checkpoint's tensors and varies with the release or the steps: buffers and tables of positions.

Sizes are worked out by hand from the classes named; printed ones stand in public start-up logs ("Model loading took").
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvplan.arch.extras import with_draft
from kvplan.arch.model import Origin
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Options, Setup
from kvplan.engines.vllm.memory.buffers import buffers
from kvplan.engines.vllm.policy import Vllm
from kvplan.engines.vllm.tables.versions import parse
from kvplan.families import read
from kvplan.sources.gpus import load_gpu
from kvplan.sources.models import load_model
from kvplan.units import GIB

KNOWN = json.loads((Path(__file__).parents[2] / "bench" / "accuracy" / "models.json").read_text())["models"]


def model(name):
    return read(KNOWN[name], Origin(name, "bench/accuracy/models.json")) if name in KNOWN else load_model(name)


def started(name, version, gpu="h200", tp=1, pp=1, *, drafter=None, **options):
    target = model(name) if drafter is None else with_draft(model(name), model(drafter))
    setup = Setup(target, load_gpu(gpu), Parallel(tp=tp, pp=pp), None, Options(**options), 8192)
    return Vllm(parse(version)).start(setup)


def allocated(*asked, **options):
    """Bytes of buffers."""
    found = started(*asked, **options)
    return buffers(found.setup.model, found.made.settings, found.made.rules)


@pytest.mark.parametrize(
    ("name", "version", "gpu", "tp", "options", "printed"),
    [
        ("qwen3-vl-8b", "0.19.0", "h200", 1, {"max_num_batched_tokens": 8192}, 16.78),
        ("Qwen/Qwen3-VL-30B-A3B-Instruct", "0.19.0", "h200", 1, {"max_num_batched_tokens": 8192}, 58.23),
        ("Qwen/Qwen3-VL-30B-A3B-Instruct", "0.11.0", "rtx-3090", 4, {"max_num_batched_tokens": 2048}, 14.7708),
        ("deepseek-v4-flash", "0.25.0", "rtx-pro-6000-server", 2, {"max_num_batched_tokens": 4096, "max_num_seqs": 64, "speculative_tokens": 2}, 75.64),
    ],
)  # fmt: skip
def test_weights_are_what_logs_print(name, version, gpu, tp, options, printed):
    term = started(name, version, gpu, tp, **options).budget().weights
    assert term.bytes.likely / GIB == pytest.approx(printed, abs=0.02)
    assert f"buffers for steps of {options['max_num_batched_tokens']:,} tokens" in term.formula


@pytest.mark.parametrize(
    ("name", "version", "of_a_token"),
    [
        ("qwen3-vl-8b", "0.11.0", 3 * 4096 * 2),  # three layers, deepstack_input_embeds
        ("qwen3-vl-8b", "0.33.0", 3 * 4096 * 2),
        ("gemma-3n-e4b", "0.10.1", 35 * 256 * 2),  # layers x hidden_size_per_layer_input, per_layer_embeddings
        ("gemma-3n-e4b", "0.10.0", 0),
        ("gemma-4-e4b", "0.33.0", 42 * 256 * 2),
        ("gemma-4-31b", "0.33.0", 0),
        ("deepseek-v3.2", "0.33.0", 2048 * 4),  # index_topk, topk_indices_buffer
        ("deepseek-v3", "0.33.0", 0),
        ("qwen3.5-27b", "0.33.0", 0),
        ("llama-3.1-8b", "0.33.0", 0),
        ("deepseek-v4-flash", "0.26.0", 512 * 4 + 4 * 4096 * 2),  # four streams for a draft that may be
        ("deepseek-v4-flash", "0.27.0", 512 * 4),
    ],
)
def test_buffers_by_hand(name, version, of_a_token):
    assert allocated(name, version, tp=8, max_num_batched_tokens=3000, max_num_seqs=8) == 3000 * of_a_token


def test_buffers_of_drafts_by_hand():
    """DeepSeek-V4's prediction layer has numbers of picked keys of its own; since 0.27 a draft is what streams are kept for."""
    drafted = allocated(
        "deepseek-v4-flash", "0.33.0", tp=8, max_num_batched_tokens=3000, max_num_seqs=8, speculative_tokens=1
    )
    assert drafted == 3000 * (2 * 512 * 4 + 4 * 4096 * 2)
    assert allocated("qwen3-8b", "0.33.0", drafter="qwen3-0.6b", speculative_tokens=1) == 0


def test_text_alone_has_no_buffer_for_images():
    """qwen3_vl.py: use_deepstack is false without the tower, and up to 0.28 the buffer is on no device. Gemma's is kept."""
    options = {"max_num_batched_tokens": 4096, "max_num_seqs": 8, "language_model_only": True}
    assert allocated("qwen3-vl-8b", "0.19.0", **options) == allocated("qwen3-vl-8b", "0.33.0", **options) == 0
    assert allocated("gemma-4-e4b", "0.33.0", **options) == 4096 * 42 * 256 * 2


def test_given_weights_are_taken_as_they_are():
    found = started("qwen3-vl-8b", "0.33.0", weights_per_gpu=17 * GIB).budget().weights
    assert found.bytes.likely == 17 * GIB


@pytest.mark.parametrize(("name", "columns"), [("qwen3-vl-8b", 128), ("qwen3.5-27b", 64), ("qwen3.6-27b", 64)])
def test_tables_of_a_clock_s_positions_were_four_times_as_long(name, columns):
    """262,144 rows in 16 bit. Source: layers/rotary_embedding/mrope.py of 0.31 and 0.32: max_position_embeddings x 4, or x positions_factor."""
    before, after = (started(name, version).budget().weights.bytes.likely for version in ("0.31.0", "0.32.0"))
    assert before - after == 3 * 262_144 * columns * 2


def test_tables_that_may_be_outrun_stayed_as_long():
    before, after = (
        started("Qwen/Qwen2.5-VL-7B-Instruct", version).budget().weights.bytes.likely
        for version in ("0.31.0", "0.32.0")
    )
    assert before == after
