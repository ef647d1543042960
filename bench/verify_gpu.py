"""Everything about `kvplan verify` that needs a GPU, in one run of at most six minutes.

    python bench/verify_gpu.py --out DIR                  run, and leave results in DIR
    python bench/verify_gpu.py --split DIR/receipts.json docs/measurements     one file for each receipt
    python bench/verify_gpu.py --device cpu --only llama-3.1-8b-fp8 --out DIR  the script itself, tried without a GPU

Needs torch with CUDA and this checkout's requirements; no network. Every model runs in a process of its own, so that one
that fails takes nothing with it, and those that no longer fit into the time are left out and named. DIR then holds

    receipts.json   the receipt of each run by name, as `kvplan verify --json` prints it
    kernels.csv     bandwidth of every attention reader over shapes and cache formats
    steps.csv       every step timed: bytes, predicted and measured seconds
    steps.svg       measured against bytes read, with the line through each model's steps
    summary.md      verdicts, bandwidths and errors
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
SECONDS = 345
SLACK = 12
START_SECONDS = 10
KERNEL_SECONDS = 40


class Run(NamedTuple):
    """A verification: its name, the words after `kvplan verify`, and roughly the seconds it is given."""

    name: str
    words: tuple[str, ...]
    seconds: int


LONG = ("--batch", "4")
"""For runs that only read more than 2^20 tokens, and leave out layers to make room for them."""

RUNS = (
    Run("llama-3.1-8b", ("llama-3.1-8b",), 28),
    Run("llama-3-70b-tp8", ("llama-3-70b", "--tp", "8", "--rank", "0"), 27),
    Run("deepseek-v3-tp8", ("deepseek-v3", "--tp", "8", "--rank", "0"), 29),
    Run("gemma-3-27b", ("gemma-3-27b",), 28),
    Run("qwen3-next-80b-a3b-tp2", ("qwen3-next-80b-a3b", "--tp", "2", "--rank", "0"), 29),
    Run("gpt-oss-120b-tp4", ("gpt-oss-120b", "--tp", "4", "--rank", "0"), 27),
    Run("llama-3.1-8b-long", ("llama-3.1-8b", "--layers", "26", *LONG), 23),
    Run("deepseek-v3-tp8-long", ("deepseek-v3", "--tp", "8", "--rank", "0", "--layers", "32", *LONG), 23),
    Run("gemma-3-27b-long", ("gemma-3-27b", "--layers", "54", *LONG), 23),
    Run("llama-3.1-8b-fp8", ("llama-3.1-8b", "--kv-dtype", "fp8"), 24),
    Run("llama-3.1-8b-int8-paged", ("llama-3.1-8b", "--kv-dtype", "int8_per_token_head", "--block-size", "16"), 22),
)
"""In order of importance: the last ones are left out first. The six models that must be shown come first.

