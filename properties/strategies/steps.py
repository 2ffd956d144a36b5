"""View operations as values: each does to a tensor what torch does, and to a window what the strided model
says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Shaped
from torch import Tensor

from properties.strategies.description import Description
from reference import strided
from reference.strided import Strided


class Step(Description):
    """One view operation: the name that torch and the model share, and its arguments in their order."""

    operation: ClassVar[str]

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What the operation is called with."""
        return tuple(getattr(self, name) for name in type(self).__match_args__)  # type: ignore[attr-defined]

    def apply(self, x: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
        """The view that torch makes."""
        result: Tensor = getattr(x, self.operation)(*self.arguments)
        return result

    def predict(self, x: Strided) -> Strided:
        """The window that the model makes."""
        result: Strided = getattr(strided, self.operation)(x, *self.arguments)
        return result

    def of(self, text: str) -> str:
        """The expression for this view of what ``text`` is the expression for."""
        return f"{text}.{self.operation}({', '.join(map(repr, self.arguments))})"


@dataclass(frozen=True, repr=False)
class Detach(Step):
    """The same window, apart from gradients."""

    operation: ClassVar[str] = "detach"


@dataclass(frozen=True, repr=False)
class Transpose(Step):
    """Two dimensions exchanged."""

    operation: ClassVar[str] = "transpose"
    first: int
    second: int


@dataclass(frozen=True, repr=False)
class SwapAxes(Step):
    """Two dimensions exchanged, by NumPy's name."""

    operation: ClassVar[str] = "swapaxes"
    first: int
    second: int


@dataclass(frozen=True, repr=False)
class T(Step):
    """The transpose of at most two dimensions."""

    operation: ClassVar[str] = "t"


@dataclass(frozen=True, repr=False)
class Permute(Step):
    """The dimensions in another order."""

    operation: ClassVar[str] = "permute"
    order: tuple[int, ...]


@dataclass(frozen=True, repr=False)
class MoveDim(Step):
    """One dimension at another place."""

    operation: ClassVar[str] = "movedim"
    source: int
    destination: int


@dataclass(frozen=True, repr=False)
class Select(Step):
    """One index of a dimension."""

    operation: ClassVar[str] = "select"
    dim: int
    index: int


@dataclass(frozen=True, repr=False)
class Narrow(Step):
    """Some neighbouring indices of a dimension."""

    operation: ClassVar[str] = "narrow"
    dim: int
    start: int
    length: int


@dataclass(frozen=True, repr=False)
class Slice(Step):
    """``x[..., start:stop:step, ...]`` along one dimension."""

    operation: ClassVar[str] = "sliced"
    dim: int
    start: int | None = None
    stop: int | None = None
    step: int = 1

    def apply(self, x: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
        return x[(slice(None),) * self.dim + (slice(self.start, self.stop, self.step),)]

    def of(self, text: str) -> str:
        start = "" if self.start is None else self.start
        stop = "" if self.stop is None else self.stop
        step = "" if self.step == 1 else f":{self.step}"
        return f"{text}[{':, ' * self.dim}{start}:{stop}{step}]"


@dataclass(frozen=True, repr=False)
class Expand(Step):
    """Dimensions of size one repeated, and new ones in front."""

    operation: ClassVar[str] = "expand"
    sizes: tuple[int, ...]


@dataclass(frozen=True, repr=False)
class Unfold(Step):
    """Windows along a dimension."""

    operation: ClassVar[str] = "unfold"
    dim: int
    size: int
    step: int


@dataclass(frozen=True, repr=False)
class Diagonal(Step):
    """The diagonal of two dimensions."""

    operation: ClassVar[str] = "diagonal"
    offset: int
    first: int
    second: int


@dataclass(frozen=True, repr=False)
class Squeeze(Step):
    """A dimension of size one dropped."""

    operation: ClassVar[str] = "squeeze"
    dim: int


@dataclass(frozen=True, repr=False)
class SqueezeAll(Step):
    """Every dimension of size one dropped."""

    operation: ClassVar[str] = "squeeze"


@dataclass(frozen=True, repr=False)
class Unsqueeze(Step):
    """A new dimension of size one."""

    operation: ClassVar[str] = "unsqueeze"
    dim: int


@dataclass(frozen=True, repr=False)
class View(Step):
    """Another shape over the same elements."""

    operation: ClassVar[str] = "view"
    target: tuple[int, ...]


@dataclass(frozen=True, repr=False)
class Unflatten(Step):
    """One dimension split into several."""

    operation: ClassVar[str] = "unflatten"
    dim: int
    sizes: tuple[int, ...]


@dataclass(frozen=True, repr=False)
class AsStrided(Step):
    """Any window on the storage."""

    operation: ClassVar[str] = "as_strided"
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int | None = None


class _Piece(Step):
    """One of the views that an operation makes at once."""

    piece: int

    @property
    def arguments(self) -> tuple[Any, ...]:
        return super().arguments[:-1]

    def apply(self, x: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
        pieces: Sequence[Tensor] = getattr(x, self.operation)(*self.arguments)
        return pieces[self.piece]

    def predict(self, x: Strided) -> Strided:
        pieces: Sequence[Strided] = getattr(strided, self.operation)(x, *self.arguments)
        return pieces[self.piece]

    def of(self, text: str) -> str:
        return f"{super().of(text)}[{self.piece}]"


@dataclass(frozen=True, repr=False)
class Chunk(_Piece):
    """One of at most ``chunks`` pieces."""

    operation: ClassVar[str] = "chunk"
    chunks: int
    dim: int
    piece: int


@dataclass(frozen=True, repr=False)
class Split(_Piece):
    """One of the pieces of a size."""

    operation: ClassVar[str] = "split"
    size: int
    dim: int
    piece: int


@dataclass(frozen=True, repr=False)
class Unbind(_Piece):
    """One index of a dimension, out of the views of all."""

    operation: ClassVar[str] = "unbind"
    dim: int
    piece: int


@dataclass(frozen=True, repr=False)
class ViewAsReal(Step):
    """Complex numbers as pairs of real ones."""

    operation: ClassVar[str] = "view_as_real"

    def apply(self, x: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
        return torch.view_as_real(x)

    def of(self, text: str) -> str:
        return f"torch.view_as_real({text})"


@dataclass(frozen=True, repr=False)
class ViewAsComplex(Step):
    """Pairs of real numbers, along a last dimension of size two, as complex ones."""

    operation: ClassVar[str] = "view_as_complex"

    def apply(self, x: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
        return torch.view_as_complex(x)

    def predict(self, x: Strided) -> Strided:
        return strided.select(strided.reinterpret(x, 1, 2), -1, 0)

    def of(self, text: str) -> str:
        return f"torch.view_as_complex({text})"


@dataclass(frozen=True, repr=False)
class Conjugate(Step):
    """The conjugate: the same window with the conjugate bit turned over."""

    operation: ClassVar[str] = "conj"

    def predict(self, x: Strided) -> Strided:
        return x


@dataclass(frozen=True, repr=False)
class Real(Step):
    """The real parts."""

    operation: ClassVar[str] = "real"

    def apply(self, x: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
        return x.real

    def predict(self, x: Strided) -> Strided:
        return strided.select(strided.view_as_real(x), -1, 0)

    def of(self, text: str) -> str:
        return f"{text}.real"


@dataclass(frozen=True, repr=False)
class Imaginary(Step):
    """The imaginary parts; of a conjugate they carry the negative bit."""

    operation: ClassVar[str] = "imag"

    def apply(self, x: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
        return x.imag

    def predict(self, x: Strided) -> Strided:
        return strided.select(strided.view_as_real(x), -1, 1)

    def of(self, text: str) -> str:
        return f"{text}.imag"


# ── operations with nothing to do ──

IDLE_COPIES: dict[str, Callable[[Tensor], Tensor]] = {
    "x[[0, 1, ...]]": lambda x: x[list(range(len(x)))],
    "x.index_select(0, every index)": lambda x: x.index_select(0, torch.arange(len(x))),
    "torch.cat([x])": lambda x: torch.cat([x]),
    "torch.stack([x])": lambda x: torch.stack([x]),
    "x.repeat(1, ...)": lambda x: x.repeat((1,) * x.dim()),
    "x.tile((1,))": lambda x: x.tile((1,)),
    "x.roll(0, 0)": lambda x: x.roll(0, 0),
    "x.unsqueeze(0).flip(0)": lambda x: x.unsqueeze(0).flip(0),
}
"""Operations that hand back all elements of a tensor in their order, and copy them all the same."""

SIZELESS: tuple[Step, ...] = (
    Transpose(0, 1), Permute((1, 0)), T(), SwapAxes(0, 1), MoveDim(0, 1), Select(0, -1), Slice(0, 1, None, 2),
    Narrow(1, 1, 2), Expand((5, -1, -1)), Unfold(1, 3, 2), Diagonal(1, 0, 1), Squeeze(0), Unsqueeze(1),
    View((-1,)), Unflatten(0, (2, -1)), AsStrided((2, 2), (3, 1), 1), Chunk(2, 0, 1), Detach(),
)  # fmt: skip
"""View operations that a matrix of any size takes, from 4 by 4 on, with an even number of rows."""
