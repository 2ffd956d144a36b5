"""What a run prints at its end: the table, the totals, what is refuted, and what is unexpected."""

from __future__ import annotations

import re
from typing import Any

import pytest

from properties.report.record import REQUIRED
from properties.summary import COLUMNS, column, smallest
from properties.tests.conftest import Here

MIXED = '''
    @holds("a.good")
    def test_good():
        """One is one."""
        assert int("1") == 1

    @holds("a.bad")
    @given(n=st.integers(0, 1000))
    def test_bad(n):
        """Numbers are small."""
        assert n < 10

    @holds("a.broken")
    def test_broken():
        """It works."""
        raise ValueError("no")
        assert int("1")

    @holds("a.noisy")
    def test_noisy():
        """It is fast: ≤ 1 s."""
        from properties.evidence import Inconclusive
        raise Inconclusive("the interval straddles the edge")
        assert int("1")

    @refuted("a.false", instead="Some are not.")
    @given(n=st.integers(0, 1000), name=st.just("x"))
    @example(n=77, name="x")
    def test_false(n, name):
        """Numbers are below 17."""
        assert n < 17

    @corrects("a.false")
    def test_true():
        """Some are not."""
        assert int("18") >= 17

    @refuted("a.wrong", instead="It is.")
    def test_wrong():
        """Zero is one."""
        assert int("0") == 1

    @corrects("a.wrong")
    def test_right():
        """It is."""
        assert int("0") == 1

    context("a.said", "People like it.", source="the document, section 1")
'''


def claim(**facts: Any) -> dict[str, Any]:
    return {"verdict": "holds", "state": "ran", "agrees": True, "reason": None, **facts}


@pytest.mark.parametrize(
    ("facts", "name"),
    [
        ({}, "holds"),
        ({"verdict": "holds-when"}, "holds when"),
        ({"verdict": "approximates"}, "approximates"),
        ({"verdict": "refuted"}, "refuted"),
        ({"verdict": "context", "state": None, "agrees": None}, "context"),
        ({"state": "not-run", "agrees": None, "reason": "needs a CUDA device"}, "not run"),
        ({"state": "not-run", "agrees": None, "reason": f"{REQUIRED}needs a CUDA device"}, "unexpected"),
        ({"state": "inconclusive", "agrees": None, "reason": "noisy"}, "inconclusive"),
        ({"state": "error", "agrees": None, "reason": "broken"}, "unexpected"),
        ({"agrees": False}, "unexpected"),
        ({"verdict": "refuted", "agrees": False}, "unexpected"),
    ],
)
def test_each_claim_is_counted_in_one_column(facts: dict[str, Any], name: str) -> None:
    assert column(claim(**facts)) == name
    assert name in dict(COLUMNS)


def test_the_smallest_counterexample_is_the_one_that_was_found() -> None:
    assert smallest({"counterexample": {"pinned": {"n": "77"}, "found": {"n": "17"}}}) == "n=17"
    assert smallest({"counterexample": {"pinned": {"n": "77"}, "found": None}}) == "n=77"
    assert smallest({"counterexample": {"pinned": {}, "found": None}}) == "as written"


def told(output: str) -> str:
    """What a run says in our words, without pytest's before and after."""
    return output.partition(" verdicts ")[2].partition(" short test summary info ")[0]


def test_a_run_prints_the_table_the_totals_the_refuted_and_the_unexpected(here: Here) -> None:
    here.inventory("a.good", "a.bad", "a.broken", "a.noisy", "a.false", "a.wrong", "a.said")
    here.module(MIXED)
    ended = here.here("--hypothesis-seed=3")
    assert ended.status == 1
    assert "\x1b" not in ended.output
    summary = told(ended.output)
    lines = summary.splitlines()
    assert re.split(r" {2,}", lines[1].strip()) == [name for name, _ in COLUMNS]
    assert lines[2].split() == ["1", "Numbers", "1", "-", "-", "1", "1", "-", "1", "3"]
    states = "7 claims: 4 ran, 0 not run, 1 in error, 1 inconclusive, 1 context; "
    assert re.fullmatch(rf"{states}\d+ cases in \d+\.\d s on (cpu|cuda)-\S+", lines[3]), lines[3]
    refuted = lines.index("a.false  Numbers are below 17.  [n=17, name='x']")
    assert lines[refuted + 1] == "  instead: Some are not."
    assert "a.wrong  Zero is one." not in summary
    unexpected = summary.partition(" unexpected -")[2]
    for id, headline in {
        "a.bad": "contradicted; this run does not confirm the verdict 'holds'",
        "a.broken": "error; the run says nothing about the verdict 'holds'",
        "a.wrong": "contradicted; this run does not confirm the verdict 'refuted'",
    }.items():
        assert f"{id}: {headline}" in unexpected
    assert "a.noisy" not in unexpected
    coloured = here.here("--hypothesis-seed=3", "--color=yes").output
    assert "\x1b[32m" in coloured
    plain = told(re.sub(r"\x1b\[[0-9;]*m", "", coloured))
    untimed = r"in \d+\.\d+ ?s|[=-]{3,}"
    assert re.sub(untimed, "", plain) == re.sub(untimed, "", summary)


def test_a_header_names_level_seed_torch_device_and_cores(here: Here) -> None:
    here.inventory("a.good")
    here.module('@holds("a.good")\ndef test_good():\n    """One is one."""\n    assert int("1") == 1\n')
    ended = here.here("--level=quick", "--hypothesis-seed=3")
    header = r"^assay: level quick, seed 3, torch \S+, (cpu|cuda) \(.+\), \d+ cores$"
    assert re.search(header, ended.output, re.MULTILINE)
