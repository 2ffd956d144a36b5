"""Tensors in memory, continued: dimensions with names, in annotations and in patterns."""

import itertools
import math
import warnings

import numpy as np
import torch
from beartype.roar import BeartypeCallHintViolation
from einops import EinopsError, einsum, rearrange, reduce
from hypothesis import example, given
from hypothesis import strategies as st
from jaxtyping import Float, TypeCheckError
from torch import Tensor

from properties.claims import also, context, corrects, costly, holds, holds_when, refuted
from properties.evidence import every, may_fail, when
from properties.instruments.hooks import refused_under_hooks
from properties.instruments.sharing import same_storage
from properties.refusals import refused
from properties.strategies import annotations, patterns
from properties.strategies.annotations import Annotated, Call, Guard, Lengthened
from properties.strategies.layouts import layouts
from properties.strategies.patterns import MERGE, PROJECT, SCORES, SPLIT, Contraction, Heads, Rearrangement, Reduction
from reference import einsum as loops
from reference.dtypes import DTYPES, Kind
from reference.strided import can_view

# ── annotations ──


@holds("tensors.jaxtyping.annotation-creates")
@given(case=annotations.annotated())
@example(case=Annotated((2, 2, 1, 3), ("batch", "seq", "heads", "hidden")))
def test_an_annotated_assignment_makes_the_same_tensor(case):
    """A tensor can be created with a jaxtyping annotation that names its dimensions.

    The annotation changes nothing about the tensor. Asked by isinstance, it agrees with the tensor where
    there are as many names as dimensions, no name has two lengths, and the dtype is a floating-point one.
    """
    plain = case.build()
    x: Float[Tensor, "batch seq heads hidden"] = case.build()
    assert type(x) is Tensor
    assert (x.shape, x.stride(), x.dtype) == (plain.shape, plain.stride(), plain.dtype)
    assert x.tolist() == plain.tolist()
    assert isinstance(x, case.annotation) == case.fits


@also("tensors.jaxtyping.annotation-creates")
@given(case=annotations.signed_annotations())
@example(case=Annotated((1, 3), ("#a", "a")))
@example(case=Annotated((2, 3), ("a", "a+1")))
@example(case=Annotated((2, 3, 4), ("*c", "4")))
@example(case=Annotated((3,), ("...", "a", "_")))
@example(case=Annotated((2,), ("a",), torch.uint8, "Int"))
@example(case=Annotated((2,), ("a",), torch.bool, "Num"))
@example(case=Annotated((2,), ("a",), torch.bool, "Shaped"))
def test_each_sign_of_an_annotation_says_what_fits(case):
    """'_' is any length, a number that length, '#a' the length of a or 1, 'a+1' one more, '...' and '*c' any
    dimensions.

    Int has no unsigned integers, Integer both, Inexact the complex numbers too, Num no booleans, and Shaped all.
    """
    assert isinstance(case.build(), case.annotation) == case.fits


@also("tensors.jaxtyping.annotation-creates")
def test_float_is_every_floating_point_dtype_but_a_scale_and_a_pack():
    """Of all dtypes, Float takes the floating-point ones, four FP8 formats among them.

    It takes neither float8_e8m0fnu, which holds scales, nor float4_e2m1fn_x2, which packs two numbers into a
    byte, although torch calls both floating point.
    """
    here = [name for name in DTYPES if hasattr(torch, name)]
    taken = [isinstance(annotations.empty(name), Float[Tensor, "elements"]) for name in here]
    floating = [DTYPES[name].kind is Kind.FLOATING and name != "float4_e2m1fn_x2" for name in here]
    dtypes = {each for each in vars(torch).values() if isinstance(each, torch.dtype)}
    every(
        "every dtype",
        [seen == due for seen, due in zip(taken, floating, strict=True)],
        here,
        size=len(dtypes),
    )
    said = [getattr(torch, name).is_floating_point for name in here]
    both = {"float8_e8m0fnu", "float4_e2m1fn_x2"} & set(here)
    assert {name for name, seen, says in zip(here, taken, said, strict=True) if seen != says} == both


