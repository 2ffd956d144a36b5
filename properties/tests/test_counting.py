"""What is drawn for counting and planning: what it reaches, that it pastes, and what the witnesses say when
they differ.
"""

from __future__ import annotations

import math
import os
import warnings
from typing import Any

import numpy as np
import pytest
import torch

from properties.instruments.kernels import import_kernels
from properties.instruments.torchs_counter import counted_by_torch
from properties.judging import judge
from properties.levels import Level
from properties.mutants import counting
from properties.specification import Specification
from properties.strategies import algorithms, matrices, plans, programs
from properties.strategies.algorithms import Block, Computation, ElementwiseCall, Values
from properties.strategies.matrices import Chain, IntegerProduct, KinkedLayer, Product, Way
from properties.strategies.plans import Checkpointing, Mixture, Run, Step
from properties.strategies.programs import Kind, Program
from properties.tests.conftest import named
from properties.tests.drawing import drawn, share, smallest
from properties.witnesses import assert_agree
from reference.scalars import Mask
from reference.transformer import Norm


class TestProducts:
    def test_every_way_is_reached(self) -> None:
        ways = {case.way for case in drawn(matrices.products())}
        assert ways == set(Way)

    def test_nothing_vectors_and_broadcasts_are_reached(self) -> None:
        cases = drawn(matrices.products())
        assert share(cases, lambda case: 0 in (*case.left, *case.right)) >= 0.1
        assert share(cases, lambda case: len(case.left) == 1 or len(case.right) == 1) >= 0.03
        assert share(cases, lambda case: case.left[:-2] != case.right[:-2]) >= 0.05

    def test_the_smallest_is_a_plain_one(self) -> None:
        assert smallest(matrices.products(), lambda case: case.flops > 0) == Product(Way.MM, (2, 2), (2, 2))

    def test_broadcasts_stretch_on_both_sides(self) -> None:
        cases = drawn(matrices.broadcasts())
        assert share(cases, lambda case: case.left != case.right) >= 0.3
        assert share(cases, lambda case: len(case.left) < len(case.right)) >= 0.2
        assert share(cases, lambda case: math.prod(np.broadcast_shapes(case.left, case.right)) == 0) >= 0.05

    def test_layers_have_outputs_of_every_sign(self) -> None:
        layers = [case.build() for case in drawn(matrices.kinked_layers(), 100)]
        outputs = torch.cat([(x @ weight).detach().flatten() for x, weight, _ in layers])
        for sign in (-1, 0, 1):
            assert (outputs.sign() == sign).double().mean() >= 0.15


class TestSides:
    def test_both_kinds_of_elementwise_operation_are_many(self) -> None:
        assert all(case.flops_each == 1 for case in drawn(algorithms.single_operations(), 100))
        others = drawn(algorithms.other_operations(), 300)
        assert share(others, lambda case: case.flops_each == 0) >= 0.2
        assert share(others, lambda case: case.flops_each > 1) >= 0.2

    def test_steps_are_on_the_side_they_are_drawn_for(self) -> None:
        assert not any(case.recomputes for case in drawn(plans.plain_steps(), 100))
        assert all(case.recomputes for case in drawn(plans.checkpointed_steps(), 100))

    def test_models_are_on_the_side_they_are_drawn_for(self) -> None:
        assert all(case.meets_everything for case in drawn(plans.dense_models(), 100))
        sparse = drawn(plans.sparse_models())
        assert not any(case.meets_everything for case in sparse)
        assert share(sparse, lambda case: case.vocabulary > 1) >= 0.3
        assert share(sparse, lambda case: case.active < case.experts) >= 0.3


class TestPrograms:
    def test_every_kind_is_reached(self) -> None:
        assert {case.kind for case in drawn(programs.programs())} == set(Kind)

    def test_seen_and_overlooked_are_all(self) -> None:
        assert set(programs.SEEN) | set(programs.OVERLOOKED) == set(Kind)
        assert not set(programs.SEEN) & set(programs.OVERLOOKED)

    def test_building_a_module_draws_no_random_number(self) -> None:
        before = torch.get_rng_state()
        Program(Kind.LSTM).run()
        Program(Kind.MULTIHEAD_ATTENTION).run()
        assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    "case",
    [
        Product(Way.MATMUL, (2, 1, 3), (3,)),
        Chain(1, 2, 3, 4),
        IntegerProduct(2, 0, 3, seed=7),
        KinkedLayer(1, 2, 3),
        Computation("a softmax", (1, 2, 3)),
        Block(2, 1, 2, 3, Mask.FULL, Norm.RMS),
        ElementwiseCall("lerp", 2, 3),
        Step(2, (3, 3, 3), Checkpointing.REENTRANT),
        Run(10**6, 10**6, 1, 1, 50),
        Mixture(7, 2, 3, 1, (0, 6)),
        Program(Kind.SUM, (1, 2, 3)),
    ],
    ids=lambda case: type(case).__name__,
)
def test_descriptions_paste(case: object) -> None:
    assert eval(repr(case)) == case
    assert hash(eval(repr(case))) == hash(case)


