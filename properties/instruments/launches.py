"""What an operation launches on a CUDA device, as torch's profiler sees it."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from properties.instruments import devices
from properties.instruments.kernels import import_kernels


def launched(operation: Callable[[], object]) -> list[str]:
    """Kernels, copies and fills that run on the device while ``operation`` does; it is done once before, unwatched.

    Nothing is seen of what a captured graph or another process launches, nor where the driver keeps profilers out.
    """
    import_kernels()
    operation()
    torch.cuda.synchronize()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the profiler says what it does not see of other kinds of device
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
            operation()
            torch.cuda.synchronize()
        return [event.name for event in seen.events() if event.device_type.name == "CUDA"]


def require_sight() -> None:
    """Skip where the profiler does not see what is launched on the device."""
    x = torch.ones(1, device="cuda")
    if not launched(lambda: x + 1):
        pytest.skip("needs a driver that lets torch's profiler see what the device does")


def taken(operation: Callable[[], object]) -> int:
    """Bytes that ``operation`` takes from the device's allocator at its highest, over what was taken before.

    In blocks, which are predicted up to 1 MiB each.
    """
    devices.require_blocks()
    operation()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    kept = operation()
    highest = torch.cuda.max_memory_allocated()
    del kept
    return highest - before
