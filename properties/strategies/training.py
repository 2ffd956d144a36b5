"""What to train and with what, of which memory is asked: networks, parameters without one, optimizers, whole steps."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache, cached_property, partial
from random import Random
from typing import Any

import torch
import torch.utils.checkpoint
from hypothesis import strategies as st
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn import functional as F

from properties.instruments import memory
from properties.instruments.kernels import import_kernels
from properties.instruments.saved import apart_from, saved_for_backward
from properties.refusals import refused
from properties.strategies import transformers
from properties.strategies.description import Description
from properties.strategies.networks import Activation, Mlp, new_optimizer
from properties.strategies.transformers import Attention
from reference import memory as predicted
from reference.memory import Keeps, Shape
from reference.transformer import Biases, Decoder, FeedForward, Norm, Positions, Projection

FORMATS = (torch.float32, torch.bfloat16, torch.float64)
"""Formats that every optimizer steps in, the usual one first."""

# ── optimizers ──


class Way(Enum):
    """How a step goes through the parameters."""

    ONE_BY_ONE = (("foreach", False),)
    GROUPED = (("foreach", True),)
    FUSED = (("fused", True),)

    def __repr__(self) -> str:
        return f"Way.{self.name}"


Settings = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, repr=False)
class Optimizer(Description):
    """An optimizer by its name in torch.optim, what it is told, and how it steps."""

    name: str = "AdamW"
    settings: Settings = ()
    way: Way = Way.ONE_BY_ONE

    def build(self, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        """The optimizer of these parameters."""
        way = {} if self.name in ("LBFGS", "Muon") else dict(self.way.value)
        import_kernels()
        optimizer: torch.optim.Optimizer = getattr(torch.optim, self.name)(parameters, **dict(self.settings), **way)
        return optimizer

    def on_top(self, shapes: Sequence[Shape]) -> int:
        """Bytes that a step of AdamW in float32 takes while it runs, as predicted; one by one, two numbers too."""
        if self.way is Way.GROUPED:
            return predicted.at_once_bytes("AdamW", shapes, 4)
        return predicted.one_by_one_bytes("AdamW", shapes, 4) + 8

    def kept(self, shapes: tuple[Shape, ...], pairs: int = 0) -> int:
        """Numbers that it is predicted to keep."""
        return predicted.optimizer_state(self.name, dict(self.settings), shapes, pairs)


VARIANTS: Mapping[str, tuple[Settings, ...]] = {
    "AdamW": ((), (("amsgrad", True),)),
    "SGD": ((("momentum", 0.9),), (), (("momentum", 0.9), ("nesterov", True))),
    "Adam": ((), (("amsgrad", True),)),
    "RMSprop": ((), (("momentum", 0.9),), (("centered", True),), (("centered", True), ("momentum", 0.9))),
    "Adagrad": ((),),
    "Adadelta": ((),),
    "Adafactor": ((),),
    "Adamax": ((),),
    "ASGD": ((),),
    "LBFGS": tuple((("history_size", size), ("lr", 0.1), ("max_iter", 2)) for size in (1, 2, 3)),
    "Muon": ((),),
    "NAdam": ((),),
    "RAdam": ((),),
    "Rprop": ((),),
}
"""Every optimizer that steps on dense gradients, with the settings that change what it keeps."""
HERE = {name: variants for name, variants in VARIANTS.items() if hasattr(torch.optim, name)}
SINGLE_NUMBERS = frozenset({"step", "eta", "mu", "mu_product", "ro", "al", "H_diag"})
"""State of one number a tensor or a group: counters and factors."""


# ── parameters and their updates ──


@dataclass(frozen=True, repr=False)
class Weights(Description):
    """Parameters of these shapes; those whose place is in ``idle`` never get a gradient."""

    shapes: tuple[Shape, ...]
    dtype: torch.dtype = torch.float32
    idle: tuple[int, ...] = ()

    @property
    def sizes(self) -> list[int]:
        """Numbers of each parameter."""
        return [math.prod(shape) for shape in self.shapes]

    @property
    def numbers(self) -> int:
        """Numbers of all parameters."""
        return sum(self.sizes)

    def build(self, seed: int = 0) -> list[nn.Parameter]:
        """Normal numbers."""
        generator = torch.Generator().manual_seed(seed)
        return [nn.Parameter(torch.randn(shape, generator=generator).to(self.dtype)) for shape in self.shapes]


@dataclass(frozen=True)
class Updated:
    """Parameters after some steps, and their optimizer."""

    parameters: list[nn.Parameter]
    optimizer: torch.optim.Optimizer

    def state(self, parameter: nn.Parameter) -> dict[str, Any]:
        """What is kept for one parameter; LBFGS keeps everything with the first."""
        return dict(self.optimizer.state.get(parameter, {}))

    def numbers(self, parameter: nn.Parameter) -> list[Shaped[Tensor, "..."]]:
        """The tensors kept for a parameter, without those of a single number."""
        kept = [_list(value) for name, value in self.state(parameter).items() if name not in SINGLE_NUMBERS]
        return [each for values in kept for each in values if isinstance(each, Tensor)]

    @property
    def everything(self) -> list[Shaped[Tensor, "..."]]:
        """The same of all parameters."""
        return [each for parameter in self.parameters for each in self.numbers(parameter)]

    @property
    def pairs(self) -> int:
        """Pairs of steps and changes that LBFGS has stored."""
        return len(self.state(self.parameters[0]).get("old_dirs", ()))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


@dataclass(frozen=True, repr=False)
class Update(Description):
    """Some steps of an optimizer on some parameters: LBFGS towards a minimum, the others along gradients of ones."""

    weights: Weights
    optimizer: Optimizer
    steps: int = 1

    def run(self) -> Updated:
        """Make the steps."""
        parameters = self.weights.build()
        moved = [each for place, each in enumerate(parameters) if place not in self.weights.idle]
        optimizer = self.optimizer.build(parameters)

        def loss() -> Any:
            optimizer.zero_grad()
            total = sum((((each + 1) ** 4).sum() for each in moved), start=torch.zeros(()))
            total.backward()  # type: ignore[no-untyped-call]
            return total

        for _ in range(self.steps):
            if self.optimizer.name == "LBFGS":
                optimizer.step(loss)
                continue
            for each in moved:
                each.grad = torch.ones_like(each)
            optimizer.step()
        return Updated(parameters, optimizer)

    def step(self) -> memory.Step:
        """One more step after ``steps``, to be accounted for; its gradients are at hand from the start.

        Not for LBFGS, which asks for the loss itself.
        """
        done = self.run()
        network = nn.ParameterList(done.parameters)
        wanted = [each for place, each in enumerate(done.parameters) if place not in self.weights.idle]

        return memory.Step(network, done.optimizer, (), lambda: sum_of(wanted))

    def on_top(self) -> int:
        """Bytes that one more step takes while it runs, single numbers left out, predicted for torch's defaults."""
        grouped = self.optimizer.way is Way.GROUPED and self.optimizer.name != "Muon"
        rule = predicted.at_once_bytes if grouped else predicted.one_by_one_bytes
        return rule(self.optimizer.name, self.weights.shapes, self.weights.dtype.itemsize)


