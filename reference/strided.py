"""Strided memory without torch: where every element of a tensor lies, and what each view operation does to
that.

A tensor is a window on one-dimensional storage: sizes, strides and a start, all counted in elements. A view
operation makes another window on the same storage, so here it maps a ``Strided`` to a ``Strided`` and touches
no data. Operations carry torch's names and take its arguments; ``sliced``, ``index`` and ``reinterpret``
stand for ``x[a:b:c]``, ``x[...]`` and ``x.view(dtype)``. Each raises ValueError where the operation is
refused (IndexError for a dimension or an index that is not there).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import EllipsisType

import numpy as np
from jaxtyping import Int64

Shape = tuple[int, ...]
Stride = tuple[int, ...]
Item = int | slice | EllipsisType | None
"""One item of a basic index: an integer, a slice, an ellipsis, or None for a new dimension."""


@dataclass(frozen=True)
class Strided:
    """A window on one-dimensional storage, every number counted in elements.

    ``storage`` is how many elements the storage has. Every element of the window lies within it; sizes and
    strides are not negative, since torch has no negative strides.
    """

    shape: Shape
    stride: Stride
    offset: int
    storage: int

    def __post_init__(self) -> None:
        if len(self.shape) != len(self.stride):
            raise ValueError(
                f"shape {self.shape} and stride {self.stride} differ in length: give one stride a dimension"
            )
        if min((*self.shape, *self.stride, self.offset, self.storage)) < 0:
            raise ValueError(f"{self} has a negative number: sizes, strides, offset and storage count from 0")
        if self.numel and self.last >= self.storage:
            raise ValueError(f"element {self.last} is beyond a storage of {self.storage}: shrink the window")

    @property
    def numel(self) -> int:
        """How many index tuples the window has."""
        return math.prod(self.shape)

    @property
    def last(self) -> int:
        """The largest address of a window that has elements."""
        return self.offset + sum((size - 1) * step for size, step in zip(self.shape, self.stride, strict=True))

    @property
    def dim(self) -> int:
        """How many dimensions the window has."""
        return len(self.shape)


def packed_stride(shape: Sequence[int]) -> Stride:
    """Strides of a fresh tensor: the running product of the later sizes, a size of zero counted as one."""
    stride: list[int] = []
    step = 1
    for size in reversed(shape):
        stride.append(step)
        step *= max(size, 1)
    return tuple(reversed(stride))


def fresh(shape: Sequence[int]) -> Strided:
    """A tensor of that shape on storage of its own."""
    return Strided(tuple(shape), packed_stride(shape), 0, math.prod(shape))


# ── where elements lie ──


def address(x: Strided, index: Sequence[int]) -> int:
    """The place in the storage of the element at ``index``."""
    if len(index) != x.dim or any(not 0 <= i < size for i, size in zip(index, x.shape, strict=True)):
        raise IndexError(f"{tuple(index)} is not an index of shape {x.shape}: give one number a dimension, from 0")
    return x.offset + sum(i * step for i, step in zip(index, x.stride, strict=True))


def addresses(x: Strided) -> Int64[np.ndarray, "..."]:
    """The place in the storage of every element, in the shape of the tensor."""
    return _places(x.shape, x.stride, x.offset)


def _places(shape: Sequence[int], stride: Sequence[int], offset: int) -> Int64[np.ndarray, "..."]:
    places = np.array(offset, dtype=np.int64)
    for size, step in zip(shape, stride, strict=True):
        places = places[..., np.newaxis] + step * np.arange(size)
    return places


def distinct_addresses(x: Strided) -> int:
    """How many elements of the storage the tensor reaches."""
    return int(np.unique(addresses(x)).size)


def overlaps(x: Strided) -> bool:
    """Whether two indices reach the same element."""
    return distinct_addresses(x) < x.numel


def covers_storage_once(x: Strided) -> bool:
    """Whether every element of the storage is reached, each by one index."""
    return x.numel == x.storage == distinct_addresses(x)


# ── order in memory ──


def is_contiguous(x: Strided) -> bool:
    """Whether the elements, in row-major order, lie one after the other without a gap.

    A dimension of size one is never stepped along, so that its stride says nothing; nor does any in a tensor
    without elements.
    """
    longer = [
        (step, packed) for size, step, packed in zip(x.shape, x.stride, packed_stride(x.shape), strict=True) if size > 1
    ]
    return x.numel == 0 or all(step == packed for step, packed in longer)


def is_dense(x: Strided) -> bool:
    """Whether the elements lie without a gap and without overlap in some order of the dimensions."""
    if x.numel == 0:
        return True
    longer = sorted((step, size) for size, step in zip(x.shape, x.stride, strict=True) if size > 1)
    expected = 1
    for step, size in longer:
        if step != expected:
            return False
        expected *= size
    return True


def reorders(shape: Sequence[int], order: Sequence[int]) -> bool:
    """Whether putting the dimensions in that order changes the order of elements.

    It does when two dimensions longer than one change places, and there are elements at all.
    """
    longer = [dim for dim in order if shape[dim] > 1]
    return 0 not in shape and longer != sorted(longer)


def clone_stride(x: Strided) -> Stride:
    """Strides of ``x.clone()`` and ``empty_like(x)``, which preserve the format.

    A dense tensor keeps its strides. Any other is packed, its dimensions taken from the fastest to the
    slowest: by stride, then by size, then from the last to the first. A dimension with stride 0 has no speed:
    it keeps the place that row-major order gives it, and the others are sorted among the places left.
    """
    if is_dense(x):
        return x.stride
    by_place = list(reversed(range(x.dim)))
    places = [place for place, dim in enumerate(by_place) if x.stride[dim] > 0]
    moving = sorted((by_place[place] for place in places), key=lambda dim: (x.stride[dim], x.shape[dim]))
    for place, dim in zip(places, moving, strict=True):
        by_place[place] = dim
    stride: dict[int, int] = {}
    step = 1
    for dim in by_place:
        stride[dim] = step
        step *= max(x.shape[dim], 1)
    return tuple(stride[dim] for dim in range(x.dim))


# ── when a shape can be viewed as another ──


@dataclass(frozen=True)
class Run:
    """Neighbouring dimensions laid out end to end: together one dimension of ``numel`` steps of ``base``."""

    numel: int
    base: int


def runs(shape: Sequence[int], stride: Sequence[int]) -> tuple[Run, ...]:
    """The longest runs of dimensions laid out end to end, first dimensions first.

    A dimension joins the run to its right where one step along it is as far as the whole run is long; a
    dimension of size one joins any run. A tensor without dimensions is one run of one element.
    """
    found: list[Run] = []
    for size, step in reversed(list(zip(shape, stride, strict=True))):
        if found and (size == 1 or step == found[-1].numel * found[-1].base):
            found[-1] = Run(found[-1].numel * size, found[-1].base)
        else:
            found.append(Run(size, step))
    return tuple(reversed(found)) or (Run(1, 1),)


def resolve(numel: int, target: Sequence[int]) -> Shape:
    """``target`` with a size instead of -1; ValueError where ``numel`` elements cannot have that shape."""
    unknown = [place for place, size in enumerate(target) if size == -1]
    known = math.prod(size for size in target if size != -1)
    if len(unknown) > 1 or any(size < -1 for size in target):
        raise ValueError(f"{tuple(target)} is no shape: give sizes from 0, and -1 at most once")
    if not unknown:
        if known != numel:
            raise ValueError(f"{tuple(target)} has {known} elements, not {numel}")
        return tuple(target)
    if known == 0:
        raise ValueError(f"{tuple(target)} leaves -1 open, since any size times 0 is 0: name the size")
    if numel % known:
        raise ValueError(f"{numel} elements cannot be shared out over {known}: name sizes that divide them")
    return tuple(numel // known if size == -1 else size for size in target)


def view_stride(shape: Sequence[int], stride: Sequence[int], target: Sequence[int]) -> Stride | None:
    """Strides under which the same elements, in the same order, have shape ``target``, or None.

    There are some exactly when the target's sizes can be shared out, from the last on, so that each run of
    the tensor is the product of whole sizes. A size of one goes with the run to its right. Without elements
    any target will do: it gets fresh strides, or keeps the old ones where the shape stays. Raises ValueError
    as ``resolve`` does.
    """
    sizes = list(resolve(math.prod(shape), target))
    if 0 in shape:
        return tuple(stride) if tuple(sizes) == tuple(shape) else packed_stride(sizes)
    found: list[int] = []
    for run in reversed(runs(shape, stride)):
        shared = 1
        while sizes and (shared < run.numel or sizes[-1] == 1):
            found.append(shared * run.base)
            shared *= sizes.pop()
        if shared != run.numel:
            return None
    return tuple(reversed(found))


def can_view(shape: Sequence[int], stride: Sequence[int], target: Sequence[int]) -> bool:
    """Whether ``view(target)`` succeeds on a tensor with that shape and those strides."""
    try:
        return view_stride(shape, stride, target) is not None
    except ValueError:
        return False


def affine_stride(places: Int64[np.ndarray, "..."]) -> Stride | None:
    """Strides that reach ``places`` in their row-major order, or None where no strides do.

    By trial, without a rule: a stride can only be the distance to the next element along its dimension, so
    take those and see whether they reach every other element too. Dimensions of size one get stride 0.
    """
    if places.size == 0:
        return packed_stride(places.shape)
    origin = (0,) * places.ndim
    start = int(places[origin])
    stride = tuple(
        int(places[(*origin[:dim], 1, *origin[dim + 1 :])]) - start if size > 1 else 0
        for dim, size in enumerate(places.shape)
    )
    if any(step < 0 for step in stride):
        return None
    return stride if np.array_equal(_places(places.shape, stride, start), places) else None


# ── view operations ──


def _dim(x: Strided, dim: int, extra: int = 0) -> int:
    """``dim`` counted from the front; a tensor without dimensions takes 0 and -1 as torch does."""
    rank = max(x.dim + extra, 1)
    if not -rank <= dim < rank:
        raise IndexError(f"dimension {dim} is out of range for {x.dim} dimensions: use {-rank} to {rank - 1}")
    return dim % rank


def _with(sequence: Sequence[int], place: int, *values: int) -> tuple[int, ...]:
    """``sequence`` with ``values`` instead of what stands at ``place``."""
    return (*sequence[:place], *values, *sequence[place + 1 :])


def detach(x: Strided) -> Strided:
    """The same window."""
    return x


def as_strided(x: Strided, size: Sequence[int], stride: Sequence[int], offset: int | None = None) -> Strided:
    """Any window on the storage, however little of it ``x`` shows; the default offset is that of ``x``."""
    return Strided(tuple(size), tuple(stride), x.offset if offset is None else offset, x.storage)


def permute(x: Strided, order: Sequence[int]) -> Strided:
    """The dimensions in another order."""
    dims = [_dim(x, dim) for dim in order]
    if sorted(dims) != list(range(x.dim)):
        raise ValueError(f"{tuple(order)} is no order of {x.dim} dimensions: name each once")
    return replace(x, shape=tuple(x.shape[dim] for dim in dims), stride=tuple(x.stride[dim] for dim in dims))


def transpose(x: Strided, first: int, second: int) -> Strided:
    """Two dimensions exchanged; torch's ``swapaxes`` and ``swapdims`` are the same operation."""
    first, second = _dim(x, first), _dim(x, second)
    order = list(range(x.dim))
    if order:
        order[first], order[second] = order[second], order[first]
    return permute(x, order)


