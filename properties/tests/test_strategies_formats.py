"""The number strategies reach the places where rounding decides, shrink to simple ones, and catch a wrong rounding."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from properties.instruments.formats import codes_of, dtype_of
from properties.strategies import formats
from properties.strategies.formats import Pattern, Place, Placement, code_at
from properties.tests.drawing import QUIET, drawn, share, smallest
from reference.dtypes import Kind
from reference.floats import BFLOAT16, FLOAT32, FORMATS, FloatFormat

NARROW = ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
pairs = pytest.mark.parametrize(
    ("target", "source"), [(target, source) for target in NARROW for source in ("float32", "float64")]
)


def magnitude(pattern: Pattern) -> Fraction:
    """The magnitude of a finite number."""
    return abs(Fraction(pattern.exact))


def is_tie(pattern: Pattern, target: FloatFormat) -> bool:
    """Whether a finite number lies halfway between two neighbouring codes."""
    exact = magnitude(pattern)
    below = target.round_magnitude(exact)
    return exact in (target.midpoint(below), target.midpoint(below - 1) if below else None)


def is_at_even_tie(pattern: Pattern, target: FloatFormat) -> bool:
    """Whether it does, and the lower one is even: a tie that half-up rounds the other way."""
    code = target.round_magnitude(magnitude(pattern))
    return magnitude(pattern) == target.midpoint(code)


def is_subnormal(pattern: Pattern, target: FloatFormat) -> bool:
    return 0 < magnitude(pattern) < target.smallest_normal


def is_at_the_edge(pattern: Pattern, target: FloatFormat) -> bool:
    """Whether it lies between the last number but two of a format and wherever the next would be."""
    return magnitude(pattern) >= target.magnitude(target.largest_code - 2)


class TestReachability:
    @pairs
    def test_near_codes_reach_each_kind_of_place(self, target: str, source: str) -> None:
        form, cases = FORMATS[target], drawn(formats.near_codes(target, source))
        enough = 0.1 if source == "float32" else 0.05
        assert share(cases, lambda case: is_tie(case, form)) >= enough
        assert share(cases, lambda case: is_at_even_tie(case, form)) >= enough / 2
        assert share(cases, lambda case: is_subnormal(case, form)) >= 0.1
        assert share(cases, lambda case: is_at_the_edge(case, form)) >= 0.1
        assert share(cases, lambda case: form.round_magnitude(magnitude(case)) > form.largest_code) >= 0.01
        assert share(cases, lambda case: form.round_magnitude(magnitude(case)) == 0) >= 0.01
        assert 0.35 <= share(cases, lambda case: math.copysign(1, case.value) < 0) <= 0.65
        assert all(math.isfinite(case.value) for case in cases)

    def test_a_run_of_300_meets_every_place_at_the_edge_of_overflow(self) -> None:
        form, cases = FORMATS["float16"], drawn(formats.near_codes("float16"), 300)
        codes = range(form.largest_code - 2, form.largest_code + 1)
        due = {code_at(place, code, form, FLOAT32) for place in list(Place)[:6] for code in codes}
        assert due <= {case.bits & (FLOAT32.sign_code - 1) for case in cases}

    @pairs
    def test_inner_codes_never_overflow(self, target: str, source: str) -> None:
        form = FORMATS[target]
        cases = drawn(formats.inner_codes(target, source))
        assert all(form.round_magnitude(magnitude(case)) <= form.largest_code for case in cases)

    @pytest.mark.parametrize("target", NARROW)
    def test_float64s_reach_the_places_where_a_first_rounding_decides(self, target: str) -> None:
        form, cases = FORMATS[target], drawn(formats.near_codes(target, "float64"))
        values = np.array([case.value for case in cases])
        differ = form.encode_array(values) != form.encode_array_through(FLOAT32, values)
        assert differ.mean() >= 0.05

    def test_places_are_where_they_say(self) -> None:
        for code in (0, 1, 5, 0x3C00, 0x7BFF):
            target, source = FORMATS["float16"], FLOAT32
            places = {place: code_at(place, code, target, source) for place in list(Place)[:6]}
            values = {place: source.magnitude(found) for place, found in places.items()}
            low, high, tie = target.magnitude(code), target.magnitude(code + 1), target.midpoint(code)
            assert (values[Place.CODE], values[Place.TIE]) == (low, tie)
            ordered = (Place.CODE, Place.ABOVE_CODE, Place.BELOW_TIE, Place.TIE, Place.ABOVE_TIE, Place.BELOW_NEXT)
            assert [places[place] for place in ordered] == sorted(places.values())
            assert values[Place.BELOW_NEXT] < high
            assert {abs(places[Place.TIE] - places[place]) for place in (Place.ABOVE_TIE, Place.BELOW_TIE)} == {1}

    def test_patterns_reach_specials_of_both_signs(self) -> None:
        cases = drawn(formats.patterns("bfloat16"), 300)
        assert share(cases, lambda case: case.is_nan) >= 0.1
        for special in (0.0, -0.0, math.inf, -math.inf):
            assert any(repr(case.value) == repr(special) for case in cases), special
        quiet = FLOAT32.nan_code - FLOAT32.infinity_code
        nans = [case.bits for case in cases if case.is_nan]
        assert {bits >> 31 for bits in nans} == {0, 1}
        assert {bool(bits & quiet) for bits in nans} == {True, False}
        assert len({bits & (2 * quiet - 1) for bits in nans}) > 10

    def test_numbers_are_never_nan_and_nans_always(self) -> None:
        assert not any(case.is_nan for case in drawn(formats.numbers("float16")))
        assert all(case.is_nan for case in drawn(formats.nans()))

    def test_subnormals_are_subnormal(self) -> None:
        assert all(is_subnormal(case, FLOAT32) for case in drawn(formats.subnormals()))

    def test_bit_patterns_reach_the_ends_of_every_field(self) -> None:
        cases = drawn(formats.bit_patterns("float32"))
        assert share(cases, lambda case: case.bits >> 23 & 0xFF == 0) >= 0.05
        assert share(cases, lambda case: case.bits >> 23 & 0xFF == 0xFF) >= 0.05
        assert share(cases, lambda case: case.bits & 0x7FFFFF == 0) >= 0.05

    def test_codes_at_field_ends_are_all_different(self) -> None:
        codes = formats.codes_at_field_ends(FLOAT32)
        assert len(np.unique(codes)) == len(codes) == 2 * 256 * 8

    @pytest.mark.parametrize(("low", "high"), [(0, 2**-25), (2**-149, 1e38), (65472, 65552), (448, 448)])
    @pytest.mark.parametrize("format", ["float32", "float64"])
    def test_magnitudes_stay_between_their_ends_and_reach_both(self, low: float, high: float, format: str) -> None:
        form = FORMATS[format]
        first, last = (float(form.decode(form.encode(end))) for end in (low, high))
        cases = drawn(formats.magnitudes_between(low, high, format), 200)
        assert all(first <= case <= last for case in cases)
        assert {first, last} <= set(cases)
        assert all(case == form.decode(form.encode(case)) for case in cases)
        scales = {math.frexp(case)[1] for case in cases}
        assert len(scales) >= min(20, math.frexp(last)[1] - math.frexp(max(first, 2.0**-149))[1])

    def test_magnitudes_in_the_wrong_order_are_refused(self) -> None:
        with pytest.raises(ValueError, match="give the smaller one first"):
            drawn(formats.magnitudes_between(2, 1))

    def test_integers_stay_in_range(self) -> None:
        for dtype, value in drawn(formats.in_range_of("int8", "uint8", "int32", "int64")):
            limits = torch.iinfo(dtype)
            assert limits.min <= math.trunc(value) <= limits.max

    def test_numbers_beyond_a_format_are_on_both_sides_of_its_overflow(self) -> None:
        cases = drawn(formats.beyond_the_range_of("float8_e4m3fn", "float8_e5m2"))
        limits: dict[torch.dtype, FloatFormat] = {dtype_of(name): FORMATS[name] for name in NARROW}
        assert all(value > limits[dtype].largest for dtype, value in cases)
        for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
            rounds_back = [value <= limits[dtype].overflow_limit for wanted, value in cases if wanted == dtype]
            assert 0.1 <= share(rounds_back, bool) <= 0.9

    def test_placements_reach_every_layout(self) -> None:
        cases = drawn(formats.placements)
        assert share(cases, lambda case: case.step == 0) >= 0.1
        assert share(cases, lambda case: case.step > 1) >= 0.2
        assert share(cases, lambda case: not case.shape) >= 0.02
        assert share(cases, lambda case: math.prod(case.shape) >= 16) >= 0.2
        for case in cases:
            x = case.of(torch.tensor([2.5]))
            assert x.shape == case.shape
            assert (x == 2.5).all()
        assert not Placement((8,), 2).of(torch.tensor([1.0])).is_contiguous()

    def test_dtypes_are_those_of_this_torch(self) -> None:
        found = {each for each in vars(torch).values() if isinstance(each, torch.dtype)}
        assert set(formats.torch_dtypes()) == found
        assert set(drawn(formats.dtypes, 500)) == found
        assert set(formats.torch_dtypes(Kind.COMPLEX)) == {each for each in found if each.is_complex}


class TestShrinking:
    @pytest.mark.parametrize("target", NARROW)
    def test_any_number_shrinks_to_one(self, target: str) -> None:
        assert smallest(formats.near_codes(target), lambda case: True).value == 1

    @pytest.mark.parametrize("target", NARROW)
    def test_a_tie_shrinks_to_the_first_above_one(self, target: str) -> None:
        found = smallest(formats.near_codes(target), lambda case: is_tie(case, FORMATS[target]))
        assert found.value == 1 + FORMATS[target].half_ulp

    def test_a_second_rounding_shrinks_to_one_between_one_and_two(self) -> None:
        def differs(case: Pattern) -> bool:
            return BFLOAT16.encode(case.exact) != BFLOAT16.encode_through(FLOAT32, case.exact)

        found = smallest(formats.near_codes("bfloat16", "float64"), differs)
        assert 1 < found.value < 2

    def test_a_magnitude_shrinks_to_an_end(self) -> None:
        assert smallest(formats.magnitudes_between(0, 2**-25), lambda case: True) == 2**-25


class TestDescriptions:
    @given(pattern=st.one_of(*[formats.bit_patterns(name) for name in FORMATS if "fn" not in name]))
    def test_a_pattern_builds_what_it_says_and_its_text_pastes(self, pattern: Pattern) -> None:
        x = pattern.build()
        assert int(codes_of(x)[0]) == pattern.bits
        pasted: Any = eval(repr(pattern), {"torch": torch})
        assert int(codes_of(pasted)[0]) == pattern.bits
        assert pasted.dtype == x.dtype == dtype_of(pattern.format)
        assert math.isnan(pattern.value) if pattern.is_nan else x.item() == pattern.value

    def test_a_number_becomes_its_pattern_or_is_refused(self) -> None:
        assert formats.pattern_of(-0.0, "float32") == Pattern("float32", 0x80000000)
        assert formats.pattern_of(math.nan, "float16").is_nan
        with pytest.raises(ValueError, match="0.1 is not a number of float32"):
            formats.pattern_of(0.1, "float32")


def drawn_in_run(strategy: SearchStrategy[Pattern], run: int) -> list[Pattern]:
    """A hundred draws, with the run's seed."""
    found: list[Pattern] = []

    @seed(run)
    @settings(QUIET, max_examples=100, phases=[Phase.generate])
    @given(strategy)
    def draw(case: Pattern) -> None:
        found.append(case)

    draw()
    return found


def kills(strategy: SearchStrategy[Pattern], is_caught: Callable[[Pattern], bool]) -> int:
    """In how many of 20 runs of 100 cases a strategy draws one that is caught."""
    return sum(any(map(is_caught, drawn_in_run(strategy, run))) for run in range(20))


class TestPower:
    @pytest.mark.parametrize(
        ("target", "source"), [*[(target, "float32") for target in NARROW], ("bfloat16", "float64")]
    )
    def test_a_hundred_cases_always_catch_rounding_half_up(self, target: str, source: str) -> None:
        caught = kills(formats.near_codes(target, source), lambda case: is_at_even_tie(case, FORMATS[target]))
        assert caught == 20

    def test_a_hundred_floats_of_hypothesis_never_do(self) -> None:
        floats = st.floats(width=32, allow_nan=False, allow_infinity=False)
        caught = kills(
            floats.map(lambda value: formats.pattern_of(value, "float32")), lambda case: is_at_even_tie(case, BFLOAT16)
        )
        assert caught <= 5
