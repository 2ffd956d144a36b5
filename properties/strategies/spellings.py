"""The same view in other words: another name, a function for a method, an index, the shape of another tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor

from properties.strategies.steps import (
    Chunk,
    Detach,
    Expand,
    Imaginary,
    MoveDim,
    Permute,
    Real,
    Select,
    Split,
    Squeeze,
    Step,
    SwapAxes,
    T,
    Transpose,
    Unbind,
    Unsqueeze,
    View,
)

_NAMES: dict[type[Step], tuple[str, ...]] = {
    Transpose: ("swapaxes", "swapdims"),
    SwapAxes: ("transpose", "swapdims"),
    MoveDim: ("moveaxis",),
    Permute: ("permute",),
}
"""Other names that take the arguments of a step in their order."""

_Spelling = Callable[[Any, Tensor], Sequence[Tensor]]


def _index(dim: int, rank: int, item: Any) -> Any:
    return (*(slice(None),) * (dim % rank), item)


def _like(shape: Sequence[int]) -> Shaped[Tensor, "..."]:
    return torch.empty(tuple(shape), device="meta")


def _widened(step: Expand, x: Shaped[Tensor, "..."]) -> Sequence[Tensor]:
    shape = step.apply(x).shape
    return x.expand(list(shape)), x.expand_as(_like(shape)), x.broadcast_to(shape), torch.broadcast_to(x, shape)


def _cut(step: Chunk, x: Shaped[Tensor, "..."]) -> Sequence[Tensor]:
    sizes = [piece.shape[step.dim] for piece in x.chunk(step.chunks, step.dim)]
    ends = [sum(sizes[: place + 1]) for place in range(len(sizes) - 1)]
    by_size: Any = x.split
    pieces = (by_size(sizes, step.dim), x.split_with_sizes(sizes, step.dim), x.tensor_split(ends, step.dim))
    return [each[step.piece] for each in pieces]


def _divided(step: Split, x: Shaped[Tensor, "..."]) -> Sequence[Tensor]:
    first, length = step.piece * step.size, step.apply(x).shape[step.dim]
    return x[_index(step.dim, x.dim(), slice(first, first + length))], x.narrow(step.dim, first, length)


def _transposed(step: Step, x: Shaped[Tensor, "..."]) -> Sequence[Tensor]:
    return (x.T, x.mT, x.H, x.mH, x.adjoint()) if x.dim() == 2 else ()


_WORDS: dict[type[Step], _Spelling] = {
    T: _transposed,
    Permute: lambda step, x: (x.permute(list(step.order)), *(x.permute(*step.order) for _ in step.order[:1])),
    Select: lambda step, x: (x[_index(step.dim, x.dim(), step.index)],),
    Unbind: lambda step, x: (x.select(step.dim, step.piece),),
    Squeeze: lambda step, x: (x.squeeze((step.dim,)),),
    Unsqueeze: lambda step, x: (x[_index(step.dim, x.dim() + 1, None)],),
    Expand: _widened,
    View: lambda step, x: (x.view(*step.target) if step.target else x.view(()), x.view_as(_like(step.target))),
    Chunk: _cut,
    Split: _divided,
    Detach: lambda step, x: (x.data, x[...], x[None][0], x.view(x.dtype)),
    Real: lambda step, x: (torch.real(x), torch.view_as_real(x)[..., 0], torch.view_as_real(x).select(-1, 0)),
    Imaginary: lambda step, x: (torch.imag(x), torch.view_as_real(x)[..., 1]),
}


def spellings(step: Step, x: Shaped[Tensor, "..."]) -> Sequence[Tensor]:
    """The view that ``step`` makes of ``x``, once for every other way to ask torch for it."""
    names = (step.operation, *_NAMES.get(type(step), ()))
    words = _WORDS.get(type(step))
    calls = [getattr(torch, name)(x, *step.arguments) for name in names if hasattr(torch, name)]
    calls += [getattr(x, name)(*step.arguments) for name in names[1:]]
    views = [call if isinstance(call, Tensor) else call[step.piece] for call in calls]  # type: ignore[attr-defined]
    return [*views, *words(step, x)] if words else views
