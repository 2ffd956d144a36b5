"""Gradients, continued: what passes back, number by number, through a function that bends or a branch not taken."""

import torch
from hypothesis import example, given
from hypothesis import strategies as st

from properties.claims import also
from properties.evidence import observe
from properties.instruments.releases import looked_at
from properties.strategies.matrices import AT_ZERO, OF_POSITIVE_NUMBERS, RECTIFIERS, KinkedLayer, kinked_layers


@also("training.backward.loss-gradient-elementwise")
@given(layer=kinked_layers(), spelling=st.sampled_from(tuple(RECTIFIERS)))
@example(layer=KinkedLayer(4, 2, 4), spelling="relu")
@example(layer=KinkedLayer(4, 2, 4), spelling="clamp")
def test_a_rectifier_passes_nothing_where_its_input_is_negative_and_all_where_it_is_positive(layer, spelling):
    """Before max(y, 0), dL/dy is what arrives where y is above zero, and nothing below, however it is
    spelled.

    At zero itself the slope is not one number: a ReLU takes 0, the least of all that fit; up to torch 2.13 maximum
    takes a half and clamp 1, and a later release may take something else from 0 to 1, which the evidence shows.
    """
    x, weight, arriving = layer.build()
    y = x @ weight
    y.retain_grad()
    RECTIFIERS[spelling](y).backward(arriving)
    slope = (y.grad / arriving).abs()
    assert torch.equal(slope[y != 0], (y > 0).double()[y != 0])
    assert (slope <= 1).all()
    assert (slope[y == 0] == AT_ZERO[spelling]).all() or not (spelling == "relu" or looked_at())
    for taken in slope[y == 0].unique().tolist():
        observe(rule=taken, exact=0, label=f"the slope of {spelling} at zero")


@also("training.backward.loss-gradient-elementwise")
@given(layer=kinked_layers(), name=st.sampled_from(tuple(OF_POSITIVE_NUMBERS)))
@example(layer=KinkedLayer(4, 2, 4), name="sqrt")
def test_a_branch_that_is_not_taken_needs_an_input_that_it_can_take(layer, name):
    """Where a root or a logarithm is taken of positive numbers only, dL/dy is right if it is given 1 in the
    other places.

    Without that the other places can have a slope that is infinite or no number, and zero times it is no number: dL/dy
    is NaN there although the output is not. torch does so by design, up to 2.13 at least.
    """
    (function, slope), (x, weight, arriving) = OF_POSITIVE_NUMBERS[name], layer.build()
    y = x @ weight
    safe = torch.where(y > 0, y, torch.ones_like(y))
    right = arriving * torch.where(y > 0, slope(safe), torch.ones_like(y)).detach()
    y.retain_grad()
    torch.where(y > 0, function(safe), y).backward(arriving)
    assert torch.allclose(y.grad, right, rtol=1e-15, atol=0)
    alone = y.detach().requires_grad_()
    torch.where(alone > 0, function(alone), alone).backward(arriving)
    spoiled = alone.grad.isnan()
    assert (spoiled | (alone.grad == y.grad)).all() and not spoiled[alone > 0].any()
    assert torch.equal(spoiled, ~slope(alone).isfinite()) or not looked_at()