@holds_when(
    "tensors.jaxtyping.prevents-errors",
    "something checks it: plain Python never checks an annotation on an assignment, nor does jaxtyping's"
    " import hook; beartype's import hook checks its rank and dtype; a function under @jaxtyped with a type checker"
    " rejects a wrong rank, a wrong dtype, and one name bound to two lengths",
)
@costly(cases=50, because="a case takes milliseconds")
@given(call=st.one_of(annotations.guarded_calls, annotations.bare_calls))
@example(call=Call(Guard.JAXTYPED, (2, 3), (2,)))
@example(call=Call(Guard.NOTHING, (2, 3), (2,)))
def test_checked_names_refuse_just_the_calls_that_do_not_fit(call):
    """Naming dimensions this way reduces dimension mistakes.

    Under a checker a call is refused if, and only if, its arguments are not what the signature says. The same
    function without one, with annotated assignments inside, takes every call.
    """
    refuses = call.refused()
    if when(call.guard is Guard.JAXTYPED):
        assert refuses == (not call.is_right)
    else:
        assert not refuses
        may_fail(refuses == (not call.is_right))


@also("tensors.jaxtyping.prevents-errors")
@costly(cases=48, because="jaxtyping tells at length what it refuses")
@given(call=annotations.lengthened())
@example(call=Lengthened((2, 3), (2, 1), (2, 4)))
@example(call=Lengthened((2, 3), (1, 3), (2, 4)))
@example(call=Lengthened((2, 3), (2, 3), (2, 3)))
def test_leading_dimensions_and_results_are_checked_with_the_rest(call):
    """'*batch' stands for the same dimensions in every argument, and what a function returns is checked too."""
    assert call.refused() == (not call.is_right)


@also("tensors.jaxtyping.prevents-errors")
@costly(cases=16, because="makes up to eleven calls, one of which is refused and told at length")
@given(length=st.integers(0, 9), right=st.integers(100, 200), dtype=st.sampled_from((torch.int64, torch.bool)))
@example(length=2, right=100, dtype=torch.int64)
def test_a_list_is_looked_at_in_one_place(length, right, dtype):
    """beartype looks at one element of a list: a wrong one among a hundred mostly goes through.

    At another one each time, up to three a call. That ten calls find the one in a hundred has a chance below
    1e-15. A list of nothing but wrong ones is refused.
    """
    vector, wrong = torch.zeros(length), torch.zeros(length, dtype=dtype)
    assert annotations.shortest([vector] * right) == length
    assert not all(refused(TypeCheckError, annotations.shortest, [*[vector] * right, wrong]) for _ in range(10))
    assert refused(TypeCheckError, annotations.shortest, [wrong] * 2)


@also("tensors.jaxtyping.prevents-errors")
@costly(cases=1, because="starts a process", lowest="default")
def test_import_hooks_check_what_they_are_said_to_check():
    """jaxtyping's hook looks at arguments only; beartype's looks at assignments too, but binds no names.

    In a fresh process one module is imported three ways. Its calls assign to annotated variables or pass
    arguments, with a wrong rank, a wrong dtype, or two lengths for one name; the right ones are never
    refused.
    """
    seen = refused_under_hooks()
    assert seen["nothing"] == []
    assert seen["jaxtyping"] == ["pass_dtype", "pass_lengths", "pass_rank"]
    assert seen["beartype"] == ["assign_dtype", "assign_rank", "pass_dtype", "pass_rank"]


