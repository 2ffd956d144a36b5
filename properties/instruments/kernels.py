"""What torch imports on its own at some first use, imported without leaving a trace."""

from __future__ import annotations

import importlib
import os
import warnings
from functools import cache

from properties.process import settle


@cache
def import_kernels() -> None:
    """Import what torch computes shapes with, and what its FLOP counter takes operators apart with.

    torch does so at its first operation on the meta device, with its first optimizer, and for its profiler. It takes a
    second, adds a warning filter and sets an environment variable, which a property is not to leave behind.
    """
    before = set(os.environ)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # compilers that come with a CUDA build are imported too
        importlib.import_module("torch._dynamo")
    for name in set(os.environ) - before:
        del os.environ[name]
    settle()
