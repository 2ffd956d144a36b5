"""Layouts told by steps: a fresh tensor, and the view operations that were done to it.

Nothing here touches a tensor while it draws. The strided model follows the steps, so that each new step is
one that the tensor at hand can take, and nothing has to be thrown away. Draws shrink towards few dimensions,
sizes of one, and few steps.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations

import torch
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from jaxtyping import Shaped
from torch import Tensor

from properties.strategies.description import Description
from properties.strategies.draws import any_of, between
from properties.strategies.steps import (
    AsStrided,
    Chunk,
    Conjugate,
    Detach,
    Diagonal,
    Expand,
    Imaginary,
    MoveDim,
    Narrow,
    Permute,
    Real,
    Select,
    Slice,
    Split,
    Squeeze,
    SqueezeAll,
    Step,
    SwapAxes,
    T,
    Transpose,
    Unbind,
    Unflatten,
    Unfold,
    Unsqueeze,
    View,
    ViewAsComplex,
    ViewAsReal,
)
from reference import strided
from reference.strided import Shape, Strided


@dataclass(frozen=True, repr=False)
class Layout(Description):
    """A strided tensor, told as the shape it starts from and the steps that made it.

    It starts fresh, with elements that are their own addresses: 0, 1, 2 and so on, as far as the dtype can
    tell them apart. A complex element is two such numbers.
    """

    shape: Shape
    steps: tuple[Step, ...] = ()
    dtype: torch.dtype = torch.int64

    def build(self, device: str = "cpu") -> Shaped[Tensor, "..."]:
        """The tensor, on storage of its own."""
        x = _start(self.shape, self.dtype).to(device)
        for step in self.steps:
            x = step.apply(x)
        return x

    def window(self) -> Strided:
        """Where its elements lie, by the model."""
        x = strided.fresh(self.shape)
        for step in self.steps:
            x = step.predict(x)
        return x

    def then(self, *steps: Step) -> Layout:
        """This layout with further steps."""
        return Layout(self.shape, (*self.steps, *steps), self.dtype)

    def expression(self) -> str:
        numel = math.prod(self.shape)
        if self.dtype.is_complex:
            start = f"torch.arange({2 * numel}, dtype={self.dtype.to_real()}).view({self.dtype})"
        elif self.dtype is torch.int64:
            start = f"torch.arange({numel})"
        else:
            start = f"torch.arange({numel}).to({self.dtype})"
        text = f"{start}.reshape({self.shape})" if len(self.shape) != 1 else start
        for step in self.steps:
            text = step.of(text)
        return text


def _start(shape: Shape, dtype: torch.dtype) -> Shaped[Tensor, "..."]:
    numel = math.prod(shape)
    if dtype.is_complex:
        return torch.arange(2 * numel, dtype=dtype.to_real()).view(dtype).reshape(shape)
    return torch.arange(numel).to(dtype).reshape(shape)


SIZES: tuple[int, ...] = (1, 2, 3, 4, 2, 3, 5, 6, 7, 0)
"""Sizes to draw from, each as often as it stands here; the first is the simplest."""
FILLED: tuple[int, ...] = SIZES[:-1]
"""The same without zero: tensors that have elements."""
LONGER: tuple[int, ...] = (2, 3, 4, 5, 6, 7)
"""Sizes that are stepped along."""
_RANKS = (0, 1, 2, 3, 2, 3, 4, 1, 2, 3)
_ROOM = 96
"""An operation that repeats elements is not offered to a tensor of more elements than this."""


@cache
def _orders(dims: int) -> tuple[tuple[int, ...], ...]:
    return tuple(permutations(range(dims)))


@cache
def _divisors(numel: int) -> tuple[int, ...]:
    return tuple(factor for factor in range(numel, 1, -1) if numel % factor == 0)


def draw_shape(draw: DrawFn, sizes: tuple[int, ...], ranks: tuple[int, ...] = _RANKS) -> Shape:
    """A shape with sizes out of ``sizes``, of one of ``ranks`` dimensions."""
    return tuple(draw(any_of(sizes)) for _ in range(draw(any_of(ranks))))


def _draw_factors(draw: DrawFn, numel: int) -> list[int]:
    """Factors over one whose product is ``numel``, in any order."""
    factors = []
    while numel > 1:
        factor = draw(any_of(_divisors(numel)))
        factors.append(factor)
        numel //= factor
    return factors


def _draw_empty_shape(draw: DrawFn) -> Shape:
    """A shape with a zero in it."""
    rest = draw_shape(draw, SIZES, (0, 1, 2))
    place = draw(between(0, len(rest)))
    return (*rest[:place], 0, *rest[place:])


def _draw_ones(draw: DrawFn, shape: Sequence[int]) -> Shape:
    """``shape``, perhaps with a one put in somewhere."""
    if draw(between(0, 2)) < 2:
        return tuple(shape)
    place = draw(between(0, len(shape)))
    return (*shape[:place], 1, *shape[place:])


def _draw_fitting(draw: DrawFn, x: Strided) -> Shape:
    """A shape that ``x`` can be viewed as: each run of dimensions divided anew."""
    if x.numel == 0:
        return _draw_empty_shape(draw)
    shape = [factor for run in strided.runs(x.shape, x.stride) for factor in _draw_factors(draw, run.numel)]
    return _draw_ones(draw, shape)


# ── one step that a tensor can take ──


def _dim(draw: DrawFn, dims: Sequence[int]) -> int:
    dim: int = draw(any_of(tuple(dims)))
    return dim


def _either_way(x: Strided) -> tuple[int, ...]:
    """The dimensions, counted from the front and from the back."""
    return (*range(x.dim), *range(-x.dim, 0))


def _draw_transpose(draw: DrawFn, x: Strided, zero: int) -> Step:
    return Transpose(_dim(draw, range(x.dim)), _dim(draw, _either_way(x)))


def _draw_swapaxes(draw: DrawFn, x: Strided, zero: int) -> Step:
    return SwapAxes(_dim(draw, range(x.dim)), _dim(draw, _either_way(x)))


def _draw_permute(draw: DrawFn, x: Strided, zero: int) -> Step:
    return Permute(draw(any_of(_orders(x.dim))))


def _draw_movedim(draw: DrawFn, x: Strided, zero: int) -> Step:
    return MoveDim(_dim(draw, _either_way(x)), _dim(draw, _either_way(x)))


def _draw_select(draw: DrawFn, x: Strided, zero: int) -> Step:
    dim = _dim(draw, [dim for dim in _either_way(x) if x.shape[dim]])
    return Select(dim, draw(between(-x.shape[dim], x.shape[dim] - 1)))


def _draw_slice(draw: DrawFn, x: Strided, zero: int) -> Step:
    dim = _dim(draw, range(x.dim))
    size = x.shape[dim]
    start = draw(between(0, max(size - 1 + zero, 0)))
    stop = draw(between(min(start + 1 - zero, size), size))
    step = draw(any_of((1, 2, 3)))
    return Slice(dim, start or None, None if stop == size else stop, step)


def _draw_narrow(draw: DrawFn, x: Strided, zero: int) -> Step:
    dim = _dim(draw, _either_way(x))
    start = draw(between(0, max(x.shape[dim] - 1 + zero, 0)))
    low = min(1 - zero, x.shape[dim] - start)
    return Narrow(dim, start, draw(between(low, x.shape[dim] - start)))


def _draw_expand(draw: DrawFn, x: Strided, zero: int) -> Step:
    wider = (-1, 2, 3, 0) if zero else (-1, 2, 3)
    kept = tuple(draw(any_of(wider)) if size == 1 else draw(any_of((-1, size))) for size in x.shape)
    front = draw(any_of(((), (2,), (3,), (1,))))
    return Expand((*front, *kept))


def _draw_unfold(draw: DrawFn, x: Strided, zero: int) -> Step:
    dim = _dim(draw, _either_way(x))
    size = draw(between(min(1 - zero, x.shape[dim]), x.shape[dim]))
    return Unfold(dim, size, draw(any_of((1, 2))))


def _draw_diagonal(draw: DrawFn, x: Strided, zero: int) -> Step:
    first, second = draw(any_of(tuple(permutations(range(x.dim), 2))))
    low, high = 1 - x.shape[first] - zero, x.shape[second] - 1 + zero
    return Diagonal(draw(between(min(low, 0), max(high, 0))), first, second)


def _draw_squeeze(draw: DrawFn, x: Strided, zero: int) -> Step:
    ones = [dim for dim in _either_way(x) if x.shape[dim] == 1]
    return Squeeze(_dim(draw, ones or range(x.dim)))


def _draw_unsqueeze(draw: DrawFn, x: Strided, zero: int) -> Step:
    return Unsqueeze(draw(between(-1 - x.dim, x.dim)))


def _draw_view(draw: DrawFn, x: Strided, zero: int) -> Step:
    return View(_draw_fitting(draw, x))


def _draw_unflatten(draw: DrawFn, x: Strided, zero: int) -> Step:
    dim = _dim(draw, range(x.dim))
    if x.shape[dim] == 0:
        return Unflatten(dim, draw(any_of(((0, 1), (0, 2), (3, 0)))))
    return Unflatten(dim, (*_draw_factors(draw, x.shape[dim]), 1))


def _draw_as_strided(draw: DrawFn, x: Strided, zero: int) -> Step:
    room = x.storage - 1
    size, stride = [], []
    for length in draw_shape(draw, (1, 2, 3), (0, 1, 2, 3)):
        step = draw(between(0, min(room // (length - 1), 6) if length > 1 else 6))
        room -= (length - 1) * step
        size.append(length)
        stride.append(step)
    return AsStrided(tuple(size), tuple(stride), draw(between(0, room)))


def _draw_chunk(draw: DrawFn, x: Strided, zero: int) -> Step:
    dim = _dim(draw, _either_way(x))
    chunks = draw(between(1, 3))
    return Chunk(chunks, dim, draw(between(0, len(strided.chunk(x, chunks, dim)) - 1)))


def _draw_split(draw: DrawFn, x: Strided, zero: int) -> Step:
    dim = _dim(draw, _either_way(x))
    size = draw(between(1, 3))
    return Split(size, dim, draw(between(0, len(strided.split(x, size, dim)) - 1)))


def _draw_unbind(draw: DrawFn, x: Strided, zero: int) -> Step:
    dim = _dim(draw, [dim for dim in range(x.dim) if x.shape[dim]])
    return Unbind(dim, draw(between(0, x.shape[dim] - 1)))


def _always(x: Strided) -> bool:
    return True


def _has_dims(x: Strided) -> bool:
    return x.dim > 0


def _has_indices(x: Strided) -> bool:
    return any(x.shape)


_Drawer = Callable[[DrawFn, Strided, int], Step]

_KINDS: dict[type[Step], tuple[Callable[[Strided], bool], _Drawer]] = {
    Transpose: (_has_dims, _draw_transpose),
    Permute: (_always, _draw_permute),
    Select: (_has_indices, _draw_select),
    Slice: (_has_dims, _draw_slice),
    Narrow: (_has_dims, _draw_narrow),
    Expand: (lambda x: x.numel <= _ROOM and x.dim < 5, _draw_expand),
    Unfold: (lambda x: 0 < x.dim < 5 and x.numel <= _ROOM, _draw_unfold),
    AsStrided: (lambda x: x.storage > 0, _draw_as_strided),
    Diagonal: (lambda x: x.dim > 1, _draw_diagonal),
    Squeeze: (_has_dims, _draw_squeeze),
    SqueezeAll: (_always, lambda draw, x, zero: SqueezeAll()),
    Unsqueeze: (lambda x: x.dim < 5, _draw_unsqueeze),
    MoveDim: (_has_dims, _draw_movedim),
    SwapAxes: (_has_dims, _draw_swapaxes),
    T: (lambda x: x.dim <= 2, lambda draw, x, zero: T()),
    Chunk: (_has_dims, _draw_chunk),
    Split: (_has_dims, _draw_split),
    Unbind: (_has_indices, _draw_unbind),
    View: (_always, _draw_view),
    Unflatten: (lambda x: 0 < x.dim < 5, _draw_unflatten),
    Detach: (_always, lambda draw, x, zero: Detach()),
}
"""Each kind of step: which tensors can take it, and how one is drawn for a tensor.

