"""The codec against NumPy's float16, ml_dtypes and gfloat; its two forms against each other."""

import math
from fractions import Fraction
from typing import Any

import gfloat
import gfloat.formats
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Float64, Integer

from reference.floats import (
    BFLOAT16,
    FLOAT4_E2M1FN,
    FLOAT8_E4M3FN,
    FLOAT8_E4M3FNUZ,
    FLOAT8_E5M2,
    FLOAT8_E5M2FNUZ,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    FORMATS,
    FloatFormat,
    Overflow,
    Specials,
    first_codes,
    round_off_low_bits,
    same_value,
    same_values,
    widths_from_behaviour,
    worst_relative_error,
)

SMALL = {name: form for name, form in FORMATS.items() if form.bits <= 16}
ML_DTYPES = {
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "float8_e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "float8_e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
}
THIRD_PARTY: dict[str, Any] = {"float16": np.float16, **ML_DTYPES}
GFLOAT = {
    "float16": gfloat.formats.format_info_binary16,
    "bfloat16": gfloat.formats.format_info_bfloat16,
    "float8_e4m3fn": gfloat.formats.format_info_ocp_e4m3,
    "float8_e5m2": gfloat.formats.format_info_ocp_e5m2,
}
small_formats = pytest.mark.parametrize("name", list(SMALL))
fractions = st.fractions(min_value=-(2**20), max_value=2**20, max_denominator=2**60)


def the_same_numbers(left: Float64[np.ndarray, "..."], right: Float64[np.ndarray, "..."]) -> bool:
    return bool(same_values(left, right).all())


def neighbourhood(target: FloatFormat) -> Float64[np.ndarray, "values"]:
    """float64 numbers around every code and every tie of a format: each itself and its float64 neighbours."""
    codes = np.arange(target.largest_code + 2, dtype=np.uint64)
    numbers = target.magnitude_array(codes)
    ties = (numbers[:-1] + numbers[1:]) / 2
    centres = np.concatenate([numbers, ties])
    all_of_them = np.concatenate([centres, np.nextafter(centres, np.inf), np.nextafter(centres, -np.inf)])
    specials = np.array([np.inf, np.nan, 1e300, 5e-324, 2.0**-1022])
    magnitudes = np.concatenate([np.abs(all_of_them), specials])
    return np.concatenate([magnitudes, -magnitudes])


def as_float(value: Fraction | float) -> float:
    return float(value)


class TestKnownValues:
    def test_published_limits_come_out(self) -> None:
        assert FLOAT16.largest == 65504
        assert FLOAT16.overflow_limit == 65520
        assert FLOAT16.smallest_subnormal == Fraction(1, 2**24)
        assert FLOAT16.flush_limit == Fraction(1, 2**25)
        assert BFLOAT16.smallest_normal == FLOAT32.smallest_normal == Fraction(1, 2**126)
        assert BFLOAT16.smallest_subnormal == Fraction(1, 2**133)
        eight_bit = (FLOAT8_E4M3FN, FLOAT8_E5M2, FLOAT8_E4M3FNUZ, FLOAT8_E5M2FNUZ)
        assert [form.largest for form in eight_bit] == [448, 57344, 240, 57344]
        assert [form.overflow_limit for form in eight_bit] == [464, 61440, 248, 61440]
        assert FloatFormat(4, 3).largest == 240
        assert [as_float(FLOAT4_E2M1FN.decode(code)) for code in range(8)] == [0, 0.5, 1, 1.5, 2, 3, 4, 6]

    def test_numpy_describes_its_three_formats_alike(self) -> None:
        for form, kind in ((FLOAT16, np.float16), (FLOAT32, np.float32), (FLOAT64, np.float64)):
            info: Any = np.finfo(kind)
            assert (form.bits, form.exponent_bits, form.mantissa_bits) == (info.bits, info.iexp, info.nmant)
            assert Fraction(float(info.max)) == form.largest
            assert Fraction(float(info.eps)) == form.eps
            assert Fraction(float(info.smallest_normal)) == form.smallest_normal
            assert Fraction(float(info.smallest_subnormal)) == form.smallest_subnormal

    def test_ml_dtypes_describes_its_formats_alike(self) -> None:
        describe: Any = ml_dtypes.finfo
        for name, kind in ML_DTYPES.items():
            info: Any = describe(kind)
            form = FORMATS[name]
            assert Fraction(float(info.max)) == form.largest, name
            assert Fraction(float(info.eps)) == form.eps, name
            assert Fraction(float(info.smallest_normal)) == form.smallest_normal, name
            assert Fraction(float(info.smallest_subnormal)) == form.smallest_subnormal, name

    def test_wider_formats_come_out_of_struct_alike(self) -> None:
        generator = np.random.default_rng(0)
        for form, kind in ((FLOAT32, np.float32), (FLOAT64, np.float64)):
            for code in generator.integers(0, form.code_count, 2000, dtype=form.code_dtype):
                seen = float(np.array(code).view(kind))
                assert the_same_numbers(np.array([seen]), np.array([as_float(form.decode(int(code)))]))

    def test_the_widths_come_back_from_the_largest_number_and_eps(self) -> None:
        for exponent_bits in range(2, 12):
            for mantissa_bits in range(1, 53, 3):
                form = FloatFormat(exponent_bits, mantissa_bits)
                assert widths_from_behaviour(form.largest, form.eps) == (exponent_bits, mantissa_bits)
        with pytest.raises(ValueError, match="448"):
            widths_from_behaviour(448, 0.125)


