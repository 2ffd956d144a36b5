"""What training keeps in memory, in closed form: parameters, gradients, optimizer state, activations, shares.

Numbers are counted in elements where their format is left open, and in bytes where the name says so. Everything is
plain arithmetic on whole numbers, except where a function says that it takes symbols too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from itertools import pairwise
from math import ceil, prod
from typing import Any

Number = Any
"""A whole number, a fraction or a symbol."""
Shape = tuple[int, ...]
Settings = Mapping[str, Any]
"""Settings of an optimizer by name; what is not there is at torch's default."""


# ── bytes for each parameter ──


@dataclass(frozen=True)
class Formats:
    """Bytes of one number of each thing that training keeps for every parameter."""

    weight: int
    gradient: int
    moments: int
    """Of all moments together."""
    master: int = 0
    """Of the copy that the optimizer works on, with its gradient, where it is not the weight itself."""

    @property
    def total(self) -> int:
        """Bytes a parameter."""
        return self.weight + self.gradient + self.moments + self.master


FLOAT32_ADAMW = Formats(weight=4, gradient=4, moments=8)
"""Everything in float32."""
BFLOAT16_WITH_MASTER = Formats(weight=2, gradient=2, moments=8, master=8)
"""bfloat16 weights and gradients; a float32 copy of both for the optimizer."""
SCALAR = 4
"""Bytes of a step counter, of which there is one a tensor."""


# ── optimizers: what they keep ──


def _adam(settings: Settings) -> int:
    return 3 if settings.get("amsgrad") else 2


def _rmsprop(settings: Settings) -> int:
    return 1 + bool(settings.get("momentum")) + bool(settings.get("centered"))


def _always(copies: int) -> Any:
    return lambda settings: copies


COPIES: Mapping[str, Any] = {
    "SGD": lambda settings: int(bool(settings.get("momentum"))),
    "Adam": _adam,
    "AdamW": _adam,
    "NAdam": _always(2),
    "RAdam": _always(2),
    "Adamax": _always(2),
    "Adadelta": _always(2),
    "Rprop": _always(2),
    "RMSprop": _rmsprop,
    "Adagrad": _always(1),
    "ASGD": _always(1),
    "Muon": _always(1),
}
"""How many numbers an optimizer keeps for each number of a parameter, by its settings.

LBFGS and Adafactor are not here: ``optimizer_state`` counts them.
"""


def optimizer_state(name: str, settings: Settings, shapes: Sequence[Shape], pairs: int = 0) -> int:
    """Numbers that an optimizer keeps after its first step, single ones (counters, factors) left out.

    ``pairs`` is how many pairs of earlier steps and changes LBFGS has stored, at most its history. Raises KeyError for
    an optimizer that is not known here.
    """
    numbers = sum(prod(shape) for shape in shapes)
    if name == "LBFGS":
        return (2 + 2 * pairs) * numbers
    if name == "Adafactor":
        return sum(adafactor_state(shape) for shape in shapes)
    copies: int = COPIES[name](settings)
    return copies * numbers


def adafactor_state(shape: Shape) -> int:
    """Numbers that Adafactor keeps for a parameter: one a row and one a column of each matrix, all for a vector."""
    if len(shape) < 2:
        return prod(shape)
    return prod(shape[:-1]) + prod(shape[:-2]) * shape[-1]


# ── optimizers: what a step takes while it runs ──


@dataclass(frozen=True)
class Temporaries:
    """Tensors that an optimizer's step takes beside what it keeps, each as large as its parameter.

    One parameter after the other, at each high moment: so many of the one before, which their successors have not
    replaced yet, and so many of the one at hand (``one_by_one``). All at once (foreach): so many of every parameter
    (``at_once``).
    """

    one_by_one: tuple[tuple[int, int], ...]
    at_once: int


TEMPORARIES: Mapping[str, Temporaries] = {
    "SGD": Temporaries(((0, 0),), 0),
    "Adam": Temporaries(((1, 2),), 1),
    "AdamW": Temporaries(((1, 2),), 1),
    "NAdam": Temporaries(((1, 2),), 1),
    "RAdam": Temporaries(((0, 2),), 1),
    "Adamax": Temporaries(((0, 1),), 1),
    "Adadelta": Temporaries(((2, 1), (1, 2)), 2),
    "RMSprop": Temporaries(((1, 1),), 1),
    "Adagrad": Temporaries(((1, 1),), 2),
    "ASGD": Temporaries(((0, 0),), 1),
}
"""What a step takes at torch's defaults: no weight decay but AdamW's, nothing maximised.

The functions below know Rprop, Muon and Adafactor, whose temporaries are not all as large as the parameter; LBFGS,
which works on one long vector, is not here.
"""


def one_by_one(temporaries: Temporaries, sizes: Sequence[int]) -> int:
    """The most numbers that a step takes which goes through parameters of these sizes in their order."""
    before = [0, *sizes][: len(sizes)]
    moments = (old * m + new * n for m, n in zip(before, sizes, strict=True) for old, new in temporaries.one_by_one)
    return max(moments, default=0)


