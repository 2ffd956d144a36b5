"""How the page words what a record holds: numbers, dates, cases, and what became of a claim."""

from __future__ import annotations

import ast
import math
import textwrap
from collections.abc import Iterable, Mapping
from datetime import datetime

from properties.report.languages import Phrase, Quoted, counted, joined, many, reason, same
from properties.report.record import (
    TIME,
    ClaimRecord,
    EnvironmentRecord,
    EvidenceRecord,
    PropertyRecord,
)

ROLES = {
    "claim": Phrase("The claim", "论断"),
    "also": Phrase("A further property", "补充的性质"),
    "statement": Phrase("The statement, to be falsified", "待证伪的说法"),
    "correction": Phrase("The correction", "更正"),
}
STRENGTHS = {
    "exhaustive": Phrase("exhaustive", "穷举"),
    "sampled": Phrase("sampled", "抽样"),
    "measured": Phrase("measured", "实测"),
    "example": Phrase("by example", "举例"),
}
INSTEAD = {
    "holds": Phrase("Note", "说明"),
    "holds-when": Phrase("When", "条件"),
    "approximates": Phrase("Within", "误差界"),
    "refuted": Phrase("Instead", "实际情况"),
    "context": Phrase("Note", "说明"),
}
STATES = {
    "not-run": Phrase("not run", "未运行"),
    "error": Phrase("error", "出错"),
    "inconclusive": Phrase("inconclusive", "无定论"),
}
LEVELS = {
    "quick": Phrase("quick level", "快速级别"),
    "default": Phrase("default level", "默认级别"),
    "thorough": Phrase("thorough level", "深入级别"),
    "exhaustive": Phrase("exhaustive level", "穷举级别"),
}
MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
WIDE = 60
"""Characters of a case that stand within a line; what is longer has its own."""


def number(value: int | float | str | None) -> str:
    """A number to six significant digits, an integer in full; words stay words."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, int) or (value.is_integer() and abs(value) < 1e15):
        return f"{int(value):,}"
    return f"{value:.6g}"


def rounded_down(count: int) -> Phrase:
    """A large count to two digits, never more than it is: ``over 1.4 million``; a small one in full."""
    if count < 10_000:
        return same(f"{count:,}")
    step = 10 ** (len(str(count)) - 2)
    floor = count // step * step
    over = "" if floor == count else "over "
    zh = f"{floor // 10_000:,} 万" if floor < 10**8 else f"{floor / 10**8:g} 亿"
    en = f"{floor:,}" if floor < 10**6 else f"{floor / 10**6:g} million"
    return Phrase(f"{over}{en}", f"{zh}{'多' if over else ''}")


def relative(error: int | float | str) -> str:
    """A relative error: in percent, or in powers of ten where percent would be all zeros."""
    if isinstance(error, str) or error == 0:
        return number(error)
    if error < 1e-6 or error >= 1e6:
        return f"{error:.3g}"
    return f"{100 * error:.3g} %" if error < 10 else f"{100 * error:,.0f} %"


def size(error: int | float | str) -> float:
    """An error as a number to compare; one that is no number is the largest there is."""
    return math.inf if isinstance(error, str) else error


def case(arguments: Mapping[str, object]) -> str:
    """``shape=(4, 8), steps=()``: the arguments of a case as they are recorded."""
    return ", ".join(f"{name}={value}" for name, value in arguments.items())


def seen_at(where: Mapping[str, object]) -> str:
    """Where a number was seen: as a case, without the name that a description goes by."""
    return ", ".join(str(value) if name == "case" else f"{name}={value}" for name, value in where.items())


def day(at: str) -> Phrase:
    """``1 December 2026``, of a UTC time as a record holds it."""
    moment = datetime.strptime(at, TIME)
    return Phrase(
        f"{moment.day} {MONTHS[moment.month - 1]} {moment.year}", f"{moment.year} 年 {moment.month} 月 {moment.day} 日"
    )


def short_day(at: str) -> Phrase:
    """``1 Dec``: the same without the year, for where the year stands elsewhere."""
    moment = datetime.strptime(at, TIME)
    return Phrase(f"{moment.day} {MONTHS[moment.month - 1][:3]}", f"{moment.month} 月 {moment.day} 日")


def age(at: str, newest: str) -> Phrase:
    """How much older a run is than the newest of those shown, so that the page does not change by itself."""
    days = (datetime.strptime(newest, TIME).date() - datetime.strptime(at, TIME).date()).days
    if not days:
        return Phrase("the newest day", "最新一天")
    return Phrase(f"{counted(days, 'day')} older", f"早 {days:,} 天")


def commit(environment: EnvironmentRecord) -> Phrase:
    """``commit 0123456789ab``, and whether files differed from it."""
    if environment["commit"] is None:
        return Phrase("commit unknown", "提交未知")
    changes = Phrase(", with changes", "（有改动）") if environment["dirty"] else same("")
    return Phrase("commit ", "提交 ") + environment["commit"][:12] + changes


def hardware(environment: EnvironmentRecord) -> Phrase:
    """The device, its driver where it has one, and the processors beside it."""
    driver = f"driver {environment['driver']}" if environment.get("driver") else ""
    return joined(" · ", [environment["device_name"], driver, many(environment["cores"], "core", "核")])


def software(environment: EnvironmentRecord) -> Phrase:
    """What ran, by its releases."""
    releases = [f"{name} {environment[name]}" for name in ("numpy", "hypothesis", "einops", "jaxtyping")]
    return joined(" · ", [f"torch {environment['torch']}", f"Python {environment['python']}", *releases])


def run(environment: EnvironmentRecord) -> Phrase:
    """At what hour, how hard and for how long a run looked."""
    return joined(
        " · ",
        [
            f"{environment['at'][11:16]} UTC",
            LEVELS[environment["level"]] + Phrase(", seed ", "，种子 ") + str(environment["seed"]),
            many(environment["cases"], "case", "个用例")
            + Phrase(f" in {environment['seconds']:.0f} s", f"，用时 {environment['seconds']:.0f} 秒"),
        ],
    )


def sides(inside: int, outside: int) -> Phrase:
    """How many cases were inside the condition and how many outside; empty where there was none."""
    if not inside and not outside:
        return same("")
    return Phrase(
        f"{inside:,} inside and {outside:,} outside the condition", f"条件之内 {inside:,} 个、之外 {outside:,} 个"
    )


def points(count: int) -> Phrase:
    """So many points of finite scopes."""
    return many(count, "point", "个点")


def generated(of: PropertyRecord) -> Phrase:
    """What one property was tried on: cases, sides and finite scopes."""
    parts: list[Phrase] = []
    cases = of["cases"]
    if cases is not None and cases["passed"]:
        parts.append(many(cases["passed"], "case", "个用例"))
        parts.append(Phrase(f"{cases['distinct']:,} distinct", f"互不相同的 {cases['distinct']:,} 个"))
        if cases["discarded"]:
            parts.append(Phrase(f"{cases['discarded']:,} discarded", f"弃去 {cases['discarded']:,} 个"))
    if cases is not None and cases["pinned"]:
        parts.append(Phrase(f"{cases['pinned']:,} pinned", f"固定用例 {cases['pinned']:,} 个"))
    if cases is not None:
        parts.append(sides(cases["inside"], cases["outside"]))
    if of["points"]:
        scope = "; ".join(of["scope"] or [])
        parts.append(points(of["points"]) + (Phrase(f": {scope}", f"：{scope}") if scope else ""))
    told = [each for each in parts if each]
    return Phrase(", ".join(each.en for each in told), "，".join(each.zh for each in told))


def form(of: PropertyRecord) -> str:
    """Which form of a parametrised property: what stands in its node's brackets, or the node where there is none."""
    name, bracket, rest = of["node"].partition("[")
    return rest.removesuffix("]") if bracket else name


