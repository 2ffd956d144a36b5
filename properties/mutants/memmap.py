"""Worlds in which files, np.memmap or the ways between arrays and tensors are not what they are said to be.

The methods of an array cannot be replaced: what tofile writes is changed right behind it, in the file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor
from torch.utils.data import RandomSampler

from properties.mutants.mutant import mutant, patched
from properties.strategies import token_files

LITTLE = 2**26
"""Bytes of a file that a mutant reads in one go; the specification has files of 16 GB."""


def _mapping(change: Callable[..., Any]) -> AbstractContextManager[Any]:
    """np.memmap with ``change`` in its place; it is given the original and np.memmap's arguments, with its defaults."""
    original: Any = np.memmap

    def changed(
        path: Any,
        dtype: Any = np.uint8,
        mode: Any = "r+",
        offset: int = 0,
        shape: Any = None,
        order: Any = "C",
    ) -> Any:
        return change(original, path, dtype=dtype, mode=mode, offset=offset, shape=shape, order=order)

    return patched(np, "memmap", changed)


def _writing(change: Callable[[Any, Path], bytes]) -> AbstractContextManager[Any]:
    """tofile followed by ``change``, which says of the array and its file what stands there instead."""
    write = token_files.write

    def changed(array: Shaped[np.ndarray, "..."], path: Path) -> None:
        write(array, path)
        path.write_bytes(change(array, path))

    return patched(token_files, "write", changed)


# ── tokens as integers ──


@mutant(
    "files-in-the-other-byte-order",
    breaks=("memmap.tokens.integer-array", "memmap.tofile.raw", "memmap.read.needs-dtype", "memmap.read.round-trip"),
    changes="file",
    properties=(
        "test_token_ids_that_fit_come_back_from_a_file",
        "test_a_vocabulary_up_to_65536_takes_two_bytes_a_token",
        "test_a_file_holds_the_bytes_of_the_elements_and_nothing_else",
        "test_another_type_reads_other_tokens_from_the_same_bytes",
        "test_a_mapping_has_the_array_that_was_written",
        "test_a_tensor_over_a_mapping_sees_the_same_tokens",
    ),
)
def files_in_the_other_byte_order() -> Iterator[None]:
    """Files are written with the bytes of each element backwards."""
    with _writing(lambda array, path: array.byteswap().tobytes()):
        yield


@mutant(
    "integers-that-wrap",
    breaks=("memmap.tokens.integer-array",),
    properties=("test_each_route_refuses_or_wraps_by_its_own_rule",),
)
def integers_that_wrap() -> Iterator[None]:
    """np.array takes Python integers that do not fit, as NumPy once did."""
    original = np.array

    def lenient(values: Any, dtype: Any = None, **keywords: Any) -> Any:
        try:
            return original(values, dtype=dtype, **keywords)
        except OverflowError:
            return original(values, **keywords).astype(dtype)

    with patched(np, "array", lenient):
        yield


@mutant(
    "copies-that-are-checked",
    breaks=("memmap.tokens.integer-array",),
    properties=("test_each_route_refuses_or_wraps_by_its_own_rule",),
)
def copies_that_are_checked() -> Iterator[None]:
    """np.copyto refuses numbers that do not fit, and takes those that do."""
    original = np.copyto

    def checked(to: Any, values: Any, casting: Any = "same_kind") -> None:
        original(to, values, casting="unsafe")
        if casting == "same_kind" and (to != values).any():
            raise TypeError("some of these numbers do not fit")

    with patched(np, "copyto", checked):
        yield


# ── writing ──


@mutant(
    "suffixes-that-count",
    breaks=("memmap.tofile.raw", "memmap.tofile.npy-suffix"),
    changes="file",
    properties=(
        "test_a_file_holds_the_bytes_of_the_elements_and_nothing_else",
        "test_np_load_refuses_a_raw_file_called_npy",
    ),
)
def suffixes_that_count() -> Iterator[None]:
    """tofile writes an NPY file where the name ends so."""

    def by_name(array: Shaped[np.ndarray, "..."], path: Path) -> bytes:
        if path.suffix == ".npy":
            np.save(path, array)
        return path.read_bytes()

    with _writing(by_name):
        yield


