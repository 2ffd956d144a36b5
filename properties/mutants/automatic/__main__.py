"""``python -m properties.mutants.automatic``: the oracles with one number, operator or comparison changed at a time.

Each change meets the properties whose run touches its lines, at the quick level and in a process of its own, until one
notices; the oracles' own tests meet what no property notices. A property notices by a contradiction, by an exception
out of the oracle, or by taking ten times as long as without the change. One JSON line a change is added to the output,
and a run that was interrupted goes on where its output ends: take a line out to have its change judged again.

What no property or test can notice stands, with the reason, in ``equivalent.toml`` beside this module.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

from properties import process
from properties.levels import Level
from properties.log import Log
from properties.mutants.automatic.changes import Change, changes
from properties.mutants.automatic.trials import NOTICED, trials
from properties.mutants.automatic.witnesses import ORACLES, properties_of, tests_of

Key = tuple[str, str, str]
"""What a change is known by: its module, its function, and how it is told."""
Line = Mapping[str, Any]
Equivalent = Mapping[Key, str]
"""The reason why nothing can notice a change."""


def read_equivalent(path: Path) -> Equivalent:
    """The list of changes that nothing can notice; empty where there is none."""
    if not path.exists():
        return {}
    tables = tomllib.loads(path.read_text(encoding="utf-8")).get("equivalent", [])
    return {(each["module"], each["function"], each["change"]): each["reason"] for each in tables}


def table(lines: Sequence[Line], equivalent: Equivalent) -> list[str]:
    """A row a module: how many changes, what noticed them, and how many live."""
    counts: dict[str, Counter[str]] = {}
    for line in lines:
        outcome = line["outcome"]
        if outcome not in NOTICED:
            outcome = "equivalent" if _key(line) in equivalent else "lives"
        for row in (line["module"], "all"):
            counts.setdefault(row, Counter())[outcome] += 1
    width = max(map(len, counts), default=0)
    columns = (*NOTICED, "equivalent", "lives")
    told = [" " * width + "".join(f"  {name:>{len(name)}}" for name in ("changes", *columns, "noticed"))]
    for row in sorted(counts, key=lambda name: (name == "all", name)):
        count = counts[row]
        share = sum(count[name] for name in NOTICED) / count.total()
        cells = [count.total(), *(count[name] for name in columns)]
        shown = zip((str(cell or "-") for cell in cells), ("changes", *columns), strict=True)
        told.append(f"{row:<{width}}" + "".join(f"  {cell:>{len(name)}}" for cell, name in shown) + f"  {share:>7.1%}")
    return told


def problems(lines: Sequence[Line], equivalent: Equivalent, wanted: Container[Key]) -> list[str]:
    """The changes that live, and what is wrong with the list of equivalent ones."""
    told = []
    for line in lines:
        place = f"{line['file']}:{line['line']}: {line['change']}"
        noticed, listed = line["outcome"] in NOTICED, _key(line) in equivalent
        if noticed and listed:
            told.append(f"listed as equivalent, and noticed by {line['by']}: {place}")
        elif not noticed and not listed:
            told.append(f"{line['outcome']}: {place}" + (f" ({line['by']}: {line['reason']})" if line["by"] else ""))
    modules = {line["module"] for line in lines}
    return told + [
        f"listed as equivalent, and not there any more: {module}, {function}: {change}"
        for module, function, change in equivalent
        if module in modules and (module, function, change) not in wanted
    ]


def _key(line: Line) -> Key:
    return line["module"], line["function"], line["change"]


def judge(root: Path, wanted: list[Change], log: Log, processes: int) -> None:
    """Add a line for each change to the output, as soon as it is known."""
    process.judge_in(root, Level.QUICK)
    with tempfile.TemporaryDirectory(prefix="assay-") as folder:
        tempfile.tempdir = os.environ["TMPDIR"] = folder
        judges, tests = properties_of(root, processes), tests_of(root, processes)
        for change, found in trials(root, wanted, judges, tests, processes):
            line = {
                "module": change.module,
                "function": change.function,
                "file": f"{change.module.replace('.', '/')}.py",
                "line": change.lines.start,
                "change": change.told,
                "outcome": found.outcome,
                "by": found.by,
                "reason": found.reason,
            }
            log.add(line)


def main(words: list[str]) -> int:
    """Judge the changes that the output lacks, and print what became of all; 1 where one lives that is not listed."""
    parser = argparse.ArgumentParser(prog="python -m properties.mutants.automatic", description=__doc__)
    parser.add_argument("--modules", nargs="*", metavar="NAME", help="oracles to change, such as linear (all)")
    parser.add_argument("--output", type=Path, default=Path("build/automatic.jsonl"), help="one JSON line a change")
    parser.add_argument("--processes", type=int, default=2, metavar="N", help="children at a time (2)")
    chosen = parser.parse_args(words)
    root = Path.cwd()
    paths = {path.stem: path for path in sorted((root / ORACLES).glob("*.py")) if path.stem != "__init__"}
    unknown = sorted(set(chosen.modules or ()) - paths.keys())
    if unknown:
        parser.error(f"there is no {ORACLES}/{unknown[0]}.py: use one of {', '.join(paths)}")
    if not hasattr(os, "fork"):
        parser.error("every change runs in a fork of this process, and this system has none: use Linux or macOS")
    wanted = {
        change.key: change
        for stem in chosen.modules or paths
        for change in changes(paths[stem].read_text(encoding="utf-8"), f"{ORACLES}.{stem}")
    }
    log = Log(chosen.output)
    known = set(map(_key, log.lines))
    missing = [change for key, change in wanted.items() if key not in known]
    if missing:
        started = time.perf_counter()
        judge(root, missing, log, chosen.processes)
        print(f"{len(missing)} changes were judged in {time.perf_counter() - started:.0f} s")
    lines = [line for line in log.lines if _key(line) in wanted]
    equivalent = read_equivalent(Path(__file__).with_name("equivalent.toml"))
    wrong = problems(lines, equivalent, wanted)
    print("\n".join([*table(lines, equivalent), *wrong]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
