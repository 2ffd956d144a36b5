"""Ratios of durations, and what is known of one after so many pairs.

Of the noise nothing is assumed but that each pair's ratio is as likely above the true ratio as below it, independently
of other pairs. The number of ratios below is then binomial, and the true one lies between two order statistics with a
known probability, whatever the distribution: heavy tails and several modes included. The mean has no such interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from functools import cache

import numpy as np
from jaxtyping import Bool, Float64

FALSE_ALARM = 1e-9
"""The probability with which a claim whose ratio is in its band is found outside, all looks together, at most."""
LOOKS = (34, 68, 136, 272, 544)
"""Numbers of pairs after which the answer is looked for. 34 is the fewest whose extremes are that certain."""

Values = Float64[np.ndarray, "..."]


class Answer(Enum):
    """What an interval says about a band."""

    INSIDE = "inside"
    OUTSIDE = "outside"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Band:
    """The ratios from ``low`` to ``high``, both included."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high:
            raise ValueError(f"a band from {self.low} to {self.high}: give the lower edge first, from 0 up")

    def __str__(self) -> str:
        return f"{self.low:g} and more" if math.isinf(self.high) else f"{self.low:g} to {self.high:g}"

    def holds(self, low: Values, high: Values) -> Bool[np.ndarray, "..."]:
        """Whether all of an interval is in the band."""
        return (self.low <= low) & (high <= self.high)

    def excludes(self, low: Values, high: Values) -> Bool[np.ndarray, "..."]:
        """Whether nothing of an interval is in the band."""
        return (high < self.low) | (self.high < low)


@cache
def rank(pairs: int) -> int:
    """How far from both ends the order statistics lie that bound the interval; ValueError for too few pairs.

    The largest k for which fewer than k of ``pairs`` ratios lie on one side with a probability within that of a false
    alarm, which the looks share.
    """
    allowed, found, below = Fraction(FALSE_ALARM) / len(LOOKS) * 2**pairs, 0, 0
    while 2 * (below := below + math.comb(pairs, found)) <= allowed:
        found += 1
    if not found:
        raise ValueError(f"{pairs} pairs say nothing at a false alarm of {FALSE_ALARM:g}: measure {LOOKS[0]} or more")
    return found


def interval(ratios: Float64[np.ndarray, "... pairs"]) -> tuple[Values, Values]:
    """Where the true ratio lies, from the ratios of all pairs so far; leading dimensions are claims of their own."""
    inwards = rank(ratios.shape[-1])
    ordered = np.partition(ratios, (inwards - 1, -inwards), axis=-1)
    return ordered[..., inwards - 1], ordered[..., -inwards]


@dataclass(frozen=True)
class Ratio:
    """A ratio of durations: its median over so many pairs, where the true one lies, and the band it was asked about.

    ``trouble`` says why it is not to be relied on, or was not measured at all, where that is so.
    """

    median: float
    low: float
    high: float
    pairs: int
    band: Band
    trouble: str = ""

    @classmethod
    def of(cls, ratios: Sequence[float], band: Band) -> Ratio:
        """What the ratios of so many pairs say."""
        seen = np.array(ratios, dtype=np.float64)
        low, high = interval(seen)
        return cls(float(np.median(seen)), float(low), float(high), len(ratios), band)

    @classmethod
    def unknown(cls, band: Band, trouble: str) -> Ratio:
        """Nothing was measured."""
        return cls(math.nan, 0.0, math.inf, 0, band, trouble)

    def times(self, factor: float) -> Ratio:
        """The same in other units, its band too."""
        band = Band(self.band.low * factor, self.band.high * factor)
        return replace(self, median=factor * self.median, low=factor * self.low, high=factor * self.high, band=band)

    @property
    def answer(self) -> Answer:
        """Whether the band has it."""
        if self.trouble:
            return Answer.INCONCLUSIVE
        low, high = np.asarray(self.low), np.asarray(self.high)
        if self.band.holds(low, high):
            return Answer.INSIDE
        return Answer.OUTSIDE if self.band.excludes(low, high) else Answer.INCONCLUSIVE

    def __str__(self) -> str:
        if not self.pairs:
            return f"not measured: {self.trouble}"
        where = f"{self.median:.3g}, between {self.low:.3g} and {self.high:.3g} by {self.pairs} pairs"
        said = f"{where}, is {self.answer.value} for a band of {self.band}"
        return f"{said}: {self.trouble}" if self.trouble else said
