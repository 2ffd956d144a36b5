"""``python -m properties.mutants [ID-OR-PREFIX ...]``: each mutant against the properties it is made for."""

from __future__ import annotations

import sys
from pathlib import Path

from properties import levels, process, specification
from properties.levels import Level
from properties.mutants import mutant, trial


def main(prefixes: list[str]) -> int:
    """Print a line a trial; 1 where a mutant lives or a property has none."""
    root = Path.cwd()
    levels.register_profiles(root / "build" / "hypothesis")
    levels.load(Level.DEFAULT)
    process.prepare()
    found = specification.read(root, specification.read_inventory(root))
    for problem in found.problems:
        print(problem)
    wanted = tuple(prefixes) or ("",)
    tried = []
    for each in trial.trials(found, mutant.load().values(), wanted, Level.DEFAULT):
        tried.append(each)
        print(f"{each.outcome:<9} {each.mutant:<40} {each.function}  {each.seconds:.2f} s  {each.reason[:160]}")
    alive = [line for line in trial.unkilled(found, tried) if line.startswith(wanted)]
    for line in alive:
        print(f"no mutant kills {line}")
    return 1 if alive or any(not each.killed and each.outcome != "not-run" for each in tried) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
