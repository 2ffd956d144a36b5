"""Where a property can fail, read from its source, and whether a run ever came there."""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import CodeType, FrameType
from typing import Any

from properties.claims import body

_Function = ast.FunctionDef | ast.AsyncFunctionDef

CHECKS = frozenset({"every", "observe", "may_fail", "raises", "warns", "fail", "within_band"})
"""Calls that can fail a property, beside those whose name begins with ``assert``."""


@cache
def written(inner: Callable[..., None]) -> str:
    """A property below ``@given`` as it is written, decorators included; OSError where its source is not at hand."""
    tree = _tree(inner)
    lines = linecache.getlines(inner.__code__.co_filename)
    return "".join(lines[inner.__code__.co_firstlineno - 1 : tree.end_lineno])


def checking_lines(function: Callable[..., None]) -> frozenset[int]:
    """Lines of its file on which a property asserts something; none where it asserts nothing itself."""
    return _checking_lines(inspect.unwrap(body(function)))


@cache
def _checking_lines(inner: Callable[..., None]) -> frozenset[int]:
    return frozenset(
        line
        for node in ast.walk(_tree(inner))
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
    inner = inspect.unwrap(body(function))
    if "when(" not in written(inner):
        return False
    nodes = list(ast.walk(_tree(inner)))
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
def _tree(inner: Callable[..., None]) -> _Function:
    """A function's part of its file's tree; OSError where its source is not at hand."""
    code = inner.__code__
    linecache.checkcache(code.co_filename)
    try:
        return _functions("".join(linecache.getlines(code.co_filename)))[code.co_firstlineno]
    except KeyError:
        raise OSError(f"{code.co_filename} has no function in line {code.co_firstlineno}") from None


@cache
def _functions(text: str) -> dict[int, _Function]:
    """The functions of a file's text by their first lines. It is taken apart once, and not for each of them."""
    found = [node for node in _statements(ast.parse(text)) if isinstance(node, _Function)]
    return {min(part.lineno for part in (node, *node.decorator_list)): node for node in found}


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """What is in a block, and in the blocks in it; no expression is looked into."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield child
            yield from _statements(child)


def _called(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    return str(getattr(node.func, "id", getattr(node.func, "attr", "")))


def _checks(node: ast.AST) -> bool:
    name = _called(node)
    return isinstance(node, ast.Assert) or name in CHECKS or name.startswith("assert")


def _mentions(node: ast.AST, names: set[str]) -> bool:
    return any(isinstance(inner, ast.Name) and inner.id in names for inner in ast.walk(node))
