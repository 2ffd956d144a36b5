"""tools/environment.py leaves somebody's own environment alone, and says what it lacks."""

import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tools import environment


def everything_in(folder: Path) -> dict[Path, int]:
    """Every file of a folder, and when it was last written."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file() and not path.is_symlink()}


@pytest.fixture
def empty_environment(tmp_path: Path) -> Path:
    """An environment with nothing in it, not even pip."""
    folder = tmp_path / "theirs"
    venv.create(folder, with_pip=False)
    return folder


def test_an_environment_made_elsewhere_is_not_written_to_and_its_lack_is_named(
    empty_environment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = everything_in(empty_environment)
    assert environment.main([str(empty_environment)]) == 1
    assert everything_in(empty_environment) == before
    said = capsys.readouterr().err
    assert "torch>=2.6 (found: none)" in said
    assert "-m pip install" in said


def test_an_environment_that_has_what_verifying_needs_is_used_as_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    theirs = Path(sys.executable).parent.parent
    if (theirs / environment.MARK).exists():
        said = environment.check(theirs, "verify", None)
    else:
        assert environment.main([str(theirs)]) == 0
        said = capsys.readouterr().out
    assert "is used as it is, with torch 2." in said


def test_an_environment_made_elsewhere_with_another_torch_than_asked_for_is_refused() -> None:
    with pytest.raises(environment.Unusable, match=r"not 1\.0\.0; nothing is installed over it"):
        environment.check(Path(sys.executable).parent.parent, "verify", "1.0.0")


def test_a_folder_without_a_python_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert environment.main([str(tmp_path)]) == 1
    assert "has no Python in it" in capsys.readouterr().err


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """An environment of this script's own, as an interrupted run leaves it: a Python, and no more."""
    folder = tmp_path / "ours"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(sys.executable)
    (folder / environment.MARK).write_text("unfinished\n", encoding="utf-8")
    return folder


@pytest.fixture
def installs(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The releases of torch that were asked for, one an installation; nothing is really installed."""
    asked: list[str | None] = []
    monkeypatch.setattr(environment, "install", lambda folder, lock, torch: asked.append(torch))
    return asked


def test_an_interrupted_installation_is_taken_up_again_and_a_finished_one_is_not(
    begun: Path, installs: list[str | None], capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(3):
        assert environment.main([str(begun)]) == 0
    assert installs == [None]
    assert capsys.readouterr().out.endswith("nothing to install.\n")


def test_a_lock_of_other_content_is_installed(
    begun: Path, installs: list[str | None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert environment.main([str(begun)]) == 0
    other = tmp_path / "requirements.lock"
    other.write_text("torch==2.13.0\n", encoding="utf-8")
    monkeypatch.setattr(environment, "LOCK", other)
    assert environment.main([str(begun)]) == 0
    assert installs == [None, None]


def test_a_failed_installation_is_not_taken_for_a_finished_one(begun: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(folder: Path, lock: str, torch: str | None) -> None:
        raise environment.Unusable("pip was stopped")

    monkeypatch.setattr(environment, "install", failing)
    assert environment.main([str(begun)]) == 1
    assert environment.main([str(begun)]) == 1


def test_another_release_of_torch_is_not_installed_over_the_one_that_is_there(
    begun: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(environment, "installed", lambda python: {"torch": "2.13.0+cpu"})
    assert environment.main([str(begun), "--torch", "2.9.1"]) == 1
    assert "torch 2.13.0+cpu, which is left alone" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("requirement", "version", "met"),
    [
        ("torch>=2.6", "2.6.0", True),
        ("torch>=2.6", "2.5.1", False),
        ("torch>=2.6", "2.13.0+cpu", True),
        ("torch>=2.6", "2.15.0.dev20261101+cu130", True),
        ("ml-dtypes>=0.5", "0.6.0", True),
    ],
)
def test_a_lowest_release_is_compared_by_its_numbers(requirement: str, version: str, met: bool) -> None:
    name = requirement.split(">=")[0]
    assert (environment.unmet([requirement], {name: version}) == []) == met
    assert environment.unmet([requirement], {}) == [requirement]


def test_the_lock_pins_torch_without_a_local_part_and_leaves_cuda_out() -> None:
    pins = [line.split(";")[0].split("#")[0].strip() for line in environment.LOCK.read_text().splitlines()]
    assert sum(pin.startswith("torch==") for pin in pins) == 1
    assert not [pin for pin in pins if "+" in pin or pin.startswith(("nvidia-", "cuda-", "triton="))]


def test_the_lock_has_everything_that_the_commands_need() -> None:
    pinned = {environment.canonical(line.split("==")[0]) for line in environment.LOCK.read_text().splitlines()}
    for purpose in ("verify", "test", "bench"):
        assert {environment.canonical(name.split(">=")[0]) for name in environment.needed(purpose)} <= pinned


def test_it_runs_without_any_package(empty_environment: Path) -> None:
    python = environment.interpreter(empty_environment)
    assert python is not None
    script = [str(python), "-I", str(environment.__file__), "--help"]
    assert subprocess.run(script, capture_output=True, check=False).returncode == 0
