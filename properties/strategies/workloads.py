"""Work to time: products, elementwise operations, training passes and copies, large enough for what they stand for.

A description tells sizes, numbers and device; ``work`` makes the tensors and gives what the clock takes. Inputs are
normal random numbers, never zeros, which cards multiply with less power; they take turns, so that those of a turn have
left the caches when it comes round again.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.nn import functional as F

from properties.instruments import devices
from properties.instruments.clock import THREAD, WALL, Work, seconds_of, timer_of
from properties.instruments.devices import MEBI
from properties.instruments.kernels import import_kernels
from properties.levels import Level, level
from properties.ratios import Band
from properties.strategies.description import Description
from properties.strategies.steps import Step
from properties.strategies.transformers import Attention, Block
from reference import linear, transformer
from reference.hardware import Arithmetic
from reference.planner import AttentionCounted
from reference.transformer import Decoder

COLD = {"cpu": 128 * MEBI, "cuda": 256 * MEBI}
"""Bytes of inputs after which the caches of a device hold nothing of the first."""
TILE = 2**16
"""Different random numbers on a CPU, where making more would take longer than the work."""

Numbers = Shaped[Tensor, "..."]


def dtype_of(arithmetic: Arithmetic) -> torch.dtype:
    """How the numbers are stored."""
    names = {Arithmetic.FP8: "float8_e4m3fn", Arithmetic.FP16: "float16", Arithmetic.BF16: "bfloat16"}
    dtype: torch.dtype = getattr(torch, names.get(arithmetic, "float32"))
    return dtype


def normal_numbers(shape: Sequence[int], arithmetic: Arithmetic, device: str, seed: int = 0) -> Numbers:
    """Normal numbers of variance one, from their seed; on a CPU the same ones over and over."""
    generator = torch.Generator(device).manual_seed(seed)
    count = math.prod(shape)
    drawn = count if device != "cpu" else min(count, TILE)
    numbers = torch.randn(drawn, generator=generator, device=device)
    if drawn < count:
        numbers = numbers.repeat(-(-count // drawn))[:count]
    return numbers.to(dtype_of(arithmetic)).view(*shape)


def taking_turns(make: Callable[[int], Any], nbytes: int, device: str, cold: int) -> Callable[[], Any]:
    """Inputs of ``nbytes`` each from ``make``, which gets a seed: the next at every call, ``cold`` bytes in all.

    Of inputs that are too small for that there are a hundred. Making them takes some more: float32 numbers, on their
    way to a narrower format.
    """
    sets = min(max(2, -(-cold // nbytes)), 100)
    devices.require_room((sets + 2) * nbytes, device)
    return itertools.cycle([make(2 * seed) for seed in range(sets)]).__next__


def in_precision(arithmetic: Arithmetic, device: str, run: Callable[[Any], object]) -> Callable[[Any], object]:
    """``run``, with TF32 switched on or off before it where float32 numbers are multiplied on a CUDA device."""
    if device == "cpu" or dtype_of(arithmetic) is not torch.float32:
        return run

    def switched(inputs: Any) -> object:
        torch.backends.cuda.matmul.allow_tf32 = arithmetic is Arithmetic.TF32
        return run(inputs)

    return switched


# ── products ──


def multiply(operands: tuple[Numbers, Numbers, Numbers]) -> object:
    """The product of the first two into the third."""
    left, right, out = operands
    return torch.mm(left, right, out=out)


def multiply_fp8(operands: tuple[Numbers, Numbers, Numbers]) -> object:
    """The product of two FP8 matrices, the second column-major, both scaled by one number."""
    left, right, scale = operands
    if not hasattr(F, "scaled_mm"):  # before torch 2.10
        return torch._scaled_mm(left, right, scale, scale, out_dtype=torch.bfloat16, use_fast_accum=True)
    whole = F.ScalingType.TensorWise
    return F.scaled_mm(left, right, scale, whole, scale, whole, output_dtype=torch.bfloat16, use_fast_accum=True)


@dataclass(frozen=True, repr=False)
class Multiplication(Description):
    """A [rows, inner] matrix times an [inner, columns] one."""

    rows: int
    inner: int
    columns: int
    arithmetic: Arithmetic = Arithmetic.FP32
    device: str = "cpu"

    @property
    def flops(self) -> int:
        """By the closed form."""
        return int(linear.matmul_flops(self.rows, self.inner, self.columns))

    def doubled(self, size: str) -> Multiplication:
        """The same with one of its sizes doubled."""
        return replace(self, **{size: 2 * getattr(self, size)})

    def work(self) -> Work:
        """Into memory that is there already."""
        devices.require(self.arithmetic, self.device)
        numbers = self.rows * self.inner + self.inner * self.columns + self.rows * self.columns
        nbytes = numbers * dtype_of(self.arithmetic).itemsize
        # A large product on a CPU takes its operands out of its caches block by block, wherever they came from.
        cold = COLD[self.device] if self.device != "cpu" else 0
        inputs = taking_turns(self._operands, nbytes, self.device, cold)
        run = multiply_fp8 if self.arithmetic is Arithmetic.FP8 else multiply
        return Work(in_precision(self.arithmetic, self.device, run), inputs, timer_of(self.device))

    def _operands(self, seed: int) -> tuple[Numbers, Numbers, Numbers]:
        left = normal_numbers((self.rows, self.inner), self.arithmetic, self.device, seed)
        if self.arithmetic is Arithmetic.FP8:
            right = normal_numbers((self.columns, self.inner), self.arithmetic, self.device, seed + 1)
            return left, right.t(), torch.ones((), device=self.device)
        right = normal_numbers((self.inner, self.columns), self.arithmetic, self.device, seed + 1)
        return left, right, left.new_empty(self.rows, self.columns)


SIDES = {"cpu": 384, "cuda": 8192}
"""The side of a square product that fills a device's units."""
LARGE = {"cpu": Arithmetic.FP32, "cuda": Arithmetic.BF16}
"""What a device multiplies large matrices in."""