@mutant(
    "files-in-memory-order",
    breaks=("memmap.tofile.raw",),
    changes="file",
    properties=("test_a_file_holds_the_bytes_of_the_elements_and_nothing_else",),
)
def files_in_memory_order() -> Iterator[None]:
    """tofile writes a column-major array as it lies in memory."""
    with _writing(lambda array, path: array.tobytes("A")):
        yield


@mutant(
    "saving-under-the-name",
    breaks=("memmap.tofile.npy-suffix",),
    properties=("test_what_begins_like_an_npy_file_is_one_whatever_it_is_called",),
)
def saving_under_the_name() -> Iterator[None]:
    """np.save writes under the name that it is given, without adding a suffix."""
    save: Any = np.save

    def saved(path: Any, array: Any) -> None:
        with open(path, "wb") as file:
            save(file, array)

    with patched(np, "save", saved):
        yield


@mutant(
    "loading-by-the-suffix",
    breaks=("memmap.tofile.npy-suffix",),
    properties=(
        "test_np_load_refuses_a_raw_file_called_npy",
        "test_what_begins_like_an_npy_file_is_one_whatever_it_is_called",
    ),
)
def loading_by_the_suffix() -> Iterator[None]:
    """np.load reads a file called .npy as bytes where it has no header, and any other file always."""
    original = np.load

    def by_name(path: Path, **keywords: Any) -> Any:
        if path.suffix != ".npy":
            return np.fromfile(path, dtype=np.uint8)
        try:
            return original(path, **keywords)
        except ValueError:
            return np.fromfile(path, dtype=np.uint8)

    with patched(np, "load", by_name):
        yield


# ── reading ──


@mutant(
    "mappings-in-the-native-order",
    breaks=("memmap.read.needs-dtype", "memmap.read.round-trip"),
    properties=(
        "test_another_type_reads_other_tokens_from_the_same_bytes",
        "test_a_mapping_has_the_array_that_was_written",
    ),
)
def mappings_in_the_native_order() -> Iterator[None]:
    """np.memmap takes no notice of a dtype's byte order."""

    def native(original: Any, path: Any, *, dtype: Any, **options: Any) -> Any:
        return original(path, dtype=np.dtype(dtype).newbyteorder("="), **options)

    with _mapping(native):
        yield


@mutant(
    "mappings-of-tokens-by-default",
    breaks=("memmap.read.needs-dtype",),
    properties=("test_a_file_is_bytes_without_a_shape_unless_the_reader_says_otherwise",),
)
def mappings_of_tokens_by_default() -> Iterator[None]:
    """np.memmap takes a file for 16-bit tokens unless told otherwise."""

    def tokens(original: Any, path: Any, *, dtype: Any, **options: Any) -> Any:
        even = os.path.getsize(path) % 2 == 0
        return original(path, dtype=np.uint16 if dtype is np.uint8 and even else dtype, **options)

    with _mapping(tokens):
        yield


@mutant(
    "mappings-of-magnitudes",
    breaks=("memmap.read.needs-dtype",),
    properties=("test_the_other_sign_shows_in_the_upper_half_only",),
)
def mappings_of_magnitudes() -> Iterator[None]:
    """np.memmap reads signed types as unsigned ones."""

    def unsigned(original: Any, path: Any, *, dtype: Any, **options: Any) -> Any:
        return original(path, dtype=np.dtype(dtype).str.replace("i", "u"), **options)

    with _mapping(unsigned):
        yield


@mutant(
    "offsets-in-16-bits",
    breaks=("memmap.read.round-trip",),
    properties=(
        "test_a_mapping_has_the_array_that_was_written",
        "test_tokens_beyond_four_gibibytes_are_where_they_belong",
    ),
)
def offsets_in_16_bits() -> Iterator[None]:
    """np.memmap keeps the lowest 16 bits of its offset."""

    def short(original: Any, path: Any, *, offset: int, **options: Any) -> Any:
        return original(path, offset=offset % 2**16, **options)

    with _mapping(short):
        yield


