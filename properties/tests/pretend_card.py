"""A CUDA device that is made up, so that what is written for one runs on a processor: tensors "on" it are the CPU's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode  # noqa: TID251 - a stand-in for a device, not a way of measuring one

from properties import needs
from properties.instruments import clock
from properties.instruments.clock import EventTimer, HostTimer
from properties.strategies import workloads

NAME, BYTES = "NVIDIA H100 80GB HBM3", 85_000_000_000


def on_cpu(value: Any) -> Any:
    """The CPU where an argument names a CUDA device, and everything else as it is."""
    named = value.startswith("cuda") if isinstance(value, str) else False
    return torch.device("cpu") if named or (isinstance(value, torch.device) and value.type == "cuda") else value


class _Moved(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*map(on_cpu, args), **{name: on_cpu(value) for name, value in (kwargs or {}).items()})


class Event:
    """A moment, by the host's clock."""

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        """Now."""
        self.at = time.perf_counter()

    def elapsed_time(self, later: Event) -> float:
        """Milliseconds."""
        return (later.at - self.at) * 1000


@contextmanager
def card(patch: pytest.MonkeyPatch, capability: tuple[int, int] = (9, 0), free: int = BYTES) -> Iterator[None]:
    """An H100, small sizes of work for it, and an idle clock."""
    generator = torch.Generator
    made_up: dict[str, Callable[..., Any]] = {
        "Event": Event,
        "synchronize": lambda device=None: None,
        "get_device_properties": lambda device=None: SimpleNamespace(name=NAME, total_memory=BYTES),
        "get_device_capability": lambda device=None: capability,
        "mem_get_info": lambda device=None: (free, BYTES),
        "memory_reserved": lambda device=None: 0,
        "memory_allocated": lambda device=None: 0,
        "max_memory_allocated": lambda device=None: 0,
        "reset_peak_memory_stats": lambda device=None: None,
        "device_count": lambda: 1,
        "Stream": lambda device=None: None,
        "stream": lambda side: nullcontext(),
    }
    for name, function in made_up.items():
        patch.setattr(torch.cuda, name, function)
    patch.setattr(torch, "Generator", lambda device="cpu": generator(on_cpu(device)))
    patch.setattr(needs, "present", lambda need: True)
    patch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    patch.setattr(clock, "DEVICE", EventTimer(warm_up=0.0))
    patch.setattr(workloads, "WALL", HostTimer(time.perf_counter, warm_up=0.0))
    patch.setattr(workloads, "MEBI", 2**10)
    for sizes, small in (
        (workloads.SIDES, 64),
        (workloads.ELEMENTS, 2**12),
        (workloads.COLD, 2**16),
        (workloads.LAYERS, (16, 16)),
        (workloads.SMALLER, 16),
        (workloads.MANY, 10**4),
    ):
        patch.setitem(sizes, "cuda", small)
    with _Moved():
        yield
