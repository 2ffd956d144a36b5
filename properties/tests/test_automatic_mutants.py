"""Changes to oracles: which there are, what is noticed of them, and what becomes of a child that hangs or dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from properties.mutants.automatic.__main__ import problems, read_equivalent, table
from properties.mutants.automatic.changes import Change, changes, marked
from properties.mutants.automatic.forked import Begins, Ended, Send, Work, in_children
from properties.mutants.automatic.trials import Found, found_of, swaps_code
from properties.tests.conftest import Project

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def told(source: str) -> list[str]:
    return [each.told for each in changes(textwrap.dedent(source), "reference.sums")]


# ── changes ──


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        ("2 * n", ["2 + n", "3 * n"]),
        ("n**2 / 0.5", ["n ** 2 * 0.5", "n * 2", "n ** 3", "n ** 2 / 1.0"]),
        ("0.0", ["1.0"]),
        ("-n", ["n"]),
        ("not n", ["n"]),
        ("0 <= n < 1", ["0 < n < 1", "0 <= n <= 1", "1 <= n < 1", "0 <= n < 2"]),
        ("n is None or n in m", ["n is None and n in m", "n is not None", "n not in m"]),
        ("f(-1, strict=True)", ["f(1, strict=True)", "f(-2, strict=True)"]),
        ("n[1:]", ["2:"]),
    ],
)
def test_each_number_operator_comparison_and_sign_is_changed(written: str, instead: list[str]) -> None:
    found = told(f"def f(n, m):\n    return {written}\n")
    assert sorted(each.split(" -> ")[1].removeprefix("return ") for each in found) == sorted(instead)


def test_what_calculates_nothing_is_left_alone() -> None:
    source = '''
        """Two: 2 * n."""
        Item = int | None
        @wrapped(depth=2)
        def f(n: Sized[2], *, strict: bool = True) -> Sized[2]:
            """2 * n."""
            raise ValueError(f"{2 * n}" + str(2 * n))
        class C:
            def __repr__(self):
                return "C" * 2
    '''
    assert told(source) == []


def test_a_change_that_a_function_has_twice_is_told_with_a_number() -> None:
    assert told("def f(n):\n    m = n + g\n    return n + g") == ["n + g -> n - g", "n + g -> n - g (2)"]


def test_a_change_knows_its_function_and_where_its_statement_begins() -> None:
    source = """
        class C:
            size = 1

            def f(self, n=2):
                return (
                    n
                    * self.size
                )
    """
    found = [(each.function, each.lines) for each in changes(textwrap.dedent(source), "reference.sums")]
    assert found == [("C", range(3, 4)), ("C.f", range(5, 10)), ("C.f", range(6, 7))]


def test_the_code_after_a_change_calculates_otherwise() -> None:
    (change,) = changes("def f(n):\n    return n + g\ng = f'{3}'", "reference.sums")
    before, after = ({"g": 3} for _ in range(2))
    for code, names in zip(change.made("sums.py"), (before, after), strict=True):
        exec(code, names)
        names["g"] = 3
    assert (before["f"](5), after["f"](5)) == (8, 2)  # type: ignore[operator]


def test_marks_tell_the_lines_that_ran() -> None:
    source = textwrap.dedent(
        '''
        """Numbers."""
        from __future__ import annotations
        def sign(n):
            """One of three."""
            if n > 0:
                return 1
            elif n < 0:
                return -1
            return 0
        '''
    )
    lines: list[int] = []
    names: dict[str, Any] = {"ran": lines.append}
    exec(marked(source, "numbers.py", "ran"), names)
    assert lines == [4]
    assert names["sign"](-3) == -1
    assert lines == [4, 6, 8, 9]


# ── children ──


def test_what_a_child_says_arrives_in_its_order() -> None:
    def work(number: int) -> Work:
        def say(send: Send) -> None:
            send(number)
            send(10 * number)

        return say

    tasks = [(number, work(number)) for number in range(5)]
    ended = sorted(in_children(tasks, 2), key=lambda each: each.key)
    assert [each.said for each in ended] == [[n, 10 * n] for n in range(5)]
    assert {each.by for each in ended} == {""}


def _sleep() -> None:
    time.sleep(60)


def _calculate() -> None:
    while True:
        pass


@pytest.mark.parametrize("wait", [_sleep, _calculate])
def test_a_child_that_takes_longer_than_it_said_is_ended_with_what_it_started(wait: Callable[[], None]) -> None:
    def hang(send: Send) -> None:
        sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        send(sleeper.pid)
        send(Begins("long", 0.2))
        wait()

    (ended,) = in_children([("", hang)], 1)
    assert (ended.by, ended.doing) == ("timed out", "long")
    until = time.monotonic() + 10
    while _lives(ended.said[0]) and time.monotonic() < until:
        time.sleep(0.05)
    assert not _lives(ended.said[0])


def _lives(pid: int) -> bool:
    status = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout
    return bool(status.strip()) and not status.strip().startswith("Z")


def test_how_a_child_ended_that_raised_or_died_is_told() -> None:
    def divide(send: Send) -> None:
        send(1 // 0)

    def kill(send: Send) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    ended = {each.key: each for each in in_children([("raised", divide), ("died", kill)], 2)}
    assert ended["raised"].by.strip().endswith("ZeroDivisionError: integer division or modulo by zero")
    assert ended["died"].by == "died"


# ── what is found ──


def test_a_function_is_exchanged_whole_where_a_change_leaves_out_what_is_in_it(tmp_path: Path) -> None:
    source = "def f(n):\n    while True:\n        return (lambda: n)()\n"
    (change,) = changes(source, "reference.sums")
    names: dict[str, Any] = {}
    exec(compile(source, str(tmp_path / "reference" / "sums.py"), "exec", dont_inherit=True), names)
    swaps_code(change, tmp_path, [names["f"]])
    assert names["f"](1) is None


def _change() -> Change:
    return changes("def f(n):\n    return n + g", "reference.sums")[0]


@pytest.mark.parametrize(
    ("ended", "found"),
    [
        (Ended(_change()), Found("survived", "")),
        (Ended(_change(), by="timed out", doing="a property"), Found("timed out", "a property", "timed out")),
        (Ended(_change(), by="died", doing="tests"), Found("tests", "tests", "died")),
        (Ended(_change(), by="...\nOSError: full", doing="x"), Found("not judged", "x", "OSError: full")),
        (Ended(_change(), [Found("not judged", "a"), Found("raised", "b")]), Found("raised", "b")),
    ],
)
def test_the_end_of_a_child_says_what_was_found(ended: Ended[Change], found: Found) -> None:
    assert found_of(ended) == found


def _line(change: str, outcome: str) -> dict[str, Any]:
    place = {"module": "reference.sums", "function": "f", "file": "reference/sums.py", "line": 2}
    return {**place, "change": change, "outcome": outcome, "by": "a property" * (outcome != "survived"), "reason": ""}


def test_the_table_counts_what_was_noticed_and_what_lives() -> None:
    lines = [_line("a", "contradicted"), _line("b", "survived"), _line("c", "survived"), _line("d", "tests")]
    head, row, whole = table(lines, {("reference.sums", "f", "b"): "no matter"})
    assert " ".join(head.split()) == "changes contradicted raised timed out died tests equivalent lives noticed"
    assert row.split() == ["reference.sums", "4", "1", "-", "-", "-", "1", "1", "1", "50.0%"]
    assert whole.split() == ["all", *row.split()[1:]]


def test_what_lives_and_what_is_listed_wrongly_is_told() -> None:
    lines = [_line("a", "contradicted"), _line("b", "survived"), _line("c", "survived"), _line("d", "raised")]
    listed = {("reference.sums", "f", each): "no matter" for each in "bde"} | {("reference.others", "f", "x"): ""}
    assert problems(lines, listed, {("reference.sums", "f", each) for each in "abcd"}) == [
        "survived: reference/sums.py:2: c",
        "listed as equivalent, and noticed by a property: reference/sums.py:2: d",
        "listed as equivalent, and not there any more: reference.sums, f: e",
    ]


def test_the_list_of_equivalent_changes_gives_each_a_reason() -> None:
    listed = read_equivalent(Path(__file__).parents[1] / "mutants" / "automatic" / "equivalent.toml")
    assert all(reason.strip() for reason in listed.values())
    assert {module.split(".")[0] for module, _, _ in listed} <= {"reference"}


# ── the whole, on an oracle made up for it ──

ORACLE = '''
"""Small whole numbers."""

FACTOR = 3
NAMES = ("even", "odd")


def product(n):
    return FACTOR * n


def above_zero(n):
    return n > 0


def named(n):
    return NAMES[n % 2]


def steps(n):
    count = int()
    while n:
        n -= True
        count += True
    return count


def seen_by_its_test_alone(n):
    return n + n


def seen_by_nothing(n):
    return n + n
'''
PROPERTIES = '''
from reference import sums

@holds("numbers.product")
@given(n=st.integers(2, 999))
def test_products(n):
    """Three times a number is thrice it."""
    assert sums.product(n) == n + n + n

@holds("numbers.positive")
@given(n=st.integers(2, 999))
def test_positive(n):
    """Numbers from 2 on are above zero."""
    assert sums.above_zero(n)

@holds("numbers.named")
@given(n=st.integers(2, 999))
def test_named(n):
    """Numbers are even or odd."""
    assert len(sums.named(n)) in (3, 4)

@holds("numbers.steps")
@given(n=st.integers(2, 999))
def test_steps(n):
    """A number is so many steps from zero."""
    assert sums.steps(n) == n
'''
TESTS = """
from reference import sums

