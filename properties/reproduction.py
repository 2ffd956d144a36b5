"""A failure that teaches: the block of text a contradiction prints, and the snippet that shows it again."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
import types
from collections.abc import Callable, Iterable, Mapping
from enum import Enum

from hypothesis.errors import HypothesisException

from properties.claims import Claim, Note, Verdict, body
from properties.judging import Contradiction, HungError, Judgement, UnearnedError, innermost, said
from properties.strategies.description import source

WIDTH = 12
WORDS = 1500
"""Characters that are told of what an exception says."""
DEPTH = 6
"""Lines that are told of what an assertion is made of."""


def failure_block(
    claim: Claim,
    note: Note,
    judgement: Judgement,
    node: str,
    function: Callable[..., None],
    environment: Iterable[str],
    arguments: Mapping[str, object],
) -> str:
    """What a reader needs to believe a failure and to report it: plain text, the same everywhere.

    ``arguments`` are those that do not come from ``@given``. The snippet stands at the margin, so that it pastes.
    """
    case = judgement.found_case
    lines = [f"{claim.id}: {_headline(claim, note, judgement)}"]
    lines += _field("statement", claim.says)
    if note.says != claim.says:
        lines += _field(str(note.role), note.says)
    if claim.verdict is not Verdict.HOLDS:
        lines += _field(_instead_label(claim), claim.instead or "")
    lines += _field("property", f"{node} ({_relative(node)}:{note.line})")
    if case:
        lines += _field("case", ", ".join(f"{name}={value!r}" for name, value in case.items()))
    formula = _failing_line(judgement, note)
    if formula:
        lines += _field("formula", formula)
    first, *more = _seen(judgement)
    lines += _field("seen", first)
    lines += [line for told in more for line in _field("", told)]
    snippet = _snippet(function, judgement, arguments)
    if snippet:
        lines += ["", "  To see it, paste this into python at the repository's root:", "", snippet.rstrip(), ""]
    for line in environment:
        lines += _field("environment", line)
    return "\n".join(lines) + "\n"


def _relative(node: str) -> str:
    return node.split("::", 1)[0]


def _headline(claim: Claim, note: Note, judgement: Judgement) -> str:
    if judgement.agrees is False:
        return f"contradicted; this run does not confirm the verdict '{claim.verdict}'"
    return f"{judgement.state}; the run says nothing about the verdict '{claim.verdict}'"


def _instead_label(claim: Claim) -> str:
    return {Verdict.HOLDS_WHEN: "when", Verdict.APPROXIMATES: "within", Verdict.REFUTED: "instead"}.get(
        claim.verdict, "note"
    )


def _field(label: str, text: str) -> list[str]:
    wrapped = textwrap.wrap(text, 110 - WIDTH, break_long_words=False, break_on_hyphens=False) or [""]
    head = f"  {label:<{WIDTH}}{wrapped[0]}"
    return [head, *(" " * (WIDTH + 2) + line for line in wrapped[1:])]


def _failing_line(judgement: Judgement, note: Note) -> str | None:
    raised = judgement.exception
    if raised is None or isinstance(raised, (UnearnedError, HypothesisException)):
        return None
    frame = innermost(raised, note.file)
    return None if frame is None or not frame.line else _whole_statement(note.file, frame.lineno or 0) or frame.line


def _whole_statement(file: str, line: int) -> str | None:
    """The source of the smallest simple statement that covers a line."""
    try:
        with open(file, encoding="utf-8") as handle:
            text = handle.read()
        tree = ast.parse(text)
    except (OSError, SyntaxError):
        return None
    found: ast.stmt | None = None
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assert, ast.Expr, ast.Assign, ast.Return)):
            if node.lineno <= line <= (node.end_lineno or node.lineno):
                found = node
    segment = None if found is None else ast.get_source_segment(text, found)
    return None if segment is None else " ".join(segment.split())


def _seen(judgement: Judgement) -> list[str]:
    """What was seen, in lines: the exception, and of what an assertion is made where that has a readable value."""
    raised = judgement.exception
    if raised is None:
        return [judgement.reason or ""]
    lines = [" ".join(line.split()) for line in said(raised)[: 4 * WORDS].splitlines() if line.strip()]
    made_of = [line.lstrip("+ ") for line in lines if line.startswith("+") and " object at 0x" not in line]
    words = " ".join(line for line in lines if not line.startswith("+"))
    kind = "" if isinstance(raised, (UnearnedError, Contradiction)) else f"{type(raised).__name__}: "
    return [f"{kind}{words}"[:WORDS], *(line[:WORDS] for line in made_of[:DEPTH])]


def _snippet(function: Callable[..., None], judgement: Judgement, arguments: Mapping[str, object]) -> str | None:
    """The snippet of a failure, or None where what failed was not the property on one case."""
    case = judgement.found_case
    if judgement.exception is None or isinstance(judgement.exception, (UnearnedError, HypothesisException, HungError)):
        return None
    if hasattr(function, "hypothesis") and case is None:
        return None
    return reproduce(function, {**arguments, **(case or {})})


def reproduce(function: Callable[..., None], case: Mapping[str, object]) -> str | None:
    """Python source that runs a property's body on one case by itself and prints both sides of what it compares.

    It runs from the repository's root, and needs nothing that the property does not import. None where the source is
    not at hand, or where a value has none that pastes.
    """
    inner = inspect.unwrap(body(function))
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inner)))
    except (OSError, TypeError, SyntaxError):
        return None
    definition = tree.body[0]
    if not isinstance(definition, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return None
    statements = definition.body[1:] if ast.get_docstring(definition) is not None else definition.body
    case = {name: value for name, value in case.items() if name in inspect.signature(inner).parameters}
    used = {node.id for node in ast.walk(definition) if isinstance(node, ast.Name)} | set(case)
    names = {node.id for statement in statements for node in ast.walk(statement) if isinstance(node, ast.Name)}
    imports = _imports(names, inner, case)
    assignments = [f"{name} = {_expression(value)}" for name, value in case.items()]
    code = [_pasted(statement, used) for statement in statements]
    for prefix, line in (("np.", "import numpy as np"), ("torch.", "import torch")):
        if any(prefix in assignment for assignment in assignments) and line not in imports:
            imports.insert(0, line)
    snippet = "\n".join([*imports, *assignments, *code]) + "\n"
    try:
        ast.parse(snippet)
    except SyntaxError:
        return None
    return snippet


def _expression(value: object) -> str:
    """Python for a drawn value."""
    if isinstance(value, Enum):
        return f"{type(value).__qualname__}.{value.name}"
    if type(value) is tuple:
        items = ", ".join(_expression(item) for item in value)
        return f"({items},)" if len(value) == 1 else f"({items})"
    return source(value)


def _pasted(statement: ast.stmt, used: set[str]) -> str:
    """Source of one statement; a compound one ends with the empty line that a prompt waits for.

    An assertion that compares two values prints them first, under names that the property does not use, and on one
    line: where a value cannot be had, a prompt then says so once.
    """
    if not (
        isinstance(statement, ast.Assert) and isinstance(statement.test, ast.Compare) and len(statement.test.ops) == 1
    ):
        text = ast.unparse(statement)
        return text + "\n" if hasattr(statement, "body") else text
    compare = statement.test
    left, right = (name if name not in used else f"{name}_here" for name in ("seen", "expected"))
    both = f"{left}, {right} = {ast.unparse(compare.left)}, {ast.unparse(compare.comparators[0])}"
    shown = ast.Compare(ast.Name(left, ast.Load()), compare.ops, [ast.Name(right, ast.Load())])
    return f"{both}; print({left}, {right}); assert {ast.unparse(shown)}"


def _imports(names: set[str], inner: Callable[..., None], case: Mapping[str, object]) -> list[str]:
    lines: set[str] = set()
    scope = inner.__globals__
    for name in sorted(names - set(case)):
        if name not in scope:
            continue
        value = scope[name]
        if isinstance(value, types.ModuleType):
            parent, _, leaf = value.__name__.rpartition(".")
            if leaf == name and parent:
                lines.add(f"from {parent} import {leaf}")
            else:
                lines.add(f"import {value.__name__}" + ("" if value.__name__ == name else f" as {name}"))
        elif getattr(value, "__module__", None) and getattr(value, "__qualname__", "").isidentifier():
            leaf = value.__qualname__
            lines.add(f"from {value.__module__} import {leaf}" + ("" if leaf == name else f" as {name}"))
        else:
            lines.add(f"from {inner.__module__} import {name}")
    for value in case.values():
        lines |= {f"from {kind.__module__} import {kind.__qualname__.split('.')[0]}" for kind in _kinds(value)}
    return sorted(lines, key=lambda line: (line.startswith("from"), line))


def _kinds(value: object) -> set[type]:
    """The classes that a drawn value's source names."""
    if isinstance(value, (tuple, list, frozenset, set)):
        return {kind for item in value for kind in _kinds(item)}
    if dataclasses.is_dataclass(value):
        inner = {kind for field in dataclasses.fields(value) for kind in _kinds(getattr(value, field.name))}
        return inner | {type(value)}
    module = type(value).__module__
    if module in ("builtins", "torch", "numpy") and type(value).__name__ != "device":
        return set()
    return {type(value)}
