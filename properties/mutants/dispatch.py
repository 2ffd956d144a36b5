"""Changing operators below torch's Python surface, where every spelling of an operation comes through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from properties.instruments.modes import Mode


class Below(Mode):  # type: ignore[no-untyped-call]
    """A world in which ``change`` stands in for some operators, in all their overloads.

    It is given a call that does what torch does, and the operator's arguments.
    """

    def __init__(self, change: Callable[..., Any], *operators: Any) -> None:
        super().__init__()
        self.change = change
        self.operators = operators

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        keywords = kwargs or {}
        if func.overloadpacket not in self.operators:
            return func(*args, **keywords)
        return self.change(lambda: func(*args, **keywords), *args, **keywords)