Together with the first import of torch and the sweep they leave SLACK of SECONDS for slow starts.
"""

Json = dict[str, Any]


def main() -> int:
    """Run what was asked for. 0 if no prediction was refuted, 1 if one was, 2 if nothing could run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="folder for the results")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="for everything")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", action="append", help="a run's name; may be repeated")
    parser.add_argument("--no-kernels", action="store_true", help="leave the sweep of attention readers out")
    parser.add_argument("--cases", help=argparse.SUPPRESS)
    parser.add_argument("--small", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--split", type=Path, nargs=2, metavar=("RECEIPTS", "FOLDER"))
    given = parser.parse_args()
    if given.split:
        return split(*given.split)
    if given.out is None:
        parser.error("--out DIR is needed")
    if given.cases:
        return sweep_here([CASES[int(number)] for number in given.cases.split(",")], given.device, small=given.small)
    given.out.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + given.seconds
    preflight(parser, given.device)
    kernels: list[Json] = []
    skipped: list[str] = []
    if not given.no_kernels:
        kernels, skipped = sweep(given.out, given.device, min(given.seconds, KERNEL_SECONDS))
        write_csv(given.out / "kernels.csv", kernels)
    receipts: dict[str, Json] = {}
    for run in RUNS:
        if given.only and run.name not in given.only:
            continue
        left = deadline - time.monotonic()
        if left < run.seconds:
            skipped.append(f"{run.name}: {left:.0f} s were left of {run.seconds}")
            continue
        document, error = verify(run, given.device, left)
        if document is None:
            skipped.append(f"{run.name}: {error}")
        else:
            receipts[run.name] = document
        save(given.out, receipts, kernels, skipped)  # after every run: what is done is kept whatever comes
    save(given.out, receipts, kernels, skipped)  # what was left out at the end is named too
    print((given.out / "summary.md").read_text())
    if not receipts:
        return 2
    return 1 if any(receipt["verdict"] == "refuted" for receipt in receipts.values()) else 0


def verify(run: Run, device: str, left: float) -> tuple[Json | None, str]:
    """The receipt of one run, or why there is none."""
    words = [sys.executable, "-m", "kvplan", "verify", *run.words, "--device", device, "--json"]
    words += ["--budget-s", str(max(5, run.seconds - 12))]
    began = time.monotonic()
    try:
        done = subprocess.run(
            words,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=min(left, 2 * run.seconds),
            env=environment(),
        )
    except subprocess.TimeoutExpired as late:
        return None, f"stopped after {time.monotonic() - began:.0f} s{said(late.stderr)}"
    print(f"{run.name}: exit {done.returncode} after {time.monotonic() - began:.1f} s", flush=True)
    try:
        document: Json = json.loads(done.stdout)
    except ValueError:
        return None, f"exit {done.returncode} and no receipt{said(done.stderr or done.stdout)}"
    return document, ""


def said(stream: str | bytes | None) -> str:
    """The end of a process's output, to explain a missing receipt; empty if there was no output."""
    text = stream.decode(errors="replace") if isinstance(stream, bytes) else stream or ""
    return f": {text.strip()[-2000:]}" if text.strip() else ""


TINY = (
    "import sys, torch; sys.exit(int(torch.ones(8, device=sys.argv[1]).sum()) != 8 and 'a sum of eight ones is wrong')"
)


def preflight(parser: argparse.ArgumentParser, device: str) -> None:
    """Exit with 2 if kvplan or torch can't even start here, because time on a device is expensive.

    The first import of torch reads gigabytes, and the first use of a device makes its context. Afterwards neither is
    part of a run.
    """
    starts = {
        "kvplan --help": ["-m", "kvplan", "verify", "--help"],
        f"torch and a sum on {device}": ["-c", TINY, device],
    }
    for name, words in starts.items():
        began = time.monotonic()
        try:
            done = subprocess.run(
                [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False, env=environment(),
                timeout=6 * START_SECONDS,
            )  # fmt: skip
        except subprocess.TimeoutExpired as late:
            parser.exit(2, f"{name}: no answer after {late.timeout:.0f} s{said(late.stderr)}\n")
        if done.returncode:
            parser.exit(2, done.stderr.strip()[-2000:] + "\n")
        print(f"{name}: {time.monotonic() - began:.1f} s", flush=True)


def environment() -> dict[str, str]:
    """This process's environment, with this checkout first in PYTHONPATH."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])}


def save(out: Path, receipts: dict[str, Json], kernels: list[Json], skipped: list[str]) -> None:
    """Write everything that is known so far."""
    (out / "receipts.json").write_text(json.dumps(receipts, indent=1) + "\n")
    rows = [{"run": name, **step} for name, receipt in receipts.items() for step in receipt["steps"]]
    write_csv(out / "steps.csv", rows)
    (out / "steps.svg").write_text(plot(receipts))
    (out / "summary.md").write_text(summary(receipts, kernels, skipped))


def write_csv(path: Path, rows: Sequence[Json]) -> None:
    """Rows with the same keys."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]) if rows else ["nothing"])
        writer.writeheader()
        writer.writerows(rows)


def split(receipts: Path, folder: Path) -> int:
    """One file for each receipt, for docs/measurements."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, receipt in json.loads(receipts.read_text()).items():
        device = (receipt["machine"]["gpu"] or receipt["machine"]["name"]).lower().replace(" ", "-")
        (folder / f"{device}-{name}.json").write_text(json.dumps(receipt, indent=2) + "\n")
    return 0


# ---- attention readers by themselves ----


class Shape(NamedTuple):
    """One rank's attention in one of the models above with its cache. Kernels compiled here are reused by their runs.

    v_dim: None for a latent, whose value is 512 of its key's 576. page: tokens of a page. sink: whether heads have a
    logit.
    """

    name: str
    heads: int
    kv_heads: int
    k_dim: int
    v_dim: int | None
    batch: int
    tokens: int
    formats: tuple[str, ...]
    page: int | None = None
    sink: bool = False


SHAPES = (
    Shape("llama-3.1-8b", 32, 8, 128, 128, 16, 65_536, ("bf16", "fp8", "int8_per_token_head")),
    Shape("llama-3-70b rank", 8, 1, 128, 128, 32, 131_072, ("bf16", "fp8")),
    Shape("llama-3-70b rank, one sequence", 8, 1, 128, 128, 1, 1_048_576, ("bf16",)),
    Shape("deepseek-v3 rank", 16, 1, 576, None, 64, 65_536, ("bf16", "fp8")),
    Shape("gemma-3-27b", 32, 16, 128, 128, 16, 32_768, ("bf16",)),
    Shape("qwen3-next rank", 8, 1, 256, 256, 32, 65_536, ("bf16",)),
    Shape("gpt-oss rank", 16, 2, 64, 64, 64, 65_536, ("bf16",), sink=True),
    Shape("llama-3.1-8b paged", 32, 8, 128, 128, 16, 65_536, ("int8_per_token_head",), page=16),
)


CASES = tuple((shape, format_) for shape in SHAPES for format_ in shape.formats)
COMPILING = 0.7
"""Share of the sweep's time for compiling with Triton. A kernel takes seconds; timing one takes no time."""


def sweep(out: Path, device: str, seconds: float) -> tuple[list[Json], list[str]]:
    """Bandwidth of each reader on each shape and format, as a share of a copy's, and why some are missing.

    First each case runs at a small size in a process of its own, all at once, so that Triton compiles on all cores.
    Then the compiled ones run one by one at full size in another process, so that memory is free.
    """
    words = [sys.executable, __file__, "--device", device, "--out", str(out)]
    began = time.monotonic()
    compiled, skipped = compile_cases(words, began + COMPILING * seconds)
    left = max(1.0, began + seconds - time.monotonic())
    print(f"{len(compiled)} of {len(CASES)} caches' kernels compiled, {left:.0f} s left for timing them", flush=True)
    if not compiled:
        return [], skipped
    why = "no line of it"
    try:
        done = subprocess.run(
            [*words, "--cases", ",".join(map(str, compiled))],
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=left,
        )
        written, why = done.stdout, f"exit {done.returncode}{said(done.stderr)}"
        print(done.stderr.strip()[-1000:], flush=True)
    except subprocess.TimeoutExpired as late:
        written = late.stdout.decode() if isinstance(late.stdout, bytes) else late.stdout or ""
        why = f"stopped after {left:.0f} s"
    lines = [line for line in written.splitlines() if line.startswith("{") and line.endswith("}")]
    rows: list[Json] = [json.loads(line) for line in lines]
    timed_cases = {(row["shape"], row["format"]) for row in rows}
    for number in compiled:
        shape, format_ = CASES[number]
        if (shape.name, format_) not in timed_cases:
            skipped.append(f"readers of {shape.name}, {format_}: not timed, {why}")
    return rows, skipped


def compile_cases(words: Sequence[str], deadline: float) -> tuple[list[int], list[str]]:
    """Numbers of the cases compiled by the deadline (time.monotonic), and why others are not."""
    compiled: list[int] = []
    skipped: list[str] = []
    began = time.monotonic()
    warm = [
        subprocess.Popen([*words, "--cases", str(number), "--small"], env=environment(), stdout=subprocess.DEVNULL)
        for number in range(len(CASES))
    ]
    for number, process in enumerate(warm):
        name = f"readers of {CASES[number][0].name}, {CASES[number][1]}"
        try:
            code = process.wait(timeout=max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            skipped.append(f"{name}: not compiled within {time.monotonic() - began:.0f} s")
            continue
        if code:
            skipped.append(f"{name}: exit {code} as they were compiled")
        else:
            compiled.append(number)
    return compiled, skipped


def sweep_here(cases: Sequence[tuple[Shape, str]], device_name: str, *, small: bool) -> int:
    """Time the readers of some caches in this process and print a line of JSON each. small: only compile them."""
    import torch

    from kvplan.arch.formats import FORMATS
    from kvplan.verify.live.clock import copy_bandwidth
    from kvplan.verify.live.kernels.attend import Query
    from kvplan.verify.live.kernels.readers import candidates, triton_works
    from kvplan.verify.live.ledger import Ledger, bytes_of
    from kvplan.verify.live.machine import open_device
    from kvplan.verify.live.rows import Layout, Rows

    device, machine = open_device(device_name)
    copy = 1.0 if small else copy_bandwidth(device, machine.free // 4)
    works = triton_works(device)
    if not small:
        print(f"{machine.name}: copy {copy / 1e9:,.0f} GB/s; triton: {works or 'works'}", file=sys.stderr)
    for shape, format_ in cases:
        tokens, batch = (512, 1) if small or device.type == "cpu" else (shape.tokens, shape.batch)
        ledger, layout = Ledger(device, None), Layout(shape.page)
        table = layout.table(ledger, batch, tokens)
        rows = [
            Rows(ledger, batch=batch, heads=shape.kv_heads, slots=tokens, dim=dim, format_=FORMATS[format_],
                 dtype=torch.bfloat16, layout=layout, table=table)
            for dim in (shape.k_dim, shape.v_dim) if dim is not None
        ]  # fmt: skip
        for one in rows:
            one.fill(ledger)
        queries = torch.randn((batch, shape.heads, shape.k_dim), device=device).bfloat16()
        values = rows[1] if shape.v_dim else None
        sink = torch.zeros(shape.heads, device=device).bfloat16() if shape.sink else None
        query = Query(queries, rows[0], values, tokens, shape.v_dim or 512, shape.k_dim**-0.5, sink)
        size = sum(bytes_of(one.tensors()) for one in rows)
        for named in candidates(query, triton=works is None):
            row = {"shape": shape.name, "format": format_, "reader": named.name, "bytes": size}
            print(json.dumps(row | timed(named, query, size, copy, device, small=small)), flush=True)
    return 0


def timed(named: Any, query: Any, size: int, copy: float, device: Any, *, small: bool) -> Json:
    """Time one reader on one cache, in a graph as in a step. Otherwise Python's share of a millisecond would count."""
    from kvplan.verify.live.clock import graphed, median

    try:
        work = (lambda: named.read(query)) if small else graphed(lambda: named.read(query), device)[0]
        seconds = median(work, device, 1 if small else 7)
    except Exception as error:  # a reader that can't run here is a result too
        return {
            "seconds": "",
            "bytes_per_s": "",
            "share_of_copy": "",
            "error": f"{type(error).__name__}: {str(error)[:200]}",
        }
    return {"seconds": seconds, "bytes_per_s": size / seconds, "share_of_copy": size / seconds / copy, "error": ""}


# ---- what a person reads ----


def summary(receipts: dict[str, Json], kernels: Sequence[Json], skipped: Iterable[str]) -> str:
    """Verdicts, speeds and the largest errors, in markdown."""
    lines = ["# kvplan verify on a GPU", ""]
    for receipt in list(receipts.values())[:1]:
        machine, versions = receipt["machine"], receipt["versions"]
        lines += [
            f"{machine['name']}, driver {machine['driver']}, {', '.join(f'{k} {v}' for k, v in versions.items() if v)}",
            "",
        ]
    lines += [
        "| run | verdict | layers | weights | copy GB/s | cache, of copy | weights, of copy | launches | worst step | steps refuted |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, receipt in receipts.items():
        built, measured = receipt["built"], receipt["measured"]
        copy = measured["copy_bytes_per_s"] or 0.0
        steps = [
            row for row in receipt["rows"] if row["check"] == "time" and row["unit"] == "s" and row["error"] is not None
        ]
        worst = max((abs(row["error"]) for row in steps if row["verdict"] != "reported"), default=None)
        lines.append(
            f"| {name} | {receipt['verdict']} | {built['layers']}/{built['of_layers']} | {built['weights_bytes'] / 1e9:.1f} GB "
            f"| {copy / 1e9:,.0f} | {share(measured['kv_bytes_per_s'], copy)} | {share(measured['weight_bytes_per_s'], copy)} "
            f"| {launches(measured)} | {'-' if worst is None else f'{worst:.1%}'} "
            f"| {sum(row['verdict'] == 'refuted' for row in steps)} |"
        )
    refuted = [
        (name, row) for name, receipt in receipts.items() for row in receipt["rows"] if row["verdict"] == "refuted"
    ]
    lines += ["", "## Refuted", ""] if refuted else []
    lines += [
        f"- {name}: {row['what']}: predicted {row['predicted']}, measured {row['measured']} ({row['rule']})"
        for name, row in refuted
    ]
    lines += ["", "## Readers", "", *best_readers(kernels)]
    notes = [f"- {name}: {note}" for name, receipt in receipts.items() for note in receipt["notes"]]
    lines += ["", "## Notes", "", *notes, *(f"- left out: {reason}" for reason in skipped)]
    return "\n".join(lines) + "\n"


def launches(measured: Json) -> str:
    """Kernels of a step and the time of one; a dash if they weren't counted."""
    kernels, each = measured["kernels"], measured["launch_floor_s"]
    return "-" if kernels is None or each is None else f"{kernels} x {each * 1e6:.2f} us"


def share(speed: float | None, copy: float) -> str:
    """A speed as a share of the copy's."""
    return "-" if not speed or not copy else f"{speed / copy:.1%}"


def best_readers(kernels: Sequence[Json]) -> list[str]:
    """The fastest reader of each shape and format."""
    best: dict[tuple[str, str], Json] = {}
    for row in kernels:
        key = (row["shape"], row["format"])
        if row["bytes_per_s"] and row["bytes_per_s"] > best.get(key, {"bytes_per_s": 0})["bytes_per_s"]:
            best[key] = row
    lines = ["| shape | cache | reader | GB/s | of copy |", "|---|---|---|--:|--:|"]
    return lines + [
        f"| {shape} | {format_} | {row['reader']} | {row['bytes_per_s'] / 1e9:,.0f} | {row['share_of_copy']:.1%} |"
        for (shape, format_), row in best.items()
    ]


COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f")
WIDE, HIGH, LEFT, BOTTOM = 860, 520, 70, 50


def plot(receipts: dict[str, Json]) -> str:
    """Step time against bytes read: dots for measurements, lines for the copy's bandwidth plus launches."""
    steps = [step for receipt in receipts.values() for step in receipt["steps"]]
    if not steps:
        return f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDE}" height="{HIGH}"/>\n'
    most_bytes = max(step["weight_bytes"] + step["kv_bytes"] for step in steps)
    most_time = max(max(step["measured_s"], step["predicted_s"]) for step in steps)

    def at(size: float, seconds: float) -> tuple[float, float]:
        return LEFT + (WIDE - LEFT - 20) * size / most_bytes, HIGH - BOTTOM - (HIGH - BOTTOM - 20) * seconds / most_time

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDE}" height="{HIGH}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDE}" height="{HIGH}" fill="white"/>',
    ]
    for tick in range(6):
        x, y = at(most_bytes * tick / 5, most_time * tick / 5)
        parts += [
            f'<text x="{x:.0f}" y="{HIGH - BOTTOM + 18}" text-anchor="middle">{most_bytes * tick / 5e9:.0f}</text>',
            f'<text x="{LEFT - 8}" y="{y + 4:.0f}" text-anchor="end">{most_time * tick / 5 * 1e3:.1f}</text>',
            f'<line x1="{LEFT}" x2="{WIDE - 20}" y1="{y:.0f}" y2="{y:.0f}" stroke="#dddddd"/>',
        ]
    parts += [
        f'<text x="{(WIDE + LEFT) / 2:.0f}" y="{HIGH - 10}" text-anchor="middle">weights and cache read in a step, GB</text>',
        f'<text x="14" y="{HIGH / 2:.0f}" transform="rotate(-90 14 {HIGH / 2:.0f})" text-anchor="middle">ms a step</text>',
    ]
    for number, (name, receipt) in enumerate(receipts.items()):
        parts += series(name, receipt["steps"], COLOURS[number % len(COLOURS)], number, at)
    return "\n".join([*parts, "</svg>"]) + "\n"


def series(name: str, steps: Sequence[Json], colour: str, number: int, at: Any) -> list[str]:
    """One run: its dots, its prediction, and its entry in the legend."""
    ordered = sorted(steps, key=lambda step: step["weight_bytes"] + step["kv_bytes"])
    line = " ".join("{:.1f},{:.1f}".format(*at(s["weight_bytes"] + s["kv_bytes"], s["predicted_s"])) for s in ordered)
    dots = [
        '<circle cx="{:.1f}" cy="{:.1f}" r="4" fill="{}"/>'.format(
            *at(s["weight_bytes"] + s["kv_bytes"], s["measured_s"]), colour
        )
        for s in ordered
    ]
    y = 30 + 18 * number
    return [
        f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-dasharray="5 3"/>', *dots,
        f'<circle cx="{LEFT + 20}" cy="{y - 4}" r="4" fill="{colour}"/><text x="{LEFT + 30}" y="{y}">{name}</text>',
    ]  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
