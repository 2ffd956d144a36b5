"""Reading the number formats of torch from the outside: codes, numbers, ranges, and what overflow gives."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import torch
from jaxtyping import Bool, Float64, Shaped, UInt
from torch import Tensor

from properties.instruments import devices, releases
from reference.floats import (
    FLOAT8_E4M3FN,
    FLOAT32,
    FORMATS,
    FloatFormat,
    Overflow,
    Value,
    first_codes,
    widths_from_behaviour,
)

_UNSIGNED = {1: torch.uint8, 2: torch.uint16, 4: torch.uint32, 8: torch.uint64}


def name_of(dtype: torch.dtype) -> str:
    """The name a dtype carries in the torch module, without the module's."""
    return str(dtype).removeprefix("torch.")


def dtype_of(name: str) -> torch.dtype:
    """The dtype of that name. Raises AttributeError where this torch has none."""
    dtype: torch.dtype = getattr(torch, name)
    return dtype


def format_of(dtype: torch.dtype) -> FloatFormat:
    """The reference format of a floating-point dtype. Raises KeyError for every other dtype."""
    return FORMATS[name_of(dtype)]


def from_codes(codes: UInt[np.ndarray, "..."], dtype: torch.dtype, device: str = "cpu") -> Shaped[Tensor, "..."]:
    """A tensor that holds the given bit patterns."""
    return torch.from_numpy(np.ascontiguousarray(codes)).view(dtype).to(device)


def codes_of(x: Shaped[Tensor, "..."]) -> UInt[np.ndarray, "..."]:
    """The bit patterns that a tensor holds."""
    codes: UInt[np.ndarray, "..."] = x.contiguous().view(_UNSIGNED[x.element_size()]).cpu().numpy()
    return codes


def numbers_of(x: Shaped[Tensor, "..."]) -> Float64[np.ndarray, "..."]:
    """The numbers that torch reads in a tensor, widened to float64 on its device."""
    numbers: Float64[np.ndarray, "..."] = x.to(torch.float64).cpu().numpy()
    return numbers


def readings_of(x: Shaped[Tensor, "numbers"]) -> Float64[np.ndarray, "ways numbers"]:
    """The numbers that torch reads in a vector, once for every way into each format that holds all of them.

    By to, by type, by a method, by a copy into the wider tensor, from elements that do not lie side by side, and as
    Python numbers.
    """
    form = format_of(x.dtype)
    methods = {"float16": x.half, "bfloat16": x.bfloat16, "float32": x.float, "float64": x.double}
    apart = torch.stack([x, x], 1)[:, 0]
    read = [numbers_of(x), np.array(x.tolist())]
    for name, method in methods.items():
        wider = FORMATS[name]
        if form != wider and form.exponent_bits <= wider.exponent_bits and form.mantissa_bits <= wider.mantissa_bits:
            wide = torch.zeros(x.shape, dtype=dtype_of(name), device=x.device)
            ways = (x.to(wide.dtype), x.type(wide.dtype), method(), wide.copy_(x), apart.to(wide.dtype))
            read += map(numbers_of, ways)
    return np.stack(read)


def every_code(dtype: torch.dtype, device: str = "cpu") -> Shaped[Tensor, "codes"]:
    """A tensor of every bit pattern of an 8- or 16-bit format, in order."""
    return from_codes(format_of(dtype).all_codes(), dtype, device)


@dataclass(frozen=True)
class Reach:
    """How far and how finely a format goes, as found by storing numbers in it."""

    largest: Fraction
    eps: Fraction
    smallest_normal: Fraction
    smallest: Fraction

    @property
    def widths(self) -> tuple[int, int]:
        """Its (exponent bits, mantissa bits), if it is an IEEE-style format. Raises ValueError otherwise."""
        return widths_from_behaviour(self.largest, self.eps)


def reach_of(dtype: torch.dtype) -> Reach:
    """Measure a format's reach by what comes back unchanged, not by what the format says of itself.

    The smallest number is the smallest power of two that is kept, eps the smallest one that 1 + eps keeps, and the
    smallest normal number the smallest power of two that keeps eps beside it. The largest number is the largest kept
    power of two with as many halves below it as are kept too.
    """
    powers = np.ldexp(1.0, np.arange(-1074, 1024))
    kept = powers[_kept(powers, dtype)]
    below_one = powers[(powers >= 2.0**-52) & (powers < 1)]
    eps = below_one[_kept(1 + below_one, dtype)].min()
    with_eps = powers * (1 + eps)
    normal = powers[_kept(with_eps, dtype) & (with_eps != powers)].min()
    halves = kept.max() * (2 - np.append(1.0, below_one))
    largest = halves[_kept(halves, dtype)].max()
    return Reach(*(Fraction(float(found)) for found in (largest, eps, normal, kept.min())))


def _kept(numbers: Float64[np.ndarray, "numbers"], dtype: torch.dtype) -> Bool[np.ndarray, "numbers"]:
    return np.asarray(numbers_of(torch.from_numpy(numbers).to(dtype)) == numbers)