def swapaxes(x: Strided, first: int, second: int) -> Strided:
    """Two dimensions exchanged."""
    return transpose(x, first, second)


def t(x: Strided) -> Strided:
    """The transpose of a tensor with at most two dimensions."""
    if x.dim > 2:
        raise ValueError(f"t() takes at most two dimensions, not {x.dim}: use transpose(-2, -1)")
    return permute(x, tuple(reversed(range(x.dim))))


def movedim(x: Strided, source: int, destination: int) -> Strided:
    """One dimension taken out and put in at another place, the others in their order."""
    source, destination = _dim(x, source), _dim(x, destination)
    order = [dim for dim in range(x.dim) if dim != source]
    if x.dim:
        order.insert(destination, source)
    return permute(x, order)


def select(x: Strided, dim: int, index: int) -> Strided:
    """One index of a dimension, which is gone afterwards."""
    if not x.dim:
        raise IndexError("a tensor without dimensions has none to select from: use it as it is")
    dim = _dim(x, dim)
    size = x.shape[dim]
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of range for size {size}: use {-size} to {size - 1}")
    offset = x.offset + index % size * x.stride[dim]
    return replace(x, shape=_with(x.shape, dim), stride=_with(x.stride, dim), offset=offset)


def sliced(x: Strided, dim: int, start: int | None = None, stop: int | None = None, step: int = 1) -> Strided:
    """``x[..., start:stop:step, ...]`` along one dimension, its ends clipped; ``step`` is positive."""
    if not x.dim:
        raise IndexError("a tensor without dimensions cannot be sliced: use it as it is")
    if step < 1:
        raise ValueError(
            f"slice step {step} is not positive, and torch has no negative strides: use flip, which copies"
        )
    dim = _dim(x, dim)
    start, stop, _ = slice(start, stop).indices(x.shape[dim])
    size = len(range(start, max(start, stop), step))
    offset = x.offset + start * x.stride[dim]
    return Strided(_with(x.shape, dim, size), _with(x.stride, dim, x.stride[dim] * step), offset, x.storage)


