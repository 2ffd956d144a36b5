"""One change after the other, and what notices it."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType

import pytest
from hypothesis.errors import HypothesisException

from properties import process, specification
from properties.claims import State
from properties.judging import UnearnedError
from properties.mutants.automatic.changes import Change
from properties.mutants.automatic.forked import Begins, Ended, Send, Work, in_children
from properties.mutants.automatic.witnesses import (
    ORACLES,
    Finder,
    Lines,
    Witness,
    judgements,
    property_at,
    run_tests,
    touches,
)

SLACK = 5.0
"""Seconds that everything may take more, for what is imported with it."""
TIMES = 10.0
"""How often as long as without a change it may take with one."""
NOTICED = ("contradicted", "raised", "timed out", "died", "tests")
"""Outcomes of a change that was noticed; by the oracles' own tests alone in the last of them."""

# ── changing a module ──


def _file(change: Change, root: Path) -> str:
    return str(root / ORACLES / f"{change.module.rpartition('.')[2]}.py")


def imports_changed(change: Change, root: Path) -> None:
    """Have a module imported as it is after a change, where it was not imported yet."""
    _, code = change.made(_file(change, root))

    class Loader(SourceFileLoader):
        def get_code(self, fullname: str) -> CodeType:
            return code

    sys.meta_path.insert(0, Finder(root, change.module, Loader))


def swaps_code(change: Change, root: Path, functions: Iterable[FunctionType]) -> None:
    """Give the functions of a loaded module the code that they have after a change; LookupError where none has it."""
    changed = dict(_differing(*change.made(_file(change, root))))
    affected = [function for function in functions if function.__code__ in changed]
    if not affected:
        raise LookupError(f"no function of {change.module} has the code of line {change.lines.start}")
    for function in affected:
        function.__code__ = changed[function.__code__]


def _differing(before: CodeType, after: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """The code of functions, and functions in them, before and after a change, where it changes them.

    A change can leave out what is within a function, such as a loop that never begins: that function is exchanged
    whole.
    """
    inner, changed = _inner(before), _inner(after)
    for old, new in zip(inner, changed, strict=True) if len(inner) == len(changed) else ():
        if old != new:
            yield old, new
            yield from _differing(old, new)


def _inner(code: CodeType) -> list[CodeType]:
    return [each for each in code.co_consts if isinstance(each, CodeType)]


def loaded_functions(root: Path) -> list[FunctionType]:
    """The functions of the oracles, wherever they are kept."""
    folder = str(root / ORACLES)
    return [
        each
        for each in gc.get_objects()
        if type(each) is FunctionType and os.path.dirname(each.__code__.co_filename) == folder
    ]


# ── what notices ──


@dataclass(frozen=True)
class Found:
    """What a property or the tests say of a change."""

    outcome: str
    by: str
    reason: str = ""


class _Chosen:
    """A pytest plugin that runs some tests, and notes the first that fails."""

    def __init__(self, nodes: frozenset[str]) -> None:
        self.nodes = nodes
        self.failed: str | None = None

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid in self.nodes]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def _note(self, report: pytest.CollectReport | pytest.TestReport) -> None:
        if report.failed and self.failed is None:
            self.failed = report.nodeid


def _meets(install: Callable[[], None], root: Path, judges: list[Witness], tests: list[Witness]) -> Work:
    """The work of a child: properties one after the other until one notices, and then the tests."""

    def work(send: Send) -> None:
        install()
        os.chdir(tempfile.mkdtemp())
        for witness in judges:
            send(Begins(witness.node, _limit(witness.seconds)))
            said = _noticed(witness)
            if said is not None:
                send(said)
                if said.outcome in NOTICED:
                    return
        if tests:
            os.chdir(root)
            send(Begins("tests", _limit(sum(witness.seconds for witness in tests))))
            chosen = _Chosen(frozenset(witness.node for witness in tests))
            run_tests(root, sorted({witness.node.partition("::")[0] for witness in tests}), chosen)
            if chosen.failed:
                send(Found("tests", chosen.failed))

    return work


def _limit(seconds: float) -> float:
    """The seconds after which something hangs that takes so many without a change."""
    return SLACK + TIMES * seconds


def _noticed(witness: Witness) -> Found | None:
    assert witness.claim is not None
    try:
        for judgement in judgements(property_at(witness.node), witness.claim):
            reason = judgement.reason or "".join(str(judgement.exception or "").splitlines()[:1])
            if judgement.agrees is False:
                return Found("contradicted", witness.node, reason[:200])
            if judgement.state is State.ERROR:
                idle = isinstance(judgement.exception, (UnearnedError, HypothesisException))
                return Found("not judged" if idle else "raised", witness.node, reason[:200])
    except Exception as raised:  # while the oracle is imported
        return Found("raised", witness.node, f"{type(raised).__name__}: {raised}"[:200])
    return None


def found_of(ended: Ended[Change]) -> Found:
    """What a child found in all."""
    if ended.by in NOTICED:
        return Found("tests" if ended.doing == "tests" else ended.by, ended.doing, ended.by)
    if ended.by:
        return Found("not judged", ended.doing, ended.by.strip().splitlines()[-1][:200])
    return max(ended.said, key=lambda each: each.outcome in NOTICED, default=Found("survived", ""))


def trials(
    root: Path, wanted: list[Change], judges: list[Witness], tests: list[Witness], at_once: int
) -> Iterator[tuple[Change, Found]]:
    """Each change, and what notices it.

    What runs while oracles are imported has them imported anew; in any other function the code is exchanged, in a
    process that has imported everything.
    """
    kills: Counter[tuple[str, str, str]] = Counter()
    at_import: Lines = frozenset().union(*(witness.imported for witness in judges + tests))
    anew = [change for change in wanted if touches(at_import, change)]
    later = [change for change in wanted if not touches(at_import, change)]

    def candidates(change: Change) -> list[Witness]:
        """Those that noticed other changes to the same function first, then those that run the line, the quickest."""

        def rank(witness: Witness) -> tuple[int, bool, float]:
            return -kills[change.module, change.function, witness.node], not witness.runs(change), witness.seconds

        return sorted((each for each in judges if each.meets(change)), key=rank)

    def tasks(changes: list[Change], install: Callable[[Change], None]) -> Iterator[tuple[Change, Work]]:
        for change in changes:
            met = [each for each in tests if each.runs(change) or touches(each.imported, change)]
            yield change, _meets(partial(install, change), root, candidates(change), met)

    def ends() -> Iterator[Ended[Change]]:
        yield from in_children(tasks(anew, partial(imports_changed, root=root)), at_once)
        if later:
            specification.read(root, specification.read_inventory(root))
            functions = loaded_functions(root)
            process.settle()
            yield from in_children(tasks(later, partial(swaps_code, root=root, functions=functions)), at_once)

    for ended in ends():
        found = found_of(ended)
        kills[ended.key.module, ended.key.function, found.by] += 1
        yield ended.key, found
