"""Einstein's notation and einops patterns as loops, one value of every name after another.

A pattern is names between blanks: ``"batch seq hidden, hidden wide -> batch seq wide"``. ``...`` stands for
any number of leading dimensions, aligned at the last; ``(heads width)`` in ``rearrange`` and ``reduce`` is
one dimension counted by several names, the last one fastest; ``1`` is a dimension of length one. Every
function takes arrays of any dtype and computes with Python's own numbers, so integers are exact; the result
has dtype object.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from jaxtyping import Shaped

Names = tuple[str, ...]
Side = tuple[Names, ...]
"""One side of a pattern: each dimension as the names that count it, slowest first."""
Written = tuple[Names | None, ...]
"""The same before the shape is known: None stands for the leading dimensions, however many they are."""

ELLIPSIS = "..."


class PatternError(ValueError):
    """A pattern that says nothing, or nothing about these shapes."""


class MalformedPattern(PatternError):
    """The text is not a pattern."""


class UnknownName(PatternError):
    """A name on the right stands nowhere on the left."""


class DroppedName(PatternError):
    """A rearrangement, which keeps every element, leaves out a name of its left side."""


class RepeatedName(PatternError):
    """A name stands twice where each position needs its own."""


class WrongRank(PatternError):
    """The pattern names another number of dimensions than the operand has."""


class UnequalLengths(PatternError):
    """One name, or one dimension and the names that count it, has two lengths."""


class IndivisibleLength(PatternError):
    """The length of a dimension is no multiple of the factors that are given."""


class UnknownLength(PatternError):
    """A factor's length is not given, and cannot be worked out from the others."""


class ImpossibleLength(PatternError):
    """A length is below zero."""


class EmptyReduction(PatternError):
    """A largest or smallest element of nothing was asked for."""


# --------------------------------------------------------------------------------------------- einsum


def einsum(pattern: str, *operands: Shaped[np.ndarray, "..."]) -> Shaped[np.ndarray, "..."]:
    """The sum, over every name that the output leaves out, of the product of the operands.

    A name that stands twice in one operand walks its diagonal. A dimension of length one is read at 0
    whatever the name's value, so it stretches to any other length of that name, zero included. Dimensions
    under ``...`` that the output leaves out are summed, as torch does and NumPy refuses to.

    Raises MalformedPattern, UnknownName, RepeatedName (in the output), WrongRank, UnequalLengths.
    """
    inputs, output = _einsum_sides(pattern)
    if len(inputs) != len(operands):
        raise WrongRank(f"{pattern!r} names {len(inputs)} operands, {len(operands)} were given")
    inputs = [_fitted(names, operand.ndim) for names, operand in zip(inputs, operands, strict=True)]
    longest: Names = max(map(_leading, inputs), key=len)
    output = _spelled_out(output, longest)
    _check_output(pattern, inputs, output)
    lengths = _common_lengths(inputs, operands)

    result = np.full([lengths[name] for name in output], 0, dtype=object)
    arrays = [operand.astype(object) for operand in operands]
    for at in _points(lengths):
        term = 1
        for names, array in zip(inputs, arrays, strict=True):
            term *= array[tuple(0 if size == 1 else at[name] for name, size in zip(names, array.shape, strict=True))]
        result[tuple(at[name] for name in output)] += term
    return result


def explicit(pattern: str) -> str:
    """An einsum pattern with the output that it implies where it has no "->".

    That is ``...``, if an operand has it, and then each name that stands once in all operands together, in the order
    of the characters: capital letters before small ones. NumPy and torch read it so; einops asks for the "->".
    """
    if "->" in pattern:
        return pattern
    names = pattern.replace(",", " ").split()
    once = sorted(name for name in names if names.count(name) == 1 and name != ELLIPSIS)
    return f"{pattern} -> {' '.join((ELLIPSIS,) * (ELLIPSIS in names) + tuple(once))}"


def _einsum_sides(pattern: str) -> tuple[list[Names], Names]:
    left, arrow, right = pattern.partition("->")
    if not arrow:
        raise MalformedPattern(f"{pattern!r} has no '->': write what the output keeps")
    sides = [*left.split(","), right]
    for side in sides:
        for name in side.split():
            if name != ELLIPSIS and not name.isidentifier():
                raise MalformedPattern(f"{name!r} in {pattern!r} is no name")
        if side.split().count(ELLIPSIS) > 1:
            raise MalformedPattern(f"{side.strip()!r} has two '...': their lengths could not be told apart")
    *inputs, output = [tuple(side.split()) for side in sides]
    return inputs, output


