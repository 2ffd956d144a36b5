"""A property leaves the process as it found it: what is compared before and after, and put back."""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch

_TINY = torch.tensor([2.0**-126])


def _flushes_denormals() -> bool:
    # torch has a setter and no getter: halve the smallest normal number and see.
    return bool((_TINY * 0.5 == 0).item())


def _children() -> frozenset[int]:
    """The processes that this one has started, without the one that Python keeps for shared memory and semaphores."""
    tracker = getattr(resource_tracker._resource_tracker, "_pid", None)
    return _started() - {tracker or -1}


def _started() -> frozenset[int]:
    if sys.platform == "linux":
        pids: set[int] = set()
        for task in Path("/proc/self/task").iterdir():
            try:
                pids.update(int(pid) for pid in (task / "children").read_text().split())
            except OSError:  # the thread ended meanwhile
                continue
        return frozenset(pids)
    return frozenset(child.pid for child in multiprocessing.active_children() if child.pid)


def _end_children(before: frozenset[int]) -> None:
    import signal

    for pid in _children() - before:
        try:
            os.kill(pid, signal.SIGKILL if sys.platform != "win32" else signal.SIGTERM)
            os.waitpid(pid, 0)
        except OSError:  # it has ended, or is waited for by someone else
            continue


_IGNORED_VARIABLES = ("PYTEST_CURRENT_TEST",)


def _kept_variables(seen: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in seen.items() if name not in _IGNORED_VARIABLES}


