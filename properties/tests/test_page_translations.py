"""The Chinese of the inventory stands for the English as it is, and a change of the English is noticed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from properties.claims import MisuseError
from properties.report import translations as command
from properties.report.translations import Translation, chosen, digest, stamped, translations
from properties.specification import Chapter, Entry, Inventory, read, read_inventory
from properties.tests.test_inventory import specification

ROOT = Path(__file__).parents[2]
RENEW = "read the Chinese again, then run python -m properties.report.translations --renew ID"
INVENTORY = """\
# What this file is.

[[chapter]]
section = "1"
title = "Numbers"
title_zh = "数"
marker = "numbers"

# ── 1. Numbers ──

[[claim]]
id = "numbers.one"
section = "1"
origin = "document"
says_zh = "一。"
says_sha = "00000000"

[[claim]]
id = "numbers.two"
section = "1"
origin = "document"
says_zh = "二。"
instead_zh = "其实是三。"

# The end."""


def test_every_text_stands_for_the_english_as_it_is() -> None:
    stale = [each for each in translations(read_inventory(ROOT), specification()) if each.stale]
    assert stale == [], f"{RENEW}: " + "; ".join(map(str, stale))


def test_every_chapter_has_an_introduction_in_both_languages() -> None:
    chapters = read_inventory(ROOT).chapters
    assert [each.section for each in chapters if not (each.intro and each.intro_zh)] == []
    for chapter in chapters:
        assert chapter.intro is not None and chapter.intro_zh is not None
        assert 80 < len(chapter.intro) < 400 and chapter.intro.endswith(".")
        assert len(re.findall("[\u4e00-\u9fff]", chapter.intro_zh)) > 40 and chapter.intro_zh.endswith("。")
        assert not re.search("[\u4e00-\u9fff][,;:!?()]|[,;:!?][\u4e00-\u9fff]", chapter.intro_zh)


def test_a_text_that_changed_has_another_digest() -> None:
    assert digest("a", "b") == digest("a", "b")
    assert len({digest("a", "b"), digest("a", None), digest("a", "c"), digest("ab", None), digest("a", "")}) == 4
    assert re.fullmatch("[0-9a-f]{8}", digest("a"))


def test_a_changed_statement_and_a_changed_chapter_are_stale() -> None:
    chapter = Chapter("1", "Numbers", "数", "numbers", "Of numbers.", "说数。", digest("Numbers", "Of numbers."))
    changed = Chapter("2", "Sums", "和", "sums", "Of sums.", "说和。", digest("Sums", "Of other sums."))
    inventory = Inventory((chapter, changed), (Entry("tensors.unknown", "1", "document", "无。"),))
    found = translations(inventory, specification())
    assert [(each.name, each.stale) for each in found] == [("chapter.1", False), ("chapter.2", True)]
    assert str(found[1]) == "chapter.2: the English has changed since"


def test_a_digest_goes_into_its_table_and_nothing_else_changes() -> None:
    done = stamped(INVENTORY, {"chapter.1": "11111111", "numbers.one": "22222222", "numbers.two": "33333333"})
    raw = tomllib.loads(done)
    assert [each["says_sha"] for each in (*raw["chapter"], *raw["claim"])] == ["11111111", "22222222", "33333333"]
    assert re.sub(r"says_sha = .*\n", "", done) == re.sub(r"says_sha = .*\n", "", INVENTORY)
    assert done.count("says_sha") == 3
    assert stamped(done, {"numbers.two": "33333333"}) == done


def test_a_digest_for_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="numbers.three"):
        stamped(INVENTORY, {"numbers.three": "33333333"})


def test_texts_are_chosen_by_name_by_beginning_or_for_want_of_a_digest() -> None:
    known = [Translation("a.b.c", "1", None), Translation("a.b.d", "1", "0"), Translation("a.bc", "1", "1")]
    assert [each.name for each in chosen(known, ["a.b"])] == ["a.b.c", "a.b.d"]
    assert [each.name for each in chosen(known, ["a.bc", "a.b.c"])] == ["a.bc", "a.b.c"]
    assert [each.name for each in chosen(known, [])] == ["a.b.c"]
    with pytest.raises(MisuseError, match="a.x: the inventory has no such id"):
        chosen(known, ["a.x"])


def test_the_command_lists_what_is_stale_and_renews_what_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "spec").mkdir()
    (tmp_path / "spec" / "inventory.toml").write_text(INVENTORY, encoding="utf-8")
    monkeypatch.setattr(command, "ROOT", tmp_path)
    monkeypatch.setattr(command, "read", lambda root, inventory: read(tmp_path, Inventory()))
    assert command.main([]) == 1
    assert capsys.readouterr().out == "chapter.1: has no digest yet\n"
    assert command.main(["--renew"]) == 0
    assert command.main([]) == 0
    assert capsys.readouterr().out.endswith("all 1 texts stand for the English as it is\n")
    assert command.main(["--renew", "numbers.nine"]) == 4
    assert capsys.readouterr().err.count("\n") == 1
