"""Tensors in memory, continued: views, what is copied and when, contiguity, and what view() can do."""

import copy
import math
from functools import partial
from itertools import product

import numpy as np
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from properties.claims import also, corrects, costly, holds, holds_when, needs, refuted
from properties.evidence import every, may_fail, observe, when, within_band
from properties.instruments import sharing
from properties.instruments.clock import compare
from properties.instruments.launches import launched, require_sight, taken
from properties.instruments.sharing import metadata, same_storage
from properties.levels import Level, level
from properties.needs import on_each_device
from properties.ratios import Band
from properties.refusals import refused
from properties.strategies import scopes, workloads
from properties.strategies.creation import COPYING, SHOWING
from properties.strategies.indices import Index, Mask, Picks, Span, basic_indices, picking_indices
from properties.strategies.layouts import (
    FILLED,
    Layout,
    changing_orders,
    contiguous_layouts,
    contiguous_targets,
    cut_targets,
    cutting_targets,
    filled_layouts,
    fitting_targets,
    fresh_layouts,
    keeping_orders,
    layouts,
    lazy_layouts,
    readable_bytes,
    scattered_layouts,
    scattered_targets,
    unreadable_bytes,
    view_operations,
    written_views,
)
from properties.strategies.spellings import spellings
from properties.strategies.steps import (
    IDLE_COPIES,
    SIZELESS,
    Chunk,
    Conjugate,
    Detach,
    Expand,
    Imaginary,
    Narrow,
    Permute,
    Real,
    Select,
    Slice,
    T,
    Transpose,
    Unfold,
    ViewAsComplex,
    ViewAsReal,
)
from properties.strategies.workloads import Clone, ViewOperation
from reference import strided
from reference.strided import affine_stride, can_reinterpret, can_view

# ── views ──


@holds("tensors.views.share-storage")
@on_each_device
@given(case=view_operations())
@example(case=(Layout((2, 3)), Transpose(0, 1)))
@example(case=(Layout((2, 3)), Permute((1, 0))))
@example(case=(Layout((2, 3)), Select(0, 1)))
@example(case=(Layout((2, 3)), Slice(1, 1, None)))
@example(case=(Layout((0, 3)), Transpose(0, 1)))
@example(case=(Layout((2,), (), torch.complex64), Real()))
def test_view_operations_share_storage(case, device):
    """transpose, permute, select and slicing return views that share storage.

    So do narrow, expand, unfold, diagonal, squeeze, unsqueeze, movedim, swapaxes, t, chunk, split, unbind,
    view, unflatten, view_as_real, view_as_complex, real, imag, detach and as_strided; a storage without bytes
    is shared like any other.
    """
    layout, step = case
    x = layout.build(device)
    assert same_storage(x, step.apply(x))


@also("tensors.views.share-storage")
@given(case=view_operations())
@example(case=(Layout((2, 3)), T()))
@example(case=(Layout((2, 1)), Expand((2, 3))))
@example(case=(Layout((3,)), Chunk(2, 0, 1)))
@example(case=(Layout((2,)), Detach()))
def test_a_view_is_the_same_in_other_words(case):
    """A function of torch, an alias, an attribute, an index or the shape of another tensor make the same view.

    swapdims and moveaxis, T, mT, H and adjoint, expand_as, broadcast_to and view_as, tensor_split and split
    by sizes, x[:, None] and x.data, among others.
    """
    layout, step = case
    x = layout.build()
    view, others = step.apply(x), spellings(step, x)
    assert all(same_storage(x, other) and other.dtype == view.dtype for other in others)
    assert all(metadata(other) == metadata(view) for other in others)


@also("tensors.views.share-storage")
@given(case=written_views())
@example(case=(Layout((2, 3)), Transpose(0, 1), 1))
@example(case=(Layout((2,)), Expand((3, -1)), 5))
def test_a_write_through_a_view_shows_in_its_base(case):
    """A write through a view shows in its base, at the predicted address and only there."""
    layout, step, element = case
    x = layout.build()
    view = step.apply(x)
    stored = sharing.elements(view).copy()
    stored[strided.addresses(step.predict(layout.window())).flat[element]] = -1
    view[np.unravel_index(element, view.shape)] = -1
    expected = stored.view(sharing.elements(x).dtype)[strided.addresses(layout.window())]
    assert np.array_equal(x.numpy(), expected)


@also("tensors.views.share-storage")
@given(case=written_views())
@example(case=(Layout((2, 3)), Transpose(0, 1), 1))
@example(case=(Layout((2,)), Expand((3, -1)), 1))
def test_a_write_to_the_base_shows_in_its_view(case):
    """A write to a tensor shows in a view of it, wherever the view reaches that address and only there."""
    layout, step, element = case
    x = layout.build()
    view = step.apply(x)
    element %= x.numel()
    stored = sharing.elements(x).copy()
    stored[strided.addresses(layout.window()).flat[element]] = -1
    x[np.unravel_index(element, x.shape)] = -1
    expected = stored.view(sharing.elements(view).dtype)[strided.addresses(step.predict(layout.window()))]
    assert np.array_equal(view.numpy(), expected)


