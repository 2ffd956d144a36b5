"""Worlds in which work takes another time than it should, or the clock does not tell."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor

from properties.instruments.clock import HostTimer, Work
from properties.mutants.dispatch import Below
from properties.mutants.mutant import mutant, patched
from properties.ratios import Band, Ratio
from properties.strategies.workloads import Upload

aten = torch.ops.aten
VIEWS = (aten.transpose, aten.permute, aten.t, aten.select, aten.slice, aten.expand, aten.unfold, aten.view)


def _again(times: int, where: Callable[..., bool]) -> Callable[..., Any]:
    """Do an operator so many times more, for arguments for which ``where`` is true."""

    def repeated(run: Callable[[], Any], *arguments: Any, **keywords: Any) -> Any:
        for _ in range(times if where(*arguments) else 0):
            run()
        return run()

    return repeated


# ── torch ──


@mutant(
    "long-sides-are-multiplied-twice",
    breaks=("flops.matmul.time-follows", "mfu.flops.as-time-complexity"),
    properties=(
        "test_a_product_of_twice_the_size_takes_twice_the_time",
        "test_flops_measure_time_where_arithmetic_bounds_the_work",
    ),
)
def long_sides_are_multiplied_twice() -> Iterator[None]:
    """A product with a side longer than a large product has is computed twice."""

    def long(left: Shaped[Tensor, "..."], right: Shaped[Tensor, "..."]) -> bool:
        longest = max(*left.shape, *right.shape)
        return bool(longest > (8192 if left.is_cuda else 384))

    with Below(_again(1, long), aten.mm):
        yield


@mutant(
    "products-are-slow",
    breaks=("mfu.half-is-good", "training.peak.half-of-1979"),
    properties=(
        "test_a_large_product_does_ten_times_the_flops_a_second_of_elementwise_work",
        "test_large_products_reach_half_of_the_peak_and_elementwise_work_does_not",
        "test_a_large_product_reaches_half_of_the_dense_peak_of_the_card_at_hand",
    ),
)
def products_are_slow() -> Iterator[None]:
    """Every matrix product is computed twenty times."""
    with Below(_again(19, lambda *_: True), aten.mm):
        yield


@mutant(
    "float32-products-are-slow",
    breaks=("formats.fp16.trains-faster",),
    properties=("test_training_in_float16_is_much_faster_where_there_are_units_for_it",),
)
def float32_products_are_slow() -> Iterator[None]:
    """A processor takes a hundred times as long for float32 products, and a card as little as for float16."""

    def in_float32(left: Shaped[Tensor, "..."], *_: Any) -> bool:
        return left.dtype is torch.float32 and not left.is_cuda

    def in_float16(left: Shaped[Tensor, "..."], *_: Any) -> bool:
        return left.dtype is torch.float16 and left.is_cuda

    with Below(_again(99, in_float32), aten.mm), Below(_again(9, in_float16), aten.mm):
        yield


@mutant(
    "small-products-are-slow",
    breaks=("training.backward.twice-forward-time",),
    properties=("test_with_small_matrices_backward_takes_longer_than_it_has_flops",),
)
def small_products_are_slow() -> Iterator[None]:
    """A product of small matrices takes three milliseconds, beside which nothing else counts."""

    def lasting(run: Callable[[], Any], left: Shaped[Tensor, "..."], right: Shaped[Tensor, "..."]) -> Any:
        ends = time.thread_time() + (0.003 if right.numel() <= 64 else 0)
        while time.thread_time() < ends:
            pass
        return run()

    with Below(lasting, aten.mm):
        yield


@mutant(
    "precision-is-ignored",
    breaks=("formats.choice.low-precision-faster", "formats.fp16.trains-faster"),
    properties=(
        "test_a_large_product_is_faster_in_lower_precision_as_the_peaks_say",
        "test_training_in_float16_is_faster_than_with_tf32",
    ),
)
def precision_is_ignored() -> Iterator[None]:
    """A product takes as long in a narrower format as in float32."""

    def in_float32(
        run: Callable[[], Any], left: Shaped[Tensor, "..."], right: Shaped[Tensor, "..."], *rest: Any
    ) -> Any:
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.mm(left.float(), right.float())
        return run()

    with Below(in_float32, aten.mm, aten._scaled_mm):
        yield


@mutant(
    "many-elements-take-longer",
    breaks=("flops.elementwise.linear",),
    properties=("test_elementwise_time_grows_with_the_elements",),
)
def many_elements_take_longer() -> Iterator[None]:
    """An elementwise product of more elements than a large one has is computed twice."""

    def many(left: Shaped[Tensor, "..."], *_: Any) -> bool:
        return left.numel() > (2**27 if left.is_cuda else 2**22)

    with Below(_again(1, many), aten.mul):
        yield


@mutant(
    "elementwise-work-is-slow",
    breaks=("flops.elementwise.linear",),
    properties=("test_elementwise_work_waits_for_the_memory_of_a_gpu",),
)
def elementwise_work_is_slow() -> Iterator[None]:
    """An elementwise product is computed twice."""
    with Below(_again(1, lambda *_: True), aten.mul):
        yield


@mutant(
    "views-copy-on-the-side",
    breaks=("tensors.views.constant-time",),
    properties=(
        "test_a_view_takes_as_long_at_every_size",
        "test_a_view_launches_no_kernel_and_takes_no_memory_of_a_gpu",
    ),
)
def views_copy_on_the_side() -> Iterator[None]:
    """A view operation copies its tensor, and throws the copy away."""

    def copied(run: Callable[[], Any], x: Shaped[Tensor, "..."], *arguments: Any, **keywords: Any) -> Any:
        x.clone()
        return run()

    with Below(copied, *VIEWS):
        yield


@mutant(
    "gradients-take-twice-as-long",
    breaks=("training.backward.twice-forward-time",),
    properties=(
        "test_backward_takes_as_many_times_as_long_as_it_has_flops",
        "test_backward_of_a_decoders_block_takes_as_many_times_as_long_as_it_has_flops",
    ),
)
def gradients_take_twice_as_long() -> Iterator[None]:
    """Automatic differentiation goes back twice."""
    grad: Any = torch.autograd.grad

    def twice(*arguments: Any) -> object:
        grad(*arguments, retain_graph=True)
        return grad(*arguments)

    with patched(torch.autograd, "grad", twice):
        yield


PINNED = (
    "test_a_copy_from_pinned_memory_is_faster",
    "test_a_copy_from_pinned_memory_runs_beside_products",
    "test_a_copy_from_pinned_memory_is_called_and_goes_on_by_itself",
)


@mutant(
    "pinning-does-nothing",
    breaks=("pinned.copy.faster", "pinned.copy.overlaps", "pinned.non-blocking"),
    properties=PINNED,
)
def pinning_does_nothing() -> Iterator[None]:
    """pin_memory() gives back the tensor in ordinary memory."""
    with patched(torch.Tensor, "pin_memory", lambda tensor, *_: tensor):
        yield


@mutant(
    "pinned-copies-are-slow",
    breaks=("pinned.copy.faster",),
    properties=("test_a_smaller_copy_from_pinned_memory_is_no_slower",),
)
def pinned_copies_are_slow() -> Iterator[None]:
    """A copy from pinned memory is made ten times over."""
    copy: Any = torch.Tensor.copy_

    def slow(there: Shaped[Tensor, "..."], source: Shaped[Tensor, "..."], **how: Any) -> object:
        for _ in range(9 * source.is_pinned()):
            copy(there, source, **how)
        return copy(there, source, **how)

    with patched(torch.Tensor, "copy_", slow):
        yield


@mutant(
    "all-memory-is-pinned",
    breaks=("pinned.copy.overlaps", "pinned.non-blocking"),
    properties=(
        "test_a_copy_from_pageable_memory_holds_up_what_is_asked_for_after_it",
        "test_a_copy_from_pageable_memory_is_waited_for",
    ),
)
def all_memory_is_pinned() -> Iterator[None]:
    """The system gives out memory that is held in place."""
    source = Upload.source

    def pinned(upload: Upload, seed: int = 0) -> Shaped[Tensor, "..."]:
        return source(upload, seed).pin_memory()

    with patched(Upload, "source", pinned):
        yield


@mutant(
    "copies-arrive-changed",
    breaks=("pinned.non-blocking",),
    properties=("test_a_copy_that_was_waited_for_is_equal",),
)
def copies_arrive_changed() -> Iterator[None]:
    """What is copied to another device is one more there."""
    to: Any = torch.Tensor.to

    def changed(x: Shaped[Tensor, "..."], *where: Any, **how: Any) -> Shaped[Tensor, "..."]:
        y: Shaped[Tensor, "..."] = to(x, *where, **how)
        return y if y.device == x.device else y + 1

    with patched(torch.Tensor, "to", changed):
        yield


# ── the clock ──

TIMED = (
    "test_a_product_of_twice_the_size_takes_twice_the_time",
    "test_elementwise_time_grows_with_the_elements",
    "test_backward_takes_as_many_times_as_long_as_it_has_flops",
)


@mutant(
    "a-clock-that-adds",
    breaks=("flops.matmul.time-follows", "flops.elementwise.linear", "training.backward.twice-forward-time"),
    changes="clock",
    properties=TIMED,
)
def a_clock_that_adds() -> Iterator[None]:
    """The clock adds twenty milliseconds to every time that it reads."""
    measure = HostTimer.measure

    def adding(self: HostTimer, schedule: Sequence[tuple[Work, int]]) -> list[float]:
        return [seconds + 0.02 for seconds in measure(self, schedule)]

    with patched(HostTimer, "measure", adding):
        yield


@mutant(
    "ratios-upside-down",
    breaks=("flops.matmul.time-follows", "flops.elementwise.linear", "training.backward.twice-forward-time"),
    properties=TIMED,
)
def ratios_upside_down() -> Iterator[None]:
    """A ratio is that of the second time to the first."""
    of = Ratio.of

    def inverted(ratios: Sequence[float], band: Band) -> Ratio:
        return of([1 / each for each in ratios], band)

    with patched(Ratio, "of", staticmethod(inverted)):
        yield


@mutant(
    "events-miss-most-of-the-time",
    breaks=("mfu.peak.not-reached", "mfu.half-is-good", "training.peak.half-of-1979"),
    properties=(
        "test_a_large_product_stays_below_the_peak",
        "test_a_large_product_stays_below_the_peak_in_every_arithmetic",
        "test_a_large_product_reaches_half_of_the_dense_peak_of_the_card_at_hand",
        "test_elementwise_work_stays_below_a_fiftieth_of_the_peak",
    ),
)
def events_miss_most_of_the_time() -> Iterator[None]:
    """A device's events see a hundredth of the time between them."""
    elapsed = torch.cuda.Event.elapsed_time

    def hurried(self: torch.cuda.Event, later: torch.cuda.Event) -> float:
        return float(elapsed(self, later)) / 100

    with patched(torch.cuda.Event, "elapsed_time", hurried):
        yield