def _restore_environment(before: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(before)


_AUTOCAST_DEVICES = ("cpu", "cuda")


def _autocast() -> tuple[tuple[bool, torch.dtype], ...]:
    return tuple((torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in _AUTOCAST_DEVICES)


def _restore_autocast(before: tuple[tuple[bool, torch.dtype], ...]) -> None:
    for kind, (enabled, dtype) in zip(_AUTOCAST_DEVICES, before, strict=True):
        torch.set_autocast_enabled(kind, enabled)
        torch.set_autocast_dtype(kind, dtype)


def _restore_device(before: torch.device) -> None:
    # None takes away the mode that a default device is; naming "cpu" would add one, which every call then passes.
    torch.set_default_device(None if before.type == "cpu" else before)


_modes_held: list[Any] = []


def _restore_inference_mode(before: bool) -> None:
    # The mode ends with the guard that opened it, and that is the property's: a guard of ours lies over it.
    guard = torch.inference_mode(mode=before)
    guard.__enter__()
    _modes_held.append(guard)


def _set_deterministic(before: int) -> None:
    if "torch._inductor.config" in sys.modules:  # the other setter would load the compiler for nothing
        torch.use_deterministic_algorithms(before > 0, warn_only=before == 1)
    else:
        torch.set_deterministic_debug_mode(before)


_PRECISIONS = tuple(
    tuple(filter(None, path.split(".")))
    for path in (
        *("", "cuda.matmul", "cudnn", "cudnn.conv", "cudnn.rnn"),
        *("mkldnn", "mkldnn.matmul", "mkldnn.conv", "mkldnn.rnn"),
    )
)
_MIXED = "set in two ways"


def _backend(path: tuple[str, ...]) -> Any:
    found: Any = torch.backends
    for name in path:
        found = getattr(found, name, None)
    return found


def _tf32_by_flags() -> tuple[object, ...]:
    reads: tuple[Callable[[], object], ...] = (
        lambda: torch.backends.cuda.matmul.allow_tf32,
        lambda: torch.backends.cudnn.allow_tf32,
        torch.get_float32_matmul_precision,
    )
    seen: list[object] = []
    for read in reads:
        try:
            seen.append(read())
        except RuntimeError:  # torch refuses to answer where the newer setting says otherwise
            seen.append(_MIXED)
    return tuple(seen)


def _tf32() -> tuple[tuple[object, ...], tuple[object, ...]]:
    return _tf32_by_flags(), tuple(getattr(_backend(path), "fp32_precision", None) for path in _PRECISIONS)


def _set_tf32(before: tuple[tuple[Any, ...], tuple[Any, ...]]) -> None:
    flags, precisions = before
    if _tf32_by_flags() != flags and _MIXED not in flags:
        torch.set_float32_matmul_precision(flags[2])
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = flags[0], flags[1]
    for path, precision in zip(_PRECISIONS, precisions, strict=True):
        if precision is not None:
            _backend(path).fp32_precision = precision


@contextlib.contextmanager
def precisions_kept() -> Iterator[None]:
    """Whatever is said within of the precision of float32 products is forgotten afterwards."""
    before = _tf32()
    try:
        yield
    finally:
        _set_tf32(before)


def _set_cudnn(before: tuple[bool, bool, bool]) -> None:
    cudnn: Any = torch.backends.cudnn
    cudnn.enabled, cudnn.benchmark, cudnn.deterministic = before


@dataclass(frozen=True)
class Watched:
    """One piece of global state: how to read it, how to put it back, and which part of it counts."""

    name: str
    read: Callable[[], Any]
    restore: Callable[[Any], object]
    telling: Callable[[Any], Any] = lambda seen: seen


def _numpy_state() -> tuple[bytes, int, int, float]:
    _, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    return np.asarray(keys).tobytes(), int(position), int(has_gauss), float(cached)


def _restore_numpy(before: tuple[bytes, int, int, float]) -> None:
    keys, position, has_gauss, cached = before
    np.random.set_state(("MT19937", np.frombuffer(keys, dtype=np.uint32), position, has_gauss, cached))


def _cuda_states() -> tuple[bytes, ...] | None:
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return None
    return tuple(bytes(state.numpy().tobytes()) for state in torch.cuda.get_rng_state_all())


def _restore_cuda(before: tuple[bytes, ...]) -> None:
    for index, state in enumerate(before):
        torch.cuda.set_rng_state(torch.frombuffer(bytearray(state), dtype=torch.uint8), index)


def _sweeping(filters: list[Any]) -> list[Any]:
    """The filters that take in every message of every module: importing a library may add others."""
    return [each for each in filters if each[1] is each[3] is None and each[2].__module__ == "builtins"]


def _restore_warnings(before: list[Any]) -> None:
    warnings.filters[:] = before  # type: ignore[index]
    warnings._filters_mutated()  # type: ignore[attr-defined]


WATCHED: tuple[Watched, ...] = (
    Watched("default dtype", torch.get_default_dtype, torch.set_default_dtype),
    Watched("default device", torch.get_default_device, _restore_device),
    Watched("thread count", torch.get_num_threads, torch.set_num_threads),
    Watched("inference mode", torch.is_inference_mode_enabled, _restore_inference_mode),
    Watched("grad mode", torch.is_grad_enabled, torch.set_grad_enabled),
    Watched("autocast", _autocast, _restore_autocast),
    Watched("denormal flag", _flushes_denormals, torch.set_flush_denormal),
    Watched("deterministic algorithms", torch.get_deterministic_debug_mode, _set_deterministic),
    Watched("TF32 flags", _tf32, _set_tf32),
    Watched(
        "cuDNN flags",
        lambda: (
            torch.backends.cudnn.enabled,
            torch.backends.cudnn.benchmark,
            torch.backends.cudnn.deterministic,
        ),
        _set_cudnn,
    ),
    Watched("Python's random generator", random.getstate, random.setstate),
    Watched("NumPy's random generator", _numpy_state, _restore_numpy),
    Watched(
        "torch's random generator",
        lambda: torch.default_generator.get_state().numpy().tobytes(),
        lambda before: torch.default_generator.set_state(torch.frombuffer(bytearray(before), dtype=torch.uint8)),
    ),
    Watched("CUDA's random generators", _cuda_states, _restore_cuda),
    Watched("warn-always flag", torch.is_warn_always_enabled, torch.set_warn_always),
    Watched("warning filters", lambda: list(warnings.filters), _restore_warnings, _sweeping),
    Watched("working folder", os.getcwd, os.chdir),
    Watched("environment variables", lambda: dict(os.environ), _restore_environment, _kept_variables),
    Watched("child processes", _children, _end_children),
)


class Snapshot:
    """The watched state at one moment."""

    def __init__(self) -> None:
        self._seen = [watched.read() for watched in WATCHED]

    def restore(self) -> list[str]:
        """Put back what has changed since, and return the names of it."""
        changed = []
        for watched, before in zip(WATCHED, self._seen, strict=True):
            try:
                now = watched.read()  # None where it is not there to be read
            except OSError:  # a working folder that was removed
                now = None
            if before is not None and (now is None or watched.telling(before) != watched.telling(now)):
                changed.append(watched.name)
                with contextlib.suppress(OSError):  # a working folder that was removed cannot be gone back to
                    watched.restore(before)
        return changed


class WorkingFolder:
    """An empty folder that a property works in, so that what it leaves there is its own, and leaves no trace.

    The folder itself stays for the next property of the process, and goes with it.
    """

    _folder: ClassVar[Path | None] = None

    def __enter__(self) -> Self:
        self._outside = os.getcwd()
        if WorkingFolder._folder is None or not WorkingFolder._folder.is_dir():
            WorkingFolder._folder = Path(tempfile.mkdtemp(prefix="assay-"))
            atexit.register(shutil.rmtree, WorkingFolder._folder, ignore_errors=True)
        self._inside = WorkingFolder._folder
        os.chdir(self._inside)
        return self

    def left(self) -> list[str]:
        """What stands in the folder, in words: an empty list where nothing does."""
        names = sorted(os.listdir(self._inside)) if self._inside.is_dir() else []
        return [f"files in the working folder ({', '.join(names[:3])})"] if names else []

    def __exit__(self, *raised: object) -> None:
        os.chdir(self._outside)
        if not self._inside.is_dir() or os.listdir(self._inside):
            shutil.rmtree(self._inside, ignore_errors=True)
