"""Raw bytes against NumPy's own conversions."""

import numpy as np
import pytest

from reference.token_files import (
    around,
    bounds,
    byte_order,
    fits,
    integers,
    pages_of,
    row_major_bytes,
    wrapped,
)

INTEGERS = ["u1", "i1", "<u2", ">u2", "<i2", ">i4", "<u4", "<i8", ">u8"]


@pytest.mark.parametrize("name", INTEGERS)
def test_ranges_and_wrapping_are_numpys(name: str) -> None:
    dtype = np.dtype(name)
    bits, signed = 8 * dtype.itemsize, dtype.kind == "i"
    low, high = bounds(bits, signed)
    assert (low, high) == (np.iinfo(dtype).min, np.iinfo(dtype).max)
    for value in (low - 1, low, -1, 0, 1, high, high + 1):
        assert fits(value, bits, signed) == (low <= value <= high)
        if -(2**63) <= value < 2**63:
            assert wrapped(value, bits, signed) == int(np.array([value], dtype=np.int64).astype(dtype)[0])


@pytest.mark.parametrize("name", INTEGERS)
def test_bytes_are_read_as_numpy_reads_them(name: str) -> None:
    dtype = np.dtype(name)
    data = np.random.default_rng(0).bytes(48)
    assert byte_order(dtype) == ("big" if name[0] == ">" else "little")
    read = integers(data, dtype.itemsize, byte_order(dtype), dtype.kind == "i")
    assert read == np.frombuffer(data, dtype).tolist()


def test_a_rest_is_refused() -> None:
    with pytest.raises(ValueError, match="no multiple of 2"):
        integers(b"123", 2, "little", signed=False)


def test_row_major_bytes_whatever_lies_in_memory() -> None:
    x = np.arange(24, dtype=">i4").reshape(2, 3, 4)
    for array in (x, x.T, x[:, ::-2], np.asfortranarray(x), x[0, 0, 0, ...], x[:0], np.broadcast_to(x[:1], (5, 3, 4))):
        assert row_major_bytes(array) == np.ascontiguousarray(array).tobytes()


def test_pages_of_bytes_and_around_others() -> None:
    assert list(pages_of(0, 0, 4096)) == list(pages_of(5, 5, 4096)) == []
    assert list(pages_of(4095, 4097, 4096)) == [0, 1]
    assert list(pages_of(4096, 8192, 4096)) == [1]
    assert around([0, 1, 10], 2) == {-2, -1, 0, 1, 2, 3, 8, 9, 10, 11, 12}
    assert around([7, 7], 0) == {7}
