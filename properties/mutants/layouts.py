"""Worlds in which memory is laid out, shared, viewed or copied otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor

from properties.mutants.dispatch import Below
from properties.mutants.mutant import mutant, patched
from reference.strided import packed_stride

aten = torch.ops.aten


def _copied(run: Callable[[], Tensor], *arguments: Any, **keywords: Any) -> Shaped[Tensor, "..."]:
    return run().clone(memory_format=torch.contiguous_format)


# ── what a tensor says of itself ──


@mutant(
    "as-strided-ignores-strides",
    breaks=("tensors.metadata.pointer-plus", "tensors.offset.sum-of-index-times-stride"),
    properties=(
        "test_a_tensor_is_its_storage_with_shape_dtype_and_stride",
        "test_with_offset_and_lazy_bits_the_metadata_is_complete",
        "test_the_model_finds_every_element_through_any_chain_of_views",
        "test_as_strided_sees_the_storage_and_not_the_slice",
    ),
)
def as_strided_ignores_strides() -> Iterator[None]:
    """as_strided lays elements out row-major, whatever strides it is given."""

    def row_major(x: Shaped[Tensor, "..."], size: Any, stride: Any, storage_offset: int | None = None) -> Any:
        return original(x, size, packed_stride(size), storage_offset)

    with patched(Tensor, "as_strided", row_major) as original:
        yield


@mutant(
    "as-strided-starts-at-zero",
    breaks=("tensors.offset.sum-of-index-times-stride",),
    properties=("test_as_strided_sees_the_storage_and_not_the_slice",),
)
def as_strided_starts_at_zero() -> Iterator[None]:
    """as_strided without an offset starts at the beginning of the storage, not where its tensor starts."""

    def from_zero(x: Shaped[Tensor, "..."], size: Any, stride: Any, storage_offset: int | None = None) -> Any:
        return original(x, size, stride, 0 if storage_offset is None else storage_offset)

    with patched(Tensor, "as_strided", from_zero) as original:
        yield


@mutant(
    "numpy-drops-the-conjugate-bit",
    breaks=("tensors.metadata.pointer-plus",),
    properties=("test_a_conjugate_is_the_same_bytes_and_one_bit",),
)
def numpy_drops_the_conjugate_bit() -> Iterator[None]:
    """numpy() hands over the bytes of a conjugate as they are, so that the conjugation is lost."""

    def raw(x: Shaped[Tensor, "..."], **keywords: Any) -> Any:
        return original(x.conj() if x.is_conj() else x, **keywords)

    with patched(Tensor, "numpy", raw) as original:
        yield


@mutant(
    "failed-resize-rolls-back",
    breaks=("tensors.metadata.pointer-plus",),
    properties=("test_a_failed_resize_leaves_a_shape_beyond_the_block",),
)
def failed_resize_rolls_back() -> Iterator[None]:
    """A resize_ that fails leaves the tensor as it was."""

    def safe(x: Shaped[Tensor, "..."], *sizes: Any, **keywords: Any) -> Any:
        before = (x.shape, x.stride(), x.storage_offset())
        try:
            return original(x, *sizes, **keywords)
        except RuntimeError:
            x.as_strided_(*before)
            raise

    with patched(Tensor, "resize_", safe) as original:
        yield


@mutant("reshape-drops-ones", breaks=("tensors.metadata.shape",))
def reshape_drops_ones() -> Iterator[None]:
    """reshape leaves out dimensions of size one."""

    def squeezed(x: Shaped[Tensor, "..."], *shape: Any) -> Any:
        return original(x, *shape).squeeze()

    with patched(Tensor, "reshape", squeezed) as original:
        yield


@mutant("packs-booleans", breaks=("tensors.metadata.dtype-bytes",))
def packs_booleans() -> Iterator[None]:
    """A boolean takes a bit: eight of them share a byte."""

    def packed(numel: int, **keywords: Any) -> Any:
        return original(-(-numel // 8) if keywords.get("dtype") is torch.bool else numel, **keywords)

    with patched(torch, "empty", packed) as original:
        yield


@mutant(
    "strides-are-always-row-major",
    breaks=("tensors.metadata.stride", "tensors.stride.subscript-notation"),
    properties=("test_stride_is_the_step_to_the_next_element", "test_stride_is_a_method"),
)
def strides_are_always_row_major() -> Iterator[None]:
    """stride() says what the strides of a fresh tensor of that shape would be."""

    def fresh(x: Shaped[Tensor, "..."], dim: int | None = None) -> Any:
        stride = packed_stride(x.shape)
        return stride if dim is None else stride[dim]

    with patched(Tensor, "stride", fresh):
        yield


@mutant(
    "negative-strides-are-copied",
    breaks=("tensors.metadata.stride",),
    properties=("test_no_step_goes_backwards",),
)
def negative_strides_are_copied() -> Iterator[None]:
    """from_numpy makes a copy of an array with negative strides without a word."""

    def forgiving(array: Any) -> Any:
        return original(np.ascontiguousarray(array).copy() if min(array.strides) < 0 else array)

    with patched(torch, "from_numpy", forgiving) as original:
        yield


@mutant(
    "expand-materialises",
    breaks=("tensors.size.numel-times-element-size", "tensors.copies.only-when-needed"),
    properties=(
        "test_indexed_memory_is_numel_times_element_size",
        "test_these_never_copy_when_they_need_not",
    ),
)
def expand_materialises() -> Iterator[None]:
    """expand writes the repeated elements out."""
    with Below(_copied, aten.expand):
        yield


@mutant("size-counts-bytes", breaks=("tensors.size.size-is-shape",))
def size_counts_bytes() -> Iterator[None]:
    """size() counts the last dimension in bytes."""

    def in_bytes(x: Shaped[Tensor, "..."], dim: int | None = None) -> Any:
        sizes = list(x.shape)
        sizes[-1:] = [size * x.itemsize for size in sizes[-1:]]
        return torch.Size(sizes) if dim is None else sizes[dim]

    with patched(Tensor, "size", in_bytes):
        yield


@mutant("ones-have-no-stride", breaks=("tensors.stride.one-per-dimension",))
def ones_have_no_stride() -> Iterator[None]:
    """stride() leaves out dimensions of size one, along which there is no step to take."""

    def longer(x: Shaped[Tensor, "..."]) -> tuple[int, ...]:
        return tuple(step for size, step in zip(x.shape, original(x), strict=True) if size != 1)

    with patched(Tensor, "stride", longer) as original:
        yield


@mutant("lists-become-column-major", breaks=("tensors.stride.row-major-example",))
def lists_become_column_major() -> Iterator[None]:
    """torch.tensor lays nested lists out with the first index fastest."""

    def columns(data: Any, **keywords: Any) -> Any:
        x = original(data, **keywords)
        order = tuple(reversed(range(x.dim())))
        return x.permute(order).contiguous().permute(order)

    with patched(torch, "tensor", columns) as original:
        yield


class _Subscriptable:
    """What the bound method ``stride`` would be, if it were a sequence too."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call

    def __call__(self, *dim: int) -> Any:
        return self.call(*dim)

    def __getitem__(self, dim: int) -> Any:
        return self.call()[dim]


