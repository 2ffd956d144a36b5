"""How each verdict earns its name, rule by rule, and what every outcome of a property is called."""

from __future__ import annotations

import itertools
import unittest
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from properties import needs as needs_module
from properties.claims import (
    NOTE,
    Claim,
    Note,
    State,
    Strength,
    Verdict,
    also,
    approximates,
    corrects,
    costly,
    holds,
    holds_when,
    needs,
    refuted,
)
from properties.evidence import Inconclusive, every, may_fail, observe, when
from properties.judging import HungError, Judgement, judge, statistics_to
from properties.levels import Level

NUMBERS = st.integers(0, 10**6)


def judged(
    function: Callable[..., None],
    *,
    of: Callable[..., None] | None = None,
    level: Level = Level.QUICK,
    seed: int = 1,
    **arguments: object,
) -> Judgement:
    """The judgement of one property, of the claim that it or ``of`` states."""
    note: Note = getattr(function, NOTE)
    claim: Claim = getattr(of or function, NOTE).claim
    return judge(function, note, claim, level=level, seed=seed, arguments=arguments)


def told(judgement: Judgement) -> tuple[str, bool | None, str]:
    """State, agreement, and the words that say why."""
    said = judgement.reason if judgement.reason is not None else str(judgement.exception or "")
    return str(judgement.state), judgement.agrees, said


# ── holds ───────────────────────────────────────────────────────────────────


def test_a_claim_that_holds_is_sampled_and_its_cases_are_counted() -> None:
    @holds("a.b")
    @given(n=NUMBERS)
    @example(n=3)
    def property(n: int) -> None:
        """Numbers are not negative."""
        assert n >= 0

    for level in (Level.QUICK, Level.DEFAULT):
        judgement = judged(property, level=level)
        assert (judgement.state, judgement.agrees, judgement.strength) == (State.RAN, True, Strength.SAMPLED)
        assert (judgement.evidence.passed, judgement.evidence.pinned) == (level.cases, 1)
        assert level.cases / 2 <= len(judgement.evidence.distinct) <= level.cases
        assert judgement.discarded == 0


def test_a_counterexample_contradicts_and_is_shrunk() -> None:
    @holds("a.b")
    @given(n=NUMBERS)
    def property(n: int) -> None:
        """Numbers are small."""
        assert n < 1000

    judgement = judged(property, level=Level.DEFAULT)
    assert (judgement.state, judgement.agrees, judgement.strength) == (State.RAN, False, None)
    assert judgement.found_case == {"n": 1000}


def test_a_pinned_example_can_contradict() -> None:
    @holds("a.b")
    @given(n=NUMBERS)
    @example(n=-1)
    def property(n: int) -> None:
        """Numbers are not negative."""
        assert n >= 0

    judgement = judged(property)
    assert (judgement.agrees, judgement.found_case, judgement.evidence.passed) == (False, {"n": -1}, 0)


def test_pinned_examples_do_not_count_towards_the_floor() -> None:
    @holds("a.b")
    @given(seed=st.integers(0, 10**9), n=st.just(1))
    @example(seed=1, n=1)
    @example(seed=1, n=2)
    @example(seed=1, n=3)
    @example(seed=1, n=4)
    @example(seed=1, n=5)
    def property(seed: int, n: int) -> None:
        """Numbers are numbers."""
        assert n

    judgement = judged(property, level=Level.QUICK)
    assert told(judgement) == ("error", None, "1 distinct cases were accepted, of 25 asked for")
    assert judgement.evidence.pinned == 5


def test_a_domain_exhausted_below_32_cases_is_an_example() -> None:
    @holds("a.b")
    @given(n=st.integers(0, 12))
    def small(n: int) -> None:
        """Numbers are not negative."""
        assert n >= 0

    @holds("a.b")
    @given(n=st.integers(0, 39))
    def larger(n: int) -> None:
        """Numbers are not negative."""
        assert n >= 0

    for level in (Level.QUICK, Level.DEFAULT):
        judgement = judged(small, level=level)
        assert (judgement.agrees, judgement.strength, len(judgement.evidence.distinct)) == (True, Strength.EXAMPLE, 13)
    judgement = judged(larger, level=Level.DEFAULT)
    assert (judgement.agrees, judgement.strength, len(judgement.evidence.distinct)) == (True, Strength.SAMPLED, 40)


