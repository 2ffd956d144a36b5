"""The two workflows: what they may do, and that a runner would understand them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from properties.tests.checkers import ACTIONLINT, needs
from properties.tests.conftest import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
GPU, VERIFY = (path.read_text(encoding="utf-8") for path in WORKFLOWS)


def actionlint(folder: Path) -> subprocess.CompletedProcess[str]:
    """What actionlint says of the workflows of a checkout."""
    return subprocess.run([ACTIONLINT], cwd=folder, capture_output=True, text=True, timeout=60)


@needs(ACTIONLINT)
def test_actionlint_finds_nothing_in_the_workflows() -> None:
    done = actionlint(ROOT)
    assert done.returncode == 0, done.stdout
    assert f"Checking {len(WORKFLOWS)} workflow file(s)" in done.stdout


@needs(ACTIONLINT)
@pytest.mark.parametrize(
    "right, wrong",
    [("matrix.python", "matrix.pyhton"), ("runs-on", "run-on"), ("ubuntu-latest", "ubuntu-newest")],
    ids=["expression", "key", "label"],
)
def test_a_workflow_that_is_not_understood_is_noticed(tmp_path: Path, right: str, wrong: str) -> None:
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    (folder / "verify.yml").write_text(VERIFY.replace(right, wrong), encoding="utf-8")
    done = actionlint(tmp_path)
    assert done.returncode == 1
    assert wrong.rpartition(".")[2] in done.stdout


def test_workflows_run_pinned_actions_and_may_only_read() -> None:
    assert [path.name for path in WORKFLOWS] == ["gpu.yml", "verify.yml"]
    for workflow in (GPU, VERIFY):
        uses = re.findall(r"uses: (\S+)", workflow)
        assert uses and all(re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", each) for each in uses)
        assert workflow.count("permissions:") == 1 and "\npermissions:\n  contents: read\n\n" in workflow
    assert set(re.findall(r"uses: (\S+)", GPU)) <= set(re.findall(r"uses: (\S+)", VERIFY))


def test_the_workflow_for_a_gpu_runs_nothing_of_strangers() -> None:
    triggers = GPU.partition("\non:\n")[2].partition("\npermissions:")[0]
    assert re.findall(r"^  (\w+):", triggers, re.MULTILINE) == ["push", "schedule", "workflow_dispatch"]
    assert "pytest -m gpu --require cuda" in GPU
    assert "cancel-in-progress: false" in GPU
