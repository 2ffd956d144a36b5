"""Memory-mapped data: tokens in raw files, how they come back, and when their pages are read."""

import pickle
import signal
import warnings
from mmap import mmap
from zipfile import BadZipFile

import numpy as np
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from properties.claims import also, costly, holds, holds_when, needs
from properties.evidence import may_fail, observe, when
from properties.instruments import children, pages
from properties.refusals import refused
from properties.strategies import token_files as files
from properties.strategies.token_files import (
    Access,
    Act,
    Corpus,
    Damage,
    Damaged,
    Ids,
    Lie,
    Misread,
    Opening,
    Pick,
    Reading,
    Route,
    Sampling,
    Saved,
    Tokens,
    Unsigned,
)
from reference import token_files as rules

# ── tokens as integers ──


@holds_when(
    "memmap.tokens.integer-array",
    "While every token id fits: any vocabulary up to 2**31 (uint16 is enough, and half the size, up to 65,536). An id"
    " that does not fit raises or wraps by route: Python integers raise in NumPy 2, astype and array-to-array wrap"
    " silently, copyto refuses by type alone (int64 into uint16 always, into int32 never: there it wraps). torch raises"
    " for Python integers too, but takes negative ones for an unsigned type.",
)
@given(case=st.one_of(files.ids_that_fit, files.ids_that_do_not))
@example(case=Ids((0, 50256, 2**31 - 1), "int32"))
@example(case=Ids((1, 50256, 65535), "uint16", Route.ASTYPE))
@example(case=Ids((2**31,), "int32"))
@example(case=Ids((65536,), "uint16", Route.ASTYPE))
@example(case=Ids((128255, 3), "uint16", Route.SLICE_OF_ARRAY))
def test_token_ids_that_fit_come_back_from_a_file(case):
    """Tokenised data is a sequence of integers that can be stored as a NumPy int32 array.

    By every route into a narrower type, and through a file: what fits comes back, what does not is refused or comes
    back as another id.
    """
    assert case.kept_in_a_file() == when(case.fits)


@also("memmap.tokens.integer-array")
@given(case=files.ids_by_any_route)
@example(case=Ids((2**31,), "int32", Route.COPYTO))
@example(case=Ids((5,), "uint16", Route.COPYTO))
@example(case=Ids((-1,), "uint16", Route.TENSOR))
@example(case=Ids((-1,), "uint16", Route.ARRAY))
@example(case=Ids((-65536,), "uint16", Route.TORCH_FULL))
def test_each_route_refuses_or_wraps_by_its_own_rule(case):
    """What is stored by each route is what its rule says, or nothing.

    Integers of Python are checked one by one, arrays never are. copyto compares the types: from int64 it refuses
    any unsigned one, whatever the ids, and wraps into any signed one.
    """
    stored = case.store()
    assert (None if stored is None else stored.tolist()) == case.due


@also("memmap.tokens.integer-array")
@given(vocabulary=st.one_of(st.integers(1, 2**31), st.sampled_from([256, 257, 65536, 65537, 50257, 128256, 2**31])))
@example(vocabulary=65536)
@example(vocabulary=65537)
def test_a_vocabulary_up_to_65536_takes_two_bytes_a_token(vocabulary):
    """The last id of a vocabulary survives in uint16 up to 65,536 entries, and in int32 up to 2**31 for twice the
    bytes.
    """
    short, long = (Ids((vocabulary - 1, 0), dtype, Route.ASTYPE) for dtype in ("uint16", "int32"))
    assert short.kept_in_a_file() == (vocabulary <= 65536)
    assert long.kept_in_a_file()
    assert 2 * short.store().nbytes == long.store().nbytes == 8


# ── writing ──


@holds("memmap.tofile.raw")
@given(array=files.arrays, name=files.names)
@example(array=Tokens("<i4", (2, 3), Lie.COLUMN_MAJOR), name="tokens.npy")
@example(array=Tokens(">u2", (4,), Lie.EVERY_OTHER), name="tokens.bin")
@example(array=Tokens("<i4", (0,)), name="tokens.bin")
def test_a_file_holds_the_bytes_of_the_elements_and_nothing_else(array, name):
    """tofile writes the raw bytes, without header, whatever the file is called.

    One element after another in row-major order, however the array lies in memory, in the array's own byte order.
    """
    x = array.build()
    with files.written(x, name) as path:
        assert path.stat().st_size == x.size * x.itemsize
        assert path.read_bytes() == rules.row_major_bytes(x)


