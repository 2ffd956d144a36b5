"""What to train: small networks told by their widths, one step of training, and losses with known answers."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from functools import cache
from typing import Any

import torch
from hypothesis import strategies as st
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from properties.instruments.kernels import import_kernels
from properties.instruments.saved import apart_from, saved_for_backward, unique_bytes
from properties.strategies.description import Description


class Activation(Enum):
    """What stands between two linear layers."""

    RELU = nn.ReLU
    TANH = nn.Tanh
    GELU = nn.GELU
    SILU = nn.SiLU
    IDENTITY = nn.Identity

    def __repr__(self) -> str:
        return f"Activation.{self.name}"


class Precision(Enum):
    """In which formats a network is trained."""

    FLOAT32 = "everything in float32"
    BFLOAT16 = "everything in bfloat16"
    FLOAT16 = "everything in float16"
    MIXED = "bfloat16 arithmetic under autocast, float32 weights"

    @property
    def kept(self) -> torch.dtype:
        """The format of the weights."""
        half = {Precision.BFLOAT16: torch.bfloat16, Precision.FLOAT16: torch.float16}
        return half.get(self, torch.float32)

    def arithmetic(self) -> torch.autocast:
        """The context in which the forward pass runs: autocast to bfloat16 where the formats are mixed."""
        return torch.autocast("cpu", torch.bfloat16, enabled=self is Precision.MIXED)

    def __repr__(self) -> str:
        return f"Precision.{self.name}"


# ── networks ──


@dataclass(frozen=True, repr=False)
class Mlp(Description):
    """Linear layers with an activation between each two, and none after the last.

    ``widths`` are the features from the input to the output. Layers whose place is in ``frozen`` are not
    trained. With ``tied``, every layer whose weight has the shape of an earlier one shares it.
    """

    widths: tuple[int, ...]
    bias: bool = True
    activation: Activation = Activation.RELU
    frozen: tuple[int, ...] = ()
    tied: bool = False
    seed: int = 0

    def build(self) -> nn.Sequential:
        """The network in float32, initialised as torch does from ``seed``; torch's generator stays as it
        was.
        """
        first: dict[tuple[int, int], nn.Linear] = {}
        modules: list[nn.Module] = []
        before = torch.get_rng_state()
        torch.default_generator.manual_seed(self.seed)
        for place, (fan_in, fan_out) in enumerate(itertools.pairwise(self.widths)):
            layer = _linear(fan_in, fan_out, self.bias)
            if self.tied:
                layer.weight = first.setdefault((fan_in, fan_out), layer).weight
            layer.requires_grad_(place not in self.frozen)
            modules += [layer, self.activation.value()]
        torch.set_rng_state(before)
        return nn.Sequential(*modules[:-1])

    def inputs(self, rows: int) -> Float[Tensor, "rows features"]:
        """Standard normal inputs for the network."""
        return torch.randn(rows, self.widths[0], generator=torch.Generator().manual_seed(self.seed))


def _linear(fan_in: int, fan_out: int, bias: bool) -> nn.Linear:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Initializing zero-element tensors is a no-op")
        return nn.Linear(fan_in, fan_out, bias=bias)


@cache
def _some_layers(layers: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Any layers but all of them."""
    some = (itertools.combinations(range(layers), count) for count in range(layers))
    return st.sampled_from(tuple(itertools.chain.from_iterable(some)))