def test_a_property_with_nothing_to_vary_is_an_example() -> None:
    @holds("a.b")
    def property() -> None:
        """One is one."""
        assert int("1") == 1

    judgement = judged(property)
    assert (judgement.agrees, judgement.strength, judgement.evidence.passed) == (True, Strength.EXAMPLE, 0)


def test_a_finite_scope_checked_whole_is_exhaustive_and_has_no_floor() -> None:
    @holds("a.b")
    def property() -> None:
        """Bytes are below 256."""
        every("all bytes", np.arange(256) < 256, range(256), size=2**8)

    judgement = judged(property)
    assert (judgement.agrees, judgement.strength, judgement.evidence.points) == (True, Strength.EXHAUSTIVE, 256)


def test_a_scope_of_another_size_is_an_error_and_one_that_fails_a_contradiction() -> None:
    @holds("a.b")
    def short() -> None:
        """Bytes are below 256."""
        every("all bytes", np.arange(255) < 256, range(255), size=2**8)

    @holds("a.b")
    def wrong() -> None:
        """Bytes are below 255."""
        every("all bytes", np.arange(256) < 255, range(256), size=2**8)

    assert told(judged(short)) == (
        "error",
        None,
        "ValueError: all bytes: 255 cases were checked, 256 were to be",
    )
    judgement = judged(wrong)
    assert told(judgement) == ("ran", False, "all bytes: 1 of 256 fail, first 255")
    assert judgement.found_case == {"case": 255}


def test_a_look_that_draws_little_new_is_followed_by_others() -> None:
    seldom_new = st.integers(0, 10**9).map(lambda n: n if n % 3 == 0 else 0)

    @holds("a.b")
    @given(n=seldom_new)
    def property(n: int) -> None:
        """Numbers are not negative."""
        assert n >= 0

    judgement = judged(property, level=Level.DEFAULT)
    assert told(judgement) == ("ran", True, "")
    assert judgement.strength == "sampled"
    assert judgement.evidence.passed > Level.DEFAULT.cases
    assert Level.DEFAULT.cases / 2 <= len(judgement.evidence.distinct) < Level.DEFAULT.cases


def test_more_than_half_thrown_away_is_an_error() -> None:
    @holds("a.b")
    @settings(suppress_health_check=list(HealthCheck))
    @given(n=st.integers(0, 10**6))
    def property(n: int) -> None:
        """Numbers in threes."""
        assume(n % 3 == 0)
        assert n % 3 == 0

    judgement = judged(property, level=Level.DEFAULT)
    state, agrees, reason = told(judgement)
    assert (state, agrees) == ("error", None)
    assert reason.endswith("drawn cases were thrown away") or "distinct cases were accepted" in reason
    assert judgement.discarded > judgement.evidence.passed


def test_a_case_that_hypothesis_gives_up_on_is_not_thrown_away() -> None:
    @holds("a.b")
    @given(rows=st.lists(st.tuples(*[st.integers(0, 9)] * 40), max_size=8).map(tuple))
    def property(rows: tuple[tuple[int, ...], ...]) -> None:
        """At most eight rows; early cases of more choices than the smallest one by far are given up."""
        assert len(rows) <= 8

    seen: dict[str, Any] = {}
    with statistics_to(seen):
        property()
    assert "overrun" in [case["status"] for case in seen["generate-phase"]["test-cases"]]
    assert judged(property).discarded == 0


def test_a_property_that_throws_everything_away_is_an_error() -> None:
    @holds("a.b")
    @given(n=NUMBERS)
    def property(n: int) -> None:
        """Numbers are wrong."""
        assume(False)
        assert n < 0

    judgement = judged(property)
    assert (judgement.state, judgement.agrees) == (State.ERROR, None)
    assert "FailedHealthCheck" in str(judgement.reason) or "Unsatisfi" in str(judgement.reason)


