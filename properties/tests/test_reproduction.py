"""The block that a failure prints, as golden text, and its snippet, pasted into a prompt of its own.

Nothing rewrites the golden files, on purpose: read the difference that a failing test shows, and change the file under
``golden/`` by hand.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from properties.reproduction import reproduce
from properties.strategies.description import Description
from properties.tests.conftest import ROOT, Here

GOLDEN = Path(__file__).with_name("golden")
FALSE = '''
from dataclasses import dataclass
from properties.strategies.description import Description


@dataclass(frozen=True, repr=False)
class Grid(Description):
    rows: int
    columns: int
    dtype: torch.dtype = torch.float32

    def build(self):
        return torch.arange(self.rows * self.columns, dtype=self.dtype).reshape(self.rows, self.columns)

    def expression(self):
        return f"torch.arange({self.rows * self.columns}).reshape({self.rows}, {self.columns})"


grids = st.builds(Grid, st.integers(1, 9), st.integers(1, 9), st.sampled_from([torch.float32, torch.float16]))


@holds("golden.holds")
@given(grid=grids)
def test_holds(grid):
    """A tensor has as many elements as rows, which is a statement so long that it does not fit on one line of a
    report and has to be told on two.

    This is why, and no part of the statement.
    """
    assert grid.build().numel() == grid.rows


@holds("golden.scope")
def test_scope():
    """Bytes are below 200."""
    codes = np.arange(256)
    every("all 256 codes", codes < 200, codes, size=2**8)


@holds("golden.forms")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_forms(dtype):
    """Elements take four bytes."""
    seen = torch.zeros(1, dtype=dtype).itemsize
    assert 4 == seen


@holds_when("golden.when", "the grid has one row")
@given(grid=grids)
@example(grid=Grid(1, 2))
@example(grid=Grid(2, 2))
def test_when(grid):
    """The elements of a grid are as many as its columns."""
    equal = grid.build().numel() == grid.columns
    if when(grid.rows <= 2):
        assert equal
    else:
        may_fail(equal)


@holds_when("golden.narrow", "the grid has one row")
@given(grid=grids)
@example(grid=Grid(1, 2))
@example(grid=Grid(2, 2))
def test_narrow(grid):
    """A grid has elements."""
    if when(grid.rows == 1):
        assert grid.build().numel()
    else:
        may_fail(grid.build().numel())


@approximates("golden.near", "1 / width")
@given(width=st.integers(10, 10**6))
def test_near(width):
    """A width is about itself."""
    observe(rule=width, exact=width + 2, bound=1 / width, unit="FLOP", label="forward", where={"width": width})


@refuted("golden.refuted", instead="Some are not.")
@given(n=st.integers(0, 1000))
@example(n=7)
def test_refuted(n):
    """Numbers are below 17."""
    assert n < 17


@corrects("golden.refuted")
@given(n=st.integers(0, 1000))
def test_correction(n):
    """Some numbers are not below 17, and all are below 500."""
    assert n < 500


@holds("golden.error")
@given(grid=grids)
def test_error(grid):
    """A grid can be viewed as five."""
    assert grid.build().view(5).numel() == 5


@holds("golden.unearned")
@given(seed=st.integers(0, 10**6))
def test_unearned(seed):
    """Seeds are not negative."""
    assert seed >= 0


@holds("golden.hygiene")
def test_hygiene():
    """One is one."""
    torch.set_default_dtype(torch.float64)
    assert int("1") == 1
'''
IDS = re.findall(r'@(?:holds|holds_when|approximates|refuted)\("([^"]+)"', FALSE)


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The block of each claim, its environment's lines made the same everywhere."""
    from hypothesis import settings

    from properties import hygiene, levels

    level, profile, state = levels.level(), settings.get_current_profile_name(), hygiene.Snapshot()
    here = Here(tmp_path_factory.mktemp("golden"))
    here.inventory(*IDS)
    here.module(FALSE)
    try:
        claims = here.claims("--hypothesis-seed=1")
    finally:
        state.restore()
        levels.register_profiles(ROOT / "build" / "hypothesis")
        levels.load(level)
        settings.load_profile(profile)
    FOLDER.append(here.folder)
    return {id: claim["failure"] for id, claim in claims.items()}


FOLDER: list[Path] = []


def normal(block: str) -> str:
    """A block with the lines that name this environment replaced."""
    facts = (
        r"  environment torch \S+, numpy \S+, hypothesis \S+, Python \S+\n"
        r"  environment (cpu|cuda): .*, \d+ cores, .*\n( {14}.*\n)*"
    )
    replaced = re.sub(facts, "  environment ...\n", block)
    assert replaced.count("  environment ") == block.count("\n  property ")
    return re.sub(r"none of \d+ cases", "none of ... cases", replaced)


