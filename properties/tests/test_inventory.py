"""The inventory lists what the code states, in the document's order, and says all of it in Chinese too."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest

from properties.report.record import SCHEMA_FILE
from properties.specification import Entry, Specification, read, read_inventory

ROOT = Path(__file__).parents[2]
INVENTORY = read_inventory(ROOT)
CHINESE = "[\u4e00-\u9fff]"

entries = pytest.mark.parametrize("entry", INVENTORY.entries, ids=INVENTORY.ids)


@cache
def specification() -> Specification:
    return read(ROOT, INVENTORY)


def translations(entry: Entry) -> list[str]:
    return [text for text in (entry.says_zh, entry.instead_zh) if text is not None]


def test_the_inventory_lists_what_the_code_states_and_nothing_else() -> None:
    assert sorted(specification().claims) == sorted(INVENTORY.ids)


def test_the_claims_stand_in_the_order_of_the_chapters() -> None:
    chapters = [chapter.section for chapter in INVENTORY.chapters]
    assert chapters == sorted(set(chapters), key=int)
    places = [chapters.index(entry.section) for entry in INVENTORY.entries]
    assert places == sorted(places)
    assert set(places) == set(range(len(chapters)))


def test_every_chapter_has_its_own_marker_and_both_titles() -> None:
    markers = [chapter.marker for chapter in INVENTORY.chapters]
    assert len(set(markers)) == len(markers)
    for chapter in INVENTORY.chapters:
        assert chapter.marker.isidentifier()
        assert chapter.title and re.search(CHINESE, chapter.title_zh)


@entries
def test_an_entry_is_one_that_a_record_can_hold(entry: Entry) -> None:
    schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    assert re.fullmatch(schema["$defs"]["claim_id"]["pattern"], entry.id)
    assert entry.origin in schema["$defs"]["claim"]["properties"]["origin"]["enum"]


@entries
def test_a_translation_is_written_in_chinese(entry: Entry) -> None:
    for text in translations(entry):
        assert len(re.findall(CHINESE, text)) >= 4, text
        assert text.endswith(("。", "。）")), text
        assert not re.search(f"{CHINESE}[,;:!?()]|[,;:!?]{CHINESE}", text), text
        assert text == text.strip() and "\n" not in text


def test_what_qualifies_a_claim_is_translated_and_nothing_else() -> None:
    translated = {entry.id for entry in INVENTORY.entries if entry.instead_zh is not None}
    assert {claim.id for claim in specification().claims.values() if claim.instead is not None} == translated
