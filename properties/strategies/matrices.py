"""Matrix products: the ways of asking torch for one, and the sizes to ask with."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from jaxtyping import Float64, Int64, Shaped
from torch import Tensor

from properties.strategies.description import Description
from properties.strategies.meta import meta
from reference import linear, scalars
from reference.scalars import Operations, Start

Shape = tuple[int, ...]


class Way(Enum):
    """A way of asking torch for the product of two operands, by its name."""

    MM = "torch.mm"
    ADDMM = "torch.addmm"
    BMM = "torch.bmm"
    BADDBMM = "torch.baddbmm"
    MATMUL = "x @ y"
    EINSUM = "torch.einsum"
    LINEAR = "nn.functional.linear"
    LINEAR_WITH_BIAS = "nn.functional.linear with a bias"

    def __repr__(self) -> str:
        return f"Way.{self.name}"


def _zeros(x: Tensor, y: Tensor) -> Shaped[Tensor, "columns"]:
    return torch.empty(y.shape[-1], device=x.device)


_WAYS: dict[Way, Callable[[Tensor, Tensor], Tensor]] = {
    Way.MM: lambda x, y: torch.mm(x, y),
    Way.ADDMM: lambda x, y: torch.addmm(_zeros(x, y), x, y),
    Way.BMM: lambda x, y: torch.bmm(x, y),
    Way.BADDBMM: lambda x, y: torch.baddbmm(_zeros(x, y), x, y),
    Way.MATMUL: lambda x, y: x @ y,
    Way.EINSUM: lambda x, y: torch.einsum("... b d, ... d k -> ... b k", x, y),
    Way.LINEAR: lambda x, y: torch.nn.functional.linear(x, y.T),
    Way.LINEAR_WITH_BIAS: lambda x, y: torch.nn.functional.linear(x, y.T, _zeros(x, y)),
}


@dataclass(frozen=True, repr=False)
class Product(Description):
    """A product of left [..., rows, inner] and right [..., inner, columns], asked for in one way.

    Either may be a vector [inner], for ``x @ y``; leading dimensions are broadcast.
    """

    way: Way
    left: Shape
    right: Shape

    def run(self) -> Shaped[Tensor, "..."]:
        """torch's product on the meta device."""
        x, y = meta(*self.left), meta(*self.right)
        return _WAYS[self.way](x, y)

    def count(self, start: Start = Start.ZERO) -> Operations:
        """What the plain loops do."""
        return scalars.count(scalars.matmul, scalars.integers(self.left), scalars.integers(self.right, 1), start)

    @property
    def flops(self) -> int:
        """The closed form."""
        rows = self.left[-2] if len(self.left) > 1 else 1
        columns = self.right[-1] if len(self.right) > 1 else 1
        batch = np.broadcast_shapes(self.left[:-2], self.right[:-2])
        total: int = linear.batched_matmul_flops(batch, rows, self.left[-1], columns)
        return total


_size = st.sampled_from((2, 1, 3, 4, 5, 0))
_any_length = st.integers(0, 24)
_longer = st.sampled_from((2, 3, 4, 5, 0))
_batched = {Way.BMM, Way.BADDBMM}
_vectors: tuple[tuple[int, int], ...] = ((2, 2), (1, 2), (2, 1), (1, 1))
_broadcasts: tuple[tuple[Shape, Shape], ...] = (
    ((), ()),
    ((2,), (2,)),
    ((3,), ()),
    ((), (3,)),
    ((2, 1), (3,)),
    ((1,), (2, 3)),
    ((0,), (1,)),
)


@st.composite
def products(draw: DrawFn) -> Product:
    """Any way, with sizes from zero up, vectors and leading dimensions where the way takes them.

    torch.einsum has no inner length of one here: it then multiplies elementwise, which ``outer_products`` are
    for.
    """
    way = draw(st.sampled_from(Way))
    rows, inner, columns = draw(_size), draw(_longer if way is Way.EINSUM else _size), draw(_size)
    left: Shape = (rows, inner)
    right: Shape = (inner, columns)
    if way in _batched:
        batch = (draw(_size),)
        return Product(way, (*batch, *left), (*batch, *right))
    if way is Way.MATMUL:
        ranks = draw(st.sampled_from(_vectors))
        left, right = left[-ranks[0] :], right[: ranks[1]]
        fronts = draw(st.sampled_from(_broadcasts)) if ranks == (2, 2) else ((), ())
        return Product(way, (*fronts[0], *left), (*fronts[1], *right))
    if way is Way.EINSUM:
        fronts = draw(st.sampled_from(_broadcasts))
        return Product(way, (*fronts[0], *left), (*fronts[1], *right))
    if way in (Way.LINEAR, Way.LINEAR_WITH_BIAS):
        front = draw(st.sampled_from(((), (3,), (2, 3))))
        return Product(way, (*front, *left), right)
    return Product(way, left, right)


def outer_products() -> st.SearchStrategy[Product]:
    """Products by torch.einsum with an inner length of one."""
    size = st.integers(1, 8)
    return st.builds(lambda rows, columns: Product(Way.EINSUM, (rows, 1), (1, columns)), size, size)


@dataclass(frozen=True, repr=False)
class Broadcast(Description):
    """Two shapes that can be stretched to one."""

    left: Shape
    right: Shape

    def run(self) -> Shaped[Tensor, "..."]:
        """The sum of tensors of these shapes, on the meta device."""
        return meta(*self.left) + meta(*self.right)


