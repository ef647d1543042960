"""What a stranger reads first holds: links of the README lead to files, its figures are those of the documents."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from kvplan.engines.registry import names

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
HOME = PROJECT["urls"]["Homepage"]
LINK = re.compile(r"\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)$", re.MULTILINE)


def links(text: str) -> list[str]:
    return [next(filter(None, found.groups())) for found in LINK.finditer(text)]


def test_links_of_the_readme_work_on_pypi():
    """PyPI has no files beside the README: every link is an address, and one of this repository leads to a file."""
    found = links(README)
    assert len(found) > 10
    for link in found:
        assert link.startswith("https://"), link
        if link.startswith(f"{HOME}/blob/main/"):
            assert (ROOT / link.removeprefix(f"{HOME}/blob/main/")).is_file(), link


@pytest.mark.parametrize(
    "path", [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda path: path.name
)
def test_links_of_the_documents_lead_to_files(path: Path):
    for link in links(path.read_text(encoding="utf-8")):
        if not link.startswith(("https://", "http://", "#")):
            assert (path.parent / link.partition("#")[0]).exists(), link


def test_paths_that_contributing_names_exist():
    for name in re.findall(r"`((?:kvplan|tests|tools|configs|docs)/[\w./-]+)`", (ROOT / "CONTRIBUTING.md").read_text()):
        if not {"NAME.json", "ID.yaml"} & {Path(name).name}:
            assert (ROOT / name).exists(), name


def test_accuracy_of_the_readme_is_that_of_the_results():
    results = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    rows = [
        (int(asked), int(equal)) for asked, equal in re.findall(r"^\| (\d+) (?:on|with) .* \| (\d+) \|$", results, re.M)
    ]
    assert len(rows) == 3
    assert all(asked == equal for asked, equal in rows)
    assert f"all {sum(asked for asked, _ in rows):,} plans" in README
    found = re.search(r"^\| all whose model is known \| (\d+) \| (\d+) ", results, re.MULTILINE)
    assert found is not None
    assert f"{found[2]} out of {found[1]}" in README


def test_the_plan_that_the_readme_shows_is_one_that_starts():
    plan = README.split("```console\n$ kvplan fit")[1].split("```")[0]
    assert "Fits: " in plan
    assert "maximum of" not in plan
    assert "refuses" not in plan


def test_keywords_name_no_engine_that_isnt_there():
    others = {"sglang", "llama.cpp", "tensorrt-llm", "tgi", "lmdeploy", "mlc", "ollama", "exllama"}
    assert not others & set(PROJECT["keywords"]) - set(names())


def test_public_ci_runs_what_contributing_says():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))["jobs"]
    versions = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if " :: Python :: 3." in line]
    assert jobs["test"]["strategy"]["matrix"]["python"] == [versions[0], versions[-1]]
    run = {step["run"].partition(" #")[0].strip() for job in jobs.values() for step in job["steps"] if "run" in step}
    assert {"ruff check .", "ruff format --check .", "mypy", "python tools/remake.py --check"} <= run
    torch = re.compile(r"torch==[0-9.]+")
    gate = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert torch.findall(gate) == torch.findall(" ".join(run)) != []