def test_a_property_whose_cases_never_come_to_its_assertion_is_an_error() -> None:
    @holds("a.b")
    @given(n=NUMBERS)
    @example(n=10**7)
    def generated(n: int) -> None:
        """Large numbers are small."""
        if n > 10**6:
            assert n

    @holds("a.b")
    def alone() -> None:
        """Nothing is something."""
        for each in range(0):
            assert each

    @holds("a.b")
    @given(n=NUMBERS)
    def raising(n: int) -> None:
        """Numbers are numbers."""
        with pytest.raises(ZeroDivisionError):
            _ = n / 0

    for property in (generated, alone):
        assert told(judged(property)) == ("error", None, "no case came to an assertion: nothing was checked")
    assert judged(raising).agrees is True


def test_an_assertion_may_be_reached_in_any_case() -> None:
    @holds("a.b")
    @given(n=NUMBERS)
    def property(n: int) -> None:
        """Even numbers are even."""
        if n % 2 == 0:
            assert (
                n % 2
                == 0
            )  # fmt: skip

    assert judged(property).agrees is True


def test_a_property_that_holds_has_no_condition() -> None:
    @holds("a.b")
    @given(n=NUMBERS)
    def property(n: int) -> None:
        """Numbers are even."""
        if when(n % 2 == 0):
            assert n % 2 == 0
        else:
            may_fail(False)

    state, agrees, reason = told(judged(property))
    assert (state, agrees) == ("error", None)
    assert "holds-when" in reason


def test_seeds_do_not_make_cases_distinct_unless_randomness_is_the_claim() -> None:
    @dataclass(frozen=True)
    class Draw:
        seed: int

    @holds("a.b")
    @given(draw=st.builds(Draw, seed=NUMBERS))
    def seeds(draw: Draw) -> None:
        """Draws are drawn."""
        assert draw.seed >= 0

    @holds("a.b", seeds_count=True)
    @given(draw=st.builds(Draw, seed=NUMBERS))
    def randomness(draw: Draw) -> None:
        """Draws are drawn."""
        assert draw.seed >= 0

    assert judged(seeds).reason == "1 distinct cases were accepted, of 25 asked for"
    assert judged(randomness).agrees is True


def test_arguments_told_apart_by_identity_are_refused() -> None:
    @holds("a.b")
    @given(x=st.builds(torch.zeros, st.integers(0, 100)))
    def tensors(x: torch.Tensor) -> None:
        """Zeros are zero."""
        assert (x == 0).all()

    @holds("a.b")
    @given(data=st.data())
    def interactive(data: st.DataObject) -> None:
        """Numbers are not negative."""
        assert data.draw(NUMBERS) >= 0

    for property in (tensors, interactive):
        state, agrees, reason = told(judged(property))
        assert (state, agrees) == ("error", None)
        assert "IdentityError" in reason and "frozen description" in reason


def test_zeros_of_both_signs_and_values_of_two_types_are_distinct_cases() -> None:
    @holds("a.b")
    @given(value=st.sampled_from([0.0, -0.0, 1, True, float("nan"), None]))
    def property(value: object) -> None:
        """Values are values."""
        assert value is value

    judgement = judged(property)
    assert (len(judgement.evidence.distinct), judgement.strength) == (6, Strength.EXAMPLE)


def test_an_assertion_in_a_strategy_is_an_error_and_not_a_finding() -> None:
    def broken(n: int) -> int:
        assert n < 100, "the strategy is wrong"
        return n

    @holds("a.b")
    @given(n=NUMBERS.map(broken))
    def property(n: int) -> None:
        """Numbers are not negative."""
        assert n >= 0

    assert told(judged(property)) == ("error", None, "AssertionError: the strategy is wrong assert 100 < 100")


# ── cost and needs ──────────────────────────────────────────────────────────


