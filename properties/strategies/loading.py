"""Loading with worker processes: a data set whose items say what a worker drew for them."""

from __future__ import annotations

import random
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from hypothesis import strategies as st
from torch.utils.data import DataLoader, Dataset, get_worker_info

from properties.instruments.generators import Source, start, start_from_entropy
from properties.strategies.description import Description
from properties.strategies.draw_sequences import SEEDS
from properties.strategies.draws import any_of, between

WORKERS = 2


class Item(NamedTuple):
    """What a worker drew for one item, 64 bits each."""

    place: int
    worker: int
    torch: int
    numpy: int
    python: int
    started: int
    stored_torch: int
    stored_numpy: int
    stored_python: int
    entropy: int

    @property
    def follows_the_seed(self) -> tuple[int, ...]:
        """What came from the three global generators, and from one that the worker started by its own seed."""
        return self.torch, self.numpy, self.python, self.started

    @property
    def drawn_from_stored(self) -> tuple[int, ...]:
        """What came from the generators that the data set keeps."""
        return self.stored_torch, self.stored_numpy, self.stored_python


class Augmented(Dataset[Item]):
    """Items that are nothing but random numbers, from global generators and from those that the data set keeps."""

    def __init__(self, length: int, seed: int) -> None:
        self.length = length
        self.torch = torch.Generator().manual_seed(seed)
        self.numpy = np.random.default_rng(seed)
        self.python = random.Random(seed)
        self.started = np.random.default_rng(seed)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Item:
        info = get_worker_info()
        return Item(
            index,
            -1 if info is None else info.id,
            _bits_of_torch(None),
            int.from_bytes(np.random.bytes(8), "little"),
            random.getrandbits(64),
            int(self.started.integers(2**63)),
            _bits_of_torch(self.torch),
            int(self.numpy.integers(2**63)),
            self.python.getrandbits(64),
            int(np.random.default_rng().integers(2**63)),
        )


def _start_own(worker: int) -> None:
    info = get_worker_info()
    if info is None or not isinstance(info.dataset, Augmented) or info.id != worker:
        raise RuntimeError("this is called in a worker, with its number")
    info.dataset.started = np.random.default_rng(torch.initial_seed())


def _bits_of_torch(generator: torch.Generator | None) -> int:
    low, high = torch.randint(2**32, (2,), generator=generator).tolist()
    return int(low) << 32 | int(high)


@dataclass(frozen=True, repr=False)
class Loading(Description):
    """A data set read twice by two workers, in batches of ``batch`` items, two batches a worker."""

    seed: int
    batch: int = 1
    persistent: bool = False
    shuffle: bool = False

    def epochs(self) -> list[list[Item]]:
        """The items of two epochs: torch is seeded, and NumPy and Python's random start somewhere else each time."""
        start_from_entropy()
        start(Source.TORCH, self.seed)
        data = Augmented(2 * WORKERS * self.batch, self.seed)
        with warnings.catch_warnings():
            # A machine with one core finds two workers too many, and Python a fork beside threads.
            warnings.filterwarnings("ignore", "This DataLoader will create", UserWarning)
            warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)
            loader: DataLoader[Any] = DataLoader(
                data,
                batch_size=self.batch,
                shuffle=self.shuffle,
                num_workers=WORKERS,
                persistent_workers=self.persistent,
                collate_fn=list,
                worker_init_fn=_start_own,
                multiprocessing_context="fork",
                timeout=30,
            )
            epochs = [[item for batch in loader for item in batch] for _ in range(2)]
            _end_workers(loader)
        return epochs

    def inherited_numbers(self) -> tuple[int, ...]:
        """What the generators that the data set keeps would give to the first worker, without any worker."""
        data = Augmented(1, self.seed)
        return data[0].drawn_from_stored


@dataclass(frozen=True, repr=False)
class Epochs(Description):
    """Items in batches of ``batch``, shuffled after a seed of torch's or of a generator of the loader's own."""

    items: int
    batch: int
    drop_last: bool = False
    own: bool = False

    def read(self, seed: int, count: int = 3) -> list[list[list[int]]]:
        """The batches of a few epochs; where the loader has a generator of its own, torch's starts anywhere."""
        start_from_entropy()
        generator = torch.Generator().manual_seed(seed) if self.own else None
        if not self.own:
            start(Source.TORCH, seed)
        loader: DataLoader[Any] = DataLoader(
            range(self.items),  # type: ignore[arg-type]
            self.batch,
            shuffle=True,
            drop_last=self.drop_last,
            generator=generator,
            collate_fn=list,
        )
        return [list(loader) for _ in range(count)]

    @property
    def lengths(self) -> list[int]:
        """How long each batch of an epoch is."""
        rest = self.items % self.batch
        return [self.batch] * (self.items // self.batch) + [rest] * (rest > 0 and not self.drop_last)


def _end_workers(loader: DataLoader[Any]) -> None:
    iterator = loader._iterator
    if iterator is not None:
        iterator._shutdown_workers()  # type: ignore[attr-defined]
        loader._iterator = None


def of_worker(items: list[Item], worker: int) -> list[Item]:
    """The items that one worker read, in the order in which it read them."""
    return [item for item in items if item.worker == worker]


loadings = st.builds(
    Loading, SEEDS, batch=between(1, 3), persistent=any_of((False, True)), shuffle=any_of((False, True))
)
epochs = st.builds(Epochs, between(32, 48), between(3, 20), any_of((False, True)), any_of((False, True)))
"""So many items that two orders of them hardly coincide."""
