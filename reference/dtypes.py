"""What each dtype of torch is made of, by the name it carries in the torch module."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType


class Kind(Enum):
    """What the numbers of a dtype are."""

    BOOLEAN = "true or false"
    SIGNED = "integer"
    UNSIGNED = "integer without a sign"
    FLOATING = "floating point"
    SCALE = "power of two without a sign"
    COMPLEX = "pair of floating-point numbers"
    QUANTISED = "integer with a scale and a zero point"
    OPAQUE = "bits without a meaning"


@dataclass(frozen=True)
class DType:
    """One dtype: what its numbers are and the room they take.

    ``bits`` is the width of one number and ``itemsize`` the bytes torch gives for one element. ``storage_bits`` is the
    room of one element in memory: an int3 fills a byte of its own; an element of float4_e2m1fn_x2 is the byte that
    holds two numbers; in quint4x2 two elements share a byte, although its itemsize says one.
    """

    kind: Kind
    bits: int
    itemsize: int
    storage_bits: int


def _whole(kind: Kind, bits: int) -> DType:
    """A dtype whose numbers fill their bytes."""
    return DType(kind, bits, bits // 8, bits)


def _byte(kind: Kind, bits: int) -> DType:
    """A dtype whose element is one byte, for one number narrower than that or for several."""
    return DType(kind, bits, 1, 8)


DTYPES: Mapping[str, DType] = MappingProxyType(
    {
        "bool": _byte(Kind.BOOLEAN, 1),
        **{f"int{bits}": _whole(Kind.SIGNED, bits) for bits in (8, 16, 32, 64)},
        **{f"uint{bits}": _whole(Kind.UNSIGNED, bits) for bits in (8, 16, 32, 64)},
        **{f"int{bits}": _byte(Kind.SIGNED, bits) for bits in range(1, 8)},
        **{f"uint{bits}": _byte(Kind.UNSIGNED, bits) for bits in range(1, 8)},
        "float16": _whole(Kind.FLOATING, 16),
        "bfloat16": _whole(Kind.FLOATING, 16),
        "float32": _whole(Kind.FLOATING, 32),
        "float64": _whole(Kind.FLOATING, 64),
        "float8_e4m3fn": _whole(Kind.FLOATING, 8),
        "float8_e5m2": _whole(Kind.FLOATING, 8),
        "float8_e4m3fnuz": _whole(Kind.FLOATING, 8),
        "float8_e5m2fnuz": _whole(Kind.FLOATING, 8),
        "float8_e8m0fnu": _whole(Kind.SCALE, 8),
        "float4_e2m1fn_x2": _byte(Kind.FLOATING, 4),
        "complex32": _whole(Kind.COMPLEX, 32),
        "bcomplex32": _whole(Kind.COMPLEX, 32),
        "complex64": _whole(Kind.COMPLEX, 64),
        "complex128": _whole(Kind.COMPLEX, 128),
        "qint8": _whole(Kind.QUANTISED, 8),
        "quint8": _whole(Kind.QUANTISED, 8),
        "qint32": _whole(Kind.QUANTISED, 32),
        "quint4x2": DType(Kind.QUANTISED, 4, 1, 4),
        "quint2x4": DType(Kind.QUANTISED, 2, 1, 2),
        "bits8": _whole(Kind.OPAQUE, 8),
        "bits16": _whole(Kind.OPAQUE, 16),
        "bits1x8": _byte(Kind.OPAQUE, 1),
        "bits2x4": _byte(Kind.OPAQUE, 2),
        "bits4x2": _byte(Kind.OPAQUE, 4),
    }
)
"""Every dtype that a torch of 2.6 or later may have, once each, under its own name and not its short ones."""


def storage_bytes(dtype: str, shape: Sequence[int]) -> int:
    """Bytes of a new tensor of a dtype and shape: every row, along the last dimension, fills whole bytes.

    Only in quint4x2 and quint2x4 does a row's last byte stay partly empty: there (2, 3) takes more than (6,).
    """
    *rows, last = shape or (1,)
    return math.prod(rows) * -(-last * DTYPES[dtype].storage_bits // 8)