@also("tensors.views.share-storage")
@on_each_device
@given(size=st.integers(2, 40), repeats=st.integers(2, 40))
@example(size=5, repeats=4)
def test_in_place_arithmetic_on_an_expanded_view_is_refused(size, repeats, device):
    """An element that stands for many is not added to many times: torch refuses.

    Writing one value everywhere, or to one index, goes through and shows at every index that shares the
    element. So does arithmetic where a stride of 0 belongs to a dimension of size one.
    """
    x = torch.arange(size, device=device).unsqueeze(0).expand(repeats, size)
    for change in (x.__iadd__, x.__isub__, x.__imul__, x.add_, x.sub_, x.mul_):
        assert refused(RuntimeError, change, 2)
    assert refused(RuntimeError, x.copy_, torch.zeros_like(x)) and refused(RuntimeError, x.neg_)
    assert x[:1].add_(1).tolist() == [list(range(1, size + 1))]
    x[0, 1] = 77
    assert x[:, 1].tolist() == [77] * repeats
    assert x.zero_().tolist() == [[0] * size] * repeats


@also("tensors.views.share-storage")
@on_each_device
@given(size=st.integers(2, 40), more=st.integers(1, 40))
@example(size=3, more=3)
def test_in_place_arithmetic_on_overlapping_windows_is_not_refused(size, more, device):
    """A limit of sharing in torch 2.13: windows that overlap with strides other than 0 are not noticed.

    Doubling them all in place goes through. A GPU may read an element for all of its windows before it writes.
    """
    base = torch.ones(size + more, device=device)
    windows = base.unfold(0, size, 1)
    assert not refused(RuntimeError, windows.mul_, 2) and not refused(RuntimeError, windows.add_, 0)
    assert base.min() >= 2


@also("tensors.views.share-storage")
@given(size=st.integers(2, 40), more=st.integers(1, 40))
@example(size=3, more=3)
def test_on_a_cpu_an_element_of_several_windows_is_doubled_several_times(size, more):
    """One window after another: the inner elements, which several windows show, come out larger than twice."""
    base = torch.ones(size + more)
    base.unfold(0, size, 1).mul_(2)
    assert base[0] == base[-1] == 2 < base[1:-1].min()


@also("tensors.views.share-storage")
@on_each_device
@given(length=st.integers(1, 40), apart=st.integers(0, 45))
@example(length=3, apart=1)
@example(length=3, apart=3)
@example(length=3, apart=0)
def test_a_write_from_a_window_that_partly_overlaps_is_refused(length, apart, device):
    """x[1:] = x[:-1] would overwrite what is still to be read: torch refuses.

    So it does in copy_, in arithmetic in place and with out=, for windows without gaps of which some elements
    are shared and not all. From a window beside it, or onto itself, a write goes through.
    """
    x = torch.arange(length + apart, device=device)
    source, target = x[:length], x[apart:]
    overlap = 0 < apart < length
    assert refused(RuntimeError, x.__setitem__, slice(apart, None), source) == overlap
    assert refused(RuntimeError, target.copy_, source) == overlap
    assert (target - apart if overlap else target).tolist() == list(range(length))
    assert refused(RuntimeError, target.add_, source) == overlap
    assert refused(RuntimeError, torch.add, source, 1, out=target) == overlap


@also("tensors.views.share-storage")
@on_each_device
@given(rows=st.integers(2, 40), columns=st.integers(3, 40))
@example(rows=2, columns=3)
def test_overlap_is_noticed_only_between_windows_without_gaps(rows, columns, device):
    """A limit of sharing in torch 2.13: rows moved by one are refused; columns moved by one are not.

    Nor is the transpose of a part. Which elements come out is then a matter of the order in which they are
    copied.
    """
    x = torch.arange(rows * columns, device=device).reshape(rows, columns)
    side = min(rows, columns - 1)
    part = x[:side, :side]
    assert refused(RuntimeError, x[1:].copy_, x[:-1]) == (rows > 2)
    assert not refused(RuntimeError, x[:, 1:].copy_, x[:, :-1])
    assert not refused(RuntimeError, part.copy_, part.t())


@also("tensors.views.share-storage")
@costly(cases=32, because="saves three times and loads as often")
@given(size=st.integers(200, 4000), part=st.integers(1, 9))
@example(size=1000, part=2)
def test_a_saved_view_takes_its_whole_storage_along(size, part):
    """torch.save writes the storage of a view, however little of it is seen; a clone has only its own.

    Loaded again, or deep-copied together, a tensor and its view still share.
    """
    x = torch.arange(size)
    view, clone = sharing.saved(x[:part]), sharing.saved(x[:part].clone())
    assert len(view) - len(clone) >= (size - part - 99) * x.itemsize > 0
    assert sharing.loaded(view).untyped_storage().nbytes() == size * x.itemsize
    assert sharing.loaded(clone).untyped_storage().nbytes() == part * x.itemsize
    assert same_storage(*sharing.loaded(sharing.saved((x, x[:part]))))
    assert same_storage(*copy.deepcopy((x, x[:part])))


@also("tensors.views.share-storage")
@on_each_device
@given(size=st.integers(1, 100), place=st.integers(0, 99))
def test_sharing_storage_does_not_make_equal(size, place, device):
    """A tensor with a NaN does not equal a view of itself, element by element: values are compared, not memory."""
    x = torch.zeros(size, device=device)
    view = x.view(size)
    assert (x == view).all()
    x[place % size] = math.nan
    assert (x == view).tolist() == [each != place % size for each in range(size)]


