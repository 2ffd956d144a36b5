"""Strategies made once and kept: making one costs as much as drawing from it several times."""

from functools import cache
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy


@cache
def between(low: int, high: int) -> SearchStrategy[int]:
    """Integers from ``low`` to ``high``, both included."""
    return st.integers(low, high)


def any_of(values: tuple[Any, ...]) -> SearchStrategy[Any]:
    """One of ``values``, the first the simplest; a value that stands there twice is drawn twice as often."""
    # By how they are written, since (False, True) equals (0, 1) and would be answered with its integers.
    written = repr(values)
    kept = _kept.get(written)
    if kept is None:
        kept = _kept[written] = st.sampled_from(values)
    return kept


_kept: dict[str, SearchStrategy[Any]] = {}