@mutant(
    "stride-can-be-subscripted",
    breaks=("tensors.stride.subscript-notation",),
    properties=("test_stride_is_subscripted",),
)
def stride_can_be_subscripted() -> Iterator[None]:
    """stride is a sequence as well as a method."""
    original = Tensor.stride
    with patched(Tensor, "stride", property(lambda x: _Subscriptable(lambda *dim: original(x, *dim)))):
        yield


@mutant(
    "offset-is-always-zero",
    breaks=("tensors.offset.sum-of-index-times-stride",),
    properties=("test_an_elements_place_is_the_sum_of_index_times_stride",),
)
def offset_is_always_zero() -> Iterator[None]:
    """storage_offset() is zero, wherever a view starts."""
    with patched(Tensor, "storage_offset", lambda x: 0):
        yield


# ── views ──


@mutant(
    "transpose-copies",
    breaks=(
        "tensors.views.share-storage",
        "tensors.views.change-only-metadata",
        "tensors.views.constant-time",
    ),
    properties=(
        "test_view_operations_share_storage",
        "test_a_write_through_a_view_shows_in_its_base",
        "test_a_write_to_the_base_shows_in_its_view",
        "test_a_view_operation_changes_only_stride_shape_and_offset",
        "test_a_view_costs_the_same_at_every_size",
        "test_no_view_allocates",
    ),
)
def transpose_copies() -> Iterator[None]:
    """Transposing moves the elements into their new order."""
    with Below(_copied, aten.transpose, aten.permute, aten.t):
        yield