@also("tensors.views.share-storage")
@given(size=st.integers(1, 100), place=st.integers(0, 99))
def test_on_a_cpu_torch_equal_compares_what_is_shared_too(size, place):
    """torch.equal does not take a tensor with a NaN to equal itself or its view.

    On a GPU it does, by torch's source: where both are the same memory, it does not look.
    """
    x = torch.zeros(size)
    assert torch.equal(x, x.view(size))
    x[place % size] = math.nan
    assert not torch.equal(x, x)
    assert not torch.equal(x, x.view(size))


@holds_when(
    "tensors.views.indexing-boundary",
    "the index is basic: integers, slices, None and Ellipsis; a list, an index tensor or a mask copies",
)
@given(case=st.one_of(basic_indices(), picking_indices()))
@example(case=(Layout((3, 4)), Index((0, Span(1, None)))))
@example(case=(Layout((3, 4)), Index((Picks((0,)),))))
@example(case=(Layout((3, 4)), Index((Mask((True, True, True)),))))
def test_indexing_returns_a_view(case):
    """Indexing returns a view.

    The elements are the same in NumPy, and so is which index shares (except that there all integers give a
    scalar).
    """
    layout, index = case
    x = layout.build()
    seen, numpys = x[index.build()], np.asarray(x.numpy()[index.build()])
    assert np.array_equal(seen.numpy(), numpys)
    assert same_storage(x, seen) == when(index.is_basic)
    assert not numpys.size or not numpys.ndim or np.shares_memory(x.numpy(), numpys) == index.is_basic


@also("tensors.views.indexing-boundary")
@given(rows=st.integers(1, 40), columns=st.integers(0, 40))
def test_one_number_is_an_integer_in_every_form_but_a_boolean(rows, columns):
    """An integer of NumPy, and a tensor or an array of one integer without dimensions, views as an integer
    does.

    With a dimension it is a list of one, and copies; True is a mask, and copies.
    """
    x = torch.zeros(rows, columns)
    for zero in (np.int64(0), np.array(0), torch.tensor(0)):
        assert same_storage(x, x[zero])
    for copying in (True, torch.tensor(True), np.array([0]), torch.tensor([0])):
        assert not same_storage(x, x[copying])


@also("tensors.views.indexing-boundary")
@given(places=st.lists(st.integers(0, 9), min_size=1, max_size=12).map(tuple), amount=st.integers(1, 99))
@example(places=(0, 0), amount=1)
def test_an_index_that_is_listed_twice_is_added_to_once(places, amount):
    """x[[0, 0]] += 1 adds one: the copy is added to, and written back over itself.

    index_put_ that accumulates, and index_add_, add as often as an index is listed, as np.add.at does.
    """
    index, once, often = torch.tensor(places), torch.zeros(10, dtype=torch.int64), np.zeros(10, dtype=np.int64)
    once[list(places)] += amount
    np.add.at(often, list(places), amount)
    amounts = torch.full((len(places),), amount)
    put, added = (torch.zeros(10, dtype=torch.int64) for _ in range(2))
    assert once.tolist() == [amount * (place in places) for place in range(10)]
    assert np.array_equal(put.index_put_((index,), amounts, accumulate=True), often)
    assert np.array_equal(added.index_add_(0, index, amounts), often)
    assert torch.equal(put.index_put_((index,), amounts), torch.where(put > 0, amount, 0))


@holds("tensors.views.change-only-metadata")
@given(case=view_operations())
@example(case=(Layout((2, 3)), Transpose(0, 1)))
@example(case=(Layout((2, 1, 3)), Expand((-1, 4, -1))))
@example(case=(Layout((2,), (), torch.complex64), ViewAsReal()))
@example(case=(Layout((2,), (), torch.complex64), Real()))
def test_a_view_operation_changes_only_stride_shape_and_offset(case):
    """Such an operation changes only stride, shape and offset.

    All three are as the model predicts, for every kind of view. Storage, bytes and device stay, and so does
    the dtype, except where a complex element is seen as two real ones: view_as_real, real, imag and
    view_as_complex.
    """
    layout, step = case
    x = layout.build()
    before = sharing.memory(x).copy()
    view = step.apply(x)
    assert metadata(view) == step.predict(layout.window())
    assert same_storage(x, view) and view.device == x.device
    assert (view.dtype == x.dtype) == (not isinstance(step, ViewAsReal | ViewAsComplex | Real | Imaginary))
    assert np.array_equal(sharing.memory(x), before)


@holds("tensors.views.constant-time")
@given(step=st.sampled_from(SIZELESS), half=st.integers(2, 2**29), columns=st.integers(4, 2**30))
@example(step=Transpose(0, 1), half=50_000_000, columns=4)
def test_a_view_costs_the_same_at_every_size(step, half, columns):
    """Views cost about O(1).

    Counted on the dispatcher, without a clock: a view of a matrix of up to 2**60 elements takes the operators
    that a view of 4 by 4 elements takes, and not a byte of storage. A copy takes them all.
    """
    small = torch.empty(4, 4, dtype=torch.uint8, device="meta")
    large = torch.empty(2 * half, columns, dtype=torch.uint8, device="meta")
    with sharing.trace_allocations() as at_small:
        step.apply(small)
    with sharing.trace_allocations() as at_large:
        step.apply(large)
    assert at_large.operators == at_small.operators
    assert at_large.nbytes == 0
    assert sharing.allocated(large.clone) == large.numel()


