"""Records are refused when they are wrong, written whole, merged worst first, and shown as they are."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from properties.report import __main__ as command
from properties.report.merge import MergedClaim, Standing, choose, current, merge, standing, worst
from properties.report.record import SCHEMA_FILE, Record, RecordError, load, partial_path, save, validate
from properties.tests.sample_records import (
    CLAIM,
    CONTEXT,
    ENVIRONMENT,
    OUTCOMES,
    RAN,
    full_record,
    judged,
    record,
    sample,
)
from properties.tests.shown_page import Page, page_of

ROOT = Path(__file__).parents[2]
Step = str | int


def nodes(value: object, path: tuple[Step, ...] = ()) -> Iterator[tuple[tuple[Step, ...], object]]:
    """Everything in a JSON value with its path, the value itself first."""
    yield path, value
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from nodes(inner, (*path, name))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from nodes(inner, (*path, index))


def put(path: tuple[Step, ...], value: object) -> dict[str, Any]:
    """The sample with something else at ``path``."""
    changed = sample()
    place: Any = changed
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return changed


def accepted(content: object) -> bool:
    """Whether a record passes; a refusal has to be one line."""
    try:
        validate(content)
    except RecordError as error:
        assert "\n" not in str(error)
        return False
    return True


FREE = ("where", "pinned", "found")
"""The objects whose names are a case's own."""
COUNTS = (
    "passed",
    "discarded",
    "distinct",
    "pinned",
    "inside",
    "outside",
    "points",
    "failed",
    "cases",
    "cores",
    "line",
)
WORDS = (
    ("environment", "device"),
    ("environment", "at"),
    ("environment", "level"),
    *((("claims", 0, name)) for name in ("id", "section", "origin", "verdict", "state", "strength")),
    *((("claims", 0, "properties", 0, name)) for name in ("role", "device", "state", "strength", "source_sha256")),
    ("claims", 0, "related", 0),
)


def test_a_valid_record_is_accepted_as_it_is() -> None:
    assert validate(sample()) == sample()


def test_the_schema_is_one_that_others_can_use() -> None:
    from jsonschema import Draft202012Validator

    schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    assert Draft202012Validator(schema).is_valid(sample())


def test_every_field_is_required_but_the_driver_that_older_records_lack() -> None:
    unneeded = []
    for path, value in nodes(sample()):
        if isinstance(value, dict) and (not path or path[-1] not in FREE):
            for name in value:
                place: Any = (changed := sample())
                for step in path:
                    place = place[step]
                del place[name]
                unneeded += [(*path, name)] if accepted(changed) else []
    assert unneeded == [("environment", "driver")]


def test_no_object_takes_a_field_it_does_not_know() -> None:
    open_to_all = []
    for path, value in nodes(sample()):
        if isinstance(value, dict) and (not path or path[-1] not in FREE):
            changed = put((*path, "extra"), 1)
            open_to_all += [path] if accepted(changed) else []
    assert open_to_all == []


def test_no_field_takes_a_value_of_another_type() -> None:
    loose = []
    for path, value in nodes(sample()):
        if not path:
            continue
        others: list[object] = [{"extra": []}, [[]]]
        words = value is None or isinstance(value, str) or path[-1] in ("rule", "exact", "bound", "error")
        if not words:
            others.append("text")
        if isinstance(value, int | float) and not isinstance(value, bool):
            others.append(True)
        in_case = len(path) > 1 and path[-2] in FREE
        loose += [(path, other) for other in others if not in_case and accepted(put(path, other))]
    assert loose == []


def test_a_case_takes_single_values_only() -> None:
    for name in FREE[1:]:
        assert not accepted(put(("claims", 0, "counterexample", name, "size"), [1]))
    assert not accepted(put(("claims", 0, "evidence", 0, "where", "size"), None))


@pytest.mark.parametrize("path", WORDS, ids=lambda path: ".".join(map(str, path)))
def test_a_word_outside_the_vocabulary_is_refused(path: tuple[Step, ...]) -> None:
    assert not accepted(put(path, "Perhaps!"))
    value = dict(nodes(sample()))[path]
    assert not accepted(put(path, f"{value}\n"))


