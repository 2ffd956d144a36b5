"""What a run prints: its header, the table of verdicts, what is refuted, and what is unexpected."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import TYPE_CHECKING, Any, cast

from properties import record
from properties.environment import cores, device
from properties.report.merge import Standing, standing
from properties.report.record import ClaimRecord
from properties.results import DESELECTED

if TYPE_CHECKING:
    from properties.plugin import Run

COLUMNS = (
    ("holds", "green"),
    ("holds when", "yellow"),
    ("approximates", "blue"),
    ("refuted", "red"),
    ("context", "white"),
    ("not run", "white"),
    ("inconclusive", "yellow"),
    ("unexpected", "red"),
)


def header(run: Run) -> str:
    """Level, seed, torch, device and cores."""
    torch = metadata.version("torch")
    if run.is_controller:
        where = "the devices of its workers"
    else:
        kind, name = device()
        where = f"{kind} ({name})"
    return f"assay: level {run.level.title}, seed {run.seed}, torch {torch}, {where}, {cores()} cores"


def column(claim: Mapping[str, Any]) -> str:
    """The one column of the table that a claim is counted in."""
    match standing(cast(ClaimRecord, claim)):
        case None:
            return "context"
        case Standing.RAN:
            return str(claim["verdict"]).replace("-", " ")
        case Standing.NOT_RUN:
            return "not run"
        case Standing.INCONCLUSIVE:
            return "inconclusive"
        case _:
            return "unexpected"


def table(run: Run) -> list[list[str]]:
    """Rows of the table of verdicts: the chapter, then a count a column."""
    rows = []
    for chapter in (run.catalogue or {})["chapters"]:
        found = [column(claim) for claim in run.claims if claim["section"] == chapter["section"]]
        if found:
            counts = [str(found.count(name)) for name, _ in COLUMNS]
            rows.append([f"{chapter['section']:>2} {chapter['title']}", *counts])
    return rows


def write(run: Run, reporter: Any) -> None:
    """Print the summary of a run to pytest's terminal reporter."""
    if run.claims:
        reporter.section("verdicts", sep="=")
        _write_table(run, reporter)
        _write_totals(run, reporter)
        _write_reasons(run, reporter)
        _write_mutants(run, reporter)
        _write_refuted(run, reporter)
        _write_inconclusive(run, reporter)
        _write_unexpected(run, reporter)
    if run.written is not None:
        path = run.written
        shown = path.relative_to(run.root) if path.is_relative_to(run.root) else path
        partial = run.partial_reason(record.unfinished_count(run))
        note = f" (not a whole run: {partial})" if partial else ""
        reporter.write_line(f"record: {shown}{note}")
    if run.trouble is not None:
        reporter.write_line(run.trouble, red=True, bold=True)


def _write_table(run: Run, reporter: Any) -> None:
    rows = table(run)
    first = max(len(row[0]) for row in rows)
    reporter.ensure_newline()
    reporter.write(" " * first)
    for name, _ in COLUMNS:
        reporter.write(f"  {name}")
    reporter.write("\n")
    for row in rows:
        reporter.write(f"{row[0]:<{first}}")
        for (name, colour), count in zip(COLUMNS, row[1:], strict=True):
            markup = {colour: True} if count != "0" and colour != "white" else {}
            if name == "unexpected" and count != "0":
                markup["bold"] = True
            reporter.write(f"  {'-' if count == '0' else count:>{len(name)}}", **markup)
        reporter.write("\n")


def _write_totals(run: Run, reporter: Any) -> None:
    found = [column(claim) for claim in run.claims]
    ran = sum(claim["state"] == "ran" for claim in run.claims)
    cases = record.cases(run.claims)
    pending = sum(bool(claim["pending"]) and claim["state"] == "ran" for claim in run.claims)
    half = f", {pending} of them in part" if pending else ""
    seconds = time.time() - run.started
    states = [claim["state"] for claim in run.claims]
    rest = {"in error": states.count("error"), "inconclusive": states.count("inconclusive")}
    others = "".join(f", {count} {what}" for what, count in rest.items() if count)
    others += f", {found.count('context')} context"
    reporter.write_line(
        f"{len(found)} claims: {ran} ran{half}, {states.count('not-run')} not run{others};"
        f" {cases:,} cases in {seconds:.1f} s on {run.environment['name']}"
    )


