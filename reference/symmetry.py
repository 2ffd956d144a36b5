"""Networks in which some neurons are copies of each other: their gradients, their training, and what they can fit.

Everything is elementwise arithmetic, and sums that run in one order for every column: NumPy's matrix product, which may
sum the columns of a matrix in different orders, is not used. So what is equal in exact arithmetic is equal here to the
last bit, in floats; and given fractions, the arithmetic is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np
from jaxtyping import Float64, Shaped

Array = Shaped[np.ndarray, "..."]


def product(left: Shaped[np.ndarray, "rows inner"], right: Shaped[np.ndarray, "inner columns"]) -> Array:
    """The matrix product, whose columns are all summed in the same order."""
    products = left[:, :, np.newaxis] * right[np.newaxis]
    total: Array = products[:, 0]
    for place in range(1, products.shape[1]):
        total = total + products[:, place]
    return total


# ── activations ──


def _each(function: Callable[[float], float]) -> Callable[[Array], Array]:
    # One number at a time: vectorised code may treat the last few numbers of an array differently.
    return lambda z: np.array([function(value) for value in z.flat], dtype=np.float64).reshape(z.shape)


def _logistic(z: float) -> float:
    return (1 + math.tanh(z / 2)) / 2


class Activation(Enum):
    """What a hidden layer applies to each of its numbers; none of them ever falls."""

    IDENTITY = "identity"
    RELU = "relu"
    TANH = "tanh"
    SIGMOID = "sigmoid"

    def __call__(self, z: Array) -> Array:
        """Its values."""
        return _VALUES[self](z)

    def slope(self, z: Array, h: Array) -> Array:
        """Its derivatives, from the numbers and their values."""
        return _SLOPES[self](z, h)

    def __repr__(self) -> str:
        return f"Activation.{self.name}"


_VALUES: dict[Activation, Callable[[Array], Array]] = {
    Activation.IDENTITY: lambda z: z,
    Activation.RELU: lambda z: np.where(z > 0, z, 0 * z),
    Activation.TANH: _each(math.tanh),
    Activation.SIGMOID: _each(_logistic),
}
_SLOPES: dict[Activation, Callable[[Array, Array], Array]] = {
    Activation.IDENTITY: lambda z, h: 0 * z + 1,
    Activation.RELU: lambda z, h: np.where(z > 0, 0 * z + 1, 0 * z),
    Activation.TANH: lambda z, h: 1 - h * h,
    Activation.SIGMOID: lambda z, h: h * (1 - h),
}
EXACT = (Activation.IDENTITY, Activation.RELU)
"""Activations that take fractions to fractions."""


# ── networks and their gradients ──


@dataclass(frozen=True, eq=False)
class Layer:
    """A weight [inputs, outputs] and a bias [outputs]."""

    weight: Array
    bias: Array


@dataclass(frozen=True, eq=False)
class Network:
    """Layers with an activation after each but the last."""

    layers: tuple[Layer, ...]
    activation: Activation

    def parameters(self) -> list[Array]:
        """Weight and bias of every layer."""
        return [array for layer in self.layers for array in (layer.weight, layer.bias)]

    def with_parameters(self, arrays: Sequence[Array]) -> Network:
        """The same network with other numbers."""
        pairs = zip(arrays[::2], arrays[1::2], strict=True)
        return replace(self, layers=tuple(Layer(weight, bias) for weight, bias in pairs))

    def forward(self, x: Array, masks: Sequence[Array] = ()) -> list[tuple[Array, Array]]:
        """What goes into each layer's activation, and what comes out; the last layer has none.

        Each hidden layer is multiplied by its mask, where there are masks.
        """
        passed, h = [], x
        for place, layer in enumerate(self.layers):
            z = product(h, layer.weight) + layer.bias
            last = place == len(self.layers) - 1
            out = z if last else self.activation(z)
            h = out if last or not masks else out * masks[place]
            passed.append((z, h))
        return passed

    def output(self, x: Array) -> Array:
        """What the last layer gives."""
        return self.forward(x)[-1][1]

    def gradients(self, x: Array, targets: Array, masks: Sequence[Array] = ()) -> list[Array]:
        """The gradient of half the summed square error by each parameter."""
        passed = self.forward(x, masks)
        arriving = passed[-1][1] - targets
        found: list[Array] = []
        for place in reversed(range(len(self.layers))):
            z, h = passed[place]
            if place < len(self.layers) - 1:
                arriving = arriving if not masks else arriving * masks[place]
                arriving = arriving * self.activation.slope(z, self.activation(z) if masks else h)
            entering = passed[place - 1][1] if place else x
            ones = np.ones((1, len(x)), dtype=np.int64)
            found = [product(entering.T, arriving), product(ones, arriving)[0], *found]
            arriving = product(arriving, self.layers[place].weight.T)
        return found


# ── training ──

State = tuple[Array, ...]


@dataclass(frozen=True)
class Optimizer:
    """An elementwise optimizer: each weight moves by its own gradients alone, all in the same way.

    ``move`` takes the gradients, what is kept for each weight, and the number of this step, and gives what is taken
    from the weights and what is kept from now on.
    """

    kept: int
    move: Callable[[Array, State, int], tuple[Array, State]]


def _sgd(g: Array, state: State, step: int) -> tuple[Array, State]:
    return g / 16, state


def _momentum(g: Array, state: State, step: int) -> tuple[Array, State]:
    velocity = state[0] * 3 / 4 + g
    return velocity / 32, (velocity,)


def _adagrad(g: Array, state: State, step: int) -> tuple[Array, State]:
    total = state[0] + g * g
    return 0.05 * g / (np.sqrt(total) + 1e-10), (total,)


def _rmsprop(g: Array, state: State, step: int) -> tuple[Array, State]:
    mean = 0.99 * state[0] + 0.01 * g * g
    return 0.01 * g / (np.sqrt(mean) + 1e-8), (mean,)


def _adam(g: Array, state: State, step: int) -> tuple[Array, State]:
    first = 0.9 * state[0] + 0.1 * g
    second = 0.999 * state[1] + 0.001 * g * g
    unbiased = np.sqrt(second / (1 - 0.999**step))
    return 0.01 * (first / (1 - 0.9**step)) / (unbiased + 1e-8), (first, second)


OPTIMIZERS: dict[str, Optimizer] = {
    "SGD": Optimizer(0, _sgd),
    "momentum": Optimizer(1, _momentum),
    "Adagrad": Optimizer(1, _adagrad),
    "RMSprop": Optimizer(1, _rmsprop),
    "Adam": Optimizer(2, _adam),
}


class Randomness(Enum):
    """What tells neurons apart while they are trained."""

    NONE = "nothing"
    DROPOUT = "each number of a hidden layer is left out half of the time"
    NOISE = "normal noise is added to each gradient"

    def __repr__(self) -> str:
        return f"Randomness.{self.name}"


def training(
    network: Network,
    x: Array,
    targets: Array,
    optimizer: str,
    randomness: Randomness = Randomness.NONE,
    seed: int = 0,
) -> Iterator[Network]:
    """The network after each step of training, without end.

    Each number of a gradient is clipped to four first, so that no network leaves the range of its numbers.
    """
    chosen, drawn = OPTIMIZERS[optimizer], np.random.default_rng(seed)
    sizes = [array.size for array in network.parameters()]
    shapes = [array.shape for array in network.parameters()]
    weights = np.concatenate([array.ravel() for array in network.parameters()])
    state: State = tuple(0 * weights for _ in range(chosen.kept))
    step = 0
    while True:
        step += 1
        masks: list[Array] = []
        if randomness is Randomness.DROPOUT:
            masks = [2 * drawn.integers(0, 2, (len(x), len(layer.bias))) for layer in network.layers[:-1]]
        gradient = np.concatenate([array.ravel() for array in network.gradients(x, targets, masks)])
        gradient = np.minimum(np.maximum(gradient, -4), 4)
        if randomness is Randomness.NOISE:
            gradient = gradient + drawn.standard_normal(gradient.shape) / 100
        move, state = chosen.move(gradient, state, step)
        weights = weights - move
        parts = np.split(weights, np.cumsum(sizes)[:-1])
        network = network.with_parameters([part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)])
        yield network


# ── copies ──


def equal_columns(matrix: Shaped[np.ndarray, "rows columns"]) -> bool:
    """Whether all columns are the same, to the last bit."""
    return bool((matrix == matrix[:, :1]).all())


def exact_rank(matrix: Shaped[np.ndarray, "rows columns"]) -> int:
    """The rank, by elimination in fractions: without rounding, and without a tolerance."""
    rows = [[Fraction(value) for value in row] for row in matrix.tolist()]
    rank = 0
    for column in range(matrix.shape[1]):
        pivot = next((place for place in range(rank, len(rows)) if rows[place][column]), None)
        if pivot is None:
            continue
        rows[rank], rows[pivot] = rows[pivot], rows[rank]
        for below in range(rank + 1, len(rows)):
            factor = rows[below][column] / rows[rank][column]
            rows[below] = [value - factor * top for value, top in zip(rows[below], rows[rank], strict=True)]
        rank += 1
    return rank


def least_monotone_error(targets: Sequence[float]) -> float:
    """The least mean square error at the targets, in the order of their inputs, of a function that never turns.

    A single neuron whose activation never falls is such a function of one input, whatever its weights are; so is any
    number of equal neurons. The best one that never falls is found by pooling neighbours that violate the order.
    """
    reversed_targets = [-target for target in targets]
    return min(_least_rising_error(targets), _least_rising_error(reversed_targets))


def _least_rising_error(targets: Sequence[float]) -> float:
    pools: list[list[float]] = []
    for target in targets:
        pools.append([target])
        while len(pools) > 1 and _mean(pools[-2]) > _mean(pools[-1]):
            last = pools.pop()
            pools[-1] += last
    return sum((target - _mean(pool)) ** 2 for pool in pools for target in pool) / len(targets)


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)


# ── how far rounding may part two copies ──


@dataclass(frozen=True, eq=False)
class Weights:
    """Something of each weight of a hidden neuron, its magnitude or how far two neurons are apart in it, at most."""

    incoming: Float64[np.ndarray, "inputs"]
    bias: float
    outgoing: Float64[np.ndarray, "outputs"]


@dataclass(frozen=True, eq=False)
class Seen:
    """What a hidden neuron of a network of two layers held, and what surrounded it.

    The data x, what goes into the activation and what comes out, the gradient that arrives at the network's outputs,
    which is the same for all copies, and the magnitudes of the neuron's weights, the largest of all copies'.
    """

    x: Float64[np.ndarray, "rows inputs"]
    z: Float64[np.ndarray, "rows"]
    h: Float64[np.ndarray, "rows"]
    arriving: Float64[np.ndarray, "rows outputs"]
    weights: Weights


def gap_of_outputs(seen: Seen, before: Weights, unit: float) -> Float64[np.ndarray, "rows"]:
    """How far apart the two outputs may be, in arithmetic of unit roundoff ``unit`` that sums in any order.

    A sum of n products is off by at most n * unit / (1 - n * unit) of the sum of their magnitudes, in any order and
    with or without fused multiplication; two such sums are at most twice that apart. No activation here has a slope
    above one; its own rounding is taken for four units.
    """
    gap = _gap_of_sums(seen, before, unit)
    gap += 2 * 4 * unit * (abs(seen.h) + gap)
    return gap


def _gap_of_sums(seen: Seen, before: Weights, unit: float) -> Float64[np.ndarray, "rows"]:
    x = abs(seen.x)
    sizes = x @ abs(seen.weights.incoming) + abs(seen.weights.bias)
    gap: Float64[np.ndarray, "rows"] = x @ before.incoming + before.bias + 2 * _units(x.shape[1] + 1, unit) * sizes
    return gap


def gap_of_gradients(seen: Seen, before: Weights, activation: Activation, unit: float) -> Weights:
    """How far apart the gradients of the two neurons' weights may be."""
    x, arriving = abs(seen.x), abs(seen.arriving)
    rows = _units(len(x), unit)
    outputs = gap_of_outputs(seen, before, unit)
    through = arriving @ abs(seen.weights.outgoing)
    gap_through = arriving @ before.outgoing + 2 * _units(arriving.shape[1], unit) * through
    slope, gap_slope = _slopes(seen, _gap_of_sums(seen, before, unit), outputs, activation, unit)
    into = (through + gap_through) * (slope + gap_slope)
    gap_into = slope * gap_through + (through + gap_through) * gap_slope + 2 * 4 * unit * into
    return Weights(
        gap_into @ x + 2 * rows * (into @ x),
        float(gap_into.sum() + 2 * rows * into.sum()),
        outputs @ arriving + 2 * rows * ((abs(seen.h) + outputs) @ arriving),
    )