def narrow(x: Strided, dim: int, start: int, length: int) -> Strided:
    """``length`` indices of a dimension, from ``start`` on."""
    if not x.dim:
        raise IndexError("a tensor without dimensions cannot be narrowed: use it as it is")
    dim = _dim(x, dim)
    if not 0 <= start <= start + length <= x.shape[dim]:
        raise ValueError(f"{start} to {start + length} is not within a dimension of size {x.shape[dim]}")
    return sliced(x, dim, start, start + length)


def expand(x: Strided, sizes: Sequence[int]) -> Strided:
    """Dimensions of size one repeated by a stride of 0, and new ones in front; -1 leaves a size as it is.

    A new dimension of size one that is not repeated gets the stride it would have in a packed tensor, except
    in front of a tensor without dimensions, where every stride is 0.
    """
    added = len(sizes) - x.dim
    if added < 0:
        raise ValueError(f"{tuple(sizes)} has fewer dimensions than {x.shape}: name every size, or -1")
    shape: list[int] = []
    stride: list[int] = []
    for place in reversed(range(len(sizes))):
        wanted = sizes[place]
        if place >= added:
            size, step = x.shape[place - added], x.stride[place - added]
        else:
            size, step = 1, shape[-1] * stride[-1] if x.dim else 0
            if wanted == -1:
                raise ValueError(f"-1 in {tuple(sizes)} names a new dimension, which has no size to keep: name it")
        if wanted not in (size, -1) and size != 1:
            raise ValueError(f"a dimension of size {size} cannot become {wanted}: only a size of one is repeated")
        shape.append(size if wanted == -1 else wanted)
        stride.append(step if wanted in (size, -1) else 0)
    return replace(x, shape=tuple(reversed(shape)), stride=tuple(reversed(stride)))