@also("tensors.views.constant-time")
@on_each_device
@given(case=view_operations())
def test_no_view_allocates(case, device):
    """No view operation on any layout makes new storage."""
    layout, step = case
    x = layout.build(device)
    assert sharing.allocated(lambda: step.apply(x)) == 0
    assert sharing.allocated(x.clone) == x.numel() * x.itemsize


@also("tensors.views.constant-time")
@on_each_device
@given(layout=fresh_layouts(FILLED, (1, 2, 3)), size=st.integers(1, 4))
def test_unbind_and_split_make_one_view_a_piece(layout, size, device):
    """unbind and split make as many views as there are pieces, so that their cost grows with those."""
    x = layout.build(device)
    assert len(x.unbind(0)) == x.shape[0]
    assert len(x.split(size)) == math.ceil(x.shape[0] / size)
    assert sharing.allocated(lambda: (x.unbind(0), x.split(size))) == 0


@also("tensors.views.constant-time")
@on_each_device
def test_a_view_takes_as_long_at_every_size(device):
    """Timed: the view of 10**7 elements, on a GPU of 10**8, takes as long as that of 100, and a copy over 20 times as
    long. From the thorough level on a processor has 10**8 too.
    """
    many = workloads.many_elements(device)
    for step in SIZELESS:
        large, small = (ViewOperation(step, elements, device).work() for elements in (many, 100))
        within_band(compare(large, small, Band(0.5, 2)), rule=1, label="large over small", where=step)
    view, copy = ViewOperation(Transpose(0, 1), many, device), Clone(many, device)
    seen = compare(view.work(), copy.awaited(), Band(0, 0.05), budget=30)
    within_band(seen, label="view over copy", where=copy)


@also("tensors.views.constant-time")
@needs("cuda")
def test_a_view_launches_no_kernel_and_takes_no_memory_of_a_gpu():
    """The device does not hear of a view; of a copy it does."""
    require_sight()
    x = torch.ones(512, 256, device="cuda")
    views = [partial(step.apply, x) for step in SIZELESS]
    heard = launched(lambda: [view() for view in views])
    quiet = [not (heard and launched(view)) and not taken(view) for view in views]
    every("view operations on a GPU", quiet, SIZELESS, size=18)
    assert launched(x.clone) and taken(x.clone) == 4 * x.numel()


# ── copies ──


@refuted(
    "tensors.copies.only-when-needed",
    instead="several operations copy always, also where a view would do: an index list or tensor, cat or stack of one"
    " tensor, repeat and tile by one, roll by zero, flip of a dimension of size one. reshape, flatten, contiguous,"
    " expand, and to() without a change never copy when they need not",
)
@given(operation=st.sampled_from(tuple(IDLE_COPIES)), layout=fresh_layouts(FILLED, (1, 2, 3)))
@example(operation="x[[0, 1, ...]]", layout=Layout((2, 3)))
@example(operation="x.index_select(0, every index)", layout=Layout((2, 3)))
@example(operation="torch.cat([x])", layout=Layout((2, 3)))
@example(operation="torch.stack([x])", layout=Layout((2, 3)))
@example(operation="x.repeat(1, ...)", layout=Layout((2, 3)))
@example(operation="x.tile((1,))", layout=Layout((2, 3)))
@example(operation="x.roll(0, 0)", layout=Layout((2, 3)))
@example(operation="x.unsqueeze(0).flip(0)", layout=Layout((2, 3)))
def test_data_is_copied_only_when_it_has_to_be(operation, layout):
    """Data is copied only when its physical order has to change or new data arises.

    Each of these operations hands back all elements in the order in which they lie.
    """
    x = layout.build()
    result = IDLE_COPIES[operation](x)
    assert same_storage(x, result) or not torch.equal(result.flatten(), x.flatten())


@corrects("tensors.copies.only-when-needed")
@on_each_device
@given(case=st.one_of(fitting_targets(), cutting_targets()))
@example(case=(Layout((2, 3), (Transpose(0, 1),)), (3, 2)))
@example(case=(Layout((2, 3), (Transpose(0, 1),)), (6,)))
def test_these_never_copy_when_they_need_not(case, device):
    """reshape, flatten, contiguous, expand, and to() without a change never copy where a view would do.

    ravel, which is contiguous and then view, never copies what is contiguous.
    """
    layout, target = case
    x, window = layout.build(device), layout.window()
    if can_view(window.shape, window.stride, target):
        y = x.reshape(target)
        assert same_storage(x, y) and same_storage(x, x.reshape_as(y))
    assert not can_view(window.shape, window.stride, (window.numel,)) or same_storage(x, x.flatten())
    assert not strided.is_contiguous(window) or (x.contiguous() is x and same_storage(x, x.ravel()))
    assert same_storage(x, x.expand(2, *x.shape))
    assert x.to(x.dtype) is x.to(x.device) is x


