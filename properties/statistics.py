"""Intervals with a stated false-alarm probability, and what they can see.

Where the distribution of what is measured is known, the interval comes from it: a chi-square for the sum of squares of
normal numbers, an F for the ratio of two of those, a normal for their sum. Elsewhere it comes from a theorem that holds
for every sample size: Chernoff's bound where the moment-generating function is known, Bernstein's where only the
variance and the largest value are, Laurent and Massart's for weighted squares, and that of Dvoretzky, Kiefer and
Wolfowitz for a whole distribution function. No interval rests on a limit of many observations.

A false alarm is a value outside its interval in a world that is as claimed. A claim may have ``FALSE_ALARM`` of them a
run, all its cases together: ``alarm`` says what is left to a single check.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from jaxtyping import Float64
from scipy import special

from properties.levels import Level, level

FALSE_ALARM = 1e-9
"""The probability with which a run fails a random claim that is true, at most."""
POWER = 0.999
"""The probability with which a deviation that a claim says it detects is detected in a single case, at least."""
DEVIATION = 0.05
"""The relative change of a variance that is to be detected."""

Values = Float64[np.ndarray, "values"]
Cumulant = Callable[[Values], Values]
"""The logarithm of E[exp(t X)] as a function of t; infinite, or NaN, where there is no such expectation."""


@dataclass(frozen=True)
class Interval:
    """The numbers from ``low`` to ``high``, both included; NaN is in none."""

    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __mul__(self, factor: float) -> Interval:
        """The interval of a positive factor times the number."""
        return Interval(self.low * factor, self.high * factor)

    def exp(self) -> Interval:
        """The interval of the exponential of the number."""
        return Interval(math.exp(self.low), math.exp(self.high))


def alarm(checks: int, cases: int = Level.DEFAULT.cases) -> float:
    """The false alarm that a single check may have.

    ``checks`` is how many random checks a claim makes for each of its cases, those of all its properties together, and
    ``cases`` how many cases it asks for at the default level. As many again are allowed for pinned examples. The bounds
    of several checks add up whether they are independent or not.
    """
    drawn = max(1, cases * level().cases // Level.DEFAULT.cases)
    return FALSE_ALARM / (2 * checks * drawn)


# ── where the distribution is known ──


def normal_quantile(tail: float) -> float:
    """The number that a standard normal number exceeds with probability ``tail``."""
    return -float(special.ndtri(tail))


@cache
def normal_sum(count: int, false_alarm: float) -> Interval:
    """The sum of ``count`` independent standard normal numbers: normal with variance ``count``."""
    half = normal_quantile(false_alarm / 2) * math.sqrt(count)
    return Interval(-half, half)


@cache
def chi_square(degrees: int, false_alarm: float) -> Interval:
    """The sum of squares of ``degrees`` independent standard normal numbers."""
    low = 2 * special.gammaincinv(degrees / 2, false_alarm / 2)
    high = 2 * special.gammainccinv(degrees / 2, false_alarm / 2)
    return Interval(float(low), float(high))


@cache
def variance_ratio(degrees: int, other_degrees: int, false_alarm: float) -> Interval:
    """The ratio of two independent estimates of one variance, each a mean of so many squares: F-distributed."""
    return Interval(
        1 / _upper_f(other_degrees, degrees, false_alarm / 2),
        _upper_f(degrees, other_degrees, false_alarm / 2),
    )


def _upper_f(degrees: int, other_degrees: int, tail: float) -> float:
    # An F above f is a beta variable below 1 / (1 + f * degrees / other_degrees), of which the small one is exact.
    share = float(special.betaincinv(other_degrees / 2, degrees / 2, tail))
    return other_degrees / degrees * (1 - share) / share


@cache
def largest_of_normals(count: int, false_alarm: float) -> Interval:
    """The largest magnitude of ``count`` independent standard normal numbers."""
    tail = false_alarm / 2
    # All are below m with probability (1 - p)**count, where one is above it with probability p.
    above_low, above_high = -math.expm1(math.log(tail) / count), -math.expm1(math.log1p(-tail) / count)
    return Interval(normal_quantile(above_low / 2), normal_quantile(above_high / 2))


@cache
def edge(count: int, false_alarm: float) -> float:
    """How much of the half-width a of a uniform distribution on [-a, a] the largest of ``count`` magnitudes may miss.

    None of them is in the outermost share s with probability (1 - s)**count.
    """
    return -math.expm1(math.log(false_alarm) / count)


# ── where a theorem bounds it ──

_TILTS = np.geomspace(1e-4, 1e4, 400)


def chernoff(cumulant: Cumulant, count: int, false_alarm: float) -> Interval:
    """The sum of ``count`` independent variables of one distribution, by Chernoff's bound.

    P(sum >= s) <= exp(count * cumulant(t) - t * s) for every t above zero, and the other tail for every t below. Any t
    gives a bound that holds; the best of four hundred is taken.
    """
    spent = math.log(2 / false_alarm)
    with np.errstate(all="ignore"):
        above = (count * cumulant(_TILTS) + spent) / _TILTS
        below = (count * cumulant(-_TILTS) + spent) / -_TILTS
    low, high = below[np.isfinite(below)], above[np.isfinite(above)]
    return Interval(float(low.max(initial=-math.inf)), float(high.min(initial=math.inf)))


def noncentral_chi_square(degrees: int, noncentrality: float) -> Cumulant:
    """The cumulant of a sum of ``degrees`` squares of normal numbers of variance one whose means have so large a sum of
    squares.
    """

    def cumulant(t: Values) -> Values:
        beyond = np.where(t < 0.5, 1 - 2 * t, np.nan)
        found: Values = noncentrality * t / beyond - degrees / 2 * np.log(beyond)
        return found

    return cumulant


def rectified_square(t: Values) -> Values:
    """The cumulant of the square of max(0, Z), Z standard normal: half the time zero, half the time a square."""
    found: Values = np.log((1 + 1 / np.sqrt(1 - 2 * t)) / 2)
    return found


def log_chi_square(degrees: int) -> Cumulant:
    """The cumulant of the logarithm of a sum of ``degrees`` squares of standard normal numbers."""
    half = degrees / 2
    return lambda t: np.where(
        t > -half, t * math.log(2) + special.gammaln(half + np.maximum(t, -half)) - special.gammaln(half), np.nan
    )


def log_rectified(width: int) -> Cumulant:
    """The cumulant of the logarithm of a sum of ``width`` squares of max(0, Z), given that it is not zero.

    Of the numbers, m are above zero with a binomial probability, and their squares then add up to a chi-square.
    """
    counts = np.arange(1, width + 1)
    halves = counts / 2
    chances = np.log(special.comb(width, counts)) - width * math.log(2) - math.log1p(-(2.0**-width))

    def cumulant(t: Values) -> Values:
        grown = special.gammaln(np.add.outer(t, halves)) - special.gammaln(halves)
        found = t * math.log(2) + special.logsumexp(chances + grown, axis=1)
        return np.where(t > -halves[0], found, np.nan)

    return cumulant


def mean_log_rectified(width: int) -> float:
    """The expectation of that logarithm: what its cumulant's slope at zero is."""
    counts = np.arange(1, width + 1)
    chances = special.comb(width, counts) / (2.0**width - 1)
    return float((chances * (special.digamma(counts / 2) + math.log(2))).sum())