@also("tensors.jaxtyping.prevents-errors")
@given(lengths=st.one_of(st.integers(0, 200).map(lambda n: (n, n)), st.tuples(*[st.integers(0, 200)] * 2)))
@example(lengths=(5, 4))
def test_a_name_is_bound_within_one_call_only(lengths):
    """Outside of a checked call a name binds nothing; inside one it does, and a dataclass has names of its
    own.

    So a vector of any length is an instance of a vector named n, and of another length right after. A value
    of a checked dataclass that goes into a checked function may have another length than the function's
    argument of the same name, while its own fields must agree with each other.
    """
    x, y = map(torch.zeros, lengths)
    assert isinstance(x, Float[Tensor, "n"])
    assert isinstance(y, Float[Tensor, "n"])
    assert annotations.is_bound_inside(x, y) == (len(x) == len(y))
    assert refused(TypeError, annotations.Pair, x, y) == (len(x) != len(y))
    assert annotations.shortened(annotations.Pair(x, x), y).left.shape == (len(x) // 2,)


@also("tensors.jaxtyping.prevents-errors")
@given(targets=st.sampled_from((2, 4)).flatmap(lambda n: st.tuples(*[st.integers(-64, 64)] * n)))
@example(targets=(0, 3, 6, 7))
def test_a_checked_signature_catches_the_loss_of_a_column_against_a_row(targets):
    """A loss of predictions [n, 1] against targets [n] is taken between all pairs, and torch only warns.

    Each prediction is then pulled towards the mean of all targets: from zero, the gradient is -2/n times the
    mean instead of -2/n times its own target. Under a checked signature that says "n" twice the call is
    refused.
    """
    n = len(targets)
    wanted = torch.tensor(targets, dtype=torch.float32)
    column = torch.zeros(n, 1, requires_grad=True)
    with warnings.catch_warnings(record=True, action="always") as warned:
        assert refused(BeartypeCallHintViolation, annotations.checked_loss, column, wanted)
        torch.nn.functional.mse_loss(column, wanted).backward()
    assert torch.equal(column.grad[:, 0], torch.full((n,), -2 / n * sum(targets) / n))
    assert len(warned) == 1
    row = torch.zeros(n, requires_grad=True)
    annotations.checked_loss(row, wanted).backward()
    assert torch.equal(row.grad, -2 / n * wanted)


@refuted(
    "tensors.jaxtyping.names-reach-einops",
    instead="einops never sees an annotation: its pattern's names are its own. Matching them is the writer's"
    " discipline.",
)
@given(shape=st.tuples(st.integers(1, 20), st.integers(1, 20)))
@example(shape=(2, 3))
def test_einops_takes_its_names_from_the_annotation(shape):
    """Names given in the annotation carry over to later einops calls.

    If they did, a tensor annotated as rows and columns would already be in the order of "rows columns", and
    a pattern that asks for that order would give it back.
    """
    x: Float[Tensor, "rows columns"] = torch.arange(math.prod(shape)).float().reshape(shape)
    assert torch.equal(rearrange(x, "columns rows -> rows columns"), x)


@corrects("tensors.jaxtyping.names-reach-einops")
@costly(cases=50, because="a case takes milliseconds")
@given(case=patterns.rearrangements())
def test_einops_goes_by_the_names_of_its_pattern_alone(case):
    """A tensor annotated one way and rearranged with other names gives what it gives with any names."""
    x: Float[Tensor, "..."] = case.build()
    other = case.renamed()
    assert torch.equal(rearrange(x, case.pattern, **case.lengths), rearrange(x, other.pattern, **other.lengths))


# ── einsum ──

context(
    "tensors.einops.named-dimensions",
    "einops transforms tensors by named dimensions, after Einstein's summation notation; einsum is its most"
    " used operation and reduce a common one.",
    source="the document, section 2",
)


@holds("tensors.einsum.matches-matmul")
@given(case=patterns.scores())
@example(case=Contraction(SCORES, ((2, 3, 4), (2, 3, 4))))
def test_einsum_over_hidden_multiplies_by_the_transpose(case):
    """einsum over 'batch seq1 hidden, batch seq2 hidden -> batch seq1 seq2' equals x @ y.transpose(-2, -1).

    On whole numbers, where every order of summation is exact. The reference's loops, torch.einsum and
    numpy.einsum give the same.
    """
    x, y = case.build()
    product = einsum(x, y, SCORES)
    assert torch.equal(product, x @ y.transpose(-2, -1))
    assert torch.equal(product, torch.einsum("bsh,bth->bst", x, y))
    assert np.array_equal(product, np.einsum("bsh,bth->bst", *case.arrays()))
    assert np.array_equal(product, loops.einsum(SCORES, *case.arrays()))


@holds("tensors.einsum.ellipsis")
@costly(cases=50, because="a case takes milliseconds")
@given(case=patterns.leading_contractions())
@example(case=Contraction("... a, ... b -> ... a b", ((2, 1, 3), (5, 4))))
@example(case=Contraction("... a, a b -> ... b", ((3,), (3, 4))))
def test_an_ellipsis_is_the_leading_dimensions(case):
    """'...' stands for the leading dimensions.

    As many as there are, none included. They are aligned at the last and broadcast against each other. The
    pattern with a name for each of them gives the same, and so do the reference's loops.
    """
    operands = case.build()
    result = einsum(*operands, case.pattern)
    assert torch.equal(result, torch.einsum(case.spelled_out(), *operands))
    assert np.array_equal(result, loops.einsum(case.pattern, *case.arrays()))


@also("tensors.einsum.ellipsis")
@given(case=patterns.heads)
def test_leading_dimensions_that_the_output_leaves_out_are_summed(case):
    """torch sums over '...' where the output has none; NumPy refuses such a pattern."""
    x = case.build()
    total = x.flatten(0, -2).sum(0) if case.leading else x
    assert torch.equal(einsum(x, "... total -> total"), total)
    assert refused(ValueError, np.einsum, "...a->a", x.numpy()) == bool(case.leading)


@holds("tensors.einsum.general-product-sum")
@costly(cases=50, because="a case takes milliseconds")
@given(case=patterns.contractions)
@example(case=Contraction("a a -> a", ((3, 3),)))
@example(case=Contraction("a b, b c -> a c", ((2, 1), (3, 4))))
@example(case=Contraction("a b, b c, c -> a", ((2, 3), (3, 4), (4,))))
def test_einsum_is_every_product_summed_over_the_names_left_out(case):
    """einsum is a general interface for tensor products and sums.

    One to three operands, free and summed names, none of them and all. A name that stands twice in one
    operand takes the diagonal. A named dimension of length one stretches silently to any other length that
    the name has. torch takes numbers for names too, in a list behind each operand.
    """
    operands = case.build()
    expected = loops.einsum(case.pattern, *case.arrays())
    assert np.array_equal(torch.einsum(case.pattern, *operands), expected)
    assert np.array_equal(torch.einsum(*case.listed()), expected)
    assert np.array_equal(einsum(*operands, case.pattern), expected)


@also("tensors.einsum.general-product-sum")
@given(case=patterns.implied_contractions())
@example(case=Contraction("c a, a B", ((2, 3), (3, 4))))
@example(case=Contraction("a a", ((3, 3),)))
@example(case=Contraction("... b, ... a", ((2, 1, 3), (5, 4))))
def test_without_an_arrow_the_names_that_stand_once_are_kept(case):
    """torch.einsum without '->' keeps them in the order of the alphabet, capitals first, behind '...'.

    So does NumPy. einops asks for the '->'.
    """
    expected = loops.einsum(loops.explicit(case.pattern), *case.arrays())
    assert np.array_equal(torch.einsum(case.pattern, *case.build()), expected)
    assert refused(ValueError, einsum, *case.build(), case.pattern)


@also("tensors.einsum.general-product-sum")
@given(lengths=st.tuples(*[st.integers(0, 20)] * 3))
@example(lengths=(2, 3, 4))
def test_a_length_of_one_stretches_without_a_word(lengths):
    """Where one operand has 1 for a name that is longer elsewhere, its one column counts for all of them."""
    rows, inner, columns = lengths
    x, y = Contraction("", ((rows, 1), (inner, columns))).build()
    assert torch.equal(einsum(x, y, "rows inner, inner columns -> rows columns"), x.expand(rows, inner) @ y)


@also("tensors.einsum.general-product-sum")
@given(lengths=st.tuples(st.integers(0, 12), st.integers(0, 12)))
@example(lengths=(2, 3))
def test_a_name_that_stands_twice_takes_the_diagonal(lengths):
    """'batch n n -> batch n' is the diagonal of each matrix, and 'batch n n -> batch' its trace."""
    batch, n = lengths
    (x,) = Contraction("", ((batch, n, n),)).build()
    assert torch.equal(einsum(x, "batch n n -> batch n"), x.diagonal(dim1=-2, dim2=-1))
    assert torch.equal(torch.einsum("bnn->b", x), x.diagonal(dim1=-2, dim2=-1).sum(-1))
    assert torch.equal(torch.einsum("nn->", x.sum(0)), x.sum(0).trace())
    assert torch.equal(torch.einsum("nn", x.sum(0)), x.sum(0).trace())


@also("tensors.einsum.general-product-sum")
@given(case=patterns.broken_contractions)
@example(case=Contraction("a b, b c -> a d", ((2, 3), (3, 4))))
@example(case=Contraction("a b c, b c -> a c", ((2, 3), (3, 4))))
@example(case=Contraction("a b -> a a", ((2, 3),)))
@example(case=Contraction("a b, b -> a", ((2, 3), (4,))))
def test_einsum_refuses_a_pattern_that_does_not_fit(case):
    """An unknown or repeated output name, another rank, unequal lengths or a missing operand raises.

    torch raises RuntimeError. einops raises its EinopsError, which is one too, for the output's names and
    hands the rest on to torch.
    """
    operands = case.build()
    assert refused(loops.PatternError, loops.einsum, case.pattern, *case.arrays())
    assert refused(RuntimeError, torch.einsum, case.pattern, *operands)
    assert refused(RuntimeError, einsum, *operands, case.pattern)


# ── reduce and rearrange ──


@holds("tensors.einops.reduce-mean")
@given(shape=st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(1, 33)))
@example(shape=(2, 3, 4))
def test_reduce_by_mean_is_the_mean_over_the_last_dimension(shape):
    """reduce(x, '... hidden -> ...', 'mean') equals x.mean(dim=-1) and has shape 'batch seq'."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    mean = reduce(x, "... hidden -> ...", "mean")
    assert mean.shape == shape[:2]
    assert torch.equal(mean, x.mean(dim=-1))
    exact = np.vectorize(math.fsum, signature="(n)->()", otypes=[float])(x.double()) / shape[2] if x.numel() else 0
    assert np.allclose(mean, exact, rtol=0, atol=2**-18)


@also("tensors.einops.reduce-mean")
@given(case=st.one_of(patterns.reductions(), patterns.grouped_reductions()))
@example(case=Reduction("max", "a (b c) -> c a", (2, 6), (("c", 3),)))
@example(case=Reduction("sum", "a b -> a 1", (2, 3)))
def test_reduce_brings_together_what_differs_in_the_names_left_out(case):
    """Mean, sum, max, min, prod, any and all, over any one or more dimensions, as the reference's loops give
    them.

    Over parts of a dimension too, and with a 1 in the place of what goes. The mean of no elements is NaN, their
    sum 0, their product 1.
    """
    x = case.build()
    expected = loops.reduce(x.numpy(), case.pattern, case.how, **case.lengths).astype(np.float32)
    assert np.array_equal(reduce(x, case.pattern, case.how, **case.lengths), expected, equal_nan=True)


@also("tensors.einops.reduce-mean")
@given(
    shape=st.lists(st.integers(0, 4), min_size=1, max_size=4).map(tuple),
    dtype=st.sampled_from((torch.int64, torch.int32, torch.uint8, torch.bool, torch.complex64)),
)
@example(shape=(2, 3), dtype=torch.int64)
@example(shape=(2, 3), dtype=torch.complex64)
def test_a_mean_of_whole_numbers_is_refused(shape, dtype):
    """reduce by mean raises for integers and booleans, as torch's mean does; for complex numbers only reduce raises.

    Where the pattern leaves out no name there is nothing to reduce, and the elements come back as they are.
    """
    x = torch.ones(shape, dtype=dtype)
    assert refused(NotImplementedError, reduce, x, "... hidden -> ...", "mean")
    assert refused(RuntimeError, x.mean, dim=-1) == (not dtype.is_complex)
    assert torch.equal(reduce(x, "... hidden -> ... hidden", "mean"), x)


@also("tensors.einops.reduce-mean")
@given(
    shape=st.lists(st.integers(0, 4), min_size=2, max_size=5).map(tuple),
    how=st.sampled_from(patterns.REDUCTIONS),
)
@example(shape=(3, 3), how="mean")
def test_a_name_that_stands_twice_is_refused(shape, how):
    """In reduce and rearrange a repeated name raises EinopsError: the diagonal is einsum's."""
    x = torch.ones(shape)
    assert refused(EinopsError, reduce, x, "... n n -> ... n", how)
    assert refused(EinopsError, rearrange, x, "... n n -> ... n")


