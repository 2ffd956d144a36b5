"""Chapter 5, FLOPs of training: forward, backward, and both together, for matrices one after the other."""

import operator
from fractions import Fraction

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from jaxtyping import Float

from properties.claims import also, approximates, corrects, costly, holds, holds_when, needs, refuted
from properties.evidence import in_band, observe, when, within_band
from properties.instruments.clock import compare
from properties.instruments.flops import Phase, count_flops
from properties.needs import on_each_device
from properties.refusals import refused
from properties.strategies import broadcasts, classes, stacks, uses, workloads
from properties.strategies.broadcasts import Broadcast
from properties.strategies.classes import Labelled
from properties.strategies.networks import OPTIMIZERS, SETTINGS, Activation, Mlp, new_optimizer
from properties.strategies.stacks import Layer, Recomputation, Stack, Update
from properties.strategies.uses import Layered, Network, Use
from properties.strategies.workloads import Layers
from properties.witnesses import assert_agree
from reference import linear
from reference.autodiff import central_differences

# ── one layer, forward ──


@holds_when(
    "training.forward.two-per-weight",
    "each weight is used once for each token in a matrix product. An embedding lookup takes no FLOP, a bias one, a"
    " convolution's weight two for each position of the output, and a weight that n layers share 2n.",
)
@given(layer=st.one_of(uses.used_once(), uses.used_otherwise()))
@example(layer=Layered(Use.LINEAR, tokens=2, inputs=3, outputs=4))
@example(layer=Layered(Use.BIASED, tokens=2, inputs=3, outputs=4))
@example(layer=Layered(Use.CONVOLUTION, tokens=2, inputs=3, outputs=4, times=5))
@example(layer=Layered(Use.SHARED, tokens=2, inputs=3, outputs=3, times=4))
@example(layer=Layered(Use.EMBEDDING, tokens=2, inputs=3, outputs=4))
def test_a_token_takes_two_flops_a_weight_where_it_meets_each_weight_once(layer):
    """In the forward pass every weight takes part in one multiplication and one addition per token, so
    2 * params * tokens.
    """
    seen = layer.step().forward
    dispatched = seen.matrix + seen.elementwise
    assert_agree(dispatcher=dispatched, counting_numbers=layer.numbers().flops, closed_form=layer.flops)
    assert (dispatched == 2 * layer.parameters * layer.tokens) == when(layer.once)


@also("training.forward.two-per-weight")
@given(tokens=st.integers(1, 20), vocabulary=st.integers(1, 60), width=st.integers(1, 12))
@example(tokens=12, vocabulary=50, width=8)
def test_a_model_takes_the_same_flops_whether_its_projection_is_tied_or_not(tokens, vocabulary, width):
    """Two for each parameter and token is exact with a tied projection, and charges the lookup without."""
    tied, untied = (Layered(use, tokens, vocabulary, width) for use in (Use.TIED, Use.UNTIED))
    flops = tied.step().matrix
    assert flops == untied.step().matrix == 2 * tied.parameters * tokens
    assert 2 * untied.parameters * tokens == flops + 2 * vocabulary * width * tokens


# ── one layer, backward ──


@holds("training.backward.weight-gradient")
@given(layer=stacks.layers())
@example(layer=Layer((2,), 3, 4))
@example(layer=Layer((2, 3), 4, 5))
def test_the_weight_gradient_is_the_input_transposed_times_the_output_gradient(layer):
    """For a linear layer dL/dW = x^T dL/dy.

    With y = x W and x [B, D], in whole numbers, where autograd, the tape, central differences and the formula agree to
    the last bit. Leading dimensions are summed over.
    """
    x, weight, arriving = layer.build()
    (x @ weight).backward(arriving)
    formula = x.detach().flatten(0, -2).T @ arriving.flatten(0, -2)
    numbers, (plain_x, plain_weight, _) = layer.numbers("x", "W"), layer.arrays()
    differences = central_differences(layer.loss, plain_x, plain_weight, operand=1)
    assert torch.equal(weight.grad, formula)
    assert_agree(
        autograd=weight.grad.long().tolist(),
        tape=numbers.gradients[1].tolist(),
        central_differences=differences.astype(int).tolist(),
    )