@mutant(
    "slicing-copies",
    breaks=("tensors.views.share-storage", "tensors.views.indexing-boundary"),
    properties=(
        "test_view_operations_share_storage",
        "test_indexing_returns_a_view",
        "test_one_number_is_an_integer_in_every_form_but_a_boolean",
    ),
)
def slicing_copies() -> Iterator[None]:
    """Selecting and slicing copy what they take."""
    with Below(_copied, aten.select, aten.slice):
        yield


@mutant(
    "neighbours-are-sliced",
    breaks=("tensors.views.indexing-boundary",),
    properties=("test_indexing_returns_a_view",),
)
def neighbours_are_sliced() -> Iterator[None]:
    """An index list of neighbouring rows is taken as the slice that they are."""

    def clever(x: Shaped[Tensor, "..."], index: Any) -> Any:
        items = index if isinstance(index, tuple) else (index,)
        first = items[0] if items else None
        if isinstance(first, list) and first == list(range(first[0], first[0] + len(first))) and first[0] >= 0:
            return original(x, (slice(first[0], first[0] + len(first)), *items[1:]))
        return original(x, index)

    with patched(Tensor, "__getitem__", clever) as original:
        yield


@mutant(
    "a-shared-element-is-added-to-many-times",
    breaks=("tensors.views.share-storage",),
    properties=("test_in_place_arithmetic_on_an_expanded_view_is_refused",),
)
def a_shared_element_is_added_to_many_times() -> Iterator[None]:
    """In-place addition to an expanded tensor reaches its one element once for each index."""

    def repeated(x: Shaped[Tensor, "..."], other: Any) -> Any:
        if any(step == 0 and size > 1 for size, step in zip(x.shape, x.stride(), strict=True)):
            x[0].add_(other * len(x))
            return x
        return original(x, other)

    with patched(Tensor, "__iadd__", repeated) as original:
        yield


@mutant(
    "overlap-is-refused",
    breaks=("tensors.views.share-storage",),
    properties=("test_in_place_arithmetic_on_overlapping_windows_is_not_refused",),
)
def overlap_is_refused() -> Iterator[None]:
    """In-place arithmetic is refused wherever overlap cannot be ruled out."""

    def careful(x: Shaped[Tensor, "..."], other: Any) -> Any:
        if torch._debug_has_internal_overlap(x) != 0:
            raise RuntimeError("elements may be written to more than once; clone the tensor first")
        return original(x, other)

    with patched(Tensor, "mul_", careful) as original:
        yield


@mutant(
    "windows-are-read-before-they-are-written",
    breaks=("tensors.views.share-storage",),
    properties=("test_on_a_cpu_an_element_of_several_windows_is_doubled_several_times",),
)
def windows_are_read_before_they_are_written() -> Iterator[None]:
    """mul_ computes every product before it writes the first."""

    def at_once(x: Shaped[Tensor, "..."], other: Any) -> Any:
        return x.copy_(x * other)

    with patched(Tensor, "mul_", at_once):
        yield


@mutant(
    "the-same-memory-is-equal",
    breaks=("tensors.views.share-storage",),
    properties=("test_on_a_cpu_torch_equal_compares_what_is_shared_too",),
)
def the_same_memory_is_equal() -> Iterator[None]:
    """torch.equal looks no further where both arguments are the same memory."""

    def hasty(x: Shaped[Tensor, "..."], y: Shaped[Tensor, "..."]) -> bool:
        same = x.data_ptr() == y.data_ptr() and x.shape == y.shape and x.stride() == y.stride()
        return same or original(x, y)

    with patched(torch, "equal", hasty) as original:
        yield


