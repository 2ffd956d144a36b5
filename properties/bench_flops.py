"""``python -m properties.bench_flops``: eight programs counted by several counters, and what counting costs.

The first table is the ratio of what a counter says to what plain loops over counting numbers did. fvcore and torchinfo
say multiply-adds, and only of the forward pass; they are left out where they are not installed (the dependency group
``counters`` has them). The second table is the median of interleaved repeats, in milliseconds of one thread.
"""

from __future__ import annotations

import importlib
import logging
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from properties.instruments.flops import count_flops
from properties.instruments.kernels import import_kernels
from properties.instruments.torchs_counter import counted_by_torch
from properties.strategies.transformers import Attention, Model
from reference import scalars
from reference.autodiff import Derivative, differentiate
from reference.scalars import reals
from reference.transformer import Decoder

REPEATS = 60
Count = Callable[[nn.Module, Tensor], float]


@dataclass(frozen=True)
class Program:
    """A module, its input, and the same through plain loops; ``part`` says which FLOPs are compared."""

    name: str
    make: Callable[[], nn.Module]
    inputs: Tensor
    plain: Callable[[], Derivative]
    part: str = "matrix"

    def exact(self) -> tuple[int, int]:
        """FLOPs of the forward pass, and of both."""
        done = self.plain()
        forward, backward = getattr(done.forward, self.part), getattr(done.backward, self.part)
        return forward, forward + backward


# ── the programs ──