def sum_of(parameters: Sequence[nn.Parameter]) -> Float[Tensor, ""]:
    """A loss of which every gradient is one."""
    return sum((each.sum() for each in parameters), start=torch.zeros(()))


# One draw from many made beforehand is far cheaper than many draws, and discards none.

_SIDES = range(1, 13)
_SHAPES: tuple[Shape, ...] = (
    *((side,) for side in _SIDES),
    *itertools.product(_SIDES, _SIDES),
    *itertools.product(_SIDES, (1, 2, 5, 9), (1, 3, 4)),
    *[()] * 20,
)
_MATRICES = tuple(shape for shape in _SHAPES if len(shape) == 2)


@cache
def _some_weights(shapes: tuple[Shape, ...], idle: bool, most: int) -> tuple[Weights, ...]:
    """Two thousand, from one parameter to ``most``; with ``idle`` some of several have no gradient."""
    chance = Random(0)
    found = []
    for _ in range(2000):
        chosen = tuple(chance.choices(shapes, k=chance.randint(1, most)))
        without = chance.sample(range(len(chosen)), chance.randrange(len(chosen))) if idle else ()
        found.append(Weights(chosen, chance.choice(FORMATS), tuple(sorted(without))))
    return tuple(sorted(found, key=lambda each: (len(each.shapes), each.numbers)))


def weights(shapes: tuple[Shape, ...] = _SHAPES, most: int = 4) -> st.SearchStrategy[Weights]:
    """One to ``most`` parameters, from single numbers to stacks of matrices, in any format."""
    return st.deferred(lambda: st.sampled_from(_some_weights(shapes, False, most)))


