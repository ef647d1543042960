"""A folder to run the command line in."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder, with nothing from the outside that could change an answer."""
    monkeypatch.chdir(tmp_path)
    for name in ("KVPLAN_GPU", "KVPLAN_ENGINE", "GITHUB_WORKSPACE", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nowhere"))
    return tmp_path
