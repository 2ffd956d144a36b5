"""Worlds in which layers, gradients and decoders take other products than they do, or a counter does not see them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils import checkpoint

from properties.instruments import flops
from properties.instruments.flop_rules import NOTHING, RULES
from properties.mutants.mutant import mutant, patched
from properties.strategies import transformers
from reference import transformer
from reference.planner import AttentionCounted

Product = Callable[[Any, Any], Any]
matmul: Product = torch.matmul


@contextmanager
def _products(product: Product) -> Iterator[None]:
    """Every way of writing a matrix product, by another one."""

    def linear(x: Any, weight: Any, bias: Any = None) -> Any:
        result = product(x, weight.T)
        return result if bias is None else result + bias

    with (
        patched(torch, "matmul", product),
        patched(torch.Tensor, "__matmul__", product),
        patched(nn.functional, "linear", linear),
    ):
        yield


def _with_gradients(
    left: Callable[[Any, Any, Any], Any], right: Callable[[Any, Any, Any], Any], keep: Callable[[Any], Any]
) -> Product:
    """A product by a matrix, whose gradients are ``left`` and ``right`` of x, w and what arrives.

    ``keep`` says what is kept of an operand for the backward pass.
    """

    class Changed(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, w: Any) -> Any:
            ctx.operands = (keep(x), keep(w))
            return matmul(x, w)

        @staticmethod
        def backward(ctx: Any, *arriving: Any) -> Any:
            x, w = ctx.operands
            return left(x, w, arriving[0]), right(x, w, arriving[0])

    def product(x: Any, w: Any) -> Any:
        if w.dim() != 2 or not torch.is_grad_enabled() or not (x.requires_grad or w.requires_grad):
            return matmul(x, w)
        return Changed.apply(x, w)  # type: ignore[no-untyped-call]

    return product


def _left(x: Any, w: Any, arriving: Any) -> Any:
    return matmul(arriving, w.T)


def _right(x: Any, w: Any, arriving: Any) -> Any:
    return matmul(x.flatten(0, -2).T, arriving.flatten(0, -2))


def _itself(x: Any) -> Any:
    return x.detach()


def _twice(product: Callable[..., Any]) -> Callable[..., Any]:
    def checked(*operands: Any) -> Any:
        product(*operands)
        return product(*operands)

    return checked


@contextmanager
def counted_anew() -> Iterator[None]:
    """Decoders at full size are built and counted again, in this world and after it."""
    kept = [each for each in vars(transformers).values() if hasattr(each, "cache_clear")]
    for each in kept:
        each.cache_clear()
    try:
        yield
    finally:
        for each in kept:
            each.cache_clear()


# ── products ──


@mutant(
    "products-are-done-twice",
    breaks=(
        "training.forward.two-per-weight",
        "training.mlp.forward",
        "training.mlp.reading-of-the-product",
        "training.forward.any-depth",
        "training.total.six-times",
        "training.transformer.forward",
        "training.transformer.total",
    ),
    properties=(
        "test_a_token_takes_two_flops_a_weight_where_it_meets_each_weight_once",
        "test_a_model_takes_the_same_flops_whether_its_projection_is_tied_or_not",
        "test_two_layers_take_twice_rows_times_width_times_both_widths",
        "test_the_parameters_are_the_bracket_times_the_width_and_the_data_points_are_the_rows",
        "test_a_network_takes_about_two_flops_a_parameter_and_data_point",
        "test_a_stack_without_biases_takes_exactly_two_flops_a_parameter_and_row",
        "test_training_takes_about_six_flops_a_parameter_and_data_point",
        "test_a_decoder_takes_about_two_flops_a_token_and_parameter_forward",
        "test_plain_loops_count_what_the_dispatcher_and_the_closed_form_count",
        "test_attention_exceeds_a_standard_block_by_the_context_over_six_widths",
        "test_decoders_that_were_trained_have_the_parameters_and_the_flops_of_the_closed_form",
        "test_training_decoders_takes_about_six_flops_a_token_and_parameter",
    ),
)
def products_are_done_twice() -> Iterator[None]:
    """A matrix product is computed a second time, to be sure."""
    with counted_anew(), _products(_twice(matmul)):
        yield


@mutant(
    "lookups-are-products",
    breaks=("training.forward.two-per-weight", "training.transformer.embedding-excluded"),
    properties=(
        "test_a_token_takes_two_flops_a_weight_where_it_meets_each_weight_once",
        "test_a_model_takes_the_same_flops_whether_its_projection_is_tied_or_not",
        "test_a_lookup_takes_no_flops_and_the_projection_does",
    ),
)
def lookups_are_products() -> Iterator[None]:
    """An embedding multiplies its table by a row that is one at the place that is looked up, and zero elsewhere."""

    def embedding(places: Any, table: Any, *unused: Any) -> Any:
        chosen = places.unsqueeze(-1) == torch.arange(len(table), device=table.device)
        return matmul(chosen.to(table.dtype), table)

    with patched(nn.functional, "embedding", embedding):
        yield


@mutant("products-gain-a-dimension", breaks=("training.mlp.shapes",))
def products_gain_a_dimension() -> Iterator[None]:
    """A matrix product has a leading dimension of one."""
    with _products(lambda x, w: matmul(x, w).unsqueeze(0)):
        yield


@mutant(
    "elements-counted-along-one-side",
    breaks=("training.mlp.reading-of-the-product",),
    properties=(
        "test_the_bracket_is_the_parameters_and_the_factor_the_data_points",
        "test_the_parameters_are_the_bracket_times_the_width_and_the_data_points_are_the_rows",
    ),
)
def elements_counted_along_one_side() -> Iterator[None]:
    """A tensor says that it has as many elements as its last dimension, and that its length is all its elements."""
    with (
        patched(torch.Tensor, "__len__", lambda x: x.shape.numel()),
        patched(torch.Tensor, "numel", lambda x: x.shape[-1] if x.shape else 1),
    ):
        yield


@mutant(
    "parts-are-the-whole",
    breaks=("training.total.six-times",),
    properties=("test_gradients_add_up_over_parts_and_take_the_same_products",),
)
def parts_are_the_whole() -> Iterator[None]:
    """Each part of a batch has all its rows."""
    with patched(torch.Tensor, "chunk", lambda x, parts: [x] * parts):
        yield


# ── gradients ──


@mutant(
    "gradients-replace-each-other",
    breaks=("training.total.six-times",),
    properties=("test_gradients_add_up_over_parts_and_take_the_same_products",),
)
def gradients_replace_each_other() -> Iterator[None]:
    """A backward pass forgets what earlier ones have found."""
    backward: Any = torch.Tensor.backward

    def alone(x: Any, *arguments: Any, **keywords: Any) -> None:
        for leaf in _leaves_of(x):
            leaf.grad = None
        backward(x, *arguments, **keywords)

    with patched(torch.Tensor, "backward", alone):
        yield


@mutant(
    "copies-are-averaged",
    breaks=("training.backward.weight-gradient",),
    properties=("test_what_is_broadcast_gets_the_sum_of_what_arrives_at_its_copies",),
)
def copies_are_averaged() -> Iterator[None]:
    """An operand that is broadcast has for gradient the mean of what arrives at its copies."""
    grad: Any = torch.autograd.grad

    def averaged(result: Any, operands: Any, *arguments: Any) -> Any:
        found = grad(result, operands, *arguments)
        return tuple(each * (each.numel() / max(result.numel(), 1)) for each in found)

    with patched(torch.autograd, "grad", averaged):
        yield


@mutant(
    "ignored-rows-count",
    breaks=("training.backward.loss-gradient-elementwise",),
    properties=("test_the_gradient_of_cross_entropy_is_that_of_the_rows_that_count",),
)
def ignored_rows_count() -> Iterator[None]:
    """The mean of cross-entropy is one over all rows, those that are ignored too."""
    cross_entropy = nn.functional.cross_entropy

    def over_all(logits: Any, targets: Any) -> Any:
        return cross_entropy(logits, targets, reduction="sum") / targets.numel()

    with patched(nn.functional, "cross_entropy", over_all):
        yield


@mutant(
    "gradients-are-averaged",
    breaks=("training.backward.weight-gradient", "training.backward.input-gradient"),
    properties=(
        "test_the_weight_gradient_is_the_input_transposed_times_the_output_gradient",
        "test_a_linear_module_stores_the_weight_and_its_gradient_transposed",
        "test_the_input_gradient_is_the_output_gradient_times_the_weight_transposed",
        "test_the_printed_input_gradient_is_that_of_columns_and_then_the_weight_gradient_is_another",
    ),
)
def gradients_are_averaged() -> Iterator[None]:
    """The gradients of a product are means, over rows and over outputs, and no sums."""

    def left(x: Any, w: Any, arriving: Any) -> Any:
        return _left(x, w, arriving) / w.shape[-1]

    def right(x: Any, w: Any, arriving: Any) -> Any:
        return _right(x, w, arriving) / arriving.flatten(0, -2).shape[0]

    with _products(_with_gradients(left, right, _itself)):
        yield


@mutant(
    "gradients-pass-on-by-columns",
    breaks=("training.backward.input-gradient",),
    properties=(
        "test_the_input_gradient_is_the_weight_transposed_times_the_output_gradient",
        "test_the_input_gradient_is_the_output_gradient_times_the_weight_transposed",
    ),
)
def gradients_pass_on_by_columns() -> Iterator[None]:
    """Where the sizes let it, a product of rows passes on the transposed weight times the gradient."""

    def left(x: Any, w: Any, arriving: Any) -> Any:
        square = arriving.dim() == 2 and x.shape == arriving.shape == w.shape
        return matmul(w.T, arriving) if square else _left(x, w, arriving)

    with _products(_with_gradients(left, _right, _itself)):
        yield


@mutant(
    "gradients-are-left-to-the-optimizer",
    breaks=("training.backward.optimizer-computes-gradients",),
    properties=("test_the_weight_gradient_is_not_there_before_the_optimizer",),
)
def gradients_are_left_to_the_optimizer() -> Iterator[None]:
    """backward() computes nothing."""
    with patched(torch.Tensor, "backward", lambda *unused: None):
        yield


@mutant(
    "optimizers-multiply-gradients",
    breaks=("training.backward.optimizer-computes-gradients",),
    properties=("test_an_optimizer_reads_the_gradients_that_autograd_has_computed",),
)
def optimizers_multiply_gradients() -> Iterator[None]:
    """A step of an optimizer multiplies each gradient by a matrix that changes nothing."""

    def multiply(optimizer: Any, *unused: Any) -> None:
        with torch.no_grad():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    matmul(parameter.grad, torch.eye(parameter.shape[-1], dtype=parameter.dtype))

    with register_optimizer_step_post_hook(multiply):
        yield


@mutant(
    "gradients-are-computed-twice",
    breaks=(
        "training.backward.weight-gradient-cost",
        "training.backward.input-gradient-cost",
        "training.backward.second-layer",
        "training.transformer.backward",
        "training.transformer.forward",
    ),
    properties=(
        "test_the_weight_gradient_is_one_more_product",
        "test_the_input_gradient_is_one_more_product",
        "test_each_gradient_of_the_second_layer_takes_a_product",
        "test_a_decoder_takes_about_four_flops_a_token_and_parameter_backward",
        "test_fused_attention_adds_the_scores_of_each_layer_to_the_backward_pass",
        "test_decoders_that_were_trained_go_back_with_twice_the_forward",
        "test_plain_loops_count_what_the_dispatcher_and_the_closed_form_count",
    ),
)
def gradients_are_computed_twice() -> Iterator[None]:
    """Both gradients of a product are computed a second time, to be sure."""
    with counted_anew(), _products(_with_gradients(_twice(_left), _twice(_right), _itself)):
        yield


@mutant(
    "gradients-wanted-or-not",
    breaks=(
        "training.backward.first-layer",
        "training.backward.without-input-gradient",
        "training.backward.input-gradient-negligible",
        "training.total.six-times",
    ),
    properties=(
        "test_both_layers_backward_take_twice_the_forward_where_the_input_needs_a_gradient",
        "test_without_the_input_gradient_a_product_of_the_first_layer_falls_away",
        "test_frozen_layers_take_their_weights_share_off_the_backward_pass",
        "test_the_input_gradient_is_the_first_layers_share",
        "test_equal_layers_go_back_with_two_less_one_over_their_number",
        "test_training_takes_about_six_flops_a_parameter_and_data_point",
    ),
)
def gradients_wanted_or_not() -> Iterator[None]:
    """A product computes both its gradients, whatever needs one."""
    with _products(_with_gradients(_left, _right, _itself)):
        yield


@mutant(
    "squares-by-a-product",
    breaks=("training.backward.loss-gradient-elementwise",),
    properties=("test_the_gradient_of_the_loss_takes_no_product",),
)
def squares_by_a_product() -> Iterator[None]:
    """A square is multiplied by the matrix that changes nothing."""
    with patched(torch.Tensor, "square", lambda x: matmul(x * x, torch.eye(x.shape[-1], dtype=x.dtype))):
        yield


# ── the order of things ──


def _leaves_of(loss: Any) -> list[Any]:
    """The leaves that a loss is made of, the last that was used first."""
    found, waiting = [], [loss.grad_fn]
    while waiting:
        node = waiting.pop(0)
        found += [node.variable] if hasattr(node, "variable") else []
        waiting += [each for each, _ in node.next_functions if each is not None]
    return found


@mutant(
    "layers-learn-from-the-first-on",
    breaks=("training.backward.order",),
)
def layers_learn_from_the_first_on() -> Iterator[None]:
    """Each weight gets a backward pass of its own, the first layer's first."""

    def backward(loss: Any, *unused: Any) -> None:
        for leaf in reversed(_leaves_of(loss)):
            torch.autograd.backward(loss, inputs=[leaf], retain_graph=True)

    with patched(torch.Tensor, "backward", backward):
        yield


