"""The specification as data: the inventory, the claims in code, their properties, and what is wrong with them."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from types import ModuleType
from typing import Any

from properties.assertions import asks_nothing_outside, checks_anything, written
from properties.claims import NOTE, Awaited, Claim, MisuseError, Note, Role, Verdict, body
from properties.needs import REASONS

FOLDER = "spec"


@dataclass(frozen=True)
class Chapter:
    """A chapter of the document."""

    section: str
    title: str
    title_zh: str
    marker: str
    intro: str | None = None
    intro_zh: str | None = None
    says_sha: str | None = None


@dataclass(frozen=True)
class Entry:
    """A claim's line in the inventory."""

    id: str
    section: str
    origin: str
    says_zh: str
    instead_zh: str | None = None
    says_sha: str | None = None


@dataclass(frozen=True)
class Inventory:
    """What has landed, in the document's order."""

    chapters: tuple[Chapter, ...] = ()
    entries: tuple[Entry, ...] = ()

    @property
    def ids(self) -> list[str]:
        """Every claim's id, in order."""
        return [entry.id for entry in self.entries]


@dataclass(frozen=True)
class Property:
    """One property in code."""

    note: Note
    function: Callable[..., None]
    node: str

    @property
    def source(self) -> str:
        """The property as it is written, decorators included."""
        return written(inspect.unwrap(body(self.function)))

    def facts(self) -> dict[str, Any]:
        """What a record says of it before it ran."""
        source = self.source
        return {
            "id": self.note.id,
            "node": self.node,
            "file": self.node.split("::", 1)[0],
            "line": self.note.line,
            "role": str(self.note.role),
            "says": self.note.says,
            "needs": self.note.needs,
            "source": source,
            "source_sha256": hashlib.sha256(source.encode()).hexdigest(),
        }


@dataclass
class Specification:
    """Everything that ``spec/`` says, and every problem found in it."""

    root: Path
    inventory: Inventory
    claims: dict[str, Claim] = field(default_factory=dict)
    properties: list[Property] = field(default_factory=list)
    awaited: list[Awaited] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def problems_in(self, files: set[str]) -> list[str]:
        """The problems that a run over these modules has; over all modules, those of the inventory too."""
        modules = {f"{FOLDER}/{path.name}" for path in (self.root / FOLDER).glob("test_*.py")}
        if modules <= files:
            return self.problems
        return [problem for problem in self.problems if problem.split(":", 1)[0] in files]

    def claim(self, note: Note) -> Claim:
        """The claim that a property belongs to."""
        return self.claims[note.id]

    def property_at(self, node: str, note: Note) -> Property:
        """The property of which a node is one form, with the claim that a note names."""
        written_at = node.split("[")[0]
        return next(each for each in self.properties if each.node == written_at and each.note is note)

    def catalogue(self, selected: list[str]) -> dict[str, Any]:
        """The specification as plain data, with the nodes this run has selected."""
        entries = {entry.id: entry for entry in self.inventory.entries}
        claims = []
        for id in [each for each in self.inventory.ids if each in self.claims]:
            claim, entry = self.claims[id], entries[id]
            claims.append(
                {
                    "id": id,
                    "section": entry.section,
                    "origin": entry.origin,
                    "says": claim.says,
                    "says_zh": entry.says_zh,
                    "verdict": str(claim.verdict),
                    "instead": claim.instead,
                    "instead_zh": entry.instead_zh,
                    "source": claim.source,
                    "related": list(claim.related),
                    "false_alarm": claim.false_alarm,
                }
            )
        return {
            "chapters": [asdict(chapter) for chapter in self.inventory.chapters],
            "claims": claims,
            "properties": [each.facts() for each in self.properties],
            "awaited": [asdict(each) for each in self.awaited],
            "selected": selected,
            "complete": not self.problems,
        }


