"""The intervals against scipy's distributions and against simulation, and what they see."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Float64
from scipy import stats

from properties import levels, statistics
from properties.levels import Level
from properties.statistics import ENOUGH, FALSE_ALARM, Cumulant, Interval

Values = Float64[np.ndarray, "values"]
SIMULATED = 20_000
ALARMS = (0.2, 0.01, 1e-3)
"""False alarms that a simulation can see."""


def numbers(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def share_outside(interval: Interval, values: Values) -> float:
    return float(np.mean([value not in interval for value in values]))


def assert_share(seen: float, probability: float) -> None:
    """A share among as many simulated values as there are, tested at one in a million."""
    count = round(seen * SIMULATED)
    low, high = stats.binom.ppf(5e-7, SIMULATED, probability), stats.binom.isf(5e-7, SIMULATED, probability)
    assert low <= count <= high, (seen, probability)


def assert_at_most(seen: float, probability: float) -> None:
    """The same where a theorem gives no more than a bound."""
    assert round(seen * SIMULATED) <= stats.binom.isf(1e-6, SIMULATED, probability), (seen, probability)


class TestIntervals:
    def test_both_ends_are_in_and_nan_is_not(self) -> None:
        interval = Interval(-1.0, 2.0)
        assert -1.0 in interval and 2.0 in interval
        assert -1.1 not in interval and 2.1 not in interval and math.nan not in interval

    def test_a_factor_and_the_exponential_move_both_ends(self) -> None:
        assert Interval(-1.0, 2.0) * 2 == Interval(-2.0, 4.0)
        assert Interval(0.0, 1.0).exp() == Interval(1.0, math.e)


class TestAlarm:
    @pytest.fixture(autouse=True)
    def level(self) -> Iterator[None]:
        before = levels.level()
        yield
        levels.load(before)

    def test_all_checks_of_a_run_share_one_false_alarm(self) -> None:
        levels.load(Level.DEFAULT)
        assert statistics.alarm(1) * 100 == pytest.approx(FALSE_ALARM / 2)
        assert statistics.alarm(4) * 4 == pytest.approx(statistics.alarm(1))
        assert statistics.alarm(1, cases=20) * 20 == pytest.approx(FALSE_ALARM / 2)

    def test_more_cases_leave_less_to_each(self) -> None:
        levels.load(Level.THOROUGH)
        assert statistics.alarm(1) * 2000 == pytest.approx(FALSE_ALARM / 2)
        levels.load(Level.QUICK)
        assert statistics.alarm(1) * 25 == pytest.approx(FALSE_ALARM / 2)
        assert statistics.alarm(1, cases=2) == pytest.approx(FALSE_ALARM / 2)

    def test_at_every_level_enough_numbers_show_five_percent(self) -> None:
        for each in Level:
            levels.load(each)
            assert statistics.observations_for(statistics.DEVIATION, statistics.alarm(20)) <= ENOUGH


@pytest.mark.parametrize("false_alarm", [0.1, 1e-3, 1e-9, 1e-13])
class TestAgainstScipy:
    @pytest.mark.parametrize("degrees", [1, 2, 7, 100, ENOUGH])
    def test_chi_square(self, degrees: int, false_alarm: float) -> None:
        interval = statistics.chi_square(degrees, false_alarm)
        assert stats.chi2.cdf(interval.low, degrees) == pytest.approx(false_alarm / 2, rel=1e-6)
        assert stats.chi2.sf(interval.high, degrees) == pytest.approx(false_alarm / 2, rel=1e-6)

    @pytest.mark.parametrize("degrees", [(1, 1), (3, 40), (40, 3), (ENOUGH, ENOUGH)])
    def test_variance_ratio(self, degrees: tuple[int, int], false_alarm: float) -> None:
        interval = statistics.variance_ratio(*degrees, false_alarm)
        assert stats.f.cdf(interval.low, *degrees) == pytest.approx(false_alarm / 2, rel=1e-3)
        assert stats.f.sf(interval.high, *degrees) == pytest.approx(false_alarm / 2, rel=1e-3)

    def test_normal_sum(self, false_alarm: float) -> None:
        interval = statistics.normal_sum(9, false_alarm)
        assert stats.norm.cdf(interval.low, scale=3) == pytest.approx(false_alarm / 2, rel=1e-9)
        assert interval.high == -interval.low

    @pytest.mark.parametrize("count", [1, 30, ENOUGH])
    def test_largest_of_normals(self, count: int, false_alarm: float) -> None:
        interval = statistics.largest_of_normals(count, false_alarm)
        above = 2 * stats.norm.sf(interval.high)
        assert -math.expm1(count * math.log1p(-above)) == pytest.approx(false_alarm / 2, rel=1e-6)
        within = math.log1p(-2 * stats.norm.sf(interval.low))
        assert math.exp(count * within) == pytest.approx(false_alarm / 2, rel=1e-6)

    def test_edge(self, false_alarm: float) -> None:
        assert (1 - statistics.edge(50, false_alarm)) ** 50 == pytest.approx(false_alarm, rel=1e-6)


EXACT: tuple[tuple[str, Callable[[float], Interval], Callable[[np.random.Generator], Values]], ...] = (
    ("sum", lambda a: statistics.normal_sum(5, a), lambda rng: rng.standard_normal((SIMULATED, 5)).sum(1)),
    ("squares", lambda a: statistics.chi_square(5, a), lambda rng: (rng.standard_normal((SIMULATED, 5)) ** 2).sum(1)),
    (
        "ratio",
        lambda a: statistics.variance_ratio(3, 8, a),
        lambda rng: rng.chisquare(3, SIMULATED) / 3 / (rng.chisquare(8, SIMULATED) / 8),
    ),
    (
        "largest",
        lambda a: statistics.largest_of_normals(20, a),
        lambda rng: abs(rng.standard_normal((SIMULATED, 20))).max(1),
    ),
    (
        "edge",
        lambda a: Interval(1 - statistics.edge(20, a), 1.0),
        lambda rng: abs(rng.uniform(-1, 1, (SIMULATED, 20))).max(1),
    ),
)


@pytest.mark.parametrize("false_alarm", ALARMS)
@pytest.mark.parametrize(("name", "interval", "simulated"), EXACT, ids=[name for name, _, _ in EXACT])
def test_an_exact_interval_has_the_false_alarm_that_it_states(
    name: str,
    interval: Callable[[float], Interval],
    simulated: Callable[[np.random.Generator], Values],
    false_alarm: float,
) -> None:
    assert_share(share_outside(interval(false_alarm), simulated(numbers())), false_alarm)


WEIGHTS = np.array([3.0, 2.0, *np.linspace(0.0, 1.5, 58)])


def rectified(rng: np.random.Generator, shape: tuple[int, ...]) -> Float64[np.ndarray, "..."]:
    found: Float64[np.ndarray, "..."] = np.maximum(0, rng.standard_normal(shape)) ** 2
    return found


def logs_of_living(rng: np.random.Generator, width: int, layers: int) -> Values:
    """Sums over layers of the logarithm of a sum of rectified squares, of those that are not zero."""
    sums = rectified(rng, (2 * SIMULATED * layers, width)).sum(1)
    alive = np.log(sums[sums > 0])[: SIMULATED * layers]
    found: Values = alive.reshape(SIMULATED, layers).sum(1)
    return found


BOUNDED: tuple[tuple[str, Callable[[float], Interval], Callable[[np.random.Generator], Values]], ...] = (
    (
        "rectified squares",
        lambda a: statistics.chernoff(statistics.rectified_square, 12, a),
        lambda rng: rectified(rng, (SIMULATED, 12)).sum(1),
    ),
    (
        "noncentral chi-square",
        lambda a: statistics.chernoff(statistics.noncentral_chi_square(4, 2.0), 3, a),
        lambda rng: rng.noncentral_chisquare(4, 2.0, (SIMULATED, 3)).sum(1),
    ),
    (
        "logarithms of chi-squares",
        lambda a: statistics.chernoff(statistics.log_chi_square(6), 5, a),
        lambda rng: np.log(rng.chisquare(6, (SIMULATED, 5))).sum(1),
    ),
    (
        "logarithms of rectified squares",
        lambda a: statistics.chernoff(statistics.log_rectified(8), 4, a),
        lambda rng: logs_of_living(rng, 8, 4),
    ),
    (
        "weighted squares",
        lambda a: statistics.weighted_chi_square(float(WEIGHTS.sum()), float((WEIGHTS**2).sum()), 3.0, a),
        lambda rng: rng.standard_normal((SIMULATED, 60)) ** 2 @ WEIGHTS,
    ),
    (
        "squares of uniform numbers",
        lambda a: statistics.bounded_sum(30, 1 / 3, 4 / 45, 2 / 3, a),
        lambda rng: (rng.uniform(-1, 1, (SIMULATED, 30)) ** 2).sum(1),
    ),
)


@pytest.mark.parametrize("false_alarm", ALARMS)
@pytest.mark.parametrize(("name", "interval", "simulated"), BOUNDED, ids=[name for name, _, _ in BOUNDED])
def test_a_bound_is_not_exceeded_more_often_than_it_states(
    name: str,
    interval: Callable[[float], Interval],
    simulated: Callable[[np.random.Generator], Values],
    false_alarm: float,
) -> None:
    assert_at_most(share_outside(interval(false_alarm), simulated(numbers())), false_alarm)


@pytest.mark.parametrize(("name", "interval", "simulated"), BOUNDED, ids=[name for name, _, _ in BOUNDED])
def test_a_bound_is_no_wider_than_it_has_to_be(
    name: str, interval: Callable[[float], Interval], simulated: Callable[[np.random.Generator], Values]
) -> None:
    """Where it states one in a thousand, its ends are within three times of where that share really ends."""
    values, bound = simulated(numbers()), interval(1e-3)
    middle = np.median(values)
    for end, share in ((bound.low, 5e-4), (bound.high, 1 - 5e-4)):
        assert abs(end - middle) <= 3 * abs(np.quantile(values, share) - middle)


CUMULANTS: tuple[tuple[str, Cumulant, Callable[[np.random.Generator], Values]], ...] = (
    ("rectified square", statistics.rectified_square, lambda rng: rectified(rng, (10**6,))),
    ("noncentral", statistics.noncentral_chi_square(5, 1.5), lambda rng: rng.noncentral_chisquare(5, 1.5, 10**6)),
    ("log chi-square", statistics.log_chi_square(7), lambda rng: np.log(rng.chisquare(7, 10**6))),
    ("log rectified", statistics.log_rectified(6), lambda rng: logs_of_living(rng, 6, 1)),
)


@pytest.mark.parametrize(("name", "cumulant", "simulated"), CUMULANTS, ids=[name for name, _, _ in CUMULANTS])
@pytest.mark.parametrize("tilt", [-0.2, -0.1, 0.05, 0.1])
def test_a_cumulant_is_the_logarithm_of_a_mean(
    name: str, cumulant: Cumulant, simulated: Callable[[np.random.Generator], Values], tilt: float
) -> None:
    seen = math.log(np.exp(tilt * simulated(numbers())).mean())
    assert cumulant(np.array([tilt]))[0] == pytest.approx(seen, abs=0.02)


@pytest.mark.parametrize("width", [1, 2, 16, 256])
def test_the_mean_logarithm_is_the_slope_of_its_cumulant(width: int) -> None:
    step = 1e-5
    low, high = statistics.log_rectified(width)(np.array([-step, step]))
    assert statistics.mean_log_rectified(width) == pytest.approx((high - low) / (2 * step), abs=1e-4)


class TestDistances:
    @given(st.lists(st.floats(-3, 3), min_size=1, max_size=40))
    def test_the_distance_is_scipys(self, values: list[float]) -> None:
        expected = stats.kstest(values, stats.norm.cdf).statistic
        assert statistics.distance(np.array(values), statistics.normal_distribution) == pytest.approx(expected)

    @pytest.mark.parametrize("false_alarm", ALARMS)
    def test_it_exceeds_its_bound_no_more_often_than_that_states(self, false_alarm: float) -> None:
        bound = statistics.distance_bound(40, false_alarm)
        drawn = numbers().standard_normal((SIMULATED, 40))
        far = [statistics.distance(row, statistics.normal_distribution) > bound for row in drawn]
        assert_at_most(float(np.mean(far)), false_alarm)

    def test_uniform_numbers_of_the_same_variance_are_further_from_normal_ones(self) -> None:
        values = numbers().uniform(-math.sqrt(3), math.sqrt(3), 4096)
        bound = statistics.distance_bound(4096, statistics.alarm(5))
        assert statistics.distance(values, statistics.normal_distribution) > 0.9 * bound


class TestDetection:
    @pytest.mark.parametrize("ratio", [0.8, 1.0, 1.3])
    def test_it_is_the_share_outside(self, ratio: float) -> None:
        squares = ratio * numbers().chisquare(200, SIMULATED)
        assert_share(share_outside(statistics.chi_square(200, 0.01), squares), statistics.detection(200, ratio, 0.01))

    def test_without_a_deviation_it_is_the_false_alarm(self) -> None:
        assert statistics.detection(500, 1.0, 1e-6) == pytest.approx(1e-6, rel=1e-3)

    def test_so_many_observations_are_enough_and_one_less_is_not(self) -> None:
        count = statistics.observations_for(0.05, 1e-9)
        assert count == pytest.approx(70_000, rel=0.05)
        for observations, enough in ((count, True), (count - 1, False)):
            least = min(statistics.detection(observations, ratio, 1e-9) for ratio in (0.95, 1.05))
            assert (least >= statistics.POWER) == enough

    @pytest.mark.parametrize("ratio", [0.95, 1.05])
    def test_five_percent_are_seen_with_the_stated_power(self, ratio: float) -> None:
        seen = share_outside(
            statistics.chi_square(ENOUGH, statistics.alarm(20)), ratio * numbers().chisquare(ENOUGH, SIMULATED)
        )
        assert seen >= statistics.POWER
