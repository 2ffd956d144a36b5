"""Rows of logits, each with the class that is right, or with none where the row is not to count."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from hypothesis import strategies as st
from jaxtyping import Float64, Int64
from torch import Tensor

from properties.strategies.description import Description
from reference import scalars
from reference.autodiff import differentiate
from reference.scalars import reals

IGNORED = -100
"""What torch takes for a target that is not to count, unless it is told another number."""


@dataclass(frozen=True, repr=False)
class Labelled(Description):
    """Normal logits [rows, classes] and a target a row; None is a row that is not to count."""

    classes: int
    targets: tuple[int | None, ...]
    seed: int = 0

    def _logits(self) -> Float64[np.ndarray, "rows classes"]:
        return reals((len(self.targets), self.classes), self.seed)

    def build(self) -> tuple[Float64[Tensor, "rows classes"], Int64[Tensor, "rows"]]:
        """Logits that need a gradient, and targets."""
        targets = [IGNORED if each is None else each for each in self.targets]
        return torch.from_numpy(self._logits()).requires_grad_(), torch.tensor(targets)

    def by_the_tape(self) -> tuple[float, Float64[np.ndarray, "rows classes"]]:
        """The loss of the rows that count, through plain loops, and its gradient by all logits."""
        counting = [row for row, target in enumerate(self.targets) if target is not None]
        targets = [target for target in self.targets if target is not None]
        logits = self._logits()
        derivative = differentiate(scalars.cross_entropy, logits[counting], targets)
        gradient = np.zeros_like(logits)
        [found] = [each for each in derivative.gradients if each is not None]
        gradient[counting] = scalars.values(found)
        return float(scalars.values(derivative.value)), gradient


@st.composite
def labelled(draw: st.DrawFn) -> Labelled:
    """One to four classes and up to five rows, of which one at least counts."""
    classes = draw(st.integers(1, 4))
    target = st.integers(0, classes - 1)
    others = draw(st.lists(st.none() | target, max_size=4))
    place = draw(st.integers(0, len(others)))
    return Labelled(classes, (*others[:place], draw(target), *others[place:]), draw(st.integers(0, 2**16)))
