"""Records that must not load, a user's own file, and the compiled index."""

from __future__ import annotations

import copy
import importlib.util
import json
import re
import shutil
import time
from pathlib import Path

import pytest

from kvplan.errors import BadField, BadFile, KvplanError, MissingField
from kvplan.hardware.record import read_record
from kvplan.sources.gpus import load_gpu, parse_gpu
from kvplan.sources.paths import configs_dir
from kvplan.sources.strict import parse_yaml_mapping

ROOT = Path(__file__).resolve().parents[2]

GOOD = {
    "id": "test-1",
    "name": "Test GPU",
    "vendor": "nvidia",
    "architecture": "Test",
    "memory_visible_mib": {"value": 1000.5, "kind": "measured", "os": "linux", "source": ["a log"]},
    "bandwidth_gb_per_s": {"value": 204.8, "kind": "vendor", "source": ["a datasheet"]},
    "mig_profiles": {
        "1g.1gb": {
            "memory_gib": 0.25, "memory_share": "1/4", "compute_share": "1/7", "kind": "measured", "source": ["smi"],
            "alternates": [{"memory_gib": 0.125, "source": ["another driver"]}],
        }
    },
}  # fmt: skip


def test_a_record_in_base_units():
    record = read_record(GOOD)
    gpu = record.gpus[0]
    assert gpu.memory.value == 1000 * 2**20 + 2**19
    assert gpu.bandwidth.value == 204_800_000_000  # exactly: 204.8 is no binary fraction
    part = record.slices["1g.1gb"]
    assert (part.id, part.memory.value, part.bandwidth.value) == ("test-1:1g.1gb", 2**28, 51_200_000_000)
    assert part.memory.alternates[0].value == 2**27


def broken(change):
    tree = copy.deepcopy(GOOD)
    change(tree)
    return tree


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda t: t.pop("memory_visible_mib"), "memory_visible_mib is missing"),
        (lambda t: t.pop("bandwidth_gb_per_s"), "bandwidth_gb_per_s is missing"),
        (lambda t: t["bandwidth_gb_per_s"].pop("source"), "bandwidth_gb_per_s.source is missing"),
        (lambda t: t["memory_visible_mib"].update(source=[]), "memory_visible_mib.source is missing"),
        (lambda t: t["memory_visible_mib"].update(source=[" "]), "memory_visible_mib.source is missing"),
        (
            lambda t: t["bandwidth_gb_per_s"].update(alternates=[{"value": 1, "kind": "vendor", "source": []}]),
            "bandwidth_gb_per_s.alternates.source is missing",
        ),
        (lambda t: t["mig_profiles"]["1g.1gb"].pop("source"), "mig_profiles.1g.1gb.source is missing"),
    ],
)
def test_a_number_without_a_source_does_not_load(change, field):
    with pytest.raises(MissingField) as caught:
        read_record(broken(change))
    assert str(caught.value) == field
    assert caught.value.problem.hint


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.update(memory_gb=80), "memory_gb is 80, not a key of a GPU's record"),
        (lambda t: t["bandwidth_gb_per_s"].update(value=-1), "bandwidth_gb_per_s.value is -1"),
        (lambda t: t["bandwidth_gb_per_s"].update(value="fast"), "bandwidth_gb_per_s.value is 'fast'"),
        (lambda t: t["bandwidth_gb_per_s"].update(value=True), "bandwidth_gb_per_s.value is True"),
        (lambda t: t["bandwidth_gb_per_s"].update(value=float("inf")), "bandwidth_gb_per_s.value is inf"),
        (lambda t: t["bandwidth_gb_per_s"].update(kind="rumour"), "bandwidth_gb_per_s.kind is 'rumour'"),
        (lambda t: t["bandwidth_gb_per_s"].update(verified=False), "bandwidth_gb_per_s.verified is False"),
        (lambda t: t.update(bandwidth_gb_per_s=204.8), "bandwidth_gb_per_s is 204.8, not keys and values"),
        (lambda t: t.update(flops_tflops={"tf32": {}}), "flops_tflops.tf32"),
        (lambda t: t.update(unified_memory="yes"), "unified_memory is 'yes', not true or false"),
        (lambda t: t.update(aliases="one"), "aliases is 'one', not a list"),
        (lambda t: t["mig_profiles"]["1g.1gb"].update(memory_share="1/10"), "mig_profiles.1g.1gb.memory_share"),
        (lambda t: t.update(compute_capability={"value": 9, "source": ["x"]}), "compute_capability.value is 9"),
        (lambda t: t.update(name=""), "name is '', not a text"),
    ],
)
def test_a_value_that_can_not_be_is_named(change, message):
    with pytest.raises(BadField) as caught:
        read_record(broken(change))
    assert message in str(caught.value)
    assert "docs/adding-a-gpu.md" in caught.value.problem.hint


# A file of one's own -------------------------------------------------------------------------------------------------

OWN = """\
id: my-card
name: My Card
vendor: nvidia
architecture: Ada
memory_visible_mib: {value: 47000, kind: measured, source: [my own machine]}
bandwidth_gb_per_s: {value: 900, kind: vendor, source: [its datasheet]}
"""


def test_a_yaml_file_stands_for_a_gpu(tmp_path):
    path = tmp_path / "My Card.yaml"
    path.write_text(OWN)
    assert load_gpu(str(path)).memory.value == 47000 * 2**20
    gpu, count = parse_gpu(f"{path}x4")
    assert (gpu.id, count) == ("my-card", 4)