def test_counts_are_not_negative() -> None:
    negative = [path for path, value in nodes(sample()) if path and path[-1] in COUNTS and isinstance(value, int)]
    assert len(negative) == len(COUNTS)
    assert [path for path in negative if accepted(put(path, -1))] == []


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), -float("inf"), 10**400], ids=["nan", "inf", "-inf", "10**400"]
)
def test_no_number_is_beyond_what_a_float_holds(value: int | float) -> None:
    places = [path for path, was in nodes(sample()) if isinstance(was, float)]
    assert len(places) == 6
    assert [path for path in places if accepted(put(path, value))] == []
    assert accepted(put(("claims", 0, "evidence", 0, "error"), "inf"))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("claims", 0, "agrees"), None),
        (("claims", 0, "state"), None),
        (("claims", 0, "state"), "not-run"),
        (("claims", 0, "state"), "error"),
        (("claims", 0, "instead"), None),
        (("claims", 0, "source"), "the document"),
        (("claims", 0, "properties", 0, "state"), "inconclusive"),
        (("claims", 0, "properties", 0, "agrees"), None),
        (("claims", 0, "says"), ""),
        (("claims", 1, "state"), "ran"),
        (("claims", 1, "agrees"), True),
        (("claims", 1, "source"), None),
        (("claims", 1, "id"), CLAIM["id"]),
        (("environment", "at"), "2026-02-30T12:00:00Z"),
        (("environment", "partial"), True),
        (("environment", "partial_reason"), "interrupted"),
    ],
    ids=lambda value: ".".join(map(str, value)) if isinstance(value, tuple) else str(value),
)
def test_a_record_that_contradicts_itself_is_refused(path: tuple[Step, ...], value: object) -> None:
    assert not accepted(put(path, value))


@pytest.mark.parametrize("outcome", OUTCOMES.values(), ids=lambda outcome: str(outcome[0]))
def test_every_state_can_be_recorded(outcome: tuple[str, bool | None, str | None]) -> None:
    assert accepted({**sample(), "claims": [judged("formats.a", *outcome)]})


@given(says=st.text(st.characters(), min_size=1), seed=st.integers(), seconds=st.floats(0, 1e300))
def test_what_is_saved_is_what_is_loaded(
    tmp_path_factory: pytest.TempPathFactory, says: str, seed: int, seconds: float
) -> None:
    path = tmp_path_factory.mktemp("records") / "cpu.json"
    saved = record([{**CLAIM, "says": says}], seed=seed, seconds=seconds)
    save(saved, path)
    assert load(path) == saved


def test_saving_creates_folders_and_replaces_the_older_record(tmp_path: Path) -> None:
    path = tmp_path / "build" / "results" / "cpu.json"
    save(record([]), path)
    save(record([CLAIM]), path)
    assert len(load(path)["claims"]) == 1
    assert [each.name for each in path.parent.iterdir()] == ["cpu.json"]


def test_a_record_that_is_not_valid_is_never_written(tmp_path: Path) -> None:
    path = tmp_path / "cpu.json"
    save(record([]), path)
    with pytest.raises(RecordError):
        save(cast(Record, put(("claims", 0, "verdict"), "proved")), path)
    assert load(path) == record([])


FULL_DISK = """
import resource, sys
from pathlib import Path
from properties.report.record import RecordError, load, save
path = Path(sys.argv[1])
record = load(path)
record["claims"][0]["says"] = "more " * 10_000
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
try:
    save(record, path)
except RecordError as error:
    print(error)
    sys.exit(3)
"""


