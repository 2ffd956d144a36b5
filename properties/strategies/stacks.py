"""Matrices that data goes through one after the other, and their gradients.

A description runs as a torch program, on the meta device or with numbers in it, and again as plain loops over counting
numbers, so that the two can be compared. Every size is small enough for the loops.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from jaxtyping import Float64, Shaped
from torch import Tensor
from torch.utils import checkpoint

from properties.instruments.flops import Counted, count_flops
from properties.instruments.kernels import import_kernels
from properties.strategies.description import Description
from reference import linear, scalars
from reference.autodiff import Derivative, differentiate
from reference.linear import InputGradient
from reference.scalars import integers

Matrix = Shaped[Tensor, "rows columns"]


# ── a stack of matrices ──


@dataclass(frozen=True)
class Pass:
    """The tensors of one forward pass: h1 = x w1, h2 = h1 w2, and so on; the loss is the mean square of the last."""

    x: Matrix
    weights: tuple[Matrix, ...]
    hidden: tuple[Matrix, ...]
    loss: Shaped[Tensor, ""]

    @property
    def leaves(self) -> tuple[Matrix, ...]:
        """Data and weights."""
        return (self.x, *self.weights)

    @property
    def wanted(self) -> tuple[Matrix, ...]:
        """The leaves that need a gradient."""
        return tuple(leaf for leaf in self.leaves if leaf.requires_grad)

    def back(self) -> None:
        """The backward pass, gradients into ``.grad``."""
        self.loss.backward()  # type: ignore[no-untyped-call]


class Recomputation(Enum):
    """How much of the forward pass is kept for the backward pass."""

    NONE = "all of it"
    REENTRANT = "the input; torch's older form of checkpointing runs all of it again"
    NON_REENTRANT = "the input; the newer form runs it again up to the last tensor that was saved"

    def __repr__(self) -> str:
        return f"Recomputation.{self.name}"


@dataclass(frozen=True, repr=False)
class Stack(Description):
    """``rows`` of data through matrices [width, next width], without biases.

    ``input_gradient`` says whether the data needs a gradient; matrices whose place is in ``frozen`` need none. Numbers,
    where there are any, are whole and small, in float64: products and sums of them are exact.
    """

    rows: int
    widths: tuple[int, ...]
    input_gradient: bool = True
    frozen: tuple[int, ...] = ()
    seed: int = 0

    @property
    def layers(self) -> int:
        """How many matrices there are."""
        return len(self.widths) - 1

    @property
    def trained(self) -> tuple[bool, ...]:
        """Whether each matrix needs a gradient."""
        return tuple(place not in self.frozen for place in range(self.layers))

    @property
    def parameters(self) -> int:
        """Weights, from the closed form."""
        return int(linear.stack_parameters(self.widths))

    @property
    def forward_flops(self) -> int:
        """The closed form of the forward pass."""
        return int(linear.stack_forward_flops(self.rows, self.widths))

    @property
    def backward_flops(self) -> int:
        """The closed form of the backward pass."""
        wanted = InputGradient.COMPUTED if self.input_gradient else InputGradient.SKIPPED
        return int(linear.stack_backward_flops(self.rows, self.widths, wanted, self.trained))

    @property
    def _shapes(self) -> list[tuple[int, int]]:
        return [(self.rows, self.widths[0]), *itertools.pairwise(self.widths)]

    def leaves(self, device: str) -> tuple[Matrix, ...]:
        """Data and matrices that need the gradients they are to need."""
        needs = (self.input_gradient, *self.trained)
        made = (torch.from_numpy(array.astype(np.float64)).to(device) for array in self.arrays())
        return tuple(leaf.requires_grad_(needed) for leaf, needed in zip(made, needs, strict=True))

    def arrays(self) -> list[Shaped[Any, "rows columns"]]:
        """Data and matrices for the plain loops: the same whole numbers."""
        return [integers(shape, self.seed + place) for place, shape in enumerate(self._shapes)]

    def run(self, device: str = "cpu") -> Pass:
        """The forward pass."""
        return _passed(*self.leaves(device))

    def step(self, device: str = "cpu") -> Counted:
        """What a forward and a backward pass cost."""
        leaves = self.leaves(device)
        with count_flops() as counted:
            _passed(*leaves).back()
        return counted

    def numbers(self) -> Derivative:
        """The same through plain loops and the tape."""
        return differentiate(_mean_square_of_product, *self.arrays(), trained=(self.input_gradient, *self.trained))

    def step_with(self, recomputation: Recomputation) -> Counted:
        """What both passes cost where the whole stack is one checkpointed region."""
        x, *weights = self.leaves("cpu")

        def region(x: Matrix) -> Matrix:
            return list(itertools.accumulate(weights, torch.matmul, initial=x))[-1]

        with count_flops() as counted:
            checkpointed(region, x, recomputation).square().mean().backward()  # type: ignore[no-untyped-call]
        return counted

    def recomputed_flops(self, recomputation: Recomputation) -> int:
        """The closed form of what is done again: all, or all but the last product, or nothing."""
        last = linear.linear_forward_flops(self.rows, self.widths[-2], self.widths[-1])
        share = {
            Recomputation.NONE: 0,
            Recomputation.REENTRANT: self.forward_flops,
            Recomputation.NON_REENTRANT: self.forward_flops - last,
        }
        return int(share[recomputation])

    def step_in_parts(self, parts: int) -> tuple[Counted, list[Matrix]]:
        """What both passes cost where the rows go through one part after the other, and the gradients that the weights
        have in the end, of the sum of squares.
        """
        x, *weights = self.leaves("cpu")
        with count_flops() as counted:
            for part in x.chunk(parts):
                hidden = list(itertools.accumulate(weights, torch.matmul, initial=part))
                hidden[-1].square().sum().backward()  # type: ignore[no-untyped-call]
        return counted, [weight.grad for weight in weights if weight.grad is not None]


def _passed(x: Matrix, *weights: Matrix) -> Pass:
    hidden = list(itertools.accumulate(weights, torch.matmul, initial=x))[1:]
    return Pass(x, weights, tuple(hidden), hidden[-1].square().mean())


def checkpointed(region: Callable[[Matrix], Matrix], x: Matrix, recomputation: Recomputation) -> Matrix:
    """What a region makes of its input, run again in the backward pass as ``recomputation`` says."""
    import_kernels()
    if recomputation is Recomputation.NONE:
        return region(x)
    result: Tensor = checkpoint.checkpoint(region, x, use_reentrant=recomputation is Recomputation.REENTRANT)
    return result


def _mean_square_of_product(x: Any, *weights: Any) -> Any:
    out = itertools.accumulate(weights, scalars.matmul, initial=x)
    numbers = [scalars.square(number) for number in list(out)[-1].flat]
    return scalars.summed(numbers) / len(numbers)


# Sizes are drawn together, as one out of all the combinations there are: five times as fast as one by one. The numbers
# that go with them follow from the shapes.


def _all_widths(fewest: int, most: int) -> tuple[tuple[int, ...], ...]:
    """Widths 1 to 3 for so many matrices, few and narrow first; each number of matrices stands there as often."""
    counts = range(fewest + 1, most + 2)
    of_each = 3 ** (most + 1)
    widths = (itertools.cycle(itertools.product(range(1, 4), repeat=count)) for count in counts)
    return tuple(itertools.chain.from_iterable(itertools.islice(each, of_each) for each in widths))


@cache
def _stacks(fewest: int, most: int, wanted: tuple[bool, ...]) -> st.SearchStrategy[Stack]:
    return st.builds(
        Stack,
        st.integers(1, 4),
        st.sampled_from(_all_widths(fewest, most)),
        st.sampled_from(wanted),
    )


def stacks(input_gradient: tuple[bool, ...] = (False, True), fewest: int = 1) -> st.SearchStrategy[Stack]:
    """Up to four matrices of widths 1 to 3, none frozen; whether the data needs a gradient is one of those given."""
    return _stacks(fewest, 4, input_gradient)


def deeper_stacks() -> st.SearchStrategy[Stack]:
    """Two to four matrices, the data without a gradient."""
    return _stacks(2, 4, (False,))


@cache
def _frozen(layers: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Any matrices but all of them, few first."""
    some = (itertools.combinations(range(layers), count) for count in range(layers))
    return st.sampled_from(tuple(itertools.chain.from_iterable(some)))


