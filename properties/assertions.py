"""Where a property can fail, read from its source, and whether a run ever came there."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import CodeType, FrameType
from typing import Any

from properties.claims import body

CHECKS = frozenset({"every", "observe", "may_fail", "raises", "warns", "fail", "within_band"})
"""Calls that can fail a property, beside those whose name begins with ``assert``."""


@cache
def written(inner: Callable[..., None]) -> str:
    """A property below ``@given`` as it is written, decorators included; OSError where its source is not at hand."""
    return inspect.getsource(inner)


def checking_lines(function: Callable[..., None]) -> frozenset[int]:
    """Lines of its file on which a property asserts something; none where it asserts nothing itself."""
    return _checking_lines(inspect.unwrap(body(function)))


@cache
def _checking_lines(inner: Callable[..., None]) -> frozenset[int]:
    code, tree = _parsed(inner)
    offset = code.co_firstlineno - 1
    return frozenset(
        offset + line
        for node in ast.walk(tree)
        if isinstance(node, (ast.stmt, ast.expr)) and _checks(node)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    )


def checks_anything(function: Callable[..., None]) -> bool:
    """Whether a property has a line on which it asserts something."""
    return bool(checking_lines(function))


def asks_nothing_outside(function: Callable[..., None]) -> bool:
    """Whether a property tells the sides apart with ``when`` and then asserts on one of them only.

    The outside is asked where an assertion compares with what ``when`` returned, or where ``may_fail`` stands.
    """
    _, tree = _parsed(inspect.unwrap(body(function)))
    nodes = list(ast.walk(tree))
    calls = {_called(node) for node in nodes}
    if "when" not in calls or "may_fail" in calls:
        return False
    sides = {
        target.id
        for node in nodes
        if isinstance(node, ast.Assign) and _mentions(node.value, {"when"})
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return not any(_mentions(node, {"when", *sides}) for node in nodes if _checks(node))


class Watch:
    """Whether one of some lines was reached, found out with the interpreter's tracing until it was."""

    def __init__(self, code: CodeType, lines: frozenset[int]) -> None:
        self._code = code
        self._lines = lines
        self.reached = not lines

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Look at what runs within; where a debugger or a coverage tool traces, take the lines for reached."""
        if self.reached or sys.gettrace() is not None:
            self.reached = True
            yield
            return
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(None)

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        inside = frame.f_code.co_filename == self._code.co_filename
        return self._line if inside and not self.reached else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_lineno in self._lines:
            self.reached = True
            sys.settrace(None)
            return None
        return self._line


def watch(function: Callable[..., None]) -> Watch:
    """A watch over the assertions of a property."""
    try:
        return Watch(inspect.unwrap(body(function)).__code__, checking_lines(function))
    except (OSError, SyntaxError):  # its source is not at hand
        return Watch(body(function).__code__, frozenset())


@cache
def _parsed(inner: Callable[..., None]) -> tuple[CodeType, ast.Module]:
    return inner.__code__, ast.parse(textwrap.dedent(written(inner)))


def _called(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    return str(getattr(node.func, "id", getattr(node.func, "attr", "")))


def _checks(node: ast.AST) -> bool:
    name = _called(node)
    return isinstance(node, ast.Assert) or name in CHECKS or name.startswith("assert")


def _mentions(node: ast.AST, names: set[str]) -> bool:
    return any(isinstance(inner, ast.Name) and inner.id in names for inner in ast.walk(node))