def square(device: str, arithmetic: Arithmetic | None = None) -> Multiplication:
    """A product that fills a device's units, in the numbers it is best at unless told others."""
    side = SIDES[device]
    return Multiplication(side, side, side, arithmetic or LARGE[device], device)


def band_of_speeds(rule: float, above: float = 1.35) -> Band:
    """How much faster a product may be where the peaks say ``rule``: power and memory hold back the faster one more.

    ``above`` is how many times the rule it may be at most: as much further from its peak the slower one may stay.
    """
    return Band(max(0.4 * rule, 1.15), above * rule) if rule > 1.15 else Band(0.8 * rule, 1.25 * rule)


# ── elementwise work and copies ──


@dataclass(frozen=True, repr=False)
class ElementwiseProduct(Description):
    """Two vectors multiplied element by element."""

    elements: int
    arithmetic: Arithmetic = Arithmetic.FP32
    device: str = "cpu"

    @property
    def flops(self) -> int:
        """One for each element."""
        return int(linear.elementwise_flops(1, self.elements))

    @property
    def nbytes(self) -> int:
        """Two reads and a write of each element."""
        return 3 * self.elements * dtype_of(self.arithmetic).itemsize

    def work(self) -> Work:
        """Into memory that is there already."""
        inputs = taking_turns(self._operands, self.nbytes, self.device, COLD[self.device])
        return Work(
            lambda operands: torch.mul(operands[0], operands[1], out=operands[2]), inputs, timer_of(self.device)
        )

    def _operands(self, seed: int) -> tuple[Numbers, Numbers, Numbers]:
        left, right = (normal_numbers((self.elements,), self.arithmetic, self.device, seed + which) for which in (0, 1))
        return left, right, torch.empty_like(left)


ELEMENTS = {"cpu": 2**22, "cuda": 2**27}
"""Elements of a vector that a device has to fetch from its memory; more on a GPU, where a launch takes time too."""


MANY = {"cpu": 10**7, "cuda": 10**8}
"""Elements of which a copy takes far longer than a view."""


def many_elements(device: str) -> int:
    """So many that a copy of them takes far longer than a view; from the thorough level on a processor has more too."""
    thorough = level() in (Level.THOROUGH, Level.EXHAUSTIVE)
    return MANY["cuda"] if thorough and device == "cpu" else MANY[device]


