"""A property leaves the process as it found it: what is compared before and after, and put back."""

from __future__ import annotations

import multiprocessing
import os
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

_TINY = torch.tensor([2.0**-126])


def _flushes_denormals() -> bool:
    # torch has a setter and no getter: halve the smallest normal number and see.
    return bool((_TINY * 0.5 == 0).item())


def _children() -> frozenset[int]:
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


def _restore_environment(before: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(before)


def _restore_autocast(before: bool) -> None:
    torch.set_autocast_enabled("cpu", before)


def _set_deterministic(before: tuple[bool, bool]) -> None:
    torch.use_deterministic_algorithms(before[0], warn_only=before[1])


def _set_tf32(before: bool) -> None:
    torch.backends.cuda.matmul.allow_tf32 = before


def _set_cudnn(before: tuple[bool, bool, bool]) -> None:
    cudnn: Any = torch.backends.cudnn
    cudnn.enabled, cudnn.benchmark, cudnn.deterministic = before


@dataclass(frozen=True)
class Watched:
    """One piece of global state: how to read it, and how to put it back."""

    name: str
    read: Callable[[], Any]
    restore: Callable[[Any], object]


def _numpy_state() -> tuple[bytes, int, int, float]:
    _, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    return np.asarray(keys).tobytes(), int(position), int(has_gauss), float(cached)


def _restore_numpy(before: tuple[bytes, int, int, float]) -> None:
    keys, position, has_gauss, cached = before
    np.random.set_state(("MT19937", np.frombuffer(keys, dtype=np.uint32), position, has_gauss, cached))


def _cuda_states() -> tuple[bytes, ...]:
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return ()
    return tuple(bytes(state.numpy().tobytes()) for state in torch.cuda.get_rng_state_all())


def _restore_cuda(before: tuple[bytes, ...]) -> None:
    for index, state in enumerate(before):
        torch.cuda.set_rng_state(torch.frombuffer(bytearray(state), dtype=torch.uint8), index)


WATCHED: tuple[Watched, ...] = (
    Watched("default dtype", torch.get_default_dtype, torch.set_default_dtype),
    Watched("default device", torch.get_default_device, torch.set_default_device),
    Watched("thread count", torch.get_num_threads, torch.set_num_threads),
    Watched("grad mode", torch.is_grad_enabled, torch.set_grad_enabled),
    Watched("inference mode", torch.is_inference_mode_enabled, lambda before: None),
    Watched("autocast", lambda: torch.is_autocast_enabled("cpu"), _restore_autocast),
    Watched("denormal flag", _flushes_denormals, torch.set_flush_denormal),
    Watched(
        "deterministic algorithms",
        lambda: (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        ),
        _set_deterministic,
    ),
    Watched("TF32 flag", lambda: torch.backends.cuda.matmul.allow_tf32, _set_tf32),
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
    Watched("working folder", os.getcwd, os.chdir),
    Watched("environment variables", lambda: dict(os.environ), _restore_environment),
    Watched("child processes", _children, _end_children),
)
_IGNORED_VARIABLES = ("PYTEST_CURRENT_TEST",)


class Snapshot:
    """The watched state at one moment."""

    def __init__(self) -> None:
        self._seen = [watched.read() for watched in WATCHED]

    def restore(self) -> list[str]:
        """Put back what has changed since, and return the names of it."""
        changed = []
        for watched, before in zip(WATCHED, self._seen, strict=True):
            try:
                now = watched.read()
            except OSError:  # a working folder that was removed
                now = None
            if _differs(before, now):
                changed.append(watched.name)
                watched.restore(before)
        return changed


def _differs(before: Any, now: Any) -> bool:
    if isinstance(before, dict) and isinstance(now, dict):
        return {k: v for k, v in before.items() if k not in _IGNORED_VARIABLES} != {
            k: v for k, v in now.items() if k not in _IGNORED_VARIABLES
        }
    return bool(before != now)
