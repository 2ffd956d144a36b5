"""What to generate where dimensions have names: einsum expressions, einops patterns, and ones that do not
fit.

Names are single letters between blanks, so one text is read alike by ``torch.einsum``, ``numpy.einsum``,
``einops`` and the reference. Operands hold small integers, so that every way of adding them up is exact.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from jaxtyping import Float
from torch import Tensor

from properties.strategies.description import Description

Shape = tuple[int, ...]
Names = tuple[str, ...]

NAMES = ("a", "b", "c", "d", "e")
LEADING = ("p", "q")
"""The names that ``...`` is spelled out with, in order."""
SCORES = "batch seq1 hidden, batch seq2 hidden -> batch seq1 seq2"
PROJECT = "... hidden1, hidden1 hidden2 -> ... hidden2"
SPLIT = "... (heads hidden1) -> ... heads hidden1"
MERGE = "... heads hidden2 -> ... (heads hidden2)"

# What is drawn is an entry of a table, simplest entries first: one draw for a whole tuple is several times
# faster than one for each of its items, and shrinks to the front of the table.
_LENGTHS = (1, 2, 3, 2, 3, 2, 3, 0)
_RANKS = range(4)
_SHAPES = tuple(shape for rank in _RANKS for shape in itertools.product((1, 2, 3), repeat=rank))
_OPERANDS = tuple(names for rank in _RANKS for names in itertools.product(NAMES, repeat=rank))

some_lengths = st.sampled_from((1, 2, 3))
leading_shapes = st.sampled_from(_SHAPES)
"""None to three leading dimensions, none of them empty."""


@cache
def _shapes(rank: int, longest: int) -> st.SearchStrategy[Shape]:
    """Shapes of lengths up to ``longest``, and some with dimensions of length zero."""
    filled = itertools.product(range(1, longest + 1), repeat=rank)
    empty = (shape for shape in itertools.product((1, 2, 3, 0), repeat=rank) if 0 in shape)
    return st.sampled_from((*filled, *empty))


def _whole_numbers(*shapes: Shape) -> tuple[Float[Tensor, "..."], ...]:
    """Tensors of whole numbers between -4 and 4, the same for the same shapes."""
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randint(-4, 5, shape, generator=generator).float() for shape in shapes)


@cache
def _arrangements(names: Names) -> st.SearchStrategy[Names]:
    """Some of ``names``, in any order: what an output keeps, the rest is summed."""
    kept = itertools.chain.from_iterable(itertools.permutations(names, count) for count in range(len(names) + 1))
    return st.sampled_from(tuple(kept))


@cache
def _cuts(names: Names) -> st.SearchStrategy[tuple[Names, ...]]:
    """``names`` in order, cut into groups in every way."""
    ways = []
    for joined in itertools.product((False, True), repeat=max(len(names) - 1, 0)):
        groups = [[name] for name in names[:1]]
        for name, together in zip(names[1:], joined, strict=True):
            if together:
                groups[-1].append(name)
            else:
                groups.append([name])
        ways.append(tuple(tuple(group) for group in groups))
    return st.sampled_from(tuple(ways))


# --------------------------------------------------------------------------------------------- einsum


@dataclass(frozen=True, repr=False)
class Contraction(Description):
    """An einsum expression and the shapes of its operands."""

    pattern: str
    shapes: tuple[Shape, ...]

    def build(self) -> tuple[Float[Tensor, "..."], ...]:
        """Operands of whole numbers between -4 and 4."""
        return _whole_numbers(*self.shapes)

    def arrays(self) -> tuple[Float[np.ndarray, "..."], ...]:
        """The operands as NumPy arrays."""
        return tuple(operand.numpy() for operand in self.build())

    @property
    def operands(self) -> tuple[Names, ...]:
        """The names of each operand, ``...`` among them."""
        return tuple(tuple(side.split()) for side in self.pattern.partition("->")[0].split(","))

    @property
    def output(self) -> Names:
        """The names of the output."""
        return tuple(self.pattern.partition("->")[2].split())

    def listed(self) -> tuple[object, ...]:
        """The arguments in torch's other notation: after each operand a list of a number for each name, then the
        output's.
        """
        numbers = [[Ellipsis if name == "..." else ord(name) - ord("a") for name in side] for side in self.operands]
        output = [Ellipsis if name == "..." else ord(name) - ord("a") for name in self.output]
        return (*itertools.chain.from_iterable(zip(self.build(), numbers, strict=True)), output)

    def spelled_out(self) -> str:
        """The pattern with a name for each leading dimension in place of ``...``."""
        covered = [
            len(shape) - sum(name != "..." for name in names) if "..." in names else 0
            for names, shape in zip(self.operands, self.shapes, strict=True)
        ]
        most = max(covered)
        operands = [
            _replaced(names, LEADING[most - count : most]) for names, count in zip(self.operands, covered, strict=True)
        ]
        return _written(operands, _replaced(self.output, LEADING[:most]))


def _replaced(names: Names, leading: Names) -> Names:
    return tuple(itertools.chain.from_iterable(leading if name == "..." else (name,) for name in names))


def _written(operands: Sequence[Names], output: Names) -> str:
    return f"{', '.join(' '.join(names) for names in operands)} -> {' '.join(output)}"


_sizes = st.sampled_from(tuple(itertools.product(_LENGTHS, repeat=len(NAMES))))
_operands = st.sampled_from(_OPERANDS)


@st.composite
def named_operands(draw: st.DrawFn, most: int = 3) -> tuple[list[Names], list[Shape]]:
    """Names and shapes of one to ``most`` operands without ``...``.

    A name has one length everywhere, except that an operand may have 1 in its place. A name can stand twice
    in one operand.
    """
    sizes = dict(zip(NAMES, draw(_sizes), strict=True))
    operands, shapes = [], []
    for _ in range(draw(st.integers(1, most))):
        names = draw(_operands)
        stretched = draw(st.sampled_from(("", *names, *names)))
        operands.append(names)
        shapes.append(tuple(1 if name == stretched else sizes[name] for name in names))
    return operands, shapes


def _inserted(names: Names, place: int) -> Names:
    return (*names[:place], "...", *names[place:])


def _kept(operands: Sequence[Names]) -> st.SearchStrategy[Names]:
    return _arrangements(tuple(sorted(set(itertools.chain.from_iterable(operands)))))


@st.composite
def named_contractions(draw: st.DrawFn, most: int = 3) -> Contraction:
    """Expressions of named dimensions only."""
    operands, shapes = draw(named_operands(most))
    return Contraction(_written(operands, draw(_kept(operands))), tuple(shapes))


@st.composite
def leading_contractions(draw: st.DrawFn) -> Contraction:
    """Expressions with ``...``, over none to two leading dimensions, some of them missing or of length
    one.
    """
    named, shapes = draw(named_operands(most=2))
    leading = draw(st.sampled_from(_SHAPES[: -(3**3)]))
    ways = st.sampled_from((leading, leading, leading[1:], (1,) * len(leading), ()))
    operands = []
    for place, (names, shape) in enumerate(zip(named, shapes, strict=True)):
        before = draw(st.integers(0, len(names)))
        operands.append(_inserted(names, before))
        shapes[place] = (*shape[:before], *draw(ways), *shape[before:])
    output = _inserted(draw(_kept(named)), draw(st.integers(0, 3)))
    return Contraction(_written(operands, output), tuple(shapes))


contractions = st.one_of(named_contractions(), leading_contractions())
"""Expressions of one to three operands: free and summed names, diagonals, lengths of one and zero,
``...``.
"""


_CAPITALS = tuple(
    str.maketrans({name: name.upper() for name in names})
    for count in (0, 1, 2)
    for names in itertools.combinations(NAMES, count)
)


@st.composite
def implied_contractions(draw: st.DrawFn) -> Contraction:
    """Expressions without an output, some of their names in capital letters."""
    case = draw(contractions)
    return replace(case, pattern=case.pattern.partition(" ->")[0].translate(draw(st.sampled_from(_CAPITALS))))


@st.composite
def scores(draw: st.DrawFn) -> Contraction:
    """Two batches of sequences, multiplied position by position over their hidden dimension."""
    batch, first, second, hidden = draw(_shapes(4, longest=6))
    return Contraction(SCORES, ((batch, first, hidden), (batch, second, hidden)))


@st.composite
def contractions_with_an_unknown_output(draw: st.DrawFn) -> Contraction:
    """The output asks for a name that no operand has."""
    good = draw(named_contractions())
    return replace(good, pattern=f"{good.pattern} z")


@st.composite
def contractions_with_a_repeated_output(draw: st.DrawFn) -> Contraction:
    """The output has one name twice."""
    operands, shapes = draw(named_operands(most=2))
    length = draw(some_lengths)
    name = draw(st.sampled_from(NAMES[:2]))
    operands, shapes = [*operands, ("z", name)], [*shapes, (length, 1)]
    kept = draw(_kept(operands[:-1]))
    return Contraction(_written(operands, (*kept, "z", "z")), tuple(shapes))


@st.composite
def contractions_of_another_rank(draw: st.DrawFn) -> Contraction:
    """One operand has a dimension more, or one less, than the pattern names."""
    good = draw(named_contractions())
    place = draw(st.integers(0, len(good.shapes) - 1))
    shape = good.shapes[place]
    changed = draw(st.sampled_from(((*shape, 2), (1, *shape), shape[:-1]) if shape else ((2,), (1,))))
    return replace(good, shapes=(*good.shapes[:place], changed, *good.shapes[place + 1 :]))


@st.composite
def contractions_of_unequal_lengths(draw: st.DrawFn) -> Contraction:
    """One name has two lengths, neither of them 1, in two operands; or two lengths within one operand."""
    operands, shapes = draw(named_operands(most=1))
    first, second = draw(st.sampled_from(((2, 3), (3, 2), (0, 2), (4, 2))))
    other = draw(st.sampled_from((second, 1)))
    apart: tuple[tuple[Names, Shape], ...] = ((("z",), (first,)), (("z",), (second,)))
    within: tuple[tuple[Names, Shape], ...] = ((("z", "z"), (first, other)),)
    for names, shape in draw(st.sampled_from((apart, within))):
        operands.append(names)
        shapes.append(shape)
    return Contraction(_written(operands, draw(_kept(operands))), tuple(shapes))


@st.composite
def contractions_short_of_an_operand(draw: st.DrawFn) -> Contraction:
    """The pattern names one operand more than there is."""
    good = draw(named_contractions())
    return replace(good, pattern=f"a, {good.pattern}")


broken_contractions = st.one_of(
    contractions_with_an_unknown_output(),
    contractions_with_a_repeated_output(),
    contractions_of_another_rank(),
    contractions_of_unequal_lengths(),
    contractions_short_of_an_operand(),
)
"""Expressions that say nothing, or nothing about these shapes, one rule broken in each."""


# --------------------------------------------------------------------------------------------- einops


@dataclass(frozen=True, repr=False)
class Rearrangement(Description):
    """An einops pattern, the shape it is given, and the lengths of factors that it is told."""

    pattern: str
    shape: Shape
    factors: tuple[tuple[str, int], ...] = ()

    def build(self) -> Float[Tensor, "..."]:
        """A tensor whose elements are all different: 0, 1, 2, ... in row-major order."""
        return torch.arange(math.prod(self.shape)).float().reshape(self.shape)

    @property
    def lengths(self) -> dict[str, int]:
        """The factors as keyword arguments."""
        return dict(self.factors)

    def renamed(self) -> Rearrangement:
        """The same with every name replaced by another one, consistently."""
        table = str.maketrans({name: f"{name}_{name}" for name in NAMES})
        pattern = self.pattern.translate(table)
        return Rearrangement(pattern, self.shape, tuple((name.translate(table), n) for name, n in self.factors))


def _bracketed(group: Names) -> str:
    return group[0] if len(group) == 1 else f"({' '.join(group)})"


@st.composite
def rearrangements(draw: st.DrawFn) -> Rearrangement:
    """Splits, joins and permutations of one to four names in one pattern, with and without leading
    dimensions.

    Each joined dimension on the left leaves at most one of its factors to be worked out.
    """
    names = NAMES[: draw(st.integers(1, 4))]
    sizes = dict(zip(names, draw(_shapes(len(names), longest=4)), strict=True))
    left = draw(_cuts(names))
    right = draw(_cuts(draw(st.sampled_from(tuple(itertools.permutations(names))))))
    leading = draw(st.sampled_from(((), (2,), (3, 2))))
    dots = ["..."] * bool(leading)
    factors = _told(left, sizes)
    (*before, shape), (*after, _) = draw(_ones(left, sizes)), draw(_ones(right, sizes))
    sides = [" ".join([*dots, *before]), " ".join([*after, *dots])]
    return Rearrangement(" -> ".join(sides), (*leading, *shape), factors)


def _told(groups: Sequence[Names], sizes: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """The lengths that each group leaves open: of all its names but the first, or of all where some are empty."""
    factors: list[tuple[str, int]] = []
    for group in groups:
        others = math.prod(sizes[name] for name in group[1:])
        factors += [(name, sizes[name]) for name in (group if others == 0 else group[1:])]
    return tuple(factors)


@st.composite
def _ones(draw: st.DrawFn, groups: Sequence[Names], sizes: Mapping[str, int]) -> tuple[Any, ...]:
    """The groups as they are written, perhaps with a 1 or empty brackets among them, and last their shape."""
    written = [_bracketed(group) for group in groups]
    shape = [math.prod(sizes[name] for name in group) for group in groups]
    one = draw(st.sampled_from(("", "", "1", "()")))
    if one:
        place = draw(st.integers(0, len(written)))
        written.insert(place, one)
        shape.insert(place, 1)
    return (*written, tuple(shape))


@st.composite
def misfits(draw: st.DrawFn) -> Rearrangement:
    """A rearrangement with one rule broken: a name too many or too few, another rank, or factors that do not fit."""
    case = draw(rearrangements())
    left, _, right = case.pattern.partition(" -> ")
    way = draw(st.sampled_from(("dropped", "unknown", "twice", "rank", "unused", "factor")))
    if way == "rank" and "..." in case.pattern:
        way = "unused"
    if way == "factor" and (not case.factors or 0 in case.shape):
        way = "dropped"
    if way == "dropped":
        return replace(case, pattern=f"{left} z -> {right}", shape=(*case.shape, 2))
    if way in ("unknown", "twice"):
        return replace(case, pattern=f"{left} -> {right} {'z' if way == 'unknown' else 'a'}")
    if way == "rank":
        return replace(case, shape=(*case.shape, 2))
    if way == "unused":
        return replace(case, factors=(*case.factors, ("z", 2)))
    name, length = case.factors[0]
    return replace(case, factors=((name, length * math.prod(case.shape) + 7), *case.factors[1:]))


@dataclass(frozen=True, repr=False)
class Heads(Description):
    """A dimension of ``heads * hidden1`` behind leading ones, and a matrix from hidden1 to hidden2."""

    leading: Shape
    heads: int
    hidden1: int
    hidden2: int

    def build(self) -> Float[Tensor, "... total_hidden"]:
        """The joined tensor, its elements all different: 0, 1, 2, ... in row-major order."""
        shape = (*self.leading, self.heads * self.hidden1)
        return torch.arange(math.prod(shape)).float().reshape(shape)

    def weight(self) -> Float[Tensor, "hidden1 hidden2"]:
        """A matrix of whole numbers between -4 and 4."""
        return _whole_numbers((self.hidden1, self.hidden2))[0]


@st.composite
def square_heads(draw: st.DrawFn) -> Heads:
    """Heads whose matrix is square, zero columns included."""
    hidden = draw(st.sampled_from((1, 2, 3, 4, 5, 6, 0)))
    return Heads(draw(leading_shapes), draw(st.integers(1, 4)), hidden, hidden)


@st.composite
def oblong_heads(draw: st.DrawFn) -> Heads:
    """Heads whose matrix is wider or narrower than it is high."""
    hidden1, hidden2 = draw(st.sampled_from(tuple(itertools.permutations(range(5), 2))))
    return Heads(draw(leading_shapes), draw(st.integers(1, 4)), hidden1, hidden2)


heads = st.one_of(square_heads(), oblong_heads())


@st.composite
def indivisible_splits(draw: st.DrawFn) -> Rearrangement:
    """A number of heads that does not divide the dimension: one head and more is left over."""
    count = draw(st.integers(2, 6))
    total = count * draw(st.integers(0, 4)) + draw(st.integers(1, count - 1))
    return Rearrangement(SPLIT, (*draw(leading_shapes), total), (("heads", count),))


@st.composite
def splits_below_one(draw: st.DrawFn) -> Rearrangement:
    """A number of heads that is zero or negative, as often as not one whose absolute value divides."""
    count = draw(st.integers(-6, 0))
    total = draw(st.one_of(st.integers(0, 12), st.integers(0, 3).map(lambda times: abs(count) * times)))
    return Rearrangement(SPLIT, (*draw(leading_shapes), total), (("heads", count),))


# ----------------------------------------------------------------------------------------- reductions


@dataclass(frozen=True, repr=False)
class Reduction(Description):
    """A reduction by name: which names of a pattern go, and how."""

    how: str
    pattern: str
    shape: Shape
    factors: tuple[tuple[str, int], ...] = ()

    def build(self) -> Float[Tensor, "..."]:
        """Whole numbers between -4 and 4, as float32."""
        return _whole_numbers(self.shape)[0]

    @property
    def lengths(self) -> dict[str, int]:
        """The factors as keyword arguments."""
        return dict(self.factors)

    @property
    def axes(self) -> tuple[int, ...]:
        """The places of the names that go."""
        left, _, right = self.pattern.partition("->")
        return tuple(place for place, name in enumerate(left.split()) if name not in right.split())


REDUCTIONS = ("mean", "sum", "max", "min", "prod", "any", "all")


@st.composite
def reductions(draw: st.DrawFn) -> Reduction:
    """Any reduction over one or more of one to four names, order kept; the largest and smallest never of
    nothing.

    Where no name goes there is nothing to reduce, and einops hands the elements on as they are.
    """
    how = draw(st.sampled_from(REDUCTIONS))
    names = NAMES[: draw(st.integers(1, 4))]
    right = draw(st.sampled_from(tuple(_proper_parts(names))))
    shape = draw(_shapes(len(names), longest=5))
    if how in ("max", "min"):
        shape = tuple(length or int(name not in right) for name, length in zip(names, shape, strict=True))
    return Reduction(how, f"{' '.join(names)} -> {' '.join(right)}", shape)


@st.composite
def grouped_reductions(draw: st.DrawFn) -> Reduction:
    """The same with split and joined dimensions, in any order, behind leading ones, and with ones that are kept."""
    names = NAMES[: draw(st.integers(2, 4))]
    how = draw(st.sampled_from(REDUCTIONS))
    lengths = st.integers(1, 3) if how in ("max", "min") else st.integers(0, 3)
    sizes = {name: draw(lengths) for name in names}
    kept = draw(st.sampled_from(tuple(_proper_parts(names))))
    left = draw(_cuts(names))
    right = draw(_cuts(draw(st.sampled_from(tuple(itertools.permutations(kept))))))
    leading = draw(st.sampled_from(((), (2,), (2, 1))))
    dots = ["..."] * bool(leading)
    (*before, shape), (*after, _) = draw(_ones(left, sizes)), draw(_ones(right, sizes))
    pattern = f"{' '.join([*dots, *before])} -> {' '.join([*after, *dots])}"
    return Reduction(how, pattern, (*leading, *shape), _told(left, sizes))


def _proper_parts(names: Names) -> Iterator[Names]:
    """``names`` with one or more left out."""
    for count in range(len(names)):
        yield from itertools.combinations(names, count)
