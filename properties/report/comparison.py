"""What changed between two records: a team's first question after a new release of torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from properties.report.languages import counted
from properties.report.merge import Standing, standing
from properties.report.observed import interval_of
from properties.report.record import ClaimRecord, EnvironmentRecord, EvidenceRecord, Record
from properties.report.verdict_table import cell
from properties.report.wording import case, day, number

MOST = 100
"""Changes of one kind that are listed; a workflow's summary ends at 1 MiB, and a reader sooner."""
WIDEST = 300
"""Characters of a cell of a table, before its signs are escaped."""
MEASURED = ("interval", "pairs", "band")
"""What a measured ratio says of itself beside its case."""
_Key = tuple[str, tuple[tuple[str, str | int | float], ...]]
BROKEN = (Standing.ERROR, Standing.CONTRADICTED, Standing.REQUIRED)


class Kind(Enum):
    """Kinds of changes, the gravest first; the value is their heading."""

    NO_LONGER = "No longer holds"
    AGREEMENT = "Came out otherwise"
    VERDICT = "Another verdict"
    APPEARED = "Appeared"
    GONE = "Gone"
    RATIO = "Measured ratios that are apart"
    NUMBER = "Numbers that are not the same for the same case"
    COUNT = "Cases"


@dataclass(frozen=True)
class Change:
    """One change of one claim, from old to new."""

    kind: Kind
    id: str
    old: str
    new: str


def changes(old: Record, new: Record) -> list[Change]:
    """Every change from one record to another: by kind, and within one in the newer record's order.

    A claim that agreed and is contradicted, in error, or required and not run, no longer holds; so does one that the
    specification has stopped calling ``holds``. One that merely did not run this time came out otherwise. Runs with two
    seeds draw other values, so of their numbers only counts are compared.
    """
    before = {claim["id"]: claim for claim in old["claims"]}
    after = {claim["id"]: claim for claim in new["claims"]}
    fixed = _any if old["environment"]["seed"] == new["environment"]["seed"] else _is_count
    found = [Change(Kind.GONE, id, told(before[id]), "") for id in before if id not in after]
    for id, claim in after.items():
        if id not in before:
            found.append(Change(Kind.APPEARED, id, "", told(claim)))
        else:
            found += _changes_of(before[id], claim, fixed)
    return sorted(found, key=lambda change: list(Kind).index(change.kind))


def _any(row: EvidenceRecord) -> bool:
    return True


def _is_count(row: EvidenceRecord) -> bool:
    return isinstance(row["exact"], int) or (isinstance(row["exact"], float) and row["exact"].is_integer())


def _changes_of(old: ClaimRecord, new: ClaimRecord, fixed: Callable[[EvidenceRecord], bool]) -> Iterable[Change]:
    was, now = standing(old), standing(new)
    id = new["id"]
    if was is Standing.RAN and (now in BROKEN or (old["verdict"] == "holds" and new["verdict"] != "holds")):
        yield Change(Kind.NO_LONGER, id, told(old), told(new))
    elif old["verdict"] != new["verdict"]:
        yield Change(Kind.VERDICT, id, told(old), told(new))
    elif was is not now:
        yield Change(Kind.AGREEMENT, id, told(old), told(new))
    if was is now is Standing.RAN:
        yield from _counts(old, new)
        yield from _numbers(old, new, fixed)


def told(claim: ClaimRecord) -> str:
    """The verdict, and what became of it: ``holds, agrees``."""
    now = standing(claim)
    if now is None:
        return claim["verdict"]
    word = "agrees" if now is Standing.RAN else now.name.lower().replace("_", " ")
    return f"{claim['verdict']}, {word}" + (f": {claim['reason']}" if claim["reason"] else "")


def _counts(old: ClaimRecord, new: ClaimRecord) -> Iterable[Change]:
    was, now = (
        (
            sum((each["cases"] or {"passed": 0})["passed"] for each in claim["properties"]),
            sum(each["points"] or 0 for each in claim["properties"]),
        )
        for claim in (old, new)
    )
    if was != now:
        yield Change(
            Kind.COUNT, new["id"], *(f"{cases:,} generated, {points:,} points" for cases, points in (was, now))
        )