@also("training.backward.weight-gradient")
@given(layer=stacks.layers())
@example(layer=Layer((2, 3), 4, 5))
def test_a_linear_module_stores_the_weight_and_its_gradient_transposed(layer):
    """nn.Linear keeps W as [outputs, inputs], so that its gradient is the output gradient transposed times x."""
    x, weight, arriving = layer.build()
    module = torch.nn.Linear(layer.inputs, layer.outputs, bias=False, dtype=torch.float64, device="meta")
    module.weight = torch.nn.Parameter(weight.detach().T)
    module(x).backward(arriving)
    assert torch.equal(module.weight.grad, arriving.flatten(0, -2).T @ x.detach().flatten(0, -2))


@refuted(
    "training.backward.optimizer-computes-gradients",
    instead="Autograd computes it in the backward pass; the optimizer only reads .grad. No matrix product is"
    " dispatched in SGD's or AdamW's step (Muon's and Adafactor's do their own).",
)
@given(stack=stacks.stacks())
@example(stack=Stack(2, (3, 4)))
def test_the_weight_gradient_is_not_there_before_the_optimizer(stack):
    """The optimizer receives dL/dy and computes the weight gradient."""
    made = stack.run()
    made.back()
    assert all(weight.grad is None for weight in made.weights)


@corrects("training.backward.optimizer-computes-gradients")
@costly(cases=50, because="a case takes milliseconds")
@given(stack=stacks.stacks(), name=st.sampled_from(OPTIMIZERS))
@example(stack=Stack(2, (3, 4)), name="SGD")
@example(stack=Stack(2, (3, 4)), name="AdamW")
def test_an_optimizer_reads_the_gradients_that_autograd_has_computed(stack, name):
    """A step leaves the gradients as they are, and multiplies no matrices, but for those of its own that some do.

    LBFGS is told its loss and calls backward itself, within its step.
    """
    made = stack.run()
    made.back()
    before = [weight.grad.clone() for weight in made.weights]
    optimizer = new_optimizer(name, made.weights, **SETTINGS[name])
    with count_flops() as counted:
        optimizer.step(*([lambda: made.loss] if name == "LBFGS" else []))
    assert all(map(torch.equal, before, (weight.grad for weight in made.weights)))
    assert counted.optimizer.matrix == 0 or name in ("Muon", "Adafactor", "LBFGS")


@also("training.backward.weight-gradient")
@given(broadcast=broadcasts.broadcasts())
@example(broadcast=Broadcast((4, 3), (3,), operator.add))
@example(broadcast=Broadcast((2, 1), (3,), operator.mul))
def test_what_is_broadcast_gets_the_sum_of_what_arrives_at_its_copies(broadcast):
    """A bias, for one: its gradient is the sum of dL/dy over the rows."""
    assert all(map(torch.equal, broadcast.gradients(), broadcast.by_sums()))


@holds("training.backward.weight-gradient-cost")
@given(layer=stacks.layers())
@example(layer=Layer((2,), 3, 4))
@example(layer=Layer((2, 3), 4, 5))
def test_the_weight_gradient_is_one_more_product(layer):
    """which is one more matmul of 2 * params * tokens."""
    seen, numbers = layer.back("W"), layer.numbers("W")
    assert_agree(
        dispatcher=seen.backward.matrix,
        counting_numbers=numbers.backward.matrix,
        closed_form=linear.weight_gradient_flops(layer.rows, layer.inputs, layer.outputs),
        rule=2 * layer.weights * layer.rows,
    )
    assert sum(seen.calls.get(name, 0) for name in ("aten.mm", "aten.bmm")) == 1


@refuted(
    "training.backward.input-gradient",
    instead="dL/dx = dL/dy W^T in the row convention that the document uses (y = x W). W^T dL/dy is the column"
    " convention (y = W x), in which dL/dW is dL/dy x^T: the two printed formulas never belong to one convention.",
)
@given(layer=stacks.matrix_layers())
@example(layer=Layer((2,), 2, 2))
@example(layer=Layer((3,), 3, 3))
@example(layer=Layer((2,), 3, 4))
def test_the_input_gradient_is_the_weight_transposed_times_the_output_gradient(layer):
    """and dL/dx = W^T dL/dy.

    As printed the product has inner lengths K and B, and a shape that is dL/dx's only if all sizes are equal.
    """
    x, weight, arriving = layer.build()
    (x @ weight).backward(arriving)
    assert stacks.same(stacks.product_as_printed(weight.detach().T, arriving), x.grad)


