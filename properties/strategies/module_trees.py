"""Trees of modules: parameters, buffers and plain tensors under names, some of them under two."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from random import Random
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from properties.strategies.description import Description
from reference.strided import Shape


class Role(Enum):
    """What an entry of a module is."""

    PARAMETER = "a parameter of its own"
    FROZEN = "a parameter that is not trained"
    WINDOW = "a parameter that is the first row of a longer tensor"
    TIED = "the parameter that was made last, once more; nothing where there is none"
    BUFFER = "a buffer"
    UNSAVED_BUFFER = "a buffer that is not part of the state"
    PLAIN = "a tensor as an attribute"

    def __repr__(self) -> str:
        return f"Role.{self.name}"


PARAMETERS = frozenset({Role.PARAMETER, Role.FROZEN, Role.WINDOW, Role.TIED})


@dataclass(frozen=True, repr=False)
class Entry(Description):
    """A tensor of a module."""

    role: Role
    shape: Shape
    dtype: torch.dtype = torch.float32


@dataclass(frozen=True)
class Named:
    """An entry under its full name; ``identity`` is equal for one tensor under two names."""

    name: str
    entry: Entry
    identity: int

    @property
    def numbers(self) -> int:
        """How many numbers the tensor has."""
        return math.prod(self.entry.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of its numbers."""
        return self.numbers * self.entry.dtype.itemsize


class WithExtra(nn.Module):
    """A module that adds something to its state that is no tensor."""

    def get_extra_state(self) -> dict[str, str]:
        """A remark."""
        return {"remark": "no tensor"}


@dataclass(frozen=True, repr=False)
class Tree(Description):
    """A module: its entries, and the modules under it; with ``twice`` the first of those has two names."""

    entries: tuple[Entry, ...]
    children: tuple[Tree, ...] = ()
    twice: bool = False
    extra: bool = False

    def build(self) -> nn.Module:
        """The module."""
        return self._build([])

    def _build(self, made: list[nn.Parameter]) -> nn.Module:
        module = WithExtra() if self.extra else nn.Module()
        for place, entry in enumerate(self.entries):
            name = f"{entry.role.name.lower()}_{place}"
            if entry.role is Role.TIED:
                if made:
                    module.register_parameter(name, made[-1])
            elif entry.role in PARAMETERS:
                made.append(_parameter(entry))
                module.register_parameter(name, made[-1])
            elif entry.role is Role.PLAIN:
                setattr(module, name, _numbers(entry))
            else:
                module.register_buffer(name, _numbers(entry), persistent=entry.role is Role.BUFFER)
        built = [child._build(made) for child in self.children]
        for place, child in enumerate(built):
            module.add_module(f"child_{place}", child)
        if self.twice and built:
            module.add_module("again", built[0])
        return module

    def walk(self) -> list[Named]:
        """Every entry under each of its names; entries of a module that stands there twice come twice."""
        made: list[tuple[Entry, int]] = []
        return list(self._walk("", made, [0]))

    def _walk(self, prefix: str, made: list[tuple[Entry, int]], count: list[int]) -> Iterator[Named]:
        for place, entry in enumerate(self.entries):
            name = f"{prefix}{entry.role.name.lower()}_{place}"
            if entry.role is Role.TIED:
                if made:
                    yield Named(name, *made[-1])
                continue
            count[0] += 1
            if entry.role in PARAMETERS:
                made.append((entry, count[0]))
            yield Named(name, entry, count[0])
        below = [list(child._walk(f"{prefix}child_{place}.", made, count)) for place, child in enumerate(self.children)]
        yield from itertools.chain.from_iterable(below)
        if self.twice and below:
            for named in below[0]:
                tail = named.name.removeprefix(f"{prefix}child_0.")
                yield Named(f"{prefix}again.{tail}", named.entry, named.identity)

    def parameters(self) -> list[Named]:
        """The parameters, each once."""
        once = {named.identity: named for named in self.walk() if named.entry.role in PARAMETERS}
        return list(once.values())

    def state(self) -> dict[str, int]:
        """What the state has under each name: parameters and the buffers that are part of it, and their numbers."""
        saved = PARAMETERS | {Role.BUFFER}
        return {named.name: named.numbers for named in self.walk() if named.entry.role in saved}

    def extras(self) -> int:
        """How many names there are of modules that add something of their own."""
        below = [child.extras() for child in self.children]
        return self.extra + sum(below) + (below[0] if self.twice and below else 0)

    @property
    def is_plain(self) -> bool:
        """Whether the state has every parameter under one name, and nothing else."""
        names = [named.identity for named in self.walk() if named.entry.role in PARAMETERS]
        buffers = any(named.entry.role is Role.BUFFER for named in self.walk())
        return len(names) == len(set(names)) and not buffers and not self.extras()


