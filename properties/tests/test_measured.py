"""The table of ratios."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from properties.measured import COLUMNS, main, table
from properties.report.record import load
from properties.tests.conftest import Here

TIMED = '''
    from properties.evidence import within_band
    from properties.ratios import Band, Ratio


    @approximates("a.timed", "a band")
    def test_timed():
        """It takes twice as long."""
        within_band(Ratio.of([2.1] * 34, Band(1.7, 2.3)), rule=2, unit="times as long", label="a|b", where={"rows": 4})


    @holds("a.counted")
    @given(n=st.integers(0, 10**9))
    def test_counted(n):
        """Numbers are not negative."""
        observe(rule=n, exact=n, bound=0, where={"n": n})
'''


@pytest.fixture
def record(here: Here) -> Path:
    here.inventory("a.timed", "a.counted")
    here.module(TIMED)
    assert here.here().status == 0
    [path] = (here.folder / "build" / "results").glob("*.json")
    return path


def test_a_ratio_is_a_row_of_the_table(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(record)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"### .+, torch 2\.\d+.*, \d{4}-\d\d-\d\dT.*Z", told[0])
    assert told[2:5] == [
        "| " + " | ".join(COLUMNS) + " |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        "| a.timed | a\\|b, 4 | 2 | 2.1 times as long | 2.1 to 2.1 | 34 | 1.7 to 2.3 |",
    ]
    assert not [line for line in told if "a.counted" in line]


def test_a_run_that_measured_nothing_says_so(record: Path) -> None:
    whole = load(record)
    whole["claims"] = [claim for claim in whole["claims"] if claim["id"] != "a.timed"]
    assert "Nothing was measured in this run." in table(whole)


def test_what_is_no_record_gets_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == main([str(tmp_path / "absent.json")]) == 4
    told = capsys.readouterr().err.splitlines()
    assert "no records were named" in told[0]
    assert "there is no such file" in told[1]
