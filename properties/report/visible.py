"""Text that could mislead, made visible."""

from __future__ import annotations

import re

# Control characters, lone surrogates, noncharacters, and the marks that turn the direction of text around.
_MISLEADING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)


def visible(text: str) -> str:
    """``text`` with every character that a page would drop or obey written as its escape."""
    return _MISLEADING.sub(lambda match: match[0].encode("unicode_escape", "backslashreplace").decode(), text)
