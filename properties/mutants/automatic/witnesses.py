"""The properties, and the tests of the oracles, with the lines of the oracles that each of them runs."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, ClassVar

import pytest

from properties import levels, process, specification
from properties.claims import NOTE, Claim
from properties.judging import Judgement, judge
from properties.levels import Level
from properties.mutants.automatic.changes import Change, marked
from properties.mutants.automatic.forked import Begins, Send, Work, in_children
from properties.mutants.trial import arguments
from properties.specification import Property

ORACLES = "reference"
TESTS = f"{ORACLES}/tests"
OURS = ("spec", "properties", ORACLES, "conftest", "__main__", "__mp_main__")
LONG = 300.0
"""Seconds that nothing takes without a change."""
MARK = "__ran__"
"""The function that notes lines, by a name that no module has."""

Lines = frozenset[tuple[str, int]]
"""Lines on which statements begin that ran, each with its module."""


@dataclass(frozen=True)
class Witness:
    """A property, or a test of an oracle, and the lines of the oracles that it runs."""

    node: str
    claim: Claim | None
    """The claim that a property belongs to."""
    ran: Lines
    imported: Lines
    """What runs where the oracles are imported for it."""
    seconds: float
    """Of the processor's time."""

    def runs(self, change: Change) -> bool:
        """Whether it comes to the lines of a change after all imports."""
        return touches(self.ran, change)

    def meets(self, change: Change) -> bool:
        """The same, or whether the change shows at an import, and it runs something of the module later."""
        return self.runs(change) or (change.module in self.modules and touches(self.imported, change))

    @cached_property
    def modules(self) -> frozenset[str]:
        """The oracles of which it runs something after all imports."""
        return frozenset(module for module, _ in self.ran)


def touches(lines: Lines, change: Change) -> bool:
    """Whether a change stands on one of these lines."""
    return any((change.module, line) in lines for line in change.lines)


# ── what runs which lines ──


class _Marking(SourceFileLoader):
    """Loads an oracle that notes its lines."""

    ran: ClassVar[set[tuple[str, int]]] = set()

    def get_code(self, fullname: str) -> CodeType:
        return marked(Path(self.path).read_text(encoding="utf-8"), self.path, MARK)

    def exec_module(self, module: ModuleType) -> None:
        def note(line: int, name: str = module.__name__) -> None:
            self.ran.add((name, line))

        setattr(module, MARK, note)
        super().exec_module(module)


def lines_run() -> Lines:
    """The lines of marked oracles that ran since this was asked last."""
    found = frozenset(_Marking.ran)
    _Marking.ran.clear()
    return found


class Finder:
    """Finds oracles, those that are wanted through a loader of its own."""

    def __init__(self, root: Path, wanted: str | None, loader: Callable[[str, str], SourceFileLoader]) -> None:
        self.root = root
        self.wanted = wanted
        self.loader = loader

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        file = self.root / ORACLES / f"{name.rpartition('.')[2]}.py"
        if not name.startswith(f"{ORACLES}.") or self.wanted not in (None, name) or not file.exists():
            return None
        return importlib.util.spec_from_file_location(name, file, loader=self.loader(name, str(file)))


def level_of(each: Property) -> Level:
    """The quick level; the next one for a property that asks for few cases, of which a quarter is next to none."""
    return Level.QUICK if each.note.cost is None else max(Level.DEFAULT, each.note.cost.lowest)


def module_of(node: str) -> str:
    """The module of the specification that a property stands in."""
    return f"{specification.FOLDER}.{Path(node.partition('::')[0]).stem}"


def property_at(node: str) -> Property:
    """The property of that node id."""
    function = getattr(importlib.import_module(module_of(node)), node.partition("::")[2])
    return Property(getattr(function, NOTE), function, node)


def judgements(each: Property, claim: Claim) -> Iterator[Judgement]:
    """What each form of a property finds."""
    level = level_of(each)
    levels.load(level)
    for given in arguments(each):
        yield judge(each.function, each.note, claim, level=level, seed=0, arguments=given, patient=False)


