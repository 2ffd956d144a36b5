"""The clock's answers on timings of every kind that a shared machine makes: never a false alarm, and seldom none.

Timings are made up, 2,000 claims at a time. A claim says that one piece of work takes twice as long as another, within
15 %; it is true at any place in that band, edges included, and false where the ratio is 30 % off.
"""

from __future__ import annotations

import gc
import math
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, repeat
from typing import Any

import numpy as np
import pytest
import torch
from jaxtyping import Float64

from properties.evidence import Evidence, Inconclusive, collecting, in_band, within_band
from properties.hygiene import Snapshot
from properties.instruments import clock
from properties.instruments.clock import DEVICE, THREAD, WALL, EventTimer, HostTimer, Work, compare, seconds_of, share
from properties.ratios import FALSE_ALARM, LOOKS, Answer, Band, Ratio, interval, rank

CLAIMS = 2000
BAND = Band(1.7, 2.3)
Times = Float64[np.ndarray, "claims pairs 2"]
Noise = Callable[[np.random.Generator, Times], Times]

# ── what a machine does to timings: each takes the times of both pieces of work of every pair, in seconds ──


def quiet(rng: np.random.Generator, times: Times) -> Times:
    """A few percent, on either side."""
    slower: Times = times * few_percent()
    return slower


@cache
def few_percent() -> Times:
    return np.random.default_rng(19).lognormal(0, 0.03, (CLAIMS, 2 * LOOKS[-1], 2))


def drifting(rng: np.random.Generator, times: Times) -> Times:
    """The machine gets slower and slower, by half within a look or two."""
    slower = np.exp(rng.uniform(-1.5, 1.5, (CLAIMS, 1, 1)) * np.linspace(0, 1, times.shape[1] * 2).reshape(1, -1, 2))
    return quiet(rng, times * slower)


def in_bursts(rng: np.random.Generator, times: Times) -> Times:
    """Every tenth pair, and the next five, run on a machine that is up to three times as slow."""
    starts = rng.random(times.shape[:2]) < 0.1
    busy = starts.copy()
    for later in range(1, 6):
        busy[:, later:] |= starts[:, :-later]
    return quiet(rng, times * np.where(busy[:, :, None], rng.uniform(1, 3, times.shape), 1))


def beside_another(rng: np.random.Generator, times: Times) -> Times:
    """A second process on the core takes its time slices out of two measurements in five."""
    return quiet(rng, times * np.where(rng.random(times.shape) < 0.4, 2.0, 1.0))


def bimodal(rng: np.random.Generator, times: Times) -> Times:
    """The processor's clock has two speeds, and changes between them as it likes, within pairs too."""
    return quiet(rng, times / np.where(rng.random(times.shape) < 0.5, 1.0, 1.4))


def quantised(rng: np.random.Generator, times: Times) -> Times:
    """The clock moves in steps of which the shorter time has a hundred and the longer two hundred."""
    step = 1 / 100
    return np.floor(quiet(rng, times) / step + rng.random(times.shape)) * step


def with_an_outlier(rng: np.random.Generator, times: Times) -> Times:
    """One time in all is a hundred times too long."""
    times = quiet(rng, times)
    pair, which = rng.integers(0, LOOKS[0], CLAIMS), rng.integers(0, 2, CLAIMS)
    times[np.arange(CLAIMS), pair, which] *= 100
    return times


def slow_to_warm_up(rng: np.random.Generator, times: Times) -> Times:
    """The first times of one of the two are up to five times as long."""
    cold = np.ones_like(times)
    cold[:, :, 0] += 4 * np.exp(-np.arange(times.shape[1]) / 4)
    return quiet(rng, times * cold)


NOISES = (quiet, drifting, in_bursts, beside_another, bimodal, quantised, with_an_outlier, slow_to_warm_up)


