"""Worlds in which number formats are other than they are.

Most change conversions below torch's Python surface, on the dispatcher, so that ``to``, ``half``, ``copy_`` and
assignment from a tensor are all reached. Numbers that come out of Python never pass there: where they matter,
``torch.tensor`` is changed too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Shaped
from torch import Tensor

from properties.instruments.formats import codes_of, format_of, from_codes, numbers_of
from properties.mutants.dispatch import Below
from properties.mutants.mutant import mutant, patched
from reference.floats import FORMATS, FloatFormat

Conversion = Callable[[Shaped[Tensor, "..."], torch.dtype], Shaped[Tensor, "..."] | None]
"""From a tensor and the dtype asked for to what comes out, or None where torch converts as always."""

_FLOATS = frozenset(getattr(torch, name) for name in FORMATS)
_NARROW = frozenset(dtype for dtype in _FLOATS if dtype.itemsize < 4)
_16_BIT = (torch.float16, torch.bfloat16)
_aten: Any = torch.ops.aten


@contextmanager
def _converting(convert: Conversion) -> Iterator[None]:
    """A world in which tensors convert so, into new tensors and into old ones; Python floats too, where torch.tensor is
    told a narrow dtype.
    """
    original = torch.tensor

    def tensor(data: Any, *, dtype: torch.dtype | None = None, **rest: Any) -> Shaped[Tensor, "..."]:
        if dtype in _NARROW:
            return original(data, dtype=torch.float64, **rest).to(dtype)
        return original(data, dtype=dtype, **rest)

    def into_a_new(run: Callable[[], Any], x: Any, *, dtype: torch.dtype | None = None, **rest: Any) -> Any:
        converted = None if dtype in (None, x.dtype) else convert(x, dtype)
        return run() if converted is None else converted

    def into_an_old(run: Callable[[], Any], old: Any, x: Any, *rest: Any) -> Any:
        converted = None if old.dtype == x.dtype else convert(x, old.dtype)
        return run() if converted is None else old.copy_(converted)

    with patched(torch, "tensor", tensor), Below(into_a_new, _aten._to_copy), Below(into_an_old, _aten.copy_):
        yield


def _is_rounded(x: Shaped[Tensor, "..."], dtype: torch.dtype) -> bool:
    """Whether a conversion can round: from one floating-point format to a narrower one, with the data at hand."""
    return x.dtype in _FLOATS and dtype in _NARROW and dtype.itemsize < x.itemsize and not x.is_meta


def _in_float32(x: Shaped[Tensor, "..."]) -> Float64[np.ndarray, "..."]:
    return numbers_of(x.to(torch.float32))


# ── rounding ──


@mutant(
    "rounds-half-up",
    breaks=(
        "formats.fp16.flushes-1e-8",
        "formats.fp16.flush-reason",
        "formats.bf16.is-truncated-fp32",
        "formats.bf16.keeps-1e-8",
        "formats.fp8.overflow",
        "formats.fp64-to-fp16.rounds-twice",
    ),
    properties=(
        "test_float16_flushes_1e_8",
        "test_float16_flushes_float32_tensors_of_every_layout",
        "test_what_is_below_the_smallest_float16_becomes_zero",
        "test_every_float16_starts_at_the_float32_that_rounding_says",
        "test_bfloat16_is_the_upper_half_of_float32",
        "test_bfloat16_flushes_up_to_two_to_the_minus_134",
        "test_every_fp8_starts_at_the_float32_that_rounding_says",
        "test_every_16_bit_number_becomes_the_fp8_that_rounding_says",
        "test_a_float64_is_rounded_to_float32_first",
        "test_two_roundings_lose_what_is_just_above_an_even_midpoint",
    ),
)
def rounds_half_up() -> Iterator[None]:
    """Conversions to 8- and 16-bit formats round ties away from zero."""

    def convert(x: Shaped[Tensor, "..."], dtype: torch.dtype) -> Shaped[Tensor, "..."] | None:
        if not _is_rounded(x, dtype):
            return None
        form, values = format_of(dtype), _in_float32(x)
        codes = codes_of(x.to(dtype))
        magnitudes = codes.astype(np.uint64) & np.uint64(form.sign_code - 1)
        midpoints = (form.magnitude_array(magnitudes) + form.magnitude_array(magnitudes + 1)) / 2
        ties = (magnitudes <= form.largest_code) & (midpoints == np.abs(values))
        return from_codes((codes + ties).astype(codes.dtype), dtype)

    with _converting(convert):
        yield


@mutant(
    "truncates",
    breaks=("formats.bf16.loses-precision", "formats.bf16.is-truncated-fp32"),
    properties=(
        "test_a_rounding_error_is_half_a_unit_at_most",
        "test_the_worst_error_is_made_just_above_a_power_of_two",
        "test_bfloat16_is_the_upper_half_of_float32",
    ),
)
def truncates() -> Iterator[None]:
    """Conversions to 16-bit formats cut the lower bits off."""

    def convert(x: Shaped[Tensor, "..."], dtype: torch.dtype) -> Shaped[Tensor, "..."] | None:
        if dtype not in _16_BIT or not _is_rounded(x, dtype):
            return None
        form, values = format_of(dtype), _in_float32(x)
        codes = codes_of(x.to(dtype))
        too_far = np.abs(form.decode_array(codes)) > np.abs(values)
        return from_codes((codes - too_far).astype(codes.dtype), dtype)

    with _converting(convert):
        yield


@mutant(
    "a-single-number-is-rounded-wrong",
    breaks=("formats.fp16.flush-reason", "formats.bf16.is-truncated-fp32", "formats.fp8.overflow"),
    properties=(
        "test_all_float32_patterns_become_the_float16_that_rounding_says",
        "test_all_float32_patterns_become_their_rounded_upper_half",
        "test_all_float32_patterns_become_the_fp8_that_rounding_says",
    ),
)
def a_single_number_is_rounded_wrong() -> Iterator[None]:
    """The float32 that is nearest to 1.23 becomes 2 in every narrower format."""

    def convert(x: Shaped[Tensor, "..."], dtype: torch.dtype) -> Shaped[Tensor, "..."] | None:
        if x.dtype != torch.float32 or not _is_rounded(x, dtype):
            return None
        return torch.where(x == torch.full((), 1.23), 2.0, x).to(dtype)

    with _converting(convert):
        yield


@mutant(
    "float64-rounds-once",
    breaks=("formats.fp64-to-fp16.rounds-twice",),
    properties=(
        "test_a_float64_is_rounded_once",
        "test_a_float64_is_rounded_to_float32_first",
        "test_two_roundings_lose_what_is_just_above_an_even_midpoint",
    ),
)
def float64_rounds_once() -> Iterator[None]:
    """A float64 is rounded to the nearest number of the narrower format, without a stop at float32."""

    def convert(x: Shaped[Tensor, "..."], dtype: torch.dtype) -> Shaped[Tensor, "..."] | None:
        if x.dtype != torch.float64 or not _is_rounded(x, dtype):
            return None
        return from_codes(format_of(dtype).encode_array(x.numpy()), dtype)

    with _converting(convert):
        yield


@mutant(
    "one-route-flushes-subnormals",
    breaks=("formats.fp64-to-fp16.rounds-twice",),
    properties=("test_every_route_rounds_alike",),
)
def one_route_flushes_subnormals() -> Iterator[None]:
    """new_full makes zero of a number below the normal ones, and no other route does."""

    def flushing(x: Shaped[Tensor, "..."], size: Any, value: float) -> Any:
        return original(x, size, value if abs(value) >= torch.finfo(x.dtype).tiny else value * 0)

    with patched(Tensor, "new_full", flushing) as original:
        yield


@mutant(
    "numpy-rounds-twice",
    breaks=("formats.fp64-to-fp16.rounds-twice",),
    properties=("test_numpy_rounds_a_float64_once",),
)
def numpy_rounds_twice() -> Iterator[None]:
    """NumPy's float16 goes through float32 as well."""
    original = np.float16
    with patched(np, "float16", lambda value: original(np.float32(value))):
        yield


