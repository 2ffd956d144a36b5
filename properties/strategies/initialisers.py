"""Random initial values, and what a signal becomes on its way through layers of them.

All bulk values come from a drawn seed. torch seeds its generator with 32 bits of it, so that larger seeds repeat.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import ClassVar

import numpy as np
import torch
from hypothesis import strategies as st
from jaxtyping import Float, Float64, Shaped
from torch import Tensor, nn

from properties import statistics
from properties.instruments.releases import of_torch
from properties.statistics import ENOUGH, Interval
from properties.strategies.description import Description
from properties.strategies.draws import any_of, between
from reference import initialisation

SEEDS = st.integers(0, 2**32 - 1)


def generator(seed: int) -> torch.Generator:
    """A generator of its own, seeded."""
    return torch.Generator().manual_seed(seed)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """torch's own generator seeded, for what takes no other, and put back afterwards."""
    before = torch.get_rng_state()
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(before)


def numbers(tensor: Shaped[Tensor, "..."]) -> Float64[np.ndarray, "values"]:
    """All elements in float64, so that sums of them add no rounding worth speaking of."""
    found: Float64[np.ndarray, "values"] = tensor.detach().double().flatten().numpy()
    return found


# ── normal numbers ──


class Spelling(Enum):
    """A call that fills a shape with standard normal numbers."""

    RANDN = "torch.randn({shape}, dtype={dtype}, generator={generator})"
    NORMAL = "torch.normal(0.0, 1.0, {shape}, dtype={dtype}, generator={generator})"
    NORMAL_ = "torch.empty({shape}, dtype={dtype}).normal_(generator={generator})"
    RANDN_LIKE = "torch.randn_like(torch.empty({shape}, dtype={dtype}))"

    def __repr__(self) -> str:
        return f"Spelling.{self.name}"


