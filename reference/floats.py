"""A codec for any binary floating-point format, built from the definition of such a format.

A format here is a sign bit, a number of exponent bits, a number of mantissa bits and a decision about what the topmost
codes mean. Everything else (the range, the precision, the code of a number, the number of a code) follows, and is
worked out with integers and fractions, so that no floating-point unit is asked about itself.

The formats, the four meanings of the topmost codes and rounding to the nearest even code are those of IEEE 754-2019
(sections 3.3 and 4.3.1) and of the two 8-bit formats and the 4-bit one of the Open Compute Project; the "fnuz" variants
spend the code of negative zero on their only NaN and shift the exponent by one.

The scalar functions are the definition. The array functions do the same in NumPy, for sweeps: they shift by powers of
two, which is exact, and round with NumPy's half-to-even. The tests hold the two against each other.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float64, Integer, UInt, UInt64

Value = Fraction | int | float
"""A number given exactly. Minus zero, the infinities and NaN have no fraction and come as floats."""


class Specials(Enum):
    """What the codes beside the finite numbers mean."""

    IEEE = "exponent all ones: infinity with a mantissa of zero, NaN with any other"
    FN = "all ones is NaN, once for each sign; there is no infinity"
    FNUZ = "the code of minus zero is the only NaN; there is no infinity and no minus zero"
    NONE = "every code is a finite number"


class Overflow(Enum):
    """What becomes of a number that rounds beyond the largest finite one, and of an infinity."""

    INFINITY = "the infinity of its sign"
    NAN = "NaN"
    SATURATE = "the largest finite number of its sign"


_USUAL_OVERFLOW = {
    Specials.IEEE: Overflow.INFINITY,
    Specials.FN: Overflow.NAN,
    Specials.FNUZ: Overflow.NAN,
    Specials.NONE: Overflow.SATURATE,
}


@dataclass(frozen=True)
class FloatFormat:
    """A floating-point format: one sign bit, then the exponent, then the mantissa, in one code.

    A magnitude code is a code without its sign bit. Magnitude codes are in the order of the numbers they stand for, so
    rounding to the nearest number, ties to the even one, is rounding to the nearest code, ties to the even code.

    Raises ValueError for fewer than two exponent bits or less than one mantissa bit.
    """

    exponent_bits: int
    mantissa_bits: int
    specials: Specials = Specials.IEEE

    def __post_init__(self) -> None:
        if self.exponent_bits < 2 or self.mantissa_bits < 1:
            raise ValueError(
                f"{self.exponent_bits} exponent bits and {self.mantissa_bits} mantissa bits leave no normal "
                "numbers between the subnormals and the special codes; give at least 2 and 1"
            )

    # ── widths ──

    @property
    def bits(self) -> int:
        """Bits of a code, its sign included."""
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def bytes(self) -> int:
        """Bytes of a code. Raises ValueError where a code does not fill whole bytes."""
        if self.bits % 8:
            raise ValueError(f"{self.bits} bits do not fill whole bytes; use .bits")
        return self.bits // 8

    @property
    def code_count(self) -> int:
        """Number of codes."""
        return 1 << self.bits

    @property
    def sign_code(self) -> int:
        """The code with nothing but the sign bit set."""
        return 1 << (self.bits - 1)

    @property
    def bias(self) -> int:
        """What is taken off the exponent field to get the exponent."""
        half = 1 << (self.exponent_bits - 1)
        return half if self.specials is Specials.FNUZ else half - 1

    @property
    def smallest_exponent(self) -> int:
        """Exponent of the smallest normal number."""
        return 1 - self.bias

    # ── codes with a name ──

    @property
    def largest_code(self) -> int:
        """Code of the largest finite number."""
        all_ones = self.sign_code - 1
        if self.specials is Specials.IEEE:
            return all_ones - (1 << self.mantissa_bits)
        return all_ones - 1 if self.specials is Specials.FN else all_ones

    @property
    def infinity_code(self) -> int:
        """Code of plus infinity. Raises ValueError where the format has none."""
        if self.specials is not Specials.IEEE:
            raise ValueError(f"{self} has no infinity: {self.specials.value}; use another overflow rule")
        return self.largest_code + 1

    @property
    def nan_code(self) -> int:
        """Code of a quiet NaN. Raises ValueError where the format has none."""
        if self.specials is Specials.NONE:
            raise ValueError(f"{self} has no NaN: {self.specials.value}; give it numbers only")
        if self.specials is Specials.FNUZ:
            return self.sign_code
        if self.specials is Specials.FN:
            return self.sign_code - 1
        return self.infinity_code | 1 << (self.mantissa_bits - 1)

    @property
    def usual_overflow(self) -> Overflow:
        """The overflow rule that the format itself suggests: infinity where it has one, else NaN, else saturation."""
        return _USUAL_OVERFLOW[self.specials]

    # ── derived quantities ──

    @property
    def largest(self) -> Fraction:
        """The largest finite number."""
        return self.magnitude(self.largest_code)

    @property
    def smallest_normal(self) -> Fraction:
        """The smallest number with a full mantissa."""
        return power_of_two(self.smallest_exponent)

    @property
    def smallest_subnormal(self) -> Fraction:
        """The smallest number above zero."""
        return power_of_two(self.smallest_exponent - self.mantissa_bits)

    @property
    def eps(self) -> Fraction:
        """Distance from 1 to the next number."""
        return power_of_two(-self.mantissa_bits)

    @property
    def half_ulp(self) -> Fraction:
        """Half of eps: the largest rounding error between 1 and 2, the unit roundoff u."""
        return self.eps / 2

    @property
    def flush_limit(self) -> Fraction:
        """The largest magnitude that rounds to zero: it is a tie between the codes 0 and 1, and 0 is even."""
        return self.smallest_subnormal / 2

    @property
    def overflow_limit(self) -> Fraction:
        """The midpoint between the largest finite number and the next one, if there were a next one.

        Magnitudes below it round to the largest finite number, magnitudes above it overflow. The limit itself is a tie,
        and overflows where the largest code is odd.
        """
        return self.midpoint(self.largest_code)

    def ulp(self, value: Value) -> Fraction:
        """Distance between neighbouring numbers in the binade of a finite value, the subnormals being one binade."""
        return power_of_two(max(_exponent(abs(Fraction(value))), self.smallest_exponent) - self.mantissa_bits)

    def magnitude(self, code: int) -> Fraction:
        """The number a magnitude code stands for, as if no code were special and codes went on for ever."""
        field, mantissa = divmod(code, 1 << self.mantissa_bits)
        if field == 0:
            return mantissa * self.smallest_subnormal
        significand = (1 << self.mantissa_bits) + mantissa
        return significand * power_of_two(field - self.bias - self.mantissa_bits)

    def midpoint(self, code: int) -> Fraction:
        """The number halfway between a magnitude code and the next: a rounding tie."""
        return (self.magnitude(code) + self.magnitude(code + 1)) / 2

    # ── one code, one number ──

    def decode(self, code: int) -> Fraction | float:
        """The exact number of a code; minus zero, the infinities and NaN as floats.

        Raises ValueError for a code outside of the format.
        """
        if not 0 <= code < self.code_count:
            raise ValueError(f"{code:#x} is not a code of {self}: codes run from 0 to {self.code_count - 1:#x}")
        negative, magnitude_code = divmod(code, self.sign_code)
        sign = -1 if negative else 1
        if self.specials is Specials.FNUZ and code == self.sign_code:
            return math.nan
        if magnitude_code > self.largest_code:
            is_infinity = self.specials is Specials.IEEE and magnitude_code == self.infinity_code
            return sign * math.inf if is_infinity else math.nan
        if negative and magnitude_code == 0:
            return -0.0
        return sign * self.magnitude(magnitude_code)

    def encode(self, value: Value, overflow: Overflow | None = None) -> int:
        """The code of a number, rounded once, to nearest with ties to even; NaN becomes a quiet NaN of its sign.

        Without an overflow rule the format's usual one applies. Raises ValueError for the rule "infinity" in a format
        that has none, and for NaN likewise.
        """
        negative = math.copysign(1.0, value) == -1.0 if isinstance(value, float) else value < 0
        if isinstance(value, float) and not math.isfinite(value):
            special = self.nan_code if math.isnan(value) else self._overflowed(overflow)
            return self._signed(special, negative)
        rounded = self.round_magnitude(abs(Fraction(value)))
        return self._signed(rounded if rounded <= self.largest_code else self._overflowed(overflow), negative)

    def encode_through(self, intermediate: "FloatFormat", value: Value, overflow: Overflow | None = None) -> int:
        """The code of a number that is rounded to another format first: two roundings."""
        return self.encode(intermediate.decode(intermediate.encode(value)), overflow)

    def round_magnitude(self, magnitude: Fraction) -> int:
        """The magnitude code nearest to a number that is not negative, ties to even, as if codes went on for ever."""
        exponent = max(_exponent(magnitude), self.smallest_exponent)
        units = round(magnitude / power_of_two(exponent - self.mantissa_bits))
        return ((exponent - self.smallest_exponent) << self.mantissa_bits) + units

    def _overflowed(self, overflow: Overflow | None) -> int:
        """Magnitude code of whatever lies beyond the largest finite number."""
        rule = overflow or self.usual_overflow
        if rule is Overflow.SATURATE:
            return self.largest_code
        return self.infinity_code if rule is Overflow.INFINITY else self.nan_code

    def _signed(self, magnitude_code: int, negative: bool) -> int:
        """The magnitude code with its sign; a format without minus zero keeps plus zero and its one NaN."""
        if self.specials is Specials.FNUZ and magnitude_code in (0, self.sign_code):
            return magnitude_code
        return magnitude_code | self.sign_code if negative else magnitude_code

    # ── the same for arrays ──

    def decode_array(self, codes: Integer[np.ndarray, "..."]) -> Float64[np.ndarray, "..."]:
        """The numbers of many codes, exactly, as float64. Raises ValueError for a format that float64 cannot hold."""
        self._check_float64_holds()
        wide = codes.astype(np.uint64)
        magnitudes = self.magnitude_array(wide & np.uint64(self.sign_code - 1))
        special = (wide & np.uint64(self.sign_code - 1)) > np.uint64(self.largest_code)
        magnitudes[special] = np.nan
        if self.specials is Specials.IEEE:
            magnitudes[(wide & np.uint64(self.sign_code - 1)) == np.uint64(self.infinity_code)] = np.inf
        values = np.where(wide & np.uint64(self.sign_code), -magnitudes, magnitudes)
        if self.specials is Specials.FNUZ:
            values[wide == np.uint64(self.sign_code)] = np.nan
        return values

    def encode_array(
        self, values: Float[np.ndarray, "..."], overflow: Overflow | None = None
    ) -> UInt[np.ndarray, "..."]:
        """The codes of many float32 or float64 numbers, each rounded once, to nearest with ties to even.

        Rules and errors are those of encode.
        """
        wide = np.asarray(values, dtype=np.float64)
        negative = np.signbit(wide)
        finite = np.isfinite(wide)
        rounded = self.round_magnitude_array(np.where(finite, np.abs(wide), 0.0))
        beyond = ~np.isnan(wide) & (~finite | (rounded > np.uint64(self.largest_code)))
        if beyond.any():
            rounded[beyond] = self._overflowed(overflow)
        if np.isnan(wide).any():
            rounded[np.isnan(wide)] = self.nan_code
        signed = np.where(negative, rounded | np.uint64(self.sign_code), rounded)
        if self.specials is Specials.FNUZ:
            signed[rounded == 0] = 0
        return signed.astype(self.code_dtype)

    def encode_array_through(
        self, intermediate: "FloatFormat", values: Float[np.ndarray, "..."], overflow: Overflow | None = None
    ) -> UInt[np.ndarray, "..."]:
        """The codes of many numbers that are rounded to another format first: two roundings."""
        return self.encode_array(intermediate.decode_array(intermediate.encode_array(values)), overflow)

    def magnitude_array(self, codes: UInt64[np.ndarray, "..."]) -> Float64[np.ndarray, "..."]:
        """The numbers of many magnitude codes, as if no code were special; infinity beyond float64."""
        field = (codes >> np.uint64(self.mantissa_bits)).astype(np.int64)
        mantissa = (codes & np.uint64((1 << self.mantissa_bits) - 1)).astype(np.int64)
        significand = mantissa + np.where(field > 0, 1 << self.mantissa_bits, 0)
        exponent = np.maximum(field, 1) - self.bias - self.mantissa_bits
        with np.errstate(over="ignore"):
            return np.asarray(np.ldexp(significand.astype(np.float64), exponent.astype(np.int32)))

    def round_magnitude_array(self, magnitudes: Float64[np.ndarray, "..."]) -> UInt64[np.ndarray, "..."]:
        """The magnitude codes nearest to finite magnitudes, as if codes went on for ever."""
        self._check_float64_holds()
        exponent = np.maximum(np.frexp(magnitudes)[1].astype(np.int64) - 1, self.smallest_exponent)
        exponent = np.where(magnitudes == 0, self.smallest_exponent, exponent)
        units = np.rint(np.ldexp(magnitudes, (self.mantissa_bits - exponent).astype(np.int32)))
        codes = ((exponent - self.smallest_exponent) << self.mantissa_bits) + units.astype(np.int64)
        return np.asarray(codes.astype(np.uint64))

    def all_codes(self) -> UInt[np.ndarray, "codes"]:
        """Every code, in order. Raises ValueError above 16 bits: sweep those in pieces."""
        if self.bits > 16:
            raise ValueError(f"{self} has 2**{self.bits} codes, too many for one array; sweep them in pieces")
        return np.arange(self.code_count, dtype=np.uint32).astype(self.code_dtype)

    @property
    def code_dtype(self) -> np.dtype[Any]:
        """The smallest unsigned NumPy type that holds a code."""
        return np.dtype(f"uint{next(width for width in (8, 16, 32, 64) if width >= self.bits)}")

    def _check_float64_holds(self) -> None:
        """Raise unless float64 holds every number of this format."""
        smallest_exponent = self.smallest_exponent - self.mantissa_bits
        largest_exponent = _exponent(self.largest)
        if self.mantissa_bits > 52 or smallest_exponent < -1074 or largest_exponent > 1023:
            raise ValueError(f"float64 does not hold every number of {self}; use the scalar functions")

    def __str__(self) -> str:
        return f"a format of {self.exponent_bits} exponent and {self.mantissa_bits} mantissa bits"


FLOAT64 = FloatFormat(11, 52)
FLOAT32 = FloatFormat(8, 23)
FLOAT16 = FloatFormat(5, 10)
BFLOAT16 = FloatFormat(8, 7)
FLOAT8_E4M3FN = FloatFormat(4, 3, Specials.FN)
FLOAT8_E5M2 = FloatFormat(5, 2)
FLOAT8_E4M3FNUZ = FloatFormat(4, 3, Specials.FNUZ)
FLOAT8_E5M2FNUZ = FloatFormat(5, 2, Specials.FNUZ)
FLOAT4_E2M1FN = FloatFormat(2, 1, Specials.NONE)

FORMATS: Mapping[str, FloatFormat] = MappingProxyType(
    {
        "float64": FLOAT64,
        "float32": FLOAT32,
        "float16": FLOAT16,
        "bfloat16": BFLOAT16,
        "float8_e4m3fn": FLOAT8_E4M3FN,
        "float8_e5m2": FLOAT8_E5M2,
        "float8_e4m3fnuz": FLOAT8_E4M3FNUZ,
        "float8_e5m2fnuz": FLOAT8_E5M2FNUZ,
    }
)
"""The formats that store one number an element, by the name their dtype carries, widest first."""


def worst_relative_error(half_ulp: Fraction) -> Fraction:
    """The largest |rounded - x| / |x| of rounding to nearest: half_ulp / (1 + half_ulp), where x = 1 + half_ulp."""
    return half_ulp / (1 + half_ulp)


def widths_from_behaviour(largest: Value, eps: Value) -> tuple[int, int]:
    """The (exponent bits, mantissa bits) of an IEEE-style format, from its largest finite number and its eps alone.

    The largest exponent of a format with e exponent bits is 2**(e - 1) - 1, and eps is 2**-mantissa_bits. Raises
    ValueError where the two are not those of any such format.
    """
    mantissa_bits = -_exponent(Fraction(eps))
    exponent_bits = _exponent(Fraction(largest)).bit_length() + 1
    if FloatFormat(exponent_bits, mantissa_bits).largest != Fraction(largest):
        raise ValueError(
            f"no IEEE-style format has the largest finite number {largest} and the eps {eps}: widths of "
            f"{exponent_bits} exponent and {mantissa_bits} mantissa bits come nearest"
        )
    return exponent_bits, mantissa_bits


def first_codes(target: FloatFormat, source: FloatFormat) -> UInt64[np.ndarray, "targets"]:
    """For each magnitude code of the target, the smallest magnitude code of the source that rounds to it.

    Codes go from 0 to the first one beyond the largest finite number, so the last entry is where overflow starts.
    Rounding keeps order, so these starts tell the target code of every source code: a sweep of 2**32 patterns needs no
    arithmetic. Raises ValueError unless the source represents every rounding tie of the target, and for targets of more
    than 16 bits, whose starts would fill memory.
    """
    if target.bits > 16:
        raise ValueError(f"{target} has too many codes for one array; ask midpoint() for single ones")
    finer = source.mantissa_bits > target.mantissa_bits
    last = target.midpoint(target.largest_code)
    if not finer or source.smallest_subnormal > target.flush_limit or source.largest < last:
        raise ValueError(f"{source} does not hold every tie of {target}; take a wider source")
    codes = np.arange(target.largest_code + 1, dtype=np.uint64)
    ties = source.round_magnitude_array((target.magnitude_array(codes) + target.magnitude_array(codes + 1)) / 2)
    return np.concatenate([np.zeros(1, dtype=np.uint64), ties + (codes % 2 == 0)])


def round_off_low_bits(codes: UInt[np.ndarray, "..."], dropped: int) -> UInt64[np.ndarray, "..."]:
    """Codes with their lowest bits rounded off in integers, to nearest with ties to even.

    A code is cut and one is added where what was cut is more than half, or half and the rest is odd. This is what
    rounding to a format with the same exponent width and a shorter mantissa does to every number and infinity.
    """
    wide = codes.astype(np.uint64)
    kept = wide >> np.uint64(dropped)
    cut = wide & np.uint64((1 << dropped) - 1)
    half = np.uint64(1 << (dropped - 1))
    return np.asarray(kept + ((cut > half) | ((cut == half) & (kept % 2 == 1))))


def same_value(left: Value, right: Value) -> bool:
    """Whether two numbers are the same: both NaN, or equal and of the same sign, zero's sign included."""
    both_nan = left != left and right != right
    return both_nan or (left == right and _is_minus_zero(left) == _is_minus_zero(right))


def same_values(left: Float64[np.ndarray, "..."], right: Float64[np.ndarray, "..."]) -> Bool[np.ndarray, "..."]:
    """The same for arrays, element by element."""
    both_nan = np.isnan(left) & np.isnan(right)
    return np.asarray(both_nan | ((left == right) & (np.signbit(left) == np.signbit(right))))


def _is_minus_zero(value: Value) -> bool:
    return isinstance(value, float) and value == 0 and math.copysign(1.0, value) == -1.0


def power_of_two(exponent: int) -> Fraction:
    """2**exponent, exactly."""
    return Fraction(2) ** exponent


def _exponent(magnitude: Fraction) -> int:
    """The e of 2**e <= magnitude < 2**(e + 1); for zero a number below every exponent."""
    if magnitude == 0:
        return -(1 << 62)
    estimate = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    return estimate if magnitude >= power_of_two(estimate) else estimate - 1