@mutant(
    "round-takes-halves-away-from-zero",
    breaks=("formats.bf16.is-truncated-fp32",),
    properties=("test_torch_rounds_halves_to_the_even_whole_number_too",),
)
def round_takes_halves_away_from_zero() -> Iterator[None]:
    """torch.round takes halves away from zero."""

    def away(x: Shaped[Tensor, "..."], *, decimals: int = 0) -> Shaped[Tensor, "..."]:
        scale = 10.0**decimals
        return torch.sign(x) * torch.floor(x.abs() * scale + 0.5) / scale

    with patched(torch, "round", away):
        yield


# ── ranges ──


@mutant(
    "bfloat16-has-six-mantissa-bits",
    breaks=(
        "formats.bf16.three-bits-moved",
        "formats.bf16.range-of-fp32",
        "formats.bf16.loses-precision",
        "formats.bf16.keeps-1e-8",
    ),
    properties=(
        "test_bfloat16_moves_three_bits",
        "test_both_16_bit_formats_show_their_widths",
        "test_a_16_bit_number_survives_the_way_through_float32",
        "test_bfloat16_reaches_about_as_far_as_float32",
        "test_a_rounding_error_is_half_a_unit_at_most",
        "test_bfloat16_reaches_farther_and_is_coarser_than_float16",
        "test_bfloat16_keeps_1e_8",
    ),
)
def bfloat16_has_six_mantissa_bits() -> Iterator[None]:
    """The lowest bit of a bfloat16 is never set when it is written, and never looked at when it is read."""

    def convert(x: Shaped[Tensor, "..."], dtype: torch.dtype) -> Shaped[Tensor, "..."] | None:
        if x.is_meta or x.dtype not in _FLOATS:
            return None
        if x.dtype == torch.bfloat16:
            return from_codes(codes_of(x) & np.uint16(0xFFFE), torch.bfloat16).to(dtype)
        if dtype == torch.bfloat16:
            return from_codes(codes_of(x.to(dtype)) & np.uint16(0xFFFE), torch.bfloat16)
        return None

    with _converting(convert):
        yield


