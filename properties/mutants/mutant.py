"""A mutant: a deliberate, reversible change to the world under which named claims must be contradicted."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import properties.mutants
from properties.claims import MisuseError


@dataclass(frozen=True)
class Mutant:
    """A way for the world to be wrong, and the claims that must notice."""

    name: str
    sentence: str
    breaks: tuple[str, ...]
    world: Callable[[], AbstractContextManager[None]]
    properties: tuple[str, ...] = ()
    """Names of the properties made for it; all properties of its claims where empty."""
    changes: str = ""
    """What it stands for where it can only replace something of ours: "file", "clock", "arithmetic"."""

    def is_ours(self) -> bool:
        """Whether its world, in which this has to be asked, is another one only by our own code."""
        return not self.changes and bool(_replaced) and OURS.issuperset(_replaced)


REGISTRY: dict[str, Mutant] = {}
OURS = frozenset({"properties", "reference", "spec"})
"""Our packages. A mutant that changes nothing else shows what a property compares, not what it looks at."""
_replaced: list[str] = []
"""The package of each object that is patched at the moment."""


def mutant(
    name: str, *, breaks: tuple[str, ...], properties: tuple[str, ...] = (), changes: str = ""
) -> Callable[[Callable[[], Iterator[None]]], Callable[[], AbstractContextManager[None]]]:
    """Register a generator function as the mutant ``name``; its docstring says in a sentence what is wrong.

    ``breaks`` names the claims that must be contradicted, and ``properties`` the test functions that it is made for
    where it is not made for all of theirs. ``changes`` says what it stands for where it can only replace something of
    ours: the file, the clock, or a claim that is arithmetic and nothing else.
    """

    def decorate(function: Callable[[], Iterator[None]]) -> Callable[[], AbstractContextManager[None]]:
        if name in REGISTRY:
            raise MisuseError(f"two mutants are named {name}")
        world = contextmanager(function)
        sentence = " ".join((function.__doc__ or "").split())
        if not sentence:
            raise MisuseError(f"the mutant {name} does not say what is wrong: give it a docstring")
        REGISTRY[name] = Mutant(name, sentence, breaks, world, properties, changes)
        return world

    return decorate


@contextmanager
def patched(owner: Any, name: str, replacement: Any) -> Iterator[Any]:
    """Replace an attribute and yield what it was; put it back afterwards, also on error."""
    absent = object()
    own = vars(owner).get(name, absent) if hasattr(owner, "__dict__") else getattr(owner, name)
    original = getattr(owner, name)
    setattr(owner, name, replacement)
    _replaced.append(_package(owner))
    try:
        yield original
    finally:
        _replaced.pop()
        if own is absent:
            delattr(owner, name)
        else:
            setattr(owner, name, own)


def _package(owner: Any) -> str:
    """The package that a module, a class or an instance belongs to."""
    module = owner.__name__ if isinstance(owner, ModuleType) else getattr(owner, "__module__", "")
    return str(module).partition(".")[0]


def load() -> dict[str, Mutant]:
    """Import every module of mutants, and return all there are by name."""
    for module in pkgutil.iter_modules(properties.mutants.__path__):
        if not module.name.startswith("__"):
            importlib.import_module(f"properties.mutants.{module.name}")
    return REGISTRY
