"""Ways of using weights: once a token in a product, more often, or not in one at all; and networks that mix them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any

import torch
from hypothesis import strategies as st
from jaxtyping import Shaped
from torch import Tensor, nn

from properties.instruments.flops import Counted, count_flops
from properties.strategies.description import Description
from properties.strategies.networks import Activation, Mlp
from reference import linear, scalars
from reference.scalars import Operations, integers, reals

# ── layers ──


class Use(Enum):
    """How the weights of a layer are used for a token."""

    LINEAR = "each once, in a matrix product"
    BIASED = "the same, and a bias is added"
    CONVOLUTION = "each once for every position of the output"
    SHARED = "each once in every one of several layers"
    EMBEDDING = "one row is looked up"
    TIED = "one row is looked up, and all of them make the logits"
    UNTIED = "one row is looked up, and another matrix makes the logits"

    def __repr__(self) -> str:
        return f"Use.{self.name}"


@dataclass(frozen=True, repr=False)
class Layered(Description):
    """A layer from ``inputs`` to ``outputs`` for some tokens; ``times`` are the positions or the layers there are.

    For embeddings ``inputs`` is the vocabulary and ``outputs`` the width.
    """

    use: Use
    tokens: int
    inputs: int
    outputs: int
    times: int = 1

    @property
    def parameters(self) -> int:
        """All numbers that the layer learns."""
        return int(_USES[self.use].parameters(self))

    @property
    def once(self) -> bool:
        """Whether every parameter takes part in a matrix product once for each token."""
        single = {Use.LINEAR, Use.TIED} | ({Use.CONVOLUTION, Use.SHARED} if self.times == 1 else set())
        return self.use in single

    @property
    def flops(self) -> int:
        """The closed form."""
        return int(_USES[self.use].flops(self))

    def step(self) -> Counted:
        """What torch does."""
        with count_flops() as counted:
            _USES[self.use].run(self)
        return counted

    def numbers(self) -> Operations:
        """What the plain algorithm does."""
        return _USES[self.use].count(self)


@dataclass(frozen=True)
class _Using:
    parameters: Callable[[Layered], int]
    flops: Callable[[Layered], int]
    run: Callable[[Layered], Any]
    count: Callable[[Layered], Operations]


KERNEL = 2
"""Taps of the convolution."""


def _zeros(*shape: int) -> Shaped[Tensor, "..."]:
    return torch.zeros(shape)


def _tokens(of: Layered) -> Shaped[Tensor, "tokens"]:
    return torch.zeros(of.tokens, dtype=torch.int64)


def _run_linear(of: Layered, bias: bool) -> Any:
    return nn.Linear(of.inputs, of.outputs, bias=bias)(_zeros(of.tokens, of.inputs))


def _run_convolution(of: Layered) -> Any:
    layer = nn.Conv1d(of.inputs, of.outputs, KERNEL, bias=False)
    return layer(_zeros(of.tokens, of.inputs, of.times + KERNEL - 1))


def _count_convolution(of: Layered) -> Operations:
    x = integers((of.tokens, of.inputs, of.times + KERNEL - 1))
    return scalars.count(scalars.convolution, x, integers((of.outputs, of.inputs, KERNEL)))


def _run_shared(of: Layered) -> Any:
    layer = nn.Linear(of.inputs, of.inputs, bias=False)
    return nn.Sequential(*[layer] * of.times)(_zeros(of.tokens, of.inputs))


def _count_shared(of: Layered) -> Operations:
    def through(x: Any, weight: Any) -> Any:
        return list(itertools.accumulate([weight] * of.times, scalars.linear, initial=x))[-1]

    return scalars.count(through, integers((of.tokens, of.inputs)), integers((of.inputs, of.inputs)))


def _run_model(of: Layered, tied: bool) -> Any:
    table = nn.Embedding(of.inputs, of.outputs)
    projection = nn.Linear(of.outputs, of.inputs, bias=False)
    if tied:
        projection.weight = table.weight
    return projection(table(_tokens(of)))


def _count_model(of: Layered) -> Operations:
    table = integers((of.inputs, of.outputs))
    return scalars.count(lambda table: scalars.linear(scalars.embedding(table, [0] * of.tokens), table), table)


def _count_biased(of: Layered) -> Operations:
    def biased(x: Any, weight: Any, bias: Any) -> Any:
        return scalars.add(scalars.linear(x, weight), bias)

    shapes = ((of.tokens, of.inputs), (of.outputs, of.inputs), (of.outputs,))
    return scalars.count(biased, *map(integers, shapes))


_USES: dict[Use, _Using] = {
    Use.LINEAR: _Using(
        lambda of: of.inputs * of.outputs,
        lambda of: linear.linear_forward_flops(of.tokens, of.inputs, of.outputs),
        lambda of: _run_linear(of, bias=False),
        lambda of: scalars.count(scalars.linear, integers((of.tokens, of.inputs)), integers((of.outputs, of.inputs))),
    ),
    Use.BIASED: _Using(
        lambda of: of.inputs * of.outputs + of.outputs,
        lambda of: (
            linear.linear_forward_flops(of.tokens, of.inputs, of.outputs) + linear.bias_flops(of.tokens, of.outputs)
        ),
        lambda of: _run_linear(of, bias=True),
        _count_biased,
    ),
    Use.CONVOLUTION: _Using(
        lambda of: of.inputs * of.outputs * KERNEL,
        lambda of: linear.convolution_flops(of.tokens, of.times, of.outputs, of.inputs * KERNEL),
        _run_convolution,
        _count_convolution,
    ),
    Use.SHARED: _Using(
        lambda of: of.inputs * of.inputs,
        lambda of: of.times * linear.linear_forward_flops(of.tokens, of.inputs, of.inputs),
        _run_shared,
        _count_shared,
    ),
    Use.EMBEDDING: _Using(
        lambda of: of.inputs * of.outputs,
        lambda of: linear.embedding_flops(of.tokens, of.outputs),
        lambda of: nn.Embedding(of.inputs, of.outputs)(_tokens(of)),
        lambda of: scalars.count(scalars.embedding, integers((of.inputs, of.outputs)), [0] * of.tokens),
    ),
    Use.TIED: _Using(
        lambda of: of.inputs * of.outputs,
        lambda of: linear.linear_forward_flops(of.tokens, of.outputs, of.inputs),
        lambda of: _run_model(of, tied=True),
        _count_model,
    ),
    Use.UNTIED: _Using(
        lambda of: 2 * of.inputs * of.outputs,
        lambda of: linear.linear_forward_flops(of.tokens, of.outputs, of.inputs),
        lambda of: _run_model(of, tied=False),
        _count_model,
    ),
}


@cache
def _layered(uses: tuple[Use, ...], times: tuple[int, ...]) -> st.SearchStrategy[Layered]:
    sizes = tuple(itertools.product(range(1, 5), repeat=3))
    return st.builds(
        lambda use, sizes, times: Layered(use, sizes[0], sizes[1], sizes[2], times),
        st.sampled_from(uses),
        st.sampled_from(sizes),
        st.sampled_from(times),
    )


def used_once() -> st.SearchStrategy[Layered]:
    """Layers whose every parameter meets each token in one product."""
    return _layered((Use.LINEAR, Use.CONVOLUTION, Use.SHARED, Use.TIED), (1,))


def used_otherwise() -> st.SearchStrategy[Layered]:
    """Layers with parameters that are added, looked up, or used several times."""
    repeated = _layered((Use.CONVOLUTION, Use.SHARED), (2, 3, 4))
    return st.one_of(_layered((Use.BIASED, Use.EMBEDDING, Use.UNTIED), (1,)), repeated)


# ── networks with biases and activations ──

_EACH: dict[Activation, Callable[[Any], Any]] = {
    Activation.RELU: scalars.relu,
    Activation.TANH: scalars.tanh,
    Activation.GELU: scalars.gelu,
    Activation.SILU: scalars.silu,
    Activation.IDENTITY: lambda x: x,
}


@dataclass(frozen=True, repr=False)
class Network(Description):
    """Rows of data through a multilayer perceptron."""

    mlp: Mlp
    rows: int

    @property
    def weights(self) -> int:
        """Numbers of the matrices."""
        return int(linear.stack_parameters(self.mlp.widths))

    @property
    def biases(self) -> int:
        """Numbers of the vectors."""
        return sum(self.mlp.widths[1:]) if self.mlp.bias else 0

    @property
    def activated(self) -> int:
        """Units that have an activation."""
        return sum(self.mlp.widths[1:-1])

    @property
    def activation_flops(self) -> int:
        """FLOPs of the activation of one unit, by the plain algorithm."""
        each = _EACH[self.mlp.activation]
        return scalars.count(lambda x: scalars.elementwise(each, x), integers((1,))).flops

    @property
    def flops(self) -> int:
        """The closed form: two for each weight, one for each bias, the activations' own for each unit."""
        return self.rows * (2 * self.weights + self.biases + self.activation_flops * self.activated)

    @property
    def rule(self) -> int:
        """The rule of thumb, over all parameters."""
        return 2 * self.rows * (self.weights + self.biases)

    @property
    def bound(self) -> float:
        """The larger of the biases' and the activations' share of the work."""
        return self.rows * max(self.biases, self.activation_flops * self.activated) / self.flops

    def step(self) -> Counted:
        """What torch does, forward."""
        network, x = self.mlp.build(), self.mlp.inputs(self.rows)
        with count_flops() as counted:
            network(x)
        return counted

    def numbers(self) -> Operations:
        """What the plain algorithm does."""
        shapes = list(itertools.pairwise(self.mlp.widths))
        return scalars.count(self._through, reals((self.rows, self.mlp.widths[0])), *map(reals, shapes))

    def _through(self, x: Any, *weights: Any) -> Any:
        for place, weight in enumerate(weights):
            x = scalars.matmul(x, weight)
            x = scalars.add(x, integers(x.shape[1:])) if self.mlp.bias else x
            x = scalars.elementwise(_EACH[self.mlp.activation], x) if place < len(weights) - 1 else x
        return x


_WIDTHS = tuple(itertools.chain.from_iterable(itertools.product(range(1, 5), repeat=count) for count in range(2, 6)))


def networks() -> st.SearchStrategy[Network]:
    """Up to four layers, with and without biases and activations."""
    mlps = st.builds(Mlp, st.sampled_from(_WIDTHS), st.sampled_from((False, True)), st.sampled_from(tuple(Activation)))
    return st.builds(Network, mlps, st.integers(1, 4))
