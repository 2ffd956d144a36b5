"""Trying out what the random claims say of chance: that misses and alarms are counted, and only where they count."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from properties import power
from properties.mutants import mutant
from properties.mutants.mutant import Mutant
from properties.specification import Specification
from properties.tests.conftest import named

MOMENTS = "initialisation.randn.moments"


def test_a_deviation_is_seen_in_every_case_and_its_absence_in_none(found: Specification) -> None:
    each = named(found, "test_randn_draws_with_mean_zero_and_variance_one")
    nothing = Mutant("nothing", "The world as it is.", (), nullcontext)
    assert power.tried(mutant.load()["randn-leans"], each, 3) == {
        "deviation": "randn-leans",
        "property": each.function.__name__,
        "seen": 3,
        "cases": 3,
    }
    assert power.tried(nothing, each, 3)["seen"] == 0


def test_cases_outside_a_condition_are_not_counted(found: Specification) -> None:
    each = named(found, "test_the_variance_is_inversely_proportional_to_the_inputs")
    tried = power.tried(mutant.load()["variances-fall-with-a-smaller-power"], each, 10)
    assert tried["seen"] == tried["cases"] == 10


def test_a_property_is_afterwards_as_it_was(found: Specification) -> None:
    each = named(found, "test_randn_draws_with_mean_zero_and_variance_one")
    before, inner = dict(vars(each.function)), each.function.hypothesis.inner_test  # type: ignore[attr-defined]
    power.tried(mutant.load()["randn-leans"], each, 1)
    assert vars(each.function) == before
    assert each.function.hypothesis.inner_test is inner  # type: ignore[attr-defined]


def test_a_random_property_that_is_contradicted_is_an_alarm(found: Specification) -> None:
    assert {each.note.id for each in power.random(found, MOMENTS)} == {MOMENTS}
    quiet = power.judged(found, 0, MOMENTS)
    assert quiet["alarms"] == quiet["errors"] == [] and quiet["cases"] > 100
    with mutant.load()["randn-leans"].world():
        loud = power.judged(found, 0, MOMENTS)
    assert [name for name, _ in loud["alarms"]] == [each.function.__name__ for each in power.random(found, MOMENTS)]


def test_a_prefix_of_no_random_claim_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        power.main(["--claim", "no.such.claim"])
    assert "--claim: no random claim's id starts with 'no.such.claim'" in capsys.readouterr().err