def answers(noise: Noise, ratios: float | Float64[np.ndarray, "claims 1"]) -> list[Answer]:
    """The first answer to each of 2,000 claims whose true ratio is given."""
    rng = np.random.default_rng(20)
    times = np.ones((CLAIMS, 2 * LOOKS[-1], 2))
    times[:, :, 0] *= ratios
    times = noise(rng, times)
    seen = times[:, :, 0] / times[:, :, 1]
    found = np.full(CLAIMS, Answer.INCONCLUSIVE, dtype=object)
    for pairs in LOOKS:
        still = np.flatnonzero(found == Answer.INCONCLUSIVE)
        first, later = interval(seen[still, :pairs]), interval(seen[still, pairs : 2 * pairs])
        found[still[BAND.holds(*first)]] = Answer.INSIDE
        found[still[BAND.excludes(*first) & BAND.excludes(*later)]] = Answer.OUTSIDE
    for claim in range(0, CLAIMS, CLAIMS // 20):
        assert decided(seen[claim]) == found[claim]
    return list(found)


def decided(ratios: Float64[np.ndarray, "pairs"]) -> Answer:
    """The answer that the clock itself comes to, if it measures these."""
    following = iter([1.0, *ratios])
    return clock._decide(lambda count: ([next(following) for _ in range(count)], 0.0), BAND, math.inf).answer


@pytest.mark.parametrize("noise", NOISES)
def test_a_true_claim_is_never_found_false(noise: Noise) -> None:
    anywhere = np.random.default_rng(21).uniform(BAND.low, BAND.high, (CLAIMS, 1))
    for ratios in (BAND.low, BAND.high, anywhere):
        assert answers(noise, ratios).count(Answer.OUTSIDE) == 0


@pytest.mark.parametrize("noise", NOISES)
def test_a_ratio_that_is_as_predicted_is_found_inside(noise: Noise) -> None:
    assert answers(noise, 2.0).count(Answer.INSIDE) >= 0.99 * CLAIMS


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("off", [0.7, 1.3])
def test_a_ratio_that_is_30_percent_off_is_detected(noise: Noise, off: float) -> None:
    assert answers(noise, 2.0 * off).count(Answer.OUTSIDE) >= 0.99 * CLAIMS


# ── the interval ──


@pytest.mark.parametrize("pairs", [*LOOKS, 40])
def test_order_statistics_are_taken_as_far_in_as_the_false_alarm_allows(pairs: int) -> None:
    allowed = FALSE_ALARM / len(LOOKS)
    below = [0.0, *accumulate(math.comb(pairs, count) / 2**pairs for count in range(pairs))]
    assert 2 * below[rank(pairs)] <= allowed < 2 * below[rank(pairs) + 1]


def test_fewer_pairs_than_34_say_nothing() -> None:
    with pytest.raises(ValueError, match="33 pairs say nothing at a false alarm of 1e-09: measure 34 or more"):
        interval(np.ones(33))


def test_an_interval_covers_the_median_of_any_distribution() -> None:
    rng = np.random.default_rng(22)
    low, high = interval(1 + rng.standard_cauchy((CLAIMS, LOOKS[1])))
    assert ((low <= 1) & (1 <= high)).all()


@pytest.mark.parametrize(("low", "high"), [(2.0, 1.0), (1.0, 1.0), (-1.0, 1.0), (math.nan, 1.0)])
def test_a_band_without_ratios_in_it_is_refused(low: float, high: float) -> None:
    with pytest.raises(ValueError, match="give the lower edge first, from 0 up"):
        Band(low, high)


def test_a_band_contains_its_edges() -> None:
    for ratios in ([1.7] * 34, [2.3] * 34):
        assert Ratio.of(ratios, BAND).answer is Answer.INSIDE
    assert Ratio.of([2.31] * 34, BAND).answer is Answer.OUTSIDE
    assert Ratio.of([1.69] * 34, BAND).answer is Answer.OUTSIDE
    assert Ratio.of([1.0] + [2.0] * 33, BAND).answer is Answer.INCONCLUSIVE


# ── whole comparisons, on a clock that is made up ──


@dataclass
class MadeUp:
    """A clock on which each piece of work takes what its ``run`` returns, times what ``slowness`` says next."""

    slowness: Any = field(default_factory=lambda: repeat(1.0))
    step: float = 0.0
    shortest: float = 1e-4
    warm_up: float = 0.0
    budget: float = 4.0
    measured: int = 0

    def measure(self, schedule: Sequence[tuple[Work, int]]) -> list[float]:
        self.measured += len(schedule)
        taken = [self._one(work, times) for work, times in schedule]
        slow = [seconds * next(self.slowness) for seconds in taken]
        return [math.floor(seconds / self.step) * self.step for seconds in slow] if self.step else slow

    @staticmethod
    def _one(work: Work, times: int) -> float:
        run: Callable[[Any], Any] = work.run
        return float(sum(run(work.prepare()) for _ in range(times)))


def lasting(seconds: float, timer: Any) -> Work:
    """A piece of work that takes so long on a made-up clock."""
    return Work(lambda _: seconds, lambda: None, timer)


def test_a_comparison_ends_as_soon_as_it_knows() -> None:
    timer = MadeUp()
    seen = compare(lasting(0.002, timer), lasting(0.001, timer), BAND)
    assert (seen.answer, seen.pairs, seen.median) == (Answer.INSIDE, LOOKS[0], 2.0)
    assert compare(lasting(0.003, timer), lasting(0.001, timer), BAND).answer is Answer.OUTSIDE
    assert compare(lasting(0.001, timer), lasting(0.002, timer), BAND).median == 0.5


def test_a_comparison_goes_on_while_it_does_not_know_and_stops_in_time() -> None:
    rng = np.random.default_rng(23)
    timer = MadeUp(iter(lambda: rng.lognormal(0, 0.15), None))
    seen = compare(lasting(0.002, timer), lasting(0.001, timer), BAND)
    assert seen.answer is Answer.INSIDE
    assert seen.pairs in LOOKS[1:]
    hurried = compare(lasting(0.002, timer), lasting(0.001, timer), BAND, budget=0.15)
    assert (hurried.answer, hurried.pairs) == (Answer.INCONCLUSIVE, LOOKS[0])


def test_a_hundred_comparisons_on_a_bad_day_raise_no_alarm_and_a_hundred_find_what_is_wrong() -> None:
    rng = np.random.default_rng(24)

    def weather() -> float:
        return float(rng.lognormal(0, 0.05) * (3 if rng.random() < 0.1 else 1) * (100 if rng.random() < 0.002 else 1))

    timer = MadeUp(iter(weather, None))
    for seconds, answer in ((0.002, Answer.INSIDE), (0.0026, Answer.OUTSIDE), (0.0014, Answer.OUTSIDE)):
        seen = [compare(lasting(seconds, timer), lasting(0.001, timer), BAND).answer for _ in range(100)]
        assert seen.count(answer) >= 99
        assert seen.count(Answer.INCONCLUSIVE) == 100 - seen.count(answer)


def test_what_is_too_short_for_the_clock_is_repeated_and_what_is_too_long_for_the_budget_is_not_measured() -> None:
    timer = MadeUp()
    assert compare(lasting(2e-7, timer), lasting(1e-7, timer), BAND).median == pytest.approx(2.0)
    slow = compare(lasting(1.0, timer), lasting(0.5, timer), BAND)
    assert (slow.pairs, slow.answer) == (0, Answer.INCONCLUSIVE)
    assert str(slow) == "not measured: 34 pairs of 1.5 s take more than the 4 s that there are"
    assert str(share(1.0, lasting(1.0, timer), BAND)).endswith("34 pairs of 1 s take more than the 4 s that there are")


def test_a_clock_of_coarse_steps_is_read_over_many_of_them_or_not_at_all() -> None:
    timer = MadeUp(step=1e-5, shortest=2e-3)
    assert compare(lasting(2e-6, timer), lasting(1e-6, timer), BAND).median == pytest.approx(2.0, rel=0.01)
    coarse = MadeUp(step=0.015625, shortest=200 * 0.015625)
    for seen in (compare(lasting(2e-6, coarse), lasting(1e-6, coarse), BAND), share(1.0, lasting(1e-6, coarse), BAND)):
        assert (seen.pairs, seen.answer) == (0, Answer.INCONCLUSIVE)
        assert "the clock is read well from 3.1 s up, too long for 4 s" in str(seen)
    assert coarse.measured == 0


def test_both_go_first_as_often() -> None:
    order: list[str] = []

    def run(name: str) -> float:
        order.append(name)
        return 1e-3

    timer = MadeUp()
    compare(Work(run, lambda: "a", timer), Work(run, lambda: "b", timer), Band(0.5, 2))
    assert "".join(order[-8:]) in ("abbaabba", "baabbaab")


def test_a_clock_that_slows_down_within_a_pair_favours_neither() -> None:
    timer = MadeUp(iter(np.exp(np.arange(5000) / 50)))
    seen = compare(lasting(0.002, timer), lasting(0.001, timer), BAND, budget=math.inf)
    assert seen.median == pytest.approx(2.0, rel=0.03)


def test_two_clocks_have_no_ratio() -> None:
    with pytest.raises(ValueError, match="put both on one"):
        compare(lasting(1.0, MadeUp()), lasting(1.0, MadeUp()), BAND)


def test_a_share_is_of_the_time_that_a_perfect_machine_takes() -> None:
    timer = MadeUp()
    seen = share(0.001, lasting(0.00125, timer), Band(0.5, 1.0))
    assert (seen.answer, seen.median) == (Answer.INSIDE, 0.8)
    assert share(0.001, lasting(0.0009, timer), Band(0.5, 1.0)).answer is Answer.OUTSIDE
    assert share(0.001, lasting(1e-7, timer), Band(0.5, 1.0)).answer is Answer.OUTSIDE


# ── real clocks ──


def spin(seconds: float) -> Callable[[Any], None]:
    """Work that keeps this thread on its processor for so long, by a clock that stands still while others run."""

    def work(_: Any) -> None:
        ends = time.thread_time() + seconds
        while time.thread_time() < ends:
            pass

    return work


def test_a_real_ratio_is_found_with_a_busy_thread_beside_it() -> None:
    ended = threading.Event()

    def be_busy() -> None:
        while not ended.is_set():
            sum(range(1000))

    busy = threading.Thread(target=be_busy)
    busy.start()
    try:
        works = [Work(spin(seconds), lambda: None, THREAD) for seconds in (2e-4, 1e-4)]
        seen = compare(works[0], works[1], BAND)
    finally:
        ended.set()
        busy.join()
    assert seen.answer is Answer.INSIDE


def test_only_what_is_run_is_timed() -> None:
    def slow_to_prepare() -> None:
        spin(1e-3)(None)

    assert 1e-4 <= seconds_of(Work(spin(1e-4), slow_to_prepare, THREAD)) < 1e-3
    assert seconds_of(Work(lambda _: time.sleep(0.002), lambda: None, WALL)) >= 0.002
    assert seconds_of(Work(lambda _: time.sleep(0.002), lambda: None, HostTimer(time.thread_time, 0.0))) < 0.002


def test_the_step_of_a_clock_is_what_it_does_and_not_what_it_says() -> None:
    moments = iter(np.repeat(np.arange(100) / 64, 3))
    coarse = HostTimer(lambda: float(next(moments)))
    assert coarse.shortest == clock.TICKS / 64
    assert THREAD.shortest < 0.01


def test_nothing_is_left_behind_and_nothing_looks_on() -> None:
    seen: list[tuple[Any, int, bool]] = []

    def look(_: Any) -> float:
        seen.append((sys.gettrace(), torch.get_num_threads(), gc.isenabled()))
        torch.backends.cuda.matmul.allow_tf32 = True
        return 1e-3

    def tracer(*_: Any) -> None:
        return None

    before, threads, tracing = Snapshot(), torch.get_num_threads(), sys.gettrace()
    timer = MadeUp()
    work = Work(look, lambda: None, timer)
    sys.settrace(tracer)
    torch.set_num_threads(2)
    try:
        compare(work, work, Band(0.5, 2))
        assert (sys.gettrace(), torch.get_num_threads(), gc.isenabled()) == (tracer, 2, True)
    finally:
        sys.settrace(tracing)
        torch.set_num_threads(threads)
    assert set(seen) == {(None, 1, False)}
    assert before.restore() == []


class Stream:
    """A CUDA stream that is made up: work takes the seconds that it says, and events read the stream's own time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waited = 0

    def take(self, seconds: float) -> None:
        self.now += seconds

    def synchronize(self) -> None:
        self.waited += 1

    def event(self, enable_timing: bool) -> Stream.Event:
        assert enable_timing
        return Stream.Event(self)

    class Event:
        def __init__(self, stream: Stream) -> None:
            self.stream = stream

        def record(self) -> None:
            self.at = self.stream.now

        def elapsed_time(self, later: Stream.Event) -> float:
            assert self.stream.waited
            return (later.at - self.at) * 1000


def test_a_device_is_timed_by_events_on_its_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream()
    monkeypatch.setattr(torch.cuda, "Event", stream.event)
    monkeypatch.setattr(torch.cuda, "synchronize", stream.synchronize)
    timer = EventTimer(warm_up=0.0)

    def taking(seconds: float) -> Work:
        return Work(lambda _: stream.take(seconds), lambda: stream.take(0.5), timer)

    seen = compare(taking(2e-3), taking(1e-3), BAND)
    assert seen.answer is Answer.INSIDE
    assert seen.median == pytest.approx(2.0)
    assert timer.measure([(taking(1e-3), 3)]) == [pytest.approx(3e-3)]


def test_each_device_has_its_clock() -> None:
    assert clock.timer_of("cpu") is THREAD
    assert clock.timer_of("cuda") is clock.timer_of("cuda:1") is DEVICE
    assert DEVICE.warm_up >= 0.5


# ── what a property says of it ──


def ratio(value: float) -> Ratio:
    return Ratio.of([value] * 34, BAND)


def test_a_ratio_in_its_band_is_noted_with_its_interval() -> None:
    with collecting(Evidence()) as evidence:
        assert in_band(ratio(2.1), rule=2, unit="times as long", label="doubled", where={"rows": 4})
        within_band(ratio(1.9), rule=2, label="doubled")
    worst = evidence.worst["doubled"]
    assert (worst.rule, worst.exact) == (2, 1.9)
    assert worst.error == pytest.approx(0.1 / 1.9)
    assert worst.bound == pytest.approx(0.3 / 1.7)
    first = evidence.observations["doubled"][0]
    assert first.where == {"rows": 4, "interval": "2.1 to 2.1", "pairs": 34, "band": "1.7 to 2.3"}
    assert evidence.repeats == 68


def test_a_ratio_outside_is_a_finding_that_names_what_was_predicted() -> None:
    assert not in_band(ratio(3.0))
    with pytest.raises(AssertionError, match=r"doubled 3, between 3 and 3 by 34 pairs, .* 1.7 to 2.3; 2 was predicted"):
        within_band(ratio(3.0), rule=2, label="doubled")


def test_a_ratio_across_an_edge_is_neither_and_says_how_noisy_it_was() -> None:
    noisy = Ratio.of([1.0] * 15 + [2.0] * 19, BAND)
    with pytest.raises(Inconclusive, match=r"2, between 1 and 2 by 34 pairs, is inconclusive for a band of 1.7 to 2.3"):
        within_band(noisy)
    with collecting(Evidence()) as evidence, pytest.raises(Inconclusive, match="twice: not measured: too slow"):
        in_band(Ratio.unknown(BAND, "too slow"), label="twice")
    assert not evidence.observations


@pytest.mark.parametrize(("band", "rule"), [(Band(10, math.inf), 10), (Band(0, 0.01), 0.01)])
def test_a_band_of_one_edge_is_noted_by_it_and_has_no_bound(band: Band, rule: float) -> None:
    with collecting(Evidence()) as evidence:
        in_band(Ratio.of([0.005] * 34, band))
        within = Ratio.of([band.low + 0.001] * 34, band)
        in_band(within)
    beyond, seen = evidence.observations[""]
    assert (beyond.rule, beyond.bound) == (seen.rule, seen.bound) == (rule, None)
    assert seen.error == 0
    assert beyond.error == (0 if band.low == 0 else pytest.approx(9.995 / 0.005))
    assert not evidence.closest


def test_a_band_is_shown_by_its_edges() -> None:
    assert [str(band) for band in (BAND, Band(10, math.inf), Band(0, 0.01))] == [
        "1.7 to 2.3",
        "10 and more",
        "0 to 0.01",
    ]
