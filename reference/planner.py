"""Planning a training run: FLOPs, days, devices, utilisation, and the largest model that a cluster trains.

Everything is a pure function in exact fractions. Units stand in the names: FLOPs are operations,
``flops_per_second`` is a rate, a day has 86,400 seconds, a byte is a byte. What can be counted in two ways is
a type, and has to be said:

- which parameters are counted (``ParametersCounted``), and how much of attention (``AttentionCounted``);
- whether a peak is dense or assumes 2:4 sparsity (``Peak``): plans and utilisations take dense ones;
- what is done again in the backward pass (``Recomputation``): it is part of the hardware's FLOPs and not of the
  model's, so HFU counts it and MFU does not (``Work``).

A number that cannot be what it is called raises ``ImpossibleNumber``. SymPy symbols are taken as they are,
and then the result is the formula.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any

Number = Any
"""A whole number, a float, a fraction or a symbol; results are exact fractions, or symbols."""

SECONDS_PER_DAY = 86_400


class PlannerError(ValueError):
    """A plan that cannot be made from what is given."""


class ImpossibleNumber(PlannerError):
    """A number that is zero, negative, not finite or beyond what its name allows."""


class SparsePeakError(PlannerError):
    """A peak with sparsity where a dense one is asked for."""


# ── numbers that can be what they are called ──


def _positive(name: str, number: Number) -> Number:
    """``number`` exactly; ImpossibleNumber unless it is finite and above zero."""
    if hasattr(number, "free_symbols"):
        return number
    if isinstance(number, bool) or not isinstance(number, (int, float, Fraction)):
        raise ImpossibleNumber(f"{name} is {number!r}, which is no number: give an int, a float or a Fraction")
    if not math.isfinite(number) or number <= 0:
        raise ImpossibleNumber(f"{name} is {number!r}: it has to be finite and above zero")
    return Fraction(number)


def _none_or_more(name: str, number: Number) -> Number:
    """``number`` exactly; ImpossibleNumber unless it is finite and not below zero."""
    is_zero = not isinstance(number, bool) and isinstance(number, (int, float, Fraction)) and number == 0
    return Fraction(0) if is_zero else _positive(name, number)


def _share(name: str, number: Number) -> Number:
    """``number`` exactly; ImpossibleNumber unless it is above zero and at most one."""
    share = _positive(name, number)
    if isinstance(share, Fraction) and share > 1:
        raise ImpossibleNumber(
            f"{name} is {float(share):.4g}, and cannot be above 1: compare FLOPs with FLOPs (not with multiply-adds), "
            "take the peak of the same number format, and count every device"
        )
    return share


# ── conventions ──


class Sparsity(Enum):
    """What a datasheet's peak assumes of the operands."""

    DENSE = "nothing"
    STRUCTURED_2_4 = "two zeros among any four neighbouring weights, which are skipped, for twice the dense rate"

    def __repr__(self) -> str:
        return f"Sparsity.{self.name}"


@dataclass(frozen=True)
class Peak:
    """The arithmetic rate of one device in one number format, as its maker states it."""

    flops_per_second: Number
    sparsity: Sparsity

    def __post_init__(self) -> None:
        _positive("a peak in FLOP/s", self.flops_per_second)

    def dense(self) -> Peak:
        """The same device's rate on operands of which nothing is assumed."""
        if self.sparsity is Sparsity.DENSE:
            return self
        return Peak(_positive("a peak in FLOP/s", self.flops_per_second) / 2, Sparsity.DENSE)


def _dense(peak: Peak) -> Number:
    if peak.sparsity is not Sparsity.DENSE:
        raise SparsePeakError(
            f"{float(peak.flops_per_second):.4g} FLOP/s is a peak with 2:4 sparsity, twice what dense work can reach: "
            "use peak.dense()"
        )
    return _positive("a peak in FLOP/s", peak.flops_per_second)


class Recomputation(Enum):
    """How much of the forward pass is done once more during the backward pass, to save memory."""

    NONE = Fraction(0)
    FULL = Fraction(1)

    def __repr__(self) -> str:
        return f"Recomputation.{self.name}"


class ParametersCounted(Enum):
    """Which parameters a rule of so many FLOPs a parameter and token is applied to."""

    ALL = "all, the input embedding included, a tied matrix once"
    MULTIPLIED = "those that take part in a matrix product: the blocks' and the output projection's"
    BLOCKS = "the blocks' alone"

    def __repr__(self) -> str:
        return f"ParametersCounted.{self.name}"


class AttentionCounted(Enum):
    """How much of the work between queries and keys is added to the rule."""

    NONE = "none: the rule of thumb"
    CAUSAL = "the half that a causal mask leaves: each token sees itself and what stands before it"
    FULL = "all of it, as a kernel does that computes what the mask then hides"

    def __repr__(self) -> str:
        return f"AttentionCounted.{self.name}"


# ── FLOPs ──


@dataclass(frozen=True)
class Parameters:
    """A decoder's parameters by part; with a tied output projection that part is zero."""

    blocks: Number
    input_embedding: Number
    output_projection: Number = 0

    def counted(self, which: ParametersCounted) -> Number:
        """How many there are by one convention."""
        blocks = _positive("the blocks' parameters", self.blocks)
        embedding = _none_or_more("the input embedding's parameters", self.input_embedding)
        projection = _none_or_more("the output projection's parameters", self.output_projection)
        if which is ParametersCounted.BLOCKS:
            return blocks
        if which is ParametersCounted.MULTIPLIED:
            return blocks + (embedding if projection == 0 else projection)
        return blocks + embedding + projection


