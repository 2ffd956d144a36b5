"""What linear algebra costs, in closed form: products, elementwise work, layers, stacks and convolutions.

Each function is plain arithmetic: given numbers it predicts, given SymPy symbols it is the formula. A product
counts one multiplication and one addition for each of its terms, as when every term is added to zero or to a
bias; the functions named ``least`` begin each sum with its first term instead. A backward pass counts the
products of its gradients, without what adding the gradients of several uses takes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from enum import Enum
from fractions import Fraction
from math import prod
from typing import Any

Number = Any
"""A whole number, a fraction or a symbol."""


# ── inner products and matrix products ──


def inner_product_flops(length: Number) -> Number:
    """FLOPs of an inner product, each term added to a total that begins at zero."""
    return 2 * length


def least_inner_product_flops(length: Number) -> Number:
    """FLOPs of an inner product that begins with its first term, for a length of one and more."""
    return 2 * length - 1


def inner_product_excess(length: Number) -> Number:
    """What beginning at zero takes more, as a share of the least, for a length of one and more."""
    return Fraction(1) / (2 * length - 1)


def row_flops(inner: Number, columns: Number) -> Number:
    """FLOPs of one row of a product: one of the left matrix times an [inner, columns] matrix."""
    return columns * inner_product_flops(inner)


def matmul_flops(rows: Number, inner: Number, columns: Number) -> Number:
    """FLOPs of a [rows, inner] by [inner, columns] product."""
    return 2 * rows * inner * columns


def least_matmul_flops(rows: Number, inner: Number, columns: Number) -> Number:
    """FLOPs of the same product by inner products that begin with their first terms.

    The inner length is one or more.
    """
    return rows * columns * (2 * inner - 1)


def batched_matmul_flops(batch: Iterable[Number], rows: Number, inner: Number, columns: Number) -> Number:
    """FLOPs of one product for each index of the leading dimensions, as they are after broadcasting."""
    return prod(batch) * matmul_flops(rows, inner, columns)


def left_first_flops(rows: Number, first: Number, second: Number, columns: Number) -> Number:
    """FLOPs of (A B) C, for A [rows, first], B [first, second] and C [second, columns]."""
    return matmul_flops(rows, first, second) + matmul_flops(rows, second, columns)


def right_first_flops(rows: Number, first: Number, second: Number, columns: Number) -> Number:
    """FLOPs of A (B C), for the same three."""
    return matmul_flops(first, second, columns) + matmul_flops(rows, first, columns)


# ── elementwise work ──


def elementwise_flops(rows: Number, columns: Number, each: Number = 1) -> Number:
    """FLOPs of an elementwise operation on [rows, columns] matrices that takes ``each`` for an element."""
    return rows * columns * each


def softmax_flops(width: Number) -> Number:
    """FLOPs of the softmax of one row: differences, exponentials, their sum, and the divisions by it.

    Finding the largest takes width - 1 comparisons more, which makes 5 * width - 2 operations.
    """
    return 4 * width - 1


def softmax_comparisons(width: Number) -> Number:
    """Comparisons that find the largest number of a row."""
    return width - 1


def layer_norm_flops(width: Number) -> Number:
    """FLOPs of normalising one row by its mean and deviation, with a scale and a shift for every column."""
    return 7 * width + 2


def rms_norm_flops(width: Number) -> Number:
    """FLOPs of dividing one row by the root of its mean square, with a scale for every column."""
    return 4 * width + 2


def mean_square_error_flops(elements: Number) -> Number:
    """FLOPs of the mean of the squared differences: subtractions, squares, their sum and one division."""
    return 3 * elements


def cross_entropy_flops(rows: Number, classes: Number) -> Number:
    """FLOPs of the mean cross-entropy of rows of logits.

    For each row: subtract the largest, exponentials, their sum, its logarithm, the largest added again and
    the target's logit subtracted; then the sum over the rows and one division. The comparisons are those of
    ``softmax_comparisons``.
    """
    return rows * (3 * classes + 2) + rows


# ── linear layers and stacks of them ──


class InputGradient(Enum):
    """Whether the gradient of a network's input is wanted."""

    COMPUTED = "the input requires a gradient"
    SKIPPED = "the input is data, and requires none"

    def __repr__(self) -> str:
        return f"InputGradient.{self.name}"


def linear_parameters(inputs: Number, outputs: Number) -> Number:
    """Weights of a linear layer without a bias."""
    return inputs * outputs