idle_weights = st.deferred(lambda: st.sampled_from(_some_weights(_SHAPES, True, 4)))
"""Parameters of which some may get no gradient, one at least does."""


def optimizers(names: tuple[str, ...]) -> st.SearchStrategy[Optimizer]:
    """These optimizers, with settings that change what they keep, one parameter after the other or all at once."""
    ways = (Way.ONE_BY_ONE, Way.GROUPED)
    return st.sampled_from(
        [Optimizer(name, settings, way) for name in names for settings in HERE[name] for way in ways]
    )


_any_optimizers = optimizers(tuple(HERE))
_any_weights, _matrices, _one_parameter = weights(), weights(_MATRICES), weights(most=1)


@st.composite
def updates(draw: st.DrawFn) -> Update:
    """Two to five steps of any optimizer on parameters that it takes."""
    optimizer = draw(_any_optimizers)
    return Update(draw(_matrices if optimizer.name == "Muon" else _any_weights), optimizer, draw(st.integers(2, 5)))


frugal_updates = st.builds(
    Update,
    weights(tuple(shape for shape in _MATRICES if min(shape) > 2)),
    st.sampled_from((Optimizer("SGD"), Optimizer("Adafactor"))),
    st.integers(1, 3),
)
"""Steps of optimizers that keep less than the parameters: plain SGD, or Adafactor on matrices."""


KNOWN = sorted({*predicted.TEMPORARIES, "Rprop", "Muon", "Adafactor"} & set(HERE))
"""Optimizers of which it is known what a step takes on top."""
_BY_NAME: Mapping[str, tuple[tuple[Shape, ...], ...]] = {
    "Muon": (((5, 7), (9, 4)), ((4, 9),)),
    "Adafactor": (((2, 5, 7),), ((7,),)),
}
STEPS_OF_EACH = [
    Update(Weights(shapes), Optimizer(name, (), way))
    for name in KNOWN
    for way in (Way.ONE_BY_ONE, Way.GROUPED)
    for shapes in _BY_NAME.get(name, (((30,), (4, 100)), ((4, 100), (30,))))
]
"""Two steps of each of them in each way: on parameters that grow and that shrink, or on those that it takes."""


UNTOLD = [
    Update(Weights(shapes), Optimizer(name), 0)
    for name in ("AdamW", "Adam", "Adagrad", "Adadelta")
    for shapes in (((30,), (4, 100)), ((4, 100), (30,)))
]
"""First steps of optimizers of which one after the other and all at once differ in what they take on top."""


def step_untold(update: Update) -> memory.Step:
    """The first step of an update whose optimizer is not told how to go through the parameters."""
    parameters = update.weights.build()
    optimizer = new_optimizer(update.optimizer.name, parameters)
    return memory.Step(nn.ParameterList(parameters), optimizer, (), lambda: sum_of(parameters))


def kept_before_any_step(optimizer: Optimizer, shapes: tuple[Shape, ...]) -> int:
    """Numbers that an optimizer keeps before its first step, counters left out."""
    return sum(each.numel() for each in Update(Weights(shapes), optimizer, 0).run().everything)


@st.composite
def steps_with_known_temporaries(draw: st.DrawFn) -> Update:
    """One to three steps of an optimizer at its defaults, of which it is known what a step takes on top."""
    ways = (Way.ONE_BY_ONE, Way.GROUPED)
    optimizer = draw(st.sampled_from([Optimizer(name, (), way) for name in KNOWN for way in ways]))
    fitting = {"Muon": _matrices, "Adafactor": _one_parameter}.get(optimizer.name, _any_weights)
    return Update(draw(fitting), optimizer, draw(st.integers(1, 3)))


def refuses_dense_gradients(name: str) -> bool:
    """Whether an optimizer of torch.optim steps on sparse gradients only."""
    parameter = nn.Parameter(torch.zeros(2))
    parameter.grad = torch.ones(2)
    return refused(RuntimeError, new_optimizer(name, [parameter]).step)


# ── AdamW ──

_ADAMW_SETTINGS: tuple[Settings, ...] = (
    (),
    (("amsgrad", True),),
    (("maximize", True),),
    (("amsgrad", True), ("maximize", True)),
)
_ADAMW = st.sampled_from([Optimizer("AdamW", settings, way) for settings in _ADAMW_SETTINGS for way in Way])


