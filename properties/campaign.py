"""``python -m properties.campaign``: many whole runs with other seeds and orders, to see that no verdict changes.

Every second run goes through ``-n 2``, and of every four the last two have ``--busy`` processes beside them; where
pytest-randomly is installed, each has an order of its own. One JSON line a run is added to the log, and a campaign that
was interrupted goes on where its log ends. A measurement that a run was too noisy for is counted, and changes nothing.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from properties.busy import busy
from properties.claims import State
from properties.log import Log
from properties.report.record import RecordError, load

NOTHING_RUN = (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED)


def command(run: int, seed: int, record: Path, extra: list[str]) -> list[str]:
    """The pytest command of one run."""
    words = [sys.executable, "-m", "pytest", "-q", f"--hypothesis-seed={seed}", f"--results={record}"]
    if importlib.util.find_spec("pytest_randomly") is not None:
        words += ["-p", "randomly", f"--randomly-seed={seed}"]
    if run % 2 and importlib.util.find_spec("xdist") is not None:
        words += ["-n", "2"]
    return words + extra


def outcomes(record: Path) -> dict[str, list[Any]]:
    """What a record says of each claim: verdict, state, agreement."""
    return {claim["id"]: [claim["verdict"], claim["state"], claim["agrees"]] for claim in load(record)["claims"]}


def beside(run: int, busy: int) -> int:
    """How many busy processes a run has beside it."""
    return busy if run % 4 >= 2 else 0


def once(run: int, seed: int, processes: int, extra: list[str]) -> dict[str, Any]:
    """Make one run, and return its line of the log; SystemExit where pytest has nothing to run, as no run would."""
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    line: dict[str, Any] = {"run": run, "seed": seed, "beside": processes}
    with tempfile.TemporaryDirectory() as folder, busy(processes):
        record = Path(folder) / "record.json"
        started = time.perf_counter()
        finished = subprocess.run(command(run, seed, record, extra), env=environment, capture_output=True, text=True)
        if finished.returncode in NOTHING_RUN:
            raise SystemExit(
                f"pytest ran no property. {finished.stderr.strip() or 'Its arguments deselect every one.'}"
            )
        line |= {"status": finished.returncode, "seconds": round(time.perf_counter() - started, 1)}
        try:
            line["claims"] = outcomes(record)
        except RecordError as unreadable:
            line["claims"], line["error"] = {}, f"{unreadable}; {finished.stdout[-2000:]}"
        if finished.returncode:
            line["output"] = finished.stdout[-20000:]
        return line


def changes(lines: list[dict[str, Any]]) -> list[str]:
    """Each run that failed, and each claim that came out in two ways, where neither was too noisy to say."""
    found = [f"run {line['run']} (seed {line['seed']}): status {line['status']}" for line in lines if line["status"]]
    first: dict[str, list[Any]] = {}
    for line in lines:
        for id, said in sorted(line["claims"].items()):
            if not noisy(said) and first.setdefault(id, said) != said:
                found.append(f"run {line['run']} (seed {line['seed']}): {id} {said}, not {first[id]}")
    return found


def noisy(said: list[Any]) -> bool:
    """Whether a claim's measurement was too noisy to say."""
    return bool(said[1] == State.INCONCLUSIVE)


def figures(lines: list[dict[str, Any]]) -> str:
    """What the runs came to: how many, with what beside them, how long, and how often something was too noisy."""
    seconds = [line["seconds"] for line in lines]
    return (
        f"{len(lines)} runs, {sum(line['beside'] > 0 for line in lines)} with a busy machine, {min(seconds):.0f} to"
        f" {max(seconds):.0f} s; {len(lines[0]['claims'])} claims, {sum(map(noisy, said(lines)))} times one was too"
        " noisy to say"
    )


def said(lines: list[dict[str, Any]]) -> list[list[Any]]:
    """What every run says of every claim."""
    return [each for line in lines for each in line["claims"].values()]


def main(arguments: list[str]) -> int:
    """Run what is missing of the campaign; 1 where a verdict changed or a run failed."""
    parser = argparse.ArgumentParser(prog="python -m properties.campaign", description=__doc__)
    parser.add_argument("--runs", type=int, default=30, help="how many runs in all (30)")
    parser.add_argument("--first-seed", type=int, default=1000, help="the first run's seed; each next has one more")
    parser.add_argument("--busy", type=int, default=0, help="processes beside half of the runs (0)")
    parser.add_argument("--log", type=Path, default=Path("build/campaign.jsonl"), help="one JSON line a run")
    parser.add_argument("pytest", nargs="*", help="further arguments for pytest, after --")
    chosen = parser.parse_args(arguments)
    if chosen.runs < 1:
        parser.error(f"--runs: {chosen.runs} is no number of runs")
    log = Log(chosen.log)
    for run in range(len(log.lines), chosen.runs):
        line = once(run, chosen.first_seed + run, beside(run, chosen.busy), chosen.pytest)
        log.add(line)
        print(f"run {run}: seed {line['seed']}, status {line['status']}, {line['seconds']} s", flush=True)
    found = changes(log.lines)
    print("\n".join([figures(log.lines), *(found or ["no verdict changed"])]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
