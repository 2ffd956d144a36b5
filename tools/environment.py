"""Make the environment that the Makefile runs in, or say what an existing one lacks.

`python tools/environment.py FOLDER` needs Python 3.11 and nothing else:

- where FOLDER does not exist, it becomes a virtual environment with the pinned lock in it;
- where this script made FOLDER, it is brought up to the lock, and nothing happens if it is there already;
- any other FOLDER is somebody's own environment. Nothing is installed into it, ever: if a package is missing,
  or older than pyproject.toml allows, the script names it, and the command that would install it, and fails.

torch goes first, alone and exactly pinned, so that no other package chooses a torch; a CPU build is therefore
kept, and a CUDA build brings its own CUDA packages, which the lock leaves out.
"""

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
MARK = "made-for-assay"
"""The file, in an environment that this script made, whose text says which lock is installed."""

ASK_FOR_VERSIONS = """
import importlib.metadata, json
print(json.dumps({found.metadata["Name"]: found.version for found in importlib.metadata.distributions()}))
"""


class Unusable(Exception):
    """The environment cannot be used; the message says why and what to do."""


def canonical(name: str) -> str:
    """A package's name as indexes compare it: `ml_dtypes` is `ml-dtypes`."""
    return re.sub(r"[-_.]+", "-", name).lower()


def release(version: str) -> tuple[int, ...]:
    """The numbers of a release, for ordering: `2.13.0+cpu` is (2, 13, 0)."""
    return tuple(int(number) for number in re.findall(r"\d+", re.split(r"[+a-z]", version)[0]))


def interpreter(folder: Path) -> Path | None:
    """The Python of an environment, wherever its platform puts it, or None if there is none."""
    places = ("bin/python", "bin/python3", "Scripts/python.exe", "python.exe")
    return next((folder / place for place in places if (folder / place).exists()), None)


def installed(python: Path) -> dict[str, str]:
    """Every package that this Python sees, as canonical name and version."""
    answer = subprocess.run([python, "-c", ASK_FOR_VERSIONS], capture_output=True, text=True, check=True)
    return {canonical(name): version for name, version in json.loads(answer.stdout).items()}


def needed(purpose: str) -> list[str]:
    """The requirements of pyproject.toml for a purpose: verify, test or bench."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras, groups = declared["project"]["optional-dependencies"], declared["dependency-groups"]
    further = {
        "verify": [],
        "test": [extras["parallel"], extras["timeout"], extras["page"], groups["dev"]],
        "bench": [extras["parallel"], groups["bench"]],
    }
    return sum(further[purpose], start=list(declared["project"]["dependencies"]))


def unmet(requirements: Iterable[str], versions: dict[str, str]) -> list[str]:
    """The requirements, `name>=lowest` each, that the installed versions do not meet."""
    missing = []
    for requirement in requirements:
        name, lowest = requirement.split(">=")
        version = versions.get(canonical(name))
        if version is None or release(version) < release(lowest):
            missing.append(requirement)
    return missing


def check(folder: Path, purpose: str, torch: str | None) -> str:
    """Say which torch somebody's own environment has; raise Unusable where it lacks a package."""
    python = interpreter(folder)
    if python is None:
        raise Unusable(f"{folder} exists and has no Python in it: name another folder with VENV=, or remove it.")
    versions = installed(python)
    missing = unmet(needed(purpose), versions)
    if missing:
        wanted = " ".join(f"'{requirement}'" for requirement in missing)
        lines = [
            f"{folder} was not made here, so nothing is installed into it. For `make {purpose}` it lacks:",
            *(f"  {name} (found: {versions.get(canonical(name.split('>=')[0]), 'none')})" for name in missing),
            "Install them yourself, torch in the build that you want:",
            f"  {python} -m pip install {wanted}",
        ]
        raise Unusable("\n".join(lines))
    if torch is not None and release(versions["torch"]) != release(torch):
        raise Unusable(
            f"{folder} has torch {versions['torch']}, not {torch}; nothing is installed over it:"
            " leave VENV= out, and the release gets an environment of its own."
        )
    return f"{folder} is used as it is, with torch {versions['torch']}."