def adamw_updates(steps: tuple[int, ...]) -> st.SearchStrategy[Update]:
    """Steps of AdamW in every way on parameters of which some may be idle."""
    return st.builds(Update, idle_weights, _ADAMW, st.sampled_from(steps))


float32_adamw_updates = st.builds(
    Update,
    _any_weights.map(lambda each: replace(each, dtype=torch.float32)),
    st.sampled_from([Optimizer("AdamW", (), way) for way in Way]),
)
"""A first step of plain AdamW in float32, in every way."""


# ── chains of layers, of which activations are asked ──


class Between(Enum):
    """What stands between two linear layers, and what it keeps for its backward pass."""

    NOTHING = (nn.Identity, Keeps.NOTHING)
    RELU = (nn.ReLU, Keeps.OUTPUT)
    TANH = (nn.Tanh, Keeps.OUTPUT)
    SIGMOID = (nn.Sigmoid, Keeps.OUTPUT)
    GELU = (nn.GELU, Keeps.INPUT)
    SILU = (nn.SiLU, Keeps.INPUT)
    LEAKY_RELU = (nn.LeakyReLU, Keeps.INPUT)
    DROPOUT = (nn.Dropout, Keeps.MASK)
    ELU = (nn.ELU, Keeps.INPUT)
    SOFTPLUS = (nn.Softplus, Keeps.INPUT)
    MISH = (nn.Mish, Keeps.INPUT)
    HARDSWISH = (nn.Hardswish, Keeps.INPUT)
    RELU6 = (nn.ReLU6, Keeps.INPUT)
    SOFTMAX = (partial(nn.Softmax, -1), Keeps.OUTPUT)
    RELU_IN_PLACE = (partial(nn.ReLU, inplace=True), Keeps.OUTPUT)
    LEAKY_RELU_IN_PLACE = (partial(nn.LeakyReLU, inplace=True), Keeps.OUTPUT)
    ELU_IN_PLACE = (partial(nn.ELU, inplace=True), Keeps.OUTPUT)

    @property
    def keeps(self) -> Keeps:
        """What it keeps, by the reference's rule."""
        kept: Keeps = self.value[1]
        return kept

    def __repr__(self) -> str:
        return f"Between.{self.name}"


@dataclass(frozen=True, repr=False)
class Layers(Description):
    """Linear layers of these widths, something between each two, and after the last where ``closed``.

    Layers whose place is in ``frozen`` are not trained.
    """

    widths: tuple[int, ...]
    between: Between = Between.NOTHING
    bias: bool = True
    closed: bool = False
    frozen: tuple[int, ...] = ()
    dtype: torch.dtype = torch.float32

    @property
    def count(self) -> int:
        """How many linear layers there are."""
        return len(self.widths) - 1

    @property
    def parameters(self) -> int:
        """Numbers of all weights and biases."""
        return sum(fan_out * (fan_in + self.bias) for fan_in, fan_out in itertools.pairwise(self.widths))

    @cached_property
    def rule(self) -> predicted.Chain:
        """The same for the reference."""
        trained = tuple(place not in self.frozen for place in range(self.count))
        return predicted.Chain(self.widths, self.between.keeps, trained, self.closed)

    def build(self) -> nn.Sequential:
        """The network; torch's generator stays as it was."""
        modules: list[nn.Module] = []
        with torch.random.fork_rng(devices=[]):
            for place, (fan_in, fan_out) in enumerate(itertools.pairwise(self.widths)):
                layer = nn.Linear(fan_in, fan_out, bias=self.bias, dtype=self.dtype)
                modules += [layer.requires_grad_(place not in self.frozen), self.between.value[0]()]
        return nn.Sequential(*(modules if self.closed else modules[:-1]))

    def inputs(self, rows: int) -> Float[Tensor, "rows features"]:
        """Ones."""
        return torch.ones(rows, self.widths[0], dtype=self.dtype)

    def saved(self, rows: int) -> list[Shaped[Tensor, "..."]]:
        """What a forward pass keeps for the backward pass, parameters left out."""
        return self._kept_by(self.build(), rows)

    def saved_in_evaluation(self, rows: int) -> list[Shaped[Tensor, "..."]]:
        """The same of a network that is told to evaluate."""
        return self._kept_by(self.build().eval(), rows)

    def _kept_by(self, network: nn.Module, rows: int) -> list[Shaped[Tensor, "..."]]:
        with saved_for_backward() as saved, torch.random.fork_rng(devices=[]):
            network(self.inputs(rows))
        return apart_from(network.parameters(), saved)

    def saved_with_inputs(self, rows: int) -> tuple[list[Shaped[Tensor, "..."]], list[Shaped[Tensor, "..."]]]:
        """The input of each linear layer, nothing between them, and what they keep, parameters included."""
        inputs = [self.inputs(rows)]
        with saved_for_backward() as saved:
            for layer in self._linear():
                inputs.append(layer(inputs[-1]))
        return inputs[:-1], saved

    def _linear(self) -> list[nn.Linear]:
        return [module for module in self.build() if isinstance(module, nn.Linear)]

    def all_frozen(self) -> Layers:
        """The same with no layer trained."""
        return replace(self, frozen=tuple(range(self.count)))

    def saved_in_segments(self, rows: int, segment: int) -> list[Shaped[Tensor, "..."]]:
        """The same where every ``segment`` layers are run again in the backward pass."""
        layers = self._linear()
        x: Any = self.inputs(rows)
        import_kernels()
        with saved_for_backward() as saved:
            for first in range(0, len(layers), segment):
                part = nn.Sequential(*layers[first : first + segment])
                x = torch.utils.checkpoint.checkpoint(part, x, use_reentrant=False, preserve_rng_state=False)
        return saved


