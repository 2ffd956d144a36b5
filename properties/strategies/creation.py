"""Ways to make a tensor without naming its dtype, the storages that tensors take, and the routes into a format."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from jaxtyping import Shaped
from torch import Tensor, nn

from properties.instruments.formats import name_of
from properties.strategies.description import Description
from properties.strategies.formats import torch_dtypes
from properties.strategies.layouts import Layout, fresh_layouts, views
from reference import inference, strided
from reference.dtypes import DTYPES, storage_bytes

Shape = tuple[int, ...]

shapes: SearchStrategy[Shape] = st.lists(st.sampled_from([1, 2, 3, 4, 0, 5, 7]), max_size=3).map(tuple)
"""Small shapes: rank 0 to 3, sizes of zero and one among them."""

# ── what a new tensor is made of ──


def _flat(shape: Shape) -> int:
    return math.prod(shape)


FACTORIES: Mapping[str, tuple[Callable[[Shape], Shaped[Tensor, "..."]], str]] = {
    "zeros": (lambda shape: torch.zeros(shape), "torch.zeros({})"),
    "ones": (lambda shape: torch.ones(shape), "torch.ones({})"),
    "empty": (lambda shape: torch.empty(shape), "torch.empty({})"),
    "rand": (lambda shape: torch.rand(shape), "torch.rand({})"),
    "randn": (lambda shape: torch.randn(shape), "torch.randn({})"),
    "eye": (lambda shape: torch.eye(_flat(shape)), "torch.eye(math.prod({}))"),
    "linspace": (lambda shape: torch.linspace(0, 1, _flat(shape)), "torch.linspace(0, 1, math.prod({}))"),
    "logspace": (lambda shape: torch.logspace(0, 1, _flat(shape)), "torch.logspace(0, 1, math.prod({}))"),
    "scalar_tensor of an integer": (lambda shape: torch.scalar_tensor(1), "torch.scalar_tensor(1)"),
    "full of a float": (lambda shape: torch.full(shape, 1.0), "torch.full({}, 1.0)"),
    "arange of floats": (
        lambda shape: torch.arange(float(_flat(shape))),
        "torch.arange(float(math.prod({})))",
    ),
    "full of an integer": (lambda shape: torch.full(shape, 1), "torch.full({}, 1)"),
    "arange of integers": (lambda shape: torch.arange(_flat(shape)), "torch.arange(math.prod({}))"),
    "randint": (lambda shape: torch.randint(9, shape), "torch.randint(9, {})"),
    "randperm": (lambda shape: torch.randperm(_flat(shape)), "torch.randperm(math.prod({}))"),
    "tril_indices": (
        lambda shape: torch.tril_indices(_flat(shape), 2),
        "torch.tril_indices(math.prod({}), 2)",
    ),
    "full of a boolean": (lambda shape: torch.full(shape, True), "torch.full({}, True)"),
}
"""How each factory of the inference table is called for a shape, and that call as text."""


@dataclass(frozen=True, repr=False)
class Made(Description):
    """A tensor out of a factory that is told a shape and nothing else."""

    factory: str
    shape: Shape

    def build(self) -> Shaped[Tensor, "..."]:
        """The tensor."""
        return FACTORIES[self.factory][0](self.shape)

    def dtype(self, default: str) -> str | None:
        """The dtype it must have, by name."""
        return inference.from_factory(self.factory, default)

    @property
    def of_floats(self) -> bool:
        """Whether it comes from a floating-point factory."""
        return inference.FACTORIES[self.factory] == "default"

    def expression(self) -> str:
        return FACTORIES[self.factory][1].format(self.shape)


@dataclass(frozen=True, repr=False)
class PythonData(Description):
    """A tensor of Python numbers: the first of them alone, or a list of lists of them all."""

    numbers: tuple[bool | int | float | complex, ...]
    depth: int = 1

    def build(self) -> Shaped[Tensor, "..."]:
        """The tensor."""
        return torch.tensor(self._nested())

    def dtype(self, default: str) -> str | None:
        """The dtype it must have, by name."""
        return inference.from_python(self._held, default)

    @property
    def of_floats(self) -> bool:
        """Whether the strongest number among them is a float, or there is none."""
        return inference.from_python(self._held, "float32") == "float32"

    def expression(self) -> str:
        return f"torch.tensor({self._nested()!r})"

    @property
    def _held(self) -> tuple[bool | int | float | complex, ...]:
        return self.numbers if self.depth else self.numbers[:1]

    def _nested(self) -> Any:
        if self.depth == 0:
            return self.numbers[0]
        nested: Any = list(self.numbers)
        for _ in range(self.depth - 1):
            nested = [nested, nested]
        return nested


class NumPyRoute(Enum):
    """How a NumPy array becomes a tensor."""

    TENSOR = "tensor"
    AS_TENSOR = "as_tensor"
    ASARRAY = "asarray"
    FROM_NUMPY = "from_numpy"


@dataclass(frozen=True, repr=False)
class NumPyData(Description):
    """A tensor made from a NumPy array of ones, or from the one scalar in it."""

    array_dtype: str
    shape: Shape = (2,)
    route: NumPyRoute = NumPyRoute.TENSOR

    def build(self) -> Shaped[Tensor, "..."]:
        """The tensor. Raises TypeError or ValueError where torch refuses the array."""
        x: Shaped[Tensor, "..."] = getattr(torch, self.route.value)(np.ones(self.shape, dtype=self.array_dtype))
        return x

    def dtype(self, default: str) -> str | None:
        """The dtype it must have, by name; None where the array must be refused."""
        dtype = np.dtype(self.array_dtype)
        return inference.from_numpy(dtype.name, dtype.byteorder)

    of_floats = False
    """It has a dtype of its own, so nothing is left to a default."""

    def expression(self) -> str:
        return f"torch.{self.route.value}(np.ones({self.shape}, dtype={self.array_dtype!r}))"


@dataclass(frozen=True, repr=False)
class NumPyScalar(Description):
    """A tensor made from one NumPy scalar, or from a list of two."""

    scalar_dtype: str
    depth: int = 0

    def build(self) -> Shaped[Tensor, "..."]:
        """The tensor. Raises TypeError where torch refuses the scalar."""
        scalar = np.dtype(self.scalar_dtype).type(1)
        return torch.tensor([scalar, scalar] if self.depth else scalar)

    def dtype(self, default: str) -> str | None:
        """The dtype it must have, by name; None where the scalar must be refused."""
        return inference.from_numpy_scalar(self.scalar_dtype)

    of_floats = False
    """It has a dtype of its own, so nothing is left to a default."""

    def expression(self) -> str:
        scalar = f"np.dtype({self.scalar_dtype!r}).type(1)"
        return f"torch.tensor([{scalar}, {scalar}])" if self.depth else f"torch.tensor({scalar})"


Creation = Made | PythonData | NumPyData | NumPyScalar

_SCALARS = sorted(inference.NUMPY_KEPT - inference.SCALARS_REFUSED - inference.SCALARS_UNSETTLED)
_REFUSED = (
    ">f4",
    ">f8",
    ">i4",
    ">c8",
    "object",
    "U3",
    "S3",
    "M8[s]",
    "m8[s]",
    "V4",
    "longdouble",
    "clongdouble",
)

made: SearchStrategy[Made] = st.builds(Made, st.sampled_from(list(FACTORIES)), shapes)

python_data: SearchStrategy[PythonData] = st.one_of(
    st.builds(PythonData, st.lists(st.booleans(), min_size=1, max_size=3).map(tuple), st.integers(0, 3)),
    st.builds(
        PythonData,
        st.lists(st.one_of(st.integers(-9, 9), st.booleans()), min_size=1, max_size=3).map(tuple),
        st.integers(0, 3),
    ),
    st.builds(
        PythonData,
        st.lists(st.one_of(st.sampled_from([0.5, -1.0]), st.integers(-9, 9)), max_size=3).map(tuple),
        st.integers(1, 3),
    ),
    st.builds(
        PythonData,
        st.lists(st.one_of(st.sampled_from([1j, 2 - 1j]), st.just(0.5)), min_size=1, max_size=3).map(tuple),
        st.integers(0, 3),
    ),
)
"""Booleans, integers, floats (and nothing at all), complex numbers, each mixed with weaker ones."""

placeable_data: SearchStrategy[PythonData | Made] = st.one_of(
    python_data,
    st.builds(Made, st.sampled_from(["zeros", "ones", "empty", "rand", "full of a float", "randperm"]), shapes),
)
"""Data and factories for any device: those that torch does not have to load its compiler for on the meta device."""

numpy_data: SearchStrategy[NumPyData | NumPyScalar] = st.one_of(
    st.builds(NumPyData, st.sampled_from(sorted(inference.NUMPY_KEPT)), shapes, st.sampled_from(NumPyRoute)),
    st.builds(
        NumPyScalar,
        st.sampled_from(_SCALARS),
        st.integers(0, 1),
    ),
)
"""Arrays and scalars that torch takes."""

refused_data: SearchStrategy[NumPyData | NumPyScalar] = st.one_of(
    st.builds(NumPyData, st.sampled_from(_REFUSED), shapes, st.sampled_from(NumPyRoute)),
    st.builds(NumPyScalar, st.sampled_from(["longdouble", "clongdouble", "uint64"]), st.integers(0, 1)),
)
"""Arrays and scalars that torch refuses: other byte orders, wider than its widest, and no numbers at all."""

float_creations: SearchStrategy[Creation] = st.one_of(
    st.builds(Made, st.sampled_from([name for name in FACTORIES if inference.FACTORIES[name] == "default"]), shapes),
    st.builds(PythonData, st.lists(st.sampled_from([0.5, -1.0, 2.0]), max_size=3).map(tuple), st.integers(1, 2)),
)
"""Floating-point factories and Python floats."""

other_creations: SearchStrategy[Creation] = st.one_of(
    st.builds(Made, st.sampled_from([name for name in FACTORIES if inference.FACTORIES[name] != "default"]), shapes),
    st.builds(PythonData, st.lists(st.integers(-9, 9), min_size=1, max_size=3).map(tuple), st.integers(0, 2)),
    numpy_data,
)
"""Factories and data whose dtype is never the default one."""

SHOWING: Sequence[Callable[[Shaped[np.ndarray, "..."]], Shaped[Tensor, "..."]]] = (
    lambda array: torch.from_numpy(array),
    lambda array: torch.utils.dlpack.from_dlpack(array),
    lambda array: torch.as_tensor(array),
    lambda array: torch.asarray(array),
    lambda array: torch.as_tensor(array, dtype=torch.int64),
    lambda array: torch.asarray(array, copy=False),
)
"""Ways to see the memory of a NumPy array of int64 as a tensor."""

COPYING: Sequence[Callable[[Shaped[np.ndarray, "..."]], Shaped[Tensor, "..."]]] = (
    lambda array: torch.tensor(array),
    lambda array: torch.zeros(1, dtype=torch.int64).new_tensor(array),
    lambda array: torch.asarray(array, copy=True),
    lambda array: torch.as_tensor(array, dtype=torch.float64).long(),
)
"""Ways to make a tensor of the same numbers in memory of its own."""

# ── what a tensor takes ──


@dataclass(frozen=True, repr=False)
class Stored(Description):
    """A new tensor of a dtype and a shape, on a device; on "meta" it takes no memory and tells what it would take."""

    dtype: torch.dtype
    shape: Shape
    device: str = "cpu"

    def build(self) -> Shaped[Tensor, "..."]:
        """The tensor, its elements whatever was in memory."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # quantised and half-precision complex tensors announce their future
            return torch.empty(self.shape, dtype=self.dtype, device=self.device)

    @property
    def covers_storage_once(self) -> bool:
        """Whether every element has bytes of its own and no byte is left."""
        dtype = DTYPES[name_of(self.dtype)]
        return dtype.storage_bits == 8 * dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of its storage."""
        return storage_bytes(name_of(self.dtype), self.shape)

    def expression(self) -> str:
        return f"torch.empty({self.shape}, dtype={self.dtype}, device={self.device!r})"


@dataclass(frozen=True, repr=False)
class Viewed(Description):
    """A layout, seen as what it covers of its storage."""

    layout: Layout

    def build(self) -> Shaped[Tensor, "..."]:
        """The tensor."""
        return self.layout.build()

    @property
    def covers_storage_once(self) -> bool:
        """Whether it reaches every element of its storage, and none twice."""
        return strided.covers_storage_once(self.layout.window())

    @property
    def nbytes(self) -> int:
        """Bytes of its storage, which it has from the tensor that it starts from."""
        return math.prod(self.layout.shape) * self.layout.dtype.itemsize

    def expression(self) -> str:
        return self.layout.expression()


@dataclass(frozen=True, repr=False)
class Resized(Description):
    """A vector resized in place: storage grows, and never shrinks."""

    size: int
    to: int

    def build(self) -> Shaped[Tensor, "..."]:
        """The tensor."""
        return torch.zeros(self.size).resize_(self.to)

    @property
    def covers_storage_once(self) -> bool:
        """Whether nothing of the former storage is left over."""
        return self.to >= self.size

    @property
    def nbytes(self) -> int:
        """Bytes of its storage: as many as it has ever had elements, in float32."""
        return 4 * max(self.size, self.to)

    def expression(self) -> str:
        return f"torch.zeros({self.size}).resize_({self.to})"


_WHOLE = [dtype for dtype in torch_dtypes() if Stored(dtype, ()).covers_storage_once]
_PACKED = [dtype for dtype in torch_dtypes() if not Stored(dtype, ()).covers_storage_once]
_HUGE: SearchStrategy[Shape] = st.lists(st.integers(0, 2**18), min_size=1, max_size=3).map(tuple)

whole_storages: SearchStrategy[Stored | Viewed | Resized] = st.one_of(
    st.builds(Stored, st.sampled_from(_WHOLE), shapes),
    st.builds(Stored, st.sampled_from(_WHOLE), _HUGE, st.just("meta")),
    st.builds(Viewed, fresh_layouts()),
    st.builds(lambda size, more: Resized(size, size + more), st.integers(0, 9), st.integers(0, 9)),
)
"""Tensors that cover their storage once: new ones of every dtype, on the meta device of any size, and grown ones."""

partial_storages: SearchStrategy[Stored | Viewed | Resized] = st.one_of(
    st.builds(Viewed, views()),
    st.builds(lambda size, less: Resized(size + less, size), st.integers(0, 9), st.integers(1, 9)),
    *([st.builds(Stored, st.sampled_from(_PACKED), shapes)] if _PACKED else []),
)
"""Tensors that mostly do not: slices, expanded ones, shrunk ones, and dtypes that pack several elements in a byte."""


def storages_of(dtype: torch.dtype) -> SearchStrategy[Stored]:
    """New tensors of one dtype: small ones, and on the meta device ones of any size."""
    return st.one_of(
        st.builds(Stored, st.just(dtype), shapes), st.builds(Stored, st.just(dtype), _HUGE, st.just("meta"))
    )


@dataclass(frozen=True, repr=False)
class Network(Description):
    """A small network of linear layers, each followed by batch normalisation, which counts its batches in int64."""

    widths: tuple[int, ...]

    def build(self) -> nn.Module:
        """The network, in float32."""
        layers: list[nn.Module] = []
        for fan_in, fan_out in zip(self.widths, self.widths[1:], strict=False):
            layers += [nn.Linear(fan_in, fan_out), nn.BatchNorm1d(fan_out)]
        return nn.Sequential(*layers)

    @property
    def counters(self) -> set[str]:
        """Names of the buffers that hold integers: each normalisation's count of the batches it has seen."""
        return {f"{2 * layer + 1}.num_batches_tracked" for layer in range(len(self.widths) - 1)}