def _write_mutants(run: Run, reporter: Any) -> None:
    if run.table is None:
        return
    from properties.mutants import mutant
    from properties.mutants.table import lines

    reporter.section("mutants", sep="-")
    assert run.catalogue is not None
    chapters = [
        (
            f"{chapter['section']:>2} {chapter['title']}",
            [claim["id"] for claim in run.claims if claim["section"] == chapter["section"]],
        )
        for chapter in run.catalogue["chapters"]
    ]
    for line in lines(run.table, chapters, mutant.load(), run.mutants == "all"):
        reporter.write_line(line)


def reasons(claims: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Why properties that were selected did not run, and how many each time."""
    absent = (each["reason"] for claim in claims for each in claim["properties"] if each["state"] == "not-run")
    return Counter(reason for reason in absent if reason != DESELECTED)


def _write_reasons(run: Run, reporter: Any) -> None:
    for reason, count in reasons(run.claims).most_common():
        reporter.write_line(f"not run: {count} {'property' if count == 1 else 'properties'}: {reason}")


def _write_refuted(run: Run, reporter: Any) -> None:
    refuted = [claim for claim in run.claims if column(claim) == "refuted"]
    if refuted:
        reporter.section("refuted: said, and not so", sep="-")
    for claim in refuted:
        reporter.write(claim["id"], red=True)
        reporter.write_line(f"  {claim['says']}  [{smallest(claim)}]")
        reporter.write_line(f"  instead: {claim['instead']}")


def smallest(claim: Mapping[str, Any]) -> str:
    """A refuted claim's smallest counterexample, in a few words."""
    counterexample = claim["counterexample"] or {}
    case = counterexample.get("found") or counterexample.get("pinned")
    if not case:
        return "as written"
    return ", ".join(f"{name}={value}" for name, value in case.items())


def inconclusive(claims: Iterable[Mapping[str, Any]]) -> list[tuple[str, Mapping[str, Any]]]:
    """Each property whose measurement was too noisy to say anything, with its claim's id."""
    found = [(claim["id"], each) for claim in claims for each in claim["properties"]]
    return [(id, each) for id, each in found if each["state"] == "inconclusive"]


def too_noisy(claims: Iterable[Mapping[str, Any]], device: str) -> bool:
    """Whether more than a tenth of the measurements on a CUDA device say nothing.

    A processor is shared with whatever else runs, and its measurements fail nothing by being noisy.
    """
    claims = list(claims)
    measured = sum(each["strength"] == "measured" for claim in claims for each in claim["properties"])
    unclear = len(inconclusive(claims))
    return device == "cuda" and 10 * unclear > measured + unclear


def _write_inconclusive(run: Run, reporter: Any) -> None:
    unclear = inconclusive(run.claims)
    if not unclear:
        return
    fails = too_noisy(run.claims, run.environment["device"])
    reporter.section("inconclusive: too noisy to say", sep="-")
    for id, each in unclear:
        reporter.write_line(f"{id}: {each['node'].split('::')[-1]}: {each['reason']}", yellow=True)
    if fails:
        reporter.write_line("more than a tenth of the measurements: run them where nothing else runs", red=True)


def _write_unexpected(run: Run, reporter: Any) -> None:
    unexpected = [claim for claim in run.claims if column(claim) == "unexpected"]
    if not unexpected:
        return
    reporter.section("unexpected", sep="-")
    for claim in unexpected:
        if claim["failure"]:
            reporter.write_line(claim["failure"])
        else:
            reporter.write_line(f"{claim['id']}: {claim['state']}; {claim['reason']}", red=True)
