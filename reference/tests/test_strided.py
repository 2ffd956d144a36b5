"""The strided model against NumPy, rule by rule over a small scope: in elements here, in bytes there."""

import math
from collections.abc import Iterator
from itertools import permutations, product

import numpy as np
import pytest
from jaxtyping import Shaped
from numpy.lib.stride_tricks import as_strided, sliding_window_view

from reference import strided
from reference.strided import Strided

ITEM = 8
SIZES = (0, 1, 2, 3)
STRIDES = (0, 1, 2, 3, 6)


def windows(sizes: tuple[int, ...], strides: tuple[int, ...], dims: int) -> Iterator[Strided]:
    """Every window of at most ``dims`` dimensions, from element 1 of its storage on."""
    for rank in range(dims + 1):
        for shape, stride in product(product(sizes, repeat=rank), product(strides, repeat=rank)):
            reach = sum((size - 1) * step for size, step in zip(shape, stride, strict=True) if size)
            yield Strided(shape, stride, 1, reach + 3)


SMALL = list(windows(SIZES, STRIDES, 2)) + list(windows((1, 2, 3), (0, 1, 2, 3, 6), 3))[-(15**3) :: 7]
FEW = [strided.fresh(shape) for shape in product((0, 1, 2, 4), repeat=3)] + SMALL[::29]


def array(x: Strided) -> Shaped[np.ndarray, "..."]:
    """The window in NumPy, over a storage whose elements are their own addresses."""
    storage = np.arange(x.storage, dtype=np.int64)
    return as_strided(storage[x.offset :], x.shape, tuple(step * ITEM for step in x.stride))


def same(seen: Shaped[np.ndarray, "..."], x: Strided) -> bool:
    """Whether NumPy shows the same addresses, with the same strides along what is longer than one."""
    if seen.shape != x.shape:
        return False
    longer = [dim for dim, size in enumerate(x.shape) if size > 1 and x.numel]
    strides = all(seen.strides[dim] == x.stride[dim] * ITEM for dim in longer)
    return strides and np.array_equal(seen, strided.addresses(x))


def test_the_scopes_are_whole() -> None:
    assert len(SMALL) == 1 + 20 + 20**2 + math.ceil(15**3 / 7)
    assert len(set(SMALL)) == len(SMALL)


def test_addresses_are_those_of_numpy() -> None:
    for x in SMALL:
        assert np.array_equal(array(x), strided.addresses(x)), x


def test_one_address_is_the_one_in_the_table() -> None:
    for x in FEW:
        table = strided.addresses(x)
        assert all(strided.address(x, index) == table[index] for index in np.ndindex(x.shape)), x


def test_a_fresh_tensor_has_the_strides_of_numpy() -> None:
    for shape in product(SIZES, repeat=3):
        if 0 not in shape:
            fresh = np.empty(shape, dtype=np.int64)
            assert fresh.strides == tuple(step * ITEM for step in strided.packed_stride(shape)), shape
    assert strided.packed_stride((2, 0, 3)) == (3, 3, 1)


def test_contiguity_is_the_flag_of_numpy() -> None:
    for x in SMALL:
        assert strided.is_contiguous(x) == array(x).flags.c_contiguous, x


def test_an_order_that_reorders_moves_elements() -> None:
    for shape in product(SIZES, repeat=3):
        for order in permutations(range(3)):
            moved = strided.addresses(strided.permute(strided.fresh(shape), order)).ravel()
            assert strided.reorders(shape, order) == (moved.tolist() != sorted(moved)), (shape, order)


def test_distinct_addresses_are_the_elements_that_a_write_reaches() -> None:
    for x in SMALL:
        storage = np.zeros(x.storage, dtype=np.int64)
        as_strided(storage[x.offset :], x.shape, tuple(step * ITEM for step in x.stride))[...] = 1
        assert strided.distinct_addresses(x) == storage.sum(), x
        assert strided.overlaps(x) == (storage.sum() < x.numel), x
        assert strided.covers_storage_once(x) == (storage.sum() == storage.size == x.numel), x