@pytest.mark.parametrize("id", IDS)
def test_a_failure_reads_as_it_should(id: str, failures: dict[str, str]) -> None:
    golden = GOLDEN / f"{id.removeprefix('golden.')}.txt"
    assert normal(failures[id]) == golden.read_text(encoding="utf-8")


def snippet(block: str) -> str | None:
    """What a reader would copy out of a block."""
    _, found, rest = block.partition("paste this into python at the repository's root:\n")
    return rest.partition("  environment ")[0].removeprefix("\n") if found else None


CONSOLE = """
import code, contextlib, io, json, sys
sys.path.insert(0, "")
told = {}
for id, snippet in json.load(sys.stdin).items():
    printed = io.StringIO()
    console = code.InteractiveConsole()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        waiting = False
        for line in snippet.splitlines():
            waiting = console.push(line)
    told[id] = printed.getvalue() + ("WAITING" if waiting else "")
print(json.dumps(told))
"""


def test_the_snippet_shows_the_failure_at_a_fresh_prompt(failures: dict[str, str]) -> None:
    """Line by line, as pasting does, in an interpreter that has seen nothing, at the root of the project."""
    snippets = {id: found for id, block in failures.items() if (found := snippet(block)) is not None}
    done = subprocess.run(
        [sys.executable, "-c", CONSOLE],
        input=json.dumps(snippets),
        cwd=FOLDER[-1],
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert set(told) == set(IDS) - {"golden.narrow", "golden.unearned", "golden.hygiene"}
    for id, output in told.items():
        assert "WAITING" not in output, id
        assert not re.search(r"(Syntax|Indentation|Name|Import|ModuleNotFound)Error", output), (id, output)
    assert "2 1\n" in told["golden.holds"] and told["golden.holds"].endswith("AssertionError\n")
    assert told["golden.scope"].endswith("AssertionError: all 256 codes: 56 of 256 fail, first 200\n")
    assert "4 8\n" in told["golden.forms"] and told["golden.forms"].endswith("AssertionError\n")
    assert told["golden.when"].endswith("AssertionError\n")
    assert "AssertionError: forward " in told["golden.near"]
    assert told["golden.refuted"].startswith("7 17\n") and "Error" not in told["golden.refuted"].split("Traceback")[0]
    assert "RuntimeError: shape '[5]' is invalid" in told["golden.error"]


# ── the snippet itself ──────────────────────────────────────────────────────


class Colour(Enum):
    RED = 1


@dataclass(frozen=True)
class Plain:
    inner: Any


@dataclass(frozen=True, repr=False)
class Described(Description):
    value: float


def property(case: object, other: object = None) -> None:
    """A statement."""
    seen, expected = case, other
    assert expected == seen


VALUES: list[object] = [
    1,
    0.5,
    float("nan"),
    float("-inf"),
    (1, (2.0, "x")),
    None,
    "a 'quoted' \\ text\n",
    torch.float16,
    (torch.int8, torch.device("meta")),
    np.float32(1.5),
    Colour.RED,
    Plain(Described(2.0)),
    Described(float("inf")),
    slice(1, None),
    Ellipsis,
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_snippet_makes_the_value_that_was_drawn_and_fails_as_the_property_did(value: object) -> None:
    text = reproduce(property, {"case": value, "other": "something else"})
    assert text is not None
    names: dict[str, Any] = {}
    with pytest.raises(AssertionError):
        exec(text, names)
    assert repr(names["case"]) == repr(value)
    assert type(names["case"]) is type(value)


def test_a_snippet_does_not_change_what_the_property_calls_seen_and_expected() -> None:
    """The names for both sides of the comparison must not be those of the property's own variables."""
    text = reproduce(property, {"case": 1, "other": 2})
    assert text is not None
    with pytest.raises(AssertionError):
        exec(text, {})
    assert "seen_here, expected_here = expected, seen; " in text


@pytest.mark.parametrize("value", [object(), lambda: 1, torch.zeros(2).sum], ids=lambda value: type(value).__name__)
def test_a_value_that_does_not_paste_gives_no_snippet(value: object) -> None:
    assert reproduce(property, {"case": value}) is None


def test_a_function_without_source_gives_no_snippet() -> None:
    names: dict[str, Any] = {}
    exec("def made(n):\n    assert n", names)
    assert reproduce(names["made"], {"n": 0}) is None
