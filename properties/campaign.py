"""``python -m properties.campaign``: many whole runs with other seeds and orders, to see that no verdict changes.

Every second run goes through ``-n 2``; where pytest-randomly is installed, each has an order of its own. One JSON line
a run is added to the log, and a campaign that was interrupted goes on where its log ends.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from properties.report.record import RecordError, load


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


def once(run: int, seed: int, extra: list[str]) -> dict[str, Any]:
    """Make one run, and return its line of the log."""
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "record.json"
        started = time.perf_counter()
        finished = subprocess.run(command(run, seed, record, extra), env=environment, capture_output=True, text=True)
        seconds = time.perf_counter() - started
        line: dict[str, Any] = {"run": run, "seed": seed, "status": finished.returncode, "seconds": round(seconds, 1)}
        try:
            line["claims"] = outcomes(record)
        except RecordError as unreadable:
            line["claims"], line["error"] = {}, f"{unreadable}; {finished.stdout[-2000:]}"
        if finished.returncode:
            line["output"] = finished.stdout[-20000:]
        return line


def changes(lines: list[dict[str, Any]]) -> list[str]:
    """Each claim that came out otherwise in some run than in the first, and each run that failed."""
    found = [f"run {line['run']} (seed {line['seed']}): status {line['status']}" for line in lines if line["status"]]
    first = lines[0]["claims"] if lines else {}
    for line in lines[1:]:
        for id in sorted(first.keys() | line["claims"].keys()):
            if first.get(id) != line["claims"].get(id):
                found.append(
                    f"run {line['run']} (seed {line['seed']}): {id} {line['claims'].get(id)}, not {first.get(id)}"
                )
    return found


def main(arguments: list[str]) -> int:
    """Run what is missing of the campaign; 1 where a verdict changed or a run failed."""
    parser = argparse.ArgumentParser(prog="python -m properties.campaign", description=__doc__)
    parser.add_argument("--runs", type=int, default=30, help="how many runs in all (30)")
    parser.add_argument("--first-seed", type=int, default=1000, help="the first run's seed; each next has one more")
    parser.add_argument("--log", type=Path, default=Path("build/campaign.jsonl"), help="one JSON line a run")
    parser.add_argument("pytest", nargs="*", help="further arguments for pytest, after --")
    chosen = parser.parse_args(arguments)
    chosen.log.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.loads(line) for line in chosen.log.read_text().splitlines()] if chosen.log.exists() else []
    for run in range(len(lines), chosen.runs):
        line = once(run, chosen.first_seed + run, chosen.pytest)
        with chosen.log.open("a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")
        lines.append(line)
        print(f"run {run}: seed {line['seed']}, status {line['status']}, {line['seconds']} s", flush=True)
    found = changes(lines)
    print("\n".join(found) or f"{len(lines)} runs, {len(lines[0]['claims'])} claims: no verdict changed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
