"""The composite action's shell, run as a runner runs it, with inputs that try to be more than text."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from check.checking import annotations

ROOT = Path(__file__).parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
SHELL = ["bash", "--noprofile", "--norc", "-eo", "pipefail"]
"""How a runner starts `shell: bash`."""

BUDGET = """\
kvplan-budget: 1
defaults: {gpu: h100, context: 8k}
deployments:
  chat:
    model: llama-3-8b
    limits:
      min_sequences: 32
"""


class Runner:
    """Runs the steps that are shell, with inputs put where the action says, as a runner does."""

    def __init__(self, folder: Path) -> None:
        self.work = folder / "work"
        self.temp = folder / "temp with space"
        self.output, self.summary = folder / "output", folder / "summary"
        for path in (self.work, self.temp):
            path.mkdir()
        (self.temp / "kvplan-venv" / "bin").mkdir(parents=True)
        kvplan = self.temp / "kvplan-venv" / "bin" / "kvplan"
        kvplan.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m kvplan "$@"\n')
        kvplan.chmod(0o755)
        (self.work / "kvplan-budget.yaml").write_text(BUDGET)

    def run(self, **inputs: str) -> subprocess.CompletedProcess[str]:
        """The step `check`, with these inputs and the defaults of the others."""
        given = {name: str(entry.get("default", "")) for name, entry in ACTION["inputs"].items()}
        given |= {name.replace("_", "-"): value for name, value in inputs.items()}
        (step,) = [step for step in STEPS if step.get("id") == "check"]
        variables = {name: _evaluated(text, given) for name, text in step["env"].items()}
        script = self.temp / "step.sh"
        script.write_text(step["run"])
        self.output.write_text("")
        self.summary.write_text("")
        return subprocess.run(
            [*SHELL, str(script)],
            capture_output=True,
            check=False,
            cwd=self.work,
            env={
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                "HOME": str(self.temp),
                "RUNNER_TEMP": str(self.temp),
                "GITHUB_OUTPUT": str(self.output),
                "GITHUB_STEP_SUMMARY": str(self.summary),
                "HF_HUB_OFFLINE": "1",
                **variables,
            },
            text=True,
            timeout=600,
        )

    def noting(self, program: Path) -> Path:
        """Put a program there that only notes its arguments, and say where."""
        noted = self.temp / "noted"
        program.write_text(f"#!/bin/sh\nprintf '%s\\0' \"$@\" > '{noted}'\n")
        program.chmod(0o755)
        return noted

    def files(self) -> list[str]:
        return sorted(str(path.relative_to(self.work)) for path in self.work.rglob("*"))


def _evaluated(text: str, inputs: dict[str, str]) -> str:
    """`${{ inputs.x }}` as the runner replaces it, in the values of `env` alone."""
    return re.sub(r"\$\{\{ inputs\.([a-z-]+) \}\}", lambda match: inputs[match[1]], text)


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def commands(out: str) -> tuple[str, str]:
    """What the runner takes for commands, and what stands between stop-commands and its end."""
    before, _, rest = out.partition("::stop-commands::")
    token, _, rest = rest.partition("\n")
    quoted, end, after = rest.partition(f"::{token}::")
    assert len(token) == 32
    assert end
    assert after.strip() == ""
    return before, quoted


def test_within_budget(runner: Runner):
    done = runner.run()
    assert (done.returncode, done.stderr) == (0, "")
    found, table = commands(done.stdout)
    assert found == ""
    assert table.startswith("1 deployment: 1 within budget")
    assert runner.output.read_text() == "exit-code=0\npassed=true\n"
    assert "| chat | 1 x h100-sxm |" in runner.summary.read_text()


def test_over_budget_with_every_output(runner: Runner):
    (runner.work / "kvplan-budget.yaml").write_text(BUDGET.replace("32", "3200"))
    done = runner.run(sarif="k.sarif", junit="k.xml", json="k.json", markdown="k.md")
    assert done.returncode == 1
    found, _ = commands(done.stdout)
    assert [(command, file, line) for command, file, line, _ in annotations(found)] == [
        ("error", "kvplan-budget.yaml", 7)
    ]
    assert runner.output.read_text() == "exit-code=1\npassed=false\n"
    assert {"k.sarif", "k.xml", "k.json", "k.md"} <= set(runner.files())
    done = runner.run(report_only="true")
    assert (done.returncode, runner.output.read_text()) == (0, "exit-code=0\npassed=false\n")


def test_what_has_no_answer(runner: Runner):
    done = runner.run(files="nowhere.yaml")
    assert done.returncode == 2
    found, errors = commands(done.stdout)
    assert found == ""
    assert errors.startswith("error: nowhere.yaml can't be read")
    assert runner.output.read_text() == "exit-code=2\npassed=false\n"


EVIL = [
    "a b  c", "it's", 'say "x"', "$(touch PWNED)", "`touch PWNED`", "; touch PWNED;", "a\ntouch PWNED\nb", "-rf", "--update",
    "$HOME", "${IFS}", "*", "\\", "a\\", "'; touch PWNED; '", '"; touch PWNED; "', "&& touch PWNED", "| touch PWNED",
    "> PWNED", "::error::x", "a=b", "!", "{a,b}", "~", "é\U0001f680", "\t", "%0A::error::x",
]  # fmt: skip


def test_inputs_are_only_ever_text(runner: Runner):
    """With a kvplan that only notes its arguments: each input is one of them, to the letter, and nothing was run.

    One shell runs the step for every text, each in a shell of its own, with the texts in files.
    """
    noted = runner.noting(runner.temp / "kvplan-venv" / "bin" / "kvplan")
    before = runner.files()
    (step,) = [step for step in STEPS if step.get("id") == "check"]
    given = {name: str(entry.get("default", "")) for name, entry in ACTION["inputs"].items()}
    fixed = {name: _evaluated(text, given) for name, text in step["env"].items()}
    texts = ("GPU", "ENGINE", "BASE", "FAIL_ON", "FILES", "SARIF", "JUNIT", "JSON", "MARKDOWN")
    (runner.temp / "step.sh").write_text(step["run"])
    for number, text in enumerate(EVIL):
        (runner.temp / f"text{number}").write_text(text + "x")
    driver = f"""
