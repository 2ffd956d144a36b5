"""The plain algorithms against NumPy and SciPy, and what counting numbers say against counts by hand."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.signal import correlate
from scipy.special import erf, log_softmax

from reference import linear, scalars
from reference.scalars import Mask, Operations, Start, count, integers, reals


def close(seen: np.ndarray, expected: np.ndarray) -> bool:
    return seen.shape == expected.shape and np.allclose(seen.astype(float), expected, rtol=1e-12, atol=1e-12)


def sigmoid(x: np.ndarray) -> np.ndarray:
    result: np.ndarray = 1 / (1 + np.exp(-x))
    return result


# ── values ──


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((2, 3), (3, 4)),
        ((2, 0), (0, 4)),
        ((0, 3), (3, 4)),
        ((3,), (3, 4)),
        ((2, 3), (3,)),
        ((3,), (3,)),
        ((5, 2, 3), (3, 4)),
        ((2, 1, 2, 3), (4, 3, 2)),
        ((2, 3), (5, 3, 1)),
        ((3,), (5, 3, 2)),
    ],
)
@pytest.mark.parametrize("start", Start)
def test_matmul_is_numpys(left: tuple[int, ...], right: tuple[int, ...], start: Start) -> None:
    x, y = integers(left), integers(right, 1)
    seen, expected = scalars.matmul(x, y, start), np.matmul(x, y)
    assert np.shape(seen) == expected.shape
    assert np.array_equal(np.asarray(seen, dtype=int), expected)


def test_unequal_inner_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="inner lengths 3 and 4 differ"):
        scalars.matmul(integers((2, 3)), integers((4, 2)))


@pytest.mark.parametrize(
    ("pattern", "shapes"),
    [
        ("a b, b c -> a c", [(2, 3), (3, 4)]),
        ("a b, b c -> c", [(2, 3), (3, 4)]),
        ("a, b -> a b", [(2,), (3,)]),
        ("a b ->", [(2, 3)]),
        ("a b -> b a", [(2, 3)]),
        ("a b, b c, c -> a", [(2, 3), (3, 4), (4,)]),
        ("a b, b -> a", [(2, 0), (0,)]),
    ],
)
def test_einsum_is_numpys(pattern: str, shapes: list[tuple[int, ...]]) -> None:
    operands = [integers(shape, seed) for seed, shape in enumerate(shapes)]
    expected = np.einsum(pattern, *operands)
    assert np.array_equal(scalars.einsum(pattern, *operands).astype(int), expected)


def test_linear_is_the_product_with_the_transpose_and_the_bias() -> None:
    x, weight, bias = integers((2, 3, 4)), integers((5, 4), 1), integers((5,), 2)
    assert np.array_equal(scalars.linear(x, weight, bias).astype(int), x @ weight.T + bias)


@pytest.mark.parametrize(("stride", "padding", "dilation"), [(1, 0, 1), (2, 1, 1), (1, 2, 2)])
@pytest.mark.parametrize("groups", [1, 2])
def test_convolution_is_scipys_correlation(stride: int, padding: int, dilation: int, groups: int) -> None:
    x, weight, bias = integers((2, 4, 6, 5)), integers((6, 4 // groups, 2, 3), 1), integers((6,), 2)
    padded = np.pad(x, [(0, 0), (0, 0), (padding, padding), (padding, padding)])
    spread = np.zeros((*weight.shape[:2], dilation + 1, 2 * dilation + 1), dtype=int)
    spread[..., ::dilation, ::dilation] = weight

    def filtered(image: np.ndarray, place: int) -> np.ndarray:
        first = place // (6 // groups) * (4 // groups)
        seen = image[first : first + 4 // groups]
        slid: np.ndarray = correlate(seen, spread[place], "valid")[0, ::stride, ::stride] + bias[place]
        return slid

    expected = [[filtered(image, place) for place in range(6)] for image in padded]
    seen = scalars.convolution(x, weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups)
    assert np.array_equal(seen.astype(int), np.array(expected))


def test_a_transposed_convolution_is_the_transpose_of_the_convolution() -> None:
    x, weight = integers((1, 4, 5)), integers((6, 2, 3), 2)
    for stride, length in ((2, 2), (1, 3)):
        y = integers((1, 6, length), 1)
        forward = scalars.convolution(x, weight, stride=stride, groups=2)
        back = scalars.transposed_convolution(y, weight, stride=stride, groups=2)
        assert back.shape == x.shape
        assert (forward * y).sum() == (x * back).sum()
    assert np.array_equal(scalars.transposed_convolution(y, weight, groups=2), back)


def test_single_numbers_are_the_functions_of_their_names() -> None:
    x = reals((50,))
    by_hand = {
        scalars.silu: x * sigmoid(x),
        scalars.sigmoid: sigmoid(x),
        scalars.relu: np.maximum(x, 0),
        scalars.gelu: 0.5 * x * (1 + erf(x / np.sqrt(2))),
        scalars.tanh_gelu: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
        scalars.square: x * x,
    }
    for function, expected in by_hand.items():
        assert close(scalars.elementwise(function, x), expected), function


def test_normalisations_are_numpys() -> None:
    x, scale, shift = reals((2, 3, 5)), reals((5,), 1), reals((5,), 2)
    weights = np.exp(x)
    assert close(scalars.softmax(x), weights / weights.sum(-1, keepdims=True))
    centred = x - x.mean(-1, keepdims=True)
    assert close(
        scalars.layer_norm(x, scale, shift),
        centred / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale + shift,
    )
    assert close(scalars.rms_norm(x, scale), x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * scale)


@pytest.mark.parametrize("mask", Mask)
def test_attention_is_composed_of_softmax_and_products(mask: Mask) -> None:
    query, key, value = reals((4, 3, 5)), reals((2, 3, 5), 1), reals((2, 3, 6), 2)
    keys, values = key.repeat(2, 0), value.repeat(2, 0)
    scores = query @ keys.transpose(0, 2, 1) / math.sqrt(5)
    if mask is Mask.CAUSAL:
        scores[:, ~np.tri(3, dtype=bool)] = -np.inf
    weights = np.exp(scores)
    expected = weights / weights.sum(-1, keepdims=True) @ values
    assert close(scalars.attention(query, key, value, mask), expected)


def test_layers_are_numpys() -> None:
    x, hidden, cell = reals((2, 3)), reals((2, 4), 1), reals((2, 4), 2)
    gate, up, down = reals((5, 3), 3), reals((5, 3), 4), reals((3, 5), 5)
    gated = x @ gate.T
    assert close(scalars.swiglu(x, gate, up, down), (gated * sigmoid(gated) * (x @ up.T)) @ down.T)
    weights = [reals(shape, 6 + place) for place, shape in enumerate(((16, 3), (16, 4), (16,), (16,)))]
    sums = x @ weights[0].T + weights[2] + hidden @ weights[1].T + weights[3]
    enter, forget, candidate, leave = np.split(sums, 4, axis=-1)
    after = sigmoid(forget) * cell + sigmoid(enter) * np.tanh(candidate)
    seen = scalars.lstm_cell(x, hidden, cell, *weights)
    assert close(seen[1], after)
    assert close(seen[0], sigmoid(leave) * np.tanh(after))
    assert close(scalars.lstm_cell(x[0], hidden[0], cell[0], *weights)[1], after[0])
    small = [weight[:4] for weight in weights]
    assert close(
        scalars.recurrent_cell(x, hidden, *small),
        np.tanh(x @ small[0].T + small[2] + hidden @ small[1].T + small[3]),
    )


def test_losses_are_numpys() -> None:
    logits, target = reals((3, 4)), reals((3, 4), 1)
    assert math.isclose(scalars.mean_square_error(logits, target), ((logits - target) ** 2).mean())
    places = [2, 0, 3]
    expected = -log_softmax(logits, axis=-1)[range(3), places].mean()
    assert math.isclose(scalars.cross_entropy(logits, places), expected)


def test_fractions_stay_exact() -> None:
    x = np.array([[Fraction(1, 3), Fraction(1, 7)]], dtype=object)
    assert scalars.matmul(x, x.T).item() == Fraction(1, 9) + Fraction(1, 49)


# ── counts ──


def test_a_softmax_of_large_numbers_does_not_overflow() -> None:
    assert scalars.softmax_of([1000.0, 1000.0, 0.0]) == [0.5, 0.5, 0.0]


def test_sums_and_points_between_are_those_found_by_hand() -> None:
    assert scalars.summed([]) == 0 and scalars.summed([2, 3, 4]) == 9
    assert scalars.addcmul(1, 2, 3, 10) == 61
    assert scalars.lerp(2, 6, 0.25) == 3


def test_a_number_is_neither_above_nor_below_itself() -> None:
    x, y = scalars.counted(np.array([3.0, 3.0]), Operations())
    assert not (x > y or x < y or x > 3 or x < 3)


def test_whole_numbers_go_from_minus_nine_to_nine() -> None:
    assert set(integers((999,)).tolist()) == set(range(-9, 10))


def test_every_operation_is_counted_once_and_under_its_kind() -> None:
    done = Operations()
    x, y = scalars.counted(np.array([2.0, 3.0]), done)
    _ = (x + y, x + 1, 1 + x, x - y, 1 - x)
    _ = (x * y, 2 * x, x.square(), x / y, 1 / x, -x)
    _ = (x.exp(), x.log(), x.tanh(), x.erf(), x.sqrt(), x > y, x < 1, x.multiply_add(y, x))
    assert done == Operations(
        additions=6, multiplications=4, divisions=2, exponentials=4, roots=1, comparisons=2, multiply_adds=1
    )
    assert (done.flops, done.matrix, done.elementwise) == (17, 2, 15)


@pytest.mark.parametrize("sizes", list(itertools.product((0, 1, 3), repeat=3)))
def test_a_product_counts_two_for_each_term(sizes: tuple[int, int, int]) -> None:
    rows, inner, columns = sizes
    done = count(scalars.matmul, integers((rows, inner)), integers((inner, columns)))
    assert done.flops == done.matrix == linear.matmul_flops(*sizes)
    assert done.multiplications == done.additions
    if inner:
        least = count(scalars.matmul, integers((rows, inner)), integers((inner, columns)), start=Start.FIRST_PRODUCT)
        assert least.flops == linear.least_matmul_flops(*sizes)


def test_numpys_own_loops_count_as_the_plain_ones_do() -> None:
    """NumPy multiplies arrays of objects too, and begins each sum with its first product."""
    x, y = integers((3, 4)), integers((4, 5), 1)
    plain = count(scalars.matmul, x, y, start=Start.FIRST_PRODUCT)
    assert count(np.matmul, x, y).flops == plain.flops
    assert count(np.add, x, x).flops == count(scalars.add, x, x).flops == 12


@pytest.mark.parametrize("width", [1, 2, 7])
def test_normalisations_count_as_by_hand(width: int) -> None:
    row, scale = reals((1, width)), reals((width,), 1)
    done = count(scalars.softmax, row)
    assert (done.flops, done.comparisons) == (linear.softmax_flops(width), linear.softmax_comparisons(width))
    assert done.flops + done.comparisons == 5 * width - 2
    assert count(scalars.layer_norm, row, scale, scale).flops == linear.layer_norm_flops(width)
    assert count(scalars.rms_norm, row, scale).flops == linear.rms_norm_flops(width)


def test_losses_count_as_by_hand() -> None:
    x, y = reals((3, 5)), reals((3, 5), 1)
    assert count(scalars.mean_square_error, x, y).flops == linear.mean_square_error_flops(15)
    done = count(scalars.cross_entropy, x, [0, 1, 4])
    assert done.flops == linear.cross_entropy_flops(3, 5)
    assert done.comparisons == 3 * linear.softmax_comparisons(5)


def test_a_causal_mask_leaves_half_of_the_products_and_a_diagonal() -> None:
    operands = [reals((2, 4, 3), seed) for seed in range(3)]
    full = count(scalars.attention, *operands)
    causal = count(scalars.attention, *operands, Mask.CAUSAL)
    assert full.matrix == 2 * 2 * 2 * 4 * 4 * 3
    assert causal.matrix * 2 * 4 == full.matrix * (4 + 1)


def test_padding_is_multiplied_like_anything_else() -> None:
    x, weight = integers((2, 4, 5)), integers((6, 2, 3), 1)
    done = count(scalars.convolution, x, weight, padding=1, groups=2)
    assert done.flops == done.matrix == linear.convolution_flops(2, 5, 6, fan_in=2 * 3)
    wide = integers((3, 6, 5))
    done = count(scalars.transposed_convolution, wide, weight, stride=2, groups=2)
    assert done.matrix == linear.transposed_convolution_flops(3, 5, 6, fan_out=2 * 3)


def test_a_lookup_is_free() -> None:
    assert count(scalars.embedding, reals((5, 3)), [1, 1, 4]) == Operations()
