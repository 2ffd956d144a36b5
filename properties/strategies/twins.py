"""Networks with neurons that are copies of each other: on the reference's arithmetic, and in torch."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from jaxtyping import Float, Float64, Shaped
from torch import Tensor, nn

from properties.strategies.description import Description
from properties.strategies.draws import any_of, between
from properties.strategies.networks import new_optimizer
from reference import symmetry
from reference.symmetry import EXACT, Activation, Layer, Network, Randomness, Seen, Weights

Array = Shaped[np.ndarray, "..."]
Numbers = Float64[np.ndarray, "..."]
Rows = Float[Tensor, "rows _"]
ROUNDOFF = 2.0**-24
"""Half the distance from one to the next number of float32."""


class Arithmetic(Enum):
    """What the reference calculates with."""

    FRACTIONS = "fractions"
    FLOATS = "float64"

    def __repr__(self) -> str:
        return f"Arithmetic.{self.name}"


class Parted(Enum):
    """In what neurons with the same weights differ."""

    NOTHING = "nothing"
    BIAS = "their biases"
    OUTGOING = "their outgoing weights, or where they are outputs their targets"

    def __repr__(self) -> str:
        return f"Parted.{self.name}"


# ── on the reference's arithmetic ──


@dataclass(frozen=True, repr=False)
class Twins(Description):
    """A network with ``copies`` equal neurons at the beginning of layer number ``layer``, counted from 1.

    Its numbers follow from its sizes.
    """

    widths: tuple[int, ...]
    rows: int
    layer: int
    copies: int
    activation: Activation
    arithmetic: Arithmetic = Arithmetic.FLOATS
    parted: Parted = Parted.NOTHING

    def build(self) -> tuple[Network, Array, Array]:
        """The network, its data [rows, inputs] and its targets [rows, outputs]."""
        drawn = np.random.default_rng((*self.widths, self.rows, self.layer, self.copies))
        sizes = itertools.pairwise(self.widths)
        layers = [Layer(self._numbers(drawn, *pair), self._numbers(drawn, pair[1])) for pair in sizes]
        x, targets = self._numbers(drawn, self.rows, self.widths[0]), self._numbers(drawn, self.rows, self.widths[-1])
        here, others = layers[self.layer - 1], slice(1, self.copies)
        here.weight[:, others] = here.weight[:, :1]
        if self.parted is not Parted.BIAS:
            here.bias[others] = here.bias[0]
        if self.parted is not Parted.OUTGOING:
            outgoing = targets.T if self.layer == len(layers) else layers[self.layer].weight
            outgoing[others] = outgoing[:1]
        return Network(tuple(layers), self.activation), x, targets

    def _numbers(self, drawn: np.random.Generator, *shape: int) -> Array:
        if self.arithmetic is Arithmetic.FLOATS:
            return drawn.standard_normal(shape)
        quarters = drawn.integers(-8, 9, shape)
        return np.array([Fraction(int(each), 4) for each in quarters.flat], dtype=object).reshape(shape)

    def equal_outputs(self) -> bool:
        """Whether the copies give the same."""
        network, x, _ = self.build()
        given = network.forward(x)[self.layer - 1][1]
        return symmetry.equal_columns(given[:, : self.copies])

    def equal_gradients(self) -> bool:
        """Whether the copies receive the same gradients of incoming weights, biases, and outgoing weights."""
        network, x, targets = self.build()
        return all(symmetry.equal_columns(each) for each in self.parts(network.gradients(x, targets)))

    def parts(self, arrays: list[Array]) -> list[Array]:
        """Of the parameters, or of their gradients, those of the copies, a column a copy."""
        place = 2 * (self.layer - 1)
        found = [arrays[place][:, : self.copies], arrays[place + 1][np.newaxis, : self.copies]]
        if self.layer < len(self.widths) - 1:
            found.append(arrays[place + 2][: self.copies].T)
        return found

    def trained(self, optimizer: str, randomness: Randomness = Randomness.NONE) -> Iterator[Network]:
        """The network after each step."""
        network, x, targets = self.build()
        return symmetry.training(network, x, targets, optimizer, randomness)

    def equal_after(self, steps: int, optimizer: str, randomness: Randomness = Randomness.NONE) -> bool:
        """Whether the copies are the same after every one of so many steps."""
        networks = itertools.islice(self.trained(optimizer, randomness), steps)
        return all(symmetry.equal_columns(part) for each in networks for part in self.parts(each.parameters()))


_SHAPES = tuple(
    widths for layers in (1, 2, 3) for widths in itertools.product((1, 2, 3), *[(2, 3)] * (layers - 1), (1, 2, 3))
)
"""Widths of networks with one to three layers, small first."""


@cache
def _places(hidden: tuple[bool, ...]) -> tuple[tuple[tuple[int, ...], int, int], ...]:
    """Every shape with every layer of it that has two neurons or more, and how many of them are copies."""
    return tuple(
        (widths, layer, copies)
        for widths in _SHAPES
        for layer in range(1, len(widths))
        if (layer < len(widths) - 1) in hidden
        for copies in range(2, widths[layer] + 1)
    )


@st.composite
def twins(
    draw: st.DrawFn,
    parted: tuple[Parted, ...] = (Parted.NOTHING,),
    hidden: tuple[bool, ...] = (True, False),
    arithmetic: tuple[Arithmetic, ...] = tuple(Arithmetic),
) -> Twins:
    """One to three layers with copies in one of them; fractions only where the activation keeps them."""
    widths, layer, copies = draw(any_of(_places(hidden)))
    chosen = draw(any_of(arithmetic))
    activations = EXACT if chosen is Arithmetic.FRACTIONS else tuple(Activation)
    return Twins(
        widths,
        draw(between(1, 4)),
        layer,
        copies,
        draw(any_of(activations)),
        chosen,
        draw(any_of(parted)),
    )


def parted_twins() -> st.SearchStrategy[Twins]:
    """Equal weights, and unequal biases, outgoing weights or targets."""
    return twins((Parted.BIAS, Parted.OUTGOING))


def float_twins() -> st.SearchStrategy[Twins]:
    """Copies in a hidden layer, in float64."""
    return twins(hidden=(True,), arithmetic=(Arithmetic.FLOATS,))


def exact_twins() -> st.SearchStrategy[Twins]:
    """Copies in a hidden layer, in fractions."""
    return twins(hidden=(True,), arithmetic=(Arithmetic.FRACTIONS,))


# ── one function of one input ──


class Start(Enum):
    """How the neurons of a layer begin."""

    EQUAL = "all as the first"
    APART = "each on its own"

    def __repr__(self) -> str:
        return f"Start.{self.name}"


@dataclass(frozen=True, repr=False)
class Fit(Description):
    """A hidden layer of so many neurons that are to meet targets at -1, 0 and 1."""

    hidden: int
    activation: Activation
    targets: tuple[float, float, float]
    seed: int

    def build(self, start: Start) -> tuple[Network, Float64[np.ndarray, "rows 1"], Float64[np.ndarray, "rows 1"]]:
        """The network, its data and its targets."""
        drawn = np.random.default_rng(self.seed)
        incoming, outgoing = drawn.standard_normal((1, self.hidden)), drawn.standard_normal((self.hidden, 1))
        bias = drawn.standard_normal(self.hidden)
        if start is Start.EQUAL:
            incoming[:], outgoing[:], bias[:] = incoming[0, 0], outgoing[0, 0], bias[0]
        layers = (Layer(incoming, bias), Layer(outgoing, np.zeros(1)))
        return Network(layers, self.activation), np.array([[-1.0], [0.0], [1.0]]), np.array(self.targets)[:, np.newaxis]

    @property
    def least_of_one(self) -> float:
        """The least mean square error of a single neuron."""
        return symmetry.least_monotone_error(self.targets)

    def error_after(self, steps: int, start: Start) -> float:
        """The mean square error after so many steps of Adam on the reference's arithmetic."""
        network, x, targets = self.build(start)
        trained = next(itertools.islice(symmetry.training(network, x, targets, "Adam"), steps - 1, None))
        return float(((trained.output(x) - targets) ** 2).mean())

    def in_torch(self, steps: int) -> tuple[float, bool]:
        """The mean square error after so many steps of Adam in torch, and whether the neurons are still equal."""
        network, x, targets = self.build(Start.EQUAL)
        net, data, wanted = TwoLayers(network, torch.float64), torch.tensor(x), torch.tensor(targets)
        optimizer = new_optimizer("Adam", net.parameters(), lr=0.01)
        for _ in range(steps):
            optimizer.zero_grad()
            backward((net(data) - wanted).square().sum())
            optimizer.step()
        return (net(data) - wanted).square().mean().item(), net.apart() == 0


