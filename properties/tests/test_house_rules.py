"""Each rule that import-linter and ruff check here can fail: it is broken once, and must turn red."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINTER = Path(sys.executable).with_name("lint-imports")


CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A house with this project's rules, in which every module that a rule names is there and empty."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    rooms = ("spec", "properties", "reference", "properties/instruments", "properties/mutants", "reference/tests")
    for room in rooms:
        (tmp_path / room).mkdir()
        (tmp_path / room / "__init__.py").touch()
    for contract in CONTRACTS:
        for module in (*contract.get("source_modules", ()), *contract.get("forbidden_modules", ())):
            if "." in module:
                (tmp_path / module.replace(".", "/")).with_suffix(".py").touch()
    return tmp_path


def contracts(house: Path) -> str:
    """What import-linter says of a house."""
    done = subprocess.run([LINTER, "--no-cache", "--no-logo"], cwd=house, capture_output=True, text=True, timeout=60)
    assert ("0 broken" in done.stdout) == (done.returncode == 0), done.stdout + done.stderr
    return done.stdout


def lint(house: Path) -> str:
    """What ruff's rule for banned names says of a house."""
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--no-cache",
        "--select",
        "TID251",
        "--output-format",
        "concise",
    ]
    return subprocess.run(command, cwd=house, capture_output=True, text=True, timeout=60).stdout


def test_an_empty_house_breaks_no_rule(house: Path) -> None:
    assert "0 broken" in contracts(house)
    assert "All checks passed" in lint(house)


BREACHES = [
    ("properties/report.py", "import spec", "Imports point one way"),
    ("reference/floats.py", "import properties", "Imports point one way"),
    ("reference/floats.py", "import spec", "Imports point one way"),
    ("reference/floats.py", "from torch import nn", "The oracles know no torch"),
    ("reference/tests/test_floats.py", "import torch", "The oracles know no torch"),
    ("properties/evidence.py", "import ml_dtypes", "The second oracles are for tests"),
    ("reference/floats.py", "import gfloat", "The second oracles are for tests"),
    ("reference/scalars.py", "import reference.linear", "Counting numbers and the tape know no closed form"),
    ("reference/planner.py", "import reference.autodiff", "Closed forms know neither counting numbers nor the tape"),
    ("properties/instruments/flops.py", "import reference.linear", "The dispatcher derives its rules"),
]


def test_every_contract_is_broken_once() -> None:
    for contract in CONTRACTS:
        assert any(contract["name"].startswith(broken) for _, _, broken in BREACHES), contract["name"]


@pytest.mark.parametrize(("module", "line", "contract"), BREACHES)
def test_an_import_that_points_the_wrong_way_is_found(house: Path, module: str, line: str, contract: str) -> None:
    (house / module).write_text(f"{line}\n", encoding="utf-8")
    broken = [said for said in contracts(house).splitlines() if said.endswith("BROKEN") or " BROKEN (" in said]
    assert [said.startswith(contract) for said in broken] == [True]


@pytest.mark.parametrize(
    "line",
    [
        "from torch.utils.flop_counter import FlopCounterMode",
        "from torch.utils._python_dispatch import TorchDispatchMode",
        "import torch.profiler",
        "from torch.autograd.graph import saved_tensors_hooks",
        "from torch.cuda.memory import memory_stats",
        "from torch.cuda import max_memory_allocated",
        "from torch.overrides import TorchFunctionMode",
    ],
)
def test_torchs_own_instruments_are_found_outside_theirs(house: Path, line: str) -> None:
    for allowed in ("properties/instruments/memory.py", "properties/mutants/memory.py"):
        (house / allowed).write_text(f"{line}\n", encoding="utf-8")
    assert "All checks passed" in lint(house)
    for banned in ("spec/test_memory.py", "properties/evidence.py"):
        (house / banned).write_text(f"{line}\n", encoding="utf-8")
        assert banned in lint(house)
