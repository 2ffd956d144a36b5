"""Which Chinese texts of the inventory were written for an English that has changed since.

``python -m properties.report.translations`` lists them, and ends with status 1 where there are any. Once the Chinese
has been read again and renewed, ``--renew ID...`` notes the English that it stands for, as a digest beside it;
``--renew`` alone notes that of texts which have no digest yet. An id may be the beginning of one (``formats.bf16``),
and a chapter is named by its section (``chapter.5``).
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from properties.claims import MisuseError
from properties.report.whole_file import write_whole
from properties.specification import FOLDER, Inventory, Specification, read, read_inventory

ROOT = Path(__file__).parents[2]
DIGITS = 8
"""Hexadecimal digits of a digest: enough to notice a change, and short enough to read past."""
FIELD = "says_sha"


def digest(*texts: str | None) -> str:
    """A few digits that another text would not have."""
    return hashlib.sha256("\n".join(text or "" for text in texts).encode("utf-8")).hexdigest()[:DIGITS]


@dataclass(frozen=True)
class Translation:
    """A text's name, the digest of its English as it is, and of the English that its Chinese was written for."""

    name: str
    current: str
    written_for: str | None

    @property
    def stale(self) -> bool:
        """Whether the English has changed since, or nothing says what the Chinese was written for."""
        return self.written_for != self.current

    def __str__(self) -> str:
        why = "has no digest yet" if self.written_for is None else "the English has changed since"
        return f"{self.name}: {why}"


def translations(inventory: Inventory, specification: Specification) -> list[Translation]:
    """Every text that the inventory has in Chinese; a claim that no code states is left to those who check that."""
    chapters = [
        Translation(f"chapter.{each.section}", digest(each.title, each.intro), each.says_sha)
        for each in inventory.chapters
    ]
    claims = [
        Translation(entry.id, digest(claim.says, claim.instead), entry.says_sha)
        for entry in inventory.entries
        if (claim := specification.claims.get(entry.id)) is not None
    ]
    return [*chapters, *claims]


def stamped(text: str, digests: Mapping[str, str]) -> str:
    """The inventory's text with these digests, each in its table; everything else stays as it is.

    Raises ValueError for a name that the text has no table for.
    """
    tables = re.split(r"(?m)^(?=\[\[)", text)
    missing = set(digests)
    for place, table in enumerate(tables):
        name = _name(table)
        if name is not None and name in digests:
            tables[place] = _with_digest(table, digests[name])
            missing.discard(name)
    if missing:
        raise ValueError(f"no table of the inventory is for {', '.join(sorted(missing))}")
    return "".join(tables)


def _name(table: str) -> str | None:
    if not table.startswith("[["):
        return None
    kind, content = next(iter(tomllib.loads(table).items()))
    return str(content[0]["id"]) if kind == "claim" else f"chapter.{content[0]['section']}"


def _with_digest(table: str, digits: str) -> str:
    line = f'{FIELD} = "{digits}"\n'
    if re.search(rf"(?m)^{FIELD} = ", table):
        return re.sub(rf"(?m)^{FIELD} = .*\n?", line, table, count=1)
    # After the table's last line that is neither empty nor a comment: what follows belongs to the next table.
    lines = table.splitlines(keepends=True)
    last = max(number for number, each in enumerate(lines) if each.strip() and not each.startswith("#"))
    lines[last] = lines[last].rstrip("\n") + "\n"
    return "".join([*lines[: last + 1], line, *lines[last + 1 :]])


def chosen(all_of_them: Iterable[Translation], names: Sequence[str]) -> list[Translation]:
    """Those that are named, by their name or its beginning; without names those that have no digest yet.

    Raises MisuseError for a name that fits nothing.
    """
    known = list(all_of_them)
    if not names:
        return [each for each in known if each.written_for is None]
    found: dict[str, Translation] = {}
    for name in names:
        fitting = [each for each in known if each.name == name or each.name.startswith(f"{name}.")]
        if not fitting:
            raise MisuseError(f"{name}: the inventory has no such id; name a claim, or chapter.5")
        found |= {each.name: each for each in fitting}
    return list(found.values())


def main(arguments: Sequence[str]) -> int:
    """List what is stale, or note what was renewed; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m properties.report.translations", description=__doc__)
    parser.add_argument("--renew", nargs="*", metavar="ID", help="note the English that these texts now stand for")
    asked = parser.parse_args(arguments)
    try:
        inventory = read_inventory(ROOT)
        known = translations(inventory, read(ROOT, inventory))
        if asked.renew is None:
            stale = [each for each in known if each.stale]
            print("\n".join(map(str, stale)) or f"all {len(known)} texts stand for the English as it is")
            return 1 if stale else 0
        renewed = [each for each in chosen(known, asked.renew) if each.stale]
    except MisuseError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 4
    path = ROOT / FOLDER / "inventory.toml"
    changed = stamped(path.read_text(encoding="utf-8"), {each.name: each.current for each in renewed})
    write_whole(path, changed.encode("utf-8"))
    print(f"{path.name}: {len(renewed)} renewed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