def test_dense_means_no_gap_and_no_overlap() -> None:
    for x in SMALL:
        reached = np.sort(strided.addresses(x), axis=None)
        assert strided.is_dense(x) == bool((np.diff(reached) == 1).all()), x


def test_a_clone_has_the_strides_of_a_copy_in_order_k() -> None:
    """NumPy breaks ties its own way: among equal strides, and beside a stride of 0, it has no say."""
    seen = 0
    for x in SMALL:
        steps = [step for size, step in zip(x.shape, x.stride, strict=True) if size > 1]
        if x.numel and len(set(steps)) == len(steps) and 0 not in x.stride:
            copy = array(x).copy(order="K")
            longer = [dim for dim, size in enumerate(x.shape) if size > 1]
            clone = strided.clone_stride(x)
            assert all(clone[dim] * ITEM == copy.strides[dim] for dim in longer), x
            seen += 1
    assert seen > 300


def test_a_clone_is_dense_and_keeps_the_order_of_the_strides() -> None:
    for x in SMALL:
        clone = strided.clone_stride(x)
        copy = Strided(x.shape, clone, 0, x.numel + sum(clone))
        assert strided.is_dense(copy), x
        moving = [dim for dim, size in enumerate(x.shape) if size > 1 and x.stride[dim] and x.numel]
        for a, b in permutations(moving, 2):
            assert x.stride[a] >= x.stride[b] or clone[a] < clone[b], x


def test_a_dimension_with_stride_0_keeps_its_row_major_place_in_a_clone() -> None:
    assert strided.clone_stride(Strided((2, 3, 4), (0, 1, 3), 0, 12)) == (12, 1, 3)
    assert strided.clone_stride(Strided((2, 3, 4), (1, 0, 2), 0, 8)) == (1, 2, 6)
    assert strided.clone_stride(Strided((2, 3), (1, 1), 0, 4)) == (1, 2)


TARGETS = [target for rank in range(4) for target in product((1, 2, 3, 4, 6, 9), repeat=rank)]


def fits(x: Strided) -> list[tuple[int, ...]]:
    return [target for target in TARGETS if math.prod(target) == x.numel]


def test_the_view_rule_is_that_of_numpy() -> None:
    pairs = refused = 0
    for x in SMALL:
        window = array(x)
        for target in fits(x):
            reshaped = window.reshape(target)
            copied = not np.shares_memory(window, reshaped)
            stride = strided.view_stride(x.shape, x.stride, target)
            assert copied == (stride is None), (x, target)
            if stride is not None:
                assert same(reshaped, Strided(target, stride, x.offset, x.storage)), (x, target)
            pairs += 1
            refused += copied
    assert pairs > 4_000
    assert pairs / 10 < refused < pairs * 9 / 10


def test_the_view_rule_is_what_trial_over_addresses_finds() -> None:
    for x in SMALL:
        places = strided.addresses(x)
        for target in fits(x):
            found = strided.affine_stride(places.reshape(target))
            assert (found is not None) == strided.can_view(x.shape, x.stride, target), (x, target)


def test_without_elements_every_shape_is_a_view_of_every_other() -> None:
    assert strided.view_stride((2, 0), (7, 5), (0, 3)) == (3, 1)
    assert strided.view_stride((2, 0), (7, 5), (2, 0)) == (7, 5)
    assert not strided.can_view((2, 0), (1, 1), (0, -1))
    assert strided.can_view((2, 0), (1, 1), (-1, 2))
    assert strided.affine_stride(np.zeros((2, 0, 3), dtype=np.int64)) == (3, 3, 1)


def test_a_dimension_of_size_one_gets_the_stride_that_torch_gives_it() -> None:
    assert strided.view_stride((), (), (1, 1)) == (1, 1)
    assert strided.affine_stride(np.array([[4, 6]])) == (0, 2)
    assert strided.expand(strided.fresh((2, 3)), (1, 1, 2, 3)).stride == (6, 6, 3, 1)
    assert strided.expand(strided.fresh(()), (1, 1)).stride == (0, 0)
    assert strided.unfold(strided.fresh(()), 0, 1, 1) == Strided((1,), (1,), 0, 1)


