"""``python -m properties.bench_clock``: every timing claim many times over, on a machine that is kept busy.

Each property that times work runs on the processor, beside so many processes that do nothing but count; what it says
and what it takes is printed. A ratio found outside its band is a false alarm: none is allowed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from properties import levels, process, specification
from properties.claims import State
from properties.judging import Judgement, judge
from properties.levels import Level
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


def count_up() -> None:
    """Keep a processor busy until ended."""
    number = 0
    while True:
        number += 1


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """So many processes that do nothing but count."""
    counting = [multiprocessing.Process(target=count_up, daemon=True) for _ in range(processes)]
    for each in counting:
        each.start()
    try:
        yield
    finally:
        for each in counting:
            each.terminate()
            each.join()


def name(form: Form) -> str:
    """A property's name with its arguments."""
    each, given = form
    told = "-".join(str(value) for value in given.values())
    return each.function.__name__ + (f"[{told}]" if told else "")


def main(options: list[str]) -> int:
    """Print a line a property and one for all; 1 after a false alarm."""
    parser = argparse.ArgumentParser(prog="python -m properties.bench_clock", description=__doc__)
    parser.add_argument("--runs", type=int, default=100, help="runs of each property (100)")
    parser.add_argument("--busy", type=int, default=2, help="processes beside it (2)")
    asked = parser.parse_args(options)
    root = Path.cwd()
    levels.register_profiles(root / "build" / "hypothesis")
    levels.load(Level.DEFAULT)
    process.prepare()
    found = specification.read(root, specification.read_inventory(root))
    total: Counter[str] = Counter()
    once = 0.0
    with busy(asked.busy):
        print(f"{asked.runs} runs beside {asked.busy} busy processes, load {os.getloadavg()[0]:.1f} at the start")
        for form in timing(found):
            each, given = form
            outcomes: Counter[str] = Counter()
            seconds, processor = [], time.process_time()
            for _ in range(asked.runs):
                seen = judge(
                    each.function, each.note, found.claim(each.note), level=Level.DEFAULT, seed=0, arguments=given
                )
                outcomes[said(seen)] += 1
                seconds.append(seen.seconds)
            taken = (time.process_time() - processor) / asked.runs
            once += taken
            total += outcomes
            counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
            print(
                f"{name(form):<88} {counts}; {taken:.2f} s of a processor, {statistics.median(seconds):.2f} s",
                flush=True,
            )
    print(f"all: {dict(total)}; {once:.1f} s of a processor a run, load {os.getloadavg()[0]:.1f} at the end")
    return 1 if total["false alarm"] or total["error"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
