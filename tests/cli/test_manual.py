"""docs/commands.md is what the commands say of themselves."""

from __future__ import annotations

from kvplan.cli import manual


def test_the_manual_is_up_to_date():
    assert manual.PATH.read_text(encoding="utf-8") == manual.text(), "python tools/remake.py"