@mutant(
    "offsets-in-32-bits",
    breaks=("memmap.read.round-trip",),
    properties=("test_tokens_beyond_four_gibibytes_are_where_they_belong",),
)
def offsets_in_32_bits() -> Iterator[None]:
    """np.memmap keeps the lowest 32 bits of its offset."""

    def short(original: Any, path: Any, *, offset: int, **options: Any) -> Any:
        return original(path, offset=offset % 2**32, **options)

    with _mapping(short):
        yield


@mutant(
    "tensors-that-copy",
    breaks=("memmap.read.round-trip", "memmap.read.default-mode-writes"),
    properties=(
        "test_a_tensor_over_a_mapping_sees_the_same_tokens",
        "test_a_tensor_writes_into_an_array_that_may_not_be_written_to",
        "test_a_tensor_that_writes_into_a_mapping_for_reading_kills_the_process",
    ),
)
def tensors_that_copy() -> Iterator[None]:
    """torch.from_numpy copies the array."""
    original = torch.from_numpy

    def copying(array: Shaped[np.ndarray, "..."]) -> Shaped[Tensor, "..."]:
        return original(array).clone()

    with patched(torch, "from_numpy", copying):
        yield


@mutant(
    "tensors-that-convert",
    breaks=("memmap.read.round-trip",),
    properties=("test_torch_refuses_a_mapping_in_the_other_byte_order",),
)
def tensors_that_convert() -> Iterator[None]:
    """torch.from_numpy converts an array in a foreign byte order."""
    original = torch.from_numpy

    def converting(array: Shaped[np.ndarray, "..."]) -> Shaped[Tensor, "..."]:
        return original(array.astype(array.dtype.newbyteorder("=")))

    with patched(torch, "from_numpy", converting):
        yield


@mutant(
    "mappings-that-make-do",
    breaks=("memmap.read.round-trip",),
    properties=("test_a_file_that_does_not_hold_the_tokens_is_refused",),
)
def mappings_that_make_do() -> Iterator[None]:
    """np.memmap gives an empty array where the file is not there or has the wrong size."""

    def lenient(original: Any, path: Any, *, dtype: Any, **options: Any) -> Any:
        try:
            return original(path, dtype=dtype, **options)
        except (OSError, ValueError):
            return np.empty(0, dtype)

    with _mapping(lenient):
        yield


@mutant(
    "mappings-that-are-copies",
    breaks=("memmap.read.round-trip",),
    properties=("test_a_file_that_shrinks_under_its_mapping_kills_the_reader",),
)
def mappings_that_are_copies() -> Iterator[None]:
    """np.memmap reads the file into memory."""

    def copied(original: Any, path: Any, *, dtype: Any, **options: Any) -> Any:
        return np.fromfile(path, dtype=dtype)

    with _mapping(copied):
        yield


@mutant(
    "reading-from-the-start",
    breaks=("memmap.read.round-trip",),
    properties=("test_a_mapping_has_the_array_that_was_written",),
)
def reading_from_the_start() -> Iterator[None]:
    """np.fromfile reads from the start of a file, whatever offset it is told."""
    fromfile: Any = np.fromfile

    def read(file: Any, dtype: Any = float, count: int = -1, sep: str = "", offset: int = 0) -> Any:
        return fromfile(file, dtype, count, sep)

    with patched(np, "fromfile", read):
        yield


@mutant(
    "mappings-that-make-files",
    breaks=("memmap.read.round-trip",),
    properties=("test_a_file_that_does_not_hold_the_tokens_is_refused",),
)
def mappings_that_make_files() -> Iterator[None]:
    """np.memmap makes the file that it is to open in mode 'r+' where it is not there."""

    def making(original: Any, path: Any, *, mode: str, **options: Any) -> Any:
        if mode == "r+":
            Path(path).touch()
        return original(path, mode=mode, **options)

    with _mapping(making):
        yield


