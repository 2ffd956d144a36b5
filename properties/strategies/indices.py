"""What stands between the brackets of ``x[...]``: basic indices, and indices that pick."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from properties.strategies.description import Description
from properties.strategies.draws import any_of, between
from properties.strategies.layouts import LONGER, SIZES, Layout, draw_layout, draw_shape
from reference.strided import Shape


@dataclass(frozen=True, repr=False)
class Span(Description):
    """A slice, as a value."""

    start: int | None = None
    stop: int | None = None
    step: int | None = None


@dataclass(frozen=True, repr=False)
class Picks(Description):
    """A list of integers as an index."""

    places: tuple[int, ...]


@dataclass(frozen=True, repr=False)
class Mask(Description):
    """A list of booleans as an index."""

    chosen: tuple[bool, ...]


@dataclass(frozen=True, repr=False)
class Index(Description):
    """What stands between the brackets: integers, spans, None, an ellipsis, picks and masks."""

    items: tuple[Any, ...]

    def build(self) -> tuple[Any, ...]:
        """The index, for a tensor or for an array."""
        return tuple(map(_between_brackets, self.items))

    @property
    def is_basic(self) -> bool:
        """Whether it names integers, slices, None and Ellipsis only."""
        return not any(isinstance(item, Picks | Mask) for item in self.items)


def _between_brackets(item: object) -> object:
    if isinstance(item, Span):
        return slice(item.start, item.stop, item.step)
    if isinstance(item, Picks):
        return list(item.places)
    if isinstance(item, Mask):
        return list(item.chosen)
    return item


def _draw_basic_item(draw: DrawFn, size: int) -> object:
    if size and draw(any_of((True, False, False))):
        return draw(between(-size, size - 1))
    start, stop = draw(any_of((None, 0, 1, -2))), draw(any_of((None, size, -1, 2)))
    return Span(start, stop, draw(any_of((None, 2))))


def _draw_basic_items(draw: DrawFn, shape: Shape) -> list[object]:
    named = draw(between(0, len(shape)))
    items = [_draw_basic_item(draw, size) for size in shape[:named]]
    if draw(any_of((False, True))):
        items.insert(draw(between(0, len(items))), None)
    return items


@st.composite
def basic_indices(draw: DrawFn) -> tuple[Layout, Index]:
    """A layout and a basic index of it: integers, slices, None and Ellipsis."""
    layout, x = draw_layout(draw, SIZES, (0, 1))
    items = _draw_basic_items(draw, x.shape)
    if draw(any_of((False, True))):
        items.append(Ellipsis)
    return layout, Index(tuple(items))


@st.composite
def picking_indices(draw: DrawFn) -> tuple[Layout, Index]:
    """A layout and an index of it with a list of integers or a boolean mask in it."""
    layout = Layout((draw(any_of(LONGER)), *draw_shape(draw, SIZES)))
    size = layout.shape[0]
    if draw(any_of((True, False))):
        length = draw(between(1, 4))
        picked: object = Picks(tuple(draw(between(-size, size - 1)) for _ in range(length)))
    else:
        picked = Mask(tuple(draw(any_of((True, False))) for _ in range(size)))
    return layout, Index((picked, *_draw_basic_items(draw, layout.shape[1:])))