def one_by_one_bytes(name: str, shapes: Sequence[Shape], itemsize: int) -> int:
    """The most bytes that an optimizer's step takes which goes through parameters in their order.

    Single numbers are left out. Muon brings a matrix, in bfloat16, nearer to orthogonal: beside the update there are
    two of these, and two square matrices of its smaller side. Adafactor is known for one parameter only; ValueError for
    more.
    """
    if name == "Muon":
        return max(prod(shape) * (itemsize + 4) + 4 * min(shape) ** 2 for shape in shapes)
    if name == "Adafactor":
        (shape,) = shapes
        matrices = prod(shape[:-2])
        return itemsize * (prod(shape) + (adafactor_state(shape) + matrices if len(shape) > 1 else prod(shape)))
    temporaries = Temporaries(((0, 3),), 0) if name == "Rprop" else TEMPORARIES[name]
    return itemsize * one_by_one(temporaries, [prod(shape) for shape in shapes])


def at_once_bytes(name: str, shapes: Sequence[Shape], itemsize: int) -> int:
    """The most bytes that a grouped step takes, single numbers left out.

    Rprop adds, for one parameter after the other, a tensor and a mask to those of all; Adafactor a mean for each
    matrix.
    """
    sizes = [prod(shape) for shape in shapes]
    if name == "Rprop":
        return itemsize * sum(sizes) + (itemsize + 1) * max(sizes)
    if name == "Adafactor":
        return itemsize * (sum(sizes) + sum(prod(shape[:-2]) for shape in shapes if len(shape) > 1))
    return itemsize * TEMPORARIES[name].at_once * sum(sizes)


# ── activations of a chain ──


class Keeps(Enum):
    """What an activation keeps for its backward pass."""

    NOTHING = "nothing"
    OUTPUT = "its output, as ReLU, tanh and the sigmoid do; the linear layer after it keeps the same tensor"
    INPUT = "its input, as GELU, SiLU and leaky ReLU do"
    MASK = "a mask as large as its output, as dropout does on a CPU, in the format of its input"


@dataclass(frozen=True)
class Chain:
    """Linear layers of these widths, an activation between each two, and after the last where ``closed``.

    ``trained`` says of each layer whether its weight and bias are.
    """

    widths: tuple[int, ...]
    keeps: Keeps
    trained: tuple[bool, ...]
    closed: bool


def chain_saved(chain: Chain, rows: int) -> int:
    """Numbers that a chain keeps for its backward pass, parameters left out, each tensor counted once.

    A linear layer keeps its input if, and only if, its weight needs a gradient. An activation keeps what ``keeps``
    says if something before it needs one. The network's own input needs none.
    """
    last = len(chain.trained) - 1
    total = 0
    needed = kept_by_activation = False
    for place, (fan_in, fan_out) in enumerate(pairwise(chain.widths)):
        if chain.trained[place] or kept_by_activation:
            total += rows * fan_in
        needed = needed or chain.trained[place]
        active = needed and (place < last or chain.closed)
        total += rows * fan_out * (active and chain.keeps in (Keeps.INPUT, Keeps.MASK))
        kept_by_activation = active and chain.keeps is Keeps.OUTPUT
    return total + (rows * chain.widths[-1] if kept_by_activation else 0)


def tensors_saved(layers: int, keeps: Keeps, closed: bool) -> int:
    """Tensors that a chain of equally wide, trained layers keeps."""
    if keeps is Keeps.NOTHING:
        return layers
    if keeps is Keeps.OUTPUT:
        return layers + closed
    return 2 * layers - 1 + closed


def rule_of_thumb(rows: Number, width: Number, layers: Number) -> Number:
    """Numbers that a model keeps for its backward pass, by the short formula; takes symbols."""
    return rows * width * layers


def chain_error(layers: int, keeps: Keeps) -> Fraction:
    """The most by which the short formula is off for equally wide, trained layers, as a share of what is kept."""
    if keeps is Keeps.NOTHING:
        return Fraction(0)
    if keeps is Keeps.OUTPUT:
        return Fraction(1, layers + 1)
    return Fraction(1, 2)