@holds("tensors.einops.split")
@given(case=patterns.heads)
@example(case=Heads((2, 3), 2, 4, 4))
def test_one_factor_is_enough_to_split_a_dimension(case):
    """rearrange '... (heads hidden1) -> ... heads hidden1' splits a dimension once one factor is given.

    heads is the outer factor: element [..., h, i] of the result is element [..., h * hidden1 + i].
    """
    x = case.build()
    split = rearrange(x, SPLIT, heads=case.heads)
    assert split.shape == (*case.leading, case.heads, case.hidden1)
    for h, i in itertools.product(range(case.heads), range(case.hidden1)):
        assert torch.equal(split[..., h, i], x[..., h * case.hidden1 + i])


@also("tensors.einops.split")
@given(case=patterns.indivisible_splits())
def test_a_length_that_the_factor_does_not_divide_is_refused(case):
    """A dimension that is no multiple of heads raises EinopsError."""
    assert refused(EinopsError, rearrange, case.build(), case.pattern, **case.lengths)
    assert refused(loops.IndivisibleLength, loops.rearrange, case.build().numpy(), case.pattern, **case.lengths)


@also("tensors.einops.split")
@given(case=patterns.splits_below_one())
def test_no_factor_below_one_is_taken(case):
    """Zero heads raise ZeroDivisionError, not an error of einops; fewer raise RuntimeError.

    That one is EinopsError where the length is no multiple, and torch's own, of a shape with a negative size,
    where it is.
    """
    error = ZeroDivisionError if case.lengths["heads"] == 0 else RuntimeError
    assert refused(error, rearrange, case.build(), case.pattern, **case.lengths)


