"""Sequences of gradients, and what AdamW makes of them: its moments and weights beside those of the reference."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from random import Random
from typing import Any

import torch
from hypothesis import strategies as st
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from properties.strategies.description import Description
from properties.strategies.networks import new_optimizer
from properties.strategies.training import Optimizer, Way
from reference import optimizers as reference

FINE = (torch.float32, torch.float64)
"""Formats in which the averages move."""
COARSE = (torch.bfloat16, torch.float16)
"""Formats in which they may stand still."""
_UNIT = {torch.float32: 2.0**-24, torch.float64: 2.0**-53}
"""The unit roundoff that a format is held to; coarser ones are held to float32's."""


@dataclass(frozen=True, repr=False)
class Sequence(Description):
    """The gradients of each weight in their order, equally many, and the AdamW that takes them.

    Weights start at 1, 2, 3 and so on. Gradients are whole multiples of powers of two that every format has.
    """

    gradients: tuple[tuple[float, ...], ...]
    optimizer: Optimizer = Optimizer("AdamW")
    dtype: torch.dtype = torch.float32

    @property
    def settings(self) -> reference.Settings:
        """The same for the reference."""
        told: dict[str, Any] = {
            "learning_rate" if name == "lr" else name: value for name, value in self.optimizer.settings
        }
        if "betas" in told:
            told["beta1"], told["beta2"] = told.pop("betas")
        return reference.Settings(**told)

    @property
    def _unit(self) -> float:
        return _UNIT.get(self.dtype, _UNIT[torch.float32])

    def run(self) -> tuple[nn.Parameter, dict[str, Any]]:
        """The weights after all gradients, and what is kept for them."""
        weights = nn.Parameter(torch.arange(1, len(self.gradients) + 1).to(self.dtype))
        optimizer = self.optimizer.build([weights])
        for gradient in zip(*self.gradients, strict=True):
            weights.grad = torch.tensor(gradient, dtype=self.dtype)
            optimizer.step()
        return weights, dict(optimizer.state[weights])

    def moments_are_close(self) -> bool:
        """Whether both moments are as near the exact recurrences as rounding leaves them."""
        _, state = self.run()
        averages = zip(self.gradients, state["exp_avg"].tolist(), state["exp_avg_sq"].tolist(), strict=True)
        return all(self._are_close(gradients, first, second) for gradients, first, second in averages)

    def _are_close(self, gradients: tuple[float, ...], first: float, second: float) -> bool:
        sign = -1 if self.settings.maximize else 1
        values = [Fraction(sign * gradient) for gradient in gradients]
        exact_first = reference.moving_average(values, Fraction(self.settings.beta1))
        exact_second = reference.moving_average([each**2 for each in values], Fraction(self.settings.beta2))
        first_bound = reference.first_moment_bound(gradients, self._unit)
        second_bound = reference.second_moment_share(len(gradients), self._unit) * float(exact_second)
        return (
            abs(Fraction(first) - exact_first) <= first_bound and abs(Fraction(second) - exact_second) <= second_bound
        )

    def weights(self) -> Iterator[tuple[float, float, float]]:
        """For each weight what torch made of it, what the reference does, and how far rounding may take it."""
        weights, _ = self.run()
        for start, (gradients, seen) in enumerate(zip(self.gradients, weights.tolist(), strict=True), start=1):
            exact = reference.run(start, gradients, self.settings)[-1].weight
            yield seen, exact, reference.weight_bound(start, gradients, self.settings, self._unit)


@cache
def _rows(steps: int) -> tuple[tuple[float, ...], ...]:
    """A thousand rows of so many gradients, a quarter of them zero, those with the smallest numbers first."""
    chance = Random(steps)

    def gradient() -> float:
        return chance.choice((0, 1, 1, 1)) * chance.randint(-64, 64) * 2.0 ** chance.randint(-20, 10)

    found = [tuple(gradient() for _ in range(steps)) for _ in range(1000)]
    return tuple(sorted(found, key=lambda row: max(map(abs, row))))


_CHOICES = {
    "lr": (1e-3, 1e-2, 0.25),
    "betas": ((0.9, 0.999), (0.5, 0.75), (0.8, 0.95), (0.0, 0.0), (0.95, 0.5)),
    "eps": (1e-8, 1e-3, 1e-6),
    "weight_decay": (1e-2, 0.0, 0.5),
    "amsgrad": (False, True),
    "maximize": (False, True),
}
_SETTINGS = st.sampled_from([tuple(zip(_CHOICES, each, strict=True)) for each in itertools.product(*_CHOICES.values())])


@st.composite
def sequences(draw: st.DrawFn) -> Sequence:
    """One to three weights, one to six gradients each, and any settings, in a fine format."""
    row = st.sampled_from(_rows(draw(st.integers(1, 6))))
    chosen = tuple(draw(row) for _ in range(draw(st.integers(1, 3))))
    optimizer = Optimizer("AdamW", draw(_SETTINGS), draw(st.sampled_from(Way)))
    return Sequence(chosen, optimizer, draw(st.sampled_from(FINE)))


@st.composite
def coarse_sequences(draw: st.DrawFn) -> Sequence:
    """A gradient and then quiet, in a coarse format."""
    row = (draw(st.integers(1, 64)) * 2.0 ** draw(st.integers(-3, 3)), *[0.0] * draw(st.integers(1, 6)))
    return Sequence((row,), Optimizer("AdamW", (), draw(st.sampled_from(Way))), draw(st.sampled_from(COARSE)))


