"""AdamW against its closed form in NumPy, and the bounds against arithmetic in 32 bits."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from reference import optimizers
from reference.optimizers import Settings, State

GRADIENTS = [1.0, -2.0, 0.5, 0.0, 3.0]


def closed_form(weight: float, gradients: list[float], settings: Settings) -> float:
    """The weight after all gradients, each moment as a weighted sum over all of them, without a recurrence."""
    g = np.array(gradients) * (-1 if settings.maximize else 1)
    seconds = []
    for count in range(1, len(g) + 1):
        ages = np.arange(count)[::-1]
        first = (1 - settings.beta1) * (settings.beta1**ages @ g[:count]) / (1 - settings.beta1**count)
        seconds.append((1 - settings.beta2) * (settings.beta2**ages @ g[:count] ** 2))
        second = (max(seconds) if settings.amsgrad else seconds[-1]) / (1 - settings.beta2**count)
        weight *= 1 - settings.learning_rate * settings.weight_decay
        weight -= settings.learning_rate * first / (math.sqrt(second) + settings.eps)
    return weight


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        Settings(amsgrad=True),
        Settings(maximize=True),
        Settings(weight_decay=0.0),
        Settings(0.25, 0.5, 0.75, 1e-3, 0.5, True, True),
    ],
)
def test_the_recurrence_is_the_closed_form(settings: Settings) -> None:
    seen = optimizers.run(2.0, GRADIENTS, settings)[-1].weight
    assert seen == pytest.approx(closed_form(2.0, GRADIENTS, settings), rel=1e-13)


@pytest.mark.parametrize("gradient", [1e-3, -5.0, 1e6])
def test_the_first_step_is_the_rate_whatever_the_gradient(gradient: float) -> None:
    settings = Settings(learning_rate=0.125, eps=1e-300, weight_decay=0.0)
    assert optimizers.step(State(1.0), gradient, settings).weight == pytest.approx(1 - math.copysign(0.125, gradient))


def test_without_gradients_only_the_decay_moves_the_weight() -> None:
    settings = Settings(learning_rate=0.5, weight_decay=0.5)
    assert [state.weight for state in optimizers.run(1.0, [0.0, 0.0], settings)] == [0.75, 0.5625]


def test_what_is_not_said_is_what_torch_documents() -> None:
    assert Settings() == Settings(1e-3, 0.9, 0.999, 1e-8, 1e-2, amsgrad=False, maximize=False)


def test_maximising_is_minimising_the_opposite() -> None:
    up = optimizers.run(1.0, GRADIENTS, Settings(maximize=True))
    down = optimizers.run(1.0, [-each for each in GRADIENTS], Settings())
    assert up == down


def test_amsgrad_never_forgets_the_largest() -> None:
    states = optimizers.run(1.0, [4.0, *[0.0] * 5], Settings(amsgrad=True, beta2=0.5))
    assert {state.largest for state in states} == {8.0}
    assert states[-1].second == 8.0 / 2**5


@pytest.mark.parametrize("beta", [Fraction(0), Fraction(1, 2), Fraction(0.999)])
def test_a_moving_average_is_a_weighted_sum(beta: Fraction) -> None:
    values = [Fraction(each) for each in GRADIENTS]
    assert optimizers.moving_average(values, beta) == optimizers.weighted_sum(values, beta)
    assert optimizers.moving_average([Fraction(1)] * 7, beta) == 1 - beta**7


def test_the_bounds_of_two_steps_are_those_found_by_hand() -> None:
    """With gradients of 2 the corrected moments are 2 and 4 at each step, and the weight goes from 1 by 1/4 to 1/2.

    In units of rounding, step by step: three of both weights, the update times 8 and 7/2 (then 7), and what the
    first moment is off, 8 (then 16) times 2, times the rate over correction and divisor, 1/4 (then 1/6).
    """
    settings = Settings(learning_rate=0.5, beta1=0.5, beta2=0.75, eps=2.0, weight_decay=0.0)
    assert [state.weight for state in optimizers.run(1.0, [2.0, 2.0], settings)] == [0.75, 0.5]
    assert optimizers.first_moment_bound([1.0, -3.0], unit=0.5) == 8 * 2 * 0.5 * 3
    assert optimizers.second_moment_share(2, unit=0.5) == 7
    first = 3 * (1 + 0.75) + 0.25 * (8 + 7 / 2) + 8 * 2 / 4
    second = 3 * (0.75 + 0.5) + 0.25 * (8 + 7) + 16 * 2 / 6
    unit = 2.0**-24
    assert optimizers.weight_bound(1.0, [2.0], settings, unit) == pytest.approx(2 * unit * first, rel=1e-12)
    both = optimizers.weight_bound(1.0, [2.0, 2.0], settings, unit)
    assert both == pytest.approx(2 * unit * (first + second), rel=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_arithmetic_in_32_bits_stays_within_the_bounds(seed: int) -> None:
    """The same steps in NumPy's float32, rounding after each operation."""
    generator = np.random.default_rng(seed)
    gradients = (generator.standard_normal(6) * 2.0 ** generator.integers(-9, 9, 6)).astype(np.float32)
    settings = Settings(learning_rate=0.25, beta1=0.8, beta2=0.95, eps=1e-6, weight_decay=0.5)
    single = np.float32
    weight, first, second = single(3.0), single(0.0), single(0.0)
    for count, gradient in enumerate(gradients, start=1):
        weight = weight * single(1 - 0.25 * 0.5)
        first = first + single(1 - 0.8) * (gradient - first)
        second = second * single(0.95) + single(1 - 0.95) * gradient * gradient
        root = np.sqrt(second) / single(math.sqrt(1 - 0.95**count)) + single(1e-6)
        weight = weight + single(-0.25 / (1 - 0.8**count)) * (first / root)
    wide = [float(gradient) for gradient in gradients]
    exact = optimizers.run(3.0, wide, settings)[-1]
    unit = 2.0**-24
    assert abs(first - exact.first) <= optimizers.first_moment_bound(wide, unit)
    assert abs(second - exact.second) <= optimizers.second_moment_share(6, unit) * exact.second
    assert abs(weight - exact.weight) <= optimizers.weight_bound(3.0, wide, settings, unit)
    assert optimizers.weight_bound(3.0, wide, settings, unit) < 1e-3