@pytest.mark.parametrize("numel", [0, 1, 2, 6, 12])
def test_minus_one_stands_for_the_size_that_numpy_finds(numel: int) -> None:
    for rank in range(4):
        for target in product((-1, 0, 1, 2, 3, 5), repeat=rank):
            try:
                expected = np.empty(numel).reshape(target).shape
            except ValueError:
                with pytest.raises(ValueError):
                    strided.resolve(numel, target)
            else:
                assert strided.resolve(numel, target) == expected


def test_reordering_is_that_of_numpy() -> None:
    for x in FEW:
        a, dims = array(x), range(-x.dim, x.dim)
        for order in permutations(range(x.dim)):
            assert same(a.transpose(order), strided.permute(x, order))
        for first, second in product(dims, repeat=2):
            assert same(a.swapaxes(first, second), strided.transpose(x, first, second))
            assert same(a.swapaxes(first, second), strided.swapaxes(x, first, second))
            assert same(np.moveaxis(a, first, second), strided.movedim(x, first, second))
        if x.dim <= 2:
            assert same(a.T, strided.t(x))


def test_selecting_and_slicing_are_those_of_numpy() -> None:
    for x in FEW:
        a = array(x)
        for dim in range(x.dim):
            along: tuple[slice | int, ...] = (slice(None),) * dim
            for place in range(-x.shape[dim], x.shape[dim]):
                assert same(a[(*along, place)], strided.select(x, dim, place))
            for start, stop, step in product((None, -9, -2, 0, 1, 9), (None, -1, 0, 2, 9), (1, 2)):
                assert same(a[(*along, slice(start, stop, step))], strided.sliced(x, dim, start, stop, step))
            for start in range(x.shape[dim] + 1):
                for length in range(x.shape[dim] - start + 1):
                    assert same(a[(*along, slice(start, start + length))], strided.narrow(x, dim, start, length))
            assert strided.unbind(x) == strided.unbind(x, 0)
            pieces = strided.unbind(x, dim)
            assert len(pieces) == a.shape[dim]
            assert all(same(a[(*along, place)], piece) for place, piece in enumerate(pieces))


def test_a_basic_index_is_that_of_numpy() -> None:
    items = (0, -1, slice(1, None), slice(0, 3, 2), None, Ellipsis)
    compared = 0
    for x in FEW[::3]:
        for index in (index for rank in range(4) for index in product(items, repeat=rank)):
            try:
                expected = array(x)[index]
            except IndexError:
                with pytest.raises(IndexError):
                    strided.index(x, index)
            else:
                assert same(np.asarray(expected), strided.index(x, index)), (x, index)
                compared += 1
    assert compared > 2_000


def test_expanding_is_broadcasting() -> None:
    for x in FEW:
        for front in ((), (1,), (2,), (0, 3)):
            for kept in product(*((size, 4) if size == 1 else (size,) for size in x.shape)):
                sizes = (*front, *kept)
                assert same(np.broadcast_to(array(x), sizes), strided.expand(x, sizes))
        assert strided.expand(x, (-1,) * x.dim) == x


def test_unfolding_gives_sliding_windows() -> None:
    for x in FEW:
        for dim in range(x.dim):
            for size, step in product(range(1, x.shape[dim] + 1), (1, 2, 3)):
                moved = sliding_window_view(array(x), size, axis=dim)
                every = (*(slice(None),) * dim, slice(None, None, step))
                assert same(moved[every], strided.unfold(x, dim, size, step))


def test_a_diagonal_is_that_of_numpy() -> None:
    for x in FEW:
        for first, second in permutations(range(x.dim), 2):
            for offset in (-5, -1, 0, 1, 2, 5):
                expected = array(x).diagonal(offset, first, second)
                assert same(expected, strided.diagonal(x, offset, first, second))
        if x.dim > 1:
            assert strided.diagonal(x) == strided.diagonal(x, 0, 0, 1)


