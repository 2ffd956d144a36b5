"""Reverse-mode differentiation of the algorithms of ``reference.scalars``, one number at a time.

Every number that an algorithm makes remembers what it was made of and how its own gradient is passed on to
that: the chain rule, and nothing about matrices. Run over counting numbers, the backward pass counts itself.

Three ways of passing a gradient on, each the derivative of a way of making the number:

- A sum moves its gradient to each of its terms. The first gradient to arrive is put there, every further one is added.
- A product, a quotient or a function multiplies its gradient, and the result arrives in the same way.
- A multiply-add moves its gradient to the running total, and to each factor it adds the product with the other factor,
  again as a multiply-add, into a gradient that begins at zero.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from reference.scalars import (
    Array,
    Number,
    Operations,
    Scalar,
    counted,
    erf,
    exp,
    filled,
    log,
    multiply_add,
    plain,
    sqrt,
    square,
    tanh,
)

Passing = Callable[[Scalar], Scalar]
"""From the gradient of a number to its share in the gradient of something that it was made of."""


class Tape:
    """The numbers that need a gradient, in the order in which they were made."""

    def __init__(self) -> None:
        self.made: list[Variable] = []

    def variables(self, array: Array) -> Array:
        """The same numbers, each of which needs a gradient."""
        made = [Variable(self, value, needs_gradient=True) for value in array.flat]
        self.made += made
        return filled(made, array.shape, array.size)

    def constants(self, array: Array) -> Array:
        """The same numbers, none of which needs a gradient."""
        return filled((Variable(self, value) for value in array.flat), array.shape, array.size)

    def back(self) -> None:
        """Pass every gradient on, from the last number made to the first."""
        for variable in reversed(self.made):
            if variable.gradient is not None:
                variable.pass_on()


class Variable(Number):
    """A number on a tape: its value, whether it needs a gradient, and how that is passed on.

    It needs one where something that it was made of does. It can be combined with the variables of its tape,
    and with Python's numbers, which are constants.
    """

    __slots__ = ("factors", "gradient", "needs_gradient", "sources", "tape", "value")

    def __init__(self, tape: Tape, value: Scalar, needs_gradient: bool = False) -> None:
        self.tape = tape
        self.value = value
        self.needs_gradient = needs_gradient
        self.gradient: Scalar = None
        self.sources: tuple[tuple[Variable, Passing], ...] = ()
        self.factors: tuple[tuple[Variable, Scalar], ...] = ()

    def __repr__(self) -> str:
        return f"Variable({self.value!r})"

    def like(self, value: Scalar) -> Variable:
        inner = self.value
        made = Variable(self.tape, inner.like(value) if isinstance(inner, Number) else value, self.needs_gradient)
        if made.needs_gradient:
            self.tape.made.append(made)
        return made

    def pass_on(self) -> None:
        """Give what this number was made of its share of the gradient."""
        for source, passing in self.sources:
            share = passing(self.gradient)
            source.gradient = share if source.gradient is None else source.gradient + share
        for source, factor in self.factors:
            total = 0 if source.gradient is None else source.gradient
            source.gradient = multiply_add(total, self.gradient, factor)

    def _made(self, value: Scalar, *sources: tuple[Scalar, Passing]) -> Variable:
        made = Variable(self.tape, value)
        made.sources = tuple((each, passing) for each, passing in sources if _needs_gradient(each))
        return made._taped()

    def _taped(self) -> Variable:
        if self.sources or self.factors:
            self.needs_gradient = True
            self.tape.made.append(self)
        return self

    def __add__(self, other: Scalar) -> Variable:
        return self._made(self.value + primal(other), (self, _moved), (other, _moved))

    __radd__ = __add__

    def __sub__(self, other: Scalar) -> Variable:
        return self._made(self.value - primal(other), (self, _moved), (other, operator.neg))

    def __rsub__(self, other: Scalar) -> Variable:
        return self._made(other - self.value, (self, operator.neg))

    def __mul__(self, other: Scalar) -> Variable:
        x, y = self.value, primal(other)
        return self._made(x * y, (self, lambda gradient: gradient * y), (other, lambda gradient: gradient * x))

    __rmul__ = __mul__

    def __truediv__(self, other: Scalar) -> Variable:
        y = primal(other)
        quotient = self.value / y
        return self._made(
            quotient,
            (self, lambda gradient: gradient / y),
            (other, lambda gradient: -(gradient * quotient / y)),
        )

    def __rtruediv__(self, other: Scalar) -> Variable:
        x = self.value
        quotient = other / x
        return self._made(quotient, (self, lambda gradient: -(gradient * quotient / x)))

    def __neg__(self) -> Variable:
        return self._made(-self.value, (self, operator.neg))

    def __gt__(self, other: Scalar) -> bool:
        return bool(self.value > primal(other))

    def __lt__(self, other: Scalar) -> bool:
        return bool(self.value < primal(other))

    def multiply_add(self, total: Scalar, factor: Scalar) -> Variable:
        x, y = self.value, primal(factor)
        made = Variable(self.tape, multiply_add(primal(total), x, y))
        if _needs_gradient(total):
            made.sources = ((total, _moved),)
        if self.needs_gradient:
            made.factors = ((self, y),)
        if _needs_gradient(factor):
            made.factors += ((factor, x),)
        return made._taped()

    def square(self) -> Variable:
        x = self.value
        return self._made(square(x), (self, lambda gradient: gradient * (2 * x)))

    def exp(self) -> Variable:
        power = exp(self.value)
        return self._made(power, (self, lambda gradient: gradient * power))

    def log(self) -> Variable:
        x = self.value
        return self._made(log(x), (self, lambda gradient: gradient / x))

    def sqrt(self) -> Variable:
        root = sqrt(self.value)
        return self._made(root, (self, lambda gradient: gradient / (2 * root)))

    def tanh(self) -> Variable:
        y = tanh(self.value)
        return self._made(y, (self, lambda gradient: gradient * (1 - square(y))))

    def erf(self) -> Variable:
        x = self.value
        slope = 2 / math.sqrt(math.pi)
        return self._made(erf(x), (self, lambda gradient: gradient * (slope * exp(-square(x)))))


def primal(number: Scalar) -> Scalar:
    """The value of a variable; anything else as it is."""
    return number.value if isinstance(number, Variable) else number


def _needs_gradient(number: Scalar) -> bool:
    return isinstance(number, Variable) and number.needs_gradient


def _moved(gradient: Scalar) -> Scalar:
    return gradient


# ── whole algorithms ──


@dataclass(frozen=True, eq=False)
class Derivative:
    """What a forward and a backward pass gave, and what each of them did.

    ``gradients`` has one array an operand, of its shape, and None for an operand that needs none. What
    nothing arrived at has a gradient of zero.
    """

    value: Array
    gradients: tuple[Array | None, ...]
    forward: Operations
    backward: Operations


def differentiate(
    algorithm: Callable[..., Any],
    *operands: Any,
    trained: Sequence[bool] | None = None,
    output_gradient: Array | None = None,
    **conventions: Any,
) -> Derivative:
    """The output of ``algorithm`` and its derivative by the operands, on counting numbers.

    ``trained`` says of each operand whether it needs a gradient; without it all arrays of numbers do.
    Operands that are no arrays are handed on as they are. ``output_gradient`` has the output's shape; without
    it the output is a single number whose gradient is one. Raises ValueError where the output is no single
    number and no gradient of it is given.
    """
    done = Operations()
    tape = Tape()
    wanted = [isinstance(each, np.ndarray) for each in operands] if trained is None else list(trained)
    given = [
        _operand(tape, each, done, wants) if isinstance(each, np.ndarray) else each
        for each, wants in zip(operands, wanted, strict=True)
    ]
    output = np.asarray(algorithm(*given, **conventions), dtype=object)
    forward = replace(done)
    if output_gradient is None and output.ndim:
        raise ValueError(f"the output has shape {output.shape}: give its gradient, or reduce it to one number")
    arriving = counted(np.ones(()) if output_gradient is None else output_gradient, done)
    for made, gradient in zip(output.flat, arriving.flat, strict=True):
        if _needs_gradient(made):
            made.gradient = gradient if made.gradient is None else made.gradient + gradient
    tape.back()
    gradients = tuple(_gradient(each) if wants else None for each, wants in zip(given, wanted, strict=True))
    output_value = _plain(map(primal, output.flat), output.shape)
    return Derivative(output_value, gradients, forward, done - forward)


def _operand(tape: Tape, array: Array, done: Operations, wants: bool) -> Array:
    numbers = counted(array, done)
    return tape.variables(numbers) if wants else tape.constants(numbers)


def _gradient(variables: Array) -> Array:
    return _plain((0 if each.gradient is None else each.gradient for each in variables.flat), variables.shape)


def _plain(numbers: Iterable[Scalar], shape: tuple[int, ...]) -> Array:
    return np.array([plain(number) for number in numbers]).reshape(shape)


def central_differences(
    algorithm: Callable[..., Scalar], *operands: Array, operand: int = 0, step: Scalar = 2.0**-13
) -> Array:
    """The derivative of a single number by one of the operands, without the chain rule.

    Every element is moved up and down by ``step``, in ordinary numbers. Of a polynomial of degree two this is
    the exact derivative, but for rounding, and with fractions or whole numbers exactly.
    """
    slopes = []
    for place in np.ndindex(operands[operand].shape):
        ends = []
        for moved in (step, -step):
            array = operands[operand].astype(object)
            array[place] += moved
            ends.append(algorithm(*operands[:operand], array, *operands[operand + 1 :]))
        slopes.append((ends[0] - ends[1]) / (2 * step))
    return np.array(slopes).reshape(operands[operand].shape)