def test_a_costly_property_runs_its_own_number_of_cases_from_its_lowest_level() -> None:
    @holds("a.b")
    @costly(40, because="a case takes a second", lowest="default")
    @given(n=NUMBERS)
    def property(n: int) -> None:
        """Numbers are not negative."""
        assert n >= 0

    assert judged(property, level=Level.DEFAULT).evidence.passed == 40
    judgement = judged(property, level=Level.QUICK)
    assert told(judgement) == ("not-run", None, "runs from the default level: a case takes a second")
    assert judgement.evidence.passed == 0


def test_what_a_property_needs_and_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs_module, "present", lambda need: need == "linux")

    @holds("a.b")
    @needs("cuda", "gloo")
    def absent() -> None:
        """It is there."""
        raise RuntimeError("this must not run")

    @holds("a.b")
    @needs("linux")
    def there() -> None:
        """It is there."""
        assert int("1")

    assert told(judged(absent)) == (
        "not-run",
        None,
        "needs a CUDA device and needs torch.distributed with gloo",
    )
    assert judged(there).agrees is True


# ── holds-when ──────────────────────────────────────────────────────────────


def test_both_sides_are_counted() -> None:
    @holds_when("a.b", "n is even")
    @given(n=NUMBERS)
    @example(n=2)
    @example(n=3)
    def property(n: int) -> None:
        """Numbers are even."""
        assert (n % 2 == 0) == when(n % 2 == 0)

    seen = judged(property).evidence
    assert seen.inside + seen.outside == 25
    assert min(seen.inside, seen.outside) > 0
    assert seen.pinned == 2


@pytest.mark.parametrize(("offset", "side"), [(0, "outside"), (1, "inside")])
def test_a_side_that_is_never_reached_is_an_error_although_an_example_pins_it(offset: int, side: str) -> None:
    @holds_when("a.b", "n is even")
    @given(n=st.integers(0, 10**6).map(lambda n: 2 * n + offset))
    @example(n=2)
    @example(n=3)
    def property(n: int) -> None:
        """Numbers are even."""
        assert (n % 2 == 0) == when(n % 2 == 0)

    assert told(judged(property)) == ("error", None, f"no case was {side} the condition")


def test_a_side_that_chance_kept_away_is_looked_for_again() -> None:
    drawn = itertools.count()

    @holds_when("a.b", "the first look is over")
    @given(n=NUMBERS)
    @example(n=-1)
    @example(n=-2)
    def property(n: int) -> None:
        """Numbers are numbers."""
        inside = when(n == -1 or (n >= 0 and next(drawn) >= Level.QUICK.cases))
        assert inside or n + 1 != n

    judgement = judged(property, level=Level.QUICK)
    assert judgement.agrees
    assert judgement.evidence.passed == 2 * Level.QUICK.cases


def test_each_side_needs_a_pinned_example() -> None:
    @holds_when("a.b", "n is even")
    @given(n=NUMBERS)
    @example(n=2)
    def property(n: int) -> None:
        """Numbers are even."""
        assert (n % 2 == 0) == when(n % 2 == 0)

    assert told(judged(property)) == (
        "error",
        None,
        "no pinned example is outside the condition: add an @example there",
    )


def test_a_scope_checked_in_generated_cases_does_not_stand_for_pinned_examples() -> None:
    @holds_when("a.b", "n is even")
    @given(n=NUMBERS)
    def property(n: int) -> None:
        """Numbers are even."""
        every("itself", [True], [n], size=1)
        assert (n % 2 == 0) == when(n % 2 == 0)

    assert "no pinned example" in str(judged(property).reason)


def test_a_condition_that_is_never_asked_is_an_error() -> None:
    @holds_when("a.b", "n is even")
    @given(n=NUMBERS)
    def property(n: int) -> None:
        """Numbers are even."""
        assert n >= 0

    assert told(judged(property)) == (
        "error",
        None,
        "a holds-when property must say on which side each case is: call when()",
    )


