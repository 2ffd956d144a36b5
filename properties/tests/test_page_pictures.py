"""Pictures show the numbers that they are drawn from, always alike, and are left out where there is nothing to draw."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import cast
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from properties.report import defined, observed
from properties.report.drawing import LEFT, WIDTH, Drawing, Linear, Logarithmic, fitted
from properties.report.languages import Phrase
from properties.report.pictures import Picture, labels_apart
from properties.report.record import EvidenceRecord
from properties.report.visible import visible
from properties.specification import read_inventory
from properties.tests.sample_records import CLAIM, EVIDENCE, record
from properties.tests.shown_page import Page, page_of
from reference.floats import FLOAT16

ROOT = Path(__file__).parents[2]


def row(label: str, rule: float | str, exact: float | str, unit: str = "", **where: str | float) -> EvidenceRecord:
    """One number beside the exact one."""
    made = {**EVIDENCE, "label": label, "rule": rule, "exact": exact, "unit": unit, "where": where}
    return cast(EvidenceRecord, made)


def ratio(interval: str, band: str, label: str = "large over small") -> EvidenceRecord:
    """A measured ratio as the record has it."""
    return row(label, 1, 1.05, case="T()", interval=interval, pairs=33, band=band)


BY_DEPTH = [row("backward over forward, by depth", 2, 2 - 1 / n, layers=n) for n in (1, 2, 4, 8)]
EXCESS = [
    row("forward, over the rule", 1, 1 + n / 6 / width, decoder=f"of {width}", context=n)
    for n in (10, 100, 1000)
    for width in (64, 128)
]
WIDTHS = [
    row(f"std against width, {name}", math.sqrt(n), math.sqrt(n), width=n)
    for n in (8, 64, 512)
    for name in ("float32", "float16")
]
DEPTHS = [row("scale against depth, float32", 8.0**n, 8.0**n, layer=n) for n in range(8)]
OVERFLOWN = [row("scale against depth, float16", 8.0**n, 8.0**n if n < 6 else "inf", layer=n) for n in range(8)]
PHASES = [
    row("memory by phase", taken, taken, "B", phase=phase, kind=kind)
    for phase, held in {"forward": (400, 900), "step": (400, 0)}.items()
    for kind, taken in zip(("parameters", "saved"), held, strict=True)
]
RATIOS = [ratio("0.9 to 1.2", "0.5 to 2"), ratio("1.9 to 2.2", "2 and more", "view over copy")]
SHARES = [row(name, seen, 12, "FLOP") for name, seen in (("mv", 0), ("dot", 0), ("grouped", 18))]
PAGES = [row("resident", n, 16 * n, "pages", touched=n) for n in (1, 2, 5, 9)]
AGAINST = [row("bytes", 2**n, 2**n + n, "B") for n in range(6)]
FORMS = {
    "Backward over forward, against depth": BY_DEPTH,
    "Excess over the rule, against context": EXCESS,
    "Output scale, against width": WIDTHS,
    "Output scale, against depth": [*DEPTHS, *OVERFLOWN],
    "Memory of a training step, by phase": PHASES,
    "Measured ratios, with intervals and bands": RATIOS,
    "What the rule sees, as a share of what there is": SHARES,
    "Predicted against exact": AGAINST,
}


def svg(picture: Picture) -> ElementTree.Element:
    """The picture's markup, read as XML."""
    return ElementTree.fromstring(picture.drawing.markup(picture.title, "caption"))


def marks(picture: Picture) -> list[ElementTree.Element]:
    """What stands for a number: dots and other filled marks."""
    return [each for each in svg(picture) if each.get("class", "").startswith("seen")]


@pytest.mark.parametrize("title", FORMS)
def test_evidence_of_a_form_gets_the_picture_of_its_kind(title: str) -> None:
    assert [each.title.en for each in observed.pictures_of(FORMS[title])] == [title]