@mutant(
    "an-element-equals-itself-unread",
    breaks=("tensors.views.share-storage",),
    properties=("test_sharing_storage_does_not_make_equal",),
)
def an_element_equals_itself_unread() -> Iterator[None]:
    """== says yes for every element that both of its sides have at the same place in memory."""

    def hasty(x: Shaped[Tensor, "..."], y: Any) -> Any:
        return original(x, y) | (isinstance(y, Tensor) and x.data_ptr() == y.data_ptr() and x.stride() == y.stride())

    with patched(Tensor, "__eq__", hasty) as original:
        yield


@mutant(
    "pieces-are-copied",
    breaks=("tensors.views.constant-time",),
    properties=("test_unbind_and_split_make_one_view_a_piece",),
)
def pieces_are_copied() -> Iterator[None]:
    """split copies each piece."""

    def copied(run: Callable[[], Any], *arguments: Any, **keywords: Any) -> list[Tensor]:
        return [piece.clone() for piece in run()]

    with Below(copied, aten.split, aten.unbind):
        yield


# ── copies ──


@mutant(
    "cat-of-one-shares",
    breaks=("tensors.copies.only-when-needed",),
    properties=("test_data_is_copied_only_when_it_has_to_be",),
)
def cat_of_one_shares() -> Iterator[None]:
    """torch.cat of a single tensor hands that tensor back."""

    def frugal(tensors: Any, *arguments: Any, **keywords: Any) -> Any:
        return tensors[0] if len(tensors) == 1 else original(tensors, *arguments, **keywords)

    with patched(torch, "cat", frugal) as original:
        yield


@mutant(
    "reshape-always-copies",
    breaks=("tensors.copies.only-when-needed", "tensors.copies.reshape-mostly"),
    properties=(
        "test_these_never_copy_when_they_need_not",
        "test_reshape_copies_in_most_cases",
        "test_reshape_copies_exactly_where_no_view_exists",
        "test_how_often_reshape_copies_depends_on_what_is_reshaped",
    ),
)
def reshape_always_copies() -> Iterator[None]:
    """reshape copies, whether a view would do or not."""

    def copying(x: Shaped[Tensor, "..."], *shape: Any) -> Any:
        return original(x.clone(), *shape)

    with patched(Tensor, "reshape", copying) as original:
        yield


@mutant("contiguous-always-copies", breaks=("tensors.copies.contiguous",))
def contiguous_always_copies() -> Iterator[None]:
    """contiguous() copies a tensor that is contiguous already."""

    def copying(x: Shaped[Tensor, "..."], *arguments: Any, **keywords: Any) -> Any:
        return x.clone(memory_format=torch.contiguous_format)

    with patched(Tensor, "contiguous", copying):
        yield


@mutant("clone-shares", breaks=("tensors.copies.clone",))
def clone_shares() -> Iterator[None]:
    """clone() waits with the copy, and never makes it."""
    with patched(Tensor, "clone", lambda x, **keywords: x[...]):
        yield


@mutant(
    "clone-packs-row-major",
    breaks=("tensors.copies.clone",),
    properties=("test_clone_allocates_and_copies",),
)
def clone_packs_row_major() -> Iterator[None]:
    """clone() lays every copy out row-major, whatever the strides of what it copies."""
    with Below(lambda run, *arguments, **keywords: run().contiguous(), aten.clone):
        yield


# ── contiguity, and what view() can do ──


@mutant(
    "ones-count-for-contiguity",
    breaks=("tensors.contiguity.transpose-breaks-it", "tensors.view.needs-contiguous"),
    properties=(
        "test_reordering_dimensions_breaks_contiguity",
        "test_contiguity_of_every_small_shape_in_every_order",
        "test_the_smallest_that_is_not_contiguous_and_takes_a_new_shape_has_two_elements",
    ),
)
def ones_count_for_contiguity() -> Iterator[None]:
    """A tensor is contiguous only with row-major strides, those of dimensions of size one included."""

    def strict(x: Shaped[Tensor, "..."], **keywords: Any) -> bool:
        return x.stride() == packed_stride(x.shape)

    with patched(Tensor, "is_contiguous", strict):
        yield


@mutant(
    "repeats-are-contiguous",
    breaks=("tensors.contiguity.transpose-breaks-it",),
    properties=("test_contiguous_means_row_major_without_gaps_or_repeats",),
)
def repeats_are_contiguous() -> Iterator[None]:
    """A tensor that is one element, however often it is seen, is contiguous."""

    def generous(x: Shaped[Tensor, "..."], **keywords: Any) -> bool:
        return bool(original(x, **keywords)) or not any(x.stride())

    with patched(Tensor, "is_contiguous", generous) as original:
        yield


