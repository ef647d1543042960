"""Options and fixtures that every area shares, and the count of what did not run."""

from __future__ import annotations

from pathlib import Path

import pytest

DATA = Path(__file__).parent / "data"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--corpus", type=Path, default=None, help="folder of real configs, logs and plans to test against")


@pytest.fixture(scope="session")
def corpus(request: pytest.FixtureRequest) -> Path:
    """The folder given with --corpus; tests over it are skipped, and counted, without one."""
    folder = request.config.getoption("--corpus")
    if folder is None:
        pytest.skip("needs --corpus DIR")
    return Path(folder)


_ran: dict[str, int] = {}


@pytest.fixture(scope="session")
def count_cases():
    """Call with a name and a number: how many cases a test went through. Printed at the end."""

    def count(name: str, cases: int) -> None:
        _ran[name] = _ran.get(name, 0) + cases

    return count


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = len(terminalreporter.stats.get("skipped", ()))
    for name, cases in sorted(_ran.items()):
        terminalreporter.write_line(f"{name}: {cases} cases")
    terminalreporter.write_line(f"skipped: {skipped} tests")