def test_an_outside_that_never_fails_is_a_contradiction() -> None:
    @holds_when("a.b", "n is even")
    @given(n=NUMBERS)
    @example(n=2)
    @example(n=3)
    def property(n: int) -> None:
        """Numbers are not negative."""
        if when(n % 2 == 0):
            assert n >= 0
        else:
            may_fail(n >= 0)

    judgement = judged(property)
    assert (judgement.state, judgement.agrees) == (State.RAN, False)
    assert "cases outside the condition fails: it is too narrow" in str(judgement.exception)


def test_an_outside_of_which_some_fail_agrees_and_shows_one() -> None:
    @holds_when("a.b", "n is even")
    @given(n=NUMBERS)
    @example(n=2)
    @example(n=3)
    def property(n: int) -> None:
        """Numbers have no remainder by four, or one of two."""
        if when(n % 2 == 0):
            assert n % 4 in (0, 2)
        else:
            may_fail(n % 4 in (0, 2))

    judgement = judged(property)
    assert (judgement.agrees, judgement.evidence.outside_example) == (True, "n=3")


def test_a_case_that_contradicts_its_side_contradicts_the_claim() -> None:
    @holds_when("a.b", "n is even")
    @given(n=NUMBERS)
    @example(n=2)
    @example(n=3)
    def property(n: int) -> None:
        """Numbers are even."""
        assert (n % 4 == 0) == when(n % 2 == 0)

    judgement = judged(property)
    assert (judgement.agrees, judgement.found_case) == (False, {"n": 2})