@dataclass(frozen=True)
class Attention:
    """The attention of a decoder: layers, heads times the width of one, and tokens in a sequence."""

    layers: Number
    width: Number
    context: Number

    def forward_flops_per_token(self, counted: AttentionCounted) -> Number:
        """FLOPs of the scores and of the weighted sums, averaged over a sequence."""
        layers, width = _positive("layers", self.layers), _positive("the attention width", self.width)
        context = _positive("the context", self.context)
        if counted is AttentionCounted.NONE:
            return 0 * context
        if counted is AttentionCounted.CAUSAL:
            return 2 * layers * width * (context + 1)
        return 4 * layers * width * context


@dataclass(frozen=True)
class Work:
    """FLOPs of a run: the model's own, and what was done again to save memory."""

    model_flops: Number
    recomputed_flops: Number = 0

    @property
    def hardware_flops(self) -> Number:
        """Everything that the devices did."""
        return _positive("model FLOPs", self.model_flops) + _none_or_more("recomputed FLOPs", self.recomputed_flops)


def forward_flops(parameters: Number, tokens: Number) -> Number:
    """FLOPs of the forward pass by the rule of thumb: 2 for each parameter and token."""
    return 2 * _positive("parameters", parameters) * _positive("tokens", tokens)


def backward_flops(parameters: Number, tokens: Number) -> Number:
    """FLOPs of the backward pass by the rule of thumb: 4 for each parameter and token."""
    return 4 * _positive("parameters", parameters) * _positive("tokens", tokens)


def training_work(parameters: Number, tokens: Number, recomputation: Recomputation) -> Work:
    """FLOPs of training by the rule of thumb, and what of the forward pass is done again."""
    forward = forward_flops(parameters, tokens)
    return Work(forward + backward_flops(parameters, tokens), recomputation.value * forward)


def training_flops_per_token(
    parameters: Parameters, attention: Attention, which: ParametersCounted, counted: AttentionCounted
) -> Number:
    """FLOPs of a decoder's forward and backward pass for a token: the backward takes twice the forward."""
    return 3 * (2 * parameters.counted(which) + attention.forward_flops_per_token(counted))


# ── time and devices ──


def flops_per_day(*, peak: Peak, devices: Number, mfu: Number) -> Number:
    """The model's FLOPs that a cluster gets done in a day."""
    return _dense(peak) * _share("MFU", mfu) * _positive("devices", devices) * SECONDS_PER_DAY


def training_days(work: Work, *, peak: Peak, devices: Number, mfu: Number) -> Number:
    """Days that a cluster takes for the model's FLOPs."""
    return _positive("model FLOPs", work.model_flops) / flops_per_day(peak=peak, devices=devices, mfu=mfu)


def devices_needed(work: Work, *, peak: Peak, days: Number, mfu: Number) -> int:
    """The fewest devices that take at most ``days`` for the model's FLOPs."""
    devices: int = math.ceil(training_days(work, peak=peak, devices=1, mfu=mfu) / _positive("days", days))
    return devices


def mfu(work: Work, *, seconds: Number, peak: Peak, devices: Number) -> Number:
    """Model FLOPs utilisation: the model's own FLOPs over what the devices' dense peaks allow in that time.

    Raises ImpossibleNumber above 1.
    """
    return _utilisation("MFU", _positive("model FLOPs", work.model_flops), seconds, peak, devices)


def hfu(work: Work, *, seconds: Number, peak: Peak, devices: Number) -> Number:
    """Hardware FLOPs utilisation: the same with what was recomputed. Raises ImpossibleNumber above 1."""
    return _utilisation("HFU", work.hardware_flops, seconds, peak, devices)


def _utilisation(name: str, flops: Number, seconds: Number, peak: Peak, devices: Number) -> Number:
    possible = _dense(peak) * _positive("devices", devices) * _positive("seconds", seconds)
    return _share(name, flops / possible)


# ── the largest model ──


def largest_model_in_memory(*, devices: Number, bytes_per_device: Number, bytes_per_parameter: Number) -> int:
    """The most parameters whose weights, gradients and optimizer state fit, shared out without a copy.

    Activations are left out. Raises ImpossibleNumber where not one parameter fits.
    """
    memory = _positive("devices", devices) * _positive("bytes of a device", bytes_per_device)
    return _at_least_one(memory / _positive("bytes of a parameter", bytes_per_parameter))


def largest_model_in_time(*, tokens: Number, days: Number, peak: Peak, devices: Number, mfu: Number) -> int:
    """The most parameters that the rule of thumb lets a cluster train on ``tokens`` within ``days``.

    Raises ImpossibleNumber where there is no time for one.
    """
    flops = flops_per_day(peak=peak, devices=devices, mfu=mfu) * _positive("days", days)
    return _at_least_one(flops / training_work(1, tokens, Recomputation.NONE).model_flops)


def _at_least_one(parameters: Number) -> int:
    if parameters < 1:
        raise ImpossibleNumber(
            f"there is room for {float(parameters):.3g} parameters, less than one: give more devices, memory or days"
        )
    whole: int = math.floor(parameters)
    return whole
