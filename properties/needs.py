"""What a property may need of its environment, and how that is found out."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import pytest

on_each_device = pytest.mark.parametrize("device", ("cpu", "cuda"))
"""The property runs once for each device that torch may compute on; its form for CUDA needs one, and is marked gpu."""


def _cuda() -> bool:
    import torch

    return torch.cuda.is_available()


def _gloo() -> bool:
    import torch.distributed

    return torch.distributed.is_available() and torch.distributed.is_gloo_available()


def _linux() -> bool:
    return sys.platform == "linux"


REASONS: dict[str, str] = {
    "cuda": "needs a CUDA device",
    "gloo": "needs torch.distributed with gloo",
    "linux": "needs Linux",
}
_PROBES: dict[str, Callable[[], bool]] = {"cuda": _cuda, "gloo": _gloo, "linux": _linux}


@cache
def present(need: str) -> bool:
    """Whether this environment has ``need``; KeyError for an unknown one."""
    return _PROBES[need]()


def of_form(needs: Sequence[str], arguments: Mapping[str, object]) -> list[str]:
    """The needs of one form of a parametrised property: CUDA too, where that is its ``device``."""
    on_cuda = str(arguments.get("device", "")).split(":")[0] == "cuda"
    return [*needs, "cuda"] if on_cuda and "cuda" not in needs else list(needs)


def missing(needs: list[str]) -> str | None:
    """The reason why a property with these needs cannot be judged here, or None.

    On a card that several workers share, what one of them times is what all of them do.
    """
    absent = [REASONS[need] for need in needs if not present(need)]
    if not absent and "cuda" in needs and int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) > 1:
        absent = [f"{REASONS['cuda']} to itself: run without -n"]
    return " and ".join(absent) or None
