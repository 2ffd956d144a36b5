"""What an operator of torch costs, from the shapes of its operands: one rule each, or none.

The conventions, in one place:

- A FLOP is an addition, subtraction, multiplication, division, square root, exponential, logarithm, error function or
  trigonometric function of floating-point numbers. Copying, changing a sign, converting, choosing and drawing random
  numbers are none; nor is whole-number arithmetic, in a matrix product or elsewhere. Complex arithmetic is counted in
  the real operations it consists of, where a rule knows how.
- Matrix work accumulates into zero: two FLOPs a product. A bias is added afterwards, one FLOP an element of elementwise
  work, whether torch fuses it or not. A sum begins at its first term.
- Attention counts every score, those a mask hides included: that is what composed attention computes.
- A convolution multiplies the padding too.
- Comparisons (a maximum, a ReLU) are told apart from both. Sorting, whose comparisons depend on values, counts none.

Matrix products and FP8 products use the formulas of torch's own counter; the rest is ours, since there it is silent or
wrong.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Shaped
from torch import Tensor
from torch.utils.flop_counter import flop_registry


class Work(NamedTuple):
    """What one call of an operator costs, in FLOPs and comparisons."""

    matrix: int = 0
    elementwise: int = 0
    comparisons: int = 0


NOTHING = Work()
Arguments = tuple[Any, ...]
Keywords = Mapping[str, Any]
Rule = Callable[[Arguments, Keywords, Any], Work]
"""From the arguments, the keyword arguments and the result of a call to what it costs."""


class UncountedOperation(Exception):
    """An operator ran under the counter that no rule covers; its FLOPs would have been lost."""


@dataclass(frozen=True)
class Recomputing:
    """The rule of an operator that does a part of its forward pass again: what that part costs, and the rest."""

    again: Rule
    rest: Rule


# ── numbers of one kind or another ──

_WHOLE = frozenset(
    getattr(torch, name)
    for name in ("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
    if hasattr(torch, name)
)
_COMPLEX = frozenset((torch.complex32, torch.complex64, torch.complex128))


def _refuse_complex(what: str) -> UncountedOperation:
    return UncountedOperation(
        f"{what} on complex numbers has no rule: give it one that counts real operations, count_flops(rules={{...}})"
    )


def _of(args: Arguments, out: Any) -> Shaped[Tensor, "..."]:
    """The tensor that tells in which numbers an operator computes: its result, or the first tensor it is given."""
    if isinstance(out, Tensor):
        return out
    first = out[0] if isinstance(out, (tuple, list)) and out else None
    return first if isinstance(first, Tensor) else next(each for each in args if isinstance(each, Tensor))


def _real(rule: Rule) -> Rule:
    """``rule`` where the result is real, nothing where it is made of whole numbers; complex numbers are refused."""

    def costs(args: Arguments, kwargs: Keywords, out: Any) -> Work:
        dtype = _of(args, out).dtype
        if dtype in _WHOLE:
            return NOTHING
        if dtype in _COMPLEX:
            raise _refuse_complex("this operator")
        return rule(args, kwargs, out)

    return costs


# ── elementwise ──


def each(elementwise: int, comparisons: int = 0, of_complex: int | None = None) -> Rule:
    """So many FLOPs and comparisons an element of the result; ``of_complex`` FLOPs where it is complex."""

    def costs(args: Arguments, kwargs: Keywords, out: Any) -> Work:
        result: Tensor = out if isinstance(out, Tensor) else _of(args, out)
        dtype = result.dtype
        if dtype in _WHOLE:
            return NOTHING
        count = result.numel()
        if dtype in _COMPLEX:
            if of_complex is None:
                raise _refuse_complex("this operator")
            return Work(0, of_complex * count)
        return Work(0, elementwise * count, comparisons * count)

    return costs


def _compared(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    """One comparison an element, where floating-point numbers are compared."""
    return NOTHING if args[0].dtype in _WHOLE else Work(0, 0, out.numel())


_sum = each(1, of_complex=2)
_scaled_sum = each(2, of_complex=8)
_product = each(1, of_complex=6)
_square = each(1, of_complex=6)
_cube = each(2, of_complex=12)
_one = each(1)


def _added(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    """A sum or difference; with a factor other than one, a product more."""
    factor = kwargs.get("alpha", args[2] if len(args) > 2 else 1)
    return (_sum if factor == 1 else _scaled_sum)(args, kwargs, out)


def _power(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    """Small whole powers as products, every other as one function."""
    exponent = args[1]
    if isinstance(exponent, Tensor) or exponent not in (0, 1, 2, 3):
        return _one(args, kwargs, out)
    if exponent < 2:
        return NOTHING
    return (_square if exponent == 2 else _cube)(args, kwargs, out)


def _magnitude(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    """A sign dropped; of a complex number the root of the sum of two squares."""
    return Work(0, 4 * out.numel()) if args[0].dtype in _COMPLEX else NOTHING


def _clamped(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    """One comparison an element and bound."""
    bounds = (*args[1:3], kwargs.get("min"), kwargs.get("max"))
    if out.dtype in _WHOLE:
        return NOTHING
    return Work(0, 0, out.numel() * sum(bound is not None for bound in bounds))


def _gelu(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    """x / 2 * (1 + erf(x * c)), or the same with tanh(c * (x + c' * x**3))."""
    return (_gelu_by_tanh if kwargs.get("approximate") == "tanh" else _gelu_by_erf)(args, kwargs, out)


def _gelu_backward(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    """The derivative times what comes in: x * density + share, or by the derivative of tanh."""
    return (_gelu_backward_by_tanh if kwargs.get("approximate") == "tanh" else _gelu_backward_by_erf)(args, kwargs, out)


_gelu_by_erf, _gelu_by_tanh = each(5), each(9)
_gelu_backward_by_erf, _gelu_backward_by_tanh = each(11), each(18)


# ── many numbers into one ──


def _summed(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    """A sum from its first term on."""
    if out.dtype in _WHOLE:
        return NOTHING
    additions = max(args[0].numel() - out.numel(), 0)
    return Work(0, 2 * additions if out.dtype in _COMPLEX else additions)


def _reduced(per_input: int, per_output: int) -> Rule:
    """So many FLOPs an element of the input, and so many an element of the result."""
    return _real(lambda args, kwargs, out: Work(0, per_input * args[0].numel() + per_output * _of(args, out).numel()))


def _chosen(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    """The largest or smallest: a comparison for all numbers but the first, or for each pair."""
    if args[0].dtype in _WHOLE:
        return NOTHING
    if len(args) > 1 and isinstance(args[1], Tensor):
        return Work(0, 0, out.numel())
    return Work(0, 0, max(args[0].numel() - _of(args, out).numel(), 0))


def _deviations(per_output: int) -> Rule:
    """Variances: the mean, the differences from it, their squares and the mean of those."""
    return _reduced(4, per_output)


def _scanned(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    """Running sums or products: an operation for all numbers of a line but its first."""
    lines = out.numel() // out.shape[args[1]] if out.numel() and out.dim() else out.numel()
    return Work(0, out.numel() - lines)


def _norm(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    """The sum of the magnitudes, or the root of the sum of squares, or the largest magnitude."""
    order = kwargs.get("ord", args[1] if len(args) > 1 else 2)
    count, results = args[0].numel(), out.numel()
    if order == 2:
        return Work(0, 2 * count)
    if order == 1:
        return Work(0, count - results)
    if order in (math.inf, -math.inf):
        return Work(0, 0, count - results)
    raise UncountedOperation(
        f"a vector norm of order {order} has no rule: use order 1, 2 or inf, or pass a rule of your own"
    )


def _rows(args: Arguments, dim: int) -> int:
    """The number of lines along ``dim`` of the first argument."""
    x: Tensor = args[0]
    return x.numel() // x.shape[dim] if x.dim() and x.numel() else min(x.numel(), 1)


def _softmax(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    """Each number less the largest, its exponential, their sum, and each over it."""
    count, rows = out.numel(), _rows(args, args[1])
    return Work(0, 4 * count - rows, count - rows)


def _log_softmax(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    """Each number less the largest, the logarithm of the sum of exponentials, and each less that."""
    count, rows = out.numel(), _rows(args, args[1])
    return Work(0, 4 * count, count - rows)


def _softmax_backward(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    """Products with what comes in, their sum, each difference from it, and its product: 4 a number, less one a row."""
    return Work(0, 4 * out.numel() - _rows(args, args[2]))


def _log_sum_exp(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    """Differences, exponentials and their sum, its logarithm and the largest number again."""
    count, rows = args[0].numel(), out.numel()
    return Work(0, 3 * count + rows, count - rows)


# ── matrices ──


def _torchs(packet: Any) -> Callable[..., int]:
    """The formula that torch's own counter has for an operator, of the shapes of its operands."""
    formula: Callable[..., int] = inspect.unwrap(flop_registry[packet])
    return formula


_aten = torch.ops.aten
_mm, _bmm = _torchs(_aten.mm), _torchs(_aten.bmm)


def _matrix(flops: int, dtype: torch.dtype, added: int = 0, factors: int = 0) -> Work:
    """Matrix work in numbers of ``dtype``, to which ``added`` numbers are added after ``factors`` products."""
    if dtype in _WHOLE:
        return NOTHING
    if dtype in _COMPLEX:
        return Work(4 * flops, 2 * added + 6 * factors)
    return Work(flops, added + factors)


def _mm_rule(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    if out.dtype in _WHOLE or out.dtype in _COMPLEX:
        return _matrix(_mm(args[0].shape, args[1].shape, out_shape=out.shape), out.dtype)
    return Work(_mm(args[0].shape, args[1].shape, out_shape=out.shape))


def _bmm_rule(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    return _matrix(_bmm(args[0].shape, args[1].shape, out_shape=out.shape), out.dtype)


def _plus(product: Callable[[Any, Any, Any], int]) -> Rule:
    """beta * input + alpha * product: the product of the second and the third argument, and the sum."""

    def costs(args: Arguments, kwargs: Keywords, out: Any) -> Work:
        beta, alpha = kwargs.get("beta", 1), kwargs.get("alpha", 1)
        count = out.numel()
        factors = (beta not in (0, 1)) + (alpha != 1)
        flops = product(args[1], args[2], out)
        return _matrix(flops, out.dtype, count if beta != 0 else 0, factors * count)

    return costs


def _dot_rule(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    return _matrix(2 * args[0].numel(), out.dtype)


def _mv_rule(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    return _matrix(2 * args[0].numel(), out.dtype)


def _outer_sum(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    """input + first outer second: a product and a sum an element, and a product for each factor other than one."""
    factors = sum(kwargs.get(name, 1) != 1 for name in ("alpha", "beta"))
    return each(2 + factors)(args, kwargs, out)


def _scaled_mm_rule(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    """An FP8 product; its scales are multiplied into each result, and a bias is added."""
    bias = kwargs.get("bias", args[4] if len(args) > 4 else None)
    return Work(_mm(args[0].shape, args[1].shape, out_shape=out.shape), out.numel() * (1 if bias is None else 2))


def _activated(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    """A matrix product with a bias, then ReLU or GELU."""
    product = _plus(lambda first, second, result: _mm(first.shape, second.shape))(args, kwargs, out)
    count = out.numel()
    if kwargs.get("use_gelu", False):
        return Work(product.matrix, product.elementwise + 9 * count)
    return Work(product.matrix, product.elementwise, count)


def _trilinear(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    """The sum along some axes of the product of three tensors, as torch does it.

    The first two are multiplied and summed along the axes that the third lacks; the result is multiplied by the third
    and summed along the others. One axis is walked instead: along it, results are added. A product that is summed along
    no axis is elementwise.
    """
    operands, absent, summed = args[:3], args[3:6], set(args[6])
    walked = kwargs.get("unroll_dim", args[7] if len(args) > 7 else 1)
    lengths: dict[int, int] = {}
    axes = []
    for x, new in zip(operands, absent, strict=True):
        own = [axis for axis in range(x.dim() + len(new)) if axis not in new]
        lengths.update(zip(own, x.shape, strict=True))
        axes.append(set(own))
    early = summed - axes[2] - {walked}
    late = summed & axes[2] - {walked}
    first = math.prod(lengths[axis] for axis in axes[0] | axes[1])
    second = math.prod(lengths[axis] for axis in (axes[0] | axes[1]) - early | axes[2])
    matrix = 2 * (first if early else 0) + 2 * (second if late else 0)
    elementwise = (0 if early else first) + (0 if late else second)
    added = lengths[walked] * out.numel() if walked in summed else 0
    return _real(lambda *call: Work(matrix, elementwise + added))(args, kwargs, out)


# ── convolutions ──


def _convolved(
    x: Shaped[Tensor, "..."], result: Shaped[Tensor, "..."], weight: Shaped[Tensor, "..."], transposed: bool
) -> int:
    """Every weight meets every position of the smaller side, for each image: the output, or the input if transposed."""
    images, _, *positions = (x if transposed else result).shape
    return int(2 * images * math.prod(positions) * weight.numel())


def _convolution(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    x, weight, bias, *_ = args
    transposed = bool(args[6])
    return Work(_convolved(x, out, weight, transposed), 0 if bias is None else out.numel())


def _forward_convolution(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    """A convolution by an operator that knows no transposed one."""
    bias = args[3] if isinstance(args[3], Tensor) else None
    return Work(_convolved(args[0], out, args[1], transposed=False), 0 if bias is None else out.numel())


def _convolution_backward(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    """As many products for each gradient as in the forward pass; the bias's is a sum."""
    incoming, x, weight = args[:3]
    wanted = args[10]
    forward = _convolved(x, incoming, weight, transposed=bool(args[7]))
    channels = incoming.shape[1]
    return Work(forward * (bool(wanted[0]) + bool(wanted[1])), max(incoming.numel() - channels, 0) if wanted[2] else 0)


# ── attention ──


@dataclass(frozen=True)
class _Heads:
    """The sizes of an attention: the products that its scores take, the products that its outputs take, its scores and
    their rows.
    """

    scores: int
    outputs: int
    pairs: int
    queries: int
    value_width: int

    @classmethod
    def of(cls, query: Sequence[int], key: Sequence[int], value: Sequence[int]) -> _Heads:
        """From shapes [batch, heads, tokens, width], each key head shared by equally many query heads."""
        batch, heads, queries, width = query
        keys, value_width = key[2], value[3]
        pairs = batch * heads * queries * keys
        return cls(2 * pairs * width, 2 * pairs * value_width, pairs, batch * heads * queries, value_width)

    def forward(self, masked: bool) -> Work:
        """Scores, their scaling, a mask's sum, the softmax, the outputs."""
        elementwise = self.pairs + (self.pairs if masked else 0) + 4 * self.pairs - self.queries
        return Work(self.scores + self.outputs, elementwise, self.pairs - self.queries)

    def scored_again(self, masked: bool) -> Work:
        """What a fused backward pass has not kept: scores, scaled and masked, less the log-sum, and exponentials."""
        return Work(self.scores, 3 * self.pairs + (self.pairs if masked else 0))

    def backward(self) -> Work:
        """The gradients of values and weights, of scores, and of queries and keys: four matrix products."""
        sums = self.queries * (2 * self.value_width - 1)
        return Work(2 * self.scores + 2 * self.outputs, sums + 3 * self.pairs)


def _fused(first: int, mask: Callable[[Arguments, Keywords], Any], order: tuple[int, ...] = (0, 1, 2, 3)) -> Rule:
    """Fused attention whose query, key and value stand from place ``first`` on."""

    def costs(args: Arguments, kwargs: Keywords, out: Any) -> Work:
        shapes = [[x.shape[axis] for axis in order] for x in args[first : first + 3]]
        return _Heads.of(*shapes).forward(mask(args, kwargs) is not None)

    return _real(costs)


def _fused_backward(mask: Callable[[Arguments, Keywords], Any], order: tuple[int, ...] = (0, 1, 2, 3)) -> Recomputing:
    """Its backward pass, whose first argument is the gradient: the scores again, and the chain rule."""

    def heads(args: Arguments) -> _Heads:
        return _Heads.of(*([x.shape[axis] for axis in order] for x in args[1:4]))

    return Recomputing(
        _real(lambda args, kwargs, out: heads(args).scored_again(mask(args, kwargs) is not None)),
        _real(lambda args, kwargs, out: heads(args).backward()),
    )


def _no_mask(args: Arguments, kwargs: Keywords) -> None:
    """These kernels take none but the causal one, which adds nothing."""


def _at(place: int) -> Callable[[Arguments, Keywords], Any]:
    """A mask among the arguments."""
    return lambda args, kwargs: args[place] if len(args) > place else kwargs.get("attn_bias")


def _by_name(args: Arguments, kwargs: Keywords) -> Any:
    """A mask by keyword."""
    return kwargs.get("attn_mask")


def _unless_packed(place: int, rule: Rule) -> Rule:
    """``rule`` for one length a batch; sequences packed end to end have lengths that no shape tells."""

    def costs(args: Arguments, kwargs: Keywords, out: Any) -> Work:
        if args[place] is not None and (not isinstance(args[place], Tensor) or args[place].numel()):
            raise UncountedOperation(
                "attention over sequences packed end to end has no rule, since no shape tells their lengths:"
                " pad them, or pass a rule of your own"
            )
        return rule(args, kwargs, out)

    return costs


_TOKENS_FIRST = (0, 2, 1, 3)


def _self_attention(batch: int, tokens: int, width: int, heads: int) -> Work:
    shape = (batch, heads, tokens, width // heads)
    return _Heads.of(shape, shape, shape).forward(masked=False)


def _native_attention(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    """The fast path of nn.MultiheadAttention: projections, attention, projection, all with a bias."""
    query, width, heads, qkv, projection = args[0], args[3], args[4], args[5], args[7]
    _refuse_nested(query)
    batch, tokens, _ = query.shape
    rows = batch * tokens
    inner = _self_attention(batch, tokens, width, heads)
    matrix = 2 * rows * (qkv.numel() + projection.numel())
    return _together((inner, Work(matrix, rows * (len(qkv) + len(projection)))))


def _encoder_layer(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    """The fast path of nn.TransformerEncoderLayer: attention, two layer norms, two linear layers, two sums."""
    x, width, heads, qkv, projection, by_gelu, wide, narrow = *args[:4], args[5], args[7], args[14], args[16]
    _refuse_nested(x)
    batch, tokens, _ = x.shape
    rows = batch * tokens
    linears = (qkv, projection, wide, narrow)
    matrix = 2 * rows * sum(weight.numel() for weight in linears)
    biases = rows * sum(len(weight) for weight in linears)
    norms = 2 * rows * (7 * width + 2)
    hidden = rows * len(wide)
    ends = Work(matrix, biases + norms + 2 * rows * width + (5 * hidden if by_gelu else 0), 0 if by_gelu else hidden)
    return _together((_self_attention(batch, tokens, width, heads), ends))


def _refuse_nested(x: Shaped[Tensor, "..."]) -> None:
    if x.is_nested:
        raise UncountedOperation("a nested tensor's lengths are told by no shape: pad it, or pass a rule of your own")


def _together(parts: Iterable[Work]) -> Work:
    return Work(*(sum(column) for column in zip(*parts, strict=True)))


# ── recurrent layers ──

_LSTM, _GRU, _TANH, _RELU = 2, 3, 1, 0
"""The numbers by which torch tells recurrent cells apart."""
_CELLS = {_LSTM: Work(0, 19), _GRU: Work(0, 14), _TANH: Work(0, 2), _RELU: Work(0, 1, 1)}
"""Elementwise work of one unit for one step, biases left out: sums of gates, their functions, products and sums."""
_GATES = {_LSTM: 4, _GRU: 3, _TANH: 1, _RELU: 1}
_BACKWARD_CELLS = {_LSTM: 23, _GRU: 17, _TANH: 4, _RELU: 1}
"""The same for the chain rule through the cell, the sum with the gradient from the step after included."""


def _steps(x: Shaped[Tensor, "..."], lengths: Sequence[int]) -> int:
    """Rows that pass through the cell: tokens of the batch, or of the packed sequences."""
    return sum(lengths) if len(lengths) else x.shape[0] * x.shape[1]


def _recurrent(x: Shaped[Tensor, "..."], weights: Sequence[Tensor], mode: int, lengths: Sequence[int]) -> Work:
    """Layers of cells: each matrix meets each row once, each bias is added, and each unit has the work of its cell."""
    rows = _steps(x, lengths)
    matrices = [weight for weight in weights if weight.dim() == 2]
    biases = sum(weight.numel() for weight in weights if weight.dim() == 1)
    units = sum(len(weight) for weight in matrices) // (2 * _GATES[mode])
    cell = _CELLS[mode]
    matrix = 2 * rows * sum(weight.numel() for weight in matrices)
    return Work(matrix, rows * (biases + units * cell.elementwise), rows * units * cell.comparisons)


def _recurrent_backward(x: Shaped[Tensor, "..."], weights: Sequence[Tensor], mode: int, lengths: Sequence[int]) -> Work:
    """Both gradients of each matrix, the sums for the biases, and the chain rule through each cell."""
    rows = _steps(x, lengths)
    forward = _recurrent(x, weights, mode, lengths)
    biases = sum(weight.numel() for weight in weights if weight.dim() == 1)
    units = sum(len(weight) for weight in weights if weight.dim() == 2) // (2 * _GATES[mode])
    return Work(2 * forward.matrix, rows * units * _BACKWARD_CELLS[mode] + max(rows - 1, 0) * biases)


def _mkldnn_layer(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    weights = args[1:5] if args[12] else args[1:3]
    return _recurrent(args[0], weights, args[9], args[8])


def _mkldnn_layer_backward(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    weights = args[1:5] if args[17] else args[1:3]
    return _recurrent_backward(args[0], weights, args[14], args[20])


def _cudnn_layers(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    _refuse_projection(args[8])
    return _recurrent(args[0], args[1], args[6], args[14])


def _cudnn_layers_backward(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    _refuse_projection(args[12])
    return _recurrent_backward(args[0], args[1], args[10], args[18])


def _refuse_projection(size: int) -> None:
    if size:
        raise UncountedOperation(f"an LSTM with projections of size {size} has no rule: pass one, or use proj_size=0")


def _fused_lstm_cell(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    return Work(0, args[2].numel() * (19 + 4 * sum(bias is not None for bias in args[3:5])))


def _fused_gru_cell(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    return Work(0, args[2].numel() * (14 + 3 * sum(bias is not None for bias in args[3:5])))


# ── normalisations ──


def _normalised(count: int, groups: int, scale: Any, shift: Any, centred: bool = True) -> Work:
    """Mean, differences, squares, their mean, eps and root a group, quotients; then scale and shift."""
    work = (5 if centred else 3) * count + 2 * groups
    return Work(0, work + count * ((scale is not None) + (shift is not None)))


def _layer_norm(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    return _normalised(args[0].numel(), out[1].numel(), args[2], args[3])


def _group_norm(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    return _normalised(args[0].numel(), out[1].numel(), args[1], args[2])


def _batch_norm(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    """By the batch's statistics, which also move the running ones; or by the running ones, already there."""
    x, weight, bias, running, _, training = args[:6]
    channels = x.shape[1]
    if not training:
        return Work(0, x.numel() * (2 + (weight is not None) + (bias is not None)) + 2 * channels)
    moved = 0 if running is None else 7 * channels
    work = _normalised(x.numel(), channels, weight, bias)
    return Work(0, work.elementwise + moved)


def _rms_norm(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    return _normalised(args[0].numel(), out[1].numel(), args[2], None, centred=False)


def _norm_backward(weight_at: int, per_number: int) -> Rule:
    """The gradients of the input, ``per_number`` FLOPs a number and one for a weight, and of the weight and bias."""

    def costs(args: Arguments, kwargs: Keywords, out: Any) -> Work:
        count, weight = args[0].numel(), args[weight_at]
        wanted = [each is not None for each in out]
        own = count * (per_number + (weight is not None)) if wanted[0] else 0
        scale = 2 * count - out[1].numel() if len(wanted) > 1 and wanted[1] else 0
        shift = count - out[2].numel() if len(wanted) > 2 and wanted[2] else 0
        return Work(0, own + max(scale, 0) + max(shift, 0))

    return costs


# ── losses, pooling, places ──


def _squared_error(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    """Differences, squares and, where they become one number, their sum; the mean divides it."""
    count, reduction = max(args[0].numel(), args[1].numel()), args[2] if len(args) > 2 else 1
    return Work(0, (2 * count, 3 * count, max(3 * count - 1, 0))[reduction])


def _negative_log_likelihood(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    """The sum of one number a target, each weighted where there are weights, and its mean."""
    targets, weighted, reduction = args[1].numel(), args[2] is not None, args[3]
    return Work(0, (targets if weighted else 0) + (0, targets, max(targets - 1, 0))[reduction])


def _pooled(args: Arguments, kwargs: Keywords, out: Any) -> int:
    """Numbers in the windows of all results."""
    window = args[1] if isinstance(args[1], (tuple, list)) else (args[1],)
    axes = _of(args, out).dim() - 2
    return _of(args, out).numel() * math.prod(window * axes if len(window) == 1 else window)


def _averaged(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    """A mean over each window."""
    return Work(0, _pooled(args, kwargs, out))


def _largest(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    """The largest of each window."""
    return Work(0, 0, _pooled(args, kwargs, out) - _of(args, out).numel())


def _gathered(place: int) -> Rule:
    """One addition for each number of the argument at ``place``, added where it belongs."""
    return _real(lambda args, kwargs, out: Work(0, args[place].numel()))


def _put(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    """Numbers put at places: nothing, or one addition each where they are accumulated."""
    accumulate = kwargs.get("accumulate", args[3] if len(args) > 3 else False)
    return Work(0, args[2].numel()) if accumulate else NOTHING


def _index_added(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    return Work(0, args[3].numel() * (1 if kwargs.get("alpha", 1) == 1 else 2))


# ── optimisers ──


def over_each(rule: Rule) -> Rule:
    """A rule for one tensor, over lists of them: lists that go with the first are taken apart beside it."""

    def costs(args: Arguments, kwargs: Keywords, out: Any) -> Work:
        first = args[0]
        results = out if out is not None else first
        calls = (
            tuple(each[place] if isinstance(each, (list, tuple)) and len(each) == len(first) else each for each in args)
            for place in range(len(first))
        )
        return _together((NOTHING, *(rule(call, kwargs, result) for call, result in zip(calls, results, strict=True))))

    return costs


def _fused_adam(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    """Decay, both moments (3 and 4), the root, its correction and eps (3), the step's quotient, factor and sum (3)."""
    numbers = sum(each.numel() for each in args[0])
    decay = 0 if kwargs.get("weight_decay", 0) == 0 else 1
    return Work(0, (13 + decay) * numbers, numbers if kwargs.get("amsgrad") else 0)


def _unscaled(args: Arguments, kwargs: Keywords, out: Any) -> Work:
    """Gradients times the inverse scale, each looked at for infinity."""
    numbers = sum(each.numel() for each in args[0])
    return Work(0, numbers, numbers)


# ── the table ──


def _words(names: str) -> list[str]:
    return names.split()


def _named(rule: Rule | Recomputing, names: str) -> dict[str, Rule | Recomputing]:
    return dict.fromkeys(_words(names), rule)


RULES: dict[str, Rule | Recomputing] = {
    # one function or operation an element
    **_named(_product, "mul multiply"),
    **_named(each(1, of_complex=11), "div divide true_divide"),
    **_named(_one, "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh"),
    **_named(_one, "tanh erf erfc floor_divide remainder fmod atan2"),
    **_named(_added, "add sub rsub subtract"),
    **_named(_square, "square"),
    **_named(_power, "pow"),
    # several
    **_named(each(3), "addcmul addcdiv lerp sigmoid silu sigmoid_backward tanh_backward"),
    **_named(each(8), "silu_backward"),
    **_named(_gelu, "gelu"),
    **_named(_gelu_backward, "gelu_backward"),
    **_named(each(4), "glu"),
    **_named(each(4, of_complex=4), "polar"),
    **_named(each(2), "native_dropout"),
    **_named(each(1), "native_dropout_backward _masked_scale"),
    # comparisons
    **_named(each(0, 1), "relu threshold threshold_backward maximum minimum fmax fmin clamp_min clamp_max"),
    **_named(each(0, 2), "hardtanh hardtanh_backward"),
    **_named(each(1, 1), "leaky_relu leaky_relu_backward _prelu_kernel"),
    **_named(each(2, 1), "elu"),
    **_named(each(4, 1), "softplus"),
    **_named(each(5, 1), "softplus_backward"),
    **_named(_magnitude, "abs absolute"),
    **_named(lambda args, kwargs, out: _compared(args, kwargs, args[0]), "equal"),
    **_named(_clamped, "clamp"),
    **_named(_compared, "eq ne lt le gt ge isnan isinf isfinite isclose"),
    # many numbers into one
    **_named(_summed, "sum nansum"),
    **_named(_reduced(1, 0), "mean"),
    **_named(_reduced(1, -1), "prod"),
    **_named(_deviations(0), "var var_mean"),
    **_named(_deviations(1), "std std_mean"),
    **_named(_chosen, "max min amax amin argmax argmin aminmax"),
    **_named(_real(_scanned), "cumsum cumprod"),
    **_named(_real(_norm), "linalg_vector_norm norm"),
    **_named(_log_sum_exp, "logsumexp"),
    **_named(_softmax, "_softmax _safe_softmax"),
    **_named(_log_softmax, "_log_softmax"),
    **_named(_softmax_backward, "_softmax_backward_data _log_softmax_backward_data"),
    # matrices
    **_named(_mm_rule, "mm"),
    **_named(_bmm_rule, "bmm"),
    **_named(_plus(lambda first, second, out: _mm(first.shape, second.shape)), "addmm"),
    **_named(_plus(lambda first, second, out: _bmm(first.shape, second.shape)), "baddbmm addbmm"),
    **_named(_plus(lambda first, second, out: 2 * first.numel()), "addmv"),
    **_named(_dot_rule, "dot vdot"),
    **_named(_mv_rule, "mv"),
    **_named(_outer_sum, "addr"),
    **_named(_scaled_mm_rule, "_scaled_mm"),
    **_named(_activated, "_addmm_activation"),
    **_named(_trilinear, "_trilinear"),
    # convolutions
    **_named(_real(_convolution), "convolution _convolution convolution_overrideable"),
    **_named(_real(_forward_convolution), "cudnn_convolution _slow_conv2d_forward _conv_depthwise2d conv_depthwise3d"),
    **_named(_real(_convolution_backward), "convolution_backward"),
    # attention
    **_named(_fused(0, _by_name), "_scaled_dot_product_flash_attention_for_cpu"),
    **_named(_fused_backward(_by_name), "_scaled_dot_product_flash_attention_for_cpu_backward"),
    **_named(_fused(0, _no_mask), "_scaled_dot_product_flash_attention"),
    **_named(_fused_backward(_no_mask), "_scaled_dot_product_flash_attention_backward"),
    **_named(_fused(0, _at(3)), "_scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention"),
    **_named(_fused(0, _at(3)), "_scaled_dot_product_fused_attention_overrideable"),
    **_named(_fused_backward(_at(4)), "_scaled_dot_product_efficient_attention_backward"),
    **_named(_fused_backward(_at(4)), "_scaled_dot_product_fused_attention_overrideable_backward"),
    **_named(_fused_backward(_at(8)), "_scaled_dot_product_cudnn_attention_backward"),
    **_named(_unless_packed(3, _fused(0, _no_mask, _TOKENS_FIRST)), "_flash_attention_forward"),
    **_named(_unless_packed(4, _fused(0, _at(3), _TOKENS_FIRST)), "_efficient_attention_forward"),
    **_named(_native_attention, "_native_multi_head_attention"),
    **_named(_encoder_layer, "_transformer_encoder_layer_fwd"),
    # recurrent layers
    **_named(_mkldnn_layer, "mkldnn_rnn_layer"),
    **_named(_mkldnn_layer_backward, "mkldnn_rnn_layer_backward"),
    **_named(_cudnn_layers, "_cudnn_rnn"),
    **_named(_cudnn_layers_backward, "_cudnn_rnn_backward"),
    **_named(_fused_lstm_cell, "_thnn_fused_lstm_cell"),
    **_named(_fused_gru_cell, "_thnn_fused_gru_cell"),
    # normalisations
    **_named(_layer_norm, "native_layer_norm"),
    **_named(_norm_backward(5, 10), "native_layer_norm_backward"),
    **_named(_group_norm, "native_group_norm"),
    **_named(_norm_backward(4, 10), "native_group_norm_backward"),
    **_named(_batch_norm, "native_batch_norm cudnn_batch_norm"),
    **_named(_norm_backward(2, 10), "native_batch_norm_backward cudnn_batch_norm_backward"),
    **_named(_rms_norm, "_fused_rms_norm"),
    **_named(_norm_backward(4, 7), "_fused_rms_norm_backward"),
    # losses, pooling, places
    **_named(_squared_error, "mse_loss"),
    **_named(each(3), "mse_loss_backward"),
    **_named(_negative_log_likelihood, "nll_loss_forward nll_loss2d_forward"),
    **_named(lambda args, kwargs, out: Work(0, 1), "nll_loss_backward nll_loss2d_backward"),
    **_named(_averaged, "avg_pool1d avg_pool2d avg_pool3d"),
    **_named(_largest, "max_pool2d_with_indices max_pool3d_with_indices"),
    **_named(_gathered(0), "max_pool2d_with_indices_backward max_pool3d_with_indices_backward"),
    **_named(_gathered(0), "embedding_dense_backward unfold_backward col2im"),
    **_named(_gathered(3), "scatter_add"),
    **_named(_real(_index_added), "index_add"),
    **_named(_real(_put), "index_put _index_put_impl _unsafe_index_put"),
    # optimisers
    **_named(_fused_adam, "_fused_adam _fused_adamw"),
    **_named(_unscaled, "_amp_foreach_non_finite_check_and_unscale"),
}
"""The rule of each operator, by its name without the underscore that means in place."""

FREE: frozenset[str] = frozenset(
    _words("""
    _conj _conj_physical _cudnn_rnn_flatten_weight _local_scalar_dense _neg_view _reshape_alias _reshape_copy _to_copy
    _unique2 _unsafe_index _unsafe_view _use_cudnn_rnn_flatten_weight _version alias all any arange argsort as_strided
    as_strided_scatter bernoulli bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor
    broadcast_to bucketize cat cauchy ceil channel_shuffle chunk clone complex concat conj conj_physical constant_pad_nd
    contiguous copy copysign data detach detach_copy diag diag_embed diagonal diagonal_backward diagonal_copy
    diagonal_scatter dim embedding empty empty_like empty_permuted empty_strided expand expand_as expand_copy eye
    exponential fill flatten flip floor full full_like gather geometric hstack im2col imag index index_copy index_fill
    index_select is_complex is_contiguous is_floating_point is_nonzero is_pinned is_same_size item lift lift_fresh
    lift_fresh_copy linspace log_normal logical_and logical_not logical_or logical_xor masked_fill masked_scatter
    masked_select meshgrid moveaxis movedim multinomial narrow narrow_copy neg negative new_empty new_empty_strided
    new_full new_ones new_zeros nonzero normal normal_functional numel one_hot ones ones_like permute permute_copy
    pixel_shuffle pixel_unshuffle poisson positive put rand rand_like randint randint_like randn randn_like random
    randperm ravel real record_stream reflection_pad1d reflection_pad2d repeat repeat_interleave replication_pad1d
    replication_pad2d reshape resize resize_as resolve_conj resolve_neg roll rot90 round scalar_tensor scatter
    searchsorted select select_backward select_copy select_scatter set sgn sign signbit slice slice_backward slice_copy
    slice_scatter sort split split_copy split_with_sizes split_with_sizes_copy squeeze squeeze_copy stack storage_offset
    stride t t_copy take take_along_dim tile to topk transpose transpose_copy tril tril_indices triu triu_indices trunc
    unbind unbind_copy unflatten unfold unfold_copy uniform unique_consecutive unsafe_chunk unsafe_split
    unsafe_split_with_sizes unsqueeze unsqueeze_copy value_selecting_reduction_backward vander view view_as
    view_as_complex view_as_complex_copy view_as_real view_as_real_copy view_copy vsplit vstack where zero zeros
    zeros_like
    """)
)
"""Operators that cost nothing: they make, copy, look at, choose, convert or move numbers, or draw random ones."""