def test_dimensions_of_size_one_come_and_go_as_in_numpy() -> None:
    for x in FEW:
        a = array(x)
        assert same(np.squeeze(a), strided.squeeze(x))
        for dim in range(x.dim):
            assert same(a.squeeze(dim) if x.shape[dim] == 1 else a, strided.squeeze(x, dim))
        for dim in range(-x.dim - 1, x.dim + 1):
            assert same(np.expand_dims(a, dim), strided.unsqueeze(x, dim))


def test_splitting_cuts_where_numpy_is_told_to() -> None:
    for x in FEW:
        for dim in range(x.dim):
            length = x.shape[dim]
            for size in (1, 2, 3):
                expected = np.split(array(x), range(size, length, size), axis=dim)
                pieces = strided.split(x, size, dim)
                assert len(pieces) == len(expected)
                assert all(map(same, expected, pieces))
    for length, chunks in product(range(1, 12), range(1, 8)):
        sizes = [piece.numel for piece in strided.chunk(strided.fresh((length,)), chunks)]
        assert sum(sizes) == length
        assert len(sizes) <= chunks
        assert len(set(sizes[:-1])) <= 1
        assert sizes[-1] <= sizes[0]
        assert (sizes[0] - 1) * chunks < length
    assert strided.split(strided.fresh((0, 2)), 0) == (strided.fresh((0, 2)),)
    assert strided.chunk(strided.fresh((0, 2)), 3) == (strided.fresh((0, 2)),) * 3


def test_unflattening_reshapes_one_dimension() -> None:
    for x in FEW:
        for dim in range(x.dim):
            if x.shape[dim] == 4:
                expected = array(x).reshape(*x.shape[:dim], 2, 2, *x.shape[dim + 1 :])
                assert same(expected, strided.unflatten(x, dim, (2, -1)))


def test_as_strided_is_bound_to_the_storage_only() -> None:
    x = Strided((4,), (1,), 2, 10)
    assert strided.addresses(strided.as_strided(x, (5, 4), (1, 1)))[4].tolist() == [6, 7, 8, 9]
    assert strided.addresses(strided.as_strided(x, (4,), (1,), 0)).tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="beyond a storage of 10"):
        strided.as_strided(x, (5, 4), (1, 1), 3)


def test_complex_numbers_are_pairs() -> None:
    for x in FEW:
        pairs = np.arange(2 * x.storage, dtype=np.float64)
        numbers = as_strided(pairs.view(np.complex128)[x.offset :], x.shape, tuple(16 * s for s in x.stride))
        expected = np.stack([numbers.real, numbers.imag], axis=-1)
        assert np.array_equal(expected, strided.addresses(strided.view_as_real(x))), x


def test_reinterpreting_bytes_is_that_of_numpy() -> None:
    """NumPy takes any offset, and any stride of a size-1 dimension; where both take a window, they agree."""
    widths = {1: np.uint8, 2: np.uint16, 4: np.uint32}
    taken = 0
    for x, (old, new) in product(FEW, product(widths, repeat=2)):
        numbers = np.arange(x.storage * old, dtype=np.uint8).view(widths[old])
        window = as_strided(numbers[x.offset :], x.shape, tuple(old * step for step in x.stride))
        try:
            result = strided.reinterpret(x, old, new)
        except ValueError:
            continue
        bytes_of = numbers.view(np.uint8)[: result.storage * new].view(widths[new])
        assert np.array_equal(window.view(widths[new]), bytes_of[strided.addresses(result)]), (x, old, new)
        taken += old != new
    assert taken > 100


def test_reinterpreting_is_refused_where_numpy_refuses_it() -> None:
    widths = {1: np.uint8, 2: np.uint16, 4: np.uint32}
    for x, (old, new) in product(FEW, product(widths, repeat=2)):
        numbers = np.zeros(x.storage, dtype=widths[old])
        window = as_strided(numbers[x.offset :], x.shape, tuple(old * step for step in x.stride))
        try:
            window.view(widths[new])
        except ValueError:
            with pytest.raises(ValueError):
                strided.reinterpret(x, old, new)