@mutant(
    "view-silently-copies",
    breaks=(
        "tensors.view.fails-on-transposed",
        "tensors.view.needs-contiguous",
        "tensors.view.reinterprets-or-refuses",
    ),
    properties=(
        "test_view_refuses_what_it_cannot_reinterpret",
        "test_view_of_every_small_shape_in_every_order",
        "test_view_takes_contiguous_tensors",
        "test_where_view_is_refused_no_strides_would_do",
        "test_view_reinterprets_any_layout_or_refuses",
    ),
)
def view_silently_copies() -> Iterator[None]:
    """view() copies where it cannot reinterpret, as reshape does."""

    def copying(x: Shaped[Tensor, "..."], *target: Any) -> Any:
        try:
            return original(x, *target)
        except RuntimeError:
            return x.reshape(*target)

    with patched(Tensor, "view", copying) as original:
        yield


@mutant(
    "view-demands-contiguous",
    breaks=(
        "tensors.view.fails-on-transposed",
        "tensors.view.needs-contiguous",
        "tensors.view.reinterprets-or-refuses",
    ),
    properties=(
        "test_view_refuses_what_it_cannot_reinterpret",
        "test_view_of_every_small_shape_in_every_order",
        "test_one_dimension_of_any_stride_takes_every_shape",
        "test_where_view_is_refused_no_strides_would_do",
        "test_view_reinterprets_any_layout_or_refuses",
    ),
)
def view_demands_contiguous() -> Iterator[None]:
    """view() refuses every tensor that is not contiguous."""

    def strict(x: Shaped[Tensor, "..."], *target: Any) -> Any:
        if not x.is_contiguous():
            raise RuntimeError("view() takes contiguous tensors only; call contiguous() first")
        return original(x, *target)

    with patched(Tensor, "view", strict) as original:
        yield


@mutant(
    "minus-one-becomes-zero",
    breaks=("tensors.view.fails-on-transposed",),
    properties=("test_minus_one_is_refused_only_where_it_is_open",),
)
def minus_one_becomes_zero() -> Iterator[None]:
    """view() of a tensor without elements takes -1 as 0, also where another 0 leaves it open."""

    def guessing(x: Shaped[Tensor, "..."], *target: Any) -> Any:
        sizes = target[0] if target and isinstance(target[0], tuple) else target
        if x.numel() == 0:
            sizes = tuple(0 if size == -1 else size for size in sizes)
        return original(x, sizes)

    with patched(Tensor, "view", guessing) as original:
        yield


@mutant(
    "view-of-a-dtype-converts",
    breaks=("tensors.view.dtype",),
    properties=("test_view_of_another_dtype_reads_the_same_bytes",),
)
def view_of_a_dtype_converts() -> Iterator[None]:
    """view(dtype) converts the numbers instead of reading their bytes."""

    def converted(x: Shaped[Tensor, "..."], *target: Any) -> Any:
        return x.real.to(target[0]) if isinstance(target[0], torch.dtype) else original(x, *target)

    with patched(Tensor, "view", converted) as original:
        yield


@mutant(
    "view-of-a-dtype-takes-any-stride-of-a-one",
    breaks=("tensors.view.dtype",),
    properties=("test_torch_is_stricter_than_numpy_about_a_last_dimension_of_size_one",),
)
def view_of_a_dtype_takes_any_stride_of_a_one() -> Iterator[None]:
    """view(dtype) asks nothing of the stride of a last dimension of size one, as NumPy."""

    def like_numpy(x: Shaped[Tensor, "..."], *target: Any) -> Any:
        if isinstance(target[0], torch.dtype) and x.dim() and x.shape[-1] == 1:
            x = x.as_strided(x.shape, (*x.stride()[:-1], 1))
        return original(x, *target)

    with patched(Tensor, "view", like_numpy) as original:
        yield


# ── sizes, other words, overlap, and what is shared ──