@corrects("training.backward.input-gradient")
@costly(cases=50, because="a case takes milliseconds")
@given(layer=stacks.layers())
@example(layer=Layer((2,), 3, 4))
@example(layer=Layer((2,), 2, 2))
@example(layer=Layer((1,), 1, 1))
def test_the_input_gradient_is_the_output_gradient_times_the_weight_transposed(layer):
    """With y = x W, dL/dx = dL/dy W^T, by autograd, the tape and central differences."""
    x, weight, arriving = layer.build()
    (x @ weight).backward(arriving)
    numbers, (plain_x, plain_weight, _) = layer.numbers("x", "W"), layer.arrays()
    differences = central_differences(layer.loss, plain_x, plain_weight, operand=0)
    assert torch.equal(x.grad, arriving @ weight.detach().T)
    assert_agree(
        autograd=x.grad.long().tolist(),
        tape=numbers.gradients[0].tolist(),
        central_differences=differences.astype(int).tolist(),
    )


@corrects("training.backward.input-gradient")
@given(layer=stacks.matrix_layers(smallest=1))
@example(layer=Layer((2,), 3, 4))
def test_the_printed_input_gradient_is_that_of_columns_and_then_the_weight_gradient_is_another(layer):
    """With y = W x and tokens in columns, dL/dx = W^T dL/dy, and dL/dW = dL/dy x^T."""
    rows, weight, arriving = layer.build()
    x, w = rows.detach().T.requires_grad_(), weight.detach().T.requires_grad_()
    (w @ x).backward(arriving.T)
    assert torch.equal(x.grad, w.detach().T @ arriving.T)
    assert torch.equal(w.grad, arriving.T @ x.detach().T)


@holds("training.backward.input-gradient-cost")
@costly(cases=50, because="a case takes milliseconds")
@given(layer=stacks.layers())
@example(layer=Layer((2,), 3, 4))
@example(layer=Layer((2, 3), 4, 5))
def test_the_input_gradient_is_one_more_product(layer):
    """which is one more matmul of 2 * params * tokens."""
    alone, both = layer.back("x").backward.matrix, layer.back("x", "W").backward.matrix
    assert_agree(
        dispatcher=alone,
        dispatcher_beside_the_weights=both - layer.back("W").backward.matrix,
        counting_numbers=layer.numbers("x").backward.matrix,
        closed_form=linear.input_gradient_flops(layer.rows, layer.inputs, layer.outputs),
        rule=2 * layer.weights * layer.rows,
    )


@refuted(
    "training.backward.update-then-propagate",
    instead="Each layer's backward computes both gradients from the weight of the forward pass, and the optimizer"
    " steps after the whole backward. Updating a weight in place before its layer has passed the gradient on raises"
    " in autograd, and forced through .data gives a wrong gradient; after that layer is done it is safe, which"
    " per-parameter hooks make use of.",
)
@given(stack=stacks.deeper_stacks())
@example(stack=Stack(1, (1, 1, 1), input_gradient=False, seed=3))
@example(stack=Stack(2, (3, 3, 4), input_gradient=False))
def test_an_updated_layer_passes_the_same_gradient_on(stack):
    """A layer's parameters are updated first, and the gradient is passed on after that."""
    first, afterwards = (
        stacks.backward_with(update, stack).weights[0].grad for update in (Update.FORCED, Update.AFTERWARDS)
    )
    assert torch.equal(first, afterwards)


@corrects("training.backward.update-then-propagate")
@given(stack=stacks.deeper_stacks())
@example(stack=Stack(2, (3, 3, 4), input_gradient=False))
def test_both_gradients_of_a_layer_come_from_the_weight_of_the_forward_pass(stack):
    """No matrix changes during the backward pass, and the gradient passed on is dL/dy times its transpose."""
    made = stack.run()
    before = [weight.detach().clone() for weight in made.weights]
    entering, arriving = torch.autograd.grad(made.loss, made.hidden[-2:], retain_graph=True)
    made.back()
    assert all(map(torch.equal, before, made.weights))
    assert torch.equal(entering, arriving @ before[-1].T)
    assert torch.equal(made.weights[-1].grad, made.hidden[-2].detach().T @ arriving)


