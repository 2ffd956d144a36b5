"""AdamW by its update equations, one number at a time, and how far rounding may take it.

The equations are those of Loshchilov and Hutter, "Decoupled weight decay regularization" (2019), in the form that
https://pytorch.org/docs/1.10/generated/torch.optim.AdamW.html gives them: the decay is the rate times the coefficient.
The largest second moment of amsgrad is taken of the moments as they are, and their bias corrected afterwards. The
moments' recurrences are also taken exactly, in fractions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt


@dataclass(frozen=True)
class Settings:
    """What AdamW is told."""

    learning_rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 1e-2
    amsgrad: bool = False
    maximize: bool = False


@dataclass(frozen=True)
class State:
    """One weight and what is kept for it; ``steps`` is how many have been made."""

    weight: float
    first: float = 0.0
    second: float = 0.0
    largest: float = 0.0
    steps: int = 0


def step(state: State, gradient: float, settings: Settings) -> State:
    """The state after one more gradient."""
    steps = state.steps + 1
    if settings.maximize:
        gradient = -gradient
    weight = state.weight - settings.learning_rate * settings.weight_decay * state.weight
    first = settings.beta1 * state.first + (1 - settings.beta1) * gradient
    second = settings.beta2 * state.second + (1 - settings.beta2) * gradient**2
    largest = max(state.largest, second)
    unbiased_first = first / (1 - settings.beta1**steps)
    unbiased_second = (largest if settings.amsgrad else second) / (1 - settings.beta2**steps)
    weight = weight - settings.learning_rate * unbiased_first / (sqrt(unbiased_second) + settings.eps)
    return State(weight, first, second, largest, steps)


def run(weight: float, gradients: Sequence[float], settings: Settings) -> list[State]:
    """The state after each gradient."""
    states = [State(weight)]
    for gradient in gradients:
        states.append(step(states[-1], gradient, settings))
    return states[1:]


# ── the moving averages, exactly ──


def moving_average(values: Sequence[Fraction], beta: Fraction) -> Fraction:
    """beta times the average before, plus (1 - beta) times each value in turn, from zero."""
    average = Fraction(0)
    for value in values:
        average = beta * average + (1 - beta) * value
    return average


def weighted_sum(values: Sequence[Fraction], beta: Fraction) -> Fraction:
    """The same written out: each value times (1 - beta) and a power of beta for every value after it."""
    return sum(((1 - beta) * beta**age * value for age, value in enumerate(reversed(values))), Fraction(0))


# ── how far rounding may take it ──


def first_moment_bound(gradients: Sequence[float], unit: float) -> float:
    """The most by which arithmetic of unit roundoff ``unit`` is off the first moment.

    A step m + (1 - beta) * (g - m) rounds four times (the factor, the difference, the product, the sum), numbers of at
    most twice the largest gradient: 7 units of it, and an eighth for what is of second order.
    """
    return 8 * len(gradients) * unit * max(abs(gradient) for gradient in gradients)


def second_moment_share(steps: int, unit: float) -> float:
    """The same for the second moment, as a share of it: every term is positive, so that shares add.

    A step rounds six times: both factors, three products and the sum; a seventh is for what is of second order.
    """
    return 7 * steps * unit


def weight_bound(weight: float, gradients: Sequence[float], settings: Settings, unit: float) -> float:
    """The same for the weight, after all gradients.

    Each step adds: three roundings of the weight; of the update its own eight and half the share of the second moment;
    and what the first moment is off, times what it is multiplied by.
    """
    total = 0.0
    before = State(weight)
    for count, state in enumerate(run(weight, gradients, settings), start=1):
        second = state.largest if settings.amsgrad else state.second
        divisor = sqrt(second / (1 - settings.beta2**count)) + settings.eps
        rate = settings.learning_rate / (1 - settings.beta1**count) / divisor
        update = rate * abs(state.first)
        total += 3 * unit * (abs(before.weight) + abs(state.weight))
        total += update * (8 * unit + second_moment_share(count, unit) / 2)
        total += rate * first_moment_bound(gradients[:count], unit)
        before = state
    return 2 * total
