"""Small scopes, whole: every shape, layout and target up to a size, and how many there must be.

Each number is computed in another way than by listing.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import permutations, product

from properties.strategies.layouts import Layout
from properties.strategies.steps import AsStrided, Permute
from reference.strided import Shape


def every_shape(sizes: Sequence[int], dims: int) -> Iterator[Shape]:
    """Every shape of at most ``dims`` dimensions with those sizes, fewest dimensions first."""
    for rank in range(dims + 1):
        yield from product(sizes, repeat=rank)


def shapes_in_scope(sizes: int, dims: int) -> int:
    """How many shapes ``every_shape`` gives for so many sizes."""
    return dims + 1 if sizes == 1 else (sizes ** (dims + 1) - 1) // (sizes - 1)


def every_permuted(sizes: Sequence[int], dims: int) -> Iterator[Layout]:
    """Every shape of at most ``dims`` dimensions, with its dimensions in every order."""
    for shape in every_shape(sizes, dims):
        for order in permutations(range(len(shape))):
            yield Layout(shape, (Permute(order),))


def permuted_in_scope(sizes: int, dims: int) -> int:
    """How many layouts ``every_permuted`` gives for so many sizes."""
    return sum(sizes**rank * math.factorial(rank) for rank in range(dims + 1))


def every_strided(sizes: Sequence[int], strides: Sequence[int], dims: int) -> Iterator[Layout]:
    """Every window of at most ``dims`` dimensions with those sizes and strides, from element 1 of its storage on."""
    for shape in every_shape(sizes, dims):
        for stride in product(strides, repeat=len(shape)):
            reach = sum((size - 1) * step for size, step in zip(shape, stride, strict=True) if size)
            yield Layout((reach + 2,), (AsStrided(shape, stride, 1),))


def strided_in_scope(sizes: int, strides: int, dims: int) -> int:
    """How many layouts ``every_strided`` gives for so many sizes and strides."""
    return shapes_in_scope(sizes * strides, dims)


@cache
def every_target(numel: int, dims: int) -> tuple[Shape, ...]:
    """Every shape of at most ``dims`` dimensions with ``numel`` elements, fewest dimensions first."""
    return tuple(target for rank in range(dims + 1) for target in _products(numel, rank))


def _products(numel: int, parts: int) -> Iterator[Shape]:
    if parts == 0:
        yield from [()] * (numel == 1)
        return
    for first in range(1, numel + 1):
        if numel % first == 0:
            for rest in _products(numel // first, parts - 1):
                yield (first, *rest)


def targets_in_scope(numel: int, dims: int) -> int:
    """How many shapes ``every_target`` gives, from the prime factorisation of ``numel``.

    A prime that divides it e times is shared out over k factors in (e + k - 1 choose k - 1) ways.
    """
    exponents = list(_exponents(numel))
    nothing = 1 if numel == 1 else 0
    return nothing + sum(
        math.prod(math.comb(exponent + parts - 1, parts - 1) for exponent in exponents) for parts in range(1, dims + 1)
    )


def _exponents(numel: int) -> Iterator[int]:
    prime = 2
    while numel > 1:
        exponent = 0
        while numel % prime == 0:
            numel, exponent = numel // prime, exponent + 1
        if exponent:
            yield exponent
        prime += 1


def with_targets(layouts: Iterable[Layout], dims: int) -> list[tuple[Layout, Shape]]:
    """Each of ``layouts`` with every shape of at most ``dims`` dimensions that has as many elements."""
    return [(layout, target) for layout in layouts for target in every_target(layout.window().numel, dims)]


def permuted_pairs(sizes: Sequence[int], dims: int, target_dims: int) -> int:
    """How many pairs there are of ``every_permuted`` layout and target."""
    return sum(
        math.factorial(len(shape)) * targets_in_scope(math.prod(shape), target_dims)
        for shape in every_shape(sizes, dims)
    )


def strided_pairs(sizes: Sequence[int], strides: int, dims: int, target_dims: int) -> int:
    """How many pairs there are of ``every_strided`` layout, for so many strides, and target."""
    return sum(
        strides ** len(shape) * targets_in_scope(math.prod(shape), target_dims) for shape in every_shape(sizes, dims)
    )