def read_inventory(root: Path) -> Inventory:
    """The inventory of the specification under ``root``; MisuseError says what is wrong with it."""
    path = root / FOLDER / "inventory.toml"
    shown = f"{FOLDER}/inventory.toml"
    try:
        with path.open("rb") as handle:
            raw = tomllib.load(handle)
    except FileNotFoundError:
        raise MisuseError(f"{shown}: there is no such file; list every claim's id there") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as broken:
        raise MisuseError(f"{shown}: not valid TOML: {broken}") from None
    except OSError as unreadable:
        raise MisuseError(f"{shown}: cannot be read ({unreadable.strerror})") from None
    for kind in ("chapter", "claim"):
        tables = raw.get(kind, [])
        if not isinstance(tables, list):
            raise MisuseError(f"{shown}: {kind} is no list of tables; write [[{kind}]]")
        for number, table in enumerate(tables, 1):
            _check_table(shown, kind, number, table)
    try:
        inventory = Inventory(
            tuple(Chapter(**chapter) for chapter in raw.get("chapter", [])),
            tuple(Entry(**entry) for entry in raw.get("claim", [])),
        )
    except TypeError as wrong:
        raise MisuseError(f"{shown}: {str(wrong).replace('__init__() ', '')}") from None
    seen: set[str] = set()
    sections = {chapter.section for chapter in inventory.chapters}
    for entry in inventory.entries:
        if entry.id in seen:
            raise MisuseError(f"{shown}: {entry.id} is listed twice")
        if entry.section not in sections:
            raise MisuseError(f"{shown}: {entry.id} names section {entry.section!r}, which no [[chapter]] has")
        seen.add(entry.id)
    return inventory


ORIGINS = ("document", "companion")
ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*(\.[a-z0-9]+(-[a-z0-9]+)*)+")


def _check_table(shown: str, kind: str, number: int, table: object) -> None:
    """Refuse a [[chapter]] or [[claim]] that is no table, or whose values are no text."""
    if not isinstance(table, dict):
        raise MisuseError(f"{shown}: {kind} number {number} is no table; write [[{kind}]]")
    place = f"{shown}: [[{kind}]] number {number} ({table.get('id', table.get('section', '?'))})"
    for name, value in table.items():
        if not isinstance(value, str) or not value.strip():
            raise MisuseError(f"{place}: {name} is {value!r}; give it a text")
    needed = [each.name for each in fields(Chapter if kind == "chapter" else Entry) if each.default is MISSING]
    lacking = [name for name in needed if name not in table]
    if lacking:
        raise MisuseError(f"{place}: it lacks {', '.join(lacking)}")
    if kind == "claim" and table["origin"] not in ORIGINS:
        raise MisuseError(f"{place}: origin is {table['origin']!r}; use {' or '.join(ORIGINS)}")
    if kind == "claim" and not ID.fullmatch(table["id"]):
        raise MisuseError(f"{place}: id is {table['id']!r}; use words in small letters, joined by dots and hyphens")
    if kind == "chapter" and not (table["section"].isdecimal() and table["marker"].isidentifier()):
        raise MisuseError(f"{place}: the section is a number, and the marker a Python name")


def read(root: Path, inventory: Inventory) -> Specification:
    """Import every module under ``spec/`` and gather what they declare."""
    specification = Specification(root, inventory)
    notes: list[Note] = []
    for path in sorted((root / FOLDER).glob("test_*.py")):
        try:
            module = _module(path)
        except Exception as broken:  # pytest shows the error itself where it collects this module
            specification.problems.append(f"{FOLDER}/{path.name}:1: cannot be imported: {broken}")
            continue
        for declared in vars(module).get("assay_declared", []):
            if isinstance(declared, Claim):
                _add(specification, declared)
            else:
                specification.awaited.append(declared)
        for name, function in _functions(module):
            node = f"{FOLDER}/{path.name}::{name}"
            note = getattr(function, NOTE, None)
            if note is None:
                if name.startswith("test"):
                    file, line = _place(function, root)
                    specification.problems.append(
                        f"{file}:{line}: {name} is bound to no claim; give it @holds or another decorator,"
                        " or move it out of the specification"
                    )
                continue
            notes.append(note)
            if not name.startswith("test"):
                specification.problems.append(
                    f"{_at(note, root)}: {name} is bound to {note.id}, and pytest runs only functions named test_..."
                )
            specification.properties.append(Property(note, function, node))
            if note.claim is not None:
                _add(specification, note.claim)
    _check(specification)
    return specification


def _module(path: Path) -> ModuleType:
    name = f"{FOLDER}.{path.stem}"
    loaded = sys.modules.get(name) or sys.modules.get(path.stem)
    if loaded is not None and Path(loaded.__file__ or "") == path:
        return loaded
    return importlib.import_module(name)


def _functions(module: ModuleType) -> Iterator[tuple[str, Callable[..., None]]]:
    for name, value in vars(module).items():
        if inspect.isfunction(value) and value.__module__ == module.__name__:
            yield name, value


