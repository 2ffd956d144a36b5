"""Tensors in memory: a window on one-dimensional storage, told by a few numbers."""

from dataclasses import replace

import numpy as np
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from properties.claims import also, corrects, holds, holds_when, refuted
from properties.evidence import every, when
from properties.instruments import sharing
from properties.instruments.sharing import metadata, same_storage
from properties.needs import on_each_device
from properties.refusals import refused
from properties.strategies.layouts import (
    WIDTHS,
    Compressed,
    Layout,
    compressed_matrices,
    filled_layouts,
    fresh_layouts,
    layouts,
    lazy_layouts,
    offset_layouts,
    separate_layouts,
    shared_layouts,
    unmoved_layouts,
)
from properties.strategies.steps import AsStrided, Conjugate, Expand, Select, Slice, Transpose, Unfold
from reference import strided
from reference.dtypes import DTYPES, storage_bytes

# ── what a tensor is ──


@holds_when(
    "tensors.metadata.pointer-plus",
    "its first element is the first of its storage and it is read without a conjugate or negative bit; the storage"
    " is one contiguous block, the tensor need not be",
)
@on_each_device
@given(layout=st.one_of(unmoved_layouts(), offset_layouts(), lazy_layouts()))
@example(layout=Layout((2, 3), (Transpose(0, 1),)))
@example(layout=Layout((4,), (Slice(0, 1, None),)))
@example(layout=Layout((1,), (Conjugate(),), torch.complex64))
def test_a_tensor_is_its_storage_with_shape_dtype_and_stride(layout, device):
    """A tensor is a pointer to a contiguous block of memory plus shape, dtype and stride.

    A tensor made anew from these four has the same elements, unless two further items say otherwise: the
    storage offset, and a bit that has each element read as its conjugate or its negative.
    """
    x = layout.build(device)
    rebuilt = sharing.bare(x).as_strided(x.shape, x.stride())
    assert torch.equal(rebuilt, x.clone()) == when(not x.storage_offset() and not x.is_conj() and not x.is_neg())


@also("tensors.metadata.pointer-plus")
@on_each_device
@given(layout=st.one_of(layouts(), lazy_layouts()))
def test_with_offset_and_lazy_bits_the_metadata_is_complete(layout, device):
    """From storage, shape, dtype, stride, storage offset and lazy bits any strided tensor can be rebuilt."""
    x = layout.build(device)
    rebuilt = sharing.bare(x).as_strided(x.shape, x.stride(), x.storage_offset())
    rebuilt = rebuilt.conj() if x.is_conj() else rebuilt
    rebuilt = rebuilt.neg() if x.is_neg() else rebuilt
    assert torch.equal(rebuilt, x.clone())


@also("tensors.metadata.pointer-plus")
@given(real=st.integers(-99, 99), imaginary=st.integers(1, 99))
def test_a_conjugate_is_the_same_bytes_and_one_bit(real, imaginary):
    """conj() copies nothing and turns a bit over. NumPy, which has no such bit, is refused the tensor until
    resolve_conj() has written the conjugates out; a write through the conjugate arrives conjugated."""
    x = torch.tensor([complex(real, imaginary)])
    y = x.conj()
    assert same_storage(x, y)
    assert refused(RuntimeError, y.numpy)
    assert y.resolve_conj().numpy()[0] == complex(real, -imaginary)
    y[0] = complex(imaginary, imaginary)
    assert x[0] == complex(imaginary, -imaginary)


@also("tensors.metadata.pointer-plus")
@given(fits=st.integers(0, 99), more=st.integers(1, 99))
def test_a_failed_resize_leaves_a_shape_beyond_the_block(fits, more):
    """A limit of the claim in torch 2.13: a resize_ that memory of NumPy refuses has already changed the
    shape.

    The tensor then claims elements beyond its storage, and reading them reads what is not its own.
    """
    x = torch.from_numpy(np.zeros(fits))
    assert refused(RuntimeError, x.resize_, fits + more)
    assert x.untyped_storage().nbytes() == fits * x.itemsize
    assert x.shape == (fits + more,)


@holds("tensors.metadata.shape")
@given(layout=layouts())
@example(layout=Layout((4, 4)))
@example(layout=Layout(()))
@example(layout=Layout((2, 0, 3)))
def test_shape_is_the_length_of_every_dimension(layout):
    """shape is the length of every dimension, and equals a tuple such as (4, 4).

    A tensor without dimensions has the shape (), and a length may be 0 or 1. NumPy agrees.
    """
    x = layout.build()
    assert x.shape == layout.window().shape == x.numpy().shape
    assert isinstance(x.shape, tuple)
    assert tuple(len(x.unbind(dim)) for dim in range(x.dim())) == x.shape
    assert x.dim() == x.ndim == x.ndimension() == len(x.shape)


