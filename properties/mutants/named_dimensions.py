"""Worlds in which names go wrong: checkers that do not check, patterns that move, split or sum the wrong way."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import torch
from einops import EinopsError
from jaxtyping import Shaped
from torch import Tensor

from properties.mutants.mutant import mutant, patched

# What jaxtyping and einops do is changed where they do it: the names that a specification imports stay bound to the
# functions it imported, and these call the ones below.


def _array_types() -> Any:
    import jaxtyping._array_types

    return jaxtyping._array_types


def _torch_backend() -> Any:
    import einops._backends

    return einops._backends.TorchBackend


def _einops() -> Any:
    import einops.einops

    return einops.einops


# ── annotations ──


@mutant(
    "annotations-without-shapes",
    breaks=("tensors.jaxtyping.annotation-creates", "tensors.jaxtyping.prevents-errors"),
    properties=(
        "test_an_annotated_assignment_makes_the_same_tensor",
        "test_checked_names_refuse_just_the_calls_that_do_not_fit",
        "test_a_name_is_bound_within_one_call_only",
        "test_a_checked_signature_catches_the_loss_of_a_column_against_a_row",
    ),
)
def annotations_without_shapes() -> Iterator[None]:
    """jaxtyping compares dtypes and never looks at a shape."""
    with patched(_array_types()._MetaAbstractArray, "_check_shape", lambda *anything: ""):
        yield


@mutant(
    "annotations-without-dtypes",
    breaks=("tensors.jaxtyping.annotation-creates", "tensors.jaxtyping.prevents-errors"),
    properties=(
        "test_an_annotated_assignment_makes_the_same_tensor",
        "test_float_is_every_floating_point_dtype_but_a_scale_and_a_pack",
        "test_checked_names_refuse_just_the_calls_that_do_not_fit",
    ),
)
def annotations_without_dtypes() -> Iterator[None]:
    """jaxtyping compares shapes and takes any dtype for a Float."""
    meta = _array_types()._MetaAbstractArray
    check = meta.__instancecheck_str__

    def careless(annotation: Any, value: Any) -> str:
        said = check(annotation, value)
        return "" if said.startswith("this array has dtype") else str(said)

    with patched(meta, "__instancecheck_str__", careless):
        yield


@mutant(
    "names-with-two-lengths",
    breaks=("tensors.jaxtyping.prevents-errors",),
    properties=(
        "test_checked_names_refuse_just_the_calls_that_do_not_fit",
        "test_a_name_is_bound_within_one_call_only",
    ),
)
def names_with_two_lengths() -> Iterator[None]:
    """jaxtyping counts dimensions and lets one name stand for several lengths."""
    with patched(_array_types(), "_check_dims", lambda *anything: ""):
        yield


@mutant(
    "names-that-stay-bound",
    breaks=("tensors.jaxtyping.prevents-errors",),
    properties=("test_a_name_is_bound_within_one_call_only",),
)
def names_that_stay_bound() -> Iterator[None]:
    """A name keeps its first length for good, across calls and outside of them."""
    module = _array_types()
    check = module._check_dims
    bound: dict[str, int] = {}

    def remembering(dims: Any, shape: Any, memo: dict[str, int], arguments: Any) -> str:
        said = str(check(dims, shape, bound, arguments))
        memo.update(bound)
        return said

    with patched(module, "_check_dims", remembering):
        yield


@mutant(
    "hooks-switched-off",
    breaks=("tensors.jaxtyping.prevents-errors",),
    properties=("test_import_hooks_check_what_they_are_said_to_check",),
)
def hooks_switched_off() -> Iterator[None]:
    """The environment tells jaxtyping to check nothing."""
    with patch.dict(os.environ, JAXTYPING_DISABLE="1"):
        yield


@mutant(
    "loss-without-a-warning",
    breaks=("tensors.jaxtyping.prevents-errors",),
    properties=("test_a_checked_signature_catches_the_loss_of_a_column_against_a_row",),
)
def loss_without_a_warning() -> Iterator[None]:
    """The mean squared error of unequal shapes is taken in silence."""

    def quiet(predicted: Shaped[Tensor, "..."], wanted: Shaped[Tensor, "..."]) -> Shaped[Tensor, ""]:
        return (predicted - wanted).square().mean()

    with patched(torch.nn.functional, "mse_loss", quiet):
        yield


@mutant(
    "ones-do-not-broadcast",
    breaks=("tensors.jaxtyping.annotation-creates", "tensors.jaxtyping.prevents-errors"),
    properties=(
        "test_each_sign_of_an_annotation_says_what_fits",
        "test_leading_dimensions_and_results_are_checked_with_the_rest",
    ),
)
def ones_do_not_broadcast() -> Iterator[None]:
    """'#n' asks for the length n like 'n', and does not take 1."""
    module = _array_types()
    check = module._check_dims

    def strict(dims: Any, *rest: Any) -> Any:
        plain = [replace(dim, broadcastable=False) if hasattr(dim, "broadcastable") else dim for dim in dims]
        return check(plain, *rest)

    with patched(module, "_check_dims", strict):
        yield


@mutant(
    "leading-dimensions-are-not-bound",
    breaks=("tensors.jaxtyping.prevents-errors",),
    properties=("test_leading_dimensions_and_results_are_checked_with_the_rest",),
)
def leading_dimensions_are_not_bound() -> Iterator[None]:
    """'*batch' takes any dimensions in each argument, as '...' does."""
    meta = _array_types()._MetaAbstractArray
    check = meta._check_shape

    def forgetful(annotation: Any, value: Any, single: Any, variadic: Any, *rest: Any) -> Any:
        return check(annotation, value, single, {}, *rest)

    with patched(meta, "_check_shape", forgetful):
        yield


@mutant(
    "int-takes-unsigned",
    breaks=("tensors.jaxtyping.annotation-creates",),
    properties=("test_each_sign_of_an_annotation_says_what_fits",),
)
def int_takes_unsigned() -> Iterator[None]:
    """Int takes integers without a sign too."""
    import jaxtyping

    with patched(jaxtyping, "Int", jaxtyping.Integer):
        yield


@mutant(
    "every-element-is-looked-at",
    breaks=("tensors.jaxtyping.prevents-errors",),
    properties=("test_a_list_is_looked_at_in_one_place",),
)
def every_element_is_looked_at() -> Iterator[None]:
    """A checker goes through the whole list."""
    from properties.strategies import annotations

    original = annotations.shortest

    def thorough(vectors: list[Tensor]) -> int:
        return min([original([vector]) for vector in vectors])

    with patched(annotations, "shortest", thorough):
        yield


# ── einsum ──


@mutant(
    "einsum-reads-one-late",
    breaks=(
        "tensors.einsum.matches-matmul",
        "tensors.einsum.ellipsis",
        "tensors.einsum.general-product-sum",
        "tensors.einops.head-projection",
    ),
    properties=(
        "test_einsum_over_hidden_multiplies_by_the_transpose",
        "test_an_ellipsis_is_the_leading_dimensions",
        "test_leading_dimensions_that_the_output_leaves_out_are_summed",
        "test_einsum_is_every_product_summed_over_the_names_left_out",
        "test_a_name_that_stands_twice_takes_the_diagonal",
        "test_every_head_is_multiplied_by_the_one_matrix",
    ),
)
def einsum_reads_one_late() -> Iterator[None]:
    """einsum starts at the second column of its first operand and reads the first one last."""
    einsum = torch.einsum

    def late(pattern: str, first: Shaped[Tensor, "..."], *others: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
        return einsum(pattern, first.roll(-1, -1) if first.ndim else first, *others)

    with patched(torch, "einsum", late):
        yield


@mutant(
    "einsum-does-not-stretch",
    breaks=("tensors.einsum.general-product-sum",),
    properties=(
        "test_einsum_is_every_product_summed_over_the_names_left_out",
        "test_a_length_of_one_stretches_without_a_word",
    ),
)
def einsum_does_not_stretch() -> Iterator[None]:
    """A name that is 1 long in one operand is 1 long everywhere: the rest of a longer dimension is left out."""
    einsum = torch.einsum

    def shrinking(pattern: Any, *operands: Any) -> Shaped[Tensor, "..."]:
        if not isinstance(pattern, str):
            return einsum(pattern, *operands)
        sides = [side.split() or list(side) for side in pattern.replace(" ", "").split("->")[0].split(",")]
        names = [list("".join(side)) for side in sides]
        if "." in pattern or [len(side) for side in names] != [operand.ndim for operand in operands]:
            return einsum(pattern, *operands)
        ones = {
            name
            for side, operand in zip(names, operands, strict=True)
            for name, length in zip(side, operand.shape, strict=True)
            if length == 1
        }
        short = [
            operand[tuple(slice(0, 1) if name in ones else slice(None) for name in side)]
            for side, operand in zip(names, operands, strict=True)
        ]
        return einsum(pattern, *short)

    with patched(torch, "einsum", shrinking):
        yield


@mutant(
    "einsum-takes-any-pattern",
    breaks=("tensors.einsum.general-product-sum",),
    properties=("test_einsum_refuses_a_pattern_that_does_not_fit",),
)
def einsum_takes_any_pattern() -> Iterator[None]:
    """einsum gives zero where its pattern does not fit."""
    einsum = torch.einsum

    def lenient(pattern: str, *operands: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
        try:
            return einsum(pattern, *operands)
        except RuntimeError:
            return torch.zeros(())

    with patched(torch, "einsum", lenient):
        yield


@mutant(
    "einsum-keeps-the-order-of-appearance",
    breaks=("tensors.einsum.general-product-sum",),
    properties=("test_without_an_arrow_the_names_that_stand_once_are_kept",),
)
def einsum_keeps_the_order_of_appearance() -> Iterator[None]:
    """Without '->' einsum keeps the names in the order in which they first stand."""
    einsum = torch.einsum

    def appearing(pattern: Any, *operands: Any) -> Shaped[Tensor, "..."]:
        if isinstance(pattern, str) and "->" not in pattern:
            names = [name for name in pattern if name.isalpha()]
            once = "".join(name for name in names if names.count(name) == 1)
            pattern = f"{pattern}->{'...' * ('...' in pattern)}{once}"
        return einsum(pattern, *operands)

    with patched(torch, "einsum", appearing):
        yield


@mutant(
    "a-trace-is-a-sum",
    breaks=("tensors.einsum.general-product-sum",),
    properties=("test_a_name_that_stands_twice_takes_the_diagonal",),
)
def a_trace_is_a_sum() -> Iterator[None]:
    """A name that stands twice in an operand and not in the output sums all elements, and not the diagonal."""
    einsum = torch.einsum

    def summing(pattern: Any, *operands: Any) -> Shaped[Tensor, "..."]:
        total: Shaped[Tensor, ""] = operands[0].sum() if pattern in ("nn", "nn->") else einsum(pattern, *operands)
        return total

    with patched(torch, "einsum", summing):
        yield


@mutant(
    "numbers-for-names-are-reversed",
    breaks=("tensors.einsum.general-product-sum",),
    properties=("test_einsum_is_every_product_summed_over_the_names_left_out",),
)
def numbers_for_names_are_reversed() -> Iterator[None]:
    """einsum with numbers for names gives its output's dimensions in the other order."""
    einsum = torch.einsum

    def reversing(first: Any, *rest: Any) -> Shaped[Tensor, "..."]:
        return einsum(first, *rest[:-1], rest[-1][::-1]) if isinstance(first, Tensor) else einsum(first, *rest)

    with patched(torch, "einsum", reversing):
        yield


