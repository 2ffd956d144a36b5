"""A failure that teaches: the block of text a contradiction prints, and the snippet that shows it again."""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from collections.abc import Callable, Iterable, Mapping

from properties.claims import Claim, Note, Verdict, body
from properties.judging import Judgement, innermost
from properties.strategies.description import Description, source

WIDTH = 12


def failure_block(
    claim: Claim,
    note: Note,
    judgement: Judgement,
    node: str,
    function: Callable[..., None],
    environment: Iterable[str],
) -> str:
    """What a reader needs to believe a failure and to report it: plain text, the same everywhere."""
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
    lines += _field("seen", _seen(judgement))
    snippet = None if judgement.agrees is None else reproduce(function, case or {})
    if snippet:
        lines += ["", "To see it, from the repository's root:", "", textwrap.indent(snippet.rstrip(), "    "), ""]
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
    if raised is None:
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


def _seen(judgement: Judgement) -> str:
    raised = judgement.exception
    if raised is None:
        return judgement.reason or ""
    text = str(raised).split("\nFalsifying example")[0]
    said = " ".join(line.strip() for line in text.splitlines() if line.strip())
    return f"{type(raised).__name__}: {said}"[:1500]


def reproduce(function: Callable[..., None], case: Mapping[str, object]) -> str | None:
    """Python source that runs a property's body on one case by itself and prints both sides of what it compares.

    It runs from the repository's root, and needs nothing that the property does not import. None where the source is
    not at hand.
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
    statements = [shown for statement in statements for shown in _showing(statement)]
    names = {node.id for statement in statements for node in ast.walk(statement) if isinstance(node, ast.Name)}
    imports = _imports(names, inner, case)
    assignments = [f"{name} = {source(value)}" for name, value in case.items()]
    code = [_pasted(statement) for statement in statements]
    if any("torch." in line for line in assignments) and "import torch" not in imports:
        imports.insert(0, "import torch")
    return "\n".join([*imports, *assignments, *code]) + "\n"


def _pasted(statement: ast.stmt) -> str:
    """Source of one statement; a compound one ends with the empty line that a prompt waits for."""
    text = ast.unparse(ast.fix_missing_locations(statement))
    return text + "\n" if hasattr(statement, "body") else text


def _showing(statement: ast.stmt) -> list[ast.stmt]:
    """An assertion that compares two values prints them first."""
    if not (
        isinstance(statement, ast.Assert)
        and isinstance(statement.test, ast.Compare)
        and len(statement.test.ops) == 1
    ):
        return [statement]
    compare = statement.test
    printed = ast.parse("print(seen, expected)").body[0]
    seen = ast.Assign([ast.Name("seen", ast.Store())], compare.left)
    expected = ast.Assign([ast.Name("expected", ast.Store())], compare.comparators[0])
    shown = ast.Compare(ast.Name("seen", ast.Load()), compare.ops, [ast.Name("expected", ast.Load())])
    return [seen, expected, printed, ast.Assert(shown, None)]


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
        lines |= {
            f"from {kind.__module__} import {kind.__qualname__.split('.')[0]}" for kind in _kinds(value)
        }
    return sorted(lines, key=lambda line: (line.startswith("from"), line))


def _kinds(value: object) -> set[type]:
    """The classes that a drawn value's source names."""
    if isinstance(value, (tuple, list, frozenset, set)):
        return {kind for item in value for kind in _kinds(item)}
    if isinstance(value, Description):
        inner = {kind for item in vars(value).values() for kind in _kinds(item)}
        return inner | {type(value)}
    module = type(value).__module__
    if module in ("builtins", "torch"):
        return set()
    return {type(value)}