@dataclass(frozen=True, repr=False)
class Draws(Description):
    """Normal numbers of a shape and a dtype, drawn by torch.randn or in other words."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    seed: int
    spelling: Spelling = Spelling.RANDN

    def build(self) -> Float[Tensor, "..."]:
        """The numbers."""
        if self.spelling is Spelling.RANDN_LIKE:
            with seeded(self.seed):
                return torch.randn_like(torch.empty(self.shape, dtype=self.dtype))
        source = generator(self.seed)
        if self.spelling is Spelling.NORMAL:
            return torch.normal(0.0, 1.0, self.shape, dtype=self.dtype, generator=source)
        if self.spelling is Spelling.NORMAL_:
            return torch.empty(self.shape, dtype=self.dtype).normal_(generator=source)
        return torch.randn(self.shape, dtype=self.dtype, generator=source)

    def expression(self) -> str:
        seeded = f"torch.Generator().manual_seed({self.seed})"
        return self.spelling.value.format(shape=self.shape, dtype=self.dtype, generator=seeded)


_FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


@st.composite
def large_draws(draw: st.DrawFn) -> Draws:
    """One to three dimensions of any lengths, with as many elements as a test of a variance needs."""
    leading = tuple(draw(between(1, 60)) for _ in range(draw(between(0, 2))))
    last = -(-ENOUGH // math.prod(leading)) + draw(between(0, 9))
    return Draws((*leading, last), draw(any_of(_FLOATS)), draw(SEEDS), draw(any_of(tuple(Spelling))))


def draws_of_every_small_size(seed: int, each: int) -> Float64[np.ndarray, "values"]:
    """``each`` draws of every size from 1 to 24, which torch makes in other ways than large ones, in one row."""
    source = generator(seed)
    drawn = [torch.randn(size, generator=source) for size in range(1, 25) for _ in range(each)]
    return numbers(torch.cat(drawn))


# ── products of two ──


@dataclass(frozen=True, repr=False)
class Components(Description):
    """Pairs of normal numbers of variance one, with these means and this correlation."""

    mean_x: float
    mean_y: float
    correlation: float
    seed: int

    @property
    def independent_around_zero(self) -> bool:
        """Whether they are independent, and their means zero."""
        return self.mean_x == self.mean_y == self.correlation == 0

    def build(self, pairs: int) -> tuple[Float[Tensor, "pairs"], Float[Tensor, "pairs"]]:
        """The pairs."""
        source = generator(self.seed)
        shared, other = torch.randn(pairs, generator=source), torch.randn(pairs, generator=source)
        own = math.sqrt(1 - self.correlation**2)
        return shared + self.mean_x, self.correlation * shared + own * other + self.mean_y

    def variance(self, pairs: int) -> float:
        """The mean square of x * y around the mean that it has by theory."""
        x, y = (numbers(each) for each in self.build(pairs))
        mean = initialisation.product_mean(self.mean_x, self.mean_y, self.correlation)
        return float(((x * y - mean) ** 2).mean())


def independent_components() -> st.SearchStrategy[Components]:
    """Independent pairs around zero."""
    return st.builds(Components, st.just(0.0), st.just(0.0), st.just(0.0), SEEDS)


@cache
def other_components() -> st.SearchStrategy[Components]:
    """Pairs with a mean that is not zero, or correlated ones, or both."""
    levels = (-1.0, -0.5, 0.0, 0.5, 1.0)
    others = tuple(each for each in itertools.product(levels, levels, levels) if any(each))
    return st.builds(lambda means, seed: Components(means[0], means[1], means[2], seed), any_of(others), SEEDS)


def product_interval(pairs: int, false_alarm: float) -> Interval:
    """The mean square of x * y for independent standard normal x and y.

    Given x, it is a sum of squares of y with the weights x**2, whose own sum is a chi-square. The largest weight has
    a known distribution; below it, the squares of the weights have at most a mean of 3 and a mean square of 105, the
    fourth and the eighth moment of a normal number.
    """
    share = false_alarm / 4
    total = statistics.chi_square(pairs, share)
    largest = statistics.largest_of_normals(pairs, share).high ** 2
    squares = statistics.bounded_sum(pairs, 3.0, 105.0, largest**2, share).high
    weighted = statistics.weighted_chi_square(total.low, squares, largest, share)
    return Interval(weighted.low, weighted.high + total.high - total.low) * (1 / pairs)


# ── one layer ──


@dataclass(frozen=True, repr=False)
class Product(Description):
    """Rows of normal data times a normal matrix, x [rows, inputs] @ w [inputs, outputs]."""

    rows: int
    inputs: int
    outputs: int
    seed: int

    def build(self) -> tuple[Float[Tensor, "rows inputs"], Float[Tensor, "inputs outputs"]]:
        """x and w, as torch.randn draws them."""
        source = generator(self.seed)
        return (
            torch.randn(self.rows, self.inputs, generator=source),
            torch.randn(self.inputs, self.outputs, generator=source),
        )


def standardised(x: Float[Tensor, "rows inputs"], out: Float[Tensor, "rows outputs"]) -> Float64[np.ndarray, "values"]:
    """Outputs x @ w of standard normal w as independent standard normal numbers.

    Given x, each column is normal with the covariance x @ x.T: the inverse of its Cholesky factor takes that away. With
    one row that is a division by the length of x.
    """
    factor = torch.linalg.cholesky(x.double() @ x.double().T)
    return numbers(torch.linalg.solve_triangular(factor, out.double(), upper=False))


@st.composite
def products(draw: st.DrawFn) -> Product:
    """1 to 512 inputs, half as many rows, and outputs enough for a test of their variance."""
    inputs = draw(st.one_of(between(1, 16), between(1, 512)))
    rows = max(1, inputs // 2)
    return Product(rows, inputs, -(-ENOUGH // rows), draw(SEEDS))


class Recipe(Enum):
    """How the weights of square layers are drawn."""

    UNIT = "torch.randn"
    INPUTS = "torch.randn divided by the square root of the inputs"
    SMALL = "torch.randn divided by the inputs"
    KAIMING = "torch.nn.init.kaiming_normal_ for ReLU"

    def matrix(self, inputs: int, outputs: int, source: torch.Generator) -> Float[Tensor, "inputs outputs"]:
        """One matrix for x @ w. torch fills its transpose, whose fan_in is the inputs."""
        if self is Recipe.KAIMING:
            return nn.init.kaiming_normal_(torch.empty(outputs, inputs), nonlinearity="relu", generator=source).T
        return torch.randn(inputs, outputs, generator=source) * math.sqrt(self.variance(inputs))

    def weight(self, width: int, source: torch.Generator) -> Float[Tensor, "width width"]:
        """One square matrix."""
        return self.matrix(width, width, source)

    def variance(self, inputs: int) -> float:
        """The variance of a weight."""
        lecun = initialisation.lecun_variance(inputs)
        variances = {Recipe.UNIT: 1.0, Recipe.INPUTS: lecun, Recipe.SMALL: lecun**2, Recipe.KAIMING: 2 * lecun}
        return float(variances[self])

    def __repr__(self) -> str:
        return f"Recipe.{self.name}"


@dataclass(frozen=True, repr=False)
class Curve(Description):
    """Standard deviations of x @ w at four widths, each four times the one before."""

    narrowest: int
    seed: int
    rows: int = 32
    outputs: int = 512

    @property
    def widths(self) -> tuple[int, ...]:
        """The lengths of the inner dimension."""
        return tuple(self.narrowest * 4**power for power in range(4))

    def build(self, width: int, recipe: Recipe) -> tuple[Float[Tensor, "rows width"], Float[Tensor, "width outputs"]]:
        """x and w of one width."""
        source = generator(self.seed + width)
        return torch.randn(self.rows, width, generator=source), recipe.matrix(width, self.outputs, source)

    def deviations(self, recipe: Recipe = Recipe.UNIT, *dtypes: torch.dtype) -> list[list[float]]:
        """The standard deviation of the outputs at each width: a list for each format, of float32 if none is named."""
        found: list[list[float]] = []
        for width in self.widths:
            x, w = self.build(width, recipe)
            products = (x.to(dtype) @ w.to(dtype) for dtype in dtypes or (torch.float32,))
            found.append([math.sqrt((numbers(product) ** 2).mean()) for product in products])
        return [list(each) for each in zip(*found, strict=True)]

    def slope(self, deviations: Sequence[float]) -> float:
        """The slope of the straight line that fits the logarithms of deviations and widths best."""
        return float(np.dot(self._shares(), np.log(deviations)))

    def _shares(self) -> Float64[np.ndarray, "widths"]:
        logs = np.log(self.widths)
        centred = logs - logs.mean()
        shares: Float64[np.ndarray, "widths"] = centred / (centred**2).sum()
        return shares

    def chance(self, false_alarm: float) -> Interval:
        """How far chance may take the slope from the true one.

        The squared lengths of the data add up to a chi-square. Given the data, the squares of the outputs add up to one
        with weights: the eigenvalues of x @ x.T, each as often as there are outputs.
        """
        share = false_alarm / (2 * len(self.widths))
        logs = []
        for width in self.widths:
            lengths = statistics.chi_square(self.rows * width, share) * (1 / (self.rows * width))
            x = self.build(width, Recipe.UNIT)[0].double()
            weights = torch.linalg.eigvalsh(x @ x.T).numpy().repeat(self.outputs)
            squares = statistics.weighted_chi_square(
                float(weights.sum()), float((weights**2).sum()), float(weights.max()), share
            ) * (1 / float(weights.sum()))
            logs.append((math.log(lengths.low * squares.low) / 2, math.log(lengths.high * squares.high) / 2))
        ends = [[share * low, share * high] for share, (low, high) in zip(self._shares(), logs, strict=True)]
        return Interval(sum(min(each) for each in ends), sum(max(each) for each in ends))


def curves() -> st.SearchStrategy[Curve]:
    """Narrowest of 8 to 24, so that the widest has 512 to 1,536."""
    return st.builds(Curve, between(8, 24), SEEDS)


# ── many layers ──


Row = Float[Tensor, "1 width"]


class Kind(Enum):
    """What a layer does with h @ w."""

    LINEAR = "h @ w"
    RELU = "relu(h @ w)"
    TANH = "tanh(h @ w)"
    RESIDUAL = "h + h @ w"

    def apply(self, h: Row, weight: Float[Tensor, "width width"]) -> Row:
        """One layer."""
        through: Row = h @ weight
        if self is Kind.RESIDUAL:
            return h + through
        return {Kind.LINEAR: through, Kind.RELU: through.relu(), Kind.TANH: through.tanh()}[self]

    def __repr__(self) -> str:
        return f"Kind.{self.name}"


@dataclass(frozen=True, repr=False)
class Deep(Description):
    """One row of normal data through square layers, every number of it in one dtype."""

    width: int
    depth: int
    kind: Kind
    recipe: Recipe
    seed: int
    dtype: torch.dtype = torch.float32

    def build(self) -> tuple[Float[Tensor, "1 width"], list[Float[Tensor, "width width"]]]:
        """The data and the weights."""
        source = generator(self.seed)
        x = torch.randn(1, self.width, generator=source)
        weights = [self.recipe.weight(self.width, source) for _ in range(self.depth)]
        return x.to(self.dtype), [weight.to(self.dtype) for weight in weights]

    def states(self) -> list[Float[Tensor, "1 width"]]:
        """The data, and what comes out of each layer."""
        x, weights = self.build()
        return list(itertools.accumulate(weights, self.kind.apply, initial=x))

    def squares(self) -> list[float]:
        """Their squared lengths."""
        return [float((numbers(each) ** 2).sum()) for each in self.states()]

    def scales(self) -> list[float]:
        """Their root mean squares."""
        return [math.sqrt(square / self.width) for square in self.squares()]

    def growths(self) -> list[float]:
        """By what each layer multiplies the squared length, in units of the weights' variance.

        Given what enters a linear layer, that is the sum of ``width`` squares of standard normal numbers, whatever
        entered; behind a ReLU it is the sum of those of them that are above zero.
        """
        return self._growths(self.squares())

    def _growths(self, squares: Sequence[float]) -> list[float]:
        variance = self.recipe.variance(self.width)
        return [after / before / variance for before, after in itertools.pairwise(squares)]

    def gradients(self) -> list[Float[Tensor, "1 width"]]:
        """The gradient of a normal linear function of the outputs by them and by what enters each layer, last first."""
        states = self.build()
        entering = [states[0].requires_grad_()]
        for weight in states[1]:
            entering.append(self.kind.apply(entering[-1], weight))
        direction = torch.randn(1, self.width, generator=generator(self.seed + 1)).to(self.dtype)
        found = torch.autograd.grad(entering[-1], entering, direction)
        return list(reversed(found))

    def gradient_squares(self) -> list[float]:
        """Their squared lengths."""
        return [float((numbers(each) ** 2).sum()) for each in self.gradients()]

    def gradient_growths(self) -> list[float]:
        """By what each layer multiplies the gradient's squared length on its way back, in units as above."""
        return self._growths(self.gradient_squares())

    def first_overflow(self) -> int | None:
        """The first layer whose outputs are not all finite, where there is one."""
        return next((layer for layer, each in enumerate(self.states()) if not bool(each.isfinite().all())), None)

    def are_nan(self) -> tuple[bool, bool, bool]:
        """Whether a NaN is in the softmax of the outputs, in their cross-entropy, and in its gradient by the data."""
        x, weights = self.build()
        logits = list(itertools.accumulate(weights, self.kind.apply, initial=x.requires_grad_()))[-1]
        loss = nn.functional.cross_entropy(logits, torch.zeros(1, dtype=torch.long))
        (gradient,) = torch.autograd.grad(loss, x)
        softmax = logits.softmax(-1)
        return bool(softmax.isnan().any()), bool(loss.isnan()), bool(gradient.isnan().any())


