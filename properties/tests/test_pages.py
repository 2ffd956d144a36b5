"""Resident pages: the two files of the system agree with each other and with what was touched."""

import mmap
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

from properties.instruments import children, pages
from properties.strategies import token_files as files

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


def test_pages_are_present_once_they_are_written() -> None:
    with mmap.mmap(-1, 8 * pages.PAGE) as mapped:
        memory = np.ndarray(8 * pages.PAGE, dtype=np.uint8, buffer=mapped)
        assert pages.present(memory).tolist() == []
        memory[3 * pages.PAGE] = 1
        memory[6 * pages.PAGE + 5] = 1
        assert pages.present(memory).tolist() == [3, 6]
        del memory


def test_both_files_of_the_system_agree() -> None:
    with files.sparse(2**22) as path:
        mapped = np.memmap(path, dtype=np.int32, mode="c")
        assert pages.mapping_of(path) == pages.Mapping(2**22, 0, 0)
        mapped[0] = mapped[2**19]
        seen = pages.mapping_of(path)
        assert seen is not None
        assert seen.resident == len(pages.present(mapped)) * pages.PAGE
        assert seen.anonymous == pages.PAGE  # the private copy of the page that was written to
        del mapped
        assert pages.mapping_of(path) is None


def test_the_window_is_a_power_of_two_no_larger_than_a_huge_page() -> None:
    window = pages.window()
    assert window & (window - 1) == 0
    assert 1 <= window <= pages.huge_page() // pages.PAGE


def test_an_array_within_a_page_is_refused() -> None:
    with files.sparse(2**14) as path, pytest.raises(ValueError, match="into a page"):
        pages.present(np.memmap(path, dtype=np.uint8, mode="r")[1:])


def test_memory_of_ones_own_is_counted_when_it_is_written_to() -> None:
    size = 2**24
    before = pages.anonymous_memory()
    # A mapping of its own: an array could come out of memory that was freed and is still resident.
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as own:
        own.write(b"\1" * size)
        assert size / 2 <= pages.anonymous_memory() - before <= 3 * size
    assert pages.peak_memory() >= pages.anonymous_memory()


def test_opening_is_timed_in_turns() -> None:
    with files.sparse(4) as one, files.sparse(2**30) as other:
        first, second = pages.seconds_to_open(one, other, repeats=3)
    assert 0 < first < 1
    assert 0 < second < 1


def test_children_end_as_their_call_does() -> None:
    assert children.ending_of(lambda: 5) == 0
    assert children.ending_of(lambda: 1 / 0) == children.RAISED
    assert children.ending_of(lambda: signal.raise_signal(signal.SIGSEGV)) == -signal.SIGSEGV


def test_nobody_may_not_write_and_may_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "file").chmod(0o444)

    def written() -> None:
        Path("file").write_bytes(b"y")

    assert children.is_refused_to_nobody(tmp_path, written)
    assert not children.is_refused_to_nobody(tmp_path, lambda: Path("file").read_bytes())
    with pytest.raises(RuntimeError, match="something else than PermissionError"):
        children.is_refused_to_nobody(tmp_path, lambda: 1 / 0)
    assert (tmp_path / "file").read_bytes() == b"x"