_TURNING = tuple(
    (float(first), float(middle), float(last))
    for first, middle, last in itertools.product(range(-2, 3), repeat=3)
    if (middle - first) * (last - middle) < 0
)
"""Targets that rise and fall again, or fall and rise."""


def fits() -> st.SearchStrategy[Fit]:
    """Two to four neurons with targets that no single one can meet."""
    bent = (Activation.TANH, Activation.SIGMOID, Activation.RELU)
    return st.builds(Fit, between(2, 4), any_of(bent), any_of(_TURNING), between(0, 999))


# ── in torch ──

_FUNCTIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    Activation.IDENTITY: lambda z: z,
    Activation.RELU: lambda z: torch.relu(z),
    Activation.TANH: lambda z: torch.tanh(z),
    Activation.SIGMOID: lambda z: torch.sigmoid(z),
}


class TwoLayers(nn.Module):
    """A network of two layers in torch, with the numbers of one of the reference."""

    def __init__(self, network: Network, dtype: torch.dtype) -> None:
        super().__init__()
        into, out = network.layers
        self.incoming = nn.Parameter(torch.tensor(into.weight.T.copy(), dtype=dtype))
        self.bias = nn.Parameter(torch.tensor(into.bias, dtype=dtype))
        self.outgoing = nn.Parameter(torch.tensor(out.weight.T.copy(), dtype=dtype))
        self.last_bias = nn.Parameter(torch.tensor(out.bias, dtype=dtype))
        self.activation = network.activation

    def hidden(self, x: Rows) -> tuple[Rows, Rows]:
        """What goes into the activation of the hidden layer, and what comes out."""
        sums = nn.functional.linear(x, self.incoming, self.bias)
        return sums, _FUNCTIONS[self.activation](sums)

    def outputs(self, hidden: Rows) -> Rows:
        """What the last layer makes of it."""
        return nn.functional.linear(hidden, self.outgoing, self.last_bias)

    def forward(self, x: Rows) -> Rows:
        """Both layers."""
        return self.outputs(self.hidden(x)[1])

    def neurons(self) -> list[Numbers]:
        """Incoming weights, biases and outgoing weights of the hidden layer, a row a neuron."""
        return _neurons(self.incoming, self.bias, self.outgoing)

    def gradients(self) -> list[Numbers]:
        """The gradients of the same."""
        return _neurons(*(each.grad for each in (self.incoming, self.bias, self.outgoing)))

    def apart(self) -> float:
        """How far the weights of any hidden neuron are from those of the first."""
        return max(float(_apart(each).max()) for each in self.neurons())