# ── writing through a mapping ──


@mutant(
    "writing-in-private",
    breaks=("memmap.read.default-mode-writes",),
    properties=(
        "test_a_file_that_is_read_through_a_mapping_stays_as_it_is",
        "test_a_writing_mode_shares_the_file_and_copy_on_write_does_not",
    ),
)
def writing_in_private() -> Iterator[None]:
    """What is assigned through a mapping in mode 'r+' never reaches the file."""

    def private(original: Any, path: Any, *, mode: Any, **options: Any) -> Any:
        return original(path, mode="c" if mode == "r+" else mode, **options)

    with _mapping(private):
        yield


@mutant(
    "copies-that-write",
    breaks=("memmap.read.default-mode-writes",),
    properties=(
        "test_a_file_that_is_read_through_a_mapping_stays_as_it_is",
        "test_a_writing_mode_shares_the_file_and_copy_on_write_does_not",
        "test_a_file_that_may_only_be_read_is_refused_by_the_writing_modes",
    ),
)
def copies_that_write() -> Iterator[None]:
    """What is assigned through a mapping in mode 'c' reaches the file."""

    def shared(original: Any, path: Any, *, mode: Any, **options: Any) -> Any:
        return original(path, mode="r+" if mode == "c" else mode, **options)

    with _mapping(shared):
        yield


@mutant(
    "slices-that-are-copies",
    breaks=("memmap.read.default-mode-writes", "memmap.lazy.pages-on-demand"),
    properties=(
        "test_what_is_cut_out_of_a_mapping_writes_into_the_file_and_what_is_picked_does_not",
        "test_what_is_cut_out_of_a_mapping_is_not_read_for_it",
    ),
)
def slices_that_are_copies() -> Iterator[None]:
    """A slice of a mapping is an array of its own."""
    pick: Any = np.memmap.__getitem__
    with patched(np.memmap, "__getitem__", lambda mapped, place: np.array(pick(mapped, place))):
        yield


@mutant(
    "tensors-that-copy-mappings",
    breaks=("memmap.read.default-mode-writes", "memmap.lazy.pages-on-demand"),
    properties=(
        "test_what_is_cut_out_of_a_mapping_writes_into_the_file_and_what_is_picked_does_not",
        "test_what_is_cut_out_of_a_mapping_is_not_read_for_it",
    ),
)
def tensors_that_copy_mappings() -> Iterator[None]:
    """torch.as_tensor of an array copies it."""
    with patched(torch, "as_tensor", torch.tensor):
        yield


@mutant(
    "files-that-torch-shares",
    breaks=("memmap.read.default-mode-writes",),
    properties=("test_torch_maps_a_file_in_private_unless_it_is_to_share_it",),
)
def files_that_torch_shares() -> Iterator[None]:
    """torch.from_file writes what is assigned into the file, whatever it is told."""
    from_file: Any = torch.from_file

    def shared(filename: str, shared: bool | None = None, **options: Any) -> Tensor:
        made: Tensor = from_file(filename, shared=True, **options)
        return made

    with patched(torch, "from_file", shared):
        yield


@mutant(
    "mappings-that-cut",
    breaks=("memmap.read.default-mode-writes",),
    properties=("test_a_file_that_is_read_through_a_mapping_stays_as_it_is",),
)
def mappings_that_cut() -> Iterator[None]:
    """Opening a file in mode 'r+' with a shape that is smaller cuts off the rest."""

    def cutting(original: Any, path: Any, *, mode: str, offset: int, **options: Any) -> Any:
        mapped = original(path, mode=mode, offset=offset, **options)
        if mode == "r+":
            os.truncate(path, offset + mapped.nbytes)
        return mapped

    with _mapping(cutting):
        yield


# ── when pages are read ──