@holds_when("tensors.metadata.dtype-bytes", "no two elements share a byte, as they do in quint4x2 and quint2x4")
def test_dtype_tells_the_bytes_of_an_element():
    """dtype tells how many bytes an element takes.

    So it is in every dtype but two outdated quantised ones, where itemsize says one byte and several elements
    share it.
    """
    names = [name for name in DTYPES if hasattr(torch, name)]
    alone = [DTYPES[name].storage_bits >= 8 for name in names]
    taken = [sharing.fresh_bytes(8, getattr(torch, name)) for name in names]
    asked = [sharing.fresh(0, getattr(torch, name)) for name in names]
    told = [8 * getattr(torch, name).itemsize for name in names]
    every(
        "every dtype of this torch",
        [
            nbytes == storage_bytes(name, (8,))
            and (nbytes == said) == apart
            and said == 8 * x.element_size() == 8 * x.itemsize == 8 * DTYPES[name].itemsize
            for name, nbytes, said, apart, x in zip(names, taken, told, alone, asked, strict=True)
        ],
        names,
        size=len({each for each in vars(torch).values() if isinstance(each, torch.dtype)}),
        inside=alone,
    )


@holds("tensors.metadata.stride")
@on_each_device
@given(layout=filled_layouts())
@example(layout=Layout((3, 4), (Transpose(0, 1), Slice(0, 1, None, 2))))
@example(layout=Layout((3,), (Expand((2, -1)),)))
def test_stride_is_the_step_to_the_next_element(layout, device):
    """stride tells how many elements of memory to move for one step along a dimension.

    Measured between the addresses of neighbouring elements, for every element and dimension of views that are
    transposed, sliced with a step, repeated or overlapping. A dimension of size one has no next element.
    """
    x = layout.build(device)
    places = sharing.addresses(x)
    steps = [np.diff(places, axis=dim) for dim in range(x.dim())]
    assert all((step == x.stride(dim) * x.itemsize).all() for dim, step in enumerate(steps))


@also("tensors.metadata.stride")
@given(size=st.integers(1, 99), rows=st.integers(1, 40))
@example(size=10, rows=1)
def test_no_step_goes_backwards(size, rows):
    """A stride is never negative: torch refuses reversed slices, and NumPy's arrays with a negative stride.

    Even along a dimension of size one, where NumPy keeps it and calls the array contiguous. as_strided takes
    none either. flip() copies.
    """
    x, array = torch.arange(rows * size).reshape(rows, size), np.zeros((rows, size))
    assert refused(ValueError, x.__getitem__, slice(None, None, -1))
    assert refused(ValueError, torch.from_numpy, array[::-1])
    assert refused(ValueError, torch.from_numpy, array[:, ::-1])
    assert refused(RuntimeError, x.as_strided, (rows,), (-1,), rows - 1)
    assert not same_storage(x, x.flip(0))


# ── size and shape ──


@holds_when(
    "tensors.size.numel-times-element-size",
    "no two indices reach the same element, as in expanded and overlapping dimensions",
)
@given(layout=st.one_of(separate_layouts(), shared_layouts()))
@example(layout=Layout((3, 4), (Slice(1, 1, 3),)))
@example(layout=Layout((1, 3), (Expand((4, 3)),)))
@example(layout=Layout((4,), (Unfold(0, 2, 1),)))
def test_indexed_memory_is_numel_times_element_size(layout):
    """The memory a tensor indexes is numel() * element_size().

    Counted by filling the tensor and looking which elements of the storage have changed. nbytes is the product
    too, whatever the storage behind it.
    """
    x = layout.build()
    numel, reached = x.numel(), sharing.elements_reached(x)
    assert numel == x.nelement() == torch.numel(x) == layout.window().numel
    assert x.nbytes == numel * x.element_size()
    assert reached == strided.distinct_addresses(layout.window())
    assert (reached * x.itemsize == numel * x.element_size()) == when(not strided.overlaps(layout.window()))


@holds("tensors.size.size-is-shape")
@given(layout=layouts(), dtype=st.sampled_from(WIDTHS))
@example(layout=Layout((4, 4)), dtype=torch.float16)
def test_size_is_shape_and_says_nothing_of_bytes(layout, dtype):
    """x.size() and x.shape give the lengths of the dimensions only, not bytes.

    Both are the same, whatever room an element takes.
    """
    x, y = layout.build(), replace(layout, dtype=dtype).build()
    assert x.size() == x.shape == y.size() == y.shape == layout.window().shape
    assert [x.size(dim) for dim in range(x.dim())] == [x.size(dim) for dim in range(-x.dim(), 0)] == list(x.shape)


# ── strides and addresses ──