SHOWN: dict[str, tuple[Recipe, Kind]] = {
    "randn": (Recipe.UNIT, Kind.LINEAR),
    "1 / fan_in": (Recipe.INPUTS, Kind.LINEAR),
    "Kaiming": (Recipe.KAIMING, Kind.RELU),
}
"""The initialisations whose scales are shown, with the layers that they are meant for."""
FORMATS = (torch.float32, torch.float16, torch.bfloat16)


@cache
def growth_interval(kind: Kind, width: int, layers: int, false_alarm: float) -> Interval:
    """The sum of so many growths.

    Behind a residual connection the identity adds one to the mean of the number along h: a noncentral chi-square.
    """
    if kind is Kind.LINEAR:
        return statistics.chi_square(width * layers, false_alarm)
    if kind is Kind.RELU:
        return statistics.chernoff(statistics.rectified_square, width * layers, false_alarm)
    if kind is Kind.RESIDUAL:
        return statistics.chernoff(statistics.noncentral_chi_square(width, 1.0), layers, false_alarm)
    raise ValueError(f"the growth of {kind} is not known: its slope depends on what enters")


@cache
def scale_interval(kind: Kind, width: int, layers: int, false_alarm: float) -> Interval:
    """The squared length behind so many layers, in units of the one in front and of the weights' variance.

    The logarithms of the independent growths of linear layers add up; those of residual ones are bounded one by one.
    """
    if kind is Kind.LINEAR:
        return statistics.chernoff(statistics.log_chi_square(width), layers, false_alarm).exp()
    each = growth_interval(kind, width, 1, false_alarm / layers)
    return Interval(each.low**layers, each.high**layers)


KERNEL = 2.0**-6
"""By how much a layer in float16 or bfloat16 may be off, data, weights and sums rounded: far more than is seen."""