@holds("memmap.tofile.npy-suffix")
@given(tokens=files.token_arrays)
@example(tokens=Tokens("<u2", (4,)))
def test_np_load_refuses_a_raw_file_called_npy(tokens):
    """The suffix .npy is only a name: such a file is no NPY file.

    np.load refuses it. What np.save writes of the same array is a header and then the same bytes; mapped raw, its
    tokens stand behind as many false ones as the header has room for.
    """
    x = tokens.build()
    with files.written(x, "tokens.npy") as path:
        assert refused((ValueError, BadZipFile), np.load, path)
        saved = path.with_name("saved.npy")
        np.save(saved, x)
        header = saved.stat().st_size - x.nbytes
        assert header > 0
        raw = np.memmap(saved, dtype=x.dtype, mode="r")
        assert len(raw) == header // x.itemsize + x.size
        assert np.array_equal(raw[header // x.itemsize :], x.ravel())
        assert np.array_equal(np.load(saved, mmap_mode="r"), x)


@also("memmap.tofile.npy-suffix")
@given(tokens=files.token_arrays, name=files.names)
@example(tokens=Tokens("<u2", (4,)), name="tokens.bin")
def test_what_begins_like_an_npy_file_is_one_whatever_it_is_called(tokens, name):
    """The bytes of an NPY file, written raw under any name, are loaded as the array: its first bytes decide.

    np.save itself adds the suffix to a name without it.
    """
    x = tokens.build()
    with files.folder() as place:
        np.save(place / name, x)
        assert (place / f"{name.removesuffix('.npy')}.npy").exists()
        saved = np.fromfile(place / f"{name.removesuffix('.npy')}.npy", dtype=np.uint8)
    with files.written(saved, name) as path:
        assert np.array_equal(np.load(path), x)


# ── reading ──


@holds("memmap.read.needs-dtype")
@costly(cases=50, because="a case takes milliseconds")
@given(case=files.misreadings)
@example(case=Misread(Tokens("<u2", (4,)), "<i4"))
@example(case=Misread(Tokens("<u2", (3,)), "<i4"))
@example(case=Misread(Tokens("<u2", (4,)), ">u2"))
def test_another_type_reads_other_tokens_from_the_same_bytes(case):
    """The reader has to know the dtype and the shape.

    Another width or byte order gives what the same bytes mean in it, and that is other tokens. Where the width does
    not divide the file, np.memmap refuses, and np.fromfile silently leaves the rest of the bytes out.
    """
    tokens = case.tokens()
    with files.written(tokens) as path:
        read = files.mapped_or_none(path, case.read)
        assert read == case.due()
        assert read != tokens.ravel().tolist()
        assert len(np.fromfile(path, dtype=case.read)) == tokens.nbytes // np.dtype(case.read).itemsize


@also("memmap.read.needs-dtype")
@given(tokens=files.token_arrays)
@example(tokens=Tokens("<u2", (4,)))
@example(tokens=Tokens("<i4", (2, 3)))
def test_a_file_is_bytes_without_a_shape_unless_the_reader_says_otherwise(tokens):
    """np.memmap reads bytes unless it is given a dtype, and one dimension unless it is given a shape."""
    x = tokens.build()
    with files.written(x) as path:
        assert np.memmap(path, mode="r").dtype == np.uint8
        assert np.memmap(path, mode="r").tobytes() == x.tobytes()
        flat = np.memmap(path, dtype=x.dtype, mode="r")
        assert flat.shape == (x.size,)
        turned = np.memmap(path, dtype=x.dtype, mode="r", shape=x.shape[::-1])
        assert np.array_equal(turned, x.reshape(x.shape[::-1]))


@also("memmap.read.needs-dtype")
@given(case=files.unsigned)
@example(case=Unsigned(2, "<", (0, 2**63 - 1, 2**63, 2**64 - 1)))
def test_the_other_sign_shows_in_the_upper_half_only(case):
    """A signed type reads an unsigned one's tokens wrong from half of its range up, and the others right."""
    tokens = case.build()
    bits, ids = 8 * case.width, tokens.tolist()
    with files.written(tokens) as path:
        read = np.memmap(path, dtype=case.signed, mode="r").tolist()
    assert read == [rules.wrapped(each, bits, signed=True) for each in ids]
    assert [a == b for a, b in zip(read, ids, strict=True)] == [each < 2 ** (bits - 1) for each in ids]


@holds("memmap.read.round-trip")
@costly(cases=50, because="a case takes milliseconds")
@given(case=files.readings, part=files.slices)
@example(case=Reading(Tokens("<i4", (5,))), part=slice(1, 4))
@example(case=Reading(Tokens(">u2", (2, 3)), header=7, order="F"), part=slice(None, None, -1))
@example(case=Reading(Tokens("<u2", (64,)), header=65537, mode="c"), part=slice(0, 0))
def test_a_mapping_has_the_array_that_was_written(case, part):
    """np.memmap with the right dtype gives back the tokens.

    Also behind a header of any length, in either order of dimensions, in every mode that reads, and through slices.
    np.fromfile with the same offset reads the same bytes, and no more than it is asked for.
    """
    with case.opened() as (mapped, array):
        assert (mapped.shape, mapped.dtype) == (array.shape, array.dtype)
        assert rules.row_major_bytes(mapped) == rules.row_major_bytes(array)
        assert rules.row_major_bytes(mapped[part]) == rules.row_major_bytes(array[part])
        written, count = rules.row_major_bytes(array.T if case.order == "F" else array), -(-array.size // 2)
        assert case.in_the_file(mapped, count) == written[: count * array.itemsize]


@also("memmap.read.round-trip")
@given(dtype=st.sampled_from(files.IN_TORCH), length=st.integers(1, 1000))
@example(dtype="uint16", length=4)
def test_a_tensor_over_a_mapping_sees_the_same_tokens(dtype, length):
    """torch.from_numpy of a mapping is the same memory, and holds what torch.tensor of the array holds."""
    with Reading(Tokens(np.dtype(dtype).str, (length,)), mode="c").opened() as (mapped, array):
        x = torch.from_numpy(mapped)
        assert x.data_ptr() == mapped.ctypes.data
        assert x.numpy().tobytes() == array.tobytes() == torch.tensor(array).numpy().tobytes()


@also("memmap.read.round-trip")
@given(dtype=st.sampled_from(files.FOREIGN_DTYPES), length=st.integers(1, 64))
def test_torch_refuses_a_mapping_in_the_other_byte_order(dtype, length):
    """A file in the byte order of other machines can be mapped, and has to be converted before torch takes it."""
    with Reading(Tokens(dtype, (length,)), mode="c").opened() as (mapped, array):
        assert refused(ValueError, torch.from_numpy, mapped)
        native = mapped.astype(mapped.dtype.newbyteorder("="))
        assert torch.from_numpy(native).tolist() == array.tolist()


@also("memmap.read.round-trip")
@needs("linux")
@given(place=files.far_places)
@example(place=2**32 + 8)
@example(place=2**31 - 4)
def test_tokens_beyond_four_gibibytes_are_where_they_belong(place):
    """A token at any byte offset is found by its index and by its offset; an offset in 32 bits points elsewhere.

    An index times four wraps around in torch's int32 from 2 GiB up, and in NumPy's uint32 from 4 GiB up, and silently
    reads another token.
    """
    with files.sparse(place + 64, {place: files.MARK}) as path:
        mapped = np.memmap(path, dtype="<u4", mode="r")
        mark = int.from_bytes(files.MARK, "little")
        assert mapped[place // 4] == mark
        assert np.memmap(path, dtype="<u4", mode="r", offset=place, shape=(1,))[0] == mark
        assert np.count_nonzero(mapped[place // 4 - 8 : place // 4 + 8]) == 1
        signed = torch.tensor([place // 4], dtype=torch.int32) * 4
        unsigned = np.array([place // 4], dtype=np.uint32) * np.uint32(4)
        assert (int(signed[0]) == place) == (place < 2**31)
        assert (int(unsigned[0]) == place) == (place < 2**32)


@also("memmap.read.round-trip")
@given(case=files.damaged)
@example(case=Damaged(Damage.MISSING, 4))
@example(case=Damaged(Damage.EMPTY, 4))
@example(case=Damaged(Damage.ODD, 4))
@example(case=Damaged(Damage.TRUNCATED, 4, "c"))
@example(case=Damaged(Damage.OFFSET, 4))
@example(case=Damaged(Damage.MISSING, 4, "r+"))
def test_a_file_that_does_not_hold_the_tokens_is_refused(case):
    """Opened for reading, a missing file raises FileNotFoundError, and ValueError one of the wrong size.

    One that is empty, that ends within a token, that is shorter than the shape says or ends before the offset.
    """
    assert case.error() is case.due


@also("memmap.read.round-trip")
@needs("linux")
@costly(cases=2, because="forks a process that dies")
@given(kept=st.integers(1, 4), lost=st.integers(1, 4))
def test_a_file_that_shrinks_under_its_mapping_kills_the_reader(kept, lost):
    """Pages that a mapped file no longer has end the process with SIGBUS when they are touched; no error is raised."""
    with files.written(np.ones((kept + lost) * pages.PAGE, dtype=np.uint8)) as path:
        mapped = np.memmap(path, dtype=np.uint8, mode="r")
        with open(path, "r+b") as file:
            file.truncate(kept * pages.PAGE)
        assert children.ending_of(lambda: mapped[kept * pages.PAGE - 1]) == 0
        assert children.ending_of(lambda: mapped[kept * pages.PAGE]) == -signal.SIGBUS


# ── writing through a mapping ──


@holds_when(
    "memmap.read.default-mode-writes",
    "With mode 'r' or 'c'. The default mode is 'r+': an assignment through the array changes the file, and merely"
    " opening with a larger shape, or an empty file, makes the file longer. Mode 'w+' sets all of it to zero.",
)
@given(case=st.one_of(files.reading_modes, files.writing_modes))
@example(case=Opening("r", Act.ASSIGN))
@example(case=Opening("c", Act.ASSIGN))
@example(case=Opening("r", Act.EMPTY))
@example(case=Opening("r+", Act.ASSIGN, by_default=True))
@example(case=Opening("r+", Act.LARGER, by_default=True))
@example(case=Opening("r+", Act.EMPTY))
@example(case=Opening("r+", Act.READ))
@example(case=Opening("r+", Act.SMALLER))
@example(case=Opening("w+", Act.OPEN))
@example(case=Opening("w+", Act.SMALLER))
def test_a_file_that_is_read_through_a_mapping_stays_as_it_is(case):
    """Reading through np.memmap leaves the file as it is.

    The modes that read refuse an assignment or keep it to themselves, and refuse a shape that is too large; the others
    write. What 'r+' makes longer keeps its tokens, with zeros behind them, and a smaller shape cuts nothing off; 'w+'
    leaves as many zeros as its shape has room for.
    """
    after = case.after()
    assert after == case.due
    unchanged = after == case.before
    if when(case.mode in ("r", "c")):
        assert unchanged
    else:
        may_fail(unchanged)


@also("memmap.read.default-mode-writes")
@given(tokens=st.lists(st.integers(0, 65535), min_size=1, max_size=16).map(tuple), new=st.integers(0, 65535))
@example(tokens=(1, 2, 50256, 65535), new=99)
def test_a_writing_mode_shares_the_file_and_copy_on_write_does_not(tokens, new):
    """An assignment in mode 'r+' is seen by every reader of the file; in mode 'c' by that mapping alone.

    In mode 'r' it raises. Opening in mode 'w+' makes all tokens zero.
    """
    with files.written(np.array(tokens, dtype=np.uint16)) as path:
        reading, private, shared = (np.memmap(path, dtype=np.uint16, mode=mode) for mode in ("r", "c", "r+"))
        assert refused(ValueError, reading.__setitem__, 0, new)
        private[0] = new
        assert private.tolist() == [new, *tokens[1:]]
        assert reading.tolist() == shared.tolist() == list(tokens)
        shared[-1] = new
        assert reading.tolist() == np.fromfile(path, dtype=np.uint16).tolist() == [*tokens[:-1], new]
        del reading, private, shared  # Windows makes no file anew that is mapped
        np.memmap(path, dtype=np.uint16, mode="w+", shape=(len(tokens),))
        assert not np.fromfile(path, dtype=np.uint16).any()


@also("memmap.read.default-mode-writes")
@costly(cases=50, because="writes a file and reads it")
@given(pick=files.picks, pairs=st.integers(2, 32))
@example(pick=Pick.SLICE, pairs=2)
@example(pick=Pick.LIST, pairs=2)
def test_what_is_cut_out_of_a_mapping_writes_into_the_file_and_what_is_picked_does_not(pick, pairs):
    """A slice of a mapping, and a tensor over it, are the file: an assignment to them changes it.

    A list of places or a mask gives a copy, as astype does even to the same type.
    """
    tokens = list(range(2, 2 + 2 * pairs))
    with files.written(np.array(tokens, dtype=np.int16)) as path:
        mapped = np.memmap(path, dtype=np.int16, mode="r+")
        part = pick.of(mapped)
        assert np.shares_memory(part, mapped) == pick.is_view
        part[...] = 1
        assert (np.fromfile(path, dtype=np.int16) == 1).sum() == part.size * pick.is_view


@also("memmap.read.default-mode-writes")
@costly(cases=30, because="maps a file twice")
@given(tokens=st.lists(st.integers(0, 2**15 - 1), min_size=1, max_size=16).map(tuple), new=st.integers(0, 2**15 - 1))
@example(tokens=(1, 2, 50, 65), new=99)
def test_torch_maps_a_file_in_private_unless_it_is_to_share_it(tokens, new):
    """torch.from_file keeps an assignment to itself, and refuses a size that is too large; shared, it writes."""
    with files.written(np.array(tokens, dtype=np.int16)) as path:
        private = torch.from_file(str(path), size=len(tokens), dtype=torch.int16)
        private[0] = new
        assert private.tolist() == [new, *tokens[1:]]
        assert np.fromfile(path, dtype=np.int16).tolist() == list(tokens)
        assert refused(RuntimeError, torch.from_file, str(path), size=len(tokens) + 1, dtype=torch.int16)
        torch.from_file(str(path), shared=True, size=len(tokens), dtype=torch.int16)[-1] = new
        assert np.fromfile(path, dtype=np.int16).tolist() == [*tokens[:-1], new]


@also("memmap.read.default-mode-writes")
@needs("linux")
@costly(cases=4, because="forks a process that gives up its rights")
@given(mode=st.sampled_from(["r", "c", "r+", "w+"]), length=st.integers(1, 64))
@example(mode="r", length=4)
@example(mode="r+", length=4)
def test_a_file_that_may_only_be_read_is_refused_by_the_writing_modes(mode, length):
    """Without the right to write, 'r' and 'c' open a file; 'r+', the default, and 'w+' raise PermissionError."""
    with files.written(np.ones(length, dtype=np.uint16)) as path:
        path.chmod(0o444)
        shape = length if mode == "w+" else None
        writes = children.is_refused_to_nobody(
            path.parent, lambda: np.memmap(path.name, dtype=np.uint16, mode=mode, shape=shape)
        )
    assert writes == (mode in ("r+", "w+"))


@also("memmap.read.default-mode-writes")
@given(
    values=st.lists(st.integers(-(2**15), 2**15 - 1), min_size=1, max_size=8).map(tuple), new=st.integers(0, 2**15 - 1)
)
@example(values=(0, 1, 2), new=77)
def test_a_tensor_writes_into_an_array_that_may_not_be_written_to(values, new):
    """torch.from_numpy of a read-only array warns and takes it all the same: writing changes the array."""
    array = np.array(values, dtype=np.int16)
    array.flags.writeable = False
    with warnings.catch_warnings(record=True, action="always") as warned:
        x = torch.from_numpy(array)
    assert [each.category for each in warned] == [UserWarning]
    x[0] = new
    assert array.tolist() == [new, *values[1:]]


@also("memmap.read.default-mode-writes")
@needs("linux")
@costly(cases=1, because="forks a process that dies")
def test_a_tensor_that_writes_into_a_mapping_for_reading_kills_the_process():
    """Over a mapping in mode 'r' there is nothing to write to: the process ends with SIGSEGV, and the file stays."""
    with files.written(np.arange(4, dtype=np.int16)) as path:
        assert children.ending_of(lambda: files.write_through_a_tensor(path)) == -signal.SIGSEGV
        assert np.fromfile(path, dtype=np.int16).tolist() == [0, 1, 2, 3]


# ── when pages are read ──


@holds("memmap.lazy.nothing-read-at-open")
@needs("linux")
@costly(cases=8, because="reads what the system says of every mapping")
@given(tokens=files.file_sizes)
@example(tokens=files.BILLIONS)
def test_no_page_of_a_mapping_is_resident_when_it_is_opened(tokens):
    """The whole file is not read at once: it is mapped into virtual memory.

    All of it, at the size of the file, and none of its pages, for up to four billion tokens of four bytes.
    """
    with files.sparse(4 * tokens) as path:
        mapped = np.memmap(path, dtype=np.int32, mode="r")
        seen = pages.mapping_of(path)
        assert len(mapped) == tokens
        assert seen.size == -(-4 * tokens // pages.PAGE) * pages.PAGE
        assert seen.resident == seen.anonymous == 0


@also("memmap.lazy.nothing-read-at-open")
@needs("linux")
@given(kilobytes=st.integers(1, 64), mode=st.sampled_from(["r", "c", "r+"]))
@example(kilobytes=64, mode="r+")
def test_no_page_is_resident_even_where_the_system_has_the_file_at_hand(kilobytes, mode):
    """A file that was written just now is in the page cache; opening maps none of it, and reading it all maps all."""
    with files.written(np.ones(1024 * kilobytes, dtype=np.uint8)) as path:
        mapped = np.memmap(path, dtype=np.uint8, mode=mode)
        assert len(pages.present(mapped)) == 0
        assert mapped.sum() == 1024 * kilobytes
        assert len(pages.present(mapped)) == -(-1024 * kilobytes // pages.PAGE)


@also("memmap.lazy.nothing-read-at-open")
@needs("linux")
@costly(cases=30, because="writes a file and loads it twice")
@given(case=files.saved)
@example(case=Saved(4, "r"))
@example(case=Saved(40_000, "r+"))
@example(case=Saved(40_000, "r", archived=True))
def test_np_load_maps_an_npy_file_and_silently_reads_an_archive(case):
    """np.load with mmap_mode maps an NPY file in that mode, and reads nothing of it; of an NPZ archive it maps nothing.

    What comes of an archive is an array in memory, which can be written to and has no file behind it.
    """
    with case.loaded() as (loaded, in_the_file):
        assert isinstance(loaded.base, mmap) == (not case.archived)
        assert case.archived or len(pages.present(files.from_its_first_page(loaded))) == 0
        before = loaded.tolist()
        written = not refused(ValueError, loaded.__setitem__, 0, 0)
        assert written == (case.archived or case.mode != "r")
        reaches_the_file = case.mode == "r+" and not case.archived
        assert in_the_file() == ([0, *before[1:]] if reaches_the_file else before)


@also("memmap.lazy.nothing-read-at-open")
@needs("linux")
def test_opening_takes_no_longer_for_four_billion_tokens_than_for_one():
    """By the processor's time, in turns, the medians are of one size; reading 16 GB would take a hundred thousand
    times as long.
    """
    with files.sparse(4 * files.BILLIONS) as large, files.sparse(4) as small:
        of_large, of_small = pages.seconds_to_open(large, small, repeats=25)
    observe(rule=of_large, exact=of_small, unit="s", label="opening four billion tokens, and one")
    assert of_large < 10 * of_small


@holds("memmap.lazy.pages-on-demand")
@needs("linux")
@costly(cases=30, because="every touch of a cold page may read megabytes ahead")
@given(access=files.accesses())
@example(access=Access(2**20, ((2**19, 1),)))
@example(access=Access(2**20, ((0, 1), (2**20 - 1, 1), (2**19, 40_000))))
def test_the_pages_that_are_touched_are_resident_and_few_others(access):
    """The system loads pages when they are touched.

    Every touched page is resident, and no page is further from a touched one than the window reaches that a single
    touch brings in. That is measured first; commonly it is 64 kB.
    """
    with files.sparse(4 * access.tokens) as path:
        mapped = np.memmap(path, dtype=np.int32, mode="r")
        access.touch(mapped)
        touched, resident = access.pages(pages.PAGE), set(pages.present(mapped).tolist())
    assert touched <= resident
    assert resident <= rules.around(touched, pages.window() - 1)
    observe(rule=len(touched), exact=len(resident), unit="pages", where=access, label="of a sparse file")


@also("memmap.lazy.pages-on-demand")
@needs("linux")
@costly(cases=20, because="writes megabytes")
@given(access=files.accesses(2**20))
@example(access=Access(2**20, ((2**19, 1),)))
def test_a_file_in_the_page_cache_comes_in_by_huge_pages_at_most(access):
    """Where the file is in the page cache, a touch may map a whole huge page of it, and no more."""
    with files.written(np.ones(access.tokens, dtype=np.int32)) as path:
        mapped = np.memmap(path, dtype=np.int32, mode="r")
        access.touch(mapped)
        touched, resident = access.pages(pages.PAGE), set(pages.present(mapped).tolist())
    assert touched <= resident
    assert resident <= rules.around(touched, pages.huge_page() // pages.PAGE - 1)
    observe(rule=len(touched), exact=len(resident), unit="pages", where=access, label="of a file in the page cache")


@also("memmap.lazy.pages-on-demand")
@needs("linux")
@costly(cases=50, because="asks which pages are there")
@given(pick=files.picks, kilobytes=st.integers(1, 64))
@example(pick=Pick.SLICE, kilobytes=64)
@example(pick=Pick.NEW_TENSOR, kilobytes=64)
def test_what_is_cut_out_of_a_mapping_is_not_read_for_it(pick, kilobytes):
    """A view of a mapping touches no page of it, a copy touches what it copies."""
    with files.written(np.ones(512 * kilobytes, dtype=np.int16)) as path:
        mapped = np.memmap(path, dtype=np.int16, mode="c")
        part = pick.of(mapped)
        assert (len(pages.present(mapped)) == 0) == pick.is_view == np.shares_memory(part, mapped)


@also("memmap.lazy.pages-on-demand")
@needs("linux")
@costly(cases=3, because="reads what the system says of every mapping several times")
@given(access=files.accesses(2**20))
def test_pages_stay_resident_as_long_as_the_mapping_lives(access):
    """What was touched stays counted while other pages come in, and goes when the mapping does.

    So memory seems to grow all through an epoch. A mapping that is opened again starts from nothing.
    """
    with files.sparse(4 * access.tokens) as path:
        mapped = np.memmap(path, dtype=np.int32, mode="r")
        access.touch(mapped)
        some = pages.mapping_of(path).resident
        assert some == pages.PAGE * len(pages.present(mapped))
        mapped.sum()
        assert pages.mapping_of(path).resident == pages.PAGE * -(-mapped.nbytes // pages.PAGE) >= some > 0
        del mapped
        assert pages.mapping_of(path) is None
        again = np.memmap(path, dtype=np.int32, mode="r")
        assert len(pages.present(again)) == 0


@holds("memmap.lazy.large-corpora")
@needs("linux")
@costly(cases=3, because="reads at random places of 16 GB, each of which may read megabytes ahead")
@given(case=files.samplings)
@example(case=Sampling(0))
def test_random_batches_of_four_billion_tokens_take_little_memory(case):
    """That makes corpora of billions of tokens usable.

    Batches drawn through a DataLoader: of the mapping no more is resident than the windows of the stretches that
    were read, and neither the process's own memory nor its peak grows by more than 32 MiB beyond that, of 16 GB.
    """
    with files.sparse(4 * files.BILLIONS) as path:
        own, peak = pages.anonymous_memory(), pages.peak_memory()
        corpus = Corpus(path, case.context)
        read = [tuple(batch.shape) for batch in case.loader(corpus)]
        most = case.most_pages(pages.PAGE, pages.window()) * pages.PAGE
        assert read == [(case.batch, case.context)] * case.batches
        assert pages.mapping_of(path).resident <= most
        assert pages.anonymous_memory() - own < 2**25
        assert pages.peak_memory() - peak < most + 2**25


@also("memmap.lazy.large-corpora")
@given(tokens=st.integers(1, 4096))
@example(tokens=4096)
def test_a_mapping_that_is_pickled_takes_all_of_its_tokens_along(tokens):
    """Pickled, as for a worker that is started and not forked, a mapping becomes an array with every token in it."""
    with files.written(np.arange(tokens, dtype=np.int32)) as path:
        mapped = np.memmap(path, dtype=np.int32, mode="r")
        pickled = pickle.dumps(mapped)
        assert len(pickled) > mapped.nbytes
        del mapped  # Windows removes no file that is mapped
        path.unlink()
        assert pickle.loads(pickled).tolist() == list(range(tokens))


@also("memmap.lazy.large-corpora")
@costly(cases=10, because="measures memory")
@given(tokens=st.integers(10_000, 60_000))
def test_shuffling_without_replacement_needs_memory_for_every_index(tokens):
    """A sampler without replacement lists a permutation of all starts, of 8 bytes each and more; with it, none.

    For four billion tokens that is more than 32 GB before the first batch.
    """
    data = range(tokens)
    assert files.memory_of_first_index(torch.utils.data.RandomSampler(data)) >= 8 * tokens
    assert files.memory_of_first_index(torch.utils.data.RandomSampler(data, replacement=True)) < 2**14
