"""Between two records everything that changed is told, and a claim that no longer holds ends the command with one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from properties.report import __main__ as command
from properties.report import comparison, verdict_table
from properties.report.comparison import Change, Kind, as_markdown, as_text, changes, failed
from properties.report.merge import Standing, merge
from properties.report.record import Record, save
from properties.tests.sample_records import (
    CLAIM,
    CONTEXT,
    EVIDENCE,
    OUTCOMES,
    PROPERTY,
    RAN,
    full_record,
    judged,
    record,
)
from properties.tests.shown_page import CHAPTERS


def between(old: dict[str, Any], new: dict[str, Any]) -> list[Change]:
    """The changes from one form of a claim to another."""
    return changes(record([old]), record([new]))


def with_evidence(**changed: Any) -> dict[str, Any]:
    return {**CLAIM, "evidence": [{**EVIDENCE, **changed}]}


def test_a_record_differs_in_nothing_from_itself() -> None:
    made = full_record()
    assert changes(made, made) == []
    assert "nothing changed" in as_text(made, made, [])


@pytest.mark.parametrize("outcome", Standing, ids=lambda each: str(each.name))
def test_a_claim_that_agreed_and_is_wrong_now_no_longer_holds(outcome: Standing) -> None:
    found = between(judged("formats.a", *RAN), judged("formats.a", *OUTCOMES[outcome]))
    kinds = {
        Standing.ERROR: [Kind.NO_LONGER],
        Standing.CONTRADICTED: [Kind.NO_LONGER],
        Standing.REQUIRED: [Kind.NO_LONGER],
        Standing.INCONCLUSIVE: [Kind.AGREEMENT],
        Standing.RAN: [],
        Standing.NOT_RUN: [Kind.AGREEMENT],
    }
    assert [each.kind for each in found] == kinds[outcome]
    assert failed(found) == (kinds[outcome] == [Kind.NO_LONGER])


def test_a_claim_that_came_to_agree_is_told_and_is_no_failure() -> None:
    found = between(judged("formats.a", *OUTCOMES[Standing.CONTRADICTED]), judged("formats.a", *RAN))
    assert found == [Change(Kind.AGREEMENT, "formats.a", "holds-when, contradicted", "holds-when, agrees")]
    assert not failed(found)


def test_another_verdict_is_told_and_one_that_held_is_a_failure() -> None:
    holds, refuted = {**CLAIM, "verdict": "holds"}, {**CLAIM, "verdict": "refuted"}
    assert [each.kind for each in between(holds, refuted)] == [Kind.NO_LONGER]
    assert [each.kind for each in between(refuted, holds)] == [Kind.VERDICT]


def test_claims_that_come_and_go_are_told() -> None:
    found = changes(record([CLAIM, CONTEXT]), record([CONTEXT, judged("formats.new", *RAN)]))
    assert [(each.kind, each.id) for each in found] == [
        (Kind.APPEARED, "formats.new"),
        (Kind.GONE, CLAIM["id"]),
    ]


def test_fewer_cases_are_told() -> None:
    fewer = {**PROPERTY, "cases": {**PROPERTY["cases"], "passed": 12}}  # type: ignore[dict-item]
    (found,) = between(CLAIM, {**CLAIM, "properties": [fewer]})
    assert found == Change(Kind.COUNT, str(CLAIM["id"]), "100 generated, 256 points", "12 generated, 256 points")


def test_another_number_for_the_same_case_is_told_and_for_another_case_not() -> None:
    (found,) = between(with_evidence(exact=128), with_evidence(exact=256))
    assert found == Change(Kind.NUMBER, str(CLAIM["id"]), "bytes shape=(4, 8), itemsize=4: 128", "256")
    assert between(with_evidence(exact=128), with_evidence(exact=256, where={"shape": "(4, 9)"})) == []
    assert between(with_evidence(where={}, exact=1), with_evidence(where={}, exact=2)) == []


def test_a_case_that_has_several_numbers_is_not_compared() -> None:
    def twice(one: float, other: float) -> dict[str, Any]:
        return {**CLAIM, "evidence": [{**EVIDENCE, "exact": one}, {**EVIDENCE, "exact": other}]}

    assert between(twice(1, 2), twice(1, 3)) == between(twice(1, 1), twice(1, 3)) == []
    assert len(between(twice(1, 1), twice(3, 3))) == 1


def test_of_runs_with_two_seeds_only_counts_are_compared() -> None:
    def with_seed(seed: int, exact: float) -> Record:
        return record([with_evidence(exact=exact)], seed=seed)

    assert changes(with_seed(1, 0.5), with_seed(2, 0.25)) == []
    assert (
        len(changes(with_seed(1, 128), with_seed(2, 256.0))) == len(changes(with_seed(1, 0.5), with_seed(1, 0.25))) == 1
    )


def test_measured_ratios_are_told_only_where_their_intervals_are_apart() -> None:
    def measured(seen: float, interval: str) -> dict[str, Any]:
        where = {"case": "T()", "interval": interval, "pairs": 33, "band": "0.5 to 2"}
        return with_evidence(label="large over small", exact=seen, where=where)

    assert between(measured(1.0, "0.9 to 1.1"), measured(1.05, "1.05 to 1.2")) == []
    (found,) = between(measured(1.0, "0.9 to 1.1"), measured(1.5, "1.4 to 1.6"))
    assert (found.kind, found.old) == (Kind.RATIO, "large over small case=T(): 1 (0.9 to 1.1)")
    assert found.new == "1.5 (1.4 to 1.6)"


def test_the_gravest_changes_come_first() -> None:
    old = record([judged("formats.a", *OUTCOMES[Standing.NOT_RUN]), judged("formats.b", *RAN)])
    new = record([judged("formats.a", *RAN), judged("formats.b", *OUTCOMES[Standing.ERROR])], torch="2.14.0")
    text = as_text(old, new, changes(old, new))
    assert "2 claims changed; 1 that held no longer does" in text
    assert text.index("No longer holds") < text.index("Came out otherwise")
    assert "formats.b: holds-when, agrees -> holds-when, error: no case was inside the condition" in text
    assert "torch 2.14.0" in text


def test_markdown_shows_a_records_own_signs_as_text() -> None:
    hostile = "| <script>alert(1)</script> **bold** `code`\n# head"
    old, new = record([judged("formats.a", *RAN)]), record([judged("formats.a", "error", None, hostile)])
    told = as_markdown(old, new, changes(old, new))
    row = next(line for line in told.splitlines() if line.startswith("| `formats.a`"))
    assert row.replace("\\|", "").count("|") == 4
    assert "<script>" not in row.replace("\\<", "") and "**" not in row
    assert "### No longer holds" in told


def test_a_summary_stays_within_what_a_workflow_shows() -> None:
    long = {"reason": "* " * 5000, "says": "x" * 5000}
    claims = [judged(f"formats.{'n' * 40}{n}", *RAN) for n in range(400)]
    evidence = [{**EVIDENCE, "exact": 1, "where": {"case": "*" * 5000}}]
    moved = [{**EVIDENCE, "exact": 2, "where": {"case": "*" * 5000}}]
    counted = [{**each, "properties": [{**each["properties"][0], "points": 7}]} for each in claims]
    old = record([{**each, "evidence": evidence} for each in claims])
    new = record(
        [
            *({**judged(each["id"], "error", None, "e"), **long} for each in claims[:110]),
            *({**each, "verdict": "refuted"} for each in claims[110:220]),
            *({**each, "evidence": moved} for each in counted[220:]),
            *(judged(f"formats.new{n}", "not-run", None, "n" * 5000) for n in range(110)),
        ]
    )
    told = as_markdown(old, new, changes(old, new))
    assert told.count("| `formats.") >= 4 * comparison.MOST
    assert len(told.encode()) < 2**20


def test_a_long_list_is_cut_and_says_so() -> None:
    ids = [f"formats.n{number}" for number in range(comparison.MOST + 7)]
    old, new = record([]), record([judged(id, *RAN) for id in ids])
    told = as_markdown(old, new, changes(old, new))
    assert "and 7 more" in told and ids[-1] not in told


def test_the_command_compares_two_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    save(record([judged("formats.a", *RAN)]), old)
    save(record([judged("formats.a", *OUTCOMES[Standing.CONTRADICTED])]), new)
    assert command.main(["diff", str(old), str(new)]) == 1
    assert "formats.a: holds-when, agrees -> holds-when, contradicted" in capsys.readouterr().out
    assert command.main(["diff", str(new), str(old), "--markdown"]) == 0
    assert "### Came out otherwise" in capsys.readouterr().out
    assert command.main(["diff", str(old), str(tmp_path / "none.json")]) == 4
    assert capsys.readouterr().err.count("\n") == 1


def test_the_table_counts_what_the_page_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = verdict_table.as_markdown(merge([full_record()]), CHAPTERS)
    assert "| chapter | ✓ holds | ◐ holds when | ≈ approximates | ✗ refuted | ¶ context |" in told
    assert "| 1 Number formats | 1 | 2 | 1 | 1 | 1 | 1 | 1 | 3 |" in told
    save(full_record(), tmp_path / "cpu.json")
    assert command.main(["table", str(tmp_path / "*.json")]) == 0
    assert "| all | 1 | 2 | 1 | 1 | 1 | 1 | 1 | 3 |" in capsys.readouterr().out