@corrects("training.backward.update-then-propagate")
@given(stack=stacks.deeper_stacks())
@example(stack=Stack(2, (3, 3, 4), input_gradient=False))
def test_autograd_refuses_a_weight_that_was_updated_before_its_layer_passed_the_gradient_on(stack):
    """The weight was saved for the backward pass, and its version has moved on."""
    assert refused(RuntimeError, stacks.backward_with, Update.IN_PLACE, stack)


@corrects("training.backward.update-then-propagate")
@given(stack=stacks.deeper_stacks())
@example(stack=Stack(2, (3, 3, 4), input_gradient=False))
def test_a_forced_update_passes_on_the_gradient_of_the_updated_weight(stack):
    """Behind autograd's back the layer multiplies by the new weight, which is the wrong one."""
    made = stack.run()
    entering, arriving = torch.autograd.grad(made.loss, made.hidden[-2:], retain_graph=True)
    moved = made.weights[-1].detach() - made.hidden[-2].detach().T @ arriving
    expected = torch.autograd.grad(made.hidden[-2], made.weights[0], arriving @ moved.T)[0]
    torch.testing.assert_close(stacks.backward_with(Update.FORCED, stack).weights[0].grad, expected)


@corrects("training.backward.update-then-propagate")
@given(stack=stacks.deeper_stacks())
@example(stack=Stack(2, (3, 3, 4), input_gradient=False))
def test_a_weight_may_be_updated_as_soon_as_its_layer_is_done(stack):
    """A hook that steps when a gradient has been accumulated leaves every other gradient right."""
    early, late = (stacks.backward_with(update, stack) for update in (Update.WHEN_DONE, Update.AFTERWARDS))
    assert not torch.equal(early.weights[-1], late.weights[-1]) or not late.weights[-1].grad.any()
    assert all(torch.equal(one.grad, other.grad) for one, other in zip(early.weights, late.weights, strict=True))


# ── two layers ──


@holds("training.mlp.shapes")
@given(stack=stacks.two_layers(largest=40))
@example(stack=Stack(1, (1, 1, 1)))
@example(stack=Stack(2, (3, 3, 4)))
def test_two_layers_have_the_shapes_they_are_drawn_with(stack):
    """x [B, D] through w1 [D, D] and w2 [D, K] gives h1 [B, D] and h2 [B, K]."""
    made = stack.run()
    rows, (width, _, outputs) = stack.rows, stack.widths
    h1, h2 = made.hidden
    assert isinstance(made.x, Float[torch.Tensor, f"{rows} {width}"])
    assert isinstance(h1, Float[torch.Tensor, f"{rows} {width}"])
    assert isinstance(h2, Float[torch.Tensor, f"{rows} {outputs}"])


@holds("training.mlp.forward")
@costly(cases=50, because="a case takes milliseconds")
@given(stack=stacks.two_layers())
@example(stack=Stack(1, (1, 1, 1)))
@example(stack=Stack(2, (3, 3, 4)))
def test_two_layers_take_twice_rows_times_width_times_both_widths(stack):
    """The forward pass takes 2*B*D*(D + K) FLOPs, activations and loss left out.

    The loss would add two for each output: a square, and an addition or, once, the division.
    """
    rows, (width, _, outputs) = stack.rows, stack.widths
    seen, numbers = stack.step().forward, stack.numbers().forward
    layers = linear.two_layer_forward_flops(rows, width, outputs)
    assert_agree(dispatcher=seen.matrix, counting_numbers=numbers.matrix, closed_form=layers)
    assert_agree(dispatcher=seen.elementwise, counting_numbers=numbers.elementwise, closed_form=2 * rows * outputs)


