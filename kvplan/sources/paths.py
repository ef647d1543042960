"""Where kvplan's own data files are: configs/ of a checkout, kvplan/configs of an installed wheel."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from kvplan.errors import BadFile


@cache
def configs_dir() -> Path:
    """The folder with gpus/, models/ and budgets/.

    Raises: BadFile if it isn't there.
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "configs", package.parent / "configs"):
        if (folder / "gpus" / "index.json").is_file():
            return folder
    raise BadFile(
        f"{package / 'configs'} is missing",
        cause="kvplan's own descriptions of GPUs and models aren't installed",
        hint="install kvplan again: pip install --force-reinstall kvplan",
    )


def model_path(name: str) -> Path:
    """The file of the bundled model of that exact name."""
    return configs_dir() / "models" / f"{name}.json"


def gpu_path(name: str) -> Path:
    """The file of the bundled GPU record of that exact id."""
    return configs_dir() / "gpus" / f"{name}.yaml"
