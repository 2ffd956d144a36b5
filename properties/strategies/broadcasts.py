"""Two tensors that are stretched to a common shape and then combined, element by element."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from jaxtyping import Float64, Int64
from torch import Tensor

from properties.refusals import refused
from properties.strategies.description import Description
from reference.scalars import integers

SLOPES: dict[Callable[..., Any], Callable[[Any, Any], tuple[Any, Any]]] = {
    operator.add: lambda left, right: (1, 1),
    operator.sub: lambda left, right: (1, -1),
    operator.mul: lambda left, right: (right, left),
}
"""An operation, and its derivative by either operand."""


@dataclass(frozen=True, repr=False)
class Broadcast(Description):
    """Whole numbers of two shapes, in float64, and what is done with them."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    operation: Callable[..., Any]

    def _arrays(self) -> tuple[Int64[np.ndarray, "..."], ...]:
        common = np.broadcast_shapes(self.left, self.right)
        return tuple(integers(shape, seed) for seed, shape in enumerate((self.left, self.right, common)))

    def gradients(self) -> list[Float64[Tensor, "..."]]:
        """Both operands' gradients, by torch."""
        left, right, arriving = (torch.from_numpy(each).double() for each in self._arrays())
        result = self.operation(left.requires_grad_(), right.requires_grad_())
        return list(torch.autograd.grad(result, (left, right), arriving))

    def by_sums(self) -> list[Float64[Tensor, "..."]]:
        """The same: what arrives at each copy of an element, times its slope, added up copy by copy."""
        left, right, arriving = self._arrays()
        slopes = SLOPES[self.operation](left, right)
        pairs = zip((left, right), slopes, strict=True)
        return [self._added(each, np.broadcast_to(arriving * slope, arriving.shape)) for each, slope in pairs]

    def _added(self, operand: Int64[np.ndarray, "..."], arrived: Int64[np.ndarray, "..."]) -> Float64[Tensor, "..."]:
        places = np.broadcast_to(np.arange(operand.size).reshape(operand.shape), arrived.shape)
        sums = np.bincount(places.ravel(), weights=arrived.ravel(), minlength=operand.size)
        return torch.from_numpy(sums).double().reshape(operand.shape)


_SHAPES = (
    *itertools.chain.from_iterable(itertools.product(range(4), repeat=rank) for rank in range(3)),
    *itertools.product((1, 2), repeat=3),
)
_PAIRS = tuple(
    pair for pair in itertools.product(_SHAPES, repeat=2) if not refused(ValueError, np.broadcast_shapes, *pair)
)


def broadcasts() -> st.SearchStrategy[Broadcast]:
    """Shapes of up to three dimensions of length 0 to 3 that can be stretched to one shape."""
    return st.builds(
        lambda shapes, operation: Broadcast(shapes[0], shapes[1], operation),
        st.sampled_from(_PAIRS),
        st.sampled_from(tuple(SLOPES)),
    )