_BIASES = _ENDS = (False, True)


@cache
def _equal_layers(between: tuple[Between, ...]) -> tuple[Layers, ...]:
    """All of one to sixteen columns and one to six layers, narrow and few first."""
    sizes = sorted(itertools.product((1, 2, 3, 4, 5, 8, 11, 16), range(1, 7)), key=math.prod)
    return tuple(
        Layers((width,) * (count + 1), one, bias, closed, dtype=dtype)
        for (width, count), one, bias, closed, dtype in itertools.product(sizes, between, _BIASES, _ENDS, FORMATS)
    )


@cache
def _any_layers(between: tuple[Between, ...]) -> tuple[Layers, ...]:
    """Two thousand of one to five layers, some of them frozen."""
    chance = Random(0)
    found = []
    for _ in range(2000):
        widths = tuple(chance.choices(range(1, 17), k=chance.randint(2, 6)))
        frozen = tuple(place for place in range(len(widths) - 1) if chance.random() < 0.4)
        bias, closed = chance.choice(_BIASES), chance.choice(_ENDS)
        found.append(Layers(widths, chance.choice(between), bias, closed, frozen, chance.choice(FORMATS)))
    return tuple(sorted(found, key=lambda each: (each.count, each.parameters)))


def equal_layers(between: tuple[Between, ...] = tuple(Between)) -> st.SearchStrategy[Layers]:
    """One to six equally wide layers, with one of these between them."""
    return st.deferred(lambda: st.sampled_from(_equal_layers(between)))


def any_layers(between: tuple[Between, ...] = tuple(Between)) -> st.SearchStrategy[Layers]:
    """One to five layers of any width, some frozen, with one of these between them."""
    return st.deferred(lambda: st.sampled_from(_any_layers(between)))


_bare_layers = equal_layers((Between.NOTHING,))


@st.composite
def crowded(draw: st.DrawFn) -> tuple[Layers, int]:
    """Linear layers, and one to eight rows more than they are wide, with a bias one more."""
    layers = draw(_bare_layers)
    return layers, layers.widths[0] + layers.bias + draw(st.integers(1, 8))


@st.composite
def uncrowded(draw: st.DrawFn) -> tuple[Layers, int]:
    """Linear layers, and no more rows than they are wide, with a bias one more."""
    layers = draw(_bare_layers)
    return layers, draw(st.integers(1, layers.widths[0] + layers.bias))


# ── what the short formula leaves out ──


class Omission(Enum):
    """A change to equally wide linear layers that the short formula does not see."""

    INPUTS = "the data is wider than the layers"
    LAST_OUTPUT = "something after the last layer keeps what that gives"
    TEMPORARIES = "a norm stands after each layer, and keeps a mean and a deviation a row, and its input"
    UNEQUAL_WIDTHS = "every second layer is wider"
    MORE_KEPT = "GELU stands between the layers"

    def __repr__(self) -> str:
        return f"Omission.{self.name}"


