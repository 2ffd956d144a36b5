"""The three global generators of a program: their states, their seeds, and which of them a call moves."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).parents[2]


class Source(Enum):
    """A global generator, by the library that has it."""

    TORCH = "torch"
    NUMPY = "NumPy"
    PYTHON = "Python"

    def __repr__(self) -> str:
        return f"Source.{self.name}"


def state(source: Source) -> object:
    """The state of a generator, comparable by value."""
    if source is Source.TORCH:
        return torch.get_rng_state().numpy().tobytes()
    if source is Source.NUMPY:
        _, keys, *rest = np.random.get_state(legacy=True)
        return np.asarray(keys).tobytes(), *rest
    return random.getstate()


def moved_by(call: Callable[..., object], *arguments: Any) -> frozenset[Source]:
    """The generators whose state is another after ``call``."""
    before = [state(source) for source in Source]
    call(*arguments)
    return frozenset(source for source, was in zip(Source, before, strict=True) if state(source) != was)


def start(source: Source, seed: int) -> None:
    """Seed one generator as its library says. An error of the library passes through."""
    if source is Source.TORCH:
        torch.manual_seed(seed)
    elif source is Source.NUMPY:
        np.random.seed(seed)
    else:
        random.seed(seed)


def start_all(seed: int) -> None:
    """Seed the three generators with one number.

    torch's is seeded without torch.manual_seed, which looks for devices first and takes a hundred times as long.
    """
    torch.default_generator.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)


def start_from_entropy() -> None:
    """Start the three generators where nobody asked for, as a fresh process does."""
    torch.default_generator.seed()
    np.random.seed()
    random.seed()


States = tuple[Any, Any, Any]


def states() -> States:
    """The three states, in the form in which they can be put back."""
    return torch.get_rng_state(), np.random.get_state(), random.getstate()


def put_back(before: States) -> None:
    """Take the three generators back to where ``states`` found them."""
    torch.set_rng_state(before[0])
    np.random.set_state(before[1])
    random.setstate(before[2])


@contextmanager
def unseeded() -> Iterator[None]:
    """The three generators unseeded within, and put back afterwards."""
    before = states()
    try:
        start_from_entropy()
        yield
    finally:
        put_back(before)


def after(seed: int, call: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """What a call gives once the three generators are seeded."""
    start_all(seed)
    return call(*arguments, **keywords)


def after_torchs_seed(seed: int, call: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """What a call gives after torch.manual_seed, which seeds all devices."""
    torch.manual_seed(seed)
    return call(*arguments, **keywords)


def torch_state_after(seed: int, call: Callable[..., Any], *arguments: Any, **keywords: Any) -> object:
    """The state in which a call leaves torch's generator once it is seeded."""
    after(seed, call, *arguments, **keywords)
    return state(Source.TORCH)


def sums_on_cuda(seed: int, rows: int, repeats: int) -> set[bytes]:
    """The different results, bit for bit, of adding up a million numbers into ``rows`` sums on a GPU, in two ways."""
    generator = torch.Generator("cuda").manual_seed(seed)
    numbers_ = torch.randn(2**20, device="cuda", generator=generator)
    index = torch.randint(rows, (2**20,), device="cuda", generator=generator)
    sums = []
    for _ in range(repeats):
        added = torch.zeros(rows, device="cuda").index_add_(0, index, numbers_)
        scattered = torch.zeros(rows, device="cuda").scatter_add_(0, index, numbers_)
        sums.append(torch.cat([added, scattered]).cpu().numpy().tobytes())
    return set(sums)


def numbers(source: Source, count: int = 8) -> tuple[int, ...]:
    """The lowest 16 bits of the next ``count`` words of a generator, by a public call of its library."""
    if source is Source.TORCH:
        return tuple(torch.randint(0, 2**16, (count,)).tolist())
    if source is Source.NUMPY:
        return tuple(np.random.randint(0, 2**16, count).tolist())
    return tuple(random.getrandbits(32) & 0xFFFF for _ in range(count))


def numbers_or_none(source: Source, seed: int, count: int = 8) -> tuple[int, ...] | None:
    """The ``numbers`` that follow a seed, or None where the library refuses it."""
    try:
        return numbers_after(source, seed, count)
    except (ValueError, RuntimeError):  # torch says the one or the other
        return None


def tells_apart(one: int, other: int) -> bool:
    """Whether all three libraries take both seeds, and each gives other numbers after the other."""
    pairs = [(numbers_or_none(source, one), numbers_or_none(source, other)) for source in Source]
    return all(a is not None and b is not None and a != b for a, b in pairs)


def numbers_after(source: Source, seed: int, count: int = 8) -> tuple[int, ...]:
    """The ``numbers`` that follow a seed."""
    start(source, seed)
    return numbers(source, count)


FRESH = """
import json
import torch
from properties.instruments.generators import Source, numbers_after
print(json.dumps({{
    "numbers": [numbers_after(source, {seed}, 64) for source in Source],
    "normal": torch.randn(64, generator=torch.manual_seed({seed})).tolist(),
    "own": torch.Generator().initial_seed(),
}}))
"""


def in_a_fresh_process(seed: int) -> dict[str, Any]:
    """What a process of its own says: the numbers after a seed, and the seed of a torch.Generator that got none.

    Raises subprocess.CalledProcessError where the process fails.
    """
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", FRESH.format(seed=seed)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=50, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@contextmanager
def deterministic_algorithms(fills: bool) -> Iterator[None]:
    """torch's deterministic algorithms within; ``fills`` is its own switch for memory that nobody has written."""
    filling: Any = torch.utils.deterministic
    before = torch.get_deterministic_debug_mode(), filling.fill_uninitialized_memory
    torch.set_deterministic_debug_mode("error")
    filling.fill_uninitialized_memory = fills
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(before[0])
        filling.fill_uninitialized_memory = before[1]


def hash_in_a_fresh_process(text: str) -> int:
    """What a process of its own hashes a string to, with Python's random module seeded first."""
    script = f"import random; random.seed(0); print(hash({text!r}))"
    environment = os.environ | {"PYTHONHASHSEED": "random"}
    command = [sys.executable, "-S", "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=50, check=True)
    return int(done.stdout)