def test_a_full_disk_leaves_the_older_record_whole(tmp_path: Path) -> None:
    pytest.importorskip("resource", reason="a file size limit needs a POSIX system")
    path = tmp_path / "cpu.json"
    save(record([CLAIM]), path)
    before = path.read_bytes()
    ended = subprocess.run([sys.executable, "-c", FULL_DISK, str(path)], cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 3, ended.stderr
    assert ended.stdout.count("\n") == 1
    assert ended.stdout.startswith(f"{path}: the record could not be written (File too large)")
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["cpu.json"]


def test_a_place_that_cannot_be_written_is_named_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    for path in (tmp_path, tmp_path / "file" / "cpu.json"):
        with pytest.raises(RecordError, match=f"^{re.escape(str(path))}: .*--results=PATH$"):
            save(record([]), path)


def text_of(content: object) -> str:
    return json.dumps(content, ensure_ascii=False, indent=1)


BROKEN = {
    "empty": ("", "the JSON breaks off"),
    "cut off": (text_of(sample())[:-300], "the JSON breaks off"),
    "no object": ("[1, 2]", "it has no schema number"),
    "another tool's": ('{"$schema": "x"}', "it has no schema number"),
    "a later schema": (
        text_of({**sample(), "schema": 2}),
        "a record of schema 2, and this version reads schema 1",
    ),
    "not a number": ('{"schema": NaN}', "it holds NaN, which JSON lacks"),
    "too deep": ("[" * 100_000, "not a record"),
    "an infinity": (
        text_of(sample()).replace("14.5", "1e999"),
        "environment.seconds: inf is not of type 'number'",
    ),
    "a wrong verdict": (
        text_of(put(("claims", 0, "verdict"), "proved")),
        "formats.bytes.numel-times-itemsize: verdict: 'proved' is not one of",
    ),
    "a wrong count": (
        text_of(put(("claims", 0, "properties", 0, "cases", "passed"), "many")),
        "formats.bytes.numel-times-itemsize: properties[0].cases.passed: 'many' is not of type 'integer'",
    ),
    "long values": (text_of({**sample(), "claims": "x" * 10_000}), "claims: 'xxx"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_is_no_record_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    text, complaint = BROKEN[name]
    path = tmp_path / "cpu.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(RecordError) as refused:
        load(path)
    message = str(refused.value)
    assert message.startswith(str(path)) and complaint in message
    assert "\n" not in message and len(message) < len(str(path)) + 420


def test_a_file_that_cannot_be_read_is_refused_in_one_line(tmp_path: Path) -> None:
    binary = tmp_path / "binary.json"
    binary.write_bytes(b"\xff\xfe\x00")
    for path, complaint in (
        (tmp_path / "none.json", "no such file"),
        (tmp_path, "cannot be read"),
        (binary, "UTF-8"),
    ):
        with pytest.raises(RecordError, match=complaint):
            load(path)


def test_a_partial_run_is_written_beside_the_whole_one() -> None:
    whole = Path("build/results/cpu-linux-x86_64-py3.11-torch2.13.0.json")
    assert partial_path(whole) == Path("build/results/cpu-linux-x86_64-py3.11-torch2.13.0--partial.json")


@pytest.mark.parametrize("expected", Standing, ids=lambda each: str(each.name))
def test_each_state_has_one_standing(expected: Standing) -> None:
    assert standing(record([judged("formats.a", *OUTCOMES[expected])])["claims"][0]) is expected


def test_context_stands_nowhere() -> None:
    assert standing(record([CONTEXT])["claims"][0]) is None


def test_the_worst_comes_first() -> None:
    assert [each.name for each in sorted(Standing)] == [
        "ERROR",
        "CONTRADICTED",
        "REQUIRED",
        "INCONCLUSIVE",
        "RAN",
        "NOT_RUN",
    ]


standings = st.one_of(st.none(), st.sampled_from(Standing))


@given(a=standings, b=standings, c=standings)
def test_the_worst_of_three_is_the_worst_of_two_and_one(
    a: Standing | None, b: Standing | None, c: Standing | None
) -> None:
    assert worst([a, worst([b, c])]) is worst([worst([a, b]), c]) is worst([c, b, a])
    assert worst([a, a]) is a
    assert worst([a, b]) in (a, b)


@st.composite
def records(draw: st.DrawFn) -> Record:
    """Records of a few environments, claims and days, so that they meet."""
    names = draw(st.lists(st.sampled_from(["formats.a", "formats.b", "tensors.c"]), unique=True))
    claims = []
    for name in names:
        outcome = draw(st.sampled_from([*OUTCOMES.values(), None]))
        sha = draw(st.sampled_from("01")) * 64
        claims.append({**CONTEXT, "id": name} if outcome is None else judged(name, *outcome, sha))
    partial = draw(st.booleans())
    environment = {
        **ENVIRONMENT,
        "name": draw(st.sampled_from(["cpu", "cuda"])),
        "at": f"2026-12-0{draw(st.integers(1, 3))}T12:00:00Z",
        "partial": partial,
        "partial_reason": "stopped early" if partial else None,
    }
    return cast(Record, {"schema": 1, "environment": environment, "claims": claims})


@settings(max_examples=25)
@given(drawn=records())
def test_the_records_to_merge_are_valid(drawn: Record) -> None:
    assert accepted(drawn)


@given(given_records=st.lists(records(), max_size=4), order=st.randoms(use_true_random=False))
def test_the_order_of_the_records_changes_nothing(given_records: list[Record], order: Any) -> None:
    shuffled = given_records.copy()
    order.shuffle(shuffled)
    assert merge(shuffled) == merge(given_records)


@given(a=st.lists(records(), max_size=3), b=st.lists(records(), max_size=3), c=st.lists(records(), max_size=3))
def test_choosing_in_two_steps_is_choosing_in_one(a: list[Record], b: list[Record], c: list[Record]) -> None:
    once = choose([*a, *b, *c])
    assert choose([*choose([*a, *b]), *c]) == once
    assert choose([*a, *choose([*b, *c])]) == once
    assert choose(once) == once


@given(given_records=st.lists(records(), max_size=4))
def test_a_merged_claim_is_as_bad_as_its_worst_and_keeps_every_word(given_records: list[Record]) -> None:
    before = copy.deepcopy(given_records)
    merged = merge(given_records)
    assert given_records == before
    kept = choose(given_records)
    for each in merged.claims:
        words = {r["environment"]["name"]: c for r in kept for c in r["claims"] if c["id"] == each.claim["id"]}
        assert {seen.environment["name"]: seen.claim for seen in each.sightings} == words
        if each.claim["verdict"] == "context":
            assert each.standing is None
        else:
            assert each.standing is worst(standing(claim) for claim in words.values())
            assert each.shown.standing is each.standing
    assert {each.claim["id"] for each in merged.claims} == {c["id"] for r in kept for c in r["claims"]}


@given(given_records=st.lists(records(), max_size=3), another=records())
def test_a_whole_record_of_a_new_environment_never_betters_a_claim(
    given_records: list[Record], another: Record
) -> None:
    contexts = {c["id"] for r in [*given_records, another] for c in r["claims"] if c["verdict"] == "context"}
    fresh = cast(Record, {**another, "environment": {**ENVIRONMENT, "name": "another"}})
    before = {each.claim["id"]: each.standing for each in merge(given_records).claims}
    after = {each.claim["id"]: each.standing for each in merge([*given_records, fresh]).claims}
    for id in before.keys() - contexts:
        assert worst([after[id], before[id]]) is after[id]


def test_a_whole_record_is_preferred_to_a_newer_partial_one() -> None:
    whole = record([CLAIM], at="2026-12-01T12:00:00Z")
    partial = record([CLAIM], at="2026-12-02T12:00:00Z", partial=True, partial_reason="-k bytes")
    newer = record([CLAIM], at="2026-12-03T12:00:00Z")
    assert choose([whole, partial]) == (whole,)
    assert choose([partial]) == (partial,)
    assert choose([newer, whole, partial]) == (newer,)


def merged_claim(*given_records: Record) -> MergedClaim:
    return merge(given_records).claims[0]


def test_a_record_of_an_older_property_is_stale() -> None:
    old = record([judged("formats.a", *RAN, "0" * 64)], name="cuda", at="2026-11-01T12:00:00Z")
    new = record([judged("formats.a", *RAN, "1" * 64)], name="cpu")
    seen = {each.environment["name"]: each.stale for each in merged_claim(new, old).sightings}
    assert seen == {"cpu": False, "cuda": True}
    assert merged_claim(old).stale is False
    assert merged_claim(new, old).stale is False


def test_a_claim_that_only_an_older_property_confirms_is_stale() -> None:
    old = record([judged("formats.a", *RAN, "0" * 64)], name="cuda", at="2026-11-01T12:00:00Z")
    new = record([judged("formats.a", *OUTCOMES[Standing.NOT_RUN], "1" * 64)], name="cpu")
    assert merged_claim(new, old).standing is Standing.RAN
    assert merged_claim(new, old).stale is True


def test_a_record_of_a_property_that_is_gone_is_stale() -> None:
    gone = judged("formats.a", *RAN)
    gone["properties"][0]["node"] = "spec/test_x.py::test_of_old"
    old = record([gone], name="cuda", at="2026-11-01T12:00:00Z")
    new = record([judged("formats.a", *RAN)], name="cpu")
    assert [each.stale for each in merged_claim(new, old).sightings] == [False, True]
    partly = record([gone], name="cuda", at="2026-12-31T12:00:00Z", partial=True, partial_reason="-k old")
    assert [each.stale for each in merged_claim(new, partly).sightings] == [False, False]


def test_a_record_in_which_every_property_has_changed_is_left_out_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = record([judged("formats.a", *RAN, "1" * 64), judged("formats.b", *RAN, "1" * 64)], name="new")
    old = record([judged("formats.a", *RAN), judged("formats.b", *RAN)], name="old", at="2026-01-01T12:00:00Z")
    half = record(
        [judged("formats.a", *RAN), judged("formats.b", *RAN, "1" * 64)], name="half", at=old["environment"]["at"]
    )
    assert [each["environment"]["name"] for each in current([new, old, half])] == ["half", "new"]
    assert current([old]) == (old,) and current([record([CONTEXT])]) == (record([CONTEXT]),)
    save(new, tmp_path / "new.json")
    save(old, tmp_path / "old.json")
    output = tmp_path / "index.html"
    assert run([str(tmp_path), "--output", str(output)], capsys)[1].splitlines() == [
        f"{output}: 2 claims, 1 environment",
        "The record of old, of 2026-01-01T12:00:00Z, was left out: each of its properties has changed since.",
    ]


def test_mutants_that_an_older_run_tried_are_told_unless_a_property_has_changed_since() -> None:
    met: Any = {"killed": ["eager-copy"], "survived": ["slow-copy"]}
    none: Any = {"killed": [], "survived": []}
    plain = record([{**judged("formats.a", *RAN), "mutants": none}], at="2026-12-02T12:00:00Z")
    older = record([{**judged("formats.a", *RAN), "mutants": met}], at="2026-12-01T12:00:00Z")
    changed = record([{**judged("formats.a", *RAN, "1" * 64), "mutants": met}], at="2026-12-01T12:00:00Z")
    assert merge([plain, older]).claims[0].mutants == none
    assert merge([plain], tried=[plain, older]).claims[0].mutants == met
    assert merge([plain], tried=[plain, changed]).claims[0].mutants == none


def test_a_claim_that_has_become_context_stands_nowhere() -> None:
    old = record([judged("formats.a", *OUTCOMES[Standing.ERROR])], name="cuda", at="2026-11-01T12:00:00Z")
    new = record([{**CONTEXT, "id": "formats.a"}], name="cpu")
    assert merged_claim(new, old).standing is None
    assert "¶ context" in Page(page_of(new, old)).said


def test_what_another_environment_ran_is_no_longer_pending() -> None:
    cpu = record([CLAIM], name="cpu")
    cuda = record([{**CLAIM, "pending": []}], name="cuda")
    absent = record([{**judged(str(CLAIM["id"]), *OUTCOMES[Standing.NOT_RUN]), "pending": []}], name="old")
    assert merged_claim(cpu).pending == ("needs a CUDA device",)
    assert merged_claim(cpu, absent).pending == ("needs a CUDA device",)
    assert merged_claim(cpu, cuda).pending == ()


def run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """The command's exit status, output and complaints."""
    try:
        status = command.main(arguments)
    except SystemExit as ended:
        status = cast(int, ended.code)
    told = capsys.readouterr()
    return status, told.out, told.err


def test_the_command_writes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(full_record(), tmp_path / "results" / "cpu.json")
    output = tmp_path / "spec" / "index.html"
    status, out, err = run([str(tmp_path / "results" / "*.json"), "--output", str(output)], capsys)
    assert (status, err) == (0, "")
    assert out == f"{output}: 11 claims, 1 environment\n"
    page = Page(output.read_bytes())
    assert "Number formats" in page.said
    assert "../results/cpu.json" in page.attributes("href")


def test_a_partial_record_is_shown_only_without_a_whole_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole, output = tmp_path / "cpu.json", tmp_path / "index.html"
    save(
        record([CLAIM], at="2026-12-02T12:00:00Z", partial=True, partial_reason="deselected"),
        partial_path(whole),
    )
    pattern = str(tmp_path / "*.json")
    assert run([pattern, "--output", str(output)], capsys)[0] == 0
    assert "This one is partial: deselected." in Page(output.read_bytes()).said
    save(full_record(), whole)
    assert run([pattern, "--output", str(output)], capsys)[0] == 0
    page = Page(output.read_bytes())
    assert "This one is partial" not in page.said
    assert "A partial record of cpu-linux-x86_64-py3.11-torch2.13.0" in page.said
    assert "cpu.json" in page.attributes("href")


def test_bad_input_gets_one_line_and_status_four(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, broken, output = tmp_path / "good.json", tmp_path / "broken.json", tmp_path / "index.html"
    save(record([CLAIM]), good)
    broken.write_text("{", encoding="utf-8")
    for arguments in (
        [str(tmp_path / "none.json"), "--output", str(output)],
        [str(tmp_path / "none*.json"), "--output", str(output)],
        [str(good), str(broken), "--output", str(output)],
        ["--output", str(output)],
        [str(good)],
        [str(good), "--output", str(good / "index.html")],
        [str(good), "--output", str(tmp_path)],
        [str(good), "--output", str(output), "--colour"],
    ):
        status, out, err = run(arguments, capsys)
        assert (status, out, err.count("\n")) == (4, "", 1), arguments
        assert err.startswith("python -m properties.report: ")
    assert not output.exists()


def test_without_jinja_one_line_says_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None if name == "jinja2" else True)
    output = tmp_path / "index.html"
    status, out, err = run([str(tmp_path / "cpu.json"), "--output", str(output)], capsys)
    assert status != 0 and out == "" and not output.exists()
    assert err == "no page: it needs jinja2, which torch brings; pip install jinja2\n"


def test_without_pygments_and_sympy_one_line_says_what_the_page_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None if name in ("pygments", "sympy") else True)
    save(record([CLAIM]), tmp_path / "cpu.json")
    status, _, err = run([str(tmp_path / "cpu.json"), "--output", str(tmp_path / "index.html")], capsys)
    assert status == 0 and (tmp_path / "index.html").exists()
    assert err == "the page has no colours in its source listings and no formulas: pip install pygments sympy\n"


def test_the_command_runs_as_a_module(tmp_path: Path) -> None:
    missing = str(tmp_path / "none.json")
    command_line = [
        sys.executable,
        "-m",
        "properties.report",
        missing,
        "--output",
        str(tmp_path / "index.html"),
    ]
    ended = subprocess.run(command_line, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 4
    assert (
        ended.stderr == f"python -m properties.report: {missing}: there is no such file; run pytest to write a record\n"
    )


def test_the_table_goes_into_a_file_where_the_system_has_no_signs_for_it(tmp_path: Path) -> None:
    save(record([CLAIM]), tmp_path / "cpu.json")
    ended = subprocess.run(
        [sys.executable, "-m", "properties.report", "table", str(tmp_path / "cpu.json")],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "cp1252"},
        capture_output=True,
    )
    assert ended.returncode == 0, ended.stderr
    assert "◐ holds when" in ended.stdout.decode("utf-8")