@pytest.mark.parametrize(
    ("refused", "kind", "says"),
    [
        (lambda: Strided((2,), (1, 1), 0, 2), ValueError, "differ in length"),
        (lambda: Strided((2,), (-1,), 1, 2), ValueError, "negative"),
        (lambda: Strided((3,), (1,), 0, 2), ValueError, "beyond a storage of 2"),
        (lambda: strided.address(strided.fresh((2, 3)), (0, 3)), IndexError, "not an index"),
        (lambda: strided.permute(strided.fresh((2, 3)), (0, 0)), ValueError, "name each once"),
        (lambda: strided.transpose(strided.fresh((2, 3)), 0, 2), IndexError, "out of range"),
        (lambda: strided.t(strided.fresh((2, 3, 4))), ValueError, "at most two"),
        (lambda: strided.select(strided.fresh(()), 0, 0), IndexError, "none to select"),
        (lambda: strided.select(strided.fresh((2,)), 0, 2), IndexError, "out of range"),
        (lambda: strided.sliced(strided.fresh((2,)), 0, step=-1), ValueError, "not positive"),
        (lambda: strided.sliced(strided.fresh(()), 0), IndexError, "cannot be sliced"),
        (lambda: strided.narrow(strided.fresh((2,)), 0, 1, 2), ValueError, "not within"),
        (lambda: strided.narrow(strided.fresh(()), 0, 0, 1), IndexError, "cannot be narrowed"),
        (lambda: strided.expand(strided.fresh((2,)), (3,)), ValueError, "only a size of one"),
        (lambda: strided.expand(strided.fresh((2, 3)), (3,)), ValueError, "fewer dimensions"),
        (lambda: strided.expand(strided.fresh((2,)), (-1, 2)), ValueError, "new dimension"),
        (lambda: strided.squeeze(strided.fresh(()), 1), IndexError, "out of range"),
        (lambda: strided.unfold(strided.fresh((2,)), 0, 3, 1), ValueError, "no windows"),
        (lambda: strided.unfold(strided.fresh(()), 0, 2, 1), ValueError, "no windows"),
        (lambda: strided.diagonal(strided.fresh((2, 2)), 0, 1, 1), ValueError, "two dimensions"),
        (
            lambda: strided.view(strided.transpose(strided.fresh((2, 3)), 0, 1), (6,)),
            ValueError,
            "cuts across",
        ),
        (lambda: strided.resolve(6, (-1, -1)), ValueError, "at most once"),
        (lambda: strided.resolve(4, (-2, -2)), ValueError, "is no shape"),
        (lambda: strided.resolve(6, (4,)), ValueError, "has 4 elements"),
        (lambda: strided.resolve(6, (4, -1)), ValueError, "cannot be shared out"),
        (lambda: strided.unflatten(strided.fresh(()), 0, (1,)), IndexError, "none to unflatten"),
        (lambda: strided.split(strided.fresh((2,)), 0), ValueError, "never cover"),
        (lambda: strided.split(strided.fresh(()), 1), IndexError, "cannot be split"),
        (lambda: strided.chunk(strided.fresh((2,)), 0), ValueError, "1 or more"),
        (lambda: strided.chunk(strided.fresh(()), 1), IndexError, "cannot be split"),
        (lambda: strided.unbind(strided.fresh(())), IndexError, "none to unbind"),
        (lambda: strided.index(strided.fresh((2,)), (0, 0)), IndexError, "names more than"),
        (lambda: strided.reinterpret(strided.fresh(()), 4, 8), ValueError, "no dimension"),
        (lambda: strided.reinterpret(Strided((2,), (2,), 0, 4), 4, 2), ValueError, "not contiguous"),
        (lambda: strided.reinterpret(strided.fresh((3,)), 4, 8), ValueError, "not divide by 2"),
        (lambda: strided.reinterpret(Strided((2, 2), (3, 1), 0, 6), 4, 8), ValueError, "not divide by 2"),
    ],
)
def test_what_torch_refuses_is_refused_with_a_reason(refused: object, kind: type[Exception], says: str) -> None:
    assert callable(refused)
    with pytest.raises(kind, match=says):
        refused()