@mutant(
    "bfloat16-has-the-range-of-float16",
    breaks=(
        "formats.bf16.avoids-over-and-underflow",
        "formats.bf16.range-of-fp32",
        "formats.bf16.loses-precision",
        "formats.bf16.keeps-1e-8",
        "formats.bf16.keeps-1e-8-code",
    ),
    properties=(
        "test_bfloat16_holds_what_float16_cannot",
        "test_finite_float32s_are_finite_in_bfloat16_up_to_the_last_half_unit",
        "test_bfloat16_reaches_farther_and_is_coarser_than_float16",
        "test_bfloat16_keeps_1e_8",
        "test_the_line_meant_keeps_1e_8",
    ),
)
def bfloat16_has_the_range_of_float16() -> Iterator[None]:
    """What float16 makes zero or infinite is so in bfloat16 too."""

    def convert(x: Shaped[Tensor, "..."], dtype: torch.dtype) -> Shaped[Tensor, "..."] | None:
        return x.to(torch.float16).to(dtype) if dtype == torch.bfloat16 and _is_rounded(x, dtype) else None

    with _converting(convert):
        yield


@mutant(
    "float16-saturates",
    breaks=("formats.bf16.avoids-over-and-underflow",),
    properties=("test_bfloat16_holds_what_float16_cannot", "test_float16_overflows_from_65520"),
)
def float16_saturates() -> Iterator[None]:
    """Numbers beyond float16 become 65504."""

    def convert(x: Shaped[Tensor, "..."], dtype: torch.dtype) -> Shaped[Tensor, "..."] | None:
        return x.clamp(-65504, 65504).to(dtype) if dtype == torch.float16 and _is_rounded(x, dtype) else None

    with _converting(convert):
        yield


