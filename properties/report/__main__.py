"""``python -m properties.report RECORD... --output PAGE``: records to one offline page."""

from __future__ import annotations

import argparse
import glob
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from properties.claims import MisuseError
from properties.report.merge import choose, merge
from properties.report.page import link, render
from properties.report.record import Record, RecordError, load
from properties.report.whole_file import write_whole
from properties.report.wording import counted
from properties.specification import read_inventory

ROOT = Path(__file__).parents[2]
BAD_INPUT = 4
"""The exit status of a usage error, as in pytest."""


class _Parser(argparse.ArgumentParser):
    """An argument parser whose complaint is one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"{self.prog}: {message}; --help shows how\n")


def main(arguments: Sequence[str]) -> int:
    """Read, merge, render and write; the exit status."""
    parser = _Parser(prog="python -m properties.report", description="Turn records of runs into one offline HTML page.")
    parser.add_argument("records", nargs="*", metavar="RECORD", help="a record that pytest wrote, or a pattern of them")
    parser.add_argument("--output", required=True, type=Path, metavar="PAGE", help="the page to write")
    asked = parser.parse_args(arguments)
    lacking = [name for name in ("jinja2", "pygments") if find_spec(name) is None]
    if "jinja2" in lacking:
        print("no page: it needs jinja2, which torch brings; pip install jinja2", file=sys.stderr)
        return 1
    if lacking:
        print("the page has no colours in its source listings: pip install pygments", file=sys.stderr)
    try:
        return _write_page(_paths(asked.records), asked.output)
    except (RecordError, MisuseError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return BAD_INPUT


def _write_page(paths: Sequence[Path], output: Path) -> int:
    found = [(path, load(path)) for path in sorted(paths)]
    if not found:
        raise RecordError("no records were named; name build/results/*.json after a run of pytest")
    chosen = choose(record for _, record in found)
    merged = merge(chosen)
    chapters = read_inventory(ROOT).chapters
    page = render(
        merged,
        titles={each.section: (each.title, each.title_zh) for each in chapters},
        links={record["environment"]["name"]: link(path, output) for path, record in found if record in chosen},
        notices=notices([record for _, record in found], chosen),
    )
    try:
        write_whole(output, page)
    except OSError as error:
        raise RecordError(
            f"{output}: the page could not be written ({error.strerror}); name a file in a folder that can be"
        ) from None
    print(f"{output}: {counted(len(merged.claims), 'claim')}, {counted(len(chosen), 'environment')}")
    return 0


def notices(given: Sequence[Record], chosen: Sequence[Record]) -> list[str]:
    """What a reader must know of the choice of records: which are partial, and which were left out."""
    told = []
    for record in chosen:
        environment = record["environment"]
        if environment["partial"]:
            told.append(
                f"No whole run of {environment['name']} is among the records."
                f" This one is partial: {environment['partial_reason']}."
            )
    for record in given:
        environment = record["environment"]
        if record not in chosen:
            kind = "A partial" if environment["partial"] else "An older"
            told.append(f"{kind} record of {environment['name']}, of {environment['at']}, was left out.")
    return sorted(told)


def _paths(named: Sequence[str]) -> list[Path]:
    """The files that were named; a pattern that the shell left as it was is expanded here."""
    paths: dict[Path, None] = {}
    for name in named:
        if Path(name).exists() or not glob.has_magic(name):
            paths[Path(name)] = None
            continue
        matches = sorted(glob.glob(name))
        if not matches:
            raise RecordError(f"{name}: no record matches; run pytest to write one")
        paths.update(dict.fromkeys(map(Path, matches)))
    return list(paths)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
