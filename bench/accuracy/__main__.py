"""Print how close kvplan comes to the figures of vLLM's start-up logs, as Markdown.

    python -m bench.accuracy LOGS.jsonl... --configs DIR

There are four tables: figures derived from the cache memory that a log prints; that memory from GPU, model and flags
alone; rates of overheads fitted on the same logs, beside those that kvplan uses; weights counted from configs, beside
the printed ones.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from bench.accuracy.capacities import Outcome, described, outcomes
from bench.accuracy.margins import learned, safe_ends, width
from bench.accuracy.overheads import Case, Rates, cases, fit, held_out, published
from bench.accuracy.rows import KNOWN, Row, read_rows
from bench.accuracy.weights import counted
from kvplan.engines.vllm.memory import doubt
from kvplan.engines.vllm.memory.overhead import COSTS
from kvplan.engines.vllm.tables.versions import text
from kvplan.units import GIB, MIB

NEAR, FAR, PROMISED_TOO_MUCH = 0.012, 0.06, 0.01


def main() -> None:
    """Read the logs and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("logs", type=Path, nargs="+")
    parser.add_argument("--configs", type=Path, required=True, help="folder that a row's config lies in")
    args = parser.parse_args()
    rows = read_rows(args.logs, args.configs)
    _figures(rows)
    _memory(cases(rows))
    _weights_of(rows)


def _figures(rows: Sequence[Row]) -> None:
    print("## Tokens, blocks and concurrency, given the printed cache memory\n")
    print("| rows | | as printed, flags as the log shows them | with unstated flags filled in |")
    print("|---|---|---|---|")
    stated, filled = outcomes(rows, resolved=False), outcomes(rows, resolved=True)
    for name, is_in in (
        ("all whose model is known", lambda _: True),
        ("their config is in the folder", lambda outcome: outcome.row.config_here),
        ("their version is printed", lambda outcome: outcome.row.version is not None),
    ):
        here = [outcome for outcome in filled if is_in(outcome)]
        print(f"| {name} | {len(here)} | {_share(stated, is_in)} | {_share(filled, is_in)} |")
    print("\n| row | model | GPU | version | printed | kvplan |\n|---|---|---|---|---|---|")
    for outcome in stated:
        if not outcome.hit:
            print(described(outcome))
    print("\nShown by the log, or by what started it, and not by its row:\n")
    for id_, known in KNOWN["stated"].items():
        if id_ != "about":
            print(f"* `{id_}`: {known['where']}")
    print("\nFilled in:\n")
    for id_, known in KNOWN["unstated"].items():
        if id_ != "about":
            print(
                f"* `{id_}`: {', '.join(f'{flag} {value}' for flag, value in known['flags'].items())}: {known['why']}"
            )
    print("\nNot explained by one flag:\n")
    for id_, why in KNOWN["unexplained"].items():
        if id_ != "about":
            print(f"* `{id_}`: {why}")


def _share(all_: Sequence[Outcome], is_in: Callable[[Outcome], bool]) -> str:
    here = [outcome for outcome in all_ if is_in(outcome)]
    hits = sum(outcome.hit for outcome in here)
    return f"{hits} ({hits / len(here):.1%})"


def _memory(rows: Sequence[Case]) -> None:
    rates = fit(rows)
    by_source = held_out(rows, lambda case: case.row.source)
    by_model = held_out(rows, lambda case: str(case.row.raw.get("model_id") or case.row.id))
    print(f"\n## Cache memory from GPU, model, flags and printed weights: {len(rows)} rows\n")
    print("| prediction | median error | 90th percentile | within 1.2 % | within 6 % |\n|---|---|---|---|---|")
    print(_line("total x utilization - weights - 4.5 GiB", [case.flat_error for case in rows]))
    print(_line("kvplan", [case.error(published()) for case in rows]))
    print(_line("rates from all other sources", [case.error(own) for case, own in zip(rows, by_source, strict=True)]))
    print(_line("rates from all other models", [case.error(own) for case, own in zip(rows, by_model, strict=True)]))
    ends = [case.kv.low / GIB for case in rows]
    _safe(rows, ends)
    print("| row | model | GPU | version | printed GiB | low | likely | error |\n|---|---|---|---|---|---|---|---|")
    for case, low in zip(rows, ends, strict=True):
        if abs(case.error(published())) > NEAR:
            print(_miss(case, low))
    _rates(rows, rates)


