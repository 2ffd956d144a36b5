"""A mutant: a deliberate, reversible change to the world under which named claims must be contradicted."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
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


REGISTRY: dict[str, Mutant] = {}


def mutant(
    name: str, *, breaks: tuple[str, ...], properties: tuple[str, ...] = ()
) -> Callable[[Callable[[], Iterator[None]]], Callable[[], AbstractContextManager[None]]]:
    """Register a generator function as the mutant ``name``; its docstring says in a sentence what is wrong.

    ``breaks`` names the claims that must be contradicted, and ``properties`` the test functions that it is made for
    where it is not made for all of theirs.
    """

    def decorate(function: Callable[[], Iterator[None]]) -> Callable[[], AbstractContextManager[None]]:
        if name in REGISTRY:
            raise MisuseError(f"two mutants are named {name}")
        world = contextmanager(function)
        sentence = " ".join((function.__doc__ or "").split())
        if not sentence:
            raise MisuseError(f"the mutant {name} does not say what is wrong: give it a docstring")
        REGISTRY[name] = Mutant(name, sentence, breaks, world, properties)
        return world

    return decorate


@contextmanager
def patched(owner: Any, name: str, replacement: Any) -> Iterator[Any]:
    """Replace an attribute and yield what it was; put it back afterwards, also on error."""
    absent = object()
    own = vars(owner).get(name, absent) if hasattr(owner, "__dict__") else getattr(owner, name)
    original = getattr(owner, name)
    setattr(owner, name, replacement)
    try:
        yield original
    finally:
        if own is absent:
            delattr(owner, name)
        else:
            setattr(owner, name, own)


def load() -> dict[str, Mutant]:
    """Import every module of mutants, and return all there are by name."""
    for module in pkgutil.iter_modules(properties.mutants.__path__):
        if not module.name.startswith("__"):
            importlib.import_module(f"properties.mutants.{module.name}")
    return REGISTRY