def properties_of(root: Path, at_once: int) -> list[Witness]:
    """The properties that agree here without a change, and at the default level at most."""

    def read(send: Send) -> None:
        found = specification.read(root, specification.read_inventory(root))
        if found.problems:
            raise ValueError("; ".join(found.problems))
        nodes: dict[str, list[tuple[str, Claim]]] = {}
        for each in found.properties:
            if level_of(each) <= Level.DEFAULT:
                nodes.setdefault(module_of(each.node), []).append((each.node, found.claim(each.note)))
        send(nodes)
        send(_others())

    def tracing(module: str, nodes: list[tuple[str, Claim]]) -> Work:
        def work(send: Send) -> None:
            send(Begins(module, LONG))
            sys.meta_path.insert(0, Finder(root, None, _Marking))
            importlib.import_module(module)
            imported = lines_run()
            for said in _all_said([(node, running(node, claim, imported)) for node, claim in nodes], 1):
                send(Begins(module, LONG))
                for witness in said:
                    send(witness)

        return work

    def running(node: str, claim: Claim, imported: Lines) -> Work:
        def work(send: Send) -> None:
            send(Begins(node, LONG))
            os.chdir(tempfile.mkdtemp())
            started = time.process_time()
            agree = {judgement.agrees for judgement in judgements(property_at(node), claim)}
            if agree - {None} == {True}:
                send(Witness(node, claim, lines_run(), imported, time.process_time() - started))

        return work

    ((nodes, others),) = _all_said([("the specification", read)], 1)
    _load(others)
    tasks = [(module, tracing(module, each)) for module, each in nodes.items()]
    return [witness for said in _all_said(tasks, at_once) for witness in said if witness.ran]


def _others() -> list[str]:
    """The modules that are loaded here and are none of the project's."""
    return [name for name in sys.modules if name.partition(".")[0] not in OURS]


def _load(names: Iterable[str]) -> None:
    """Load modules that each child would have to load otherwise."""
    for name in names:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    process.settle()


def _all_said(tasks: Iterable[tuple[str, Work]], at_once: int) -> Iterator[list[Any]]:
    """What children said; RuntimeError where one did not come to its end."""
    for ended in in_children(tasks, at_once):
        if ended.by:
            raise RuntimeError(f"{ended.doing or ended.key} did not come to its end without a change: {ended.by}")
        yield ended.said


class _Traced:
    """A pytest plugin that finds the lines each test runs."""

    def __init__(self, send: Send) -> None:
        self.send = send
        self.imported: Lines = frozenset()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.imported = lines_run()
        self.send(_others())

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.send(Begins(item.nodeid, LONG))
        started = time.process_time()
        yield
        self.send(Witness(item.nodeid, None, lines_run(), self.imported, time.process_time() - started))


def run_tests(root: Path, files: Iterable[str], plugin: object) -> None:
    """Run tests in this process, until one fails, and show nothing."""
    without = ("cacheprovider", "terminal", "xdist", "timeout", "randomly")
    bare = ["-c", os.devnull, f"--rootdir={root}", *(word for name in without for word in ("-p", f"no:{name}"))]
    pytest.main([*bare, "-x", "--hypothesis-seed=0", *files], plugins=[plugin])


def tests_of(root: Path, at_once: int) -> list[Witness]:
    """The tests of the oracles."""

    def running(file: str) -> Work:
        def work(send: Send) -> None:
            sys.meta_path.insert(0, Finder(root, None, _Marking))
            run_tests(root, [file], _Traced(send))

        return work

    files = [path.relative_to(root).as_posix() for path in sorted((root / TESTS).glob("test_*.py"))]
    found = [each for said in _all_said([(file, running(file)) for file in files], at_once) for each in said]
    _load({name for each in found if isinstance(each, list) for name in each})
    return [each for each in found if isinstance(each, Witness)]
