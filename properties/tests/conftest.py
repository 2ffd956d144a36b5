"""Small specifications of their own, run as a user runs the real one."""

from __future__ import annotations

import gc
import io
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import settings

from properties import levels, specification
from properties.specification import Property, Specification

ROOT = Path(__file__).parents[2]
INI = """\
[pytest]
pythonpath = .
filterwarnings = error
junit_family = xunit2
addopts = --strict-markers --strict-config -p no:randomly -p no:cacheprovider
"""
HEADER = """\
import os, random, signal, sys, time, warnings
import numpy as np
import pytest, torch
from hypothesis import assume, example, given, settings, strategies as st
from properties.claims import also, approximates, awaits, context, corrects, costly, holds, holds_when, needs, refuted
from properties.evidence import every, may_fail, observe, when
"""
INVENTORY = '[[chapter]]\nsection = "1"\ntitle = "Numbers"\ntitle_zh = "数"\nmarker = "numbers"\n'


class Project:
    """A folder with a specification in it, and the runs over it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "pytest.ini").write_text(INI, encoding="utf-8")
        (folder / "conftest.py").write_text((ROOT / "conftest.py").read_text(encoding="utf-8"), encoding="utf-8")
        (folder / "spec").mkdir()
        (folder / "spec" / "__init__.py").touch()

    def inventory(self, *ids: str) -> None:
        """List these claims."""
        entries = [f'\n[[claim]]\nid = "{id}"\nsection = "1"\norigin = "document"\nsays_zh = "数"\n' for id in ids]
        (self.folder / "spec" / "inventory.toml").write_text(INVENTORY + "".join(entries), encoding="utf-8")

    def module(self, source: str, name: str = "test_01_numbers.py") -> Path:
        """Write a module of the specification, below the imports that all of them have."""
        path = self.folder / "spec" / name
        path.write_text(HEADER + textwrap.dedent(source), encoding="utf-8")
        return path

    def environment(self, changes: Mapping[str, str | None]) -> dict[str, str]:
        """The environment of a run: ours without CI, with ``properties`` to be found, and with changes."""
        variables = {**os.environ, "PYTHONPATH": str(ROOT), "CI": None, "PYTEST_ADDOPTS": None, **changes}
        return {name: value for name, value in variables.items() if value is not None}

    def run(self, *arguments: str, limit: Any = None, **changes: str | None) -> subprocess.CompletedProcess[str]:
        """``python -m pytest`` in a process of its own; ``limit`` is called in it before it starts."""
        return subprocess.run(
            [sys.executable, "-m", "pytest", *arguments],
            cwd=self.folder,
            env=self.environment(changes),
            capture_output=True,
            text=True,
            timeout=120,
            preexec_fn=limit,
        )

    def interrupted(self, sign: str, *arguments: str) -> tuple[int, str]:
        """Run until the file ``sign`` appears in the folder, press Ctrl-C, and return the status and the output."""
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *arguments],
            cwd=self.folder,
            env=self.environment({}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        ends = time.monotonic() + 60
        while not (self.folder / sign).exists() and process.poll() is None and time.monotonic() < ends:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
        return process.returncode, output

    def records(self) -> dict[str, dict[str, Any]]:
        """The records there are, by "whole" and "partial"."""
        found = (self.folder / "build" / "results").glob("*.json")
        return {
            "partial" if path.stem.endswith("--partial") else "whole": json.loads(path.read_text(encoding="utf-8"))
            for path in found
        }


@pytest.fixture(scope="session")
def found() -> Specification:
    """The specification, read once."""
    return specification.read(ROOT, specification.read_inventory(ROOT))


def named(found: Specification, name: str) -> Property:
    """A property by the name of its function."""
    return next(each for each in found.properties if each.function.__name__ == name)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """An empty specification in a temporary folder."""
    return Project(tmp_path)


@dataclass(frozen=True)
class Ended:
    """How a run in this process ended: its status and what it printed."""

    status: int
    output: str


class Here(Project):
    """A project whose runs take place in this process, where torch is loaded already."""

    def here(self, *arguments: str) -> Ended:
        """Run pytest; the modules of the project are forgotten afterwards."""
        kept = self._forget()
        path = list(sys.path)
        printed = io.StringIO()
        try:
            with redirect_stdout(printed), redirect_stderr(printed), chdir(self.folder):
                status = pytest.main(["-p", "no:faulthandler", *arguments])
        finally:
            self._forget()
            sys.modules.update(kept)
            sys.path[:] = path
        return Ended(int(status), printed.getvalue())

    def _forget(self) -> dict[str, ModuleType]:
        """Take out of the table of modules those of this project, and whatever goes by their names."""
        return {
            name: sys.modules.pop(name)
            for name, module in list(sys.modules.items())
            if name.split(".")[0] in ("spec", "conftest")
            or str(getattr(module, "__file__", "")).startswith(f"{self.folder}{os.sep}")
        }

    def claims(self, *arguments: str) -> dict[str, dict[str, Any]]:
        """Run, and return what the record says of each claim."""
        target = self.folder / "record.json"
        ended = self.here(f"--results={target}", *arguments)
        assert target.exists(), ended.output
        found = json.loads(target.read_text(encoding="utf-8"))["claims"]
        return {claim["id"]: claim for claim in found}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Here]:
    """An empty specification whose runs take place in this process."""
    import torch

    from properties import hygiene, process

    monkeypatch.delenv("CI", raising=False)
    level, profile, threads = levels.level(), settings.get_current_profile_name(), torch.get_num_threads()
    state = hygiene.Snapshot()
    process.prepare()
    gc.freeze()  # pytest collects garbage at the end of a run: torch's modules are none
    yield Here(tmp_path)
    gc.unfreeze()
    state.restore()
    torch.set_num_threads(threads)
    levels.register_profiles(ROOT / "build" / "hypothesis")
    levels.load(level)
    settings.load_profile(profile)
