"""Options and fixtures that every area shares, and the count of what did not run."""

from __future__ import annotations

from pathlib import Path

import pytest

DATA = Path(__file__).parent / "data"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--corpus", type=Path, default=None, help="folder of real configs, logs and plans to test against")


@pytest.fixture(scope="session")
def corpus(request: pytest.FixtureRequest) -> Path:
    """The folder given with --corpus. Without one, tests over it are deselected and counted in one line."""
    return Path(request.config.getoption("--corpus"))


_without_corpus: list[pytest.Item] = []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--corpus") is not None:
        return
    _without_corpus[:] = [item for item in items if "corpus" in getattr(item, "fixturenames", ())]
    left_out = set(_without_corpus)
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=_without_corpus)


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
    if _without_corpus:
        terminalreporter.write_line(
            f"deselected: {len(_without_corpus)} tests over a folder of real configs, logs and plans (--corpus)"
        )
    terminalreporter.write_line(f"skipped: {skipped} tests")