@refuted(
    "training.mlp.reading-of-the-product",
    instead="The parameters are D*D + D*K = D*(D + K) and the data points are the B rows; the product is the same, the"
    " reading is not.",
)
@given(stack=stacks.two_layers())
@example(stack=Stack(1, (2, 2, 1)))
def test_the_bracket_is_the_parameters_and_the_factor_the_data_points(stack):
    """In 2*B*D*(D + K) the bracket is the two layers' parameters and B*D is the number of data points."""
    made = stack.run()
    width, _, outputs = stack.widths
    assert sum(weight.numel() for weight in made.weights) == width + outputs
    assert len(made.x) == stack.rows * width


@corrects("training.mlp.reading-of-the-product")
@given(stack=stacks.two_layers())
@example(stack=Stack(1, (1, 1, 1)))
@example(stack=Stack(1, (2, 2, 1)))
def test_the_parameters_are_the_bracket_times_the_width_and_the_data_points_are_the_rows(stack):
    """The product is 2 * data points * parameters all the same."""
    made = stack.run()
    width, _, outputs = stack.widths
    parameters, points = sum(weight.numel() for weight in made.weights), len(made.x)
    assert (parameters, points) == (width * (width + outputs), stack.rows)
    assert stack.step().forward.matrix == 2 * points * parameters


# ── any depth, forward ──


@approximates(
    "training.forward.any-depth",
    "Exact for bias-free linear stacks; a bias parameter costs 1 rather than 2, elementwise layers add their own; the"
    " relative error is at most the share of such work.",
)
@costly(cases=50, because="a case takes milliseconds")
@given(network=uses.networks())
@example(network=Network(Mlp((3, 4, 5, 2), bias=False, activation=Activation.IDENTITY), rows=2))
@example(network=Network(Mlp((3, 4, 5, 2), bias=True, activation=Activation.GELU), rows=2))
def test_a_network_takes_about_two_flops_a_parameter_and_data_point(network):
    """At any depth the forward FLOPs are about 2 * data points * parameters."""
    seen = network.step().forward
    dispatched = seen.matrix + seen.elementwise
    assert_agree(dispatcher=dispatched, counting_numbers=network.numbers().flops, closed_form=network.flops)
    observe(rule=network.rule, exact=dispatched, bound=network.bound, unit="FLOP", where=network, label="forward")


@also("training.forward.any-depth")
@given(stack=stacks.stacks())
@example(stack=Stack(3, (4, 3, 1, 2)))
def test_a_stack_without_biases_takes_exactly_two_flops_a_parameter_and_row(stack):
    """Here the rule is exact, whatever the widths and the depth."""
    assert_agree(
        dispatcher=stack.step().forward.matrix,
        counting_numbers=stack.numbers().forward.matrix,
        closed_form=stack.forward_flops,
        rule=2 * stack.rows * stack.parameters,
    )


# ── any depth, backward ──


@holds("training.backward.order")
@given(stack=stacks.stacks())
@example(stack=Stack(2, (3, 3, 4)))
def test_gradients_are_computed_from_the_last_layer_to_the_first(stack):
    """Backward computes h2.grad, w2.grad, h1.grad, w1.grad in turn.

    Layers go strictly in reverse. Which of its two gradients a layer hands out first, that of its weight or that of its
    input, is an implementation detail.
    """
    last, *order = stacks.order_of_gradients(stack)
    assert last == f"h{stack.layers}"
    layers = [{f"w{place}", f"h{place - 1}"} for place in range(stack.layers, 1, -1)]
    assert [set(order[2 * place : 2 * place + 2]) for place in range(stack.layers - 1)] == layers
    assert order[2 * (stack.layers - 1) :] == ["w1"]


@holds_when(
    "training.backward.nonleaf-grad",
    "retain_grad() was called on it; otherwise .grad of an intermediate is None, with a warning.",
)
@given(stack=stacks.stacks(), retained=st.booleans())
@example(stack=Stack(2, (3, 3, 4)), retained=True)
@example(stack=Stack(2, (3, 3, 4)), retained=False)
def test_the_gradient_of_an_activation_is_kept_where_it_was_asked_for(stack, retained):
    """h2.grad and h1.grad can be read after backward."""
    made = stack.run()
    for hidden in made.hidden if retained else ():
        hidden.retain_grad()
    made.back()
    for gradient, warned in map(stacks.read_gradient, made.hidden):
        assert (gradient is not None) == (not warned) == when(retained)