class TestDecoding:
    @small_formats
    def test_every_code_is_what_a_third_party_reads(self, name: str) -> None:
        form = FORMATS[name]
        codes = form.all_codes()
        with np.errstate(invalid="ignore"):  # ml_dtypes reads signalling NaNs loudly
            seen = codes.view(THIRD_PARTY[name]).astype(np.float64)
        assert the_same_numbers(form.decode_array(codes), seen)

    @pytest.mark.parametrize("name", list(GFLOAT))
    def test_every_code_is_what_gfloat_reads(self, name: str) -> None:
        form = FORMATS[name]
        codes = form.all_codes()
        seen = gfloat.decode_ndarray(GFLOAT[name], codes.astype(np.int64))
        assert the_same_numbers(form.decode_array(codes), np.asarray(seen, dtype=np.float64))

    def test_four_bit_codes_are_what_ml_dtypes_reads(self) -> None:
        codes = FLOAT4_E2M1FN.all_codes()
        seen = codes.astype(np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float64)
        assert the_same_numbers(FLOAT4_E2M1FN.decode_array(codes), seen)

    @pytest.mark.parametrize("form", [*SMALL.values(), FLOAT4_E2M1FN, FloatFormat(4, 3), FloatFormat(3, 2)], ids=str)
    def test_scalar_and_array_agree_on_every_code(self, form: FloatFormat) -> None:
        codes = form.all_codes()
        one_by_one = np.array([as_float(form.decode(int(code))) for code in codes])
        assert the_same_numbers(form.decode_array(codes), one_by_one)

    def test_a_code_outside_of_the_format_is_refused(self) -> None:
        with pytest.raises(ValueError, match="0x100 is not a code"):
            FLOAT8_E5M2.decode(256)
        with pytest.raises(ValueError, match="-0x1 is not a code"):
            FLOAT8_E5M2.decode(-1)


