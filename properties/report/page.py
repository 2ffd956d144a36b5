"""One view of the records as one HTML page that needs no network, no script and no other file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from properties.report import wording
from properties.report.merge import Merged, MergedClaim, Sighting, Standing
from properties.report.record import REQUIRED, ClaimRecord

if TYPE_CHECKING:
    from markupsafe import Markup

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Kind:
    """How a claim is marked: the matrix column it belongs to, an icon, a word, and the word of many."""

    column: str
    icon: str
    word: str
    many: str


VERDICTS = {
    "holds": Kind("holds", "✓", "holds", "hold"),
    "holds-when": Kind("holds-when", "◐", "holds when", "hold under a condition"),
    "approximates": Kind("approximates", "≈", "approximates", "approximate"),
    "refuted": Kind("refuted", "✗", "refuted", "refuted"),
    "context": Kind("context", "¶", "context", "context"),
}
STANDINGS = {
    Standing.NOT_RUN: Kind("not-run", "◌", "not run", "not run"),
    Standing.INCONCLUSIVE: Kind("inconclusive", "~", "inconclusive", "inconclusive"),
    Standing.REQUIRED: Kind("unexpected", "!", "not run, though required", "unexpected"),
    Standing.CONTRADICTED: Kind("unexpected", "≠", "contradicted", "unexpected"),
    Standing.ERROR: Kind("unexpected", "!", "error", "unexpected"),
}
UNEXPECTED = Kind("unexpected", "!", "unexpected", "unexpected")


def verdict_kind(claim: ClaimRecord) -> Kind:
    """The mark of the verdict that the specification gives a claim."""
    return VERDICTS[claim["verdict"]]


def kind_of(seen: MergedClaim | Sighting) -> Kind:
    """The mark of a claim: its verdict where a run agrees with it, else what became of it."""
    if seen.standing is None or seen.standing is Standing.RAN:
        return verdict_kind(seen.claim)
    return STANDINGS[seen.standing]


@dataclass(frozen=True)
class Column:
    """A column of the matrix, and how many claims it has in all."""

    name: str
    icon: str
    word: str
    many: str
    total: int

    def sentence(self, count: int) -> str:
        """The word that follows ``count``: ``holds`` after one, ``hold`` after more."""
        return self.word if count == 1 else self.many


@dataclass(frozen=True)
class Chapter:
    """A chapter of the document, with its claims in order."""

    section: str
    title: str
    title_zh: str
    claims: tuple[MergedClaim, ...]

    def of(self, column: Column) -> list[MergedClaim]:
        """The chapter's claims in one column of the matrix."""
        return [each for each in self.claims if kind_of(each).column == column.name]