The last argument of a drawer is 1 where the result may be without elements, and 0 where it must have some.
"""

_CHAIN: tuple[type[Step], ...] = (
    Transpose, Slice, Select, Permute, Expand, Unfold, AsStrided,
    Slice, Diagonal, Unsqueeze, Permute, Slice, Expand, View,
)  # fmt: skip
"""What layouts are made of, each as often as it stands here."""


def _draw_step(draw: DrawFn, x: Strided, kinds: tuple[type[Step], ...], zero: int) -> Step:
    open_to_x = tuple(kind for kind in kinds if _KINDS[kind][0](x))
    return _KINDS[draw(any_of(open_to_x))][1](draw, x, zero)


def draw_layout(draw: DrawFn, sizes: tuple[int, ...], steps: tuple[int, ...]) -> tuple[Layout, Strided]:
    """A layout of any of so many steps, and where its elements lie."""
    shape = draw_shape(draw, sizes)
    x, taken = strided.fresh(shape), []
    zero = int(0 in sizes)
    for _ in range(draw(any_of(tuple(steps)))):
        step = _draw_step(draw, x, _CHAIN, zero)
        x = step.predict(x)
        taken.append(step)
    return Layout(shape, tuple(taken)), x


@st.composite
def layouts(draw: DrawFn, sizes: tuple[int, ...] = SIZES) -> Layout:
    """Any layout: fresh, or up to three steps away from it. Sizes are drawn from ``sizes``."""
    return draw_layout(draw, sizes, (0, 1, 2, 1, 3, 2, 1))[0]


def filled_layouts() -> SearchStrategy[Layout]:
    """Any layout that has elements."""
    return layouts(FILLED)


@st.composite
def fresh_layouts(draw: DrawFn, sizes: tuple[int, ...] = SIZES, ranks: tuple[int, ...] = _RANKS) -> Layout:
    """A tensor as a factory makes it, without a step."""
    return Layout(draw_shape(draw, sizes, ranks))


@st.composite
def views(draw: DrawFn, sizes: tuple[int, ...] = SIZES) -> Layout:
    """A layout of at least one step."""
    return draw_layout(draw, sizes, (1, 2, 1, 3))[0]


_COMPLEX: tuple[type[Step], ...] = (ViewAsReal, Real, Imaginary)
"""Steps that complex elements take."""


@st.composite
def view_operations(draw: DrawFn, sizes: tuple[int, ...] = SIZES) -> tuple[Layout, Step]:
    """A layout and one view operation that it can take, out of all kinds alike."""
    kind = draw(any_of((*_KINDS, *_COMPLEX, ViewAsComplex)))
    if kind is T:
        return Layout(draw_shape(draw, sizes, (2, 1, 2, 0))), T()
    layout, x = draw_layout(draw, sizes, (0, 1, 2))
    if kind in _COMPLEX:
        return Layout(layout.shape, layout.steps, torch.complex64), kind()
    if kind is ViewAsComplex:
        return Layout(layout.shape, layout.steps, torch.complex64).then(ViewAsReal()), ViewAsComplex()
    kinds = (kind,) if _KINDS[kind][0](x) else tuple(_KINDS)
    return layout, _draw_step(draw, x, kinds, int(0 in sizes))


def filled_view_operations() -> SearchStrategy[tuple[Layout, Step]]:
    """The same over layouts whose views have elements."""
    return view_operations(FILLED)


@st.composite
def written_views(draw: DrawFn) -> tuple[Layout, Step, int]:
    """A layout, one view operation on it, and the number of an element of that view, in row-major order."""
    layout, step = draw(filled_view_operations())
    return layout, step, draw(between(0, step.predict(layout.window()).numel - 1))


# ── layouts on one side of a condition, by construction ──


@st.composite
def contiguous_layouts(draw: DrawFn) -> Layout:
    """A contiguous layout: fresh, a part of a larger one, or with any stride on dimensions of size one."""
    shape = draw_shape(draw, SIZES)
    way = draw(any_of(("fresh", "selected", "sliced", "ones moved", "divided", "emptied")))
    if way == "selected":
        length = draw(any_of((2, 3)))
        return Layout((length, *shape), (Select(0, draw(between(0, length - 1))),))
    if way == "sliced":
        length = draw(any_of(LONGER))
        start = draw(between(0, length))
        return Layout((length, *shape), (Slice(0, start, draw(between(start, length))),))
    if way == "ones moved":
        place = draw(between(0, len(shape)))
        order = [dim for dim in range(len(shape) + 1) if dim != place]
        order.insert(draw(between(0, len(shape))), place)
        return Layout((*shape[:place], 1, *shape[place:]), (Permute(tuple(order)),))
    if way == "divided":
        return Layout(shape, (View(_draw_fitting(draw, strided.fresh(shape))),))
    if way == "emptied":
        return Layout((2, 3, *shape), (Transpose(0, 1), Slice(0, 2, 2)))
    return Layout(shape)


@st.composite
def scattered_layouts(draw: DrawFn) -> Layout:
    """A layout with at least two runs longer than one, so that some shape cuts across them."""
    way = draw(any_of(("permuted", "narrowed", "repeated", "windows", "every second")))
    steps: tuple[Step, ...] = ()
    if way == "windows":
        length = draw(any_of((3, 4, 5)))
        shape: Shape = (length, *draw_shape(draw, LONGER, (0, 1, 2)))
        steps = (Unfold(0, draw(between(2, length - 1)), 1),)
    else:
        shape = draw_shape(draw, LONGER, (2, 3, 2, 4))
    if way == "permuted":
        steps = (Permute(draw(any_of(_orders(len(shape))[1:]))),)
    elif way == "repeated":
        dim = draw(between(0, len(shape)))
        sizes = (*(-1,) * dim, draw(any_of((2, 3))), *(-1,) * (len(shape) - dim))
        steps = (Unsqueeze(dim), Expand(sizes))
    elif way == "narrowed":
        dim = draw(between(1, len(shape) - 1))
        shape = (*shape[:dim], shape[dim] + 1, *shape[dim + 1 :])
        steps = (Slice(dim, *draw(any_of(((1, None), (None, -1))))),)
    elif way == "every second":
        shape = (*shape[:-1], draw(any_of((3, 5))))
        steps = (Slice(len(shape) - 1, step=2),)
    if draw(any_of((False, True))):
        steps = (Select(0, draw(between(0, 1))), *steps)
        shape = (2, *shape)
    return Layout(shape, steps)


def _draw_open(draw: DrawFn, target: Shape) -> Shape:
    """``target``, perhaps with -1 in the place of one size, where the others leave no doubt."""
    places = [place for place in range(len(target)) if math.prod((*target[:place], *target[place + 1 :])) > 0]
    if not places or draw(between(0, 2)) < 2:
        return target
    place = draw(any_of(tuple(places)))
    return (*target[:place], -1, *target[place + 1 :])


@st.composite
def fitting_targets(draw: DrawFn) -> tuple[Layout, Shape]:
    """A layout and a shape that it can be viewed as, with -1, ones, or no elements at all in some."""
    layout, x = draw_layout(draw, SIZES, (0, 1, 2, 1, 3))
    return layout, _draw_open(draw, _draw_fitting(draw, x))


@st.composite
def contiguous_targets(draw: DrawFn) -> tuple[Layout, Shape]:
    """A contiguous layout and any shape of as many elements."""
    layout = draw(contiguous_layouts())
    return layout, _draw_open(draw, _draw_fitting(draw, layout.window()))


@st.composite
def ambiguous_targets(draw: DrawFn) -> tuple[Layout, Shape]:
    """A layout without elements and a shape that leaves open what -1 is, since it is multiplied by 0."""
    layout, x = draw_layout(draw, SIZES, (0, 1))
    empty = layout.then(Narrow(draw(between(0, x.dim - 1)), 0, 0)) if x.dim else Layout((0,))
    return empty, draw(any_of(((0, -1), (-1, 0), (0, -1, 2), (1, -1, 0))))


@st.composite
def cut_targets(draw: DrawFn) -> tuple[Layout, Shape]:
    """A layout with elements and a shape of as many elements that cuts across its runs.

    Two neighbouring runs are taken as one and divided so that no cut falls where they meet.
    """
    layout = draw(scattered_layouts())
    x = layout.window()
    longer = [run.numel for run in strided.runs(x.shape, x.stride) if run.numel > 1]
    seam = draw(between(0, len(longer) - 2))
    target: list[int] = []
    for place, numel in enumerate(longer):
        if place == seam:
            target += _across(_draw_factors(draw, numel * longer[seam + 1]), longer[seam + 1])
        elif place != seam + 1:
            target += _draw_factors(draw, numel)
    return layout, _draw_open(draw, _draw_ones(draw, target))


def cutting_targets() -> SearchStrategy[tuple[Layout, Shape]]:
    """A layout and a shape that it cannot be viewed as: one that cuts, or one that leaves -1 open."""
    return st.one_of(cut_targets(), cut_targets(), cut_targets(), ambiguous_targets())


@st.composite
def scattered_targets(draw: DrawFn) -> tuple[Layout, Shape]:
    """A layout that is not contiguous, and a shape that it can be viewed as or one that cuts."""
    if draw(any_of((False, True))):
        return draw(cut_targets())
    layout = draw(scattered_layouts())
    return layout, _draw_open(draw, _draw_fitting(draw, layout.window()))


def _across(factors: list[int], inner: int) -> list[int]:
    """``factors``, two of them multiplied together where the last ones alone would make up ``inner``."""
    for place in range(1, len(factors)):
        if math.prod(factors[place:]) == inner:
            return [*factors[: place - 1], factors[place - 1] * factors[place], *factors[place + 1 :]]
    return factors


@st.composite
def shared_layouts(draw: DrawFn) -> Layout:
    """A layout in which two indices reach the same element: an expanded dimension, or overlapping windows."""
    shape = draw_shape(draw, FILLED, (1, 2, 3))
    dim = draw(between(0, len(shape) - 1))
    if draw(any_of((True, False))):
        sizes = (*(-1,) * dim, draw(any_of((2, 3))), *(-1,) * (len(shape) - dim))
        return Layout(shape, (Unsqueeze(dim), Expand(sizes)))
    length = draw(any_of((3, 4, 5)))
    size = draw(between(2, length - 1))
    return Layout((*shape[:dim], length, *shape[dim + 1 :]), (Unfold(dim, size, 1),))


_APART: tuple[type[Step], ...] = (
    Transpose, Slice, Select, Permute, Narrow, Diagonal, Unsqueeze, View, Squeeze, MoveDim, Chunk, Unbind,
)  # fmt: skip
"""Steps that never bring two indices to the same element."""


@st.composite
def separate_layouts(draw: DrawFn) -> Layout:
    """A layout in which no two indices reach the same element."""
    return _draw_chain(draw, SIZES, _APART)


_UNMOVED: tuple[type[Step], ...] = (Transpose, Permute, Expand, Unsqueeze, Squeeze, MoveDim, View, Unfold)
"""Steps that leave the first element where it is."""


def _draw_chain(draw: DrawFn, sizes: tuple[int, ...], kinds: tuple[type[Step], ...]) -> Layout:
    layout = Layout(draw_shape(draw, sizes))
    x = layout.window()
    for _ in range(draw(between(0, 2))):
        step = _draw_step(draw, x, (*kinds, Detach), int(0 in sizes))
        x, layout = step.predict(x), layout.then(step)
    return layout


@st.composite
def unmoved_layouts(draw: DrawFn) -> Layout:
    """A layout with elements whose first one is the first of its storage."""
    return _draw_chain(draw, FILLED, _UNMOVED)


@st.composite
def offset_layouts(draw: DrawFn) -> Layout:
    """A layout with elements whose first one is not the first of its storage."""
    inner = _draw_chain(draw, FILLED, _UNMOVED)
    return Layout((3, *inner.shape), (Select(0, draw(between(1, 2))), *inner.steps))


@st.composite
def lazy_layouts(draw: DrawFn) -> Layout:
    """A layout of elements that are read through a conjugate or a negative bit."""
    layout = _draw_chain(draw, FILLED, _APART)
    steps = (*layout.steps, Conjugate(), *draw(any_of(((), (Imaginary(),)))))
    return Layout(layout.shape, steps, torch.complex64)


@st.composite
def keeping_orders(draw: DrawFn) -> tuple[Shape, tuple[int, ...]]:
    """A shape and an order of its dimensions that leaves those longer than one as they follow each other.

    Or any order, of a shape with a zero in it.
    """
    if draw(between(0, 3)) == 3:
        shape = _draw_empty_shape(draw)
        return shape, draw(any_of(_orders(len(shape))))
    shape = draw_shape(draw, (2, 3, 1, 4, 1))
    longer = [dim for dim, size in enumerate(shape) if size > 1]
    order = [dim for dim in range(len(shape)) if shape[dim] == 1]
    place = 0
    for dim in longer:
        place = draw(between(place, len(order)))
        order.insert(place, dim)
        place += 1
    return shape, tuple(order)


@st.composite
def changing_orders(draw: DrawFn) -> tuple[Shape, tuple[int, ...]]:
    """A shape without zeros and an order that makes some of its dimensions longer than one change places."""
    sizes = draw_shape(draw, LONGER, (2, 3, 2, 4))
    places = list(draw(any_of(_orders(len(sizes))[1:])))
    ones = draw(between(0, 2))
    for one in range(ones):
        places.insert(draw(between(0, len(places))), len(sizes) + one)
    shape = (*sizes, *(1,) * ones)
    return shape, tuple(places)


# ── the same bytes as another dtype ──

WIDTHS: tuple[torch.dtype, ...] = (
    torch.int64, torch.float32, torch.int16, torch.uint8,
    torch.complex64, torch.complex128, torch.float16,
)  # fmt: skip
"""Dtypes of every size of element: integers, floats and complex numbers."""


def _ratio(old: torch.dtype, new: torch.dtype) -> int:
    """How many of the smaller elements make up one of the larger."""
    return max(old.itemsize, new.itemsize) // min(old.itemsize, new.itemsize)


@st.composite
def readable_bytes(draw: DrawFn) -> tuple[Layout, torch.dtype]:
    """A layout of any dtype, and another dtype that its bytes can be read as.

    Of the same size of element, any layout will do. Otherwise the last dimension is left whole, so that it is
    contiguous, and where elements grow it has a length that divides.
    """
    old, new = draw(any_of(WIDTHS)), draw(any_of(WIDTHS))
    if old.itemsize == new.itemsize:
        layout, _ = draw_layout(draw, SIZES, (0, 1, 2))
        return Layout(layout.shape, layout.steps, old), new
    grows = new.itemsize > old.itemsize
    length = draw(between(1, 3)) * _ratio(old, new) if grows else draw(between(0, 3))
    shape = (*draw_shape(draw, SIZES, (0, 1, 2, 3)), length)
    steps: tuple[Step, ...] = ()
    if len(shape) > 1 and shape[0]:
        last = shape[0] - 1
        steps = draw(any_of(((), (Slice(0, last),), (Select(0, last),), (Transpose(0, -2),))))
    return Layout(shape, steps, old), new


@st.composite
def unreadable_bytes(draw: DrawFn) -> tuple[Layout, torch.dtype]:
    """A layout, and a dtype that its bytes cannot be read as: for its strides, or for a lazy bit."""
    way = draw(any_of(("no dimension", "last one scattered", "length", "offset", "stride", "lazy")))
    if way == "lazy":
        return draw(lazy_layouts()), draw(any_of(WIDTHS))
    small, large = draw(
        any_of(((torch.int16, torch.int64), (torch.uint8, torch.float32), (torch.float32, torch.complex128)))
    )
    old, new = draw(any_of(((small, large), (large, small))))
    if way == "no dimension":
        shape = draw_shape(draw, FILLED, (0, 1, 2))
        return Layout(shape, tuple(Select(0, size - 1) for size in shape), old), new
    leading = draw_shape(draw, LONGER, (1, 2))
    ratio = _ratio(small, large)
    whole = ratio * draw(between(1, 2))
    if way == "last one scattered":
        return Layout((*leading, whole), (Transpose(0, -1),), old), new
    if way == "length":
        return Layout((*leading, whole + draw(between(1, ratio - 1))), (), small), large
    if way == "offset":
        start = draw(between(1, ratio - 1))
        return Layout((*leading, 2 * whole), (Narrow(len(leading), start, whole),), small), large
    return Layout((*leading, whole + 1), (Slice(len(leading), None, whole),), small), large


# ── tensors without strides ──


@dataclass(frozen=True, repr=False)
class Compressed(Description):
    """A sparse matrix of ones in a compressed layout, which keeps indices and has no strides."""

    rows: int
    columns: int
    layout: str

    def build(self) -> Shaped[Tensor, "rows columns"]:
        """The matrix; its blocks, in a layout that has some, are single elements."""
        dense = torch.ones(self.rows, self.columns)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch calls compressed layouts unfinished
            matrix: Tensor = getattr(dense, f"to_{self.layout}")(*[(1, 1)] * self.layout.startswith("sparse_bs"))
            return matrix

    def expression(self) -> str:
        block = "(1, 1)" * self.layout.startswith("sparse_bs")
        return f"torch.ones({self.rows}, {self.columns}).to_{self.layout}({block})"


def compressed_matrices() -> SearchStrategy[Compressed]:
    """Sparse matrices in each of the four compressed layouts."""
    layout = st.sampled_from(("sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"))
    return st.builds(Compressed, between(1, 9), between(1, 9), layout)
