"""Pictures of what is so by definition: the formats' fields and ranges, and a layout before and after a transpose.

They are drawn from ``reference/`` and not from a record. ``PICTURES`` says which claims show them.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from properties.report.drawing import LEFT, WIDTH, Chart, Drawing, Logarithmic
from properties.report.languages import Phrase
from properties.report.pictures import Draw, Picture, Table
from reference import floats, strided
from reference.floats import FloatFormat

SHOWN: Mapping[str, FloatFormat] = {
    "float32": floats.FLOAT32,
    "bfloat16": floats.BFLOAT16,
    "float16": floats.FLOAT16,
    "float8_e5m2": floats.FLOAT8_E5M2,
    "float8_e4m3fn": floats.FLOAT8_E4M3FN,
}
"""The formats that the document speaks of."""


FIELDS = {
    "sign": Phrase("sign", "符号"),
    "exponent": Phrase("exponent", "指数"),
    "mantissa": Phrase("mantissa", "尾数"),
}
"""The fields of a code, first to last."""


def _widths(format: FloatFormat) -> tuple[int, int, int]:
    return 1, format.exponent_bits, format.mantissa_bits


def fields() -> Picture:
    """The bits of each format: sign, exponent, mantissa."""
    cell, row, left = 9.2, 30, 98
    drawing = Drawing(24 + row * len(SHOWN))
    for place, (name, format) in enumerate(SHOWN.items()):
        y = 6 + row * place
        drawing.text(4, y + 14, name, style="label")
        at = float(left)
        for field, width in zip(FIELDS, _widths(format), strict=True):
            for bit in range(width):
                drawing.box(at + bit * cell, y, cell - 1.2, 19, f"bit {field}")
            at += width * cell + 2
        drawing.text(at + 4, y + 14, " + ".join(map(str, _widths(format))), style="label")
    for place, (field, named) in enumerate(FIELDS.items()):
        at, floor = left + 78.0 * place, drawing.height - 12
        drawing.box(at, floor, cell - 1.2, 10, f"bit {field}")
        drawing.text(at + cell + 4, floor + 9, named, style="label")
    return Picture(
        Phrase("The fields of the formats", "各格式的位域"),
        Phrase(
            "A box is a bit: the sign, then the exponent, then the mantissa. bfloat16 has the exponent of float32;"
            " float16 gives three of those bits to the mantissa.",
            "一格一位：符号，随后是指数，再后是尾数。bfloat16 的指数与 float32 相同；float16 把其中三位给了尾数。",
        ),
        drawing,
        Table(
            (
                Phrase("Format", "格式"),
                Phrase("Sign", "符号"),
                Phrase("Exponent", "指数"),
                Phrase("Mantissa", "尾数"),
                Phrase("Bits", "位数"),
            ),
            tuple(
                (name, "1", str(each.exponent_bits), str(each.mantissa_bits), str(each.bits))
                for name, each in SHOWN.items()
            ),
        ),
    )


def ranges() -> Picture:
    """From the smallest to the largest positive number of each format, on one logarithmic axis."""
    row, left = 36, 106
    height = 30 + row * len(SHOWN) + 34
    x = Logarithmic(1e-46, 1e40, left, WIDTH - 14)
    drawing = Drawing(height)
    for power in range(-40, 39, 20):
        drawing.line(x.at(10.0**power), 16, x.at(10.0**power), height - 36, "grid")
        drawing.text(x.at(10.0**power), height - 20, _power(power), "middle")
    for place, (name, format) in enumerate(SHOWN.items()):
        y = 22 + row * place
        smallest, normal, largest = map(float, _ends(format))
        drawing.text(4, y + 14, name, style="label")
        below = f"{name}, subnormal: {smallest:.4g} to {normal:.4g}"
        drawing.box(x.at(smallest), y + 4, x.at(normal) - x.at(smallest), 12, "subnormal", below)
        told = f"{name}: {normal:.4g} to {largest:.4g}"
        drawing.box(x.at(normal), y + 4, x.at(largest) - x.at(normal), 12, "normal", told)
        if x.at(largest) - x.at(smallest) > 100:
            drawing.text(x.at(smallest), y + 27, f"{smallest:.3g}", "start", "label small")
            drawing.text(x.at(largest), y + 27, f"{largest:.5g}", "end", "label small")
        else:
            drawing.text(x.at(smallest) - 4, y + 14, f"{smallest:.3g}", "end", "label small")
            drawing.text(x.at(largest) + 4, y + 14, f"{largest:.5g}", "start", "label small")
    drawing.text(
        (left + WIDTH) / 2,
        height - 4,
        Phrase("positive numbers; the paler part is subnormal", "正数的范围；较浅的一段是次正规数"),
        "middle",
        "name",
    )
    return Picture(
        Phrase("The ranges of the formats", "各格式的表示范围"),
        Phrase(
            "Positive numbers on one logarithmic axis. bfloat16 reaches as far up as float32; float16 begins near 6e-8"
            " and ends at 65,504.",
            "正数画在同一条对数轴上。bfloat16 向上与 float32 一样远；float16 到 65,504 为止，从约 6e-8 开始。",
        ),
        drawing,
        Table(
            (
                Phrase("Format", "格式"),
                Phrase("Smallest above zero", "最小正数"),
                Phrase("Smallest normal", "最小正规数"),
                Phrase("Largest finite", "最大有限数"),
            ),
            tuple((name, *(f"{float(end):.6g}" for end in _ends(each))) for name, each in SHOWN.items()),
        ),
    )


def _ends(format: FloatFormat) -> tuple[Fraction, Fraction, Fraction]:
    return format.smallest_subnormal, format.smallest_normal, format.largest


def _power(exponent: int) -> str:
    from properties.report.drawing import SUPERSCRIPT

    return "1" if exponent == 0 else f"10{str(exponent).translate(SUPERSCRIPT)}"


def rounding() -> Picture:
    """The worst relative error of rounding to each format, against the magnitude that is rounded."""
    corners = {name: _error_corners(each) for name, each in SHOWN.items() if each.bits > 8}
    corners |= {"float8_e4m3fn": _error_corners(SHOWN["float8_e4m3fn"])}
    drawing = Drawing(300)
    chart = Chart(drawing, Logarithmic(1e-46, 1e40, LEFT, WIDTH - 14), Logarithmic(1e-8, 1.6, drawing.height - 44, 28))
    chart.axes(Phrase("magnitude", "数的大小"), Phrase("worst relative error of rounding", "舍入的最大相对误差"))
    for place, (name, points) in enumerate(corners.items()):
        chart.curve(points, f"curve c{place}")
        end, level = chart.x.at(points[2][0]), chart.y.at(points[2][1])
        if end < WIDTH - 120:
            drawing.text(end + 5, level + 4, name, style="label")
        else:
            drawing.text(end - 8, level - 5, name, "end", "label")
    return Picture(
        Phrase("Rounding error against magnitude", "舍入误差随数的大小的变化"),
        Phrase(
            "The largest relative error at each magnitude. Within a format's range it is flat, half a unit in the last"
            " place; below it rises to one, where numbers become zero, and above nothing is kept.",
            "每一数量级上最大的相对误差。在格式的范围之内是平的，为末位的一半；往下升到一，即变为零；往上则什么也存不下。",
        ),
        drawing,
        Table(
            (
                Phrase("Format", "格式"),
                Phrase("Everything lost up to", "此值及以下全部丢失"),
                Phrase("Full precision from", "由此起精度完整"),
                Phrase("Worst error from there", "此后的最大误差"),
                Phrase("Up to", "直到"),
            ),
            tuple(
                (name, f"{points[0][0]:.6g}", f"{points[1][0]:.6g}", f"{points[1][1]:.6g}", f"{points[2][0]:.6g}")
                for name, points in corners.items()
            ),
        ),
    )


def _error_corners(format: FloatFormat) -> list[tuple[float, float]]:
    """Where the worst relative error turns: lost, full precision, the largest number, lost again."""
    worst = float(floats.worst_relative_error(format.half_ulp))
    return [
        (float(format.flush_limit), 1.0),
        (float(format.smallest_normal), worst),
        (float(format.largest), worst),
        (float(format.overflow_limit) * 1.02, 1.0),
    ]


def layout() -> Picture:
    """A 3 x 4 tensor as cells with their addresses, its storage, and the same after a transpose."""
    x = strided.fresh((3, 4))
    y = strided.transpose(x, 0, 1)
    cell = 38
    drawing = Drawing(300)
    _cells(drawing, x, 14, "x", cell)
    _cells(drawing, y, 14 + 4 * cell + 90, "x.T", cell)
    drawing.text(14, 222, Phrase("one storage, addresses 0 to 11", "同一块存储，地址 0 到 11"), style="label")
    width = (WIDTH - 28) / x.storage
    for place in range(x.storage):
        drawing.box(14 + place * width, 230, width - 2, 26, f"cell r{place // 4}")
        drawing.text(14 + (place + 0.5) * width - 1, 248, str(place), "middle")
    rule = Phrase("address = row * stride[0] + column * stride[1]", "地址 = 行号 * stride[0] + 列号 * stride[1]")
    drawing.text(14, 276, rule, style="label")
    drawing.text(14, 293, Phrase("A transpose exchanges the two strides.", "转置只是交换两个步幅。"), style="label")
    return Picture(
        Phrase("A layout, and the same storage after a transpose", "一个布局，以及转置之后的同一块存储"),
        Phrase(
            f"x has shape {x.shape} and stride {x.stride}; its transpose has shape {y.shape} and stride {y.stride},"
            " and no number moves. Read along a row of the transpose, addresses rise in steps of four.",
            f"x 的形状是 {x.shape}，步幅是 {x.stride}；转置的形状是 {y.shape}，步幅是 {y.stride}，没有一个数挪动。"
            "沿转置的一行读过去，地址每步加四。",
        ),
        drawing,
        Table(
            (
                Phrase("Tensor", "张量"),
                Phrase("Shape", "形状"),
                Phrase("Stride", "步幅"),
                Phrase("Addresses, row by row", "逐行的地址"),
            ),
            tuple(
                (name, str(each.shape), str(each.stride), "; ".join(" ".join(map(str, row)) for row in _rows(each)))
                for name, each in (("x", x), ("x.T", y))
            ),
        ),
    )


def _rows(x: strided.Strided) -> list[list[int]]:
    found: list[list[int]] = strided.addresses(x).tolist()
    return found


def _cells(drawing: Drawing, x: strided.Strided, left: float, name: str, cell: float) -> None:
    shape = Phrase(f"{name}: shape {x.shape}", f"{name}：形状 {x.shape}")
    drawing.text(left, 16, shape, style="label")
    drawing.text(left, 33, Phrase(f"stride {x.stride}", f"步幅 {x.stride}"), style="label")
    for row, places in enumerate(_rows(x)):
        for column, place in enumerate(places):
            at = left + column * cell, 44 + row * cell
            drawing.box(*at, cell - 3, cell - 3, f"cell r{place // 4}")
            drawing.text(at[0] + (cell - 3) / 2, at[1] + 22, str(place), "middle")


PICTURES: Mapping[str, Draw] = {
    "formats.fp32.fields": fields,
    "formats.fields.exponent-sets-range": ranges,
    "formats.bf16.loses-precision": rounding,
    "tensors.contiguity.transpose-breaks-it": layout,
}
"""The picture of each claim that has one by definition."""
