"""One view of the records as one HTML page that needs no network and no other file, and no script to be read."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from properties.report import defined, formulas, observed, wording
from properties.report.highlighting import highlight
from properties.report.languages import CHINESE, Phrase, Quoted, counted, joined, many, reason, same
from properties.report.merge import Merged, MergedClaim, Sighting, Standing
from properties.report.pictures import Picture
from properties.report.record import REQUIRED, SCHEMA_FILE, ClaimRecord, EvidenceRecord
from properties.report.visible import visible
from properties.specification import Chapter as Listed

if TYPE_CHECKING:
    from jinja2 import Template

HERE = Path(__file__).parent
RELATED = 8
"""Related claims that are listed at most."""


@dataclass(frozen=True)
class Kind:
    """How a claim is marked: the matrix column it belongs to, an icon, a word, and the word of many."""

    column: str
    icon: str
    word: Phrase
    many: Phrase


VERDICTS = {
    "holds": Kind("holds", "✓", Phrase("holds", "成立"), Phrase("hold", "成立")),
    "holds-when": Kind(
        "holds-when", "◐", Phrase("holds when", "有条件成立"), Phrase("hold under a condition", "有条件成立")
    ),
    "approximates": Kind("approximates", "≈", Phrase("approximates", "近似成立"), Phrase("approximate", "近似成立")),
    "refuted": Kind("refuted", "✗", Phrase("refuted", "不成立"), Phrase("refuted", "不成立")),
    "context": Kind("context", "¶", Phrase("context", "背景"), Phrase("context", "背景")),
}
STANDINGS = {
    Standing.NOT_RUN: Kind("not-run", "◌", Phrase("not run", "未运行"), Phrase("not run", "未运行")),
    Standing.INCONCLUSIVE: Kind(
        "inconclusive", "~", Phrase("inconclusive", "无定论"), Phrase("inconclusive", "无定论")
    ),
    Standing.REQUIRED: Kind(
        "unexpected", "!", Phrase("not run, though required", "要求运行却未运行"), Phrase("unexpected", "意外")
    ),
    Standing.CONTRADICTED: Kind("unexpected", "≠", Phrase("contradicted", "与预期相反"), Phrase("unexpected", "意外")),
    Standing.ERROR: Kind("unexpected", "!", Phrase("error", "出错"), Phrase("unexpected", "意外")),
}
UNEXPECTED = Kind("unexpected", "!", Phrase("unexpected", "意外"), Phrase("unexpected", "意外"))
UNTITLED = ("Section", "章节")


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
    word: Phrase
    many: Phrase
    total: int

    @property
    def query(self) -> str:
        """What to look for to see the claims of this column, as the page's address has it."""
        if self.name == "context":
            return "verdict=context"
        return f"verdict={self.name}&state=confirmed" if self.name in VERDICTS else f"state={self.name}"

    def sentence(self, count: int) -> Phrase:
        """The word that follows ``count``: ``holds`` after one, ``hold`` after more."""
        return self.word if count == 1 else self.many


@dataclass(frozen=True)
class Chapter:
    """A chapter of the document, with its claims in order."""

    section: str
    title: Phrase
    intro: Phrase
    claims: tuple[MergedClaim, ...]

    def of(self, column: Column) -> list[MergedClaim]:
        """The chapter's claims in one column of the matrix."""
        return [each for each in self.claims if kind_of(each).column == column.name]


def render(
    merged: Merged,
    *,
    chapters: Sequence[Listed],
    links: Mapping[str, str],
    notices: Sequence[Phrase] = (),
) -> bytes:
    """The page, the same bytes for the same view.

    ``chapters`` are those of the inventory, with their titles and introductions, ``links`` the address of each
    environment's record, and ``notices`` what a reader must know of the choice of records. Needs Jinja2.
    """
    from markupsafe import Markup

    style, script = (_minified((HERE / name).read_text(encoding="utf-8")) for name in ("page.css", "page.js"))
    shown = by_chapter(merged, chapters)
    columns = columns_of(merged)
    page = _template().render(
        chapters=shown,
        columns=columns,
        idle=idle(merged),
        links=links,
        merged=merged,
        newest=max((each["at"] for each in merged.environments), default=""),
        notices=notices,
        policy=f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}; img-src data:;"
        " base-uri 'none'; form-action 'none'",
        refuted=[each for each in merged.claims if kind_of(each).column == "refuted"],
        related=_related(merged),
        schema=SCHEMA_FILE.read_text(encoding="utf-8"),
        script=Markup(script),
        style=Markup(style),
        summary=summary(merged),
        unexpected=[each for each in merged.claims if kind_of(each).column == "unexpected"],
        waiting=_waiting(merged),
    )
    return page.encode("utf-8")


