"""What a property saw: the words a property speaks in, and the collector that counts behind them.

Outside a run the words still work: ``when`` returns its condition, ``every`` and ``observe`` still assert. So a property
called by hand, or pasted into a prompt, behaves as it does in a run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

from hypothesis.errors import UnsatisfiedAssumption

from properties.distinct import fingerprint
from properties.strategies.description import source

LOOSE = 10.0
"""A bound never approached within this factor is reported as loose."""
SAMPLE = 24
"""Observations kept for each label, beside the worst."""


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

    Pinned examples count neither as passed, nor as distinct, nor as a side; an outside case that is shown to fail counts
    wherever it comes from.
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
    scopes: list[str] = field(default_factory=list)
    observations: dict[str, list[Observation]] = field(default_factory=dict)
    worst: dict[str, Observation] = field(default_factory=dict)
    failing: dict[str, object] | None = None
    stopped: bool = False
    _sides: set[bool] = field(default_factory=set)
    _case: Mapping[str, object] = field(default_factory=dict)

    def counting(self, inner: Callable[..., None]) -> Callable[..., None]:
        """``inner`` with its cases counted; the first failure ends the counting, the last one is kept as data."""

        def case(*args: object, **kwargs: object) -> None:
            self._sides.clear()
            self._case = kwargs
            try:
                inner(*args, **kwargs)
            except UnsatisfiedAssumption:
                raise
            except Exception:
                self.failing = kwargs
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
    return side


def may_fail(outcome: Any) -> None:
    """Note whether a case outside the condition fails; at least one must be shown to."""
    if _current is None or _current.stopped:
        return
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
    that fails, and ValueError where the scope does not have its size.
    """
    results = outcome if isinstance(outcome, Sequence) else _listed(outcome)
    count = len(results)
    if count != size:
        raise ValueError(f"{scope}: {count} cases were checked, {size} were to be")
    if _current is not None:
        _current.points += count
        if scope not in _current.scopes:
            _current.scopes.append(scope)
        if inside is not None:
            _current.when_used = True
            sides = [bool(side) for side in _listed(inside)]
            _current.inside += sum(sides)
            _current.outside += len(sides) - sum(sides)
    first = next((index for index, good in enumerate(results) if not good), None)
    if first is not None:
        case = _nth(cases, first)
        if _current is not None:
            _current.failing = {"case": case}
        failures = sum(not good for good in results)
        raise AssertionError(f"{scope}: {failures} of {count} fail, first {case!r}")


def _listed(values: Iterable[Any]) -> list[Any]:
    to_list = getattr(values, "tolist", None)
    if to_list is not None:
        flat = to_list()
        return flat if isinstance(flat, list) else [flat]
    return list(values)


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
    beyond ``bound``; without one the number is only recorded. ``by`` names the closed form that predicted it.
    """
    difference = abs(float(rule) - float(exact)) if rule != exact else 0.0
    error = difference / abs(float(exact)) if exact else (0.0 if rule == exact else math.inf)
    limit = None if bound is None else float(bound)
    seen = Observation(
        label, float(rule), float(exact), limit, error, unit, _where(where), None if by is None else by.__qualname__
    )
    if _current is not None and not _current.stopped:
        kept = _current.observations.setdefault(label, [])
        if len(kept) < SAMPLE:
            kept.append(seen)
        worst = _current.worst.get(label)
        if worst is None or error > worst.error:
            _current.worst[label] = seen
    if limit is not None and not error <= limit:
        raise AssertionError(f"{label or 'rule'} {rule} {unit} against {exact}: error {error:.3g} exceeds {limit:.3g}")


def _where(where: object) -> Mapping[str, object]:
    if where is None:
        return {}
    if isinstance(where, Mapping):
        return where
    return {"case": source(where)}
