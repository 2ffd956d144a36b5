"""Pictures of what a run observed, drawn from its record's evidence and from nothing else.

Each kind of picture asks for evidence of a certain form: labels of a certain pattern, cases with certain names, a
measured ratio with its interval. A claim whose record holds that form gets the picture. ``KINDS`` is the whole
mapping, the most particular kind first; evidence that no kind takes is shown as predicted against exact.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from properties.report.drawing import BOTTOM, LEFT, RIGHT, TOP, WIDTH, Chart, Drawing, Linear, fitted
from properties.report.languages import Phrase, counted, same
from properties.report.pictures import Picture, labels_apart
from properties.report.record import EvidenceRecord
from properties.report.wording import number, relative, seen_at
from reference.linear import backward_over_forward

Rows = Sequence[EvidenceRecord]
FLOAT16_LARGEST = 65504.0
SERIES = 6
"""Kinds of points that one picture tells apart."""


@dataclass(frozen=True)
class Kind:
    """A kind of picture: the labels whose evidence it takes, and how it draws them, if it can."""

    labels: str
    draw: Callable[[Rows], Picture | None]


def pictures_of(evidence: Rows) -> list[Picture]:
    """The pictures of a claim's evidence: at most one of each kind, then one of each unit that is left."""
    left = list(evidence)
    drawn = []
    for kind in KINDS:
        fitting = [row for row in left if re.fullmatch(kind.labels, row["label"])]
        picture = kind.draw(fitting) if fitting else None
        if picture is not None:
            drawn.append(picture)
            left = [row for row in left if row not in fitting]
    for unit in dict.fromkeys(row["unit"] for row in left):
        picture = against([row for row in left if row["unit"] == unit])
        drawn += [] if picture is None else [picture]
    return drawn


# ── reading evidence ──


def finite(value: float | int | str | None) -> float | None:
    """A number that can be drawn, or None: zero, or one whose square and inverse are numbers too."""
    drawable = isinstance(value, int | float) and (value == 0 or 1e-100 < abs(value) < 1e100)
    return float(value) if isinstance(value, int | float) and drawable else None


def by_label(rows: Rows) -> dict[str, list[EvidenceRecord]]:
    """The rows of each label, in the record's order."""
    found: dict[str, list[EvidenceRecord]] = {}
    for row in rows:
        found.setdefault(row["label"], []).append(row)
    return found


def along(rows: Rows, name: str) -> list[tuple[float, float, EvidenceRecord]]:
    """(the case's ``name``, the exact value, the row) of each row that has both as finite numbers, rising."""
    found = []
    for row in rows:
        x, y = finite(row["where"].get(name)), finite(row["exact"])
        if x is not None and y is not None:
            found.append((x, y, row))
    return sorted(found, key=lambda each: each[:2])


def _told(row: EvidenceRecord) -> str:
    at = seen_at(row["where"])
    return f"{_cut(at, 60)}: {number(row['exact'])}" if at else number(row["exact"])