@cache
def overflowing_layers(kind: Kind, width: int, largest: float, false_alarm: float) -> range:
    """The layers of which one is the first to hold a magnitude above ``largest``, with unit weights.

    What enters a layer is a normal vector (the length of the data is one more chi-square) or has its predicted length.
    The layer gives that times ``width`` normal numbers, to which a residual connection adds no more than the length
    itself; and its largest magnitude is never below its root mean square.
    """
    peak = statistics.largest_of_normals(width, false_alarm / 3)
    data = statistics.chi_square(width, false_alarm / 3)

    def squared_length(layers: int) -> Interval:
        grown = scale_interval(kind, width, layers, false_alarm / 3) if layers else Interval(1.0, 1.0)
        return Interval(data.low * grown.low, data.high * grown.high)

    def reached(layer: int) -> Interval:
        into, out = squared_length(layer - 1), squared_length(layer)
        high = math.sqrt(into.high) * (peak.high + (kind is Kind.RESIDUAL))
        low = math.sqrt(out.low / width)
        if kind is Kind.LINEAR:
            low = max(low, math.sqrt(into.low) * peak.low)
        return Interval(low * (1 - KERNEL) ** layer, high * (1 + KERNEL) ** layer)

    earliest = next(layer for layer in itertools.count(1) if reached(layer).high > largest)
    latest = next(layer for layer in itertools.count(earliest) if reached(layer).low > largest)
    return range(earliest, latest + 1)


def deep(
    kinds: tuple[Kind, ...], recipes: tuple[Recipe, ...], widths: tuple[int, ...], deepest: int
) -> st.SearchStrategy[Deep]:
    """Networks of these kinds, recipes and widths, from one layer to the deepest."""
    return st.builds(Deep, any_of(widths), between(1, deepest), any_of(kinds), any_of(recipes), SEEDS)


WIDE = tuple(range(96, 161))
NARROW = (1, 2, 3)


def growing() -> st.SearchStrategy[Deep]:
    """Linear and ReLU layers of unit weights, 96 to 160 wide."""
    return deep((Kind.LINEAR, Kind.RELU), (Recipe.UNIT,), WIDE, 8)


def not_growing() -> st.SearchStrategy[Deep]:
    """Layers of up to three neurons, and tanh of any width."""
    narrow = deep((Kind.LINEAR, Kind.RELU), (Recipe.UNIT,), NARROW, 8)
    return st.one_of(narrow, deep((Kind.TANH,), (Recipe.UNIT,), (*NARROW, *WIDE), 8))


def kept() -> st.SearchStrategy[Deep]:
    """ReLU layers of Kaiming's weights, at least 256 times as wide as there are of them."""
    sizes = tuple((width, depth) for depth in (1, 2, 3) for width in (256 * depth, 256 * depth + 64))
    return st.builds(lambda size, seed: Deep(size[0], size[1], Kind.RELU, Recipe.KAIMING, seed), any_of(sizes), SEEDS)


def lost() -> st.SearchStrategy[Deep]:
    """The same, deeper than they are wide."""
    sizes = tuple((width, depth) for width in (8, 16, 24) for depth in range(50, 101, 10))
    return st.builds(lambda size, seed: Deep(size[0], size[1], Kind.RELU, Recipe.KAIMING, seed), any_of(sizes), SEEDS)


@dataclass(frozen=True, repr=False)
class Ensemble(Description):
    """Independent networks of ReLU layers of Kaiming's weights, each with one row of normal data."""

    width: int
    depth: int
    networks: int
    seed: int

    def growths(self) -> Float64[np.ndarray, "depth networks"]:
        """By what each layer of each network multiplies the mean square.

        A network whose numbers have all become zero goes on with new data, so that every layer counts. The weights of
        one layer of all networks are drawn as one matrix [networks * width, width], whose fan_in is that of each.
        """
        source = generator(self.seed)
        h = torch.randn(self.networks, 1, self.width, generator=source)
        found = []
        for _ in range(self.depth):
            packed = torch.empty(self.networks * self.width, self.width)
            weight = nn.init.kaiming_normal_(packed, nonlinearity="relu", generator=source)
            h = h / h.norm(dim=-1, keepdim=True)
            h = (h @ weight.view(self.networks, self.width, self.width).mT).relu()
            found.append((h[:, 0].double() ** 2).sum(-1).numpy())
            dead = h.amax(-1, keepdim=True) == 0
            h = torch.where(dead, torch.randn(h.shape, generator=source), h)
        return np.stack(found)