@holds("training.backward.loss-gradient-elementwise")
@given(stack=stacks.two_layers())
@example(stack=Stack(2, (3, 3, 4)))
def test_the_gradient_of_the_loss_takes_no_product(stack):
    """h2.grad comes from the loss elementwise, with no matmul, and is a low-order cost.

    For the mean square it is 2 * h2 / (B * K), within the rounding of its three operations. It takes at most 4 FLOPs a
    number, of the at least 4 * D that the matrix products of the backward pass take for it.
    """
    made = stack.run()
    h2 = made.hidden[-1]
    with count_flops() as counted:
        (arriving,) = torch.autograd.grad(made.loss, h2)
    torch.testing.assert_close(arriving, 2 * h2.detach() / h2.numel(), rtol=2e-15, atol=0)
    assert counted.backward.matrix == 0
    share = Fraction(counted.backward.elementwise, stack.backward_flops)
    assert 0 < share <= Fraction(1, stack.widths[0])


@also("training.backward.loss-gradient-elementwise")
@costly(cases=30, because="every number goes through the tape")
@given(labelled=classes.labelled())
@example(labelled=Labelled(3, (0, None, 2)))
def test_the_gradient_of_cross_entropy_is_that_of_the_rows_that_count(labelled):
    """For cross-entropy it is the softmax less one at the target, over the rows that count; it takes no product either.

    A row whose target is ignored has a gradient of zero, and the mean is one of the others.
    """
    logits, targets = labelled.build()
    loss = torch.nn.functional.cross_entropy(logits, targets)
    with count_flops() as counted:
        loss.backward()
    value, gradient = labelled.by_the_tape()
    torch.testing.assert_close(loss.item(), value, rtol=1e-14, atol=1e-14)
    torch.testing.assert_close(logits.grad, torch.from_numpy(gradient), rtol=1e-13, atol=1e-15)
    assert counted.backward.matrix == 0


@holds("training.backward.second-layer")
@costly(cases=50, because="a case takes milliseconds")
@given(stack=stacks.two_layers())
@example(stack=Stack(2, (3, 3, 4)))
def test_each_gradient_of_the_second_layer_takes_a_product(stack):
    """w2.grad and h1.grad take 2*B*D*K each, 4*B*D*K together."""
    rows, (_, width, outputs) = stack.rows, stack.widths
    layer = Layer((rows,), width, outputs, stack.seed)
    for wanted, products in ((("W",), 2), (("x",), 2), (("x", "W"), 4)):
        assert_agree(
            dispatcher=layer.back(*wanted).backward.matrix,
            counting_numbers=layer.numbers(*wanted).backward.matrix,
            closed_form=products * rows * width * outputs,
        )


@holds_when("training.backward.first-layer", "the input requires a gradient.")
@costly(cases=50, because="a case takes milliseconds")
@given(stack=st.one_of(stacks.two_layers(input_gradient=(True,)), stacks.two_layers(input_gradient=(False,))))
@example(stack=Stack(2, (3, 3, 4), input_gradient=True))
@example(stack=Stack(2, (3, 3, 4), input_gradient=False))
def test_both_layers_backward_take_twice_the_forward_where_the_input_needs_a_gradient(stack):
    """w1.grad and x.grad take 2*B*D*D each; both layers together 4*B*D*(D + K)."""
    rows, (width, _, outputs) = stack.rows, stack.widths
    seen = stack.step().backward.matrix
    assert_agree(dispatcher=seen, counting_numbers=stack.numbers().backward.matrix, closed_form=stack.backward_flops)
    assert (seen == linear.two_layer_backward_flops(rows, width, outputs)) == when(stack.input_gradient)