@holds("tensors.einops.product-of-factors")
@given(case=patterns.heads)
@example(case=Heads((2, 3), 2, 4, 4))
def test_the_joined_dimension_is_the_product_of_its_factors(case):
    """The joined dimension is the product heads * hidden1."""
    split = torch.zeros(*case.leading, case.heads, case.hidden1)
    assert rearrange(split, MERGE).shape == (*case.leading, case.heads * case.hidden1)


@also("tensors.einops.product-of-factors")
@given(case=patterns.rearrangements())
def test_every_rearrangement_puts_every_element_where_its_names_say(case):
    """Any splits, joins and permutations in one pattern: lengths and elements as the reference's loops give
    them.
    """
    x = case.build()
    expected = loops.rearrange(x.numpy(), case.pattern, **case.lengths)
    assert np.array_equal(rearrange(x, case.pattern, **case.lengths), expected)


@also("tensors.einops.product-of-factors")
@given(case=patterns.misfits())
@example(case=Rearrangement("a (b c) -> a b c", (2, 6), (("b", 2), ("c", 4))))
@example(case=Rearrangement("a b -> a", (2, 3)))
def test_a_pattern_that_does_not_fit_is_refused(case):
    """Names on one side only or twice, another rank, an unused length, factors with another product: all raise."""
    assert refused(loops.PatternError, loops.rearrange, case.build().numpy(), case.pattern, **case.lengths)
    assert refused(EinopsError, rearrange, case.build(), case.pattern, **case.lengths)


