"""Small torch programs whose FLOPs are known in another way, for asking a counter what it sees."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

import numpy as np
import torch
from hypothesis import strategies as st
from jaxtyping import Shaped
from torch import Tensor, nn

from properties.instruments.kernels import import_kernels
from properties.instruments.releases import looked_at
from properties.strategies.description import Description
from reference import scalars
from reference.autodiff import differentiate
from reference.scalars import Operations, integers, reals

Module = TypeVar("Module", bound=nn.Module)

aten = torch.ops.aten

GROUPS = 2
"""Groups of the grouped convolution, and heads of the attentions."""


class Kind(Enum):
    """What a program computes."""

    MATRIX_PRODUCT = "a matrix product"
    BATCHED_PRODUCT = "a batch of matrix products"
    CONVOLUTION = "a convolution, forward and backward"
    TRANSPOSED_CONVOLUTION = "a transposed convolution, forward and backward"
    LOOKUP = "a lookup in a table, and the product with that table"
    SUM = "an elementwise sum"
    MATRIX_VECTOR = "a matrix times a vector"
    INNER_PRODUCT = "an inner product"
    OUTER_PRODUCT = "an outer product"
    LAYER = "a linear layer with a bias"
    PRODUCTS_ADDED = "a batch of matrix products, added to something"
    FLASH_ATTENTION = "flash attention, forward and backward"
    EFFICIENT_ATTENTION = "memory-efficient attention, forward and backward"
    CUDNN_ATTENTION = "cuDNN's attention, forward and backward"
    ATTENTION = "fused attention on a CPU"
    LSTM = "an LSTM on a CPU"
    MULTIHEAD_ATTENTION = "nn.MultiheadAttention's fast path"
    GROUPED_CONVOLUTION = "a grouped convolution, forward and its weight's gradient"
    COMPLEX_PRODUCT = "a product of complex matrices"
    INTEGER_PRODUCT = "a product of whole-number matrices"

    def __repr__(self) -> str:
        return f"Kind.{self.name}"


@dataclass(frozen=True, repr=False)
class Program(Description):
    """A program of one kind, with three sizes from which its shapes follow."""

    kind: Kind
    sizes: tuple[int, int, int] = (2, 3, 4)

    def run(self) -> object:
        """The program in torch: on the CPU, or on the meta device where it is a GPU's kernels that are asked for."""
        return _PROGRAMS[self.kind].run(*self.sizes)

    def count(self) -> Operations:
        """What the plain algorithm does, forward and backward."""
        return _PROGRAMS[self.kind].count(*self.sizes)

    def due_of_torch(self, done: Operations, release: str = torch.__version__) -> tuple[float, ...]:
        """What torch's own counter may say of it: what it does in the releases that were looked at, where it is right,
        silent, or wrong by a known factor; a later one may have mended it.
        """
        known = _PROGRAMS[self.kind].torchs(done, self.sizes)
        return (known,) if looked_at(release) else (known, done.matrix, done.flops)


@dataclass(frozen=True)
class _Program:
    run: Callable[[int, int, int], object]
    count: Callable[[int, int, int], Operations]
    torchs: Callable[[Operations, tuple[int, int, int]], float]


def _right(done: Operations, sizes: tuple[int, int, int]) -> float:
    return done.matrix


def _silent(done: Operations, sizes: tuple[int, int, int]) -> float:
    return 0


def _ones(*shape: int) -> Shaped[Tensor, "..."]:
    return torch.ones(shape)


def _backward(output: Shaped[Tensor, "..."]) -> object:
    output.backward(torch.ones_like(output))  # type: ignore[no-untyped-call]
    return output


def _convolve(a: int, b: int, c: int) -> object:
    x, w, bias = (_ones(*shape).requires_grad_() for shape in ((2, a, 3), (b, a, 2), (b,)))
    return _backward(nn.functional.conv1d(x, w, bias, padding=c - 1))


def _count_convolution(a: int, b: int, c: int) -> Operations:
    return _both_passes(
        lambda x, w: scalars.convolution(x, w, padding=c - 1), reals((2, a, 3)), reals((b, a, 2)), (2, b, 2 * c)
    )


def _convolve_transposed(a: int, b: int, c: int) -> object:
    x, w = _ones(1, a, b).requires_grad_(), _ones(a, c, 2).requires_grad_()
    return _backward(nn.functional.conv_transpose1d(x, w, stride=2))


def _count_transposed_convolution(a: int, b: int, c: int) -> Operations:
    return _both_passes(
        lambda x, w: scalars.transposed_convolution(x, w, stride=2), reals((1, a, b)), reals((a, c, 2)), (1, c, 2 * b)
    )


