"""A property that changes the process is found out, named, and undone; its neighbours do not notice."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from multiprocessing import resource_tracker
from pathlib import Path

import numpy as np
import pytest
import torch

from properties import hygiene
from properties.hygiene import WATCHED, Snapshot, WorkingFolder
from properties.tests.conftest import Here

KEPT: list[object] = []
"""What a leak must hold on to, or it would end by itself."""


def changed_environment() -> None:
    os.environ["ASSAY_LEAK"] = "1"


def removed_variable() -> None:
    del os.environ["PATH"]


def inference() -> None:
    guard = torch.inference_mode()
    guard.__enter__()
    KEPT.append(guard)


def removed_folder() -> None:
    here = Path.cwd() / "removed"
    here.mkdir()
    os.chdir(here)
    here.rmdir()


LEAKS: dict[str, tuple[str, Callable[[], object]]] = {
    "dtype": ("default dtype", lambda: torch.set_default_dtype(torch.float64)),
    "device": ("default device", lambda: torch.set_default_device("meta")),
    "threads": ("thread count", lambda: torch.set_num_threads(torch.get_num_threads() + 1)),
    "grad": ("grad mode", lambda: torch.set_grad_enabled(False)),
    "grad-context": ("grad mode", lambda: torch.no_grad().__enter__()),
    "inference": ("inference mode", inference),
    "autocast": ("autocast", lambda: torch.set_autocast_enabled("cpu", True)),
    "autocast-cuda": ("autocast", lambda: torch.set_autocast_enabled("cuda", True)),
    "autocast-dtype": ("autocast", lambda: torch.set_autocast_dtype("cpu", torch.float16)),
    "deterministic": ("deterministic algorithms", lambda: torch.set_deterministic_debug_mode(2)),
    "deterministic-warn": ("deterministic algorithms", lambda: torch.set_deterministic_debug_mode(1)),
    "tf32": ("TF32 flags", lambda: setattr(torch.backends.cuda.matmul, "allow_tf32", True)),
    "tf32-cudnn": ("TF32 flags", lambda: setattr(torch.backends.cudnn, "allow_tf32", False)),
    "tf32-precision": ("TF32 flags", lambda: torch.set_float32_matmul_precision("high")),
    "cudnn": ("cuDNN flags", lambda: setattr(torch.backends.cudnn, "benchmark", True)),
    "random": ("Python's random generator", random.random),
    "random-seed": ("Python's random generator", lambda: random.seed(3)),
    "numpy": ("NumPy's random generator", lambda: np.random.rand()),
    "numpy-normal": ("NumPy's random generator", lambda: np.random.randn()),
    "torch": ("torch's random generator", lambda: torch.rand(1)),
    "torch-seed": ("torch's random generator", lambda: torch.manual_seed(3)),
    "warn-always": ("warn-always flag", lambda: torch.set_warn_always(not torch.is_warn_always_enabled())),
    "filters": ("warning filters", lambda: warnings.simplefilter("ignore")),
    "cwd": ("working folder", lambda: os.chdir("/")),
    "cwd-removed": ("working folder", removed_folder),
    "variable": ("environment variables", changed_environment),
    "variable-removed": ("environment variables", removed_variable),
}
if torch.set_flush_denormal(False):  # it says whether this processor can
    LEAKS["denormal"] = ("denormal flag", lambda: torch.set_flush_denormal(True))
if sys.platform == "linux":  # elsewhere only the children of multiprocessing are known
    LEAKS["child"] = (
        "child processes",
        lambda: KEPT.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)),
    )
if hasattr(torch.backends.cuda.matmul, "fp32_precision"):
    LEAKS["tf32-new"] = ("TF32 flags", lambda: setattr(torch.backends.cuda.matmul, "fp32_precision", "tf32"))
    LEAKS["tf32-all"] = ("TF32 flags", lambda: setattr(torch.backends, "fp32_precision", "tf32"))


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    """Let go of what leaks held, whatever a test found."""
    yield
    for each in KEPT:
        if isinstance(each, subprocess.Popen):
            each.kill()
            each.communicate()
    KEPT.clear()


@pytest.mark.parametrize(("name", "leak"), LEAKS.values(), ids=list(LEAKS))
def test_each_change_is_named_and_undone(
    name: str, leak: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before, again = Snapshot(), Snapshot()
    leak()
    assert before.restore() == [name]
    assert again.restore() == []


def test_the_process_that_python_keeps_for_shared_memory_is_no_leak() -> None:
    resource_tracker.ensure_running()
    tracker = resource_tracker._resource_tracker._pid  # type: ignore[attr-defined]
    assert tracker in hygiene._started() - hygiene._children()


def test_everything_that_is_watched_has_a_leak_here() -> None:
    tried = {name for name, _ in LEAKS.values()}
    missing = {watched.name for watched in WATCHED} - tried
    assert "CUDA's random generators" in missing
    assert missing <= {"CUDA's random generators", "denormal flag", "child processes"}
    assert sys.platform != "linux" or "child processes" not in missing


def test_nothing_changed_is_nothing_named() -> None:
    assert Snapshot().restore() == []
    before = Snapshot()
    generator = torch.Generator().manual_seed(1)
    torch.rand(3, generator=generator)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.rand(3)
    warnings.filterwarnings("ignore", module="elsewhere")
    warnings.simplefilter("once", np.exceptions.ComplexWarning)
    np.random.default_rng(1).random()
    random.Random(1).random()
    assert before.restore() == []


def test_a_default_device_is_taken_away_and_not_named_anew() -> None:
    """A default device of "cpu" is a mode that every call passes through; there was none before."""
    before = Snapshot()
    depth = torch._C._len_torch_function_stack()
    torch.set_default_device("meta")
    before.restore()
    assert torch._C._len_torch_function_stack() == depth
    assert torch.zeros(1).device.type == "cpu"


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: /proc")
def test_a_child_process_that_was_left_is_ended() -> None:
    before = Snapshot()
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    assert before.restore() == ["child processes"]
    deadline = time.monotonic() + 10
    while Path(f"/proc/{child.pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not Path(f"/proc/{child.pid}").exists()
    child.poll()


def test_files_left_in_the_working_folder_are_named_and_removed() -> None:
    outside = Path.cwd()
    with WorkingFolder() as folder:
        inside = Path.cwd()
        assert inside != outside
        assert folder.left() == []
        Path("b.txt").write_text("left", encoding="utf-8")
        Path("a").mkdir()
        assert folder.left() == ["files in the working folder (a, b.txt)"]
    assert Path.cwd() == outside
    assert not inside.exists()
    with WorkingFolder() as folder:
        assert folder.left() == []
        os.rmdir(Path.cwd())
        assert folder.left() == []
    with WorkingFolder():
        assert list(Path.cwd().iterdir()) == []


def test_a_snapshot_is_cheap() -> None:
    times = []
    for _ in range(20):
        started = time.perf_counter()
        Snapshot()
        times.append(time.perf_counter() - started)
    assert min(times) < 2e-3


# ── in a run ────────────────────────────────────────────────────────────────

IN_A_RUN = {
    "default dtype": "torch.set_default_dtype(torch.float64)",
    "default device": "torch.set_default_device('meta')",
    "thread count": "torch.set_num_threads(2)",
    "grad mode": "torch.set_grad_enabled(False)",
    "autocast": "torch.set_autocast_enabled('cpu', True)",
    "denormal flag": "torch.set_flush_denormal(True)",
    "deterministic algorithms": "torch.set_deterministic_debug_mode('error')",
    "TF32 flags": "torch.backends.cuda.matmul.allow_tf32 = True",
    "cuDNN flags": "torch.backends.cudnn.benchmark = True",
    "Python's random generator": "random.seed(1)",
    "NumPy's random generator": "np.random.seed(1)",
    "torch's random generator": "torch.manual_seed(1)",
    "warn-always flag": "torch.set_warn_always(False)",
    "warning filters": "warnings.simplefilter('ignore')",
    "working folder": "os.chdir('/')",
    "environment variables": "os.environ['LEAK'] = '1'",
    "child processes": "os.kill(os.spawnlp(os.P_NOWAIT, 'sleep', 'sleep', '60'), 0)",
    "files in the working folder (junk.txt)": "open('junk.txt', 'w').close()",
}
IN_A_RUN = {name: leak for name, leak in IN_A_RUN.items() if name in dict(LEAKS.values()) or "folder (" in name}
LEAKY = '''
@holds("a.leak-{index}")
def test_leak_{index}():
    """Nothing is left."""
    {leak}
    assert int("1")


@holds("a.after-{index}")
def test_after_{index}():
    """The process is as it was."""
    assert (
        torch.get_default_dtype(), torch.zeros(1).device.type, torch.get_num_threads(), torch.is_grad_enabled(),
        torch.is_autocast_enabled("cpu"), float(torch.tensor([2.0**-126]) / 2) > 0, os.environ.get("LEAK"),
        torch.are_deterministic_algorithms_enabled(), torch.backends.cuda.matmul.allow_tf32,
        torch.backends.cudnn.benchmark, torch.is_warn_always_enabled(), os.listdir("."),
    ) == (torch.float32, "cpu", 1, True, False, True, None, False, False, False, True, [])
'''


def test_a_run_names_each_property_that_leaks_and_no_other(here: Here) -> None:
    ids = [f"a.{kind}-{index}" for index in range(len(IN_A_RUN)) for kind in ("leak", "after")]
    here.inventory(*ids)
    here.module("".join(LEAKY.format(index=index, leak=leak) for index, leak in enumerate(IN_A_RUN.values())))
    before = {path.name for path in here.folder.iterdir()}
    found = here.claims()
    for index, name in enumerate(IN_A_RUN):
        claim = found[f"a.leak-{index}"]
        assert (claim["state"], claim["agrees"]) == ("error", None)
        assert claim["reason"] == f"the property changed the process and did not put it back: {name}"
        assert claim["failure"].startswith(f"a.leak-{index}: error; the run says nothing about the verdict 'holds'\n")
        after = found[f"a.after-{index}"]
        assert (after["state"], after["agrees"]) == ("ran", True), after["failure"]
    assert {path.name for path in here.folder.iterdir()} - before <= {"record.json", "build", "spec"}


def test_generators_are_managed_within_generated_cases_and_changes_in_other_state_are_not(here: Here) -> None:
    here.inventory("a.generators", "a.pinned", "a.dtype", "a.both")
    here.module(
        '''
        @holds("a.generators")
        @given(n=st.integers(0, 10**6))
        def test_generators(n):
            """Seeding is allowed in a case."""
            random.seed(n); np.random.seed(n); torch.manual_seed(n)
            assert torch.rand(1) + random.random() + np.random.rand() >= 0

        @refuted("a.pinned", instead="They are not.")
        @given(n=st.integers(0, 10**6))
        @example(n=3)
        def test_pinned(n):
            """Draws are negative."""
            assert torch.rand(1) + random.random() + np.random.rand() < 0

        @corrects("a.pinned")
        @given(n=st.integers(0, 10**6))
        @example(n=3)
        def test_corrected(n):
            """Draws are not negative."""
            assert torch.rand(1) + random.random() + np.random.rand() >= 0

        @holds("a.dtype")
        @given(n=st.integers(0, 10**6))
        def test_dtype(n):
            """Numbers are not negative."""
            torch.set_default_dtype(torch.float64)
            assert n >= 0

        @holds("a.both")
        @given(n=st.integers(0, 10**6))
        def test_both(n):
            """Numbers are negative."""
            os.environ["LEAK"] = "1"
            assert n < 0
        '''
    )
    found = here.claims()
    for id in ("a.generators", "a.pinned"):
        assert found[id]["agrees"] is True, found[id]["failure"]
    assert found["a.dtype"]["reason"].endswith("did not put it back: default dtype")
    assert found["a.both"]["state"] == "error"
    assert found["a.both"]["reason"].endswith("did not put it back: environment variables; besides: contradicted")