def _neurons(incoming: Tensor | None, bias: Tensor | None, outgoing: Tensor | None) -> list[Numbers]:
    assert incoming is not None and bias is not None and outgoing is not None
    return [_array(incoming), _array(bias), _array(outgoing.T)]


def backward(loss: Float[Tensor, ""]) -> None:
    """The backward pass, gradients into ``.grad``."""
    loss.backward()  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class Compared:
    """How far apart copies were, and how far rounding may have taken them."""

    what: str
    seen: float
    bound: float


@dataclass(frozen=True, repr=False)
class Copies(Description):
    """A hidden layer whose neurons are all equal, in torch's float32. Its numbers follow from its sizes."""

    rows: int
    inputs: int
    hidden: int
    outputs: int
    activation: Activation

    def build(self) -> tuple[TwoLayers, Rows, Rows]:
        """The network, its data and its targets."""
        drawn = np.random.default_rng((self.rows, self.inputs, self.hidden, self.outputs))
        incoming = drawn.standard_normal((self.inputs, 1)).repeat(self.hidden, 1) / np.sqrt(self.inputs)
        outgoing = drawn.standard_normal((1, self.outputs)).repeat(self.hidden, 0) / np.sqrt(self.hidden)
        bias = np.full(self.hidden, drawn.standard_normal())
        layers = (Layer(incoming, bias), Layer(outgoing, np.zeros(self.outputs)))
        x, targets = drawn.standard_normal((self.rows, self.inputs)), drawn.standard_normal((self.rows, self.outputs))
        net = TwoLayers(Network(layers, self.activation), torch.float32)
        return net, torch.tensor(x, dtype=torch.float32), torch.tensor(targets, dtype=torch.float32)

    def compared(self, steps: int, rate: float = 1 / 16) -> Iterator[Compared]:
        """Outputs, gradients and weights of the copies in steps of gradient descent, each with its bound."""
        net, x, targets = self.build()
        optimizer = new_optimizer("SGD", net.parameters(), lr=rate)
        before = Weights(np.zeros(self.inputs), 0.0, np.zeros(self.outputs))
        for step in range(1, steps + 1):
            optimizer.zero_grad()
            sums, hidden = net.hidden(x)
            errors = net.outputs(hidden) - targets
            backward(errors.square().mul(0.5).sum())
            weights = Weights(*(abs(each).max(axis=0) for each in net.neurons()))
            seen = Seen(_array(x), _array(sums[:, 0]), _array(hidden[:, 0]), _array(errors), weights)
            gradients = symmetry.gap_of_gradients(seen, before, self.activation, ROUNDOFF)
            yield _compared(
                f"outputs in step {step}", _array(hidden.T), symmetry.gap_of_outputs(seen, before, ROUNDOFF)
            )
            yield from _all_compared(f"gradients of {{}} in step {step}", net.gradients(), gradients)
            sizes = Weights(*(abs(each).max(axis=0) for each in net.gradients()))
            before = symmetry.gap_after_step(seen, before, gradients, sizes, rate, ROUNDOFF)
            optimizer.step()
            yield from _all_compared(f"{{}} after step {step}", net.neurons(), before)

    def drift(self, optimizer: str, steps: tuple[int, ...]) -> dict[int, float]:
        """How far apart the copies' weights are after so many steps of an optimizer at a rate of 0.01."""
        net, x, targets = self.build()
        chosen = new_optimizer(optimizer, net.parameters(), lr=0.01)
        found = {}
        for step in range(1, max(steps) + 1):
            chosen.zero_grad()
            backward((net(x) - targets).square().mean())
            chosen.step()
            if step in steps:
                found[step] = net.apart()
        return found

    def after_a_step_with_dropout(self, probability: float) -> float:
        """How far apart the copies' weights are after a step of descent with dropout behind the hidden layer."""
        net, x, targets = self.build()
        dropped = nn.functional.dropout(net.hidden(x)[1], probability)
        backward((net.outputs(dropped) - targets).square().sum())
        new_optimizer("SGD", net.parameters(), lr=0.01).step()
        return net.apart()