def render(
    merged: Merged,
    *,
    titles: Mapping[str, tuple[str, str]],
    links: Mapping[str, str],
    notices: Sequence[str] = (),
) -> bytes:
    """The page, the same bytes for the same view.

    ``titles`` has each section's title in English and Chinese, ``links`` the address of each environment's
    record, and ``notices`` what a reader must know of the choice of records. Needs Jinja2.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    engine = Environment(
        autoescape=True,
        finalize=_visible,
        loader=FileSystemLoader(HERE),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    engine.globals.update(
        details_of=details_of,
        figures=figures,
        highlight=highlight,
        kind_of=kind_of,
        verdict_kind=verdict_kind,
        words=wording,
    )
    chapters = _chapters(merged, titles)
    columns = _columns(merged)
    page = engine.get_template("page.html.jinja").render(
        bar_label=", ".join(f"{each.total} {each.sentence(each.total)}" for each in columns if each.total),
        chapters=chapters,
        columns=columns,
        known={each.claim["id"] for each in merged.claims},
        links=links,
        merged=merged,
        notices=notices,
        refuted=[each for each in merged.claims if kind_of(each).column == "refuted"],
        style=Markup((HERE / "page.css").read_text(encoding="utf-8")),
        summary=summary(merged),
        unexpected=[each for each in merged.claims if kind_of(each).column == "unexpected"],
        waiting=_waiting(merged),
    )
    return page.encode("utf-8")


def link(record: Path, page: Path) -> str:
    """The address of a record as seen from the page, or a file address where no relative one leads there."""
    try:
        return quote(Path(os.path.relpath(record, page.parent)).as_posix())
    except ValueError:  # another drive
        return record.resolve().as_uri()


def summary(merged: Merged) -> str:
    """The counts in one sentence."""
    columns = {each.name: each.total for each in _columns(merged)}
    judged = len(merged.claims) - columns["context"]
    confirmed = judged - columns["not-run"] - columns["inconclusive"] - columns["unexpected"]
    stale = sum(each.stale for each in merged.claims)
    parts = [
        f"{wording.counted(judged, 'claim')} to check",
        f"{confirmed:,} ran and agree with their verdict",
        f"{columns['unexpected']:,} unexpected",
        f"{columns['inconclusive']:,} inconclusive",
        f"{columns['not-run']:,} not run",
    ]
    if stale:
        parts.append(f"{stale:,} known only from an older form of their properties")
    context = wording.counted(columns["context"], "more is context and", "more are context and")
    return f"{'; '.join(parts)}. {context} not checked."


def figures(merged: MergedClaim) -> str:
    """What stands behind a claim that ran, in a line: strength, cases, scopes, sides, the largest error."""
    claim = merged.shown.claim
    ran = [each for each in claim["properties"] if each["state"] == "ran"]
    if not ran:
        return ""
    cases = [each["cases"] for each in ran if each["cases"] is not None]
    passed = sum(each["passed"] for each in cases)
    inside, outside = sum(each["inside"] for each in cases), sum(each["outside"] for each in cases)
    points = sum(each["points"] or 0 for each in ran)
    parts = [wording.STRENGTHS[claim["strength"]] if claim["strength"] else ""]
    if passed:
        parts.append(
            f"{wording.counted(passed, 'case')}, {sum(each['distinct'] for each in cases):,} distinct,"
            f" in {wording.counted(len(ran), 'property', 'properties')}"
        )
    if points:
        parts.append(f"{wording.counted(points, 'point')} of finite scopes, all of them")
    if inside or outside:
        parts.append(f"{inside:,} inside and {outside:,} outside the condition")
    parts.append(wording.worst_error(claim["evidence"]))
    if claim["mutants"]["killed"]:
        parts.append(f"noticed {wording.counted(len(claim['mutants']['killed']), 'mutant')}")
    return " · ".join(each for each in parts if each)


def details_of(merged: MergedClaim) -> str:
    """What a claim's disclosure holds."""
    claim = merged.shown.claim
    parts = []
    if claim["properties"]:
        parts.append("property and cases" if len(claim["properties"]) == 1 else "properties and cases")
    if claim["evidence"]:
        parts.append("figures")
    if len(merged.sightings) > 1:
        parts.append("environments")
    return ", ".join(parts).capitalize()


def highlight(source: str) -> Markup:
    """Python source with its words marked, or plain where Pygments is missing."""
    from markupsafe import Markup, escape

    shown = wording.visible(source)
    try:
        from pygments import highlight as mark
        from pygments.formatters.html import HtmlFormatter
        from pygments.lexers.python import PythonLexer
    except ModuleNotFoundError:
        return escape(shown)
    return Markup(mark(shown, PythonLexer(), HtmlFormatter(nowrap=True)))


def _visible(value: object) -> object:
    """A template's value with misleading characters shown; markup has been through this already."""
    return wording.visible(value) if type(value) is str else value


def _columns(merged: Merged) -> list[Column]:
    kinds = [*VERDICTS.values(), STANDINGS[Standing.NOT_RUN], STANDINGS[Standing.INCONCLUSIVE], UNEXPECTED]
    marks = [kind_of(each).column for each in merged.claims]
    return [Column(kind.column, kind.icon, kind.word, kind.many, marks.count(kind.column)) for kind in kinds]


def _chapters(merged: Merged, titles: Mapping[str, tuple[str, str]]) -> list[Chapter]:
    sections: dict[str, list[MergedClaim]] = {}
    for each in merged.claims:
        sections.setdefault(each.claim["section"], []).append(each)
    return [
        Chapter(section, *titles.get(section, (f"Section {section}", "")), tuple(claims))
        for section, claims in sections.items()
    ]


def _waiting(merged: Merged) -> dict[str, list[tuple[MergedClaim, str]]]:
    """The claims that did not run, or not in full, by what they need; each with what of it waits.

    The need that most wait for comes first.
    """
    found: dict[str, list[tuple[MergedClaim, str]]] = {}
    for each in merged.claims:
        for reason in _reasons(each):
            need, _, what = reason.partition(": ")
            found.setdefault(need, []).append((each, what))
    return dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))


def _reasons(merged: MergedClaim) -> Iterable[str]:
    own = [merged.shown.claim["reason"]] if merged.standing in (Standing.NOT_RUN, Standing.REQUIRED) else []
    return dict.fromkeys(reason.removeprefix(REQUIRED) for reason in [*own, *merged.pending] if reason)