@corrects("tensors.copies.only-when-needed")
@given(layout=layouts(), front=st.integers(0, 1), times=st.tuples(*[st.integers(1, 2)] * 6), shift=st.integers(-3, 3))
@example(layout=Layout((1, 1)), front=0, times=(1,) * 6, shift=0)
@example(layout=Layout((1, 1)), front=0, times=(2,) * 6, shift=0)
def test_repeat_tile_flip_and_roll_always_copy(layout, front, times, shift):
    """repeat and tile write the repeated elements out, flip and roll the moved ones, also where there is one.

    NumPy's tile, flip and roll give the same elements.
    """
    x = layout.build()
    array, counts, dims = x.numpy(), times[: x.dim() + front], tuple(range(x.dim()))
    for repeated in (x.repeat(counts), x.tile(counts)):
        assert not same_storage(x, repeated) and repeated.stride() == strided.packed_stride(repeated.shape)
        assert np.array_equal(repeated, np.tile(array, counts))
    assert not same_storage(x, x.flip(dims)) and np.array_equal(x.flip(dims), np.flip(array, dims))
    assert not same_storage(x, x.roll(shift)) and np.array_equal(x.roll(shift), np.roll(array, shift))


@corrects("tensors.copies.only-when-needed")
@given(layout=filled_layouts())
@example(layout=Layout((2, 3), (Transpose(0, 1),)))
def test_a_tensor_and_an_array_are_one_memory_unless_a_copy_is_asked_for(layout):
    """as_tensor, asarray, from_numpy and from_dlpack show an array's own memory, with its strides.

    So numpy() and np.asarray do of a tensor; as_tensor and asarray of a tensor are that tensor. torch.tensor,
    new_tensor, another dtype and copy=True copy. (So does asarray of an array without dimensions.)
    """
    x = layout.build()[None]
    for array in (x.numpy(), np.asarray(x), np.from_dlpack(x)):
        steps = zip(x.shape, array.strides, x.stride(), strict=True)
        assert array.ctypes.data == x.data_ptr()
        assert all(length == 1 or taken == step * x.itemsize for length, taken, step in steps)
    assert torch.as_tensor(x) is torch.asarray(x) is x
    for show in SHOWING:
        assert metadata(show(x.numpy())).stride == x.stride() and show(x.numpy()).data_ptr() == x.data_ptr()
    for made in (copied(x.numpy()) for copied in COPYING):
        assert made.data_ptr() != x.data_ptr() and torch.equal(made, x)


@holds_when(
    "tensors.copies.contiguous",
    "the tensor is not contiguous already; otherwise it returns the same tensor",
)
@on_each_device
@given(layout=st.one_of(contiguous_layouts(), scattered_layouts()))
@example(layout=Layout((2, 3)))
@example(layout=Layout((2, 3), (Transpose(0, 1),)))
@example(layout=Layout((2, 1, 3), (Transpose(0, 1), Transpose(0, 1))))
@example(layout=Layout((3,), (Expand((2, -1)), Narrow(0, 0, 0))))
def test_contiguous_copies(layout, device):
    """contiguous() copies.

    The copy has the same elements, row-major, and takes exactly their bytes. What counts as contiguous allows
    any stride for dimensions of size one and for tensors without elements.
    """
    x = layout.build(device)
    y = x.contiguous()
    copied = not same_storage(x, y)
    assert copied == when(not strided.is_contiguous(layout.window()))
    assert copied or y is x
    assert torch.equal(x, y) and strided.is_contiguous(metadata(y))
    assert sharing.allocated(x.contiguous) == (x.numel() * x.itemsize if copied else 0)


@refuted(
    "tensors.copies.reshape-mostly",
    instead="reshape returns a view whenever one with the new shape exists, always so for a contiguous tensor, and"
    " copies only otherwise; how often that is depends on what is reshaped",
)
def test_reshape_copies_in_most_cases():
    """reshape copies in most cases.

    Asked of every shape of up to three dimensions of sizes 1 to 3, in every order of its dimensions, reshaped
    to every shape of up to three dimensions.
    """
    pairs = scopes.with_targets(scopes.every_permuted((1, 2, 3), 3), 3)
    copies = sum(not same_storage(x, x.reshape(to)) for x, to in ((start.build(), to) for start, to in pairs))
    observe(
        rule=1 / 2,
        exact=copies / len(pairs),
        unit="of all reshapes copy",
        label="every order of small shapes",
    )
    assert copies > len(pairs) / 2


@corrects("tensors.copies.reshape-mostly")
@on_each_device
@given(case=st.one_of(fitting_targets(), cut_targets()))
@example(case=(Layout((2, 3)), (3, 2)))
@example(case=(Layout((2, 3), (Transpose(0, 1),)), (6,)))
def test_reshape_copies_exactly_where_no_view_exists(case, device):
    """reshape returns a view whenever one with the new shape exists, and otherwise a packed copy."""
    layout, target = case
    x, window = layout.build(device), layout.window()
    y = x.reshape(target)
    viewed = can_view(window.shape, window.stride, target)
    assert same_storage(x, y) == viewed
    assert viewed or y.stride() == strided.packed_stride(y.shape)
    assert y.flatten().tolist() == strided.addresses(window).ravel().tolist()


@corrects("tensors.copies.reshape-mostly")
def test_how_often_reshape_copies_depends_on_what_is_reshaped():
    """Contiguous, none of the same small shapes copies; with dimensions really reordered, four in five do."""
    pairs = scopes.with_targets(scopes.every_permuted((1, 2, 3), 3), 3)
    reordered = [(start.build(), to) for start, to in pairs if strided.reorders(start.shape, start.steps[0].order)]
    contiguous = [(start.build(), to) for start, to in pairs if start.build().is_contiguous()]
    copies = sum(not same_storage(x, x.reshape(to)) for x, to in reordered)
    observe(rule=4 / 5, exact=copies / len(reordered), bound=0.01, unit="of all copy", label="really reordered")
    assert len(reordered) + len(contiguous) == scopes.permuted_pairs((1, 2, 3), 3, 3)
    assert all(same_storage(x, x.reshape(to)) for x, to in contiguous)


