"""``python -m properties.measured RECORD...``: the ratios that runs measured, as a table in Markdown."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from properties.report.record import Record, RecordError, load

COLUMNS = ("claim", "of", "predicted", "measured", "between", "pairs", "band")


def rows(record: Record) -> Iterator[tuple[str, ...]]:
    """A row for each ratio in a record's evidence."""
    for claim in record["claims"]:
        for seen in claim["evidence"]:
            facts = seen["where"]
            if "band" not in facts:
                continue
            of = [str(value) for name, value in facts.items() if name not in ("interval", "pairs", "band")]
            label = ", ".join(filter(None, (seen["label"], *of)))
            measured = f"{seen['exact']:.4g} {seen['unit']}".strip()
            numbers = (f"{seen['rule']:.4g}", measured, facts["interval"], facts["pairs"], facts["band"])
            yield (claim["id"], label, *map(str, numbers))


def table(record: Record) -> str:
    """The device and its ratios; a sentence where a run measured none."""
    where = record["environment"]
    lines = [f"### {where['device_name']}, torch {where['torch']}, {where['at']}", ""]
    found = list(rows(record))
    if not found:
        return "\n".join([*lines, "Nothing was measured in this run.", ""])
    lines += [_line(COLUMNS), _line(["---"] * len(COLUMNS)), *map(_line, found)]
    return "\n".join([*lines, ""])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def main(paths: Sequence[str]) -> int:
    """Print a table for each record; 4 where there is none, or one that cannot be read."""
    try:
        if not paths:
            raise RecordError("no records were named; name build/results/*.json after a run of pytest")
        for path in paths:
            print(table(load(Path(path))))
    except RecordError as error:
        print(f"python -m properties.measured: {error}", file=sys.stderr)
        return 4
    return 0


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr] # where it is a file, Windows has no sign for ✓
    sys.exit(main(sys.argv[1:]))