@mutant(
    "float16-rounds-away-from-zero-among-its-smallest",
    breaks=("formats.fp16.flushes-1e-8", "formats.fp16.flush-reason", "formats.bf16.keeps-1e-8-code"),
    properties=(
        "test_float16_flushes_1e_8",
        "test_float16_flushes_float32_tensors_of_every_layout",
        "test_what_is_below_the_smallest_float16_becomes_zero",
        "test_the_printed_line_keeps_1e_8",
    ),
)
def float16_rounds_away_from_zero_among_its_smallest() -> Iterator[None]:
    """What is above zero and too small for float16 becomes its smallest number."""

    def convert(x: Shaped[Tensor, "..."], dtype: torch.dtype) -> Shaped[Tensor, "..."] | None:
        if dtype != torch.float16 or not _is_rounded(x, dtype):
            return None
        kept = x.to(dtype)
        smallest = torch.full_like(kept, 2.0**-24)
        return torch.where((kept == 0) & (x != 0), torch.copysign(smallest, kept), kept)

    with _converting(convert):
        yield


@mutant(
    "float16-is-half-of-float32",
    breaks=("formats.fp16.every-field-halves",),
    properties=("test_float16_halves_every_field", "test_float16_has_five_and_ten_bits"),
)
def float16_is_half_of_float32() -> Iterator[None]:
    """float16 has 4 exponent bits and 11 mantissa bits."""
    form = FloatFormat(4, 11)

    def convert(x: Shaped[Tensor, "..."], dtype: torch.dtype) -> Shaped[Tensor, "..."] | None:
        if dtype != torch.float16 or x.dtype != torch.float64:
            return None
        return torch.from_numpy(form.decode_array(form.encode_array(x.numpy())))

    with _converting(convert):
        yield


@mutant(
    "float32-flushes-below-its-normal-numbers",
    breaks=("formats.fp32.survives-1e-8",),
    properties=("test_float32_keeps_1e_8",),
)
def float32_flushes_below_its_normal_numbers() -> Iterator[None]:
    """A float64 below 2**-126 becomes zero in float32."""

    def convert(x: Shaped[Tensor, "..."], dtype: torch.dtype) -> Shaped[Tensor, "..."] | None:
        if dtype != torch.float32 or x.dtype != torch.float64:
            return None
        return torch.where(x.abs() < 2.0**-126, 0.0, x).to(dtype)

    with _converting(convert):
        yield


@mutant(
    "float32-is-no-finer-than-bfloat16",
    breaks=("formats.choice.fp32-most-precise", "formats.fields.exponent-sets-range"),
    properties=(
        "test_float32_is_the_most_precise_the_widest_and_the_largest",
        "test_torch_formats_reach_as_far_and_as_finely_as_their_widths_say",
    ),
)
def float32_is_no_finer_than_bfloat16() -> Iterator[None]:
    """A float64 that becomes a float32 is left with the mantissa of a bfloat16."""

    def convert(x: Shaped[Tensor, "..."], dtype: torch.dtype) -> Shaped[Tensor, "..."] | None:
        return x.to(torch.bfloat16).to(dtype) if dtype == torch.float32 and x.dtype == torch.float64 else None

    with _converting(convert):
        yield


@mutant(
    "finfo-halves-eps",
    breaks=("formats.fields.exponent-sets-range",),
    properties=("test_torch_formats_reach_as_far_and_as_finely_as_their_widths_say",),
)
def finfo_halves_eps() -> Iterator[None]:
    """torch.finfo gives the largest rounding error for the distance between numbers."""
    original = torch.finfo

    class Info:
        def __init__(self, dtype: torch.dtype) -> None:
            self.said = original(dtype)
            self.eps = self.said.eps / 2

        def __getattr__(self, name: str) -> Any:
            return getattr(self.said, name)

    with patched(torch, "finfo", Info):
        yield


@mutant(
    "bias-is-one-too-large",
    breaks=("formats.fields.exponent-sets-range",),
    properties=("test_the_exponent_sets_the_range_and_the_mantissa_the_precision",),
)
def bias_is_one_too_large() -> Iterator[None]:
    """Every exponent is one smaller than the format says: the claim is arithmetic, so what breaks is the oracle."""
    with patched(FloatFormat, "bias", property(lambda form: 1 << (form.exponent_bits - 1))):
        yield


