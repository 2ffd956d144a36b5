"""The base of everything a strategy draws: a small frozen value that can build and explain itself."""

from __future__ import annotations

import dataclasses
from typing import Protocol, runtime_checkable


@runtime_checkable
class PrettyPrinter(Protocol):
    """The part of Hypothesis's printer that is used here."""

    def text(self, text: str) -> None:
        """Write ``text``."""


class Description:
    """A frozen dataclass that holds no tensor and builds one.

    Subclasses are declared with ``@dataclass(frozen=True, repr=False)``. Where a subclass defines ``expression()``, its
    repr is that expression, which pastes into a Python prompt; elsewhere it is the constructor call.
    """

    def expression(self) -> str:
        """An expression that pastes and gives what ``build()`` gives; the constructor call unless overridden."""
        return self.constructor()

    def constructor(self) -> str:
        """The call that makes this description again."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        values = (f"{field.name}={source(getattr(self, field.name))}" for field in fields)
        return f"{type(self).__name__}({', '.join(values)})"

    def __repr__(self) -> str:
        return self.expression()

    def _repr_pretty_(self, printer: PrettyPrinter, cycle: bool) -> None:
        printer.text(repr(self))


def source(value: object) -> str:
    """A Python expression for a drawn value: descriptions as constructor calls, everything else by its repr."""
    if isinstance(value, Description):
        return value.constructor()
    if isinstance(value, tuple):
        inner = ", ".join(source(item) for item in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, list):
        return f"[{', '.join(source(item) for item in value)}]"
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return f"float('{value}')"
    return repr(value)