@dataclass(frozen=True, repr=False)
class Clone(Description):
    """A matrix of ten rows of float32 numbers copied to memory of its own."""

    elements: int
    device: str = "cpu"

    @property
    def flops(self) -> int:
        """None."""
        return 0

    def work(self) -> Work:
        """The time of the device."""
        x = self._matrix()
        return Work(_copied, lambda: x, timer_of(self.device))

    def awaited(self) -> Work:
        """The time of the host, which waits for the device."""
        x = self._matrix()
        return Work(_copied if self.device == "cpu" else _copied_and_awaited, lambda: x, host_clock(self.device))

    def _matrix(self) -> Float[Tensor, "rows columns"]:
        devices.require_room(8 * self.elements, self.device)
        return normal_numbers((10, self.elements // 10), Arithmetic.FP32, self.device)


def _copied(x: Numbers) -> Numbers:
    return x.clone()


def _copied_and_awaited(x: Numbers) -> None:
    x.clone()
    torch.cuda.synchronize()


def host_clock(device: str) -> Any:
    """The host's clock for what it asks of a device: that of its thread, which knows nothing of waiting, for a CPU."""
    return THREAD if device == "cpu" else WALL


@dataclass(frozen=True, repr=False)
class ViewOperation(Description):
    """A view operation on a matrix of ten rows, whose numbers nobody looks at."""

    step: Step
    elements: int
    device: str = "cpu"

    def work(self) -> Work:
        """The time of the host."""
        devices.require_room(4 * self.elements, self.device)
        x = torch.empty(10, self.elements // 10, device=self.device)
        return Work(self.step.apply, lambda: x, host_clock(self.device))


# ── copies from the host ──


class Host(Enum):
    """Memory of the host that a device copies from."""

    PINNED = "held in place by the driver"
    PAGEABLE = "as the system gives it"

    def __repr__(self) -> str:
        return f"Host.{self.name}"


@dataclass(frozen=True, repr=False)
class Upload(Description):
    """A copy of whole MiB from memory of the host to a CUDA device, told not to wait."""

    mebibytes: int
    memory: Host
    device: str = "cuda"

    def awaited(self) -> Work:
        """The time until the copy is there."""
        return Work(self._awaited, self._when_idle(), WALL)

    def call(self) -> Work:
        """The time until the call is back; where several are timed together, the first is made to an idle device."""
        return Work(_upload, self._when_idle(), WALL)

    def _when_idle(self) -> Callable[[], tuple[Numbers, Numbers]]:
        """The next pair, once the device has nothing else to do."""
        pairs = self._pairs()

        def waited() -> tuple[Numbers, Numbers]:
            torch.cuda.synchronize()
            return pairs()

        return waited

    @staticmethod
    def _awaited(pair: tuple[Numbers, Numbers]) -> None:
        _upload(pair)
        torch.cuda.synchronize()

    def _pairs(self) -> Callable[[], tuple[Numbers, Numbers]]:
        """Where it goes and where it comes from: the next of two sources each time."""
        devices.require_room(self.mebibytes * MEBI, self.device)
        there = torch.empty(self.mebibytes * MEBI // 4, device=self.device)
        return itertools.cycle([(there, source) for source in (self.source(0), self.source(1))]).__next__

    def source(self, seed: int = 0) -> Float[Tensor, "elements"]:
        """Random numbers in the host's memory."""
        numbers = normal_numbers((self.mebibytes * MEBI // 4,), Arithmetic.FP32, "cpu", seed)
        return numbers.pin_memory() if self.memory is Host.PINNED else numbers


def _upload(pair: tuple[Numbers, Numbers]) -> None:
    there, source = pair
    there.copy_(source, non_blocking=True)


@dataclass(frozen=True, repr=False)
class CopyAndCompute(Description):
    """A copy from the host, asked for first, and as many products as take about as long."""

    upload: Upload

    def works(self) -> tuple[Work, Work]:
        """On two streams, and one after the other on one: the time until both are done."""
        product = square(self.upload.device)
        operands = product.work().prepare()
        alone = seconds_of(Work(_multiplied, lambda: (1, operands), WALL))
        times = max(1, round(seconds_of(self.upload.awaited()) / alone))
        pairs = self.upload._pairs()
        side: Any = torch.cuda.Stream(self.upload.device)  # type: ignore[no-untyped-call]

        def on_two_streams(pair: tuple[Numbers, Numbers]) -> None:
            with torch.cuda.stream(side):
                _upload(pair)
            _multiplied((times, operands))

        def on_one(pair: tuple[Numbers, Numbers]) -> None:
            _upload(pair)
            _multiplied((times, operands))

        return Work(on_two_streams, pairs, WALL), Work(on_one, pairs, WALL)


def _multiplied(products: tuple[int, tuple[Numbers, Numbers, Numbers]]) -> None:
    times, operands = products
    for _ in range(times):
        multiply(operands)
    torch.cuda.synchronize()


# ── FLOPs as a measure of time ──


@dataclass(frozen=True, repr=False)
class Pair(Description):
    """Two pieces of work, and how many times as long the first takes if FLOPs are the measure of time."""

    first: Multiplication | ElementwiseProduct | Clone
    second: Multiplication
    bound_by_arithmetic: bool

    @property
    def rule(self) -> float:
        """The first's FLOPs over the second's."""
        return self.first.flops / self.second.flops

    @property
    def band(self) -> Band:
        """About the rule."""
        return Band(0.8 * self.rule, 1.25 * self.rule) if self.rule else Band(0.0, 0.25)


def pairs(device: str) -> tuple[Pair, ...]:
    """Large products, which arithmetic bounds; and elementwise work and copies, which the memory does."""
    large = square(device)
    flat = replace(large, rows=2 * large.rows, inner=large.inner // 2)
    side = large.rows // {"cpu": 3, "cuda": 16}[device]
    small = Multiplication(side, side, side, LARGE[device], device)
    return (
        Pair(flat, large, bound_by_arithmetic=True),
        Pair(large.doubled("columns"), large, bound_by_arithmetic=True),
        Pair(ElementwiseProduct(small.flops, LARGE[device], device), small, bound_by_arithmetic=False),
        Pair(Clone(many_elements(device) // 10, device), small, bound_by_arithmetic=False),
    )


# ── training passes ──


@dataclass(frozen=True, repr=False)
class Layers(Description):
    """Rows of data through square matrices of one width, and the gradients back."""

    rows: int
    width: int
    layers: int
    input_gradient: bool = True
    arithmetic: Arithmetic = Arithmetic.FP32
    device: str = "cpu"

    @property
    def ratio(self) -> float:
        """FLOPs of the backward pass over those of the forward pass."""
        return 2.0 if self.input_gradient else float(linear.backward_over_forward(self.layers))

    def passes(self) -> Passes:
        """The tensors, made."""
        devices.require(self.arithmetic, self.device)
        numbers = 2 * self.layers * self.width**2 + 3 * self.layers * self.rows * self.width
        devices.require_room(numbers * dtype_of(self.arithmetic).itemsize, self.device)
        shape = (self.width, self.width)
        made = (normal_numbers(shape, self.arithmetic, self.device, seed) for seed in range(self.layers))
        weights = [(each / math.sqrt(self.width)).requires_grad_() for each in made]
        x = normal_numbers((self.rows, self.width), self.arithmetic, self.device, self.layers)
        x.requires_grad_(self.input_gradient)
        arriving = normal_numbers((self.rows, self.width), self.arithmetic, self.device, self.layers + 1)

        def forward() -> Numbers:
            return list(itertools.accumulate(weights, torch.matmul, initial=x))[-1]

        wanted = [x, *weights] if self.input_gradient else weights
        return Passes(forward, wanted, arriving, self.arithmetic, self.device)


LAYERS = {"cpu": (1024, 320), "cuda": (8192, 8192)}
"""Rows and width of layers that fill a device's units."""
SMALLER = {"cpu": 128, "cuda": 4096}
"""Both for layers that are done in time in the slowest numbers too."""


def layers(device: str, input_gradient: bool = True, arithmetic: Arithmetic | None = None) -> Layers:
    """Two matrices that fill a device's units."""
    rows, width = LAYERS[device]
    return Layers(rows, width, 2, input_gradient, arithmetic or LARGE[device], device)


def smaller_layers(device: str, arithmetic: Arithmetic) -> Layers:
    """Two matrices, with which the slowest numbers of a device are done in time."""
    side = SMALLER[device]
    return Layers(side, side, 2, True, arithmetic, device)


def around(rule: float) -> Band:
    """Where the time of a backward pass over that of its forward pass may lie."""
    return Band(0.85 * rule, 1.2 * rule)


@dataclass(frozen=True, repr=False)
class OneBlock(Description):
    """A decoder's block: attention and a feed-forward layer of four times the width, each after a norm."""

    batch: int
    context: int
    width: int
    heads: int
    attention: Attention
    arithmetic: Arithmetic = Arithmetic.FP32
    device: str = "cpu"

    @property
    def sizes(self) -> Decoder:
        """As the closed forms take them."""
        return Decoder(1, self.width, self.heads, self.heads, self.width // self.heads, 4 * self.width, 1, self.context)

    @property
    def forward_flops(self) -> int:
        """Those of its products, every score counted."""
        weights = 2 * self.batch * self.context * transformer.block_weights(self.sizes)
        scores = transformer.attention_flops(self.sizes, self.batch, self.context, AttentionCounted.FULL)
        return int(weights + scores)

    @property
    def ratio(self) -> float:
        """FLOPs of the backward over those of the forward pass, the causal half of attention counted where it is fused,
        and the scores that it computes again.
        """
        fused = self.attention is Attention.FUSED
        counted = AttentionCounted.CAUSAL if fused else AttentionCounted.FULL
        between = transformer.attention_flops(self.sizes, self.batch, self.context, counted)
        weights = 2 * self.batch * self.context * transformer.block_weights(self.sizes)
        return float(2 + (0.5 * between / (between + weights) if fused else 0.0))

    @property
    def band(self) -> Band:
        """About the ratio, and above it once more what is computed again: fused attention's backward kernels reach less
        of the peak than its forward ones.
        """
        return Band(self.ratio - 0.3, self.ratio + 0.3 + (self.ratio - 2))

    def passes(self) -> Passes:
        """The module and its input, made."""
        devices.require(self.arithmetic, self.device)
        numbers = 24 * self.width**2 + 40 * self.batch * self.context * self.width
        numbers += 4 * self.batch * self.heads * self.context**2 * (self.attention is Attention.COMPOSED)
        devices.require_room(numbers * dtype_of(self.arithmetic).itemsize, self.device)
        block = self._module()
        shape = (self.batch, self.context, self.width)
        x = normal_numbers(shape, self.arithmetic, self.device).requires_grad_()
        arriving = normal_numbers(shape, self.arithmetic, self.device, seed=1)
        return Passes(lambda: block(x, None), [x, *block.parameters()], arriving, self.arithmetic, self.device)

    def _module(self) -> Block:
        import_kernels()
        with torch.device("meta"):
            block = Block(self.sizes, self.attention).to(dtype_of(self.arithmetic)).to_empty(device=self.device)
        for seed, weight in enumerate(block.parameters()):
            numbers = normal_numbers(weight.shape, self.arithmetic, self.device, seed)
            weight.data.copy_(numbers / math.sqrt(weight.shape[-1]))
        return block


BLOCKS = (
    OneBlock(8, 512, 4096, 32, Attention.COMPOSED, Arithmetic.BF16, "cuda"),
    OneBlock(4, 1024, 4096, 32, Attention.FUSED, Arithmetic.BF16, "cuda"),
    OneBlock(1, 16384, 2048, 16, Attention.FUSED, Arithmetic.BF16, "cuda"),
)
"""Blocks whose products fill a GPU: attention composed, a small part of it, and fused, a small part and a large one."""


@dataclass(frozen=True)
class Passes:
    """A forward pass, the tensors whose gradients are wanted, and the gradient that arrives at the end."""

    compute: Callable[[], Numbers]
    wanted: Sequence[Numbers]
    arriving: Float[Tensor, "..."]
    arithmetic: Arithmetic
    device: str

    def forward(self) -> Work:
        """The forward pass, everything kept for the backward pass."""
        return self._work(lambda _: self.compute(), lambda: None)

    def backward(self) -> Work:
        """The backward pass; each time a forward pass comes before it, which is not timed."""
        return self._work(self._back, self.compute)

    def both(self) -> Work:
        """One after the other."""
        return self._work(lambda _: self._back(self.compute()), lambda: None)

    def _back(self, out: Numbers) -> object:
        # Not into .grad, where adding to what is there would be work of its own.
        return torch.autograd.grad(out, self.wanted, self.arriving)

    def _work(self, run: Callable[[Any], object], prepare: Callable[[], Any]) -> Work:
        return Work(in_precision(self.arithmetic, self.device, run), prepare, timer_of(self.device))