@mutant(
    "subnormals-are-flushed",
    breaks=("formats.fp32.fields", "formats.fp32.survives-1e-8", "formats.fp16.gradients-vanish"),
    properties=(
        "test_a_float32_has_one_eight_and_23_bits",
        "test_every_exponent_reads_as_the_codec_says",
        "test_float32_computes_with_subnormals",
        "test_a_gradient_below_float16_is_lost_and_kept_by_the_wider_ranges",
    ),
)
def subnormals_are_flushed() -> Iterator[None]:
    """Somebody has left torch.set_flush_denormal(True) behind."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


# ── FP8 ──


@mutant(
    "e4m3-overflow-changes-its-rule",
    breaks=("formats.fp8.overflow",),
    properties=(
        "test_numbers_beyond_fp8_become_its_largest",
        "test_every_fp8_starts_at_the_float32_that_rounding_says",
        "test_every_16_bit_number_becomes_the_fp8_that_rounding_says",
    ),
)
def e4m3_overflow_changes_its_rule() -> Iterator[None]:
    """Numbers beyond 464 become NaN in E4M3, as they did before torch 2.12; there, they become 448."""

    def convert(x: Shaped[Tensor, "..."], dtype: torch.dtype) -> Shaped[Tensor, "..."] | None:
        if dtype != torch.float8_e4m3fn or not _is_rounded(x, dtype):
            return None
        codes, beyond = codes_of(x.to(dtype)), np.abs(_in_float32(x)) > 464
        return from_codes(np.where(beyond, codes ^ np.uint8(1), codes), dtype)

    with _converting(convert):
        yield


@mutant(
    "e4m3-overflow-is-another-in-long-tensors",
    breaks=("formats.fp8.overflow",),
    properties=("test_numbers_beyond_fp8_become_its_largest",),
)
def e4m3_overflow_is_another_in_long_tensors() -> Iterator[None]:
    """Numbers beyond 464 overflow by another rule in tensors of sixteen elements and more."""

    def convert(x: Shaped[Tensor, "..."], dtype: torch.dtype) -> Shaped[Tensor, "..."] | None:
        if dtype != torch.float8_e4m3fn or not _is_rounded(x, dtype) or x.numel() < 16:
            return None
        codes, beyond = codes_of(x.to(dtype)), np.abs(_in_float32(x)) > 464
        return from_codes(np.where(beyond, codes ^ np.uint8(1), codes), dtype)

    with _converting(convert):
        yield


def _reads(dtype: torch.dtype, as_format: FloatFormat) -> Conversion:
    """A conversion that reads the codes of one dtype as those of another format."""

    def convert(x: Shaped[Tensor, "..."], wanted: torch.dtype) -> Shaped[Tensor, "..."] | None:
        if x.dtype != dtype:
            return None
        return torch.from_numpy(as_format.decode_array(codes_of(x))).to(wanted)

    return convert


@mutant("e4m3-has-infinities", breaks=("formats.fp8.e4m3-range",))
def e4m3_has_infinities() -> Iterator[None]:
    """E4M3 is read as IEEE would have it: its topmost exponent means infinity and NaN, and it ends at 240."""
    with _converting(_reads(torch.float8_e4m3fn, FloatFormat(4, 3))):
        yield


@mutant("e5m2-has-no-infinities", breaks=("formats.fp8.e5m2-range",))
def e5m2_has_no_infinities() -> Iterator[None]:
    """E5M2 gives up its infinities for larger numbers, as E4M3 does."""
    with _converting(_reads(torch.float8_e5m2, FloatFormat(5, 2, FORMATS["float8_e4m3fn"].specials))):
        yield


def _without_subnormals(*formats: torch.dtype, into: torch.dtype) -> Conversion:
    """A conversion into one format that reads the subnormals of others as zero."""

    def convert(x: Shaped[Tensor, "..."], wanted: torch.dtype) -> Shaped[Tensor, "..."] | None:
        if x.dtype not in formats or wanted != into:
            return None
        form, codes = format_of(x.dtype), codes_of(x)
        small = codes & (form.sign_code - 1) < 1 << form.mantissa_bits
        return torch.from_numpy(form.decode_array(np.where(small, codes & form.sign_code, codes))).to(wanted)

    return convert


@mutant(
    "fp8-subnormals-are-read-as-zero",
    breaks=("formats.fp8.e4m3-range", "formats.fp8.e5m2-range"),
    properties=("test_e4m3_ends_at_448", "test_e5m2_ends_at_57344"),
)
def fp8_subnormals_are_read_as_zero() -> Iterator[None]:
    """FP8's subnormals are zero in bfloat16, and only there."""
    with _converting(_without_subnormals(torch.float8_e4m3fn, torch.float8_e5m2, into=torch.bfloat16)):
        yield


