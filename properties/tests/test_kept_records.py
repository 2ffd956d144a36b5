"""The records under ``spec/records/`` are runs that were really made, and README tells what they say and no more."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from properties.report import __main__ as command
from properties.report import kept
from properties.report.merge import Standing, merge
from properties.report.record import Record, RecordError, load, save
from properties.specification import read, read_inventory
from properties.tests.sample_records import OUTCOMES, RAN, full_record, judged, record
from properties.tests.shown_page import CHAPTERS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FILES = kept.records_in(ROOT / kept.FOLDER)
RENEW = "make verify and make record, in a tree without changes, bring both up to date"
ENVIRONMENT = re.compile(r"(?:cpu|cuda)-[\w.+-]*-py3[\w.+-]*-torch[\w.+-]+")
CARD = re.compile(r"\b(?:[ABHLTV]\d{2,3}S?|(?:RTX|GTX) \d{4}|MI\d{3}X?)\b")


@cache
def records() -> tuple[Record, ...]:
    return tuple(load(path) for path in FILES)


def outside_the_blocks(readme: str) -> str:
    return kept.BLOCK.sub("", readme)


def disagreements(given: tuple[Record, ...], stated: dict[str, tuple[str, str]]) -> dict[str, object]:
    """The claims of which chapter or verdict is not what the specification states, and both."""
    told = {each.claim["id"]: (each.claim["section"], str(each.claim["verdict"])) for each in merge(given).claims}
    return {id: (told.get(id), stated.get(id)) for id in told | stated if told.get(id) != stated.get(id)}


def test_a_run_on_a_processor_is_kept() -> None:
    assert [each for each in records() if each["environment"]["device"] == "cpu"], RENEW


@pytest.mark.parametrize("path", FILES, ids=[path.name for path in FILES])
def test_a_kept_record_is_of_a_whole_run_from_a_commit_and_small(path: Path) -> None:
    kept_record = load(path)
    assert kept.refusal(kept_record) is None
    assert path.name == f"{kept_record['environment']['name']}.json.gz"
    assert re.fullmatch("[0-9a-f]{40}", kept_record["environment"]["commit"] or "")
    assert path.stat().st_size < 400_000


def test_readme_tells_what_the_kept_records_say() -> None:
    assert kept.told(README, records(), read_inventory(ROOT).chapters) == README, RENEW


def test_the_kept_records_have_the_verdicts_of_the_specification() -> None:
    inventory = read_inventory(ROOT)
    sections = {entry.id: entry.section for entry in inventory.entries}
    claims = read(ROOT, inventory).claims
    stated = {id: (section, str(claims[id].verdict)) for id, section in sections.items()}
    assert disagreements(records(), stated) == {}, RENEW


def test_readme_names_no_environment_and_no_card_without_a_kept_record() -> None:
    names = {each["environment"]["name"] for each in records()}
    devices = " ".join(each["environment"]["device_name"] for each in records())
    assert set(ENVIRONMENT.findall(README)) <= names
    assert [card for card in CARD.findall(outside_the_blocks(README)) if card not in devices] == []


# ── the same on records that are made up ──

BLOCKS = "".join(f"<!-- {name}: of spec/records -->\n<!-- end -->\n" for name in kept.BLOCKS)


def told(*given: Record) -> str:
    return kept.told(f"# A\n{BLOCKS}", given, CHAPTERS)


def on_a_card(id: str, *outcome: Any) -> dict[str, Any]:
    claim = judged(id, *outcome)
    claim["properties"] = [{**each, "device": "cuda"} for each in claim["properties"]]
    return claim


CUDA = {"name": "cuda-a-card-linux-py3.11-torch2.13.0", "device": "cuda", "device_name": "A Card", "driver": "550.1"}
SELECTED = {"partial": True, "partial_reason": "some properties were deselected"}
LEFT_OUT = ("not-run", None, "deselected")


def test_another_number_or_a_missing_line_is_not_what_the_records_say() -> None:
    current = told(full_record())
    assert kept.told(current, [full_record()], CHAPTERS) == current
    for wrong in (
        current.replace("| 1 Number formats | 1 |", "| 1 Number formats | 2 |"),
        current.replace("6,400 in", "6,500 in"),
        current.replace("1 December 2026", "2 December 2026"),
        current.replace("0123456789ab", "0123456789ac"),
    ):
        assert wrong != current
        assert kept.told(wrong, [full_record()], CHAPTERS) == current


def test_a_readme_without_one_of_the_blocks_is_refused() -> None:
    for readme in ("# A\n", BLOCKS.replace("cards", "carts"), BLOCKS + BLOCKS):
        with pytest.raises(RecordError, match="verdicts, refutations, environments, cards"):
            kept.told(readme, [full_record()], CHAPTERS)


def test_a_claim_with_another_verdict_and_one_that_is_new_disagree() -> None:
    given = (record([judged("formats.a", *RAN), judged("formats.b", *RAN)]),)
    stated = {"formats.a": ("1", "holds-when"), "formats.b": ("1", "holds"), "formats.c": ("1", "holds")}
    assert sorted(disagreements(given, stated)) == ["formats.b", "formats.c"]
    assert disagreements(given, dict.fromkeys(("formats.a", "formats.b"), ("1", "holds-when"))) == {}


def test_without_a_run_on_a_card_readme_says_how_many_properties_wait_for_one() -> None:
    waiting = on_a_card("formats.a", *OUTCOMES[Standing.NOT_RUN])
    assert "None of the 1 properties that need a GPU has run on one so far." in told(record([waiting]))


def test_a_run_on_a_card_is_told_with_its_driver_and_what_it_ran() -> None:
    claims = [
        on_a_card("formats.a", *RAN),
        on_a_card("formats.b", *OUTCOMES[Standing.NOT_RUN]),
        on_a_card("formats.c", *OUTCOMES[Standing.CONTRADICTED]),
        judged("formats.d", *RAN),
    ]
    said = told(record(claims, **CUDA), record([judged("formats.d", *RAN)]))
    assert "| A Card | 550.1 | 2.13.0 | 1 December 2026 | 0123456789ab | 2 of 3 | 1 |" in said
    assert "has run on one so far" not in said


def test_markup_in_a_record_is_text_in_readme() -> None:
    claim = {**judged("formats.a", *RAN), "verdict": "refuted", "says": "<b>a | *b*\n# c", "instead": "`d`"}
    said = told(record([claim], device_name="<i>x|y"))
    assert "\\<b\\>a \\| \\*b\\* \\# c | \\`d\\`" in said and "\\<i\\>x\\|y" in said


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (record([judged("formats.a", *RAN)], dirty=True), "files differed from commit 0123456789ab"),
        (record([judged("formats.a", *RAN)], commit=None, dirty=None), "nobody knows of which commit it is"),
        (record([judged("formats.a", *RAN)], **SELECTED), "some properties were deselected: make a whole run"),
        (record([on_a_card("formats.a", *LEFT_OUT)], **CUDA, **SELECTED), "some properties were deselected"),
        (record([on_a_card("formats.a", *RAN)], **CUDA, **SELECTED, level="quick"), "some properties were deselected"),
    ],
)
def test_a_run_that_was_not_whole_or_not_of_a_commit_is_not_kept(made: Record, why: str, tmp_path: Path) -> None:
    assert why in (kept.refusal(made) or "")
    save(made, tmp_path / "run.json")
    with pytest.raises(RecordError, match="run.json: not kept, since "):
        kept.keep([(tmp_path / "run.json", made)], tmp_path / "records")
    assert not (tmp_path / "records").exists()


def test_a_run_of_all_that_needs_a_card_is_fit_though_the_rest_was_left_out() -> None:
    claims = [on_a_card("formats.a", *RAN), judged("formats.b", *LEFT_OUT)]
    assert kept.refusal(record(claims, **CUDA, **SELECTED)) is None


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a README and the inventory's chapters, and a run's results in it."""
    (tmp_path / "README.md").write_text(f"# A\n{BLOCKS}", encoding="utf-8")
    monkeypatch.setattr(command, "ROOT", tmp_path)
    monkeypatch.setattr(command, "read_inventory", lambda root: read_inventory(ROOT))
    save(full_record(), tmp_path / "results" / "cpu.json")
    return tmp_path