@holds("tensors.einops.head-projection")
@costly(cases=50, because="a case takes milliseconds")
@given(case=patterns.heads)
@example(case=Heads((2, 3), 2, 4, 4))
def test_every_head_is_multiplied_by_the_one_matrix(case):
    """einsum '... hidden1, hidden1 hidden2 -> ... hidden2' applies one matrix to every head."""
    x, matrix = rearrange(case.build(), SPLIT, heads=case.heads), case.weight()
    projected = einsum(x, matrix, PROJECT)
    assert torch.equal(projected, x @ matrix)
    assert np.array_equal(projected, loops.einsum(PROJECT, x.numpy(), matrix.numpy()))
    for head in range(case.heads):
        assert torch.equal(projected[..., head, :], x[..., head, :] @ matrix)


@holds_when(
    "tensors.einops.merge",
    "hidden2 equals hidden1, as with a square weight; otherwise the joined width is heads * hidden2",
)
@given(case=patterns.heads)
@example(case=Heads((2, 3), 2, 4, 4))
@example(case=Heads((2, 3), 2, 4, 3))
def test_merging_gives_the_original_width_back(case):
    """rearrange '... heads hidden2 -> ... (heads hidden2)' joins them into the original total_hidden
    again.
    """
    x = case.build()
    merged = rearrange(einsum(rearrange(x, SPLIT, heads=case.heads), case.weight(), PROJECT), MERGE)
    assert (merged.shape == x.shape) == when(case.hidden2 == case.hidden1)
    assert merged.shape == (*case.leading, case.heads * case.hidden2)


@also("tensors.einops.merge")
@given(case=patterns.heads)
@example(case=Heads((2, 3), 2, 4, 4))
def test_splitting_and_merging_undo_each_other(case):
    """Splitting and then merging gives the tensor back, and so does merging and then splitting."""
    x = case.build()
    split = rearrange(x, SPLIT, heads=case.heads)
    merged = rearrange(split, MERGE)
    assert torch.equal(merged, x)
    assert torch.equal(rearrange(merged, SPLIT, heads=case.heads), split)


@also("tensors.einops.merge")
@given(layout=layouts())
def test_a_merge_is_a_view_where_the_strides_allow_it(layout):
    """The merged tensor shares its storage just where view() could have made it, and is a copy elsewhere."""
    x = layout.build()[None, None]  # two dimensions, at least, to join
    *leading, heads, hidden = x.shape
    fits = can_view(tuple(x.shape), x.stride(), (*leading, heads * hidden))
    assert same_storage(x, rearrange(x, MERGE)) == fits
