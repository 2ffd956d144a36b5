"""A formula on the page is what its function predicts, and stands at claims that there are."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from properties.report import formulas
from properties.report.formulas import FORMULAS, Formula, formulas_of
from properties.specification import read_inventory
from properties.tests.sample_records import CLAIM, EVIDENCE, record
from properties.tests.shown_page import Page, page_of
from reference import linear

ROOT = Path(__file__).parents[2]
NUMBERS = (3, 5, 7, 11, 13, 17, 19)

each_formula = pytest.mark.parametrize("formula", FORMULAS, ids=lambda formula: formula.name)


def test_there_are_twenty_formulas_and_more() -> None:
    assert len({formula.function for formula in FORMULAS}) >= 20


def test_every_formula_stands_at_claims_that_there_are() -> None:
    named = {claim for formula in FORMULAS for claim in formula.claims}
    assert named <= set(read_inventory(ROOT).ids)
    assert all(formula.claims for formula in FORMULAS)


@each_formula
def test_a_formula_is_what_its_function_predicts(formula: Formula) -> None:
    import sympy

    symbols = {name: sympy.Symbol(name, positive=True) for name in formula.symbols}
    values = dict(zip(formula.symbols, NUMBERS, strict=False))
    if "mfu" in values:
        values["mfu"] = 1
    seen = sympy.sympify(formula.of(**symbols)).subs({symbols[name]: value for name, value in values.items()})
    assert float(seen) == pytest.approx(float(formula.of(**values)), rel=1e-12)


@each_formula
def test_a_formula_is_mathml_in_the_functions_own_names(formula: Formula) -> None:
    root = ElementTree.fromstring(formula.mathml())
    names = [each.text for each in root.iter("mi")]
    assert names[0] == formula.function.__name__
    assert tuple(names[1 : 1 + len(formula.symbols)]) == formula.symbols
    assert set(names[1:]) <= set(formula.symbols)
    assert "&" not in formula.mathml()


def test_a_product_reads_as_it_is_written() -> None:
    formula = next(each for each in FORMULAS if each.function is linear.matmul_flops)
    shown = "".join(ElementTree.fromstring(formula.mathml()).itertext())
    assert shown == "matmul_flops(rows,inner,columns)=2·rows·inner·columns"


def test_a_claim_shows_the_formulas_that_it_is_listed_for_and_those_that_its_evidence_names() -> None:
    named = {**EVIDENCE, "by": "matmul_flops"}
    claim = record([{**CLAIM, "id": "flops.matmul.one-row", "evidence": [named, named, {**named, "by": "unknown"}]}])
    assert [each.name for each in formulas_of(claim["claims"][0])] == ["linear.row_flops", "linear.matmul_flops"]
    page = Page(page_of(claim))
    assert len(page.tagged("math")) == 2


def test_a_name_that_two_modules_have_is_not_guessed() -> None:
    named = {**EVIDENCE, "by": "forward_flops"}
    assert formulas_of(record([{**CLAIM, "evidence": [named]}])["claims"][0]) == []


def test_mathml_in_a_record_is_never_taken_over() -> None:
    claim = {**CLAIM, "formula": {"function": "f", "mathml": "<math><mi>taken over</mi></math>"}}
    assert "taken over" not in page_of(record([claim])).decode()


def test_without_sympy_the_page_has_no_formulas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sympy", None)
    formulas.printed.cache_clear()
    page = Page(page_of(record([{**CLAIM, "id": "flops.matmul.one-row"}])))
    formulas.printed.cache_clear()
    assert page.tagged("math") == []
    assert "How it was checked" in page.said
