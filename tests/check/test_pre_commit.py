"""The hooks for real: the pre-commit package installs them from this repository and runs them in another, offline.

pip takes kvplan's dependencies from the environment of the tests, which PYTHONPATH shows it; nothing is downloaded, and
every way to the network leads nowhere.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
BUDGET = """\
kvplan-budget: 1
defaults: {gpu: h100, context: 8k}
deployments:
  chat: {model: llama-3-8b, limits: {min_sequences: 32}}
  ours: {model: models/ours.yaml, limits: {kv_per_token: 128KiB}}
"""
MODEL = "kvplan: 1\nname: ours\nlayers: 32\nkv_heads: 8\nhead_dim: 128\nparameters: 8000000000\nmax_context: 32k\n"
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: vllm, image: 'vllm/vllm-openai:v0.33.0', args: [llama-3-8b, --max-model-len=8192]}]}
"""


def run(*words: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    identity = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org"}
    identity |= {"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org", "GIT_CONFIG_GLOBAL": os.devnull}
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), **identity, **variables}
    return subprocess.run(
        words, capture_output=True, check=False, cwd=folder, env=environment, stdin=subprocess.DEVNULL, text=True
    )


def git(*words: str, folder: Path) -> str:
    done = run("git", "-c", "protocol.file.allow=always", *words, folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A clone's worth of this repository, committed as it is now, and the commit."""
    copy = tmp_path_factory.mktemp("kvplan")
    for name in ("kvplan", "configs", "pyproject.toml", "README.md", "LICENSE", ".pre-commit-hooks.yaml"):
        source = ROOT / name
        if not source.exists():
            pytest.skip(f"needs {name}, which a checkout has")
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy / name)
    git("init", "-q", "-b", "main", folder=copy)
    git("add", "-A", folder=copy)
    git("commit", "-q", "-m", "kvplan", folder=copy)
    return copy, git("rev-parse", "HEAD", folder=copy)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


class Project:
    """A repository that uses the hooks."""

    def __init__(self, folder: Path, hooks: tuple[Path, str], cache: Path, *wanted: dict[str, object]) -> None:
        self.folder, self.cache = folder, cache
        repository, commit = hooks
        config = {"repos": [{"repo": str(repository), "rev": commit, "hooks": list(wanted)}]}
        git("init", "-q", "-b", "main", folder=folder)
        self.write(".pre-commit-config.yaml", yaml.safe_dump(config))

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        git("add", "-A", folder=self.folder)

    def run(self) -> tuple[int, str]:
        """What `pre-commit run` says of the staged files."""
        nowhere = "http://127.0.0.1:9"
        done = run(
            sys.executable, "-m", "pre_commit", "run", "--color", "never", folder=self.folder,
            PRE_COMMIT_HOME=str(self.cache), PYTHONPATH=sysconfig.get_paths()["purelib"],
            PIP_NO_INDEX="1", PIP_NO_BUILD_ISOLATION="0", PIP_DISABLE_PIP_VERSION_CHECK="1", VIRTUALENV_NO_DOWNLOAD="1",
            HTTP_PROXY=nowhere, HTTPS_PROXY=nowhere, HF_ENDPOINT=nowhere,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr


def test_budgets_with_committed_models(tmp_path: Path, hooks: tuple[Path, str], cache: Path):
    project = Project(tmp_path, hooks, cache, {"id": "kvplan-check"})
    project.write("models/ours.yaml", MODEL)
    project.write("kvplan-budget.yaml", BUDGET)
    code, said = project.run()
    assert code == 0, said
    assert "Passed" in said
    project.write("models/ours.yaml", MODEL.replace("layers: 32", "layers: 40"))
    code, said = project.run()
    assert code == 1, said
    assert "kvplan-budget.yaml:5  ours: cache per token: 160.0 KiB, above the limit of 128.0 KiB" in said
    project.write("kvplan-budget.yaml", BUDGET.replace("llama-3-8b", "someone/never-cached"))
    code, said = project.run()
    assert code == 1, said
    assert "exit code: 1" in said or "exit code: 3" in said
    assert "never-cached" in said


def test_the_hook_of_serve_commands_passes_files_without_any(tmp_path: Path, hooks: tuple[Path, str], cache: Path):
    wanted = {"id": "kvplan-serve", "files": "^deploy/", "args": ["--gpu", "h100"]}
    project = Project(tmp_path, hooks, cache, wanted)
    project.write("deploy/service.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n")
    code, said = project.run()
    assert (code, "Passed" in said) == (0, True), said
    project.write("deploy/pod.yaml", POD)
    project.write("other.yaml", "a: 1\n")
    code, said = project.run()
    assert code == 0, said
    project.write("deploy/pod.yaml", POD.replace("llama-3-8b", "llama-3-70b"))
    code, said = project.run()
    assert code == 1, said
    assert "does not start" in said