class TestEncoding:
    @small_formats
    def test_rounding_from_float32_is_what_a_third_party_does(self, name: str) -> None:
        form = FORMATS[name]
        with np.errstate(over="ignore", invalid="ignore"):
            values = neighbourhood(form).astype(np.float32)
            seen = values.astype(THIRD_PARTY[name]).view(form.code_dtype)
        assert the_same_numbers(form.decode_array(form.encode_array(values)), form.decode_array(seen))

    def test_rounding_from_float64_is_what_numpy_does_once(self) -> None:
        values = neighbourhood(FLOAT16)
        with np.errstate(over="ignore", under="ignore"):
            seen = values.astype(np.float16).view(np.uint16)
        assert the_same_numbers(FLOAT16.decode_array(FLOAT16.encode_array(values)), FLOAT16.decode_array(seen))

    def test_rounding_to_float32_is_what_numpy_does(self) -> None:
        generator = np.random.default_rng(1)
        values = generator.integers(0, 2**64, 200_000, dtype=np.uint64).view(np.float64)
        near = np.ldexp(generator.integers(2**24, 2**25, 200_000) / 2.0**24, generator.integers(-150, 129, 200_000))
        for numbers in (values, near, np.nextafter(near, 0)):
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                seen = numbers.astype(np.float32).view(np.uint32)
            assert the_same_numbers(FLOAT32.decode_array(FLOAT32.encode_array(numbers)), FLOAT32.decode_array(seen))

    @pytest.mark.parametrize("name", list(GFLOAT))
    @pytest.mark.parametrize("overflow", [None, Overflow.SATURATE])
    def test_rounding_from_float64_is_what_gfloat_does_once(self, name: str, overflow: Overflow | None) -> None:
        form = FORMATS[name]
        values = neighbourhood(form)[:: 1 if form.bits == 8 else 7]
        saturates = overflow is Overflow.SATURATE
        with np.errstate(all="ignore"):
            seen = gfloat.round_ndarray(GFLOAT[name], values, gfloat.RoundMode.TiesToEven, saturates)
        assert the_same_numbers(form.decode_array(form.encode_array(values, overflow)), np.asarray(seen))

    @pytest.mark.parametrize("name", [name for name, form in SMALL.items() if form.bits == 8])
    @pytest.mark.parametrize("overflow", [None, Overflow.SATURATE, Overflow.NAN])
    def test_scalar_and_array_agree_around_every_8_bit_code(self, name: str, overflow: Overflow | None) -> None:
        form = FORMATS[name]
        values = neighbourhood(form)[:: 1 if overflow is None else 5]
        one_by_one = [form.encode(float(value), overflow) for value in values]
        assert form.encode_array(values, overflow).tolist() == one_by_one

    @pytest.mark.parametrize("form", [FLOAT16, BFLOAT16, FLOAT32], ids=str)
    def test_scalar_and_array_agree_around_wider_codes(self, form: FloatFormat) -> None:
        generator = np.random.default_rng(2)
        codes = generator.integers(0, form.largest_code, 300).astype(np.uint64)
        codes = np.concatenate([codes, np.array([0, 1, form.largest_code, form.largest_code - 1], dtype=np.uint64)])
        numbers = form.magnitude_array(codes)
        ties = (numbers + form.magnitude_array(codes + 1)) / 2
        values = np.concatenate([numbers, ties, np.nextafter(ties, 0), np.nextafter(ties, np.inf)])
        values = np.concatenate([values, -values, [np.inf, -np.inf, np.nan]])
        assert form.encode_array(values).tolist() == [form.encode(float(value)) for value in values]

    @pytest.mark.parametrize("form", [FLOAT16, FLOAT8_E4M3FN], ids=str)
    def test_through_float32_scalar_and_array_agree(self, form: FloatFormat) -> None:
        values = neighbourhood(form)[::61]
        one_by_one = [form.encode_through(FLOAT32, float(value)) for value in values]
        assert form.encode_array_through(FLOAT32, values).tolist() == one_by_one

    @small_formats
    def test_a_number_of_the_format_keeps_its_code(self, name: str) -> None:
        form = FORMATS[name]
        codes = form.all_codes()
        numbers = form.decode_array(codes)
        kept = form.encode_array(numbers) == codes
        assert (kept | np.isnan(numbers)).all()

    @given(value=fractions, exponent_bits=st.integers(2, 8), mantissa_bits=st.integers(1, 12))
    def test_no_neighbour_is_nearer_and_ties_are_even(
        self, value: Fraction, exponent_bits: int, mantissa_bits: int
    ) -> None:
        form = FloatFormat(exponent_bits, mantissa_bits)
        code = form.round_magnitude(abs(value))
        error = abs(form.magnitude(code) - abs(value))
        others = [neighbour for neighbour in (code - 1, code + 1) if neighbour >= 0]
        distances = [abs(form.magnitude(neighbour) - abs(value)) for neighbour in others]
        assert all(error < other or (error == other and code % 2 == 0) for other in distances)

    def test_two_roundings_differ_from_one_just_above_a_tie(self) -> None:
        value = 1 + Fraction(1, 2**11) + Fraction(1, 2**40)
        assert FLOAT16.decode(FLOAT16.encode(value)) == 1 + Fraction(1, 2**10)
        assert FLOAT16.decode(FLOAT16.encode_through(FLOAT32, value)) == 1