@cache
def bounded_sum(count: int, mean: float, variance: float, largest: float, false_alarm: float) -> Interval:
    """The sum of ``count`` independent variables of which none is further than ``largest`` from the mean.

    Bernstein: P(|sum - count * mean| >= s) <= 2 exp(-s**2 / (2 * (count * variance + largest * s / 3))).
    """
    spent = math.log(2 / false_alarm)
    linear = largest * spent / 3
    half = linear + math.sqrt(linear**2 + 2 * spent * count * variance)
    return Interval(count * mean - half, count * mean + half)


def weighted_chi_square(total: float, squares: float, largest: float, false_alarm: float) -> Interval:
    """The sum of squares of independent standard normal numbers, each times a weight that is not negative.

    Of the weights, ``total`` is the sum, ``squares`` the sum of squares, and ``largest`` the largest; upper bounds of
    the last two do. Laurent and Massart, "Adaptive estimation of a quadratic functional by model selection" (2000).
    """
    spent = math.log(2 / false_alarm)
    half = 2 * math.sqrt(squares * spent)
    return Interval(total - half, total + half + 2 * largest * spent)


def distance_bound(count: int, false_alarm: float) -> float:
    """How far the shares below each number, of ``count`` observations, may be from their probabilities.

    Dvoretzky, Kiefer and Wolfowitz; the constant is Massart's (1990). It holds for the largest distance over all
    numbers, hence over any of them.
    """
    return math.sqrt(math.log(2 / false_alarm) / (2 * count))


def distance(observations: Values, distribution: Callable[[Values], Values]) -> float:
    """The largest distance between the shares of the observations and a continuous distribution function."""
    expected = distribution(np.sort(observations))
    steps = np.arange(len(expected) + 1) / len(expected)
    return float(max((steps[1:] - expected).max(), (expected - steps[:-1]).max()))


def normal_distribution(values: Values) -> Values:
    """The probability that a standard normal number is not above each value."""
    return np.asarray(special.ndtr(values))


# ── what is detected ──


def detection(degrees: int, ratio: float, false_alarm: float) -> float:
    """The probability that a variance changed by ``ratio`` leaves the chi-square interval."""
    interval = chi_square(degrees, false_alarm)
    below = special.gammainc(degrees / 2, interval.low / ratio / 2)
    above = special.gammaincc(degrees / 2, interval.high / ratio / 2)
    return float(below + above)


def observations_for(deviation: float, false_alarm: float, power: float = POWER) -> int:
    """How many squares it takes to detect a variance that is larger or smaller by ``deviation`` with that power."""

    def seen(degrees: int) -> bool:
        ratios = (1 - deviation, 1 + deviation)
        return min(detection(degrees, ratio, false_alarm) for ratio in ratios) >= power

    high = 1
    while not seen(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if seen(middle) else (middle, high)
    return high


ENOUGH = 3 * 2**15
"""Normal numbers in a case that is to detect ``DEVIATION`` in their variance: for up to 50 checks of 100 cases."""
