"""A CUDA device that is made up, so that what is written for one runs on a processor: tensors "on" it are the CPU's.

It has random numbers of its own, memory that counts as pinned, and an allocator that hands out blocks of 512 bytes.
"""

from __future__ import annotations

import time
import weakref
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode  # noqa: TID251 - a stand-in for a device, not a way of measuring one

from properties import needs
from properties.instruments import clock, launches
from properties.instruments.clock import EventTimer, HostTimer
from properties.strategies import workloads
from reference.memory import block_bytes

NAME, BYTES = "NVIDIA H100 80GB HBM3", 85_000_000_000


def on_cpu(value: Any) -> Any:
    """The CPU where an argument names a CUDA device, and everything else as it is."""
    named = value.startswith("cuda") if isinstance(value, str) else False
    return torch.device("cpu") if named or (isinstance(value, torch.device) and value.type == "cuda") else value


def _is_on_card(value: Any) -> bool:
    return on_cpu(value) is not value


def _same_memory(one: Tensor, other: Tensor) -> bool:
    """Whether CUDA's torch.equal says that two tensors are equal without a look at their values."""
    first, second = (
        (each.data_ptr(), each.dtype, each.shape, each.stride(), each.is_conj(), each.is_neg()) for each in (one, other)
    )
    return first == second


class _Moved(TorchFunctionMode):
    """Calls for the card, made on the CPU; what is on the card, and what is pinned, is remembered."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = torch.Generator()
        self.storages: dict[int, weakref.ref[torch.UntypedStorage]] = {}
        self.pinned: dict[int, torch.UntypedStorage] = {}
        self.launched: list[SimpleNamespace] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        asked = any(map(_is_on_card, (*args, *kwargs.values())))
        there = asked or any(self._has(each) for each in args if isinstance(each, Tensor))
        if asked and func in (torch.rand, torch.randn) and kwargs.get("generator") is None:
            kwargs = {**kwargs, "generator": self.generator}
        if there and func in (torch.equal, Tensor.equal) and _same_memory(*args):
            return True
        out = func(*map(on_cpu, args), **{name: on_cpu(value) for name, value in kwargs.items()})
        if there and isinstance(out, Tensor) and func is not Tensor.cpu:
            storage = out.untyped_storage()
            if not self._has(out):
                self.launched.append(SimpleNamespace(name=func.__name__, device_type=SimpleNamespace(name="CUDA")))
            self.storages[storage._cdata] = weakref.ref(storage)
        return out

    @contextmanager
    def profile(self, activities: Any) -> Iterator[Any]:
        """What is launched meanwhile: whatever makes a new storage on the card."""
        start = len(self.launched)
        yield SimpleNamespace(events=lambda: self.launched[start:])

    def _has(self, tensor: Tensor) -> bool:
        kept = self.storages.get(tensor.untyped_storage()._cdata)
        return kept is not None and kept() is not None

    def seed(self, value: int) -> None:
        """By all of its 64 bits, where a generator of the CPU takes 32."""
        self.generator.manual_seed(zlib.crc32(f"card {value}".encode()))

    def allocated(self) -> int:
        """Bytes of the blocks of what is there still."""
        there = (kept() for kept in self.storages.values())
        return sum(block_bytes(storage.nbytes()) for storage in there if storage is not None)

    def pin(self, tensor: Tensor) -> Tensor:
        """Itself where it is pinned, else a copy that is, with the same strides, as torch makes it."""
        if self.is_pinned(tensor):
            return tensor
        copy = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype).copy_(tensor)
        self.pinned[copy.untyped_storage()._cdata] = copy.untyped_storage()
        return copy

    def is_pinned(self, tensor: Tensor) -> bool:
        """Whether it lies in memory that was pinned."""
        return tensor.numel() > 0 and tensor.untyped_storage()._cdata in self.pinned


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
    moved, generator = _Moved(), torch.Generator

    class Generator:
        """A class, as torch's own is, since modules that are imported meanwhile name it in annotations."""

        def __new__(cls, device: Any = "cpu") -> Any:
            return generator(on_cpu(device))

    made_up: dict[str, Callable[..., Any]] = {
        "Event": Event,
        "synchronize": lambda device=None: None,
        "get_device_properties": lambda device=None: SimpleNamespace(name=NAME, total_memory=BYTES),
        "get_device_capability": lambda device=None: capability,
        "mem_get_info": lambda device=None: (free, BYTES),
        "memory_reserved": lambda device=None: 0,
        "memory_allocated": lambda device=None: moved.allocated(),
        "max_memory_allocated": lambda device=None: moved.allocated(),
        "reset_peak_memory_stats": lambda device=None: None,
        "device_count": lambda: 1,
        "get_allocator_backend": lambda: "native",
        "manual_seed_all": moved.seed,
        "Stream": lambda device=None: None,
        "stream": lambda side: nullcontext(),
    }
    for name, function in made_up.items():
        patch.setattr(torch.cuda, name, function)
    patch.setattr(torch, "Generator", Generator)
    patch.setattr(needs, "present", lambda need: True)
    patch.setenv("PYTEST_XDIST_WORKER_COUNT", "1")
    patch.setattr(torch.Tensor, "pin_memory", lambda tensor: moved.pin(tensor))
    patch.setattr(torch.Tensor, "is_pinned", lambda tensor: moved.is_pinned(tensor))
    patch.setattr(launches, "profile", moved.profile)
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
    with moved:
        yield