class TestOverflow:
    def test_each_rule_gives_what_it_says(self) -> None:
        assert FLOAT8_E5M2.decode(FLOAT8_E5M2.encode(61440)) == math.inf
        assert FLOAT8_E5M2.decode(FLOAT8_E5M2.encode(61439)) == 57344
        assert FLOAT8_E5M2.decode(FLOAT8_E5M2.encode(-1e9, Overflow.SATURATE)) == -57344
        assert math.isnan(FLOAT8_E5M2.decode(FLOAT8_E5M2.encode(1e9, Overflow.NAN)))
        assert FLOAT8_E4M3FN.decode(FLOAT8_E4M3FN.encode(464)) == 448
        assert math.isnan(FLOAT8_E4M3FN.decode(FLOAT8_E4M3FN.encode(464.01)))
        assert FLOAT8_E4M3FN.decode(FLOAT8_E4M3FN.encode(math.inf, Overflow.SATURATE)) == 448
        assert FLOAT4_E2M1FN.decode(FLOAT4_E2M1FN.encode(1000)) == 6

    def test_what_a_format_lacks_is_refused(self) -> None:
        with pytest.raises(ValueError, match="no infinity"):
            FLOAT8_E4M3FN.encode(1000, Overflow.INFINITY)
        with pytest.raises(ValueError, match="no NaN"):
            FLOAT4_E2M1FN.encode(math.nan)
        with pytest.raises(ValueError, match="1 exponent bits"):
            FloatFormat(1, 2)
        with pytest.raises(ValueError, match="whole bytes"):
            FLOAT4_E2M1FN.bytes  # noqa: B018
        with pytest.raises(ValueError, match="in pieces"):
            FloatFormat(5, 11).all_codes()
        with pytest.raises(ValueError, match="single"):
            first_codes(FloatFormat(5, 11), FLOAT64)

    @pytest.mark.parametrize(
        "wider",
        [FloatFormat(10, 53), FloatFormat(11, 50, Specials.FN), FloatFormat(11, 52, Specials.FNUZ)],
        ids=["a bit longer", "twice as large", "half as small"],
    )
    def test_arrays_are_refused_where_float64_is_just_too_narrow(self, wider: FloatFormat) -> None:
        with pytest.raises(ValueError, match="float64 does not hold"):
            wider.encode_array(np.zeros(1))
        codes = np.random.default_rng(5).integers(0, 2**64, 1000, dtype=np.uint64)
        assert the_same_numbers(FLOAT64.decode_array(codes), codes.view(np.float64))

    def test_a_nan_has_the_highest_bit_of_its_mantissa_set(self) -> None:
        assert [form.nan_code for form in (FLOAT32, FLOAT16, BFLOAT16)] == [0x7FC00000, 0x7E00, 0x7FC0]

    def test_minus_zero_exists_where_the_format_has_it(self) -> None:
        assert FLOAT16.encode(-0.0) == 0x8000
        assert FLOAT16.encode(-1e-30) == 0x8000
        assert FLOAT8_E4M3FNUZ.encode(-0.0) == FLOAT8_E4M3FNUZ.encode(-1e-30) == 0
        assert FLOAT8_E4M3FNUZ.encode(math.nan) == FLOAT8_E4M3FNUZ.encode(-math.inf) == 0x80


class TestSameness:
    def test_zeros_differ_by_sign_and_nans_do_not(self) -> None:
        values: list[Fraction | float] = [
            Fraction(0),
            0.0,
            -0.0,
            1.0,
            -1.0,
            math.inf,
            -math.inf,
            math.nan,
            -math.nan,
        ]
        for left in values:
            for right in values:
                expected = repr(float(left)) == repr(float(right))
                assert same_value(left, right) == expected, (left, right)
                assert the_same_numbers(np.array([float(left)]), np.array([float(right)])) == expected