@st.composite
def partly_frozen(draw: st.DrawFn) -> Stack:
    """Stacks with some matrices frozen."""
    stack = draw(stacks())
    return replace(stack, frozen=draw(_frozen(stack.layers)))


def equal_stacks() -> st.SearchStrategy[Stack]:
    """Up to 16 square matrices of one width, too large for the loops; the data without a gradient."""
    sizes = st.tuples(st.integers(1, 64), st.integers(1, 64), st.integers(1, 16))
    return sizes.map(lambda drawn: Stack(drawn[0], (drawn[1],) * (drawn[2] + 1), input_gradient=False))


@cache
def two_layers(input_gradient: tuple[bool, ...] = (False, True), largest: int = 4) -> st.SearchStrategy[Stack]:
    """x [B, D] through w1 [D, D] and w2 [D, K]."""
    sizes = tuple(itertools.product(range(1, largest + 1), repeat=3))
    return st.builds(
        lambda sizes, wanted: Stack(sizes[0], (sizes[1], sizes[1], sizes[2]), wanted),
        st.sampled_from(sizes),
        st.sampled_from(input_gradient),
    )


# ── one product and its gradients ──


@dataclass(frozen=True, repr=False)
class Layer(Description):
    """One product y = x W, x [*leading, inputs] and W [inputs, outputs], and a gradient that arrives at y."""

    leading: tuple[int, ...]
    inputs: int
    outputs: int
    seed: int = 0

    @property
    def rows(self) -> int:
        """Rows of data, all leading dimensions together."""
        return math.prod(self.leading)

    @property
    def weights(self) -> int:
        """Numbers of W."""
        return self.inputs * self.outputs

    def arrays(self) -> tuple[Any, Any, Any]:
        """x, W and the gradient of y, in small whole numbers."""
        shapes = ((*self.leading, self.inputs), (self.inputs, self.outputs), (*self.leading, self.outputs))
        x, weight, arriving = (integers(shape, self.seed + place) for place, shape in enumerate(shapes))
        return x, weight, arriving

    def build(self) -> tuple[Float64[Tensor, "..."], Float64[Tensor, "inputs outputs"], Float64[Tensor, "..."]]:
        """The same as tensors; x and W need gradients."""
        x, weight, arriving = (torch.from_numpy(array).double() for array in self.arrays())
        return x.requires_grad_(), weight.requires_grad_(), arriving

    def back(self, *wanted: str) -> Counted:
        """What the backward pass costs where only the gradients of ``wanted``, "x" or "W", are computed."""
        x = torch.zeros(*self.leading, self.inputs, requires_grad="x" in wanted)
        weight = torch.zeros(self.inputs, self.outputs, requires_grad="W" in wanted)
        y = x @ weight
        with count_flops() as counted:
            y.backward(torch.zeros_like(y))  # type: ignore[no-untyped-call]
        return counted

    def numbers(self, *wanted: str) -> Derivative:
        """The same through plain loops and the tape."""
        x, weight, arriving = self.arrays()
        flags = ("x" in wanted, "W" in wanted)
        return differentiate(scalars.matmul, x, weight, trained=flags, output_gradient=arriving)

    def loss(self, x: Any, weight: Any) -> Any:
        """A single number whose gradient by y is the one that arrives, through plain loops."""
        arriving = self.arrays()[2]
        return sum((scalars.matmul(x, weight) * arriving).flat)