def _slopes(
    seen: Seen, sums: Array, outputs: Array, activation: Activation, unit: float
) -> tuple[Float64[np.ndarray, "rows"], Float64[np.ndarray, "rows"]]:
    """The larger slope, and how far apart the two may be: by one where rounding can cross a kink."""
    if activation is Activation.TANH:
        return 1 - abs(seen.h) ** 2 + 2 * outputs + 4 * unit, 2 * abs(seen.h) * outputs + outputs**2 + 8 * unit
    if activation is Activation.RELU:
        return (seen.z > -sums).astype(np.float64), (abs(seen.z) <= sums).astype(np.float64)
    if activation is Activation.IDENTITY:
        return np.ones_like(seen.h), np.zeros_like(seen.h)
    raise ValueError(f"no bound is known for {activation}: use identity, relu or tanh")


def gap_after_step(
    seen: Seen, before: Weights, gradients: Weights, sizes: Weights, rate: float, unit: float
) -> Weights:
    """How far apart the weights may be after a step of gradient descent; ``sizes`` are magnitudes of the gradients."""

    def after(gap: Any, gap_gradient: Any, weight: Any, gradient: Any) -> Any:
        return gap + rate * gap_gradient + 2 * 3 * unit * (abs(weight) + rate * gradient)

    return Weights(
        after(before.incoming, gradients.incoming, seen.weights.incoming, sizes.incoming),
        after(before.bias, gradients.bias, seen.weights.bias, sizes.bias),
        after(before.outgoing, gradients.outgoing, seen.weights.outgoing, sizes.outgoing),
    )


def _units(terms: int, unit: float) -> float:
    return terms * unit / (1 - terms * unit)
