"""What the import hooks of jaxtyping and beartype check, seen in a process of their own.

A hook changes how every later import of a package compiles and cannot be taken off again, so it is never set
in the process that runs the specification. The arrays there are NumPy's: a hook looks at annotations, whatever
kind of array they are of, and torch would take four times as long to start.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

MODULE = """
import numpy as np
from jaxtyping import Float

def assign_right():
    x: Float[np.ndarray, "rows columns"] = np.zeros((2, 3))

def assign_rank():
    x: Float[np.ndarray, "rows columns"] = np.zeros(2)

def assign_dtype():
    x: Float[np.ndarray, "rows columns"] = np.zeros((2, 3), dtype=np.int64)

def assign_lengths():
    x: Float[np.ndarray, "rows"] = np.zeros(2)
    y: Float[np.ndarray, "rows"] = np.zeros(3)

def f(x: Float[np.ndarray, "rows columns"], y: Float[np.ndarray, "columns"]):
    return x

def pass_right():
    f(np.zeros((2, 3)), np.zeros(3))

def pass_rank():
    f(np.zeros(2), np.zeros(3))

def pass_dtype():
    f(np.zeros((2, 3)), np.zeros(3, dtype=np.int64))

def pass_lengths():
    f(np.zeros((2, 3)), np.zeros(2))
"""
"""Annotated assignments and arguments: right ones, and ones with a wrong rank, a wrong dtype, or two lengths
for a name.
"""

SCRIPT = """
import json
import beartype.claw
import jaxtyping
import plain
with jaxtyping.install_import_hook("hooked_by_jaxtyping", "beartype.beartype"):
    import hooked_by_jaxtyping
beartype.claw.beartype_package("hooked_by_beartype")
import hooked_by_beartype

def refused(call):
    try:
        call()
    except Exception as error:
        if type(error).__module__.split(".")[0] not in ("jaxtyping", "beartype"):
            raise
        return True
    return False

calls = sorted(name for name in vars(plain) if name.startswith(("assign_", "pass_")))
modules = {"nothing": plain, "jaxtyping": hooked_by_jaxtyping, "beartype": hooked_by_beartype}
print(json.dumps({
    hook: [name for name in calls if refused(getattr(module, name))] for hook, module in modules.items()
}))
"""


def refused_under_hooks() -> dict[str, list[str]]:
    """For no hook, jaxtyping's and beartype's: the names of the calls in ``MODULE`` that are refused.

    Raises subprocess.CalledProcessError, with what the process wrote, where it fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name in ("plain", "hooked_by_jaxtyping", "hooked_by_beartype"):
            (Path(folder) / f"{name}.py").write_text(MODULE, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], cwd=folder, capture_output=True, text=True, timeout=50, check=True
        )
    answer: dict[str, list[str]] = json.loads(done.stdout)
    return answer
