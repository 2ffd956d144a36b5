"""Layers that draw in training: dropout and its masks, what else draws, and dropout that is run again backward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
import torch.utils.checkpoint
from hypothesis import strategies as st
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn import functional as F

from properties.instruments import generators
from properties.instruments.generators import Source
from properties.instruments.kernels import import_kernels
from properties.strategies.description import Description
from properties.strategies.draws import any_of, between

# ── masks ──

UNITS = 2048
"""What is kept or dropped at a time, in a mask of which the share is asked: elements or channels."""


class Dropped(Enum):
    """What dropout drops at a time, and how one of these is shaped."""

    ELEMENT = (nn.Dropout, ())
    ROW = (nn.Dropout1d, (3,))
    IMAGE = (nn.Dropout2d, (2, 2))
    VOLUME = (nn.Dropout3d, (1, 2, 2))

    def __repr__(self) -> str:
        return f"Dropped.{self.name}"


@dataclass(frozen=True, repr=False)
class Mask(Description):
    """Dropout with a probability, of elements or of whole channels, in front of weights that are trained or not."""

    dropped: Dropped
    probability: float
    trained: bool = False

    def layer(self) -> nn.Module:
        """The layer, in a network."""
        kind: Any = self.dropped.value[0]
        return nn.Sequential(nn.Sequential(kind(self.probability)))

    def data(self) -> Float[Tensor, "rows channels ..."]:
        """Powers of two, which a product with a scale does not round."""
        shape = (16, UNITS // 16, *self.dropped.value[1])
        x = 2.0 ** torch.arange(16).remainder(5).reshape(16, *[1] * (len(shape) - 1)).expand(shape)
        return x.contiguous().requires_grad_(self.trained)

    def scale(self) -> float:
        """What dropout multiplies by what it keeps, as a float32."""
        return torch.tensor(1 / (1 - self.probability)).item()


masks = st.builds(Mask, any_of(tuple(Dropped)), any_of((0.5, 0.75, 0.2, 0.1, 0.9)), any_of((False, True)))

# ── what draws in training ──

Run = Callable[[bool], Shaped[Tensor, "..."]]
"""What a layer gives, in training or not."""


def _rows() -> Float[Tensor, "2 8 4"]:
    return -torch.ones(2, 8, 4)


def _alone(network: nn.Module) -> Run:
    def run(training: bool) -> Shaped[Tensor, "..."]:
        out: Tensor = (network.train() if training else network.eval())(_rows())
        return out

    return run


def _inside(module: nn.Module) -> Run:
    return _alone(nn.Sequential(nn.Sequential(module)))


def _attention() -> Run:
    layer = nn.MultiheadAttention(4, 2, dropout=0.5, batch_first=True)

    def run(training: bool) -> Shaped[Tensor, "..."]:
        out: Tensor = layer.train(training)(_rows(), _rows(), _rows())[0]
        return out

    return run


def _recurrent() -> Run:
    layer = nn.GRU(4, 4, 2, dropout=0.5)

    def run(training: bool) -> Shaped[Tensor, "..."]:
        out: Tensor = layer.train(training)(_rows())[0]
        return out

    return run


RANDOM_IN_TRAINING: dict[str, Callable[[], Run]] = {
    "nn.Dropout": lambda: _inside(nn.Dropout()),
    "nn.Dropout1d": lambda: _inside(nn.Dropout1d()),
    "nn.AlphaDropout": lambda: _inside(nn.AlphaDropout()),
    "nn.FeatureAlphaDropout": lambda: _inside(nn.FeatureAlphaDropout()),
    "nn.RReLU": lambda: _inside(nn.RReLU()),
    "nn.TransformerEncoderLayer": lambda: _inside(nn.TransformerEncoderLayer(4, 2, 8, 0.5, batch_first=True)),
    "nn.MultiheadAttention": _attention,
    "nn.GRU": _recurrent,
    "functional.dropout": lambda: lambda training: F.dropout(_rows(), 0.5, training),
    "functional.alpha_dropout": lambda: lambda training: F.alpha_dropout(_rows(), 0.5, training),
    "functional.rrelu": lambda: lambda training: F.rrelu(_rows(), training=training),
}
"""What draws in training and not in evaluation, by its name in torch: each is made first and then run on a few rows."""


def moved_by_layer(name: str, training: bool) -> frozenset[Source]:
    """The generators that running such a layer moves; making it is left out."""
    return generators.moved_by(RANDOM_IN_TRAINING[name](), training)


# ── dropout that is run again ──


@dataclass(frozen=True, repr=False)
class Region(Description):
    """Layers of dropout that are run again in the backward pass, and how much is drawn between the two passes."""

    layers: int
    between: int = 0
    reentrant: bool = False
    keeps_state: bool = True

    def passes(self, seed: int) -> tuple[Float[Tensor, "numbers"], Float[Tensor, "numbers"], bool]:
        """After a seed, what comes of ones, the gradient of its sum, and whether the backward pass moved no generator.

        Both are the product of the masks: those of the first pass, and those of the second.
        """
        generators.start_all(seed)
        import_kernels()
        x = torch.ones(64, requires_grad=True)
        out = torch.utils.checkpoint.checkpoint(
            self._dropout(), x, use_reentrant=self.reentrant, preserve_rng_state=self.keeps_state
        )
        torch.rand(self.between)
        moved = generators.moved_by(out.sum().backward)
        gradient: Any = x.grad
        return out.detach(), gradient, not moved

    def plainly(self, seed: int) -> Float[Tensor, "numbers"]:
        """After the same seed, what comes of ones where nothing is run again."""
        out: Tensor = generators.after(seed, self._dropout(), torch.ones(64))
        return out

    def _dropout(self) -> nn.Module:
        return nn.Sequential(*(nn.Dropout(0.25) for _ in range(self.layers)))


regions = st.builds(Region, between(2, 4), between(0, 3), any_of((False, True)), any_of((True, True, False)))
"""Two layers and more: a mask may start from as few as 31 bits."""