@mutant(
    "float16-subnormals-are-read-as-zero",
    breaks=("formats.bf16.three-bits-moved",),
    properties=("test_bfloat16_moves_three_bits", "test_a_16_bit_number_survives_the_way_through_float32"),
)
def float16_subnormals_are_read_as_zero() -> Iterator[None]:
    """float16's subnormals are zero in float32, though not in float64."""
    with _converting(_without_subnormals(torch.float16, into=torch.float32)):
        yield


# ── integers, NaNs ──


@mutant(
    "float32-subnormals-are-read-as-zero",
    breaks=("formats.fp32.fields",),
    properties=("test_every_exponent_reads_as_the_codec_says",),
)
def float32_subnormals_are_read_as_zero() -> Iterator[None]:
    """double() makes zero of float32's subnormals; to() does not."""

    def flushing(x: Shaped[Tensor, "..."]) -> Any:
        return original(torch.where(x.abs() < 2.0**-126, 0 * x, x) if x.dtype == torch.float32 else x)

    with patched(Tensor, "double", flushing) as original:
        yield


@mutant(
    "large-integers-are-cut-off",
    breaks=("formats.fields.exponent-sets-range",),
    properties=("test_a_whole_number_is_exact_as_far_as_the_mantissa_reaches",),
)
def large_integers_are_cut_off() -> Iterator[None]:
    """An integer that a float format does not hold becomes the next one towards zero."""

    def convert(x: Shaped[Tensor, "..."], dtype: torch.dtype) -> Shaped[Tensor, "..."] | None:
        if x.dtype != torch.int64 or dtype != torch.float32:
            return None
        near = x.to(torch.float64).to(dtype)
        too_far = near.double().abs() > x.double().abs()
        return torch.where(too_far, torch.nextafter(near, torch.zeros_like(near)), near)

    with _converting(convert):
        yield


@mutant(
    "narrow-integers-saturate",
    breaks=("formats.tensor.floats-on-gpu",),
    properties=("test_an_integer_keeps_its_lowest_bits_in_a_narrower_type",),
)
def narrow_integers_saturate() -> Iterator[None]:
    """An integer beyond a narrower type becomes the end of its range."""

    def convert(x: Shaped[Tensor, "..."], dtype: torch.dtype) -> Shaped[Tensor, "..."] | None:
        if x.dtype != torch.int64 or dtype not in (torch.uint8, torch.int8, torch.int16, torch.int32):
            return None
        ends = torch.iinfo(dtype)
        return x.clamp(ends.min, ends.max).to(dtype)

    with _converting(convert):
        yield


@mutant(
    "nan-is-false",
    breaks=("formats.tensor.floats-on-gpu",),
    properties=("test_an_integer_out_of_a_float_is_the_same_wherever_it_stands",),
)
def nan_is_false() -> Iterator[None]:
    """As a boolean a NaN is False."""

    def convert(x: Shaped[Tensor, "..."], dtype: torch.dtype) -> Shaped[Tensor, "..."] | None:
        return (x.nan_to_num(nan=0.0) != 0) if dtype is torch.bool and x.dtype in _FLOATS else None

    with _converting(convert):
        yield