@holds("tensors.copies.clone")
@on_each_device
@given(layout=st.one_of(layouts(), lazy_layouts()))
@example(layout=Layout((0,)))
@example(layout=Layout((2, 3), (Transpose(0, 1),)))
@example(layout=Layout((3,), (Expand((2, -1)),)))
def test_clone_allocates_and_copies(layout, device):
    """clone() allocates new storage and copies.

    Also of a tensor without elements. A dense tensor keeps its strides; any other is packed in the order of
    its strides.
    """
    x = layout.build(device)
    y = x.clone()
    assert not same_storage(x, y)
    assert torch.equal(x, y) and y.dtype == x.dtype
    assert y.stride() == strided.clone_stride(layout.window())
    assert sharing.allocated(x.clone) == x.numel() * x.itemsize


@also("tensors.copies.clone")
@given(layout=layouts())
@example(layout=Layout((2, 3), (Transpose(0, 1),)))
def test_every_copy_of_a_dense_tensor_keeps_its_strides(layout):
    """A copy by to(), and what is made "like" a tensor, have the strides of its clone; new_empty is row-major.

    A memory format that is asked for goes before them.
    """
    x, packed = layout.build(), strided.packed_stride(layout.window().shape)
    like = (torch.empty_like, torch.zeros_like, torch.ones_like, torch.rand_like)
    copies = [
        x.to(torch.float32),
        x.double(),
        x.to(x.dtype, copy=True),
        *(made(x, dtype=torch.float32) for made in like),
    ]
    assert {y.stride() for y in copies} == {strided.clone_stride(layout.window())}
    assert not any(same_storage(x, y) for y in copies)
    assert x.clone(memory_format=torch.contiguous_format).stride() == packed
    assert x.new_empty(x.shape).stride() == packed


@also("tensors.copies.clone")
@on_each_device
@given(layout=layouts())
def test_writes_do_not_cross_between_a_tensor_and_its_clone(layout, device):
    """What is written to a clone does not show in the tensor, nor the other way round."""
    x = layout.build(device)
    before = x.tolist()
    y = x.clone()
    y.fill_(-1)
    assert x.tolist() == before
    x.fill_(-2)
    assert (y == -1).all()


# ── contiguity ──


@holds_when(
    "tensors.contiguity.transpose-breaks-it",
    "starting from a contiguous tensor with elements, dimensions longer than one change places among themselves",
)
@given(case=st.one_of(keeping_orders(), changing_orders()))
@example(case=((2, 3), (1, 0)))
@example(case=((1, 3), (1, 0)))
@example(case=((0, 2, 3), (2, 1, 0)))
def test_reordering_dimensions_breaks_contiguity(case):
    """After transpose or permute a tensor is often not contiguous, since the strides changed.

    torch, NumPy and the model agree on what is.
    """
    shape, order = case
    x = Layout(shape, (Permute(order),)).build()
    broken = not x.is_contiguous()
    assert broken == (not x.numpy().flags.c_contiguous) == (not strided.is_contiguous(metadata(x)))
    assert broken == when(strided.reorders(shape, order))


@also("tensors.contiguity.transpose-breaks-it")
@given(layout=layouts())
@example(layout=Layout((), (Expand((2,)),)))
@example(layout=Layout((2, 3), (Slice(1, None, None, 3),)))
def test_contiguous_means_row_major_without_gaps_or_repeats(layout):
    """After any chain of views torch, NumPy and the model agree on whether a tensor is contiguous."""
    x = layout.build()
    assert x.is_contiguous() == x.numpy().flags.c_contiguous == strided.is_contiguous(layout.window())


@also("tensors.contiguity.transpose-breaks-it")
def test_contiguity_of_every_small_shape_in_every_order():
    """Every shape of up to four dimensions of sizes 0 to 2, in every order of its dimensions.

    Of sizes 0 to 3 from the thorough level on.
    """
    sizes = range(3) if level() < Level.THOROUGH else range(4)
    cases = list(scopes.every_permuted(sizes, 4))
    broken = [strided.reorders(layout.shape, layout.steps[0].order) for layout in cases]
    every(
        f"every order of every shape of up to 4 dimensions of sizes 0 to {sizes[-1]}",
        [
            layout.build().is_contiguous() == strided.is_contiguous(layout.window()) == (not breaks)
            for layout, breaks in zip(cases, broken, strict=True)
        ],
        cases,
        size=scopes.permuted_in_scope(len(sizes), 4),
        inside=broken,
    )