def test_a_condition_over_a_whole_scope_needs_both_sides_and_no_examples() -> None:
    @holds_when("a.b", "below four")
    def both() -> None:
        """Numbers are below four."""
        n = np.arange(8)
        every("eight", (n < 4) == (n // 4 == 0), n, size=8, inside=n < 4)

    @holds_when("a.b", "below eight")
    def one() -> None:
        """Numbers are below eight."""
        n = np.arange(8)
        every("eight", n < 8, n, size=8, inside=n < 8)

    judgement = judged(both)
    assert (judgement.agrees, judgement.strength) == (True, Strength.EXHAUSTIVE)
    assert (judgement.evidence.inside, judgement.evidence.outside) == (4, 4)
    assert told(judged(one)) == ("error", None, "no case was outside the condition")


def test_when_in_a_property_without_generated_cases_counts_a_side_once() -> None:
    @holds_when("a.b", "n is even")
    def both() -> None:
        """Numbers are even."""
        for n in range(10):
            assert (n % 2 == 0) == when(n % 2 == 0)

    @holds_when("a.b", "n is even")
    def one() -> None:
        """Numbers are even."""
        assert when(2 % 2 == 0)

    seen = judged(both).evidence
    assert (seen.inside, seen.outside) == (1, 1)
    assert told(judged(one)) == ("error", None, "no case was outside the condition")


def test_where_the_environment_is_the_condition_one_side_is_enough() -> None:
    @holds_when("a.b", "from torch 2.12 on", environment=True)
    @given(n=NUMBERS)
    def property(n: int) -> None:
        """Numbers are not negative."""
        assert n >= 0

    assert judged(property).agrees is True


def test_a_further_property_need_not_ask_but_if_it_does_both_sides_are_needed() -> None:
    @holds_when("a.b", "n is even")
    def stating() -> None:
        """Numbers are even."""

    @also("a.b")
    @given(n=NUMBERS)
    def silent(n: int) -> None:
        """Numbers are not negative."""
        assert n >= 0

    @also("a.b")
    @given(n=NUMBERS)
    def one_sided(n: int) -> None:
        """Numbers are not negative."""
        assert when(n >= 0)

    assert judged(silent, of=stating).agrees is True
    assert told(judged(one_sided, of=stating)) == ("error", None, "no case was outside the condition")


# ── approximates ────────────────────────────────────────────────────────────


def test_an_approximation_must_be_held_to_a_bound() -> None:
    @approximates("a.b", "1/10")
    @given(n=st.integers(1, 10**6))
    def bounded(n: int) -> None:
        """About n."""
        observe(rule=n, exact=n + 1, bound=1, unit="s")

    @approximates("a.b", "1/10")
    @given(n=st.integers(1, 10**6))
    def unbounded(n: int) -> None:
        """About n."""
        observe(rule=n, exact=n + 1, unit="s")
        assert n

    @approximates("a.b", "1/10")
    @given(n=st.integers(1, 10**6))
    def silent(n: int) -> None:
        """About n."""
        assert n

    assert judged(bounded).agrees is True
    for property in (unbounded, silent):
        assert told(judged(property)) == ("error", None, "an approximation must be held to a bound: call observe()")


def test_an_error_beyond_the_bound_contradicts_at_the_smallest_case() -> None:
    @approximates("a.b", "1/10")
    @given(n=st.integers(0, 10**6))
    def property(n: int) -> None:
        """About a hundred."""
        observe(rule=100 + n, exact=100, bound=0.1, unit="s", where=n)

    judgement = judged(property)
    assert (judgement.agrees, judgement.found_case) == (False, {"n": 11})
    assert str(judgement.exception).startswith("rule 111 s against 100: error 0.11 exceeds 0.1")


# ── refuted ─────────────────────────────────────────────────────────────────


def test_a_statement_is_refuted_by_its_example_and_by_a_search_that_shrinks() -> None:
    @refuted("a.b", instead="Some are not.")
    @given(n=NUMBERS)
    @example(n=77)
    def property(n: int) -> None:
        """Numbers are below 17."""
        assert n < 17

    judgement = judged(property)
    assert (judgement.state, judgement.agrees) == (State.RAN, True)
    assert (judgement.pinned_case, judgement.found_case) == ({"n": 77}, {"n": 17})
    again = judged(property, seed=12345)
    assert again.found_case == judgement.found_case
    assert again.evidence.passed == judgement.evidence.passed


def test_a_pinned_example_that_does_not_falsify_is_a_contradiction() -> None:
    @refuted("a.b", instead="Some are not.")
    @given(n=NUMBERS)
    @example(n=77)
    @example(n=3)
    def property(n: int) -> None:
        """Numbers are below 17."""
        assert n < 17

    judgement = judged(property)
    assert told(judgement) == ("ran", False, "the statement was to be false and is not: n=3")
    assert judgement.found_case == {"n": 3}


def test_a_search_that_finds_nothing_is_an_error() -> None:
    @refuted("a.b", instead="Some are not.")
    @given(n=st.integers(0, 16))
    @example(n=77)
    def property(n: int) -> None:
        """Numbers are below 17."""
        assert n < 17

    state, agrees, reason = told(judged(property))
    assert (state, agrees) == ("error", None)
    assert reason.startswith("the pinned example falsifies the statement, but a search of 17 cases found no other")


@pytest.mark.parametrize("raised", [AssertionError("broken"), ValueError("broken"), SystemExit(3)], ids=repr)
def test_another_exception_than_the_declared_one_is_an_error(raised: BaseException) -> None:
    @refuted("a.b", instead="It cannot.", falsified_by=TypeError)
    def alone() -> None:
        """It can."""
        raise raised

    @refuted("a.b", instead="It cannot.", falsified_by=TypeError)
    @given(n=NUMBERS)
    @example(n=1)
    def pinned(n: int) -> None:
        """It can."""
        raise raised

    @refuted("a.b", instead="It cannot.", falsified_by=TypeError)
    @given(n=NUMBERS)
    @example(n=-1)
    def searched(n: int) -> None:
        """It can."""
        if n < 0:
            raise TypeError("as declared")
        raise raised

    for property in (alone, pinned, searched):
        judgement = judged(property)
        assert (judgement.state, judgement.agrees) == (State.ERROR, None)
        assert judgement.reason == f"{type(raised).__name__}: {raised}"


def test_a_statement_without_variables_must_raise_what_it_declares() -> None:
    @refuted("a.b", instead="It is a method.", falsified_by=TypeError)
    def false() -> None:
        """The strides are subscripted."""
        assert torch.zeros(4, 4).stride[0] == 4  # type: ignore[index]

    @refuted("a.b", instead="It is.")
    def true() -> None:
        """One is two."""
        assert int("1") == 1

    judgement = judged(false)
    assert (judgement.agrees, judgement.strength, judgement.pinned_case) == (True, Strength.EXAMPLE, {})
    assert told(judged(true)) == ("ran", False, "the statement was to be false and is not: as written")


def test_a_search_that_finds_a_value_of_identity_is_an_error() -> None:
    @refuted("a.b", instead="They are zero.")
    @given(x=st.builds(torch.zeros, st.integers(1, 9)))
    @example(x=torch.zeros(1))
    def property(x: torch.Tensor) -> None:
        """Zeros are one."""
        assert (x == 1).all()

    assert "IdentityError" in str(judged(property).reason)


def test_the_correction_has_to_hold() -> None:
    @refuted("a.b", instead="Numbers are below 1000.")
    @given(n=NUMBERS)
    @example(n=77)
    def statement(n: int) -> None:
        """Numbers are below 17."""
        assert n < 17

    @corrects("a.b")
    @given(n=NUMBERS)
    def correction(n: int) -> None:
        """Numbers are below 1000."""
        assert n < 1000

    judgement = judged(correction, of=statement)
    assert (judgement.agrees, judgement.found_case) == (False, {"n": 1000})


# ── outcomes ────────────────────────────────────────────────────────────────


class Skipped(Exception):
    """Not pytest's."""


def flaky() -> Callable[[], bool]:
    """A function that says False the first time, and True ever after."""
    said: list[bool] = []

    def call() -> bool:
        said.append(True)
        return len(said) > 1

    return call


OUTCOMES: list[tuple[Any, str, bool | None, str]] = [
    (AssertionError("no"), "ran", False, "no"),
    (pytest.fail.Exception("no"), "ran", False, "no"),
    (ValueError("no"), "error", None, "ValueError: no"),
    (RuntimeError(), "error", None, "RuntimeError"),
    (SystemExit(3), "error", None, "SystemExit: 3"),
    (BaseException("odd"), "error", None, "BaseException: odd"),
    (GeneratorExit("odd"), "error", None, "GeneratorExit: odd"),
    (pytest.exit.Exception("stop"), "error", None, "Exit: stop"),
    (pytest.xfail.Exception("known"), "error", None, "XFailed: known"),
    (pytest.skip.Exception("no such thing"), "not-run", None, "no such thing"),
    (pytest.skip.Exception("  "), "error", None, "Skipped"),
    (unittest.SkipTest("no such thing"), "error", None, "SkipTest: no such thing"),
    (Skipped("not pytest's"), "error", None, "Skipped: not pytest's"),
    (Inconclusive("spread of 40 %"), "inconclusive", None, "spread of 40 %"),
    (Inconclusive(), "error", None, "Inconclusive"),
    (MemoryError(), "error", None, "MemoryError"),
    (RecursionError("deep"), "error", None, "RecursionError: deep"),
    (HungError("Timeout (>1s)"), "error", None, "HungError: Timeout (>1s)"),
    (ExceptionGroup("two", [ValueError(), AssertionError()]), "error", None, "ExceptionGroup: two (2 sub-exceptions)"),
]


@pytest.mark.parametrize(("raised", "state", "agrees", "reason"), OUTCOMES, ids=lambda value: repr(value)[:40])
def test_what_a_property_raises_has_one_meaning(
    raised: BaseException, state: str, agrees: bool | None, reason: str
) -> None:
    @holds("a.b")
    def alone() -> None:
        """It is so."""
        raise raised
        assert True

    @holds("a.b")
    @given(n=NUMBERS)
    def generated(n: int) -> None:
        """It is so."""
        raise raised
        assert True

    for property in (alone, generated):
        assert told(judged(property)) == (state, agrees, reason)


def test_keyboard_interrupt_passes_through_a_case() -> None:
    @holds("a.b")
    @given(n=NUMBERS)
    def property(n: int) -> None:
        """It is so."""
        raise KeyboardInterrupt
        assert n

    with pytest.raises(KeyboardInterrupt):
        judged(property)


def test_a_flaky_property_is_an_error() -> None:
    say = flaky()

    @holds("a.b")
    @given(n=NUMBERS)
    def property(n: int) -> None:
        """It is always so."""
        assert say()

    state, agrees, reason = told(judged(property))
    assert (state, agrees) == ("error", None)
    assert reason.startswith("FlakyFailure")


@pytest.mark.parametrize("later", [pytest.skip.Exception("no such thing"), Inconclusive("noisy")], ids=repr)
def test_a_skip_or_noise_after_a_failure_does_not_hide_it(later: BaseException) -> None:
    """Shrinking calls the property again: what one of those calls says must not stand for all."""
    say = flaky()

    @holds("a.b")
    @given(n=NUMBERS)
    def property(n: int) -> None:
        """It is so."""
        if say():
            raise later
        assert n < 0

    state, agrees, reason = told(judged(property))
    assert (state, agrees) == ("error", None)
    assert "AssertionError" in reason or "Flaky" in reason


def test_an_exception_that_cannot_be_read_is_still_an_error() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    @holds("a.b")
    def property() -> None:
        """It is so."""
        raise Mute
        assert True

    judgement = judged(property)
    assert judgement.state is State.ERROR
    assert judgement.reason == "Mute: (what it says cannot be read: RuntimeError)"


@pytest.mark.filterwarnings("ignore:coroutine")
def test_a_property_that_only_promises_to_run_is_an_error() -> None:
    @holds("a.b")  # type: ignore[type-var]
    async def property() -> None:
        """It is so."""
        assert int("0")

    assert judged(property).reason == "no case came to an assertion: nothing was checked"  # type: ignore[arg-type]


def test_a_reason_of_megabytes_is_cut() -> None:
    @holds("a.b")
    def property() -> None:
        """It is so."""
        raise ValueError("x " * 10**6)
        assert True

    assert len(judged(property).reason or "") < 2100


# ── settings ────────────────────────────────────────────────────────────────


def test_a_property_runs_with_the_levels_settings_whatever_it_brings_and_whatever_is_loaded() -> None:
    seen: list[settings] = []

    @holds("a.b")
    @settings(max_examples=3, derandomize=True)
    @given(n=NUMBERS)
    def property(n: int) -> None:
        """It is so."""
        seen.append(settings())
        assert n >= 0

    before = settings.get_current_profile_name()
    settings.load_profile("ci")
    try:
        judgement = judged(property, level=Level.DEFAULT)
    finally:
        settings.load_profile(before)
    assert judgement.evidence.passed == 100
    assert property.hypothesis.inner_test.__name__ == "property"  # type: ignore[attr-defined]


def test_another_seed_gives_other_cases_and_the_same_seed_the_same() -> None:
    drawn: list[int] = []

    @holds("a.b")
    @given(n=NUMBERS)
    def property(n: int) -> None:
        """It is so."""
        drawn.append(n)
        assert n >= 0

    runs = []
    for seed in (1, 1, 2):
        drawn.clear()
        judged(property, seed=seed)
        runs.append(tuple(drawn))
    assert runs[0] == runs[1] != runs[2]


def test_arguments_that_are_not_generated_reach_the_property() -> None:
    @holds("a.b")
    @given(n=NUMBERS)
    def property(n: int, limit: int) -> None:
        """Numbers are below the limit."""
        assert n < limit

    assert judged(property, limit=10**7).agrees is True
    judgement = judged(property, limit=10)
    assert judgement.found_case == {"n": 10, "limit": 10}


def test_verdicts_are_those_of_the_decorators() -> None:
    decorators = {
        holds("a.b"): Verdict.HOLDS,
        holds_when("a.b", "c"): Verdict.HOLDS_WHEN,
        approximates("a.b", "c"): Verdict.APPROXIMATES,
        refuted("a.b", instead="c"): Verdict.REFUTED,
    }
    for decorate, verdict in decorators.items():

        def property() -> None:
            """It is so."""

        assert getattr(decorate(property), NOTE).claim.verdict is verdict
