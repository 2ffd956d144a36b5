"""Plans of training runs, and small steps whose FLOPs, with and without recomputation, are known."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

import torch
from hypothesis import strategies as st
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils import checkpoint

from properties.strategies.description import Description
from properties.strategies.meta import meta
from reference import planner
from reference.planner import ImpossibleNumber, Peak, Recomputation, Sparsity, Work

# ── a step that recomputes ──


class Checkpointing(Enum):
    """What of the forward pass is kept for the backward pass."""

    OFF = "everything"
    REENTRANT = "the input, and the forward pass is done again"
    NON_REENTRANT = "the input, and the forward pass is done again as far as it is needed"

    def __repr__(self) -> str:
        return f"Checkpointing.{self.name}"


@dataclass(frozen=True, repr=False)
class Step(Description):
    """A forward and a backward pass of two and more bias-free linear layers on the meta device."""

    rows: int
    widths: tuple[int, ...]
    checkpointing: Checkpointing

    @property
    def recomputes(self) -> bool:
        """Whether anything is done again: the first layer's output has to be, since the second keeps it."""
        return self.checkpointing is not Checkpointing.OFF

    def run(self) -> None:
        """Both passes; the input requires a gradient."""
        x = meta(self.rows, self.widths[0]).requires_grad_()
        weights = [meta(*shape).requires_grad_() for shape in itertools.pairwise(self.widths)]

        def forward(x: Float[Tensor, "rows features"]) -> Float[Tensor, "rows outputs"]:
            for weight in weights:
                x = x @ weight
            return x

        if self.checkpointing is Checkpointing.OFF:
            y = forward(x)
        else:
            reentrant = self.checkpointing is Checkpointing.REENTRANT
            y = checkpoint.checkpoint(forward, x, use_reentrant=reentrant)
        y.backward(torch.empty_like(y))  # type: ignore[no-untyped-call]


@st.composite
def _steps(draw: st.DrawFn, kinds: tuple[Checkpointing, ...]) -> Step:
    widths = tuple(draw(st.integers(1, 6)) for _ in range(draw(st.integers(3, 5))))
    return Step(draw(st.integers(1, 5)), widths, draw(st.sampled_from(kinds)))


def plain_steps() -> st.SearchStrategy[Step]:
    """Steps that keep everything."""
    return _steps((Checkpointing.OFF,))


def checkpointed_steps() -> st.SearchStrategy[Step]:
    """Steps that do some of their forward pass again."""
    return _steps((Checkpointing.REENTRANT, Checkpointing.NON_REENTRANT))


# ── runs ──


@dataclass(frozen=True, repr=False)
class Run(Description):
    """A training run: its size, and the cluster it is planned for.

    ``utilisation`` is the MFU in hundredths, ``teraflops`` the dense peak of one device.
    """

    parameters: int
    tokens: int
    devices: int
    teraflops: int
    utilisation: int

    @property
    def work(self) -> Work:
        """Its FLOPs by the rule of thumb, nothing done twice."""
        return planner.training_work(self.parameters, self.tokens, Recomputation.NONE)

    @property
    def peak(self) -> Peak:
        """The dense peak of one device."""
        return Peak(self.teraflops * 10**12, Sparsity.DENSE)

    @property
    def mfu(self) -> Fraction:
        """The model FLOPs utilisation."""
        return Fraction(self.utilisation, 100)

    def days(self, devices: int | None = None) -> Fraction:
        """Days on its own devices, or on as many as are given."""
        chosen = self.devices if devices is None else devices
        days: Fraction = planner.training_days(self.work, peak=self.peak, devices=chosen, mfu=self.mfu)
        return days


def runs() -> st.SearchStrategy[Run]:
    """Runs from a million parameters to ten trillion, on one device up to 100,000."""
    return st.builds(
        Run,
        st.integers(10**6, 10**13),
        st.integers(10**6, 10**14),
        st.integers(1, 10**5),
        st.integers(1, 10**4),
        st.integers(1, 100),
    )


# ── numbers that no plan can have ──


class Impossible(Enum):
    """A number that is no amount of anything, as it stands in a plan."""

    ZERO = 0
    NEGATIVE = -1
    NOT_A_NUMBER = float("nan")
    INFINITE = float("inf")

    def __repr__(self) -> str:
        return f"Impossible.{self.name}"