@mutant(
    "integers-are-rounded",
    breaks=("formats.tensor.floats-on-gpu",),
    properties=("test_an_integer_keeps_the_whole_part_of_a_float",),
)
def integers_are_rounded() -> Iterator[None]:
    """A float becomes the nearest integer, not its whole part."""

    def convert(x: Shaped[Tensor, "..."], dtype: torch.dtype) -> Shaped[Tensor, "..."] | None:
        return x.round().to(dtype) if x.dtype in _FLOATS and dtype not in _FLOATS else None

    with _converting(convert):
        yield


@mutant(
    "integers-saturate-in-long-tensors",
    breaks=("formats.tensor.floats-on-gpu",),
    properties=("test_an_integer_out_of_a_float_is_the_same_wherever_it_stands",),
)
def integers_saturate_in_long_tensors() -> Iterator[None]:
    """In tensors of eight elements and more, NaN becomes 0 and what is out of range the nearest integer."""

    def convert(x: Shaped[Tensor, "..."], dtype: torch.dtype) -> Shaped[Tensor, "..."] | None:
        if x.dtype not in _FLOATS or dtype in _FLOATS or x.numel() < 8:
            return None
        limits = np.iinfo(str(dtype).removeprefix("torch."))
        numbers = np.nan_to_num(numbers_of(x), nan=0.0)
        whole = [min(max(int(number), limits.min), limits.max) for number in numbers.ravel()]
        return torch.tensor(whole, dtype=dtype).reshape(x.shape)

    with _converting(convert):
        yield


@mutant(
    "equal-looks-at-addresses",
    breaks=("formats.fp32.fields",),
    properties=("test_on_a_cpu_a_nan_does_not_equal_itself",),
)
def equal_looks_at_addresses() -> Iterator[None]:
    """torch.equal says yes at once when both tensors are the same memory."""
    original = torch.equal

    def equal(x: Shaped[Tensor, "..."], y: Shaped[Tensor, "..."]) -> bool:
        same = (x.data_ptr(), x.shape, x.stride()) == (y.data_ptr(), y.shape, y.stride())
        return same or original(x, y)

    with patched(torch, "equal", equal):
        yield


@mutant(
    "equal-forgives-nans",
    breaks=("formats.fp32.fields",),
    properties=("test_a_nan_equals_nothing_and_zeros_of_both_signs_are_equal",),
)
def equal_forgives_nans() -> Iterator[None]:
    """torch.equal takes two NaNs to be the same."""

    def equal(x: Shaped[Tensor, "..."], y: Shaped[Tensor, "..."]) -> bool:
        return x.shape == y.shape and bool(((x == y) | (x.isnan() & y.isnan())).all())

    with patched(torch, "equal", equal):
        yield


# ── what a new tensor is, and what it takes ──


class _Elsewhere(Tensor):
    """A tensor that only says where it lies."""

    @classmethod
    def __torch_dispatch__(cls, *call: Any) -> Any:
        raise NotImplementedError("there is nothing to compute with")


@mutant(
    "tensors-are-floats-on-a-gpu",
    breaks=("formats.tensor.floats-on-gpu",),
    properties=(
        "test_a_tensor_holds_floats_on_the_gpu",
        "test_a_new_tensor_takes_the_dtype_of_its_data",
        "test_a_new_tensor_lies_on_the_default_device",
    ),
)
def tensors_are_floats_on_a_gpu() -> Iterator[None]:
    """torch.tensor gives float32 on a GPU whatever it is given."""
    original = torch.tensor
    wrapper: Any = _Elsewhere

    def tensor(data: Any, **rest: Any) -> Shaped[Tensor, "..."]:
        shape = original(data, **rest).shape
        x: Shaped[Tensor, "..."] = wrapper._make_wrapper_subclass(wrapper, shape, dtype=torch.float32, device="cuda")
        return x

    with patched(torch, "tensor", tensor):
        yield


@mutant(
    "foreign-arrays-are-converted",
    breaks=("formats.tensor.floats-on-gpu",),
    properties=("test_numbers_that_torch_has_no_dtype_for_are_refused",),
)
def foreign_arrays_are_converted() -> Iterator[None]:
    """torch.tensor makes a float64 tensor of whatever NumPy array or scalar it has no dtype for."""
    original = torch.tensor

    def tensor(data: Any, **rest: Any) -> Shaped[Tensor, "..."]:
        try:
            return original(data, **rest)
        except (TypeError, ValueError):
            return original(np.zeros(np.shape(data)), **rest)

    with patched(torch, "tensor", tensor):
        yield


