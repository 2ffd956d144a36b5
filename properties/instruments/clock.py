"""How long one piece of work takes beside another, on a machine that others use too.

Two pieces of work take turns, pair after pair, and every pair gives a ratio; what slows the machine for longer than a
pair takes slows both. On a CPU the clock is the thread's own, which stands still while others run, and torch has one
thread; on a GPU events on the stream say when the device began and ended. More pairs are made until the ratio is known
to lie inside or outside a band, or the time for it is spent.

Not seen: work that other threads do, and on a GPU what happens on other streams. Absolute times are those of one
machine in one hour; compare them with nothing.
"""

from __future__ import annotations

import gc
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any, Protocol, runtime_checkable

import torch

from properties.hygiene import precisions_kept
from properties.ratios import LOOKS, Answer, Band, Ratio

TICKS = 200
"""A measured time is at least so many of the clock's smallest steps."""


@runtime_checkable
class Timer(Protocol):
    """A clock for work of one kind."""

    @property
    def shortest(self) -> float:
        """Seconds that a measured time is to have at least."""

    @property
    def warm_up(self) -> float:
        """Seconds of real work after which the machine is in the state in which it is measured."""

    @property
    def budget(self) -> float:
        """Seconds that a comparison may measure, unless it is given another budget."""

    def measure(self, schedule: Sequence[tuple[Work, int]]) -> list[float]:
        """Seconds of each piece of work, done so many times over, one after the other."""


@dataclass(frozen=True)
class Work:
    """Something to time: ``run`` is timed, on what ``prepare`` gives each time, which is not."""

    run: Callable[[Any], object]
    prepare: Callable[[], Any]
    timer: Timer


# ── clocks ──


@dataclass(frozen=True)
class HostTimer:
    """A clock of the host: ``read`` gives seconds."""

    read: Callable[[], float]
    warm_up: float = 0.002
    budget: float = 4.0

    @property
    def shortest(self) -> float:
        """By the clock's steps, and at least so long that the call of the clock itself does not count."""
        return max(1e-4, TICKS * tick(self.read))

    def measure(self, schedule: Sequence[tuple[Work, int]]) -> list[float]:
        """One after the other; nothing is prepared while the clock runs."""
        return [self._one(work, times) for work, times in schedule]

    def _one(self, work: Work, times: int) -> float:
        run, prepared = work.run, [work.prepare() for _ in range(times)]
        started = self.read()
        for each in prepared:
            run(each)
        return self.read() - started


@cache
def tick(read: Callable[[], float]) -> float:
    """The smallest step that a clock was seen to make, which need not be what it says of itself."""
    return min(_step(read) for _ in range(5))


def _step(read: Callable[[], float]) -> float:
    before = read()
    while (now := read()) == before:
        pass
    return now - before


@dataclass(frozen=True)
class EventTimer:
    """The device's own clock: events before and after the work, in the order of the current stream.

    The host only queues the work, far ahead of the device; a piece has to take the device longer than its launches take
    the host. What fills a large card takes a small one a tenth of a second: the budget is for that.
    """

    warm_up: float = 0.5
    budget: float = 12.0
    shortest: float = TICKS * 0.5e-6

    def measure(self, schedule: Sequence[tuple[Work, int]]) -> list[float]:
        """All queued, and then waited for."""
        marks = []
        for work, times in schedule:
            prepared = [work.prepare() for _ in range(times)]
            started, ended = _event(), _event()
            started.record()
            for each in prepared:
                work.run(each)
            ended.record()
            marks.append((started, ended))
        torch.cuda.synchronize()
        return [started.elapsed_time(ended) / 1000 for started, ended in marks]


def _event() -> Any:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


THREAD = HostTimer(time.thread_time)
"""Seconds that this thread was on a processor, in torch and in the system."""
WALL = HostTimer(time.perf_counter, warm_up=0.1)
"""Seconds that passed, for what the host has to wait for."""
DEVICE = EventTimer()
"""Seconds that the CUDA device took."""


def timer_of(device: str) -> Timer:
    """The clock for work on a device."""
    return DEVICE if torch.device(device).type == "cuda" else THREAD


# ── comparisons ──