@holds("training.backward.without-input-gradient")
@given(stack=stacks.two_layers(input_gradient=(False,)))
@example(stack=Stack(1, (1, 1, 1), input_gradient=False))
@example(stack=Stack(2, (3, 3, 4), input_gradient=False))
def test_without_the_input_gradient_a_product_of_the_first_layer_falls_away(stack):
    """Without x.grad the backward is smaller by 2*B*D*D."""
    rows, (width, _, outputs) = stack.rows, stack.widths
    assert_agree(
        dispatcher=stack.step().backward.matrix,
        counting_numbers=stack.numbers().backward.matrix,
        closed_form=linear.two_layer_backward_without_input_gradient_flops(rows, width, outputs),
        whole_less_the_difference=4 * rows * width * (width + outputs) - 2 * rows * width * width,
    )


@also("training.backward.without-input-gradient")
@given(stack=stacks.partly_frozen())
@example(stack=Stack(2, (3, 4, 2, 3), input_gradient=False, frozen=(0,)))
@example(stack=Stack(2, (3, 4, 2, 3), input_gradient=True, frozen=(0, 2)))
def test_frozen_layers_take_their_weights_share_off_the_backward_pass(stack):
    """A frozen layer computes no gradient of its weight, and passes one on only to something that is trained."""
    assert_agree(
        dispatcher=stack.step().backward.matrix,
        counting_numbers=stack.numbers().backward.matrix,
        closed_form=stack.backward_flops,
    )


@approximates(
    "training.backward.input-gradient-negligible",
    "For L equal layers backward over forward is 2 - 1/L exactly; for any widths the shortfall is at most the first"
    " layer's share of the parameters.",
)
@costly(cases=50, because="a case takes milliseconds")
@given(stack=stacks.stacks(input_gradient=(False,)))
@example(stack=Stack(2, (3, 3), input_gradient=False))
@example(stack=Stack(2, (1, 4, 4, 4), input_gradient=False))
def test_the_input_gradient_is_the_first_layers_share(stack):
    """In a deep model the missing input gradient hardly matters, and backward is about 4 * data points * parameters."""
    seen = stack.step().backward.matrix
    assert_agree(dispatcher=seen, counting_numbers=stack.numbers().backward.matrix, closed_form=stack.backward_flops)
    share = linear.first_layer_share(stack.widths)
    rule = 4 * stack.rows * stack.parameters
    assert Fraction(rule - seen, rule) == share / 2
    observe(rule=rule, exact=seen, bound=share, unit="FLOP", where=stack, label="backward without the input's gradient")


@also("training.backward.input-gradient-negligible")
@given(stack=stacks.equal_stacks())
@example(stack=Stack(4, (8,) * 2, input_gradient=False))
@example(stack=Stack(4, (8,) * 33, input_gradient=False))
def test_equal_layers_go_back_with_two_less_one_over_their_number(stack):
    """The ratio nears two with depth."""
    seen = stack.step()
    exact = linear.backward_over_forward(stack.layers)
    assert Fraction(seen.backward.matrix, seen.forward.matrix) == exact
    where, by = {"layers": stack.layers}, linear.backward_over_forward
    observe(rule=2, exact=exact, where=where, label="backward over forward, by depth", by=by)


@approximates(
    "training.backward.twice-forward-time",
    "For models that matrix products dominate: within a stated band around the ratio of FLOPs; outside it for small"
    " sizes, where launches and memory rule.",
)
@on_each_device
@pytest.mark.parametrize("input_gradient", [True, False])
def test_backward_takes_as_many_times_as_long_as_it_has_flops(device, input_gradient):
    """So backward takes about twice the time of forward.

    Through two large matrices: twice with the gradient of the data, one and a half times without.
    """
    layers = workloads.layers(device, input_gradient)
    passes = layers.passes()
    seen = compare(passes.backward(), passes.forward(), workloads.around(layers.ratio))
    within_band(seen, rule=layers.ratio, unit="times as long", where=layers)


@also("training.backward.twice-forward-time")
def test_with_small_matrices_backward_takes_longer_than_it_has_flops():
    """What autograd does besides takes the longer part: through matrices of 8 by 8 the band is left."""
    layers = Layers(1, 8, 2)
    passes = layers.passes()
    seen = compare(passes.backward(), passes.forward(), workloads.around(layers.ratio))
    assert not in_band(seen, rule=layers.ratio, unit="times as long", label="small", where=layers)


