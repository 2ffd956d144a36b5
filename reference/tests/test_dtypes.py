"""The table of dtypes against NumPy's and ml_dtypes' own sizes."""

from typing import Any

import ml_dtypes
import numpy as np

from reference.dtypes import DTYPES, Kind, storage_bytes
from reference.floats import FLOAT4_E2M1FN, FORMATS

NUMPY_KINDS = {"b": Kind.BOOLEAN, "i": Kind.SIGNED, "u": Kind.UNSIGNED, "f": Kind.FLOATING, "c": Kind.COMPLEX}


def test_numpy_gives_its_dtypes_the_same_kind_and_size() -> None:
    shared = [name for name in DTYPES if hasattr(np, name) and isinstance(getattr(np, name), type)]
    assert {"bool", "int8", "uint64", "float16", "float64", "complex64"} <= set(shared)
    for name in shared:
        theirs = np.dtype(getattr(np, name))
        assert (DTYPES[name].kind, DTYPES[name].itemsize) == (NUMPY_KINDS[theirs.kind], theirs.itemsize), name


def test_ml_dtypes_gives_its_dtypes_the_same_width() -> None:
    describe: Any = ml_dtypes.finfo
    for name in (
        "bfloat16",
        "float8_e4m3fn",
        "float8_e5m2",
        "float8_e4m3fnuz",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
    ):
        theirs = np.dtype(getattr(ml_dtypes, name))
        assert DTYPES[name].bits == describe(theirs).bits == 8 * DTYPES[name].itemsize, name


def test_narrow_dtypes_have_the_width_in_their_name() -> None:
    for name in ("int1", "int7", "uint3", "bits1x8", "bits2x4", "bits4x2", "quint2x4", "quint4x2"):
        width = int(next(digit for digit in name if digit.isdigit()))
        assert DTYPES[name].bits == width
    assert DTYPES["bool"].bits == 1


def test_only_two_dtypes_take_less_room_than_their_itemsize() -> None:
    assert all(dtype.bits <= dtype.storage_bits <= 8 * dtype.itemsize for dtype in DTYPES.values())
    packed = [name for name, dtype in DTYPES.items() if dtype.storage_bits < 8 * dtype.itemsize]
    assert packed == ["quint4x2", "quint2x4"]
    assert [storage_bytes("quint4x2", (count,)) for count in range(4)] == [0, 1, 1, 2]
    assert [storage_bytes("quint4x2", shape) for shape in ((), (6,), (2, 3), (3, 2), (5, 0))] == [
        1,
        3,
        4,
        3,
        0,
    ]
    for name in ("bool", "int32", "float16", "complex64"):
        for shape in ((), (0,), (3,), (2, 3), (2, 0, 4), (4, 1, 5)):
            assert storage_bytes(name, shape) == np.empty(shape, dtype=name).nbytes


def test_the_codec_and_the_table_give_floats_the_same_width() -> None:
    for name, form in FORMATS.items():
        assert (DTYPES[name].bits, DTYPES[name].itemsize) == (form.bits, form.bytes), name
    assert DTYPES["float4_e2m1fn_x2"].bits == FLOAT4_E2M1FN.bits