@also("tensors.contiguity.transpose-breaks-it")
@given(
    shape=st.tuples(*[st.sampled_from((1, 2, 3))] * 4),
    order=st.permutations(range(4)).map(tuple),
    start=st.integers(0, 1),
)
@example(shape=(2, 3, 3, 2), order=(0, 3, 1, 2), start=0)
@example(shape=(2, 1, 3, 3), order=(0, 1, 2, 3), start=0)
@example(shape=(2, 3, 1, 1), order=(0, 1, 2, 3), start=1)
def test_channels_last_is_contiguous_in_another_order(shape, order, start):
    """A batch of images is contiguous in channels_last where its order N, H, W, C is contiguous.

    With one channel, or with one pixel, it is so in both orders. contiguous(), to() and clone() of another
    memory format give strides in that order, and copy where they were not.
    """
    x = Layout((2, *shape), (Select(0, start), Permute(order))).build()
    last = strided.is_contiguous(strided.permute(metadata(x), (0, 2, 3, 1)))
    assert x.is_contiguous(memory_format=torch.channels_last) == last
    moved = x.contiguous(memory_format=torch.channels_last)
    cloned = x.clone(memory_format=torch.channels_last)
    assert torch.equal(moved, x) and torch.equal(cloned, x) and not same_storage(x, cloned)
    assert same_storage(x, moved) == last
    assert all(y.permute(0, 2, 3, 1).is_contiguous() for y in (moved, cloned, x.to(memory_format=torch.channels_last)))


# ── what view() can do ──


@holds_when(
    "tensors.view.fails-on-transposed",
    "the target shape cuts across dimensions that are not laid out end to end, or leaves open what -1 is",
)
@on_each_device
@costly(cases=50, because="a case takes milliseconds")
@given(case=st.one_of(cutting_targets(), fitting_targets()))
@example(case=(Layout((2, 3), (Transpose(0, 1),)), (6,)))
@example(case=(Layout((2, 6), (Transpose(0, 1),)), (2, 3, 2)))
@example(case=(Layout((0, 3)), (0, -1)))
@example(case=(Layout((0, 3)), (-1, 3)))
def test_view_refuses_what_it_cannot_reinterpret(case, device):
    """view() raises on a transposed or permuted tensor.

    Flattening a transposed matrix fails, splitting one of its dimensions works. What view() makes of a layout
    has the shape and the strides that the model predicts, -1, dimensions of size one and repeated ones
    included.
    """
    layout, target = case
    x, window = layout.build(device), layout.window()
    refusal = refused(RuntimeError, x.view, target)
    assert refusal == when(not can_view(window.shape, window.stride, target))
    assert refusal or metadata(x.view(target)) == strided.view(window, target)


@also("tensors.view.fails-on-transposed")
def test_view_of_every_small_shape_in_every_order():
    """Every shape of up to three dimensions of sizes 1 to 3, in every order, to every shape of up to three.

    From the thorough level on, up to four dimensions.
    """
    dims = 3 if level() < Level.THOROUGH else 4
    cases = scopes.with_targets(scopes.every_permuted((1, 2, 3), dims), dims)
    cuts = [not can_view(layout.window().shape, layout.window().stride, target) for layout, target in cases]
    every(
        f"every order of every shape of up to {dims} dimensions of sizes 1 to 3, to every shape",
        [
            refused(RuntimeError, layout.build().view, target) == cut
            for (layout, target), cut in zip(cases, cuts, strict=True)
        ],
        cases,
        size=scopes.permuted_pairs((1, 2, 3), dims, dims),
        inside=cuts,
    )


@also("tensors.view.fails-on-transposed")
def test_minus_one_is_refused_only_where_it_is_open():
    """A tensor without elements takes every target with a 0 in it, or with a -1 that no 0 leaves open.

    A 0 in a target means the size 0; it does not keep a size. flatten needs no -1, and works on all of them.
    """
    shapes = [shape for shape in scopes.every_shape((0, 1, 2, 3), 3) if 0 in shape]
    targets = [(), *(target for rank in (1, 2, 3) for target in product((-1, 0, 1, 2), repeat=rank))]
    cases = [(Layout(shape), target) for shape in shapes for target in targets]
    views = [lambda layout=layout, sizes=target or ((),): layout.build().view(*sizes) for layout, target in cases]
    fits = [
        target.count(-1) + target.count(0) > 0 and target.count(-1) < (1 if 0 in target else 2) for _, target in cases
    ]
    every(
        "every shape with a 0 of up to 3 dimensions of sizes 0 to 3, to every target of sizes -1 to 2",
        [
            refused(RuntimeError, view) != fit and (not fit or view().shape == tuple(max(size, 0) for size in target))
            for view, (_, target), fit in zip(views, cases, fits, strict=True)
        ],
        cases,
        size=(4**3 - 3**3 + 4**2 - 3**2 + 1) * (1 + 4 + 4**2 + 4**3),
        inside=[not fit for fit in fits],
    )
    assert all(torch.empty(shape).flatten(1).shape[1] == math.prod(shape[1:]) for shape in shapes if shape[1:])


@holds_when("tensors.view.needs-contiguous", "the tensor is contiguous, which is enough; but it is not needed")
@on_each_device
@given(case=st.one_of(contiguous_targets(), scattered_targets()))
@example(case=(Layout((2, 3)), (3, 2)))
@example(case=(Layout((2, 3), (Transpose(0, 1),)), (3, 2, 1)))
@example(case=(Layout((2, 3), (Transpose(0, 1),)), (6,)))
def test_view_takes_contiguous_tensors(case, device):
    """view() needs a layout that satisfies certain conditions, usually contiguous.

    Every contiguous layout takes every shape of as many elements, and some that are not contiguous take a new
    shape too.
    """
    layout, target = case
    x = layout.build(device)
    accepted = not refused(RuntimeError, x.view, target)
    if when(x.is_contiguous()):
        assert accepted
    else:
        may_fail(accepted)


