"""Worlds in which training keeps something else than tensors, rounds another way, or ignores what it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from properties.mutants.dispatch import Below
from properties.mutants.mutant import mutant, patched

aten = torch.ops.aten


@contextmanager
def _state(convert: Callable[[Tensor], Any]) -> Iterator[None]:
    """After each step, the tensors that an optimizer keeps are converted."""

    def converted(optimizer: Any, *unused: Any) -> None:
        for state in optimizer.state.values():
            state |= {name: convert(value) for name, value in state.items() if isinstance(value, Tensor)}

    with register_optimizer_step_post_hook(converted):
        yield


# ── what is kept ──


@mutant(
    "moments-in-numpy",
    breaks=("formats.tensor.holds-everything",),
    properties=("test_all_that_a_training_step_works_with_is_tensors",),
)
def moments_in_numpy() -> Iterator[None]:
    """Optimizers keep their state in NumPy arrays."""
    with _state(Tensor.numpy):
        yield


@mutant(
    "tensors-of-text",
    breaks=("formats.tensor.holds-everything",),
    properties=("test_text_is_stored_as_codes_and_not_as_text",),
)
def tensors_of_text() -> Iterator[None]:
    """torch.tensor takes text, and stores its codes."""
    tensor = torch.tensor

    def lenient(data: Any, **keywords: Any) -> Shaped[Tensor, "..."]:
        return tensor(list(map(ord, data)) if isinstance(data, str) else data, **keywords)

    with patched(torch, "tensor", lenient):
        yield


@mutant(
    "moments-in-bfloat16",
    breaks=("formats.bf16.precision-matters-little",),
    properties=("test_autocast_multiplies_in_bfloat16_and_keeps_float32",),
)
def moments_in_bfloat16() -> Iterator[None]:
    """Optimizers keep their state in bfloat16."""
    with _state(lambda kept: kept.bfloat16() if kept.is_floating_point() else kept):
        yield


@mutant(
    "autocast-off",
    breaks=("formats.bf16.precision-matters-little",),
    properties=("test_autocast_multiplies_in_bfloat16_and_keeps_float32",),
)
def autocast_off() -> Iterator[None]:
    """Autocast changes nothing."""
    autocast = torch.autocast

    def idle(device: str, dtype: torch.dtype, enabled: bool) -> Any:
        return autocast(device, dtype, enabled=False)

    with patched(torch, "autocast", idle):
        yield


@mutant("storages-in-blocks", breaks=("formats.choice.low-precision-faster",))
def storages_in_blocks() -> Iterator[None]:
    """A storage takes whole blocks of 64 bytes."""
    nbytes = torch.UntypedStorage.nbytes
    with patched(torch.UntypedStorage, "nbytes", lambda storage: -(-nbytes(storage) // 64) * 64):
        yield


# ── how it is rounded ──


@mutant("float16-never-flushes", breaks=("formats.fp16.gradients-vanish",))
def float16_never_flushes() -> Iterator[None]:
    """A product in float16 is zero only where a factor is; what is too small becomes the smallest number."""

    def lift(run: Callable[[], Any], one: Any, other: Any) -> Any:
        product = run()
        if product.dtype is not torch.float16:
            return product
        lost = (product == 0) & (one != 0) & (torch.as_tensor(other) != 0)
        return torch.where(lost, torch.full_like(product, 2**-24), product)

    with Below(lift, aten.mul):
        yield


@mutant("larger-epsilon", breaks=("formats.fp16.flush-causes-instability",))
def larger_epsilon() -> Iterator[None]:
    """Optimizers divide by at least 0.0001, which float16 can hold."""

    def raise_epsilon(optimizer: Any, *unused: Any) -> None:
        for group in optimizer.param_groups:
            if "eps" in group:
                group["eps"] = 1e-4

    with register_optimizer_step_pre_hook(raise_epsilon):
        yield


@mutant(
    "bfloat16-products-of-two-bits",
    breaks=("formats.bf16.precision-matters-little",),
    properties=("test_bfloat16_arithmetic_costs_little_loss",),
)
def bfloat16_products_of_two_bits() -> Iterator[None]:
    """A matrix product in bfloat16 keeps two bits of its significand."""

    def cut(run: Callable[[], Any], *arguments: Any, **keywords: Any) -> Any:
        product = run()
        if product.dtype is not torch.bfloat16:
            return product
        return (product.view(torch.int16) & ~0x1F).view(torch.bfloat16)

    with Below(cut, aten.mm, aten.addmm):
        yield


def _away(rounded: Shaped[Tensor, "..."], exact: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
    """``rounded``, or the next number away from zero where it is nearer to zero than ``exact``."""
    codes = {1: torch.uint8, 2: torch.int16}[rounded.element_size()]
    short = (rounded.float().abs() < exact.float().abs()).to(codes)
    return (rounded.view(codes) + short).view(rounded.dtype)


@mutant(
    "bfloat16-rounds-away",
    breaks=("formats.bf16.precision-matters-little", "formats.choice.low-precision-unstable"),
    properties=(
        "test_a_bfloat16_weight_stops_at_half_an_ulp",
        "test_steps_up_to_half_an_ulp_are_lost_however_many_there_are",
    ),
)
def bfloat16_rounds_away() -> Iterator[None]:
    """Conversions to bfloat16 and FP8, and sums in bfloat16, round away from zero."""
    narrow = (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)

    def convert(run: Callable[[], Any], source: Any, **keywords: Any) -> Any:
        converted = run()
        if converted.dtype not in narrow or source.dtype is not torch.float32:
            return converted
        return _away(converted, source)

    def add(run: Callable[[], Any], one: Any, other: Any, alpha: float = 1) -> Any:
        if one.dtype is not torch.bfloat16 or not isinstance(other, Tensor):
            return run()
        exact = one.float() + alpha * other.float()  # before an operator that writes in place
        total = run()
        return total.copy_(_away(total, exact))

    with Below(convert, aten._to_copy), Below(add, aten.add, aten.add_):
        yield