def _fitted(names: Names, rank: int) -> Names:
    """An operand's names with ``...`` spelled out as one name a dimension, counted from the last: ``...1
    ...0``.
    """
    covered = rank - sum(name != ELLIPSIS for name in names)
    if covered < 0 or (covered and ELLIPSIS not in names):
        raise WrongRank(f"'{' '.join(names)}' does not fit an operand of {rank} dimensions")
    return _spelled_out(names, tuple(f"{ELLIPSIS}{place}" for place in reversed(range(covered))))


def _spelled_out(names: Names, leading: Names) -> Names:
    return tuple(itertools.chain.from_iterable(leading if name == ELLIPSIS else (name,) for name in names))


def _leading(names: Names) -> Names:
    return tuple(name for name in names if name.startswith(ELLIPSIS))


def _check_output(pattern: str, inputs: Sequence[Names], output: Names) -> None:
    known = set().union(*inputs)
    for name in output:
        if name not in known:
            raise UnknownName(f"{name!r} is in the output of {pattern!r} and in none of its operands")
        if output.count(name) > 1:
            raise RepeatedName(f"{name!r} is twice in the output of {pattern!r}")


def _common_lengths(inputs: Sequence[Names], operands: Sequence[Shaped[np.ndarray, "..."]]) -> dict[str, int]:
    """The length of every name: the only one it has beside 1."""
    lengths: dict[str, int] = {}
    for names, operand in zip(inputs, operands, strict=True):
        own: dict[str, int] = {}
        for name, length in zip(names, operand.shape, strict=True):
            if own.setdefault(name, length) != length:
                raise UnequalLengths(f"{name!r} is {own[name]} and {length} long in one operand")
        for name, length in own.items():
            before = lengths.get(name, 1)
            if 1 not in (before, length) and before != length:
                raise UnequalLengths(f"{name!r} is {before} long in one operand and {length} in another")
            lengths[name] = length if before == 1 else before
    return lengths


# -------------------------------------------------------------------------------- rearrange and reduce


def _mean(cells: list[Any]) -> float:
    """Exact until its one division is rounded to a float; NaN for no elements."""
    return float(sum(map(Fraction, cells)) / len(cells)) if cells else math.nan


REDUCTIONS: Mapping[str, Callable[[list[Any]], Any]] = {
    "sum": sum,
    "prod": math.prod,
    "mean": _mean,
    "max": max,
    "min": min,
    "any": any,
    "all": all,
}
"""What becomes of the elements that meet in one place."""


def rearrange(array: Shaped[np.ndarray, "..."], pattern: str, **lengths: int) -> Shaped[np.ndarray, "..."]:
    """The same elements under the names of the right side, moved, split and joined as it says.

    ``lengths`` gives factors of a joined dimension on the left; one factor of each may be left out.

    Raises MalformedPattern, WrongRank, UnknownName, DroppedName, RepeatedName, UnequalLengths,
    IndivisibleLength, UnknownLength, ImpossibleLength.
    """
    left, right, named = _understand(array.shape, pattern, lengths)
    for name in named:
        if not any(name in group for group in right):
            raise DroppedName(f"{name!r} is left out on the right of {pattern!r}: a rearrangement keeps all elements")
    cells = array.astype(object)
    result = np.empty(_shape(right, named), dtype=object)
    for at in _points(named):
        result[_index(right, named, at)] = cells[_index(left, named, at)]
    return result


def reduce(array: Shaped[np.ndarray, "..."], pattern: str, reduction: str, **lengths: int) -> Shaped[np.ndarray, "..."]:
    """``rearrange``, where elements that differ only in a name left out on the right become one by
    ``reduction``.

    Raises what ``rearrange`` raises except DroppedName, KeyError for an unknown reduction, and EmptyReduction
    for the largest or smallest of nothing. A mean of nothing is NaN, a sum 0, a product 1, ``any`` False and
    ``all`` True.
    """
    left, right, named = _understand(array.shape, pattern, lengths)
    cells = array.astype(object)
    result = np.empty(_shape(right, named), dtype=object)
    meeting: dict[tuple[int, ...], list[Any]] = {place: [] for place in np.ndindex(result.shape)}
    for at in _points(named):
        meeting[_index(right, named, at)].append(cells[_index(left, named, at)])
    for place, together in meeting.items():
        if not together and reduction in ("max", "min"):
            raise EmptyReduction(f"{pattern!r} asks for the {reduction} of no elements in shape {array.shape}")
        result[place] = REDUCTIONS[reduction](together)
    return result


