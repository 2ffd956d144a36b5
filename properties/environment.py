"""Where a run happens: the facts that a record and a failure name."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from functools import cache
from importlib import metadata
from pathlib import Path


def cores() -> int:
    """Processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "absent"


@cache
def device() -> tuple[str, str]:
    """The device claims are judged on, "cpu" or "cuda", and its name."""
    import torch

    if torch.cuda.is_available():
        return "cuda", torch.cuda.get_device_name(0)
    return "cpu", processor()


@cache
def driver() -> str | None:
    """The version of the NVIDIA driver, as the tool that comes with it tells; None where there is none."""
    asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        told = subprocess.run(asked, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return told.stdout.partition("\n")[0].strip() or None if told.returncode == 0 else None


@cache
def processor() -> str:
    """The processor's name, as the system tells it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        found = re.search(r"^model name\s*:\s*(.+)$", cpuinfo.read_text(encoding="utf-8"), re.MULTILINE)
        if found:
            return found[1].strip()
    return platform.processor() or platform.machine()


def commit(root: Path) -> tuple[str | None, bool | None]:
    """The commit that ``root`` is at and whether files differ from it; None where git does not know."""
    try:
        head = subprocess.run(["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10)
        if head.returncode:
            return None, None
        status = subprocess.run(
            ["git", "-C", str(root), "status", "--porcelain"], capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None, None
    return head.stdout.strip(), bool(status.stdout.strip())


def name(kind: str, device_name: str, torch_version: str) -> str:
    """The environment's name, fit for a file: device, platform, Python and torch."""
    card = "" if kind == "cpu" else "-" + re.sub(r"[^a-z0-9]+", "-", device_name.lower()).strip("-")
    system = f"{sys.platform}-{platform.machine().lower()}"
    python = f"py{sys.version_info.major}.{sys.version_info.minor}"
    return re.sub(r"[^A-Za-z0-9._+-]", "-", f"{kind}{card}-{system}-{python}-torch{torch_version}")


def describe(root: Path) -> dict[str, object]:
    """The facts of this environment, as a record holds them."""
    import torch

    kind, device_name = device()
    at_commit, dirty = commit(root)
    return {
        "name": name(kind, device_name, torch.__version__.split("+")[0]),
        "device": kind,
        "device_name": device_name,
        "driver": driver() if kind == "cuda" else None,
        "platform": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": _version("numpy"),
        "hypothesis": _version("hypothesis"),
        "einops": _version("einops"),
        "jaxtyping": _version("jaxtyping"),
        "cores": cores(),
        "commit": at_commit,
        "dirty": dirty,
    }


def lines(facts: dict[str, object]) -> list[str]:
    """The same in three lines, for a report."""
    state = "" if facts["commit"] is None else f", commit {str(facts['commit'])[:12]}"
    return [
        f"torch {facts['torch']}, numpy {facts['numpy']}, hypothesis {facts['hypothesis']}, Python {facts['python']}",
        f"{facts['device']}: {facts['device_name']}, {facts['cores']} cores, {facts['platform']}{state}",
    ]