@mutant(
    "backward-updates-weights",
    breaks=("training.backward.update-then-propagate",),
    properties=("test_both_gradients_of_a_layer_come_from_the_weight_of_the_forward_pass",),
)
def backward_updates_weights() -> Iterator[None]:
    """backward() moves the weights as well."""

    def backward(loss: Any, *unused: Any) -> None:
        leaves = _leaves_of(loss)
        torch.autograd.backward(loss)
        for leaf in leaves:
            leaf.data.sub_(leaf.grad + 1)

    with patched(torch.Tensor, "backward", backward):
        yield


@mutant(
    "products-keep-copies",
    breaks=("training.backward.update-then-propagate",),
    properties=(
        "test_an_updated_layer_passes_the_same_gradient_on",
        "test_autograd_refuses_a_weight_that_was_updated_before_its_layer_passed_the_gradient_on",
        "test_a_forced_update_passes_on_the_gradient_of_the_updated_weight",
    ),
)
def products_keep_copies() -> Iterator[None]:
    """A product keeps a copy of its operands for the backward pass."""
    with _products(_with_gradients(_left, _right, lambda x: x.detach().clone())):
        yield


@mutant(
    "layers-learn-before-they-pass-on",
    breaks=("training.backward.update-then-propagate",),
    properties=("test_a_weight_may_be_updated_as_soon_as_its_layer_is_done",),
)
def layers_learn_before_they_pass_on() -> Iterator[None]:
    """A layer hands out the gradient of its weight before it has multiplied by that weight for its input."""
    passes_on = _with_gradients(_left, lambda *unused: None, _itself)
    learns = _with_gradients(lambda *unused: None, _right, _itself)

    def product(x: Any, w: Any) -> Any:
        first, then = passes_on(x, w.detach()), learns(x.detach(), w)
        return first + (then - then.detach())

    with _products(product):
        yield


