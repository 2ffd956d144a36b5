"""What the strategies of chapter 5 reach: both sides of every condition, and the forms that matter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from properties.strategies import stacks, transformers, uses
from properties.strategies.transformers import PUBLISHED, Part
from properties.strategies.uses import Use
from properties.tests.drawing import drawn, share, smallest
from reference.transformer import FeedForward, Positions, Projection

SIDES: dict[str, tuple[SearchStrategy[Any], Callable[[Any], object]]] = {
    "a weight that is used once": (st.one_of(uses.used_once(), uses.used_otherwise()), lambda layer: layer.once),
    "an input that needs a gradient": (
        st.one_of(stacks.two_layers((True,)), stacks.two_layers((False,))),
        lambda stack: stack.input_gradient,
    ),
    "a table that is looked up": (st.sampled_from(Part), lambda part: part is not Part.PROJECTION),
}
REACHED: dict[str, tuple[SearchStrategy[Any], Callable[[Any], object]]] = {
    "one layer": (stacks.stacks(), lambda stack: stack.layers == 1),
    "three layers and more": (stacks.stacks(), lambda stack: stack.layers >= 3),
    "unequal widths": (stacks.stacks(), lambda stack: len(set(stack.widths)) > 1),
    "a frozen layer": (stacks.partly_frozen(), lambda stack: stack.frozen),
    "a frozen first layer": (stacks.partly_frozen(), lambda stack: 0 in stack.frozen),
    "two leading dimensions": (stacks.layers(), lambda layer: len(layer.leading) == 2),
    "square matrices": (stacks.matrix_layers(), lambda layer: layer.leading[0] == layer.inputs == layer.outputs),
    "a bias": (uses.networks(), lambda network: network.mlp.bias),
    "shared keys": (transformers.models(), lambda model: model.sizes.heads > model.sizes.key_value_heads),
    "heads that do not fill the width": (
        transformers.models(),
        lambda model: model.sizes.heads * model.sizes.head_width != model.sizes.width,
    ),
    "a gated layer": (transformers.models(), lambda model: model.sizes.feed_forward is FeedForward.GATED),
    "a tied projection": (transformers.models(), lambda model: model.sizes.projection is Projection.TIED),
    "rotary positions": (transformers.models(), lambda model: model.sizes.positions is Positions.ROTARY),
    "one token": (transformers.models(), lambda model: model.context == 1),
    "two sequences": (transformers.models(), lambda model: model.batch == 2),
}
SELDOM = {"square matrices": 0.02, "one token": 0.02}


@pytest.mark.parametrize("name", SIDES)
def test_each_side_of_a_condition_has_a_twentieth_of_the_cases(name: str) -> None:
    strategy, condition = SIDES[name]
    assert 0.05 <= share(drawn(strategy), condition) <= 0.95


@pytest.mark.parametrize("name", REACHED)
def test_a_form_that_matters_is_reached(name: str) -> None:
    strategy, condition = REACHED[name]
    assert share(drawn(strategy), condition) >= SELDOM.get(name, 0.1)


@pytest.mark.parametrize("use", Use)
def test_every_use_of_weights_is_drawn(use: Use) -> None:
    everything = st.one_of(uses.used_once(), uses.used_otherwise())
    assert share(drawn(everything), lambda layer: layer.use is use) >= 0.03


def test_stacks_shrink_to_one_row_through_one_weight() -> None:
    stack = smallest(stacks.stacks(), lambda stack: True)
    assert (stack.rows, stack.widths, stack.frozen) == (1, (1, 1), ())


def test_a_description_pastes() -> None:
    names = {**vars(stacks), **vars(uses), **vars(transformers)}
    for strategy in (stacks.partly_frozen(), stacks.layers(), uses.used_otherwise(), uses.networks()):
        for case in drawn(strategy, 20):
            assert eval(repr(case), names) == case
    for case in drawn(transformers.models(), 20):
        assert eval(repr(case), names) == case


def test_every_published_decoder_has_its_parameters_and_a_source() -> None:
    for published in PUBLISHED.values():
        assert published.as_published
        assert "https://" in published.source


def test_full_sizes_are_counted_once_in_a_process() -> None:
    first = transformers.counted_at_full_size("GPT-2 small", 16)
    assert transformers.counted_at_full_size("GPT-2 small", 16) is first