def _place(function: Callable[..., None], root: Path) -> tuple[str, int]:
    code = inspect.unwrap(body(function)).__code__
    return shown(code.co_filename, root), code.co_firstlineno


def shown(file: str, root: Path) -> str:
    """A path as a reader knows it: from the repository's root."""
    path = Path(file)
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else file


def _add(specification: Specification, claim: Claim) -> None:
    first = specification.claims.setdefault(claim.id, claim)
    if first is not claim:
        specification.problems.append(
            f"{_at(claim, specification.root)}: {claim.id} is stated here and at {_at(first, specification.root)};"
            " state it once, and bind further properties with @also"
        )


def _at(place: Claim | Awaited | Note, root: Path) -> str:
    return f"{shown(place.file, root)}:{place.line}"


def _check(specification: Specification) -> None:
    claims, root, problems = specification.claims, specification.root, specification.problems
    listed = set(specification.inventory.ids)
    properties: dict[str, list[Property]] = {}
    for each in specification.properties:
        properties.setdefault(each.note.id, []).append(each)
        problems.extend(_property_problems(each, claims, root))
    awaited = {each.id for each in specification.awaited}
    for part in specification.awaited:
        if part.id not in claims:
            problems.append(f"{_at(part, root)}: a part of {part.id} is awaited, and nothing states that claim")
        if part.needs not in REASONS:
            problems.append(f"{_at(part, root)}: {part.needs!r} is no need that is known: {', '.join(REASONS)}")
    for claim in claims.values():
        place = _at(claim, root)
        if claim.id not in listed:
            problems.append(f"{place}: {claim.id} is not listed in {FOLDER}/inventory.toml")
        if not claim.says:
            problems.append(f"{place}: {claim.id} has no statement")
        if claim.verdict is Verdict.CONTEXT:
            if claim.id in properties:
                problems.append(f"{place}: {claim.id} is context, and context has no properties")
            continue
        if claim.id not in properties and claim.id not in awaited:
            problems.append(f"{place}: {claim.id} has neither a property nor a reason for having none")
        if claim.verdict is Verdict.REFUTED and not any(
            each.note.role is Role.CORRECTION for each in properties.get(claim.id, [])
        ):
            problems.append(f"{place}: {claim.id} is refuted, and no property corrects it; add one with @corrects")
    for id in specification.inventory.ids:
        if id not in claims:
            line = _inventory_line(root, id)
            problems.append(f"{FOLDER}/inventory.toml:{line}: {id} is listed, and no module under {FOLDER}/ states it")


def _inventory_line(root: Path, id: str) -> int:
    lines = (root / FOLDER / "inventory.toml").read_text(encoding="utf-8").splitlines()
    return next((number for number, line in enumerate(lines, 1) if f'"{id}"' in line or f"'{id}'" in line), 1)


def _property_problems(each: Property, claims: dict[str, Claim], root: Path) -> Iterator[str]:
    note, place = each.note, _at(each.note, root)
    claim = claims.get(note.id)
    if claim is None:
        yield f"{place}: {each.function.__name__} belongs to {note.id}, and nothing states that claim"
        return
    if note.role is Role.CORRECTION and claim.verdict is not Verdict.REFUTED:
        yield f"{place}: {note.id} is not refuted but {claim.verdict}; bind its properties with @also"
    for need in note.needs:
        if need not in REASONS:
            yield f"{place}: {need!r} is no need that is known: {', '.join(REASONS)}"
    if not checks_anything(each.function) and note.role is not Role.STATEMENT:
        yield f"{place}: {each.function.__name__} asserts nothing itself; use assert, every() or observe()"
    if note.role is not Role.STATEMENT and asks_nothing_outside(each.function):
        yield (
            f"{place}: {each.function.__name__} asserts nothing outside its condition; compare the outcome with when(),"
            " or show with may_fail() that it can fail there"
        )
    if hasattr(each.function, "_hypothesis_internal_settings_applied"):
        yield (
            f"{place}: {each.function.__name__} brings its own @settings; a property runs with its level's, or declares"
            " its number of cases with @costly"
        )
    examples = getattr(each.function, "hypothesis_explicit_examples", [])
    if any(example.raises is not None for example in examples):
        yield f"{place}: an example that is expected to fail is no evidence; state the boundary with when()"
    if note.role is Role.STATEMENT and hasattr(each.function, "hypothesis") and not examples:
        yield f"{place}: {note.id} is refuted without a pinned counterexample; add an @example"
