"""The process that properties run in: torch's generator in Hypothesis's hands, one thread, and every warning."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import torch
from hypothesis import register_random

from properties import levels
from properties.levels import Level

_torch_generator: Any = None


class TorchGenerator:
    """torch's generator in the form in which Hypothesis manages generators: seeded for each case, put back after."""

    def seed(self, value: int) -> None:
        """Seed the default generator, and those of the devices in use."""
        torch.default_generator.manual_seed(value)
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.manual_seed_all(value)

    def getstate(self) -> Any:
        """The default generator's state, and those of the devices in use."""
        initialised = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        cuda = torch.cuda.get_rng_state_all() if initialised else []
        return torch.default_generator.get_state(), cuda

    def setstate(self, state: Any) -> None:
        """Put a state back."""
        default, cuda = state
        torch.default_generator.set_state(default)
        if cuda:
            torch.cuda.set_rng_state_all(cuda)


def prepare() -> None:
    """Once a process: generators in Hypothesis's hands, one thread, and warnings that do not depend on order."""
    global _torch_generator
    if _torch_generator is None:
        held = [TorchGenerator()]  # Hypothesis asks who holds it, and does not see what is kept out of collections
        register_random(held[0])
        _torch_generator = held[0]
    torch.set_num_threads(1)
    torch.set_warn_always(True)


def judge_in(root: Path, level: Level) -> None:
    """Once a process that judges properties of a checkout without pytest: its level, its generators, its warnings."""
    levels.register_profiles(root / "build" / "hypothesis")
    levels.load(level)
    prepare()


def settle() -> None:
    """Once everything is imported: keep what is there out of later garbage collections, which would walk all of it.

    Torch, the specification and the tests are hundreds of thousands of objects, and none of them ends before the run.
    """
    gc.collect()
    gc.freeze()
