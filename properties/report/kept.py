"""The records that are kept under ``spec/records/``, and what README tells of them.

A kept record is a run that was really made: of everything its device can run, at the default level, from a commit
without changes. README's blocks, between ``<!-- NAME: of spec/records -->`` and ``<!-- end -->``, are made of these
records and of nothing else.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from properties.record import UNFINISHED
from properties.report import verdict_table
from properties.report.languages import counted
from properties.report.merge import Merged, Sighting, merge
from properties.report.page import kind_of
from properties.report.record import ClaimRecord, PropertyRecord, Record, RecordError, content
from properties.report.verdict_table import cell
from properties.report.whole_file import write_whole
from properties.report.wording import day
from properties.results import DESELECTED
from properties.specification import Chapter

FOLDER = Path("spec", "records")
BLOCK = re.compile(r"(?P<head><!-- (?P<name>[a-z-]+): of spec/records -->\n).*?(?P<end><!-- end -->)", re.DOTALL)


def records_in(folder: Path) -> list[Path]:
    """The files of a folder that are records by their names, in order."""
    return sorted([*folder.glob("*.json"), *folder.glob("*.json.gz")])


# ── keeping one ──


def refusal(record: Record) -> str | None:
    """Why a record is not fit to be kept; None where it is."""
    environment = record["environment"]
    if environment["commit"] is None:
        return "nobody knows of which commit it is: run it in a checkout"
    if environment["dirty"]:
        return f"files differed from commit {environment['commit'][:12]}: commit them, and run it again"
    if environment["partial"] and not _asks_all_of_its_card(record):
        return f"{environment['partial_reason']}: make a whole run"
    return None


def _asks_all_of_its_card(record: Record) -> bool:
    """Whether a run on a card was at the default level, and left out nothing that needs one."""
    where = record["environment"]
    reasons = {each["reason"] for claim in record["claims"] for each in claim["properties"] if each["device"] == "cuda"}
    return where["device"] == "cuda" and where["level"] == "default" and not reasons & {DESELECTED, UNFINISHED}


def keep(found: Sequence[tuple[Path, Record]], folder: Path) -> Path:
    """Keep the newest record that is fit, in place of the one of the same environment; where it stands now.

    RecordError where none is fit, with the reason for the newest.
    """
    newest_first = sorted(found, key=lambda each: each[1]["environment"]["at"], reverse=True)
    for path, record in newest_first:
        if refusal(record) is None:
            kept = folder / f"{record['environment']['name']}.json.gz"
            write_whole(kept, gzip.compress(content(path), 9, mtime=0))
            return kept
    path, record = newest_first[0]
    raise RecordError(f"{path}: not kept, since {refusal(record)}")


# ── what README tells ──


def told(readme: str, records: Iterable[Record], chapters: Sequence[Chapter]) -> str:
    """README with its blocks made of these records; RecordError where one of them is absent, or one is unknown."""
    merged = merge(records)
    names = [block["name"] for block in BLOCK.finditer(readme)]
    if sorted(names) != sorted(BLOCKS):
        raise RecordError(
            f"README.md: it has the blocks {', '.join(names) or 'none'}; write {', '.join(BLOCKS)}, each once, as in"
            " <!-- cards: of spec/records --> and <!-- end -->"
        )
    return BLOCK.sub(
        lambda block: f"{block['head']}\n{BLOCKS[block['name']](merged, chapters)}\n{block['end']}", readme
    )


def verdicts(merged: Merged, chapters: Sequence[Chapter]) -> str:
    """The sentence of counts, and the claims by chapter and verdict."""
    return verdict_table.as_markdown(merged, chapters)


def refutations(merged: Merged, chapters: Sequence[Chapter]) -> str:
    """The first refuted claim of each chapter, and what is true instead."""
    first: dict[str, ClaimRecord] = {}
    for each in merged.claims:
        if kind_of(each).column == "refuted":
            first.setdefault(each.claim["section"], each.claim)
    said = [(cell(each["says"]), cell(each["instead"] or "")) for each in first.values()]
    return _table(("it is said", "instead"), said)


def environments(merged: Merged, chapters: Sequence[Chapter]) -> str:
    """Where, when and on what the kept runs were made."""
    return _table(
        ("environment", "device", "torch", "run on", "at commit", "claims that ran", "cases"),
        [
            (
                f"`{each['name']}`",
                f"{cell(each['device_name'])}, {counted(each['cores'], 'core')}",
                cell(each["torch"]),
                day(each["at"]).en,
                (each["commit"] or "")[:12],
                str(_ran(merged, each["name"])),
                f"{each['cases']:,} in {each['seconds']:.0f} s",
            )
            for each in merged.environments
        ],
    )


def cards(merged: Merged, chapters: Sequence[Chapter]) -> str:
    """Which of the properties that need a GPU have run on which cards so far."""
    seen = [each for each in merged.environments if each["device"] == "cuda"]
    if not seen:
        waiting = len({each["node"] for claim in merged.claims for each in _of_card(claim.sightings)})
        return (
            f"None of the {waiting} properties that need a GPU has run on one so far. Until a record of such a run is"
            " kept, they have only been\ntried through their CPU twins and against a card that is simulated, and every"
            " verdict that waits for one says so.\n"
        )
    rows = []
    for each in seen:
        asked = [one for claim in merged.claims for one in _of_card(_only(claim.seen_in(each["name"])))]
        ran = [one for one in asked if one["state"] == "ran"]
        rows.append(
            (
                cell(each["device_name"]),
                cell(each.get("driver") or "unknown"),
                cell(each["torch"]),
                day(each["at"]).en,
                (each["commit"] or "")[:12],
                f"{len(ran)} of {len(asked)}",
                str(sum(one["agrees"] is False or one["state"] == "error" for one in asked)),
            )
        )
    return _table(("card", "driver", "torch", "run on", "at commit", "properties that ran", "unexpected"), rows)


def _ran(merged: Merged, environment: str) -> int:
    """How many claims ran in an environment."""
    return sum(one.claim["state"] == "ran" for claim in merged.claims for one in _only(claim.seen_in(environment)))


def _only(sighting: Sighting | None) -> tuple[Sighting, ...]:
    return () if sighting is None else (sighting,)


def _of_card(sightings: Iterable[Sighting]) -> list[PropertyRecord]:
    """The properties, or forms of them, that need a GPU."""
    return [each for seen in sightings for each in seen.claim["properties"] if each["device"] == "cuda"]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


BLOCKS: Mapping[str, Callable[[Merged, Sequence[Chapter]], str]] = {
    "verdicts": verdicts,
    "refutations": refutations,
    "environments": environments,
    "cards": cards,
}
