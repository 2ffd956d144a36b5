"""How the page words what a record holds: numbers, dates, cases, and text that could mislead."""

from __future__ import annotations

import ast
import math
import re
import textwrap
from collections.abc import Mapping
from datetime import datetime

from properties.report.record import (
    TIME,
    ClaimRecord,
    EnvironmentRecord,
    EvidenceRecord,
    PropertyRecord,
)

ROLES = {
    "claim": "The claim",
    "also": "A further property",
    "statement": "The statement, to be falsified",
    "correction": "The correction",
}
STRENGTHS = {
    "exhaustive": "exhaustive",
    "sampled": "sampled",
    "measured": "measured",
    "example": "by example",
}
INSTEAD = {
    "holds": "Note",
    "holds-when": "When",
    "approximates": "Within",
    "refuted": "Instead",
    "context": "Note",
}
INSTEAD_ZH = {
    "holds": "说明",
    "holds-when": "条件",
    "approximates": "误差界",
    "refuted": "实际",
    "context": "说明",
}

# Control characters, lone surrogates, noncharacters, and the marks that turn the direction of text around.
_MISLEADING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)


def visible(text: str) -> str:
    """``text`` with every character that a page would drop or obey written as its escape."""
    return _MISLEADING.sub(lambda match: match[0].encode("unicode_escape", "backslashreplace").decode(), text)


def counted(count: int, one: str, many: str | None = None) -> str:
    """``1 case``, ``1,234 cases``; ``many`` is for nouns whose plural has no plain s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def number(value: int | float | str | None) -> str:
    """A number to six significant digits, an integer in full; words stay words."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, int) or (value.is_integer() and abs(value) < 1e15):
        return f"{int(value):,}"
    return f"{value:.6g}"


def relative(error: int | float | str) -> str:
    """A relative error: in percent, or in powers of ten where percent would be all zeros."""
    if isinstance(error, str) or error == 0:
        return number(error)
    return f"{error:.3g}" if error < 1e-6 else f"{100 * error:.3g} %"


def size(error: int | float | str) -> float:
    """An error as a number to compare; one that is no number is the largest there is."""
    return math.inf if isinstance(error, str) else error


def case(arguments: Mapping[str, object]) -> str:
    """``shape=(4, 8), steps=()``: the arguments of a case as they are recorded."""
    return ", ".join(f"{name}={value}" for name, value in arguments.items())


def day(at: str) -> str:
    """``1 December 2026``, of a UTC time as a record holds it."""
    moment = datetime.strptime(at, TIME)
    return f"{moment.day} {moment:%B %Y}"


def commit(environment: EnvironmentRecord) -> str:
    """``commit 0123456789ab``, and whether files differed from it."""
    if environment["commit"] is None:
        return "commit unknown"
    return f"commit {environment['commit'][:12]}{', with changes' if environment['dirty'] else ''}"


def run(environment: EnvironmentRecord) -> str:
    """One environment and its run, in a line."""
    return " · ".join(
        [
            environment["device_name"],
            f"torch {environment['torch']}",
            f"Python {environment['python']}",
            counted(environment["cores"], "core"),
            f"{environment['level']} level, seed {environment['seed']}",
            f"{day(environment['at'])}, {environment['at'][11:16]} UTC",
            commit(environment),
            f"{counted(environment['cases'], 'case')} in {environment['seconds']:.0f} s",
        ]
    )


def generated(of: PropertyRecord) -> str:
    """What one property was tried on: cases, sides and finite scopes."""
    parts = []
    cases = of["cases"]
    if cases is not None and cases["passed"]:
        parts.append(f"{counted(cases['passed'], 'case')}, {cases['distinct']:,} distinct")
        if cases["discarded"]:
            parts.append(f"{cases['discarded']:,} discarded")
    if cases is not None and cases["pinned"]:
        parts.append(f"{cases['pinned']:,} pinned")
    if cases is not None and (cases["inside"] or cases["outside"]):
        parts.append(f"{cases['inside']:,} inside and {cases['outside']:,} outside the condition")
    if of["points"]:
        parts.append(f"{counted(of['points'], 'point')}: {'; '.join(of['scope'] or [])}".rstrip(": "))
    return ", ".join(parts)


def outcome(of: PropertyRecord | ClaimRecord) -> str:
    """What became of one property or of one claim that is checked."""
    if of["state"] != "ran":
        return f"{(of['state'] or '').replace('-', ' ')}: {of['reason']}"
    strength = f", {STRENGTHS[of['strength']]}" if of["strength"] else ""
    return f"{'agrees' if of['agrees'] else 'contradicted'}{strength}"


def worst_error(evidence: list[EvidenceRecord]) -> str:
    """The largest error that was held to a bound, beside the bound; empty where none was."""
    bounded = [(each, each["bound"]) for each in evidence if each["bound"] is not None]
    if not bounded:
        return ""
    worst, bound = max(bounded, key=lambda pair: size(pair[0]["error"]))
    where = f" at {case(worst['where'])}" if worst["where"] else ""
    loose = "; the bound is loose" if worst["loose"] else ""
    return f"largest error {relative(worst['error'])}{where}, bound {relative(bound)}{loose}"


def smallest(claim: ClaimRecord) -> tuple[str, str]:
    """A label and the case that falsifies a refuted claim; both empty where there is none.

    A statement without variables is its own counterexample: it is shown as it is written.
    """
    counterexample = claim["counterexample"]
    if counterexample is None:
        return "", ""
    if counterexample["found"]:
        return "Smallest counterexample found", case(counterexample["found"])
    if counterexample["pinned"]:
        return "Counterexample", case(counterexample["pinned"])
    statements = [body(each["source"]) for each in claim["properties"] if each["role"] == "statement"]
    return ("As it is written", statements[0]) if statements and statements[0] else ("", "")


def body(source: str) -> str:
    """The statements of a function's source, without its head and docstring; empty if it is no function."""
    try:
        tree = ast.parse(textwrap.dedent(source))
    except SyntaxError:
        return ""
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        return ""
    written = tree.body[0].body
    documented = ast.get_docstring(tree.body[0]) is not None
    first = written[1] if documented and len(written) > 1 else written[0]
    lines = textwrap.dedent(source).splitlines()[first.lineno - 1 :]
    return textwrap.dedent("\n".join(lines)).strip()
