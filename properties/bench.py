"""``python -m properties.bench``: what the claim layer costs and what the strategies find, paired in one run.

Each figure is the median of interleaved repeats. It needs the ``bench`` dependencies (hypothesis-torch) for its columns
of other people's strategies.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import hypothesis.extra.numpy as numpy_strategies
import numpy as np
import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from torch import Tensor

from properties import levels
from properties.claims import Claim, Cost, Note, Role, Verdict, body
from properties.environment import cores, processor
from properties.judging import judge
from properties.levels import Level
from properties.report.record import load
from properties.strategies.formats import Pattern, near_codes
from properties.strategies.layouts import layouts
from reference.floats import BFLOAT16

DRAWS = 1000
RUNS = 20
CASES = 100
PAIRED = 500
PAIRS = 15
QUIET = settings(
    max_examples=DRAWS,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def drawn(strategy: SearchStrategy[Any], run: int, number: int) -> list[Any]:
    """``number`` values, as a property would meet them."""
    values: list[Any] = []

    @seed(run)
    @settings(QUIET, max_examples=number)
    @given(strategy)
    def gather(value: Any) -> None:
        values.append(value)

    gather()
    return values


def rate(strategy: SearchStrategy[Any], build: Callable[[Any], object]) -> float:
    """Values drawn and built a second."""
    started = time.perf_counter()
    count = len([build(value) for value in drawn(strategy, 0, DRAWS)])
    return count / (time.perf_counter() - started)


def shares(tensors: Iterable[Tensor]) -> list[str]:
    """Per cent of tensors that are non-contiguous, offset, with a stride of 0, with a size of 0, with a size of 1."""
    seen = list(tensors)
    tests: list[Callable[[Tensor], bool]] = [
        lambda x: not x.is_contiguous(),
        lambda x: x.storage_offset() > 0,
        lambda x: x.numel() > 0 and any(step == 0 < size - 1 for step, size in zip(x.stride(), x.shape, strict=True)),
        lambda x: 0 in x.shape,
        lambda x: 1 in x.shape,
    ]
    return [f"{100 * sum(map(test, seen)) / len(seen):.0f} %" for test in tests]


def layout_rows() -> list[list[str]]:
    """Each source of tensors: layouts a second, and the shares of what matters."""
    shapes = numpy_strategies.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)
    arrays = numpy_strategies.arrays(np.float32, shapes, elements=st.just(1.0))
    rows: list[tuple[str, SearchStrategy[Any], Callable[[Any], Tensor]]] = [
        ("Assay", layouts(), lambda layout: layout.build()),
        (f"hypothesis.extra.numpy {metadata.version('hypothesis')}", arrays, torch.from_numpy),
    ]
    try:
        from hypothesis_torch import tensor_strategy
    except ImportError:
        print("hypothesis-torch is not installed: its rows are left out (pip install hypothesis-torch)")
    else:
        tensors = tensor_strategy(torch.float32, shapes, elements=st.just(1.0), layout=torch.strided)
        rows.append((f"hypothesis-torch {metadata.version('hypothesis-torch')}", tensors, lambda tensor: tensor))
    found = []
    for name, strategy, build in rows:
        rates = [rate(strategy, build) for _ in range(3)]
        parts = shares([build(value) for value in drawn(strategy, 1, DRAWS)])
        found.append([name, f"{statistics.median(rates):,.0f}", *parts])
    return found


def rounds_alike(value: float) -> bool:
    """Whether rounding half up gives the bfloat16 that rounding half to even gives, for a float32."""
    if value != value or value in (float("inf"), float("-inf")):
        return True
    bits = int(np.float32(value).view(np.uint32))
    even = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return even == (bits + 0x8000) >> 16


def is_tie(value: float) -> bool:
    """Whether a float32 lies exactly between two neighbouring bfloat16."""
    return value == value and int(np.float32(value).view(np.uint32)) & 0xFFFF == 0x8000


def float_rows() -> list[list[str]]:
    """Each source of float32: values a second, share of exact ties, and runs that kill a half-up mutant."""
    elements = numpy_strategies.from_dtype(np.dtype(np.float32))
    rows: list[tuple[str, SearchStrategy[Any]]] = [
        ("Assay", near_codes("bfloat16", "float32").map(lambda pattern: float(pattern.value))),
        (f"st.floats(width=32) {metadata.version('hypothesis')}", st.floats(width=32)),
        (f"hypothesis.extra.numpy {metadata.version('hypothesis')}", elements.map(float)),
    ]
    try:
        from hypothesis_torch import tensor_strategy
    except ImportError:
        pass
    else:
        scalars = tensor_strategy(torch.float32, (), layout=torch.strided, requires_grad=False)
        rows.append((f"hypothesis-torch {metadata.version('hypothesis-torch')}", scalars.map(lambda x: x.item())))
    found = []
    for name, strategy in rows:
        rates = statistics.median(rate(strategy, float) for _ in range(3))
        values = drawn(strategy, 1, DRAWS)
        ties = 100 * sum(map(is_tie, values)) / len(values)
        killed = sum(not all(map(rounds_alike, drawn(strategy, run, CASES))) for run in range(RUNS))
        found.append([name, f"{rates:,.0f}", f"{ties:.1f} %", f"{killed} of {RUNS}"])
    return found


def layer_ratio() -> tuple[float, float, float]:
    """The claim layer's time over bare Hypothesis on one property: median ratio, and milliseconds a case of each."""
    patterns = near_codes("bfloat16", "float32")

    @given(pattern=patterns)
    def rounds_to_nearest_even(pattern: Pattern) -> None:
        """Conversion to bfloat16 rounds to nearest, ties to even."""
        seen = pattern.build().to(torch.bfloat16).item()
        assert seen == float(BFLOAT16.decode(BFLOAT16.encode(pattern.value)))

    claim = Claim("bench.rounding", Verdict.HOLDS, "Rounds to nearest even.", None, __file__, 1)
    note = Note(claim.id, Role.CLAIM, __file__, 1, claim.says, claim, cost=Cost(PAIRED, "a benchmark", Level.QUICK))
    bare = seed(0)(settings(QUIET, max_examples=PAIRED)(given(pattern=patterns)(body(rounds_to_nearest_even))))
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(PAIRS):
        started = time.perf_counter()
        bare()
        middle = time.perf_counter()
        judged = judge(rounds_to_nearest_even, note, claim, level=Level.DEFAULT, seed=0)
        ended = time.perf_counter()
        if not judged.agrees:
            raise SystemExit(f"the benchmark's own property fails: {judged.reason or judged.exception}")
        times[0].append(middle - started)
        times[1].append(ended - middle)
    ratio = statistics.median(layer / alone for alone, layer in zip(*times, strict=True))
    without, with_layer = (1000 * statistics.median(each) / PAIRED for each in times)
    return ratio, with_layer, without


