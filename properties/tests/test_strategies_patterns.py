"""The patterns that are drawn: what they reach, what they shrink to, and that each says what it is said to say."""

from __future__ import annotations

from collections import Counter

import einops
import numpy as np
import pytest
import torch
from hypothesis.strategies import SearchStrategy

from properties.strategies import patterns
from properties.strategies.patterns import Contraction, Heads, Rearrangement, Reduction
from properties.tests.drawing import drawn, share, smallest
from reference import einsum as loops


def summed(case: Contraction) -> bool:
    return not {name for names in case.operands for name in names} <= {*case.output, "..."}


def repeats(case: Contraction) -> bool:
    return any(len(set(names)) < len(names) for names in case.operands)


def stretches(case: Contraction) -> bool:
    """Whether a name, none of them ``...``, is 1 long in one operand and longer in another."""
    if "..." in case.pattern:
        return False
    lengths: dict[str, set[int]] = {}
    for names, shape in zip(case.operands, case.shapes, strict=True):
        for name, length in zip(names, shape, strict=True):
            lengths.setdefault(name, set()).add(length)
    return any(1 in seen and len(seen) > 1 for seen in lengths.values())


class TestContractions:
    def test_they_reach_every_kind_of_expression(self) -> None:
        cases = drawn(patterns.contractions)
        operands = Counter(len(case.shapes) for case in cases)
        assert all(operands[count] >= 0.1 * len(cases) for count in (1, 2, 3))
        assert share(cases, summed) >= 0.3
        assert share(cases, lambda case: not summed(case)) >= 0.2
        assert share(cases, repeats) >= 0.2
        assert share(cases, stretches) >= 0.05
        assert share(cases, lambda case: any(0 in shape for shape in case.shapes)) >= 0.05
        assert share(cases, lambda case: "..." in case.pattern) >= 0.3
        assert share(cases, lambda case: "..." not in case.pattern) >= 0.3
        assert share(cases, lambda case: not case.output) >= 0.05

    def test_most_of_them_have_elements_and_differ(self) -> None:
        cases = drawn(patterns.contractions)
        assert share(cases, lambda case: all(0 not in shape for shape in case.shapes)) >= 0.7
        assert len(set(cases)) >= 0.7 * len(cases)

    def test_leading_dimensions_are_none_one_and_two_and_broadcast(self) -> None:
        cases = drawn(patterns.leading_contractions())
        ranks = Counter(
            max(len(s) - len(n) + 1 for n, s in zip(case.operands, case.shapes, strict=True)) for case in cases
        )
        assert all(ranks[rank] >= 0.1 * len(cases) for rank in (0, 1, 2))
        pairs = [case for case in cases if len(case.shapes) == 2]
        unequal = share(
            pairs,
            lambda case: len({len(s) - len(n) for n, s in zip(case.operands, case.shapes, strict=True)}) > 1,
        )
        assert unequal >= 0.1

    def test_they_shrink_to_few_names_of_length_one(self) -> None:
        assert smallest(patterns.contractions, summed) == Contraction("a -> ", ((1,),))
        assert smallest(patterns.contractions, repeats) == Contraction("a a -> ", ((1, 1),))
        stretched = smallest(patterns.contractions, stretches)
        assert len(stretched.shapes) == 2
        assert {length for shape in stretched.shapes for length in shape} == {1, 2}

    def test_operands_are_whole_numbers_and_the_same_for_the_same_shapes(self) -> None:
        case = Contraction("a b, b c -> a c", ((2, 3), (3, 4)))
        for first, second, shape in zip(case.build(), case.build(), case.shapes, strict=True):
            assert first.shape == shape
            assert torch.equal(first, second)
            assert torch.equal(first, first.round())
            assert len(set(first.flatten().tolist())) > 2
        assert all(np.array_equal(a, b) for a, b in zip(case.arrays(), case.build(), strict=True))

    def test_an_ellipsis_is_spelled_out_from_the_last_dimension(self) -> None:
        case = Contraction("... a, ... b -> a ... b", ((5, 2, 3), (2, 4)))
        assert case.spelled_out() == "p q a, q b -> a p q b"
        assert Contraction("... a -> ...", ((3,),)).spelled_out() == "a -> "

    @pytest.mark.parametrize(
        ("strategy", "error"),
        [
            (patterns.contractions_with_an_unknown_output(), loops.UnknownName),
            (patterns.contractions_with_a_repeated_output(), loops.RepeatedName),
            (patterns.contractions_of_another_rank(), loops.WrongRank),
            (patterns.contractions_of_unequal_lengths(), loops.UnequalLengths),
            (patterns.contractions_short_of_an_operand(), loops.WrongRank),
        ],
    )
    def test_a_broken_expression_breaks_the_rule_it_is_named_after(
        self, strategy: SearchStrategy[Contraction], error: type[Exception]
    ) -> None:
        for case in drawn(strategy, 100):
            with pytest.raises(error):
                loops.einsum(case.pattern, *case.arrays())

    def test_implied_expressions_have_no_output_and_some_capitals(self) -> None:
        cases = drawn(patterns.implied_contractions())
        assert not any("->" in case.pattern for case in cases)
        assert share(cases, lambda case: case.pattern != case.pattern.lower()) >= 0.3
        outputs = [loops.explicit(case.pattern).partition("->")[2].split() for case in cases]
        assert share(outputs, lambda output: len(output) > 1) >= 0.3

    def test_score_cases_fit_their_pattern(self) -> None:
        cases = drawn(patterns.scores())
        assert share(cases, lambda case: any(0 in shape for shape in case.shapes)) >= 0.03
        assert share(cases, lambda case: case.shapes[0][1] != case.shapes[1][1]) >= 0.5
        assert len(set(cases)) >= 0.9 * len(cases)