def _convolve_in_groups(a: int, b: int, c: int) -> object:
    x, w = _ones(1, GROUPS * a, c + 1), _ones(GROUPS * b, a, 2).requires_grad_()
    return _backward(nn.functional.conv1d(x, w, groups=GROUPS))


def _count_grouped_convolution(a: int, b: int, c: int) -> Operations:
    return _both_passes(
        lambda x, w: scalars.convolution(x, w, groups=GROUPS),
        reals((1, GROUPS * a, c + 1)),
        reals((GROUPS * b, a, 2)),
        (1, GROUPS * b, c),
        trained=(False, True),
    )


def _both_passes(
    algorithm: Callable[..., Any],
    x: Any,
    w: Any,
    output: tuple[int, ...],
    trained: tuple[bool, bool] = (True, True),
) -> Operations:
    """Both passes of a layer, back from a gradient of ones."""
    derivative = differentiate(algorithm, x, w, trained=trained, output_gradient=np.ones(output))
    return derivative.forward + derivative.backward


def _look_up(a: int, b: int, c: int) -> object:
    table = _ones(a, c)
    return nn.functional.embedding(torch.arange(b) % a, table) @ table.T


def _attend(a: int, b: int, c: int) -> object:
    query = _ones(1, GROUPS, a, c)
    key = _ones(1, GROUPS, b, c)
    return nn.functional.scaled_dot_product_attention(query, key, key)


def _kernel(operator: Any, *arguments: object) -> Callable[[int, int, int], object]:
    """Attention by an operator of a GPU, forward and backward."""

    def run(a: int, b: int, c: int) -> object:
        lengths = (a, b, b)
        query, key, value = (_ones(1, GROUPS, each, c).to("meta").requires_grad_() for each in lengths)
        return _backward(operator(query, key, value, *arguments)[0])

    return run


def _count_kernel(a: int, b: int, c: int) -> Operations:
    """Both passes, and in the second the scores once more, which the kernels do not keep."""
    query, key = reals((GROUPS, a, c)), reals((GROUPS, b, c))
    derivative = differentiate(
        scalars.attention, query, key, key, trained=(True, True, True), output_gradient=np.ones((GROUPS, a, c))
    )
    scores = scalars.count(scalars.matmul, query, key.transpose(0, 2, 1))
    return derivative.forward + derivative.backward + scores


def _halves(make: Callable[[], Module]) -> Module:
    """A module whose weights are all 0.5; nothing is drawn at random for it."""
    import_kernels()
    with torch.device("meta"):
        module = make()
    module.to_empty(device="cpu")
    for weight in module.parameters():
        weight.data.fill_(0.5)
    return module


def _run_lstm(a: int, b: int, c: int) -> object:
    with torch.no_grad():
        return _lstm(b, c)(_ones(1, a, b))


def _lstm(b: int, c: int) -> nn.LSTM:
    return _halves(lambda: nn.LSTM(b, c))


def _count_lstm(a: int, b: int, c: int) -> Operations:
    cell = [reals((a, b)), reals((a, c)), reals((a, c)), reals((4 * c, b)), reals((4 * c, c))]
    return scalars.count(scalars.lstm_cell, *cell, reals((4 * c,)), reals((4 * c,)))


def _run_multihead(a: int, b: int, c: int) -> object:
    layer = _halves(lambda: nn.MultiheadAttention(GROUPS * c, GROUPS, batch_first=True)).eval()
    with torch.no_grad():
        x = _ones(b, a, GROUPS * c)
        return layer(x, x, x, need_weights=False)


def _count_multihead(a: int, b: int, c: int) -> Operations:
    width = GROUPS * c
    weights = [reals((3 * width, width)), reals((3 * width,)), reals((width, width)), reals((width,))]
    one = scalars.count(_multihead, reals((a, width)), *weights)
    return sum([one] * b, Operations())


def _multihead(x: Any, packed: Any, packed_bias: Any, out: Any, out_bias: Any) -> Any:
    query, key, value = (
        part.reshape(len(x), GROUPS, -1).transpose(1, 0, 2)
        for part in np.split(scalars.linear(x, packed, packed_bias), 3, axis=-1)
    )
    return scalars.linear(scalars.attention(query, key, value).transpose(1, 0, 2).reshape(x.shape), out, out_bias)


def _count_complex(a: int, b: int, c: int) -> Operations:
    """The real part and the imaginary part, each an inner product of twice the length."""
    part = scalars.count(scalars.matmul, integers((a, 2 * b)), integers((2 * b, c)))
    return part + part


