"""CONTRIBUTING.md's five steps, followed word for word in a copy of the project."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
CLAIM = "tensors.arithmetic.int8-wraps"
BLOCK = re.compile(r"^```(?P<language>\w+) ?(?P<path>\S*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
COPIED = ("spec", "properties", "reference", "conftest.py", "pyproject.toml", "CHANGELOG.md")


def followed(project: Path) -> list[str]:
    """Write every block that names a file to the end of that file, and return the commands of the others."""
    commands: list[str] = []
    for block in BLOCK.finditer(GUIDE):
        if block["path"]:
            target = project / block["path"]
            with target.open("a", encoding="utf-8") as file:
                file.write(block["text"])
        else:
            commands += block["text"].splitlines()
    return commands


def run(project: Path, command: str) -> str:
    """What a command prints; a status other than 0 is a failure that shows it."""
    words = [sys.executable if word == "python" else word for word in command.split()]
    done = subprocess.run(words, cwd=project, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the project, in which nothing was run."""
    ignored = shutil.ignore_patterns("__pycache__")
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name, ignore=ignored)
        else:
            shutil.copy(source, tmp_path / name)
    return tmp_path


def test_the_five_steps_add_a_claim_that_holds_and_that_its_mutant_breaks(project: Path) -> None:
    verify, oracle = followed(project)
    assert CLAIM in verify
    run(project, f"{verify} --results=record.json")
    [claim] = [
        claim
        for claim in json.loads((project / "record.json").read_text(encoding="utf-8"))["claims"]
        if claim["id"] == CLAIM
    ]
    assert (claim["verdict"], claim["state"], claim["agrees"]) == ("holds", "ran", True)
    assert claim["says"] == "A sum of two int8 numbers wraps around: 127 and 1 make -128."
    assert claim["mutants"] == {"killed": ["integer-sums-saturate"], "survived": []}
    assert "1 passed" in run(project, oracle)
