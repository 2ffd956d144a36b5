"""Variances and scales against arithmetic by hand, scipy, and simulation."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import sympy
from scipy import stats

from reference import initialisation


def test_fans_count_a_kernels_positions_both_ways() -> None:
    assert initialisation.fans((5, 3)) == (3, 5)
    assert initialisation.fans((8, 4, 3, 2)) == (24, 48)
    with pytest.raises(ValueError, match=r"shape \(7,\) has no fans"):
        initialisation.fans((7,))


def test_xavier_lies_between_what_both_passes_ask_for() -> None:
    assert initialisation.xavier_variance(Fraction(6), Fraction(2)) == Fraction(1, 4)
    for fan_in, fan_out in ((3, 5), (8, 2), (4, 4)):
        asked = sorted((1 / fan_in, 1 / fan_out))
        assert asked[0] <= initialisation.xavier_variance(fan_in, fan_out) <= asked[1]


def test_of_a_square_matrix_xaviers_variance_is_lecuns() -> None:
    n, gain = sympy.symbols("n g", positive=True)
    assert sympy.simplify(initialisation.xavier_variance(n, n) - initialisation.lecun_variance(n)) == 0
    assert initialisation.xavier_variance(n, n, gain) == gain**2 / n


def test_of_three_packed_matrices_xaviers_variance_is_half_of_one() -> None:
    n = sympy.symbols("n", positive=True)
    assert sympy.simplify(initialisation.packed_variance(n) * 2 - initialisation.xavier_variance(n, n)) == 0


def test_a_uniform_distribution_that_ends_at_one_over_the_root_has_a_third_of_the_variance() -> None:
    variance = initialisation.linear_default_variance(Fraction(16))
    assert variance == Fraction(1, 48)
    assert initialisation.half_width(float(variance)) == pytest.approx(1 / 4)
    half = initialisation.half_width(0.7)
    assert stats.uniform(-half, 2 * half).var() == pytest.approx(0.7)


def test_a_leaky_gain_goes_from_that_of_relu_to_that_of_no_activation() -> None:
    assert initialisation.leaky_gain(0) == pytest.approx(initialisation.GAINS["relu"])
    assert initialisation.leaky_gain(1) == pytest.approx(initialisation.GAINS["linear"])
    assert initialisation.leaky_gain(2) ** 2 == pytest.approx(2 / 5)


@pytest.mark.parametrize("end", [0.1, 1.0, 2.0, 3.5, 9.0])
def test_truncated_moments_are_scipys(end: float) -> None:
    law = stats.truncnorm(-end, end)
    assert initialisation.truncated_variance(end) == pytest.approx(law.var(), rel=1e-6)
    assert initialisation.truncated_fourth_moment(end) == pytest.approx(law.moment(4), rel=1e-6)


@pytest.mark.parametrize(("mean_x", "mean_y", "correlation"), [(0, 0, 0), (1, 1, 0), (0.5, -1, 0.3), (0, 0, 1)])
def test_a_products_mean_and_variance_are_those_of_many(mean_x: float, mean_y: float, correlation: float) -> None:
    drawn = np.random.default_rng(0).multivariate_normal(
        [mean_x, mean_y], [[1, correlation], [correlation, 1]], size=400_000
    )
    products = drawn.prod(axis=1)
    assert products.mean() == pytest.approx(initialisation.product_mean(mean_x, mean_y, correlation), abs=0.02)
    assert products.var() == pytest.approx(initialisation.product_variance(mean_x, mean_y, correlation), rel=0.03)


def test_only_independent_components_around_zero_have_a_product_of_variance_one() -> None:
    a, b, c = sympy.symbols("a b c", real=True)
    squares = (a + c * b) ** 2 + b**2 * (1 - c**2) + c**2 + 1
    assert sympy.expand(initialisation.product_variance(a, b, c) - squares) == 0
    assert initialisation.product_variance(1, 1, 0) == 3


def test_the_scale_grows_by_the_root_of_the_width() -> None:
    assert initialisation.output_variance(64) == 64
    assert initialisation.output_variance(64, Fraction(1, 64)) == 1
    assert [initialisation.scale_after(layer, 16) for layer in (0, 1, 2)] == [1, 4, 16]


def test_the_first_layer_beyond_is_the_first() -> None:
    # 256 and 16 a layer: 16, 256, 4096, 65536.
    assert initialisation.first_beyond(65504, 256, 1.0) == 4
    assert initialisation.first_beyond(65536, 256, 1.0) == 5
    assert initialisation.first_beyond(1000, 256, 4.0) == 2
    assert initialisation.first_beyond(1, 1.5, 1.0) == 1
    with pytest.raises(ValueError, match="never reaches 10"):
        initialisation.first_beyond(10, 1.0, 1.0)