for number in $(seq 0 {len(EVIL) - 1}); do
  text=$(cat "$RUNNER_TEMP/text$number"); text=${{text%x}}
  for name in {" ".join(texts)}; do export "CHECK_$name=$text"; done
  (eval "$STEP") > "$RUNNER_TEMP/out$number" 2> "$RUNNER_TEMP/err$number" || echo "$number failed"
  mv '{noted}' "$RUNNER_TEMP/noted$number"
done
"""
    done = subprocess.run(
        [*SHELL, "-c", driver], capture_output=True, check=True, cwd=runner.work, text=True, timeout=60,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(runner.temp), "RUNNER_TEMP": str(runner.temp),
             "GITHUB_OUTPUT": str(runner.output), "GITHUB_STEP_SUMMARY": str(runner.summary), "STEP": step["run"], **fixed},
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("", "")
    assert runner.files() == before
    for number, text in enumerate(EVIL):
        assert (runner.temp / f"err{number}").read_text() == ""
        words = (runner.temp / f"noted{number}").read_text().split("\0")[:-1]
        end = words.index("--")
        assert [word for word in words[:end] if word.startswith("--")] == [
            f"--fail-on={text}", f"--gpu={text}", f"--engine={text}", f"--base={text}", "--format=github",
        ]  # fmt: skip
        outputs = [after for word, after in itertools.pairwise(words) if word == "-o"]
        assert outputs[3:] == [f"{name}={text}" for name in ("sarif", "junit", "json", "markdown")]
        assert words[end + 1 :] == [line.strip() for line in text.split("\n") if line.strip()]


def test_switches_and_folders_are_read_or_refused(runner: Runner):
    noted = runner.noting(runner.temp / "kvplan-venv" / "bin" / "kvplan")
    assert runner.run(report_only="True", offline="yes", annotations="No", files="  a.yaml \r\n").returncode == 0
    words = noted.read_text().split("\0")[:-1]
    assert {"--exit-zero", "--offline"} <= set(words)
    assert "--format=github" not in words
    assert words[-1] == "a.yaml"
    noted.unlink()
    for inputs in ({"offline": "maybe"}, {"working_directory": "no where"}):
        done = runner.run(**inputs)
        assert (done.returncode, runner.output.read_text()) == (2, "exit-code=2\npassed=false\n")
        assert "input" in done.stdout
    assert not noted.exists()


@pytest.mark.parametrize("name", ["$(touch PWNED) it's.yaml", "--update.yaml"])
def test_files_with_any_name_are_read(runner: Runner, name: str):
    (runner.work / "kvplan-budget.yaml").rename(runner.work / name)
    done = runner.run(files=f"{name}\n", sarif=f"out {name}.sarif", gpu="$(touch PWNED)")
    assert done.returncode == 0, done.stdout
    assert set(runner.files()) == {name, f"out {name}.sarif"}


def test_what_is_installed_is_this_very_commit(runner: Runner):
    (step,) = [step for step in STEPS if step["name"] == "Install kvplan"]
    noted = runner.noting(runner.temp / "python3")
    (runner.temp / "kvplan-venv" / "bin" / "python").symlink_to(runner.temp / "python3")
    path = "/some where/$(touch PWNED)"
    variables = {name: text.replace("${{ github.action_path }}", path) for name, text in step["env"].items()}
    assert variables["PIP_CONSTRAINT"] == f"{path}/tools/action-constraints.txt"
    script = runner.temp / "install.sh"
    script.write_text(step["run"])
    added = runner.temp / "path"
    variables |= {"PATH": f"{runner.temp}:/usr/bin:/bin", "RUNNER_TEMP": str(runner.temp), "GITHUB_PATH": str(added)}
    subprocess.run([*SHELL, str(script)], check=True, cwd=runner.work, env=variables)
    assert noted.read_text().split("\0")[:-1] == ["-I", "-m", "pip", "install", "--quiet", path]
    kvplan = Path(added.read_text().strip()) / "kvplan"
    assert kvplan.resolve() == runner.temp / "kvplan-venv" / "bin" / "kvplan"
    assert [path.name for path in kvplan.parent.iterdir()] == ["kvplan"]  # later steps keep their own python
    assert not any("PWNED" in name for name in runner.files())


def test_modules_of_a_pull_request_are_not_run(runner: Runner):
    """`venv` and `pip` are Python's own, whatever lies in the current folder."""
    (step,) = [step for step in STEPS if step["name"] == "Install kvplan"]
    calls = re.findall(r"python3?\"? (.*)", step["run"])
    assert len(calls) == 2
    assert all(call.startswith("-I -m ") for call in calls)
    for name in ("venv", "pip"):
        (runner.work / f"{name}.py").write_text("open('PWNED', 'w')\n")
    subprocess.run([sys.executable, "-I", "-m", "venv", "--help"], capture_output=True, check=True, cwd=runner.work)
    assert "PWNED" not in runner.files()


