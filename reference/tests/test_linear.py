"""The closed forms against the counting numbers and the tape, and as mathematics."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
import sympy

from reference import linear, scalars
from reference.autodiff import differentiate
from reference.linear import InputGradient
from reference.scalars import count, integers

WIDTHS = [(3, 2), (2, 2, 2), (4, 3, 1, 2), (1, 1, 1, 1)]


def through(x: np.ndarray, *weights: np.ndarray) -> np.ndarray:
    """A stack of linear layers."""
    for weight in weights:
        x = scalars.matmul(x, weight)
    return x


def operands(rows: int, widths: Sequence[int]) -> list[np.ndarray]:
    return [integers((rows, widths[0])), *(integers(shape) for shape in itertools.pairwise(widths))]


@pytest.mark.parametrize("widths", WIDTHS)
def test_a_stack_goes_forward_by_two_for_each_weight_and_row(widths: tuple[int, ...]) -> None:
    assert count(through, *operands(3, widths)).flops == linear.stack_forward_flops(3, widths)


@pytest.mark.parametrize("widths", WIDTHS)
def test_a_stack_goes_back_by_what_each_layer_needs(widths: tuple[int, ...]) -> None:
    arrays = operands(3, widths)
    gradient = integers((3, widths[-1]))
    for wanted in InputGradient:
        for trained in itertools.product((True, False), repeat=len(widths) - 1):
            flags = (wanted is InputGradient.COMPUTED, *trained)
            seen = differentiate(through, *arrays, trained=flags, output_gradient=gradient).backward
            assert seen.flops == seen.matrix == linear.stack_backward_flops(3, widths, wanted, trained)


def test_two_layers_are_a_stack_of_two() -> None:
    widths = (5, 5, 3)
    assert linear.two_layer_forward_flops(2, 5, 3) == linear.stack_forward_flops(2, widths)
    assert linear.two_layer_backward_flops(2, 5, 3) == linear.stack_backward_flops(2, widths, InputGradient.COMPUTED)
    assert linear.two_layer_backward_without_input_gradient_flops(2, 5, 3) == linear.stack_backward_flops(
        2, widths, InputGradient.SKIPPED
    )


@pytest.mark.parametrize("layers", [1, 2, 5])
def test_equal_layers_go_back_by_two_less_a_share(layers: int) -> None:
    widths = (3,) * (layers + 1)
    backward = linear.stack_backward_flops(2, widths, InputGradient.SKIPPED)
    forward = linear.stack_forward_flops(2, widths)
    assert Fraction(backward, forward) == linear.backward_over_forward(layers)
    assert linear.first_layer_share(widths) == Fraction(1, layers)


def test_the_excess_is_what_beginning_at_zero_takes_more() -> None:
    for length in (1, 2, 9):
        least = linear.least_inner_product_flops(length)
        assert Fraction(linear.inner_product_flops(length) - least, least) == linear.inner_product_excess(length)


def test_both_orders_of_a_chain_are_what_the_loops_count() -> None:
    a, b, c = integers((2, 3)), integers((3, 4)), integers((4, 5))
    left = count(lambda a, b, c: scalars.matmul(scalars.matmul(a, b), c), a, b, c)
    right = count(lambda a, b, c: scalars.matmul(a, scalars.matmul(b, c)), a, b, c)
    assert left.flops == linear.left_first_flops(2, 3, 4, 5)
    assert right.flops == linear.right_first_flops(2, 3, 4, 5)


def test_batches_multiply() -> None:
    done = count(scalars.matmul, integers((2, 1, 3, 4)), integers((5, 4, 2)))
    assert done.flops == linear.batched_matmul_flops((2, 5), 3, 4, 2)


def test_symbols_give_the_formula() -> None:
    B, D, K, L = sympy.symbols("B D K L", positive=True)
    assert linear.matmul_flops(B, D, K) == 2 * B * D * K
    assert linear.row_flops(D, K) == 2 * D * K
    assert sympy.expand(linear.stack_forward_flops(B, (D, D, K))) == 2 * B * D * D + 2 * B * D * K
    assert linear.inner_product_excess(D) == 1 / (2 * D - 1)
    assert linear.backward_over_forward(L) == 2 - 1 / L
    assert sympy.simplify(linear.first_layer_share((D, D, D)) - sympy.Rational(1, 2)) == 0
    assert str(linear.layer_norm_flops(D)) == "7*D + 2"
