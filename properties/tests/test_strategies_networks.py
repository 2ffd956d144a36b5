"""The networks, steps and losses that are drawn: what they reach, and that their answers are right."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest
import torch
from torch import nn

from properties.strategies import networks
from properties.strategies.networks import Activation, Chain, Footprint, Mlp, Precision, Regression, Training
from properties.tests.drawing import drawn, share, smallest


class TestMlps:
    def test_they_are_shallow_and_deep_with_and_without_everything(self) -> None:
        cases = drawn(networks.mlps())
        layers = Counter(len(case.widths) - 1 for case in cases)
        assert layers[1] >= 0.02 * len(cases)
        assert min(layers[2], layers[3]) >= 0.1 * len(cases)
        assert 0.2 <= share(cases, lambda case: case.bias) <= 0.8
        assert share(cases, lambda case: case.tied) >= 0.2
        assert share(cases, lambda case: case.frozen) >= 0.1
        assert {case.activation for case in cases} == set(Activation)

    def test_the_smallest_is_one_weight(self) -> None:
        assert smallest(networks.mlps(), lambda case: True).widths == (1, 1)

    def test_a_layer_at_least_is_trained(self) -> None:
        for case in drawn(networks.mlps(), 100):
            assert any(each.requires_grad for each in case.build().parameters())

    def test_frozen_layers_are_not_trained_and_tied_ones_share(self) -> None:
        first, _, second = Mlp((2, 3, 4), frozen=(1,)).build()
        assert [each.requires_grad for each in first.parameters()] == [True, True]
        assert [each.requires_grad for each in second.parameters()] == [False, False]
        tied = Mlp((3, 3, 3, 4), tied=True).build()
        assert tied[0].weight is tied[2].weight
        assert tied[0].bias is not tied[2].bias
        assert tied[4].weight is not tied[2].weight

    def test_building_leaves_the_generator_alone_and_repeats_itself(self) -> None:
        before = torch.get_rng_state()
        one, other = Mlp((3, 4, 2)).build(), Mlp((3, 4, 2)).build()
        assert torch.equal(torch.get_rng_state(), before)
        assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
        different = Mlp((3, 4, 2), seed=1).build()
        assert not torch.equal(next(one.parameters()), next(different.parameters()))

    def test_the_activation_stands_between_layers_only(self) -> None:
        kinds = [type(each) for each in Mlp((1, 2, 3, 4), activation=Activation.GELU).build()]
        assert kinds == [nn.Linear, nn.GELU, nn.Linear, nn.GELU, nn.Linear]

    def test_it_pastes(self) -> None:
        case = Mlp((3, 0), bias=False, activation=Activation.TANH, frozen=(0,))
        assert eval(repr(case)) == case


class TestTrainings:
    def test_every_optimizer_meets_every_kind_of_network_that_it_can_train(self) -> None:
        cases = drawn(networks.trainings(), 600)
        assert {case.optimizer for case in cases} == set(networks.OPTIMIZERS)
        assert share(cases, lambda case: 0 in case.network.widths) >= 0.05
        assert share(cases, lambda case: case.network.frozen) >= 0.1

    def test_a_step_tells_what_is_left(self) -> None:
        left = Training(Mlp((3, 4, 2)), "AdamW", 5).step()
        assert [tuple(each.shape) for each in left.parameters] == [(4, 3), (4,), (2, 4), (2,)]
        assert [each.shape for each in left.gradients] == [each.shape for each in left.parameters]
        assert {tuple(each.shape) for each in left.activations} >= {(5, 3), (5, 4)}
        assert [tuple(each.shape) for each in left.outputs] == [(5, 4), (5, 2)]
        assert Counter(name for name, _ in left.state) == {"step": 4, "exp_avg": 4, "exp_avg_sq": 4}

    def test_a_footprint_counts_each_storage_once(self) -> None:
        # Eight weights, their gradients, and three rows of four inputs and two outputs.
        one = Footprint(Mlp((4, 2), bias=False), 3, Precision.FLOAT32)
        assert one.bytes() == 4 * (8 + 8 + 12 + 6)
        tied = Footprint(Mlp((2, 2, 2), bias=False, activation=Activation.IDENTITY, tied=True), 3, Precision.FLOAT32)
        assert tied.bytes() == 4 * (4 + 4 + 6 + 6 + 6)

    def test_under_autocast_the_footprint_is_larger_and_smaller(self) -> None:
        cases = drawn(networks.mixed_footprints(), 60)
        less = share(cases, lambda case: case.bytes() < case.in_float32().bytes())
        assert 0.05 <= less <= 0.95


class TestChains:
    @pytest.mark.parametrize("smallest_exponent", [39, 133])
    def test_every_gradient_is_in_range_and_every_factor_a_number_of_float16(self, smallest_exponent: int) -> None:
        for case in drawn(networks.chains(smallest_exponent)):
            assert Fraction(1, 2**smallest_exponent) <= case.gradient() < Fraction(1, 2**25)
            factors = [case.significand / 128 * 2.0 ** -case.exponents[0]]
            factors += [2.0**-exponent for exponent in case.exponents[1:]]
            for factor in factors:
                assert torch.tensor(factor, dtype=torch.float16).item() == factor
                assert torch.tensor(factor, dtype=torch.bfloat16).item() == factor

    def test_gradients_reach_both_ends(self) -> None:
        cases = drawn(networks.vanishing_chains)
        assert share(cases, lambda case: case.gradient() < Fraction(1, 2**120)) >= 0.03
        assert share(cases, lambda case: case.gradient() > Fraction(1, 2**40)) >= 0.03

    def test_the_gradient_is_the_product_of_the_factors(self) -> None:
        case = Chain(192, (2, 3))
        assert case.gradient() == Fraction(3, 2 * 2**5)
        assert case.backward(torch.float32) == case.gradient()
        assert case.backward(torch.float16, scale=8.0) == 8 * case.gradient()


class TestRegressions:
    def test_training_comes_close_to_the_noise(self) -> None:
        task = Regression(3, 120, 0.2)
        assert task.train(Precision.FLOAT32) == pytest.approx(0.04, rel=0.3)
        assert task.noiseless().train(Precision.FLOAT32) < 0.001

    def test_rows_outnumber_features(self) -> None:
        cases = drawn(networks.regressions())
        assert all(case.rows >= 8 * case.width for case in cases)
        assert {case.width for case in cases} == set(range(1, 9))
        assert len(set(cases)) >= 0.9 * len(cases)


class TestPrecision:
    def test_only_mixed_precision_computes_in_another_format_than_it_keeps(self) -> None:
        for precision in Precision:
            with precision.arithmetic():
                assert torch.is_autocast_enabled("cpu") == (precision is Precision.MIXED)

    def test_a_step_of_sgd_subtracts_the_gradient(self) -> None:
        assert networks.stepped("SGD", torch.tensor([0.25, -1.0])).tolist() == [0.75, 2.0]
        assert networks.stepped("SGD", torch.tensor([0.25]), torch.tensor([4.0])).tolist() == [3.75]
