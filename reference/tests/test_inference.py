"""The inference table against NumPy's own inference, where the two are the same, and where they differ on purpose."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference.dtypes import DTYPES
from reference.inference import (
    COMPLEX_OF,
    FACTORIES,
    NUMPY_KEPT,
    from_factory,
    from_numpy,
    from_numpy_scalar,
    from_python,
)

numbers = st.one_of(st.booleans(), st.integers(-9, 9), st.sampled_from([0.5, -2.0]), st.sampled_from([1j, 2 - 1j]))


@given(values=st.lists(numbers, min_size=1, max_size=5))
def test_with_a_float64_default_a_list_is_inferred_as_numpy_does(values: list[object]) -> None:
    assert from_python(values, default="float64") == np.array(values).dtype.name


def test_the_default_decides_for_floats_and_for_nothing() -> None:
    for default in ("float16", "bfloat16", "float32", "float64"):
        assert from_python([], default) == from_python([1, 0.5], default) == default
        assert from_python([True, 2], default) == "int64"
    assert from_python([1j], "float32") == "complex64"
    with pytest.raises(ValueError, match="bfloat16 has no complex"):
        from_python([1j], "bfloat16")
    with pytest.raises(ValueError, match="no Python number"):
        from_python([np.float64(1)], "float32")


def test_complex_counterparts_are_twice_as_wide() -> None:
    assert all(DTYPES[pair].bits == 2 * DTYPES[half].bits for half, pair in COMPLEX_OF.items())


def test_arrays_keep_the_dtypes_that_torch_has_and_are_refused_otherwise() -> None:
    assert all(name in DTYPES for name in NUMPY_KEPT)
    for kept in NUMPY_KEPT:
        assert from_numpy(np.dtype(kept).name, np.dtype(kept).byteorder) == kept
    for refused in (
        ">f4",
        ">i8",
        np.longdouble,
        np.clongdouble,
        object,
        "U3",
        "S3",
        "M8[s]",
        "m8[s]",
        [("x", "f4")],
    ):
        dtype = np.dtype(refused)
        assert from_numpy(dtype.name, dtype.byteorder) is None, refused
    assert from_numpy_scalar("uint64") is None
    assert from_numpy_scalar("float64") == "float64"


def test_factories_make_the_default_or_one_dtype() -> None:
    for factory, made in FACTORIES.items():
        assert from_factory(factory, "float16") == ("float16" if made == "default" else made)
        assert made == "default" or made in DTYPES