def test_several_files_and_a_folder(runner: Runner):
    (runner.work / "sub dir").mkdir()
    (runner.work / "sub dir" / "b.yaml").write_text(BUDGET.replace("32", "3200"))
    assert runner.run(files="kvplan-budget.yaml\nsub dir/b.yaml\n").returncode == 1
    done = runner.run(files="b.yaml", working_directory="sub dir")
    assert done.returncode == 1


def test_a_pull_request_can_not_speak_to_the_runner(runner: Runner):
    """Names in manifests and keys in budgets end up in tables and errors; none of it is a command to the runner."""
    (runner.work / "pod.yaml").write_text("""\
apiVersion: v1
kind: Pod
metadata: {name: "x\\n::error file=a::pwned\\n"}
spec: {containers: [{name: v, image: 'vllm/vllm-openai:v0.33.0', args: ["--model", "no\\n::warning::pwned"]}]}
""")
    done = runner.run(files="pod.yaml", gpu="h100")
    assert done.returncode == 2
    found, _ = commands(done.stdout)
    assert [(command, file) for command, file, _, _ in annotations(found)] == [("error", "pod.yaml")]
    (runner.work / "kvplan-budget.yaml").write_text('kvplan-budget: 1\n"x\\n::error::pwned": 1\n')
    done = runner.run()
    assert done.returncode == 2
    found, quoted = commands(done.stdout)
    assert {(command, file) for command, file, _, _ in annotations(found)} == {("error", "kvplan-budget.yaml")}
    assert "pwned" in quoted


def test_nothing_is_interpolated_and_everything_is_pinned():
    for step in STEPS:
        assert "${{" not in step.get("run", ""), step["name"]
        assert "uses" in step or step["shell"] == "bash"
        if "uses" in step:
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", step["uses"])
    (check,) = [step for step in STEPS if step.get("id") == "check"]
    used = {match for text in check["env"].values() for match in re.findall(r"inputs\.([a-z-]+)", text)}
    assert used | {"python-version"} == set(ACTION["inputs"])


def test_dependencies_of_the_action_are_pinned():
    from packaging.requirements import Requirement
    from packaging.version import Version

    lines = (ROOT / "tools" / "action-constraints.txt").read_text().splitlines()
    pins = dict(line.lower().replace("_", "-").split("==") for line in lines if not line.startswith("#"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for text in (*project["project"]["dependencies"], *project["build-system"]["requires"]):
        requirement = Requirement(text)
        assert Version(pins[requirement.name.lower().replace("_", "-")]) in requirement.specifier