def by_function(properties: list[PropertyRecord]) -> list[list[PropertyRecord]]:
    """The properties of a claim, the forms of one parametrised function together."""
    found: dict[tuple[str, str, str], list[PropertyRecord]] = {}
    for each in properties:
        found.setdefault((each["node"].split("[")[0], each["role"], each["source"]), []).append(each)
    return list(found.values())


def by_kind(evidence: Iterable[EvidenceRecord]) -> list[list[EvidenceRecord]]:
    """The rows of a claim's evidence, those of one label, unit and closed form together."""
    found: dict[tuple[str, str, str | None], list[EvidenceRecord]] = {}
    for row in evidence:
        found.setdefault((row["label"], row["unit"], row["by"]), []).append(row)
    return list(found.values())


def outcome(of: PropertyRecord | ClaimRecord) -> Phrase:
    """What became of one property or of one claim that is checked."""
    if of["state"] != "ran":
        why = reason(of["reason"] or "")
        because = same(why.text) if isinstance(why, Quoted) else why
        return STATES[of["state"] or "error"] + Phrase(": ", "：") + because
    agrees = Phrase("agrees", "相符") if of["agrees"] else Phrase("contradicted", "相反")
    return agrees + (Phrase(", ", "，") + STRENGTHS[of["strength"]] if of["strength"] else "")


def worst_error(evidence: list[EvidenceRecord]) -> Phrase:
    """The largest error that was held to a bound, beside the bound; empty where none was."""
    bounded = [(each, each["bound"]) for each in evidence if each["bound"] is not None]
    if not bounded:
        return same("")
    worst, bound = max(bounded, key=lambda pair: size(pair[0]["error"]))
    told = Phrase("largest error ", "最大误差 ") + relative(worst["error"])
    at = seen_at(worst["where"])
    if at and len(at) <= WIDE:
        told += Phrase(f" at {at}", f"（{at}）")
    told += Phrase(f", bound {relative(bound)}", f"，误差界 {relative(bound)}")
    return told + (Phrase("; the bound is loose", "；误差界偏松") if worst["loose"] else "")


def smallest(claim: ClaimRecord) -> tuple[Phrase, str]:
    """A label and the case that falsifies a refuted claim; both empty where there is none.

    A statement without variables is its own counterexample: what it counted, or else the statement as it is written.
    """
    counterexample = claim["counterexample"]
    if counterexample is None:
        return same(""), ""
    if counterexample["found"]:
        return Phrase("Smallest counterexample found", "找到的最小反例"), case(counterexample["found"])
    if counterexample["pinned"]:
        return Phrase("Counterexample", "反例"), case(counterexample["pinned"])
    statements = [body(each["source"]) for each in claim["properties"] if each["role"] == "statement"]
    if not statements or not statements[0]:
        return same(""), ""
    if claim["evidence"]:
        first = claim["evidence"][0]
        return Phrase("Counted", "计得"), f"{number(first['exact'])} {first['unit']}: {first['label']}"
    return Phrase("As it is written", "原样写出"), statements[0]


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