@holds_when(
    "tensors.stride.one-per-dimension",
    "its layout is strided; a sparse tensor in a compressed layout (CSR, CSC, BSR, BSC) has none and says so",
)
@given(x=st.one_of(layouts(), compressed_matrices()))
@example(x=Layout((2, 3), (Select(0, 1), Expand((4, -1)))))
@example(x=Compressed(2, 3, "sparse_csr"))
def test_every_dimension_has_a_stride(x):
    """Every dimension has a stride.

    Through any chain of view operations there are as many strides as dimensions.
    """
    tensor = x.build()
    told = not refused(RuntimeError, tensor.stride)
    assert (told and len(tensor.stride()) == tensor.dim()) == when(tensor.layout is torch.strided)


@holds("tensors.stride.row-major-example")
@given(layout=fresh_layouts())
@example(layout=Layout((4, 4)))
@example(layout=Layout((2, 0, 3)))
def test_a_fresh_tensor_is_row_major(layout):
    """A 4x4 tensor built from nested lists has stride 4 for rows and 1 for columns.

    In general the stride of a dimension is the product of the later sizes, a size of zero counted as one.
    """
    assert torch.tensor([[0.0] * 4] * 4).stride() == (4, 1)
    assert torch.zeros(layout.shape).stride() == strided.packed_stride(layout.shape)
    from_lists = torch.tensor(layout.build().tolist())
    assert from_lists.stride() == strided.packed_stride(from_lists.shape)


@refuted(
    "tensors.stride.subscript-notation",
    falsified_by=TypeError,
    instead="stride is a method: x.stride(0), or x.stride()[0]; subscripting the method raises TypeError",
)
def test_stride_is_subscripted():
    """The strides are read as x.stride[0] and x.stride[1]."""
    x = torch.zeros(4, 4)
    assert (x.stride[0], x.stride[1]) == (4, 1)


@corrects("tensors.stride.subscript-notation")
@on_each_device
@given(layout=layouts())
def test_stride_is_a_method(layout, device):
    """x.stride() is the tuple of all strides and x.stride(dim) one of them, counted from either end."""
    x = layout.build(device)
    assert x.stride() == layout.window().stride
    assert tuple(x.stride(dim) for dim in range(x.dim())) == x.stride()
    assert tuple(x.stride(dim) for dim in range(-x.dim(), 0)) == x.stride()


@holds_when(
    "tensors.offset.sum-of-index-times-stride",
    "the storage offset is zero; in general it is added to the sum",
)
@on_each_device
@given(layout=st.one_of(unmoved_layouts(), offset_layouts()))
@example(layout=Layout((2, 3), (Transpose(0, 1),)))
@example(layout=Layout((2, 3), (Select(0, 1),)))
def test_an_elements_place_is_the_sum_of_index_times_stride(layout, device):
    """An element's place in the one-dimensional storage is the sum of index times stride (memory counted from
    0).

    For every element of a tensor, by the address of a view of that element alone. The sum misses by exactly
    the storage offset.
    """
    x = layout.build(device)
    places = sharing.addresses(x) // x.itemsize
    sums = strided.addresses(replace(metadata(x), offset=0))
    assert (places - sums == x.storage_offset()).all()
    assert (places == sums).all() == when(x.storage_offset() == 0)


@also("tensors.offset.sum-of-index-times-stride")
@given(layout=layouts())
@example(layout=Layout((6, 4), (Transpose(0, 1), Slice(1, 1, None, 2), Select(0, -1))))
@example(layout=Layout((6, 4), (Transpose(0, 1), AsStrided((2, 3), (1, 5), 2))))
def test_the_model_finds_every_element_through_any_chain_of_views(layout):
    """Storage offset plus the sum of index times stride finds each element, through any chain of views.

    The elements are their own places in the storage. NumPy has the same strides, in bytes.
    """
    x = layout.build()
    assert np.array_equal(x.numpy(), strided.addresses(layout.window()))
    assert not x.numel() or x.numpy().strides == tuple(step * x.itemsize for step in layout.window().stride)


@also("tensors.offset.sum-of-index-times-stride")
@given(
    start=st.integers(0, 9),
    size=st.integers(1, 4),
    stride=st.integers(0, 3),
    offset=st.one_of(st.none(), st.integers(0, 9)),
)
@example(start=2, size=4, stride=1, offset=None)
@example(start=2, size=4, stride=1, offset=0)
def test_as_strided_sees_the_storage_and_not_the_slice(start, size, stride, offset):
    """as_strided on a slice reaches elements beyond it. Its default offset is that of the slice, and a given
    one counts from the start of the storage.
    """
    x = torch.arange(20)[start : start + 2]
    first = start if offset is None else offset
    assert x.as_strided((size,), (stride,), offset).tolist() == [first + stride * place for place in range(size)]
