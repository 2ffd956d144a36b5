"""The vocabulary of the specification: verdicts, and the decorators that bind a property to a claim.

A decorator only notes what a function is for. The plugin reads the notes, runs the functions and judges them.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from properties.levels import Level

Function = TypeVar("Function", bound=Callable[..., None])


class Verdict(StrEnum):
    """A finding about a claim."""

    HOLDS = "holds"
    HOLDS_WHEN = "holds-when"
    APPROXIMATES = "approximates"
    REFUTED = "refuted"
    CONTEXT = "context"


class State(StrEnum):
    """What became of a property or a claim in this run, worst first."""

    ERROR = "error"
    INCONCLUSIVE = "inconclusive"
    RAN = "ran"
    NOT_RUN = "not-run"


class Strength(StrEnum):
    """How much a run that agrees says."""

    EXHAUSTIVE = "exhaustive"
    SAMPLED = "sampled"
    MEASURED = "measured"
    EXAMPLE = "example"


class Role(StrEnum):
    """What a property does for its claim."""

    CLAIM = "claim"
    ALSO = "also"
    STATEMENT = "statement"
    CORRECTION = "correction"


class MisuseError(Exception):
    """A specification that says something it may not; the message says what, where and what to do."""


@dataclass(frozen=True)
class Claim:
    """One checkable statement."""

    id: str
    verdict: Verdict
    says: str
    instead: str | None
    file: str
    line: int
    source: str | None = None
    related: tuple[str, ...] = ()
    false_alarm: float | None = None


@dataclass(frozen=True)
class Awaited:
    """A part of a claim that no property checks yet, and what it needs."""

    id: str
    needs: str
    what: str
    file: str
    line: int


@dataclass(frozen=True)
class Cost:
    """The number of cases a property asks for instead of the level's, why, and its lowest level."""

    cases: int
    because: str
    lowest: Level

    def at(self, level: Level) -> int:
        """Cases at ``level``: in proportion to the default level's, and at least one."""
        return max(1, self.cases * level.cases // Level.DEFAULT.cases)


@dataclass
class Note:
    """What the decorators say of one property."""

    id: str
    role: Role
    file: str
    line: int
    says: str
    claim: Claim | None = None
    falsified_by: type[BaseException] = AssertionError
    environment_is_condition: bool = False
    seeds_count: bool = False
    cost: Cost | None = None
    needs: list[str] = field(default_factory=list)

    def cases(self, level: Level) -> int:
        """Generated cases to ask for at ``level``: half of them, down to quick's, of a further property of a claim."""
        if self.cost is not None:
            return self.cost.at(level)
        return max(Level.QUICK.cases, level.cases // 2) if self.role is Role.ALSO else level.cases


NOTE = "assay_note"
_pending_cost = "assay_cost"
_pending_needs = "assay_needs"


def statement(function: Callable[..., None]) -> str:
    """The first paragraph of a docstring, on one line."""
    text = inspect.getdoc(function) or ""
    return " ".join(text.split("\n\n")[0].split())


def body(function: Callable[..., None]) -> Callable[..., None]:
    """The property as it was written, below ``@given``."""
    handle = getattr(function, "hypothesis", None)
    inner: Callable[..., None] = function if handle is None else handle.inner_test
    return inner


def _place(function: Callable[..., None]) -> tuple[str, int]:
    code = inspect.unwrap(body(function)).__code__
    return code.co_filename, code.co_firstlineno


def _bind(function: Function, note: Note) -> Function:
    if hasattr(function, NOTE):
        raise MisuseError(
            f"{note.file}:{note.line}: {function.__name__} is bound to {getattr(function, NOTE).id} and to {note.id};"
            " write one property for each claim"
        )
    if not note.says:
        raise MisuseError(
            f"{note.file}:{note.line}: {function.__name__} has no docstring; its first paragraph is the statement"
        )
    note.cost = getattr(function, _pending_cost, None)
    note.needs = list(getattr(function, _pending_needs, ()))
    setattr(function, NOTE, note)
    return function


def _claim(
    function: Function,
    id: str,
    verdict: Verdict,
    *,
    instead: str | None = None,
    role: Role = Role.CLAIM,
    related: tuple[str, ...] = (),
    false_alarm: float | None = None,
    falsified_by: type[BaseException] = AssertionError,
    environment: bool = False,
    seeds_count: bool = False,
) -> Function:
    file, line = _place(function)
    says = statement(function)
    if falsified_by in (Exception, BaseException):
        raise MisuseError(
            f"{file}:{line}: {function.__name__} would be falsified by any {falsified_by.__name__}, its own mistakes"
            " too; name the exception"
        )
    claim = Claim(id, verdict, says, instead, file, line, related=related, false_alarm=false_alarm)
    note = Note(id, role, file, line, says, claim, falsified_by, environment, seeds_count)
    return _bind(function, note)


def _further(
    function: Function, id: str, role: Role, *, environment: bool = False, seeds_count: bool = False
) -> Function:
    file, line = _place(function)
    note = Note(
        id,
        role,
        file,
        line,
        statement(function),
        environment_is_condition=environment,
        seeds_count=seeds_count,
    )
    return _bind(function, note)


def holds(
    id: str,
    *,
    related: tuple[str, ...] = (),
    false_alarm: float | None = None,
    seeds_count: bool = False,
) -> Callable[[Function], Function]:
    """The claim is true as stated, for everything the property can generate.

    ``false_alarm`` states with what probability a random property fails although the claim is true; ``seeds_count``
    says that randomness is the claim, so that cases with other seeds are other cases.
    """
    return lambda function: _claim(
        function, id, Verdict.HOLDS, related=related, false_alarm=false_alarm, seeds_count=seeds_count
    )


def holds_when(
    id: str,
    condition: str,
    *,
    environment: bool = False,
    related: tuple[str, ...] = (),
    false_alarm: float | None = None,
    seeds_count: bool = False,
) -> Callable[[Function], Function]:
    """The claim is true under ``condition``; its property calls ``when`` and shows both sides.

    ``environment`` says that the condition is the environment itself (a device, a release): a run then shows the side
    it is on.
    """
    return lambda function: _claim(
        function,
        id,
        Verdict.HOLDS_WHEN,
        instead=condition,
        related=related,
        false_alarm=false_alarm,
        environment=environment,
        seeds_count=seeds_count,
    )


def approximates(id: str, bound: str, *, related: tuple[str, ...] = ()) -> Callable[[Function], Function]:
    """The claim is an approximation within ``bound``; its property calls ``observe`` with the exact value."""
    return lambda function: _claim(function, id, Verdict.APPROXIMATES, instead=bound, related=related)


def refuted(
    id: str,
    *,
    instead: str,
    falsified_by: type[BaseException] = AssertionError,
    related: tuple[str, ...] = (),
    false_alarm: float | None = None,
) -> Callable[[Function], Function]:
    """The claim is false as stated: the property states it, and running it must raise ``falsified_by``.

    ``false_alarm`` is that of its corrections, where these are random.
    """
    return lambda function: _claim(
        function,
        id,
        Verdict.REFUTED,
        instead=instead,
        role=Role.STATEMENT,
        falsified_by=falsified_by,
        related=related,
        false_alarm=false_alarm,
    )


def corrects(id: str, *, seeds_count: bool = False) -> Callable[[Function], Function]:
    """What is true instead of a refuted claim."""
    return lambda function: _further(function, id, Role.CORRECTION, seeds_count=seeds_count)


def also(id: str, *, environment: bool = False, seeds_count: bool = False) -> Callable[[Function], Function]:
    """A further property of a claim that another property states; it asks for half as many cases."""
    return lambda function: _further(function, id, Role.ALSO, environment=environment, seeds_count=seeds_count)


def costly(cases: int, *, because: str, lowest: str = "quick") -> Callable[[Function], Function]:
    """The property asks for ``cases`` at the default level, in proportion at others, and not at all below ``lowest``.

    Goes below the claim's decorator and above ``@given``.
    """

    def decorate(function: Function) -> Function:
        _refuse_above_the_claim(function, "costly")
        setattr(function, _pending_cost, Cost(cases, because, Level.named(lowest)))
        return function

    return decorate


def needs(*what: str) -> Callable[[Function], Function]:
    """The property is judged only where each of ``what`` is there ("cuda", "gloo", "linux").

    Goes below the claim's decorator and above ``@given``.
    """

    def decorate(function: Function) -> Function:
        _refuse_above_the_claim(function, "needs")
        setattr(function, _pending_needs, (*getattr(function, _pending_needs, ()), *what))
        return function

    return decorate


def _refuse_above_the_claim(function: Callable[..., None], decorator: str) -> None:
    note = getattr(function, NOTE, None)
    if note is not None:
        raise MisuseError(
            f"{note.file}:{note.line}: @{decorator} stands above the decorator that binds {function.__name__} to"
            f" {note.id}, which has not heard of it; put it below"
        )


def _declare(entry: Claim | Awaited, module_globals: dict[str, object]) -> None:
    declared = module_globals.setdefault("assay_declared", [])
    assert isinstance(declared, list)
    declared.append(entry)


def context(id: str, says: str, *, source: str, instead: str | None = None) -> None:
    """Background: history, opinion or naming. Shown with its source, counted nowhere.

    ``source`` is the document's section, or a public page that was really read.
    """
    caller = sys._getframe(1)
    claim = Claim(id, Verdict.CONTEXT, says, instead, caller.f_code.co_filename, caller.f_lineno, source)
    _declare(claim, caller.f_globals)


def awaits(
    id: str,
    *,
    needs: str,
    what: str,
    verdict: str | None = None,
    says: str | None = None,
    instead: str | None = None,
) -> None:
    """A part of a claim that needs an environment and that no property checks yet.

    With ``verdict`` and ``says`` it states the claim itself, for a claim that has no property.
    """
    caller = sys._getframe(1)
    file, line = caller.f_code.co_filename, caller.f_lineno
    if verdict is not None:
        _declare(Claim(id, Verdict(verdict), says or "", instead, file, line), caller.f_globals)
    _declare(Awaited(id, needs, what, file, line), caller.f_globals)
