"""Worlds in which random weights have another distribution, and equal neurons another fate."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor, nn
from torch.nn.modules import activation
from torch.optim.optimizer import register_optimizer_step_post_hook

from properties.mutants.deviations import normal_numbers
from properties.mutants.mutant import mutant, patched
from reference import symmetry

# ── weights of zero ──


@mutant(
    "zero-times-infinity-is-zero",
    breaks=("initialisation.zeros.output",),
    properties=("test_zero_weights_give_zero_outputs",),
)
def zero_times_infinity_is_zero() -> Iterator[None]:
    """A linear layer leaves out products with a weight of zero."""

    def sparse(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
        return original(x.nan_to_num(0.0, 0.0, 0.0) if not weight.any() else x, weight, bias)

    with patched(nn.functional, "linear", sparse) as original:
        yield


@mutant(
    "prelu-multiplies-everything",
    breaks=("initialisation.zeros.output",),
    properties=("test_not_every_layer_only_multiplies_by_its_weights",),
)
def prelu_multiplies_everything() -> Iterator[None]:
    """A PReLU multiplies positive numbers by its weight as well."""
    with patched(nn.functional, "prelu", lambda x, weight: x * weight):
        yield


# ── equal neurons ──


@mutant(
    "columns-summed-in-different-orders",
    breaks=("initialisation.symmetry.same-forward-and-gradient", "initialisation.symmetry.forever"),
    properties=(
        "test_equal_neurons_give_equal_outputs_and_receive_equal_gradients",
        "test_equal_neurons_stay_equal_for_ever",
    ),
)
def columns_summed_in_different_orders() -> Iterator[None]:
    """The reference sums every second column of a product from the last term to the first."""

    def alternating(left: Shaped[np.ndarray, "..."], right: Shaped[np.ndarray, "..."]) -> Any:
        backwards = original(left[:, ::-1], right[::-1])
        odd = np.arange(right.shape[1]) % 2 == 1
        return np.where(odd, backwards, original(left, right))

    with patched(symmetry, "product", alternating) as original:
        yield


@mutant(
    "weights-move-by-their-place",
    breaks=("initialisation.symmetry.forever", "initialisation.symmetry.wastes-capacity"),
    properties=(
        "test_equal_neurons_stay_equal_for_ever",
        "test_without_any_rounding_equal_neurons_stay_equal",
        "test_equal_neurons_do_no_more_than_one",
        "test_the_weight_matrix_never_has_more_rank_than_different_neurons",
    ),
)
def weights_move_by_their_place() -> Iterator[None]:
    """The reference's optimizers take steps of another length for each weight."""

    def by_place(move: Callable[..., Any]) -> Callable[..., Any]:
        def moved(gradient: Shaped[np.ndarray, "weights"], state: Any, step: int) -> Any:
            length, kept = move(gradient, state, step)
            return length * (1 + np.arange(len(length)) % 3), kept

        return moved

    changed = {name: replace(each, move=by_place(each.move)) for name, each in symmetry.OPTIMIZERS.items()}
    with patched(symmetry, "OPTIMIZERS", changed):
        yield