_PROGRAMS: dict[Kind, _Program] = {
    Kind.MATRIX_PRODUCT: _Program(
        lambda a, b, c: _ones(a, b) @ _ones(b, c),
        lambda a, b, c: scalars.count(scalars.matmul, integers((a, b)), integers((b, c))),
        _right,
    ),
    Kind.BATCHED_PRODUCT: _Program(
        lambda a, b, c: _ones(2, 1, a, b) @ _ones(3, b, c),
        lambda a, b, c: scalars.count(scalars.matmul, integers((2, 1, a, b)), integers((3, b, c))),
        _right,
    ),
    Kind.LAYER: _Program(
        lambda a, b, c: nn.functional.linear(_ones(a, b), _ones(c, b), _ones(c)),
        lambda a, b, c: scalars.count(scalars.linear, integers((a, b)), integers((c, b)), integers((c,))),
        _right,
    ),
    Kind.PRODUCTS_ADDED: _Program(
        lambda a, b, c: torch.baddbmm(_ones(2, a, c), _ones(2, a, b), _ones(2, b, c)),
        lambda a, b, c: scalars.count(scalars.matmul, integers((2, a, b)), integers((2, b, c))),
        _right,
    ),
    Kind.FLASH_ATTENTION: _Program(_kernel(aten._scaled_dot_product_flash_attention), _count_kernel, _right),
    Kind.EFFICIENT_ATTENTION: _Program(
        _kernel(aten._scaled_dot_product_efficient_attention, None, True), _count_kernel, _right
    ),
    Kind.CUDNN_ATTENTION: _Program(
        _kernel(aten._scaled_dot_product_cudnn_attention, None, True), _count_kernel, _right
    ),
    Kind.CONVOLUTION: _Program(_convolve, _count_convolution, _right),
    Kind.TRANSPOSED_CONVOLUTION: _Program(_convolve_transposed, _count_transposed_convolution, _right),
    Kind.LOOKUP: _Program(
        _look_up,
        lambda a, b, c: scalars.count(scalars.matmul, integers((b, c)), integers((c, a))),
        _right,
    ),
    Kind.SUM: _Program(
        lambda a, b, c: _ones(a, b) + _ones(a, b),
        lambda a, b, c: scalars.count(scalars.add, integers((a, b)), integers((a, b))),
        _silent,
    ),
    Kind.MATRIX_VECTOR: _Program(
        lambda a, b, c: _ones(a, b) @ _ones(b),
        lambda a, b, c: scalars.count(scalars.matmul, integers((a, b)), integers((b,))),
        _silent,
    ),
    Kind.INNER_PRODUCT: _Program(
        lambda a, b, c: _ones(b) @ _ones(b),
        lambda a, b, c: scalars.count(scalars.matmul, integers((b,)), integers((b,))),
        _silent,
    ),
    Kind.OUTER_PRODUCT: _Program(
        lambda a, b, c: torch.outer(_ones(a), _ones(b)),
        lambda a, b, c: scalars.count(scalars.multiply, integers((a, 1)), integers((b,))),
        _silent,
    ),
    Kind.ATTENTION: _Program(
        _attend,
        lambda a, b, c: scalars.count(
            scalars.attention, reals((GROUPS, a, c)), reals((GROUPS, b, c)), reals((GROUPS, b, c))
        ),
        _silent,
    ),
    Kind.LSTM: _Program(_run_lstm, _count_lstm, _silent),
    Kind.MULTIHEAD_ATTENTION: _Program(_run_multihead, _count_multihead, _silent),
    Kind.GROUPED_CONVOLUTION: _Program(
        _convolve_in_groups, _count_grouped_convolution, lambda done, sizes: done.matrix * (1 + GROUPS) / 2
    ),
    Kind.COMPLEX_PRODUCT: _Program(
        lambda a, b, c: _ones(a, b).to(torch.complex64) @ _ones(b, c).to(torch.complex64),
        _count_complex,
        lambda done, sizes: done.matrix / 4,
    ),
    Kind.INTEGER_PRODUCT: _Program(
        lambda a, b, c: _ones(a, b).long() @ _ones(b, c).long(),
        lambda a, b, c: Operations(),
        lambda done, sizes: 2 * math.prod(sizes),
    ),
}
SEEN = tuple(kind for kind, program in _PROGRAMS.items() if program.torchs is _right)
OVERLOOKED = tuple(kind for kind in _PROGRAMS if kind not in SEEN)


def _programs(kinds: tuple[Kind, ...]) -> st.SearchStrategy[Program]:
    size = st.integers(1, 4)
    return st.builds(Program, st.sampled_from(kinds), st.tuples(size, size, size))


def programs() -> st.SearchStrategy[Program]:
    """Any of the programs."""
    return _programs(tuple(Kind))


def seen_programs() -> st.SearchStrategy[Program]:
    """Programs of matrix work for which torch's own counter has a formula that fits."""
    return _programs(SEEN)


def overlooked_programs() -> st.SearchStrategy[Program]:
    """The others."""
    return _programs(OVERLOOKED)