def _numbers(old: ClaimRecord, new: ClaimRecord, fixed: Callable[[EvidenceRecord], bool]) -> Iterable[Change]:
    """Measured ratios that are apart; and of the same case another number, if ``fixed`` says that it has one."""
    before, after = _by_case(old["evidence"]), _by_case(new["evidence"])
    for key, row in after.items():
        was = before.get(key)
        if was is None:
            continue
        place = " ".join(part for part in (row["label"], case(dict(_key(row)[1]))) if part)
        one, other = interval_of(was), interval_of(row)
        if one is not None and other is not None:
            if one[1] < other[0] or other[1] < one[0]:
                yield Change(Kind.RATIO, new["id"], f"{place}: {_ratio(was)}", _ratio(row))
        elif one is other is None and row["where"] and fixed(row) and fixed(was) and row["exact"] != was["exact"]:
            yield Change(Kind.NUMBER, new["id"], f"{place}: {number(was['exact'])}", number(row["exact"]))


def _by_case(rows: Iterable[EvidenceRecord]) -> dict[_Key, EvidenceRecord]:
    """The row of each case; none for a case that has several numbers, for it is not told in full."""
    found: dict[_Key, list[EvidenceRecord]] = {}
    for row in rows:
        found.setdefault(_key(row), []).append(row)
    return {key: same[0] for key, same in found.items() if len({str(row["exact"]) for row in same}) == 1}


def _key(row: EvidenceRecord) -> _Key:
    return row["label"], tuple((name, value) for name, value in row["where"].items() if name not in MEASURED)


def _ratio(row: EvidenceRecord) -> str:
    return f"{number(row['exact'])} ({row['where']['interval']})"


def failed(found: Iterable[Change]) -> bool:
    """Whether a claim that held no longer does."""
    return any(change.kind is Kind.NO_LONGER for change in found)


# ── how it is told ──


def as_text(old: Record, new: Record, found: Sequence[Change]) -> str:
    """The changes for a terminal."""
    lines = [f"old: {_run(old['environment'])}", f"new: {_run(new['environment'])}", _total(found)]
    for kind, listed, more in _by_kind(found):
        lines += ["", kind.value]
        lines += [f"  {change.id}: {_arrow(change)}" for change in listed]
        lines += [f"  and {more} more"] if more else []
    return "\n".join(lines) + "\n"


def as_markdown(old: Record, new: Record, found: Sequence[Change]) -> str:
    """The changes for a workflow's summary; what a record says is shown as text and not as markup."""
    lines = [f"**{_total(found)}**", "", "| | environment |", "|---|---|"]
    lines += [f"| {name} | {_cell(_run(each['environment']))} |" for name, each in (("old", old), ("new", new))]
    for kind, listed, more in _by_kind(found):
        lines += ["", f"### {kind.value}", "", "| claim | old | new |", "|---|---|---|"]
        lines += [f"| `{change.id}` | {_cell(change.old)} | {_cell(change.new)} |" for change in listed]
        lines += ["", f"and {more} more"] if more else []
    return "\n".join(lines) + "\n"


def _by_kind(found: Sequence[Change]) -> Iterable[tuple[Kind, Sequence[Change], int]]:
    for kind in Kind:
        fitting = [change for change in found if change.kind is kind]
        if fitting:
            yield kind, fitting[:MOST], len(fitting) - len(fitting[:MOST])


def _total(found: Sequence[Change]) -> str:
    claims = len({change.id for change in found})
    lost = len({change.id for change in found if change.kind is Kind.NO_LONGER})
    if not claims:
        return "nothing changed"
    held = f"{lost} that held no longer {'does' if lost == 1 else 'do'}" if lost else "every claim that held still does"
    return f"{counted(claims, 'claim')} changed; {held}"


def _run(environment: EnvironmentRecord) -> str:
    partial = ", partial" if environment["partial"] else ""
    return f"{environment['name']}, torch {environment['torch']}, {day(environment['at']).en}{partial}"


def _arrow(change: Change) -> str:
    return " -> ".join(part for part in (change.old, change.new) if part)


def _cell(text: str) -> str:
    """A table's cell, cut to what a summary has room for."""
    line = " ".join(text.split())
    return cell(line if len(line) <= WIDEST else f"{line[:WIDEST]}...")