@mutant(
    "complex-elements-take-half",
    breaks=("tensors.metadata.dtype-bytes",),
    properties=("test_dtype_tells_the_bytes_of_an_element",),
)
def complex_elements_take_half() -> Iterator[None]:
    """element_size() of complex numbers tells the bytes of one of their parts."""

    def of_a_part(x: Shaped[Tensor, "..."]) -> int:
        return int(original(x)) // (2 if x.is_complex() else 1)

    with patched(Tensor, "element_size", of_a_part) as original:
        yield


@mutant(
    "nbytes-counts-the-storage",
    breaks=("tensors.size.numel-times-element-size", "formats.bytes.numel-times-itemsize"),
    properties=("test_indexed_memory_is_numel_times_element_size", "test_bytes_are_elements_times_itemsize"),
)
def nbytes_counts_the_storage() -> Iterator[None]:
    """nbytes tells the bytes of the whole storage, whatever a tensor shows of it."""
    with patched(Tensor, "nbytes", property(lambda x: x.untyped_storage().nbytes())):
        yield


@mutant(
    "ndim-leaves-out-ones",
    breaks=("tensors.metadata.shape",),
    properties=("test_shape_is_the_length_of_every_dimension",),
)
def ndim_leaves_out_ones() -> Iterator[None]:
    """ndim counts the dimensions longer than one."""
    with patched(Tensor, "ndim", property(lambda x: sum(size != 1 for size in x.shape))):
        yield


@mutant(
    "expand-as-copies",
    breaks=("tensors.views.share-storage",),
    properties=("test_a_view_is_the_same_in_other_words",),
)
def expand_as_copies() -> Iterator[None]:
    """expand_as writes the repeated elements out, unlike expand."""

    def copying(x: Shaped[Tensor, "..."], other: Shaped[Tensor, "..."]) -> Any:
        return original(x, other).clone()

    with patched(Tensor, "expand_as", copying) as original:
        yield


@mutant(
    "functions-copy",
    breaks=("tensors.views.share-storage",),
    properties=("test_a_view_is_the_same_in_other_words",),
)
def functions_copy() -> Iterator[None]:
    """torch.transpose copies, unlike the method."""

    def copying(x: Shaped[Tensor, "..."], first: int, second: int) -> Any:
        return original(x, first, second).clone()

    with patched(torch, "transpose", copying) as original:
        yield


@mutant(
    "real-parts-are-copied",
    breaks=("tensors.views.share-storage", "tensors.views.change-only-metadata"),
    properties=(
        "test_view_operations_share_storage",
        "test_a_view_operation_changes_only_stride_shape_and_offset",
    ),
)
def real_parts_are_copied() -> Iterator[None]:
    """The real parts of complex numbers are new numbers."""
    real: Any = Tensor.real
    with patched(Tensor, "real", property(lambda x: real.__get__(x).clone())):
        yield


@mutant(
    "writes-clone-what-they-read",
    breaks=("tensors.views.share-storage",),
    properties=(
        "test_a_write_from_a_window_that_partly_overlaps_is_refused",
        "test_overlap_is_noticed_only_between_windows_without_gaps",
    ),
)
def writes_clone_what_they_read() -> Iterator[None]:
    """A write clones its source, so that no overlap matters."""

    def cloning(x: Shaped[Tensor, "..."], source: Shaped[Tensor, "..."]) -> Any:
        return original(x, source.clone())

    with patched(Tensor, "copy_", cloning) as original:
        yield


@mutant(
    "every-overlap-is-refused",
    breaks=("tensors.views.share-storage",),
    properties=("test_overlap_is_noticed_only_between_windows_without_gaps",),
)
def every_overlap_is_refused() -> Iterator[None]:
    """copy_ looks closely, and refuses every source that shares memory with what is written and is not the same."""

    def careful(x: Shaped[Tensor, "..."], source: Shaped[Tensor, "..."]) -> Any:
        if np.shares_memory(x.numpy(), source.numpy()) and not x.is_set_to(source):
            raise RuntimeError("the source overlaps with what is written; clone it first")
        return original(x, source)

    with patched(Tensor, "copy_", careful) as original:
        yield