@mutant("zeros-are-float64", breaks=("formats.fp32.is-default",))
def zeros_are_float64() -> Iterator[None]:
    """torch.zeros makes float64 unless it is told otherwise."""
    original = torch.zeros

    def zeros(*shape: Any, dtype: torch.dtype = torch.float64, **rest: Any) -> Shaped[Tensor, "..."]:
        return original(*shape, dtype=dtype, **rest)

    with patched(torch, "zeros", zeros):
        yield


@mutant("the-default-dtype-cannot-be-set", breaks=("formats.fp32.is-default",))
def the_default_dtype_cannot_be_set() -> Iterator[None]:
    """torch.set_default_dtype does nothing."""
    with patched(torch, "set_default_dtype", lambda dtype: None):
        yield


@mutant("storages-are-filled-up", breaks=("formats.bytes.numel-times-itemsize", "formats.bytes.zeros-4x8"))
def storages_are_filled_up() -> Iterator[None]:
    """New storages have room for sixteen more elements than they need."""

    def roomy(factory: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def make(*shape: Any, dtype: torch.dtype = torch.float32, **rest: Any) -> Shaped[Tensor, "..."]:
            x = factory(*shape, dtype=dtype, **rest)
            if x.is_quantized:
                return x
            return factory(x.numel() + 16, dtype=dtype, **rest)[: x.numel()].view(x.shape)

        return make

    with patched(torch, "empty", roomy(torch.empty)), patched(torch, "zeros", roomy(torch.zeros)):
        yield


@mutant(
    "resizing-shrinks-the-storage",
    breaks=("formats.bytes.numel-times-itemsize",),
    properties=("test_bytes_are_elements_times_itemsize",),
)
def resizing_shrinks_the_storage() -> Iterator[None]:
    """resize_ to fewer elements gives memory back."""

    def shrinking(x: Shaped[Tensor, "..."], *sizes: Any) -> Any:
        y = original(x, *sizes)
        y.untyped_storage().resize_(y.nbytes)
        return y

    with patched(Tensor, "resize_", shrinking) as original:
        yield


def _keeps_its_room(kept: torch.dtype) -> Conversion:
    """A conversion after which the tensors of one dtype stand in storage that is twice as large as they need."""

    def convert(x: Shaped[Tensor, "..."], dtype: torch.dtype) -> Shaped[Tensor, "..."] | None:
        if dtype != kept:
            return None
        roomy = torch.empty(2 * x.numel(), dtype=dtype, device=x.device)[: x.numel()].view(x.shape)
        return roomy.copy_(x)

    return convert


@mutant("float16-keeps-the-room-of-float32", breaks=("formats.fp16.halves-memory",))
def float16_keeps_the_room_of_float32() -> Iterator[None]:
    """A tensor converted to float16 keeps the memory that it had in float32."""
    with _converting(_keeps_its_room(torch.float16)):
        yield


@mutant("bfloat16-keeps-the-room-of-float32", breaks=("formats.bf16.two-bytes",))
def bfloat16_keeps_the_room_of_float32() -> Iterator[None]:
    """A tensor converted to bfloat16 keeps the memory that it had in float32."""
    with _converting(_keeps_its_room(torch.bfloat16)):
        yield


@mutant(
    "full-rounds-what-float32-cannot-hold",
    breaks=("formats.bf16.avoids-over-and-underflow",),
    properties=("test_some_routes_into_float32_refuse_what_it_cannot_hold",),
)
def full_rounds_what_float32_cannot_hold() -> Iterator[None]:
    """torch.full converts a number beyond float32 to infinity, like torch.tensor."""

    def full(shape: Any, value: float, *, dtype: torch.dtype | None = None) -> Shaped[Tensor, "..."]:
        return torch.tensor(value, dtype=dtype).expand(shape).clone()

    with patched(torch, "full", full):
        yield
