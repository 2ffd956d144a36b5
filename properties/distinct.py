"""Telling generated cases apart by value: a key for each, or a refusal."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from operator import attrgetter
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np

SEED = "seed"
"""Parameters and fields of this name do not make cases distinct, unless randomness is the claim."""

_PLAIN = {type(None), bool, bytes, Fraction, range, type, type(Ellipsis)}
_NAMED = (Enum, ModuleType, type, np.dtype)


class IdentityError(TypeError):
    """A drawn value that can only be told from others by its identity."""


def fingerprint(arguments: Mapping[str, object], seeds_count: bool) -> object:
    """A hashable key of one case; equal keys are the same case.

    Types count (True is not 1) and so does the sign of zero. Raises IdentityError for a value that is compared by
    identity, such as a tensor: draw a frozen description and build in the property instead.
    """
    return tuple([_key(value, seeds_count) for name, value in arguments.items() if seeds_count or name != SEED])


def _key(value: object, seeds_count: bool) -> object:
    kind = value.__class__
    if kind is int or kind is str:
        return value
    if kind in _PLAIN:
        return kind, value
    if kind is float:
        return float, struct.pack("<d", value)
    if kind is complex:
        return complex, struct.pack("<dd", value.real, value.imag)  # type: ignore[attr-defined]
    if kind is tuple or kind is list:
        items: Any = value
        return kind, tuple([item if item.__class__ is int else _key(item, seeds_count) for item in items])
    fields = _fields.get(kind)
    if fields is None:
        fields = _fields[kind] = _frozen_fields(kind)
    if fields:
        return kind, tuple([_key(read(value), seeds_count) for name, read in fields if seeds_count or name != SEED])
    special = _special(value)
    if special is None:
        raise IdentityError(
            f"{value!r:.80} ({kind.__module__}.{kind.__qualname__}) is told apart by identity only;"
            " draw a frozen description and build it in the property"
        )
    return kind, special(value, seeds_count)


_fields: dict[type, tuple[tuple[str, Callable[[Any], Any]], ...]] = {}


def _frozen_fields(kind: type) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    if not dataclasses.is_dataclass(kind):
        return ()
    parameters = kind.__dataclass_params__  # type: ignore[attr-defined]
    if not (parameters.frozen and parameters.eq):
        return ()
    names = [each.name for each in dataclasses.fields(kind)] or ["__class__"]
    return tuple((name, attrgetter(name)) for name in names)


def _special(value: object) -> Callable[[object, bool], object] | None:
    kind = type(value)
    if isinstance(value, _NAMED) or (kind.__module__ == "torch" and kind.__name__ in ("dtype", "device", "layout")):
        return lambda each, _: each
    if isinstance(value, (BuiltinFunctionType, FunctionType)):
        return (lambda each, _: each) if _is_module_level(value) else None
    if isinstance(value, Decimal):
        return lambda each, _: str(each)  # the sign of zero and the exponent count
    if isinstance(value, slice):
        return lambda each, seeds: tuple(_key(part, seeds) for part in (each.start, each.stop, each.step))  # type: ignore[attr-defined]
    if isinstance(value, (frozenset, set)):
        return lambda each, seeds: frozenset(_key(item, seeds) for item in each)  # type: ignore[attr-defined]
    if isinstance(value, dict):
        return lambda each, seeds: tuple((_key(k, seeds), _key(v, seeds)) for k, v in each.items())  # type: ignore[attr-defined]
    if isinstance(value, np.generic):
        return lambda each, _: (each.dtype, each.tobytes())  # type: ignore[attr-defined]
    if isinstance(value, tuple):
        return lambda each, seeds: tuple(_key(item, seeds) for item in each)  # type: ignore[attr-defined]
    return None


def _is_module_level(function: BuiltinFunctionType | FunctionType) -> bool:
    """Whether a function is the same object whenever it is named, not one made anew for a case."""
    owner = getattr(function, "__self__", None)
    return "<" not in function.__qualname__ and (owner is None or isinstance(owner, (ModuleType, type)))
