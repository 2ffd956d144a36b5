"""``python -m properties.bench_clock``: every timing claim many times over, on a machine that is kept busy.

Each property that times work runs on the processor, beside so many processes that do nothing but count. What it says
and what it takes is one JSON line in the log, and a campaign that was interrupted goes on where its log ends. A ratio
found outside its band is a false alarm: none is allowed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from properties import process, specification
from properties.busy import busy
from properties.claims import State
from properties.judging import Judgement, judge
from properties.levels import Level
from properties.log import Log
from properties.mutants.trial import arguments
from properties.needs import of_form
from properties.specification import Property, Specification

Form = tuple[Property, dict[str, object]]


def timing(found: Specification) -> list[Form]:
    """The properties, in each form, that time work on a processor."""
    forms = ((each, given) for each in found.properties for given in arguments(each))
    timed = [(each, given) for each, given in forms if "compare(" in each.source]
    return [(each, given) for each, given in timed if not of_form(each.note.needs, given)]


def said(judgement: Judgement) -> str:
    """What came of a property, in a word."""
    if judgement.agrees is False:
        return "false alarm"
    return "confirmed" if judgement.state is State.RAN else str(judgement.state)


def name(form: Form) -> str:
    """A property's name with its arguments."""
    each, given = form
    told = "-".join(str(value) for value in given.values())
    return each.function.__name__ + (f"[{told}]" if told else "")


def once(form: Form, found: Specification) -> dict[str, Any]:
    """Run a property once, and return its line of the log."""
    each, given = form
    processor = time.process_time()
    seen = judge(each.function, each.note, found.claim(each.note), level=Level.DEFAULT, seed=0, arguments=given)
    processor = time.process_time() - processor
    line: dict[str, Any] = {"property": name(form), "said": said(seen), "load": round(os.getloadavg()[0], 1)}
    line |= {"seconds": round(seen.seconds, 3), "processor": round(processor, 3)}
    if line["said"] != "confirmed":
        line["why"] = str(seen.exception or seen.reason)
    return line


def summary(lines: Iterable[dict[str, Any]]) -> list[str]:
    """A line a property, and one for all."""
    by_name: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        by_name.setdefault(line["property"], []).append(line)
    said = [f"{name:<100} {_outcomes(of_it)}; {_medians(of_it)}" for name, of_it in by_name.items()]
    whole = [line for of_it in by_name.values() for line in of_it]
    loads = sorted(line["load"] for line in whole)
    return [*said, f"all: {_outcomes(whole)}; load {loads[0]} to {loads[-1]}" if whole else "nothing was run"]


def _outcomes(lines: list[dict[str, Any]]) -> str:
    counted = sorted(Counter(line["said"] for line in lines).items())
    return ", ".join(f"{count} {outcome}" for outcome, count in counted)


def _medians(lines: list[dict[str, Any]]) -> str:
    processor, seconds = (statistics.median(line[what] for line in lines) for what in ("processor", "seconds"))
    return f"{processor:.2f} s of a processor, {seconds:.2f} s"


def main(options: list[str]) -> int:
    """Run what is missing of the campaign, round by round, and print a summary; 1 after a false alarm or an error."""
    parser = argparse.ArgumentParser(prog="python -m properties.bench_clock", description=__doc__)
    parser.add_argument("--runs", type=int, default=100, help="runs of each property (100)")
    parser.add_argument("--busy", type=int, default=2, help="processes beside it (2)")
    parser.add_argument("--log", type=Path, default=Path("build/clock.jsonl"), help="one JSON line a property and run")
    asked = parser.parse_args(options)
    root = Path.cwd()
    process.judge_in(root, Level.DEFAULT)
    found = specification.read(root, specification.read_inventory(root))
    log = Log(asked.log)
    done = Counter(line["property"] for line in log.lines)
    missing = [form for run in range(asked.runs) for form in timing(found) if run >= done[name(form)]]
    with busy(asked.busy):
        for form in missing:
            log.add(once(form, found))
    print(*summary(log.lines), sep="\n")
    return 1 if any(line["said"] in ("false alarm", "error") for line in log.lines) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