def pip(python: Path, *arguments: str) -> None:
    """Run pip in an environment; raise Unusable where it fails."""
    command = [str(python), "-m", "pip", "--disable-pip-version-check", *arguments]
    if subprocess.run(command, check=False).returncode:
        raise Unusable(f"This failed: {' '.join(command)}\nRun the same target again once its cause is gone.")


def without(lock: str, names: Iterable[str]) -> str:
    """The lock, less the lines of the packages that are named."""
    leave = set(names)
    return "".join(
        line for line in lock.splitlines(keepends=True) if canonical(line.split("==")[0].strip()) not in leave
    )


def install(folder: Path, lock: str, torch: str | None) -> None:
    """Install torch first, then the rest of the lock.

    Another release than the pinned one brings the versions of its own dependencies that it wants, so those
    lines of the lock are left out.
    """
    python = interpreter(folder)
    if python is None:
        raise Unusable(f"{folder} has no Python in it: remove it and run the same target again.")
    if torch is None:
        pinned = next(line.split()[0] for line in lock.splitlines() if line.startswith("torch=="))
        print(f"Installing {pinned} into {folder}, then {LOCK.name}.", flush=True)
        pip(python, "install", "--constraint", str(LOCK), pinned)
        pip(python, "install", "--quiet", "--requirement", str(LOCK))
        return
    before = installed(python).get("torch")
    if before is not None and release(before) != release(torch):
        raise Unusable(f"{folder} has torch {before}, which is left alone: name another folder with VENV=.")
    print(f"Installing torch=={torch} into {folder}, then what it leaves open of {LOCK.name}.", flush=True)
    pip(python, "install", f"torch=={torch}")
    rest = folder / "rest-of-the-lock.txt"
    rest.write_text(without(lock, installed(python)), encoding="utf-8")
    pip(python, "install", "--quiet", "--requirement", str(rest))


def make(folder: Path, torch: str | None) -> str:
    """Make the environment, or bring it up to the lock, and say which of the two was done, if any."""
    lock = LOCK.read_text(encoding="utf-8")
    mark = folder / MARK
    content = f"{hashlib.sha256(lock.encode()).hexdigest()} torch {torch or 'as pinned'}\n"
    if mark.exists() and mark.read_text(encoding="utf-8") == content:
        return f"{folder} is ready: nothing to install."
    # The mark comes first and stays open until the end, so that an interrupted run is taken up again, and not
    # mistaken for somebody's own environment.
    folder.mkdir(parents=True, exist_ok=True)
    mark.write_text("unfinished\n", encoding="utf-8")
    if interpreter(folder) is None:
        made = subprocess.run([sys.executable, "-m", "venv", folder], check=False)
        if made.returncode:
            raise Unusable(f"{sys.executable} could not make {folder}, and said why above.")
    install(folder, lock, torch)
    mark.write_text(content, encoding="utf-8")
    return f"{folder} is ready."


def main(arguments: Sequence[str]) -> int:
    """Prepare the folder that is named, and say in one line what was done."""
    parser = argparse.ArgumentParser(description="Make the environment, or say what an existing one lacks.")
    parser.add_argument("folder", type=Path, help="the virtual environment, existing or not")
    parser.add_argument("--torch", help="a release other than the pinned one, for a new environment")
    parser.add_argument("--purpose", choices=("verify", "test", "bench"), default="verify")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.folder.exists() and not (chosen.folder / MARK).exists():
            print(check(chosen.folder, chosen.purpose, chosen.torch or None), flush=True)
        else:
            print(make(chosen.folder, chosen.torch or None), flush=True)
    except Unusable as reason:
        print(reason, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
