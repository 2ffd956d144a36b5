"""Small changes to a module of arithmetic: each number, operator, comparison and sign, one at a time."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any

OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
}
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
CONNECTIVES: dict[type[ast.boolop], type[ast.boolop]] = {ast.And: ast.Or, ast.Or: ast.And}
SHOWN = frozenset({"__repr__", "__str__"})
"""Methods that only show."""
SILENT = frozenset({"annotation", "returns", "decorator_list"})
"""Parts of a definition that calculate nothing."""
SHARED = (ast.expr_context, ast.operator, ast.cmpop, ast.boolop, ast.unaryop)
"""Nodes of which one object stands in many places."""
LONGEST = 120
"""Characters up to which an expression tells a change of a number in it."""

Parents = dict[ast.AST, tuple[ast.AST, str, int | None]]
"""What a node stands in, in which field, and where in it."""


@dataclass(frozen=True)
class Change:
    """One node of a module in place of another."""

    module: str
    function: str
    """The function or class that it stands in; empty outside all."""
    lines: range
    """The line on which its statement begins; for a default value, those of the whole function."""
    told: str
    """The expression around it before and after, with a number where a function has that more than once."""
    tree: ast.Module
    owner: ast.AST
    field: str
    place: int | None
    other: Any

    @property
    def key(self) -> tuple[str, str, str]:
        """What it is known by, however lines move."""
        return self.module, self.function, self.told

    def made(self, file: str) -> tuple[CodeType, CodeType]:
        """The module without the change and with it. For a process that ends afterwards: the tree stays changed."""
        before = compile(self.tree, file, "exec", dont_inherit=True)
        _put(self.owner, self.field, self.place, self.other)
        return before, compile(ast.fix_missing_locations(self.tree), file, "exec", dont_inherit=True)


def changes(source: str, module: str) -> list[Change]:
    """Every change to a module, in the order of its lines."""
    tree = ast.parse(source)
    parents: Parents = {}
    for node in ast.walk(tree):
        for field, value in ast.iter_fields(node):
            for place, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if isinstance(child, ast.AST) and not isinstance(child, SHARED):
                    parents[child] = node, field, place
    seen: Counter[tuple[str, str]] = Counter()
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, (ast.expr, ast.AugAssign)) or _is_no_arithmetic(node, parents):
            continue
        function, lines = _home(node, parents)
        for owner, field, place, other in _others(node, parents):
            told = _told(node, parents, owner, field, place, other)
            seen[function, told] += 1
            if seen[function, told] > 1:
                told = f"{told} ({seen[function, told]})"
            found.append(Change(module, function, lines, told, tree, owner, field, place, other))
    return sorted(found, key=lambda each: (each.lines.start, each.lines.stop))


def marked(source: str, file: str, mark: str) -> CodeType:
    """A module in which each statement first calls the function named ``mark`` with the line it begins on."""
    tree = ast.parse(source)
    for node in list(ast.walk(tree)):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                setattr(node, name, [each for statement in block for each in _with_mark(statement, mark)])
    return compile(ast.fix_missing_locations(tree), file, "exec", dont_inherit=True)


def _with_mark(statement: ast.stmt, mark: str) -> Iterator[ast.stmt]:
    docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    if not docstring and not (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
        call = ast.Call(ast.Name(mark, ast.Load()), [ast.Constant(statement.lineno)], [])
        yield ast.copy_location(ast.Expr(call), statement)
    yield statement


def _others(node: ast.expr | ast.AugAssign, parents: Parents) -> Iterator[tuple[ast.AST, str, int | None, Any]]:
    """What can be put somewhere instead of what is there, so that ``node`` says something else."""
    match node:
        case ast.Constant(value=bool(value)):
            yield node, "value", None, not value
        case ast.Constant(value=int(value)):
            yield node, "value", None, value + 1
        case ast.Constant(value=float(value)):
            yield node, "value", None, 2 * value or 1.0
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in OPERATORS:
            yield node, "op", None, OPERATORS[type(op)]()
        case ast.BoolOp(op=op):
            yield node, "op", None, CONNECTIVES[type(op)]()
        case ast.Compare(ops=ops):
            for place, compared in enumerate(ops):
                yield node, "ops", place, COMPARISONS[type(compared)]()
        case ast.UnaryOp(op=ast.USub() | ast.Not() | ast.Invert(), operand=operand):
            yield *parents[node], operand


def _told(
    node: ast.AST, parents: Parents, owner: ast.AST, field: str, place: int | None, other: ast.AST | float
) -> str:
    around = node
    if isinstance(node, (ast.Constant, ast.UnaryOp)):
        outer = parents[node][0]
        while isinstance(outer, (ast.UnaryOp, ast.keyword, ast.slice)):
            outer = parents[outer][0]
        plain = isinstance(outer, (ast.expr, ast.Assign, ast.AnnAssign, ast.Return, ast.AugAssign))
        if plain and len(ast.unparse(outer)) <= LONGEST:
            around = outer
    before = ast.unparse(around)
    kept = _put(owner, field, place, other)
    # A sign that is taken away leaves its operand where ``around`` stood.
    after = ast.unparse(other if around is node and kept is node and isinstance(other, ast.AST) else around)
    _put(owner, field, place, kept)
    return f"{before} -> {after}"


def _put(owner: ast.AST, field: str, place: int | None, other: Any) -> Any:
    """Put something in a field of a node, and return what was there."""
    if place is None:
        before = getattr(owner, field)
        setattr(owner, field, other)
    else:
        values = getattr(owner, field)
        before, values[place] = values[place], other
    return before


def _ancestors(node: ast.AST, parents: Parents) -> Iterator[tuple[ast.AST, str]]:
    """What a node stands in, from the inside out, each with the field that leads to the node."""
    while node in parents:
        node, field, _ = parents[node]
        yield node, field


def _is_no_arithmetic(node: ast.AST, parents: Parents) -> bool:
    """Whether a node belongs to an annotation, an alias of types, a decorator, a message or a way to show something."""
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        if isinstance(parents[node][0], (ast.keyword, ast.arguments)):
            return True  # an option, not a number
    outside = True
    for outer, field in _ancestors(node, parents):
        if field in SILENT or isinstance(outer, (ast.Raise, ast.JoinedStr)):
            return True
        if isinstance(outer, ast.FunctionDef):
            outside = False
            if outer.name in SHOWN:
                return True
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.BitOr) or not outside:
        return False
    return not any(isinstance(part, (ast.Set, ast.SetComp, ast.Dict, ast.DictComp)) for part in ast.walk(node))


def _home(node: ast.expr | ast.AugAssign, parents: Parents) -> tuple[str, range]:
    """The function or class that a node stands in, and the lines whose statements run where the node does."""
    names: list[str] = []
    lines = range(node.lineno, node.lineno + 1)
    found = isinstance(node, ast.stmt)
    for outer, field in _ancestors(node, parents):
        if not found and isinstance(outer, ast.stmt):
            found = True
            last = outer.end_lineno if field == "args" else outer.lineno
            lines = range(outer.lineno, (last or outer.lineno) + 1)
        if isinstance(outer, (ast.FunctionDef, ast.ClassDef)):
            names.insert(0, outer.name)
    return ".".join(names), lines
