"""Drawing from a strategy outside of a property, to see what it reaches and what it shrinks to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from hypothesis import HealthCheck, Phase, find, given, seed, settings
from hypothesis.strategies import SearchStrategy

Drawn = TypeVar("Drawn")
QUIET = settings(database=None, deadline=None, suppress_health_check=list(HealthCheck))


def drawn(strategy: SearchStrategy[Drawn], number: int = 300) -> list[Drawn]:
    """``number`` draws with a fixed seed."""
    found: list[Drawn] = []

    @seed(0)
    @settings(QUIET, max_examples=number, phases=[Phase.generate])
    @given(strategy)
    def draw(value: Drawn) -> None:
        found.append(value)

    draw()
    return found


def share(cases: Sequence[Drawn], condition: Callable[[Drawn], object]) -> float:
    """The share of ``cases`` that fulfil a condition."""
    return sum(bool(condition(case)) for case in cases) / len(cases)


def smallest(strategy: SearchStrategy[Drawn], condition: Callable[[Drawn], object]) -> Drawn:
    """What the strategy shrinks to among the cases that fulfil a condition."""
    return find(strategy, lambda case: bool(condition(case)), settings=settings(QUIET, derandomize=True))