def import_ratio() -> tuple[float, float, float]:
    """Time to import everything a run imports over ``import torch`` alone: median ratio, and the two in seconds."""
    modules = "hypothesis, properties.plugin, properties.judging, properties.hygiene, properties.process"
    everything = f"import torch, {modules}; import properties.strategies.layouts, properties.strategies.formats"
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(5):
        for which, code in enumerate((everything, "import torch")):
            started = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            times[which].append(time.perf_counter() - started)
    ratio = statistics.median(ours / torchs for ours, torchs in zip(*times, strict=True))
    return ratio, statistics.median(times[0]), statistics.median(times[1])


def whole_run() -> tuple[int, float]:
    """Cases of one whole run at the default level, and its seconds from start to end."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record.json"
        started = time.perf_counter()
        command = [sys.executable, "-m", "pytest", "-q", "--hypothesis-seed=0", f"--results={path}"]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
        seconds = time.perf_counter() - started
        return int(load(path)["environment"]["cases"]), seconds


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table that reads in a terminal and in Markdown."""
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in [head, *rows]
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def main() -> None:
    """Print every figure."""
    levels.register_profiles(Path("build") / "hypothesis")
    levels.load(Level.DEFAULT)
    torch.set_num_threads(1)
    print(
        f"torch {torch.__version__}, hypothesis {metadata.version('hypothesis')}, numpy {np.__version__},",
        end=" ",
    )
    print(f"Python {sys.version.split()[0]}, {cores()} cores of {processor()}\n")
    head = ["layouts", "a second", "non-contiguous", "offset", "stride 0", "size 0", "size 1"]
    print(table(head, layout_rows()), end="\n\n")
    print(
        table(["float32 near bfloat16", "a second", "exact ties", "runs that kill half-up"], float_rows()),
        end="\n\n",
    )
    ratio, with_layer, without = layer_ratio()
    print(f"claim layer over bare Hypothesis: {ratio:.3f}x ({with_layer:.3f} against {without:.3f} ms a case)")
    ratio, ours, alone = import_ratio()
    print(f"import over `import torch`: {ratio:.2f}x ({ours:.2f} against {alone:.2f} s)")
    cases, seconds = whole_run()
    print(f"whole run: {cases:,} cases in {seconds:.1f} s, {cases / seconds:,.0f} a second")


if __name__ == "__main__":
    main()