def _numbers(entry: Entry) -> Tensor:
    return torch.zeros(entry.shape, dtype=entry.dtype)


def _parameter(entry: Entry) -> nn.Parameter:
    if entry.role is Role.WINDOW:
        longer: Any = torch.zeros(2, *entry.shape, dtype=entry.dtype)
        return nn.Parameter(longer[0])
    return nn.Parameter(_numbers(entry), requires_grad=entry.role is Role.PARAMETER)


_SHAPES = ((), (0,), (1,), (3,), (5,), (0, 2), (1, 4), (2, 3), (5, 5), (2, 3, 4))
_FORMATS = (torch.float32, torch.bfloat16, torch.float64)
_PLAIN = (Role.PARAMETER, Role.FROZEN, Role.UNSAVED_BUFFER, Role.PLAIN)
_WITHOUT_WINDOWS = tuple(role for role in Role if role is not Role.WINDOW)


@cache
def _some_entries(roles: tuple[Role, ...]) -> tuple[tuple[Entry, ...], ...]:
    """A thousand modules' entries, one to three each; one draw of these is cheaper than many, and discards none."""
    every = [Entry(*each) for each in itertools.product(roles, _SHAPES, _FORMATS)]
    chance = Random(0)
    found = [tuple(chance.choices(every, k=chance.randint(1, 3))) for _ in range(1000)]
    return tuple(sorted(found, key=lambda entries: (len(entries), sum(math.prod(each.shape) for each in entries))))


def _entries(roles: tuple[Role, ...]) -> st.SearchStrategy[tuple[Entry, ...]]:
    return st.deferred(lambda: st.sampled_from(_some_entries(roles)))


def _up_to_two(below: st.SearchStrategy[Tree]) -> st.SearchStrategy[tuple[Tree, ...]]:
    return st.one_of(st.just(()), st.tuples(below), st.tuples(below, below))


@cache
def trees(roles: tuple[Role, ...] = _WITHOUT_WINDOWS, depth: int = 2) -> st.SearchStrategy[Tree]:
    """Up to three entries of a module and up to two modules under it, ``depth`` times over; all may come twice."""
    below = _up_to_two(trees(roles, depth - 1)) if depth else st.just(())
    return st.builds(Tree, _entries(roles), below, st.booleans(), st.booleans())


@cache
def plain_trees(depth: int = 2) -> st.SearchStrategy[Tree]:
    """Modules with parameters, and with what is not part of the state."""
    return st.builds(Tree, _entries(_PLAIN), _up_to_two(plain_trees(depth - 1)) if depth else st.just(()))


_WINDOWS = tuple(Entry(Role.WINDOW, shape, dtype) for shape in _SHAPES if 0 not in shape for dtype in _FORMATS)


@st.composite
def windowed_trees(draw: st.DrawFn) -> Tree:
    """Modules with a parameter that lies in a longer tensor."""
    tree = draw(trees())
    return replace(tree, entries=(draw(st.sampled_from(_WINDOWS)), *tree.entries))


# ── where parameters are looked for ──

WIDTH = 3
FOUND: dict[str, Callable[[nn.Parameter], Any]] = {
    "an attribute": lambda parameter: parameter,
    "nn.ParameterList": lambda parameter: nn.ParameterList([parameter]),
    "nn.ParameterDict": lambda parameter: nn.ParameterDict({"weight": parameter}),
    "nn.ModuleList": lambda parameter: nn.ModuleList([nn.ParameterList([parameter])]),
    "nn.ModuleDict": lambda parameter: nn.ModuleDict({"layer": nn.ParameterList([parameter])}),
    "nn.Sequential": lambda parameter: nn.Sequential(nn.ParameterList([parameter])),
}
"""Ways to keep a parameter in a module, by their name, in which it is found."""
HIDDEN: dict[str, Callable[[nn.Parameter], Any]] = {
    "a list": lambda parameter: [parameter],
    "a tuple of layers": lambda parameter: (nn.ParameterList([parameter]),),
    "a dictionary of layers": lambda parameter: {"layer": nn.ParameterList([parameter])},
}
"""Ways in which it is not."""


def numbers_found(keep: Callable[[nn.Parameter], Any]) -> tuple[int, int]:
    """How many numbers a module's parameters and its state have, of a parameter of WIDTH that is kept in some way."""
    module = nn.Module()
    module.kept = keep(nn.Parameter(torch.zeros(WIDTH)))
    state: Any = module.state_dict()
    return sum(each.numel() for each in module.parameters()), sum(each.numel() for each in state.values())
