"""Floating-point numbers as bit patterns, drawn around the places where rounding decides.

A number that is drawn as a number is hardly ever a tie. So these strategies draw a code of the format that will be
rounded to, and a place in the gap above it: on the code, just beside it, just below, at and just above the midpoint,
just below the next code. Subnormals, the overflow edge, both zeros, infinities and NaN payloads each get a share.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

import numpy as np
import torch
from einops import rearrange
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from jaxtyping import Shaped, UInt
from torch import Tensor

from properties.instruments.formats import dtype_of, from_codes
from properties.strategies.description import Description
from reference.dtypes import DTYPES, Kind
from reference.floats import FLOAT32, FORMATS, FloatFormat, Value, same_value

# ── numbers as bit patterns ──


@dataclass(frozen=True, repr=False)
class Pattern(Description):
    """One bit pattern of a floating-point format: a number, an infinity or a NaN with its payload."""

    format: str
    bits: int

    def build(self) -> Shaped[Tensor, "1"]:
        """A tensor of this one element."""
        return from_codes(np.array([self.bits], dtype=FORMATS[self.format].code_dtype), dtype_of(self.format))

    @property
    def exact(self) -> Fraction | float:
        """The number it stands for, exactly; minus zero, infinities and NaN as floats."""
        return FORMATS[self.format].decode(self.bits)

    @property
    def value(self) -> float:
        """The number as a Python float, which float64 and everything narrower fits into."""
        return float(self.exact)

    @property
    def is_nan(self) -> bool:
        """Whether it is no number."""
        return self.value != self.value

    def expression(self) -> str:
        width = FORMATS[self.format].bits
        return f"torch.tensor([{self.bits:#x}], dtype=torch.uint{width}).view(torch.{self.format})"


def pattern_of(value: float, format: str = "float64") -> Pattern:
    """The pattern of a number that the format holds exactly. Raises ValueError where it does not."""
    bits = FORMATS[format].encode(value)
    if not same_value(float(FORMATS[format].decode(bits)), value):
        raise ValueError(f"{value!r} is not a number of {format}: give one that is, or its bits")
    return Pattern(format, bits)


@dataclass(frozen=True, repr=False)
class Placement(Description):
    """How copies of one number lie: their shape, and how far apart their last dimension strides.

    Kernels treat long and short, contiguous and strided tensors by different code. A step of 0 is one element,
    expanded.
    """

    shape: tuple[int, ...] = (1,)
    step: int = 1

    def of(self, one: Shaped[Tensor, "1"]) -> Shaped[Tensor, "..."]:
        """The copies."""
        if self.step == 0 or not self.shape:
            return one[0].expand(self.shape)
        *leading, last = self.shape
        return one.repeat(*leading, last * self.step)[..., :: self.step]


signs: SearchStrategy[int] = st.sampled_from([1, -1])
"""The sign of a number, as a factor."""

placements: SearchStrategy[Placement] = st.builds(
    Placement,
    shape=st.sampled_from([(1,), (), (2,), (7,), (8,), (15,), (16,), (17,), (33,), (64,), (100,), (3, 5)]),
    step=st.sampled_from([1, 2, 3, 0]),
)
"""Rank 0 and 1 and 2, one element to a hundred, contiguous, strided and expanded."""


class Place(Enum):
    """A place in the gap between one code of a format and the next, simplest first."""

    CODE = "on the code"
    TIE = "at the midpoint"
    ABOVE_CODE = "just above the code"
    BELOW_TIE = "just below the midpoint"
    ABOVE_TIE = "just above the midpoint"
    BELOW_NEXT = "just below the next code"
    FIRST_TIE_ABOVE = "as far above the midpoint as a first rounding to float32 can make up for"
    FIRST_TIE_BELOW = "as far below the midpoint as that"
    BEYOND_FIRST_TIE_ABOVE = "just farther above"
    BEYOND_FIRST_TIE_BELOW = "just farther below"


_BESIDE = {Place.ABOVE_CODE: 1, Place.BELOW_TIE: -1, Place.ABOVE_TIE: 1, Place.BELOW_NEXT: -1}
_FIRST_ROUNDING = {
    Place.FIRST_TIE_ABOVE: (1, 0),
    Place.FIRST_TIE_BELOW: (-1, 0),
    Place.BEYOND_FIRST_TIE_ABOVE: (1, 1),
    Place.BEYOND_FIRST_TIE_BELOW: (-1, -1),
}
_ONCE = tuple(Place)[:6]
_TWICE = (*_ONCE, Place.TIE, *_FIRST_ROUNDING)


def code_at(place: Place, code: int, target: FloatFormat, source: FloatFormat) -> int:
    """The magnitude code of the source at a place in the gap of the target above one of its codes."""
    if place in _FIRST_ROUNDING:
        side, beyond = _FIRST_ROUNDING[place]
        tie = target.midpoint(code)
        return source.round_magnitude(tie + side * FLOAT32.ulp(tie) / 2) + beyond
    if place in (Place.CODE, Place.ABOVE_CODE):
        number = target.magnitude(code)
    elif place is Place.BELOW_NEXT:
        number = target.magnitude(code + 1)
    else:
        number = target.midpoint(code)
    return source.round_magnitude(number) + _BESIDE.get(place, 0)


@st.composite
def _near_code(
    draw: DrawFn, target: FloatFormat, source: str, codes: SearchStrategy[int], places: SearchStrategy[Place]
) -> Pattern:
    form = FORMATS[source]
    bits = min(code_at(draw(places), draw(codes), target, form), form.largest_code)
    return Pattern(source, bits | form.sign_code if draw(st.booleans()) else bits)


def near_codes(target: str, source: str = "float32") -> SearchStrategy[Pattern]:
    """Finite numbers of ``source`` around the codes of ``target`` and the midpoints between them, of both signs.

    A quarter each: from zero through the subnormals, between 1 and 2, anywhere, and at the edge of overflow. A float64
    may be rounded to float32 on the way, so there the places where that first rounding decides are drawn too.
    """
    edge = st.integers(0, 2).map(lambda below: FORMATS[target].largest_code - below)
    return st.one_of(inner_codes(target, source), _near(target, source, edge))


def inner_codes(target: str, source: str = "float32") -> SearchStrategy[Pattern]:
    """The same without the edge of overflow: every number rounds to a finite one."""
    form = FORMATS[target]
    one = form.encode(1)
    regions = (
        st.integers(one, one + (1 << form.mantissa_bits) - 1),
        st.integers(0, 1 << form.mantissa_bits),
        st.integers(0, form.largest_code - 1),
    )
    return st.one_of(*[_near(target, source, codes) for codes in regions])


def _near(target: str, source: str, codes: SearchStrategy[int]) -> SearchStrategy[Pattern]:
    twice = source == "float64" and target != "float32"
    return _near_code(FORMATS[target], source, codes, st.sampled_from(_TWICE if twice else _ONCE))


def conversions(
    *targets: str, source: str = "float64", numbers: Callable[[str, str], SearchStrategy[Pattern]] = near_codes
) -> SearchStrategy[tuple[torch.dtype, Pattern]]:
    """A dtype to convert to, with a number drawn for it; one branch a target."""
    return st.one_of(*[st.tuples(st.just(dtype_of(name)), numbers(name, source)) for name in targets])


def ties(target: str, source: str = "float32") -> SearchStrategy[Pattern]:
    """Midpoints between neighbouring codes of ``target``, as numbers of ``source``, of both signs."""
    form, wide = FORMATS[target], FORMATS[source]
    codes = st.integers(0, form.largest_code - 1)
    return st.builds(
        lambda code, sign: Pattern(source, wide.round_magnitude(form.midpoint(code)) | sign),
        codes,
        st.sampled_from([0, wide.sign_code]),
    )


def nans(source: str = "float32") -> SearchStrategy[Pattern]:
    """NaNs of an IEEE-style format: quiet and signalling ones, of both signs, with any payload."""
    form = FORMATS[source]
    top = 1 << form.mantissa_bits
    payloads = st.one_of(st.sampled_from([top // 2, 1, top - 1, top // 2 + 1]), st.integers(1, top - 1))
    signed = st.sampled_from([0, form.sign_code])
    return st.builds(lambda payload, sign: Pattern(source, form.infinity_code + payload | sign), payloads, signed)


def subnormals(source: str = "float32") -> SearchStrategy[Pattern]:
    """Numbers between zero and the smallest normal one, of both signs."""
    form = FORMATS[source]
    codes = st.integers(1, (1 << form.mantissa_bits) - 1)
    return st.builds(lambda code, sign: Pattern(source, code | sign), codes, st.sampled_from([0, form.sign_code]))


def extremes(source: str = "float32") -> SearchStrategy[Pattern]:
    """Both zeros, both infinities, and the smallest and largest numbers of each kind, of both signs."""
    form = FORMATS[source]
    first_normal = 1 << form.mantissa_bits
    magnitudes = (0, form.infinity_code, 1, first_normal - 1, first_normal, form.largest_code)
    return st.builds(
        lambda code, sign: Pattern(source, code | sign),
        st.sampled_from(magnitudes),
        st.sampled_from([0, form.sign_code]),
    )


def patterns(target: str, source: str = "float32") -> SearchStrategy[Pattern]:
    """Any bit pattern of ``source``, around the codes of ``target`` for the most part; also specials and NaNs."""
    near = near_codes(target, source)
    return st.one_of(near, near, near, near, extremes(source), nans(source), bit_patterns(source))


def numbers(target: str, source: str = "float32") -> SearchStrategy[Pattern]:
    """The same without NaNs: every pattern stands for a number or an infinity."""
    near = near_codes(target, source)
    return st.one_of(near, near, near, near, extremes(source))


def bit_patterns(source: str) -> SearchStrategy[Pattern]:
    """Bit patterns of a format field by field: any sign, the exponents at both ends and any other, any mantissa."""
    form = FORMATS[source]
    highest, top = (1 << form.exponent_bits) - 1, (1 << form.mantissa_bits) - 1
    exponents = st.one_of(st.sampled_from([form.bias, 0, 1, highest, highest - 1]), st.integers(0, highest))
    mantissas = st.one_of(st.sampled_from([0, 1, top, top - 1, top // 2, top // 2 + 1]), st.integers(0, top))
    return st.builds(
        lambda sign, exponent, mantissa: Pattern(source, sign | exponent << form.mantissa_bits | mantissa),
        st.sampled_from([0, form.sign_code]),
        exponents,
        mantissas,
    )


def codes_at_field_ends(form: FloatFormat) -> UInt[np.ndarray, "codes"]:
    """Every sign and exponent of a format with eight mantissas: two at either end and four in the middle."""
    top, middle = 1 << form.mantissa_bits, 1 << (form.mantissa_bits - 1)
    mantissas = np.array([0, 1, middle - 1, middle, middle + 1, middle + 2, top - 2, top - 1], dtype=np.uint64)
    exponents = np.arange(1 << form.exponent_bits, dtype=np.uint64) << np.uint64(form.mantissa_bits)
    positive = rearrange(exponents, "exponent -> exponent 1") | mantissas
    codes = np.stack([positive, positive | np.uint64(form.sign_code)])
    return rearrange(codes, "sign exponent mantissa -> (exponent mantissa sign)").astype(form.code_dtype)


@st.composite
def magnitudes_between(draw: DrawFn, low: Value, high: Value, format: str = "float64") -> float:
    """Numbers of a format from ``low`` to ``high``, both included, as Python floats.

    They are on every scale between the two, and close to either. Neither end is negative; one that the format does not
    hold is rounded to it. Raises ValueError where nothing lies between.
    """
    form = FORMATS[format]
    first, last = form.encode(low), form.encode(high)
    if last < first:
        raise ValueError(f"no magnitudes from {low} to {high}: give the smaller one first")
    steps = st.integers(0, (last - first).bit_length()).map(lambda power: min((1 << power) - 1, last - first))
    near_last, near_first = steps.map(lambda step: last - step), steps.map(lambda step: first + step)
    return float(form.decode(draw(st.one_of(near_last, near_first, st.integers(first, last)))))


@st.composite
def whole_numbers_near(draw: DrawFn, target: str) -> int:
    """Whole numbers of up to 62 bits on the codes of a format, beside them, at the midpoints and beside those."""
    kept = FORMATS[target].mantissa_bits + 1
    dropped = draw(st.integers(0, 62 - kept))
    half = 1 << dropped >> 1
    code = draw(st.one_of(st.integers(1 << kept - 1, (1 << kept) - 1), st.integers(0, 9)))
    tail = draw(st.sampled_from([half, 0, 1, half - 1, half + 1]))
    return draw(signs) * ((code << dropped) + (tail if dropped > 1 else half))


def whole_conversions(*targets: str) -> SearchStrategy[tuple[torch.dtype, int]]:
    """A dtype to convert to, with a whole number drawn for it; one branch a target."""
    return st.one_of(*[st.tuples(st.just(dtype_of(name)), whole_numbers_near(name)) for name in targets])


def in_range_of(*names: str) -> SearchStrategy[tuple[torch.dtype, float]]:
    """An integer dtype, and a float32 whose whole part it holds."""
    branches = []
    for name in names:
        dtype = DTYPES[name]
        bits = dtype.bits - (dtype.kind is Kind.SIGNED)
        below = float(FLOAT32.decode(FLOAT32.encode(2**bits) - 1))
        sign = signs if dtype.kind is Kind.SIGNED else st.just(1)
        values = st.builds(lambda magnitude, sign: sign * magnitude, magnitudes_between(0, below, "float32"), sign)
        branches.append(st.tuples(st.just(dtype_of(name)), values))
    return st.one_of(branches)


def beyond_the_range_of(*names: str) -> SearchStrategy[tuple[torch.dtype, float]]:
    """A floating-point dtype, and a finite float32 magnitude above its largest: near it, or anywhere up to the last."""
    branches = []
    for name in names:
        form = FORMATS[name]
        first = FLOAT32.magnitude(FLOAT32.encode(form.largest) + 1)
        for last in (form.overflow_limit, 2 * form.overflow_limit, FLOAT32.largest):
            branches.append(st.tuples(st.just(dtype_of(name)), magnitudes_between(first, last, "float32")))
    return st.one_of(branches)


# ── dtypes ──


def torch_dtypes(*kinds: Kind) -> tuple[torch.dtype, ...]:
    """The dtypes of the installed torch of the given kinds, or all of them, in the order of the reference table."""
    names = (name for name, dtype in DTYPES.items() if not kinds or dtype.kind in kinds)
    return tuple(dtype_of(name) for name in names if hasattr(torch, name))


dtypes: SearchStrategy[torch.dtype] = st.sampled_from(torch_dtypes())
"""Every dtype of the installed torch."""

float_dtypes: SearchStrategy[torch.dtype] = st.sampled_from([dtype_of(name) for name in FORMATS])
"""The floating-point dtypes that hold one number an element, widest first."""
