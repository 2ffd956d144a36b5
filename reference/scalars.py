"""Numbers that count what is done with them, and plain algorithms to send them through.

An algorithm here is loops over single numbers, held in arrays of dtype object. It takes counting numbers, the
variables of ``reference.autodiff``, fractions, integers and floats alike, and knows no formula for what it
costs. ``count`` runs one on counting numbers and says what it did:

    count(matmul, integers((2, 3)), integers((3, 4))).flops == 48

What a product of two numbers is added to matters to the count. ``multiply_add`` is one multiplication and one
addition whatever the total is, zero included, as fused multiply-add does it; a product that begins a sum
instead of being added to zero is a multiplication alone.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from functools import lru_cache, reduce
from typing import Any

import numpy as np
from jaxtyping import Int64, Shaped

Scalar = Any
"""A single number of any of the types above."""
Array = Shaped[np.ndarray, "..."]
"""Single numbers in an array of dtype object, or of a numeric dtype."""


# ── what is counted ──


@dataclass(slots=True)
class Operations:
    """How many operations of each kind were done; counting numbers write it.

    A subtraction is an addition. Logarithms, hyperbolic tangents and the error function are counted with the
    exponentials, a square with the multiplications. Copying a number, changing its sign and calculating with
    its place are none. ``multiply_adds`` says how many of the multiplications and additions were done in
    pairs, each product added to a running total; they are in ``multiplications`` and ``additions`` as well.
    """

    additions: int = 0
    multiplications: int = 0
    divisions: int = 0
    exponentials: int = 0
    roots: int = 0
    comparisons: int = 0
    multiply_adds: int = 0

    @property
    def flops(self) -> int:
        """The arithmetic: everything but comparisons."""
        return self.additions + self.multiplications + self.divisions + self.exponentials + self.roots

    @property
    def matrix(self) -> int:
        """FLOPs of products added to a running total: matrix products and convolutions are made of these."""
        return 2 * self.multiply_adds

    @property
    def elementwise(self) -> int:
        """The other FLOPs."""
        return self.flops - self.matrix

    def __add__(self, other: Operations) -> Operations:
        return Operations(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    def __sub__(self, other: Operations) -> Operations:
        return Operations(*(getattr(self, each.name) - getattr(other, each.name) for each in fields(self)))


class Number:
    """A number that notes what is done with it.

    The functions below ask it to calculate, and calculate themselves with numbers that are none of these.
    """

    __slots__ = ()

    def like(self, value: Scalar) -> Scalar:
        """Another number of this kind that holds ``value``, and that no operation made."""
        raise NotImplementedError

    def multiply_add(self, total: Scalar, factor: Scalar) -> Scalar:
        """``total + self * factor``, in one step."""
        raise NotImplementedError

    def square(self) -> Scalar:
        """The number times itself."""
        raise NotImplementedError

    def exp(self) -> Scalar:
        """The exponential."""
        raise NotImplementedError

    def log(self) -> Scalar:
        """The natural logarithm."""
        raise NotImplementedError

    def sqrt(self) -> Scalar:
        """The square root."""
        raise NotImplementedError

    def tanh(self) -> Scalar:
        """The hyperbolic tangent."""
        raise NotImplementedError

    def erf(self) -> Scalar:
        """The error function."""
        raise NotImplementedError


class Counted(Number):
    """A value, and where every operation with it is counted."""

    __slots__ = ("done", "value")

    def __init__(self, value: Scalar, done: Operations) -> None:
        self.value = value
        self.done = done

    def like(self, value: Scalar) -> Counted:
        return Counted(value, self.done)

    def __repr__(self) -> str:
        return f"Counted({self.value!r})"

    def __add__(self, other: Scalar) -> Counted:
        self.done.additions += 1
        return Counted(self.value + plain(other), self.done)

    __radd__ = __add__

    def __sub__(self, other: Scalar) -> Counted:
        self.done.additions += 1
        return Counted(self.value - plain(other), self.done)

    def __rsub__(self, other: Scalar) -> Counted:
        self.done.additions += 1
        return Counted(other - self.value, self.done)

    def __mul__(self, other: Scalar) -> Counted:
        self.done.multiplications += 1
        return Counted(self.value * plain(other), self.done)

    __rmul__ = __mul__

    def __truediv__(self, other: Scalar) -> Counted:
        self.done.divisions += 1
        return Counted(self.value / plain(other), self.done)

    def __rtruediv__(self, other: Scalar) -> Counted:
        self.done.divisions += 1
        return Counted(other / self.value, self.done)

    def __neg__(self) -> Counted:
        return Counted(-self.value, self.done)

    def __gt__(self, other: Scalar) -> bool:
        self.done.comparisons += 1
        return bool(self.value > plain(other))

    def __lt__(self, other: Scalar) -> bool:
        self.done.comparisons += 1
        return bool(self.value < plain(other))

    def multiply_add(self, total: Scalar, factor: Scalar) -> Counted:
        done = self.done
        done.multiplications += 1
        done.additions += 1
        done.multiply_adds += 1
        return Counted(plain(total) + self.value * plain(factor), done)

    def square(self) -> Counted:
        self.done.multiplications += 1
        return Counted(self.value * self.value, self.done)

    def exp(self) -> Counted:
        self.done.exponentials += 1
        return Counted(math.exp(self.value), self.done)

    def log(self) -> Counted:
        self.done.exponentials += 1
        return Counted(math.log(self.value), self.done)

    def sqrt(self) -> Counted:
        self.done.roots += 1
        return Counted(math.sqrt(self.value), self.done)

    def tanh(self) -> Counted:
        self.done.exponentials += 1
        return Counted(math.tanh(self.value), self.done)

    def erf(self) -> Counted:
        self.done.exponentials += 1
        return Counted(math.erf(self.value), self.done)


def plain(number: Scalar) -> Scalar:
    """The value of a counting number; anything else as it is."""
    return number.value if type(number) is Counted else number


def count(algorithm: Callable[..., Any], *operands: Any, **conventions: Any) -> Operations:
    """What ``algorithm`` does with ``operands``.

    Arrays become counting numbers, everything else (a stride, a pattern, targets in a list) is handed on as
    it is.
    """
    done = Operations()
    algorithm(*(counted(each, done) if isinstance(each, np.ndarray) else each for each in operands), **conventions)
    return done


# ── arrays of single numbers ──


def counted(array: Array, done: Operations) -> Array:
    """The same numbers as counting numbers that write ``done``."""
    return filled((Counted(value, done) for value in array.flat), array.shape, array.size)


def filled(numbers: Iterable[Scalar], shape: tuple[int, ...], size: int) -> Array:
    """``size`` numbers, the last index fastest, in an array of dtype object."""
    return np.fromiter(numbers, dtype=object, count=size).reshape(shape)


def integers(shape: tuple[int, ...], seed: int = 0) -> Int64[np.ndarray, "..."]:
    """Whole numbers from -9 to 9, always the same ones for a shape and a seed."""
    return _integers(shape, seed).copy()


@lru_cache(maxsize=4096)
def _integers(shape: tuple[int, ...], seed: int) -> Int64[np.ndarray, "..."]:
    # Setting up a generator takes longer than small arrays do, and few shapes are asked for often.
    return np.random.default_rng(seed).integers(-9, 10, shape, dtype=np.int64)


def reals(shape: tuple[int, ...], seed: int = 0) -> Array:
    """Normal float64 numbers."""
    return np.random.default_rng(seed).standard_normal(shape)


def values(array: Array) -> Array:
    """The numbers that an array of counting numbers holds, in the dtype NumPy finds for them."""
    return np.array([plain(number) for number in array.flat]).reshape(array.shape)


# ── single numbers ──


class Start(Enum):
    """What an inner product begins with."""

    ZERO = "zero, to which every product is added"
    FIRST_PRODUCT = "its first product, to which the others are added: the least there is to do"

    def __repr__(self) -> str:
        return f"Start.{self.name}"


def multiply_add(total: Scalar, x: Scalar, y: Scalar) -> Scalar:
    """``total + x * y``, counted as one multiplication and one addition."""
    if isinstance(x, Number):
        return x.multiply_add(total, y)
    if isinstance(y, Number):
        return y.multiply_add(total, x)
    return total + x * y


def inner_product(xs: Iterable[Scalar], ys: Iterable[Scalar], total: Scalar = 0) -> Scalar:
    """``total`` and every product of a number of ``xs`` with the one at its place in ``ys``."""
    for x, y in zip(xs, ys, strict=True):
        total = multiply_add(total, x, y)
    return total


def least_inner_product(xs: Sequence[Scalar], ys: Sequence[Scalar]) -> Scalar:
    """The same from the first product on; 0 for nothing."""
    if not xs:
        return 0
    return inner_product(xs[1:], ys[1:], xs[0] * ys[0])


INNER_PRODUCTS: dict[Start, Callable[..., Scalar]] = {
    Start.ZERO: inner_product,
    Start.FIRST_PRODUCT: least_inner_product,
}


def square(x: Scalar) -> Scalar:
    """A number times itself."""
    return x.square() if isinstance(x, Number) else x * x


def exp(x: Scalar) -> Scalar:
    """The exponential of a number."""
    return x.exp() if isinstance(x, Number) else math.exp(x)


def log(x: Scalar) -> Scalar:
    """The natural logarithm of a number."""
    return x.log() if isinstance(x, Number) else math.log(x)


def sqrt(x: Scalar) -> Scalar:
    """The square root of a number."""
    return x.sqrt() if isinstance(x, Number) else math.sqrt(x)


def tanh(x: Scalar) -> Scalar:
    """The hyperbolic tangent of a number."""
    return x.tanh() if isinstance(x, Number) else math.tanh(x)


def erf(x: Scalar) -> Scalar:
    """The error function of a number."""
    return x.erf() if isinstance(x, Number) else math.erf(x)


def maximum(x: Scalar, y: Scalar) -> Scalar:
    """The larger of two numbers: one comparison."""
    return y if y > x else x


def relu(x: Scalar) -> Scalar:
    """A number where it is above zero, and zero elsewhere: one comparison."""
    if x > 0:
        return x
    return x.like(0) if isinstance(x, Number) else 0 * x


def sigmoid(x: Scalar) -> Scalar:
    """1 / (1 + exp(-x))."""
    return 1 / (1 + exp(-x))


def silu(x: Scalar) -> Scalar:
    """x * sigmoid(x), as x / (1 + exp(-x))."""
    return x / (1 + exp(-x))


def gelu(x: Scalar) -> Scalar:
    """x times the probability that a standard normal number is below x, by the error function."""
    return 0.5 * x * (1 + erf(x * math.sqrt(0.5)))


def tanh_gelu(x: Scalar) -> Scalar:
    """The same approximated by a hyperbolic tangent."""
    return 0.5 * x * (1 + tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * (x * square(x)))))


def addcmul(x: Scalar, first: Scalar, second: Scalar, value: Scalar) -> Scalar:
    """x + value * first * second."""
    return x + value * first * second


def lerp(start: Scalar, end: Scalar, weight: Scalar) -> Scalar:
    """The point ``weight`` of the way from ``start`` to ``end``."""
    return start + weight * (end - start)


def summed(numbers: Sequence[Scalar]) -> Scalar:
    """The sum of numbers, from the first one on; 0 for none."""
    return reduce(operator.add, numbers) if numbers else 0


# ── elementwise ──


def elementwise(function: Callable[..., Scalar], *operands: Any) -> Array:
    """``function`` of the numbers at one place, operands stretched to one shape as NumPy does it."""
    arrays = np.broadcast_arrays(*(np.asarray(each, dtype=object) for each in operands))
    return filled(map(function, *(each.flat for each in arrays)), arrays[0].shape, arrays[0].size)


def add(x: Array, y: Array) -> Array:
    """Sums, element by element."""
    return elementwise(operator.add, x, y)


def multiply(x: Array, y: Array) -> Array:
    """Products, element by element."""
    return elementwise(operator.mul, x, y)


# ── matrices ──


def matmul(x: Array, y: Array, start: Start = Start.ZERO) -> Array:
    """The product of x [..., rows, inner] and y [..., inner, columns]: [..., rows, columns].

    Leading dimensions are stretched to one shape; x may be [inner] and y may be [inner], whose dimension is
    then missing in the result, as in NumPy. Raises ValueError where the inner lengths differ.
    """
    left = x if x.ndim > 1 else x[np.newaxis]
    right = y if y.ndim > 1 else y[:, np.newaxis]
    if left.shape[-1] != right.shape[-2]:
        raise ValueError(f"inner lengths {left.shape[-1]} and {right.shape[-2]} differ: make them equal")
    leading = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    lefts = np.broadcast_to(left, (*leading, *left.shape[-2:]))
    rights = np.broadcast_to(right, (*leading, *right.shape[-2:]))
    shape = (*leading, left.shape[-2], right.shape[-1])
    product = INNER_PRODUCTS[start]
    cells = (
        product(row, column)
        for at in np.ndindex(leading)
        for row, column in itertools.product(_rows(lefts[at]), _rows(rights[at].T))
    )
    result = filled(cells, shape, math.prod(shape))
    result = result if y.ndim > 1 else result[..., 0]
    return result if x.ndim > 1 else result[..., 0, :] if y.ndim > 1 else result[..., 0]


def _rows(matrix: Array) -> list[list[Scalar]]:
    rows: list[list[Scalar]] = matrix.tolist()
    return rows


def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """The product of x [..., inputs] and the transpose of weight [outputs, inputs]: [..., outputs].

    A bias [outputs] is added afterwards.
    """
    product = matmul(x, weight.T)
    return product if bias is None else add(product, bias)


def einsum(pattern: str, *operands: Array) -> Array:
    """The sum, over every name the output leaves out, of the products of the operands.

    Names are separated by blanks and stand once in an operand: ``"rows inner, inner columns -> rows
    columns"``. Each product of several numbers is added to a total that begins at zero; numbers of one
    operand alone are summed from the first on.
    """
    left, output = (side.strip() for side in pattern.split("->"))
    inputs = [side.split() for side in left.split(",")]
    lengths = {
        name: size
        for names, each in zip(inputs, operands, strict=True)
        for name, size in zip(names, each.shape, strict=True)
    }
    kept = output.split()
    gone = [name for name in lengths if name not in kept]
    shape = tuple(lengths[name] for name in kept)

    def cell(place: tuple[int, ...]) -> Scalar:
        terms = []
        for rest in np.ndindex(*(lengths[name] for name in gone)):
            at = dict(zip((*kept, *gone), (*place, *rest), strict=True))
            terms.append(
                [each[tuple(at[name] for name in names)] for names, each in zip(inputs, operands, strict=True)]
            )
        return _sum_of_products(terms)

    return filled(map(cell, np.ndindex(*shape)), shape, math.prod(shape))


def _sum_of_products(terms: list[list[Scalar]]) -> Scalar:
    if terms and len(terms[0]) == 1:
        return summed([number for (number,) in terms])
    total: Scalar = 0
    for *most, last in terms:
        total = multiply_add(total, reduce(operator.mul, most), last)
    return total


def embedding(table: Array, places: Sequence[int]) -> Array:
    """Rows of ``table``, copied: no arithmetic is done with them, nor with their places."""
    rows: Array = table[list(places)]
    return rows


# ── convolutions ──


def convolution(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    *,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
) -> Array:
    """Filters that slide over x: [batch, filters, *positions].

    x is [batch, channels, *space], the weight [filters, channels / groups, *kernel] and the bias [filters].
    ``padding`` zeros stand around x, and are multiplied like every other number. A bias is added afterwards.
    Filter f sees the channels of its own group alone.
    """
    kernel = weight.shape[2:]
    padded = _padded(x, padding)
    positions = tuple(
        (size - dilation * (width - 1) - 1) // stride + 1 for size, width in zip(padded.shape[2:], kernel, strict=True)
    )
    filters, channels = weight.shape[:2]
    taps = [tuple(dilation * step for step in tap) for tap in np.ndindex(*kernel)]

    def cell(batch: int, filter_: int, *position: int) -> Scalar:
        group = filter_ // (filters // groups)
        corner = [stride * step for step in position]
        seen = [
            padded[(batch, channel, *map(operator.add, corner, tap))]
            for channel in range(group * channels, (group + 1) * channels)
            for tap in taps
        ]
        product = inner_product(seen, weight[filter_].flat)
        return product if bias is None else product + bias[filter_]

    shape = (len(x), filters, *positions)
    return filled((cell(*place) for place in np.ndindex(shape)), shape, math.prod(shape))


def _padded(x: Array, padding: int) -> Array:
    if not padding:
        return x
    shape = (*x.shape[:2], *(size + 2 * padding for size in x.shape[2:]))
    first = next(iter(x.flat), 0)
    zero = first.like if isinstance(first, Number) else int
    result = filled((zero(0) for _ in range(math.prod(shape))), shape, math.prod(shape))
    inside: tuple[Any, ...] = (..., *(slice(padding, padding + size) for size in x.shape[2:]))
    result[inside] = x
    return result


def transposed_convolution(x: Array, weight: Array, *, stride: int = 1, groups: int = 1) -> Array:
    """Kernels laid where x stands: [batch, filters, *positions].

    x is [batch, channels, *space] and the weight [channels, filters / groups, *kernel].
    Every number of x is multiplied by the kernel of its channel, and the products are added where they fall,
    to zeros.
    """
    channels, filters, *kernel = weight.shape
    space = tuple((size - 1) * stride + width for size, width in zip(x.shape[2:], kernel, strict=True))
    result = np.full((len(x), filters * groups, *space), 0, dtype=object)
    for batch, channel, *position in np.ndindex(x.shape):
        group = channel // (channels // groups)
        for filter_, *tap in np.ndindex(filters, *kernel):
            place = (
                batch,
                group * filters + filter_,
                *(stride * at + step for at, step in zip(position, tap, strict=True)),
            )
            result[place] = multiply_add(
                result[place], x[(batch, channel, *position)], weight[(channel, filter_, *tap)]
            )
    return result


# ── normalisations ──


def along_rows(function: Callable[[list[Scalar]], list[Scalar]], x: Array) -> Array:
    """``function`` of every row, which is what lies along the last dimension."""
    rows = _rows(x.reshape(-1, x.shape[-1])) if x.size else []
    return filled(itertools.chain.from_iterable(map(function, rows)), x.shape, x.size)


def softmax_of(row: Sequence[Scalar]) -> list[Scalar]:
    """The exponentials of a row as shares of their sum, each taken relative to the largest number."""
    largest = reduce(maximum, row)
    weights = [exp(number - largest) for number in row]
    total = summed(weights)
    return [weight / total for weight in weights]


def softmax(x: Array) -> Array:
    """The softmax of every row."""
    return along_rows(softmax_of, x)


def layer_norm(x: Array, weight: Array, bias: Array, eps: float = 1e-5) -> Array:
    """Every row less its mean and over its standard deviation, times ``weight`` plus ``bias``."""

    def normalised(row: list[Scalar]) -> list[Scalar]:
        mean = summed(row) / len(row)
        centred = [number - mean for number in row]
        variance = summed([square(number) for number in centred]) / len(row)
        deviation = sqrt(variance + eps)
        return [number / deviation * scale + shift for number, scale, shift in zip(centred, weight, bias, strict=True)]

    return along_rows(normalised, x)


def rms_norm(x: Array, weight: Array, eps: float = 1e-5) -> Array:
    """Every row over the root of its mean square, times ``weight``."""

    def normalised(row: list[Scalar]) -> list[Scalar]:
        deviation = sqrt(summed([square(number) for number in row]) / len(row) + eps)
        return [number / deviation * scale for number, scale in zip(row, weight, strict=True)]

    return along_rows(normalised, x)


# ── networks ──


class Mask(Enum):
    """Which keys a query sees."""

    FULL = "all of them"
    CAUSAL = "those up to its own place; the others are left out, not calculated and discarded"

    def __repr__(self) -> str:
        return f"Mask.{self.name}"


def attention(query: Array, key: Array, value: Array, mask: Mask = Mask.FULL) -> Array:
    """What every query reads from the values, by its likeness to the keys: [heads, queries, out].

    query is [heads, queries, width], key [groups, keys, width] and value [groups, keys, out].
    As many heads share a key head as there are heads a group. Scores are scaled by the root of the width.
    """
    shared = len(query) // len(key)
    scale = 1 / math.sqrt(query.shape[-1])
    shape = (*query.shape[:-1], value.shape[-1])

    def attended(head: int, place: int) -> list[Scalar]:
        seen = key.shape[1] if mask is Mask.FULL else min(place + 1, key.shape[1])
        group = head // shared
        asked = query[head, place].tolist()
        weights = softmax_of([inner_product(asked, each) * scale for each in _rows(key[group, :seen])])
        return [inner_product(weights, column) for column in _rows(value[group, :seen].T)]

    cells = itertools.chain.from_iterable(attended(*at) for at in np.ndindex(query.shape[:-1]))
    return filled(cells, shape, math.prod(shape))


def swiglu(x: Array, gate: Array, up: Array, down: Array) -> Array:
    """A gated feed-forward layer: (silu(x gate^T) * (x up^T)) down^T, its weights [outputs, inputs]."""
    return linear(elementwise(lambda g, u: silu(g) * u, linear(x, gate), linear(x, up)), down)


def recurrent_cell(
    x: Array, hidden: Array, input_weight: Array, hidden_weight: Array, input_bias: Array, hidden_bias: Array
) -> Array:
    """One step of a recurrent network: tanh of the sum of a linear layer of x and one of the hidden state."""
    return elementwise(
        lambda a, b: tanh(a + b),
        linear(x, input_weight, input_bias),
        linear(hidden, hidden_weight, hidden_bias),
    )


def lstm_cell(
    x: Array,
    hidden: Array,
    cell: Array,
    input_weight: Array,
    hidden_weight: Array,
    input_bias: Array,
    hidden_bias: Array,
) -> tuple[Array, Array]:
    """One step of a long short-term memory: the next hidden state and the next cell.

    The rows of the weights are the input, forget, cell and output gate, one after the other.
    """
    sums = add(linear(x, input_weight, input_bias), linear(hidden, hidden_weight, hidden_bias))
    enter, forget, candidate, leave = np.split(sums, 4, axis=-1)
    cell = elementwise(lambda i, f, g, c: sigmoid(f) * c + sigmoid(i) * tanh(g), enter, forget, candidate, cell)
    return elementwise(lambda o, c: sigmoid(o) * tanh(c), leave, cell), cell


# ── losses ──


def mean_square_error(output: Array, target: Array) -> Scalar:
    """The mean of the squared differences."""
    squares = [square(y - t) for y, t in zip(output.flat, target.flat, strict=True)]
    return summed(squares) / len(squares)


def cross_entropy(logits: Array, targets: Sequence[int]) -> Scalar:
    """The mean over the rows of the logarithm of a row's summed exponentials, less its target's logit."""

    def loss(row: list[Scalar], target: int) -> Scalar:
        largest = reduce(maximum, row)
        return log(summed([exp(number - largest) for number in row])) + largest - row[target]

    return summed([loss(row, target) for row, target in zip(_rows(logits), targets, strict=True)]) / len(targets)
