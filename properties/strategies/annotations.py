"""Tensors and the jaxtyping annotations that they are to fit, and calls of an annotated function."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum
from typing import Any

import jaxtyping
import torch
from beartype import beartype
from hypothesis import strategies as st
from jaxtyping import Float, Shaped, TypeCheckError, jaxtyped
from torch import Tensor

from properties.refusals import refused
from properties.strategies.description import Description
from reference.dtypes import DTYPES, Kind

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
    group: str = "Float"

    def build(self) -> Shaped[Tensor, "..."]:
        """A tensor of ones."""
        return torch.ones(self.shape).to(self.dtype)

    @property
    def annotation(self) -> Any:
        """``Float[Tensor, "..."]``, or another group of dtypes, with the names in it."""
        return getattr(jaxtyping, self.group)[Tensor, " ".join(self.names)]

    @property
    def fits(self) -> bool:
        """As many names as dimensions, no name with two lengths, and a dtype of the group."""
        dtype = str(self.dtype).removeprefix("torch.")
        kinds = GROUPS[self.group]
        return (DTYPES[dtype].kind in kinds or dtype in kinds) and _binds(self._spread())

    def _spread(self) -> tuple[tuple[str, int], ...] | None:
        """Each name with its length, without what "..." or "*name" stands for; None where the rank is another."""
        several = [place for place, name in enumerate(self.names) if name == "..." or name.startswith("*")]
        rest = len(self.shape) - len(self.names) + len(several)
        if rest < 0 or (rest and not several):
            return None
        if several:
            (place,) = several
            names = (*self.names[:place], *self.names[place + 1 :])
            return tuple(zip(names, (*self.shape[:place], *self.shape[place + rest :]), strict=True))
        return tuple(zip(self.names, self.shape, strict=True))


def _binds(dimensions: tuple[tuple[str, int], ...] | None) -> bool:
    """Whether every length is what its name says, the first length of a name being the one for all."""
    bound: dict[str, int] = {}
    for name, length in dimensions or ():
        if name == "_" or (name.startswith("#") and length == 1):
            continue
        name = name.removeprefix("#").partition("=")[2] or name.removeprefix("#")
        base, plus, more = name.partition("+")
        due = int(name) if name.isdigit() else bound[base] + int(more) if plus else bound.setdefault(name, length)
        if due != length:
            return False
    return dimensions is not None


_FORMATS = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
FLOATS = tuple(
    getattr(torch, name) for name in ("float32", "float16", "bfloat16", "float64", *_FORMATS) if hasattr(torch, name)
)
OTHERS = (torch.int64, torch.int32, torch.uint8, torch.bool, torch.complex64)

_FLOATING, _WHOLE = {Kind.FLOATING}, {Kind.SIGNED, Kind.UNSIGNED}
GROUPS: dict[str, Collection[Kind | str]] = {
    "Float": _FLOATING,
    "Int": {Kind.SIGNED},
    "UInt": {Kind.UNSIGNED},
    "Integer": _WHOLE,
    "Bool": {Kind.BOOLEAN},
    "Complex": {Kind.COMPLEX},
    "Inexact": {Kind.FLOATING, Kind.COMPLEX},
    "Real": {*_FLOATING, *_WHOLE},
    "Num": {*_FLOATING, *_WHOLE, Kind.COMPLEX},
    "Shaped": set(Kind),
    "Float32": {"float32"},
    "BFloat16": {"bfloat16"},
    "Int64": {"int64"},
}
"""Groups of dtypes that an annotation can ask for: kinds of numbers, or one dtype by its name."""

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


@st.composite
def signed_annotations(draw: st.DrawFn) -> Annotated:
    """Any group of dtypes, and names with signs: one length for all, a number, one of several, any number of them."""
    shape = draw(_shapes)
    names = [draw(st.sampled_from(("a", "#a", "_", str(length), "2", f"rows={length}", "b"))) for length in shape]
    if draw(st.booleans()) and len(names) > 1:
        names[:2] = ["a", "a+1"]
        shape = (shape[0], draw(st.sampled_from((shape[0] + 1, shape[1]))), *shape[2:])
    if draw(st.booleans()):
        start = draw(st.integers(len(names) and 1, len(names)))
        names[start : draw(st.integers(start, len(names)))] = [draw(st.sampled_from(("...", "*c")))]
    group = draw(st.sampled_from(tuple(GROUPS)))
    return Annotated(shape, tuple(names), draw(st.sampled_from((*FLOATS[:3], *OTHERS))), group)


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


@jaxtyped(typechecker=beartype)
def _lengthened(
    x: Float[Tensor, "*batch n"], y: Float[Tensor, "*batch #n"], returned: Shape
) -> Float[Tensor, "*batch n+1"]:
    del x, y
    return torch.zeros(returned)


@dataclass(frozen=True, repr=False)
class Lengthened(Description):
    """A call of ``f(x: Float["*batch n"], y: Float["*batch #n"]) -> Float["*batch n+1"]`` and what comes back."""

    x: Shape
    y: Shape
    returned: Shape

    @property
    def is_right(self) -> bool:
        """Whether arguments and result are what the signature says."""
        if not self.x or not self.y:
            return False
        *batch, n = self.x
        return [*batch] == [*self.y[:-1]] and self.y[-1] in (1, n) and self.returned == (*batch, n + 1)

    def refused(self) -> bool:
        """Whether making the call raises jaxtyping's error."""
        return refused(TypeCheckError, _lengthened, torch.zeros(self.x), torch.zeros(self.y), self.returned)


@st.composite
def lengthened(draw: st.DrawFn) -> Lengthened:
    """Right calls with none to two leading dimensions, a vector to stretch or not, and calls with one mistake."""
    batch, n = draw(st.sampled_from(_products((1, 2, 3), 2))), draw(st.sampled_from((2, 3, 1, 0)))
    last = draw(st.sampled_from((n, 1)))
    right = ((*batch, n), (*batch, last), (*batch, n + 1))
    place = draw(st.sampled_from((None, None, 0, 1, 2)))
    shape = right[place or 0]
    wrong = draw(st.sampled_from(((2, *shape), shape[1:], (*shape[:-1], shape[-1] + 2))))
    return Lengthened(*(wrong if place == each else right[each] for each in range(3)))


@jaxtyped(typechecker=beartype)
def shortest(vectors: list[Float[Tensor, "n"]]) -> int:
    """The least of the lengths of some vectors."""
    return min(map(len, vectors))


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