@also("tensors.view.needs-contiguous")
def test_one_dimension_of_any_stride_takes_every_shape():
    """A tensor of one dimension takes every shape, though with a stride other than 1 it is not contiguous."""
    cases = scopes.with_targets(scopes.every_strided(range(1, 13), (0, 1, 2, 3, 5, 8), 1), 3)
    every(
        "every tensor of at most one dimension up to size 12 with strides 0 to 8, to every shape",
        [not refused(RuntimeError, layout.build().view, target) for layout, target in cases],
        cases,
        size=scopes.strided_pairs(range(1, 13), 6, 1, 3),
        inside=[strided.is_contiguous(layout.window()) for layout, _ in cases],
    )


@also("tensors.view.needs-contiguous")
def test_the_smallest_that_is_not_contiguous_and_takes_a_new_shape_has_two_elements():
    """Fewer than two elements are always contiguous; two elements two places apart become two rows."""
    cases = list(scopes.every_strided((0, 1, 2), (0, 1, 2, 3), 2))
    every(
        "every window of up to 2 dimensions of sizes 0 to 2 with strides 0 to 3",
        [layout.build().is_contiguous() or layout.window().numel >= 2 for layout in cases],
        cases,
        size=scopes.strided_in_scope(3, 4, 2),
        inside=[strided.is_contiguous(layout.window()) for layout in cases],
    )
    x = torch.arange(3)[::2]
    assert not x.is_contiguous() and x.view(2, 1).tolist() == [[0], [2]]


@holds("tensors.view.reinterprets-or-refuses")
def test_where_view_is_refused_no_strides_would_do():
    """Where view() is refused, the shape cannot be had without copying.

    By trial over addresses: whatever view() refuses, no strides over the same storage visit the elements in
    their order. Every window of up to two dimensions of sizes 1 to 3, with strides that repeat, overlap,
    touch and leave gaps, to every shape of up to three dimensions.
    """
    dims = 2 if level() < Level.THOROUGH else 3
    cases = scopes.with_targets(scopes.every_strided((1, 2, 3), (0, 1, 2, 3, 6), dims), 3)
    possible = [affine_stride(strided.addresses(layout.window()).reshape(target)) for layout, target in cases]
    every(
        f"every window of up to {dims} dimensions, sizes 1 to 3, strides 0 to 6, to every shape of up to 3",
        [
            refused(RuntimeError, layout.build().view, target) == (strides is None)
            for (layout, target), strides in zip(cases, possible, strict=True)
        ],
        cases,
        size=scopes.strided_pairs((1, 2, 3), 5, dims, 3),
    )


@also("tensors.view.reinterprets-or-refuses")
@given(case=st.one_of(cut_targets(), fitting_targets()))
@example(case=(Layout((2, 3), (Transpose(0, 1),)), (6,)))
@example(case=(Layout((4,), (Unfold(0, 2, 1),)), (6,)))
def test_view_reinterprets_any_layout_or_refuses(case):
    """Where view() succeeds, storage is shared and the order kept; where it does not, no strides would do."""
    layout, target = case
    x, places = layout.build(), strided.addresses(layout.window())
    if refused(RuntimeError, x.view, target):
        assert affine_stride(places.reshape(target)) is None
    else:
        assert same_storage(x, x.view(target))
        assert np.array_equal(x.view(target).numpy(), places.reshape(x.view(target).shape))


@holds_when(
    "tensors.view.dtype",
    "the elements have the same size, or else the last dimension is contiguous and, where elements grow, its length,"
    " the offset and every other stride divide; a conjugate or negated tensor is refused even its own dtype",
)
@given(case=st.one_of(readable_bytes(), unreadable_bytes()))
@example(case=(Layout((2, 4), (), torch.float32), torch.int16))
@example(case=(Layout((2, 4), (), torch.int16), torch.float32))
@example(case=(Layout((2, 3), (), torch.int16), torch.float32))
@example(case=(Layout((), (), torch.int16), torch.float32))
@example(case=(Layout((2,), (Conjugate(),), torch.complex64), torch.int64))
@example(case=(Layout((2,), (Conjugate(),), torch.complex64), torch.complex64))
def test_view_of_another_dtype_reads_the_same_bytes(case):
    """view(dtype) reinterprets the same bytes.

    Storage is shared, shape, strides and offset are as the model predicts, and the elements are those that
    the bytes spell, as NumPy reads them.
    """
    layout, dtype = case
    x, window = layout.build(), layout.window()
    sizes = (x.itemsize, dtype.itemsize)
    accepted = not refused(RuntimeError, x.view, dtype)
    assert accepted == when(can_reinterpret(window, *sizes) and not x.is_conj() and not x.is_neg())
    if accepted:
        y, predicted = x.view(dtype), strided.reinterpret(window, *sizes)
        assert same_storage(x, y) and metadata(y) == predicted
        stored = sharing.elements(y)[strided.addresses(predicted)]
        assert y.numpy().tobytes() == stored.tobytes() == x.numpy().view(stored.dtype).tobytes()


@also("tensors.view.dtype")
@given(length=st.integers(2, 4000))
@example(length=2)
def test_torch_is_stricter_than_numpy_about_a_last_dimension_of_size_one(length):
    """A last dimension of size one must have stride 1 too, although nothing is ever stepped along it.

    NumPy reads the bytes of such an array.
    """
    x = torch.zeros(1, length, dtype=torch.int16).t()
    assert refused(RuntimeError, x.view, torch.uint8)
    assert x.numpy().view(np.uint8).shape == (length, 2)
