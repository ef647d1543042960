"""Imports go one way, and the core stays pure: held to it by reading every module's syntax tree."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvplan.sources.compiled import READING

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "kvplan"

MAY_IMPORT = {
    "text": set(),
    "units": {"errors"},
    "errors": set(),
    "arch": {"units", "errors"},
    "families": {"arch", "units", "errors"},
    "hardware": {"units", "errors"},
    "sources": {"families", "arch", "hardware", "units", "errors"},
    "engines": {"arch", "hardware", "units", "errors"},
    "plan": {"engines", "arch", "hardware", "units", "errors"},
    "report": {"plan", "engines", "arch", "hardware", "units", "errors"},
    "api": {"report", "plan", "engines", "sources", "families", "arch", "hardware", "units", "errors"},
    "verify": {"api", "report", "plan", "engines", "sources", "families", "arch", "hardware", "units", "errors"},
    "manifests": {"engines", "sources", "units", "errors"},
    "check": {
        "manifests", "api", "report", "plan", "engines", "sources", "families", "arch", "hardware", "units", "errors"
    },
    "cli": {
        "api", "verify", "check", "manifests", "report", "plan", "engines", "sources", "arch", "hardware", "units", "errors"
    },
}  # fmt: skip
"""What each part may import of kvplan; itself and its wording (text) always."""

PURE = ("text", "arch", "families", "hardware", "engines", "plan")
IMPURE = {
    "pydantic", "rich", "numpy", "torch", "yaml", "huggingface_hub", "typer", "os", "io", "time", "datetime", "socket",
    "urllib", "http", "subprocess", "pathlib", "shutil", "tempfile", "random", "sys", "importlib", "requests",
}  # fmt: skip
"""Files, network, clock, and libraries of the edges."""

EXCEPTIONS = {"families/defaults.py": {"importlib", "pathlib"}}
"""The families' own table of class defaults is a file."""

HEAVY = {"pydantic", "rich", "numpy", "torch", "yaml", "huggingface_hub", "typer", "click", "pynvml"}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(tree: ast.AST) -> Iterator[str]:
    """Full names of the modules that are imported anywhere, in functions and for types too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_one_way(path: Path):
    part = part_of(path)
    if part in {"__init__", "__main__"}:
        return
    allowed = MAY_IMPORT[part] | {part, "text"}
    for name in imports(ast.parse(path.read_text())):
        if name.startswith("kvplan.") and (PACKAGE / name.split(".")[1]).with_suffix("").name in {*MAY_IMPORT}:
            assert name.split(".")[1] in allowed, f"{path.relative_to(ROOT)} imports {name}"


def reachable(part: str) -> set[str]:
    """The part, its wording and whatever it may import, directly or not."""
    return {part, "text"}.union(*(reachable(each) for each in MAY_IMPORT[part]))


def test_compiled_models_are_made_by_all_code_that_reads_configs():
    """A change to any of it makes kvplan read the configs themselves; hardware reads GPUs alone."""
    reads_gpus = {"gpus.py", "nvml.py"}
    for path in (PACKAGE / "sources").rglob("*.py"):
        if any(name.startswith("kvplan.hardware") for name in imports(ast.parse(path.read_text()))):
            assert path.name in reads_gpus
    assert {name.removesuffix(".py") for name in READING} == reachable("sources") - {"hardware"}
    assert all((PACKAGE / name).exists() for name in READING)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_the_core_is_pure(path: Path):
    if part_of(path) not in PURE:
        return
    tree = ast.parse(path.read_text())
    here = EXCEPTIONS.get(str(path.relative_to(PACKAGE)), set())
    found = {name.split(".")[0] for name in imports(tree)} & IMPURE - here
    assert not found, f"{path.relative_to(ROOT)} imports {', '.join(sorted(found))}"
    calls = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert not calls & {"open", "print", "input", "exec", "eval"}


def test_manifests_know_engines_by_their_tables_alone():
    """What a serve command says is read without planning anything."""
    for path in (PACKAGE / "manifests").rglob("*.py"):
        engines = {name for name in imports(ast.parse(path.read_text())) if name.startswith("kvplan.engines")}
        assert all(name.startswith("kvplan.engines.vllm.tables") for name in engines), path.name


def test_no_command_does_arithmetic():
    """Commands parse, call and draw; numbers are worked out below them."""
    for path in (PACKAGE / "cli" / "commands").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.BinOp):
                assert isinstance(node.op, ast.BitOr | ast.Add), f"{path.name}:{node.lineno}"  # types, lists and text
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                assert (node.end_lineno or 0) - node.lineno <= 30, f"{path.name}: {node.name} is long"


def test_every_part_is_on_the_map():
    parts = {part_of(path) for path in modules()} - {"__init__", "__main__"}
    assert parts <= set(MAY_IMPORT)


@pytest.mark.parametrize(
    ("code", "needed"),
    [
        ("import kvplan", set()),
        ("from kvplan.cli import main; main(['size', 'llama-3-70b'])", {"click", "rich"}),
        ("from kvplan.cli import main; main(['size', 'llama-3-70b', '--json'])", {"click"}),
        ("from kvplan.cli import main; main(['size', 'llama-3-70b', '--format', 'csv,markdown'])", {"click"}),
        (
            "from kvplan.cli import main; main(['fit', 'llama-3-70b', '--gpu', 'h100', '--tp', '8', '--ctx', '8k', '--json'])",
            {"click"},
        ),
    ],
)
def test_what_is_slow_to_import_is_not_imported(code: str, needed: set[str]):
    check = f"import sys; {code}; print(*sorted(set({sorted(HEAVY)!r}) & sys.modules.keys()), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, check=True, text=True, cwd=ROOT)
    assert set(done.stderr.split()) == needed


def test_public_names_are_sorted_and_exist():
    import kvplan

    assert sorted(kvplan.__all__) == kvplan.__all__
    for name in kvplan.__all__:
        assert getattr(kvplan, name) is not None
    assert set(kvplan.__all__) <= set(dir(kvplan))
    with pytest.raises(AttributeError):
        _ = kvplan.nothing


def test_the_version_is_written_once():
    import tomllib

    import kvplan

    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in pyproject["project"]
    written = ROOT / pyproject["tool"]["hatch"]["version"]["path"]
    assert f'__version__ = "{kvplan.__version__}"' in written.read_text()
