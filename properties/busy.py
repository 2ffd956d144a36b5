"""Processes that keep a machine busy, for runs whose verdicts are not to depend on what else happens there."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager


def count_up(parent: int) -> None:
    """Keep a processor busy until ended, or left alone."""
    number = 0
    while number % 2**20 or os.getppid() == parent:
        number += 1


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """So many processes that do nothing but count."""
    counting = [multiprocessing.Process(target=count_up, args=(os.getpid(),), daemon=True) for _ in range(processes)]
    for each in counting:
        each.start()
    try:
        yield
    finally:
        for each in counting:
            each.terminate()
            each.join()