@cache
def _template() -> Template:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    engine = Environment(
        autoescape=True,
        finalize=_visible,
        loader=FileSystemLoader(HERE),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    engine.globals.update(
        chinese=CHINESE,
        facets=facets,
        figures=figures,
        figures_shown=figures_shown,
        formulas_of=formulas.formulas_of,
        highlight=highlight,
        kind_of=kind_of,
        phrase=Phrase,
        printed=formulas.printed,
        quoted=Quoted,
        reason=reason,
        says=says,
        tally_of=tally_of,
        verdict_kind=verdict_kind,
        words=wording,
    )
    return engine.get_template("page.html.jinja")


def link(record: Path, page: Path) -> str:
    """The address of a record as seen from the page, or a file address where no relative one leads there."""
    try:
        return quote(Path(os.path.relpath(record, page.parent)).as_posix())
    except ValueError:  # another drive
        return record.resolve().as_uri()


# ── what the page says of all ──


def summary(merged: Merged) -> Phrase:
    """The counts in one sentence; cases are rounded down."""
    columns = {each.name: each.total for each in columns_of(merged)}
    judged = len(merged.claims) - columns["context"]
    confirmed = judged - columns["not-run"] - columns["inconclusive"] - columns["unexpected"]
    partly = sum(bool(each.pending) and each.standing is Standing.RAN for each in merged.claims)
    stale = sum(each.stale for each in merged.claims)
    cases = wording.rounded_down(sum(each["cases"] for each in merged.environments))
    parts = [
        many(judged, "claim", "条论断待查") + Phrase(" to check", ""),
        Phrase(f"{confirmed:,} ran and agree with their verdict", f"{confirmed:,} 条运行过且与结论相符")
        + (Phrase(f", {partly:,} of them in part", f"，其中 {partly:,} 条只运行了一部分") if partly else ""),
        Phrase(f"{columns['unexpected']:,} unexpected", f"{columns['unexpected']:,} 条意外"),
        Phrase(f"{columns['inconclusive']:,} inconclusive", f"{columns['inconclusive']:,} 条无定论"),
        Phrase(f"{columns['not-run']:,} not run", f"{columns['not-run']:,} 条未运行"),
    ]
    if stale:
        parts.append(
            Phrase(f"{stale:,} known only from an older form of their properties", f"{stale:,} 条只由性质的旧版本得知")
        )
    context = counted(columns["context"], "more is context and", "more are context and")
    told = Phrase("; ".join(each.en for each in parts), "；".join(each.zh for each in parts))
    return (
        told
        + Phrase(f". {context} not checked. ", f"。另有 {columns['context']:,} 条是背景，不作检查。共运行 ")
        + Phrase(f"{cases.en[:1].upper()}{cases.en[1:]} cases ran.", f"{cases.zh}个用例。")
        + noticed(merged)
    )


def noticed(merged: Merged) -> Phrase:
    """How many claims notice a mutant, and how many mutants none does; empty where none was tried."""
    ran = [each.mutants for each in merged.claims if each.standing is Standing.RAN]
    killed = {name for each in ran for name in each["killed"]}
    tried = killed | {name for each in ran for name in each["survived"]}
    if not tried:
        return same("")
    claims, lives = sum(bool(each["killed"]) for each in ran), len(tried - killed)
    return Phrase(
        f" Of the {len(ran):,} that ran, {claims:,} notice a mutant, a world made to break them;"
        f" of the {len(tried):,} that were tried {f'{lives:,}' if lives else 'none'} went unnoticed.",
        f"运行过的 {len(ran):,} 条中有 {claims:,} 条能察觉变异体，即专为推翻论断而造的世界；"
        f"共试过 {len(tried):,} 个变异体，未被察觉的有 {lives:,} 个。",
    )


def idle(merged: Merged) -> Phrase:
    """That no GPU has run, and how many claims wait for one; empty where one has, or none waits."""
    if any(each["device"] == "cuda" for each in merged.environments):
        return same("")
    claims = {each.claim["id"] for need, parts in _waiting(merged).items() if "CUDA" in need for each, _ in parts}
    if not claims:
        return same("")
    wait = "1 claim waits" if len(claims) == 1 else f"{len(claims):,} claims wait"
    return Phrase(
        f"No GPU has run yet: {wait} for one, in whole or in part.",
        f"还没有 GPU 运行过：有 {len(claims):,} 条论断的全部或一部分在等。",
    )


@dataclass(frozen=True)
class Tally:
    """How many claims stand where in one environment; a stale one is counted where it stands, too."""

    agree: int
    not_run: int
    inconclusive: int
    unexpected: int
    stale: int


def tally_of(merged: Merged, environment: str) -> Tally:
    """The claims of one environment's record, by what became of them."""
    sightings = [each.seen_in(environment) for each in merged.claims]
    seen = [each for each in sightings if each is not None and each.standing is not None]
    columns = [kind_of(each).column for each in seen]
    return Tally(
        agree=sum(name in VERDICTS for name in columns),
        not_run=columns.count("not-run"),
        inconclusive=columns.count("inconclusive"),
        unexpected=columns.count("unexpected"),
        stale=sum(each.stale for each in seen),
    )


def columns_of(merged: Merged) -> list[Column]:
    """The columns of the matrix, with their totals."""
    kinds = [*VERDICTS.values(), STANDINGS[Standing.NOT_RUN], STANDINGS[Standing.INCONCLUSIVE], UNEXPECTED]
    marks = [kind_of(each).column for each in merged.claims]
    return [Column(kind.column, kind.icon, kind.word, kind.many, marks.count(kind.column)) for kind in kinds]


def by_chapter(merged: Merged, listed: Sequence[Listed]) -> list[Chapter]:
    """The claims by chapter, in the document's order, with what the inventory says of each chapter."""
    sections: dict[str, list[MergedClaim]] = {}
    for each in merged.claims:
        sections.setdefault(each.claim["section"], []).append(each)
    known = {each.section: each for each in listed}
    return [
        Chapter(section, *_titled(section, known.get(section)), tuple(claims)) for section, claims in sections.items()
    ]


def _titled(section: str, listed: Listed | None) -> tuple[Phrase, Phrase]:
    if listed is None:
        return Phrase(f"{UNTITLED[0]} {section}", f"{UNTITLED[1]} {section}"), same("")
    intro = Phrase(listed.intro, listed.intro_zh or listed.intro) if listed.intro else same("")
    return Phrase(listed.title, listed.title_zh), intro


def _waiting(merged: Merged) -> dict[str, list[tuple[MergedClaim, str]]]:
    """The claims that did not run, or not in full, by what they need; each with what of it waits.

    The need that most wait for comes first.
    """
    found: dict[str, list[tuple[MergedClaim, str]]] = {}
    for each in merged.claims:
        for why in _reasons(each):
            need, _, what = why.partition(": ")
            found.setdefault(need, []).append((each, what))
    return dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))


