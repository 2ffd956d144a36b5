"""Initial weights: which variance each recipe gives them, and what that does to the scale of a signal.

Sources: LeCun and others, "Efficient BackProp" (1998); Glorot and Bengio, "Understanding the difficulty of training
deep feedforward neural networks" (2010), whose first author's name is Xavier; He and others, "Delving deep into
rectifiers" (2015), whose first author's name is Kaiming.

The variances are plain arithmetic: given numbers they predict, given symbols they print themselves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

Number = Any
"""An int, a float, a fraction or a symbol."""


# ── fans ──


def fans(shape: Sequence[int]) -> tuple[int, int]:
    """fan_in and fan_out of a weight [outputs, inputs, *kernel] that is used as x @ weight.T.

    Each output is a sum over the inputs and the positions of the kernel, and each input goes into as many of the
    outputs. Raises ValueError for less than two dimensions.
    """
    if len(shape) < 2:
        raise ValueError(f"a weight of shape {tuple(shape)} has no fans: give it outputs and inputs")
    positions = math.prod(shape[2:])
    return shape[1] * positions, shape[0] * positions


# ── variances ──


def lecun_variance(fan_in: Number) -> Number:
    """The variance that keeps the scale of x @ w, for x of variance one: LeCun's."""
    return 1 / fan_in


def xavier_variance(fan_in: Number, fan_out: Number, gain: Number = 1) -> Number:
    """Glorot's compromise between the forward pass, which asks for 1 / fan_in, and the backward pass: 1 / fan_out."""
    return gain**2 * 2 / (fan_in + fan_out)


def kaiming_variance(fan: Number, gain: Number) -> Number:
    """He's: the gain makes up for what the activation takes away, with ReLU half of the mean square."""
    return gain**2 / fan


def linear_default_variance(fan_in: Number) -> Number:
    """The variance of a uniform distribution that ends at 1 / sqrt(fan_in)."""
    return lecun_variance(fan_in) / 3


def packed_variance(width: Number) -> Number:
    """Xavier's variance of a matrix [3 * width, width] that holds three square ones: its fan_out counts all of them."""
    return xavier_variance(width, 3 * width)


GAINS: dict[str, float] = {
    "linear": 1.0,
    "sigmoid": 1.0,
    "tanh": 5 / 3,
    "relu": math.sqrt(2),
    "selu": 3 / 4,
}
"""By how much a layer's weights are scaled up before an activation, in torch's table."""


def leaky_gain(slope: Number) -> float:
    """The gain before an activation that multiplies what is negative by ``slope``."""
    return math.sqrt(2 / (1 + slope**2))


def half_width(variance: float) -> float:
    """The end of a uniform distribution around zero that has this variance."""
    return math.sqrt(3 * variance)


def truncated_variance(end: float) -> float:
    """The variance of a standard normal number, given that its magnitude is at most ``end``."""
    return 1 - end * _density_within(end)


def truncated_fourth_moment(end: float) -> float:
    """The mean of the fourth power of the same number."""
    return 3 - (end**3 + 3 * end) * _density_within(end)


def _density_within(end: float) -> float:
    """The densities at both ends over the probability of what lies between."""
    return 2 * math.exp(-(end**2) / 2) / math.sqrt(2 * math.pi) / math.erf(end / math.sqrt(2))


# ── products ──


def product_mean(mean_x: Number, mean_y: Number, correlation: Number) -> Number:
    """The mean of x * y, for x and y of variance one with these means and this correlation."""
    return mean_x * mean_y + correlation


def product_variance(mean_x: Number, mean_y: Number, correlation: Number) -> Number:
    """The variance of x * y, for x and y normal of variance one with these means and this correlation.

    It is (mean_x + correlation * mean_y)**2 + mean_y**2 * (1 - correlation**2) + correlation**2 + 1, hence one only for
    independent x and y of mean zero.
    """
    return mean_x**2 + mean_y**2 + 2 * correlation * mean_x * mean_y + correlation**2 + 1


# ── depth ──


def output_variance(inputs: Number, mean_square: Number = 1) -> Number:
    """The variance of x @ w for weights of variance one: ``inputs`` times the mean square of x."""
    return inputs * mean_square


def scale_after(layers: Number, growth: Number) -> Number:
    """The root mean square after so many layers, each of which multiplies the mean square by ``growth``."""
    return growth ** (layers / 2)


def first_beyond(largest: float, growth: float, peak: float) -> int:
    """The first layer whose largest magnitude, ``peak`` times the root mean square, is above ``largest``.

    Raises ValueError for a growth of one and less, which never gets there.
    """
    if growth <= 1:
        raise ValueError(f"a mean square that is multiplied by {growth} never reaches {largest}: give more than 1")
    layer = 1
    while peak * scale_after(layer, growth) <= largest:
        layer += 1
    return layer