networks: SearchStrategy[Network] = st.builds(Network, st.lists(st.integers(1, 6), min_size=2, max_size=3).map(tuple))

# ── how a number gets into a format ──


def _assigned(value: float, dtype: torch.dtype) -> Shaped[Tensor, "1"]:
    x = torch.zeros(1, dtype=dtype)
    x[0] = value
    return x


def _assigned_slice(value: float, dtype: torch.dtype) -> Shaped[Tensor, "1"]:
    x = torch.zeros(1, dtype=dtype)
    x[:] = torch.tensor([value], dtype=torch.float64)
    return x


def _wide(value: float, count: int = 1) -> Shaped[Tensor, "count"]:
    return torch.from_numpy(np.full(count, value))


def _by_method(value: float, dtype: torch.dtype) -> Shaped[Tensor, "1"]:
    x = _wide(value)
    methods = {torch.float16: x.half, torch.bfloat16: x.bfloat16, torch.float32: x.float}
    return methods[dtype]() if dtype in methods else x.to(dtype)


class Route(Enum):
    """A way for a Python float or a float64 to become a number of a narrower format, as text."""

    TO = "x.to(dtype)"
    TO_LONG = "x.repeat(40).to(dtype)"
    TYPE = "x.type(dtype)"
    METHOD = "x.half(), x.bfloat16() or x.float()"
    TENSOR = "torch.tensor([value], dtype=dtype)"
    TENSOR_OF_ARRAY = "torch.tensor(array, dtype=dtype)"
    TENSOR_OF_SCALAR = "torch.tensor(np.float64(value), dtype=dtype)"
    AS_TENSOR = "torch.as_tensor(array, dtype=dtype)"
    ASARRAY = "torch.asarray(value, dtype=dtype)"
    ASARRAY_OF_ARRAY = "torch.asarray(array, dtype=dtype)"
    SCALAR_TENSOR = "torch.scalar_tensor(value, dtype=dtype)"
    FULL = "torch.full((1,), value, dtype=dtype)"
    FULL_LIKE = "torch.full_like(narrow, value)"
    NEW_FULL = "narrow.new_full((1,), value)"
    NEW_TENSOR = "narrow.new_tensor([value])"
    FILL = "narrow.fill_(value)"
    FILL_TENSOR = "narrow.fill_(x[0])"
    COPY = "narrow.copy_(x)"
    ITEM_ASSIGNMENT = "narrow[0] = value"
    SLICE_ASSIGNMENT = "narrow[:] = x"

    def store(self, value: float, dtype: torch.dtype) -> Shaped[Tensor, "1"]:
        """The number in a tensor of one element. Raises RuntimeError where the route refuses it."""
        return _ROUTES[self](value, dtype).reshape(-1)[:1]