# ── einops ──


def _reducing(change: Callable[[Any, str, tuple[int, ...]], Any]) -> Any:
    """einops' reduction with ``change`` in its place; it is given the tensor, the reduction and the axes."""
    return patched(_torch_backend(), "reduce", lambda self, tensor, how, axes: change(tensor, how, axes))


@mutant(
    "mean-as-sum",
    breaks=("tensors.einops.reduce-mean",),
    properties=(
        "test_reduce_by_mean_is_the_mean_over_the_last_dimension",
        "test_reduce_brings_together_what_differs_in_the_names_left_out",
    ),
)
def mean_as_sum() -> Iterator[None]:
    """reduce forgets to divide: a mean is a sum."""
    backend = _torch_backend()
    reduce = backend.reduce
    with _reducing(lambda x, how, axes: reduce(None, x, "sum" if how == "mean" else how, axes)):
        yield


@mutant(
    "max-as-min",
    breaks=("tensors.einops.reduce-mean",),
    properties=("test_reduce_brings_together_what_differs_in_the_names_left_out",),
)
def max_as_min() -> Iterator[None]:
    """reduce gives the smallest element for the largest."""
    reduce = _torch_backend().reduce
    with _reducing(lambda x, how, axes: reduce(None, x, "min" if how == "max" else how, axes)):
        yield


