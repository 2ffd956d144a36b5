"""``python -m properties.power``: what the random claims say of chance, tried out.

They are judged with many seeds, and none may be contradicted; and each deviation that their properties say they see is
made, and has to be seen in nearly every case. Each is one JSON line in the log, and a run that was interrupted goes on
where its log ends.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import Phase, settings

from properties import process, specification
from properties.claims import State
from properties.evidence import Evidence, collecting
from properties.hygiene import Snapshot
from properties.judging import judge
from properties.levels import Level
from properties.log import Log
from properties.mutants import deviations, mutant
from properties.mutants.mutant import Mutant
from properties.mutants.trial import made_for
from properties.specification import Property, Specification

SEEN = 0.985
"""Of the cases in which a deviation is there, the share in which it has to be seen."""


def random(found: Specification, prefix: str = "") -> list[Property]:
    """The properties in which randomness is the claim, or whose claim states a false alarm, and whose id starts so."""
    return [
        each
        for each in found.properties
        if (each.note.seeds_count or found.claim(each.note).false_alarm is not None) and each.note.id.startswith(prefix)
    ]


def judged(found: Specification, run: int, prefix: str = "") -> dict[str, Any]:
    """Judge every random property with one seed: those that were contradicted, and those that broke."""
    started = time.perf_counter()
    line: dict[str, Any] = {"seed": run, "claims": prefix, "alarms": [], "errors": [], "cases": 0}
    for place, each in enumerate(random(found, prefix)):
        before = Snapshot()
        seen = judge(
            each.function,
            each.note,
            found.claim(each.note),
            level=Level.DEFAULT,
            seed=1000 * run + place,
            patient=False,
        )
        before.restore()
        line["cases"] += seen.evidence.passed
        if seen.agrees is False or seen.state is State.ERROR:
            line["alarms" if seen.agrees is False else "errors"].append([each.function.__name__, str(seen.exception)])
    return line | {"seconds": round(time.perf_counter() - started, 1)}


def tried(deviation: Mutant, each: Property, cases: int) -> dict[str, Any]:
    """In how many of so many generated cases a property sees a deviation; none outside its condition is counted."""
    seen = asked = seed = 0

    def counted(**drawn: object) -> None:
        nonlocal seen, asked
        evidence = Evidence()
        with collecting(evidence):
            try:
                inner(**drawn)
            except AssertionError:
                noticed = True
            else:
                noticed = False
        evidence.fold()
        if asked < cases and (noticed or evidence.inside or not evidence.outside):
            seen, asked = seen + noticed, asked + 1

    with deviation.world(), _instead(each, counted, cases) as (handle, inner):
        while asked < cases:
            handle._hypothesis_internal_use_seed = seed
            handle()
            seed += 1
    return {"deviation": deviation.name, "property": each.function.__name__, "seen": seen, "cases": asked}


@contextmanager
def _instead(each: Property, counted: Any, cases: int) -> Iterator[Any]:
    """Have ``counted`` called with generated cases of a property; yields the property, and what is below ``@given``."""
    handle: Any = each.function
    before, inner = dict(vars(handle)), handle.hypothesis.inner_test
    handle._hypothesis_internal_use_settings = settings(
        settings.get_profile(Level.DEFAULT.title), max_examples=cases, phases=[Phase.generate]
    )
    counted.__name__, counted.__dict__ = inner.__name__, dict(vars(inner))
    handle.hypothesis.inner_test = counted
    try:
        yield handle, inner
    finally:
        vars(handle).update(before)
        handle.hypothesis.inner_test = inner


def missing(
    found: Specification, lines: list[dict[str, Any]], runs: range, cases: int, prefix: str
) -> Iterator[dict[str, Any]]:
    """The lines that the log does not have yet, one after the other as they are made."""
    known = {(line.get("deviation"), line.get("property")) for line in lines}
    for deviation in mutant.load().values():
        for each in found.properties if deviation.world.__module__ == deviations.__name__ and cases else ():
            if (
                each.note.id.startswith(prefix)
                and made_for(deviation, each)
                and (deviation.name, each.function.__name__) not in known
            ):
                yield tried(deviation, each, cases)
    done = {(line.get("seed"), line.get("claims")) for line in lines}
    yield from (judged(found, run, prefix) for run in runs if (run, prefix) not in done)


def main(options: list[str]) -> int:
    """Make the lines that are missing; 1 after a false alarm, an error, or a deviation that is seen too rarely."""
    parser = argparse.ArgumentParser(prog="python -m properties.power", description=__doc__)
    parser.add_argument("--runs", type=int, default=200, help="how many seeds (200)")
    parser.add_argument("--first-seed", type=int, default=0, help="the first run's seed; each next has one more")
    parser.add_argument("--claim", default="", metavar="ID", help="only the claims whose id starts so")
    parser.add_argument("--cases", type=int, default=200, help="cases of each deviation (200); 0 leaves them out")
    parser.add_argument("--log", type=Path, default=Path("build/power.jsonl"), help="one JSON line each")
    asked = parser.parse_args(options)
    root, runs = Path.cwd(), range(asked.first_seed, asked.first_seed + asked.runs)
    process.judge_in(root, Level.DEFAULT)
    found = specification.read(root, specification.read_inventory(root))
    if not random(found, asked.claim):
        parser.error(f"--claim: no random claim's id starts with {asked.claim!r}")
    log = Log(asked.log)
    for line in missing(found, log.lines, runs, asked.cases, asked.claim):
        log.add(line)
    blind = [line for line in log.lines if "deviation" in line and line["seen"] < SEEN * line["cases"]]
    wrong = [line for line in log.lines if line.get("alarms") or line.get("errors")]
    print(*map(json.dumps, [*blind, *wrong]), sep="\n")
    judgings, trials = (sum(key in line for line in log.lines) for key in ("seed", "deviation"))
    print(
        f"{judgings} seeds, {len(wrong)} with an alarm or an error; {trials} deviations, {len(blind)} seen too rarely"
    )
    return 1 if blind or wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