def unfold(x: Strided, dim: int, size: int, step: int) -> Strided:
    """Windows of ``size`` along a dimension, ``step`` apart; within a window runs a new last dimension."""
    dim = _dim(x, dim)
    length = x.shape[dim] if x.dim else 1
    if not 0 <= size <= length or step < 1:
        raise ValueError(f"no windows of {size} elements, {step} apart, fit in a dimension of size {length}")
    if not x.dim:
        return replace(x, shape=(size,), stride=(1,))
    shape = (*_with(x.shape, dim, (length - size) // step + 1), size)
    return replace(x, shape=shape, stride=(*_with(x.stride, dim, x.stride[dim] * step), x.stride[dim]))


def diagonal(x: Strided, offset: int = 0, first: int = 0, second: int = 1) -> Strided:
    """The elements whose indices along two dimensions differ by ``offset``, as a new last dimension."""
    first, second = _dim(x, first), _dim(x, second)
    if x.dim < 2 or first == second:
        raise ValueError(f"a diagonal needs two dimensions, not {first} and {second} of {x.dim}")
    down, right = max(-offset, 0), max(offset, 0)
    length = max(min(x.shape[first] - down, x.shape[second] - right), 0)
    rest = [dim for dim in range(x.dim) if dim not in (first, second)]
    start = x.offset + (down * x.stride[first] + right * x.stride[second] if length else 0)
    return Strided(
        (*(x.shape[dim] for dim in rest), length),
        (*(x.stride[dim] for dim in rest), x.stride[first] + x.stride[second]),
        start,
        x.storage,
    )


def squeeze(x: Strided, dim: int | None = None) -> Strided:
    """Without its dimensions of size one, or without ``dim`` where that has size one."""
    chosen = range(x.dim) if dim is None else [_dim(x, dim)]
    kept = [each for each in range(x.dim) if each not in chosen or x.shape[each] != 1]
    return replace(x, shape=tuple(x.shape[each] for each in kept), stride=tuple(x.stride[each] for each in kept))


def unsqueeze(x: Strided, dim: int) -> Strided:
    """A new dimension of size one before ``dim``, with the stride of a packed tensor."""
    dim = _dim(x, dim, extra=1)
    step = x.shape[dim] * x.stride[dim] if dim < x.dim else 1
    return replace(x, shape=(*x.shape[:dim], 1, *x.shape[dim:]), stride=(*x.stride[:dim], step, *x.stride[dim:]))


def view(x: Strided, target: Sequence[int]) -> Strided:
    """Another shape over the same elements in the same order; ValueError where no strides give it."""
    stride = view_stride(x.shape, x.stride, target)
    if stride is None:
        raise ValueError(f"{tuple(target)} cuts across dimensions of {x.shape} with strides {x.stride}: copy first")
    return replace(x, shape=resolve(x.numel, target), stride=stride)


def unflatten(x: Strided, dim: int, sizes: Sequence[int]) -> Strided:
    """One dimension split into several."""
    if not x.dim:
        raise IndexError("a tensor without dimensions has none to unflatten: use view")
    dim = _dim(x, dim)
    return view(x, _with(x.shape, dim, *resolve(x.shape[dim], sizes)))


def split(x: Strided, size: int, dim: int = 0) -> tuple[Strided, ...]:
    """Pieces of ``size`` along a dimension, the last one shorter where they do not divide it."""
    if not x.dim:
        raise IndexError("a tensor without dimensions cannot be split: use it as it is")
    dim = _dim(x, dim)
    length = x.shape[dim]
    if size < 0 or (size == 0 and length):
        raise ValueError(f"pieces of size {size} never cover a dimension of size {length}: use 1 or more")
    if not length:
        return (x,)
    return tuple(sliced(x, dim, start, start + size) for start in range(0, length, size))


def chunk(x: Strided, chunks: int, dim: int = 0) -> tuple[Strided, ...]:
    """At most ``chunks`` pieces, equal but for the last one; exactly so many of an empty dimension."""
    if not x.dim:
        raise IndexError("a tensor without dimensions cannot be split: use it as it is")
    if chunks < 1:
        raise ValueError(f"{chunks} chunks cannot hold a dimension: ask for 1 or more")
    length = x.shape[_dim(x, dim)]
    if length == 0:
        return (x,) * chunks
    return split(x, math.ceil(length / chunks), dim)


def unbind(x: Strided, dim: int = 0) -> tuple[Strided, ...]:
    """Every index of a dimension, one view each."""
    if not x.dim:
        raise IndexError("a tensor without dimensions has none to unbind: use it as it is")
    return tuple(select(x, dim, index) for index in range(x.shape[_dim(x, dim)]))


def index(x: Strided, items: Sequence[Item]) -> Strided:
    """``x[items]`` for a basic index: integers, slices, None and at most one Ellipsis."""
    named = sum(isinstance(item, int | slice) for item in items)
    if sum(item is Ellipsis for item in items) > 1 or named > x.dim:
        raise IndexError(f"{tuple(items)} names more than {x.dim} dimensions: name each at most once, Ellipsis too")
    dim = 0
    for item in items:
        if item is None:
            x, dim = unsqueeze(x, dim), dim + 1
        elif isinstance(item, slice):
            x, dim = sliced(x, dim, item.start, item.stop, 1 if item.step is None else item.step), dim + 1
        elif isinstance(item, int):
            x = select(x, dim, item)
        else:
            dim = x.dim - sum(isinstance(later, int | slice) for later in items[items.index(item) + 1 :])
    return x


# ── other elements over the same bytes ──


def view_as_real(x: Strided) -> Strided:
    """Complex numbers as pairs of real ones, along a new last dimension of size two."""
    return Strided((*x.shape, 2), (*(2 * step for step in x.stride), 1), 2 * x.offset, 2 * x.storage)


def can_reinterpret(x: Strided, item_bytes: int, new_item_bytes: int) -> bool:
    """Whether ``view(dtype)`` succeeds, as far as the layout is concerned."""
    try:
        reinterpret(x, item_bytes, new_item_bytes)
    except ValueError:
        return False
    return True


def reinterpret(x: Strided, item_bytes: int, new_item_bytes: int) -> Strided:
    """``x.view(dtype)``: the same bytes as elements of another size, in bytes.

    The last dimension grows or shrinks by the ratio of the sizes, so it must be there and be contiguous; to
    take several elements as one, its length, the offset and every other stride must divide by the ratio.
    """
    if item_bytes == new_item_bytes:
        return x
    if not x.dim:
        raise ValueError(f"no dimension to share out {item_bytes} bytes as {new_item_bytes}: unsqueeze first")
    if x.stride[-1] != 1:
        raise ValueError(f"the last dimension of stride {x.stride} is not contiguous: copy first")
    if item_bytes > new_item_bytes:
        ratio = item_bytes // new_item_bytes
        return Strided(
            (*x.shape[:-1], x.shape[-1] * ratio),
            (*(step * ratio for step in x.stride[:-1]), 1),
            x.offset * ratio,
            x.storage * ratio,
        )
    ratio = new_item_bytes // item_bytes
    if any(number % ratio for number in (x.shape[-1], x.offset, *x.stride[:-1])):
        raise ValueError(f"size, offset or strides of {x} do not divide by {ratio}: copy first")
    return Strided(
        (*x.shape[:-1], x.shape[-1] // ratio),
        (*(step // ratio for step in x.stride[:-1]), 1),
        x.offset // ratio,
        x.storage // ratio,
    )
