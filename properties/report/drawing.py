"""Pictures as SVG, drawn by hand: the same bytes for the same numbers, and colours that the page's style decides."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol
from xml.sax.saxutils import escape, quoteattr

from properties.report.languages import CHINESE, Phrase
from properties.report.visible import visible

WIDTH = 480
"""Units that a picture is wide: few enough that its text can still be read on a phone."""
SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

SHAPES: tuple[tuple[tuple[float, float], ...], ...] = (
    (),
    ((0, -4.6), (4.6, 0), (0, 4.6), (-4.6, 0)),
    ((-3.4, -3.4), (3.4, -3.4), (3.4, 3.4), (-3.4, 3.4)),
    ((0, -4.4), (4.4, 3.6), (-4.4, 3.6)),
    ((-4.4, -3.6), (4.4, -3.6), (0, 4.4)),
    (
        (-1.2, -4.4),
        (1.2, -4.4),
        (1.2, -1.2),
        (4.4, -1.2),
        (4.4, 1.2),
        (1.2, 1.2),
        (1.2, 4.4),
        (-1.2, 4.4),
        (-1.2, 1.2),
        (-4.4, 1.2),
        (-4.4, -1.2),
        (-1.2, -1.2),
    ),
)
"""Marks that can be told apart without colour: a dot, a diamond, a square, two triangles and a plus."""

Anchor = Literal["start", "middle", "end"]


def plain(value: float) -> str:
    """A coordinate to a tenth of a unit, in the fewest characters: ``12``, ``12.5``."""
    text = f"{value:.1f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


@dataclass
class Drawing:
    """An SVG picture under construction; the origin is at the top left."""

    height: float
    width: float = WIDTH
    parts: list[str] = field(default_factory=list)

    def line(self, x1: float, y1: float, x2: float, y2: float, style: str) -> None:
        """A straight line."""
        ends = f'x1="{plain(x1)}" y1="{plain(y1)}" x2="{plain(x2)}" y2="{plain(y2)}"'
        self.parts.append(f'<line class="{style}" {ends}/>')

    def path(self, points: Iterable[tuple[float, float]], style: str) -> None:
        """A line through these points."""
        steps = "L".join(f"{plain(x)} {plain(y)}" for x, y in points)
        self.parts.append(f'<path class="{style}" d="M{steps}"/>')

    def box(self, x: float, y: float, width: float, height: float, style: str, told: str = "") -> None:
        """A rectangle; ``told`` is what a pointer that rests on it reads."""
        where = f'x="{plain(x)}" y="{plain(y)}" width="{plain(width)}" height="{plain(height)}"'
        self.parts.append(_with_title(f'<rect class="{style}" {where}', told, "rect"))

    def mark(self, x: float, y: float, style: str, told: str = "", shape: int = 0) -> None:
        """A small filled mark; another shape for another number, six in all."""
        corners = SHAPES[shape % len(SHAPES)]
        if not corners:
            start = f'<circle class="{style}" cx="{plain(x)}" cy="{plain(y)}" r="3.5"'
            self.parts.append(_with_title(start, told, "circle"))
            return
        steps = "L".join(f"{plain(x + right)} {plain(y + down)}" for right, down in corners)
        self.parts.append(_with_title(f'<path class="{style}" d="M{steps}Z"', told, "path"))

    def text(self, x: float, y: float, said: Phrase | str, anchor: Anchor = "start", style: str = "") -> None:
        """A line of text, whose baseline begins, ends or has its middle there."""
        marked = f' class="{style}"' if style else ""
        placed = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self.parts.append(f'<text x="{plain(x)}" y="{plain(y)}"{placed}{marked}>{_both(said)}</text>')

    def markup(self, title: Phrase, described_by: str) -> str:
        """The whole picture. ``described_by`` is the id of the element that says in words what it shows."""
        head = f'<svg viewBox="0 0 {plain(self.width)} {plain(self.height)}" role="img"'
        naming = f"aria-labelledby={quoteattr(described_by)}"
        return f"{head} {naming}><title>{escape(visible(title.en))}</title>{''.join(self.parts)}</svg>"


def _with_title(start: str, told: str, tag: str) -> str:
    return f"{start}><title>{escape(visible(told))}</title></{tag}>" if told else f"{start}/>"


def _both(said: Phrase | str) -> str:
    if isinstance(said, str) or said.en == said.zh:
        return escape(visible(said if isinstance(said, str) else said.en))
    en, zh = escape(visible(said.en)), escape(visible(said.zh))
    return f'<tspan class="en">{en}</tspan><tspan lang="{CHINESE}">{zh}</tspan>'


# ── scales ──


class Scale(Protocol):
    """Where numbers stand along an axis, and which are written beside it."""

    def at(self, value: float) -> float:
        """The place of a number."""

    def ticks(self) -> list[tuple[float, str]]:
        """Numbers to mark, with how they are written."""


@dataclass(frozen=True)
class Linear:
    """Equal steps are equal differences; from ``low`` at ``start`` to ``high`` at ``end``."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """The place of a number."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> list[tuple[float, str]]:
        """Four to eight round numbers."""
        rough = (self.high - self.low) / 6
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * each for each in (1, 2, 5, 10) if power * each >= rough)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [(place * step, f"{place * step:.6g}") for place in range(first, last + 1)]