def linear_forward_flops(rows: Number, inputs: Number, outputs: Number) -> Number:
    """FLOPs of the product of a linear layer: 2 for each weight and row."""
    return matmul_flops(rows, inputs, outputs)


def bias_flops(rows: Number, outputs: Number) -> Number:
    """FLOPs of adding a bias: 1 for each of its numbers and row."""
    return rows * outputs


def weight_gradient_flops(rows: Number, inputs: Number, outputs: Number) -> Number:
    """FLOPs of the transposed input [inputs, rows] times the output's gradient [rows, outputs]."""
    return matmul_flops(inputs, rows, outputs)


def input_gradient_flops(rows: Number, inputs: Number, outputs: Number) -> Number:
    """FLOPs of the output's gradient [rows, outputs] times the transposed weight [outputs, inputs]."""
    return matmul_flops(rows, outputs, inputs)


def two_layer_forward_flops(rows: Number, width: Number, outputs: Number) -> Number:
    """FLOPs of x [rows, width] through a [width, width] and a [width, outputs] weight."""
    return 2 * rows * width * (width + outputs)


def two_layer_backward_flops(rows: Number, width: Number, outputs: Number) -> Number:
    """FLOPs of the gradients of both weights, of what is between them and of the input."""
    return 4 * rows * width * (width + outputs)


def two_layer_backward_without_input_gradient_flops(rows: Number, width: Number, outputs: Number) -> Number:
    """FLOPs of the same without the input's gradient."""
    return 4 * rows * width * outputs + 2 * rows * width * width


def stack_parameters(widths: Sequence[Number]) -> Number:
    """Weights of linear layers of these widths, from the input's to the output's, without biases."""
    return sum(inputs * outputs for inputs, outputs in itertools.pairwise(widths))


def stack_forward_flops(rows: Number, widths: Sequence[Number]) -> Number:
    """FLOPs of the products of a stack: 2 for each weight and row."""
    return 2 * rows * stack_parameters(widths)


def stack_backward_flops(
    rows: Number,
    widths: Sequence[Number],
    input_gradient: InputGradient,
    trained: Sequence[bool] | None = None,
) -> Number:
    """FLOPs of the gradients of a stack's weights and of what is between its layers.

    ``trained`` says of each layer whether its weight needs a gradient; without it all do. A trained layer
    takes its weight's gradient. A layer takes the gradient of its own input where something before it needs
    one: a trained layer, or the network's input.
    """
    layers = list(itertools.pairwise(widths))
    needs_weight = [True] * len(layers) if trained is None else list(trained)
    needs_input = [input_gradient is InputGradient.COMPUTED]
    for needed in needs_weight[:-1]:
        needs_input.append(needs_input[-1] or needed)
    return sum(
        needs_weight[place] * weight_gradient_flops(rows, inputs, outputs)
        + needs_input[place] * input_gradient_flops(rows, inputs, outputs)
        for place, (inputs, outputs) in enumerate(layers)
    )


def backward_over_forward(layers: Number) -> Number:
    """Backward FLOPs over forward FLOPs, for equal linear layers without the input's gradient."""
    return 2 - Fraction(1) / layers


def first_layer_share(widths: Sequence[Number]) -> Number:
    """The share of a stack's weights in its first layer.

    By half of it the backward FLOPs without the input's gradient fall short of 4 for each weight and row.
    """
    return Fraction(1) * widths[0] * widths[1] / stack_parameters(widths)


# ── convolutions and embeddings ──


def convolution_flops(batch: Number, positions: Number, filters: Number, fan_in: Number) -> Number:
    """FLOPs of a convolution: 2 for each weight and output position of each image.

    ``positions`` are the output's. ``fan_in`` is how many numbers one filter sees: the channels of its group
    times the places of its kernel. Products with padding are counted. The weight's gradient takes as many
    again, and the input's.
    """
    return 2 * batch * positions * filters * fan_in


def transposed_convolution_flops(batch: Number, positions: Number, channels: Number, fan_out: Number) -> Number:
    """FLOPs of a transposed convolution: 2 for each weight and input position of each image.

    ``positions`` are the input's. ``fan_out`` is how many numbers one input is added to: the filters of its
    group times the places of its kernel. The weight's gradient takes as many again, and the input's.
    """
    return 2 * batch * positions * channels * fan_out


def embedding_flops(tokens: Number, width: Number) -> Number:
    """FLOPs of looking up rows of a table: none, whatever is looked up."""
    return 0 * tokens * width