@dataclass(frozen=True, repr=False)
class Omitted(Description):
    """Equally wide linear layers with one omission, by ``extra`` columns where widths differ."""

    omission: Omission
    rows: int
    width: int
    layers: int
    extra: int = 1

    def build(self) -> nn.Sequential:
        """The network with the omission, which is trained in float32."""
        widths = [self.width] * (self.layers + 1)
        if self.omission is Omission.INPUTS:
            widths[0] += self.extra
        if self.omission is Omission.UNEQUAL_WIDTHS:
            widths[1:-1:2] = [self.width + self.extra] * len(widths[1:-1:2])
        modules: list[nn.Module] = []
        with torch.random.fork_rng(devices=[]):
            for fan_in, fan_out in itertools.pairwise(widths):
                modules.append(nn.Linear(fan_in, fan_out))
                if self.omission is Omission.TEMPORARIES:
                    modules.append(nn.LayerNorm(fan_out))
                if self.omission is Omission.MORE_KEPT:
                    modules.append(nn.GELU())
        if self.omission is Omission.MORE_KEPT:
            modules.pop()
        if self.omission is Omission.LAST_OUTPUT:
            modules.append(nn.Tanh())
        return nn.Sequential(*modules)

    def saved(self) -> list[Shaped[Tensor, "..."]]:
        """What is kept for the backward pass, parameters left out."""
        network = self.build()
        first: Any = network[0]
        with saved_for_backward() as saved:
            network(torch.ones(self.rows, first.in_features))
        return apart_from(network.parameters(), saved)

    @property
    def left_out(self) -> int:
        """Numbers that the short formula leaves out."""
        return {
            Omission.INPUTS: self.rows * self.extra,
            Omission.LAST_OUTPUT: self.rows * self.width,
            Omission.TEMPORARIES: self.rows * self.layers * (self.width + 2),
            Omission.UNEQUAL_WIDTHS: self.rows * self.extra * (self.layers // 2),
            Omission.MORE_KEPT: self.rows * self.width * (self.layers - 1),
        }[self.omission]


omissions = st.builds(
    Omitted, st.sampled_from(Omission), st.integers(1, 24), st.integers(1, 16), st.integers(2, 6), st.integers(1, 9)
)
"""Each of them, for two to six layers."""


# ── transformer blocks ──


@dataclass(frozen=True, repr=False)
class Block(Description):
    """A pre-norm block of a decoder, and what goes through it."""

    batch: int
    context: int
    head_width: int
    heads: int
    attention: Attention = Attention.FUSED

    @property
    def rule(self) -> predicted.Block:
        """The same for the reference."""
        return predicted.Block(self.batch, self.context, self.head_width * self.heads, self.heads)

    def saved(self) -> list[Shaped[Tensor, "..."]]:
        """What a forward pass keeps for the backward pass, parameters left out."""
        block = _block(self.head_width, self.heads, self.attention)
        with saved_for_backward() as saved:
            block(torch.ones(self.batch, self.context, self.rule.width), None)
        return apart_from(block.parameters(), saved)


@cache
def _block(head_width: int, heads: int, attention: Attention) -> transformers.Block:
    with torch.random.fork_rng(devices=[]):
        return transformers.Block(small_decoder(head_width, heads), attention)


def small_decoder(head_width: int, heads: int, layers: int = 1) -> Decoder:
    """The standard block: layer norms, biases, GELU on four times the width, as many key heads as heads."""
    width = head_width * heads
    return Decoder(
        layers=layers,
        width=width,
        heads=heads,
        key_value_heads=heads,
        head_width=head_width,
        hidden=4 * width,
        vocabulary=11,
        places=64,
        feed_forward=FeedForward.PLAIN,
        projection=Projection.TIED,
        biases=Biases.ALL,
        norm=Norm.LAYER,
        positions=Positions.LEARNED,
    )


blocks = st.builds(
    Block,
    st.integers(1, 3),
    st.integers(1, 24),
    st.integers(1, 8),
    st.integers(1, 4),
    st.sampled_from(Attention),
)
"""One to three sequences of one to 24 tokens."""


# ── whole training steps ──


@dataclass(frozen=True, repr=False)
class Convolution(Description):
    """Two convolutions with a norm and ReLU between them, and a linear layer; images are square and have 3 channels."""

    channels: int
    filters: int
    side: int
    seed: int = 0

    def build(self) -> nn.Sequential:
        """The network; torch's generator stays as it was."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self.seed)
            return nn.Sequential(
                nn.Conv2d(3, self.channels, 3, padding=1),
                nn.BatchNorm2d(self.channels),
                nn.ReLU(),
                nn.Conv2d(self.channels, self.filters, 3, stride=2, padding=1),
                nn.Flatten(),
                nn.Linear(self.filters * ((self.side + 1) // 2) ** 2, 5),
            )

    def inputs(self, rows: int) -> Float[Tensor, "rows channels side side"]:
        """Standard normal images."""
        shape = (rows, 3, self.side, self.side)
        return torch.randn(shape, generator=torch.Generator().manual_seed(self.seed))


@dataclass(frozen=True, repr=False)
class Decoding(Description):
    """A decoder of standard blocks; ``rows`` are sequences of ``context`` tokens."""

    layers: int
    heads: int
    head_width: int
    context: int
    attention: Attention = Attention.COMPOSED

    def build(self) -> nn.Module:
        """The model; torch's generator stays as it was."""
        sizes = small_decoder(self.head_width, self.heads, self.layers)
        with torch.random.fork_rng(devices=[]):
            return transformers.Transformer(sizes, self.attention)

    def inputs(self, rows: int) -> Shaped[Tensor, "rows context"]:
        """Tokens in order."""
        return torch.arange(rows * self.context).remainder(11).reshape(rows, self.context)


class TwoFormats(nn.Module):
    """Two linear layers, the first kept in float64 and the second in float32."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.wide = nn.Linear(width, width, dtype=torch.float64)
        self.narrow = nn.Linear(width, width)

    def forward(self, x: Float[Tensor, "rows width"]) -> Float[Tensor, "rows width"]:
        """Down in the format of each."""
        out: Tensor = self.narrow(self.wide(x.double()).relu().float())
        return out


@dataclass(frozen=True, repr=False)
class Mixed(Description):
    """A network whose layers are kept in two formats."""

    width: int

    def build(self) -> nn.Module:
        """The network; torch's generator stays as it was."""
        with torch.random.fork_rng(devices=[]):
            return TwoFormats(self.width)

    def inputs(self, rows: int) -> Float[Tensor, "rows width"]:
        """Ones."""
        return torch.ones(rows, self.width)


class RunAgain(nn.Module):
    """A module that is run again in the backward pass instead of keeping what it needs there."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
        """The module's own."""
        import_kernels()
        out: Tensor = torch.utils.checkpoint.checkpoint(self.module, x, use_reentrant=False, preserve_rng_state=False)
        return out


class Manner(Enum):
    """How the forward pass is run."""

    PLAIN = "as it is"
    AUTOCAST = "with bfloat16 arithmetic"
    RUN_AGAIN = "once more in the backward pass"

    def __repr__(self) -> str:
        return f"Manner.{self.name}"


_NAMES = {
    memory.Kind.PARAMETER: "parameters",
    memory.Kind.INPUT: "inputs",
    memory.Kind.SAVED: "saved for backward",
    memory.Kind.GRADIENT: "gradients",
    memory.Kind.OPTIMIZER_STATE: "optimizer state",
    memory.Kind.TRANSIENT: "transients",
}


@dataclass(frozen=True, repr=False)
class TrainingStep(Description):
    """A network, how many rows go through it, how, and the optimizer that steps then."""

    network: Mlp | Convolution | Decoding | Mixed
    rows: int
    optimizer: Optimizer
    manner: Manner = Manner.PLAIN

    def _arithmetic(self, device: str) -> AbstractContextManager[Any]:
        return torch.autocast(device, torch.bfloat16) if self.manner is Manner.AUTOCAST else nullcontext()

    def build(self, device: str = "cpu") -> memory.Step:
        """The step, to be accounted for: cross-entropy for tokens, else the mean square."""
        with torch.device(device):
            network = self.network.build()
        module = RunAgain(network) if self.manner is Manner.RUN_AGAIN else network
        inputs = self.network.inputs(self.rows).to(device)
        trained = [each for each in network.parameters() if each.requires_grad]

        def loss() -> Float[Tensor, ""]:
            with self._arithmetic(device):
                out = module(inputs)
                if isinstance(self.network, Decoding):
                    return F.cross_entropy(out.flatten(0, 1), inputs.flatten())
                error: Tensor = out.float().square().mean()
                return error

        return memory.Step(network, self.optimizer.build(trained), (inputs,), loss)

    def by_phase(self) -> dict[tuple[str, str], int]:
        """Bytes by phase and kind, as the reference names them: at the end of each, and inside the optimizer's step."""
        account = memory.account(self.build())
        moments = {
            "after forward": account.after[memory.Phase.FORWARD],
            "after backward": account.after[memory.Phase.BACKWARD],
            "inside the step": account.peaks[memory.Phase.STEP].bytes,
            "after the step": account.after[memory.Phase.STEP],
        }
        return {(phase, name): seen[kind] for phase, seen in moments.items() for kind, name in _NAMES.items()}


@cache
def _some_networks() -> tuple[Mlp | Convolution | Decoding | Mixed, ...]:
    """Two thousand, of each kind a quarter; of the multilayer ones half are partly frozen, and a quarter tied."""
    chance = Random(0)

    def mlp() -> Mlp:
        widths = tuple(chance.choices((1, 2, 4, 7), k=chance.randint(2, 4)))
        frozen: tuple[int, ...] = ()
        form, layers = chance.choice((0, 1, 1, 2)), len(widths) - 1
        if form == 1:
            frozen = tuple(sorted(chance.sample(range(layers), chance.randint(min(1, layers - 1), layers - 1))))
        return Mlp(widths, chance.random() < 0.5, chance.choice(list(Activation)), frozen, tied=form == 2)

    def convolution() -> Convolution:
        return Convolution(chance.randint(1, 4), chance.randint(1, 4), chance.randint(2, 6))

    def decoding() -> Decoding:
        layers, heads, head_width, context = (chance.randint(1, most) for most in (2, 2, 4, 8))
        return Decoding(layers, heads, head_width, context, chance.choice(list(Attention)))

    makers = (mlp, convolution, decoding, lambda: Mixed(chance.randint(1, 8)))
    return tuple(makers[place % 4]() for place in range(2000))


def _networks(
    fit: Callable[[Mlp | Convolution | Decoding | Mixed], bool],
) -> st.SearchStrategy[Mlp | Convolution | Decoding | Mixed]:
    return st.deferred(lambda: st.sampled_from([each for each in _some_networks() if fit(each)]))


def _is_exact(network: Mlp | Convolution | Decoding | Mixed) -> bool:
    composed = isinstance(network, Decoding) and network.attention is Attention.COMPOSED
    return composed or isinstance(network, (Mlp, Convolution))


def _is_whole(network: Mlp | Convolution | Decoding | Mixed) -> bool:
    return not isinstance(network, Mixed) and not getattr(network, "frozen", ())


_rows = st.integers(2, 5)
_STEPPERS = tuple(name for name in HERE if name not in ("LBFGS", "Muon", "Adafactor"))
"""Optimizers that take parameters of any shape, and gradients that are there already."""
_steppers = optimizers(_STEPPERS)
_any_networks = _networks(lambda network: True)


@st.composite
def training_steps(draw: st.DrawFn) -> TrainingStep:
    """Any network, plainly, with autocast or run again, and any optimizer that takes it."""
    network, manner = draw(_any_networks), draw(st.sampled_from(Manner))
    # Running a batch norm again would move its statistics twice, and what casts by itself is left to do so.
    plain = isinstance(network, (Convolution, Mixed))
    return TrainingStep(network, draw(_rows), draw(_steppers), Manner.PLAIN if plain else manner)


exact_steps = st.builds(TrainingStep, _networks(_is_exact), _rows, _steppers)
"""The networks and optimizers of which a step can be accounted for to the byte."""
_unasking = optimizers(tuple(name for name in _STEPPERS if name != "ASGD"))
meta_steps = st.builds(TrainingStep, _networks(lambda network: isinstance(network, Mlp)), _rows, _unasking)
"""Steps of multilayer networks by optimizers that ask for no number, so that the meta device can make them."""
adamw_steps = st.builds(
    TrainingStep, _networks(_is_whole), _rows, st.sampled_from([Optimizer("AdamW", (), way) for way in Way])
)
"""A network trained whole in float32 by plain AdamW, in every way."""
chain_steps = st.builds(
    TrainingStep,
    st.builds(Mlp, st.lists(st.integers(1, 24), min_size=2, max_size=5).map(tuple)),
    st.integers(1, 24),
    st.sampled_from([Optimizer("AdamW", (), way) for way in (Way.ONE_BY_ONE, Way.GROUPED)]),
)
"""Linear layers with ReLU between them, trained by AdamW in the ways of which it is known what they take on top."""