@mutant(
    "means-of-whole-numbers",
    breaks=("tensors.einops.reduce-mean",),
    properties=("test_a_mean_of_whole_numbers_is_refused",),
)
def means_of_whole_numbers() -> Iterator[None]:
    """reduce takes the mean of integers as NumPy does, in floating point."""
    backend = _torch_backend()
    reduce = backend.reduce
    with (
        patched(backend, "is_float_type", lambda self, x: True),
        _reducing(lambda x, how, axes: reduce(None, x if how != "mean" else x.double(), how, axes)),
    ):
        yield


@mutant(
    "einops-takes-any-pattern",
    breaks=("tensors.einops.reduce-mean", "tensors.einops.split", "tensors.einops.product-of-factors"),
    properties=(
        "test_a_name_that_stands_twice_is_refused",
        "test_a_length_that_the_factor_does_not_divide_is_refused",
        "test_no_factor_below_one_is_taken",
        "test_a_pattern_that_does_not_fit_is_refused",
    ),
)
def einops_takes_any_pattern() -> Iterator[None]:
    """einops hands a tensor back as it is where the pattern does not fit."""
    module = _einops()
    reduce = module._apply_recipe
    prepare = module._prepare_transformation_recipe

    def lenient(backend: Any, recipe: Any, tensor: Any, **rest: Any) -> Any:
        if recipe is None:
            return tensor
        try:
            return reduce(backend, recipe, tensor, **rest)
        except (RuntimeError, ZeroDivisionError):
            return tensor

    def prepared(*arguments: Any, **keywords: Any) -> Any:
        try:
            return prepare(*arguments, **keywords)
        except EinopsError:
            return None

    with patched(module, "_apply_recipe", lenient), patched(module, "_prepare_transformation_recipe", prepared):
        yield