def _all_widths(widths: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Two to four of them in every order, few first."""
    products = (itertools.product(widths, repeat=count) for count in (2, 3, 4))
    return tuple(itertools.chain.from_iterable(products))


_WIDTHS = _all_widths((1, 2, 4, 7))
_EMPTY_WIDTHS = tuple(widths for widths in _all_widths((1, 3, 0)) if 0 in widths)


@st.composite
def mlps(draw: st.DrawFn, widths: tuple[tuple[int, ...], ...] = _WIDTHS) -> Mlp:
    """One to three layers, with and without bias, some frozen or some tied; one layer at least is trained."""
    chosen = draw(st.sampled_from(widths))
    bias, tied = draw(st.sampled_from(((True, False), (False, False), (True, True), (False, True))))
    frozen = () if tied else draw(_some_layers(len(chosen) - 1))
    return Mlp(chosen, bias, draw(st.sampled_from(Activation)), frozen, tied)


# ── one step of training ──

SETTINGS: Mapping[str, Mapping[str, float]] = {
    "AdamW": {},
    "SGD": {"lr": 0.1, "momentum": 0.9},
    "Adam": {},
    "RMSprop": {},
    "Adagrad": {},
    "Adadelta": {},
    "Adafactor": {},
    "Adamax": {},
    "ASGD": {},
    "LBFGS": {"max_iter": 2},
    "Muon": {},
    "NAdam": {},
    "RAdam": {},
    "Rprop": {},
}
"""Optimizers for dense gradients, and what they are told beyond their defaults."""
OPTIMIZERS = tuple(name for name in SETTINGS if hasattr(torch.optim, name))


def new_optimizer(name: str, parameters: Iterable[nn.Parameter], **settings: float) -> torch.optim.Optimizer:
    """An optimizer by the name it has in torch.optim."""
    import_kernels()
    optimizer: torch.optim.Optimizer = getattr(torch.optim, name)(list(parameters), **settings)
    return optimizer


@dataclass(frozen=True)
class Left:
    """What a step of training worked with and leaves behind, and what an optimizer keeps beside tensors."""

    parameters: list[Any]
    gradients: list[Any]
    activations: list[Any]
    outputs: list[Shaped[Tensor, "..."]]
    """What each linear layer gave."""
    state: list[tuple[str, Any]]
    """The optimizer's state by name, lists taken apart."""
    hyperparameters: list[Any]

    def everything(self) -> list[Any]:
        """All of it that has a number for each parameter or each activation."""
        return [*self.parameters, *self.gradients, *self.activations, *self.moments()]

    def moments(self) -> list[Any]:
        """The optimizer's state without its counters."""
        return [value for name, value in self.state if name not in COUNTERS]


COUNTERS = ("n_iter", "func_evals", "t", "prev_loss", "H_diag")
"""What LBFGS keeps as Python numbers, one each for all parameters."""


@dataclass(frozen=True, repr=False)
class Training(Description):
    """A network, an optimizer by name, a number of rows and the formats it is trained in."""

    network: Mlp
    optimizer: str
    rows: int
    precision: Precision = Precision.FLOAT32

    def step(self) -> Left:
        """Make one step towards outputs of zero."""
        network = self.network.build().to(self.precision.kept)
        inputs = self.network.inputs(self.rows).to(self.precision.kept)
        trained = [each for each in network.parameters() if each.requires_grad]
        optimizer = new_optimizer(self.optimizer, trained, **SETTINGS[self.optimizer])
        outputs: list[Shaped[Tensor, "..."]] = []
        for module in network:
            if isinstance(module, nn.Linear):
                module.register_forward_hook(lambda module, given, output: outputs.append(output))

        def loss() -> float:
            optimizer.zero_grad()
            with self.precision.arithmetic():
                error: Shaped[Tensor, ""] = network(inputs).square().mean()
            error.backward()  # type: ignore[no-untyped-call]
            return error.item()

        with saved_for_backward() as saved:
            optimizer.step(loss)
        told = [value for group in optimizer.param_groups for name, value in group.items() if name != "params"]
        return Left(
            list(network.parameters()),
            [each.grad for each in trained],
            apart_from(network.parameters(), saved),
            outputs,
            [item for state in optimizer.state.values() for pair in state.items() for item in _apart(*pair)],
            told,
        )


def _apart(name: str, value: Any) -> list[tuple[str, Any]]:
    values = value if isinstance(value, list) else [value]
    return [(name, each) for each in values if each is not None]


@st.composite
def trainings(draw: st.DrawFn, precision: Precision = Precision.FLOAT32) -> Training:
    """Any network, in one case in four with a width of zero, any optimizer that can train it, and up to nine
    rows.
    """
    widths = draw(st.sampled_from((_WIDTHS, _WIDTHS, _WIDTHS, _EMPTY_WIDTHS)))
    network = draw(mlps(widths))
    # Muon takes matrices only. Both it and Adafactor divide by a length; LBFGS looks for a largest gradient.
    unfit = {"Muon"} if network.bias else set()
    unfit |= {"Adafactor", "LBFGS", "Muon"} if 0 in network.widths else set()
    optimizer = draw(st.sampled_from([name for name in OPTIMIZERS if name not in unfit]))
    return Training(network, optimizer, draw(st.integers(1, 9)), precision)


def stepped(
    optimizer: str, gradients: Float[Tensor, "..."], weights: Float[Tensor, "..."] | None = None
) -> Float[Tensor, "..."]:
    """Weights, ones unless given, after the first step of an optimizer at its defaults; SGD's rate is one."""
    start = torch.ones_like(gradients) if weights is None else weights
    parameter = nn.Parameter(start.clone())
    parameter.grad = gradients.clone()
    settings = {"lr": 1.0} if optimizer == "SGD" else {}
    new_optimizer(optimizer, [parameter], **settings).step()
    moved: Float[Tensor, "..."] = parameter.detach()
    return moved


@dataclass(frozen=True, repr=False)
class Footprint(Description):
    """A network, a number of rows and the formats it is trained in, of which the bytes are asked."""

    network: Mlp
    rows: int
    precision: Precision

    def bytes(self) -> int:
        """Bytes of parameters, gradients and what is saved for the backward pass, each storage counted
        once.
        """
        network = self.network.build().to(self.precision.kept)
        inputs = self.network.inputs(self.rows).to(self.precision.kept)
        with saved_for_backward() as saved, self.precision.arithmetic():
            loss = network(inputs).square().mean()
        parameters = list(network.parameters())
        gradients = torch.autograd.grad(loss, [each for each in parameters if each.requires_grad])
        return unique_bytes([*parameters, *gradients, *saved])

    def in_float32(self) -> Footprint:
        """The same in float32."""
        return Footprint(self.network, self.rows, Precision.FLOAT32)


@st.composite
def halved_footprints(draw: st.DrawFn) -> Footprint:
    """Everything kept in a format of 16 bits."""
    kept = draw(st.sampled_from((Precision.BFLOAT16, Precision.FLOAT16)))
    return Footprint(draw(mlps()), draw(st.integers(1, 40)), kept)


@st.composite
def mixed_footprints(draw: st.DrawFn) -> Footprint:
    """Weights kept in float32 under autocast, as often with few rows as with many."""
    return Footprint(draw(mlps()), draw(st.one_of(st.integers(1, 3), st.integers(4, 40))), Precision.MIXED)


# ── a loss with a tiny gradient ──


@dataclass(frozen=True, repr=False)
class Chain(Description):
    """The loss ``weight * f0 * f1 * ...``, where f0 is significand/128 * 2**-e0 and every other f is 2**-e.

    The backward pass multiplies the factors from the last to the first, so that only its last product has to
    be rounded, in a format that has room for the others.
    """

    significand: int
    exponents: tuple[int, ...]

    def gradient(self) -> Fraction:
        """The derivative by the weight, exactly: the product of the factors."""
        return Fraction(self.significand, 2 ** (7 + sum(self.exponents)))

    def backward(self, dtype: torch.dtype, scale: float = 1.0) -> Fraction:
        """The gradient of ``scale`` times the loss at a weight of one, everything computed in ``dtype``."""
        weight = torch.ones((), dtype=dtype, requires_grad=True)
        loss = weight * torch.full((), self.significand / 128 * 2.0 ** -self.exponents[0], dtype=dtype)
        for exponent in self.exponents[1:]:
            loss = loss * torch.full((), 2.0**-exponent, dtype=dtype)
        (gradient,) = torch.autograd.grad(loss * scale, weight)
        return Fraction(gradient.item())


@st.composite
def chains(draw: st.DrawFn, smallest: int) -> Chain:
    """Gradients from 2**-smallest up to just below 2**-25, of factors that are all normal in float16 or
    powers of two that it has.
    """
    first = draw(st.integers(0, 14))
    rest = draw(st.integers(26, smallest)) - first
    longest = draw(st.integers(4, 24))
    parts = (*[longest] * (rest // longest), rest % longest)
    return Chain(draw(st.integers(128, 255)), (first, *parts))


vanishing_chains = chains(133)
"""Gradients down to bfloat16's smallest number."""
recoverable_chains = chains(39)
"""Gradients that a scale of 2**15 lifts to float16's smallest number or above."""


# ── small regressions ──


@dataclass(frozen=True, repr=False)
class Regression(Description):
    """A linear network fitted to a random linear map of normal inputs, plus normal noise of deviation
    ``noise``.

    Without the noise the targets have a variance of about one. The number of rows seeds what is drawn.
    """

    width: int
    rows: int
    noise: float

    def noiseless(self) -> Regression:
        """The same with targets that a linear network can reach."""
        return replace(self, noise=0.0)

    def train(self, precision: Precision) -> float:
        """The mean squared error, taken in float32, after 100 steps of gradient descent at a rate of 0.05."""
        generator = torch.Generator().manual_seed(self.rows)
        inputs = torch.randn(self.rows, self.width, generator=generator)
        direction = torch.randn(self.width, 1, generator=generator)
        targets = inputs @ (direction / direction.norm())
        targets += self.noise * torch.randn(self.rows, 1, generator=generator)
        network = Mlp((self.width, 1), seed=self.rows).build().to(precision.kept)
        x, y = inputs.to(precision.kept), targets.to(precision.kept)
        optimizer = new_optimizer("SGD", network.parameters(), lr=0.05)
        for _ in range(100):
            optimizer.zero_grad()
            with precision.arithmetic():
                predicted = network(x)
            loss = nn.functional.mse_loss(predicted.to(precision.kept), y)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        return nn.functional.mse_loss(network.float()(inputs), targets).item()


@st.composite
def regressions(draw: st.DrawFn) -> Regression:
    """One to eight features, rows enough to show the noise, and noise of a tenth of the signal and more."""
    width = draw(st.integers(1, 8))
    return Regression(width, draw(st.integers(8 * width + 8, 200)), draw(st.sampled_from((0.1, 0.2, 0.5))))