@also("training.backward.twice-forward-time")
@needs("cuda")
@pytest.mark.parametrize("block", workloads.BLOCKS)
def test_backward_of_a_decoders_block_takes_as_many_times_as_long_as_it_has_flops(block):
    """Twice where attention is composed; more where a fused kernel computes the scores again, at a long context."""
    passes = block.passes()
    seen = compare(passes.backward(), passes.forward(), block.band)
    within_band(seen, rule=block.ratio, unit="times as long", label=block.attention.name.lower(), where=block)


# ── both passes ──


@approximates(
    "training.total.six-times",
    "With the bounds of its two parts; full recomputation of activations adds up to one forward (8 instead of 6; less"
    " where it stops early), gradient accumulation changes nothing.",
)
@costly(cases=50, because="a case takes milliseconds")
@given(stack=stacks.stacks())
@example(stack=Stack(2, (3, 4, 5), input_gradient=True))
@example(stack=Stack(2, (3, 4, 5), input_gradient=False))
def test_training_takes_about_six_flops_a_parameter_and_data_point(stack):
    """Training takes about (2 + 4) * data points * parameters."""
    seen, numbers = stack.step(), stack.numbers()
    assert_agree(
        dispatcher=seen.model.matrix,
        counting_numbers=numbers.forward.matrix + numbers.backward.matrix,
        closed_form=stack.forward_flops + stack.backward_flops,
    )
    bound = 0 if stack.input_gradient else linear.first_layer_share(stack.widths) / 2
    rule = 6 * stack.rows * stack.parameters
    observe(rule=rule, exact=seen.model.matrix, bound=bound, unit="FLOP", where=stack, label="both passes")


@also("training.total.six-times")
@given(stack=stacks.stacks(input_gradient=(True,)), recomputation=st.sampled_from(Recomputation))
@example(stack=Stack(2, (3, 4, 5)), recomputation=Recomputation.REENTRANT)
@example(stack=Stack(2, (3, 4, 5)), recomputation=Recomputation.NON_REENTRANT)
def test_checkpointing_adds_what_it_does_again_and_leaves_the_model_alone(stack, recomputation):
    """The older form does the whole forward pass again, eight in all; the newer one stops before the last product."""
    seen = stack.step_with(recomputation)
    assert seen.model.matrix == 6 * stack.rows * stack.parameters
    assert seen.recomputed.matrix == stack.recomputed_flops(recomputation)
    assert seen.hardware.matrix == seen.model.matrix + seen.recomputed.matrix
    exact = Fraction(seen.hardware.matrix, stack.rows * stack.parameters)
    observe(rule=6, exact=exact, unit="FLOP a parameter and row", where=stack, label=recomputation.name.lower())


@also("training.total.six-times")
@given(stack=stacks.stacks())
@example(stack=Stack(2, (3, 4), input_gradient=False))
def test_a_checkpointed_region_trains_its_weights_though_its_input_needs_no_gradient(stack):
    """As without checkpointing, with use_reentrant=False.

    The older form, which torch takes where it is not told, gives an output without a gradient then, and leaves the
    region's weights as they are.
    """
    x, *weights = stack.leaves("cpu")
    plain = x.detach() @ weights[0]
    kept = stacks.checkpointed(lambda rows: rows @ weights[0], x.detach(), Recomputation.NON_REENTRANT)
    assert kept.requires_grad and plain.requires_grad
    expected = torch.autograd.grad(plain.sum(), weights[0])[0]
    assert torch.equal(torch.autograd.grad(kept.sum(), weights[0])[0], expected)


@also("training.total.six-times")
@given(stack=stacks.stacks(), parts=st.integers(1, 4))
@example(stack=Stack(4, (3, 4, 5)), parts=4)
def test_gradients_add_up_over_parts_and_take_the_same_products(stack, parts):
    """Rows that go through a few at a time meet every weight as often.

    What a backward pass finds is added to .grad, so that the parts' sums of squares give the gradient of the whole sum.
    """
    (whole, at_once), (split, added) = (stack.step_in_parts(each) for each in (1, parts))
    assert split.within(Phase.FORWARD)["aten.mm"].matrix == whole.forward.matrix
    assert split.model.matrix == whole.model.matrix
    assert len(added) == stack.layers and all(map(torch.equal, added, at_once))