class Mixture(nn.Module):
    """A product, and a tail of elementwise work: layer norm, GELU, softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.product = nn.Linear(6, 8, bias=False)
        self.norm = nn.LayerNorm(8)

    def forward(self, x: Tensor) -> Tensor:
        """Rows of shares."""
        return nn.functional.gelu(self.norm(self.product(x))).softmax(dim=-1)


class Recurrent(nn.Module):
    """An LSTM that learns the state it begins with."""

    def __init__(self, inputs: int, units: int, rows: int) -> None:
        super().__init__()
        self.layer = nn.LSTM(inputs, units)
        self.hidden, self.cell = (nn.Parameter(torch.zeros(1, rows, units)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """One output a step."""
        out: Tensor = self.layer(x, (self.hidden, self.cell))[0]
        return out


def _mixture(x: Any, weight: Any, scale: Any, shift: Any) -> Any:
    hidden = scalars.layer_norm(scalars.linear(x, weight), scale, shift)
    return scalars.softmax(scalars.elementwise(scalars.gelu, hidden))


def _perceptron(x: Any, first: Any, second: Any) -> Any:
    return scalars.linear(scalars.elementwise(scalars.tanh, scalars.linear(x, first)), second)


def _lstm(x: Any, hidden: Any, cell: Any, *weights: Any) -> Any:
    outputs = []
    for step in x:
        hidden, cell = scalars.lstm_cell(step, hidden, cell, *weights)
        outputs.append(hidden)
    return np.array(outputs)


def _plainly(algorithm: Callable[..., Any], *shapes: tuple[int, ...], output: tuple[int, ...], **said: Any) -> Any:
    """Both passes of an algorithm, with the gradients of all its operands."""
    arrays = [reals(shape) for shape in shapes]
    return lambda: differentiate(algorithm, *arrays, output_gradient=np.ones(output), **said)


def _decoder(attention: Attention) -> Program:
    model = Model(Decoder(2, 8, 2, 2, 4, 32, 16, 8), 1, 6, attention)
    tokens = torch.zeros(1, 6, dtype=torch.int64)
    name = f"GPT, attention {attention.name.lower()}"
    return Program(name, lambda: model.build("cpu"), tokens, model.numbers)


PROGRAMS = (
    Program(
        "linear layer",
        lambda: nn.Linear(6, 8, bias=False),
        torch.ones(4, 6, requires_grad=True),
        _plainly(scalars.linear, (4, 6), (8, 6), output=(4, 8)),
    ),
    Program(
        "multilayer perceptron",
        lambda: nn.Sequential(nn.Linear(6, 8, bias=False), nn.Tanh(), nn.Linear(8, 5, bias=False)),
        torch.ones(4, 6, requires_grad=True),
        _plainly(_perceptron, (4, 6), (8, 6), (5, 8), output=(4, 5)),
    ),
    _decoder(Attention.FUSED),
    _decoder(Attention.COMPOSED),
    Program(
        "convolution",
        lambda: nn.Conv2d(4, 6, 3, padding=1, bias=False),
        torch.ones(1, 4, 5, 5, requires_grad=True),
        _plainly(scalars.convolution, (1, 4, 5, 5), (6, 4, 3, 3), output=(1, 6, 5, 5), padding=1),
    ),
    Program(
        "grouped convolution",
        lambda: nn.Conv2d(4, 6, 3, padding=1, groups=2, bias=False),
        torch.ones(1, 4, 5, 5, requires_grad=True),
        _plainly(scalars.convolution, (1, 4, 5, 5), (6, 2, 3, 3), output=(1, 6, 5, 5), padding=1, groups=2),
    ),
    Program(
        "LSTM",
        lambda: Recurrent(6, 5, 2),
        torch.ones(4, 2, 6, requires_grad=True),
        _plainly(_lstm, (4, 2, 6), (2, 5), (2, 5), (20, 6), (20, 5), (20,), (20,), output=(4, 2, 5)),
    ),
    Program(
        "product and elementwise tail",
        Mixture,
        torch.ones(4, 6, requires_grad=True),
        _plainly(_mixture, (4, 6), (8, 6), (8,), (8,), output=(4, 8)),
        part="flops",
    ),
)


# ── the counters ──


def _ours(part: str, passes: str) -> Count:
    def count(module: nn.Module, x: Tensor) -> float:
        with count_flops() as counted:
            _run(module, x, passes)
        work = counted.model
        return work.matrix if part == "matrix" else work.matrix + work.elementwise

    return count


def _torchs(passes: str) -> Count:
    return lambda module, x: counted_by_torch(lambda: _run(module, x, passes))


def _run(module: nn.Module, x: Tensor, passes: str) -> None:
    out = module(x)
    if passes == "both":
        out.backward(torch.ones_like(out))


def _fvcore(module: nn.Module, x: Tensor) -> float:
    logging.disable(logging.WARNING)
    return float(importlib.import_module("fvcore.nn").FlopCountAnalysis(module, x).total())


def _torchinfo(module: nn.Module, x: Tensor) -> float:
    return float(importlib.import_module("torchinfo").summary(module, input_data=x, verbose=0).total_mult_adds)


OTHERS: dict[str, Count] = {"fvcore": _fvcore, "torchinfo": _torchinfo}


def _installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


# ── the tables ──


def ratios() -> list[list[str]]:
    """A row a program: what each counter says over what plain loops did."""
    rows = []
    others = [name for name in OTHERS if _installed(name)]
    for program in PROGRAMS:
        forward, both = program.exact()
        module = program.make()
        row = [program.name]
        for passes, exact in (("forward", forward), ("both", both)):
            for count in (_ours(program.part, passes), _torchs(passes)):
                row.append(f"{count(module, program.inputs) / exact:.2f}")
        row += [f"{OTHERS[name](module, program.inputs) / forward:.2f}" for name in others]
        rows.append(row)
    head = ["FLOPs over counting numbers", "ours, forward", "torch, forward", "ours, both", "torch, both"]
    return [head + [f"{name}, forward" for name in others], *rows]


def costs() -> list[list[str]]:
    """A row a program on the meta device: both passes alone, counted by us, and counted by torch."""
    stack = nn.Sequential(*(nn.Linear(*sizes, bias=False, device="meta") for sizes in ((64, 128), (128, 32))))
    encoder = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, device="meta")
    head = ["milliseconds, both passes on the meta device", "alone", "ours", "torch", "ours over torch"]
    return [head, _cost("two layers", stack, (16, 64)), _cost("an encoder layer", encoder, (2, 8, 64))]


def _cost(name: str, module: nn.Module, shape: tuple[int, ...]) -> list[str]:
    x = torch.empty(shape, device="meta", requires_grad=True)
    ways: tuple[Callable[[], object], ...] = (
        lambda: _run(module, x, "both"),
        lambda: _ours("matrix", "both")(module, x),
        lambda: _torchs("both")(module, x),
    )
    taken = [[_milliseconds(call) for call in ways] for _ in range(REPEATS)]
    medians = [statistics.median(column) for column in zip(*taken, strict=True)]
    share = statistics.median(ours / torchs for _, ours, torchs in taken)
    return [name, *(f"{median:.2f}" for median in medians), f"{share:.2f}"]


def _milliseconds(call: Callable[[], object]) -> float:
    started = time.thread_time()
    call()
    return 1000 * (time.thread_time() - started)


def _table(rows: list[list[str]]) -> str:
    head, *body = rows
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *body))


def main() -> int:
    """Print both tables, as Markdown, and the versions."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    import_kernels()
    warnings.simplefilter("ignore")
    print(_table(ratios()), _table(costs()), sep="\n\n")
    named = [name for name in ("torch", *OTHERS) if _installed(name)]
    print("\n" + ", ".join(f"{name} {metadata.version(name)}" for name in named))
    return 0


if __name__ == "__main__":
    sys.exit(main())