def test_twice():
    assert sums.seen_by_its_test_alone(4) == 8
"""
FOUND = {
    "FACTOR = 3 -> FACTOR = 4": "contradicted",
    "FACTOR * n -> FACTOR + n": "contradicted",
    "n > 0 -> n >= 0": "survived",
    "n > 0 -> n > 1": "survived",
    "n % 2 -> n // 2": "raised",
    "n % 2 -> n % 3": "raised",
    "n -= True -> n += True": "timed out",
    "n -= True -> n -= False": "timed out",
    "count += True -> count -= True": "contradicted",
    "count += True -> count += False": "contradicted",
    "n + n -> n - n": "tests",
    "n + n -> n - n (nothing)": "survived",
}


SCRIPT = """
import os, sys
sys.path[0] = os.getcwd()
from properties.mutants.automatic import __main__, trials
trials.SLACK = 1.0
sys.exit(__main__.main([]))
"""


@pytest.fixture
def made_up(project: Project) -> Project:
    for folder, file, source in (
        ("reference", "sums.py", ORACLE),
        ("reference/tests", "test_sums.py", TESTS),
    ):
        (project.folder / folder).mkdir()
        (project.folder / folder / "__init__.py").touch()
        (project.folder / folder / file).write_text(source, encoding="utf-8")
    project.inventory("numbers.product", "numbers.positive", "numbers.named", "numbers.steps")
    project.module(PROPERTIES)
    return project


def _run(project: Project) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]:
    command = [sys.executable, "-c", SCRIPT]
    settings = {"cwd": project.folder, "env": project.environment({}), "capture_output": True, "text": True}
    ended: subprocess.CompletedProcess[str] = subprocess.run(command, timeout=120, **settings)  # type: ignore[call-overload]
    output = project.folder / "build" / "automatic.jsonl"
    assert output.exists(), ended.stderr
    return ended, [json.loads(line) for line in output.read_text().splitlines()]


def test_each_change_to_an_oracle_is_found_to_be_noticed_or_not(made_up: Project) -> None:
    ended, lines = _run(made_up)
    nothing = {"seen_by_nothing": " (nothing)"}
    assert {line["change"] + nothing.get(line["function"], ""): line["outcome"] for line in lines} == FOUND
    assert ended.returncode == 1
    assert "survived: reference/sums.py:13: n > 0 -> n >= 0" in ended.stdout.splitlines()

    output = made_up.folder / "build" / "automatic.jsonl"
    output.write_text("".join(json.dumps(line) + "\n" for line in lines[3:]))
    _, again = _run(made_up)
    assert again[: len(lines) - 3] == lines[3:]
    assert sorted(map(str, again)) == sorted(map(str, lines))


def test_a_module_that_is_not_there_is_refused_in_one_line(made_up: Project) -> None:
    command = [sys.executable, "-m", "properties.mutants.automatic", "--modules", "sum"]
    ended = subprocess.run(command, cwd=made_up.folder, env=made_up.environment({}), capture_output=True, text=True)
    assert ended.returncode == 2
    assert ended.stderr.splitlines()[-1].endswith("there is no reference/sum.py: use one of sums")