def _understand(shape: tuple[int, ...], pattern: str, lengths: Mapping[str, int]) -> tuple[Side, Side, dict[str, int]]:
    """Both sides of a pattern with ``...`` spelled out, and the length of every name of the left one."""
    before, arrow, after = pattern.partition("->")
    if not arrow:
        raise MalformedPattern(f"{pattern!r} has no '->': write the right side")
    left, right = _side(before), _side(after)
    here = None in left
    if not here and ELLIPSIS in before:
        raise MalformedPattern(f"'...' is in brackets on the left of {pattern!r}: give its dimensions names")
    covered = len(shape) - len(left) + here
    if covered < 0 or (covered and not here):
        raise WrongRank(f"{before.strip()!r} does not fit a shape of {len(shape)} dimensions, {shape}")
    known = set(_names(left))
    for name in _names(right):
        if name not in known:
            raise UnknownName(f"{name!r} is on the right of {pattern!r} and not on its left")
    for name in lengths:
        if name not in known:
            raise UnknownName(f"a length is given for {name!r}, which {pattern!r} does not use")
    leading = tuple(f"{ELLIPSIS}{place}" for place in range(covered))
    dimensions = _spread(left, leading)
    return dimensions, _spread(right, leading), _factors(dimensions, shape, lengths)


def _names(side: Written) -> Names:
    return tuple(itertools.chain.from_iterable((ELLIPSIS,) if group is None else group for group in side))


def _spread(side: Written, leading: Names) -> Side:
    """``side`` with ``...`` spelled out: as dimensions of their own, or in brackets as names of the one."""
    groups: list[Names] = []
    for group in side:
        groups += [(name,) for name in leading] if group is None else [_spelled_out(group, leading)]
    return tuple(groups)


def _side(text: str) -> Written:
    """The groups of one side: a name by itself is a group of one, ``1`` and ``()`` are groups of none."""
    tokens = re.findall(r"\.\.\.|\w+|\S", text)
    groups: list[Names | None] = []
    inside: list[str] | None = None
    for token in tokens:
        if token == "(" and inside is None:
            inside = []
        elif token == ")" and inside is not None:
            groups.append(tuple(inside))
            inside = None
        elif token == "1":
            if inside is None:
                groups.append(())
        elif token != ELLIPSIS and not token.isidentifier():
            raise MalformedPattern(f"{token!r} does not belong where it stands in {text.strip()!r}")
        elif inside is None:
            groups.append(None if token == ELLIPSIS else (token,))
        else:
            inside.append(token)
    if inside is not None:
        raise MalformedPattern(f"a bracket stays open in {text.strip()!r}")
    side = tuple(groups)
    for name in _names(side):
        if _names(side).count(name) > 1:
            raise RepeatedName(f"{name!r} stands twice in {text.strip()!r}")
    return side


def _factors(left: Side, shape: tuple[int, ...], given: Mapping[str, int]) -> dict[str, int]:
    lengths: dict[str, int] = {}
    for group, total in zip(left, shape, strict=True):
        open_names = [name for name in group if name not in given]
        for name in group:
            if name in given and given[name] < 0:
                raise ImpossibleLength(f"{name!r} is given as {given[name]}: a length is a count, zero or more")
        known = math.prod(given[name] for name in group if name in given)
        joined = f"({' '.join(group)})"
        if len(open_names) > 1 or (open_names and known == 0):
            raise UnknownLength(f"{open_names} in {joined} cannot be worked out from {total} and {dict(given)}")
        if open_names and total % known:
            raise IndivisibleLength(f"{joined} is {total} long, no multiple of {known}")
        if not open_names and known != total:
            raise UnequalLengths(f"{joined} is {total} long, its factors make {known}")
        for name in group:
            lengths[name] = given[name] if name in given else total // known
    return lengths


def _points(lengths: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Every assignment of a value to every name; one empty assignment where there are no names."""
    for values in itertools.product(*(range(length) for length in lengths.values())):
        yield dict(zip(lengths, values, strict=True))


def _shape(side: Side, lengths: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(math.prod(lengths[name] for name in group) for group in side)


def _index(side: Side, lengths: Mapping[str, int], at: Mapping[str, int]) -> tuple[int, ...]:
    """Where a point stands: in each dimension, its names read as the digits of one number, the last one
    fastest.
    """
    index = []
    for group in side:
        position = 0
        for name in group:
            position = position * lengths[name] + at[name]
        index.append(position)
    return tuple(index)