def _reasons(merged: MergedClaim) -> Iterable[str]:
    own = [merged.shown.claim["reason"]] if merged.standing in (Standing.NOT_RUN, Standing.REQUIRED) else []
    return dict.fromkeys(why.removeprefix(REQUIRED) for why in [*own, *merged.pending] if why)


def _related(merged: Merged) -> dict[str, list[str]]:
    """For each claim those that it names, then others on its topic, all of them on the page."""
    ids = [each.claim["id"] for each in merged.claims]
    topics: dict[str, list[str]] = {}
    for id in ids:
        topics.setdefault(_topic(id), []).append(id)
    known = set(ids)
    return {
        each.claim["id"]: [
            id
            for id in dict.fromkeys([*each.claim["related"], *topics[_topic(each.claim["id"])]])
            if id in known and id != each.claim["id"]
        ][:RELATED]
        for each in merged.claims
    }


def _topic(id: str) -> str:
    return ".".join(id.split(".")[:2])


# ── what the page says of one claim ──


def says(claim: ClaimRecord) -> Phrase:
    """The statement in both languages."""
    return Phrase(claim["says"], claim["says_zh"])


def figures(merged: MergedClaim) -> Phrase:
    """What stands behind a claim that ran, in a line: strength, cases, scopes, sides, the largest error."""
    claim = merged.shown.claim
    ran = [each for each in claim["properties"] if each["state"] == "ran"]
    if not ran:
        return same("")
    cases = [each["cases"] for each in ran if each["cases"] is not None]
    passed = sum(each["passed"] for each in cases)
    points = sum(each["points"] or 0 for each in ran)
    parts = [wording.STRENGTHS[claim["strength"]] if claim["strength"] else same("")]
    if passed:
        distinct = sum(each["distinct"] for each in cases)
        parts.append(
            Phrase(
                f"{counted(passed, 'case')}, {distinct:,} distinct, in {counted(len(ran), 'property', 'properties')}",
                f"{len(ran)} 个性质共 {passed:,} 个用例，互不相同的 {distinct:,} 个",
            )
        )
    if points:
        parts.append(wording.points(points) + Phrase(" of finite scopes, all of them", "，有限范围内的每一个"))
    parts.append(wording.sides(sum(each["inside"] for each in cases), sum(each["outside"] for each in cases)))
    parts.append(wording.worst_error(claim["evidence"]))
    killed = len(merged.mutants["killed"])
    if killed:
        parts.append(Phrase(f"notices {counted(killed, 'mutant')}", f"能察觉 {killed:,} 个变异体"))
    return joined(" · ", parts)