class TestStarts:
    @pytest.mark.parametrize(
        ("target", "source"),
        [
            (FLOAT8_E4M3FN, FLOAT16),
            (FLOAT8_E5M2, FLOAT16),
            (FLOAT8_E4M3FN, BFLOAT16),
            (FLOAT8_E4M3FNUZ, FLOAT16),
            (FLOAT16, FloatFormat(5, 11)),
        ],
    )
    def test_the_starts_tell_the_target_of_every_source_code(self, target: FloatFormat, source: FloatFormat) -> None:
        codes = np.arange(source.largest_code + 1, dtype=np.uint64)
        expected = target.round_magnitude_array(source.magnitude_array(codes))
        by_starts = np.searchsorted(first_codes(target, source), codes, side="right") - 1
        assert np.array_equal(np.minimum(expected, target.largest_code + 1), by_starts)

    def test_the_starts_are_exact_for_float32_sources(self) -> None:
        for target in (FLOAT16, BFLOAT16, FLOAT8_E4M3FN, FLOAT8_E5M2):
            starts = first_codes(target, FLOAT32)
            assert len(starts) == target.largest_code + 2
            for code in np.linspace(1, target.largest_code + 1, 40).astype(int):
                start = int(starts[code])
                assert target.round_magnitude(FLOAT32.magnitude(start)) == code
                assert target.round_magnitude(FLOAT32.magnitude(start - 1)) == code - 1

    def test_rounding_off_bits_is_rounding_to_the_shorter_format(self) -> None:
        generator = np.random.default_rng(3)
        codes = generator.integers(0, 2**32, 100_000, dtype=np.uint32)
        ties = (generator.integers(0, 2**16, 20_000, dtype=np.uint32) << np.uint32(16)) | np.uint32(0x8000)
        for wide in (
            codes,
            ties,
            np.array([0x7F800000, 0xFF800000, 0, 0x80000000, 0x7F7F8000], dtype=np.uint32),
        ):
            numbers = wide[~np.isnan(wide.view(np.float32))]
            expected = BFLOAT16.encode_array(numbers.view(np.float32))
            assert np.array_equal(round_off_low_bits(numbers, 16), expected)

    def test_a_source_without_the_ties_is_refused(self) -> None:
        as_coarse = FloatFormat(8, 2)
        without_the_last = FloatFormat(4, 4, Specials.FN)
        for target, source in (
            (FLOAT16, BFLOAT16),
            (BFLOAT16, FLOAT16),
            (FLOAT32, FLOAT64),
            (FLOAT8_E5M2, as_coarse),
            (FloatFormat(4, 3, Specials.NONE), without_the_last),
        ):
            with pytest.raises(ValueError, match=r"tie|single"):
                first_codes(target, source)


class TestErrors:
    @small_formats
    def test_no_midpoint_has_a_larger_relative_error_than_one_and_a_half_ulp(self, name: str) -> None:
        form = FORMATS[name]
        first_normal = 1 << form.mantissa_bits
        codes: Integer[np.ndarray, "codes"] = np.arange(first_normal, form.largest_code)
        errors = [form.midpoint(int(code)) for code in codes[:: max(1, len(codes) // 500)]]
        worst = max((form.ulp(tie) / 2) / tie for tie in errors)
        assert worst <= worst_relative_error(form.half_ulp)
        assert form.half_ulp / (1 + form.half_ulp) == worst_relative_error(form.half_ulp)

    def test_ulp_is_the_gap_to_the_next_number(self) -> None:
        for form in (FLOAT16, BFLOAT16, FLOAT8_E5M2FNUZ):
            for code in range(0, form.largest_code, 97 if form.bits == 16 else 1):
                gap = form.magnitude(code + 1) - form.magnitude(code)
                assert form.ulp(form.magnitude(code)) == gap
                assert form.ulp(-form.midpoint(code)) == gap

    def test_code_types_are_the_smallest_that_fit(self) -> None:
        assert [form.code_dtype for form in (FLOAT8_E5M2, FLOAT16, FLOAT32, FLOAT64)] == [
            np.dtype(np.uint8),
            np.dtype(np.uint16),
            np.dtype(np.uint32),
            np.dtype(np.uint64),
        ]
        assert FloatFormat(3, 2, Specials.FNUZ).code_count == 64
