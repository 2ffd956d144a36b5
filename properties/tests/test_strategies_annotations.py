"""Annotated tensors and calls: both sides are reached, and the rule that judges them is right by hand."""

import torch

from properties.instruments.hooks import MODULE
from properties.strategies import annotations
from properties.strategies.annotations import Annotated, Call, Guard
from properties.tests.drawing import drawn, share, smallest


def test_names_fit_and_do_not_for_each_reason() -> None:
    cases = drawn(annotations.annotated())
    assert share(cases, lambda case: case.fits) >= 0.15
    assert share(cases, lambda case: len(case.names) != len(case.shape)) >= 0.1
    assert share(cases, lambda case: not case.dtype.is_floating_point) >= 0.2
    of_their_rank = [case for case in cases if len(case.names) == len(case.shape)]
    pairs = [set(zip(case.names, case.shape, strict=True)) for case in of_their_rank]
    assert sum(len(each) > len(dict(each)) for each in pairs) >= 0.05 * len(cases)


def test_the_rule_of_what_fits() -> None:
    assert Annotated((2, 3), ("a", "b")).fits
    assert Annotated((2, 2), ("a", "a")).fits
    assert Annotated((), ()).fits
    assert not Annotated((2, 3), ("a", "a")).fits
    assert not Annotated((2, 3), ("a",)).fits
    assert not Annotated((2,), ("a", "b")).fits
    assert not Annotated((2,), ("a",), torch.int64).fits


def test_calls_are_right_and_wrong_in_rank_length_and_dtype() -> None:
    for guard, strategy in ((Guard.JAXTYPED, annotations.guarded_calls), (Guard.NOTHING, annotations.bare_calls)):
        cases = drawn(strategy)
        assert {case.guard for case in cases} == {guard}
        assert share(cases, lambda case: case.is_right) >= 0.1
        assert share(cases, lambda case: len(case.x) != 2) >= 0.1
        assert share(cases, lambda case: len(case.x) == 2 and len(case.y) == 1 and case.y != case.x[1:]) >= 0.05
        assert share(cases, lambda case: not case.dtype.is_floating_point) >= 0.1


def test_the_smallest_wrong_call_is_wrong_in_one_thing() -> None:
    wrong = smallest(annotations.guarded_calls, lambda case: not case.is_right)
    assert wrong in (Call(Guard.JAXTYPED, (1,), (1,)), Call(Guard.JAXTYPED, (1, 1), (1,), torch.int64))


def test_every_dtype_can_be_made_without_a_warning() -> None:
    assert annotations.empty("complex32").dtype == torch.complex32
    assert annotations.empty("qint8").dtype == torch.qint8


def test_the_hooked_module_has_a_right_call_beside_each_kind_of_wrong_one() -> None:
    for kind in ("assign", "pass"):
        for case in ("right", "rank", "dtype", "lengths"):
            assert f"def {kind}_{case}():" in MODULE


def test_signs_fit_and_do_not_in_every_group() -> None:
    cases = drawn(annotations.signed_annotations(), 600)
    assert {case.group for case in cases} == set(annotations.GROUPS)
    assert 0.1 <= share(cases, lambda case: case.fits) <= 0.9
    for sign in ("#a", "_", "a+1", "...", "*c", "2"):
        of_them = [case for case in cases if sign in case.names]
        assert 0.05 <= share(of_them, lambda case: case.fits) <= 0.9, sign


def test_the_rule_of_what_signs_fit() -> None:
    assert Annotated((1, 3), ("#a", "a")).fits
    assert not Annotated((2, 3), ("#a", "a")).fits
    assert Annotated((2, 3), ("a", "a+1")).fits
    assert not Annotated((2, 2), ("a", "a+1")).fits
    assert Annotated((4, 5, 2), ("...", "2")).fits
    assert not Annotated((), ("*c", "_")).fits
    assert Annotated((2,), ("rows=2",), torch.uint8, "UInt").fits


def test_lengthened_calls_are_right_and_wrong_in_each_place() -> None:
    cases = drawn(annotations.lengthened())
    assert 0.2 <= share(cases, lambda case: case.is_right) <= 0.8
    assert share(cases, lambda case: case.is_right and case.x != case.y) >= 0.05