@mutant("gradients-on-the-way-are-dropped", breaks=("training.backward.nonleaf-grad",))
def gradients_on_the_way_are_dropped() -> Iterator[None]:
    """retain_grad() has no effect."""
    with patched(torch.Tensor, "retain_grad", lambda x: None):
        yield


# ── checkpointing ──


@mutant(
    "checkpoints-do-nothing-again",
    breaks=("training.total.six-times",),
    properties=("test_checkpointing_adds_what_it_does_again_and_leaves_the_model_alone",),
)
def checkpoints_do_nothing_again() -> Iterator[None]:
    """A checkpointed region keeps everything."""

    def kept(region: Callable[..., Any], *operands: Any, **unused: Any) -> Any:
        return region(*operands)

    with patched(checkpoint, "checkpoint", kept):
        yield


@mutant(
    "checkpoints-are-reentrant",
    breaks=("training.total.six-times",),
    properties=("test_a_checkpointed_region_trains_its_weights_though_its_input_needs_no_gradient",),
)
def checkpoints_are_reentrant() -> Iterator[None]:
    """Checkpointing takes its older form, whatever it is told."""

    def older(region: Callable[..., Any], *operands: Any, **unused: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return original(region, *operands, use_reentrant=True)

    with patched(checkpoint, "checkpoint", older) as original:
        yield


# ── decoders ──


@mutant(
    "attention-is-never-fused",
    breaks=("training.transformer.forward", "training.transformer.backward"),
    properties=(
        "test_fused_attention_on_a_cpu_is_counted",
        "test_the_fused_attention_of_a_gpu_adds_the_scores_to_the_backward_pass_too",
        "test_fused_attention_adds_the_scores_of_each_layer_to_the_backward_pass",
    ),
)
def attention_is_never_fused() -> Iterator[None]:
    """scaled_dot_product_attention keeps its scores, operator by operator."""

    def attention(query: Any, key: Any, value: Any, **unused: Any) -> Any:
        return transformers.composed(query, key, value)

    with patched(nn.functional, "scaled_dot_product_attention", attention):
        yield


def _attention(**always: Any) -> Any:
    """torch's fused attention, told something whatever else it is told."""
    attention = nn.functional.scaled_dot_product_attention

    def changed(*operands: Any, **keywords: Any) -> Any:
        return attention(*operands, **keywords | always)

    return patched(nn.functional, "scaled_dot_product_attention", changed)


@mutant(
    "attention-looks-ahead",
    breaks=("training.transformer.forward",),
    properties=("test_fused_attention_is_what_is_counted",),
)
def attention_looks_ahead() -> Iterator[None]:
    """Fused attention has every query see every key, also where it is to be causal."""
    with _attention(is_causal=False):
        yield


@mutant(
    "scores-are-not-scaled",
    breaks=("training.transformer.forward",),
    properties=("test_fused_attention_is_what_is_counted",),
)
def scores_are_not_scaled() -> Iterator[None]:
    """Fused attention leaves its scores as large as the inner products are."""
    with _attention(scale=1.0):
        yield


@mutant(
    "fused-attention-on-a-cpu-is-not-seen",
    breaks=("training.transformer.forward", "training.transformer.backward"),
    properties=(
        "test_fused_attention_on_a_cpu_is_counted",
        "test_fused_attention_adds_the_scores_of_each_layer_to_the_backward_pass",
    ),
)
def fused_attention_on_a_cpu_is_not_seen() -> Iterator[None]:
    """A counter knows no formula for the CPU's fused attention, and says nothing."""
    name = "_scaled_dot_product_flash_attention_for_cpu"
    unseen = dict.fromkeys((name, f"{name}_backward"), lambda *unused: NOTHING)
    try:
        with patched(flops, "RULES", RULES | unseen):
            flops.forget_rules()
            yield
    finally:
        flops.forget_rules()


@mutant(
    "half-of-attention-is-half",
    breaks=("training.transformer.forward",),
    properties=("test_the_causal_half_has_half_the_excess_and_half_a_token_more",),
)
def half_of_attention_is_half() -> Iterator[None]:
    """The closed form takes a causal mask to leave exactly half the pairs."""

    def attention_flops(decoder: Any, batch: Any, context: Any, counted: AttentionCounted) -> Any:
        full = original(decoder, batch, context, AttentionCounted.FULL)
        return full // 2 if counted is AttentionCounted.CAUSAL else full

    with patched(transformer, "attention_flops", attention_flops) as original:
        yield


@mutant(
    "attention-without-its-sums",
    breaks=("training.transformer.total",),
    properties=("test_the_rule_is_far_off_for_a_small_decoder_and_near_for_a_wide_one",),
)
def attention_without_its_sums() -> Iterator[None]:
    """The closed form leaves out the weighted sums of attention."""

    def attention_flops(decoder: Any, batch: Any, context: Any, counted: AttentionCounted) -> Any:
        return original(decoder, batch, context, counted) // 2

    with patched(transformer, "attention_flops", attention_flops) as original:
        yield