def _cut(text: str, most: int) -> str:
    """A text in so many characters, with its last as a sign where more has been cut off."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def told_apart(names: Sequence[str]) -> list[str]:
    """Names of alike things without what all of them say: ``Product(rows=2, …)`` and ``Product(rows=3, …)``."""
    parts = [name.split(", ") for name in names]
    common = set[str]().union(*parts).intersection(*parts) if len(set(names)) > 1 else set()
    kept = [[part for part in each if part not in common] for each in parts]
    return [
        ", ".join(own or each) + (", …" if own and len(own) < len(each) else "")
        for own, each in zip(kept, parts, strict=True)
    ]


# ── backward over forward against depth ──


def over_depth(rows: Rows) -> Picture | None:
    """A ratio against the number of layers, with the curve 2 - 1/L."""
    seen = [each for each in along(rows, "layers") if each[0] >= 1]
    depths = [x for x, _, _ in seen]
    if len(set(depths)) < 3:
        return None
    curve = [(float(layers), float(backward_over_forward(layers))) for layers in range(1, int(max(depths)) + 1)]
    chart = Chart.over([*depths, 1.0], [*(y for _, y, _ in seen), *(y for _, y in curve), 2.0])
    chart.axes(Phrase("layers", "层数"), Phrase("backward over forward FLOPs", "反向与前向 FLOPs 之比"))
    chart.curve([(1.0, 2.0), (max(depths), 2.0)], "rule")
    chart.curve(curve, "curve")
    for x, y, row in seen:
        chart.mark(x, y, "seen", _told(row))
    chart.drawing.text(chart.x.at(max(depths)), chart.y.at(2.0) - 5, Phrase("rule: 2", "经验法则：2"), "end")
    return Picture(
        Phrase("Backward over forward, against depth", "反向与前向之比随深度的变化"),
        Phrase(
            f"Backward over forward FLOPs of equal layers without the input's gradient: {counted(len(seen), 'point')},"
            f" from {min(y for _, y, _ in seen):.4g} to {max(y for _, y, _ in seen):.4g}, on the curve 2 - 1/L, which"
            " nears the rule's 2 with depth.",
            f"不求输入梯度时，等宽各层的反向与前向 FLOPs 之比：{len(seen)} 个点，从 {min(y for _, y, _ in seen):.4g} 到"
            f" {max(y for _, y, _ in seen):.4g}，都落在曲线 2 - 1/L 上，并随深度趋近经验法则的 2。",
        ),
        chart.drawing,
    )


# ── attention's excess against context ──


def excess(rows: Rows) -> Picture | None:
    """By how much the exact count is above the rule, against the context, a line for each decoder."""
    series: dict[str, list[tuple[float, float, EvidenceRecord]]] = {}
    for context, exact, row in along(rows, "context"):
        rule = finite(row["rule"])
        if rule and exact > rule > 0 and context > 0:
            series.setdefault(str(row["where"].get("decoder", "")), []).append((context, exact / rule - 1, row))
    points = [each for seen in series.values() for each in seen]
    if len({x for x, _, _ in points}) < 3:
        return None
    # Each line is drawn on to the longest context, in proportion, so that all of them end where their names stand.
    longest = max(x for x, _, _ in points)
    ends = [min(seen[-1][1] * (longest / seen[-1][0]), 1e200) for seen in series.values()]  # no infinity
    x_scale = fitted([x for x, _, _ in points], LEFT, WIDTH - RIGHT - 84)
    y_scale = fitted([*(y for _, y, _ in points), *ends], 300 - BOTTOM, TOP)
    chart = Chart(Drawing(300), x_scale, y_scale)
    chart.axes(
        Phrase("context, tokens", "上下文长度（词元）"),
        Phrase("exact count over the rule, minus 1", "精确计数与经验法则之比减 1"),
    )
    heights = labels_apart([chart.y.at(y) for y in ends], 13)
    for place, (name, seen) in enumerate(series.items()):
        chart.curve([*((x, y) for x, y, _ in seen), (longest, ends[place])], "thin")
        for x, y, row in seen:
            chart.mark(x, y, "seen", f"{name}, {number(row['where']['context'])}: +{relative(y)}", place)
        chart.drawing.line(chart.x.at(longest), chart.y.at(ends[place]), WIDTH - RIGHT - 82, heights[place], "grid")
        chart.drawing.text(WIDTH - RIGHT - 78, heights[place] + 4, _cut(name, 14), style="label")
    worst = max(points, key=lambda each: each[1])
    name = str(worst[2]["where"].get("decoder", ""))
    return Picture(
        Phrase("Excess over the rule, against context", "超出经验法则的部分随上下文长度的变化"),
        Phrase(
            f"What attention adds to the rule of thumb, for {counted(len(series), 'decoder')}: it grows in proportion"
            f" to the context, up to {relative(worst[1])} ({name}, {number(worst[0])} tokens).",
            f"注意力在经验法则之外多出的部分，共 {len(series)} 个解码器：与上下文长度成正比，"
            f"最大 {relative(worst[1])}（{name}，{number(worst[0])} 个词元）。",
        ),
        chart.drawing,
    )


# ── scale against width and depth ──


def over_width(rows: Rows) -> Picture | None:
    """The standard deviation of outputs against the inner length, a mark for each format, and the square root."""
    return _scales(
        rows,
        "width",
        Phrase("input width", "输入宽度"),
        Phrase("standard deviation of the outputs", "输出的标准差"),
        Phrase("Output scale, against width", "输出尺度随宽度的变化"),
    )


def over_layers(rows: Rows) -> Picture | None:
    """The scale of outputs against the layer, a line for each net, with the largest number of float16."""
    return _scales(
        rows,
        "layer",
        Phrase("layer", "层"),
        Phrase("root mean square of the outputs", "输出的均方根"),
        Phrase("Output scale, against depth", "输出尺度随深度的变化"),
    )


def _scales(rows: Rows, name: str, x_name: Phrase, y_name: Phrase, title: Phrase) -> Picture | None:
    series = {label: along(found, name) for label, found in by_label(rows).items()}
    series = {label: [each for each in seen if each[1] > 0] for label, seen in series.items()}
    series = {label: seen for label, seen in series.items() if len({x for x, _, _ in seen}) >= 2}
    points = [each for seen in series.values() for each in seen]
    if len({x for x, _, _ in points}) < 3:
        return None
    xs, ys = [x for x, _, _ in points], [y for _, y, _ in points]
    overflowed = [row for row in rows if row["exact"] in ("inf", "nan") and finite(row["where"].get(name)) is not None]
    ceiling = [FLOAT16_LARGEST] if overflowed or max(ys) > FLOAT16_LARGEST / 100 else []
    chart = Chart.over(xs, [*ys, *ceiling], height=300, apart=10)
    chart.axes(x_name, y_name)
    for top in ceiling:
        chart.curve([(min(xs), top), (max(xs), top)], "limit")
        chart.drawing.text(
            chart.x.at(min(xs)) + 6,
            chart.y.at(top) - 5,
            Phrase("largest float16: 65,504", "float16 的最大值：65,504"),
            style="label",
        )
    names = [label.partition(", ")[2] or label for label in series]
    for (label, seen), (colour, shape) in zip(series.items(), _looks(names), strict=True):
        rules = [(x, rule) for x, _, row in seen if (rule := finite(row["rule"])) is not None and rule > 0]
        chart.curve([each for each in rules if _within(chart, each[1])], "rule")
        for x, y, row in seen:
            chart.mark(x, y, f"seen s{colour}", f"{label}: {_told(row)}", shape)
    for row in overflowed:
        if ceiling:
            chart.drawing.text(chart.x.at(float(row["where"][name])), chart.y.at(ceiling[0]) + 4, "×", "middle", "over")
    _legend(chart.drawing, names)
    gone = len(overflowed)
    return Picture(
        title,
        Phrase(
            f"Measured scale, {counted(len(points), 'point')} of {counted(len(series), 'series', 'series')}, beside the"
            f" predicted one as a dashed line; from {number(min(ys))} to {number(max(ys))}."
            + (f" {counted(gone, 'point')} overflowed: a cross each." if gone else ""),
            f"实测尺度共 {len(series)} 组 {len(points)} 个点，虚线是预测值；从 {number(min(ys))} 到 {number(max(ys))}。"
            + (f"{gone} 个点溢出，记作叉号。" if gone else ""),
        ),
        chart.drawing,
    )


def _within(chart: Chart, y: float) -> bool:
    """Whether a height is within the plotted area."""
    return TOP - 1 <= chart.y.at(y) <= chart.drawing.height - BOTTOM + 1


def _looks(labels: Sequence[str]) -> list[tuple[int, int]]:
    """The colour and the shape of each series' marks.

    Where there are more series than of either, one colour stands for those that begin alike, and one shape for those
    that end alike.
    """
    if len(labels) <= SERIES:
        return [(place, place) for place in range(len(labels))]
    beginnings, ends = ([label.rpartition(", ")[part] for label in labels] for part in (0, 2))
    colours, shapes = (list(dict.fromkeys(each)) for each in (beginnings, ends))
    return [(colours.index(one) % SERIES, shapes.index(other)) for one, other in zip(beginnings, ends, strict=True)]


def _legend(drawing: Drawing, labels: Sequence[str]) -> None:
    """Marks and their names, below the picture: two in a line where both have room."""
    columns, looks = 1 if any(len(label) > 30 for label in labels) else 2, _looks(labels)
    for place, label in enumerate(labels):
        row, column = divmod(place, columns)
        x, y = LEFT + column * (WIDTH - LEFT - RIGHT) / columns, drawing.height + 14 + 17 * row
        colour, shape = looks[place]
        drawing.mark(x, y - 4, f"seen s{colour}", shape=shape)
        drawing.text(x + 10, y, _cut(label, 66), style="label")
    drawing.height += 17 * math.ceil(len(labels) / columns) + 6


# ── a training step's memory ──


def phases(rows: Rows) -> Picture | None:
    """Bytes of each kind, stacked, a column for each phase: cases that name a ``phase`` and a ``kind``."""
    stacks: dict[str, dict[str, float]] = {}
    for row in rows:
        phase, kind, taken = row["where"].get("phase"), row["where"].get("kind"), finite(row["exact"])
        if isinstance(phase, str) and isinstance(kind, str) and taken is not None and taken >= 0:
            stacks.setdefault(phase, {}).setdefault(kind, taken)
    kinds = list(dict.fromkeys(kind for stack in stacks.values() for kind in stack))
    tallest = max((sum(stack.values()) for stack in stacks.values()), default=0.0)
    if len(stacks) < 2 or not tallest:
        return None
    height = 280
    drawing, y = Drawing(height), Linear(0, 1.04 * tallest, height - BOTTOM, TOP)
    for value, written in y.ticks():
        drawing.line(LEFT, y.at(value), WIDTH - RIGHT, y.at(value), "grid")
        drawing.text(LEFT - 6, y.at(value) + 4, written, "end")
    drawing.text(4, 13, Phrase("bytes", "字节"), style="name")
    step = (WIDTH - LEFT - RIGHT) / len(stacks)
    for column, (phase, stack) in enumerate(stacks.items()):
        x, floor = LEFT + (column + 0.18) * step, 0.0
        for kind, taken in stack.items():
            told = f"{phase}, {kind}: {number(taken)} B"
            top, bottom = y.at(floor + taken), y.at(floor)
            drawing.box(x, top, 0.64 * step, bottom - top, f"part p{kinds.index(kind) % 6}", told)
            floor += taken
        drawing.text(x + 0.32 * step, height - BOTTOM + 17, phase, "middle", "label")
    drawing.line(LEFT, height - BOTTOM, WIDTH - RIGHT, height - BOTTOM, "axis")
    for place, kind in enumerate(kinds):
        left = LEFT + place % 3 * (WIDTH - LEFT - RIGHT) / 3
        top = drawing.height - 14 + 17 * (place // 3)
        drawing.box(left, top, 10, 10, f"part p{place % 6}")
        drawing.text(left + 15, top + 9, kind, style="label")
    drawing.height += 17 * math.ceil(len(kinds) / 3) - 6
    return Picture(
        Phrase("Memory of a training step, by phase", "一个训练步各阶段的内存"),
        Phrase(
            f"Bytes held in {counted(len(stacks), 'phase')}, stacked by kind: {', '.join(kinds)};"
            f" {number(tallest)} at most.",
            f"{len(stacks)} 个阶段中占用的字节数，按类别堆叠：{'、'.join(kinds)}；最多 {number(tallest)}。",
        ),
        drawing,
    )


# ── measured ratios ──

_NUMBER = r"(\d+(?:\.\d*)?(?:e[+-]?\d\d?)?)"
_INTERVAL = re.compile(f"{_NUMBER} to {_NUMBER}")
_SIDED = re.compile(f"{_NUMBER} and more")


def interval_of(row: EvidenceRecord) -> tuple[float, float] | None:
    """Where a measured ratio lies, as its record says; None for a number that was not measured so."""
    written = _INTERVAL.fullmatch(str(row["where"].get("interval", "")))
    return None if written is None else (float(written[1]), float(written[2]))


@dataclass(frozen=True)
class _Measured:
    row: EvidenceRecord
    median: float
    low: float
    high: float
    band: tuple[float, float]


def _measured(row: EvidenceRecord) -> _Measured | None:
    median = finite(row["exact"])
    interval = interval_of(row)
    if median is None or interval is None:
        return None
    written = str(row["where"].get("band", ""))
    both, sided = _INTERVAL.fullmatch(written), _SIDED.fullmatch(written)
    if both:
        band = float(both[1]), float(both[2])
    elif sided:
        band = float(sided[1]), math.inf
    else:
        return None
    return _Measured(row, median, *interval, band)


def _named(row: EvidenceRecord) -> str:
    """What was timed: the label and the case, without what the measurement says of itself."""
    rest = {name: value for name, value in row["where"].items() if name not in ("interval", "pairs", "band")}
    return f"{row['label']} {seen_at(rest)}".strip()


def ratios(rows: Rows) -> Picture | None:
    """Measured ratios with their intervals, each before its band."""
    seen = [measured for row in rows if (measured := _measured(row)) is not None]
    if not seen:
        return None
    step, top = 30, 26
    height = top + step * len(seen) + 44
    edges = [edge for each in seen for edge in (each.low, each.high, each.median, *each.band) if math.isfinite(edge)]
    drawing, x = Drawing(height), fitted(edges, 16, WIDTH - 16)
    for value, written in x.ticks():
        drawing.line(x.at(value), 20, x.at(value), height - 40, "grid")
        drawing.text(x.at(value), height - 24, written, "middle")
    drawing.text(WIDTH / 2, height - 6, Phrase("ratio of durations", "用时之比"), "middle", "name")
    names = told_apart([_named(each.row) for each in seen])
    for place, each in enumerate(seen):
        y = top + step * place + 16
        left, right = x.at(each.band[0]), x.at(each.band[1]) if math.isfinite(each.band[1]) else WIDTH - 4
        drawing.box(left, y - 7, right - left, 14, "band")
        rule = finite(each.row["rule"])
        if rule is not None and min(edges) <= rule <= max(edges):
            drawing.line(x.at(rule), y - 7, x.at(rule), y + 7, "rule")
        drawing.line(x.at(each.low), y, x.at(each.high), y, "whisker")
        drawing.mark(x.at(each.median), y, "seen", f"{each.row['label']}: {_told(each.row)}")
        drawing.text(16, y - 9, _cut(names[place], 74), style="label")
    inside = sum(each.band[0] <= each.low and each.high <= each.band[1] for each in seen)
    return Picture(
        Phrase("Measured ratios, with intervals and bands", "实测的用时之比、其区间与允许范围"),
        Phrase(
            f"{counted(len(seen), 'ratio')}, each as a dot with its interval, before the band it is held to; the"
            f" prediction is a dashed line. {inside} of {len(seen)} intervals lie within their bands.",
            f"共 {len(seen)} 个比值，圆点是中位数，横线是区间，底色是允许范围，虚线是预测值。"
            f"{inside} 个区间落在允许范围之内。",
        ),
        drawing,
    )


# ── shares ──


def shares(rows: Rows) -> Picture | None:
    """What a rule says as a share of the truth, a bar for each label: of counts with a unit, some missed."""
    worst: dict[str, tuple[float, EvidenceRecord]] = {}
    for label, found in by_label([row for row in rows if row["unit"]]).items():
        rule, exact = finite(found[0]["rule"]), finite(found[0]["exact"])
        if rule is not None and exact and 0 <= rule / exact <= 8:
            worst[label] = (rule / exact, found[0])
    if len(worst) < 3 or not any(share == 0 for share, _ in worst.values()):
        return None
    step, top = 32, 24
    height = top + step * len(worst) + 34
    drawing, x = Drawing(height), Linear(0, max(1.0, *(share for share, _ in worst.values())) * 1.02, 12, WIDTH - 46)
    for value, written in x.ticks():
        drawing.line(x.at(value), 16, x.at(value), height - 34, "grid")
        drawing.text(x.at(value), height - 18, written, "middle")
    drawing.line(x.at(1), 16, x.at(1), height - 34, "rule")
    name = Phrase("what the rule says, as a share of the exact value", "规则所给的值占精确值的比例")
    drawing.text(12, height - 3, name, style="name")
    for place, (label, (share, row)) in enumerate(worst.items()):
        y = top + step * place
        drawing.text(12, y + 6, _cut(label, 74), style="label")
        drawing.box(12, y + 10, max(1.5, x.at(share) - 12), 10, "part p0" if share else "bad", _told(row))
        drawing.text(max(13.5, x.at(share)) + 5, y + 19, f"{share:.3g}", style="label")
    nothing = sum(share == 0 for share, _ in worst.values())
    return Picture(
        Phrase("What the rule sees, as a share of what there is", "规则看到的占实有的比例"),
        Phrase(
            f"The worst case of {counted(len(worst), 'kind')} of work; of {nothing} of them the rule sees nothing at"
            " all. The dashed line is the exact value.",
            f"{len(worst)} 类运算各取最坏的一例；其中 {nothing} 类规则完全看不到。虚线是精确值。",
        ),
        drawing,
    )


# ── predicted against exact ──


def against(rows: Rows) -> Picture | None:
    """Predicted against exact, with the line on which the two are equal, for rows of one unit."""
    series: dict[str, list[tuple[float, float, EvidenceRecord]]] = {}
    for row in rows:
        rule, exact = finite(row["rule"]), finite(row["exact"])
        if rule is not None and exact is not None and rule > 0 and exact > 0:
            series.setdefault(row["label"], []).append((rule, exact, row))
    # What is always predicted alike stands in a column, and says nothing of the line.
    series = {label: seen for label, seen in series.items() if len(seen) == 1 or len({x for x, _, _ in seen}) > 1}
    points = [each for seen in series.values() for each in seen]
    if len({(x, y) for x, y, _ in points}) < 4 or len({x for x, _, _ in points}) < 3:
        return None
    both = [value for x, y, _ in points for value in (x, y)]
    chart = Chart.over(both, both, height=300)
    unit = next((row["unit"] for _, _, row in points if row["unit"]), "")
    suffix = same(f", {unit}" if unit else "")
    if unit in ("page", "pages"):
        chart.axes(Phrase("pages touched", "碰过的页数"), Phrase("pages resident", "驻留的页数"))
    else:
        chart.axes(Phrase("predicted", "预测值") + suffix, Phrase("exact", "精确值") + suffix)
    chart.curve([(min(both), min(both)), (max(both), max(both))], "rule")
    for place, (label, seen) in enumerate(series.items()):
        for x, y, row in seen:
            chart.mark(x, y, f"seen s{place % SERIES}", f"{label}: {_told(row)}".removeprefix(": "), place)
    if len(series) > 1:
        _legend(chart.drawing, list(series))
    worst = max(abs(x - y) / y for x, y, _ in points)
    reach = f"{number(max(both))} {unit}".rstrip()
    return Picture(
        Phrase("Predicted against exact", "预测值与精确值"),
        Phrase(
            f"{counted(len(points), 'case')} from {number(min(both))} to {reach};"
            f" the dashed line is where the two are equal, and the farthest point is {relative(worst)} off.",
            f"共 {len(points)} 例，从 {number(min(both))} 到 {reach}；虚线上两者相等，最远的点相差 {relative(worst)}。",
        ),
        chart.drawing,
    )


KINDS = (
    Kind("backward over forward, by depth", over_depth),
    Kind("forward, over the rule", excess),
    Kind("std against width.*", over_width),
    Kind("scale against depth.*", over_layers),
    Kind("memory by phase", phases),
    Kind(".*", ratios),
    Kind(".*", shares),
)
