"""The words a property speaks in: what each returns, notes, asserts and refuses."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis.errors import UnsatisfiedAssumption

from properties.evidence import SAMPLE, Evidence, collecting, every, may_fail, observe, when
from properties.judging import loose


def seen_by(*calls: Callable[[], object]) -> Evidence:
    """What calls leave behind, as a property without generated cases leaves it."""
    evidence = Evidence()
    with collecting(evidence):
        for call in calls:
            call()
    evidence.fold()
    return evidence


def counted(body: Callable[[int], object], cases: list[int], pinned: int = 0) -> Evidence:
    """What a property with generated cases leaves behind, the first ``pinned`` of which are pinned."""
    evidence = Evidence(pinned_to_come=pinned)

    def property(n: int) -> None:
        body(n)

    case = evidence.counting(property)
    with collecting(evidence):
        for n in cases:
            try:
                case(n=n)
            except (AssertionError, UnsatisfiedAssumption):
                continue
    return evidence


# ── when and may_fail ───────────────────────────────────────────────────────


def test_the_words_work_without_a_run() -> None:
    assert when(1) is True
    assert when(np.False_) is False
    may_fail(False)
    every("two", [True, True], "ab", size=2)
    observe(rule=1, exact=1, bound=0)
    with pytest.raises(AssertionError):
        every("two", [True, False], "ab", size=2)
    with pytest.raises(AssertionError):
        observe(rule=2, exact=1, bound=0.5)


def test_when_notes_the_side_of_each_generated_case() -> None:
    evidence = counted(lambda n: when(n % 2 == 0), [1, 2, 3, 4, 5])
    assert (evidence.inside, evidence.outside, evidence.passed) == (2, 3, 5)


def test_a_pinned_case_counts_neither_as_passed_nor_as_distinct_nor_as_a_side() -> None:
    evidence = counted(lambda n: when(n > 0), [1, -1, 7], pinned=2)
    assert (evidence.pinned, evidence.passed, len(evidence.distinct)) == (2, 1, 1)
    assert (evidence.inside, evidence.outside) == (1, 0)
    assert evidence.pinned_sides == {True, False}


def test_a_pinned_case_that_is_thrown_away_does_not_make_the_next_one_pinned() -> None:
    def body(n: int) -> None:
        when(n > 0)
        if n == 1:
            raise UnsatisfiedAssumption

    evidence = counted(body, [1, 5, -5], pinned=1)
    assert (evidence.pinned, evidence.passed) == (0, 2)
    assert evidence.pinned_sides == set()
    assert (evidence.inside, evidence.outside) == (1, 1)


def test_counting_stops_at_the_first_failure_and_the_last_failing_case_is_kept() -> None:
    def body(n: int) -> None:
        assert n != 3 and n != 2

    evidence = counted(body, [5, 3, 4, 2])
    assert (evidence.passed, evidence.failing, evidence.stopped) == (1, {"n": 2}, True)


def test_may_fail_counts_outside_cases_only() -> None:
    def body(n: int) -> None:
        if when(n < 0):
            assert n
        else:
            may_fail(n == 1)

    evidence = counted(body, [-1, 1, 2, 3])
    assert (evidence.outside_failed, evidence.outside_example) == (2, "n=2")


def test_may_fail_inside_the_condition_is_refused() -> None:
    with collecting(Evidence()):
        with pytest.raises(ValueError, match="outside the condition"):
            may_fail(False)
        when(True)
        with pytest.raises(ValueError, match="outside the condition"):
            may_fail(False)
        when(False)
        may_fail(False)


def test_the_side_of_one_case_is_not_that_of_the_next() -> None:
    def body(n: int) -> None:
        if n == 1:
            when(False)
        else:
            may_fail(True)

    with pytest.raises(ValueError, match="outside the condition"):
        counted(body, [1, 2])


# ── every ───────────────────────────────────────────────────────────────────


def test_every_names_the_first_case_that_fails_and_how_many_do() -> None:
    codes = np.arange(8)
    with pytest.raises(AssertionError, match="all codes: 3 of 8 fail, first 5"):
        every("all codes", codes < 5, codes, size=8)
    with pytest.raises(AssertionError, match="first 'b'"):
        every("letters", [True, False], iter("ab"), size=2)
    with pytest.raises(AssertionError, match="first 2"):
        every("a tensor", torch.tensor([True, True, False]), torch.arange(3), size=3)


def test_every_counts_points_and_scopes() -> None:
    evidence = seen_by(
        lambda: every("bytes", np.ones(256, bool), range(256), size=2**8),
        lambda: every("bits", [True, True], (0, 1), size=2),
    )
    assert (evidence.points, evidence.scopes) == (258, ["bytes", "bits"])


@pytest.mark.parametrize(
    ("outcome", "size"),
    [
        ([True] * 3, 4),
        ([], 0),
        (np.ones((4, 4), bool), 4),
        (torch.zeros(4, 4, dtype=torch.bool), 4),
        ([[False], [False]], 2),
        (np.ones(3), 3),
        ([1, 1], 2),
        ([None, True], 2),
        (torch.tensor([0.5, 0.5]), 2),
        (np.array(True), 1),
        (["", ""], 2),
    ],
    ids=lambda value: str(value).replace("\n", " "),
)
def test_every_refuses_what_is_not_one_truth_value_a_case(outcome: object, size: int) -> None:
    """The rows of a matrix, say, are true whatever they hold: such a check could not fail."""
    with pytest.raises(ValueError, match="cases were checked|one truth value a case"):
        every("scope", outcome, range(size), size=size)  # type: ignore[arg-type]


def test_every_takes_truth_values_as_torch_numpy_and_python_make_them() -> None:
    for outcome in (
        [True, np.True_],
        (each for each in (True, True)),
        torch.tensor([True, True]),
        np.array([True, True]),
        [torch.tensor(True), torch.tensor(True)],
    ):
        every("two", outcome, "ab", size=2)


def test_every_refuses_cases_and_sides_that_are_not_aligned() -> None:
    with pytest.raises(ValueError, match="2 outcomes for 3 cases"):
        every("two", [True, True], [1, 2, 3], size=2)
    with pytest.raises(ValueError, match="2 outcomes for 1 sides"):
        every("two", [True, True], [1, 2], size=2, inside=[True])


def test_every_notes_the_sides_of_a_scope() -> None:
    evidence = seen_by(lambda: every("four", [True] * 4, range(4), size=4, inside=np.arange(4) < 1))
    assert (evidence.inside, evidence.outside, evidence.when_used) == (1, 3, True)


def test_the_sides_of_a_scope_within_pinned_cases_do_not_count() -> None:
    def body(n: int) -> None:
        every("four", [True] * 4, range(4), size=4, inside=[True, False, n > 0, False])

    evidence = counted(body, [1, 2, 3], pinned=2)
    assert (evidence.inside, evidence.outside) == (1, 1)
    assert evidence.pinned_sides == {True, False}


def test_a_scope_of_sixteen_million_points_is_checked_within_a_second() -> None:
    outcome, cases = np.ones(2**24, bool), np.arange(2**24)
    started = time.perf_counter()
    every("many", outcome, cases, size=2**24)
    assert time.perf_counter() - started < 1


# ── observe ─────────────────────────────────────────────────────────────────


def test_observe_holds_the_relative_error_to_its_bound() -> None:
    evidence = seen_by(lambda: observe(rule=102, exact=100, bound=0.02, unit="FLOP", label="forward", where={"B": 2}))
    [kept] = evidence.observations["forward"]
    assert kept.error == pytest.approx(0.02)
    assert (kept.unit, kept.where) == ("FLOP", {"B": 2})
    with pytest.raises(AssertionError, match=r"forward 103 FLOP against 100: error 0.03 exceeds 0.02"):
        observe(rule=103, exact=100, bound=0.02, unit="FLOP", label="forward")


@pytest.mark.parametrize(
    ("rule", "exact", "bound"),
    [
        (2**60 + 1, 2**60, 0),
        (Fraction(1, 3) + Fraction(1, 10**30), Fraction(1, 3), 0),
        (4, 3, Fraction(1, 3) - Fraction(1, 10**30)),
        (1, 0, 1e300),
        (math.nan, 1, 1),
        (1, math.nan, 1),
        (math.inf, 1, 1e300),
        (1, 1, math.nan),
    ],
)
def test_observe_refuses_what_is_beyond_the_bound(rule: float, exact: float, bound: float) -> None:
    with pytest.raises(AssertionError):
        observe(rule=rule, exact=exact, bound=bound)


@pytest.mark.parametrize(
    ("rule", "exact", "bound"),
    [(0, 0, 0), (2**70, 2**70, 0), (4, 3, Fraction(1, 3)), (np.float32(1), 1, 0), (np.uint8(3), np.uint8(4), 0.25)],
)
def test_observe_accepts_what_is_within_the_bound(rule: float, exact: float, bound: float) -> None:
    observe(rule=rule, exact=exact, bound=bound)


def test_observe_keeps_the_worst_and_a_bounded_sample_for_each_label() -> None:
    evidence = seen_by(
        *(lambda k=k: observe(rule=100 + k, exact=100, bound=1, label="a") for k in range(40)),
        lambda: observe(rule=1, exact=1, label="b"),
    )
    assert len(evidence.observations["a"]) == SAMPLE
    assert evidence.worst["a"].rule == 139
    assert set(evidence.worst) == {"a", "b"}


def test_a_bound_is_loose_where_nothing_came_within_a_factor_of_ten() -> None:
    far = seen_by(lambda: observe(rule=1.009, exact=1, bound=0.1))
    near = seen_by(lambda: observe(rule=1.011, exact=1, bound=0.1))
    exact = seen_by(lambda: observe(rule=1, exact=1, bound=0))
    unbounded = seen_by(lambda: observe(rule=2, exact=1))
    assert [loose(each, "") for each in (far, near, exact, unbounded)] == [True, False, False, False]


def test_a_bound_that_varies_is_loose_only_if_it_is_loose_everywhere() -> None:
    """The largest error need not be the one that comes nearest its bound."""
    evidence = seen_by(
        lambda: observe(rule=1.5, exact=1, bound=10),
        lambda: observe(rule=1.1, exact=1, bound=0.1001),
    )
    assert evidence.worst[""].rule == 1.5
    assert not loose(evidence, "")


# ── cost ────────────────────────────────────────────────────────────────────


def test_counting_a_case_costs_under_five_microseconds() -> None:
    """Of two arguments; the best of many short repeats, among which a busy machine leaves some alone."""
    evidence = Evidence()
    bare = lambda a, b: None  # noqa: E731
    case = evidence.counting(bare)
    repeats, number = 300, 100

    def best(call: Callable[..., None]) -> float:
        times = []
        for repeat in range(repeats):
            started = time.perf_counter()
            for n in range(number):
                call(a=n + repeat * number, b=(n, 2, 3))
            times.append((time.perf_counter() - started) / number)
        return min(times)

    with collecting(evidence):
        overhead = best(case) - best(bare)
    assert evidence.passed == repeats * number
    assert overhead < 5e-6, f"{overhead * 1e6:.2f} us a case"