@mutant(
    "loading-without-mapping",
    breaks=("memmap.lazy.nothing-read-at-open",),
    properties=("test_np_load_maps_an_npy_file_and_silently_reads_an_archive",),
)
def loading_without_mapping() -> Iterator[None]:
    """np.load reads the whole file, whatever mode of mapping it is told."""
    load: Any = np.load
    with patched(np, "load", lambda file, mmap_mode=None, **options: load(file, **options)):
        yield


@mutant(
    "loading-in-private",
    breaks=("memmap.lazy.nothing-read-at-open",),
    properties=("test_np_load_maps_an_npy_file_and_silently_reads_an_archive",),
)
def loading_in_private() -> Iterator[None]:
    """np.load maps in mode 'c', whatever mode of mapping it is told."""
    load: Any = np.load
    with patched(np, "load", lambda file, mmap_mode=None, **options: load(file, mmap_mode and "c", **options)):
        yield


@mutant(
    "mappings-that-are-read-at-once",
    breaks=("memmap.lazy.nothing-read-at-open", "memmap.lazy.pages-on-demand", "memmap.lazy.large-corpora"),
    properties=(
        "test_no_page_of_a_mapping_is_resident_when_it_is_opened",
        "test_no_page_is_resident_even_where_the_system_has_the_file_at_hand",
        "test_the_pages_that_are_touched_are_resident_and_few_others",
        "test_a_file_in_the_page_cache_comes_in_by_huge_pages_at_most",
        "test_pages_stay_resident_as_long_as_the_mapping_lives",
        "test_random_batches_of_four_billion_tokens_take_little_memory",
    ),
)
def mappings_that_are_read_at_once() -> Iterator[None]:
    """np.memmap reads the first 64 MiB of a file as it opens it."""

    def eager(original: Any, path: Any, **options: Any) -> Any:
        mapped = original(path, **options)
        mapped.reshape(-1)[: LITTLE // mapped.itemsize].max(initial=0)
        return mapped

    with _mapping(eager):
        yield


@mutant(
    "opening-by-the-megabyte",
    breaks=("memmap.lazy.nothing-read-at-open",),
    properties=("test_opening_takes_no_longer_for_four_billion_tokens_than_for_one",),
)
def opening_by_the_megabyte() -> Iterator[None]:
    """np.memmap does something for every megabyte of the file that it opens."""

    def thorough(original: Any, path: Any, **options: Any) -> Any:
        for _ in range(os.path.getsize(path) // 2**20):
            sum(range(50))
        return original(path, **options)

    with _mapping(thorough):
        yield


@mutant(
    "mappings-pickled-by-name",
    breaks=("memmap.lazy.large-corpora",),
    properties=("test_a_mapping_that_is_pickled_takes_all_of_its_tokens_along",),
)
def mappings_pickled_by_name() -> Iterator[None]:
    """A pickled mapping is the name of its file, and is mapped again where it is read."""

    def named(mapped: Any, protocol: int) -> Any:
        return np.memmap, (str(mapped.filename), mapped.dtype.str, "r")

    with patched(np.memmap, "__reduce_ex__", named):
        yield


@mutant(
    "samplers-that-draw-one-at-a-time",
    breaks=("memmap.lazy.large-corpora",),
    properties=("test_shuffling_without_replacement_needs_memory_for_every_index",),
)
def samplers_that_draw_one_at_a_time() -> Iterator[None]:
    """A sampler draws its indices one by one, and remembers none."""

    def lazily(sampler: RandomSampler) -> Iterator[int]:
        length = len(sampler.data_source)
        for _ in range(sampler.num_samples):
            yield int(torch.randint(length, ()))

    with patched(RandomSampler, "__iter__", lazily):
        yield


@mutant(
    "samplers-that-list-everything",
    breaks=("memmap.lazy.large-corpora",),
    properties=("test_shuffling_without_replacement_needs_memory_for_every_index",),
)
def samplers_that_list_everything() -> Iterator[None]:
    """A sampler lists all indices first, even if it draws with replacement."""

    def eagerly(sampler: RandomSampler) -> Iterator[int]:
        yield from torch.randperm(len(sampler.data_source)).tolist()

    with patched(RandomSampler, "__iter__", eagerly):
        yield
