"""What a property saw: the words a property speaks in, and the collector that counts behind them.

Outside a run the words still work: ``when`` returns its condition, ``every`` and ``observe`` still assert. So a
property called by hand, or pasted into a prompt, behaves as it does in a run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Rational, Real
from typing import Any

import numpy as np
import pytest
from hypothesis.errors import StopTest, UnsatisfiedAssumption

from properties.distinct import fingerprint
from properties.ratios import Answer, Ratio
from properties.strategies.description import source

LOOSE = 10.0
"""A bound never approached within this factor is reported as loose."""
SAMPLE = 24
"""Observations kept for each label, beside the worst."""
FINDINGS = (Exception, SystemExit, pytest.fail.Exception)
"""What Hypothesis takes for a failing case, and repeats."""


class Inconclusive(Exception):
    """A measurement too noisy to say anything; the message says how noisy."""


@dataclass
class Observation:
    """A number against the exact one."""

    label: str
    rule: float
    exact: float
    bound: float | None
    error: float
    unit: str
    where: Mapping[str, object]
    by: str | None


@dataclass
class Evidence:
    """Counts of one property in one run.

    Pinned examples count neither as passed, nor as distinct, nor as a side; an outside case that is shown to fail
    counts wherever it comes from.
    """

    seeds_count: bool = False
    pinned_to_come: int = 0
    passed: int = 0
    pinned: int = 0
    pinned_sides: set[bool] = field(default_factory=set)
    inside: int = 0
    outside: int = 0
    outside_failed: int = 0
    outside_example: str | None = None
    may_fail_used: bool = False
    when_used: bool = False
    distinct: set[object] = field(default_factory=set)
    points: int = 0
    repeats: int = 0
    scopes: list[str] = field(default_factory=list)
    observations: dict[str, list[Observation]] = field(default_factory=dict)
    worst: dict[str, Observation] = field(default_factory=dict)
    closest: dict[str, float] = field(default_factory=dict)
    failing: dict[str, object] | None = None
    raised: set[type[BaseException]] = field(default_factory=set)
    stopped: bool = False
    _sides: set[bool] = field(default_factory=set)
    _side: bool | None = None
    _generated: bool = False
    _case: Mapping[str, object] = field(default_factory=dict)

    def counting(self, inner: Callable[..., None]) -> Callable[..., None]:
        """``inner`` with its cases counted; the first failure ends the counting, the last one is kept as data."""

        self._generated = True

        def case(*args: object, **kwargs: object) -> None:
            self._sides.clear()
            self._side = None
            self._case = kwargs
            try:
                inner(*args, **kwargs)
            except (UnsatisfiedAssumption, StopTest):
                # A pinned example may be thrown away too, and the case after it is not pinned for that.
                self.pinned_to_come = max(0, self.pinned_to_come - 1)
                raise
            except FINDINGS as raised:
                self.failing = kwargs
                self.raised.add(type(raised))
                self.stopped = True
                raise
            if self.stopped:
                return
            if self.pinned_to_come:
                self.pinned_to_come -= 1
                self.pinned += 1
                self.pinned_sides |= self._sides
                return
            self.passed += 1
            self.distinct.add(fingerprint(kwargs, self.seeds_count))
            self.inside += True in self._sides
            self.outside += False in self._sides

        return case

    def note_sides(self, inside: int, outside: int) -> None:
        """Note the sides of a whole scope: its points, or within a generated case that it has both."""
        self.when_used = True
        if self._generated:
            self._sides |= {side for side, count in ((True, inside), (False, outside)) if count}
        else:
            self.inside += inside
            self.outside += outside

    def fold(self) -> None:
        """Count the sides of a property that has no generated cases."""
        self.inside += True in self._sides
        self.outside += False in self._sides
        self._sides.clear()


_current: Evidence | None = None


@contextmanager
def collecting(evidence: Evidence) -> Iterator[Evidence]:
    """Gather into ``evidence`` what properties say within."""
    global _current
    before, _current = _current, evidence
    try:
        yield evidence
    finally:
        _current = before


def when(condition: Any) -> bool:
    """Return ``condition``, and note on which side of it this case is."""
    side = bool(condition)
    if _current is not None:
        _current.when_used = True
        _current._sides.add(side)
        _current._side = side
    return side


def may_fail(outcome: Any) -> None:
    """Note whether a case outside the condition fails; at least one must be shown to.

    Raises ValueError where ``when`` has not just said that the case is outside: inside, nothing may fail.
    """
    if _current is None or _current.stopped:
        return
    if _current._side is not False:
        raise ValueError("may_fail() is for a case outside the condition: call it where when() was false")
    _current.may_fail_used = True
    if not outcome:
        _current.outside_failed += 1
        if _current.outside_example is None:
            _current.outside_example = ", ".join(f"{k}={v!r}" for k, v in _current._case.items()) or None


def every(
    scope: str,
    outcome: Iterable[Any],
    cases: Iterable[Any],
    *,
    size: int,
    inside: Iterable[Any] | None = None,
) -> None:
    """Check a whole finite scope at once.

    ``outcome`` and ``cases`` are aligned, simplest case first; ``size`` is how many there must be, computed in another
    way. ``inside`` says of each case on which side of the condition it is. Raises AssertionError naming the first case
    that fails, and ValueError where the scope is empty or does not have its size, where an outcome is no truth value
    (a row of a matrix, say, is true whatever it holds), or where the three are not aligned.
    """
    results = _truths(outcome, f"{scope}: the outcome")
    count = len(results)
    if count != size or not count:
        raise ValueError(f"{scope}: {count} cases were checked, {size or 'some'} were to be")
    if isinstance(cases, Sized) and len(cases) != count:
        raise ValueError(f"{scope}: {count} outcomes for {len(cases)} cases")
    sides = None if inside is None else _truths(inside, f"{scope}: the sides")
    if sides is not None and len(sides) != count:
        raise ValueError(f"{scope}: {count} outcomes for {len(sides)} sides")
    if _current is not None:
        _current.points += count
        if scope not in _current.scopes:
            _current.scopes.append(scope)
        if sides is not None:
            _current.note_sides(int(sides.sum()), int((~sides).sum()))
    if not results.all():
        case = _nth(cases, int(results.argmin()))
        if _current is not None:
            _current.failing = {"case": case}
        raise AssertionError(f"{scope}: {int((~results).sum())} of {count} fail, first {case!r}")


def _truths(values: Iterable[Any], what: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """A flat array of truth values; ValueError for anything else."""
    on_cpu = values.cpu() if hasattr(values, "cpu") else values
    truths = np.asarray(on_cpu if hasattr(on_cpu, "__array__") else list(on_cpu))
    if truths.ndim != 1 or (truths.dtype != np.bool_ and truths.size):
        raise ValueError(f"{what} has shape {truths.shape} and type {truths.dtype}; give one truth value a case")
    return truths.astype(np.bool_)


def _nth(values: Iterable[Any], index: int) -> Any:
    for position, value in enumerate(values):
        if position == index:
            item = getattr(value, "item", None)
            return item() if item is not None else value
    raise ValueError(f"the cases end before number {index}")


def observe(
    *,
    rule: Real | float,
    exact: Real | float,
    bound: Real | float | None = None,
    unit: str = "",
    where: object = None,
    label: str = "",
    by: Callable[..., Any] | None = None,
) -> None:
    """Note a number that a rule predicts beside the exact one, and hold it to a relative bound.

    The error is |rule - exact| / |exact|, and where the exact value is zero, zero or infinite. Raises AssertionError
    beyond ``bound``; without one the number is only recorded. ``by`` names the closed form that predicted it. Between
    integers and fractions the error is exact: 2**60 + 1 is not 2**60.
    """
    relative = _relative_error(rule, exact)
    error = float(relative)
    limit = None if bound is None else float(bound)
    seen = Observation(
        label,
        float(rule),
        float(exact),
        limit,
        error,
        unit,
        _where(where),
        None if by is None else by.__qualname__,
    )
    _keep(seen)
    if limit and _current is not None and not _current.stopped:
        _current.closest[label] = max(_current.closest.get(label, 0.0), error / limit)
    within = limit is None or (relative <= _fraction(bound) if isinstance(bound, Rational) else error <= limit)
    if not within:
        raise AssertionError(f"{label or 'rule'} {rule} {unit} against {exact}: error {error:.3g} exceeds {limit:.3g}")


def _keep(seen: Observation) -> None:
    if _current is None or _current.stopped:
        return
    kept = _current.observations.setdefault(seen.label, [])
    if len(kept) < SAMPLE:
        kept.append(seen)
    worst = _current.worst.get(seen.label)
    if worst is None or not seen.error <= worst.error:
        _current.worst[seen.label] = seen


def in_band(
    seen: Ratio, *, rule: Real | float | None = None, unit: str = "", where: object = None, label: str = ""
) -> bool:
    """Note a measured ratio beside the predicted one, and return whether it is in its band.

    Without a ``rule`` the edge of the band stands in its place, and beyond it, within the band, nothing is an error.
    Raises Inconclusive where the measurement does not say.
    """
    if _current is not None:
        _current.repeats += seen.pairs
    if seen.pairs:
        low, high = seen.band.low, seen.band.high
        predicted = float(rule) if rule is not None else low or high
        sided = low == 0 or math.isinf(high)
        bound = None if sided else max(abs(predicted - low) / low, abs(predicted - high) / high)
        meant = sided and rule is None and low <= seen.median <= high
        error = 0.0 if meant else float(_relative_error(predicted, seen.median))
        facts = {"interval": f"{seen.low:.4g} to {seen.high:.4g}", "pairs": seen.pairs, "band": str(seen.band)}
        told = {**_where(where), **facts}
        _keep(Observation(label, predicted, seen.median, bound, error, unit, told, None))
    if seen.answer is Answer.INCONCLUSIVE:
        raise Inconclusive(f"{label}: {seen}" if label else str(seen))
    return seen.answer is Answer.INSIDE


def within_band(
    seen: Ratio, *, rule: Real | float | None = None, unit: str = "", where: object = None, label: str = ""
) -> None:
    """Note a measured ratio as ``in_band`` does, and hold it to its band: AssertionError outside."""
    if not in_band(seen, rule=rule, unit=unit, where=where, label=label):
        predicted = "" if rule is None else f"; {float(rule):g} was predicted"
        raise AssertionError(f"{label or 'ratio'} {seen}{predicted}")


def _relative_error(rule: Any, exact: Any) -> Fraction | float:
    if isinstance(rule, Rational) and isinstance(exact, Rational):
        difference: Fraction | float = abs(_fraction(rule) - _fraction(exact))
        size: Fraction | float = abs(_fraction(exact))
    else:
        difference, size = abs(float(rule) - float(exact)) if rule != exact else 0.0, abs(float(exact))
    if not difference:
        return 0.0
    return difference / size if size else math.inf


def _fraction(value: Rational) -> Fraction:
    # Not of NumPy's integers, whose products wrap around.
    return Fraction(int(value.numerator), int(value.denominator))


def _where(where: object) -> Mapping[str, object]:
    if where is None:
        return {}
    if isinstance(where, Mapping):
        return where
    return {"case": source(where)}