class TestRearrangements:
    def test_they_split_join_move_and_lead(self) -> None:
        cases = drawn(patterns.rearrangements())
        sides = [case.pattern.split("->") for case in cases]
        assert sum("(" in left for left, _ in sides) >= 0.2 * len(cases)
        assert sum("(" in right for _, right in sides) >= 0.2 * len(cases)
        assert share(cases, lambda case: "..." in case.pattern) >= 0.3
        assert share(cases, lambda case: 0 in case.shape) >= 0.05
        moved = [
            [name for name in left if name in "abcd"] != [name for name in right if name in "abcd"]
            for left, right in sides
        ]
        assert sum(moved) >= 0.3 * len(cases)

    def test_they_have_ones_and_empty_brackets_on_either_side(self) -> None:
        sides = [case.pattern.split(" -> ") for case in drawn(patterns.rearrangements())]
        for place in (0, 1):
            for one in ("1", "()"):
                assert sum(one in pair[place] for pair in sides) >= 0.1 * len(sides)

    def test_a_split_leaves_one_factor_to_be_worked_out(self) -> None:
        case = smallest(patterns.rearrangements(), lambda case: case.factors and 0 not in case.shape)
        assert case == Rearrangement("(a b) -> a b", (1,), (("b", 1),))

    def test_renaming_changes_every_name_and_nothing_else(self) -> None:
        case = Rearrangement("... (a b) c -> c (b a) ...", (2, 6, 4), (("b", 3),))
        other = case.renamed()
        assert other == Rearrangement("... (a_a b_b) c_c -> c_c (b_b a_a) ...", (2, 6, 4), (("b_b", 3),))
        for each in (case, other):
            assert einops.rearrange(each.build(), each.pattern, **each.lengths).shape == (4, 6, 2)

    def test_elements_are_all_different(self) -> None:
        assert len(set(Rearrangement("a b -> b a", (3, 5)).build().flatten().tolist())) == 15


class TestHeads:
    def test_both_sides_of_the_merge_are_reached(self) -> None:
        cases = drawn(patterns.heads)
        assert 0.2 <= share(cases, lambda case: case.hidden1 == case.hidden2) <= 0.8
        assert share(cases, lambda case: case.heads == 1) >= 0.05
        assert share(cases, lambda case: case.heads > 1) >= 0.5
        assert share(cases, lambda case: not case.leading) >= 0.01
        assert share(cases, lambda case: 0 in (case.hidden1, case.hidden2)) >= 0.05
        assert len(set(cases)) >= 0.9 * len(cases)

    def test_the_smallest_has_one_head_and_no_leading_dimension(self) -> None:
        assert smallest(patterns.heads, lambda case: True) == Heads((), 1, 1, 1)

    def test_no_number_of_heads_divides_an_indivisible_split(self) -> None:
        for case in drawn(patterns.indivisible_splits()):
            assert case.lengths["heads"] > 1
            assert case.shape[-1] % case.lengths["heads"]

    def test_factors_below_one_divide_and_do_not(self) -> None:
        cases = drawn(patterns.splits_below_one())
        assert share(cases, lambda case: case.lengths["heads"] == 0) >= 0.05
        negative = [case for case in cases if case.lengths["heads"] < 0]
        assert share(negative, lambda case: case.shape[-1] % case.lengths["heads"] == 0) >= 0.3
        assert share(negative, lambda case: case.shape[-1] % case.lengths["heads"]) >= 0.1


class TestReductions:
    def test_every_reduction_meets_every_number_of_axes(self) -> None:
        cases = drawn(patterns.reductions())
        assert {case.how for case in cases} == set(patterns.REDUCTIONS)
        counts = Counter(len(case.axes) for case in cases)
        assert all(counts[count] >= 0.05 * len(cases) for count in (1, 2, 3))
        assert 0 not in counts
        assert share(cases, lambda case: 0 in case.shape) >= 0.05

    def test_a_largest_or_smallest_is_never_asked_of_nothing(self) -> None:
        for case in drawn(patterns.reductions()):
            if case.how in ("max", "min"):
                assert all(case.shape[axis] for axis in case.axes)

    def test_grouped_ones_split_join_move_and_lead(self) -> None:
        cases = drawn(patterns.grouped_reductions())
        assert {case.how for case in cases} == set(patterns.REDUCTIONS)
        assert share(cases, lambda case: case.factors) >= 0.3
        assert share(cases, lambda case: "..." in case.pattern) >= 0.3
        assert share(cases, lambda case: "1" in case.pattern) >= 0.2

    def test_the_smallest_reduces_one_dimension_to_none(self) -> None:
        assert smallest(patterns.reductions(), lambda case: True) == Reduction("mean", "a -> ", (1,))