def test_keeping_a_record_makes_readme_tell_of_it(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results, readme = checkout / "results", checkout / "README.md"
    assert command.main(["keep", str(results)]) == 0
    [path] = kept.records_in(checkout / kept.FOLDER)
    assert load(path) == load(results / "cpu.json")
    assert "6,400 in 14 s" in readme.read_text(encoding="utf-8")
    before = path.read_bytes(), readme.read_bytes()
    assert command.main(["keep", str(path)]) == 0
    assert (path.read_bytes(), readme.read_bytes()) == before
    save(full_record(at="2026-12-02T12:00:00Z", cases=7000), results / "cpu.json")
    save(full_record(at="2026-12-03T12:00:00Z", cases=8000, dirty=True), results / "later.json")
    assert command.main(["keep", str(results)]) == 0
    assert "7,000 in 14 s" in readme.read_text(encoding="utf-8")
    path.unlink()
    capsys.readouterr()
    assert command.main(["keep"]) == 0
    assert "tells of 0 kept records" in capsys.readouterr().out
    assert "`cpu-" not in readme.read_text(encoding="utf-8")


def test_a_kept_record_that_breaks_off_is_refused_in_one_line(checkout: Path) -> None:
    assert command.main(["keep", str(checkout / "results")]) == 0
    [path] = kept.records_in(checkout / kept.FOLDER)
    whole = path.read_bytes()
    for broken in (whole[:200], b"", b"{}", whole[:20] + b"?" * 40 + whole[60:]):
        path.write_bytes(broken)
        with pytest.raises(RecordError, match=re.escape(str(path))) as refused:
            load(path)
        assert "\n" not in str(refused.value)


def test_a_folder_stands_for_its_records_and_an_older_one_is_left_out_aloud(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(full_record(at="2026-11-01T12:00:00Z"), checkout / "kept" / "cpu.json")
    save(full_record(name="another"), checkout / "kept" / "another.json")
    output = checkout / "index.html"
    assert command.main([str(checkout / "kept"), str(checkout / "results"), "--output", str(output)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{output}: 11 claims, 2 environments",
        "An older record of cpu-linux-x86_64-py3.11-torch2.13.0, of 2026-11-01T12:00:00Z, was left out.",
    ]


def test_a_run_is_compared_with_the_kept_one_of_its_environment(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = str(checkout / "results" / "cpu.json")
    save(full_record(), checkout / "kept" / "cpu.json")
    assert command.main(["diff", str(checkout / "kept"), new]) == 0
    assert "nothing changed" in capsys.readouterr().out
    (checkout / "kept" / "cpu.json").unlink()
    assert command.main(["diff", str(checkout / "kept"), new, "--markdown"]) == 0
    assert capsys.readouterr().out.endswith("has no record of cpu-linux-x86_64-py3.11-torch2.13.0 to compare with.\n")