@pytest.mark.parametrize("title", FORMS)
def test_a_picture_names_itself_and_tells_in_words_what_it_shows(title: str) -> None:
    (picture,) = observed.pictures_of(FORMS[title])
    root = svg(picture)
    assert root.get("role") == "img" and root.get("aria-labelledby") == "caption"
    assert root[0].tag == "title" and root[0].text == title
    assert len(picture.tells.en) > 40 and len(picture.tells.zh) > 20


@pytest.mark.parametrize("title", FORMS)
def test_the_same_evidence_is_drawn_alike(title: str) -> None:
    one, two = observed.pictures_of(FORMS[title]), observed.pictures_of(list(FORMS[title]))
    assert [each.drawing.markup(each.title, "x") for each in one] == [
        each.drawing.markup(each.title, "x") for each in two
    ]


def test_each_number_has_its_mark() -> None:
    counts = {"Backward over forward, against depth": 4, "Excess over the rule, against context": 6}
    counts |= {"Output scale, against width": 6 + 2, "Predicted against exact": 6}  # and two in the legend
    for title, count in counts.items():
        (picture,) = observed.pictures_of(FORMS[title])
        assert len(marks(picture)) == count, title


def test_another_number_moves_its_mark() -> None:
    moved = [*BY_DEPTH[:-1], row("backward over forward, by depth", 2, 1.7, layers=8)]
    heights = [[each.get("cy") for each in marks(observed.pictures_of(rows)[0])] for rows in (BY_DEPTH, moved)]
    assert heights[0][:3] == heights[1][:3]
    assert float(heights[0][3] or 0) < float(heights[1][3] or 0)


def test_names_of_alike_things_say_what_tells_them_apart() -> None:
    names = ["Product(rows=2, inner=3, dtype=a)", "Product(rows=2, inner=4, dtype=a)"]
    assert observed.told_apart(names) == ["inner=3, …", "inner=4, …"]
    assert observed.told_apart(["A(x=1, y=2)", "B(x=1, y=2)"]) == ["A(x=1, …", "B(x=1, …"]
    assert observed.told_apart(["A(x=1, y=2)"]) == ["A(x=1, y=2)"]
    assert observed.told_apart(["A(x=1)", "A(x=1)"]) == ["A(x=1)", "A(x=1)"]


@given(st.lists(st.lists(st.sampled_from("abc"), min_size=1).map(", ".join), max_size=5))
def test_different_names_stay_different(names: list[str]) -> None:
    told = observed.told_apart(names)
    for one, shown in zip(names, told, strict=True):
        for other, also in zip(names, told, strict=True):
            assert set(one.split(", ")) == set(other.split(", ")) or shown != also


def test_a_long_label_is_cut_with_a_sign_and_has_a_line_of_its_own() -> None:
    rows = [row(name, 2**n, 2**n + 1, "B") for name in ("short", "x" * 90, "other") for n in range(6)]
    [picture] = observed.pictures_of(rows)
    written = ElementTree.fromstring(picture.drawing.markup(picture.title, "a"))
    labels = [each for each in written.iter("text") if each.get("class") == "label"]
    assert [each.text for each in labels] == ["short", "x" * 65 + "…", "other"]
    assert len({each.get("x") for each in labels}) == 1


def test_every_decoder_has_its_name_where_its_line_ends() -> None:
    [picture] = observed.pictures_of(EXCESS)
    written = ElementTree.fromstring(picture.drawing.markup(picture.title, "a"))
    labels = {each.text: each for each in written.iter("text") if each.get("class") == "label"}
    assert set(labels) == {"of 128", "of 64"}
    heights = [float(labels[name].get("y") or 0) for name in ("of 64", "of 128")]
    assert heights[1] - heights[0] >= 13  # the wider one's line lies lower