_PEAK = Peak(10**15, Sparsity.DENSE)
SPARSE_PEAK = Peak(2 * 10**15, Sparsity.STRUCTURED_2_4)
QUANTITIES: dict[str, Callable[[float], object]] = {
    "a peak": lambda bad: Peak(bad, Sparsity.DENSE),
    "devices": lambda bad: planner.flops_per_day(peak=_PEAK, devices=bad, mfu=0.5),
    "MFU": lambda bad: planner.flops_per_day(peak=_PEAK, devices=1, mfu=bad),
    "model FLOPs": lambda bad: planner.mfu(Work(bad), seconds=1, peak=_PEAK, devices=1),
    "seconds": lambda bad: planner.mfu(Work(1), seconds=bad, peak=_PEAK, devices=1),
    "days": lambda bad: planner.devices_needed(Work(1), peak=_PEAK, days=bad, mfu=0.5),
    "parameters": lambda bad: planner.training_work(bad, 1, Recomputation.NONE),
    "tokens": lambda bad: planner.training_work(1, bad, Recomputation.NONE),
}
"""Each number that a plan takes, by the name that its error has, and a plan in which it is bad."""


def refusal(quantity: str, bad: Impossible) -> str:
    """What a plan says of an impossible number in the place of ``quantity``; nothing where it takes it."""
    try:
        QUANTITIES[quantity](bad.value)
    except ImpossibleNumber as error:
        return str(error)
    return ""


# ── which weights a token meets ──


@dataclass(frozen=True, repr=False)
class Mixture(Description):
    """Tokens through an embedding, experts of which each token has its own, and an output layer.

    Token t goes to experts t, t + 1 and so on, around, ``active`` of them. With a ``vocabulary`` of 0 there
    is no embedding: every token is a vector of its own.
    """

    vocabulary: int
    width: int
    experts: int
    active: int
    tokens: tuple[int, ...]

    @property
    def meets_everything(self) -> bool:
        """Whether no row of the embedding and no expert is left out by any token."""
        return self.vocabulary <= 1 and self.active == self.experts

    @property
    def parameters(self) -> int:
        """All weights."""
        return self.width * self.vocabulary + (self.experts + 1) * self.width**2

    @property
    def active_parameters(self) -> int:
        """Weights that one token meets: its own row, its experts, the output layer."""
        return self.width * min(self.vocabulary, 1) + (self.active + 1) * self.width**2

    def encounters(self) -> int:
        """How many pairs of a weight and a token there are in which the token's output depends on the weight.

        All numbers are positive, so that no two ways through the network cancel.
        """
        width = self.width
        shapes = [(max(self.vocabulary, 1), width), *[(width, width)] * (self.experts + 1)]
        weights = [_positive(shape).requires_grad_() for shape in shapes]
        table, *experts, head = weights
        met = 0
        for token in self.tokens:
            x = nn.functional.embedding(torch.tensor(token), table) if self.vocabulary else _positive((width,))
            chosen = [experts[(token + step) % self.experts] for step in range(self.active)]
            output = sum((x @ expert for expert in chosen), torch.zeros(width)) @ head
            gradients = torch.autograd.grad(output.sum(), weights, allow_unused=True)
            given: tuple[Tensor | None, ...] = gradients
            met += sum(int(each.count_nonzero()) for each in given if each is not None)
        return met


def _positive(shape: tuple[int, ...]) -> Float[Tensor, "..."]:
    return torch.rand(shape, generator=torch.Generator().manual_seed(0)) + 1


@st.composite
def _mixtures(draw: st.DrawFn, vocabularies: tuple[int, ...], fewest_idle: int, most_idle: int) -> Mixture:
    vocabulary, idle = draw(st.sampled_from(vocabularies)), draw(st.integers(fewest_idle, most_idle))
    active = draw(st.integers(1, 3))
    token = st.integers(0, max(vocabulary, 1) - 1)
    tokens = tuple(draw(token) for _ in range(draw(st.integers(1, 4))))
    return Mixture(vocabulary, draw(st.integers(1, 5)), active + idle, active, tokens)


def dense_models() -> st.SearchStrategy[Mixture]:
    """Models of which every weight takes part for every token."""
    return _mixtures((0, 1), 0, 0)


def sparse_models() -> st.SearchStrategy[Mixture]:
    """Models with rows of an embedding or with experts that a token leaves out."""
    return st.one_of(_mixtures((2, 3, 7), 0, 2), _mixtures((0, 1), 1, 3))