_lengths = range(6)
_stretchable = st.sampled_from(
    [(left, right) for left, right in itertools.product(_lengths, repeat=2) if left == right or 1 in (left, right)]
)


@st.composite
def broadcasts(draw: DrawFn) -> Broadcast:
    """One to three dimensions, on either side as long or of length one; the first few may be missing on the
    left.
    """
    pairs = [draw(_stretchable) for _ in range(draw(st.integers(1, 3)))]
    missing = draw(st.integers(0, len(pairs)))
    return Broadcast(tuple(left for left, _ in pairs[missing:]), tuple(right for _, right in pairs))


# ── one product, with its numbers ──


@dataclass(frozen=True, repr=False)
class IntegerProduct(Description):
    """Two matrices of whole numbers from -9 to 9, [rows, inner] and [inner, columns]."""

    rows: int
    inner: int
    columns: int
    seed: int = 0

    def build(self) -> tuple[Int64[Tensor, "rows inner"], Int64[Tensor, "inner columns"]]:
        """The matrices."""
        x = scalars.integers((self.rows, self.inner), self.seed)
        y = scalars.integers((self.inner, self.columns), self.seed + 1)
        return torch.from_numpy(x), torch.from_numpy(y)


def integer_products() -> st.SearchStrategy[IntegerProduct]:
    """Matrices with sizes from zero up."""
    return st.builds(IntegerProduct, _any_length, _any_length, _any_length, st.integers(0, 2**16 - 1))


# ── a chain of three ──


class Order(Enum):
    """Which product of A B C comes first."""

    LEFT_FIRST = "(A B) C"
    RIGHT_FIRST = "A (B C)"

    def __repr__(self) -> str:
        return f"Order.{self.name}"

    def multiply(self, product: Callable[[Any, Any], Any], a: Any, b: Any, c: Any) -> Any:
        """The chain, multiplied in this order."""
        if self is Order.LEFT_FIRST:
            return product(product(a, b), c)
        return product(a, product(b, c))


@dataclass(frozen=True, repr=False)
class Chain(Description):
    """Matrices A [rows, first], B [first, second] and C [second, columns]."""

    rows: int
    first: int
    second: int
    columns: int

    @property
    def _shapes(self) -> list[Shape]:
        return list(itertools.pairwise((self.rows, self.first, self.second, self.columns)))

    def run(self, order: Order) -> Shaped[Tensor, "rows columns"]:
        """torch's products on the meta device."""
        matrices = (meta(*shape) for shape in self._shapes)
        result: Tensor = order.multiply(lambda x, y: x @ y, *matrices)
        return result

    def count(self, order: Order) -> Operations:
        """What the plain loops do."""
        matrices = (scalars.integers(shape) for shape in self._shapes)
        return scalars.count(lambda a, b, c: order.multiply(scalars.matmul, a, b, c), *matrices)

    def flops(self, order: Order) -> int:
        """The closed form."""
        form = linear.left_first_flops if order is Order.LEFT_FIRST else linear.right_first_flops
        total: int = form(self.rows, self.first, self.second, self.columns)
        return total

    def run_best(self) -> Shaped[Tensor, "rows columns"]:
        """torch's own choice of the order."""
        result: Tensor = torch.linalg.multi_dot([torch.empty(shape) for shape in self._shapes])
        return result


def chains() -> st.SearchStrategy[Chain]:
    """Three matrices that have elements."""
    size = st.integers(1, 4)
    return st.builds(Chain, size, size, size, size)


# ── a layer whose outputs are often zero ──


@dataclass(frozen=True, repr=False)
class KinkedLayer(Description):
    """A product of matrices of -1, 0 and 1 in float64, in which every sign and many zeros come out, exactly."""

    rows: int
    inner: int
    columns: int
    seed: int = 0

    def build(
        self,
    ) -> tuple[Float64[Tensor, "rows inner"], Float64[Tensor, "inner columns"], Float64[Tensor, "rows columns"]]:
        """The input, a weight that needs a gradient, and a gradient of -1 and 1 that arrives after what
        follows.
        """
        generator = torch.Generator().manual_seed(self.seed)
        x = torch.randint(-1, 2, (self.rows, self.inner), generator=generator).double()
        weight = torch.randint(-1, 2, (self.inner, self.columns), generator=generator).double()
        arriving = 2 * torch.randint(0, 2, (self.rows, self.columns), generator=generator).double() - 1
        return x, weight.requires_grad_(), arriving


def kinked_layers() -> st.SearchStrategy[KinkedLayer]:
    """Layers of one to 24 rows, inputs and outputs."""
    size = st.integers(1, 24)
    return st.builds(KinkedLayer, size, size, size, st.integers(0, 2**16 - 1))


RECTIFIERS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": lambda y: torch.nn.functional.relu(y),
    "maximum": lambda y: torch.maximum(y, torch.zeros_like(y)),
    "clamp": lambda y: torch.clamp(y, min=0),
    "clamp_min": lambda y: torch.clamp_min(y, 0),
    "where": lambda y: torch.where(y > 0, y, torch.zeros_like(y)),
}
"""Ways to write max(y, 0)."""
AT_ZERO = {"relu": 0.0, "maximum": 0.5, "clamp": 1.0, "clamp_min": 1.0, "where": 0.0}
"""The slope that torch takes at zero for each, up to release 2.13."""
OF_POSITIVE_NUMBERS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "sqrt": (lambda y: torch.sqrt(y), lambda y: 0.5 / y**0.5),
    "log": (lambda y: torch.log(y), lambda y: 1 / y),
}
"""Functions that only positive numbers have, each with its slope."""
