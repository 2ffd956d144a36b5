"""The device at hand: what the table of hardware knows of it, what it can do, and whether there is room on it.

What is not known or not there ends a property with that reason: a device that is too old, too full or in no table is
none to judge by, and no failure.
"""

from __future__ import annotations

import os
import re
from fractions import Fraction
from pathlib import Path

import pytest
import torch

from properties.environment import processor
from reference import hardware
from reference.hardware import Arithmetic, Device, Unknown

MEBI = 2**20


def at_hand(device: str) -> Device | Unknown:
    """What the table has on a device, by the name that its driver, or the system, gives it."""
    if device == "cpu":
        return hardware.identify(processor())
    card = torch.cuda.get_device_properties(device)
    return hardware.identify(card.name, card.total_memory)


def known(device: str) -> Device:
    """The same, where the table has it."""
    found = at_hand(device)
    if isinstance(found, Unknown):
        pytest.skip(f"the peaks of {found.name} are unknown: {found.reason}")
    return found


def peak(device: str, arithmetic: Arithmetic) -> Fraction:
    """FLOP/s of dense products that the maker states."""
    found = known(device).peak(arithmetic)
    if isinstance(found, Unknown):
        pytest.skip(f"a peak of {found.name} is unknown: {found.reason}")
    return Fraction(found.flops_per_second)


def speedup(device: str, fast: Arithmetic, slow: Arithmetic) -> float:
    """How many times as fast one arithmetic is as another, by their peaks."""
    return float(peak(device, fast) / peak(device, slow))


def pins_memory() -> bool:
    """Whether there is an accelerator for which memory of the host is pinned.

    Skips where that is MPS: what torch does there differs by release, from an error to memory of the device.
    """
    if not torch.accelerator.is_available():
        return False
    accelerator = torch.accelerator.current_accelerator()
    if accelerator is not None and accelerator.type == "mps":
        pytest.skip("what torch does when it is to pin memory for MPS differs by release")
    return True


APART = 8
"""Times that float16's peak is to be float32's, for large products to be sure to take a quarter of the time at most."""


def has_matrix_units(device: str) -> bool:
    """Whether a device has units for products of float16 matrices that far outpace those of float32 ones.

    Skips a card on which they do not, and a processor that has some.
    """
    if device != "cpu":
        apart = speedup(device, Arithmetic.FP16, Arithmetic.FP32)
        if apart < APART:
            pytest.skip(f"needs a card with a float16 peak of {APART} times float32's, not {apart:.1f} times")
        return True
    found = sorted({"amx_fp16", "sme"} & processor_flags())
    if found:
        pytest.skip(f"{processor()} has {' and '.join(found)}, and how fast torch is with it is not known")
    return False


def processor_flags() -> frozenset[str]:
    """What the system says that the processor can do; nothing where it does not say."""
    cpuinfo = Path("/proc/cpuinfo")
    told = cpuinfo.read_text(encoding="utf-8") if cpuinfo.exists() else ""
    return frozenset(re.findall(r"\w+", " ".join(re.findall(r"^(?:flags|Features)\s*:(.*)$", told, re.MULTILINE))))


def require(arithmetic: Arithmetic, device: str) -> None:
    """Skip where a device has no units for an arithmetic, or torch no dtype for it."""
    needed = {Arithmetic.FP8: (8, 9), Arithmetic.BF16: (8, 0), Arithmetic.TF32: (8, 0)}.get(arithmetic, (0, 0))
    if device != "cpu" and torch.cuda.get_device_capability(device) < needed:
        pytest.skip(f"needs compute capability {needed[0]}.{needed[1]} for {arithmetic.value}")
    if arithmetic is Arithmetic.FP8 and not hasattr(torch, "float8_e4m3fn"):
        pytest.skip(f"needs a release of torch with {arithmetic.value}")


def require_blocks() -> None:
    """Skip where torch's allocator for CUDA is not its own, or is told not to hand out blocks as it does by itself."""
    told = os.environ.get("PYTORCH_ALLOC_CONF", "") + os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")
    uncached = "PYTORCH_NO_CUDA_MEMORY_CACHING" in os.environ
    if torch.cuda.get_allocator_backend() != "native" or uncached or "roundup_power2_divisions" in told:
        pytest.skip("needs torch's own allocator for CUDA, without settings that change its blocks")


def require_room(nbytes: int, device: str) -> None:
    """Skip where so many bytes are not free on a CUDA device; what torch itself holds and does not use is free."""
    if device == "cpu":
        return
    index = torch.device(device).index or 0
    free, _ = torch.cuda.mem_get_info(index)
    free += torch.cuda.memory_reserved(index) - torch.cuda.memory_allocated(index)
    if free < nbytes:
        pytest.skip(f"needs {-(-nbytes // MEBI):,} MiB on the device, of which {free // MEBI:,} MiB are free")
