"""Whether a call is refused: an error as an outcome that a property can compare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def refused(
    error: type[Exception] | tuple[type[Exception], ...],
    call: Callable[..., Any],
    *arguments: Any,
    **keywords: Any,
) -> bool:
    """Whether the call raises ``error``. Every other exception passes through: it is no answer."""
    try:
        call(*arguments, **keywords)
    except error:
        return True
    return False
