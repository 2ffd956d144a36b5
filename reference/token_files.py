"""What stands in a raw file of numbers, byte by byte: how arrays become bytes, and bytes whole numbers.

An integer type is told by its bits and its sign, as in two's complement; a byte order is "little" or "big".
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import numpy as np
from jaxtyping import Shaped

ByteOrder = Literal["little", "big"]


def bounds(bits: int, signed: bool) -> tuple[int, int]:
    """The smallest and the largest number of an integer type."""
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


def fits(value: int, bits: int, signed: bool) -> bool:
    """Whether an integer type can hold a number."""
    low, high = bounds(bits, signed)
    return low <= value <= high


def wrapped(value: int, bits: int, signed: bool) -> int:
    """The lowest bits of a number, read as the integer type: what is left of it where nobody checks."""
    low = value % (1 << bits)
    return low - (1 << bits) if signed and low >> bits - 1 else low


def byte_order(dtype: np.dtype[Any]) -> ByteOrder:
    """The byte order of a NumPy dtype. A single byte has none, and is called little."""
    native: ByteOrder = "little" if sys.byteorder == "little" else "big"
    orders: dict[str, ByteOrder] = {"<": "little", ">": "big", "|": "little", "=": native}
    return orders[dtype.byteorder]


def integers(data: bytes, width: int, order: ByteOrder, signed: bool) -> list[int]:
    """Bytes as whole numbers of ``width`` bytes each; ValueError where the width does not divide their number."""
    if len(data) % width:
        raise ValueError(f"{len(data)} bytes are no multiple of {width}: cut the rest off, or use another width")
    return [int.from_bytes(data[place : place + width], order, signed=signed) for place in range(0, len(data), width)]


def elements(array: Shaped[np.ndarray, "..."]) -> Iterator[bytes]:
    """The bytes of each element of an array, the last index moving fastest."""
    for index in np.ndindex(array.shape):
        # With the dots it stays an array of no dimensions; without, it would be a scalar in the native byte order.
        yield array[(*index, ...)].tobytes()


def row_major_bytes(array: Shaped[np.ndarray, "..."]) -> bytes:
    """The bytes of all elements of an array in row-major order, however it lies in memory."""
    return b"".join(elements(array))


def around(pages: Iterable[int], reach: int) -> set[int]:
    """All pages that lie up to ``reach`` pages before or behind one of ``pages``, before the first page too."""
    return {near for page in set(pages) for near in range(page - reach, page + reach + 1)}


def pages_of(start: int, stop: int, page: int) -> range:
    """The pages of ``page`` bytes that hold the bytes from ``start`` up to ``stop``; none where there are no bytes."""
    return range(start // page, -(-stop // page)) if stop > start else range(0)
