"""A campaign's log: what it counts as a change, and where it goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from properties import campaign
from properties.campaign import beside, changes, command, figures, main

HELD = ["holds", "ran", True]
NOISY = ["holds", "inconclusive", None]
LOST = ["holds", "ran", False]


def line(run: int, said: list[Any], **more: Any) -> dict[str, Any]:
    """One run, with one claim."""
    told = {"run": run, "seed": 1000 + run, "beside": 0, "status": 0, "seconds": 60.0, "claims": {"a.b": said}}
    return told | more


@pytest.mark.parametrize("said", [HELD, NOISY])
def test_a_run_that_says_the_same_or_nothing_is_no_change(said: list[Any]) -> None:
    assert changes([line(0, HELD), line(1, said)]) == []
    assert changes([line(0, said), line(1, HELD)]) == []


def test_another_verdict_and_a_run_that_failed_are_changes() -> None:
    assert changes([line(0, NOISY), line(1, HELD), line(2, LOST, status=1)]) == [
        "run 2 (seed 1002): status 1",
        f"run 2 (seed 1002): a.b {LOST}, not {HELD}",
    ]


def test_the_figures_count_noise_and_busy_runs() -> None:
    told = figures([line(0, HELD), line(1, NOISY, seconds=41.2), line(2, HELD, beside=2)])
    assert told == "3 runs, 1 with a busy machine, 41 to 60 s; 1 claims, 1 times one was too noisy to say"


def test_half_of_the_runs_are_parallel_and_half_of_each_have_a_busy_machine() -> None:
    parallel = ["-n" in command(run, 0, Path("record.json"), []) for run in range(4)]
    assert parallel == [False, True, False, True]
    assert [beside(run, 2) for run in range(4)] == [0, 0, 2, 2]


def test_runs_that_the_log_has_are_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("".join(f"{json.dumps(line(run, HELD))}\n" for run in range(2)))
    made: list[int] = []

    def once(run: int, *_: object) -> dict[str, Any]:
        made.append(run)
        return line(run, HELD)

    monkeypatch.setattr(campaign, "once", once)
    assert main(["--runs", "3", "--log", str(log)]) == 0
    assert made == [2]
    assert len(log.read_text().splitlines()) == 3


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("--claim=no.such.claim", "no claim's id is or starts with 'no.such.claim'"),
        ("-kno_such_property", "deselect every one"),
    ],
)
def test_a_campaign_that_would_run_no_property_ends_at_once(argument: str, said: str, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    with pytest.raises(SystemExit, match=said):
        main(["--runs", "3", "--log", str(log), "--", argument])
    assert not log.exists()


def test_a_log_with_a_line_cut_short_is_named(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(f'{json.dumps(line(0, HELD))}\n{{"run": 1, "se')
    with pytest.raises(SystemExit, match=r"log\.jsonl, line 2: not a line of JSON; remove it and run again"):
        main(["--log", str(log)])


def test_a_campaign_without_runs_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--runs", "0"])
    assert "--runs: 0 is no number of runs" in capsys.readouterr().err