@dataclass(frozen=True)
class Logarithmic:
    """Equal steps are equal ratios; from ``low`` at ``start`` to ``high`` at ``end``, both above zero."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """The place of a number above zero."""
        low, high = math.log(self.low), math.log(self.high)  # differences of logarithms, since a ratio may overflow
        share = (math.log(value) - low) / (high - low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[tuple[float, str]]:
        """Powers of ten, not more than eight; of two within fewer than two powers of ten."""
        base = 10 if self.high / self.low >= 100 else 2
        first = math.ceil(math.log(self.low, base) - 1e-9)
        last = math.floor(math.log(self.high, base) + 1e-9)
        step = max(1, math.ceil((last - first + 1) / 8))
        first = math.ceil(first / step) * step
        return [(float(base) ** place, _power(base, place)) for place in range(first, last + 1, step)]


def _power(base: int, exponent: int) -> str:
    if base == 2 or -3 <= exponent <= 3:
        return f"{float(base) ** exponent:g}"
    return f"10{str(exponent).translate(SUPERSCRIPT)}"


WIDEST_RATIO = 1e100
"""Beyond this a scale of ratios, with its margins, would leave what a float can hold; what is so far apart is drawn by
differences."""


def fitted(values: Sequence[float], start: float, end: float, apart: float = 20) -> Scale:
    """A scale that shows all of these: of ratios where the largest is ``apart`` times the least, else of differences.

    With no two numbers apart it shows the neighbourhood of the one there is.
    """
    low, high = min(values), max(values)
    if low > 0 and apart <= high / low <= WIDEST_RATIO:
        margin = (high / low) ** 0.03
        return Logarithmic(low / margin, high * margin, start, end)
    spread = high - low or abs(high) or 1.0
    return Linear(low - 0.06 * spread, high + 0.06 * spread, start, end)


# ── charts ──

LEFT, RIGHT, TOP, BOTTOM = 62, 14, 28, 44
"""What is left around the plotted area for what is written beside it."""


@dataclass
class Chart:
    """A picture with two axes."""

    drawing: Drawing
    x: Scale
    y: Scale

    @classmethod
    def over(cls, xs: Sequence[float], ys: Sequence[float], height: float = 260, apart: float = 20) -> Chart:
        """A chart that shows all of these; ``apart`` as in ``fitted``."""
        x = fitted(xs, LEFT, WIDTH - RIGHT, apart)
        return cls(Drawing(height), x, fitted(ys, height - BOTTOM, TOP, apart))

    def axes(self, x_name: Phrase, y_name: Phrase) -> None:
        """Grid, numbers and names of both axes."""
        picture, floor = self.drawing, self.drawing.height - BOTTOM
        for value, written in self.y.ticks():
            place = self.y.at(value)
            picture.line(LEFT, place, WIDTH - RIGHT, place, "grid")
            picture.text(LEFT - 6, place + 4, written, "end")
        for value, written in self.x.ticks():
            picture.line(self.x.at(value), floor, self.x.at(value), floor + 4, "axis")
            picture.text(self.x.at(value), floor + 17, written, "middle")
        picture.line(LEFT, floor, WIDTH - RIGHT, floor, "axis")
        picture.line(LEFT, TOP, LEFT, floor, "axis")
        picture.text((LEFT + WIDTH - RIGHT) / 2, picture.height - 6, x_name, "middle", "name")
        picture.text(4, 13, y_name, "start", "name")

    def curve(self, points: Iterable[tuple[float, float]], style: str) -> None:
        """A line through these points."""
        self.drawing.path(((self.x.at(x), self.y.at(y)) for x, y in points), style)

    def mark(self, x: float, y: float, style: str, told: str = "", shape: int = 0) -> None:
        """One point."""
        self.drawing.mark(self.x.at(x), self.y.at(y), style, told, shape)
