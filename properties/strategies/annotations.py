"""Tensors and the jaxtyping annotations that they are to fit, and calls of an annotated function."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
from beartype import beartype
from hypothesis import strategies as st
from jaxtyping import Float, Shaped, TypeCheckError, jaxtyped
from torch import Tensor

from properties.refusals import refused
from properties.strategies.description import Description

Shape = tuple[int, ...]
Names = tuple[str, ...]


def _products(items: tuple[Any, ...], most: int) -> tuple[tuple[Any, ...], ...]:
    return tuple(itertools.chain.from_iterable(itertools.product(items, repeat=rank) for rank in range(most + 1)))


def empty(dtype: str) -> Shaped[Tensor, "2"]:
    """Two elements of any dtype that torch names, on the meta device, where every dtype can be made."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls some dtypes experimental, and some outdated
        return torch.empty(2, dtype=getattr(torch, dtype), device="meta")


# ------------------------------------------------------------------------------------- a tensor and its names


@dataclass(frozen=True, repr=False)
class Annotated(Description):
    """A shape, the names an annotation gives to its dimensions, and the dtype of the tensor."""

    shape: Shape
    names: Names
    dtype: torch.dtype = torch.float32

    def build(self) -> Shaped[Tensor, "..."]:
        """A tensor of ones."""
        return torch.ones(self.shape).to(self.dtype)

    @property
    def annotation(self) -> Any:
        """``Float[Tensor, "..."]`` with the names in it."""
        return Float[Tensor, " ".join(self.names)]

    @property
    def fits(self) -> bool:
        """As many names as dimensions, no name with two lengths, and a floating-point dtype."""
        pairs = set(zip(self.names, self.shape, strict=False))
        return (
            len(self.names) == len(self.shape) and len(pairs) == len(set(self.names)) and self.dtype.is_floating_point
        )


_FORMATS = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
FLOATS = tuple(
    getattr(torch, name) for name in ("float32", "float16", "bfloat16", "float64", *_FORMATS) if hasattr(torch, name)
)
OTHERS = (torch.int64, torch.int32, torch.uint8, torch.bool, torch.complex64)

_shapes = st.sampled_from(_products((1, 2, 3, 0), 4))
_names = st.sampled_from(_products(("a", "b", "c"), 4))
_distinct = ("batch", "seq", "heads", "hidden")


@st.composite
def annotated(draw: st.DrawFn) -> Annotated:
    """Names that fit as often as names that do not: another rank, a name for two lengths, another kind of
    dtype.
    """
    shape = draw(_shapes)
    fitting = _distinct[: len(shape)]
    names = draw(st.one_of(st.just(fitting), _names, st.just(("a",) * len(shape))))
    return Annotated(shape, names, draw(st.sampled_from((*FLOATS, *OTHERS))))


# ------------------------------------------------------------------------------------- an annotated function


def _bare(x: Float[Tensor, "rows columns"], y: Float[Tensor, "columns"]) -> Float[Tensor, "rows columns"]:
    local: Float[Tensor, "rows columns"] = x
    other: Float[Tensor, "columns"] = y
    del other
    return local


class Guard(Enum):
    """What looks at the annotations of a function."""

    NOTHING = "plain Python"
    JAXTYPED = "jaxtyped, with beartype as its checker"

    def __repr__(self) -> str:
        return f"Guard.{self.name}"


_GUARDED: dict[Guard, Callable[..., Tensor]] = {
    Guard.NOTHING: _bare,
    Guard.JAXTYPED: jaxtyped(typechecker=beartype)(_bare),
}


@dataclass(frozen=True, repr=False)
class Call(Description):
    """A call of ``f(x: Float["rows columns"], y: Float["columns"])``, and what guards it."""

    guard: Guard
    x: Shape
    y: Shape
    dtype: torch.dtype = torch.float32

    def build(self) -> tuple[Shaped[Tensor, "..."], Shaped[Tensor, "..."]]:
        """The two arguments; the dtype is that of the second."""
        return torch.zeros(self.x), torch.zeros(self.y, dtype=self.dtype)

    @property
    def is_right(self) -> bool:
        """Whether the arguments are what the annotations say."""
        return len(self.x) == 2 and self.y == self.x[1:] and self.dtype.is_floating_point

    def refused(self) -> bool:
        """Whether making the call raises jaxtyping's error."""
        return refused(TypeCheckError, _GUARDED[self.guard], *self.build())


@st.composite
def calls(draw: st.DrawFn, guard: Guard) -> Call:
    """Right calls, and calls with a rank, a length or a dtype that is wrong."""
    rows, columns = draw(st.sampled_from(tuple(itertools.product((1, 2, 3, 0, 5), repeat=2))))
    x: Shape = (rows, columns)
    y: Shape = (columns,)
    mistakes = ((x, y), (x, y), (x[1:], y), ((2, *x), y), (x, x), (x, ()), (x, (columns + 1,)))
    first, second = draw(st.sampled_from(mistakes))
    dtype = draw(st.sampled_from((torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool)))
    return Call(guard, first, second, dtype)


guarded_calls = calls(Guard.JAXTYPED)
bare_calls = calls(Guard.NOTHING)


# ----------------------------------------------------------------------------------- the scope of a name


@jaxtyped(typechecker=beartype)
def is_bound_inside(x: Float[Tensor, "n"], y: Float[Tensor, "m"]) -> bool:
    """Whether, inside a call where ``x`` has bound n, ``y`` is an instance of a vector named n."""
    vector: Any = Float[Tensor, "n"]
    return isinstance(y, vector)


@jaxtyped(typechecker=beartype)
@dataclass(frozen=True)
class Pair:
    """Two vectors of one length n, checked when the pair is made."""

    left: Float[Tensor, "n"]
    right: Float[Tensor, "n"]


@jaxtyped(typechecker=beartype)
def shortened(pair: Pair, other: Float[Tensor, "n"]) -> Pair:
    """The first half of a pair. Its n is not the n of ``other``."""
    half = pair.left.shape[0] // 2
    return Pair(pair.left[:half], pair.right[:half])


@jaxtyped(typechecker=None)
@beartype
def checked_loss(predicted: Float[Tensor, "n"], wanted: Float[Tensor, "n"]) -> Float[Tensor, ""]:
    """The mean squared error of as many predictions as targets, the two decorators one above the other."""
    return torch.nn.functional.mse_loss(predicted, wanted)
