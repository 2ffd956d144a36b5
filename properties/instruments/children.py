"""Children of this process: for what ends a process, and for what only another user may not do."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

NOBODY = 65534
"""The user and group that own nothing."""
RAISED = 99
"""What a child ends with where its call raised something else than was asked about."""
CANNOT_DROP = 98


def ending_of(call: Callable[[], object]) -> int:
    """How a forked child ends that makes a call: 0, or minus the number of the signal that killed it.

    A call that raises ends it with ``RAISED``. The child is waited for, prints nothing and leaves no core.
    """

    def tried() -> int:
        call()
        return 0

    return _in_a_child(tried)


def is_refused_to_nobody(folder: Path, call: Callable[[], object]) -> bool:
    """Whether a call raises PermissionError for a user without rights, in a child that works in ``folder``.

    Raises pytest's skip where this process is root and cannot become somebody else.
    """
    os.chmod(folder, 0o755)

    def tried() -> int:
        os.chdir(folder)  # while it may: the way here can be closed to others
        if os.geteuid() == 0:
            try:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            except OSError:
                return CANNOT_DROP
        try:
            call()
        except PermissionError:
            return 1
        return 0

    ended = _in_a_child(tried)
    if ended == CANNOT_DROP:
        pytest.skip("root cannot become another user here")
    if ended not in (0, 1):
        raise RuntimeError(f"the child ended with {ended}: its call raised something else than PermissionError")
    return ended == 1


def _in_a_child(call: Callable[[], int]) -> int:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)  # Python warns where there are threads
        pid = os.fork()
    if pid == 0:
        status = RAISED
        try:
            _quieten()
            status = call()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _quieten() -> None:
    import faulthandler
    import resource

    faulthandler.disable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