@mutant(
    "saving-takes-what-is-seen",
    breaks=("tensors.views.share-storage",),
    properties=("test_a_saved_view_takes_its_whole_storage_along",),
)
def saving_takes_what_is_seen() -> Iterator[None]:
    """torch.save writes the elements of a tensor and no more of its storage."""

    def frugal(value: Any, *rest: Any, **keywords: Any) -> None:
        original(value.clone() if isinstance(value, Tensor) else value, *rest, **keywords)

    with patched(torch, "save", frugal) as original:
        yield


@mutant(
    "listed-indices-accumulate",
    breaks=("tensors.views.indexing-boundary",),
    properties=("test_an_index_that_is_listed_twice_is_added_to_once",),
)
def listed_indices_accumulate() -> Iterator[None]:
    """x[[0, 0]] += 1 adds to the element twice."""

    def accumulating(x: Shaped[Tensor, "..."], index: Any, value: Any) -> None:
        if isinstance(index, list):
            before = x[index]
            x.index_put_((torch.tensor(index),), value - before, accumulate=True)
        else:
            original(x, index, value)

    with patched(Tensor, "__setitem__", accumulating) as original:
        yield


@mutant(
    "index-put-never-accumulates",
    breaks=("tensors.views.indexing-boundary",),
    properties=("test_an_index_that_is_listed_twice_is_added_to_once",),
)
def index_put_never_accumulates() -> Iterator[None]:
    """index_put_ writes the last value, also where it is to add them."""

    def overwriting(x: Shaped[Tensor, "..."], indices: Any, values: Any, accumulate: bool = False) -> Any:
        return original(x, indices, values)

    with patched(Tensor, "index_put_", overwriting) as original:
        yield


@mutant(
    "ravel-always-copies",
    breaks=("tensors.copies.only-when-needed",),
    properties=("test_these_never_copy_when_they_need_not",),
)
def ravel_always_copies() -> Iterator[None]:
    """ravel copies, whether a view would do or not."""

    def copying(x: Shaped[Tensor, "..."]) -> Any:
        return original(x).clone()

    with patched(Tensor, "ravel", copying) as original:
        yield


@mutant(
    "repeat-expands-ones",
    breaks=("tensors.copies.only-when-needed",),
    properties=("test_repeat_tile_flip_and_roll_always_copy",),
)
def repeat_expands_ones() -> Iterator[None]:
    """repeat expands a tensor whose dimensions all have size one, without a copy."""

    def frugal(x: Shaped[Tensor, "..."], *times: Any) -> Any:
        counts = times[0] if times and isinstance(times[0], tuple) else times
        return x.expand(counts) if x.numel() == 1 and len(counts) == x.dim() else original(x, *times)

    with patched(Tensor, "repeat", frugal) as original:
        yield


@mutant(
    "arrays-are-copied",
    breaks=("tensors.copies.only-when-needed",),
    properties=("test_a_tensor_and_an_array_are_one_memory_unless_a_copy_is_asked_for",),
)
def arrays_are_copied() -> Iterator[None]:
    """torch.as_tensor copies a NumPy array, as torch.tensor does."""

    def copying(data: Any, **keywords: Any) -> Any:
        return original(data, **keywords) if isinstance(data, Tensor) else original(data, **keywords).clone()

    with patched(torch, "as_tensor", copying) as original:
        yield


@mutant(
    "new-tensors-are-row-major",
    breaks=("tensors.copies.clone",),
    properties=("test_every_copy_of_a_dense_tensor_keeps_its_strides",),
)
def new_tensors_are_row_major() -> Iterator[None]:
    """torch.zeros_like takes the shape of a tensor, and not its strides."""
    with patched(torch, "zeros_like", lambda x, **keywords: torch.zeros(x.shape, **keywords)):
        yield


@mutant(
    "one-channel-is-never-last",
    breaks=("tensors.contiguity.transpose-breaks-it",),
    properties=("test_channels_last_is_contiguous_in_another_order",),
)
def one_channel_is_never_last() -> Iterator[None]:
    """A batch of images with one channel is not contiguous in channels_last."""

    def strict(x: Shaped[Tensor, "..."], **keywords: Any) -> bool:
        last = keywords.get("memory_format") is torch.channels_last
        return bool(original(x, **keywords)) and not (last and x.shape[1] == 1)

    with patched(Tensor, "is_contiguous", strict) as original:
        yield
