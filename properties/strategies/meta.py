"""Tensors that have a shape and no numbers: any size is as cheap as any other."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from properties.instruments.kernels import import_kernels


def meta(*shape: int) -> Float[Tensor, "..."]:
    """A float32 tensor of a shape, on the meta device."""
    import_kernels()
    return torch.empty(shape, device="meta")