def test_values_are_what_they_are_called() -> None:
    assert Values.ZEROS.fill((2, 3), 0).tolist() == [[0.0] * 3] * 2
    assert Values.ONES.fill((2,), 0).tolist() == [1.0, 1.0]
    assert set(Values.SMALL_INTEGERS.fill((400,), 0).tolist()) == set(range(-9, 10))


def test_a_run_takes_the_days_that_its_utilisation_gives() -> None:
    run = Run(70 * 10**9, 15 * 10**12, 1024, 989, 50)
    assert round(float(run.days()), 1) == 144.0
    assert run.days(2048) == run.days() / 2


class TestWitnesses:
    def test_agreement_is_silent(self) -> None:
        assert_agree(one=1, other=1)
        assert_agree(one=(1, 2), other=(1, 2), third=(1, 2))

    def test_the_one_that_stands_alone_is_named(self) -> None:
        with pytest.raises(AssertionError, match="one 1, other 2, third 1: other stands alone"):
            assert_agree(one=1, other=2, third=1)

    def test_of_two_and_of_three_different_ones_none_is_named(self) -> None:
        with pytest.raises(AssertionError, match="one 1, other 2: they differ"):
            assert_agree(one=1, other=2)
        with pytest.raises(AssertionError, match="one 1, other 2, third 3: they differ"):
            assert_agree(one=1, other=2, third=3)


def test_torchs_counter_counts_a_product() -> None:
    x = torch.ones(3, 4)
    assert counted_by_torch(lambda: x @ x.T) == 2 * 3 * 4 * 3


def test_importing_the_kernels_leaves_no_trace() -> None:
    environment, filters = dict(os.environ), list(warnings.filters)
    import_kernels.__wrapped__()
    assert dict(os.environ) == environment
    assert list(warnings.filters) == filters


def test_a_mended_counter_is_noticed_up_to_the_last_release_that_was_looked_at() -> None:
    program = Program(Kind.ATTENTION)
    done = program.count()
    assert program.due_of_torch(done, "2.13.0+cpu") == (0,)
    for later in ("2.14.0", "2.13.0.dev20260401+cpu"):
        assert done.matrix in program.due_of_torch(done, later)
    fused = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    with counting._formula(fused, lambda q, k, v, *rest, **named: 4 * q.numel() * k.shape[-2]):
        assert counted_by_torch(program.run) not in program.due_of_torch(done, "2.13.0+cpu")


def clamped_by_relu(y: torch.Tensor, min: float = 0.0) -> torch.Tensor:
    """A clamp whose slope at its end is zero."""
    return torch.nn.functional.relu(y - min) + min


def guarded_root(y: torch.Tensor) -> torch.Tensor:
    """A root whose slope is zero where there is none."""
    return torch.where(y > 0, y, torch.ones_like(y)) ** 0.5


@pytest.mark.parametrize(
    ("function", "name", "mended"),
    [
        (
            "test_a_rectifier_passes_nothing_where_its_input_is_negative_and_all_where_it_is_positive",
            "clamp",
            clamped_by_relu,
        ),
        ("test_a_branch_that_is_not_taken_needs_an_input_that_it_can_take", "sqrt", guarded_root),
    ],
)
def test_a_slope_that_this_release_does_not_take_is_noticed(
    function: str, name: str, mended: Any, found: Specification, monkeypatch: pytest.MonkeyPatch
) -> None:
    each = named(found, function)
    claim = found.claim(each.note)
    assert judge(each.function, each.note, claim, level=Level.QUICK, seed=0).agrees
    monkeypatch.setattr(torch, name, mended)
    assert judge(each.function, each.note, claim, level=Level.QUICK, seed=0).agrees is False