_ROUTES: Mapping[Route, Callable[[float, torch.dtype], Shaped[Tensor, "..."]]] = {
    Route.TO: lambda value, dtype: _wide(value).to(dtype),
    Route.TO_LONG: lambda value, dtype: _wide(value, 40).to(dtype),
    Route.TYPE: lambda value, dtype: _wide(value).type(dtype),
    Route.METHOD: _by_method,
    Route.TENSOR: lambda value, dtype: torch.tensor([value], dtype=dtype),
    Route.TENSOR_OF_ARRAY: lambda value, dtype: torch.tensor(np.array([value]), dtype=dtype),
    Route.TENSOR_OF_SCALAR: lambda value, dtype: torch.tensor(np.float64(value), dtype=dtype),
    Route.AS_TENSOR: lambda value, dtype: torch.as_tensor(np.array([value]), dtype=dtype),
    Route.ASARRAY: lambda value, dtype: torch.asarray(value, dtype=dtype),
    Route.ASARRAY_OF_ARRAY: lambda value, dtype: torch.asarray(np.array([value]), dtype=dtype),
    Route.SCALAR_TENSOR: lambda value, dtype: torch.scalar_tensor(value, dtype=dtype),
    Route.FULL: lambda value, dtype: torch.full((1,), value, dtype=dtype),
    Route.FULL_LIKE: lambda value, dtype: torch.full_like(torch.zeros(1, dtype=dtype), value),
    Route.NEW_FULL: lambda value, dtype: torch.zeros(1, dtype=dtype).new_full((1,), value),
    Route.NEW_TENSOR: lambda value, dtype: torch.zeros(1, dtype=dtype).new_tensor([value]),
    Route.FILL: lambda value, dtype: torch.zeros(1, dtype=dtype).fill_(value),
    Route.FILL_TENSOR: lambda value, dtype: torch.zeros(1, dtype=dtype).fill_(_wide(value)[0]),
    Route.COPY: lambda value, dtype: torch.zeros(1, dtype=dtype).copy_(_wide(value)),
    Route.ITEM_ASSIGNMENT: _assigned,
    Route.SLICE_ASSIGNMENT: _assigned_slice,
}

routes: SearchStrategy[Route] = st.sampled_from(Route)

checked_routes: SearchStrategy[Route] = st.sampled_from(
    [Route.FULL, Route.FULL_LIKE, Route.NEW_FULL, Route.FILL, Route.ITEM_ASSIGNMENT, Route.SCALAR_TENSOR]
)
"""The routes on which torch checks a Python float against float32's range before it stores it in float32."""

unchecked_routes: SearchStrategy[Route] = st.sampled_from(
    [
        Route.TO,
        Route.TO_LONG,
        Route.TYPE,
        Route.METHOD,
        Route.TENSOR,
        Route.TENSOR_OF_ARRAY,
        Route.COPY,
        Route.SLICE_ASSIGNMENT,
    ]
)
"""Routes on which a number beyond a format's range is converted like any other."""