def test_the_example_of_the_documentation_loads(tmp_path):
    text = (ROOT / "docs" / "adding-a-gpu.md").read_text(encoding="utf-8")
    example = text.split("```yaml\n")[1].split("```")[0]
    path = tmp_path / "example.yaml"
    path.write_text(example)
    gpu = load_gpu(str(path))
    assert gpu.memory.value == 45467 * 2**20


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "can't be read"),
        ("", "is empty"),
        ("id: [", "is not YAML"),
        (OWN + "id: twice\n", "gives id again"),
        (OWN.replace("900", ".nan"), "not usable"),
        (OWN.replace("source: [its datasheet]", "source: []"), "bandwidth_gb_per_s.source is missing"),
    ],
)
def test_a_bad_file_is_one_error(tmp_path, text, message):
    path = tmp_path / "bad.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(KvplanError) as caught:
        load_gpu(str(path))
    assert message in str(caught.value)
    assert caught.value.exit_code == 2


# The compiled index --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("gpu_index", ROOT / "tools" / "gpu_index.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_index_says_what_the_files_say(tool):
    assert (configs_dir() / "gpus" / "index.json").read_text(encoding="utf-8") == tool.index_text(), (
        "python tools/remake.py"
    )


def test_a_file_is_named_after_its_id(tool, tmp_path, monkeypatch):
    (tmp_path / "other.yaml").write_text(OWN)
    monkeypatch.setattr(tool, "FOLDER", tmp_path)
    with pytest.raises(KvplanError, match=r"other\.yaml describes 'my-card'"):
        tool.index_text()


def test_a_record_that_does_not_load_is_named_with_its_file(tool, tmp_path, monkeypatch):
    (tmp_path / "my-card.yaml").write_text(OWN.replace("kind: vendor", "kind: rumour"))
    monkeypatch.setattr(tool, "FOLDER", tmp_path)
    with pytest.raises(KvplanError, match=r"my-card\.yaml: bandwidth_gb_per_s\.kind"):
        tool.index_text()


@pytest.mark.parametrize(("field", "known"), [("vendor", "nvidia, amd"), ("segment", "datacenter, workstation")])
def test_a_new_vendor_or_segment_is_told_where_it_goes(tool, tmp_path, monkeypatch, field, known):
    own = {"vendor": "nvidia", "segment": "edge", field: "nobody"}
    text = OWN.replace("vendor: nvidia\n", "".join(f"{name}: {value}\n" for name, value in own.items()))
    (tmp_path / "my-card.yaml").write_text(text)
    (tmp_path / "withheld.yaml").write_text("{}")
    monkeypatch.setattr(tool, "FOLDER", tmp_path)
    with pytest.raises(KvplanError, match=rf"my-card\.yaml: {field} 'nobody' has no place in the table") as caught:
        tool.index_text()
    assert known in caught.value.problem.cause
    assert f"{field.upper()}S in tools/gpu_index.py" in caught.value.problem.hint


def test_an_edited_record_is_read_before_the_index_is_remade(tmp_path, monkeypatch):
    """81,089 MiB become 51,089: the file keeps its size."""
    from kvplan.sources import gpus, paths

    folder = shutil.copytree(configs_dir() / "gpus", tmp_path / "gpus")
    path = folder / "h100-sxm.yaml"
    path.write_text(path.read_text().replace("value: 81089", "value: 51089", 1))
    for module in (gpus, paths):
        monkeypatch.setattr(module, "configs_dir", lambda: tmp_path)
    gpus._record.cache_clear()
    try:
        assert load_gpu("h100").memory.value == 51089 << 20
        assert load_gpu("l40s").memory.value < 48 << 30
    finally:
        gpus._record.cache_clear()


def test_one_gpu_opens_one_small_file():
    raw = (configs_dir() / "gpus" / "index.json").read_bytes()
    assert len(raw) < 400_000
    started = time.process_time()
    records = json.loads(raw)["records"]
    for tree in records.values():
        read_record(tree)
    assert time.process_time() - started < 0.2  # 12 ms on an idle core


def test_a_damaged_installation_says_so(tmp_path, monkeypatch):
    from kvplan.sources import gpus

    monkeypatch.setattr(gpus, "configs_dir", lambda: tmp_path)
    gpus._index.cache_clear()
    try:
        with pytest.raises(BadFile, match="can't be read") as caught:
            gpus._index()
    finally:
        gpus._index.cache_clear()
    assert caught.value.problem.hint == "install kvplan again"


@pytest.mark.parametrize("key", ["id", "name", "vendor", "architecture"])
def test_a_text_that_is_missing_is_missing(key: str):
    with pytest.raises(MissingField, match=f"^{key} is missing"):
        read_record(broken(lambda tree: tree.pop(key)))


def test_the_page_marks_what_is_needed():
    page = (ROOT / "docs" / "adding-a-gpu.md").read_text()
    (block,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    marked = set(re.findall(r"^(\w+):[^\n]*# needed", block, re.MULTILINE))
    tree, _ = parse_yaml_mapping(block, "page.yaml")

    def needed(key: str) -> bool:
        try:
            read_record({other: value for other, value in tree.items() if other != key})
        except MissingField as error:
            return error.field == key
        return False

    assert marked == {key for key in tree if needed(key)}
    read_record({key: value for key, value in tree.items() if key in marked})
    for part in ("value", "kind", "source"):
        assert f"`{part}`" in page.partition("Every number has")[2].partition("\n")[0]


@pytest.mark.parametrize("text", ["", "# nothing\n", "- 1\n"])
def test_a_file_that_holds_no_record_is_sent_to_the_page_about_records(text: str, tmp_path: Path):
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(BadFile) as caught:
        load_gpu(str(tmp_path / "mine.yaml"))
    assert caught.value.problem.hint == "docs/adding-a-gpu.md shows a file"
