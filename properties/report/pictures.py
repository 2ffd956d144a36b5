"""What a picture is, and which pictures a claim has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from properties.report.drawing import Drawing
from properties.report.languages import Phrase

if TYPE_CHECKING:
    from markupsafe import Markup


@dataclass(frozen=True)
class Table:
    """Numbers that a picture shows, for those who would rather read them."""

    head: tuple[Phrase, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Picture:
    """A drawing, what it is of, and what is to be seen in it.

    ``table`` is None where the numbers are the claim's evidence, which stands on the page in any case.
    """

    title: Phrase
    tells: Phrase
    drawing: Drawing
    table: Table | None = None

    def markup(self, described_by: str) -> Markup:
        """The drawing as SVG; what it holds of a record is escaped in it. ``described_by`` is its caption's id."""
        from markupsafe import Markup

        return Markup(self.drawing.markup(self.title, described_by))


Draw = Callable[[], Picture]


def labels_apart(places: Sequence[float], least: float) -> list[float]:
    """Places for labels that would overlap: in the same order, near where they belong, at least ``least`` apart."""
    order = sorted(range(len(places)), key=lambda each: places[each])
    moved = list(places)
    for before, after in zip(order, order[1:], strict=False):
        moved[after] = max(moved[after], moved[before] + least)
    return moved