def compare(first: Work, second: Work, band: Band, budget: float | None = None) -> Ratio:
    """How many times as long ``first`` takes as ``second``, as far as it has to be known for ``band``.

    They take turns at going first. Raises ValueError where they are on different clocks.
    """
    timer = first.timer
    if timer is not second.timer:
        raise ValueError("two pieces of work on different clocks have no ratio; put both on one")
    budget = timer.budget if budget is None else budget
    if trouble := _too_coarse(timer, budget, works=2):
        return Ratio.unknown(band, trouble)
    with _undisturbed():
        _warm(timer, first, second)
        turns = [(work, _repeats(work)) for work in (first, second)]
        scale = turns[1][1] / turns[0][1]

        def pairs(count: int) -> tuple[list[float], float]:
            schedule = [turn for place in range(count) for turn in (turns if place % 2 == 0 else turns[::-1])]
            seconds = timer.measure(schedule)
            couples = [seconds[start : start + 2] for start in range(0, len(seconds), 2)]
            couples[1::2] = [couple[::-1] for couple in couples[1::2]]
            return [scale * one / other if other else math.inf for one, other in couples], sum(seconds)

        return _decide(pairs, band, budget)


def share(seconds: float | Fraction, work: Work, band: Band, budget: float | None = None) -> Ratio:
    """The share that ``seconds``, in which a perfect machine would do it, are of the time that ``work`` takes."""
    budget = work.timer.budget if budget is None else budget
    if trouble := _too_coarse(work.timer, budget, works=1):
        return Ratio.unknown(band, trouble)
    with _undisturbed():
        _warm(work.timer, work)
        count = _repeats(work)

        def times(wanted: int) -> tuple[list[float], float]:
            taken = work.timer.measure([(work, count)] * wanted)
            return [float(seconds) * count / each if each else math.inf for each in taken], sum(taken)

        return _decide(times, band, budget)


def seconds_of(work: Work) -> float:
    """About how long a piece of work takes, once warm; to choose sizes by, and to compare with nothing."""
    with _undisturbed():
        _warm(work.timer, work)
        count = _repeats(work)
        return statistics.median(work.timer.measure([(work, count)] * 5)) / count


def _decide(draw: Callable[[int], tuple[list[float], float]], band: Band, budget: float) -> Ratio:
    """Draw ratios, with the seconds that they took, from look to look, while there is time for another.

    What is found outside the band has to be found there again, by as many later pairs alone: what lasts for a while, as
    a slow start does, is not taken for the ratio. There is always time for that.
    """
    _, cost = draw(1)
    ratios: list[float] = []
    seen = Ratio.unknown(band, f"{LOOKS[0]} pairs of {cost:.2g} s take more than the {budget:g} s that there are")
    spent = 0.0
    for wanted in LOOKS:
        more = wanted - len(ratios)
        if spent + more * cost > budget:
            break
        new, taken = draw(more) if more else ([], 0.0)
        ratios, spent = [*ratios, *new], spent + taken
        cost = spent / len(ratios)
        seen = Ratio.of(ratios, band)
        if seen.answer is Answer.INSIDE:
            break
        if seen.answer is Answer.OUTSIDE:
            later, taken = draw(wanted)
            ratios, spent = [*ratios, *later], spent + taken
            if Ratio.of(later, band).answer is Answer.OUTSIDE:
                return Ratio.of(ratios, band)
            seen = replace(Ratio.of(ratios, band), trouble="it was outside at first, and was not again")
    return seen


def _too_coarse(timer: Timer, budget: float, works: int) -> str:
    """Why a clock is too coarse for a budget; nothing where it is fine enough."""
    least = LOOKS[0] * works * timer.shortest
    return f"the clock is read well from {timer.shortest:.2g} s up, too long for {budget:g} s" if least > budget else ""


def _warm(timer: Timer, *works: Work) -> None:
    """Do the work, once at least, until the machine is in the state in which it is measured."""
    ready = time.perf_counter() + timer.warm_up
    timer.measure([(each, 1) for each in works])
    while time.perf_counter() < ready:
        timer.measure([(each, 1) for each in works])


def _repeats(work: Work) -> int:
    """How often to repeat a piece of work for the clock to read its time well.

    The shorter of two times is taken, since what else happens on the machine makes them longer.
    """
    count, shortest = 1, work.timer.shortest
    while (taken := min(work.timer.measure([(work, count)] * 2))) < shortest:
        count = math.ceil(count * min(10.0, 1.2 * shortest / taken if taken else 10.0)) + 1
    return count


@contextmanager
def _undisturbed() -> Iterator[None]:
    """One thread, no garbage collection, and nothing that traces, all as before afterwards."""
    threads, tracing, collecting = torch.get_num_threads(), sys.gettrace(), gc.isenabled()
    if threads != 1:
        torch.set_num_threads(1)
    gc.disable()
    sys.settrace(None)
    try:
        with precisions_kept():
            yield
    finally:
        sys.settrace(tracing)
        if collecting:
            gc.enable()
        if threads != 1:
            torch.set_num_threads(threads)