def is_beyond(dtype: torch.dtype, other: torch.dtype) -> bool:
    """Whether a dtype is finer, reaches farther both ways, and takes more memory than another."""
    ours, theirs = reach_of(dtype), reach_of(other)
    finer = ours.eps < theirs.eps
    farther = ours.largest > theirs.largest and ours.smallest < theirs.smallest
    return finer and farther and dtype.itemsize > other.itemsize


def stops_at_float32(dtype: torch.dtype, device: str = "cpu", machine: str = platform.machine()) -> bool:
    """Whether a float64 or an integer becomes a float32 on its way into a narrower format, and is rounded twice.

    Where torch's float16 is the processor's own, as it is built for ARM, a release is asked: one number is converted,
    and what comes of it has to be the rule for every other.
    """
    if dtype != torch.float16 or device != "cpu" or machine.lower() not in ("aarch64", "arm64"):
        return dtype.itemsize <= 2
    return bool((torch.tensor([1 + 2**-11 + 2**-40], dtype=torch.float64).to(dtype) == 1).item())


def arriving(value: Value, dtype: torch.dtype, device: str = "cpu") -> Value:
    """The number that is rounded when torch converts a float64 or an integer: itself, or its float32."""
    return FLOAT32.decode(FLOAT32.encode(value)) if stops_at_float32(dtype, device) else value


def fp8_overflow(dtype: torch.dtype, device: str = "cpu") -> Overflow:
    """What a conversion to an 8-bit format makes of numbers that round beyond it, in the installed torch.

    Another device than the CPU need not do the same, and is asked: one number is converted there.
    """
    if device != "cpu":
        beyond = float(2 * format_of(dtype).overflow_limit)
        return asked_overflow(torch.tensor([beyond], device=device).to(dtype))
    return e4m3_overflow() if dtype == torch.float8_e4m3fn else format_of(dtype).usual_overflow


def e4m3_overflow(release: str = torch.__version__) -> Overflow:
    """What a conversion to float8_e4m3fn makes of numbers beyond 464, in a release of torch.

    Releases up to 2.11 give NaN, 2.12 and 2.13 saturate. A release beyond those, or one under development, is asked:
    one number is converted, and whatever comes of it has to be the rule for every other.
    """
    if releases.looked_at(release):
        return Overflow.NAN if releases.of_torch(release) <= (2, 11) else Overflow.SATURATE
    return asked_overflow(torch.tensor([float(2 * FLOAT8_E4M3FN.overflow_limit)]).to(torch.float8_e4m3fn))


def asked_overflow(stored: Shaped[Tensor, "1"]) -> Overflow:
    """The rule by which a number beyond a format became what it is."""
    became = stored.float().item()
    if math.isnan(became):
        return Overflow.NAN
    return Overflow.INFINITY if math.isinf(became) else Overflow.SATURATE


@dataclass(frozen=True)
class Swept:
    """A sweep of all 2**32 float32 patterns: for each upper half whether all its 2**16 patterns convert as expected."""

    upper_halves: UInt[np.ndarray, "halves"]
    as_expected: Bool[np.ndarray, "halves"]


def sweep_float32(dtype: torch.dtype, overflow: Overflow | None = None) -> Swept:
    """Convert every float32 to a narrower format, in pieces of 2**24, and compare with the reference codec.

    A NaN has to stay a NaN, whatever its payload becomes. Takes half a minute on one core, and 300 MB.
    """
    form = format_of(dtype)
    starts = first_codes(form, FLOAT32)
    targets = form.encode_array(form.magnitude_array(np.arange(form.largest_code + 2, dtype=np.uint64)), overflow)
    outcomes = []
    for first in range(0, 2**32, 2**24):
        patterns = np.arange(first, first + 2**24, dtype=np.uint64).astype(np.uint32)
        stored = codes_of(torch.from_numpy(patterns).view(torch.float32).to(dtype))
        sign, magnitude = divmod(first, FLOAT32.sign_code)
        ends = np.append(starts[1:], FLOAT32.sign_code).astype(np.int64).clip(magnitude, magnitude + 2**24)
        expected = np.repeat(targets | targets.dtype.type(sign * form.sign_code), np.diff(ends, prepend=magnitude))
        good = stored == expected
        nans = slice(max(FLOAT32.infinity_code + 1 - magnitude, 0), None)
        good[nans] = np.isnan(form.decode_array(stored[nans]))
        outcomes.append(good.reshape(2**8, 2**16).all(axis=1))
    return Swept(np.arange(2**16, dtype=np.uint32), np.concatenate(outcomes))


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Make a dtype the default within, and the former one again after."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def allocated_on_cuda() -> int:
    """Bytes that torch has handed out on the current CUDA device, in blocks of 512."""
    devices.require_blocks()
    torch.cuda.synchronize()
    return int(torch.cuda.memory_allocated())