@mutant(
    "neurons-round-in-their-own-way",
    breaks=("initialisation.symmetry.same-forward-and-gradient", "initialisation.symmetry.forever"),
    properties=(
        "test_in_torch_equal_neurons_are_equal_to_rounding",
        "test_in_torch_a_few_steps_take_equal_neurons_apart_by_rounding_only",
    ),
)
def neurons_round_in_their_own_way() -> Iterator[None]:
    """Every second output of a linear layer is calculated with a relative error of 2**-10."""

    def uneven(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
        return original(x, weight, bias) * (1 + torch.arange(len(weight)) % 2 * 2.0**-10)

    with patched(nn.functional, "linear", uneven) as original:
        yield


@mutant(
    "steps-add-noise",
    breaks=("initialisation.symmetry.forever",),
    properties=("test_in_torch_a_few_steps_take_equal_neurons_apart_by_rounding_only",),
)
def steps_add_noise() -> Iterator[None]:
    """torch's optimizers add a little noise to each weight."""

    def add(optimizer: Any, *unused: Any) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.data += 1e-4 * torch.randn(parameter.shape)

    with register_optimizer_step_post_hook(add):
        yield


@mutant(
    "dropout-drops-nothing",
    breaks=("initialisation.symmetry.forever",),
    properties=("test_dropout_parts_equal_neurons_at_once_and_rounding_by_and_by",),
)
def dropout_drops_nothing() -> Iterator[None]:
    """Dropout hands on what it is given."""
    with patched(nn.functional, "dropout", lambda x, *arguments, **keywords: x):
        yield


@mutant(
    "tanh-forgets-the-sign",
    breaks=("initialisation.symmetry.wastes-capacity",),
    properties=("test_in_torch_equal_neurons_do_no_more_than_one_while_they_are_equal",),
)
def tanh_forgets_the_sign() -> Iterator[None]:
    """torch.tanh falls and rises again, so that a single neuron can turn."""

    def even(z: Tensor) -> Tensor:
        return z.tanh().abs()

    with patched(torch, "tanh", even):
        yield


# ── random numbers ──


@mutant(
    "randn-draws-uniform-numbers",
    breaks=("initialisation.randn.moments",),
    properties=("test_randn_draws_with_mean_zero_and_variance_one",),
)
def randn_draws_uniform_numbers() -> Iterator[None]:
    """torch.randn draws uniform numbers of mean zero and variance one."""
    with normal_numbers(lambda x: ((x.double() / math.sqrt(2)).erf() * math.sqrt(3)).to(x.dtype)):
        yield


@mutant(
    "randn-like-is-uniform",
    breaks=("initialisation.randn.moments",),
    properties=("test_randn_draws_with_mean_zero_and_variance_one",),
)
def randn_like_is_uniform() -> Iterator[None]:
    """torch.randn_like draws uniform numbers."""
    with patched(torch, "randn_like", torch.rand_like):
        yield


@mutant(
    "randn-clips-its-tails",
    breaks=("initialisation.randn.moments",),
    properties=("test_randn_draws_with_mean_zero_and_variance_one",),
)
def randn_clips_its_tails() -> Iterator[None]:
    """torch.randn clips what is further than two from zero."""
    with normal_numbers(lambda x: x.clamp(-2, 2)):
        yield


@mutant(
    "small-draws-have-less-variance",
    breaks=("initialisation.randn.moments",),
    properties=("test_small_draws_have_mean_zero_and_variance_one_too",),
)
def small_draws_have_less_variance() -> Iterator[None]:
    """torch.randn divides the squares of a small sample by its size and one more."""
    with normal_numbers(lambda x: x * math.sqrt(x.numel() / (x.numel() + 1))):
        yield


# ── products ──


def _matmul(change: Callable[[Tensor, Tensor], Tensor]) -> Any:
    """``x @ w`` with its result changed, given the result and x."""
    original = Tensor.__matmul__
    return patched(Tensor, "__matmul__", lambda x, w: change(original(x, w), x))


@mutant(
    "products-grow-with-the-inner-length",
    breaks=("initialisation.randn.std-proportional", "initialisation.randn.output-variance"),
    properties=(
        "test_the_standard_deviation_is_proportional_to_the_inner_length",
        "test_the_standard_deviation_grows_with_the_square_root_of_the_inner_length",
        "test_a_product_of_normal_matrices_has_the_inner_length_for_variance",
    ),
)
def products_grow_with_the_inner_length() -> Iterator[None]:
    """x @ w is multiplied by the square root of its inner length."""
    with _matmul(lambda out, x: out * math.sqrt(x.shape[-1])):
        yield


@mutant(
    "short-formats-shrink-products",
    breaks=("initialisation.randn.std-proportional",),
    properties=("test_the_standard_deviation_grows_with_the_square_root_of_the_inner_length",),
)
def short_formats_shrink_products() -> Iterator[None]:
    """x @ w in a format of 16 bits comes out 3 % too small."""
    with _matmul(lambda out, x: out if out.dtype is torch.float32 else out * 0.97):
        yield


@mutant(
    "float16-products-saturate",
    breaks=("initialisation.scale.grows-with-depth", "initialisation.scale.gradients-follow"),
    properties=(
        "test_float16_overflows_at_the_predicted_layer",
        "test_an_overflow_becomes_nan_in_softmax_loss_and_gradient",
    ),
)
def float16_products_saturate() -> Iterator[None]:
    """x @ w in float16 ends at the largest number of that format, or a little before."""
    with _matmul(lambda out, x: out.clamp(-30000, 30000) if out.dtype is torch.float16 else out):
        yield


@mutant(
    "square-matrices-come-scaled",
    breaks=(
        "initialisation.scale.grows-with-depth",
        "initialisation.scale.softmax-saturates",
        "initialisation.scale.gradients-follow",
        "initialisation.xavier.unit-output",
        "initialisation.kaiming.through-relu",
    ),
    properties=(
        "test_outputs_of_unit_weights_grow_with_depth",
        "test_scale_against_depth_is_predicted_for_every_initialisation_and_format",
        "test_float16_overflows_at_the_predicted_layer",
        "test_a_residual_stream_of_unit_weights_overflows_float16_at_the_predicted_layer",
        "test_gradients_explode_or_vanish_with_the_scale_of_the_weights",
        "test_over_depth_the_scale_wanders_as_depth_over_width",
        "test_with_one_over_the_inputs_relu_halves_the_mean_square",
    ),
)
def square_matrices_come_scaled() -> Iterator[None]:
    """torch.randn divides a square matrix by the square root of its side."""

    def scaled(x: Tensor) -> Tensor:
        return x / math.sqrt(len(x)) if x.dim() == 2 and 1 < x.shape[0] == x.shape[1] else x

    with normal_numbers(scaled):
        yield


@mutant(
    "softmax-standardises",
    breaks=("initialisation.scale.softmax-saturates",),
    properties=("test_unit_weights_saturate_softmax_and_scaled_ones_do_not",),
)
def softmax_standardises() -> Iterator[None]:
    """softmax takes its logits to a variance of one first."""

    def standardising(x: Tensor, dim: int) -> Any:
        return original(x / x.std(dim, keepdim=True), dim)

    with patched(Tensor, "softmax", standardising) as original:
        yield


@mutant(
    "softmax-takes-nothing-off",
    breaks=("initialisation.scale.softmax-saturates",),
    properties=("test_softmax_itself_does_not_overflow",),
)
def softmax_takes_nothing_off() -> Iterator[None]:
    """Softmax takes exp of the logits as they are."""

    def plain(x: Tensor, dim: int) -> Tensor:
        return x.exp() / x.exp().sum(dim, keepdim=True)

    with patched(torch, "softmax", plain):
        yield


@mutant(
    "softmax-forgives-infinity",
    breaks=("initialisation.scale.gradients-follow",),
    properties=("test_an_overflow_becomes_nan_in_softmax_loss_and_gradient",),
)
def softmax_forgives_infinity() -> Iterator[None]:
    """softmax takes infinite logits for the largest finite ones."""

    def forgiving(x: Tensor, dim: int) -> Any:
        return original(x.nan_to_num(), dim)

    with patched(Tensor, "softmax", forgiving) as original:
        yield


@mutant(
    "gradients-are-clipped",
    breaks=("initialisation.scale.gradients-follow", "initialisation.xavier.trains-stably"),
    properties=(
        "test_gradients_explode_or_vanish_with_the_scale_of_the_weights",
        "test_scaled_weights_train_where_unit_weights_overflow",
    ),
)
def gradients_are_clipped() -> Iterator[None]:
    """autograd clips every gradient to a length of one."""

    def clipped(*arguments: Any, **keywords: Any) -> tuple[Tensor, ...]:
        return tuple(each / each.norm().clamp(min=1) for each in original(*arguments, **keywords))

    with patched(torch.autograd, "grad", clipped) as original:
        yield


# ── torch's initialisers ──


def _fans(change: Callable[[int, int], tuple[int, int]]) -> Any:
    """fan_in and fan_out as torch counts them, changed."""
    original = nn.init._calculate_fan_in_and_fan_out
    return patched(nn.init, "_calculate_fan_in_and_fan_out", lambda weight: change(*original(weight)))


@mutant(
    "fans-are-swapped",
    breaks=("initialisation.xavier.name", "initialisation.variance-inverse-to-input"),
    properties=(
        "test_for_x_at_w_the_fans_are_swapped",
        "test_the_variance_is_inversely_proportional_to_the_inputs",
        "test_torchs_initialisers_have_the_variance_of_their_rule",
        "test_torchs_layers_begin_with_the_variances_of_their_own_rules",
    ),
)
def fans_are_swapped() -> Iterator[None]:
    """torch takes fan_out for fan_in."""
    with _fans(lambda fan_in, fan_out: (fan_out, fan_in)):
        yield


@mutant(
    "xavier-forgets-the-outputs",
    breaks=("initialisation.xavier.name", "initialisation.variance-inverse-to-input"),
    properties=(
        "test_weights_over_the_root_of_the_inputs_are_xaviers",
        "test_xavier_divides_by_both_fans",
        "test_the_variance_is_inversely_proportional_to_the_inputs",
        "test_torchs_initialisers_have_the_variance_of_their_rule",
    ),
)
def xavier_forgets_the_outputs() -> Iterator[None]:
    """torch takes fan_in for fan_out."""
    with _fans(lambda fan_in, fan_out: (fan_in, fan_in)):
        yield


@mutant(
    "gains-are-dropped",
    breaks=(
        "initialisation.xavier.name",
        "initialisation.variance-inverse-to-input",
        "initialisation.kaiming.through-relu",
    ),
    properties=(
        "test_xavier_divides_by_both_fans",
        "test_torchs_initialisers_have_the_variance_of_their_rule",
        "test_kaiming_keeps_the_scale_through_relu",
        "test_on_average_a_layer_keeps_the_mean_square",
        "test_the_typical_net_shrinks_as_depth_over_width",
    ),
)
def gains_are_dropped() -> Iterator[None]:
    """Every activation has a gain of one."""
    with patched(nn.init, "calculate_gain", lambda *arguments: 1.0):
        yield


@mutant(
    "xavier-normal-is-uniform",
    breaks=("initialisation.xavier.name",),
    properties=("test_xavier_divides_by_both_fans",),
)
def xavier_normal_is_uniform() -> Iterator[None]:
    """xavier_normal_ fills in uniform weights of the right variance."""

    def uniform(weight: Tensor, gain: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
        return nn.init.xavier_uniform_(weight, gain, generator)

    with patched(nn.init, "xavier_normal_", uniform):
        yield


@mutant(
    "projections-are-initialised-apart",
    breaks=("initialisation.variance-inverse-to-input",),
    properties=("test_torchs_layers_begin_with_the_variances_of_their_own_rules",),
)
def projections_are_initialised_apart() -> Iterator[None]:
    """nn.MultiheadAttention applies Xavier's rule to each of its three packed projections."""

    def apart(weight: Tensor, gain: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
        parts = weight.data.chunk(3) if weight.shape[0] == 3 * weight.shape[1] else (weight,)
        for part in parts:
            original(part, gain, generator)
        return weight

    with patched(activation, "xavier_uniform_", apart) as original:
        yield


@mutant(
    "truncation-clips",
    breaks=("initialisation.variance-inverse-to-input",),
    properties=("test_a_truncated_normal_loses_the_variance_of_its_tails",),
)
def truncation_clips() -> Iterator[None]:
    """trunc_normal_ moves what is beyond its ends onto them."""

    def clipped(weight: Tensor, mean: float, std: float, a: float, b: float, generator: torch.Generator) -> Tensor:
        return weight.normal_(mean, std, generator=generator).clamp_(a, b)

    with patched(nn.init, "trunc_normal_", clipped):
        yield


@mutant(
    "truncation-inverts-the-error-function",
    breaks=("initialisation.variance-inverse-to-input",),
    properties=("test_in_bfloat16_ends_far_out_are_not_reached",),
)
def truncation_inverts_the_error_function() -> Iterator[None]:
    """trunc_normal_ turns uniform numbers into normal ones, in the format of the weights."""

    def inverted(weight: Tensor, mean: float, std: float, a: float, b: float, generator: torch.Generator) -> Tensor:
        low, high = (math.erf((end - mean) / std / math.sqrt(2)) for end in (a, b))
        weight.uniform_(low, high, generator=generator)
        return weight.erfinv_().mul_(std * math.sqrt(2)).add_(mean).clamp_(a, b)

    with patched(nn.init, "trunc_normal_", inverted):
        yield


@mutant(
    "truncation-around-zero",
    breaks=("initialisation.variance-inverse-to-input",),
    properties=("test_a_truncated_normal_loses_the_variance_of_its_tails",),
)
def truncation_around_zero() -> Iterator[None]:
    """trunc_normal_ draws around zero, whatever mean it is told, and then cuts off."""
    original = nn.init.trunc_normal_

    def around_zero(weight: Tensor, mean: float, std: float, a: float, b: float, generator: torch.Generator) -> Tensor:
        return original(weight, 0.0, std, a, b, generator=generator)

    with patched(nn.init, "trunc_normal_", around_zero):
        yield


@mutant(
    "normal-takes-the-variance",
    breaks=("initialisation.variance-inverse-to-input",),
    properties=("test_normal_is_told_the_deviation_and_uniform_the_ends",),
)
def normal_takes_the_variance() -> Iterator[None]:
    """normal_ takes what it is told for the variance."""
    original = nn.init.normal_

    def of_variance(weight: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
        return original(weight, mean, math.sqrt(std), generator)

    with patched(nn.init, "normal_", of_variance):
        yield


@mutant(
    "uniform-takes-the-range",
    breaks=("initialisation.variance-inverse-to-input",),
    properties=("test_normal_is_told_the_deviation_and_uniform_the_ends",),
)
def uniform_takes_the_range() -> Iterator[None]:
    """uniform_ goes from its first end as far as its second says."""
    original = nn.init.uniform_

    def ranging(weight: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
        return original(weight, a, a + b, generator)

    with patched(nn.init, "uniform_", ranging):
        yield


@mutant(
    "leaks-of-a-fifth",
    breaks=("initialisation.variance-inverse-to-input",),
    properties=("test_gains_are_those_of_torchs_table",),
)
def leaks_of_a_fifth() -> Iterator[None]:
    """A leaky ReLU has a slope of 0.2 unless it is told another."""
    original: Any = nn.init.calculate_gain

    def leaking(name: str, slope: float | None = None) -> float:
        gain: float = original(name, 0.2 if name == "leaky_relu" and slope is None else slope)
        return gain

    with patched(nn.init, "calculate_gain", leaking):
        yield


@mutant(
    "norms-begin-anywhere",
    breaks=("initialisation.variance-inverse-to-input",),
    properties=("test_norms_begin_with_ones_and_zeros_and_padding_with_zeros",),
)
def norms_begin_anywhere() -> Iterator[None]:
    """What should begin with ones begins with uniform numbers."""
    with patched(nn.init, "ones_", nn.init.uniform_):
        yield


@mutant(
    "padding-begins-anywhere",
    breaks=("initialisation.variance-inverse-to-input",),
    properties=("test_norms_begin_with_ones_and_zeros_and_padding_with_zeros",),
)
def padding_begins_anywhere() -> Iterator[None]:
    """An embedding's row for padding begins like the others."""
    with patched(nn.Embedding, "_fill_padding_idx_with_zero", lambda layer: None):
        yield


@mutant(
    "stacks-begin-apart",
    breaks=("initialisation.variance-inverse-to-input",),
    properties=("test_a_stack_that_copies_a_layer_begins_with_equal_layers",),
)
def stacks_begin_apart() -> Iterator[None]:
    """Each layer of a stack of encoder layers draws its own matrices."""
    original: Any = nn.TransformerEncoder.__init__

    def apart(stack: Any, *arguments: Any, **keywords: Any) -> None:
        original(stack, *arguments, **keywords)
        for parameter in stack.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)

    with patched(nn.TransformerEncoder, "__init__", apart):
        yield


@mutant(
    "cells-ask-their-inputs",
    breaks=("initialisation.variance-inverse-to-input",),
    properties=("test_torchs_layers_begin_with_the_variances_of_their_own_rules",),
)
def cells_ask_their_inputs() -> Iterator[None]:
    """The weights of a recurrent cell end at one over the root of what each multiplies."""

    def begin(cell: Any) -> None:
        for parameter in cell.parameters():
            end = parameter.shape[-1] ** -0.5
            nn.init.uniform_(parameter, -end, end)

    with patched(nn.RNNCellBase, "reset_parameters", begin):
        yield


@mutant(
    "orthogonal-is-normal",
    breaks=("initialisation.variance-inverse-to-input",),
    properties=("test_orthogonal_weights_have_one_over_the_larger_fan",),
)
def orthogonal_is_normal() -> Iterator[None]:
    """orthogonal_ fills in normal weights of the right variance, which are nearly orthogonal."""

    def normal(weight: Tensor, gain: float, generator: torch.Generator) -> Tensor:
        return weight.normal_(0, gain / math.sqrt(max(weight.shape)), generator=generator)

    with patched(nn.init, "orthogonal_", normal):
        yield


@mutant(
    "sparse-by-chance",
    breaks=("initialisation.variance-inverse-to-input",),
    properties=("test_sparse_weights_have_one_variance_whatever_their_fans",),
)
def sparse_by_chance() -> Iterator[None]:
    """sparse_ sets each weight to zero with a probability."""

    def random(weight: Tensor, sparsity: float) -> Tensor:
        return weight.normal_(0, 0.01).mul_(torch.rand(weight.shape) >= sparsity)

    with patched(nn.init, "sparse_", random):
        yield


@mutant(
    "kaiming-doubles-twice",
    breaks=("initialisation.kaiming.through-relu",),
    properties=("test_kaiming_keeps_the_scale_through_relu", "test_on_average_a_layer_keeps_the_mean_square"),
)
def kaiming_doubles_twice() -> Iterator[None]:
    """kaiming_normal_ takes a gain of two, which makes up for ReLU twice."""
    with patched(nn.init, "calculate_gain", lambda *arguments: 2.0):
        yield