def _array(tensor: Shaped[Tensor, "..."]) -> Numbers:
    found: Numbers = tensor.detach().double().numpy()
    return found


def _apart(neurons: Numbers) -> Numbers:
    """How far each number of the neurons is from the first one's, at most."""
    return np.asarray(abs(neurons - neurons[:1]).max(axis=0))


def _all_compared(what: str, neurons: list[Numbers], bounds: Weights) -> Iterator[Compared]:
    parts = ("incoming weights", "biases", "outgoing weights")
    for part, each, bound in zip(parts, neurons, (bounds.incoming, bounds.bias, bounds.outgoing), strict=True):
        yield _compared(what.format(part), each, bound)


def _compared(what: str, neurons: Numbers, bound: Any) -> Compared:
    """The number that comes nearest to its bound, or is furthest beyond it."""
    apart, allowed = np.broadcast_arrays(_apart(neurons), bound)
    worst = int(np.argmax(apart - allowed))
    return Compared(what, float(apart.flat[worst]), float(allowed.flat[worst]))


def copies() -> st.SearchStrategy[Copies]:
    """Up to 16 rows, 64 inputs, 8 neurons and 5 outputs, and the activations of which a bound is known."""
    known = (Activation.TANH, Activation.RELU, Activation.IDENTITY)
    return st.builds(Copies, between(1, 16), between(1, 64), between(2, 8), between(1, 5), any_of(known))
