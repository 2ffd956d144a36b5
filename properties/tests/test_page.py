"""The page shows every claim as the records have it, in both languages, and nothing of a record as markup."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from properties.report import wording
from properties.report.languages import Phrase, Quoted, joined, reason
from properties.report.merge import Standing
from properties.report.page import link
from properties.report.record import SCHEMA_FILE, PropertyRecord, validate
from properties.report.visible import visible
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
from properties.tests.shown_page import Page, page_of

CHINESE = re.compile("[\u4e00-\u9fff]")


def test_the_page_shows_every_claim_with_its_id_statement_and_word() -> None:
    made = full_record()
    page = Page(page_of(made))
    ids = page.attributes("id")
    assert len(ids) == len(set(ids))
    addresses = set(page.attributes("href"))
    for claim in made["claims"]:
        assert claim["id"] in ids
        assert f"#{claim['id']}" in addresses
        assert claim["says"] in page.said and claim["says_zh"] in page.said_in_chinese
    for word in (
        "✓ holds",
        "◐ holds when",
        "≈ approximates",
        "✗ refuted",
        "¶ context",
        "◌ not run",
        "~ inconclusive",
        "≠ contradicted",
        "! error",
        "! not run, though required",
    ):
        assert word in page.said, word


def test_every_link_within_the_page_leads_somewhere() -> None:
    page = Page(page_of(full_record()))
    ids = set(page.attributes("id"))
    missing = {each for each in page.attributes("href") if each.startswith("#") and each[1:] not in ids}
    assert missing == set()


def test_every_name_that_an_element_takes_from_another_is_there() -> None:
    page = Page(page_of(full_record()))
    ids = set(page.attributes("id"))
    assert {*page.attributes("aria-labelledby"), *page.attributes("for")} <= ids


def test_the_page_tells_what_stands_behind_a_claim() -> None:
    page = Page(page_of(record([{**CLAIM, "verdict": "approximates"}])))
    for told in (
        "Within it covers its storage once",
        "100 cases, 98 distinct",
        "40 inside and 60 outside the condition",
        "256 points",
        "largest error 0.39 %",
        "bound 1 %",
        "Smallest counterexample found size=(1,)",
        "not run yet needs a CUDA device",
        "def test_bytes():",
        "spec/test_01_number_formats.py:12",
        "python -m pytest --claim formats.bytes.numel-times-itemsize",
        "torch 2.13.0",
        "1 December 2026 · commit 0123456789ab",
        "12:00 UTC · default level, seed 0 · 6,400 cases in 14 s",
        "a processor · 2 cores torch 2.13.0 · Python 3.11.2 · numpy 2.4.6",
        "notices eager-copy; does not notice slow-copy",
        "with probability at most 1e-09 a run",
        "7 cases shown to fail, one of them layout=torch.zeros(3)[1:]",
        "Range and precision.",
    ):
        assert told in page.said, told
    for told in (
        "误差界 恰好覆盖存储一次",
        "互不相同的 98 个",
        "条件之内 40 个、之外 60 个",
        "最大误差 0.39 %",
        "找到的最小反例 size=(1,)",
        "尚未运行 需要 CUDA 设备",
        "def test_bytes():",
        "2026 年 12 月 1 日 · 提交 0123456789ab",
        "12:00 UTC · 默认级别，种子 0 · 6,400 个用例，用时 14 秒",
        "范围与精度。",
    ):
        assert told in page.said_in_chinese, told


def test_the_counts_are_those_of_the_records() -> None:
    page = Page(page_of(full_record()))
    assert "10 claims to check; 5 ran and agree with their verdict, 5 of them in part; 3 unexpected;" in page.said
    assert "3 unexpected; 1 inconclusive; 1 not run." in page.said
    assert "1 more is context and not checked. 6,400 cases ran." in page.said
    told = "10 条论断待查；5 条运行过且与结论相符，其中 5 条只运行了一部分；3 条意外；1 条无定论；1 条未运行。"
    assert told in page.said_in_chinese
    assert "Of the 5 that ran, 5 notice a mutant, a world made to break them;" in page.said
    assert "of the 2 that were tried 1 went unnoticed." in page.said
    assert "共试过 2 个变异体，未被察觉的有 1 个。" in page.said_in_chinese


def test_mutants_that_another_environment_tried_are_told_too_and_none_where_none_was() -> None:
    made = judged("a.b", *RAN)
    tried = {**made, "mutants": {"killed": ["eager-copy", "slow-copy"], "survived": []}}
    plain = {**made, "mutants": {"killed": [], "survived": []}}
    here, there = {"name": "here"}, {"name": "there", "at": "2027-01-01T00:00:00Z"}
    both = Page(page_of(record([tried], **here), record([plain], **there))).said
    assert "notices eager-copy, slow-copy" in both and "of the 2 that were tried none went unnoticed" in both
    older = judged("a.b", *RAN, sha="1" * 64) | {"mutants": tried["mutants"]}
    for of_today in ([record([plain], **there)], [record([older], **here), record([plain], **there)]):
        said = Page(page_of(*of_today)).said
        assert "eager-copy" not in said and "were tried" not in said


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (9999, Phrase("9,999", "9,999")),
        (10_000, Phrase("10,000", "1 万")),
        (431_999, Phrase("over 430,000", "43 万多")),
        (1_431_048, Phrase("over 1.4 million", "140 万多")),
        (2_000_000, Phrase("2 million", "200 万")),
        (987_654_321, Phrase("over 980 million", "9.8 亿多")),
    ],
    ids=str,
)
def test_a_large_count_is_rounded_down(count: int, shown: Phrase) -> None:
    assert wording.rounded_down(count) == shown


def test_no_share_of_claims_is_shown() -> None:
    top, _, _ = page_of(full_record()).decode().partition("<main>")
    assert "%" not in Page((top.split("<body>")[1].split('<div class="wrap">')[0]).encode()).said


def test_a_refuted_claim_has_a_card_only_where_the_run_agrees() -> None:
    refuted = {**CLAIM, "verdict": "refuted"}
    assert "What is said, and is not so" in Page(page_of(record([refuted]))).said
    wrong = {**refuted, "agrees": False}
    said = Page(page_of(record([wrong]))).said
    assert "What is said, and is not so" not in said
    assert "≠ contradicted expected: refuted" in said


def test_a_statement_without_variables_is_shown_by_its_count_or_as_it_is_written() -> None:
    head = '@refuted("a.b",\n         instead="c")\ndef test_a():\n    """It is so."""\n'
    source = f"{head}    x = 1\n    assert x[0]\n"
    statement = {**PROPERTY, "role": "statement", "source": source}
    counterexample: dict[str, Any] = {"pinned": {}, "found": None, "repro": "x = 1\n"}
    refuted = {**CLAIM, "verdict": "refuted", "properties": [statement], "counterexample": counterexample}
    label, shown = wording.smallest(record([{**refuted, "evidence": []}])["claims"][0])
    assert (label.en, shown) == ("As it is written", "x = 1\nassert x[0]")
    label, shown = wording.smallest(record([refuted])["claims"][0])
    assert (label.en, shown) == ("Counted", "128.5 B: bytes")
    assert wording.body("not Python") == wording.body("x = 1") == ""


def test_the_forms_of_a_parametrised_property_share_their_listing() -> None:
    forms = [{**PROPERTY, "node": f"{PROPERTY['node']}[{form}]"} for form in ("cpu", "cuda")]
    forms[1] |= {"state": "not-run", "agrees": None, "reason": "needs a CUDA device", "device": "cuda"}
    said = Page(page_of(record([{**CLAIM, "properties": forms}]))).said
    assert said.count("def test_bytes():") == 1
    assert "cpu agrees, sampled" in said and "cuda not run: needs a CUDA device" in said


def test_records_of_two_environments_stand_side_by_side() -> None:
    cpu = record([judged("formats.a", *RAN)], name="cpu-one")
    old = record(
        [judged("formats.a", *OUTCOMES[Standing.CONTRADICTED], "1" * 64)],
        name="cuda-two",
        at="2026-01-02T03:04:05Z",
    )
    said = Page(page_of(cpu, old)).said
    assert "≠ contradicted" in said
    assert "cuda-two contradicted, sampled; stale 2 January 2026, commit 0123456789ab" in said
    assert "cpu-one agrees, sampled 1 December 2026" in said
    assert "cpu-one 1 December 2026 · the newest day" in said
    assert "cuda-two 2 January 2026 · 333 days older" in said
    assert "formats.a ◐ holds when ≠ contradicted stale" in said


def test_figures_measured_on_a_gpu_stand_beside_those_of_a_newer_run_without_one() -> None:
    cpu = record([{**CLAIM, "evidence": [{**EVIDENCE, "exact": 1234}]}], name="cpu-new")
    cuda = [{**CLAIM, "evidence": [{**EVIDENCE, "exact": 5678}]}]
    old = record(cuda, name="cuda-old", device="cuda", at="2026-01-02T03:04:05Z")
    older = record(cuda, name="cuda-older", device="cuda", at="2025-01-02T03:04:05Z")
    page = Page(page_of(cpu, old, older))
    assert re.search("cpu-new Predicted against exact.*1,234.*cuda-old Predicted against exact.*5,678", page.said)
    assert page.said.count("5,678") == 1
    assert len(page.attributes("id")) == len(set(page.attributes("id")))


def test_each_environment_is_told_with_its_age_and_what_came_of_its_claims() -> None:
    old = full_record(name="older", at="2026-11-01T12:00:00Z", driver="550.1")
    old["claims"] = [{**each, "properties": [stale_form(one) for one in each["properties"]]} for each in old["claims"]]
    said = Page(page_of(full_record(), old)).said
    head = "Environment Run agree not run inconclusive unexpected stale"
    assert head in said
    tallies = said.partition(head)[2].partition("No GPU has run yet")[0]
    assert "12:00 UTC · default level, seed 0 · 6,400 cases in 14 s 5 1 1 3 0" in tallies
    assert "1 November 2026 30 days older commit 0123456789ab" in tallies
    assert "a processor · driver 550.1 · 2 cores" in tallies
    assert tallies.rstrip().endswith("5 1 1 3 10")


def stale_form(of: PropertyRecord) -> PropertyRecord:
    """A property as it was once written otherwise."""
    return {**of, "source_sha256": "f" * 64}


def test_a_claim_that_an_environment_does_not_know_says_so() -> None:
    one = record([judged("formats.a", *RAN), judged("formats.b", *RAN)], name="one")
    two = record([judged("formats.a", *RAN)], name="two")
    assert "formats.b ◐ holds when not in the record" in Page(page_of(one, two)).said


def test_without_a_gpu_the_page_says_how_many_claims_wait_for_one() -> None:
    assert "No GPU has run yet: 10 claims wait for one" in Page(page_of(full_record())).said
    assert "No GPU has run yet" not in Page(page_of(full_record(device="cuda"))).said
    assert "No GPU has run yet" not in Page(page_of(record([CONTEXT]))).said


def test_a_claim_can_be_found_by_what_is_known_of_it() -> None:
    old = record([judged("formats.b", *RAN, "1" * 64)], name="old", at="2026-01-02T03:04:05Z")
    new = record([judged("formats.b", *OUTCOMES[Standing.NOT_RUN]), CLAIM, CONTEXT], name="new")
    sections = {str(each["id"]): each for each in Page(page_of(old, new)).tagged("section") if "data-state" in each}
    facts = ("data-verdict", "data-state", "data-device", "data-environment", "data-chapter")
    assert [[each[fact] for fact in facts] for each in sections.values()] == [
        ["holds-when", "confirmed stale pending", "cpu waits", "old", "1"],
        ["holds-when", "confirmed pending", "cpu waits", "new", "1"],
        ["context", "context", "", "", "1"],
    ]


def test_a_cell_of_the_matrix_finds_as_many_claims_as_it_counts() -> None:
    made = page_of(full_record())
    claims = [each for each in Page(made).tagged("section") if "data-state" in each]
    cells = re.findall(r'data-find="([^"]+)">(\d+)<', made.decode())
    for query, count in cells:
        asked = [part.split("=") for part in query.split("&amp;")]
        found = [each for each in claims if all(value in str(each[f"data-{name}"]).split() for name, value in asked)]
        assert len(found) == int(count), query
    assert sum(int(count) for _, count in cells) == len(claims) == 11


def test_related_claims_are_those_named_and_those_on_the_topic() -> None:
    claims = [judged(id, *RAN) for id in ("formats.a.one", "formats.a.two", "formats.b.one")]
    claims[0]["related"] = ["formats.b.one", "formats.gone.away"]
    told = re.findall(r"Related ([a-z. ]+?) (?=[^a-z.])", Page(page_of(record(claims))).said + " .")
    assert told[0].split() == ["formats.b.one", "formats.a.two"]
    assert told[1].split() == ["formats.a.one"]
    assert "formats.gone.away" not in Page(page_of(record(claims))).said


def test_the_same_records_make_the_same_bytes() -> None:
    one, two = full_record(name="one"), full_record(name="two", at="2026-01-02T03:04:05Z")
    assert page_of(one, two) == page_of(two, one) == page_of(copy.deepcopy(one), two)


def test_the_page_needs_no_network_and_allows_none() -> None:
    page = Page(page_of(full_record()))
    assert not {tag for tag, _ in page.elements} & {"iframe", "img", "object", "embed", "audio", "video"}
    assert page.attributes("src") == page.attributes("style") == page.attributes("srcset") == []
    assert [each for each in page.attributes("href") if re.match("[a-z]+:|//", each)] == ["data:,"]
    assert "url(" not in page_of(full_record()).decode()
    policy = next(str(each["content"]) for each in page.tagged("meta") if "http-equiv" in each)
    assert policy.startswith("default-src 'none'") and "unsafe" not in policy and "http" not in policy


def test_the_policy_allows_the_pages_own_style_and_script_and_no_other() -> None:
    page = Page(page_of(full_record()))
    style, script = page.scripts
    policy = next(str(each["content"]) for each in page.tagged("meta") if "http-equiv" in each)
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, script)]
    assert re.findall("'sha256-([^']+)'", policy) == digests


def test_every_text_of_the_page_is_in_both_languages() -> None:
    page = Page(page_of(full_record(), full_record(name="another", at="2026-01-02T03:04:05Z")))
    texts = [text for text, english, chinese in page.text if chinese and not english and text.strip()]
    assert len(texts) > 300
    assert [text for text in texts if not CHINESE.search(text) and not re.fullmatch(r"[\s\d：；，。、.%]*", text)] == []
    english = [text for text, shown, chinese in page.text if shown and not chinese]
    assert [text for text in english if CHINESE.search(text)] == []


def test_a_reason_that_is_known_is_translated_and_another_quoted() -> None:
    assert reason("needs a CUDA device") == Phrase("needs a CUDA device", "需要 CUDA 设备")
    assert reason("needs Linux and needs a CUDA device: a pinned copy") == Phrase(
        "needs Linux and needs a CUDA device: a pinned copy", "需要 Linux，并需要 CUDA 设备：a pinned copy"
    )
    assert reason("the interval straddles 2.5") == Quoted("the interval straddles 2.5")


def test_phrases_are_joined_without_those_that_say_nothing() -> None:
    assert joined(" · ", [Phrase("a", "甲"), Phrase("", ""), "b"]) == Phrase("a · b", "甲 · b")


def test_the_schema_and_the_records_are_at_hand() -> None:
    page = Page(page_of(full_record()))
    assert " ".join(SCHEMA_FILE.read_text(encoding="utf-8").split()) in page.said
    assert "../results/cpu-linux-x86_64-py3.11-torch2.13.0.json" in page.attributes("href")
    assert json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))["title"] == "Assay record"


HOSTILE = '</code></details></script><script>alert("x")</script><img src=x onerror=alert(1)> & \'"\u202e\x00\ud800'


def hostile(value: Any, name: str = "") -> Any:
    """A record's value with markup in every sentence that may hold any text."""
    if isinstance(value, dict):
        return {key: hostile(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [hostile(inner, name) for inner in value]
    fixed = (
        "id",
        "related",
        "name",
        "section",
        "origin",
        "verdict",
        "state",
        "strength",
        "role",
        "device",
        "level",
        "at",
    )
    return value if not isinstance(value, str) or name in (*fixed, "source_sha256") else HOSTILE


def test_markup_in_a_record_is_shown_as_text() -> None:
    content = hostile(full_record())
    content["environment"].update(partial=True, partial_reason=HOSTILE)
    page = Page(page_of(validate(content), record([CLAIM], name="another")))
    clean = Page(page_of(full_record(partial=True, partial_reason="x"), record([CLAIM], name="another")))
    assert {tag for tag, _ in page.elements} <= {tag for tag, _ in clean.elements}
    assert len(page.scripts) == 2
    assert page.said.count('<script>alert("x")</script>') > 50
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    assert "\\u202e\\x00\\ud800" in page.said
    assert "\u202e" not in page.said


@given(text=st.text(st.characters(), max_size=20))
def test_every_text_can_be_shown(text: str) -> None:
    assert visible(text).encode("utf-8").isascii() or not text.isascii()
    assert not re.search("[\x00-\x08\x0e-\x1f\x7f-\x9f\u202a-\u202e]", visible(text))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (70553706496, "70,553,706,496"),
        (128.0, "128"),
        (0.5, "0.5"),
        (1e-9, "1e-09"),
        ("inf", "inf"),
        (10**400, None),
    ],
    ids=str,
)
def test_numbers_read_like_numbers(value: float | str, shown: str | None) -> None:
    assert wording.number(value) == shown or (shown is None and wording.number(value).startswith("10,000"))


def test_without_pygments_the_page_has_plain_listings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygments.lexers.python", None)
    page = page_of(full_record()).decode()
    assert "def test_bytes():\n    assert 1 &lt; 2" in page


def test_a_listing_marks_words_and_loses_no_character() -> None:
    page = page_of(full_record()).decode()
    assert '<span class="k">def </span><span class="d">test_bytes</span>():' in page


def test_a_link_leads_from_the_page_to_the_record() -> None:
    assert link(Path("build/results/a b.json"), Path("build/spec/index.html")) == "../results/a%20b.json"
