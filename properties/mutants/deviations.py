"""Worlds that are off by as little as the random claims say that they see, each way."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from properties.mutants.mutant import mutant, patched

World = Callable[[float], AbstractContextManager[None]]


def deviates(what: str, factors: tuple[float, float], world: World, breaks: tuple[str, ...], *properties: str) -> None:
    """Register two mutants: ``world`` of a factor above one, and of one below."""
    for factor in factors:

        def made(factor: float = factor) -> Iterator[None]:
            with world(factor):
                yield

        made.__doc__ = f"A {what} has {factor:g} times the variance."
        name = f"{what.replace(' ', '-')}-has-{factor:g}-times-the-variance"
        mutant(name, breaks=breaks, properties=properties)(made)


# ── normal numbers ──

MOMENTS = ("test_randn_draws_with_mean_zero_and_variance_one", "test_small_draws_have_mean_zero_and_variance_one_too")


@contextmanager
def normal_numbers(change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """The numbers of torch.randn changed, and of what else draws normal numbers in other words."""

    def changed(draw: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return lambda *arguments, **keywords: change(draw(*arguments, **keywords))

    def filled(x: Tensor, *arguments: Any, **keywords: Any) -> Tensor:
        return x.copy_(change(fill(x, *arguments, **keywords)))

    with ExitStack() as stack:
        for name in ("randn", "randn_like", "normal"):
            stack.enter_context(patched(torch, name, changed(getattr(torch, name))))
        fill: Any = stack.enter_context(patched(Tensor, "normal_", filled))
        yield


deviates(
    "number of randn",
    (1.05, 0.95),
    lambda factor: normal_numbers(lambda x: x * math.sqrt(factor)),
    ("initialisation.randn.moments", "initialisation.randn.output-variance", "initialisation.xavier.unit-output"),
    *MOMENTS,
    "test_a_product_of_normal_matrices_has_the_inner_length_for_variance",
    "test_weights_over_the_root_of_the_inputs_give_outputs_of_variance_one",
)
deviates(
    "product of two components",
    (1.12, 0.88),
    lambda factor: normal_numbers(lambda x: x * factor**0.25),
    ("initialisation.randn.product-variance",),
    "test_a_product_of_two_components_of_variance_one_has_variance_one",
)


@mutant("randn-leans", breaks=("initialisation.randn.moments",), properties=MOMENTS)
def randn_leans() -> Iterator[None]:
    """torch.randn draws with a mean of 0.035."""
    with normal_numbers(lambda x: x + 0.035):
        yield


# ── torch's initialisers ──

INVERSE = ("initialisation.variance-inverse-to-input",)


def _filled(owner: Any, *names: str) -> World:
    """Functions that fill a tensor fill in so many times the variance."""

    def scaled(fill: Callable[..., Tensor], factor: float) -> Callable[..., Tensor]:
        return lambda weight, *arguments, **keywords: fill(weight, *arguments, **keywords).mul_(math.sqrt(factor))

    @contextmanager
    def world(factor: float) -> Iterator[None]:
        with torch.no_grad(), ExitStack() as stack:
            for name in names:
                stack.enter_context(patched(owner, name, scaled(getattr(owner, name), factor)))
            yield

    return world


deviates(
    "initial weight",
    (1.05, 0.95),
    _filled(Tensor, "normal_", "uniform_"),
    ("initialisation.xavier.name", *INVERSE),
    "test_xavier_divides_by_both_fans",
    "test_for_x_at_w_the_fans_are_swapped",
    "test_torchs_initialisers_have_the_variance_of_their_rule",
    "test_torchs_layers_begin_with_the_variances_of_their_own_rules",
)
deviates(
    "truncated weight",
    (1.05, 0.95),
    _filled(nn.init, "trunc_normal_"),
    INVERSE,
    "test_a_truncated_normal_loses_the_variance_of_its_tails",
)
deviates(
    "sparse weight",
    (1.15, 0.85),
    _filled(nn.init, "sparse_"),
    INVERSE,
    "test_sparse_weights_have_one_variance_whatever_their_fans",
)
deviates(
    "kaiming weight",
    (1.06, 0.94),
    _filled(nn.init, "kaiming_normal_"),
    ("initialisation.kaiming.through-relu",),
    "test_on_average_a_layer_keeps_the_mean_square",
)


@mutant(
    "variances-fall-with-a-smaller-power",
    breaks=INVERSE,
    properties=("test_the_variance_is_inversely_proportional_to_the_inputs",),
)
def variances_fall_with_a_smaller_power() -> Iterator[None]:
    """torch takes a power of each fan, of which twice as many are 1.82 = 2 / 1.1 times as much."""
    count = nn.init._calculate_fan_in_and_fan_out

    def fans(weight: Tensor) -> tuple[float, ...]:
        return tuple(fan ** (1 - math.log2(1.1)) for fan in count(weight))

    with patched(nn.init, "_calculate_fan_in_and_fan_out", fans):
        yield


# ── through many layers ──


def _square(factor: float) -> AbstractContextManager[None]:
    """torch.randn with the numbers of square matrices scaled."""
    return normal_numbers(lambda x: x * math.sqrt(factor) if x.dim() == 2 and 1 < x.shape[0] == x.shape[1] else x)


deviates(
    "square matrix of randn",
    (8, 1 / 8),
    _square,
    ("initialisation.scale.gradients-follow",),
    "test_gradients_explode_or_vanish_with_the_scale_of_the_weights",
)
deviates(
    "square matrix of unit weights",
    (10, 1 / 100),
    _square,
    ("initialisation.scale.grows-with-depth",),
    "test_outputs_of_unit_weights_grow_with_depth",
)
