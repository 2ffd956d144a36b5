"""Batches as a loader makes them: containers in containers, with tensors or with things that can be pinned inside."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import torch
from hypothesis import strategies as st
from torch import Tensor

from properties.strategies.description import Description

# ── containers ──


class Pair(NamedTuple):
    """A named tuple."""

    first: Any
    second: Any


class TaggedDict(dict[str, Any]):
    """A dictionary that makes its own keys and carries something more."""

    def __init__(self, items: dict[str, Any]) -> None:
        super().__init__({f"field {key}": value for key, value in items.items()})
        self.tag = "kept"


class TaggedList(list[Any]):
    """A list that carries something more."""

    tag = "kept"


class Container(Enum):
    """What holds the parts of a batch."""

    LIST = "a list"
    TUPLE = "a tuple"
    NAMED_TUPLE = "a named tuple of two"
    DICT = "a dictionary"
    OWN_DICT = "a dictionary of a class of its own"
    OWN_LIST = "a list of a class of its own"

    def __repr__(self) -> str:
        return f"Container.{self.name}"

    def hold(self, parts: list[Any]) -> Any:
        """The container with these parts."""
        if self is Container.NAMED_TUPLE:
            return Pair(parts[0], parts[-1])
        if self in (Container.DICT, Container.OWN_DICT):
            named = {str(place): part for place, part in enumerate(parts)}
            return named if self is Container.DICT else TaggedDict(named)
        return {Container.LIST: list, Container.TUPLE: tuple, Container.OWN_LIST: TaggedList}[self](parts)


# ── what they hold ──


@dataclass(frozen=True)
class Pinned:
    """What a pinnable thing turns into."""

    number: int


@dataclass(frozen=True)
class Pinnable:
    """A thing of one's own that says how it is pinned."""

    number: int

    def pin_memory(self) -> Pinned:
        """What a loader calls."""
        return Pinned(self.number)


@dataclass(frozen=True, repr=False)
class Part(Description):
    """A number: bare, as text, or in a thing that can be pinned."""

    kind: type
    number: int

    def build(self) -> Any:
        """The thing."""
        return self.kind(self.number)

    def constructor(self) -> str:
        return f"Part({self.kind.__name__}, {self.number})"


@dataclass(frozen=True, repr=False)
class Batch(Description):
    """A container and its parts."""

    container: Container
    parts: tuple[Batch | Part, ...]

    def build(self) -> Any:
        """The batch."""
        return self.container.hold([part.build() for part in self.parts])

    def pinned(self) -> Any:
        """The batch as it is to be after pinning: every thing that can be pinned is, and nothing else has changed."""
        parts = [
            part.pinned() if isinstance(part, Batch) else Pinned(part.number) if part.kind is Pinnable else part.build()
            for part in self.parts
        ]
        return self.container.hold(parts)


def types(batch: Any) -> Any:
    """The types of a batch and of everything in it, with what its containers carry beside their parts."""
    if isinstance(batch, dict):
        inside: Any = [types(each) for each in batch.values()]
    elif isinstance(batch, (list, tuple)):
        inside = [types(each) for each in batch]
    else:
        return type(batch)
    return type(batch), getattr(batch, "tag", None), inside


_PARTS = st.builds(Part, st.sampled_from((Pinnable, int, str)), st.integers(0, 9))
_CONTAINERS = st.sampled_from(Container)


def _batches(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Batch]:
    return st.builds(Batch, _CONTAINERS, st.lists(parts, min_size=1, max_size=3).map(tuple))


batches = _batches(st.one_of(_PARTS, _batches(_PARTS)))
"""Containers with up to three parts, which may be containers again."""


# ── samples for a loader ──


@dataclass(frozen=True, repr=False)
class Samples(Description):
    """``count`` samples, each a container of tensors of these lengths, for batches of ``batch``."""

    container: Container
    lengths: tuple[int, ...]
    count: int
    batch: int

    def build(self) -> list[Any]:
        """The samples."""
        return [
            self.container.hold([torch.full((n,), float(place)) for n in self.lengths]) for place in range(self.count)
        ]


def tensors(batch: Any) -> Iterator[Tensor]:
    """Every tensor of a batch."""
    if isinstance(batch, Tensor):
        yield batch
    elif isinstance(batch, (dict, list, tuple)):
        for each in batch.values() if isinstance(batch, dict) else batch:
            yield from tensors(each)


samples = st.builds(
    Samples,
    st.sampled_from((Container.LIST, Container.TUPLE, Container.NAMED_TUPLE, Container.DICT)),
    st.sampled_from([each for count in (1, 2, 3) for each in itertools.product(range(5), repeat=count)]),
    st.integers(1, 6),
    st.integers(1, 3),
)
"""Containers that the default collation knows."""
