"""Pages of a file mapping that are resident, as Linux says.

Two of its files are read. ``smaps`` sums up each mapping; a process with torch has a thousand, and reading them takes
10 to 20 ms. ``pagemap`` says of each page whether it is present in this process, at a microsecond for a hundred pages.
Neither shows what is in the page cache only: a page that was read ahead and not mapped is not resident here.
"""

from __future__ import annotations

import mmap
import statistics
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from jaxtyping import Int64, Shaped

PAGE = mmap.PAGESIZE
"""Bytes of a page."""
_PRESENT = np.uint64(1) << np.uint64(63)
_HUGE = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
_TRIED_PAGES = 1 << 12
_TRIES = 8


@dataclass(frozen=True)
class Mapping:
    """What smaps says of one mapping, in bytes."""

    size: int
    resident: int
    anonymous: int


def present(array: Shaped[np.ndarray, "..."]) -> Int64[np.ndarray, "pages"]:
    """The pages of a mapped array that are resident in this process, counted from its first.

    Raises ValueError for an array that does not start at the start of a page.
    """
    address = array.__array_interface__["data"][0]
    if address % PAGE:
        raise ValueError(f"the array starts {address % PAGE} bytes into a page: give one that is mapped with offset 0")
    count = -(-array.nbytes // PAGE)
    entries = np.empty(count, dtype=np.uint64)
    unread = memoryview(entries).cast("B")  # type: ignore[arg-type]
    with open("/proc/self/pagemap", "rb", buffering=0) as pagemap:
        pagemap.seek(address // PAGE * entries.itemsize)
        while unread:
            taken = pagemap.readinto(unread)
            if not taken:
                raise RuntimeError(
                    "/proc/self/pagemap ended too early: this system does not say which pages are present"
                )
            unread = unread[taken:]
    return np.flatnonzero(entries & _PRESENT).astype(np.int64)


def mapping_of(path: Path) -> Mapping | None:
    """What smaps says of the mappings of a file, added up; None where there is none."""
    found: list[dict[str, int]] = []
    reading, real = False, path.resolve()
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8", errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name in ("Size", "Rss", "Anonymous") and value.endswith(" kB"):
            if reading:
                found[-1][name] = 1024 * int(value.removesuffix("kB"))
        elif "-" in name.split(" ")[0]:
            reading = line.endswith(f" {real}")
            if reading:
                found.append({})
    if not found:
        return None
    return Mapping(*(sum(each[name] for each in found) for name in ("Size", "Rss", "Anonymous")))


def anonymous_memory() -> int:
    """Bytes of this process's resident memory that are no file's."""
    return _status("RssAnon")


def peak_memory() -> int:
    """Bytes of the most memory that this process had resident at any time, mapped files included."""
    return _status("VmHWM")


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{name}:"):
            return 1024 * int(line.split()[1])
    raise RuntimeError(f"/proc/self/status says nothing of {name}: this needs Linux 4.5 or newer")


def huge_page() -> int:
    """Bytes of a huge page: the most that one touch can bring in, where a file lies in the page cache."""
    return int(_HUGE.read_text(encoding="ascii")) if _HUGE.exists() else 2 << 20


@cache
def window() -> int:
    """Pages that one touch brings in, of a sparse file in the temporary folder that nothing was read of yet.

    The largest number seen in a few touches far apart, through mappings that are not NumPy's. The kernel maps a window
    that the page lies in; where it starts depends on the address at which the file is mapped.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sparse"
        path.touch()
        seen = []
        for place in range(1, _TRIES + 1):
            path.unlink()
            with open(path, "wb") as file:
                file.truncate(_TRIED_PAGES * PAGE)
            with open(path, "rb") as file:
                array = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), dtype=np.uint8)
            array[place * (_TRIED_PAGES // (_TRIES + 1)) * PAGE]
            seen.append(len(present(array)))
            del array
    return max(seen)


def seconds_to_open(path: Path, other: Path, repeats: int) -> tuple[float, float]:
    """The median processor time of this thread that mapping each of two files takes, in turns."""
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for times, each in zip(taken, (path, other), strict=True):
            started = time.thread_time()
            np.memmap(each, dtype=np.int32, mode="r")
            times.append(time.thread_time() - started)
    return statistics.median(taken[0]), statistics.median(taken[1])
