"""Work done in forked children, a few at a time, each ended where it takes longer than it said it would."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

Key = TypeVar("Key")
FIRST = 60.0
"""The limit of a child until it says one."""
PATIENCE = 10.0
"""How many seconds a child may take by the clock, for each of its processor's that it may take."""
MEMORY = 8 * 2**30
"""Bytes that a child may allocate."""


@dataclass(frozen=True)
class Begins:
    """What a child does next, and the seconds of its processor's time after which it is to be ended."""

    what: str
    limit: float


@dataclass
class Ended(Generic[Key]):
    """What a child said, in order, and what ended it where it did not come to its own end."""

    key: Key
    said: list[Any] = field(default_factory=list)
    by: str = ""
    """Empty, "timed out", "died", or the traceback of what it raised."""
    doing: str = ""
    """What it had said that it does next."""


@dataclass
class _Child(Generic[Key]):
    pid: int
    ended: Ended[Key]
    deadline: float


@dataclass(frozen=True)
class _Last:
    """The last that a child says: nothing, or the traceback of what it raised."""

    traceback: str


Send = Callable[[Any], None]
Work = Callable[[Send], None]
"""What a child does, given a function that sends what it finds, or what begins."""


def in_children(tasks: Iterable[tuple[Key, Work]], at_once: int) -> Iterator[Ended[Key]]:
    """The end of each task, in the order in which they end; a task is asked for when there is a place for it."""
    waiting = iter(tasks)
    running: dict[Connection, _Child[Key]] = {}
    more = True
    try:
        while more or running:
            while more and len(running) < at_once:
                task = next(waiting, None)
                if task is None:
                    more = False
                else:
                    receiver, child = _started(*task)
                    running[receiver] = child
            if not running:
                return
            soonest = min(child.deadline for child in running.values())
            for ready in wait(list(running), max(0.0, soonest - time.monotonic())):
                if isinstance(ready, Connection) and _heard_the_last(ready, running[ready]):
                    yield _finished(ready, running.pop(ready))
            for late in [each for each, child in running.items() if child.deadline < time.monotonic()]:
                running[late].ended.by = "timed out"
                yield _finished(late, running.pop(late))
    finally:
        for receiver, child in running.items():
            _finished(receiver, child)


def _started(key: Key, work: Work) -> tuple[Connection, _Child[Key]]:
    receiver, sender = Pipe(duplex=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)  # Python warns where there are threads
        pid = os.fork()
    if pid == 0:

        def send(message: Any) -> None:
            if isinstance(message, Begins):
                signal.setitimer(signal.ITIMER_PROF, message.limit)
            sender.send(message)

        try:
            _separate()
            _quieten()
            signal.setitimer(signal.ITIMER_PROF, FIRST)
            try:
                work(send)
                sender.send(_Last(""))
            except BaseException:
                sender.send(_Last(traceback.format_exc()))
        finally:
            os._exit(0)
    sender.close()
    return receiver, _Child(pid, Ended(key), time.monotonic() + PATIENCE * FIRST)


_separated = False


def _separate() -> None:
    """Begin a group of processes, which ends as one; a child of such a child stays in its group."""
    global _separated
    if not _separated:
        os.setpgid(0, 0)
        _separated = True


def _quieten() -> None:
    import resource  # where there is a fork there is this too

    faulthandler.disable()
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)


def _heard_the_last(receiver: Connection, child: _Child[Any]) -> bool:
    """Take in what a child sent; whether it was the last."""
    try:
        message = receiver.recv()
    except (EOFError, OSError):
        child.ended.by = "died"
        return True
    if isinstance(message, Begins):
        child.ended.doing = message.what
        child.deadline = time.monotonic() + PATIENCE * message.limit
    elif isinstance(message, _Last):
        child.ended.by = message.traceback
        return True
    else:
        child.ended.said.append(message)
    return False


def _finished(receiver: Connection, child: _Child[Key]) -> Ended[Key]:
    """End a child and whatever it started."""
    receiver.close()
    for end in (os.killpg, os.kill):  # the group is not there yet where the child has not come to make it
        with contextlib.suppress(ProcessLookupError):
            end(child.pid, signal.SIGKILL)
    if os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1]) == -signal.SIGPROF:
        child.ended.by = "timed out"
    return child.ended
