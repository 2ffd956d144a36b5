"""Records to what is read of them.

``python -m properties.report RECORD... --output PAGE`` makes one offline page of them, ``table RECORD...`` prints the
table of verdicts in Markdown, and ``diff OLD NEW`` prints what changed from one record to another, as Markdown with
``--markdown``: its status is 1 where a claim that held no longer does. ``keep RECORD...`` keeps the newest of them that
is fit under ``spec/records/``; with records or without, it makes what README tells of the kept ones anew. A folder
stands for the records in it.
"""

from __future__ import annotations

import argparse
import glob
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from properties.claims import MisuseError
from properties.report import comparison, kept, verdict_table
from properties.report.languages import Phrase, counted
from properties.report.merge import choose, current, merge
from properties.report.page import link, render
from properties.report.record import Record, RecordError, load
from properties.report.whole_file import write_whole
from properties.specification import read_inventory

ROOT = Path(__file__).parents[2]
PROGRAM = "python -m properties.report"
GRACES = {"pygments": "colours in its source listings", "sympy": "formulas"}
"""What the page does without where a package is missing."""
BAD_INPUT = 4
"""The exit status of a usage error, as in pytest."""


class _Parser(argparse.ArgumentParser):
    """An argument parser whose complaint is one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"{self.prog}: {message}; --help shows how\n")


def main(arguments: Sequence[str]) -> int:
    """Do what is asked; the exit status."""
    asked = {"diff": _diff, "keep": _keep, "table": _table}
    do, rest = (asked[arguments[0]], arguments[1:]) if arguments and arguments[0] in asked else (_page, arguments)
    try:
        return do(rest)
    except (RecordError, MisuseError) as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return BAD_INPUT


def _diff(arguments: Sequence[str]) -> int:
    """What changed from one record to another."""
    parser = _Parser(prog=f"{PROGRAM} diff", description="Print what changed from one record to another.")
    parser.add_argument("old", type=Path, metavar="OLD", help="a record, or the folder with one of NEW's environment")
    parser.add_argument("new", type=Path, metavar="NEW", help="a later one")
    parser.add_argument(
        "--markdown",
        dest="told",
        action="store_const",
        const=comparison.as_markdown,
        default=comparison.as_text,
        help="in Markdown, for a workflow's summary",
    )
    asked = parser.parse_args(arguments)
    new = load(asked.new)
    name = new["environment"]["name"]
    old = _of_environment(name, asked.old) if asked.old.is_dir() else load(asked.old)
    if old is None:
        print(f"{asked.old} has no record of {name} to compare with.")
        return 0
    found = comparison.changes(old, new)
    print(asked.told(old, new, found), end="")
    return 1 if comparison.failed(found) else 0


def _of_environment(name: str, folder: Path) -> Record | None:
    """The record of an environment among those of a folder, or None."""
    return next((one for one in choose(map(load, kept.records_in(folder))) if one["environment"]["name"] == name), None)


def _keep(arguments: Sequence[str]) -> int:
    """Keep a record, and renew what README tells of those that are kept."""
    parser = _Parser(prog=f"{PROGRAM} keep", description="Keep a record, and renew README's tables of those kept.")
    parser.add_argument("records", nargs="*", metavar="RECORD", help="a record, a pattern of them, or their folder")
    found = [(path, load(path)) for path in _paths(parser.parse_args(arguments).records)]
    if found:
        print(f"{kept.keep(found, ROOT / kept.FOLDER)}: kept")
    readme = ROOT / "README.md"
    records = [load(path) for path in kept.records_in(ROOT / kept.FOLDER)]
    chapters = read_inventory(ROOT).chapters
    write_whole(readme, kept.told(readme.read_text(encoding="utf-8"), records, chapters).encode("utf-8"))
    print(f"{readme}: tells of {counted(len(records), 'kept record')}")
    return 0


def _table(arguments: Sequence[str]) -> int:
    """The table of verdicts."""
    parser = _Parser(prog=f"{PROGRAM} table", description="Print the table of verdicts in Markdown.")
    parser.add_argument("records", nargs="+", metavar="RECORD", help="a record, a pattern of them, or their folder")
    asked = parser.parse_args(arguments)
    merged = merge(load(path) for path in sorted(_paths(asked.records)))
    print(verdict_table.as_markdown(merged, read_inventory(ROOT).chapters), end="")
    return 0


def _page(arguments: Sequence[str]) -> int:
    """Read, merge, render and write."""
    parser = _Parser(prog=PROGRAM, description="Turn records of runs into one offline HTML page.")
    parser.add_argument("records", nargs="*", metavar="RECORD", help="a record, a pattern of them, or their folder")
    parser.add_argument("--output", required=True, type=Path, metavar="PAGE", help="the page to write")
    asked = parser.parse_args(arguments)
    if find_spec("jinja2") is None:
        print("no page: it needs jinja2, which torch brings; pip install jinja2", file=sys.stderr)
        return 1
    lacking = [(name, without) for name, without in GRACES.items() if find_spec(name) is None]
    if lacking:
        names, without = (list(each) for each in zip(*lacking, strict=True))
        print(f"the page has no {' and no '.join(without)}: pip install {' '.join(names)}", file=sys.stderr)
    return _write_page(_paths(asked.records), asked.output)


def _write_page(paths: Sequence[Path], output: Path) -> int:
    found = [(path, load(path)) for path in sorted(paths)]
    if not found:
        raise RecordError("no records were named; name build/results/*.json after a run of pytest")
    records = [record for _, record in found]
    chosen = current(records)
    merged = merge(chosen, tried=records)
    told = notices(records, chosen)
    page = render(
        merged,
        chapters=read_inventory(ROOT).chapters,
        links={record["environment"]["name"]: link(path, output) for path, record in found if record in chosen},
        notices=told,
    )
    try:
        write_whole(output, page)
    except OSError as error:
        raise RecordError(
            f"{output}: the page could not be written ({error.strerror}); name a file in a folder that can be"
        ) from None
    print(f"{output}: {counted(len(merged.claims), 'claim')}, {counted(len(chosen), 'environment')}")
    for each in told:
        print(each.en)
    return 0


def notices(given: Sequence[Record], chosen: Sequence[Record]) -> list[Phrase]:
    """What a reader must know of the choice of records: which are partial, and which were left out."""
    told = []
    for record in chosen:
        environment = record["environment"]
        name, why = environment["name"], environment["partial_reason"]
        if environment["partial"]:
            told.append(
                Phrase(
                    f"No whole run of {name} is among the records. This one is partial: {why}.",
                    f"记录中没有 {name} 的完整运行，这一份不完整：{why}。",
                )
            )
    best = choose(given)
    for record in given:
        environment = record["environment"]
        name, at = environment["name"], environment["at"]
        if record in best and record not in chosen:
            told.append(
                Phrase(
                    f"The record of {name}, of {at}, was left out: each of its properties has changed since.",
                    f"{name} 在 {at} 的记录没有采用：其中的每一个性质此后都已改写。",
                )
            )
        elif record not in chosen:
            en, zh = ("A partial", "不完整") if environment["partial"] else ("An older", "较旧")
            told.append(
                Phrase(f"{en} record of {name}, of {at}, was left out.", f"{name} 在 {at} 的一份{zh}的记录没有采用。")
            )
    return sorted(told, key=lambda each: each.en)


def _paths(named: Sequence[str]) -> list[Path]:
    """The files that were named or are in a folder; a pattern that the shell left as it was is expanded here."""
    paths: dict[Path, None] = {}
    for name in named:
        if Path(name).is_dir():
            paths.update(dict.fromkeys(kept.records_in(Path(name))))
            continue
        if Path(name).exists() or not glob.has_magic(name):
            paths[Path(name)] = None
            continue
        matches = sorted(glob.glob(name))
        if not matches:
            raise RecordError(f"{name}: no record matches; run pytest to write one")
        paths.update(dict.fromkeys(map(Path, matches)))
    return list(paths)


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr] # where it is a file, Windows has no sign for ✓
    sys.exit(main(sys.argv[1:]))