def chain_by_phase(widths: Sequence[int], rows: int, on_top: int) -> dict[tuple[str, str], int]:
    """Bytes by phase and kind of the first step of AdamW on linear layers with ReLU between them, all in float32.

    The loss is the mean square of what comes out, which is kept for its gradient. The step itself takes ``on_top``. The
    loss, a single number, is left out.
    """
    shapes = [shape for fan_in, fan_out in pairwise(widths) for shape in ((fan_out, fan_in), (fan_out,))]
    parameters = FLOAT32_ADAMW.weight * sum(prod(shape) for shape in shapes)
    state = FLOAT32_ADAMW.moments * sum(prod(shape) for shape in shapes) + SCALAR * len(shapes)
    kept = FLOAT32_ADAMW.weight * rows * sum(widths[1:])
    grows = {
        "after forward": (kept, 0, 0, 0),
        "after backward": (0, parameters, 0, 0),
        "inside the step": (0, parameters, state, on_top),
        "after the step": (0, parameters, state, 0),
    }
    found = {}
    for phase, (saved, gradients, moments, transients) in grows.items():
        found[phase, "parameters"] = parameters
        found[phase, "inputs"] = FLOAT32_ADAMW.weight * rows * widths[0]
        found[phase, "saved for backward"] = saved
        found[phase, "gradients"] = gradients
        found[phase, "optimizer state"] = moments
        found[phase, "transients"] = transients
    return found


def rows_to_exceed(width: Number, bias: Number) -> Number:
    """The rows above which an equally wide chain of linear layers keeps more numbers than it has parameters.

    ``bias`` is one with biases and zero without; takes symbols.
    """
    return width + bias


def checkpointed_saved(rows: int, width: int, layers: int, segment: int) -> int:
    """Numbers kept after the forward pass where every ``segment`` equally wide linear layers are done again."""
    return rows * width * ceil(layers / segment)


# ── activations of a transformer block ──


@dataclass(frozen=True)
class Block:
    """A pre-norm block: attention with as many key heads as heads, and GELU on four times the width; all biased."""

    batch: int
    context: int
    width: int
    heads: int

    @property
    def unit(self) -> int:
        """Numbers of one tensor [batch, context, width]."""
        return self.batch * self.context * self.width


def block_saved_bytes(block: Block) -> int:
    """Bytes that a float32 block with fused attention keeps for its backward pass.

    16 units: the inputs of both norms and what they give, query, key, value and the heads' output, GELU's input and
    output of four units each. Beside them a mean and a deviation for each token and norm, and for each head's row of
    scores the logarithm of its sum.
    """
    tokens = block.batch * block.context
    return 4 * (16 * block.unit + 4 * tokens + block.heads * tokens)


def composed_block_saved_bytes(block: Block) -> int:
    """Bytes that the same block keeps with attention composed of its parts.

    Instead of the logarithms the softmax of all scores, which are heads * context / width units, and a mask.
    """
    tokens = block.batch * block.context
    scores = block.heads * tokens * block.context
    return 4 * (16 * block.unit + 4 * tokens + scores) + block.context**2


def block_units(width: Number, context: Number, heads: Number) -> Number:
    """Units that a block with composed attention keeps, in short; takes symbols."""
    return 16 + heads * context / width


# ── embeddings ──


def sparse_gradient_bytes(tokens: int, width: int, itemsize: int) -> int:
    """Bytes of an embedding's sparse gradient: for each token looked up a row, and its place in eight bytes."""
    return tokens * (width * itemsize + 8)


# ── shares of devices ──


def own_rows(rows: int, devices: int, rank: int) -> int:
    """Rows that fall to a device where chunks of ceil(rows / devices) are dealt out in order."""
    chunk = ceil(rows / devices)
    return max(0, min(rows - rank * chunk, chunk))


def sharded_bytes(shapes: Iterable[Shape], devices: int, rank: int, formats: Formats = FLOAT32_ADAMW) -> int:
    """Bytes a device holds where each parameter is sharded by its rows, counters left out.

    Weight and gradient are padded to the largest share, moments are not.
    """
    total = 0
    for rows, *rest in shapes:
        padded = ceil(rows / devices) * prod(rest)
        own = own_rows(rows, devices, rank) * prod(rest)
        total += padded * (formats.weight + formats.gradient) + own * formats.moments
    return total


def evenly_sharded_bytes(parameters: Number, devices: Number, formats: Formats = FLOAT32_ADAMW) -> Number:
    """Bytes a device holds where everything is shared out without a rest; takes symbols."""
    return formats.total * parameters / devices


class Replicas(Enum):
    """How replicas of a model bring their gradients together, and the bytes that takes for each gradient's byte."""

    SEPARATE_BUCKETS = 1
    """Gradients are copied into buckets, which stay."""
    GRADIENTS_IN_BUCKETS = 0
    """Gradients are views of the buckets."""


def replicated_bytes(parameters: Number, replicas: Replicas, formats: Formats = FLOAT32_ADAMW) -> Number:
    """Bytes a device holds where every device holds all; takes symbols."""
    return (formats.total + replicas.value * formats.gradient) * parameters


# ── blocks of a device ──

CUDA_BLOCK = 512
"""Bytes of which CUDA's caching allocator gives whole multiples."""


def block_bytes(nbytes: int) -> int:
    """Bytes of the block in which CUDA's caching allocator puts a storage of at most 1 MiB; none for an empty one.

    A larger storage can be given what is left of a segment besides.
    """
    return CUDA_BLOCK * ceil(nbytes / CUDA_BLOCK)