@cache
def _layers(leading: tuple[tuple[int, ...], ...], smallest: int) -> st.SearchStrategy[Layer]:
    sizes = tuple(itertools.product(leading, range(smallest, 5), range(smallest, 5)))
    return st.builds(lambda sizes: Layer(sizes[0], sizes[1], sizes[2]), st.sampled_from(sizes))


def layers() -> st.SearchStrategy[Layer]:
    """One or two leading dimensions; all sizes up to 4."""
    one = [(size,) for size in range(1, 5)]
    return _layers((*one, *itertools.product(range(1, 3), repeat=2)), 1)


def matrix_layers(smallest: int = 2) -> st.SearchStrategy[Layer]:
    """One leading dimension, so that every operand is a matrix."""
    return _layers(tuple((size,) for size in range(smallest, 6)), smallest)


def product_as_printed(left: Matrix, right: Matrix) -> Matrix | None:
    """A product whose inner lengths may differ, in which case there is none."""
    return left @ right if left.shape[1] == right.shape[0] else None


def same(left: Matrix | None, right: Matrix | None) -> bool:
    """Whether both are there, with the same shape and the same numbers."""
    return left is not None and right is not None and left.shape == right.shape and torch.equal(left, right)


# ── gradients on the way ──


def read_gradient(tensor: Shaped[Tensor, "..."]) -> tuple[Shaped[Tensor, "..."] | None, bool]:
    """``tensor.grad``, and whether torch warned that it is no leaf."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gradient = tensor.grad
    return gradient, any("not a leaf" in str(each.message) for each in caught)


def order_of_gradients(stack: Stack) -> list[str]:
    """The names of activations and weights, as h2, w2, h1, w1, in the order in which their gradients are ready."""
    made, order = stack.run(), []

    def note(name: str) -> Callable[[Any], None]:
        return lambda _: order.append(name)

    for place, (weight, hidden) in enumerate(zip(made.weights, made.hidden, strict=True), 1):
        hidden.register_hook(note(f"h{place}"))  # type: ignore[no-untyped-call]
        weight.register_post_accumulate_grad_hook(note(f"w{place}"))  # type: ignore[no-untyped-call]
    made.back()
    return order


class Update(Enum):
    """When, in the backward pass, the last matrix of a stack moves against its gradient."""

    AFTERWARDS = "not before it is over"
    IN_PLACE = "before the layer has passed the gradient on, in place"
    FORCED = "the same, behind autograd's back"
    WHEN_DONE = "as soon as its gradient is ready, the layer having passed on its own"

    def __repr__(self) -> str:
        return f"Update.{self.name}"


def backward_with(update: Update, stack: Stack) -> Pass:
    """A backward pass with the last matrix updated at some time, by its own gradient. Raises what autograd raises."""
    made = stack.run()
    (entering, leaving), weight = made.hidden[-2:], made.weights[-1]

    def early(arriving: Matrix) -> None:
        step = entering.detach().T @ arriving
        if update is Update.FORCED:
            weight.data.sub_(step)
        else:
            with torch.no_grad():
                weight.sub_(step)

    def late(done: Matrix) -> None:
        with torch.no_grad():
            done.sub_(done.grad)  # type: ignore[arg-type]

    if update in (Update.FORCED, Update.IN_PLACE):
        leaving.register_hook(early)  # type: ignore[no-untyped-call]
    elif update is Update.WHEN_DONE:
        weight.register_post_accumulate_grad_hook(late)  # type: ignore[no-untyped-call]
    made.back()
    return made