def ensembles(widths: tuple[int, ...], depth: int, numbers: int) -> st.SearchStrategy[Ensemble]:
    """As many networks as have so many hidden numbers between them."""
    return st.builds(
        lambda width, seed: Ensemble(width, depth, -(-numbers // (width * depth)), seed), any_of(widths), SEEDS
    )


# ── softmax ──


@dataclass(frozen=True, repr=False)
class Logits(Description):
    """Logits x @ w of independent networks, each with data and weights of its own."""

    inputs: int
    classes: int
    seed: int
    networks: int = 400

    def build(self) -> Float[Tensor, "networks classes"]:
        """The logits with unit weights."""
        source = generator(self.seed)
        x = torch.randn(self.networks, 1, self.inputs, generator=source)
        w = torch.randn(self.networks, self.inputs, self.classes, generator=source)
        logits: Float[Tensor, "networks classes"] = (x @ w)[:, 0]
        return logits

    def peaks(self) -> tuple[Float[Tensor, "networks"], Float[Tensor, "networks"]]:
        """The largest probability of each network with unit weights, and with weights scaled by the inputs."""
        logits = self.build()
        scaled = logits / math.sqrt(self.inputs)
        return logits.softmax(-1).amax(-1), scaled.softmax(-1).amax(-1)


# ── training ──


@dataclass(frozen=True, repr=False)
class Descent(Description):
    """ReLU layers under gradient descent at a rate of 0.01, towards normal targets."""

    width: int
    depth: int
    recipe: Recipe
    seed: int
    rows: int = 32

    def losses(self, steps: int) -> list[float]:
        """The loss before each step, up to the first that is not finite."""
        source = generator(self.seed)
        weights = [self.recipe.weight(self.width, source).requires_grad_() for _ in range(self.depth)]
        x, targets = (torch.randn(self.rows, self.width, generator=source) for _ in range(2))
        seen: list[float] = []
        for _ in range(steps):
            *hidden, last = weights
            h = x
            for weight in hidden:
                h = (h @ weight).relu()
            loss = (h @ last - targets).square().mean()
            seen.append(loss.item())
            if not math.isfinite(seen[-1]):
                break
            gradients = torch.autograd.grad(loss, weights)
            with torch.no_grad():
                for weight, gradient in zip(weights, gradients, strict=True):
                    weight -= 0.01 * gradient
        return seen


# ── torch's initialisers ──


class Law(Enum):
    """How weights are distributed around zero."""

    NORMAL = "normal"
    UNIFORM = "uniform"

    def agrees(self, values: Float64[np.ndarray, "values"], variance: float, false_alarm: float) -> bool:
        """Whether values may be independent draws of this variance: their sum, their squares, and where they end."""
        share, count = false_alarm / 3, len(values)
        if self is Law.NORMAL:
            unit = values / math.sqrt(variance)
            return bool(
                unit.sum() in statistics.normal_sum(count, share)
                and (unit**2).sum() in statistics.chi_square(count, share)
                and statistics.distance(unit[:4096], statistics.normal_distribution)
                <= statistics.distance_bound(min(count, 4096), share)
            )
        unit = values / initialisation.half_width(variance)
        largest = abs(unit).max()
        return bool(
            1 - statistics.edge(count, share) <= largest <= 1 + 2.0**-20
            and unit.sum() in statistics.bounded_sum(count, 0.0, 1 / 3, 1.0, share)
            and (unit**2).sum() in statistics.bounded_sum(count, 1 / 3, 4 / 45, 2 / 3, share)
        )

    def variance_interval(self, count: int, false_alarm: float) -> Interval:
        """The mean square of so many draws over the variance."""
        if self is Law.NORMAL:
            return statistics.chi_square(count, false_alarm) * (1 / count)
        return statistics.bounded_sum(count, 1 / 3, 4 / 45, 2 / 3, false_alarm) * (3 / count)

    def __repr__(self) -> str:
        return f"Law.{self.name}"


class Rule(Enum):
    """The variance that an initialiser promises."""

    XAVIER = "2 * gain**2 / (fan_in + fan_out)"
    KAIMING_IN = "gain**2 / fan_in"
    KAIMING_OUT = "gain**2 / fan_out"

    def __repr__(self) -> str:
        return f"Rule.{self.name}"


@dataclass(frozen=True, repr=False)
class Initialised(Description):
    """Weights of a shape, filled by one of torch's initialisers for the layer in front of an activation."""

    rule: Rule
    law: Law
    shape: tuple[int, ...]
    activation: str
    seed: int

    @property
    def variance(self) -> float:
        """What the rule says."""
        fan_in, fan_out = initialisation.fans(self.shape)
        gain = initialisation.GAINS[self.activation]
        if self.rule is Rule.XAVIER:
            return float(initialisation.xavier_variance(fan_in, fan_out, gain))
        return float(initialisation.kaiming_variance(fan_in if self.rule is Rule.KAIMING_IN else fan_out, gain))

    def values(self) -> Float64[np.ndarray, "values"]:
        """The numbers of as many weights as make a test of their variance."""
        with seeded(self.seed):
            count = -(-ENOUGH // math.prod(self.shape))
            weights = [self._fill(torch.empty(self.shape)) for _ in range(count)]
        return numbers(torch.cat([weight.flatten() for weight in weights]))

    def _fill(self, weight: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        kind = "normal_" if self.law is Law.NORMAL else "uniform_"
        if self.rule is Rule.XAVIER:
            gain = nn.init.calculate_gain(self.activation)  # type: ignore[arg-type]
            return getattr(nn.init, f"xavier_{kind}")(weight, gain=gain)  # type: ignore[no-any-return]
        mode = "fan_in" if self.rule is Rule.KAIMING_IN else "fan_out"
        fill = getattr(nn.init, f"kaiming_{kind}")
        return fill(weight, mode=mode, nonlinearity=self.activation)  # type: ignore[no-any-return]


_KERNELS = ((), (), (3,), (3, 3))


@st.composite
def initialised(draw: st.DrawFn, rules: tuple[Rule, ...] = tuple(Rule)) -> Initialised:
    """Matrices and convolutions of 16 to 192 inputs and outputs."""
    shape = (draw(between(16, 192)), draw(between(16, 192)), *draw(any_of(_KERNELS)))
    return Initialised(
        draw(any_of(rules)),
        draw(any_of(tuple(Law))),
        shape,
        draw(any_of(tuple(initialisation.GAINS))),
        draw(SEEDS),
    )


class Outputs(Enum):
    """What becomes of the outputs of a layer when its inputs become more."""

    SAME = "as many as before"
    IN_PROPORTION = "more in the same proportion"

    def __repr__(self) -> str:
        return f"Outputs.{self.name}"


@dataclass(frozen=True, repr=False)
class Widened(Description):
    """A layer, and the same with ``factor`` times the inputs."""

    rule: Rule
    law: Law
    inputs: int
    outputs: int
    factor: int
    then: Outputs
    seed: int

    def variances(self) -> tuple[float, float]:
        """The mean squares of the weights before and after."""
        more = self.factor if self.then is Outputs.IN_PROPORTION else 1
        shapes = ((self.outputs, self.inputs), (self.outputs * more, self.inputs * self.factor))
        before, after = (
            float((Initialised(self.rule, self.law, shape, "relu", self.seed + place).values() ** 2).mean())
            for place, shape in enumerate(shapes)
        )
        return before, after

    def inverse(self, false_alarm: float) -> bool:
        """Whether the variance may have become smaller by just the factor."""
        before, after = self.variances()
        each = self.law.variance_interval(ENOUGH, false_alarm / 2)
        return before / after in Interval(each.low / each.high, each.high / each.low) * self.factor


@cache
def widened(falls: tuple[bool, ...]) -> st.SearchStrategy[Widened]:
    """Layers whose variance falls as their inputs become more, or whose does not; outputs as many as inputs or more."""
    ways = tuple(
        (rule, then)
        for rule, then in itertools.product(Rule, Outputs)
        if (rule is Rule.KAIMING_IN or then is Outputs.IN_PROPORTION) in falls
    )
    return st.builds(
        lambda way, law, inputs, more, factor, seed: Widened(way[0], law, inputs, inputs + more, factor, way[1], seed),
        any_of(ways),
        any_of(tuple(Law)),
        between(48, 96),
        between(0, 64),
        between(2, 4),
        SEEDS,
    )


@dataclass(frozen=True, repr=False)
class Told(Description):
    """Weights of a variance of one over the inputs, from an initialiser that is told where they are to lie.

    Around a mean of ``shift`` deviations.
    """

    law: Law
    inputs: int
    shift: int
    seed: int

    @property
    def variance(self) -> float:
        """One over the inputs."""
        return float(initialisation.lecun_variance(self.inputs))

    def values(self) -> Float64[np.ndarray, "values"]:
        """What torch.nn.init.normal_ fills in, told the deviation, or uniform_, told the ends; from the mean on."""
        weight = torch.empty(ENOUGH)
        deviation, half = math.sqrt(self.variance), initialisation.half_width(self.variance)
        mean = self.shift * deviation
        with seeded(self.seed):
            if self.law is Law.NORMAL:
                nn.init.normal_(weight, mean=mean, std=deviation)
            else:
                nn.init.uniform_(weight, a=mean - half, b=mean + half)
        return numbers(weight) - mean


told = st.builds(Told, any_of(tuple(Law)), between(2, 4096), any_of((0, 1, -2)), SEEDS)


@dataclass(frozen=True, repr=False)
class Truncated(Description):
    """Normal weights of a standard deviation, cut off at ``ends`` of them on both sides of a mean, told in them too."""

    deviation: float
    ends: float
    dtype: torch.dtype
    seed: int
    shift: int = 0

    def values(self) -> Float64[np.ndarray, "values"]:
        """What torch.nn.init.trunc_normal_, whose ends are absolute, fills in, from its mean on."""
        mean, end = self.deviation * self.shift, self.deviation * self.ends
        weight = torch.empty(ENOUGH, dtype=self.dtype)
        nn.init.trunc_normal_(weight, mean, self.deviation, mean - end, mean + end, generator=generator(self.seed))
        return numbers(weight) - mean

    def interval(self, false_alarm: float) -> Interval:
        """The sum of their squares, in units of the squared deviation."""
        if self.ends > 10:  # of a normal distribution, 1e-23 is beyond
            return statistics.chi_square(ENOUGH, false_alarm)
        square = initialisation.truncated_variance(self.ends)
        spread = initialisation.truncated_fourth_moment(self.ends) - square**2
        return statistics.bounded_sum(ENOUGH, square, spread, self.ends**2, false_alarm)


def resamples_tails(release: str = torch.__version__) -> bool:
    """Whether a release of torch draws truncated normal numbers again until they fit: from 2.12 on.

    Before, they came from uniform ones through the inverse of the error function, in the weights' own format.
    """
    return of_torch(release) >= (2, 12)


def truncated() -> st.SearchStrategy[Truncated]:
    """Cut off at one to four standard deviations, or so far out that nothing is."""
    ends = st.one_of(any_of((1.0, 1.5, 2.0, 3.0, 4.0)), any_of((50.0, 100.0)))
    return st.builds(Truncated, any_of((0.01, 0.02, 1.0)), ends, st.just(torch.float32), SEEDS, any_of((0, 1, -2)))


def truncated_far_out() -> st.SearchStrategy[Truncated]:
    """bfloat16 weights of standard deviations with ends that are 50 of them and more away."""
    return st.builds(
        Truncated, any_of((0.01, 0.02, 0.04)), any_of((50.0, 100.0, 200.0)), st.just(torch.bfloat16), SEEDS
    )


@dataclass(frozen=True, repr=False)
class Matrix(Description):
    """A matrix for torch's initialisers that fill it as a whole."""

    rows: int
    columns: int
    seed: int

    def orthogonal(self, gain: float) -> Float[Tensor, "rows columns"]:
        """What torch.nn.init.orthogonal_ makes of it."""
        return nn.init.orthogonal_(torch.empty(self.rows, self.columns), gain, generator=generator(self.seed))

    def sparse(self, sparsity: float) -> Float[Tensor, "rows columns"]:
        """What torch.nn.init.sparse_ makes of it."""
        with seeded(self.seed):  # the places of its zeros come from torch's own generator
            return nn.init.sparse_(torch.empty(self.rows, self.columns), sparsity)


def matrices(smallest: int, largest: int) -> st.SearchStrategy[Matrix]:
    """Sides between two lengths."""
    return st.builds(Matrix, between(smallest, largest), between(smallest, largest), SEEDS)


# ── torch's layers as they are made ──


@dataclass(frozen=True)
class Part:
    """One parameter of a layer: its values in many such layers, and how they are to be distributed; 0 is a constant."""

    name: str
    law: Law
    variance: float


def _uniform(name: str, fan_in: int) -> Part:
    return Part(name, Law.UNIFORM, float(initialisation.linear_default_variance(fan_in)))


@dataclass(frozen=True, repr=False)
class Linear(Description):
    """nn.Linear: both its weight and its bias end at 1 / sqrt(fan_in)."""

    inputs: int
    outputs: int

    def module(self) -> nn.Module:
        """A new one."""
        return nn.Linear(self.inputs, self.outputs)

    def parts(self) -> tuple[Part, ...]:
        """What it consists of."""
        return _uniform("weight", self.inputs), _uniform("bias", self.inputs)


@dataclass(frozen=True, repr=False)
class Convolution(Description):
    """nn.Conv2d: an output sees only the inputs of its own group."""

    layer: ClassVar[type[nn.Module]] = nn.Conv2d
    inputs: int
    outputs: int
    kernel: int
    groups: int

    def module(self) -> nn.Module:
        """A new one."""
        return self.layer(self.inputs * self.groups, self.outputs * self.groups, self.kernel, groups=self.groups)

    def parts(self) -> tuple[Part, ...]:
        """What it consists of."""
        fan_in = self.taken_for_inputs * self.kernel**2
        return _uniform("weight", fan_in), _uniform("bias", fan_in)

    @property
    def taken_for_inputs(self) -> int:
        """The channels of a group that torch takes for the inputs of an output."""
        return self.inputs


@dataclass(frozen=True, repr=False)
class TransposedConvolution(Convolution):
    """nn.ConvTranspose2d, whose weight is [inputs, outputs, ...]: torch takes its outputs for its inputs."""

    layer: ClassVar[type[nn.Module]] = nn.ConvTranspose2d

    @property
    def taken_for_inputs(self) -> int:
        """Its outputs."""
        return self.outputs


@dataclass(frozen=True, repr=False)
class Embedding(Description):
    """nn.Embedding: a variance of one, whatever its sizes are."""

    entries: int
    width: int

    def module(self) -> nn.Module:
        """A new one."""
        return nn.Embedding(self.entries, self.width)

    def parts(self) -> tuple[Part, ...]:
        """What it consists of."""
        return (Part("weight", Law.NORMAL, 1.0),)


@dataclass(frozen=True, repr=False)
class Attention(Description):
    """nn.MultiheadAttention: its three projections in one matrix, to which Xavier's rule is then applied."""

    heads: int
    head_width: int

    def module(self) -> nn.Module:
        """A new one."""
        return nn.MultiheadAttention(self.heads * self.head_width, self.heads)

    def parts(self) -> tuple[Part, ...]:
        """What it consists of."""
        width = self.heads * self.head_width
        return (
            Part("in_proj_weight", Law.UNIFORM, float(initialisation.packed_variance(width))),
            Part("in_proj_bias", Law.UNIFORM, 0.0),
            _uniform("out_proj.weight", width),
            Part("out_proj.bias", Law.UNIFORM, 0.0),
        )


@dataclass(frozen=True, repr=False)
class SeparateAttention(Description):
    """nn.MultiheadAttention with values of another width, which keeps the three projections apart."""

    heads: int
    head_width: int
    values: int

    def module(self) -> nn.Module:
        """A new one."""
        width = self.heads * self.head_width
        return nn.MultiheadAttention(width, self.heads, vdim=self.values)

    def parts(self) -> tuple[Part, ...]:
        """What it consists of."""
        width = self.heads * self.head_width
        square = float(initialisation.xavier_variance(width, width))
        return (
            Part("q_proj_weight", Law.UNIFORM, square),
            Part("k_proj_weight", Law.UNIFORM, square),
            Part("v_proj_weight", Law.UNIFORM, float(initialisation.xavier_variance(self.values, width))),
        )


@dataclass(frozen=True, repr=False)
class Recurrent(Description):
    """nn.LSTM, nn.GRU or nn.RNN, or a cell of one: everything ends at 1 / sqrt(hidden), whatever the inputs are."""

    name: str
    inputs: int
    hidden: int

    def module(self) -> nn.Module:
        """A new one."""
        made: nn.Module = getattr(nn, self.name)(self.inputs, self.hidden)
        return made

    def parts(self) -> tuple[Part, ...]:
        """What it consists of."""
        layer = "" if self.name.endswith("Cell") else "_l0"
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        return tuple(_uniform(f"{name}{layer}", self.hidden) for name in names)


@dataclass(frozen=True, repr=False)
class Bilinear(Description):
    """nn.Bilinear: everything ends at 1 / sqrt of its first inputs, whatever the second are."""

    inputs: int
    others: int
    outputs: int

    def module(self) -> nn.Module:
        """A new one."""
        return nn.Bilinear(self.inputs, self.others, self.outputs)

    def parts(self) -> tuple[Part, ...]:
        """What it consists of."""
        return _uniform("weight", self.inputs), _uniform("bias", self.inputs)


@dataclass(frozen=True, repr=False)
class Bag(Embedding):
    """nn.EmbeddingBag, as nn.Embedding."""

    def module(self) -> nn.Module:
        """A new one."""
        return nn.EmbeddingBag(self.entries, self.width)


Default = (
    Linear
    | Convolution
    | TransposedConvolution
    | Embedding
    | Attention
    | SeparateAttention
    | Recurrent
    | Bilinear
    | Bag
)


def defaults_agree(default: Default, seed: int, false_alarm: float) -> list[str]:
    """The names of those parts of a layer that are not distributed as said, over a dozen new ones."""
    with seeded(seed):
        modules = [default.module() for _ in range(12)]
    parts = default.parts()
    wrong = []
    for part in parts:
        values = np.concatenate([numbers(module.get_parameter(part.name)) for module in modules])
        if part.variance == 0:
            agrees = not values.any()
        else:
            agrees = part.law.agrees(values, part.variance, false_alarm / len(parts))
        if not agrees:
            wrong.append(part.name)
    return wrong


def defaults() -> st.SearchStrategy[Default]:
    """Every kind of layer, with a thousand weights and more."""
    side, groups, kernel = between(96, 160), any_of((1, 2, 3)), any_of((1, 3))
    heads, width = any_of((1, 2, 4)), any_of((32, 48))
    return st.one_of(
        st.builds(Linear, side, side),
        st.builds(Convolution, between(32, 48), between(32, 48), kernel, groups),
        st.builds(TransposedConvolution, between(32, 48), between(32, 48), kernel, groups),
        st.builds(Embedding, side, side),
        st.builds(Attention, heads, width),
        st.builds(SeparateAttention, heads, width, between(193, 240)),
        st.builds(Recurrent, any_of(("LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell")), side, side),
        st.builds(Bilinear, between(32, 48), between(4, 8), side),
        st.builds(Bag, side, side),
    )


CONSTANT: tuple[tuple[Callable[[], nn.Module], dict[str, float]], ...] = (
    (lambda: nn.LayerNorm((3, 5)), {"weight": 1, "bias": 0}),
    (lambda: nn.RMSNorm(5), {"weight": 1}),
    (lambda: nn.GroupNorm(2, 6), {"weight": 1, "bias": 0}),
    (lambda: nn.BatchNorm1d(5), {"weight": 1, "bias": 0, "running_mean": 0, "running_var": 1}),
    (lambda: nn.BatchNorm2d(5), {"weight": 1, "bias": 0, "running_mean": 0, "running_var": 1}),
    (lambda: nn.BatchNorm3d(5), {"weight": 1, "bias": 0, "running_mean": 0, "running_var": 1}),
    (lambda: nn.InstanceNorm2d(5, affine=True), {"weight": 1, "bias": 0}),
    (lambda: nn.PReLU(3), {"weight": 0.25}),
    (lambda: nn.MultiheadAttention(4, 2), {"in_proj_bias": 0, "out_proj.bias": 0}),
)
"""Layers with parameters that begin with a constant, and these constants."""


def begins_constant(make: Callable[[], nn.Module], constants: dict[str, float]) -> bool:
    """Whether each of these is full of its constant in a new layer."""
    state = make().state_dict()
    return all(bool((state[name] == constant).all()) for name, constant in constants.items())


def stacks(layers: int, seed: int) -> tuple[nn.TransformerEncoder, nn.Transformer]:
    """A stack of encoder layers, and a whole model with as many in each half."""
    with seeded(seed):
        layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
        return nn.TransformerEncoder(layer, layers), nn.Transformer(4, 2, layers, layers, 8, batch_first=True)


def distinct_layers(layers: Iterable[nn.Module]) -> int:
    """How many of these layers have weights of their own, and not those of another one."""
    return len({tuple(numbers(nn.utils.parameters_to_vector(each.parameters())).tolist()) for each in layers})


def zero_rows(make: Callable[..., nn.Module], rows: int, place: int) -> list[int]:
    """The rows of a new embedding that are zero, where the one at ``place`` stands for padding."""
    weight = make(rows, 3, padding_idx=place).get_parameter("weight")
    return (weight == 0).all(1).nonzero().flatten().tolist()


# ── layers whose weights are zero ──


class Layers(Enum):
    """Layers that multiply what they are given by their weights."""

    LINEAR = "nn.Linear"
    CONVOLUTION = "nn.Conv2d"
    TRANSPOSED_CONVOLUTION = "nn.ConvTranspose2d"
    BILINEAR = "nn.Bilinear"
    ATTENTION = "nn.MultiheadAttention"
    RNN = "nn.RNN"
    GRU = "nn.GRU"
    LSTM = "nn.LSTM"

    def __repr__(self) -> str:
        return f"Layers.{self.name}"


class Bias(Enum):
    """What a layer adds at the end."""

    ZERO = 0.0
    ONE = 1.0
    TINY = 2.0**-10

    def __repr__(self) -> str:
        return f"Bias.{self.name}"


@dataclass(frozen=True, repr=False)
class Zeroed(Description):
    """A layer whose weights are all zero, with a bias, given data of which one number may be replaced by ``given``."""

    layer: Layers
    inputs: int
    outputs: int
    bias: Bias
    dtype: torch.dtype
    given: float = 0.0

    @property
    def stays_zero(self) -> bool:
        """Whether the bias is zero and the data finite."""
        return self.bias is Bias.ZERO and math.isfinite(self.given)

    def output(self) -> Float[Tensor, "..."]:
        """What the layer gives."""
        module, shape = self._module()
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                parameter.fill_(self.bias.value if "bias" in name else 0.0)
        x = torch.randn(shape, generator=generator(self.inputs)).to(self.dtype)
        x.view(-1)[0] = self.given
        given = (x, x, x) if self.layer is Layers.ATTENTION else (x, x) if self.layer is Layers.BILINEAR else (x,)
        result = module(*given)
        output: Float[Tensor, "..."] = result[0] if isinstance(result, tuple) else result
        return output

    def _module(self) -> tuple[nn.Module, tuple[int, ...]]:
        inputs, outputs = self.inputs, self.outputs
        if self.layer is Layers.BILINEAR:
            return nn.Bilinear(inputs, inputs, outputs, dtype=self.dtype), (3, inputs)
        if self.layer is Layers.ATTENTION:
            return nn.MultiheadAttention(inputs, 1, dtype=self.dtype), (3, inputs)
        if self.layer in (Layers.CONVOLUTION, Layers.TRANSPOSED_CONVOLUTION):
            kind: Callable[..., nn.Module] = getattr(nn, self.layer.value[3:])
            return kind(inputs, outputs, 2, padding=1, dtype=self.dtype), (2, inputs, 3, 3)
        return getattr(nn, self.layer.value[3:])(inputs, outputs, dtype=self.dtype), (3, inputs)


def _zeroed(bias: tuple[Bias, ...], given: tuple[float, ...]) -> st.SearchStrategy[Zeroed]:
    return st.builds(
        Zeroed,
        any_of(tuple(Layers)),
        between(1, 7),
        between(1, 7),
        any_of(bias),
        any_of((torch.float32, torch.bfloat16, torch.float16)),
        any_of(given),
    )


def zeroed() -> st.SearchStrategy[Zeroed]:
    """Zero biases, and finite data, up to the largest of float16."""
    return _zeroed((Bias.ZERO,), (0.0, -1.0, 65504.0, -65504.0, 2.0**-24))


def not_zeroed() -> st.SearchStrategy[Zeroed]:
    """Biases that are not zero, or data that is not finite."""
    endless = (math.inf, -math.inf, math.nan)
    return st.one_of(_zeroed((Bias.ONE, Bias.TINY), (0.0, 1.0)), _zeroed((Bias.ZERO,), endless))
