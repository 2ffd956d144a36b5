"""Random weights and what passes through them: what the strategies reach, and that the predictions are right."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import torch
from scipy import special
from torch import nn

from properties import statistics
from properties.statistics import ENOUGH, alarm
from properties.strategies import initialisers
from properties.strategies.initialisers import (
    Attention,
    Bias,
    Components,
    Curve,
    Deep,
    Draws,
    Ensemble,
    Initialised,
    Kind,
    Law,
    Layers,
    Linear,
    Outputs,
    Recipe,
    Rule,
    Spelling,
    Told,
    Widened,
    Zeroed,
    numbers,
)
from properties.tests.drawing import drawn, share, smallest
from reference import initialisation


class TestDraws:
    def test_they_are_long_enough_and_of_all_ranks_and_formats(self) -> None:
        cases = drawn(initialisers.large_draws())
        assert all(ENOUGH <= math.prod(case.shape) <= 1.5 * ENOUGH for case in cases)
        assert {len(case.shape) for case in cases} == {1, 2, 3}
        assert min(Counter(case.dtype for case in cases).values()) >= 0.05 * len(cases)

    def test_a_seed_gives_the_same_numbers_and_leaves_torchs_generator_alone(self) -> None:
        before = torch.get_rng_state()
        case = Draws((2, 3), torch.float32, 7)
        assert torch.equal(case.build(), case.build())
        with initialisers.seeded(3):
            first = torch.rand(1)
        with initialisers.seeded(3):
            assert torch.equal(first, torch.rand(1))
        assert torch.equal(torch.get_rng_state(), before)

    @pytest.mark.parametrize("spelling", Spelling)
    def test_what_it_prints_builds_the_same(self, spelling: Spelling) -> None:
        case = Draws((2, 3), torch.float64, 7, spelling)
        with initialisers.seeded(7):
            assert torch.equal(eval(repr(case)), case.build())
        assert {each.spelling for each in drawn(initialisers.large_draws())} == set(Spelling)

    def test_every_small_size_is_drawn(self) -> None:
        assert len(initialisers.draws_of_every_small_size(0, 2)) == 2 * sum(range(1, 25))


class TestProducts:
    @pytest.mark.parametrize("case", [Components(0.0, 0.0, 0.0, 1), Components(1.0, -1.0, 0.5, 1)])
    def test_components_have_their_means_and_their_correlation(self, case: Components) -> None:
        x, y = (numbers(each) for each in case.build(200_000))
        assert [x.mean(), y.mean()] == pytest.approx([case.mean_x, case.mean_y], abs=0.02)
        assert np.cov(x, y) == pytest.approx(np.array([[1, case.correlation], [case.correlation, 1]]), abs=0.02)

    def test_all_others_have_a_variance_that_the_interval_leaves_out(self) -> None:
        interval = initialisers.product_interval(2 * ENOUGH, alarm(1, 25))
        assert interval.low < 0.95 < 1.05 < interval.high
        for case in drawn(initialisers.other_components(), 100):
            variance = initialisation.product_variance(case.mean_x, case.mean_y, case.correlation)
            assert variance >= 1.25 > interval.high + 0.12

    def test_standardised_outputs_are_the_weights_turned(self) -> None:
        x, w = initialisers.Product(3, 5, 20, 0).build()
        values = initialisers.standardised(x, x @ w)
        assert (values**2).sum() <= (numbers(w) ** 2).sum()
        one = initialisers.standardised(x[:1], x[:1] @ w)
        assert one == pytest.approx(numbers(x[0] @ w) / float(x[0].double().norm()), rel=1e-5)

    def test_narrow_and_wide_products_are_all_large_enough(self) -> None:
        cases = drawn(initialisers.products())
        assert share(cases, lambda case: case.inputs <= 16) >= 0.2
        assert share(cases, lambda case: case.inputs > 100) >= 0.2
        assert all(case.rows * case.outputs >= ENOUGH and case.rows <= case.inputs for case in cases)

    def test_the_slope_of_a_curve_is_that_of_a_straight_line(self) -> None:
        case = Curve(8, 0)
        (deviations,) = case.deviations()
        fitted = np.polyfit(np.log(case.widths), np.log(deviations), 1)
        assert case.slope(deviations) == pytest.approx(fitted[0])

    @pytest.mark.parametrize("narrowest", [8, 24])
    def test_chance_leaves_out_a_slope_that_is_off_by_an_eighth_to_a_sixth(self, narrowest: int) -> None:
        chance = Curve(narrowest, 0).chance(alarm(1, 20))
        assert -0.15 < chance.low < 0 < chance.high < 0.15


class TestDepth:
    def test_growing_nets_grow_with_all_but_certainty(self) -> None:
        """With ReLU, the smallest of them shrinks in a layer with a probability below 1e-16."""
        width = min(initialisers.WIDE)
        above = np.arange(width + 1)
        chances = np.exp(
            special.gammaln(width + 1) - special.gammaln(above + 1) - special.gammaln(width - above + 1)
        ) / (2.0**width)
        below_one = np.where(above == 0, 1.0, special.gammainc(np.maximum(above, 1) / 2, 1 / 2))
        assert (chances * below_one).sum() < 1e-16
        assert all(case.width >= width for case in drawn(initialisers.growing(), 100))

    def test_nets_that_need_not_grow_are_narrow_or_bounded(self) -> None:
        cases = drawn(initialisers.not_growing())
        assert all(case.kind is Kind.TANH or case.width <= 3 for case in cases)
        assert share(cases, lambda case: case.kind is Kind.TANH) >= 0.2
        shrinks = share(cases, lambda case: case.scales()[-1] <= case.scales()[0])
        assert 0.2 <= shrinks <= 0.9

    def test_a_net_that_is_kept_leaves_a_factor_of_four_with_a_probability_below_1e_12(self) -> None:
        """Chernoff for the product of the layers' factors, given that a quarter of each layer is above zero."""
        sizes = {(case.width, case.depth) for case in drawn(initialisers.kept(), 200)}
        assert len(sizes) == 6
        for width, depth in sizes:
            above = np.arange(width // 4, width + 1)
            chances = (
                special.gammaln(width + 1)
                - special.gammaln(above + 1)
                - special.gammaln(width - above + 1)
                - width * math.log(2)
            )
            tail = depth * special.bdtr(width // 4 - 1, width, 0.5)
            for tilt in (-0.4 * width / 4, 0.4 * width / 4):
                grown = special.gammaln(above / 2 + tilt) - special.gammaln(above / 2) + tilt * math.log(4 / width)
                bound = depth * special.logsumexp(chances + grown) - abs(tilt) * math.log(4)
                assert math.exp(bound) + tail < 1e-11, (width, depth, tilt)

    def test_lost_nets_are_deeper_than_wide(self) -> None:
        assert all(case.depth > case.width for case in drawn(initialisers.lost(), 100))

    def test_growths_multiply_to_what_comes_out(self) -> None:
        case = Deep(16, 5, Kind.LINEAR, Recipe.KAIMING, 0)
        squares = case.squares()
        assert math.prod(case.growths()) * (2 / 16) ** 5 == pytest.approx(squares[-1] / squares[0])
        assert case.scales()[0] == pytest.approx(math.sqrt(squares[0] / 16))

    def test_gradients_run_from_the_last_layer_to_the_data(self) -> None:
        case = Deep(4, 2, Kind.LINEAR, Recipe.UNIT, 0)
        _, (first, second) = case.build()
        last, middle, data = case.gradients()
        assert torch.allclose(middle, last @ second.T)
        assert torch.allclose(data, middle @ first.T)

    @pytest.mark.parametrize("recipe", Recipe)
    def test_a_recipe_has_the_variance_that_it_says(self, recipe: Recipe) -> None:
        weight = recipe.weight(300, initialisers.generator(0))
        assert (weight.double() ** 2).mean().item() == pytest.approx(recipe.variance(300), rel=0.05)

    @pytest.mark.parametrize("kind", [Kind.LINEAR, Kind.RELU, Kind.RESIDUAL])
    def test_the_interval_of_growth_is_around_what_is_seen(self, kind: Kind) -> None:
        interval = initialisers.growth_interval(kind, 64, 6, 1e-6)
        means = [sum(Deep(64, 6, kind, Recipe.UNIT, seed).growths()) for seed in range(20)]
        assert all(mean in interval for mean in means)
        assert max(means) > sum(means) / 20 > min(means)
        assert interval.high - interval.low < 12 * (max(means) - min(means))

    def test_the_growth_of_tanh_is_not_predicted(self) -> None:
        with pytest.raises(ValueError, match=r"the growth of Kind.TANH is not known"):
            initialisers.growth_interval(Kind.TANH, 64, 6, 1e-6)

    @pytest.mark.parametrize("width", [128, 256])
    def test_from_a_width_of_128_overflow_is_predicted_within_a_layer(self, width: int) -> None:
        layers = initialisers.overflowing_layers(Kind.LINEAR, width, 65504.0, alarm(4))
        predicted = initialisation.first_beyond(65504, width, math.sqrt(2 * math.log(width)))
        assert [layers[0], layers[-1]] == [predicted - 1, predicted + 1]

    def test_a_wider_range_overflows_later(self) -> None:
        half = initialisers.overflowing_layers(Kind.LINEAR, 64, 65504.0, 1e-9)
        single = initialisers.overflowing_layers(Kind.LINEAR, 64, 3e38, 1e-9)
        assert single[0] > half[-1]

    def test_networks_of_an_ensemble_are_independent_and_go_on_when_they_die(self) -> None:
        growths = Ensemble(1, 40, 50, 0).growths()
        assert growths.shape == (40, 50)
        assert 0.3 < (growths == 0).mean() < 0.7
        assert len(np.unique(growths[growths > 0])) == (growths > 0).sum()


class TestWeights:
    @pytest.mark.parametrize("law", Law)
    def test_a_law_accepts_its_own_and_refuses_five_percent(self, law: Law) -> None:
        rng = np.random.default_rng(0)
        half = initialisation.half_width(0.3)
        drawn_ = {
            Law.NORMAL: rng.normal(0, math.sqrt(0.3), ENOUGH),
            Law.UNIFORM: rng.uniform(-half, half, ENOUGH),
        }
        for each, values in drawn_.items():
            assert law.agrees(values, 0.3, alarm(10)) == (law is each)
        for factor in (0.95, 1.05):
            assert not law.agrees(drawn_[law] * math.sqrt(factor), 0.3, alarm(10))
            assert not law.agrees(drawn_[law], 0.3 * factor, alarm(10))
        assert not law.agrees(drawn_[law] + 0.04 * math.sqrt(0.3), 0.3, alarm(10))

    @pytest.mark.parametrize("law", Law)
    def test_the_interval_of_a_mean_square_is_that_of_its_law(self, law: Law) -> None:
        interval = law.variance_interval(ENOUGH, alarm(10))
        assert 0.96 < interval.low < 1 < interval.high < 1.04

    def test_a_layer_that_becomes_wider_has_the_variances_of_both(self) -> None:
        case = Widened(Rule.XAVIER, Law.UNIFORM, 20, 30, 3, Outputs.SAME, 0)
        assert case.variances() == pytest.approx((4 / 50, 4 / 90), rel=0.03)
        assert not case.inverse(alarm(10))

    def test_both_sides_reach_all_their_rules(self) -> None:
        falling = {(case.rule, case.then) for case in drawn(initialisers.widened((True,)))}
        others = {(case.rule, case.then) for case in drawn(initialisers.widened((False,)))}
        assert len(falling) == 4 and len(others) == 2 and not falling & others
        assert all(case.outputs >= case.inputs for case in drawn(initialisers.widened((False,)), 100))

    def test_initialised_weights_are_of_every_kind(self) -> None:
        cases = drawn(initialisers.initialised())
        assert {(case.rule, case.law) for case in cases} == {(rule, law) for rule in Rule for law in Law}
        assert {len(case.shape) for case in cases} == {2, 3, 4}
        assert {case.activation for case in cases} == set(initialisation.GAINS)
        assert smallest(initialisers.initialised(), lambda case: True).shape == (16, 16)
        assert len(Initialised(Rule.XAVIER, Law.NORMAL, (16, 16), "relu", 0).values()) == ENOUGH

    def test_gains_are_torchs(self) -> None:
        for activation, gain in initialisation.GAINS.items():
            assert nn.init.calculate_gain(activation) == pytest.approx(gain)  # type: ignore[arg-type]
        assert nn.init.calculate_gain("leaky_relu", 0.3) == pytest.approx(initialisation.leaky_gain(0.3))

    def test_every_kind_of_layer_is_drawn(self) -> None:
        cases = drawn(initialisers.defaults())
        kinds = Counter(type(case) for case in cases)
        assert len(kinds) == 9 and min(kinds.values()) >= 0.02 * len(cases)
        for case in cases[:60]:
            parameters = dict(case.module().named_parameters())
            assert {part.name for part in case.parts()} <= set(parameters)

    def test_what_is_wrong_with_a_layer_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert initialisers.defaults_agree(Linear(120, 100), 0, alarm(10)) == []
        assert initialisers.defaults_agree(Attention(2, 48), 0, alarm(10)) == []
        monkeypatch.setattr(Linear, "parts", lambda self: (initialisers._uniform("weight", self.inputs + 8),))
        assert initialisers.defaults_agree(Linear(120, 100), 0, alarm(10)) == ["weight"]

    def test_weights_that_are_told_their_place_lie_around_it(self) -> None:
        assert {(case.law, case.shift) for case in drawn(initialisers.told)} == {
            (law, shift) for law in Law for shift in (0, 1, -2)
        }
        values = Told(Law.UNIFORM, 100, 1, 0).values()
        assert abs(values).max() == pytest.approx(math.sqrt(3 / 100), rel=0.01)

    def test_truncated_weights_are_cut_or_not(self) -> None:
        cases = drawn(initialisers.truncated())
        assert {case.shift for case in cases} == {0, 1, -2}
        assert 0.2 <= share(cases, lambda case: case.ends > 10) <= 0.8
        for case in cases[:40]:
            interval = case.interval(alarm(10)) * (1 / ENOUGH)
            assert initialisation.truncated_variance(case.ends) in interval
            assert interval.high - interval.low < 0.08

    @pytest.mark.parametrize(
        ("release", "right"),
        [
            ("2.6.0", False),
            ("2.11.1+cpu", False),
            ("2.11.0a0+git1234", False),
            ("2.12.0.dev20260101", True),
            ("3.0.0", True),
        ],
    )
    def test_tails_are_drawn_again_from_2_12_on(self, release: str, right: bool) -> None:
        assert initialisers.resamples_tails(release) == right


class TestZeroed:
    def test_both_sides_are_of_every_kind(self) -> None:
        for strategy, stays in ((initialisers.zeroed(), True), (initialisers.not_zeroed(), False)):
            cases = drawn(strategy)
            assert all(case.stays_zero == stays for case in cases)
            assert min(Counter(case.layer for case in cases).values()) >= 0.03 * len(cases)
            assert len({case.dtype for case in cases}) == 3
        outside = drawn(initialisers.not_zeroed())
        assert 0.2 <= share(outside, lambda case: case.bias is not Bias.ZERO) <= 0.8

    @pytest.mark.parametrize("layer", Layers)
    def test_every_layer_gives_something_where_its_bias_is_one(self, layer: Layers) -> None:
        output = Zeroed(layer, 3, 2, Bias.ONE, torch.float32).output()
        assert output.numel() > 0 and bool((output != 0).any())


def test_deviations_of_draws_are_seen_at_the_sizes_that_are_drawn() -> None:
    assert statistics.detection(ENOUGH, 1.05, alarm(20)) >= statistics.POWER
    half = statistics.normal_sum(ENOUGH, alarm(5)).high + 3.1 * math.sqrt(ENOUGH)
    assert half / ENOUGH < 0.035
