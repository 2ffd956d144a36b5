"""Files of tokens: arrays and how they lie, ids and the routes into an array, ways to open, read and write a file."""

from __future__ import annotations

import array as standard
import atexit
import os
import shutil
import sys
import tempfile
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from jaxtyping import Int64, Shaped
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, RandomSampler

from properties.strategies.description import Description
from properties.strategies.draws import any_of, between
from reference import token_files as rules

# ── files ──


@cache
def _place() -> Path:
    # One for the process: to remove a folder takes some file systems milliseconds.
    place = tempfile.mkdtemp(prefix="assay-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return Path(place)


@contextmanager
def folder() -> Iterator[Path]:
    """A temporary folder; what comes into it within is removed afterwards."""
    place = _place()
    before = set(os.listdir(place))
    try:
        yield place
    finally:
        for name in set(os.listdir(place)) - before:
            with suppress(PermissionError):  # Windows keeps a file that is still mapped, until the process ends
                (place / name).unlink()


def write(array: Shaped[np.ndarray, "..."], path: Path) -> None:
    """Write an array with tofile."""
    array.tofile(path)


@contextmanager
def written(array: Shaped[np.ndarray, "..."], name: str = "tokens.bin", header: bytes = b"") -> Iterator[Path]:
    """A file that tofile has written, after a header of other bytes."""
    with folder() as place:
        path = place / name
        write(array, path)
        if header:
            path.write_bytes(header + path.read_bytes())
        yield path


@contextmanager
def sparse(size: int, marks: dict[int, bytes] | None = None) -> Iterator[Path]:
    """A file of ``size`` bytes that takes no room: zeros, but for the bytes that ``marks`` says to stand at a place."""
    with folder() as place:
        path = place / f"sparse-{len(os.listdir(place))}.bin"
        with open(path, "wb") as file:
            file.truncate(size)
            for at, data in (marks or {}).items():
                file.seek(at)
                file.write(data)
        yield path


# ── arrays ──


class Lie(Enum):
    """How an array lies in memory."""

    ROW_MAJOR = "row-major"
    COLUMN_MAJOR = "column-major"
    TRANSPOSED = "transposed"
    REVERSED = "backwards"
    EVERY_OTHER = "every other of its first dimension"
    REPEATED = "one row again and again"

    def __repr__(self) -> str:
        return f"Lie.{self.name}"


TOKEN_DTYPES = ("<u2", "<i4", "u1", "i1", "<i2", "<u4", "<i8", "<u8", ">u2", ">i4", ">i2", ">u4", ">i8", ">u8")
OTHER_DTYPES = ("?", "<f2", "<f4", ">f8", "<c8", ">c16", "S3", "V5", "<M8[s]", ">m8[ms]", "<U2", "i4,u1")


@dataclass(frozen=True, repr=False)
class Tokens(Description):
    """An array of a dtype and a shape that lies in memory in some way. Its bits are random, and follow from these."""

    dtype: str
    shape: tuple[int, ...]
    lie: Lie = Lie.ROW_MAJOR

    def build(self) -> Shaped[np.ndarray, "..."]:
        """The array."""
        shape = self.shape
        if not shape:
            return self._fresh(())
        if self.lie is Lie.TRANSPOSED:
            return self._fresh(shape[::-1]).T
        if self.lie is Lie.COLUMN_MAJOR:
            return np.asfortranarray(self._fresh(shape))
        if self.lie is Lie.REVERSED:
            return self._fresh(shape)[::-1]
        if self.lie is Lie.EVERY_OTHER:
            return self._fresh((2 * shape[0], *shape[1:]))[::2]
        if self.lie is Lie.REPEATED:
            return np.broadcast_to(self._fresh((1, *shape[1:])), shape)
        return self._fresh(shape)

    def _fresh(self, shape: tuple[int, ...]) -> Shaped[np.ndarray, "..."]:
        dtype = np.dtype(self.dtype)
        data = np.random.default_rng((dtype.itemsize, *shape)).bytes(int(np.prod(shape)) * dtype.itemsize)
        if dtype.kind == "b":
            data = bytes(byte & 1 for byte in data)
        if dtype.kind == "U":
            data = bytes(byte if place % 4 == 0 else 0 for place, byte in enumerate(data))
        return np.frombuffer(data, dtype).reshape(shape).copy()


_seeds = between(0, 2**32 - 1)
_lengths = between(1, 64).map(lambda n: (n,))


def _sides(least: int, most: int) -> SearchStrategy[tuple[int, ...]]:
    """Shapes of one to three dimensions. Always as many draws: lists of draws are often thrown away half-way."""
    return st.tuples(between(1, 3), *[between(least, most)] * 3).map(lambda drawn: drawn[1 : 1 + drawn[0]])


_shapes = st.one_of(_sides(0, 9), _lengths, st.just(()))
names = any_of(("tokens.bin", "tokens.npy", "tokens", "tokens.npz", "tokens.txt", "t.bin.npy", "tökens.npy"))
arrays = st.builds(Tokens, any_of(TOKEN_DTYPES + OTHER_DTYPES), _shapes, any_of(tuple(Lie)))
"""Arrays of every kind: dtypes with either byte order, all ways to lie, no elements and no dimensions among them."""
token_arrays = st.builds(
    Tokens,
    any_of(TOKEN_DTYPES),
    st.tuples(between(1, 60), between(0, 12)).map(lambda sides: sides if sides[1] else sides[:1]),
)
"""Row-major arrays of whole numbers with an element at least."""


# ── ids and the routes into an array ──


class Route(Enum):
    """How ids get into an array or a tensor of a narrower type."""

    ARRAY = "np.array of Python integers"
    ASARRAY = "np.asarray of Python integers"
    FULL = "np.full"
    FROMITER = "np.fromiter"
    ITEM = "item assignment"
    SLICE = "assignment of a list to a slice"
    FILL = "ndarray.fill"
    SCALAR = "a NumPy scalar type"
    STANDARD = "array.array"
    ASTYPE = "astype"
    ARRAY_OF_ARRAY = "np.array of an array"
    ASARRAY_OF_ARRAY = "np.asarray of an array"
    SLICE_OF_ARRAY = "assignment of an array to a slice"
    COPYTO_UNSAFE = "np.copyto with casting='unsafe'"
    TENSOR_OF_ARRAY = "torch.tensor of an array"
    TO = "Tensor.to"
    COPYTO = "np.copyto"
    TENSOR = "torch.tensor of Python integers"
    TORCH_FULL = "torch.full"
    TORCH_ITEM = "item assignment of a tensor"

    def __repr__(self) -> str:
        return f"Route.{self.name}"


def _put_items(empty: Any, ids: tuple[int, ...]) -> Any:
    for place, each in enumerate(ids):
        empty[place] = each
    return empty


def _put_slice(empty: Any, ids: Any) -> Any:
    empty[:] = ids
    return empty


def _filled(empty: Any, ids: tuple[int, ...]) -> Any:
    for place, each in enumerate(ids):
        empty[place : place + 1].fill(each)
    return empty


def _copied(empty: Any, ids: Any, casting: Any) -> Any:
    np.copyto(empty, ids, casting=casting)
    return empty


def _wide(ids: tuple[int, ...]) -> Int64[np.ndarray, "ids"]:
    return np.array(ids, dtype=np.int64)


def _torch(dtype: np.dtype[Any]) -> torch.dtype:
    found: torch.dtype = getattr(torch, dtype.name)
    return found


_ROUTES: dict[Route, Callable[[tuple[int, ...], np.dtype[Any]], Any]] = {
    Route.ARRAY: lambda ids, dtype: np.array(ids, dtype=dtype),
    Route.ASARRAY: lambda ids, dtype: np.asarray(ids, dtype=dtype),
    Route.FULL: lambda ids, dtype: np.concatenate([np.full(1, each, dtype=dtype) for each in ids]),
    Route.FROMITER: lambda ids, dtype: np.fromiter(ids, dtype=dtype),
    Route.ITEM: lambda ids, dtype: _put_items(np.zeros(len(ids), dtype), ids),
    Route.SLICE: lambda ids, dtype: _put_slice(np.zeros(len(ids), dtype), list(ids)),
    Route.FILL: lambda ids, dtype: _filled(np.zeros(len(ids), dtype), ids),
    Route.SCALAR: lambda ids, dtype: np.array([dtype.type(each) for each in ids]),
    Route.STANDARD: lambda ids, dtype: np.array(standard.array(dtype.char, ids)),
    Route.ASTYPE: lambda ids, dtype: _wide(ids).astype(dtype),
    Route.ARRAY_OF_ARRAY: lambda ids, dtype: np.array(_wide(ids), dtype=dtype),
    Route.ASARRAY_OF_ARRAY: lambda ids, dtype: np.asarray(_wide(ids), dtype=dtype),
    Route.SLICE_OF_ARRAY: lambda ids, dtype: _put_slice(np.zeros(len(ids), dtype), _wide(ids)),
    Route.COPYTO: lambda ids, dtype: _copied(np.zeros(len(ids), dtype), _wide(ids), "same_kind"),
    Route.COPYTO_UNSAFE: lambda ids, dtype: _copied(np.zeros(len(ids), dtype), _wide(ids), "unsafe"),
    Route.TENSOR: lambda ids, dtype: torch.tensor(ids, dtype=_torch(dtype)).numpy(),
    Route.TENSOR_OF_ARRAY: lambda ids, dtype: torch.tensor(_wide(ids), dtype=_torch(dtype)).numpy(),
    Route.TO: lambda ids, dtype: torch.from_numpy(_wide(ids)).to(_torch(dtype)).numpy(),
    Route.TORCH_FULL: lambda ids, dtype: torch.cat([torch.full((1,), n, dtype=_torch(dtype)) for n in ids]).numpy(),
    Route.TORCH_ITEM: lambda ids, dtype: _put_items(torch.zeros(len(ids), dtype=_torch(dtype)), ids).numpy(),
}
_OF_TORCH = (Route.TENSOR, Route.TORCH_FULL, Route.TORCH_ITEM)
_OF_ARRAYS = (
    Route.ASTYPE,
    Route.ARRAY_OF_ARRAY,
    Route.ASARRAY_OF_ARRAY,
    Route.SLICE_OF_ARRAY,
    Route.COPYTO_UNSAFE,
    Route.TENSOR_OF_ARRAY,
    Route.TO,
)
REFUSALS = (OverflowError, TypeError, RuntimeError, DeprecationWarning)
"""NumPy 2 raises OverflowError where NumPy 1 warned; torch raises RuntimeError; copyto raises TypeError."""


@dataclass(frozen=True, repr=False)
class Ids(Description):
    """Token ids, the narrow type that is to hold them, and the route by which they get there."""

    ids: tuple[int, ...]
    dtype: str
    route: Route = Route.ARRAY

    def store(self) -> Shaped[np.ndarray, "ids"] | None:
        """The array that the route makes, or None where it refuses."""
        try:
            stored: Shaped[np.ndarray, "ids"] = _ROUTES[self.route](self.ids, np.dtype(self.dtype))
        except REFUSALS:
            return None
        return stored

    def kept_in_a_file(self) -> bool:
        """Whether the ids come back from a file that the array was written to."""
        stored = self.store()
        if stored is None:
            return False
        with written(stored) as path:
            return bool(np.memmap(path, dtype=self.dtype, mode="r").tolist() == list(self.ids))

    @property
    def fits(self) -> bool:
        """Whether the type can hold every id."""
        return all(rules.fits(each, *self._type) for each in self.ids)

    @property
    def due(self) -> list[int] | None:
        """What is stored according to the rule of the route, or None where it refuses.

        Routes from Python integers refuse what does not fit. torch's take a negative number for an unsigned type as
        long as its magnitude fits. Routes from arrays wrap around. copyto looks at the types alone.
        """
        bits, signed = self._type
        wrapped = [rules.wrapped(each, bits, signed) for each in self.ids]
        if self.route in _OF_ARRAYS:
            return wrapped
        if self.route is Route.COPYTO:
            return wrapped if signed else None
        if self.route in _OF_TORCH and not signed:
            return wrapped if all(rules.fits(abs(each), bits, signed) for each in self.ids) else None
        return wrapped if self.fits else None

    @property
    def _type(self) -> tuple[int, bool]:
        dtype = np.dtype(self.dtype)
        return 8 * dtype.itemsize, dtype.kind == "i"


NARROW = ("int32", "uint16", "uint8", "int8", "int16", "uint32")


@st.composite
def _ids(draw: st.DrawFn, beyond: int, routes: tuple[Route, ...]) -> Ids:
    """Ids of which ``beyond`` at least do not fit, next to the ends of the range and anywhere."""
    dtype = draw(any_of(NARROW))
    low, high = rules.bounds(8 * np.dtype(dtype).itemsize, dtype[0] == "i")
    inside = st.one_of(any_of((low, high, 0, high - 1)), between(low, high))
    outside = st.one_of(
        any_of((high + 1, low - 1, 2 * (high + 1), -high - 1 - (low < 0), high + 5)),
        between(high + 1, 2**62),
        between(-(2**62), low - 1),
    )
    ids = [*(draw(outside) for _ in range(beyond)), draw(inside), draw(inside), draw(inside)][: draw(between(1, 4))]
    turn = draw(between(0, 3)) % len(ids)
    return Ids((*ids[turn:], *ids[:turn]), dtype, draw(any_of(routes)))


_any_route = tuple(Route)
_checked = tuple(route for route in Route if route is not Route.COPYTO)
ids_that_fit = _ids(0, _checked)
ids_that_do_not = _ids(1, _checked)
ids_by_any_route = st.one_of(_ids(0, _any_route), _ids(1, _any_route), _ids(1, (Route.COPYTO, *_OF_TORCH)))


# ── reading with another type ──


@dataclass(frozen=True, repr=False)
class Misread(Description):
    """Whole numbers that are written as one type and read as another."""

    written: Tokens
    read: str

    def tokens(self) -> Shaped[np.ndarray, "..."]:
        """The numbers that are written: no byte of the first equals another one of it."""
        array = self.written.build()
        array.reshape(-1)[:1] = np.frombuffer(bytes(range(1, 1 + array.itemsize)), array.dtype)
        return array

    def due(self) -> list[int] | None:
        """What the bytes say in the other type, or None where its width does not divide their number."""
        dtype = np.dtype(self.read)
        data = rules.row_major_bytes(self.tokens())
        if len(data) % dtype.itemsize:
            return None
        return rules.integers(data, dtype.itemsize, rules.byte_order(dtype), dtype.kind == "i")


def mapped_or_none(path: Path, dtype: str) -> list[int] | None:
    """The numbers of a file through np.memmap, or None where it refuses for the file's size."""
    try:
        return np.memmap(path, dtype=dtype, mode="r").tolist()  # type: ignore[no-any-return]
    except ValueError:
        return None


def _other_types(tokens: Tokens) -> SearchStrategy[Misread]:
    dtype = np.dtype(tokens.dtype)
    others = [np.dtype(name) for name in TOKEN_DTYPES]
    width = [each.str for each in others if each.itemsize != dtype.itemsize]
    order = [
        each.str
        for each in others
        if each.itemsize == dtype.itemsize > 1 and rules.byte_order(each) != rules.byte_order(dtype)
    ]
    either = [any_of(tuple(width)), *([any_of(tuple(order))] if order else [])]
    return st.one_of(*either).map(lambda read: Misread(tokens, read))


misreadings = token_arrays.flatmap(_other_types)
"""Tokens that are read with another width or another byte order."""


@dataclass(frozen=True, repr=False)
class Unsigned(Description):
    """Unsigned numbers of ``width`` bytes in a byte order, given by their upper bits among 64."""

    width: int
    order: str
    upper: tuple[int, ...]

    def build(self) -> Shaped[np.ndarray, "tokens"]:
        """The array."""
        return np.array([each >> 64 - 8 * self.width for each in self.upper], dtype=f"{self.order}u{self.width}")

    @property
    def signed(self) -> str:
        """The signed type of the same width and byte order."""
        return f"{self.order}i{self.width}"


unsigned = st.builds(
    Unsigned,
    any_of((2, 1, 4, 8)),
    any_of(("<", ">")),
    st.lists(st.one_of(between(0, 2**64 - 1), any_of((0, 2**63 - 1, 2**63, 2**64 - 1))), min_size=1, max_size=8).map(
        tuple
    ),
)


# ── reading back ──


@dataclass(frozen=True, repr=False)
class Reading(Description):
    """An array written after a header, and how it is mapped."""

    tokens: Tokens
    header: int = 0
    mode: str = "r"
    order: str = "C"

    def in_the_file(self, mapped: Any, count: int) -> bytes:
        """The bytes of the first ``count`` elements behind the header of a mapping's file, through np.fromfile."""
        return np.fromfile(mapped.filename, mapped.dtype, count, offset=self.header).tobytes()

    @contextmanager
    def opened(self) -> Iterator[tuple[Any, Shaped[np.ndarray, "..."]]]:
        """The mapping, and the array that was written."""
        array = self.tokens.build()
        bytes_ = np.random.default_rng(1).bytes(self.header)
        with written(array.T if self.order == "F" else array, header=bytes_) as path:
            yield (
                np.memmap(
                    path,
                    dtype=array.dtype,
                    mode=self.mode,  # type: ignore[call-overload]
                    offset=self.header,
                    shape=array.shape,
                    order=self.order,
                ),
                array,
            )


readings = st.builds(
    Reading,
    st.builds(
        Tokens,
        any_of(TOKEN_DTYPES + ("?", "<f4", ">f8", "<c8", "S3", "i4,u1")),
        _sides(1, 6),
        any_of(tuple(Lie)),
    ),
    st.one_of(st.just(0), between(1, 300), any_of((64, 4096, 65536, 65537, 70_001))),
    any_of(("r", "c", "r+")),
    any_of(("C", "F")),
)
FOREIGN_DTYPES = tuple(np.dtype(name).newbyteorder("S").str for name in ("u2", "i2", "i4", "i8"))
"""Types in the byte order that this machine does not have."""
IN_TORCH = ("uint8", "int8", "int16", "int32", "int64", "uint16", "float32", "bool", "complex64")
slices = st.builds(
    slice,
    st.one_of(st.none(), between(-12, 12)),
    st.one_of(st.none(), between(-12, 12)),
    st.one_of(st.none(), between(-4, -1), between(1, 4)),
)


def tensor_of(array: Shaped[np.ndarray, "..."]) -> Shaped[Tensor, "..."]:
    """torch.from_numpy, whose warning about arrays that may not be written to is expected."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writ", UserWarning)
        return torch.from_numpy(array)


def write_through_a_tensor(path: Path) -> None:
    """Assign to the first element of a tensor over a mapping that may only be read."""
    tensor_of(np.memmap(path, dtype=np.int16, mode="r"))[0] = 1


INT32 = 4
MARK = b"\x11\x22\x33\x44"
far_places = st.one_of(
    any_of((2**31 - 4, 2**31, 2**32 - 64, 2**32, 2**32 + 8, 2**33 - 4)),
    between(2**28, 2**31 - 1).map(lambda index: INT32 * index),
)
"""Byte offsets of a token of four bytes whose index fits in 32 bits with a sign, from 1 GiB up."""


# ── parts of a mapping ──


class Pick(Enum):
    """A part of a mapping, or all of it, taken in some way."""

    SLICE = "a slice"
    BACKWARDS = "a slice with a negative step"
    SPLIT = "np.split"
    RESHAPED = "reshape"
    RAVELLED = "ravel"
    VIEWED = "view, as another dtype"
    ARRAY = "np.asarray"
    CONTIGUOUS = "np.ascontiguousarray"
    TENSOR = "torch.from_numpy"
    AS_TENSOR = "torch.as_tensor"
    SLICE_OF_TENSOR = "a slice of torch.from_numpy"
    LIST = "a list of places"
    MASK = "a mask"
    COPIED = "copy"
    NEW_ARRAY = "np.array"
    CONVERTED = "astype, to the same dtype"
    FLATTENED = "flatten"
    NEW_TENSOR = "torch.tensor"
    CLONED = "a clone of torch.from_numpy"

    def __repr__(self) -> str:
        return f"Pick.{self.name}"

    def of(self, mapped: Shaped[np.ndarray, "tokens"]) -> Any:
        """It, as an array."""
        part: Any = _PICKS[self](mapped)
        return part.numpy() if isinstance(part, Tensor) else part

    @property
    def is_view(self) -> bool:
        """Whether it is the same memory."""
        return self not in _COPIES


_PICKS: dict[Pick, Callable[[Any], Any]] = {
    Pick.SLICE: lambda mapped: mapped[1:],
    Pick.BACKWARDS: lambda mapped: mapped[::-2],
    Pick.SPLIT: lambda mapped: np.split(mapped, 2)[1],
    Pick.RESHAPED: lambda mapped: mapped.reshape(2, -1),
    Pick.RAVELLED: lambda mapped: mapped.ravel(),
    Pick.VIEWED: lambda mapped: mapped.view(np.uint16),
    Pick.ARRAY: lambda mapped: np.asarray(mapped),
    Pick.CONTIGUOUS: lambda mapped: np.ascontiguousarray(mapped),
    Pick.TENSOR: lambda mapped: torch.from_numpy(mapped),
    Pick.AS_TENSOR: lambda mapped: torch.as_tensor(mapped),
    Pick.SLICE_OF_TENSOR: lambda mapped: torch.from_numpy(mapped)[1:],
    Pick.LIST: lambda mapped: mapped[[0, 1]],
    Pick.MASK: lambda mapped: mapped[mapped != 1],
    Pick.COPIED: lambda mapped: mapped.copy(),
    Pick.NEW_ARRAY: lambda mapped: np.array(mapped),
    Pick.CONVERTED: lambda mapped: mapped.astype(mapped.dtype),
    Pick.FLATTENED: lambda mapped: mapped.flatten(),
    Pick.NEW_TENSOR: lambda mapped: torch.tensor(mapped),
    Pick.CLONED: lambda mapped: torch.from_numpy(mapped).clone(),
}
_COPIES = frozenset(tuple(Pick)[list(Pick).index(Pick.LIST) :])
picks = any_of(tuple(Pick))


# ── NPY files ──


@dataclass(frozen=True, repr=False)
class Saved(Description):
    """Tokens in an NPY file, or in an NPZ archive, that np.load opens with a mode of mapping."""

    tokens: int
    mode: str
    archived: bool = False

    @contextmanager
    def loaded(self) -> Iterator[tuple[Any, Callable[[], list[int]]]]:
        """What np.load gives, and a function that says what tokens the file has."""
        array, mode = np.arange(1, 1 + self.tokens, dtype=np.int32), cast(Any, self.mode)
        with folder() as place:
            path = place / ("saved.npz" if self.archived else "saved.npy")
            if self.archived:
                np.savez(path, tokens=array)
                with np.load(path, mmap_mode=mode) as archive:
                    yield archive["tokens"], lambda: np.load(path)["tokens"].tolist()
            else:
                np.save(path, array)
                yield np.load(path, mmap_mode=mode), lambda: np.load(path).tolist()


def from_its_first_page(mapped: Any) -> Shaped[np.ndarray, "bytes"]:
    """All bytes that a mapping has, those in front of its first element too."""
    return np.frombuffer(mapped.base, np.uint8)


saved = st.builds(Saved, between(1, 40_000), any_of(("r", "c", "r+")), any_of((False, False, True)))


# ── opening and writing ──


ASSIGNED = 999
"""What is assigned to the first token."""


class Act(Enum):
    """What is done with a file that is opened."""

    OPEN = "nothing"
    READ = "read"
    ASSIGN = "assign"
    LARGER = "open it with a shape that is larger"
    SMALLER = "open it with a shape that is smaller"
    EMPTY = "open it, while it is empty, with a shape"

    def __repr__(self) -> str:
        return f"Act.{self.name}"


@dataclass(frozen=True, repr=False)
class Opening(Description):
    """A file of 16-bit tokens that is opened in a mode, and what is done with it."""

    mode: str
    act: Act
    tokens: int = 4
    by_default: bool = False

    @property
    def before(self) -> list[int]:
        """The tokens of the file as it is written."""
        return [] if self.act is Act.EMPTY else list(range(1, 1 + self.tokens))

    def after(self) -> list[int]:
        """The tokens of the file afterwards; a refused act counts as done."""
        with written(np.array(self.before, dtype=np.uint16)) as path:
            try:
                self._perform(path)
            except (ValueError, OSError) as refusal:  # the latter from Windows, where a shape is too large
                if self.mode not in ("r", "c"):
                    raise AssertionError(f"mode {self.mode} refuses: {refusal}") from refusal
            found: list[int] = np.fromfile(path, dtype=np.uint16).tolist()
            return found

    @property
    def _length(self) -> int:
        return {Act.LARGER: self.tokens + 2, Act.SMALLER: (self.tokens + 1) // 2}.get(self.act, self.tokens)

    def _perform(self, path: Path) -> None:
        mode = {} if self.by_default else {"mode": self.mode}
        opened: Any = np.memmap(path, dtype=np.uint16, shape=(self._length,), **mode)  # type: ignore[call-overload]
        if self.act is Act.READ:
            opened.sum()
        if self.act is Act.ASSIGN:
            opened[0] = ASSIGNED

    @property
    def due(self) -> list[int]:
        """The tokens that the file is to have afterwards: r+ writes and makes it longer, w+ starts from zeros."""
        if self.mode in ("r", "c"):
            return self.before
        kept = [] if self.mode == "w+" else self.before
        tokens = kept + [0] * (self._length - len(kept))
        return [ASSIGNED, *tokens[1:]] if self.act is Act.ASSIGN else tokens


_acts = any_of(tuple(Act))
reading_modes = st.builds(Opening, any_of(("r", "c")), _acts, between(1, 64))
writing_modes = st.one_of(
    st.builds(Opening, any_of(("r+", "w+")), _acts, between(1, 64)),
    st.builds(Opening, st.just("r+"), _acts, between(1, 64), st.just(True)),
)


class Damage(Enum):
    """What is wrong with a file."""

    MISSING = "it is not there"
    EMPTY = "it is empty"
    ODD = "it ends within a token"
    TRUNCATED = "it is shorter than the shape says"
    OFFSET = "it ends before the offset"

    def __repr__(self) -> str:
        return f"Damage.{self.name}"


@dataclass(frozen=True, repr=False)
class Damaged(Description):
    """A file of 32-bit tokens with something wrong, opened for reading."""

    damage: Damage
    tokens: int
    mode: str = "r"

    def error(self) -> type[Exception] | None:
        """The type of what np.memmap raises, or None where it raises nothing."""
        options: dict[str, Any] = {}
        with written(np.arange(self.tokens, dtype=np.int32)) as path:
            if self.damage is Damage.MISSING:
                path.unlink()
            elif self.damage is Damage.EMPTY:
                path.write_bytes(b"")
            elif self.damage is Damage.ODD:
                path.write_bytes(path.read_bytes()[:-1])
            elif self.damage is Damage.TRUNCATED:
                options["shape"] = (self.tokens + 1,)
            else:
                options["offset"] = 4 * self.tokens + 4
            try:
                np.memmap(path, dtype=np.int32, mode=self.mode, **options)  # type: ignore[call-overload]
            except Exception as raised:
                return type(raised)
        return None

    @property
    def due(self) -> type[Exception]:
        """What is to be raised; a shape that is too large is left to the system, which is another error on Windows."""
        if self.damage is Damage.MISSING:
            return FileNotFoundError
        return OSError if self.damage is Damage.TRUNCATED and sys.platform == "win32" else ValueError


damaged = st.one_of(
    st.builds(Damaged, any_of(tuple(Damage)), between(1, 64), any_of(("r", "c"))),
    st.builds(Damaged, any_of((Damage.MISSING, Damage.ODD)), between(1, 64), st.just("r+")),
)


# ── touching ──


@dataclass(frozen=True, repr=False)
class Access(Description):
    """A file of 32-bit tokens, and the stretches of it that are read one after another: where each starts, how long."""

    tokens: int
    stretches: tuple[tuple[int, int], ...]

    def touch(self, mapped: Shaped[np.ndarray, "tokens"]) -> None:
        """Read every stretch."""
        for start, length in self.stretches:
            mapped[start : start + length].sum()

    def pages(self, page: int) -> set[int]:
        """The pages that the stretches lie on."""
        return {
            each
            for start, length in self.stretches
            for each in rules.pages_of(INT32 * start, INT32 * min(start + length, self.tokens), page)
        }


@st.composite
def accesses(draw: st.DrawFn, most: int = 2**22) -> Access:
    """Files of up to ``most`` tokens: single tokens, stretches within a page and over several, backwards and again."""
    tokens = draw(st.one_of(between(1, 4096), between(4096, most)))
    places = st.one_of(between(0, tokens - 1), any_of((0, tokens - 1)))
    lengths = st.one_of(st.just(1), between(1, 2048), between(2048, 50_000), any_of((20_000, 50_000)))
    stretches = draw(st.tuples(*[st.tuples(places, lengths)] * 4))
    return Access(tokens, stretches[: draw(between(1, 4))])


BILLIONS = 4_000_000_000
file_sizes = st.one_of(
    any_of((1, 1023, 1024, BILLIONS)), between(0, 31).map(lambda power: 2**power), between(1, BILLIONS)
)


class Corpus(Dataset[Tensor]):
    """Stretches of ``context`` tokens of a mapped file, as int64."""

    def __init__(self, path: Path, context: int) -> None:
        self.tokens = np.memmap(path, dtype=np.int32, mode="r")
        self.context = context

    def __len__(self) -> int:
        return len(self.tokens) - self.context + 1

    def __getitem__(self, start: int) -> Int64[Tensor, "context"]:
        return torch.from_numpy(self.tokens[start : start + self.context].astype(np.int64))


@dataclass(frozen=True, repr=False)
class Sampling(Description):
    """Random batches from a corpus: how many, of how many stretches of how many tokens."""

    seed: int
    batches: int = 4
    batch: int = 4
    context: int = 256

    def loader(self, corpus: Corpus) -> DataLoader[Tensor]:
        """A DataLoader that draws starts with replacement."""
        generator = torch.Generator().manual_seed(self.seed)
        sampler = RandomSampler(corpus, True, self.batches * self.batch, generator)
        return DataLoader(corpus, batch_size=self.batch, sampler=sampler, generator=generator)

    def most_pages(self, page: int, window: int) -> int:
        """The most pages that reading can bring in: those of each stretch, and a window less one page at either end."""
        stretch = -(-INT32 * self.context // page) + 1
        return self.batches * self.batch * (stretch + 2 * (window - 1))


def memory_of_first_index(sampler: RandomSampler) -> int:
    """The most bytes that Python has at a time for a sampler until its first index is there."""
    tracemalloc.start()
    try:
        next(iter(sampler))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


samplings = st.builds(Sampling, _seeds, between(1, 6), between(1, 6), between(1, 4096))
