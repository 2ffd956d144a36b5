"""Which release of torch is installed, where what it does differs from release to release."""

from __future__ import annotations

import re

import torch

LOOKED_AT = (2, 13)
"""The last release of which it is known what it does; a later one is asked, or may have mended it."""


def of_torch(release: str = torch.__version__) -> tuple[int, int]:
    """The first two numbers of a release, or of the one that is being developed."""
    major, minor = re.findall(r"\d+", release)[:2]
    return int(major), int(minor)


def looked_at(release: str = torch.__version__) -> bool:
    """Whether it is known of a release what it does; of one under development it is not, whatever its numbers are."""
    return re.match(r"\d+\.\d+\.\d+(?:\+|$)", release) is not None and of_torch(release) <= LOOKED_AT
