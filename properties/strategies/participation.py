"""Parts of a model that take part in a backward pass, and parts that do not, before and after it."""

from __future__ import annotations

import itertools
import math
import warnings
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
import torch.utils.checkpoint
from hypothesis import strategies as st
from torch import nn

from properties.instruments.kernels import import_kernels
from properties.strategies.description import Description


class Part(Enum):
    """What a part of the model is."""

    LINEAR = "a linear layer that is trained"
    EMBEDDING = "an embedding with a dense gradient"
    SPARSE = "an embedding with a sparse gradient"
    FROZEN = "a linear layer that is not trained"
    UNUSED = "a linear layer that nothing goes through"

    def __repr__(self) -> str:
        return f"Part.{self.name}"


DENSE = frozenset({Part.LINEAR, Part.EMBEDDING})
"""Parts that take part and get a dense gradient."""


class Stage(Enum):
    """When the gradients are looked at."""

    BEFORE_BACKWARD = "after the forward pass"
    AFTER_BACKWARD = "after the backward pass"
    CLEARED = "after they have been cleared"

    def __repr__(self) -> str:
        return f"Stage.{self.name}"


@dataclass(frozen=True, repr=False)
class Parts(Description):
    """Parts of a model of this width, as many tokens for each, and when its gradients are looked at."""

    parts: tuple[Part, ...]
    width: int
    tokens: int
    stage: Stage
    dtype: torch.dtype = torch.float32

    def run(self) -> list[tuple[Part, nn.Parameter]]:
        """Every parameter at that stage, with the part that it belongs to."""
        modules = [self._module(part) for part in self.parts]
        places = torch.arange(self.tokens).remainder(5)
        loss = torch.zeros((), requires_grad=True)
        for part, module in zip(self.parts, modules, strict=True):
            if part is not Part.UNUSED:
                embeds = isinstance(module, nn.Embedding)
                data = places if embeds else torch.ones(self.tokens, self.width, dtype=self.dtype)
                loss = loss + module(data).sum()
        if self.stage is not Stage.BEFORE_BACKWARD:
            loss.backward()  # type: ignore[no-untyped-call]
        if self.stage is Stage.CLEARED:
            nn.ModuleList(modules).zero_grad()
        return [
            (part, parameter)
            for part, module in zip(self.parts, modules, strict=True)
            for parameter in module.parameters()
        ]

    def _module(self, part: Part) -> nn.Module:
        if part in (Part.EMBEDDING, Part.SPARSE):
            return nn.Embedding(5, self.width, sparse=part is Part.SPARSE, dtype=self.dtype)
        return nn.Linear(self.width, 3, dtype=self.dtype).requires_grad_(part is not Part.FROZEN)


def is_full(parameter: nn.Parameter) -> bool:
    """Whether a parameter has a dense gradient of its shape and format, in a storage of just those numbers."""
    gradient = parameter.grad
    if gradient is None or gradient.is_sparse or gradient.shape != parameter.shape:
        return False
    nbytes = math.prod(parameter.shape) * parameter.itemsize
    return gradient.dtype == parameter.dtype and gradient.untyped_storage().nbytes() == nbytes


parts = st.builds(
    Parts,
    st.sampled_from([each for count in (1, 2, 3) for each in itertools.product(Part, repeat=count)]),
    st.integers(1, 9),
    st.integers(0, 9),
    st.sampled_from((Stage.AFTER_BACKWARD, Stage.BEFORE_BACKWARD, Stage.AFTER_BACKWARD, Stage.CLEARED)),
    st.sampled_from((torch.float32, torch.float64)),
)
"""One to three parts, looked at after the backward pass as often as at another time."""


def reached_in_a_region(width: int, input_needs_one: bool, reentrant: bool | None) -> bool:
    """Whether a layer that is run again in the backward pass gets a gradient; None leaves the way to torch's default.

    torch warns where it does not, and where it is left the choice.
    """
    import_kernels()
    layer, x = nn.Linear(width, 2), torch.ones(3, width, requires_grad=input_needs_one)
    told: dict[str, Any] = {} if reentrant is None else {"use_reentrant": reentrant}
    with warnings.catch_warnings(action="ignore"):
        out: Any = torch.utils.checkpoint.checkpoint(layer, x, **told)
        if out.requires_grad:
            out.sum().backward()
    return layer.weight.grad is not None
