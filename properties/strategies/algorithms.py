"""What to count: plain algorithms on operands of generated sizes, and elementwise operations of torch beside
them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from jaxtyping import Shaped
from torch import Tensor

from properties.strategies.description import Description
from properties.strategies.meta import meta
from reference import scalars
from reference.scalars import Mask, Operations, Start
from reference.transformer import Norm

Shapes = list[tuple[int, ...]]

# ── algorithms whose work the shapes decide ──

_ALGORITHMS: dict[str, tuple[Callable[..., Any], Callable[[int, int, int], Shapes]]] = {
    "a sum": (scalars.add, lambda a, b, c: [(a, b), (a, b)]),
    "a product": (scalars.matmul, lambda a, b, c: [(a, b), (b, c)]),
    "a product from its first terms": (
        lambda x, y: scalars.matmul(x, y, Start.FIRST_PRODUCT),
        lambda a, b, c: [(a, b), (b, c)],
    ),
    "NumPy's product": (lambda x, y: np.matmul(x, y), lambda a, b, c: [(a, b), (b, c)]),
    "NumPy's sum": (lambda x, y: np.add(x, y), lambda a, b, c: [(a, b), (a, b)]),
    "a contraction": (
        lambda x, y: scalars.einsum("a b c, c -> b", x, y),
        lambda a, b, c: [(a, b, c), (c,)],
    ),
    "a linear layer": (scalars.linear, lambda a, b, c: [(a, b), (c, b), (c,)]),
    "a grouped convolution": (
        lambda x, w: scalars.convolution(x, w, padding=1, groups=2),
        lambda a, b, c: [(1, 2 * b, a), (2 * c, b, 2)],
    ),
    "a softmax": (scalars.softmax, lambda a, b, c: [(a, b)]),
    "a layer norm": (scalars.layer_norm, lambda a, b, c: [(a, b), (b,), (b,)]),
    "a GELU": (lambda x: scalars.elementwise(scalars.gelu, x), lambda a, b, c: [(a, b)]),
    "a gated layer": (scalars.swiglu, lambda a, b, c: [(a, b), (c, b), (c, b), (b, c)]),
    "attention": (scalars.attention, lambda a, b, c: [(2, a, b), (1, a, b), (1, a, c)]),
    "causal attention": (
        lambda q, k, v: scalars.attention(q, k, v, Mask.CAUSAL),
        lambda a, b, c: [(2, a, b), (1, a, b), (1, a, c)],
    ),
    "a recurrent cell": (
        scalars.recurrent_cell,
        lambda a, b, c: [(a, b), (a, c), (c, b), (c, c), (c,), (c,)],
    ),
    "an LSTM cell": (
        scalars.lstm_cell,
        lambda a, b, c: [(a, b), (a, c), (a, c), (4 * c, b), (4 * c, c), (4 * c,), (4 * c,)],
    ),
    "a mean square": (scalars.mean_square_error, lambda a, b, c: [(a, b), (a, b)]),
    "a cross-entropy": (lambda x: scalars.cross_entropy(x, [0] * len(x)), lambda a, b, c: [(a, b)]),
}


class Values(Enum):
    """What the operands of an algorithm hold."""

    ZEROS = "zeros"
    ONES = "ones"
    SMALL_INTEGERS = "whole numbers from -9 to 9"
    NORMAL = "normal numbers"

    def __repr__(self) -> str:
        return f"Values.{self.name}"

    def fill(self, shape: tuple[int, ...], seed: int) -> Shaped[np.ndarray, "..."]:
        """An array of such values."""
        if self is Values.SMALL_INTEGERS:
            return scalars.integers(shape, seed)
        if self is Values.NORMAL:
            return scalars.reals(shape, seed)
        return np.full(shape, 0.0 if self is Values.ZEROS else 1.0)


@dataclass(frozen=True, repr=False)
class Computation(Description):
    """An algorithm, and the three sizes that its operands have."""

    algorithm: str
    sizes: tuple[int, int, int]

    def count(self, values: Values, seed: int) -> Operations:
        """What it does with operands that hold ``values``."""
        function, shapes = _ALGORITHMS[self.algorithm]
        operands = [values.fill(shape, seed + place) for place, shape in enumerate(shapes(*self.sizes))]
        return scalars.count(function, *operands)


_sizes = st.sampled_from((1, 2, 3, 4))


@st.composite
def computations(draw: DrawFn) -> Computation:
    """Any of the algorithms, with sizes from 1 to 4."""
    name = draw(st.sampled_from(tuple(_ALGORITHMS)))
    return Computation(name, (draw(_sizes), draw(_sizes), draw(_sizes)))


@dataclass(frozen=True, repr=False)
class Block(Description):
    """A decoder's block: attention with its projections, a feed-forward layer, a norm before each.

    The hidden layer is ``multiple`` times as wide as the block.
    """

    tokens: int
    heads: int
    head_width: int
    multiple: int = 4
    mask: Mask = Mask.CAUSAL
    norm: Norm = Norm.LAYER

    def count(self) -> Operations:
        """What it does for one sequence of tokens."""
        width = self.heads * self.head_width
        hidden = self.multiple * width
        shapes = [(self.tokens, width), *[(width, width)] * 4, (hidden, width), (width, hidden), (width,)]
        operands = [scalars.reals(shape, place) for place, shape in enumerate(shapes)]
        return scalars.count(self._forward, *operands)

    def _forward(self, x: Any, q: Any, k: Any, v: Any, out: Any, wide: Any, narrow: Any, scale: Any) -> Any:
        norm = scalars.rms_norm if self.norm is Norm.RMS else _centred_norm
        normed = norm(x, scale)
        query, key, value = (self._split(scalars.linear(normed, weight)) for weight in (q, k, v))
        read = scalars.attention(query, key, value, self.mask).transpose(1, 0, 2).reshape(x.shape)
        x = scalars.add(x, scalars.linear(read, out))
        hidden = scalars.linear(norm(x, scale), wide)
        return scalars.add(x, scalars.linear(scalars.elementwise(scalars.gelu, hidden), narrow))

    def _split(self, x: Any) -> Any:
        return x.reshape(self.tokens, self.heads, self.head_width).transpose(1, 0, 2)


def _centred_norm(x: Any, scale: Any) -> Any:
    return scalars.layer_norm(x, scale, scale)


def blocks() -> SearchStrategy[Block]:
    """One to eight tokens, one or two heads of width two to four, with every hidden width, mask and norm."""
    return st.builds(
        Block,
        st.integers(1, 8),
        st.integers(1, 2),
        st.integers(2, 4),
        st.integers(1, 4),
        st.sampled_from(Mask),
        st.sampled_from(Norm),
    )


# ── elementwise operations ──


@dataclass(frozen=True)
class _Elementwise:
    """torch's operation, the same on single numbers, how many operands it takes, and FLOPs an element by its
    formula.
    """

    torchs: Callable[..., Any]
    plain: Callable[..., Any]
    operands: int
    flops: int


_ELEMENTWISE: dict[str, _Elementwise] = {
    "add": _Elementwise(lambda x, y: torch.add(x, y), operator.add, 2, 1),
    "sub": _Elementwise(lambda x, y: torch.sub(x, y), operator.sub, 2, 1),
    "mul": _Elementwise(lambda x, y: torch.mul(x, y), operator.mul, 2, 1),
    "div": _Elementwise(lambda x, y: torch.div(x, y), operator.truediv, 2, 1),
    "square": _Elementwise(lambda x: torch.square(x), scalars.square, 1, 1),
    "exp": _Elementwise(lambda x: torch.exp(x), scalars.exp, 1, 1),
    "tanh": _Elementwise(lambda x: torch.tanh(x), scalars.tanh, 1, 1),
    "addcmul": _Elementwise(
        lambda x, y, z: torch.addcmul(x, y, z, value=0.5),
        lambda x, y, z: scalars.addcmul(x, y, z, 0.5),
        3,
        3,
    ),
    "lerp": _Elementwise(lambda x, y, z: torch.lerp(x, y, z), scalars.lerp, 3, 3),
    "sigmoid": _Elementwise(lambda x: torch.sigmoid(x), scalars.sigmoid, 1, 3),
    "gelu": _Elementwise(lambda x: torch.nn.functional.gelu(x), scalars.gelu, 1, 5),
    "maximum": _Elementwise(lambda x, y: torch.maximum(x, y), scalars.maximum, 2, 0),
    "relu": _Elementwise(lambda x: torch.relu(x), scalars.relu, 1, 0),
    "gt": _Elementwise(lambda x, y: torch.gt(x, y), operator.gt, 2, 0),
    "neg": _Elementwise(lambda x: torch.neg(x), operator.neg, 1, 0),
    "clone": _Elementwise(lambda x: torch.clone(x), lambda x: x, 1, 0),
}
"""Looked up in torch at each call, so that a changed torch is the one that is asked."""


@dataclass(frozen=True, repr=False)
class ElementwiseCall(Description):
    """An elementwise operation on matrices of one shape."""

    operation: str
    rows: int
    columns: int

    @property
    def flops_each(self) -> int:
        """FLOPs an element, read off the operation's formula; comparisons, copies and sign changes are none."""
        return _ELEMENTWISE[self.operation].flops

    def run(self) -> Shaped[Tensor, "rows columns"]:
        """torch's operation on the meta device."""
        chosen = _ELEMENTWISE[self.operation]
        operands = [meta(self.rows, self.columns) for _ in range(chosen.operands)]
        result: Tensor = chosen.torchs(*operands)
        return result

    def count(self) -> Operations:
        """What it does with counting numbers."""
        chosen = _ELEMENTWISE[self.operation]
        operands = [scalars.reals((self.rows, self.columns), place) for place in range(chosen.operands)]
        return scalars.count(lambda *given: scalars.elementwise(chosen.plain, *given), *operands)


def _calls(wanted: Callable[[int], bool], smallest: int) -> SearchStrategy[ElementwiseCall]:
    names = [name for name, each in _ELEMENTWISE.items() if wanted(each.flops)]
    size = st.integers(smallest, 8)
    return st.builds(ElementwiseCall, st.sampled_from(names), size, size)


def single_operations() -> SearchStrategy[ElementwiseCall]:
    """Elementwise operations of one FLOP an element, on matrices that have elements."""
    return _calls(lambda flops: flops == 1, 1)


def other_operations() -> SearchStrategy[ElementwiseCall]:
    """Elementwise operations of none, or of several, FLOPs an element, on matrices that have elements."""
    return _calls(lambda flops: flops != 1, 1)


def elementwise_calls() -> SearchStrategy[ElementwiseCall]:
    """Any of the elementwise operations, on matrices of any size."""
    return _calls(lambda flops: True, 0)
