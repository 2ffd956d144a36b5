"""The loops of Einstein's notation against NumPy: its einsum, its reshape and transpose, its reductions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from reference import einsum as loops

RNG = np.random.default_rng(20261130)


def integers(*shape: int) -> np.ndarray:
    return RNG.integers(-4, 5, shape)


@pytest.mark.parametrize(
    ("pattern", "shapes"),
    [
        ("->", [()]),
        ("a -> a", [(0,)]),
        ("a ->", [(4,)]),
        ("a a -> a", [(3, 3)]),
        ("a a ->", [(3, 3)]),
        ("a b a -> b", [(2, 3, 2)]),
        ("a b -> b a", [(2, 3)]),
        ("a b, b c -> a c", [(2, 3), (3, 4)]),
        ("a b, c b -> a c", [(2, 3), (4, 3)]),
        ("a b, b c -> a c", [(2, 0), (0, 4)]),
        ("a b, b c -> a c", [(2, 1), (3, 4)]),
        ("a b, b c -> a c", [(2, 1), (0, 4)]),
        ("a, b -> b a", [(2,), (3,)]),
        ("a b, b c, c -> a", [(2, 3), (3, 4), (4,)]),
        ("a b, a a, c -> c b", [(2, 3), (2, 2), (2,)]),
        ("... a, a b -> ... b", [(2, 3, 4), (4, 5)]),
        ("... a, a b -> ... b", [(4,), (4, 5)]),
        ("... a, ... a -> ...", [(2, 1, 4), (3, 4)]),
        ("... a, ... b -> a b ...", [(2, 1, 3), (5, 4)]),
        ("a ... b -> b ... a", [(2, 3, 1, 4)]),
        ("a ... -> ...", [(2, 3)]),
        ("long_name other, other -> long_name", [(2, 3), (3,)]),
    ],
)
def test_einsum_is_what_numpy_computes(pattern: str, shapes: list[tuple[int, ...]]) -> None:
    operands = [integers(*shape) for shape in shapes]
    letters = pattern.replace("long_name", "p").replace("other", "q")
    expected = np.einsum(letters, *operands)
    seen = loops.einsum(pattern, *operands)
    assert seen.shape == expected.shape
    assert np.array_equal(seen, expected)


@pytest.mark.parametrize(
    ("pattern", "shapes"),
    [
        ("b a", [(2, 3)]),
        ("a a", [(3, 3)]),
        ("a a b", [(3, 3, 2)]),
        ("b, a", [(2,), (3,)]),
        ("c b, b A", [(2, 3), (3, 4)]),
        ("b B", [(2, 3)]),
        ("... c a, ... a b", [(2, 1, 3, 4), (5, 4, 2)]),
        ("a ...", [(2, 3, 4)]),
        ("b a -> b a", [(2, 3)]),
    ],
)
def test_the_implied_output_is_what_numpy_takes_it_to_be(pattern: str, shapes: list[tuple[int, ...]]) -> None:
    operands = [integers(*shape) for shape in shapes]
    seen = loops.einsum(loops.explicit(pattern), *operands)
    assert np.array_equal(seen, np.einsum(pattern, *operands))


def test_einsum_sums_leading_dimensions_that_the_output_leaves_out() -> None:
    operand = integers(2, 3, 4)
    assert np.array_equal(loops.einsum("... a -> a", operand), operand.sum((0, 1)))


def test_einsum_of_all_two_operand_patterns_over_three_names_is_what_numpy_computes() -> None:
    lengths = {"a": 2, "b": 3, "c": 1}
    sides = [names for rank in range(3) for names in itertools.product("abc", repeat=rank)]
    for first, second in itertools.product(sides, repeat=2):
        operands = [integers(*(lengths[name] for name in names)) for names in (first, second)]
        for output in [(), tuple(sorted({*first, *second}))]:
            pattern = f"{' '.join(first)}, {' '.join(second)} -> {' '.join(output)}"
            assert np.array_equal(loops.einsum(pattern, *operands), np.einsum(pattern, *operands)), pattern


@pytest.mark.parametrize(
    ("pattern", "shapes", "error"),
    [
        ("a b", [(2, 3)], loops.MalformedPattern),
        ("a 2 -> a", [(2, 2)], loops.MalformedPattern),
        ("... ... -> ...", [(2, 2)], loops.MalformedPattern),
        ("a b -> a z", [(2, 3)], loops.UnknownName),
        ("a b -> a a", [(2, 3)], loops.RepeatedName),
        ("a b -> a", [(2, 3, 4)], loops.WrongRank),
        ("a b -> a", [(2,)], loops.WrongRank),
        ("a b ... -> a", [(2,)], loops.WrongRank),
        ("a b, b -> a", [(2, 3)], loops.WrongRank),
        ("a b, b -> a", [(2, 3), (4,)], loops.UnequalLengths),
        ("a a -> a", [(2, 3)], loops.UnequalLengths),
        ("a a -> a", [(1, 3)], loops.UnequalLengths),
        ("... a, ... a -> a", [(2, 3), (4, 3)], loops.UnequalLengths),
    ],
)
def test_einsum_names_what_is_wrong(
    pattern: str, shapes: list[tuple[int, ...]], error: type[loops.PatternError]
) -> None:
    operands = [integers(*shape) for shape in shapes]
    with pytest.raises(error):
        loops.einsum(pattern, *operands)
    with pytest.raises(ValueError):
        np.einsum(pattern if "->" in pattern else "a b -> a z", *operands)


def test_rearrange_splits_with_the_first_factor_slowest() -> None:
    array = integers(2, 12)
    assert np.array_equal(loops.rearrange(array, "... (h i) -> ... h i", h=3), array.reshape(2, 3, 4))
    assert np.array_equal(loops.rearrange(array, "... (h i) -> ... h i", i=3), array.reshape(2, 4, 3))
    assert np.array_equal(loops.rearrange(array, "... (h i) -> ... i h", h=3), array.reshape(2, 3, 4).swapaxes(1, 2))


def test_rearrange_joins_moves_and_adds_dimensions_of_length_one() -> None:
    array = integers(2, 3, 4)
    assert np.array_equal(loops.rearrange(array, "a b c -> a (b c)"), array.reshape(2, 12))
    assert np.array_equal(loops.rearrange(array, "a b c -> (c a) b"), array.transpose(2, 0, 1).reshape(8, 3))
    assert np.array_equal(loops.rearrange(array, "a b c -> (a b c)"), array.reshape(24))
    assert np.array_equal(loops.rearrange(array, "... c -> c (...)"), array.transpose(2, 0, 1).reshape(4, 6))
    assert np.array_equal(loops.rearrange(array, "... c -> c ..."), array.transpose(2, 0, 1))
    assert np.array_equal(loops.rearrange(array, "a b c -> a 1 b () c"), array[:, None, :, None, :])
    assert np.array_equal(loops.rearrange(array[:, :1], "a 1 c -> c a"), array[:, 0].T)
    assert loops.rearrange(integers(0, 3), "a b -> (b a)").shape == (0,)
    assert loops.rearrange(np.array(7), "->").item() == 7


@pytest.mark.parametrize(
    ("reduction", "ufunc"),
    [
        ("sum", np.sum),
        ("prod", np.prod),
        ("mean", np.mean),
        ("max", np.max),
        ("min", np.min),
        ("any", np.any),
        ("all", np.all),
    ],
)
def test_reduce_is_the_reduction_over_the_names_left_out(reduction: str, ufunc: object) -> None:
    assert callable(ufunc)
    array = integers(2, 3, 4)
    assert np.array_equal(loops.reduce(array, "... c -> ...", reduction), ufunc(array, axis=-1))
    assert np.array_equal(loops.reduce(array, "a b c -> b", reduction), ufunc(array, axis=(0, 2)))
    assert np.array_equal(loops.reduce(array, "a b c ->", reduction), ufunc(array))
    assert np.array_equal(
        loops.reduce(array, "a b c -> c b a", reduction), ufunc(array[None], axis=0).transpose(2, 1, 0)
    )
    assert np.array_equal(
        loops.reduce(array, "a b (c d) -> a (b d)", reduction, c=2),
        ufunc(array.reshape(2, 3, 2, 2), axis=2).reshape(2, 6),
    )


def test_reducing_nothing_gives_the_neutral_element_or_none() -> None:
    nothing = np.empty((2, 0))
    assert loops.reduce(nothing, "a b -> a", "sum").tolist() == [0, 0]
    assert loops.reduce(nothing, "a b -> a", "prod").tolist() == [1, 1]
    assert loops.reduce(nothing, "a b -> a", "any").tolist() == [False, False]
    assert loops.reduce(nothing, "a b -> a", "all").tolist() == [True, True]
    assert all(mean != mean for mean in loops.reduce(nothing, "a b -> a", "mean"))
    for reduction in ("max", "min"):
        with pytest.raises(loops.EmptyReduction):
            loops.reduce(nothing, "a b -> a", reduction)
        with pytest.raises(ValueError):
            getattr(np, reduction)(nothing, axis=1)


def test_a_mean_is_rounded_once() -> None:
    assert loops.reduce(np.array([2**53, 2, 1]), "a ->", "mean").item() == (2**53 + 3) / 3
    assert loops.reduce(np.array([0.1] * 10), "a ->", "mean").item() == 0.1


@pytest.mark.parametrize(
    ("pattern", "lengths", "error"),
    [
        ("a b", {}, loops.MalformedPattern),
        ("a ((b c) d) -> a b c d", {"b": 2, "c": 2}, loops.MalformedPattern),
        ("a (b -> a b", {}, loops.MalformedPattern),
        ("a b) -> a b", {}, loops.MalformedPattern),
        ("a 12 -> a", {}, loops.MalformedPattern),
        ("(...) -> ...", {}, loops.MalformedPattern),
        ("a a -> a", {}, loops.RepeatedName),
        ("a b -> a b b", {}, loops.RepeatedName),
        ("a b -> a b c", {}, loops.UnknownName),
        ("a b -> ... a b", {}, loops.UnknownName),
        ("a b -> b a", {"q": 3}, loops.UnknownName),
        ("a b -> a", {}, loops.DroppedName),
        ("... b -> b", {}, loops.DroppedName),
        ("a b c -> a b c", {}, loops.WrongRank),
        ("a b ... c -> a b ... c", {}, loops.WrongRank),
        ("a -> a", {}, loops.WrongRank),
        ("a 1 -> a", {}, loops.UnequalLengths),
        ("a b -> b a", {"a": 3}, loops.UnequalLengths),
        ("a (h i) -> a h i", {"h": 3, "i": 5}, loops.UnequalLengths),
        ("a (h i) -> a h i", {"h": 5}, loops.IndivisibleLength),
        ("a (h i) -> a h i", {}, loops.UnknownLength),
        ("a (h i) -> a h i", {"h": 0}, loops.UnknownLength),
        ("a (h i) -> a h i", {"h": -3}, loops.ImpossibleLength),
        ("a (h i) -> a h i", {"h": -3, "i": -4}, loops.ImpossibleLength),
    ],
)
def test_rearrange_names_what_is_wrong(pattern: str, lengths: dict[str, int], error: type[loops.PatternError]) -> None:
    with pytest.raises(error):
        loops.rearrange(integers(2, 12), pattern, **lengths)


def test_reduce_refuses_what_rearrange_refuses_but_lets_names_go() -> None:
    with pytest.raises(loops.RepeatedName):
        loops.reduce(integers(3, 3), "a a -> a", "sum")
    with pytest.raises(loops.UnknownName):
        loops.reduce(integers(3, 3), "a b -> a c", "sum")
    with pytest.raises(KeyError):
        loops.reduce(integers(3, 3), "a b -> a", "median")
