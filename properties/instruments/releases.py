"""Which release of torch is installed, where what it does differs from release to release."""

from __future__ import annotations

import re

import torch

LOOKED_AT = (2, 13)
"""The last release of which it is known what it does; a later one is asked, or may have mended it."""


def of_torch(release: str = torch.__version__) -> tuple[int, int]:
    """The first two numbers of a release; those of one under development are beyond all others, since it may be any."""
    found = re.match(r"(\d+)\.(\d+)\.\d+(?:\+|$)", release)
    return (int(found[1]), int(found[2])) if found else (99, 0)


def looked_at(release: str = torch.__version__) -> bool:
    """Whether it is known of a release what it does."""
    return of_torch(release) <= LOOKED_AT