def _safe(rows: Sequence[Case], ends: Sequence[float]) -> None:
    """The low ends that kvplan gives, and those that the same procedure gives from other sources alone."""
    likely = [case.usable - _weights(case) - case.predicted(published()) for case in rows]
    gaps = [(most - low) / abs(case.available) for case, most, low in zip(rows, likely, ends, strict=True)]
    unsafe = sum(
        low > case.available + PROMISED_TOO_MUCH * abs(case.available) for case, low in zip(rows, ends, strict=True)
    )
    apart = safe_ends(rows)
    print(
        "\n| low end | promised over 1 % too much | below the likely one: median | 90th percentile |\n|---|---|---|---|"
    )
    print(_end("kvplan", unsafe, gaps))
    missed = [end for end in apart if end.promises_too_much]
    print(_end("rates and margins from all other sources", len(missed), [end.gap for end in apart]))
    print(f"\nWidth: {width(rows):.2f} asked for by these rows, {doubt.WIDTH:g} used;", end=" ")
    print(
        f"{min(end.width for end in apart):.2f} to {max(end.width for end in apart):.2f} with a source left out.",
        end="",
    )
    for end in missed:
        print(f" `{end.case.row.id}`: {end.low:.2f} GiB promised, {end.case.available} printed.", end="")
    print("\n")


def _end(name: str, unsafe: int, gaps: Sequence[float]) -> str:
    held = sorted(gaps)
    return f"| {name} | {unsafe} of {len(gaps)} | {median(held):.1%} | {held[int(0.9 * len(held))]:.1%} |"


def _weights_of(rows: Sequence[Row]) -> None:
    found = counted(rows)
    sizes = sorted(abs(each.error) for each in found)
    near = sum(size <= PROMISED_TOO_MUCH for size in sizes)
    print(f"\n## Weights: {len(found)} distinct models, GPUs and layouts\n")
    print(f"Median error {median(sizes):.2%}; {near} of {len(found)} within 1 %. The others:\n")
    print(
        "| row | model | GPU | format in the log | printed GiB | counted GiB | error |\n|---|---|---|---|---|---|---|"
    )
    for each in found:
        if abs(each.error) > PROMISED_TOO_MUCH:
            raw, gpu = each.row.raw, each.row.gpu
            name = raw.get("model_id") or raw.get("model_hint")
            where = f"{gpu.id if gpu else '-'} TP{each.row.parallel.tp}"
            stored = raw.get("quantization") or "16 bit"
            print(
                f"| {each.row.id} | {name} | {where} | {stored} | {each.printed:.2f} | {each.ours:.2f} | {each.error:+.1%} |"
            )


def _weights(case: Case) -> float:
    return float(case.row.reported["weights_gib"])


def _line(name: str, errors: Sequence[float]) -> str:
    sizes = sorted(map(abs, errors))
    near, far = (sum(size <= limit for size in sizes) / len(sizes) for limit in (NEAR, FAR))
    return f"| {name} | {median(sizes):.2%} | {sizes[int(0.9 * len(sizes))]:.1%} | {near:.0%} | {far:.0%} |"


def _miss(case: Case, low: float) -> str:
    row, likely = case.row, case.usable - _weights(case) - case.predicted(published())
    version = text(row.version) if row.version else "not printed"
    name = row.raw.get("model_id") or row.raw.get("model_hint")
    where = f"{case.gpu.id} TP{row.parallel.tp}"
    return (
        f"| {row.id} | {name} | {where} | {version} | {case.available} | {low:.2f} | {likely:.2f} | "
        f"{case.error(published()):+.1%} |"
    )


def _rates(rows: Sequence[Case], rates: Rates) -> None:
    known = learned(rows)
    print("\n## Rates\n\n| rate | rows | sources | fitted | used |\n|---|---|---|---|---|")
    for name, cost in COSTS.items():
        count = sum(name in case.amounts for case in rows)
        unit, size = ("B", 1) if name.startswith("logits") else ("MiB", MIB)
        fitted = f"{rates[name] / size:,.1f}" if name in rates else "-"
        print(f"| {name} | {count} | {known.sources.get(name, 0)} | {fitted} | {cost.likely / size:,.1f} {unit} |")
    classes = ", ".join(f"{name} ({count})" for name, count in sorted(known.classes.items()))
    print(f"\nClasses of GPU and the sources that show them: {classes}.")


if __name__ == "__main__":
    main()