def test_what_overflowed_is_a_cross_at_the_largest_float16() -> None:
    (picture,) = observed.pictures_of(OVERFLOWN)
    crosses = [each for each in svg(picture) if each.text == "×"]
    assert len(crosses) == 2
    assert "2 points overflowed" in picture.tells.en
    (without,) = observed.pictures_of(DEPTHS[:3])
    assert "largest float16" not in without.drawing.markup(without.title, "x")


def test_nine_series_are_told_apart_by_three_colours_and_three_shapes() -> None:
    drawn = [
        row(f"scale against depth, {recipe}, {dtype}", 1.0, 1.0, layer=n)
        for recipe in ("randn", "1 / fan_in", "Kaiming")
        for dtype in ("float32", "float16", "bfloat16")
        for n in (1, 2, 3)
    ]
    (picture,) = observed.pictures_of(drawn)
    looks = {tuple(sorted(each.items())) for each in marks(picture) if len(each)}
    assert len(looks) == 9 * 3


def test_an_interval_outside_its_band_is_told() -> None:
    (picture,) = observed.pictures_of(RATIOS)
    assert "1 of 2 intervals lie within their bands" in picture.tells.en


def test_resident_pages_stand_against_those_touched() -> None:
    (picture,) = observed.pictures_of(PAGES)
    assert "pages touched" in picture.drawing.markup(picture.title, "x")


@pytest.mark.parametrize("title", FORMS)
def test_a_single_number_is_no_picture_unless_it_has_an_interval(title: str) -> None:
    alone = observed.pictures_of(FORMS[title][:1])
    assert bool(alone) == (title == "Measured ratios, with intervals and bands")


def test_counts_of_two_units_are_never_in_one_picture() -> None:
    other = [row("ratios", 2 + n, 3 + n, "FLOP a parameter") for n in range(5)]
    pictures = observed.pictures_of([*AGAINST, *other])
    assert len(pictures) == 2
    assert [len(marks(each)) for each in pictures] == [6, 5]


numbers = st.one_of(
    st.floats(), st.integers(-(10**30), 10**30), st.sampled_from(["inf", "nan", "-inf", 0, -1, 5e-324])
).map(lambda value: str(value) if isinstance(value, float) and not math.isfinite(value) else value)
labels = st.one_of(
    st.sampled_from([rows[0]["label"] for rows in FORMS.values()]), st.text(st.characters(), max_size=12)
)
cases = st.dictionaries(
    st.sampled_from(["layers", "context", "width", "layer", "decoder", "phase", "kind", "interval", "band"]),
    st.one_of(
        numbers,
        st.sampled_from(["0.9 to 1.2", "1 and more", "1.2.3 to 4", "1e999 to 2", "nan to 1"]),
        st.text(st.characters(), max_size=8),
    ),
)
rows = st.lists(
    st.builds(
        lambda label, rule, exact, unit, where: row(label, rule, exact, unit, **where),
        labels,
        numbers,
        numbers,
        st.sampled_from(["", "B", "FLOP", "pages"]),
        cases,
    ),
    max_size=12,
)


@given(evidence=rows)
def test_any_evidence_is_drawn_or_left_out(evidence: list[EvidenceRecord]) -> None:
    for picture in observed.pictures_of(evidence):
        svg(picture)
        markup = picture.drawing.markup(picture.title, "x")
        assert visible(markup) == markup and "nan" not in markup.split("<title>")[0]


def test_markup_in_evidence_is_drawn_as_text() -> None:
    hostile = '</svg><script>alert("x")</script>'
    evidence = [
        {**EVIDENCE, "label": hostile, "rule": 2**n, "exact": n + 1, "where": {"case": hostile}} for n in range(8)
    ]
    made = page_of(record([{**CLAIM, "evidence": evidence}]))
    assert len(Page(made).scripts) == 2
    assert b"<title>&lt;/svg&gt;" in made or b"&lt;/svg&gt;" in made
    assert b"</svg><script" not in made


# ── by definition ──


def test_every_picture_by_definition_belongs_to_a_claim() -> None:
    assert set(defined.PICTURES) <= set(read_inventory(ROOT).ids)


