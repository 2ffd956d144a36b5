"""Worlds in which training keeps something else than tensors, rounds another way, or ignores what it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode

from properties.mutants.mutant import mutant, patched

aten = torch.ops.aten


class _Changed(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Below torch's Python surface: what some operators give, changed; ``change`` gets result and arguments."""

    def __init__(self, change: Callable[..., Any], *operators: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.change = change
        self.operators = operators

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        keywords = kwargs or {}
        if func.overloadpacket not in self.operators:
            return func(*args, **keywords)
        # An operator that writes in place leaves nothing of what it was given.
        before = [each.clone() if isinstance(each, Tensor) else each for each in args]
        return self.change(func(*args, **keywords), *before, **keywords)


# ── what is kept ──


@mutant(
    "moments-in-numpy",
    breaks=("formats.tensor.holds-everything",),
    properties=("test_all_that_a_training_step_works_with_is_tensors",),
)
def moments_in_numpy() -> Iterator[None]:
    """Optimizers keep their state in NumPy arrays."""

    def convert(optimizer: Any, args: Any, kwargs: Any) -> None:
        for state in optimizer.state.values():
            for name, value in state.items():
                if isinstance(value, Tensor):
                    state[name] = value.numpy()

    handle = register_optimizer_step_post_hook(convert)
    try:
        yield
    finally:
        handle.remove()


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

    def convert(optimizer: Any, args: Any, kwargs: Any) -> None:
        for state in optimizer.state.values():
            for name, value in state.items():
                if isinstance(value, Tensor) and value.is_floating_point():
                    state[name] = value.bfloat16()

    handle = register_optimizer_step_post_hook(convert)
    try:
        yield
    finally:
        handle.remove()


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

    def lift(product: Any, one: Any, other: Any) -> Any:
        if product.dtype is not torch.float16:
            return product
        lost = (product == 0) & (one != 0) & (torch.as_tensor(other) != 0)
        return torch.where(lost, torch.full_like(product, 2**-24), product)

    with _Changed(lift, aten.mul):
        yield


@mutant(
    "subnormals-flushed",
    breaks=("formats.fp16.gradients-vanish",),
    properties=("test_a_gradient_below_float16_is_lost_and_kept_by_the_wider_ranges",),
)
def subnormals_flushed() -> Iterator[None]:
    """The processor flushes subnormal float32 numbers to zero."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


@mutant("larger-epsilon", breaks=("formats.fp16.flush-causes-instability",))
def larger_epsilon() -> Iterator[None]:
    """Optimizers divide by at least 0.0001, which float16 can hold."""

    def raise_epsilon(optimizer: Any, args: Any, kwargs: Any) -> None:
        for group in optimizer.param_groups:
            if "eps" in group:
                group["eps"] = 1e-4

    handle = register_optimizer_step_pre_hook(raise_epsilon)
    try:
        yield
    finally:
        handle.remove()


@mutant(
    "bfloat16-products-of-two-bits",
    breaks=("formats.bf16.precision-matters-little",),
    properties=("test_bfloat16_arithmetic_costs_little_loss",),
)
def bfloat16_products_of_two_bits() -> Iterator[None]:
    """A matrix product in bfloat16 keeps two bits of its significand."""

    def cut(product: Any, *arguments: Any, **keywords: Any) -> Any:
        if product.dtype is not torch.bfloat16:
            return product
        return (product.view(torch.int16) & ~0x1F).view(torch.bfloat16)

    with _Changed(cut, aten.mm, aten.addmm):
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

    def convert(converted: Any, source: Any, **keywords: Any) -> Any:
        if converted.dtype not in narrow or source.dtype is not torch.float32:
            return converted
        return _away(converted, source)

    def add(total: Any, one: Any, other: Any, alpha: float = 1) -> Any:
        if total.dtype is not torch.bfloat16 or not isinstance(other, Tensor):
            return total
        return total.copy_(_away(total, one.float() + alpha * other.float()))

    with _Changed(convert, aten._to_copy), _Changed(add, aten.add, aten.add_):
        yield