def _reshaping(change: Callable[[Any, tuple[int, ...]], Any]) -> Any:
    return patched(_torch_backend(), "reshape", lambda self, tensor, shape: change(tensor, tuple(shape)))


@mutant(
    "first-factor-fastest",
    breaks=("tensors.einops.split", "tensors.einops.product-of-factors"),
    properties=(
        "test_one_factor_is_enough_to_split_a_dimension",
        "test_every_rearrangement_puts_every_element_where_its_names_say",
    ),
)
def first_factor_fastest() -> Iterator[None]:
    """Splitting and joining count the first factor fastest, in column-major order."""

    def column_major(x: Any, shape: tuple[int, ...]) -> Any:
        backwards = x.permute(*reversed(range(x.ndim))).reshape(shape[::-1])
        return backwards.permute(*reversed(range(len(shape))))

    with _reshaping(column_major):
        yield


@mutant(
    "factors-stay-apart",
    breaks=("tensors.einops.product-of-factors", "tensors.einops.merge"),
    properties=(
        "test_the_joined_dimension_is_the_product_of_its_factors",
        "test_merging_gives_the_original_width_back",
        "test_splitting_and_merging_undo_each_other",
    ),
)
def factors_stay_apart() -> Iterator[None]:
    """rearrange leaves dimensions that it is to join as they are."""
    with _reshaping(lambda x, shape: x if len(shape) < x.ndim else x.reshape(shape)):
        yield


@mutant(
    "merges-always-copy",
    breaks=("tensors.einops.merge",),
    properties=("test_a_merge_is_a_view_where_the_strides_allow_it",),
)
def merges_always_copy() -> Iterator[None]:
    """rearrange copies before it reshapes."""
    with _reshaping(lambda x, shape: x.clone().reshape(shape)):
        yield


@mutant(
    "einops-never-moves",
    breaks=("tensors.jaxtyping.names-reach-einops",),
    properties=("test_einops_takes_its_names_from_the_annotation",),
)
def einops_never_moves() -> Iterator[None]:
    """einops leaves every dimension where it is, as if the names on the right were already in place."""
    with patched(_torch_backend(), "transpose", lambda self, tensor, axes: tensor):
        yield


@mutant(
    "einops-remembers-names",
    breaks=("tensors.jaxtyping.names-reach-einops",),
    properties=("test_einops_goes_by_the_names_of_its_pattern_alone",),
)
def einops_remembers_names() -> Iterator[None]:
    """A shape keeps the names it was first given, and einops ignores a pattern that uses others."""
    module = _einops()
    reduce = module.reduce
    known: dict[tuple[int, ...], set[str]] = {}

    def remembering(tensor: Any, pattern: str, reduction: str, **lengths: int) -> Any:
        names = set(pattern.replace("(", " ").replace(")", " ").split())
        first = known.setdefault(tuple(tensor.shape), names)
        return reduce(tensor, pattern, reduction, **lengths) if names <= first else tensor

    with patched(module, "reduce", remembering):
        yield
