"""The tape: its gradients against central differences, and its counts against counts by hand."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from reference import scalars
from reference.autodiff import Derivative, central_differences, differentiate
from reference.scalars import Mask, integers, reals


def weighted(array: np.ndarray) -> Any:
    """A single number that every element has its own share in."""
    return scalars.inner_product(array.flat, [1 + place / 3 for place in range(array.size)])


def gated(x: np.ndarray, gate: np.ndarray, up: np.ndarray, down: np.ndarray) -> Any:
    return weighted(scalars.swiglu(x, gate, up, down))


CASES: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "matmul": (lambda x, y: weighted(scalars.matmul(x, y)), [reals((2, 3)), reals((3, 4), 1)]),
    "matmul from the first product": (
        lambda x, y: weighted(scalars.matmul(x, y, scalars.Start.FIRST_PRODUCT)),
        [reals((2, 3)), reals((3, 2), 1)],
    ),
    "one number used twice": (lambda x: weighted(scalars.matmul(x, x)), [reals((2, 2))]),
    "linear": (
        lambda x, w, b: weighted(scalars.linear(x, w, b)),
        [reals((2, 3)), reals((2, 3), 1), reals((2,), 2)],
    ),
    "convolution": (
        lambda x, w, b: weighted(scalars.convolution(x, w, b, padding=1, groups=2)),
        [reals((1, 2, 3)), reals((2, 1, 2), 1), reals((2,), 2)],
    ),
    "transposed convolution": (
        lambda x, w: weighted(scalars.transposed_convolution(x, w, stride=2)),
        [reals((1, 2, 2)), reals((2, 2, 2), 1)],
    ),
    "softmax": (lambda x: weighted(scalars.softmax(x)), [reals((2, 3))]),
    "layer norm": (
        lambda x, w, b: weighted(scalars.layer_norm(x, w, b)),
        [reals((2, 3)), reals((3,), 1), reals((3,), 2)],
    ),
    "rms norm": (lambda x, w: weighted(scalars.rms_norm(x, w)), [reals((2, 3)), reals((3,), 1)]),
    "gelu": (lambda x: weighted(scalars.elementwise(scalars.gelu, x)), [reals((5,))]),
    "tanh gelu": (lambda x: weighted(scalars.elementwise(scalars.tanh_gelu, x)), [reals((5,))]),
    "relu": (lambda x: weighted(scalars.elementwise(scalars.relu, x)), [reals((5,))]),
    "swiglu": (gated, [reals((2, 2)), reals((3, 2), 1), reals((3, 2), 2), reals((2, 3), 3)]),
    "attention": (
        lambda q, k, v: weighted(scalars.attention(q, k, v, Mask.CAUSAL)),
        [reals((2, 3, 2)), reals((1, 3, 2), 1), reals((1, 3, 2), 2)],
    ),
    "lstm": (
        lambda *operands: weighted(np.concatenate(scalars.lstm_cell(*operands))),
        [reals(shape, seed) for seed, shape in enumerate(((1, 2), (1, 2), (1, 2), (8, 2), (8, 2), (8,), (8,)))],
    ),
    "mean square": (scalars.mean_square_error, [reals((2, 3)), reals((2, 3), 1)]),
    "cross-entropy": (lambda x: scalars.cross_entropy(x, [0, 2]), [reals((2, 3))]),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_the_slopes(name: str) -> None:
    algorithm, operands = CASES[name]
    derivative = differentiate(algorithm, *operands)
    for place, gradient in enumerate(derivative.gradients):
        slopes = central_differences(algorithm, *operands, operand=place, step=1e-5)
        assert gradient is not None
        assert gradient.shape == slopes.shape
        assert np.allclose(gradient, slopes, rtol=1e-6, atol=1e-8)


def test_central_differences_of_a_square_are_exact() -> None:
    x = np.array([Fraction(1, 3), Fraction(-5, 7)], dtype=object)
    slopes = central_differences(lambda x: sum(each * each for each in x), x, step=Fraction(1, 2))
    assert slopes.tolist() == [2 * each for each in x]


def layer(*trained: bool) -> Derivative:
    x, w = integers((2, 3)), integers((3, 4), 1)
    return differentiate(scalars.matmul, x, w, trained=trained, output_gradient=integers((2, 4), 2))


def test_a_layer_goes_back_by_one_product_for_each_gradient() -> None:
    assert [layer(*which).backward.flops for which in ((True, True), (True, False), (False, True), (False, False))] == [
        96,
        48,
        48,
        0,
    ]
    assert layer(True, True).backward.matrix == 96
    assert layer(True, True).forward.flops == 48


def test_what_is_not_trained_has_no_gradient() -> None:
    derivative = layer(False, True)
    assert derivative.gradients[0] is None
    gradient = derivative.gradients[1]
    assert gradient is not None
    assert np.array_equal(gradient, integers((2, 3)).T @ integers((2, 4), 2))


def test_an_output_that_stands_twice_gets_both_gradients() -> None:
    derivative = differentiate(lambda x: np.array([x[0], x[0]]), integers((1,)), output_gradient=np.array([2, 3]))
    assert [each.tolist() for each in derivative.gradients if each is not None] == [[5]]


def test_a_variable_has_the_value_of_its_number_and_is_neither_above_nor_below_itself() -> None:
    compared = []

    def algorithm(x: np.ndarray) -> Any:
        compared.extend([x[0] > 3, x[0] < 3])
        return 1 - x[0]

    assert differentiate(algorithm, np.array([3])).value == -2
    assert compared == [False, False]


def test_what_nothing_arrives_at_has_a_gradient_of_zero() -> None:
    derivative = differentiate(lambda x, y: y.sum(), integers((2,)), integers((3,)))
    assert [each.tolist() for each in derivative.gradients if each is not None] == [[0, 0], [1, 1, 1]]


def test_an_output_of_several_numbers_needs_its_gradient() -> None:
    with pytest.raises(ValueError, match="give its gradient"):
        differentiate(scalars.matmul, integers((2, 3)), integers((3, 4)))