# ── an average without news ──


def quiet_averages(
    dtype: torch.dtype, gradients: Float[Tensor, "weights"], steps: int
) -> Shaped[Tensor, "steps weights"]:
    """AdamW's average of squares after each of these gradients, and after one to ``steps`` more steps with zeros."""
    weights = nn.Parameter(torch.zeros_like(gradients, dtype=dtype))
    optimizer = new_optimizer("AdamW", [weights], foreach=True)
    averages = []
    for gradient in itertools.chain([gradients], itertools.repeat(torch.zeros_like(gradients), steps)):
        weights.grad = gradient.to(dtype)
        optimizer.step()
        averages.append(optimizer.state[weights]["exp_avg_sq"].clone())
    return torch.stack(averages)


# ── a resumed run ──


def resumed(
    size: int, kept: torch.dtype, weight: torch.dtype
) -> tuple[list[Shaped[Tensor, "..."]], list[Shaped[Tensor, "..."]]]:
    """AdamW's moments, kept in one format for weights in another, before and after another optimizer loads them."""
    parameter = nn.Parameter(torch.zeros(size, dtype=weight))
    optimizer = Optimizer("AdamW", (), Way.ONE_BY_ONE).build([parameter])
    parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    state = optimizer.state[parameter]
    for name in ("exp_avg", "exp_avg_sq"):
        state[name] = state[name].to(kept)
    other = Optimizer("AdamW", (), Way.ONE_BY_ONE).build([parameter])
    other.load_state_dict(optimizer.state_dict())
    loaded = other.state[parameter]
    return [state["exp_avg"], state["exp_avg_sq"]], [loaded["exp_avg"], loaded["exp_avg_sq"]]


def loaded_by_another() -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """What AdamW keeps for a weight that it has stepped, what its state says of it, and what another one loads."""
    parameter = nn.Parameter(torch.zeros(3))
    one, other = (Optimizer("AdamW", (), Way.ONE_BY_ONE).build([parameter]) for _ in range(2))
    parameter.grad = torch.ones_like(parameter)
    one.step()
    state = one.state_dict()
    other.load_state_dict(state)
    return dict(one.state[parameter]), state["state"][0], dict(other.state[parameter])


# ── decay and momentum, exactly ──


@dataclass(frozen=True, repr=False)
class Decayed(Description):
    """A weight, its gradient and a decay in eighths, and the optimizer that takes them: all are exact in float32."""

    weight: int
    gradient: int
    eighths: int
    optimizer: str = "AdamW"
    way: Way = Way.ONE_BY_ONE

    def first_average(self) -> float:
        """The average of gradients after a step, at a beta of a half and a rate of zero."""
        weight = nn.Parameter(torch.tensor([float(self.weight)]))
        weight.grad = torch.tensor([float(self.gradient)])
        settings = (("lr", 0.0), ("betas", (0.5, 0.5)), ("weight_decay", self.eighths / 8))
        optimizer = Optimizer(self.optimizer, settings, self.way).build([weight])
        optimizer.step()
        return float(optimizer.state[weight]["exp_avg"])

    @property
    def due(self) -> float:
        """Half the gradient, to which all but AdamW add the decay of the weight."""
        decay = 0 if self.optimizer == "AdamW" else self.eighths / 8 * self.weight
        return (self.gradient + decay) / 2


_TAKES_DECAY = ("AdamW", "Adam", "NAdam", "RAdam", "Adamax")
decayed = st.builds(
    Decayed,
    st.integers(-9, 9),
    st.integers(-9, 9),
    st.integers(0, 8),
    st.sampled_from(_TAKES_DECAY),
    st.sampled_from((Way.ONE_BY_ONE, Way.GROUPED)),
)
"""Optimizers with an average of gradients that can be told a decay."""


@dataclass(frozen=True, repr=False)
class Momentum(Description):
    """Gradients of one weight, and SGD with a momentum of a half and a rate of a quarter."""

    gradients: tuple[int, ...]
    nesterov: bool = False
    way: Way = Way.ONE_BY_ONE

    def run(self) -> list[tuple[float, float]]:
        """The weight and the buffer after each gradient."""
        weight = nn.Parameter(torch.zeros(1))
        settings = (("lr", 0.25), ("momentum", 0.5), ("nesterov", self.nesterov))
        optimizer = Optimizer("SGD", settings, self.way).build([weight])
        seen = []
        for gradient in self.gradients:
            weight.grad = torch.tensor([float(gradient)])
            optimizer.step()
            seen.append((weight.item(), float(optimizer.state[weight]["momentum_buffer"])))
        return seen

    @property
    def due(self) -> list[tuple[float, float]]:
        """The same from the sum in which each gradient has lost half at every later step; exact for a few of them."""
        weight, due = 0.0, []
        for count, gradient in enumerate(self.gradients, start=1):
            buffer = sum(each * 0.5**age for age, each in enumerate(reversed(self.gradients[:count])))
            weight -= 0.25 * (gradient + 0.5 * buffer if self.nesterov else buffer)
            due.append((weight, buffer))
        return due


momenta = st.builds(
    Momentum,
    st.lists(st.integers(-9, 9), min_size=1, max_size=6).map(tuple),
    st.booleans(),
    st.sampled_from(Way),
)