@dataclass(frozen=True)
class Shown:
    """One environment's evidence of a claim, or what is so by definition and needs none."""

    environment: str
    pictures: tuple[Picture, ...]
    evidence: tuple[EvidenceRecord, ...] = ()


def figures_shown(merged: MergedClaim) -> list[Shown]:
    """What there is to look at: a claim's picture by definition, then the evidence of one environment a device.

    The environment that the claim is told by comes first; of another device it is the newest whose properties are those
    of today.
    """
    drawn = defined.PICTURES.get(merged.claim["id"])
    found = [] if drawn is None else [Shown("", (drawn(),))]
    newest = sorted(merged.sightings, key=lambda each: each.environment["at"], reverse=True)
    devices: set[str] = set()
    for seen in [merged.shown, *(each for each in newest if not each.stale)]:
        evidence, device = seen.claim["evidence"], seen.environment["device"]
        if evidence and device not in devices:
            devices.add(device)
            found.append(Shown(seen.environment["name"], tuple(observed.pictures_of(evidence)), tuple(evidence)))
    return found


def facets(merged: MergedClaim) -> dict[str, str]:
    """What the page's script can filter a claim by, each as words with spaces between them.

    The verdict is what the specification expects; ``confirmed`` among the states says that a run agrees.
    """
    column = kind_of(merged).column
    states = ["confirmed" if column in VERDICTS and column != "context" else column]
    states += ["stale"] if any(each.stale for each in merged.sightings) else []
    states += ["pending"] if merged.pending and column != "not-run" else []
    ran = [each for each in merged.sightings if each.claim["state"] not in (None, "not-run")]
    devices = {each["device"] for seen in ran for each in seen.claim["properties"] if each["state"] == "ran"}
    waits = any("CUDA" in why for why in _reasons(merged))
    return {
        "verdict": merged.claim["verdict"],
        "state": " ".join(states),
        "device": " ".join([*sorted(devices), *(["waits"] if waits else [])]),
        "environment": " ".join(each.environment["name"] for each in ran),
        "chapter": merged.claim["section"],
    }


def _visible(value: object) -> object:
    """A template's value with misleading characters shown; markup has been through this already."""
    return visible(value) if type(value) is str else value


def _minified(source: str) -> str:
    """A style or a script without the spaces that lines begin with, and without empty lines."""
    return "\n".join(line.strip() for line in source.splitlines() if line.strip())


def _digest(text: str) -> str:
    """The source expression of a content policy that allows just this text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode()}'"