@pytest.mark.parametrize("id", defined.PICTURES)
def test_a_picture_by_definition_has_its_table_beside_it(id: str) -> None:
    picture = defined.PICTURES[id]()
    svg(picture)
    assert picture.table is not None
    assert len({len(picture.table.head), *(len(each) for each in picture.table.rows)}) == 1
    page = Page(page_of(record([{**CLAIM, "id": id}])))
    assert picture.tells.en in page.said and picture.tells.zh in page.said_in_chinese
    assert picture.table.rows[0][1] in page.said


def test_a_format_has_as_many_boxes_as_bits() -> None:
    boxes = [each for each in svg(defined.fields()) if each.get("class", "").startswith("bit")]
    assert len(boxes) == sum(each.bits for each in defined.SHOWN.values()) + 3  # and the legend


def test_the_ranges_are_those_of_the_formats() -> None:
    table = {each[0]: each[1:] for each in (defined.ranges().table or pytest.fail()).rows}
    assert table["float16"] == (f"{2**-24:.6g}", f"{2**-14:.6g}", "65504")
    assert table["float8_e4m3fn"][2] == "448"


def test_the_rounding_error_turns_where_the_format_does() -> None:
    table = {each[0]: each[1:] for each in (defined.rounding().table or pytest.fail()).rows}
    assert [float(each) for each in table["float16"]] == pytest.approx(
        [2**-25, 2**-14, 1 / 2049, float(FLOAT16.largest)], rel=1e-5
    )


def test_a_transpose_reads_the_same_storage_in_columns() -> None:
    table = {each[0]: each[1:] for each in (defined.layout().table or pytest.fail()).rows}
    assert table["x"] == ("(3, 4)", "(4, 1)", "0 1 2 3; 4 5 6 7; 8 9 10 11")
    assert table["x.T"] == ("(4, 3)", "(1, 4)", "0 4 8; 1 5 9; 2 6 10; 3 7 11")


# ── drawing ──


@given(low=st.floats(1e-30, 1e30), apart=st.floats(1.5, 1e6), share=st.floats(0, 1))
def test_a_scale_puts_its_ends_at_its_ends_and_the_rest_between(low: float, apart: float, share: float) -> None:
    for scale in (Linear(low, low * apart, 10, 110), Logarithmic(low, low * apart, 10, 110)):
        assert scale.at(low) == pytest.approx(10) and scale.at(low * apart) == pytest.approx(110)
        between = scale.at(low + share * (low * apart - low))
        assert 10 - 1e-6 <= between <= 110 + 1e-6
        assert all(10 - 0.1 <= scale.at(value) <= 110 + 0.1 for value, _ in scale.ticks())


@given(values=st.lists(st.floats(-1e9, 1e9, allow_subnormal=False), min_size=1))
@example(values=[1.0, sys.float_info.min])
@example(values=[1647.0, 1e-305])
def test_a_fitted_scale_shows_every_number(values: list[float]) -> None:
    scale = fitted(values, LEFT, WIDTH)
    assert all(LEFT <= scale.at(value) <= WIDTH for value in values)
    assert len(scale.ticks()) <= 12


@given(places=st.lists(st.floats(0, 500), max_size=12))
def test_labels_are_kept_apart_and_in_order(places: list[float]) -> None:
    moved = labels_apart(places, 13)
    ordered = sorted(moved)
    assert all(after - before >= 13 - 1e-6 for before, after in zip(ordered, ordered[1:], strict=False))
    assert all(new >= old for new, old in zip(moved, places, strict=True))


def test_text_in_a_picture_is_in_both_languages() -> None:
    drawing = Drawing(10)
    drawing.text(1, 2, Phrase("one", "一"), "end", "label")
    assert '<tspan class="en">one</tspan><tspan lang="zh-Hans">一</tspan>' in drawing.markup(Phrase("a", "甲"), "x")
