"""The bundled models as they were compiled are the bundled models as they are read, or they aren't used."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kvplan import api
from kvplan.errors import UsageError
from kvplan.sources import compiled
from kvplan.sources.models import load_document, load_model, model_names, model_of

AGAIN = "configs or their reading changed: python tools/remake.py"
ROOT = Path(__file__).parents[2]


def test_the_compiled_models_are_in_use():
    assert list(compiled.compiled_models()) == list(model_names()), AGAIN


def test_the_compiled_models_are_what_reading_gives():
    known = compiled.compiled_models()
    for name in model_names():
        assert name in known, AGAIN
        read = model_of(load_document(name, offline=True))
        assert known[name] == read, f"{name}: {AGAIN}"
        assert compiled.compiled(name) == read


def test_equal_layers_are_one_object():
    weights = load_model("llama-3-70b").weights
    assert weights is not None
    assert len({id(layer) for layer in weights.layers}) == 1


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of kvplan and of its models that a test may edit."""
    shutil.copytree(ROOT / "kvplan", tmp_path / "kvplan", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    """Replace a text by one of its own size, and leave the file's size and times as they were."""
    before, text = path.stat(), path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size


def run(checkout: Path, code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, cwd=checkout, text=True,
        env={**os.environ, "PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    return done.stdout


COMPILED = "from kvplan.sources.compiled import compiled, compiled_models as all_of_them\n"


def test_an_edited_config_is_read_and_the_others_stay_compiled(checkout):
    """80 layers x 2 x 4 heads x 128 x 2 B = 163,840 B a token, where 8 heads are 327,680 B."""
    edit(checkout / "configs/models/llama-3-70b.json", '"num_key_value_heads": 8', '"num_key_value_heads": 4')
    sizes = "import kvplan; print(*(kvplan.size(name).cache.bytes_per_token for name in ('llama-3-70b', 'llama-3-8b')))"
    assert run(checkout, sizes) == "163840 131072\n"
    assert run(checkout, COMPILED + "print(compiled('llama-3-8b') is None, len(all_of_them()))") == (
        f"False {len(model_names()) - 1}\n"
    )


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("kvplan/families/attention.py", "import", "IMPORT"),
        ("kvplan/arch/layers.py", "import", "IMPORT"),
        ("kvplan/sources/mistral.py", "import", "IMPORT"),
        ("kvplan/families/class_defaults.json", "1", "2"),
        ("kvplan/units.py", "import", "IMPORT"),
    ],
)
def test_edited_reading_code_is_not_believed_to_have_made_the_models(checkout, path, old, new):
    before = compiled.code_digest(ROOT / "kvplan")
    assert compiled.code_digest(checkout / "kvplan") == before  # what it is depends on content, not on place
    edit(checkout / path, old, new)
    assert compiled.code_digest(checkout / "kvplan") != before


def test_models_made_by_other_code_are_left_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compiled, "code_digest", lambda _: "another")
    compiled._index.cache_clear()
    try:
        assert compiled.compiled("llama-3-70b") is None
        assert compiled.compiled_models() == {}
        assert load_model("llama-3-70b").family == "llama"
    finally:
        compiled._index.cache_clear()


def test_a_new_folder_of_reading_code_counts(checkout):
    before = compiled.code_digest(checkout / "kvplan")
    (checkout / "kvplan/families/own/new.py").write_text("")
    assert compiled.code_digest(checkout / "kvplan") != before


def test_a_path_comes_before_a_bundled_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "llama-3-70b").write_text(
        '{"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 256, "num_attention_heads": 4}'
    )
    assert len(api.load_model("llama-3-70b").layers) == 2
    (tmp_path / "llama-3-70b").unlink()
    assert len(api.load_model("llama-3-70b").layers) == 80
    with pytest.raises(UsageError, match="--revision"):
        api.load_model("llama-3-70b", revision="main")
