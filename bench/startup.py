"""How long a whole `kvplan` process takes, compared with importing typer, click and rich, and with kvfit.

    python bench/startup.py [--rounds 15] [--kvfit PATH]

Every round runs each command once, so that a busy machine slows all of them alike. It prints medians, ratios to `python
-c "import typer"` (of the dev extra) and peak memory; it only measures and never fails. Compiled Python files are kept
in a temporary folder, as an installed package has them. kvfit is looked for on PATH unless given: it needs an
environment of its own (`pip install kvfit==0.3.0`), and only its help is timed, because it sizes nothing without the
Hub.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

KVPLAN = [sys.executable, "-m", "kvplan"]

COMMANDS: dict[str, list[str]] = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import typer": [sys.executable, "-c", "import typer"],
    "import click, rich.table": [sys.executable, "-c", "import click, rich.console, rich.table"],
    "import kvplan": [sys.executable, "-c", "import kvplan"],
    "kvplan --help": [*KVPLAN, "--help"],
    "kvplan size": [*KVPLAN, "size", "llama-3-70b"],
    "kvplan size --json": [*KVPLAN, "size", "llama-3-70b", "--json"],
    "kvplan fit MODEL": [*KVPLAN, "fit", "llama-3-70b", "--gpu", "h100", "--tp", "8", "--ctx", "128k"],
    "kvplan fit (all models)": [*KVPLAN, "fit", "--gpu", "h100", "--tp", "8", "--ctx", "8k"],
}


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--kvfit", default=shutil.which("kvfit"))
    args = parser.parse_args()
    commands = dict(COMMANDS)
    if args.kvfit:
        commands["kvfit --help"] = [args.kvfit, "--help"]
    times: dict[str, list[float]] = {name: [] for name in commands}
    memory: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        variables = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        variables.pop("PYTHONDONTWRITEBYTECODE", None)
        for lap in range(args.rounds + 1):
            for name, command in commands.items():
                seconds, memory[name] = run(command, variables)
                if lap:  # the first compiles
                    times[name].append(seconds)
    typer = statistics.median(times["import typer"])
    print(f"{'':26} {'median':>9} {'fastest':>9} {'x typer':>8} {'peak':>9}")
    for name, measured in times.items():
        middle = statistics.median(measured)
        print(
            f"{name:26} {middle * 1e3:6.0f} ms {min(measured) * 1e3:6.0f} ms {middle / typer:8.2f} {memory[name]:5.1f} MiB"
        )
    one, every = (statistics.median(times[name]) for name in ("kvplan fit MODEL", "kvplan fit (all models)"))
    print(f"fit of all models / fit of one: {every / one:.2f}")


def run(command: list[str], variables: dict[str, str]) -> tuple[float, float]:
    """Wall seconds and peak MiB of one process."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=variables)
    _, _, usage = os.wait4(process.pid, 0)
    return time.perf_counter() - start, usage.ru_maxrss / 1024


if __name__ == "__main__":
    main()
